"""Rest shapes: what a fit needs to know before any pose arrives, computed once."""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, as_reals, check_rotations, require_finite
from ..compute import run
from ..errors import DegenerateFitError, InputError
from . import kernels, matrices
from .fit import RigidFit, for_kernel
from .groups import Groups
from .matrices import DEFAULT_MIN_GAP, OnDegenerate
from .records import FitArrays, PointEntries, RestArrays
from .rotation import DEGENERATE, NOT_FINITE
from .space import matrices_to_space, vectors_to_space

__all__ = ["RestShape", "fit_rigid"]

# How far R^T R of a previous rotation may be from the identity: it may come from rotations that have drifted.
PREVIOUS_TOLERANCE = 1e-3


class RestShape:
    """Rest positions and weights of one or many point sets, ready to be fitted to poses.

    Parameters
    ----------
    rest : (..., n, d) or (N, d)
        Rest positions, d = 2 or 3; (N, d) with `groups`.
    weights : (..., n) or (E,), optional
        Non-negative; with `groups` one per entry, since a point may weigh differently in different groups.
        Only their ratios within a set matter. By default all are equal.
    groups : Groups, optional
        Point sets of different sizes: group k consists of the rows
        ``groups.indices[groups.offsets[k] : groups.offsets[k + 1]]`` of the rest and of every pose.

    Attributes
    ----------
    dimension : int
        d, 2 or 3.
    batch_shape : tuple of int
        Shape of the sets: the leading shape, or (K,) with `groups`.
    groups : Groups
        The points of each set.
    point_count : int
        N, the number of points in all.
    rest : (N, d)
        Rest positions.
    arrays : RestArrays
        The same as kernels read it.

    Raises
    ------
    InputError
        If the shapes do not go together, a number is not finite, a weight is negative or those of a set are
        all zero.
    """

    def __init__(
        self, rest: ArrayLike, weights: ArrayLike | None = None, *, groups: Groups | None = None
    ) -> None:
        points = as_reals("rest", rest)
        _check_points("rest", points)
        if groups is not None and not isinstance(groups, Groups):
            raise InputError(
                f"groups must be Groups, e.g. Groups.from_lists(...), got {type(groups).__name__}"
            )
        require_finite("rest", points)
        self.dtype = points.dtype
        self.dimension = points.shape[-1]
        self.ragged = groups is not None
        if groups is None:
            count = points.shape[-2]
            raw = np.ones(count) if weights is None else as_reals("weights", weights)
            if raw.ndim < 1 or raw.shape[-1] != count:
                raise InputError(
                    f"weights must have one entry per point, shape (..., {count}), got shape {raw.shape}"
                )
            self.batch_shape = _broadcast("weights", raw.shape[:-1], "rest", points.shape[:-2])
            points = np.broadcast_to(points, (*self.batch_shape, count, self.dimension)).reshape(
                -1, self.dimension
            )
            raw = np.broadcast_to(raw, (*self.batch_shape, count)).reshape(-1)
            groups = Groups(np.arange(math.prod(self.batch_shape) + 1) * count)
        else:
            if points.ndim != 2:
                raise InputError(f"rest must have shape (N, d) with groups, got shape {points.shape}")
            if groups.indices.max() >= len(points):
                entry = int(groups.indices.argmax())
                raise InputError(
                    f"groups must index the {len(points)} rows of rest, "
                    f"got index {groups.indices[entry]} in group {groups.group_of[entry]}"
                )
            self.batch_shape = (len(groups),)
            raw = np.ones(len(groups.indices)) if weights is None else as_reals("weights", weights)
            if raw.shape != groups.indices.shape:
                raise InputError(
                    f"weights must have one number per entry of groups, shape {groups.indices.shape}, "
                    f"got shape {raw.shape}"
                )
        self.groups = groups
        self.point_count = len(points)
        self.rest = points.copy()
        weight = self._normalised(raw.astype(np.float64))[:, None]
        gathered = vectors_to_space(points[groups.indices].astype(np.float64))
        # Measured from each group's heaviest point: exact for shapes far from the origin, and not
        # disturbed by light points far from the others.
        heaviest = groups.largest(weight[:, 0])
        offsets = gathered - gathered[heaviest][groups.group_of]
        centroid = self._sum_over_groups(weight * offsets)
        offsets -= centroid[groups.group_of]
        self.arrays = RestArrays(
            groups.offsets,
            groups.indices,
            heads=groups.indices[heaviest],
            q=np.hstack([weight * offsets, weight]),
            centroids=gathered[heaviest] + centroid,
        )

    def _sum_over_groups(self, values: Array) -> Array:
        """Return sums over each group, column by column: NumPy adds only contiguous numbers in pairs."""
        columns = [
            np.add.reduceat(np.ascontiguousarray(column), self.groups.offsets[:-1]) for column in values.T
        ]
        return np.stack(columns, axis=-1)

    def _normalised(self, raw: Array) -> Array:
        """Return weights that sum to one in each group."""
        require_finite("weights", raw)
        if (raw < 0).any():
            entry = int(raw.argmin())
            raise InputError(f"weights must not be negative, got {raw[entry]} {self._place(entry)}")
        # By the largest first: their sum may overflow or underflow where their ratios do not.
        largest = np.maximum.reduceat(raw, self.groups.offsets[:-1])
        if (largest == 0).any():
            entry = int(self.groups.offsets[largest.argmin()])
            raise InputError(f"weights must not all be zero in one set, but they are {self._place(entry)}")
        scaled = raw / largest[self.groups.group_of]
        normalised: Array = scaled / np.add.reduceat(scaled, self.groups.offsets[:-1])[self.groups.group_of]
        return normalised

    def _place(self, entry: int) -> str:
        """Return where an entry stands in what the caller gave, for messages."""
        group = int(self.groups.group_of[entry])
        within = entry - int(self.groups.offsets[group])
        if self.ragged:
            return f"at entry {entry}, in group {group}"
        index = [int(i) for i in np.unravel_index(group, self.batch_shape)] if self.batch_shape else []
        return f"at index {[*index, within]}"

    @property
    def weights(self) -> Array:
        """The weight of each entry of `groups` (E,), normalised: those of a set sum to one."""
        return self.arrays.q[:, 3]

    def take(self, rows: NDArray[np.int64]) -> "RestShape":
        """Return the shape of some of the groups alone, by their numbers; the points stay as they are."""
        fewer = object.__new__(RestShape)
        fewer.dtype, fewer.dimension, fewer.ragged = self.dtype, self.dimension, True
        fewer.groups, entries = self.groups.take(rows)
        fewer.batch_shape = (len(fewer.groups),)
        fewer.point_count, fewer.rest = self.point_count, self.rest
        _, _, heads, q, centroids = self.arrays
        groups = fewer.groups
        fewer.arrays = RestArrays(groups.offsets, groups.indices, heads[rows], q[entries], centroids[rows])
        return fewer

    @classmethod
    def joined(cls, shapes: "Sequence[RestShape]") -> "RestShape":
        """Return the groups of several shapes over the same points as one shape, each at rest as it was.

        `rest` is that of the first: points may rest elsewhere in the groups of another.
        """
        first, whole = shapes[0], object.__new__(cls)
        sizes = np.concatenate([shape.groups.sizes for shape in shapes])
        indices = np.concatenate([shape.groups.indices for shape in shapes])
        whole.dtype, whole.dimension, whole.ragged = first.dtype, first.dimension, True
        whole.groups = Groups(np.concatenate([[0], np.cumsum(sizes)]), indices)
        whole.batch_shape = (len(whole.groups),)
        whole.point_count, whole.rest = first.point_count, first.rest
        heads, q, centroids = (
            np.concatenate([getattr(shape.arrays, name) for shape in shapes])
            for name in ("heads", "q", "centroids")
        )
        whole.arrays = RestArrays(whole.groups.offsets, whole.groups.indices, heads, q, centroids)
        return whole

    @cached_property
    def entries_of_points(self) -> PointEntries:
        """The entries sorted by point, to pull gradients back to points."""
        starts, entries = self.groups.entries_of_points(self.point_count)
        return PointEntries(starts, self.groups.group_of[entries], self.arrays.q[entries])

    def _expanded(self, shape: tuple[int, ...]) -> "RestShape":
        """Return this shape repeated to a larger batch shape, for poses that broadcast against it."""
        count = self.point_count // math.prod(self.batch_shape)
        larger = object.__new__(RestShape)
        larger.dtype, larger.dimension, larger.ragged = self.dtype, self.dimension, False
        larger.batch_shape = shape
        larger.groups = Groups(np.arange(math.prod(shape) + 1) * count)
        larger.point_count = math.prod(shape) * count

        def repeat(values: Array, *tail: int) -> Array:
            """Return values (batch, *tail), the first of the tail merged into the batch."""
            full: Array = np.broadcast_to(values.reshape(*self.batch_shape, *tail), (*shape, *tail))
            return full.reshape(-1, *tail[1:])

        larger.rest = repeat(self.rest, count, self.dimension)
        offsets = larger.groups.offsets
        larger.arrays = RestArrays(
            offsets,
            larger.groups.indices,
            heads=repeat(self.arrays.heads - self.groups.offsets[:-1]) + offsets[:-1],
            q=repeat(self.arrays.q, count, 4),
            centroids=repeat(self.arrays.centroids[:, None], 1, 3),
        )
        return larger

    def fit(
        self,
        points: ArrayLike,
        *,
        on_degenerate: OnDegenerate = "raise",
        previous: ArrayLike | None = None,
        min_gap: float | None = None,
    ) -> RigidFit:
        """Fit this shape to one or many poses.

        Parameters
        ----------
        points : (..., n, d) or (..., N, d)
            Poses; leading shapes broadcast, so one rest shape meets many poses.
        on_degenerate : {"raise", "clamp"}
        previous : (..., d, d), optional
        min_gap : float, optional
            What to do where the points do not determine a rotation, as in :func:`fit_rigid`.

        Returns
        -------
        RigidFit

        Raises
        ------
        InputError
            If the shape is not that of the rest, or a number is not finite.
        DegenerateFitError
            If a rotation is not determined and `on_degenerate` is "raise".
        """
        posed = as_reals("points", points)
        _check_points("points", posed)
        count = self.point_count if self.ragged else self.point_count // math.prod(self.batch_shape)
        if posed.shape[-2:] != (count, self.dimension):
            raise InputError(
                f"points must have shape (..., {count}, {self.dimension}) like rest, got shape {posed.shape}"
            )
        min_gap = matrices.checked_policy(on_degenerate, min_gap, self.dtype, posed.dtype)
        shape = self
        if self.ragged:
            batch_shape = (*posed.shape[:-2], *self.batch_shape)
        else:
            batch_shape = _broadcast("points", posed.shape[:-2], "rest", self.batch_shape)
            if batch_shape[len(batch_shape) - len(self.batch_shape) :] != self.batch_shape:
                shape = self._expanded(batch_shape)
            posed = np.broadcast_to(posed, (*batch_shape, count, self.dimension))
        size = math.prod(batch_shape)
        flat = for_kernel(vectors_to_space(posed.reshape(-1, shape.point_count, self.dimension)))
        R, t, A = np.empty((size, 9)), np.empty((size, 3)), np.empty((size, 9))
        out, status = FitArrays(R, t, A), np.empty(size, np.uint8)
        planar, least_d = self.dimension == 2, matrices.least_d(min_gap)
        run(kernels.fit, size, matrices.GRAIN, shape.arrays, flat, planar, least_d, out, status)
        before = _previous(previous, batch_shape, self.dimension)
        matrices.resolve_rotations(A, before, min_gap, R, status)
        if (status == NOT_FINITE).any():
            require_finite("points", posed)
            raise InputError("points and rest are too large: the moments of their coordinates overflow")
        fit = RigidFit(
            rest=shape,
            batch_shape=batch_shape,
            dtype=np.result_type(self.dtype, posed.dtype),
            min_gap=min_gap,
            degenerate=(status == DEGENERATE).reshape(batch_shape),
            arrays=out,
        )
        if on_degenerate == "raise" and fit.degenerate.any():
            raise DegenerateFitError(_describe(fit))
        return fit


