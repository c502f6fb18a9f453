"""How many Newton steps and factorisations steps with contact take, and what is allowed of them."""

from dataclasses import replace

import numpy as np
import pytest
import trimesh
from numpy.testing import assert_array_equal

import pointglue as pg
from pointglue.elastic import ClothEnergy, Contact, ElasticBody, ImplicitSolver, JointBond, RigidBody
from pointglue.elastic.step.newton.accuracy import RIGID_SPEED, SOFT_SPEED, BodySizes
from pointglue.elastic.step.newton.mixture import MAX_MIXTURE_STEPS, PROJECTED_FRACTIONS, Mixture
from pointglue.scene.build.meshing import sheet_grid

CELLS = 20
BUTTONS = 3


def cloth(cells=CELLS):
    points, faces = sheet_grid((1.0, 1.0), (cells, cells))
    points = points + [0.003, 0.36, 0.007]
    energy = ClothEnergy(points, faces, stretch=500.0, poisson=0.3, bend=1e-5)
    return ElasticBody(points, energy.mass(0.2), [energy], faces=faces, name="cloth")


def draped(buttons=0):
    """A cloth above a ball, with rigid buttons welded on through glue."""
    sheet, ball = cloth(), trimesh.creation.icosphere(3, radius=0.3)
    bodies, joints = [sheet], []
    for k in range(buttons):
        place = sheet.positions[CELLS // 2 + k] + [0.0, 0.02, 0.0]
        disc = trimesh.creation.cylinder(radius=0.01, height=0.004, sections=8)
        button = RigidBody.solid(disc.vertices + place, disc.faces, 1200.0, name=f"button {k}")
        weld = pg.bind_joint(
            sheet.positions,
            button.positions,
            place,
            kind="weld",
            among=(np.arange(len(sheet.positions)), None),
        )
        bodies.append(button)
        joints.append(JointBond("cloth", button.name, weld))
    bodies.append(RigidBody.solid(ball.vertices, ball.faces, 1e3, fixed=True, name="ball"))
    return ImplicitSolver(bodies, joints=joints, contact=Contact(distance=4e-3, friction=0.3))


def run(solver, steps):
    states = [solver.start()]
    for _ in range(steps):
        states.append(solver.step(states[-1], 1 / 60))
    assert not solver.surfaces.intersecting(states[-1].particles)
    return states


def test_cloth_on_a_ball_takes_few_iterations():
    reports = [state.report for state in run(draped(), 20)[1:]]
    assert reports[-1].contacts > 100
    assert np.mean([report.iterations for report in reports]) < 8
    # A try of a mixture that is indefinite costs a factorisation: there are next to none.
    wasted = sum(report.factorisations - report.iterations for report in reports)
    assert wasted < 0.2 * sum(report.iterations for report in reports)


def test_buttons_do_not_hold_up_their_cloth():
    """What is welded to the cloth is closed when the cloth has converged: not a dozen steps later."""
    with_buttons, without = (
        [state.report for state in run(draped(buttons), 12)[1:]] for buttons in (BUTTONS, 0)
    )
    solver = draped(BUTTONS)
    allowed = 1e-9 * solver.model.size  # as far as joints may be open
    assert max(report.violation for report in with_buttons) <= allowed
    more = sum(a.iterations - b.iterations for a, b in zip(with_buttons, without, strict=True))
    assert more <= 2 * 12


def test_what_holds_together_is_judged_together():
    """Bodies that joints hold together count by the largest, and as soft if any is soft."""
    sheet, small = cloth(4), trimesh.creation.box((0.02, 0.02, 0.02))
    boxes = [
        RigidBody.solid(small.vertices + [0.5 * k, 1.0, 0.0], small.faces, 1e3, name=f"box {k}")
        for k in range(4)
    ]
    places = [box.positions.mean(0) for box in boxes]
    on_cloth = pg.bind_joint(sheet.positions, boxes[0].positions, places[0], kind="ball")
    on_box = pg.bind_joint(boxes[1].positions, boxes[2].positions, places[1], kind="ball")
    solver = ImplicitSolver(
        [sheet, *boxes],
        joints=[JointBond("cloth", "box 0", on_cloth), JointBond("box 1", "box 2", on_box)],
        contact=Contact(distance=1e-3),
    )
    model = solver.model
    system = solver.integrator.system_for(
        np.zeros(len(model.rest), np.bool_),
        np.ones(model.joint_count, np.bool_),
        model.rest,
        solver.integrator.energy_terms(0.0),
    )
    speeds = dict(zip(model.rows, BodySizes(model).speeds(system), strict=True))
    whole, own = SOFT_SPEED * np.sqrt(2.0), RIGID_SPEED * np.sqrt(3 * 0.02**2)
    expected = {"cloth": whole, "box 0": whole, "box 1": own, "box 2": own, "box 3": own}
    assert speeds == pytest.approx(expected, rel=1e-12)


def test_mixtures_go_on_from_step_to_step():
    """A step is a function of its state: what the last one learnt about Hessians is part of it."""
    solver = draped()
    states = run(solver, 14)
    begins = [tuple(state.mixture.tolist()) for state in states]
    assert begins[0] == (0, 0, 1)
    assert any(level > 0 for level, _, _ in begins)
    last = next(state for state in states if state.mixture[0] > 0)
    after = solver.step(last, 1 / 60)
    anew = solver.step(replace(last, mixture=np.array([0, 0, 1])), 1 / 60)
    assert after.report.factorisations < anew.report.factorisations
    assert_array_equal(after.particles, draped().step(last, 1 / 60).particles)


def test_mixtures_are_tried_again_after_ever_longer_pauses():
    mixture = Mixture()
    assert mixture.fraction == PROJECTED_FRACTIONS[0] == 0.0
    assert mixture.stiffen()
    assert (mixture.fraction, mixture.wait, mixture.pause) == (PROJECTED_FRACTIONS[1], 1, 2)
    mixture.relax(full=False)  # a step that was cut short does not count
    assert mixture.level == 1
    mixture.relax(full=True)
    assert mixture.level == 0
    pauses = []
    for _ in range(6):
        assert mixture.stiffen()
        pauses.append(mixture.wait)
        for _ in range(mixture.wait):
            assert mixture.level == 1
            mixture.relax(full=True)
        assert mixture.level == 0
    assert pauses == [2, 4, 8, 8, 8, 8]
    assert max(pauses) == MAX_MIXTURE_STEPS
    while mixture.stiffen():
        pass
    assert mixture.fraction == 1.0
    assert not mixture.stiffen()
