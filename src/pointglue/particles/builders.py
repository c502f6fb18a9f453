"""Small bodies made from a few numbers: a rope, a sheet, a block and two hinged boxes."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, as_reals
from ..errors import InputError
from ..geometry.shapes import check_box
from ..procrustes.space import perpendiculars
from .body import OrientedBody
from .quaternions import quaternions_of

__all__ = ["block", "hinged_boxes", "rope", "sheet"]


def rope(start: ArrayLike, end: ArrayLike, *, particles: int, radius: float, **options: Any) -> OrientedBody:
    """A straight chain of ellipsoids, their first axes along it. `options` are those of OrientedBody."""
    a, b = (_point(name, value) for name, value in (("start", start), ("end", end)))
    _count("particles", particles, 2)
    _length("radius", radius)
    length = float(np.linalg.norm(b - a))
    if length == 0:
        raise InputError(f"start and end must be apart, got {start!r} twice")
    half = 0.5 * length / (particles - 1)
    along = (b - a) / length
    # Any perpendicular does; the one least along the rope loses no digits.
    side = perpendiculars(along)
    side /= np.linalg.norm(side)
    axes = np.stack([along, side, np.cross(along, side)], axis=1)
    index = np.arange(particles)
    fields = {
        "radii": np.tile([half, radius, radius], (particles, 1)),
        "orientations": np.tile(quaternions_of(axes), (particles, 1)),
        "edges": np.stack([index[:-1], index[1:]], axis=1),
    }
    return _made(a + np.linspace(0, 1, particles)[:, None] * (b - a), fields, options)


def sheet(
    size: tuple[float, float], cells: tuple[int, int], *, thickness: float, **options: Any
) -> OrientedBody:
    """A flat cloth in the plane y = 0 about the origin: a grid of flat ellipsoids with edges and diagonals.

    It has one particle at each corner of a cell. `options` are those of OrientedBody.
    """
    if as_reals("size", size).shape != (2,) or as_reals("cells", cells).shape != (2,):
        raise InputError(f"size and cells must have two numbers each, got {size!r} and {cells!r}")
    check_box((size[0], 1.0, size[1]), (cells[0], 1, cells[1]))
    lattice, positions = _lattice((size[0], 0.0, size[1]), (cells[0], 0, cells[1]))
    steps = [(1, 0, 0), (0, 0, 1), (1, 0, 1), (1, 0, -1)]
    _length("thickness", thickness)
    half = 0.5 * np.array([size[0] / cells[0], thickness, size[1] / cells[1]])
    fields = {"radii": np.tile(half, (len(positions), 1)), "edges": _lattice_edges(lattice, steps)}
    return _made(positions, fields, options)


def block(
    size: tuple[float, float, float], cells: tuple[int, int, int], *, rigid: bool = False, **options: Any
) -> OrientedBody:
    """A box about the origin, filled with ellipsoids, one in the middle of each cell, joined along the axes.

    `rigid` puts all particles into one group. `options` are those of OrientedBody, and `density` (kg/m^3).
    """
    check_box(size, cells)
    density = options.pop("density", 1000.0)
    _length("density", density)
    step = np.array(size) / np.array(cells)
    lattice, positions = _lattice(np.array(size) - step, tuple(c - 1 for c in cells))
    fields: dict[str, Any] = {
        "radii": np.tile(0.5 * step, (len(positions), 1)),
        "mass": density * step.prod() * np.ones(len(positions)),
        "edges": _lattice_edges(lattice, [(1, 0, 0), (0, 1, 0), (0, 0, 1)]),
        "groups": [np.arange(len(positions))] if rigid else [],
    }
    return _made(positions, fields, options)


def hinged_boxes(
    size: tuple[float, float, float], cells: tuple[int, int, int], **options: Any
) -> OrientedBody:
    """Two rigid boxes side by side along x, about the origin, that turn freely about a hinge between them.

    The hinge runs along z: two particles, in the middle of the gap, belong to both groups.
    """
    one = block(size, cells)
    step = np.array(size) / np.array(cells)
    apart = np.array([0.5 * (size[0] + step[0]), 0.0, 0.0])
    pins = np.array([[0.0, 0.0, -0.5], [0.0, 0.0, 0.5]]) * size[2]
    n = len(one)
    # Each pin is tied to the nearest particle on either side, which is what holds it if a group lets go.
    positions = np.concatenate([one.positions - apart, one.positions + apart, pins])
    ties = []
    for k, pin in enumerate(pins):
        for side in (0, 1):
            distance = np.linalg.norm(positions[side * n : (side + 1) * n] - pin, axis=1)
            ties.append([side * n + int(distance.argmin()), 2 * n + k])
    # A pin as heavy as a tenth of a box: a light one would move its box but little at a time.
    fields: dict[str, Any] = {
        "radii": np.concatenate([one.radii, one.radii, np.tile(0.4 * step, (2, 1))]),
        "mass": np.concatenate([one.mass, one.mass, np.full(2, 0.1 * one.mass.sum())]),
        "edges": np.concatenate([one.edges, one.edges + n, ties]),
        "groups": [np.r_[:n, 2 * n, 2 * n + 1], np.r_[n : 2 * n, 2 * n, 2 * n + 1]],
    }
    return _made(positions, fields, options)


def _made(positions: Array, fields: dict[str, Any], options: dict[str, Any]) -> OrientedBody:
    """The body, with what the caller wants different."""
    unknown = sorted(set(options) - set(OrientedBody.__dataclass_fields__)) + ["positions"] * (
        "positions" in options
    )
    if unknown:
        raise InputError(f"{unknown[0]!r} is not an option of this body; see OrientedBody")
    return OrientedBody(positions, **{**fields, **options})


def _lattice(size: ArrayLike, cells: tuple[int, ...]) -> tuple[Array, Array]:
    """Points of a regular grid about the origin: their whole-numbered and their true coordinates."""
    grid = np.meshgrid(*(np.arange(c + 1) for c in cells), indexing="ij")
    lattice = np.stack(grid, axis=-1).reshape(-1, 3)
    return lattice, (lattice / np.maximum(cells, 1) - 0.5 * (np.array(cells) > 0)) * np.asarray(size)


def _lattice_edges(lattice: Array, steps: list[tuple[int, int, int]]) -> Array:
    """Pairs of lattice points that are one of the steps apart."""
    shape = lattice.max(0) + 1
    edges = [np.empty((0, 2), np.int64)]
    for step in steps:
        other = lattice + np.array(step)
        there = ((other >= 0) & (other < shape)).all(1)
        edges.append(np.stack([np.flatnonzero(there), np.ravel_multi_index(other[there].T, shape)], axis=1))
    return np.concatenate(edges)


def _point(name: str, value: ArrayLike) -> Array:
    given = as_reals(name, value).astype(np.float64)
    if given.shape != (3,) or not np.isfinite(given).all():
        raise InputError(f"{name} must be three finite numbers, got {value!r}")
    return given


def _length(name: str, value: float) -> None:
    given = as_reals(name, value)
    if given.shape != () or not 0 < given < np.inf:
        raise InputError(f"{name} must be positive and finite, got {value!r}")


def _count(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
