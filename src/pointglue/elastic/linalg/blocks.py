"""The sparse sum of many small element matrices: its sparsity is built once, its sums have a fixed order."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ...checks import Array, as_array, as_integers
from ...compute import run
from ...errors import InputError
from ...procrustes import Groups
from .kernels import blocks as kernels
from .kernels import sparsity as pattern_kernels
from .kernels.blocks import BlockSums
from .kernels.sparsity import ElementPoints

__all__ = ["BlockPattern", "Stencils", "check_stencils", "stencil_sizes"]

Stencils = NDArray[np.int64] | Groups
"""The points of each element: (E, k), or groups of different sizes."""

GRAIN = 4096  # blocks worth a thread of their own


class BlockPattern:
    """The sparsity of the sum of several energies' Hessians over n points in d coordinates.

    The diagonal block of every point belongs to the pattern, so that masses can be added.

    Parameters
    ----------
    count : int
        The number n of points.
    stencils : sequence of (E, k) or Groups
        The stencils of each energy, in the order in which :meth:`assemble` gets their element matrices.
    dimension : int
        The number d of coordinates of a point.

    Attributes
    ----------
    indptr : (d n + 1,)
        Where the rows of the csr matrix begin.
    indices : (nnz,)
        The columns of the csr matrix, ascending within each row.
    diagonal : (d n,)
        Where the diagonal of the csr matrix is in its data.

    Raises
    ------
    InputError
        If stencils name points that there are not.
    """

    indptr: NDArray[np.integer]
    indices: NDArray[np.integer]
    diagonal: NDArray[np.int64]

    def __init__(self, count: int, stencils: Sequence[Stencils], *, dimension: int = 3) -> None:
        self.count, self.dimension = count, dimension
        d = dimension
        lists = [
            _entries(check_stencils(f"stencils[{s}]", each, count), d) for s, each in enumerate(stencils)
        ]
        offsets = np.cumsum([0, *(len(each.points) for each in lists)])
        shifted = [
            each._replace(firsts=each.firsts + offset)
            for each, offset in zip(lists, offsets[:-1], strict=True)
        ]
        nothing = ElementPoints(*[np.empty(0, np.int64)] * 4)
        every = ElementPoints(*(np.concatenate(parts) for parts in zip(nothing, *shifted, strict=True)))
        starts, columns = pattern_kernels.sparsity(count, every)

        entries = d * d * len(columns)
        index = np.int32 if max(entries, d * count) <= np.iinfo(np.int32).max else np.int64
        self.indptr = np.concatenate([[0], np.cumsum(np.repeat(d * np.diff(starts), d))]).astype(index)
        self.indices = np.empty(entries, index)
        targets, strides = np.empty_like(columns), np.empty_like(columns)
        pattern_kernels.spread(starts, columns, d, self.indices, targets, strides)
        own = columns == np.repeat(np.arange(count), np.diff(starts))
        self.diagonal = (targets[own, None] + np.arange(d) * (strides[own, None] + 1)).ravel()

        self._shares = []
        for each in lists:
            ends, sources, widths = pattern_kernels.shares(starts, columns, d, each)
            touched = np.flatnonzero(np.diff(ends))
            self._shares.append(
                BlockSums(
                    starts=np.concatenate([ends[touched], ends[-1:]]),
                    sources=sources,
                    widths=widths,
                    targets=targets[touched],
                    strides=strides[touched],
                )
            )

    def assemble(self, elements: Sequence[Array], *, out: Array | None = None) -> Array:
        """Return the data of the csr matrix, which is the sum of the element matrices.

        The sums have one order, whatever the number of threads.

        Parameters
        ----------
        elements : sequence of arrays
            One array for each energy: the (d k, d k) matrices of its elements one after the other, row by
            row, in any shape.
        out : (nnz,), optional
            The array that takes the result.

        Returns
        -------
        (nnz,)

        Raises
        ------
        InputError
            If there are not as many arrays as energies, or an array has another size.
        """
        if len(elements) != len(self._shares):
            raise InputError(f"elements must hold {len(self._shares)} arrays, got {len(elements)}")
        data = np.empty(len(self.indices)) if out is None else out
        data[:] = 0.0
        for s, (share, each) in enumerate(zip(self._shares, elements, strict=True)):
            flat = np.ascontiguousarray(each, np.float64).reshape(-1)
            size = self.dimension**2 * len(share.sources)
            if len(flat) != size:
                raise InputError(f"elements[{s}] must hold {size} numbers, got {len(flat)}")
            run(kernels.add_blocks, len(share.targets), GRAIN, self.dimension, flat, share, data)
        return data

    def matrix(self, data: Array) -> csr_array:
        """Return the csr matrix of such data; it shares the pattern's arrays.

        Parameters
        ----------
        data : (nnz,)
            The data, see :meth:`assemble`.

        Returns
        -------
        csr_array (d n, d n)
        """
        size = self.dimension * self.count
        result = csr_array((data, self.indices, self.indptr), shape=(size, size))
        result.has_sorted_indices = True
        return result


def check_stencils(name: str, stencils: ArrayLike | Groups, count: int) -> Stencils:
    """Return a copy of stencils (E, k), or the groups that they are; raise unless they name points."""
    if isinstance(stencils, Groups):
        rows = stencils.indices
    else:
        given = as_array(name, stencils)
        if given.ndim != 2 or given.shape[1] < 1:
            raise InputError(f"{name} must have shape (E, k), k points an element, got shape {given.shape}")
        rows = as_integers(name, given.ravel())
    if rows.size and (rows.min() < 0 or rows.max() >= count):
        wrong = rows.min() if rows.min() < 0 else rows.max()
        raise InputError(f"{name} must name some of {count} points, got {wrong}")
    if isinstance(stencils, Groups):
        return stencils
    rows = rows.reshape(given.shape)
    rows.flags.writeable = False
    return rows


def stencil_sizes(stencils: Stencils) -> NDArray[np.int64]:
    """Return the number of points of each element (E,)."""
    return stencils.sizes if isinstance(stencils, Groups) else np.full(len(stencils), stencils.shape[1])


def _entries(stencils: Stencils, d: int) -> ElementPoints:
    """Return the points of all elements, whose matrices are (d k, d k)."""
    points = stencils.indices if isinstance(stencils, Groups) else stencils.reshape(-1)
    sizes = stencil_sizes(stencils)
    squares = d * d * sizes * sizes
    of_element = (np.cumsum(sizes) - sizes, sizes, np.cumsum(squares) - squares)
    return ElementPoints(points, *(np.repeat(each, sizes) for each in of_element))
