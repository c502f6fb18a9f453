"""Compiled loops of conjugate gradients, over chunks of nodes: sums have one order whatever the threads."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array
from ....compute import kernel

__all__ = ["CHUNK", "BlockMatrix", "Iterates", "advance", "invert_blocks", "multiply", "turn"]

CHUNK = 512  # nodes whose sums are one summand of the total


class BlockMatrix(NamedTuple):
    """A csr matrix of n nodes whose rows and columns come in blocks of three."""

    indptr: NDArray[np.integer]
    """(3 n + 1,): where the rows begin."""
    indices: NDArray[np.integer]
    """(nnz,): the columns, ascending within each row."""
    data: Array
    """(nnz,): the entries."""


class Iterates(NamedTuple):
    """The vectors of conjugate gradients, each (3 n,)."""

    x: Array
    """The solution so far."""
    r: Array
    """The residual."""
    z: Array
    """The residual times the inverses of the diagonal blocks."""
    p: Array
    """The search direction."""
    q: Array
    """The matrix times the search direction."""


@kernel
def invert_blocks(start, stop, blocks, out):
    """Fill in the inverses of symmetric 3 x 3 matrices, or the identity for one that is not positive."""
    for i in range(start, stop):
        B, C = blocks[i], out[i]
        a, b, c, d, e, f = B[0, 0], B[0, 1], B[0, 2], B[1, 1], B[1, 2], B[2, 2]
        p, q, r = d * f - e * e, c * e - b * f, b * e - c * d
        det = a * p + b * q + c * r
        if not (a > 0.0 and a * d - b * b > 0.0 and det > 0.0):
            for j in range(3):
                for k in range(3):
                    C[j, k] = 1.0 if j == k else 0.0
            continue
        C[0, 0], C[0, 1], C[0, 2] = p / det, q / det, r / det
        C[1, 1], C[1, 2], C[2, 2] = (a * f - c * c) / det, (b * c - a * e) / det, (a * d - b * b) / det
        C[1, 0], C[2, 0], C[2, 1] = C[0, 1], C[0, 2], C[1, 2]


@kernel
def multiply(start, stop, matrix, vectors, sums):
    """Set q = A p for a matrix of 3 x 3 blocks, and sums to p . q of each chunk."""
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    p, q = vectors.p, vectors.q
    count = len(indptr) // 3
    for chunk in range(start, stop):
        total = 0.0
        for i in range(CHUNK * chunk, min(CHUNK * (chunk + 1), count)):
            begin = indptr[3 * i]
            width = indptr[3 * i + 1] - begin
            x = y = z = 0.0
            for k in range(begin, begin + width, 3):
                j = indices[k]
                a, b, c = p[j], p[j + 1], p[j + 2]
                x += data[k] * a + data[k + 1] * b + data[k + 2] * c
                m = k + width
                y += data[m] * a + data[m + 1] * b + data[m + 2] * c
                m += width
                z += data[m] * a + data[m + 1] * b + data[m + 2] * c
            q[3 * i], q[3 * i + 1], q[3 * i + 2] = x, y, z
            total += p[3 * i] * x + p[3 * i + 1] * y + p[3 * i + 2] * z
        sums[chunk] = total


@kernel
def advance(start, stop, alpha, inverses, vectors, sums):
    """Set x += alpha p, r -= alpha q, z = inverses r, and sums to r . z of each chunk."""
    x, r, z, p, q = vectors.x, vectors.r, vectors.z, vectors.p, vectors.q
    count = len(inverses)
    for chunk in range(start, stop):
        total = 0.0
        for i in range(CHUNK * chunk, min(CHUNK * (chunk + 1), count)):
            for j in range(3 * i, 3 * i + 3):
                x[j] += alpha * p[j]
                r[j] -= alpha * q[j]
            for j in range(3):
                B = inverses[i]
                z[3 * i + j] = B[j, 0] * r[3 * i] + B[j, 1] * r[3 * i + 1] + B[j, 2] * r[3 * i + 2]
                total += z[3 * i + j] * r[3 * i + j]
        sums[chunk] = total


@kernel
def turn(start, stop, beta, group_of, moves, vectors):
    """Set p = z + beta p + the move of each node's group."""
    z, p = vectors.z, vectors.p
    count = len(group_of)
    for chunk in range(start, stop):
        for i in range(CHUNK * chunk, min(CHUNK * (chunk + 1), count)):
            move = moves[group_of[i]]
            for j in range(3):
                p[3 * i + j] = z[3 * i + j] + move[j] + beta * p[3 * i + j]
