"""A truck crashes through a tree whose branches are glued on (figures 7 and 8 of the paper on glue).

The trunk is glued to its stump, limbs to the trunk and twigs to limbs. No mesh meets another: every root is
cut to fit its parent, two centimetres away from it, and all that is drawn collides, glued or not; the truck
by a hull of 450 vertices around it. Glue tears where a point of it is pulled too hard, but for that of two
limbs, which are let go at times that the film wanted.
From left to right: before, in the crash, and behind it.

    python examples/car_through_tree.py [PICTURE.png] [MOVIE.mp4]
"""

import numpy as np
from _report import paths, print_contacts, print_newton, run_implicit, save_movie, save_picture

from pointglue import assets, view
from pointglue.assets.tree import tree
from pointglue.elastic import Bond, Contact, ElasticBody, FleshEnergy, ImplicitSolver, RigidBody
from pointglue.geometry import shapes, simplices
from pointglue.geometry.inside import Inside

STEP = 1 / 120  # s
SPEED, WEIGHT = 13.0, 1900.0  # m/s, kg
SHIFT = np.array([-2.6, 0.01, 0.1])  # of the truck when it starts, m
SIZE, CLEARANCE = 2.0, 0.025  # of the tree; between a branch and what it grows on, m
STUMP = 0.4  # m, of which 0.12 are in the ground
CELLS = (10, 7, 5)  # along the trunk, a limb, a twig
YOUNG, DENSITY = 5e7, 500.0  # Pa, kg/m^3: green wood
STRENGTH = (3e4, 4e3, 1.5e3)  # N, a point of glue of the trunk, of a limb, of a twig
RELEASE = {"limb 2": 0.1, "limb 4": 0.15}  # s: keyed, and these do not tear
SHOWN = (0.0, 0.09, 0.2)  # s
# Of a truck from the side: its roof and its belly, x and y, and half a wheel about its middle.
ROOF = [(-2.2, 1.5), (-2.05, 1.58), (-1.11, 1.6), (-1.05, 2.22), (0.35, 2.22), (0.78, 1.72), (2.0, 1.56),
        (2.2, 1.35)]  # fmt: skip
BELLY = {2.2: 0.7, 2.1: 0.7, 0.4: 0.7, 0.0: 0.7, -0.35: 0.7, -1.05: 0.0, -1.11: 0.0, -2.1: 0.7, -2.16: 0.7}
WHEEL = [(0.66, 0.62), (0.62, 0.5), (0.5, 0.2), (0.25, 0.0), (0.0, 0.0)]
PAINT = {"body": "#c8323f", "glass": "#1f2a36", "lamps": "#ffe9a8", "trim": "#59626c", "axles": "#59626c",
         "rims": "#c3c8ce", "tyres": "#26282c"}  # fmt: skip


def hull(axles):
    """A closed surface about a truck, vertices and faces: rings across it, from the front to the rear."""
    below = BELLY | {x + side * d: y for x in axles for side in (-1, 1) for d, y in WHEEL}
    rings = []
    for x in sorted(below, reverse=True):
        top, low = np.interp(x, *zip(*ROOF, strict=True)), below[x]
        wide = 1 - 0.25 * np.clip((abs(x) - 1.8) / 0.4, 0, 1)
        belly, shoulder = 0.38 if low < 0.6 else 0.62, min(1.56, top - 0.06)
        half = [(belly, 0.6), (low, 0.66), (low, 1.2 * wide), (1.3, 1.2 * wide), (shoulder, 1.02 * wide)]
        half += [(0.55 * shoulder + 0.45 * top, 0.9 * wide), (top, 0.74 * wide)]
        ring = [(belly, 0), *half, (top, 0), *((y, -z) for y, z in half[::-1])]
        rings.append([(x, y, z) for y, z in ring])
    count, around = len(rings), len(rings[0])
    number = np.arange(count * around).reshape(count, around)
    a, b = number, np.roll(number, -1, axis=1)
    middle = np.full(around, count * around)
    sides = [(a[:-1], b[:-1], b[1:]), (a[:-1], b[1:], a[1:])]
    ends = [(middle, b[0], a[0]), (middle + 1, a[-1], b[-1])]
    faces = [np.stack(corners, axis=-1).reshape(-1, 3) for corners in sides + ends]
    vertices = np.concatenate([*rings, np.mean([rings[0], rings[-1]], axis=1)])
    return vertices, np.concatenate(faces)


