"""Contacts of thin parts, ropes and cloth, with particles and with each other in one substep."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ...checks import Array
from ...compute.launching import Launcher
from ...procrustes.groups import bisect_points
from .colouring import by_color
from .kernels.contact import thin as kernels
from .kernels.contact.records import Friction, PairFilter, Restitution, Sheets, Survey, ThinContactArrays
from .kernels.records import ParticleArrays, ParticleBuffers, RigidGroups
from .pairs import NearPairs, each_color
from .thin import ThinParts

__all__ = ["ThinContacts"]

# Parts or contacts worth a thread of their own.
GRAIN = 512
# Passes over what would pass through, at most: each makes more of it go together.
ZONE_PASSES = 32
# Families of what is not in a calm sheet: particles do not meet particles here, nor inner parts inner parts.
KINDS = ("particle", "inner")
# Corners of a patch, at least, and patches for each sheet or altogether, about at most.
PATCH, PATCHES = 24, 64
# Ratio by which what is fixed weighs more.
FIXED = 1e12


class ThinContacts:
    """Found once in a substep, then separated in every iteration, as those of particles are."""

    arrays: ThinContactArrays
    """What may touch, and how far contact has moved it."""

    def __init__(
        self,
        parts: ThinParts,
        bounds: Array,
        family: NDArray[np.int64],
        piece_of: NDArray[np.int64],
        positions: Array,
    ) -> None:
        self.parts, self.family, self.piece_of = parts, family, piece_of
        self.launcher = Launcher()
        radii = np.full(len(bounds), np.inf)
        for members, thickness in ((parts.edges, parts.edge_radii), (parts.triangles, parts.triangle_radii)):
            np.minimum.at(radii, members, thickness[:, None])
        self.bulky = np.isinf(radii)
        self.vertices = np.flatnonzero(~self.bulky)
        self.point_radii = np.where(self.bulky, 0.0, radii)
        self.bounds = np.where(self.bulky, bounds, radii)
        self.sheets = _sheets(parts, self.vertices, piece_of, positions)
        self.survey = Survey(
            calm=np.zeros(len(self.sheets.detours), np.bool_),
            boxes=np.empty((len(self.sheets.sheets) + 1, 6)),
            active=np.zeros(len(self.sheets.sheets), np.bool_),
            wanted=np.zeros(len(bounds), np.bool_),
        )
        # How far parts may be moved before they are looked at again, m.
        self.margin = 0.5 * float(radii.min())
        self._seen = np.empty((len(self.vertices), 3))
        self.finders: dict[str, NearPairs] = {}
        self._nothing = self.arrays = _joined([])

    def __len__(self) -> int:
        return len(self.arrays.particles)

    def begin(self) -> None:
        """Begin a substep: nothing has been found yet."""
        self._seen[0, 0] = np.nan

    def prepare(
        self, buffers: ParticleBuffers, particles: ParticleArrays, group_of: NDArray[np.int64]
    ) -> None:
        """Find what may meet on its path from X to P, by colour; what was found before may still do."""
        X, P = buffers.X, buffers.P
        if not self._have_moved(P):
            return
        found = self._found(buffers, particles)
        if not len(found.particles):
            self.arrays = found
            return
        moving = np.where(group_of >= 0, len(X) + group_of, np.arange(len(X)))
        nodes = np.where(particles.fixed, -1, moving)[found.particles].ravel()
        order, self.colors = by_color(np.arange(0, len(nodes) + 1, 4), nodes, int(moving.max()) + 1)
        self.arrays = _rows(found, order)

    def _have_moved(self, P: Array) -> bool:
        """Return whether thin parts have been moved since they were looked at, and take note of it."""
        return bool(self.launcher.call(kernels.note_moves, self.vertices, self.margin, P, self._seen))

    def _found(self, buffers: ParticleBuffers, particles: ParticleArrays) -> ThinContactArrays:
        """Return what may meet on its path from X to P."""
        X, P, parts = buffers.X, buffers.P, self.parts
        looked_at = (self.sheets, self.piece_of, self.bounds, X, P, buffers.E, self.survey)
        self.launcher.call(kernels.survey, *looked_at)
        near = np.flatnonzero(self.survey.wanted)
        if not len(near):
            return self._nothing
        active = self.survey.active[self.sheets.patch_of]
        triangles, edges = (
            np.flatnonzero(active[parts.triangles[:, 0]]),
            np.flatnonzero(active[parts.edges[:, 0]]),
        )
        found = _joined([*self._at_triangles(near, triangles, X, P), *self._at_edges(near, edges, X, P)])
        kept = np.zeros(len(found.particles), np.bool_)
        if len(kept):
            chosen = (self.family, particles, X, P, found, kept)
            self.launcher.run(kernels.choose_candidates, len(kept), GRAIN, *chosen)
        return _rows(found, kept)

    def _families(self, corners: NDArray[np.int64], otherwise: Array | int) -> NDArray[np.int64]:
        """Return the families of parts by a corner: one for each calm sheet, which does not meet itself."""
        sheet = self.sheets.sheet_of[corners]
        calm = (sheet >= 0) & self.survey.calm[sheet]
        return np.where(calm, len(KINDS) + sheet, otherwise)

    def _at_triangles(
        self, near: NDArray[np.int64], chosen: NDArray[np.int64], X: Array, P: Array
    ) -> list[ThinContactArrays]:
        """Return the particles that may meet triangles."""
        parts = self.parts
        if not len(chosen):
            return []
        sides = [
            (near[:, None], self.bounds[near], self._families(near, KINDS.index("particle"))),
            (
                parts.triangles[chosen],
                parts.triangle_radii[chosen],
                self._families(parts.triangles[chosen, 0], KINDS.index("inner")),
            ),
        ]
        i, k = self._near("triangles", sides, X, P)
        unlike = (i < len(near)) & (k >= len(near))
        i, k = near[i[unlike]], chosen[k[unlike] - len(near)]
        members = np.column_stack([i, parts.triangles[k]])
        reach = parts.triangle_radii[k] + self.point_radii[i]
        return [_contacts(members, np.ones(len(i), np.bool_), self.bulky[i], reach)]

    def _at_edges(
        self, near: NDArray[np.int64], chosen: NDArray[np.int64], X: Array, P: Array
    ) -> list[ThinContactArrays]:
        """Return the particles that may meet ropes, and the edges that may meet each other.

        Particles meet cloth at its triangles, and two edges within cloth are kept apart by these.
        """
        parts = self.parts
        if not len(chosen):
            return []
        bulky = near[self.bulky[near]] if parts.ropes[chosen].any() else near[:0]
        within = np.where(parts.inner[chosen], KINDS.index("inner"), -1)
        sides = [
            (bulky[:, None], self.bounds[bulky], self._families(bulky, KINDS.index("particle"))),
            (
                parts.edges[chosen],
                parts.edge_radii[chosen],
                self._families(parts.edges[chosen, 0], within),
            ),
        ]
        i, k = self._near("edges", sides, X, P)
        point = i < len(bulky)
        k = chosen[k - len(bulky)]
        rope = point & parts.ropes[k]
        a, b = bulky[i[rope]], k[rope]
        members = np.column_stack([a, a, parts.edges[b]])
        at_ropes = _contacts(
            members, np.zeros(len(a), np.bool_), np.ones(len(a), np.bool_), parts.edge_radii[b]
        )
        a, b = chosen[i[~point] - len(bulky)], k[~point]
        members = np.column_stack([parts.edges[a], parts.edges[b]])
        none = np.zeros(len(a), np.bool_)
        return [at_ropes, _contacts(members, none, none, parts.edge_radii[a] + parts.edge_radii[b])]

    def _near(
        self,
        name: str,
        sides: Sequence[tuple[NDArray[np.int64], Array, NDArray[np.int64]]],
        X: Array,
        P: Array,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the near pairs, smaller number first, of all that both sides list, one after the other."""
        count = sum(len(members) for members, _, _ in sides)
        begin, end, bounds = np.empty((count, 3)), np.empty((count, 3)), np.empty(count)
        family, first = np.empty(count, np.int64), 0
        for members, radii, kin in sides:
            part = slice(first, first + len(members))
            family[part] = kin
            paths = (begin[part], end[part], bounds[part])
            items = (np.ascontiguousarray(members), radii, X, P, paths)
            self.launcher.run(kernels.item_paths, len(members), GRAIN, *items)
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

    def hold(self, groups: RigidGroups, particles: ParticleArrays, buffers: ParticleBuffers) -> None:
        """Keep everything from passing through, whatever contacts could not resolve.

        Those that would pass go together from where they were, with the momentum that they have, and so does
        what these would pass through then (impact zones: Provot 1997; Bridson et al. 2002).
        """
        count, X, P, candidates = len(particles.mass), buffers.X, buffers.P, self.arrays
        whole = np.where(groups.group_of >= 0, count + groups.group_of, np.arange(count))
        together = np.empty((0, 4), np.int64)
        for _ in range(ZONE_PASSES):
            if self._have_moved(P):
                candidates = self._found(buffers, particles)
            passing = np.zeros(len(candidates.particles), np.bool_)
            if len(passing):
                found = (candidates, particles, buffers, passing)
                self.launcher.run(kernels.find_passing, len(passing), GRAIN, *found)
            if not passing.any():
                return
            together = np.concatenate([together, candidates.particles[passing]])
            nodes, size = whole[together], int(whole.max()) + 1
            pairs = (np.repeat(nodes[:, 0], 3), nodes[:, 1:].ravel())
            links = coo_array((np.ones(len(pairs[0])), pairs), shape=(size, size))
            zone = connected_components(links, directed=False)[1][whole]
            members = np.flatnonzero(np.isin(zone, zone[together[:, 0]]))
            zone = np.unique(zone[members], return_inverse=True)[1]
            weight = particles.mass[members] * np.where(particles.fixed[members], FIXED, 1.0)
            total = np.bincount(zone, weight)
            for j in range(3):
                way = P[members, j] - X[members, j]
                P[members, j] = X[members, j] + (np.bincount(zone, weight * way) / total)[zone]
            buffers.touched[members] = True

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


