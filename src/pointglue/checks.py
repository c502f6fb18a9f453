"""Checks of arguments: each names the argument and says what arrived."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InputError

__all__ = ["Array", "as_array", "as_integers", "as_reals", "generator", "require_finite"]

Array = NDArray[Any]


def as_reals(name: str, value: ArrayLike) -> Array:
    """`value` as an array of float32 (if it is one) or float64; its numbers are not looked at."""
    array = as_array(name, value)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if array.dtype == np.float32 or array.dtype == np.float64:
        return array
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} must hold real numbers, got dtype {array.dtype}")
    return array.astype(np.float32 if array.dtype == np.float16 else np.float64)


def as_integers(name: str, value: ArrayLike) -> NDArray[np.int64]:
    """`value` as a one-dimensional array of whole numbers."""
    array = as_array(name, value)
    if array.ndim != 1:
        raise InputError(f"{name} must be a flat list of whole numbers, got shape {array.shape}")
    if array.size and array.dtype.kind not in "iu":
        raise InputError(f"{name} must hold whole numbers, got dtype {array.dtype}")
    if array.size and array.max() > np.iinfo(np.int64).max:
        raise InputError(f"{name} must hold numbers below 2^63, got {array.max()}")
    return array.astype(np.int64)


def as_array(name: str, value: ArrayLike) -> Array:
    """`value` as an array of whatever it holds."""
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(f"{name} must not be a masked array: fill it or leave the masked rows out")
    try:
        return np.asarray(value)
    except ValueError as error:
        raise InputError(f"{name} must be an array of numbers, got rows of different lengths") from error


def require_finite(name: str, array: Array) -> None:
    """Raise unless every number in `array` is finite."""
    finite = np.isfinite(array)
    if not finite.all():
        bad = ~finite
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InputError(
            f"{name} must be finite, got {array[where]} at index {list(where)}"
            + (f" and {bad.sum() - 1} more such" if bad.sum() > 1 else "")
        )


def generator(seed: int | np.random.Generator) -> np.random.Generator:
    """The random generator itself, or one that begins with the whole number `seed`."""
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, or a numpy Generator, got {seed!r}")
    return np.random.default_rng(seed)
