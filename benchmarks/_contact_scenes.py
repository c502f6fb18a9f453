"""Two scenes of cloth in contact: how each program states them is its own, what they are is said here.

A cloth falls from 6 cm onto a ball, and one that lies on a floor, folded over askew, falls on itself. Nothing
has friction, since MuJoCo's contact without intersections has none.
"""

from dataclasses import dataclass
from functools import cached_property
from time import process_time

import numpy as np

from pointglue.elastic import ClothEnergy, Contact, ElasticBody, ImplicitSolver
from pointglue.geometry.solids import Ball, Plane
from pointglue.scene.build.meshing import sheet_grid

STRETCH, POISSON, BEND, DENSITY = 500.0, 0.3, 1e-5, 0.2  # N/m, -, N m, kg/m^2
SIDE = 1.0  # m
REACH = 4e-3  # m: how far contact reaches
SECONDS = 0.5  # of motion


@dataclass(frozen=True)
class Scene:
    """A cloth that is flat and at rest in the plane of x and z, where it starts, and what it falls on."""

    name: str
    rest: np.ndarray
    faces: np.ndarray
    start: np.ndarray
    under: Ball | Plane

    @cached_property
    def energy(self) -> ClothEnergy:
        """The energy of ours, of St. Venant and Kirchhoff, as MuJoCo's is."""
        return ClothEnergy(self.rest, self.faces, stretch=STRETCH, poisson=POISSON, bend=BEND)

    @cached_property
    def mass(self) -> np.ndarray:
        """The masses of the points, a third of each triangle's."""
        return self.energy.mass(DENSITY)

    def solver(self, method: str = "euler") -> ImplicitSolver:
        """Return ours, which also tells of all what intersects."""
        body = ElasticBody(self.start, self.mass, [self.energy], faces=self.faces, name="cloth")
        contact = Contact(distance=REACH)
        return ImplicitSolver([body], contact=contact, colliders=[self.under], method=method)

    def gap(self, end: np.ndarray) -> str:
        """Return the least distance of surfaces in words, or that they intersect, told exactly."""
        solver = self.solver()
        x = solver.start().particles.copy()
        x[: len(end)] = end
        assert solver.surfaces is not None
        if solver.surfaces.intersecting(x):
            return "intersects"
        least = solver.surfaces.least_distance(x)
        return f"{1e3 * least:.2f} mm" if np.isfinite(least) else f"> {1e3 * REACH:g} mm"


def our_run(scene: Scene, steps: int, method: str) -> tuple[float, np.ndarray]:
    """Return the CPU time of so many of our steps [s], and where the points are then."""
    solver = scene.solver(method)
    state = solver.start()
    solver.step(state, SECONDS / steps)  # compiles what is not yet
    begin = process_time()
    for _ in range(steps):
        state = solver.step(state, SECONDS / steps)
    return process_time() - begin, state.positions[: len(scene.rest)]


def drape(cells: int) -> Scene:
    """Return a cloth that is let go 6 cm above a ball, a little aside of its middle."""
    rest, faces = sheet_grid((SIDE, SIDE), (cells, cells))
    return Scene("drapes over a ball", rest, faces, rest + [0.003, 0.36, 0.007], Ball((0, 0, 0), 0.3))


def fold(cells: int) -> Scene:
    """Return a cloth on a floor, its one part bent back over the other, 10 cm above it and let go.

    It is bent along a line that is askew to its edges, so that none of these meets one that is parallel.
    """
    rest, faces = sheet_grid((SIDE, SIDE), (cells, cells))
    along, across = np.array([np.cos(0.1), 0.0, np.sin(0.1)]), np.array([-np.sin(0.1), 0.0, np.cos(0.1)])
    radius, length = 0.05, rest @ along
    angle = np.clip(length / radius, 0.0, np.pi)
    flat = np.minimum(length, 0.0) - np.maximum(length - np.pi * radius, 0.0)
    start = (flat + radius * np.sin(angle))[:, None] * along + (rest @ across)[:, None] * across
    start[:, 1] = 1.5 * REACH + radius * (1 - np.cos(angle))
    return Scene("falls on itself", rest, faces, start, Plane((0, 0, 0), (0, 1, 0)))
