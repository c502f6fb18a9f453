"""Rest shapes: what a fit needs to know before any pose arrives, worked out once."""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, as_reals, require_finite
from ..compute import run
from ..errors import DegenerateFitError, InputError
from . import kernels, matrices
from .fit import RigidFit, for_kernel, lift
from .groups import Groups
from .matrices import DEFAULT_MIN_GAP, OnDegenerate
from .rotation import DEGENERATE, NOT_FINITE

__all__ = ["RestShape", "fit_rigid"]


class RestShape:
    """Rest positions and weights of one or many point sets, ready to be fitted to poses.

    `rest` is (..., n, d) with d = 2 or 3, or with `groups` (N, d): then group k consists of rows
    ``groups.indices[groups.offsets[k] : groups.offsets[k + 1]]`` of the rest and of every pose.
    `weights` are non-negative, (..., n), or with `groups` one per entry (E,) since a point may weigh
    differently in different groups; only their ratios within a set matter. Default: all equal.
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
        gathered = lift(points[groups.indices].astype(np.float64))
        # Measured from each group's heaviest point: exact for shapes far from the origin, and not
        # disturbed by light points far from the others.
        heaviest = np.lexsort((-weight[:, 0], groups.group_of))[groups.offsets[:-1]]
        self._heads = groups.indices[heaviest]
        offsets = gathered - gathered[heaviest][groups.group_of]
        centre = self._sum_over_groups(weight * offsets)
        offsets -= centre[groups.group_of]
        self._q = np.hstack([weight * offsets, weight])  # see `kernels`
        self._centroid = gathered[heaviest] + centre

    def _sum_over_groups(self, values: Array) -> Array:
        """Sums over each group, column by column: only contiguous numbers does NumPy add in pairs."""
        columns = [
            np.add.reduceat(np.ascontiguousarray(column), self.groups.offsets[:-1]) for column in values.T
        ]
        return np.stack(columns, axis=-1)

    def _normalised(self, raw: Array) -> Array:
        """Weights that sum to one in each group."""
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
        """Where an entry stands in what the caller gave."""
        group = int(self.groups.group_of[entry])
        within = entry - int(self.groups.offsets[group])
        if self.ragged:
            return f"at entry {entry}, in group {group}"
        index = [int(i) for i in np.unravel_index(group, self.batch_shape)] if self.batch_shape else []
        return f"at index {[*index, within]}"

    @property
    def weights(self) -> Array:
        """Weight of each entry of `groups` (E,), normalised: those of a set sum to one."""
        return self._q[:, 3]

    def take(self, rows: NDArray[np.int64]) -> "RestShape":
        """The shape of some of the groups alone, by their numbers; the points stay as they are."""
        fewer = object.__new__(RestShape)
        fewer.dtype, fewer.dimension, fewer.ragged = self.dtype, self.dimension, True
        fewer.groups, entries = self.groups.take(rows)
        fewer.batch_shape = (len(fewer.groups),)
        fewer.point_count, fewer.rest = self.point_count, self.rest
        fewer._q, fewer._heads, fewer._centroid = self._q[entries], self._heads[rows], self._centroid[rows]
        return fewer

    @classmethod
    def joined(cls, shapes: "Sequence[RestShape]") -> "RestShape":
        """The groups of several shapes over the same points as one, each at rest as it was.

        `rest` is that of the first: points may rest elsewhere in the groups of another.
        """
        first, whole = shapes[0], object.__new__(cls)
        sizes = np.concatenate([shape.groups.sizes for shape in shapes])
        indices = np.concatenate([shape.groups.indices for shape in shapes])
        whole.dtype, whole.dimension, whole.ragged = first.dtype, first.dimension, True
        whole.groups = Groups(np.concatenate([[0], np.cumsum(sizes)]), indices)
        whole.batch_shape = (len(whole.groups),)
        whole.point_count, whole.rest = first.point_count, first.rest
        whole._q, whole._heads, whole._centroid = (
            np.concatenate([getattr(shape, name) for shape in shapes])
            for name in ("_q", "_heads", "_centroid")
        )
        return whole

    @cached_property
    def entries_of_points(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """The entries sorted by point, to bring gradients back to points.

        Those of point i are ``starts[i]`` to ``starts[i + 1]``; then the group of each, and its q.
        """
        starts, entries = self.groups.entries_of_points(self.point_count)
        return starts, self.groups.group_of[entries], self._q[entries]

    def _expanded(self, shape: tuple[int, ...]) -> "RestShape":
        """This shape repeated to a larger batch shape, for poses that broadcast against it."""
        count = self.point_count // math.prod(self.batch_shape)
        larger = object.__new__(RestShape)
        larger.dtype, larger.dimension, larger.ragged = self.dtype, self.dimension, False
        larger.batch_shape = shape
        larger.groups = Groups(np.arange(math.prod(shape) + 1) * count)
        larger.point_count = math.prod(shape) * count

        def repeat(values: Array, *tail: int) -> Array:
            """Values (batch, *tail), the first of the tail merged into the batch."""
            full: Array = np.broadcast_to(values.reshape(*self.batch_shape, *tail), (*shape, *tail))
            return full.reshape(-1, *tail[1:])

        larger.rest = repeat(self.rest, count, self.dimension)
        larger._q = repeat(self._q, count, 4)
        larger._heads = repeat(self._heads - self.groups.offsets[:-1]) + larger.groups.offsets[:-1]
        larger._centroid = repeat(self._centroid[:, None], 1, 3)
        return larger

    def fit(
        self,
        points: ArrayLike,
        *,
        on_degenerate: OnDegenerate = "raise",
        previous: ArrayLike | None = None,
        min_gap: float | None = None,
    ) -> RigidFit:
        """Fit this shape to one or many poses; see :func:`fit_rigid`."""
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
        flat = for_kernel(lift(posed.reshape(-1, shape.point_count, self.dimension)))
        R, t, A = np.empty((size, 9)), np.empty((size, 3)), np.empty((size, 9))
        status = np.empty(size, np.uint8)
        run(
            kernels.fit,
            size,
            matrices.GRAIN,
            flat,
            shape.groups.offsets,
            shape.groups.indices,
            shape._heads,
            shape._q,
            self.dimension == 2,
            matrices.least_d(min_gap),
            R,
            t,
            A,
            status,
        )
        matrices.settle(A, _previous(previous, batch_shape, self.dimension), min_gap, R, status)
        if (status == NOT_FINITE).any():
            require_finite("points", posed)
            raise InputError("points and rest are too large: the moments of their coordinates overflow")
        fit = RigidFit(
            rest=shape,
            batch_shape=batch_shape,
            dtype=np.result_type(self.dtype, posed.dtype),
            min_gap=min_gap,
            degenerate=(status == DEGENERATE).reshape(batch_shape),
            _R=R,
            _t=t,
            _A=A,
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
    """The rotation R and translation that carry `rest` closest to `points`, with their derivatives.

    Minimises ``sum_i w_i |R rest_i + translation - points_i|^2`` over proper rotations, in two or
    three dimensions, for any number of point sets at once.

    Args:
        rest: (..., n, d), d = 2 or 3.
        points: (..., n, d); leading shapes broadcast, so one rest shape meets many poses.
        weights: (..., n), non-negative; only ratios matter. Default: all equal.
        groups: point sets of different sizes. Then `rest` is (N, d), `points` (..., N, d), `weights`
            (E,), one per entry of the groups, and the fits have shape (..., K).
        on_degenerate: what to do when the points do not determine the rotation (``gap < min_gap``):
            "raise" a :class:`~pointglue.errors.DegenerateFitError`, or "clamp": draw the undetermined
            spin to `previous`, let its derivative fade to zero, and flag the fit in `degenerate`.
        previous: (..., d, d) rotations of the frame before, used by "clamp". Default: identity.
        min_gap: the least ``gap = (s2 + s3) / s1`` (2D: ``(s1 + s2) / s1``) that counts as determined;
            1e-8 by default, 1e-6 where rest or points are float32.

    To fit one rest shape again and again, make a :class:`RestShape` once and call its ``fit``.
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
    """Previous rotations as rows of nine, one for all or one per fit."""
    if previous is None:
        return np.eye(3).reshape(1, 9)
    given = as_reals("previous", previous).astype(np.float64)
    if given.shape[-2:] != (dimension, dimension):
        raise InputError(
            f"previous must be rotations of shape (..., {dimension}, {dimension}), got shape {given.shape}"
        )
    require_finite("previous", given)
    if given.size == 0:
        raise InputError(f"previous must hold at least one rotation, got shape {given.shape}")
    off = np.abs(np.swapaxes(given, -1, -2) @ given - np.eye(dimension)).max((-2, -1))
    off = np.where(np.linalg.det(given) < 0, np.inf, off)
    if (off > 1e-3).any():
        first = [int(i) for i in np.argwhere(off > 1e-3)[0]]
        raise InputError(
            f"previous must hold proper rotations, got a matrix at {first} that is none: {given[*first]}"
        )
    if given.ndim > 2:
        if _broadcast("previous", given.shape[:-2], "the fits", batch_shape) != batch_shape:
            raise InputError(f"previous must broadcast to the fits {batch_shape}, got shape {given.shape}")
        given = np.broadcast_to(given, (*batch_shape, dimension, dimension))
    full = np.zeros((*given.shape[:-2], 3, 3))
    full[..., 2, 2] = 1.0
    full[..., :dimension, :dimension] = given
    return matrices.nearest_rotations(full.reshape(-1, 9), np.eye(3).reshape(1, 9), DEFAULT_MIN_GAP)[0]


def _describe(fit: RigidFit) -> str:
    """Which fit is degenerate, why, and what can be done."""
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
