"""The interface that glue, linear weights and embeddings share: points bound to other points."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import bsr_array, csr_array

from ..checks import Array, as_integers, as_reals, require_finite
from ..errors import InputError
from ..procrustes import Groups
from ..procrustes.groups import runs

__all__ = ["Binding", "BoundPose", "bound_rows", "check_targets", "merged_groups", "rows_product"]


class Binding(ABC):
    """T points whose positions are functions of N parent points.

    Every method takes the current positions x (N, d) of the parents. To ask for several things at
    the same positions, take ``pose = binding.at(x)`` and ask the pose: its frames are fitted once.
    Positions, velocities, accelerations and forces may come for many poses at once, x (..., N, d).
    """

    point_count: int
    """N, the number of points among which the parents are."""
    targets: Array
    """Rest positions of the bound points (T, d)."""

    @property
    @abstractmethod
    def parents(self) -> Groups:
        """The parents of each bound point, rows of x."""

    @abstractmethod
    def at(self, x: ArrayLike, *, previous: ArrayLike | None = None) -> "BoundPose":
        """Return the binding with its parents at given positions.

        Parameters
        ----------
        x : (..., N, d)
            Positions of the parents [m].
        previous : (..., T, d, d), optional
            Rotations of the frame before, to which an undetermined spin is pulled, as in `fit_rigid`.

        Returns
        -------
        BoundPose
        """

    def evaluate_into(
        self, x: Array, rows: NDArray[np.int64], *, previous: "BoundPose | None" = None
    ) -> "BoundPose":
        """Return the binding with its parents at x (N or more, 3), and write the bound points to `rows` of x.

        Solvers call it: x is float64, contiguous and has been checked, `previous` is a pose of this binding.
        """
        before = None if previous is None else previous.rotations
        pose = self.at(x[: self.point_count], previous=before)
        x[rows] = pose.positions
        return pose

    @property
    def curvature_pattern(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The row pointers (N + 1,) and columns of the blocks of second derivatives: none where it is linear.

        Solvers read it; they take an embedding part by part.
        """
        return np.zeros(self.point_count + 1, np.int64), np.empty(0, np.int64)

    @abstractmethod
    def take(self, rows: ArrayLike) -> "Binding":
        """Return the binding of some of the targets alone, by their numbers."""

    def __len__(self) -> int:
        """Number of bound points."""
        return len(self.targets)

    @property
    def dimension(self) -> int:
        """The dimension d, 2 or 3."""
        return int(self.targets.shape[1])

    def positions(self, x: ArrayLike) -> Array:
        """Return where the bound points are (T, d) [m], for parents at x (N, d)."""
        return self.at(x).positions

    def velocities(self, x: ArrayLike, v: ArrayLike) -> Array:
        """Return the velocities J v (T, d) [m/s], for velocities v (N, d) of the parents at x."""
        return self.at(x).velocities(v)

    def accelerations(self, x: ArrayLike, v: ArrayLike, a: ArrayLike) -> Array:
        """Return the accelerations J a + D2[v, v] (T, d) [m/s^2]; the second term is of rotating frames."""
        return self.at(x).accelerations(v, a)

    def transfer_forces(self, x: ArrayLike, f: ArrayLike) -> Array:
        """Return the forces J^T f on the parents (N, d) [N], for forces f (T, d) on the bound points."""
        return self.at(x).transfer_forces(f)

    def jacobian(self, x: ArrayLike, *, out: bsr_array | None = None) -> bsr_array:
        """Return J (d T, d N), sparse, in blocks; `out`, an earlier result, is given the new values."""
        return self.at(x).jacobian(out=out)

    def hessian(self, x: ArrayLike, f: ArrayLike) -> bsr_array:
        """Return the second derivative of sum f . positions (d N, d N), sparse, for Newton's method."""
        return self.at(x).hessian(f)

    def effective_mass(self, x: ArrayLike, mass: ArrayLike) -> Array:
        """Return lower bounds (T,) on the inertia of bound points [kg], given the parents' masses (N,)."""
        return self.at(x).effective_mass(mass)

    def time_step(self, x: ArrayLike, mass: ArrayLike, stiffness: ArrayLike) -> Array:
        """Return time steps (T,) [s] that keep springs stable; see :meth:`BoundPose.time_step`."""
        return self.at(x).time_step(mass, stiffness)

    @cached_property
    def block_pattern(self) -> tuple[Array, Array]:
        """The indices and row pointers of J in blocks, in the type of whole number that scipy prefers."""
        groups = self.parents
        empty = np.empty((len(groups.indices), 1, 1))
        pattern = bsr_array((empty, groups.indices, groups.offsets), shape=(len(self), self.point_count))
        return pattern.indices, pattern.indptr


