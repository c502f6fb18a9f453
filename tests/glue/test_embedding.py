"""Cages: barycentric inside, glue outside, and the linear binding that glue replaces."""

import os
from pathlib import Path

import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.transform import Rotation

import pointglue as pg
from pointglue.errors import InputError
from pointglue.geometry import simplices

MESHES = Path(os.environ.get("POINTGLUE_MESHES", Path(__file__).parents[3] / "shared" / "meshes"))


def bent(vertices, amount):
    """Every point turned about z in proportion to its x."""
    angle = amount * vertices[:, 0]
    c, s = np.cos(angle), np.sin(angle)
    return np.stack(
        [c * vertices[:, 0] - s * vertices[:, 1], s * vertices[:, 0] + c * vertices[:, 1], vertices[:, 2]],
        axis=1,
    )


@pytest.fixture
def cage():
    return simplices.tet_box((2.0, 1.0, 1.0), (6, 3, 3))


def test_inside_is_what_the_box_says(cage, rng):
    points = rng.uniform(-1.3, 1.3, (500, 3))
    embedding = pg.embed(cage, points)
    np.testing.assert_array_equal(embedding.inside, (np.abs(points) <= [1, 0.5, 0.5]).all(1))
    np.testing.assert_allclose(embedding.positions(cage[0]), points, atol=1e-14)


def test_inside_points_are_linear_and_outside_points_rigid(cage, rng):
    points = rng.uniform(-1.3, 1.3, (500, 3))
    embedding = pg.embed(cage, points)
    sheared = cage[0] @ np.array([[1.2, 0.1, 0], [0, 0.9, 0.2], [0.1, 0, 1.1]]).T
    moved = embedding.positions(sheared)
    inside = embedding.inside
    np.testing.assert_allclose(
        moved[inside], points[inside] @ np.array([[1.2, 0.1, 0], [0, 0.9, 0.2], [0.1, 0, 1.1]]).T, atol=1e-13
    )
    # Farther than the size of a cell (its longest edge is 0.58) from the cage, it is plain glue.
    far = (np.abs(points) - [1, 0.5, 0.5]).max(1) > 0.6
    plain = pg.bind_glue(cage[0], points[far], parents=24, falloff="smooth")
    assert far.sum() > 50
    np.testing.assert_allclose(moved[far], plain.positions(sheared), atol=1e-13)


def test_there_is_no_gap_at_the_surface_of_the_cage(cage, rng):
    """Points an epsilon inside and outside move alike, and those in between cells of the frame too."""
    inner = rng.uniform(-1, 1, (300, 3)) * [1, 0.5, 0.5]
    side = rng.integers(0, 3, 300)
    sign = rng.choice([-1.0, 1.0], 300)
    face = np.array([1, 0.5, 0.5])
    inner[np.arange(300), side] = sign * face[side] * (1 - 1e-7)
    outer = inner.copy()
    outer[np.arange(300), side] = sign * face[side] * (1 + 1e-7)
    embedding = pg.embed(cage, np.concatenate([inner, outer]))
    assert embedding.inside.tolist() == [True] * 300 + [False] * 300
    moved = embedding.positions(bent(cage[0], 0.8))
    np.testing.assert_allclose(moved[:300], moved[300:], atol=1e-5)


def test_there_is_no_tear_in_a_notch(rng):
    """An L of three cubes: points on both sides of the plane through its notch move alike."""
    cage = simplices.lattice_cage([[0.5, 0.5, 0.5], [1.5, 0.5, 0.5], [0.5, 1.5, 0.5]], 1.0)
    now = cage[0] + 0.2 * np.sin(2 * cage[0][:, [1, 2, 0]])
    for depth in (0.05, 0.3, 0.5, 0.9):
        middle = cage[0].min(0) + [1 + depth, 1 + depth, 0.5]
        moved = pg.embed(cage, [middle + [1e-9, 0, 0], middle + [0, 1e-9, 0]]).positions(now)
        assert np.linalg.norm(moved[0] - moved[1]) < 1e-7


