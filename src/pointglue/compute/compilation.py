"""How kernels are compiled: with `simd`, the one place that knows numba.

A kernel is a plain loop over arrays, compiled on first use and cached on disk.
"""

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numba
from numba.core import event

__all__ = ["before_compilation", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a function with numba.

    ``error_model="numpy"``: a division may give inf or nan instead of raising, and without that
    check LLVM vectorises the loop. ``contract`` allows fused multiply-add and nothing else: sums
    are never reordered.

    ``forceinline``: kernels become part of those that call them. Otherwise each caller carries a
    weak copy of its own, optimised with it and so rounded differently; which copy runs is a matter
    of which was loaded first, and a run from the disk cache would differ in the last bits from the
    run that filled it.

    Parameters
    ----------
    function : callable
        A plain loop over arrays. Beyond six arguments they travel in NamedTuples of arrays and numbers.

    Returns
    -------
    callable
        The same, compiled on the first call for each combination of types.
    """
    compiled: F = numba.njit(
        cache=True, nogil=True, error_model="numpy", fastmath={"contract"}, forceinline=True
    )(function)
    return compiled


@contextmanager
def before_compilation(check: Callable[[], object]) -> Iterator[None]:
    """Call a function before each of our kernels that is compiled in this context, in the main thread.

    It may raise an exception, after which the kernel can be compiled again: a computation that is to be given
    up need not wait for all kernels that it would compile.

    Parameters
    ----------
    check : callable
        The function.
    """
    _compilation.checks.append(check)
    try:
        yield
    finally:
        _compilation.checks.remove(check)


class _Compilation(event.Listener):  # type: ignore[misc]
    """A listener that watches numba compile our kernels (a hit in the disk cache does not come here).

    It says so once per process, so that the user knows what the pause is, and it lets LLVM combine
    independent scalar operations into vector ones, which numba leaves off by default: sums over the points of
    a small group become 2.5 times faster. Numba holds its compiler lock all the while, so nobody
    else's function is compiled under that setting.

    The garbage collector rests while a kernel is compiled: a compiler makes many objects and few cycles, and
    looking for these took a sixth of the time.
    """

    def __init__(self) -> None:
        self.said = False
        self.checks: list[Callable[[], object]] = []
        self.settings: list[int] = []  # compiling one function may start on the next it calls
        self.collects = False

    def on_start(self, event: Any) -> None:
        """Set the options for a function that numba begins with."""
        if not self.settings and threading.current_thread() is threading.main_thread():
            for check in self.checks:
                check()
        if not self.settings and gc.isenabled():
            self.collects = True
            gc.disable()
        self.settings.append(numba.config.SLP_VECTORIZE)
        # Functions made by exec have no module; an error in here would be theirs to suffer.
        module = getattr(getattr(event.data.get("dispatcher"), "py_func", None), "__module__", None) or ""
        ours = module.startswith("pointglue.")
        numba.config.SLP_VECTORIZE = 1 if ours else self.settings[0]
        if ours and not self.said:
            self.said = True
            print(
                "pointglue: compiling kernels (first run only, cached on disk) ...",
                file=sys.stderr,
                flush=True,
            )

    def on_end(self, event: Any) -> None:
        """Restore the options after a function, of which a check may have prevented the start."""
        if self.settings:
            numba.config.SLP_VECTORIZE = self.settings.pop()
        if not self.settings and self.collects:
            self.collects = False
            gc.enable()


_compilation = _Compilation()
event.register("numba:compile", _compilation)
