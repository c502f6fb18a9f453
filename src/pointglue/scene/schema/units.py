"""Numbers with units: plain ones are SI, texts such as "1 mm" or "0.3 kg/m2" are converted and checked."""

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import isfinite, pi
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from ...checks import is_integer

__all__ = ["Moment", "Plain", "Quantity", "Row", "Whole", "moment_in_seconds", "shown"]

# Factor to SI, and the exponents of metre, kilogram, second and radian.
_UNITS: dict[str, tuple[float, tuple[int, int, int, int]]] = {
    "m": (1.0, (1, 0, 0, 0)),
    "km": (1e3, (1, 0, 0, 0)),
    "dm": (1e-1, (1, 0, 0, 0)),
    "cm": (1e-2, (1, 0, 0, 0)),
    "mm": (1e-3, (1, 0, 0, 0)),
    "um": (1e-6, (1, 0, 0, 0)),
    "in": (0.0254, (1, 0, 0, 0)),
    "ft": (0.3048, (1, 0, 0, 0)),
    "kg": (1.0, (0, 1, 0, 0)),
    "g": (1e-3, (0, 1, 0, 0)),
    "t": (1e3, (0, 1, 0, 0)),
    "s": (1.0, (0, 0, 1, 0)),
    "ms": (1e-3, (0, 0, 1, 0)),
    "min": (60.0, (0, 0, 1, 0)),
    "h": (3600.0, (0, 0, 1, 0)),
    "Hz": (1.0, (0, 0, -1, 0)),
    "rad": (1.0, (0, 0, 0, 1)),
    "deg": (pi / 180, (0, 0, 0, 1)),
    "N": (1.0, (1, 1, -2, 0)),
    "mN": (1e-3, (1, 1, -2, 0)),
    "kN": (1e3, (1, 1, -2, 0)),
    "J": (1.0, (2, 1, -2, 0)),
    "Pa": (1.0, (-1, 1, -2, 0)),
    "kPa": (1e3, (-1, 1, -2, 0)),
    "MPa": (1e6, (-1, 1, -2, 0)),
    "GPa": (1e9, (-1, 1, -2, 0)),
    "%": (1e-2, (0, 0, 0, 0)),
    "1": (1.0, (0, 0, 0, 0)),
}
_NUMBER = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?:/(\d+))?\s*(.*?)\s*")
_FACTOR = re.compile(r"([A-Za-z%]+|1)(?:\^?(-?\d))?")
_FRAME = re.compile(r"\s*frame\s+(-?\d{1,9}(?:\.\d{1,9})?)\s*")


def _unit(text: str) -> tuple[float, tuple[int, ...]]:
    """Return factor and exponents of products and quotients of units; ValueError has the unknown unit."""
    factor, exponents = 1.0, [0, 0, 0, 0]
    sign = 1
    for k, part in enumerate(re.split(r"([/*\s.·]+)", text)):
        if k % 2:
            sign = -1 if "/" in part else sign  # all that follows a slash is below it
            continue
        found = _FACTOR.fullmatch(part)
        if found is None or found[1] not in _UNITS:
            raise ValueError(part)
        power = sign * int(found[2] or 1)
        scale, own = _UNITS[found[1]]
        factor *= scale**power
        exponents = [total + power * each for total, each in zip(exponents, own, strict=True)]
    return factor, tuple(exponents)


def _parsed(value: Any, unit: str) -> float:
    """Return a number in SI units, from a number or from a text with a unit."""
    if not isinstance(value, float | str) and not is_integer(value):
        raise ValueError(f"must be {_wanted(unit)}, got {shown(value)}")
    if isinstance(value, str):
        found = _NUMBER.fullmatch(value)
        if found is None:
            raise ValueError(f"must be {_wanted(unit)}, got {shown(value)}")
        if found[2] and not int(found[2][:300]):
            raise ValueError(f"must not be divided by zero, got {shown(value)}")
        result = float(found[1]) / float(found[2] or 1)
        if found[3]:
            try:
                factor, exponents = _unit(found[3])
            except ValueError as error:
                raise ValueError(f"must be {_wanted(unit)}, got the unknown unit {str(error)!r}") from None
            if exponents != _unit(unit or "1")[1]:
                raise ValueError(f"must be {_wanted(unit)}, got {shown(value)}")
            result *= factor
    else:
        try:
            result = float(value)
        except OverflowError:
            raise ValueError("must be a smaller number") from None
    if not isfinite(result):
        raise ValueError(f"must be a finite number, got {shown(value)}")
    return result


