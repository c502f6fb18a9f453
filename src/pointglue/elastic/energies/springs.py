"""The simple energies: springs between points, targets that draw points, constant forces."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from ...checks import Array, as_array, as_integers, as_reals, require_finite
from ...compute import run
from ...errors import InputError
from .base import Elements, RatePotential
from .kernels import springs as kernels
from .materials import per_element

__all__ = ["ForceEnergy", "SpringEnergy", "TargetEnergy", "gravity"]

GRAIN = 4096  # springs worth a thread of their own


class _Springs(Elements):
    """The energy of springs, whatever their lengths at rest are."""

    _springs: kernels.SpringElements

    def _values(self, x: Array, out: Array) -> None:
        run(kernels.values, len(self), GRAIN, x, self._springs, out)

    def _gradients(self, x: Array, out: Array) -> None:
        run(kernels.gradients, len(self), GRAIN, x, self._springs, out)

    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        run(kernels.hessians, len(self), GRAIN, x, self._springs, project, out)


class SpringEnergy(_Springs, RatePotential):
    """The energy k/2 (length - rest length)^2 of springs between pairs of points.

    The potential of the damping is c/2 (rate of the length)^2 with c = damping k. A step takes the rate from
    the lengths at its ends, see :meth:`dissipation`: a spring that turns and keeps its length is not damped.

    Parameters
    ----------
    rest : (n, d)
        The points at rest, d = 2 or 3 [m].
    edges : (E, 2)
        The pairs of points that are joined.
    stiffness : float or (E,)
        The stiffness k, for all or for each spring [N/m].
    rest_length : float or (E,), optional
        The length at rest, by default that between the points at rest [m].
    damping : float or (E,)
        The ratio of damping c to stiffness k [s].

    Raises
    ------
    InputError
        If a shape is wrong, a number is negative, or a spring joins a point to itself.
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
        points = _check_vectors("rest", rest)
        pairs = as_array("edges", edges)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise InputError(f"edges must have shape (E, 2), got shape {pairs.shape}")
        super().__init__(pairs, len(points), dimension=points.shape[1])
        same = self.edges[:, 0] == self.edges[:, 1]
        if same.any():
            e = int(same.argmax())
            raise InputError(f"edges must join two points each, got {self.edges[e, 0]} twice at edge {e}")
        self.stiffness = _at_least_zero("stiffness", stiffness, len(self))
        lengths: ArrayLike = (
            rest_length
            if rest_length is not None
            else np.linalg.norm(points[self.edges[:, 0]] - points[self.edges[:, 1]], axis=1)
        )
        self.rest_length = _at_least_zero("rest_length", lengths, len(self))
        self.damping = _at_least_zero("damping", damping, len(self))
        viscosity = self.damping * self.stiffness
        self._springs = kernels.SpringElements(self.edges, self.rest_length, self.stiffness, viscosity)

    @property
    def edges(self) -> Array:
        """The pairs of points that are joined (E, 2)."""
        return np.asarray(self.stencils)

    @property
    def damped(self) -> bool:
        """Whether there is any damping."""
        return bool(self.damping.any())

    def dissipation(
        self, slope: float, x: ArrayLike, past: ArrayLike | None = None, extrapolation: float = 0.0
    ) -> "SpringDissipation":
        """Return the potential of the damping forces of one step, see `Damped.dissipation`."""
        lengths = self._lengths("x", x)
        if past is not None:
            lengths = lengths + extrapolation * (lengths - self._lengths("past", past))
        return SpringDissipation(self, slope, lengths)

    def _lengths(self, name: str, x: ArrayLike) -> Array:
        """Return the lengths (E,) [m]."""
        points = self._points(name, x)
        return np.asarray(np.linalg.norm(points[self.edges[:, 0]] - points[self.edges[:, 1]], axis=1))

    def rate_gradient(self, x: ArrayLike, v: ArrayLike) -> Array:
        """Return the derivative (n, d) [N] of c/2 (n . relative velocity)^2 by v, n the directions.

        See :meth:`RatePotential.rate_gradient`.
        """
        each = np.empty(self._entry_shape)
        points, rates = self._points("x", x), self._points("v", v)
        run(kernels.rate_gradients, len(self), GRAIN, points, rates, self._springs, each)
        return self._gathered(each)

    def rate_elements(self, x: ArrayLike, v: ArrayLike, *, symmetric: bool = False) -> tuple[Array, Array]:
        """Return the derivatives of it by x and by v, see :meth:`RatePotential.rate_elements`."""
        by_x, by_v = np.empty(self._elements_shape), np.empty(self._elements_shape)
        points, rates = self._points("x", x), self._points("v", v)
        run(kernels.rate_hessians, len(self), GRAIN, points, rates, self._springs, symmetric, by_x, by_v)
        return by_x, by_v


class SpringDissipation(_Springs):
    """The damping of springs in one step: springs of stiffness slope c, at rest at the lengths of before.

    Parameters
    ----------
    springs : SpringEnergy
        The springs.
    slope : float
        The derivative of velocities by positions [1/s].
    lengths : (E,)
        The lengths that rates are told from [m].
    """

    def __init__(self, springs: SpringEnergy, slope: float, lengths: Array) -> None:
        super().__init__(springs)
        viscosity = springs.damping * springs.stiffness
        self._springs = kernels.SpringElements(springs.edges, lengths, slope * viscosity, viscosity)


