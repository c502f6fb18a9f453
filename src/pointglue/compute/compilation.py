"""How kernels are compiled: with `simd`, the one place that knows numba.

A kernel is a plain loop over arrays, compiled on first use and cached on disk.
"""

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import numba
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from ..errors import PointglueError
from ..files import lock

__all__ = ["before_compilation", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])

# s: how long a process waits for another one that compiles the same function, which may have been suspended
COMPILATION_PATIENCE = 120.0
# what numba is told of each kernel; `kernel` says why
OPTIONS = {
    "nopython": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract"},
    "forceinline": True,
    "no_cfunc_wrapper": True,
}


def kernel(function: F) -> F:
    """Compile a function with numba.

    ``error_model="numpy"``: a division may give inf or nan instead of raising, and without that
    check LLVM vectorises the loop. ``contract`` allows fused multiply-add and nothing else: sums
    are never reordered.

    ``forceinline``: kernels become part of those that call them. Otherwise each caller carries a
    weak copy of its own, optimised with it and so rounded differently; which copy runs is a matter
    of which was loaded first, and a run from the disk cache would differ in the last bits from the
    run that filled it.

    ``no_cfunc_wrapper``: kernels are called from Python and from each other, never from C. To compile
    the entry for C as well took a fourteenth of the time.

    Parameters
    ----------
    function : callable
        A plain loop over arrays. Beyond six arguments they travel in NamedTuples of arrays and numbers.

    Returns
    -------
    callable
        The same, compiled on the first call for each combination of types.
    """
    if numba.config.DISABLE_JIT:
        return function
    compiled: F = _Dispatcher(py_func=function, targetoptions=dict(OPTIONS))
    return compiled


class _BusyError(PointglueError):
    """Another process compiles the function."""


class _SharedCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of a function on disk, for processes that begin together.

    One compiles the function, and the others wait for what it has saved. Each would do the same work
    otherwise; and where two save the same function for other types at once, numba may file the machine code
    of one under the types of the other.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        name = f"{function.__module__}.{function.__qualname__}-{function.__code__.co_firstlineno}"
        self._lock_path = Path(self.cache_path, f".{name}.lock")
        self._lock: IO[bytes] | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function, or None once it is for this process to compile it."""
        found = super().load_overload(sig, target_context)
        if found is None and self._lock is None and self._locked():
            found = super().load_overload(sig, target_context)
            if found is not None:
                self.release()
        return found

    def _locked(self) -> bool:
        """Wait until no other process compiles the function; return whether none of them can begin to."""
        end = time.monotonic() + COMPILATION_PATIENCE
        while time.monotonic() < end:
            _compilation.check()
            try:
                self._lock_path.parent.mkdir(parents=True, exist_ok=True)
                self._lock = lock(self._lock_path, _BusyError())
                return True
            except _BusyError:
                continue
            except (OSError, PointglueError):  # nothing can be written there
                break
        return False

    def release(self) -> None:
        """Let other processes compile the function, or load it."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


class _Dispatcher(CPUDispatcher):  # type: ignore[misc]
    """A kernel: numba's compiled function, with a cache that is shared."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._cache = _SharedCache(self.py_func)

    def compile(self, sig: Any) -> Any:
        """Compile the function for one combination of types, or load it."""
        with global_compiler_lock:
            try:
                return super().compile(sig)
            finally:  # saved, or failed
                self._cache.release()


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

    def check(self) -> None:
        """Call the functions that may raise an exception instead of a compilation, in the main thread."""
        if threading.current_thread() is threading.main_thread():
            for check in self.checks:
                check()

    def on_start(self, event: Any) -> None:
        """Set the options for a function that numba begins with."""
        if not self.settings:
            self.check()
        if not self.settings and gc.isenabled():
            self.collects = True
            gc.disable()
        self.settings.append(numba.config.SLP_VECTORIZE)
        # Functions made by exec have no module; an error in here would be theirs to suffer.
        module = getattr(getattr(event.data["dispatcher"], "py_func", None), "__module__", None) or ""
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
