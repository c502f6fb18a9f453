"""Soft, rigid and shape-matching bodies fall into a bowl and come to rest on each other.

Cushions, rings and cubes in warm colours are soft: tetrahedra of flesh. Grey ones are rigid. The yellow ducks
and the blue stones are lattices of points that remember their shape. All meet all, with friction, in one
solver, and no two surfaces ever intersect. From left to right: before, on the way, and in the bowl; the movie
has half as many bodies again, and waits until they are at rest.

    python examples/pile.py [PICTURE.png] [MOVIE.mp4]
"""

import numpy as np
import trimesh
from _report import paths, print_contacts, print_newton, run_implicit, save_movie, save_picture
from scipy.spatial.transform import Rotation

from pointglue import view
from pointglue.elastic import (
    Contact,
    ElasticBody,
    FleshEnergy,
    ImplicitSolver,
    RigidBody,
    ShapeMatchingEnergy,
)
from pointglue.geometry import simplices

STEP = 1 / 60  # s
SHOWN = (0.0, 0.2, 0.4)  # s
YOUNG, POISSON, DENSITY = 3e4, 0.35, 300.0  # Pa, -, kg/m^3: cushions
STIFFNESS, WEIGHT = 60.0, 0.8  # N/m a point, kg: what remembers its shape
RIGID = 600.0  # kg/m^3: wood
LAYERS = [  # from below; four about the middle, then one in the middle, a little higher
    ["soft cube", "rigid ring", "duck", "soft star", "rigid ball"],
    ["stone", "soft ring", "rigid cube", "duck", "soft cube"],
    ["rigid star", "soft ball", "stone", "rigid ring", "duck"],
]
COLORS = {
    "soft cube": "coral",
    "soft ring": "rose",
    "soft star": "red",
    "soft ball": "plum",
    "duck": "gold",
    "stone": "sky",
    "rigid": (0.62, 0.68, 0.74),
}


def ball_of(cells):
    """A ball of tetrahedra with a radius of 1: a cube made round."""
    points, tets = simplices.tet_box((2, 2, 2), (cells, cells, cells))
    x, y, z = (points**2).T
    root = [1 - y / 2 - z / 2 + y * z / 3, 1 - z / 2 - x / 2 + z * x / 3, 1 - x / 2 - y / 2 + x * y / 3]
    return points * np.sqrt(np.stack(root, axis=1)), tets


def star_of(points, arms):
    """A ball's points (n, 3) as a cushion with so many arms."""
    radius, angle = np.hypot(points[:, 0], points[:, 2]), np.arctan2(points[:, 2], points[:, 0])
    reach = 1 - 0.3 * radius * np.cos(arms * angle)
    return points * np.stack([reach, 0 * reach + 0.5, reach], axis=1)


def ring_of(sections, radius, girth):
    """A ring of tetrahedra: a bar that is bent until its ends meet."""
    points, tets = simplices.tet_box((1, 2, 2), (sections, 2, 2))
    angle = 2 * np.pi * (points[:, 0] + 0.5)
    across = girth * points[:, 1:] * np.sqrt(1 - points[:, :0:-1] ** 2 / 2)
    out = radius + across[:, 0]
    points = np.stack([out * np.cos(angle), across[:, 1], out * np.sin(angle)], axis=1)
    places, index = np.unique(points.round(9), axis=0, return_inverse=True)
    return places, index[tets]


def duck_of(ball):
    """A ball's points (n, 3) as a duck of the bath, as far out from its middle as its surface is."""
    parts = [  # centre and half axes
        ((0.0, 0.0, 0.0), (0.12, 0.08, 0.09)),
        ((0.06, 0.1, 0.0), (0.065, 0.065, 0.06)),
        ((0.12, 0.09, 0.0), (0.045, 0.03, 0.045)),
        ((-0.1, 0.045, 0.0), (0.055, 0.045, 0.05)),
    ]
    middle = np.array([0.02, 0.045, 0.0])

    def outside(x):
        each = [(np.linalg.norm((x - c) / a, axis=1) - 1) * min(a) for c, a in parts]
        return -0.01 * np.log(np.sum([np.exp(-d / 0.01) for d in each], axis=0))

    way = ball / np.maximum(np.linalg.norm(ball, axis=1, keepdims=True), 1e-9)
    near, far = np.zeros(len(ball)), np.full(len(ball), 0.3)
    for _ in range(30):
        half = (near + far) / 2
        out = outside(middle + half[:, None] * way) > 0
        near, far = np.where(out, near, half), np.where(out, half, far)
    return 0.85 * near[:, None] * ball


