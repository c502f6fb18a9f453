"""Physics of the oriented particles: conservation laws and closed forms."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from particles.reference import ball_joint, curved_rope, inertia_of, rigid_solids, shaken, solids, turning
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

from pointglue.particles import OrientedBody, ParticleSolver, Plane, block, hinged_boxes, rope, sheet
from pointglue.particles._solve.kernels.constraints.matching import correct_twists
from pointglue.particles._solve.kernels.records import EdgeArrays

SOLIDS, RIGID = solids(), rigid_solids()
FREE = {"gravity": (0, 0, 0), "contacts": "none"}


def momenta_and_sizes(body, state):
    """Both momenta, and the sums of absolute values that their rounding is measured by."""
    p, L = body.momentum(state)
    speed = np.linalg.norm(state.velocities, axis=1) + np.linalg.norm(state.spins, axis=1) * body.radii.max(1)
    reach = np.linalg.norm(state.positions, axis=1) + body.radii.max(1)
    return p, L, body.mass @ speed, body.mass @ (reach * speed)


def drift(body, solver, state, steps):
    """The largest relative errors of both momenta on the way."""
    p0, L0, size, lever = momenta_and_sizes(body, state)
    worst = np.zeros(2)
    for _ in range(steps):
        state = solver.step(state, 1 / 60)
        p, L, _, far = momenta_and_sizes(body, state)
        errors = np.abs(p - p0).max() / size, np.abs(L - L0).max() / max(lever, far)
        worst = np.maximum(worst, errors)
    return worst


@pytest.mark.parametrize("body", [*SOLIDS.values(), *RIGID.values()], ids=[*SOLIDS, *RIGID])
def test_free_flight_keeps_both_momenta(rng, body):
    solver = ParticleSolver(body, **FREE)
    linear, angular = drift(body, solver, shaken(solver.start(), rng), 300)
    # Each of 600 substeps rounds positions by eps and divides by h: a random walk, 600^(1/2) 120 eps = 7e-13
    # for one particle and less for a body.
    assert linear < 1e-12
    assert angular < 1e-11


def test_a_ball_keeps_its_spin_and_an_ellipsoid_its_angular_momentum(rng):
    for name in ("sphere", "ellipsoid"):
        body = SOLIDS[name]
        solver = ParticleSolver(body, **FREE)
        state = shaken(solver.start(), rng)
        w, (_, L) = state.spins[0], body.momentum(state)
        L = L - np.cross(state.positions[0], body.mass[0] * state.velocities[0])
        for _ in range(300):
            state = solver.step(state, 1 / 60)
            _, now = body.momentum(state)
            now = now - np.cross(state.positions[0], body.mass[0] * state.velocities[0])
            # The same random walk as above, of angles
            np.testing.assert_allclose(now, L, atol=1e-12 * np.linalg.norm(L))
            if name == "sphere":
                np.testing.assert_allclose(state.spins[0], w, atol=1e-12 * np.linalg.norm(w))


RIGID_AND_SOFT = pytest.mark.parametrize(
    "options", [{"rigid": True}, {"stiffness": 0.9}], ids=["rigid", "soft"]
)


def collision(options, friction):
    """Two crossed bars that hit each other at 2 m/s: momenta before and after, and a mass."""
    one = block((0.6, 0.2, 0.2), (6, 2, 2), **options)
    other = block((0.2, 0.2, 0.6), (2, 2, 6), **options).moved(translation=(0.2, 0.35, 0.01))
    solver = ParticleSolver([one, other], gravity=(0, 0, 0), friction=friction)
    velocities = np.zeros((len(solver.body), 3))
    velocities[solver.parts[1]] = [0, -2.0, 0]
    state = solver.start().replace(velocities=velocities)
    before = solver.body.momentum(state)
    for _ in range(25):
        state = solver.step(state, 1 / 60)
    assert np.abs(state.velocities[solver.parts[0]]).max() > 0.3  # they did collide
    return before, solver.body.momentum(state), one.mass.sum()


@RIGID_AND_SOFT
@pytest.mark.parametrize("friction", [0.0, 0.5])
def test_bodies_that_collide_keep_their_momenta(options, friction):
    """Contact impulses are equal and opposite, and nothing else acts: both momenta stay, in any collision."""
    before, after, mass = collision(options, friction)
    np.testing.assert_allclose(after[0], before[0], atol=1e-11 * mass)
    np.testing.assert_allclose(after[1], before[1], atol=1e-11 * mass)


KINDS = {
    "soft": block((0.4, 0.2, 0.2), (4, 2, 2), stiffness=0.5),
    "elastic": block((0.4, 0.2, 0.2), (4, 2, 2), young=1e6),
    "rigid": block((0.4, 0.2, 0.2), (4, 2, 2), rigid=True),
    "cloth": sheet((0.6, 0.6), (6, 6), thickness=0.05),
    "rope": rope((0, 0, -0.4), (0, 0, 0.4), particles=10, radius=0.03),
    "ellipsoid": OrientedBody([[0, 0, 0]], radii=[[0.15, 0.12, 0.1]]),
}


@pytest.mark.parametrize("kinds", [*combinations_with_replacement(KINDS, 2)], ids="-".join)
@pytest.mark.parametrize(("friction", "bounce"), [(0.0, 0.0), (0.5, 0.5)])
def test_bodies_of_all_kinds_that_collide_keep_their_momenta(kinds, friction, bounce):
    one, other = (body.moved(translation=-body.positions.mean(0)) for body in map(KINDS.get, kinds))
    turned = Rotation.from_rotvec([0.7, -0.4, 1.1]).as_matrix()
    bodies = [one, other.moved(rotation=turned, translation=(0, 0.5, 0.1))]
    solver = ParticleSolver(bodies, gravity=(0, 0, 0), friction=friction, bounce=bounce)
    velocities = np.zeros((len(solver.body), 3))
    velocities[solver.parts[1]] = [0.1, -4.0, 0.1]
    state = solver.start().replace(velocities=velocities)
    before = solver.body.momentum(state)
    for _ in range(15):
        state = solver.step(state, 1 / 60)
    assert np.abs(state.velocities[solver.parts[0]].mean(0)).max() > 0.02  # they did collide
    # 30 substeps of rounding, each eps / h relative to positions: see above.
    for now, then in zip(solver.body.momentum(state), before, strict=True):
        np.testing.assert_allclose(now, then, atol=1e-11 * np.linalg.norm(then))


def euler_top(J, w, seconds):
    """Orientation of a free body with the inertia J that starts with the spin w, by a general integrator."""

    def rate(_, y):
        R, now = y[:9].reshape(3, 3), y[9:]
        inertia = R @ J @ R.T
        spin = np.linalg.solve(inertia, np.cross(inertia @ now, now))
        return np.concatenate([np.cross(now, R.T).T.ravel(), spin])

    end = solve_ivp(rate, (0, seconds), np.concatenate([np.eye(3).ravel(), w]), rtol=1e-11, atol=1e-12).y[
        :9, -1
    ]
    return end.reshape(3, 3)


def precession_errors(body, substeps, seconds=2.0):
    """Degrees between the orientation and that of Euler's equations, at 4 rad/s about none of its axes."""
    w = np.array([2.0, 2.5, 2.4])
    w *= 4 / np.linalg.norm(w)
    arm = body.positions - np.average(body.positions, axis=0, weights=body.mass)
    J = inertia_of(body.mass, body.radii, body.start().rest.rotations).sum(0)
    J = J + sum(m * (x @ x * np.eye(3) - np.outer(x, x)) for m, x in zip(body.mass, arm, strict=True))
    expected = euler_top(J, w, seconds)
    errors = []
    for substep in substeps:
        solver = ParticleSolver(body, substep=substep, **FREE)
        state = turning(body, solver.start(), w)
        for _ in range(round(60 * seconds)):
            state = solver.step(state, 1 / 60)
        errors.append(np.degrees(Rotation.from_matrix(state.rotations[0] @ expected.T).magnitude()))
    return errors


