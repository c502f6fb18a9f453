"""The protocols of energies of deforming bodies, and the base of those that are sums over small elements."""

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
from ..linalg.blocks import BlockPattern, Stencils, check_stencils, stencil_sizes
from ..linalg.kernels import blocks as kernels

__all__ = ["Damped", "Elements", "Energy", "RatePotential"]

GRAIN = 8192  # points worth a thread of their own


class Energy(Protocol):
    """An energy of points: value, gradient and Hessian, and the element Hessians that a solver sums itself.

    An energy may also have a method ``predict(x, before, elements)``, see `ClothEnergy.predict`, and damping,
    see `Damped`.

    Attributes
    ----------
    stencils : (E, k) or Groups
        The points that each element touches.
    """

    stencils: Stencils

    def value(self, x: ArrayLike) -> float:
        """Return the energy.

        Parameters
        ----------
        x : (n, d)
            The points [m].

        Returns
        -------
        float
            The energy [J].
        """

    def gradient(self, x: ArrayLike) -> Array:
        """Return the derivative of the energy by the points; the force is its negative.

        Parameters
        ----------
        x : (n, d)
            The points [m].

        Returns
        -------
        (n, d)
            The derivative [N].
        """

    def hessian(self, x: ArrayLike, *, project: bool = False) -> csr_array:
        """Return the second derivative of the energy by the points; its sparsity is the same for every x.

        Parameters
        ----------
        x : (n, d)
            The points [m].
        project : bool
            Whether each element's part is made positive semidefinite.

        Returns
        -------
        csr_array (d n, d n)
            The second derivative [N/m].
        """

    def elements(self, x: ArrayLike, *, project: bool = False, out: Array | None = None) -> Array:
        """Return the Hessians of the elements.

        Parameters
        ----------
        x : (n, d)
            The points [m].
        project : bool
            Whether each element's Hessian is made positive semidefinite.
        out : array, optional
            The array that takes the result.

        Returns
        -------
        (E, d k, d k), or flat
            One Hessian for each element [N/m]; those of groups one after the other, flat.
        """


@runtime_checkable
class Damped(Protocol):
    """What an energy with viscous damping has besides: the potential that damps a step.

    The damping is that of Kelvin and Voigt: the rate of the strains s(x), times the stiffness, times
    `damping` seconds. Strains do not change when the body moves rigidly, and neither does their rate.
    """

    @property
    def damped(self) -> bool:
        """Whether there is any damping."""

    def dissipation(
        self, slope: float, x: ArrayLike, past: ArrayLike | None = None, extrapolation: float = 0.0
    ) -> Energy:
        """Return the potential of the damping forces of one step, an energy of the positions at its end.

        An integrator computes the velocities at the end y of a step as slope (y - reference), with the
        reference x + extrapolation (x - past). Of the strains it computes the rates in the same way:

            D(y) = 1 / (2 slope) rate^T C rate,
            rate = slope (s(y) - s(x) - extrapolation (s(x) - s(past))).

        Parameters
        ----------
        slope : float
            The derivative of velocities by positions [1/s].
        x : (n, d)
            The points at the beginning of the step [m].
        past : (n, d), optional
            The points one step before [m].
        extrapolation : float
            The weight of the step before, 0 for one that is computed from its beginning alone [1].

        Returns
        -------
        Energy
            The potential [J], of the same stencils; its gradient is minus the damping force [N].
        """


