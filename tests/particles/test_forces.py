"""Gravity, wind, water, any other force, and what drag and damping take away."""

import numpy as np
import pytest
from oracle import random_rotation
from particles.reference import inertia_of, mixed, quaternions, shaken

from pointglue.errors import InputError
from pointglue.particles import Buoyancy, OrientedBody, ParticleSolver, Wind, block

RADIUS = 0.1
VOLUME = 4 / 3 * np.pi * RADIUS**3
SHADOW = np.pi * RADIUS**2


def ball(height=0.0, density=1000.0):
    return OrientedBody([[0, height, 0]], radii=RADIUS, mass=density * VOLUME)


def run(solver, state, steps, dt=1 / 60):
    for _ in range(steps):
        state = solver.step(state, dt)
    return state


def rigid_energy(body, state):
    """The least that a body with its momenta can have: p^2 / 2m and L J^-1 L / 2 about the centre of mass."""
    p, L = body.momentum(state)
    centre = np.average(state.positions, axis=0, weights=body.mass)
    arm = state.positions - centre
    J = inertia_of(body.mass, body.radii, state.rotations @ state.rest.rotations).sum(0)
    J += np.einsum("n,nij->ij", body.mass, (arm**2).sum(1)[:, None, None] * np.eye(3))
    J -= np.einsum("n,ni,nj->ij", body.mass, arm, arm)
    L = L - np.cross(centre, p)
    return 0.5 * p @ p / body.mass.sum() + 0.5 * L @ np.linalg.solve(J, L)


def test_free_fall_is_the_sum_of_the_substeps(rng):
    """Each substep adds g h to the velocity first: x = x0 + v n h + g h^2 n (n + 1) / 2, to rounding."""
    body, g, h, n = mixed(rng), np.array([1.0, -9.81, 2.0]), 1 / 120, 120
    solver = ParticleSolver(body, gravity=g, substep=h)
    v = np.array([0.3, 2.0, -1.0])
    state = run(solver, solver.start().replace(velocities=np.tile(v, (len(body), 1))), 60)
    fallen = v * n * h + g * h * h * n * (n + 1) / 2
    # A rigid and a soft body fall alike: rounding of 1e-15 / h in 120 substeps
    np.testing.assert_allclose(state.positions, body.positions + fallen, atol=1e-11)
    np.testing.assert_allclose(state.velocities, np.tile(v + g, (len(body), 1)), atol=1e-10)
    np.testing.assert_allclose(state.spins, 0, atol=1e-9)


def test_drag_slows_all_motion_exponentially(rng):
    body = ball()
    solver = ParticleSolver(body, gravity=(0, 0, 0), drag=0.7)
    state = solver.start().replace(velocities=[[1, 2, 3]], spins=[[3, 2, 1]])
    for k in range(1, 61):
        state = solver.step(state, 1 / 60)
        np.testing.assert_allclose(
            state.velocities[0], np.exp(-0.7 * k / 60) * np.array([1, 2, 3]), rtol=1e-12
        )
        np.testing.assert_allclose(state.spins[0], np.exp(-0.7 * k / 60) * np.array([3, 2, 1]), rtol=1e-12)


def test_damping_takes_the_motion_within_a_body_and_keeps_both_momenta(rng):
    body = mixed(rng)
    energies = []
    for damping in (0.0, 20.0):
        solver = ParticleSolver(body, gravity=(0, 0, 0), damping=damping, contacts="none")
        state = shaken(solver.start(), np.random.default_rng(1))
        before = body.momentum(state)
        for _ in range(100):
            state = solver.step(state, 1 / 60)
            for now, then in zip(body.momentum(state), before, strict=True):
                # As without damping: rounding of a substep, 1e-15, 200 times, with a margin for its sum
                np.testing.assert_allclose(now, then, atol=1e-11)
        energies.append(body.kinetic_energy(state) - rigid_energy(body, state))
    # What is left is the rigid motion.
    assert energies[1] < 1e-3 * energies[0]