@dataclass(frozen=True, eq=False)
class BoundPose(ABC):
    """A binding with its parents at given positions; see :class:`Binding` for what each name means.

    Results have the leading shape of the poses where there are many.

    Attributes
    ----------
    binding : Binding
        The binding.
    """

    binding: Binding

    @property
    @abstractmethod
    def leading(self) -> tuple[int, ...]:
        """The shape of the poses, () for a single one."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The type of the results."""

    @property
    @abstractmethod
    def positions(self) -> Array:
        """Where the bound points are (T, d)."""

    @property
    @abstractmethod
    def rotations(self) -> Array:
        """The rotation of the frame of each bound point from rest (T, d, d)."""

    @property
    @abstractmethod
    def degenerate(self) -> Array:
        """Whether the parents leave a frame undetermined (T,), bool."""

    @property
    def spread(self) -> Array:
        """How much is left of the width of the parents (T,): 1 at rest, 0 where they have collapsed.

        Bindings that need no frame do not collapse, and have 1.
        """
        return np.ones(len(self.binding))

    @property
    @abstractmethod
    def blocks(self) -> Array:
        """The blocks d position / d parent (E, d, d), in the order of the entries of `binding.parents`."""

    @property
    @abstractmethod
    def reach(self) -> Array:
        """The largest singular value of each of the blocks (E,): how far a parent moves the bound point."""

    @abstractmethod
    def velocities(self, v: ArrayLike) -> Array:
        """Return the velocities J v of the bound points (T, d)."""

    @abstractmethod
    def accelerations(self, v: ArrayLike, a: ArrayLike) -> Array:
        """Return the accelerations J a + D2[v, v] of the bound points (T, d)."""

    def transfer_forces(self, f: ArrayLike) -> Array:
        """Return the forces J^T f on the parents (N, d)."""
        out = np.zeros((*self.leading, self.binding.point_count, self.binding.dimension), self.dtype)
        self.add_transferred_forces(self._per_target("f", f), out)
        return out

    @abstractmethod
    def add_transferred_forces(self, f: Array, out: Array) -> None:
        """Add J^T f to `out` (N, d), of forces that have been checked."""

    def pull_back(self, f: Array, rows: NDArray[np.int64]) -> Array:
        """Move forces f (N or more, d) from the bound points, its `rows`, to the parents, in place.

        Return the forces that were on the bound points (T, d). Solvers call it: f has been checked.
        """
        load = f[rows]
        f[rows] = 0.0
        self.add_transferred_forces(load, f[: self.binding.point_count])
        return load

    @abstractmethod
    def hessian(self, f: ArrayLike) -> bsr_array:
        """Return the second derivative of sum f . positions (d N, d N)."""

    def write_hessian(self, f: Array, out: Array) -> None:
        """Write the blocks of `hessian`, row by row, to `out`, flat. Solvers call it: f has been checked."""
        out[:] = self.hessian(f).data.ravel()

    def jacobian(self, *, out: bsr_array | None = None) -> bsr_array:
        """Return J (d T, d N)."""
        self._require_one_pose()
        binding, d = self.binding, self.binding.dimension
        shape = (d * len(binding), d * binding.point_count)
        indices, indptr = binding.block_pattern
        if out is None:
            blocks = np.empty((len(indices), d, d), self.dtype)
            self._fill_blocks(blocks)
            # Copies: scipy sorts and prunes in place, and the pattern is shared.
            return bsr_array((blocks, indices.copy(), indptr.copy()), shape=shape)
        same = isinstance(out, bsr_array) and out.shape == shape and out.data.shape == (len(indices), d, d)
        same = same and out.data.dtype == self.dtype and out.data.flags.carray
        if not (same and np.array_equal(out.indices, indices) and np.array_equal(out.indptr, indptr)):
            raise InputError("out must be a Jacobian that this binding returned before")
        self._fill_blocks(out.data)
        return out

    def _fill_blocks(self, out: Array) -> None:
        """Write the blocks into `out`."""
        out[...] = self.blocks

    def _require_one_pose(self) -> None:
        if self.leading:
            raise InputError(f"x must be one pose for a matrix, got {self.leading} of them")

    def _per_parent(self, name: str, value: ArrayLike) -> Array:
        """Return one row per parent and pose."""
        return self._rows(name, value, self.binding.point_count, "parent")

    def _per_target(self, name: str, value: ArrayLike) -> Array:
        """Return one row per target and pose."""
        return self._rows(name, value, len(self.binding), "target")

    def _rows(self, name: str, value: ArrayLike, count: int, what: str) -> Array:
        rows = bound_rows(name, value, count, self.binding.dimension, what)
        try:
            return np.broadcast_to(rows, (*self.leading, *rows.shape[-2:]))
        except ValueError:
            poses = f"the poses {self.leading} of x" if self.leading else "the one pose of x"
            raise InputError(f"{name} must be for {poses}, got shape {rows.shape}") from None

    def effective_mass(self, mass: ArrayLike) -> Array:
        """Return the effective masses 1 / sum (reach^2 / m) over the parents (T,) [kg]; `mass` (N,)."""
        parents = self.binding.parents
        share = self.reach**2 / self._masses(mass)[parents.indices]
        return np.asarray(1 / np.add.reduceat(share, parents.offsets[:-1]))

    def time_step(self, mass: ArrayLike, stiffness: ArrayLike) -> Array:
        """Return time steps (T,) [s] for undamped springs from the bound points to fixed points.

        A symplectic integrator is stable at the least of them, with all the springs at once: parents
        that several springs share count for less in each. A bound point with parents of its own has
        2 sqrt(effective mass / stiffness). The stiffness of the object itself comes on top.

        Parameters
        ----------
        mass : (N,)
            Masses of the parents [kg].
        stiffness : float or (T,)
            Stiffness of the springs [N/m].
        """
        k = as_reals("stiffness", stiffness)
        require_finite("stiffness", k)
        if not (k > 0).all() or k.shape not in ((), (len(self.binding),)):
            raise InputError(
                f"stiffness must be one positive number, or one for each of {len(self.binding)} targets, "
                f"got shape {k.shape}" + (f" and least value {k.min()}" if k.size else "")
            )
        parents, masses = self.binding.parents, self._masses(mass)
        per_entry = np.broadcast_to(k, len(self.binding))[parents.group_of] * self.reach
        # Each spring is given a share of its parents' mass, by how strongly it pulls at them.
        pull = np.bincount(parents.indices, per_entry, minlength=self.binding.point_count)
        share = self.reach * pull[parents.indices] / masses[parents.indices]
        return np.asarray(2 / np.sqrt(np.add.reduceat(share, parents.offsets[:-1])))

    def _masses(self, mass: ArrayLike) -> Array:
        masses, count = as_reals("mass", mass), self.binding.point_count
        if masses.shape != (count,):
            raise InputError(f"mass must have shape ({count},), one number per parent, got {masses.shape}")
        require_finite("mass", masses)
        if not (masses > 0).all():
            raise InputError(f"mass must be positive, got {masses.min()} at index {masses.argmin()}")
        return masses


