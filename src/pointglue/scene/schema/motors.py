"""The motors of joints in a scene file: what keeps a slide or an angle moving, or where it should be."""

from typing import Annotated, Literal

from pydantic import model_validator

from .fields import Table
from .units import Moment, Quantity, Row

__all__ = ["AngleMotor", "Angles", "AxisDamping", "AxisStiffness", "SlideMotor", "Slides"]

Slides = Annotated[tuple[float, float], Row(Quantity("m", least=-1e9, most=1e9), (2,))]
Angles = Annotated[tuple[float, float], Row(Quantity("rad", least=-1e6, most=1e6), (2,))]
AxisStiffness = Annotated[tuple[float, float, float], Row(Quantity("N/m", least=0))]
AxisDamping = Annotated[tuple[float, float, float], Row(Quantity("N s/m", least=0))]

_Slide = Annotated[float, Quantity("m", least=-1e9, most=1e9)]
_Speed = Annotated[float, Quantity("m/s", least=-1e6, most=1e6)]
_Angle = Annotated[float, Quantity("rad", least=-1e6, most=1e6)]
_Spin = Annotated[float, Quantity("rad/s", least=-1e6, most=1e6)]


class _DriveKey(Table):
    time: Moment
    """The time of the key: seconds from the first frame, or "frame N"."""

    @model_validator(mode="after")
    def _one(self) -> "_DriveKey":
        given = self.model_fields_set & {"speed", "position"}
        if len(given) != 1:
            raise ValueError(f"must have a speed or a position, got {' and '.join(sorted(given)) or 'none'}")
        return self


class SlideKey(_DriveKey):
    """What a motor keeps at a time."""

    speed: _Speed | None = None
    """The speed of the slide at that time."""
    position: _Slide | None = None
    """The slide at that time."""


class AngleKey(_DriveKey):
    """What a motor keeps at a time."""

    speed: _Spin | None = None
    """The speed of the angle at that time."""
    position: _Angle | None = None
    """The angle at that time."""


class _Motor(Table):
    ease: Literal["smooth", "linear"] = "smooth"
    """How it goes from key to key: with or without slowing down at each."""

    @model_validator(mode="after")
    def _one(self) -> "_Motor":
        given = [name for name in ("speed", "position", "keys") if getattr(self, name) not in (None, ())]
        if len(given) != 1:
            raise ValueError(
                f"must have one of the keys speed, position, keys, got {' and '.join(given) or 'none'}"
            )
        if len({frozenset(key.model_fields_set - {"time"}) for key in getattr(self, "keys", ())}) > 1:
            raise ValueError("keys must all be speeds, or all be positions")
        return self


class SlideMotor(_Motor):
    """A motor along the axis. It keeps its speed or position exactly unless it gives way or is too weak."""

    speed: _Speed | None = None
    """The speed that it keeps."""
    position: _Slide | None = None
    """The slide that it keeps."""
    keys: tuple[SlideKey, ...] = ()
    """Instead, speeds or positions at times."""
    stiffness: Annotated[float, Quantity("N/m", above=0)] | None = None
    """How strongly it draws to its position; left out, it does not give way."""
    damping: Annotated[float, Quantity("N s/m", above=0)] | None = None
    """How strongly it draws to its speed, or to that of its position, which needs a stiffness as well."""
    max_force: Annotated[float, Quantity("N", above=0)] | None = None
    """The greatest force, with which it pushes where it stalls; left out, there is none."""


class AngleMotor(_Motor):
    """A motor about the axis. It keeps its speed or position exactly unless it gives way or is too weak."""

    speed: _Spin | None = None
    """The speed that it keeps."""
    position: _Angle | None = None
    """The angle that it keeps."""
    keys: tuple[AngleKey, ...] = ()
    """Instead, speeds or positions at times."""
    stiffness: Annotated[float, Quantity("N m/rad", above=0)] | None = None
    """How strongly it draws to its position; left out, it does not give way."""
    damping: Annotated[float, Quantity("N m s/rad", above=0)] | None = None
    """How strongly it draws to its speed, or to that of its position, which needs a stiffness as well."""
    max_torque: Annotated[float, Quantity("N m", above=0)] | None = None
    """The greatest torque, with which it pushes where it stalls; left out, there is none."""
