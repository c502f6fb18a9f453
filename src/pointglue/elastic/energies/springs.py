"""The simple energies: springs between points, targets that points are drawn to, constant forces."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from ...checks import Array, as_array, as_integers, as_reals, require_finite
from ...compute import run
from ...errors import InputError
from .base import Elements
from .kernels import springs as kernels

__all__ = ["ForceEnergy", "SpringEnergy", "TargetEnergy", "gravity"]

GRAIN = 4096


class SpringEnergy(Elements):
    """k/2 (length - rest length)^2 of springs between pairs of points.

    `rest` (n, d) are the points at rest and `edges` (E, 2) the pairs. `stiffness` k is in N/m, `rest_length`
    in m, by default as at rest, `damping` c in N s/m: the potential c/2 (rate of the length)^2, which
    keeps linear and angular momentum. Each is one number for all or one per spring.
    """

    def __init__(
        self,
        rest: ArrayLike,
        edges: ArrayLike,
        stiffness: ArrayLike,
        *,
        rest_length: ArrayLike | None = None,
        damping: ArrayLike = 0.0,
    ) -> None:
        points = _rows("rest", rest)
        pairs = as_array("edges", edges)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise InputError(f"edges must have shape (E, 2), got shape {pairs.shape}")
        super().__init__(pairs, len(points), dimension=points.shape[1])
        same = self.edges[:, 0] == self.edges[:, 1]
        if same.any():
            e = int(same.argmax())
            raise InputError(f"edges must join two points each, got {self.edges[e, 0]} twice at edge {e}")
        self.stiffness = _per_element("stiffness", stiffness, len(self))
        lengths: ArrayLike = (
            rest_length
            if rest_length is not None
            else np.linalg.norm(points[self.edges[:, 0]] - points[self.edges[:, 1]], axis=1)
        )
        self.rest_length = _per_element("rest_length", lengths, len(self))
        self.damping = _per_element("damping", damping, len(self))

    @property
    def edges(self) -> Array:
        """(E, 2)."""
        return np.asarray(self.stencils)

    @property
    def damped(self) -> bool:
        """Whether there is any damping."""
        return bool(self.damping.any())

    def _values(self, x: Array, out: Array) -> None:
        run(kernels.values, len(self), GRAIN, x, self.edges, self.rest_length, self.stiffness, out)

    def _gradients(self, x: Array, out: Array) -> None:
        run(kernels.gradients, len(self), GRAIN, x, self.edges, self.rest_length, self.stiffness, out)

    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        run(kernels.hessians, len(self), GRAIN, x, self.edges, self.rest_length, self.stiffness, project, out)

    def rate_gradient(self, x: ArrayLike, v: ArrayLike) -> Array:
        """Derivative of the damping potential by the velocities v (n, d), in N: the force is its negative."""
        each = np.empty(self._entry_shape)
        places, rates = self._points("x", x), self._points("v", v)
        run(kernels.rate_gradients, len(self), GRAIN, places, rates, self.edges, self.damping, each)
        return self._gathered(each)

    def rate_elements(self, x: ArrayLike, v: ArrayLike, *, symmetric: bool = False) -> tuple[Array, Array]:
        """Derivatives of `rate_gradient` by x and by v, as :meth:`elements`.

        That by x is not symmetric; `symmetric` takes the mean of it and its transpose.
        """
        by_x, by_v = np.empty(self._elements_shape), np.empty(self._elements_shape)
        places, rates = self._points("x", x), self._points("v", v)
        run(
            kernels.rate_hessians,
            len(self),
            GRAIN,
            places,
            rates,
            self.edges,
            self.damping,
            symmetric,
            by_x,
            by_v,
        )
        return by_x, by_v

    def rate_hessians(
        self, x: ArrayLike, v: ArrayLike, *, symmetric: bool = False
    ) -> tuple[csr_array, csr_array]:
        """The same as matrices (d n, d n), in N/m and N s/m."""
        by_x, by_v = self.rate_elements(x, v, symmetric=symmetric)
        return self._matrix(by_x), self._matrix(by_v)


class TargetEnergy(Elements):
    """``k/2 |x - target|^2`` of some points of a body of `count`: soft pins, or keyframes by :meth:`towards`.

    `points` (E,) are rows of the body, `targets` (E, d) places, `stiffness` k in N/m, one or (E,).
    """

    def __init__(self, count: int, points: ArrayLike, targets: ArrayLike, stiffness: ArrayLike) -> None:
        places = _rows("targets", targets)
        rows = as_integers("points", points)
        if len(rows) != len(places):
            raise InputError(f"targets must have one row for each of {len(rows)} points, got {len(places)}")
        super().__init__(rows[:, None], count, dimension=places.shape[1])
        self.targets = places
        self.stiffness = _per_element("stiffness", stiffness, len(self))

    def towards(self, targets: ArrayLike) -> Self:
        """The same with other targets (E, d): those of the next frame."""
        places = _rows("targets", targets)
        if places.shape != self.targets.shape:
            raise InputError(f"targets must have shape {self.targets.shape}, got {places.shape}")
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.targets = places
        return other

    def _offsets(self, x: Array) -> Array:
        return np.asarray(x[np.asarray(self.stencils)[:, 0]] - self.targets)

    def _values(self, x: Array, out: Array) -> None:
        out[:] = 0.5 * self.stiffness * (self._offsets(x) ** 2).sum(1)

    def _gradients(self, x: Array, out: Array) -> None:
        out[:, 0] = self.stiffness[:, None] * self._offsets(x)

    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        out[...] = self.stiffness[:, None, None] * np.eye(self.dimension)


class ForceEnergy(Elements):
    """-sum f . x of constant forces f (n, d) in N, one per point: weight, a steady wind, a load."""

    def __init__(self, forces: ArrayLike) -> None:
        self.forces = _rows("forces", forces)
        count, d = self.forces.shape
        super().__init__(np.arange(count)[:, None], count, dimension=d)

    def _values(self, x: Array, out: Array) -> None:
        out[:] = -(self.forces * x).sum(1)

    def _gradients(self, x: Array, out: Array) -> None:
        out[:, 0] = -self.forces

    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        out[...] = 0.0


def gravity(mass: ArrayLike, acceleration: ArrayLike = (0.0, -9.81, 0.0)) -> ForceEnergy:
    """The energy of weight: masses (n,) in kg, acceleration (d,) in m/s^2."""
    masses, pull = as_reals("mass", mass), as_reals("acceleration", acceleration)
    if masses.ndim != 1 or pull.shape not in ((2,), (3,)):
        raise InputError(
            f"mass must have shape (n,) and acceleration (2,) or (3,), got {masses.shape} and {pull.shape}"
        )
    if (masses < 0).any():
        raise InputError(f"mass must not be negative, got {masses.min():g} for point {masses.argmin()}")
    return ForceEnergy(masses[:, None] * pull)


def _rows(name: str, value: ArrayLike) -> Array:
    """Checked points or forces, copied."""
    given = as_reals(name, value).astype(np.float64)
    if given.ndim != 2 or given.shape[1] not in (2, 3) or not len(given):
        raise InputError(f"{name} must have shape (n, 3) or (n, 2), at least one row, got {given.shape}")
    require_finite(name, given)
    return given


def _per_element(name: str, value: ArrayLike, count: int) -> Array:
    """One number per element (E,), not negative."""
    given = as_reals(name, value).astype(np.float64)
    if given.shape not in ((), (count,)):
        raise InputError(f"{name} must be one number or {count}, one per element, got shape {given.shape}")
    require_finite(name, given)
    if (given < 0).any():
        where = f" at element {given.argmin()}" if given.ndim else ""
        raise InputError(f"{name} must not be negative, got {given.min():g}{where}")
    return np.array(np.broadcast_to(given, (count,)))
