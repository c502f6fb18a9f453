"""What a solver moves and how it is bonded: soft bodies, bonds of glue, joints."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, as_reals, check_real, check_rows, require_finite
from ..errors import InputError
from ..glue import Binding, Joint, Slider, Spring
from ..glue.joints import has_angle, has_slide
from .energies.base import Energy

__all__ = [
    "Bond",
    "ElasticBody",
    "JointBond",
    "Motor",
    "check_body_name",
    "check_energy",
    "check_faces",
    "check_name",
    "check_points",
    "store_fields",
]

TimedEnergy = Energy | Callable[[float], Energy]


@dataclass(frozen=True, eq=False)
class ElasticBody:
    """A soft body: points with masses, and the energies that shape it.

    Parameters
    ----------
    positions : (n, 3)
        Where the points start [m].
    mass : (n,)
        The masses of the points [kg].
    energies : sequence of Energy
        The energies of the body's points. Each may also be a function that returns the energy for a time
        [s], with the same stencils each time.
    pinned : (n,), optional
        Which points are pinned, as booleans.
    velocities : (n, 3) or (3,), optional
        The velocities at the start, which are zero by default [m/s].
    motion : callable, optional
        A function of the time [s] that returns the positions of the pinned points [m], which are then
        kinematic.
    faces : (m, 3), optional
        Triangles of the points: the surface that contact sees.
    name : str
        The body's name, by which bonds and states refer to it.

    Raises
    ------
    InputError
        If shapes do not fit each other, a number is not finite, or a mass is not positive.
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
        points = check_points("positions", self.positions)
        count = len(points)
        mass = as_reals("mass", self.mass).astype(np.float64)
        if mass.shape != (count,):
            raise InputError(f"mass must have shape ({count},), one number per point, got {mass.shape}")
        require_finite("mass", mass)
        if not (mass > 0).all():
            raise InputError(f"mass must be positive, got {mass.min():g} for point {int(mass.argmin())}")
        velocities = _check_velocities(self.velocities, count)
        pinned = np.zeros(count, np.bool_) if self.pinned is None else np.array(self.pinned)
        if pinned.dtype != np.bool_ or pinned.shape != (count,):
            raise InputError(f"pinned must be a mask of {count} booleans, got {pinned.dtype} {pinned.shape}")
        if self.motion is not None and not pinned.any():
            raise InputError("motion is that of pinned points: say which are pinned")
        check_faces(self.faces, count, self.name)
        if not isinstance(self.energies, (list, tuple)):
            raise InputError(f"energies must be a list, got {type(self.energies).__name__}")
        for k, energy in enumerate(self.energies):
            if not callable(energy):
                check_energy(f"energies[{k}]", energy, count)
        energies = tuple(self.energies)
        store_fields(
            self, positions=points, mass=mass, velocities=velocities, pinned=pinned, energies=energies
        )
        check_name(self.name)


