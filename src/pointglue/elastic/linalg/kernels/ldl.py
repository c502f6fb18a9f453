"""Compiled loops of the sparse LDL^T factorisation: dense fronts, one for each part of the unknowns.

A front has p pivots and r rows beyond them. Its columns of L are held transposed, LT (p, p + r), so that
everything runs along rows; what the pivots do to the rows beyond is U (r, r), of which the upper triangle
counts. W = D L^T is scratch space of the shape of LT. Widths are padded, see `padded`.

Integers of a front, its row of `fronts`: pivots, rows beyond, first pivot, where its LT, its rows, its U and
its scratch space are, then where its entries of the matrix begin and where its children do; the next row
ends those.
"""

import numpy as np

from ....checks import Array
from ....compute import kernel
from ....compute.simd import load, splat, store

PIVOTS, BEYOND, FIRST, PLACE, ROWS, UPDATE, SCRATCH, ENTRIES, CHILDREN, WIDTH = range(10)
BLOCK = 16  # pivots that are eliminated at once
DEPTH = 64  # pivots whose effect is summed up before it is written: what fits the first cache
TILE = 8  # columns of a tile


@kernel
def padded(p, r):
    """Width of LT: tiles of eight columns, counted from the first column or from the first beyond."""
    return (p + r + 15) // 8 * 8


@kernel
def wide(r):
    """Width of U: tiles of eight columns."""
    return (r + 7) // 8 * 8


@kernel
def places_above(row_starts, rows, bounds, parents) -> Array:
    """Where each row beyond a front is in its parent: among its pivots, else among its rows beyond."""
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
    """The subtree of each front, none of more work than `limit`, and their number: that of all at the top."""
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
    """Give each front its place for U and its scratch space in the pool; returns the size of that.

    Each tree has its own part, since trees are worked off side by side. It holds scratch space for one front
    and two stacks: children hand over in one what their parent sums up in the other.
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
        fronts[s, UPDATE] = height[group, own]
        height[group, own] += wide(fronts[s, BEYOND]) ** 2
        peak[group, own] = max(peak[group, own], height[group, own])
        for c in range(fronts[s, CHILDREN], fronts[s + 1, CHILDREN]):
            if tree_of[children[c]] == group:
                height[group, 1 - own] -= wide(fronts[children[c], BEYOND]) ** 2
    begin = np.zeros(number + 2, np.int64)
    for group in range(number + 1):
        begin[group + 1] = begin[group] + scratch[group] + peak[group, 0] + peak[group, 1]
    for s in range(count):
        group = tree_of[s]
        fronts[s, SCRATCH] = begin[group]
        fronts[s, UPDATE] += begin[group] + scratch[group] + side[s] * peak[group, 0]
    return int(begin[number + 1])


@kernel
def place_entries(fronts, rows, order, indptr, indices) -> tuple[Array, Array]:
    """Which entries of the csr matrix go where in LT, front by front: sources and targets."""
    pivot, column = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    for k in range(len(order)):
        pivot[order[k]] = k
    sources, targets = np.empty(len(indices), np.int64), np.empty(len(indices), np.int64)
    total = 0
    for s in range(len(fronts) - 1):
        front = fronts[s]
        p, r, first = front[PIVOTS], front[BEYOND], front[FIRST]
        front[ENTRIES] = total
        for j in range(p):
            column[first + j] = j
        for i in range(r):
            column[rows[front[ROWS] + i]] = p + i
        for j in range(p):
            at, row = front[PLACE] + j * padded(p, r), order[first + j]
            for e in range(indptr[row], indptr[row + 1]):
                other = pivot[indices[e]]
                if other >= first + j:
                    sources[total], targets[total] = e, at + column[other]
                    total += 1
    fronts[-1, ENTRIES] = total
    return sources[:total], targets[:total]


@kernel
def tile(C, j, i, A, a, B, b, start, stop):
    """C[j : j + 4, i : i + 8] -= A[start : stop, a : a + 4]^T B[start : stop, b : b + 8]."""
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
def pivot_block(LT, W, D, first, start, stop, edge, least, wrong) -> None:
    """Eliminate pivots start to stop in columns up to `edge`; D gets what is on the diagonal.

    `least` is the smallest pivot that is right, negative for a multiplier; a wrong one is marked and
    replaced by that.
    """
    for j in range(start, stop):
        for i in range(j, edge):
            total = LT[j, i]
            for m in range(start, j):
                total -= LT[m, j] * W[m, i]
            W[j, i] = total
        d, bound = W[j, j], least[first + j]
        if not (d >= bound if bound > 0.0 else d <= bound):
            wrong[first + j] = True
            d = bound
        D[first + j] = d
        for i in range(j, edge):
            LT[j, i] = W[j, i] / d


@kernel
def pivot_columns(start, stop, LT, W, D, first, begin, end, edge):
    """The rows begin to end of LT and W in tiles of columns, of which the block itself has had `edge`."""
    for t in range(start, stop):
        i = TILE * (edge + t)
        for j in range(begin, end):
            x, y = load(LT, j, i), load(LT, j, i + 4)
            for m in range(begin, j):
                a = LT[m, j]
                x, y = x - a * load(W, m, i), y - a * load(W, m, i + 4)
            store(W, j, i, x)
            store(W, j, i + 4, y)
            scale = 1.0 / D[first + j]
            store(LT, j, i, scale * x)
            store(LT, j, i + 4, scale * y)


@kernel
def pivot_rest(start, stop, LT, W, begin, end, p, width):
    """What pivots begin to end do to the later ones, in tiles of four rows; taken from both ends in turn."""
    tiles = (p - end + 3) // 4
    for t in range(start, stop):
        j = end + 4 * (t // 2 if t % 2 == 0 else tiles - 1 - t // 2)
        for i in range(j // TILE * TILE, width, TILE):
            tile(LT, j, i, LT, j, W, i, begin, end)


@kernel
def update_tiles(start, stop, LT, W, U, p, r):
    """U -= L W on the rows beyond, in tiles of four rows; taken from both ends in turn, for even shares."""
    tiles = (r + 3) // 4
    for begin in range(0, p, DEPTH):
        end = min(begin + DEPTH, p)
        for t in range(start, stop):
            j = 4 * (t // 2 if t % 2 == 0 else tiles - 1 - t // 2)
            for i in range(j // TILE * TILE, r, TILE):
                tile(U, j, i, LT, p + j, W, p + i, begin, end)


@kernel
def clear(start, stop, matrix):
    """Rows of zeros."""
    for j in range(start, stop):
        for i in range(matrix.shape[1]):
            matrix[j, i] = 0.0


@kernel
def add_entries(front, end, sources, targets, data, L) -> None:
    """The entries of the matrix itself."""
    for e in range(front[ENTRIES], end[ENTRIES]):
        L[targets[e]] += data[sources[e]]


@kernel
def add_update(start, stop, child, local, LT, U, p, Uc):
    """Rows start to stop of a child's U, in their places of LT and U; `local` says which."""
    r, rows = child[BEYOND], child[ROWS]
    for a in range(start, min(stop, r)):
        j = local[rows + a]
        if j < p:
            for b in range(a, r):
                LT[j, local[rows + b]] += Uc[a, b]
        else:
            for b in range(a, r):
                U[j - p, local[rows + b] - p] += Uc[a, b]