def _sheets(
    parts: ThinParts, vertices: NDArray[np.int64], piece_of: NDArray[np.int64], positions: Array
) -> Sheets:
    """Return the pieces that have thin parts, in patches of near corners."""
    pieces, sheet = np.unique(piece_of[vertices], return_inverse=True)
    sheet_of, patch_of = np.full(len(positions), -1), np.full(len(positions), -1)
    sheet_of[vertices] = sheet
    most = max(PATCH, len(vertices) // PATCHES)
    sheets: list[int] = []
    for k in range(len(pieces)):
        corners = vertices[sheet == k]
        for patch in bisect_points(positions[corners], most):
            patch_of[corners[patch]] = len(sheets)
            sheets.append(k)
    # A part belongs to the patch of its first corner, and all its corners are in the box of that.
    entries = [
        np.stack([members.ravel(), np.repeat(patch_of[members[:, 0]], members.shape[1])])
        for members in (parts.edges, parts.triangles)
    ]
    corners, patches = np.unique(np.concatenate(entries, axis=1), axis=1)
    return Sheets(sheet_of, patch_of, np.array(sheets), pieces, parts.detours[pieces], corners, patches)


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


def _rows(contacts: ThinContactArrays, which: Array) -> ThinContactArrays:
    """Return some of the contacts, by number or mask."""
    arrays: list[Any] = [array[which] for array in contacts]
    return ThinContactArrays(*arrays)


def _joined(listed: list[ThinContactArrays]) -> ThinContactArrays:
    """Return all contacts of a list as one."""
    no_flags = np.zeros(0, np.bool_)
    none = _contacts(np.empty((0, 4), np.int64), no_flags, no_flags, np.zeros(0))
    together: list[Any] = [np.concatenate(arrays) for arrays in zip(none, *listed, strict=True)]
    return ThinContactArrays(*together)
