"""Conjugate gradients, for systems so large that factors would take longer."""

import numpy as np
from numpy.typing import NDArray

from ..checks import Array
from ..compute import run
from . import iterative_kernels as kernels

__all__ = ["IndefiniteError", "conjugate_gradients"]


class IndefiniteError(ArithmeticError):
    """The matrix has been found not to be positive definite."""


def conjugate_gradients(
    indptr: NDArray[np.integer],
    indices: NDArray[np.integer],
    data: Array,
    diagonal: NDArray[np.int64],
    b: Array,
    *,
    tolerance: float,
    iterations: int,
) -> Array | None:
    """x with A x = b to a `tolerance` in A's own norm, about; None if that takes too many iterations.

    A is a symmetric csr matrix of 3 x 3 blocks; `diagonal` (nodes, 3, 3) says where those of its diagonal
    are in `data`. Their inverses are what the residuals are multiplied by.
    """
    count = len(diagonal)
    chunks = -(-count // kernels.CHUNK)
    inverses = np.empty((count, 3, 3))
    run(kernels.invert_blocks, count, 4096, np.ascontiguousarray(data[diagonal]), inverses)
    x, r, p, q, z = np.zeros_like(b), b.copy(), np.zeros_like(b), np.zeros_like(b), np.empty_like(b)
    sums = np.empty(chunks)
    run(kernels.advance, chunks, 8, count, 0.0, inverses, p, q, x, r, z, sums)
    size = first = float(sums.sum())
    p[:] = z
    for _ in range(iterations):
        if not size > tolerance**2 * first:
            return x
        run(kernels.multiply, chunks, 2, count, indptr, indices, data, p, q, sums)
        curvature = float(sums.sum())
        if not curvature > 0:
            raise IndefiniteError
        run(kernels.advance, chunks, 8, count, size / curvature, inverses, p, q, x, r, z, sums)
        before, size = size, float(sums.sum())
        run(kernels.turn, chunks, 8, count, size / before, z, p)
    return None
