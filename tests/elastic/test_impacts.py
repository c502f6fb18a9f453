"""Impacts on the way of a Newton step: their distances and terms, and what they are good for."""

import numpy as np
import trimesh
from numpy.testing import assert_allclose

from pointglue.elastic import ClothEnergy, Contact, ElasticBody, ImplicitSolver, RigidBody
from pointglue.elastic.contact.stage import ContactStage
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
