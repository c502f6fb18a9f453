"""Solids by formula, which bodies collide with: planes, balls, boxes, capsules and cylinders.

They are at rest or move rigidly. The solvers of particles and of implicit solids take the same ones.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, check_real, check_vector, frozen
from ..errors import InputError
from ..procrustes.space import perpendiculars
from .rigid_motion import Motion, RigidMotion, check_rotation
from .shapes import box

__all__ = ["Ball", "Box", "Capsule", "Collider", "Cylinder", "Plane", "solid_mesh"]

SIDES = 64  # of the prism around a cylinder


@dataclass(frozen=True, eq=False, kw_only=True)
class Collider:
    """What all colliders have in common; use one of the kinds.

    Parameters
    ----------
    motion : Motion or function of time, optional
        The collider stands at p -> R p + t of its own coordinates; None for where they are.
    friction : float, optional
        Coulomb's coefficient, at least 0; None for that of the solver.
    spin_friction : float, optional
        The fraction of rolling that is made to match in 1/60 s, 0 to 1; None for that of the solver. It is
        for particles only.
    name : str, optional
        What the implicit solver calls it in messages, and in the pairs of bodies that ignore each other;
        without it the solver numbers its colliders.

    Raises
    ------
    InputError
        If a number is out of its bounds, or `motion` is neither a `Motion` nor a function.
    """

    motion: RigidMotion | None = None
    friction: float | None = None
    spin_friction: float | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        """Check what all colliders have in common."""
        if self.motion is not None and not isinstance(self.motion, Motion) and not callable(self.motion):
            raise InputError(f"motion must be a Motion or a function, got {type(self.motion).__name__}")
        if self.friction is not None:
            check_real("friction", self.friction, at_least=0)
        if self.spin_friction is not None:
            check_real("spin_friction", self.spin_friction, at_least=0, at_most=1)

    @property
    def own_pose(self) -> tuple[Array, Array]:
        """The pose of the solid in coordinates of the collider: rotation (3, 3), translation (3,) [m]."""
        return np.eye(3), np.zeros(3)


@dataclass(frozen=True, eq=False)
class Plane(Collider):
    """The half space below a plane.

    Parameters
    ----------
    point : (3,)
        Any point of the plane [m].
    normal : (3,)
        Its normal, of any length, which points out of the half space.
    motion, friction, spin_friction, name
        See :class:`Collider`.

    Raises
    ------
    InputError
        If a shape does not fit, a number is not finite, or `normal` is zero.
    """

    point: ArrayLike
    normal: ArrayLike

    def __post_init__(self) -> None:
        """Check the plane."""
        super().__post_init__()
        object.__setattr__(self, "point", check_vector("point", self.point))
        object.__setattr__(self, "normal", _direction("normal", self.normal))

    @property
    def own_pose(self) -> tuple[Array, Array]:
        """Rotation (3, 3) from y to the normal, and the point (3,) [m]."""
        return _upright(np.asarray(self.normal)), np.asarray(self.point)


@dataclass(frozen=True, eq=False)
class Ball(Collider):
    """A solid ball.

    Parameters
    ----------
    center : (3,)
        Its centre [m].
    radius : float
        Its radius, above 0 [m].
    motion, friction, spin_friction, name
        See :class:`Collider`.

    Raises
    ------
    InputError
        If a shape does not fit, or a number is not finite or out of its bounds.
    """

    center: ArrayLike
    radius: float

    def __post_init__(self) -> None:
        """Check the ball."""
        super().__post_init__()
        object.__setattr__(self, "center", check_vector("center", self.center))
        check_real("radius", self.radius, above=0)

    @property
    def own_pose(self) -> tuple[Array, Array]:
        """No rotation (3, 3), and the centre (3,) [m]."""
        return np.eye(3), np.asarray(self.center)


@dataclass(frozen=True, eq=False)
class Box(Collider):
    """A solid box.

    Parameters
    ----------
    center : (3,)
        Its centre [m].
    half_extents : (3,), optional
        Half its sizes along its axes, above 0 [m]; or give `size`.
    rotation : (3, 3), optional
        Its axes, as columns; without it they are those of the world.
    size : (3,), optional
        Its whole sizes along its axes, as :func:`block` has them, above 0 [m].
    motion, friction, spin_friction, name
        See :class:`Collider`.

    Raises
    ------
    InputError
        If a shape does not fit, a number is not finite or out of its bounds, `rotation` is none, or there are
        both `half_extents` and `size`, or neither.
    """

    center: ArrayLike
    half_extents: ArrayLike | None = None
    rotation: ArrayLike | None = None
    size: ArrayLike | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Check the box."""
        super().__post_init__()
        object.__setattr__(self, "center", check_vector("center", self.center))
        if (self.half_extents is None) == (self.size is None):
            raise InputError("Box needs either half_extents or size, and not both")
        name = "size" if self.half_extents is None else "half_extents"
        lengths = check_vector(name, getattr(self, name))
        if not (lengths > 0).all():
            raise InputError(f"{name} must be positive, got {lengths.tolist()}")
        half = lengths if name == "half_extents" else frozen(0.5 * lengths)
        object.__setattr__(self, "half_extents", half)
        object.__setattr__(self, "size", frozen(2 * half))
        rotation = np.eye(3) if self.rotation is None else check_rotation("rotation", self.rotation)
        object.__setattr__(self, "rotation", frozen(rotation))

    @property
    def own_pose(self) -> tuple[Array, Array]:
        """Rotation (3, 3) and centre (3,) [m]."""
        return np.asarray(self.rotation), np.asarray(self.center)


