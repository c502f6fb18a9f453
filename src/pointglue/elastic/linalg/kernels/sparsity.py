"""Compiled loops that build the sparsity of sums of small matrices, in blocks between points.

Elements are lists of points, one after the other in `points`; `firsts` and `sizes` say of each entry where
its element begins there and of how many points it is.
"""

import numpy as np

from ....checks import Array
from ....compute import kernel
from .ordering import sorted_by


@kernel
def sparsity(count, points, firsts, sizes) -> tuple[Array, Array]:
    """The blocks of each row of points, by their columns: starts (count + 1,) and columns, ascending.

    Rows are taken in turn, and each adds itself to those of its columns: the sparsity is symmetric.
    """
    begins, entries = sorted_by(points, count, np.arange(len(points)))
    starts, columns = np.zeros(count + 1, np.int64), np.empty(0, np.int64)
    for fill in range(2):
        seen, at = np.full(count, -1), starts[:-1].copy()
        for row in range(count):
            seen[row] = row
            if fill:
                columns[at[row]] = row
            at[row] += 1
            for k in range(begins[row], begins[row + 1]):
                first = firsts[entries[k]]
                for e in range(first, first + sizes[entries[k]]):
                    if seen[points[e]] != row:
                        seen[points[e]] = row
                        if fill:
                            columns[at[points[e]]] = row
                        at[points[e]] += 1
        if not fill:
            for row in range(count):
                starts[row + 1] = starts[row] + at[row]
            columns = np.empty(starts[count], np.int64)
    return starts, columns


@kernel
def spread(starts, columns, d, indices, targets, strides) -> None:
    """Columns of the csr matrix, where each block begins in its data, and how far apart its rows are."""
    for row in range(len(starts) - 1):
        first, width = starts[row], starts[row + 1] - starts[row]
        for b in range(width):
            targets[first + b], strides[first + b] = d * (d * first + b), d * width
        for i in range(d):
            for b in range(width):
                for j in range(d):
                    indices[d * (d * first + i * width + b) + j] = d * columns[first + b] + j


@kernel
def shares(starts, columns, d, points, firsts, sizes, bases) -> tuple[Array, Array, Array]:
    """Which blocks of elements make up each block of the sum: starts (blocks + 1,), sources and widths.

    `bases` says of each entry where its element's matrix begins; those of one block are in the order of the
    elements, and row by row within each.
    """
    count = len(starts) - 1
    begins, entries = sorted_by(points, count, np.arange(len(points)))
    total = np.sum(sizes)
    ends, slot = np.zeros(len(columns) + 1, np.int64), np.empty(count, np.int64)
    sources, widths = np.empty(total, np.int64), np.empty(total, np.int64)
    for fill in range(2):
        at = ends[:-1].copy()
        for row in range(count):
            for b in range(starts[row], starts[row + 1]):
                slot[columns[b]] = b
            for k in range(begins[row], begins[row + 1]):
                entry = entries[k]
                first, width = firsts[entry], d * sizes[entry]
                for e in range(first, first + sizes[entry]):
                    b = slot[points[e]]
                    if fill:
                        sources[at[b]] = bases[entry] + d * ((entry - first) * width + e - first)
                        widths[at[b]] = width
                    at[b] += 1
        if not fill:
            for b in range(len(columns)):
                ends[b + 1] = ends[b] + at[b]
    return ends, sources, widths
