"""Planes, balls, capsules, boxes and cylinders with the implicit solver: closed forms, keys, and bullets."""

from functools import partial

import numpy as np
import pytest
import trimesh
from peers import ipctk
from scipy.optimize import brentq
from scipy.spatial.transform import Rotation

import pointglue as pg
from pointglue.elastic import ClothEnergy, Contact, ElasticBody, ImplicitSolver, RigidBody
from pointglue.elastic.contact.kernels.barrier import BarrierShape, barrier
from pointglue.errors import InputError, IntersectionError
from pointglue.geometry.solids import Ball, Box, Capsule, Cylinder, Plane

UP, NOWHERE = (0.0, 1.0, 0.0), (0.0, 0.0, 0.0)
G = 9.81


def block(shift, extents=(0.2, 0.1, 0.2), *, turn=None, density=500.0, name="block", **options):
    """A rigid box."""
    mesh = trimesh.creation.box(extents)
    points = mesh.vertices if turn is None else mesh.vertices @ turn.T
    return RigidBody.solid(points + shift, mesh.faces, density, name=name, **options)


def cloth(size, cells, height, *, name="cloth", turn=None, **options):
    """A square of cloth."""
    side = np.linspace(-size / 2, size / 2, cells + 1)
    x, z = (a.ravel() for a in np.meshgrid(side, side, indexing="ij"))
    points = np.stack([x, 0 * x, z], axis=1)
    at = np.arange(len(points)).reshape(cells + 1, cells + 1)
    a, b, c, d = at[:-1, :-1].ravel(), at[:-1, 1:].ravel(), at[1:, 1:].ravel(), at[1:, :-1].ravel()
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    points = points @ (np.eye(3) if turn is None else turn).T + [0, height, 0]
    energy = ClothEnergy(points, faces, stretch=200.0, bend=1e-4)
    return ElasticBody(points, energy.mass(0.3), [energy], faces=faces, name=name, **options)


def distance(shape, x, faces):
    """How far a surface is from a shape at least [m]: by the toolkit's distances, or by plain algebra."""
    if isinstance(shape, Plane):
        return float(((x - np.asarray(shape.point)) @ np.asarray(shape.normal)).min())
    corners = x[faces]
    if isinstance(shape, Ball | Capsule):
        ends = [shape.center] if isinstance(shape, Ball) else [shape.start, shape.end]
        axis = np.array(ends, float)
        squared = [ipctk.point_triangle_distance(end, *each) for end in axis for each in corners]
        if len(axis) == 2:
            sides = np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]])
            squared += [ipctk.edge_edge_distance(*axis, *side) for side in sides]
        return float(np.sqrt(min(squared))) - shape.radius
    # Projections only come near to 0 where a triangle is inside by less than this.
    return min(between(shape, each) for each in corners) - 1e-7


def nearest_in(shape, p):
    """The point of a box or a cylinder nearest to p, and that distance."""
    if isinstance(shape, Box):
        turn, half = np.asarray(shape.rotation), np.asarray(shape.half_extents)
        q = turn @ np.clip(turn.T @ (p - np.asarray(shape.center)), -half, half) + shape.center
    else:
        start, end = np.asarray(shape.start), np.asarray(shape.end)
        axis = end - start
        length = np.linalg.norm(axis)
        axis = axis / length
        along = np.clip((p - start) @ axis, 0, length)
        out = p - start - (p - start) @ axis * axis
        off = np.linalg.norm(out)
        q = start + along * axis + out * min(1.0, shape.radius / off if off else 1.0)
    return q, float(np.linalg.norm(p - q))


def between(shape, corners):
    """How far a triangle is from a box or a cylinder, from above: by von Neumann's projections."""
    p = corners.mean(0)
    for _ in range(300):
        q, far = nearest_in(shape, p)
        p = nearest_in_triangle(q, corners)
    return far


def nearest_in_triangle(q, corners):
    """The point of a triangle nearest to q."""
    return trimesh.triangles.closest_point(corners[None], q[None])[0]


