"""Finer meshes, samples of surfaces and volumes, and points spread evenly."""

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from pointglue.geometry import shapes
from pointglue.geometry.inside import Inside
from pointglue.geometry.sampling import (
    along_skeleton,
    in_volume,
    inscribed_balls,
    nearest_visible,
    on_surface,
    refined,
    volume_samples,
)

EVERY = np.ones(1, bool)


def bar(length, thickness):
    return shapes.box((length, thickness, thickness), (max(1, int(4 * length)), 2, 2))


def fine(mesh, longest):
    return Inside(*refined(*mesh, longest, 10**7))


@settings(max_examples=20)
@given(st.floats(0.1, 3.0), st.integers(0, 2**32))
def test_a_finer_mesh_is_the_same_closed_surface(longest, seed):
    rng = np.random.default_rng(seed)
    vertices, faces = shapes.box(tuple(rng.uniform(0.2, 2, 3)), (1, 2, 1))
    vertices = vertices @ rng.normal(size=(3, 3))
    old, new = (
        trimesh.Trimesh(*mesh, process=False)
        for mesh in ((vertices, faces), refined(vertices, faces, longest, 10**7))
    )
    assert new.edges_unique_length.max() <= longest
    np.testing.assert_array_equal(new.vertices[: len(vertices)], vertices)
    assert new.is_watertight
    assert new.is_winding_consistent
    np.testing.assert_allclose([new.area, new.volume], [old.area, old.volume], rtol=1e-9)
    again = refined(new.vertices, new.faces, longest, 10**7)
    assert len(again[0]) == len(new.vertices)


def test_points_on_a_surface_are_apart_and_leave_nothing_bare(rng):
    inside = fine(shapes.box((1.0, 1.0, 1.0), (1, 1, 1)), 0.07)
    points = on_surface(inside, 0.2, rng, EVERY)
    distance, _ = cKDTree(points).query(points, k=2)
    # A box is convex, so that distances inside are straight.
    assert distance[:, 1].min() >= 0.8 * 0.2
    assert cKDTree(points).query(inside.vertices)[0].max() <= 0.8 * 0.2
    assert 0.7 < len(points) * 0.2**2 / 6 < 1.3


def test_a_thin_limb_has_a_chain_and_not_a_tube(rng):
    inside = fine(bar(4.0, 0.1), 0.1)
    for points in (
        on_surface(inside, 0.4, rng, EVERY),
        in_volume(inside, 0.4, rng, volume_samples(inside, 0.13, rng)),
        along_skeleton(inside, 0.4, rng),
    ):
        assert 7 <= len(points) <= 4 / 0.32 + 1
        steps = np.diff(np.sort(points[:, 0]))
        assert steps.min() > 0.15
        assert steps.max() < 0.8  # every vertex has one within the spacing


def test_in_a_volume_they_are_in_the_middle_of_a_limb(rng):
    inside = fine(bar(4.0, 0.2), 0.1)
    for points in (
        in_volume(inside, 0.4, rng, volume_samples(inside, 0.13, rng)),
        along_skeleton(inside, 0.4, rng),
    ):
        inner = points[np.abs(points[:, 0]) < 1.6]
        assert np.abs(inner[:, 1:]).max() < 0.04


def test_a_volume_is_filled_evenly(rng):
    inside = fine(shapes.box((1.0, 1.0, 1.0), (1, 1, 1)), 0.08)
    points = in_volume(inside, 0.25, rng, volume_samples(inside, 0.25 / 3, rng))
    assert np.abs(points).max() < 0.5
    nearest = cKDTree(points).query(points, k=2)[0][:, 1]
    assert nearest.min() > 0.35 * 0.25
    assert 0.7 * 0.25 < nearest.mean() < 1.1 * 0.25
    everywhere = rng.uniform(-0.5, 0.5, (5000, 3))
    assert cKDTree(points).query(everywhere)[0].max() < 1.1 * 0.25


@pytest.mark.parametrize(
    "size", [(1.0, 1.0, 1.0), (3.0, 0.5, 0.02), (4.0, 0.03, 0.03)], ids=["box", "plate", "rod"]
)
def test_samples_stand_for_the_volume(size, rng):
    inside = fine(shapes.box(size, (2, 1, 1)), 0.1)
    views, weights = volume_samples(inside, 0.1, rng)
    assert (np.abs(views.points) < np.array(size) / 2).all()
    # By chance, and by what counts twice or not at all between the thin and the thick.
    assert 0.75 < weights.sum() / np.prod(size) < 1.25
    # None of it is left out.
    everywhere = rng.uniform(-0.5, 0.5, (2000, 3)) * size
    assert cKDTree(views.points).query(everywhere)[0].max() < 0.3


def test_the_largest_ball_in_a_plate_and_in_a_ball(rng):
    plate = fine(shapes.box((2.0, 2.0, 0.2), (1, 1, 1)), 0.1)
    at = np.array([[0.11, 0.23, 0.1], [-0.37, 0.41, -0.1]])
    centre, radius = inscribed_balls(plate, plate.viewpoints(at), 0.5)
    np.testing.assert_allclose(radius, 0.1, rtol=0.01)
    np.testing.assert_allclose(centre, at * [1, 1, 0], atol=1e-3)
    np.testing.assert_allclose(inscribed_balls(plate, plate.viewpoints(at), 0.05)[1], 0.05)


def test_owners_are_seen(rng):
    one, faces = bar(2.0, 0.2)
    two = np.concatenate([one, one + [0, 0.25, 0]])
    inside = Inside(two, np.concatenate([faces, faces + len(one)]))
    points = np.array([[-0.5, 0.0, 0], [0.5, 0.25, 0]])
    views = inside.viewpoints(
        rng.uniform(-0.09, 0.09, (200, 3)) + rng.choice([0.0, 0.25], (200, 1)) * [[0, 1, 0]]
    )
    upper = views.points[:, 1] > 0.125
    np.testing.assert_array_equal(nearest_visible(inside, views, points), upper.astype(int))
