"""Compiled loops of the sparse L D L^T factorisation: dense fronts, one for each part of the unknowns.

A front has p pivots and r update rows, which are those rows of later pivots that its elimination touches.
Its columns of L are held transposed, LT (p, p + r), so that everything runs along rows. Its update matrix
U (r, r) is what the pivots subtract from the update rows; its upper triangle counts. W = D L^T is scratch
space of the shape of LT. Widths are padded, see `padded`.

A front is a row of integers, whose columns have names: the number of pivots and of update rows, the first
pivot, where its LT is in the factor, where its row numbers begin, where its U and its W are in the pool,
where its entries of the matrix begin and where its children do. The next row ends those.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array
from ....compute import kernel
from ....compute.simd import element, load, splat, store

(
    PIVOTS,
    UPDATE_ROWS,
    FIRST_PIVOT,
    FACTOR_START,
    ROW_START,
    UPDATE_START,
    SCRATCH_START,
    ENTRY_START,
    CHILD_START,
    COLUMNS,
) = range(10)
BLOCK = 16  # pivots that are eliminated at once
DEPTH = 64  # pivots whose effect is summed up before it is written: as many as fit the first cache
TILE = 8  # columns of a tile


class FrontTree(NamedTuple):
    """The fronts, and where the numbers go that they are made of."""

    fronts: NDArray[np.int64]
    """(fronts + 1, COLUMNS): the integers of each front."""
    children: NDArray[np.int64]
    """The children of all fronts, in the order of their parents."""
    parent_rows: NDArray[np.int64]
    """Where each update row is in the parent's front, see `rows_in_parents`."""
    sources: NDArray[np.int64]
    """The entries of the csr matrix that are used, in the order of the fronts."""
    targets: NDArray[np.int64]
    """Where each of them goes in the factor."""


class Subtrees(NamedTuple):
    """Subtrees of fronts that are factored side by side."""

    starts: NDArray[np.int64]
    """(trees + 1,): where the fronts of each subtree begin in `members`."""
    members: NDArray[np.int64]
    """The fronts of all subtrees, in the order of elimination."""


class Factors(NamedTuple):
    """The memory that a factorisation fills in."""

    L: Array
    """The fronts' LT, one after the other."""
    D: Array
    """(n,): the pivots."""
    pool: Array
    """Update matrices and scratch space."""
    least: Array
    """(n,): the smallest right pivot, negative for a multiplier."""
    wrong: NDArray[np.bool_]
    """(n,): which pivots were wrong and have been replaced by the least."""


@kernel
def padded(p, r):
    """Return the width of LT: tiles of eight columns from the first column, or from the first update row."""
    return (p + r + 15) // 8 * 8


@kernel
def wide(r):
    """Return the width of U: tiles of eight columns."""
    return (r + 7) // 8 * 8


@kernel
def rows_in_parents(row_starts, rows, bounds, parents) -> Array:
    """Return where each update row is in the parent's front: among its pivots, or after them."""
    local = np.empty(len(rows), np.int64)
    for s in range(len(parents)):
        above = parents[s]
        first, end, k = bounds[above], bounds[above + 1], row_starts[above]
        for e in range(row_starts[s], row_starts[s + 1]):
            if rows[e] < end:
                local[e] = rows[e] - first
            else:
                while rows[k] < rows[e]:
                    k += 1
                local[e] = end - first + k - row_starts[above]
    return local


@kernel
def subtrees(work, parents, limit) -> tuple[Array, int]:
    """Return the subtree of each front, none of more work than `limit`, and their number, that of the top."""
    total, tree_of = work.copy(), np.empty(len(parents), np.int64)
    for s in range(len(parents)):
        if parents[s] >= 0:
            total[parents[s]] += total[s]
    number = 0
    for s in range(len(parents) - 1, -1, -1):
        tree_of[s] = -1
        if parents[s] >= 0 and tree_of[parents[s]] >= 0:
            tree_of[s] = tree_of[parents[s]]
        elif total[s] <= limit:
            tree_of[s] = number
            number += 1
    for s in range(len(parents)):
        if tree_of[s] < 0:
            tree_of[s] = number
    return tree_of, number


