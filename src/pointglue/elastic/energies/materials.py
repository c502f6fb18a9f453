"""Material numbers, one for all elements or one each."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from ...checks import Array, as_reals
from ...errors import InputError

__all__ = ["lumped", "per_element"]


def per_element(name: str, value: ArrayLike, count: int, fits: Callable[[Array], Array], what: str) -> Array:
    """`value`, one for all or one for each of `count` elements, as (count,); finite, and it fits."""
    given = as_reals(name, value).astype(np.float64)
    if given.shape not in ((), (count,)):
        raise InputError(
            f"{name} must be one number, or one for each of {count} elements, got shape {given.shape}"
        )
    each = np.broadcast_to(given, (count,))
    wrong = np.flatnonzero(~(np.isfinite(each) & fits(each)))
    if len(wrong):
        where = f" at element {wrong[0]}" if given.shape else ""
        raise InputError(f"{name} must be {what}, got {each[wrong[0]]}{where}")
    return each


def lumped(density: ArrayLike, sizes: Array, corners: Array, points: int) -> Array:
    """Masses of the points (points,): those of the elements (m,), shared equally by their corners (m, k)."""
    mass = per_element("density", density, len(sizes), lambda v: v > 0, "a positive number") * sizes
    k = corners.shape[1]
    return np.bincount(corners.ravel(), np.repeat(mass / k, k), minlength=points)
