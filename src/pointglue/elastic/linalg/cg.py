"""Conjugate gradients, for systems so large that factors would take longer."""

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute import run
from ...procrustes.groups import runs
from .kernels import blocks as block_kernels
from .kernels import cg as kernels
from .ldl import SparseLDL

__all__ = ["ConjugateGradients", "IndefiniteError"]

TOGETHER = 64  # nodes of a group, at most: half of it to twice take much the same time
ROUNDING = 1e-14  # of its diagonal entry: a pivot that has lost all but this is not positive


class IndefiniteError(ArithmeticError):
    """The matrix has been found not to be positive definite."""


class ConjugateGradients:
    """Solves symmetric systems of one sparsity, csr matrices of 3 x 3 blocks.

    `diagonal` (nodes, 3, 3) says where the blocks of the diagonal are in the data. `places` (m, 3) are where
    the first m nodes are. Residuals are multiplied by the inverses of the diagonal blocks, and solved for on
    groups of near nodes that move as one: so the number of iterations does not grow with that of nodes.
    """

    def __init__(
        self,
        indptr: NDArray[np.integer],
        indices: NDArray[np.integer],
        diagonal: NDArray[np.int64],
        places: Array,
    ) -> None:
        self._indptr, self._indices, self._diagonal = indptr, indices, diagonal
        groups = _groups(places)
        count = len(groups)
        sizes = np.array([len(group) for group in groups], np.int64)
        self._members = np.concatenate([*groups, np.empty(0, np.int64)])
        self._bounds = np.concatenate([[0], np.cumsum(sizes)])
        self._group_of = np.full(len(diagonal), count)  # the last is of no group, and stays
        self._group_of[self._members] = np.repeat(np.arange(count), sizes)
        self._sum_blocks(count)
        centres = np.array([places[group].mean(0) for group in groups]).reshape(count, 3)
        self._ldl = SparseLDL(
            self._coarse_indptr, self._coarse_indices, np.repeat(np.arange(count), 3), centres
        )

    def _sum_blocks(self, count: int) -> None:
        """Sparsity of the matrix by groups, and which blocks are summed to its own."""
        starts = self._indptr[:-1:3].astype(np.int64)
        widths = np.diff(self._indptr)[::3].astype(np.int64)
        sources = runs(starts, widths)[::3]
        row = np.repeat(self._group_of, widths // 3)
        column = self._group_of[self._indices[sources] // 3]
        inside = np.flatnonzero((row < count) & (column < count))
        key = row[inside] * count + column[inside]
        blocks, uses = np.unique(key, return_counts=True)
        order = inside[np.argsort(key, kind="stable")]
        of_row, of_column = np.divmod(blocks, max(count, 1))
        per_row = np.bincount(of_row, minlength=count)
        first = np.cumsum(per_row) - per_row
        strides = 3 * per_row[of_row]
        targets = 9 * first[of_row] + 3 * (np.arange(len(blocks)) - first[of_row])
        self._sums = (
            sources[order], np.repeat(widths, widths // 3)[order],
            np.concatenate([[0], np.cumsum(uses)]), targets, strides,
        )  # fmt: skip
        axis = np.arange(3)
        self._coarse_indptr = np.concatenate([[0], np.cumsum(np.repeat(3 * per_row, 3))])
        self._coarse_indices = np.empty(9 * len(blocks), np.int64)
        where = targets[:, None, None] + axis[:, None] * strides[:, None, None] + axis
        self._coarse_indices[where] = (3 * of_column[:, None] + axis)[:, None, :]
        own = np.searchsorted(blocks, np.arange(count) * (count + 1))
        self._coarse_diagonal = (targets[own, None] + axis * (strides[own, None] + 1)).ravel()

    def _factor(self, data: Array) -> None:
        """Factor the matrix by groups."""
        coarse = np.zeros(len(self._coarse_indices))
        run(block_kernels.add_blocks, len(self._sums[-1]), 512, 3, data, *self._sums, coarse)
        least = np.maximum(ROUNDING * np.abs(coarse[self._coarse_diagonal]), 1e-300)
        if self._ldl.factor(coarse, least=least).any():
            raise IndefiniteError

    def _by_groups(self, r: Array, moves: Array) -> float:
        """Fill in how the groups move (groups + 1, 3) by the residual r; returns its product with that."""
        count = len(moves) - 1
        sums = np.empty((count, 3))
        run(block_kernels.gather, count, 256, self._bounds, self._members, r.reshape(-1, 3), sums)
        moves[:count] = self._ldl.solve(sums.ravel()).reshape(-1, 3)
        return float(np.sum(sums * moves[:count]))

    def solve(self, data: Array, b: Array, *, tolerance: float, iterations: int) -> Array | None:
        """x with A x = b to a `tolerance` in A's own norm, about; None if that takes too many iterations."""
        count = len(self._diagonal)
        chunks = -(-count // kernels.CHUNK)
        inverses = np.empty((count, 3, 3))
        run(kernels.invert_blocks, count, 4096, np.ascontiguousarray(data[self._diagonal]), inverses)
        self._factor(data)
        x, r, p, q, z = np.zeros_like(b), b.copy(), np.zeros_like(b), np.zeros_like(b), np.empty_like(b)
        moves, sums = np.zeros((len(self._bounds), 3)), np.empty(chunks)
        run(kernels.advance, chunks, 8, count, 0.0, inverses, p, q, x, r, z, sums)
        size = first = float(sums.sum()) + self._by_groups(r, moves)
        run(kernels.turn, chunks, 8, count, 0.0, z, self._group_of, moves, p)
        for _ in range(iterations):
            if not size > tolerance**2 * first:
                return x
            run(kernels.multiply, chunks, 2, count, self._indptr, self._indices, data, p, q, sums)
            curvature = float(sums.sum())
            if not curvature > 0:
                raise IndefiniteError
            run(kernels.advance, chunks, 8, count, size / curvature, inverses, p, q, x, r, z, sums)
            before, size = size, float(sums.sum()) + self._by_groups(r, moves)
            run(kernels.turn, chunks, 8, count, size / before, z, self._group_of, moves, p)
        return None


def _groups(places: Array) -> list[NDArray[np.int64]]:
    """Nodes of near places, by halving the longest side again and again."""
    done, todo = [], [np.arange(len(places))] if len(places) else []
    while todo:
        part = todo.pop()
        if len(part) <= TOGETHER:
            done.append(part)
            continue
        axis = int(np.ptp(places[part], axis=0).argmax())
        part = part[np.argsort(places[part, axis], kind="stable")]
        todo += [part[: len(part) // 2], part[len(part) // 2 :]]
    return done