@kernel
def share_pool(fronts, children, parents, tree_of, number, areas) -> int:
    """Set where each front's U and scratch space are in the pool, and return the size of the pool.

    Each tree has its own part, since trees are factored side by side. It holds scratch space for one front
    and two stacks: the updates of children are in one, and their parent's update is in the other.
    """
    count = len(parents)
    side = np.zeros(count, np.int64)
    for s in range(count - 1, -1, -1):
        side[s] = 1 - side[parents[s]] if parents[s] >= 0 else 0
    scratch = np.zeros(number + 1, np.int64)
    height, peak = np.zeros((number + 1, 2), np.int64), np.zeros((number + 1, 2), np.int64)
    for s in range(count):
        group, own = tree_of[s], side[s]
        scratch[group] = max(scratch[group], areas[s])
        fronts[s, UPDATE_START] = height[group, own]
        height[group, own] += wide(fronts[s, UPDATE_ROWS]) ** 2
        peak[group, own] = max(peak[group, own], height[group, own])
        for c in range(fronts[s, CHILD_START], fronts[s + 1, CHILD_START]):
            if tree_of[children[c]] == group:
                height[group, 1 - own] -= wide(fronts[children[c], UPDATE_ROWS]) ** 2
    begin = np.zeros(number + 2, np.int64)
    for group in range(number + 1):
        begin[group + 1] = begin[group] + scratch[group] + peak[group, 0] + peak[group, 1]
    for s in range(count):
        group = tree_of[s]
        fronts[s, SCRATCH_START] = begin[group]
        fronts[s, UPDATE_START] += begin[group] + scratch[group] + side[s] * peak[group, 0]
    return int(begin[number + 1])


@kernel
def place_entries(fronts, rows, order, indptr, indices) -> tuple[Array, Array]:
    """Return which entries of the csr matrix go where in LT, front by front: sources and targets."""
    pivot, column = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    for k in range(len(order)):
        pivot[order[k]] = k
    sources, targets = np.empty(len(indices), np.int64), np.empty(len(indices), np.int64)
    total = 0
    for s in range(len(fronts) - 1):
        front = fronts[s]
        p, r, first = front[PIVOTS], front[UPDATE_ROWS], front[FIRST_PIVOT]
        front[ENTRY_START] = total
        for j in range(p):
            column[first + j] = j
        for i in range(r):
            column[rows[front[ROW_START] + i]] = p + i
        for j in range(p):
            at, row = front[FACTOR_START] + j * padded(p, r), order[first + j]
            for e in range(indptr[row], indptr[row + 1]):
                other = pivot[indices[e]]
                if other >= first + j:
                    sources[total], targets[total] = e, at + column[other]
                    total += 1
    fronts[-1, ENTRY_START] = total
    return sources[:total], targets[:total]


@kernel
def tile(C, j, i, A, B, shift, start, stop):
    """Set C[j : j + 4, i : i + 8] -= A[start : stop, a : a + 4]^T B[start : stop, b : b + 8].

    a and b are j and i plus the shift.
    """
    a, b = shift + j, shift + i
    zero = splat(0.0)
    c00, c01, c10, c11, c20, c21, c30, c31 = zero, zero, zero, zero, zero, zero, zero, zero
    for m in range(start, stop):
        b0, b1 = load(B, m, b), load(B, m, b + 4)
        x = A[m, a]
        c00, c01 = c00 + x * b0, c01 + x * b1
        x = A[m, a + 1]
        c10, c11 = c10 + x * b0, c11 + x * b1
        x = A[m, a + 2]
        c20, c21 = c20 + x * b0, c21 + x * b1
        x = A[m, a + 3]
        c30, c31 = c30 + x * b0, c31 + x * b1
    store(C, j, i, load(C, j, i) - c00)
    store(C, j, i + 4, load(C, j, i + 4) - c01)
    store(C, j + 1, i, load(C, j + 1, i) - c10)
    store(C, j + 1, i + 4, load(C, j + 1, i + 4) - c11)
    store(C, j + 2, i, load(C, j + 2, i) - c20)
    store(C, j + 2, i + 4, load(C, j + 2, i + 4) - c21)
    store(C, j + 3, i, load(C, j + 3, i) - c30)
    store(C, j + 3, i + 4, load(C, j + 3, i + 4) - c31)


