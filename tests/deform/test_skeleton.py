from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brute
from scipy.spatial.transform import Rotation

from pointglue.deform.skeleton import Skeleton
from pointglue.errors import InputError

ROUNDING = 1e-13  # of the size of a pose: some hundred operations on its coordinates


def unit(v):
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def random_chain(rng, lengths, d=3):
    """Joints of a chain with these bones, its root at the origin."""
    bones = np.asarray(lengths)[:, None] * unit(rng.normal(size=(len(lengths), d)))
    return np.vstack([np.zeros(d), np.cumsum(bones, axis=0)])


def lengths_of(x):
    return np.linalg.norm(np.diff(x, axis=0), axis=1)


def turn_by(angle, d, axis=(0.0, 0.0, 1.0)):
    about = unit(np.asarray(axis)) if d == 3 else np.eye(3)[2]
    return Rotation.from_rotvec(angle * about).as_matrix()[:d, :d]


def assert_near(x, expected, size=ROUNDING):
    np.testing.assert_allclose(x, expected, rtol=0.0, atol=size)


def assert_rigid(before, after, rows, rtol=1e-12):
    """The rows have kept all distances to each other, and have not been mirrored."""
    a, b = before[rows], after[rows]
    distances = [np.linalg.norm(x[:, None] - x[None], axis=-1) for x in (a, b)]
    np.testing.assert_allclose(distances[1], distances[0], rtol=rtol, atol=rtol * distances[0].max())
    volumes = [np.linalg.det(x[1 : x.shape[1] + 1] - x[0]) for x in (a, b) if len(x) > x.shape[1]]
    assert not volumes or abs(volumes[0]) < 1e-9 or volumes[0] * volumes[1] > 0


def assert_kept(skeleton, x, rtol=1e-9):
    """Bone lengths and group shapes are those of rest."""
    a, b = skeleton.bones.T
    expected = np.linalg.norm(skeleton.rest[b] - skeleton.rest[a], axis=1)
    np.testing.assert_allclose(np.linalg.norm(x[b] - x[a], axis=1), expected, rtol=rtol)
    for group in skeleton.groups:
        assert_rigid(skeleton.rest, x, list(group), rtol)


# A body in space: a spine, two arms from its middle, a pair at an elbow, a hand with a finger, a free group.
SPINE, LEFT, RIGHT, FINGER = [0, 1, 2], [1, 3, 4, 5], [1, 6, 7], [9, 10]
ELBOW_PAIR, HAND, FREE = [4, 8], [5, 9, 11], [12, 13, 14]
BODY = np.array(
    [[0, 0, 0], [0, 1, 0], [0, 2, 0.1], [0.5, 1, 0], [1, 0.8, 0.1], [1.5, 1, 0], [-0.5, 1, 0], [-1, 0.7, 0.2]]
    + [
        [1, 0.9, 0.2],
        [1.6, 1.1, 0],
        [1.8, 1.1, 0],
        [1.6, 0.9, 0.1],
        [4, 0, 0],
        [4, 1, 0],
        [4, 0, 1],
        [7, 7, 7],
    ],
    float,
)
GROUPS = [ELBOW_PAIR, HAND, FREE]


def body(d=3):
    return Skeleton(BODY[:, :d], chains=[FINGER, LEFT, SPINE, RIGHT], groups=GROUPS)


# Lengths and shapes


@pytest.mark.parametrize("d", [2, 3])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_lengths_and_shapes_are_kept_by_any_sequence_of_moves(d, seed):
    rng = np.random.default_rng(seed)
    skeleton, x = body(d), BODY[:, :d]
    for _ in range(8):
        if rng.random() < 0.3:
            joint = int(rng.choice([0, 1, 3, 4, 5, 9, 13]))
            y = skeleton.rotate(x, joint, turn_by(rng.uniform(-3, 3), d, rng.normal(size=3)))
        else:
            handles = rng.choice(len(x), rng.integers(1, 5), replace=False)
            size = 10.0 ** rng.integers(-6, 2)
            y = skeleton.drag(x, {int(h): x[h] + size * rng.normal(size=d) for h in handles})
        assert np.isfinite(y).all()
        assert_kept(skeleton, y)
        x = y


