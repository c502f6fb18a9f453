"""Shapes built from a few numbers, so that examples and tests need no files."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, as_reals
from ..errors import InputError

__all__ = ["box", "skin"]

# Number of rounds of smoothing and of moving back to the surface.
SMOOTHINGS = 5
# Ratio to the cell: the step of the finite differences of a distance.
DIFFERENCE = 1e-4


def box(size: tuple[float, float, float], cells: tuple[int, int, int]) -> tuple[Array, Array]:
    """Build the closed surface of a box about the origin, as a regular grid of triangles.

    Parameters
    ----------
    size : (3,)
        Its lengths [m].
    cells : (3,)
        How many squares there are along each of them.

    Returns
    -------
    vertices : (n, 3)
        The vertices [m]. Those on edges and corners are shared, so that the surface is watertight.
    faces : (m, 3)
        The triangles, counter-clockwise seen from outside.

    Raises
    ------
    InputError
        If a length is not positive or a number of cells less than 1.
    """
    check_box(size, cells)
    corners = []
    for axis in range(3):
        u, v = (axis + 1) % 3, (axis + 2) % 3
        i, j = (grid.ravel() for grid in np.meshgrid(range(cells[u]), range(cells[v]), indexing="ij"))
        for side in (0, 1):
            quad = np.zeros((len(i), 4, 3), dtype=np.int64)
            quad[..., axis] = side * cells[axis]
            quad[..., u] = i[:, None] + np.array([0, 1, 1, 0])
            quad[..., v] = j[:, None] + np.array([0, 0, 1, 1])
            corners.append(quad if side else quad[:, ::-1])
    lattice, index = np.unique(np.concatenate(corners).reshape(-1, 3), axis=0, return_inverse=True)
    quads = index.reshape(-1, 4)
    faces = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    return (lattice / np.array(cells) - 0.5) * np.array(size), faces


def skin(
    outside: Callable[[Array], Array], low: ArrayLike, high: ArrayLike, cell: float
) -> tuple[Array, Array]:
    """Build the closed surface where a signed distance is zero.

    Parameters
    ----------
    outside : callable
        Returns the signed distances (n,) of points (n, 3), negative inside [m].
    low, high : (3,)
        Corners of a box that holds the shape with a margin [m].
    cell : float
        The approximate length of an edge [m].

    Returns
    -------
    vertices : (n, 3)
        The vertices [m].
    faces : (m, 3)
        The triangles, counter-clockwise seen from outside.

    Raises
    ------
    InputError
        If nothing is inside.
    """
    import trimesh  # here for the sake of start-up time: loading it takes 0.25 s

    axes = [
        np.arange(first, last, cell) for first, last in zip(np.asarray(low), np.asarray(high), strict=True)
    ]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    inside = (outside(grid.reshape(-1, 3)) < 0).reshape(grid.shape[:3])
    if not inside.any():
        raise InputError(f"outside must be negative somewhere between low and high, on a grid of {cell!r}")
    # The surface of the little cubes that are inside, smoothed and then moved onto the zero level.
    squares = []
    for axis in range(3):
        for side in (0, 1):
            at = np.argwhere(inside & ~np.roll(inside, 1 - 2 * side, axis))
            square = np.repeat(at[:, None], 4, axis=1)
            square[..., axis] += side
            square[..., (axis + 1) % 3] += [0, 1, 1, 0]
            square[..., (axis + 2) % 3] += [0, 0, 1, 1]
            squares.append(square if side else square[:, ::-1])
    corners, index = np.unique(np.concatenate(squares).reshape(-1, 3), axis=0, return_inverse=True)
    faces = index.reshape(-1, 4)[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)
    mesh = trimesh.Trimesh(grid[0, 0, 0] + (corners - 0.5) * cell, faces, process=False)
    step = DIFFERENCE * cell
    for _ in range(SMOOTHINGS):
        trimesh.smoothing.filter_laplacian(mesh, iterations=2)
        x, d = np.array(mesh.vertices), outside(np.array(mesh.vertices))
        slope = np.stack([outside(x + e) - d for e in step * np.eye(3)], axis=1) / step
        mesh.vertices = x - d[:, None] * slope / (slope**2).sum(1, keepdims=True)
    return np.array(mesh.vertices), faces


def check_box(size: tuple[float, float, float], cells: tuple[int, int, int]) -> None:
    """Raise unless `size` is three lengths and `cells` three counts."""
    lengths, counts = as_reals("size", size), as_reals("cells", cells)
    if lengths.shape != (3,) or not (np.isfinite(lengths) & (lengths > 0)).all():
        raise InputError(f"size must be three positive lengths, got {size!r}")
    if counts.shape != (3,) or not ((counts >= 1) & (counts == np.round(counts))).all():
        raise InputError(f"cells must be three whole numbers of at least 1, got {cells!r}")
