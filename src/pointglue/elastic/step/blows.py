"""Blows, after which a method of two steps begins anew: joints that meet their limits, surfaces that meet."""

import numpy as np

from ...checks import Array
from ..state import SolverState
from .objective import Objective

__all__ = ["has_blown", "has_struck"]


def has_struck(objective: Objective, multipliers: Array, state: SolverState, tolerance: float) -> bool:
    """Return whether joints that were moving, faster than a tolerance [m/s], are held by a limit now.

    Their way until then does not tell how they go on: a method of two steps would bounce, and begins anew.
    """
    system, bounds = objective.system, objective.bounds
    held = (bounds.lower < bounds.upper) & (multipliers != 0)
    if not held.any():
        return False
    gradients = system.model.constraints.gradients(objective.before.positions, objective.rows)
    each = (gradients[system.entries] * state.particle_velocities[system.entry_particles]).sum(1)
    rates = np.bincount(system.entry_equations, each, len(held))
    return bool((held & (np.abs(rates) > tolerance)).any())


def has_blown(state: SolverState, forces: Array, v: Array, tolerance: float) -> bool:
    """Return whether surfaces have met or parted in a step faster than a tolerance [m/s].

    Their forces come and go at once, and a method of two steps would go on with half of them: it would throw
    back what has struck, by half the speed that it came with.

    Parameters
    ----------
    state : SolverState
        The state before.
    forces : (N, 3)
        The forces of contact on particles at the end, or none without contact [N].
    v : (N, 3)
        How far particles have come, divided by the duration of the step [m/s].
    tolerance : float
        The speed [m/s].

    Returns
    -------
    bool
    """
    if not len(forces):
        return False
    before, now = state.contact_forces.any(1), forces.any(1)
    pushes = (forces[now & ~before], -state.contact_forces[before & ~now])
    speeds = (state.particle_velocities[now & ~before], v[before & ~now])
    return any(
        bool((-(push * speed).sum(1) > tolerance * np.linalg.norm(push, axis=1)).any())
        for push, speed in zip(pushes, speeds, strict=True)
    )
