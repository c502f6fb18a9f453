"""Build an object from its table; see `particle_bodies` for particles."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...checks import Array
from ...deform import HandleSequence
from ...elastic import ClothEnergy, HexahedronEnergy, RigidBody, ShapeMatchingEnergy
from ...errors import InputError
from ...geometry.cages import HexCage
from ...geometry.simplices import tet_surface, tets_of_hexahedra
from ...geometry.solids import Ball, Box, Capsule, Collider, Cylinder, Plane
from ...procrustes.space import perpendiculars
from ..schema import scene as schema
from ..schema import shapes
from ..tracks import placed, rotation
from .animated import motion_of
from .built import Built, BuiltAnimated, BuiltCollider, BuiltFollower, BuiltHandles, BuiltRigid, BuiltSolid
from .keyed_handles import KeyedHandles, handle_deformer
from .meshing import Indices, Surface, cage_of, groups_of, surface_of
from .particle_bodies import build_particles

__all__ = ["WELDED", "build_object", "build_with_surface", "object_surface"]

WELDED = ("cloth", "rigid")  # kinds whose points are the vertices of their mesh
ROUNDING = 1e-6  # share of a cell that may seem empty by rounding
MOST_CONTACT_FACES = 4000  # triangles of a mesh that others meet as it is, unless all of it is asked for
ROUND_SECTIONS = 32  # a cylinder of fewer sides is a prism
PLANE_HALF_SIZE = 50.0  # m from its point, a plane ends where it is a surface


def object_surface(table: Any, folder: Path) -> Surface | None:
    """Return the mesh that an object is built from, or None for one that is built from numbers alone.

    The mesh of particles is scaled only: their body is turned and moved as a whole.
    """
    mesh, transform = getattr(table, "mesh", None), table.transform
    if mesh is None or (isinstance(mesh, shapes.PlaneShape) and isinstance(table, schema.ColliderObject)):
        return None
    if isinstance(table, schema.ParticlesObject):
        if isinstance(mesh, shapes.SheetShape):
            return None
        if not isinstance(mesh, shapes.RopeShape):
            identity = {"rotate": (0.0, 0.0, 0.0), "translate": (0.0, 0.0, 0.0)}
            transform = transform.model_copy(update=identity)
    return surface_of(mesh, transform, folder, weld=table.kind in WELDED)


def build_object(table: Any, folder: Path, frames: schema.Frames) -> Built:
    """Return an object, built from its table; `folder` is what names of files are relative to."""
    return build_with_surface(table, object_surface(table, folder), folder, frames)


def build_with_surface(table: Any, surface: Surface | None, folder: Path, frames: schema.Frames) -> Built:
    """Return an object, built from its table and from what `object_surface` returns for it."""
    match table:
        case schema.ParticlesObject():
            return build_particles(table, surface, folder)
        case schema.ColliderObject():
            return _collider(table, surface)
    assert surface is not None
    match table:
        case schema.HandlesObject():
            return _handles(table, surface, frames)
        case schema.AnimatedObject():
            return _animated(table, surface, folder, frames)
        case schema.FollowerObject():
            options = table.glue_options
            return BuiltFollower(points=surface.vertices, surface=surface, on=table.on, options=options)
        case schema.FleshObject():
            return _flesh(table, surface)
        case schema.ClothObject():
            return _cloth(table, surface)
        case schema.JellyObject():
            return _jelly(table, surface)
    return _rigid(table, surface)


def _rigid(table: schema.RigidObject, surface: Surface) -> Built:
    body = RigidBody.from_mesh(
        surface.vertices,
        surface.faces,
        density=table.material.density,
        mass=table.material.mass,
        collision=table.collision,
    )
    return BuiltRigid(
        points=surface.vertices,
        surface=surface,
        groups=table.groups,
        body=body,
        faces=np.asarray(body.faces),
    )


def _handles(table: schema.HandlesObject, surface: Surface, frames: schema.Frames) -> Built:
    handles = KeyedHandles.from_table(table, frames)
    sequence = HandleSequence(handle_deformer(table, surface, handles.rest), handles.at, frames.rate)
    return BuiltHandles(points=surface.vertices, surface=surface, sequence=sequence)


def _flesh(table: schema.FleshObject, surface: Surface) -> Built:
    cage, material = cage_of(table.mesh, table.transform, surface, table.cell), table.material
    energy = HexahedronEnergy(
        cage.points,
        cage.hexahedra,
        young=material.young,
        poisson=material.poisson,
        fill=cage.fill,
        damping=material.damping,
    )
    return _caged(table, surface, cage, energy, energy.mass(material.density))


def _cloth(table: schema.ClothObject, surface: Surface) -> Built:
    material = table.material
    energy = ClothEnergy(
        surface.vertices,
        surface.faces,
        stretch=material.stretch,
        poisson=material.poisson,
        bend=material.bend,
        limit=material.limit,
        damping=material.damping,
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
    cage = cage_of(table.mesh, table.transform, surface, table.cell)
    corners = cage.points[tets_of_hexahedra(cage.hexahedra)]
    volumes = np.linalg.det(corners[:, 1:] - corners[:, :1]).reshape(-1, 6).sum(1) / 6 * cage.fill
    mass = np.bincount(cage.hexahedra.ravel(), np.repeat(volumes / 8, 8)) * material.density
    energy = ShapeMatchingEnergy.from_young(
        cage.points,
        float(mass.mean()),  # for all points alike, or cubes at the surface would not be as stiff as others
        material.young,
        clusters=list(cage.hexahedra),
        volumes=volumes,
        blend=material.blend,
        damping=material.damping,
    )
    return _caged(table, surface, cage, energy, mass)


def _caged(table: Any, surface: Surface, cage: HexCage, energy: Any, mass: Array) -> BuiltSolid:
    """Return the solid of a cage, which others meet by the mesh, unless its cells have that shape."""
    box = isinstance(table.mesh, shapes.BoxShape) and bool((cage.fill > 1 - ROUNDING).all())
    branch = isinstance(table.mesh, shapes.BranchShape) and table.cell is None
    conforming = box or (branch and table.touch is None)
    return BuiltSolid(
        points=cage.points,
        surface=surface,
        groups=table.groups,
        mass=mass,
        energy=energy,
        faces=tet_surface(tets_of_hexahedra(cage.hexahedra)),
        hexahedra=cage.hexahedra,
        met_by_mesh=table.touch != "cells" and not conforming,
        simplified=table.touch is None and len(surface.faces) > MOST_CONTACT_FACES,
        hide=table.hide,
    )


def _animated(table: schema.AnimatedObject, surface: Surface, folder: Path, frames: schema.Frames) -> Built:
    motion = motion_of(table, surface.vertices, folder, frames)
    return BuiltAnimated(
        points=surface.vertices, surface=surface, groups=table.groups, motion=motion, faces=surface.faces
    )


def _collider(table: schema.ColliderObject, surface: Surface | None) -> Built:
    mesh, transform = table.mesh, table.transform
    if isinstance(mesh, shapes.PlaneShape):
        normal = rotation(transform.rotate) @ np.asarray(mesh.normal)
        if not np.abs(normal).max() > 0:
            raise InputError("mesh.normal must not be zero")
        point = placed([mesh.point], transform)[0]
        points, faces = _square(point, normal / np.linalg.norm(normal))
        # A plane has no end, and is not drawn: pictures have a ground of their own.
        return BuiltCollider(points=points, surface=None, faces=faces, formula=partial(Plane, point, normal))
    assert surface is not None
    return BuiltCollider(
        points=surface.vertices, surface=surface, faces=surface.faces, formula=_formula(mesh, transform)
    )


def _formula(mesh: Any, transform: Any) -> Callable[..., Collider] | None:
    """Return what makes a collider of a shape by formula, or None for any other mesh."""
    turn, center = rotation(transform.rotate), np.asarray(transform.translate)
    even, scale = len(set(transform.scale)) == 1, transform.scale[0]
    match mesh:
        case shapes.SphereShape() if even:
            return partial(Ball, center, scale * mesh.radius)
        case shapes.BoxShape():
            return partial(Box, center, 0.5 * np.asarray(mesh.size) * transform.scale, turn)
        case shapes.CapsuleShape() if even:
            half = 0.5 * scale * mesh.height * turn[:, 1]
            return partial(Capsule, center - half, center + half, scale * mesh.radius)
        case shapes.CylinderShape() if even and mesh.sections >= ROUND_SECTIONS:
            half = 0.5 * scale * mesh.height * turn[:, 1]
            return partial(Cylinder, center - half, center + half, scale * mesh.radius)
    return None


def _square(point: Array, normal: Array) -> tuple[Array, Indices]:
    """Return a large square that stands for a plane."""
    side = perpendiculars(normal)
    side *= PLANE_HALF_SIZE / np.linalg.norm(side)
    other = np.cross(normal, side)
    corners = np.array([side + other, -side + other, -side - other, side - other])
    return point + corners, np.array([[0, 1, 2], [0, 2, 3]])
