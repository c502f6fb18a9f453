"""The contacts of a substep: pairs of particles, colliders, hulls, thin parts and elastic pieces."""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute.launching import Launcher
from ...geometry.solids import Box, Collider, Plane
from ..colliders.mesh import ready_collider
from ..state import ParticleState
from .elastic.elastic_contacts import ElasticBodies, Scene
from .elastic.pieces import elastic_pieces
from .hulls import HullContacts, Wall, rigid_hulls
from .kernels.contact import friction, rigid
from .kernels.contact.records import ContactArrays, Friction, Restitution
from .kernels.motion import islands
from .kernels.records import Ellipsoids, ParticleArrays, ParticleBuffers, RigidGroups
from .pairs import PairContacts
from .schedule import Schedule
from .sleep import Sleep
from .thin import thin_parts
from .thin_contacts import ThinContacts
from .topology import Topology

__all__ = ["REFERENCE_STEP", "ContactStage", "Contacts", "Surfaces"]

# s: coefficients from 0 to 1 (stiffness, stretch, torsion, spin friction) are those of a step this long.
REFERENCE_STEP = 1 / 60
# Items worth a thread of their own: particles, rigid groups.
PARTICLE_GRAIN, GROUP_GRAIN = 4096, 8
# Passes over the contacts in an iteration if there are rigid groups, which pass impacts on at once.
RIGID_PASSES = 3
# Passes over the contacts of thin parts after friction, in which they come to agree.
THIN_PASSES = 4
Contacts = Literal["all", "bodies", "none"]


class Surfaces(NamedTuple):
    """How surfaces meet in a substep."""

    friction: float
    """Coulomb's coefficient, for pairs and for colliders that have none of their own."""
    spin_friction: float
    """The fraction of rolling that is matched in 1/60 s."""
    recovery: float
    """How much of an overlap from before the substep is resolved, in radii."""
    restitution: Restitution
    """How contact gives speed back."""

    def friction_on(self, collider: Collider) -> float:
        """Return Coulomb's coefficient on a collider."""
        return float(self.friction if collider.friction is None else collider.friction)

    def rolling_on(self, collider: Collider | None) -> float:
        """Return the fraction of rolling that is matched in this substep, on a collider or in pairs."""
        own = None if collider is None else collider.spin_friction
        fraction = self.spin_friction if own is None else own
        return float(1 - (1 - fraction) ** (self.restitution.substep / REFERENCE_STEP))


