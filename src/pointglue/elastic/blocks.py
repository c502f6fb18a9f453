"""The sparse sum of many small matrices, one an element: sparsity built once, summed in a fixed order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ..checks import Array, as_array, as_integers
from ..compute import run
from ..errors import InputError
from ..procrustes import Groups
from ..procrustes.groups import runs
from . import block_kernels as kernels

__all__ = ["BlockPattern", "Stencils"]

Stencils = NDArray[np.int64] | Groups
"""The points of each element: (E, k), or groups of different sizes."""

GRAIN = 4096  # blocks worth a thread of their own


@dataclass(frozen=True, eq=False)
class _Share:
    """Where the blocks of one energy's elements go, see `block_kernels.add_blocks`."""

    size: int
    sources: NDArray[np.int64]
    widths: NDArray[np.int64]
    starts: NDArray[np.int64]
    targets: NDArray[np.int64]
    strides: NDArray[np.int64]


class BlockPattern:
    """Sparsity of the sum of several energies' Hessians over `count` points in `dimension` coordinates.

    `stencils` holds those of each energy, in the order in which :meth:`assemble` gets their element
    matrices. The diagonal block of every point belongs to the pattern, so that masses can be added.
    """

    indptr: NDArray[np.integer]
    """Of the csr matrix (d n + 1,)."""
    indices: NDArray[np.integer]
    """Of the csr matrix, ascending within each row."""
    diagonal: NDArray[np.int64]
    """Where the diagonal of the csr matrix stands in its data (d n,)."""

    def __init__(self, count: int, stencils: Sequence[Stencils], *, dimension: int = 3) -> None:
        self.count, self.dimension = count, dimension
        d = dimension
        pairs = [_pairs(checked_stencils(f"stencils[{s}]", each, count)) for s, each in enumerate(stencils)]
        rows = np.concatenate([np.arange(count), *(row for row, _, _ in pairs)])
        columns = np.concatenate([np.arange(count), *(column for _, column, _ in pairs)])
        blocks, place = np.unique(rows * count + columns, return_inverse=True)
        row_of, column_of = np.divmod(blocks, count)
        per_row = np.bincount(row_of, minlength=count)
        first = np.cumsum(per_row) - per_row
        strides = d * per_row[row_of]
        targets = d * d * first[row_of] + d * (np.arange(len(blocks)) - first[row_of])

        entries = d * d * len(blocks)
        index = np.int32 if max(entries, d * count) <= np.iinfo(np.int32).max else np.int64
        self.indptr = np.concatenate([[0], np.cumsum(np.repeat(d * per_row, d))]).astype(index)
        self.indices = np.empty(entries, index)
        axis = np.arange(d)
        where = targets[:, None, None] + axis[:, None] * strides[:, None, None] + axis
        self.indices[where] = (d * column_of[:, None] + axis)[:, None, :]
        own = place[:count]
        self.diagonal = (targets[own, None] + axis * (strides[own, None] + 1)).ravel()

        self._shares = []
        begin = count
        for _, column, sizes in pairs:
            end = begin + len(column)
            order = np.argsort(place[begin:end], kind="stable")
            touched, uses = np.unique(place[begin:end], return_counts=True)
            sources, widths = _block_starts(sizes, d)
            self._shares.append(
                _Share(
                    size=int(d * d * np.sum(sizes * sizes)),
                    sources=sources[order],
                    widths=widths[order],
                    starts=np.concatenate([[0], np.cumsum(uses)]),
                    targets=targets[touched],
                    strides=strides[touched],
                )
            )
            begin = end

    def assemble(self, elements: Sequence[Array], *, out: Array | None = None) -> Array:
        """Data of the csr matrix: the sum of the element matrices, one array an energy.

        Each array holds the (d k, d k) matrices of its elements one after the other, row by row, in any
        shape. The sums have one order, whatever the number of threads. `out` takes the result.
        """
        if len(elements) != len(self._shares):
            raise InputError(f"elements must hold {len(self._shares)} arrays, got {len(elements)}")
        data = np.empty(len(self.indices)) if out is None else out
        data[:] = 0.0
        for s, (share, each) in enumerate(zip(self._shares, elements, strict=True)):
            flat = np.ascontiguousarray(each, np.float64).reshape(-1)
            if len(flat) != share.size:
                raise InputError(f"elements[{s}] must hold {share.size} numbers, got {len(flat)}")
            run(
                kernels.add_blocks,
                len(share.targets),
                GRAIN,
                self.dimension,
                flat,
                share.sources,
                share.widths,
                share.starts,
                share.targets,
                share.strides,
                data,
            )
        return data

    def matrix(self, data: Array) -> csr_array:
        """The csr matrix (d n, d n) of such data; it shares the pattern's arrays."""
        size = self.dimension * self.count
        result = csr_array((data, self.indices, self.indptr), shape=(size, size))
        result.has_sorted_indices = True
        return result


def checked_stencils(name: str, stencils: ArrayLike | Groups, count: int) -> Stencils:
    """`stencils` as (E, k) integers, copied, or as the groups they are; raise unless they name points."""
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
    """Points of each element (E,)."""
    return stencils.sizes if isinstance(stencils, Groups) else np.full(len(stencils), stencils.shape[1])


def _pairs(stencils: Stencils) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of all blocks of all elements, row by row, and the elements' sizes."""
    points = stencils.indices if isinstance(stencils, Groups) else stencils.reshape(-1)
    sizes = stencil_sizes(stencils)
    per_point = np.repeat(sizes, sizes)
    of_element = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.repeat(points, per_point), points[runs(of_element, per_point)], sizes


def _block_starts(sizes: NDArray[np.int64], d: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of the blocks of :func:`_pairs`: where each begins in the flat elements, how far apart its rows are."""
    squares = sizes * sizes
    widths = np.repeat(d * sizes, squares)
    base = np.repeat(d * d * (np.cumsum(squares) - squares), squares)
    number = runs(np.zeros_like(sizes), squares)
    i, j = np.divmod(number, np.repeat(sizes, squares))
    return base + d * i * widths + d * j, widths