@given(
    seed=st.integers(0, 2**32 - 1),
    bones=st.integers(1, 8),
    d=st.sampled_from([2, 3]),
    where=st.sampled_from(
        [-9.0, -0.5, -1e-9, 0.0, 1e-12, 1e-8, 1e-4, 0.01, 0.3, 0.7, 0.99, 1 - 1e-4, 1 - 1e-8, 1.0, 1.5, 40.0]
    ),
    pose=st.sampled_from(["any", "straight", "folded"]),
    aligned=st.booleans(),
    dominated=st.booleans(),
)
@example(seed=0, bones=3, d=2, where=0.3, pose="straight", aligned=True, dominated=False)
@example(seed=1, bones=2, d=2, where=-0.5, pose="any", aligned=False, dominated=True)
def test_the_tip_comes_as_near_as_it_can(seed, bones, d, where, pose, aligned, dominated):
    """Chains in any pose, targets from too near to too far: the reach of the chain decides."""
    rng = np.random.default_rng(seed)
    lengths = rng.uniform(0.2, 2.0, bones)
    if dominated:
        lengths[rng.integers(bones)] += lengths.sum()
    rest = now = random_chain(rng, lengths, d)
    if pose != "any":
        signs = np.ones(bones) if pose == "straight" else rng.choice([-1.0, 1.0], bones)
        now = np.vstack([np.zeros(d), np.outer(np.cumsum(signs * lengths), unit(rng.normal(size=d)))])
    least, most = max(0.0, 2 * lengths.max() - lengths.sum()), lengths.sum()
    direction = unit(now[1]) if aligned else unit(rng.normal(size=d))
    distance = max(0.0, least + where * (most - least))
    x = Skeleton(rest, [range(bones + 1)]).drag(now, {bones: distance * direction})
    nearest = np.clip(distance, least, most)
    assert np.linalg.norm(x[-1]) == pytest.approx(nearest, abs=1e-12 * most)
    assert distance == 0 or np.linalg.norm(x[-1] - nearest * direction) <= 1e-12 * most
    np.testing.assert_allclose(lengths_of(x), lengths, rtol=1e-12)
    assert np.array_equal(x[0], now[0])


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("distance", [0.05, 0.2, 0.9, 1.7, 2.0, 2.4, 3.0])
def test_two_bones_are_the_triangle_of_the_law_of_cosines(rng, d, distance):
    """Bones 1.3 and 0.9 reach from 0.4 to 2.2; the nearest the tip can be is found by brute force as well."""
    a, b = 1.3, 0.9
    rest = random_chain(rng, [a, b], d)
    target = distance * unit(rng.normal(size=d))
    x = Skeleton(rest, [[0, 1, 2]]).drag(rest, {2: target})
    c = np.clip(distance, a - b, a + b)
    cosine = unit(x[0] - x[1]) @ unit(x[2] - x[1])
    assert cosine == pytest.approx((a * a + b * b - c * c) / (2 * a * b), abs=1e-12)

    def miss(angles):
        first = a * np.array([np.cos(angles[0]), np.sin(angles[0])])
        return np.hypot(*(first + b * np.array([np.cos(angles[1]), np.sin(angles[1])]) - [distance, 0.0]))

    _, least, _, _ = brute(miss, [(-np.pi, np.pi)] * 2, Ns=40, full_output=True)
    assert np.linalg.norm(x[2] - target) == pytest.approx(least, abs=1e-3)  # as well as its simplex stops
    assert np.linalg.norm(x[2] - target) <= least + ROUNDING


def test_two_bones_stay_in_their_plane_and_on_their_side(rng):
    rest = random_chain(rng, [1.3, 0.9])
    target = unit(rng.normal(size=3)) * 1.5
    x = Skeleton(rest, [[0, 1, 2]]).drag(rest, {2: target})
    before, after = (p - (p @ unit(target)) * unit(target) for p in (rest[1], x[1]))
    assert_near(unit(after), unit(before), 1e-12)