def test_a_block_rests_where_the_barrier_bears_it():
    """Each corner has a share of the area: m g = sum of w_i 2 l b'(l^2), for the gap l."""
    solver = ImplicitSolver(
        [block((0, 0.052, 0))],
        contact=Contact(distance=2e-3, stiffness=1e6),
        colliders=[Plane(NOWHERE, UP)],
        tolerance=1e-7,
    )
    state = solver.start()
    for _ in range(200):
        state = solver.step(state, 1 / 60)
    mesh = solver.surfaces.mesh
    bottom = np.asarray(mesh.above)[np.argsort(solver.start().positions[mesh.above[:, 0], 1])[:4], 0]
    area = 0.25 * mesh.arrays.vertex_area[bottom].sum()
    shape = BarrierShape(2e-3, 0.0, 1e6)
    weight = 500 * 0.2 * 0.1 * 0.2 * G
    gap = brentq(lambda g: -2 * g * barrier(g * g, 0.0, shape)[1] * area - weight, 1e-6, 1.999e-3)
    heights = np.sort(state.body("block")[:, 1])[:4]
    # The block has two diagonals, so that its corners bear unequal shares and it leans by a little.
    assert heights.mean() == pytest.approx(gap, rel=0.02)
    assert state.report.gap == pytest.approx(heights.min(), rel=1e-9)
    assert state.report.contacts == 4


@pytest.mark.parametrize(
    "shape",
    [Ball((0, 0, 0), 0.3), Capsule((-0.5, 0, 0), (0.5, 0, 0), 0.3), Cylinder((-0.5, 0, 0), (0.5, 0, 0), 0.3),
     Box((0, 0, 0), (0.5, 0.3, 0.5))],
    ids=lambda shape: type(shape).__name__,
)  # fmt: skip
def test_a_plate_rests_on_top(shape):
    """The height of a plate on each shape is 0.3 m and a gap within the distance of contact."""
    turn = Rotation.from_euler("y", 0.3).as_matrix()
    solver = ImplicitSolver(
        [block((0, 0.3115, 0), (0.2, 0.02, 0.2), turn=turn)],
        contact=Contact(distance=2e-3, friction=0.5),
        colliders=[shape],
    )
    state = solver.start()
    for _ in range(10):
        state = solver.step(state, 1 / 60)
    low = state.body("block")[:, 1].min()
    outside = 0.3 * (1 / np.cos(np.pi / 64) - 1) if isinstance(shape, Cylinder) else 0.0
    assert 0.3 < low < 0.302 + outside
    assert 0 < state.report.gap < 2e-3


def incline(friction, angle, *, own=None, steps=50, dt=0.01):
    """How far a block goes down a tilted plane [m]."""
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    body = block(0.051 * turn[:, 1], turn=turn)
    solver = ImplicitSolver(
        [body],
        contact=Contact(distance=1e-3, friction=friction),
        colliders=[Plane(NOWHERE, turn[:, 1], friction=own)],
    )
    state = solver.start()
    for _ in range(steps):
        state = solver.step(state, dt)
    assert distance(Plane(NOWHERE, turn[:, 1]), state.body("block"), None) > 0
    return -turn[:, 0] @ (state.origins[0] - body.center_of_mass)


@pytest.mark.parametrize("degrees", [10.0, 25.0])
def test_a_block_sticks_below_the_friction_angle(degrees):
    # What sticks may creep slower than `slip`, 1 mm/s.
    assert abs(incline(0.5, np.radians(degrees))) < 1e-3 * 0.5


@pytest.mark.parametrize(("friction", "own"), [(0.5, None), (0.2, None), (0.0, 0.5), (0.5, 0.0), (0.0, None)])
def test_a_block_slides_above_the_friction_angle(friction, own):
    """By 1/2 g (sin a - mu cos a) t^2, or what Euler's steps make of it; with the plane's own coefficient."""
    angle, t, dt = np.radians(30), 0.5, 0.01
    mu = friction if own is None else own
    expected = 0.5 * G * (np.sin(angle) - mu * np.cos(angle)) * t * (t + dt)
    # It starts where contact begins and settles by half a distance, 0.5 mm, while friction is less or more.
    assert incline(friction, angle, own=own) == pytest.approx(expected, rel=0.01, abs=5e-4)


def spinning(rate, axis, time):
    return Rotation.from_rotvec(rate * time * np.asarray(axis, float)).as_matrix(), np.zeros(3)


