"""External forces: wind and water. Any other is a function of body, state and time step."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, check_real, check_vector
from ..compute import run
from ._solve.kernels.motion.forces import immersion_forces
from ._solve.kernels.records import Immersed, Medium
from .body import OrientedBody
from .state import ParticleState

__all__ = ["Buoyancy", "Force", "Wind"]

Force = Callable[[OrientedBody, ParticleState, float], ArrayLike]
"""A function (body, state, dt) -> forces (n, 3) [N], constant for the step."""


@dataclass(frozen=True)
class Wind:
    """Drag of moving air, 1/2 density drag area speed^2, with the area that each ellipsoid turns to it.

    Parameters
    ----------
    velocity : (3,)
        The velocity of the air [m/s].
    density : float
        The density of the air, at least 0 [kg/m^3].
    drag : float
        The drag coefficient, at least 0.

    Raises
    ------
    InputError
        If `velocity` is not three finite numbers, or another number is out of its bounds.
    """

    velocity: tuple[float, float, float]
    density: float = 1.2
    drag: float = 1.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_vector("velocity", self.velocity)
        check_real("density", self.density, at_least=0)
        check_real("drag", self.drag, at_least=0)

    def __call__(self, body: OrientedBody, state: ParticleState, dt: float) -> Array:
        """Return the forces (n, 3) on the particles of a body [N]; `dt` is the length of the step [s]."""
        flow = np.array(self.velocity, np.float64)
        up = np.array([0.0, 1.0, 0.0])
        air = Medium(inf, up, 0.0, float(self.density), float(self.drag), flow)
        return _immersed(body, state, dt, air)


@dataclass(frozen=True)
class Buoyancy:
    """Still or streaming water below a level: lift of the displaced volume, and drag.

    The submerged share of an ellipsoid is exact: (1 + t)^2 (2 - t) / 4, t its depth over its half height.

    Parameters
    ----------
    level : float
        The height of the surface against gravity [m].
    density : float
        The density of the water, at least 0 [kg/m^3].
    drag : float
        The drag coefficient, at least 0.
    current : (3,)
        The velocity of the water [m/s].
    gravity : (3,)
        The acceleration of gravity; up is against it [m/s^2].

    Raises
    ------
    InputError
        If a vector is not three finite numbers, or another number is out of its bounds.
    """

    level: float = 0.0
    density: float = 1000.0
    drag: float = 0.5
    current: tuple[float, float, float] = (0.0, 0.0, 0.0)
    gravity: tuple[float, float, float] = (0.0, -9.81, 0.0)

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_real("level", self.level)
        check_real("density", self.density, at_least=0)
        check_real("drag", self.drag, at_least=0)
        check_vector("current", self.current)
        check_vector("gravity", self.gravity)

    def __call__(self, body: OrientedBody, state: ParticleState, dt: float) -> Array:
        """Return the forces (n, 3) on the particles of a body [N]; `dt` is the length of the step [s]."""
        pull = np.asarray(self.gravity, np.float64)
        strength = float(np.linalg.norm(pull))
        up = -pull / strength if strength > 0 else np.array([0.0, 1.0, 0.0])
        flow = np.array(self.current, np.float64)
        water = Medium(float(self.level), up, strength, float(self.density), float(self.drag), flow)
        return _immersed(body, state, dt, water)


def _immersed(body: OrientedBody, state: ParticleState, dt: float, medium: Medium) -> Array:
    """Return the forces (n, 3) on particles below a level, in a medium that flows [N]."""
    n, forces = len(body), np.empty((len(body), 3))
    particles = Immersed(
        radii=body.radii,
        mass=body.mass,
        positions=state.positions,
        velocities=state.velocities,
        rotations=state.rotations.reshape(n, 9),
        axes=state.rest.rotations.reshape(n, 9),
    )
    run(immersion_forces, n, 2048, medium, float(dt), particles, forces)
    return forces