@pytest.mark.parametrize("cells", [(3, 2, 1), (6, 4, 2)])
def test_a_rigid_box_precesses_as_eulers_equations_say(cells):
    coarse, middle, fine = precession_errors(
        block((0.6, 0.4, 0.2), cells, rigid=True), (1 / 60, 1 / 120, 1 / 240)
    )
    assert middle < 0.5
    # Second order: 4, and the next term is (w h)^2 = 0.4 % of it
    assert coarse / middle == pytest.approx(4, rel=0.03)
    assert middle / fine == pytest.approx(4, rel=0.03)


LONE = OrientedBody([[0, 0, 0]], radii=[[0.2, 0.15, 0.1]])


def test_particles_that_are_not_round_precess_to_half_a_degree_too():
    assert precession_errors(block((0.6, 0.4, 0.2), (3, 2, 2), rigid=True), [1 / 120])[0] < 0.5


@pytest.mark.parametrize(
    "body", [block((0.6, 0.4, 0.2), (3, 2, 2), rigid=True), LONE], ids=["box", "ellipsoid"]
)
def test_particles_that_are_not_round_precess_to_second_order(body):
    _, middle, fine = precession_errors(body, (1 / 60, 1 / 240, 1 / 480))
    assert middle / fine == pytest.approx(4, rel=0.1)


