"""The implicit solver: what it moves and holds, lets go and reports."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scenes import BOTTOM, GRID, TOP, box, joined, run, soft

import pointglue as pg
from pointglue.elastic import (
    Bond,
    ElasticBody,
    ForceEnergy,
    ImplicitSolver,
    SpringEnergy,
    StepError,
    TargetEnergy,
)
from pointglue.errors import ConvergenceError, InputError

G = np.array([0.0, -9.81, 0.0])


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_nothing_moves_in_equilibrium(method):
    solver = ImplicitSolver([soft(pinned=TOP), box("box", (1, 0, 0))], gravity=(0, 0, 0), method=method)
    start = solver.start()
    state = run(solver, 4, 0.05)
    assert_allclose(state.positions, start.positions, atol=1e-14)
    assert_allclose(state.velocities, 0, atol=1e-12)


def test_pinned_points_stay_and_go_as_told():
    still = run(ImplicitSolver([soft(pinned=TOP)]), 5, 0.02)
    assert_array_equal(still.body("soft")[TOP], GRID[TOP])

    def motion(t):
        return GRID[TOP] + [0.2 * t, 0, 0]

    moved = run(ImplicitSolver([soft(pinned=TOP, motion=motion)]), 5, 0.02)
    assert_allclose(moved.body("soft")[TOP], motion(0.1), atol=1e-16)
    assert_allclose(moved.velocities[TOP], np.broadcast_to([0.2, 0, 0], (len(TOP), 3)), atol=1e-13)
    assert moved.body("soft")[BOTTOM, 0].mean() > still.body("soft")[BOTTOM, 0].mean()


def test_a_hanging_spring_comes_to_rest_where_it_should():
    points = np.array([[0.0, 0, 0], [0, -1, 0]])
    body = ElasticBody(
        points, np.ones(2), [SpringEnergy(points, [[0, 1]], 100.0)], pinned=np.array([True, False])
    )
    state = run(ImplicitSolver([body], tolerance=1e-9), 400, 0.1)
    assert_allclose(state.body("body")[1], [0, -1 - 9.81 / 100, 0], atol=1e-9)


def test_a_step_can_be_given_up():
    """What `watch` raises comes out, and the solver goes on as if nothing had been."""
    solver = ImplicitSolver([soft(pinned=TOP)])
    calls = []

    def watch():
        calls.append(None)
        if len(calls) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solver.step(solver.start(), 0.05, watch=watch)
    calls += [None]
    after = solver.step(solver.start(), 0.05, watch=watch)
    assert len(calls) == 3 + after.report.iterations
    undisturbed = ImplicitSolver([soft(pinned=TOP)])
    assert_array_equal(after.positions, undisturbed.step(undisturbed.start(), 0.05).positions)


def test_glue_holds_to_rounding():
    first, second = soft("first", pinned=TOP), soft("second", (0, -0.5, 0), velocities=(2.0, 0, 0))
    solver = ImplicitSolver([first, second], glue=[Bond("second", TOP, "first")])
    glue = pg.bind_glue(first.positions, second.positions[TOP])
    state = solver.start()
    for _ in range(8):
        state = solver.step(state, 0.02)
        assert_allclose(glue.positions(state.body("first")), state.body("second")[TOP], atol=1e-14)
    given = ImplicitSolver([first, second], glue=[Bond("second", TOP, "first", glue)])
    assert_allclose(run(given, 8, 0.02).positions, state.positions, atol=1e-12)


def test_parents_that_would_collapse_at_the_speed_they_have_are_stopped_before():
    """The first place that a step is tried from has all parents on a line, and no frame."""
    dt = 0.02
    first = soft("first", velocities=-(GRID - GRID.mean(0)) * [0, 1, 1] / dt, stiffness=5e3)
    second = ElasticBody(np.array([[0.15, 0.35, 0.15]]), [0.01], [], name="second")
    solver = ImplicitSolver([first, second], glue=[Bond("second", [0], "first")], gravity=(0, 0, 0))
    state = solver.step(solver.start(), dt)
    glue = pg.bind_glue(first.positions, second.positions)
    assert_allclose(glue.positions(state.body("first")), state.body("second"), atol=1e-14)
    assert glue.gap(state.body("first"))[0] > 0.02


def test_the_binding_may_be_to_any_particles_of_the_scene_and_an_embedding():
    first, second = soft("first"), soft("second", (0, -0.5, 0))
    every = np.concatenate([first.positions, second.positions])
    glue = pg.bind_glue(every, second.positions[TOP], among=np.arange(64))
    of_body, of_scene = (
        run(ImplicitSolver([first, second], glue=[bond]), 3, 0.02).positions
        for bond in (Bond("second", TOP, "first"), Bond("second", TOP, binding=glue))
    )
    assert_allclose(of_body, of_scene, atol=1e-13)
    tet = np.array([[0, 1, 0], [0, 0, 0], [0.9, 0, 0], [0, 0, 0.9]])
    cage = ElasticBody(tet, np.ones(4), name="cage")
    riders = ElasticBody(np.array([[0.1, 0.1, 0.1], [2.0, 0, 0]]), np.ones(2), name="riders")
    embedding = pg.embed((tet, [[0, 1, 2, 3]]), riders.positions, parents=4)
    solver = ImplicitSolver([riders, cage], glue=[Bond("riders", [0, 1], "cage", embedding)])
    state = run(solver, 3, 0.02)
    assert_allclose(state.body("riders"), embedding.positions(state.body("cage")), atol=1e-14)


def test_spring_glue_is_drawn_and_damped():
    """A point on spring glue to a pinned body: an oscillator with friction, solved by hand."""
    held = soft("held", pinned=np.arange(64))
    k, c, m, h = 40.0, 0.7, 0.5, 0.01
    point = ElasticBody(np.array([[0.15, 0.4, 0.15]]), np.array([m]), velocities=(0, 1.0, 0), name="point")
    bond = Bond("point", [0], "held", spring=pg.Spring(k, damping=c))
    solver = ImplicitSolver([held, point], glue=[bond], gravity=(0, 0, 0), tolerance=1e-9)
    x, v = 0.0, 1.0
    for _ in range(30):
        v = (v - h * k / m * x) / (1 + h * c / m + h * h * k / m)
        x += h * v
    assert_allclose(run(solver, 30, h).body("point")[0, 1] - 0.4, x, atol=1e-12)


def test_springs_attach_and_release_at_their_times():
    held = soft("held", pinned=np.arange(64))
    point = ElasticBody(np.array([[0.15, 0.4, 0.15]]), np.ones(1), velocities=(0, 1.0, 0), name="point")
    spring = pg.Spring(1e4, attach=0.05, release=0.1)
    solver = ImplicitSolver(
        [held, point], glue=[Bond("point", [0], "held", spring=spring)], gravity=(0, 0, 0)
    )
    state, speeds = solver.start(), []
    for _ in range(15):
        state = solver.step(state, 0.01)
        speeds.append(state.velocities[64, 1])
    assert_allclose(speeds[:5], 1.0)
    assert abs(speeds[5] - 1) > 0.1
    assert_allclose(speeds[10:], speeds[9])


def test_hard_glue_lets_go_at_its_time():
    first, second = soft("first", pinned=np.arange(64)), soft("second", (0, -0.5, 0))
    solver = ImplicitSolver([first, second], glue=[Bond("second", TOP, "first", release=0.05)])
    before = run(solver, 5, 0.01)
    assert_allclose(before.body("second")[TOP], second.positions[TOP], atol=1e-15)
    after = run(solver, 5, 0.01, before)
    assert (after.body("second")[TOP, 1] < second.positions[TOP, 1] - 1e-3).all()
    assert after.released[64 + TOP].all()
    # From then on nothing but weight acts on the whole.
    change = solver.momenta(after)[0] - solver.momenta(before)[0]
    assert_allclose(change, 0.64 * G * 0.05, rtol=1e-9, atol=1e-12)


def test_hard_glue_breaks_under_its_load():
    first = soft("first", pinned=np.arange(64))
    weight = ElasticBody(np.array([[0.15, -0.1, 0.15]]), np.array([2.0]), name="weight")
    for strength, breaks in ((19.0, True), (20.0, False)):  # it weighs 19.62 N
        bond = Bond("weight", [0], "first", break_force=strength)
        state = run(ImplicitSolver([first, weight], glue=[bond]), 3, 0.01)
        assert state.released[64] == breaks
        assert (state.body("weight")[0, 1] < -0.1) == breaks


def test_springs_break_under_their_load():
    first = soft("first", pinned=np.arange(64))
    weight = ElasticBody(np.array([[0.15, -0.1, 0.15]]), np.array([2.0]), name="weight")
    for strength, breaks in ((15.0, True), (45.0, False)):  # at most twice the weight
        bond = Bond("weight", [0], "first", spring=pg.Spring(1000.0, break_force=strength))
        state = run(ImplicitSolver([first, weight], glue=[bond]), 20, 0.01)
        assert state.broken_springs[0] == breaks


def test_conflicting_glue_becomes_springs():
    left, right = (
        soft(name, (shift, 0, 0), pinned=np.arange(64)) for name, shift in (("left", 0), ("right", 0.6))
    )
    point = ElasticBody(np.array([[0.45, 0.15, 0.15]]), np.ones(1), name="point")
    solver = ImplicitSolver(
        [left, right, point],
        glue=[Bond("point", [0], "left"), Bond("point", [0], "right", release=0.05)],
        conflict_spring=pg.Spring(2000.0, damping=20.0),
        tolerance=1e-9,
    )
    two = run(solver, 5, 0.01)
    state = run(solver, 150, 0.04, two)
    # One spring is left to carry the weight.
    assert_allclose(state.body("point")[0], [0.45, 0.15 - 9.81 / 2000, 0.15], atol=1e-9)


PLACES = {"soft-soft": (soft, soft), "soft-rigid": (soft, box), "rigid-rigid": (box, box)}


@pytest.mark.parametrize("kind", ["ball", "hinge", "weld"])
@pytest.mark.parametrize("sides", PLACES)
def test_joints_stay_closed(kind, sides):
    """Also from velocities that they do not allow."""
    make_first, make_second = PLACES[sides]
    upper = soft("upper", pinned=TOP) if make_first is soft else box("upper", (0.1, 0.1, 0.1), fixed=True)
    lower = make_second("lower", (0.1, -0.55, 0.1))
    bodies = [upper, lower, box("last", (0.2, -1.0, 0.2), spin=(0, 0, 5.0))]
    joints = [
        joined(upper, lower, (0.15, -0.1, 0.15), kind),
        joined(lower, bodies[2], (0.2, -0.8, 0.2), kind),
    ]
    solver = ImplicitSolver(bodies, joints=joints)
    state = solver.start()
    for _ in range(12):
        state = solver.step(state, 0.02)
        assert state.report.violation < 1e-8 * solver.model.size
        for bond in joints:
            gaps = bond.joint.at(state.body(bond.first), state.body(bond.second)).gaps
            assert np.abs(gaps).max() < 1e-8 * solver.model.size
    assert state.report.substeps == 1


def test_a_hinge_turns_about_its_axis_only():
    door, post = box("door", (0.3, 0, 0), spin=(0, 3.0, 0)), box("post", fixed=True)
    solver = ImplicitSolver([door, post], joints=[joined(post, door, (0.15, 0, 0), "hinge", (0, 1, 0))])
    state = run(solver, 20, 0.02)
    assert_allclose(state.rotations[0][:, 1], [0, 1, 0], atol=1e-12)
    assert_allclose(state.origins[0][1], 0, atol=1e-12)
    assert np.arctan2(-state.rotations[0][2, 0], state.rotations[0][0, 0]) > 0.2


def test_joints_let_go_and_break():
    top, hung = box("top", fixed=True), box("hung", (0, -0.4, 0))
    weight = 9.81 * hung.mass
    for options, falls in (
        ({"release": 0.02}, True),
        ({"break_force": 0.99 * weight}, True),
        ({"break_force": 1.01 * weight}, False),
    ):
        state = run(ImplicitSolver([top, hung], joints=[joined(top, hung, (0, -0.2, 0), **options)]), 5, 0.01)
        assert state.released_joints[0] == falls
        assert (state.origins[1, 1] < -0.4 - 1e-4) == falls


def test_redundant_joints_are_harmless_and_counted():
    top, door = box("top", fixed=True), box("door", (0, -0.4, 0), velocity=(0, 0, 0.4), spin=(-2.0, 0, 0))
    one = [joined(top, door, (0, -0.2, 0), "hinge")]
    three = [*one, joined(top, door, (0.1, -0.2, 0), "hinge"), joined(top, door, (-0.1, -0.2, 0))]
    plain = run(ImplicitSolver([top, door], joints=one), 20, 0.02)
    over = run(ImplicitSolver([top, door], joints=three), 20, 0.02)
    assert plain.report.redundant == 0
    assert over.report.redundant == 8
    assert_allclose(
        over.positions[: len(top.positions) * 2], plain.positions[: len(top.positions) * 2], atol=1e-10
    )
    assert np.linalg.norm(over.multipliers) < 2 * np.linalg.norm(plain.multipliers)


def test_contradicting_joints_are_named_and_the_state_is_kept():
    def away(t):
        return (0.0, max(0.0, t - 0.02), 0.0), np.eye(3)

    top, middle, end = (
        box("top", fixed=True, motion=away),
        box("middle", (0, -0.4, 0)),
        box("end", (0, -0.8, 0), fixed=True),
    )
    joints = [joined(top, middle, (0, -0.2, 0)), joined(middle, end, (0, -0.6, 0))]
    solver = ImplicitSolver([top, middle, end], joints=joints, halvings=2)
    state = run(solver, 2, 0.01)
    with pytest.raises(StepError, match=r"ball joint 0 of '.*' and '.*' stays .* m open") as caught:
        solver.step(state, 0.01)
    assert isinstance(caught.value, ConvergenceError)
    assert caught.value.state is state
    first, second = box("a", fixed=True), box("b", (0, -0.4, 0), fixed=True, motion=away)
    both = ImplicitSolver([first, second], joints=[joined(first, second, (0, -0.2, 0))], halvings=0)
    with pytest.raises(StepError, match="joint 0 of 'a' and 'b' stays"):
        run(both, 5, 0.01)


class Fussy(ForceEnergy):
    """No forces, and no values either once its points have moved far from where they were."""

    def __init__(self, points, reach):
        super().__init__(np.zeros_like(points))
        self.home, self.reach = points.copy(), reach

    def value(self, x):
        return 0.0 if np.abs(x - self.home).max() < self.reach else np.inf

    def elements(self, x, *, project=False, out=None):
        self.home = np.array(x)  # it goes along, one Newton step at a time
        return super().elements(x, project=project, out=out)


def test_steps_are_halved_when_they_do_not_converge():
    points = np.zeros((1, 3))
    energy = Fussy(points, 0.012)
    body = ElasticBody(points, np.ones(1), [energy], velocities=(1.0, 0, 0))
    solver = ImplicitSolver([body], gravity=(0, 0, 0), iterations=2)
    state = solver.step(solver.start(), 0.08)
    assert state.report.substeps > 1
    assert_allclose(state.body("body")[0], [0.08, 0, 0])
    assert state.time == pytest.approx(0.08)
    energy.home = points.copy()
    with pytest.raises(StepError, match=r"did not converge, nor its part of 0\.04 s") as caught:
        ImplicitSolver([body], gravity=(0, 0, 0), iterations=1, halvings=1).step(solver.start(), 0.08)
    assert caught.value.state.time == 0.0


def test_energies_may_be_functions_of_time():
    def towards(t):
        return TargetEnergy(64, TOP, GRID[TOP] + [t, 0, 0], 1e4)

    body = soft()
    body = ElasticBody(body.positions, body.mass, [*body.energies, towards])
    state = run(ImplicitSolver([body]), 20, 0.02)
    assert_allclose(state.body("body")[TOP, 0].mean() - GRID[TOP, 0].mean(), 0.4, atol=0.02)


def test_forces_push():
    def wind(state):
        return np.where(np.arange(len(state.positions))[:, None] < 64, [0.03, 0, 0], 0.0)

    solver = ImplicitSolver([soft(), box("box", (1, 0, 0))], forces=[wind], gravity=(0, 0, 0))
    state = run(solver, 10, 0.02)
    assert_allclose(solver.momenta(state)[0], [64 * 0.03 * 0.2, 0, 0], atol=1e-12)
    assert_allclose(state.origin_velocities, 0, atol=1e-15)


class Wandering(SpringEnergy):
    """A spring that ties other points each time."""

    def choose(self, k):
        super().__init__(np.zeros((64, 3)), [[k, k + 1]], 0.0)


def system_of(solver):
    """The linear system that the solver keeps between steps."""
    return solver._system[1]


def test_stencils_may_change_between_steps():
    spring = Wandering(np.zeros((64, 3)), [[0, 1]], 0.0)
    solver = ImplicitSolver([soft()], energies=[spring])
    state = solver.step(solver.start(), 0.01)
    system = solver.integrator.system
    spring.choose(20)
    solver.step(state, 0.01)
    assert solver.integrator.system is not system


def test_sparsity_is_built_once():
    solver = ImplicitSolver([soft(pinned=TOP)])
    state = run(solver, 2, 0.02)
    system = solver.integrator.system
    run(solver, 2, 0.02, state)
    assert solver.integrator.system is system


def test_indefinite_steps_are_projected():
    """Springs pushed together are indefinite across: the exact Hessian alone would not do."""
    points = 0.2 * GRID + [0, 5, 0]
    body = ElasticBody(points, np.full(64, 0.01), soft(stiffness=1e5).energies)
    state = ImplicitSolver([body]).step(ImplicitSolver([body]).start(), 0.05)
    assert state.report.projected > 0
    assert state.report.factorisations > state.report.iterations
    assert state.report.speeds[-1] <= 1e-4


def test_the_mass_of_what_is_fixed_does_not_matter():
    """It would add a constant to the objective, in whose rounding the line search could see nothing."""
    points = 0.2 * GRID + np.random.default_rng(0).normal(0, 1e-2, GRID.shape)  # some steps are too long
    body = ElasticBody(points, np.full(64, 0.01), soft(stiffness=1e5).energies, name="soft")
    pinned = ElasticBody(np.eye(3), np.full(3, 1e20), pinned=[True] * 3, name="pinned")
    reports = []
    for others in ([], [pinned, box("ground", density=1e20, fixed=True)]):
        solver = ImplicitSolver([body, *others])
        reports.append(solver.step(solver.start(), 0.05).report)
    assert reports[0].speeds == reports[1].speeds


def tangle():
    first, second = (
        soft("first", pinned=TOP, damping=0.001),
        soft("second", (0, -0.5, 0), velocities=(1.0, 0, 1.0)),
    )
    hung = box("hung", (0.1, -0.8, 0.1))
    return ImplicitSolver(
        [first, second, hung],
        glue=[Bond("second", TOP, "first"), Bond("hung", [0], "first", spring=pg.Spring(10.0))],
        joints=[joined(second, hung, (0.1, -0.6, 0.1))],
        method="bdf2",
    )


def test_the_number_of_threads_changes_nothing():
    results = []
    for count in (1, 2, 1):
        with pg.threads(count):
            results.append(run(tangle(), 3, 0.02))
    for other in results[1:]:
        for name in ("positions", "velocities", "rotations", "multipliers"):
            assert_array_equal(getattr(results[0], name), getattr(other, name))


def test_states_are_kept_and_report():
    solver = tangle()
    start = solver.start()
    kept = start.positions.copy()
    state = solver.step(start, 0.02)
    assert_array_equal(start.positions, kept)
    with pytest.raises(ValueError, match="read-only"):
        state.positions[0] = 0
    report = state.report
    assert report.iterations == len(report.speeds) > 0
    assert set(report.seconds) == {"energies", "sum", "glue", "factor", "solve"}
    assert report.violation < 1e-9
    assert state.time == 0.02


class TestAttach:
    """What sticks later sticks where it is then: no jump, and nothing moves against it afterwards."""

    def test_points_stick_where_they_are(self):
        lower = soft("lower", pinned=BOTTOM)
        upper = soft("upper", (0, 0.5, 0))
        bond = Bond("upper", BOTTOM, to="lower", attach=0.1)
        solver = ImplicitSolver([lower, upper], glue=[bond])
        state = run(solver, 10, 0.01)
        fallen = state.body("upper")[BOTTOM, 1].mean()
        assert fallen == pytest.approx(0.5 - 9.81 * 0.01 * 0.01 * 55, rel=1e-6)  # backward Euler's fall
        assert state.pending.any()
        caught = solver.step(state, 1e-6)
        assert not caught.pending.any()
        moved = np.abs(caught.positions - state.positions).max()
        assert moved < 2e-6  # at 1 m/s: what sticks does not jump
        state = run(solver, 20, 0.01, caught)
        assert np.abs(state.body("upper")[BOTTOM, 1].mean() - fallen) < 0.15  # it no longer falls

    def test_joints_catch(self):
        one, two = box("one", (0, 0, 0), fixed=True), box("two", (0.3, 0.5, 0))
        bond = joined(one, two, [[0.15, 0.25, 0.0]], attach=0.1)
        solver = ImplicitSolver([one, two], joints=[bond])
        state = run(solver, 10, 0.01)
        assert state.report.violation == 0.0
        start = state
        state = run(solver, 30, 0.01, state)
        assert state.report.violation < 1e-8 * solver.model.size
        assert np.abs(state.origins[1] - start.origins[1]).max() < 1.2  # it swings about where it was caught
        free = run(ImplicitSolver([one, two]), 40, 0.01)
        assert state.origins[1, 1] > free.origins[1, 1] + 0.2

    def test_release_after_attach(self):
        upper = soft("upper", (0, 0.5, 0))
        bond = Bond("upper", BOTTOM, to="lower", attach=0.05, release=0.1)
        solver = ImplicitSolver([soft("lower", pinned=BOTTOM), upper], glue=[bond])
        state = run(solver, 20, 0.01)
        assert state.released.any()
        assert not state.pending.any()

    def test_states_that_wait_are_resumed(self):
        bond = Bond("upper", BOTTOM, to="lower", attach=0.05)
        bodies = [soft("lower", pinned=BOTTOM), soft("upper", (0, 0.5, 0))]
        whole = run(ImplicitSolver(bodies, glue=[bond]), 12, 0.01)
        half = run(ImplicitSolver(bodies, glue=[bond]), 7, 0.01)
        again = run(ImplicitSolver(bodies, glue=[bond]), 5, 0.01, half)
        assert again.positions.tobytes() == whole.positions.tobytes()

    def test_bad_times(self):
        with pytest.raises(InputError, match="attach must come before release"):
            Bond("upper", BOTTOM, to="lower", attach=1.0, release=0.5)
        with pytest.raises(InputError, match="a spring has its own attach"):
            Bond("upper", BOTTOM, to="lower", attach=1.0, spring=pg.Spring(10.0))
        lower, upper = soft("lower"), soft("upper", (0, 0.5, 0))
        linear = pg.bind_linear(lower.positions, upper.positions[:1], [[0, 1, 4]])
        with pytest.raises(InputError, match="attach is for glue"):
            ImplicitSolver([lower, upper], glue=[Bond("upper", [0], to="lower", binding=linear, attach=1.0)])
