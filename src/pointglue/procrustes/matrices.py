"""Rotations of batches of matrices: the fast kernels, and the robust ones where those give up."""

from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, as_reals, require_finite
from ..compute import run
from ..errors import DegenerateFitError, InputError
from . import rotation
from .kernels import OUT_OF_PLANE

__all__ = ["DEFAULT_MIN_GAP", "OnDegenerate", "special_procrustes"]

OnDegenerate = Literal["raise", "clamp"]

# The rotation is known to about eps / gap: at this gap, to 2e-8. It is the gap of a needle ten
# thousand times longer than wide (the gap goes with the square of the proportions).
DEFAULT_MIN_GAP = 1e-8
# Points on a line have a gap of up to 1e-7 once their coordinates are rounded to 32 bits.
DEFAULT_MIN_GAP_32 = 1e-6

# Items worth a thread of their own: some hundred microseconds of work, against ten to hand it over.
GRAIN = 4096


def least_d(min_gap: float) -> float:
    """The least D / i1^3 that the fast path may answer: gap < min_gap implies D < 4 min_gap i1^3."""
    return max(rotation.LEAST_D, 4.0 * min_gap)


def special_procrustes(
    M: ArrayLike,
    *,
    on_degenerate: OnDegenerate = "raise",
    min_gap: float | None = None,
    out: Array | None = None,
) -> Array:
    """The rotation R that minimises ``|M - R|``, for a batch M (..., d, d) with d = 2 or 3.

    `on_degenerate` and `min_gap` are those of :func:`~pointglue.fit_rigid`. `out`, contiguous float64
    of the shape of M, takes the result.
    """
    given = as_reals("M", M)
    d = given.shape[-1] if given.ndim >= 2 else 0
    if d not in (2, 3) or given.shape[-2] != d or given.size == 0:
        raise InputError(f"M must have shape (..., 3, 3) or (..., 2, 2), got shape {given.shape}")
    min_gap = checked_policy(on_degenerate, min_gap, given.dtype)
    check_out(out, given.shape, np.dtype(np.float64))
    A = given.astype(np.float64, copy=False)
    if d == 2:
        A = np.pad(A, [(0, 0)] * (A.ndim - 2) + [(0, 1), (0, 1)])
        # s1 keeps the rotation in the plane, see `kernels`
        with np.errstate(over="ignore", invalid="ignore"):
            diagonal = np.hypot(A[..., 0, 0] + A[..., 1, 1], A[..., 1, 0] - A[..., 0, 1])
            other = np.hypot(A[..., 0, 0] - A[..., 1, 1], A[..., 1, 0] + A[..., 0, 1])
            A[..., 2, 2] = OUT_OF_PLANE * (diagonal + other)
    in_place = out is not None and d == 3 and not np.may_share_memory(A, out)
    rows = out.reshape(-1, 9) if in_place and out is not None else None
    R, status = nearest_rotations(
        np.ascontiguousarray(A).reshape(-1, 9), np.eye(3).reshape(1, 9), min_gap, rows
    )
    if (status == rotation.NOT_FINITE).any():
        require_finite("M", given)
        raise InputError("M is too large: the sums of its entries overflow")
    if on_degenerate == "raise" and status.any():
        first = [int(i) for i in np.unravel_index(np.flatnonzero(status)[0], given.shape[:-2])]
        raise DegenerateFitError(
            f"M{first or ''} does not determine a rotation: the sum of its two smallest singular values, "
            f"the last one signed, is below {min_gap:.2g} of the largest. "
            f"Pass on_degenerate='clamp' to take the rotation nearest to the identity."
        )
    result = R.reshape(*given.shape[:-2], 3, 3)[..., :d, :d]
    if out is None:
        return result.astype(given.dtype, copy=False)
    if not in_place:
        out[...] = result
    return out


def checked_policy(on_degenerate: object, min_gap: float | None, *dtypes: np.dtype[Any]) -> float:
    """The least gap, by default as the precision of the input allows; raise unless both are valid."""
    if not isinstance(on_degenerate, str) or on_degenerate not in ("raise", "clamp"):
        raise InputError(f"on_degenerate must be 'raise' or 'clamp', got {on_degenerate!r}")
    if min_gap is None:
        return DEFAULT_MIN_GAP_32 if np.float32 in dtypes else DEFAULT_MIN_GAP
    if not isinstance(min_gap, Real) or not 0.0 < min_gap < 1.0:
        raise InputError(f"min_gap must be a number between 0 and 1, got {min_gap!r}")
    return float(min_gap)


def check_out(out: object, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise unless `out` is None or an array that a kernel can write such a result to."""
    if out is None:
        return
    if not isinstance(out, np.ndarray):
        raise InputError(f"out must be an array, got {type(out).__name__}")
    if out.shape != shape or out.dtype != dtype or not out.flags.c_contiguous or not out.flags.writeable:
        state = "" if out.flags.c_contiguous and out.flags.writeable else ", not contiguous or not writeable"
        raise InputError(
            f"out must be a contiguous, writeable array of {dtype} of shape {shape}, "
            f"got {out.dtype} of shape {out.shape}{state}"
        )


def nearest_rotations(
    A: Array, previous: Array, min_gap: float, out: Array | None = None
) -> tuple[Array, Array]:
    """Rotations (n, 9) of matrices (n, 9), and their status; `previous` as in :func:`settle`."""
    R, status = np.empty_like(A) if out is None else out, np.empty(len(A), np.uint8)
    run(rotation.rotations, len(A), GRAIN, A, least_d(min_gap), R, status)
    settle(A, previous, min_gap, R, status)
    return R, status


def settle(A: Array, previous: Array, min_gap: float, R: Array, status: Array) -> None:
    """Work out what the fast path left open, in place; `previous` rotations are (n, 9) or (1, 9)."""
    which = np.flatnonzero(status)
    if len(which):
        run(rotation.settle, len(which), GRAIN // 16, which, A, previous, min_gap, R, status)


def spin_compliances(R: Array, A: Array, min_gap: float) -> Array:
    """G = (tr(S) I - S)^-1 (n, 9): the spin that a moment of point motions causes."""
    G = np.empty_like(A)
    run(rotation.compliances, len(A), GRAIN, R, A, least_d(min_gap), G)
    which = np.flatnonzero(~np.isfinite(G[:, 0]))
    if len(which):
        run(rotation.clamped_compliances, len(which), GRAIN // 16, which, R, A, min_gap, G)
    return G


def singular_values(A: Array) -> Array:
    """(n, 3): descending, the smallest signed."""
    s = np.empty((len(A), 3))
    run(rotation.singular_values, len(A), GRAIN // 16, A, s)
    return s