@pytest.mark.parametrize("d", [2, 3])
def test_the_pose_is_that_of_the_textbook(rng, d):
    """FABRIK as Aristidou and Lasenby write it, swept to the end, for targets where it comes to one."""
    for _ in range(10):
        lengths = rng.uniform(0.5, 1.5, 5)
        rest = random_chain(rng, lengths, d)
        target = unit(rng.normal(size=d)) * rng.uniform(0.4, 0.8) * lengths.sum()
        x = rest.copy()
        while np.linalg.norm(x[-1] - target) > 1e-13:
            x[-1] = target
            for i in range(4, -1, -1):
                x[i] = x[i + 1] + lengths[i] * unit(x[i] - x[i + 1])
            x[0] = rest[0]
            for i in range(5):
                x[i + 1] = x[i] + lengths[i] * unit(x[i + 1] - x[i])
        found = Skeleton(rest, [range(6)]).drag(rest, {5: target})
        # It is left at 1e-6 of the length of the chain; further sweeps would move joints by some times that.
        assert_near(found, x, 1e-5 * lengths.sum())


# Where inverse kinematics is singular


@pytest.mark.parametrize("d", [2, 3])
def test_an_unreachable_target_stretches_the_chain_straight_to_it(rng, d):
    lengths = np.array([0.7, 1.1, 0.4])
    rest = random_chain(rng, lengths, d) + rng.normal(size=d)
    target = rest[0] + 5.0 * unit(rng.normal(size=d))
    x = Skeleton(rest, [range(4)]).drag(rest, {3: target})
    expected = rest[0] + np.outer([0.0, 0.7, 1.8, 2.2], unit(target - rest[0]))
    assert_near(x, expected)


def test_a_target_nearer_than_the_longest_bone_allows_folds_the_chain_on_its_line(rng):
    rest = random_chain(rng, [0.5, 3.0, 0.7])
    toward = unit(rng.normal(size=3))
    x = Skeleton(rest, [range(4)]).drag(rest, {3: 0.6 * toward})
    assert_near(x, np.outer([0.0, -0.5, 2.5, 1.8], toward))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("lengths", [[1, 1], [1, 0.4], [1, 1, 1], [1, 2, 1], [0.3, 0.5, 2, 0.1], [1] * 7])
@pytest.mark.parametrize("straight", [False, True])
def test_a_target_on_the_root(rng, d, lengths, straight):
    rest = random_chain(rng, lengths, d)
    now = np.outer([0, *np.cumsum(lengths)], np.eye(d)[0]) if straight else rest
    x = Skeleton(rest, [range(len(rest))]).drag(now, {len(rest) - 1: rest[0]})
    least = max(0.0, 2 * max(lengths) - sum(lengths))
    assert np.linalg.norm(x[-1]) == pytest.approx(least, abs=1e-12)
    np.testing.assert_allclose(lengths_of(x), lengths, rtol=1e-12)


def test_two_equal_bones_with_the_target_on_the_root_leave_the_elbow_where_it_is(rng):
    rest = random_chain(rng, [1.0, 1.0])
    x = Skeleton(rest, [[0, 1, 2]]).drag(rest, {2: rest[0]})
    assert_near(x, rest[[0, 1, 0]])


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("distance", [2.9999, 2.5, 1.0, 0.1, -1.0])
def test_a_straight_chain_pushed_inwards_bends(d, distance):
    rest = np.outer(np.arange(4.0), np.eye(d)[0])
    x = Skeleton(rest, [range(4)]).drag(rest, {3: distance * np.eye(d)[0]})
    assert_near(x[3], distance * np.eye(d)[0])
    np.testing.assert_allclose(lengths_of(x), 1.0, rtol=1e-12)
    assert (
        np.abs(x[1:3, 1]).min() > 0.005
    )  # both joints leave the line, the least 3 - 2.9999 asks of one is 0.01
    assert np.array_equal(x, Skeleton(rest, [range(4)]).drag(rest, {3: distance * np.eye(d)[0]}))


