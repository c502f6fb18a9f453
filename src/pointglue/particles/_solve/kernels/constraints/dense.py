"""Small dense systems, solved on the thread that asks for it.

The threads of a BLAS library cost more than they save for some hundred unknowns: they wait for each other,
which on busy cores takes ten times as long as the solution itself, and the last bits depend on their number.
"""

from .....compute import kernel

__all__ = ["solve_dense"]


@kernel
def solve_dense(A, b) -> None:
    """Solve A x = b by elimination with partial pivoting; A (n, n) is overwritten, and b (n,) becomes x."""
    n = len(b)
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[pivot, k]):
                pivot = i
        if pivot != k:
            for j in range(k, n):
                A[k, j], A[pivot, j] = A[pivot, j], A[k, j]
            b[k], b[pivot] = b[pivot], b[k]
        for i in range(k + 1, n):
            f = A[i, k] / A[k, k]
            if f != 0.0:
                for j in range(k + 1, n):
                    A[i, j] -= f * A[k, j]
                b[i] -= f * b[k]
    for i in range(n - 1, -1, -1):
        x = b[i]
        for j in range(i + 1, n):
            x -= A[i, j] * b[j]
        b[i] = x / A[i, i]
