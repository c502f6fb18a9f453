"""A rigid block, a soft block, a rope and a sheet fall, all made of oriented particles, in one solver.

Each ellipsoid is one particle, drawn as it lies: the particles of the sheet are flat, those of the rope long.
From left to right, before the fall, at the blow, and at rest. The soft block (coral) is dented and recovers,
the rigid one (slate) keeps its shape, and nothing goes through the ground, the ball or the bar.

    python examples/falling_bodies.py [PICTURE.png]
"""

import numpy as np
import trimesh
from _report import paths, save_picture
from scipy.spatial.transform import Rotation

from pointglue import fit_rigid, particles, view

FRAME, SECONDS = 1 / 60, 4.0
BALL, BALL_RADIUS = np.array([-0.6, 0.5, -0.5]), 0.36
BAR, BAR_RADIUS = np.array([[0.35, 0.5, -0.5], [0.95, 0.5, -0.5]]), 0.14
COLORS = {"rigid block": "#647384", "soft block": "#e8674a", "rope": "#e9b44c", "sheet": "#2a9d8f"}


def bodies():
    """All four in the air. Their particles may overlap: the sheet's and the rope's do, and leave no holes."""
    tilt, lean = (Rotation.from_euler("zy", turn).as_matrix() for turn in ([0.45, 0.5], [-0.35, 0.35]))
    rigid = particles.block(
        (0.6, 0.3, 0.4), (3, 2, 2), rigid=True, radii=np.tile([0.115, 0.086, 0.115], (12, 1))
    )
    soft = particles.block((0.5, 0.5, 0.5), (4, 4, 4), stiffness=0.3)
    limp = {"stiffness": 0.03, "stretch": 1.0}  # bends easily, hardly stretches
    long, flat = np.tile([0.065, 0.034, 0.034], (15, 1)), np.tile([0.06, 0.015, 0.06], (225, 1))
    rope = particles.rope(
        [0.65, 1.1, -1.15], [0.65, 1.1, 0.3], particles=15, radius=0.034, radii=long, **limp
    )
    sheet = particles.sheet((1.2, 1.2), (14, 14), thickness=0.03, radii=flat, **limp)
    return [
        rigid.moved(rotation=tilt, translation=[-0.6, 0.65, 1.2]),
        soft.moved(rotation=lean, translation=[0.6, 0.75, 1.2]),
        rope,
        sheet.moved(translation=BALL + [0.0, 0.75, 0.0]),
    ]


def height(body, state):
    """The height of the lowest point of all ellipsoids."""
    axes = state.rotations @ state.rest.rotations
    return (state.positions[:, 1] - np.linalg.norm(axes[:, 1] * body.radii, axis=1)).min()


def gap(points):
    """How far the nearest of the points is from the ball and the bar."""
    on_bar = np.clip(points, BAR.min(0), BAR.max(0))
    from_bar = np.linalg.norm(points - on_bar, axis=1).min() - BAR_RADIUS
    return min(from_bar, np.linalg.norm(points - BALL, axis=1).min() - BALL_RADIUS)


def bent(rest, x):
    """How far the worst particle is from the best rigid fit at each time, as a share of the body's size."""
    off = fit_rigid(rest, x).apply(rest) - x
    return np.linalg.norm(off, axis=2).max(1) / np.ptp(rest, axis=0).max()


def main(picture):
    solver = particles.ParticleSolver(
        bodies(),
        iterations=4,
        substep=1 / 240,
        damping=10.0,
        colliders=[
            particles.Plane([0, 0, 0], [0, 1, 0]),
            # What hangs on the round ones is to stay there.
            particles.Ball(BALL, BALL_RADIUS, friction=1.0),
            particles.Capsule(*BAR, BAR_RADIUS, friction=1.0),
        ],
    )
    body, start = solver.body, solver.start()
    states = [start]
    for _ in range(round(SECONDS / FRAME)):
        states.append(solver.step(states[-1], FRAME))

    x = np.stack([state.positions for state in states])
    rigid, soft = (bent(body.positions[part], x[:, part]) for part in solver.parts[:2])
    blow = int(soft.argmax())
    lowest, nearest = min(height(body, state) for state in states), min(gap(points) for points in x)
    fastest = [np.linalg.norm(states[-1].velocities[part], axis=1).max() for part in solver.parts]
    print(f"the lowest point of all times is at {1e3 * lowest:.2f} mm")
    print(f"rigid block: bent by {rigid.max():.2%} at most, by {rigid[-1]:.3%} in the end")
    print(f"soft block: bent by {soft.max():.0%} at {blow * FRAME:.2f} s, by {soft[-1]:.1%} in the end")
    for name, speed in zip(COLORS, fastest, strict=True):
        print(f"{name}: no particle is faster than {1e3 * speed:.1f} mm/s in the end")
    assert lowest > -1e-3
    assert nearest > 0
    assert rigid.max() < 0.02
    assert rigid[-1] < 1e-3
    assert soft.max() > 0.15
    assert soft[-1] < 0.04
    assert max(fastest) < 0.05  # the soft block still rocks a little

    ball = trimesh.creation.icosphere(4, 0.99 * BALL_RADIUS)
    bar = trimesh.creation.capsule(np.ptp(BAR[:, 0]), 0.98 * BAR_RADIUS, count=[48, 48])
    along = (bar.vertices - bar.bounds.mean(0))[:, [2, 0, 1]] + BAR.mean(0)
    rgb = [[int(code[k : k + 2], 16) / 255 for k in (1, 3, 5)] for code in COLORS.values()]
    colors = np.repeat(rgb, [part.stop - part.start for part in solver.parts], axis=0)
    camera = view.Camera(direction=(0.0, 0.55, 1.0), fov=12)
    scene = view.Picture(size=(1600, 560), ground=0.0, camera=camera)
    for k, state in enumerate([start, states[blow], states[-1]]):
        place = [2.7 * (k - 1), 0, 0]
        axes = state.rotations @ state.rest.rotations
        scene.ellipsoids(state.positions + place, body.radii, axes, color=colors)
        scene.mesh(ball.vertices + BALL + place, ball.faces, color="sand")
        scene.mesh(along + place, bar.faces, color="sand")
    save_picture(scene, picture)


if __name__ == "__main__":
    main(*paths("falling_bodies"))
