"""The sparse sum of many small matrices, one an element: sparsity built once, summed in a fixed order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ...checks import Array, as_array, as_integers
from ...compute import run
from ...errors import InputError
from ...procrustes import Groups
from .kernels import blocks as kernels
from .kernels import sparsity as pattern_kernels

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
        lists = [
            _entries(checked_stencils(f"stencils[{s}]", each, count), d) for s, each in enumerate(stencils)
        ]
        offsets = np.cumsum([0, *(len(points) for points, _, _, _ in lists)])
        points, firsts, sizes = (
            np.concatenate([np.empty(0, np.int64), *parts])
            for parts in (
                [each[0] for each in lists],
                [each[1] + offset for each, offset in zip(lists, offsets[:-1], strict=True)],
                [each[2] for each in lists],
            )
        )
        starts, columns = pattern_kernels.sparsity(count, points, firsts, sizes)

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
            ends, sources, widths = pattern_kernels.shares(starts, columns, d, *each)
            touched = np.flatnonzero(np.diff(ends))
            self._shares.append(
                _Share(
                    size=d * d * len(sources),
                    sources=sources,
                    widths=widths,
                    starts=np.concatenate([ends[touched], ends[-1:]]),
                    targets=targets[touched],
                    strides=strides[touched],
                )
            )

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


def _entries(stencils: Stencils, d: int) -> tuple[NDArray[np.int64], ...]:
    """The points of all elements; for each, where its element begins, its size, where its matrix begins."""
    points = stencils.indices if isinstance(stencils, Groups) else stencils.reshape(-1)
    sizes = stencil_sizes(stencils)
    squares = d * d * sizes * sizes
    of_element = (np.cumsum(sizes) - sizes, sizes, np.cumsum(squares) - squares)
    return points, *(np.repeat(each, sizes) for each in of_element)
