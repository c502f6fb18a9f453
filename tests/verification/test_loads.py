"""Loads of bonds, joints and contact, the energy of a state, and what breaks bonds, against statics."""

import numpy as np
import pytest
from elastic.scenes import GRID, TOP, box, joined, run, soft
from numpy.testing import assert_allclose

import pointglue as pg
from pointglue.elastic import Bond, Contact, ElasticBody, ImplicitSolver, JointBond, Motor, SpringEnergy
from pointglue.errors import InputError

G = 9.81


def beam(length=10.0, **options):
    """A beam along x that begins at a fixed wall, welded to it at its end."""
    wall = box("wall", (-0.5, 0, 0), extents=(1, 1, 1), fixed=True)
    bar = box("beam", (length / 2, 0, 0), extents=(length, 0.1, 0.1), density=100.0)
    return wall, bar, joined(wall, bar, (0, 0, 0), "weld", **options)


def hanging(how, **options):
    """A box below a soft cube whose upper side is pinned, held in one of several ways."""
    carrier, hung = soft("carrier", pinned=TOP, stiffness=2000.0), box("box", (0.15, -0.2, 0.15))
    glue, joints = [], []
    if how == "spring":
        glue = [Bond("box", [2, 3, 6, 7], "carrier", spring=pg.Spring(2000.0, damping=5.0))]
    elif how == "rigid glue":
        glue = [Bond("box", [2, 3, 6, 7], "carrier", **options)]
    else:
        joints = [joined(hung, carrier, (0.15, -0.05, 0.15), how, **options)]
    return ImplicitSolver([carrier, hung], glue=glue, joints=joints, tolerance=1e-9), hung


@pytest.mark.parametrize("how", ["rigid glue", "spring", "ball", "hinge", "weld"])
@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_at_rest_a_load_is_the_weight(how, method):
    solver, hung = hanging(how)
    solver.integrator.method = method
    state = run(solver, 60, 0.2)
    (load,) = solver.loads(state)
    weight = hung.mass * G
    assert (load.first, load.second) == ("box", "carrier")
    assert load.kind == {"rigid glue": "glue", "spring": "spring"}.get(how, "joint")
    # Both methods damp a step of 0.2 s so much that no swing is left after sixty.
    assert_allclose(load.force, [0, weight, 0], atol=1e-6 * weight)
    # About the centre of mass nothing turns a box at rest.
    arm = load.position - state.origins[0]
    assert_allclose(load.torque + np.cross(arm, load.force), 0, atol=1e-6 * weight * 0.3)


def test_glue_that_eliminates_its_points():
    """A soft cube that hangs on another: the glue of its upper points carries all of it, the wind too."""
    first, second = soft("first", pinned=TOP, stiffness=2000.0), soft("second", (0, -0.4, 0))
    wind = np.array([0.02, 0, 0])

    def blow(state):
        return np.where(np.arange(len(state.positions))[:, None] >= 64, wind, 0.0)

    solver = ImplicitSolver(
        [first, second], glue=[Bond("second", TOP, "first")], forces=[blow], tolerance=1e-9
    )
    state = run(solver, 60, 0.2)
    (load,) = solver.loads(state)
    assert_allclose(load.force, [-64 * 0.02, 0.64 * G, 0], atol=1e-6)
    centre = state.body("second").mean(0)
    assert_allclose(load.torque + np.cross(load.position - centre, load.force), 0, atol=1e-6)
    assert load.largest >= np.linalg.norm(load.force) / len(TOP)


def test_the_weld_of_a_beam():
    """Force m g and torque m g l / 2 at the wall, whatever the step."""
    wall, bar, weld = beam()
    solver = ImplicitSolver([wall, bar], joints=[weld])
    for h in (1e-3, 0.1):
        (load,) = solver.loads(run(solver, 3, h))
        weight = bar.mass * G
        assert_allclose(load.force, [0, -weight, 0], atol=1e-6 * weight)  # on the wall
        assert_allclose(load.torque, [0, 0, -weight * 5.0], atol=1e-6 * weight * 5)
        assert_allclose(load.position, 0, atol=1e-9)


