"""Numbers of elements, one for all or one each."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from ...checks import Array, as_reals
from ...errors import InputError

__all__ = ["lame", "lumped", "moduli", "neo_hookean", "per_element"]


def per_element(name: str, value: ArrayLike, count: int, fits: Callable[[Array], Array], what: str) -> Array:
    """Return numbers of elements as (count,), or raise.

    Parameters
    ----------
    name : str
        What the argument is called, for the message.
    value : float or (count,)
        One number for all elements, or one for each.
    count : int
        The number of elements.
    fits : callable
        A function that returns which numbers (count,) are within bounds.
    what : str
        What the numbers must be, for the message.

    Returns
    -------
    (count,)

    Raises
    ------
    InputError
        If the shape is another, or a number is not finite or does not fit.
    """
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
    """Return masses (points,): those of elements of sizes (m,), shared equally by their corners (m, k)."""
    mass = per_element("density", density, len(sizes), lambda v: v > 0, "a positive number") * sizes
    k = corners.shape[1]
    return np.bincount(corners.ravel(), np.repeat(mass / k, k), minlength=points)


def moduli(young: ArrayLike, poisson: ArrayLike, count: int) -> tuple[Array, Array]:
    """Return Young's modulus [Pa] and Poisson's ratio of elements, each (count,), or raise out of range."""
    E = per_element("young", young, count, lambda v: v > 0, "a positive number of Pa")
    nu = per_element("poisson", poisson, count, lambda v: (v > -1) & (v < 0.5), "between -1 and 0.5")
    return E, nu


def lame(young: Array, poisson: Array) -> tuple[Array, Array]:
    """Return Lame's moduli mu and lambda of Hooke's law [Pa]."""
    return young / (2 * (1 + poisson)), young * poisson / ((1 + poisson) * (1 - 2 * poisson))


def neo_hookean(mu: Array, lam: Array) -> tuple[Array, Array]:
    """Return the moduli [Pa] of the stable neo-Hookean energy whose small strains are those of mu and lam."""
    return 4 / 3 * mu, lam + 5 / 6 * mu