@pytest.mark.parametrize("kind", ["ball", "capsule"])
def test_rollers_carry_a_plate_at_the_speed_of_their_surface(kind):
    """Rollers of 5 cm that turn by 4 rad/s about z carry what sticks to them at -0.2 m/s along x."""
    radius, rate = 0.05, 4.0

    def roller(x, z=0.0):
        def motion(time):
            turn, _ = spinning(rate, (0, 0, 1), time)
            at = np.array([x, 0, z])
            return turn, at - turn @ at

        if kind == "ball":
            return Ball((x, 0, z), radius, motion=motion)
        return Capsule((x, 0, z - 0.1), (x, 0, z + 0.1), radius, motion=motion)

    rollers = [roller(x, z) for x in (-0.1, 0.1) for z in ((-0.08, 0.08) if kind == "ball" else (0.0,))]
    plate = block((0, radius + 0.0115, 0), (0.5, 0.02, 0.22), name="plate")
    solver = ImplicitSolver([plate], contact=Contact(distance=2e-3, friction=0.8), colliders=rollers)
    state = solver.start()
    for _ in range(24):
        state = solver.step(state, 1 / 60)
    # It slips by less than 1 mm/s where it sticks; the arm is half of the gap of 1 mm longer than the radius.
    assert state.origin_velocities[0, 0] == pytest.approx(-rate * radius, rel=0.02)


def test_a_plane_that_keys_move_lifts_and_tilts_what_lies_on_it():
    """A table rises by 0.3 m in half a second and then tilts by 10 degrees, below the friction angle."""

    def motion(time):
        turn = Rotation.from_euler("z", np.radians(10) * np.clip(2 * time - 1, 0, 1)).as_matrix()
        return turn, np.array([0, 0.3 * min(2 * time, 1.0), 0])

    solver = ImplicitSolver(
        [block((0.3, 0.0515, 0))],
        contact=Contact(distance=2e-3, friction=0.6),
        colliders=[Plane(NOWHERE, UP, motion=motion, name="table")],
    )
    state, dt = solver.start(), 1 / 60
    for _ in range(75):
        state = solver.step(state, dt)
        turn, shift = motion(state.time)
        heights = (state.body("block") - shift) @ turn[:, 1]
        assert heights.min() > 0
    assert heights.min() < 2e-3
    # It has stayed where it was on the table, which carries it.
    here = turn.T @ (state.body("block").mean(0) - shift)
    assert np.abs(here[[0, 2]] - [0.3, 0]).max() < 5e-3


