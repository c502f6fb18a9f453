"""The constraints of a body, worked out for one rest pose and one set of pins, in the order they run."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ...checks import Array
from ..state import RestPose
from .colouring import Order, gather
from .kernels.contact.rigid import ROW
from .kernels.motion.rotors import ROTOR
from .kernels.records import (
    ChainArrays,
    EdgeArrays,
    ParticleArrays,
    PieceArrays,
    RigidGroups,
    RotorArrays,
    ShapeGroups,
)
from .topology import Topology

__all__ = ["Schedule"]

# Ratio by which a pinned particle weighs more when its group is matched: the group follows its pins, but
# still turns about a single one.
PIN_WEIGHT = 1e3


@dataclass(frozen=True)
class Schedule:
    """Constraints sorted by colour; all arrays stand in the order in which they are read."""

    order: Order
    starts: NDArray[np.int64]
    members: NDArray[np.int32]
    offsets: Array
    """(members, 4): position in the group at rest, seen from its centre of mass, and share in its mass."""
    turning: NDArray[np.int64]
    """(groups,): how many members, the first ones, take the rotation of the group."""
    scales: Array
    """(groups, 2): mass / s and 1 / s, with s the trace of the moment matrix at rest."""
    compliances: Array
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
    edge_colors: NDArray[np.int64]
    """Where each colour of edges begins in `pairs`."""
    pairs: NDArray[np.int64]
    """(edges, 2)."""
    lengths: Array
    """(edges,), at rest, m."""
    group_of: NDArray[np.int64]
    """(n,): which of the rigid groups that move freely it belongs to, the first of them; -1 for none."""
    rigid_starts: NDArray[np.int64]
    """Where each of these groups begins in `rigid_members`."""
    rigid_members: NDArray[np.int64]
    active: NDArray[np.bool_]
    """(groups,): rigid, and not released to deform."""
    fixed: NDArray[np.bool_]
    """(n,): pinned, a pivot or kinematic: no constraint moves it."""
    clamped: NDArray[np.bool_]
    """(n,): pinned or kinematic: no constraint turns it."""
    rest: Array
    """(n, 3), positions at rest, m."""
    topology: Topology

    @classmethod
    def of(
        cls,
        topology: Topology,
        rest: RestPose,
        clamped: NDArray[np.bool_],
        active: NDArray[np.bool_],
        elastic: NDArray[np.bool_] | None = None,
    ) -> "Schedule":
        """Return the schedule for a rest pose, (n,) clamped particles and (groups,) active groups.

        Particles that are (n,) elastic match no shape of their own.
        """
        body, n = topology.body, len(topology.body)
        fixed = clamped | body.pivots
        # A ball has no axes, whatever they are said to be: it is exactly round.
        balls = (body.radii == body.radii[:, :1]).all(1)
        axes = np.where(balls[:, None, None], np.eye(3), rest.rotations)
        shapes = np.einsum("nik,nk,njk->nij", axes, body.radii**2, axes)
        moments = (body.mass / 5 * topology.oriented)[:, None, None] * shapes
        governed = np.zeros(n, np.bool_) if elastic is None else elastic.copy()
        for k in np.flatnonzero(active):
            governed[body.groups[k]] = True
        # A particle alone has nothing to match.
        implicit = topology.order.kept(~governed & ~topology.alone)
        explicit = topology.group_order.kept(active)
        starts, members = gather(topology.starts, topology.members, implicit.sets)
        group_starts, group_members = gather(topology.group_starts, topology.group_members, explicit.sets)
        turning = np.concatenate(
            [np.ones(len(implicit.sets), np.int64), topology.group_turning[explicit.sets]]
        )
        starts = np.concatenate([starts, starts[-1] + group_starts[1:]])
        members = np.concatenate([members, group_members])
        weight = body.mass * np.where(fixed, PIN_WEIGHT, 1.0)
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
        compliances = np.linalg.pinv(H, rcond=1e-9, hermitian=True).reshape(-1, 9)[:, [0, 1, 2, 4, 5, 8]]
        edges = body.edges[topology.edge_order]
        # In contact a shared particle goes with the first of its groups, so that groups share nothing there.
        free = [body.groups[k] for k in np.flatnonzero(active) if not fixed[body.groups[k]].any()]
        group_of = np.full(n, -1)
        for number, group_members in reversed(list(enumerate(free))):
            group_of[group_members] = number
        # Groups all of whose particles go with others have no part in contact.
        group_of[group_of >= 0] = np.unique(group_of[group_of >= 0], return_inverse=True)[1]
        rigid_members = np.argsort(group_of, kind="stable")[(group_of < 0).sum() :]
        counts = np.bincount(group_of[rigid_members])
        rigid_starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(
            order=implicit.then(explicit, n),
            starts=starts,
            members=members.astype(np.int32),
            offsets=np.ascontiguousarray(np.column_stack([arm, share])),
            turning=turning,
            scales=np.stack([total / trace, 1 / trace], axis=1),
            compliances=np.ascontiguousarray(compliances).ravel(),
            owner=np.concatenate([implicit.sets, np.full(len(explicit.sets), -1)]),
            implicit=len(implicit.sets),
            moments=moments.reshape(n, 9),
            padded=np.pad(moments, ((0, 0), (0, 0), (0, 1))).reshape(n, 12),
            shapes=shapes.reshape(n, 9),
            edge_colors=topology.edge_colors,
            pairs=edges,
            lengths=np.linalg.norm(rest.positions[edges[:, 1]] - rest.positions[edges[:, 0]], axis=1),
            group_of=group_of,
            rigid_starts=rigid_starts,
            rigid_members=rigid_members,
            active=active,
            fixed=fixed,
            clamped=clamped,
            rest=rest.positions,
            topology=topology,
        )

    def shape_groups(self, stiffness: Array) -> ShapeGroups:
        """Return the groups of shape matching with their stiffness (groups,) in an iteration."""
        return ShapeGroups(
            blocks=self.order.blocks,
            batches=self.order.batches,
            starts=self.starts,
            members=self.members,
            offsets=self.offsets,
            turning=self.turning,
            scales=self.scales,
            compliances=self.compliances,
            stiffness=stiffness[:, None] * [1.0, 1.0, 1.0, 0.0],  # see matching: P's fourth column stays
        )

    def edge_arrays(self, stretch: Array, torsion: Array) -> EdgeArrays:
        """Return the edges with their stiffness (edges,) against stretch and torsion."""
        return EdgeArrays(self.pairs, self.lengths, stretch, torsion)

    def chain_arrays(self, stretch: Array) -> ChainArrays:
        """Return the chains of edges with the stiffness (edges,) of all edges against stretch."""
        starts, nodes, along = self.topology.chains
        length = np.empty(len(self.pairs))
        length[self.topology.edge_order] = self.lengths
        return ChainArrays(starts, nodes, length[along], np.where(along < 0, 0.0, stretch[along]))

    def rigid_groups(self, more: Iterable[NDArray[np.int64]] = ()) -> RigidGroups:
        """Return the rigid groups that move freely, and `more` like them, with room for their corrections."""
        starts, members, group_of = [*self.rigid_starts.tolist()], [self.rigid_members], self.group_of.copy()
        for group in more:
            own = group[group_of[group] < 0]
            group_of[own] = len(starts) - 1
            members.append(own)
            starts.append(starts[-1] + len(own))
        return RigidGroups(
            starts=np.array(starts, np.int64),
            members=np.concatenate(members),
            group_of=group_of,
            rows=np.zeros((len(starts) - 1, ROW)),
        )

    def rotors(self) -> RotorArrays:
        """Return the rigid groups that may turn, each with the soft particles that hang on it alone."""
        topology, body = self.topology, self.topology.body
        n, groups = len(body), body.groups
        owner = np.where(np.append(self.active, False)[topology.group_of], topology.group_of, -1)
        free = ~self.fixed
        rotor_of = np.where(free, owner, -1)
        # Soft particles in connected pieces: a piece whose edges lead to one group only turns with it.
        i, j = body.edges.T
        soft = owner < 0
        inner = soft[i] & soft[j]
        links = coo_array((np.ones(inner.sum()), (i[inner], j[inner])), shape=(n, n))
        count, piece = connected_components(links, directed=False)
        across = soft[i] != soft[j]
        ends = np.where(soft[i[across]], [i[across], j[across]], [j[across], i[across]])
        low, high = np.full(count, len(groups)), np.full(count, -1)
        np.minimum.at(low, piece[ends[0]], owner[ends[1]])
        np.maximum.at(high, piece[ends[0]], owner[ends[1]])
        held = np.bincount(piece, self.fixed & soft, count) > 0
        hangs = soft & free & (low == high)[piece] & ~held[piece]
        rotor_of[hangs] = low[piece[hangs]]
        leads = [next(iter(g[rotor_of[g] == k]), -1) for k, g in enumerate(groups)]
        turning = np.flatnonzero(np.array(leads, np.int64) >= 0)
        number = np.append(np.full(len(groups), -1), -1)
        number[turning] = np.arange(len(turning))
        rotor_of = number[rotor_of]
        members = np.argsort(rotor_of, kind="stable")[(rotor_of < 0).sum() :]
        pivots = [groups[k][self.fixed[groups[k]]] for k in turning]
        return RotorArrays(
            starts=np.cumsum([0, *np.bincount(rotor_of[members], minlength=len(turning))]).astype(np.int64),
            members=members,
            pivot_starts=np.cumsum([0, *(len(p) for p in pivots)]).astype(np.int64),
            pivots=np.concatenate([np.empty(0, np.int64), *pivots]),
            leads=np.array(leads, np.int64)[turning],
            rotor_of=rotor_of,
            rigid=(rotor_of >= 0) & ~soft,
            rows=np.zeros((len(turning), ROTOR)),
        )

    @cached_property
    def inverse_inertia(self) -> Array:
        """1 over the traces (n,) of the moment matrices [1/(kg m^2)]; 0 if clamped or without orientation."""
        trace = self.moments[:, ::4].sum(1)
        return np.where(self.clamped | (trace == 0), 0.0, 1 / np.where(trace > 0, trace, 1.0))

    def particle_arrays(self, bounds: Array) -> ParticleArrays:
        """Return what kernels know of the particles; `bounds` (n,) are radii of balls that hold them [m]."""
        topology, fixed = self.topology, self.fixed
        return ParticleArrays(
            mass=topology.body.mass,
            inverse_mass=np.where(fixed, 0.0, 1 / topology.body.mass),
            fixed=fixed,
            clamped=self.clamped,
            bounds=bounds,
            moments=self.moments,
            shapes=self.shapes,
            piece_of=topology.piece_of,
            alone=topology.alone,
            rest=self.rest,
        )

    def piece_arrays(self) -> PieceArrays:
        """Return the connected pieces."""
        topology = self.topology
        return PieceArrays(
            order=topology.piece_order,
            chunks=topology.chunks,
            origins=topology.origins,
            piece_chunks=topology.piece_chunks,
            fixed=np.bincount(topology.piece_of, self.fixed, len(topology.pieces) - 1) > 0,
        )
