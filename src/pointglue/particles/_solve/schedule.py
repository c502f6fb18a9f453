"""The constraints of a body, worked out for one rest pose and one set of pins, in the order they run."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import splu

from ...checks import Array
from ...procrustes.rotation import BLOCK
from ..body import OrientedBody
from ..state import RestPose
from .colouring import Order, by_colour, gather, in_blocks, in_chunks

__all__ = ["Schedule", "Topology"]

# How much more than its own mass a pinned particle weighs when its group finds its place: the group hangs
# on its pins, but still turns about a single one.
PIN = 1e3
# Groups of neighbouring particles that a thread works on at a time: their particles fit into its cache.
BLOCK_GROUPS = 1024
CHUNK = 1024


class Topology:
    """What does not change with the rest pose: who belongs to which group, in colours, and the pieces."""

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
        self.rigid_of = first
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
        self._ties: tuple[bytes, Ties] | None = None
        edges = np.arange(0, 2 * len(body.edges) + 1, 2)
        self.edge_order, self.edge_colours = by_colour(edges, body.edges.ravel(), n)

    def ties(self, active: NDArray[np.bool_]) -> "Ties":
        """What ties the particles together while these rigid groups are in force; kept for the next time."""
        key = active.tobytes()
        if self._ties is None or self._ties[0] != key:
            self._ties = (key, Ties(self, active))
        return self._ties[1]


class Ties:
    """Differences along edges, put together by least squares: positions that have them as nearly as can be.

    Rigid groups count as edges from their first particle to all others, and these weigh much more.
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
        self._weighted = (difference * np.where(self.rigid, 1e3, 1.0)[:, None]).T.tocsr()
        # One particle of each piece stays, or the sum would not say where the others are.
        self._stays = np.zeros(n, np.bool_)
        self._stays[topology.piece_order[topology.pieces[:-1]]] = True
        hold = diags_array(self._stays.astype(np.float64))
        self._factor = splu((self._weighted @ difference + hold).tocsc()) if count else None

    def solve(self, differences: Array, positions: Array) -> Array:
        """Positions (n, 3) with these differences (pairs, 3); the first of each piece stays where it is."""
        if self._factor is None:
            return positions.copy()
        held = np.where(self._stays[:, None], positions, 0.0)
        return np.asarray(self._factor.solve(self._weighted @ differences + held))


