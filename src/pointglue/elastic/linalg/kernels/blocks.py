"""Compiled loops of blocks: sums over elements, and the positive semidefinite part of a small matrix."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....compute import kernel

__all__ = ["BlockSums", "add_blocks", "gather", "psd_part"]


class BlockSums(NamedTuple):
    """Which small blocks of one array are summed to each block of another."""

    starts: NDArray[np.int64]
    """(p + 1,): where the summands of each block begin."""
    sources: NDArray[np.int64]
    """Where each summand begins in its array."""
    widths: NDArray[np.int64]
    """How far apart the rows of each summand are."""
    targets: NDArray[np.int64]
    """(p,): where each block begins in the result."""
    strides: NDArray[np.int64]
    """(p,): how far apart the rows of each block are."""


@kernel
def gather(start, stop, starts, entries, values, out):
    """Set out[i] to the sum of values[entries[e]] over e from starts[i] to starts[i + 1]."""
    for i in range(start, stop):
        for axis in range(out.shape[1]):
            total = 0.0
            for e in range(starts[i], starts[i + 1]):
                total += values[entries[e], axis]
            out[i, axis] = total


@kernel
def add_blocks(start, stop, dimension, elements, sums, data):
    """Add to blocks start to stop of `data` their summands of `elements`; a block has `dimension` rows."""
    starts, sources, widths = sums.starts, sums.sources, sums.widths
    targets, strides = sums.targets, sums.strides
    if dimension == 3:  # all nine sums at once: 1.3 to 1.7 times as fast
        for p in range(start, stop):
            a0 = a1 = a2 = b0 = b1 = b2 = c0 = c1 = c2 = 0.0
            for e in range(starts[p], starts[p + 1]):
                i, j, k = sources[e], sources[e] + widths[e], sources[e] + 2 * widths[e]
                a0, a1, a2 = a0 + elements[i], a1 + elements[i + 1], a2 + elements[i + 2]
                b0, b1, b2 = b0 + elements[j], b1 + elements[j + 1], b2 + elements[j + 2]
                c0, c1, c2 = c0 + elements[k], c1 + elements[k + 1], c2 + elements[k + 2]
            i, j, k = targets[p], targets[p] + strides[p], targets[p] + 2 * strides[p]
            data[i], data[i + 1], data[i + 2] = data[i] + a0, data[i + 1] + a1, data[i + 2] + a2
            data[j], data[j + 1], data[j + 2] = data[j] + b0, data[j + 1] + b1, data[j + 2] + b2
            data[k], data[k + 1], data[k + 2] = data[k] + c0, data[k + 1] + c1, data[k + 2] + c2
        return
    for p in range(start, stop):
        for row in range(dimension):
            for column in range(dimension):
                total = 0.0
                for e in range(starts[p], starts[p + 1]):
                    total += elements[sources[e] + row * widths[e] + column]
                data[targets[p] + row * strides[p] + column] += total


@kernel
def _positive_definite(H, n, L):
    """Return whether Cholesky's factorisation of the symmetric H succeeds; L is scratch space."""
    for i in range(n):
        for j in range(i + 1):
            total = H[i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            if j < i:
                L[i, j] = total / L[j, j]
            elif total > 0.0:
                L[i, i] = math.sqrt(total)
            else:
                return False
    return True


@kernel
def _tridiagonal(A, n, d, e, W, v, p):
    """Reduce A = W^T T W by Householder reflections; T has diagonal d and subdiagonal e (e[i] next to d[i]).

    A is overwritten; v and p are scratch vectors.
    """
    for i in range(n):
        for j in range(n):
            W[i, j] = 1.0 if i == j else 0.0
    for k in range(n - 2):
        square = 0.0
        for j in range(k + 2, n):
            square += A[k, j] * A[k, j]
        d[k], e[k] = A[k, k], A[k, k + 1]
        if square == 0.0:
            continue
        e[k] = -math.copysign(math.sqrt(square + e[k] * e[k]), e[k])
        for j in range(k + 1, n):
            v[j] = A[k, j]
        v[k + 1] -= e[k]
        beta = 2.0 / (square + v[k + 1] * v[k + 1])
        along = 0.0
        for i in range(k + 1, n):
            total = 0.0
            for j in range(k + 1, n):
                total += A[i, j] * v[j]
            p[i] = beta * total
            along += p[i] * v[i]
        for i in range(k + 1, n):
            p[i] -= 0.5 * beta * along * v[i]
        for i in range(k + 1, n):
            vi, pi = v[i], p[i]
            for j in range(k + 1, n):
                A[i, j] -= vi * p[j] + pi * v[j]
        for j in range(n):
            p[j] = 0.0
        for i in range(k + 1, n):
            vi = beta * v[i]
            for j in range(n):
                p[j] += vi * W[i, j]
        for i in range(k + 1, n):
            vi = v[i]
            for j in range(n):
                W[i, j] -= vi * p[j]
    if n > 1:
        d[n - 2], e[n - 2] = A[n - 2, n - 2], A[n - 2, n - 1]
    d[n - 1], e[n - 1] = A[n - 1, n - 1], 0.0


@kernel
def _diagonal(n, d, e, W, tiny):
    """Find eigenvalues d and eigenvectors, the rows of W, by implicit QL steps after `_tridiagonal`.

    A subdiagonal entry below `tiny` counts as zero.
    """
    for first in range(n):
        for _step in range(50):  # 2 are the rule; the limit only guards the loop
            last = first
            while last < n - 1 and abs(e[last]) > tiny:
                last += 1
            if last == first:
                break
            g = (d[first + 1] - d[first]) / (2.0 * e[first])
            g = d[last] - d[first] + e[first] / (g + math.copysign(math.sqrt(g * g + 1.0), g))
            s = c = 1.0
            shift = 0.0
            split = False
            for i in range(last - 1, first - 1, -1):
                f, b = s * e[i], c * e[i]
                r = math.sqrt(f * f + g * g)
                e[i + 1] = r
                if r == 0.0:
                    d[i + 1] -= shift
                    e[last] = 0.0
                    split = True
                    break
                s, c = f / r, g / r
                g = d[i + 1] - shift
                r = (d[i] - g) * s + 2.0 * c * b
                shift = s * r
                d[i + 1] = g + shift
                g = c * r - b
                for j in range(n):
                    x, y = W[i, j], W[i + 1, j]
                    W[i, j], W[i + 1, j] = c * x - s * y, s * x + c * y
            if not split:
                d[first] -= shift
                e[first] = g
                e[last] = 0.0


@kernel
def psd_part(H, n, work, W):
    """Replace the negative eigenvalues of the symmetric H[:n, :n] by zero, in place.

    `work` and `W` are scratch space of at least n + 4 rows and n columns. H stays as it is, to the last
    bit, if Cholesky's factorisation finds it positive definite. A matrix that is not finite stays so.
    """
    if _positive_definite(H, n, work):
        return
    largest = 0.0
    for i in range(n):
        for j in range(n):
            largest = max(largest, abs(H[i, j]))
    if not 0.0 < largest < math.inf:
        return
    for i in range(n):
        for j in range(n):
            work[i, j] = H[i, j] / largest
    d, e = work[n], work[n + 1]
    _tridiagonal(work, n, d, e, W, work[n + 2], work[n + 3])
    _diagonal(n, d, e, W, 1e-17)
    for k in range(n):
        if d[k] < 0.0:
            for i in range(n):
                shift = d[k] * largest * W[k, i]
                for j in range(n):
                    H[i, j] -= shift * W[k, j]
