"""How kernels are spread over threads.

A kernel works on a range ``[start, stop)`` of independent items, so that :func:`run` can hand disjoint
ranges to threads: every item is computed by the same instructions whatever the split, and the result is
bit-identical for any number of threads. (Numba's own ``prange`` would need a threading layer that is safe
to call from several Python threads, which the one it ships everywhere is not.)
"""

import contextlib
import contextvars
import operator
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

from ..errors import InputError

__all__ = ["measured", "run", "thread_count", "threads"]

_requested_threads: contextvars.ContextVar[int | None] = contextvars.ContextVar("threads", default=None)
_seconds: contextvars.ContextVar[dict[str, float] | None] = contextvars.ContextVar("seconds", default=None)


def thread_count() -> int:
    """How many threads :func:`run` uses: :func:`threads`, else POINTGLUE_NUM_THREADS, else every core."""
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
    """Name a wrong number of threads even where one thread does: once, as looking takes 2 us."""
    thread_count()


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Use `count` threads within the ``with`` block. Results do not depend on it."""
    if isinstance(count, bool) or not hasattr(count, "__index__") or count < 1:
        raise InputError(f"count must be a whole number of at least 1, got {count!r}")
    token = _requested_threads.set(operator.index(count))
    try:
        yield
    finally:
        _requested_threads.reset(token)


@cache
def _pool(workers: int, _process: int) -> ThreadPoolExecutor:
    """One pool per size and per process: threads do not survive a fork."""
    return ThreadPoolExecutor(workers, thread_name_prefix="pointglue")


@contextlib.contextmanager
def measured() -> Iterator[dict[str, float]]:
    """Gives a dictionary of the seconds by the clock that each kernel takes within the ``with`` block.

    By name, "glue.kernels.fit_positions"; with what calling them costs, and compiling them the first time.
    """
    spent: dict[str, float] = {}
    token = _seconds.set(spent)
    try:
        yield spent
    finally:
        _seconds.reset(token)


def run(function: Callable[..., Any], count: int, grain: int, *arguments: Any) -> None:
    """Call ``function(start, stop, *arguments)`` over ``range(count)``, split between threads.

    `grain` is the least number of items worth a thread of its own. The caller's thread takes the
    first part itself, so a small job never pays for a hand-over.
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
