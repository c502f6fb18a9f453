"""The tree: parents come first, and no branch meets what it grows on."""

import numpy as np
import pytest

from pointglue.assets.tree import tree
from pointglue.elastic import FleshEnergy
from pointglue.errors import InputError
from pointglue.geometry import simplices
from pointglue.geometry.bvh import TriangleTree


def test_tree_is_a_trunk_with_six_limbs_with_two_twigs_each():
    branches = tree(cells=(6, 4, 3))
    assert [branch.level for branch in branches] == [0] + 6 * [1] + 12 * [2]
    for number, branch in enumerate(branches):
        assert len(branch.points) == 9 * ((6, 4, 3)[branch.level] + 1)
        assert (branch.parent is None) == (number == 0)
        assert branch.parent is None or branch.parent in branches[:number]


@pytest.mark.parametrize("clearance", [None, 0.02])
def test_branches_are_right_side_out_and_clear_of_their_parents(clearance):
    for branch in tree(2.0, cells=(10, 7, 5), clearance=clearance):
        FleshEnergy(branch.points, branch.tets, young=1.0, poisson=0.3)  # refuses what is inside out
        if branch.parent is not None:
            cells, _ = simplices.locate(branch.parent.points, branch.parent.tets, branch.points)
            assert (cells < 0).all()


def test_root_is_cut_to_the_surface_of_the_parent():
    clearance = 0.02
    for branch in tree(2.0, cells=(30, 7, 5), clearance=clearance)[1:7]:
        root = branch.points[branch.ring]
        # The steps towards the surface end on it, to far less than a micrometre.
        assert np.allclose(branch.parent.outside(root), clearance, atol=1e-7)
        surface = TriangleTree(branch.parent.points, simplices.tet_surface(branch.parent.tets))
        distance = surface.closest(root)[2]
        # The trunk is an octagon, flat sides within its circle by up to 8 % of the radius.
        assert (distance > clearance - 1e-3).all()
        assert (distance < clearance + 0.1 * branch.parent.girth).all()


def test_size_scales_all_lengths():
    for small, large in zip(tree(cells=(6, 4, 3)), tree(3.0, cells=(6, 4, 3)), strict=True):
        assert np.allclose(3 * small.points, large.points, rtol=0, atol=1e-12)


def test_outside_is_the_distance_from_the_bark():
    trunk = tree(cells=(6, 4, 3))[0]
    place, along = trunk.at(0.5)
    across = np.cross(along, [0.0, 0.0, 1.0])
    across /= np.linalg.norm(across)
    radius = float(trunk.radius(0.5))
    points = place + np.array([[1.0], [2.0], [3.0]]) * radius * across
    # It tapers by 0.04 in the length, and bends: both count in the second order only.
    assert np.allclose(trunk.outside(points), np.array([0.0, 1.0, 2.0]) * radius, atol=0.02 * radius)


@pytest.mark.parametrize(("name", "value"), [("size", 0.0), ("clearance", -0.1)])
def test_sizes_that_are_not_positive_are_refused(name, value):
    with pytest.raises(InputError, match=f"{name} must be a finite number above 0, got {value}"):
        tree(**{name: value})
