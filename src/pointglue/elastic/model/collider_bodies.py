"""Colliders by formula as rigid bodies of a few points, which stay where they are or go where keys say."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...errors import InputError
from ...geometry.rigid_motion import pose_at
from ...geometry.solids import Ball, Box, Capsule, Collider, Cylinder, Plane, solid_mesh
from .rigid_bodies import RigidBody

__all__ = ["ColliderBody", "collider_bodies"]

PLANE_AXES = 1.0  # m: how far apart the points are that tell a plane


@dataclass(frozen=True, eq=False, kw_only=True)
class ColliderBody(RigidBody):
    """A fixed or kinematic rigid body that has the surface of a solid by formula.

    A plane has three points, the second and the third along two of its axes. A ball or a capsule has those
    of its axis, then its frame: the centre and three points around it. A box and a cylinder have faces.

    Parameters
    ----------
    shape : Collider
        The solid.

    Raises
    ------
    InputError
        If something is wrong with what `RigidBody` has.
    """

    shape: Collider = field(default_factory=Collider)

    @property
    def is_plane(self) -> bool:
        """Whether its first three points tell a half space."""
        return isinstance(self.shape, Plane)

    @property
    def radius(self) -> float:
        """The radius of a ball or a capsule, and 0 for anything else [m]."""
        return float(self.shape.radius) if isinstance(self.shape, Ball | Capsule) else 0.0

    @property
    def ends(self) -> tuple[int, int]:
        """The rows of the ends of the axis of a capsule; a ball has one row twice."""
        return (0, max(len(self.positions) - 5, 0))

    @property
    def frame(self) -> NDArray[np.int64]:
        """The rows (4,) of the frame of a ball or a capsule."""
        return np.arange(len(self.positions) - 4, len(self.positions))

    def motion_at(self, time: float) -> tuple[Array, Array]:
        """Return where keys want the centre of mass (3,) and the rotation (3, 3) at a time [s]."""
        if self.motion is None:
            return np.asarray(self.center_of_mass), np.eye(3)
        position, rotation = self.motion(time)
        return np.asarray(position), np.asarray(rotation)


def collider_bodies(colliders: Sequence[Any]) -> list[ColliderBody]:
    """Return colliders by formula as bodies, each with a name of its own.

    Parameters
    ----------
    colliders : sequence of Collider
        The colliders.

    Returns
    -------
    list of ColliderBody

    Raises
    ------
    InputError
        If one of them is no collider by formula.
    """
    if not isinstance(colliders, list | tuple):
        raise InputError(f"colliders must be a list, got {type(colliders).__name__}")
    return [_body_of(solid, _name_of(solid, k)) for k, solid in enumerate(colliders)]


def _name_of(solid: Any, number: int) -> str:
    """Return what a collider is called."""
    if not isinstance(solid, Plane | Ball | Capsule | Box | Cylinder):
        raise InputError(
            f"colliders[{number}] must be a Plane, Ball, Capsule, Box or Cylinder, got "
            f"{type(solid).__name__}; a mesh is a RigidBody that is fixed"
        )
    return solid.name if solid.name is not None else f"collider {number}"


def _body_of(solid: Collider, name: str) -> ColliderBody:
    """Return a collider as a body."""
    turn, center = solid.own_pose
    faces = None
    match solid:
        case Plane():
            points = center + PLANE_AXES * np.stack([np.zeros(3), turn[:, 2], turn[:, 0]])
        case Ball() | Capsule():
            frame = center + solid.radius * np.concatenate([np.zeros((1, 3)), turn.T])
            points = frame
            if isinstance(solid, Capsule) and not np.array_equal(solid.start, solid.end):
                points = np.concatenate([[np.asarray(solid.start), np.asarray(solid.end)], frame])
        case Box() | Cylinder():
            points, faces = solid_mesh(solid)
    mean, given = points.mean(0), solid.motion
    if given is None:
        return _of_points(points, solid, name, faces, None)
    first, shift = pose_at("motion", given, 0.0)

    def motion(time: float) -> tuple[Array, Array]:
        rotation, translation = pose_at("motion", given, time)
        return rotation @ mean + translation, rotation @ first.T

    return _of_points(points @ first.T + shift, solid, name, faces, motion)


def _of_points(points: Array, solid: Collider, name: str, faces: Any, motion: Any) -> ColliderBody:
    """Return a body of points of the same mass, which nothing but keys moves."""
    mass = np.ones(len(points))
    shared = {"faces": faces, "fixed": True, "motion": motion, "name": name}
    return ColliderBody.of_points(points, mass, shape=solid, **shared)
