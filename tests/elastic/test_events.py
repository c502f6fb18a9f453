"""What reports of steps tell: bonds that hold or let go, attempts, and where a step is stuck."""

import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scenes import BOTTOM, TOP, box, joined, run, soft

import pointglue as pg
from pointglue.elastic import Bond, Contact, ElasticBody, ForceEnergy, ImplicitSolver, Motor, Stall, StepError


def events(solver, steps, dt=0.01):
    """What happened in which step: the step, counted from 1, the event, its kind, the bodies, how many."""
    state, found = solver.start(), []
    for number in range(1, steps + 1):
        state = solver.step(state, dt)
        for one in state.report.events:
            assert one.time == state.time
            found.append((number, one.event, one.kind, one.first, one.second, one.count))
    return found


def weight(**options):
    return ElasticBody(np.array([[0.15, -0.1, 0.15]]), np.array([2.0]), name="weight", **options)


FIRST = soft("first", pinned=np.arange(64))


class TestBonds:
    def test_glue_takes_hold_and_is_released(self):
        bond = Bond("upper", BOTTOM, to="lower", attach=0.05, release=0.1)
        solver = ImplicitSolver([soft("lower", pinned=BOTTOM), soft("upper", (0, 0.5, 0))], glue=[bond])
        # A step goes by what holds at its beginning: the sixth begins at 0.05 s.
        assert events(solver, 15) == [
            (6, "attach", "glue", "upper", "lower", 16),
            (11, "release", "glue", "upper", "lower", 16),
        ]

    def test_springs_take_hold_and_are_released(self):
        spring = pg.Spring(100.0, attach=0.05, release=0.1)
        solver = ImplicitSolver([FIRST, weight()], glue=[Bond("weight", [0], "first", spring=spring)])
        assert events(solver, 15) == [
            (6, "attach", "spring", "weight", "first", 1),
            (11, "release", "spring", "weight", "first", 1),
        ]

    def test_what_holds_from_the_start_is_no_event(self):
        bonds = [Bond("weight", [0], "first", spring=pg.Spring(1e4, attach=0.0))]
        assert events(ImplicitSolver([FIRST, weight()], glue=bonds), 5) == []
        assert (
            events(ImplicitSolver([FIRST, weight()], glue=[Bond("weight", [0], "first", attach=0.0)]), 5)
            == []
        )

    def test_glue_breaks(self):
        bonds = [Bond("second", TOP, "first", release=0.02), Bond("weight", [0], "first", break_force=19.0)]
        solver = ImplicitSolver([FIRST, soft("second", (0, -0.5, 0)), weight()], glue=bonds)
        assert events(solver, 5) == [
            (1, "break", "glue", "weight", "first", 1),  # it weighs 19.62 N
            (3, "release", "glue", "second", "first", 16),
        ]

    def test_springs_break_once(self):
        spring = pg.Spring(1000.0, break_force=15.0, release=0.15)
        solver = ImplicitSolver([FIRST, weight()], glue=[Bond("weight", [0], "first", spring=spring)])
        ((_, *told),) = events(solver, 20)
        assert told == ["break", "spring", "weight", "first", 1]

    def test_joints_take_hold_are_released_and_break(self):
        one, two, three = (
            box("one", fixed=True), box("two", (0.3, 0.5, 0)), box("three", (0, -0.4, 0))
        )  # fmt: skip
        timed = joined(one, two, [[0.15, 0.25, 0.0]], attach=0.02, release=0.05)
        weak = joined(one, three, (0, -0.2, 0), break_force=1.0)
        solver = ImplicitSolver([one, two, three], joints=[timed, weak])
        assert events(solver, 8) == [
            (1, "break", "joint", "one", "three", 1),
            (3, "attach", "joint", "one", "two", 1),
            (6, "release", "joint", "one", "two", 1),
        ]


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


def test_iterations_of_attempts_that_failed_are_counted():
    points = np.zeros((1, 3))
    body = ElasticBody(points, np.ones(1), [Fussy(points, 0.012)], velocities=(1.0, 0, 0))
    solver = ImplicitSolver([body], gravity=(0, 0, 0), iterations=2)
    counts = []
    state = solver.step(solver.start(), 0.08, watch=lambda: counts.append(1))
    assert state.report.substeps > 1
    assert state.report.wasted > 0
    assert state.report.iterations + state.report.wasted == len(counts)
    assert solver.step(state, 1e-4).report.wasted == 0


