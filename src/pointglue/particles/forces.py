"""Forces from outside: wind and water. Any other is a function of body, state and time step."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, as_reals
from ..compute import run
from ..errors import InputError
from ._solve.kernels.forces import immerse
from .body import OrientedBody
from .state import ParticleState

__all__ = ["Buoyancy", "Force", "Wind"]

Force = Callable[[OrientedBody, ParticleState, float], ArrayLike]
"""(body, state, dt) -> forces (n, 3) in N, constant for the step."""


@dataclass(frozen=True)
class Wind:
    """Drag of moving air, 1/2 density drag area speed^2, with the area that each ellipsoid turns to it."""

    velocity: tuple[float, float, float]
    """m/s."""
    density: float = 1.2
    """kg/m^3."""
    drag: float = 1.0
    """The drag coefficient."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        _check_vector("velocity", self.velocity)
        _check_number("density", self.density)
        _check_number("drag", self.drag)

    def __call__(self, body: OrientedBody, state: ParticleState, dt: float) -> Array:
        """Forces (n, 3), N."""
        return _immersed(
            body, state, dt, inf, np.array([0.0, 1.0, 0.0]), 0.0, self.density, self.drag, self.velocity
        )


@dataclass(frozen=True)
class Buoyancy:
    """Still or streaming water below a level: lift of the displaced volume, and drag.

    The submerged share of an ellipsoid is exact: (1 + t)^2 (2 - t) / 4, t its depth over its half height.
    """

    level: float = 0.0
    """Height of the surface, m."""
    density: float = 1000.0
    """kg/m^3."""
    drag: float = 0.5
    """The drag coefficient."""
    current: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """m/s."""
    gravity: tuple[float, float, float] = (0.0, -9.81, 0.0)
    """m/s^2; up is against it."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if as_reals("level", self.level).shape != () or not np.isfinite(self.level):
            raise InputError(f"level must be finite, got {self.level!r}")
        _check_number("density", self.density)
        _check_number("drag", self.drag)
        _check_vector("current", self.current)
        _check_vector("gravity", self.gravity)

    def __call__(self, body: OrientedBody, state: ParticleState, dt: float) -> Array:
        """Forces (n, 3), N."""
        pull = np.asarray(self.gravity, np.float64)
        strength = float(np.linalg.norm(pull))
        up = -pull / strength if strength > 0 else np.array([0.0, 1.0, 0.0])
        return _immersed(body, state, dt, self.level, up, strength, self.density, self.drag, self.current)


def _immersed(
    body: OrientedBody,
    state: ParticleState,
    dt: float,
    level: float,
    up: Array,
    strength: float,
    density: float,
    drag: float,
    flow: ArrayLike,
) -> Array:
    """Forces (n, 3) on particles below a level, in a medium that flows."""
    n, forces = len(body), np.empty((len(body), 3))
    medium = (
        float(level),
        up,
        strength,
        float(density),
        float(drag),
        np.asarray(flow, np.float64),
        float(dt),
    )
    places = (
        state.positions,
        state.velocities,
        state.rotations.reshape(n, 9),
        state.rest.rotations.reshape(n, 9),
    )
    run(immerse, n, 2048, *medium, body.radii, body.mass, *places, forces)
    return forces


def _check_number(name: str, value: float) -> None:
    given = as_reals(name, value)
    if given.shape != () or not 0 <= given < inf:
        raise InputError(f"{name} must be finite and not negative, got {value!r}")


def _check_vector(name: str, value: ArrayLike) -> None:
    given = as_reals(name, value)
    if given.shape != (3,) or not np.isfinite(given).all():
        raise InputError(f"{name} must be three finite numbers, got {value!r}")