@kernel
def views(front, L, pool) -> tuple[Array, Array, Array]:
    """LT, U and W of a front."""
    p, r = front[PIVOTS], front[BEYOND]
    width, high, across = padded(p, r), (p + 3) // 4 * 4, wide(r)
    LT = L[front[PLACE] : front[PLACE] + high * width].reshape((high, width))
    U = pool[front[UPDATE] : front[UPDATE] + across * across].reshape((across, across))
    W = pool[front[SCRATCH] : front[SCRATCH] + high * width].reshape((high, width))
    return LT, U, W


@kernel
def factor_trees(start, stop, tree_starts, members, fronts, children, local, sources, targets, least, data,
                 L, D, pool, wrong):  # fmt: skip
    """All the fronts of some subtrees, one after the other."""
    for tree in range(start, stop):
        for k in range(tree_starts[tree], tree_starts[tree + 1]):
            s = members[k]
            front = fronts[s]
            p, r, first = front[PIVOTS], front[BEYOND], front[FIRST]
            LT, U, W = views(front, L, pool)
            clear(0, len(LT), LT)
            clear(0, len(U), U)
            add_entries(front, fronts[s + 1], sources, targets, data, L)
            for c in range(front[CHILDREN], fronts[s + 1][CHILDREN]):
                child = fronts[children[c]]
                add_update(0, child[BEYOND], child, local, LT, U, p, views(child, L, pool)[1])
            width = LT.shape[1]
            for begin in range(0, p, BLOCK):
                end = min(begin + BLOCK, p)
                edge = (end + TILE - 1) // TILE
                pivot_block(LT, W, D, first, begin, end, TILE * edge, least, wrong)
                pivot_columns(0, width // TILE - edge, LT, W, D, first, begin, end, edge)
                pivot_rest(0, (p - end + 3) // 4, LT, W, begin, end, p, width)
            update_tiles(0, (r + 3) // 4, LT, W, U, p, r)


@kernel
def forward(start, stop, fronts, rows, L, D, y) -> None:
    """y = D^-1 L^-1 y, front by front."""
    for s in range(start, stop):
        front = fronts[s]
        p, r, first, width = front[PIVOTS], front[BEYOND], front[FIRST], padded(front[PIVOTS], front[BEYOND])
        for j in range(p):
            value, at = y[first + j], front[PLACE] + j * width
            for i in range(j + 1, p):
                y[first + i] -= L[at + i] * value
            for i in range(r):
                y[rows[front[ROWS] + i]] -= L[at + p + i] * value
        for j in range(p):
            y[first + j] /= D[first + j]


@kernel
def backward(start, stop, fronts, rows, L, y) -> None:
    """y = L^-T y, last front first."""
    for s in range(stop - 1, start - 1, -1):
        front = fronts[s]
        p, r, first, width = front[PIVOTS], front[BEYOND], front[FIRST], padded(front[PIVOTS], front[BEYOND])
        for j in range(p - 1, -1, -1):
            at = front[PLACE] + j * width
            total = y[first + j]
            for i in range(j + 1, p):
                total -= L[at + i] * y[first + i]
            for i in range(r):
                total -= L[at + p + i] * y[rows[front[ROWS] + i]]
            y[first + j] = total
