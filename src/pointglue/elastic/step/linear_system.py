"""The sparse linear system of a step: its unknowns, where their entries go, and how it is solved."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ...checks import Array
from ...compute import run
from ...procrustes.groups import runs
from ..linalg.blocks import BlockPattern, Stencils
from ..linalg.cg import ConjugateGradients, near_groups
from ..linalg.ldl import SparseLDL
from ..model import kernels
from ..model.dofs import DegreesOfFreedom, DofMatrix
from ..model.kernels import ConstraintLinks
from ..model.solver_model import SolverModel
from .contact_matrix import ContactMatrix

__all__ = ["LinearSystem"]

# Conjugate gradients are tried where a factorisation takes as long as at least this many of their iterations,
# and are given up after as many iterations as take as long as it.
MIN_CG_ITERATIONS = 20
# ratio: the time of one entry in an iteration of conjugate gradients, which wait for memory, to that of one
# multiplication of a factorisation
CG_ENTRY_COST = 25
CG_RETRY_AFTER = 20  # systems that are factored right away after conjugate gradients have failed
GRAIN = 4096  # blocks of constraints worth a thread of their own


class LinearSystem:
    """Sparsity and factors of a step's matrix, while the same particles are bound and the same joints hold.

    Parameters
    ----------
    model : SolverModel
        The bodies, N particles with J joints.
    free : (N,)
        Which particles of glue are not bound.
    active_joints : (J,)
        Which joints hold.
    targets : (N, 3)
        Where bound particles would be at rest [m].
    stencils : sequence of (E, k) or Groups
        The stencils of the energies, in rows of all particles.
    """

    def __init__(
        self,
        model: SolverModel,
        free: NDArray[np.bool_],
        active_joints: NDArray[np.bool_],
        targets: Array,
        stencils: Sequence[Stencils],
    ) -> None:
        self.model = model
        self.assembly = model.assembly(free, targets)
        self.dofs = dofs = DegreesOfFreedom(self.assembly, model.prescribed, model.prescribed_bodies)
        self.pattern = BlockPattern(len(model.rest), stencils)
        self.equations = np.flatnonzero(active_joints[model.constraints.joint_of])
        """The rows of `model.constraints` whose joints hold (M,)."""
        rows, columns, sources, widths = self._particle_blocks()
        extra = self._constraint_entries()
        size = 3 * len(dofs) + len(self.equations)
        self.base = DofMatrix(dofs, rows, columns, sources, widths, extra=extra, size=size)
        """The layout of the matrix without contact."""
        self.layout: DofMatrix | ContactMatrix = self.base
        """The layout of the matrix that is solved: the base, or a wider one when there is contact."""
        self._coordinates, self._origins = model.rest, self.assembly.origins
        self._ldl: SparseLDL | None = None
        self._changed = True
        self._groups: list[NDArray[np.int64]] | None = None
        self._cg: ConjugateGradients | None = None
        self.begin()

    def _particle_blocks(self) -> tuple[NDArray[np.int64], ...]:
        """Return all blocks between particles, of the energies and then of each binding's second derivative.

        These are rows, columns, where they begin in the data, and how far apart their rows are.
        """
        pattern = self.pattern
        start = pattern.indptr[:-1:3].astype(np.int64)
        width = np.diff(pattern.indptr)[::3].astype(np.int64)
        row = np.repeat(np.arange(pattern.count), width // 3)
        first = runs(np.zeros(pattern.count, np.int64), width // 3)
        sources = start[row] + 3 * first
        parts = [(row, pattern.indices[sources] // 3, sources, width[row])]
        total = len(pattern.indices)
        self.curved: list[tuple[int, int, int]] = []
        """Layers of bindings with a second derivative: which, and from where to where in the data."""
        for k, (_, binding) in enumerate(self.assembly.layers):
            indptr, columns = binding.curvature_pattern
            if len(columns):
                number = len(columns)
                row = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
                parts.append((row, columns, total + 9 * np.arange(number), np.full(number, 3)))
                self.curved.append((k, total, total + 9 * number))
                total += 9 * number
        # Equations stiffen the matrix along their directions: springs between the two particles of each.
        linear = self.model.equations
        self.linear = self.equations[self.equations < len(linear.first)]
        """Those of the equations whose points coincide, which come first."""
        first, second = linear.first[self.linear], linear.second[self.linear]
        pairs, pair_of = np.unique(np.stack([first, second], axis=1), axis=0, return_inverse=True)
        self.pair_of = pair_of.reshape(-1)
        """The pair of particles that each of the equations `linear` is about, see `pairs`."""
        self.pairs = slice(total, total + 18 * len(pairs))
        """Where the stiffness of each pair is in the data, and then its negative: 9 + 9 numbers."""
        if len(pairs):
            a, b = pairs.T
            own, across = total + 18 * np.arange(len(pairs)), total + 18 * np.arange(len(pairs)) + 9
            rows, columns = np.concatenate([a, b, a, b]), np.concatenate([a, b, b, a])
            parts.append((rows, columns, np.concatenate([own, own, across, across]), np.full(len(rows), 3)))
        total = self.pairs.stop
        self.row_data: list[slice] = []
        """Where the element matrices of `model.constraints` are in the data, of each of its stencils."""
        for stencils in self.model.constraints.stencils:
            count, k = stencils.shape
            within = 9 * k * np.arange(k)[:, None] + 3 * np.arange(k)
            sources = total + 9 * k * k * np.arange(count)[:, None, None] + within
            rows, columns = np.broadcast_arrays(stencils[:, :, None], stencils[:, None, :])
            parts.append((rows.ravel(), columns.ravel(), sources.ravel(), np.full(sources.size, 3 * k)))
            self.row_data.append(slice(total, total + 9 * k * k * count))
            total = self.row_data[-1].stop
        self.data_size = total
        return tuple(np.concatenate(each).astype(np.int64) for each in zip(*parts, strict=True))

    def _constraint_entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return rows and columns of the joints' entries: C, its transpose, and the multipliers' diagonal."""
        dofs, constraints = self.dofs, self.model.constraints
        count = len(self.equations)
        number = np.full(len(constraints), -1)
        number[self.equations] = np.arange(count)
        self.entries = np.flatnonzero(number[constraints.entry_rows] >= 0)
        """The derivatives of those equations by particles, among all of `model.constraints` (n,)."""
        self.entry_equations = number[constraints.entry_rows[self.entries]]
        """The equation of each of them (n,)."""
        self.entry_particles = constraints.entry_particles[self.entries]
        """The particle of each of them (n,)."""
        entry, block, node_of = dofs.expanded(self.entry_particles)
        key = self.entry_equations[entry] * (len(dofs) + 1) + node_of
        order = np.argsort(key, kind="stable")
        distinct, starts = np.unique(key[order], return_index=True)
        self._links = ConstraintLinks(np.append(starts, len(key)), entry[order], block[order])
        of_eq, node = np.divmod(distinct, len(dofs) + 1)
        self.constraint_equation, self.constraint_node = of_eq, node
        """The equation and the node of each block of the constraint Jacobian C (k,)."""
        below = np.repeat(3 * len(dofs) + of_eq, 3)
        across = (3 * node[:, None] + np.arange(3)).ravel()
        own = 3 * len(dofs) + np.arange(count)
        return np.concatenate([below, across, own]), np.concatenate([across, below, own])

    def constraint_jacobian(self, blocks: Array, gradients: Array) -> Array:
        """Return the derivatives C of the joints' equations by nodes, in blocks (k, 3).

        Parameters
        ----------
        blocks : (K, 3, 3)
            The Jacobian blocks, see `DegreesOfFreedom.blocks`.
        gradients : (n, 3)
            The derivatives of the equations by particles, of `entries`.

        Returns
        -------
        (k, 3)
            The block of equation `constraint_equation` by node `constraint_node`.
        """
        out = np.empty((len(self.constraint_node), 3))
        run(kernels.constraint_blocks, len(out), GRAIN, self._links, gradients, blocks, out)
        return out

    @cached_property
    def parts(self) -> NDArray[np.int64]:
        """The connected part of each node (nodes,), by energies, glue and joints, whatever touches."""
        layout = self.base
        graph = csr_array(
            (np.ones(len(layout.indices), np.bool_), layout.indices, layout.indptr), shape=(layout.size,) * 2
        )
        part_of: NDArray[np.int64] = connected_components(graph, directed=False)[1]
        return part_of[: 3 * len(self.dofs) : 3]

    def begin(self) -> None:
        """Forget what earlier steps have left, so that a step is a function of its state, to the last bit."""
        self._skip = 0
        if self.layout is not self.base:
            self.layout, self._changed, self._cg = self.base, True, None
            self._coordinates, self._origins = self.model.rest, self.assembly.origins

    def widen(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], x: Array, origins: Array
    ) -> ContactMatrix:
        """Make room for blocks between particles, and return the layout that has it.

        Parameters
        ----------
        rows, columns : (K,)
            The particles of the blocks.
        x : (N, 3)
            Where the particles are [m].
        origins : (B, 3)
            Where the rigid bodies are [m].
        """
        self.layout = layout = ContactMatrix(self.base, self.dofs, rows, columns)
        # Contact connects what is near now, everything else what is near at rest: parts are cut by both.
        self._coordinates = np.hstack([self.model.rest, x])
        self._origins = np.hstack([self.assembly.origins, origins])
        self._changed, self._cg = True, None
        return layout

    def solve_iteratively(self, data: Array, right: Array, forcing: float) -> Array | None:
        """Return the solution by conjugate gradients, or None where a factorisation is the better way.

        Parameters
        ----------
        data : (nnz,)
            The data of the matrix.
        right : (n,)
            The right-hand side.
        forcing : float
            The relative error that may be left [1].

        Returns
        -------
        (n,) or None

        Raises
        ------
        IndefiniteError
            If the matrix is found not to be positive definite.
        """
        if len(self.equations):
            return None
        worth = int(self.ldl.work / (CG_ENTRY_COST * len(data)))
        if worth < MIN_CG_ITERATIONS:
            return None
        if self._skip > 0:
            self._skip -= 1
            return None
        if self._cg is None:
            layout, positions = self.layout, self.model.rest[self.dofs.particles]
            if self._groups is None:
                self._groups = near_groups(positions)
            self._cg = ConjugateGradients(
                layout.indptr, layout.indices, layout.diagonal, positions, self._groups
            )
        found = self._cg.solve(data, right, tolerance=forcing, iterations=worth)
        self._skip = CG_RETRY_AFTER if found is None else 0
        return found

    @property
    def ldl(self) -> SparseLDL:
        """The factors of matrices of this sparsity."""
        if self._ldl is None or self._changed:
            model, dofs = self.model, self.dofs
            # Equations of a joint that follow each other are a node. A joint that slides or turns may have
            # several: its other rows come behind the equations of all joints.
            joint = model.constraints.joint_of[self.equations]
            begins = np.append(True, joint[1:] != joint[:-1])[: len(joint)]
            node_of = np.concatenate([np.repeat(np.arange(len(dofs)), 3), len(dofs) + np.cumsum(begins) - 1])
            of_joints = self._coordinates[model.constraints.anchors[self.equations[begins]]]
            bodies = np.repeat(self._origins[dofs.bodies], 2, axis=0)
            positions = np.concatenate([self._coordinates[dofs.particles], bodies, of_joints])
            layout = self.layout
            self._ldl = SparseLDL(
                layout.indptr,
                layout.indices,
                node_of,
                positions,
                multipliers=len(of_joints),
                reuse=self._ldl,
            )
            self._changed = False
        return self._ldl
