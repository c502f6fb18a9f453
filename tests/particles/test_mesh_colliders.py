"""Ellipsoids against triangle meshes: solids and sheets, and nothing passes through."""

import numpy as np
import pytest
from particles.overlapping import CUBE, Particles, check_touch, hull_gap, shape, sheet, star, turned

from pointglue.geometry import shapes
from pointglue.particles import Box, MeshCollider, Motion
from pointglue.particles.colliders.mesh import ready_collider


@pytest.mark.parametrize("cells", [(1, 1, 1), (3, 2, 4)])
def test_a_mesh_of_a_box_is_a_box(rng, cells):
    size, R = np.array([1.0, 0.6, 1.4]), turned(rng)
    vertices, faces = shapes.box(tuple(size), cells)
    mesh, box = MeshCollider(vertices @ R.T, faces), Box([0, 0, 0], size / 2, R)
    assert mesh.closed
    x = rng.uniform(-1, 1, (600, 3))
    outside = (np.abs(x @ R) > size / 2).any(1)
    x = x[outside]
    C = [shape(rng, 3, 0.4) for _ in x]
    p, q = Particles(x, C), Particles(x, C)
    p.push(mesh)
    q.push(box)
    assert (q.depths > 0).sum() > 100
    np.testing.assert_allclose(p.P, q.P, atol=1e-12)
    np.testing.assert_allclose(p.depths, q.depths, atol=1e-12)
    np.testing.assert_allclose(p.normals, q.normals, atol=1e-9)


@pytest.mark.parametrize("aspect", [1.0, 10.0, 300.0])
def test_a_triangle_pushes_exactly_when_it_overlaps(rng, aspect):
    for _ in range(30):
        corners = rng.standard_normal((3, 3))
        corners -= corners.mean(0)
        C, way = shape(rng, aspect), rng.standard_normal(3)
        gap = lambda x, C=C, corners=corners: max(hull_gap(corners, x, C), 1e-9)  # noqa: E731
        check_touch(MeshCollider(corners, [[0, 1, 2]]), gap, way, C)


def test_out_of_a_sheet_to_the_side_of_the_centre(rng):
    vertices, faces = sheet()
    x = np.column_stack(
        [rng.uniform(-0.5, 0.5, 300), rng.uniform(-0.4, 0.4, 300), rng.uniform(-0.5, 0.5, 300)]
    )
    p = Particles(x, [shape(rng, 4, 0.3) for _ in x])
    p.push(MeshCollider(vertices, faces))
    assert (np.sign(p.P[:, 1]) == np.sign(x[:, 1])).all()
    support = np.sqrt(p.G[:, 1, 1])
    np.testing.assert_allclose(np.abs(p.P[:, 1]), np.maximum(np.abs(x[:, 1]), support), rtol=1e-12)
    np.testing.assert_allclose(p.P[:, [0, 2]], x[:, [0, 2]], atol=1e-15)  # not sideways at inner edges


def test_the_wall_beside_a_long_ellipsoid_counts():
    """The floor is nearer to its centre, but the wall is what it runs into."""
    vertices = np.array(
        [[-3.0, 0, -3], [-3, 0, 3], [3, 0, 3], [3, 0, -3], [1, -3, -3], [1, -3, 3], [1, 3, 3], [1, 3, -3]]
    )
    faces = [[0, 1, 2], [0, 2, 3], [4, 5, 6], [4, 6, 7]]
    p = Particles([[0.2, 0.11, 0]], np.diag([1.0, 0.1, 0.1]) ** 2)
    p.push(MeshCollider(vertices, faces))
    np.testing.assert_allclose(p.P[0, :3], [0, 0.11, 0], atol=1e-14)
    np.testing.assert_allclose(p.normals[0], [-1, 0, 0], atol=1e-14)


def inside_star(x):
    """In the octahedron, or in the spike of its octant: linear coordinates of it are positive."""
    a = np.abs(x)
    # Corners 0.3 e_i and the tip (1, 1, 1): x = 0.3 w + t (1, 1, 1), sum w + t = 1, w >= 0.
    t = (a.sum(1) / 0.3 - 1) / (3 / 0.3 - 1)
    return (a.sum(1) <= 0.3) | ((t >= 0) & (a >= t[:, None]).all(1))


