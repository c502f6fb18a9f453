"""The sparse system of a step: which unknowns there are, where their entries go, and how it is solved."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute import run
from ...procrustes.groups import runs
from ..linalg.blocks import BlockPattern, Stencils
from ..linalg.cg import ConjugateGradients
from ..linalg.ldl import SparseLDL
from ..model import kernels
from ..model.dofs import Freedom, Projection
from ..model.solver_model import SolverModel
from .contact_matrix import Extended

__all__ = ["System"]

# Conjugate gradients are tried where factors take more multiplications than this many of their iterations,
# which wait for memory and are worth ten times as much; never more of them than factors would be worth.
WORTH, PER_ENTRY = 50, 10
SKIP = 20  # systems that are factored right away when conjugate gradients have failed


class System:
    """Sparsity and factors, for as long as the same particles are glued and the same joints hold."""

    def __init__(
        self,
        model: SolverModel,
        loose: NDArray[np.bool_],
        holding: NDArray[np.bool_],
        targets: Array,
        stencils: Sequence[Stencils],
    ) -> None:
        self.model = model
        self.assembly = model.assembly(loose, targets)
        self.freedom = freedom = Freedom(self.assembly, model.held, model.still)
        self.pattern = BlockPattern(len(model.rest), stencils)
        self.equations = np.flatnonzero(holding[model.equations.joint_of])
        """Those of the joints that hold (M,)."""
        rows, columns, sources, widths = self._particle_blocks()
        extra = self._coupling()
        size = 3 * len(freedom) + len(self.equations)
        self.projection = Projection(freedom, rows, columns, sources, widths, extra=extra, size=size)
        self.layout: Projection | Extended = self.projection
        """Of the matrix that is solved: wider than that of the energies when there is contact."""
        self._places, self._origins = model.rest, self.assembly.origins
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
        for k, (_, binding) in enumerate(self.assembly.layers):
            indptr, columns = binding.curvature_pattern
            if len(columns):
                number = len(columns)
                row = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
                parts.append((row, columns, total + 9 * np.arange(number), np.full(number, 3)))
                self.curved.append((k, total, total + 9 * number))
                total += 9 * number
        self.data_size = total
        return tuple(np.concatenate(each).astype(np.int64) for each in zip(*parts, strict=True))

    def _coupling(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Entries of the equations: C, its transpose, and the diagonal of the multipliers."""
        freedom, equations = self.freedom, self.model.equations
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
            self._places, self._origins = self.model.rest, self.assembly.origins

    def widen(self, rows: NDArray[np.int64], columns: NDArray[np.int64], x: Array, origins: Array) -> None:
        """Make room for blocks between particles; these are at x (N, 3) now, bodies at `origins` (B, 3)."""
        self.layout = Extended(self.projection, self.freedom, rows, columns)
        # Contact joins what is near now, everything else what is near at rest: parts are cut by both.
        self._places = np.hstack([self.model.rest, x])
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
            layout, places = self.projection, self.model.rest[self.freedom.particles]
            self._gradients = ConjugateGradients(layout.indptr, layout.indices, layout.diagonal, places)
        found = self._gradients.solve(data, right, tolerance=forcing, iterations=worth)
        self._skip = SKIP if found is None else 0
        return found

    @property
    def ldl(self) -> SparseLDL:
        """Factors of matrices of this sparsity."""
        if self._ldl is None or self._changed:
            model, freedom = self.model, self.freedom
            joint = model.equations.joint_of[self.equations]
            joints, of_joint = np.unique(joint, return_inverse=True)
            node_of = np.concatenate([np.repeat(np.arange(len(freedom)), 3), len(freedom) + of_joint])
            middles = np.zeros((len(joints), self._places.shape[1]))
            middles[of_joint] = self._places[model.equations.first[self.equations]]
            bodies = np.repeat(self._origins[freedom.bodies], 2, axis=0)
            places = np.concatenate([self._places[freedom.particles], bodies, middles])
            layout = self.layout
            self._ldl = SparseLDL(
                layout.indptr, layout.indices, node_of, places, multipliers=len(joints), reuse=self._ldl
            )
            self._changed = False
        return self._ldl
