"""Forces from outside: wind and water. Any other is a function of body, state and time step."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, pi

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, as_reals
from ..errors import InputError
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
        wind = np.broadcast_to(np.asarray(self.velocity, np.float64), (len(body), 3))
        return _drag(body, state, wind, 0.5 * self.density * self.drag * np.ones(len(body)), dt)


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
        axes = state.rotations @ state.rest.rotations
        half = np.sqrt((((up @ axes) * body.radii) ** 2).sum(1))
        t = np.clip((self.level - state.positions @ up) / half, -1.0, 1.0)
        share = (1 + t) ** 2 * (2 - t) / 4
        lift = self.density * strength * 4 / 3 * pi * body.radii.prod(1) * share
        flow = np.broadcast_to(np.asarray(self.current, np.float64), (len(body), 3))
        return np.asarray(lift[:, None] * up) + _drag(
            body, state, flow, 0.5 * self.density * self.drag * share, dt
        )


def _drag(body: OrientedBody, state: ParticleState, flow: Array, pressure: Array, dt: float) -> Array:
    """pressure * area * |u| u, taken at the end of the step so that it never reverses the motion.

    The shadow of an ellipsoid along the unit vector u has the area pi abc |diag(1/a, 1/b, 1/c) R^T u|.
    """
    u = flow - state.velocities
    axes = state.rotations @ state.rest.rotations
    scaled = np.einsum("nji,nj->ni", axes, u) / body.radii  # speed times the length in the area
    k = pressure * pi * body.radii.prod(1) * np.linalg.norm(scaled, axis=1)
    return np.asarray((k / (1 + k * dt / body.mass))[:, None] * u)


def _check_number(name: str, value: float) -> None:
    given = as_reals(name, value)
    if given.shape != () or not 0 <= given < inf:
        raise InputError(f"{name} must be finite and not negative, got {value!r}")


def _check_vector(name: str, value: ArrayLike) -> None:
    given = as_reals(name, value)
    if given.shape != (3,) or not np.isfinite(given).all():
        raise InputError(f"{name} must be three finite numbers, got {value!r}")
