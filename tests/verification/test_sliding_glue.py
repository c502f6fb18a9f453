"""Sliding glue in the solver against closed forms and conservation laws."""

from dataclasses import replace

import numpy as np
import pytest
from elastic.scenes import GRID, box, run, soft
from numpy.testing import assert_allclose

import pointglue as pg
from pointglue.elastic import ElasticBody, ImplicitSolver, JointBond, SpringEnergy
from pointglue.errors import InputError

G = 9.81


def beads(path, start, method="euler", **options):
    """A small box that slides along a path of a body at rest, with its mass."""
    bead, base = (
        box("bead", start, extents=(0.05, 0.05, 0.05), **options),
        box("base", (0, -1, 0), fixed=True),
    )
    slider = pg.bind_slider(bead.positions, base.positions, start, path)
    bond = JointBond("bead", "base", slider)
    return ImplicitSolver([bead, base], joints=[bond], method=method, tolerance=1e-9), bead.mass


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("bdf2", 2)])
def test_a_bead_on_a_cycloid(method, order):
    """The tautochrone: a quarter of the period is pi sqrt(r / g), wherever it starts; energy is kept."""
    r = 0.3
    phi = np.linspace(-np.pi, np.pi, 25)
    path = r * np.stack([phi + np.sin(phi), 1 - np.cos(phi), 0 * phi], axis=1)
    duration = np.pi * np.sqrt(r / G)
    for start in (4, 15):
        arc, place = 4 * r * np.sin(phi[start] / 2), path[start]  # from the bottom, which is harmonic
        ends = []
        for steps in (25, 50):
            solver, _ = beads(path, place, method)
            state = run(solver, steps, duration / steps)
            ends.append(abs(state.origins[0, 0]))
            assert abs(state.origins[0, 2]) < 1e-9
            assert state.report.violation < 1e-9 * solver.model.size
        # At the bottom, to the order of the method; what the polyline's cubic leaves is smaller.
        assert ends[1] < (0.06 if order == 1 else 5e-3) * abs(arc)
        assert np.log2(ends[0] / ends[1]) > order - 0.4


def test_passing_places_is_smooth():
    """Along a straight path of a free soft body, over many of its points, nothing changes its speed."""
    along = np.array([1.0, 0, 0])
    wide = soft("wide")
    path = np.linspace([0.01, 0.14, 0.16], [0.29, 0.14, 0.16], 9)
    bead = box("bead", path[0], extents=(0.05, 0.05, 0.05), velocity=0.4 * along)
    slider = pg.bind_slider(bead.positions, wide.positions, path[0], path)
    solver = ImplicitSolver(
        [bead, wide], joints=[JointBond("bead", "wide", slider)], gravity=(0, 0, 0), tolerance=1e-10
    )
    state = run(solver, 30, 0.02)
    assert_allclose(state.origin_velocities[0], 0.4 * along, atol=1e-9)
    assert_allclose(state.body("wide"), GRID, atol=1e-9)
    assert solver.joint_coordinates(state)[0, 0] == pytest.approx(0.24, abs=1e-9)


def test_a_slider_stops_at_the_end():
    """Down an inclined path: the end bears the load along it, and the path the rest."""
    angle = np.radians(40)
    down = np.array([np.cos(angle), -np.sin(angle), 0])
    path = np.linspace(-0.3 * down, 0.3 * down, 7)
    solver, mass = beads(path, -0.1 * down)
    state = solver.start()
    for _ in range(60):
        state = solver.step(state, 0.02)
        assert solver.joint_coordinates(state)[0, 0] < 0.4 + 1e-8
    assert solver.joint_coordinates(state)[0, 0] == pytest.approx(0.4, abs=1e-8)
    assert_allclose(state.origins[0], 0.3 * down, atol=1e-8)
    *across, end = state.multipliers
    assert end == pytest.approx(mass * G * np.sin(angle), rel=1e-6)
    assert np.hypot(*across) == pytest.approx(mass * G * np.cos(angle), rel=1e-6)


