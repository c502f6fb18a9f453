"""The connected parts of a solver's bodies that nothing holds, and the balance of their angular momentum."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ...checks import Array
from ...procrustes import Groups
from ...procrustes.space import axial_vectors, cross_matrices
from ..linalg.blocks import Stencils
from ..state import SolverState
from .linear_system import LinearSystem

__all__ = ["FreeParts"]

# ratio of a part's moments of inertia: where the least is smaller, the part is a line, and rounding alone
# would tell how it spins about itself
LINE_RATIO = 1e-10

Link = tuple[NDArray[np.int64], NDArray[np.int64]]


class FreeParts:
    """The connected parts of all bodies that are neither pinned, nor fixed, nor moved by keys.

    Particles are connected by energies, springs, glue, joints and rigid bodies, while these hold.

    Parameters
    ----------
    system : LinearSystem
        The bindings and equations that hold.
    stencils : sequence of (E, k) or Groups
        The stencils of the energies that act, in rows of all particles.
    """

    def __init__(self, system: LinearSystem, stencils: Sequence[Stencils]) -> None:
        self._model = model = system.model
        count = len(model.rest)
        links = [_links_of(each) for each in stencils]
        links += [
            (np.asarray(rows)[binding.parents.group_of], binding.parents.indices)
            for rows, binding in system.assembly.layers
        ]
        riders = system.assembly.on_body
        links.append((riders, count + system.assembly.body_of[riders]))
        begins = np.flatnonzero(np.diff(system.entry_equations, prepend=-1))
        first = system.entry_particles[begins]
        links.append((np.repeat(first, np.diff(begins, append=len(system.entries))), system.entry_particles))
        one, other = (np.concatenate(ends) for ends in zip(*links, strict=True))
        nodes = count + len(model.fixed)
        graph = coo_array((np.ones(len(one), np.bool_), (one, other)), shape=(nodes, nodes))
        number, part_of = connected_components(graph, directed=False)
        mass = np.concatenate([model.mass, model.inertia.mass])
        # A part that can turn has at least two masses, or a rigid body.
        free = np.bincount(part_of, mass > 0, minlength=number) > 1
        free[part_of[count:]] = True
        free[part_of[np.append(model.pinned, model.fixed)]] = False
        names = np.where(free, np.cumsum(free) - 1, -1)[part_of]
        self._of_particles, self._of_bodies = names[:count], names[count:]
        massive = np.flatnonzero((names >= 0) & (mass > 0))
        self._members = massive[np.argsort(names[massive], kind="stable")]
        """Particles, then N + body, of all parts in turn."""
        self._part_of = names[self._members]
        self._starts = np.flatnonzero(np.diff(self._part_of, prepend=-1))
        self._mass = mass[self._members]
        self._bodies = np.flatnonzero(self._of_bodies >= 0)

    def __len__(self) -> int:
        """Return the number of parts."""
        return len(self._starts)

    def balanced(
        self, state: SolverState, before: SolverState, past: SolverState, weight: float
    ) -> SolverState:
        """Return a state of BDF2 whose angular momenta are balanced as the method balances velocities.

        At the end of a step m (v - v_ref) / tau is the force, where v_ref is (1 + b) times the velocity
        before less b times that before it. After this (L - L_ref) / tau is the torque as well, for the
        angular momentum L of each part about its centroid, so that what no torque acts on keeps it. The
        velocities of a part change by a rigid rotation, of third order in the step.

        Parameters
        ----------
        state : SolverState
            The state at the end of the step.
        before, past : SolverState
            The state at its beginning, and that before it.
        weight : float
            The weight b of the state before [1].

        Returns
        -------
        SolverState
        """
        if not len(self):
            return state
        extrapolated = (
            (1 + weight) * now - weight * then
            for now, then in zip(_velocities(before), _velocities(past), strict=True)
        )
        missing = (1 + weight) * self._angular(before, *_velocities(before))
        missing -= weight * self._angular(past, *_velocities(past))
        missing -= self._angular(state, *extrapolated)
        spins = self._spins(state, missing)
        center = self._centers(state)
        x, v = state.particles, state.particle_velocities.copy()
        of = self._of_particles
        rows = np.flatnonzero(of >= 0)
        v[rows] += np.cross(spins[of[rows]], x[rows] - center[of[rows]])
        linear, rates = state.origin_velocities.copy(), state.rotation_rates.copy()
        bodies, of = self._bodies, self._of_bodies[self._bodies]
        linear[bodies] += np.cross(spins[of], state.origins[bodies] - center[of])
        rates[bodies] += cross_matrices(spins[of]) @ state.rotations[bodies]
        return replace(state, particle_velocities=v, origin_velocities=linear, rotation_rates=rates)

    def fastest_spin(self, state: SolverState) -> float:
        """Return the largest of the parts' angular velocities, of rigid bodies with the same momenta [rad/s].

        Parameters
        ----------
        state : SolverState
            A state.

        Returns
        -------
        float
        """
        if not len(self):
            return 0.0
        spins = self._spins(state, self._angular(state, *_velocities(state)))
        return float(np.linalg.norm(spins, axis=1).max())

    def _centers(self, state: SolverState) -> Array:
        """Return the centroid of each part (P, 3) [m]."""
        x = np.concatenate([state.particles, state.origins])[self._members]
        total = np.add.reduceat(self._mass, self._starts)
        return np.asarray(np.add.reduceat(self._mass[:, None] * x, self._starts) / total[:, None])

    def _arms(self, state: SolverState) -> Array:
        """Return the members' offsets from the centroids of their parts (k, 3) [m]."""
        x = np.concatenate([state.particles, state.origins])[self._members]
        return np.asarray(x - self._centers(state)[self._part_of])

    def _angular(self, state: SolverState, v: Array, linear: Array, rates: Array) -> Array:
        """Return the angular momentum of each part about its centroid (P, 3), of a state with velocities."""
        p = self._mass[:, None] * np.concatenate([v, linear])[self._members]
        out = np.add.reduceat(np.cross(self._arms(state), p), self._starts)
        bodies = self._bodies
        moment = self._model.inertia.moment[bodies]
        own = axial_vectors(rates[bodies] @ moment @ np.swapaxes(state.rotations[bodies], 1, 2))
        np.add.at(out, self._of_bodies[bodies], own)
        return np.asarray(out)

    def _spins(self, state: SolverState, momenta: Array) -> Array:
        """Return the angular velocities (P, 3) that give the parts angular momenta (P, 3) [rad/s]."""
        arms, bodies = self._arms(state), self._bodies
        second = np.add.reduceat(
            self._mass[:, None, None] * arms[:, :, None] * arms[:, None, :], self._starts
        )
        turn = state.rotations[bodies]
        of_bodies = turn @ self._model.inertia.moment[bodies] @ np.swapaxes(turn, 1, 2)
        np.add.at(second, self._of_bodies[bodies], of_bodies)
        inertia = np.trace(second, axis1=1, axis2=2)[:, None, None] * np.eye(3) - second
        values, axes = np.linalg.eigh(inertia)
        turnable = values > LINE_RATIO * values[:, -1:]
        along = np.einsum("pij,pi->pj", axes, momenta)
        along = np.divide(along, values, out=np.zeros_like(along), where=turnable)
        return np.asarray(np.einsum("pij,pj->pi", axes, along))


def _velocities(state: SolverState) -> tuple[Array, Array, Array]:
    """Return the velocities of particles and of rigid bodies, and the rates of these bodies' rotations."""
    return state.particle_velocities, state.origin_velocities, state.rotation_rates


def _links_of(stencils: Stencils) -> Link:
    """Return pairs of points that connect all points of each stencil."""
    if isinstance(stencils, Groups):
        return np.asarray(stencils.indices[stencils.offsets[:-1]][stencils.group_of]), stencils.indices
    each = np.asarray(stencils, np.int64)
    return np.repeat(each[:, 0], each.shape[1]), each.ravel()
