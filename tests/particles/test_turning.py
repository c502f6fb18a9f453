"""The way from one rotation to another, as a rotation vector."""

import numpy as np
import pytest
from oracle import random_rotation
from scipy.spatial.transform import Rotation

from pointglue.particles._solve.kernels.shapes.rotations import rotation_between

AXES = np.concatenate([np.eye(3), -np.eye(3), np.random.default_rng(5).standard_normal((20, 3))])
AXES /= np.linalg.norm(AXES, axis=1, keepdims=True)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-3, 0.03, 0.04, 1.0, 2.6, 2.7, 3.0, 3.14, np.pi - 1e-9])
def test_the_shorter_way_is_found_at_every_angle(rng, angle):
    for axis in AXES:
        start = random_rotation(rng)
        end = Rotation.from_rotvec(angle * axis).as_matrix() @ start
        way = rotation_between(end.ravel(), start.ravel())
        # Rounding of the matrices turns the axis by about eps, and products of them by a few.
        np.testing.assert_allclose(way, angle * axis, rtol=0, atol=1e-14)


def test_half_a_turn_goes_either_way(rng):
    for axis in AXES:
        start = random_rotation(rng)
        half = 2 * np.outer(axis, axis) - np.eye(3)
        way = np.array(rotation_between((half @ start).ravel(), start.ravel()))
        np.testing.assert_allclose(Rotation.from_rotvec(way).as_matrix(), half, atol=1e-14)
