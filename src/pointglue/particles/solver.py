"""The oriented-particle solver: position-based dynamics with shape matching of oriented particles."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, exp
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import (
    Array,
    as_integers,
    as_reals,
    check_choice,
    check_integer,
    check_real,
    check_vector,
    require_finite,
)
from ..compute import thread_count
from ..compute.launching import Launcher
from ..errors import InputError
from ..geometry.rigid_motion import RigidMotion, pose_at
from ..geometry.solids import Collider
from ._solve.contact_stage import REFERENCE_STEP, Contacts, ContactStage, Surfaces
from ._solve.elastic.pieces import elastic_edges
from ._solve.kernels.constraints import chains, matching
from ._solve.kernels.contact.records import Restitution
from ._solve.kernels.motion import integration, islands, rotors
from ._solve.kernels.records import (
    ChainArrays,
    EdgeArrays,
    ParticleArrays,
    ParticleBuffers,
    PieceArrays,
    RotorArrays,
    ShapeGroups,
)
from ._solve.plasticity import creep, set_rest_shape
from ._solve.schedule import Schedule
from ._solve.sleep import Sleep
from ._solve.topology import Topology
from .advice import suitable_substep
from .body import OrientedBody, join
from .forces import Force
from .particle_checks import check_list
from .state import ParticleState

__all__ = ["KinematicParticles", "ParticleSolver"]

# A step is never cut into more substeps than this, however long it is.
MOST_SUBSTEPS = 64
# s: shorter steps are refused, since motion would be lost to rounding.
SHORTEST_STEP = 1e-9
# Ratio to the size of everything: no particle goes farther in a substep, so that absurd steps stay finite.
FARTHEST = 1e3
# Items worth a thread of their own: particles, edges, rotors, chains.
PARTICLE_GRAIN, EDGE_GRAIN, ROTOR_GRAIN, CHAIN_GRAIN = 4096, 512, 8, 8
# Radii per second: how fast overlaps that were there before the substep are resolved.
RECOVERY_RATE = 10.0


@dataclass(frozen=True)
class KinematicParticles:
    """Particles that follow a rigid motion from their bind pose, whatever acts on them.

    Parameters
    ----------
    particles : (k,)
        Their numbers.
    motion : Motion or function of time
        The motion; a function takes the time [s] and returns a rotation (3, 3) and a translation (3,) [m].
    """

    particles: ArrayLike
    motion: RigidMotion


class ParticleSolver:
    """A solver that steps one or several bodies with contact between all of them.

    Coefficients from 0 to 1 mean a fraction in 1/60 s; they are converted for the substep and do not depend
    on the number of iterations. A solver owns buffers: one thread at a time may step it.

    Parameters
    ----------
    bodies : OrientedBody or sequence of them
        What is simulated.
    iterations : int
        Iterations over all constraints in each substep, at least 1.
    substep : float, optional
        The longest internal step [s]: :meth:`step` cuts its time into equal parts no longer than that, so
        that the same motion comes out whether it is called 30, 60 or 120 times a second. Without it 1/120 s,
        or less if a body is so small that it would fall an eighth of its size in that time.
    gravity : (3,)
        The acceleration of gravity [m/s^2].
    colliders : iterable of Collider
        What particles cannot enter.
    forces : iterable of Force
        Functions (body, state, dt) -> forces (n, 3) [N].
    kinematic : iterable of KinematicParticles
        Particles that follow a motion.
    contacts : {"all", "bodies", "none"}
        Contact between all particles, only between those of different bodies, or none.
    friction : float
        Coulomb's coefficient, for pairs of particles and for colliders that have none of their own.
    spin_friction : float
        The fraction of rolling that particles with neighbours are made to match (the paper's s_rot; only
        ropes that are to roll need it).
    bounce : float
        The share of the approach speed that contact returns, 0 to 1.
    drag : float
        The rate at which all motion is slowed [1/s].
    damping : float
        The rate at which motion within a body is slowed; both momenta are kept [1/s].
    plastic_time : float
        How long a group that is hit faster than its yield speed deforms before it is rigid again [s].

    Attributes
    ----------
    body : OrientedBody
        All bodies as one.
    parts : tuple of slice
        Where the particles of each body are.
    visual_parts : tuple of slice
        Where the vertices of each body's visual mesh are.

    Raises
    ------
    InputError
        If an option is out of its bounds or of another type.
    """

    def __init__(
        self,
        bodies: OrientedBody | Sequence[OrientedBody],
        *,
        iterations: int = 2,
        substep: float | None = None,
        gravity: ArrayLike = (0.0, -9.81, 0.0),
        colliders: Iterable[Collider] = (),
        forces: Iterable[Force] = (),
        kinematic: Iterable[KinematicParticles] = (),
        contacts: Contacts = "all",
        friction: float = 0.5,
        spin_friction: float = 0.0,
        bounce: float = 0.0,
        drag: float = 0.0,
        damping: float = 0.0,
        plastic_time: float = 5 / 60,
    ) -> None:
        listed = check_list("bodies", [bodies] if isinstance(bodies, OrientedBody) else bodies, OrientedBody)
        self.body = listed[0] if len(listed) == 1 else join(listed)
        ends = np.cumsum([0, *(len(body) for body in listed)])
        self.parts = tuple(slice(int(a), int(b)) for a, b in pairwise(ends))
        shown = np.cumsum([0, *(0 if body.visual is None else len(body.visual) for body in listed)])
        self.visual_parts = tuple(slice(int(a), int(b)) for a, b in pairwise(shown))
        self.iterations = check_integer("iterations", iterations, at_least=1)
        self.plastic_time = check_real("plastic_time", plastic_time, above=0)
        self.gravity = check_vector("gravity", gravity)
        pulled = float(np.linalg.norm(self.gravity))
        suitable = suitable_substep(self.body.positions, self.body.radii, self.body.components, pulled)
        self.substep = suitable if substep is None else check_real("substep", substep, above=0)
        self.friction = check_real("friction", friction, at_least=0)
        self.spin_friction = check_real("spin_friction", spin_friction, at_least=0, at_most=1)
        self.bounce = check_real("bounce", bounce, at_least=0, at_most=1)
        self.drag = check_real("drag", drag, at_least=0)
        self.damping = check_real("damping", damping, at_least=0)
        self.forces = tuple(check_list("forces", forces, Callable))
        n = len(self.body)
        moved = check_list("kinematic", kinematic, KinematicParticles)
        self.kinematic = tuple(_checked_kinematic(k, given, n) for k, given in enumerate(moved))
        self._is_kinematic = np.zeros(n, np.bool_)
        for particles, _ in self.kinematic:
            self._is_kinematic[particles] = True
        check_choice("contacts", contacts, get_args(Contacts))
        self._topology = Topology(self.body)
        self._part_of = np.repeat(np.arange(len(self.parts)), np.diff(ends))
        solid = check_list("colliders", colliders, Collider)
        self._contact = ContactStage(self._topology, solid, self._part_of, contacts)
        reach = 2 * float(self._contact.bounds.max())
        self._extent = float(np.ptp(self.body.positions, axis=0).max()) + reach
        self._twists = bool(self.body.torsion.any())
        self._creeps = bool((np.isfinite(self.body.yield_strain) & (self.body.creep > 0)).any())
        self._dents = np.flatnonzero(np.isfinite(self.body.yield_speed))
        self._planned: ParticleState | None = None  # the state that the schedule was made for
        self._allocate(n)

    def _allocate(self, n: int) -> None:
        """Make room for what changes in a step."""
        self._launcher = Launcher()
        self._buffers = ParticleBuffers.empty(n)
        self._swapped = self._buffers._replace(F=self._buffers.E, E=self._buffers.F)
        self._sums = np.empty((len(self._topology.chunks) - 1, integration.SUMS))
        count = len(self._topology.pieces) - 1
        self._motion = np.empty((count, integration.MOTION))
        self._island_sums = np.empty((count, islands.ISLAND))
        self._islands = np.arange(count)
        self._sleep = Sleep(n, count)

    @property
    def candidate_pairs(self) -> NDArray[np.int64]:
        """Pairs (k, 2) of particles that might have touched in the last substep."""
        pairs = self._contact.pairs
        return np.empty((0, 2), np.int64) if pairs is None else pairs.arrays.pairs

    def start(self) -> ParticleState:
        """Return the state of all bodies at rest in their bind poses, at time 0."""
        state = self.body.start()
        touching = state.rest.touching
        # Bodies that overlap at the start are in contact: only overlaps within a body belong to its shape.
        within = touching[self._part_of[touching[:, 0]] == self._part_of[touching[:, 1]]]
        return replace(state, rest=replace(state.rest, touching=within))

    def step(self, state: ParticleState, dt: float) -> ParticleState:
        """Return the state a time step later.

        Parameters
        ----------
        state : ParticleState
            The state now, which is not changed.
        dt : float
            The time step, at least 1e-9 [s].

        Returns
        -------
        ParticleState

        Raises
        ------
        InputError
            If `dt` is no such number, or the state is of other bodies or not finite.
        """
        dt = check_real("dt", dt, above=0)
        if dt < SHORTEST_STEP:
            raise InputError(
                f"dt must be at least {SHORTEST_STEP:g} s, or motion is lost to rounding, got {dt!r}"
            )
        if not isinstance(state, ParticleState):
            raise InputError(f"state must be a ParticleState, got {type(state).__name__}")
        if len(state) != len(self.body) or len(state.pause) != len(self.body.groups):
            raise InputError(
                f"state has {len(state)} particles and {len(state.pause)} groups, but the solver's bodies "
                f"have {len(self.body)} and {len(self.body.groups)}"
            )
        for name in ("positions", "rotations", "velocities", "spins"):
            if not np.isfinite(getattr(state, name)).all():
                require_finite(f"state.{name}", getattr(state, name))
        self._read(state)
        self._plan(state)
        count = min(MOST_SUBSTEPS, max(1, ceil(dt / self.substep * (1 - 1e-9))))
        h, time = dt / count, state.time
        self._buffers.velocity_gain[:] = h * self.gravity
        if self.forces:
            gain = self._buffers.velocity_gain
            gain += h * self._applied_forces(state, dt) / self.body.mass[:, None]
        for k in range(count):
            state = self._substep(state, time + k * h, time + (k + 1) * h, h)
        state = self._written(state, time + dt)
        return creep(self.body, state, self._topology, self._flow, dt) if self._creeps else state

    def _read(self, state: ParticleState) -> None:
        """Copy the state into the buffers."""
        buffers = self._buffers
        buffers.X[:], buffers.F[:] = state.positions, state.rotations.reshape(-1, 9)
        buffers.V[:], buffers.W[:] = state.velocities, state.spins
        self._sleep.still[:] = state.still

    def _written(self, state: ParticleState, time: float) -> ParticleState:
        """Return the state with what is in the buffers now."""
        return replace(
            state,
            time=time,
            positions=self._buffers.X.copy(),
            rotations=self._buffers.F.reshape(-1, 3, 3).copy(),
            velocities=self._buffers.V.copy(),
            spins=self._buffers.W.copy(),
            still=self._sleep.still.copy(),
        )

    def _plan(self, state: ParticleState) -> None:
        """Make the schedule, unless rest pose, pins and groups are those that it was made for."""
        seen = self._planned
        same = seen is not None and seen.rest is state.rest and seen.pinned is state.pinned
        if seen is not None and same and ((seen.pause > 0) == (state.pause > 0)).all():
            return
        self._planned, self._converted_for = state, 0.0
        clamped, active = state.pinned | self._is_kinematic, state.pause == 0
        elastic = np.zeros(len(self.body), np.bool_)
        elastic[self.body.edges[elastic_edges(self.body, active)]] = True
        self._schedule = Schedule.of(self._topology, state.rest, clamped, active, elastic)
        # Plastic flow is that of all groups, also of those that are elastic between their yields.
        flows = elastic.any() and self._creeps
        self._flow = Schedule.of(self._topology, state.rest, clamped, active) if flows else self._schedule
        self._buffers.P[:, 3] = ~self._schedule.fixed
        self._layers = self._schedule.order.layers.tolist()
        self._rotors: RotorArrays = self._schedule.rotors()
        self._pieces: PieceArrays = self._schedule.piece_arrays()
        self._contact.plan(state, self._schedule, elastic, self.gravity, self._surfaces(self.substep))
        self._particles: ParticleArrays = self._contact.particles
        self._sleep.plan(self._schedule, self._contact.bounds, self.gravity, self.friction)

    def _surfaces(self, h: float) -> Surfaces:
        """Return how surfaces meet in a substep; what gravity gives in two of them is no impact."""
        slow = 2 * h * float(np.linalg.norm(self.gravity))
        return Surfaces(
            friction=self.friction,
            spin_friction=self.spin_friction,
            recovery=RECOVERY_RATE * h,
            restitution=Restitution(self.bounce, slow, h),
        )

    def _substep(self, state: ParticleState, before: float, now: float, h: float) -> ParticleState:
        """Advance the buffers; return the state with the rest pose and the pauses from then on.

        A rigid group that turns out to have been hit too hard is released and the substep done again, so
        that what hit it goes on, whenever the impact comes.
        """
        if not len(self._dents):
            self._advance(before, now, h)
            return state
        body, buffers = self.body, self._buffers
        saved = [array.copy() for array in (buffers.X, buffers.F, buffers.V, buffers.W, self._sleep.still)]
        buffers.impact_speeds[:] = 0.0
        self._advance(before, now, h)
        whole = [k for k in self._dents if state.pause[k] == 0]
        speeds = self._buffers.impact_speeds
        hit = [k for k in whole if speeds[body.groups[k]].max() > body.yield_speed[k]]
        if hit:
            pause = state.pause.copy()
            pause[hit] = self.plastic_time
            state = replace(state, pause=pause)
            self._plan(state)
            buffers = self._buffers
            buffers.X[:], buffers.F[:], buffers.V[:], buffers.W[:], self._sleep.still[:] = saved
            self._advance(before, now, h)
        if (state.pause > 0).any():
            pause = np.where(state.pause > h * (1 + 1e-9), state.pause - h, 0.0)
            over = np.flatnonzero((state.pause > 0) & (pause == 0))
            state = replace(state, pause=pause)
            if len(over):
                state = self._written(state, now)
                for k in over:
                    state = set_rest_shape(body, state, body.groups[k])
                self._read(state)
            self._plan(state)
        return state

    def _applied_forces(self, state: ParticleState, dt: float) -> Array:
        """Return the sum of all forces (n, 3) [N]."""
        total = np.zeros((len(self.body), 3))
        for k, force in enumerate(self.forces):
            given = as_reals(f"forces[{k}]", force(self.body, state, dt)).astype(np.float64)
            if given.shape != total.shape:
                raise InputError(f"forces[{k}] must return shape {total.shape}, got shape {given.shape}")
            require_finite(f"forces[{k}]", given)
            total += given
        return total

    def _convert(self, h: float) -> None:
        """Convert the stiffness of groups and edges for an iteration and of twists for a substep h long.

        A spring that moves by the fraction s of its deviation in a step of length t has the compliance
        t^2 (1 - s) / s per mass; with the same compliance it moves by s h^2 / (s h^2 + (1 - s) t^2) in h.
        """
        if self._converted_for == h:
            return
        self._converted_for = h
        ratio = min(h / REFERENCE_STEP, 1e9) ** 2

        def converted(s: Array, times: int) -> Array:
            in_substep = s * ratio / (s * ratio + (1 - s))
            return np.asarray(1 - (1 - in_substep) ** (1 / times))

        owner, order = self._schedule.owner, self._topology.edge_order
        stiffness = np.where(owner >= 0, converted(self.body.stiffness, self.iterations)[owner], 1.0)
        self._shapes: ShapeGroups = self._schedule.shape_groups(stiffness)
        # Edge by edge a full correction would leave all of the twist on every second edge.
        torsion = np.minimum(converted(self.body.torsion[order], 1), 0.5)
        stretch = converted(self.body.stretch, self.iterations)
        self._chains: ChainArrays = self._schedule.chain_arrays(stretch)
        along = self._topology.chains[2]
        stretch[along[along >= 0]] = 0.0
        self._stretches = bool(stretch.any())
        self._edges: EdgeArrays = self._schedule.edge_arrays(stretch[order], torsion)

    def _advance(self, before: float, now: float, h: float) -> None:
        """Advance the buffers by one substep from `before` to `now`, of length h [s]."""
        self._convert(h)
        self._sleep.begin(self._buffers.X)
        n, pieces, particles, buffers = len(self.body), self._pieces, self._particles, self._buffers
        contact, count = self._contact, len(pieces.chunks) - 1
        farthest = FARTHEST * self._extent
        self._each_rotor(rotors.start_rotors, h, self._rotors, particles, buffers)
        flying = (pieces, particles, self._rotors, buffers, self._sums)
        self._launcher.run(integration.predict, count, 4, (h, farthest), *flying)
        self._follow_motions(now, h)
        if self._twists:
            turned = (self._schedule.inverse_inertia, particles.moments, buffers.P, buffers.E)
            self._each_edge(matching.correct_twists, *turned)
        contact.begin(self._surfaces(h), buffers, before, now)
        for _ in range(self.iterations):
            self._relax()
            contact.resolve()
        contact.finish()
        self._each_rotor(rotors.end_rotors, self._rotors, particles.mass, buffers)
        self._launcher.run(integration.finish, n, PARTICLE_GRAIN, h, particles, self._rotors, buffers)
        contact.apply_restitution()
        self._sleep.held[:] = pieces.fixed
        contact.find_islands(self._islands, self._sleep.held)
        # What contact took of the momenta, in parting what flies and in slowing it, is given back last.
        self._launcher.run(integration.sum_up, count, 4, pieces, particles, buffers, self._sums)
        self._launcher.call(integration.balance, pieces, buffers.X, self._sums, self._motion)
        positions = (self._sleep.start, buffers.X)
        touching = (self._islands, self._sleep.held, positions, self._sums, self._island_sums, self._motion)
        self._launcher.call(islands.balance_islands, pieces, *touching)
        kept = (exp(-self.damping * h), exp(-self.drag * h))
        self._launcher.run(integration.conserve, n, PARTICLE_GRAIN, *kept, particles, self._motion, buffers)
        contact.keep_awake(self._sleep)
        self._sleep.end(h, self._islands, particles, buffers)
        # What is now was before, in the next substep.
        self._buffers, self._swapped = self._swapped, buffers

    def _follow_motions(self, now: float, h: float) -> None:
        """Put kinematic particles where their motion wants them at the end of the substep."""
        X, P, V, E = self._buffers.X, self._buffers.P, self._buffers.V, self._buffers.E
        for k, (particles, motion) in enumerate(self.kinematic):
            rotation, translation = pose_at(f"kinematic[{k}].motion", motion, now)
            P[particles, :3] = self.body.positions[particles] @ rotation.T + translation
            V[particles] = (P[particles, :3] - X[particles]) / h
            E[particles] = rotation.reshape(9)
            B = rotation @ self._schedule.moments[particles].reshape(-1, 3, 3)
            P[particles, 4:] = np.pad(B, ((0, 0), (0, 0), (0, 1))).reshape(-1, 12)

    def _relax(self) -> None:
        """Relax all constraints within the bodies once."""
        plan, buffers = self._schedule, self._buffers
        matched = (self._shapes, plan.clamped, plan.padded, buffers.P, buffers.E)
        # On one thread there is nothing to wait for between layers.
        parallel = len(self._layers) > 2 and thread_count() > 1
        for base, end in pairwise(self._layers if parallel else (self._layers[0], self._layers[-1])):
            self._launcher.run(matching.match_shapes, end - base, 1, base, *matched)
        count = len(self._chains.starts) - 1
        if count:
            arrays = (self._chains, self._particles.inverse_mass, self._buffers.P)
            self._launcher.run(chains.correct_chains, count, CHAIN_GRAIN, *arrays)
        if self._stretches:
            self._each_edge(matching.correct_lengths, self._particles.inverse_mass, self._buffers.P)

    def _each_edge(self, function: Callable[..., None], *arguments: object) -> None:
        """Call a kernel for the edges by their colours, or for all at once on one thread."""
        colors = self._schedule.edge_colors
        if colors[-1] < 2 * EDGE_GRAIN:
            self._launcher.call(function, 0, colors[-1], 0, self._edges, *arguments)
            return
        for base, end in pairwise(colors):
            self._launcher.run(function, end - base, EDGE_GRAIN, base, self._edges, *arguments)

    def _each_rotor(self, function: Callable[..., None], *arguments: object) -> None:
        """Call a kernel for the rotors."""
        if len(self._rotors.leads):
            self._launcher.run(function, len(self._rotors.leads), ROTOR_GRAIN, *arguments)


def _checked_kinematic(
    k: int, given: KinematicParticles, count: int
) -> tuple[NDArray[np.int64], RigidMotion]:
    """Return the numbers of kinematic particles and their motion, or raise."""
    particles = as_integers(f"kinematic[{k}].particles", given.particles)
    if not len(particles) or particles.min() < 0 or particles.max() >= count:
        raise InputError(
            f"kinematic[{k}].particles must be from 0 to {count - 1}, got {particles.tolist()[:10]}"
        )
    return particles, given.motion