def test_a_free_ellipsoid_gains_no_energy():
    """Turning about its shortest axis, nearly; it must not end up turning about its longest one, faster."""
    body = OrientedBody([[0, 0, 0]], radii=[[0.2, 0.1, 0.05]])
    solver = ParticleSolver(body, **FREE)
    state = turning(body, solver.start(), [0.4, 0.3, 4.0])
    before = body.kinetic_energy(state)
    for _ in range(1200):
        state = solver.step(state, 1 / 60)
    assert body.kinetic_energy(state) < 1.01 * before


@pytest.mark.parametrize("name", [name for name in SOLIDS if name not in ("sphere", "ellipsoid")])
def test_random_motion_of_a_soft_body_never_gains_energy(rng, name):
    """Constraints are implicit: they damp. Kinetic energy alone stays below what there was at the start.

    What comes back out of deformation was kinetic before, since the body starts at rest length.
    """
    body = SOLIDS[name]
    solver = ParticleSolver(body, **FREE)
    state = shaken(solver.start(), rng)
    before = body.kinetic_energy(state)
    for _ in range(300):
        state = solver.step(state, 1 / 60)
        assert body.kinetic_energy(state) < before
    assert body.kinetic_energy(state) < 0.9 * before


def test_a_released_pair_follows_implicit_euler_and_never_gains_energy():
    """Both groups take s of the deviation: d' = (1 - s)^2 (d + h v), an implicit step of d'' = -w^2 d.

    With w^2 h^2 = (1 - s)^-2 - 1. An implicit step loses (v' - v)^2 + w^2 (d' - d)^2 of v^2 + w^2 d^2.
    """
    body = OrientedBody([[0, 0, 0], [0.2, 0, 0]], radii=0.05, edges=[[0, 1]], stiffness=0.05)
    h = 1 / 120
    solver = ParticleSolver(body, substep=h, **FREE)
    state = solver.start().replace(positions=[[-0.02, 0, 0], [0.22, 0, 0]])
    s = 0.05 / 4 / (0.05 / 4 + 0.95)  # the coefficient of 1/60 s in half of it, with the same compliance
    keep = (1 - s) ** 2
    square = (1 / keep - 1) / h**2
    d, v, energy = 0.04, 0.0, square * 0.04**2
    for _ in range(600):
        state = solver.step(state, h)
        d, v = keep * (d + h * v), (keep * (d + h * v) - d) / h
        assert np.ptp(state.positions[:, 0]) - 0.2 == pytest.approx(d, abs=1e-12)
        assert np.diff(state.velocities[:, 0])[0] == pytest.approx(v, abs=1e-10)
        now = v**2 + square * d**2
        assert now <= energy * (1 + 1e-12)
        energy = now
    assert energy < 1e-4 * square * 0.04**2


