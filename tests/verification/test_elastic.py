"""The implicit solver against closed forms, conservation laws, and the orders its methods promise."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from elastic.scenes import GRID, TOP, box, joined, run, soft
from numpy.testing import assert_allclose

import pointglue as pg
from pointglue.elastic import Bond, ElasticBody, FleshEnergy, ImplicitSolver, RigidBody, SpringEnergy
from pointglue.elastic.step import integrator
from pointglue.elastic.step.linear_system import LinearSystem
from pointglue.geometry.simplices import tet_box

G = np.array([0.0, -9.81, 0.0])


def test_free_fall():
    """Euler's own sums to rounding; with two steps the speed, and places but for what the start leaves."""
    v, h, steps = np.array([1.0, 2.0, 3.0]), 0.05, 10
    t = h * steps
    for method in ("euler", "bdf2"):
        bodies = [soft(velocities=v), box("box", (1, 0, 0), velocity=v)]
        solver = ImplicitSolver(bodies, method=method)
        state = run(solver, steps, h)
        assert_allclose(state.velocities[:64], np.broadcast_to(v + G * t, (64, 3)), atol=1e-11)
        assert_allclose(state.origin_velocities[0], v + G * t, atol=1e-11)
        expected = v * t + G * h * h * steps * (steps + 1) / 2 if method == "euler" else v * t + G * t * t / 2
        moved = np.vstack([state.body("soft") - GRID, state.body("box") - bodies[1].positions])
        # A first step of h / 16 by Euler's method is off by (h / 16)^2 g / 2; doubling carries that on.
        atol = 1e-13 if method == "euler" else 2 * 9.81 * (h / 16) ** 2
        assert_allclose(moved, np.broadcast_to(expected, moved.shape), atol=atol)
        assert_allclose(moved, np.broadcast_to(moved[0], moved.shape), atol=1e-12)  # nothing is deformed


def test_oscillator():
    """A mass on a spring against the cosine, to the order of the method."""
    points = np.array([[0.0, 0, 0], [1.1, 0, 0]])
    energy = SpringEnergy(points, [[0, 1]], 40.0, rest_length=1.0)
    body = ElasticBody(points, np.ones(2), [energy], pinned=np.array([True, False]))
    for method, order in (("euler", 1), ("bdf2", 2)):
        errors = []
        for steps in (25, 50, 100):
            solver = ImplicitSolver([body], gravity=(0, 0, 0), method=method, tolerance=1e-11)
            state = run(solver, steps, 0.5 / steps)
            rate = np.sqrt(40.0)
            x, v = 1 + 0.1 * np.cos(0.5 * rate), -0.1 * rate * np.sin(0.5 * rate)
            errors.append(np.hypot(rate * (state.body("body")[1, 0] - x), state.velocities[1, 0] - v))
        measured = np.log2(np.array(errors[:-1]) / errors[1:])
        assert_allclose(measured, order, atol=0.15)


def glued_pendulum(method):
    """Soft on soft by glue, swinging, its springs resolved."""
    fan = 5 * (GRID[:, 1] - 0.3)[:, None] * [1.0, 0, 0]
    first = soft("first", pinned=TOP, velocities=fan, stiffness=5.0)
    second = soft("second", (0, -0.5, 0), velocities=(-1.5, 0, 0), stiffness=5.0)
    solver = ImplicitSolver(
        [first, second], glue=[Bond("second", TOP, "first")], method=method, tolerance=1e-9
    )
    return solver


def hinged_boxes(method):
    """Two boxes on a hinge, tumbling together and folding."""
    spin = np.array([1.0, 4.0, 2.0])
    first = box("first", spin=spin)
    folding, arm = spin + [3.0, 0, 0], [0, -0.2, 0]
    second = box("second", (0, -0.4, 0), spin=folding, velocity=np.cross(spin, arm) + np.cross(folding, arm))
    joints = [joined(first, second, (0, -0.2, 0), "hinge")]
    return ImplicitSolver([first, second], joints=joints, method=method, tolerance=1e-9, gravity=(0, 0, 0))


