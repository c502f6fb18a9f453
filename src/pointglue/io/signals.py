"""Signals that end a command as Ctrl-C does, so that the work done so far is kept."""

import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import Any, Self

__all__ = ["ENDING", "Ending", "deferred", "stoppable"]

ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows has no SIGHUP
"""The signals of Ctrl-C, of a scheduler or a shutdown, and of a terminal that is closed."""
REPEAT_WINDOW = 2.0  # s after the first signal, within which others are taken for repeats of it


class Ending:
    """A context in which the signals that end a process raise KeyboardInterrupt.

    Schedulers and terminals often send several at once. Those that come soon after the first raise nothing,
    so that they do not prevent the last frame from being written; a later one interrupts that as well, which
    leaves every file complete. Signals that are ignored stay ignored, as nohup needs it.

    Parameters
    ----------
    clock : callable
        The time [s], from any origin.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.first: signal.Signals | None = None
        """The first signal that has arrived, if any has."""
        self._clock, self._arrived = clock, 0.0
        self._before: dict[signal.Signals, Any] = {}
        self._deferred, self._raised = False, False

    def __enter__(self) -> Self:
        _active.append(self)
        for one in ENDING:
            if signal.getsignal(one) is not signal.SIG_IGN:
                self._before[one] = signal.signal(one, self._end)
        return self

    def __exit__(self, *_: object) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)
        self._before.clear()
        _active.remove(self)

    @contextmanager
    def defer(self) -> Iterator[Callable[[], None]]:
        """Defer signals; see :func:`deferred`."""
        self._deferred = True
        try:
            yield self._check
        finally:
            self._deferred = False
        self._check()

    def _check(self) -> None:
        if self.first is not None and not self._raised:
            self._raised = True
            raise KeyboardInterrupt

    def _end(self, number: int, frame: FrameType | None) -> None:
        if self.first is None:
            self.first, self._arrived = signal.Signals(number), self._clock()
            if self._deferred:
                return
        elif self._clock() - self._arrived < REPEAT_WINDOW:
            return
        self._raised = True
        raise KeyboardInterrupt


_active: list[Ending] = []  # signals belong to the whole process, and so does this


@contextmanager
def deferred() -> Iterator[Callable[[], None]]:
    """Let the first signal wait until the function that is yielded is called, or the context ends.

    Interrupted at any moment, a command was seen to go on for ever, and another to abort, probably because
    the exception was raised in a callback of LLVM, which cannot pass it on, while a kernel was loaded. Only
    signals that an :class:`Ending` handles wait, and only in the main thread, which receives them.
    """
    if not _active or threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    with _active[-1].defer() as check:
        yield check


@contextmanager
def stoppable(
    done: Callable[[], str], again: Callable[[], Iterable[str]] = lambda: sys.argv[1:]
) -> Iterator[None]:
    """Let signals end a command of pointglue as Ctrl-C does, with the exit code that shells use for them.

    Parameters
    ----------
    done : callable
        Returns how far the command has come, for the message: "after frame 12".
    again : callable
        Returns the arguments that resume it; by default those of this command.
    """
    ending = Ending()
    try:
        with ending:
            yield
    except BaseException:  # a signal may surface as another error, such as that of a closed terminal
        if ending.first is None:
            raise
        command = " ".join(map(shlex.quote, ["pointglue", *again()]))
        _print_warning(f"pointglue: stopped {done()}. Go on with: {command}")
        raise SystemExit(128 + ending.first) from None


def _print_warning(text: str) -> None:
    """Print a warning to a terminal that may be closed, as it is after SIGHUP."""
    import typer  # here for the sake of start-up time

    try:
        typer.secho(text, fg="yellow", err=True)
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)  # or Python would fail at its exit, with another exit code
