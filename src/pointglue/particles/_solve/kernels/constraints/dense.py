"""Dense positive definite systems, solved on the thread that asks for it: factors L L^T.

The threads of a BLAS library cost more than they save for some hundred unknowns: they wait for each other,
which on busy cores takes ten times as long as the solution itself, and the last bits depend on their number.
"""

import math

import numpy as np

from .....compute import kernel

__all__ = ["factor_dense", "solve_dense"]

# Columns that are factored at once, a multiple of four: what they change in the rest stays in the cache.
BLOCK = 32


@kernel
def _factor_columns(A, first, end):
    """Factor columns first to end of the lower triangle, after earlier ones have been taken from them."""
    n = len(A)
    for k in range(first, end):
        d = math.sqrt(A[k, k])
        A[k, k] = d
        for i in range(k + 1, n):
            A[i, k] /= d
        for i in range(k + 1, n):
            f = A[i, k]
            for j in range(k + 1, min(end, i + 1)):
                A[i, j] -= f * A[j, k]


@kernel
def factor_dense(A) -> None:
    """Replace the lower triangle of a positive definite A (n, n) by its factor L."""
    n = len(A)
    across = np.empty((BLOCK, n))
    for first in range(0, n, BLOCK):
        end = min(first + BLOCK, n)
        _factor_columns(A, first, end)
        if end == n:
            break
        # Take their products from the rest, four at a time, along rows.
        for k in range(BLOCK):
            for j in range(end, n):
                across[k, j] = A[j, first + k]
        for i in range(end, n):
            for k in range(0, BLOCK, 4):
                p, q, r, s = A[i, first + k], A[i, first + k + 1], A[i, first + k + 2], A[i, first + k + 3]
                for j in range(end, i + 1):
                    A[i, j] -= (
                        p * across[k, j] + q * across[k + 1, j] + r * across[k + 2, j] + s * across[k + 3, j]
                    )


@kernel
def solve_dense(L, b) -> None:
    """Replace b (n,) by the solution x of L L^T x = b."""
    n = len(b)
    for i in range(n):
        x = b[i]
        for j in range(i):
            x -= L[i, j] * b[j]
        b[i] = x / L[i, i]
    for i in range(n - 1, -1, -1):
        x = b[i] / L[i, i]
        b[i] = x
        for j in range(i):
            b[j] -= L[i, j] * x
