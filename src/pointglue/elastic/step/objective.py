"""The objective of one step: value, gradient and Hessian by the degrees of freedom, joints as equations."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...errors import DegenerateFitError
from ...glue import AssemblyPose, BodyFrames
from ..contact.impacts import ImpactSet
from ..contact.stage import ContactStage
from ..linalg.ldl import PIVOT_ROUNDING
from ..model.constraints import Bounds, StepRows
from ..model.rigid_bodies import psd_blocks, rotated
from .active_set import open_by
from .contact_matrix import ContactMatrix
from .linear_system import LinearSystem
from .terms import Term

__all__ = [
    "Clock",
    "Configuration",
    "Evaluation",
    "Loads",
    "NewtonMatrix",
    "Objective",
    "ReducedHessian",
    "Scheme",
]

# ratio of an equation's own compliance: the regularisation of its multiplier. It makes redundant equations
# harmless, and has no effect on the solution, since it vanishes when the multipliers no longer change.
MULTIPLIER_REGULARIZATION = 1e-9
EQUATION = (0.0, 0.0, np.inf, 0.0)  # m, m, N, m/N: the bounds of a row that is an equation
YZX, ZXY = [1, 2, 0], [2, 0, 1]  # axes, turned
MIN_PIVOT = 1e-300  # N/m: pivots and stiffnesses of less count as this much, so that none is zero


class Clock:
    """A clock that sums up seconds by the part of a step that they were spent on."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, part: str) -> "_Timed":
        """Count the time of the block for that part."""
        return _Timed(self.seconds, part)


class _Timed:
    """A block whose time is counted; there are dozens in a step, and a generator would take longer."""

    __slots__ = ("part", "seconds", "start")

    def __init__(self, seconds: dict[str, float], part: str) -> None:
        self.seconds, self.part = seconds, part

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds[self.part] = self.seconds.get(self.part, 0.0) + time.perf_counter() - self.start


@dataclass(frozen=True, eq=False)
class Configuration:
    """Where everything is.

    Parameters
    ----------
    x : (N, 3)
        Positions of the particles, of which the rows of free particles are read [m].
    origins : (B, 3)
        Centres of mass of the rigid bodies [m].
    rotations : (B, 3, 3)
        Rotations of the rigid bodies from the start [1].
    """

    x: Array
    origins: Array
    rotations: Array


@dataclass(frozen=True, eq=False)
class Scheme:
    """The integration scheme of a step.

    Velocities are slope (x - reference), and inertial forces are -inertia_scale mass (x - target).

    Parameters
    ----------
    inertia_scale : float
        The factor of the inertial forces [1/s^2].
    slope : float
        The derivative of velocities by positions [1/s].
    extrapolation : float
        The weight b of the step before: the reference is (1 + b) times the beginning, less b times that [1].
    target : Configuration
        Where everything would go without forces but gravity.
    reference : Configuration
        The configuration that velocities are told from.
    """

    inertia_scale: float
    slope: float
    extrapolation: float
    target: Configuration
    reference: Configuration


@dataclass(eq=False)
class Evaluation:
    """A configuration, and what has been computed there.

    Parameters
    ----------
    configuration : Configuration
        The configuration.
    pose : AssemblyPose
        Where all particles are there.
    left_sides : (M,)
        The left sides of the joints' equations, which are zero where joints are closed, and coordinates of
        joints with limits and motors [m].
    value : float
        The objective's value [J].
    size : float
        The sum of the absolute values of its terms, by which rounding is judged [J].
    gradient : (N, 3)
        The derivative by all particles, without the joints [N].
    before : (N, 3), optional
        Where the particles were before the last Newton step [m].
    row_gradients : (n, 3)
        The derivatives of the equations by particles, see `LinearSystem.entries`.
    blocks : (K, 3, 3)
        The Jacobian blocks of particles by nodes.
    constraint_jacobian : (k, 3)
        The derivatives of the joints' equations by nodes, see `LinearSystem.constraint_jacobian`.
    """

    configuration: Configuration
    pose: AssemblyPose
    left_sides: Array
    value: float = np.nan
    size: float = np.nan
    gradient: Array = field(default_factory=lambda: np.empty(0))
    before: Array | None = None
    row_gradients: Array = field(default_factory=lambda: np.empty(0))
    blocks: Array = field(default_factory=lambda: np.empty(0))
    constraint_jacobian: Array = field(default_factory=lambda: np.empty(0))

    @property
    def x(self) -> Array:
        """Positions of all particles (N, 3) [m]."""
        return self.pose.positions