@pytest.mark.parametrize("what", ["rigid", "soft"])
def test_momentum(what, rng):
    """A ring on the edge of a wobbling body: no net force, and no torque about where they are at the end."""
    wide = soft("wide", velocities=rng.standard_normal((64, 3)))
    ring = (
        box("ring", (0.15, 0.4, 0.15), extents=(0.1, 0.1, 0.1), spin=(1, 2, 3), velocity=(0.5, 0, 0))
        if what == "rigid"
        else soft("ring", (0, 0.4, 0), velocities=rng.standard_normal((64, 3)))
    )
    path = np.linspace([0, 0.3, 0.15], [0.3, 0.3, 0.15], 6) + 0.02 * rng.standard_normal((6, 3))
    slider = pg.bind_slider(ring.positions, wide.positions, [0.15, 0.3, 0.15], path)
    solver = ImplicitSolver(
        [ring, wide], joints=[JointBond("ring", "wide", slider)], gravity=(0, 0, 0), tolerance=1e-9
    )
    state = solver.start()
    scale = 1 + np.abs(solver.momenta(state)[1]).max()
    for _ in range(8):
        before, state = state, solver.step(state, 0.01)
        held = replace(
            state,
            particle_velocities=before.particle_velocities,
            origin_velocities=before.origin_velocities,
            rotation_rates=before.rotation_rates,
        )
        for now, then in zip(solver.momenta(state), solver.momenta(held), strict=True):
            assert_allclose(now, then, atol=1e-8 * scale)  # what the tolerance leaves
    assert abs(solver.joint_coordinates(state)[0, 0]) > 1e-3
    assert state.report.violation < 1e-9 * solver.model.size


def test_a_ring_swings_along_a_rope():
    """A rope of points on a line: the ring crosses its middle, and every step loses energy."""
    count = 21
    points = np.stack([np.linspace(-1, 1, count), np.zeros(count), np.zeros(count)], axis=1)
    edges = np.stack([np.arange(count - 1), np.arange(1, count)], axis=1)
    rope = ElasticBody(
        points,
        np.full(count, 0.01),
        [SpringEnergy(points, edges, 2e3, damping=0.01)],
        pinned=np.isin(np.arange(count), [0, count - 1]),
        name="rope",
    )
    ring = box("ring", (-0.5, 0, 0), extents=(0.08, 0.08, 0.08))
    slider = pg.bind_slider(ring.positions, rope.positions, (-0.5, 0, 0), points)
    solver = ImplicitSolver([ring, rope], joints=[JointBond("ring", "rope", slider)])
    state, farthest, lowest = solver.start(), -np.inf, np.inf
    energy = sum(solver.energy(state).values())
    for _ in range(90):
        state = solver.step(state, 0.02)
        farthest, lowest = max(farthest, state.origins[0, 0]), min(lowest, state.origins[0, 1])
        assert state.report.violation < 1e-9 * solver.model.size
        assert len(state.report.speeds) < 8
        before, energy = energy, sum(solver.energy(state).values())
        assert energy < before + 1e-7
    assert farthest > 0.3
    assert lowest < -0.15
    assert abs(state.origins[0, 2]) < 1e-9


def test_sliders_break_and_do_not_attach_later():
    path = np.linspace([-0.3, 0, 0], [0.3, 0, 0], 5)
    for share in (0.9, 1.1):
        bead, base = box("bead"), box("base", (0, -1, 0), fixed=True)
        slider = pg.bind_slider(bead.positions, base.positions, (0, 0, 0), path)
        bond = JointBond("bead", "base", slider, break_force=share * bead.mass * G)
        state = run(ImplicitSolver([bead, base], joints=[bond]), 4, 0.02)
        assert state.released_joints.all() == (share < 1)
    with pytest.raises(InputError, match="a slider is on its path from the start"):
        JointBond("bead", "base", slider, attach=0.5)
