"""Wheels on axles of shared particles: nothing brakes them, and what they turn keeps its angular momentum."""

import numpy as np
import pytest

from pointglue.particles import OrientedBody, ParticleSolver, Plane

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


@pytest.mark.parametrize("axis", np.vstack([np.eye(3), -np.eye(3)]).tolist())
def test_a_rigid_body_turns_on_about_any_of_its_axes(axis):
    """About a principal axis nothing precesses, whichever of the space's axes that is."""
    x = np.array([[1.0, 0, 0], [-1, 0, 0], [0, 0.6, 0], [0, -0.6, 0], [0, 0, 0.4], [0, 0, -0.4]])
    body = OrientedBody(x, radii=0.05, groups=[np.arange(6)])
    solver = ParticleSolver(body, gravity=(0, 0, 0))
    spin = SPIN * np.array(axis)
    state = body.start().replace(spins=np.tile(spin, (6, 1)), velocities=np.cross(spin, x))
    for _ in range(30):
        state = solver.step(state, 1 / 60)
    np.testing.assert_allclose(state.spins, np.tile(spin, (6, 1)), atol=1e-9 * SPIN)
    np.testing.assert_allclose(np.linalg.norm(state.positions, axis=1), np.linalg.norm(x, axis=1), rtol=1e-9)


RADIUS, LUGS = 0.3, 32


def four_wheels():
    """A rigid chassis on two axles with two wheels each, at rest on y = 0; the particles of the axles."""
    chassis = np.array([[x, y, z] for x in (-0.6, 0, 0.6) for y in (0.35, 0.5) for z in (-0.2, 0.2)])
    angle = np.tile(2 * np.pi * np.arange(LUGS) / LUGS, 2)
    # As curved as the wheel where they touch the ground, b^2 / a = R.
    a = 0.02
    lug = (RADIUS - a) * np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    lug[:, 2] = np.repeat([-0.4, 0.4], LUGS)
    turned = np.stack([np.cos(angle / 2), 0 * angle, 0 * angle, np.sin(angle / 2)], axis=1)
    pins = np.array([[0, 0, -0.25], [0, 0, 0.25]])
    ends = [np.array([x, RADIUS, 0]) for x in (-0.6, 0.6)]
    n, k = len(chassis), 2 + 2 * LUGS
    axles = [np.arange(n + e * k, n + (e + 1) * k) for e in range(2)]
    body = OrientedBody(
        np.concatenate([chassis, *(part + end for end in ends for part in (pins, lug))]),
        radii=np.concatenate(
            [
                np.full((n, 3), 0.08),
                *[np.full((2, 3), 0.04), np.tile([a, (a * RADIUS) ** 0.5, 0.05], (2 * LUGS, 1))] * 2,
            ]
        ),
        orientations=np.concatenate(
            [np.tile([1.0, 0, 0, 0], (n, 1)), *[np.tile([1.0, 0, 0, 0], (2, 1)), turned] * 2]
        ),
        mass=np.repeat([10.0, 3.0, 10 / LUGS, 3.0, 10 / LUGS], [n, 2, 2 * LUGS, 2, 2 * LUGS]),
        groups=[np.concatenate([np.arange(n), axles[0][:2], axles[1][:2]]), *axles],
    )
    return body, axles


def test_wheels_come_to_roll_at_the_rolling_speed():
    """Set down sliding, friction spins them up; then the way is the angle times the radius, within 2 %."""
    body, axles = four_wheels()
    solver = ParticleSolver(body, colliders=[Plane((0, 0, 0), (0, 1, 0))])
    state = solver.start()
    state = state.replace(velocities=np.tile([3.0, 0, 0], (len(body), 1)))
    for _ in range(60):
        state = solver.step(state, 1 / 60)
    begin, turned = state.positions[:, 0].mean(), 0.0
    for _ in range(90):
        state = solver.step(state, 1 / 60)
        turned -= np.mean([state.spins[axle[5], 2] for axle in axles]) / 60
    way = state.positions[:, 0].mean() - begin
    assert way > 2.0
    assert RADIUS * turned == pytest.approx(way, rel=0.02)