@pytest.mark.parametrize("bend", [0.0, 0.3], ids=["straight at rest", "bent at rest"])
def test_a_stretched_chain_bends_alike_wherever_its_root_is(bend):
    rest = np.array([[0.0, 0.0, 0.0], [1.0, bend, 0.0], [2.0, 0.0, bend], [3.0, 0.0, 0.0]])
    poses = []
    for root in (np.zeros(3), np.array([4.0, -2.0, 3.0])):
        arm = Skeleton(rest + root, [range(4)])
        stretched = arm.drag(rest + root, {3: root + [0.0, 9.0, 0.0]})
        poses.append(arm.drag(stretched, {3: root + [0.3, 1.7, 0.5]}) - root)
    # The sweeps end at 1e-6 of the length, and rounding does not decide when.
    assert_near(poses[1], poses[0], 1e-12)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_stretched_chain_bends_back_to_the_side_of_rest(side):
    rest = np.array([[0.0, 0.0], [1.0, side * 0.3], [2.0, 0.0]])
    arm = Skeleton(rest, [[0, 1, 2]])
    for far in np.linspace(0.0, 6.0, 7):
        stretched = arm.drag(rest, {2: 9.0 * np.array([np.cos(far), np.sin(far)])})
        for angle in far + np.linspace(-1.0, 1.0, 5):
            _, elbow, hand = arm.drag(stretched, {2: 1.9 * np.array([np.cos(angle), np.sin(angle)])})
            assert side * (hand[0] * elbow[1] - hand[1] * elbow[0]) > 0.1


@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("distance", [0.5, 1.0, np.sqrt(2.0), 1.9])
def test_a_target_in_line_with_the_elbow_keeps_the_bend(side, distance):
    """A forearm to the left of the arm stays there, though the elbow is on the line to the target."""
    rest = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, side]])
    _, elbow, hand = Skeleton(rest, [[0, 1, 2]]).drag(rest, {2: [distance, 0.0]})
    assert_near(hand, [distance, 0.0])
    assert side * elbow[1] < -0.1


@pytest.mark.parametrize("d", [2, 3])
def test_a_pose_that_has_collapsed_is_mended(d):
    skeleton = body(d)
    x = skeleton.drag(np.zeros_like(skeleton.rest), {5: np.ones(d), 0: np.zeros(d), 12: np.ones(d)})
    assert np.isfinite(x).all()
    x = skeleton.drag(2.0 * BODY[:, :d], {0: np.ones(d), 12: np.ones(d)})
    assert_kept(skeleton, x, rtol=1e-12)


# Continuity


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("bones", [2, 3, 6])
def test_small_moves_give_small_changes(rng, d, bones):
    """Along a closed path within reach, joints move no more than some times what the tip moves."""
    rest = random_chain(rng, rng.uniform(0.8, 1.0, bones), d)
    skeleton = Skeleton(rest, [range(bones + 1)])
    angles = np.linspace(0.0, 2.0 * np.pi, 200)
    path = np.stack([0.5 + 0.3 * np.cos(angles), 0.3 * np.sin(2 * angles), 0.3 * np.sin(angles)], axis=1)
    path = path[:, :d] * lengths_of(rest).sum()
    x = skeleton.drag(rest, {bones: path[0]})
    for before, after in pairwise(path):
        y = skeleton.drag(x, {bones: after})
        # The elbow of two like bones moves 1 / cos(half their angle) as far, less than 4 on this path.
        assert np.linalg.norm(y - x, axis=1).max() <= 4.0 * np.linalg.norm(after - before)
        x = y


def test_the_pose_is_continuous_where_the_target_leaves_the_reach(rng):
    """Across the border joints move with the square root of the step, as those of two bones do exactly."""
    rest = random_chain(rng, [1.0, 0.8, 1.2])
    skeleton, toward = Skeleton(rest, [range(4)]), unit(rng.normal(size=3))
    stretched = skeleton.drag(rest, {3: 4.0 * toward})  # at 3.0 itself, rounding decides on which side it is
    for step in (1e-2, 1e-4, 1e-6, 1e-8, 1e-10):
        inside = skeleton.drag(stretched, {3: (3.0 - step) * toward})
        assert 0.0 < np.linalg.norm(inside - stretched, axis=1).max() < 2.0 * np.sqrt(step)
        again = skeleton.drag(inside, {3: (3.0 + step) * toward})
        assert_near(again, stretched)


