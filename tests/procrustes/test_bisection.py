"""Groups of points, and parts of points that are near each other."""

import numpy as np
from numpy.testing import assert_array_equal

from pointglue.procrustes.groups import Groups, bisect_points


def test_the_largest_entry_of_each_group_is_the_first_of_equal_ones(rng):
    groups = Groups(np.cumsum([0, *rng.integers(1, 6, 200)]))
    values = rng.integers(-2, 2, groups.offsets[-1]).astype(np.float64)
    parts = np.split(values, groups.offsets[1:-1])
    assert_array_equal(groups.largest(values), groups.offsets[:-1] + [part.argmax() for part in parts])


def test_every_point_is_in_one_part(rng):
    points = rng.random((1000, 3)) * [4, 1, 1]
    parts = bisect_points(points, 30)
    assert_array_equal(np.sort(np.concatenate(parts)), np.arange(1000))
    assert all(15 <= len(part) <= 30 for part in parts)
    assert all((np.diff(part) > 0).all() for part in parts)
    sizes = [np.ptp(points[part], axis=0).max() for part in parts]
    assert max(sizes) < 1.0  # 64 parts of a box of 4: cubes of about 0.4


def test_the_longest_side_is_halved_first():
    points = np.array([[3.0, 0.1], [0.0, 0.9], [1.0, 0.2], [2.0, 0.8]])
    first, second = bisect_points(points, 2)
    assert_array_equal(first, [1, 2])
    assert_array_equal(second, [0, 3])


def test_few_points_and_points_at_one_place():
    assert bisect_points(np.empty((0, 3)), 4) == []
    (part,) = bisect_points(np.zeros((3, 3)), 4)
    assert_array_equal(part, [0, 1, 2])
    assert [part.tolist() for part in bisect_points(np.zeros((4, 3)), 1)] == [[0], [1], [2], [3]]
