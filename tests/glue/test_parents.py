"""Which points carry a target."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import pointglue as pg
from pointglue.errors import DegenerateFitError, InputError
from pointglue.geometry import shapes


def parents_of(glue, k):
    return set(glue.parents.indices[glue.parents.offsets[k] : glue.parents.offsets[k + 1]].tolist())


def test_nearest_by_brute_force(rng):
    rest, targets = rng.random((500, 3)), rng.random((60, 3))
    glue = pg.bind_glue(rest, targets, parents=9, falloff="uniform")
    nearest = np.argsort(cdist(targets, rest), axis=1)[:, :9]
    for k in range(60):
        assert parents_of(glue, k) == set(nearest[k].tolist())


def test_all_within_a_radius(rng):
    rest, targets = rng.random((800, 3)), rng.random((20, 3))
    glue = pg.bind_glue(rest, targets, radius=0.35)
    within = cdist(targets, rest) <= 0.35
    for k in range(20):
        assert parents_of(glue, k) == set(np.flatnonzero(within[k]).tolist())


def test_only_among_the_allowed(rng):
    rest, targets = rng.random((300, 3)), rng.random((20, 3))
    allowed = rng.choice(300, 60, replace=False)
    glue = pg.bind_glue(rest, targets, among=allowed, falloff="uniform")
    nearest = allowed[np.argsort(cdist(targets, rest[allowed]), axis=1)[:, :8]]
    for k in range(20):
        assert parents_of(glue, k) == set(nearest[k].tolist())
    near = pg.bind_glue(rest, targets, among=allowed, radius=0.5)
    assert set(near.parents.indices.tolist()) <= set(allowed.tolist())


def rope_with_a_board():
    """Points along a line, dense, and two rows of points beside its far end."""
    rope = np.stack([np.linspace(0, 2, 201), np.zeros(201), np.zeros(201)], axis=1)
    board = np.array([[2.0, 0.3, 0.0], [2.1, 0.3, 0.2], [1.9, 0.35, 0.1], [2.0, 0.5, 0.1]])
    return np.concatenate([rope, board])


def test_the_search_widens_where_nearest_points_are_in_a_line():
    rest, target = rope_with_a_board(), [[1.9, 0.05, 0.0]]
    glue = pg.bind_glue(rest, target)
    assert glue.parents.sizes[0] > 8
    assert parents_of(glue, 0) & {201, 202, 203, 204}
    assert glue.gap(rest)[0] > 1e-3
    turned = rest @ np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]).T
    np.testing.assert_allclose(glue.positions(turned), [[1.9, 0.0, 0.05]], atol=1e-12)


def test_the_search_widens_past_many_points_in_a_line():
    rope = np.stack([np.linspace(0, 1, 1000), np.zeros(1000), np.zeros(1000)], axis=1)
    glue = pg.bind_glue(np.concatenate([rope, rope + [0, 1, 0]]), [[0.5, 0.1, 0]])
    # The least gap that the search is content with, 0.02, to which the reach is interpolated.
    assert glue.gap(glue.shape.rest)[0] == pytest.approx(0.02, rel=1e-3)


def test_a_narrow_strip_makes_a_frame_where_there_is_nothing_wider():
    along = np.linspace(0, 1, 40)
    strip = np.stack([along, 0.001 * (-1.0) ** np.arange(40), np.zeros(40)], axis=1)
    glue = pg.bind_glue(strip, [[0.5, 0.1, 0.0]])
    assert parents_of(glue, 0) == set(range(40))
    assert 1e-6 < glue.gap(strip)[0] < 0.02  # neither a line nor as safe as the search would have it


def test_or_names_the_line_as_the_user_chose():
    with pytest.raises(DegenerateFitError, match=r"target 1 has no frame: its parents \[.*190.*\] lie on"):
        pg.bind_glue(
            rope_with_a_board(), [[2.0, 0.3, 0.0], [1.9, 0.01, 0.0]], on_collinear="raise", parents=4
        )


def test_a_line_with_nothing_beside_it_is_refused():
    with pytest.raises(
        DegenerateFitError,
        match=r"target 0 has no frame.*There are no points off the line among the nearest 201",
    ):
        pg.bind_glue(rope_with_a_board()[:201], [[1.0, 0.5, 0.0]])


@pytest.mark.parametrize("how", [{"indices": [[3, 4, 5, 6]]}, {"radius": 0.1}], ids=["indices", "radius"])
def test_chosen_parents_in_a_line_are_refused(how):
    with pytest.raises(DegenerateFitError, match=r"target 0 has no frame: its parents \["):
        pg.bind_glue(rope_with_a_board(), [[0.05, 0.01, 0.0]], **how)


def test_weights_that_leave_a_line_are_refused():
    with pytest.raises(DegenerateFitError, match=r"target 0 has no frame.*or weigh, some off that line"):
        pg.bind_glue(rope_with_a_board(), [[2, 0, 1]], indices=[[0, 50, 200, 201]], weights=[[1, 1, 1, 0]])


def two_sleeves():
    """Two closed tubes that nearly touch, as one list of vertices."""
    vertices, faces = shapes.box((0.2, 2.0, 0.2), (4, 40, 4))
    return np.concatenate([vertices, vertices + [0.22, 0, 0]]), np.concatenate([faces, faces + len(vertices)])


def test_neighbours_along_the_surface_stay_on_one_sleeve():
    rest, faces = two_sleeves()
    target = [[0.105, 0.3, 0.02]]  # in the slit, nearer to the first
    in_space, on_surface = (
        pg.bind_glue(rest, target, parents=12),
        pg.bind_glue(rest, target, faces=faces, parents=12),
    )
    half = len(rest) // 2
    assert {row >= half for row in parents_of(in_space, 0)} == {False, True}
    assert {row >= half for row in parents_of(on_surface, 0)} == {False}
    # The sleeve follows its own arm.
    swung = rest.copy()
    swung[half:] += [0.5, 0.0, 0.0]
    np.testing.assert_allclose(on_surface.positions(swung), target, atol=1e-12)


def test_surface_neighbours_are_the_nearest_of_their_rings(rng):
    rest, faces = shapes.box((1.0, 1.0, 1.0), (10, 10, 10))
    targets = rest[rng.choice(len(rest), 30)] + 0.01 * rng.standard_normal((30, 3))
    glue = pg.bind_glue(rest, targets, faces=faces, parents=7, falloff="uniform")
    # On a convex box, near its surface, nearest along the surface is nearest.
    distance = cdist(targets, rest)
    for k in range(30):
        chosen = np.sort(distance[k][list(parents_of(glue, k))])
        np.testing.assert_allclose(chosen, np.sort(distance[k])[:7], atol=1e-12)


def test_a_component_with_too_few_points_says_so():
    rest = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 5, 0], [1, 5, 0], [0, 6, 1]])
    with pytest.raises(DegenerateFitError, match="target 0"):
        pg.bind_glue(rest, [[0.5, 0.1, 0]], faces=[[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize("falloff", ["smooth", "inverse"])
def test_falloff_favours_near_parents(rng, falloff):
    rest, targets = rng.random((400, 3)), rng.random((30, 3))
    glue = pg.bind_glue(rest, targets, parents=16, falloff=falloff)
    distance = np.linalg.norm(rest[glue.parents.indices] - targets[glue.parents.group_of], axis=1)
    for k in range(30):
        span = slice(glue.parents.offsets[k], glue.parents.offsets[k + 1])
        order = np.argsort(distance[span])
        weights = glue.weights[span][order]
        assert (np.diff(weights) <= 1e-15).all()
        assert 0 < weights[-1] < 0.05
        assert weights.sum() == pytest.approx(1)
    assert glue.weights.max() > 1.5 / 16


def test_a_target_on_a_point_with_falloff():
    rest = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    for falloff in ("smooth", "inverse"):
        glue = pg.bind_glue(rest, rest[:1], parents=4, falloff=falloff)
        np.testing.assert_allclose(glue.positions(2 * rest + 1), glue.positions(2 * rest) + 1, atol=1e-12)


def test_large_scale(rng):
    rest, targets = rng.random((200_000, 3)), rng.random((20_000, 3))
    glue = pg.bind_glue(rest, targets)
    assert len(glue) == 20_000
    assert (glue.gap(rest) > 0.01).all()
    np.testing.assert_allclose(glue.positions(rest), targets, atol=1e-12)


BAD = {
    "parents out of range": ({"indices": [[0, 1, 2, 99]]}, "got 99 for target 0"),
    "negative parents": ({"indices": [[0, 1, 2, -3]]}, "must not be negative, got -3"),
    "fewer than three": ({"indices": [[0, 1]]}, "target 0 has 2 parents, and a frame needs 3"),
    "one point twice": ({"indices": [[0, 7, 1, 7]]}, "target 0 names parent 7 twice"),
    "parents=2": ({"parents": 2}, "parents must be a whole number of at least 3, got 2"),
    "parents=8.0": ({"parents": 8.0}, "parents must be a whole number"),
    "wrong rows": ({"indices": [[0, 1, 2], [0, 1, 2]]}, r"shape \(1, k\), got shape \(2, 3\)"),
    "fractions": ({"indices": [[0.5, 1, 2]]}, "indices must hold whole numbers"),
    "two ways": ({"radius": 1.0, "indices": [[0, 1, 2]]}, "give one of them"),
    "small radius": ({"radius": 1e-3}, "holds 0 points around target 0"),
    "no radius": ({"radius": -1.0}, "radius must be a finite number above 0"),
    "turned weights": (
        {"indices": [[0, 1, 2, 3]], "weights": [[1], [2], [3], [4]]},
        r"4 in all, shaped as indices, got shape \(4, 1\)",
    ),
    "ragged": ({"indices": [[0, 1, 2], [0, 1]]}, "indices must be an array of numbers"),
    "ragged faces": ({"faces": [[0, 1, 2], [0, 1]]}, "faces must be an array of numbers"),
    "min_gap": ({"min_gap": -1}, "min_gap must be"),
    "radius=True": ({"radius": True}, "radius must be a finite number above 0"),
    "weights": ({"weights": [1, 2, 3]}, r"one number per parent, 8 in all, got shape \(3,\)"),
    "negative weights": ({"weights": [1, 1, 1, 1, 1, 1, 1, -1]}, "weights must not be negative"),
    "nan weights": ({"weights": [1, 1, 1, 1, 1, 1, 1, np.nan]}, "weights must be finite"),
    "falloff": ({"falloff": "gauss"}, 'falloff must be "uniform", "smooth" or "inverse", got \'gauss\''),
    "collinear": ({"on_collinear": "maybe"}, "on_collinear must be"),
    "degenerate": ({"on_degenerate": "ignore"}, "on_degenerate must be"),
    "faces": ({"faces": [[0, 1, 50]]}, "faces must index the 20 rest_points"),
    "faces of one": ({"faces": [0, 1, 2]}, "faces must be whole numbers of shape"),
    "among": ({"among": [0, 1, 20]}, "among must name rows of the 20 rest_points, got 20"),
    "negative among": ({"among": [-1, 0, 1, 2]}, "among must name rows of the 20 rest_points, got -1"),
    "among two": ({"among": [0, 1]}, "among must hold at least 3 points"),
    "among and faces": ({"among": [0, 1, 2], "faces": [[0, 1, 2]]}, "leave it out with indices or faces"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_choices_are_named(rng, case):
    options, message = BAD[case]
    with pytest.raises(InputError, match=message):
        pg.bind_glue(rng.random((20, 3)), [[0.5, 0.5, 2.5]], **options)


@pytest.mark.parametrize(
    ("rest", "targets", "message"),
    [
        (np.zeros((0, 3)), [[0, 0, 0]], r"rest_points must have shape .* got \(0, 3\)"),
        (np.eye(3), np.zeros((0, 3)), "targets must have shape"),
        (np.eye(3), [0, 0, 0], "targets must have shape"),
        (np.eye(3), [[0, 0]], "targets must have 3 coordinates like rest_points"),
        (np.eye(3), [[0, np.nan, 0]], r"targets must be finite, got nan at index \[0, 1\]"),
        ([[0, 0, 0], [1, 0, 0], [0, np.inf, 0]], [[0, 0, 0]], "rest_points must be finite, got inf"),
        (np.eye(3)[:2], [[0, 0, 0]], "rest_points must hold at least 3 points"),
        (np.ones((5, 3)), [[0, 0, 0]], "target 0 has no frame"),
        ("abc", [[0, 0, 0]], "rest_points must hold real numbers"),
    ],
)
def test_bad_points_are_named(rest, targets, message):
    with pytest.raises((InputError, DegenerateFitError), match=message):
        pg.bind_glue(rest, targets)


@pytest.fixture
def glue(rng):
    return pg.bind_glue(rng.random((20, 3)), rng.random((4, 3)))


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        (
            "positions",
            [np.zeros((19, 3))],
            r"x must have shape \(20, 3\), one row per parent, got shape \(19, 3\)",
        ),
        ("positions", [np.full((20, 3), np.nan)], "x must be finite"),
        ("velocities", [None, np.zeros((4, 3))], r"v must have shape \(20, 3\)"),
        ("velocities", [None, np.full((20, 3), np.inf)], "v must be finite"),
        ("accelerations", [None, np.zeros((20, 3)), np.zeros((20, 2))], r"a must have shape \(20, 3\)"),
        ("transfer_forces", [None, np.zeros((20, 3))], r"f must have shape \(4, 3\), one row per target"),
        ("hessian", [None, np.full((4, 3), np.nan)], "f must be finite"),
        ("effective_mass", [None, np.ones(4)], r"mass must have shape \(20,\)"),
        ("effective_mass", [None, np.zeros(20)], "mass must be positive, got 0.0 at index 0"),
        ("effective_mass", [None, np.full(20, np.nan)], "mass must be finite"),
        ("time_step", [None, np.ones(20), -1.0], "stiffness must be one positive number"),
        ("time_step", [None, np.ones(20), np.ones(3)], "one for each of 4 targets"),
        ("gap", [np.zeros((3, 3))], r"x must have shape \(20, 3\)"),
    ],
)
def test_mismatched_arrays_are_named(glue, rng, method, arguments, message):
    filled = [rng.random((20, 3)) if a is None else a for a in arguments]
    with pytest.raises(InputError, match=message):
        getattr(glue, method)(*filled)


def test_bad_torques_are_named(glue, rng):
    with pytest.raises(InputError, match=r"torques must have shape \(4, 3\)"):
        glue.at(rng.random((20, 3))).transfer_forces(np.zeros((4, 3)), np.zeros(4))


def test_collapsed_parents_follow_the_policy(rng):
    rest, target = rng.random((8, 3)), [[2.0, 0.0, 0.0]]
    line = rest * [1.0, 0.0, 0.0]
    with pytest.raises(DegenerateFitError, match=r"the parents \[.*\] of target 0 have collapsed and"):
        pg.bind_glue(rest, target).positions(line)
    with pytest.raises(DegenerateFitError, match=r"have collapsed in pose \[1\] and"):
        pg.bind_glue(rest, target).positions(np.stack([rest, line]))
    glue = pg.bind_glue(rest, target, on_degenerate="clamp")
    for x in (line, np.zeros((8, 3)), -rest):
        pose = glue.at(x)
        assert pose.degenerate.tolist() == [bool(glue.gap(x)[0] < 1e-8)]
        for values in (pose.positions, pose.blocks, pose.velocities(rest), pose.transfer_forces(target)):
            assert np.isfinite(values).all()
    assert pose.fit.gap.shape == (1,)
    # The spin stays that of the frame before.
    turned = glue.at(rest @ np.diag([1.0, -1.0, -1.0]))
    held = glue.at(line, previous=turned.rotations)
    assert held.degenerate.all()
    assert np.trace(held.rotations[0] @ turned.rotations[0].T) > np.trace(
        glue.at(line).rotations[0] @ turned.rotations[0].T
    )
    assert (glue.gap(line) < 1e-8).all()
