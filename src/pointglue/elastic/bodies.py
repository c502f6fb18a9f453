"""What a solver moves, and what ties it together: soft bodies, bonds of glue, joints."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, as_reals, require_finite
from ..errors import InputError
from ..glue import Binding, Joint, Spring
from .energies.base import Energy

__all__ = ["Bond", "ElasticBody", "JointBond"]

TimedEnergy = Energy | Callable[[float], Energy]


@dataclass(frozen=True, eq=False)
class ElasticBody:
    """A soft body: points (n, 3) in m where they start, masses (n,) in kg, and the energies that shape it.

    An energy may also be a function that gives it for a time (s), with the same stencils each time. Points
    that are `pinned`, a mask (n,), stay where they are, or go where `motion` says: a function of the time
    that gives the places of the pinned ones. `velocities` (n, 3) are those at the start, in m/s.
    """

    positions: Array
    mass: Array
    energies: Sequence[TimedEnergy] = ()
    pinned: Array | None = None
    velocities: Array | tuple[float, float, float] | None = None
    motion: Callable[[float], ArrayLike] | None = None
    faces: ArrayLike | None = None
    name: str = "body"

    def __post_init__(self) -> None:
        """Check, copy and complete the arrays."""
        points = checked_rows("positions", self.positions)
        count = len(points)
        mass = as_reals("mass", self.mass).astype(np.float64)
        if mass.shape != (count,):
            raise InputError(f"mass must have shape ({count},), one number per point, got {mass.shape}")
        require_finite("mass", mass)
        if not (mass > 0).all():
            raise InputError(f"mass must be positive, got {mass.min():g} for point {int(mass.argmin())}")
        rates = checked_velocities(self.velocities, count)
        pinned = np.zeros(count, np.bool_) if self.pinned is None else np.array(self.pinned)
        if pinned.dtype != np.bool_ or pinned.shape != (count,):
            raise InputError(f"pinned must be a mask of {count} booleans, got {pinned.dtype} {pinned.shape}")
        if self.motion is not None and not pinned.any():
            raise InputError("motion is that of pinned points: say which are pinned")
        checked_faces(self.faces, count, self.name)
        if not isinstance(self.energies, (list, tuple)):
            raise InputError(f"energies must be a list, got {type(self.energies).__name__}")
        for k, energy in enumerate(self.energies):
            if not callable(energy):
                checked_energy(f"energies[{k}]", energy, count)
        store(
            self, positions=points, mass=mass, velocities=rates, pinned=pinned, energies=tuple(self.energies)
        )
        checked_name(self.name)


@dataclass(frozen=True, eq=False)
class Bond:
    """Points of one body that follow another by glue.

    `points` are rows of `body`. They hang on the points of the body `to` by `binding`, whose targets are
    where they start; by default each on the nearest eight. Without `to` the binding's parents are particles
    of the scene, all bodies' one after the other.

    Without `spring` the points are where the glue says, to rounding, until the time `release` (s), or until
    a point's force exceeds `break_force` (N). With a time `attach` they are free until then, and stick where
    they are at that time. A spring has these numbers itself.
    """

    body: str
    points: ArrayLike
    to: str | None = None
    binding: Binding | None = None
    _: KW_ONLY
    spring: Spring | None = None
    attach: float = -inf
    release: float = inf
    break_force: float = inf

    def __post_init__(self) -> None:
        """Check what can be checked without the bodies."""
        if self.to is None and self.binding is None:
            raise InputError(f"a bond of {self.body!r} needs a body to follow, or a binding to the scene")
        if self.binding is not None and not isinstance(self.binding, Binding):
            raise InputError(f"binding must be a Binding, got {type(self.binding).__name__}")
        if self.spring is not None:
            if not isinstance(self.spring, Spring):
                raise InputError(f"spring must be a Spring, got {type(self.spring).__name__}")
            if self.attach != -inf or self.release != inf or self.break_force != inf:
                raise InputError("a spring has its own attach, release and break_force: give them there")
        checked_limits(self.attach, self.release, self.break_force)


@dataclass(frozen=True, eq=False)
class JointBond:
    """Joints between two bodies, made by `bind_joint` of their points where they start.

    They hold, to rounding, until the time `release` (s), and each until its force exceeds `break_force` (N).
    With a time `attach` they hold from then on, and the second body by the places that meet the first's then.
    """

    first: str
    second: str
    joint: Joint
    _: KW_ONLY
    attach: float = -inf
    release: float = inf
    break_force: float = inf

    def __post_init__(self) -> None:
        """Check what can be checked without the bodies."""
        if not isinstance(self.joint, Joint):
            raise InputError(f"joint must be a Joint, see bind_joint, got {type(self.joint).__name__}")
        checked_limits(self.attach, self.release, self.break_force)


def checked_faces(faces: ArrayLike | None, count: int, body: str) -> None:
    """Raise unless these are triangles (m, 3) of some of `count` points, or none."""
    if faces is None:
        return
    rows = np.asarray(faces)
    if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype.kind not in "iu" or not len(rows):
        raise InputError(f"faces of {body!r} must be triangles (m, 3), got {rows.dtype} {rows.shape}")
    if rows.min() < 0 or rows.max() >= count:
        wrong = rows.min() if rows.min() < 0 else rows.max()
        raise InputError(f"faces of {body!r} must name some of its {count} points, got {wrong}")
    double = (rows == np.roll(rows, 1, axis=1)).any(1)
    if double.any():
        raise InputError(f"faces of {body!r} must have three corners, got {rows[double][0].tolist()}")


def checked_energy(name: str, energy: Any, count: int) -> None:
    """Raise unless it is an energy of `count` points."""
    missing = [part for part in ("value", "gradient", "elements", "stencils") if not hasattr(energy, part)]
    if missing:
        raise InputError(f"{name} must be an energy, got {type(energy).__name__} without {missing[0]}")
    number = getattr(energy, "count", count)
    if number != count or getattr(energy, "dimension", 3) != 3:
        raise InputError(
            f"{name} must be of {count} points in space like the body, got one of {number} points "
            f"in {getattr(energy, 'dimension', 3)} coordinates"
        )


def checked_rows(name: str, value: ArrayLike) -> Array:
    """Points (n, 3), at least one, copied."""
    points = as_reals(name, value).astype(np.float64)
    if points.ndim != 2 or points.shape[1] != 3 or not len(points):
        raise InputError(f"{name} must have shape (n, 3), at least one row, got shape {points.shape}")
    require_finite(name, points)
    return points


def checked_velocities(value: ArrayLike | None, count: int) -> Array:
    """Velocities (n, 3), by default none."""
    if value is None:
        return np.zeros((count, 3))
    rates = as_reals("velocities", value).astype(np.float64)
    if rates.shape not in ((3,), (count, 3)):
        raise InputError(f"velocities must have shape (3,) or ({count}, 3), got {rates.shape}")
    require_finite("velocities", rates)
    return np.array(np.broadcast_to(rates, (count, 3)))


def checked_name(name: Any) -> None:
    """Raise unless it is a name."""
    if not isinstance(name, str) or not name:
        raise InputError(f"name must be a text, got {name!r}")


def checked_limits(attach: float, release: float, break_force: float) -> None:
    """Raise unless these are a time, a later one and a positive force."""
    for name, value in (("attach", attach), ("release", release), ("break_force", break_force)):
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or np.isnan(value):
            raise InputError(f"{name} must be a number, got {value!r}")
    if not attach < release:
        raise InputError(f"attach must come before release, got {attach!r} and {release!r}")
    if not break_force > 0:
        raise InputError(f"break_force must be positive, got {break_force!r}")


def store(body: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass; arrays are made read-only."""
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(body, name, value)
