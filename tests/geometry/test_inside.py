"""Distances inside a shape: what is seen, ways over the surface, components, and what is inside at all."""

import numpy as np
import pytest
import trimesh
from scipy.spatial import cKDTree

import pointglue
from pointglue.deform import inside_distances
from pointglue.errors import InputError, PointglueWarning
from pointglue.geometry import shapes
from pointglue.geometry.bvh import TriangleTree
from pointglue.geometry.inside import Cover, Inside
from pointglue.geometry.winding import winding_numbers


def together(*meshes):
    first = np.cumsum([0, *(len(vertices) for vertices, _ in meshes)])
    vertices = np.concatenate([vertices for vertices, _ in meshes])
    return vertices, np.concatenate([faces + k for (_, faces), k in zip(meshes, first, strict=False)])


def sheet(n, size=1.0):
    grid = np.stack(np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij"), -1).reshape(-1, 2)
    k = np.arange(n * (n + 1)).reshape(n, n + 1)[:, :-1].ravel()
    quads = np.stack([k, k + 1, k + n + 2, k + n + 1], axis=1)
    faces = quads[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)
    return np.column_stack([grid / n * size, np.zeros(len(grid))]), faces


def two_bars(gap, *, joined=True):
    """Bars 4 long and 0.4 thick beside each other; joined at one end they are one closed surface, a U."""
    if not joined:
        bar, faces = shapes.box((4.0, 0.4, 0.4), (20, 2, 2))
        return together((bar, faces), (bar + [0, 0.4 + gap, 0], faces))

    def outside(x):
        def box(low, high):
            middle, half = (np.array(low) + high) / 2, (np.array(high) - low) / 2
            return (np.abs(x - middle) - half).max(1)

        parts = [box([-2, -0.2, -0.2], [2, 0.2, 0.2]), box([-2, 0.2 + gap, -0.2], [2, 0.6 + gap, 0.2])]
        return np.min([*parts, box([1.6, -0.2, -0.2], [2, 0.6 + gap, 0.2])], axis=0)

    return shapes.skin(outside, (-2.3, -0.5, -0.5), (2.3, 0.9 + gap, 0.5), 0.06)


def slow_winding(vertices, faces, points):
    """Every solid angle of every triangle, summed."""
    a, b, c = (vertices[faces[:, k]][None] - points[:, None] for k in range(3))
    la, lb, lc = (np.linalg.norm(side, axis=2) for side in (a, b, c))
    volume = (a * np.cross(b, c)).sum(2)
    below = la * lb * lc + (a * b).sum(2) * lc + (b * c).sum(2) * la + (c * a).sum(2) * lb
    return 2 * np.arctan2(volume, below).sum(1) / (4 * np.pi)


@pytest.mark.parametrize(
    "mesh", [sheet(12), two_bars(0.2), shapes.box((1.0, 2, 3), (1, 1, 1))], ids=["sheet", "bars", "box"]
)
def test_winding_numbers_against_the_sum(mesh, rng):
    vertices, faces = mesh
    points = rng.uniform(vertices.min(0) - 0.5, vertices.max(0) + 0.5, (200, 3))
    found = winding_numbers(TriangleTree(vertices, faces), points)
    # Far boxes count as dipoles; half of the step from 0 to 1 is what decides.
    np.testing.assert_allclose(found, slow_winding(vertices, faces, points), atol=0.03)


def test_a_ball_contains_what_is_within_its_radius(rng):
    ball = trimesh.creation.icosphere(subdivisions=4)
    points = rng.uniform(-1.2, 1.2, (20000, 3))
    radius = np.linalg.norm(points, axis=1)
    clear = np.abs(radius - 0.9985) > 0.002  # facets lie up to 0.003 below the sphere
    for faces in (ball.faces, ball.faces[:, ::-1]):
        inside = Inside(ball.vertices, faces).contains(points)
        np.testing.assert_array_equal(inside[clear], radius[clear] < 0.9985)


def test_in_a_convex_shape_it_is_the_straight_distance(rng):
    vertices, faces = shapes.box((1.0, 1.0, 1.0), (6, 6, 6))
    points = np.concatenate([rng.uniform(-0.49, 0.49, (40, 3)), vertices[::29]])
    numbers, distances = Inside(vertices, faces).nearest(points, 4)
    straight, _ = cKDTree(points).query(vertices, k=4)
    np.testing.assert_allclose(distances, straight, atol=1e-12)
    own = np.linalg.norm(vertices[:, None] - points[numbers], axis=2)
    np.testing.assert_allclose(own, distances, atol=1e-12)


def test_on_a_sheet_it_is_the_straight_distance_and_over_a_bend_the_unrolled_one(rng):
    vertices, faces = sheet(20)
    points = np.column_stack([rng.uniform(0, 1, (12, 2)), np.zeros(12)])
    straight, _ = cKDTree(points).query(vertices, k=3)
    _, flat = Inside(vertices, faces).nearest(points, 3)
    # Exact over triangles; the last of the three may go along edges where its lists end.
    assert (flat >= straight - 1e-9).all()
    np.testing.assert_allclose(flat[:, :2], straight[:, :2], rtol=1e-8)
    assert (flat[:, 2] < 1.03 * straight[:, 2]).all()
    roll = lambda x: np.column_stack([np.sin(2 * x[:, 0]) / 2, x[:, 1], np.cos(2 * x[:, 0]) / 2])  # noqa: E731
    _, rolled = Inside(roll(vertices), faces).nearest(roll(points), 3)
    # Chords of 20 facets over 2 rad are shorter than the arc by (0.1)^2 / 24; points lie off the facets by
    # up to 0.5 (0.1)^2 / 8 = 6e-4.
    assert (rolled >= 0.9995 * straight - 1.5e-3).all()
    assert (rolled[:, :2] <= 1.01 * straight[:, :2] + 1.5e-3).all()


def test_between_a_straight_line_and_the_way_along_edges(rng):
    vertices, faces = two_bars(0.15)
    inside = Inside(vertices, faces)
    points = rng.uniform(vertices.min(0), vertices.max(0), (2000, 3))
    points = points[inside.contains(points)][:6]
    numbers, distances = inside.nearest(points, 6)
    assert (np.sort(numbers, axis=1) == np.arange(6)).all()
    every = np.empty((6, len(vertices)))
    every[numbers.T, np.arange(len(vertices))] = distances.T
    edges = inside_distances(vertices, faces, points)
    straight = np.linalg.norm(vertices - points[:, None], axis=2)
    assert (every >= straight - 1e-12).all()
    assert (every <= edges + 1e-12).all()
    assert (every < 0.98 * edges).any()  # straight over triangles is shorter than along edges


@pytest.mark.parametrize("where", ["within", "on the surface", "outside"])
def test_a_limb_takes_nothing_from_the_limb_beside_it(where):
    vertices, faces = two_bars(0.1)
    inside = Inside(vertices, faces)
    x = np.linspace(-1.9, 1.4, 8)
    y = {"within": 0.0, "on the surface": 0.2, "outside": 0.24}[where]
    lower = np.column_stack([x, np.full(8, y), np.zeros(8)])
    points = np.concatenate([lower, lower * [1, -1, 1] + [0, 0.5, 0]])  # mirrored in the middle of the gap
    assert cKDTree(lower).query(points[8:])[0].max() < 0.51
    numbers, distances = inside.nearest(points, 2)
    left = vertices[:, 0] < 0.5
    upper = vertices[:, 1] > 0.25
    assert (numbers[left & ~upper] < 8).all()
    assert (numbers[left & upper] >= 8).all()
    assert (distances[left, 0] < 0.7).all()  # half a step, half a thickness and the way in from outside
    pairs, length = inside.between(points, 0.6, inside.nearest(points, 6))
    across = (pairs[:, 0] < 8) != (pairs[:, 1] < 8)
    left = points[pairs].max(1)[:, 0] < 1.0
    assert not (across & left & (length < 1.0)).any()
    assert (length[~across] < 0.6).sum() == 14


def test_a_soup_of_triangles_is_the_same_surface(rng):
    vertices, faces = two_bars(0.2)
    soup = vertices[faces].reshape(-1, 3)
    points = np.array([[-1.5, 0.0, 0.0], [-1.5, 0.6, 0.0], [1.8, 0.3, 0.0]])
    numbers, distances = Inside(vertices, faces).nearest(points, 3)
    again, others = Inside(soup, np.arange(len(soup)).reshape(-1, 3)).nearest(points, 3)
    np.testing.assert_allclose(others, distances[faces.ravel()], rtol=1e-12)
    np.testing.assert_array_equal(again, numbers[faces.ravel()])


def cup():
    ball = trimesh.creation.icosphere(subdivisions=3)
    return ball.vertices, ball.faces[ball.vertices[ball.faces].mean(1)[:, 1] < 0.2]


def holed():
    ball = trimesh.creation.icosphere(subdivisions=3)
    return ball.vertices, ball.faces[ball.vertices[ball.faces].mean(1)[:, 1] < 0.97]


@pytest.mark.parametrize(
    ("mesh", "solid"),
    [
        (shapes.box((1.0, 1, 1), (1, 1, 1)), True),
        (sheet(5), False),
        (cup(), False),
        (holed(), True),
        (two_bars(0.1), True),
    ],
    ids=["box", "sheet", "cup", "small hole", "bars"],
)
def test_what_has_an_inside(mesh, solid):
    assert Inside(*mesh).solid.tolist() == [solid]


def test_components_and_vertices_of_no_face():
    box = shapes.box((1.0, 1, 1), (1, 1, 1))
    vertices, faces = together(box, (box[0] + [3, 0, 0], box[1]), (sheet(2)[0] + [0, 5, 0], sheet(2)[1]))
    inside = Inside(np.concatenate([vertices, [[9.0, 9, 9]]]), faces)
    assert len(set(inside.components[:8])) == len(set(inside.components[8:16])) == 1
    assert len(set(inside.components.tolist())) == 4
    assert inside.components[-1] == -1
    assert inside.solid[inside.components[[0, 8, 16]]].tolist() == [True, True, False]
    points = np.array([[0.0, 0, 0], [3, 0, 0], [0.5, 5, 0]])
    numbers, distances = inside.nearest(points, 2)
    assert numbers[:-1, 0].tolist() == [0] * 8 + [1] * 8 + [2] * 9
    assert (numbers[:-1, 1] == -1).all()
    assert np.isinf(distances[:-1, 1]).all()
    assert numbers[-1].tolist() == cKDTree(points).query([9.0, 9, 9], k=2)[1].tolist()


@pytest.mark.parametrize("inside_out", [False, True])
def test_a_hollow_shape_is_one_component_with_its_cavity(inside_out):
    (outer, faces), (cavity, _) = (shapes.box((size,) * 3, (2, 2, 2)) for size in (2.0, 1.0))
    faces = np.concatenate([faces, faces[:, ::-1] + len(outer)])
    shape = Inside(np.concatenate([outer, cavity]), faces[:, ::-1] if inside_out else faces)
    assert set(shape.components.tolist()) == {0}
    assert shape.contains([[0.75, 0, 0], [0.2, 0, 0]]).tolist() == [True, False]


def test_a_component_without_a_point_is_reported():
    box = shapes.box((1.0, 1, 1), (1, 1, 1))
    inside = Inside(*together(box, (box[0] + [3, 0, 0], box[1])))
    with pytest.warns(PointglueWarning, match=r"no point belongs to components \[\d\]"):
        numbers, distances = inside.nearest([[0.0, 0, 0]], 1)
    own = np.linalg.norm(box[0], axis=1)
    np.testing.assert_allclose(distances[:8, 0], own)
    # The other box follows as a whole the corner that it is nearest to, 2 m away.
    np.testing.assert_allclose(distances[8:, 0], own[0] + 2)
    assert (numbers == 0).all()
    # Nobody asked for it.
    mine = np.array([7, 2])
    np.testing.assert_array_equal(inside.nearest([[0.0, 0, 0]], 1, among=mine)[1], distances[mine])


def test_cover_is_the_nearest_within_its_limit(rng):
    for vertices, faces in (two_bars(0.1), sheet(15, 3.0)):
        inside = Inside(vertices, faces)
        points = vertices[rng.choice(len(vertices), 9, replace=False)]
        cover = Cover(inside, 0.7)
        for point in points:
            cover.add(point[None])
        _, distances = inside.nearest(points, 1)
        within = distances[:, 0] < 0.7
        assert 0.05 < within.mean() < 0.99
        # Where two points are equally far a way may go along edges, here longer by 1.12 at most.
        np.testing.assert_allclose(cover.distances[within], distances[within, 0], rtol=0.12)
        assert np.mean(cover.distances[within] - distances[within, 0]) < 2e-3
        assert (cover.distances[distances[:, 0] > 0.7] == np.inf).all()


def test_the_same_bytes_for_any_number_of_threads(rng):
    vertices, faces = two_bars(0.15)
    points = vertices[rng.choice(len(vertices), 30, replace=False)] * 0.98
    outcomes = []
    for count in (1, 2, 3):
        with pointglue.threads(count):
            numbers, distances = Inside(vertices, faces).nearest(points, 4)
            outcomes.append(numbers.tobytes() + distances.tobytes())
    assert len(set(outcomes)) == 1


def test_sizes_and_places_do_not_matter():
    vertices, faces = two_bars(0.1)
    points = np.array([[-1.5, 0.0, 0.0], [-1.5, 0.5, 0.0], [1.8, 0.3, 0.0]])
    numbers, distances = Inside(vertices, faces).nearest(points, 3)
    for scale, shift in ((1e-4, 0.0), (1e4, 0.0), (1.0, 1e5)):
        again, others = Inside(scale * vertices + shift, faces).nearest(scale * points + shift, 3)
        assert (again == numbers).mean() > 0.999  # points equally far away may change places
        # A few lines of sight graze an edge and fall on one side or the other.
        np.testing.assert_allclose(others / scale, distances, rtol=1e-3)


def test_degenerate_triangles_and_non_manifold_edges():
    wings = np.array([[0.0, 0, 0], [0, 0, 1], [1, 0, 0], [-0.5, 0.9, 0], [-0.5, -0.9, 0]])
    faces = np.array([[0, 1, 2], [0, 1, 3], [0, 1, 4], [2, 2, 2], [0, 0, 1]])
    inside = Inside(wings, faces)
    assert inside.components.tolist() == [0] * 5
    numbers, distances = inside.nearest(wings[2:3], 1)
    assert (numbers == 0).all()
    np.testing.assert_allclose(distances[2:, 0], [0.0, 1 + np.hypot(0.5, 0.9), 1 + np.hypot(0.5, 0.9)])


BOX = shapes.box((1.0, 1, 1), (1, 1, 1))


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[0.0, 0, 0]], 0), {}, "count must be a whole number of at least 1, got 0"),
        (([[0.0, 0]], 1), {}, r"points must have shape \(n, 3\), got \(1, 2\)"),
        (([[0.0, 0, np.nan]], 1), {}, r"points must be finite, got nan at index \[0, 2\]"),
        ((np.empty((0, 3)), 1), {}, "points must hold at least one point"),
        (([[0.0, 0, 0]], 1), {"among": [8]}, r"among must be vertices from 0 to 7, got \[8\]"),
    ],
)
def test_bad_input_is_named(arguments, options, message):
    with pytest.raises(InputError, match=message):
        Inside(*BOX).nearest(*arguments, **options)


def test_bad_meshes_are_named():
    with pytest.raises(InputError, match=r"faces must be triangles \(m, 3\) in space, got shape \(1, 4\)"):
        Inside(BOX[0], [[0, 1, 2, 3]])
