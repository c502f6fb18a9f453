"""Coarse solids about detailed surfaces."""

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..checks import Array
from ..compute import run
from ..errors import InputError
from . import cage_kernels as kernels
from .inside import Inside
from .simplices import _CORNERS, _KUHN

__all__ = ["surface_cage"]

MOST = 2**26  # cubes in the box around the surface, filled or not
# How far triangles are drawn inwards, in cells: one that lies between two cubes belongs to that behind it,
# and is still inside for `pointglue.embed`.
INWARDS = 5e-10


def surface_cage(vertices: ArrayLike, faces: ArrayLike, cell: float) -> tuple[Array, NDArray[np.int64]]:
    """A solid of tetrahedra about a surface, its triangles (m, 3) between vertices (n, 3), and its inside.

    It consists of all cubes of the size `cell` that the surface goes through or that are inside, in six
    tetrahedra each: points (p, 3) and tets (q, 4), positively oriented. Components of the surface that are
    open have no inside and get one layer of cubes. Neighbouring cubes hang together where the shape does:
    two fingers in cubes side by side move apart, while two in one cube are one.
    """
    if isinstance(cell, bool) or not isinstance(cell, Real) or not 0 < cell < np.inf:
        raise InputError(f"cell must be a positive length, got {cell!r}")
    shape = Inside(vertices, faces)
    corners = shape.vertices[shape.faces]
    low, high = corners.min((0, 1)), corners.max((0, 1))
    with np.errstate(over="ignore"):
        counts = np.maximum(np.ceil((high - low) / cell - 1e-6), 1)
    if counts.prod() > MOST:
        raise InputError(
            f"cell must be larger: {cell!r} makes a box of {' x '.join(f'{n:.0f}' for n in counts)} cubes"
        )
    size = counts.astype(np.int64)
    origin = (low + high - cell * counts) / 2
    crossed = np.zeros((*size, 4), np.bool_)
    run(kernels.cross, len(corners), 1024, _drawn_in((corners - origin) / cell), crossed)

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
        shared = np.flatnonzero(_CORNERS[:, axis] == 0)
        pairs.append(np.stack([8 * above + shared, 8 * below + shared + (1 << axis)]).reshape(2, -1))
    # A point is all the corners of cubes that are joined, one to the next.
    one, other = np.concatenate(pairs, axis=1)
    total = 8 * len(cubes)
    _, label = connected_components(
        coo_array((np.ones(len(one)), (one, other)), shape=(total, total)), directed=False
    )
    _, first, point = np.unique(label, return_index=True, return_inverse=True)
    lattice = (cubes[:, None] + _CORNERS).reshape(-1, 3)[first]
    return origin + cell * lattice, point.reshape(-1, 8)[:, _KUHN].reshape(-1, 4)


def _drawn_in(corners: Array) -> Array:
    """Triangles (m, 3, 3) against their normals by a trifle, as (m, 9)."""
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    normal = np.divide(normal, length, out=np.zeros_like(normal), where=length > 0)
    return np.ascontiguousarray((corners - INWARDS * normal[:, None]).reshape(-1, 9))
