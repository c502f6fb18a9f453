"""Peers that are oracles of some tests, where they are installed."""

import pytest

__all__ = ["torch"]


class _Peer:
    """A module that is loaded when a test first uses it; the test is skipped where it is not installed."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        reason = f"{self._name}, the oracle, is not installed"
        return getattr(pytest.importorskip(self._name, reason=reason), attribute)


torch = _Peer("torch")