def check_targets(rows: ArrayLike, count: int) -> NDArray[np.int64]:
    """Return numbers of targets, or raise unless they are some of `count`."""
    chosen = as_integers("rows", rows)
    if not len(chosen) or chosen.min() < 0 or chosen.max() >= count:
        wrong = "none" if not len(chosen) else chosen.min() if chosen.min() < 0 else chosen.max()
        raise InputError(f"rows must name some of the {count} targets, got {wrong}")
    return chosen


def bound_rows(name: str, value: ArrayLike, count: int, dimension: int, what: str) -> Array:
    """Return one finite row per point, (..., count, dimension), or raise."""
    given = as_reals(name, value)
    if given.shape[-2:] != (count, dimension):
        expected = f"({count}, {dimension})"
        raise InputError(f"{name} must have shape {expected}, one row per {what}, got shape {given.shape}")
    require_finite(name, given)
    return given


def merged_groups(parts: Sequence[tuple[NDArray[np.int64], Groups]]) -> Groups:
    """Return groups made apart, each with the places where its groups belong, as one."""
    place = np.concatenate([rows for rows, _ in parts])
    sizes = np.concatenate([groups.sizes for _, groups in parts])
    indices = np.concatenate([groups.indices for _, groups in parts])
    order = np.argsort(place)
    starts, sizes = (np.cumsum(sizes) - sizes)[order], sizes[order]
    return Groups(np.concatenate([[0], np.cumsum(sizes)]), indices[runs(starts, sizes)])


def rows_product(matrix: csr_array, rows: Array) -> Array:
    """Return matrix @ rows for rows (..., n, d)."""
    if rows.ndim == 2:
        return np.asarray(matrix @ rows)
    flat = np.moveaxis(rows, -2, 0).reshape(rows.shape[-2], -1)
    tail = (*rows.shape[:-2], rows.shape[-1])
    return np.ascontiguousarray(np.moveaxis((matrix @ flat).reshape(-1, *tail), 0, -2))
