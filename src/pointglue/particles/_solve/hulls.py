"""Rigid groups that collide as convex hulls: their shapes, their contacts and what these do in a substep."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull

from ...checks import Array
from ...compute.launching import Launcher
from ...geometry.quaternions import matrices_of
from ..body import OrientedBody
from ..state import ParticleState
from .kernels.contact import hulls as shapes
from .kernels.contact import rigid, rows
from .kernels.contact.records import (
    ColliderPoses,
    HullArrays,
    HullPlaces,
    HullSides,
    Pose,
    Restitution,
    Supports,
)
from .kernels.records import ParticleArrays, ParticleBuffers, RigidGroups

__all__ = ["BOX", "HullContacts", "HullShape", "RigidHull", "Wall", "hull_shape", "rigid_hulls"]

# Ratio to the size of a hull: facets whose planes differ by less are one face.
FLAT = 1e-6
# Sweeps over all contacts: of impulses, at most, and of velocities.
SWEEPS, SPEED_SWEEPS = 400, 20
# m: where walls are while only what belongs to bodies counts.
FAR = 1e30
# The box from -1 to 1.
BOX = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])


class HullShape(NamedTuple):
    """One convex hull: corners (v, 3), normals (f, 3), the loop of corners of each face, edges (e, 4)."""

    corners: Array
    normals: Array
    loops: list[NDArray[np.int64]]
    edges: NDArray[np.int64]


def hull_shape(points: Array) -> HullShape:
    """Return the convex hull of points (k, 3), with facets of one plane as one face."""
    found = ConvexHull(points)
    size = np.ptp(points, axis=0).max()
    planes = found.equations * [1, 1, 1, 1 / size]
    faces: list[NDArray[np.int64]] = []
    left = np.ones(len(planes), np.bool_)
    while left.any():
        one = int(np.flatnonzero(left)[0])
        same = left & (np.abs(planes - planes[one]).max(1) < FLAT)
        faces.append(np.flatnonzero(same))
        left &= ~same
    used = found.vertices
    corners, normals, loops = points[used], np.empty((len(faces), 3)), []
    number = np.full(len(points), -1)
    number[used] = np.arange(len(used))
    middle = corners.mean(0)
    for k, face in enumerate(faces):
        n = planes[face[0], :3]
        own = np.unique(number[found.simplices[face]])
        about = corners[own] - corners[own].mean(0)
        u = about[0] / np.linalg.norm(about[0])
        angle = np.arctan2(about @ np.cross(n, u), about @ u)
        loops.append(own[np.argsort(angle, kind="stable")])
        normals[k] = n
        if (corners[own[0]] - middle) @ n < 0:  # qhull's normals point outwards; rounding might not
            normals[k] = -n
    beside: dict[tuple[int, int], list[int]] = {}
    for k, loop in enumerate(loops):
        for a, b in zip(loop, np.roll(loop, -1), strict=True):
            beside.setdefault((min(a, b), max(a, b)), []).append(k)
    edges = [(*ends, *sides) for ends, sides in beside.items() if len(sides) == 2]
    return HullShape(corners, normals, loops, np.array(edges, np.int64).reshape(-1, 4))


def _joined(hulls: Sequence[HullShape], leads: NDArray[np.int64]) -> HullArrays:
    """Return all hulls as one record."""
    corner_starts = np.cumsum([0, *(len(hull.corners) for hull in hulls)]).astype(np.int64)
    face_starts = np.cumsum([0, *(len(hull.normals) for hull in hulls)]).astype(np.int64)
    loops = [loop + c for hull, c in zip(hulls, corner_starts, strict=False) for loop in hull.loops]
    edges = [hull.edges + [c, c, f, f] for hull, c, f in zip(hulls, corner_starts, face_starts, strict=False)]
    middles = [hull.corners.mean(0) for hull in hulls]
    return HullArrays(
        corner_starts=corner_starts,
        corners=np.concatenate([hull.corners for hull in hulls]),
        face_starts=face_starts,
        normals=np.concatenate([hull.normals for hull in hulls]),
        loop_starts=np.cumsum([0, *(len(loop) for loop in loops)]).astype(np.int64),
        loops=np.concatenate(loops),
        edge_starts=np.cumsum([0, *(len(hull.edges) for hull in hulls)]).astype(np.int64),
        edges=np.concatenate(edges),
        middles=np.array(middles),
        bounds=np.array(
            [np.linalg.norm(h.corners - m, axis=1).max() for h, m in zip(hulls, middles, strict=True)]
        ),
        sizes=np.array([_inner_radius(h, m) for h, m in zip(hulls, middles, strict=True)]),
        leads=leads,
    )


def _inner_radius(hull: HullShape, middle: Array) -> float:
    """Return the distance of the nearest face from the middle [m]."""
    first = hull.corners[[loop[0] for loop in hull.loops]]
    return float(((first - middle) * hull.normals).sum(1).min())


class RigidHull(NamedTuple):
    """The hull of a rigid group, in coordinates of its first particle, which it moves with."""

    shape: HullShape
    lead: int
    members: NDArray[np.int64]
    part: int
    """The body that it belongs to."""
    free: bool
    """Whether contact moves it; otherwise all of its particles are fixed."""


def rigid_hulls(
    body: OrientedBody, state: ParticleState, fixed: NDArray[np.bool_], part_of: NDArray[np.int64]
) -> list[RigidHull]:
    """Return the hulls of groups that are whole, and free to move or fixed as a whole."""
    hulls = []
    for k, (group, points) in enumerate(zip(body.groups, body.hulls, strict=True)):
        whole = state.pause[k] == 0 and np.isinf(body.yield_speed[k])
        if not len(points) or not whole or 0 < fixed[group].sum() < len(group):
            continue
        lead = int(group[0])
        bind = matrices_of(body.orientations[lead : lead + 1])[0]
        local = (points - body.positions[lead]) @ (state.rest.rotations[lead] @ bind.T).T
        hulls.append(RigidHull(hull_shape(local), lead, group, int(part_of[lead]), not fixed[lead]))
    return hulls


class Wall(NamedTuple):
    """A collider that hulls touch with their corners and faces: a plane, or a box by its half extents."""

    number: int
    half_extents: Array | None


class HullContacts:
    """The contacts of hulls with each other, with planes, boxes and single particles, in one substep."""

    def __init__(
        self,
        hulls: Sequence[RigidHull],
        walls: Sequence[Wall],
        part_of: NDArray[np.int64],
        family: NDArray[np.int64] | None,
        up: Array,
    ) -> None:
        """Set up for rigid hulls and walls.

        `family` (n,) are particles that do not collide with each other, -1 for none; without it only walls
        collide. `up` is the direction against gravity.
        """
        self.launcher, self.up, self.family = Launcher(), up, family
        self.walls = [wall for wall in walls if wall.half_extents is not None]
        self.planes = [wall for wall in walls if wall.half_extents is None]
        solid = [hull.shape for hull in hulls] + [hull_shape(BOX * wall.half_extents) for wall in self.walls]
        leads = np.array([hull.lead for hull in hulls], np.int64)
        self.leads = np.concatenate([leads, np.full(len(walls), -1)])
        self.movable = np.array([hull.free for hull in hulls] + [False] * len(self.walls), np.bool_)
        self.hulls = _joined(solid, self.leads[: len(solid)])
        self.world = HullPlaces(
            corners=np.empty_like(self.hulls.corners),
            normals=np.empty_like(self.hulls.normals),
            offsets=np.empty(len(self.hulls.normals)),
            middles=np.empty((len(solid), 3)),
        )
        self.room = (np.empty((shapes.CORNERS, 3)), np.empty((shapes.CORNERS, 3)))
        self.hidden = np.zeros(len(part_of), np.bool_)
        for hull in hulls:
            self.hidden[hull.members] = True
        self.spared = self.hidden  # particles that hulls do not meet, because others see to that
        self.poses = (np.empty((len(self.leads), 12)), np.empty((len(self.leads), 12)))
        self.parts = np.array([hull.part for hull in hulls] + [-1] * len(self.walls), np.int64)
        self.part_of = part_of
        self._contacts = np.empty((64, shapes.CONTACT))
        self._clear()

    def _clear(self) -> None:
        self.sides = np.empty((0, 2), np.int64)
        self.rows = np.empty((0, rows.CONTACT_ROW))

    def __len__(self) -> int:
        return len(self.rows)

    def ignore_at_rest(self, positions: Array, particles: ParticleArrays) -> None:
        """Leave out contacts that hulls have at rest with what belongs to the same body."""
        n = len(positions)
        self._apart = np.empty(0, np.int64)
        there = ParticleBuffers.empty(n)
        there.X[:], there.P[:, :3] = positions, positions
        there.E[:] = there.F[:] = np.eye(3).ravel()
        still = ColliderPoses(*[Pose(np.eye(3).ravel(), np.full(3, -FAR))] * 2)
        sides = self._found(there, particles, [still] * (len(self.walls) + len(self.planes)))[1]
        count, part = len(self.leads), np.append(self.parts, np.full(len(self.planes), -1))
        of = np.concatenate([part, self.part_of])
        sides = sides[of[sides[:, 0]] == of[sides[:, 1]]]
        self._apart = np.unique(sides[:, 0] * (count + n) + sides[:, 1])

    def prepare(
        self,
        poses: Sequence[ColliderPoses],
        friction: tuple[float, Sequence[float]],
        recovery: float,
        groups: RigidGroups,
        particles: ParticleArrays,
        buffers: ParticleBuffers,
    ) -> None:
        """Find the contacts of the substep; `poses` and, after that of pairs, `friction` are of colliders."""
        contacts, sides = self._found(buffers, particles, poses)
        if not len(sides):
            self._clear()
            return
        order = np.argsort(contacts[:, shapes.POINT : shapes.POINT + 3] @ self.up, kind="stable")
        contacts, self.sides = contacts[order], sides[order]
        count = len(self.leads)
        own, walls = friction
        # On a wall its own coefficient holds.
        of = np.full(count + len(self.hidden), -1.0)
        for k, wall in enumerate([*self.walls, *self.planes]):
            of[count - len(self.walls) - len(self.planes) + k] = walls[wall.number]
        mu = of[self.sides].max(1)
        coefficients = np.where(mu < 0, own, mu)
        # The rows of bodies: rigid groups, single particles, and one that does not move.
        self.first = len(groups.rows)
        body = np.concatenate([np.where(self.leads < 0, -1, groups.group_of[self.leads]), groups.group_of])[
            self.sides
        ]
        single = (body < 0) & (self.sides >= count)
        alone = np.unique(self.sides[single])
        last = self.first + len(alone)
        self.slots = np.where(single, self.first + np.searchsorted(alone, self.sides), body)
        self.slots[self.slots < 0] = last
        self.bodies = np.zeros((last + 1, rigid.ROW))
        turning = particles.alone | (groups.group_of >= 0)
        self.places = HullSides(self.leads, self.poses, turning)
        self.rows = np.empty((len(self.sides), rows.CONTACT_ROW))
        args = (contacts, self.sides, coefficients, recovery, self.places, buffers, self.rows)
        self.launcher.call(rows.set_rows, *args)

    def _found(
        self, buffers: ParticleBuffers, particles: ParticleArrays, poses: Sequence[ColliderPoses]
    ) -> tuple[Array, NDArray[np.int64]]:
        """Return the contacts (k, CONTACT) and their sides (k, 2)."""
        hulls, world = self.hulls, self.world
        own = len(self.leads) - len(self.walls) - len(self.planes)
        lead = self.leads[:own]
        ends = ((buffers.F, buffers.X), (buffers.E, buffers.P))
        for end, (turn, place) in enumerate(ends):
            self.poses[end][:own, :9], self.poses[end][:own, 9:] = turn[lead], place[lead, :3]
            for k, wall in enumerate([*self.walls, *self.planes]):
                pose = poses[wall.number][end]
                self.poses[end][own + k, :9], self.poses[end][own + k, 9:] = pose.rotation, pose.translation
        count = len(hulls.sizes)
        self.launcher.run(shapes.pose_hulls, count, 64, hulls, self.poses[1], world)
        before = self.poses[0][:count]
        middles = np.einsum("kij,kj->ki", before[:, :9].reshape(-1, 3, 3), hulls.middles) + before[:, 9:]
        moves = world.middles - middles
        found = [self._between_hulls(moves), self._on_planes(own)]
        if self.family is not None:
            found.append(self._with_particles(moves, particles, buffers))
        contacts = np.concatenate([contacts for contacts, _ in found])
        sides = np.concatenate([sides for _, sides in found])
        if len(self._apart):
            kept = ~np.isin(sides[:, 0] * (len(self.leads) + len(self.hidden)) + sides[:, 1], self._apart)
            contacts, sides = contacts[kept], sides[kept]
        return contacts, sides

    def _filled(self, collect: Callable[[Array], int]) -> Array:
        """Return what `collect` writes into a buffer, which grows until it is large enough."""
        while True:
            count = collect(self._contacts)
            if count <= len(self._contacts):
                return self._contacts[:count].copy()
            self._contacts = np.empty((2 * count, shapes.CONTACT))

    def _between_hulls(self, moves: Array) -> tuple[Array, NDArray[np.int64]]:
        """Return the contacts of hulls and boxes with each other."""
        hulls, world, call = self.hulls, self.world, self.launcher.call
        pairs = np.empty((0, 2), np.int64)
        family = np.full(len(hulls.sizes), -1)
        if self.family is not None:
            family[hulls.leads >= 0] = self.family[hulls.leads[hulls.leads >= 0]]
        while True:
            count = call(shapes.near_hulls, hulls, world, moves, family, self.movable, pairs)
            if count <= len(pairs):
                pairs = pairs[:count]
                break
            pairs = np.empty((count, 2), np.int64)
        if self.family is None:
            pairs = pairs[(hulls.leads[pairs] < 0).any(1)]
        counts = np.zeros(len(pairs), np.int64)
        contacts = self._filled(
            lambda room: call(shapes.collect_contacts, pairs, hulls, world, moves, self.room, room, counts)
        )
        return contacts, np.repeat(pairs, counts, axis=0)

    def _on_planes(self, own: int) -> tuple[Array, NDArray[np.int64]]:
        """Return the contacts of free hulls with planes."""
        found, sides = [np.empty((0, shapes.CONTACT))], [np.empty((0, 2), np.int64)]
        for k in range(len(self.planes)):
            pose = self.poses[1][own + len(self.walls) + k]
            normal = pose[[1, 4, 7]].copy()
            offset = float(normal @ pose[9:])
            # Only hulls whose balls reach below the plane.
            low = self.world.middles @ normal - 1.1 * self.hulls.bounds
            for a in np.flatnonzero(self.movable & (low < offset)):
                given = (shapes.collect_plane_contacts, int(a), normal, offset, self.hulls, self.world)
                new = self._filled(partial(self._on_plane, given))
                found.append(new)
                sides.append(np.tile([own + len(self.walls) + k, a], (len(new), 1)))
        return np.concatenate(found), np.concatenate(sides)

    def _on_plane(self, given: tuple[Any, ...], room: Array) -> int:
        """Write the contacts of one hull with one plane; return how many there are."""
        return int(self.launcher.call(*given, room, 0))

    def _with_particles(
        self, moves: Array, particles: ParticleArrays, buffers: ParticleBuffers
    ) -> tuple[Array, NDArray[np.int64]]:
        """Return the contacts of hulls of groups with single particles."""
        if self.spared.all():
            return np.empty((0, shapes.CONTACT)), np.empty((0, 2), np.int64)
        sides = np.empty((len(self._contacts), 2), np.int64)

        def collect(room: Array) -> int:
            nonlocal sides
            sides = np.empty((len(room), 2), np.int64)
            given = ((self.hulls, self.world), self.poses, moves, self.spared, particles, buffers)
            return int(self.launcher.call(shapes.collect_particle_contacts, *given, room, sides))

        contacts = self._filled(collect)
        sides = sides[: len(contacts)]
        sides[:, 1] += len(self.leads)
        # Boxes are met as colliders.
        kept = self.leads[sides[:, 0]] >= 0
        assert self.family is not None
        one, other = self.family[self.leads[sides[:, 0]]], self.family[sides[:, 1] - len(self.leads)]
        kept &= (one < 0) | (one != other)
        return contacts[kept], sides[kept]

    def solve(self, groups: RigidGroups, particles: ParticleArrays, buffers: ParticleBuffers) -> None:
        """Resolve all contacts together; the corrections of groups are left in their rows."""
        count, call = len(self.leads), self.launcher.call
        self._measure(groups, particles, buffers)
        call(rows.solve, self.slots, SWEEPS, self.bodies, self.rows)
        groups.rows[:] = self.bodies[: self.first]
        moved = (particles.moments, buffers.P, buffers.E, self.bodies)
        call(rows.move_particles, self.sides, self.slots, self.first, count, *moved)

    def _measure(self, groups: RigidGroups, particles: ParticleArrays, buffers: ParticleBuffers) -> None:
        count, call, places = len(self.leads), self.launcher.call, self.places
        self.bodies[: self.first] = groups.rows
        given = (self.sides, self.slots, self.first, count, particles, buffers, self.bodies)
        call(rows.add_bodies, *given)
        call(rows.measure, self.sides, self.slots, places, buffers, self.bodies, self.rows)

    def supports(self, groups: RigidGroups, particles: ParticleArrays, buffers: ParticleBuffers) -> Supports:
        """Return all contacts as they are now, for those who find impulses together with their own."""
        self._measure(groups, particles, buffers)
        points = np.empty((len(self.rows), 3))
        self.launcher.call(rows.middles, self.sides, self.places, buffers, self.rows, points)
        directions = self.rows[:, rows.DIRECTIONS : rows.DIRECTIONS + 9].reshape(-1, 3, 3)
        wanted = self.rows[:, rows.WANTED : rows.WANTED + 3]
        impulses = self.rows[:, rows.IMPULSE : rows.IMPULSE + 3]
        return Supports(
            groups=np.where(self.slots < self.first, self.slots, -1),
            particles=np.where(
                (self.slots >= self.first) & (self.sides >= len(self.leads)), self.sides - len(self.leads), -1
            ),
            points=points,
            normals=directions[:, 0].copy(),
            needs=wanted[:, 0].copy(),
            slips=-np.einsum("kd,kdi->ki", wanted[:, 1:], directions[:, 1:]),
            friction=self.rows[:, rows.FRICTION].copy(),
            impulses=np.einsum("kd,kdi->ki", impulses, directions),
        )

    def take_impulses(self, impulses: Array) -> None:
        """Take over impulses (k, 3) on the second sides of all contacts, by which bodies have been moved."""
        directions = self.rows[:, rows.DIRECTIONS : rows.DIRECTIONS + 9].reshape(-1, 3, 3)
        self.rows[:, rows.IMPULSE : rows.IMPULSE + 3] = np.einsum("kdi,ki->kd", directions, impulses)

    @property
    def touching(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The pairs (k, 2) of particles that pushed each other, and those (m,) that a collider pushed."""
        holders = np.concatenate([self.leads, np.arange(len(self.hidden))])
        pairs = holders[self.sides[self.rows[:, rows.IMPULSE] > 0.0]]
        wall = (pairs < 0).any(1)
        return pairs[~wall], pairs[wall].max(1)

    def touching_wall(self, number: int) -> NDArray[np.int64]:
        """Return a particle of each hull that is pushed by the collider of this number."""
        own = len(self.leads) - len(self.walls) - len(self.planes)
        sides = [own + k for k, wall in enumerate([*self.walls, *self.planes]) if wall.number == number]
        pushed = self.sides[self.rows[:, rows.IMPULSE] > 0.0]
        found = self.leads[pushed[np.isin(pushed, sides).any(1)].ravel()]
        return found[found >= 0]

    def limit_speeds(
        self,
        restitution: Restitution,
        groups: RigidGroups,
        particles: ParticleArrays,
        buffers: ParticleBuffers,
    ) -> None:
        """Take away the speed that contacts gave beyond what they return; that of groups is left in rows."""
        call = self.launcher.call
        self._measure(groups, particles, buffers)
        sides = (self.sides, self.slots)
        limited = (SPEED_SWEEPS, restitution, self.places, buffers, self.bodies, self.rows)
        call(rows.limit_speeds, *sides, *limited)
        groups.rows[:] = self.bodies[: self.first]
        call(rows.hasten_particles, *sides, self.first, len(self.leads), buffers.V, buffers.W, self.bodies)