def test_a_move_to_where_a_handle_is_changes_nothing(rng):
    skeleton = body()
    x = skeleton.drag(BODY, {5: [1.0, 1.5, 0.7], 7: [-0.9, 1.0, 0.4]})
    for handle in range(len(BODY)):
        assert_near(skeleton.drag(x, {handle: x[handle]}), x, 1e-12)


# Groups


@pytest.mark.parametrize("d", [2, 3])
def test_one_handle_shifts_its_group(d):
    skeleton, shift = body(d), np.array([0.3, -2.0, 0.7])[:d]
    x = skeleton.drag(BODY[:, :d], {13: BODY[13, :d] + shift})
    expected = BODY[:, :d].copy()
    expected[FREE] += shift
    assert_near(x, expected)
    assert np.array_equal(x[:12], BODY[:12, :d])


@pytest.mark.parametrize("d", [2, 3])
def test_handles_dragged_together_turn_their_group(rng, d):
    turn, shift = turn_by(0.8, d, (1.0, 2.0, 3.0)), rng.normal(size=d)
    moved = BODY[FREE, :d] @ turn.T + shift
    x = body(d).drag(BODY[:, :d], dict(zip(FREE, moved, strict=True)))
    assert_near(x[FREE], moved)
    if d == 2:  # two handles determine a turn in the plane
        x = body(d).drag(BODY[:, :d], dict(zip(FREE[:2], moved, strict=False)))
        assert_near(x[FREE], moved)


def test_two_handles_in_space_turn_their_group_no_more_than_needed():
    """12 and 13 are on an axis that goes from y to x: the third is carried by the quarter turn about z."""
    rest = BODY[FREE]
    x = Skeleton(rest, groups=[[0, 1, 2]]).drag(rest, {0: [0, 0, 0], 1: [1, 0, 0]})
    assert_near(x, [[0, 0, 0], [1, 0, 0], [0, 0, 1]])
    turned = rest @ turn_by(1.0, 3, (0, 1, 0)).T  # the spin that it has now stays
    x = Skeleton(rest, groups=[[0, 1, 2]]).drag(turned, {0: turned[0], 1: turned[1]})
    assert_near(x, turned)


def test_targets_at_the_wrong_distance_share_the_error():
    rest = np.array([[0.0, 0.0], [1.0, 0.0]])
    x = Skeleton(rest, groups=[[0, 1]]).drag(rest, {0: [0.0, 0.0], 1: [0.0, 3.0]})
    assert_near(x, [[0.0, 1.0], [0.0, 2.0]])


@pytest.mark.parametrize("d", [2, 3])
def test_a_group_dragged_to_one_point_or_turned_over_keeps_its_shape(d):
    rest = BODY[FREE, :d]
    skeleton = Skeleton(rest, groups=[[0, 1, 2]])
    assert_kept(skeleton, skeleton.drag(rest, {0: np.ones(d), 1: np.ones(d), 2: np.ones(d)}))
    over = skeleton.drag(rest, {0: rest[1], 1: rest[0]})
    assert_kept(skeleton, over)
    assert_near(over[:2], rest[[1, 0]])


def test_a_pair_at_the_elbow_follows_the_forearm(rng):
    skeleton = body()
    x = skeleton.drag(BODY, {5: [1.2, 1.4, 0.5]})
    assert np.linalg.norm(x[8] - BODY[8]) > 0.05
    assert_rigid(BODY, x, [4, 5, 8])  # the mate 8 with the bone 4, 5
    assert abs(np.linalg.norm(x[8] - x[3]) - np.linalg.norm(BODY[8] - BODY[3])) > 1e-3  # not with 3, 4


def test_a_group_at_the_tip_and_the_chain_on_it_follow_the_last_bone():
    x = body().drag(BODY, {5: [1.2, 1.4, 0.5]})
    assert_rigid(BODY, x, [4, 5, 9, 10, 11])


