"""The solver against a slow reference; rest, purity, threads, pins, motions, and wrong input named."""

from dataclasses import replace

import numpy as np
import pytest
from particles.reference import Reference, rigid_solids, shaken, solids
from scipy.spatial.transform import Rotation

import pointglue
from pointglue.errors import InputError
from pointglue.particles import (
    Ball,
    KinematicParticles,
    Motion,
    OrientedBody,
    ParticleSolver,
    Plane,
    block,
    rope,
)

ARRAYS = ("positions", "rotations", "velocities", "spins")
SOLIDS, RIGID = solids(), rigid_solids()
BODIES = {**SOLIDS, **RIGID}
every_body = pytest.mark.parametrize("name", BODIES)


def bits(state):
    return b"".join(getattr(state, name).tobytes() for name in (*ARRAYS, "pause"))


def assert_rotations(state):
    R = state.rotations
    # Each comes out of a fit or one turn of an orthonormal matrix, both right to a few roundings.
    np.testing.assert_allclose(R @ np.swapaxes(R, 1, 2), np.tile(np.eye(3), (len(R), 1, 1)), atol=1e-12)
    assert (np.linalg.det(R) > 0).all()


@every_body
@pytest.mark.parametrize("iterations", [1, 3])
def test_agrees_with_the_paper_written_down_plainly(rng, name, iterations):
    body, h, gravity = BODIES[name], 1 / 100, (0.3, -9.81, 0.2)
    solver = ParticleSolver(body, substep=h, iterations=iterations, gravity=gravity, contacts="none")
    state = shaken(solver.start(), rng)
    reference = Reference(body, h, iterations, gravity)
    x, R, v, w = (getattr(state, name) for name in ARRAYS)
    for k in range(20):
        state = solver.step(state, h)
        x, R, v, w = reference.step(x, R, v, w)
        # Rounding of positions of size 1, and 1 / h as much in velocities; errors grow with the motion.
        atol = 1e-12 if k == 0 else 1e-9
        np.testing.assert_allclose(state.positions, x, atol=atol)
        np.testing.assert_allclose(state.rotations, R, atol=atol)
        np.testing.assert_allclose(state.velocities, v, atol=atol / h)
        np.testing.assert_allclose(state.spins, w, atol=atol / h)


@every_body
@pytest.mark.parametrize("away", [0.0, 1e4])
def test_the_rest_pose_stays(name, away):
    body = BODIES[name].moved(translation=(away, -away, away))
    solver = ParticleSolver(body, gravity=(0, 0, 0))
    state = solver.start()
    for _ in range(100):
        state = solver.step(state, 1 / 60)
    # Groups see positions from their first particle, so that only the last digit of a position matters; it
    # acts as a force that is always the same: eps / h^2 = 3e-12 m/s^2 moves by 5e-12 in these 1.7 s.
    atol = 5e-11 + 4 * np.finfo(float).eps * away
    np.testing.assert_allclose(state.positions, body.positions, atol=atol)
    np.testing.assert_allclose(state.rotations, np.tile(np.eye(3), (len(body), 1, 1)), atol=5e-11)
    assert np.abs(state.velocities).max() < 5e-11
    assert state.time == pytest.approx(100 / 60)


def test_bodies_at_rest_do_not_drift_in_10000_steps():
    """Two soft bodies and a rigid one, side by side."""
    bodies = [BODIES["curved"], BODIES["pair"], RIGID["box"]]
    left = 0.0
    for k, body in enumerate(bodies):
        reach = body.radii.max()
        bodies[k] = body.moved(translation=(left - body.positions[:, 0].min() + reach, 0, 0))
        left = bodies[k].positions[:, 0].max() + 2 * reach
    solver = ParticleSolver(bodies, gravity=(0, 0, 0))
    state = solver.start()
    with pointglue.threads(1):  # no bit depends on their number
        for _ in range(10_000):
            state = solver.step(state, 1 / 60)
    # Unbiased rounding adds up as a random walk of the velocity, eps / h sqrt(20000) = 4e-12 m/s, over 167 s.
    for body, part in zip(bodies[:2], solver.parts, strict=False):
        np.testing.assert_allclose(state.positions[part], body.positions, atol=1e-9)
        np.testing.assert_allclose(state.rotations[part], np.tile(np.eye(3), (len(body), 1, 1)), atol=1e-9)
    # A biased rounding of eps each iteration is a force: 2 eps / (2 h^2) (167 s)^2 / 2 = 4e-8 m.
    np.testing.assert_allclose(state.positions[solver.parts[2]], bodies[2].positions, atol=1e-6)