def fit_rigid(
    rest: ArrayLike,
    points: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    groups: Groups | None = None,
    on_degenerate: OnDegenerate = "raise",
    previous: ArrayLike | None = None,
    min_gap: float | None = None,
) -> RigidFit:
    """Fit the rotation R and translation that bring `rest` closest to `points`, with their derivatives.

    The fit minimises ``sum_i w_i |R rest_i + translation - points_i|^2`` over proper rotations, in two or
    three dimensions, for any number of point sets at once. To fit one rest shape again and again, make a
    :class:`RestShape` once and call its ``fit``.

    Parameters
    ----------
    rest : (..., n, d)
        Rest positions, d = 2 or 3.
    points : (..., n, d)
        Current positions; leading shapes broadcast, so one rest shape meets many poses.
    weights : (..., n), optional
        Non-negative; only their ratios matter. By default all are equal.
    groups : Groups, optional
        Point sets of different sizes. Then `rest` is (N, d), `points` (..., N, d), `weights` (E,), one per
        entry of the groups, and the fits have shape (..., K).
    on_degenerate : {"raise", "clamp"}
        What to do when the points do not determine the rotation (``gap < min_gap``): raise a
        :class:`~pointglue.errors.DegenerateFitError`, or pull the undetermined spin towards `previous`, let
        its derivative fade to zero, and flag the fit in `degenerate`.
    previous : (..., d, d), optional
        Rotations of the frame before, used by "clamp"; by default the identity.
    min_gap : float, optional
        The least ``gap = (s2 + s3) / s1`` (2D: ``(s1 + s2) / s1``) that counts as determined; 1e-8 by
        default, 1e-6 where rest or points are float32.

    Returns
    -------
    RigidFit
        The rotations (..., d, d) and translations (..., d), with their derivatives and conditioning.

    Raises
    ------
    InputError
        If the shapes do not go together, or a number is not finite.
    DegenerateFitError
        If a rotation is not determined and `on_degenerate` is "raise".

    Examples
    --------
    >>> import numpy as np
    >>> rest = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> fit = fit_rigid(rest, rest + [0.0, 2.0, 0.0])
    >>> fit.translation.round(6).tolist()
    [0.0, 2.0, 0.0]
    """
    shape = RestShape(rest, weights, groups=groups)
    return shape.fit(points, on_degenerate=on_degenerate, previous=previous, min_gap=min_gap)


