"""Glue of rigid bodies without a spring, and points with several bonds: exact, whatever the masses are."""

import numpy as np
import pytest
from elastic.scenes import GRID, TOP, box, run, soft
from numpy.testing import assert_allclose

import pointglue as pg
from pointglue.elastic import Bond, ElasticBody, ImplicitSolver
from pointglue.errors import InputError

SIZE = 1.0  # m: about the extent of the scenes below
ROUNDING = 1e-9 * SIZE  # what joints are promised to be closed to
CORNERS = {"a point": [3], "a face": [2, 3, 6, 7], "all corners": list(range(8))}


def lantern(ratio, points, **options):
    """A rigid box below a soft cube that carries it, of `ratio` times its mass, glued at some corners."""
    carrier = soft("carrier", pinned=TOP, stiffness=500.0 * max(ratio, 1.0))
    place = (0.15, -0.2, 0.15)
    hung = box("lantern", place, density=200.0 * ratio * carrier.mass.sum() / box("lantern", place).mass)
    glue = pg.bind_glue(carrier.positions, hung.positions[points])
    solver = ImplicitSolver([carrier, hung], glue=[Bond("lantern", points, "carrier", glue)], **options)
    return solver, glue


def opening(state, glue, points):
    """How far the glued points are from where their binding puts them [m]."""
    return np.abs(state.body("lantern")[points] - glue.positions(state.body("carrier"))).max()


@pytest.mark.parametrize("points", CORNERS.values(), ids=CORNERS.keys())
@pytest.mark.parametrize("ratio", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_closed_at_any_ratio_of_masses(ratio, points):
    """The spring of 1e4 N/m that stood for it opened by its weight over 1e4 N/m."""
    solver, glue = lantern(ratio, points)
    state = solver.start()
    for _ in range(12):
        state = solver.step(state, 1 / 24)
        assert opening(state, glue, points) < ROUNDING
        assert state.report.violation < ROUNDING


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_momenta_are_kept(method):
    """A soft and a rigid body, glued by four points and tumbling, to the order of the method."""
    drifts = []
    for steps in (20, 40, 80):
        carrier = soft("carrier", stiffness=50.0, velocities=np.cross([1.0, 2.0, 3.0], GRID))
        hung = box("lantern", (0.15, -0.2, 0.15), density=50.0)
        solver = ImplicitSolver(
            [carrier, hung],
            glue=[Bond("lantern", [2, 3, 6, 7], "carrier")],
            gravity=(0, 0, 0),
            method=method,
            tolerance=1e-10,
        )
        state = solver.step(solver.start(), 1e-4)  # velocities that the glue does not allow are gone
        linear, angular = solver.momenta(state)
        state = run(solver, steps, 0.2 / steps, state)
        after, turned = solver.momenta(state)
        assert_allclose(after, linear, atol=1e-9 * np.abs(linear).max())
        drifts.append(np.abs(turned - angular).max() / np.abs(angular).max())
    order = np.log2(drifts[0] / drifts[-1]) / 2
    assert order > (0.85 if method == "euler" else 1.7)


def test_points_with_several_bonds_satisfy_all():
    """A link between two soft cubes: its points are where both want them."""
    left, right = soft("left", pinned=TOP), soft("right", (0.6, 0, 0), pinned=TOP)
    link = ElasticBody(np.array([[0.45, 0.1, 0.15], [0.45, 0.2, 0.15]]), np.full(2, 0.2), name="link")
    bindings = {body.name: pg.bind_glue(body.positions, link.positions) for body in (left, right)}
    solver = ImplicitSolver(
        [left, right, link], glue=[Bond("link", [0, 1], name, glue) for name, glue in bindings.items()]
    )
    state = run(solver, 24, 1 / 24)
    for name, glue in bindings.items():
        assert_allclose(state.body("link"), glue.positions(state.body(name)), atol=ROUNDING)
    assert state.body("link")[:, 1].max() < 0.2  # it hangs


def test_rigid_points_stick_later_and_break():
    """A box that falls past a soft cube sticks to it where it is then, and breaks off beyond its strength."""
    carrier, falling = soft("carrier", pinned=TOP), box("box", (0.15, -0.2, 0.15))
    bond = Bond("box", [2, 3, 6, 7], "carrier", attach=0.05)
    solver = ImplicitSolver([carrier, falling], glue=[bond])
    state = run(solver, 5, 0.01)
    before = state.origins[0].copy()
    assert before[1] < -0.2 - 0.01
    caught = solver.step(state, 0.01)
    assert caught.report.violation < ROUNDING
    assert [(event.event, event.kind, event.count) for event in caught.report.events] == [
        ("attach", "glue", 4)
    ]
    held = run(solver, 30, 0.01, caught)
    assert np.linalg.norm(held.origins[0] - before) < 0.15
    for strength, breaks in ((0.1, True), (1e4, False)):
        weak = Bond("box", [2, 3, 6, 7], "carrier", break_force=strength)
        state = run(ImplicitSolver([carrier, falling], glue=[weak]), 3, 0.01)
        assert state.released_joints.all() == breaks


def test_a_spring_besides_glue_is_no_conflict():
    """A point that is glued to one body and drawn to another stays where the glue puts it, exactly."""
    left, right = soft("left", pinned=np.arange(64)), soft("right", (0.6, 0, 0), pinned=np.arange(64))
    point = ElasticBody(np.array([[0.45, 0.15, 0.15]]), np.ones(1), name="point")
    bonds = [Bond("point", [0], "left"), Bond("point", [0], "right", spring=pg.Spring(1e5))]
    state = run(ImplicitSolver([left, right, point], glue=bonds), 10, 0.01)
    assert_allclose(state.body("point"), point.positions, atol=1e-12)


def test_places_are_checked():
    """A rigid point that would jump to its bound point is refused, as a soft one is."""
    carrier, hung = soft("carrier", pinned=TOP), box("box", (0.15, -0.2, 0.15))
    glue = pg.bind_glue(carrier.positions, hung.positions[:1] + 0.01)
    with pytest.raises(InputError, match="away from the bound point that it is to be"):
        ImplicitSolver([carrier, hung], glue=[Bond("box", [0], "carrier", glue)])
