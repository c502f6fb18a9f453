"""Rigid groups of particles: two that share a hinge, and one that a blow dents for good.

Left, two rigid boxes have two particles in common (gold), and with them an axis. One box (slate) is held, the
other is let go of and swings about that axis, from light to dark. No joint is set up anywhere: that the
particles are shared is the joint.

Right, a rigid wall before and after a heavy ball hits it faster than its yield speed. For a moment, its
particles hold on to their neighbours only. The shape that the wall has then is the one that it keeps: red is
where it has moved most. Nothing jumps when it becomes rigid again.

    python examples/hinge_and_dent.py [PICTURE.png]
"""

import numpy as np
from _report import paths, save_picture
from scipy.spatial.transform import Rotation

from pointglue import fit_rigid, particles, view

STEP = 1 / 240
BOX = (4, 1, 4)
SHOT = np.array([0.0, 0.5, -10.0])  # m/s


def swing():
    """Solver and states of the hinged boxes, for three quarters of a second."""
    boxes = particles.hinged_boxes((0.72, 0.13, 0.6), BOX)
    tilt = Rotation.from_euler("z", -30, degrees=True).as_matrix()
    boxes = boxes.moved(rotation=tilt, translation=[0.0, 0.95, 0.0])
    held = np.arange(len(boxes)) < np.prod(BOX)
    solver = particles.ParticleSolver(boxes.replace(pinned=held), iterations=4, substep=STEP)
    return solver, run(solver, solver.start(), 0.75)


def shoot():
    """Solver and states of the wall and the ball, for two seconds."""
    wall = particles.block((1.1, 0.77, 0.66), (10, 7, 6), rigid=True, yield_speed=3.0, stiffness=0.5)
    ball = particles.OrientedBody([[0.0, 0.45, 1.05]], radii=0.17, mass=60.0)
    solver = particles.ParticleSolver(
        [wall.moved(translation=[0.0, 0.385, 0.0]), ball],
        iterations=4,
        substep=STEP,
        plastic_time=10 * STEP,
        colliders=[particles.Plane([0, 0, 0], [0, 1, 0])],
    )
    shot = solver.start().with_impulses(solver.body.mass, [len(wall)], ball.mass[0] * SHOT)
    return solver, run(solver, shot, 2.0)


def run(solver, state, seconds):
    states = [state]
    for _ in range(round(seconds / STEP)):
        states.append(solver.step(states[-1], STEP))
    return states


def off(rest, x):
    """How far each particle is from the best rigid fit."""
    return np.linalg.norm(fit_rigid(rest, x).apply(rest) - x, axis=1)


def draw(scene, solver, state, part, place, color):
    axes = (state.rotations @ state.rest.rotations)[part]
    scene.ellipsoids(state.positions[part] + place, solver.body.radii[part], axes, color=color)


def main(picture):
    boxes, poses = swing()
    n = int(np.prod(BOX))
    held, free, pins = slice(0, n), slice(n, 2 * n), slice(2 * n, None)
    arms = np.array([pose.positions[free].mean(0) - pose.positions[pins].mean(0) for pose in poses])
    angles = np.degrees(np.arctan2(arms[:, 1], arms[:, 0]))
    drift = max(abs(pose.positions[pins] - poses[0].positions[pins]).max() for pose in poses)
    sideways = abs(arms[:, 2]).max()
    print(f"the free box swings from {angles[0]:.0f} to {angles.min():.0f} degrees")
    print(f"its axis stays where it is to {1e3 * drift:.2f} mm")
    assert np.ptp(angles) > 100
    assert max(drift, sideways) < 1e-3

    solver, states = shoot()
    wall, ball = solver.parts
    pause = np.array([state.pause[0] for state in states])
    back = int(np.flatnonzero((pause[:-1] > 0) & (pause[1:] == 0))[-1]) + 1  # rigid from here on
    before, after = states[0].rest.positions[wall], states[-1].rest.positions[wall]
    dent = off(before, after)
    kept = off(after, states[-1].positions[wall]).max()
    jump = np.linalg.norm(states[back + 1].positions - states[back].positions, axis=1)[wall].max()
    way = STEP * np.linalg.norm(states[back].velocities, axis=1)[wall].max()
    print(f"the wall is dented by {1e3 * dent.max():.0f} mm, and {1e3 * kept:.2f} mm off that in the end")
    print(f"rigid again, it moves by {1e3 * jump:.2f} mm in a step, of {1e3 * way:.2f} mm at its speed")
    assert dent.max() > 0.1
    assert kept < 2e-3
    assert jump < 1.5 * way

    camera = view.Camera(direction=(-0.3, 0.45, 1.0), fov=14)
    scene = view.Picture(size=(1600, 640), ground=0.0, camera=camera)
    left = [-1.85, 0.0, 0.0]
    draw(scene, boxes, poses[0], held, left, "slate")
    draw(scene, boxes, poses[0], pins, left, "gold")
    for angle, color in ((angles[0], "rose"), (-75.0, "coral"), (-132.0, "red")):
        pose = poses[int(abs(angles - angle).argmin())]
        draw(scene, boxes, pose, free, left, color)
    sand, red = np.array([[0.85, 0.77, 0.63], [0.82, 0.26, 0.31]])
    for place, state in (([0.0, 0.0, 0.0], states[0]), ([1.65, 0.0, 0.0], states[-1])):
        share = np.clip((off(before, state.rest.positions[wall])[:, None] - 0.03) / 0.1, 0.0, 1.0)
        draw(scene, solver, state, wall, place, sand + share * (red - sand))
        draw(scene, solver, state, ball, place, "graphite")
    save_picture(scene, picture)


if __name__ == "__main__":
    main(*paths("hinge_and_dent"))