def _check_points(name: str, points: Array) -> None:
    if points.ndim < 2 or points.shape[-1] not in (2, 3):
        raise InputError(f"{name} must have shape (..., n, 3) or (..., n, 2), got shape {points.shape}")
    if 0 in points.shape:
        raise InputError(f"{name} must hold at least one point, got shape {points.shape}")


def _broadcast(
    name: str, shape: tuple[int, ...], other: str, other_shape: tuple[int, ...]
) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(shape, other_shape)
    except ValueError as error:
        raise InputError(
            f"{name} and {other} must have leading shapes that broadcast, got {shape} and {other_shape}"
        ) from error


def _previous(previous: ArrayLike | None, batch_shape: tuple[int, ...], dimension: int) -> Array:
    """Return previous rotations as rows of nine, one for all or one per fit."""
    if previous is None:
        return np.eye(3).reshape(1, 9)
    given = as_reals("previous", previous)
    if given.shape[-2:] != (dimension, dimension):
        raise InputError(
            f"previous must be rotations of shape (..., {dimension}, {dimension}), got shape {given.shape}"
        )
    if given.size == 0:
        raise InputError(f"previous must hold at least one rotation, got shape {given.shape}")
    # More lenient than others: they are made rotations to the last digit below.
    given = check_rotations("previous", given, tolerance=PREVIOUS_TOLERANCE)
    if given.ndim > 2:
        if _broadcast("previous", given.shape[:-2], "the fits", batch_shape) != batch_shape:
            raise InputError(f"previous must broadcast to the fits {batch_shape}, got shape {given.shape}")
        given = np.broadcast_to(given, (*batch_shape, dimension, dimension))
    rows = matrices_to_space(given, zz=1.0).reshape(-1, 9)
    return matrices.nearest_rotations(rows, np.eye(3).reshape(1, 9), DEFAULT_MIN_GAP)[0]


def _describe(fit: RigidFit) -> str:
    """Return which fit is degenerate, why, and what can be done."""
    bad = np.argwhere(fit.degenerate)
    first = tuple(int(i) for i in bad[0])
    largest, *others = fit.singular_values[first]
    if largest == 0.0:
        reason, advice = "its points, or those of its rest shape, coincide or average out", "Spread them out"
    elif fit.rest.dimension == 3 and others[0] < 1e-3 * largest:
        reason, advice = "its points lie on a line", "Add points off the line"
    else:
        reason, advice = (
            "its points are mirrored so that several rotations fit equally well",
            "Turn them back",
        )
    name = f"fit {list(first)}" if first else "the fit"
    return (
        f"{name} does not determine a rotation: {reason} (gap {fit.gap[first]:.2g}, least {fit.min_gap:.2g}; "
        f"{len(bad)} of {fit.degenerate.size} such). {advice}, "
        f"or pass on_degenerate='clamp' to hold the free spin."
    )
