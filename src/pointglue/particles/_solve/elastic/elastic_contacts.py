"""Elastic pieces in a substep: their relaxation, and their contacts with colliders, each other and the rest.

Contacts are found as those of single particles are, and taken over: instead of being moved alone, the
particles of elastic pieces get impulses, which are found together for all of their contacts and move whole
pieces. Relaxation of a piece keeps its impulses, up to where they turn out to be too large.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ....checks import Array
from ....compute.launching import Launcher
from ..kernels.contact.contacts import separate
from ..kernels.contact.impulses import find_impulses
from ..kernels.contact.records import (
    ColliderPoses,
    ContactArrays,
    ImpulseBodies,
    ImpulseContacts,
    PairArrays,
    Restitution,
    Supports,
)
from ..kernels.contact.rigid import CENTROID, INVERSE_INERTIA, INVERSE_MASS, ROTATION, ROW, TRANSLATION
from ..kernels.records import ParticleArrays, ParticleBuffers, RigidGroups
from .holds import Holds
from .pieces import MOMENT, ElasticPiece

__all__ = ["ElasticBodies"]

Integers = NDArray[np.int64]
# Sweeps over all contacts, at most: heavy things on light ones take hundreds.
SWEEPS = 400
# Sweeps over the overlaps of a piece by which it is shifted out of them.
SHIFTS = 3
# Ratio of the stiffness by which impulses give way to that of the bodies themselves.
GAIN = 10.0
# Ratio of the give of a contact along its normal and across it, at least.
LEAST_GIVE = 1e-9
# Ratio to the slowest impact: contacts that are moved more slowly have settled.
SETTLED = 1e-4
# No contacts of hulls.
NO_SUPPORTS = Supports(
    groups=np.empty((0, 2), np.int64),
    particles=np.empty((0, 2), np.int64),
    points=np.empty((0, 3)),
    normals=np.empty((0, 3)),
    needs=np.empty(0),
    slips=np.empty((0, 3)),
    friction=np.empty(0),
    impulses=np.empty((0, 3)),
)


class Scene(NamedTuple):
    """What the kernels of a substep work on."""

    particles: ParticleArrays
    buffers: ParticleBuffers
    groups: RigidGroups


class _Acting(NamedTuple):
    """The ends of some contacts at one elastic piece."""

    piece: int
    which: Integers
    """(k,), numbers of the contacts."""
    sign: float
    """1 for their first particles, -1 for their second ones."""
    particles: Integers
    """(k,), numbers of particles."""
    there: Array
    """(k, 3), where the other ends are; 0 for colliders, m."""


class _Ends(NamedTuple):
    """The ends of contacts: particles by their numbers, and beyond these the sides of contacts of hulls."""

    first: Integers
    """(k,), numbers of points."""
    second: Integers
    """(k,), -1 for what does not move."""
    points: Array
    """(n + 2 s, 3), where all points are, m."""
    body_of: Integers
    """(n + 2 s,), the body of each, -1 for what does not move."""
    signs: Array
    """(s,), 1 where the second side of a contact of hulls is its first end, -1 where that does not move."""

    @classmethod
    def of(
        cls,
        first: Integers,
        second: Integers,
        supports: Supports,
        sides: Integers,
        body_of: Integers,
        P: Array,
    ) -> "_Ends":
        """Return the ends of pairs of particles, and of contacts of hulls between bodies `sides` (s, 2)."""
        count = len(P)
        pushed, held = count + 2 * np.arange(len(sides)) + 1, count + 2 * np.arange(len(sides))
        swapped = sides[:, 1] < 0
        other = np.where(swapped | (sides[:, 0] < 0), -1, held)
        return cls(
            first=np.concatenate([first, np.where(swapped, held, pushed)]),
            second=np.concatenate([second, other]),
            points=np.concatenate([P[:, :3], np.repeat(supports.points, 2, axis=0)]),
            body_of=np.concatenate([body_of, sides.ravel()]),
            signs=np.where(swapped, -1.0, 1.0),
        )


class _Found(NamedTuple):
    """The contacts whose impulses have been found together."""

    contacts: ImpulseContacts
    ends: tuple[Integers, Integers]
    """Their first and their second particles (k,), -1 for colliders."""
    levels: Array
    """(k,), how far apart their ends are to be along the normal, m."""
    before: Array
    """(k, 3), the vectors from the second to the first before the substep, m."""


class _Touching:
    """Contacts of one kind, pairs or those with one collider, which keep their impulses within a substep."""

    def __init__(self, first: Integers, second: Integers | None, friction: float) -> None:
        count = len(first)
        self.first, self.second, self.friction = first, second, friction
        self.poses: ColliderPoses | None = None
        self.active = np.zeros(count, np.bool_)
        self.normals, self.impulses = np.zeros((count, 3)), np.zeros((count, 3))
        self.levels, self.overlaps = np.zeros(count), np.zeros(count)

    def begin(self) -> None:
        """Forget the contacts of the last substep."""
        self.active[:] = False
        self.impulses[:], self.overlaps[:] = 0.0, 0.0

    def vectors(self, which: Integers, buffers: ParticleBuffers) -> tuple[Array, Array]:
        """Return the vectors from the second to the first, before the substep and now (k, 3) [m]."""
        first = self.first[which]
        before, now = buffers.X[first], buffers.P[first, :3]
        if self.second is not None:
            second = self.second[which]
            return before - buffers.X[second], now - buffers.P[second, :3]
        return (before if self.poses is None else before + _displacements(self.poses, now)), now

    def meet(
        self, which: Integers, depths: Array, normals: Array, buffers: ParticleBuffers, impact: Restitution
    ) -> None:
        """Take over contacts that overlap by `depths` along `normals`.

        What came nearer in the substep is held back by an impulse. What overlapped before goes apart without
        one, so that no speed comes of it. In an impact the first goes to where its returned speed takes it.
        """
        before, now = (np.einsum("ni,ni->n", normals, v) for v in self.vectors(which, buffers))
        nearer = np.clip(before - now, 0.0, depths)
        self.active[which] = True
        self.normals[which], self.overlaps[which] = normals, depths - nearer
        self.levels[which] = now + nearer
        if impact.coefficient > 0.0:
            speed = (before - now) / impact.substep
            returned = before + impact.coefficient * impact.substep * speed
            hard = (speed > impact.threshold) & (depths - nearer <= 0.0)
            self.levels[which] = np.where(hard, np.maximum(returned, now + nearer), now + nearer)


class ElasticBodies:
    """All elastic pieces of a solver.

    Parameters
    ----------
    pieces : list of ElasticPiece
        The pieces.
    group_of : (n,)
        The rigid group that each particle moves with, -1 for none: it meets others as its group does.
    friction : list of float
        Coulomb's coefficient of each collider, and of pairs.
    """

    def __init__(self, pieces: list[ElasticPiece], group_of: Integers, friction: list[float]) -> None:
        self.pieces = pieces
        count = len(group_of)
        # Bodies through which impulses act: elastic pieces, rigid groups, and all other particles alone.
        groups = int(group_of.max(initial=-1)) + 1
        self._body_of = len(pieces) + np.where(group_of >= 0, group_of, groups + np.arange(count))
        self._alone_from = len(pieces) + groups
        self._number = np.zeros(count, np.int64)
        for k, piece in enumerate(pieces):
            members = piece.lattice.members
            self._body_of[members] = np.where(group_of[members] >= 0, self._body_of[members], k)
            self._number[members] = np.arange(len(piece))
        self.meets = self._body_of < len(pieces)
        """(n,): which particles have their contacts here."""
        self._free = np.empty((count, 3)), np.empty((count, 9))
        self._launcher = Launcher()
        self._colliders = [_Touching(np.arange(count), None, mu) for mu in friction[:-1]]
        self._friction = friction[-1]
        self._no_groups = RigidGroups(
            np.zeros(1, np.int64), np.empty(0, np.int64), np.full(count, -1), np.empty((0, ROW))
        )

    def begin(self, h: float, pairs: Integers, scene: Scene) -> None:
        """Begin a substep: where the particles are now is where they are without forces; pairs may meet."""
        buffers = scene.buffers
        self._free[0][:], self._free[1][:] = buffers.P[:, :3], buffers.P[:, MOMENT]
        for piece in self.pieces:
            piece.begin(h, scene.particles, buffers, self._free)
        for touching in self._colliders:
            touching.begin()
        self._found: _Found | None = None
        self._holds: dict[int, Holds] = {}
        self._acting: list[_Acting] = []
        self._listed = np.ascontiguousarray(pairs)
        self._pairs = _Touching(pairs[:, 1], pairs[:, 0], self._friction)

    @property
    def touching(self) -> tuple[Integers, Integers]:
        """The pairs (k, 2) that have met in this substep, and the particles that have met a collider."""
        pairs = np.ascontiguousarray(self._listed[self._pairs.active])
        met = [self.touching_collider(k) for k in range(len(self._colliders))]
        return pairs, np.concatenate([np.empty(0, np.int64), *met])

    def touching_collider(self, k: int) -> Integers:
        """Return the particles that have met collider k in this substep."""
        return np.flatnonzero(self._colliders[k].active)

    def keep_moves(self, before: Array, buffers: ParticleBuffers) -> None:
        """Take what has moved elastic particles from (n, 3) `before` to where they are now for impulses."""
        moved = buffers.P[self.meets, :3] - before[self.meets]
        self._free[0][self.meets] += moved

    def relax(self, h: float, scene: Scene) -> None:
        """Relax every piece."""
        for k, piece in enumerate(self.pieces):
            piece.relax(h, scene.particles, scene.buffers, self._free, self._holds.get(k))

    def take_contacts(
        self,
        k: int,
        poses: ColliderPoses,
        contacts: ContactArrays,
        buffers: ParticleBuffers,
        impact: Restitution,
    ) -> None:
        """Take over the contacts of elastic particles with collider k, and undo their corrections."""
        shift, touching = contacts.corrections, self._colliders[k]
        contacts.depths[self.meets] = 0.0
        hit = np.flatnonzero(self.meets & (shift != 0.0).any(1))
        if not len(hit):
            return
        buffers.P[hit, :3] -= shift[hit]
        depths = np.linalg.norm(shift[hit], axis=1)
        touching.poses = poses
        touching.meet(hit, depths, shift[hit] / depths[:, None], buffers, impact)
        shift[hit] = 0.0
        buffers.touched[hit] = True

    def _find_pairs(self, recovery: float, scene: Scene, impact: Restitution) -> None:
        """Find the pairs that overlap now."""
        buffers, count = scene.buffers, len(self._listed)
        found = PairArrays(self._listed, np.zeros(count), np.zeros((count, 3)))
        # They are moved apart one by one in a copy, for what that says of depths and normals.
        tried = buffers._replace(P=buffers.P.copy())
        of = (recovery, found, self._no_groups, scene.particles, tried)
        self._launcher.call(separate, 0, count, 0, *of)
        hit = np.flatnonzero(found.depths > 0.0)
        self._pairs.meet(hit, found.depths[hit], found.normals[hit], buffers, impact)

    def resolve(
        self, recovery: float, scene: Scene, impact: Restitution, supports: Supports | None = None
    ) -> None:
        """Find the impulses of all contacts, and move the bodies by them.

        Contacts of hulls, which may support what elastic pieces rest on, are among them if chains of contacts
        lead from them to such a piece; their impulses are written back.
        """
        self._read_impulses(scene.buffers.P)
        if len(self._listed):
            self._find_pairs(recovery, scene, impact)
        kinds = [(t, np.flatnonzero(t.active)) for t in (*self._colliders, self._pairs)]
        kinds = [(touching, which) for touching, which in kinds if len(which)]
        if not kinds:
            return
        first = np.concatenate([t.first[which] for t, which in kinds])
        second = np.concatenate(
            [np.full(len(which), -1) if t.second is None else t.second[which] for t, which in kinds]
        )
        vectors = [t.vectors(which, scene.buffers) for t, which in kinds]
        before, now = (np.concatenate(v) for v in zip(*vectors, strict=True))
        normals, levels, old = (
            np.concatenate([getattr(t, name)[which] for t, which in kinds])
            for name in ("normals", "levels", "impulses")
        )
        count = len(first)
        if supports is None:
            supports = NO_SUPPORTS
        sides = self._bodies_of(supports)
        beside = np.flatnonzero(self._leads_here(sides, first, second))
        every, supports = supports, Supports(*(each[beside] for each in supports))
        ends = _Ends.of(first, second, supports, sides[beside], self._body_of, scene.buffers.P)
        old = np.concatenate([old, ends.signs[:, None] * supports.impulses])
        bodies = self._bodies(impact.substep, ends, scene)
        contacts = ImpulseContacts(
            first=self._slot[ends.first],
            second=np.where(ends.second >= 0, self._slot[ends.second], -1),
            normals=np.concatenate([normals, ends.signs[:, None] * supports.normals]),
            needs=np.concatenate([levels - np.einsum("ni,ni->n", normals, now), supports.needs]),
            slips=np.concatenate([now - before, ends.signs[:, None] * supports.slips]),
            friction=np.concatenate(
                [*(np.full(len(which), t.friction) for t, which in kinds), supports.friction]
            ),
            impulses=old.copy(),
            gives=np.empty((len(old), 2)),
        )
        settled = SETTLED * impact.substep * impact.threshold
        self._launcher.call(find_impulses, SWEEPS, settled, bodies, contacts)
        stops = np.cumsum([len(which) for _, which in kinds])[:-1]
        for (t, which), impulses in zip(kinds, np.split(contacts.impulses[:count], stops), strict=True):
            t.impulses[which] = impulses
        every.impulses[beside] = ends.signs[:, None] * contacts.impulses[count:]
        self._apply(impact.substep, ends, contacts.impulses - old, scene)
        own = ImpulseContacts(*(each[:count] for each in contacts))
        self._last, self._found = kinds, _Found(own, (first, second), levels, before)

    def hold(self, P: Array) -> None:
        """Let the impulses act on each piece while it is relaxed, as if the others stood where they are.

        These are all others, rigid groups as well, once they have been moved by their impulses and out of
        all that they overlap.
        """
        self._holds, self._acting = {}, []
        if self._found is None:
            return
        contacts, ends, levels, before = self._found
        for sign, mine, other in ((1.0, ends[0], ends[1]), (-1.0, ends[1], ends[0])):
            elastic = np.flatnonzero((mine >= 0) & self.meets[mine])
            there = np.where((other >= 0)[:, None], P[other, :3], 0.0)
            for name in np.unique(self._body_of[mine[elastic]]):
                which = elastic[self._body_of[mine[elastic]] == name]
                self._acting.append(_Acting(int(name), which, sign, mine[which], there[which]))
        for name in sorted({end.piece for end in self._acting}):
            own = [end for end in self._acting if end.piece == name]
            which = np.concatenate([end.which for end in own])
            signs = np.repeat([end.sign for end in own], [len(end.which) for end in own])[:, None]
            there = np.concatenate([end.there for end in own])
            normals, impulses = signs * contacts.normals[which], signs * contacts.impulses[which]
            pushes = (normals * impulses).sum(1)
            gives = contacts.gives[which]
            held, slots = np.unique(
                self._number[np.concatenate([end.particles for end in own])], return_inverse=True
            )
            self._holds[name] = Holds(
                particles=held,
                slots=slots,
                normals=normals,
                levels=levels[which] + (normals * there).sum(1),
                pushes=pushes,
                anchors=there + signs * before[which],
                drags=impulses - pushes[:, None] * normals,
                bounds=contacts.friction[which] * pushes,
                gains=GAIN / np.maximum(gives, LEAST_GIVE * gives.max(1, keepdims=True)),
            )

    def _read_impulses(self, P: Array) -> None:
        """Take over the impulses that act now that the pieces have been relaxed, the mean of both sides."""
        if not self._holds:
            return
        count = sum(len(which) for _, which in self._last)
        total, sides = np.zeros((count, 3)), np.zeros(count)
        seen = dict.fromkeys(self._holds, 0)
        acting = {
            name: holds.impulses(P[self.pieces[name].lattice.members[holds.particles], :3])
            for name, holds in self._holds.items()
        }
        for end in self._acting:
            name, size = end.piece, len(end.which)
            part = slice(seen[name], seen[name] + size)
            along, across, _ = acting[name]
            normals = self._holds[name].normals[part]
            total[end.which] += end.sign * (along[part, None] * normals + across[part])
            sides[end.which] += 1
            seen[name] += size
        ends = np.cumsum([len(which) for _, which in self._last])[:-1]
        for (t, which), impulses in zip(self._last, np.split(total / sides[:, None], ends), strict=True):
            t.impulses[which] = impulses

    def recover(self, buffers: ParticleBuffers) -> None:
        """Shift pieces out of what they overlapped before the substep, of which no speed comes."""
        for t in (*self._colliders, self._pairs):
            which = np.flatnonzero(t.active & (t.overlaps > 0.0))
            if not len(which):
                continue
            share = np.ones(len(which)) if t.second is None else np.full(len(which), 0.5)
            ends = [(t.first[which], 1.0)] + ([] if t.second is None else [(t.second[which], -1.0)])
            for particles, sign in ends:
                for name in np.unique(self._body_of[particles][self.meets[particles]]):
                    mine = self._body_of[particles] == name
                    piece = self.pieces[name]
                    if piece.fixed.any():
                        continue
                    normals, wanted = sign * t.normals[which][mine], (share * t.overlaps[which])[mine]
                    way = np.zeros(3)
                    for _ in range(SHIFTS):
                        for n, far in zip(normals, wanted, strict=True):
                            way += max(0.0, far - float(n @ way)) * n
                    buffers.P[piece.lattice.members, :3] += way
                    buffers.X[piece.lattice.members] += way

    def _bodies_of(self, supports: Supports) -> Integers:
        """Return the bodies (k, 2) of both sides of contacts of hulls, -1 for what does not move."""
        groups, particles = supports.groups, supports.particles
        alone = np.where(particles >= 0, self._body_of[particles], -1)
        return np.where(groups >= 0, len(self.pieces) + groups, alone)

    def _leads_here(self, sides: Integers, first: Integers, second: Integers) -> NDArray[np.bool_]:
        """Return from which contacts of hulls, by their bodies (k, 2), chains of contacts lead to a piece.

        `first` and `second` are the particles of the pieces' own contacts, -1 for colliders. What does not
        move passes nothing on.
        """
        met = second >= 0
        own = self._body_of[np.stack([first[met], second[met]], axis=1)]
        links = np.concatenate([own, sides[(sides >= 0).all(1)]])
        count = self._alone_from + len(self._body_of)
        graph = coo_array((np.ones(len(links)), (links[:, 0], links[:, 1])), shape=(count, count))
        island = connected_components(graph, directed=False)[1]
        elastic = np.zeros(count, np.bool_)
        elastic[island[: len(self.pieces)]] = True
        return np.asarray(elastic[island[sides.max(1)]])

    def _bodies(self, h: float, ends: _Ends, scene: Scene) -> ImpulseBodies:
        """Return the points in contact, by their bodies, with what impulses do to these."""
        chosen = np.unique(np.concatenate([ends.first, ends.second[ends.second >= 0]]))
        chosen = chosen[np.argsort(ends.body_of[chosen], kind="stable")]
        names, body_of, counts = np.unique(ends.body_of[chosen], return_inverse=True, return_counts=True)
        starts = np.concatenate([[0], np.cumsum(counts)])
        elastic = names < len(self.pieces)
        blocks = [np.empty((0, 9))]
        arms, inverses = np.zeros((len(chosen), 3)), np.zeros((len(names), 10))
        for b, name in enumerate(names):
            part = slice(starts[b], starts[b + 1])
            if elastic[b]:
                blocks.append(self._responses(h, int(name), chosen[part], scene))
            elif name >= self._alone_from:
                inverses[b, 0] = scene.particles.inverse_mass[name - self._alone_from]
            else:
                row = scene.groups.rows[name - len(self.pieces)]
                arms[part] = ends.points[chosen[part]] - row[CENTROID : CENTROID + 3]
                inverses[b] = row[INVERSE_MASS], *_inverse_inertia(row).ravel()
        self._slot = np.full(len(ends.points), -1)
        self._slot[chosen] = np.arange(len(chosen))
        return ImpulseBodies(
            body_of=body_of,
            starts=starts,
            block_starts=np.concatenate([[0], np.cumsum(np.where(elastic, counts**2, 0))]),
            responses=np.concatenate(blocks),
            moved=np.zeros((len(chosen), 3)),
            arms=arms,
            inverses=inverses,
            motions=np.zeros((len(names), 6)),
        )

    def _responses(self, h: float, name: int, chosen: Integers, scene: Scene) -> Array:
        """Return how far particles of an elastic piece go for impulses on each other, (k k, 9) [1/kg]."""
        piece, local = self.pieces[name], self._number[chosen]
        own = piece.inverse(h).compliance(local).transpose(0, 2, 1, 3)
        turns = scene.buffers.E[chosen].reshape(-1, 3, 3)
        # To world axes, of the particle that is moved and of that with the impulse.
        turned = np.matmul(turns[:, None], np.matmul(own, turns.transpose(0, 2, 1)[None]))
        return np.ascontiguousarray(turned).reshape(-1, 9)

    def _apply(self, h: float, ends: _Ends, impulses: Array, scene: Scene) -> None:
        """Apply impulses on the first points, and the opposite ones on the second."""
        both = ends.second >= 0
        chosen = np.concatenate([ends.first, ends.second[both]])
        total = np.zeros((len(ends.points), 3))
        np.add.at(total, chosen, np.concatenate([impulses, -impulses[both]]))
        chosen = np.unique(chosen)
        particles, buffers = scene.particles, scene.buffers
        body = ends.body_of[chosen]
        alone = body >= self._alone_from
        single = body[alone] - self._alone_from
        np.add.at(buffers.P[:, :3], single, total[chosen[alone]] * particles.inverse_mass[single, None])
        for name in np.unique(body[~alone]):
            mine = chosen[body == name]
            if name < len(self.pieces):
                self.pieces[name].apply_impulses(h, self._number[mine], total[mine], particles, buffers)
            else:
                row = scene.groups.rows[name - len(self.pieces)]
                arms = ends.points[mine] - row[CENTROID : CENTROID + 3]
                row[TRANSLATION : TRANSLATION + 3] += row[INVERSE_MASS] * total[mine].sum(0)
                row[ROTATION : ROTATION + 3] += _inverse_inertia(row) @ np.cross(arms, total[mine]).sum(0)


def _inverse_inertia(row: Array) -> Array:
    """Return the inverse inertia (3, 3) in the row of a rigid group [1/(kg m^2)]."""
    a, b, c, d, e, f = row[INVERSE_INERTIA : INVERSE_INERTIA + 6]
    return np.array([[a, b, c], [b, d, e], [c, e, f]])


def _displacements(poses: ColliderPoses, x: Array) -> Array:
    """Return how far a collider has moved its points that are now at x (k, 3), since the substep began."""
    now, before = poses.now.rotation.reshape(3, 3), poses.before.rotation.reshape(3, 3)
    return np.asarray(x - ((x - poses.now.translation) @ now @ before.T + poses.before.translation))
