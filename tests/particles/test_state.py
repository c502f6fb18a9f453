"""States: what a step reads and gives back."""

import pickle

import numpy as np
import pytest
from oracle import random_rotation
from particles.reference import axes_of, mixed, quaternions

from pointglue.errors import InputError
from pointglue.geometry.quaternions import matrices_of, quaternions_of
from pointglue.particles import OrientedBody, ParticleSolver, rope


@pytest.fixture
def body(rng):
    return mixed(rng)


def test_the_start_is_the_bind_pose_at_rest(body):
    state = body.start()
    assert state.time == 0
    assert len(state) == len(body)
    np.testing.assert_array_equal(state.positions, body.positions)
    np.testing.assert_array_equal(state.rotations, np.tile(np.eye(3), (len(body), 1, 1)))
    assert not state.velocities.any()
    assert not state.spins.any()
    np.testing.assert_array_equal(state.pause, [0])
    np.testing.assert_array_equal(state.rest.positions, body.positions)
    np.testing.assert_allclose(state.rest.rotations, axes_of(body), atol=1e-15)


def test_arrays_of_a_state_cannot_be_written(body):
    """A pin set in place would go unnoticed: replace says what changes."""
    state = body.start()
    sent = pickle.loads(pickle.dumps(state))  # to another process
    for later in (state, state.replace(velocities=state.velocities + 1.0), sent):
        for name in ("positions", "rotations", "velocities", "spins", "pinned", "pause"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(later, name)[...] = 0
        assert not any(array.flags.writeable for array in vars(later.rest).values())


def test_orientations_are_those_of_the_ellipsoids_now(body, rng):
    R = np.stack([random_rotation(rng) for _ in range(len(body))])
    q = body.start().replace(rotations=R).orientations
    expected = quaternions(R @ axes_of(body))
    expected *= np.where(expected[:, :1] < 0, -1, 1)
    np.testing.assert_allclose(q, expected, atol=1e-14)
    assert (q[:, 0] >= 0).all()


def test_quaternions_and_matrices_are_inverse_everywhere(rng):
    """Half turns too, where w is 0 and formulas by w alone break down."""
    q = rng.standard_normal((500, 4))
    q[:3, 0] = 0
    q[3:7] = np.eye(4)
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    R = matrices_of(q)
    np.testing.assert_allclose(R @ np.swapaxes(R, 1, 2), np.tile(np.eye(3), (500, 1, 1)), atol=1e-15)
    again = quaternions_of(R)
    np.testing.assert_allclose(np.abs((again * q).sum(1)), 1, atol=1e-15)
    np.testing.assert_allclose(matrices_of(again), R, atol=2e-15)


def test_replace_copies_and_leaves_the_rest(body, rng):
    state = body.start()
    v = rng.standard_normal((len(body), 3))
    other = state.replace(velocities=v, pinned=np.ones(len(body), bool))
    v[:] = 0
    assert other.velocities.any()
    assert other.pinned.all()
    assert not state.pinned.any()
    assert other.positions is state.positions


def test_impulses_change_velocities_by_their_mass(body):
    state = body.start()
    pushed = state.with_impulses(body.mass, [2, 0, 2], [[1.0, 2, 3], [0, 1, 0], [1, 0, 0]])
    np.testing.assert_allclose(pushed.velocities[2], np.array([2.0, 2, 3]) / body.mass[2])  # both of them
    np.testing.assert_allclose(pushed.velocities[0], np.array([0.0, 1, 0]) / body.mass[0])
    assert not state.velocities.any()
    p, _ = body.momentum(state.with_impulses(body.mass, np.arange(len(body)), (0.0, 0.0, 2.0)))
    np.testing.assert_allclose(p, [0, 0, 2 * len(body)], rtol=1e-13)
    assert not state.with_impulses(body.mass, [], (1.0, 2, 3)).velocities.any()


def test_pinned_particles_take_no_impulse(body):
    pinned = np.zeros(len(body), bool)
    pinned[3] = True
    state = body.start().replace(pinned=pinned).with_impulses(body.mass, [3, 4], (0.0, 1.0, 0.0))
    assert not state.velocities[3].any()
    assert state.velocities[4].any()


def test_overlaps_of_two_bodies_are_no_part_of_their_shape():
    one = rope((0, 0, 0), (1, 0, 0), particles=3, radius=0.2)
    other = one.moved(translation=(0.01, 0.1, 0))
    solver = ParticleSolver([one, other])
    touching = {tuple(pair) for pair in solver.start().rest.touching.tolist()}
    assert {(0, 1), (1, 2), (3, 4), (4, 5)} <= touching
    assert all((i < 3) == (j < 3) for i, j in touching)
    # As one body they would be.
    assert (0, 3) in {tuple(pair) for pair in solver.body.start().rest.touching.tolist()}


ONE = OrientedBody([[0.0, 0, 0]], radii=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"velocities": [[0, np.nan, 0]]}, "velocities must be finite, got nan"),
        ({"velocities": [0, 0, 0]}, r"velocities must have shape \(1, 3\)"),
        ({"positions": [["a", "b", "c"]]}, "positions must hold real numbers"),
        ({"rotations": np.eye(3)}, r"rotations must have shape \(1, 3, 3\)"),
        ({"spins": [[0, 0, np.inf]]}, "spins must be finite"),
        ({"pinned": [1]}, "pinned must be a mask of 1 booleans"),
        ({"pinned": [True, False]}, "pinned must be a mask of 1 booleans"),
        ({"colour": 1}, "ParticleState has the fields time, .* got colour"),
    ],
)
def test_bad_changes_are_named(changes, message):
    with pytest.raises(InputError, match=message):
        ONE.start().replace(**changes)


@pytest.mark.parametrize(
    ("particles", "impulse", "message"),
    [
        ([0], [0, np.nan, 0], r"impulse must be finite, got nan at index \[1\]"),
        ([0], [0, 0], r"impulse must have shape \(3,\) or \(1, 3\)"),
        ([0], [[0, 0, 0]] * 2, r"impulse must have shape \(3,\) or \(1, 3\)"),
        ([1], [0, 0, 0], "particles must be from 0 to 0"),
        ([-1], [0, 0, 0], "particles must be from 0 to 0"),
        ([0.5], [0, 0, 0], "particles must hold whole numbers"),
        ([[0]], [0, 0, 0], "particles must be a flat list"),
    ],
)
def test_bad_impulses_are_named(particles, impulse, message):
    with pytest.raises(InputError, match=message):
        ONE.start().with_impulses(ONE.mass, particles, impulse)
