"""Sparse symmetric systems, definite and with multipliers: L D L^T with everything but the numbers kept.

The unknowns are ordered by nested dissection along the places where they are, and eliminated in dense fronts
on a tree. Pivots keep their places whatever the numbers are, so that the factors show by their signs whether
the matrix is what it should be: positive on the unknowns, negative on the multipliers.
"""

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute import run
from ...errors import InputError
from ...procrustes.groups import runs
from .kernels import ldl as kernels
from .kernels.ordering import sorted_by
from .ordering import Ordering

__all__ = ["SparseLDL"]

TREES = 16  # subtrees that are worked off side by side, at most


class SparseLDL:
    """Factors of symmetric matrices of one sparsity.

    `indptr` and `indices` are those of the csr matrix, both triangles. Unknowns belong to nodes, eliminated
    together: `node_of` (n,), ascending. `places` (nodes, k) are coordinates by which nodes that are connected
    are near each other: where they are, or where they were at rest and where they are now, side by side. The
    last `multipliers` nodes are eliminated after all that they are connected to.

    `reuse` is one that is needed no more: its memory is taken over, since new memory costs as much time as
    the factors do.
    """

    def __init__(
        self,
        indptr: NDArray[np.integer],
        indices: NDArray[np.integer],
        node_of: NDArray[np.int64],
        places: Array,
        *,
        multipliers: int = 0,
        reuse: "SparseLDL | None" = None,
    ) -> None:
        count, size = len(places), len(node_of)
        self.size = size
        parts = Ordering.of(indptr, indices, node_of, places, multipliers=multipliers)
        # From nodes to unknowns.
        sizes = np.bincount(node_of, minlength=count)
        own, ordered = _ends(sizes), sizes[parts.nodes]
        start = _ends(ordered)
        self.order: NDArray[np.int64] = runs(own[parts.nodes], ordered)
        """Unknown of each pivot (n,)."""
        self.is_multiplier: NDArray[np.bool_] = node_of >= count - multipliers
        self._rows = runs(start[parts.rows], ordered[parts.rows])
        bounds, row_starts = start[parts.bounds], _ends(ordered[parts.rows])[parts.starts]
        self._lay_out(bounds, row_starts, parts.parents)
        self._L = self._pool = np.empty(0)  # made when they are needed: they are large
        self._factored = False
        if reuse is not None:
            self._L, self._pool = reuse._L, reuse._pool
            reuse._L = reuse._pool = np.empty(0)
            reuse._factored = False
        self._sources, self._targets = kernels.place_entries(
            self._fronts, self._rows, self.order, indptr, indices
        )

    def _lay_out(
        self, bounds: NDArray[np.int64], row_starts: NDArray[np.int64], parents: NDArray[np.int64]
    ) -> None:
        """Where everything of each front is, in arrays for the kernels."""
        pivots, beyond = np.diff(bounds), np.diff(row_starts)
        self._fronts = fronts = np.zeros((len(bounds), kernels.WIDTH), np.int64)
        fronts[:-1, kernels.PIVOTS], fronts[:-1, kernels.BEYOND] = pivots, beyond
        fronts[:, kernels.FIRST], fronts[:, kernels.ROWS] = bounds, row_starts
        areas = (pivots + 3) // 4 * 4 * ((pivots + beyond + 15) // 8 * 8)
        fronts[:, kernels.PLACE] = _ends(areas)
        self._local = kernels.places_above(row_starts, self._rows, bounds, parents)
        children = np.argsort(parents, kind="stable")
        roots = int(np.sum(parents < 0))
        self._children = children[roots:]
        fronts[:, kernels.CHILDREN] = np.searchsorted(parents[self._children], np.arange(len(fronts)))

        work = pivots * (pivots + beyond + 8.0) ** 2
        self.work = float(work.sum())
        """Multiplications of a factorisation, about."""
        # Below that, threads cost more than they bring.
        limit = self.work / TREES if self.work > 1e8 else np.inf
        tree_of, number = kernels.subtrees(work, parents, limit)
        self._tree_starts, members = sorted_by(tree_of, number + 1, np.arange(len(parents)))
        self._trees, self._top = members[: self._tree_starts[-2]], members[self._tree_starts[-2] :]
        self._tree_starts = self._tree_starts[:-1]
        self._pool_size = kernels.share_pool(fronts, self._children, parents, tree_of, number, areas)
        self._D = np.ones(self.size)

    def factor(self, data: Array, *, least: Array) -> NDArray[np.bool_]:
        """Factor the csr matrix with such data; returns which unknowns (n,) have pivots of the wrong sign.

        `least` (n,) is the least pivot of each unknown, negative for multipliers: wrong ones become that.
        """
        self._L = _room(self._L, int(self._fronts[-1, kernels.PLACE]))
        self._pool = _room(self._pool, self._pool_size)
        ordered = np.ascontiguousarray(least[self.order])
        wrong = np.zeros(self.size, np.bool_)
        shared = (data, self._L, self._D, self._pool, wrong)
        run(
            kernels.factor_trees, len(self._tree_starts) - 1, 1, self._tree_starts, self._trees, self._fronts,
            self._children, self._local, self._sources, self._targets, ordered, *shared,
        )  # fmt: skip
        for s in self._top:
            self._factor_front(int(s), data, ordered, wrong)
        self._factored = True
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
        if not self._factored:
            raise InputError("there are no factors to solve by: call factor first")
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


def _room(held: Array, size: int) -> Array:
    """An array of at least that size: the one that is there, or one with room for a little growth."""
    return held if len(held) >= size else np.empty(size + size // 4)


def _ends(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each of some runs begins, and the end of the last."""
    return np.concatenate([[0], np.cumsum(sizes)])
