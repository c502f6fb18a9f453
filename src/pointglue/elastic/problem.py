"""One step as a minimisation: value, gradient and Hessian by what is free to move, joints as equations."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array
from ..compute import run
from ..errors import DegenerateFitError
from ..glue import AssemblyPose, Frames, Springs
from ..procrustes import Groups
from ..procrustes.groups import runs
from . import freedom_kernels as kernels
from .blocks import BlockPattern, Stencils
from .contact import ContactStage
from .contact_blocks import Extended
from .energy import Energy
from .freedom import Freedom, Projection
from .iterative import ConjugateGradients
from .linear import SparseLDL
from .rigid import psd_blocks, rotated
from .scene import Scene

__all__ = ["Clock", "Problem", "Scheme", "System"]

# Of a multiplier's own stiffness: what its equation may give while it is still being solved. It makes
# redundant equations harmless, and is gone when the multipliers no longer change.
GIVE = 1e-9
# Conjugate gradients are tried where factors take more multiplications than this many of their iterations,
# which wait for memory and are worth ten times as much; never more of them than factors would be worth.
WORTH, PER_ENTRY = 50, 10
SKIP = 20  # systems that are factored right away when conjugate gradients have failed
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


class System:
    """Sparsity and factors, for as long as the same particles are glued and the same joints hold."""

    def __init__(
        self, scene: Scene, loose: NDArray[np.bool_], holding: NDArray[np.bool_], stencils: Sequence[Stencils]
    ) -> None:
        self.scene = scene
        self.assembly = scene.assembly(loose)
        self.freedom = freedom = Freedom(self.assembly, scene.held, scene.still)
        self.pattern = BlockPattern(len(scene.rest), stencils)
        self.equations = np.flatnonzero(holding[scene.equations.joint_of])
        """Those of the joints that hold (M,)."""
        rows, columns, sources, widths = self._particle_blocks()
        extra = self._coupling()
        size = 3 * len(freedom) + len(self.equations)
        self.projection = Projection(freedom, rows, columns, sources, widths, extra=extra, size=size)
        self.layout: Projection | Extended = self.projection
        """Of the matrix that is solved: wider than that of the energies when there is contact."""
        self._places, self._origins = scene.rest, self.assembly.origins
        self._ldl: SparseLDL | None = None
        self._changed = True
        self._gradients: ConjugateGradients | None = None
        self.begin()

    def _particle_blocks(self) -> tuple[NDArray[np.int64], ...]:
        """All blocks between particles: of the energies, then of each binding's second derivative."""
        pattern = self.pattern
        start = pattern.indptr[:-1:3].astype(np.int64)
        width = np.diff(pattern.indptr)[::3].astype(np.int64)
        row = np.repeat(np.arange(pattern.count), width // 3)
        first = runs(np.zeros(pattern.count, np.int64), width // 3)
        sources = start[row] + 3 * first
        parts = [(row, pattern.indices[sources] // 3, sources, width[row])]
        total = len(pattern.indices)
        self.curved: list[tuple[int, int, int]] = []
        """Layers with a second derivative: which, and from where to where in the data."""
        rest = self.assembly.rest
        for k, (_, binding) in enumerate(self.assembly.layers):
            H = binding.at(rest[: binding.point_count]).hessian(np.zeros((len(binding), 3)))
            if H.nnz:
                number = len(H.indices)
                row = np.repeat(np.arange(len(H.indptr) - 1), np.diff(H.indptr))
                parts.append((row, H.indices, total + 9 * np.arange(number), np.full(number, 3)))
                self.curved.append((k, total, total + 9 * number))
                total += 9 * number
        self.data_size = total
        return tuple(np.concatenate(each).astype(np.int64) for each in zip(*parts, strict=True))

    def _coupling(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Entries of the equations: C, its transpose, and the diagonal of the multipliers."""
        freedom, equations = self.freedom, self.scene.equations
        count = len(self.equations)
        eq, block, sign = [], [], []
        for ends, s in ((equations.first, 1.0), (equations.second, -1.0)):
            points = ends[self.equations]
            sizes = freedom.size_of[points]
            eq.append(np.repeat(np.arange(count), sizes))
            block.append(runs(freedom.first_of[points], sizes))
            sign.append(np.full(int(sizes.sum()), s))
        links = [np.concatenate(each) for each in (eq, block, sign)]
        key = links[0] * (len(freedom) + 1) + freedom.block_nodes[links[1]]
        order = np.argsort(key, kind="stable")
        places, starts = np.unique(key[order], return_index=True)
        self._links = (np.append(starts, len(key)), *(each[order] for each in links))
        of_eq, node = np.divmod(places, len(freedom) + 1)
        self.coupled_equation, self.coupled_node = of_eq, node
        below = np.repeat(3 * len(freedom) + of_eq, 3)
        across = (3 * node[:, None] + np.arange(3)).ravel()
        own = 3 * len(freedom) + np.arange(count)
        return np.concatenate([below, across, own]), np.concatenate([across, below, own])

    def coupling(self, blocks: Array, directions: Array) -> Array:
        """C in blocks (places, 3): of equation `coupled_equation` by node `coupled_node`."""
        out = np.empty((len(self.coupled_node), 3))
        run(kernels.couple, len(out), 4096, *self._links, directions, blocks, out)
        return out

    def begin(self) -> None:
        """Forget what earlier steps have left: a step is a function of its state, to the last bit."""
        self._skip = 0
        if self.layout is not self.projection:
            self.layout, self._changed = self.projection, True
            self._places, self._origins = self.scene.rest, self.assembly.origins

    def widen(self, rows: NDArray[np.int64], columns: NDArray[np.int64], x: Array, origins: Array) -> None:
        """Make room for blocks between particles; these are at x (N, 3) now, bodies at `origins` (B, 3)."""
        self.layout = Extended(self.projection, self.freedom, rows, columns)
        # Contact joins what is near now, everything else what is near at rest: parts are cut by both.
        self._places = np.hstack([self.scene.rest, x])
        self._origins = np.hstack([self.assembly.origins, origins])
        self._changed = True

    def iterated(self, data: Array, right: Array, forcing: float) -> Array | None:
        """The solution by conjugate gradients, but for that share; None where factors are the better way."""
        if len(self.equations) or self.layout is not self.projection:
            return None
        worth = int(self.ldl.work / (PER_ENTRY * len(data)))
        if worth < WORTH:
            return None
        if self._skip > 0:
            self._skip -= 1
            return None
        if self._gradients is None:
            layout, places = self.projection, self.scene.rest[self.freedom.particles]
            self._gradients = ConjugateGradients(layout.indptr, layout.indices, layout.diagonal, places)
        found = self._gradients.solve(data, right, tolerance=forcing, iterations=worth)
        self._skip = SKIP if found is None else 0
        return found

    @property
    def ldl(self) -> SparseLDL:
        """Factors of matrices of this sparsity."""
        if self._ldl is None or self._changed:
            scene, freedom = self.scene, self.freedom
            joint = scene.equations.joint_of[self.equations]
            joints, of_joint = np.unique(joint, return_inverse=True)
            node_of = np.concatenate([np.repeat(np.arange(len(freedom)), 3), len(freedom) + of_joint])
            middles = np.zeros((len(joints), self._places.shape[1]))
            middles[of_joint] = self._places[scene.equations.first[self.equations]]
            bodies = np.repeat(self._origins[freedom.bodies], 2, axis=0)
            places = np.concatenate([self._places[freedom.particles], bodies, middles])
            layout = self.layout
            self._ldl = SparseLDL(
                layout.indptr, layout.indices, node_of, places, multipliers=len(joints), reuse=self._ldl
            )
            self._changed = False
        return self._ldl


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
        self.weights = scheme.stiffness * system.scene.weight[:, None]

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
                frames = Frames(place.origins, place.rotations)
                pose = self.system.assembly.carry(place.x.copy(), frames, previous=self.before)
            except DegenerateFitError:
                return None
        equations, held = self.system.scene.equations, self.system.equations
        apart = pose.positions[equations.first[held]] - pose.positions[equations.second[held]]
        return Evaluation(place, pose, (self.directions * apart).sum(1))

    def evaluate(self, now: Evaluation) -> bool:
        """Fill in the value; whether there is one."""
        scene, target, place, x = self.system.scene, self.scheme.target, now.place, now.x
        parts = [0.5 * float(np.sum(self.weights * (x - target.x) ** 2)), -float(np.sum(self.forces * x))]
        if len(place.origins):
            inertia = scene.pull.value(place.origins, place.rotations, target.origins, target.rotations)
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
        system, equations = self.system, self.system.scene.equations
        rest = now.gradient.copy()
        pulls = multipliers[:, None] * self.directions
        np.add.at(rest, equations.first[system.equations], pulls)
        np.subtract.at(rest, equations.second[system.equations], pulls)
        with self.clock("glue"):
            on_layers = now.pose.hand_down(rest)
        freedom, assembly = system.freedom, system.assembly
        on_nodes = np.zeros((len(freedom), 3))
        on_nodes[: len(freedom.particles)] = rest[freedom.particles]
        if len(freedom.bodies):
            wrenches = np.zeros((len(assembly.origins), 2, 3))
            pushes, body = rest[assembly.on_body], assembly.body_of[assembly.on_body]
            np.add.at(wrenches, body, np.stack([pushes, np.cross(now.pose.arms, pushes)], axis=1))
            place, target = now.place, self.scheme.target
            wrenches += self.scheme.stiffness * system.scene.pull.gradient(
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
            layout = system.layout
            fits = isinstance(layout, Extended) and layout.covers(rows, columns)
            nearby = None if fits else contact.pairs_nearby(now.x)
        with self.clock("sum"):
            if nearby is not None:
                system.widen(
                    np.concatenate([rows, nearby[0]]),
                    np.concatenate([columns, nearby[1]]),
                    now.x,
                    now.place.origins,
                )
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
        blocks = self.scheme.stiffness * system.scene.pull.hessian(
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