def _wanted(unit: str) -> str:
    return f"a number in {unit}, or a text such as '2 {unit}'" if unit else "a number without a unit"


def shown(value: Any) -> str:
    """Return a value for a message, not too long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Plain(ABC):
    """An annotation of a field that reads it by its own `parse`."""

    words: ClassVar[str] = ""
    """What it is, for the reference."""

    @abstractmethod
    def parse(self, value: Any) -> Any:
        """Return the value; ValueError says what is wrong with it."""

    @property
    @abstractmethod
    def json(self) -> dict[str, Any]:
        """The schema for editors."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return how pydantic reads it."""
        return core_schema.no_info_plain_validator_function(self.parse)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return how editors read it."""
        return self.json


@dataclass(frozen=True)
class Quantity(Plain):
    """A number in `unit`, greater than `above`, at least `least`, at most `most`."""

    unit: str
    above: float | None = None
    least: float | None = None
    most: float | None = None

    def parse(self, value: Any) -> float:
        """Return the number in SI units; ValueError says what is wrong with it."""
        number = _parsed(value, self.unit)
        if self.above is not None and not number > self.above:
            raise ValueError(f"must be greater than {self.above:g}, got {shown(value)}")
        if self.least is not None and not number >= self.least:
            raise ValueError(f"must be at least {self.least:g}, got {shown(value)}")
        if self.most is not None and not number <= self.most:
            raise ValueError(f"must be at most {self.most:g}, got {shown(value)}")
        return number

    @property
    def json(self) -> dict[str, Any]:
        """The schema for editors."""
        limits = {"exclusiveMinimum": self.above, "minimum": self.least, "maximum": self.most}
        number = {"type": "number", **{name: limit for name, limit in limits.items() if limit is not None}}
        return {"anyOf": [number, {"type": "string"}]}


@dataclass(frozen=True)
class Row(Plain):
    """Several numbers, of one of the `lengths`."""

    each: Quantity
    lengths: tuple[int, ...] = (3,)

    def parse(self, value: Any) -> tuple[float, ...]:
        """Return the numbers in SI units; ValueError says which is wrong."""
        counts = " or ".join(map(str, self.lengths))
        unit = f" in {self.each.unit}" if self.each.unit else ""
        if not isinstance(value, (list, tuple)) or len(value) not in self.lengths:
            raise ValueError(f"must be {counts} numbers{unit}, got {shown(value)}")
        result = []
        for k, number in enumerate(value):
            try:
                result.append(self.each.parse(number))
            except ValueError as error:
                raise ValueError(f"number {k + 1} of {len(value)} {error}") from None
        return tuple(result)

    @property
    def json(self) -> dict[str, Any]:
        """The schema for editors."""
        low, high = min(self.lengths), max(self.lengths)
        return {"type": "array", "items": self.each.json, "minItems": low, "maxItems": high}


@dataclass(frozen=True)
class Whole(Plain):
    """A row of `length` whole numbers of at least 1."""

    length: int

    def parse(self, value: Any) -> tuple[int, ...]:
        """Return the numbers; ValueError says what is wrong."""
        fits = isinstance(value, (list, tuple)) and len(value) == self.length
        if not fits or any(type(n) is not int or not 1 <= n <= 1_000_000 for n in value):
            raise ValueError(f"must be {self.length} whole numbers of at least 1, got {shown(value)}")
        return tuple(value)

    @property
    def json(self) -> dict[str, Any]:
        """The schema for editors."""
        each = {"type": "integer", "minimum": 1}
        return {"type": "array", "items": each, "minItems": self.length, "maxItems": self.length}


def _moment(value: Any) -> Any:
    """Return seconds, or "frame N" as it is."""
    if isinstance(value, str) and (found := _FRAME.fullmatch(value)):
        return f"frame {found[1]}"
    try:
        return _parsed(value, "s")
    except ValueError:
        raise ValueError(f"must be seconds, '1.5 s' or 'frame 36', got {shown(value)}") from None


Moment = Annotated[
    float | str,
    BeforeValidator(_moment),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}]}),
]
"""A time: seconds from the first frame, or "frame N", a frame's number."""


def moment_in_seconds(value: float | str, start: int, rate: float) -> float:
    """Return a moment in seconds from the first frame, which has the number `start`."""
    return value if isinstance(value, float) else (float(value.removeprefix("frame ")) - start) / rate
