"""An order in which the nodes of a sparse symmetric matrix are eliminated, and the fill-in of that order."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from .kernels import ordering as kernels

__all__ = ["Ordering"]

LEAF_SIZE = 10  # most nodes of a part that is not divided further


@dataclass(frozen=True, eq=False)
class Ordering:
    """Parts of the nodes, eliminated one after the other, each after all parts below it in a tree."""

    nodes: NDArray[np.int64]
    """The node at each position (count,)."""
    bounds: NDArray[np.int64]
    """The position where each part begins, and the end (parts + 1,)."""
    parents: NDArray[np.int64]
    """The part right above each in the tree, -1 for none (parts,)."""
    starts: NDArray[np.int64]
    """Where the rows of each part begin (parts + 1,)."""
    rows: NDArray[np.int64]
    """The positions beyond each part that its elimination touches, ascending."""

    @classmethod
    def of(
        cls,
        indptr: NDArray[np.integer],
        indices: NDArray[np.integer],
        node_of: NDArray[np.int64],
        positions: Array,
        *,
        multipliers: int = 0,
    ) -> "Ordering":
        """Return an order by nested dissection; the parameters are those of :class:`.ldl.SparseLDL`."""
        count = len(positions)
        graph = kernels.node_graph(indptr, indices, node_of, count)
        by_coordinate = np.ascontiguousarray(np.argsort(positions, axis=0, kind="stable").T)
        members, part = kernels.dissect(*graph, by_coordinate, LEAF_SIZE)
        part_of = np.empty(count, np.int64)
        part_of[members] = part
        parts = kernels.delay(*graph, part_of, multipliers)
        parents = kernels.tree(*graph, part_of, parts)
        number = kernels.postorder(parents)
        part_of = number[part_of]
        above = np.empty_like(parents)
        above[number] = np.where(parents >= 0, number[parents], -1)
        # Within each part nodes are in the order of their numbers, so multipliers are last.
        bounds, nodes = kernels.sorted_by(part_of, parts, np.arange(count))
        return cls(nodes, bounds, above, *kernels.structure(*graph, nodes, part_of, above))
