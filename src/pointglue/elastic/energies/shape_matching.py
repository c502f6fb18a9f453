"""Shape matching as an energy: points are pulled to the best rigid, linear or quadratic image of the rest."""

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from ...checks import Array, as_reals, check_flag, check_real, require_finite
from ...compute import run
from ...errors import InputError
from ...procrustes import Groups, RestShape, RigidFit
from ...procrustes import curvature as procrustes_curvature
from ...procrustes import kernels as procrustes_kernels
from ...procrustes.fit import for_kernel
from ...procrustes.space import vectors_to_space
from .base import Elements
from .kernels import shape_matching as kernels
from .kernels.shape_matching import Clusters, Goals, Reduced

__all__ = ["ShapeMatchingEnergy"]

# Clusters worth a thread of their own, for some hundred microseconds of work each.
GRAIN = 256
# Ratio of the squares of a cluster's thickness and extent: what is flatter is flat but for rounding.
MIN_THICKNESS_SQUARED = 1e-12
# Ratio of a cluster's moment to that at rest: one with less has collapsed, and its rotation has derivatives
# that are too large to be of use.
MIN_MOMENT = 1e-12
# Least eigenvalue of the quadratic coordinates' moments (of unit variance, were the points a ball): with less
# the points are too few for a quadratic map.
MIN_QUADRATIC_MOMENT = 1e-9


