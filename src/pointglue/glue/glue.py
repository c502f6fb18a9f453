"""Points that follow a deforming object through the fitted frames of a few of its points."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import bsr_array, csr_array

from ..checks import Array, as_reals, require_finite
from ..compute import run
from ..errors import DegenerateFitError, InputError
from ..procrustes import Groups, RestShape, RigidFit
from ..procrustes import kernels as fits
from ..procrustes.fit import for_kernel
from ..procrustes.groups import runs
from ..procrustes.matrices import GRAIN, OnDegenerate, checked_policy, least_d, singular_values
from ..procrustes.records import BlockLayout, FitArrays, PointEntries
from ..procrustes.space import cross_matrices, matrices_to_space, vectors_to_space
from . import kernels
from .binding import Binding, BoundPose, bound_rows, check_targets, rows_product
from .parents import on_line, rest_moments

__all__ = ["Glue", "GluePose"]

# Pairs of parents that are sorted at a time to sum up a Hessian, so that it takes no more than 300 MB.
MAX_PAIRS = 4_000_000


@dataclass(frozen=True, eq=False)
class Glue(Binding):
    """T targets bound to points of a deforming object, made by :func:`bind_glue`.

    A bound point has a frame as well as a position: a rigid ornament is one target at its centroid,
    rotated by ``glue.at(x).rotations``; torques on it go back with ``transfer_forces(f, torques)``.

    Attributes
    ----------
    shape : RestShape
        The parents of all targets at rest.
    targets : (T, d)
        Rest positions of the bound points [m].
    on_degenerate : {"raise", "clamp"}
    min_gap : float or None
        What happens when parents do not determine a frame, as in :func:`~pointglue.fit_rigid`.
    anchor : (E,), optional
        Weight of each entry of `parents` in the point that a target is attached to; by default that of the
        fit.
    """

    shape: RestShape
    targets: Array
    on_degenerate: OnDegenerate
    min_gap: float | None
    anchor: Array | None = None

    @property
    def point_count(self) -> int:  # type: ignore[override]
        """N, the number of points among which the parents are."""
        return self.shape.point_count

    @property
    def parents(self) -> Groups:
        """The parents of each target, rows of x."""
        return self.shape.groups

    @property
    def weights(self) -> Array:
        """The weight of each entry of `parents` (E,); those of a target sum to one."""
        return self.shape.weights

    def at(self, x: ArrayLike, *, previous: ArrayLike | None = None) -> "GluePose":
        """Return the frames of all targets with the parents at x; see :meth:`Binding.at`."""
        given = bound_rows("x", x, self.point_count, self.dimension, "parent")
        fit = self.shape.fit(given, on_degenerate="clamp", previous=previous, min_gap=self.min_gap)
        if self.on_degenerate == "raise" and fit.degenerate.any():
            collapsed = fit.degenerate & ~self._on_line_in(fit)
            if collapsed.any():
                raise DegenerateFitError(self._describe(fit, collapsed), int(np.argwhere(collapsed)[0][-1]))
        return self._kept(given, fit)

    def _on_line_in(self, fit: RigidFit) -> NDArray[np.bool_]:
        """Return which targets (..., T) are bound by a line of parents that has kept its direction."""
        if not self._on_line.any():
            return np.zeros(fit.batch_shape, np.bool_)
        at_rest = rest_moments(self.shape)[:, 0]
        return np.asarray(self._on_line & (fit.singular_values[..., 0] > fit.min_gap * at_rest))

    @cached_property
    def _on_line(self) -> NDArray[np.bool_]:
        """Which targets lie on the line of their parents (T,), and need no more than its direction."""
        return on_line(self.shape, self._fitted)

    def evaluate_into(
        self, x: Array, rows: NDArray[np.int64], *, previous: BoundPose | None = None
    ) -> BoundPose:
        """Return the frames of all targets with the parents at x, and write the targets to `rows` of x."""
        count = len(rows)
        R, A, G = np.empty((3, count, 9))
        fitted, status = FitArrays(R, np.empty((count, 3)), A), np.empty(count, np.uint8)
        out, threshold = kernels.PoseArrays(fitted, G, status), least_d(self._least_gap)
        run(kernels.fit_positions, count, GRAIN, self.shape.arrays, self._arms, threshold, rows, out, x)
        if status.any():  # some fits are to be resolved, or refused
            return super().evaluate_into(x, rows, previous=previous)
        if self._shift is not None:
            x[rows] += self._shift @ x[: self.point_count]
        shape, determined = self.shape, np.zeros(count, np.bool_)
        fit = RigidFit(shape, shape.batch_shape, x.dtype, self._least_gap, determined, fitted, G)
        return self._kept(x[: self.point_count], fit)

    @cached_property
    def _least_gap(self) -> float:
        """The least gap of fits to points of float64."""
        return checked_policy(self.on_degenerate, self.min_gap, self.shape.dtype)

    def _kept(self, x: Array, fit: RigidFit) -> "GluePose":
        # With anchors the positions are read again: a copy, since engines step their arrays in place.
        return GluePose(self, x if self.anchor is None else x.copy(), fit)

    def gap(self, x: ArrayLike) -> Array:
        """Return how well the parents at x determine each frame (T,): 0 free spin, 2 best."""
        given = bound_rows("x", x, self.point_count, self.dimension, "parent")
        return self.shape.fit(given, on_degenerate="clamp", min_gap=self.min_gap).gap

    def take(self, rows: ArrayLike) -> "Glue":
        """Return the glue of some of the targets alone, by their numbers."""
        chosen = check_targets(rows, len(self))
        anchor = None if self.anchor is None else self.anchor[self.parents.take(chosen)[1]]
        shape = self.shape.take(chosen)
        return Glue(shape, self.targets[chosen], self.on_degenerate, self.min_gap, anchor)

    @cached_property
    def _shift(self) -> csr_array | None:
        """C (T, N): a bound point is where the fit moves its target, plus C x, with rows that sum to 0.

        Attached to an anchor q = sum a x of its own, a point is at q + R (target - q at rest); attached to
        the centroid of the fit, sum w x, it is where the fit moves it. They differ by the sum of (a - w) x.
        """
        if self.anchor is None:
            return None
        entries = (self.anchor - self.weights, self.parents.indices, self.parents.offsets)
        return csr_array(entries, shape=(len(self), self.point_count))

    @cached_property
    def _fitted(self) -> Array:
        """The points that the fit transforms (T, d): the targets, less C times the rest positions."""
        if self._shift is None:
            return self.targets
        return np.asarray(self.targets - self._shift @ self.shape.rest)

    @cached_property
    def points_in_space(self) -> Array:
        """The same as rows of space (T, 1, 3), as kernels read them."""
        return for_kernel(vectors_to_space(self._fitted.astype(np.float64))[:, None])

    @cached_property
    def _arms(self) -> Array:
        """The vectors at rest (T, 3) from the parents' centroids to the points that the fit transforms."""
        return np.asarray(self.points_in_space[:, 0] - self.shape.arrays.centroids)

    @cached_property
    def _entries_of_parents(self) -> tuple[NDArray[np.int64], PointEntries]:
        """The points that are parents at all, and `RestShape.entries_of_points` of those alone."""
        starts, groups, q = self.shape.entries_of_points
        used = np.flatnonzero(np.diff(starts))
        return used, PointEntries(np.append(starts[used], starts[-1]), groups, q)

    def _describe(self, fit: RigidFit, collapsed: NDArray[np.bool_]) -> str:
        bad = np.argwhere(collapsed)
        *pose, k = (int(i) for i in bad[0])
        names = self.parents.indices[self.parents.offsets[k] : self.parents.offsets[k + 1]].tolist()
        where = f" in pose {pose}" if pose else ""
        return (
            f"the parents {names[:12]} of target {k} have collapsed{where} and determine no frame "
            f"(gap {fit.gap[tuple(bad[0])]:.2g}, least {fit.min_gap:.2g}; "
            f"{len(bad)} of {fit.degenerate.size} such). "
            f"Bind with on_degenerate='clamp' to hold the free spin and have them flagged."
        )

    @property
    def curvature_pattern(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The row pointers (N + 1,) and columns of the blocks that `GluePose.write_hessian` fills."""
        return self._hessian_pattern.indptr, self._hessian_pattern.columns

    @cached_property
    def _hessian_pattern(self) -> "_HessianPattern":
        """How the pairs of parents of all targets are summed up in rows and columns."""
        groups, count = self.parents, self.point_count
        sizes = groups.sizes[groups.group_of]  # of the group of each entry
        first = np.repeat(np.arange(len(sizes)), sizes)
        second = runs(groups.offsets[:-1][groups.group_of], sizes)
        upper = groups.indices[first] <= groups.indices[second]
        first, second = first[upper], second[upper]
        row, column = groups.indices[first], groups.indices[second]
        order = np.argsort(row * count + column, kind="stable")
        above, starts = np.unique((row * count + column)[order], return_index=True)
        mirrored = above % count * count + above // count
        places = np.union1d(above, mirrored)
        rows, columns = np.divmod(places, count)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))])
        # In the type of whole number that scipy prefers, or it would copy them on every use.
        dtype = np.int32 if len(order) < np.iinfo(np.int32).max else np.int64
        found = (
            np.append(starts, len(order)), first[order], second[order],
            np.searchsorted(places, above), np.searchsorted(places, mirrored), columns, indptr,
        )  # fmt: skip
        *pairs, columns, indptr = (np.asarray(each, dtype) for each in found)
        return _HessianPattern(kernels.HessianPairs(*pairs), columns, indptr)


@dataclass(frozen=True, eq=False)
class _HessianPattern:
    """How the blocks of a Hessian are summed, and where they stand."""

    pairs: kernels.HessianPairs
    columns: Array
    """Columns of the blocks of both triangles."""
    indptr: Array
    """Row pointers of the same."""


@dataclass(frozen=True, eq=False)
class GluePose(BoundPose):
    """Glue with its parents at given positions; see :class:`Binding` for what each name means.

    Attributes
    ----------
    binding : Glue
        The binding.
    x : (..., N, d)
        Positions of the points that hold the parents [m].
    fit : pointglue.procrustes.RigidFit
        The fits (..., T) of the parents of each target.
    """

    binding: Glue
    x: Array
    fit: RigidFit

    @property
    def leading(self) -> tuple[int, ...]:
        """The shape of the poses, () for a single one."""
        return self.fit.batch_shape[:-1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the results."""
        return self.fit.dtype

    @property
    def degenerate(self) -> Array:
        """Whether the parents leave a frame undetermined (T,), bool."""
        return self.fit.degenerate

    @property
    def rotations(self) -> Array:
        """The rotation of the frame of each target from rest (T, d, d)."""
        return self.fit.rotation

    @property
    def spread(self) -> Array:
        """How much is left of the width of the parents (T,), see `BoundPose.spread`.

        It is told by the singular values of the moment: across the longest axis, or along a line.
        """
        now, rest = self.fit.singular_values, rest_moments(self.binding.shape)
        across = now[..., 1:].sum(-1) / np.maximum(rest[:, 1:].sum(1), 1e-300)
        along = now[..., 0] / np.maximum(rest[:, 0], 1e-300)
        return np.where(self.binding._on_line, along, np.minimum(across, along))

    @cached_property
    def positions(self) -> Array:
        """Where the bound points are (T, d)."""
        binding, fit = self.binding, self.fit
        R, t, _ = fit.arrays
        out, centroids = np.empty((len(R), 1, 3), fit.dtype), binding.shape.arrays.centroids
        run(fits.transform, len(out), GRAIN, centroids, R, t, binding.points_in_space, out)
        return self._with_shift(out.reshape(*fit.batch_shape, 3)[..., : binding.dimension], self.x)

    def velocities(self, v: ArrayLike) -> Array:
        """Return the velocities J v of the bound points (T, d)."""
        rates = self._per_parent("v", v)
        return self._with_shift(self.fit.apply_jvp(self.binding._fitted[:, None], rates)[..., 0, :], rates)

    def angular_velocities(self, v: ArrayLike) -> Array:
        """Return the world-space angular velocities of the frames (T, 3), or (T,) in the plane [1/s]."""
        dR, _ = self.fit.jvp(self._per_parent("v", v))
        W = dR @ np.swapaxes(self.fit.rotation, -1, -2)
        if self.binding.dimension == 2:
            return np.asarray(W[..., 1, 0])
        return np.stack([W[..., 2, 1], W[..., 0, 2], W[..., 1, 0]], axis=-1)

    def accelerations(self, v: ArrayLike, a: ArrayLike) -> Array:
        """Return the accelerations J a + D2[v, v] of the bound points (T, d)."""
        rates = self._per_parent("v", v)
        rotational = self.fit.apply_second(self.binding._fitted[:, None], rates, rates)[..., 0, :]
        return np.asarray(self.velocities(self._per_parent("a", a)) + rotational)

    def transfer_forces(self, f: ArrayLike, torques: ArrayLike | None = None) -> Array:
        """Pull forces, and torques, on the bound points back to the parents.

        Parameters
        ----------
        f : (T, d)
            Forces on the bound points [N].
        torques : (T, 3) or (T,), optional
            Torques on their frames [N m]; one number each in the plane.

        Returns
        -------
        (N, d)
            Forces on the parents [N].
        """
        on_parents = super().transfer_forces(f)
        if torques is not None:
            on_parents += self.fit.vjp(self._spin_covector(torques))
        return on_parents

    def add_transferred_forces(self, f: Array, out: Array) -> None:
        """Add J^T f to `out` (N, d), of forces that have been checked."""
        binding, R, G = self.binding, self.fit.arrays.R, self.fit.compliances
        maps = np.empty((len(R), 12))
        run(kernels.covectors, len(maps), GRAIN, binding._arms, R, G, self._flat(f), maps)
        points, entries = binding._entries_of_parents
        shares = np.empty((len(maps) // len(binding), len(points), 3))
        every, count = out.reshape(len(shares), *out.shape[-2:]), shares.size // 3
        run(kernels.add_to_parents, count, 16384, entries, len(binding), maps, shares, points, every)
        if binding._shift is not None:
            out += rows_product(binding._shift.T, f)

    def _flat(self, f: Array) -> Array:
        """Return forces (..., T, d) as kernels read them."""
        return for_kernel(vectors_to_space(f).reshape(-1, 3).astype(np.float64, copy=False))

    @cached_property
    def blocks(self) -> Array:
        """The blocks d position / d parent (E, d, d), in the order of the entries of `binding.parents`."""
        blocks = np.empty((len(self.binding.weights), *self.binding.targets.shape[1:] * 2), self.fit.dtype)
        self._require_one_pose()
        self._fill_blocks(blocks)
        blocks.flags.writeable = False  # `reach` is of these
        return blocks

    def _fill_blocks(self, out: Array) -> None:
        binding, fit, d = self.binding, self.fit, self.binding.dimension
        rest, R, count = binding.shape.arrays, fit.arrays.R, len(out)
        blocks = out if d == 3 else np.empty((count, 3, 3), out.dtype)
        points, layout = binding.points_in_space, BlockLayout(rest.offsets, count, count)
        run(fits.jacobian, len(R), 1024, rest, R, fit.compliances, points, layout, blocks.reshape(-1, 9))
        if d == 2:
            out[...] = blocks[:, :2, :2]
        if self.binding._shift is not None:
            axis = np.arange(self.binding.dimension)
            out[:, axis, axis] += self.binding._shift.data[:, None]

    @cached_property
    def reach(self) -> Array:
        """The largest singular value of each of the blocks (E,)."""
        blocks = matrices_to_space(self.blocks.astype(np.float64, copy=False))
        return np.asarray(singular_values(blocks.reshape(-1, 9))[:, 0])

    def hessian(self, f: ArrayLike) -> bsr_array:
        """Return the second derivative of sum f . positions (d N, d N); see :meth:`Binding.hessian`."""
        self._require_one_pose()
        forces = self._per_target("f", f)
        pairs = np.cumsum(self.binding.parents.sizes**2)
        if pairs[-1] > MAX_PAIRS:
            # Some targets at a time: their pairs of parents take much more room than the result.
            parts = np.split(
                np.arange(len(pairs)), np.searchsorted(pairs, np.arange(MAX_PAIRS, pairs[-1], MAX_PAIRS))
            )
            chunks = (GluePose(self.binding.take(rows), self.x, self.fit.take(rows)).hessian(forces[rows])
                      for rows in parts if len(rows))  # fmt: skip
            total = next(chunks)
            for chunk in chunks:
                total = total + chunk
            return total
        d, count, pattern = self.binding.dimension, self.binding.point_count, self.binding._hessian_pattern
        blocks = np.empty((len(pattern.columns), 3, 3))
        self.write_hessian(forces, blocks.reshape(-1))
        cut = np.ascontiguousarray(blocks[:, :d, :d].astype(self.fit.dtype, copy=False))
        return bsr_array((cut, pattern.columns.copy(), pattern.indptr.copy()), shape=(d * count, d * count))

    def write_hessian(self, f: Array, out: Array) -> None:
        """Write the blocks of `hessian`, row by row, to `out`, flat; those of the plane in space."""
        binding, fit, pattern = self.binding, self.fit, self.binding._hessian_pattern
        terms = np.empty((len(binding.weights), kernels.TERMS))
        run(
            kernels.hessian_terms, len(fit.arrays.R), 256, binding.shape.arrays, binding._arms, fit.arrays,
            fit.compliances, self._flat(f), terms,
        )  # fmt: skip
        count = len(pattern.pairs.places)
        run(kernels.sum_hessian_pairs, count, 2048, pattern.pairs, terms, out.reshape(-1, 9))

    def _with_shift(self, transformed: Array, rows: Array) -> Array:
        shift = self.binding._shift
        return transformed if shift is None else transformed + rows_product(shift, rows)

    def _spin_covector(self, torques: ArrayLike) -> Array:
        """Return the covector of R whose power with dR = [w]x R is that of the torques with w."""
        given, count = as_reals("torques", torques), len(self.binding)
        expected = (count,) if self.binding.dimension == 2 else (count, 3)
        if given.shape[-len(expected) :] != expected:
            raise InputError(f"torques must have shape {expected}, one per target, got shape {given.shape}")
        require_finite("torques", given)
        d = self.binding.dimension
        halves = np.zeros((*given.shape[: given.ndim - len(expected) + 1], 3))
        halves[..., 2 if d == 2 else 0 :] = (given[..., None] if d == 2 else given) / 2
        return np.asarray(cross_matrices(halves)[..., :d, :d] @ self.fit.rotation)