@dataclass(frozen=True, eq=False)
class Bond:
    """Points of one body that follow another by glue.

    Without a spring the points are where the binding puts them, to rounding, from `attach` to `release`, or
    until they break. A spring has these times and forces itself.

    Parameters
    ----------
    body : str
        The body whose points are bound.
    points : (k,)
        Rows of the body's points, or a mask of them.
    to : str, optional
        The body that they follow. Without it the binding's parents are rows of all bodies' points, one body
        after the other.
    binding : Binding, optional
        How they follow; its targets are where the points start. By default each is glued to points
        of `to` around it, as `bind_glue` chooses them.
    spring : Spring, optional
        The spring by which they are drawn to the binding's points, instead of following exactly.
    attach : float
        The time until which the points are free [s]; they are bound where they are at that time.
    release : float
        The time at which they are released [s].
    break_force : float
        The force at which a point breaks off [N].
    break_torque : float
        The torque about the centroid of the bound points at which all of them break off [N m].

    Raises
    ------
    InputError
        If both `to` and `binding` are missing, an argument is of another type, `attach` is not before
        `release`, or a time, force or torque is given beside a spring.
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
    break_torque: float = inf

    def __post_init__(self) -> None:
        """Check what can be checked without the bodies."""
        check_body_name("body", self.body)
        if self.to is not None:
            check_body_name("to", self.to)
        if self.to is None and self.binding is None:
            raise InputError(f"a bond of {self.body!r} needs a body to follow, or a binding to all points")
        if self.binding is not None and not isinstance(self.binding, Binding):
            raise InputError(f"binding must be a Binding, got {type(self.binding).__name__}")
        if self.spring is not None:
            if not isinstance(self.spring, Spring):
                raise InputError(f"spring must be a Spring, got {type(self.spring).__name__}")
            if self.attach != -inf or self.release != inf or self.break_force != inf:
                raise InputError("a spring has its own attach, release and break_force: give them there")
            if self.break_torque != inf:
                raise InputError("break_torque is for points that are held: a spring has no torque")
        _check_limits(self)


@dataclass(frozen=True)
class Motor:
    """A motor of a joint's slide or angle; for angles, forces are torques and metres are radians.

    It has either a speed or a position to keep, each a number or a function of the time [s]. Without
    stiffness or damping it keeps it exactly, as long as `max_force` suffices; beyond that it stalls, and
    pushes with `max_force`.

    Parameters
    ----------
    speed : float or callable, optional
        The rate of the coordinate [m/s or rad/s].
    position : float or callable, optional
        The coordinate [m or rad].
    stiffness : float
        The force by which the position is drawn to where it should be [N/m or N m/rad].
    damping : float, optional
        The force against the speed's difference from what it should be [N s/m or N m s/rad]: by default
        infinite for a speed, and zero for a position.
    max_force : float
        The greatest force [N or N m].

    Raises
    ------
    InputError
        If there is not exactly one of speed and position, or a number is out of range.
    """

    speed: float | Callable[[float], float] | None = None
    position: float | Callable[[float], float] | None = None
    _: KW_ONLY
    stiffness: float = inf
    damping: float | None = None
    max_force: float = inf

    def __post_init__(self) -> None:
        """Check the numbers."""
        if (self.speed is None) == (self.position is None):
            raise InputError("a motor must have a speed, or a position, and not both")
        for name in ("speed", "position"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                check_real(name, value)
        check_real("stiffness", self.stiffness, above=0, infinite=True)
        if self.position is None and self.stiffness != inf:
            raise InputError("stiffness is for a motor with a position; a speed has damping")
        if self.damping is None:
            store_fields(self, damping=inf if self.position is None else 0.0)
        elif self.position is None:
            check_real("damping", self.damping, above=0, infinite=True)
        else:
            check_real("damping", self.damping, at_least=0)
            if self.damping and self.stiffness == inf:
                raise InputError("damping of a position needs a stiffness, which is infinite without one")
        check_real("max_force", self.max_force, above=0, infinite=True)

    @property
    def unyielding(self) -> bool:
        """Whether it keeps its speed or position exactly, by any force."""
        own = self.damping if self.position is None else self.stiffness
        return own == inf and self.max_force == inf

    def at(self, time: float) -> float:
        """Return the speed, or the position, that is to be kept at a time [s].

        Parameters
        ----------
        time : float
            The time [s].

        Returns
        -------
        float
            The speed [m/s or rad/s], or the position [m or rad].

        Raises
        ------
        InputError
            If a function of the time does not give a finite number.
        """
        name, given = ("speed", self.speed) if self.position is None else ("position", self.position)
        return check_real(f"{name} of a motor", given(time) if callable(given) else given)


@dataclass(frozen=True, eq=False)
class JointBond:
    """Joints between two bodies, made by `bind_joint` or `bind_slider` of their points where they start.

    They hold, to rounding, from `attach` to `release`, each until its force exceeds `break_force`.

    Parameters
    ----------
    first, second : str
        The bodies that are joined.
    joint : Joint or Slider
        The joints, bound to the points of the bodies.
    attach : float
        The time from which they hold [s]; the second body is then held by those of its points that meet the
        first body's at that time.
    release : float
        The time at which they are released [s].
    break_force : float
        The force at which a joint breaks [N].
    break_torque : float
        The torque about the joint at which it breaks [N m].
    slide_limits : (float, float), optional
        How far the first body may slide along the axis, relative to the second, at least and at most [m]; it
        is at 0 when the joint attaches. For joints that slide along their axis.
    angle_limits : (float, float), optional
        How far it may turn about the axis [rad]. For hinges, cylindrical and planar joints.
    slide_motor : Motor, optional
        What drives the slide.
    angle_motor : Motor, optional
        What drives the angle.
    stiffness : (float, float, float)
        The stiffness of a bushing along each of its axes, which turn with the first body [N/m]; infinite ones
        do not give way.
    damping : (float, float, float)
        Its damping along each of them, as the first body sees it [N s/m].

    Raises
    ------
    InputError
        If `joint` is none, `attach` is not before `release`, or limits or motors are of a coordinate that
        the joint does not have, or do not include 0.
    """

    first: str
    second: str
    joint: Joint | Slider
    _: KW_ONLY
    attach: float = -inf
    release: float = inf
    break_force: float = inf
    break_torque: float = inf
    slide_limits: tuple[float, float] | None = None
    angle_limits: tuple[float, float] | None = None
    slide_motor: Motor | None = None
    angle_motor: Motor | None = None
    stiffness: tuple[float, float, float] = (0.0, 0.0, 0.0)
    damping: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        """Check what can be checked without the bodies."""
        check_body_name("first", self.first)
        check_body_name("second", self.second)
        if not isinstance(self.joint, Joint | Slider):
            raise InputError(f"joint must be a Joint, see bind_joint, got {type(self.joint).__name__}")
        _check_limits(self)
        if isinstance(self.joint, Slider) and self.attach > 0:
            raise InputError("a slider is on its path from the start: it cannot attach later")
        kind = self.joint.kind
        for name in ("stiffness", "damping"):
            store_fields(self, **{name: _check_axes(name, getattr(self, name))})
        springs = any(self.stiffness) or any(self.damping)
        if springs != (kind == "bushing"):
            raise InputError(
                "stiffness and damping are of bushings, which need some; other joints have motors"
                + f", got a {kind} joint"
            )
        for coordinate, there in (("slide", has_slide(kind)), ("angle", has_angle(kind))):
            limits, motor = getattr(self, f"{coordinate}_limits"), getattr(self, f"{coordinate}_motor")
            if not there and (limits is not None or motor is not None):
                raise InputError(f"{coordinate} limits and motors: a {kind} joint has no {coordinate}")
            if limits is not None:
                store_fields(self, **{f"{coordinate}_limits": _check_range(f"{coordinate}_limits", limits)})
            if motor is not None and not isinstance(motor, Motor):
                raise InputError(f"{coordinate}_motor must be a Motor, got {type(motor).__name__}")


def check_faces(faces: ArrayLike | None, count: int, body: str) -> None:
    """Raise unless `faces` are triangles (m, 3) of some of `count` points, or None."""
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


def check_energy(name: str, energy: Any, count: int) -> None:
    """Raise unless `energy` is an energy of `count` points in space."""
    missing = [part for part in ("value", "gradient", "elements", "stencils") if not hasattr(energy, part)]
    if missing:
        raise InputError(f"{name} must be an energy, got {type(energy).__name__} without {missing[0]}")
    number = getattr(energy, "count", count)
    if number != count or getattr(energy, "dimension", 3) != 3:
        raise InputError(
            f"{name} must be of {count} points in space like the body, got one of {number} points "
            f"in {getattr(energy, 'dimension', 3)} coordinates"
        )


def check_points(name: str, value: ArrayLike) -> Array:
    """Return points (n, 3) as float64, a copy, or raise unless they are finite and at least one."""
    points = check_rows(name, value)
    if not len(points):
        raise InputError(f"{name} must have at least one row, got none")
    return points


def check_name(name: Any) -> None:
    """Raise unless `name` is a text that is not empty."""
    if not isinstance(name, str) or not name:
        raise InputError(f"name must be a text, got {name!r}")


def store_fields(record: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass; arrays are made read-only."""
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
        object.__setattr__(record, name, value)


