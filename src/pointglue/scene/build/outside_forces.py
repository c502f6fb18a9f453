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

__all__ = ["Air", "Blowing", "Drag", "Push", "Swell", "Weather"]


@dataclass(frozen=True)
class Weather:
    """The wind of a scene as a function of the time."""

    table: schema.Wind
    start: float
    stop: float

    @staticmethod
    def of(table: schema.Wind, frames: schema.Frames) -> "Weather":
        """With its moments in seconds."""
        stop = inf if table.stop is None else frames.seconds(table.stop)
        return Weather(table, frames.seconds(table.start), stop)

    def velocity(self, time: float) -> Array:
        """(3,), m/s."""
        wind = self.table
        if not self.start <= time < self.stop:
            return np.zeros(3)
        return np.array(wind.velocity) * (1 + wind.gust * sin(2 * pi * (time - self.start) / wind.period))


@dataclass(frozen=True)
class Blowing:
    """Wind on particles."""

    weather: Weather

    def __call__(self, body: OrientedBody, state: ParticleState, dt: float) -> Array:
        """Forces (n, 3), N."""
        vx, vy, vz = self.weather.velocity(state.time).tolist()
        wind = self.weather.table
        return Wind((vx, vy, vz), wind.density, wind.drag)(body, state, dt)


@dataclass(frozen=True)
class Swell:
    """Water on particles, streaming and going to and fro."""

    table: schema.Water
    gravity: tuple[float, float, float]

    def __call__(self, body: OrientedBody, state: ParticleState, dt: float) -> Array:
        """Forces (n, 3), N."""
        water = self.table
        beat = sin(2 * pi * state.time / water.period)
        x, y, z = (c + beat * s for c, s in zip(water.current, water.swell, strict=True))
        force = Buoyancy(water.level, water.density, water.drag, (x, y, z), self.gravity)
        return force(body, state, dt)


@dataclass(frozen=True, eq=False)
class Air:
    """Pressure of the wind on triangles (m, 3) between the particles of implicit solids.

    Along the normal, 1/2 density drag area speed^2. A step of `dt` (s) takes a triangle of the given mass
    (m,) at most to the speed of the air, however long it is.
    """

    weather: Weather
    faces: NDArray[np.int64]
    mass: Array
    dt: float

    def __call__(self, state: SolverState) -> Array:
        """Forces (N, 3), N."""
        forces = np.zeros_like(state.positions)
        wind = self.weather.table
        corners = state.positions[self.faces]
        double = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        length = np.linalg.norm(double, axis=1)
        normal = double / np.where(length > 0, length, 1.0)[:, None]
        relative = self.weather.velocity(state.time) - state.velocities[self.faces].mean(1)
        speed = (relative * normal).sum(1)
        c = 0.25 * wind.density * wind.drag * length * np.abs(speed)  # the area is half that length
        each = (c * speed / (1 + c * self.dt / self.mass) / 3)[:, None] * normal
        np.add.at(forces, self.faces, each[:, None])
        return forces


@dataclass(frozen=True, eq=False)
class Push:
    """Constant forces (k, 3) in N on particles (k,), between two times."""

    rows: NDArray[np.int64]
    forces: Array
    start: float
    stop: float

    def add(self, time: float, velocities: Array, out: Array) -> None:
        """Add them to forces (N, 3)."""
        if self.start <= time < self.stop:
            out[self.rows] += self.forces


@dataclass(frozen=True, eq=False)
class Drag:
    """Forces -strength velocity on particles (k,), strength (k,) in N s/m, between two times."""

    rows: NDArray[np.int64]
    strength: Array
    start: float
    stop: float

    def add(self, time: float, velocities: Array, out: Array) -> None:
        """Add them to forces (N, 3)."""
        if self.start <= time < self.stop:
            out[self.rows] -= self.strength[:, None] * velocities[self.rows]


def on_particles(acting: Sequence[Push | Drag]) -> Callable[[OrientedBody, ParticleState, float], Array]:
    """A force of the particle solver."""

    def force(body: OrientedBody, state: ParticleState, dt: float) -> Array:
        out = np.zeros_like(state.positions)
        for each in acting:
            each.add(state.time, state.velocities, out)
        return out

    return force


def on_solids(acting: Sequence[Push | Drag]) -> Callable[[SolverState], Array]:
    """A force of the implicit solver."""

    def force(state: SolverState) -> Array:
        out = np.zeros_like(state.positions)
        for each in acting:
            each.add(state.time, state.velocities, out)
        return out

    return force
