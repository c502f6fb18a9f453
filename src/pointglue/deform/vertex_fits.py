"""The weighted fits of a deformation: at every vertex, the best rigid motion of the handles near it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import Array
from ..compute import run
from ..procrustes import matrices
from ..procrustes.fit import for_kernel
from ..procrustes.rotation import BLOCK, DEGENERATE
from ..procrustes.space import moments_to_space, vectors_to_space
from . import kernels
from .kernels import FitLimits, HandlePlaces, HandleWeights

__all__ = ["MIN_GAP", "PlaneFrames", "VertexFits"]

PlaneFrames = tuple[Array, Array]
"""The frames (3, 3) of a flat shape at rest and now: two axes of its plane and the normal, as columns."""

# Blocks of vertices worth a thread of their own, and blocks whose gradients are summed in one go.
GRAIN_BLOCKS = 16
PART_BLOCKS = 64
# Alternations between rotation and scale of damped vertices, at most.
MOST_ALTERNATIONS = 200
# Change of the scale below which an alternation has converged.
SCALE_TOLERANCE = 1e-15
# Handles are on a line if they are within about a millionth of its length: moments keep 16 digits here,
# so that a rotation is still known to 2e-4 there.
MIN_GAP = 1e-12
# Bound of the inverse sum of weights, since far handles of high fall-off have weights beyond any number.
LARGEST_INVERSE_WEIGHT = 1e150


class VertexFits:
    """The fits of all vertices of a shape to its handles: what the rest pose fixes, and their solution.

    See `kernels` for the formulas and symbols.

    Parameters
    ----------
    points : (V, d)
        The vertices at rest [m].
    handles : (H, d)
        The handles at rest [m].
    distances : (H, V), optional
        Distance of each vertex from each handle [m]; Euclidean if None.
    falloff : float
        The weight of a handle falls as distance^(-2 falloff).
    importance : (H,)
        Factors of the weights.
    second_moments : (H,)
        Weight of the orientation of each handle [m^2]; 0 for a point.
    stretch : float
        Vertices scale by factors within [1 - stretch, 1 / (1 - stretch)].
    damping : float
        Weight of the rotations of the previous frame [m^2].
    """

    def __init__(
        self,
        points: Array,
        handles: Array,
        *,
        distances: Array | None,
        falloff: float,
        importance: Array,
        second_moments: Array,
        stretch: float,
        damping: float,
    ) -> None:
        self.dimension = int(points.shape[1])
        self.damping = damping
        self.second_moments = second_moments if second_moments.any() else None
        """(H,), weights of the handles' orientations [m^2], None if there are none."""
        s = min(stretch, 1.0)
        self.limits = FitLimits(
            1.0 - s,
            1.0 / (1.0 - s) if s < 1.0 else np.inf,
            self.dimension == 2,
            matrices.least_d(MIN_GAP),
        )
        count = len(points)
        self._blocks = -(-count // BLOCK)
        rest = for_kernel(vectors_to_space(points))
        weights = HandleWeights(
            p=for_kernel(vectors_to_space(handles)),
            W=np.zeros((self._blocks, len(handles), BLOCK)),
            heads=np.empty(count, np.int64),
            share=np.empty(count),
            e=np.empty((count, 3)),
            spread=np.empty(count),
            inverse_others=np.empty(count),
            factor=np.empty(count),
            head_factor=np.empty(count),
            trace=np.empty(count),
            arms=np.empty((count, 3)),
        )
        distance = np.empty((0, 0)) if distances is None else distances
        run(
            kernels.compute_weights,
            self._blocks,
            GRAIN_BLOCKS,
            rest,
            for_kernel(distance),
            for_kernel(importance),
            falloff,
            weights,
        )
        heads, share = weights.heads, weights.share
        arms = rest - (weights.p[heads] + share[:, None] * weights.e)
        # Where the head is oriented, moments are over the sum of all weights, else without it.
        oriented = second_moments[heads] > 0
        factor = np.where(oriented, share, 1.0)
        head_factor = np.where(oriented, 1.0 - share, 0.0)
        trace = factor * weights.spread
        if self.second_moments is not None:
            others = np.zeros((self._blocks, BLOCK))
            for i in range(len(handles)):  # not a product of matrices, which sums a row by where it stands
                others += weights.W[:, i] * second_moments[i]
            others = others.reshape(-1)[:count]
            own = head_factor * second_moments[heads]
            trace += self.dimension * (factor * others + own)
        self.weights = weights._replace(factor=factor, head_factor=head_factor, trace=trace, arms=arms)
        self.damp = damping * factor * np.minimum(weights.inverse_others, LARGEST_INVERSE_WEIGHT)
        """(V,), weight of the previous rotation of each vertex, in the measure of the moments."""

    def moments(self, now: HandlePlaces, which: NDArray[np.int64] | None = None) -> tuple[Array, Array]:
        """Return A (n, 9) and q* - q_h (n, 3) of all vertices, or of the (padded) blocks `which`."""
        blocks = np.arange(self._blocks) if which is None else which
        A, shift = np.zeros((BLOCK * len(blocks), 9)), np.zeros((BLOCK * len(blocks), 3))
        run(kernels.moments, len(blocks), GRAIN_BLOCKS, blocks, self.weights, now, A, shift)
        count = len(self.damp)
        return (A[:count], shift[:count]) if which is None else (A, shift)

    def solve(
        self, A: Array, before: Array, rows: NDArray[np.int64], plane: PlaneFrames | None = None
    ) -> tuple[Array, Array, Array]:
        """Return rotations (n, 9), scales (n,) and which are degenerate (n,), of the vertices `rows`.

        A (n, 9) are their moments and `before` (n, 9) or (1, 9) their previous rotations. With `plane`,
        rotations take its frame at rest to the current one but for a turn about the normal.
        """
        low, high = self.limits.low, self.limits.high
        damp, trace = self.damp[rows, None], self.weights.trace[rows]
        previous = np.broadcast_to(before, A.shape)
        R, status = self._nearest(A + damp * previous, previous, plane)
        scale = np.ones(len(A))
        if low == high:
            return R, scale, status == DEGENERATE

        def best_scale(R: Array, some: Any) -> Array:
            turned = np.einsum("nj,nj->n", R, A[some])
            ratio = np.divide(turned, trace[some], out=np.ones_like(turned), where=trace[some] > 0)
            return np.asarray(np.clip(ratio, low, high))

        scale = best_scale(R, slice(None))
        # With damping, rotation and scale depend on each other: one after the other until both stay.
        open_rows = np.flatnonzero(self.damp[rows] > 0) if self.damping > 0 else np.empty(0, np.int64)
        for _ in range(MOST_ALTERNATIONS):
            if not len(open_rows):
                break
            old = scale[open_rows]
            some = previous[open_rows]
            R[open_rows], status[open_rows] = self._nearest(
                old[:, None] * A[open_rows] + damp[open_rows] * some, some, plane
            )
            scale[open_rows] = best_scale(R[open_rows], open_rows)
            open_rows = open_rows[np.abs(scale[open_rows] - old) > SCALE_TOLERANCE]
        return R, scale, status == DEGENERATE

    def positions(self, R: Array, scale: Array, q: Array, shift: Array, rows: Any = slice(None)) -> Array:
        """Return q* + scale R arm (n, 3) of the vertices `rows`, by default all."""
        turned = np.einsum("nij,nj->ni", R.reshape(-1, 3, 3), self.weights.arms[rows])
        return np.asarray(scale[:, None] * turned + q[self.weights.heads[rows]] + shift)

    def deform(self, now: HandlePlaces, before: Array, out: Array) -> None:
        """Write the positions of all vertices into `out` (V, 3); there is no damping.

        Vertices whose rotation the fast kernel leaves open are solved with their previous rotations.
        """
        status = np.empty(len(out), np.uint8)
        run(kernels.deform, self._blocks, GRAIN_BLOCKS, self.weights, now, self.limits, out, status)
        rows = np.flatnonzero(status)
        if not len(rows):
            return
        which = np.unique(rows // BLOCK)
        A, shift = self.moments(now, which)
        places = np.searchsorted(which, rows // BLOCK) * BLOCK + rows % BLOCK
        R, scale, _ = self.solve(A[places], before if len(before) == 1 else before[rows], rows)
        out[rows] = self.positions(R, scale, now.q, shift[places], rows)

    def pull_back(self, gA: Array, g: Array) -> Array:
        """Return gradients (H, 3) by the handles, given those by A (V, 9) and by the centroids q* (V, 3)."""
        gA = (self.weights.factor[:, None] * gA).reshape(-1, 9)
        parts = -(-self._blocks // PART_BLOCKS)
        sums = np.empty((parts, len(self.weights.p), 3))
        run(kernels.pull_back_moments, parts, 1, PART_BLOCKS, self.weights, gA, g, sums)
        return np.asarray(sums.sum(0))

    def in_plane(self, B: Array, plane: PlaneFrames | None = None) -> Array:
        """Return moments (n, 9) whose rotations stay in the plane, if this is a deformation of a plane."""
        if self.dimension == 2:
            B = moments_to_space(B.reshape(-1, 3, 3)[:, :2, :2]).reshape(-1, 9)
        elif plane is not None:
            rest, now = plane
            local = now.T @ B.reshape(-1, 3, 3) @ rest
            B = (now @ moments_to_space(local[:, :2, :2]) @ rest.T).reshape(-1, 9)
        return np.ascontiguousarray(B)

    def _nearest(self, B: Array, previous: Array, plane: PlaneFrames | None) -> tuple[Array, Array]:
        """Return the rotations (n, 9) nearest to B (n, 9), and their status (n,)."""
        return matrices.nearest_rotations(self.in_plane(B, plane), np.ascontiguousarray(previous), MIN_GAP)
