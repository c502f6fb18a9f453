"""A cloth that two corners hold falls over a ball, is lifted by a gust of wind, and comes to rest.

It is simulated with 361 flat particles and seen as a mesh of 10,000 vertices that follows them: since
particles know how they are turned, the mesh is smooth between them. From left to right: falling, over the
ball, in the gust, and at rest.

    python examples/hanging_cloth.py [PICTURE.png] [MOVIE.mp4]
"""

import time

import numpy as np
import trimesh
from _report import paths, save_movie, save_picture

import pointglue as pg
from pointglue import particles, view

FRAME, SECONDS = 1 / 60, 4.0  # s
GUST, LASTS, SPEED = 1.3, 0.6, 5.2  # s, s, m/s
SIDE, CELLS, FINE, THICK = 1.4, 18, 100, 0.03
BALL, RADIUS = np.array([0.0, 0.95, -0.1]), 0.3
HEIGHT = 1.9


def cloth():
    """A square sheet in the air, held at two corners, and the fine mesh that goes with it."""
    step = SIDE / CELLS
    body = particles.sheet(
        (SIDE, SIDE),
        (CELLS, CELLS),
        thickness=THICK,
        radii=np.tile([0.55 * step, 0.5 * THICK, 0.55 * step], ((CELLS + 1) ** 2, 1)),
        mass=0.4 / (CELLS + 1) ** 2,
        stiffness=0.02,
        stretch=1.0,
    )
    at = np.linspace(-0.5, 0.5, FINE) * SIDE
    x, z = (grid.ravel() for grid in np.meshgrid(at, at, indexing="ij"))
    corner = (np.arange(FINE - 1)[:, None] * FINE + np.arange(FINE - 1)).ravel()
    faces = np.stack([corner, corner + 1, corner + FINE + 1, corner + FINE], axis=1)
    skin = particles.Skin.of(np.stack([x, 0 * x, z], axis=1), faces, body.positions)
    held = (abs(body.positions[:, 0]) > 0.49 * SIDE) & (body.positions[:, 2] < -0.49 * SIDE)
    return body.replace(visual=skin, pinned=held).moved(translation=[0.0, HEIGHT, 0.0])


def stretched(body, state):
    """(edges,), how much longer than at rest each edge is."""
    i, j = body.edges.T
    rest = np.linalg.norm(body.positions[i] - body.positions[j], axis=1)
    return np.linalg.norm(state.positions[i] - state.positions[j], axis=1) / rest - 1


def wind(body, state, dt):
    """Forces of the air, which is still but for the gust."""
    share = np.clip((state.time - GUST) / LASTS, 0.0, 1.0)
    return particles.Wind((0.0, 0.0, SPEED * np.sin(np.pi * share)))(body, state, dt)


def main(picture, movie=None):
    body = cloth()
    colliders = [particles.Ball(BALL, RADIUS), particles.Plane([0, 0, 0], [0, 1, 0])]
    solver = particles.ParticleSolver(
        body, iterations=10, substep=1 / 240, damping=1.0, friction=0.3, colliders=colliders, forces=[wind]
    )
    states, taken = [solver.start()], []
    with pg.threads(1):
        for _ in range(round((10.0 if movie else SECONDS) / FRAME)):
            clock = time.perf_counter()
            states.append(solver.step(states[-1], FRAME))
            taken.append(time.perf_counter() - clock)
        clock = time.perf_counter()
        skins = [body.skin(state) for state in states]
        skinning = 1e3 * (time.perf_counter() - clock) / len(skins)
    print(f"{len(body)} particles, {len(body.visual)} vertices")
    print(f"a frame takes {1e3 * np.median(taken):.1f} + {skinning:.2f} ms, solver and skinning")

    longer = np.array([stretched(body, state) for state in states])
    worst = longer.max(1)
    print(f"edges are longer by {worst.max():.1%} at most, in the gust; by {worst[-1]:.1%} in the end,")
    print(f"and nine of ten edges by {np.quantile(longer, 0.9, axis=1).max():.1%} at most")
    gap = min(np.linalg.norm(skin - BALL, axis=1).min() for skin in skins) - RADIUS
    lift = max(skin[:, 1].min() for skin in skins[round(GUST / FRAME) :])
    fastest = np.linalg.norm(states[-1].velocities, axis=1).max()
    print(f"the mesh stays {1e3 * gap:.0f} mm off the ball, and the gust lifts all of it above {lift:.2f} m")
    print(f"in the end the fastest particle goes {1e3 * fastest:.0f} mm/s")
    assert worst.max() < 0.15
    assert worst[-1] < 0.05
    assert gap > 0
    assert lift > BALL[1] + RADIUS
    assert fastest < (0.02 if movie else 0.2)

    camera = view.Camera(direction=(0.5, 0.3, 1.0), fov=12)
    scene = view.Picture(size=(1600, 560), ground=0.0, camera=camera)
    for k, moment in enumerate([0.4, GUST, GUST + 0.75 * LASTS, SECONDS]):
        draw(scene, body, skins[round(moment / FRAME)], 1.95 * (k - 1.5) * camera.axes[0])
    save_picture(scene, picture)
    if movie:
        camera = view.Camera(direction=(0.5, 0.3, 1.0), target=(0.0, 1.1, 0.0), distance=8, fov=20)

        def frame(skin):
            shot = view.Picture(size=(960, 540), ground=0.0, camera=camera)
            draw(shot, body, skin, np.zeros(3))
            return shot

        save_movie((frame(skin) for skin in skins[::2]), movie)


def draw(scene, body, skin, place):
    """Add cloth, ball and what holds the corners, shifted."""
    ball = trimesh.creation.icosphere(4, RADIUS)
    scene.mesh(skin + place, body.visual.faces, color="coral")
    scene.mesh(ball.vertices + BALL + place, ball.faces, color="sand")
    scene.points(body.positions[body.pinned] + place, color="graphite", radius=0.03)


if __name__ == "__main__":
    main(*paths("hanging_cloth"))
