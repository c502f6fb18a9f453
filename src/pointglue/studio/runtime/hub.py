"""Between pages and the session: one thread works on it, and every page gets updates at its own pace."""

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

__all__ = ["Hub", "Page"]

# Of commands like these that wait, only the last of a kind counts.
_LATEST = (messages.DragHandle, messages.Scrub, messages.Pull)
MOST_WAITING = 1000


class Page:
    """One browser tab: what it has seen, and what is to be sent to it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.wake = asyncio.Event()
        self.quantise = False
        self.seen = 0
        """The number of the last change that was sent."""
        self.shown = 0
        """The number of the last change that the page has shown."""
        self.told: deque[str] = deque()

    def tell(self, *replies: Any) -> None:
        """Send texts as soon as possible; from any thread."""
        self.told.extend(reply.model_dump_json() for reply in replies)
        self.rouse()

    def rouse(self) -> None:
        """There may be something new; from any thread."""
        with suppress(RuntimeError):  # the server is shutting down
            self._loop.call_soon_threadsafe(self.wake.set)


class Hub:
    """The session, its thread and its pages."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.pages: set[Page] = set()
        self._commands: queue.Queue[tuple[Page, Any] | None] = queue.Queue(MOST_WAITING)
        self._pressing = _Count()
        session.interrupted = self._pressing
        self._holder: Page | None = None
        self._thread = threading.Thread(target=self._work, name="pointglue studio", daemon=True)
        self._thread.start()

    def receive(self, page: Page, text: str | bytes) -> None:
        """A message of a page."""
        try:
            command = messages.parse_command(text)
        except ValidationError as error:
            page.tell(replies.Note(level="error", text=_told(error)), replies.Done())
            return
        if isinstance(command, messages.Hello):
            page.quantise, page.seen, page.shown = command.quantise, 0, 0
            page.rouse()
        elif isinstance(command, messages.Ack):
            page.shown = command.number
            page.rouse()
        else:
            try:
                self._commands.put_nowait((page, command))
                self._pressing.add(_presses(command))
            except queue.Full:
                told = "Too much at once: some clicks were not heard."
                page.tell(replies.Note(level="error", text=told), replies.Done())

    def left(self, page: Page) -> None:
        """The page is gone; from any thread."""
        self.pages.discard(page)
        with suppress(queue.Full):
            self._commands.put_nowait((page, None))

    def update(self, page: Page) -> bytes | None:
        """What the page has to be sent; nothing while it is busy with the last update."""
        if page.shown != page.seen or page.seen == self.session.replica.count:
            return None
        number, clock, state, arrays = self.session.replica.since(page.seen)
        page.seen = number
        return pack(number, clock, state, arrays, quantise=page.quantise)

    def close(self) -> None:
        """Stop the thread, and keep what has not been saved."""
        self._commands.put(None)
        self._pressing.add(1)  # which is never taken back
        self._thread.join(30)
        self.session.close()

    def _work(self) -> None:
        wait = 0.0
        while True:
            batch = self._waiting(wait)
            if batch is None:
                return
            for page, command, last in _thinned(batch):
                self._pressing.add(-_presses(command))  # from here on, only those after it are waiting
                if last:
                    self._do(page, command)
                    self._rouse()
                else:
                    page.tell(replies.Done())
            wait = self._guarded(self.session.tick, None) or 0.0
            self._rouse()

    def _do(self, page: Page, command: Any) -> None:
        """One command of a page; None if it is gone, and holds nothing any more."""
        if command is None:
            if self._holder is page:
                self._guarded(self.session.release, None)
            return
        answers = self._guarded(partial(self.session.apply, command), page)
        if answers is not None and isinstance(command, messages.Grab | messages.DragHandle):
            self._holder = page
        page.tell(*(answers or ()), replies.Done())

    def _waiting(self, seconds: float) -> list[tuple[Page, Any]] | None:
        """All commands that wait, for which it waits a while; None if it is over."""
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
        """Whatever goes wrong is told, and the session goes on."""
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
        notes, self.session.notes = self.session.notes, []
        for page in list(self.pages):
            page.tell(*notes)


class _Count:
    """A number that threads change, which tells whether it is above zero."""

    def __init__(self) -> None:
        self._lock, self._value = threading.Lock(), 0

    def add(self, amount: int) -> None:
        """Make it larger, or smaller if the amount is negative."""
        with self._lock:
            self._value += amount

    def __call__(self) -> bool:
        return self._value > 0


def _presses(command: Any) -> int:
    """Return 1 for a command that a frame under way is given up for, and 0 for others.

    There are many pulls while a hand pulls, and no frame would ever end. None is a page that is gone.
    """
    return 0 if command is None or isinstance(command, messages.Pull) else 1


def _thinned(batch: list[tuple[Page, Any]]) -> list[tuple[Page, Any, bool]]:
    """Return the commands of a batch, with whether each has to be done.

    A move that is followed at once by another one of the same thing need not be.
    """
    overtaken = [_overtaken(*one, *other) for one, other in pairwise(batch)] + [False]
    return [(*one, not late) for one, late in zip(batch, overtaken[: len(batch)], strict=True)]


def _overtaken(page: Page, command: Any, next_page: Page, following: Any) -> bool:
    return (
        isinstance(command, _LATEST)
        and next_page is page
        and type(following) is type(command)
        and not getattr(command, "done", False)
        and getattr(command, "handle", "") == getattr(following, "handle", "")
    )


def _told(error: ValidationError) -> str:
    """What is wrong with a message."""
    first = error.errors(include_url=False)[0]
    where, value = ".".join(str(part) for part in first["loc"]), repr(first["input"])
    what = f"{first['msg'][0].lower()}{first['msg'][1:]}"
    return f"{_short(where, 100)}: {_short(what, 200)}, got {_short(value, 60)}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