class ShapeMatchingEnergy(Elements):
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
        Stiffness k [N/m]; positive, and need not be proportional to the mass.
    clusters : Groups or lists of int, optional
        The points of each cluster; they may overlap. By default one cluster of all points.
    blend : float
        The share of the linear map, 0 to 1. Above 0 the points of a cluster must not lie in a plane (2D: on a
        line).
    quadratic : bool
        Whether A also takes products of coordinates; they are centred, so that goals keep the centroid.
    damping : tuple of two floats
        (alpha, beta): alpha [s] times the stiffness damps changes of shape, beta [1/s] times the mass every
        motion of the points in clusters. The potential of the damping is
        ``alpha/2 sum k |d(x - goal)/dt|^2 + beta/2 sum m |v|^2``. The force of alpha has no net part; but a
        deformed body that spins is damped too, so angular momentum is not kept.

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
        self.blend = check_real("blend", blend, at_least=0.0, at_most=1.0)
        self.quadratic = check_flag("quadratic", quadratic)
        if self.quadratic and self.blend == 0.0:
            raise InputError("quadratic says what a body may deform to, which needs a blend above 0")
        if not isinstance(damping, tuple | list) or len(damping) != 2:
            raise InputError(f"damping must be a pair (alpha, beta), got {damping!r}")
        self.damping = (
            check_real("damping[0]", damping[0], at_least=0.0),
            check_real("damping[1]", damping[1], at_least=0.0),
        )

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
        k, q = self.stiffness[groups.indices], self._coordinates(v, w)
        self._clusters = Clusters(groups.offsets, groups.indices, v, w, k, q, self.blend)

    @property
    def damped(self) -> bool:
        """Whether there is any damping."""
        return self.damping != (0.0, 0.0)

    def gauss_newton(self, x: ArrayLike) -> csr_array:
        """Return the Hessian without the curvature of R: positive semidefinite (d n, d n) [N/m]."""
        fit = self._fit(self._points("x", x))
        out = np.empty(self._elements_shape)
        self._expand(self._gauss_newton_cores(fit), self._clusters.stiffness, 1.0, out)
        return self._matrix(out)

    def rate_gradient(self, x: ArrayLike, v: ArrayLike) -> Array:
        """Return the derivative of the damping potential by the velocities v (n, d) [N]: minus the force."""
        fit, rates = self._fit(self._points("x", x)), _in_space(self._points("v", v))
        alpha, beta = self.damping
        each = np.empty(self._entry_shape)
        self._write_gradients(rates, self._rates(fit, rates), fit, each)
        return alpha * self._gathered(each) + beta * (self._damped_mass * rates.T[: self.dimension]).T

    def rate_elements(self, x: ArrayLike, v: ArrayLike, *, symmetric: bool = False) -> tuple[Array, Array]:
        """Return the derivatives of `rate_gradient` by x and by v, cluster by cluster, as :meth:`elements`.

        That by x is not symmetric; `symmetric` takes the mean of it and its transpose. That by v is
        symmetric and positive semidefinite.
        """
        fit, rates = self._fit(self._points("x", x)), _in_space(self._points("v", v))
        alpha, beta = self.damping
        by_x, by_v = np.empty(self._elements_shape), np.empty(self._elements_shape)
        D = self._rate_cores(fit, rates, symmetric)
        k = self._clusters.stiffness
        self._expand(D, np.zeros_like(k), 0.0, by_x)
        share = (beta * self.mass / np.maximum(self._uses, 1))[self.stencils.indices]
        self._expand(alpha * self._gauss_newton_cores(fit), alpha * k + share, alpha, by_v)
        return by_x, by_v

    def rate_hessians(
        self, x: ArrayLike, v: ArrayLike, *, symmetric: bool = False
    ) -> tuple[csr_array, csr_array]:
        """Return the same as matrices (d n, d n) [N/m and N s/m]."""
        by_x, by_v = self.rate_elements(x, v, symmetric=symmetric)
        return self._matrix(by_x), self._matrix(by_v)

    def _fit(self, x: Array) -> RigidFit:
        """Return the fits, with the rotation of a collapsed cluster taken as constant."""
        fit = self._shape.fit(x, on_degenerate="clamp")
        collapsed = np.abs(fit.arrays.A).max(1) < MIN_MOMENT * self._rest_moments
        return fit.with_constant_rotations(collapsed)

    def _values(self, x: Array, out: Array) -> None:
        fit = self._shape.fit(x, on_degenerate="clamp")
        run(kernels.values, len(self), GRAIN, _in_space(x), self._clusters, _goals(fit), out)

    def _gradients(self, x: Array, out: Array) -> None:
        fit = self._fit(x)
        self._write_gradients(_in_space(x), _goals(fit), fit, out)

    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        fit = self._fit(x)
        D = self._core_array()
        if D.size:
            R, G, reduced = fit.arrays.R, fit.compliances, self._reduced
            P = self._moments(_in_space(x), _goals(fit))
            run(kernels.add_goal_moments, len(self), 1024, R, reduced, P)
            run(kernels.cores, len(self), GRAIN, R, G, reduced, self._rotation_hessians(fit, P), D)
            if project:
                run(kernels.project, len(self), 32, D)
        self._expand(D, self._clusters.stiffness, 1.0, out)

    def _write_gradients(self, x: Array, goals: Goals, fit: RigidFit, out: Array) -> None:
        """Write the gradient of each entry to `out`, see `kernels.gradients`."""
        R, G = fit.arrays.R, fit.compliances
        run(kernels.gradients, len(self), GRAIN, x, self._clusters, goals, R, G, out)

    def _moments(self, x: Array, goals: Goals) -> Array:
        """Return the moments (K, 9) of `kernels.moments`."""
        P = np.empty((len(self), 9))
        run(kernels.moments, len(self), GRAIN, x, self._clusters, goals, P)
        return P

    def _rates(self, fit: RigidFit, rates: Array) -> Goals:
        """Return the rates of the centroids and of R."""
        R, t, _ = fit.arrays
        dR, dt = np.empty_like(R), np.empty_like(t)
        rest, G = fit.rest.arrays, fit.compliances
        run(procrustes_kernels.jvp, len(dR), 4096, rest, rates[None], R, G, dR, dt)
        return Goals(dt, dR)

    def _core_array(self) -> Array:
        size = self.dimension * self._reduced.alpha.shape[1]
        return np.empty((len(self), size, size))

    def _rotation_hessians(self, fit: RigidFit, P: Array) -> Array:
        """Return the Hessian of <P, R> for the points of the reduced clusters (K, r r, 9)."""
        count, alpha = len(self), self._reduced.alpha
        r = alpha.shape[1]
        offsets, block_offsets = for_kernel(r * np.arange(count + 1)), r * r * np.arange(count + 1)
        out = np.empty((1, count * r * r, 9))
        run(
            procrustes_curvature.hessian,
            count,
            GRAIN,
            offsets,
            block_offsets,
            alpha.reshape(-1, 3),
            fit.rotation_arrays,
            P,
            out,
        )
        return out.reshape(count, r * r, 9)

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
            D *= self.damping[0]
            if symmetric:
                D = 0.5 * (D + np.swapaxes(D, 1, 2))
        return D

    def _expand(self, D: Array, diagonal: Array, stiff: float, out: Array) -> None:
        """Write the matrices of all clusters to `out`, see `kernels.expand`."""
        run(kernels.expand, len(self.stencils.indices), 1024, self._reduced, diagonal, stiff, D, out)

    @cached_property
    def _uses(self) -> NDArray[np.int64]:
        """The number of clusters that each point belongs to (n,)."""
        return np.bincount(self.stencils.indices, minlength=self.count)

    @cached_property
    def _damped_mass(self) -> Array:
        return np.where(self._uses > 0, self.mass, 0.0)

    def _grams(self, weights: Array, a: Array, b: Array) -> Array:
        """Return the sums of weights a b^T over each cluster."""
        out = np.empty((len(self), a.shape[1], b.shape[1]))
        run(kernels.grams, len(self), GRAIN, self.stencils.offsets, weights, a, b, out)
        return out

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

    @cached_property
    def _reduced(self) -> Reduced:
        """The constants of the second derivatives, see `kernels.shape_matching`."""
        groups, g = self.stencils, self.blend
        _, _, offset, w, k, q, _ = self._clusters
        of, K, d = groups.group_of, len(self), self.dimension
        phi = np.hstack([np.ones((len(w), 1)), q])
        psi = w[:, None] * np.hstack([np.ones((len(w), 1)), g * q])
        chi = k[:, None] * phi - 0.5 * np.einsum("ei,eij->ej", psi, self._grams(k, phi, phi)[of])
        second_moments = self._grams(k, offset, offset).reshape(K, 9)
        starts = np.concatenate([[0], np.cumsum((d * groups.sizes) ** 2)])

        def reduced(Z: Array, alpha: Array, beta: Array) -> Reduced:
            return Reduced(
                d, 1.0 - g, Z, alpha, beta, psi, chi, second_moments, of, groups.offsets, starts
            )  # fmt: skip

        if g == 1.0:
            nothing = np.empty((K, 0, 3))
            return reduced(np.empty((len(w), 0)), nothing, nothing)

        # Stiffness in proportion to mass, k = kappa w, makes b a multiple of a. So b is taken as that plus
        # the rest c, from numbers that vanish with it: both scaled to one size, their inner products are
        kappa = np.add.reduceat(k, groups.offsets[:-1])
        scale = np.sqrt(kappa)
        ratio = k / (kappa[of] * w)
        v = np.ascontiguousarray(offset[:, :d])
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
        return reduced(
            np.ascontiguousarray(Z),
            np.ascontiguousarray(vectors_to_space(alpha / scale[:, None, None])),
            np.ascontiguousarray(vectors_to_space(beta * scale[:, None, None])),
        )


def _in_space(x: Array) -> Array:
    """Return points or velocities as kernels read them, embedded in space."""
    return for_kernel(vectors_to_space(x))


def _goals(fit: RigidFit) -> Goals:
    """Return where the clusters are."""
    return Goals(fit.arrays.t, fit.arrays.R)


def _largest(grams: Array) -> Array:
    """Return the largest entry of each matrix (K,)."""
    return np.asarray(np.abs(grams).max((1, 2)))


def _orthonormal(grams: Array, least: Array) -> tuple[Array, Array]:
    """Return T and T^-1 such that T^T gram T = I; columns of eigenvalues below `least` are zero in both."""
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
    repeat = groups.first_repeat()
    if repeat is not None:
        k, point = repeat
        raise InputError(f"clusters: cluster {k} names point {point} twice; give it more stiffness instead")
    return groups


def _positive(name: str, value: ArrayLike, count: int) -> Array:
    """Return one positive number a point (n,), or raise."""
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