def test_neighbours_outside_move_alike(cage, rng):
    """Along lines that pass by, and through the edges of, the cage."""
    for _ in range(5):
        start, end = rng.uniform(-1.6, 1.6, (2, 3))
        line = start + np.linspace(0, 1, 20001)[:, None] * (end - start)
        moved = pg.embed(cage, line).positions(bent(cage[0], 0.8))
        step = np.linalg.norm(np.diff(moved, axis=0), axis=1) / np.linalg.norm(np.diff(line, axis=0), axis=1)
        assert step.max() < 10  # a jump of a hundredth would be some hundreds


def test_doubled_cells_make_no_hole(cage):
    top = np.flatnonzero(cage[0][cage[1]][:, :, 1].mean(1) > 0.4)
    doubled = np.concatenate([cage[1], cage[1][top]])
    points = [[0.31, 0.5 - 3e-9, 0.07], [0.31, 0.5 + 3e-9, 0.07]]
    moved = pg.embed((cage[0], doubled), points).positions(bent(cage[0], 0.5))
    assert np.linalg.norm(moved[0] - moved[1]) < 1e-7
    assert len(simplices.tet_surface(doubled)) == len(simplices.tet_surface(cage[1]))


def test_a_face_of_no_size(cage):
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    embedding = pg.embed((vertices, [[0, 1, 2], [3, 3, 3]]), [[0, 0, 1.0], [0.1, 0.1, 0.9]], parents=4)
    np.testing.assert_allclose(embedding.positions(vertices), embedding.targets, atol=1e-12)


def test_poses_do_not_follow_the_array_they_were_made_of(cage, rng):
    targets, x = rng.uniform(-1.3, 1.3, (20, 3)), bent(cage[0], 0.5)
    for binding in (pg.embed(cage, targets), pg.bind_linear(cage[0], targets, cage[1][:20])):
        stepped = x.copy()
        pose = binding.at(stepped)
        stepped += 1.0
        np.testing.assert_array_equal(pose.positions, binding.positions(x))


@pytest.mark.parametrize("inside_only", [True, False])
def test_many_poses_of_embeddings_and_linear_bindings(cage, rng, inside_only):
    targets = rng.uniform(-1, 1, (30, 3)) * ([1, 0.5, 0.5] if inside_only else 1.4)
    x = np.stack([bent(cage[0], 0.3), bent(cage[0], 0.6)])
    v, f = rng.standard_normal(cage[0].shape), rng.standard_normal((30, 3))
    for binding in (pg.embed(cage, targets), pg.bind_linear(cage[0], targets, cage[1][:30])):
        pose = binding.at(x)
        for k in range(2):
            np.testing.assert_array_equal(pose.velocities(v)[k], binding.velocities(x[k], v))
            np.testing.assert_array_equal(pose.accelerations(v, v)[k], binding.accelerations(x[k], v, v))
            np.testing.assert_array_equal(pose.transfer_forces(f)[k], binding.transfer_forces(x[k], f))
        with pytest.raises(InputError, match="x must be one pose for a matrix"):
            pose.jacobian()
        with pytest.raises(InputError, match="x must be one pose for a matrix"):
            pose.hessian(f)
        with pytest.raises(InputError, match=r"f must be for the poses \(2,\) of x"):
            pose.transfer_forces(np.zeros((5, 30, 3)))


def test_points_on_faces_edges_and_corners_are_inside(cage):
    vertices, tets = cage
    corners = vertices[tets]
    points = np.concatenate([vertices, corners[:, :2].mean(1), corners[:, :3].mean(1), corners.mean(1)])
    assert pg.embed(cage, points).inside.all()


