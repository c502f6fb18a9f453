"""The implicit solver: soft and rigid bodies, glue and joints, stepped by Newton's method."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, as_reals, check_choice, check_integer, check_real, require_finite
from ..errors import InputError
from ..geometry.solids import Collider
from ..glue import BodyFrames, Spring
from ..procrustes.space import axial_vectors, cross_matrices
from .bodies import Bond, ElasticBody, JointBond, check_energy
from .contact.options import Contact
from .contact.stage import ContactStage
from .contact.surfaces import ContactSurfaces
from .energies.base import Energy
from .model.collider_bodies import collider_bodies
from .model.rigid_bodies import RigidBody
from .model.solver_model import SolverModel
from .state import Load, SolverState, StepError, StepReport
from .step.events import bond_events, state_loads
from .step.integrator import Force, Integrator, Method
from .step.newton.stalls import StalledError
from .step.objective import Clock

__all__ = ["ImplicitSolver"]

# fractions of the first step of a method of two steps: it begins with a short one of Euler's and doubles from
# there, so that velocities which joints do not allow are gone before anything is extrapolated from them
BDF2_START_FRACTIONS = (1 / 16, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
# ratio: a step that is this much longer than the one before is a first one again, since beyond 1 + sqrt(2)
# the method is not stable
MAX_STEP_RATIO = 2.4
# rad: how far a substep of a method of two steps may turn what nothing holds. Velocities that are told from
# three positions on a circle gain energy with the sixth power of it; up to 0.43 the first substeps lose more.
MAX_TURN = 0.4
STALLED_STIFFNESS_FACTOR = (
    64.0  # ratio: by which the barrier is stiffer when a step that stalled is tried again
)
TOLERANCE = 1e-4  # m/s: the speed below which a step without contact is converged
# ratios to the tolerance: how far from convergence steps with contact may end, in general and at last
PATIENCE, LAST_PATIENCE = 10.0, np.inf
MIN_DT, MAX_DT = 1e-12, 1e6  # s: time steps whose squares and inverses are far from overflow


class ImplicitSolver:
    """A solver that steps soft and rigid bodies with glue, joints and contact.

    A step minimises an objective by Newton's method. Exact Hessians are tried first, and projected ones where
    those are indefinite. Joints, and glue without a spring, hold to rounding, on rigid bodies too. With
    contact, surfaces that do not intersect at the start never do.

    Parameters
    ----------
    bodies : sequence of ElasticBody or RigidBody
        The bodies, each with a name of its own.
    glue : sequence of Bond
        Bonds of points to other bodies.
    joints : sequence of JointBond
        Joints between bodies.
    forces : sequence of callable
        Functions of the state, such as wind, that return forces on all its positions (n, 3) [N], which are
        constant through a step.
    energies : sequence of Energy
        Energies of all bodies' points together, in the order of the bodies; their stencils may change between
        steps.
    gravity : (3,)
        The acceleration of gravity [m/s^2].
    method : {"euler", "bdf2"}
        "euler" is of first order and damps; "bdf2" is of second order, damps less, and keeps the angular
        momentum of what nothing holds. It divides steps that would turn that by more than 0.4 rad.
    tolerance : float, optional
        The speed below which a full Newton step is converged [m/s]. By default it is 1e-4 m/s without
        contact. With contact, soft bodies may move by 1/100 and rigid ones by 1/1000 of their size per
        second, in the mean over their points; what glue and joints hold together counts by the largest body,
        and as soft if any of it is.
    iterations : int
        The most Newton steps before a step is halved. With contact, a step that is nearly converged by then
        is accepted, and counted in the report as unconverged.
    halvings : int
        How many times a step that does not converge is halved. With contact, the last of them is accepted as
        it is: nothing intersects whenever Newton's method ends.
    conflict_spring : Spring, optional
        The spring that replaces all glue of a point which several bonds bind. Without it they hold exactly,
        as long as they do not contradict each other.
    contact : Contact, optional
        How surfaces meet: all bodies that have faces, each with itself too. Without it they pass through
        each other.
    colliders : sequence of Plane, Ball, Capsule, Box or Cylinder
        Solids by formula that bodies meet, at rest or moved by keys. They need contact. To states they are
        rigid bodies, which come after the others.

    Attributes
    ----------
    model : SolverModel
        All bodies as one set of particles.
    surfaces : ContactSurfaces or None
        The surfaces that meet, if there is contact.
    integrator : Integrator
        What takes the substeps of a step.

    Raises
    ------
    InputError
        If an argument is out of its range, or bodies, bonds and joints do not fit each other.
    IntersectionError
        If there is contact and surfaces intersect at the start.
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
        tolerance: float | None = None,
        iterations: int = 60,
        halvings: int = 6,
        conflict_spring: Spring | None = None,
        contact: Contact | None = None,
        colliders: Sequence[Collider] = (),
    ) -> None:
        check_choice("method", method, ("euler", "bdf2"))
        acceleration = as_reals("gravity", gravity).astype(np.float64)
        if acceleration.shape != (3,):
            raise InputError(f"gravity must have shape (3,), got {acceleration.shape}")
        require_finite("gravity", acceleration)
        if tolerance is not None:
            check_real("tolerance", tolerance, above=0)
        elif contact is None:
            tolerance = TOLERANCE
        check_integer("iterations", iterations, at_least=1)
        self.halvings = check_integer("halvings", halvings, at_least=0)
        if contact is not None and not isinstance(contact, Contact):
            raise InputError(f"contact must be a Contact, got {type(contact).__name__}")
        if len(colliders):
            if contact is None:
                raise InputError("colliders are met by contact: give contact too")
            bodies = [*bodies, *collider_bodies(colliders)]
        self.model = SolverModel(
            bodies, glue, joints, conflict_spring, kinematic_unknowns=contact is not None
        )
        for k, force in enumerate(forces):
            if not callable(force):
                raise InputError(f"forces[{k}] must be a function of the state, got {type(force).__name__}")
        for k, energy in enumerate(energies):
            check_energy(f"energies[{k}]", energy, self.model.count)
        self.surfaces: ContactSurfaces | None = None
        if contact is not None:
            self.surfaces = ContactSurfaces(contact, self.model, self.start().particles)
        self.integrator = Integrator(
            self.model,
            self.surfaces,
            forces=tuple(forces),
            energies=tuple(energies),
            gravity=acceleration,
            method=method,
            tolerance=None if tolerance is None else float(tolerance),
            iterations=int(iterations),
        )

    @property
    def forces(self) -> tuple[Force, ...]:
        """The functions of the state that return forces, which may be set between steps."""
        return tuple(self.integrator.forces)

    @forces.setter
    def forces(self, forces: Sequence[Force]) -> None:
        self.integrator.forces = tuple(forces)

    @property
    def energies(self) -> tuple[Energy, ...]:
        """The energies of all bodies' points together."""
        return tuple(self.integrator.energies)

    @property
    def gravity(self) -> Array:
        """The acceleration of gravity (3,) [m/s^2]."""
        return self.integrator.gravity

    @property
    def method(self) -> Method:
        """The integration scheme, "euler" or "bdf2"."""
        return self.integrator.method

    @property
    def tolerance(self) -> float | None:
        """The speed below which a full Newton step is converged [m/s], or None: relative to each body."""
        return self.integrator.tolerance

    @property
    def iterations(self) -> int:
        """The most Newton steps of a substep."""
        return self.integrator.iterations

    def start(self) -> SolverState:
        """Return the state at time 0.

        Returns
        -------
        SolverState
        """
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
        positions = model.rest if self.surfaces is None else self.surfaces.start
        pending = model.attach > 0
        frames = BodyFrames(model.origins, rotations) if count else None
        pose = model.assembly(pending, model.rest).at(positions, frames)
        return SolverState(
            time=0.0,
            particles=pose.positions.copy(),
            particle_velocities=pose.velocities(v, np.hstack([linear, spins]) if count else None),
            origins=model.origins.copy(),
            rotations=rotations,
            origin_velocities=linear,
            rotation_rates=cross_matrices(spins) @ rotations,
            multipliers=np.zeros(len(model.constraints)),
            angles=np.zeros(len(model.constraints.angle_joints)),
            released=np.zeros(len(v), np.bool_),
            broken_springs=np.zeros(len(model.springs), np.bool_),
            released_joints=np.zeros(model.joint_count, np.bool_),
            pending=pending,
            pending_joints=model.joint_attach > 0,
            targets=model.rest,
            bond_forces=np.zeros_like(v),
            contact_forces=np.zeros((0 if self.surfaces is None else len(v), 3)),
            rows=model.rows,
        )

    def step(
        self, state: SolverState, dt: float, *, watch: Callable[[], object] = lambda: None
    ) -> SolverState:
        """Return the state `dt` seconds later.

        Parameters
        ----------
        state : SolverState
            A state of this solver, which is not changed.
        dt : float
            The time step [s].
        watch : callable
            A function that is called before each Newton iteration. It may raise an error of its own to give
            the step up, after which the solver can be used as before.

        Returns
        -------
        SolverState

        Raises
        ------
        StepError
            If the step does not converge, nor do its halves.
        InputError
            If the state is of another solver, or `dt` is out of range.
        """
        dt = check_real("dt", dt, at_least=MIN_DT, at_most=MAX_DT)
        self._check_state(state)
        reports: list[StepReport] = []
        now = self.integrator.continued(state, dt)
        if self.surfaces is not None and not state.barrier_stiffness:
            now = replace(now, barrier_stiffness=self.surfaces.stiffness(self.integrator.gravity, dt))
        clock, wasted = Clock(), 0
        with clock("sum"):
            parts = self._parts(now, dt)
        if state.previous is not None and dt / parts > MAX_STEP_RATIO * (state.time - state.previous.time):
            now = replace(now, previous=None)
        begins = self.integrator.method == "bdf2" and now.previous is None and not now.blow
        fractions = BDF2_START_FRACTIONS if begins else (1.0,)
        todo = [(fraction * dt / parts, 0, 1.0) for fraction in (1.0,) * (parts - 1) + fractions[::-1]]
        while todo:
            duration, depth, stiffness_factor = todo.pop()
            patience = 1.0 if self.surfaces is None else LAST_PATIENCE if depth == self.halvings else PATIENCE
            try:
                now = self.integrator.substep(now, duration, dt, stiffness_factor, patience, clock, watch)
            except StalledError as error:
                wasted += error.iterations
                adaptive = self.surfaces is not None and self.surfaces.adaptive
                if stiffness_factor == 1.0 and adaptive and error.blocked:
                    # A blow that the barrier is too soft for: pairs are pressed so near that nothing moves.
                    todo.append((duration, depth, STALLED_STIFFNESS_FACTOR))
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
                todo += [(duration / 2, depth + 1, stiffness_factor)] * 2
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

    def _parts(self, state: SolverState, dt: float) -> int:
        """Return into how many equal parts a step of dt seconds is divided, for what spins fast."""
        if self.integrator.method == "euler":
            return 1
        return int(np.clip(np.ceil(self.integrator.turn(state, dt) / MAX_TURN), 1, 2**self.halvings))

    def momenta(self, state: SolverState) -> tuple[Array, Array]:
        """Return linear and angular momentum.

        Parameters
        ----------
        state : SolverState
            A state of this solver.

        Returns
        -------
        linear : (3,)
            The linear momentum [kg m/s].
        angular : (3,)
            The angular momentum about the world's origin [kg m^2/s].
        """
        model = self.model
        p = model.mass[:, None] * state.particle_velocities
        linear = model.inertia.mass[:, None] * state.origin_velocities
        spin = state.rotation_rates @ model.inertia.moment @ np.swapaxes(state.rotations, 1, 2)
        own = axial_vectors(spin)
        angular = np.cross(state.particles, p).sum(0) + (np.cross(state.origins, linear) + own).sum(0)
        return p.sum(0) + linear.sum(0), angular

    def energy(self, state: SolverState) -> dict[str, float]:
        """Return the energy of a state by its kind.

        Parameters
        ----------
        state : SolverState
            A state of this solver.

        Returns
        -------
        dict of str to float
            The kinetic energy, the potential of gravity (0 at the world's origin), the elastic energy of
            bodies and of `energies`, that of springs (of glue, of bushings and of motors with a stiffness),
            and that of the barrier of contact [J].
        """
        self._check_state(state)
        model, integrator = self.model, self.integrator
        x, mass, inertia = state.particles, model.mass, model.inertia
        turning = np.einsum("bij,bjk,bik->", state.rotation_rates, inertia.moment, state.rotation_rates)
        moving = mass @ (state.particle_velocities**2).sum(1)
        moving += inertia.mass @ (state.origin_velocities**2).sum(1)
        holds = ~(state.released_joints | state.pending_joints | (model.joint_release <= state.time))
        springs = integrator.springs(state, state.time).value(x)
        springs += model.constraints.spring_energy(x, state.angles, state.time, holds)
        contact = 0.0
        if self.surfaces is not None and state.barrier_stiffness:
            stage = ContactStage(self.surfaces, x, x, 1.0, state.barrier_stiffness, state.time)
            contact = stage.value(x)
        return {
            "kinetic": 0.5 * float(moving + turning),
            "gravity": -float((mass @ x + inertia.mass @ state.origins) @ integrator.gravity),
            "elastic": float(sum(term.value(x) for term in integrator.energy_terms(state.time))),
            "springs": springs,
            "contact": contact,
        }

    def loads(self, state: SolverState) -> tuple[Load, ...]:
        """Return the force and torque of every bond and joint, and of contact on every body.

        Parameters
        ----------
        state : SolverState
            A state of this solver. Loads are those at the end of the step that led to it, and zero at the
            start.

        Returns
        -------
        tuple of Load
            Those of `glue` and `joints` in their order, each joint of its own, then those of contact on each
            body that has any.
        """
        self._check_state(state)
        return state_loads(self.model, state)

    def joint_coordinates(self, state: SolverState) -> Array:
        """Return how far the joints have slid and turned: the first body of each relative to the second.

        Parameters
        ----------
        state : SolverState
            A state of this solver.

        Returns
        -------
        (J, 2)
            For each joint, in the order of `joints`, its slide along the axis or path [m] and its angle
            about the axis [rad], which counts whole turns. Of a slider on a surface, its slides along both
            directions [m]; along a closed path, the shorter way round. What a joint does not have, or not
            yet, is not a number.
        """
        self._check_state(state)
        constraints = self.model.constraints
        coordinates = np.full((sum(len(bond.joint) for bond in self.model.joints), 2), np.nan)
        slides = constraints.slides(state.particles)[: len(constraints.slide_joints)]
        coordinates[constraints.slide_joints, 0] = slides
        coordinates[constraints.slider_joints] = constraints.slider_slides(state.particles)
        coordinates[constraints.angle_joints, 1] = state.angles
        coordinates[state.pending_joints[: len(coordinates)]] = np.nan
        return coordinates

    def _check_state(self, state: SolverState) -> None:
        """Raise unless the state is of these bodies."""
        if not isinstance(state, SolverState) or (state.rows, _shapes(state)) != self._state_shapes:
            raise InputError("state must be one of this solver: begin with solver.start()")

    @cached_property
    def _state_shapes(self) -> tuple[dict[str, slice], list[tuple[int, ...]]]:
        """The rows and the shapes of all arrays of a state of this solver."""
        return self.model.rows, _shapes(self.start())


def _shapes(state: SolverState) -> list[tuple[int, ...]]:
    """Return the shapes of all arrays of a state."""
    return [value.shape for value in vars(state).values() if isinstance(value, np.ndarray)]
