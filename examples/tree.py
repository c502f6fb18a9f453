"""A tree in a gale, its branches glued on (figures 5 and 7 of the paper on point cloud glue).

From left to right: the tetrahedra, with the points that are glued to the parent branch in green; the tree
with its skin and leaves, at rest; in the wind, with three limbs let go one after the other; and soon after.

The green points are outside the mesh of the branch that they follow: no mesh has to meet another. A limb that
is let go takes its twigs along. The rigid ball hangs by glue as well, on a point under its branch.

    python examples/tree.py [PICTURE.png] [MOVIE.mp4]
"""

from dataclasses import replace

import numpy as np
import trimesh
from _report import paths, print_newton, run_implicit, save_movie, save_picture

import pointglue as pg
from pointglue import view
from pointglue.assets.tree import tree as grown
from pointglue.elastic import Bond, ElasticBody, Elements, FleshEnergy, ImplicitSolver, JointBond, RigidBody
from pointglue.geometry import simplices

STEP = 1 / 30  # of the solver and of the film, s
WIND = 5.0  # m/s
DENSITY = 500.0
YOUNG = (1.2e7, 4e6, 4e6)  # Pa, of the trunk, of branches on it, of branches on those
RELEASE = {"limb 1": 0.4, "limb 2": 0.5, "limb 5": 0.6}  # s
SHOWN = (0.0, 0.7, 1.2)  # s
BALL, CORD = 0.1, 0.16  # m
UP = np.array([0.0, 1.0, 0.0])


class Lawn(Elements):
    """Soft ground at the height 0: a spring for each point that is below it."""

    def __init__(self, count, stiffness):
        super().__init__(np.arange(count)[:, None], count)
        self.stiffness = stiffness

    def _values(self, x, out):
        out[:] = 0.5 * self.stiffness * np.minimum(x[:, 1], 0.0) ** 2

    def _gradients(self, x, out):
        out[:, 0] = self.stiffness * np.minimum(x[:, 1:2], 0.0) * UP

    def _hessians(self, x, project, out):
        out[:] = self.stiffness * (x[:, 1] < 0)[:, None, None] * np.diag(UP)


class Wood:
    """What a branch is made of, and its skin."""

    def __init__(self, branch):
        self.energy = FleshEnergy(branch.points, branch.tets, young=YOUNG[branch.level], poisson=0.3)
        self.mass = self.energy.mass(DENSITY)
        # The skin reaches into the parent, where there are no tetrahedra.
        fine, solid = simplices.tet_box((1.1, 2, 2), (44, 5, 5))
        used, faces = np.unique(simplices.tet_surface(solid), return_inverse=True)
        self.faces = faces.reshape(-1, 3)
        places = branch.swept(fine[used, 0] + 0.45, fine[used, 1:])
        self.skin = pg.embed((branch.points, branch.tets), places)


class Leaves:
    """Leaves on a branch: each a rigid blade (15 vertices) in the frame of a point that is glued to it."""

    def __init__(self, branch, rng):
        count, first = (6, 0.8) if branch.level == 0 else (16, 0.35)
        s = np.linspace(first, 0.99, count)
        place, along = branch.at(s)
        way = rng.standard_normal((count, 3)) + 0.8 * along + 0.2 * UP
        way /= np.linalg.norm(way, axis=1, keepdims=True)
        side = np.cross(way, UP + 0.5 * rng.standard_normal((count, 3)))
        side /= np.linalg.norm(side, axis=1, keepdims=True)
        size = rng.uniform(0.1, 0.17, count)
        profile = [(0, 0.02), (0.25, 0.19), (0.5, 0.23), (0.8, 0.12), (1, 0.01)]  # length, half width
        blade = np.array([[x, y * w, 0.3 * abs(y) * w] for x, w in profile for y in (-1, 0, 1)])
        frames = np.stack([way, side, np.cross(way, side)], axis=2) * size[:, None, None]
        self.blades = blade @ np.swapaxes(frames, 1, 2)
        self.glue = pg.bind_glue(branch.points, place + 0.9 * branch.radius(s)[:, None] * way, parents=18)
        corner = np.array([[r, r + 1, r + 4, r, r + 4, r + 3] for k in range(4) for r in (3 * k, 3 * k + 1)])
        self.faces = (corner.reshape(-1, 3) + 15 * np.arange(count)[:, None, None]).reshape(-1, 3)
        green = np.array([[0.36, 0.53, 0.24], [0.66, 0.70, 0.30]])
        self.colors = np.repeat(green[0] + rng.random((count, 1)) * (green[1] - green[0]), 15, axis=0)

    def at(self, x):
        pose = self.glue.at(x)
        return (pose.positions[:, None] + self.blades @ np.swapaxes(pose.rotations, 1, 2)).reshape(-1, 3)


