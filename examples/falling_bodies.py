"""A rigid block, a soft block, a rope and a sheet fall, all made of oriented particles, in one solver.

Each ellipsoid is one particle, drawn as it lies: the particles of the sheet are flat and those of the rope
long, so few of them fill a shape that it would take many balls to fill. From left to right, before the fall, at
the blow and at rest. Between the first and the last picture the soft block (coral) is dented and recovers,
the rigid one (slate) keeps its shape all the time, and nothing goes through the ground, the ball or the bar.

    python examples/falling_bodies.py [PICTURE.png]
"""

import sys
from pathlib import Path

import numpy as np
import trimesh
from scipy.spatial.distance import pdist
from scipy.spatial.transform import Rotation

from pointglue import fit_rigid, particles, view

FRAME, SECONDS = 1 / 60, 5.0
BALL, BALL_RADIUS = np.array([-0.62, 0.5, -0.35]), 0.36
BAR, BAR_RADIUS = np.array([[0.3, 0.5, -0.35], [1.0, 0.5, -0.35]]), 0.13
NAMES, COLOURS = ("rigid block", "soft block", "rope", "sheet"), ("#647384", "#e8674a", "#e9b44c", "#2a9d8f")


def bodies():
    tilt = Rotation.from_euler("zy", [0.45, 0.5]).as_matrix()
    lean = Rotation.from_euler("zy", [-0.35, 0.35]).as_matrix()
    # Cloth and rope bend easily (stiffness) but hardly stretch.
    limp = {"stiffness": 0.03, "stretch": 1.0}
    return [
        particles.block((0.6, 0.3, 0.4), (6, 3, 4), rigid=True).moved(
            rotation=tilt, translation=[-0.6, 0.75, 1.1]
        ),
        particles.block((0.48, 0.48, 0.48), (4, 4, 4), stiffness=0.1).moved(
            rotation=lean, translation=[0.6, 0.85, 1.1]
        ),
        particles.rope([0.65, 1.1, -0.95], [0.65, 1.2, 0.35], particles=18, radius=0.035, **limp),
        particles.sheet((1.2, 1.2), (16, 16), thickness=0.03, **limp).moved(
            translation=BALL + [0.0, 0.75, 0.0]
        ),
    ]


def heights(body, state):
    """How far above the ground the lowest point of each ellipsoid is."""
    axes = state.rotations @ state.rest.rotations
    return state.positions[:, 1] - np.linalg.norm(axes[:, 1] * body.radii, axis=1)


def main(picture):
    solver = particles.ParticleSolver(
        bodies(),
        iterations=4,
        substep=1 / 240,
        friction=1.0,
        damping=3.0,
        colliders=[
            particles.Plane([0, 0, 0], [0, 1, 0]),
            particles.Ball(BALL, BALL_RADIUS),
            particles.Capsule(*BAR, BAR_RADIUS),
        ],
    )
    body, (rigid, soft, _, _) = solver.body, solver.parts
    states = [solver.start()]
    for _ in range(round(SECONDS / FRAME)):
        states.append(solver.step(states[-1], FRAME))

    lowest = min(heights(body, state).min() for state in states)
    lengths = pdist(body.positions[rigid])
    strain = max(abs(pdist(state.positions[rigid]) / lengths - 1).max() for state in states)
    # Off the best rigid fit, as a share of the block's size.
    x = np.stack([state.positions[soft] for state in states])
    off = fit_rigid(body.positions[soft], x).apply(body.positions[soft]) - x
    dent = np.linalg.norm(off, axis=2).max(1) / 0.48
    blow = int(dent.argmax())
    speeds = [np.linalg.norm(states[-1].velocities[part], axis=1).max() for part in solver.parts]
    print(f"lowest point of all times: {1e3 * lowest:.2f} mm")
    print(f"rigid block: distances change by {strain:.1e} at most")
    print(f"soft block: dented by {dent.max():.0%} at {blow * FRAME:.2f} s, in the end by {dent[-1]:.1%}")
    for name, speed in zip(NAMES, speeds, strict=True):
        print(f"{name}: fastest particle in the end {1e3 * speed:.1f} mm/s")
    return solver, states, blow, picture

    scene = view.Scene()


def draw(solver, states, blow, picture):
    body = solver.body
    ball = trimesh.creation.icosphere(4, 0.99 * BALL_RADIUS)
    bar = trimesh.creation.capsule(np.ptp(BAR[:, 0]), 0.98 * BAR_RADIUS, count=[48, 48])
    bar = (bar.vertices - bar.bounds.mean(0))[:, [2, 0, 1]] + BAR.mean(0), bar.faces
    sizes = [part.stop - part.start for part in solver.parts]
    rgb = np.array([[int(code[k : k + 2], 16) / 255 for k in (1, 3, 5)] for code in COLOURS])
    scene = view.Scene(
        size=(1600, 600), ground=0.0, camera=view.Camera(direction=(0.05, 0.5, 1.0), fov=14)
    )
    for k, state in enumerate([states[0], states[blow], states[-1]]):
        place = [2.5 * (k - 1), 0, 0]
        axes = state.rotations @ state.rest.rotations
        scene.ellipsoids(state.positions + place, body.radii, axes, color=np.repeat(rgb, sizes, axis=0))
        scene.mesh(ball.vertices + BALL + place, ball.faces, color="sand")
        scene.mesh(bar[0] + place, bar[1], color="sand")
    picture.parent.mkdir(parents=True, exist_ok=True)
    scene.save(picture)
    print(f"wrote {picture}")


if __name__ == "__main__":
    r=main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/falling_bodies.png"))
    draw(*r)