def build(truck, noise=0.0):
    """The solver."""
    vertices, faces = hull(truck.axle_ends[:, 0, 0])
    assert Inside(vertices, faces).contains(np.concatenate([part for part, *_ in parts(truck)])).all()
    vertices = vertices + SHIFT
    car = RigidBody.solid(vertices, faces, 1.0, name="car")
    car = RigidBody.solid(vertices, faces, WEIGHT / car.mass, velocity=(SPEED, 0.0, 0.0), name="car")
    lawn, squares = shapes.box((40, 1, 16), (10, 1, 4))
    lawn = RigidBody.solid(lawn - [0, 0.5, 0], squares, 1.0, fixed=True, name="lawn")

    wood = tree(SIZE, cells=CELLS, clearance=CLEARANCE)
    box, cells = simplices.tet_box((1, 2, 2), (2, 2, 2))
    trunk = wood[0]
    up = 2 * (trunk.spine[1] - trunk.spine[0])[1]  # m for a share of 1, below the trunk
    stump = trunk.swept((STUMP * (box[:, 0] - 0.5) - 0.5 * CLEARANCE) / up, box[:, 1:])
    rng = np.random.default_rng(0)
    bodies, bonds = [car, lawn, piece("stump", stump, cells, pinned=True)], []
    for branch in wood:
        shaken = branch.points + noise * rng.standard_normal(branch.points.shape)
        bodies.append(piece(branch.name, shaken, branch.tets))
        limits = {"break_force": STRENGTH[branch.level]}
        if branch.name in RELEASE:
            limits = {"release": RELEASE[branch.name]}
        parent = branch.parent.name if branch.parent else "stump"
        bonds.append(Bond(branch.name, branch.ring[::2], parent, **limits))
    # A stick does not reach itself, and its tip is thinner than the distance.
    alone = [(branch.name, branch.name) for branch in wood]
    # A truck is stopped by some square decimetres: what contact finds by itself is for far softer blows.
    contact = Contact(distance=0.01, friction=0.5, stiffness=2e6, ignore=alone)
    return ImplicitSolver(bodies, glue=bonds, contact=contact, tolerance=5e-2)


def piece(name, points, tets, pinned=False):
    """A body of wood; what is pinned is rooted in the ground."""
    points = points + [0.0, 0.7 * STUMP, 0.0]
    energy = FleshEnergy(points, tets, young=YOUNG, poisson=0.3)
    held, faces = np.full(len(points), pinned), simplices.tet_surface(tets)
    return ElasticBody(points, energy.mass(DENSITY), [energy], pinned=held, faces=faces, name=name)


def parts(truck):
    """Vertices, faces and colour of all that is drawn of it."""
    for name, color in PAINT.items():
        part = getattr(truck, name)
        for vertices, faces in [part] if isinstance(part[0], np.ndarray) else part:
            yield vertices, faces, color


def run(solver, seconds):
    """States, the time (s) when the last glue of each branch gave, if it did, and seconds by part."""
    given = {}

    def check(state):
        assert not solver.surfaces.intersecting(state.positions)
        for bond in solver.model.glue:
            if state.released[solver.model.rows[bond.body]][bond.points].all():
                given.setdefault(bond.body, state.time)

    states, spent = run_implicit(solver, solver.start(), STEP, seconds, check)
    return states, given, spent


def main(picture, movie=None):
    truck = assets.car()
    solver = build(truck)
    wood = solver.model.bodies[2:]
    count = sum(len(body.positions) for body in wood)
    print(f"{len(wood)} pieces of wood of {count:,} points, {len(solver.surfaces.particles):,} points meet")
    states, given, spent = run(solver, 3.0 if movie else SHOWN[-1])

    print_newton(states, spent)
    print_contacts(states)
    torn = {name: moment for name, moment in given.items() if name not in RELEASE}
    print("torn off: " + ", ".join(f"{name} after {moment:.2f} s" for name, moment in torn.items()))
    keyed = {name: moment for name, moment in given.items() if name in RELEASE}
    print("let go: " + ", ".join(f"{name} at {moment:.2f} s" for name, moment in keyed.items()))
    print(f"glue takes {spent['glue'] / spent['all']:.1%} of the time")
    assert "trunk" in torn
    assert any(name.startswith("limb") for name in torn)
    for name, moment in RELEASE.items():
        assert abs(keyed[name] - moment) < 1.01 * STEP
    heights = [np.mean([states[k].body(body.name)[:, 1].mean() for body in wood]) for k in (0, -1)]
    print("wood is {:.2f} m above the ground at first, {:.2f} m in the end; ".format(*heights), end="")
    print(f"the truck goes {states[-1].origin_velocities[0, 0]:.1f} m/s")
    assert states[-1].origins[0, 0] > states[0].origins[0, 0] + 1.5
    if movie:
        assert heights[1] < 0.5 * heights[0]

    shown = [(x + SHIFT - solver.model.origins[0], faces, color) for x, faces, color in parts(truck)]

    def draw(scene, state, shift=0.0):
        for vertices, faces, color in shown:
            scene.mesh(vertices @ state.rotations[0].T + state.origins[0] + shift, faces, color=color)
        for body in wood:
            scene.mesh(state.body(body.name) + shift, body.faces, color="#84644c")
        return scene

    camera = view.Camera(direction=(-0.25, 0.22, 1.0), fov=12)
    scene = view.Picture(size=(1440, 432), ground=0.0, camera=camera)
    for k, moment in enumerate(SHOWN):
        draw(scene, states[round(moment / STEP)], (0, 5.6, 11.0)[k] * camera.axes[0])
    save_picture(scene, picture)
    if movie:

        def shot(state):
            """Beside the truck."""
            target = (state.origins[0, 0] + 2.6, 1.5, 0.0)
            camera = view.Camera(direction=(-0.25, 0.22, 1.0), fov=20, target=target, distance=25)
            return draw(view.Picture(size=(960, 540), ground=0.0, camera=camera), state)

        save_movie((shot(state) for state in states[::4]), movie)


if __name__ == "__main__":
    main(*paths("car_through_tree"))