@pytest.mark.parametrize(("torque", "breaks"), [(1.1, False), (0.9, True)])
def test_a_weld_breaks_by_torque(torque, breaks):
    """The beam held any torque before, as long as the force was below its limit."""
    weight = 100.0 * 10 * 0.1 * 0.1 * G
    wall, bar, weld = beam(break_force=1.1 * weight, break_torque=torque * weight * 5.0)
    solver = ImplicitSolver([wall, bar], joints=[weld])
    state = solver.step(solver.start(), 0.01)
    assert state.released_joints.all() == breaks
    assert [event.event for event in state.report.events] == ["break"] * breaks
    fallen = run(solver, 10, 0.01, state).origins[1, 1] < -1e-3
    assert fallen == breaks


@pytest.mark.parametrize(("torque", "breaks"), [(1.2, False), (0.8, True)])
@pytest.mark.parametrize("rigid", [False, True])
def test_glue_breaks_by_torque(torque, breaks, rigid):
    """A plank glued to a wall at one end: all points break off at once where the torque is too much."""
    wall = box("wall", (-0.5, 0, 0), extents=(1, 1, 1), fixed=True)
    length, ends = 2.0, np.array([[0, y, z] for y in (0.05, -0.05) for z in (0.05, -0.05)])
    if rigid:
        plank = box("plank", (length / 2, 0, 0), extents=(length, 0.1, 0.1), density=100.0)
        rows, mass, arm = np.flatnonzero(plank.positions[:, 0] < 1e-9), plank.mass, length / 2
    else:
        points = np.concatenate([ends, [[length, 0, 0]]])
        edges = np.array([(i, j) for i in range(5) for j in range(i)])
        energy = SpringEnergy(points, edges, 1e9)
        plank = ElasticBody(points, np.array([0.01] * 4 + [10.0]), [energy], name="plank")
        rows, mass, arm = np.arange(4), 10.0, length
    bond = Bond("plank", rows, "wall", break_torque=torque * mass * G * arm)
    solver = ImplicitSolver([wall, plank], glue=[bond])
    state = run(solver, 5, 0.02)
    broken = state.released_joints.any() if rigid else state.released.any()
    assert broken == breaks
    if breaks:
        (event,) = [e for s in [solver.step(solver.start(), 0.02)] for e in s.report.events]
        assert (event.event, event.count) == ("break", 4)


def test_contact_on_bodies():
    """A box on a fixed block: contact carries its weight, and the two loads are opposite."""
    block = box("block", (0, -0.5, 0), extents=(1, 1, 1), fixed=True)
    falling = box("box", (0, 0.152, 0), extents=(0.2, 0.3, 0.25))
    solver = ImplicitSolver([block, falling], contact=Contact(distance=2e-3))
    state = run(solver, 40, 0.05)
    loads = {load.first: load for load in solver.loads(state)}
    weight = falling.mass * G
    assert_allclose(loads["box"].force, [0, weight, 0], atol=1e-3 * weight)
    assert_allclose(loads["block"].force, -loads["box"].force, atol=1e-9 * weight)
    energy = solver.energy(state)
    assert energy["contact"] > 0
    assert energy["kinetic"] < 1e-6 * weight


def test_energy_by_kind():
    """A falling box gains what it loses in height; a stretched spring has k/2 of its gap squared."""
    falling = box("box", velocity=(1.0, 0, 0), spin=(0, 0, 2.0))
    solver = ImplicitSolver([falling], method="bdf2", tolerance=1e-10)
    start = solver.energy(solver.start())
    inertia = np.trace(falling.moment) - falling.moment[2, 2]
    assert start["kinetic"] == pytest.approx(0.5 * falling.mass + 0.5 * inertia * 4.0)
    assert start["gravity"] == pytest.approx(0, abs=1e-12)
    state = run(solver, 50, 0.002)
    after = solver.energy(state)
    assert after["gravity"] == pytest.approx(falling.mass * G * state.origins[0, 1])
    # The first step of Euler's method, and the winding out of the spin, are of second order.
    assert sum(after.values()) == pytest.approx(sum(start.values()), rel=1e-3)
    anchor = soft("anchor", pinned=np.arange(64))
    glue = pg.bind_glue(anchor.positions, [[0.15, -0.1, 0.15]])
    point = ElasticBody(glue.targets + [0, -0.2, 0], np.ones(1), name="point")
    bond = Bond("point", [0], "anchor", glue, spring=pg.Spring(50.0))
    energies = ImplicitSolver([anchor, point], glue=[bond])
    assert energies.energy(energies.start())["springs"] == pytest.approx(0.5 * 50 * 0.04)