@pytest.mark.parametrize("name", ["rope", "sheet", "block", "curved"])
def test_a_deformed_body_released_comes_to_rest(rng, name):
    """Kinetic energy in each second stays below that of the second before, and dies."""
    body = SOLIDS[name]
    solver = ParticleSolver(body, damping=0.5, **FREE)
    state = solver.start()
    positions = body.positions * [1.2, 0.9, 1.0] + 0.01 * rng.standard_normal((len(body), 3))
    state = state.replace(positions=positions - np.average(positions, axis=0, weights=body.mass))
    peaks = []
    for _ in range(6):
        energies = []
        for _ in range(60):
            state = solver.step(state, 1 / 60)
            energies.append(body.kinetic_energy(state))
        peaks.append(max(energies))
    assert (np.diff(peaks) < 0).all()
    assert peaks[-1] < 1e-2 * peaks[0]


@pytest.mark.parametrize("options", [{}, {"stiffness": 0.3}, {"rigid": True}], ids=["stiff", "soft", "rigid"])
def test_a_block_on_the_floor_is_quiet(options):
    body = block((0.4, 0.4, 0.4), (3, 3, 3), **options).moved(translation=(0, 0.2, 0))
    solver = ParticleSolver(body, colliders=[Plane((0, 0, 0), (0, 1, 0))])
    state = solver.start()
    energies = []
    for _ in range(2000):
        state = solver.step(state, 1 / 60)
        energies.append(body.kinetic_energy(state))
    fall = body.mass.sum() * 9.81 * 0.2
    # It settles by a centimetre or less, and then stays: 1e-9 of the energy it has by its height
    assert max(energies) < 0.05 * fall
    assert max(energies[500:]) < 1e-9 * fall
    assert state.positions[:, 1].min() > 0.4 / 6 - 1e-9
    np.testing.assert_allclose(state.positions[:, [0, 2]], body.positions[:, [0, 2]], atol=0.01)


def crossings(values, dt):
    """Frequency, Hz, from where a series passes through 0."""
    values = np.array(values)
    k = np.flatnonzero(np.sign(values[1:]) != np.sign(values[:-1]))
    times = (k + values[k] / (values[k] - values[k + 1])) * dt
    return (len(times) - 1) / 2 / (times[-1] - times[0])


def bar_frequency(stiffness, dt, iterations=2):
    """Of a stretched bar of six particles that is let go of, one substep a step."""
    body = rope((0, 0, 0), (1, 0, 0), particles=6, radius=0.06, stiffness=stiffness, stretch=0.0)
    solver = ParticleSolver(body, substep=dt, iterations=iterations, **FREE)
    state = solver.start()
    state = state.replace(positions=(state.positions - [0.5, 0, 0]) * [1.1, 1, 1])
    lengths = []
    for _ in range(round(3 / dt)):
        state = solver.step(state, dt)
        lengths.append(np.ptp(state.positions[:, 0]) - 1)
    return crossings(lengths, dt)


def test_the_frequency_of_a_bar_depends_little_on_the_time_step():
    """At 2.2 Hz damping by the integrator, w h / 2, shifts it by up to 10 %; the paper's coefficient by 2."""
    rates, s = (30, 60, 120), 0.1
    ours = [bar_frequency(s, 1 / rate) for rate in rates]
    # The body's coefficient for which a step of any length corrects the same fraction s
    paper = [bar_frequency(s / (s + (1 - s) * (60 / rate) ** 2), 1 / rate) for rate in rates]
    assert ours[1] == pytest.approx(paper[1], rel=1e-12)
    assert max(ours) / min(ours) < 1.12
    assert abs(ours[2] / ours[1] - 1) < 0.03
    np.testing.assert_allclose(np.array(paper) / paper[1], [0.5, 1, 2], rtol=0.01)