def test_inside_and_outside_of_sharp_corners(rng):
    mesh = MeshCollider(*star())
    assert mesh.closed
    x = np.concatenate(
        [
            rng.uniform(-1.2, 1.2, (3000, 3)),
            0.02 * rng.standard_normal((1000, 3)) + CUBE[5],
            0.02 * rng.standard_normal((1000, 3)) + [0, 0.3, 0],
        ]
    )
    p = Particles(x, 1e-12 * np.eye(3))
    p.push(mesh)
    inside = inside_star(x)
    assert 200 < inside.sum() < 4000
    np.testing.assert_array_equal(p.depths > 1e-5, inside)
    assert not inside_star(p.P[:, :3]).any()


def test_corners_weigh_their_triangles_by_angle(rng):
    """One side of a needle is cut into many triangles that meet in the tip: it counts no more than before."""
    a, b, c, tip = np.array([[0.1, 0, 0], [-0.1, 0, 0.1], [-0.1, 0, -0.1], [0, 1, 0]])
    s = np.linspace(0, 1, 41)[:, None]
    vertices = np.concatenate([[tip, c], (1 - s) * a + s * b])
    k = np.arange(2, 42)
    many, ends = np.stack([0 * k, k + 1, k], 1), [[0, 2, 1], [0, 1, 42]]
    base = np.stack([0 * k + 1, k, k + 1], 1)
    mesh = MeshCollider(vertices, np.concatenate([many, ends, base]))
    assert mesh.closed
    x = tip + rng.standard_normal((2000, 3)) * [0.03, 0.3, 0.03]
    p = Particles(x, 1e-12 * np.eye(3))
    p.push(mesh)
    weights = np.linalg.solve(
        np.vstack([np.stack([a, b, c, tip], 1), np.ones(4)]), np.vstack([x.T, np.ones(len(x))])
    )
    inside = (weights > 0).all(0)
    assert inside.sum() > 10
    np.testing.assert_array_equal(p.depths > 1e-5, inside)


THIN = (2.0, 0.01, 2.0)


@pytest.mark.parametrize(
    "collider",
    [MeshCollider(*sheet()), MeshCollider(*shapes.box(THIN, (4, 1, 4))), Box([0, 0, 0], [1, 0.005, 1])],
    ids=["sheet", "closed mesh", "box"],
)
@pytest.mark.parametrize("how", ["predicted", "dragged"])
def test_nothing_passes_through_what_is_thin(rng, collider, how):
    """Neither by its speed nor by what other constraints do to it; exactly through seams as well."""
    start = np.column_stack(
        [rng.uniform(-0.5, 0.5, 400), rng.uniform(0.05, 2, 400), rng.uniform(-0.5, 0.5, 400)]
    )
    start[:100, [0, 2]] = np.round(3 * start[:100, [0, 2]]) / 3  # above corners of triangles
    start[100:200, 0] = start[100:200, 2]  # above diagonals
    start[::2, 1] *= -1
    if how == "dragged":
        start[:, 1] = np.sign(start[:, 1]) * 0.05
    end = start * [1, -rng.uniform(0.01, 1), 1]
    p = Particles(start if how == "dragged" else end, [shape(rng, 3, 0.04) for _ in start])
    ready = ready_collider(collider, len(start))
    ready.prepare(start, p.P, p.bounds, 0.0, 0.0)
    p.P[:, :3] = end
    for _ in range(2):
        ready.resolve(p.ellipsoids, p.contacts)
    top = 0.0 if isinstance(collider, MeshCollider) and not collider.closed else 0.005
    height = p.P[:, 1] * np.sign(start[:, 1])
    np.testing.assert_allclose(height, top + np.sqrt(p.G[:, 1, 1]), rtol=1e-9)
    np.testing.assert_allclose(p.P[:, [0, 2]], end[:, [0, 2]], atol=1e-12)


