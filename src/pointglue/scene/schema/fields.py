"""What the tables of a scene file are made of: numbers, vectors, colours, transforms, keys, points."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, model_validator

from ...assets.palette import PALETTE
from .units import Moment, Plain, Quantity, Row, Whole


def nearest(word: Any, valid: Iterable[str]) -> str:
    """Return "; did you mean ...?" if one of the valid words is close to a word, or else nothing."""
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
class _Rotation(Row):
    """Three angles or a quaternion."""

    def parse(self, value: Any) -> tuple[float, ...]:
        """Return the numbers; ValueError says what is wrong."""
        turn = super().parse(value)
        if len(turn) == 4 and not max(map(abs, turn)) > 1e-6:
            raise ValueError(f"must not be zero: a quaternion wxyz is needed, got {value!r}")
        return turn


@dataclass(frozen=True)
class _Rgb(Plain):
    """A colour as red, green and blue."""

    words = "colour"

    def parse(self, value: Any) -> tuple[float, ...]:
        """Return red, green and blue of a name, a code or three numbers."""
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
        """Return three factors."""
        each = Quantity("", above=0, most=1e9)
        return Row(each).parse(value) if isinstance(value, list) else (each.parse(value),) * 3

    @property
    def json(self) -> dict[str, Any]:
        """The schema for editors."""
        each = Quantity("", above=0, most=1e9)
        return {"anyOf": [each.json, Row(each).json]}


Color = Annotated[tuple[float, float, float], _Rgb()]
Turn = Annotated[tuple[float, ...], _Rotation(Quantity("", least=-1e6, most=1e6), (3, 4))]
Scales = Annotated[tuple[float, float, float], _Scales()]


class Table(BaseModel):
    """A table of a scene file: no keys but its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def chosen_by(key: str, *names: str) -> Discriminator:
    """Return what tells tables apart: the value of `key`, or one of the keys `names` if it is there."""

    def tag(value: Any) -> str | None:
        given = value if isinstance(value, dict) else getattr(value, "__dict__", {})
        for name in names:
            if name in given:
                return f"{key}={name}"
        return f"{key}={given[key]}" if isinstance(given.get(key), str) else None

    return Discriminator(tag)


class Transform(Table):
    """A scaling about the origin, then a rotation, then a translation."""

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
    """The rotation from the start, about its middle: degrees about x, y, then z; or a quaternion wxyz."""


class BallOf(Table):
    """A ball: all points within it."""

    center: Position
    """The centre of the ball, in the scene."""
    radius: Length
    """The radius of the ball."""


class Points(Table):
    """A choice among the points of an object, by where they are at the start; one of these keys."""

    box: Annotated[list[Position], Field(min_length=2, max_length=2)] | None = None
    """Those in a box: its lower and its upper corner."""
    ball: BallOf | None = None
    """Those in a ball."""
    nearest: Count | None = None
    """How many: those nearest to the other object (of an attachment)."""
    indices: list[Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]] | None = None
    """Their numbers, from 0."""
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
