"""The rigid fit for PyTorch: differentiable any number of times, by points, rest and weights.

The derivative of the rotation R of a matrix M never passes through a decomposition. DR(M)[D] = R
[omega]x is a symmetric linear map, so that one function, `_Derivative`, is the backward and the forward
derivative of R at once, and its own derivative is D2R(M)[D1, D2] (explanation/derivations). Tensors on the
CPU go through the package's kernels, others through torch alone. ``torch.func`` transforms (vmap,
grad, jvp, jacrev, jacfwd, hessian) work.
"""

from typing import Any, NamedTuple

try:
    import torch
except ImportError as error:
    from ..errors import MissingDependencyError

    raise MissingDependencyError("PyTorch is not installed: pip install 'pointglue[torch]'") from error

import numpy as np
from torch import Tensor
from torch.autograd import Function

from ..checks import Array
from ..compute import run
from ..errors import DegenerateFitError, InputError
from . import kernels, matrices, rotation
from .algebra import OUT_OF_PLANE
from .matrices import OnDegenerate

__all__ = ["RigidFit", "fit_rigid", "special_procrustes"]


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

    rotation: Tensor
    translation: Tensor
    stretch: Tensor

    @property
    def singular_values(self) -> Tensor:
        """The singular values of the moments (..., d): descending, the smallest signed."""
        return _singular_values(self.stretch)

    @property
    def gap(self) -> Tensor:
        """(s2 + s3) / s1, in 2D (s1 + s2) / s1 (...)."""
        s = self.singular_values
        positive = s[..., 0] > 0
        return torch.where(positive, (s[..., -2] + s[..., -1]) / torch.where(positive, s[..., 0], 1.0), 0.0)

    def apply(self, p: Tensor) -> Tensor:
        """Transform points p (..., m, d), or one point (d,), from the rest space to the current space."""
        p = torch.as_tensor(p, dtype=self.rotation.dtype, device=self.rotation.device)
        if p.ndim == 1:
            return (self.rotation @ p[:, None])[..., 0] + self.translation
        return p @ self.rotation.mT + self.translation[..., None, :]


def fit_rigid(
    rest: Tensor,
    points: Tensor,
    weights: Tensor | None = None,
    *,
    on_degenerate: OnDegenerate = "raise",
    min_gap: float | None = None,
) -> RigidFit:
    """Fit the rotation and translation that bring `rest` closest to `points`; differentiable by all three.

    The derivative is exact wherever the rotation is determined, and of any order.

    Parameters
    ----------
    rest, points : (..., n, d)
        Rest and current positions, d = 2 or 3; leading shapes broadcast.
    weights : (..., n), optional
        Non-negative and not all zero, which is not checked: their values may be traced. By default all are
        equal. Pad sets of different sizes with points of weight zero.
    on_degenerate : {"raise", "clamp"}
        What to do when the points do not determine a rotation: raise (which waits for the device, if it is
        not the CPU), or let the derivative fade to zero along the undetermined spin.
    min_gap : float, optional
        The least gap that counts as determined, as in :func:`pointglue.fit_rigid`.


    Returns
    -------
    RigidFit
        The rotations (..., d, d) and translations (..., d), with their conditioning.

    Raises
    ------
    InputError
        If the shapes do not go together, or the arguments are no tensors of real numbers.
    DegenerateFitError
        If a rotation is not determined and `on_degenerate` is "raise".
    """
    for name, value in (("rest", rest), ("points", points)):
        if not isinstance(value, Tensor) or not value.is_floating_point():
            raise InputError(f"{name} must be a tensor of floating point numbers, got {_kind(value)}")
        if value.ndim < 2 or value.shape[-1] not in (2, 3) or value.shape[-2] == 0:
            raise InputError(f"{name} must have shape (..., n, 3) or (..., n, 2), got {tuple(value.shape)}")
    if rest.shape[-2:] != points.shape[-2:]:
        raise InputError(
            f"points must match rest in (n, d) = {tuple(rest.shape[-2:])}, got {tuple(points.shape[-2:])}"
        )
    least = matrices.checked_policy(on_degenerate, min_gap)
    if min_gap is None and torch.float64 not in (rest.dtype, points.dtype):
        least = matrices.DEFAULT_MIN_GAP_32
    if weights is None:
        weights = points.new_ones(rest.shape[-2])
    elif not isinstance(weights, Tensor):
        raise InputError(f"weights must be a tensor, got {_kind(weights)}")
    elif weights.ndim == 0 or weights.shape[-1] != rest.shape[-2]:
        raise InputError(f"weights must have shape (..., {rest.shape[-2]}), got {tuple(weights.shape)}")
    dtype = torch.promote_types(rest.dtype, points.dtype)
    # In 64 bits, as the NumPy path computes: otherwise rounding alone gives a line some width.
    rest, points, weights = rest.double(), points.double(), weights.double()
    try:
        torch.broadcast_shapes(rest.shape[:-2], points.shape[:-2], weights.shape[:-1])
    except RuntimeError as error:
        shapes = ", ".join(str(tuple(x.shape)) for x in (rest, points, weights))
        raise InputError(
            f"rest, points and weights must have leading shapes that broadcast, got {shapes}"
        ) from error
    w = weights[..., None] / weights.sum(-1)[..., None, None]
    rest_centroid, centroid = (w * rest).sum(-2), (w * points).sum(-2)
    offsets = points - centroid[..., None, :]
    moment = offsets.mT @ (w * (rest - rest_centroid[..., None, :]))
    R = _nearest_rotation(moment, least, on_degenerate == "raise")
    translation = centroid - (R @ rest_centroid[..., None])[..., 0]
    return RigidFit(R.to(dtype), translation.to(dtype), _symmetric(R.mT @ moment).to(dtype))


