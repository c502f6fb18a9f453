"""A line that says what is being done, for those who wait for it at a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

__all__ = ["waiting"]

PATIENCE = 1.0  # s: what takes less is over before one could read the line


@contextmanager
def waiting() -> Iterator[Callable[[str], object]]:
    """Yield a function that is told what is being done, which a line on the terminal shows after a second.

    The line is gone in the end; nothing is written where standard error is no terminal.
    """
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console

    status = Console(stderr=True).status("reading")
    timer = Timer(PATIENCE, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda text: status.update(text + " ...")
    finally:
        timer.cancel()
        timer.join()
        status.stop()
