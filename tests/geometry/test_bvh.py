"""Closest points of triangles."""

import numpy as np
import pytest
from scipy.optimize import minimize

from pointglue.errors import InputError
from pointglue.geometry import shapes
from pointglue.geometry.bvh import TriangleTree


def nearest_by_search(corners, point):
    """Least distance to one triangle, by a general minimiser over its weights."""

    def square(w):
        return ((w @ corners - point) ** 2).sum()

    found = minimize(
        square, [1 / 3] * 3, bounds=[(0, 1)] * 3, constraints={"type": "eq", "fun": lambda w: w.sum() - 1}
    )
    return np.sqrt(found.fun)


def test_one_triangle_from_every_side(rng):
    corners = rng.standard_normal((3, 3))
    points = 3 * rng.standard_normal((60, 3))
    _, weights, distance = TriangleTree(corners, [[0, 1, 2]]).closest(points)
    expected = [nearest_by_search(corners, point) for point in points]
    np.testing.assert_allclose(distance, expected, rtol=1e-4)  # the minimiser's tolerance
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(1), 1)
    np.testing.assert_allclose(np.linalg.norm(weights @ corners - points, axis=1), distance, atol=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 33, 700])
def test_the_tree_finds_what_a_loop_over_all_finds(rng, count):
    vertices = rng.standard_normal((3 * count, 3))
    faces = np.arange(3 * count).reshape(-1, 3)
    points = 2 * rng.standard_normal((50, 3))
    face, _, distance = TriangleTree(vertices, faces).closest(points)
    each = np.stack([TriangleTree(vertices, faces[k : k + 1]).closest(points)[2] for k in range(count)])
    np.testing.assert_array_equal(distance, each.min(0))
    np.testing.assert_array_equal(each[face, np.arange(50)], distance)


def test_distance_to_a_box(rng):
    vertices, faces = shapes.box((2.0, 1.0, 1.0), (5, 3, 4))
    points = 2 * rng.standard_normal((500, 3))
    outside = np.maximum(np.abs(points) - [1, 0.5, 0.5], 0)
    inside = np.minimum((np.abs(points) - [1, 0.5, 0.5]).max(1), 0)
    expected = np.linalg.norm(outside, axis=1) - inside
    np.testing.assert_allclose(TriangleTree(vertices, faces).closest(points)[2], expected, atol=1e-12)


def test_degenerate_triangles_are_segments_and_points():
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]])
    _, _, distance = TriangleTree(vertices, [[0, 1, 2], [1, 1, 1]]).closest(
        [[1.5, 1, 0], [3, 0, 0], [1, 0, 0]]
    )
    np.testing.assert_allclose(distance, [1, 1, 0], atol=1e-15)


def test_in_the_plane():
    square = [[0.0, 0], [1, 0], [1, 1], [0, 1]]
    _, _, distance = TriangleTree(square, [[0, 1, 2], [0, 2, 3]]).closest([[0.5, 0.5], [2, 0.5], [-1, -1]])
    np.testing.assert_allclose(distance, [0, 1, np.sqrt(2)])


@pytest.mark.parametrize(
    ("faces", "points", "message"),
    [
        ([[0, 1, 2, 3]], [[0, 0, 0]], r"faces must have shape \(m, 3\)"),
        ([[0, 1, 9]], [[0, 0, 0]], "cells must index the 4 vertices"),
        ([[0, 1, 2]], [0, 0, 0], r"points must have shape \(k, 3\)"),
        ([[0, 1, 2]], [[0, np.nan, 0]], "points must be finite"),
    ],
)
def test_bad_input_is_named(faces, points, message):
    with pytest.raises(InputError, match=message):
        TriangleTree(np.eye(4)[:, :3], faces).closest(points)
