"""Impacts on the way of a Newton step: their distances and terms, and what they are good for."""

import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose

import pointglue as pg
from pointglue.elastic import (
    ClothEnergy,
    Contact,
    ElasticBody,
    ImplicitSolver,
    JointBond,
    RigidBody,
    StepError,
)
from pointglue.elastic.contact.stage import ContactStage
from pointglue.elastic.step.newton.accuracy import Accuracy, BodySizes
from pointglue.elastic.step.newton.minimise import JOINT_SLACK
from pointglue.scene.build.meshing import sheet_grid

DISTANCE = 4e-3  # m


def falling_sheet(cells=6, *, velocity=(0.0, -3.0, 0.0)):
    """A square metre of cloth that falls flat onto a ball and a floor below it."""
    points, faces = sheet_grid((1.0, 1.0), (cells, cells))
    points = points + [0.013, 0.35, 0.007]
    energy = ClothEnergy(points, faces, stretch=500.0, poisson=0.3, bend=1e-5)
    ball, floor = trimesh.creation.icosphere(2, radius=0.15), trimesh.creation.box((3, 0.1, 3))
    return ImplicitSolver(
        [
            ElasticBody(points, energy.mass(0.2), [energy], faces=faces, velocities=velocity, name="cloth"),
            RigidBody.solid(ball.vertices + [0, 0.16, 0], ball.faces, 1e3, fixed=True, name="ball"),
            RigidBody.solid(floor.vertices - [0, 0.06, 0], floor.faces, 1e3, fixed=True, name="floor"),
        ],
        contact=Contact(distance=DISTANCE),
        tolerance=1e-2,
    )


def impacts_of(drop):
    """The ends of the way and the impacts of a sheet that goes straight down."""
    solver = falling_sheet()
    state = solver.start()
    stage = ContactStage(solver.surfaces, state.particles, state.particles, 60.0, 1e3, 0.0)
    to = state.particles.copy()
    to[solver.model.rows["cloth"], 1] -= drop
    return solver.surfaces.at(state.particles), solver.surfaces.at(to), stage.impacts(state.particles, to)


def test_distances_on_the_way_are_those_of_the_impacts():
    """Straight down onto a ball: at the share until the impact, the linear distance is the true one."""
    start, end, impacts = impacts_of(0.3)
    assert len(impacts) > 20
    rows = impacts.rows
    way = ((end - start)[rows.points] * rows.normal[:, None]).sum(2)
    speed = (rows.coefficients * way).sum(1)  # by which the linear distance shrinks
    assert (speed < 0).all()
    assert (rows.offset > 0).all()  # they do not meet at the start
    # Nor could they go all the way, but for those that keep a tenth of their distance or less.
    assert (rows.offset + speed < 0.1 * 0.3).all()
    assert np.median(rows.offset + speed) < 0
    assert_allclose(np.linalg.norm(rows.normal, axis=1), 1.0)
    assert_allclose(rows.coefficients.sum(1), 0.0, atol=1e-12)  # a common motion changes no distance


def test_ways_without_impacts_have_none():
    _, _, impacts = impacts_of(0.02)
    assert len(impacts) == 0
    assert_allclose(impacts.gradient(), 0.0)
    assert len(impacts.blocks()[2]) == 0


def test_gradient_and_blocks_are_those_of_one_quadratic_function():
    """The gradient for a way d is gradient(0) + H d; the pushes point away from each other."""
    start, _, impacts = impacts_of(0.3)
    rows, columns, blocks = impacts.blocks()
    H = np.zeros((3 * len(start), 3 * len(start)))
    for i, j, block in zip(rows, columns, blocks, strict=True):
        H[3 * i : 3 * i + 3, 3 * j : 3 * j + 3] += block
    assert_allclose(H, H.T, atol=1e-12 * np.abs(H).max())
    assert np.linalg.eigvalsh(H).min() > -1e-12 * np.abs(H).max()
    # The minimum of the terms alone leaves all pairs at gaps within contact, near half its distance.
    d = np.linalg.lstsq(H, -impacts.gradient().ravel(), rcond=None)[0].reshape(-1, 3)
    each = impacts.rows
    gaps = each.offset + (each.coefficients * (d[each.points] * each.normal[:, None]).sum(2)).sum(1)
    assert 0.2 * DISTANCE < np.median(gaps) < DISTANCE


def test_a_step_passes_many_impacts_at_once():
    """If each Newton step ended at the first impact anywhere, the third step would be tried in vain twice."""
    solver = falling_sheet(12)
    state = solver.start()
    for _ in range(3):
        state = solver.step(state, 1 / 24)
        assert not solver.surfaces.intersecting(state.particles)
        assert (state.report.substeps, state.report.wasted) == (1, 0)
    assert state.report.contacts > 50