@pytest.mark.parametrize("damping", [0.0, 5.0])
def test_damping_leaves_a_rigid_motion_alone(damping):
    body = block((0.4, 0.4, 0.4), (2, 2, 2), rigid=True)
    solver = ParticleSolver(body, gravity=(0, 0, 0), damping=damping)
    w, v = np.array([0, 2.0, 0]), np.array([1.0, 0, 0])
    spins = np.tile(w, (8, 1))
    state = solver.start().replace(velocities=v + np.cross(spins, body.positions), spins=spins)
    state = run(solver, state, 100)
    # Velocities are chords of the circles and spins their angles: they differ by (w h)^2 / 6 = 5e-5.
    np.testing.assert_allclose(state.spins, spins, atol=2e-4)
    np.testing.assert_allclose(body.momentum(state)[0], body.mass.sum() * v, atol=1e-12 * body.mass.sum())


def test_a_ball_of_half_the_density_floats_half_submerged():
    solver = ParticleSolver(ball(0.3, 500.0), forces=[Buoyancy(level=0.2)], drag=2.0)
    state = run(solver, solver.start(), 1200)
    # Stokes-like drag of 2 / s for 20 s leaves e^-20 of the bobbing.
    assert state.positions[0, 1] == pytest.approx(0.2, abs=1e-7)


@pytest.mark.parametrize("share", [0.1, 0.35, 0.8])
def test_the_depth_of_a_floating_ball_follows_archimedes(share):
    """The cap of height k r holds k^2 (3 - k) / 4 of the ball."""
    solver = ParticleSolver(ball(0.0, 1000.0 * share), forces=[Buoyancy()], drag=2.0)
    state = run(solver, solver.start(), 2400, 1 / 120)
    k = 1 - state.positions[0, 1] / RADIUS
    assert k * k * (3 - k) / 4 == pytest.approx(share, abs=1e-6)


def test_lift_of_a_tilted_ellipsoid_is_its_submerged_volume(rng):
    """Against points thrown into it."""
    radii, R = np.array([0.3, 0.2, 0.1]), random_rotation(rng)
    points = rng.uniform(-1, 1, (400_000, 3))
    points = (points[(points**2).sum(1) < 1] * radii) @ R.T
    body = OrientedBody([[0, 0, 0]], radii=radii[None], orientations=quaternions(R)[None])
    for level in (-0.05, 0.0, 0.08):
        force = Buoyancy(level=level, drag=0.0)(body, body.start(), 1 / 60)[0]
        share = (points[:, 1] < level).mean()
        whole = 1000 * 9.81 * 4 / 3 * np.pi * radii.prod()
        # 2e5 points know a share to 1e-3.
        assert force[1] == pytest.approx(share * whole, abs=5e-3 * whole)
        assert force[0] == force[2] == 0


def test_terminal_velocity_in_water():
    """Weight less lift is drag, c v^2, taken at the end of the step: c v^2 / (1 + c v dt / m)."""
    body = ball(-50.0, 2000.0)
    c, m, weight = 0.5 * 1000 * 0.5 * SHADOW, body.mass[0], 1000 * VOLUME * 9.81
    errors = []
    for dt in (1 / 60, 1 / 240):
        solver = ParticleSolver(body, forces=[Buoyancy()])
        state = run(solver, solver.start(), round(4 / dt), dt)
        v = -state.velocities[0, 1]
        assert c * v * v / (1 + c * v * dt / m) == pytest.approx(weight, rel=1e-6)
        errors.append(v / np.sqrt(weight / c) - 1)
    assert errors[0] == pytest.approx(c * np.sqrt(weight / c) / 60 / m / 2, rel=0.05)  # 1.8 %
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.05)


def test_a_current_carries_what_floats():
    solver = ParticleSolver(ball(0.0, 500.0), forces=[Buoyancy(current=(1.5, 0, 0))])
    state = run(solver, solver.start(), 1200)
    # dv / dt = -k (v - u)^2 with k = 1/2 rho C A / 2 / m = 0.94 / m: 1 / (k t) = 0.02 m/s short after 20 s
    assert 1.4 < state.velocities[0, 0] < 1.5


@pytest.mark.parametrize("dt", [1 / 60, 1.0, 100.0])
def test_wind_is_approached_and_never_overtaken(dt):
    body = ball(0.0, 5.0)
    solver = ParticleSolver(body, forces=[Wind((10.0, 0, 0))], gravity=(0, 0, 0))
    state, speeds = solver.start(), []
    for _ in range(500):
        state = solver.step(state, dt)
        speeds.append(state.velocities[0, 0])
    assert (np.diff(speeds) >= -1e-12).all()  # rounding of positions, once they are far
    assert max(speeds) <= 10 + 1e-9
    assert speeds[-1] > 9
    # 1 / (u - v) grows by k t: dv / dt = k (u - v)^2, k = 1/2 rho C A / m
    if dt < 0.1:
        k, t = 0.5 * 1.2 * SHADOW / body.mass[0], 500 * dt
        assert speeds[-1] == pytest.approx(10 - 1 / (1 / 10 + k * t), rel=0.02)  # k u dt = 1 %


