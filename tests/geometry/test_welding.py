"""Edges of meshes."""

import numpy as np

from pointglue.geometry.welding import edge_lengths


def test_each_edge_of_an_open_mesh_has_its_length_once():
    vertices = np.array([[0.0, 0, 0], [3, 0, 0], [3, 4, 0], [0, 4, 12], [9, 9, 9]])
    # The edge of both triangles is counted once, and that of a triangle with a vertex twice is none.
    lengths = edge_lengths(vertices, np.array([[0, 1, 2], [2, 1, 3], [4, 4, 4]])).toarray()
    expected = np.zeros((5, 5))
    for i, j in [(0, 1), (1, 2), (0, 2), (1, 3), (2, 3)]:
        expected[i, j] = expected[j, i] = np.linalg.norm(vertices[i] - vertices[j])
    np.testing.assert_array_equal(lengths, expected)