@dataclass(frozen=True, eq=False)
class Loads:
    """The gradient, pulled back from bound particles to their parents.

    Parameters
    ----------
    on_layers : list of (n, 3)
        What the particles of each layer of bindings have pulled back in turn [N].
    on_riders : (k, 3)
        What is left on particles of rigid bodies [N].
    on_nodes : (nodes, 3)
        The derivative by the degrees of freedom [N, N m].
    multipliers : (M,)
        The multipliers of the equations that it is with [N].
    """

    on_layers: list[Array]
    on_riders: Array
    on_nodes: Array
    multipliers: Array


@dataclass(frozen=True, eq=False)
class ReducedHessian:
    """The Hessian of energies, glue and joints by the degrees of freedom, without contact.

    Parameters
    ----------
    data : (nnz,)
        Its data, in the layout of the matrix without contact.
    penalties : (M,)
        The penalties of the joints' equations in it, see `NewtonMatrix` [N/m].
    """

    data: Array
    penalties: Array


@dataclass(frozen=True, eq=False)
class NewtonMatrix:
    """The matrix of a Newton step, with the joints' equations as an augmented Lagrangian.

    The Hessian is increased by sum w C^T C over the equations, and the gradient by sum w c C^T. Since a step
    satisfies C step = -c, this does not change the step; but the matrix is positive definite wherever the
    Hessian is so on the motions that the joints leave free, and well scaled however light one side is.

    Parameters
    ----------
    data : (nnz,)
        The data of the matrix.
    least : (n,)
        The least right pivots.
    penalties : (M,)
        The penalties w of the equations [N/m].
    """

    data: Array
    least: Array
    penalties: Array

    def mixed(self, other: "NewtonMatrix", fraction: float) -> "NewtonMatrix":
        """Return the matrix with that fraction of another one."""
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        return NewtonMatrix(*(a + fraction * (b - a) for a, b in pairs))


