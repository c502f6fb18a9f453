"""What all tables of a scene file are made of: numbers, vectors, places, points, keys, meshes."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from ...view import PALETTE
from .units import Moment, Plain, Quantity, Row, Whole

MOST_POINTS = 2_000_000  # of a shape made from numbers: more is a slip of the pen


def nearest(word: Any, valid: Iterable[str]) -> str:
    """ ", did you mean ...?" if one of the valid words is close to it."""
    close = get_close_matches(str(word), list(valid), 1, 0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_ -]*$", max_length=60)]
Length = Annotated[float, Quantity("m", above=0)]
Share = Annotated[float, Quantity("", least=0, most=1)]
Positive = Annotated[float, Quantity("", above=0)]

Position = Annotated[tuple[float, float, float], Row(Quantity("m", least=-1e9, most=1e9))]
Speeds = Annotated[tuple[float, float, float], Row(Quantity("m/s", least=-1e6, most=1e6))]
Accelerations = Annotated[tuple[float, float, float], Row(Quantity("m/s2", least=-1e6, most=1e6))]
Forces = Annotated[tuple[float, float, float], Row(Quantity("N", least=-1e12, most=1e12))]
Spins = Annotated[tuple[float, float, float], Row(Quantity("rad/s", least=-1e6, most=1e6))]
Direction = Annotated[tuple[float, float, float], Row(Quantity("", least=-1e9, most=1e9))]
Sizes = Annotated[tuple[float, float, float], Row(Quantity("m", above=0, most=1e9))]
Sizes2 = Annotated[tuple[float, float], Row(Quantity("m", above=0, most=1e9), (2,))]
Cells = Annotated[tuple[int, int, int], Whole(3)]
Cells2 = Annotated[tuple[int, int], Whole(2)]


@dataclass(frozen=True)
class _Turn(Row):
    """Three angles or a quaternion."""

    def parse(self, value: Any) -> tuple[float, ...]:
        """The numbers; ValueError says what is wrong."""
        turn = super().parse(value)
        if len(turn) == 4 and not max(map(abs, turn)) > 1e-6:
            raise ValueError(f"must not be zero: a quaternion wxyz is needed, got {value!r}")
        return turn


@dataclass(frozen=True)
class _Rgb(Plain):
    """A colour as red, green and blue."""

    words = "colour"

    def parse(self, value: Any) -> tuple[float, ...]:
        """From a name, a code or three numbers."""
        code = PALETTE.get(value, value) if isinstance(value, str) else value
        if isinstance(code, str) and re.fullmatch("#[0-9a-fA-F]{6}", code):
            return tuple(int(code[k : k + 2], 16) / 255 for k in (1, 3, 5))
        if isinstance(code, str):
            near = nearest(code, PALETTE)
            raise ValueError(f"must be #rrggbb or one of {', '.join(PALETTE)}, got {value!r}{near}")
        return Row(Quantity("", least=0, most=1)).parse(value)

    @property
    def json(self) -> dict[str, Any]:
        """The schema for editors."""
        return {"anyOf": [{"type": "string"}, Row(Quantity("", least=0, most=1)).json]}


@dataclass(frozen=True)
class _Scales(Plain):
    """One factor, or three."""

    words = "1 or 3 numbers"

    def parse(self, value: Any) -> tuple[float, ...]:
        """Three in any case."""
        each = Quantity("", above=0, most=1e9)
        return Row(each).parse(value) if isinstance(value, list) else (each.parse(value),) * 3

    @property
    def json(self) -> dict[str, Any]:
        """The schema for editors."""
        each = Quantity("", above=0, most=1e9)
        return {"anyOf": [each.json, Row(each).json]}


Color = Annotated[tuple[float, float, float], _Rgb()]
Turn = Annotated[tuple[float, ...], _Turn(Quantity("", least=-1e6, most=1e6), (3, 4))]
Scales = Annotated[tuple[float, float, float], _Scales()]


class Table(BaseModel):
    """A table of a scene file: no keys but its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def chosen_by(key: str, *names: str) -> Discriminator:
    """How to tell which table it is: the value of `key`, unless there is one of the keys `names`."""

    def tag(value: Any) -> str | None:
        given = value if isinstance(value, dict) else getattr(value, "__dict__", {})
        for name in names:
            if name in given:
                return f"{key}={name}"
        return f"{key}={given[key]}" if isinstance(given.get(key), str) else None

    return Discriminator(tag)