@pytest.mark.parametrize(
    ("scene", "duration", "method", "order"),
    [(glued_pendulum, 0.05, "bdf2", 2), (hinged_boxes, 0.2, "bdf2", 2), (hinged_boxes, 0.2, "euler", 1)],
)
def test_order(scene, duration, method, order):
    """Of the changes as the step is halved, glue and joints included."""
    ends = [run(scene(method), steps, duration / steps).positions for steps in (15, 30, 60)]
    changes = [np.abs(a - b).max() for a, b in pairwise(ends)]
    measured = np.log2(changes[-2] / changes[-1])
    assert abs(measured - order) < 0.2, (changes, measured)


def tied(rng):
    """Everything at once, free in space: glue, spring glue, joints of soft and rigid bodies."""
    first = soft("first", velocities=rng.standard_normal((64, 3)), damping=6e-4)
    second = soft("second", (0, -0.5, 0), velocities=rng.standard_normal((64, 3)))
    hung, last = (
        box("hung", (0.1, -0.8, 0.1), spin=(3, 1, 2)),
        box("last", (0.1, -1.2, 0.1), velocity=(1, 0, 0)),
    )
    return ImplicitSolver(
        [first, second, hung, last],
        glue=[Bond("second", TOP, "first"), Bond("hung", [0], "first", spring=pg.Spring(50.0))],
        joints=[joined(second, hung, (0.1, -0.6, 0.1)), joined(hung, last, (0.1, -1.0, 0.1), "weld")],
        gravity=(0, 0, 0),
        tolerance=1e-9,
    )


def test_momentum(rng):
    """No net force, and about the places at the end of each step no net torque, from anything that ties."""
    solver = tied(rng)
    state = solver.start()
    scale = np.abs(solver.momenta(state)[1]).max()
    for _ in range(6):
        before, state = state, solver.step(state, 0.02)
        # The speeds of before at the places of now
        held = replace(
            state,
            particle_velocities=before.particle_velocities,
            origin_velocities=before.origin_velocities,
            rotation_rates=before.rotation_rates,
        )
        for now, then in zip(solver.momenta(state), solver.momenta(held), strict=True):
            assert_allclose(now, then, atol=1e-9 * scale)  # what the tolerance leaves


def test_angular_momentum_is_kept_to_second_order():
    drifts = []
    for steps in (15, 30, 60):
        solver = hinged_boxes("bdf2")
        start = solver.start()
        state = run(solver, steps, 0.2 / steps, start)
        drifts.append(np.linalg.norm(solver.momenta(state)[1] - solver.momenta(start)[1]))
    assert (np.log2(np.array(drifts[:-1]) / drifts[1:]) > 1.7).all(), drifts


def newton_table():
    """Sizes of the Newton steps (m/s) of one large step of a swinging glued body."""
    first, second = soft("first", pinned=TOP), soft("second", (0, -0.5, 0), velocities=(6.0, 0, 0))
    solver = ImplicitSolver([first, second], glue=[Bond("second", TOP, "first")], tolerance=1e-11)
    return np.array(solver.step(solver.start(), 0.05).report.speeds)


def without_curvature(*arguments):
    """A linear system that leaves out the second derivatives of bindings."""
    system = LinearSystem(*arguments)
    assert system.curved
    system.curved.clear()
    return system


def test_newton_converges_quadratically_thanks_to_the_second_derivative_of_glue(monkeypatch):
    speeds = newton_table()
    late = speeds[(speeds < 0.1) & (speeds > 1e-13)]
    # |step| -> C |step|^2: the number of right digits doubles.
    rates = np.log(late[1:]) / np.log(late[:-1])
    assert len(late) >= 3
    assert (rates > 1.7).all(), speeds
    monkeypatch.setattr(integrator, "LinearSystem", without_curvature)
    without = newton_table()
    assert len(without) >= len(speeds) + 4, (speeds, without)
    tail = without[-5:]
    ratios = tail[1:] / tail[:-1]
    # Linear: every step shrinks by the same factor.
    assert ratios.max() < 3 * ratios.min()
    assert ratios.min() > 1e-3


def test_newton_converges_quadratically_with_joints():
    upper, lower = box("upper", fixed=True), box("lower", (0, -0.4, 0), spin=(4.0, 0, 3.0))
    solver = ImplicitSolver([upper, lower], joints=[joined(upper, lower, (0, -0.2, 0))], tolerance=1e-9)
    speeds = np.array(solver.step(solver.start(), 0.05).report.speeds)
    late = speeds[(speeds < 0.3) & (speeds > 1e-13)]
    assert len(late) >= 3
    assert (np.log(late[1:]) / np.log(late[:-1]) > 1.6).all(), speeds


