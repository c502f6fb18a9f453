"""A launcher calls kernels as they are called themselves, by one thread or several."""

from typing import NamedTuple

import numpy as np

import pointglue
from pointglue.compute import kernel, measured
from pointglue.compute.launching import Launcher


class Both(NamedTuple):
    x: np.ndarray
    y: np.ndarray


@kernel
def scale(start, stop, factor, both):
    for k in range(start, stop):
        both.y[k] = factor * both.x[k]


@kernel
def total(both):
    return both.x.sum()


def test_kernels_do_what_they_do_when_called():
    launcher, both = Launcher(), Both(np.arange(1000.0), np.zeros(1000))
    for factor in (2.0, 3.0):
        for threads in (1, 3):
            both.y[:] = 0
            with pointglue.threads(threads):
                launcher.run(scale, 1000, 10, factor, both)
            np.testing.assert_array_equal(both.y, factor * both.x)
    assert launcher.call(total, both) == launcher.call(total, both) == 499500.0
    assert len(scale.signatures) == 1


def test_kernels_are_measured_by_their_names():
    launcher, both = Launcher(), Both(np.arange(10.0), np.zeros(10))
    with measured() as seconds:
        launcher.run(scale, 10, 1000, 2.0, both)
        launcher.run(scale, 10, 1000, 2.0, both)
    assert [name.split(".")[-1] for name in seconds] == ["scale"]


def test_functions_that_are_not_compiled_are_called_too():
    both = Both(np.arange(10.0), np.zeros(10))
    Launcher().run(scale.py_func, 10, 1000, 2.0, both)
    np.testing.assert_array_equal(both.y, 2 * both.x)
