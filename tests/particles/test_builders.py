"""Ropes, sheets, blocks and hinged boxes: what they are made of."""

import numpy as np
import pytest
from particles.reference import axes_of

from pointglue.errors import InputError
from pointglue.particles import block, hinged_boxes, rope, sheet


def test_a_rope_is_a_chain_of_ellipsoids_along_it():
    start, end = np.array([1.0, 2, 3]), np.array([2.0, 0, 5])
    body = rope(start, end, particles=7, radius=0.05, stiffness=0.3)
    np.testing.assert_allclose(body.positions, start + np.linspace(0, 1, 7)[:, None] * (end - start))
    np.testing.assert_array_equal(body.edges, [[k, k + 1] for k in range(6)])
    # Neighbours touch: half the spacing along, the radius across.
    np.testing.assert_allclose(body.radii, np.tile([3 / 12, 0.05, 0.05], (7, 1)))
    np.testing.assert_allclose(axes_of(body)[:, :, 0], np.tile((end - start) / 3, (7, 1)), atol=1e-15)
    np.testing.assert_allclose(body.mass, 1000 * 4 / 3 * np.pi * 0.25 * 0.05**2)
    assert (body.stiffness == 0.3).all()


@pytest.mark.parametrize("along", np.concatenate([np.eye(3), -np.eye(3)]).tolist())
def test_a_rope_may_run_along_any_axis(along):
    body = rope((0, 0, 0), along, particles=2, radius=0.1)
    axes = axes_of(body)
    np.testing.assert_allclose(axes[0, :, 0], along, atol=1e-15)
    assert np.linalg.det(axes[0]) == pytest.approx(1)


def test_a_sheet_has_a_particle_at_each_corner_and_diagonals():
    body = sheet((2.0, 1.0), (4, 2), thickness=0.1)
    assert len(body) == 5 * 3
    np.testing.assert_allclose(body.positions.min(0), [-1, 0, -0.5])
    np.testing.assert_allclose(body.positions.max(0), [1, 0, 0.5])
    np.testing.assert_allclose(body.radii, np.tile([0.25, 0.05, 0.25], (15, 1)))
    lengths = np.linalg.norm(np.diff(body.positions[body.edges], axis=1)[:, 0], axis=1)
    assert len(body.edges) == 4 * 3 + 5 * 2 + 2 * 4 * 2  # along x, along z, both diagonals of each cell
    np.testing.assert_allclose(np.unique(lengths.round(12)), [0.5, np.sqrt(0.5)])


def test_a_block_has_a_particle_in_each_cell():
    body = block((1.0, 0.6, 0.4), (5, 3, 2), density=500.0)
    assert len(body) == 30
    np.testing.assert_allclose(body.radii, np.tile([0.1, 0.1, 0.1], (30, 1)))
    np.testing.assert_allclose(body.positions.max(0), [0.4, 0.2, 0.1])
    np.testing.assert_allclose(body.positions.mean(0), 0, atol=1e-16)
    assert body.mass.sum() == pytest.approx(500 * 0.24)  # the whole box, not only its ellipsoids
    assert len(body.edges) == 4 * 3 * 2 + 5 * 2 * 2 + 5 * 3 * 1
    np.testing.assert_allclose(np.linalg.norm(np.diff(body.positions[body.edges], axis=1)[:, 0], axis=1), 0.2)
    assert not body.groups
    np.testing.assert_array_equal(block((1, 1, 1), (2, 1, 1), rigid=True).groups[0], [0, 1])


def test_a_block_of_one_cell():
    body = block((1.0, 2.0, 3.0), (1, 1, 1))
    np.testing.assert_array_equal(body.positions, [[0, 0, 0]])
    np.testing.assert_array_equal(body.radii, [[0.5, 1, 1.5]])


def test_hinged_boxes_share_the_two_particles_of_the_hinge():
    body = hinged_boxes((0.5, 0.3, 0.4), (2, 2, 2))
    assert len(body) == 18
    left, right = (set(group.tolist()) for group in body.groups)
    assert left & right == {16, 17}
    assert left | right == set(range(18))
    np.testing.assert_allclose(body.positions[16:], [[0, 0, -0.2], [0, 0, 0.2]])
    np.testing.assert_array_equal(body.oriented, [True] * 16 + [False] * 2)
    np.testing.assert_allclose(body.positions[:8].mean(0), -body.positions[8:16].mean(0), atol=1e-16)
    # The boxes' particles stand apart by a cell.
    assert body.positions[8:16, 0].min() - body.positions[:8, 0].max() == pytest.approx(0.5)
    assert len(set(body.components)) == 1
    # It stays connected where a group lets go.
    assert len(set(body.replace(groups=[], yield_speed=np.inf).components)) == 1


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: rope((0, 0, 0), (1, 0, 0), particles=1, radius=0.1),
            "particles must be a whole number of at",
        ),
        (lambda: rope((0, 0, 0), (1, 0, 0), particles=2.0, radius=0.1), "particles must be a whole number"),
        (lambda: rope((0, 0, 0), (0, 0, 0), particles=2, radius=0.1), "start and end must be apart"),
        (
            lambda: rope((0, 0), (1, 0, 0), particles=2, radius=0.1),
            r"start must have shape \(3,\), got \(2,\)",
        ),
        (
            lambda: rope((0, 0, 0), (1, 0, np.inf), particles=2, radius=0.1),
            "end must be finite",
        ),
        (lambda: rope((0, 0, 0), (1, 0, 0), particles=2, radius=0), "radius must be a finite number above 0"),
        (lambda: sheet((1, 1, 1), (2, 2), thickness=0.1), "size and cells must have two numbers"),
        (lambda: sheet((1, -1), (2, 2), thickness=0.1), "size"),
        (lambda: sheet((1, 1), (2, 0), thickness=0.1), "cells"),
        (lambda: sheet((1, 1), (2, 2), thickness=-1.0), "thickness must be a finite number above 0"),
        (lambda: block((1, 1, 0), (2, 2, 2)), "size"),
        (lambda: block((1, 1, 1), (2, 2, 1.5)), "cells"),
        (lambda: hinged_boxes((1, 1, 1), (0, 1, 1)), "cells"),
        (lambda: block((1, 1, 1), (2, 2, 2), stiffness=3), "stiffness must be between 0 and 1"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(InputError, match=message):
        build()
