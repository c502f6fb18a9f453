"""Sliding glue in the solver against closed forms and conservation laws."""

from dataclasses import replace

import numpy as np
import pytest
from elastic.scenes import GRID, box, run, soft
from numpy.testing import assert_allclose

import pointglue as pg
from pointglue.elastic import ElasticBody, ImplicitSolver, JointBond, SpringEnergy, StepError
from pointglue.errors import InputError

G = 9.81


def beads(path, start, method="euler", *, closed=False, gravity=(0, -G, 0), **options):
    """A small box that slides along a path of a body at rest, with its mass."""
    bead, base = (
        box("bead", start, extents=(0.05, 0.05, 0.05), **options),
        box("base", (0, -1, 0), fixed=True),
    )
    slider = pg.bind_slider(bead.positions, base.positions, start, path, closed=closed)
    bond = JointBond("bead", "base", slider)
    options = {"method": method, "gravity": gravity, "tolerance": 1e-9}
    return ImplicitSolver([bead, base], joints=[bond], **options), bead.mass


def patch(height, u, v):
    """A grid (m, n, 3) of places at lengths u and v in the plane, and at their height."""
    x, z = np.meshgrid(u, v, indexing="ij")
    return np.stack([x, height(x, z), z], axis=-1)


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
        for steps in (25, 50) if order == 2 else (20, 40):
            solver, _ = beads(path, place, method)
            state = run(solver, steps, duration / steps)
            ends.append(abs(state.origins[0, 0]))
            assert abs(state.origins[0, 2]) < 1e-9
            assert state.report.violation < 1e-9 * solver.model.size
        # At the bottom, to the order of the method; what the polyline's cubic leaves is smaller.
        assert ends[1] < (0.06 if order == 1 else 5e-3) * abs(arc)
        assert np.log2(ends[0] / ends[1]) > order - 0.4


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("bdf2", 2)])
def test_a_bead_in_a_paraboloid(method, order):
    """In a bowl of height r^2 / (2 R), a horizontal circle of any radius takes 2 pi sqrt(R / g)."""
    R, radius = 0.5, 0.2
    sides = np.linspace(-0.5, 0.5, 13)
    bowl = patch(lambda x, z: (x**2 + z**2) / (2 * R), sides, sides)
    start, speed = np.array([radius, radius**2 / (2 * R), 0]), radius * np.sqrt(G / R)
    duration, errors, losses = 0.5 * np.pi * np.sqrt(R / G), [], []
    for steps in (15, 30):
        solver, mass = beads(bowl, start, method, velocity=(0, 0, speed))
        state = solver.start()
        energy = sum(solver.energy(state).values())
        for _ in range(steps):
            state = solver.step(state, duration / steps)
            assert state.report.violation < 1e-9 * solver.model.size
        errors.append(np.linalg.norm(state.origins[0] - [0, start[1], radius]))
        losses.append(abs(sum(solver.energy(state).values()) - energy) / (0.5 * mass * speed**2))
    # To the order of the method; Euler's loses 2 w^2 h t of the kinetic energy, which is 0.164 with the short
    # steps. What the spline differs from the paraboloid by is smaller.
    for found, most in ((errors, 0.2 * radius), (losses, 0.17)):
        assert found[1] < (most if order == 1 else 0.1 * most)
        assert np.log2(found[0] / found[1]) > order - 0.4


def test_a_bead_on_a_tilted_plane():
    """It falls by g sin(angle) straight down the slope, and over its places; the plane bears the rest."""
    angle, steps, dt = np.radians(35), 20, 0.01
    down = np.array([np.cos(angle), -np.sin(angle), 0])
    plane = patch(lambda x, z: -np.tan(angle) * x, np.linspace(-0.3, 0.5, 6), np.linspace(-0.2, 0.2, 4))
    across = np.array([0, 0, 0.5])
    solver, mass = beads(plane, (0, 0, 0), velocity=across)
    state = run(solver, steps, dt)
    fallen = 0.5 * G * np.sin(angle) * dt**2 * steps * (steps + 1)  # of Euler's method, exactly
    assert_allclose(state.origins[0], fallen * down + steps * dt * across, atol=1e-9)
    assert_allclose(solver.joint_coordinates(state)[0], [fallen, 0.1], atol=1e-9)
    assert_allclose(np.abs(state.multipliers), [mass * G * np.cos(angle), 0, 0], rtol=1e-7, atol=1e-9)
    state = run(solver, 60, 0.02)  # into the corner, whose edges bear what is along them
    corner = plane[-1, -1]
    assert_allclose(state.origins[0], corner, atol=1e-8)
    expected = mass * G * np.array([np.cos(angle), np.sin(angle), 0])
    assert_allclose(np.abs(state.multipliers), expected, rtol=1e-6, atol=1e-6 * mass * G)


