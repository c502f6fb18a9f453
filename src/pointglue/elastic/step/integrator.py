"""One substep of the implicit solver: from a state to the objective, its minimum, and the state after."""

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import Array, as_reals, check_rotations, require_finite
from ...errors import InputError
from ...glue import AssemblyPose, BodyFrames
from ...procrustes import Groups, special_procrustes
from ..bodies import ElasticBody, check_energy
from ..contact.stage import ContactStage
from ..contact.surfaces import ContactSurfaces
from ..energies.base import Energy
from ..model.constraints import Bounds, Rates, StepRows
from ..model.rigid_bodies import RigidBody, rotated
from ..model.solver_model import SolverModel
from ..state import SolverState, Stall, StepReport
from .active_set import open_by
from .blows import has_blown, has_struck
from .events import TIME_ROUNDING
from .free_parts import FreeParts
from .glue_springs import GlueDampers, GlueSprings
from .guesses import free_bodies, turned_bodies
from .linear_system import LinearSystem
from .newton.accuracy import RIGID_SPEED, Accuracy, BodySizes
from .newton.minimise import Outcome, minimise
from .newton.mixture import Mixture
from .newton.stalls import StalledError, nearest_contact
from .objective import Clock, Configuration, Objective, Scheme
from .terms import Term, energy_at, shifted_stencils

__all__ = ["Force", "Integrator", "Method"]

# ratio of the model's size: how far joints may be open; they are promised to be closed to 1e-8.
JOINT_TOLERANCE = 1e-9
# ratio of the coordinates: their rounding, below which a Newton step cannot get
POSITION_ROUNDING = 1e-14
KINEMATIC_TOLERANCE = 1e-6  # ratio of the model's size: how far from its key a kinematic body may stay
MAX_KINEMATIC_ROTATION = (
    1.2  # rad: the most that keys may turn a body in one substep where it may meet others
)

Method = Literal["euler", "bdf2"]
Force = Callable[[SolverState], ArrayLike]


