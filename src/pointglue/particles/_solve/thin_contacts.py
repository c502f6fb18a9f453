"""Contacts of thin parts, ropes and cloth, with particles and with each other in one substep."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute.launching import Launcher
from .colouring import by_color
from .kernels import thin as kernels
from .kernels.records import (
    Friction,
    PairFilter,
    ParticleArrays,
    ParticleBuffers,
    Restitution,
    RigidGroups,
    ThinContactArrays,
)
from .pairs import NearPairs, each_color
from .thin import ThinParts

__all__ = ["ThinContacts"]

# Parts or contacts worth a thread of their own.
GRAIN = 512
# Ratio to the distance of contact of a correction that leaves doubt whether the sides are still right.
FAR = 0.2


class ThinContacts:
    """Found once in a substep, then separated in every iteration, as those of particles are."""

    arrays: ThinContactArrays
    """What may touch, and how far contact has moved it."""

    def __init__(self, parts: ThinParts, bounds: Array, family: NDArray[np.int64]) -> None:
        self.parts, self.family = parts, family
        self.launcher = Launcher()
        radii = np.full(len(bounds), np.inf)
        for members, thickness in ((parts.edges, parts.edge_radii), (parts.triangles, parts.triangle_radii)):
            np.minimum.at(radii, members, thickness[:, None])
        self.bulky = np.isinf(radii)
        self.vertices = np.flatnonzero(~self.bulky)
        self.point_radii = np.where(self.bulky, 0.0, radii)
        self.bounds = np.where(self.bulky, bounds, radii)
        # How far parts may be moved before they are looked at again, m.
        self.margin = 0.5 * float(radii.min())
        self.finders: dict[str, NearPairs] = {}
        self.arrays = _candidates([])

    def __len__(self) -> int:
        return len(self.arrays.particles)

    def begin(self) -> None:
        """Begin a substep: nothing has been found yet."""
        self._seen: Array | None = None

    def prepare(self, X: Array, P: Array, particles: ParticleArrays, group_of: NDArray[np.int64]) -> None:
        """Find what may meet on its path from X to P, sorted by colour; what was found before may still do."""
        now = P[self.vertices, :3]
        if self._seen is not None and np.abs(now - self._seen).max() <= self.margin:
            return
        self._seen = now
        near = self._near_particles(X, P)
        found = _candidates([*self._at_triangles(near, X, P), *self._at_edges(near, X, P)])
        kept = np.zeros(len(found.particles), np.bool_)
        if len(kept):
            chosen = (self.family, particles, X, P, found, kept)
            self.launcher.run(kernels.choose_candidates, len(kept), GRAIN, *chosen)
        if not kept.any():
            self.arrays = _candidates([])
            return
        order = np.flatnonzero(kept)
        moving = np.where(group_of >= 0, len(X) + group_of, np.arange(len(X)))
        nodes = np.where(particles.fixed, -1, moving)[found.particles[order]].ravel()
        starts = np.arange(0, 4 * len(order) + 1, 4)
        sorted_by_color, self.colors = by_color(starts, nodes, int(moving.max()) + 1)
        order = order[sorted_by_color]
        self.arrays = ThinContactArrays(*(array[order] for array in found))

    def _near_particles(self, X: Array, P: Array) -> NDArray[np.int64]:
        """Return the particles whose paths enter the box around those of all thin parts."""
        ends = np.concatenate([X[self.vertices], P[self.vertices, :3]])
        margin = self.bounds[self.vertices].max()
        low, high = ends.min(0) - margin, ends.max(0) + margin
        reach = 1.1 * self.bounds[:, None]
        below = np.minimum(X, P[:, :3]) - reach <= high
        return np.flatnonzero((below & (np.maximum(X, P[:, :3]) + reach >= low)).all(1))

    def _at_triangles(self, near: NDArray[np.int64], X: Array, P: Array) -> list[ThinContactArrays]:
        """Return the particles that may meet triangles."""
        parts = self.parts
        if not len(parts.triangles):
            return []
        sides = [(near[:, None], self.bounds[near], 0), (parts.triangles, parts.triangle_radii, 1)]
        i, k = self._found("triangles", sides, X, P)
        i, k = near[i], k - len(near)
        members = np.column_stack([i, parts.triangles[k]])
        reach = parts.triangle_radii[k] + self.point_radii[i]
        return [_contacts(members, np.ones(len(i), np.bool_), self.bulky[i], reach)]

    def _at_edges(self, near: NDArray[np.int64], X: Array, P: Array) -> list[ThinContactArrays]:
        """Return the particles that may meet ropes, and the edges that may meet each other.

        Particles meet cloth at its triangles, and two edges within cloth are kept apart by these.
        """
        parts = self.parts
        if not len(parts.edges):
            return []
        bulky = near[self.bulky[near]] if parts.ropes.any() else near[:0]
        family = np.where(parts.inner, 1, -1)
        sides = [(bulky[:, None], self.bounds[bulky], 0), (parts.edges, parts.edge_radii, family)]
        i, k = self._found("edges", sides, X, P)
        point = i < len(bulky)
        k -= len(bulky)
        rope = point & parts.ropes[k]
        a, b = bulky[i[rope]], k[rope]
        members = np.column_stack([a, a, parts.edges[b]])
        at_ropes = _contacts(
            members, np.zeros(len(a), np.bool_), np.ones(len(a), np.bool_), parts.edge_radii[b]
        )
        a, b = i[~point] - len(bulky), k[~point]
        members = np.column_stack([parts.edges[a], parts.edges[b]])
        none = np.zeros(len(a), np.bool_)
        return [at_ropes, _contacts(members, none, none, parts.edge_radii[a] + parts.edge_radii[b])]

    def _found(
        self, name: str, sides: list[tuple[NDArray[np.int64], Array, Array | int]], X: Array, P: Array
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the near pairs, smaller number first, of all that both sides list, one after the other."""
        count = sum(len(members) for members, _, _ in sides)
        begin, end, bounds = np.empty((count, 3)), np.empty((count, 3)), np.empty(count)
        family, first = np.empty(count, np.int64), 0
        for members, radii, kin in sides:
            part = slice(first, first + len(members))
            family[part] = kin
            paths = (np.ascontiguousarray(members), radii, X, P, begin[part], end[part], bounds[part])
            self.launcher.run(kernels.item_paths, len(members), GRAIN, *paths)
            first += len(members)
        finder = self.finders.get(name)
        if finder is None or len(finder.counts) != count:
            finder = self.finders[name] = NearPairs(count, None if finder is None else finder.launcher)
        none = np.zeros(count + 1, np.int64)
        pairs = finder.find(bounds, begin, end, PairFilter(family, np.zeros(count, np.bool_), none[:0], none))
        return pairs[:, 0], pairs[:, 1]

    def _each(self, function: Callable[..., None], *arguments: object) -> None:
        if len(self):
            each_color(self.launcher, self.colors, function, *arguments)

    def separate(
        self, recovery: float, groups: RigidGroups, particles: ParticleArrays, buffers: ParticleBuffers
    ) -> None:
        """Move apart what overlaps, or has passed through; old overlaps by at most `recovery`."""
        self._each(kernels.separate_thin, recovery, self.arrays, groups, particles, buffers)

    def hold(
        self, recovery: float, groups: RigidGroups, particles: ParticleArrays, buffers: ParticleBuffers
    ) -> bool:
        """Separate once more, and return whether that moved anything far enough to have passed."""
        before = self.arrays.depths.copy()
        self.separate(recovery, groups, particles, buffers)
        first = self.arrays.particles[:, 0]
        widest = self.arrays.reach + np.where(self.arrays.bulky, self.bounds[first], 0.0)
        return bool((self.arrays.depths - before > FAR * widest).any())

    def apply_friction(
        self, coefficients: Friction, groups: RigidGroups, particles: ParticleArrays, buffers: ParticleBuffers
    ) -> None:
        """Apply friction between what touched."""
        self._each(kernels.thin_friction, coefficients, self.arrays, groups, particles, buffers)

    def apply_restitution(
        self,
        restitution: Restitution,
        groups: RigidGroups,
        particles: ParticleArrays,
        buffers: ParticleBuffers,
    ) -> None:
        """Limit the speed at which parts that touched part."""
        self._each(kernels.thin_restitution, restitution, self.arrays, groups, particles, buffers)


def _contacts(
    members: NDArray[np.int64], faces: NDArray[np.bool_], bulky: NDArray[np.bool_], reach: Array
) -> ThinContactArrays:
    """Return contacts in which nothing has happened yet."""
    count = len(members)
    return ThinContactArrays(
        particles=members,
        faces=faces,
        bulky=bulky,
        reach=reach,
        starts=np.zeros(count),
        weights=np.zeros((count, 4)),
        depths=np.zeros(count),
        normals=np.zeros((count, 3)),
    )


def _candidates(listed: list[ThinContactArrays]) -> ThinContactArrays:
    """Return all contacts of a list as one."""
    no_flags = np.zeros(0, np.bool_)
    none = _contacts(np.empty((0, 4), np.int64), no_flags, no_flags, np.zeros(0))
    return ThinContactArrays(*(np.concatenate(arrays) for arrays in zip(none, *listed, strict=True)))