def test_nothing_leaves_a_closed_room(rng):
    """A box with one face twice is not a solid but a sheet all around, with corners to be squeezed into."""
    vertices, faces = shapes.box((2, 2, 2), (2, 3, 2))
    room = MeshCollider(vertices, np.concatenate([faces, faces[:1]]))
    assert not room.closed
    p = Particles(rng.uniform(-0.5, 0.5, (100, 3)), [shape(rng, 3, 0.2) for _ in range(100)])
    ready = ready_collider(room, 100)
    for _ in range(30):
        start = p.P[:, :3].copy()
        p.P[:, :3] += rng.standard_normal((100, 3))
        ready.prepare(start, p.P, p.bounds, 0.0, 0.0)
        for _ in range(3):
            p.P[:, :3] += 0.1 * rng.standard_normal((100, 3))  # as other constraints would
            ready.resolve(p.ellipsoids, p.contacts)
        assert (np.abs(p.P[:, :3]) < 1).all()
        extent = np.sqrt(np.diagonal(p.G, axis1=1, axis2=2))
        assert (np.abs(p.P[:, :3]) + extent < 1 + 1e-9).all()
    assert (p.depths > 0).all()


def test_between_two_sheets_too_close_for_it():
    """There is no place without overlap: it may overlap, but not be on the other side."""
    vertices, faces = sheet()
    count = len(vertices)
    both = np.concatenate([vertices, vertices + [0, 0.1, 0]])
    p = Particles([[0.1, 0.04, 0.1], [0.1, 0.5, 0.1]], 0.09 * np.eye(3))
    p.push(MeshCollider(both, np.concatenate([faces, faces + count])), [[0.1, 0.05, 0.1]] * 2)
    assert ((p.P[:, 1] > 0) & (p.P[:, 1] < 0.1)).all()


def test_a_moving_sheet_takes_along_what_it_sweeps_over():
    motion = Motion([0, 1], [[0, -1, 0], [0, 1, 0]])
    p = Particles([[0.1, 0.3, 0.2]], 0.01 * np.eye(3))
    p.push(MeshCollider(*sheet(), motion=motion), times=(0.0, 1.0))
    np.testing.assert_allclose(p.P[0, :3], [0.1, 1.1, 0.2], atol=1e-14)
    np.testing.assert_allclose(p.normals[0], [0, 1, 0], atol=1e-15)


def test_a_mesh_remembers_and_is_still_right(rng):
    """Over many substeps, one that remembers distances and fresh ones agree."""
    collider = MeshCollider(*star())
    p = Particles(rng.uniform(-2, 2, (200, 3)), 0.01 * np.eye(3))
    ready = ready_collider(collider, 200)
    pushes = 0
    for _ in range(40):
        start = p.P[:, :3].copy()
        p.P[:, :3] += 0.1 * rng.standard_normal((200, 3))
        fresh = Particles(p.P[:, :3], p.C)
        fresh.push(collider, start)
        ready.prepare(start, p.P, p.bounds, 0.0, 0.0)
        p.depths[:] = 0
        ready.resolve(p.ellipsoids, p.contacts)
        np.testing.assert_array_equal(p.P, fresh.P)
        pushes += (p.depths > 0).sum()
    assert pushes > 100


def test_where_it_came_from_decides_on_a_triangle():
    for side in (-1, 1):
        p = Particles([[0.1, 0, 0.2]], 0.04 * np.eye(3))
        p.push(MeshCollider(*sheet()), [[0.1, side, 0.2]])
        np.testing.assert_allclose(p.P[0, :3], [0.1, 0.2 * side, 0.2], atol=1e-14)


def test_flat_triangles_are_left_out_and_seams_are_joined():
    vertices, faces = shapes.box((1, 1, 1), (2, 2, 2))
    loose = vertices[faces].reshape(-1, 3)
    parts = np.arange(len(loose)).reshape(-1, 3)
    mesh = MeshCollider(loose, np.concatenate([parts, [[0, 0, 1]]]))
    assert mesh.closed
    assert not MeshCollider(vertices, faces[1:]).closed
    assert not MeshCollider(vertices, np.concatenate([faces, faces[:1, ::-1]])).closed
    p = Particles([[0.1, 0.2, 0.3]], 0.01 * np.eye(3))
    p.push(mesh)
    np.testing.assert_allclose(p.P[0, :3], [0.1, 0.2, 0.6], atol=1e-14)
