"""The impacts on the way of a Newton step, which the step is taken again with.

The collision-free fraction of a step is that of its first impact, anywhere. Where a cloth falls flat, there
are hundreds of impacts, of which each Newton step would meet a few, and stop. So those on the whole way are
found at once, and the quadratic model of the step is told of them: it has, for each, the second-order
expansion of the barrier where two primitives are half as far apart as contact begins. Only the direction
changes by that, and not what is minimised.
"""

import numpy as np

from ...checks import Array
from ...compute import run
from .collision_mesh import Candidates, CollisionMesh
from .contacts import Blocks
from .kernels import impacts, sums
from .kernels.barrier import BarrierShape, barrier
from .kernels.ccd import ImpactLimits
from .kernels.impacts import ImpactRows
from .kernels.pairs import QUARTER

__all__ = ["ImpactSet"]

GAP_RATIO = 0.5  # ratio of the contact distance: the gap at which the barrier is expanded
PAIRS_PER_THREAD = 1024


class ImpactSet:
    """The pairs that meet on a way of all vertices, as terms of a quadratic model.

    Parameters
    ----------
    mesh : CollisionMesh
        The collision mesh.
    way : tuple of (V, 3)
        The vertices at the start and at the end of the way [m].
    candidates : Candidates
        The pairs that may meet on it.
    shape : BarrierShape
        The barrier.
    limits : ImpactLimits
        What the search for impacts keeps to.
    """

    def __init__(
        self,
        mesh: CollisionMesh,
        way: tuple[Array, Array],
        candidates: Candidates,
        shape: BarrierShape,
        limits: ImpactLimits,
    ) -> None:
        self._count, arrays, grain = len(way[0]), mesh.arrays, PAIRS_PER_THREAD
        of_faces, of_edges = (_empty(len(pairs)) for pairs in candidates)
        faces, edges = candidates
        run(impacts.face_rows, len(faces), grain, way, arrays.faces, faces, limits, of_faces)
        run(impacts.edge_rows, len(edges), grain, way, arrays.edges, edges, limits, of_edges)
        met = [np.isfinite(rows.offset) for rows in (of_faces, of_edges)]
        area = np.concatenate([
            arrays.vertex_area[faces[met[0], 0]],
            arrays.edge_area[edges[met[1]]].sum(1),
        ])  # fmt: skip
        self.rows = ImpactRows(
            *(np.concatenate([a[met[0]], b[met[1]]]) for a, b in zip(of_faces, of_edges, strict=True))
        )
        """The pairs."""
        weight = QUARTER * area
        # The barrier by the distance, from its derivatives by the square of it.
        self._length = shape.thickness + GAP_RATIO * shape.distance
        by_square = barrier(self._length**2, shape)
        self._slope = 2 * self._length * by_square[1] * weight
        self._stiffness = (2 * by_square[1] + 4 * self._length**2 * by_square[2]) * weight

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.rows.offset)

    def gradient(self) -> Array:
        """Return the gradient of the model's terms for no way at all, by the vertices (V, 3) [N]."""
        rows, out = self.rows, np.zeros((self._count, 3))
        push = self._slope + self._stiffness * (rows.offset - self._length)
        each = (push[:, None] * rows.coefficients)[:, :, None] * rows.normal[:, None, :]
        sums.add_gradients(rows.points, each, out)
        return out

    def blocks(self) -> Blocks:
        """Return the Hessian of the model's terms: vertices of rows and columns, and blocks [N/m]."""
        rows = self.rows
        c, n = rows.coefficients, rows.normal
        weights = self._stiffness[:, None, None] * c[:, :, None] * c[:, None, :]
        each = weights[:, :, :, None, None] * (n[:, None, None, :, None] * n[:, None, None, None, :])
        first, second = np.repeat(rows.points, 4, axis=1), np.tile(rows.points, 4)
        return first.ravel(), second.ravel(), each.reshape(-1, 3, 3)


def _empty(count: int) -> ImpactRows:
    """Return room for rows."""
    return ImpactRows(
        np.empty((count, 4), np.int64), np.empty((count, 4)), np.empty((count, 3)), np.empty(count)
    )
