"""Rigid, plastic and soft bodies tumble down stairs, all in one solver.

Slate bodies are rigid. Gold ones are rigid as well, but a blow dents them for good. Teal ones are soft and
take their shape again. From left to right: before, on the way down, and at rest.

    python examples/bodies_on_stairs.py [PICTURE.png] [MOVIE.mp4]
"""

import time

import numpy as np
import trimesh
from _report import paths, save_movie, save_picture
from scipy.spatial.transform import Rotation

import pointglue as pg
from pointglue import assets, fit_rigid, particles, view

FRAME, SECONDS, SPEED = 1 / 60, 4.0, 2.2  # s, s, m/s
STEPS, RISE, RUN, WIDTH = 9, 0.16, 0.27, 2.6
KINDS = {"rigid": "#647384", "plastic": "#e9b44c", "soft": "#2a9d8f"}
# Height above the stairs and place across, in metres, and turns about x, y and z.
STACK = [
    ("gear", "rigid", 0.25, -0.75, (90, 0, 0)),
    ("pebble", "soft", 0.25, 0.0, (0, 20, 0)),
    ("ring", "plastic", 0.25, 0.75, (70, 0, 0)),
    ("ball", "soft", 0.72, -0.7, (0, 0, 0)),
    ("pebble", "plastic", 0.7, 0.05, (0, -15, 10)),
    ("gear", "rigid", 0.75, 0.75, (70, 20, 0)),
    ("ring", "soft", 1.2, -0.75, (75, 0, 10)),
    ("pebble", "rigid", 1.15, 0.0, (10, 70, 0)),
    ("ball", "plastic", 1.25, 0.7, (0, 0, 0)),
]


def bodies():
    """All of them above the upper end of the stairs."""
    block = trimesh.creation.box((0.42, 0.28, 0.34)).subdivide().subdivide_loop(3)
    ring = trimesh.creation.torus(0.17, 0.075, major_sections=64, minor_sections=32)
    meshes = {
        "gear": (assets.gear(), 0.075),
        "ring": (ring, 0.08),
        "ball": (trimesh.creation.icosphere(4, 0.18), 0.1),
        "pebble": (block, 0.09),
    }
    made = {name: pg.OrientedBody.from_mesh(mesh, spacing=d) for name, (mesh, d) in meshes.items()}
    result = []
    for name, kind, height, across, turns in STACK:
        body = made[name]
        if kind == "soft":
            body = body.replace(stiffness=0.25)
        else:
            whole, limit = [np.arange(len(body))], 1.2 if kind == "plastic" else np.inf
            body = body.replace(stiffness=0.8, groups=whole, yield_speed=limit)
        turn = Rotation.from_euler("xyz", turns, degrees=True).as_matrix()
        result.append(body.moved(rotation=turn, translation=[0.3, STEPS * RISE + height, across]))
    return result


def depth(points):
    """How deep (m) the deepest of the points (n, 3) is in the stairs or the ground; negative above both."""
    step = np.floor(points[:, 0] / RUN)
    on = (step >= 0) & (step < STEPS) & (abs(points[:, 2]) < WIDTH / 2)
    above = points[:, 1] - np.where(on, (STEPS - step) * RISE, 0.0)
    # The way out of a step is up, or forwards through its front.
    out = np.where(on, np.minimum(-above, (step + 1) * RUN - points[:, 0]), -above)
    return np.where(above < 0, out, -above).max()


def off(rest, x):
    """How far the farthest point is from the best rigid fit, m."""
    return np.linalg.norm(fit_rigid(rest, x).apply(rest) - x, axis=1).max()