def test_derivatives_are_those_of_both_parts(cage, rng):
    points = rng.uniform(-1.3, 1.3, (80, 3))
    embedding = pg.embed(cage, points)
    x = bent(cage[0], 0.6)
    v, a, f, h = (
        rng.standard_normal(x.shape),
        rng.standard_normal(x.shape),
        rng.standard_normal((80, 3)),
        1e-5,
    )
    pose = embedding.at(x)
    difference = (embedding.positions(x + h * v) - embedding.positions(x - h * v)) / (2 * h)
    np.testing.assert_allclose(pose.velocities(v), difference, atol=1e-8)
    np.testing.assert_allclose(pose.jacobian() @ v.ravel(), pose.velocities(v).ravel(), atol=1e-13)
    np.testing.assert_allclose(pose.jacobian().T @ f.ravel(), pose.transfer_forces(f).ravel(), atol=1e-12)
    slope = (embedding.transfer_forces(x + h * v, f) - embedding.transfer_forces(x - h * v, f)) / (2 * h)
    np.testing.assert_allclose((pose.hessian(f) @ v.ravel()).reshape(x.shape), slope, atol=1e-6)
    change = (embedding.velocities(x + h * v, v) - embedding.velocities(x - h * v, v)) / (2 * h)
    np.testing.assert_allclose(pose.accelerations(v, a), pose.velocities(a) + change, atol=1e-6)
    largest = [np.linalg.norm(block, 2) for block in pose.blocks]
    np.testing.assert_allclose(pose.reach, largest, atol=1e-13)
    assert (pose.effective_mass(np.ones(len(x))) > 0).all()


def test_net_force_and_torque_arrive(cage, rng):
    points = rng.uniform(-1.3, 1.3, (80, 3))
    embedding = pg.embed(cage, points)
    x, f = bent(cage[0], 0.6), rng.standard_normal((80, 3))
    pose = embedding.at(x)
    on_cage = pose.transfer_forces(f)
    np.testing.assert_allclose(on_cage.sum(0), f.sum(0), atol=1e-12)
    np.testing.assert_allclose(np.cross(x, on_cage).sum(0), np.cross(pose.positions, f).sum(0), atol=1e-12)


def test_some_points_alone_and_many_poses(cage, rng):
    points = rng.uniform(-1.3, 1.3, (50, 3))
    embedding = pg.embed(cage, points)
    x = np.stack([bent(cage[0], 0.3), bent(cage[0], 0.6)])
    rows = [49, 0, 3, 3]
    np.testing.assert_array_equal(embedding.take(rows).positions(x), embedding.positions(x)[:, rows])
    np.testing.assert_array_equal(embedding.take(rows).inside, embedding.inside[rows])
    np.testing.assert_array_equal(embedding.positions(x)[1], embedding.positions(x[1]))
    np.testing.assert_array_equal(embedding.velocities(x, x)[0], embedding.velocities(x[0], x[0]))
    previous = embedding.at(x[0]).rotations
    np.testing.assert_array_equal(embedding.at(x[1], previous=previous).positions, embedding.positions(x[1]))


def test_bindings_do_not_move_with_the_arrays_they_were_made_of(cage, rng):
    """An engine hands out views of its own state."""
    rest, targets = cage[0].copy(), rng.uniform(-1.3, 1.3, (20, 3))
    tets = cage[1][:20]
    bindings = [
        pg.bind_glue(rest, targets),
        pg.embed((rest, cage[1]), targets),
        pg.bind_linear(rest, targets, tets),
        pg.bind_linear(rest, targets, tets, weights=np.full((20, 4), 0.25)),
    ]
    x = bent(cage[0], 0.5)
    before = [(binding.positions(x), binding.at(x).rotations) for binding in bindings]
    rest += 1.0
    targets *= 2.0
    for binding, (positions, rotations) in zip(bindings, before, strict=True):
        np.testing.assert_array_equal(binding.positions(x), positions)
        np.testing.assert_array_equal(binding.at(x).rotations, rotations)


def test_triangles_in_the_plane(rng):
    grid = np.stack(np.meshgrid([0.0, 1.0, 2.0], [0.0, 1.0]), axis=-1).reshape(-1, 2)
    cells = np.array([[0, 1, 4], [0, 4, 3], [1, 2, 5], [1, 5, 4]])
    points = rng.uniform(-0.5, 2.5, (200, 2))
    embedding = pg.embed((grid, cells), points, parents=4)
    np.testing.assert_array_equal(embedding.inside, ((points >= 0) & (points <= [2, 1])).all(1))
    stretched = grid * [1.5, 1.0]
    inside = embedding.inside
    np.testing.assert_allclose(
        embedding.positions(stretched)[inside], points[inside] * [1.5, 1.0], atol=1e-14
    )


