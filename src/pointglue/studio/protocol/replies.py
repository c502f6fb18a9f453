"""What the server tells pages; see `messages` for what they say."""

from typing import Any, Literal

from .commands import Message, Vector, What

__all__ = [
    "REPLIES",
    "ArrayPart",
    "AttachState",
    "Clock",
    "Done",
    "Exists",
    "FileEntry",
    "Files",
    "HandleState",
    "Note",
    "ObjectState",
    "RunState",
    "SelectionState",
    "State",
    "Update",
]


class HandleState(Message):
    """A handle; `keys` are frames, `link` names what it holds together with."""

    name: str
    keys: list[int]
    link: str


class ObjectState(Message):
    """What the page knows of an object besides its arrays."""

    name: str
    kind: str
    table: dict[str, Any]
    color: str
    visible: bool
    vertices: int
    particles: int
    edges: int
    groups: int
    pinned: int
    handles: list[HandleState]
    links: list[list[int]]
    """Numbers of handles that hold together: chains, then groups."""
    edited: bool
    """Whether its particles are its own, and no longer made from its table."""


class AttachState(Message):
    """An attachment; `gap` tells how well the least determined frame is: 2 at best, 0 for a line."""

    table: dict[str, Any]
    points: int
    gap: float | None
    health: Literal["good", "fair", "poor", "broken"]
    problem: str


class SelectionState(Message):
    """What is selected; the numbers are an array."""

    object: str
    what: What
    count: int


class RunState(Message):
    """A run that is played; `growing`: it is still being computed."""

    folder: str
    first: int
    last: int
    rate: float
    growing: bool


class State(Message):
    """All that the page shows, but for arrays and the clock."""

    title: str
    path: str
    folder: str
    saved: bool
    objects: list[ObjectState]
    attach: list[AttachState]
    frames: dict[str, float]
    gravity: Vector
    ground: float | None
    selection: SelectionState | None
    undo: int
    redo: int
    run: RunState | None
    found: str
    tables: dict[str, Any]


class Clock(Message):
    """What changes all the time."""

    frame: int
    status: Literal["still", "building", "playing", "paused"]
    milliseconds: float
    grabbed: bool
    problem: str = ""
    """Why the simulation stopped by itself, as long as it is where it stopped."""


class ArrayPart(Message):
    """An array of an update; quantised ones are low + step * number. Without a shape it is gone."""

    object: str
    channel: str
    dtype: Literal["f4", "u4", "u2", "i4"]
    shape: list[int] | None
    offset: int
    low: Vector | None = None
    step: Vector | None = None


class Update(Message):
    """The header of a binary message."""

    type: Literal["update"] = "update"
    number: int
    clock: Clock
    state: State | None
    arrays: list[ArrayPart]


class Note(Message):
    """Something to tell: a problem, or that something is done."""

    type: Literal["note"] = "note"
    level: Literal["error", "info"]
    text: str


class Done(Message):
    """A command has been dealt with, whatever came of it."""

    type: Literal["done"] = "done"


class Exists(Message):
    """A file that was to be written is there already: the page asks, and says it again with `replace`."""

    type: Literal["exists"] = "exists"
    path: str


class FileEntry(Message):
    """A file or folder."""

    name: str
    kind: Literal["folder", "mesh", "scene", "run"]


class Files(Message):
    """What is in a folder."""

    type: Literal["files"] = "files"
    folder: str
    entries: list[FileEntry]


REPLIES = (
    HandleState, ObjectState, AttachState, SelectionState, RunState, State, Clock, ArrayPart, Update, Note,
    Done, Exists, FileEntry, Files,
)  # fmt: skip
