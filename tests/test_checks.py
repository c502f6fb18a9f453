"""Checks of arguments: what passes comes back as it should, and what does not is told by name."""

import re
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from oracle import random_rotation

from pointglue import checks
from pointglue.errors import InputError


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int8(2), Fraction(2)])
def test_reals_come_back_as_floats(value):
    number = checks.check_real("x", value, above=0, at_most=2)
    assert type(number) is float
    assert number == 2.0


@pytest.mark.parametrize("value", [True, np.True_, "2", None, 2j, [2.0], np.nan, np.ones(1), np.inf])
def test_what_is_no_real_number(value):
    with pytest.raises(InputError, match=re.escape(f"x must be a finite number, got {value!r}")):
        checks.check_real("x", value)


def test_bounds_of_reals():
    for bounds, good, bad, words in (
        ({"above": 0}, 1e-300, 0, "above 0"),
        ({"at_least": 0}, 0, -1e-300, "of at least 0"),
        ({"below": 1}, 0.5, 1, "below 1"),
        ({"at_least": 0, "at_most": 1}, 1, 1.5, "of at least 0 and of at most 1"),
        ({"above": 0, "below": 0.5}, 0.25, 0.5, "above 0 and below 0.5"),
    ):
        assert checks.check_real("x", good, **bounds) == good
        with pytest.raises(InputError, match=f"^x must be a finite number {words}, got {bad}$"):
            checks.check_real("x", bad, **bounds)
    assert checks.check_real("x", np.inf, infinite=True, above=0) == np.inf
    with pytest.raises(InputError, match="x must be a number above 0, got -inf"):
        checks.check_real("x", -np.inf, infinite=True, above=0)


def test_integers():
    assert type(checks.check_integer("n", np.uint8(3), 1, 3)) is int
    for bad in (True, np.False_, 2.0, "2", 0, 4):
        with pytest.raises(InputError, match=r"n must be a whole number of at least 1 and of at most 3, got"):
            checks.check_integer("n", bad, 1, 3)
    with pytest.raises(InputError, match=r"^n must be a whole number, got None$"):
        checks.check_integer("n", None)


def test_flags():
    assert checks.check_flag("on", np.True_) is True
    for bad in (1, 0.0, "yes", None, np.ones(1, bool)):
        with pytest.raises(InputError, match=r"^on must be True or False, got "):
            checks.check_flag("on", bad)


def test_choices():
    assert checks.check_choice("kind", "b", "abc") == "b"
    with pytest.raises(InputError, match=r'^kind must be "a", "b" or "c", got 1$'):
        checks.check_choice("kind", 1, "abc")
    with pytest.raises(InputError, match=r"^kind must be \"a\", got 'x'$"):
        checks.check_choice("kind", "x", ["a"])


def test_rows():
    given = np.eye(3, dtype=np.float32)
    rows = checks.check_rows("x", given, count=3)
    assert rows.dtype == np.float64
    assert not np.shares_memory(checks.check_rows("x", rows), rows)
    for bad, message in (
        (np.ones((2, 2)), r"must have shape \(n, 3\), got \(2, 2\)"),
        (np.ones(3), r"must have shape \(n, 3\), got \(3,\)"),
        ([[0, np.nan, 0]], "must be finite"),
    ):
        with pytest.raises(InputError, match=f"x {message}"):
            checks.check_rows("x", bad)
    with pytest.raises(InputError, match=r"x must have shape \(4, 3\), got \(3, 3\)"):
        checks.check_rows("x", given, count=4)


def test_rotations(rng):
    turns = np.stack([random_rotation(rng) for _ in range(3)])
    assert_array_equal(checks.check_rotations("R", turns), turns)
    assert_array_equal(checks.check_rotations("R", np.eye(2)), np.eye(2))
    checks.check_rotations("R", turns.astype(np.float32))  # rounded to 6e-8, they pass
    checks.check_rotations("R", np.empty((0, 3, 3)))
    checks.check_rotations("R", 1.0001 * turns, tolerance=1e-3)
    checks.check_rotations("R", (1 + 4e-7) * turns)
    for bad, message in (
        (
            np.stack([turns[0], 1.00001 * turns[1]]),
            r"R must be rotations, but at index \[1\] R R\^T is off by",
        ),
        ((1 + 6e-7) * turns, r"R R\^T is off by 1.2e-06, and 2 more such"),  # just beyond the tolerance
        (-turns, r"at index \[0\] it reflects, and 2 more such"),
        (np.diag([1.0, 1, -1]), "R must be rotations, but it reflects"),
        (np.ones((3, 2)), r"R must have shape \(..., 3, 3\), got \(3, 2\)"),
        (np.full((3, 3), np.nan), "R must be finite"),
    ):
        with pytest.raises(InputError, match=message):
            checks.check_rotations("R", bad)
    with pytest.raises(InputError, match=r"R must have shape \(2, 3, 3\), got \(3, 3, 3\)"):
        checks.check_rotations("R", turns, (2, 3, 3))


def test_distinct_numbers():
    assert_array_equal(checks.check_distinct("group", [3, 1, 2]), [3, 1, 2])
    with pytest.raises(InputError, match="group must not name anything twice, got 1 again"):
        checks.check_distinct("group", [3, 1, 1])
