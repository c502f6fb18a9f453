"""The messages of the server to pages; `commands` has those of pages to the server."""

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
    """A handle; `keys` are frames, and `link` names the chain or group that it belongs to."""

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
    """Numbers of linked handles: chains, then groups."""
    edited: bool
    """Whether its particles were edited, and are no longer made from its table."""


class AttachState(Message):
    """A binding; `gap` says how well its least determined fit is: 2 at best, 0 for a line."""

    table: dict[str, Any]
    points: int
    gap: float | None
    health: Literal["good", "fair", "poor", "broken"]
    problem: str


class SelectionState(Message):
    """What is selected; an array has the numbers."""

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
    """All that the page shows besides arrays and the clock."""

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
    """Why the simulation stopped by itself, until it goes on."""


class ArrayPart(Message):
    """An array of an update; quantised ones are low + step * number. One without a shape is gone."""

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
    """A text for people: a problem, or that something was done."""

    type: Literal["note"] = "note"
    level: Literal["error", "info"]
    text: str


class Done(Message):
    """A command has been carried out or refused."""

    type: Literal["done"] = "done"


class Exists(Message):
    """A file to be written exists already: the page asks, and sends the command again with `replace`."""

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
