"""Points at fixed weights of their parents: the classical binding, which serves inside a cage."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import bsr_array, csr_array

from ..checks import Array, as_array, as_integers, as_reals, require_finite
from ..errors import InputError
from ..geometry.simplices import barycentric, check_cells
from ..procrustes import Groups, RestShape
from .binding import Binding, BoundPose, bound_rows, check_targets, rows_product

__all__ = ["LinearBinding", "LinearPose", "bind_linear"]


@dataclass(frozen=True, eq=False)
class LinearBinding(Binding):
    """T points that are weighted sums of their parents, x_b = sum w_i x_i, made by :func:`bind_linear`.

    Weights that are negative, those of points outside their simplex, push parents apart when the point
    is pushed: use :func:`bind_glue` for those.

    Attributes
    ----------
    rest : (N, d)
        Rest positions of the points among which the parents are [m].
    targets : (T, d)
        Rest positions of the bound points [m].
    groups : Groups
        The parents of each target.
    weights : (E,)
        Weight of each entry of `groups`; those of a target sum to one.
    """

    rest: Array
    targets: Array
    groups: Groups
    weights: Array

    @property
    def parents(self) -> Groups:
        """The parents of each target, rows of x."""
        return self.groups

    @property
    def point_count(self) -> int:  # type: ignore[override]
        """N, the number of points among which the parents are."""
        return len(self.rest)

    @cached_property
    def matrix(self) -> csr_array:
        """The weights as a matrix (T, N)."""
        entries = (self.weights, self.groups.indices, self.groups.offsets)
        return csr_array(entries, shape=(len(self.groups), self.point_count))

    def at(self, x: ArrayLike, *, previous: ArrayLike | None = None) -> "LinearPose":
        """Return the binding with its parents at x; it needs no `previous` rotations."""
        # A copy: engines step their arrays in place.
        return LinearPose(self, bound_rows("x", x, self.point_count, self.dimension, "parent").copy())

    def take(self, rows: ArrayLike) -> "LinearBinding":
        """Return the binding of some of the targets alone, by their numbers."""
        chosen = check_targets(rows, len(self))
        groups, entries = self.parents.take(chosen)
        return LinearBinding(self.rest, self.targets[chosen], groups, self.weights[entries])


@dataclass(frozen=True, eq=False)
class LinearPose(BoundPose):
    """A linear binding with its parents at given positions; see :class:`Binding` for what each name means."""

    binding: LinearBinding
    x: Array

    @property
    def leading(self) -> tuple[int, ...]:
        """The shape of the poses, () for a single one."""
        return self.x.shape[:-2]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the results."""
        return np.result_type(self.binding.weights, self.x)

    @cached_property
    def positions(self) -> Array:
        """Where the bound points are (T, d)."""
        return rows_product(self.binding.matrix, self.x)

    @cached_property
    def rotations(self) -> Array:
        """The best-fit rotation of the parents from rest (T, d, d), near the identity if undetermined."""
        shape = RestShape(self.binding.rest, groups=self.binding.parents)
        return shape.fit(self.x, on_degenerate="clamp").rotation

    @property
    def degenerate(self) -> Array:
        """Whether a position is undetermined (T,), bool: none is, a weighted sum always has one."""
        return np.zeros((*self.x.shape[:-2], len(self.binding)), dtype=bool)

    @cached_property
    def blocks(self) -> Array:
        """The blocks w I of the Jacobian (E, d, d)."""
        return np.asarray(self.binding.weights[:, None, None] * np.eye(self.binding.dimension))

    @property
    def reach(self) -> Array:
        """The largest singular values |w| of the blocks (E,)."""
        return np.abs(self.binding.weights)

    def velocities(self, v: ArrayLike) -> Array:
        """Return the velocities J v of the bound points (T, d)."""
        return rows_product(self.binding.matrix, self._per_parent("v", v))

    def accelerations(self, v: ArrayLike, a: ArrayLike) -> Array:
        """Return the accelerations J a (T, d): weighted sums have no second derivative."""
        self._per_parent("v", v)
        return rows_product(self.binding.matrix, self._per_parent("a", a))

    def add_transferred_forces(self, f: Array, out: Array) -> None:
        """Add J^T f to `out` (N, d), of forces that have been checked."""
        out += rows_product(self.binding.matrix.T, f)

    def hessian(self, f: ArrayLike) -> bsr_array:
        """Return the second derivative (d N, d N), which is zero."""
        self._require_one_pose()
        self._per_target("f", f)
        d, size = self.binding.dimension, self.binding.dimension * self.binding.point_count
        return bsr_array((size, size), blocksize=(d, d))