def test_random_impulses_for_a_million_body_steps(rng):
    bodies = []
    for k in range(500):
        n = 1 if k % 5 == 0 else int(rng.integers(2, 6))
        x = 3.0 * np.array([k % 10, k // 10 % 10, k // 100]) + 0.5 * rng.standard_normal((n, 3))
        chain = [[i, i + 1] for i in range(n - 1)]
        full = [[i, j] for i in range(n) for j in range(i)]
        edges = [chain, chain, full, full, chain][k % 5]
        groups = [np.arange(n)] if k % 5 == 3 else []
        coefficients = dict(zip(("stiffness", "stretch", "torsion"), rng.random(3), strict=True))
        radii = 0.02 + 0.2 * rng.random((n, 3))
        bodies.append(OrientedBody(x, radii=radii, edges=edges, groups=groups, **coefficients))
    solver = ParticleSolver(bodies, colliders=[Plane((0, -3, 0), (0, 1, 0))], substep=1 / 60)
    state, mass = solver.start(), solver.body.mass
    # One thread: no bit depends on their number, and to hand over such small parts costs half as much again.
    with pointglue.threads(1):
        for k in range(2000):
            if k % 10 == 0:
                who = rng.integers(0, len(mass), 50)
                state = state.with_impulses(mass, who, mass[who, None] * rng.uniform(-1e3, 1e3, (50, 3)))
            state = solver.step(state, 1 / 60)
            assert all(np.isfinite(getattr(state, name)).all() for name in ARRAYS)
            if k % 100 == 0:
                assert_rotations(state)
    assert_rotations(state)


def scene():
    """More than 5000 particles in two bodies that hit each other and the floor."""
    soft = block((3.0, 0.5, 3.0), (36, 4, 36), stiffness=0.5, stretch=0.2, torsion=0.2)
    ball = block((1.0, 1.0, 1.0), (6, 6, 6), rigid=True)
    bodies = [soft.moved(translation=(0, 0.3, 0)), ball.moved(translation=(0.02, 1.1, 0.01))]
    return ParticleSolver(bodies, colliders=[Plane((0, 0, 0), (0, 1, 0)), Ball((1, 0, 1), 0.3)])


def run_scene(solver, steps=4):
    state = shaken(solver.start(), np.random.default_rng(3), 0.5, 1.0)
    for _ in range(steps):
        state = solver.step(state, 1 / 60)
    return state


def test_the_number_of_threads_changes_no_bit():
    results = []
    for count in (1, 2, 3, 7):
        with pointglue.threads(count):
            solver = scene()
            results.append(bits(run_scene(solver)))
    assert len(solver.body) > 5000
    assert len(set(results)) == 1


def test_stepping_is_pure(rng):
    body = BODIES["mixed"]
    solver = ParticleSolver([body, block((0.4, 0.4, 0.4), (2, 2, 2)).moved(translation=(0, 1, 0))])
    start = shaken(solver.start(), rng)
    copies = {name: getattr(start, name).copy() for name in (*ARRAYS, "pinned", "pause")}
    rest = [start.rest.positions.copy(), start.rest.rotations.copy(), start.rest.touching.copy()]
    once = bits(solver.step(start, 1 / 60))
    assert bits(solver.step(start, 1 / 60)) == once
    # Other states, pins, time steps and rest poses in between leave nothing behind.
    other = shaken(solver.start(), rng, 50.0).replace(pinned=rng.random(len(start)) < 0.3)
    solver.step(solver.step(other, 1 / 45), 1 / 200)
    assert bits(solver.step(start, 1 / 60)) == once
    twin = ParticleSolver([body, block((0.4, 0.4, 0.4), (2, 2, 2)).moved(translation=(0, 1, 0))])
    assert bits(twin.step(start, 1 / 60)) == once
    for name, copy in copies.items():
        np.testing.assert_array_equal(getattr(start, name), copy)
    for now, copy in zip(
        (start.rest.positions, start.rest.rotations, start.rest.touching), rest, strict=True
    ):
        np.testing.assert_array_equal(now, copy)


def test_states_given_out_are_not_buffers(rng):
    solver = ParticleSolver(BODIES["rope"])
    first = solver.step(shaken(solver.start(), rng), 1 / 60)
    before = bits(first)
    solver.step(first, 1 / 60)
    assert bits(first) == before


def test_calls_at_30_60_and_120_hz_agree(rng):
    """The substeps are the same ones, so that only the time differs, by rounding."""
    body = BODIES["mixed"]
    solver = ParticleSolver(body, substep=1 / 120)
    ends = []
    for rate in (30, 60, 120):
        state = shaken(solver.start(), np.random.default_rng(2))
        for _ in range(rate):
            state = solver.step(state, 1 / rate)
        ends.append(state)
    for state in ends[1:]:
        # h is rounded differently for each rate: 1e-17, which grows with the motion.
        np.testing.assert_allclose(state.positions, ends[0].positions, atol=1e-9)
        np.testing.assert_allclose(state.rotations, ends[0].rotations, atol=1e-9)


def test_a_step_is_cut_into_equal_substeps():
    """In free fall from rest each of k substeps adds g h to the speed first: x = g h^2 k (k + 1) / 2."""
    body = OrientedBody([[0.0, 0, 0]], radii=0.1)
    for dt, substep, count in [(1 / 60, 1 / 120, 2), (1 / 60, 1 / 119, 2), (1 / 60, 1, 1), (1e3, 0.1, 64)]:
        state = ParticleSolver(body, substep=substep).step(body.start(), dt)
        h = dt / count
        fallen = 9.81 * h * h * count * (count + 1) / 2
        limit = 64 * 1e3 * 0.2 if dt > 1 else np.inf  # nothing goes farther than 1000 sizes in a substep
        assert -state.positions[0, 1] == pytest.approx(min(fallen, limit), rel=1e-12)


@pytest.mark.parametrize("name", ["rope", "block", "box", "hinge"])
def test_pins_hold_and_the_rest_hangs_on_them(name):
    body = BODIES[name]
    pinned = np.zeros(len(body), bool)
    pinned[0] = True
    solver = ParticleSolver(body.replace(pinned=pinned), damping=3.0, drag=1.0)
    state = solver.start()
    for _ in range(600):
        state = solver.step(state, 1 / 60)
    np.testing.assert_array_equal(state.positions[0], body.positions[0])
    np.testing.assert_array_equal(state.rotations[0], np.eye(3))
    assert not state.velocities[0].any()
    assert not state.spins[0].any()
    others = np.average(state.positions[1:], axis=0, weights=body.mass[1:])
    before = np.average(body.positions[1:], axis=0, weights=body.mass[1:])
    assert others[1] < before[1] - 0.01  # it gave way,
    # and no farther than three times its size below the pin: it did not come off
    assert others[1] > body.positions[0, 1] - 3 * np.ptp(body.positions, axis=0).max()


def test_pins_of_a_state_replace_those_of_the_body():
    body = rope((0, 0, 0), (1, 0, 0), particles=5, radius=0.05, pinned=[True] + 4 * [False])
    solver = ParticleSolver(body)
    state = solver.start()
    np.testing.assert_array_equal(state.pinned, body.pinned)
    state = solver.step(state.replace(pinned=np.zeros(5, bool)), 1 / 60)
    assert state.positions[0, 1] < 0
    free = ParticleSolver(body.replace(pinned=False))
    assert bits(free.step(free.start(), 1 / 60)) == bits(state)


def turn(time):
    """One radian a second about y while rising."""
    return Rotation.from_rotvec([0, time, 0]).as_matrix(), np.array([0.0, 0.5 * time, 0.0])


def test_a_state_that_is_stepped_again_finds_moving_colliders_where_they_were():
    def belt(time):
        return np.eye(3), np.array([2 * time, 0.0, 0.0])

    body = block((0.2, 0.2, 0.2), (2, 2, 2)).moved(translation=(0, 0.1, 0))
    solver = ParticleSolver(body, colliders=[Plane((0, 0, 0), (0, 1, 0), motion=belt)])
    states = [solver.start()]
    for _ in range(10):
        states.append(solver.step(states[-1], 1 / 60))
    assert states[-1].velocities[:, 0].min() > 0.1  # it is carried along
    for k in (4, 0, 8):
        assert bits(solver.step(states[k], 1 / 60)) == bits(states[k + 1])


@pytest.mark.parametrize("kind", ["function", "keys"])
def test_kinematic_particles_follow_their_motion(kind):
    times = np.linspace(0, 1, 301)
    keys = Motion(
        times,
        np.outer(times, [0, 0.5, 0]),
        np.stack([np.cos(times / 2), 0 * times, np.sin(times / 2), 0 * times], axis=1),
    )
    body = rope((0, 0, 0), (1, 0, 0), particles=6, radius=0.05, stiffness=0.5)
    solver = ParticleSolver(
        body, kinematic=[KinematicParticles([0, 1], turn if kind == "function" else keys)]
    )
    state = solver.start()
    for _ in range(60):
        state = solver.step(state, 1 / 60)
    R, t = turn(1.0)
    # The keys are exact for a constant rate; the time is a sum of 60 roundings.
    np.testing.assert_allclose(state.positions[:2], body.positions[:2] @ R.T + t, atol=1e-13)
    np.testing.assert_allclose(state.rotations[:2], [R, R], atol=1e-13)
    np.testing.assert_allclose(state.spins[0], [0, 1, 0], atol=1e-9)
    # A mean over a substep: (w h)^2 / 24 of the speed off the end, and half a substep behind
    np.testing.assert_allclose(state.velocities[0], [0, 0.5, 0], atol=1e-9)
    assert np.linalg.norm(state.positions[5] - state.positions[1]) == pytest.approx(0.8, abs=0.3)


@pytest.mark.parametrize("dt", [1e3, 1e9, 1e100])
@pytest.mark.parametrize("name", ["sphere", "mixed", "hinge"])
def test_absurd_time_steps_stay_finite(rng, name, dt):
    body = BODIES[name]
    solver = ParticleSolver(body, colliders=[Plane((0, -1, 0), (0, 1, 0))], drag=0.1, damping=0.1)
    state = shaken(solver.start(), rng)
    for _ in range(3):
        state = solver.step(state, dt)
        assert all(np.isfinite(getattr(state, name)).all() for name in ARRAYS)
        assert_rotations(state)


@pytest.mark.parametrize("dt", [1e300, 1e-9])
def test_more_absurd_time_steps_stay_finite(rng, dt):
    solver = ParticleSolver(BODIES["box"])
    state = solver.step(shaken(solver.start(), rng), dt)
    assert all(np.isfinite(getattr(state, name)).all() for name in ARRAYS)


ONE = OrientedBody([[0.0, 0, 0]], radii=0.1)
STILL = Motion([0.0], [[0.0, 0, 0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iterations": 0}, "iterations must be a whole number"),
        ({"iterations": 1.5}, "iterations must be a whole number"),
        ({"substep": 0.0}, "substep must be a finite number above 0"),
        ({"substep": np.nan}, "substep must be a finite number above 0"),
        ({"gravity": (0, 1)}, r"gravity must have shape \(3,\), got \(2,\)"),
        ({"gravity": (0, np.nan, 0)}, r"gravity must be finite, got nan at index \[1\]"),
        ({"contacts": "some"}, 'contacts must be "all", "bodies" or "none", got .some.'),
        ({"contacts": None}, "contacts must be"),
        ({"friction": -0.1}, "friction must be a finite number of at least 0, got -0.1"),
        (
            {"spin_friction": None},
            "spin_friction must be a finite number of at least 0 and of at most 1, got None",
        ),
        ({"bounce": -0.1}, "bounce must be a finite number of at least 0 and of at most 1, got -0.1"),
        ({"drag": -1}, "drag must be a finite number of at least 0"),
        ({"damping": np.inf}, "damping must be a finite number of at least 0, got inf"),
        ({"plastic_time": 0}, "plastic_time must be a finite number above 0"),
        ({"kinematic": [3]}, r"kinematic\[0\] must be of type KinematicParticles"),
        ({"kinematic": [KinematicParticles([1], STILL)]}, r"kinematic\[0\].particles must be from 0 to 0"),
        ({"kinematic": [KinematicParticles([], STILL)]}, r"kinematic\[0\].particles"),
        (
            {"kinematic": [KinematicParticles([0.5], STILL)]},
            r"kinematic\[0\].particles must hold whole numbers",
        ),
        (
            {"kinematic": [KinematicParticles([0], 3)]},
            r"kinematic\[0\].motion must be a Motion or a function",
        ),
        (
            {"kinematic": [KinematicParticles([0], lambda t: (np.eye(3),))]},
            r"kinematic\[0\].motion must return",
        ),
        (
            {"kinematic": [KinematicParticles([0], lambda t: (2 * np.eye(3), (0, 0, 0)))]},
            r"kinematic\[0\].motion's rotation",
        ),
        ({"kinematic": [KinematicParticles([0], lambda t: (np.eye(3), (0, np.nan, 0)))]}, "translation"),
        ({"forces": [lambda body, state, dt: [1.0, 2, 3]]}, r"forces\[0\] must return shape \(1, 3\)"),
        ({"forces": [lambda body, state, dt: [[0, np.nan, 0]]]}, r"forces\[0\] must be finite"),
        ({"forces": [3]}, r"forces\[0\] must be a function, got int"),
        ({"colliders": [3]}, r"colliders\[0\] must be of type Collider, got int"),
        ({"colliders": 3}, "colliders must be a list, got int"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(InputError, match=message):
        ParticleSolver(ONE, **options).step(ONE.start(), 1 / 60)


@pytest.mark.parametrize("dt", [0, -1, np.nan, np.inf, "1", None, True])
def test_wrong_time_steps_are_named(dt):
    with pytest.raises(InputError, match="dt must be at least 1e-09 s"):
        ParticleSolver(ONE).step(ONE.start(), 1e-12)
    with pytest.raises(InputError, match="dt must be a finite number above 0"):
        ParticleSolver(ONE).step(ONE.start(), dt)


def test_wrong_bodies_and_states_are_named():
    with pytest.raises(InputError, match="bodies must hold at least one"):
        ParticleSolver([])
    with pytest.raises(InputError, match=r"bodies\[1\] must be of type OrientedBody, got int"):
        ParticleSolver([ONE, 3])
    with pytest.raises(
        InputError, match="state has 8 particles and 0 groups, but the solver's bodies have 1 and 0"
    ):
        ParticleSolver(ONE).step(block((1, 1, 1), (2, 2, 2)).start(), 1 / 60)
    broken = replace(ONE.start(), velocities=np.array([[0, np.nan, 0]]))
    with pytest.raises(InputError, match=r"state\.velocities must be finite"):
        ParticleSolver(ONE).step(broken, 1 / 60)


def test_a_state_of_other_groups_is_named():
    rigid = block((1, 1, 1), (2, 2, 2), rigid=True)
    with pytest.raises(InputError, match="state"):
        ParticleSolver(rigid).step(block((1, 1, 1), (2, 2, 2)).start(), 1 / 60)


def test_neighbours_turn_with_a_kinematic_particle():
    """By its moment in their groups, in the very step in which it is turned."""
    body = rope((0, 0, 0), (0.4, 0, 0), particles=3, radius=0.1)

    def twist(time):
        return Rotation.from_rotvec([12 * time, 0, 0]).as_matrix(), (0.0, 0.0, 0.0)

    solver = ParticleSolver(
        body, gravity=(0, 0, 0), kinematic=[KinematicParticles([0], twist)], substep=1 / 60
    )
    state = solver.step(solver.start(), 1 / 60)
    angles = Rotation.from_matrix(state.rotations).as_rotvec()[:, 0]
    assert angles[0] == pytest.approx(0.2)
    assert angles[1] > 0.05