def test_the_frequency_of_a_pair_is_that_of_its_compliance():
    """Two groups with w = 60 sqrt(s / (1 - s)) each: together sqrt(2) times that, as h goes to 0."""
    s = 0.05
    body = OrientedBody([[0, 0, 0], [0.2, 0, 0]], radii=0.05, edges=[[0, 1]], stiffness=s)
    expected = 60 * np.sqrt(2 * s / (1 - s)) / (2 * np.pi)
    errors = []
    for rate in (240, 960):
        solver = ParticleSolver(body, substep=1 / rate, **FREE)
        state = solver.start().replace(positions=[[-0.02, 0, 0], [0.22, 0, 0]])
        lengths = []
        for _ in range(rate):
            state = solver.step(state, 1 / rate)
            lengths.append(np.ptp(state.positions[:, 0]) - 0.2)
        errors.append(abs(crossings(lengths, 1 / rate) / expected - 1))
    assert errors[0] < 2e-3
    assert errors[1] < 2e-4


@pytest.mark.parametrize("options", [{"stiffness": 0.1}, {"stiffness": 0.0, "stretch": 0.3}])
def test_stiffness_does_not_depend_on_the_number_of_iterations(options):
    """Of an isolated constraint: k iterations leave (1 - s)^(1/k) each."""
    body = OrientedBody([[0, 0, 0], [0.2, 0, 0]], radii=0.05, mass=[1.0, 3.0], edges=[[0, 1]], **options)
    ends = []
    for iterations in (1, 2, 5, 20):
        solver = ParticleSolver(body, iterations=iterations, **FREE)
        state = solver.start().replace(positions=[[-0.02, 0, 0], [0.22, 0, 0]])
        for _ in range(20):
            state = solver.step(state, 1 / 60)
        ends.append(state.positions)
    for end in ends[1:]:
        np.testing.assert_allclose(end, ends[0], atol=1e-12)
    assert abs(np.ptp(ends[0][:, 0]) - 0.2) > 1e-4  # it is still swinging


def joint_gap(body, state, one, other, shared):
    """How far apart the two groups of a joint want the particles that they share."""
    wanted = []
    for group in (one, other):
        m = body.mass[group]
        x, rest = m @ state.positions[group] / m.sum(), m @ body.positions[group] / m.sum()
        alone = next(i for i in group if i not in shared)
        wanted.append((body.positions[shared] - rest) @ state.rotations[alone].T + x)
    return np.linalg.norm(wanted[0] - wanted[1], axis=1).max()


def test_a_box_spins_about_the_hinge_while_the_other_stays():
    body = hinged_boxes((0.5, 0.3, 0.4), (2, 2, 2))
    first = np.arange(len(body)) < 8
    pinned = first | ~body.oriented
    solver = ParticleSolver(body.replace(pinned=pinned), contacts="none", gravity=(0, 0, 0), substep=1 / 480)
    w = np.array([0, 0, 3.0])
    spins = np.where(pinned[:, None], 0.0, w)
    state = solver.start().replace(spins=spins, velocities=np.cross(spins, body.positions))
    for _ in range(60):
        state = solver.step(state, 1 / 60)
    np.testing.assert_array_equal(state.positions[pinned], body.positions[pinned])
    # Pins take (w h)^2 / 2 of the spin in each of 480 substeps, as in the paper: 1 %
    assert state.spins[8, 2] == pytest.approx(3.0, rel=0.02)
    np.testing.assert_allclose(state.spins[8, :2], 0, atol=1e-9)
    turned = Rotation.from_matrix(state.rotations[8]).as_rotvec()[2] % (2 * np.pi)
    assert turned == pytest.approx(3.0, abs=0.05)
    # The hinge's particles stay where the box wants them: it turned about them.
    arms = np.linalg.norm(state.positions[8:16, :2], axis=1)
    np.testing.assert_allclose(arms, np.linalg.norm(body.positions[8:16, :2], axis=1), atol=1e-3)


