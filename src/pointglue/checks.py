"""Checks of arguments: each names the argument, says what was expected and what arrived.

Functions that begin with ``as_`` convert, those that begin with ``check_`` return what they were given, as
the type that the caller goes on with, and those that begin with ``is_`` answer a question.
"""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InputError

__all__ = [
    "ORTHONORMAL",
    "Array",
    "as_array",
    "as_integers",
    "as_reals",
    "check_choice",
    "check_distinct",
    "check_finite",
    "check_flag",
    "check_integer",
    "check_real",
    "check_rotations",
    "check_rows",
    "check_vector",
    "frozen",
    "generator",
    "is_integer",
    "is_real",
    "require_finite",
]

Array = NDArray[Any]

# How far R R^T may be from the identity, entry by entry: rotations that come from float32 files are off by
# some 1e-7, what is off by more was scaled or sheared.
ORTHONORMAL = 1e-6


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


def is_real(value: object) -> bool:
    """Return whether `value` is one real number; True and False, nan and arrays are none."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_) and not np.isnan(float(value))


def is_integer(value: object) -> bool:
    """Return whether `value` is one whole number of Python or NumPy; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def check_finite(name: str, value: ArrayLike) -> Array:
    """Return finite real numbers of any shape as float64, a copy, or raise."""
    array = as_reals(name, value).astype(np.float64)
    require_finite(name, array)
    return array


def frozen(array: Array) -> Array:
    """Make an array read-only in place and return it."""
    array.flags.writeable = False
    return array


def check_vector(name: str, value: ArrayLike) -> Array:
    """Return three finite numbers (3,) as float64, a read-only copy, or raise."""
    vector = as_reals(name, value).astype(np.float64)
    if vector.shape != (3,):
        raise InputError(f"{name} must have shape (3,), got {vector.shape}")
    require_finite(name, vector)
    return frozen(vector)


def check_real(
    name: str,
    value: object,
    *,
    above: float = -np.inf,
    at_least: float = -np.inf,
    below: float = np.inf,
    at_most: float = np.inf,
    infinite: bool = False,
) -> float:
    """Return one real number as a float, or raise unless it lies within the bounds.

    Parameters
    ----------
    name : str
        What the argument is called, for the message.
    value : object
        What was given for it.
    above, below : float
        Bounds that the number may not reach.
    at_least, at_most : float
        Bounds that it may reach.
    infinite : bool
        Whether it may be infinite.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If it is no real number, or outside of the bounds.
    """
    if is_real(value):
        number = float(value)  # type: ignore[arg-type]
        beyond = (above > -np.inf and number <= above) or (below < np.inf and number >= below)
        if (infinite or abs(number) < np.inf) and not beyond and at_least <= number <= at_most:
            return number
    bounds = [
        f"{words} {bound:g}"
        for words, bound in (
            ("above", above),
            ("of at least", at_least),
            ("below", below),
            ("of at most", at_most),
        )
        if abs(bound) < np.inf
    ]
    kind = "number" if infinite else "finite number"
    raise InputError(f"{name} must be a {kind}{' ' if bounds else ''}{' and '.join(bounds)}, got {value!r}")


def check_integer(name: str, value: object, at_least: int | None = None, at_most: int | None = None) -> int:
    """Return one whole number as an int, or raise unless it lies within the bounds, which it may reach."""
    if is_integer(value):
        number = int(value)  # type: ignore[call-overload]
        if (at_least is None or number >= at_least) and (at_most is None or number <= at_most):
            return int(number)
    bounds = [
        f"of at {word} {bound}"
        for word, bound in (("least", at_least), ("most", at_most))
        if bound is not None
    ]
    raise InputError(
        f"{name} must be a whole number{' ' if bounds else ''}{' and '.join(bounds)}, got {value!r}"
    )


def check_flag(name: str, value: object) -> bool:
    """Return True or False of Python or NumPy as a bool, or raise: no number stands for them."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise InputError(f"{name} must be True or False, got {value!r}")


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return a string that is one of the choices, or raise."""
    names = list(choices)
    if isinstance(value, str) and value in names:
        return value
    *others, last = [f'"{choice}"' for choice in names]
    listed = f"{', '.join(others)} or {last}" if others else last
    raise InputError(f"{name} must be {listed}, got {value!r}")


def check_rows(name: str, value: ArrayLike, width: int = 3, count: int | None = None) -> Array:
    """Return finite rows (n, width) as float64, a copy, or raise; `count` rows if it is given."""
    rows = as_reals(name, value)
    if rows.ndim != 2 or rows.shape[1] != width or (count is not None and len(rows) != count):
        raise InputError(
            f"{name} must have shape ({'n' if count is None else count}, {width}), got {rows.shape}"
        )
    require_finite(name, rows)
    return rows.astype(np.float64)


def check_rotations(
    name: str, value: ArrayLike, shape: tuple[int, ...] | None = None, *, tolerance: float = ORTHONORMAL
) -> Array:
    """Return proper rotations (..., d, d) as float64, a copy, or raise.

    Parameters
    ----------
    name : str
        What the argument is called, for the message.
    value : array_like
        Matrices of two or three rows, or any number of them.
    shape : tuple of int, optional
        The shape that they must have.
    tolerance : float
        How far R R^T may be from the identity, entry by entry.

    Returns
    -------
    (..., d, d)

    Raises
    ------
    InputError
        If the shape is another, a number is not finite, R R^T is farther from the identity than
        `tolerance`, or one of them reflects.
    """
    turns = as_reals(name, value)
    expected = "(..., 3, 3)" if shape is None else str(shape)
    fits = turns.ndim >= 2 and turns.shape[-2:] in ((2, 2), (3, 3)) if shape is None else turns.shape == shape
    if not fits:
        raise InputError(f"{name} must have shape {expected}, got {turns.shape}")
    require_finite(name, turns)
    turns = turns.astype(np.float64)
    off = np.abs(turns @ np.swapaxes(turns, -1, -2) - np.eye(turns.shape[-1])).max((-1, -2), initial=0.0)
    reflects = np.linalg.det(turns) < 0
    bad = np.argwhere((off > tolerance) | reflects)
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        place = f" at index {list(where)}" if where else ""
        fault = f"R R^T is off by {off[where]:.1e}" if off[where] > tolerance else "it reflects"
        more = f", and {len(bad) - 1} more such" if len(bad) > 1 else ""
        raise InputError(f"{name} must be rotations, but{place} {fault}{more}")
    return turns


def check_distinct(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Return a flat list of whole numbers without repeats, or raise."""
    numbers = as_integers(name, values)
    found, counts = np.unique(numbers, return_counts=True)
    if (counts > 1).any():
        raise InputError(f"{name} must not name anything twice, got {found[counts > 1][0]} again")
    return numbers


def generator(seed: int | np.random.Generator) -> np.random.Generator:
    """The random generator itself, or one that begins with the whole number `seed`."""
    if isinstance(seed, np.random.Generator):
        return seed
    if not is_integer(seed) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0, or a numpy Generator, got {seed!r}")
    return np.random.default_rng(seed)