def bind_linear(
    rest_points: ArrayLike, targets: ArrayLike, indices: ArrayLike, *, weights: ArrayLike | None = None
) -> LinearBinding:
    """Bind targets to weighted sums of their parents: the classical binding.

    Parameters
    ----------
    rest_points : (N, d)
        Points of the object at rest [m], d = 2 or 3.
    targets : (T, d)
        Rest positions of the points to bind [m].
    indices : (T, k)
        The parents of each target, rows of `rest_points`.
    weights : (T, k), optional
        Weights that sum to one in each row. By default they are the barycentric coordinates in the parents'
        simplex: a tetrahedron (k = 4) in space, or a triangle (k = 3), where a point off its plane is dropped
        onto it. Outside the simplex some are negative.

    Returns
    -------
    LinearBinding
        The binding of the T targets.

    Raises
    ------
    InputError
        If the shapes do not go together, a simplex is flat, or weights do not sum to one.
    """
    rest, bound = np.array(as_reals("rest_points", rest_points)), np.array(as_reals("targets", targets))
    if bound.ndim != 2 or not len(bound):
        raise InputError(f"targets must have shape (n, d), at least one row, got shape {bound.shape}")
    require_finite("targets", bound)
    count = len(bound)
    if weights is None:
        rest, cells = check_cells(rest, indices)
        if len(cells) != count or bound.shape[1] != rest.shape[1]:
            raise InputError(
                f"targets and indices must go together, one row of {rest.shape[1]} coordinates for each "
                f"row of parents, got {bound.shape} and {cells.shape}"
            )
        maps = barycentric(rest[cells])[:, : cells.shape[1]]
        values = np.einsum("tij,tj->ti", maps[:, :, :-1], bound) + maps[:, :, -1]
        if np.isnan(values).any():
            k = int(np.flatnonzero(np.isnan(values).any(1))[0])
            raise InputError(f"target {k} has no coordinates: its parents {cells[k].tolist()} are flat")
        return linear_from_rows(rest, bound, cells, values)
    cells, values = as_array("indices", indices), as_reals("weights", weights)
    require_finite("weights", values)
    if cells.ndim != 2 or len(cells) != count or values.shape != cells.shape:
        raise InputError(
            f"indices and weights must have shape ({count}, k), got {cells.shape} and {values.shape}"
        )
    require_finite("rest_points", rest)
    if rest.ndim != 2 or rest.shape[1] != bound.shape[1]:
        raise InputError(f"rest_points must have shape (n, {bound.shape[1]}), got shape {rest.shape}")
    if as_integers("indices", cells.ravel()).max(initial=0) >= len(rest):
        raise InputError(f"indices must name rows of the {len(rest)} rest_points, got {cells.max()}")
    if (np.diff(np.sort(cells, axis=1), axis=1) == 0).any():
        raise InputError("indices must not name a parent twice for one target")
    total = values.sum(1, keepdims=True)
    if not (np.abs(total - 1) < 1e-6).all():
        raise InputError(f"weights must sum to one in each row, got sums from {total.min()} to {total.max()}")
    return linear_from_rows(rest, bound, cells, values)


def linear_from_rows(rest: Array, targets: Array, cells: NDArray[np.int64], weights: Array) -> LinearBinding:
    """Return a linear binding of checked rows of parents (T, k) and their weights, sorted by parent."""
    order = np.argsort(cells, axis=1)
    cells, weights = np.take_along_axis(cells, order, 1), np.take_along_axis(weights, order, 1)
    groups = Groups(np.arange(len(cells) + 1) * cells.shape[1], cells.ravel())
    return LinearBinding(rest, targets, groups, weights.ravel())
