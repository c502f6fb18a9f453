"""Contacts at one moment: which pairs are near enough, their energy, gradient and Hessian."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import Array
from ...compute import run
from .collision_mesh import Candidates, CollisionMesh
from .kernels import barrier, friction, pairs, sums
from .kernels.barrier import POINT_EDGE, BarrierShape, Contacts
from .kernels.friction import Slides

__all__ = ["Blocks", "ContactSet", "FrictionSet", "block_pattern", "summed_blocks"]

# ratio: edges are nearly parallel if |u x v|^2 is below this, times the squares of their lengths at rest.
PARALLEL_RATIO = 1e-3
CONTACTS_PER_THREAD, CHEAP_PER_THREAD = 128, 4096

Blocks = tuple[NDArray[np.int64], NDArray[np.int64], Array]
"""Vertices of rows (B,) and columns (B,), and blocks (B, 3, 3) of a matrix."""


class ContactSet:
    """The pairs in contact, with the vertices at given positions.

    Parameters
    ----------
    mesh : CollisionMesh
        The collision mesh.
    x : (V, 3)
        The vertices [m].
    candidates : Candidates
        The pairs to choose from.
    reach : float
        The distance within which pairs are in contact [m].
    """

    def __init__(self, mesh: CollisionMesh, x: Array, candidates: Candidates, reach: float) -> None:
        self.x = x
        by_face, by_edge = mesh.distances(x, candidates, reach)
        near = (
            candidates.faces[by_face < reach],
            candidates.edges[by_edge < reach],
            mesh.above[mesh.heights(x) < reach],
        )
        kinds = of_faces, of_edges, of_planes = [_empty(len(each)) for each in near]
        (faces, edges, above), grain, arrays = near, CHEAP_PER_THREAD, mesh.arrays
        run(pairs.face_contacts, len(faces), grain, x, arrays, faces, of_faces)
        run(pairs.edge_contacts, len(edges), grain, x, arrays, edges, PARALLEL_RATIO, of_edges)
        run(pairs.plane_contacts, len(above), grain, x, arrays, mesh.planes, above, of_planes)
        every = Contacts(*map(np.concatenate, zip(*kinds, strict=True)))
        self.contacts = _merged(every, len(x))
        """The contacts. Points, and points and edges, that several pairs share are one contact."""

    def __len__(self) -> int:
        """Return the number of contacts."""
        return len(self.contacts.kind)

    @property
    def distances(self) -> Array:
        """The distance of the surfaces of each contact (K,) [m]."""
        return np.asarray(np.sqrt(self.contacts.squared) - self.contacts.radius)

    def value(self, shape: BarrierShape) -> float:
        """Return the energy of the barrier [J]."""
        out = np.empty(len(self))
        run(barrier.values, len(self), CHEAP_PER_THREAD, self.x, self.contacts, shape, out)
        return float(out.sum())

    def add_gradient(self, shape: BarrierShape, out: Array) -> None:
        """Add the gradient of the energy to `out` (V, 3) [N]."""
        each = np.empty((len(self), 4, 3))
        run(barrier.gradients, len(self), CHEAP_PER_THREAD, self.x, self.contacts, shape, each)
        sums.add_gradients(self.contacts.points, each, out)

    def hessians(self, shape: BarrierShape, out: Array, *, project: bool) -> None:
        """Fill in the Hessian (K, 12, 12) of each contact [N/m]; with `project` it is made semidefinite."""
        run(barrier.hessians, len(self), CONTACTS_PER_THREAD, self.x, self.contacts, shape, project, out)


class FrictionSet:
    """Friction with the normal forces and tangent planes of one moment.

    Parameters
    ----------
    met : ContactSet
        The contacts of that moment.
    shape : BarrierShape
        The barrier.
    coefficient : float or (K,)
        The coefficient of friction, of all contacts or of each [1].
    slip : float
        The sliding speed below which surfaces count as sticking [m/s].
    slope : float
        The derivative of velocities by positions [1/s].
    drift : (3,) or (K, 3)
        How far the surface of turning balls and capsules goes in the step, beside their centre or axis [m].
    """

    def __init__(
        self,
        met: ContactSet,
        shape: BarrierShape,
        coefficient: ArrayLike,
        slip: float,
        slope: float,
        drift: ArrayLike = (0.0, 0.0, 0.0),
    ) -> None:
        contacts, count = met.contacts, len(met)
        normal, pressure = np.empty((count, 3)), np.empty(count)
        each = np.full(count, coefficient, np.float64)
        run(friction.lag, count, CHEAP_PER_THREAD, contacts, shape, each, normal, pressure)
        rubs = pressure > 0.0
        self.slides = Slides(
            contacts.points[rubs],
            contacts.coefficients[rubs],
            normal[rubs],
            np.full((count, 3), drift, np.float64)[rubs],
            pressure[rubs],
            float(slip),
            float(slope),
        )

    def __len__(self) -> int:
        """Return the number of contacts with friction."""
        return len(self.slides.points)

    def value(self, x: Array, reference: Array) -> float:
        """Return the energy at x, with velocities slope * (x - reference), all of them (V, 3) [J]."""
        out = np.empty(len(self))
        run(friction.slide_values, len(self), CHEAP_PER_THREAD, x, reference, self.slides, out)
        return float(out.sum())

    def add_gradient(self, x: Array, reference: Array, out: Array) -> None:
        """Add the gradient of the energy to `out` (V, 3) [N]."""
        each = np.empty((len(self), 4, 3))
        run(friction.slide_gradients, len(self), CHEAP_PER_THREAD, x, reference, self.slides, each)
        sums.add_gradients(self.slides.points, each, out)

    def hessians(self, x: Array, reference: Array, out: Array) -> None:
        """Fill in the Hessian (K, 12, 12) of each contact [N/m], which is semidefinite."""
        run(friction.slide_hessians, len(self), CONTACTS_PER_THREAD, x, reference, self.slides, out)


def _empty(count: int) -> Contacts:
    """Return room for contacts."""
    return Contacts(
        np.empty(count, np.int64),
        np.empty((count, 4), np.int64),
        np.empty((count, 4)),
        np.empty((count, 3)),
        np.empty(count),
        np.empty(count),
        np.empty(count, np.int64),
        np.empty(count),
        np.empty(count),
    )


def _merged(contacts: Contacts, vertices: int) -> Contacts:
    """Return contacts of which those of the same points, or the same point and edge, are one.

    Their weights are summed up. The order only depends on which contacts there are.
    """
    plain = contacts.kind <= POINT_EDGE
    shared = np.flatnonzero(plain)
    if not len(shared):
        return contacts
    points = contacts.points[shared]
    # The ends of an edge are told by one number each; contacts of points have -1 for the second end.
    order = np.lexsort((points[:, 2], points[:, 0] * vertices + points[:, 1]))
    ranked = points[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (ranked[1:, :3] != ranked[:-1, :3]).any(1)
    first = np.flatnonzero(new)
    weight = np.add.reduceat(contacts.weight[shared][order], first)
    kept = np.concatenate([shared[order[first]], np.flatnonzero(~plain)])
    out = Contacts(*(field[kept] for field in contacts))
    out.weight[: len(first)] = weight
    return out


def summed_blocks(points: NDArray[np.int64], hessians: Array, count: int) -> Blocks:
    """Return the summed Hessians (K, 12, 12) of contacts with points (K, 4), of `count` vertices."""
    pairs = sums.block_pairs(points, count)
    upper = np.empty((len(pairs.row), 3, 3))
    run(sums.sum_blocks, len(upper), CHEAP_PER_THREAD, pairs, hessians, upper)
    aside = pairs.row != pairs.column
    return (
        *_both_ways(pairs.row, pairs.column),
        np.concatenate([upper, np.swapaxes(upper[aside], 1, 2)]),
    )


def block_pattern(points: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the vertices of rows (B,) and columns (B,) of the blocks of `summed_blocks`."""
    pairs = sums.block_pairs(points, count)
    return _both_ways(pairs.row, pairs.column)


def _both_ways(
    row: NDArray[np.int64], column: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns of an upper triangle, followed by those of the lower one."""
    aside = row != column
    return np.concatenate([row, column[aside]]), np.concatenate([column, row[aside]])
