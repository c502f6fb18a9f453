"""What the page and the server say to each other, defined once.

The page sends commands as JSON. The server answers with notes and lists of files as JSON, and with updates as
binary messages: a length, a header (`Update`, JSON) and the arrays that the header names.
`python -m pointglue.studio.protocol.typescript` prints the same as TypeScript for the client.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, FailFast, Field, TypeAdapter

from ...assets.registry import ASSETS
from ...scene.build.surfaces import FARTHEST, SMALLEST

__all__ = ["COMMANDS", "SHAPES", "Axis", "Brushed", "Edit", "Message", "Vector", "What", "parse_command"]

# Numbers that fit the 32 bits of arrays, and texts that are no longer than the names of files can be.
Number = Annotated[int, Field(ge=0, lt=2**31)]
# What pages count or draw by lot: numbers that JavaScript has without rounding.
Count = Annotated[int, Field(ge=0, lt=2**53)]
Frame = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Text = Annotated[str, Field(max_length=1000)]
Coordinate = Annotated[float, Field(ge=-FARTHEST, le=FARTHEST)]
Length = Annotated[float, Field(ge=SMALLEST, le=FARTHEST)]
Vector = tuple[Coordinate, Coordinate, Coordinate]
Axis = Literal["x", "y", "z"]
What = Literal["particles", "vertices", "points", "handles"]

SHAPES: dict[str, dict[str, Any]] = {
    "box": {"size": [1.0, 1.0, 1.0], "cells": [4, 4, 4]},
    "sphere": {"radius": 0.5},
    "sheet": {"size": [1.0, 1.0], "cells": [16, 16]},
    **{name: {} for name, asset in ASSETS.items() if asset.in_studio},
}
"""The shapes that can be added, with the keys of their tables: primitives, and models of the registry."""
if TYPE_CHECKING:
    Shape = str
else:
    Shape = Literal[tuple(SHAPES)]


class Message(BaseModel):
    """What all messages have in common."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Edit(Message):
    """A command that changes the document; those of one `stroke` are undone together."""

    stroke: Count = 0


class Hello(Message):
    """What the page wants: positions as 32-bit numbers, or quantised to 16 bits."""

    type: Literal["hello"] = "hello"
    quantise: bool = False


class Ack(Message):
    """An update has been shown; the next may come."""

    type: Literal["ack"] = "ack"
    number: Count


class ListFiles(Message):
    """Ask for what is in a folder below the working directory."""

    type: Literal["list_files"] = "list_files"
    folder: Text = ""


class Open(Message):
    """A mesh is added to the scene; a scene takes its place; a folder with frames is played."""

    type: Literal["open"] = "open"
    path: Text


class Save(Message):
    """Write the scene; over another file only to `replace` it."""

    type: Literal["save"] = "save"
    path: Text
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
    path: Annotated[list[Text | Number], FailFast()] = Field(max_length=20)
    value: Any = None


class AddShape(Edit):
    """Add a simple object."""

    type: Literal["add_shape"] = "add_shape"
    shape: Shape


class SetKind(Edit):
    """What an object is: a mesh with handles, soft flesh, cloth..."""

    type: Literal["set_kind"] = "set_kind"
    object: Text
    kind: Literal["handles", "particles", "flesh", "cloth", "jelly", "rigid", "collider"]


class Rename(Edit):
    """Give an object another name."""

    type: Literal["rename"] = "rename"
    object: Text
    name: Text


class Move(Edit):
    """Scale and turn an object about its middle (degrees about x, then y, then z), then shift it (m).

    Its handles and their keys, or its particles, go with it.
    """

    type: Literal["move"] = "move"
    object: Text
    rotate: Vector = (0.0, 0.0, 0.0)
    translate: Vector = (0.0, 0.0, 0.0)
    scale: float = Field(default=1.0, gt=0, le=FARTHEST / SMALLEST)


class Remove(Edit):
    """Remove an object and all that is attached to it."""

    type: Literal["remove"] = "remove"
    object: Text


class Ground(Edit):
    """Add a ground below everything, or remove it."""

    type: Literal["ground"] = "ground"
    on: bool


class Select(Edit):
    """Choose particles or vertices of an object by their numbers."""

    type: Literal["select"] = "select"
    object: Text
    what: What
    indices: Annotated[list[Number], FailFast()] = Field(max_length=2_000_000)
    how: Literal["replace", "add", "remove"] = "replace"


