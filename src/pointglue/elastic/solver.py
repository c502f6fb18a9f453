"""The implicit solver: soft and rigid bodies, glue and joints, stepped by Newton's method."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, as_reals, require_finite
from ..errors import InputError
from ..glue import BodyFrames, Spring
from ..procrustes import special_procrustes
from ..procrustes.space import cross_matrices
from .bodies import Bond, ElasticBody, JointBond, checked_energy
from .contact.stage import Contact, ContactStage, ContactSurfaces
from .energies.base import Energy
from .model.rigid_bodies import RigidBody, rotated
from .model.solver_model import SolverModel
from .state import SolverState, Stall, StepError, StepReport
from .step.events import bond_events
from .step.linear_system import System
from .step.newton import Outcome, StalledError, minimise, nearest_contact
from .step.objective import Clock, GlueSprings, Place, Problem, Scheme, Term, energy_at, shifted

__all__ = ["ImplicitSolver"]

# The first step of a method of two steps: it begins with a short one of Euler's and doubles from there, so
# that starting velocities which joints do not allow are gone before anything is extrapolated from them.
RAMP = (1 / 16, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
# A step that is this much longer than the one before is a first one again: beyond 1 + sqrt(2) the method
# is not stable.
LONGER = 2.4
FIRMER = 64.0  # times the stiffness of contact, where a step found no end with that
SHORTEST, LONGEST = 1e-12, 1e6  # time steps (s) that numbers allow
MISSED = 1e-6  # of the scene's size: how far from its key a thing may stay
WIDEST = 1.2  # rad: the farthest that keys may turn a body in one go where it may meet something

Method = Literal["euler", "bdf2"]
Force = Callable[[SolverState], ArrayLike]


class ImplicitSolver:
    """Steps bodies that are tied together by glue and joints.

    `forces` are functions of the state that give forces on all its particles (N, 3), in N, kept through a
    step: wind, for one. `energies` are of all bodies' points together, in the order of the bodies; their
    stencils may change between steps. With `contact` all bodies that have faces meet, themselves too, and
    what does not intersect at the start never does.

    A step is converged when Newton's method moves nothing faster than `tolerance` (m/s) any more. Exact
    Hessians are tried first, and projected ones where those are indefinite. Of damping that depends on the
    positions the symmetric part of its derivative is used. A step that does not converge is halved, up to
    `halvings` times.

    "euler" is of first order and damps; "bdf2" is of second order and damps less. Joints, and glue without
    a spring, hold to rounding.
    """

    def __init__(
        self,
        bodies: Sequence[ElasticBody | RigidBody],
        *,
        glue: Sequence[Bond] = (),
        joints: Sequence[JointBond] = (),
        forces: Sequence[Force] = (),
        energies: Sequence[Energy] = (),
        gravity: ArrayLike = (0.0, -9.81, 0.0),
        method: Method = "euler",
        tolerance: float = 1e-4,
        iterations: int = 60,
        halvings: int = 6,
        conflict_spring: Spring | None = None,
        contact: Contact | None = None,
    ) -> None:
        if method not in ("euler", "bdf2"):
            raise InputError(f"method must be 'euler' or 'bdf2', got {method!r}")
        self.gravity = as_reals("gravity", gravity).astype(np.float64)
        if self.gravity.shape != (3,):
            raise InputError(f"gravity must have shape (3,), got {self.gravity.shape}")
        require_finite("gravity", self.gravity)
        _positive("tolerance", tolerance)
        for name, number, least in (("iterations", iterations, 1), ("halvings", halvings, 0)):
            if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < least:
                raise InputError(f"{name} must be a whole number of at least {least}, got {number!r}")
        if contact is not None and not isinstance(contact, Contact):
            raise InputError(f"contact must be a Contact, got {type(contact).__name__}")
        self.model = SolverModel(bodies, glue, joints, conflict_spring, pushed=contact is not None)
        self.forces, self.energies = tuple(forces), tuple(energies)
        for k, force in enumerate(self.forces):
            if not callable(force):
                raise InputError(f"forces[{k}] must be a function of the state, got {type(force).__name__}")
        for k, energy in enumerate(self.energies):
            checked_energy(f"energies[{k}]", energy, self.model.count)
        self.method, self.tolerance = method, float(tolerance)
        self.iterations, self.halvings = int(iterations), int(halvings)
        # Joints are to be closed to 1e-8 of the size; this is a little better.
        self._violation = 1e-9 * self.model.size
        self._curvature = True  # tests leave it out to show what it is for
        self._system: tuple[Any, System] | None = None
        self.surfaces: ContactSurfaces | None = None
        """What meets, if there is contact."""
        if contact is not None:
            self.surfaces = ContactSurfaces(contact, self.model, self.start().positions)

    def start(self) -> SolverState:
        """The state at time 0."""
        model = self.model
        rigid = model.rigid
        count = len(rigid)
        rotations = np.tile(np.eye(3), (count, 1, 1))
        v = np.zeros((len(model.rest), 3))
        for body in model.bodies:
            if isinstance(body, ElasticBody):
                v[model.rows[body.name]] = body.velocities
        v[model.pinned] = 0.0
        linear = np.array([body.velocity for body in rigid]).reshape(count, 3)
        spins = np.array([body.spin for body in rigid]).reshape(count, 3)
        linear[model.fixed], spins[model.fixed] = 0.0, 0.0
        places = model.rest if self.surfaces is None else self.surfaces.start
        waiting = model.attach > 0
        pose = model.assembly(waiting, model.rest).at(places, _frames(model.origins, rotations))
        return SolverState(
            time=0.0,
            positions=pose.positions.copy(),
            velocities=pose.velocities(v, np.hstack([linear, spins]) if count else None),
            origins=model.origins.copy(),
            rotations=rotations,
            origin_velocities=linear,
            rotation_rates=cross_matrices(spins) @ rotations,
            multipliers=np.zeros(len(model.equations.first)),
            loose=np.zeros(len(v), np.bool_),
            torn=np.zeros(len(model.springs), np.bool_),
            opened=np.zeros(model.joint_count, np.bool_),
            waiting=waiting,
            waiting_joints=model.joint_attach > 0,
            targets=model.rest,
            rows=model.rows,
        )

    def step(
        self, state: SolverState, dt: float, *, watch: Callable[[], object] = lambda: None
    ) -> SolverState:
        """The state `dt` seconds later.

        `watch` is called before each Newton iteration: it may raise an error of its own to give the step up,
        after which the solver can be used as before.
        """
        _positive("dt", dt)
        if not SHORTEST <= dt <= LONGEST:
            raise InputError(f"dt must be a time from {SHORTEST:g} to {LONGEST:g} s, got {dt!r}")
        self._check_state(state)
        reports: list[StepReport] = []
        now = state
        if self.surfaces is not None and not state.stiffness:
            now = replace(state, stiffness=self.surfaces.stiffness(self.gravity, dt))
        if state.past is not None and dt > LONGER * (state.time - state.past.time):
            now = replace(now, past=None)
        shares = RAMP if self.method == "bdf2" and now.past is None else (1.0,)
        clock, wasted = Clock(), 0
        todo = [(share * float(dt), 0, 1.0) for share in shares[::-1]]
        while todo:
            duration, depth, firmness = todo.pop()
            try:
                now = self._substep(now, duration, float(dt), firmness, clock, watch)
            except StalledError as error:
                wasted += error.iterations
                if firmness == 1.0 and self.surfaces is not None and self.surfaces.adaptive:
                    # A blow that contact is too soft for: pairs are pressed so near that nothing moves.
                    todo.append((duration, depth, FIRMER))
                    continue
                if depth == self.halvings:
                    stall = error.locate()
                    at = f" ({stall})" if stall.bodies else ""
                    raise StepError(
                        f"the step from {now.time:.6g} s did not converge, nor its part of {duration:.3g} s: "
                        f"{error}{at}",
                        now,
                        stall,
                    ) from error
                todo += [(duration / 2, depth + 1, firmness)] * 2
            else:
                assert now.report is not None
                reports.append(now.report)
        report = replace(
            StepReport.merged(reports),
            seconds=clock.seconds,
            wasted=wasted,
            events=bond_events(self.model, state, now),
        )
        return replace(now, report=report)

    def momenta(self, state: SolverState) -> tuple[Array, Array]:
        """Linear (kg m/s) and angular momentum about the world's origin (kg m^2/s), each (3,)."""
        model = self.model
        p = model.mass[:, None] * state.velocities
        linear = model.inertia.mass[:, None] * state.origin_velocities
        spin = state.rotation_rates @ model.inertia.moment @ np.swapaxes(state.rotations, 1, 2)
        own = np.stack(
            [spin[:, 2, 1] - spin[:, 1, 2], spin[:, 0, 2] - spin[:, 2, 0], spin[:, 1, 0] - spin[:, 0, 1]], 1
        )
        angular = np.cross(state.positions, p).sum(0) + (np.cross(state.origins, linear) + own).sum(0)
        return p.sum(0) + linear.sum(0), angular

    def _check_state(self, state: SolverState) -> None:
        """Raise unless the state is of these bodies."""
        mine = self.start_shapes
        if not isinstance(state, SolverState) or (state.rows, _shapes(state)) != mine:
            raise InputError("state must be one of this solver: begin with solver.start()")

    @cached_property
    def start_shapes(self) -> tuple[dict[str, slice], list[tuple[int, ...]]]:
        """What a state of this solver looks like."""
        return self.model.rows, _shapes(self.start())

    def _substep(
        self,
        state: SolverState,
        h: float,
        dt: float,
        firmness: float,
        clock: Clock,
        watch: Callable[[], object],
    ) -> SolverState:
        model, end = self.model, state.time + h
        moment = state.time + 1e-6 * h  # times of keys are met in spite of the rounding of sums of steps
        loose = state.loose | (model.release <= moment)
        opened = state.opened | (model.joint_release <= moment)
        state = self._stuck(state, loose, moment)
        springs = GlueSprings(model.springs, model.springs.active(moment) & ~state.torn)
        terms = self._terms(end, springs)
        with clock("sum"):
            free, holding = loose | state.waiting, ~(opened | state.waiting_joints)
            system = self._system_for(free, holding, state.targets, terms)
            system.begin()
        scheme = self._scheme(state, h)
        forces = np.zeros_like(state.positions)
        for k, force in enumerate(self.forces):
            given = as_reals(f"forces[{k}]", force(state))
            if given.shape != forces.shape:
                raise InputError(f"forces[{k}] must give shape {forces.shape}, got {given.shape}")
            require_finite(f"forces[{k}]", given)
            forces += given
        with clock("glue"):
            before = system.assembly.evaluate(
                state.positions.copy(), BodyFrames(state.origins, state.rotations)
            )
            directions = model.directions(before)
        contact = self._stage(
            state, scheme, h, firmness, clock, [tie.holds(moment, loose, opened) for tie in model.ties]
        )
        problem = Problem(
            system, scheme, terms, forces, directions, before, clock,
            contact=contact, curvature=self._curvature,
        )  # fmt: skip
        starts = self._starts(state, h, end)
        outcome = minimise(
            problem,
            starts,
            state.multipliers[system.equations],
            h,
            # Rounding of places, as a speed, is the least that can be asked for.
            tolerance=max(self.tolerance, 1e-14 * float(np.abs(state.positions).max()) / h),
            violation=self._violation,
            iterations=self.iterations,
            watch=watch,
        )
        if self.surfaces is not None:
            self._check_keys(problem, outcome)
        return self._ended(state, h, dt, problem, outcome, loose, opened, springs)

    def _check_keys(self, problem: Problem, outcome: Outcome) -> None:
        """Raise unless what keys move has got there."""
        model, target, place = self.model, problem.scheme.target, outcome.end.place
        away = np.linalg.norm(target.x - place.x, axis=1) * model.driven
        bodies = np.linalg.norm(target.origins - place.origins, axis=1) * model.driven_bodies
        missing = max(away.max(initial=0.0), bodies.max(initial=0.0))
        if missing > MISSED * model.size:
            far = away.max(initial=0.0) > bodies.max(initial=0.0)
            name = model.describe(int(away.argmax())) if far else repr(model.rigid[int(bodies.argmax())].name)
            raise StalledError(
                f"contact keeps {name} {missing:.3g} m from where its motion says",
                lambda: replace(nearest_contact(problem, outcome.end) or Stall("motion"), cause="motion"),
                len(outcome.speeds),
            )

    def _stuck(self, state: SolverState, loose: NDArray[np.bool_], moment: float) -> SolverState:
        """The state, in which what is to stick at that time (s) sticks where it is."""
        model = self.model
        waiting = state.waiting & (model.attach > moment)
        waiting_joints = state.waiting_joints & (model.joint_attach > moment)
        points, joints = state.waiting & ~waiting & ~loose, state.waiting_joints & ~waiting_joints
        if not (points.any() or joints.any()):
            return state
        frames = BodyFrames(state.origins, state.rotations)
        targets = model.caught(state.targets, loose | waiting, points, joints, state.positions, frames)
        return replace(state, targets=targets, waiting=waiting, waiting_joints=waiting_joints)

    def _stage(
        self,
        state: SolverState,
        scheme: Scheme,
        h: float,
        firmness: float,
        clock: Clock,
        holding: list[bool],
    ) -> ContactStage | None:
        """Contact during the step."""
        if self.surfaces is None:
            return None
        # A part of a step that had to be halved is a blow: what stops it is firm for as long.
        stiffness = firmness * max(state.stiffness, self.surfaces.stiffness(self.gravity, h))
        with clock("contact"):
            self.surfaces.hold(tuple(holding), state.positions)
            return ContactStage(
                self.surfaces, state.positions, scheme.reference.x, scheme.slope, stiffness,
                state.time + h,
            )  # fmt: skip

    def _terms(self, end: float, springs: GlueSprings) -> list[Term]:
        """All energies at the end of the step."""
        model = self.model
        terms = []
        for body in model.bodies:
            if isinstance(body, ElasticBody):
                rows = model.rows[body.name]
                for k, given in enumerate(body.energies):
                    energy = energy_at(given, end)
                    if energy is not given:
                        checked_energy(f"energies[{k}] of {body.name!r}", energy, rows.stop - rows.start)
                    terms.append(Term(energy, rows))
        if len(springs.springs):
            terms.append(Term(springs, slice(0, len(model.rest))))
        return terms + [Term(energy, slice(0, model.count)) for energy in self.energies]

    def _system_for(
        self, loose: NDArray[np.bool_], holding: NDArray[np.bool_], targets: Array, terms: list[Term]
    ) -> System:
        """The last one, if nothing has been let go or has stuck and no stencils have changed since."""
        key = (loose.tobytes(), holding.tobytes(), [term.energy.stencils for term in terms], targets)
        if self._system is not None:
            old = self._system[0]
            same = len(old[2]) == len(key[2]) and all(
                _same(a, b) for a, b in zip(old[2], key[2], strict=True)
            )
            if old[:2] == key[:2] and same and _same(old[3], targets):
                return self._system[1]
        stencils = [shifted(term.energy.stencils, term.rows.start) for term in terms]
        system = System(self.model, loose, holding, targets, stencils)
        self._system = (key, system)
        return system

    def _scheme(self, state: SolverState, h: float) -> Scheme:
        """Where things would go without forces but gravity, and how velocities follow from places."""
        now = (state.positions, state.origins, state.rotations)
        rates = (state.velocities, state.origin_velocities, state.rotation_rates)
        fall = (self.gravity, self.gravity, np.zeros(3))
        past = state.past
        tau = h
        if past is not None:
            ratio = h / (state.time - past.time)
            tau = h * (1 + ratio) / (1 + 2 * ratio)
            b = ratio * ratio / (1 + 2 * ratio)
            old = (past.positions, past.origins, past.rotations)
            old_rates = (past.velocities, past.origin_velocities, past.rotation_rates)
            now = tuple(x + b * (x - y) for x, y in zip(now, old, strict=True))  # type: ignore[assignment]
            rates = tuple(x + b * (x - y) for x, y in zip(rates, old_rates, strict=True))  # type: ignore[assignment]
        target = Place(*(x + tau * v + tau * tau * g for x, v, g in zip(now, rates, fall, strict=True)))
        if self.surfaces is not None:
            self._key(target, state.time + h)
            cosines = (np.einsum("bij,bij->b", target.rotations, state.rotations) - 1) / 2
            fast = np.flatnonzero(self.model.driven_bodies & (cosines < np.cos(WIDEST)))
            if len(fast):
                turn = np.arccos(np.clip(cosines[fast[0]], -1.0, 1.0))
                name = self.model.rigid[int(fast[0])].name
                raise StalledError(
                    f"{name!r} turns by {turn:.3g} rad, more than contact can follow in one go",
                    lambda: Stall.at("motion", (name,), state.origins[fast[0]]),
                )
        return Scheme(1 / tau**2, 1 / tau, target, Place(*now))

    def _key(self, place: Place, moment: float) -> None:
        """Put what keys move to where it is at a time (s)."""
        model = self.model
        for body in model.bodies:
            if isinstance(body, ElasticBody) and body.motion is not None:
                rows = np.flatnonzero(np.asarray(body.pinned)) + model.rows[body.name].start
                place.x[rows] = _moved_to(body, as_reals("motion", body.motion(moment)), (len(rows), 3))
        for b, body in enumerate(model.rigid):
            if body.motion is not None:
                given = body.motion(moment)
                if not isinstance(given, tuple | list) or len(given) != 2:
                    raise InputError(
                        f"motion of {body.name!r} must give a place and a rotation, got {given!r}"
                    )
                place.origins[b] = _moved_to(body, as_reals("motion", given[0]), (3,))
                turn = _moved_to(body, as_reals("motion", given[1]), (3, 3))
                if not np.abs(turn @ turn.T - np.eye(3)).max() < 1e-6 or np.linalg.det(turn) < 0:
                    raise InputError(f"motion of {body.name!r} must give a rotation, got {turn.tolist()}")
                place.rotations[b] = special_procrustes(turn)

    def _starts(self, state: SolverState, h: float, end: float) -> list[Place]:
        """Places to begin from: as it is, and as it would be with the velocities kept."""
        model = self.model
        here = Place(state.positions.copy(), state.origins.copy(), state.rotations.copy())
        if self.surfaces is None:
            self._key(here, end)
        free, moving = ~model.pinned, ~model.fixed
        on, along, turned = here.x.copy(), here.origins.copy(), here.rotations.copy()
        on[free] += h * state.velocities[free]
        along[moving] += h * state.origin_velocities[moving]
        turned[moving] = rotated(here.rotations[moving], h * state.spins[moving])
        return [Place(on, along, turned), here]

    def _ended(
        self,
        state: SolverState,
        h: float,
        dt: float,
        problem: Problem,
        outcome: Outcome,
        loose: NDArray[np.bool_],
        opened: NDArray[np.bool_],
        springs: GlueSprings,
    ) -> SolverState:
        """The state at the end, with what has broken by then let go."""
        model, scheme, end = self.model, problem.scheme, outcome.end
        x, place = end.x, end.place
        rotations = special_procrustes(place.rotations) if len(place.rotations) else place.rotations
        velocities = problem.velocities(x)
        multipliers = np.zeros(len(model.equations.first))
        multipliers[problem.system.equations] = outcome.multipliers
        torn = state.torn | springs.springs.overloaded(x, velocities, springs.active)
        if np.isfinite(model.break_force).any():
            problem.differentiate(end)
            loads = problem.loads(end, outcome.multipliers).on_layers
            loose = loose.copy()
            for (rows, _), load in zip(problem.system.assembly.layers, loads, strict=True):
                loose[rows] |= np.linalg.norm(load, axis=1) > model.break_force[rows]
        if np.isfinite(model.joint_break_force).any():
            pulls = np.zeros((model.joint_count, 3))
            each = multipliers[problem.system.equations, None] * problem.directions
            np.add.at(pulls, model.equations.joint_of[problem.system.equations], each)
            opened = opened | (np.linalg.norm(pulls, axis=1) > model.joint_break_force)
        reference = scheme.reference
        return SolverState(
            time=state.time + h,
            positions=x.copy(),
            velocities=velocities,
            origins=place.origins.copy(),
            rotations=rotations,
            origin_velocities=scheme.slope * (place.origins - reference.origins),
            rotation_rates=scheme.slope * (rotations - reference.rotations),
            multipliers=multipliers,
            loose=loose,
            torn=torn,
            opened=opened,
            waiting=state.waiting,
            waiting_joints=state.waiting_joints,
            targets=state.targets,
            rows=state.rows,
            stiffness=self._next_stiffness(problem, x, state.stiffness, dt),
            report=StepReport(
                substeps=1,
                speeds=tuple(outcome.speeds),
                projected=outcome.projected,
                factorisations=outcome.factorisations,
                violation=float(np.abs(end.violation).max(initial=0.0)),
                redundant=outcome.redundant,
                seconds={},  # known when all substeps are through
                contacts=problem.contact.count(x) if problem.contact else 0,
                gap=problem.contact.gap(x) if problem.contact else np.inf,
            ),
            past=replace(state, past=None) if self.method == "bdf2" else None,
        )

    def _next_stiffness(self, problem: Problem, x: Array, now: float, dt: float) -> float:
        if self.surfaces is None or problem.contact is None:
            return 0.0
        return problem.contact.next_stiffness(x, now, self.surfaces.stiffness(self.gravity, dt))


def _same(a: Any, b: Any) -> bool:
    """Whether these are the same stencils; those that are equal but made anew each time are compared."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, np.ndarray):
        return False
    return np.array_equal(a, b)


def _shapes(state: SolverState) -> list[tuple[int, ...]]:
    """Of all arrays."""
    return [value.shape for value in vars(state).values() if isinstance(value, np.ndarray)]


def _moved_to(body: ElasticBody | RigidBody, value: Array, shape: tuple[int, ...]) -> Array:
    if value.shape != shape:
        raise InputError(f"motion of {body.name!r} must give shape {shape}, got {value.shape}")
    require_finite(f"motion of {body.name!r}", value)
    return value


def _frames(origins: Array, rotations: Array) -> BodyFrames | None:
    return BodyFrames(origins, rotations) if len(origins) else None


def _positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < np.inf:
        raise InputError(f"{name} must be a positive number, got {value!r}")