@kernel
def pivot_block(LT, W, D, start, stop, edge, least, wrong) -> None:
    """Eliminate pivots start to stop in columns up to `edge`, and set D to the diagonal.

    `least` (p,) is the smallest right pivot, negative for a multiplier; a wrong one is marked and replaced
    by that. D, `least` and `wrong` are those of the front.
    """
    for j in range(start, stop):
        for i in range(j, edge):
            total = LT[j, i]
            for m in range(start, j):
                total -= LT[m, j] * W[m, i]
            W[j, i] = total
        d, bound = W[j, j], least[j]
        if not (d >= bound if bound > 0.0 else d <= bound):
            wrong[j] = True
            d = bound
        D[j] = d
        for i in range(j, edge):
            LT[j, i] = W[j, i] / d


@kernel
def pivot_columns(start, stop, LT, W, D, begin, end, edge):
    """Fill in rows begin to end of LT and W in tiles of columns, after the `edge` tiles of `pivot_block`."""
    for t in range(start, stop):
        i = TILE * (edge + t)
        for j in range(begin, end):
            x, y = load(LT, j, i), load(LT, j, i + 4)
            for m in range(begin, j):
                a = LT[m, j]
                x, y = x - a * load(W, m, i), y - a * load(W, m, i + 4)
            store(W, j, i, x)
            store(W, j, i + 4, y)
            scale = 1.0 / D[j]
            store(LT, j, i, scale * x)
            store(LT, j, i + 4, scale * y)