def test_a_swinging_chain_keeps_its_joints_closed():
    """Soft and rigid links in turn, balls and hinges, let go from the horizontal with large steps."""
    links = []
    for k in range(5):
        shift = (0.5 * k, 0, 0)
        pinned = np.flatnonzero(GRID[:, 0] < 0.05) if k == 0 else None
        links.append(soft(f"link {k}", shift, stiffness=3e3, damping=3e-4, pinned=pinned) if k % 2 == 0
                     else box(f"link {k}", np.add(shift, 0.15), extents=(0.3, 0.2, 0.2)))  # fmt: skip
    joints = [
        joined(a, b, (0.5 * k + 0.4, 0.15, 0.15), kind="ball" if k % 2 else "hinge", axis=(0, 0, 1))
        for k, (a, b) in enumerate(pairwise(links))
    ]
    solver = ImplicitSolver(links, joints=joints)
    state, worst = solver.start(), 0.0
    for _ in range(24):
        state = solver.step(state, 1 / 24)
        assert state.report.substeps == 1
        for bond in joints:
            gaps = bond.joint.at(state.body(bond.first), state.body(bond.second)).gaps
            worst = max(worst, float(np.abs(gaps).max()))
    assert worst < 1e-8 * solver.model.size
    assert state.body("link 4")[:, 1].mean() < -0.5  # it has come down


def test_a_pendulum_swings_in_its_time():
    """A box on a ball joint against the small swings of a physical pendulum, T = 2 pi sqrt(I / (m g d))."""
    tilt, length = 0.01, 0.2
    top, bob = box("top", fixed=True), box("bob", (0, -0.35, 0))
    turn = np.array([[1, 0, 0], [0, np.cos(tilt), -np.sin(tilt)], [0, np.sin(tilt), np.cos(tilt)]])
    hinge = np.array([0, -0.35 + length, 0])
    bob = RigidBody((bob.positions - hinge) @ turn.T + hinge, bob.mass, turn @ bob.moment @ turn.T,
                    turn @ (bob.center_of_mass - hinge) + hinge, name="bob")  # fmt: skip
    solver = ImplicitSolver([top, bob], joints=[joined(top, bob, hinge)], method="bdf2", tolerance=1e-8)
    moment = bob.moment[1, 1] + bob.moment[2, 2] + bob.mass * length**2
    period = 2 * np.pi * np.sqrt(moment / (bob.mass * 9.81 * length))
    state = run(solver, 50, period / 4 / 50)
    # A quarter of a period later it is at the bottom, at its greatest speed.
    assert abs(state.origins[1, 2]) < 0.01 * length * tilt
    speed = tilt * length * 2 * np.pi / period
    assert np.linalg.norm(state.origin_velocities[1]) == pytest.approx(speed, rel=0.01)


def test_bar_under_its_own_weight_is_timoshenkos_beam():
    """One step so long that inertia is nothing is the static solution.

    Linear tetrahedra are too stiff in bending, by a share that goes as the square of their size: the limit
    that two sizes promise is the beam's, to what is left of the fourth order (0.2 % here, 0.7 % before).
    """
    length, side, young, density, weight = 1.0, 0.1, 1e6, 100.0, 0.1
    tips = []
    for cells in (3, 4, 6):
        rest, tets = tet_box((length, side, side), (10 * cells, cells, cells))
        energy = FleshEnergy(rest, tets, young=young, poisson=0.0)
        root = rest[:, 0] == rest[:, 0].min()
        bar = ElasticBody(rest, energy.mass(density), [energy], pinned=root)
        solver = ImplicitSolver([bar], gravity=(0, -weight, 0), tolerance=1e-9)
        state = solver.step(solver.start(), 1e3)
        end = rest[:, 0] == rest[:, 0].max()
        tips.append(float((rest - state.positions[: len(rest)])[end, 1].mean()))
    load = density * side**2 * weight
    bending = load * length**4 / (8 * young * side**4 / 12)
    shear = load * length**2 / (2 * (5 / 6) * (young / 2) * side**2)
    errors = 1 - np.array(tips) / (bending + shear)
    assert 0 < errors[2] < errors[1] < errors[0]
    coarse, fine = 1 / np.array(tips[1:])
    limit = 1 / (fine + (fine - coarse) / ((6 / 4) ** 2 - 1))
    assert limit == pytest.approx(bending + shear, rel=0.005)