class Brushed(Edit):
    """An edit along a stroke of the brush, or of what is selected if there are no centres."""

    object: Text
    centres: Annotated[list[Vector], FailFast()] = Field(default_factory=list, max_length=1000)
    radius: float = Field(default=0.0, ge=0, le=1e3 * FARTHEST)  # of which the largest covers everything


class Make(Edit):
    """Make a whole body from the mesh."""

    type: Literal["make"] = "make"
    object: Text
    spacing: Length | None = None
    placement: Literal["surface", "volume", "skeleton"] | None = None


class Spray(Brushed):
    """Particles on the surface under the brush."""

    type: Literal["spray"] = "spray"
    spacing: Length


class Place(Edit):
    """One particle."""

    type: Literal["place"] = "place"
    object: Text
    position: Vector
    radius: Length


class Erase(Brushed):
    """Remove particles."""

    type: Literal["erase"] = "erase"


class Connect(Brushed):
    """Edges between particles under the brush closer than `longest`, or between all that are selected."""

    type: Literal["connect"] = "connect"
    longest: Length | None = None


class ConnectPair(Edit):
    """A single edge, or without it."""

    type: Literal["connect_pair"] = "connect_pair"
    object: Text
    pair: tuple[Number, Number]
    cut: bool = False


class Cut(Brushed):
    """Remove the edges under the brush, or between selected particles."""

    type: Literal["cut"] = "cut"


class Paint(Brushed):
    """Move a property towards a value."""

    type: Literal["paint"] = "paint"
    field: Literal["stiffness", "torsion", "stretch"]
    value: float = Field(ge=0, le=1e9)
    strength: float = Field(default=1.0, ge=0, le=1)


class Pin(Brushed):
    """Hold particles where they are, or let go of them."""

    type: Literal["pin"] = "pin"
    pinned: bool = True


class Group(Edit):
    """Make the selected particles one rigid piece, or loosen the groups that they are in."""

    type: Literal["group"] = "group"
    object: Text
    loosen: bool = False


class Fit(Edit):
    """Give particles the ellipsoids that reach the surface around them."""

    type: Literal["fit"] = "fit"
    object: Text
    aspect: float = Field(default=2.0, ge=1, le=100)


class Skin(Edit):
    """Let the mesh follow the particles; `selected`: the chosen vertices the chosen particles only."""

    type: Literal["skin"] = "skin"
    object: Text
    selected: bool = False


class AddHandle(Edit):
    """A handle at a place of the mesh as it is shown."""

    type: Literal["add_handle"] = "add_handle"
    object: Text
    position: Vector
    mirror: Axis | None = None


class RemoveHandle(Edit):
    """Without a handle."""

    type: Literal["remove_handle"] = "remove_handle"
    object: Text
    handle: Text


class DragHandle(Message):
    """Move a handle; when it is let go of, its place is a key of the frame that is shown."""

    type: Literal["drag_handle"] = "drag_handle"
    object: Text
    handle: Text
    position: Vector
    mirror: Axis | None = None
    done: bool = False


class Link(Edit):
    """Let handles hold together: as one rigid piece, or as a chain of bones; or not any more."""

    type: Literal["link"] = "link"
    object: Text
    handles: Annotated[list[Text], FailFast()] = Field(max_length=1000)
    how: Literal["group", "chain", "none"]


class Key(Edit):
    """A key of all handles of an object at the frame that is shown, or without it."""

    type: Literal["key"] = "key"
    object: Text
    remove: bool = False


class Scrub(Message):
    """Show a frame."""

    type: Literal["scrub"] = "scrub"
    frame: Frame


class Export(Message):
    """Write an object as it is shown, or in all frames."""

    type: Literal["export"] = "export"
    object: Text
    path: Text
    animation: bool = False
    replace: bool = False


class Attach(Edit):
    """Tie the selected points of an object to another one; a joint is where they are on average."""

    type: Literal["attach"] = "attach"
    object: Text
    to: Text
    kind: Literal["glue", "spring", "ball", "hinge", "weld"]


class Detach(Edit):
    """Without an attachment."""

    type: Literal["detach"] = "detach"
    number: Number


class AttachKey(Edit):
    """Let an attachment begin or end at the frame that is shown, or hold from the start and for ever."""

    type: Literal["attach_key"] = "attach_key"
    number: Number
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
    object: Text
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
