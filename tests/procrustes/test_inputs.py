"""Bad input: each error names the argument and what arrived."""

import numpy as np
import pytest

import pointglue as pg
from pointglue.compute import parallel
from pointglue.errors import InputError, PointglueError

GOOD = np.random.default_rng(3).standard_normal((4, 3))


def refuses(match, *arguments, **options):
    with pytest.raises(InputError, match=match):
        pg.fit_rigid(*arguments, **options)


def test_input_error_is_a_value_error():
    assert issubclass(InputError, ValueError)
    assert issubclass(InputError, PointglueError)


@pytest.mark.parametrize("which", ["rest", "points"])
class TestPoints:
    def call(self, which, value):
        return (value, GOOD) if which == "rest" else (GOOD, value)

    def test_flat_list(self, which):
        refuses(
            rf"{which} must have shape \(\.\.\., n, 3\).*got shape \(3,\)", *self.call(which, [1.0, 2, 3])
        )

    def test_four_columns(self, which):
        refuses(rf"{which} must have shape.*got shape \(4, 4\)", *self.call(which, np.ones((4, 4))))

    def test_empty(self, which):
        refuses(
            rf"{which} must hold at least one point, got shape \(0, 3\)", *self.call(which, np.empty((0, 3)))
        )

    def test_empty_batch(self, which):
        refuses(
            rf"{which} must hold at least one point, got shape \(0, 4, 3\)",
            *self.call(which, np.empty((0, 4, 3))),
        )

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_not_finite(self, which, bad):
        value = GOOD.copy()
        value[2, 1] = bad
        refuses(rf"{which} must be finite, got {bad} at index \[2, 1\]$", *self.call(which, value))
        value[3] = bad
        refuses(rf"{which} must be finite, .* and 3 more such", *self.call(which, value))

    def test_text(self, which):
        refuses(rf"{which} must hold real numbers, got dtype", *self.call(which, [["a", "b", "c"]]))

    def test_complex(self, which):
        refuses(rf"{which} must hold real numbers, got dtype complex128", *self.call(which, GOOD * 1j))

    def test_ragged_rows(self, which):
        refuses(rf"{which} must be an array of numbers", *self.call(which, [[1, 2, 3], [1, 2]]))

    def test_none(self, which):
        refuses(rf"{which} must hold real numbers, got dtype object", *self.call(which, None))


def test_count_mismatch():
    refuses(r"points must have shape \(\.\.\., 4, 3\).*got shape \(5, 3\)", GOOD, np.ones((5, 3)))


def test_dimension_mismatch():
    refuses(r"points must have shape \(\.\.\., 4, 3\).*got shape \(4, 2\)", GOOD, np.ones((4, 2)))


def test_batches_that_do_not_broadcast():
    refuses(
        r"points and rest must have leading shapes that broadcast", np.ones((2, 4, 3)), np.ones((3, 4, 3))
    )


def test_a_point_that_is_all_nan():
    """The whole moment is nan then, and must not pass for zero."""
    for policy in ("raise", "clamp"):
        points = np.tile(GOOD, (100, 1, 1))
        points[70, 2] = np.nan
        refuses(r"points must be finite, got nan at index \[70, 2, 0\]", GOOD, points, on_degenerate=policy)
        refuses(r"points must be finite", GOOD[:, :2], points[..., :2], on_degenerate=policy)


def test_masked_arrays_are_refused():
    refuses("points must not be a masked array", GOOD, np.ma.masked_invalid(GOOD))


def test_not_finite_with_weight_zero_is_still_refused():
    points = GOOD.copy()
    points[0, 0] = np.nan
    refuses(r"points must be finite", GOOD, points, [0, 1, 1, 1])


def test_overflow_is_said():
    refuses(r"points and rest are too large", 1e200 * GOOD, 1e200 * GOOD)


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ([1, 1, 1], r"weights must have one entry per point, shape \(\.\.\., 4\), got shape \(3,\)"),
        (1.0, r"weights must have one entry per point"),
        ([1, -0.5, 1, 1], r"weights must not be negative, got -0.5 at index \[1\]"),
        ([0, 0, 0, 0], r"weights must not all be zero in one set, but they are at index \[0\]"),
        ([1, np.nan, 1, 1], r"weights must be finite, got nan at index \[1\]"),
        ([1, np.inf, 1, 1], r"weights must be finite, got inf"),
        (np.ones((3, 4)), None),
        ([[1, 1, 1, 1], [0, 0, 0, 0]], r"but they are at index \[1, 0\]"),
    ],
)
def test_weights(weights, match):
    if match is None:
        assert pg.fit_rigid(GOOD, GOOD, weights).rotation.shape == (3, 3, 3)
    else:
        refuses(match, GOOD, GOOD, weights)


@pytest.mark.parametrize(
    ("offsets", "indices", "match"),
    [
        ([0], None, "offsets must start at 0 and hold one end per group"),
        ([1, 3], None, "offsets must start at 0"),
        ([0, 3, 3], None, r"offsets must increase: group 1 is empty \(3 to 3\)"),
        ([0, 4, 2], None, "group 1 ends before it starts"),
        ([0, 3], [0, 1], r"indices must have offsets\[-1\] = 3 entries, got 2"),
        ([0, 3], [0, 1, -1], "indices must not be negative, got -1 at entry 2"),
        ([0.0, 3.5], None, "offsets must hold whole numbers, got dtype float64"),
        ([[0, 3]], None, "offsets must be a flat list"),
        ([0, 3], [0.5, 1, 2], "indices must hold whole numbers"),
    ],
)
def test_groups(offsets, indices, match):
    with pytest.raises(InputError, match=match):
        pg.Groups(offsets, indices)