def test_energy_of_bushings():
    """A weight on a bushing: while it swings, the energy is kept to second order; released, it has none."""
    base, hung, k = box("base", fixed=True), box("hung", (0.0, -0.5, 0)), 400.0
    drifts = []
    for steps in (40, 80):
        bond = joined(hung, base, (0, -0.5, 0), "bushing", (0, 1.0, 0), stiffness=(k, k, np.inf), release=0.5)
        solver = ImplicitSolver([base, hung], joints=[bond], method="bdf2", tolerance=1e-10)
        state = run(solver, steps, 0.4 / steps)
        energy = solver.energy(state)
        assert energy["springs"] == pytest.approx(0.5 * k * (state.origins[1, 1] + 0.5) ** 2, rel=1e-9)
        drifts.append(abs(sum(energy.values()) - sum(solver.energy(solver.start()).values())))
    assert drifts[1] < 0.05 * energy["springs"]
    assert drifts[0] > 3 * drifts[1]
    assert solver.energy(run(solver, 1, 0.2, state))["springs"] == 0


@pytest.mark.parametrize(("max_force", "factor"), [(np.inf, 0.5 * 0.3**2), (2.0, 0.1 * (0.3 - 0.05))])
@pytest.mark.parametrize("coordinate", ["slide", "angle"])
def test_energy_of_motors(coordinate, max_force, factor):
    """Drawn by 20 N/m to 0.3 m: k/2 of the distance squared, but linear beyond what 2 N can stretch."""
    base, hung = box("base", fixed=True), box("hung", (0.0, -0.5, 0))
    motor = Motor(position=lambda t: 0.3 + t, stiffness=20.0, damping=5.0, max_force=max_force)
    bond = joined(hung, base, (0, -0.2, 0), "cylindrical", **{f"{coordinate}_motor": motor})
    solver = ImplicitSolver([base, hung], joints=[bond])
    assert solver.energy(solver.start())["springs"] == pytest.approx(20 * factor)
    bond = joined(hung, base, (0, -0.2, 0), "cylindrical", **{f"{coordinate}_motor": Motor(speed=0.3)})
    solver = ImplicitSolver([base, hung], joints=[bond])
    assert solver.energy(solver.start())["springs"] == 0


def test_loads_add_up_to_the_change_of_momentum():
    """While everything swings: the force of the joint is what gravity leaves of the change of momentum."""
    solver, hung = hanging("ball")
    state = run(solver, 5, 0.01)
    after = solver.step(state, 0.01)
    (load,) = solver.loads(after)
    change = hung.mass * (after.origin_velocities[0] - state.origin_velocities[0]) / 0.01
    assert_allclose(load.force, change + [0, hung.mass * G, 0], atol=1e-6 * hung.mass * G)


def test_helpers_are_not_shown():
    """States show the points of bodies alone, and forces are given for these alone."""
    solver, _ = hanging("spring")
    state = solver.start()
    assert state.positions.shape == state.velocities.shape == (72, 3)
    assert len(state.particles) > 72
    solver.forces = [lambda state: np.zeros_like(state.particles)]
    with pytest.raises(InputError, match=r"forces\[0\] must give shape \(72, 3\), got"):
        solver.step(state, 0.01)
    assert_allclose(GRID, state.body("carrier"))


@pytest.mark.parametrize("torque", [0.0, -1.0, np.nan, "much"])
def test_bad_torques(torque):
    wall, bar, weld = beam()
    with pytest.raises(InputError, match="break_torque must be a number above 0"):
        JointBond(wall.name, bar.name, weld.joint, break_torque=torque)
    with pytest.raises(InputError, match="break_torque is for points that are held"):
        Bond("beam", [0], "wall", spring=pg.Spring(1.0), break_torque=3.0)
