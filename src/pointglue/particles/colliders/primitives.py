"""Primitive colliders as the particle solver uses them.

A solver uses a collider as follows, all arrays in place and float64:

    ready = ready_collider(collider, count)                               # once
    ready.prepare(X, P, bounds, time_before, time_now)                    # once in a substep
    ready.resolve(ellipsoids, contacts)                                   # in every iteration, at its end
    ready.poses                                                           # for friction
"""

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute.launching import Launcher
from ...errors import InputError
from ...geometry.rigid_motion import pose_at
from ...geometry.solids import Ball, Box, Capsule, Collider, Plane
from .._solve.kernels.contact.colliders import BOX, CAPSULE, PLANE, find_near_solid, resolve_solid
from .._solve.kernels.contact.records import ColliderPoses, ContactArrays, Neighbours, Pose, Solid
from .._solve.kernels.records import Ellipsoids

__all__ = ["ReadyCollider", "ReadySolid"]

# Particles worth a thread of their own: to search among, to correct.
_SEARCH_GRAIN, _RESOLVE_GRAIN = 4096, 512


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


class ReadySolid(ReadyCollider):
    """A primitive solid."""

    def __init__(self, collider: Collider, count: int) -> None:
        super().__init__(collider, count)
        self._solid = _solid_of(collider)
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


def _solid_of(collider: Collider) -> Solid:
    """Return the kind and the sizes of a primitive, for kernels: a ball is a capsule without length."""
    match collider:
        case Plane():
            return Solid(PLANE, np.zeros(3))
        case Ball():
            return Solid(CAPSULE, np.array([collider.radius, 0.0, 0.0]))
        case Capsule():
            length = float(np.linalg.norm(np.subtract(collider.end, collider.start)))
            return Solid(CAPSULE, np.array([collider.radius, length / 2, 0.0]))
        case Box():
            return Solid(BOX, np.array(collider.half_extents))
    raise InputError(
        "Collider is no shape of its own: take Plane, Ball, Box, Capsule, Cylinder or MeshCollider"
    )
