import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import pointglue as pg
from pointglue.errors import InputError
from pointglue.geometry.cages import surface_cage
from pointglue.geometry.shapes import box
from pointglue.geometry.simplices import locate, tet_box, tet_surface


def volumes(points, tets):
    return np.linalg.det(points[tets[:, 1:]] - points[tets[:, :1]]) / 6


def pieces(points, tets):
    """How many parts, joined by points, the cage has."""
    ends = tets[:, [[0, 1], [0, 2], [0, 3]]].reshape(-1, 2).T
    return connected_components(coo_array((np.ones(ends.shape[1]), ends), shape=(len(points),) * 2))[0]


def euler(points, tets):
    """Points less edges plus triangles less tetrahedra: 1 for a ball, 0 for a ring."""
    count = len(points) - len(tets)
    for corners, sign in ((2, -1), (3, 1)):
        rows = np.array(
            [[i for i in range(4) if mask >> i & 1] for mask in range(16) if mask.bit_count() == corners]
        )
        count += sign * len(np.unique(np.sort(tets[:, rows].reshape(-1, corners), axis=1), axis=0))
    return count


def moved(shape, offset):
    return shape[0] + offset, shape[1]


def union(*shapes):
    firsts = np.cumsum([0, *(len(v) for v, _ in shapes)])
    return np.concatenate([v for v, _ in shapes]), np.concatenate(
        [f + k for (_, f), k in zip(shapes, firsts, strict=False)]
    )


def test_box_is_filled_exactly():
    # The faces of the box lie between cubes, and belong to those inside.
    points, tets = surface_cage(*box((1.0, 0.5, 0.75), (4, 2, 3)), 0.25)
    expected, cells = tet_box((1.0, 0.5, 0.75), (4, 2, 3))
    assert_allclose(points[np.lexsort(points.T)], expected[np.lexsort(expected.T)], atol=1e-15)
    assert len(tets) == len(cells)
    assert_allclose(volumes(points, tets), 0.25**3 / 6)


def test_ball_is_covered(rng):
    ball = trimesh.creation.icosphere(3)
    points, tets = surface_cage(ball.vertices, ball.faces, 0.3)
    assert volumes(points, tets).min() > 0
    assert pieces(points, tets) == 1
    assert euler(points, tets) == 1
    assert trimesh.Trimesh(points, tet_surface(tets), process=False).is_watertight
    on = ball.sample(2000, seed=1)
    within = rng.normal(size=(500, 3))
    within *= (rng.uniform(0, 1, 500) / np.linalg.norm(within, axis=1))[:, None]
    assert (locate(points, tets, on)[0] >= 0).all()
    assert (locate(points, tets, within)[0] >= 0).all()
    # All cubes are needed: each holds some of the surface or of the inside.
    middles = points[tets.reshape(-1, 24)].mean(1)
    assert (np.linalg.norm(middles, axis=1) < 1 + 0.3 * np.sqrt(3) / 2).all()


def test_large_triangles_are_covered_between_their_vertices():
    corners = np.array([[0.0, 0, 0], [7, 1, 2], [1, 6, 3]])
    points, tets = surface_cage(corners, [[0, 1, 2]], 0.5)
    weights = np.random.default_rng(1).dirichlet(np.ones(3), 3000)
    assert (locate(points, tets, weights @ corners)[0] >= 0).all()
    assert pieces(points, tets) == 1


def test_ring_keeps_its_hole():
    ring = trimesh.creation.torus(1.0, 0.3)
    assert euler(*surface_cage(ring.vertices, ring.faces, 0.2)) == 0
    assert euler(*surface_cage(ring.vertices, ring.faces, 3.0)) == 1  # one cube


