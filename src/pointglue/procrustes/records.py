"""Records that the kernels of this and of other packages read: arrays with names and documented shapes.

There are F poses of N points and K groups of entries, E in all; fit ``f K + k`` is group k in pose f, n fits
in all. Matrices are flat, row by row; those of the plane are embedded in space (see `space`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checks import Array

__all__ = ["BlockLayout", "FitArrays", "PointEntries", "RestArrays", "RotationArrays"]


class RestArrays(NamedTuple):
    """The rest shapes of K groups, as kernels read them."""

    offsets: NDArray[np.int64]
    """(K + 1,): group k has the entries ``offsets[k]`` to ``offsets[k + 1]``."""
    indices: NDArray[np.int64]
    """(E,): the point that each entry is."""
    heads: NDArray[np.int64]
    """(K,): the heaviest point of each group, from which its points are measured."""
    q: Array
    """(E, 4): w (v, 1) of each entry, with its normalised weight w and rest offset v from the centroid."""
    centroids: Array
    """(K, 3): the weighted means of the rest positions."""


class FitArrays(NamedTuple):
    """The results of n fits, as kernels write and read them."""

    R: Array
    """(n, 9): rotations."""
    t: Array
    """(n, 3): centroids, the weighted means of the points."""
    A: Array
    """(n, 9): moments sum w (x - centroid) v^T."""


class RotationArrays(NamedTuple):
    """What the derivatives of n rotations are made of."""

    R: Array
    """(n, 9): rotations."""
    S: Array
    """(n, 9): stretches R^T A."""
    G: Array
    """(n, 9): spin compliances (tr(S) I - S)^-1."""


class PointEntries(NamedTuple):
    """The entries of all groups sorted by point: the transpose of `RestArrays`."""

    starts: NDArray[np.int64]
    """(N + 1,): the entries of point i are ``starts[i]`` to ``starts[i + 1]``."""
    groups: NDArray[np.int64]
    """(E,): the group of each entry."""
    q: Array
    """(E, 4): w (v, 1) of each entry, as in `RestArrays`."""


class BlockLayout(NamedTuple):
    """Where the Jacobian blocks of group k in pose f begin, for the j-th of the points to be moved.

    It is at ``f pose_stride + j point_stride + starts[k]``.
    """

    starts: NDArray[np.int64]
    """(K,) or more."""
    pose_stride: int
    point_stride: int
