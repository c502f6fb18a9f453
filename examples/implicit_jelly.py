"""Jelly by implicit shape matching, pulled aside and let go, with viscous damping from none to strong.

Each jelly is a lattice of overlapping cubes that remember their shape, and carries a smooth skin. From left
to right they are damped more and more; the line that rises from each shows where its top has been, now at the
lower end. (Figure 1 of The Hessian of Shape Matching, by Fei.) The grey one is 4,000 times as stiff, and its
steps are as long as the frames of a film, 1/24 s.

    python examples/implicit_jelly.py [PICTURE.png] [MOVIE.mp4]
"""

from itertools import pairwise

import numpy as np
import trimesh
from _report import paths, save_movie, save_picture
from scipy.interpolate import PchipInterpolator

import pointglue as pg
from pointglue import view
from pointglue.elastic import ElasticBody, ImplicitSolver, ShapeMatchingEnergy
from pointglue.geometry.cages import surface_cage

STEP, FILM = 1 / 60, 1 / 24  # s
SECONDS = 0.9
DAMPINGS = {"none": 0.0, "weak": 0.006, "medium": 0.02, "strong": 0.1}  # s
COLORS = {"none": "coral", "weak": "gold", "medium": "sage", "strong": "plum", "stiff": "slate"}
SOFT, STIFF = 250.0, 1e6  # N/m
DENSITY, CELL = 1000.0, 0.034  # kg/m^3, m
HEIGHT, WIDTH, FLUTES, PULL = 0.125, 0.105, 9, 0.075  # m
RISE = 0.18  # m/s of the lines


def mould():
    """A fluted jelly that stands on the ground: vertices and faces of its closed surface."""
    # Up the side, over a round edge, and down into a dimple: radii and heights.
    knots = [[1.0, 0.0], [0.97, 0.15], [0.86, 0.55], [0.75, 0.9], [0.57, 1.0], [0.36, 0.96], [0.0, 0.87]]
    side = PchipInterpolator(range(len(knots)), knots)(np.linspace(0, len(knots) - 1, 40))
    vertices, faces = turned([[0.0, 0.0], *(side * [WIDTH, HEIGHT])], 180)
    angle = np.arctan2(vertices[:, 2], vertices[:, 0])
    ribs = 2 * abs(np.cos(FLUTES / 2 * angle)) ** 0.8 - 1
    deep = 0.07 * np.sqrt(np.clip(vertices[:, 1] / HEIGHT * 3, 0.0, 1.0))
    return vertices * (1 + (deep * ribs)[:, None] * [1.0, 0.0, 1.0]), faces


def turned(profile, sections):
    """The surface of a profile of radii and heights that is turned about the y axis."""
    mesh = trimesh.creation.revolve(profile, sections=sections)
    return mesh.vertices[:, [1, 2, 0]], np.asarray(mesh.faces)


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
            points, self.mass, stiffness, clusters=cubes, blend=0.3, damping=damping
        )
        stands = points[:, 1] < points[:, 1].min() + 1e-6
        start = np.where(stands[:, None], points, pulled(points))
        body = ElasticBody(start, self.mass, [self.energy], pinned=stands)
        self.solver = ImplicitSolver([body], method=method)
        self.states = [self.solver.start()]

    def run(self, seconds, step):
        for _ in range(round(seconds / step)):
            self.states.append(self.solver.step(self.states[-1], step))

    @property
    def times(self):
        return np.array([state.time for state in self.states])

    def after(self, moment):
        """The number of the last state until then."""
        return int(np.searchsorted(self.times, moment + 1e-9)) - 1

    def total(self, state):
        """All energy (J)."""
        kinetic = 0.5 * self.mass @ (state.velocities**2).sum(1)
        return kinetic + self.energy.value(state.positions) + 9.81 * self.mass @ state.positions[:, 1]


def main(picture, movie=None):
    vertices, faces = mould()
    cage = surface_cage(vertices, faces, CELL)
    skin = pg.embed(cage, vertices)
    rim = vertices[:, 1] > 0.97 * HEIGHT
    print(f"{len(cage[0])} points in {len(cage[1]) // 6} clusters, {len(vertices):,} vertices")
    seconds = 4.0 if movie else SECONDS
    jellies = {name: Jelly(cage, SOFT, alpha, "bdf2") for name, alpha in DAMPINGS.items()}
    jellies["stiff"] = Jelly(cage, STIFF, 0.0, "euler")
    skins, tops, late = {}, {}, {}
    for name, jelly in jellies.items():
        jelly.run(seconds, FILM if name == "stiff" else STEP)
        skins[name] = np.stack([skin.positions(state.positions) for state in jelly.states])
        tops[name] = skins[name][:, rim].mean(1)
        sway = abs(tops[name][:, 0])
        late[name] = sway[jelly.after(0.6 * SECONDS) : jelly.after(SECONDS)].max() / sway[0]
        total = np.array([jelly.total(state) for state in jelly.states])
        gained = np.diff(total).max() / (total[0] - total.min())
        reports = [state.report for state in jelly.states[1:]]
        newton = [report.iterations / report.substeps for report in reports]
        print(
            f"{name:>6}: sways by {late[name]:6.1%} of the pull after {0.6 * SECONDS:.1f} s; "
            f"{np.mean(newton):.1f} Newton steps a step; {shares(reports)}"
        )
        assert np.isfinite(skins[name]).all()
        assert gained < 1e-5  # steps of second order lose energy but for a trifle
        # No step had to be halved; the first of "bdf2" are five short ones.
        assert max(report.substeps for report in reports[1:]) == 1
    assert late["none"] > 0.3
    assert all(late[less] > 1.5 * late[more] for less, more in pairwise(DAMPINGS))
    assert late["stiff"] < 1e-3

    outline = [[0, -4], [90, -4], [135, 4], [138, 6], [134, 7], [100, 0], [0, 0]]
    plate = turned(1e-3 * np.array(outline), 96)
    camera = view.Camera(direction=(0.0, 0.22, 1.0), fov=12)

    def shot(moment, size, camera):
        scene = view.Picture(size=size, ground=-0.004, camera=camera)
        for k, (name, jelly) in enumerate(jellies.items()):
            place, now = np.array([0.3 * (k - 2), 0.0, 0.0]), jelly.after(moment)
            scene.mesh(plate[0] + place, plate[1], color="white")
            scene.mesh(skins[name][now] + place, faces, color=COLORS[name])
            ages = jelly.times[now] - jelly.times[: now + 1]
            trace = tops[name][: now + 1] + place
            trace[:, 1] = HEIGHT + 0.03 + RISE * ages
            shown = np.flatnonzero(ages <= SECONDS + 1e-9)
            if len(shown) > 1:
                scene.lines(trace[shown], color=COLORS[name], radius=0.003)
        return scene

    save_picture(shot(SECONDS, (1600, 560), camera), picture)
    if movie:
        still = shot(SECONDS, (960, 540), camera).fitted_camera()
        moments = np.arange(0, seconds, 1 / 30)
        save_movie((shot(moment, (960, 540), still) for moment in moments), movie)


def shares(reports):
    """What the time went into."""
    spent = {part: sum(report.seconds[part] for report in reports) for part in reports[0].seconds}
    total = sum(spent.values())
    return ", ".join(f"{part} {value / total:.0%}" for part, value in spent.items())


if __name__ == "__main__":
    main(*paths("implicit_jelly"))
