"""Compiled loops of matrices that are given room for further blocks between particles.

Links are what a block between two particles becomes between nodes, a column each: the number of the block,
node of its row, node of its column, and the derivatives of the two particles by these, -1 for the identity.
"""

import numpy as np

from ...checks import Array
from ...compute import kernel
from ..linalg.kernels.ordering import sorted_by

BLOCK, ROW, COLUMN, LEFT, RIGHT = range(5)


@kernel
def node_number(particle, node_of, size_of):
    """How many nodes a particle depends on."""
    return 1 if node_of[particle] >= 0 else size_of[particle]


@kernel
def node_at(particle, k, node_of, first_of, block_nodes):
    """Node k of those that a particle depends on, and the derivative by it."""
    if node_of[particle] >= 0:
        return node_of[particle], -1
    block = first_of[particle] + k
    return block_nodes[block], block


@kernel
def expand(rows, columns, node_of, first_of, size_of, block_nodes) -> Array:
    """The links (5, L) of blocks between particles, in their order."""
    total = 0
    for k in range(len(rows)):
        total += node_number(rows[k], node_of, size_of) * node_number(columns[k], node_of, size_of)
    links = np.empty((5, total), np.int64)
    at = 0
    for k in range(len(rows)):
        across = node_number(columns[k], node_of, size_of)
        for i in range(node_number(rows[k], node_of, size_of)):
            row, left = node_at(rows[k], i, node_of, first_of, block_nodes)
            for j in range(across):
                column, right = node_at(columns[k], j, node_of, first_of, block_nodes)
                links[BLOCK, at], links[ROW, at], links[COLUMN, at] = k, row, column
                links[LEFT, at], links[RIGHT, at] = left, right
                at += 1
    return links


@kernel
def node_columns(indptr, indices, count) -> tuple[Array, Array]:
    """The blocks of a csr matrix whose rows begin with blocks of three: starts (count + 1,) and columns."""
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
    """The blocks of the base and of the links: starts, columns ascending, and where those of the base are."""
    count = len(base_starts) - 1
    by_column = sorted_by(links[COLUMN], count, np.arange(links.shape[1]))[1]
    begins, order = sorted_by(links[ROW], count, by_column)
    starts = np.zeros(count + 1, np.int64)
    columns = np.empty(len(base_columns) + len(order), np.int64)
    slots = np.empty(len(base_columns), np.int64)
    total = 0
    for i in range(count):
        b, k = base_starts[i], begins[i]
        while b < base_starts[i + 1] or k < begins[i + 1]:
            column = base_columns[b] if b < base_starts[i + 1] else count
            if k < begins[i + 1]:
                column = min(column, links[COLUMN, order[k]])
            while k < begins[i + 1] and links[COLUMN, order[k]] == column:
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
    """The csr matrix of those blocks, its rows ending as those of the base do: indptr and indices."""
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
    """Where the block of each link is among those of its row, -1 for nowhere."""
    slots = np.empty(links.shape[1], np.int64)
    for e in range(links.shape[1]):
        row, column = links[ROW, e], links[COLUMN, e]
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
def carry(start, stop, base_indptr, base_starts, slots, indptr, data, out):
    """The rows of the base's data, in their places of `out`."""
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
def add_links(start, stop, begins, order, links, slots, derivatives, blocks, indptr, out):
    """Add left^T block right to the rows of nodes start to stop, for all links of each."""
    product = np.empty((3, 3))
    for node in range(start, stop):
        for k in range(begins[node], begins[node + 1]):
            e = order[k]
            block, left, right = links[BLOCK, e], links[LEFT, e], links[RIGHT, e]
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
