"""Compiled loops of matrices that are given room for further blocks between particles."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute import kernel
from ..linalg.kernels.ordering import sorted_by

__all__ = [
    "BaseRows",
    "BlockLinks",
    "RowLinks",
    "add_links",
    "copy_base",
    "expand",
    "extend",
    "locate",
    "node_columns",
    "unite",
]


class BlockLinks(NamedTuple):
    """What blocks between two particles become between nodes: L links."""

    block: NDArray[np.int64]
    """(L,): the number of the block between particles."""
    row: NDArray[np.int64]
    """(L,): the node of its row."""
    column: NDArray[np.int64]
    """(L,): the node of its column."""
    left: NDArray[np.int64]
    """(L,): the Jacobian block of the row's particle by that node, or -1 for the identity."""
    right: NDArray[np.int64]
    """(L,): the Jacobian block of the column's particle by that node, or -1 for the identity."""


class RowLinks(NamedTuple):
    """Links sorted by the nodes of their rows."""

    begins: NDArray[np.int64]
    """(nodes + 1,): where the links of each node begin in `order`."""
    order: NDArray[np.int64]
    """(L,): the links."""
    block: NDArray[np.int64]
    """(L,): the block of each link, see `BlockLinks`."""
    left: NDArray[np.int64]
    """(L,): the Jacobian block on the left, whose transpose is taken."""
    right: NDArray[np.int64]
    """(L,): the Jacobian block on the right."""
    slots: NDArray[np.int64]
    """(L,): where the link's block is among those of its row of blocks."""


class BaseRows(NamedTuple):
    """Where the rows of a base matrix of n unknowns go in a wider one."""

    indptr: NDArray[np.int64]
    """(n + 1,): where the rows of the base begin."""
    starts: NDArray[np.int64]
    """(nodes + 1,): where the blocks of each node begin among those of the base."""
    slots: NDArray[np.int64]
    """Where each block of the base is among those of its row in the wider matrix."""


@kernel
def _node_number(particle, dependence):
    """Return how many nodes a particle depends on."""
    return 1 if dependence.node_of[particle] >= 0 else dependence.block_count[particle]


@kernel
def _node_at(particle, k, dependence):
    """Return node k of those that a particle depends on, and the Jacobian block by it."""
    if dependence.node_of[particle] >= 0:
        return dependence.node_of[particle], -1
    block = dependence.first_block[particle] + k
    return dependence.block_nodes[block], block


@kernel
def expand(rows, columns, dependence) -> BlockLinks:
    """Return the links of blocks between particles, in the order of the blocks."""
    total = 0
    for k in range(len(rows)):
        total += _node_number(rows[k], dependence) * _node_number(columns[k], dependence)
    block, row, column = np.empty(total, np.int64), np.empty(total, np.int64), np.empty(total, np.int64)
    left, right = np.empty(total, np.int64), np.empty(total, np.int64)
    at = 0
    for k in range(len(rows)):
        across = _node_number(columns[k], dependence)
        for i in range(_node_number(rows[k], dependence)):
            row_node, row_block = _node_at(rows[k], i, dependence)
            for j in range(across):
                column_node, column_block = _node_at(columns[k], j, dependence)
                block[at], row[at], column[at] = k, row_node, column_node
                left[at], right[at] = row_block, column_block
                at += 1
    return BlockLinks(block, row, column, left, right)


