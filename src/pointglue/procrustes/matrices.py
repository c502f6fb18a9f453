"""Rotations of batches of matrices: the fast kernels, and the robust ones where those give up."""

import numpy as np

from ..checks import Array
from ..compute import run
from . import rotation

__all__ = ["least_d", "nearest_rotations", "settle", "spin_compliances"]

# Items worth a thread of their own: some hundred microseconds of work, against ten to hand it over.
GRAIN = 4096


def least_d(min_gap: float) -> float:
    """The least D / i1^3 that the fast path may answer: gap < min_gap implies D < 4 min_gap i1^3."""
    return max(rotation.LEAST_D, 4.0 * min_gap)


def nearest_rotations(A: Array, previous: Array, min_gap: float) -> tuple[Array, Array]:
    """Rotations (n, 9) of matrices (n, 9), and their status; `previous` as in :func:`settle`."""
    R, status = np.empty_like(A), np.empty(len(A), np.uint8)
    run(rotation.rotations, len(A), GRAIN, A, least_d(min_gap), R, status)
    settle(A, previous, min_gap, R, status)
    return R, status


def settle(A: Array, previous: Array, min_gap: float, R: Array, status: Array) -> None:
    """Work out what the fast path left open, in place; `previous` rotations are (n, 9) or (1, 9)."""
    which = np.flatnonzero(status)
    if len(which):
        run(rotation.settle, len(which), GRAIN // 16, which, A, previous, min_gap, R, status)


def spin_compliances(R: Array, A: Array, min_gap: float) -> Array:
    """G = (tr(S) I - S)^-1 (n, 9): the spin that a moment of point motions causes."""
    G = np.empty_like(A)
    run(rotation.compliances, len(A), GRAIN, R, A, least_d(min_gap), G)
    which = np.flatnonzero(~np.isfinite(G[:, 0]))
    if len(which):
        run(rotation.clamped_compliances, len(which), GRAIN // 16, which, R, A, min_gap, G)
    return G


def singular_values(A: Array) -> Array:
    """(n, 3): descending, the smallest signed."""
    s = np.empty((len(A), 3))
    run(rotation.singular_values, len(A), GRAIN // 16, A, s)
    return s