SHAPES = {
    "plane": Plane(NOWHERE, (0.1, 1.0, 0.2)),
    "ball": Ball((0, -0.3, 0), 0.3),
    "capsule": Capsule((-0.3, -0.2, 0.1), (0.4, -0.1, 0), 0.12),
    "box": Box((0, -0.2, 0), (0.3, 0.1, 0.2), Rotation.from_euler("xyz", [0.5, 0.2, 0.6]).as_matrix()),
    "cylinder": Cylinder((-0.2, -0.3, 0), (0.1, -0.1, 0.1), 0.15),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", SHAPES)
def test_bullets_never_enter(kind, seed):
    """Coarse cloth and rigid boxes at 5 to 100 m/s, half a metre and more a step, checked independently."""
    rng, shape = np.random.default_rng(seed), SHAPES[kind]
    speed = -(5.0 + 95.0 * rng.random()) * np.array([0.3, 1.0, 0.1]) / np.linalg.norm([0.3, 1.0, 0.1])
    turn = Rotation.random(random_state=seed).as_matrix()
    at = np.array([0.15, 0.75, 0.05]) + 0.05 * rng.normal(size=3)
    if seed % 2:
        body = block(at, (0.1, 0.3, 0.08), turn=turn, velocity=speed, name="bullet")
        faces = np.asarray(body.faces)
    else:
        soft = cloth(0.5, 3, 0.0, turn=turn, name="bullet")
        points = np.asarray(soft.positions) + at
        energy = ClothEnergy(points, soft.faces, stretch=200.0, bend=1e-4)
        body = ElasticBody(points, soft.mass, [energy], faces=soft.faces, name="bullet", velocities=speed)
        faces = np.asarray(body.faces)
    contact = Contact(distance=2e-3, friction=0.3)
    solver = ImplicitSolver([body], contact=contact, colliders=[shape])
    state, met = solver.start(), 0
    for _ in range(6):
        state = solver.step(state, 1 / 60)
        assert distance(shape, state.body("bullet"), faces) > 0
        met += state.report.contacts
    assert met > 0


def test_keys_drive_a_capsule_and_a_plane_into_cloth_without_entering():
    """A capsule that turns and moves at 5 m/s strikes cloth which lies on a plane."""

    def motion(time):
        turn = Rotation.from_euler("y", 10 * time).as_matrix()
        return turn, np.array([0.0, -5.0 * min(time, 0.07), 0.0])

    capsule = Capsule((-0.3, 0.5, 0), (0.3, 0.5, 0), 0.1, motion=motion)
    solver = ImplicitSolver(
        [cloth(0.8, 8, 0.003)], contact=Contact(distance=2e-3), colliders=[Plane(NOWHERE, UP), capsule]
    )
    state = solver.start()
    for _ in range(6):
        state = solver.step(state, 1 / 60)
        turn, shift = motion(state.time)
        now = Capsule(turn @ capsule.start + shift, turn @ capsule.end + shift, 0.1)
        x, faces = state.body("cloth"), np.asarray(solver.model.bodies[0].faces)
        assert x[:, 1].min() > 0
        assert distance(now, x, faces) > 0


def test_one_thread_and_two_give_the_same_bytes():
    def run(threads):
        with pg.threads(threads):
            solver = ImplicitSolver(
                [cloth(0.8, 24, 0.21)],
                contact=Contact(distance=4e-3, friction=0.3),
                colliders=[
                    Plane(NOWHERE, UP),
                    Ball((0, 0.1, 0), 0.1),
                    Capsule((0.2, 0, 0), (0.3, 0.1, 0), 0.05),
                ],
            )
            state = solver.start()
            for _ in range(6):
                state = solver.step(state, 1 / 30)
        return state

    one, two = run(1), run(2)
    assert one.report.contacts > 100
    assert one.positions.tobytes() == two.positions.tobytes()


INSIDE = {
    "plane": Plane((0, 0.06, 0), UP, name="it"),
    "ball": Ball((0, 0.2, 0), 0.16, name="it"),
    "capsule through it": Capsule((0.03, -0.5, 0.01), (0.03, 0.5, 0.01), 1e-3, name="it"),
    "box": Box((0, 0, 0), size=(0.3, 0.11, 0.1), name="it"),
}


@pytest.mark.parametrize("kind", INSIDE)
def test_a_start_inside_is_refused(kind):
    contact = Contact(distance=2e-3)
    with pytest.raises(IntersectionError, match="'it'") as error:
        ImplicitSolver([block((0, 0.1, 0))], contact=contact, colliders=[INSIDE[kind]])
    assert error.value.pairs == (("block", "it"),)
    alone = Contact(distance=2e-3, ignore=[("it", "block")])
    ImplicitSolver([block((0, 0.1, 0))], contact=alone, colliders=[INSIDE[kind]])


@pytest.mark.parametrize("shape", [Plane((0, 0.01, 0), UP), Ball((0, -0.28, 0), 0.3)], ids=["plane", "ball"])
def test_cloth_that_starts_inside_is_untangled_with_grow(shape):
    sheet = cloth(0.4, 8, 0.0)
    solver = ImplicitSolver([sheet], contact=Contact(distance=2e-3, grow=0.1), colliders=[shape])
    assert distance(shape, solver.start().body("cloth"), np.asarray(sheet.faces)) > 0


def test_what_ignores_a_collider_falls_through_it():
    contact = Contact(distance=2e-3, ignore=[("block", "collider 1")])
    colliders = [Plane((0, -5, 0), UP), Plane(NOWHERE, UP), Ball((0, -0.5, 0), 0.1, name="ball")]
    solver = ImplicitSolver([block((0, 0.06, 0))], contact=contact, colliders=colliders)
    assert solver.surfaces.mesh.above[:, 1].tolist() == [0] * 8
    state = solver.start()
    for _ in range(12):
        state = solver.step(state, 1 / 60)
    assert state.body("block")[:, 1].max() < 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(ImplicitSolver, colliders=[Plane(NOWHERE, UP)]), "colliders are met by contact"),
        (
            partial(ImplicitSolver, contact=Contact(distance=1e-3), colliders=["floor"]),
            "must be a Plane, Ball",
        ),
        (
            partial(
                ImplicitSolver, contact=Contact(distance=1e-3), colliders=[Ball(NOWHERE, 1, name="block")]
            ),
            "names of their own",
        ),
    ],
)
def test_wrong_colliders_are_refused(make, message):
    with pytest.raises(InputError, match=message):
        make([block((0, 3, 0))])
