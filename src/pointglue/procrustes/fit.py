"""The result of a rigid fit, and its derivatives with respect to the fitted points."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, as_reals, require_finite
from ..compute import run
from ..errors import InputError
from . import curvature, kernels, matrices
from .records import BlockLayout, FitArrays, RotationArrays
from .space import vectors_to_space

if TYPE_CHECKING:
    from .rest import RestShape

__all__ = ["RigidFit"]


@dataclass(frozen=True, eq=False)
class RigidFit:
    """Best-fit rigid transforms ``points ~ rotation @ rest + translation``, never a reflection.

    They are made by :func:`fit_rigid` and :meth:`RestShape.fit`. Everything has the leading shape
    `batch_shape` of the fits. With groups of different sizes that shape ends in the number of groups K, and
    what dense point sets have per point, (..., n, d), stands per point of the flat list, (..., N, d); blocks
    stand per entry of the groups, (..., E, d, d). Derivatives are with respect to `points`; rest positions
    and weights are constants.

    Attributes
    ----------
    rest : RestShape
        The shape that was fitted.
    batch_shape : tuple of int
        The leading shape of all results.
    dtype : numpy.dtype
        The type of all results, float32 or float64.
    min_gap : float
        The least gap that counts as determined.
    degenerate : (...)
        Whether the points leave a rotation undetermined (bool); see `on_degenerate` of :func:`fit_rigid`.
    arrays : FitArrays
        The results as kernels read them.
    known_compliances : (n, 9), optional
        The spin compliances, where they are known already; see :attr:`compliances`.
    """

    rest: "RestShape"
    batch_shape: tuple[int, ...]
    dtype: np.dtype[Any]
    min_gap: float
    degenerate: Array
    arrays: FitArrays = field(repr=False)
    known_compliances: Array | None = field(repr=False, default=None)

    def _public(self, values: Array, *tail: int) -> Array:
        """Return flat results in the shape, dimension and dtype that the caller gave."""
        d = self.rest.dimension
        full = values.reshape(*self.batch_shape, *tail)
        cut = full[..., :d] if len(tail) == 1 else full[..., :d, :d]
        return cut.astype(self.dtype)

    @cached_property
    def rotation(self) -> Array:
        """The rotations R (..., d, d)."""
        return self._public(self.arrays.R, 3, 3)

    @cached_property
    def centroid(self) -> Array:
        """The weighted means of the points (..., d)."""
        return self._public(self.arrays.t, 3)

    @cached_property
    def translation(self) -> Array:
        """The translations (..., d): where the origin of the rest space goes."""
        return self._public(self.arrays.t - self._rotated_rest_centroid(self.arrays.R), 3)

    @cached_property
    def stretch(self) -> Array:
        """S = R^T A (..., d, d), symmetric, of the moment A = sum w (x - centroid) (rest - centroid)^T."""
        return self._public(self._stretches, 3, 3)

    @cached_property
    def singular_values(self) -> Array:
        """The singular values of the moment (..., d), descending; the last is negative if mirrored."""
        s = self._singular_values.reshape(*self.batch_shape, 3)
        # A fit in the plane has s1 a second time, in the direction out of the plane.
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
        return matrices.singular_values(self.arrays.A)

    @cached_property
    def _stretches(self) -> Array:
        """S of every fit, flat."""
        S = np.empty_like(self.arrays.R)
        run(kernels.stretches, len(S), 8192, self.arrays.R, self.arrays.A, S)
        return S

    @cached_property
    def compliances(self) -> Array:
        """The spin compliances G = (tr(S) I - S)^-1 of all fits, flat (n, 9), as kernels read them."""
        if self.known_compliances is not None:
            return self.known_compliances
        return matrices.spin_compliances(self.arrays.R, self.arrays.A, self.min_gap)

    @property
    def rotation_arrays(self) -> RotationArrays:
        """What the second derivatives of the rotations are made of, as kernels read it."""
        return RotationArrays(self.arrays.R, self._stretches, self.compliances)

    def with_constant_rotations(self, which: NDArray[np.bool_]) -> "RigidFit":
        """Return these fits with the rotations of some of them, (n,) of bool, taken as constants.

        Their derivatives are zero.
        """
        if not which.any():
            return self
        return replace(self, known_compliances=np.where(which[:, None], 0.0, self.compliances))

    def _rotated_rest_centroid(self, R: Array) -> Array:
        """Return R, or a derivative of it (flat), times the rest centroid of its group."""
        centroids = self.rest.arrays.centroids
        product: Array = np.einsum("fkij,kj->fki", R.reshape(-1, len(centroids), 3, 3), centroids)
        return product.reshape(-1, 3)

    def apply(self, p: ArrayLike) -> Array:
        """Transform points from the rest space to the current space.

        Parameters
        ----------
        p : (..., m, d) or (d,)
            Points of the rest space; the leading shape broadcasts to the fits.

        Returns
        -------
        (..., m, d) or (..., d)
            ``rotation @ p + translation``.
        """
        return self._transformed(p, self.arrays.R, self.arrays.t)

    def jvp(self, d_points: ArrayLike) -> tuple[Array, Array]:
        """Return the rates of the rotation and the translation when the points move.

        Parameters
        ----------
        d_points : (..., n, d)
            Rates of the points.

        Returns
        -------
        dR : (..., d, d)
        dtranslation : (..., d)
        """
        dR, dt = self._rates(d_points)
        return self._public(dR, 3, 3), self._public(dt - self._rotated_rest_centroid(dR), 3)

    def vjp(self, g_rotation: ArrayLike | None = None, g_translation: ArrayLike | None = None) -> Array:
        """Return the gradient by the points, given those by the rotation and the translation.

        It is the transpose of :meth:`jvp`: ``<vjp(gR, gt), d> = <gR, dR> + <gt, dtranslation>``.

        Parameters
        ----------
        g_rotation : (..., d, d), optional
        g_translation : (..., d), optional
            Gradients by the results, zero where they are not given.

        Returns
        -------
        (..., n, d)
        """
        gt = self._per_fit("g_translation", g_translation, 1)
        return self._gathered(self._rotation_derivatives(self._g_rotation(g_rotation, gt)), gt)

    def apply_jvp(self, p: ArrayLike, d_points: ArrayLike) -> Array:
        """Return the rates of ``apply(p)`` for rates `d_points`: :meth:`jacobian` times them."""
        return self._transformed(p, *self._rates(d_points))

    def apply_second(self, p: ArrayLike, d1: ArrayLike, d2: ArrayLike) -> Array:
        """Return the second derivative of ``apply(p)`` along the rates d1 and d2 of the points."""
        return self._transformed(p, self._second(d1, d2), np.zeros_like(self.arrays.t))

    def _rates(self, d_points: ArrayLike) -> tuple[Array, Array]:
        """Return the rates of R and of the centroids, flat."""
        rates = self._per_point("d_points", d_points)
        R, t, _ = self.arrays
        dR, dt = np.empty_like(R), np.empty_like(t)
        run(kernels.jvp, len(dR), 4096, self.rest.arrays, rates, R, self.compliances, dR, dt)
        return dR, dt

    def _rotation_derivatives(self, dA: Array) -> Array:
        """Return DR[dA] of every fit, flat; the map is its own transpose."""
        out = np.empty_like(dA)
        run(kernels.rotation_derivatives, len(out), 4096, self.arrays.R, self.compliances, dA, out)
        return out

    def _transformed(self, p: ArrayLike, R: Array, t: Array) -> Array:
        """Return R (p - rest centroid) + t, shaped like `apply`, for any R and t, such as their rates.

        Arms from the centroid, not from the origin, keep their digits wherever the shape is.
        """
        rows, single = self._rows("p", p)
        d, m = self.rest.dimension, rows.shape[1]
        out = np.empty((len(R), m, 3), self.dtype)
        run(kernels.transform, len(out), 1 + 65536 // m, self.rest.arrays.centroids, R, t, rows, out)
        result = out.reshape(*self.batch_shape, m, 3)[..., :d]
        return result[..., 0, :] if single else result

    def apply_vjp(self, p: ArrayLike, g: ArrayLike) -> Array:
        """Return the gradient of ``sum_j g_j . apply(p_j)`` by the points: J^T g with :meth:`jacobian` J.

        No matrix is formed.

        Parameters
        ----------
        p, g : (..., m, d) or (d,)
            Points of the rest space, and the gradients by where they go.

        Returns
        -------
        (..., n, d)
        """
        forces = self._rows("g", g)[0]
        m = max(forces.shape[1], self._rows("p", p)[0].shape[1])
        total = forces.sum(1) if forces.shape[1] == m else m * forces[:, 0]
        gA = self._rotation_derivatives(self._moment_of_forces(p, g))
        return self._gathered(gA, np.broadcast_to(total, self.arrays.t.shape))

    def jacobian(self, p: ArrayLike, *, out: Array | None = None) -> Array:
        """Return d apply(p) / d points in blocks.

        Parameters
        ----------
        p : (..., m, d) or (d,)
            Points of the rest space.
        out : array, optional
            Takes the result, and saves the half of the time that fresh memory costs a large batch.

        Returns
        -------
        (..., m, n, d, d) or (..., n, d, d)
            With groups (..., m, E, d, d): the axis of the groups is merged into that of their entries.
        """
        rows, single = self._rows("p", p)
        rest, d, m = self.rest, self.rest.dimension, rows.shape[1]
        offsets, K, E = rest.groups.offsets, len(rest.groups), len(rest.groups.indices)
        if rest.ragged:
            leading = (*self.batch_shape[:-1], m, E)
            layout = BlockLayout(offsets, m * E, E)
        else:
            leading = (*self.batch_shape, m, E // K)
            layout = BlockLayout(for_kernel(m * offsets), m * E, E // K)
        expected = (*(leading[:-2] + leading[-1:] if single else leading), d, d)
        matrices.check_out(out, expected, self.dtype)
        # In the plane the blocks are made in space and cut.
        in_place = out is not None and d == 3
        blocks = (
            out.reshape(-1, 9)
            if in_place and out is not None
            else np.empty((math.prod(leading), 9), self.dtype)
        )
        R = self.arrays.R
        run(kernels.jacobian, len(R), 1024, rest.arrays, R, self.compliances, rows, layout, blocks)
        result = blocks.reshape(*leading, 3, 3)[..., :d, :d].reshape(expected)
        if out is None:
            return result
        if not in_place:
            out[...] = result
        return out

    def second(self, d1: ArrayLike, d2: ArrayLike) -> tuple[Array, Array]:
        """Return the second derivative of the rotation and the translation along two rates; symmetric.

        Parameters
        ----------
        d1, d2 : (..., n, d)
            Rates of the points.

        Returns
        -------
        ddR : (..., d, d)
        ddtranslation : (..., d)
        """
        ddR = self._second(d1, d2)
        return self._public(ddR, 3, 3), self._public(-self._rotated_rest_centroid(ddR), 3)

    def _second(self, d1: ArrayLike, d2: ArrayLike) -> Array:
        """Return the second derivative of R, flat."""
        rates1, rates2 = self._per_point("d1", d1), self._per_point("d2", d2)
        ddR = np.empty_like(self.arrays.R)
        run(kernels.second, len(ddR), 2048, self.rest.arrays, rates1, rates2, self.rotation_arrays, ddR)
        return ddR

    def take(self, rows: NDArray[np.int64]) -> "RigidFit":
        """Return the fits of some of the groups of one pose, by their numbers."""
        return RigidFit(
            rest=self.rest.take(rows),
            batch_shape=(len(rows),),
            dtype=self.dtype,
            min_gap=self.min_gap,
            degenerate=self.degenerate[rows],
            arrays=FitArrays(*(array[rows] for array in self.arrays)),
            known_compliances=None if self.known_compliances is None else self.known_compliances[rows],
        )

    def hessian(self, p: ArrayLike, g: ArrayLike) -> Array:
        """Return the Hessian of ``sum_j g_j . apply(p_j)`` by the points, in blocks.

        Parameters
        ----------
        p, g : (..., m, d) or (d,)
            Points of the rest space, and the covectors that weigh where they go.

        Returns
        -------
        (..., n, n, d, d)
            Block (i, j) is the derivative by points i and j. With groups (..., B, d, d): the n_k x n_k blocks
            of group k row by row, one group after the other.
        """
        rest, d = self.rest, self.rest.dimension
        sizes = rest.groups.sizes
        block_offsets = np.concatenate([[0], np.cumsum(sizes * sizes)])
        count = len(self.arrays.R)
        blocks = np.empty((count // len(sizes), block_offsets[-1], 9))
        gR = self._moment_of_forces(p, g)
        offsets, q = rest.arrays.offsets, rest.arrays.q
        run(curvature.hessian, count, 256, offsets, block_offsets, q, self.rotation_arrays, gR, blocks)
        if rest.ragged:
            result = blocks.reshape(*self.batch_shape[:-1], -1, 3, 3)
        else:
            result = blocks.reshape(*self.batch_shape, sizes[0], sizes[0], 3, 3)
        return result[..., :d, :d].astype(self.dtype)

    def hessian_product(self, p: ArrayLike, g: ArrayLike, d_points: ArrayLike) -> Array:
        """Return :meth:`hessian` of (p, g) times `d_points`, without forming it; shaped like the points."""
        rates, gR = self._per_point("d_points", d_points), self._moment_of_forces(p, g)
        maps = np.empty_like(self.arrays.R)
        run(curvature.hessian_maps, len(maps), 2048, self.rest.arrays, rates, self.rotation_arrays, gR, maps)
        return self._gathered(maps, np.zeros_like(self.arrays.t))

    @property
    def _points_shape(self) -> tuple[int, ...]:
        """The shape of the points this is a fit to, leading shapes broadcast."""
        if self.rest.ragged:
            return (*self.batch_shape[:-1], self.rest.point_count, self.rest.dimension)
        return (*self.batch_shape, int(self.rest.groups.sizes[0]), self.rest.dimension)

    def _gathered(self, B: Array, b: Array) -> Array:
        """Return the sum over the entries of each point of [B | b] q."""
        rest = self.rest
        poses = len(B) // len(rest.groups)
        out = np.empty((poses, rest.point_count, 3), self.dtype)
        maps, count, groups = np.hstack([B, b]), poses * rest.point_count, len(rest.groups)
        run(kernels.gather_to_points, count, 16384, rest.entries_of_points, groups, maps, out)
        return out[..., : rest.dimension].reshape(self._points_shape)

    def _g_rotation(self, g_rotation: ArrayLike | None, g_translation: Array) -> Array:
        """Return the covector of R alone: translation = centroid - R rest_centroid depends on R too."""
        gR = self._per_fit("g_rotation", g_rotation, 2)
        centroids = self.rest.arrays.centroids
        rows = g_translation.reshape(-1, len(centroids), 3, 1)
        gR.reshape(-1, len(centroids), 3, 3)[...] -= rows * centroids[:, None, :]
        return gR

    def _moment_of_forces(self, p: ArrayLike, g: ArrayLike) -> Array:
        """Return sum_j g_j (p_j - rest centroid)^T (flat): the covector of R in sum_j g_j . apply(p_j)."""
        rows, forces = self._rows("p", p)[0], self._rows("g", g)[0]
        m = max(rows.shape[1], forces.shape[1])
        if {rows.shape[1], forces.shape[1]} - {1, m}:
            raise InputError(f"g must have as many rows as p, {rows.shape[1]}, got {forces.shape[1]}")
        centroids, count = self.rest.arrays.centroids, len(self.arrays.R)
        every = (count // len(centroids), len(centroids), m, 3)
        arms = np.broadcast_to(rows, (count, m, 3)).reshape(every) - centroids[:, None]
        moment: Array = np.swapaxes(np.broadcast_to(forces, (count, m, 3)), 1, 2) @ arms.reshape(-1, m, 3)
        return np.ascontiguousarray(moment).reshape(-1, 9)

    def _rows(self, name: str, p: ArrayLike) -> tuple[Array, bool]:
        """Return rows p, (n, m, 3) or (1, m, 3) for all fits, and whether p was a single point."""
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
        return for_kernel(vectors_to_space(rows).reshape(-1, rows.shape[-2], 3)), single

    def _per_point(self, name: str, values: ArrayLike) -> Array:
        """Return one vector per point, (poses, N, 3)."""
        given = as_reals(name, values)
        try:
            full = np.broadcast_to(given, self._points_shape)
        except ValueError as error:
            raise InputError(
                f"{name} must have the shape of points, {self._points_shape}, got {given.shape}"
            ) from error
        require_finite(name, given)
        return for_kernel(vectors_to_space(full.reshape(-1, self.rest.point_count, self.rest.dimension)))

    def _per_fit(self, name: str, values: ArrayLike | None, rank: int) -> Array:
        """Return one vector (rank 1) or matrix (rank 2) per fit, flat, in space; zero if not given."""
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


def for_kernel(array: Array) -> Array:
    """Return an array as kernels take their input: contiguous, and marked read-only whatever it was.

    Numba compiles a kernel anew for read-only arrays, so one of the two has to be the rule.
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
