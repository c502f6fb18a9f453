"""Shape matching as an energy: points are drawn to the best rigid, linear or quadratic image of the rest."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ...checks import Array, as_reals, require_finite
from ...compute import run
from ...errors import InputError
from ...procrustes import Groups, RestShape, RigidFit
from ...procrustes import curvature as procrustes_curvature
from ...procrustes import kernels as procrustes_kernels
from ...procrustes.fit import for_kernel, lift
from .base import Elements
from .kernels import shape_matching as kernels

__all__ = ["ShapeMatchingEnergy"]

# Clusters worth a thread of their own, for some hundred microseconds of work each.
GRAIN = 256
# Least square of a thickness, in those of the extent, that is more than rounding of coordinates.
FLAT = 1e-12
# A cluster this much smaller than at rest has collapsed: its rotation has derivatives beyond all use.
COLLAPSED = 1e-12
# Least eigenvalue of the quadratic coordinates' moments (of unit variance, were the points a ball).
FEW = 1e-9


class ShapeMatchingEnergy(Elements):
    """``1/2 sum_r k_r |x_r - goal_r|^2`` over clusters of points that remember their shape.

    ``goal_r = t + (blend A + (1 - blend) [R, 0]) q_r``: t is the centre of mass of a cluster, R its best-fit
    rotation, A the best-fit linear map (with `quadratic`, of the coordinates and their products) from rest.
    Blend 0 draws the points to a rigid body; towards 1 the body gives way to shear, and with `quadratic` to
    bending and twist. All derivatives are exact.

    Args:
        rest: points at rest (n, d), d = 2 or 3.
        mass: kg (n,), or one for all; only ratios within a cluster matter, but for damping.
        stiffness: k in N/m, (n,) or one for all; positive, and need not go with the mass.
        clusters: lists of points, or Groups, that may overlap. Default: one of all points.
        blend: 0 to 1. Above 0 the points of a cluster must not lie in a plane (2D: on a line).
        quadratic: A also takes products of coordinates; they are centred, so that goals keep the centre.
        damping: (alpha, beta): alpha (s) times the stiffness damps changes of shape, beta (1/s) times the
            mass every motion of the points in clusters. The potential of the damping is
            ``alpha/2 sum k |d(x - goal)/dt|^2 + beta/2 sum m |v|^2``. The force of alpha has no net part;
            but a deformed body that spins is damped too, so angular momentum is not kept.

    Where points do not determine a rotation, since they are mirrored or on a line, the undetermined spin
    is that of the rest shape and its derivatives fade out: everything stays finite.
    """

    stencils: Groups

    def __init__(
        self,
        rest: ArrayLike,
        mass: ArrayLike,
        stiffness: ArrayLike,
        *,
        clusters: Groups | Iterable[Sequence[int] | NDArray[np.integer]] | None = None,
        blend: float = 0.0,
        quadratic: bool = False,
        damping: tuple[float, float] = (0.0, 0.0),
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
        self.blend = _within("blend", blend, 1.0)
        if not isinstance(quadratic, bool | np.bool_):
            raise InputError(f"quadratic must be True or False, got {quadratic!r}")
        if quadratic and self.blend == 0.0:
            raise InputError("quadratic says what a body may deform to, which needs a blend above 0")
        self.quadratic = bool(quadratic)
        if not isinstance(damping, tuple | list) or len(damping) != 2:
            raise InputError(f"damping must be a pair (alpha, beta), got {damping!r}")
        self.damping = (_within("damping[0]", damping[0]), _within("damping[1]", damping[1]))

        self._shape = RestShape(points, self.mass[groups.indices], groups=groups)
        fit = self._shape.fit(points, on_degenerate="clamp")
        bad = fit.degenerate
        if bad.any():
            what = "lie on a line or coincide" if d == 3 else "coincide"
            raise InputError(
                f"cluster {int(bad.argmax())} has no shape to remember: its points {what} at rest"
            )
        self._extent = np.abs(fit._A).max(1)
        self._w = np.ascontiguousarray(self._shape.weights)
        self._v = np.ascontiguousarray(self._shape._q[:, :3] / self._w[:, None])
        self._k = self.stiffness[groups.indices]
        self._q = self._coordinates()

    @property
    def damped(self) -> bool:
        """Whether there is any damping."""
        return self.damping != (0.0, 0.0)

    def gauss_newton(self, x: ArrayLike) -> csr_array:
        """The Hessian without what comes of the curvature of R: positive semidefinite (d n, d n), in N/m."""
        fit = self._fit(self._points("x", x))
        out = np.empty(self._elements_shape)
        self._expand(self._gauss_cores(fit), self._k, 1.0, out)
        return self._matrix(out)

    def rate_gradient(self, x: ArrayLike, v: ArrayLike) -> Array:
        """Derivative of the damping potential by the velocities v (n, d), in N: the force is its negative."""
        fit, rates = self._fit(self._points("x", x)), _lifted(self._points("v", v))
        alpha, beta = self.damping
        each = np.empty(self._entry_shape)
        dR, dt = self._rates(fit, rates)
        self._pull(rates, dt, dR, fit, each)
        return alpha * self._gathered(each) + beta * (self._damped_mass * rates.T[: self.dimension]).T

    def rate_elements(self, x: ArrayLike, v: ArrayLike, *, symmetric: bool = False) -> tuple[Array, Array]:
        """Derivatives of `rate_gradient` by x and by v, cluster by cluster, as :meth:`elements`.

        That by x is not symmetric; `symmetric` takes the mean of it and its transpose. That by v is
        symmetric and positive semidefinite.
        """
        fit, rates = self._fit(self._points("x", x)), _lifted(self._points("v", v))
        alpha, beta = self.damping
        by_x, by_v = np.empty(self._elements_shape), np.empty(self._elements_shape)
        D = self._rate_cores(fit, rates, symmetric)
        self._expand(D, np.zeros_like(self._k), 0.0, by_x)
        share = (beta * self.mass / np.maximum(self._uses, 1))[self.stencils.indices]
        self._expand(alpha * self._gauss_cores(fit), alpha * self._k + share, alpha, by_v)
        return by_x, by_v

    def rate_hessians(
        self, x: ArrayLike, v: ArrayLike, *, symmetric: bool = False
    ) -> tuple[csr_array, csr_array]:
        """The same as matrices (d n, d n), in N/m and N s/m."""
        by_x, by_v = self.rate_elements(x, v, symmetric=symmetric)
        return self._matrix(by_x), self._matrix(by_v)

    def _fit(self, x: Array) -> RigidFit:
        """The rotations, and that of a collapsed cluster without derivatives."""
        fit = self._shape.fit(x, on_degenerate="clamp")
        fit._compliance[np.abs(fit._A).max(1) < COLLAPSED * self._extent] = 0.0
        return fit

    def _values(self, x: Array, out: Array) -> None:
        fit = self._shape.fit(x, on_degenerate="clamp")
        run(kernels.values, len(self), GRAIN, _lifted(x), *self._clusters, fit._t, fit._R, out)

    def _gradients(self, x: Array, out: Array) -> None:
        fit = self._fit(x)
        self._pull(_lifted(x), fit._t, fit._R, fit, out)

    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        fit = self._fit(x)
        D = self._core_array()
        if D.size:
            P = self._moments(_lifted(x), fit._t, fit._R)
            run(kernels.goal_moments, len(self), 1024, P, fit._R, self._reduced.spread, 1.0 - self.blend)
            bent = self._bent(fit, P)
            reduced = self._reduced
            run(
                kernels.cores,
                len(self),
                GRAIN,
                self.dimension,
                fit._R,
                fit._compliance,
                reduced.alpha,
                reduced.beta,
                bent,
                1.0 - self.blend,
                D,
            )
            if project:
                run(kernels.project, len(self), 32, D)
        self._expand(D, self._k, 1.0, out)

    @property
    def _clusters(self) -> tuple[Array | float, ...]:
        """The arguments that describe the clusters to the kernels."""
        groups = self.stencils
        return groups.offsets, groups.indices, self._v, self._w, self._k, self._q, self.blend

    def _pull(self, x: Array, t: Array, goal: Array, fit: RigidFit, out: Array) -> None:
        """See `shape_kernels.pulls`."""
        run(kernels.pulls, len(self), GRAIN, x, *self._clusters, t, goal, fit._R, fit._compliance, out)

    def _moments(self, x: Array, t: Array, goal: Array) -> Array:
        """See `shape_kernels.moments`."""
        P = np.empty((len(self), 9))
        run(kernels.moments, len(self), GRAIN, x, *self._clusters, t, goal, P)
        return P

    def _rates(self, fit: RigidFit, rates: Array) -> tuple[Array, Array]:
        """Rates of R (K, 9) and of the centres (K, 3)."""
        dR, dt = np.empty_like(fit._R), np.empty_like(fit._t)
        run(
            procrustes_kernels.jvp,
            len(dR),
            4096,
            rates[None],
            *fit._group_arrays,
            fit._R,
            fit._compliance,
            dR,
            dt,
        )
        return dR, dt

    def _core_array(self) -> Array:
        size = self.dimension * self._reduced.alpha.shape[1]
        return np.empty((len(self), size, size))

    def _bent(self, fit: RigidFit, P: Array) -> Array:
        """Hessian of <P, R> for the points of the reduced clusters (K, r r, 9)."""
        alpha = self._reduced.alpha
        r = alpha.shape[1]
        bent = np.empty((1, len(self) * r * r, 9))
        run(
            procrustes_curvature.hessian,
            len(self),
            GRAIN,
            for_kernel(r * np.arange(len(self) + 1)),
            r * r * np.arange(len(self) + 1),
            alpha.reshape(-1, 3),
            fit._R,
            fit._stretch,
            fit._compliance,
            P,
            bent,
        )
        return bent.reshape(len(self), r * r, 9)

    def _gauss_cores(self, fit: RigidFit) -> Array:
        D, reduced = self._core_array(), self._reduced
        if D.size:
            run(
                kernels.gauss_cores,
                len(self),
                GRAIN,
                self.dimension,
                fit._R,
                fit._compliance,
                reduced.alpha,
                reduced.beta,
                reduced.spread,
                D,
            )
        return D

    def _rate_cores(self, fit: RigidFit, rates: Array, symmetric: bool) -> Array:
        D, reduced = self._core_array(), self._reduced
        if D.size:
            dR, dt = self._rates(fit, rates)
            bent = self._bent(fit, self._moments(rates, dt, dR))
            run(
                kernels.rate_cores,
                len(self),
                GRAIN // 4,
                self.dimension,
                rates[None],
                *fit._group_arrays,
                fit._R,
                fit._stretch,
                fit._compliance,
                reduced.alpha,
                reduced.beta,
                reduced.spread,
                bent,
                1.0 - self.blend,
                symmetric,
                self.damping[0],
                D,
            )
        return D

    def _expand(self, D: Array, diagonal: Array, stiff: float, out: Array) -> None:
        """See `shape_kernels.expand`."""
        groups, reduced = self.stencils, self._reduced
        run(
            kernels.expand,
            len(groups.indices),
            1024,
            self.dimension,
            groups.group_of,
            groups.offsets,
            reduced.places,
            reduced.Z,
            reduced.psi,
            reduced.chi,
            diagonal,
            stiff,
            D,
            out,
        )

    @cached_property
    def _uses(self) -> NDArray[np.int64]:
        """How many clusters each point belongs to (n,)."""
        return np.bincount(self.stencils.indices, minlength=self.count)

    @cached_property
    def _damped_mass(self) -> Array:
        return np.where(self._uses > 0, self.mass, 0.0)

    def _grams(self, weights: Array, a: Array, b: Array) -> Array:
        """Sums of weights a b^T over each cluster."""
        out = np.empty((len(self), a.shape[1], b.shape[1]))
        run(kernels.grams, len(self), GRAIN, self.stencils.offsets, weights, a, b, out)
        return out

    def _coordinates(self) -> Array:
        """Rest coordinates (E, m), centred and orthonormal in the metric of the weights; none for blend 0."""
        d, w, of = self.dimension, self._w, self.stencils.group_of
        if self.blend == 0.0:
            return np.empty((len(w), 0))
        linear = np.ascontiguousarray(self._v[:, :d])
        values, vectors = np.linalg.eigh(self._grams(w, linear, linear))
        flat = values[:, 0] <= FLAT * values[:, -1]
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
        few = values[:, 0] <= FEW
        if few.any():
            k = int(few.argmax())
            raise InputError(
                f"quadratic must be False for cluster {k}: its {self.stencils.sizes[k]} points are too few, "
                f"or too regular, for a quadratic map, which takes {every.shape[1] + 1} in general position"
            )
        return np.ascontiguousarray(np.einsum("ej,eji->ei", every, (vectors / np.sqrt(values)[:, None])[of]))

    @cached_property
    def _reduced(self) -> "_Reduced":
        """What the second derivatives need to know of the rest, see `shape_kernels`."""
        groups, w, k, q, g = self.stencils, self._w, self._k, self._q, self.blend
        of, K, d = groups.group_of, len(self), self.dimension
        phi = np.hstack([np.ones((len(w), 1)), q])
        psi = w[:, None] * np.hstack([np.ones((len(w), 1)), g * q])
        chi = k[:, None] * phi - 0.5 * np.einsum("ei,eij->ej", psi, self._grams(k, phi, phi)[of])
        spread = self._grams(k, self._v, self._v).reshape(K, 9)
        places = np.concatenate([[0], np.cumsum((d * groups.sizes) ** 2)])
        if g == 1.0:
            nothing = np.empty((K, 0, 3))
            return _Reduced(np.empty((len(w), 0)), nothing, nothing, psi, chi, spread, places)

        # Stiffness in proportion to mass, k = kappa w, makes b a multiple of a. So b is taken as that plus
        # the rest c, from numbers that vanish with it: both scaled to one size, their inner products are
        kappa = np.add.reduceat(k, groups.offsets[:-1])
        scale = np.sqrt(kappa)
        ratio = k / (kappa[of] * w)
        v = np.ascontiguousarray(self._v[:, :d])
        ones = np.ones((len(w), 1))
        arm = self._grams(w * (1.0 - ratio) / ratio, ones, v)[:, 0]
        moment = arm[:, :, None] * arm[:, None, :] / self._grams(w / ratio, ones, ones)
        aa = self._grams(w / ratio, v, v) - moment
        ac = self._grams(w * (ratio - 1.0) / ratio, v, v) + moment
        cc = self._grams(w * (ratio - 1.0) ** 2 / ratio, v, v) - moment

        a = (scale[of] * (1.0 - g) * w)[:, None] * v
        y = ((k - kappa[of] * w) / scale[of])[:, None] * v
        c = y - np.einsum("ei,eij->ej", psi, self._grams(np.ones_like(w), phi, y)[of])
        to_a, from_a = _orthonormal(aa, 1e-15 * _largest(aa))
        Za = np.einsum("ei,eij->ej", a, to_a[of])
        along = np.swapaxes(to_a, 1, 2) @ ac
        alpha = np.swapaxes(from_a, 1, 2)
        beta = alpha + along
        Z = Za
        # Rounding of k and w alone makes an eigenvalue of cc of 1e-32: that is proportional.
        least = 1e-28 * _largest(aa)
        if (_largest(cc) > least).any():
            to_c, from_c = _orthonormal(cc - np.swapaxes(along, 1, 2) @ along, least)
            across = c - np.einsum("ei,eij->ej", Za, along[of])
            Z = np.hstack([Za, np.einsum("ei,eij->ej", across, to_c[of])])
            alpha = np.concatenate([alpha, np.zeros_like(alpha)], axis=1)
            beta = np.concatenate([beta, np.swapaxes(from_c, 1, 2)], axis=1)
        return _Reduced(
            np.ascontiguousarray(Z),
            np.ascontiguousarray(lift(alpha / scale[:, None, None])),
            np.ascontiguousarray(lift(beta * scale[:, None, None])),
            psi,
            chi,
            spread,
            places,
        )


@dataclass(frozen=True, eq=False)
class _Reduced:
    """Constants of the second derivatives, named as in `shape_kernels`; `spread` is sum k v v^T."""

    Z: Array
    alpha: Array
    beta: Array
    psi: Array
    chi: Array
    spread: Array
    places: NDArray[np.int64]


def _lifted(x: Array) -> Array:
    """Points or velocities as the kernels see them, in space."""
    return for_kernel(lift(x))


def _largest(grams: Array) -> Array:
    """Size of each matrix (K,)."""
    return np.asarray(np.abs(grams).max((1, 2)))


def _orthonormal(grams: Array, least: Array) -> tuple[Array, Array]:
    """T and T^-1 such that T^T gram T = I; columns of eigenvalues below `least` are zero in both."""
    values, vectors = np.linalg.eigh(grams)
    kept = values > least[:, None]
    roots = np.sqrt(np.where(kept, values, 1.0))
    kept = kept[:, None]
    return np.where(kept, vectors / roots[:, None], 0.0), np.where(kept, vectors * roots[:, None], 0.0)


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
    places, uses = np.unique(groups.group_of * count + groups.indices, return_counts=True)
    if (uses > 1).any():
        k, point = divmod(int(places[uses > 1][0]), count)
        raise InputError(f"clusters: cluster {k} names point {point} twice; give it more stiffness instead")
    return groups


def _positive(name: str, value: ArrayLike, count: int) -> Array:
    """One positive number a point (n,)."""
    given = as_reals(name, value).astype(np.float64)
    if given.shape not in ((), (count,)):
        raise InputError(f"{name} must be one number or {count}, one per point, got shape {given.shape}")
    require_finite(name, given)
    numbers = np.array(np.broadcast_to(given, (count,)))
    if (numbers <= 0).any():
        i = int(numbers.argmin())
        raise InputError(
            f"{name} must be positive, got {numbers[i]:g}{f' for point {i}' if given.ndim else ''}"
        )
    return numbers


def _within(name: str, value: object, most: float = np.finfo(float).max) -> float:
    """A number from 0 to `most`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) <= most:
        limits = f"from 0 to {most:g}" if most == 1.0 else "of at least 0, finite"
        raise InputError(f"{name} must be a number {limits}, got {value!r}")
    return float(value)
