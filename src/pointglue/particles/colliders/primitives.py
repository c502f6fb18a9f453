"""Things that particles bump into: planes, balls, boxes, capsules and meshes, at rest or moving rigidly.

How a solver uses them, all arrays in place and float64:

    ready = collider.ready(count)                                         # once
    ready.prepare(X, P, bounds, time_before, time_now)                    # once in a substep
    ready.push_out(P, E, C, fixed, pushed, normals, total)                # in every iteration, at its end
    ready.frame_before, ready.frame_now                                   # for friction: see `carried`
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import atan2, dist, hypot, inf, sin
from numbers import Real
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import Array, as_array, as_integers, as_reals, require_finite
from ...compute import run
from ...errors import InputError
from ...geometry.bvh import TriangleTree
from ...procrustes import special_procrustes
from ...procrustes.space import perpendiculars
from .._solve.kernels.colliders import BOX, CAPSULE, PLANE, approach, push_solid
from .._solve.kernels.mesh_colliders import push_mesh, survey
from ..quaternions import matrices_of

__all__ = [
    "Ball",
    "Box",
    "Capsule",
    "Collider",
    "MeshCollider",
    "Motion",
    "Plane",
    "ReadyCollider",
    "Rigid",
    "pose_at",
]

# Particles worth a thread of their own: to look at, to push.
_LOOK, _PUSH, _LOOK_MESH, _PUSH_MESH = 4096, 512, 512, 128
# A rotation matrix may be this far from orthonormal; it is made so.
_ORTHONORMAL = 1e-6


@dataclass(frozen=True, eq=False)
class Motion:
    """Key poses of a rigid motion: p -> R p + t at `times` (k,), increasing, in seconds.

    Positions t (k, 3) go straight from key to key, and rotations (k, 4), quaternions wxyz, the shorter way
    round at a constant rate. Before the first key and after the last one it rests.
    """

    times: ArrayLike
    positions: ArrayLike
    rotations: ArrayLike | None = None

    def __post_init__(self) -> None:
        """Check the keys, and turn quaternions of any length into neighbouring unit ones."""
        times = _finite("times", self.times)
        if times.ndim != 1 or not len(times):
            raise InputError(f"times must be a list of at least one time, got shape {times.shape}")
        if (np.diff(times) <= 0).any():
            k = int(np.argmax(np.diff(times) <= 0))
            raise InputError(f"times must increase, got {times[k + 1]} after {times[k]} at index {k + 1}")
        positions = _finite("positions", self.positions)
        if positions.shape != (len(times), 3):
            raise InputError(f"positions must have shape ({len(times)}, 3), got shape {positions.shape}")
        rotations = np.tile([1.0, 0.0, 0.0, 0.0], (len(times), 1))
        if self.rotations is not None:
            rotations = _finite("rotations", self.rotations)
            if rotations.shape != (len(times), 4):
                raise InputError(f"rotations must have shape ({len(times)}, 4), got shape {rotations.shape}")
            largest = np.abs(rotations).max(1, keepdims=True)
            if not largest.all():
                raise InputError(f"rotations must not be zero, got zeros at index {int(largest.argmin())}")
            rotations = rotations / largest
            rotations /= np.linalg.norm(rotations, axis=1, keepdims=True)
            # q and -q are the same rotation: of the two ways between keys, the shorter one.
            opposed = (rotations[1:] * rotations[:-1]).sum(1) < 0
            rotations[1:] *= np.cumprod(np.where(opposed, -1.0, 1.0))[:, None]
        for name, value in (("times", times), ("positions", positions), ("rotations", rotations)):
            object.__setattr__(self, name, _frozen(value))

    def at(self, time: float) -> tuple[Array, Array]:
        """Rotation (3, 3) and translation (3,) at `time` (s)."""
        if isinstance(time, bool) or not isinstance(time, Real) or not np.isfinite(time):
            raise InputError(f"time must be a number of seconds, got {time!r}")
        times, positions, rotations = (np.asarray(a) for a in (self.times, self.positions, self.rotations))
        k = min(max(int(np.searchsorted(times, time)) - 1, 0), max(len(times) - 2, 0))
        after = min(k + 1, len(times) - 1)
        share = 0.0
        if after > k:
            share = min(max(float((time - times[k]) / (times[after] - times[k])), 0.0), 1.0)
        q = _slerp(rotations[k].tolist(), rotations[after].tolist(), share)
        return matrices_of(np.array(q)), (1 - share) * positions[k] + share * positions[after]


def _slerp(q0: list[float], q1: list[float], share: float) -> list[float]:
    """The unit quaternion at this share of the way from one to another; plain numbers are faster for one."""
    # The angle between the two, from both diagonals: exact for small ones.
    angle = 2 * atan2(dist(q0, q1), hypot(*(a + b for a, b in zip(q0, q1, strict=True))))
    w0, w1 = 1 - share, share
    if angle > 0:
        w0, w1 = sin(w0 * angle) / sin(angle), sin(w1 * angle) / sin(angle)
    q = [w0 * a + w1 * b for a, b in zip(q0, q1, strict=True)]
    length = hypot(*q)
    return [a / length for a in q]


Rigid: TypeAlias = Motion | Callable[[float], tuple[ArrayLike, ArrayLike]]
"""A rigid motion: keys, or a function of time that returns a rotation (3, 3) and a translation (3,)."""


def pose_at(name: str, motion: Rigid, time: float) -> tuple[Array, Array]:
    """Rotation (3, 3) and translation (3,) of a motion at `time`; `name` is what an error calls it."""
    if isinstance(motion, Motion):
        return motion.at(time)
    if not callable(motion):
        raise InputError(f"{name} must be a Motion or a function of time, got {type(motion).__name__}")
    pose = motion(time)
    if not isinstance(pose, tuple | list) or len(pose) != 2:
        raise InputError(f"{name} must return a rotation (3, 3) and a translation (3,), got {pose!r}")
    return _rotation(f"{name}'s rotation", pose[0]), _vector(f"{name}'s translation", pose[1])


@dataclass(frozen=True, eq=False, kw_only=True)
class Collider:
    """What all colliders have in common; use one of the kinds."""

    motion: Rigid | None = None
    """It stands at p -> R p + t of its own coordinates; None for where they are."""
    friction: float | None = None
    """Coulomb's coefficient; None for that of the solver."""
    spin_friction: float | None = None
    """Fraction of the rolling that is made to match; None for that of the solver."""

    def __post_init__(self) -> None:
        """Check what all colliders have in common."""
        if self.motion is not None and not isinstance(self.motion, Motion) and not callable(self.motion):
            raise InputError(f"motion must be a Motion or a function, got {type(self.motion).__name__}")
        if self.friction is not None and not 0.0 <= _number("friction", self.friction) < inf:
            raise InputError(f"friction must be finite and not negative, got {self.friction!r}")
        if self.spin_friction is not None and not 0.0 <= _number("spin_friction", self.spin_friction) <= 1.0:
            raise InputError(f"spin_friction must be a fraction from 0 to 1, got {self.spin_friction!r}")

    def ready(self, count: int) -> "ReadyCollider":
        """What a solver of `count` particles works with."""
        kind, size = self._solid()
        return _ReadySolid(self, count, kind, np.array(size))

    def _solid(self) -> tuple[int, list[float]]:
        """The kind of solid and its three sizes, as in `collider_kernels`."""
        raise InputError("Collider is no shape of its own: take Plane, Ball, Box, Capsule or MeshCollider")

    def _pose(self) -> tuple[Array, Array]:
        """Where the solid stands in the coordinates of the collider: rotation (3, 3), translation (3,)."""
        return np.eye(3), np.zeros(3)


