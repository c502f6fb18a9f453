"""A shirt front in the wind: a cloth on a line, with buttons and a pocket glued to it.

The buttons are rigid bodies, welded to the cloth by glue and held a little in front of it. The pocket is a
cloth of its own, sewn on along three sides: its seam is where glue says, in front of the cloth as well, and
the rest of it is free. Gusts press on every triangle along its normal. From left to right: hanging, in the
first gust, and blown out. (Figure 6 of the Point Cloud Glue paper, without the character.)

    python examples/cloth_with_buttons.py [PICTURE.png] [MOVIE.mp4]
"""

import numpy as np
import trimesh
from _report import paths, save_movie, save_picture
from scipy.interpolate import make_interp_spline

import pointglue as pg
from pointglue import view
from pointglue.elastic import Bond, ClothEnergy, ElasticBody, ImplicitSolver, JointBond, RigidBody

STEP = 1 / 30  # s
WIDTH, HEIGHT, LINE = 0.9, 1.1, 1.45  # m
CELLS = (28, 34)
POCKET, POCKET_CELLS, POCKET_AT = (0.24, 0.26), (9, 10), (0.1, 0.92)  # m, its lower left corner
BUTTONS = np.array([[-0.05, y, 0.0] for y in (1.34, 1.12, 0.9, 0.68, 0.46)])
BEFORE = 0.008  # m from the cloth to the middle of a button, and to the pocket
PEGS = (-0.36, 0.0, 0.36)
LIGHT = {"shirt": np.array([0.78, 0.86, 0.9]), "pocket": np.array([0.72, 0.8, 0.86])}
DARK = {"shirt": np.array([0.42, 0.62, 0.74]), "pocket": np.array([0.25, 0.45, 0.66])}
STRIPES, FINER = {"shirt": 11, "pocket": 3}, 5
SHOWN = (0.1, 0.4, 0.7)  # s
LIMIT = 1.06
SHIRT = {"stretch": 800.0, "poisson": 0.3, "bend": 2e-5, "limit": LIMIT}
POCKET_CLOTH = SHIRT | {"bend": 5e-4}  # lined
DENSITY, AIR = 0.18, 1.2  # kg/m^2, kg/m^3


def sheet(size, cells, corner):
    """A grid in the plane of x and y: points, and triangles whose diagonals take turns."""
    i, j = np.meshgrid(np.arange(cells[0] + 1), np.arange(cells[1] + 1), indexing="ij")
    points = np.stack([i * size[0] / cells[0], j * size[1] / cells[1], 0.0 * i], axis=-1) + corner
    number = i * (cells[1] + 1) + j
    a, b, c, d = number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]
    odd = ((i + j)[:-1, :-1, None] % 2).astype(bool)
    first = np.where(odd, np.stack([a, b, c], -1), np.stack([a, b, d], -1))
    second = np.where(odd, np.stack([a, c, d], -1), np.stack([b, c, d], -1))
    return points.reshape(-1, 3), np.concatenate([first.reshape(-1, 3), second.reshape(-1, 3)])


def button():
    """A disc with a rim, its axis along z: vertices and faces."""
    profile = [[0.0, -2], [11, -2], [14, 0], [14, 1.5], [12.5, 2.5], [11, 1.5], [9.5, 0.8], [0.0, 0.8]]
    disc = trimesh.creation.revolve(1.6e-3 * np.array(profile), sections=48)
    return np.asarray(disc.vertices), np.asarray(disc.faces)


def wind(time, places):
    """The air's velocity (m, 3) at places (m, 3), in m/s: gusts from behind, which roll from side to side."""
    rise = np.clip(0.3 + time / 0.6, 0.0, 1.0)
    gust = 1.3 + 0.8 * np.sin(2 * np.pi * time / 1.1 - 0.5)
    roll = 1 + 0.4 * np.sin(7 * places[:, 0] + 3 * places[:, 1] - 2 * np.pi * time / 0.8)
    return rise * np.stack([0.6 * roll, 0.2 * roll, gust * roll], axis=1)


class Air:
    """Pressure of the wind on triangles (m, 3) of the scene, as a force of the solver."""

    def __init__(self, faces):
        self.faces = faces

    def __call__(self, state):
        corners = state.positions[self.faces]
        double = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        area = np.linalg.norm(double, axis=1) / 2
        normal = double / (2 * area[:, None])
        air = wind(state.time, corners.mean(1))
        speed = ((air - state.velocities[self.faces].mean(1)) * normal).sum(1)
        each = (AIR / 2 * area * abs(speed) * speed)[:, None] * normal / 3
        forces = np.zeros_like(state.positions)
        np.add.at(forces, self.faces, each[:, None])
        return forces


