"""How kernels are spread over threads.

A kernel works on a range ``[start, stop)`` of independent items, so that :func:`run` can hand disjoint
ranges to threads: every item is computed by the same instructions whatever the split, and the result is
bit-identical for any number of threads. (Numba's own ``prange`` would need a threading layer that is safe
to call from several Python threads, which the one it ships everywhere is not.)
"""

import contextlib
import contextvars
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

from ..checks import check_integer
from ..errors import InputError

__all__ = ["measured", "run", "thread_count", "threads"]

_requested_threads: contextvars.ContextVar[int | None] = contextvars.ContextVar("threads", default=None)
_seconds: contextvars.ContextVar[dict[str, float] | None] = contextvars.ContextVar("seconds", default=None)


def thread_count() -> int:
    """Return how many threads :func:`run` uses.

    The number is that of :func:`threads`, else POINTGLUE_NUM_THREADS, else the number of cores.

    Returns
    -------
    int

    Raises
    ------
    InputError
        If POINTGLUE_NUM_THREADS is no whole number of at least 1.
    """
    requested = _requested_threads.get()
    if requested is not None:
        return requested
    text = os.environ.get("POINTGLUE_NUM_THREADS", "")
    if not text:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"POINTGLUE_NUM_THREADS must be a whole number of at least 1, got {text!r}")
    return int(text)


@cache
def _check_environment() -> None:
    """Raise for a wrong number of threads even where one thread does: once, since looking takes 2 us."""
    thread_count()


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Use so many threads within the ``with`` block; results do not depend on it.

    Parameters
    ----------
    count : int
        The number of threads.

    Raises
    ------
    InputError
        If it is no whole number of at least 1.

    Examples
    --------
    >>> with threads(1):
    ...     print(thread_count())
    1
    """
    token = _requested_threads.set(check_integer("count", count, at_least=1))
    try:
        yield
    finally:
        _requested_threads.reset(token)


@cache
def _pool(workers: int, _process: int) -> ThreadPoolExecutor:
    """Return the pool of a size and a process: threads do not survive a fork."""
    return ThreadPoolExecutor(workers, thread_name_prefix="pointglue")


@contextlib.contextmanager
def measured() -> Iterator[dict[str, float]]:
    """Measure the wall-clock time that each kernel takes within the ``with`` block.

    Yields
    ------
    dict of str to float
        Seconds by the name of the kernel, say "procrustes.kernels.fit", with all that calling it costs, and
        compiling it the first time.
    """
    spent: dict[str, float] = {}
    token = _seconds.set(spent)
    try:
        yield spent
    finally:
        _seconds.reset(token)


def run(function: Callable[..., Any], count: int, grain: int, *arguments: Any) -> None:
    """Call ``function(start, stop, *arguments)`` over ``range(count)``, split between threads.

    The caller's thread takes the first part itself, so a small job never pays for a hand-over.

    Parameters
    ----------
    function : callable
        A kernel over a range of independent items.
    count : int
        The number of items.
    grain : int
        The least number of items worth a thread of its own.
    *arguments
        What the kernel takes besides the range: arrays, numbers and records of them.
    """
    spent = _seconds.get()
    if spent is None:
        _split(function, count, grain, *arguments)
        return
    begin = time.perf_counter()
    _split(function, count, grain, *arguments)
    name = f"{function.__module__.removeprefix('pointglue.')}.{function.__name__}"
    spent[name] = spent.get(name, 0.0) + time.perf_counter() - begin


def _split(function: Callable[..., Any], count: int, grain: int, *arguments: Any) -> None:
    """Split the range between threads and wait for all of them."""
    parts = count // max(grain, 1)
    if parts > 1:
        parts = min(thread_count(), parts)
    else:
        _check_environment()
    if parts <= 1:
        function(0, count, *arguments)
        return
    bounds = [count * part // parts for part in range(parts + 1)]
    others: list[Future[Any]] = []
    try:
        for start, stop in pairwise(bounds[1:]):
            try:
                others.append(_pool(parts - 1, os.getpid()).submit(function, start, stop, *arguments))
            except RuntimeError:  # the interpreter is shutting down, or there are no more threads
                function(start, stop, *arguments)
        function(bounds[0], bounds[1], *arguments)
    finally:
        # Waited for even after Ctrl-C: the threads write into the caller's arrays.
        for other in others:
            other.result()