@dataclass(frozen=True, eq=False)
class Plane(Collider):
    """The half space below a plane through `point` (3,); `normal` (3,), of any length, points out of it."""

    point: ArrayLike
    normal: ArrayLike

    def __post_init__(self) -> None:
        """Check the plane."""
        super().__post_init__()
        object.__setattr__(self, "point", _vector("point", self.point))
        object.__setattr__(self, "normal", _direction("normal", self.normal))

    def _solid(self) -> tuple[int, list[float]]:
        return PLANE, [0.0, 0.0, 0.0]

    def _pose(self) -> tuple[Array, Array]:
        return _upright(np.asarray(self.normal)), np.asarray(self.point)


@dataclass(frozen=True, eq=False)
class Ball(Collider):
    """The ball about `center` (3,)."""

    center: ArrayLike
    radius: float

    def __post_init__(self) -> None:
        """Check the ball."""
        super().__post_init__()
        object.__setattr__(self, "center", _vector("center", self.center))
        _positive("radius", self.radius)

    def _solid(self) -> tuple[int, list[float]]:
        return CAPSULE, [self.radius, 0.0, 0.0]

    def _pose(self) -> tuple[Array, Array]:
        return np.eye(3), np.asarray(self.center)


@dataclass(frozen=True, eq=False)
class Box(Collider):
    """The box about `center` (3,) with `half_extents` (3,) along the columns of `rotation` (3, 3)."""

    center: ArrayLike
    half_extents: ArrayLike
    rotation: ArrayLike | None = None

    def __post_init__(self) -> None:
        """Check the box."""
        super().__post_init__()
        object.__setattr__(self, "center", _vector("center", self.center))
        half = _vector("half_extents", self.half_extents)
        if not (half > 0).all():
            raise InputError(f"half_extents must be positive, got {half.tolist()}")
        object.__setattr__(self, "half_extents", half)
        rotation = np.eye(3) if self.rotation is None else _rotation("rotation", self.rotation)
        object.__setattr__(self, "rotation", _frozen(rotation))

    def _solid(self) -> tuple[int, list[float]]:
        return BOX, np.asarray(self.half_extents).tolist()

    def _pose(self) -> tuple[Array, Array]:
        return np.asarray(self.rotation), np.asarray(self.center)


