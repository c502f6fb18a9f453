"""What an energy of a deforming body is, and the base of those that are sums over small elements."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ...checks import Array, as_reals, require_finite
from ...compute import run
from ...errors import InputError
from ...procrustes import Groups
from ...procrustes.fit import for_kernel
from ...procrustes.matrices import check_out
from ..linalg.blocks import BlockPattern, Stencils, checked_stencils, stencil_sizes
from ..linalg.kernels import blocks as kernels

__all__ = ["Damped", "Elements", "Energy", "Predicting"]


class Energy(Protocol):
    """An energy (J) of points x (n, d): value, gradient and Hessian, and what a solver sums itself."""

    stencils: Stencils
    """The points that each element touches."""

    def value(self, x: ArrayLike) -> float:
        """Energy (J)."""

    def gradient(self, x: ArrayLike) -> Array:
        """Derivative by the points (n, d), in N: the force is its negative."""

    def hessian(self, x: ArrayLike, *, project: bool = False) -> csr_array:
        """Second derivative (d n, d n), in N/m; `project`: each element's part made positive semidefinite."""

    def elements(self, x: ArrayLike, *, project: bool = False, out: Array | None = None) -> Array:
        """The Hessians of the elements: (E, d k, d k), or for groups one after the other, flat."""


@runtime_checkable
class Damped(Protocol):
    """What an energy with viscous damping has besides: a potential of the velocities v (n, d)."""

    @property
    def damped(self) -> bool:
        """Whether there is any damping."""

    def rate_gradient(self, x: ArrayLike, v: ArrayLike) -> Array:
        """Derivative of the damping potential by the velocities (n, d), in N: the force is its negative."""

    def rate_elements(self, x: ArrayLike, v: ArrayLike, *, symmetric: bool = False) -> tuple[Array, Array]:
        """Derivatives of `rate_gradient` by x and by v, as :meth:`Energy.elements`.

        That by x is not symmetric; `symmetric` gives the mean of it and its transpose instead. That by
        v is symmetric and positive semidefinite.
        """

    def rate_hessians(
        self, x: ArrayLike, v: ArrayLike, *, symmetric: bool = False
    ) -> tuple[csr_array, csr_array]:
        """The same as matrices (d n, d n)."""


@runtime_checkable
class Predicting(Protocol):
    """What a stiff energy of a bending thing has besides: the stress that a linear step was to lead to.

    Turning stretches, to second order, what a linear step takes to turn only. With that stress in the
    Hessian the next step is off; with the one foretold it is as if stress were an unknown of its own,
    and Newton's method takes fewer steps to the same end.
    """

    def predict(self, x: ArrayLike, before: ArrayLike, elements: Array) -> None:
        """Put into the exact `elements` at x the stress that the strain's slope at `before` foretold."""


class Elements(ABC):
    """An energy that is the sum of small elements, each of a few points of a body of `count` points.

    A subclass fills the elements' values, gradients and Hessians; this class sums them.
    """

    stencils: Stencils

    def __init__(self, stencils: ArrayLike | Groups, count: int, *, dimension: int = 3) -> None:
        self.stencils = checked_stencils("stencils", stencils, count)
        self.count, self.dimension = count, dimension
        self._sizes = stencil_sizes(self.stencils)

    @abstractmethod
    def _values(self, x: Array, out: Array) -> None:
        """Fill the value of each element (E,)."""

    @abstractmethod
    def _gradients(self, x: Array, out: Array) -> None:
        """Fill the derivative of each element by its points (E, k, d); of groups (entries, d)."""

    @abstractmethod
    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        """Fill the Hessian of each element (E, d k, d k); of groups one after the other, flat."""

    def __len__(self) -> int:
        """Number of elements."""
        return len(self._sizes)

    def value(self, x: ArrayLike) -> float:
        """Energy (J) at points x (n, d)."""
        each = np.empty(len(self))
        self._values(self._points("x", x), each)
        return float(each.sum())

    def gradient(self, x: ArrayLike) -> Array:
        """Derivative by the points (n, d), in N: the force is its negative."""
        each = np.empty(self._entry_shape)
        self._gradients(self._points("x", x), each)
        return self._gathered(each)

    def elements(self, x: ArrayLike, *, project: bool = False, out: Array | None = None) -> Array:
        """Hessians of the elements (E, d k, d k), in N/m, of groups one after the other, flat.

        With `project` each is made positive semidefinite. `out` takes the result.
        """
        check_out(out, self._elements_shape, np.dtype(np.float64))
        each = np.empty(self._elements_shape) if out is None else out
        self._hessians(self._points("x", x), project, each)
        return each

    def hessian(self, x: ArrayLike, *, project: bool = False) -> csr_array:
        """Second derivative (d n, d n), in N/m; its sparsity is the same for every x.

        With `project` each element's part is made positive semidefinite, and so their sum.
        """
        return self._matrix(self.elements(x, project=project))

    @cached_property
    def pattern(self) -> BlockPattern:
        """Sparsity of the Hessian."""
        return BlockPattern(self.count, [self.stencils], dimension=self.dimension)

    def _matrix(self, elements: Array) -> csr_array:
        return self.pattern.matrix(self.pattern.assemble([elements]))

    @property
    def _entry_shape(self) -> tuple[int, ...]:
        """One vector a point of an element."""
        if isinstance(self.stencils, Groups):
            return (len(self.stencils.indices), self.dimension)
        return (*self.stencils.shape, self.dimension)

    @cached_property
    def _elements_shape(self) -> tuple[int, ...]:
        if isinstance(self.stencils, Groups):
            return (int(np.sum((self.dimension * self._sizes) ** 2)),)
        k = self.dimension * self.stencils.shape[1]
        return (len(self), k, k)

    def _points(self, name: str, x: ArrayLike) -> Array:
        """Checked points (or velocities), as kernels read them."""
        given = as_reals(name, x).astype(np.float64, copy=False)
        if given.shape != (self.count, self.dimension):
            raise InputError(
                f"{name} must have shape {(self.count, self.dimension)}, one row per point, got {given.shape}"
            )
        require_finite(name, given)
        return for_kernel(given)

    @cached_property
    def _entries_of_points(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places of point i among all elements' points: ``entries[starts[i] : starts[i + 1]]``."""
        points = self.stencils.indices if isinstance(self.stencils, Groups) else self.stencils.reshape(-1)
        starts = np.concatenate([[0], np.cumsum(np.bincount(points, minlength=self.count))])
        return starts, np.argsort(points, kind="stable")

    def _gathered(self, each: Array) -> Array:
        """Sums per point (n, d) of vectors per point of an element, in one order whatever the threads."""
        out = np.empty((self.count, self.dimension))
        entries = each.reshape(-1, self.dimension)
        run(kernels.gather, self.count, 8192, *self._entries_of_points, entries, out)
        return out
