"""Shapes made from a few numbers, so that examples and tests need no files."""

import numpy as np

from ..checks import Array, as_reals
from ..errors import InputError

__all__ = ["box"]


def box(size: tuple[float, float, float], cells: tuple[int, int, int]) -> tuple[Array, Array]:
    """The closed surface of a box about the origin, as a regular grid of triangles.

    Returns vertices (n, 3) and faces (m, 3), counter-clockwise seen from outside. Vertices on edges
    and corners are shared, so that the surface is watertight.
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


def check_box(size: tuple[float, float, float], cells: tuple[int, int, int]) -> None:
    """Raise unless `size` is three lengths and `cells` three counts."""
    lengths, counts = as_reals("size", size), as_reals("cells", cells)
    if lengths.shape != (3,) or not (np.isfinite(lengths) & (lengths > 0)).all():
        raise InputError(f"size must be three positive lengths, got {size!r}")
    if counts.shape != (3,) or not ((counts >= 1) & (counts == np.round(counts))).all():
        raise InputError(f"cells must be three whole numbers of at least 1, got {cells!r}")