class Transform(Table):
    """Scaled about the origin, then turned, then moved."""

    scale: Scales = (1.0, 1.0, 1.0)
    """One factor, or one for each axis."""
    rotate: Turn = (0.0, 0.0, 0.0)
    """Degrees about x, then y, then z; or four numbers, a quaternion wxyz."""
    translate: Position = (0.0, 0.0, 0.0)
    """By how much it is moved."""


class Key(Table):
    """A pose at a time, relative to the pose at the start."""

    time: Moment
    """The time of the pose: seconds from the first frame, or "frame N"."""
    translate: Position = (0.0, 0.0, 0.0)
    """How far from where it starts."""
    rotate: Turn = (0.0, 0.0, 0.0)
    """From how it starts, about its middle: degrees about x, then y, then z; or a quaternion wxyz."""


class BallOf(Table):
    """All within a ball."""

    center: Position
    """The centre of the ball, in the scene."""
    radius: Length
    """The radius of the ball."""


class Points(Table):
    """Which points of an object, where they are at the start; one of these keys."""

    box: Annotated[list[Position], Field(min_length=2, max_length=2)] | None = None
    """Those in a box: its lower and its upper corner."""
    ball: BallOf | None = None
    """Those in a ball."""
    nearest: Count | None = None
    """So many, those nearest to the other object (of an attachment)."""
    indices: list[Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]] | None = None
    """By their numbers, from 0."""
    name: Name | None = None
    """Those that the object's `groups` give this name."""
    all: Flag | None = None
    """true for all of them."""
    any: Annotated[list["Points"], Field(min_length=1, max_length=1000)] | None = None
    """Those that any of several such tables selects."""

    @model_validator(mode="after")
    def _one(self) -> "Points":
        given = [name for name in type(self).model_fields if getattr(self, name) not in (None, False)]
        if len(given) != 1:
            keys = ", ".join(type(self).model_fields)
            raise ValueError(f"must have one of the keys {keys}, got {' and '.join(given) or 'none'}")
        if self.box is not None and any(a > b for a, b in zip(*self.box, strict=True)):
            raise ValueError(f"box must be its lower and its upper corner, got {[list(c) for c in self.box]}")
        return self


class FromFile(Table):
    """A mesh from a file."""

    file: str
    """The name of the file, PLY, OBJ, STL, OFF, GLB or GLTF, relative to the scene file."""


class _Shape(Table):
    @model_validator(mode="after")
    def _not_too_many(self) -> "_Shape":
        cells = getattr(self, "cells", ())
        count = 1
        for number in cells if isinstance(cells, tuple) else (cells,):
            count *= number + 1
        if count > MOST_POINTS:
            raise ValueError(f"cells must make at most {MOST_POINTS:,} points, got {count:,}")
        return self


class BoxShape(_Shape):
    """A box about the origin."""

    shape: Literal["box"]
    size: Sizes
    """The lengths along x, y and z."""
    cells: Cells = (1, 1, 1)
    """How many along each: of its surface, and for flesh without `cell` of its tetrahedra."""


class SphereShape(Table):
    """A ball about the origin."""

    shape: Literal["sphere"]
    radius: Length
    """The radius of the ball."""
    detail: Annotated[int, Field(strict=True, ge=0, le=7)] = 3
    """How often the faces of an icosahedron are divided into four."""


class CylinderShape(_Shape):
    """A cylinder about the origin, its axis along y."""

    shape: Literal["cylinder"]
    radius: Length
    """The radius of the circle."""
    height: Length
    """The height, along y."""
    sections: Annotated[int, Field(strict=True, ge=3, le=1000)] = 32
    """Sides of the circle."""


