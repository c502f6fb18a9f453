"""Handles that move with time: any frame is what a walk from the first gives, in whatever order."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pointglue import HandleDeformer
from pointglue.deform import HandleSequence, sequence
from pointglue.errors import InputError

RATE = 24.0
HANDLES = np.array([[-1.0, 0, 0], [1, 0, 0], [0, 1, 0.2], [0.3, -1, 0.5]])


def turning(count):
    """Handles that turn about z by more than half a turn, and about x meanwhile."""

    def handles_at(time):
        turn = Rotation.from_euler("zx", [2.0 * time, time]).as_matrix() * (1 + 0.1 * time)
        return HANDLES[:count] @ turn.T, None

    return handles_at


def walked(deformer, handles_at, frames):
    poses, previous = [], None
    for frame in range(frames):
        pose = deformer.at(handles_at(frame / RATE)[0], previous=previous)
        previous = pose.rotations
        poses.append(pose.positions)
    return poses


CASES = {
    "regular": (4, {}),
    "damped": (4, {"damping": 0.5}),
    "damped and stretched": (4, {"damping": 0.5, "stretch": 0.3}),
    "open": (2, {}),
}


@pytest.mark.parametrize("case", CASES)
def test_frames_in_any_order_are_those_of_a_walk_from_the_first(rng, case):
    count, options = CASES[case]
    deformer = HandleDeformer(rng.standard_normal((50, 3)), HANDLES[:count], **options)
    expected = walked(deformer, turning(count), 41)
    frames = HandleSequence(deformer, turning(count), RATE)
    for frame in (40, 3, 4, 5, 33, 0, 17, 16, 40, 39):
        np.testing.assert_array_equal(frames.pose(frame).positions, expected[frame])
    if case != "regular":  # the frame before matters
        alone = deformer.at(turning(count)(40 / RATE)[0]).positions
        assert np.abs(alone - expected[40]).max() > 1e-3


def test_what_is_known_is_not_evaluated_again(rng):
    asked = []

    def handles_at(time):
        asked.append(round(time * RATE))
        return turning(4)(time)

    deformer = HandleDeformer(rng.standard_normal((50, 3)), HANDLES, damping=0.1)
    frames = HandleSequence(deformer, handles_at, RATE)
    frames.pose(40)
    assert asked == list(range(41))
    asked.clear()
    frames.pose(40)
    frames.pose(41)
    frames.pose(35)
    assert asked == [41, *range(2 * sequence.KEPT_INTERVAL + 1, 36)]


def test_an_edit_keeps_the_frames_before_it(rng):
    asked = []
    deformer = HandleDeformer(rng.standard_normal((50, 3)), HANDLES, damping=0.1)
    old = HandleSequence(deformer, turning(4), RATE)
    old.pose(60)

    def edited(time):
        asked.append(round(time * RATE))
        handles, rotations = turning(4)(time)
        return handles + max(time - 40 / RATE, 0.0), rotations

    new = HandleSequence(deformer, edited, RATE)
    new.adopt(old)
    asked.clear()
    result = new.pose(60).positions
    assert asked == list(range(33, 61))
    np.testing.assert_array_equal(result, walked(deformer, edited, 61)[60])
    assert np.abs(result - old.pose(60).positions).max() > 0.1
    other = HandleSequence(deformer, edited, 2 * RATE)  # whose frames are at other times
    other.adopt(old)
    asked.clear()
    other.pose(2)
    assert len(asked) == 3  # from the first


def test_rotations_before_a_frame(rng):
    deformer = HandleDeformer(rng.standard_normal((50, 3)), HANDLES, damping=0.1)
    frames = HandleSequence(deformer, turning(4), RATE)
    assert frames.previous(0) is None
    np.testing.assert_array_equal(frames.previous(9), frames.pose(8).rotations)
    regular = HandleSequence(HandleDeformer(rng.standard_normal((50, 3)), HANDLES), turning(4), RATE)
    assert regular.previous(9) is None  # nothing depends on them
    two = HandleSequence(HandleDeformer(rng.standard_normal((50, 3)), HANDLES[:2]), turning(2), RATE)
    np.testing.assert_array_equal(two.previous(9), two.pose(8).rotations)


def test_bad_input_is_named(rng):
    deformer = HandleDeformer(rng.standard_normal((50, 3)), HANDLES)
    with pytest.raises(InputError, match="rate must be a finite number above 0, got 0"):
        HandleSequence(deformer, turning(4), 0)
    with pytest.raises(InputError, match="frame must be a whole number of at least 0, got -1"):
        HandleSequence(deformer, turning(4), RATE).pose(-1)
