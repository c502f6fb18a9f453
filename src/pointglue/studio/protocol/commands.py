"""The messages of pages to the server, defined once for both.

The page sends commands as JSON. The server answers with notes and lists of files as JSON, and with updates as
binary messages: a length, a header (`Update`, JSON) and the arrays that the header names.
`python -m pointglue.studio.protocol.typescript` prints all messages as TypeScript for the page.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import BaseModel, ConfigDict, FailFast, Field, TypeAdapter

from ...assets.registry import ASSETS
from ...scene.build.meshing import FARTHEST, SMALLEST

__all__ = ["COMMANDS", "SHAPES", "Axis", "Brushed", "Edit", "Message", "Vector", "What", "parse_command"]

# Integers that fit the 32 bits of arrays.
Number = Annotated[int, Field(ge=0, lt=2**31)]
# Integers that JavaScript has without rounding.
SafeInteger = Annotated[int, Field(ge=0, lt=2**53)]
Frame = Annotated[int, Field(ge=-(2**31), lt=2**31)]
# Texts no longer than the names of files can be.
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

    stroke: SafeInteger = 0


class Hello(Message):
    """Ask for updates, with positions as 32-bit numbers or quantised to 16 bits."""

    type: Literal["hello"] = "hello"
    quantise: bool = False


class Ack(Message):
    """An update has been shown; the next may come."""

    type: Literal["ack"] = "ack"
    number: SafeInteger


class ListFiles(Message):
    """Ask for what is in a folder below the working directory."""

    type: Literal["list_files"] = "list_files"
    folder: Text = ""


class Open(Message):
    """Open a file: a mesh is added to the scene, a scene replaces it, and a folder with frames is played."""

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
    """Open or remove the scene of a session that did not end well."""

    type: Literal["restore"] = "restore"
    keep: bool


class Undo(Message):
    """Take back the last edit."""

    type: Literal["undo"] = "undo"


class Redo(Message):
    """Take back the last undo."""

    type: Literal["redo"] = "redo"


class Set(Edit):
    """Change a key of the scene file, such as ["objects", "horse", "falloff"]; null removes it."""

    type: Literal["set"] = "set"
    path: Annotated[list[Text | Number], FailFast()] = Field(max_length=20)
    value: Any = None


class AddShape(Edit):
    """Add a simple object."""

    type: Literal["add_shape"] = "add_shape"
    shape: Shape


class SetKind(Edit):
    """Change the kind of an object: a mesh with handles, soft flesh, cloth..."""

    type: Literal["set_kind"] = "set_kind"
    object: Text
    kind: Literal["handles", "particles", "flesh", "cloth", "jelly", "rigid", "collider"]


class Rename(Edit):
    """Give an object another name."""

    type: Literal["rename"] = "rename"
    object: Text
    name: Text


class Move(Edit):
    """Scale and turn an object about its centre (degrees about x, then y, then z), then shift it [m].

    Its handles and their keys, or its particles, move with it.
    """

    type: Literal["move"] = "move"
    object: Text
    rotate: Vector = (0.0, 0.0, 0.0)
    translate: Vector = (0.0, 0.0, 0.0)
    scale: float = Field(default=1.0, gt=0, le=FARTHEST / SMALLEST)


class Remove(Edit):
    """Remove an object and all its bindings."""

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
    """An edit along a stroke of the brush, or of what is selected if it has no centres."""

    object: Text
    centres: Annotated[list[Vector], FailFast()] = Field(default_factory=list, max_length=1000)
    radius: float = Field(default=0.0, ge=0, le=4 * FARTHEST)  # the largest reaches all from anywhere


class Make(Edit):
    """Make a whole body from the mesh."""

    type: Literal["make"] = "make"
    object: Text
    spacing: Length | None = None
    placement: Literal["surface", "volume", "skeleton"] | None = None


class Spray(Brushed):
    """Add particles on the surface under the brush."""

    type: Literal["spray"] = "spray"
    spacing: Length


class Place(Edit):
    """Add one particle."""

    type: Literal["place"] = "place"
    object: Text
    position: Vector
    radius: Length


class Erase(Brushed):
    """Remove particles."""

    type: Literal["erase"] = "erase"


class Connect(Brushed):
    """Connect particles under the brush closer than `longest`, or all that are selected."""

    type: Literal["connect"] = "connect"
    longest: Length | None = None


class ConnectPair(Edit):
    """Add or remove a single edge."""

    type: Literal["connect_pair"] = "connect_pair"
    object: Text
    pair: tuple[Number, Number]
    cut: bool = False


class Cut(Brushed):
    """Remove the edges under the brush, or between selected particles."""

    type: Literal["cut"] = "cut"


class Paint(Brushed):
    """Move a property towards a value; `whole`: of the whole body, whatever the brush and the selection."""

    type: Literal["paint"] = "paint"
    field: Literal["stiffness", "torsion", "stretch"]
    value: float = Field(ge=0, le=1e9)
    strength: float = Field(default=1.0, ge=0, le=1)
    whole: bool = False


class Pin(Brushed):
    """Pin particles or points, or free them."""

    type: Literal["pin"] = "pin"
    pinned: bool = True


class Group(Edit):
    """Make the selected particles one rigid group, or dissolve the groups that they are in."""

    type: Literal["group"] = "group"
    object: Text
    loosen: bool = False


class Fit(Edit):
    """Give particles the ellipsoids that reach the surface around them."""

    type: Literal["fit"] = "fit"
    object: Text
    aspect: float = Field(default=2.0, ge=1, le=100)


class Skin(Edit):
    """Let the mesh follow the particles; `selected`: selected vertices, selected particles only."""

    type: Literal["skin"] = "skin"
    object: Text
    selected: bool = False


class AddHandle(Edit):
    """Add a handle at a position on the mesh as it is shown."""

    type: Literal["add_handle"] = "add_handle"
    object: Text
    position: Vector
    mirror: Axis | None = None


class RemoveHandle(Edit):
    """Remove a handle."""

    type: Literal["remove_handle"] = "remove_handle"
    object: Text
    handle: Text


class DragHandle(Message):
    """Move a handle; once it is released, its position is a key of the frame that is shown."""

    type: Literal["drag_handle"] = "drag_handle"
    object: Text
    handle: Text
    position: Vector
    mirror: Axis | None = None
    done: bool = False


class Link(Edit):
    """Link handles to one rigid group or to a chain of bones, or unlink them."""

    type: Literal["link"] = "link"
    object: Text
    handles: Annotated[list[Text], FailFast()] = Field(max_length=1000)
    how: Literal["group", "chain", "none"]


class Key(Edit):
    """Set or remove a key of all handles of an object at the frame that is shown."""

    type: Literal["key"] = "key"
    object: Text
    remove: bool = False


class Scrub(Message):
    """Show a frame."""

    type: Literal["scrub"] = "scrub"
    frame: Frame


class Export(Message):
    """Write the mesh of an object as it is shown, or in all frames."""

    type: Literal["export"] = "export"
    object: Text
    path: Text
    animation: bool = False
    replace: bool = False


class Attach(Edit):
    """Bind the selected points of an object to another one; a joint is at their mean."""

    type: Literal["attach"] = "attach"
    object: Text
    to: Text
    kind: Literal["glue", "spring", "ball", "hinge", "weld", "prismatic", "cylindrical", "planar"]


class Detach(Edit):
    """Remove a binding."""

    type: Literal["detach"] = "detach"
    number: Number


class AttachKey(Edit):
    """Let a binding begin or end at the frame that is shown, or no longer begin or end."""

    type: Literal["attach_key"] = "attach_key"
    number: Number
    what: Literal["attach", "release"]
    remove: bool = False


class Play(Message):
    """Run the simulation, or the frames of a finished one."""

    type: Literal["play"] = "play"


class Pause(Message):
    """Stop at the current frame."""

    type: Literal["pause"] = "pause"


class Step(Message):
    """Go to the next frame."""

    type: Literal["step"] = "step"


class Reset(Message):
    """Return to the first frame."""

    type: Literal["reset"] = "reset"


class Grab(Message):
    """Grab an object of the simulation at a position."""

    type: Literal["grab"] = "grab"
    object: Text
    position: Vector


class Pull(Message):
    """Pull what was grabbed to a position."""

    type: Literal["pull"] = "pull"
    position: Vector


class LetGo(Message):
    """Release what was grabbed."""

    type: Literal["let_go"] = "let_go"


class CloseRun(Message):
    """Return from the frames of a run to the scene."""

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
    """Return a command from JSON.

    Parameters
    ----------
    text : str or bytes
        The message of a page.

    Returns
    -------
    Message
        One of `COMMANDS`.

    Raises
    ------
    pydantic.ValidationError
        If it is no command; the error says what is wrong.
    """
    return _adapter.validate_json(text)