@pytest.mark.parametrize("d", [2, 3])
def test_dragging_the_mate_moves_the_joint(d):
    """One handle shifts its group: the elbow is reached for, and then the pair follows its bone."""
    now, shift = BODY[:, :d], np.array([-0.1, 0.1, 0.05])[:d]
    x, y = (body(d).drag(now, {handle: now[handle] + shift}) for handle in (4, 8))
    assert_near(y, x)


@pytest.mark.parametrize("d", [2, 3])
def test_dragging_the_pair_places_the_elbow_and_turns_the_forearm(d):
    now = BODY[:, :d]
    turn, elbow = turn_by(0.7, d), np.array([0.9, 1.2, 0.1])[:d]
    mate = elbow + turn @ (now[8] - now[4])
    x = body(d).drag(now, {4: elbow, 8: mate})
    assert_near(x[[4, 8]], [elbow, mate], 1e-12)
    assert_rigid(now, x, [4, 5, 8, 9, 10, 11])


def test_a_root_follows_its_group():
    rest = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, -1.0], [1.5, -2.0]])  # a torso 0, 1; an arm 1, 2, 3
    skeleton = Skeleton(rest, chains=[[1, 2, 3]], groups=[[0, 1]])
    x = skeleton.drag(rest, {0: [0.0, 0.0], 1: [0.0, 1.0]})
    assert_near(x, [[0, 0], [0, 1], [1, 1], [2, 1.5]])
    y = skeleton.drag(rest, {3: [2.0, 0.0]})
    assert np.array_equal(y[:2], rest[:2])  # it does not turn with the arm


# Branches


