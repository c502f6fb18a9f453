"""A weight on a rod that hangs far below a soft bridge: bound to one tetrahedron linearly, and by glue.

Both hang on the same four corners (gold), and the rest of the scene is the same: only the map differs. A
place a foot below a tetrahedron has large weights of both signs in it: one corner is pulled down with twelve
times the weight of 1 kg, and another pushed up with almost as much. From left to right: at rest (sage); the
linear binding (coral) draws the tetrahedron out, and the rod to more than twice its length; with glue (teal),
at the time of the one before, both keep their shape. (The forces are in examples/linear_against_glue.py.)

Glue is no cure for too small a hold. If the weight stands on these four corners instead, glue keeps the
rod's length, but the rod topples and the tetrahedron collapses within 2.2 s; twelve corners hold it.

    python examples/glue_in_solver.py [PICTURE.png] [MOVIE.mp4]
"""

import numpy as np
import trimesh
from _report import paths, save_movie, save_picture

import pointglue as pg
from pointglue import view
from pointglue.elastic import Bond, ElasticBody, FleshEnergy, ImplicitSolver
from pointglue.geometry.simplices import tet_box, tet_surface

STEP = 1 / 60  # s
SIZE, CELLS = (0.6, 0.12, 0.12), (20, 4, 4)  # m
FOOT, ROD = np.array([-0.01, -SIZE[1] / 2, 0.0]), 0.35
WEIGHT, RADIUS = 1.0, 0.035  # kg, m
FLOOR = -1.2
SHOWN = (0.15, 0.3, 0.6)  # s
COLORS = {"rest": "sage", "linear": "coral", "glue": "teal"}
REST, TETS = tet_box(SIZE, CELLS)
FACES = tet_surface(TETS)
FLESH = FleshEnergy(REST, TETS, young=1e5, poisson=0.3)
PARENTS = TETS[np.linalg.norm(REST[TETS].mean(1) - FOOT, axis=1).argmin()]


def shaken(ends):
    """The ends of the bridge are moved to and fro."""
    return lambda time: REST[ends] + [0.03 * np.sin(2 * np.pi * time), 0.0, 0.0]


def solver(binding):
    """The bridge between two walls, and the weight bound to it."""
    ends = abs(REST[:, 0]) > 0.499 * SIZE[0]
    bridge = ElasticBody(REST, FLESH.mass(1000.0), [FLESH], pinned=ends, motion=shaken(ends), name="bridge")
    weight = ElasticBody(binding.targets, [WEIGHT], name="weight")
    return ImplicitSolver([bridge, weight], glue=[Bond("weight", [0], "bridge", binding)])


def volumes(x):
    """Of the tetrahedra (m,), as shares of those at rest; negative if inside out."""
    edges = x[TETS[:, 1:]] - x[TETS[:, :1]]
    return np.linalg.det(edges) / 6 / FLESH.volumes


def main(picture, movie=None):
    tip = (FOOT - [0.0, ROD, 0.0])[None]
    linear, glue = pg.bind_linear(REST, tip, PARENTS[None]), pg.bind_glue(REST, tip, indices=PARENTS[None])
    on_bridge = pg.embed((REST, TETS), FOOT[None])
    print(f"weights of the linear binding: {np.round(linear.weights, 1)}")
    runs = {}
    for name, binding in (("linear", linear), ("glue", glue)):
        engine = solver(binding)
        states = [engine.start()]
        for _ in range(round((4.0 if movie else SHOWN[-1]) / STEP)):
            states.append(engine.step(states[-1], STEP))
        bridge, ball = (np.stack([state.body(part) for state in states]) for part in ("bridge", "weight"))
        feet = np.stack([on_bridge.positions(x)[0] for x in bridge])
        length = np.linalg.norm(ball[:, 0] - feet, axis=1) / ROD
        least, most = np.array([(v.min(), v.max()) for v in map(volumes, bridge)]).T
        runs[name] = bridge, ball[:, 0], feet, length, most
        reports = [state.report for state in states[1:]]
        spent = {part: sum(report.seconds[part] for report in reports) for part in reports[0].seconds}
        print(
            f"{name:>6}: rod {length.min():.2f} to {length.max():.2f} of its length, tetrahedra "
            f"{least.min():.2f} to {most.max():.2f} of their volume"
        )
        print(
            f"{'':>7} {np.mean([report.iterations for report in reports]):.1f} Newton steps a step; "
            + ", ".join(f"{part} {value / sum(spent.values()):.0%}" for part, value in spent.items())
        )
        assert np.isfinite(bridge).all()
    assert abs(linear.weights).max() > 10
    assert runs["linear"][3].max() > 2
    assert runs["linear"][4].max() > 1.5
    assert abs(runs["glue"][3] - 1).max() < 0.02
    assert runs["glue"][4].max() < 1.25

    camera = view.Camera(direction=(0.25, 0.3, 1.0), fov=12)
    scene = view.Picture(size=(1600, 600), ground=FLOOR, camera=camera)
    shown = [("linear", 0.0)] + [("linear", moment) for moment in SHOWN] + [("glue", SHOWN[-1])]
    for k, (name, moment) in enumerate(shown):
        draw(scene, runs[name], round(moment / STEP), 0.85 * (k - 2) * camera.axes[0], name if k else "rest")
    save_picture(scene, picture)
    if movie:
        still = view.Camera(direction=(0.2, 0.25, 1.0), target=(0.0, -0.55, 0.0), distance=5.2, fov=20)

        def frame(k):
            shot = view.Picture(size=(960, 540), ground=FLOOR, camera=still)
            draw(shot, runs["linear"], k, [-0.48, 0, 0], "linear")
            draw(shot, runs["glue"], k, [0.48, 0, 0], "glue")
            return shot

        save_movie((frame(k) for k in range(0, len(runs["glue"][0]), 2)), movie)


def draw(scene, run, k, place, name):
    """Add a bridge with its walls, and the weight on its rod."""
    bridge, ball, feet, *_ = run
    scene.mesh(bridge[k] + place, FACES, color=COLORS[name], edges=True)
    scene.points(bridge[k][PARENTS] + place, color="gold", radius=0.012)
    scene.lines([feet[k] + place, ball[k] + place], color="sand", radius=0.008)
    scene.points(ball[k][None] + place, color="graphite", radius=RADIUS)
    ends = bridge[k][abs(REST[:, 0]) > 0.499 * SIZE[0]]
    for side in (ends[:, 0].min(), ends[:, 0].max()):
        wall = trimesh.creation.box((0.05, 0.08 - FLOOR, 0.16))
        outwards = 0.025 * np.sign(side)
        scene.mesh(
            wall.vertices + [side + outwards, (0.08 + FLOOR) / 2, 0] + place, wall.faces, color="slate"
        )


if __name__ == "__main__":
    main(*paths("glue_in_solver"))
