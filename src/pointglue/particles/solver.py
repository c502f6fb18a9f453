"""The oriented-particle solver: position-based dynamics with shape matching that knows orientations."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, exp, inf
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, as_integers, as_reals, require_finite
from ..compute import run, thread_count
from ..errors import InputError
from ._solve.kernels import friction, matching, rigid
from ._solve.kernels import integration as motion
from ._solve.pairs import PairContacts
from ._solve.plasticity import absorb, creep
from ._solve.schedule import Schedule, Topology
from .body import OrientedBody, join
from .colliders.primitives import Collider, Rigid, pose_at
from .forces import Force
from .state import ParticleState

__all__ = ["ParticleSolver", "Script"]

# Coefficients from 0 to 1 (stiffness, stretch, torsion, spin friction) are those of a step this long, s.
REFERENCE = 1 / 60
# A step is never cut into more than this, however long it is.
MOST_SUBSTEPS = 64
# And never shorter than this, s: motion would be lost to rounding.
SHORTEST = 1e-9
# No particle goes farther in a substep than this many times the size of everything: absurd steps stay finite.
FARTHEST = 1e3
# Items worth a thread of their own.
PARTICLES, GROUPS = 4096, 512
# How fast overlaps that were there before come apart, in radii a second.
RECOVERY = 10.0
# How often contacts are gone through in an iteration if there are rigid groups: these pass blows on at once.
RIGID_PASSES = 3


@dataclass(frozen=True)
class Script:
    """Particles that follow a rigid motion from their bind pose, whatever pushes them."""

    particles: ArrayLike
    motion: Rigid
    """:class:`Motion`, or time -> (rotation (3, 3), translation (3,))."""


class ParticleSolver:
    """Steps one or several bodies with contact between all of them.

    `substep` (s) is the longest internal step: :meth:`step` cuts its time into equal parts no longer than
    that, so that the same motion comes out whether it is called 30, 60 or 120 times a second. `iterations`
    are done over all constraints in each. Coefficients from 0 to 1 mean a fraction in 1/60 s; they are
    converted for the substep and do not depend on the number of iterations.

    `contacts`: "all", only between different "bodies", or "none". `friction` is Coulomb's coefficient, and
    `spin_friction` the fraction of rolling that particles with neighbours are made to match (the paper's
    s_rot; only ropes that are to roll need it), for pairs of particles and for colliders that have none of
    their own. `bounce` is the share of the approach speed that contact returns. `drag` (1/s) slows all
    motion, `damping` (1/s) only motion within a body: it keeps both momenta. A group hit faster than its
    yield speed is let go of for `plastic_time` (s).

    A solver owns buffers: one thread at a time may step it.
    """

    def __init__(
        self,
        bodies: OrientedBody | Sequence[OrientedBody],
        *,
        iterations: int = 2,
        substep: float = 1 / 120,
        gravity: ArrayLike = (0.0, -9.81, 0.0),
        colliders: Iterable[Collider] = (),
        forces: Iterable[Force] = (),
        scripts: Iterable[Script] = (),
        contacts: Literal["all", "bodies", "none"] = "all",
        friction: float = 0.5,
        spin_friction: float = 0.0,
        bounce: float = 0.0,
        drag: float = 0.0,
        damping: float = 0.0,
        plastic_time: float = 5 / 60,
    ) -> None:
        listed = _listed("bodies", [bodies] if isinstance(bodies, OrientedBody) else bodies, OrientedBody)
        self.body = listed[0] if len(listed) == 1 else join(listed)
        ends = np.cumsum([0, *(len(body) for body in listed)])
        self.parts = tuple(slice(int(a), int(b)) for a, b in pairwise(ends))
        """Where the particles of each body are."""
        shown = np.cumsum([0, *(0 if body.visual is None else len(body.visual) for body in listed)])
        self.visual_parts = tuple(slice(int(a), int(b)) for a, b in pairwise(shown))
        """Where the vertices of each body's visual mesh are."""
        self.iterations = _whole("iterations", iterations)
        self.plastic_time = _number("plastic_time", plastic_time, 0.0, inf, positive=True)
        self.substep = _number("substep", substep, 0.0, inf, positive=True)
        self.gravity = as_reals("gravity", gravity).astype(np.float64)
        if self.gravity.shape != (3,) or not np.isfinite(self.gravity).all():
            raise InputError(f"gravity must be three finite numbers, got {gravity!r}")
        self.friction = _number("friction", friction, 0.0, inf)
        self.spin_friction = _number("spin_friction", spin_friction, 0.0, 1.0)
        self.bounce = _number("bounce", bounce, 0.0, 1.0)
        self.drag = _number("drag", drag, 0.0, inf)
        self.damping = _number("damping", damping, 0.0, inf)
        self.forces = tuple(_listed("forces", forces, Callable))
        n = len(self.body)
        listed_scripts = _listed("scripts", scripts, Script)
        self.scripts = tuple(_checked_script(k, script, n) for k, script in enumerate(listed_scripts))
        self._scripted = np.zeros(n, np.bool_)
        for particles, _ in self.scripts:
            self._scripted[particles] = True
        if contacts not in get_args(Literal["all", "bodies", "none"]):
            raise InputError(f"contacts must be 'all', 'bodies' or 'none', got {contacts!r}")
        self._topology = Topology(self.body)
        self._part_of = np.repeat(np.arange(len(self.parts)), np.diff(ends))
        self._bounds = self.body.radii.max(1)
        # Within a rigid group nothing collides.
        family = self._part_of if contacts == "bodies" else self._topology.rigid_of
        self._pairs = None if contacts == "none" or n == 1 else PairContacts(n, self._bounds, family)
        self._colliders = tuple(collider.ready(n) for collider in _listed("colliders", colliders, Collider))
        self._extent = float(np.ptp(self.body.positions, axis=0).max() + 2 * self._bounds.max())
        self._stretches, self._twists = bool(self.body.stretch.any()), bool(self.body.torsion.any())
        self._creeps = bool((np.isfinite(self.body.yield_strain) & (self.body.creep > 0)).any())
        self._dents = np.flatnonzero(np.isfinite(self.body.yield_speed))
        self._planned: ParticleState | None = None  # the state that the schedule was made for
        self._coefficients_at = 0.0
        self._allocate(n)

    def _allocate(self, n: int) -> None:
        self._X, self._V, self._V0, self._W = (np.empty((n, 3)) for _ in range(4))
        self._F, self._E, self._P = np.empty((n, 9)), np.empty((n, 9)), _rows(n)
        self._shift, self._met = np.empty((n, 3)), np.empty(n, np.bool_)
        self._struck, self._gained = np.zeros(n), np.empty((n, 3))
        self._sums = np.empty((len(self._topology.chunks) - 1, motion.SUMS))
        self._rigid = np.empty((len(self._topology.pieces) - 1, motion.RIGID))
        self._pushed = [np.empty(n) for _ in self._colliders]
        self._normals = [np.zeros((n, 3)) for _ in self._colliders]

    def start(self) -> ParticleState:
        """All bodies at rest in their bind poses, at time 0."""
        state = self.body.start()
        touching = state.rest.touching
        # Bodies that overlap at the start are in contact: only overlaps within a body belong to its shape.
        within = touching[self._part_of[touching[:, 0]] == self._part_of[touching[:, 1]]]
        return replace(state, rest=replace(state.rest, touching=within))

    def step(self, state: ParticleState, dt: float) -> ParticleState:
        """The state `dt` seconds later."""
        dt = _number("dt", dt, 0.0, inf, positive=True)
        if dt < SHORTEST:
            raise InputError(f"dt must be at least {SHORTEST:g} s, or motion is lost to rounding, got {dt!r}")
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
        self._take(state)
        self._plan(state)
        count = min(MOST_SUBSTEPS, max(1, ceil(dt / self.substep * (1 - 1e-9))))
        h, time = dt / count, state.time
        self._gained[:] = h * self.gravity
        if self.forces:
            self._gained += h * self._applied(state, dt) / self.body.mass[:, None]
        for k in range(count):
            state = self._substep(state, time + k * h, time + (k + 1) * h, h)
        state = self._taken(state, time + dt)
        return creep(self.body, state, self._topology, self._schedule, dt) if self._creeps else state

    def _take(self, state: ParticleState) -> None:
        """Copy the state into the buffers."""
        self._X[:], self._F[:] = state.positions, state.rotations.reshape(-1, 9)
        self._V[:], self._W[:] = state.velocities, state.spins

    def _taken(self, state: ParticleState, time: float) -> ParticleState:
        """The state with what is in the buffers now."""
        return replace(
            state,
            time=time,
            positions=self._X.copy(),
            rotations=self._F.reshape(-1, 3, 3).copy(),
            velocities=self._V.copy(),
            spins=self._W.copy(),
        )

    def _plan(self, state: ParticleState) -> None:
        """Make the schedule, unless rest pose, pins and groups are those that it was made for."""
        seen = self._planned
        same = seen is not None and seen.rest is state.rest and seen.pinned is state.pinned
        if seen is not None and same and ((seen.pause > 0) == (state.pause > 0)).all():
            return
        self._planned, self._coefficients_at = state, 0.0
        self._touching = state.rest.touching
        self._fixed = state.pinned | self._scripted
        self._P[:, 3] = ~self._fixed
        self._schedule = Schedule.of(self._topology, state.rest, self._fixed, state.pause == 0)
        plan = self._schedule
        self._layers = plan.order.layers.tolist()
        shape = (plan.starts, plan.members, plan.offsets, plan.turning, plan.scales, plan.yields)
        self._shapes: tuple[Array, ...] = shape
        self._frames = np.zeros((len(plan.rigid_starts) - 1, rigid.FRAME))
        self._inverse_mass = np.where(self._fixed, 0.0, 1 / self.body.mass)
        trace = plan.moments[:, ::4].sum(1)
        self._inverse_inertia = np.where(self._fixed | (trace == 0), 0.0, 1 / np.where(trace > 0, trace, 1.0))

    def _substep(self, state: ParticleState, before: float, now: float, h: float) -> ParticleState:
        """Advance the buffers; the state that comes back has the rest pose and the pauses from then on.

        A rigid group that turns out to have been hit too hard is let go of and the substep done again, so
        that what hit it goes on, whenever the blow falls.
        """
        if not len(self._dents):
            self._advance(before, now, h)
            return state
        body, buffers = self.body, (self._X, self._F, self._V, self._W)
        saved = [buffer.copy() for buffer in buffers]
        self._struck[:] = 0.0
        self._advance(before, now, h)
        whole = [k for k in self._dents if state.pause[k] == 0]
        hit = [k for k in whole if self._struck[body.groups[k]].max() > body.yield_speed[k]]
        if hit:
            pause = state.pause.copy()
            pause[hit] = self.plastic_time
            state = replace(state, pause=pause)
            self._plan(state)
            self._X[:], self._F[:], self._V[:], self._W[:] = saved
            self._advance(before, now, h)
        if (state.pause > 0).any():
            pause = np.where(state.pause > h * (1 + 1e-9), state.pause - h, 0.0)
            over = np.flatnonzero((state.pause > 0) & (pause == 0))
            state = replace(state, pause=pause)
            if len(over):
                state = self._taken(state, now)
                for k in over:
                    state = absorb(body, state, body.groups[k])
                self._take(state)
            self._plan(state)
        return state

    def _applied(self, state: ParticleState, dt: float) -> Array:
        """The sum of all forces, N."""
        total = np.zeros((len(self.body), 3))
        for k, force in enumerate(self.forces):
            given = as_reals(f"forces[{k}]", force(self.body, state, dt)).astype(np.float64)
            if given.shape != total.shape:
                raise InputError(f"forces[{k}] must return shape {total.shape}, got shape {given.shape}")
            require_finite(f"forces[{k}]", given)
            total += given
        return total

    def _converted(self, h: float) -> tuple[Array, Array, Array]:
        """Stiffness of groups and edges for an iteration of a substep of length h, of twists for all of it.

        A spring that moves by the fraction s of its deviation in a step of length t has the compliance
        t^2 (1 - s) / s per mass; with the same compliance it moves by s h^2 / (s h^2 + (1 - s) t^2) in h.
        """
        ratio = min(h / REFERENCE, 1e9) ** 2

        def converted(s: Array, times: int) -> Array:
            in_substep = s * ratio / (s * ratio + (1 - s))
            return np.asarray(1 - (1 - in_substep) ** (1 / times))

        owner, order = self._schedule.owner, self._topology.edge_order
        shapes = np.where(owner >= 0, converted(self.body.stiffness, self.iterations)[owner], 1.0)
        lengths = converted(self.body.stretch[order], self.iterations)
        # Edge by edge a full correction would leave all of the twist on every second edge.
        shapes = shapes[:, None] * [1.0, 1.0, 1.0, 0.0]  # see matching: P's fourth column stays
        return shapes, lengths, np.minimum(converted(self.body.torsion[order], 1), 0.5)

    def _advance(self, before: float, now: float, h: float) -> None:
        """One substep."""
        self._recovery = RECOVERY * h
        if self._coefficients_at != h:
            self._coefficients_at, self._coefficients = h, self._converted(h)
        n, top, plan = len(self.body), self._topology, self._schedule
        X, F, V, W, P, E, M = self._X, self._F, self._V, self._W, self._P, self._E, plan.moments
        chunks = (top.chunks, top.origins, top.piece_order)
        inertia = (self.body.mass, self._fixed, M)
        count = len(top.chunks) - 1
        cleared = (self._met, self._sums)
        speed = (h, FARTHEST * self._extent)
        run(motion.predict, count, 4, *speed, *chunks, self._gained, *inertia, X, F, V, W, P, E, *cleared)
        self._follow_scripts(now, h)
        if self._pairs is not None:
            self._pairs.prepare(X, P, self._fixed, plan.rigid_of, self._touching)
        for ready, pushed in zip(self._colliders, self._pushed, strict=True):
            ready.prepare(X, P, self._bounds, before, now)
            pushed[:] = 0.0
        self._untwist()
        for _ in range(self.iterations):
            self._relax()
            self._rigid_groups(rigid.weigh, self.body.mass, M, P, E, self._frames)
            for _ in range(RIGID_PASSES if len(plan.rigid_starts) > 1 else 1):
                self._separate()
                for k in range(len(self._colliders)):
                    self._push_out(k)
        self._rub(h)
        run(motion.finish, count, 4, h, *chunks, *inertia, X, F, self._met, P, E, self._V0, V, W, self._sums)
        motion.balance(top.piece_chunks, top.origins, plan.held, X, self._sums, self._rigid)
        kept = (exp(-self.damping * h), exp(-self.drag * h))
        run(motion.conserve, n, PARTICLES, *kept, top.piece_of, self._rigid, self._fixed, P, X, V, W)
        self._calm(h)
        self._F, self._E = E, F  # what is now was before, in the next substep

    def _follow_scripts(self, now: float, h: float) -> None:
        """Put scripted particles where their motion wants them at the end of the substep."""
        for k, (particles, script) in enumerate(self.scripts):
            rotation, translation = pose_at(f"scripts[{k}].motion", script, now)
            self._P[particles, :3] = self.body.positions[particles] @ rotation.T + translation
            self._V[particles] = (self._P[particles, :3] - self._X[particles]) / h
            self._E[particles] = rotation.reshape(9)
            B = rotation @ self._schedule.moments[particles].reshape(-1, 3, 3)
            self._P[particles, 4:] = np.pad(B, ((0, 0), (0, 0), (0, 1))).reshape(-1, 12)

    def _relax(self) -> None:
        """All constraints within the bodies, once."""
        plan, P = self._schedule, self._P
        stiffness, lengths, _ = self._coefficients
        groups = (*self._shapes, stiffness, self._fixed, plan.padded, P, self._E)
        # On one thread there is nothing to wait for between layers.
        parallel = len(self._layers) > 2 and thread_count() > 1
        for base, end in pairwise(self._layers if parallel else (self._layers[0], self._layers[-1])):
            run(matching.match, end - base, 1, base, plan.order.blocks, plan.order.batches, *groups)
        if self._stretches:
            self._each_edge(matching.stretch, plan.pairs, plan.lengths, lengths, self._inverse_mass, P)

    def _untwist(self) -> None:
        """Torsion resistance, once a substep."""
        twists = self._coefficients[2]
        if self._twists:
            plan = self._schedule
            turned = (self._inverse_inertia, plan.moments, self._P, self._E)
            self._each_edge(matching.untwist, plan.pairs, twists, *turned)

    def _each_edge(self, function: Callable[..., None], *arguments: object) -> None:
        """Edges by their colours, or all at once on one thread."""
        colours = self._schedule.edge_colours
        if colours[-1] < 2 * GROUPS:
            function(0, colours[-1], 0, *arguments)
            return
        for base, end in pairwise(colours):
            run(function, end - base, GROUPS, base, *arguments)

    def _rigid_groups(self, function: Callable[..., None], *arguments: object) -> None:
        """Call a kernel for the rigid groups that move freely."""
        plan = self._schedule
        count = len(plan.rigid_starts) - 1
        if count:
            run(function, count, 8, plan.rigid_starts, plan.rigid_members, *arguments)

    def _carry(self) -> None:
        """Move rigid groups by what contacts have done to them."""
        self._rigid_groups(rigid.carry, self._schedule.moments, self._P, self._E, self._frames)

    def _separate(self) -> None:
        """Push particles apart that overlap."""
        if self._pairs is not None and len(self._pairs.pairs):
            plan, P, E = self._schedule, self._P, self._E
            bodies = (self._inverse_mass, plan.rigid_of, self._topology.piece_of)
            self._pairs.separate(self._recovery, *bodies, plan.shapes, self._X, P, E, self._frames, self._met)
            self._carry()

    def _push_out(self, k: int) -> None:
        """Move what is in collider k out of it, rigid groups as a whole."""
        if self._colliders[k].idle:
            return
        plan, shift, pushed = self._schedule, self._shift, self._pushed[k]
        shift[:] = 0.0
        self._colliders[k].push_out(
            self._P, self._E, plan.shapes, self._fixed, pushed, self._normals[k], shift
        )
        ready = self._colliders[k]
        frames = (ready.frame_before, ready.frame_now)
        moved = (self._X, self._P, shift, pushed)
        run(rigid.restrain, len(self.body), PARTICLES, self._recovery, self._bounds, *frames, *moved)
        bodies = (plan.rigid_of, self.body.mass, self._inverse_mass)
        self._rigid_groups(rigid.respond, *bodies, self._frames, shift, pushed, self._P)
        self._carry()

    def _rub(self, h: float) -> None:
        """Friction of all contacts of this substep; what it moved into a collider comes out again."""
        n, plan = len(self.body), self._schedule
        moved = (self._X, self._F, self._P, self._E)
        arrays = (plan.rigid_of, self._inverse_mass, self._topology.alone, plan.shapes, plan.moments, *moved)
        if self._pairs is not None:
            self._pairs.rub(self.friction, _for_substep(self.spin_friction, h), self._frames, *arrays)
            self._carry()
        for k, (ready, pushed, normals) in enumerate(
            zip(self._colliders, self._pushed, self._normals, strict=True)
        ):
            if ready.idle:
                continue
            if self._pairs is not None and len(self._pairs.pairs):
                self._push_out(k)
            own = ready.collider
            mu = self.friction if own.friction is None else own.friction
            roll = _for_substep(self.spin_friction if own.spin_friction is None else own.spin_friction, h)
            hits = (ready.frame_before, ready.frame_now, pushed, normals)
            run(friction.rub, n, PARTICLES, mu, roll, *hits, *arrays)
            if len(plan.rigid_starts) > 1:
                groups = (plan.rigid_starts, plan.rigid_members, plan.rigid_of, self._inverse_mass)
                count = len(plan.rigid_starts) - 1
                run(friction.rub_rigid, count, 8, mu, *hits, *groups, plan.shapes, *moved, self._frames)
                self._carry()
            self._met |= pushed > 0.0

    def _calm(self, h: float) -> None:
        """Take away the speed that contacts gave beyond what they return."""
        plan, X, V = self._schedule, self._X, self._V
        speeds = (X, self._V0, V, self._struck)
        # What gravity gives in two substeps is no blow.
        slow = 2 * h * float(np.linalg.norm(self.gravity))
        if self._pairs is not None:
            self._pairs.calm(self.bounce, slow, plan.rigid_of, self._inverse_mass, *speeds, self._frames)
        groups = (plan.rigid_starts, plan.rigid_members, plan.rigid_of, self._inverse_mass)
        count = len(plan.rigid_starts) - 1
        for ready, pushed, normals in zip(self._colliders, self._pushed, self._normals, strict=True):
            if ready.idle:
                continue
            hits = (h, self.bounce, slow, ready.frame_before, ready.frame_now, pushed, normals)
            run(friction.calm, len(self.body), PARTICLES, *hits, plan.rigid_of, *speeds)
            if count:
                run(friction.calm_rigid, count, 8, *hits, *groups, *speeds, self._frames)
        self._rigid_groups(rigid.carry_speed, X, V, self._W, self._frames)


