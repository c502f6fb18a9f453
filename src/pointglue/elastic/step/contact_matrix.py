"""A sparse matrix over the nodes with room for further blocks between particles, which come and go."""

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute import run
from ...errors import InputError
from ..linalg.kernels.ordering import sorted_by
from ..model.dofs import Freedom, Projection
from . import kernels

__all__ = ["Extended"]

GRAIN = 2048  # rows worth a thread of their own


class Extended:
    """The layout of `base` with room for J_r^T B J_c, blocks B between particles r of `rows`, c of `columns`.

    Both are (K,), and pairs may come up more than once. For a symmetric matrix they hold (r, c) and (c, r).
    Built in time that is linear in the size of both, since contact changes it many times a step. Rows and
    columns of the base beyond the nodes, those of multipliers, stay what they are.
    """

    indptr: NDArray[np.int64]
    """Of the csr matrix."""
    indices: NDArray[np.int64]
    """Of the csr matrix, ascending within each row."""
    diagonal: NDArray[np.int64]
    """Where the diagonal blocks are in the data (nodes, 3, 3)."""
    extra: NDArray[np.int64]
    """Where the extra entries of the base are in the data."""

    def __init__(
        self, base: Projection, freedom: Freedom, rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> None:
        self.size, self._freedom, count = base.size, freedom, len(freedom)
        starts, base_columns = kernels.node_columns(base.indptr, base.indices, count)
        links = self._links(rows, columns)
        self._starts, self._columns, slots = kernels.unite(starts, base_columns, links)
        self.indptr, self.indices = kernels.extend(
            self._starts, self._columns, base.indptr, base.indices, starts
        )
        self._base = (base.indptr, starts, slots)
        own = slots[base_columns == np.repeat(np.arange(count), np.diff(starts))]
        begin = self.indptr[: 3 * count].reshape(count, 3) + 3 * own[:, None]
        self.diagonal = begin[:, :, None] + np.arange(3)
        row = np.searchsorted(base.indptr, base.extra, side="right")  # the one after
        self.extra = base.extra + (self.indptr - base.indptr)[row]

    def _links(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
        freedom = self._freedom
        dependence = (freedom.node_of, freedom.first_of, freedom.size_of, freedom.block_nodes)
        return kernels.expand(np.asarray(rows, np.int64), np.asarray(columns, np.int64), *dependence)

    def covers(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> bool:
        """Whether there is room for blocks between such particles (K,)."""
        return bool((kernels.locate(self._links(rows, columns), self._starts, self._columns) >= 0).all())

    def apply(
        self,
        data: Array,
        derivatives: Array,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        blocks: Array,
    ) -> Array:
        """Data of the csr matrix: the base's `data`, and `blocks` (K, 3, 3) between particles (K,).

        `derivatives` are those of `Freedom.blocks`. Not all pairs that there is room for need to come up.
        Blocks of one place are summed up in their order, whatever the number of threads.
        """
        links = self._links(rows, columns)
        slots = kernels.locate(links, self._starts, self._columns)
        if (slots < 0).any():
            k = links[kernels.BLOCK, slots.argmin()]
            raise InputError(f"there is no room for a block between particles {rows[k]} and {columns[k]}")
        out = np.zeros(len(self.indices))
        run(kernels.carry, self.size, 3 * GRAIN, *self._base, self.indptr, data, out)
        count = len(self._starts) - 1
        begins, order = sorted_by(links[kernels.ROW], count, np.arange(len(slots)))
        run(
            kernels.add_links, count, GRAIN, begins, order, links, slots, derivatives,
            np.ascontiguousarray(blocks, np.float64), self.indptr, out,
        )  # fmt: skip
        return out