@dataclass(eq=False)
class Integrator:
    """The implicit integrator of one substep.

    Parameters
    ----------
    model : SolverModel
        All bodies.
    surfaces : ContactSurfaces or None
        The surfaces that meet, if there is contact.
    forces : sequence of callable
        Functions of the state that return forces on all bodies' points (n, 3) [N], constant through a
        substep.
    energies : sequence of Energy
        Energies of all bodies' points together.
    gravity : (3,)
        The acceleration of gravity [m/s^2].
    method : {"euler", "bdf2"}
        The integration scheme.
    tolerance : float or None
        The speed below which a full Newton step is converged [m/s], see `Accuracy`.
    iterations : int
        The most Newton steps.
    """

    model: SolverModel
    surfaces: ContactSurfaces | None
    forces: Sequence[Force]
    energies: Sequence[Energy]
    gravity: Array
    method: Method
    tolerance: float | None
    iterations: int
    system: LinearSystem | None = field(default=None, init=False)
    """The linear system of the last substep, which is kept while its sparsity stays the same."""
    _system_key: tuple[Any, ...] = field(default=(), init=False)
    _parts: FreeParts | None = field(default=None, init=False)
    _parts_key: tuple[Any, ...] = field(default=(), init=False)

    def substep(
        self,
        state: SolverState,
        h: float,
        dt: float,
        stiffness_factor: float,
        patience: float,
        clock: Clock,
        watch: Callable[[], object],
    ) -> SolverState:
        """Return the state after a substep.

        Parameters
        ----------
        state : SolverState
            The state before.
        h : float
            The duration of the substep [s].
        dt : float
            The duration of the whole step, for which the next barrier stiffness is chosen [s].
        stiffness_factor : float
            The factor of the barrier stiffness [1].
        patience : float
            How far from convergence a substep may end, as a ratio to the tolerance [1].
        clock : Clock
            The clock that counts the time of each part.
        watch : callable
            A function that is called before each Newton step.

        Returns
        -------
        SolverState

        Raises
        ------
        StalledError
            If Newton's method does not converge, or keys cannot be followed.
        """
        model, end = self.model, state.time + h
        begin = state.time + TIME_ROUNDING * h
        with clock("sum"):
            state, released, released_joints, springs, terms, system = self._prepared(
                self.continued(state, h), h
            )
            system.begin()
        scheme = self.scheme(state, h)
        past = None if state.previous is None else state.previous.particles
        terms = [term.damped(scheme.slope, state.particles, past, scheme.extrapolation) for term in terms]
        forces = self._external_forces(state)
        with clock("glue"):
            before = system.assembly.evaluate(
                state.particles.copy(), BodyFrames(state.origins, state.rotations)
            )
            bounds = self._bounds(state, before, scheme, end)
            sliders = model.constraints.slider_frames(before.positions)
            rows = StepRows(model.directions(before), state.angles, bounds, sliders)
        active_bonds = [bond.holds(begin, released, released_joints) for bond in model.initial_bonds]
        contact = self._contact_stage(state, scheme, h, stiffness_factor, clock, active_bonds)
        objective = Objective(system, scheme, terms, forces, rows, before, clock, contact=contact)
        guesses = self._initial_guesses(state, scheme.target.x, h, end)
        rounding = POSITION_ROUNDING * float(np.abs(state.particles).max()) / h
        outcome = minimise(
            objective,
            guesses,
            state.multipliers[system.equations],
            Accuracy(system, self._sizes, h, self.tolerance, rounding),
            Mixture(*state.mixture.tolist()),
            violation=JOINT_TOLERANCE * model.size,
            iterations=self.iterations,
            patience=patience,
            watch=watch,
        )
        if self.surfaces is not None:
            self._check_kinematics(objective, outcome)
        end_state = self._end_state(state, h, dt, objective, outcome, released, released_joints, springs)
        if state.previous is None or end_state.previous is None:
            return end_state
        parts = self._free_parts_for(system, terms, springs)
        return parts.balanced(end_state, state, state.previous, scheme.extrapolation)

    def turn(self, state: SolverState, dt: float) -> float:
        """Return how far the free part that spins fastest turns in dt seconds from a state on [rad]."""
        state, *_, springs, terms, system = self._prepared(state, dt)
        return dt * self._free_parts_for(system, terms, springs).fastest_spin(state)

    def _prepared(
        self, state: SolverState, h: float
    ) -> tuple[SolverState, NDArray[np.bool_], NDArray[np.bool_], GlueSprings, list[Term], LinearSystem]:
        """Return what a substep of h seconds from a state begins with.

        These are the state with all attached that is due, the particles of glue (N,) and the joints (J,)
        that are released, the springs of glue, all energies at the end, and the linear system.
        """
        begin = state.time + TIME_ROUNDING * h
        released, released_joints, *_ = self._holding(state, h)
        state = self._attached(state, released, begin)
        springs = self.springs(state, begin)
        terms = self.terms(state.time + h, springs)
        active_joints = ~(released_joints | state.pending_joints)
        system = self.system_for(released | state.pending, active_joints, state.targets, terms)
        return state, released, released_joints, springs, terms, system

    def continued(self, state: SolverState, h: float) -> SolverState:
        """Return the state for a step of h seconds, without its past if what holds has changed since.

        A method of two steps tells forces from the way before: what a weld did to a body in the moment in
        which it broke would go on, and make it spin faster.
        """
        past = state.previous
        if past is None:
            return state
        changes = zip(self._holding(past, state.time - past.time), self._holding(state, h), strict=True)
        same = all(np.array_equal(before, now) for before, now in changes)
        return state if same else replace(state, previous=None)

    def _holding(self, state: SolverState, h: float) -> tuple[NDArray[np.bool_], ...]:
        """Return what holds in a step of h seconds that begins with a state.

        These are the particles of glue (N,) and the joints (J,) that are released, those that attach later
        (N,) and (J,), and the springs (S,) that act.
        """
        model, begin = self.model, state.time + TIME_ROUNDING * h
        return (
            state.released | (model.release <= begin),
            state.released_joints | (model.joint_release <= begin),
            state.pending & (model.attach > begin),
            state.pending_joints & (model.joint_attach > begin),
            model.springs.active(begin) & ~state.broken_springs,
        )

    def springs(self, state: SolverState, time: float) -> GlueSprings:
        """Return the springs of glue, of which those act that are due at a time [s] and have not broken."""
        active = self.model.springs.active(time) & ~state.broken_springs
        return GlueSprings(self.model.springs, self.model.spring_frames, active)

    def terms(self, end: float, springs: GlueSprings) -> list[Term]:
        """Return all energies at the end of a substep, a time [s], and those of springs of glue."""
        model, terms = self.model, self.energy_terms(end)
        every = slice(0, len(model.rest))
        if len(springs.springs):
            terms.append(Term(springs, every))
        if len(springs.frames.springs):
            terms.append(Term(springs.dampers(), every))
        return terms

    def energy_terms(self, end: float) -> list[Term]:
        """Return the energies of all bodies, and those of all points together, at a time [s]."""
        model = self.model
        terms = []
        for body in model.bodies:
            if isinstance(body, ElasticBody):
                rows = model.rows[body.name]
                for k, given in enumerate(body.energies):
                    energy = energy_at(given, end)
                    if energy is not given:
                        check_energy(f"energies[{k}] of {body.name!r}", energy, rows.stop - rows.start)
                    terms.append(Term(energy, rows))
        return terms + [Term(energy, slice(0, model.count)) for energy in self.energies]

    def system_for(
        self,
        free: NDArray[np.bool_],
        active_joints: NDArray[np.bool_],
        targets: Array,
        terms: list[Term],
    ) -> LinearSystem:
        """Return the last linear system, or a new one if bonds, joints or stencils have changed since.

        Parameters
        ----------
        free : (N,)
            Which particles of glue are not bound.
        active_joints : (J,)
            Which joints hold.
        targets : (N, 3)
            Where bound particles would be at rest [m].
        terms : list of Term
            The energies.

        Returns
        -------
        LinearSystem
        """
        key = (free.tobytes(), active_joints.tobytes(), [term.energy.stencils for term in terms], targets)
        if self.system is not None:
            old = self._system_key
            same = len(old[2]) == len(key[2]) and all(
                _same(a, b) for a, b in zip(old[2], key[2], strict=True)
            )
            if old[:2] == key[:2] and same and _same(old[3], targets):
                return self.system
        stencils = [shifted_stencils(term.energy.stencils, term.rows.start) for term in terms]
        self.system = LinearSystem(self.model, free, active_joints, targets, stencils)
        self._system_key = key
        return self.system

    def _free_parts_for(self, system: LinearSystem, terms: Sequence[Term], springs: GlueSprings) -> FreeParts:
        """Return the free parts of the last substep, or new ones if bonds or stencils have changed."""
        key = (system, springs.active.tobytes())
        if self._parts is None or self._parts_key != key:
            connected = [term for term in terms if not isinstance(term.energy, GlueSprings | GlueDampers)]
            stencils = [shifted_stencils(term.energy.stencils, term.rows.start) for term in connected]
            self._parts = FreeParts(system, [*stencils, np.asarray(springs.stencils)[springs.active]])
            self._parts_key = key
        return self._parts

    def scheme(self, state: SolverState, h: float) -> Scheme:
        """Return the integration scheme of a substep of h seconds."""
        now = (state.particles, state.origins, state.rotations)
        rates = (state.particle_velocities, state.origin_velocities, state.rotation_rates)
        fall = (self.gravity, self.gravity, np.zeros(3))
        past = state.previous
        tau, b = h, 0.0
        if past is not None:
            ratio = h / (state.time - past.time)
            tau = h * (1 + ratio) / (1 + 2 * ratio)
            b = ratio * ratio / (1 + 2 * ratio)
            old = (past.particles, past.origins, past.rotations)
            old_rates = (past.particle_velocities, past.origin_velocities, past.rotation_rates)
            now = tuple(x + b * (x - y) for x, y in zip(now, old, strict=True))  # type: ignore[assignment]
            rates = tuple(x + b * (x - y) for x, y in zip(rates, old_rates, strict=True))  # type: ignore[assignment]
        target = Configuration(
            *(x + tau * v + tau * tau * g for x, v, g in zip(now, rates, fall, strict=True))
        )
        if self.surfaces is not None:
            self._apply_motion(target, state.time + h)
            self._check_rotations(target, state)
        return Scheme(1 / tau**2, 1 / tau, b, target, Configuration(*now))

    def _bounds(self, state: SolverState, pose: AssemblyPose, scheme: Scheme, end: float) -> Bounds:
        """Return what joints, limits and motors must satisfy in a substep from a pose until a time [s]."""
        constraints, past, weight = self.model.constraints, state.previous, scheme.extrapolation
        slides, angles, before = constraints.slides(pose.positions), state.angles, state.time
        if past is not None:
            # A joint that has only just attached has no coordinate before.
            of_slides = np.where(past.pending_joints[constraints.coordinate_joints], 0.0, weight)
            of_angles = np.where(past.pending_joints[constraints.angle_joints], 0.0, weight)
            slides = slides + of_slides * (slides - constraints.slides(past.particles))
            angles = angles + of_angles * (angles - past.angles)
            before = past.time
        return constraints.bounds(slides, angles, Rates(scheme.slope, weight, end, state.time, before))

    def _external_forces(self, state: SolverState) -> Array:
        """Return the sum of the forces on all particles (N, 3) [N]."""
        forces, count = np.zeros_like(state.particles), self.model.count
        for k, force in enumerate(self.forces):
            given = as_reals(f"forces[{k}]", force(state))
            if given.shape != (count, 3):
                raise InputError(f"forces[{k}] must give shape {(count, 3)}, got {given.shape}")
            require_finite(f"forces[{k}]", given)
            forces[:count] += given
        return forces

    def _check_rotations(self, target: Configuration, state: SolverState) -> None:
        """Raise if keys turn a body farther than continuous collision detection can follow."""
        cosines = (np.einsum("bij,bij->b", target.rotations, state.rotations) - 1) / 2
        fast = np.flatnonzero(self.model.kinematic_bodies & (cosines < np.cos(MAX_KINEMATIC_ROTATION)))
        if len(fast):
            turn = np.arccos(np.clip(cosines[fast[0]], -1.0, 1.0))
            name = self.model.rigid[int(fast[0])].name
            raise StalledError(
                f"{name!r} turns by {turn:.3g} rad, more than contact can follow in one go",
                lambda: Stall.at("motion", (name,), state.origins[fast[0]]),
            )

    def _check_kinematics(self, objective: Objective, outcome: Outcome) -> None:
        """Raise unless kinematic particles and bodies have got to where their motion says."""
        model, target, end = self.model, objective.scheme.target, outcome.end.configuration
        of_particles = np.linalg.norm(target.x - end.x, axis=1) * model.kinematic
        of_bodies = np.linalg.norm(target.origins - end.origins, axis=1) * model.kinematic_bodies
        missing = max(of_particles.max(initial=0.0), of_bodies.max(initial=0.0))
        if missing > KINEMATIC_TOLERANCE * model.size:
            if of_particles.max(initial=0.0) > of_bodies.max(initial=0.0):
                name = model.describe(int(of_particles.argmax()))
            else:
                name = repr(model.rigid[int(of_bodies.argmax())].name)
            raise StalledError(
                f"contact keeps {name} {missing:.3g} m from where its motion says",
                lambda: replace(nearest_contact(objective, outcome.end) or Stall("motion"), cause="motion"),
                len(outcome.speeds),
            )

    def _attached(self, state: SolverState, released: NDArray[np.bool_], time: float) -> SolverState:
        """Return the state with all attached, where it is, that is to attach at that time [s]."""
        model = self.model
        pending = state.pending & (model.attach > time)
        pending_joints = state.pending_joints & (model.joint_attach > time)
        points, joints = state.pending & ~pending & ~released, state.pending_joints & ~pending_joints
        if not (points.any() or joints.any()):
            return state
        frames = BodyFrames(state.origins, state.rotations)
        free = released | pending
        targets = model.attached_targets(state.targets, free, points, joints, state.particles, frames)
        angles = np.where(joints[model.constraints.angle_joints], 0.0, state.angles)
        return replace(state, angles=angles, targets=targets, pending=pending, pending_joints=pending_joints)

    def _contact_stage(
        self,
        state: SolverState,
        scheme: Scheme,
        h: float,
        stiffness_factor: float,
        clock: Clock,
        active_bonds: list[bool],
    ) -> ContactStage | None:
        """Return contact during the substep, if there is any."""
        if self.surfaces is None:
            return None
        # Part of a step that had to be halved is a blow, for which the barrier is stiffer.
        first = self.surfaces.stiffness(self.gravity, h)
        stiffness = stiffness_factor * max(state.barrier_stiffness, first)
        with clock("contact"):
            self.surfaces.filter_bonded(tuple(active_bonds), state.particles)
            return ContactStage(
                self.surfaces,
                state.particles,
                scheme.reference.x,
                scheme.slope,
                stiffness,
                state.time + h,
            )

    def _apply_motion(self, configuration: Configuration, time: float) -> None:
        """Put kinematic particles and bodies to where they are at a time [s]."""
        model = self.model
        for body in model.bodies:
            if isinstance(body, ElasticBody) and body.motion is not None:
                rows = np.flatnonzero(np.asarray(body.pinned)) + model.rows[body.name].start
                configuration.x[rows] = _check_motion(body, body.motion(time), (len(rows), 3))
        for b, body in enumerate(model.rigid):
            if body.motion is not None:
                given = body.motion(time)
                if not isinstance(given, tuple | list) or len(given) != 2:
                    raise InputError(
                        f"motion of {body.name!r} must give a position and a rotation, got {given!r}"
                    )
                configuration.origins[b] = _check_motion(body, given[0], (3,))
                turn = check_rotations(f"rotations by the motion of {body.name!r}", given[1], (3, 3))
                configuration.rotations[b] = special_procrustes(turn)

    @cached_property
    def _sizes(self) -> BodySizes:
        """The sizes of the bodies."""
        return BodySizes(self.model)

    @cached_property
    def _free_bodies(self) -> Groups | None:
        """The particles of each soft body of which none is pinned, if there are any."""
        return free_bodies(self.model)

    def _initial_guesses(
        self, state: SolverState, target: Array, h: float, end: float
    ) -> list[Configuration]:
        """Return the configurations to begin from: with the velocities kept, and the current one.

        Where free soft bodies turn, there is one more, in which these move rigidly, as near to `target`
        (N, 3) as they get. Straight on, a stiff one is stretched so much that the current configuration seems
        better, and from that it takes many short Newton steps along a circle.
        """
        model = self.model
        here = Configuration(state.particles.copy(), state.origins.copy(), state.rotations.copy())
        if self.surfaces is None:
            self._apply_motion(here, end)
        free, moving = ~model.pinned, ~model.fixed
        x, origins, rotations = here.x.copy(), here.origins.copy(), here.rotations.copy()
        x[free] += h * state.particle_velocities[free]
        origins[moving] += h * state.origin_velocities[moving]
        rotations[moving] = rotated(here.rotations[moving], h * state.spins[moving])
        guesses = [Configuration(x, origins, rotations), here]
        turned = (
            None if self._free_bodies is None else turned_bodies(model, self._free_bodies, here.x, target)
        )
        if turned is not None:
            x = x.copy()
            x[turned[0]] = turned[1]
            guesses.insert(0, Configuration(x, origins, rotations))
        return guesses

    def _end_state(
        self,
        state: SolverState,
        h: float,
        dt: float,
        objective: Objective,
        outcome: Outcome,
        released: NDArray[np.bool_],
        released_joints: NDArray[np.bool_],
        springs: GlueSprings,
    ) -> SolverState:
        """Return the state at the end of the substep, with bonds and joints released that have broken."""
        model, scheme, end = self.model, objective.scheme, outcome.end
        x, here = end.x, end.configuration
        rotations = special_procrustes(here.rotations) if len(here.rotations) else here.rotations
        slope, reference = scheme.slope, scheme.reference
        slow = RIGID_SPEED * model.size if self.tolerance is None else self.tolerance
        contact_forces = np.zeros_like(state.contact_forces)
        if objective.contact is not None:
            contact_forces[objective.contact.surfaces.particles] = -objective.contact.gradient(x)
        falling = h * float(np.linalg.norm(self.gravity))
        blow = self.method == "bdf2" and has_blown(
            state, contact_forces, (x - state.particles) / h, max(slow, falling)
        )
        struck = blow or (self.method == "bdf2" and has_struck(objective, outcome.multipliers, state, slow))
        if struck:
            slope, reference = 1 / h, Configuration(state.particles, state.origins, state.rotations)
        velocities = slope * (x - reference.x)
        multipliers = np.zeros(len(model.constraints))
        multipliers[objective.system.equations] = outcome.multipliers
        bond_forces = self._bond_forces(objective, outcome, springs)
        tensions = np.linalg.norm(bond_forces[springs.springs.second], axis=1)
        broken_springs = state.broken_springs | (tensions > springs.springs.break_force)
        broken, broken_joints = self._overloaded(x, bond_forces)
        angles = model.constraints.angles(x, state.angles)
        return SolverState(
            time=state.time + h,
            particles=x.copy(),
            particle_velocities=velocities,
            origins=here.origins.copy(),
            rotations=rotations,
            origin_velocities=slope * (here.origins - reference.origins),
            rotation_rates=slope * (rotations - reference.rotations),
            multipliers=multipliers,
            angles=np.where(state.pending_joints[model.constraints.angle_joints], 0.0, angles),
            released=released | broken,
            broken_springs=broken_springs,
            released_joints=released_joints | broken_joints,
            pending=state.pending,
            pending_joints=state.pending_joints,
            targets=state.targets,
            bond_forces=bond_forces,
            contact_forces=contact_forces,
            rows=state.rows,
            barrier_stiffness=self._next_stiffness(objective, x, state.barrier_stiffness, dt),
            mixture=np.array(astuple(outcome.mixture if outcome.mixture.level else Mixture())),
            report=StepReport(
                substeps=1,
                speeds=tuple(outcome.speeds),
                projected=outcome.projected,
                factorisations=outcome.factorisations,
                violation=float(
                    open_by(objective.bounds, end.left_sides, outcome.multipliers).max(initial=0.0)
                ),
                redundant=outcome.redundant,
                unconverged=int(not outcome.converged),
                seconds={},  # known when all substeps are through
                contacts=objective.contact.count(x) if objective.contact else 0,
                gap=objective.contact.gap(x) if objective.contact else np.inf,
            ),
            previous=replace(state, previous=None) if self.method == "bdf2" and not struck else None,
            blow=blow,
        )

    def _bond_forces(self, objective: Objective, outcome: Outcome, springs: GlueSprings) -> Array:
        """Return the loads of all bound particles at the end of a substep (N, 3) [N]."""
        layers, forces = objective.system.assembly.layers, np.zeros_like(outcome.end.x)
        if not layers:
            return forces
        objective.fill_gradient(outcome.end)
        for (rows, _), load in zip(
            layers, objective.loads(outcome.end, outcome.multipliers).on_layers, strict=True
        ):
            forces[rows] = load
        dampers = [term.dissipation for term in objective.terms if isinstance(term.energy, GlueDampers)]
        forces[springs.springs.second] = springs.tensions(outcome.end.x, dampers[0] if dampers else None)
        return forces

    def _overloaded(self, x: Array, forces: Array) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which particles of glue (N,) and which joints (J,) break under their loads (N, 3) [N]."""
        model, groups = self.model, self.model.load_groups
        points = np.linalg.norm(forces, axis=1) > model.break_force
        joints = np.zeros(model.joint_count, np.bool_)
        if not (np.isfinite(model.joint_break_force).any() or np.isfinite(model.break_torque).any()):
            return points, joints
        _, force, torque = groups.totals(x, forces)
        twisted = np.linalg.norm(torque, axis=1) > model.break_torque[groups.bond_of]
        of_joints = groups.joint_of >= 0
        joints[groups.joint_of[of_joints]] = (
            np.linalg.norm(force, axis=1)[of_joints] > (model.joint_break_force[groups.joint_of[of_joints]])
        )
        joints[groups.joint_of[of_joints & twisted]] = True
        # Glue that holds by equations breaks point by point, or as a whole by torque.
        equations = model.equations
        held = np.isin(model.bond_of_joint, np.arange(len(model.glue)))
        ghost = np.zeros(model.joint_count, np.int64)
        ghost[equations.joint_of] = equations.second
        joints |= held & (np.linalg.norm(forces[ghost], axis=1) > model.joint_break_force)
        glue = groups.bond_of[twisted & ~of_joints]
        return points | np.isin(model.bond_of, glue), joints | (held & np.isin(model.bond_of_joint, glue))

    def _next_stiffness(self, objective: Objective, x: Array, now: float, dt: float) -> float:
        """Return the barrier stiffness of the next step [Pa], or 0 without contact."""
        if self.surfaces is None or objective.contact is None:
            return 0.0
        return objective.contact.next_stiffness(x, now, self.surfaces.stiffness(self.gravity, dt))


def _same(a: Any, b: Any) -> bool:
    """Return whether these are the same stencils; arrays that are built anew each time are compared."""
    if a is b:
        return True
    if type(a) is not type(b) or not isinstance(a, np.ndarray):
        return False
    return np.array_equal(a, b)


def _check_motion(body: ElasticBody | RigidBody, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Return positions that a body's motion gives, or raise unless they are finite and of the right shape."""
    given = as_reals("motion", value)
    if given.shape != shape:
        raise InputError(f"motion of {body.name!r} must give shape {shape}, got {given.shape}")
    require_finite(f"motion of {body.name!r}", given)
    return given