def test_wind_acts_on_the_area_that_is_turned_to_it(rng):
    """The shadow of an ellipsoid, counted in pixels."""
    radii, R = np.array([0.3, 0.2, 0.1]), random_rotation(rng)
    body = OrientedBody([[0, 0, 0]], radii=radii[None], mass=1e9, orientations=quaternions(R)[None])
    force = Wind((7.0, 0, 0), density=2.0, drag=0.5)(body, body.start(), 1 / 60)[0]
    y, z = np.meshgrid(*2 * [np.linspace(-0.35, 0.35, 701)], indexing="ij")
    G = R @ np.diag(1 / radii**2) @ R.T
    # A ray along x hits where the discriminant of (x, y, z) G (x, y, z) = 1 is not negative.
    b = G[0, 1] * y + G[0, 2] * z
    inside = b * b - G[0, 0] * (G[1, 1] * y * y + 2 * G[1, 2] * y * z + G[2, 2] * z * z - 1) >= 0
    area = inside.sum() * 1e-6
    assert force[0] == pytest.approx(0.5 * 2.0 * 0.5 * area * 49, rel=5e-3)  # the rim: 1200 of 1e5 pixels
    assert force[1] == pytest.approx(0, abs=1e-12)


def test_any_function_is_a_force(rng):
    """A spring to the origin: an oscillation of the known frequency."""
    body = OrientedBody([[1.0, 0, 0]], radii=0.1, mass=2.0)
    seen = []

    def spring(it, state, dt):
        seen.append((it is body, dt))
        return -8.0 * state.positions

    solver = ParticleSolver(body, gravity=(0, 0, 0), forces=[spring], substep=1 / 60)
    state, xs = solver.start(), []
    for _ in range(600):
        state = solver.step(state, 1 / 60)
        xs.append(state.positions[0, 0])
    assert seen[0] == (True, 1 / 60)
    # w = sqrt(8 / 2) = 2; symplectic steps have cos(w' h) = 1 - (w h)^2 / 2 and keep the amplitude.
    w = np.arccos(1 - (2 / 60) ** 2 / 2) * 60
    t = np.arange(601) / 60
    expected = np.cos(w * t) - (1 - np.cos(w / 60)) / np.sin(w / 60) * np.sin(w * t)
    np.testing.assert_allclose(xs, expected[1:], atol=1e-11)


def test_forces_add_up():
    body = ball()
    push = [
        lambda body, state, dt: [[body.mass[0], 0, 0]],
        lambda body, state, dt: [[0, 0, 2 * body.mass[0]]],
    ]
    solver = ParticleSolver(body, forces=push, gravity=(0, 1.0, 0))
    np.testing.assert_allclose(run(solver, solver.start(), 60).velocities, [[1, 1, 2]], rtol=1e-12)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Wind((1, 2)), r"velocity must have shape \(3,\), got \(2,\)"),
        (lambda: Wind((1, 2, np.nan)), "velocity must be finite, got nan"),
        (lambda: Wind((1, 2, 3), density=-1), "density must be a finite number of at least 0"),
        (lambda: Wind((1, 2, 3), drag=np.inf), "drag must be a finite number of at least 0"),
        (lambda: Buoyancy(level=np.nan), "level must be a finite number, got nan"),
        (lambda: Buoyancy(density=np.nan), "density must be a finite number of at least 0"),
        (lambda: Buoyancy(drag=-0.1), "drag must be a finite number of at least 0"),
        (lambda: Buoyancy(current=(0, 0)), r"current must have shape \(3,\), got \(2,\)"),
        (lambda: Buoyancy(gravity=(0, np.inf, 0)), "gravity must be finite, got inf"),
        (lambda: Buoyancy(density="heavy"), "density must be a finite number of at least 0, got 'heavy'"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(InputError, match=message):
        build()
