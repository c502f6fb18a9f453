"""A sparse matrix over the degrees of freedom with room for blocks of contact, which come and go."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute import run
from ...errors import InputError
from ..linalg.kernels.ordering import sorted_by
from ..model.dofs import DegreesOfFreedom, DofMatrix
from . import kernels
from .kernels import BaseRows, BlockLinks, RowLinks

__all__ = ["ContactMatrix", "LocatedBlocks"]

GRAIN = 2048  # rows of blocks worth a thread of their own


@dataclass(frozen=True, eq=False)
class LocatedBlocks:
    """Where blocks between particles go in a matrix over the degrees of freedom.

    Parameters
    ----------
    links : BlockLinks
        What the blocks become between nodes.
    slots : (L,)
        Where the block of each link is among those of its row, or -1 where there is no room for it.
    """

    links: BlockLinks
    slots: NDArray[np.int64]

    @property
    def fits(self) -> bool:
        """Whether there is room for all of them."""
        return bool((self.slots >= 0).all())


class ContactMatrix:
    """The layout of a base matrix with room for J_r^T B J_c, blocks B between particles r and c.

    It is built in time linear in the size of both, since contact changes it many times a step. Rows and
    columns of the base beyond the nodes', those of multipliers, stay what they are.

    Parameters
    ----------
    base : DofMatrix
        The matrix without contact.
    dofs : DegreesOfFreedom
        Its degrees of freedom.
    rows, columns : (K,)
        The particles r and c of the blocks. Pairs may repeat; for a symmetric matrix they hold (r, c) and
        (c, r).
    """

    indptr: NDArray[np.int64]
    """Where the rows of the csr matrix begin."""
    indices: NDArray[np.int64]
    """The columns of the csr matrix, ascending within each row."""
    diagonal: NDArray[np.int64]
    """Where the diagonal blocks are in the data (nodes, 3, 3)."""
    extra: NDArray[np.int64]
    """Where the extra entries of the base are in the data."""

    def __init__(
        self, base: DofMatrix, dofs: DegreesOfFreedom, rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> None:
        self.size, self._dofs, count = base.size, dofs, len(dofs)
        starts, base_columns = kernels.node_columns(base.indptr, base.indices, count)
        links = self._links(rows, columns)
        self._starts, self._columns, slots = kernels.unite(starts, base_columns, links)
        self.indptr, self.indices = kernels.extend(
            self._starts, self._columns, base.indptr, base.indices, starts
        )
        self._base = BaseRows(base.indptr, starts, slots)
        own = slots[base_columns == np.repeat(np.arange(count), np.diff(starts))]
        begin = self.indptr[: 3 * count].reshape(count, 3) + 3 * own[:, None]
        self.diagonal = begin[:, :, None] + np.arange(3)
        row = np.searchsorted(base.indptr, base.extra, side="right")  # the one after
        self.extra = base.extra + (self.indptr - base.indptr)[row]

    def _links(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> BlockLinks:
        """Return what blocks between particles become between nodes."""
        return kernels.expand(
            np.asarray(rows, np.int64), np.asarray(columns, np.int64), self._dofs.dependence
        )

    def locate(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> LocatedBlocks:
        """Return where blocks between such particles (K,) go, as far as there is room for them."""
        links = self._links(rows, columns)
        return LocatedBlocks(links, kernels.locate(links, self._starts, self._columns))

    def add_blocks(self, data: Array, derivatives: Array, located: LocatedBlocks, blocks: Array) -> Array:
        """Return the data of the csr matrix: those of the base, and blocks between particles.

        Blocks of one entry are summed up in their order, whatever the number of threads.

        Parameters
        ----------
        data : (nnz,)
            The data of the base.
        derivatives : (D, 3, 3)
            The Jacobian blocks, see `DegreesOfFreedom.blocks`.
        located : LocatedBlocks
            Where the blocks go; they need not be all that there is room for.
        blocks : (K, 3, 3)
            The blocks.

        Returns
        -------
        (n,)

        Raises
        ------
        InputError
            If there is no room for a block.
        """
        links, slots = located.links, located.slots
        if not located.fits:
            e = slots.argmin()
            raise InputError(
                f"there is no room for a block between nodes {links.row[e]} and {links.column[e]}"
            )
        out = np.zeros(len(self.indices))
        run(kernels.copy_base, self.size, 3 * GRAIN, self._base, self.indptr, data, out)
        count = len(self._starts) - 1
        begins, order = sorted_by(links.row, count, np.arange(len(slots)))
        by_row = RowLinks(begins, order, links.block, links.left, links.right, slots)
        contiguous = np.ascontiguousarray(blocks, np.float64)
        run(kernels.add_links, count, GRAIN, by_row, derivatives, contiguous, self.indptr, out)
        return out