def _rows(count: int) -> Array:
    """Zeros (count, 16); each row begins with a cache line, which makes reading it at random cheaper."""
    room = np.zeros(16 * count + 8)
    skip = -room.ctypes.data // 8 % 8
    return room[skip : skip + 16 * count].reshape(count, 16)


def _for_substep(fraction: float, h: float) -> float:
    """What is taken in a substep of length h so that in 1/60 s it amounts to `fraction`."""
    return float(1 - (1 - fraction) ** (h / REFERENCE))


def _number(name: str, value: float, low: float, high: float, positive: bool = False) -> float:
    wrong = isinstance(value, bool) or not isinstance(value, (Real, np.number))
    if wrong or not low <= value <= high or (positive and value == 0) or value == inf:
        wanted = f"between {low:g} and {high:g}" if high < inf else "finite and not negative"
        raise InputError(f"{name} must be {'positive and finite' if positive else wanted}, got {value!r}")
    return float(value)


def _whole(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InputError(f"{name} must be a whole number of at least 1, got {value!r}")
    return int(value)


def _listed(name: str, values: Any, kind: Any) -> list[Any]:
    """The values, if they are a list of that kind."""
    if not isinstance(values, Iterable):
        raise InputError(f"{name} must be a list, got {type(values).__name__}")
    listed = list(values)
    for k, value in enumerate(listed):
        if not isinstance(value, kind):
            wanted = "a function" if kind is Callable else f"of type {kind.__name__}"
            raise InputError(f"{name}[{k}] must be {wanted}, got {type(value).__name__}")
    return listed


def _checked_script(k: int, script: Script, count: int) -> tuple[NDArray[np.int64], Rigid]:
    particles = as_integers(f"scripts[{k}].particles", script.particles)
    if not len(particles) or particles.min() < 0 or particles.max() >= count:
        raise InputError(
            f"scripts[{k}].particles must be from 0 to {count - 1}, got {particles.tolist()[:10]}"
        )
    return particles, script.motion
