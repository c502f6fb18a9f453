"""Positive semidefinite parts of small symmetric matrices."""

import math

from ....compute import kernel

__all__ = ["diagonalise"]

MAX_SWEEPS = 12  # sweeps of Jacobi's method; four or five do
SMALL = 1e-12  # ratio of the largest entry: an entry beside the diagonal that counts as 0


@kernel
def diagonalise(A, n, V):
    """Turn A (n, n) into its eigenvalues, on the diagonal, and fill V with eigenvectors as rows.

    Jacobi's cyclic method: rotations in the planes of two axes, each of which removes one entry.
    """
    for i in range(n):
        for j in range(n):
            V[i, j] = 1.0 if i == j else 0.0
    largest = 0.0
    for i in range(n):
        for j in range(i, n):
            largest = max(largest, abs(A[i, j]))
    small = SMALL * largest
    for _ in range(MAX_SWEEPS):
        turned = False
        for p in range(n - 1):
            for q in range(p + 1, n):
                off = A[p, q]
                if abs(off) <= small:
                    continue
                turned = True
                theta = 0.5 * (A[q, q] - A[p, p]) / off
                t = math.copysign(1.0, theta) / (abs(theta) + math.sqrt(theta * theta + 1.0))
                c = 1.0 / math.sqrt(t * t + 1.0)
                s = t * c
                A[p, p] -= t * off
                A[q, q] += t * off
                A[p, q] = 0.0
                # Only entries right of the diagonal are kept up.
                for k in range(p):
                    a, b = A[k, p], A[k, q]
                    A[k, p], A[k, q] = c * a - s * b, s * a + c * b
                for k in range(p + 1, q):
                    a, b = A[p, k], A[k, q]
                    A[p, k], A[k, q] = c * a - s * b, s * a + c * b
                for k in range(q + 1, n):
                    a, b = A[p, k], A[q, k]
                    A[p, k], A[q, k] = c * a - s * b, s * a + c * b
                for k in range(n):
                    a, b = V[p, k], V[q, k]
                    V[p, k], V[q, k] = c * a - s * b, s * a + c * b
        if not turned:
            break
