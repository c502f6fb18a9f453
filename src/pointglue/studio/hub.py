"""Between pages and the session: one thread works on it, and every page gets updates at its own pace."""

import asyncio
import queue
import threading
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from pydantic import ValidationError

from ..errors import PointglueError
from . import messages, replies
from .session import Session
from .wire import pack

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
                if not isinstance(command, messages.Pull):  # of which there are many while a hand pulls
                    self.session.wanted.set()
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
        self.session.wanted.set()
        self._thread.join(30)
        self.session.close()

    def _work(self) -> None:
        wait = 0.0
        while True:
            self.session.wanted.clear()
            batch = self._waiting(wait)
            if batch is None:
                return
            for page, command in _thinned(batch):
                self._do(page, command)
                self._rouse()
            wait = self._guarded(self.session.tick, None) or 0.0
            self._rouse()

    def _do(self, page: Page, command: Any) -> None:
        """One command of a page; None if it is gone, and holds nothing any more."""
        if command is None:
            if self._holder is page:
                self._guarded(self.session.release, None)
            return
        if isinstance(command, messages.Grab | messages.DragHandle):
            self._holder = page
        answers = self._guarded(partial(self.session.apply, command), page) or ()
        page.tell(*answers, replies.Done())

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


def _thinned(batch: list[tuple[Page, Any]]) -> list[tuple[Page, Any]]:
    """Without moves that are followed at once by another one of the same thing."""
    kept: list[tuple[Page, Any]] = []
    for page, command in batch:
        if kept and isinstance(command, _LATEST):
            last_page, last = kept[-1]
            same = type(last) is type(command) and last_page is page
            done = getattr(last, "done", False) or getattr(last, "handle", "") != getattr(
                command, "handle", ""
            )
            if same and not done:
                kept.pop()
                page.tell(replies.Done())
        kept.append((page, command))
    return kept


def _told(error: ValidationError) -> str:
    """What is wrong with a message."""
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    value = repr(first["input"])
    value = value if len(value) < 60 else value[:57] + "..."
    return f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}, got {value}"