@pytest.mark.parametrize("kind", ["curve", "surface"])
def test_round_and_round(kind):
    """A bead on a hoop or around a sleeve passes the seam at its speed, and presses by m v^2 / r."""
    r, speed, steps = 0.3, 2.0, 80
    phi = np.arange(24) * 2 * np.pi / 24
    hoop = r * np.stack([np.cos(phi), np.sin(phi), 0 * phi], axis=1)
    path = hoop if kind == "curve" else hoop[:, None] + np.linspace([0, 0, -0.2], [0, 0, 0.2], 3)
    begin = r * np.array([np.cos(-1.5), np.sin(-1.5), 0])
    velocity = speed * np.array([-np.sin(-1.5), np.cos(-1.5), 0])
    turn = 2 * np.pi * r / speed
    solver, mass = beads(path, begin, "bdf2", closed=True, gravity=(0, 0, 0), velocity=velocity)
    state, slides = solver.start(), []
    for _ in range(steps):
        state = solver.step(state, turn / steps)
        slides.append(solver.joint_coordinates(state)[0, 0])
        assert np.linalg.norm(state.origin_velocities[0]) == pytest.approx(speed, rel=5e-3)
        assert np.linalg.norm(state.origins[0]) == pytest.approx(r, rel=1e-4)  # the spline of the hoop
        assert state.report.violation < 1e-9 * solver.model.size
    assert_allclose(state.origins[0], begin, atol=0.02 * r)  # once round
    force = np.linalg.norm(solver.loads(state)[0].force)
    assert force == pytest.approx(mass * speed**2 / r, rel=0.02)
    polygon = 24 * 2 * r * np.sin(np.pi / 24)  # along which lengths are told
    moves = np.diff(slides) % polygon
    assert_allclose(moves, polygon / steps, rtol=0.01)
    assert max(np.abs(slides)) <= 0.5 * polygon


def test_a_button_slides_over_a_cloth():
    """On a soft sheet in free fall, over many of its points, nothing changes its speed or its shape."""
    wide = soft("wide")
    side = np.linspace(0.02, 0.28, 4)
    path = patch(lambda x, z: 0.15 + 0 * x, side, side)
    velocity = np.array([0.4, 0, 0.3])
    button = box("button", path[0, 0], extents=(0.05, 0.05, 0.05), velocity=velocity)
    slider = pg.bind_slider(button.positions, wide.positions, path[0, 0], path)
    solver = ImplicitSolver([button, wide], joints=[JointBond("button", "wide", slider)], tolerance=1e-10)
    state = run(solver, 25, 0.02)
    fallen = [0, -0.5 * G * 0.02**2 * 25 * 26, 0]
    assert_allclose(state.origins[0], path[0, 0] + 0.5 * velocity + fallen, atol=1e-9)
    assert_allclose(state.body("wide"), GRID + fallen, atol=1e-9)
    assert_allclose(solver.joint_coordinates(state)[0], [0.2, 0.15], atol=1e-9)


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


@pytest.mark.parametrize("kind", ["curve", "surface"])
@pytest.mark.parametrize("way", ["along", "across"])
def test_keys_that_leave_a_path_are_told(kind, way):
    """Whether it is its end that they break, or the path itself."""
    path = np.linspace([-0.3, 0, 0], [0.3, 0, 0], 5)
    if kind == "surface":
        path = path[:, None] + np.linspace([0, 0, -0.2], [0, 0, 0.2], 3)
    speed = np.array([1.0, 0, 0] if way == "along" else [0, 1.0, 0])
    at = np.array([0.28, 0, 0])
    bead = box("bead", at, fixed=True, motion=lambda t: (at + t * speed, np.eye(3)))
    base = box("base", (0, -1, 0), fixed=True)
    slider = pg.bind_slider(bead.positions, base.positions, at, path)
    solver = ImplicitSolver([bead, base], joints=[JointBond("bead", "base", slider)], halvings=0)
    what = "; end of the path of" if way == "along" else ";"
    with pytest.raises(StepError, match=f"{what} {kind} joint 0 of 'bead' and 'base' stays"):
        run(solver, 4, 0.01)


@pytest.mark.parametrize("kind", ["curve", "surface"])
@pytest.mark.parametrize("what", ["rigid", "soft"])
def test_momentum(what, kind, rng):
    """A ring on a wobbling body: no net force, and no torque about where they are at the end."""
    wide = soft("wide", velocities=rng.standard_normal((64, 3)))
    ring = (
        box("ring", (0.15, 0.4, 0.15), extents=(0.1, 0.1, 0.1), spin=(1, 2, 3), velocity=(0.5, 0, 0))
        if what == "rigid"
        else soft("ring", (0, 0.4, 0), velocities=rng.standard_normal((64, 3)))
    )
    side = np.linspace(0, 0.3, 4)
    path = np.linspace([0, 0.3, 0.15], [0.3, 0.3, 0.15], 6)
    if kind == "surface":
        path = patch(lambda x, z: 0.3 + 0 * x, side, side)
    path = path + 0.02 * rng.standard_normal(path.shape)
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