def two_pendulums(m, pin, inertia, arm, w, seconds):
    """Angles of two free plane bodies joined at a point, to the left and right; the right one starts with w.

    Lagrange's equations for the joint q and the angles a, b, with n the unit vectors across the arms.
    """

    def rate(_, y):
        a, b, da, db = y
        n, k = np.array([-np.sin(a), np.cos(a)]), np.array([-np.sin(b), np.cos(b)])
        e, f = np.array([np.cos(a), np.sin(a)]), np.array([np.cos(b), np.sin(b)])
        A = np.zeros((4, 4))
        A[:2, :2] = (2 * m + pin) * np.eye(2)
        A[:2, 2], A[:2, 3] = -m * arm * n, m * arm * k
        A[2:, :2] = A[:2, 2:].T
        A[2, 2] = A[3, 3] = inertia + m * arm**2
        right = np.concatenate([m * arm * (db**2 * f - da**2 * e), [0, 0]])
        return np.concatenate([[da, db], np.linalg.solve(A, right)[2:]])

    return solve_ivp(rate, (0, seconds), [0, 0, 0, w], rtol=1e-10, atol=1e-12).y[:2, -1]


def test_hinged_boxes_move_as_the_equations_of_two_pendulums_say():
    body, w, seconds = hinged_boxes((0.5, 0.3, 0.4), (2, 2, 2)), 3.0, 1.0
    box = slice(8, 16)
    arm = body.positions[box].mean(0)
    own = inertia_of(body.mass[box], body.radii[box], body.start().rest.rotations[box])[:, 2, 2].sum()
    inertia = own + (body.mass[box] * ((body.positions[box] - arm)[:, :2] ** 2).sum(1)).sum()
    expected = two_pendulums(body.mass[box].sum(), body.mass[16:].sum(), inertia, arm[0], w, seconds)
    spins = np.zeros((18, 3))
    spins[box, 2] = w
    errors = []
    for substep in (1 / 120, 1 / 480):
        solver = ParticleSolver(body, substep=substep, **FREE)
        state = solver.start().replace(spins=spins, velocities=np.cross(spins, body.positions))
        for _ in range(round(60 * seconds)):
            state = solver.step(state, 1 / 60)
        angles = [Rotation.from_matrix(state.rotations[i]).as_rotvec()[2] for i in (0, 8)]
        errors.append(np.abs(angles - expected).max())
    # The joint is implicit and takes energy: of first order in the substep, 2 degrees at the default
    assert errors[0] < 0.05
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.15)


@pytest.mark.parametrize("kind", ["hinge", "ball"])
def test_free_jointed_bodies_turn_against_each_other_and_hold(rng, kind):
    body = hinged_boxes((0.5, 0.3, 0.4), (2, 2, 2)) if kind == "hinge" else ball_joint()
    shared = np.flatnonzero(~body.oriented)
    assert len(shared) == (2 if kind == "hinge" else 1)
    mine = np.setdiff1d(body.groups[1], shared)
    other = np.setdiff1d(body.groups[0], shared)
    w = np.array([0, 0, 3.0]) if kind == "hinge" else np.array([1.0, 2.0, 2.0])
    spins = np.zeros((len(body), 3))
    spins[mine] = w
    solver = ParticleSolver(body, **FREE)
    state = solver.start().replace(spins=spins, velocities=np.cross(spins, body.positions))
    before, energy, between = body.momentum(state), body.kinetic_energy(state), []
    for _ in range(120):
        state = solver.step(state, 1 / 60)
        between.append(
            Rotation.from_matrix(state.rotations[mine[0]].T @ state.rotations[other[0]]).magnitude()
        )
        # The fraction of a millimetre by which one iteration after the other comes short
        assert joint_gap(body, state, *body.groups, shared) < 1e-3
        assert body.kinetic_energy(state) < energy * (1 + 1e-9)
    for now, then in zip(body.momentum(state), before, strict=True):
        np.testing.assert_allclose(now, then, atol=1e-10 * np.abs(before[1]).max())
    assert max(between) > 0.9  # they turned against each other, by about a radian
    if kind == "hinge":  # and about z only
        np.testing.assert_allclose(state.rotations[:16, 2], np.tile([0, 0, 1], (16, 1)), atol=1e-9)