@dataclass(frozen=True, eq=False)
class Capsule(Collider):
    """All within `radius` of the line from `start` (3,) to `end` (3,); a ball if these are the same."""

    start: ArrayLike
    end: ArrayLike
    radius: float

    def __post_init__(self) -> None:
        """Check the capsule."""
        super().__post_init__()
        object.__setattr__(self, "start", _vector("start", self.start))
        object.__setattr__(self, "end", _vector("end", self.end))
        _positive("radius", self.radius)

    def _solid(self) -> tuple[int, list[float]]:
        return CAPSULE, [self.radius, float(np.linalg.norm(self._axis())) / 2, 0.0]

    def _pose(self) -> tuple[Array, Array]:
        axis = self._axis()
        length = np.linalg.norm(axis)
        middle = (np.asarray(self.start) + np.asarray(self.end)) / 2
        return (_upright(axis / length) if length > 0 else np.eye(3)), middle

    def _axis(self) -> Array:
        return np.asarray(np.subtract(self.end, self.start))


@dataclass(frozen=True, eq=False)
class MeshCollider(Collider):
    """The triangles `faces` (m, 3) between `vertices` (n, 3).

    If it is `closed`, every edge between two triangles that run along it in opposite ways, it is a solid, and
    its faces must be counter-clockwise seen from outside. Otherwise it is a sheet that keeps particles on the
    side that they are on. Vertices at the same place are taken for one.
    """

    vertices: ArrayLike
    faces: ArrayLike
    closed: bool = field(init=False)
    _mesh: tuple[Array, Array, Array, Array, Array] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the mesh and sort its triangles."""
        super().__post_init__()
        vertices = _finite("vertices", self.vertices)
        if vertices.ndim != 2 or vertices.shape[1] != 3:
            raise InputError(f"vertices must have shape (n, 3), got shape {vertices.shape}")
        faces = as_array("faces", self.faces)
        if faces.ndim != 2 or faces.shape[1] != 3 or not len(faces):
            raise InputError(f"faces must have shape (m, 3) with at least one row, got shape {faces.shape}")
        faces = as_integers("faces", faces.ravel()).reshape(-1, 3)
        if faces.min() < 0 or faces.max() >= len(vertices):
            wrong = faces.min() if faces.min() < 0 else faces.max()
            raise InputError(f"faces must index the {len(vertices)} vertices, got {wrong}")
        object.__setattr__(self, "vertices", _frozen(vertices))
        object.__setattr__(self, "faces", _frozen(faces))
        closed, mesh = _sorted_mesh(vertices, faces)
        object.__setattr__(self, "closed", closed)
        object.__setattr__(self, "_mesh", mesh)

    def ready(self, count: int) -> "ReadyCollider":
        """What a solver of `count` particles works with."""
        return _ReadyMesh(self, count, self.closed, self._mesh)


class ReadyCollider:
    """A collider with room for the contacts of a certain number n of particles; see the head of this module.

    `frame_before` and `frame_now` (12,), rotation row by row and translation, say how the collider stood at
    the start and stands at the end of the substep: of which of its points is taken, both mean the same.
    """

    def __init__(self, collider: Collider, count: int) -> None:
        self.collider = collider
        self._origin = np.empty((count, 3))
        self._near = np.zeros(count, np.bool_)
        self._chosen = np.empty(0, np.int64)
        self._time: float | None = None
        self.frame_before = self.frame_now = self._frame(np.eye(3), np.zeros(3))

    def prepare(self, X: Array, P: Array, bounds: Array, time_before: float, time_now: float) -> None:
        """Find the particles that may touch the collider in the substep from `time_before` to `time_now`.

        X (n, 3) are the positions at its start, the first three columns of P the ones predicted for its end,
        and `bounds` (n,) are radii of balls that hold the particles. Of what is done to P until the substep
        ends, contact is missed only if a particle is moved farther from its prediction than its bound and
        the way predicted for it together.
        """
        motion = self.collider.motion
        if motion is not None:
            if time_before == self._time:
                self.frame_before = self.frame_now
            else:
                self.frame_before = self._frame(*pose_at("motion", motion, time_before))
            self.frame_now = self._frame(*pose_at("motion", motion, time_now))
            self._time = time_now
        self._look(X, P, bounds)
        self._chosen = np.flatnonzero(self._near)

    @property
    def idle(self) -> bool:
        """Whether nothing can touch the collider in this substep."""
        return not len(self._chosen)

    def push_out(
        self,
        P: Array,
        E: Array,
        C: Array,
        fixed: NDArray[np.bool_],
        pushed: Array,
        normals: Array,
        total: Array,
    ) -> None:
        """Move particles that overlap the collider out of it.

        Ellipsoids with centres P[:, :3], shapes C (n, 9) at rest and rotations E (n, 9) from rest; those that
        are `fixed` stay. A push by `depth` along a unit vector n, out of the collider, is added to P, to
        `total` (n, 3) and as a length to `pushed` (n,), and n is left in `normals` (n, 3).
        """
        if len(self._chosen):
            self._push(P, E, C, fixed, pushed, normals, total)

    def _look(self, X: Array, P: Array, bounds: Array) -> None:
        """Fill `_near` and `_origin`."""
        raise NotImplementedError

    def _push(self, *particles: Array) -> None:
        raise NotImplementedError

    def _frame(self, rotation: Array, translation: Array) -> Array:
        """Flat frame of the solid, that of the collider given."""
        own, center = self.collider._pose()
        return np.concatenate([(rotation @ own).ravel(), rotation @ center + translation])


class _ReadySolid(ReadyCollider):
    """A solid of the kinds of `collider_kernels`."""

    def __init__(self, collider: Collider, count: int, kind: int, size: Array) -> None:
        super().__init__(collider, count)
        self._shape = (kind, size)

    def _look(self, X: Array, P: Array, bounds: Array) -> None:
        frames = (self.frame_before, self.frame_now)
        run(approach, len(P), _LOOK, *self._shape, *frames, P, X, bounds, self._origin, self._near)

    def _push(self, *particles: Array) -> None:
        where = (self.frame_now, self._chosen, self._origin)
        run(push_solid, len(self._chosen), _PUSH, *self._shape, *where, *particles)


class _ReadyMesh(ReadyCollider):
    """A mesh; it remembers how far each particle was from it, and where that was."""

    def __init__(
        self, collider: Collider, count: int, closed: bool, mesh: tuple[Array, Array, Array, Array, Array]
    ) -> None:
        super().__init__(collider, count)
        self._shape = (mesh, closed)
        self._inside = np.zeros(count, np.bool_)
        self._gap, self._asked = np.zeros(count), np.zeros((count, 3))

    def _look(self, X: Array, P: Array, bounds: Array) -> None:
        frames, memory = (self.frame_before, self.frame_now), (self._origin, self._asked, self._gap)
        found = (self._near, self._inside)
        run(survey, len(P), _LOOK_MESH, *self._shape, *frames, P, X, bounds, *memory, *found)

    def _push(self, *particles: Array) -> None:
        where = (self.frame_now, self._chosen, self._origin, self._inside)
        run(push_mesh, len(self._chosen), _PUSH_MESH, *self._shape, *where, *particles)


def _sorted_mesh(
    vertices: Array, faces: NDArray[np.int64]
) -> tuple[bool, tuple[Array, Array, Array, Array, Array]]:
    """Whether a mesh is closed, and its arrays as in `mesh_kernels`."""
    place = np.unique(vertices, axis=0, return_inverse=True)[1].reshape(-1)[faces]
    corners = vertices[faces]
    edges = np.roll(corners, -1, axis=1) - corners  # ab, bc, ca
    lengths = np.linalg.norm(edges, axis=2)
    across = np.cross(edges[:, 0], -edges[:, 2])
    area = np.linalg.norm(across, axis=1)
    # Thinner than this is flat but for rounding, and has no normal.
    good = area > 1e-14 * lengths.max(1) ** 2
    if not good.any():
        raise InputError("faces must hold a triangle of some area, got none")
    normals = np.where(good[:, None], across / np.where(good, area, 1.0)[:, None], 0.0)
    features = np.zeros((len(faces), 6, 3))
    kept = (place != np.roll(place, -1, axis=1)).all(1)  # the others are segments: no edges to share
    way = np.stack([place, np.roll(place, -1, axis=1)], axis=2)[kept].reshape(-1, 2)
    count = place.max() + 1
    there, back = way @ [count, 1], way @ [1, count]
    order = np.argsort(there)
    match = order[np.minimum(np.searchsorted(there[order], back), len(order) - 1)]
    closed = len(np.unique(there)) == len(there) and bool((there[match] == back).all())
    if closed:
        owner = np.repeat(np.flatnonzero(kept), 3)
        features[kept, :3] = (normals[owner] + normals[owner[match]]).reshape(-1, 3, 3)
        cosine = -(edges * np.roll(edges, 1, axis=1)).sum(2)
        angle = np.arctan2(area[:, None], cosine)
        sums = np.zeros((count, 3))
        np.add.at(sums, place, angle[:, :, None] * normals[:, None])
        features[:, 3:] = sums[place]
        middle = corners[:, 0] - vertices.mean(0)
        if (middle * across).sum() < 0:
            raise InputError(
                "faces must be counter-clockwise from outside, got a mesh inside out: use faces[:, ::-1]"
            )
    tree = TriangleTree(vertices, faces[good])
    order, flat, low, high = tree.boxes
    return closed, (flat, normals[good][order], features[good][order].reshape(-1, 18), low, high)


def _upright(up: Array) -> Array:
    """A rotation (3, 3) that takes y to the unit vector `up`."""
    side = perpendiculars(up)
    side /= np.linalg.norm(side)
    return np.stack([side, up, np.cross(side, up)], axis=1)


def _finite(name: str, value: ArrayLike) -> Array:
    array = as_reals(name, value).astype(np.float64)
    require_finite(name, array)
    return array


def _frozen(array: Array) -> Array:
    array.flags.writeable = False
    return array


def _vector(name: str, value: ArrayLike) -> Array:
    vector = _finite(name, value)
    if vector.shape != (3,):
        raise InputError(f"{name} must have shape (3,), got shape {vector.shape}")
    return _frozen(vector)


def _direction(name: str, value: ArrayLike) -> Array:
    vector = _vector(name, value)
    largest = np.abs(vector).max()
    if largest == 0:
        raise InputError(f"{name} must not be zero, got {vector.tolist()}")
    vector = vector / largest
    return _frozen(vector / np.linalg.norm(vector))


def _rotation(name: str, value: ArrayLike) -> Array:
    R = _finite(name, value)
    if R.shape != (3, 3):
        raise InputError(f"{name} must have shape (3, 3), got shape {R.shape}")
    if np.abs(R @ R.T - np.eye(3)).max() > _ORTHONORMAL or np.linalg.det(R) < 0:
        raise InputError(f"{name} must be a rotation, orthonormal to {_ORTHONORMAL}, got {R.tolist()}")
    return special_procrustes(R)


def _number(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(value):
        raise InputError(f"{name} must be a number, got {value!r}")
    return float(value)


def _positive(name: str, value: float) -> None:
    if not 0 < _number(name, value) < inf:
        raise InputError(f"{name} must be positive, got {value!r}")