@dataclass(frozen=True, eq=False)
class Capsule(Collider):
    """All points within a radius of a line segment; a ball if its ends are the same.

    Parameters
    ----------
    start, end : (3,)
        The ends of the segment [m].
    radius : float
        The radius, above 0 [m].
    motion, friction, spin_friction, name
        See :class:`Collider`.

    Raises
    ------
    InputError
        If a shape does not fit, or a number is not finite or out of its bounds.
    """

    start: ArrayLike
    end: ArrayLike
    radius: float

    def __post_init__(self) -> None:
        """Check the capsule."""
        super().__post_init__()
        object.__setattr__(self, "start", check_vector("start", self.start))
        object.__setattr__(self, "end", check_vector("end", self.end))
        check_real("radius", self.radius, above=0)

    @property
    def own_pose(self) -> tuple[Array, Array]:
        """Rotation (3, 3) from y to the axis, and the midpoint (3,) [m]."""
        axis = self._axis()
        length = np.linalg.norm(axis)
        midpoint = (np.asarray(self.start) + np.asarray(self.end)) / 2
        return (_upright(axis / length) if length > 0 else np.eye(3)), midpoint

    def _axis(self) -> Array:
        """Return the vector from start to end."""
        return np.asarray(np.subtract(self.end, self.start))


@dataclass(frozen=True, eq=False)
class Cylinder(Collider):
    """A solid cylinder.

    Solvers take it for the prism of 64 sides around it, which goes beyond it by at most 0.12 % of its radius.

    Parameters
    ----------
    start, end : (3,)
        The centres of its two flat ends, which differ [m].
    radius : float
        Its radius, above 0 [m].
    motion, friction, spin_friction, name
        See :class:`Collider`.

    Raises
    ------
    InputError
        If a shape does not fit, a number is not finite or out of its bounds, or the ends are the same.
    """

    start: ArrayLike
    end: ArrayLike
    radius: float

    def __post_init__(self) -> None:
        """Check the cylinder."""
        super().__post_init__()
        object.__setattr__(self, "start", check_vector("start", self.start))
        object.__setattr__(self, "end", check_vector("end", self.end))
        check_real("radius", self.radius, above=0)
        if np.array_equal(np.asarray(self.start), np.asarray(self.end)):
            raise InputError(f"end must differ from start, got {np.asarray(self.end).tolist()} for both")

    @property
    def own_pose(self) -> tuple[Array, Array]:
        """Rotation (3, 3) from y to the axis, and the midpoint (3,) [m]."""
        axis = np.subtract(self.end, self.start)
        midpoint = (np.asarray(self.start) + np.asarray(self.end)) / 2
        return _upright(axis / np.linalg.norm(axis)), midpoint


def solid_mesh(collider: Box | Cylinder) -> tuple[Array, NDArray[np.int64]]:
    """Return the surface of a box, or the prism around a cylinder.

    Parameters
    ----------
    collider : Box or Cylinder
        The collider.

    Returns
    -------
    vertices : (n, 3)
        The vertices, in coordinates of the collider [m].
    faces : (m, 3)
        The triangles, counter-clockwise seen from outside.
    """
    turn, center = collider.own_pose
    if isinstance(collider, Box):
        vertices, faces = box(tuple(np.asarray(collider.size).tolist()), (1, 1, 1))
    else:
        length = float(np.linalg.norm(np.subtract(collider.end, collider.start)))
        vertices, faces = _prism(collider.radius / np.cos(np.pi / SIDES), length)
    return vertices @ turn.T + center, faces


def _prism(radius: float, length: float) -> tuple[Array, NDArray[np.int64]]:
    """Return a prism about the origin along y, with corners at a distance from its axis."""
    angle = 2 * np.pi * np.arange(SIDES) / SIDES
    ring = np.stack([radius * np.sin(angle), np.full(SIDES, length / 2), radius * np.cos(angle)], axis=1)
    vertices = np.concatenate([ring * [1, -1, 1], ring, [[0, -length / 2, 0], [0, length / 2, 0]]])
    low = np.arange(SIDES)
    after = np.roll(low, -1)
    high, above = low + SIDES, after + SIDES
    bottom, top = np.full(SIDES, 2 * SIDES), np.full(SIDES, 2 * SIDES + 1)
    corners = ((low, after, above), (low, above, high), (after, low, bottom), (high, above, top))
    return vertices, np.concatenate([np.stack(each, axis=1) for each in corners])


def _upright(up: Array) -> Array:
    """Return a rotation (3, 3) that takes y to the unit vector `up`."""
    side = perpendiculars(up)
    side /= np.linalg.norm(side)
    return np.stack([side, up, np.cross(side, up)], axis=1)


def _direction(name: str, value: ArrayLike) -> Array:
    """Return a unit vector (3,) along `value`, read-only, or raise."""
    vector = check_vector(name, value)
    largest = np.abs(vector).max()
    if largest == 0:
        raise InputError(f"{name} must not be zero, got {vector.tolist()}")
    vector = vector / largest
    return frozen(vector / np.linalg.norm(vector))
