"""Waiting for something to come about, with a deadline that a busy machine meets, and for kernels."""

import time

__all__ = ["COMPILING", "DEADLINE", "wait_until"]

DEADLINE = 180.0  # s: never met by what works, whatever else the machine has to do
# What a process says, once, that is the first on a machine to need a kernel, and waits for it.
COMPILING = "pointglue: compiling kernels (first run only, cached on disk) ...\n"


def wait_until(condition, saw, seconds=DEADLINE):
    """Return what `condition()` returns as soon as it is true.

    `saw()` tells what is there instead if it never is. It is a function, since what it tells is wanted at
    the end of the wait.
    """
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not so after {seconds:g} s; instead: {saw()}"
        time.sleep(0.01)
    return found