def _check_velocities(value: ArrayLike | None, count: int) -> Array:
    """Return velocities (n, 3), which are zero by default."""
    if value is None:
        return np.zeros((count, 3))
    velocities = as_reals("velocities", value).astype(np.float64)
    if velocities.shape not in ((3,), (count, 3)):
        raise InputError(f"velocities must have shape (3,) or ({count}, 3), got {velocities.shape}")
    require_finite("velocities", velocities)
    return np.array(np.broadcast_to(velocities, (count, 3)))


def check_body_name(argument: str, value: Any) -> None:
    """Raise unless a body is told by its name."""
    if not isinstance(value, str):
        name = getattr(value, "name", None)
        advice = f": give its name, {name!r}" if isinstance(name, str) else ""
        raise InputError(f"{argument} must be the name of a body, got {type(value).__name__}{advice}")


def _check_limits(bond: Bond | JointBond) -> None:
    """Raise unless the limits are a time, a later time, a positive force and a positive torque."""
    for name in ("attach", "release"):
        check_real(name, getattr(bond, name), infinite=True)
    for name in ("break_force", "break_torque"):
        check_real(name, getattr(bond, name), above=0, infinite=True)
    if not bond.attach < bond.release:
        raise InputError(f"attach must come before release, got {bond.attach!r} and {bond.release!r}")


def _check_range(name: str, value: Any) -> tuple[float, float]:
    """Return the ends of a range that includes 0, or raise."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InputError(f"{name} must be a pair, the least and the greatest, got {value!r}")
    lower, upper = (check_real(name, each, infinite=True) for each in value)
    if not lower <= 0 <= upper:
        raise InputError(f"{name} must include 0, where joints are when they attach, got {value!r}")
    if lower == upper:
        raise InputError(f"{name} must leave some play; use a joint that does not move, got {value!r}")
    return float(lower), float(upper)


def _check_axes(name: str, value: Any) -> tuple[float, float, float]:
    """Return a number for each of three axes, or raise; stiffness may be infinite."""
    if not isinstance(value, tuple | list) or len(value) != 3:
        raise InputError(f"{name} must be three numbers, one for each axis, got {value!r}")
    infinite = name == "stiffness"
    first, second, third = (check_real(name, each, at_least=0, infinite=infinite) for each in value)
    return first, second, third
