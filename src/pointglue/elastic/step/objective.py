"""One step as a minimisation: value, gradient and Hessian by what is free to move, joints as equations."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import Array
from ...errors import DegenerateFitError
from ...glue import AssemblyPose, BodyFrames, Springs
from ...procrustes import Groups
from ..contact.stage import ContactStage
from ..energies.base import Energy
from ..linalg.blocks import Stencils
from ..model.rigid_bodies import psd_blocks, rotated
from .contact_matrix import Extended
from .linear_system import System

__all__ = ["Clock", "Problem", "Scheme"]

# Of a multiplier's own stiffness: what its equation may give while it is still being solved. It makes
# redundant equations harmless, and is gone when the multipliers no longer change.
GIVE = 1e-9
ROUNDING = 1e-14  # of its diagonal entry: a pivot that has lost all but this is not positive


class Clock:
    """Seconds by what they were spent on."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Count the time of the block for that part."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - start


class GlueSprings:
    """The springs of glue as an energy with damping; which of them act is `active`."""

    def __init__(self, springs: Springs, active: NDArray[np.bool_]) -> None:
        self.springs, self.active = springs, active
        self.stencils: Stencils = np.stack([springs.first, springs.second], axis=1)
        self.damped = bool(springs.damping.any())

    def value(self, x: ArrayLike) -> float:
        """Energy (J)."""
        return self.springs.value(x, self.active)

    def gradient(self, x: ArrayLike) -> Array:
        """Derivative by the particles (N, 3)."""
        return self.springs.gradient(x, self.active)

    def elements(self, x: ArrayLike, *, project: bool = False, out: Array | None = None) -> Array:
        """Hessians (S, 6, 6); they are semidefinite anyway."""
        return self._pairs(self.springs.stiffness)

    def rate_gradient(self, x: ArrayLike, v: ArrayLike) -> Array:
        """Derivative of the damping potential by the velocities (N, 3)."""
        at_rest = np.zeros_like(np.asarray(v))
        return -self.springs.forces(at_rest, v, self.active)

    def rate_elements(self, x: ArrayLike, v: ArrayLike, *, symmetric: bool = False) -> tuple[Array, Array]:
        """Derivatives of that by x, which are zero, and by v."""
        by_v = self._pairs(self.springs.damping)
        return np.zeros_like(by_v), by_v

    def _pairs(self, values: Array) -> Array:
        signs = np.kron([[1.0, -1.0], [-1.0, 1.0]], np.eye(3))
        return np.asarray(np.where(self.active, values, 0.0)[:, None, None] * signs)


@dataclass(frozen=True, eq=False)
class Term:
    """An energy and the particles that it is of."""

    energy: Any
    rows: slice

    @cached_property
    def damped(self) -> bool:
        """Whether it has damping."""
        return bool(getattr(self.energy, "damped", False))

    @cached_property
    def predicts(self) -> bool:
        """Whether it can tell the stress that a linear step leads to."""
        return callable(getattr(self.energy, "predict", None))


@dataclass(frozen=True, eq=False)
class Scheme:
    """How a step goes: v = slope (x - reference), and forces are stiffness * mass * (x - target)."""

    stiffness: float
    """1/s^2."""
    slope: float
    """1/s."""
    target: "Place"
    reference: "Place"


@dataclass(frozen=True, eq=False)
class Place:
    """Where everything is: particles x (N, 3), of which the free rows are read, and rigid bodies."""

    x: Array
    origins: Array
    rotations: Array


@dataclass(eq=False)
class Evaluation:
    """A place, and what has been worked out there."""

    place: Place
    pose: AssemblyPose
    violation: Array
    """c (M,)."""
    value: float = np.nan
    size: float = np.nan
    """Sum of the absolute values of the terms: what rounding goes by."""
    gradient: Array = field(default_factory=lambda: np.empty(0))
    """By all particles (N, 3), without the joints."""
    damping: Array = field(default_factory=lambda: np.empty(0))
    """The part of it that comes from damping."""
    before: Array | None = None
    """Where the particles were a Newton step ago (N, 3)."""
    blocks: Array = field(default_factory=lambda: np.empty(0))
    coupling: Array = field(default_factory=lambda: np.empty(0))

    @property
    def x(self) -> Array:
        """All particles (N, 3)."""
        return self.pose.positions