def tumble(seconds):
    """Solver, states, and the ms that a frame takes on one thread."""
    solver = particles.ParticleSolver(
        bodies(),
        iterations=4,
        substep=1 / 120,
        colliders=[
            particles.MeshCollider(*assets.stairs(STEPS, rise=RISE, run=RUN, width=WIDTH)),
            particles.Plane([0, 0, 0], [0, 1, 0]),
        ],
        friction=0.6,
        damping=3.0,
        drag=0.2,
        plastic_time=0.025,
    )
    start = solver.start()
    states, taken = [start.replace(velocities=np.tile([SPEED, 0.0, 0.0], (len(start), 1)))], []
    with pg.threads(1):
        for _ in range(round(seconds / FRAME)):
            clock = time.perf_counter()
            states.append(solver.step(states[-1], FRAME))
            taken.append(time.perf_counter() - clock)
    return solver, states, 1e3 * np.median(taken)


def main(picture, movie=None):
    solver, states, stepping = tumble(10.0 if movie else SECONDS)
    with pg.threads(1):
        clock = time.perf_counter()
        skins = [solver.body.skin(state) for state in states]
        skinning = 1e3 * (time.perf_counter() - clock) / len(states)
    bind, count = solver.body.visual.vertices, len(solver.body)
    print(f"{count} particles, {len(bind)} vertices: {stepping:.1f} + {skinning:.1f} ms a frame")
    centres, surface = max(depth(state.positions) for state in states), max(depth(skin) for skin in skins)
    print(f"the deepest particle is {-1e3 * centres:.0f} mm above the stairs and the ground,")
    print(f"the deepest vertex {1e3 * surface:.0f} mm in them")
    assert centres < 0
    # It is chaotic: 28 starts that differ by 1e-9 m end at 36 to 74 mm, between particles 75 to 100 mm apart.
    assert surface < 0.08

    for (name, kind, *_), part, shown in zip(STACK, solver.parts, solver.visual_parts, strict=True):
        some = slice(shown.start, shown.stop, 8)  # of the vertices: that is enough, and quick
        bent = np.array([off(bind[some], skin[some]) for skin in skins[::2]])
        bent /= np.ptp(bind[shown], axis=0).max()
        fastest = np.linalg.norm(states[-1].velocities[part], axis=1).max()
        print(f"{kind} {name}: bent by {bent.max():.1%}, in the end by {bent[-1]:.1%}; {fastest:.3f} m/s")
        if kind == "rigid":
            assert bent.max() < 1e-3
        elif kind == "plastic":
            assert bent[-1] > 0.03
        else:
            assert bent[-1] < max(0.06, 0.5 * bent.max())
        assert fastest < (0.1 if movie else 2.0)

    camera = view.Camera(direction=(0.8, 0.6, 1.0), fov=12)
    scene = view.Picture(size=(1600, 560), ground=0.0, camera=camera)
    for k, time_shown in enumerate([0.0, 0.9, SECONDS]):
        draw(scene, solver, skins[round(time_shown / FRAME)], (k - 1) * 4.3 * camera.axes[0])
    save_picture(scene, picture)
    if movie:
        camera = view.Camera(direction=(0.8, 0.6, 1.0), target=(2.0, 0.95, 0.0), distance=14.5, fov=20)

        def frame(skin):
            shot = view.Picture(size=(960, 540), ground=0.0, camera=camera)
            draw(shot, solver, skin, np.zeros(3))
            return shot

        save_movie((frame(skin) for skin in skins[::2]), movie)


def draw(scene, solver, skin, place):
    """Add the stairs and the bodies, shifted."""
    vertices, faces = assets.stairs(STEPS, rise=RISE, run=RUN, width=WIDTH)
    scene.mesh(vertices + place, faces, color="sand")
    rgb = [[int(KINDS[kind][k : k + 2], 16) / 255 for k in (1, 3, 5)] for _, kind, *_ in STACK]
    lengths = [part.stop - part.start for part in solver.visual_parts]
    scene.mesh(skin + place, solver.body.visual.faces, color=np.repeat(rgb, lengths, axis=0))


if __name__ == "__main__":
    main(*paths("bodies_on_stairs"))
