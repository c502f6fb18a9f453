"""Sums of what contacts give over vertices, and its blocks, in the order of the contacts."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....compute import kernel
from ...linalg.kernels.ordering import sorted_by

__all__ = ["BlockPairs", "add_gradients", "block_pairs", "sum_blocks"]


class BlockPairs(NamedTuple):
    """The blocks of the upper triangle of a sum of Hessians of contacts: B of them, by rows and columns."""

    row: NDArray[np.int64]
    """(B,): the vertex of the row."""
    column: NDArray[np.int64]
    """(B,): the vertex of the column, not before that of the row."""
    begins: NDArray[np.int64]
    """(B + 1,): where the terms of each block begin in `source`."""
    source: NDArray[np.int64]
    """The terms, in the order of the contacts: 16 times the contact plus 4 i + j, for its points i and j."""


@kernel
def add_gradients(points, gradients, out) -> None:
    """Add the gradients (K, 4, 3) of contacts with points (K, 4) to those of the vertices (V, 3)."""
    for k in range(len(points)):
        for i in range(4):
            p = points[k, i]
            if p >= 0:
                for a in range(3):
                    out[p, a] += gradients[k, i, a]


@kernel
def block_pairs(points, count) -> BlockPairs:
    """Return the pairs of `count` vertices of all blocks of contacts with points (K, 4)."""
    total = 0
    for k in range(len(points)):
        n = 0
        for i in range(4):
            n += points[k, i] >= 0
        total += n * (n + 1) // 2
    row, column, source = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    slot = 0
    for k in range(len(points)):
        for i in range(4):
            for j in range(i, 4):
                p, q = points[k, i], points[k, j]
                if p < 0 or q < 0:
                    continue
                # Blocks of the lower triangle are read transposed.
                row[slot], column[slot] = min(p, q), max(p, q)
                source[slot] = 16 * k + (4 * i + j if p <= q else 4 * j + i)
                slot += 1
    _, order = sorted_by(column, count, np.arange(total))
    _, order = sorted_by(row, count, order)
    begins = np.empty(total + 1, np.int64)
    unique = 0
    for k in range(total):
        e = order[k]
        if k == 0 or row[e] != row[order[k - 1]] or column[e] != column[order[k - 1]]:
            begins[unique] = k
            unique += 1
    begins[unique] = total
    begins = begins[: unique + 1].copy()
    first = order[begins[:-1]]
    return BlockPairs(row[first], column[first], begins, source[order])


@kernel
def sum_blocks(start, stop, pairs, hessians, out):
    """Fill in the sums (B, 3, 3) of the blocks of Hessians (K, 12, 12), one for each pair of vertices."""
    for b in range(start, stop):
        for a in range(3):
            for c in range(3):
                out[b, a, c] = 0.0
        for e in range(pairs.begins[b], pairs.begins[b + 1]):
            k, block = pairs.source[e] // 16, pairs.source[e] % 16
            i, j = 3 * (block // 4), 3 * (block % 4)
            for a in range(3):
                for c in range(3):
                    out[b, a, c] += hessians[k, i + a, j + c]
