"""The result of a rigid fit, and its derivatives with respect to the fitted points."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, as_reals, require_finite
from ..compute import run
from ..errors import InputError
from . import curvature, kernels, matrices

if TYPE_CHECKING:
    from .rest import RestShape

__all__ = ["RigidFit"]


@dataclass(frozen=True, eq=False)
class RigidFit:
    """Best-fit rigid transforms: ``points ~ rotation @ rest + translation``, never a reflection.

    Made by :func:`fit_rigid`. Everything has the leading shape `batch_shape` of the fits. With groups
    of different sizes that shape ends in the number of groups K, and what dense point sets have per
    point, (..., n, d), stands per point of the flat list, (..., N, d); blocks stand per entry of the
    groups, (..., E, d, d).

    Derivatives are with respect to `points`; rest positions and weights are constants.
    """

    rest: "RestShape"
    batch_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    min_gap: float
    degenerate: Array
    """(...) bool: the points do not determine this rotation, see `on_degenerate`."""
    _R: Array = field(repr=False)
    _t: Array = field(repr=False)
    _A: Array = field(repr=False)
    _G: Array | None = field(repr=False, default=None)

    def _public(self, values: Array, *tail: int) -> Array:
        """Flat results in the shape, dimension and dtype that the caller gave."""
        d = self.rest.dimension
        full = values.reshape(*self.batch_shape, *tail)
        cut = full[..., :d] if len(tail) == 1 else full[..., :d, :d]
        return cut.astype(self.dtype)

    @cached_property
    def rotation(self) -> Array:
        """R (..., d, d)."""
        return self._public(self._R, 3, 3)

    @cached_property
    def centroid(self) -> Array:
        """Weighted mean of the points (..., d)."""
        return self._public(self._t, 3)

    @cached_property
    def translation(self) -> Array:
        """(..., d): where the origin of the rest space goes."""
        return self._public(self._t - self._rotated_rest_centroid(self._R), 3)

    @cached_property
    def stretch(self) -> Array:
        """S = R^T A (..., d, d), symmetric, of the moment A = sum w (x - centroid) (rest - centroid)^T."""
        return self._public(self._stretch, 3, 3)

    @cached_property
    def singular_values(self) -> Array:
        """Of the moment (..., d): descending, the smallest signed (negative: the points are mirrored)."""
        s = self._singular_values.reshape(*self.batch_shape, 3)
        # A fit in the plane carries s1 a second time, in the direction out of the plane.
        return s[..., 3 - self.rest.dimension :].astype(self.dtype)

    @cached_property
    def gap(self) -> Array:
        """(s2 + s3) / s1, in 2D (s1 + s2) / s1 (...): 0 free spin, 2 best; R is known to eps / gap."""
        s1 = self._singular_values[:, 3 - self.rest.dimension]  # see singular_values
        _, s2, s3 = self._singular_values.T
        gap: Array = np.divide(s2 + s3, s1, out=np.zeros_like(s1), where=s1 > 0.0)
        return gap.reshape(self.batch_shape).astype(self.dtype)

    @cached_property
    def _singular_values(self) -> Array:
        return matrices.singular_values(self._A)

    @cached_property
    def _stretch(self) -> Array:
        """S of every fit, flat."""
        S = np.empty_like(self._R)
        run(kernels.stretches, len(S), 8192, self._R, self._A, S)
        return S

    @cached_property
    def _compliance(self) -> Array:
        return self._G if self._G is not None else matrices.spin_compliances(self._R, self._A, self.min_gap)

    def _rotated_rest_centroid(self, R: Array) -> Array:
        """R, or a derivative of it (flat), times the rest centroid of its group."""
        centroids = self.rest._centroid
        product: Array = np.einsum("fkij,kj->fki", R.reshape(-1, len(centroids), 3, 3), centroids)
        return product.reshape(-1, 3)

    def apply(self, p: ArrayLike) -> Array:
        """Carry points p (..., m, d), or one point (d,), from the rest space to the current space."""
        return self._carried(p, self._R, self._t)

    def jvp(self, d_points: ArrayLike) -> tuple[Array, Array]:
        """Rates (dR, dtranslation) when the points move at rate `d_points`."""
        rates = self._per_point("d_points", d_points)
        dR, dt = np.empty_like(self._R), np.empty_like(self._t)
        run(kernels.jvp, len(dR), 4096, rates, *self._group_arrays, self._R, self._compliance, dR, dt)
        return self._public(dR, 3, 3), self._public(dt - self._rotated_rest_centroid(dR), 3)

    def vjp(self, g_rotation: ArrayLike | None = None, g_translation: ArrayLike | None = None) -> Array:
        """Gradient with respect to the points, given those with respect to R and translation.

        The transpose of :meth:`jvp`: ``<vjp(gR, gt), d> = <gR, dR> + <gt, dtranslation>``.
        """
        gt = self._per_fit("g_translation", g_translation, 1)
        gA = np.empty_like(self._R)
        run(kernels.turns, len(gA), 4096, self._R, self._compliance, self._g_rotation(g_rotation, gt), gA)
        return self._spread(gA, gt)

    def apply_jvp(self, p: ArrayLike, d_points: ArrayLike) -> Array:
        """Rates of ``apply(p)`` when the points move at rate `d_points`: :meth:`jacobian` times them."""
        rates = self._per_point("d_points", d_points)
        dR, dt = np.empty_like(self._R), np.empty_like(self._t)
        run(kernels.jvp, len(dR), 4096, rates, *self._group_arrays, self._R, self._compliance, dR, dt)
        return self._carried(p, dR, dt)

    def apply_second(self, p: ArrayLike, d1: ArrayLike, d2: ArrayLike) -> Array:
        """Second derivative of ``apply(p)`` along the rates d1 and d2 of the points."""
        return self._carried(p, self._second(d1, d2), np.zeros_like(self._t))

    def _carried(self, p: ArrayLike, R: Array, t: Array) -> Array:
        """R (p - rest centroid) + t, shaped like `apply`, for R and t that need not be of a rigid motion.

        Arms from the centroid, not from the origin, keep their digits wherever the shape is.
        """
        rows, single = self._rows("p", p)
        d, m = self.rest.dimension, rows.shape[1]
        out = np.empty((len(R), m, 3), self.dtype)
        run(kernels.carry, len(out), 1 + 65536 // m, self.rest._centroid, R, t, rows, out)
        result = out.reshape(*self.batch_shape, m, 3)[..., :d]
        return result[..., 0, :] if single else result

    def apply_vjp(self, p: ArrayLike, g: ArrayLike) -> Array:
        """Gradient of ``sum_j g_j . apply(p_j)`` by the points: :meth:`jacobian` transposed, times g.

        p and g are (..., m, d), or (d,) each. No matrix is formed.
        """
        forces = self._rows("g", g)[0]
        m = max(forces.shape[1], self._rows("p", p)[0].shape[1])
        total = forces.sum(1) if forces.shape[1] == m else m * forces[:, 0]
        gA = np.empty_like(self._R)
        run(kernels.turns, len(gA), 4096, self._R, self._compliance, self._moment_of_forces(p, g), gA)
        return self._spread(gA, np.broadcast_to(total, self._t.shape))

    def jacobian(self, p: ArrayLike, *, out: Array | None = None) -> Array:
        """d apply(p) / d points: blocks (..., m, n, d, d), or (..., n, d, d) for one point p (d,).

        With groups (..., m, E, d, d): the axis of the groups is merged into that of their entries.
        `out` takes the result, and saves the half of the time that fresh memory costs a large batch.
        """
        rows, single = self._rows("p", p)
        rest, d, m = self.rest, self.rest.dimension, rows.shape[1]
        K, E = len(rest.groups), len(rest._q)
        if rest.ragged:
            leading = (*self.batch_shape[:-1], m, E)
            place, pose_stride, point_stride = rest.groups.offsets, m * E, E
        else:
            leading = (*self.batch_shape, m, E // K)
            place, pose_stride, point_stride = m * rest.groups.offsets, m * E, E // K
        expected = (*(leading[:-2] + leading[-1:] if single else leading), d, d)
        matrices.check_out(out, expected, self.dtype)
        # In the plane the blocks are made in space and cut.
        in_place = out is not None and d == 3
        blocks = (
            out.reshape(-1, 9)
            if in_place and out is not None
            else np.empty((math.prod(leading), 9), self.dtype)
        )
        run(
            kernels.jacobian,
            len(self._R),
            1024,
            rest.groups.offsets,
            rest._q,
            rest._centroid,
            self._R,
            self._compliance,
            rows,
            for_kernel(place),
            pose_stride,
            point_stride,
            blocks,
        )
        result = blocks.reshape(*leading, 3, 3)[..., :d, :d].reshape(expected)
        if out is None:
            return result
        if not in_place:
            out[...] = result
        return out

    def second(self, d1: ArrayLike, d2: ArrayLike) -> tuple[Array, Array]:
        """Second derivative of (R, translation) along the rates d1 and d2 of the points; symmetric."""
        ddR = self._second(d1, d2)
        return self._public(ddR, 3, 3), self._public(-self._rotated_rest_centroid(ddR), 3)

    def _second(self, d1: ArrayLike, d2: ArrayLike) -> Array:
        """Second derivative of R, flat."""
        rates1, rates2 = self._per_point("d1", d1), self._per_point("d2", d2)
        ddR = np.empty_like(self._R)
        run(
            kernels.second,
            len(ddR),
            2048,
            rates1,
            rates2,
            *self._group_arrays,
            self._R,
            self._stretch,
            self._compliance,
            ddR,
        )
        return ddR

    def take(self, rows: NDArray[np.int64]) -> "RigidFit":
        """The fits of some of the groups of one pose, by their numbers."""
        return RigidFit(
            rest=self.rest.take(rows),
            batch_shape=(len(rows),),
            dtype=self.dtype,
            min_gap=self.min_gap,
            degenerate=self.degenerate[rows],
            _R=self._R[rows],
            _t=self._t[rows],
            _A=self._A[rows],
            _G=None if self._G is None else self._G[rows],
        )

    def hessian(self, p: ArrayLike, g: ArrayLike) -> Array:
        """Hessian of ``sum_j g_j . apply(p_j)`` by the points: blocks (..., n, n, d, d), rows i, columns j.

        p and g are (..., m, d), or (d,) each. With groups: (..., B, d, d), the n_k x n_k blocks of
        group k row by row, one group after the other.
        """
        rest, d = self.rest, self.rest.dimension
        sizes = rest.groups.sizes
        block_offsets = np.concatenate([[0], np.cumsum(sizes * sizes)])
        blocks = np.empty((len(self._R) // len(sizes), block_offsets[-1], 9))
        run(
            curvature.hessian,
            len(self._R),
            256,
            rest.groups.offsets,
            block_offsets,
            rest._q,
            self._R,
            self._stretch,
            self._compliance,
            self._moment_of_forces(p, g),
            blocks,
        )
        if rest.ragged:
            result = blocks.reshape(*self.batch_shape[:-1], -1, 3, 3)
        else:
            result = blocks.reshape(*self.batch_shape, sizes[0], sizes[0], 3, 3)
        return result[..., :d, :d].astype(self.dtype)

    def hessian_product(self, p: ArrayLike, g: ArrayLike, d_points: ArrayLike) -> Array:
        """:meth:`hessian` of (p, g) times `d_points`, without forming it; shaped like the points."""
        rates = self._per_point("d_points", d_points)
        maps = np.empty_like(self._R)
        run(
            curvature.hessian_maps,
            len(maps),
            2048,
            rates,
            *self._group_arrays,
            self._R,
            self._stretch,
            self._compliance,
            self._moment_of_forces(p, g),
            maps,
        )
        return self._spread(maps, np.zeros_like(self._t))

    @property
    def _group_arrays(self) -> tuple[Array, Array, Array]:
        return self.rest.groups.offsets, self.rest.groups.indices, self.rest._q

    @property
    def _points_shape(self) -> tuple[int, ...]:
        """Shape of the points this is a fit to, leading shapes broadcast."""
        if self.rest.ragged:
            return (*self.batch_shape[:-1], self.rest.point_count, self.rest.dimension)
        return (*self.batch_shape, int(self.rest.groups.sizes[0]), self.rest.dimension)

    def _spread(self, B: Array, b: Array) -> Array:
        """sum over entries of [B | b] q, per point."""
        rest = self.rest
        poses = len(self._R) // len(rest.groups)
        out = np.empty((poses, rest.point_count, 3), self.dtype)
        run(
            kernels.spread,
            poses * rest.point_count,
            16384,
            *rest.entries_of_points,
            len(rest.groups),
            np.hstack([B, b]),
            out,
        )
        return out[..., : rest.dimension].reshape(self._points_shape)

    def _g_rotation(self, g_rotation: ArrayLike | None, g_translation: Array) -> Array:
        """Covector of R alone: translation = centroid - R rest_centroid depends on R too."""
        gR = self._per_fit("g_rotation", g_rotation, 2)
        centroids = self.rest._centroid
        rows = g_translation.reshape(-1, len(centroids), 3, 1)
        gR.reshape(-1, len(centroids), 3, 3)[...] -= rows * centroids[:, None, :]
        return gR

    def _moment_of_forces(self, p: ArrayLike, g: ArrayLike) -> Array:
        """sum_j g_j (p_j - rest centroid)^T (flat): the covector of R in sum_j g_j . apply(p_j)."""
        rows, forces = self._rows("p", p)[0], self._rows("g", g)[0]
        m = max(rows.shape[1], forces.shape[1])
        if {rows.shape[1], forces.shape[1]} - {1, m}:
            raise InputError(f"g must have as many rows as p, {rows.shape[1]}, got {forces.shape[1]}")
        centroids = self.rest._centroid
        every = (len(self._R) // len(centroids), len(centroids), m, 3)
        arms = np.broadcast_to(rows, (len(self._R), m, 3)).reshape(every) - centroids[:, None]
        moment: Array = np.swapaxes(np.broadcast_to(forces, (len(self._R), m, 3)), 1, 2) @ arms.reshape(
            -1, m, 3
        )
        return np.ascontiguousarray(moment).reshape(-1, 9)

    def _rows(self, name: str, p: ArrayLike) -> tuple[Array, bool]:
        """Rows p for every fit, (n, m, 3) or (1, m, 3) for all alike; was it a single point?"""
        given = as_reals(name, p).astype(np.float64, copy=False)
        d = self.rest.dimension
        single = given.ndim == 1
        if given.ndim == 0 or given.shape[-1] != d or given.size == 0:
            raise InputError(f"{name} must have shape (..., m, {d}) or ({d},), got shape {given.shape}")
        require_finite(name, given)
        rows = given.reshape(-1, d) if given.ndim < 3 else given
        if rows.ndim > 2:
            try:
                rows = np.broadcast_to(rows, (*self.batch_shape, *rows.shape[-2:]))
            except ValueError as error:
                raise InputError(
                    f"{name} must have shape (..., m, {d}) with a leading shape that broadcasts to "
                    f"{self.batch_shape}, got shape {given.shape}"
                ) from error
        return for_kernel(lift(rows).reshape(-1, rows.shape[-2], 3)), single

    def _per_point(self, name: str, values: ArrayLike) -> Array:
        """One vector per point, (poses, N, 3)."""
        given = as_reals(name, values)
        try:
            full = np.broadcast_to(given, self._points_shape)
        except ValueError as error:
            raise InputError(
                f"{name} must have the shape of points, {self._points_shape}, got {given.shape}"
            ) from error
        require_finite(name, given)
        return for_kernel(lift(full.reshape(-1, self.rest.point_count, self.rest.dimension)))

    def _per_fit(self, name: str, values: ArrayLike | None, rank: int) -> Array:
        """One vector (rank 1) or matrix (rank 2) per fit, flat, padded with zeros; zero if not given."""
        d = self.rest.dimension
        full = np.zeros((*self.batch_shape, *(3,) * rank))
        if values is not None:
            given = as_reals(name, values)
            require_finite(name, given)
            expected = (*self.batch_shape, *(d,) * rank)
            try:
                wide = np.broadcast_to(given, expected)
            except ValueError as error:
                raise InputError(f"{name} must have shape {expected}, got {given.shape}") from error
            if rank == 1:
                full[..., :d] = wide
            else:
                full[..., :d, :d] = wide
        return full.reshape(math.prod(self.batch_shape), 3**rank)


def lift(array: Array) -> Array:
    """Vectors of the plane (..., 2) as vectors of space with z = 0; those of space as they are."""
    if array.shape[-1] == 3:
        return array
    lifted = np.zeros((*array.shape[:-1], 3), array.dtype)
    lifted[..., :2] = array
    return lifted


def for_kernel(array: Array) -> Array:
    """Input of a kernel: contiguous, and marked read-only whatever it was.

    Numba compiles a kernel anew for read-only arrays, so one of the two has to be the rule.
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
