"""A lionfish swims between six plants under water (figure 4 of the paper on oriented particles).

Only the fish's head is told where to go; its body and every ray of its fins follow by themselves. The plants
are lighter than water, rooted in the ground, and sway in a gentle swell. Their leaves start with random
impulses, are pushed aside where the fish passes, and come back: the same scene without the fish tells by how
much. About 1,000 ellipsoids carry 28,000 vertices. Left, before it comes; right, when it is among the plants.

    python examples/underwater.py [PICTURE.png] [MOVIE.mp4]
"""

import numpy as np
from _report import paths, run_particles, save_movie, save_picture
from scipy.spatial.transform import Rotation

import pointglue as pg
from pointglue import assets, particles, view

FRAME = 1 / 60
ROUND = 10.0  # s, for the way of the fish
SHORT = 3.5  # s, until it is through
# Where each plant stands (x, z), how it is turned, and its colour.
PLANTS = [
    (0.1, 0.3, 2.1, "#2e8c6b"),
    (-0.72, 0.0, 0.5, "#529e59"),
    (-0.1, -0.3, 5.2, "#247373"),
    (0.72, 0.0, 2.1, "#6fae62"),
    (0.8, 0.62, 1.6, "#3c9a86"),
    (-0.8, -0.62, 0.3, "#3f8f4f"),
]


def swim(t):
    """Rotation and translation of the head: a figure of eight, with a beat that makes the tail swing."""
    angle = 2 * np.pi * t / ROUND
    yaw = np.arctan2(-0.5 * np.cos(2 * angle), np.sin(angle)) + 0.15 * np.sin(2 * np.pi * t)
    place = [-1.3 * np.cos(angle), 0.45 + 0.05 * np.sin(3 * angle), 0.32 * np.sin(2 * angle)]
    return Rotation.from_euler("y", yaw).as_matrix(), np.array(place)


def water(body, state, dt):
    """Lift and drag in a swell of 4 s."""
    current = 0.12 * np.sin(2 * np.pi * state.time / 4)
    return particles.Buoyancy(level=10.0, drag=0.3, current=(current, 0.0, 0.4 * current))(body, state, dt)


def floating(body, weight):
    """The body with particles of so much of the weight of the water that they displace."""
    return body.replace(mass=weight * 1000 * 4 / 3 * np.pi * body.radii.prod(1))


def plants():
    """Two, each three times: a little lighter than water, the lowest particles rooted."""
    options = {"spacing": 0.05, "reach": 1.9, "aspect": 4.0, "stiffness": 0.3, "stretch": 0.9}
    made = [pg.OrientedBody.from_mesh(assets.plant(seed=seed), **options) for seed in (0, 1)]
    made = [floating(body, 0.9).replace(pinned=body.positions[:, 1] < 0.12) for body in made]
    return [
        made[k % 2].moved(rotation=Rotation.from_euler("y", turn).as_matrix(), translation=[x, 0, z])
        for k, (x, z, turn, _) in enumerate(PLANTS)
    ]


def start(solver):
    """The leaves of all plants pushed at random, and the fish, if there is one, where its way begins."""
    random, state = np.random.default_rng(0), solver.start()
    positions, rotations = state.positions.copy(), state.rotations.copy()
    for part, (x, z, _, _) in zip(solver.parts[-len(PLANTS) :], PLANTS, strict=True):
        leaves = part.start + np.flatnonzero(np.hypot(*(positions[part][:, [0, 2]] - [x, z]).T) > 0.1)
        kick = solver.body.mass[leaves, None] * random.normal(size=(len(leaves), 3))
        state = state.with_impulses(solver.body.mass, leaves, kick)
    velocities = state.velocities.copy()
    if len(solver.parts) > len(PLANTS):
        fish = solver.parts[0]
        before, now = ((positions[fish] @ turn.T + place, turn) for turn, place in map(swim, (-FRAME, 0.0)))
        positions[fish], rotations[fish] = now
        velocities[fish] = (now[0] - before[0]) / FRAME
    return state.replace(positions=positions, rotations=rotations, velocities=velocities)