def test_triangles_in_space_hold_points_on_the_surface(rng):
    grid = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0.5], [0, 1, 0.5], [2, 0, 0], [2, 1, 0.5]])
    cells = np.array([[0, 1, 2], [0, 2, 3], [1, 4, 5], [1, 5, 2]])
    uv = rng.uniform(-0.2, 1.2, (300, 2)) * [2, 1]
    on_plane = np.stack([uv[:, 0], uv[:, 1], 0.5 * uv[:, 1]], axis=1)
    raised = on_plane + [0, 0, 0.01]
    embedding = pg.embed((grid, cells), np.concatenate([on_plane, raised]), parents=6)
    np.testing.assert_array_equal(embedding.inside[:300], ((uv >= 0) & (uv <= [2, 1])).all(1))
    assert not embedding.inside[300:].any()


def test_flat_cells_hold_nothing():
    flat = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0.3, 0.3, 1]])
    found, _ = simplices.locate(flat, [[0, 1, 2, 3], [0, 1, 2, 4]], [[0.8, 0.8, 0.0], [0.2, 0.2, 0.1]])
    assert found.tolist() == [-1, 1]


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_points_are_found_in_cells_of_any_size(size, rng):
    """The grid of the search is as fine as the cells; all others in these tests are smaller than a metre."""
    points, tets = simplices.tet_box((2.0, 1.0, 1.0), (6, 3, 3))
    shares = rng.dirichlet(np.ones(4), len(tets))
    inside = np.einsum("ij,ijk->ik", shares, points[tets])
    found, weights = simplices.locate(size * points, tets, size * inside)
    np.testing.assert_array_equal(found, np.arange(len(tets)))
    np.testing.assert_allclose(weights, shares, atol=1e-12)


def test_locate_by_brute_force(rng):
    vertices = rng.random((40, 3))
    tets = np.stack([rng.choice(40, 4, replace=False) for _ in range(60)])
    points = rng.random((400, 3))
    found, weights = simplices.locate(vertices, tets, points)
    solved = np.linalg.solve(
        np.swapaxes(np.concatenate([vertices[tets], np.ones((60, 4, 1))], axis=2), 1, 2)[None],
        np.concatenate([points, np.ones((400, 1))], axis=1)[:, None, :, None],
    )[..., 0]
    least = solved.min(2)
    np.testing.assert_array_equal(found >= 0, (least >= 0).any(1))
    hit = found >= 0
    np.testing.assert_array_equal(found[hit], least[hit].argmax(1))  # the cell it is deepest in
    np.testing.assert_allclose(np.einsum("nk,nkd->nd", weights[hit], vertices[tets[found[hit]]]), points[hit])
    assert (weights >= 0).all()


def test_lattice_cage_holds_its_points(rng):
    points = rng.standard_normal((300, 3))
    vertices, tets = simplices.lattice_cage(points, 0.4)
    assert (simplices.locate(vertices, tets, points)[0] >= 0).all()
    volume = np.linalg.det(vertices[tets[:, 1:]] - vertices[tets[:, :1]]) / 6
    np.testing.assert_allclose(volume, 0.4**3 / 6)
    faces = simplices.tet_surface(tets)
    assert trimesh.Trimesh(vertices, faces, process=False).volume == pytest.approx(volume.sum())
    fewer = simplices.lattice_cage(points, 0.4, least=3)
    assert 0 < len(fewer[1]) < len(tets)
    assert not pg.embed(fewer, points).inside.all()


def test_box_of_tets_is_solid():
    vertices, tets = simplices.tet_box((2.0, 1.0, 0.5), (3, 2, 2))
    assert len(tets) == 6 * 12
    surface = trimesh.Trimesh(vertices, simplices.tet_surface(tets), process=False)
    assert surface.is_watertight
    assert surface.volume == pytest.approx(1.0)