def test_neighbours_apart_are_not_joined():
    # Two fingers, with the plane between two cubes in the gap: side by side, but no common points.
    fingers = union(
        moved(box((0.9, 0.9, 4), (1, 1, 1)), [-0.55, 0, 0]),
        moved(box((0.9, 0.9, 4), (1, 1, 1)), [0.55, 0, 0]),
    )
    points, tets = surface_cage(*fingers, 1.0)
    assert pieces(points, tets) == 2
    assert len(points) == 2 * 4 * 5
    assert pieces(*surface_cage(*fingers, 2.5)) == 1  # both in one cube
    # With a palm they hang together at its end only.
    palm = moved(box((2.0, 0.9, 0.9), (2, 1, 1)), [0, 0, -2.45])
    points, tets = surface_cage(*union(fingers, palm), 1.0)
    assert pieces(points, tets) == 1
    middle = points[np.abs(points[:, 0]) < 1e-9]
    assert len(np.unique(middle.round(9), axis=0)) < len(middle)
    inside = pg.embed((points, tets), fingers[0]).inside
    assert inside.all()


def test_what_is_left_open_is_not_filled():
    sphere = trimesh.creation.icosphere(3)
    bowl = sphere.faces[sphere.triangles_center[:, 2] < 0]
    points, tets = surface_cage(sphere.vertices, bowl, 0.2)
    assert locate(points, tets, [[0, 0, -0.4]])[0] == -1
    inner = 0.5 * sphere.vertices, sphere.faces[:, ::-1]
    points, tets = surface_cage(*union((sphere.vertices, sphere.faces), inner), 0.1)
    assert_array_equal(locate(points, tets, [[0, 0, 0], [0, 0, 0.75]])[0] >= 0, [False, True])
    # A bowl about a closed ball: only the ball is filled.
    small = trimesh.creation.icosphere(2, radius=0.3)
    points, tets = surface_cage(*union((sphere.vertices, bowl), (small.vertices, small.faces)), 0.1)
    assert_array_equal(locate(points, tets, [[0, 0, 0], [0, 0, -0.6]])[0] >= 0, [True, False])


def test_sheet_gets_one_layer():
    sheet = np.array([[0.0, 0, 0], [2, 0, 0], [2, 3, 0], [0, 3, 0]])
    points, tets = surface_cage(sheet, [[0, 1, 2], [0, 2, 3]], 0.5)
    assert len(tets) == 6 * 4 * 6
    assert_allclose(np.unique(points[:, 2]), [-0.25, 0.25])


def test_cage_carries_its_surface(rng):
    ball = trimesh.creation.icosphere(3)
    cage = surface_cage(ball.vertices, ball.faces, 0.4)
    bound = pg.embed(cage, ball.vertices)
    assert bound.inside.all()
    A = np.eye(3) + 0.2 * rng.normal(size=(3, 3))
    assert_allclose(bound.positions(cage[0] @ A.T), ball.vertices @ A.T, atol=1e-12)


def test_threads_agree():
    ball = trimesh.creation.icosphere(4)
    results = []
    for count in (1, 2):
        with pg.threads(count):
            results.append(surface_cage(ball.vertices, ball.faces, 0.11))
    for one, other in zip(*results, strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*box((1, 1, 1), (1, 1, 1)), 0.0), "cell must be a finite number above 0, got 0.0"),
        ((*box((1, 1, 1), (1, 1, 1)), np.nan), "cell must be a finite number above 0"),
        ((*box((1, 1, 1), (1, 1, 1)), "small"), "cell must be a finite number above 0, got 'small'"),
        (
            (*box((1, 1, 1), (1, 1, 1)), 1e-4),
            "cell must be larger: 0.0001 makes a box of 10000 x 10000 x 10000 cubes",
        ),
        ((*box((1, 1, 1), (1, 1, 1)), 1e-310), "cell must be larger"),
        ((np.eye(3), [[0, 1, 3]], 0.1), "faces must index the 3 vertices"),
        ((np.eye(3) * np.nan, [[0, 1, 2]], 0.1), "vertices must be finite"),
        ((np.eye(2), [[0, 1, 1]], 0.1), "faces must be triangles"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(InputError, match=message):
        surface_cage(*arguments)
