"""The rigid fit for JAX: jit, vmap, grad, jacfwd, jacrev and hessian, of any order.

Written in jax.numpy alone, so it runs wherever JAX runs. The rotation has a derivative rule of its
own, a formula in R and M (explanation/derivations), and JAX differentiates that formula further: no
derivative passes through a decomposition. With JAX's default of 32 bits the results have 32 bits;
``jax.config.update("jax_enable_x64", True)`` gives all 64.
"""

from typing import Any, NamedTuple, TypeAlias

try:
    import jax
except ImportError as error:
    from ..errors import MissingDependencyError

    raise MissingDependencyError("JAX is not installed: pip install 'pointglue[jax]'") from error

import jax.numpy as jnp

from ..errors import InputError
from .algebra import OUT_OF_PLANE

__all__ = ["RigidFit", "fit_rigid", "special_procrustes"]

JaxArray: TypeAlias = Any  # jax.Array, or a tracer of one

# As in NumPy for 64 bits; in 32 bits the moments of points on a line have a gap of about 1e-7.
_MIN_GAP = {True: 1e-8, False: 1e-5}


class RigidFit(NamedTuple):
    """The result of :func:`fit_rigid`: ``points ~ rotation @ rest + translation``.

    Attributes
    ----------
    rotation : (..., d, d)
        Rotations R.
    translation : (..., d)
        Translations.
    stretch : (..., d, d)
        S = R^T A of the moments A, symmetric.
    """

    rotation: JaxArray
    translation: JaxArray
    stretch: JaxArray

    @property
    def singular_values(self) -> JaxArray:
        """The singular values of the moments (..., d): descending, the smallest signed."""
        return jnp.linalg.eigvalsh(self.stretch)[..., ::-1]

    @property
    def gap(self) -> JaxArray:
        """(s2 + s3) / s1, in 2D (s1 + s2) / s1 (...): look at it, under jit nothing can raise."""
        s = self.singular_values
        s1 = s[..., 0]
        return jnp.where(s1 > 0, (s[..., -2] + s[..., -1]) / jnp.where(s1 > 0, s1, 1.0), 0.0)

    def apply(self, p: JaxArray) -> JaxArray:
        """Transform points p (..., m, d), or one point (d,), from the rest space to the current space."""
        p = jnp.asarray(p)
        if p.ndim == 1:
            return self.rotation @ p + self.translation
        return p @ self.rotation.mT + self.translation[..., None, :]


def fit_rigid(rest: JaxArray, points: JaxArray, weights: JaxArray | None = None) -> RigidFit:
    """Fit the rotation and translation that bring `rest` closest to `points`; differentiable by all three.

    Traced code cannot raise, so that a fit which its points do not determine is always clamped: its
    derivative fades to zero along the free spin, and `gap` tells.

    Parameters
    ----------
    rest, points : (..., n, d)
        Rest and current positions, d = 2 or 3; leading shapes broadcast.
    weights : (..., n), optional
        Non-negative and not all zero, which is not checked: their values may be traced. By default all are
        equal. Pad sets of different sizes with points of weight zero.

    Returns
    -------
    RigidFit
        The rotations (..., d, d) and translations (..., d), with their conditioning.

    Raises
    ------
    InputError
        If the shapes do not go together, or the arguments hold no real numbers.
    """
    rest, points = _as_array("rest", rest), _as_array("points", points)
    for name, value in (("rest", rest), ("points", points)):
        if value.ndim < 2 or value.shape[-1] not in (2, 3) or value.shape[-2] == 0:
            raise InputError(f"{name} must have shape (..., n, 3) or (..., n, 2), got {value.shape}")
    if rest.shape[-2:] != points.shape[-2:]:
        raise InputError(f"points must match rest in (n, d) = {rest.shape[-2:]}, got {points.shape[-2:]}")
    weights = jnp.ones(rest.shape[-2], points.dtype) if weights is None else _as_array("weights", weights)
    if weights.ndim == 0 or weights.shape[-1] != rest.shape[-2]:
        raise InputError(f"weights must have shape (..., {rest.shape[-2]}), got {weights.shape}")
    try:
        jnp.broadcast_shapes(rest.shape[:-2], points.shape[:-2], weights.shape[:-1])
    except ValueError as error:
        shapes = ", ".join(str(x.shape) for x in (rest, points, weights))
        raise InputError(
            f"rest, points and weights must have leading shapes that broadcast, got {shapes}"
        ) from error
    w = weights[..., None] / weights.sum(-1)[..., None, None]
    rest_centroid, centroid = (w * rest).sum(-2), (w * points).sum(-2)
    moment = (points - centroid[..., None, :]).mT @ (w * (rest - rest_centroid[..., None, :]))
    R = special_procrustes(moment)
    translation = centroid - (R @ rest_centroid[..., None])[..., 0]
    return RigidFit(R, translation, _symmetric(R.mT @ moment))


