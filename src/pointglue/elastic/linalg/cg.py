"""Preconditioned conjugate gradients, for systems so large that factors would take longer."""

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute import run
from ...procrustes.groups import bisect_points, runs
from .kernels import blocks as block_kernels
from .kernels import cg as kernels
from .kernels.blocks import BlockSums
from .ldl import PIVOT_ROUNDING, SparseLDL

__all__ = ["ConjugateGradients", "IndefiniteError", "near_groups"]

GROUP_SIZE = 64  # most nodes of a group: half or twice as many take much the same time


class IndefiniteError(ArithmeticError):
    """The matrix is not positive definite."""


def near_groups(positions: Array) -> list[NDArray[np.int64]]:
    """Return groups of at most 64 near nodes, by their positions (m, 3) [m]."""
    return bisect_points(positions, GROUP_SIZE)


class ConjugateGradients:
    """A solver of symmetric systems of one sparsity, csr matrices of 3 x 3 blocks.

    The preconditioner has two levels: the inverses of the diagonal blocks, and a coarse system in which
    groups of near nodes move as one, so that the number of iterations does not grow with that of nodes.

    Parameters
    ----------
    indptr : (3 n + 1,)
        Where the rows of the csr matrix begin.
    indices : (nnz,)
        The columns of the csr matrix.
    diagonal : (n, 3, 3)
        Where the diagonal blocks are in the data.
    positions : (m, 3)
        Where the first m nodes are [m].
    groups : list of arrays
        The groups of nodes that move as one in the coarse system, such as those of `near_groups`; what
        belongs to none does not move there.
    """

    def __init__(
        self,
        indptr: NDArray[np.integer],
        indices: NDArray[np.integer],
        diagonal: NDArray[np.int64],
        positions: Array,
        groups: list[NDArray[np.int64]],
    ) -> None:
        self._indptr, self._indices, self._diagonal = indptr, indices, diagonal
        count = len(groups)
        sizes = np.array([len(group) for group in groups], np.int64)
        self._members = np.concatenate([*groups, np.empty(0, np.int64)])
        self._bounds = np.concatenate([[0], np.cumsum(sizes)])
        self._group_of = np.full(len(diagonal), count)  # the last one, of no group, does not move
        self._group_of[self._members] = np.repeat(np.arange(count), sizes)
        self._sum_blocks(count)
        centroids = np.array([positions[group].mean(0) for group in groups]).reshape(count, 3)
        self._ldl = SparseLDL(
            self._coarse_indptr, self._coarse_indices, np.repeat(np.arange(count), 3), centroids
        )

    def _sum_blocks(self, count: int) -> None:
        """Set the sparsity of the coarse matrix, and which blocks are summed to each of its own."""
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
        self._sums = BlockSums(
            starts=np.concatenate([[0], np.cumsum(uses)]),
            sources=sources[order],
            widths=np.repeat(widths, widths // 3)[order],
            targets=targets,
            strides=strides,
        )
        axis = np.arange(3)
        self._coarse_indptr = np.concatenate([[0], np.cumsum(np.repeat(3 * per_row, 3))])
        self._coarse_indices = np.empty(9 * len(blocks), np.int64)
        where = targets[:, None, None] + axis[:, None] * strides[:, None, None] + axis
        self._coarse_indices[where] = (3 * of_column[:, None] + axis)[:, None, :]
        own = np.searchsorted(blocks, np.arange(count) * (count + 1))
        self._coarse_diagonal = (targets[own, None] + axis * (strides[own, None] + 1)).ravel()

    def _factor(self, data: Array) -> None:
        """Factor the coarse matrix."""
        coarse = np.zeros(len(self._coarse_indices))
        run(block_kernels.add_blocks, len(self._sums.targets), 512, 3, data, self._sums, coarse)
        least = np.maximum(PIVOT_ROUNDING * np.abs(coarse[self._coarse_diagonal]), 1e-300)
        if self._ldl.factor(coarse, least=least).any():
            raise IndefiniteError

    def _correct(self, r: Array, moves: Array) -> float:
        """Fill in the coarse correction of the residual r (groups + 1, 3); return its product with r."""
        count = len(moves) - 1
        sums = np.empty((count, 3))
        run(block_kernels.gather, count, 256, self._bounds, self._members, r.reshape(-1, 3), sums)
        moves[:count] = self._ldl.solve(sums.ravel()).reshape(-1, 3)
        return float(np.sum(sums * moves[:count]))

    def solve(self, data: Array, b: Array, *, tolerance: float, iterations: int) -> Array | None:
        """Return x with A x = b, or None if that takes too many iterations.

        Parameters
        ----------
        data : (nnz,)
            The data of the csr matrix A.
        b : (3 n,)
            The right-hand side.
        tolerance : float
            The error of x relative to x, about, in the norm of A [1].
        iterations : int
            The most iterations.

        Returns
        -------
        (3 n,) or None

        Raises
        ------
        IndefiniteError
            If the matrix is found not to be positive definite.
        """
        count = len(self._diagonal)
        chunks = -(-count // kernels.CHUNK)
        inverses = np.empty((count, 3, 3))
        run(kernels.invert_blocks, count, 4096, np.ascontiguousarray(data[self._diagonal]), inverses)
        self._factor(data)
        matrix = kernels.BlockMatrix(self._indptr, self._indices, data)
        vectors = kernels.Iterates(
            x=np.zeros_like(b), r=b.copy(), z=np.empty_like(b), p=np.zeros_like(b), q=np.zeros_like(b)
        )
        moves, sums = np.zeros((len(self._bounds), 3)), np.empty(chunks)
        run(kernels.advance, chunks, 8, 0.0, inverses, vectors, sums)
        size = first = float(sums.sum()) + self._correct(vectors.r, moves)
        run(kernels.turn, chunks, 8, 0.0, self._group_of, moves, vectors)
        for _ in range(iterations):
            if not size > tolerance**2 * first:
                return vectors.x
            run(kernels.multiply, chunks, 2, matrix, vectors, sums)
            curvature = float(sums.sum())
            if not curvature > 0:
                raise IndefiniteError
            run(kernels.advance, chunks, 8, size / curvature, inverses, vectors, sums)
            before, size = size, float(sums.sum()) + self._correct(vectors.r, moves)
            run(kernels.turn, chunks, 8, size / before, self._group_of, moves, vectors)
        return None
