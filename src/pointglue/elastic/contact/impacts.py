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
from .kernels.barrier import BarrierShape
from .kernels.ccd import ImpactLimits
from .kernels.impacts import Expansion, ImpactRows

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
        planes, above = mesh.planes, mesh.above
        every = of_faces, of_edges, of_planes = [_empty(len(pairs)) for pairs in (*candidates, above)]
        faces, edges = candidates
        run(impacts.face_rows, len(faces), grain, way, arrays, faces, limits, of_faces)
        run(impacts.edge_rows, len(edges), grain, way, arrays, edges, limits, of_edges)
        run(impacts.plane_rows, len(above), grain, way, arrays, planes, above, limits, of_planes)
        met = [ImpactRows(*(each[np.isfinite(rows.offset)] for each in rows)) for rows in every]
        self.rows = ImpactRows(*map(np.concatenate, zip(*met, strict=True)))
        """The pairs."""
        self._barrier = Expansion(*np.empty((3, len(self.rows.offset))))
        gap = GAP_RATIO * shape.distance
        run(impacts.expand, len(self.rows.offset), grain, self.rows, shape, gap, self._barrier)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.rows.offset)

    def gradient(self) -> Array:
        """Return the gradient of the model's terms for no way at all, by the vertices (V, 3) [N]."""
        rows, out = self.rows, np.zeros((self._count, 3))
        push = self._barrier.slope + self._barrier.stiffness * (rows.offset - self._barrier.length)
        each = (push[:, None] * rows.coefficients)[:, :, None] * rows.normal[:, None, :]
        sums.add_gradients(rows.points, each, out)
        return out

    def blocks(self) -> Blocks:
        """Return the Hessian of the model's terms: vertices of rows and columns, and blocks [N/m]."""
        rows = self.rows
        c, n = rows.coefficients, rows.normal
        weights = self._barrier.stiffness[:, None, None] * c[:, :, None] * c[:, None, :]
        each = weights[:, :, :, None, None] * (n[:, None, None, :, None] * n[:, None, None, None, :])
        first, second = np.repeat(rows.points, 4, axis=1), np.tile(rows.points, 4)
        return first.ravel(), second.ravel(), each.reshape(-1, 3, 3)


def _empty(count: int) -> ImpactRows:
    """Return room for rows."""
    return ImpactRows(
        np.empty((count, 4), np.int64), np.empty((count, 4)), np.empty((count, 3)), *np.empty((3, count))
    )
