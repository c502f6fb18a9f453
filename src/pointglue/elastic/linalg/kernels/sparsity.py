"""Compiled loops that build the sparsity of sums of small matrices, in blocks between points."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array
from ....compute import kernel
from .ordering import sorted_by

__all__ = ["ElementPoints", "shares", "sparsity", "spread"]


class ElementPoints(NamedTuple):
    """The points of all elements, one element after the other: n entries."""

    points: NDArray[np.int64]
    """(n,): the point of each entry."""
    firsts: NDArray[np.int64]
    """(n,): the first entry of its element."""
    sizes: NDArray[np.int64]
    """(n,): the number of points of its element."""
    bases: NDArray[np.int64]
    """(n,): where its element's matrix begins in the array of all element matrices."""


@kernel
def sparsity(count, elements) -> tuple[Array, Array]:
    """Return the blocks of each row of points, by their columns: starts (count + 1,) and ascending columns.

    Rows are taken in turn, and each adds itself to those of its columns, since the sparsity is symmetric.
    """
    points, firsts, sizes = elements.points, elements.firsts, elements.sizes
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
    """Fill in the columns of the csr matrix, where each block begins in its data, and its rows' distances."""
    for row in range(len(starts) - 1):
        first, width = starts[row], starts[row + 1] - starts[row]
        for b in range(width):
            targets[first + b], strides[first + b] = d * (d * first + b), d * width
        for i in range(d):
            for b in range(width):
                for j in range(d):
                    indices[d * (d * first + i * width + b) + j] = d * columns[first + b] + j


@kernel
def shares(starts, columns, d, elements) -> tuple[Array, Array, Array]:
    """Return which blocks of elements make up each block of the sum: starts (blocks + 1,), sources, widths.

    The summands of one block are in the order of the elements, and row by row within each.
    """
    points, firsts, sizes, bases = elements.points, elements.firsts, elements.sizes, elements.bases
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
