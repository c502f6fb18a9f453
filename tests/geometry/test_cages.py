import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

import pointglue as pg
from pointglue.errors import InputError
from pointglue.geometry.cages import coarse_surface, hex_cage, surface_cage
from pointglue.geometry.shapes import box
from pointglue.geometry.simplices import CUBE_CORNERS, hex_box, locate, tet_box, tet_surface


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


def hexahedra_volumes(cage):
    corners = cage.points[cage.hexahedra]
    return np.prod(corners[:, 6] - corners[:, 0], axis=1)


class TestHexCage:
    @pytest.mark.parametrize("cell", [0.11, 0.3, 0.7, 5.0])
    def test_cells_are_as_full_as_the_ball(self, cell):
        ball = trimesh.creation.icosphere(4)
        cage = hex_cage(ball.vertices, ball.faces, cell)
        volumes = hexahedra_volumes(cage)
        # Sixteen lines a cell: the error is less the more cells there are.
        assert_allclose(cage.fill @ volumes, ball.volume, rtol=0.04 if cell > 0.5 else 0.01)
        assert cage.fill.min() > 0
        assert cage.fill.max() <= 1
        inner = (np.linalg.norm(cage.points[cage.hexahedra], axis=2) < 0.99).all(1)
        assert_array_equal(cage.fill[inner], 1.0)
        # However large cells may be, they fit.
        assert_allclose(np.ptp(cage.points, axis=0), np.ptp(ball.vertices, axis=0), rtol=1e-12)

    def test_a_thin_plate_has_thin_cells(self):
        cage = hex_cage(*box((1.0, 0.02, 1.0), (1, 1, 1)), 0.25)
        assert len(cage.hexahedra) == 16
        assert_allclose(np.ptp(cage.points, axis=0), [1.0, 0.02, 1.0], rtol=1e-12)
        assert_allclose(cage.fill, 1.0, rtol=1e-12)

    def test_hollow_inverted_and_open(self):
        ball, small = trimesh.creation.icosphere(3), trimesh.creation.icosphere(3, radius=0.6)
        shell = union((ball.vertices, ball.faces), (small.vertices, small.faces[:, ::-1]))
        cage = hex_cage(*shell, 0.2)
        assert_allclose(cage.fill @ hexahedra_volumes(cage), ball.volume - small.volume, rtol=0.03)
        inverted = hex_cage(ball.vertices, ball.faces[:, ::-1], 0.2)
        assert_allclose(inverted.fill @ hexahedra_volumes(inverted), ball.volume, rtol=0.02)
        # A small hole, which the lines through it show: they do not count.
        punctured = hex_cage(ball.vertices, ball.faces[1:], 0.2)
        assert_allclose(punctured.fill @ hexahedra_volumes(punctured), ball.volume, rtol=0.03)
        # A sheet has no inside: its cells count as full.
        sheet = np.array([[0.0, 0, 0], [2, 0, 0], [2, 3, 0], [0, 3, 0]])
        assert_array_equal(hex_cage(sheet, [[0, 1, 2], [0, 2, 3]], 0.5).fill, 1.0)

    def test_the_tetrahedra_are_those_of_the_cells(self):
        ball = trimesh.creation.icosphere(3)
        cage = hex_cage(ball.vertices, ball.faces, 0.4)
        points, tets = surface_cage(ball.vertices, ball.faces, 0.4)
        assert_array_equal(points, cage.points)
        assert_allclose(volumes(points, tets).reshape(-1, 6).sum(1), hexahedra_volumes(cage), rtol=1e-12)

    def test_carries_its_surface(self, rng):
        ball = trimesh.creation.icosphere(3)
        cage = hex_cage(ball.vertices, ball.faces, 0.4)
        bound = pg.embed((cage.points, cage.hexahedra), ball.vertices)
        assert bound.inside.all()
        A = np.eye(3) + 0.2 * rng.normal(size=(3, 3))
        assert_allclose(bound.positions(cage.points @ A.T), ball.vertices @ A.T, atol=1e-12)
        # A product of coordinates is carried too, which tetrahedra would break at their faces.
        bent = cage.points + 0.1 * cage.points[:, [1, 2, 0]] * cage.points[:, [2, 0, 1]]
        expected = ball.vertices + 0.1 * ball.vertices[:, [1, 2, 0]] * ball.vertices[:, [2, 0, 1]]
        assert_allclose(bound.positions(bent), expected, atol=1e-12)


class TestCoarseSurface:
    def test_keeps_corners_and_closes_seams(self):
        vertices, faces = box((1.0, 1.0, 1.0), (20, 20, 20))
        loose = vertices[faces.ravel()]
        rows, left = coarse_surface(loose, np.arange(len(loose)).reshape(-1, 3), 0.3)
        kept = loose[rows]
        assert len(rows) < 0.2 * len(vertices)
        for corner in CUBE_CORNERS - 0.5:
            assert (np.abs(kept - corner).max(1) < 1e-12).any()
        assert trimesh.Trimesh(kept, left, process=False).is_watertight

    def test_size_zero_keeps_all(self):
        ball = trimesh.creation.icosphere(2)
        rows, left = coarse_surface(ball.vertices, ball.faces, 0.0)
        assert len(rows) == len(ball.vertices)
        assert_allclose(trimesh.Trimesh(ball.vertices[rows], left, process=False).volume, ball.volume)

    def test_triangles_seen_from_inside(self):
        ball = trimesh.creation.icosphere(4)
        for faces in (ball.faces, ball.faces[:, ::-1]):
            rows, _ = coarse_surface(ball.vertices, faces, 0.2)
            assert_allclose(ball.vertices[rows].min(0), -1, atol=2e-3)


class TestBoxes:
    def test_mirrored_tetrahedra_meet(self):
        points, tets = tet_box((1.0, 0.8, 0.6), (4, 2, 3))
        assert volumes(points, tets).min() > 0
        assert_allclose(volumes(points, tets).sum(), 0.48)
        assert euler(points, tets) == 1  # else faces of neighbours would not be the same
        # The mirror image in the middle has the same tetrahedra, where the number of cubes is even.
        for axis, even in ((0, True), (1, True), (2, False)):
            flipped = points * np.where(np.arange(3) == axis, -1, 1)
            order = np.lexsort(np.round(points, 9).T), np.lexsort(np.round(flipped, 9).T)
            image = np.empty(len(points), int)
            image[order[1]] = order[0]
            same = {frozenset(tet) for tet in tets.tolist()} == {frozenset(t) for t in image[tets].tolist()}
            assert same == even

    def test_points_in_hexahedra(self, rng):
        points, hexahedra = hex_box((1.0, 0.8, 0.6), (3, 3, 3))
        moved = points + 0.03 * rng.normal(size=points.shape)
        wanted = rng.uniform(-1, 1, (500, 3)) * [0.4, 0.3, 0.2]
        for rest in (points, moved):
            found, weights = locate(rest, hexahedra, wanted)
            assert (found >= 0).all()
            assert weights.min() >= 0
            assert_allclose(weights.sum(1), 1)
            assert_allclose(np.einsum("na,nai->ni", weights, rest[hexahedra[found]]), wanted, atol=1e-9)
        assert locate(points, hexahedra, [[2.0, 0, 0]])[0] == -1
