"""The link between pages and the session: one thread works, and every page is updated at its own pace."""

import asyncio
import queue
import threading
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

from pydantic import ValidationError

from ...errors import PointglueError
from ..protocol import commands as messages
from ..protocol import replies
from ..protocol.wire import pack
from .session import Session

__all__ = ["Hub", "Page", "without_overtaken"]

# Commands of which, if several wait, only the last has an effect.
_MOVES = (messages.DragHandle, messages.Scrub, messages.Pull)
MOST_WAITING = 1000  # commands: far more than a person gives while one is carried out


class Page:
    """A browser tab: what it has been sent, and what it is still to be sent.

    Parameters
    ----------
    loop : asyncio.AbstractEventLoop
        The loop that sends.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.wake = asyncio.Event()
        self.quantise = False
        self.greeted = False
        """Whether the page has said hello; before, it is sent no update."""
        self.sent = 0
        """The number of the last change that was sent."""
        self.acknowledged = 0
        """The number of the last change that the page has acknowledged."""
        self.outbox: deque[str] = deque()

    def tell(self, *replies: Any) -> None:
        """Send replies as soon as possible; may be called from any thread."""
        self.outbox.extend(reply.model_dump_json() for reply in replies)
        self.rouse()

    def rouse(self) -> None:
        """Let the page be sent what is new; may be called from any thread."""
        with suppress(RuntimeError):  # the server is shutting down
            self._loop.call_soon_threadsafe(self.wake.set)


class Hub:
    """The session, the thread that works on it, and its pages.

    Parameters
    ----------
    session : Session
        The session, which the hub closes.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.pages: set[Page] = set()
        self._commands: queue.Queue[tuple[Page, Any] | None] = queue.Queue(MOST_WAITING)
        self._waiting_count = _Counter()
        session.interrupted = self._waiting_count
        self._dragging_page: Page | None = None
        self._thread = threading.Thread(target=self._work, name="pointglue studio", daemon=True)
        self._thread.start()

    def receive(self, page: Page, text: str | bytes) -> None:
        """Take a message of a page."""
        try:
            command = messages.parse_command(text)
        except ValidationError as error:
            page.tell(replies.Note(level="error", text=_description(error)), replies.Done())
            return
        if isinstance(command, messages.Hello):
            page.quantise, page.greeted, page.sent, page.acknowledged = command.quantise, True, 0, 0
            page.rouse()
        elif isinstance(command, messages.Ack):
            if command.number == page.sent:  # not that of an update from before it said hello again
                page.acknowledged = command.number
                page.rouse()
        else:
            try:
                self._commands.put_nowait((page, command))
                self._waiting_count.add(_interrupts(command))
            except queue.Full:
                note = replies.Note(level="error", text="Too much at once: some clicks were not heard.")
                page.tell(note, replies.Done())

    def left(self, page: Page) -> None:
        """Forget a page that has left; may be called from any thread."""
        self.pages.discard(page)
        with suppress(queue.Full):
            self._commands.put_nowait((page, None))

    def update(self, page: Page) -> bytes | None:
        """Return the update to send to a page, None before its hello and while it is busy with another."""
        waits = not page.greeted or page.acknowledged != page.sent
        if waits or page.sent == self.session.replica.count:
            return None
        number, clock, state, arrays = self.session.replica.since(page.sent)
        page.sent = number
        return pack(number, clock, state, arrays, quantise=page.quantise)

    def close(self) -> None:
        """Stop the thread, and close the session."""
        self._commands.put(None)
        self._waiting_count.add(1)  # never subtracted: a frame under way is given up
        self._thread.join(30)
        self.session.close()

    def _work(self) -> None:
        """Carry out commands and show frames until the hub is closed."""
        wait = 0.0
        while True:
            batch = self._next_batch(wait)
            if batch is None:
                return
            for page, command, last in without_overtaken(batch):
                self._waiting_count.add(
                    -_interrupts(command)
                )  # from here on, only those after it are waiting
                if last:
                    self._do(page, command)
                    self._rouse()
                else:
                    page.tell(replies.Done())
            wait = self._guarded(self.session.tick, None) or 0.0
            self._rouse()

    def _do(self, page: Page, command: Any) -> None:
        """Carry out a command of a page; None releases what a page that has left was dragging."""
        if command is None:
            if self._dragging_page is page:
                self._guarded(self.session.release, None)
            return
        answers = self._guarded(partial(self.session.apply, command), page)
        if answers is not None and isinstance(command, messages.Grab | messages.DragHandle):
            self._dragging_page = page
        page.tell(*(answers or ()), replies.Done())

    def _next_batch(self, seconds: float) -> list[tuple[Page, Any]] | None:
        """Return all waiting commands, after at most some seconds; None once the hub is closed."""
        batch = []
        try:
            item = self._commands.get(timeout=seconds) if seconds > 0 else self._commands.get_nowait()
            while item is not None:
                batch.append(item)
                item = self._commands.get_nowait()
            return None
        except queue.Empty:
            return batch

    def _guarded(self, work: Callable[[], Any], page: Page | None) -> Any:
        """Return the result of some work; an error is told to the page, or to all of them for None."""
        try:
            return work()
        except PointglueError as error:
            note = replies.Note(level="error", text=str(error))
        except MemoryError:
            note = replies.Note(level="error", text="That needs more memory than there is.")
        except Exception as error:
            traceback.print_exc()
            note = replies.Note(level="error", text=f"Something unforeseen went wrong: {error!r}")
        for each in list(self.pages) if page is None else [page]:
            each.tell(note)
        return None

    def _rouse(self) -> None:
        """Send notes and updates to all pages."""
        notes = self.session.take_notes()
        for page in list(self.pages):
            page.tell(*notes)


class _Counter:
    """A counter for several threads; calling it returns whether it is above zero."""

    def __init__(self) -> None:
        self._lock, self._value = threading.Lock(), 0

    def add(self, amount: int) -> None:
        """Add an amount, which may be negative."""
        with self._lock:
            self._value += amount

    def __call__(self) -> bool:
        return self._value > 0


def _interrupts(command: Any) -> int:
    """Return 1 for a command that a frame under way is given up for, and 0 for others.

    Pulls follow each other so fast that no frame would ever end. None stands for a page that has left.
    """
    return 0 if command is None or isinstance(command, messages.Pull) else 1


def without_overtaken(batch: list[tuple[Page, Any]]) -> list[tuple[Page, Any, bool]]:
    """Return the commands of a batch, with whether each has to be carried out.

    A move that is followed at once by another move of the same thing has not.
    """
    overtaken = [_overtaken(*one, *other) for one, other in pairwise(batch)] + [False]
    return [(*one, not late) for one, late in zip(batch, overtaken[: len(batch)], strict=True)]


def _overtaken(page: Page, command: Any, next_page: Page, following: Any) -> bool:
    """Return whether the following command makes a move superfluous."""
    return (
        isinstance(command, _MOVES)
        and next_page is page
        and type(following) is type(command)
        and not getattr(command, "done", False)
        and getattr(command, "handle", "") == getattr(following, "handle", "")
    )


def _description(error: ValidationError) -> str:
    """Return what is wrong with a message."""
    first = error.errors(include_url=False)[0]
    where, value = ".".join(str(part) for part in first["loc"]), repr(first["input"])
    what = f"{first['msg'][0].lower()}{first['msg'][1:]}"
    return f"{_short(where, 100)}: {_short(what, 200)}, got {_short(value, 60)}"


def _short(text: str, most: int) -> str:
    """Return a text cut to at most `most` characters."""
    return text if len(text) <= most else text[: most - 3] + "..."