@pytest.mark.parametrize("seed", range(20))
def test_sheets_that_drop_on_a_ball_and_a_floor_get_through(seed):
    """With the default tolerance, one step a frame, and sizes, heights and materials at random."""
    rng = np.random.default_rng(seed)
    cells, size, height = int(rng.integers(8, 14)), rng.uniform(0.6, 1.6), rng.uniform(0.35, 0.6)
    points, faces = sheet_grid((size, size), (cells, cells))
    points = points + [*rng.normal(0, 0.01, 1), height, *rng.normal(0, 0.01, 1)]
    stretch, bend = 10 ** rng.uniform(1.7, 3.3), 10 ** rng.uniform(-6, -4)
    energy = ClothEnergy(points, faces, stretch=stretch, poisson=0.3, bend=bend)
    ball, floor = trimesh.creation.icosphere(2, radius=0.15), trimesh.creation.box((6, 0.1, 6))
    solver = ImplicitSolver(
        [
            ElasticBody(points, energy.mass(0.2), [energy], faces=faces, name="cloth"),
            RigidBody.solid(ball.vertices + [0, 0.16, 0], ball.faces, 1e3, fixed=True, name="ball"),
            RigidBody.solid(floor.vertices - [0, 0.06, 0], floor.faces, 1e3, fixed=True, name="floor"),
        ],
        contact=Contact(distance=DISTANCE, friction=0.3 * (seed % 2)),
    )
    state = solver.start()
    for _ in range(12):
        state = solver.step(state, 1 / 24)
        assert not solver.surfaces.intersecting(state.particles)
    assert state.report.contacts > 20
    assert state.time == pytest.approx(12 / 24)


def test_steps_with_contact_end_whatever_the_iterations():
    """Far fewer than Newton's method needs: what it has come to is accepted, and counted."""
    solver = falling_sheet(8)
    hasty = ImplicitSolver(
        solver.model.bodies, contact=Contact(distance=DISTANCE), iterations=2, halvings=1, tolerance=1e-9
    )
    state, unconverged = hasty.start(), 0
    for _ in range(4):
        state = hasty.step(state, 1 / 24)
        unconverged += state.report.unconverged
        assert not hasty.surfaces.intersecting(state.particles)
    assert unconverged > 0


def test_steps_with_contact_end_with_joints_that_are_not_quite_closed():
    """One Newton step leaves a pendulum open by the height of its arc, and no halving is left."""
    box = trimesh.creation.box((0.2, 0.2, 0.2))
    bodies = [
        RigidBody.solid(box.vertices, box.faces, 500.0, fixed=True, name="hook"),
        RigidBody.solid(
            box.vertices - [0.0, 0.5, 0.0], box.faces, 500.0, name="weight", spin=(2.0, 0.0, 0.0)
        ),
    ]
    joint = pg.bind_joint(bodies[0].positions, bodies[1].positions, [0.0, -0.2, 0.0], kind="ball")
    options = {"joints": [JointBond("hook", "weight", joint)], "tolerance": 1e-9, "halvings": 0}
    solver = ImplicitSolver(bodies, contact=Contact(distance=DISTANCE), iterations=1, **options)
    state = solver.start()
    for _ in range(4):
        state = solver.step(state, 1 / 240)
        assert state.report.unconverged == 1
        assert state.report.violation <= JOINT_SLACK * DISTANCE
    strict = ImplicitSolver(bodies, iterations=1, **options)
    with pytest.raises(StepError, match=r"stays .* m open"):
        strict.step(strict.start(), 1 / 240)


def test_the_default_tolerance_is_relative_to_each_body():
    """Soft bodies 1/100 and rigid ones 1/1000 of their size a second, in the mean over their points."""
    solver = falling_sheet(4)
    system = solver.integrator.system_for(
        np.zeros(len(solver.model.rest), np.bool_), np.zeros(0, np.bool_), solver.model.rest, []
    )
    sizes = BodySizes(solver.model)
    assert_allclose(sizes.speeds(system), np.array([0.01, 0.001, 0.001]) * sizes.lengths)
    accuracy = Accuracy(system, sizes, 0.1, None, 0.0)
    step = np.zeros((len(system.dofs), 3))
    step[:, 0] = 0.1 * 0.01 * np.sqrt(2)
    assert accuracy.measure(step).excess == pytest.approx(1.0)
    step[1:] = 0.0
    move = accuracy.measure(step)
    assert move.worst == 0
    assert move.excess == pytest.approx(1 / np.sqrt(len(step)))
    assert Accuracy(system, sizes, 0.1, 2e-3, 0.0).measure(step).excess == pytest.approx(
        0.01 * np.sqrt(2) / 2e-3
    )
