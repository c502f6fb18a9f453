"""Ellipsoids against colliders: exact contact, nothing passes through, and wrong input is named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from particles.overlapping import (
    CUBE,
    Particles,
    axis_distance,
    check_bookkeeping,
    check_touch,
    distance_to,
    hull_gap,
    shape,
    sheet,
    star,
    turned,
)
from scipy.spatial.transform import Rotation, Slerp

import pointglue
from pointglue.errors import InputError
from pointglue.geometry import shapes
from pointglue.particles import Ball, Box, Capsule, MeshCollider, Motion, Plane
from pointglue.particles._solve.kernels.contact.colliders import collider_displacement
from pointglue.particles.colliders.mesh import ready_collider


def test_plane(rng):
    n = np.array([1.0, 2, -2]) / 3
    collider = Plane([0.1, 0.2, 0.3], 5 * n)
    p = Particles(rng.standard_normal((200, 3)), [shape(rng, 4) for _ in range(200)])
    before = p.P[:, :3].copy()
    p.push(collider)
    support = np.sqrt(np.einsum("i,kij,j->k", n, p.G, n))
    depth = support - (before - [0.1, 0.2, 0.3]) @ n
    np.testing.assert_allclose(p.depths, np.maximum(depth, 0), atol=1e-14)
    assert 20 < (p.depths > 0).sum() < 180
    np.testing.assert_allclose(((p.P[:, :3] - [0.1, 0.2, 0.3]) @ n - support)[p.depths > 0], 0, atol=1e-14)
    check_bookkeeping(p, before)


@pytest.mark.parametrize("aspect", [1.0, 2.0, 10.0, 50.0])
def test_ball_and_capsule_push_exactly_when_they_overlap(rng, aspect):
    for _ in range(8):
        C, way = shape(rng, aspect), rng.standard_normal(3)
        check_touch(Ball([0, 0, 0], 0.7), lambda x, C=C: distance_to(x, C, np.zeros(3)) / 0.7, way, C)
        start, end = rng.standard_normal((2, 3))
        middle = (start + end) / 2  # ways start there, so that they begin inside
        check_touch(
            Capsule(start - middle, end - middle, 0.3),
            lambda x, C=C, s=start - middle, e=end - middle: axis_distance(s, e, x, C) / 0.3,
            way,
            C,
        )


@pytest.mark.parametrize("aspect", [1.0, 3.0, 30.0])
def test_after_a_push_out_of_a_capsule_it_touches(rng, aspect):
    start, end, radius = np.array([-0.5, 0.2, 0]), np.array([0.7, 0, 0.4]), 0.4
    centres = rng.uniform(-0.8, 0.8, (150, 3))
    p = Particles(
        centres, [shape(rng, aspect, 0.6) for _ in centres], np.array([turned(rng) for _ in centres])
    )
    ball = Particles(centres, p.C, p.E)
    p.push(Capsule(start, end, radius))
    ball.push(Ball(start, radius))
    assert (p.depths > 0).sum() > 40
    assert (ball.depths > 0).sum() > 20
    for i in np.flatnonzero(p.depths > 0):
        assert axis_distance(start, end, p.P[i, :3], p.G[i]) == pytest.approx(radius, rel=1e-9)
    for i in np.flatnonzero(ball.depths > 0):
        assert distance_to(ball.P[i, :3], p.G[i], start) == pytest.approx(radius, rel=1e-9)
    check_bookkeeping(p, centres)
    check_bookkeeping(ball, centres)


def test_spheres_in_closed_form(rng):
    x = rng.standard_normal((100, 3))
    p = Particles(x, 0.25 * np.eye(3))
    p.push(Ball([0.1, 0, 0], 0.8))
    away = x - [0.1, 0, 0]
    distance = np.linalg.norm(away, axis=1)
    np.testing.assert_allclose(p.depths, np.maximum(1.3 - distance, 0), atol=1e-14)
    np.testing.assert_allclose(p.normals[p.depths > 0], (away / distance[:, None])[p.depths > 0], atol=1e-12)


@pytest.mark.parametrize("aspect", [1.0, 3.0, 30.0, 1e3])
def test_box_pushes_exactly_when_it_overlaps(rng, aspect):
    half, R = np.array([0.5, 1.0, 0.3]), turned(rng)
    corners = (CUBE * half) @ R.T
    for _ in range(30):
        C, way = shape(rng, aspect), rng.standard_normal(3)
        check_touch(Box([0, 0, 0], half, R), lambda x, C=C: max(hull_gap(corners, x, C), 1e-9), way, C)


def test_a_box_by_its_size_is_that_by_its_half_extents():
    by_size, by_half = Box([1, 2, 3], size=[0.2, 0.6, 3.0]), Box([1, 2, 3], [0.1, 0.3, 1.5])
    for box in (by_size, by_half):
        np.testing.assert_array_equal(box.half_extents, [0.1, 0.3, 1.5])
        np.testing.assert_array_equal(box.size, [0.2, 0.6, 3.0])


@given(st.integers(0, 2**32 - 1), st.floats(0, 2))
def test_after_a_push_out_of_a_box_it_is_out(seed, aspect):
    rng = np.random.default_rng(seed)
    half, R, centre = rng.uniform(0.1, 1, 3), turned(rng), rng.standard_normal(3)
    x = centre + rng.standard_normal((20, 3))
    p = Particles(x, [shape(rng, 10**aspect, 0.5) for _ in x])
    p.push(Box(centre, half, R))
    corners = centre + (CUBE * half) @ R.T
    for i in range(len(x)):
        gap = hull_gap(corners, p.P[i, :3], p.G[i])
        assert gap > 1 - 1e-9
        faces = np.abs(R.T @ p.normals[i]).max() > 1 - 1e-12
        if p.depths[i] > 0 and faces and (np.abs(R.T @ (p.P[i, :3] - centre)) < half).sum() == 2:
            foot = R.T @ (
                p.P[i, :3] - p.G[i] @ p.normals[i] / np.sqrt(p.normals[i] @ p.G[i] @ p.normals[i]) - centre
            )
            assert np.abs(np.abs(foot) - half).min() < 1e-9  # tangent to the face
    check_bookkeeping(p, x)


def test_a_centre_inside_a_box_leaves_by_the_least_way():
    p = Particles([[0.3, 0.2, 0.1], [0.0, 0.0, 0.0]], np.diag([0.5, 0.1, 0.1]) ** 2)
    p.push(Box([0, 0, 0], [0.5, 0.5, 0.9]))
    # 0.2 to the nearest face but the long axis points there: 0.7; by the next face 0.3 + 0.1.
    np.testing.assert_allclose(p.P[0, :3], [0.3, 0.6, 0.1], atol=1e-15)
    np.testing.assert_allclose(p.depths, [0.4, 0.6])


@pytest.mark.parametrize("collider", [Ball([0, 0, 0], 0.05), Capsule([-1, 0, 0], [1, 0, 0], 0.05)])
def test_nothing_passes_through_what_is_round(rng, collider):
    start = np.column_stack(
        [rng.uniform(-0.03, 0.03, 200), rng.uniform(0.3, 2, 200), rng.uniform(-0.03, 0.03, 200)]
    )
    end = start * [1, -1, 1]
    p = Particles(end, [shape(rng, 3, 0.04) for _ in start])
    p.push(collider, start)
    # It stays in front of the plane that touches where its path enters.
    normals = start * ([1, 0, 1] if isinstance(collider, Ball) else [0, 0, 1]) / 0.05
    normals[:, 1] = np.sqrt(1 - (normals**2).sum(1))
    height = (p.P[:, :3] * normals).sum(1) - np.sqrt(np.einsum("ki,kij,kj->k", normals, p.G, normals))
    np.testing.assert_allclose(height, 0.05, rtol=1e-6)  # the place of entry is found to 1e-9 of the radius
    segment = (
        np.array([[0.0, 0, 0]] * 2) if isinstance(collider, Ball) else np.array([[-1.0, 0, 0], [1, 0, 0]])
    )
    for i in range(len(start)):
        assert axis_distance(*segment, p.P[i, :3], p.G[i]) > 0.05 * (1 - 1e-9)


def test_past_an_edge_is_not_through():
    start = np.array([[1.3, 0.5, 0.0], [-1.3, -0.5, 0.2]])
    for collider in (MeshCollider(*sheet()), Box([0, 0, 0], [1, 0.005, 1]), Ball([0, 0, 0], 1.0)):
        p = Particles(start * [1, -1, 1], 0.01 * np.eye(3))
        p.push(collider, start)
        assert (p.depths == 0).all()


def test_every_kind_moves_with_its_motion(rng):
    """Collider and particles moved alike, the pushes are moved alike."""
    R, t = turned(rng), rng.standard_normal(3)
    quaternion = Rotation.from_matrix(R).as_quat(scalar_first=True)
    x = rng.standard_normal((60, 3))
    C = [shape(rng, 2, 0.5) for _ in x]
    kinds = [
        (Plane, ([0.1, 0, 0], [1, 2, 3])),
        (Ball, ([0.1, 0, 0], 0.5)),
        (Box, ([0.1, 0, 0], [0.5, 0.6, 0.7], turned(rng))),
        (Capsule, ([0.1, 0, 0], [0.5, 1, 1], 0.3)),
        (MeshCollider, star()),
    ]
    for kind, arguments in kinds:
        p, q = Particles(x, C), Particles(x @ R.T + t, C, np.tile(R, (60, 1, 1)))
        p.push(kind(*arguments))
        q.push(kind(*arguments, motion=Motion([3.0], [t], [quaternion])))
        again = Particles(x @ R.T + t, C, np.tile(R, (60, 1, 1)))
        again.push(kind(*arguments, motion=lambda time: (R, t)))
        assert (p.depths > 0).any()
        np.testing.assert_allclose(q.P[:, :3], p.P[:, :3] @ R.T + t, atol=1e-9)
        np.testing.assert_allclose(again.P, q.P, atol=1e-12)
        np.testing.assert_allclose(q.depths, p.depths, atol=1e-9)


def test_the_same_bits_for_any_number_of_threads(rng):
    x, R = rng.uniform(-1.5, 1.5, (9000, 3)), Rotation.random(9000, random_state=rng).as_matrix()
    start = x + 0.3 * rng.standard_normal(x.shape)
    C, fixed = [shape(rng, 3, 0.2) for _ in x], rng.uniform(size=9000) < 0.1
    for collider in (
        Plane([0, 0, 0], [0, 1, 0]),
        Box([0, 0, 0], [0.5, 0.6, 0.7]),
        Capsule([0, 0, 0], [0, 1, 0], 0.5),
        MeshCollider(*star()),
    ):
        results = []
        for count in (1, 3):
            p = Particles(x, C, R, fixed)
            with pointglue.threads(count):
                p.push(collider, start)
            results.append(p)
        one, three = results
        assert (one.depths > 0).sum() > 500
        for name in ("P", "depths", "normals", "corrections"):
            np.testing.assert_array_equal(getattr(one, name), getattr(three, name))
        np.testing.assert_array_equal(one.P[fixed, :3], x[fixed])
        assert (one.P[:, 3:] == 7).all()


@pytest.mark.parametrize(
    ("collider", "place", "expected"),
    [
        (Ball([1, 2, 3], 0.5), [1, 2, 3], [1, 2.7, 3]),
        (Ball([0, 0, 0], 0.5), [1e-200, 0, -1e-170], [0, 0.7, 0]),
        (Ball([0, 0, 0], 0.5), [0, -1e-25, 0], [0, -0.7, 0]),
        (Box([1, 2, 3], [0.5, 0.4, 0.6]), [1, 2, 3], [1, 2.6, 3]),
        (Capsule([0, 0, 0], [0, 0, 0], 0.5), [0, 0, 0], [0, 0.7, 0]),
        (MeshCollider([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), [0.2, 0.2, 0], [0.2, 0.2, 0.2]),
        (MeshCollider([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), [0.5, 0, 0], [0.5, 0, 0.2]),
        (MeshCollider([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), [0, 0, 0], [0, 0, 0.2]),
        (MeshCollider(*shapes.box((1, 1, 1), (1, 1, 1))), [0.5, 0.2, 0.3], [0.7, 0.2, 0.3]),
    ],
)
def test_centres_where_the_direction_is_open(collider, place, expected):
    """In the middle of a ball or on a triangle the push goes a fixed way."""
    p = Particles([place], 0.04 * np.eye(3))
    p.push(collider)
    np.testing.assert_allclose(p.P[0, :3], expected, atol=1e-14)


def test_on_the_axis_of_a_capsule_it_goes_sideways():
    for place in ([0, 0.3, 0], [0, 1, 0], [0, -1, 0], [1e-200, 0.3, 0]):
        p = Particles([place], 0.04 * np.eye(3))
        p.push(Capsule([0, -1, 0], [0, 1, 0], 0.5))
        moved = p.P[0, :3] - place
        assert moved @ [0, 1, 0] == pytest.approx(0, abs=1e-15)
        assert np.linalg.norm(moved) == pytest.approx(0.7)


def test_keys_against_scipy(rng):
    times = np.cumsum(rng.uniform(0.1, 1, 6))
    rotations, positions = Rotation.random(6, random_state=rng), rng.standard_normal((6, 3))
    quaternions = rotations.as_quat(scalar_first=True) * rng.choice([-3, 0.5, 2], 6)[:, None]
    motion = Motion(times, positions, quaternions)
    slerp = Slerp(times, rotations)
    for time in np.concatenate([times, rng.uniform(times[0], times[-1], 50)]):
        R, t = motion.at(time)
        np.testing.assert_allclose(R, slerp(time).as_matrix(), atol=1e-14)
        np.testing.assert_allclose(t, [np.interp(time, times, column) for column in positions.T], atol=1e-14)
    for time, k in ((times[0] - 5, 0), (times[-1] + 5, -1)):
        R, t = motion.at(time)
        np.testing.assert_allclose(R, rotations[k].as_matrix(), atol=1e-14)
        np.testing.assert_array_equal(t, positions[k])


def test_keys_that_hardly_turn():
    q = Rotation.from_rotvec([[0, 0, 0], [0, 0, 2e-12]]).as_quat(scalar_first=True)
    R, _ = Motion([0, 1], np.zeros((2, 3)), q).at(0.25)
    assert R[1, 0] == pytest.approx(5e-13, rel=1e-9)
    R, t = Motion([2.0], [[1, 2, 3]]).at(0)
    np.testing.assert_array_equal(R, np.eye(3))
    np.testing.assert_array_equal(t, [1, 2, 3])


def test_frames_tell_how_the_surface_moves(rng):
    motion = Motion(
        [0, 1], rng.standard_normal((2, 3)), Rotation.random(2, random_state=rng).as_quat(scalar_first=True)
    )
    p = Particles([[5.0, 5, 5]], np.eye(3))
    collider = Box([1, 2, 3], [0.1, 0.2, 0.3], turned(rng), motion=motion)
    ready = ready_collider(collider, 1)
    own = rng.standard_normal(3)
    for before, now in ((0.1, 0.4), (0.4, 0.9)):
        ready.prepare(p.P[:, :3].copy(), p.P, p.bounds, before, now)
        (R0, t0), (R1, t1) = motion.at(before), motion.at(now)
        there = R1 @ own + t1
        np.testing.assert_allclose(
            collider_displacement(ready.poses, *there), there - (R0 @ own + t0), atol=1e-13
        )


BOX = shapes.box((1, 1, 1), (1, 1, 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Plane([0, 0], [0, 1, 0]), r"point must have shape \(3,\), got \(2,\)"),
        (lambda: Plane([0, 0, np.nan], [0, 1, 0]), "point must be finite"),
        (lambda: Plane([0, 0, 0], [0, 0, 0]), "normal must not be zero"),
        (lambda: Ball([0, 0, 0], 0), "radius must be a finite number above 0, got 0"),
        (lambda: Ball([0, 0, 0], np.inf), "radius must be a finite number above 0, got inf"),
        (lambda: Ball([0, 0, 0], "1"), "radius must be a finite number above 0, got '1'"),
        (lambda: Ball(["a", "b", "c"], 1), "center must hold real numbers"),
        (lambda: Box([0, 0, 0], [1, 1, 0]), "half_extents must be positive"),
        (lambda: Box([0, 0, 0], [1, 1]), r"half_extents must have shape \(3,\)"),
        (
            lambda: Box([0, 0, 0], [1, 1, 1], 2 * np.eye(3)),
            r"rotation must be rotations, but R R\^T is off by 3",
        ),
        (lambda: Box([0, 0, 0], [1, 1, 1], -np.eye(3)), "rotation must be rotations, but it reflects"),
        (lambda: Box([0, 0, 0], [1, 1, 1], np.eye(2)), r"rotation must have shape \(3, 3\)"),
        (lambda: Capsule([0, 0, 0], [0, 0, 0, 0], 1), r"end must have shape \(3,\)"),
        (lambda: Capsule([0, 0, 0], [0, 0, 1], -1), "radius must be a finite number above 0, got -1"),
        (lambda: MeshCollider(np.zeros((0, 3)), np.zeros((0, 3), int)), "faces must have shape"),
        (lambda: MeshCollider(BOX[0][:, :2], BOX[1]), r"vertices must have shape \(n, 3\)"),
        (lambda: MeshCollider(BOX[0], BOX[1] + 1), "faces must index the 8 vertices, got 8"),
        (lambda: MeshCollider(BOX[0], BOX[1] - 1), "faces must index the 8 vertices, got -1"),
        (lambda: MeshCollider(BOX[0], BOX[1] + 0.5), "faces must hold whole numbers"),
        (lambda: MeshCollider(BOX[0] * [np.inf, 1, 1], BOX[1]), "vertices must be finite"),
        (lambda: MeshCollider(BOX[0] * [1, 0, 0], BOX[1]), "faces must hold a triangle of some area"),
        (lambda: MeshCollider(BOX[0], BOX[1][:, ::-1]), "got a mesh inside out"),
        (
            lambda: Ball([0, 0, 0], 1, friction=-0.5),
            "friction must be a finite number of at least 0, got -0.5",
        ),
        (
            lambda: Ball([0, 0, 0], 1, spin_friction=np.nan),
            "spin_friction must be a finite number of at least 0 and of at most 1, got nan",
        ),
        (lambda: Ball([0, 0, 0], 1, motion=3), "motion must be a Motion or a function, got int"),
        (lambda: Motion([], np.zeros((0, 3))), "times must be a list of at least one time"),
        (lambda: Motion([0, 1, 1], np.zeros((3, 3))), "times must increase, got 1.0 after 1.0 at index 2"),
        (lambda: Motion([0, 1], np.zeros((3, 3))), r"positions must have shape \(2, 3\)"),
        (lambda: Motion([0], [[0, 0, 0]], [[1, 0, 0]]), r"rotations must have shape \(1, 4\)"),
        (lambda: Motion([0], [[0, 0, 0]], [[0, 0, 0, 0]]), "rotations must not be zero"),
        (lambda: Motion([0], [[0, 0, 0]]).at(np.nan), "time must be a finite number, got nan"),
    ],
)
def test_wrong_input_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("motion", "message"),
    [
        (lambda time: np.eye(3), "motion must return a rotation"),
        (lambda time: (np.eye(3), [0, 0]), r"motion's translation must have shape \(3,\)"),
        (lambda time: (np.eye(3) + 1e-3, [0, 0, 0]), "motion's rotation must be rotations"),
        (lambda time: (np.full((3, 3), np.nan), [0, 0, 0]), "motion's rotation must be finite"),
    ],
)
def test_a_wrong_motion_is_named_when_it_is_used(motion, message):
    with pytest.raises(InputError, match=message):
        Particles([[0.0, 0, 0]], np.eye(3)).push(Ball([0, 0, 0], 1, motion=motion))