class ContactStage:
    """What collides in a solver, and how it is moved apart.

    Parameters
    ----------
    topology : Topology
        The connectivity of the body.
    colliders : list of Collider
        What particles cannot enter.
    part_of : (n,)
        The number of the body that each particle belongs to.
    contacts : {"all", "bodies", "none"}
        Which particles meet each other.
    """

    groups: RigidGroups
    """The rigid groups that move freely."""
    thin_groups: RigidGroups
    """Those that thin parts meet, among them elastic pieces: what hits one has its whole mass."""
    particles: ParticleArrays
    elastic: ElasticBodies | None

    def __init__(
        self,
        topology: Topology,
        colliders: list[Collider],
        part_of: NDArray[np.int64],
        contacts: Contacts,
    ) -> None:
        body = topology.body
        n = len(body)
        self.body, self.topology, self.part_of = body, topology, part_of
        self.bounds = body.radii.max(1)
        # Within a rigid group nothing collides.
        family = part_of if contacts == "bodies" else topology.group_of
        self.pairs = None if contacts == "none" or n == 1 else PairContacts(n, self.bounds, family)
        parts = thin_parts(topology)
        has_thin = len(parts.edges) + len(parts.triangles) > 0
        self.thin: ThinContacts | None = None
        if self.pairs is not None and has_thin:
            self.thin = ThinContacts(parts, self.bounds, family, topology.piece_of, body.positions)
        self.colliders = tuple(ready_collider(collider, n) for collider in colliders)
        corrections = np.empty((n, 3))
        self.contacts = [ContactArrays(np.empty(n), np.zeros((n, 3)), corrections) for _ in self.colliders]
        self._launcher = Launcher()

    def plan(
        self,
        state: ParticleState,
        schedule: Schedule,
        elastic: NDArray[np.bool_],
        gravity: Array,
        surfaces: Surfaces,
    ) -> None:
        """Take over the rest pose, the pins and the groups of a state; (n,) `elastic` particles are told."""
        self._touching = state.rest.touching
        self.particles = schedule.particle_arrays(self.bounds)
        self.groups = schedule.rigid_groups()
        self.hulls = self._hull_contacts(state, schedule.fixed, gravity)
        self.elastic, self.thin_groups = None, self.groups
        if elastic.any():
            held = {"fixed": schedule.fixed, "clamped": schedule.clamped, "moments": schedule.moments}
            pieces = elastic_pieces(self.body, state.rest, state.pause == 0, **held)
            rough = [surfaces.friction_on(ready.collider) for ready in self.colliders]
            self.elastic = ElasticBodies(pieces, schedule.group_of, [*rough, surfaces.friction])
            if self.hulls is not None:
                self.hulls.spared = self.hulls.hidden | self.elastic.meets
            # Thin parts meet elastic pieces as if these were rigid: what hits one has its whole mass.
            free = [piece.lattice.members for piece in pieces if not piece.fixed.any()]
            self.thin_groups = schedule.rigid_groups(free)

    def _hull_contacts(
        self, state: ParticleState, fixed: NDArray[np.bool_], gravity: Array
    ) -> HullContacts | None:
        """Return the contacts of groups that collide as hulls, if there are such; their particles do not."""
        hulls = rigid_hulls(self.body, state, fixed, self.part_of)
        if not hulls:
            for ready in self.colliders:
                ready.hidden = None
            if self.pairs is not None:
                self.pairs.hidden = None
            return None
        walls = []
        for k, ready in enumerate(self.colliders):
            if isinstance(ready.collider, Plane):
                walls.append(Wall(k, None))
            elif isinstance(ready.collider, Box):
                walls.append(Wall(k, np.asarray(ready.collider.half_extents)))
        g = float(np.linalg.norm(gravity))
        up = -gravity / g if g > 0 else np.array([0.0, 1.0, 0.0])
        family = None if self.pairs is None else self.pairs.family
        contacts = HullContacts(hulls, walls, self.part_of, family, up)
        contacts.ignore_at_rest(state.rest.positions, self.particles)
        for wall in walls:
            self.colliders[wall.number].hidden = contacts.hidden
        if self.pairs is not None:
            self.pairs.hidden = contacts.hidden
        return contacts

    @property
    def scene(self) -> Scene:
        """What the kernels of this substep work on."""
        return Scene(self.particles, self.buffers, self.groups)

    def begin(self, surfaces: Surfaces, buffers: ParticleBuffers, before: float, now: float) -> None:
        """Find what may meet in a substep, once particles have been predicted."""
        self.surfaces, self.buffers = surfaces, buffers
        particles = self.particles
        self._ellipsoids = Ellipsoids(buffers.P, buffers.E, particles.shapes, particles.fixed)
        if self.thin is not None:
            self.thin.begin()
        if self.pairs is not None:
            fixed, group_of = particles.fixed, self.groups.group_of
            meets = None if self.elastic is None else self.elastic.meets
            self.pairs.prepare(buffers.X, buffers.P, fixed, group_of, self._touching, meets)
        for ready, contacts in zip(self.colliders, self.contacts, strict=True):
            ready.prepare(buffers.X, buffers.P, self.bounds, before, now)
            contacts.depths[:] = 0.0
        if self.hulls is not None:
            rough = [surfaces.friction_on(ready.collider) for ready in self.colliders]
            poses = [ready.poses for ready in self.colliders]
            own = surfaces.friction, rough
            self.hulls.prepare(poses, own, surfaces.recovery, self.groups, particles, buffers)
        if self.elastic is not None:
            taken = self.pairs.taken if self.pairs is not None else np.empty((0, 2), np.int64)
            self.elastic.begin(surfaces.restitution.substep, taken, self.scene)

    def resolve(self) -> None:
        """Move everything apart once, in an iteration, after the constraints within bodies."""
        surfaces, elastic = self.surfaces, self.elastic
        if elastic is not None:
            elastic.relax(surfaces.restitution.substep, self.scene)
        if self.thin is not None:
            # Stretched cloth is moved much farther by its constraints than it was going to go.
            self.thin.prepare(self.buffers, self.particles, self.thin_groups.group_of)
        self._find_masses()
        for _ in range(RIGID_PASSES if len(self.groups.starts) > 1 else 1):
            self._separate()
            for k in range(len(self.colliders)):
                self._leave_collider(k)
        if elastic is not None:
            supports = None
            if self.hulls is not None and len(self.hulls):
                supports = self.hulls.supports(self.groups, self.particles, self.buffers)
            elastic.resolve(surfaces.recovery, self.scene, surfaces.restitution, supports)
            if self.hulls is not None and supports is not None:
                self.hulls.take_impulses(supports.impulses)
            self._apply_corrections()
        self._solve_hulls()
        if elastic is not None:
            elastic.hold(self.buffers.P)

    def finish(self) -> None:
        """End the iterations of a substep: elastic pieces are relaxed once more, and friction acts."""
        if self.elastic is not None:
            self.elastic.relax(self.surfaces.restitution.substep, self.scene)
            self.elastic.recover(self.buffers)
        self._apply_friction()
        if self.thin is not None:
            self.thin.hold(self.thin_groups, self.particles, self.buffers)

    def _each_group(
        self, function: Callable[..., None], *arguments: object, groups: RigidGroups | None = None
    ) -> None:
        """Call a kernel for the rigid groups that move freely, or for others."""
        groups = self.groups if groups is None else groups
        count = len(groups.starts) - 1
        if count:
            self._launcher.run(function, count, GROUP_GRAIN, groups, *arguments)

    def _apply_corrections(self) -> None:
        """Move the particles of rigid groups by the corrections of their groups."""
        moved = (self.particles.moments, self.buffers.P, self.buffers.E)
        self._each_group(rigid.apply_corrections, *moved)

    def _separate(self) -> None:
        """Move particles apart that overlap."""
        recovery = self.surfaces.recovery
        if self.pairs is not None and len(self.pairs):
            self.pairs.separate(recovery, self.groups, self.particles, self.buffers)
            self._apply_corrections()
        if self.thin is not None:
            self._at_thin(partial(self.thin.separate, recovery))

    def _at_thin(self, act: Callable[[RigidGroups, ParticleArrays, ParticleBuffers], None]) -> None:
        """Let the contacts of thin parts act."""
        groups, particles, buffers, elastic = self.thin_groups, self.particles, self.buffers, self.elastic
        if not self.thin:
            return
        before = buffers.P[:, :3].copy() if elastic is not None else None
        if elastic is not None:
            self._find_masses(groups)
        act(groups, particles, buffers)
        self._each_group(rigid.apply_corrections, particles.moments, buffers.P, buffers.E, groups=groups)
        if elastic is not None and before is not None:
            elastic.keep_moves(before, buffers)

    def _find_masses(self, groups: RigidGroups | None = None) -> None:
        """Find the mass properties of rigid groups as they lie now."""
        particles, buffers = self.particles, self.buffers
        masses = (particles.mass, particles.moments, buffers.P, buffers.E)
        self._each_group(rigid.mass_properties, *masses, groups=groups)

    def _leave_collider(self, k: int) -> None:
        """Move what is in collider k out of it, rigid groups as a whole."""
        ready, contacts, surfaces = self.colliders[k], self.contacts[k], self.surfaces
        if ready.idle:
            return
        particles, buffers = self.particles, self.buffers
        contacts.corrections[:] = 0.0
        ready.resolve(self._ellipsoids, contacts)
        limited = (surfaces.recovery, self.bounds, ready.poses, buffers.X, buffers.P, contacts)
        self._launcher.run(rigid.limit_recovery, len(self.body), PARTICLE_GRAIN, *limited)
        if self.elastic is not None:
            self.elastic.take_contacts(k, ready.poses, contacts, buffers, surfaces.restitution)
        masses = (particles.mass, particles.inverse_mass)
        self._each_group(rigid.resolve_group_contacts, *masses, contacts, buffers.P)
        self._apply_corrections()

    def _solve_hulls(self) -> None:
        """Resolve the contacts of rigid groups that collide as hulls."""
        if self.hulls is not None and len(self.hulls):
            self.hulls.solve(self.groups, self.particles, self.buffers)
            self._apply_corrections()

    def _apply_friction(self) -> None:
        """Apply friction to all contacts of this substep; what it moved into a collider comes out again."""
        surfaces, bodies = self.surfaces, (self.groups, self.particles, self.buffers)
        if self.pairs is not None and len(self.pairs):
            self.pairs.apply_friction(Friction(surfaces.friction, surfaces.rolling_on(None)), *bodies)
            self._apply_corrections()
        if self.thin is not None:
            self._at_thin(partial(self.thin.apply_friction, Friction(surfaces.friction, 0.0)))
            for _ in range(THIN_PASSES):
                self._at_thin(partial(self.thin.separate, surfaces.recovery))
        for k, (ready, contacts) in enumerate(zip(self.colliders, self.contacts, strict=True)):
            if ready.idle:
                continue
            if self.pairs is not None and len(self.pairs):
                self._leave_collider(k)
            on = Friction(surfaces.friction_on(ready.collider), surfaces.rolling_on(ready.collider))
            touching = (on, ready.poses, contacts)
            single = (self.groups.group_of, self.particles, self.buffers)
            self._launcher.run(friction.collider_friction, len(self.body), PARTICLE_GRAIN, *touching, *single)
            if len(self.groups.starts) > 1:
                self._launcher.run(
                    friction.group_friction, len(self.groups.starts) - 1, GROUP_GRAIN, *touching, *bodies
                )
                self._apply_corrections()
            np.logical_or(self.buffers.touched, contacts.depths > 0.0, out=self.buffers.touched)
        if self.hulls is not None and len(self.hulls):
            for members in self.hulls.touching:
                self.buffers.touched[members] = True

    def find_islands(self, island_of: NDArray[np.int64], held: NDArray[np.bool_]) -> None:
        """Find the islands of pieces that touch each other, and which pieces a collider holds, too."""
        piece_of = self.topology.piece_of
        island_of[:] = np.arange(len(island_of))
        if self.pairs is not None and len(self.pairs):
            pairs = self.pairs.arrays
            self._launcher.call(islands.unite, pairs.pairs, pairs.depths, piece_of, island_of)
        if self.thin is not None and len(self.thin):
            thin = self.thin.arrays
            sides = np.ascontiguousarray(thin.particles[:, [0, 3]])
            self._launcher.call(islands.unite, sides, thin.depths, piece_of, island_of)
        for met in (self.hulls if self.hulls is not None and len(self.hulls) else None, self.elastic):
            if met is not None:
                meeting, on_colliders = met.touching
                self._launcher.call(islands.unite, meeting, np.ones(len(meeting)), piece_of, island_of)
                held[piece_of[on_colliders]] = True
        for ready, contacts in zip(self.colliders, self.contacts, strict=True):
            if not ready.idle:
                held[piece_of[contacts.depths > 0.0]] = True

    def keep_awake(self, sleep: Sleep) -> None:
        """Keep awake what a collider holds that moves or has no friction."""
        piece_of, restless = self.topology.piece_of, sleep.restless
        for k, (ready, contacts) in enumerate(zip(self.colliders, self.contacts, strict=True)):
            before, now = ready.poses
            moves = (before.rotation != now.rotation).any() or (before.translation != now.translation).any()
            if moves or self.surfaces.friction_on(ready.collider) == 0:
                restless[piece_of[contacts.depths > 0.0]] = True
                if self.hulls is not None:
                    restless[piece_of[self.hulls.touching_wall(k)]] = True
                if self.elastic is not None:
                    restless[piece_of[self.elastic.touching_collider(k)]] = True

    def apply_restitution(self) -> None:
        """Take away the speed that contacts gave beyond what they return."""
        groups, particles, restitution = self.groups, self.particles, self.surfaces.restitution
        # Where everything is now: speeds change no positions.
        buffers = self.buffers._replace(X=self.buffers.P)
        # As groups lie now, or their impulses would not keep angular momentum.
        self._find_masses()
        if self.pairs is not None and len(self.pairs):
            self.pairs.apply_restitution(restitution, groups, particles, buffers)
        if self.thin is not None and len(self.thin):
            hit = self.thin_groups
            if hit is not groups:
                self._find_masses(hit)
            self.thin.apply_restitution(restitution, hit, particles, buffers)
            if hit is not groups:
                moving = (buffers.X, buffers.V, buffers.W)
                self._each_group(rigid.apply_velocity_corrections, *moving, groups=hit)
        count = len(groups.starts) - 1
        for ready, contacts in zip(self.colliders, self.contacts, strict=True):
            if ready.idle:
                continue
            touching, single = (restitution, ready.poses, contacts), (groups.group_of, buffers)
            self._launcher.run(
                friction.collider_restitution, len(self.body), PARTICLE_GRAIN, *touching, *single
            )
            if count:
                whole = (groups, particles, buffers)
                self._launcher.run(friction.group_restitution, count, GROUP_GRAIN, *touching, *whole)
        self._each_group(rigid.apply_velocity_corrections, buffers.X, buffers.V, buffers.W)
        if self.hulls is not None and len(self.hulls):
            self.hulls.limit_speeds(restitution, groups, particles, buffers)
            self._each_group(rigid.apply_velocity_corrections, buffers.X, buffers.V, buffers.W)
