"""Random scenes of what collides, with speeds to 100 m/s: nothing may ever intersect, and every step ends.

Each scene has a few bodies of cloth, flesh and rigid boxes and balls, some of them joined through glue, that
fly at each other above a plane, a ball by formula or a fixed box, with random sizes, materials, friction and
time steps. After each frame the IPC Toolkit, which knows nothing of our code, is asked whether any edge
crosses a triangle, and trimesh whether any triangle comes into the ball.

pointglue bench collisions [--quick], or only some: python benchmarks/collisions.py FIRST COUNT
"""

import sys
from collections import Counter
from time import process_time

import ipctk
import numpy as np
import trimesh
from _racing import Results
from scipy.spatial.transform import Rotation
from threadpoolctl import threadpool_limits

import pointglue as pg
from pointglue.elastic import (
    ClothEnergy,
    Contact,
    ElasticBody,
    FleshEnergy,
    ImplicitSolver,
    JointBond,
    RigidBody,
    StepError,
)
from pointglue.geometry.simplices import tet_box, tet_surface
from pointglue.geometry.solids import Ball, Collider, Plane
from pointglue.scene.build.meshing import sheet_grid

SCENES = 300
FEWEST, MOST = 10, 60  # frames, in which the fastest body comes to the other side, if they suffice
FASTEST = 100.0  # m/s
DISTANCES = (5e-4, 5e-3)  # m


def placed(points: np.ndarray, rng: np.random.Generator, spot: np.ndarray) -> np.ndarray:
    """Return points turned at random about their centre, which is put on a spot."""
    centre = points.mean(0)
    return Rotation.random(random_state=rng).apply(points - centre) + spot


def cloth(rng: np.random.Generator, name: str, spot: np.ndarray, velocity: np.ndarray) -> ElasticBody:
    """Return a sheet."""
    cells, size = rng.integers(4, 10, 2), rng.uniform(0.2, 0.8, 2)
    points, faces = sheet_grid(tuple(size), tuple(cells))
    points = placed(points, rng, spot)
    energy = ClothEnergy(points, faces, stretch=10 ** rng.uniform(1.5, 4), bend=10 ** rng.uniform(-6, -3))
    mass = energy.mass(10 ** rng.uniform(-1, 0.5))
    return ElasticBody(points, mass, [energy], faces=faces, name=name, velocities=velocity)


def flesh(rng: np.random.Generator, name: str, spot: np.ndarray, velocity: np.ndarray) -> ElasticBody:
    """Return a box of tetrahedra."""
    points, tets = tet_box(tuple(rng.uniform(0.1, 0.4, 3)), tuple(rng.integers(1, 4, 3)))
    points = placed(points, rng, spot)
    energy = FleshEnergy(points, tets, young=10 ** rng.uniform(3.5, 7), poisson=rng.uniform(0.0, 0.45))
    mass = energy.mass(10 ** rng.uniform(2, 3.5))
    return ElasticBody(points, mass, [energy], faces=tet_surface(tets), name=name, velocities=velocity)


def rigid(rng: np.random.Generator, name: str, spot: np.ndarray, velocity: np.ndarray) -> RigidBody:
    """Return a box or a ball."""
    if rng.random() < 0.5:
        mesh = trimesh.creation.box(rng.uniform(0.05, 0.4, 3))
    else:
        mesh = trimesh.creation.icosphere(1, radius=rng.uniform(0.03, 0.2))
    points = placed(np.asarray(mesh.vertices), rng, spot)
    spin = rng.normal(0, 5, 3)
    return RigidBody.solid(
        points, mesh.faces, 10 ** rng.uniform(2, 4), name=name, velocity=velocity, spin=spin
    )


