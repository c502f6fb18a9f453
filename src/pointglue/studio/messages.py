"""What the page and the server say to each other, defined once.

The page sends commands as JSON. The server answers with notes and lists of files as JSON, and with updates as
binary messages: a length, a header (`Update`, JSON) and the arrays that the header names.
`python -m pointglue.studio.typescript` prints the same as TypeScript, which the client is compiled with.
"""

from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

__all__ = ["COMMANDS", "Axis", "Brushed", "Edit", "Message", "Vector", "What", "parse_command"]

Vector = tuple[float, float, float]
Axis = Literal["x", "y", "z"]
What = Literal["particles", "vertices", "points", "handles"]


class Message(BaseModel):
    """What all messages have in common."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Edit(Message):
    """A command that changes the document; those of one `stroke` are undone together."""

    stroke: int = 0


class Hello(Message):
    """What the page wants: positions as 32-bit numbers, or quantised to 16 bits."""

    type: Literal["hello"] = "hello"
    quantise: bool = False


class Ack(Message):
    """An update has been shown; the next may come."""

    type: Literal["ack"] = "ack"
    number: int


class ListFiles(Message):
    """Ask for what is in a folder below the working directory."""

    type: Literal["list_files"] = "list_files"
    folder: str = ""


class Open(Message):
    """A mesh is added to the scene; a scene takes its place; a folder with frames is played."""

    type: Literal["open"] = "open"
    path: str


class Save(Message):
    """Write the scene; over another file only to `replace` it."""

    type: Literal["save"] = "save"
    path: str
    replace: bool = False


class New(Edit):
    """Begin with an empty scene."""

    type: Literal["new"] = "new"


class Restore(Message):
    """Take or throw away what a session that did not end well has left."""

    type: Literal["restore"] = "restore"
    keep: bool


class Undo(Message):
    """Take back the last edit."""

    type: Literal["undo"] = "undo"


class Redo(Message):
    """Take back the last undo."""

    type: Literal["redo"] = "redo"


class Set(Edit):
    """Another value for a key of the scene file, as ["objects", "horse", "falloff"]; null removes it."""

    type: Literal["set"] = "set"
    path: list[str | int]
    value: Any = None


class AddShape(Edit):
    """Add a simple object."""

    type: Literal["add_shape"] = "add_shape"
    shape: Literal["box", "sphere", "sheet", "octopus"]


class SetKind(Edit):
    """What an object is: a mesh with handles, soft flesh, cloth..."""

    type: Literal["set_kind"] = "set_kind"
    object: str
    kind: Literal["handles", "particles", "flesh", "cloth", "jelly", "rigid", "collider"]


class Rename(Edit):
    """Give an object another name."""

    type: Literal["rename"] = "rename"
    object: str
    name: str


class Move(Edit):
    """Scale and turn an object about its middle (degrees about x, then y, then z), then shift it (m).

    Its handles and their keys, or its particles, go with it.
    """

    type: Literal["move"] = "move"
    object: str
    rotate: Vector = (0.0, 0.0, 0.0)
    translate: Vector = (0.0, 0.0, 0.0)
    scale: float = Field(default=1.0, gt=0)


class Remove(Edit):
    """Remove an object and all that is attached to it."""

    type: Literal["remove"] = "remove"
    object: str


class Ground(Edit):
    """Add a ground below everything, or remove it."""

    type: Literal["ground"] = "ground"
    on: bool


class Select(Edit):
    """Choose particles or vertices of an object by their numbers."""

    type: Literal["select"] = "select"
    object: str
    what: What
    indices: list[int] = Field(max_length=2_000_000)
    how: Literal["replace", "add", "remove"] = "replace"


class Brushed(Edit):
    """An edit along a stroke of the brush, or of what is selected if there are no centres."""

    object: str
    centres: list[Vector] = Field(default_factory=list, max_length=1000)
    radius: float = Field(default=0.0, ge=0)


class Make(Edit):
    """Make a whole body from the mesh."""

    type: Literal["make"] = "make"
    object: str
    spacing: float | None = None
    placement: Literal["volume", "surface", "skeleton"] | None = None


class Spray(Brushed):
    """Particles on the surface under the brush."""

    type: Literal["spray"] = "spray"
    spacing: float


class Place(Edit):
    """One particle."""

    type: Literal["place"] = "place"
    object: str
    position: Vector
    radius: float


class Erase(Brushed):
    """Remove particles."""

    type: Literal["erase"] = "erase"


class Connect(Brushed):
    """Edges between particles under the brush closer than `longest`, or between all that are selected."""

    type: Literal["connect"] = "connect"
    longest: float | None = None


class ConnectPair(Edit):
    """A single edge, or without it."""

    type: Literal["connect_pair"] = "connect_pair"
    object: str
    pair: tuple[int, int]
    cut: bool = False


class Cut(Brushed):
    """Remove the edges under the brush, or between selected particles."""

    type: Literal["cut"] = "cut"


class Paint(Brushed):
    """Move a property towards a value."""

    type: Literal["paint"] = "paint"
    field: Literal["stiffness", "torsion", "stretch"]
    value: float
    strength: float = 1.0


class Pin(Brushed):
    """Hold particles where they are, or let go of them."""

    type: Literal["pin"] = "pin"
    pinned: bool = True


class Group(Edit):
    """Make the selected particles one rigid piece, or loosen the groups that they are in."""

    type: Literal["group"] = "group"
    object: str
    loosen: bool = False


class Fit(Edit):
    """Give particles the ellipsoids that reach the surface around them."""

    type: Literal["fit"] = "fit"
    object: str
    aspect: float = 2.0


class Skin(Edit):
    """Let the mesh follow the particles; `selected`: the chosen vertices the chosen particles only."""

    type: Literal["skin"] = "skin"
    object: str
    selected: bool = False


class AddHandle(Edit):
    """A handle at a place of the mesh as it is shown."""

    type: Literal["add_handle"] = "add_handle"
    object: str
    position: Vector
    mirror: Axis | None = None


class RemoveHandle(Edit):
    """Without a handle."""

    type: Literal["remove_handle"] = "remove_handle"
    object: str
    handle: str


class DragHandle(Message):
    """Move a handle; when it is let go of, its place is a key of the frame that is shown."""

    type: Literal["drag_handle"] = "drag_handle"
    object: str
    handle: str
    position: Vector
    mirror: Axis | None = None
    done: bool = False


class Link(Edit):
    """Let handles hold together: as one rigid piece, or as a chain of bones; or not any more."""

    type: Literal["link"] = "link"
    object: str
    handles: list[str]
    how: Literal["group", "chain", "none"]


class Key(Edit):
    """A key of all handles of an object at the frame that is shown, or without it."""

    type: Literal["key"] = "key"
    object: str
    remove: bool = False


class Scrub(Message):
    """Show a frame."""

    type: Literal["scrub"] = "scrub"
    frame: int


class Export(Message):
    """Write an object as it is shown, or in all frames."""

    type: Literal["export"] = "export"
    object: str
    path: str
    animation: bool = False
    replace: bool = False


class Attach(Edit):
    """Tie the selected points of an object to another one; a joint is where they are on average."""

    type: Literal["attach"] = "attach"
    object: str
    to: str
    kind: Literal["glue", "spring", "ball", "hinge", "weld"]


class Detach(Edit):
    """Without an attachment."""

    type: Literal["detach"] = "detach"
    number: int


class AttachKey(Edit):
    """Let an attachment begin or end at the frame that is shown, or hold from the start and for ever."""

    type: Literal["attach_key"] = "attach_key"
    number: int
    what: Literal["attach", "release"]
    remove: bool = False


class Play(Message):
    """Run the simulation, or the frames of a finished one."""

    type: Literal["play"] = "play"


class Pause(Message):
    """Stop where it is."""

    type: Literal["pause"] = "pause"


class Step(Message):
    """One frame on."""

    type: Literal["step"] = "step"


class Reset(Message):
    """Back to the first frame."""

    type: Literal["reset"] = "reset"


class Grab(Message):
    """Take hold of a place of an object in the simulation."""

    type: Literal["grab"] = "grab"
    object: str
    position: Vector


class Pull(Message):
    """Draw what was taken hold of."""

    type: Literal["pull"] = "pull"
    position: Vector


class LetGo(Message):
    """Let go of it."""

    type: Literal["let_go"] = "let_go"


class CloseRun(Message):
    """Back from the frames of a finished run to the scene."""

    type: Literal["close_run"] = "close_run"


COMMANDS: tuple[type[Message], ...] = (
    Hello, Ack, ListFiles, Open, Save, New, Restore, Undo, Redo, Set, AddShape, SetKind, Rename, Move, Remove,
    Ground, Select, Make, Spray, Place, Erase, Connect, ConnectPair, Cut, Paint, Pin, Group, Fit, Skin,
    AddHandle, RemoveHandle, DragHandle, Link, Key, Scrub, Export, Attach, Detach, AttachKey, Play, Pause,
    Step, Reset, Grab, Pull, LetGo, CloseRun,
)  # fmt: skip

_Command: Any = Annotated[Union[COMMANDS], Field(discriminator="type")]  # noqa: UP007
_adapter: TypeAdapter[Any] = TypeAdapter(_Command)


def parse_command(text: str | bytes) -> Any:
    """A command from JSON; pydantic's ValidationError says what is wrong."""
    return _adapter.validate_json(text)