@dataclass(frozen=True, eq=False)
class Loads:
    """The gradient handed down from bound particles to what they hang on."""

    on_layers: list[Array]
    """What has gathered on the particles of each layer of bindings."""
    on_riders: Array
    """What is left on particles of rigid bodies."""
    on_nodes: Array
    """(nodes, 3)."""


class Problem:
    """What one step minimises: stiffness/2 |x - target|^2_M and all energies, with the joints closed."""

    def __init__(
        self,
        system: System,
        scheme: Scheme,
        terms: Sequence[Term],
        forces: Array,
        directions: Array,
        before: AssemblyPose,
        clock: Clock,
        *,
        contact: ContactStage | None = None,
        curvature: bool = True,
    ) -> None:
        self.contact = contact
        self.system, self.scheme, self.terms, self.forces = system, scheme, terms, forces
        self.directions = directions[system.equations]
        self.before, self.clock, self._curvature = before, clock, curvature
        self.weights = scheme.stiffness * system.model.weight[:, None]

    def at(self, place: Place) -> Evaluation | None:
        """The value there; None where there is none, because parents of glue have collapsed."""
        there = self.posed(place)
        return there if there is not None and self.evaluate(there) else None

    def posed(self, place: Place) -> Evaluation | None:
        """Where all particles are then, without the value."""
        if not all(np.isfinite(part).all() for part in (place.x, place.origins, place.rotations)):
            return None
        with self.clock("glue"):
            try:
                frames = BodyFrames(place.origins, place.rotations)
                pose = self.system.assembly.evaluate(place.x.copy(), frames, previous=self.before)
            except DegenerateFitError:
                return None
        equations, held = self.system.model.equations, self.system.equations
        apart = pose.positions[equations.first[held]] - pose.positions[equations.second[held]]
        return Evaluation(place, pose, (self.directions * apart).sum(1))

    def evaluate(self, now: Evaluation) -> bool:
        """Fill in the value; whether there is one."""
        model, target, place, x = self.system.model, self.scheme.target, now.place, now.x
        parts = [0.5 * float(np.sum(self.weights * (x - target.x) ** 2)), -float(np.sum(self.forces * x))]
        if len(place.origins):
            inertia = model.pull.value(place.origins, place.rotations, target.origins, target.rotations)
            parts.append(self.scheme.stiffness * inertia)
        with self.clock("energies"):
            parts += [float(term.energy.value(x[term.rows])) for term in self.terms]
        if self.contact is not None:
            with self.clock("contact"):
                parts.append(self.contact.value(x))
        now.value, now.size = float(np.sum(parts)), float(np.abs(parts).sum())
        return bool(np.isfinite(now.value))

    def free_way(self, now: Evaluation, after: Evaluation, *, again: bool = False) -> float:
        """The share of the way between two places that no contact bars; `again`: the way was cut short."""
        if self.contact is None or (again and self._straight):
            return 1.0
        with self.clock("contact"):
            return self.contact.free_way(now.x, after.x, again=again)

    def press(self, now: Evaluation) -> bool:
        """Let friction go by the pressures there; whether there is any."""
        if self.contact is None:
            return False
        with self.clock("contact"):
            pressed = self.contact.press(now.x)
        if pressed:
            self.evaluate(now)
        return pressed

    @property
    def _straight(self) -> bool:
        """Whether all particles move along straight lines when the nodes do."""
        return not self.system.assembly.layers and not len(self.system.freedom.bodies)

    def differentiate(self, now: Evaluation) -> None:
        """Fill in the gradient and the derivatives of particles by nodes."""
        x, scheme = now.x, self.scheme
        gradient = self.weights * (x - scheme.target.x) - self.forces
        damping = np.zeros_like(x)
        with self.clock("energies"):
            for term in self.terms:
                gradient[term.rows] += term.energy.gradient(x[term.rows])
                if term.damped:
                    v = self.velocities(x)[term.rows]
                    damping[term.rows] += term.energy.rate_gradient(x[term.rows], v)
        if self.contact is not None:
            with self.clock("contact"):
                gradient[self.contact.surfaces.particles] += self.contact.gradient(x)
        now.gradient, now.damping = gradient + damping, damping
        with self.clock("glue"):
            now.blocks = self.system.freedom.blocks(now.pose)
            now.coupling = self.system.coupling(now.blocks, self.directions)

    def velocities(self, x: Array) -> Array:
        """Of all particles (N, 3), at the end of a step that ends with them at x."""
        return np.asarray(self.scheme.slope * (x - self.scheme.reference.x))

    def loads(self, now: Evaluation, multipliers: Array) -> "Loads":
        """What the gradient, joints included, does to bound particles, layer by layer, and to the nodes."""
        system, equations = self.system, self.system.model.equations
        rest = now.gradient.copy()
        pulls = multipliers[:, None] * self.directions
        np.add.at(rest, equations.first[system.equations], pulls)
        np.subtract.at(rest, equations.second[system.equations], pulls)
        with self.clock("glue"):
            on_layers = now.pose.pull_back(rest)
        freedom, assembly = system.freedom, system.assembly
        on_nodes = np.zeros((len(freedom), 3))
        on_nodes[: len(freedom.particles)] = rest[freedom.particles]
        if len(freedom.bodies):
            wrenches = np.zeros((len(assembly.origins), 2, 3))
            pushes, body = rest[assembly.on_body], assembly.body_of[assembly.on_body]
            np.add.at(wrenches, body, np.stack([pushes, np.cross(now.pose.arms, pushes)], axis=1))
            place, target = now.place, self.scheme.target
            wrenches += self.scheme.stiffness * system.model.pull.gradient(
                place.origins, place.rotations, target.origins, target.rotations
            )
            on_nodes[len(freedom.particles) :] = wrenches[freedom.bodies].reshape(-1, 3)
        return Loads(on_layers, rest[assembly.on_body], on_nodes)

    def matrix(self, now: Evaluation, loads: "Loads", *, project: bool) -> tuple[Array, Array]:
        """Data of the matrix of the Newton step, and the least pivots that are right."""
        system = self.system
        data = np.zeros(system.data_size)
        with self.clock("energies"):
            elements = [self._elements(term, now, project) for term in self.terms]
        with self.clock("sum"):
            pattern = system.pattern
            pattern.assemble(elements, out=data[: len(pattern.indices)])
            data[pattern.diagonal] += np.repeat(self.weights[:, 0], 3)
        with self.clock("glue"):
            if self._curvature and not project:
                for k, start, stop in system.curved:
                    now.pose.poses[k].write_hessian(loads.on_layers[k], data[start:stop])
        with self.clock("sum"):
            out = system.projection.apply(now.blocks, data)
        if self.contact is not None:
            out = self._with_contact(now, out, project)
        with self.clock("sum"):
            self._add_bodies(now, loads.on_riders, project, out)
            return out, self._couple(now, out)

    def _with_contact(self, now: Evaluation, data: Array, project: bool) -> Array:
        """The matrix with contact's part, in a layout that has room for it."""
        system, contact = self.system, self.contact
        assert contact is not None
        with self.clock("contact"):
            rows, columns, blocks = contact.blocks(now.x, project=project)
            layout, room = system.layout, (rows, columns)
            moving = isinstance(layout, Extended)
            fits = isinstance(layout, Extended) and layout.covers(rows, columns)
            if moving and not fits:
                # What moves meets others soon: there is to be room for them too. What rests does not.
                nearby = contact.pairs_nearby(now.x)
                room = np.concatenate([rows, nearby[0]]), np.concatenate([columns, nearby[1]])
        with self.clock("sum"):
            if not fits:
                system.widen(*room, now.x, now.place.origins)
            assert isinstance(system.layout, Extended)
            return system.layout.apply(data, now.blocks, rows, columns, blocks)

    def _elements(self, term: Term, now: Evaluation, project: bool) -> Array:
        places = now.x[term.rows]
        elements = term.energy.elements(places, project=project)
        if term.predicts and not project and now.before is not None:
            term.energy.predict(places, now.before[term.rows], elements)
        if term.damped:
            v = self.velocities(now.x)[term.rows]
            by_x, by_v = term.energy.rate_elements(places, v, symmetric=True)
            elements = elements + self.scheme.slope * by_v + (0.0 if project else by_x)
        return np.asarray(elements)

    def _add_bodies(self, now: Evaluation, f: Array, project: bool, out: Array) -> None:
        """Inertia of the bodies, and how forces on their particles turn with them."""
        system, assembly = self.system, self.system.assembly
        if not len(system.freedom.bodies):
            return
        blocks = self.scheme.stiffness * system.model.pull.hessian(
            now.place.rotations, self.scheme.target.rotations
        )
        r = now.pose.arms
        outer = f[:, :, None] * r[:, None, :]
        trace = np.einsum("bi,bi->b", f, r)
        turning = (outer + np.swapaxes(outer, 1, 2)) / 2 - trace[:, None, None] * np.eye(3)
        np.add.at(blocks[:, 1], assembly.body_of[assembly.on_body], turning)
        if project:
            blocks[:, 1] = psd_blocks(blocks[:, 1])
        places = system.layout.diagonal[len(system.freedom.particles) :]
        out[places] += blocks[system.freedom.bodies].reshape(-1, 3, 3)

    def _couple(self, now: Evaluation, out: Array) -> Array:
        """Write the equations into the matrix; returns the least right pivots."""
        system = self.system
        count, number = 3 * len(system.freedom), len(system.equations)
        nodes = system.layout.diagonal
        diagonal = out[nodes[:, np.arange(3), np.arange(3)]]
        least = np.concatenate([ROUNDING * np.abs(diagonal).ravel(), np.empty(number)])
        least[:count] = np.maximum(least[:count], 1e-300)
        if number:
            C = now.coupling
            ease = np.zeros(number)
            stiffness = np.maximum(diagonal[system.coupled_node], 1e-300)
            np.add.at(ease, system.coupled_equation, (C * C / stiffness).sum(1))
            give = np.where(ease > 0, GIVE * ease, 1.0)
            out[system.layout.extra] = np.concatenate([C.ravel(), C.ravel(), -give])
            least[count:] = -give / 2
        return least

    def moved(self, place: Place, step: Array, share: float) -> Place:
        """The place after that share of a step (nodes, 3)."""
        freedom = self.system.freedom
        x = place.x.copy()
        x[freedom.particles] += share * step[: len(freedom.particles)]
        if not len(freedom.bodies):
            return Place(x, place.origins, place.rotations)
        twists = share * step[len(freedom.particles) :].reshape(-1, 2, 3)
        origins, rotations = place.origins.copy(), place.rotations.copy()
        origins[freedom.bodies] += twists[:, 0]
        rotations[freedom.bodies] = rotated(rotations[freedom.bodies], twists[:, 1])
        return Place(x, origins, rotations)


def shifted(stencils: Stencils, offset: int) -> Stencils:
    """The stencils of a body's energy, among all particles."""
    if isinstance(stencils, Groups):
        return Groups(stencils.offsets, stencils.indices + offset)
    return np.asarray(stencils + offset)


def energy_at(energy: Any, moment: float) -> Energy:
    """The energy itself, or the one that a function of time gives."""
    given: Energy = energy if hasattr(energy, "stencils") else energy(moment)
    return given