def falls(branch):
    """Whether it, or what it grows on, is let go."""
    return branch is not None and (branch.name in RELEASE or falls(branch.parent))


def build(tree, wood):
    """The solver, and the bonds by the name of the branch that they hold."""
    bodies, bonds = [], {}
    for branch in tree:
        count = len(branch.points)
        held = None if branch.parent else np.isin(np.arange(count), branch.ring)
        energy, mass = wood[branch.name].energy, wood[branch.name].mass
        energies = [energy]
        if falls(branch):
            energies.append(Lawn(count, 4e3 * mass.mean()))
        bodies.append(ElasticBody(branch.points, mass, energies, pinned=held, name=branch.name))
        if branch.parent:
            roots = branch.ring[::2]  # its corners and its middle
            glue = pg.bind_glue(branch.parent.points, branch.points[roots])
            release = RELEASE.get(branch.name, np.inf)
            bonds[branch.name] = Bond(branch.name, roots, branch.parent.name, glue, release=release)
    limb = next(branch for branch in tree if branch.name == "limb 0")
    hook = limb.at(0.72)[0] - (limb.radius(0.72) + 0.02) * UP
    ball = trimesh.creation.icosphere(3, BALL)
    bodies.append(
        RigidBody.solid(ball.vertices + hook - (CORD + BALL) * UP, ball.faces, 500.0, name="ornament")
    )
    hung = JointBond("limb 0", "ornament", pg.bind_joint(limb.points, bodies[-1].positions, hook))
    mass = np.concatenate([wood[branch.name].mass for branch in tree])[:, None]
    catch = np.repeat([0.3, 0.7, 0.9], [sum(len(b.points) for b in tree if b.level == k) for k in range(3)])

    def weather(state):
        """Forces on all particles (N, 3): gusts from the left, and grass that holds on."""
        out = np.zeros_like(state.positions)
        x, v = state.positions[: len(mass)], state.velocities[: len(mass)]
        front = WIND * state.time - x[:, :1] - 1.2  # in m, past its edge
        gust = np.clip(front, 0, 1) * (3 + 6 * np.sin(2.2 * front) + 2 * np.sin(5.1 * front + x[:, 2:]))
        gust *= np.clip(2 * x[:, 1:2], 0, 1)  # it is calm near the ground
        out[: len(mass)] = mass * catch[:, None] * (gust * [1.0, 0.1, 0.25] - v)
        out[: len(mass)] -= np.where(x[:, 1:2] < 0, 0.4 / STEP * mass * v, 0.0)
        return out

    return ImplicitSolver(bodies, glue=list(bonds.values()), joints=[hung], forces=[weather]), bonds


def run(solver, bonds, seconds):
    """States from the moment the wind sets in, how far roots were off their glue, and seconds by part."""
    state = replace(solver.start(), time=-5.3)
    for step in (0.3, 1, 1, 1, 1, 1):  # first it takes up its weight, in large steps
        state = solver.step(state, step)
    off = [0.0]

    def check(state):
        for bond in bonds.values():
            if bond.release >= state.time:
                should = bond.binding.positions(state.body(bond.to))
                off.append(np.abs(state.body(bond.body)[bond.points] - should).max())

    states, spent = run_implicit(solver, replace(state, time=0.0), STEP, seconds, check)
    return states, max(off), spent


