"""Sparse symmetric systems, definite or with multipliers: L D L^T of many matrices of one sparsity.

The unknowns are ordered by nested dissection along their positions, and eliminated in dense fronts on a tree.
Pivots keep their order whatever the numbers are, so that their signs show whether the matrix is what it
should be: positive on the unknowns, negative on the multipliers.
"""

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute import run, thread_count
from ...errors import InputError
from ...procrustes.groups import runs
from .kernels import ldl as kernels
from .kernels.ldl import Factors, FrontTree, Subtrees
from .kernels.ordering import sorted_by
from .ordering import Ordering

__all__ = ["PIVOT_ROUNDING", "SparseLDL"]

PIVOT_ROUNDING = 1e-14  # ratio of its diagonal entry: a pivot that has lost all but this is not positive
MAX_SUBTREES = 16  # most subtrees that are factored side by side
MIN_PARALLEL_WORK = 1e8  # multiplications of a factorisation below which threads cost more than they bring
THREAD_WORK = 1_000_000  # multiplications worth a thread: a tenth of a millisecond of them


class SparseLDL:
    """Factors of symmetric matrices of one sparsity.

    Parameters
    ----------
    indptr, indices
        The sparsity of the csr matrix, both triangles.
    node_of : (n,)
        The node of each unknown, ascending; the unknowns of a node are eliminated together.
    positions : (nodes, k)
        Coordinates by which nodes that are connected are near each other: where they are, or where they
        were at rest and where they are now, side by side.
    multipliers : int
        How many of the last nodes are eliminated after all that they are connected to.
    reuse : SparseLDL, optional
        Factors that are needed no more. Their memory is taken over, since new memory costs as much time as
        a factorisation.

    Raises
    ------
    InputError
        If `node_of` does not ascend.
    """

    def __init__(
        self,
        indptr: NDArray[np.integer],
        indices: NDArray[np.integer],
        node_of: NDArray[np.int64],
        positions: Array,
        *,
        multipliers: int = 0,
        reuse: "SparseLDL | None" = None,
    ) -> None:
        count, size = len(positions), len(node_of)
        if (np.diff(node_of) < 0).any():
            raise InputError("node_of must ascend: the unknowns of a node follow each other")
        self.size = size
        parts = Ordering.of(indptr, indices, node_of, positions, multipliers=multipliers)
        # From nodes to unknowns.
        sizes = np.bincount(node_of, minlength=count)
        own, ordered = _ends(sizes), sizes[parts.nodes]
        start = _ends(ordered)
        self.order: NDArray[np.int64] = runs(own[parts.nodes], ordered)
        """The unknown of each pivot (n,)."""
        self.is_multiplier: NDArray[np.bool_] = node_of >= count - multipliers
        self._rows = runs(start[parts.rows], ordered[parts.rows])
        bounds, row_starts = start[parts.bounds], _ends(ordered[parts.rows])[parts.starts]
        self._lay_out(bounds, row_starts, parts.parents)
        self._L = self._pool = np.empty(0)  # allocated when they are needed, since they are large
        self._factored = False
        if reuse is not None:
            self._L, self._pool = reuse._L, reuse._pool
            reuse._L = reuse._pool = np.empty(0)
            reuse._factored = False
        entries = kernels.place_entries(self._fronts, self._rows, self.order, indptr, indices)
        self._tree = FrontTree(self._fronts, self._children, self._parent_rows, *entries)

    def _lay_out(
        self, bounds: NDArray[np.int64], row_starts: NDArray[np.int64], parents: NDArray[np.int64]
    ) -> None:
        """Set where everything of each front is, in arrays for the kernels."""
        pivots, updates = np.diff(bounds), np.diff(row_starts)
        self._fronts = fronts = np.zeros((len(bounds), kernels.COLUMNS), np.int64)
        fronts[:-1, kernels.PIVOTS], fronts[:-1, kernels.UPDATE_ROWS] = pivots, updates
        fronts[:, kernels.FIRST_PIVOT], fronts[:, kernels.ROW_START] = bounds, row_starts
        areas = (pivots + 3) // 4 * 4 * ((pivots + updates + 15) // 8 * 8)
        self._widest = int((pivots + updates).max(initial=0))
        fronts[:, kernels.FACTOR_START] = _ends(areas)
        self._parent_rows = kernels.rows_in_parents(row_starts, self._rows, bounds, parents)
        children = np.argsort(parents, kind="stable")
        roots = int(np.sum(parents < 0))
        self._children = children[roots:]
        fronts[:, kernels.CHILD_START] = np.searchsorted(parents[self._children], np.arange(len(fronts)))

        work = pivots * (pivots + updates + 8.0) ** 2
        self.work = float(work.sum())
        """About how many multiplications a factorisation takes."""
        # One thread takes all fronts as one tree, with the same numbers to the last bit.
        shared = self.work > MIN_PARALLEL_WORK and thread_count() > 1
        limit = self.work / MAX_SUBTREES if shared else np.inf
        tree_of, number = kernels.subtrees(work, parents, limit)
        tree_starts, members = sorted_by(tree_of, number + 1, np.arange(len(parents)))
        self._subtrees = Subtrees(tree_starts[:-1], members[: tree_starts[-2]])
        self._top = members[tree_starts[-2] :]
        self._pool_size = kernels.share_pool(fronts, self._children, parents, tree_of, number, areas)
        self._D = np.ones(self.size)

    def factor(self, data: Array, *, least: Array) -> NDArray[np.bool_]:
        """Factor the csr matrix with such data; return which unknowns have pivots of the wrong sign.

        Parameters
        ----------
        data : (nnz,)
            The data of the csr matrix.
        least : (n,)
            The least pivot of each unknown, negative for multipliers, by which a wrong pivot is replaced.

        Returns
        -------
        (n,)
            Which unknowns have wrong pivots.
        """
        self._L = _room(self._L, int(self._fronts[-1, kernels.FACTOR_START]))
        self._pool = _room(self._pool, self._pool_size)
        ordered = np.ascontiguousarray(least[self.order])
        factors = Factors(self._L, self._D, self._pool, ordered, np.zeros(self.size, np.bool_))
        trees = len(self._subtrees.starts) - 1
        run(kernels.factor_trees, trees, 1, self._subtrees, self._tree, data, factors)
        for s in self._top:
            self._factor_front(int(s), data, factors)
        self._factored = True
        result = np.empty(self.size, np.bool_)
        result[self.order] = factors.wrong
        return result

    def _factor_front(self, s: int, data: Array, factors: Factors) -> None:
        """Factor one large front, its loops shared between threads."""
        tree, fronts = self._tree, self._fronts
        front = fronts[s]
        p, r, first = (int(front[k]) for k in (kernels.PIVOTS, kernels.UPDATE_ROWS, kernels.FIRST_PIVOT))
        LT, U, W = kernels.views(front, self._L, self._pool)
        width = LT.shape[1]
        run(kernels.clear, len(LT), _grain(width), LT)
        run(kernels.clear, len(U), _grain(r), U)
        kernels.add_entries(front, fronts[s + 1], tree.sources, tree.targets, data, self._L)
        for c in range(front[kernels.CHILD_START], fronts[s + 1][kernels.CHILD_START]):
            child = fronts[tree.children[c]]
            Uc = kernels.views(child, self._L, self._pool)[1]
            run(kernels.add_update, len(Uc), _grain(len(Uc)), child, tree.parent_rows, LT, U, p, Uc)
        own = slice(first, first + p)
        D, least, wrong = factors.D[own], factors.least[own], factors.wrong[own]
        for begin in range(0, p, kernels.BLOCK):
            end = min(begin + kernels.BLOCK, p)
            edge = -(-end // kernels.TILE)
            kernels.pivot_block(LT, W, D, begin, end, kernels.TILE * edge, least, wrong)
            last, each = width // kernels.TILE, kernels.TILE * kernels.BLOCK**2 // 2
            run(kernels.pivot_columns, last - edge, _grain(each), LT, W, D, begin, end, edge)
            each = 4 * kernels.BLOCK * width // 2
            run(kernels.pivot_rest, -(-(p - end) // 4), _grain(each), LT, W, begin, end, p, width)
        run(kernels.update_tiles, -(-r // 4), _grain(2 * p * r), LT, W, U, p, r)

    def solve(self, b: Array) -> Array:
        """Return x (n,) with A x = b (n,), by the last factors."""
        if not self._factored:
            raise InputError("there are no factors to solve by: call factor first")
        y = b[self.order].astype(np.float64)
        room = np.empty((1, self._widest))
        kernels.forward(self._fronts, self._rows, self._L, self._D, y, room)
        kernels.backward(self._fronts, self._rows, self._L, y, room)
        x = np.empty(self.size)
        x[self.order] = y
        return x

    def weak(self, least: Array) -> int:
        """Return how many multipliers have pivots above `least` (n,): their equations follow from others."""
        last = self.is_multiplier[self.order]
        return int(np.sum(self._D[last] > least[self.order][last]))


def _grain(each: int) -> int:
    """Return how many items are worth a thread, when each takes that many multiplications."""
    return THREAD_WORK // (each + 1) + 1


def _room(held: Array, size: int) -> Array:
    """Return an array of at least that size: the one held, or a new one with room for a little growth."""
    return held if len(held) >= size else np.empty(size + size // 4)


def _ends(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each of some runs begins, and the end of the last."""
    return np.concatenate([[0], np.cumsum(sizes)])
