"""All the particles of a scene, free, bound and on rigid bodies, as functions of the degrees of freedom."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csr_array

from ..checks import Array, as_integers, as_reals, check_rotations, require_finite
from ..compute import run
from ..errors import BindingCycleError, DegenerateFitError, InputError
from ..procrustes import special_procrustes
from ..procrustes.space import cross_matrices
from . import kernels
from .binding import Binding, BoundPose, bound_rows

__all__ = ["Assembly", "AssemblyPose", "BodyFrames"]


@dataclass(frozen=True, eq=False)
class BodyFrames:
    """Where B rigid bodies are.

    Attributes
    ----------
    origins : (B, 3)
        Their origins [m].
    rotations : (B, 3, 3)
        Their rotations from rest.
    """

    origins: Array
    rotations: Array


class Assembly:
    """Particles, some of them bound to others in chains of any length, and some fixed to rigid bodies.

    The degrees of freedom, which are the columns of Jacobians, are the 3 F coordinates of the free particles,
    then six numbers a body: velocity of its origin and angular velocity, in world space.

    Parameters
    ----------
    rest : (N, 3)
        Rest positions of every particle of the scene [m].
    bindings : sequence of pairs (rows, binding)
        Particle ``rows[k]`` is target k of the binding, and the binding's parents are particles of the scene
        too: free, bound themselves, or on a body.
    body_of : (N,), optional
        The rigid body that a particle is fixed to, -1 for none.
    origins : (B, 3), optional
        The points about which the bodies' torques are taken [m]; by default the centroids of their particles.

    Attributes
    ----------
    free : (F,)
        Rows of the particles that are free to move.
    on_body : (k,)
        Rows of the particles on rigid bodies.
    layers : list of pairs (rows, binding)
        The bindings in an order in which every parent comes before what is bound to it.

    Raises
    ------
    InputError
        If the arguments do not go together, or a particle is bound twice.
    BindingCycleError
        If particles are bound to each other in a cycle.
    """

    def __init__(
        self,
        rest: ArrayLike,
        bindings: Sequence[tuple[ArrayLike, Binding]] = (),
        *,
        body_of: ArrayLike | None = None,
        origins: ArrayLike | None = None,
    ) -> None:
        self.rest = as_reals("rest", rest).astype(np.float64)
        if self.rest.ndim != 2 or self.rest.shape[1] != 3 or not len(self.rest):
            raise InputError(f"rest must have shape (n, 3), at least one row, got shape {self.rest.shape}")
        require_finite("rest", self.rest)
        self.body_of, self.origins = self._checked_bodies(body_of, origins)
        self.on_body = np.flatnonzero(self.body_of >= 0)
        body = self.body_of[self.on_body]
        self.body_rows = kernels.BodyRows(self.on_body, body, self.rest[self.on_body] - self.origins[body])
        owned = self.body_of >= 0
        checked = [self._checked_binding(k, pair, owned) for k, pair in enumerate(bindings)]
        self.free: NDArray[np.int64] = np.flatnonzero(~owned)
        self._dependent = np.flatnonzero(owned)
        self.layers = _ordered(checked, len(self.rest))

    def __len__(self) -> int:
        """Number of particles."""
        return len(self.rest)

    @property
    def dofs(self) -> int:
        """The number of degrees of freedom, the columns of the Jacobian: 3 F + 6 B."""
        return 3 * len(self.free) + 6 * len(self.origins)

    def _checked_bodies(
        self, body_of: ArrayLike | None, origins: ArrayLike | None
    ) -> tuple[NDArray[np.int64], Array]:
        count = len(self.rest)
        if body_of is None:
            if origins is not None:
                raise InputError("origins are those of rigid bodies: give body_of too")
            return np.full(count, -1), np.empty((0, 3))
        bodies = as_integers("body_of", body_of)
        if len(bodies) != count or bodies.min() < -1:
            wrong = f"{len(bodies)} numbers" if len(bodies) != count else bodies.min()
            raise InputError(f"body_of must hold a body or -1 for each of {count} particles, got {wrong}")
        number = int(bodies.max()) + 1
        if origins is None:
            sizes = np.bincount(bodies[bodies >= 0], minlength=number)
            if (sizes == 0).any():
                raise InputError(f"body {int(sizes.argmin())} has no particles: give the bodies' origins")
            sums = np.zeros((number, 3))
            np.add.at(sums, bodies[bodies >= 0], self.rest[bodies >= 0])
            return bodies, sums / sizes[:, None]
        places = as_reals("origins", origins).astype(np.float64)
        require_finite("origins", places)
        if places.ndim != 2 or places.shape[1] != 3 or len(places) < number:
            raise InputError(f"origins must have shape ({number}, 3), one per body, got shape {places.shape}")
        return bodies, places

    def _checked_binding(
        self, k: int, pair: Any, owned: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], Binding]:
        """Return one of the bindings, and mark its particles in `owned`."""
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[1], Binding):
            raise InputError(f"bindings[{k}] must be a pair (rows, binding), got {type(pair).__name__}")
        rows, binding = pair
        numbers = as_integers(f"bindings[{k}]", rows)
        if len(numbers) != len(binding):
            raise InputError(f"bindings[{k}] names {len(numbers)} particles for {len(binding)} targets")
        if binding.dimension != 3:
            raise InputError(f"bindings[{k}] must be a binding in space, got one in the plane")
        if binding.point_count > len(self.rest):
            raise InputError(
                f"bindings[{k}] must have its parents among the {len(self.rest)} particles, "
                f"got a binding to {binding.point_count} points"
            )
        if numbers.min() < 0 or numbers.max() >= len(self.rest):
            raise InputError(f"bindings[{k}] must name rows of the {len(self.rest)} particles, got {numbers}")
        twice = numbers[owned[numbers]]
        if not len(twice):
            places, uses = np.unique(numbers, return_counts=True)
            twice = places[uses > 1]
        if len(twice):
            particle = int(twice[0])
            how = "on a rigid body" if self.body_of[particle] >= 0 else "bound already"
            raise InputError(
                f"bindings[{k}] binds particle {particle}, which is {how}: "
                f"use `assemble`, which makes springs of conflicting attachments"
            )
        owned[numbers] = True
        return numbers, binding

    def at(
        self, x: ArrayLike, frames: BodyFrames | None = None, *, previous: "AssemblyPose | None" = None
    ) -> "AssemblyPose":
        """Return every particle, with the free ones and the bodies at given positions.

        Parameters
        ----------
        x : (N, 3)
            Positions of the free particles in their rows [m]; other rows are not read.
        frames : BodyFrames, optional
            Where the bodies are.
        previous : AssemblyPose, optional
            The pose of the step before, towards which an undetermined spin of a frame is pulled.

        Returns
        -------
        AssemblyPose

        Raises
        ------
        InputError
            If a shape is another, a number is not finite or a matrix is no rotation.
        DegenerateFitError
            If the parents of a bound particle do not determine a frame, and its binding is to raise.
        """
        given = as_reals("x", x)
        if given.shape != self.rest.shape:
            raise InputError(f"x must have shape {self.rest.shape}, one row per particle, got {given.shape}")
        positions = given.astype(np.float64)
        positions[self._dependent] = self.rest[self._dependent]
        require_finite("x", positions)
        return self.evaluate(positions, self._checked_frames(frames), previous=previous)

    def evaluate(
        self, positions: Array, frames: BodyFrames, *, previous: "AssemblyPose | None" = None
    ) -> "AssemblyPose":
        """Return the same as `at`, unchecked, for solvers; the pose keeps the array `positions` (N, 3).

        Its free rows are read, all others are written. The `target` of an error is the particle that has no
        frame.
        """
        particles, origins, rotations = self.body_rows, frames.origins, frames.rotations
        arms = np.empty_like(particles.rest_arms)
        if len(arms):
            run(kernels.rigid_positions, len(arms), 8192, particles, origins, rotations, arms, positions)
        before = [None] * len(self.layers) if previous is None else previous.poses
        poses = []
        for (rows, binding), last in zip(self.layers, before, strict=True):
            try:
                poses.append(binding.evaluate_into(positions, rows, previous=last))
            except DegenerateFitError as error:
                particle = None if error.target is None else int(rows[error.target])
                raise DegenerateFitError(str(error), particle) from None
        return AssemblyPose(self, positions, arms, tuple(poses))

    def _checked_frames(self, frames: BodyFrames | None) -> BodyFrames:
        count = len(self.origins)
        if frames is None:
            if count:
                raise InputError(f"frames must say where the {count} rigid bodies are")
            return BodyFrames(np.empty((0, 3)), np.empty((0, 3, 3)))
        if not isinstance(frames, BodyFrames):
            raise InputError(f"frames must be BodyFrames(origins, rotations), got {type(frames).__name__}")
        origins = bound_rows("frames.origins", frames.origins, count, 3, "body")
        rotations = check_rotations("frames.rotations", frames.rotations, (count, 3, 3))
        # To the last digit, or bodies would stretch by what is missing.
        return BodyFrames(origins, special_procrustes(rotations) if count else rotations)


def _ordered(
    bindings: list[tuple[NDArray[np.int64], Binding]], count: int
) -> list[tuple[NDArray[np.int64], Binding]]:
    """Return the bindings cut into layers, each of which needs only what earlier ones provide."""
    known = np.ones(count, dtype=bool)
    for rows, _ in bindings:
        known[rows] = False
    layers: list[tuple[NDArray[np.int64], Binding]] = []
    waiting = [(rows, binding, np.arange(len(rows))) for rows, binding in bindings]
    while waiting:
        left, found = [], []
        for rows, binding, targets in waiting:
            groups = binding.parents
            ready = np.logical_and.reduceat(known[groups.indices], groups.offsets[:-1])[targets]
            if ready.any():
                some = targets[ready]
                found.append((rows[some], binding if len(some) == len(rows) else binding.take(some)))
            if not ready.all():
                left.append((rows, binding, targets[~ready]))
        if not found:
            cycle = _cycle(left, known)
            raise BindingCycleError(cycle, tuple(map(str, cycle)))
        for rows, _ in found:
            known[rows] = True
        layers += found
        waiting = left
    return layers


def _cycle(
    waiting: list[tuple[NDArray[np.int64], Binding, NDArray[np.int64]]], known: Array
) -> tuple[int, ...]:
    """Return one cycle among the particles that wait for each other, its first one again as the last."""
    parents = {}
    for rows, binding, targets in waiting:
        groups = binding.parents
        for target in targets.tolist():
            of_target = groups.indices[groups.offsets[target] : groups.offsets[target + 1]]
            parents[int(rows[target])] = int(of_target[~known[of_target]][0])
    path, seen = [next(iter(parents))], set()
    while path[-1] not in seen:
        seen.add(path[-1])
        path.append(parents[path[-1]])
    return tuple(path[path.index(path[-1]) :])


@dataclass(frozen=True, eq=False)
class AssemblyPose:
    """An assembly whose free particles and bodies are at given positions.

    Attributes
    ----------
    assembly : Assembly
    positions : (N, 3)
        Positions of all particles [m].
    arms : (k, 3)
        Vectors from the origins of the bodies to the particles on them [m].
    poses : tuple of BoundPose
        The layers of the assembly.
    """

    assembly: Assembly
    positions: Array
    arms: Array = field(repr=False)
    poses: tuple[BoundPose, ...] = field(repr=False)

    def narrowest(self) -> tuple[int | None, float]:
        """Return the bound particle whose parents have collapsed most, or None, and their `spread`."""
        layers = zip(self.assembly.layers, self.poses, strict=True)
        spreads = [(int(rows[s.argmin()]), float(s.min())) for (rows, _), p in layers if len(s := p.spread)]
        return min(spreads, key=lambda each: each[1], default=(None, 1.0))

    def velocities(self, v: ArrayLike, twists: ArrayLike | None = None) -> Array:
        """Return the velocities of all particles.

        Parameters
        ----------
        v : (N, 3)
            Velocities of the free particles in their rows [m/s].
        twists : (B, 6), optional
            Velocity of the origin [m/s] and angular velocity [1/s] of each body.

        Returns
        -------
        (N, 3)
        """
        rates = self._free_rows("v", v)
        spin = self._six("twists", twists)[self._body]
        rates[self.assembly.on_body] = spin[:, :3] + np.cross(spin[:, 3:], self.arms)
        for (rows, binding), pose in zip(self.assembly.layers, self.poses, strict=True):
            rates[rows] = pose.velocities(rates[: binding.point_count])
        return rates

    def accelerations(
        self,
        v: ArrayLike,
        a: ArrayLike,
        twists: ArrayLike | None = None,
        twist_rates: ArrayLike | None = None,
    ) -> Array:
        """Return the accelerations of all particles.

        Parameters
        ----------
        v, a : (N, 3)
            Velocities [m/s] and accelerations [m/s^2] of the free particles in their rows.
        twists, twist_rates : (B, 6), optional
            Velocity of the origin and angular velocity of each body, and their rates.

        Returns
        -------
        (N, 3)
        """
        rates = self.velocities(v, twists)
        second = self._free_rows("a", a)
        spin = self._six("twists", twists)[self._body][:, 3:]
        change = self._six("twist_rates", twist_rates)[self._body]
        rotational = np.cross(change[:, 3:], self.arms) + np.cross(spin, np.cross(spin, self.arms))
        second[self.assembly.on_body] = change[:, :3] + rotational
        for (rows, binding), pose in zip(self.assembly.layers, self.poses, strict=True):
            count = binding.point_count
            second[rows] = pose.accelerations(rates[:count], second[:count])
        return second

    def transfer_forces(self, f: ArrayLike) -> tuple[Array, Array]:
        """Pull forces on all particles back to the degrees of freedom.

        Parameters
        ----------
        f : (N, 3)
            Forces on all particles [N].

        Returns
        -------
        forces : (N, 3)
            Forces on the free particles [N], zero on all others.
        wrenches : (B, 6)
            Force [N] and torque about the origin [N m] of each body.
        """
        forces = self._checked_forces(f)
        self.pull_back(forces)
        wrenches = np.zeros((len(self.assembly.origins), 6))
        pushes = forces[self.assembly.on_body]
        np.add.at(wrenches, self._body, np.hstack([pushes, np.cross(self.arms, pushes)]))
        forces[self.assembly.on_body] = 0.0
        return forces, wrenches

    def jacobian(self) -> csr_array:
        """Return d positions / d dofs (3 N, 3 F + 6 B); see :class:`Assembly` for the columns."""
        return self._jacobian.copy()

    @cached_property
    def _jacobian(self) -> csr_array:
        assembly = self.assembly
        count = 3 * len(assembly)
        axis = np.arange(3)
        rows = (3 * assembly.free[:, None] + axis).ravel()
        D = csr_array(
            (np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(count, assembly.dofs)
        ) + self._body_jacobian(count)
        for (bound, binding), pose in zip(assembly.layers, self.poses, strict=True):
            # The rows of what is bound are empty so far; its Jacobian fills them.
            place = (3 * bound[:, None] + axis).ravel()
            scatter = csr_array((np.ones(len(place)), (place, np.arange(len(place)))), (count, len(place)))
            D = D + scatter @ (pose.jacobian() @ D[: 3 * binding.point_count])
        return csr_array(D)

    def hessian(self, f: ArrayLike) -> csr_array:
        """Return the second derivative of sum f . positions by the degrees of freedom, symmetric.

        Bodies rotate by rotation vectors from where they are: R = exp([theta]x) R_now at theta = 0.
        """
        D, size = self._jacobian, self.assembly.dofs
        total = csr_array((size, size))
        forces = self._checked_forces(f)
        for pose, load in zip(self.poses, self.pull_back(forces), strict=True):
            part = D[: 3 * pose.binding.point_count]
            total = total + part.T @ pose.hessian(load) @ part
        return csr_array(total + self._body_hessian(forces))

    def pull_back(self, forces: Array) -> list[Array]:
        """Move forces (N, 3) on bound particles to their parents, in place, last binding first.

        Return the forces that came to the particles of each layer. Solvers call it: nothing is checked.
        """
        loads = [
            pose.pull_back(forces, rows)
            for (rows, _), pose in zip(self.assembly.layers[::-1], self.poses[::-1], strict=True)
        ]
        return loads[::-1]

    @property
    def _body(self) -> NDArray[np.int64]:
        """The body of each particle that has one."""
        return self.assembly.body_rows.body

    def _checked_forces(self, f: ArrayLike) -> Array:
        return np.array(bound_rows("f", f, len(self.assembly), 3, "particle"), dtype=np.float64)

    def _body_jacobian(self, count: int) -> csr_array:
        """Return the rows of the particles on bodies: [I, -[r]x] in the columns of their body."""
        blocks = np.zeros((len(self.arms), 3, 6))
        blocks[:, :, :3], blocks[:, :, 3:] = np.eye(3), cross_matrices(-self.arms)
        rows = 3 * self.assembly.on_body[:, None, None] + np.arange(3)[:, None]
        columns = 3 * len(self.assembly.free) + 6 * self._body[:, None, None] + np.arange(6)
        return _scattered(blocks, rows, columns, (count, self.assembly.dofs))

    def _body_hessian(self, forces: Array) -> csr_array:
        """Return (f r^T + r f^T) / 2 - (f . r) I in the angular columns, summed over a body's particles."""
        f, r = forces[self.assembly.on_body], self.arms
        outer = f[:, :, None] * r[:, None, :]
        trace = np.einsum("bi,bi->b", f, r)
        blocks = (outer + np.swapaxes(outer, 1, 2)) / 2 - trace[:, None, None] * np.eye(3)
        columns = 3 * len(self.assembly.free) + 6 * self._body[:, None, None] + 3 + np.arange(3)
        size = self.assembly.dofs
        return _scattered(blocks, np.swapaxes(columns, 1, 2), columns, (size, size))

    def _free_rows(self, name: str, value: ArrayLike) -> Array:
        """Return values of the free particles in their rows, zeros elsewhere."""
        given = as_reals(name, value)
        if given.shape != self.positions.shape:
            raise InputError(
                f"{name} must have shape {self.positions.shape}, one row per particle, got {given.shape}"
            )
        rates, free = np.zeros_like(self.positions), self.assembly.free
        rates[free] = given[free]
        require_finite(name, rates)
        return rates

    def _six(self, name: str, value: ArrayLike | None) -> Array:
        count = len(self.assembly.origins)
        if value is None:
            return np.zeros((count, 6))
        return bound_rows(name, value, count, 6, "body")


def _scattered(blocks: Array, rows: Array, columns: Array, shape: tuple[int, int]) -> csr_array:
    """Return blocks (n, p, q) at their rows (n, p, 1) and columns (n, 1, q); where they meet they add up."""
    rows, columns = np.broadcast_to(rows, blocks.shape), np.broadcast_to(columns, blocks.shape)
    return csr_array(coo_array((blocks.ravel(), (rows.ravel(), columns.ravel())), shape=shape))
