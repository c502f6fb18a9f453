"""Rotations of batches of matrices: the fast kernels, and the robust ones where those give up."""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, as_reals, check_choice, check_real, require_finite
from ..compute import run
from ..errors import DegenerateFitError, InputError
from . import rotation
from .space import moments_to_space

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
    """Return the least D / i1^3 that the fast path may answer: gap < min_gap implies D < 4 min_gap i1^3."""
    return max(rotation.LEAST_D, 4.0 * min_gap)


def special_procrustes(
    M: ArrayLike,
    *,
    on_degenerate: OnDegenerate = "raise",
    min_gap: float | None = None,
    out: Array | None = None,
) -> Array:
    """Return the rotation R that minimises ``|M - R|``, for a batch of matrices.

    Parameters
    ----------
    M : (..., d, d)
        Matrices, d = 2 or 3.
    on_degenerate : {"raise", "clamp"}
        What to do when a matrix does not determine a rotation, as in :func:`~pointglue.fit_rigid`; "clamp"
        takes the rotation nearest to the identity.
    min_gap : float, optional
        The least ``gap = (s2 + s3) / s1`` that counts as determined, as in :func:`~pointglue.fit_rigid`.
    out : (..., d, d), optional
        Contiguous array of float64 that takes the result.

    Returns
    -------
    (..., d, d)
        Proper rotations.

    Raises
    ------
    InputError
        If the shape is another, or a number is not finite.
    DegenerateFitError
        If a matrix does not determine a rotation and `on_degenerate` is "raise".
    """
    given = as_reals("M", M)
    d = given.shape[-1] if given.ndim >= 2 else 0
    if d not in (2, 3) or given.shape[-2] != d or given.size == 0:
        raise InputError(f"M must have shape (..., 3, 3) or (..., 2, 2), got shape {given.shape}")
    min_gap = checked_policy(on_degenerate, min_gap, given.dtype)
    check_out(out, given.shape, np.dtype(np.float64))
    A = given.astype(np.float64, copy=False)
    if d == 2:
        A = moments_to_space(A)
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
    """Return the least gap, by default as the precision of the input allows; raise unless both are valid."""
    check_choice("on_degenerate", on_degenerate, ("raise", "clamp"))
    if min_gap is None:
        return DEFAULT_MIN_GAP_32 if np.float32 in dtypes else DEFAULT_MIN_GAP
    return check_real("min_gap", min_gap, above=0.0, below=1.0)


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
    """Return the rotations (n, 9) of matrices (n, 9), and their status; see `resolve_rotations`."""
    R, status = np.empty_like(A) if out is None else out, np.empty(len(A), np.uint8)
    run(rotation.rotations, len(A), GRAIN, A, least_d(min_gap), R, status)
    resolve_rotations(A, previous, min_gap, R, status)
    return R, status


def resolve_rotations(A: Array, previous: Array, min_gap: float, R: Array, status: Array) -> None:
    """Compute the rotations that the fast path left open, in place; `previous` is (n, 9) or (1, 9)."""
    which = np.flatnonzero(status)
    if len(which):
        run(rotation.robust_rotations, len(which), GRAIN // 16, which, A, previous, min_gap, R, status)


def spin_compliances(R: Array, A: Array, min_gap: float) -> Array:
    """Return G = (tr(S) I - S)^-1 (n, 9): the spin that a moment of point motions causes."""
    G = np.empty_like(A)
    run(rotation.compliances, len(A), GRAIN, R, A, least_d(min_gap), G)
    which = np.flatnonzero(~np.isfinite(G[:, 0]))
    if len(which):
        run(rotation.clamped_compliances, len(which), GRAIN // 16, which, R, A, min_gap, G)
    return G


def singular_values(A: Array) -> Array:
    """Return the singular values (n, 3) of matrices (n, 9): descending, the smallest signed."""
    s = np.empty((len(A), 3))
    run(rotation.singular_values, len(A), GRAIN // 16, A, s)
    return s