class CapsuleShape(Table):
    """All within a radius of a line along y about the origin."""

    shape: Literal["capsule"]
    radius: Length
    """The radius: how far the surface is from the line."""
    height: Length
    """The length of the line, from centre to centre of the round ends."""


class SheetShape(_Shape):
    """A flat grid about the origin, in the plane of x and z; its triangles' diagonals take turns."""

    shape: Literal["sheet"]
    size: Sizes2
    """The lengths along x and z."""
    cells: Cells2 = (20, 20)
    """How many along each; of particles there is one at each corner."""


class RopeShape(Table):
    """A straight rope."""

    shape: Literal["rope"]
    start: Position
    """The place of one end."""
    end: Position
    """The place of the other end."""
    radius: Length
    """The radius of the rope."""
    cells: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 20
    """Pieces along it; of particles there is one at each end of a piece."""


class BranchShape(_Shape):
    """A bent stick that grows thinner, round at the tip."""

    shape: Literal["branch"]
    spine: Annotated[list[Position], Field(min_length=3, max_length=3)]
    """The middle of its root, a point that it bends towards, and its tip."""
    radius: Length
    """The radius at the root."""
    taper: Share = 0.7
    """How much thinner it is at the tip, as a share."""
    cells: Annotated[int, Field(strict=True, ge=1, le=1000)] = 20
    """Along it, for flesh without `cell`."""


class PlaneShape(Table):
    """The half space below a plane: a collider only."""

    shape: Literal["plane"]
    point: Position = (0.0, 0.0, 0.0)
    """Any point of the plane."""
    normal: Direction = (0.0, 1.0, 0.0)
    """Out of the half space, of any length."""


class OctopusShape(Table):
    """An octopus of 1 m that stands at y = 0."""

    shape: Literal["octopus"]


class FishShape(Table):
    """A lionfish of half a metre about the origin, that looks along x."""

    shape: Literal["fish"]


class PlantShape(Table):
    """A plant that stands at y = 0."""

    shape: Literal["plant"]
    seed: Annotated[int, Field(strict=True, ge=0, le=2**32 - 1)] = 0
    """Other numbers, other plants."""


class GearShape(Table):
    """A gear wheel about the origin."""

    shape: Literal["gear"]
    teeth: Annotated[int, Field(strict=True, ge=3, le=200)] = 8
    """How many."""


class RingShape(Table):
    """A ring about the origin, its axis along y."""

    shape: Literal["ring"]
    radius: Length
    """The radius from the axis to the middle of the ring."""
    girth: Length
    """The radius of the ring itself, from its middle."""
    sections: Annotated[int, Field(strict=True, ge=3, le=1000)] = 32
    """Around the axis; half as many around the ring."""


class BowlShape(Table):
    """A shallow bowl that stands at y = 0, a metre wide."""

    shape: Literal["bowl"]


class ButtonShape(Table):
    """A button with a rim about the origin, its axis along z."""

    shape: Literal["button"]
    radius: Length
    """The radius of the button."""
    sections: Annotated[int, Field(strict=True, ge=3, le=1000)] = 32
    """Sides of its rim."""


class DuckShape(Table):
    """A duck of the bath of 27 cm, that looks along x."""

    shape: Literal["duck"]
    detail: Annotated[int, Field(strict=True, ge=1, le=10)] = 2
    """More of it, more triangles."""


class PuddingShape(Table):
    """A fluted pudding of 21 cm that stands at y = 0."""

    shape: Literal["pudding"]


class FigureShape(Table):
    """A figure of 1 m that stands at y = 0 and looks along z."""

    shape: Literal["figure"]


class PonyShape(Table):
    """A pony of 2.3 m that stands at y = 0 and looks along x."""

    shape: Literal["pony"]


class DonkeyShape(Table):
    """A young donkey of 65 cm that stands at y = 0 and looks along x."""

    shape: Literal["donkey"]


