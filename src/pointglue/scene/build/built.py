"""What the objects of a scene are made into: bodies of the solvers, handled meshes, colliders."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...checks import Array
from ...deform import HandleDeformer
from ...elastic import Bond, ClothEnergy, ElasticBody, FleshEnergy, RigidBody, ShapeMatchingEnergy
from ...errors import InputError
from ...geometry import simplices
from ...glue import Binding, embed
from ...io import load_body, save_body
from ...particles import Ball, Box, Capsule, Collider, MeshCollider, OrientedBody, Plane, Skin, rope, sheet
from ..cache import kept
from ..engines import HandledMesh
from ..schema import fields as tables
from ..schema import scene as schema
from .animated import motion_of
from .surfaces import (
    Indices,
    Surface,
    Track,
    cage_of,
    groups_of,
    middle,
    placed,
    rotation,
    select,
    sheet_grid,
    surface_of,
)

__all__ = [
    "Built",
    "BuiltAnimated",
    "BuiltCollider",
    "BuiltFollower",
    "BuiltHandles",
    "BuiltParticles",
    "BuiltRigid",
    "BuiltSolid",
    "Hold",
    "build_object",
    "build_with_surface",
    "drawn",
]

# What a preset says of the fields of OrientedBody.
PRESETS: dict[str, dict[str, float]] = {
    "rigid": {"stiffness": 0.9},
    "plastic": {"stiffness": 0.8, "yield_speed": 2.0},
    "soft": {"stiffness": 0.3},
    "cloth": {"stiffness": 0.03, "stretch": 1.0},
    "rope": {"stiffness": 0.03, "stretch": 1.0},
}
WHOLE = ("rigid", "plastic")  # one rigid group
WELDED = ("cloth", "rigid")  # whose points are the vertices of their mesh
SKIN = "/mesh"  # after the name of an object, in no name of its own: the mesh of it that others touch
FINER = 3  # cells of the mesh of a particle sheet to one of the particles
WATER = 1000.0  # kg/m^3
FAR = 50.0  # m from its point, a plane ends where it is a surface


@dataclass(frozen=True, eq=False)
class Hold:
    """Points that are held where they are, or taken along a track."""

    rows: Indices
    track: Track | None


@dataclass(eq=False, kw_only=True)
class Built:
    """Points (n, 3) that can be chosen, where they start, and the surface that is seen."""

    points: Array
    surface: Surface | None
    groups: dict[str, tables.Points] = field(default_factory=dict)
    holds: list[Hold] = field(default_factory=list)


@dataclass(eq=False, kw_only=True)
class BuiltHandles(Built):
    """A mesh that follows handles."""

    mesh: HandledMesh


@dataclass(eq=False, kw_only=True)
class BuiltParticles(Built):
    """A body of particles; what is chosen are they."""

    body: OrientedBody


@dataclass(eq=False, kw_only=True)
class BuiltSolid(Built):
    """A soft body of the implicit solver. `faces` and `tets` are of its points."""

    mass: Array
    energy: Any
    faces: Indices
    tets: Indices | None = None
    hide: float | None = None
    """In kg/m^2, of a skin that others touch instead of the faces."""

    @cached_property
    def skin(self) -> Binding:
        """The binding of the surface to the cage.

        It is made when it is first asked for: a tree of many branches is checked in half the time without.
        """
        assert self.tets is not None
        assert self.surface is not None
        return embed((self.points, self.tets), self.surface.vertices)

    def solid(self, name: str, table: Any, track: Track | None) -> ElasticBody:
        """The body."""
        held = np.zeros(len(self.points), np.bool_)
        for hold in self.holds:
            held[hold.rows] = True
        row = np.cumsum(held) - 1  # of a point, among those that are held

        def motion(time: float) -> Array:
            now = self.points[held]
            for hold in self.holds:
                if hold.track is not None:
                    turn, shift = hold.track.at(time)
                    now[row[hold.rows]] = self.points[hold.rows] @ turn.T + shift
            return now

        return ElasticBody(
            self.points,
            self.mass,
            [self.energy],
            pinned=held,
            velocities=moving(table, self.points),
            motion=motion if any(hold.track for hold in self.holds) else None,
            faces=None if self.hide else self.faces,
            name=name,
        )

    def touched(self, name: str, table: Any) -> tuple[ElasticBody, Bond]:
        """The skin as a body that others touch, and what holds it to the points of the body `name`."""
        assert self.surface is not None
        assert self.hide is not None
        vertices, faces = self.surface.vertices, self.surface.faces
        a, b, c = np.moveaxis(vertices[faces], 1, 0)
        area = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2
        mass = self.hide * np.bincount(faces.ravel(), np.repeat(area / 3, 3), minlength=len(vertices))
        mass = np.maximum(mass, mass[mass > 0].min(initial=np.inf))  # also of vertices that have no faces
        own = name + SKIN
        skin = ElasticBody(vertices, mass, faces=faces, velocities=moving(table, vertices), name=own)
        return skin, Bond(own, np.arange(len(vertices)), name, self.skin)


@dataclass(eq=False, kw_only=True)
class BuiltAnimated(Built):
    """A mesh of which `motion` tells where each vertex is at a time (s)."""

    motion: Callable[[float], Array]
    faces: Indices

    def solid(self, name: str, table: Any, track: Track | None) -> ElasticBody:
        """As a soft body of which nothing is free."""
        count = len(self.points)
        return ElasticBody(
            self.points,
            np.full(count, 0.01),
            pinned=np.ones(count, np.bool_),
            motion=self.motion,
            faces=self.faces,
            name=name,
        )


@dataclass(eq=False, kw_only=True)
class BuiltFollower(Built):
    """A mesh that goes with another object."""

    on: str
    parents: int


@dataclass(eq=False, kw_only=True)
class BuiltRigid(Built):
    """A rigid body of the implicit solver."""

    body: RigidBody
    """Free, and at rest."""
    faces: Indices

    def solid(self, name: str, table: Any, track: Track | None) -> RigidBody:
        """The body."""
        return replace(
            self.body,
            velocity=table.velocity,
            spin=table.spin,
            fixed=table.fixed or track is not None,
            motion=None if track is None else _about(np.asarray(self.body.centre), track),
            name=name,
        )


@dataclass(eq=False, kw_only=True)
class BuiltCollider(Built):
    """What others bump into: `collider` makes it for particles, with a motion or None."""

    collider: Callable[[Any], Collider]
    faces: Indices

    def solid(self, name: str, table: Any, track: Track | None) -> RigidBody:
        """As a rigid body that nothing moves, for contact of implicit solids."""
        mass = np.ones(len(self.points))
        centre = np.asarray(self.points.mean(0))
        motion = None if track is None else _about(centre, track)
        return RigidBody.of_points(self.points, mass, faces=self.faces, fixed=True, motion=motion, name=name)


def _about(centre: Array, track: Track) -> Callable[[float], tuple[Array, Array]]:
    """The motion of a rigid body: place of its centre, and rotation."""

    def motion(time: float) -> tuple[Array, Array]:
        turn, shift = track.at(time)
        return turn @ centre + shift, turn

    return motion


def moving(table: Any, points: Array) -> Array:
    """Velocities (n, 3) at the start."""
    return np.asarray(table.velocity) + np.cross(table.spin, points - middle(points))


def drawn(table: Any, folder: Path) -> Surface | None:
    """Return the mesh that an object is made from, or None for one that is made without.

    That of particles is scaled only: what they become is turned and moved as a whole.
    """
    mesh, transform = getattr(table, "mesh", None), table.transform
    if mesh is None or (isinstance(mesh, tables.PlaneShape) and isinstance(table, schema.ColliderObject)):
        return None
    if isinstance(table, schema.ParticlesObject):
        if isinstance(mesh, tables.SheetShape):
            return None
        if not isinstance(mesh, tables.RopeShape):
            still = {"rotate": (0.0, 0.0, 0.0), "translate": (0.0, 0.0, 0.0)}
            transform = transform.model_copy(update=still)
    return surface_of(mesh, transform, folder, weld=table.kind in WELDED)


def build_object(table: Any, folder: Path, frames: schema.Frames) -> Built:
    """Return what an object is made into."""
    return build_with_surface(table, drawn(table, folder), folder, frames)


def build_with_surface(table: Any, surface: Surface | None, folder: Path, frames: schema.Frames) -> Built:
    """Return what an object is made into, of the surface that is `drawn` of it."""
    match table:
        case schema.ParticlesObject():
            return _particles(table, surface, folder)
        case schema.ColliderObject():
            return _collider(table, surface)
    assert surface is not None
    match table:
        case schema.HandlesObject():
            return _handles(table, surface, frames)
        case schema.AnimatedObject():
            return _animated(table, surface, folder, frames)
        case schema.FollowerObject():
            return BuiltFollower(points=surface.vertices, surface=surface, on=table.on, parents=table.parents)
        case schema.FleshObject():
            return _flesh(table, surface)
        case schema.ClothObject():
            return _cloth(table, surface)
        case schema.JellyObject():
            return _jelly(table, surface)
    return BuiltRigid(
        points=surface.vertices,
        surface=surface,
        groups=table.groups,
        body=RigidBody.solid(surface.vertices, surface.faces, table.material.density),
        faces=surface.faces,
    )


def _handles(table: schema.HandlesObject, surface: Surface, frames: schema.Frames) -> Built:
    places = np.array([handle.at for handle in table.handles.values()])
    tracks = {}
    for k, (name, handle) in enumerate(table.handles.items()):
        if handle.keys:
            try:
                tracks[k] = Track(handle.keys, frames, table.ease, places[k])
            except InputError as error:
                raise InputError(f"keys of the handle {name!r}: {error}") from None
    radii = [handle.radius for handle in table.handles.values()]
    deformer = HandleDeformer(
        (surface.vertices, surface.faces),
        places,
        falloff=table.falloff,
        stretch=table.stretch,
        damping=table.damping,
        distance=table.distance,
        radii=radii if any(radii) else None,
    )
    mesh = HandledMesh(deformer, tracks, any(radii))
    return BuiltHandles(points=surface.vertices, surface=surface, mesh=mesh)


def _particles(table: schema.ParticlesObject, surface: Surface | None, folder: Path) -> Built:
    material = table.material
    own = {
        name: getattr(material, name)
        for name in ("stiffness", "stretch", "torsion", "yield_speed", "yield_strain", "creep")
        if getattr(material, name) is not None
    }
    options = {**PRESETS[material.preset], **own}
    if table.body is not None:
        body = load_body(folder / table.body)
        if table.transform.scale != (1.0, 1.0, 1.0):
            raise InputError("a body cannot be scaled: leave transform.scale out")
        turn = rotation(table.transform.rotate)
        body = body.moved(rotation=turn, translation=table.transform.translate)
    else:
        yield_speed = options.pop("yield_speed", None)
        body = _from_mesh(table, surface, options)
        if material.preset in WHOLE:
            body = body.replace(groups=[np.arange(len(body))])
        elif yield_speed is not None and not table.rigid:
            raise InputError("yield_speed is for the presets rigid and plastic, and for rigid pieces")
        own = {} if yield_speed is None else {"yield_speed": yield_speed}
    if table.rigid:
        body = body.replace(groups=[_piece(table, k, body.positions) for k in range(len(table.rigid))])
    body = body.replace(**own)
    if material.mass is not None:
        body = body.replace(mass=body.mass * (material.mass / body.mass.sum()))
    if material.floats is not None:
        body = body.replace(mass=material.floats * WATER * 4 / 3 * np.pi * body.radii.prod(1))
    visual = body.visual
    seen = Surface(body.positions, np.empty((0, 3), np.int64))
    if visual is not None:
        seen = Surface(np.asarray(visual.vertices), np.asarray(visual.faces))
    return BuiltParticles(points=body.positions, surface=seen, groups=table.groups, body=body)


def _piece(table: schema.ParticlesObject, number: int, places: Array) -> Any:
    """The particles of a rigid piece."""
    try:
        return select(table.rigid[number], places, table.groups)
    except InputError as error:
        raise InputError(f"rigid[{number}] {error}") from None


def _from_mesh(
    table: schema.ParticlesObject, surface: Surface | None, options: dict[str, Any]
) -> OrientedBody:
    mesh, transform, density = table.mesh, table.transform, table.material.density
    if isinstance(mesh, tables.SheetShape):
        size = (mesh.size[0] * transform.scale[0], mesh.size[1] * transform.scale[2])
        thickness = table.thickness or 0.2 * min(size[0] / mesh.cells[0], size[1] / mesh.cells[1])
        body = sheet(size, mesh.cells, thickness=thickness, **options)
        fine = sheet_grid(size, (FINER * mesh.cells[0], FINER * mesh.cells[1]))
        body = body.replace(
            mass=density * thickness * size[0] * size[1] / len(body),
            visual=Skin.of(*fine, body.positions),
        )
        return body.moved(rotation=rotation(transform.rotate), translation=transform.translate)
    assert surface is not None
    if isinstance(mesh, tables.RopeShape):
        ends = placed([mesh.start, mesh.end], transform)
        radius = mesh.radius * min(transform.scale)
        body = rope(*ends, particles=mesh.cells + 1, radius=radius, **options)
        volume = np.pi * radius**2 * float(np.linalg.norm(ends[1] - ends[0]))
        return body.replace(
            mass=density * volume / len(body),
            visual=Skin.of(surface.vertices, surface.faces, body.positions),
        )
    ways = (table.spacing, table.placement, table.reach, table.aspect, density, *sorted(options.items()))
    body = _grown(surface.vertices.tobytes(), surface.faces.tobytes(), ways)
    return body.moved(rotation=rotation(transform.rotate), translation=transform.translate)


@lru_cache(8)  # a scene often has several of a kind, and it takes seconds to make one
def _grown(vertices: bytes, faces: bytes, ways: tuple[Any, ...]) -> OrientedBody:
    spacing, placement, reach, aspect, density, *options = ways

    def grow() -> OrientedBody:
        return OrientedBody.from_mesh(
            (np.frombuffer(vertices).reshape(-1, 3), np.frombuffer(faces, np.int64).reshape(-1, 3)),
            spacing=spacing,
            placement=placement,
            reach=reach,
            aspect=aspect,
            density=density,
            **dict(options),
        )

    return kept("bodies", repr(ways).encode() + vertices + faces, grow, load_body, save_body)


def _flesh(table: schema.FleshObject, surface: Surface) -> Built:
    points, tets = cage_of(table.mesh, table.transform, surface, table.cell)
    energy = FleshEnergy(points, tets, young=table.material.young, poisson=table.material.poisson)
    return BuiltSolid(
        points=points,
        surface=surface,
        groups=table.groups,
        mass=energy.mass(table.material.density),
        energy=energy,
        faces=simplices.tet_surface(tets),
        tets=tets,
        hide=table.hide if table.touch == "mesh" else None,
    )


def _cloth(table: schema.ClothObject, surface: Surface) -> Built:
    material = table.material
    energy = ClothEnergy(
        surface.vertices,
        surface.faces,
        stretch=material.stretch,
        poisson=material.poisson,
        bend=material.bend,
        limit=material.limit,
    )
    used = np.unique(surface.faces)
    if len(used) < len(surface.vertices):
        loose = np.setdiff1d(np.arange(len(surface.vertices)), used)
        raise InputError(f"mesh must not have vertices without faces, got {len(loose)}, first {loose[0]}")
    return BuiltSolid(
        points=surface.vertices,
        surface=surface,
        groups=groups_of(table.mesh) | table.groups,
        mass=energy.mass(material.density),
        energy=energy,
        faces=surface.faces,
    )


def _jelly(table: schema.JellyObject, surface: Surface) -> Built:
    material = table.material
    points, tets = cage_of(table.mesh, table.transform, surface, table.cell)
    cubes = [np.unique(cube) for cube in tets.reshape(-1, 24)]
    corners = points[tets]
    volumes = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])) / 6
    mass = np.bincount(tets.ravel(), np.repeat(volumes / 4, 4), minlength=len(points)) * material.density
    energy = ShapeMatchingEnergy(
        points,
        mass,
        material.stiffness,
        clusters=cubes,
        blend=material.blend,
        damping=(material.damping, 0.0),
    )
    return BuiltSolid(
        points=points,
        surface=surface,
        groups=table.groups,
        mass=mass,
        energy=energy,
        faces=simplices.tet_surface(tets),
        tets=tets,
        hide=table.hide if table.touch == "mesh" else None,
    )


def _animated(table: schema.AnimatedObject, surface: Surface, folder: Path, frames: schema.Frames) -> Built:
    motion = motion_of(table, surface.vertices, folder, frames)
    return BuiltAnimated(
        points=surface.vertices, surface=surface, groups=table.groups, motion=motion, faces=surface.faces
    )


def _collider(table: schema.ColliderObject, surface: Surface | None) -> Built:
    mesh, transform = table.mesh, table.transform
    turn, place = rotation(transform.rotate), np.asarray(transform.translate)
    even = len(set(transform.scale)) == 1
    scale, friction = transform.scale[0], table.friction
    if isinstance(mesh, tables.PlaneShape):
        normal = turn @ np.asarray(mesh.normal)
        if not np.abs(normal).max() > 0:
            raise InputError("mesh.normal must not be zero")
        point = placed([mesh.point], transform)[0]
        points, faces = _square(point, normal / np.linalg.norm(normal))
        # A plane has no end, and is not drawn: pictures have a ground of their own.
        return BuiltCollider(
            points=points,
            surface=None,
            faces=faces,
            collider=lambda motion: Plane(point, normal, motion=motion, friction=friction),
        )
    assert surface is not None

    def collider(motion: Any) -> Collider:
        shared = {"motion": motion, "friction": friction}
        match mesh:
            case tables.SphereShape() if even:
                return Ball(place, scale * mesh.radius, **shared)
            case tables.BoxShape():
                half = 0.5 * np.asarray(mesh.size) * transform.scale
                return Box(place, half, turn, **shared)
            case tables.CapsuleShape() if even:
                half = 0.5 * scale * mesh.height * turn[:, 1]
                return Capsule(place - half, place + half, scale * mesh.radius, **shared)
        return MeshCollider(surface.vertices, surface.faces, **shared)

    return BuiltCollider(points=surface.vertices, surface=surface, faces=surface.faces, collider=collider)


def _square(point: Array, normal: Array) -> tuple[Array, Indices]:
    """A large one that stands for a plane."""
    side = np.cross(normal, np.eye(3)[np.abs(normal).argmin()])
    side *= FAR / np.linalg.norm(side)
    other = np.cross(normal, side)
    corners = np.array([side + other, -side + other, -side - other, side - other])
    return point + corners, np.array([[0, 1, 2], [0, 2, 3]])
