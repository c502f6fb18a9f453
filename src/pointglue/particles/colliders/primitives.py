"""Colliders that particles cannot enter: planes, balls, boxes and capsules, at rest or moving rigidly.

A solver uses them as follows, all arrays in place and float64:

    ready = collider.ready(count)                                         # once
    ready.prepare(X, P, bounds, time_before, time_now)                    # once in a substep
    ready.resolve(ellipsoids, contacts)                                   # in every iteration, at its end
    ready.poses                                                           # for friction
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import Array, check_real
from ...compute.launching import Launcher
from ...errors import InputError
from ...procrustes.space import perpendiculars
from .._solve.kernels.contact.colliders import BOX, CAPSULE, PLANE, find_near_solid, resolve_solid
from .._solve.kernels.contact.records import ColliderPoses, ContactArrays, Neighbours, Pose, Solid
from .._solve.kernels.records import Ellipsoids
from ..particle_checks import check_vector, frozen
from .motion import Motion, RigidMotion, check_rotation, pose_at

__all__ = ["Ball", "Box", "Capsule", "Collider", "Plane", "ReadyCollider"]

# Particles worth a thread of their own: to search among, to correct.
_SEARCH_GRAIN, _RESOLVE_GRAIN = 4096, 512


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
        The fraction of rolling that is made to match in 1/60 s, 0 to 1; None for that of the solver.

    Raises
    ------
    InputError
        If a number is out of its bounds, or `motion` is neither a `Motion` nor a function.
    """

    motion: RigidMotion | None = None
    friction: float | None = None
    spin_friction: float | None = None

    def __post_init__(self) -> None:
        """Check what all colliders have in common."""
        if self.motion is not None and not isinstance(self.motion, Motion) and not callable(self.motion):
            raise InputError(f"motion must be a Motion or a function, got {type(self.motion).__name__}")
        if self.friction is not None:
            check_real("friction", self.friction, at_least=0)
        if self.spin_friction is not None:
            check_real("spin_friction", self.spin_friction, at_least=0, at_most=1)

    def ready(self, count: int) -> "ReadyCollider":
        """Return what a solver of `count` particles works with."""
        return _ReadySolid(self, count, self.solid)

    @property
    def solid(self) -> Solid:
        """The kind and the sizes of the solid, for kernels."""
        raise InputError("Collider is no shape of its own: take Plane, Ball, Box, Capsule or MeshCollider")

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
    motion, friction, spin_friction
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
    def solid(self) -> Solid:
        """The half space y <= 0."""
        return Solid(PLANE, np.zeros(3))

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
    motion, friction, spin_friction
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
    def solid(self) -> Solid:
        """A capsule without length."""
        return Solid(CAPSULE, np.array([self.radius, 0.0, 0.0]))

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
    motion, friction, spin_friction
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
    def solid(self) -> Solid:
        """A box that is centred and straight."""
        return Solid(BOX, np.array(self.half_extents))

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
    motion, friction, spin_friction
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
    def solid(self) -> Solid:
        """A capsule along y about the origin."""
        return Solid(CAPSULE, np.array([self.radius, float(np.linalg.norm(self._axis())) / 2, 0.0]))

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


class ReadyCollider:
    """A collider with room for the contacts of `count` particles: see the head of this module."""

    poses: ColliderPoses
    """How the collider stands at the start and at the end of the substep."""
    hidden: NDArray[np.bool_] | None
    """Particles (n,) that do not collide with it, because a hull does in their place; None for none."""

    def __init__(self, collider: Collider, count: int) -> None:
        self.collider = collider
        self._launcher = Launcher()
        self._near = np.zeros(count, np.bool_)
        self.hidden: NDArray[np.bool_] | None = None
        self._chosen = np.empty(0, np.int64)
        self._time: float | None = None
        here = self._pose(np.eye(3), np.zeros(3))
        self.poses = ColliderPoses(here, here)

    def prepare(self, X: Array, P: Array, bounds: Array, time_before: float, time_now: float) -> None:
        """Find the particles that may touch the collider in the substep from `time_before` to `time_now`.

        X (n, 3) are the positions at its start, the first three columns of P the ones predicted for its end,
        and `bounds` (n,) are radii of balls that hold the particles. Of what is done to P until the substep
        ends, contact is missed only if a particle is moved farther from its prediction than its bound and
        the path predicted for it together.
        """
        motion = self.collider.motion
        if motion is not None:
            before = self.poses.now
            if time_before != self._time:
                before = self._pose(*pose_at("motion", motion, time_before))
            self.poses = ColliderPoses(before, self._pose(*pose_at("motion", motion, time_now)))
            self._time = time_now
        self._find_near(X, P, bounds)
        self._chosen = np.flatnonzero(self._near if self.hidden is None else self._near & ~self.hidden)

    @property
    def idle(self) -> bool:
        """Whether nothing can touch the collider in this substep."""
        return not len(self._chosen)

    def resolve(self, ellipsoids: Ellipsoids, contacts: ContactArrays) -> None:
        """Move particles that overlap the collider out of it.

        A correction by a depth along a unit vector n, out of the collider, is added to the positions, to the
        corrections and as a length to the depths, and n is left in the normals.
        """
        if len(self._chosen):
            self._resolve(ellipsoids, contacts)

    def _find_near(self, X: Array, P: Array, bounds: Array) -> None:
        """Mark the particles that may touch the collider in `_near`."""
        raise NotImplementedError

    def _resolve(self, ellipsoids: Ellipsoids, contacts: ContactArrays) -> None:
        raise NotImplementedError

    def _pose(self, rotation: Array, translation: Array) -> Pose:
        """Return the pose of the solid, that of the collider given."""
        own, center = self.collider.own_pose
        return Pose((rotation @ own).ravel(), rotation @ center + translation)


class _ReadySolid(ReadyCollider):
    """A primitive solid."""

    def __init__(self, collider: Collider, count: int, solid: Solid) -> None:
        super().__init__(collider, count)
        self._solid = solid
        self._neighbours = Neighbours(np.empty((count, 3)), self._near)

    def _find_near(self, X: Array, P: Array, bounds: Array) -> None:
        self._launcher.run(
            find_near_solid, len(P), _SEARCH_GRAIN, self._solid, self.poses, X, P, bounds, self._neighbours
        )

    def _resolve(self, ellipsoids: Ellipsoids, contacts: ContactArrays) -> None:
        where = (self.poses.now, self._chosen, self._neighbours.origins)
        self._launcher.run(
            resolve_solid, len(self._chosen), _RESOLVE_GRAIN, self._solid, *where, ellipsoids, contacts
        )


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