class TruckShape(Table):
    """A part of a truck of 4 m that looks along x; the whole stands at y = 0."""

    shape: Literal["truck"]
    part: Literal["body", "glass", "lamps", "trim", "front wheels", "rear wheels"]
    """The part of the truck; wheels are those of an axle, with it."""


class LeavesShape(Table):
    """Leaves about a branch, without the branch."""

    shape: Literal["leaves"]
    spine: Annotated[list[Position], Field(min_length=3, max_length=3)]
    """The spine of the branch: the middle of its root, a point that it bends towards, and its tip."""
    radius: Length
    """The radius of the branch at the root."""
    count: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 16
    """How many."""
    size: Length = 0.14
    """Of a leaf."""
    seed: Annotated[int, Field(strict=True, ge=0, le=2**32 - 1)] = 0
    """Other numbers, other leaves."""


class TorsoShape(Table):
    """A moving figure of 1.8 m, down to its thighs, that looks along x; for kind = "animated"."""

    shape: Literal["torso"]
    detail: Annotated[int, Field(strict=True, ge=2, le=8)] = 2
    """More of it, more triangles."""


class ShirtShape(Table):
    """A part of a shirt that fits a torso of any detail.

    It comes with groups: of the shirt "left" and "right", where the left front lies over the right one,
    "left cuff", "right cuff", and "button 1" to "button 7", the points of the left front about each of them
    from the top; of the pocket "seam", along three sides.
    """

    shape: Literal["shirt"]
    part: Literal["shirt", "pocket"] = "shirt"
    """The buttoned shirt, or the pocket that belongs before its chest."""
    detail: Annotated[int, Field(strict=True, ge=2, le=8)] = 2
    """More of it, more triangles."""


class StairsShape(Table):
    """A flight of stairs."""

    shape: Literal["stairs"]
    steps: Annotated[int, Field(strict=True, ge=1, le=1000)] = 8
    """How many."""
    rise: Length = 0.2
    """Of a step."""
    run: Length = 0.3
    """Of a step."""
    width: Length = 2.0
    """Of the flight."""


SHAPE_GROUPS = {
    "shirt": ("left", "right", "left cuff", "right cuff", *(f"button {k}" for k in range(1, 8)), "seam")
}
"""Names of the groups that come with shapes."""

Mesh = Annotated[
    Annotated[FromFile, Tag("shape=file")]
    | Annotated[BoxShape, Tag("shape=box")]
    | Annotated[SphereShape, Tag("shape=sphere")]
    | Annotated[CylinderShape, Tag("shape=cylinder")]
    | Annotated[CapsuleShape, Tag("shape=capsule")]
    | Annotated[SheetShape, Tag("shape=sheet")]
    | Annotated[RopeShape, Tag("shape=rope")]
    | Annotated[BranchShape, Tag("shape=branch")]
    | Annotated[PlaneShape, Tag("shape=plane")]
    | Annotated[OctopusShape, Tag("shape=octopus")]
    | Annotated[FishShape, Tag("shape=fish")]
    | Annotated[PlantShape, Tag("shape=plant")]
    | Annotated[GearShape, Tag("shape=gear")]
    | Annotated[StairsShape, Tag("shape=stairs")]
    | Annotated[RingShape, Tag("shape=ring")]
    | Annotated[BowlShape, Tag("shape=bowl")]
    | Annotated[ButtonShape, Tag("shape=button")]
    | Annotated[DuckShape, Tag("shape=duck")]
    | Annotated[PuddingShape, Tag("shape=pudding")]
    | Annotated[FigureShape, Tag("shape=figure")]
    | Annotated[PonyShape, Tag("shape=pony")]
    | Annotated[DonkeyShape, Tag("shape=donkey")]
    | Annotated[TruckShape, Tag("shape=truck")]
    | Annotated[LeavesShape, Tag("shape=leaves")]
    | Annotated[TorsoShape, Tag("shape=torso")]
    | Annotated[ShirtShape, Tag("shape=shirt")],
    chosen_by("shape", "file"),
]
"""A file, or one of the shapes."""