def stretches(energy, rest, x):
    """The largest of each triangle (m,), as a ratio."""
    now, before = (points[energy.faces][:, 1:] - points[energy.faces][:, :1] for points in (x, rest))
    squares = np.linalg.solve(before @ np.swapaxes(before, 1, 2), now @ np.swapaxes(now, 1, 2))
    return np.sqrt(np.linalg.eigvals(squares).real.max(1))


def smooth(x, cells):
    """Points of a finer grid on splines through those of a sheet, and how far across (0 to 1) they are."""
    u, v = (np.linspace(0, n, FINER * n + 1) for n in cells)
    grid = x.reshape(cells[0] + 1, cells[1] + 1, 3)
    for axis, (n, at) in enumerate(zip(cells, (u, v), strict=True)):
        grid = make_interp_spline(np.arange(n + 1), grid, axis=axis)(at)
    return grid.reshape(-1, 3), np.repeat(u / cells[0], len(v))


def breath(points):
    """A first motion (n, 3), in m/s: what is flat has no side to give way to."""
    wave = 0.5 + 0.2 * np.cos(3 * np.pi * points[:, :1] / WIDTH)
    return wave * (LINE - points[:, 1:2]) / HEIGHT * [0.0, 0.0, 1.0]


class Shirt:
    """The scene and its solver."""

    def __init__(self):
        self.cloth, self.faces = sheet((WIDTH, HEIGHT), CELLS, [-WIDTH / 2, LINE - HEIGHT, 0.0])
        self.patch, self.patch_faces = sheet(POCKET, POCKET_CELLS, [*POCKET_AT, BEFORE])
        cloth, patch = self.cloth, self.patch
        # It is cut wider than where it is sewn on, and stands out.
        u, v = ((patch[:, :2] - POCKET_AT) / POCKET).T
        patch[:, 2] += 0.03 * np.sin(np.pi * u) * np.sin(np.pi / 2 * v)
        self.energy = ClothEnergy(cloth, self.faces, **SHIRT)
        self.patch_energy = ClothEnergy(patch, self.patch_faces, **POCKET_CLOTH)
        from_peg = abs(cloth[:, None, 0] - PEGS).min(1)
        self.pegs = np.isclose(cloth[:, 1], LINE) & (from_peg < 0.035)
        left, bottom = (np.isclose(patch[:, k], patch[:, k].min()) for k in (0, 1))
        right = np.isclose(patch[:, 0], patch[:, 0].max())
        self.seam = np.flatnonzero(left | bottom | right)
        self.glue = pg.bind_glue(cloth, patch)
        self.under = pg.bind_glue(cloth, patch * [1, 1, 0], parents=12)
        self.views = {
            name: sheet((1, 1), (FINER * cells[0], FINER * cells[1]), [0, 0, 0])[1]
            for name, cells in (("shirt", CELLS), ("pocket", POCKET_CELLS))
        }
        vertices, self.disc = button()
        places = BUTTONS + [0.0, 0.0, BEFORE]
        self.buttons = [
            RigidBody.solid(vertices + place, self.disc, 1200.0, name=f"button {k}")
            for k, place in enumerate(places)
        ]
        welds = [
            JointBond("shirt", body.name, pg.bind_joint(cloth, body.positions, place, kind="weld"))
            for body, place in zip(self.buttons, places, strict=True)
        ]
        shirt = ElasticBody(
            cloth,
            self.energy.mass(DENSITY),
            [self.energy],
            pinned=self.pegs,
            velocities=breath(cloth),
            name="shirt",
        )
        pocket = ElasticBody(
            patch,
            self.patch_energy.mass(DENSITY),
            [self.patch_energy],
            velocities=breath(patch),
            name="pocket",
        )
        self.solver = ImplicitSolver(
            [shirt, pocket, *self.buttons],
            glue=[Bond("pocket", self.seam, "shirt", self.glue.take(self.seam))],
            joints=welds,
            forces=[Air(np.concatenate([self.faces, len(cloth) + self.patch_faces]))],
            tolerance=1e-2,
        )

    def draw(self, scene, state, place):
        """Add it with the line and its pegs, shifted."""
        for name, cells in (("shirt", CELLS), ("pocket", POCKET_CELLS)):
            fine, across = smooth(state.body(name), cells)
            stripes = np.clip(3 * np.sin(2 * np.pi * STRIPES[name] * across), -0.5, 0.5)[:, None] + 0.5
            colors = LIGHT[name] + stripes * (DARK[name] - LIGHT[name])
            scene.mesh(fine + place, self.views[name], color=colors)
        around = self.patch[self.seam] - self.patch.mean(0)
        order = self.seam[np.argsort(np.arctan2(around[:, 0], -around[:, 1]))]
        seam = state.body("pocket")[order] + place + [0, 0, 0.002]
        scene.lines(seam, color="graphite", radius=0.002)
        for body in self.buttons:
            scene.mesh(state.body(body.name) + place, self.disc, color="gold")
        ends = np.array([[-0.6 * WIDTH, LINE, 0.0], [0.6 * WIDTH, LINE, 0.0]])
        scene.lines(ends + place, color="graphite", radius=0.004)
        peg = trimesh.creation.box((0.022, 0.075, 0.024))
        for x in PEGS:
            scene.mesh(peg.vertices + [x, LINE + 0.008, 0.0] + place, peg.faces, color="sand")


