"""Signals that end a command as Ctrl-C does, so that the work done so far is kept."""

import os
import shlex
import signal
import sys
import threading
from _thread import interrupt_main
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from types import FrameType
from typing import Any, Self

from ..compute import before_compilation

__all__ = ["ENDING", "Ending", "deferred", "stoppable"]

ENDING = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows has no SIGHUP
"""The signals of Ctrl-C, of a scheduler or a shutdown, and of a terminal that is closed."""
REPEAT_WINDOW = 2.0  # s after the first signal, within which others are taken for repeats of it
RETRY_DELAY = 0.01  # s after which an exception that was lost is raised again, when its finaliser has ended


class Ending:
    """A context in which the signals that end a process raise KeyboardInterrupt.

    Schedulers and terminals often send several at once. Those that come soon after the first raise nothing,
    so that they do not prevent the last frame from being written; a later one interrupts that as well, which
    leaves every file complete. Signals that are ignored stay ignored, as nohup needs it.

    Finalisers and callbacks of libraries cannot pass an exception on: one that is raised there is lost, and
    the command would go on to its end. It is raised again a moment later.

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
        self._hook_before = sys.unraisablehook
        self._retries: list[threading.Thread] = []
        self._deferred, self._raised, self._lost, self._losing = False, False, False, False

    def __enter__(self) -> Self:
        _active.append(self)
        for one in ENDING:
            if signal.getsignal(one) is not signal.SIG_IGN:
                self._before[one] = signal.signal(one, self._end)
        self._hook_before, sys.unraisablehook = sys.unraisablehook, self._retry
        return self

    def __exit__(self, *_: object) -> None:
        sys.unraisablehook = self._hook_before
        self._lost = False
        for retry in self._retries:
            retry.join()  # or it would signal to whoever handles signals then
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
        elif self._lost:
            if self._losing:
                return
            self._lost, self._raised = False, False
            if self._deferred:
                return
        elif self._clock() - self._arrived < REPEAT_WINDOW:
            return
        self._raised = True
        raise KeyboardInterrupt

    def _retry(self, what: "sys.UnraisableHookArgs") -> None:
        """Raise an interruption that was lost once more; report other errors as before."""
        if self.first is None or not issubclass(what.exc_type, KeyboardInterrupt):
            self._hook_before(what)
            return
        self._lost, self._losing = True, True
        self._retries.append(threading.Thread(target=self._raise_again, daemon=True))
        self._retries[-1].start()
        self._losing = False  # until here an exception would be lost as well

    def _raise_again(self) -> None:
        while self._lost:
            sleep(RETRY_DELAY)
            interrupt_main(self.first or signal.SIGINT)


_active: list[Ending] = []  # signals belong to the whole process, and so does this


@contextmanager
def deferred() -> Iterator[Callable[[], None]]:
    """Let the first signal wait until the function that is yielded is called, or the context ends.

    It is also called before a kernel is compiled, which may take many seconds.

    Interrupted at any moment, a command was seen to go on for ever, and another to abort, probably because
    the exception was raised in a callback of LLVM, which cannot pass it on, while a kernel was loaded. Only
    signals that an :class:`Ending` handles wait, and only in the main thread, which receives them.
    """
    if not _active or threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    with _active[-1].defer() as check, before_compilation(check):
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