def test_group_lists():
    with pytest.raises(InputError, match="at least one group"):
        pg.Groups.from_lists([])
    with pytest.raises(InputError, match=r"lists\[1\] is empty"):
        pg.Groups.from_lists([[0, 1, 2], []])
    with pytest.raises(InputError, match="lists must hold lists of point indices, got int"):
        pg.Groups.from_lists(5)
    with pytest.raises(
        InputError, match=r"lists\[0\] must be an array of numbers, got rows of different lengths"
    ):
        pg.Groups.from_lists([[[0, 1], [2]]])
    with pytest.raises(InputError, match="numbers below 2"):
        pg.Groups([0, 1], np.array([2**63], dtype=np.uint64))
    refuses("groups must be Groups, e.g.*got list", GOOD, GOOD, groups=[[0, 1, 2]])
    refuses("groups must index the 4 rows of rest, got index 9 in group 1", GOOD, GOOD,
            groups=pg.Groups.from_lists([[0, 1, 2], [1, 2, 9]]))  # fmt: skip
    refuses(r"rest must have shape \(N, d\) with groups", GOOD[None], GOOD, groups=pg.Groups([0, 4]))
    refuses(
        "weights must have one number per entry of groups", GOOD, GOOD, np.ones(3), groups=pg.Groups([0, 4])
    )


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"on_degenerate": "ignore"}, 'on_degenerate must be "raise" or "clamp", got \'ignore\''),
        ({"on_degenerate": np.array(["raise"])}, "on_degenerate must be"),
        ({"min_gap": 0.0}, "min_gap must be a finite number above 0 and below 1, got 0.0"),
        ({"min_gap": float("nan")}, "min_gap must be a finite number above 0 and below 1, got nan"),
        ({"min_gap": "a"}, "min_gap must be a finite number above 0 and below 1, got 'a'"),
        ({"min_gap": np.array([0.1])}, "min_gap must be a finite number"),
        ({"previous": np.zeros((0, 3, 3))}, "previous must hold at least one rotation"),
        (
            {"previous": np.eye(2)},
            r"previous must be rotations of shape \(\.\.\., 3, 3\), got shape \(2, 2\)",
        ),
        ({"previous": -np.eye(3)}, "previous must be rotations, but it reflects"),
        ({"previous": np.full((3, 3), np.nan)}, "previous must be finite"),
        ({"previous": np.tile(np.eye(3), (7, 1, 1))}, "previous must broadcast"),
    ],
)
def test_options(options, match):
    refuses(match, GOOD, GOOD, **options)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda fit: fit.jvp(np.ones((5, 3))),
            r"d_points must have the shape of points, \(4, 3\), got \(5, 3\)",
        ),
        (lambda fit: fit.jvp(GOOD * np.nan), "d_points must be finite"),
        (lambda fit: fit.vjp(np.ones((2, 2))), r"g_rotation must have shape \(3, 3\), got \(2, 2\)"),
        (lambda fit: fit.vjp(g_translation=np.ones(2)), r"g_translation must have shape \(3,\), got \(2,\)"),
        (
            lambda fit: fit.apply(np.ones((4, 2))),
            r"p must have shape \(\.\.\., m, 3\) or \(3,\), got shape \(4, 2\)",
        ),
        (lambda fit: fit.apply(np.ones((2, 4, 3))), "leading shape that broadcasts"),
        (lambda fit: fit.jacobian(np.nan), r"p must have shape"),
        (lambda fit: fit.jacobian([np.nan, 0, 0]), "p must be finite"),
        (lambda fit: fit.second(GOOD, np.ones(7)), "d2 must have the shape of points"),
        (lambda fit: fit.hessian(GOOD, GOOD[:2]), "g must have as many rows as p, 4, got 2"),
        (lambda fit: fit.hessian_product(GOOD, GOOD, "x"), "d_points must hold real numbers"),
    ],
)
def test_derivative_arguments(call, match):
    with pytest.raises(InputError, match=match):
        call(pg.fit_rigid(GOOD, GOOD))


def test_kernels_trust_groups_that_cannot_change():
    groups = pg.Groups([0, 4])
    with pytest.raises(ValueError, match="read-only"):
        groups.indices[0] = 1000


def test_threads_must_be_a_count(monkeypatch):
    with pg.threads(np.int64(2)):
        pg.fit_rigid(GOOD, GOOD)
    with pytest.raises(InputError, match="count must be a whole number of at least 1, got 0"), pg.threads(0):
        pass
    for given in ("two", "0"):
        wrong = f"POINTGLUE_NUM_THREADS must be a whole number of at least 1, got '{given}'"
        parallel._check_environment.cache_clear()  # as in a new process
        monkeypatch.setenv("POINTGLUE_NUM_THREADS", given)
        for _ in range(2):
            with pytest.raises(InputError, match=wrong):
                pg.fit_rigid(GOOD, GOOD)
    monkeypatch.setenv("POINTGLUE_NUM_THREADS", "1")
    pg.fit_rigid(GOOD, GOOD)