def check(solver, states, meshes, alone, still):
    """Upright, rooted, swaying plants; a fish that keeps its shape; leaves that give way and come back."""
    x = np.stack([state.positions for state in states])
    assert np.isfinite(x).all()
    lowest = min(mesh[:, 1].min() for mesh in meshes)
    tips = np.stack([x[:, part][:, x[0, part, 1].argmax()] for part in solver.parts[1:]], axis=1)
    lean, sway = np.hypot(*(tips - tips[0])[..., [0, 2]].T).T, np.ptp(tips[..., 0], axis=0)
    assert (x[:, solver.body.pinned] == x[0, solver.body.pinned]).all()
    low = tips[..., 1].min()
    print(f"the tops of the plants are at most {lean.max():.2f} m from where they were, and {low:.2f} m high")
    assert lean.max() < 0.35
    assert low > 0.85
    assert sway.min() > 0.03

    fish, edges = solver.parts[0], solver.body.edges
    edges = edges[edges[:, 0] < fish.stop]
    length = np.linalg.norm(x[:, edges[:, 0]] - x[:, edges[:, 1]], axis=2)
    ratio = length / length[0]
    print(f"the fish's edges keep {ratio.min():.0%} to {ratio.max():.0%} of their lengths")
    assert ratio.min() > 0.6
    assert ratio.max() < 1.5

    through = round(SHORT / FRAME)
    away = np.linalg.norm(
        x[: through + 1, fish.stop :] - np.stack([state.positions for state in still]), axis=2
    )
    aside = np.stack([away[:, part].max(1) for part in alone.parts])
    for k in np.flatnonzero(aside.max(1) > 0.02):
        most, when = aside[k].max(), aside[k].argmax() * FRAME
        print(
            f"plant {k} gives way by {most:.2f} m at {when:.1f} s, and by {aside[k, -1]:.2f} m at {SHORT} s"
        )
    first = aside[1]
    assert first.max() > 0.05
    assert first[-1] < 0.7 * first.max()
    assert lowest > -0.005


def main(picture, movie=None):
    fish = pg.OrientedBody.from_mesh(
        assets.fish(), spacing=0.03, reach=1.6, aspect=4.0, stiffness=0.5, stretch=1.0
    )
    fish, green = floating(fish, 1.0), plants()
    around = {
        "forces": [water],
        "colliders": [particles.Plane([0, 0, 0], [0, 1, 0])],
        "damping": 1.0,
        "friction": 0.1,
        "iterations": 3,
    }
    head = particles.KinematicParticles(np.flatnonzero(fish.positions[:, 0] > 0.06), swim)
    solver = particles.ParticleSolver([fish, *green], kinematic=[head], **around)
    alone = particles.ParticleSolver(green, **around)
    body, seconds = solver.body, ROUND if movie else SHORT
    print(f"{len(body)} particles, {len(body.edges)} edges, {len(body.visual)} vertices")
    states, meshes, (solving, skinning) = run_particles(solver, start(solver), FRAME, seconds)
    print(f"solver {solving:.1f} ms and skinning {skinning:.1f} ms a frame (the paper: 10 and 9 ms)")
    check(solver, states, meshes, alone, run_particles(alone, start(alone), FRAME, SHORT)[0])

    stripes = np.sin(fish.visual.vertices @ [170.0, 40.0, 0.0])[:, None] > 0
    colors = [np.where(stripes, [0.72, 0.25, 0.16], [0.95, 0.88, 0.8]), *(color for *_, color in PLANTS)]
    bodies = list(zip([fish, *green], solver.visual_parts, colors, strict=True))

    def draw(scene, mesh, place=0.0):
        for each, part, color in bodies:
            scene.mesh(mesh[part] + place * camera.axes[0], each.visual.faces, color=color)
        return scene

    camera = view.Camera(direction=(-0.3, 0.5, 1.0), fov=14)
    scene = view.Picture(size=(1600, 560), ground=0.0, camera=camera)
    for place, t in ((-1.55, 0.0), (1.55, 2.2)):
        draw(scene, meshes[round(t / FRAME)], place)
    save_picture(scene, picture)
    if movie:
        held = view.Camera(direction=(-0.3, 0.5, 1.0), fov=14, target=(0.0, 0.42, 0.0), distance=7.8)
        frames = (draw(view.Picture(size=(960, 540), ground=0.0, camera=held), mesh) for mesh in meshes[::2])
        save_movie(frames, movie)


if __name__ == "__main__":
    main(*paths("underwater"))