def build(layers):
    """The solver, of bodies in so many layers."""
    rng = np.random.default_rng(3)
    ball, round_tets = ball_of(4)
    cube, square_tets = simplices.tet_box((0.17, 0.17, 0.17), (3, 3, 3))
    soft = {
        "soft ball": (0.1 * ball, round_tets),
        "soft star": (0.12 * star_of(ball, 4), round_tets),
        "soft cube": (cube, square_tets),
        "soft ring": ring_of(14, 0.095, 0.042),
    }
    sphere = trimesh.creation.icosphere(subdivisions=2)
    block = trimesh.creation.box((0.15, 0.15, 0.15))
    torus = trimesh.creation.torus(0.09, 0.035, major_sections=18, minor_sections=8)
    hard = {
        "rigid ball": (0.085 * sphere.vertices, sphere.faces),
        "rigid star": (0.12 * star_of(sphere.vertices, 5), sphere.faces),
        "rigid cube": (block.vertices, block.faces),
        "rigid ring": (torus.vertices, torus.faces),
    }
    matched = {
        "duck": (duck_of(ball), round_tets),
        "stone": (0.1 * ball * [1.2, 0.75, 0.95], round_tets),
    }
    bodies = []
    for layer, row in enumerate(LAYERS[:layers]):
        for k, kind in enumerate(row):
            angle = 0.5 * np.pi * (k + 0.5 * layer)
            place = [0.24 * np.cos(angle), 0.28 + 0.28 * layer, 0.24 * np.sin(angle)]
            if k == 4:
                place = [0.0, 0.42 + 0.28 * layer, 0.0]
            turn = Rotation.random(random_state=rng).as_matrix()
            if kind == "duck":
                turn = Rotation.from_euler("xzy", [20, 0, rng.uniform(0, 360)], degrees=True).as_matrix()
            name = f"{kind} {len(bodies)}"
            if kind in soft:
                points, tets = soft[kind]
                points = points @ turn.T + place
                energy = FleshEnergy(points, tets, young=YOUNG, poisson=POISSON)
                faces = simplices.tet_surface(tets)
                body = ElasticBody(points, energy.mass(DENSITY), [energy], faces=faces, name=name)
            elif kind in hard:
                points, faces = hard[kind]
                body = RigidBody.solid(points @ turn.T + place, faces, RIGID, name=name)
            else:
                points, tets = matched[kind]
                points = points @ turn.T + place
                mass = np.full(len(points), WEIGHT / len(points))
                cubes = [np.unique(cube) for cube in tets.reshape(-1, 24)]
                energy = ShapeMatchingEnergy(points, mass, STIFFNESS, clusters=cubes, blend=0.3)
                faces = simplices.tet_surface(tets)
                body = ElasticBody(points, mass, [energy], faces=faces, name=name)
            bodies.append(body)
    outline = [[0, 0], [0.25, 0], [0.44, 0.17], [0.425, 0.185], [0.235, 0.025], [0, 0.02]]
    dish = trimesh.creation.revolve(outline, sections=40)
    bowl = RigidBody.solid(dish.vertices[:, [1, 2, 0]], dish.faces, 2000.0, fixed=True, name="bowl")
    contact = Contact(distance=2e-3, friction=0.35, slip=1e-2)
    return ImplicitSolver([*bodies, bowl], contact=contact, tolerance=3e-2)


def main(picture, movie=None):
    solver = build(len(LAYERS) if movie else 2)
    *bodies, bowl = solver.model.bodies
    count = sum(len(body.positions) for body in bodies)
    print(f"{len(bodies)} bodies of {count:,} points")

    def check(state):
        assert not solver.surfaces.intersecting(state.positions)

    states, spent = run_implicit(solver, solver.start(), STEP, 3.0 if movie else SHOWN[-1], check)
    print_newton(states, spent)
    print_contacts(states)
    speeds = [
        max(np.linalg.norm(s.velocities, axis=1).max(), np.linalg.norm(s.origin_velocities, axis=1).max())
        for s in states
    ]
    print(f"the fastest point goes {max(speeds):.1f} m/s on the way, {speeds[-1]:.2g} m/s in the end")
    if movie:
        assert speeds[-1] < 0.05

    def draw(scene, state, shift=0.0):
        scene.mesh(bowl.positions + shift, bowl.faces, color="white")
        for body in bodies:
            kind = body.name.rsplit(" ", 1)[0]
            color = COLORS.get(kind, COLORS["rigid"])
            scene.mesh(state.body(body.name) + shift, body.faces, color=color)
        return scene

    camera = view.Camera(direction=(0.25, 0.6, 1.0), fov=14)
    scene = view.Picture(size=(1280, 512), ground=0.0, camera=camera)
    for k, moment in enumerate(SHOWN):
        draw(scene, states[round(moment / STEP)], (k - 1) * 1.05 * camera.axes[0])
    save_picture(scene, picture)
    if movie:
        whole = view.Picture(size=(960, 540), camera=view.Camera(direction=(0.25, 0.6, 1.0), fov=20))
        still = draw(draw(whole, states[0]), states[-1]).fitted_camera()
        frames = (draw(view.Picture(size=(960, 540), ground=0.0, camera=still), s) for s in states[::2])
        save_movie(frames, movie)


if __name__ == "__main__":
    main(*paths("pile"))