def test_branches_are_carried_and_others_stay():
    skeleton = body()
    everything = [*range(12)]
    x = skeleton.drag(BODY, {0: [1.0, 2.0, 3.0]})  # the root of all
    assert_near(x[everything], BODY[everything] + [1.0, 2.0, 3.0])
    assert np.array_equal(x[12:], BODY[12:])
    x = skeleton.drag(BODY, {2: [0.9, 1.5, 0.4]})  # the arms follow the bone from 1 to 2
    assert_kept(skeleton, x)
    assert np.linalg.norm(x[1] - BODY[1]) > 0.1
    assert_rigid(BODY, x, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
    x = skeleton.drag(BODY, {7: [-0.6, 1.6, 0.4]})  # one hand
    still = [h for h in range(len(BODY)) if h not in (6, 7)]
    assert np.array_equal(x[still], BODY[still])
    assert_near(x[7], [-0.6, 1.6, 0.4])


def test_what_hangs_is_dragged_after_what_it_hangs_from():
    """Both hands and the spine at once, in any order: all are where they should be."""
    moves = {2: [0.5, 1.6, 0.3], 5: [1.0, 1.3, 0.4], 7: [-0.2, 1.4, 0.5]}
    x = body().drag(BODY, moves)
    assert_near(x[list(moves)], list(moves.values()), 1e-12)
    other = Skeleton(BODY, chains=[SPINE, RIGHT, LEFT, FINGER], groups=GROUPS)
    assert np.array_equal(other.drag(BODY, dict(reversed(moves.items()))), x)


@pytest.mark.parametrize(
    ("handle", "moved"),
    [
        (5, [3, 4, 5, 8, 9, 10, 11]),
        (10, [10]),
        (7, [6, 7]),
        (14, FREE),
        (15, [15]),
        (4, [3, 4, 5, 8, 9, 10, 11]),
    ],
)
def test_what_does_not_move_keeps_every_bit(rng, handle, moved):
    skeleton = body()
    x = skeleton.drag(BODY, {h: BODY[h] + 0.1 * rng.normal(size=3) for h in (0, 2, 5, 7, 10, 12, 13, 14)})
    y = skeleton.drag(x, {handle: x[handle] + 0.1})
    assert np.flatnonzero((x != y).any(axis=1)).tolist() == sorted(moved)


def test_chains_from_one_root_turn_apart():
    rest = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    x = Skeleton(rest, chains=[[0, 1], [0, 2]]).drag(rest, {1: [-3.0, 0.0]})
    assert_near(x, [[0.0, 0.0], [-1.0, 0.0], [1.0, 0.0]])


def test_the_rest_of_the_chain_follows_a_joint_in_its_middle(rng):
    rest = random_chain(rng, [1.0, 1.0, 1.0, 1.0])
    skeleton = Skeleton(rest, [range(5)])
    target = rest[2] + 0.2 * rng.normal(size=3)
    x = skeleton.drag(rest, {2: target})
    assert_rigid(rest, x, [1, 2, 3, 4])
    both = skeleton.drag(rest, {2: target, 4: x[4] + [0.0, 0.1, -0.1]})
    assert np.array_equal(both[:3], x[:3])
    assert_near(both[4], x[4] + [0.0, 0.1, -0.1], 1e-12)


def test_a_pair_at_a_dragged_elbow_follows_the_forearm_to_a_dragged_hand():
    now = BODY
    x = body().drag(now, {4: [0.9, 1.2, 0.1], 5: [0.7, 1.6, 0.3]})
    assert_near(x[[4, 5]], [[0.9, 1.2, 0.1], x[5]], 1e-12)
    assert unit(x[5] - x[4]) @ unit(np.array([0.7, 1.6, 0.3]) - x[4]) == pytest.approx(1.0, abs=1e-12)
    assert_rigid(now, x, [4, 5, 8])


# Rotations


def test_a_rotation_is_rounded_to_a_rotation():
    turn = turn_by(0.6, 3).round(6)  # as from a file
    assert_rigid(BODY, body().rotate(BODY, 0, turn), [*range(12)])


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize(
    ("joint", "below"),
    [(0, range(1, 12)), (1, range(2, 12)), (3, [4, 5, 8, 9, 10, 11]), (4, [5, 8, 9, 10, 11]), (6, [7])]
    + [(5, [9, 10, 11]), (9, [10]), (13, [12, 14])],
)
def test_rotate_turns_what_is_below_the_joint(d, joint, below):
    now, turn, below = BODY[:, :d], turn_by(0.6, d, (3.0, 2.0, 1.0)), list(below)
    x = body(d).rotate(now, joint, turn)
    expected = now.copy()
    expected[below] = now[joint] + (now[below] - now[joint]) @ turn.T
    assert_near(x, expected)
    still = [h for h in range(len(now)) if h not in below and (joint != 13 or h not in FREE)]
    assert np.array_equal(x[still], now[still])


# Precision, purity


def test_nothing_is_modified_and_the_same_comes_out():
    skeleton, now, moves = body(), BODY.copy(), {5: np.array([1.2, 1.4, 0.5])}
    now.flags.writeable = moves[5].flags.writeable = False
    assert np.array_equal(skeleton.drag(now, moves), skeleton.drag(now, moves))
    assert not np.shares_memory(skeleton.drag(now, {}), now)
    assert np.array_equal(skeleton.drag(now, {}), now)
    with pytest.raises(ValueError, match="read-only"):
        skeleton.rest[0] = 0.0
    mine = BODY.copy()
    Skeleton(mine)
    mine[0] = 1.0


def test_errors_of_rounding_do_not_add_up(rng):
    """In 32 bits, a hundred times the pose's size from the origin: after 300 moves as after one."""
    rest = (BODY + 100.0).astype(np.float32)
    skeleton = Skeleton(rest, chains=[FINGER, LEFT, SPINE, RIGHT], groups=GROUPS)
    x = rest
    for _ in range(300):
        handle = int(rng.choice([0, 2, 5, 7, 12]))
        x = skeleton.drag(x, {handle: BODY[handle] + 100.0 + 0.3 * rng.normal(size=3)})
        assert x.dtype == np.float32
    # 4e-6 is the rounding of each end at 100, and the shortest distance is 0.14.
    assert_kept(skeleton, x.astype(float), rtol=2 * 2 * 4e-6 / 0.14)
    assert skeleton.drag(x.astype(float), {0: [0.0, 0.0, 0.0]}).dtype == np.float64


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rest": np.zeros((3, 4))}, r"rest must have shape \(H, 3\) or \(H, 2\).*got \(3, 4\)"),
        ({"rest": np.zeros((0, 3))}, r"at least one row, got \(0, 3\)"),
        ({"rest": [[0.0, np.nan, 0.0]]}, r"rest must be finite, got nan at index \[0, 1\]"),
        ({"chains": [[0, 1], [2, 16]]}, r"chains\[1\] must name some of the 16 handles, got \[2, 16\]"),
        ({"groups": [[0, -1]]}, r"groups\[0\] must name some of the 16 handles, got \[0, -1\]"),
        ({"chains": [[0, 1, 0]]}, r"chains\[0\] must name two handles at least, each once, got \[0, 1, 0\]"),
        ({"groups": [[3]]}, r"groups\[0\] must name two handles at least, each once, got \[3\]"),
        ({"chains": [[0.5, 1.5]]}, r"chains\[0\] must hold whole numbers, got dtype float64"),
        ({"chains": [0, 1]}, r"chains\[0\] must be a flat list of whole numbers, got shape \(\)"),
        ({"chains": 3}, r"chains must be lists of handles, got int"),
        (
            {"chains": [[0, 1, 2], [3, 2]]},
            r"chains must not share handles, got 2 in chains\[0\] and chains\[1\]",
        ),
        (
            {"groups": [[0, 1], [1, 2]]},
            r"groups must not share handles, got 1 in groups\[0\] and groups\[1\]$",
        ),
        (
            {"chains": [[0, 1, 2]], "groups": [[1, 2]]},
            r"groups\[0\] must follow one .* at most, got \[1, 2\]",
        ),
        ({"chains": [[0, 1], [1, 0]]}, r"not start on themselves, got a circle in handles \[0, 1\]"),
        (
            {"chains": [[0, 1]], "groups": [[0, 1]]},
            r"not start on themselves, got a circle in handles \[0, 1\]",
        ),
        ({"rest": np.zeros((2, 3)), "chains": [[0, 1]]}, r"a length, got 0.0 from handle 0 to handle 1"),
    ],
)
def test_skeletons_that_cannot_be(options, message):
    with pytest.raises(InputError, match=message):
        Skeleton(**{"rest": BODY, **options})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.drag(BODY[:4], {}), r"handles_now must have shape \(16, 3\) like rest, got \(4, 3\)"),
        (lambda s: s.drag(BODY * np.inf, {}), r"handles_now must be finite, got nan"),
        (lambda s: s.drag(BODY, [1]), r"moves must be a dict, {handle: position}, got list"),
        (lambda s: s.drag(BODY, {16: BODY[0]}), r"moves must be the number of one of the 16 handles, got 16"),
        (lambda s: s.drag(BODY, {-1: BODY[0]}), r"one of the 16 handles, got -1"),
        (lambda s: s.drag(BODY, {"hand": BODY[0]}), r"one of the 16 handles, got 'hand'"),
        (lambda s: s.drag(BODY, {5: [0.0, 0.0]}), r"moves\[5\] must have shape \(3,\), got \(2,\)"),
        (lambda s: s.drag(BODY, {5: [0.0, np.inf, 0.0]}), r"moves\[5\] must be finite, got inf"),
        (lambda s: s.rotate(BODY, 4, np.eye(2)), r"rotation must have shape \(3, 3\), got \(2, 2\)"),
        (lambda s: s.rotate(BODY, 4, -np.eye(3)), "rotation must be rotations, but it reflects"),
        (
            lambda s: s.rotate(BODY, 4, 2 * np.eye(3)),
            r"rotation must be rotations, but R R\^T is off by 3.0e\+00",
        ),
        (lambda s: s.rotate(BODY, 4, np.full((3, 3), np.nan)), r"rotation must be finite, got nan"),
        (lambda s: s.rotate(BODY, True, np.eye(3)), r"joint must be the number of one .*, got True"),
        (lambda s: s.rotate(BODY, 15, np.eye(3)), r"with something below it to turn, got 15"),
        (lambda s: s.rotate(BODY, 2, np.eye(3)), r"with something below it to turn, got 2"),
        (lambda s: s.rotate(BODY, 8, np.eye(3)), r"with something below it to turn, got 8"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in multiply")
def test_moves_that_cannot_be(call, message):
    with pytest.raises(InputError, match=message):
        call(body())
