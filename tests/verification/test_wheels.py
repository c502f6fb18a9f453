"""Wheels on axles of shared particles: nothing brakes them, and what they turn keeps its angular momentum."""

import numpy as np
import pytest

from pointglue.particles import OrientedBody, ParticleSolver

SPIN = 20.0  # rad/s
RIM, TYRE = 12, 16


def cart(*, tyre=False, pinned=False):
    """A rigid chassis and a wheel about z that share two particles of the axle; the tyre is soft."""
    around = 2 * np.pi * np.arange(RIM) / RIM
    rim = np.stack([0.3 * np.cos(around), 0.3 * np.sin(around), 0 * around], axis=1)
    axle = np.array([[0, 0, -0.1], [0, 0, 0.1]])
    chassis = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (0.5, 0.7) for z in (-0.3, 0.3)])
    around = 2 * np.pi * np.arange(TYRE) / TYRE
    lugs = np.stack([0.45 * np.cos(around), 0.45 * np.sin(around), 0 * around], axis=1)
    parts = [rim, axle, chassis, *([lugs] if tyre else [])]
    first = RIM + 2 + 8
    held = np.zeros(sum(len(part) for part in parts), bool)
    held[RIM:first] = pinned
    ring = first + np.arange(TYRE)
    below = np.arange(TYRE) * RIM // TYRE
    joined = [np.stack([ring, other], axis=1) for other in (np.roll(ring, 1), below, (below + 1) % RIM)]
    return OrientedBody(
        np.concatenate(parts),
        radii=0.05,
        mass=np.repeat([1.0, 1.0, 3.0, 2.0][: len(parts)], [len(part) for part in parts]),
        edges=np.concatenate(joined) if tyre else (),
        groups=[np.arange(RIM, first), np.arange(RIM + 2)],
        pinned=held,
    )


def spun(body):
    """The state in which the wheel turns and nothing else moves."""
    spins = np.zeros((len(body), 3))
    spins[:RIM, 2] = SPIN
    spins[RIM + 10 :, 2] = SPIN
    return body.start().replace(spins=spins, velocities=np.cross(spins, body.positions))


@pytest.mark.parametrize("tyre", [False, True], ids=["rigid", "soft tyre"])
@pytest.mark.parametrize("pinned", [False, True], ids=["in space", "pinned"])
def test_a_free_wheel_turns_on(tyre, pinned):
    """No torque acts about the axle, so that the wheel keeps its spin, the chassis its rest, and all L."""
    body = cart(tyre=tyre, pinned=pinned)
    solver = ParticleSolver(body, contacts="none", gravity=(0, 0, 0))
    state = spun(body)
    before = body.momentum(state)[1]
    for _ in range(600):
        state = solver.step(state, 1 / 60)
    assert state.spins[0, 2] == pytest.approx(SPIN, rel=0.01)
    np.testing.assert_allclose(state.spins[RIM + 2], 0, atol=0.01 * SPIN)
    np.testing.assert_allclose(body.momentum(state)[1], before, atol=(0.01 if pinned else 1e-9) * before[2])