class TestStalls:
    """A step that finds no end says with which bodies, where, and why."""

    def test_what_would_still_move(self):
        points = np.array([[0.0, 0, 0], [1, 2, 3]])
        still = ElasticBody(points, np.ones(2), name="still")
        energies, speeds = [Fussy(points + 5, 1e-9)], [[0, 0, 0], [1, 0, 0]]
        wild = ElasticBody(points + 5, np.ones(2), energies, velocities=speeds, name="wild")
        solver = ImplicitSolver([still, wild], gravity=(0, 0, 0), iterations=1, halvings=0)
        with pytest.raises(StepError, match=r"\('wild' near \(6, 7, 8\) m\)") as caught:
            solver.step(solver.start(), 0.08)
        assert caught.value.stall == Stall("convergence", ("wild",), (6.0, 7.0, 8.0))
        assert pickle.loads(pickle.dumps(caught.value)).stall == caught.value.stall

    def test_a_rigid_body_that_would_still_move(self):
        body = box("block", (1, 2, 3), spin=(0, 50, 0))
        solver = ImplicitSolver([body], iterations=1, halvings=0, tolerance=1e-12)
        with pytest.raises(StepError) as caught:
            solver.step(solver.start(), 0.1)
        assert (caught.value.stall.cause, caught.value.stall.bodies) == ("convergence", ("block",))
        assert caught.value.stall.position == pytest.approx((1, 2, 3), abs=0.2)

    def test_a_contact_that_bars_the_way(self):
        """A keyed plate comes down on a box on the floor."""
        press = box("press", (0, 0.4, 0), fixed=True, motion=lambda t: ((0, 0.4 - 4 * t, 0), np.eye(3)))
        under = box("under", (0, 0.11, 0), extents=(0.2, 0.2, 0.2))
        floor = box("floor", (0, -0.05, 0), extents=(3, 0.1, 3), fixed=True)
        solver = ImplicitSolver([press, under, floor], contact=Contact(distance=1e-3), halvings=1)
        state = solver.start()

        def pressed(state):
            for _ in range(4):
                state = solver.step(state, 1 / 24)

        with pytest.raises(StepError) as caught:
            pressed(state)
        stall = caught.value.stall
        assert stall.cause in ("contact", "motion")
        assert len(stall.bodies) == 2
        assert "under" in stall.bodies
        x, y, z = stall.position
        assert max(abs(x), abs(z)) < 0.2  # where the box is
        assert -0.01 < y < 0.25
        assert f"({stall})" in str(caught.value)

    def test_joints_that_contradict_each_other(self):
        def away(t):
            return (0.0, -t, 0.0), np.eye(3)

        one, two = box("one", fixed=True), box("two", (0, -0.4, 0), fixed=True, motion=away)
        solver = ImplicitSolver([one, two], joints=[joined(one, two, (0, -0.2, 0))], halvings=0)
        with pytest.raises(StepError) as caught:
            solver.step(solver.start(), 0.1)
        assert (caught.value.stall.cause, caught.value.stall.bodies) == ("joint", ("one", "two"))
        assert caught.value.stall.position == pytest.approx((0, -0.2, 0), abs=0.2)

    def test_a_motor_of_unlimited_force_against_a_limit(self):
        """Its own, or that of another joint that it moves through bodies; a fixed body passes nothing on."""
        wall = box("wall", (0, 0.5, 0), fixed=True)
        arm, rod = box("arm", (0.2, 0, 0)), box("rod", (0.6, 0, 0))
        drive = {"angle_motor": Motor(speed=4.0)}
        stops = {"angle_limits": (-0.1, 0.1)}
        hinged = partial(joined, kind="hinge", axis=(0, 0, 1))
        own = [hinged(arm, wall, (0, 0, 0), **drive, **stops)]
        link = [
            hinged(arm, wall, (0, 0, 0), **drive),
            joined(rod, arm, (0.4, 0, 0), "weld"),
            hinged(rod, wall, (0, 0, 0), **stops),
        ]
        for joints in (own, link):
            solver = ImplicitSolver([wall, arm, rod], joints=joints, gravity=(0, 0, 0), halvings=1)
            told = (
                r"open.*; the angle motor of 'arm' and 'wall' has unlimited force: with a max_force it stalls"
            )
            with pytest.raises(StepError, match=told) as caught:
                run(solver, 10, 0.02)
            assert (caught.value.stall.cause, caught.value.stall.bodies) == ("motor", ("arm", "wall"))
        one, two = (
            box("one", (2, 0, 0)),
            box("two", (2, -0.4, 0), fixed=True, motion=lambda t: ((2, -0.4 - t, 0), np.eye(3))),
        )
        apart = [
            joined(one, wall, (2, 0, 0)),
            joined(one, two, (2, -0.2, 0)),
            hinged(arm, wall, (0, 0, 0), **drive),
        ]
        solver = ImplicitSolver([wall, arm, one, two], joints=apart, halvings=0)
        with pytest.raises(StepError) as caught:
            run(solver, 10, 0.1)
        assert caught.value.stall.cause == "joint"
        assert "max_force" not in str(caught.value)

    def test_keys_that_turn_too_fast(self):
        def turn(t):
            c, s = np.cos(60 * t), np.sin(60 * t)
            return (0, 1, 0), [[c, 0, s], [0, 1, 0], [-s, 0, c]]

        blade, floor = box("blade", (0, 1, 0), fixed=True, motion=turn), box("floor", fixed=True)
        solver = ImplicitSolver([blade, floor], contact=Contact(distance=1e-3), halvings=0)
        with pytest.raises(StepError, match=r"'blade' turns by .* \('blade' near \(0, 1, 0\) m\)") as caught:
            solver.step(solver.start(), 1 / 24)
        assert (caught.value.stall.cause, caught.value.stall.bodies) == ("motion", ("blade",))


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("how", ["joint", "glue", "spring"])
def test_what_is_let_go_falls_from_then_on(method, how):
    """Its speed changes by gravity alone: BDF2 went on with half of what had held it in the last step."""
    dt, base, hung = 1 / 24, box("base", fixed=True), box("hung", (0.3, 0, 0))
    bonds = {
        "joint": {"joints": [joined(hung, base, (0.15, 0, 0), "weld", release=4 * dt)]},
        "glue": {"glue": [Bond("hung", np.arange(8), "base", release=4 * dt)]},
        "spring": {"glue": [Bond("hung", [0, 3, 5], "base", spring=pg.Spring(1e4, 1e2, release=4 * dt))]},
    }
    solver = ImplicitSolver([base, hung], method=method, tolerance=1e-8, **bonds[how])
    state = solver.start()
    for _ in range(4):
        state = solver.step(state, dt)
    last = state.origin_velocities[1]
    for number in range(1, 6):
        state = solver.step(state, dt)
        fallen = np.array([0.0, -9.81 * number * dt, 0.0])
        # The tolerance, in each of the nine substeps that there are at most.
        assert_allclose(state.origin_velocities[1], last + fallen, rtol=0, atol=1e-7)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_what_has_broken_off_spins_no_faster_for_it(method):
    """A hinge that is too weak turns a spin towards its axis, and breaks; BDF2 went on with that turn."""
    base, hung = box("base", fixed=True), box("hung", (0.3, 0, 0), spin=(0.0, 3.0, 0.0))
    hinge = joined(hung, base, (0.3, 0, 0), "hinge", axis=(0.0, 1.0, 1.0), break_torque=0.1)
    solver = ImplicitSolver([base, hung], joints=[hinge], gravity=(0, 0, 0), method=method, tolerance=1e-8)
    state = solver.step(solver.start(), 1 / 60)
    assert state.released_joints.all()
    first = solver.momenta(state)[1]
    for _ in range(8):
        state = solver.step(state, 1 / 60)
        # Euler's method loses w h squared of it a step, BDF2 next to nothing.
        assert_allclose(solver.momenta(state)[1], first, rtol=0, atol=0.02 * np.linalg.norm(first))
        first = solver.momenta(state)[1] if method == "euler" else first