@kernel
def pivot_rest(start, stop, LT, W, begin, end, p, width):
    """Update the later pivots by pivots begin to end, in tiles of four rows, from both ends in turn."""
    tiles = (p - end + 3) // 4
    for t in range(start, stop):
        j = end + 4 * (t // 2 if t % 2 == 0 else tiles - 1 - t // 2)
        for i in range(j // TILE * TILE, width, TILE):
            tile(LT, j, i, LT, W, 0, begin, end)


@kernel
def update_tiles(start, stop, LT, W, U, p, r):
    """Set U -= L W on the update rows, in tiles of four rows, from both ends in turn for even shares."""
    tiles = (r + 3) // 4
    for begin in range(0, p, DEPTH):
        end = min(begin + DEPTH, p)
        for t in range(start, stop):
            j = 4 * (t // 2 if t % 2 == 0 else tiles - 1 - t // 2)
            for i in range(j // TILE * TILE, r, TILE):
                tile(U, j, i, LT, W, p, begin, end)


@kernel
def clear(start, stop, matrix):
    """Set rows start to stop to zero."""
    for j in range(start, stop):
        for i in range(matrix.shape[1]):
            matrix[j, i] = 0.0


@kernel
def add_entries(front, end, sources, targets, data, L) -> None:
    """Add the entries of the matrix itself to a front; `end` is the front after it."""
    for e in range(front[ENTRY_START], end[ENTRY_START]):
        L[targets[e]] += data[sources[e]]


@kernel
def add_update(start, stop, child, parent_rows, LT, U, p, Uc):
    """Add rows start to stop of a child's update matrix Uc to its parent's LT and U."""
    r, rows = child[UPDATE_ROWS], child[ROW_START]
    for a in range(start, min(stop, r)):
        j = parent_rows[rows + a]
        if j < p:
            for b in range(a, r):
                LT[j, parent_rows[rows + b]] += Uc[a, b]
        else:
            for b in range(a, r):
                U[j - p, parent_rows[rows + b] - p] += Uc[a, b]


@kernel
def views(front, L, pool) -> tuple[Array, Array, Array]:
    """Return LT, U and W of a front."""
    p, r = front[PIVOTS], front[UPDATE_ROWS]
    width, high, across = padded(p, r), (p + 3) // 4 * 4, wide(r)
    LT = L[front[FACTOR_START] : front[FACTOR_START] + high * width].reshape((high, width))
    U = pool[front[UPDATE_START] : front[UPDATE_START] + across * across].reshape((across, across))
    W = pool[front[SCRATCH_START] : front[SCRATCH_START] + high * width].reshape((high, width))
    return LT, U, W


@kernel
def factor_trees(start, stop, subtrees, tree, data, factors):
    """Factor all the fronts of subtrees start to stop, one after the other."""
    fronts, children = tree.fronts, tree.children
    parent_rows, sources, targets = tree.parent_rows, tree.sources, tree.targets
    L, pool = factors.L, factors.pool
    for t in range(start, stop):
        for k in range(subtrees.starts[t], subtrees.starts[t + 1]):
            s = subtrees.members[k]
            front = fronts[s]
            p, r, first = front[PIVOTS], front[UPDATE_ROWS], front[FIRST_PIVOT]
            LT, U, W = views(front, L, pool)
            clear(0, len(LT), LT)
            clear(0, len(U), U)
            add_entries(front, fronts[s + 1], sources, targets, data, L)
            for c in range(front[CHILD_START], fronts[s + 1][CHILD_START]):
                child = fronts[children[c]]
                add_update(0, child[UPDATE_ROWS], child, parent_rows, LT, U, p, views(child, L, pool)[1])
            width = LT.shape[1]
            D = factors.D[first : first + p]
            least, wrong = factors.least[first : first + p], factors.wrong[first : first + p]
            for begin in range(0, p, BLOCK):
                end = min(begin + BLOCK, p)
                edge = (end + TILE - 1) // TILE
                pivot_block(LT, W, D, begin, end, TILE * edge, least, wrong)
                pivot_columns(0, width // TILE - edge, LT, W, D, begin, end, edge)
                pivot_rest(0, (p - end + 3) // 4, LT, W, begin, end, p, width)
            update_tiles(0, (r + 3) // 4, LT, W, U, p, r)


@kernel
def forward(fronts, rows, L, D, y, room) -> None:
    """Set y = D^-1 L^-1 y, front by front; `room` (1, w) is as wide as the widest front."""
    for s in range(len(fronts) - 1):
        front = fronts[s]
        p, r, first, start = front[PIVOTS], front[UPDATE_ROWS], front[FIRST_PIVOT], front[ROW_START]
        width = padded(p, r)
        for j in range(p):
            room[0, j] = y[first + j]
        for i in range(p, p + r):
            room[0, i] = 0.0
        for j in range(p):
            value, at = room[0, j], front[FACTOR_START] + j * width
            for i in range(j + 1, p + r):
                room[0, i] -= L[at + i] * value
        for j in range(p):
            y[first + j] = room[0, j] / D[first + j]
        for i in range(r):
            y[rows[start + i]] += room[0, p + i]


@kernel
def backward(fronts, rows, L, y, room) -> None:
    """Set y = L^-T y, last front first; `room` (1, w) is as wide as the widest front."""
    factor = L.reshape((1, len(L)))
    for s in range(len(fronts) - 2, -1, -1):
        front = fronts[s]
        p, r, first, start = front[PIVOTS], front[UPDATE_ROWS], front[FIRST_PIVOT], front[ROW_START]
        width, end = padded(p, r), p + r
        for j in range(p):
            room[0, j] = y[first + j]
        for i in range(r):
            room[0, p + i] = y[rows[start + i]]
        for j in range(p - 1, -1, -1):
            at, i = front[FACTOR_START] + j * width, j + 1
            # Two sums of four lanes, since a single one would wait for each addition.
            one, other = splat(0.0), splat(0.0)
            while i + 8 <= end:
                one = one + load(factor, 0, at + i) * load(room, 0, i)
                other = other + load(factor, 0, at + i + 4) * load(room, 0, i + 4)
                i += 8
            both = one + other
            total = room[0, j] - (element(both, 0) + element(both, 1) + element(both, 2) + element(both, 3))
            while i < end:
                total -= L[at + i] * room[0, i]
                i += 1
            room[0, j] = total
            y[first + j] = total