def scene(seed: int) -> tuple[ImplicitSolver, Collider | None, float, int]:
    """Return the solver of a random scene, its ground by formula, if any, its time step and its frames."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 6))
    bodies: list[ElasticBody | RigidBody] = []
    fastest = 0.0
    for k in range(count):
        # On a ring, so far apart that they do not touch, towards a point near its middle.
        angle = 2 * np.pi * k / count
        spot = np.array([1.2 * np.cos(angle), 1.2 + 0.3 * rng.random(), 1.2 * np.sin(angle)])
        aim = rng.normal(0, 0.2, 3) + [0.0, 1.2, 0.0] - spot
        speed = FASTEST ** rng.uniform(0, 1)
        fastest = max(speed, fastest)
        make = (cloth, flesh, rigid)[rng.integers(3)]
        bodies.append(make(rng, f"body {k}", spot, speed * aim / np.linalg.norm(aim)))
    joints = []
    if rng.random() < 0.4:
        # A rigid ball that hangs beside the first body, held by its fitted frame.
        first = bodies[0]
        ball = trimesh.creation.icosphere(1, radius=0.03)
        away = np.ptp(first.positions, axis=0).max() + 0.1
        spot = first.positions.mean(0) + [0.0, away, 0.0]
        held = RigidBody.solid(ball.vertices + spot, ball.faces, 500.0, name="held")
        kind = ("weld", "ball", "hinge")[rng.integers(3)]
        joint = pg.bind_joint(first.positions, held.positions, spot - [0.0, 0.05, 0.0], kind=kind)
        bodies.append(held)
        joints.append(JointBond(first.name, held.name, joint))
    grounds = [Plane((0, 0, 0), (0, 1, 0)), Ball((0, 0.3, 0), 0.3), None]
    ground = grounds[rng.integers(3)]
    if ground is None:
        floor = trimesh.creation.box((6, 0.1, 6))
        bodies.append(RigidBody.solid(floor.vertices, floor.faces, 1e3, fixed=True, name="floor"))
    contact = Contact(
        distance=float(np.exp(rng.uniform(*np.log(DISTANCES)))),
        friction=float(rng.choice([0.0, 0.3, 0.8])),
    )
    method = str(rng.choice(["euler", "bdf2"]))
    solver = ImplicitSolver(
        bodies, joints=joints, contact=contact, method=method, colliders=[] if ground is None else [ground]
    )
    step = float(rng.choice([1 / 24, 1 / 60, 1 / 240]))
    return solver, ground, step, int(np.clip(np.ceil(1.5 / (fastest * step)), FEWEST, MOST))


def intersects(solver: ImplicitSolver, ground: Collider | None, positions: np.ndarray) -> bool:
    """Return whether an edge crosses a triangle, or anything is in the ground."""
    surfaces = solver.surfaces
    x, faces = surfaces.at(positions), surfaces.mesh.arrays.faces
    # What is by formula has points for faces, which are left to the other tests.
    faces = np.asfortranarray(faces[(faces != np.roll(faces, 1, axis=1)).all(1)].astype(np.int32))
    rest = np.asfortranarray(surfaces.at(surfaces.start))
    mesh = ipctk.CollisionMesh(rest, ipctk.edges(faces), faces)
    if ipctk.has_intersections(mesh, np.asfortranarray(x)):
        return True
    corners = x[faces]
    if isinstance(ground, Ball):
        nearest = trimesh.triangles.closest_point(corners, np.tile(ground.center, (len(corners), 1)))
        return bool(np.linalg.norm(nearest - ground.center, axis=1).min() <= ground.radius)
    return isinstance(ground, Plane) and bool(corners[:, :, 1].min() <= 0.0)


def outcome(seed: int) -> str:
    """Run a scene; return what became of it."""
    solver, ground, step, frames = scene(seed)
    state, met = solver.start(), 0
    for _ in range(frames):
        try:
            state = solver.step(state, step)
        except StepError as error:
            return f"ended: {error}"
        met = max(met, state.report.contacts)
        if intersects(solver, ground, state.positions) or solver.surfaces.intersecting(state.positions):
            return "intersects"
    return "met" if met else "nothing met"


def measure(quick: bool = False, first: int = 0, count: int | None = None) -> Results:
    count = count or (20 if quick else SCENES)
    begin, found = process_time(), Counter[str]()
    with pg.threads(1), threadpool_limits(1):
        for seed in range(first, first + count):
            what = outcome(seed)
            found[what] += 1
            if what not in ("met", "nothing met"):
                print(f"scene {seed} {what}", flush=True)
    cells = [[what, str(number)] for what, number in found.most_common()]
    cells.append(["processor time", f"{process_time() - begin:.0f} s"])
    return Results("collisions", [], headings=("what", "scenes"), cells=cells)


if __name__ == "__main__":
    first, count = (int(word) for word in sys.argv[1:3]) if len(sys.argv) > 2 else (0, None)
    results = measure(first=first, count=count)
    for what, number in results.cells:
        print(f"{number:>8} {what}")
