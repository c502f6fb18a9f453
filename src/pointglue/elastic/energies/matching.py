"""Clusters of points that are pulled to goals which turn with them: what energy and damping share."""

from functools import cached_property

import numpy as np

from ...checks import Array
from ...compute import run
from ...procrustes import Groups, RestShape, RigidFit
from ...procrustes import curvature as procrustes_curvature
from ...procrustes.fit import for_kernel
from ...procrustes.space import vectors_to_space
from .base import Elements
from .kernels import shape_matching as kernels
from .kernels.shape_matching import Clusters, Goals, Reduced

__all__ = ["GRAIN", "Matching", "goals_of", "in_space"]

# Clusters worth a thread of their own, for some hundred microseconds of work each.
GRAIN = 256
# Ratio of a cluster's moment to that at rest: one with less has collapsed, and its rotation has derivatives
# that are too large to be of use.
MIN_MOMENT = 1e-12


class Matching(Elements):
    """``1/2 sum_r k_r |d_r|^2`` over clusters, see `kernels.shape_matching`.

    Attributes
    ----------
    stencils : Groups
        The points of each cluster.
    """

    stencils: Groups
    _shape: RestShape
    _rest_moments: Array
    _clusters: Clusters

    def _fit(self, x: Array) -> RigidFit:
        """Return the fits, with the rotation of a collapsed cluster taken as constant."""
        fit = self._shape.fit(x, on_degenerate="clamp")
        collapsed = np.abs(fit.arrays.A).max(1) < MIN_MOMENT * self._rest_moments
        return fit.with_constant_rotations(collapsed)

    def _values(self, x: Array, out: Array) -> None:
        fit = self._shape.fit(x, on_degenerate="clamp")
        run(kernels.values, len(self), GRAIN, in_space(x), self._clusters, goals_of(fit), out)

    def _gradients(self, x: Array, out: Array) -> None:
        fit = self._fit(x)
        self._write_gradients(in_space(x), goals_of(fit), fit, out)

    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        fit = self._fit(x)
        D = self._core_array()
        if D.size:
            R, G, reduced = fit.arrays.R, fit.compliances, self._reduced
            P = self._moments(in_space(x), goals_of(fit))
            run(kernels.add_goal_moments, len(self), 1024, R, reduced, P)
            run(kernels.cores, len(self), GRAIN, R, G, reduced, self._rotation_hessians(fit, P), D)
            if project:
                run(kernels.project, len(self), 32, reduced, D)
        self._expand(D, self._diagonal(), 1.0, out)

    def _diagonal(self) -> Array:
        """Return the diagonal of the Hessian without the parts that couple points (E,) [N/m]."""
        return self._clusters.stiffness

    def _write_gradients(self, x: Array, goals: Goals, fit: RigidFit, out: Array) -> None:
        """Write the gradient of each entry to `out`, see `kernels.gradients`."""
        R, G = fit.arrays.R, fit.compliances
        run(kernels.gradients, len(self), GRAIN, x, self._clusters, goals, R, G, out)

    def _moments(self, x: Array, goals: Goals) -> Array:
        """Return the moments (K, 9) of `kernels.moments`."""
        P = np.empty((len(self), 9))
        run(kernels.moments, len(self), GRAIN, x, self._clusters, goals, P)
        return P

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
            for_kernel(alpha.reshape(-1, 3)),
            fit.rotation_arrays,
            P,
            out,
        )
        return out.reshape(count, r * r, 9)

    def _expand(self, D: Array, diagonal: Array, stiff: float, out: Array) -> None:
        """Write the matrices of all clusters to `out`, see `kernels.expand`."""
        run(kernels.expand, len(self.stencils.indices), 1024, self._reduced, diagonal, stiff, D, out)

    def _grams(self, weights: Array, a: Array, b: Array) -> Array:
        """Return the sums of weights a b^T over each cluster."""
        out = np.empty((len(self), a.shape[1], b.shape[1]))
        run(kernels.grams, len(self), GRAIN, self.stencils.offsets, weights, a, b, out)
        return out

    @cached_property
    def _reduced(self) -> Reduced:
        """The constants of the second derivatives, see `kernels.shape_matching`."""
        groups, (_, _, v, w, k, q, g, u) = self.stencils, self._clusters
        of, K, d = groups.group_of, len(self), self.dimension
        ones = np.ones((len(w), 1))
        phi, psi = np.hstack([ones, q]), w[:, None] * np.hstack([ones, g * q])
        chi = k[:, None] * phi - 0.5 * np.einsum("ei,eij->ej", psi, self._grams(k, phi, phi)[of])
        second_moments = self._grams(k, u, u).reshape(K, 9)
        starts = np.concatenate([[0], np.cumsum((d * groups.sizes) ** 2)])

        def reduced(inside: Array, Z: Array, alpha: Array, beta: Array) -> Reduced:
            return Reduced(
                dimension=d,
                inside=inside,
                Z=for_kernel(Z),
                alpha=for_kernel(alpha),
                beta=for_kernel(beta),
                psi=psi,
                chi=chi,
                second_moments=second_moments,
                cluster_of=of,
                offsets=groups.offsets,
                starts=starts,
            )

        if not (u.any() and k.any()):
            nothing = np.empty((K, 0, 3))
            return reduced(np.empty(0), np.empty((len(w), 0)), nothing, nothing)

        # With y = K^(1/2) s, columns L^T K s are orthonormal if the y are, and orthogonal to what L^T K^(1/2)
        # makes zero: to K^(-1/2) w, and for g = 1 to K^(-1/2) Psi. It makes a of K^(-1/2) a / (1 - g).
        root = np.sqrt(k)[:, None]
        a = w[:, None] * v
        inside, lost = np.ones(6), 1 if g < 1.0 else psi.shape[1]
        pulled = [a / (root * (1.0 - g))] if g < 1.0 else []
        y, T = self._orthonormal(psi[:, :lost] / root, *pulled, root * u)
        Z = root * y[:, lost:]
        Z -= np.einsum("ei,eij->ej", psi, self._grams(np.ones(len(w)), phi, Z)[of])
        alpha, beta = T[:, lost:, lost:-3], T[:, lost:, -3:]
        if g == 1.0:
            # a is outside of what N spans: columns of any size do, here one that suits N.
            total = np.add.reduceat((a * a).sum(1), groups.offsets[:-1])
            scale = np.sqrt(np.add.reduceat(k, groups.offsets[:-1]) / total)
            used = self._grams(np.ones(len(w)), np.abs(a), ones)[:, :, 0] > 0.0
            own = np.where(used, 1.0 / scale[:, None], 0.0)[:, :, None] * np.eye(3)
            Z, inside = np.hstack([scale[of, None] * a, Z]), np.repeat([0.0, 1.0], 3)
            alpha = np.concatenate([own, np.zeros_like(own)], axis=1)
            beta = np.concatenate([np.zeros_like(beta), beta], axis=1)
        r = 6 if Z[:, 3:].any() else 3
        return reduced(inside[:r], Z[:, :r], alpha[:, :r], beta[:, :r])

    def _orthonormal(self, *parts: Array) -> tuple[Array, Array]:
        """Return columns (E, c) that are orthonormal in each cluster, and T, see `kernels.orthonormalise`."""
        columns = np.ascontiguousarray(np.hstack(parts))
        squares = [np.add.reduceat(part**2, self.stencils.offsets[:-1]) for part in parts]
        sizes = np.hstack([np.sqrt(np.broadcast_to(s.max(1, keepdims=True), s.shape)) for s in squares])
        T = np.empty((len(self), columns.shape[1], columns.shape[1]))
        run(kernels.orthonormalise, len(self), GRAIN, self.stencils.offsets, sizes, columns, T)
        return columns, T


def in_space(x: Array) -> Array:
    """Return points or velocities as kernels read them, embedded in space."""
    return for_kernel(vectors_to_space(x))


def goals_of(fit: RigidFit) -> Goals:
    """Return where the clusters are."""
    return Goals(fit.arrays.t, fit.arrays.R)
