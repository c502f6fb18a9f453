"""Sparse symmetric systems, definite and with multipliers: L D L^T with everything but the numbers kept.

The unknowns are ordered by nested dissection of the places where they are, and eliminated in dense fronts
on a tree. Pivots keep their places whatever the numbers are, so that the factors show by their signs whether
the matrix is what it should be: positive on the unknowns, negative on the multipliers.
"""

import numpy as np
from numpy.typing import NDArray

from ..checks import Array
from ..compute import run
from ..procrustes.groups import runs
from . import linear_kernels as kernels

__all__ = ["SparseLDL"]

LEAF = 12  # nodes of a part that is not divided further
TREES = 16  # subtrees that are worked off side by side, at most


class SparseLDL:
    """Factors of symmetric matrices of one sparsity.

    `indptr` and `indices` are those of the csr matrix, both triangles. Unknowns belong to nodes, eliminated
    together: `node_of` (n,), ascending; `places` (nodes, 3) are where the nodes are. The last `multipliers`
    nodes are eliminated after all that they are connected to.
    """

    def __init__(
        self,
        indptr: NDArray[np.integer],
        indices: NDArray[np.integer],
        node_of: NDArray[np.int64],
        places: Array,
        *,
        multipliers: int = 0,
    ) -> None:
        count, size = len(places), len(node_of)
        self.size = size
        row_of = np.repeat(np.arange(size), np.diff(indptr))
        links = np.unique(node_of[row_of] * count + node_of[indices])
        first, second = np.divmod(links, count)
        key = _dissected(first, second, places)
        is_multiplier = np.arange(count) >= count - multipliers
        late = key.copy()
        np.maximum.at(late, first, key[second])
        key[is_multiplier] = late[is_multiplier]
        order = np.lexsort((is_multiplier, key))
        position = np.empty(count, np.int64)
        position[order] = np.arange(count)
        part_of = np.unique(key[order], return_inverse=True)[1]  # of each position
        beyond, parents = _structure(part_of, position[first], position[second])

        # From nodes to unknowns.
        sizes = np.bincount(node_of, minlength=count)[order]
        start = np.concatenate([[0], np.cumsum(sizes)])  # of each position among the ordered unknowns
        unknowns = np.argsort(node_of, kind="stable")
        own = np.concatenate([[0], np.cumsum(np.bincount(node_of, minlength=count))])
        self.order: NDArray[np.int64] = unknowns[runs(own[order], sizes)]
        """Unknown of each pivot (n,)."""
        self.is_multiplier: NDArray[np.bool_] = is_multiplier[node_of]
        rows = [runs(start[nodes], sizes[nodes]) for nodes in beyond]
        ends = np.searchsorted(part_of, np.arange(len(beyond) + 1))
        self._lay_out(start[ends], rows, parents)
        self._place_entries(row_of, np.asarray(indices, np.int64))

    def _lay_out(self, bounds: NDArray[np.int64], rows: list[NDArray[np.int64]], parents: list[int]) -> None:
        """Where everything of each front is, in arrays for the kernels."""
        count = len(rows)
        pivots, beyond = np.diff(bounds), np.array([len(each) for each in rows])
        self._fronts = fronts = np.zeros((count + 1, kernels.WIDTH), np.int64)
        fronts[:-1, kernels.PIVOTS], fronts[:-1, kernels.BEYOND] = pivots, beyond
        fronts[:, kernels.FIRST] = bounds
        high, width = (pivots + 3) // 4 * 4, (pivots + beyond + 15) // 8 * 8
        fronts[:, kernels.PLACE] = np.concatenate([[0], np.cumsum(high * width)])
        fronts[:, kernels.ROWS] = np.concatenate([[0], np.cumsum(beyond)])
        self._rows = np.concatenate([*rows, np.empty(0, np.int64)])
        self._local = np.empty(len(self._rows), np.int64)
        for s, parent in enumerate(parents):
            if parent >= 0:
                mine, theirs, first = rows[s], rows[parent], bounds[parent]
                inside = mine < bounds[parent + 1]
                at = np.where(inside, mine - first, pivots[parent] + np.searchsorted(theirs, mine))
                self._local[fronts[s, kernels.ROWS] : fronts[s + 1, kernels.ROWS]] = at
        above = np.array(parents)
        self._children = np.argsort(above, kind="stable")[np.sum(above < 0) :]
        fronts[:-1, kernels.CHILDREN] = np.searchsorted(above[self._children], np.arange(count))
        fronts[-1, kernels.CHILDREN] = len(self._children)

        work = pivots * (pivots + beyond + 8.0) ** 2
        self.work = float(work.sum())
        """Multiplications of a factorisation, about."""
        tree_of = _subtrees(work, parents)
        self._trees = np.flatnonzero(tree_of >= 0)[np.argsort(tree_of[tree_of >= 0], kind="stable")]
        number = int(tree_of.max(initial=-1)) + 1
        self._tree_starts = np.searchsorted(tree_of[self._trees], np.arange(number + 1))
        self._top = np.flatnonzero(tree_of < 0)
        groups = [np.flatnonzero(tree_of == tree) for tree in range(number)] + [self._top]
        # Those at the top need their own scratch space and matrices, besides what subtrees hand over.
        squares, self._pool_size = ((beyond + 7) // 8 * 8) ** 2, 0
        for members in groups:
            if len(members):
                fronts[members, kernels.SCRATCH] = self._pool_size
                self._pool_size += int((high * width)[members].max())
                self._pool_size = _packed(members, squares, parents, fronts, self._pool_size)
        self._D = np.ones(self.size)
        self._L = self._pool = np.empty(0)  # made when they are needed: they are large

    def _place_entries(self, row_of: NDArray[np.int64], column_of: NDArray[np.int64]) -> None:
        """Which entry of the matrix goes where in LT."""
        fronts = self._fronts
        pivot = np.empty(self.size, np.int64)
        pivot[self.order] = np.arange(self.size)
        a, b = pivot[row_of], pivot[column_of]
        kept = np.flatnonzero(a <= b)
        kept = kept[np.argsort(a[kept], kind="stable")]
        a, b = a[kept], b[kept]
        front = np.searchsorted(fronts[:, kernels.FIRST], a, side="right") - 1
        p, first = fronts[front, kernels.PIVOTS], fronts[front, kernels.FIRST]
        # Rows beyond, of all fronts in one ascending list, so that one search finds them all.
        owner = np.repeat(np.arange(len(fronts) - 1), fronts[:-1, kernels.BEYOND])
        found = np.searchsorted(owner * self.size + self._rows, front * self.size + b)
        column = np.where(b < first + p, b - first, p + found - fronts[front, kernels.ROWS])
        width = (p + fronts[front, kernels.BEYOND] + 15) // 8 * 8
        self._targets = fronts[front, kernels.PLACE] + (a - first) * width + column
        self._sources = kept
        fronts[:, kernels.ENTRIES] = np.searchsorted(front, np.arange(len(fronts)))

    def factor(self, data: Array, *, least: Array) -> NDArray[np.bool_]:
        """Factor the csr matrix with such data; returns which unknowns (n,) have pivots of the wrong sign.

        `least` (n,) is the least pivot of each unknown, negative for multipliers: wrong ones become that.
        """
        if len(self._L) == 0:
            self._L, self._pool = np.zeros(self._fronts[-1, kernels.PLACE]), np.zeros(self._pool_size)
        ordered = np.ascontiguousarray(least[self.order])
        wrong = np.zeros(self.size, np.bool_)
        shared = (data, self._L, self._D, self._pool, wrong)
        run(
            kernels.factor_trees, len(self._tree_starts) - 1, 1, self._tree_starts, self._trees, self._fronts,
            self._children, self._local, self._sources, self._targets, ordered, *shared,
        )  # fmt: skip
        for s in self._top:
            self._factor_front(int(s), data, ordered, wrong)
        result = np.empty(self.size, np.bool_)
        result[self.order] = wrong
        return result

    def _factor_front(self, s: int, data: Array, least: Array, wrong: NDArray[np.bool_]) -> None:
        """One large front, its loops shared between threads."""
        front, fronts = self._fronts[s], self._fronts
        p, r, first = (int(front[k]) for k in (kernels.PIVOTS, kernels.BEYOND, kernels.FIRST))
        LT, U, W = kernels.views(front, self._L, self._pool)
        width = LT.shape[1]
        run(kernels.clear, len(LT), _grain(width), LT)
        run(kernels.clear, len(U), _grain(r), U)
        kernels.add_entries(front, fronts[s + 1], self._sources, self._targets, data, self._L)
        for c in range(front[kernels.CHILDREN], fronts[s + 1][kernels.CHILDREN]):
            child = fronts[self._children[c]]
            Uc = kernels.views(child, self._L, self._pool)[1]
            run(kernels.add_update, len(Uc), _grain(len(Uc)), child, self._local, LT, U, p, Uc)
        for begin in range(0, p, kernels.BLOCK):
            end = min(begin + kernels.BLOCK, p)
            edge = -(-end // kernels.TILE)
            kernels.pivot_block(LT, W, self._D, first, begin, end, kernels.TILE * edge, least, wrong)
            last, each = width // kernels.TILE, kernels.TILE * kernels.BLOCK**2 // 2
            run(kernels.pivot_columns, last - edge, _grain(each), LT, W, self._D, first, begin, end, edge)
            each = 4 * kernels.BLOCK * width // 2
            run(kernels.pivot_rest, -(-(p - end) // 4), _grain(each), LT, W, begin, end, p, width)
        run(kernels.update_tiles, -(-r // 4), _grain(2 * p * r), LT, W, U, p, r)

    def solve(self, b: Array) -> Array:
        """x with A x = b (n,), by the last factors."""
        y = b[self.order].astype(np.float64)
        count = len(self._fronts) - 1
        kernels.forward(0, count, self._fronts, self._rows, self._L, self._D, y)
        kernels.backward(0, count, self._fronts, self._rows, self._L, y)
        x = np.empty(self.size)
        x[self.order] = y
        return x

    def weak(self, least: Array) -> int:
        """How many multipliers have pivots above `least` (n,): their equations follow from others."""
        last = self.is_multiplier[self.order]
        return int(np.sum(self._D[last] > least[self.order][last]))


def _grain(each: int) -> int:
    """Items worth a thread, when each takes so many multiplications: a tenth of a millisecond of them."""
    return 1_000_000 // (each + 1) + 1


def _dissected(first: NDArray[np.int64], second: NDArray[np.int64], places: Array) -> NDArray[np.int64]:
    """The part of each node, as numbers whose order is that of elimination.

    Every part is cut in the middle of its longest side, and those of its nodes that touch the other half
    become a part of their own, after both halves. In base 3 the digits of a number tell its way: 0 and 1
    are halves, 2 is what parts them.
    """
    count = len(places)
    key = np.zeros(count, np.int64)
    alive = np.arange(count)
    part = np.zeros(count, np.int64)  # of each node, compact; -1 for those that are settled
    inner = first != second
    first, second = first[inner], second[inner]
    for _ in range(38):  # digits of a 64-bit number
        sizes = np.bincount(part[alive]) if len(alive) else np.zeros(0, np.int64)
        large = sizes > LEAF
        key *= 3
        alive = alive[large[part[alive]]]
        if not len(alive):
            continue
        settled = np.ones(count, np.bool_)
        settled[alive] = False
        part[settled] = -1
        part[alive] = np.unique(part[alive], return_inverse=True)[1]
        upper = _upper_half(places[alive], part[alive])
        side = np.zeros(count, np.int64)
        side[alive] = upper
        together = (part[first] == part[second]) & (part[first] >= 0)
        first, second = first[together], second[together]
        cut = side[first] != side[second]
        touching = np.unique(first[cut])  # both triangles are there: either end comes up
        number = int(part.max()) + 1
        of_side = np.bincount(2 * part[touching] + side[touching], minlength=2 * number).reshape(-1, 2)
        chosen = of_side.argmin(1)
        between = touching[side[touching] == chosen[part[touching]]]
        key[alive] += upper
        key[between] += 2 - side[between]
        part[alive] = 2 * part[alive] + upper
        part[between] = -1
        alive = alive[part[alive] >= 0]
        part[alive] = np.unique(part[alive], return_inverse=True)[1]
    return key


def _upper_half(places: Array, part: NDArray[np.int64]) -> NDArray[np.int64]:
    """1 for the nodes in the upper half of their part along its longest side, else 0.

    Layers of nodes are not torn: the cut goes before or after the one in the middle.
    """
    number = int(part.max()) + 1
    low, high = np.full((number, 3), np.inf), np.full((number, 3), -np.inf)
    np.minimum.at(low, part, places)
    np.maximum.at(high, part, places)
    along = places[np.arange(len(part)), (high - low).argmax(1)[part]]
    order = np.lexsort((along, part))
    sizes = np.bincount(part)
    starts = np.cumsum(sizes) - sizes
    middle = along[order][starts + sizes // 2][part]
    below = np.bincount(part, along < middle)
    up_to = np.bincount(part, along <= middle)
    after = np.abs(up_to - sizes / 2) < np.abs(below - sizes / 2)
    upper = np.where(after[part], along > middle, along >= middle)
    # All in one layer: by number.
    flat = (np.where(after, up_to, below) % sizes == 0)[part]
    rank = np.empty(len(part), np.int64)
    rank[order] = np.arange(len(part)) - starts[part[order]]
    return np.where(flat, rank >= sizes[part] // 2, upper).astype(np.int64)


def _structure(
    part_of: NDArray[np.int64], first: NDArray[np.int64], second: NDArray[np.int64]
) -> tuple[list[NDArray[np.int64]], list[int]]:
    """The positions beyond each part that its elimination touches, and the part that comes next of those."""
    count = int(part_of[-1]) + 1
    later = part_of[second] > part_of[first]
    own_part, own = part_of[first[later]], second[later]
    links = np.unique(own_part * len(part_of) + own)
    starts = np.searchsorted(links, np.arange(count + 1) * len(part_of))
    links %= len(part_of)
    beyond: list[NDArray[np.int64]] = []
    parents: list[int] = []
    children: list[list[int]] = [[] for _ in range(count)]
    for s in range(count):
        passed_on = [beyond[c][part_of[beyond[c]] > s] for c in children[s]]
        rows = np.unique(np.concatenate([links[starts[s] : starts[s + 1]], *passed_on]))
        beyond.append(rows)
        parents.append(int(part_of[rows[0]]) if len(rows) else -1)
        if len(rows):
            children[parents[-1]].append(s)
    return beyond, parents


def _subtrees(work: Array, parents: list[int]) -> NDArray[np.int64]:
    """The subtree of each front, or -1 at the top: none is more than a share of the whole work."""
    total = work.copy()
    for s, parent in enumerate(parents):
        if parent >= 0:
            total[parent] += total[s]
    # Below that, threads cost more than they bring.
    limit = work.sum() / TREES if work.sum() > 1e8 else np.inf
    tree = np.full(len(parents), -1)
    number = 0
    for s in range(len(parents) - 1, -1, -1):
        parent = parents[s]
        if parent >= 0 and tree[parent] >= 0:
            tree[s] = tree[parent]
        elif total[s] <= limit:
            tree[s] = number
            number += 1
    return tree


def _packed(members: NDArray[np.int64], squares: Array, parents: list[int], fronts: Array, base: int) -> int:
    """Places for the matrices U of some fronts, each given up when its parent is done; returns their end."""
    inside = set(members.tolist())
    holes: list[list[int]] = []  # [start, size]
    end = base
    held: dict[int, list[tuple[int, int]]] = {}
    for s in members.tolist():
        need = int(squares[s])
        for hole in holes:
            if hole[1] >= need:
                place = hole[0]
                hole[0] += need
                hole[1] -= need
                break
        else:
            place, end = end, end + need
        fronts[s, kernels.UPDATE] = place
        holes += [[start, size] for start, size in held.pop(s, [])]
        if parents[s] in inside:
            held.setdefault(parents[s], []).append((place, need))
    return end
