"""Limits and motors as rows with bounds, against the same problems solved by brute force."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pointglue.elastic.model.constraints import Bounds
from pointglue.elastic.step.active_set import (
    held_ends,
    initial_set,
    open_by,
    penalties,
    set_multipliers,
    settled,
)

# An equation, a limit, a motor that may stall, one that gives way, and one that does both.
BOUNDS = Bounds(
    lower=np.array([0.0, -0.3, 0.2, 0.5, -0.4]),
    upper=np.array([0.0, 0.4, 0.2, 0.5, -0.4]),
    force=np.array([np.inf, np.inf, 1.5, np.inf, 0.7]),
    compliance=np.array([0.0, 0.0, 0.0, 0.2, 0.3]),
)


def solved(H, g, bounds):
    """The minimum of g.c + c.H.c / 2 with rows c that have these bounds, by the active set."""
    multipliers = np.zeros(len(g))
    active = initial_set(bounds, multipliers)
    for count in range(20):
        held, ends = held_ends(active, bounds)
        fixed = set_multipliers(active, bounds)
        size = len(g)
        K = np.block([[H, np.diag(held * 1.0)], [np.diag(held * 1.0), -np.eye(size)]])
        K[size:, size:][held, held] = -bounds.compliance[held]
        solution = np.linalg.solve(K, np.concatenate([-g - fixed, np.where(held, ends, -fixed)]))
        c, multipliers = solution[:size], solution[size:]
        after = settled(active, bounds, c, multipliers, 1e-12)
        if np.array_equal(after, active):
            return c, multipliers, count
        active = after
    raise AssertionError("no active set was found")


def merit(H, g, bounds, c):
    return g @ c + c @ H @ c / 2 + penalties(bounds, c, 1e6).sum()


@pytest.mark.parametrize("seed", range(20))
def test_the_active_set_is_that_of_the_minimum(seed):
    """Its point is lower than all near it, where what open rows cost is a part of the function."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((5, 5))
    H, g = A @ A.T + np.eye(5), 3 * rng.standard_normal(5)
    c, multipliers, _ = solved(H, g, BOUNDS)
    assert_allclose(open_by(BOUNDS, c, multipliers), 0, atol=1e-12)
    assert (np.abs(multipliers) <= BOUNDS.force * (1 + 1e-12)).all()
    # The minimum is where the slope is what the multipliers balance.
    assert_allclose(H @ c + g + multipliers, 0, atol=1e-11)
    here = merit(H, g, BOUNDS, c)
    for d in rng.standard_normal((200, 5)):
        assert merit(H, g, BOUNDS, c + 1e-3 * d) > here


def test_every_state_of_every_row_occurs():
    """Pushes either way take limits to both ends, and motors to both forces."""
    found = set()
    for pushes in product((-3.0, -0.6, 0.0, 0.6, 3.0), repeat=5):
        _, multipliers, _ = solved(np.eye(5), np.array(pushes), BOUNDS)
        found |= set(enumerate(initial_set(BOUNDS, multipliers).tolist()))
    assert found == {
        (0, 1),
        (0, -1),
        (1, 0),
        (1, 1),
        (1, -1),
        (2, 1),
        (2, -1),
        (2, 2),
        (2, -2),
        (3, 1),
        (3, -1),
    } | {
        (4, 1),
        (4, -1),
        (4, 2),
        (4, -2),
    }


def test_costs():
    """An equation costs the penalty, a limit only beyond its ends, a motor its force, a spring its energy."""
    c = np.array([-0.1, 0.3, 0.5, 0.7, 0.1])
    # The last is 0.5 from its target: 0.21 as a spring, up to 0.7 N, and then 0.7 N more.
    expected = [10 * 0.1, 0, 1.5 * 0.3, 0.2**2 / 0.2 / 2, 0.7 * 0.5 - 0.7**2 * 0.3 / 2]
    assert_allclose(penalties(BOUNDS, c, 10.0), expected, rtol=1e-13)
    c = np.array([0.0, -0.5, 0.2, 0.5, -0.5])
    assert_allclose(penalties(BOUNDS, c, 10.0), [0, 10 * 0.2, 0, 0, 0.1**2 / 0.3 / 2], rtol=1e-13)


def test_open_rows():
    c = np.array([-0.1, 0.5, 0.3, 0.9, 0.9])
    assert_allclose(open_by(BOUNDS, c, np.zeros(5)), [0.1, 0.1, 0.1, 0, 0], atol=1e-15)
    # What slips is not open, nor is what lies within its ends without a force; with one it is.
    assert_allclose(open_by(BOUNDS, c, np.array([0, 1.0, 1.5, 0, 0])), [0.1, 0.1, 0, 0, 0], atol=1e-15)
    c[1] = 0.1
    assert_array_equal(open_by(BOUNDS, c, np.zeros(5))[1], 0)
    assert_allclose(open_by(BOUNDS, c, np.array([0, 1.0, 0, 0, 0]))[1], 0.3)
