"""Shape matching as an energy: points are pulled to the best rigid, linear or quadratic image of the rest."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ...checks import Array, as_reals, check_flag, check_real, require_finite
from ...compute import run
from ...errors import InputError
from ...procrustes import Groups, RestShape, RigidFit
from ...procrustes import kernels as procrustes_kernels
from .base import RatePotential
from .kernels import shape_matching as kernels
from .kernels.shape_matching import Clusters, Goals
from .matching import GRAIN, Matching, goals_of, in_space

__all__ = ["ShapeMatchingEnergy"]

# Ratio of the squares of a cluster's thickness and extent: what is flatter is flat but for rounding.
MIN_THICKNESS_SQUARED = 1e-12
# Least eigenvalue of the quadratic coordinates' moments (of unit variance, were the points a ball): with less
# the points are too few for a quadratic map.
MIN_QUADRATIC_MOMENT = 1e-9


class ShapeMatchingEnergy(Matching, RatePotential):
    """``1/2 sum_r k_r |x_r - goal_r|^2`` over clusters of points that remember their shape.

    ``goal_r = t + (blend A + (1 - blend) [R, 0]) q_r``: t is the centroid of a cluster by mass, R its
    best-fit rotation, A the best-fit linear map (with `quadratic`, of the coordinates and their products)
    from rest. Blend 0 pulls the points to a rigid body; towards 1 the body gives way to shear, and with
    `quadratic` to bending and twist. All derivatives are exact. Where points do not determine a rotation,
    since they are mirrored or on a line, the undetermined spin is that of the rest shape and its derivatives
    fade out: everything stays finite.

    Parameters
    ----------
    rest : (n, d)
        Points at rest [m], d = 2 or 3.
    mass : float or (n,)
        Masses [kg]; only ratios within a cluster matter, except for damping.
    stiffness : float or (n,)
        Stiffness k [N/m]; positive, and need not be proportional to the mass. It is that of the points, so
        that smaller clusters make a stiffer material: see :meth:`from_young` for a material in Pa.
    clusters : Groups or lists of int, optional
        The points of each cluster; they may overlap. By default one cluster of all points.
    scale : float or (K,)
        A factor of the stiffness of all points in each of the K clusters.
    blend : float
        The share of the linear map, 0 to 1. Above 0 the points of a cluster must not lie in a plane (2D: on a
        line).
    quadratic : bool
        Whether A also takes products of coordinates; they are centred, so that goals keep the centroid.
    damping : float
        The ratio of damping to stiffness [s]. It resists changes of the offsets from the goals, in the frame
        that turns with the cluster. Rigid motion is not damped.
    drag : float
        The ratio of drag to mass [1/s]. It resists every motion of the points in clusters.

    Raises
    ------
    InputError
        If the arguments do not go together, or a cluster has no shape to remember.
    """

    stencils: Groups

    def __init__(
        self,
        rest: ArrayLike,
        mass: ArrayLike,
        stiffness: ArrayLike,
        *,
        clusters: Groups | Iterable[Sequence[int] | NDArray[np.integer]] | None = None,
        scale: ArrayLike = 1.0,
        blend: float = 0.0,
        quadratic: bool = False,
        damping: float = 0.0,
        drag: float = 0.0,
    ) -> None:
        points = as_reals("rest", rest).astype(np.float64)
        if points.ndim != 2 or points.shape[1] not in (2, 3) or not len(points):
            raise InputError(f"rest must have shape (n, 3) or (n, 2), at least one row, got {points.shape}")
        require_finite("rest", points)
        count, d = points.shape
        groups = _checked_clusters(clusters, count)
        super().__init__(groups, count, dimension=d)
        self.rest = points
        self.mass = _positive("mass", mass, count)
        self.stiffness = _positive("stiffness", stiffness, count)
        self.scale = _positive("scale", scale, len(groups), "cluster")
        self.blend = check_real("blend", blend, at_least=0.0, at_most=1.0)
        self.quadratic = check_flag("quadratic", quadratic)
        if self.quadratic and self.blend == 0.0:
            raise InputError("quadratic says what a body may deform to, which needs a blend above 0")
        self.damping = check_real("damping", damping, at_least=0.0)
        self.drag = check_real("drag", drag, at_least=0.0)

        self._shape = RestShape(points, self.mass[groups.indices], groups=groups)
        fit = self._shape.fit(points, on_degenerate="clamp")
        bad = fit.degenerate
        if bad.any():
            what = "lie on a line or coincide" if d == 3 else "coincide"
            raise InputError(
                f"cluster {int(bad.argmax())} has no shape to remember: its points {what} at rest"
            )
        self._rest_moments = np.abs(fit.arrays.A).max(1)
        w = np.ascontiguousarray(self._shape.weights)
        v = np.ascontiguousarray(self._shape.arrays.q[:, :3] / w[:, None])
        k = self.stiffness[groups.indices] * self.scale[groups.group_of]
        q = self._coordinates(v, w)
        u = (1.0 - self.blend) * v
        self._clusters = Clusters(groups.offsets, groups.indices, v, w, k, q, self.blend, u)

    @classmethod
    def from_young(
        cls,
        rest: ArrayLike,
        mass: ArrayLike,
        young: float,
        *,
        clusters: Groups | Iterable[Sequence[int] | NDArray[np.integer]],
        volumes: ArrayLike,
        blend: float = 0.0,
        **options: Any,
    ) -> Self:
        """Return the energy of a material with a Young's modulus, at any size and number of clusters.

        A uniform strain e of a cluster costs ``(1 - blend)^2 / 2 sum k |e v|^2``, with the offsets v of its
        points from their centroid. In d dimensions, ``k = d young volume / ((1 - blend)^2 sum |v|^2)`` makes
        this ``young / 2 |e|^2`` by volume: a bar that is stretched has this modulus, and does not contract
        across (Poisson's ratio is 0). It is exact for clusters whose offsets are alike along all axes, such
        as the corners of cubes of equal masses, and for others the mean of all directions. What no cluster
        can match, bending within one, is stiffer than that of the material: a bar n cubes thick bends like
        one whose modulus is larger by the share (3 / (1 - blend)^2 - 1) / n^2.

        Parameters
        ----------
        rest : (n, d)
            Points at rest [m], d = 2 or 3.
        mass : float or (n,)
            Masses [kg]; only ratios within a cluster matter, except for damping.
        young : float
            The Young's modulus [Pa]; in the plane [N/m].
        clusters : Groups or lists of int
            The points of each cluster.
        volumes : float or (K,)
            The volume of the body that each cluster stands for [m^3]; in the plane the area [m^2].
        blend : float
            The share of the linear map, from 0 to less than 1.
        **options
            Further arguments of `ShapeMatchingEnergy`: quadratic, damping.

        Returns
        -------
        ShapeMatchingEnergy

        Raises
        ------
        InputError
            If an argument is out of range, or the arguments do not go together.
        """
        points = as_reals("rest", rest).astype(np.float64)
        if points.ndim != 2 or not len(points):
            raise InputError(f"rest must have shape (n, 3) or (n, 2), at least one row, got {points.shape}")
        groups = _checked_clusters(clusters, len(points))
        check_real("young", young, above=0.0)
        if not check_real("blend", blend, at_least=0.0, at_most=1.0) < 1.0:
            raise InputError("blend must be less than 1: clusters that may take any shape have no modulus")
        shares = _positive("volumes", volumes, len(groups), "cluster")
        first, of = groups.offsets[:-1], groups.group_of
        w = _positive("mass", mass, len(points))[groups.indices][:, None]
        x = points[groups.indices]
        centroids = np.add.reduceat(w * x, first, axis=0) / np.add.reduceat(w, first, axis=0)
        spread = np.add.reduceat(((x - centroids[of]) ** 2).sum(1), first)
        if not (spread > 0).all():
            raise InputError(f"cluster {int(spread.argmin())} has no shape to remember: its points coincide")
        k = points.shape[1] * young * shares / ((1 - blend) ** 2 * spread)
        return cls(points, mass, 1.0, clusters=groups, scale=k, blend=blend, **options)

    @property
    def damped(self) -> bool:
        """Whether there is any damping."""
        return self.damping > 0.0 or self.drag > 0.0

    def dissipation(
        self, slope: float, x: ArrayLike, past: ArrayLike | None = None, extrapolation: float = 0.0
    ) -> "ShapeMatchingDissipation":
        """Return the potential of the damping forces of one step, see `Damped.dissipation`."""
        now = self._points("x", x)
        strains, reference = self._strains(now), now
        if past is not None:
            before = self._points("past", past)
            strains = strains + extrapolation * (strains - self._strains(before))
            reference = reference + extrapolation * (reference - before)
        return ShapeMatchingDissipation(self, slope, strains, reference)

    def _strains(self, x: Array) -> Array:
        """Return the offsets from the goals in the frame of the rest shape (E, 3) [m]."""
        fit, out = self._shape.fit(x, on_degenerate="clamp"), np.empty((len(self.stencils.indices), 3))
        run(kernels.strains, len(self), GRAIN, in_space(x), self._clusters, goals_of(fit), out)
        return out

    @property
    def matched(self) -> tuple[RestShape, Array, Clusters]:
        """The rest shape, the moments at rest (K,) and the clusters, as `Matching` reads them."""
        return self._shape, self._rest_moments, self._clusters

    def gauss_newton(self, x: ArrayLike) -> csr_array:
        """Return the Hessian without the curvature of R: positive semidefinite (d n, d n) [N/m]."""
        fit = self._fit(self._points("x", x))
        out = np.empty(self._elements_shape)
        self._expand(self._gauss_newton_cores(fit), self._clusters.stiffness, 1.0, out)
        return self._matrix(out)

    def rate_gradient(self, x: ArrayLike, v: ArrayLike) -> Array:
        """Return the derivative (n, d) [N] of the potential of the paper by the velocities.

        It is ``damping/2 sum k |d(x - goal)/dt|^2 + drag/2 sum m |v|^2`` with the rates in the world. Its
        force on a deformed body that spins is not zero, and takes angular momentum. See
        :meth:`RatePotential.rate_gradient`.
        """
        fit, rates = self._fit(self._points("x", x)), in_space(self._points("v", v))
        alpha, beta = self.damping, self.drag
        each = np.empty(self._entry_shape)
        self._write_gradients(rates, self._rates(fit, rates), fit, each)
        return alpha * self._gathered(each) + beta * (self._damped_mass * rates.T[: self.dimension]).T

    def rate_elements(self, x: ArrayLike, v: ArrayLike, *, symmetric: bool = False) -> tuple[Array, Array]:
        """Return the derivatives of it by x and by v, see :meth:`RatePotential.rate_elements`."""
        fit, rates = self._fit(self._points("x", x)), in_space(self._points("v", v))
        alpha, beta = self.damping, self.drag
        by_x, by_v = np.empty(self._elements_shape), np.empty(self._elements_shape)
        D = self._rate_cores(fit, rates, symmetric)
        k = self._clusters.stiffness
        self._expand(D, np.zeros_like(k), 0.0, by_x)
        self._expand(alpha * self._gauss_newton_cores(fit), alpha * k + beta * self.mass_shares, alpha, by_v)
        return by_x, by_v

    def _rates(self, fit: RigidFit, rates: Array) -> Goals:
        """Return the rates of the centroids and of R."""
        R, t, _ = fit.arrays
        dR, dt = np.empty_like(R), np.empty_like(t)
        rest, G = fit.rest.arrays, fit.compliances
        run(procrustes_kernels.jvp, len(dR), 4096, rest, rates[None], R, G, dR, dt)
        return Goals(dt, dR)

    def _gauss_newton_cores(self, fit: RigidFit) -> Array:
        D, R, G = self._core_array(), fit.arrays.R, fit.compliances
        if D.size:
            run(kernels.gauss_newton_cores, len(self), GRAIN, R, G, self._reduced, D)
        return D

    def _rate_cores(self, fit: RigidFit, rates: Array, symmetric: bool) -> Array:
        D = self._core_array()
        if D.size:
            curvature = self._rotation_hessians(fit, self._moments(rates, self._rates(fit, rates)))
            run(
                kernels.rate_cores,
                len(self),
                GRAIN // 4,
                fit.rest.arrays,
                rates[None],
                fit.rotation_arrays,
                self._reduced,
                curvature,
                D,
            )
            D *= self.damping
            if symmetric:
                D = 0.5 * (D + np.swapaxes(D, 1, 2))
        return D

    @cached_property
    def _uses(self) -> NDArray[np.int64]:
        """The number of clusters that each point belongs to (n,)."""
        return np.bincount(self.stencils.indices, minlength=self.count)

    @cached_property
    def _damped_mass(self) -> Array:
        return np.where(self._uses > 0, self.mass, 0.0)

    @cached_property
    def mass_shares(self) -> Array:
        """The mass of the point of each entry, shared equally by its clusters (E,) [kg]."""
        return np.asarray((self.mass / np.maximum(self._uses, 1))[self.stencils.indices])

    def _coordinates(self, v: Array, w: Array) -> Array:
        """Return rest coordinates (E, m), centred and orthonormal by the weights; none for blend 0."""
        d, of = self.dimension, self.stencils.group_of
        if self.blend == 0.0:
            return np.empty((len(w), 0))
        linear = np.ascontiguousarray(v[:, :d])
        values, vectors = np.linalg.eigh(self._grams(w, linear, linear))
        flat = values[:, 0] <= MIN_THICKNESS_SQUARED * values[:, -1]
        if flat.any():
            k = int(flat.argmax())
            raise InputError(
                f"blend must be 0 for cluster {k}, got {self.blend:g}: its {self.stencils.sizes[k]} points "
                f"lie in a {'plane' if d == 3 else 'line'} at rest, which leaves its linear map open"
            )
        q = np.einsum("ej,eji->ei", linear, (vectors / np.sqrt(values)[:, None])[of])
        if not self.quadratic:
            return np.ascontiguousarray(q)
        pairs = np.triu_indices(d)
        products = q[:, pairs[0]] * q[:, pairs[1]]
        ones = np.ones((len(w), 1))
        products -= self._grams(w, ones, products)[of, 0]
        every = np.hstack([q, products])
        values, vectors = np.linalg.eigh(self._grams(w, every, every))
        few = values[:, 0] <= MIN_QUADRATIC_MOMENT
        if few.any():
            k = int(few.argmax())
            raise InputError(
                f"quadratic must be False for cluster {k}: its {self.stencils.sizes[k]} points are too few, "
                f"or too regular, for a quadratic map, which takes {every.shape[1] + 1} in general position"
            )
        return np.ascontiguousarray(np.einsum("ej,eji->ei", every, (vectors / np.sqrt(values)[:, None])[of]))


class ShapeMatchingDissipation(Matching):
    """The damping of shape matching in one step: clusters that are at rest in the shape of before, and drag.

    It is ``damping slope/2 sum_r k_r |R^T d_r - strain_r|^2 + drag slope/2 sum m |x - reference|^2``. Since
    ``|R^T d - strain| = |d - R strain|``, the first is shape matching with other offsets of the goals.

    Parameters
    ----------
    energy : ShapeMatchingEnergy
        The energy.
    slope : float
        The derivative of velocities by positions [1/s].
    strains : (E, 3)
        The offsets R^T d that rates are told from [m].
    reference : (n, d)
        The points that velocities are told from [m].
    """

    def __init__(self, energy: ShapeMatchingEnergy, slope: float, strains: Array, reference: Array) -> None:
        super().__init__(energy)
        self._shape, self._rest_moments, clusters = energy.matched
        self._clusters = clusters._replace(
            stiffness=slope * energy.damping * clusters.stiffness, u=clusters.u + strains
        )
        self._drag, self._reference = slope * energy.drag * energy.mass_shares, reference

    def _moved(self, x: Array) -> Array:
        """Return the way of each entry's point from the reference (E, d) [m]."""
        return np.asarray((x - self._reference)[self.stencils.indices])

    def _values(self, x: Array, out: Array) -> None:
        super()._values(x, out)
        drag = 0.5 * self._drag * (self._moved(x) ** 2).sum(1)
        out += np.add.reduceat(drag, self.stencils.offsets[:-1])

    def _gradients(self, x: Array, out: Array) -> None:
        super()._gradients(x, out)
        out += self._drag[:, None] * self._moved(x)

    def _diagonal(self) -> Array:
        return self._clusters.stiffness + self._drag


def _checked_clusters(
    clusters: Groups | Iterable[Sequence[int] | NDArray[np.integer]] | None, count: int
) -> Groups:
    if clusters is None:
        return Groups([0, count])
    groups = clusters if isinstance(clusters, Groups) else Groups.from_lists(clusters)
    if groups.indices.max() >= count:
        entry = int(groups.indices.argmax())
        raise InputError(
            f"clusters must name some of {count} points, "
            f"got {groups.indices[entry]} in cluster {groups.group_of[entry]}"
        )
    repeat = groups.first_repeat()
    if repeat is not None:
        k, point = repeat
        raise InputError(f"clusters: cluster {k} names point {point} twice; give it more stiffness instead")
    return groups


def _positive(name: str, value: ArrayLike, count: int, each: str = "point") -> Array:
    """Return one positive number for each point, or whatever there is `count` of, or raise."""
    given = as_reals(name, value).astype(np.float64)
    if given.shape not in ((), (count,)):
        raise InputError(f"{name} must be one number or {count}, one per {each}, got shape {given.shape}")
    require_finite(name, given)
    numbers = np.array(np.broadcast_to(given, (count,)))
    if (numbers <= 0).any():
        i = int(numbers.argmin())
        raise InputError(
            f"{name} must be positive, got {numbers[i]:g}{f' for {each} {i}' if given.ndim else ''}"
        )
    return numbers
