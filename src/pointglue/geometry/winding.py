"""Winding numbers: how often a surface goes around a point, also where the surface has holes."""

import numpy as np

from ..checks import Array
from ..compute import run
from .bvh import WALKS_PER_THREAD, TriangleTree
from .kernels import inside as kernels
from .kernels.inside import Dipoles

__all__ = ["encloses", "tree_dipoles", "winding_numbers"]


def winding_numbers(tree: TriangleTree, points: Array, dipoles: Dipoles | None = None) -> Array:
    """Compute how often a surface goes around each point, with an error of 0.03 at most.

    Parameters
    ----------
    tree : TriangleTree
        The surface.
    points : (k, 3)
        The points [m].
    dipoles : Dipoles, optional
        What :func:`tree_dipoles` returns, if it is known already.

    Returns
    -------
    (k,)
        1 inside a closed surface whose faces are counter-clockwise from outside, 0 outside.
    """
    result = np.empty(len(points))
    far = tree_dipoles(tree) if dipoles is None else dipoles
    where = np.ascontiguousarray(points)
    run(kernels.winding_numbers, len(points), WALKS_PER_THREAD, where, tree.arrays, far, result)
    return result


def tree_dipoles(tree: TriangleTree) -> Dipoles:
    """Return the dipole of each box of a tree, which replaces its triangles in far winding numbers.

    Parameters
    ----------
    tree : TriangleTree
        The surface.

    Returns
    -------
    Dipoles
        The dipoles of all nodes, for :func:`winding_numbers`.
    """
    _, corners, low, high = tree.boxes
    a, b, c = np.moveaxis(corners.reshape(-1, 3, 3), 1, 0)
    area = 0.5 * np.cross(b - a, c - a)
    size = np.linalg.norm(area, axis=1)[:, None]
    sums = np.concatenate([area, size, size * (a + b + c) / 3], axis=1)
    levels = [np.add.reduceat(sums, tree.arrays.leaves[:-1], axis=0)]
    while len(levels[-1]) > 1:
        levels.append(levels[-1][::2] + levels[-1][1::2])
    nodes = np.concatenate(levels[::-1])
    weight = np.where(nodes[:, 3:4] > 0, nodes[:, 3:4], 1.0)
    centre = np.where(nodes[:, 3:4] > 0, nodes[:, 4:] / weight, (low + high) / 2)
    radius = np.linalg.norm(np.maximum(centre - low, high - centre), axis=1)
    return Dipoles(centre, np.ascontiguousarray(nodes[:, :3]), radius)


def encloses(corners: Array, point: Array) -> bool:
    """Return whether closed triangles go around a point, from the sum of their signed solid angles.

    Parameters
    ----------
    corners : (m, 3, 3)
        The corners of the triangles [m].
    point : (3,)
        The point [m].

    Returns
    -------
    bool
        Whether the point is inside.
    """
    a, b, c = np.moveaxis(corners - point, 1, 0)
    la, lb, lc = (np.linalg.norm(side, axis=1) for side in (a, b, c))
    volume = np.einsum("ij,ij->i", a, np.cross(b, c))
    dots = [np.einsum("ij,ij->i", *pair) for pair in ((a, b), (b, c), (c, a))]
    angle = np.arctan2(volume, la * lb * lc + dots[0] * lc + dots[1] * la + dots[2] * lb).sum()
    return bool(abs(angle) > np.pi)
