"""Bodies of oriented particles from the tables of a scene."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ...checks import Array
from ...errors import InputError
from ...io import load_body, save_body
from ...particles import OrientedBody, Skin, editing, rope, sheet
from ..cache import cached
from ..schema.scene import ParticlesObject
from ..schema.shapes import RopeShape, SheetShape
from ..tracks import placed, rotation
from .built import BuiltParticles
from .meshing import Indices, Surface, sheet_grid
from .selection import select

__all__ = ["build_particles"]

# What a preset sets of the fields of OrientedBody.
PRESETS: dict[str, dict[str, float]] = {
    "rigid": {"stiffness": 0.9},
    "plastic": {"stiffness": 0.8, "yield_speed": 2.0},
    "soft": {"stiffness": 0.3},
    "cloth": {"stiffness": 0.03, "stretch": 1.0},
    "rope": {"stiffness": 0.03, "stretch": 1.0},
}
RIGID_PRESETS = ("rigid", "plastic")  # whose particles are one rigid group
SHEET_REFINEMENT = 3  # cells of the visible mesh of a sheet to one cell of particles
WATER_DENSITY = 1000.0  # kg/m^3, to which `floats` refers


def build_particles(table: ParticlesObject, surface: Surface | None, folder: Path) -> BuiltParticles:
    """Return a body of particles, from a file or from a surface that is scaled only."""
    material = table.material
    own = {
        name: getattr(material, name)
        for name in ("young", "stiffness", "stretch", "torsion", "yield_speed", "yield_strain", "creep")
        if getattr(material, name) is not None
    }
    if "stiffness" in own:
        own.setdefault("young", 0.0)
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
        if material.preset in RIGID_PRESETS:
            body = body.replace(groups=[np.arange(len(body))])
        elif yield_speed is not None and not table.rigid:
            raise InputError("yield_speed is for the presets rigid and plastic, and for rigid pieces")
        own = {} if yield_speed is None else {"yield_speed": yield_speed}
    if table.rigid:
        body = body.replace(groups=[_piece(table, k, body.positions) for k in range(len(table.rigid))])
    body = body.replace(**own)
    if body.groups and body.visual is not None and table.collision != "particles" and table.body is None:
        body = editing.hull(body, filled=0.0) if table.collision == "hull" else editing.hull(body)
    if material.mass is not None:
        heavier = material.mass / body.mass.sum()
        body = body.replace(mass=heavier * body.mass, density=heavier * body.density)
    if material.floats is not None:
        density = material.floats * WATER_DENSITY
        body = body.replace(mass=density * 4 / 3 * np.pi * body.radii.prod(1), density=density)
    visual = body.visual
    visible = Surface(body.positions, np.empty((0, 3), np.int64))
    if visual is not None:
        visible = Surface(np.asarray(visual.vertices), np.asarray(visual.faces))
    return BuiltParticles(points=body.positions, surface=visible, groups=table.groups, body=body)


def _piece(table: ParticlesObject, number: int, places: Array) -> Indices:
    """Return the particles of a rigid piece."""
    try:
        return select(table.rigid[number], places, table.groups)
    except InputError as error:
        raise InputError(f"rigid[{number}] {error}") from None


def _from_mesh(table: ParticlesObject, surface: Surface | None, options: dict[str, Any]) -> OrientedBody:
    """Return the body of a sheet, of a rope, or of any other surface."""
    mesh, transform, density = table.mesh, table.transform, table.material.density
    if isinstance(mesh, SheetShape):
        size = (mesh.size[0] * transform.scale[0], mesh.size[1] * transform.scale[2])
        thickness = table.thickness or 0.2 * min(size[0] / mesh.cells[0], size[1] / mesh.cells[1])
        body = sheet(size, mesh.cells, thickness=thickness, **options)
        fine = sheet_grid(size, (SHEET_REFINEMENT * mesh.cells[0], SHEET_REFINEMENT * mesh.cells[1]))
        body = body.replace(
            mass=density * thickness * size[0] * size[1] / len(body),
            density=density,
            visual=Skin.of(*fine, body.positions),
        )
        return body.moved(rotation=rotation(transform.rotate), translation=transform.translate)
    assert surface is not None
    if isinstance(mesh, RopeShape):
        ends = placed([mesh.start, mesh.end], transform)
        radius = mesh.radius * min(transform.scale)
        body = rope(*ends, particles=mesh.cells + 1, radius=radius, **options)
        volume = np.pi * radius**2 * float(np.linalg.norm(ends[1] - ends[0]))
        return body.replace(
            mass=density * volume / len(body),
            density=density,
            visual=Skin.of(surface.vertices, surface.faces, body.positions),
        )
    sampling = (table.spacing, table.particles, table.placement, table.tie, table.reach, table.aspect)
    choices = (*sampling, density, *sorted(options.items()))
    body = sampled_body(surface.vertices.tobytes(), surface.faces.tobytes(), choices)
    return body.moved(rotation=rotation(transform.rotate), translation=transform.translate)


@lru_cache(8)  # a scene often has several of a kind, and it takes seconds to build one
def sampled_body(vertices: bytes, faces: bytes, choices: tuple[Any, ...]) -> OrientedBody:
    """Return the body of particles that are sampled from a surface, given as bytes."""
    spacing, particles, placement, tie, reach, aspect, density, *options = choices

    def build() -> OrientedBody:
        return OrientedBody.from_mesh(
            (np.frombuffer(vertices).reshape(-1, 3), np.frombuffer(faces, np.int64).reshape(-1, 3)),
            spacing=spacing,
            particles=particles,
            placement=placement,
            tie=tie,
            reach=reach,
            aspect=aspect,
            density=density,
            **dict(options),
        )

    return cached("bodies", repr(choices).encode() + vertices + faces, build, load_body, save_body)
