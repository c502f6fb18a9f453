"""Estimates of an object before it is built: how many points it has, memory and time."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....checks import Array
from ....errors import InputError
from ....geometry.moments import solid_moments
from ....particles.authoring.from_mesh import (
    MEASURING_EDGE,
    MOST_PARTICLES,
    MOST_TRIANGLES,
    PER_CUBE,
    PER_SQUARE,
    SAMPLE_SPACING,
    USUAL_PARTICLES,
)
from ...schema import scene as schema
from ...schema import shapes
from ..meshing import USUAL_CELLS, Surface

__all__ = ["Estimate", "estimate", "extents", "size_warnings"]

SLOW_SECONDS = 5.0  # an object that takes longer to build gets a warning
NEEDLE_ASPECT = 200.0  # ratio of length to width from which on an object gets a warning
# Largest numbers of elements of one object, and the share of them from which on there is a warning.
MOST_SHEET = 200_000  # particles of a sheet or a rope, whose positions need no sampling
MOST_CUBES = 300_000
MOST_CLOTH = 500_000
MOST_VERTICES = 2_000_000
WARNING_SHARE = 0.1
# Seconds and bytes for each, as measured on one core of a server of 2026: right to a factor of two or so.
SAMPLE_COST = (5e-5, 350.0)  # a sample of the volume, or a triangle, of what becomes particles
TRIANGLE_COST = (5e-5, 1000.0)
SHEET_COST = (1e-5, 5e3)
CUBE_COST = (1.5e-4, 25e3)
CLOTH_COST = (1e-5, 15e3)
VERTEX_COST = (5e-6, 2e3)


@dataclass(frozen=True)
class Estimate:
    """An estimate of how large an object will be, and what it takes to build it and to step it once."""

    count: float
    """The number of elements that it consists of."""
    what: str
    """The kind of elements: particles, cubes or vertices."""
    most: int
    """The largest number of elements allowed."""
    remedy: str
    """What to change for fewer elements."""
    seconds: float
    """Time to build it [s]."""
    size: float
    """Memory [bytes]."""

    def __str__(self) -> str:
        count = f"{self.count:,.0f}" if self.count < 1e9 else f"{self.count:.2g}"
        return f"about {count} {self.what}, {_memory(self.size)} of memory and {_time(self.seconds)} to make"


def size_warnings(table: Any, surface: Surface | None) -> list[str]:
    """Return warnings of what is extreme about an object that is not built yet, with remedies.

    Parameters
    ----------
    table : table
        The object.
    surface : Surface or None
        Its mesh, or None for an object that is built from numbers alone.

    Raises
    ------
    InputError
        If it would have more particles, cubes or vertices than are allowed.
    """
    found = estimate(table, surface)
    if found.count > found.most:
        raise InputError(
            f"would be {found}, but at most {found.most:,} {found.what} are allowed: choose {found.remedy}"
        )
    texts = []
    if found.count > WARNING_SHARE * found.most or found.seconds > SLOW_SECONDS:
        texts.append(f"will be {found}: choose {found.remedy} if that is too much")
    solid = table.kind in ("particles", "flesh", "jelly", "rigid")
    if surface is not None and solid and not isinstance(table.mesh, shapes.RopeShape):
        length, width, _ = extents(surface.vertices)
        if length > NEEDLE_ASPECT * width:
            texts.append(
                f"is {length:.4g} m long and only {width:.4g} m wide, {length / width:,.0f} to 1, which no "
                "material holds together well: check the scale of each axis, or build it of shorter pieces"
            )
    return texts


def estimate(table: Any, surface: Surface | None) -> Estimate:
    """Return the estimate of an object; `surface` is its mesh, or None for one built from numbers alone."""
    match table:
        case schema.ParticlesObject(mesh=shapes.SheetShape() as sheet):
            count = (sheet.cells[0] + 1) * (sheet.cells[1] + 1)
            return _counted(count, "particles", MOST_SHEET, "fewer mesh.cells", SHEET_COST)
        case schema.ParticlesObject(mesh=shapes.RopeShape() as rope):
            return _counted(rope.cells + 1, "particles", MOST_SHEET, "fewer mesh.cells", SHEET_COST)
        case schema.ParticlesObject() if surface is not None:
            return _particles(table, surface)
        case schema.FleshObject() | schema.JellyObject() if surface is not None:
            return _counted(_cubes(table, surface), "cubes", MOST_CUBES, "a larger cell", CUBE_COST)
    count = 0 if surface is None else len(surface.vertices)
    most, cost = (MOST_CLOTH, CLOTH_COST) if table.kind == "cloth" else (MOST_VERTICES, VERTEX_COST)
    return _counted(count, "vertices", most, "a coarser mesh", cost)


def extents(points: Array) -> tuple[float, float, float]:
    """Return how far points (n, 3) reach along their principal axes (m), the largest first."""
    away = points - points.mean(0)
    axes = np.linalg.eigh(away.T @ away)[1]
    length, width, thickness = sorted(np.ptp(away @ axes, axis=0).tolist(), reverse=True)
    return length, width, thickness


def _counted(count: float, what: str, most: int, remedy: str, cost: tuple[float, float]) -> Estimate:
    return Estimate(count, what, most, remedy, count * cost[0], count * cost[1])


def _particles(table: schema.ParticlesObject, surface: Surface) -> Estimate:
    """Return the estimate of particles, which are chosen among samples of the volume over a refined mesh."""
    area, volume, longest = _measured(surface)
    filled = table.placement in (None, "volume") and volume > 0
    per = PER_CUBE * volume if filled else PER_SQUARE * area
    power = 3 if filled else 2
    step = table.spacing or max(per / (table.particles or USUAL_PARTICLES), 1e-300) ** (1 / power)
    with np.errstate(over="ignore"):
        wanted = float(np.maximum(1.0, (longest / (MEASURING_EDGE * step)) ** 2).sum())
        count = per / step**power
        samples = volume / (SAMPLE_SPACING * step) ** 3
    triangles = min(wanted, max(2.0 * MOST_TRIANGLES, len(longest)))
    return Estimate(
        count,
        "particles",
        MOST_PARTICLES,
        "a larger spacing" if table.spacing else "a simpler mesh",
        samples * SAMPLE_COST[0] + triangles * TRIANGLE_COST[0],
        samples * SAMPLE_COST[1] + triangles * TRIANGLE_COST[1],
    )


def _cubes(table: Any, surface: Surface) -> float:
    """Return about how many cubes fill a surface: those within, and a layer that it goes through."""
    mesh = table.mesh
    if table.cell is None and isinstance(mesh, shapes.BoxShape):
        return float(np.prod([float(n) for n in mesh.cells]))
    if table.cell is None and isinstance(mesh, shapes.BranchShape):
        return 4.0 * mesh.cells
    size = np.ptp(surface.vertices, axis=0)
    cell = table.cell or float(size.max()) / USUAL_CELLS
    area, volume, _ = _measured(surface)
    return min(volume / cell**3 + area / 2 / cell**2, float(np.prod(size / cell + 1)))


def _measured(surface: Surface) -> tuple[float, float, Array]:
    """Return the area and the volume of a surface, and the longest side of each of its triangles (m,)."""
    corners = surface.vertices[surface.faces]
    sides = corners - np.roll(corners, 1, axis=1)
    area = float(np.linalg.norm(np.cross(sides[:, 0], sides[:, 1]), axis=1).sum() / 2)
    volume, _, _ = solid_moments(corners - corners.mean((0, 1)))
    return area, abs(volume), np.linalg.norm(sides, axis=2).max(1)


def _memory(size: float) -> str:
    if size >= 1e9:
        return f"{size / 1e9:,.1f} GB" if size < 1e10 else f"{size / 1e9:,.0f} GB"
    return f"{max(size / 1e6, 1):,.0f} MB"


def _time(seconds: float) -> str:
    if seconds < 1:
        return "less than a second"
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 360_000 else "more than 100 h"