def main(picture, movie=None):
    shirt = Shirt()
    states = [shirt.solver.start()]
    for _ in range(round((5.0 if movie else SHOWN[-1]) / STEP)):
        states.append(shirt.solver.step(states[-1], STEP))
    reports = [state.report for state in states[1:]]
    spent = {part: sum(report.seconds[part] for report in reports) for part in reports[0].seconds}
    print(f"{len(shirt.cloth)} + {len(shirt.patch)} points, {len(BUTTONS)} buttons, {len(reports)} steps")
    print(f"{np.mean([report.iterations for report in reports]):.1f} Newton steps a step")
    print(", ".join(f"{part} {value / sum(spent.values()):.1%}" for part, value in spent.items()))

    open_by = max(report.violation for report in reports)
    worst = [
        max(stretches(energy, rest, state.body(name)).max() for state in states)
        for energy, rest, name in (
            (shirt.energy, shirt.cloth, "shirt"),
            (shirt.patch_energy, shirt.patch, "pocket"),
        )
    ]
    # Where all of the pocket would be if all of it were glued on.
    off = np.stack([state.body("pocket") - shirt.glue.positions(state.body("shirt")) for state in states])
    off = np.linalg.norm(off, axis=2)
    gaps = []
    for state in states:
        pose = shirt.under.at(state.body("shirt"))
        gaps.append(((state.body("pocket") - pose.positions) * pose.rotations[:, :, 2]).sum(1))
    reach = max(state.body("shirt")[:, 2].max() for state in states)
    print(f"the wind carries the cloth {reach:.2f} m; no button is off by more than {open_by:.0e} m")
    print(
        f"the pocket's seam is off by {off[:, shirt.seam].max():.0e} m, the rest billows {off.max():.3f} m,"
    )
    print(f"and all of it is {1e3 * np.min(gaps):.1f} to {1e3 * np.max(gaps):.0f} mm in front of the cloth")
    print(f"nothing is stretched by more than {max(worst) - 1:.1%}, of {LIMIT - 1:.0%} allowed")
    assert reach > 0.25
    assert open_by < 1e-8 * HEIGHT
    assert off[:, shirt.seam].max() < 1e-12
    assert off.max() < 0.04
    assert np.min(gaps) > 0  # it stays in front, as it was sewn on
    assert max(worst) < LIMIT

    camera = view.Camera(direction=(0.75, 0.15, 1.0), fov=12)
    scene = view.Picture(size=(1440, 576), ground=0.2, camera=camera)
    for k, moment in enumerate(SHOWN):
        shirt.draw(scene, states[round(moment / STEP)], 1.35 * (k - 1) * camera.axes[0])
    save_picture(scene, picture)
    if movie:
        still = view.Camera(direction=(0.75, 0.15, 1.0), target=(0.0, 0.84, 0.2), distance=4.4, fov=20)

        def frame(state):
            shot = view.Picture(size=(960, 540), ground=0.2, camera=still)
            shirt.draw(shot, state, np.zeros(3))
            return shot

        save_movie((frame(state) for state in states), movie)


if __name__ == "__main__":
    main(*paths("cloth_with_buttons"))