def special_procrustes(M: JaxArray) -> JaxArray:
    """Return the rotation R that minimises ``|M - R|``, for a batch of matrices.

    Parameters
    ----------
    M : (..., d, d)
        Matrices, d = 2 or 3.

    Returns
    -------
    (..., d, d)
        Proper rotations.

    Raises
    ------
    InputError
        If the shape is another.
    """
    M = _as_array("M", M)
    if M.shape[-2:] == (3, 3):
        return _rotation(M)
    if M.shape[-2:] != (2, 2):
        raise InputError(f"M must have shape (..., 3, 3) or (..., 2, 2), got {M.shape}")
    # The largest singular value out of the plane keeps the rotation in it; R does not depend on it.
    a, b, c, d = (jax.lax.stop_gradient(M[..., i, j]) for i in range(2) for j in range(2))
    s1 = OUT_OF_PLANE * (jnp.hypot(a + d, c - b) + jnp.hypot(a - d, c + b))
    embedded = jnp.pad(M, [(0, 0)] * (M.ndim - 2) + [(0, 1), (0, 1)])
    return _rotation(embedded.at[..., 2, 2].set(s1))[..., :2, :2]


def _as_array(name: str, value: Any) -> JaxArray:
    """Return `value` as an array of 32 or 64 bits: JAX decomposes no smaller ones."""
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers, got {type(value).__name__}") from error
    if not jnp.issubdtype(array.dtype, jnp.floating) and not jnp.issubdtype(array.dtype, jnp.integer):
        raise InputError(f"{name} must hold real numbers, got {array.dtype}")
    return array.astype(jnp.promote_types(array.dtype, jnp.float32))


@jax.custom_jvp  # type: ignore[untyped-decorator]
def _rotation(M: JaxArray) -> JaxArray:
    U, _, Vh = jnp.linalg.svd(M)
    sign = jnp.sign(jnp.linalg.det(U @ Vh))
    return U.at[..., 2].multiply(sign[..., None]) @ Vh


@_rotation.defjvp  # type: ignore[untyped-decorator]
def _rotation_jvp(primals: tuple[JaxArray], tangents: tuple[JaxArray]) -> tuple[JaxArray, JaxArray]:
    """DR(M)[D] = R [omega]x, (tr(S) I - S) omega = vee(R^T D - D^T R)."""
    (M,), (D,) = primals, tangents
    R = _rotation(M)
    B = R.mT @ D
    k = jnp.stack([B[..., 2, 1] - B[..., 1, 2], B[..., 0, 2] - B[..., 2, 0], B[..., 1, 0] - B[..., 0, 1]], -1)
    x, y, z = jnp.moveaxis(_spin(_symmetric(R.mT @ M), k), -1, 0)
    o = jnp.zeros_like(x)
    cross = jnp.stack([o, -z, y, z, o, -x, -y, x, o], -1).reshape(*x.shape, 3, 3)
    return R, R @ cross


def _symmetric(S: JaxArray) -> JaxArray:
    return 0.5 * (S + S.mT)


def _spin(S: JaxArray, k: JaxArray) -> JaxArray:
    """Return (tr(S) I - S)^-1 k, fading to zero along a free spin as `matrices.spin_compliances` does."""
    H = jnp.trace(S, axis1=-2, axis2=-1)[..., None, None] * jnp.eye(3, dtype=S.dtype) - S
    inverse, _ = _inverses(H)
    return (inverse @ k[..., None])[..., 0]


@jax.custom_jvp  # type: ignore[untyped-decorator]
def _inverses(H: JaxArray) -> tuple[JaxArray, JaxArray]:
    """Return the clamped inverses of symmetric H, and the same with zeros where one is clamped."""
    mu, V = jnp.linalg.eigh(H)
    threshold = (
        _MIN_GAP[H.dtype == jnp.float64] * (jnp.trace(H, axis1=-2, axis2=-1) / 2 - mu[..., 0])[..., None]
    )
    square = jnp.where(threshold > 0, threshold * threshold, jnp.inf)
    inverse = jnp.where(mu > threshold, 1 / jnp.where(mu > threshold, mu, 1.0), jnp.maximum(mu, 0.0) / square)
    clamped = (V * inverse[..., None, :]) @ V.mT
    return clamped, jnp.where((mu > threshold).all(-1)[..., None, None], clamped, 0.0)


@_inverses.defjvp  # type: ignore[untyped-decorator]
def _inverses_jvp(
    primals: tuple[JaxArray], tangents: tuple[JaxArray]
) -> tuple[tuple[JaxArray, JaxArray], tuple[JaxArray, JaxArray]]:
    """D(H^-1)[D] = -H^-1 D H^-1; what is clamped has no derivative."""
    inverse, regular = _inverses(*primals)
    change = -regular @ tangents[0] @ regular
    return (inverse, regular), (change, change)