def test_negative_weights_reach_as_far_as_positive_ones():
    corners = np.concatenate([np.zeros((1, 3)), np.eye(3)])
    linear = pg.bind_linear(corners, [[2.0, 0, 0]], [[0, 1, 2, 3]])
    assert linear.weights.tolist() == [-1, 2, 0, 0]
    assert linear.at(corners).reach.tolist() == [1, 2, 0, 0]
    # One spring: 2 sqrt(effective mass / stiffness).
    (step,), (mass,) = linear.time_step(corners, np.ones(4), 3.0), linear.effective_mass(corners, np.ones(4))
    assert step == pytest.approx(2 * np.sqrt(mass / 3.0))


@pytest.mark.skipif(not (MESHES / "horse.ply").exists(), reason="needs the mesh horse.ply")
def test_horse_in_a_cage_that_does_not_contain_it():
    horse = np.asarray(trimesh.load(MESHES / "horse.ply", process=False).vertices)
    size = np.ptp(horse, axis=0).max()
    # Cubes with few vertices are left out: ears, hooves and tail stick out of the cage.
    cage = simplices.lattice_cage(horse, 0.08 * size, least=60)
    embedding = pg.embed(cage, horse)
    assert 0.9 < embedding.inside.mean() < 0.99
    (_, inner), (_, outer) = embedding.parts
    for weights in (inner.weights, outer.weights, outer.anchor):
        assert weights.min() >= 0
    np.testing.assert_allclose(embedding.positions(cage[0]), horse, atol=1e-12 * size)
    # The classical way, weights in the nearest cell, has negative ones there.
    outside = horse[~embedding.inside]
    centres = cage[0][cage[1]].mean(1)
    nearest = np.linalg.norm(outside[:, None] - centres, axis=2).argmin(1)
    assert pg.bind_linear(cage[0], outside, cage[1][nearest]).weights.min() < -0.1


BAD_CAGES = [
    (np.eye(3), "cage must be a pair"),
    (None, "cage must be a pair"),
    ((np.eye(3), [[0, 1, 5]]), "cells must index the 3 vertices, got numbers from 0 to 5"),
    ((np.zeros((4, 3)), [[0, 1, 2, 3]]), "cells must have a size"),
    ((np.eye(3), [[0, 1], [2]]), "cells must be an array of numbers"),
    ((np.eye(3), [[0, 1]]), r"cells must have shape \(m, 8\), \(m, 4\) or \(m, 3\)"),
    ((np.eye(3), [[0.5, 1, 2]]), "cells must hold whole numbers"),
    ((np.full((3, 3), np.nan), [[0, 1, 2]]), "vertices must be finite"),
    ((np.zeros((3, 4)), [[0, 1, 2]]), r"vertices must have shape \(n, 3\) or \(n, 2\)"),
]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": -1}, "tolerance must be a finite number of at least 0 and of at most 0.1, got -1"),
        ({"tolerance": float("nan")}, "tolerance must be a finite number"),
        ({"tolerance": None}, "tolerance must be a finite number"),
        ({"tolerance": 1e3}, "tolerance must be a finite number of at least 0 and of at most 0.1"),
        ({"on_degenerate": "foo"}, 'on_degenerate must be "raise" or "clamp", got \'foo\''),
        ({"min_gap": -1}, "min_gap must be"),
        ({"parents": "x"}, "parents must be a whole number of at least 3, got 'x'"),
    ],
)
def test_bad_options_are_named(cage, options, message):
    with pytest.raises(InputError, match=message):
        pg.embed(cage, [[0.0, 0, 0]], **options)


@pytest.mark.parametrize(("cage", "message"), BAD_CAGES)
def test_bad_cages_are_named(cage, message):
    with pytest.raises(InputError, match=message):
        pg.embed(cage, [[0.0, 0, 0]])


