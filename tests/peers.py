"""Peers that are oracles of some tests, where they are installed and run."""

import signal
import subprocess
import sys
from functools import cache

import pytest

__all__ = ["ipctk", "torch"]


class _Peer:
    """A module that is loaded when a test first uses it; the test is skipped where it is not installed."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        if attribute.startswith("_"):  # pytest asks each name of a file for some: all would be skipped
            raise AttributeError(attribute)
        return getattr(self._loaded(), attribute)

    def _loaded(self):
        return pytest.importorskip(self._name, reason=f"{self._name}, the oracle, is not installed")


class _Toolkit(_Peer):
    """The IPC Toolkit; tests are skipped as well where its wheel is built for another processor."""

    def _loaded(self):
        if not _toolkit_runs():
            pytest.skip(f"the wheel of {self._name}, the oracle, is built for another processor")
        return super()._loaded()


@cache
def _toolkit_runs():
    """Whether it runs on this processor, tried in a process of its own, which may be killed by SIGILL.

    The wheel of 1.6.1 for Python 3.13 is, on a processor on which the one for 3.11 runs.
    """
    mesh = "ipctk.CollisionMesh(np.asfortranarray(np.eye(3)), ipctk.edges(face), face)"
    code = f"import ipctk, numpy as np; face = np.array([[0, 1, 2]], np.int32); {mesh}"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    return ended.returncode != -signal.SIGILL


torch = _Peer("torch")
ipctk = _Toolkit("ipctk")