def main(picture, movie=None):
    tree = grown()
    wood = {branch.name: Wood(branch) for branch in tree}
    solver, bonds = build(tree, wood)
    for branch in tree[1:]:
        parent, roots = branch.parent, bonds[branch.name].points
        cells, _ = simplices.locate(parent.points, parent.tets, branch.points[roots])
        assert (cells < 0).all()  # outside of what they hang on
    print(f"{len(tree)} branches, {sum(len(b.points) for b in tree)} points, ", end="")
    print(f"{sum(len(b.tets) for b in tree)} tetrahedra, {sum(len(b.points) for b in bonds.values())} roots")
    states, off, spent = run(solver, bonds, 5.0 if movie else SHOWN[-1])

    print_newton(states, spent)
    print(f"glue takes {spent['glue'] / spent['all']:.1%} of the time (the paper: 3.1 %)")

    apart = max(state.report.violation for state in states[1:])
    print(f"roots are where their glue says to {off:.1g} m; the ball's joint is closed to {apart:.1g} m")
    assert off < 1e-12
    assert apart < 1e-8 * solver.model.size
    assert all(np.isfinite(state.positions).all() for state in states)
    hung, ball = solver.model.joints[0], solver.model.rigid[0]
    sides = hung.joint.at(states[0].body(hung.first), states[0].body(hung.second))
    pull = -sides.transfer_forces(states[0].multipliers)[0].sum(0)
    print(f"the ball weighs {9.81 * ball.mass:.3f} N and pulls at its branch with {-pull[1]:.3f} N")
    assert np.allclose(pull, -9.81 * ball.mass * UP, atol=1e-3 * 9.81 * ball.mass)
    for branch in filter(falls, tree):
        heights = [states[k].body(branch.name)[:, 1] for k in (0, -1)]
        print(f"{branch.name} has come down by {np.mean(heights[0] - heights[1]):.2f} m")
        assert heights[0].mean() - heights[1].mean() > 0.4
        assert heights[1].min() > -0.06  # in the grass, or on the way

    rng = np.random.default_rng(4)
    leaves = {branch.name: Leaves(branch, rng) for branch in tree}

    def draw(scene, state, place=0.0):
        shift = place * scene.camera.axes[0]
        for branch in tree:
            x = state.body(branch.name)
            own = wood[branch.name]
            scene.mesh(own.skin.positions(x) + shift, own.faces, color="#84644c")
            green = leaves[branch.name]
            scene.mesh(green.at(x) + shift, green.faces, color=green.colors)
        hang(scene, state, shift)
        return scene

    def hang(scene, state, shift):
        hook, centre = hung.joint.first.positions(state.body(hung.first))[0], state.origins[0]
        scene.lines(np.array([hook, centre]) + shift, radius=0.006, color="graphite")
        scene.mesh(state.body("ornament") + shift, ball.faces, color="red")

    camera = view.Camera(direction=(0.2, 0.14, 1.0), fov=12)
    scene = view.Picture(size=(1600, 560), ground=0.0, camera=camera)
    for branch in tree:
        x = states[0].body(branch.name)
        scene.mesh(x, simplices.tet_surface(branch.tets), color="sand", edges=True)
        if branch.parent:
            scene.points(x[bonds[branch.name].points], color="green", radius=0.018)
    hang(scene, states[0], 0.0)
    for k, moment in enumerate(SHOWN):
        draw(scene, states[round(moment / STEP)], (2.15, 4.3, 6.65)[k])
    save_picture(scene, picture)
    if movie:
        still = view.Camera(direction=(0.2, 0.14, 1.0), fov=20, target=(0.35, 0.92, 0.0), distance=8.5)
        frames = (draw(view.Picture(size=(960, 540), ground=0.0, camera=still), state) for state in states)
        save_movie(frames, movie)


if __name__ == "__main__":
    main(*paths("tree"))
