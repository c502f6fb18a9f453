"""The structure of a body that does not change with its rest pose: groups, pieces, and the edge system."""

from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from ...checks import Array
from ...procrustes.rotation import BLOCK
from ..body import OrientedBody
from .colouring import by_color, in_blocks, in_chunks

__all__ = ["EdgeSystem", "Topology"]

# Groups of neighbouring particles that a thread works on at a time: their particles fit into its cache.
BLOCK_GROUPS = 1024
# Particles of a piece that are summed up by one thread.
CHUNK = 1024
# Weight of rigid groups in the edge system, where that of an edge is 1: rigid groups change much less.
RIGID_WEIGHT = 1e3


class Topology:
    """The groups of a body, in colours, and its connected pieces."""

    def __init__(self, body: OrientedBody) -> None:
        n = len(body)
        self.body = body
        # Implicit groups, each particle first and then its neighbours in ascending order.
        i, j = np.concatenate([body.edges, body.edges[:, ::-1]]).T
        order = np.lexsort((j, i))
        i, j = i[order], j[order]
        counts = 1 + np.bincount(i, minlength=n)
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.members = np.empty(self.starts[-1], np.int64)
        self.members[self.starts[:-1]] = np.arange(n)
        others = np.ones(len(self.members), np.bool_)
        others[self.starts[:-1]] = False
        self.members[others] = j
        self.order = in_blocks(self.starts, self.members, body.positions, n, BLOCK_GROUPS)
        # Explicit groups; a particle that several share turns with the first of them, and is last in others.
        first = np.full(n, -1)
        for k in reversed(range(len(body.groups))):
            first[body.groups[k]] = k
        own = [first[group] == k for k, group in enumerate(body.groups)]
        listed = [np.concatenate([group[o], group[~o]]) for group, o in zip(body.groups, own, strict=True)]
        self.group_starts = np.cumsum([0, *(len(group) for group in listed)]).astype(np.int64)
        self.group_members = np.concatenate([np.empty(0, np.int64), *listed])
        self.group_turning = np.array([o.sum() for o in own], np.int64)
        self.group_order = in_chunks(self.group_starts, self.group_members, n, BLOCK)
        self.group_of = first
        self.oriented = body.oriented
        # Connected pieces: particles sorted by the piece they belong to.
        components = body.components
        self.piece_of = components
        self.piece_order = np.argsort(components, kind="stable")
        self.alone = np.bincount(components)[components] == 1
        self.pieces = np.concatenate([[0], np.cumsum(np.bincount(components))]).astype(np.int64)
        # Sums over a piece are sums over its chunks, which do not depend on who adds them up.
        cuts = [np.arange(a, b, CHUNK) for a, b in pairwise(self.pieces)]
        self.chunks = np.concatenate([*cuts, [n]]).astype(np.int64)
        self.piece_chunks = np.cumsum([0, *(len(c) for c in cuts)]).astype(np.int64)
        first = self.piece_order[self.pieces[:-1]]
        self.origins = np.repeat(first, np.diff(self.piece_chunks))
        self._edge_system: tuple[bytes, EdgeSystem] | None = None
        edges = np.arange(0, 2 * len(body.edges) + 1, 2)
        self.edge_order, self.edge_colors = by_color(edges, body.edges.ravel(), n)

    @cached_property
    def chains(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Chains of edges that resist stretch, with no branch and no loop.

        Where each begins, its particles from end to end, and the edge from each to the next, -1 for the last.
        """
        edges, n = self.body.edges, len(self.body)
        firm = np.flatnonzero(self.body.stretch > 0)
        ends = edges[firm]
        degree = np.bincount(ends.ravel(), minlength=n)
        links = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))
        count, piece = connected_components(links, directed=False)
        most = np.zeros(count, np.int64)
        np.maximum.at(most, piece, degree)
        open_ends = np.bincount(piece, degree == 1, count)
        chain = (most <= 2) & (open_ends == 2)
        beside: dict[int, list[tuple[int, int]]] = {}
        for e in firm[chain[piece[ends[:, 0]]]]:
            i, j = (int(end) for end in edges[e])
            beside.setdefault(i, []).append((j, int(e)))
            beside.setdefault(j, []).append((i, int(e)))
        starts, nodes, along, seen = [0], [], [], set()
        for first in sorted(i for i, others in beside.items() if len(others) == 1):
            if first in seen:
                continue
            here, came = first, -1
            while True:
                nodes.append(here)
                onward = [(j, e) for j, e in beside[here] if e != came]
                if not onward:
                    break
                here, came = onward[0]
                along.append(came)
            along.append(-1)
            seen.add(here)
            starts.append(len(nodes))
        return np.array(starts, np.int64), np.array(nodes, np.int64), np.array(along, np.int64)

    def edge_system(self, active: NDArray[np.bool_]) -> "EdgeSystem":
        """Return the edge system while these (groups,) rigid groups are active; it is kept for next time."""
        key = active.tobytes()
        if self._edge_system is None or self._edge_system[0] != key:
            self._edge_system = (key, EdgeSystem(self, active))
        return self._edge_system[1]


class EdgeSystem:
    """Least squares over edges: the positions whose differences along edges are nearest to given ones.

    Rigid groups count as edges from their first particle to all others, with `RIGID_WEIGHT`.
    """

    def __init__(self, topology: Topology, active: NDArray[np.bool_]) -> None:
        body, n = topology.body, len(topology.body)
        groups = [group for group, on in zip(body.groups, active, strict=True) if on]
        stars = [np.stack([np.full(len(group) - 1, group[0]), group[1:]], axis=1) for group in groups]
        self.pairs = np.concatenate([body.edges, *stars])
        self.rigid = np.arange(len(self.pairs)) >= len(body.edges)
        count = len(self.pairs)
        rows, ones = np.arange(count), np.ones(count)
        ends = (np.concatenate([rows, rows]), np.concatenate([self.pairs[:, 1], self.pairs[:, 0]]))
        difference = csr_array((np.concatenate([ones, -ones]), ends), shape=(count, n))
        self._weighted = (difference * np.where(self.rigid, RIGID_WEIGHT, 1.0)[:, None]).T.tocsr()
        # One particle of each piece is pinned, or the differences would not say where the others are.
        self._pinned = np.zeros(n, np.bool_)
        self._pinned[topology.piece_order[topology.pieces[:-1]]] = True
        pins = diags_array(self._pinned.astype(np.float64))
        self._factor = splu((self._weighted @ difference + pins).tocsc()) if count else None

    def solve(self, differences: Array, positions: Array) -> Array:
        """Return positions (n, 3) with these differences (pairs, 3); the first of each piece stays."""
        if self._factor is None:
            return positions.copy()
        pinned = np.where(self._pinned[:, None], positions, 0.0)
        return np.asarray(self._factor.solve(self._weighted @ differences + pinned))
