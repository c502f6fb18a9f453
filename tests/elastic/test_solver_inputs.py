"""What the implicit solver refuses, and how it is told."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scenes import GRID, TOP, box, joined, run, soft

import pointglue as pg
from pointglue.elastic import (
    Bond,
    ElasticBody,
    ImplicitSolver,
    JointBond,
    Motor,
    SpringEnergy,
    StepError,
    TargetEnergy,
)
from pointglue.errors import InputError


def test_wrong_calls():
    solver = ImplicitSolver([soft()])
    state = solver.start()
    for dt in (0, -1.0, np.nan, np.inf, "long", True):
        with pytest.raises(InputError, match=f"dt must be a finite number of at least 1e-12 .*, got {dt!r}"):
            solver.step(state, dt)
    with pytest.raises(
        InputError, match=re.escape("state must be one of this solver: begin with solver.start()")
    ):
        solver.step(ImplicitSolver([box()]).start(), 0.1)
    with pytest.raises(InputError, match="name must be that of a body, 'soft', got 'hard'"):
        state.body("hard")


ONE = {"positions": GRID, "mass": np.ones(64)}
BAD_BODIES = {
    "positions must have shape (n, 3), got (64, 2)": {"positions": GRID[:, :2]},
    "mass must have shape (64,), one number per point, got (63,)": {"mass": np.ones(63)},
    "mass must be positive, got 0 for point 3": {"mass": np.where(np.arange(64) == 3, 0.0, 1.0)},
    "mass must be finite, got nan at index [5]": {"mass": np.where(np.arange(64) == 5, np.nan, 1.0)},
    "pinned must be a mask of 64 booleans": {"pinned": np.zeros(64, int)},
    "motion is that of pinned points: say which are pinned": {"motion": lambda t: t},
    "velocities must have shape (3,) or (64, 3), got (2,)": {"velocities": (1.0, 2.0)},
    "energies must be a list, got SpringEnergy": {"energies": SpringEnergy(GRID, [[0, 1]], 1.0)},
    "energies[0] must be an energy, got dict without value": {"energies": [{}]},
    "energies[0] must be of 64 points in space like the body, got one of 2 points": {
        "energies": [SpringEnergy(np.eye(2, 3), [[0, 1]], 1.0)]
    },
}


@pytest.mark.parametrize("message", BAD_BODIES)
def test_bad_bodies(message):
    with pytest.raises(InputError, match=re.escape(message)):
        ElasticBody(**{**ONE, **BAD_BODIES[message]})


JOINT = pg.bind_joint(GRID, GRID + [0, -0.5, 0], (0.1, -0.1, 0.1))
BAD_BONDS = {
    "a bond of 'soft' needs a body to follow, or a binding": lambda: Bond("soft", [0]),
    "binding must be a Binding, got str": lambda: Bond("soft", [0], "to", "glue"),
    "a spring has its own attach, release and break_force: give them there": lambda: Bond(
        "soft", [0], "to", spring=pg.Spring(1.0), release=1.0
    ),
    "spring must be a Spring, got float": lambda: Bond("soft", [0], "to", spring=3.0),
    "release must be a number, got nan": lambda: Bond("soft", [0], "to", release=np.nan),
    "break_force must be a number above 0, got 0": lambda: JointBond("soft", "to", JOINT, break_force=0),
    "joint must be a Joint, see bind_joint, got int": lambda: JointBond("soft", "to", 1),
}


@pytest.mark.parametrize("message", BAD_BONDS)
def test_bad_bonds(message):
    with pytest.raises(InputError, match=re.escape(message)):
        BAD_BONDS[message]()


def two():
    return [soft("a", pinned=TOP), soft("b", (0, -0.5, 0))]


BAD_SOLVERS = {
    "bodies must hold at least one body": lambda: ImplicitSolver([]),
    "bodies must be a list, got ElasticBody": lambda: ImplicitSolver(soft()),
    "bodies[1] must be an ElasticBody or a RigidBody, got str": lambda: ImplicitSolver([soft(), "box"]),
    "bodies must have names of their own, got 'a' 2 times": lambda: ImplicitSolver([soft("a"), soft("a")]),
    "glue[0] must be a Bond, got Joint": lambda: ImplicitSolver(two(), glue=[JOINT]),
    "glue must name bodies, 'a', 'b', got 'c'": lambda: ImplicitSolver(two(), glue=[Bond("c", [0], "a")]),
    "glue must name bodies, 'a', 'b', got 'd'": lambda: ImplicitSolver(two(), glue=[Bond("b", [0], "d")]),
    "joints must name bodies, 'a', 'b', got 'e'": lambda: ImplicitSolver(
        two(), joints=[JointBond("a", "e", JOINT)]
    ),
    "points must name some of the 64 points of 'b', got [64]": lambda: ImplicitSolver(
        two(), glue=[Bond("b", [64], "a")]
    ),
    "the binding of 'b' must be to the 64 points of 'a', got one to 30 points": lambda: ImplicitSolver(
        two(), glue=[Bond("b", [0], "a", pg.bind_glue(GRID[:30], [[0, -0.5, 0]]))]
    ),
    "points names 2 points for 1 bound ones": lambda: ImplicitSolver(
        two(), glue=[Bond("b", [0, 1], "a", pg.bind_glue(GRID, [[0, -0.5, 0]]))]
    ),
    "is both pinned and glued: leave one out": lambda: ImplicitSolver(two(), glue=[Bond("a", TOP, "b")]),
    "the 8 points of 'b', got 64: give the bodies in the order of bind_joint": lambda: ImplicitSolver(
        [soft("a"), box("b")], joints=[JointBond("a", "b", JOINT)]
    ),
    'method must be "euler" or "bdf2", got \'rk4\'': lambda: ImplicitSolver(two(), method="rk4"),
    "gravity must have shape (3,), got (2,)": lambda: ImplicitSolver(two(), gravity=(0, -9.81)),
    "tolerance must be a finite number above 0, got 0": lambda: ImplicitSolver(two(), tolerance=0),
    "iterations must be a whole number of at least 1, got 0": lambda: ImplicitSolver(two(), iterations=0),
    "halvings must be a whole number of at least 0, got -1": lambda: ImplicitSolver(two(), halvings=-1),
    "forces[0] must be a function of the state, got list": lambda: ImplicitSolver(two(), forces=[[0, 1, 0]]),
    "energies[0] must be of 128 points in space": lambda: ImplicitSolver(two(), energies=soft().energies),
    "forces[0] must give shape (64, 3), got (3,)": lambda: run(
        ImplicitSolver([soft()], forces=[lambda state: [0, 0, 0]]), 1, 0.1
    ),
    "motion of 'soft' must give shape (16, 3), got (3,)": lambda: run(
        ImplicitSolver([soft(pinned=TOP, motion=lambda t: [0, t, 0])]), 1, 0.1
    ),
    "energies[0] of 'body' must be of 64 points": lambda: run(
        ImplicitSolver([ElasticBody(**ONE, energies=[lambda t: SpringEnergy(np.eye(3), [[0, 1]], t)])]),
        1,
        0.1,
    ),
}


@pytest.mark.parametrize("message", BAD_SOLVERS)
def test_bad_scenes(message):
    with pytest.raises(InputError, match=re.escape(message)):
        BAD_SOLVERS[message]()


def test_states_of_others_are_refused():
    one, two = soft("one"), soft("two", (1, 0, 0))
    state = ImplicitSolver([one, two]).start()
    for bodies in ([two, one], [one], [box(), box("other", (1, 0, 0))]):
        with pytest.raises(InputError, match="state must be one of this solver"):
            ImplicitSolver(bodies).step(state, 0.01)


@pytest.mark.parametrize("dt", [1e-300, 1e200])
def test_steps_beyond_numbers(dt):
    with pytest.raises(InputError, match="dt must be a finite number of at least 1e-12 and of at most 1e"):
        ImplicitSolver([soft()]).step(ImplicitSolver([soft()]).start(), dt)


def test_options_are_those_of_the_construction():
    solver = ImplicitSolver([soft()], gravity=(0, 0, -1), method="bdf2", tolerance=1e-3, iterations=7)
    assert (solver.gravity.tolist(), solver.method, solver.tolerance) == ([0, 0, -1], "bdf2", 1e-3)
    assert (solver.iterations, solver.energies) == (7, ())
    for name in ("gravity", "method", "tolerance", "iterations", "energies"):
        with pytest.raises(AttributeError):
            setattr(solver, name, None)


def test_motors_and_limits_are_checked():
    first, second = box("first"), box("second", (0, 0.5, 0))
    places = {kind: joined(first, second, (0, 0.2, 0), kind) for kind in ("ball", "hinge", "prismatic")}

    def bond(kind, **options):
        return lambda: replace(places[kind], **options)

    cases = [
        (Motor, "a motor must have a speed, or a position, and not both"),
        (lambda: Motor(1.0, 2.0), "a motor must have a speed, or a position, and not both"),
        (lambda: Motor(np.nan), "speed must be"),
        (lambda: Motor(1.0, stiffness=3.0), "stiffness is for a motor with a position"),
        (lambda: Motor(position=1.0, damping=3.0), "damping of a position needs a stiffness"),
        (lambda: Motor(1.0, max_force=0.0), "max_force must be"),
        (lambda: Motor(lambda t: np.inf).at(0.0), "speed of a motor must be"),
        (bond("ball", angle_limits=(-1, 1)), "a ball joint has no angle"),
        (bond("hinge", slide_motor=Motor(1.0)), "a hinge joint has no slide"),
        (bond("prismatic", angle_limits=(-1, 1)), "a prismatic joint has no angle"),
        (bond("prismatic", slide_limits=(0.1, 1)), "slide_limits must include 0"),
        (bond("prismatic", slide_limits=(0, 0)), "slide_limits must leave some play"),
        (bond("prismatic", slide_limits=1.0), "slide_limits must be a pair"),
        (bond("hinge", angle_motor=3.0), "angle_motor must be a Motor, got float"),
        (bond("hinge", stiffness=(1, 1, 1)), "stiffness and damping are of bushings, .* got a hinge joint"),
        (bond("hinge", stiffness=1.0), "stiffness must be three numbers, one for each axis, got 1.0"),
        (bond("hinge", damping=(0, 0, -1)), "damping must be"),
        (lambda: joined(first, second, (0, 0.2, 0), "bushing"), "of bushings, which need some"),
    ]
    for make, message in cases:
        with pytest.raises(InputError, match=message):
            make()


def test_bodies_are_told_by_name():
    body = soft("jelly")
    state = ImplicitSolver([body]).start()
    for wrong in (
        lambda: Bond(body, [0], "to"),
        lambda: JointBond("to", body, JOINT),
        lambda: state.body(body),
    ):
        with pytest.raises(
            InputError, match="must be the name of a body, got ElasticBody: give its name, 'jelly'"
        ):
            wrong()
    with pytest.raises(InputError, match=r"to must be the name of a body, got int$"):
        Bond("jelly", [0], 3)


def test_reversed_joints():
    """Bodies of as many points each, in another order than the joint was bound to them."""
    upper, lower = soft("upper"), soft("lower", (0, -0.5, 0))
    joint = pg.bind_joint(upper.positions, lower.positions, (0.15, -0.1, 0.15))
    with pytest.raises(InputError, match=r"bound to the points of 'lower' where they start, .* 0\.5 m away"):
        ImplicitSolver([upper, lower], joints=[JointBond("lower", "upper", joint)])


def test_collapsed_parents_are_named():
    """The parents of a glued point are moved onto a line: the error names them and the remedy."""
    rest = np.array([[0.0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0.1, 0.1, 0.05]])

    def flattened(time):
        return rest * [1.0, max(1 - time, 0.0), max(1 - time, 0.0)]

    patch = ElasticBody(rest, np.ones(4), pinned=np.ones(4, bool), motion=flattened, name="patch")
    point = ElasticBody(np.array([[0.05, 0.2, 0.1]]), np.ones(1), name="button")
    solver = ImplicitSolver([patch, point], glue=[Bond("button", [0], "patch")], halvings=1)
    with pytest.raises(StepError) as caught:
        run(solver, 12, 0.1)
    message = str(caught.value)
    assert (
        "the parents of the glue of point 0 of 'button' (points 0, 1, 2, 3 of 'patch') have collapsed"
        in message
    )
    assert 'on_degenerate="clamp"' in message
    assert caught.value.stall.cause == "glue"
    assert caught.value.stall.bodies == ("button", "patch")


@pytest.mark.parametrize(
    ("to", "stiffness"), [("a line", 1e6), *(("a point", stiffness) for stiffness in (1e3, 1e4, 1e5, 1e6))]
)
def test_parents_that_collapse_by_forces_are_named(to, stiffness):
    """Forces pull them nearer and nearer, and Newton's method fails before the fit of the parents does.

    Rounding decides where, and whether the factors of the matrix overflow there.
    """
    rest = np.array(list(product((0.0, 1.0), repeat=3)))
    edges = np.stack(np.triu_indices(8, 1), 1)
    pull = {
        "a line": TargetEnergy(8, np.arange(8), rest * [1, 0, 0], stiffness),
        "a point": SpringEnergy(rest, edges, stiffness, rest_length=0.0),
    }
    rag = ElasticBody(rest, np.ones(8), [pull[to]], name="rag")
    bell = ElasticBody(np.array([[0, 2.0, 0], [0.5, 2.5, 0]]), np.ones(2), name="bell")
    solver = ImplicitSolver([rag, bell], glue=[Bond("bell", [0, 1], "rag")], halvings=1)
    told = r"the glue of point \d of 'bell' .* have collapsed to a line or a point"
    with pytest.raises(StepError, match=told) as caught:
        run(solver, 30, 1 / 24)
    assert caught.value.stall.cause == "glue"
    assert set(caught.value.stall.bodies) == {"bell", "rag"}