def test_a_twist_is_shared_in_proportion_to_inverse_inertia():
    """s of the angle between two particles goes, and for equal ones half of it on either side."""
    for s, trace, expected in (
        (1.0, (1, 1), (0.2, 0.2)),
        (0.5, (1, 1), (-0.05, 0.45)),
        (1.0, (1, 3), (-0.05,) * 2),
    ):
        angle = np.array([-0.3, 0.7])
        E = Rotation.from_rotvec(np.outer(angle, [1, 0, 0])).as_matrix().reshape(2, 9)
        M, P = np.tile(np.eye(3).ravel(), (2, 1)), np.zeros((2, 16))
        # Weights are inverse inertias: of (1, 3) the second is the lighter one and turns the most of the way.
        edges = EdgeArrays(np.array([[0, 1]]), np.ones(1), np.zeros(1), torsion=np.array([s]))
        correct_twists(0, 1, 0, edges, np.array(trace, float), M, P, E)
        turned = Rotation.from_matrix(E.reshape(2, 3, 3)).as_rotvec()
        np.testing.assert_allclose(turned[:, 0], expected, atol=1e-14)
        np.testing.assert_allclose(turned[:, 1:], 0, atol=1e-14)
        np.testing.assert_allclose(
            P[:, 4:].reshape(2, 3, 4)[:, :, :3].reshape(2, 9), E, atol=1e-15
        )  # what goes into the moment matrices follows


def twist_after(torsion, steps, iterations=1):
    """A free rope wound by 2 rad: the angle that is left between its ends."""
    body = rope((0, 0, 0), (1, 0, 0), particles=24, radius=0.03, stiffness=0.5, torsion=torsion)
    solver = ParticleSolver(body, iterations=iterations, **FREE)
    angles = np.linspace(-1, 1, 24)
    state = solver.start().replace(rotations=Rotation.from_rotvec(np.outer(angles, [1, 0, 0])).as_matrix())
    for _ in range(steps):
        state = solver.step(state, 1 / 60)
    along = [Rotation.from_matrix(R).as_rotvec()[0] for R in state.rotations]
    np.testing.assert_allclose(state.positions, body.positions, atol=1e-12)  # twist alone moves nothing
    return along[-1] - along[0], body, state


def test_a_wound_rope_unwinds_and_torsion_makes_it_faster():
    """Groups average the orientations of neighbours, so it unwinds without torsion too, as in the paper."""
    left = [twist_after(torsion, 6)[0] for torsion in (0.0, 0.5, 0.9)]
    assert (np.diff(left) < -0.05).all()
    assert all(angle < 1.0 for angle in left)
    _, body, state = twist_after(0.9, 50)
    # Spin goes back and forth in it, but there was none at first.
    np.testing.assert_allclose(body.momentum(state)[1], 0, atol=1e-12)


def test_torsion_leaves_a_bent_and_wound_rest_pose_alone():
    body = curved_rope(12, torsion=1.0, stretch=0.5, stiffness=0.5)
    solver = ParticleSolver(body, **FREE)
    state = solver.start()
    for _ in range(100):
        state = solver.step(state, 1 / 60)
    # Rounding, eps / h, in 200 substeps
    np.testing.assert_allclose(state.positions, body.positions, atol=1e-11)
    np.testing.assert_allclose(state.rotations, np.tile(np.eye(3), (12, 1, 1)), atol=1e-11)
