"""Wind, pushes and drag, for particles and for implicit solids."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, pi, sin

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...elastic import SolverState
from ...particles import Buoyancy, OrientedBody, ParticleState, Wind
from ..schema import scene as schema

__all__ = [
    "Drag",
    "ParticleWater",
    "ParticleWind",
    "Push",
    "SceneWind",
    "SurfaceWind",
    "on_particles",
    "on_solids",
]


@dataclass(frozen=True)
class SceneWind:
    """The wind of a scene as a function of the time."""

    table: schema.Wind
    """Velocity, gusts and drag."""
    start: float
    """When it starts [s]."""
    stop: float
    """When it ends [s]."""

    @staticmethod
    def of(table: schema.Wind, frames: schema.Frames) -> "SceneWind":
        """Return the wind of a table, with its times in seconds."""
        stop = inf if table.stop is None else frames.seconds(table.stop)
        return SceneWind(table, frames.seconds(table.start), stop)

    def velocity(self, time: float) -> Array:
        """Return the velocity of the air (3,) [m/s] at a time [s]."""
        wind = self.table
        if not self.start <= time < self.stop:
            return np.zeros(3)
        return np.array(wind.velocity) * (1 + wind.gust * sin(2 * pi * (time - self.start) / wind.period))


@dataclass(frozen=True)
class ParticleWind:
    """Wind on particles."""

    wind: SceneWind
    """The wind as a function of the time."""

    def __call__(self, body: OrientedBody, state: ParticleState, dt: float) -> Array:
        """Return the forces (n, 3) [N] on the particles."""
        vx, vy, vz = self.wind.velocity(state.time).tolist()
        table = self.wind.table
        return Wind((vx, vy, vz), table.density, table.drag)(body, state, dt)


@dataclass(frozen=True)
class ParticleWater:
    """Water on particles, with a current and a swell."""

    table: schema.Water
    """Level, density, current and swell."""
    gravity: tuple[float, float, float]
    """The acceleration of gravity [m/s^2]."""

    def __call__(self, body: OrientedBody, state: ParticleState, dt: float) -> Array:
        """Return the forces (n, 3) [N] on the particles."""
        water = self.table
        beat = sin(2 * pi * state.time / water.period)
        x, y, z = (c + beat * s for c, s in zip(water.current, water.swell, strict=True))
        force = Buoyancy(water.level, water.density, water.drag, (x, y, z), self.gravity)
        return force(body, state, dt)


@dataclass(frozen=True, eq=False)
class SurfaceWind:
    """Pressure of the wind on the surfaces of implicit solids.

    The force along the normal is 1/2 density drag area speed^2. A step, however long, accelerates a triangle
    at most to the speed of the air.
    """

    wind: SceneWind
    """The wind as a function of the time."""
    faces: NDArray[np.int64]
    """Triangles (m, 3) of particles of the solver."""
    mass: Array
    """Masses of the triangles (m,) [kg]."""
    dt: float
    """Length of a step [s]."""

    def __call__(self, state: SolverState) -> Array:
        """Return the forces (n, 3) [N] on all particles of the solver."""
        forces = np.zeros_like(state.positions)
        table = self.wind.table
        corners = state.positions[self.faces]
        double = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        length = np.linalg.norm(double, axis=1)
        normal = double / np.where(length > 0, length, 1.0)[:, None]
        relative = self.wind.velocity(state.time) - state.velocities[self.faces].mean(1)
        speed = (relative * normal).sum(1)
        c = 0.25 * table.density * table.drag * length * np.abs(speed)  # the area is half that length
        each = (c * speed / (1 + c * self.dt / self.mass) / 3)[:, None] * normal
        np.add.at(forces, self.faces, each[:, None])
        return forces


@dataclass(frozen=True, eq=False)
class Push:
    """Constant forces between two times."""

    rows: NDArray[np.int64]
    """Particles of the solver (k,)."""
    forces: Array
    """Forces on them (k, 3) [N]."""
    start: float
    """When they start [s]."""
    stop: float
    """When they end [s]."""

    def add(self, time: float, velocities: Array, out: Array) -> None:
        """Add them to the forces (n, 3) on all particles, given the time [s] and the velocities (n, 3)."""
        if self.start <= time < self.stop:
            out[self.rows] += self.forces


@dataclass(frozen=True, eq=False)
class Drag:
    """Forces -strength velocity between two times."""

    rows: NDArray[np.int64]
    """Particles of the solver (k,)."""
    strength: Array
    """Force by velocity (k,) [N s/m]."""
    start: float
    """When they start [s]."""
    stop: float
    """When they end [s]."""

    def add(self, time: float, velocities: Array, out: Array) -> None:
        """Add them to the forces (n, 3) on all particles, given the time [s] and the velocities (n, 3)."""
        if self.start <= time < self.stop:
            out[self.rows] -= self.strength[:, None] * velocities[self.rows]


def on_particles(acting: Sequence[Push | Drag]) -> Callable[[OrientedBody, ParticleState, float], Array]:
    """Return pushes and drags as one force of the particle solver."""

    def force(body: OrientedBody, state: ParticleState, dt: float) -> Array:
        out = np.zeros_like(state.positions)
        for each in acting:
            each.add(state.time, state.velocities, out)
        return out

    return force


def on_solids(acting: Sequence[Push | Drag]) -> Callable[[SolverState], Array]:
    """Return pushes and drags as one force of the implicit solver."""

    def force(state: SolverState) -> Array:
        out = np.zeros_like(state.positions)
        for each in acting:
            each.add(state.time, state.velocities, out)
        return out

    return force
