import numpy as np
import pytest
import trimesh

from pointglue.errors import InputError
from pointglue.geometry import shapes


@pytest.mark.parametrize("cells", [(1, 1, 1), (5, 2, 3)])
def test_box_is_a_closed_box(cells):
    mesh = trimesh.Trimesh(*shapes.box((2.0, 1.0, 0.5), cells), process=False)
    assert mesh.is_watertight
    assert mesh.is_winding_consistent
    assert mesh.volume == pytest.approx(1.0)  # positive: the faces look outwards
    np.testing.assert_allclose(mesh.bounds, [[-1, -0.5, -0.25], [1, 0.5, 0.25]])
    a, b, c = cells
    assert len(mesh.faces) == 4 * (a * b + b * c + c * a)
    assert len(mesh.vertices) == len(mesh.faces) / 2 + 2  # Euler


@pytest.mark.parametrize(
    ("size", "cells", "match"),
    [
        ((1, 0, 1), (1, 1, 1), r"size must be three positive lengths, got \(1, 0, 1\)"),
        ((1, np.nan, 1), (1, 1, 1), "size must be three positive lengths"),
        ((1, 1), (1, 1, 1), "size must be three"),
        (1.0, (1, 1, 1), "size must be three"),
        (("a", 1, 1), (1, 1, 1), "size must hold real numbers"),
        ((1, 1, 1), (1, 0, 1), r"cells must be three whole numbers of at least 1, got \(1, 0, 1\)"),
        ((1, 1, 1), (1, 1.5, 1), "cells must be three whole numbers"),
    ],
)
def test_box_refuses(size, cells, match):
    with pytest.raises(InputError, match=match):
        shapes.box(size, cells)


def test_skin_of_a_ball():
    vertices, faces = shapes.skin(lambda x: np.linalg.norm(x, axis=1) - 1.0, (-1.3,) * 3, (1.3,) * 3, 0.1)
    ball = trimesh.Trimesh(vertices, faces, process=False)
    assert ball.is_watertight
    assert ball.volume == pytest.approx(
        4 / 3 * np.pi, rel=0.01
    )  # a polyhedron of such edges is that much smaller
    np.testing.assert_allclose(np.linalg.norm(vertices, axis=1), 1, atol=1e-6)


def test_skin_of_nothing_is_an_error():
    with pytest.raises(InputError, match="outside must be negative somewhere between low and high"):
        shapes.skin(lambda x: np.ones(len(x)), (-1,) * 3, (1,) * 3, 0.5)