@kernel
def node_columns(indptr, indices, count) -> tuple[Array, Array]:
    """Return the blocks of a csr matrix whose rows begin with blocks: starts (count + 1,) and columns."""
    starts, columns = np.zeros(count + 1, np.int64), np.empty(len(indices) // 9, np.int64)
    total = 0
    for i in range(count):
        for e in range(indptr[3 * i], indptr[3 * i + 1], 3):
            if indices[e] >= 3 * count:
                break
            columns[total] = indices[e] // 3
            total += 1
        starts[i + 1] = total
    return starts, columns[:total]


@kernel
def unite(base_starts, base_columns, links) -> tuple[Array, Array, Array]:
    """Return the blocks of the base and the links: starts, ascending columns, slots of the base's blocks."""
    count = len(base_starts) - 1
    by_column = sorted_by(links.column, count, np.arange(len(links.column)))[1]
    begins, order = sorted_by(links.row, count, by_column)
    starts = np.zeros(count + 1, np.int64)
    columns = np.empty(len(base_columns) + len(order), np.int64)
    slots = np.empty(len(base_columns), np.int64)
    total = 0
    for i in range(count):
        b, k = base_starts[i], begins[i]
        while b < base_starts[i + 1] or k < begins[i + 1]:
            column = base_columns[b] if b < base_starts[i + 1] else count
            if k < begins[i + 1]:
                column = min(column, links.column[order[k]])
            while k < begins[i + 1] and links.column[order[k]] == column:
                k += 1
            if b < base_starts[i + 1] and base_columns[b] == column:
                slots[b] = total - starts[i]
                b += 1
            columns[total] = column
            total += 1
        starts[i + 1] = total
    return starts, columns[:total].copy(), slots


@kernel
def extend(starts, columns, base_indptr, base_indices, base_starts) -> tuple[Array, Array]:
    """Return the csr matrix of those blocks, its rows ending as those of the base do: indptr and indices."""
    count, size = len(starts) - 1, len(base_indptr) - 1
    indptr = np.zeros(size + 1, np.int64)
    indices = np.empty(len(base_indices) + 9 * (starts[count] - base_starts[count]), np.int64)
    at = 0
    for u in range(size):
        rest = base_indptr[u]
        if u < 3 * count:
            i = u // 3
            rest += 3 * (base_starts[i + 1] - base_starts[i])
            for k in range(starts[i], starts[i + 1]):
                for axis in range(3):
                    indices[at] = 3 * columns[k] + axis
                    at += 1
        for e in range(rest, base_indptr[u + 1]):
            indices[at] = base_indices[e]
            at += 1
        indptr[u + 1] = at
    return indptr, indices


@kernel
def locate(links, starts, columns) -> Array:
    """Return where the block of each link is among those of its row, or -1 where there is none."""
    slots = np.empty(len(links.row), np.int64)
    for e in range(len(links.row)):
        row, column = links.row[e], links.column[e]
        low, high = starts[row], starts[row + 1]
        while low < high:
            middle = (low + high) // 2
            if columns[middle] < column:
                low = middle + 1
            else:
                high = middle
        slots[e] = low - starts[row] if low < starts[row + 1] and columns[low] == column else -1
    return slots


@kernel
def copy_base(start, stop, base, indptr, data, out):
    """Copy the rows start to stop of the base's data to where they are in `out`."""
    base_indptr, base_starts, slots = base.indptr, base.starts, base.slots
    count = len(base_starts) - 1
    for u in range(start, stop):
        rest = base_indptr[u]
        if u < 3 * count:
            for k in range(base_starts[u // 3], base_starts[u // 3 + 1]):
                at = indptr[u] + 3 * slots[k]
                out[at], out[at + 1], out[at + 2] = data[rest], data[rest + 1], data[rest + 2]
                rest += 3
        shift = indptr[u + 1] - base_indptr[u + 1]
        for e in range(rest, base_indptr[u + 1]):
            out[e + shift] = data[e]


@kernel
def add_links(start, stop, links, derivatives, blocks, indptr, out):
    """Add left^T block right to the rows of nodes start to stop, for all links of each."""
    begins, order, slots = links.begins, links.order, links.slots
    product = np.empty((3, 3))
    for node in range(start, stop):
        for k in range(begins[node], begins[node + 1]):
            e = order[k]
            block, left, right = links.block[e], links.left[e], links.right[e]
            for i in range(3):
                for j in range(3):
                    product[i, j] = blocks[block, i, j]
            if right >= 0:
                R = derivatives[right]
                for i in range(3):
                    x, y, z = product[i, 0], product[i, 1], product[i, 2]
                    for j in range(3):
                        product[i, j] = x * R[0, j] + y * R[1, j] + z * R[2, j]
            if left >= 0:
                L = derivatives[left]
                for j in range(3):
                    x, y, z = product[0, j], product[1, j], product[2, j]
                    for i in range(3):
                        product[i, j] = L[0, i] * x + L[1, i] * y + L[2, i] * z
            for i in range(3):
                at = indptr[3 * node + i] + 3 * slots[e]
                for j in range(3):
                    out[at + j] += product[i, j]
