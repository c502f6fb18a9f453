"""The records that objects of a scene are built into: bodies of the solvers, handled meshes, colliders."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...checks import Array
from ...deform import HandleSequence
from ...elastic import Bond, ElasticBody, RigidBody
from ...geometry.cages import coarse_surface
from ...glue import Binding, embed
from ...particles import Collider, MeshCollider, OrientedBody
from ..schema.fields import Points
from ..tracks import Track, box_center
from .meshing import USUAL_CELLS, Indices, Surface

__all__ = [
    "SKIN_SUFFIX",
    "Built",
    "BuiltAnimated",
    "BuiltCollider",
    "BuiltFollower",
    "BuiltHandles",
    "BuiltParticles",
    "BuiltRigid",
    "BuiltSolid",
    "PinnedPoints",
    "start_velocities",
]

SKIN_SUFFIX = "/mesh"  # appended to the name of an object for its mesh that others touch; in no other name
SKIN_SHARE = 1e-3  # ratio of the mass of that mesh to the object's, if it has none of its own
# Ratio to the size of cells, or of usual ones if these are smaller: of details that contact leaves out.
SKIN_DETAIL = 1 / 3
KINEMATIC_MASS = 0.01  # kg per kinematic point: no force acts on it, but masses must be positive


@dataclass(frozen=True, eq=False)
class PinnedPoints:
    """Points that no force moves: pinned where they are, or kinematic if they have a track."""

    rows: Indices
    """Rows of the points among those of the object."""
    track: Track | None
    """The motion of the points; None if they are pinned."""


@dataclass(eq=False, kw_only=True)
class Built:
    """An object of a scene, built from its table."""

    points: Array
    """Where the points that tables can choose are at the start (n, 3) [m]."""
    surface: Surface | None
    """The mesh that is seen; None for a plane."""
    groups: dict[str, Points] = field(default_factory=dict)
    """The points that have names."""
    pinned: list[PinnedPoints] = field(default_factory=list)
    """The points that no force moves."""


@dataclass(eq=False, kw_only=True)
class BuiltHandles(Built):
    """A mesh that follows handles."""

    sequence: HandleSequence
    """The poses of the mesh over time."""


@dataclass(eq=False, kw_only=True)
class BuiltParticles(Built):
    """A body of particles, which are the points."""

    body: OrientedBody
    """The body, of which nothing is pinned yet."""


@dataclass(eq=False, kw_only=True)
class BuiltSolid(Built):
    """A soft body of the implicit solver."""

    mass: Array
    """Masses of the points (n,) [kg]."""
    energy: Any
    """The energy of its deformation."""
    faces: Indices
    """Triangles (m, 3) of its points."""
    hexahedra: Indices | None = None
    """Hexahedra (k, 8) of its points; None for cloth."""
    met_by_mesh: bool = False
    """Whether others bump into the mesh that is seen, instead of the faces."""
    simplified: bool = False
    """Whether that mesh is without small details."""
    hide: float | None = None
    """Mass by area of that mesh [kg/m^2]; None if it has a small share of the mass."""

    @cached_property
    def skin(self) -> Binding:
        """The binding of the surface to the cage.

        It is computed when it is first asked for: checks of scenes with many branches take half the time.
        """
        assert self.hexahedra is not None
        assert self.surface is not None
        return embed((self.points, self.hexahedra), self.surface.vertices)

    def solid(self, name: str, table: Any, track: Track | None) -> ElasticBody:
        """Return the body for the implicit solver."""
        pinned = np.zeros(len(self.points), np.bool_)
        for one in self.pinned:
            pinned[one.rows] = True
        row = np.cumsum(pinned) - 1  # of a point, among those that are pinned

        def motion(time: float) -> Array:
            now = self.points[pinned]
            for one in self.pinned:
                if one.track is not None:
                    turn, shift = one.track.at(time)
                    now[row[one.rows]] = self.points[one.rows] @ turn.T + shift
            return now

        return ElasticBody(
            self.points,
            self.mass,
            [self.energy],
            pinned=pinned,
            velocities=start_velocities(table, self.points),
            motion=motion if any(one.track for one in self.pinned) else None,
            faces=None if self.met_by_mesh else self.faces,
            name=name,
        )

    @cached_property
    def contact_surface(self) -> tuple[Indices, Indices]:
        """The surface that others bump into: rows (v,) of vertices of the mesh, and triangles of these."""
        assert self.surface is not None
        assert self.hexahedra is not None
        edges = np.linalg.norm(np.diff(self.points[self.hexahedra[:, [0, 1, 2, 6]]], axis=1), axis=2)
        cell = min(float(np.cbrt(edges.prod(1)).mean()), np.ptp(self.points, axis=0).max() / USUAL_CELLS)
        size = SKIN_DETAIL * cell if self.simplified else 0.0
        return coarse_surface(self.surface.vertices, self.surface.faces, size)

    @property
    def skin_mass(self) -> Array:
        """The masses of the vertices (v,) of the surface that others bump into, by area [kg]."""
        assert self.surface is not None
        rows, faces = self.contact_surface
        a, b, c = np.moveaxis(self.surface.vertices[rows[faces]], 1, 0)
        area = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
        shares = np.bincount(faces.ravel(), np.repeat(area / 3, 3), minlength=len(rows))
        shares = np.maximum(shares, shares[shares > 0].min(initial=np.inf))  # also where triangles are flat
        if self.hide is not None:
            return np.asarray(self.hide * shares)
        return np.asarray(SKIN_SHARE * self.mass.sum() / shares.sum() * shares)

    def collision_skin(self, body: ElasticBody, table: Any) -> tuple[ElasticBody, ElasticBody, Bond]:
        """Return the body of `solid` less the mass of its mesh, the mesh as a body, and their bond."""
        assert self.surface is not None
        rows, faces = self.contact_surface
        vertices = self.surface.vertices[rows]
        skin = ElasticBody(
            vertices,
            self.skin_mass,
            faces=faces,
            velocities=start_velocities(table, vertices),
            name=body.name + SKIN_SUFFIX,
        )
        bond = Bond(skin.name, np.arange(len(rows)), body.name, self.skin.take(rows))
        left = body.mass if self.hide is not None else (1 - SKIN_SHARE) * body.mass
        return replace(body, mass=left), skin, bond


@dataclass(eq=False, kw_only=True)
class BuiltAnimated(Built):
    """A kinematic mesh, each vertex of which has a motion."""

    motion: Callable[[float], Array]
    """A function from the time [s] to the positions of the vertices (n, 3) [m]."""
    faces: Indices
    """Triangles (m, 3)."""

    def solid(self, name: str, table: Any, track: Track | None) -> ElasticBody:
        """Return a soft body of which all points are kinematic."""
        count = len(self.points)
        return ElasticBody(
            self.points,
            np.full(count, KINEMATIC_MASS),
            pinned=np.ones(count, np.bool_),
            motion=self.motion,
            faces=self.faces,
            name=name,
        )


@dataclass(eq=False, kw_only=True)
class BuiltFollower(Built):
    """A mesh that is bound to another object."""

    on: str
    """The name of the other object."""
    options: dict[str, Any]
    """How its vertices follow, as arguments of `bind_glue`."""


@dataclass(eq=False, kw_only=True)
class BuiltRigid(Built):
    """A rigid body of the implicit solver."""

    body: RigidBody
    """The body, free and at rest."""
    faces: Indices
    """Triangles (m, 3)."""

    def solid(self, name: str, table: Any, track: Track | None) -> RigidBody:
        """Return the body for the implicit solver."""
        return replace(
            self.body,
            velocity=table.velocity,
            spin=table.spin,
            fixed=table.fixed or track is not None,
            motion=None if track is None else _about(np.asarray(self.body.center_of_mass), track),
            name=name,
        )


@dataclass(eq=False, kw_only=True)
class BuiltCollider(Built):
    """A collider, which other objects collide with."""

    formula: Callable[..., Collider] | None
    """A function from friction, motion and name to the collider of a shape by formula; None for a mesh."""
    faces: Indices
    """Triangles (m, 3)."""

    def collider(self, name: str, table: Any, track: Track | None) -> Collider:
        """Return the collider, as the particle solver takes it."""
        shared = {"motion": None if track is None else track.at, "friction": table.friction, "name": name}
        if self.formula is not None:
            return self.formula(**shared)
        return MeshCollider(self.points, self.faces, **shared)

    def solid(self, name: str, table: Any, track: Track | None) -> RigidBody:
        """Return a mesh as a fixed or kinematic rigid body, for contact with implicit solids."""
        mass = np.ones(len(self.points))
        centre = np.asarray(self.points.mean(0))
        motion = None if track is None else _about(centre, track)
        return RigidBody.of_points(self.points, mass, faces=self.faces, fixed=True, motion=motion, name=name)


def _about(centre: Array, track: Track) -> Callable[[float], tuple[Array, Array]]:
    """Return the motion of a rigid body: position of its centre, and rotation."""

    def motion(time: float) -> tuple[Array, Array]:
        turn, shift = track.at(time)
        return turn @ centre + shift, turn

    return motion


def start_velocities(table: Any, points: Array) -> Array:
    """Return the velocities (n, 3) [m/s] of points (n, 3) [m] at the start."""
    return np.asarray(table.velocity) + np.cross(table.spin, points - box_center(points))
