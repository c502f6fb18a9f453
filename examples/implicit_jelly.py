"""Jelly by implicit shape matching, pulled aside and let go, with viscous damping from none to strong.

Each jelly is a lattice of overlapping cubes that remember their shape, and carries a smooth skin. From left to
right they are damped more and more; the line that rises from each is where its tip went, the latest at the
bottom. (Figure 1 of the Hessian of Shape Matching report; with explicit steps the last would take thousands.)
The grey one is a thousand times stiffer, and takes steps as long as the frames of a film, 1/24 s.

    python examples/implicit_jelly.py [PICTURE.png] [MOVIE.mp4]
"""

import sys
from pathlib import Path

import numpy as np

import pointglue as pg
from pointglue import view
from pointglue.elastic import ElasticBody, ImplicitSolver, ShapeMatchingEnergy
from pointglue.geometry.cages import surface_cage

STEP, FILM = 1 / 90, 1 / 24  # s
SECONDS = 1.0
DAMPINGS = {"none": 0.0, "weak": 0.006, "medium": 0.02, "strong": 0.1}  # s
COLOURS = {"none": "coral", "weak": "gold", "medium": "sage", "strong": "plum", "stiff": "slate"}
SOFT, STIFF = 250.0, 1e6  # N/m
DENSITY, CELL = 1000.0, 0.03  # kg/m^3, m
HEIGHT, WIDTH, FLUTES, PULL = 0.125, 0.105, 9, 0.055


def mould(rings=40, around=180):
    """A fluted jelly that stands on the ground: vertices and faces of its closed surface."""
    t = np.linspace(0, 1, rings)
    # Up the side, over a round edge, and down into a dimple.
    knots = np.array([0.0, 0.1, 0.45, 0.6, 0.7, 0.8, 0.9, 1.0])
    radius = np.interp(t, knots, np.array([1.0, 1.0, 0.8, 0.72, 0.6, 0.42, 0.22, 0.0]) * WIDTH)
    height = np.interp(t, knots, np.array([0.0, 0.06, 0.74, 0.93, 1.0, 0.99, 0.91, 0.87]) * HEIGHT)
    for curve in (radius, height):
        curve[1:-1] = np.convolve(np.pad(curve, 3, "reflect", reflect_type="odd"), np.ones(7) / 7, "valid")[1:-1]
    angle = np.linspace(0, 2 * np.pi, around, endpoint=False)
    depth = 0.07 * np.sin(np.pi * np.clip(t / 0.85, 0, 1)) ** 0.5
    r = radius[:-1, None] * (1 + depth[:-1, None] * (abs(np.cos(FLUTES / 2 * angle)) ** 0.8 * 2 - 1))
    side = np.stack([r * np.cos(angle), np.broadcast_to(height[:-1, None], r.shape), r * np.sin(angle)], -1)
    vertices = np.concatenate([side.reshape(-1, 3), [[0, height[-1], 0], [0, 0, 0]]])
    i, j = (grid.ravel() for grid in np.meshgrid(np.arange(rings - 2), np.arange(around), indexing="ij"))
    a, b = i * around + j, i * around + (j + 1) % around
    rim, first = (rings - 2) * around + np.arange(around), np.arange(around)
    top, bottom = np.full(around, len(vertices) - 2), np.full(around, len(vertices) - 1)
    faces = [
        np.stack([a, a + around, b], 1),
        np.stack([b, a + around, b + around], 1),
        np.stack([rim, top, np.roll(rim, -1)], 1),
        np.stack([first, np.roll(first, -1), bottom], 1),
    ]
    return vertices, np.concatenate(faces)


def pulled(points):
    """Leaning over, more towards the top."""
    up = np.clip(points[:, 1:2] / HEIGHT, 0.0, None)
    return points + PULL * up**1.5 * [1.0, -0.25, 0.0]


class Jelly:
    """One jelly, its solver and what became of it."""

    def __init__(self, cage, stiffness, damping, method):
        points, tets = cage
        cubes = [np.unique(cube) for cube in tets.reshape(-1, 24)]
        share = DENSITY * CELL**3 / 8
        self.mass = share * np.bincount(np.concatenate(cubes), minlength=len(points))
        self.energy = ShapeMatchingEnergy(
            points, self.mass, stiffness, clusters=cubes, blend=0.3, damping=(damping, 0.0)
        )
        stands = points[:, 1] < points[:, 1].min() + 1e-6
        start = np.where(stands[:, None], points, pulled(points))
        body = ElasticBody(start, self.mass, [self.energy], pinned=stands)
        self.solver = ImplicitSolver([body], method=method)
        self.states = [self.solver.start()]

    def run(self, seconds, step):
        for _ in range(round(seconds / step)):
            self.states.append(self.solver.step(self.states[-1], step))

    def total(self, state):
        """All energy (J)."""
        kinetic = 0.5 * self.mass @ (state.velocities**2).sum(1)
        return kinetic + self.energy.value(state.positions) + 9.81 * self.mass @ state.positions[:, 1]
