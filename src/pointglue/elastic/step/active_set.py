"""Which limits and motors of joints act: rows of equations whose multipliers are bounded.

A row keeps its left side c from `lower` to `upper`, by a multiplier of at most `force`. It is free (between
its ends, with no multiplier), held at an end, or slips: its multiplier is at its bound, and c goes beyond.
"""

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ..model.constraints import Bounds

__all__ = ["FREE", "held_ends", "initial_set", "open_by", "penalties", "set_multipliers", "settled"]

FREE, AT_UPPER, AT_LOWER, SLIPS_UP, SLIPS_DOWN = 0, 1, -1, 2, -2
SLIP_ROUNDING = 1e-12  # ratio of the greatest multiplier: as near to it, a row slips

ActiveSet = NDArray[np.int64]


def initial_set(bounds: Bounds, multipliers: Array) -> ActiveSet:
    """Return which rows act by their multipliers (R,) alone: the first guess of a Newton step."""
    sign = np.sign(multipliers).astype(np.int64)
    slipping = np.abs(multipliers) >= (1 - SLIP_ROUNDING) * bounds.force
    at_end = np.where((sign == 0) & (bounds.lower == bounds.upper), AT_UPPER, sign)
    return np.asarray(np.where(slipping, 2 * sign, at_end))


def settled(
    active: ActiveSet, bounds: Bounds, left_sides: Array, multipliers: Array, rounding: float
) -> ActiveSet:
    """Return which rows should act, given what those that do have led to.

    Parameters
    ----------
    active : (R,)
        Which rows acted.
    bounds : Bounds
        What the rows must satisfy.
    left_sides : (R,)
        The left sides that a Newton step leads to, to first order [m].
    multipliers : (R,)
        The multipliers that it leads to [N].
    rounding : float
        How far beyond an end a free row may be [m].

    Returns
    -------
    (R,)
        The same as `active` where the step is right.
    """
    out = active.copy()
    held = np.abs(active) == AT_UPPER
    play = bounds.lower < bounds.upper
    out[held & play & (active * multipliers < 0)] = FREE
    out[held & (multipliers > bounds.force)] = SLIPS_UP
    out[held & (multipliers < -bounds.force)] = SLIPS_DOWN
    free = active == FREE
    out[free & (left_sides > bounds.upper + rounding)] = AT_UPPER
    out[free & (left_sides < bounds.lower - rounding)] = AT_LOWER
    with np.errstate(invalid="ignore"):  # rows that cannot slip have an infinite force
        give = np.where(np.abs(active) == SLIPS_UP, bounds.compliance * bounds.force, 0.0)
    out[(active == SLIPS_UP) & (left_sides - bounds.upper < give)] = AT_UPPER
    out[(active == SLIPS_DOWN) & (left_sides - bounds.lower > -give)] = AT_LOWER
    return out


def held_ends(active: ActiveSet, bounds: Bounds) -> tuple[NDArray[np.bool_], Array]:
    """Return which rows are held, and the ends (R,) that they are held at, 0 for others [m]."""
    held = np.abs(active) == AT_UPPER
    ends = np.where(active == AT_UPPER, bounds.upper, bounds.lower)
    return held, np.where(held, ends, 0.0)


def set_multipliers(active: ActiveSet, bounds: Bounds) -> Array:
    """Return the multipliers (R,) of rows that slip or are free; those of held rows are 0 here [N]."""
    slips = np.abs(active) == SLIPS_UP
    return np.asarray(np.where(slips, np.sign(active) * np.where(slips, bounds.force, 0.0), 0.0))


def penalties(bounds: Bounds, left_sides: Array, penalty: float) -> Array:
    """Return the energies of rows (R,) in the merit function [J].

    A row that gives way is a spring, up to its greatest force; others cost that force, or the penalty where
    it has no bound, times the distance.

    Parameters
    ----------
    bounds : Bounds
        What the rows must satisfy.
    left_sides : (R,)
        The left sides [m].
    penalty : float
        The penalty [N].

    Returns
    -------
    (R,)
    """
    distance = np.abs(left_sides - np.clip(left_sides, bounds.lower, bounds.upper))
    give = bounds.compliance > 0
    force = np.where(np.isinf(bounds.force) & ~give, penalty, bounds.force)
    soft = np.where(give, bounds.compliance, 1.0)
    with np.errstate(invalid="ignore"):  # of springs whose force has no bound
        stretched = give & (distance < soft * force)
        beyond = force * distance - np.where(give, 0.5 * soft * force**2, 0.0)
    return np.asarray(np.where(stretched, 0.5 * distance**2 / soft, beyond))


def open_by(bounds: Bounds, left_sides: Array, multipliers: Array) -> Array:
    """Return by how much each row is not satisfied (R,) [m]: 0 for what slips or gives way."""
    ends = np.where(multipliers > 0, bounds.upper, bounds.lower)
    target = np.where(multipliers == 0, np.clip(left_sides, bounds.lower, bounds.upper), ends)
    slipping = np.abs(multipliers) >= (1 - SLIP_ROUNDING) * bounds.force
    return np.where(slipping | (bounds.compliance > 0), 0.0, np.abs(left_sides - target))
