"""Ropes with weights: what does not stretch keeps its length, whatever hangs on it."""

import numpy as np
import pytest

from pointglue.particles import ParticleSolver, rope


def loaded(particles, times=10.0, **options):
    """A level rope of 1 m that is pinned at one end, with so many times its mass at the other."""
    body = rope((0, 0, 0), (1, 0, 0), particles=particles, radius=0.02, **options)
    mass = body.mass.copy()
    mass[-1] += times * mass.sum()
    return body.replace(mass=mass, pinned=np.arange(particles) == 0)


def lengths(body, seconds):
    solver = ParticleSolver(body)
    state, found = solver.start(), []
    for _ in range(round(60 * seconds)):
        state = solver.step(state, 1 / 60)
        found.append(np.linalg.norm(np.diff(state.positions, axis=0), axis=1).sum())
    return np.array(found), state


@pytest.mark.parametrize("particles", [10, 20, 40])
@pytest.mark.parametrize("stiffness", [1.0, 0.03])
def test_a_rope_keeps_its_length_with_ten_times_its_mass(particles, stiffness):
    """It swings down, folds and jerks: at no time is it longer than 1.05 of itself, or shorter than 0.95."""
    found, _ = lengths(loaded(particles, stiffness=stiffness), 4.0)
    assert found.max() < 1.05
    assert found.min() > 0.95


def test_a_pendulum_on_a_rope_swings_in_its_time():
    """A weight of a thousand times its mass at a small angle: T = 2 pi sqrt(l / g), 1 + a^2 / 16 of it."""
    body = loaded(10, times=1000.0, stiffness=0.0)
    angle = 0.2
    turn = np.array([[np.sin(angle), 0, 0], [-np.cos(angle), 0, 0], [0, 0, 1.0]])
    solver = ParticleSolver(body)
    state = solver.start().replace(positions=body.positions @ turn.T)
    passed, before = [], np.inf
    for k in range(300):
        state = solver.step(state, 1 / 60)
        now = state.positions[-1, 0]
        if before > 0 >= now or before < 0 <= now:
            passed.append(k + now / (before - now))
        before = now
    period = 2 * (passed[-1] - passed[0]) / (len(passed) - 1) / 60
    assert period == pytest.approx(2 * np.pi / 9.81**0.5 * (1 + angle**2 / 16), rel=0.01)
