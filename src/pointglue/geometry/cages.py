"""Cages: coarse solids of tetrahedra around detailed surfaces."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..checks import Array, check_real
from ..compute import run
from ..errors import InputError
from . import cage_kernels as kernels
from .inside import Inside
from .normals import unit_normals
from .simplices import CUBE_CORNERS, CUBE_TETS

__all__ = ["surface_cage"]

MOST_CUBES = 2**26  # in the box around the surface, filled or not: 270 MB of marks
# Distance by which triangles are moved inwards [cells]: one that lies between two cubes then belongs to the
# cube behind it, and is still inside for `pointglue.embed`.
INWARD_SHIFT = 5e-10
# Distance by which a surface may reach beyond the last cube [cells], to allow for rounding.
ROUNDING = 1e-6


def surface_cage(vertices: ArrayLike, faces: ArrayLike, cell: float) -> tuple[Array, NDArray[np.int64]]:
    """Build a solid of tetrahedra about a surface and its inside.

    It consists of all cubes that the surface goes through or that are inside, each divided into six
    tetrahedra. Components of the surface that are open have no inside and get one layer of cubes.
    Neighbouring cubes are connected only where the shape is: two fingers in adjacent cubes stay separate,
    while two fingers in one cube become one.

    Parameters
    ----------
    vertices : (n, 3)
        The vertices of the surface [m].
    faces : (m, 3)
        Its triangles.
    cell : float
        The size of a cube [m].

    Returns
    -------
    points : (p, 3)
        The points of the solid [m].
    tets : (q, 4)
        Its tetrahedra, positively oriented.

    Raises
    ------
    InputError
        If `faces` are not triangles, if a vertex is not finite, or the size makes too many cubes.
    """
    cell = check_real("cell", cell, above=0)
    shape = Inside(vertices, faces)
    corners = shape.vertices[shape.faces]
    low, high = corners.min((0, 1)), corners.max((0, 1))
    with np.errstate(over="ignore"):
        counts = np.maximum(np.ceil((high - low) / cell - ROUNDING), 1)
    if counts.prod() > MOST_CUBES:
        raise InputError(
            f"cell must be larger: {cell!r} makes a box of {' x '.join(f'{n:.0f}' for n in counts)} cubes"
        )
    size = counts.astype(np.int64)
    origin = (low + high - cell * counts) / 2
    crossed = np.zeros((*size, 4), np.bool_)
    run(kernels.mark_crossed, len(corners), 1024, _shifted_inwards((corners - origin) / cell), crossed)

    solid = shape.solid[shape.components[shape.faces[:, 0]]]
    within = shape if solid.all() else Inside(shape.vertices, shape.faces[solid]) if solid.any() else None

    def contained(places: Array) -> NDArray[np.bool_]:
        return np.zeros(len(places), np.bool_) if within is None else within.contains(origin + cell * places)

    filled = crossed[..., 0].copy()
    filled[~filled] = contained(np.argwhere(~filled) + 0.5)
    number = np.full(size, -1)
    cubes = np.argwhere(filled)
    number[filled] = np.arange(len(cubes))
    pairs = []
    for axis in range(3):
        upper = cubes[cubes[:, axis] > 0]
        lower = upper - np.eye(3, dtype=np.int64)[axis]
        both = filled[tuple(lower.T)]
        upper, lower = upper[both], lower[both]
        joined = crossed[..., 1 + axis][tuple(upper.T)]
        joined[~joined] = contained(upper[~joined] + 0.5 * (1 - np.eye(3)[axis]))
        above, below = (number[tuple(cube[joined].T)][:, None] for cube in (upper, lower))
        shared = np.flatnonzero(CUBE_CORNERS[:, axis] == 0)
        pairs.append(np.stack([8 * above + shared, 8 * below + shared + (1 << axis)]).reshape(2, -1))
    # Corners of cubes that are joined, directly or through others, become one point.
    one, other = np.concatenate(pairs, axis=1)
    total = 8 * len(cubes)
    _, label = connected_components(
        coo_array((np.ones(len(one)), (one, other)), shape=(total, total)), directed=False
    )
    _, first, point = np.unique(label, return_index=True, return_inverse=True)
    lattice = (cubes[:, None] + CUBE_CORNERS).reshape(-1, 3)[first]
    return origin + cell * lattice, point.reshape(-1, 8)[:, CUBE_TETS].reshape(-1, 4)


def _shifted_inwards(corners: Array) -> Array:
    """Return triangles (m, 3, 3), in cells, moved inwards by INWARD_SHIFT, as (m, 9)."""
    return np.ascontiguousarray((corners - INWARD_SHIFT * unit_normals(corners)[:, None]).reshape(-1, 9))