class TargetEnergy(Elements):
    """The energy ``k/2 |x - target|^2`` of some points: soft pins, or keyframes by :meth:`towards`.

    The potential of the damping is ``c/2 |velocity - that of the target|^2`` with c = damping k. A step takes
    the velocity from the positions at its ends, see :meth:`dissipation`.

    Parameters
    ----------
    count : int
        The number of points of the body.
    points : (E,)
        The rows of the points that are drawn.
    targets : (E, d)
        Where they are drawn to, d = 2 or 3 [m].
    stiffness : float or (E,)
        The stiffness k, for all or for each point [N/m].
    damping : float or (E,)
        The ratio of damping c to stiffness k [s].

    Raises
    ------
    InputError
        If shapes do not fit each other, a row is out of range, or a number is negative.
    """

    def __init__(
        self,
        count: int,
        points: ArrayLike,
        targets: ArrayLike,
        stiffness: ArrayLike,
        *,
        damping: ArrayLike = 0.0,
    ) -> None:
        given = _check_vectors("targets", targets)
        rows = as_integers("points", points)
        if len(rows) != len(given):
            raise InputError(f"targets must have one row for each of {len(rows)} points, got {len(given)}")
        super().__init__(rows[:, None], count, dimension=given.shape[1])
        self.targets, self.velocities = given, np.zeros_like(given)
        self.stiffness = _at_least_zero("stiffness", stiffness, len(self))
        self.damping = _at_least_zero("damping", damping, len(self))

    def towards(self, targets: ArrayLike, velocities: ArrayLike | None = None) -> Self:
        """Return the same energy with other targets, such as those of the next frame.

        Parameters
        ----------
        targets : (E, d)
            Where the points are drawn to [m].
        velocities : (E, d), optional
            The velocities of the targets, by default zero [m/s]: damping draws the points to these.

        Returns
        -------
        TargetEnergy

        Raises
        ------
        InputError
            If there are not as many targets, or velocities, as there were targets before.
        """
        still = np.zeros_like(self.targets) if velocities is None else velocities
        return self._with(targets=self._same("targets", targets), velocities=self._same("velocities", still))

    @property
    def damped(self) -> bool:
        """Whether there is any damping."""
        return bool(self.damping.any())

    def dissipation(
        self, slope: float, x: ArrayLike, past: ArrayLike | None = None, extrapolation: float = 0.0
    ) -> Self:
        """Return the potential of the damping forces of one step, see `Damped.dissipation`.

        Its strains are the points themselves: it draws them, by slope c, to where a step with the velocities
        of the targets ends.
        """
        rows = np.asarray(self.stencils)[:, 0]
        places = self._points("x", x)[rows]
        if past is not None:
            places = places + extrapolation * (places - self._points("past", past)[rows])
        viscosity = self.damping * self.stiffness
        return self._with(
            targets=places + self.velocities / slope,
            stiffness=slope * viscosity,
            damping=np.zeros_like(viscosity),
        )

    def _same(self, name: str, value: ArrayLike) -> Array:
        """Return vectors, or raise unless there is one for each target."""
        given = _check_vectors(name, value)
        if given.shape != self.targets.shape:
            raise InputError(f"{name} must have shape {self.targets.shape}, got {given.shape}")
        return given

    def _with(self, **changes: Array) -> Self:
        """Return the energy of the same elements with other numbers."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **changes)
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
    """The energy -sum f . x of constant forces, one per point: weight, a steady wind, a load.

    Parameters
    ----------
    forces : (n, d)
        The forces f, d = 2 or 3 [N].

    Raises
    ------
    InputError
        If the shape is another, or a number is not finite.
    """

    def __init__(self, forces: ArrayLike) -> None:
        self.forces = _check_vectors("forces", forces)
        count, d = self.forces.shape
        super().__init__(np.arange(count)[:, None], count, dimension=d)

    def _values(self, x: Array, out: Array) -> None:
        out[:] = -(self.forces * x).sum(1)

    def _gradients(self, x: Array, out: Array) -> None:
        out[:, 0] = -self.forces

    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        out[...] = 0.0


def gravity(mass: ArrayLike, acceleration: ArrayLike = (0.0, -9.81, 0.0)) -> ForceEnergy:
    """Return the energy of weight.

    Parameters
    ----------
    mass : (n,)
        The masses of the points [kg].
    acceleration : (d,)
        The acceleration of gravity, d = 2 or 3 [m/s^2].

    Returns
    -------
    ForceEnergy
        The constant forces m g.

    Raises
    ------
    InputError
        If a shape is wrong, or a mass is negative.
    """
    masses, pull = as_reals("mass", mass), as_reals("acceleration", acceleration)
    if masses.ndim != 1 or pull.shape not in ((2,), (3,)):
        raise InputError(
            f"mass must have shape (n,) and acceleration (2,) or (3,), got {masses.shape} and {pull.shape}"
        )
    if (masses < 0).any():
        raise InputError(f"mass must not be negative, got {masses.min():g} for point {masses.argmin()}")
    return ForceEnergy(masses[:, None] * pull)


def _check_vectors(name: str, value: ArrayLike) -> Array:
    """Return vectors (n, 3) or (n, 2) as float64, a copy, or raise unless finite and at least one."""
    given = as_reals(name, value).astype(np.float64)
    if given.ndim != 2 or given.shape[1] not in (2, 3) or not len(given):
        raise InputError(f"{name} must have shape (n, 3) or (n, 2), at least one row, got {given.shape}")
    require_finite(name, given)
    return given


def _at_least_zero(name: str, value: ArrayLike, count: int) -> Array:
    """Return one number per element (count,), a copy, or raise unless they are finite and not negative."""
    return np.array(per_element(name, value, count, lambda v: v >= 0, "finite and at least 0"))