def test_bad_points_are_named(cage):
    for points, message in [
        ([[0, 0]], r"points must have shape \(n, 3\)"),
        ([[0, np.nan, 0]], "points must be finite"),
        (np.empty((0, 3)), "points must hold at least one"),
    ]:
        with pytest.raises(InputError, match=message):
            pg.embed(cage, points)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: simplices.tet_box((1, 1), (1, 1, 1)), "size must be three positive lengths"),
        (lambda: simplices.tet_box((1, 1, 1), (1, 0, 1)), "cells must be three whole numbers"),
        (lambda: simplices.lattice_cage(np.eye(3), 0.0), "spacing must be a finite number above 0"),
        (lambda: simplices.lattice_cage(np.eye(3), None), "spacing must be a finite number above 0"),
        (lambda: simplices.lattice_cage(np.eye(3), 1e-300), "less than a millionth of the points' size"),
        (lambda: simplices.lattice_cage(np.eye(3), 1.0, least=None), "least must be a whole number"),
        (lambda: simplices.lattice_cage(np.eye(3), 1.0, least=9), "least must be at most"),
        (lambda: simplices.lattice_cage(np.empty((0, 3)), 1.0), r"points must have shape \(n, 3\)"),
        (lambda: simplices.tet_surface([[0, 1, 2]]), r"tets must be whole numbers of shape \(m, 4\)"),
    ],
)
def test_bad_shapes_are_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_linear_binding_is_the_weighted_sum(rng):
    rest, targets = rng.random((4, 3)), 2 * rng.random((5, 3))
    linear = pg.bind_linear(rest, targets, np.tile([0, 1, 2, 3], (5, 1)))
    x = rng.random((4, 3))
    affine = np.linalg.lstsq(np.c_[rest, np.ones(4)], x, rcond=None)[0]
    np.testing.assert_allclose(linear.positions(x), np.c_[targets, np.ones(5)] @ affine, atol=1e-12)
    np.testing.assert_allclose(linear.weights.reshape(5, 4).sum(1), 1)
    assert not linear.at(x).degenerate.any()
    assert abs(linear.hessian(x, targets)).sum() == 0
    given = pg.bind_linear(rest, targets[:1], [[2, 0]], weights=[[1.5, -0.5]])
    np.testing.assert_allclose(given.positions(x), [1.5 * x[2] - 0.5 * x[0]])
    np.testing.assert_allclose(given.at(rest).rotations, np.eye(3)[None], atol=1e-7)  # clamped


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.eye(3), [[0, 0, 0]], [[0, 1, 3]]), "cells must index the 3 vertices"),
        ((np.eye(3), [[0, 0, 0]], [[0, 1, 2], [0, 1, 2]]), "targets and indices must go together"),
        ((np.zeros((4, 3)), [[0, 0, 0]], [[0, 1, 2, 3]]), "target 0 has no coordinates: its parents"),
        ((np.eye(3), [0, 0, 0], [[0, 1, 2]]), "targets must have shape"),
    ],
)
def test_bad_linear_bindings_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        pg.bind_linear(*arguments)


@pytest.mark.parametrize(
    ("indices", "weights", "message"),
    [
        ([[0, 1]], [[1.0, 1.0]], "weights must sum to one"),
        ([[0, 1]], [[1.0]], r"must have shape \(1, k\)"),
        ([[0, 9]], [[0.5, 0.5]], "indices must name rows of the 3 rest_points, got 9"),
        ([[1, 1]], [[0.5, 0.5]], "must not name a parent twice"),
        ([[0, 1]], [[np.nan, 1.0]], "weights must be finite"),
    ],
)
def test_bad_linear_weights_are_named(indices, weights, message):
    with pytest.raises(InputError, match=message):
        pg.bind_linear(np.eye(3), [[0, 0, 0]], indices, weights=weights)


def test_points_about_a_cage_of_hexahedra_follow_it(rng):
    """Inside by trilinear weights, outside by glue that joins on at the surface, as with tetrahedra."""
    cage = simplices.hex_box((2.0, 1.0, 1.0), (6, 3, 3))
    points = rng.uniform(-1.3, 1.3, (300, 3)) * [1.0, 0.5, 0.5]
    bound = pg.embed(cage, points)
    assert_array_equal(bound.inside, (np.abs(points) <= [1.0, 0.5, 0.5]).all(1))
    assert 50 < bound.inside.sum() < 250
    turn = Rotation.random(rng=rng).as_matrix()
    assert_allclose(bound.positions(cage[0] @ turn.T + 3.0), points @ turn.T + 3.0, atol=1e-11)
    assert bound.at(cage[0]).reach.min() >= 0
