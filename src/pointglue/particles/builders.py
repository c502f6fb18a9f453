"""Bodies built from a few numbers: a rope, a sheet, a block and two hinged boxes."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, as_reals, check_integer, check_real, check_vector
from ..errors import InputError
from ..geometry.quaternions import quaternions_of
from ..geometry.shapes import check_box
from ..procrustes.space import perpendiculars
from ._solve.hulls import BOX
from .body import WATER, OrientedBody

__all__ = ["block", "hinged_boxes", "rope", "sheet"]


def rope(start: ArrayLike, end: ArrayLike, *, particles: int, radius: float, **options: Any) -> OrientedBody:
    """Return a straight chain of ellipsoids, their first axes along it; it does not stretch without `young`.

    Parameters
    ----------
    start, end : (3,)
        The first and the last particle [m].
    particles : int
        How many there are, at least 2.
    radius : float
        Half the thickness, above 0 [m].
    **options
        Fields of :class:`OrientedBody`, which replace those found here.

    Returns
    -------
    OrientedBody
        The body, without a visual mesh unless `options` has one.

    Raises
    ------
    InputError
        If a number is out of its bounds, or there is no such field.
    """
    a, b = check_vector("start", start), check_vector("end", end)
    check_integer("particles", particles, at_least=2)
    check_real("radius", radius, above=0)
    length = float(np.linalg.norm(b - a))
    if length == 0:
        raise InputError(f"start and end must be apart, got {start!r} twice")
    half = 0.5 * length / (particles - 1)
    along = (b - a) / length
    side = perpendiculars(along)
    side /= np.linalg.norm(side)
    axes = np.stack([along, side, np.cross(along, side)], axis=1)
    index = np.arange(particles)
    fields = {
        "radii": np.tile([half, radius, radius], (particles, 1)),
        "orientations": np.tile(quaternions_of(axes), (particles, 1)),
        "edges": np.stack([index[:-1], index[1:]], axis=1),
        "stretch": 0.0 if "young" in options else 1.0,  # an elastic one stretches as its modulus says
    }
    return _built(a + np.linspace(0, 1, particles)[:, None] * (b - a), fields, options)


def sheet(
    size: tuple[float, float], cells: tuple[int, int], *, thickness: float, **options: Any
) -> OrientedBody:
    """Return a flat cloth in the plane y = 0 about the origin: a grid of ellipsoids with edges and diagonals.

    Parameters
    ----------
    size : (2,)
        Its sizes along x and z, above 0 [m].
    cells : (2,)
        How many cells there are along them, at least 1; there is a particle at each corner of a cell.
    thickness : float
        Twice the radius of the ellipsoids along y, above 0 [m].
    **options
        Fields of :class:`OrientedBody`, which replace those found here.

    Returns
    -------
    OrientedBody
        The body, without a visual mesh unless `options` has one.

    Raises
    ------
    InputError
        If a number is out of its bounds, or there is no such field.
    """
    if as_reals("size", size).shape != (2,) or as_reals("cells", cells).shape != (2,):
        raise InputError(f"size and cells must have two numbers each, got {size!r} and {cells!r}")
    check_box((size[0], 1.0, size[1]), (cells[0], 1, cells[1]))
    lattice, positions = _lattice((size[0], 0.0, size[1]), (cells[0], 0, cells[1]))
    steps = [(1, 0, 0), (0, 0, 1), (1, 0, 1), (1, 0, -1)]
    check_real("thickness", thickness, above=0)
    half = 0.5 * np.array([size[0] / cells[0], thickness, size[1] / cells[1]])
    fields = {"radii": np.tile(half, (len(positions), 1)), "edges": _lattice_edges(lattice, steps)}
    return _built(positions, fields, options)


def block(
    size: tuple[float, float, float],
    cells: tuple[int, int, int],
    *,
    rigid: bool = False,
    density: float = WATER,
    **options: Any,
) -> OrientedBody:
    """Return a box about the origin filled with ellipsoids, one in each cell, joined along the axes.

    Parameters
    ----------
    size : (3,)
        Its sizes, above 0 [m].
    cells : (3,)
        How many cells there are along each axis, at least 1.
    rigid : bool
        Whether all particles are in one rigid group, which collides as the box that it is.
    density : float
        The density, above 0 [kg/m^3].
    **options
        Fields of :class:`OrientedBody`, which replace those found here.

    Returns
    -------
    OrientedBody
        The body, without a visual mesh unless `options` has one.

    Raises
    ------
    InputError
        If a number is out of its bounds, or there is no such field.
    """
    check_box(size, cells)
    check_real("density", density, above=0)
    step = np.array(size) / np.array(cells)
    lattice, positions = _lattice(np.array(size) - step, tuple(c - 1 for c in cells))
    fields: dict[str, Any] = {
        "radii": np.tile(0.5 * step, (len(positions), 1)),
        "mass": density * step.prod() * np.ones(len(positions)),
        "density": density,
        "edges": _lattice_edges(lattice, [(1, 0, 0), (0, 1, 0), (0, 0, 1)]),
        "groups": [np.arange(len(positions))] if rigid else [],
    }
    if rigid and not {"groups", "radii"} & set(options):
        fields["hulls"] = [0.5 * np.array(size) * BOX]
    return _built(positions, fields, options)


def hinged_boxes(
    size: tuple[float, float, float], cells: tuple[int, int, int], **options: Any
) -> OrientedBody:
    """Return two rigid boxes side by side along x, about the origin, with a free hinge between them.

    The hinge runs along z: two particles, half way across the gap, belong to both groups.

    Parameters
    ----------
    size : (3,)
        The sizes of one box, above 0 [m].
    cells : (3,)
        How many cells it has along each axis, at least 1.
    **options
        Fields of :class:`OrientedBody`, which replace those found here.

    Returns
    -------
    OrientedBody
        The body, without a visual mesh unless `options` has one.

    Raises
    ------
    InputError
        If a number is out of its bounds, or there is no such field.
    """
    one = block(size, cells)
    step = np.array(size) / np.array(cells)
    apart = np.array([0.5 * (size[0] + step[0]), 0.0, 0.0])
    hinge = np.array([[0.0, 0.0, -0.5], [0.0, 0.0, 0.5]]) * size[2]
    n = len(one)
    # The hinge has an edge to the nearest particle on either side, which counts while a group deforms.
    positions = np.concatenate([one.positions - apart, one.positions + apart, hinge])
    joining = []
    for k, end in enumerate(hinge):
        for side in (0, 1):
            distance = np.linalg.norm(positions[side * n : (side + 1) * n] - end, axis=1)
            joining.append([side * n + int(distance.argmin()), 2 * n + k])
    # As heavy as a tenth of a box: a light particle would move its box but little at a time.
    fields: dict[str, Any] = {
        "radii": np.concatenate([one.radii, one.radii, np.tile(0.4 * step, (2, 1))]),
        "mass": np.concatenate([one.mass, one.mass, np.full(2, 0.1 * one.mass.sum())]),
        "edges": np.concatenate([one.edges, one.edges + n, joining]),
        "groups": [np.r_[:n, 2 * n, 2 * n + 1], np.r_[n : 2 * n, 2 * n, 2 * n + 1]],
    }
    return _built(positions, fields, options)


def _built(positions: Array, fields: dict[str, Any], options: dict[str, Any]) -> OrientedBody:
    """Return the body, with what the caller wants different."""
    unknown = sorted(set(options) - set(OrientedBody.__dataclass_fields__)) + ["positions"] * (
        "positions" in options
    )
    if unknown:
        raise InputError(f"{unknown[0]!r} is not an option of this body; see OrientedBody")
    return OrientedBody(positions, **{**fields, **options})


def _lattice(size: ArrayLike, cells: tuple[int, ...]) -> tuple[Array, Array]:
    """Return points of a regular grid about the origin: their whole-numbered and their true coordinates."""
    grid = np.meshgrid(*(np.arange(c + 1) for c in cells), indexing="ij")
    lattice = np.stack(grid, axis=-1).reshape(-1, 3)
    return lattice, (lattice / np.maximum(cells, 1) - 0.5 * (np.array(cells) > 0)) * np.asarray(size)


def _lattice_edges(lattice: Array, steps: list[tuple[int, int, int]]) -> Array:
    """Return the pairs of lattice points that are one of the steps apart."""
    shape = lattice.max(0) + 1
    edges = [np.empty((0, 2), np.int64)]
    for step in steps:
        other = lattice + np.array(step)
        there = ((other >= 0) & (other < shape)).all(1)
        edges.append(np.stack([np.flatnonzero(there), np.ravel_multi_index(other[there].T, shape)], axis=1))
    return np.concatenate(edges)