@dataclass(frozen=True)
class Schedule:
    """Constraints sorted by colour; all arrays stand in the order in which they are read."""

    order: Order
    starts: NDArray[np.int64]
    members: NDArray[np.int32]
    offsets: Array
    """(members, 4): place in the group at rest, seen from its centre of mass, and share in its mass."""
    turning: NDArray[np.int64]
    """(groups,): how many members, the first ones, take the rotation of the group."""
    scales: Array
    """(groups, 2): mass / s and 1 / s, with s the trace of the moment matrix at rest."""
    yields: Array
    """(6 groups,): xx, xy, xz, yy, yz, zz of (tr(A) I - A)^-1 each, A the moment matrix at rest over s."""
    owner: NDArray[np.int64]
    """(groups,): the particle of an implicit group, -1 for an explicit one."""
    implicit: int
    """How many groups, the first ones, are implicit."""
    moments: Array
    """(n, 9), M: each particle's own moment matrix at rest."""
    padded: Array
    """(n, 12), M with a zero at the end of each row."""
    shapes: Array
    """(n, 9), C: its ellipsoid, x^T C^-1 x = 1."""
    edge_colours: NDArray[np.int64]
    pairs: NDArray[np.int64]
    """(edges, 2)."""
    lengths: Array
    held: NDArray[np.bool_]
    """(pieces,): has a pinned particle."""
    rigid_of: NDArray[np.int64]
    """(n,): which of the rigid groups that move freely it belongs to, the first of them; -1 for none."""
    rigid_starts: NDArray[np.int64]
    rigid_members: NDArray[np.int64]

    @classmethod
    def of(
        cls, topology: Topology, rest: RestPose, fixed: NDArray[np.bool_], active: NDArray[np.bool_]
    ) -> "Schedule":
        """For this rest pose, these pins and these (groups,) explicit groups in force."""
        body, n = topology.body, len(topology.body)
        shapes = np.einsum("nik,nk,njk->nij", rest.rotations, body.radii**2, rest.rotations)
        moments = (body.mass / 5 * topology.oriented)[:, None, None] * shapes
        governed = np.zeros(n, np.bool_)
        for k in np.flatnonzero(active):
            governed[body.groups[k]] = True
        implicit = topology.order.kept(~governed)
        explicit = topology.group_order.kept(active)
        starts, members = gather(topology.starts, topology.members, implicit.sets)
        group_starts, group_members = gather(topology.group_starts, topology.group_members, explicit.sets)
        turning = np.concatenate(
            [np.ones(len(implicit.sets), np.int64), topology.group_turning[explicit.sets]]
        )
        starts = np.concatenate([starts, starts[-1] + group_starts[1:]])
        members = np.concatenate([members, group_members])
        weight = body.mass * np.where(fixed, PIN, 1.0)
        group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        total = np.bincount(group, weight[members], len(starts) - 1)
        share = weight[members] / total[group]
        # From the first member, which loses no digits where the body lies far from the origin.
        arm = rest.positions[members] - rest.positions[members[starts[:-1]]][group]
        arm -= np.stack([np.bincount(group, share * a, len(starts) - 1) for a in arm.T], axis=1)[group]
        own = np.trace(moments, axis1=1, axis2=2)[members]
        trace = np.bincount(group, weight[members] * (arm**2).sum(1) + own, len(starts) - 1)
        trace[trace == 0.0] = 1.0  # a group of one particle without orientation
        spread = weight[members, None, None] * arm[:, :, None] * arm[:, None, :] + moments[members]
        A = np.stack([np.bincount(group, c, len(starts) - 1) for c in spread.reshape(-1, 9).T], axis=1)
        H = np.eye(3) - (A / trace[:, None]).reshape(-1, 3, 3)
        # A group of nothing but particles without orientation may leave a spin open.
        yields = np.linalg.pinv(H, rcond=1e-9, hermitian=True).reshape(-1, 9)[:, [0, 1, 2, 4, 5, 8]]
        edges = body.edges[topology.edge_order]
        # In contact a shared particle goes with the first of its groups, so that groups share nothing there.
        free = [body.groups[k] for k in np.flatnonzero(active) if not fixed[body.groups[k]].any()]
        rigid_of = np.full(n, -1)
        for number, group_members in reversed(list(enumerate(free))):
            rigid_of[group_members] = number
        rigid_members = np.argsort(rigid_of, kind="stable")[(rigid_of < 0).sum() :]
        counts = np.bincount(rigid_of[rigid_members], minlength=len(free))
        rigid_starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(
            order=implicit.then(explicit, n),
            starts=starts,
            members=members.astype(np.int32),
            offsets=np.ascontiguousarray(np.column_stack([arm, share])),
            turning=turning,
            scales=np.stack([total / trace, 1 / trace], axis=1),
            yields=np.ascontiguousarray(yields).ravel(),
            owner=np.concatenate([implicit.sets, np.full(len(explicit.sets), -1)]),
            implicit=len(implicit.sets),
            moments=moments.reshape(n, 9),
            padded=np.pad(moments, ((0, 0), (0, 0), (0, 1))).reshape(n, 12),
            shapes=shapes.reshape(n, 9),
            edge_colours=topology.edge_colours,
            pairs=edges,
            lengths=np.linalg.norm(rest.positions[edges[:, 1]] - rest.positions[edges[:, 0]], axis=1),
            rigid_of=rigid_of,
            rigid_starts=rigid_starts,
            rigid_members=rigid_members,
            held=np.bincount(topology.piece_of, fixed, len(topology.pieces) - 1) > 0,
        )