def special_procrustes(
    M: Tensor, regularization: float = 0.0, *, return_singular_values: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the rotation R that minimises ``|M - R|``, for a batch of matrices; called as in RoMa.

    There is no `gradient_eps`, the third argument of RoMa: the derivative is exact wherever R is determined
    and fades to zero along a spin that is not. What follows it is given by keyword here, so that a call with
    RoMa's positional arguments either means the same or raises a TypeError.

    Parameters
    ----------
    M : (..., d, d)
        Matrices, d = 2 or 3.
    regularization : float
        Adds ``regularization (M - R)`` to the gradient by M of backward passes, which pulls M towards R as a
        term of the loss would; forward mode is left alone.
    return_singular_values : bool
        Whether to return the singular values, the smallest signed, as well.

    Returns
    -------
    R : (..., d, d)
        Proper rotations.
    singular_values : (..., d), if asked for
        Descending, the smallest signed.

    Raises
    ------
    InputError
        If M is no tensor of floating point numbers, or has another shape.
    """
    if not isinstance(M, Tensor) or not M.is_floating_point() or M.shape[-2:] not in ((2, 2), (3, 3)):
        raise InputError(f"M must be a floating point tensor (..., 3, 3) or (..., 2, 2), got {_kind(M)}")
    least = matrices.DEFAULT_MIN_GAP if M.dtype == torch.float64 else matrices.DEFAULT_MIN_GAP_32
    R = _nearest_rotation(M, least, False)
    values = _singular_values(_symmetric(R.mT @ M)) if return_singular_values else None
    if regularization:
        R = _Regularised.apply(M, R, regularization)
    return R if values is None else (R, values)


def _kind(value: object) -> str:
    if isinstance(value, Tensor):
        return f"shape {tuple(value.shape)} of {value.dtype}"
    return type(value).__name__


def _nearest_rotation(M: Tensor, min_gap: float, must_be_regular: bool) -> Tensor:
    if torch.compiler.is_compiling():
        # torch.compile cannot see into the kernels: it has to break its graph here. (As a decorator
        # this would cost all users a second of import.)
        return torch.compiler.disable(_rotation_of)(M, min_gap, must_be_regular)
    return _rotation_of(M, min_gap, must_be_regular)


def _rotation_of(M: Tensor, min_gap: float, must_be_regular: bool) -> Tensor:
    if M.shape[-1] == 3:
        R: Tensor = _Rotation.apply(M, min_gap, must_be_regular)
        return R
    # As in `kernels`: the largest singular value out of the plane keeps the rotation in it. R does
    # not depend on that number, so it is a constant.
    A = M.detach()
    a, b, c, d = A[..., 0, 0], A[..., 0, 1], A[..., 1, 0], A[..., 1, 1]
    s1 = OUT_OF_PLANE * (torch.hypot(a + d, c - b) + torch.hypot(a - d, c + b))
    embedded = torch.nn.functional.pad(M, (0, 1, 0, 1))
    out_of_plane = torch.zeros(3, 3, dtype=M.dtype, device=M.device)
    out_of_plane[2, 2] = 1.0
    R = _Rotation.apply(embedded + s1[..., None, None] * out_of_plane, min_gap, must_be_regular)
    return R[..., :2, :2]


def _singular_values(S: Tensor) -> Tensor:
    """Return the eigenvalues of the stretch, descending; once differentiable where they repeat."""
    return torch.linalg.eigvalsh(S.double()).flip(-1).to(S.dtype)


def _symmetric(S: Tensor) -> Tensor:
    return 0.5 * (S + S.mT)


def _cross(w: Tensor) -> Tensor:
    """[w]x (..., 3, 3)."""
    x, y, z = w.unbind(-1)
    o = torch.zeros_like(x)
    return torch.stack([o, -z, y, z, o, -x, -y, x, o], -1).unflatten(-1, (3, 3))


def _vee(M: Tensor) -> Tensor:
    """Return the axial vector vee(M - M^T) (..., 3)."""
    return torch.stack(
        [M[..., 2, 1] - M[..., 1, 2], M[..., 0, 2] - M[..., 2, 0], M[..., 1, 0] - M[..., 0, 1]], -1
    )


def _trace_minus(S: Tensor) -> Tensor:
    """tr(S) I - S."""
    trace = S.diagonal(dim1=-2, dim2=-1).sum(-1)
    return trace[..., None, None] * torch.eye(3, dtype=S.dtype, device=S.device) - S


def _spin(S: Tensor, k: Tensor, min_gap: float) -> Tensor:
    """omega = (tr(S) I - S)^-1 k, fading to zero along a free spin as `matrices.spin_compliances` does."""
    H = _trace_minus(S)
    with torch.no_grad():
        mu, V = torch.linalg.eigh(H.detach())
        threshold = min_gap * (H.diagonal(dim1=-2, dim2=-1).sum(-1) / 2 - mu[..., 0])
        threshold = threshold[..., None]
        fading = mu.clamp_min(0) / torch.where(threshold > 0, threshold * threshold, torch.inf)
        regular = mu > threshold
        clamped = (V * torch.where(regular, 1 / mu, fading)[..., None, :]) @ V.mT
        regular = regular.all(-1)[..., None]
    # Only the solve is differentiated: the eigenvectors only serve where there is no derivative.
    safe = torch.where(regular[..., None], H, torch.eye(3, dtype=H.dtype, device=H.device))
    solved = torch.linalg.solve(safe, k[..., None])[..., 0]
    return torch.where(regular, solved, (clamped @ k[..., None])[..., 0])


def _derivative(M: Tensor, R: Tensor, D: Tensor, min_gap: float) -> Tensor:
    """DR(M)[D] = R [omega]x in plain torch."""
    return R @ _cross(_spin(_symmetric(R.mT @ M), _vee(R.mT @ D), min_gap))


def _second_derivative(M: Tensor, R: Tensor, D1: Tensor, D2: Tensor, min_gap: float) -> Tensor:
    """D2R(M)[D1, D2]; the formula of `algebra.rotation_second_derivative`."""
    S = _symmetric(R.mT @ M)
    B1, B2 = R.mT @ D1, R.mT @ D2
    w1, w2 = _spin(S, _vee(B1), min_gap), _spin(S, _vee(B2), min_gap)
    T1 = _trace_minus(_symmetric(B1 - _cross(w1) @ S))
    T2 = _trace_minus(_symmetric(B2 - _cross(w2) @ S))
    c1, c2 = w1[..., None], w2[..., None]
    k = T1 @ c2 + T2 @ c1 - 0.5 * (_cross(w1) @ (S @ c2) + _cross(w2) @ (S @ c1))
    return R @ (_symmetric(_cross(w2) @ _cross(w1)) - _cross(_spin(S, k[..., 0], min_gap)))


def _rows(M: Tensor) -> Array:
    """Return matrices as rows of nine, for a kernel."""
    return np.ascontiguousarray(M.to(torch.float64).numpy(force=True)).reshape(-1, 9)


def _moved(batched: tuple[Any, ...], dims: tuple[int | None, ...], size: int) -> list[Any]:
    """Return the arguments of a vmapped call with the mapped axis in front, whether they had it or not."""
    return [
        value if not isinstance(value, Tensor)
        else value.expand(size, *value.shape) if dim is None
        else value.movedim(dim, 0)
        for value, dim in zip(batched, dims, strict=True)
    ]  # fmt: skip


class _Rotation(Function):  # type: ignore[misc]
    """M (..., 3, 3) -> R."""

    @staticmethod
    def forward(M: Tensor, min_gap: float, must_be_regular: bool) -> Tensor:
        if M.device.type == "cpu":
            A = _rows(M)
            result = torch.empty(M.shape, dtype=torch.float64)
            rows = result.numpy().reshape(-1, 9)
            _, status = matrices.nearest_rotations(A, np.eye(3).reshape(1, 9), min_gap, rows)
            if (status == rotation.NOT_FINITE).any():
                raise InputError("the points, rest, weights or matrices must be finite, got nan or inf")
            degenerate = bool(status.any())
            result = result.to(M.dtype)
        else:
            U, s, Vh = torch.linalg.svd(M)
            sign = torch.linalg.det(U @ Vh).sign()
            result = torch.cat([U[..., :2], U[..., 2:] * sign[..., None, None]], -1) @ Vh
            degenerate = must_be_regular and bool((s[..., 1] + sign * s[..., 2] < min_gap * s[..., 0]).any())
        if must_be_regular and degenerate:
            raise DegenerateFitError(
                "the points of at least one set do not determine a rotation: they coincide, lie on a line "
                "or are mirrored. Pass on_degenerate='clamp' to hold the free spin."
            )
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        M, ctx.min_gap, _ = inputs
        ctx.save_for_backward(M, output)
        ctx.save_for_forward(M, output)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, None]:
        M, R = ctx.saved_tensors
        return _Derivative.apply(M, R, g, ctx.min_gap), None, None

    @staticmethod
    def jvp(ctx: Any, dM: Tensor, *_: Any) -> Tensor:
        M, R = ctx.saved_tensors
        result: Tensor = _Derivative.apply(M, R, dM, ctx.min_gap)
        return result

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        return _Rotation.apply(*_moved(inputs, in_dims, info.batch_size)), 0


class _Derivative(Function):  # type: ignore[misc]
    """(M, D) -> DR(M)[D]. R is passed along to save its computation; it counts as part of M."""

    @staticmethod
    def forward(M: Tensor, R: Tensor, D: Tensor, min_gap: float) -> Tensor:
        if M.device.type != "cpu":
            return _derivative(M, R, D, min_gap)
        A, rotations, rates = _rows(M), _rows(R), _rows(D.expand(M.shape))
        out = torch.empty(M.shape, dtype=torch.float64)
        G = matrices.spin_compliances(rotations, A, min_gap)
        rows = out.numpy().reshape(-1, 9)
        run(kernels.rotation_derivatives, len(A), matrices.GRAIN, rotations, G, rates, rows)
        return out.to(M.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        M, _, D, ctx.min_gap = inputs
        ctx.save_for_backward(M, D)
        ctx.save_for_forward(M, D)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, Tensor, None]:
        M, D = ctx.saved_tensors
        R = _Rotation.apply(M, ctx.min_gap, False)
        return (
            _SecondDerivative.apply(M, R, D, g, ctx.min_gap),
            None,
            _Derivative.apply(M, R, g, ctx.min_gap),
            None,
        )

    @staticmethod
    def jvp(ctx: Any, dM: Tensor | None, _: Any, dD: Tensor | None, *__: Any) -> Tensor:
        M, D = ctx.saved_tensors
        R = _Rotation.apply(M, ctx.min_gap, False)
        parts = []
        if dM is not None:
            parts.append(_SecondDerivative.apply(M, R, D, dM, ctx.min_gap))
        if dD is not None:
            parts.append(_Derivative.apply(M, R, dD, ctx.min_gap))
        return sum(parts[1:], parts[0])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        return _Derivative.apply(*_moved(inputs, in_dims, info.batch_size)), 0


class _SecondDerivative(Function):  # type: ignore[misc]
    """(M, D1, D2) -> D2R(M)[D1, D2]. R as in `_Derivative`."""

    @staticmethod
    def forward(M: Tensor, R: Tensor, D1: Tensor, D2: Tensor, min_gap: float) -> Tensor:
        # In 64 bits like the kernels; autocast leaves those alone, too.
        second = _second_derivative(M.double(), R.double(), D1.double(), D2.double(), min_gap)
        return second.to(M.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        M, _, D1, D2, ctx.min_gap = inputs
        ctx.save_for_backward(M, D1, D2)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None, Tensor, Tensor, None]:
        def second(M: Tensor, D1: Tensor, D2: Tensor) -> Tensor:
            M, D1, D2 = M.double(), D1.double(), D2.double()
            R = _Rotation.apply(M, ctx.min_gap, False)
            return _second_derivative(M, R, D1, D2, ctx.min_gap).to(g.dtype)

        _, pull_back = torch.func.vjp(second, *ctx.saved_tensors)
        gM, gD1, gD2 = pull_back(g)
        return gM, None, gD1, gD2, None

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Tensor:
        # PyTorch drops the derivative of a custom jvp under an outer forward mode without a word.
        raise NotImplementedError(
            "a third derivative of a rigid fit in forward mode: take the outermost derivative in reverse mode"
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        return _SecondDerivative.apply(*_moved(inputs, in_dims, info.batch_size)), 0


class _Regularised(Function):  # type: ignore[misc]
    """The identity on R, whose backward pass also pulls M towards R."""

    generate_vmap_rule = True

    @staticmethod
    def forward(M: Tensor, R: Tensor, regularization: float) -> Tensor:
        return R.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        M, R, ctx.regularization = inputs
        ctx.save_for_backward(M, R)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None]:
        M, R = ctx.saved_tensors
        return ctx.regularization * (M - R), g, None

    @staticmethod
    def jvp(ctx: Any, dM: Tensor, dR: Tensor, _: Any) -> Tensor:
        return dR.clone()