class Objective:
    """What one step minimises, with the joints closed.

    It is inertia_scale/2 ``|x - target|^2_M``, all energies and the potentials of their damping.

    Parameters
    ----------
    system : LinearSystem
        The unknowns, and the sparsity of the Hessian.
    scheme : Scheme
        The integration scheme.
    terms : sequence of Term
        The energies, with their damping.
    forces : (N, 3)
        Forces that are constant during the step [N].
    rows : StepRows
        What the rows of `model.constraints` are during the step.
    before : AssemblyPose
        Where the particles are at the beginning of the step.
    clock : Clock
        The clock that counts the time of each part.
    contact : ContactStage, optional
        Contact during the step.
    """

    def __init__(
        self,
        system: LinearSystem,
        scheme: Scheme,
        terms: Sequence[Term],
        forces: Array,
        rows: StepRows,
        before: AssemblyPose,
        clock: Clock,
        *,
        contact: ContactStage | None = None,
    ) -> None:
        self.contact = contact
        self.system, self.scheme, self.terms, self.forces = system, scheme, terms, forces
        self.rows = rows
        self.bounds = Bounds(*(each[system.equations] for each in rows.bounds))
        """What the equations of the joints that hold must satisfy."""
        pairs = zip(self.bounds, EQUATION, strict=True)
        self.is_equation = np.logical_and.reduce([each == plain for each, plain in pairs])
        """Which of them are equations, and no limits or motors (M,)."""
        self.bounded = not self.is_equation.all()
        """Whether any of them is a limit or a motor."""
        self.before, self.clock = before, clock
        self.weights = scheme.inertia_scale * system.model.step_mass[:, None]
        self.collapsed: int | None = None
        """The last bound particle that was found without a frame, because its parents had collapsed."""

    def at(self, configuration: Configuration) -> Evaluation | None:
        """Return the evaluation with its value, or None where parents of glue have collapsed."""
        there = self.posed(configuration)
        return there if there is not None and self.evaluate(there) else None

    def posed(self, configuration: Configuration) -> Evaluation | None:
        """Return the evaluation without its value, or None where bound particles have no pose."""
        parts = (configuration.x, configuration.origins, configuration.rotations)
        if not all(np.isfinite(part).all() for part in parts):
            return None
        with self.clock("glue"):
            try:
                frames = BodyFrames(configuration.origins, configuration.rotations)
                pose = self.system.assembly.evaluate(configuration.x.copy(), frames, previous=self.before)
            except DegenerateFitError as error:
                self.collapsed = error.target
                return None
        left_sides = self.system.model.constraints.values(pose.positions, self.rows)
        return Evaluation(configuration, pose, left_sides[self.system.equations])

    def evaluate(self, now: Evaluation) -> bool:
        """Fill in the value; return whether it is finite."""
        model, target, here, x = self.system.model, self.scheme.target, now.configuration, now.x
        parts = [0.5 * float(np.sum(self.weights * (x - target.x) ** 2)), -float(np.sum(self.forces * x))]
        if len(here.origins):
            inertia = model.step_inertia.value(here.origins, here.rotations, target.origins, target.rotations)
            parts.append(self.scheme.inertia_scale * inertia)
        with self.clock("energies"):
            parts += [term.value(x) for term in self.terms]
        if self.contact is not None:
            with self.clock("contact"):
                parts.append(self.contact.value(x))
        each = np.array(parts)
        now.value, now.size = float(each.sum()), float(np.abs(each).sum())
        return bool(np.isfinite(now.value))

    def collision_free_fraction(self, now: Evaluation, after: Evaluation, *, again: bool = False) -> float:
        """Return the collision-free step fraction of the way between two evaluations.

        `again` tells that the way has been cut short by an earlier call.
        """
        if self.contact is None or (again and self._straight):
            return 1.0
        with self.clock("contact"):
            return self.contact.collision_free_fraction(now.x, after.x, again=again)

    def impacts(self, now: Evaluation, after: Evaluation) -> ImpactSet:
        """Return the impacts on the way between two evaluations."""
        assert self.contact is not None
        with self.clock("contact"):
            return self.contact.impacts(now.x, after.x)

    def impact_loads(self, now: Evaluation, impacts: ImpactSet) -> Array:
        """Return the gradient of the terms of impacts by the degrees of freedom (nodes, 3) [N, N m]."""
        assert self.contact is not None
        with self.clock("contact"):
            on_particles = np.zeros_like(now.x)
            on_particles[self.contact.surfaces.particles] = impacts.gradient()
        return self._on_nodes(now, on_particles)[1]

    def update_friction(self, now: Evaluation) -> bool:
        """Set the lagged normal forces of friction to those there; return whether there are or were any."""
        if self.contact is None:
            return False
        with self.clock("contact"):
            changed = self.contact.update_friction(now.x)
        if changed:
            self.evaluate(now)
        return changed

    @property
    def _straight(self) -> bool:
        """Whether all particles move along straight lines when the nodes do."""
        return not self.system.assembly.layers and not len(self.system.dofs.bodies)

    def differentiate(self, now: Evaluation) -> None:
        """Fill in the gradient, the Jacobian blocks and the constraint Jacobian."""
        self.fill_gradient(now)
        with self.clock("glue"):
            now.blocks = self.system.dofs.blocks(now.pose)
            now.constraint_jacobian = self.system.constraint_jacobian(now.blocks, now.row_gradients)

    def fill_gradient(self, now: Evaluation) -> None:
        """Fill in the gradient, and those of the equations, by particles."""
        x, scheme = now.x, self.scheme
        gradient = self.weights * (x - scheme.target.x) - self.forces
        with self.clock("energies"):
            for term in self.terms:
                gradient[term.rows] += term.gradient(x)
        if self.contact is not None:
            with self.clock("contact"):
                gradient[self.contact.surfaces.particles] += self.contact.gradient(x)
        now.gradient = gradient
        with self.clock("glue"):
            gradients = self.system.model.constraints.gradients(x, self.rows)
            now.row_gradients = gradients[self.system.entries]

    def open_by(self, now: Evaluation, multipliers: Array) -> Array:
        """Return how far open each equation is (M,) [m]."""
        if not self.bounded:
            return np.abs(now.left_sides)
        return open_by(self.bounds, now.left_sides, multipliers)

    def loads(self, now: Evaluation, multipliers: Array) -> Loads:
        """Return the gradient, joints included, pulled back through the layers of bindings to the nodes."""
        system = self.system
        rest = now.gradient.copy()
        pulls = multipliers[system.entry_equations, None] * now.row_gradients
        np.add.at(rest, system.entry_particles, pulls)
        on_layers, on_nodes = self._on_nodes(now, rest)
        dofs = system.dofs
        if len(dofs.bodies):
            here, target = now.configuration, self.scheme.target
            wrenches = self.scheme.inertia_scale * system.model.step_inertia.gradient(
                here.origins, here.rotations, target.origins, target.rotations
            )
            on_nodes[len(dofs.particles) :] += wrenches[dofs.bodies].reshape(-1, 3)
        return Loads(on_layers, rest[system.assembly.on_body], on_nodes, multipliers)

    def _on_nodes(self, now: Evaluation, rest: Array) -> tuple[list[Array], Array]:
        """Pull forces on particles (N, 3) back to the nodes; return those of layers, and of nodes (nodes, 3).

        What bound particles hand on to their parents is added to these in `rest`.
        """
        with self.clock("glue"):
            on_layers = now.pose.pull_back(rest)
        dofs, assembly = self.system.dofs, self.system.assembly
        on_nodes = np.zeros((len(dofs), 3))
        on_nodes[: len(dofs.particles)] = rest[dofs.particles]
        if len(dofs.bodies):
            wrenches = np.zeros((len(assembly.origins), 2, 3))
            pushes, body = rest[assembly.on_body], assembly.body_of[assembly.on_body]
            arms = now.pose.arms
            turns = arms[:, YZX] * pushes[:, ZXY] - arms[:, ZXY] * pushes[:, YZX]  # as np.cross, but quicker
            np.add.at(wrenches, body, np.stack([pushes, turns], axis=1))
            on_nodes[len(dofs.particles) :] = wrenches[dofs.bodies].reshape(-1, 3)
        return on_layers, on_nodes

    def reduced(self, now: Evaluation, loads: Loads, *, project: bool) -> ReducedHessian:
        """Return the Hessian of energies, glue and joints by the degrees of freedom.

        With `project` each part of it is made positive semidefinite.
        """
        system = self.system
        data = np.zeros(system.data_size)
        with self.clock("energies"):
            elements = [term.elements(now.x, now.before, project=project) for term in self.terms]
        with self.clock("sum"):
            pattern = system.pattern
            pattern.assemble(elements, out=data[: len(pattern.indices)])
            data[pattern.diagonal] += np.repeat(self.weights[:, 0], 3)
            penalties = np.zeros(len(system.equations))
            if len(penalties):
                penalties = self._penalties(data[pattern.diagonal].reshape(-1, 3).mean(1))
                self._write_penalties(penalties, data)
                self._write_rows(now, penalties, loads.multipliers, project, data)
        with self.clock("glue"):
            if not project:
                for k, start, stop in system.curved:
                    now.pose.poses[k].write_hessian(loads.on_layers[k], data[start:stop])
        with self.clock("sum"):
            return ReducedHessian(system.base.reduce(now.blocks, data), penalties)

    def matrix(
        self,
        now: Evaluation,
        loads: Loads,
        reduced: ReducedHessian,
        *,
        project: bool,
        impacts: ImpactSet | None = None,
    ) -> NewtonMatrix:
        """Return the matrix of the Newton step: a Hessian without contact, contact, bodies and joints.

        With `project` each part of it is made positive semidefinite. With `impacts` it has their terms.
        """
        out = reduced.data.copy()
        if self.contact is not None:
            out = self._with_contact(now, out, project, impacts)
        with self.clock("sum"):
            self._add_bodies(now, loads.on_riders, project, out)
            return NewtonMatrix(out, self._add_constraints(now, out), reduced.penalties)

    def _penalties(self, stiffness: Array) -> Array:
        """Return the penalty of each equation (M,) [N/m], given the stiffness of all particles (N,) [N/m].

        It is that of the stiffest particle or body which the equation moves, so that the light side of a
        joint is as stiff as the heavy one along the equations.
        """
        system, dofs = self.system, self.system.dofs
        of_bodies = self.scheme.inertia_scale * system.model.step_inertia.mass[dofs.bodies]
        of_nodes = np.concatenate(
            [stiffness[dofs.particles], np.stack([of_bodies, 0 * of_bodies], 1).ravel()]
        )
        penalties = np.zeros(len(system.equations))
        np.maximum.at(penalties, system.constraint_equation, of_nodes[system.constraint_node])
        # Limits and motors may let go.
        return np.where(self.is_equation, penalties, 0.0)

    def _write_penalties(self, penalties: Array, data: Array) -> None:
        """Write the stiffness of the penalties between the particles of the equations into the data."""
        system = self.system
        if not len(system.linear):
            return
        room = data[system.pairs].reshape(-1, 2, 3, 3)
        d, own = self.rows.directions[system.linear], penalties[: len(system.linear), None, None]
        np.add.at(room[:, 0], system.pair_of, own * d[:, :, None] * d[:, None, :])
        room[:, 1] = -room[:, 0]

    def _write_rows(
        self, now: Evaluation, penalties: Array, multipliers: Array, project: bool, data: Array
    ) -> None:
        """Write the curvature and the penalties of joints that slide, limits and motors into the data.

        Projected, the curvature is left out, as that of glue.
        """
        system, constraints = self.system, self.system.model.constraints
        every, stiffness = np.zeros(len(constraints)), np.zeros(len(constraints))
        every[system.equations] = 0.0 if project else multipliers
        stiffness[system.equations] = penalties
        for place, elements in zip(
            system.row_data, constraints.elements(now.x, self.rows, every, stiffness), strict=True
        ):
            data[place] = elements.ravel()

    def _with_contact(self, now: Evaluation, data: Array, project: bool, impacts: ImpactSet | None) -> Array:
        """Return the data of the matrix with contact, in a layout that has room for it."""
        system, contact = self.system, self.contact
        assert contact is not None
        with self.clock("contact"):
            rows, columns, blocks = contact.blocks(now.x, project=project)
            if impacts is not None:
                particles = contact.surfaces.particles
                first, second, added = impacts.blocks()
                rows, columns = np.append(rows, particles[first]), np.append(columns, particles[second])
                blocks = np.concatenate([blocks, added])
        with self.clock("sum"):
            layout = system.layout
            located = layout.locate(rows, columns) if isinstance(layout, ContactMatrix) else None
        if located is None or not located.fits:
            room = (rows, columns)
            if located is not None:
                # Surfaces that move will meet others soon, and there is to be room for these too.
                with self.clock("contact"):
                    nearby = contact.pairs_nearby(now.x)
                room = np.concatenate([rows, nearby[0]]), np.concatenate([columns, nearby[1]])
            with self.clock("sum"):
                layout = system.widen(*room, now.x, now.configuration.origins)
                located = layout.locate(rows, columns)
        with self.clock("sum"):
            assert isinstance(layout, ContactMatrix)
            return layout.add_blocks(data, now.blocks, located, blocks)

    def _add_bodies(self, now: Evaluation, f: Array, project: bool, out: Array) -> None:
        """Add the inertia of rigid bodies, and the change of their particles' torques as they rotate."""
        system, assembly = self.system, self.system.assembly
        if not len(system.dofs.bodies):
            return
        blocks = self.scheme.inertia_scale * system.model.step_inertia.hessian(
            now.configuration.rotations, self.scheme.target.rotations
        )
        r = now.pose.arms
        outer = f[:, :, None] * r[:, None, :]
        trace = np.einsum("bi,bi->b", f, r)
        turning = (outer + np.swapaxes(outer, 1, 2)) / 2 - trace[:, None, None] * np.eye(3)
        np.add.at(blocks[:, 1], assembly.body_of[assembly.on_body], turning)
        if project:
            blocks[:, 1] = psd_blocks(blocks[:, 1])
        entries = system.layout.diagonal[len(system.dofs.particles) :]
        out[entries] += blocks[system.dofs.bodies].reshape(-1, 3, 3)

    def _add_constraints(self, now: Evaluation, out: Array) -> Array:
        """Write the joints' equations into the matrix; return the least right pivots."""
        system = self.system
        count, number = 3 * len(system.dofs), len(system.equations)
        nodes = system.layout.diagonal
        diagonal = out[nodes[:, np.arange(3), np.arange(3)]]
        least = np.concatenate([PIVOT_ROUNDING * np.abs(diagonal).ravel(), np.empty(number)])
        least[:count] = np.maximum(least[:count], MIN_PIVOT)
        if number:
            C = now.constraint_jacobian
            compliance = np.zeros(number)
            stiffness = np.maximum(diagonal[system.constraint_node], MIN_PIVOT)
            np.add.at(compliance, system.constraint_equation, (C * C / stiffness).sum(1))
            regularization = np.where(compliance > 0, MULTIPLIER_REGULARIZATION * compliance, 1.0)
            diagonal = -(regularization + self.bounds.compliance)
            out[system.layout.extra] = np.concatenate([C.ravel(), C.ravel(), diagonal])
            least[count:] = -regularization / 2
        return least

    def uncoupled(self, data: Array, rows: NDArray[np.bool_]) -> Array:
        """Return the data of the matrix with some rows of equations (M,) alone on their diagonal, as -1."""
        system = self.system
        out = data.copy()
        blocks = np.repeat(rows[system.constraint_equation], 3)
        extra = system.layout.extra
        off, own = np.split(extra, [2 * len(blocks)])
        out[off[np.tile(blocks, 2)]] = 0.0
        out[own[rows]] = -1.0
        return out

    def moved(self, configuration: Configuration, step: Array, fraction: float) -> Configuration:
        """Return the configuration after that fraction of a step (nodes, 3)."""
        dofs = self.system.dofs
        x = configuration.x.copy()
        x[dofs.particles] += fraction * step[: len(dofs.particles)]
        if not len(dofs.bodies):
            return Configuration(x, configuration.origins, configuration.rotations)
        twists = fraction * step[len(dofs.particles) :].reshape(-1, 2, 3)
        origins, rotations = configuration.origins.copy(), configuration.rotations.copy()
        origins[dofs.bodies] += twists[:, 0]
        rotations[dofs.bodies] = rotated(rotations[dofs.bodies], twists[:, 1])
        return Configuration(x, origins, rotations)