class Elements(ABC):
    """An energy that is the sum of small elements, each of a few points of a body.

    A subclass fills in the elements' values, gradients and Hessians (`_values`, `_gradients`, `_hessians`);
    this class sums them.

    Parameters
    ----------
    stencils : (E, k), Groups or Elements
        The points of each element; or another energy of the same elements, with which what follows from them
        is shared.
    count : int, optional
        The number n of points of the body; that of the other energy if there is one.
    dimension : int
        The number d of coordinates of a point.

    Raises
    ------
    InputError
        If the stencils name points that there are not.
    """

    stencils: Stencils
    count: int
    dimension: int

    def __init__(
        self, stencils: "ArrayLike | Groups | Elements", count: int = 0, *, dimension: int = 3
    ) -> None:
        if isinstance(stencils, Elements):
            self.stencils, self.count, self.dimension = stencils.stencils, stencils.count, stencils.dimension
            vars(self)["_entries_of_points"] = stencils._entries_of_points
        else:
            self.stencils = check_stencils("stencils", stencils, count)
            self.count, self.dimension = count, dimension
        self._sizes = stencil_sizes(self.stencils)

    @abstractmethod
    def _values(self, x: Array, out: Array) -> None:
        """Fill in the value of each element (E,)."""

    @abstractmethod
    def _gradients(self, x: Array, out: Array) -> None:
        """Fill in the derivative of each element by its points (E, k, d); for groups (entries, d)."""

    @abstractmethod
    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        """Fill in the Hessian of each element (E, d k, d k); for groups one after the other, flat."""

    def __len__(self) -> int:
        """Return the number of elements."""
        return len(self._sizes)

    def value(self, x: ArrayLike) -> float:
        """Return the energy [J] at points x (n, d) [m], see :meth:`Energy.value`."""
        each = np.empty(len(self))
        self._values(self._points("x", x), each)
        return float(each.sum())

    def gradient(self, x: ArrayLike) -> Array:
        """Return the derivative (n, d) [N] at points x (n, d) [m], see :meth:`Energy.gradient`."""
        each = np.empty(self._entry_shape)
        self._gradients(self._points("x", x), each)
        return self._gathered(each)

    def elements(self, x: ArrayLike, *, project: bool = False, out: Array | None = None) -> Array:
        """Return the element Hessians [N/m] at points x (n, d) [m], see :meth:`Energy.elements`."""
        check_out(out, self._elements_shape, np.dtype(np.float64))
        each = np.empty(self._elements_shape) if out is None else out
        self._hessians(self._points("x", x), project, each)
        return each

    def hessian(self, x: ArrayLike, *, project: bool = False) -> csr_array:
        """Return the second derivative (d n, d n) [N/m] at points x (n, d), see :meth:`Energy.hessian`."""
        return self._matrix(self.elements(x, project=project))

    @cached_property
    def pattern(self) -> BlockPattern:
        """The sparsity of the Hessian."""
        return BlockPattern(self.count, [self.stencils], dimension=self.dimension)

    def _matrix(self, elements: Array) -> csr_array:
        """Return the sum of element matrices."""
        return self.pattern.matrix(self.pattern.assemble([elements]))

    @property
    def _entry_shape(self) -> tuple[int, ...]:
        """The shape of an array of one vector for each point of each element."""
        if isinstance(self.stencils, Groups):
            return (len(self.stencils.indices), self.dimension)
        return (*self.stencils.shape, self.dimension)

    @cached_property
    def _elements_shape(self) -> tuple[int, ...]:
        """The shape of the array of element matrices."""
        if isinstance(self.stencils, Groups):
            return (int(np.sum((self.dimension * self._sizes) ** 2)),)
        k = self.dimension * self.stencils.shape[1]
        return (len(self), k, k)

    def _points(self, name: str, x: ArrayLike) -> Array:
        """Return points or velocities as kernels read them, or raise unless shape and numbers are right."""
        given = as_reals(name, x).astype(np.float64, copy=False)
        if given.shape != (self.count, self.dimension):
            raise InputError(
                f"{name} must have shape {(self.count, self.dimension)}, one row per point, got {given.shape}"
            )
        require_finite(name, given)
        return for_kernel(given)

    @cached_property
    def _entries_of_points(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Starts and entries: ``entries[starts[i] : starts[i + 1]]`` are the entries of point i."""
        points = self.stencils.indices if isinstance(self.stencils, Groups) else self.stencils.reshape(-1)
        starts = np.concatenate([[0], np.cumsum(np.bincount(points, minlength=self.count))])
        return starts, np.argsort(points, kind="stable")

    def _gathered(self, each: Array) -> Array:
        """Return the sums per point (n, d) of vectors of all elements, in one order whatever the threads."""
        out = np.empty((self.count, self.dimension))
        entries = each.reshape(-1, self.dimension)
        run(kernels.gather, self.count, GRAIN, *self._entries_of_points, entries, out)
        return out


class RatePotential(Elements):
    """An energy with a damping potential of positions and velocities besides, as in the papers.

    Its derivatives are exact, but the solver damps by :meth:`Damped.dissipation`: a force that is told from
    the positions and velocities at the end of a step is not zero where a body merely turns.
    """

    @abstractmethod
    def rate_gradient(self, x: ArrayLike, v: ArrayLike) -> Array:
        """Return the derivative of the damping potential by the velocities: minus the damping force.

        Parameters
        ----------
        x : (n, d)
            The points [m].
        v : (n, d)
            Their velocities [m/s].

        Returns
        -------
        (n, d)
            The derivative [N].
        """

    @abstractmethod
    def rate_elements(self, x: ArrayLike, v: ArrayLike, *, symmetric: bool = False) -> tuple[Array, Array]:
        """Return the derivatives of :meth:`rate_gradient` by x and by v, element by element.

        Parameters
        ----------
        x : (n, d)
            The points [m].
        v : (n, d)
            Their velocities [m/s].
        symmetric : bool
            Whether the derivative by x, which is not symmetric, is replaced by its symmetric part.

        Returns
        -------
        by_x, by_v
            Arrays as those of :meth:`elements` [N/m, N s/m]. The one by v is positive semidefinite.
        """

    def rate_hessians(
        self, x: ArrayLike, v: ArrayLike, *, symmetric: bool = False
    ) -> tuple[csr_array, csr_array]:
        """Return the derivatives of :meth:`rate_gradient` by x and by v as matrices.

        Parameters
        ----------
        x : (n, d)
            The points [m].
        v : (n, d)
            Their velocities [m/s].
        symmetric : bool
            Whether the derivative by x is replaced by its symmetric part.

        Returns
        -------
        by_x, by_v : csr_array (d n, d n)
            The matrices [N/m, N s/m].
        """
        by_x, by_v = self.rate_elements(x, v, symmetric=symmetric)
        return self._matrix(by_x), self._matrix(by_v)
