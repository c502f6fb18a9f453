"""Damped springs of glue: they keep both momenta, leave rigid motion alone, and take energy only."""

import numpy as np
import pytest
from elastic.scenes import GRID, box, run, soft
from numpy.testing import assert_allclose

import pointglue as pg
from pointglue.elastic import Bond, ElasticBody, ImplicitSolver


def on_a_spring(damping, *, method="euler", stiffness=20.0, binding=None):
    """A box on springs of glue beside a soft cube, tumbling in empty space, slowly enough for the steps."""
    carrier = soft("carrier", stiffness=5.0, velocities=np.cross([1.0, 2.0, 3.0], GRID - GRID.mean(0)))
    hung = box("box", (0.15, -0.3, 0.15), density=20.0, spin=(3.0, 0.0, -2.0), velocity=(0.4, 0.0, 0.3))
    spring = pg.Spring(stiffness, damping=damping)
    bond = Bond("box", [2, 3, 7], "carrier", binding, spring=spring)
    return ImplicitSolver([carrier, hung], glue=[bond], gravity=(0, 0, 0), method=method, tolerance=1e-10)


@pytest.mark.parametrize("damping", [0.0, 10.0, 1000.0])
@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_momenta_are_kept(method, damping):
    """To the order of the method; the damping force on bound points lacked the torque of its gap."""
    solver, drifts = on_a_spring(damping, method=method), []
    start = run(solver, 20, 1e-3)  # the damping has taken what it takes at once
    linear, angular = solver.momenta(start)
    for steps in (50, 100):
        after, turned = solver.momenta(run(solver, steps, 0.25 / steps, start))
        assert_allclose(after, linear, atol=1e-8 * np.abs(linear).max())
        drifts.append(np.abs(turned - angular).max() / np.abs(angular).max())
    assert np.log2(drifts[0] / drifts[1]) > (0.8 if method == "euler" else 1.6)
    assert drifts[-1] < 0.03  # it was a fifth at any step length


def test_a_linear_binding_keeps_them_too():
    """Inside a cage a point has no frame of its own: that of the fit of its parents serves."""
    drifts = []
    for steps in (25, 100):
        carrier = soft("carrier", velocities=np.cross([1.0, 2.0, 3.0], GRID))
        binding = pg.bind_linear(carrier.positions, [[0.05, 0.05, 0.05]], [[0, 1, 4, 16]])
        point = ElasticBody(binding.targets.copy(), np.full(1, 0.05), velocities=(1.0, 0, 0), name="point")
        bond = Bond("point", [0], "carrier", binding, spring=pg.Spring(20.0, damping=5.0))
        solver = ImplicitSolver([carrier, point], glue=[bond], gravity=(0, 0, 0), tolerance=1e-10)
        start = solver.start()
        state = run(solver, steps, 0.25 / steps, start)
        before, after = solver.momenta(start)[1], solver.momenta(state)[1]
        drifts.append(np.abs(after - before).max() / np.abs(before).max())
    assert np.log2(drifts[0] / drifts[1]) / 2 > 0.8


def test_rigid_spin_is_not_damped():
    """A stretched spring that spins with its carrier, as one rigid whole, feels no damping at all."""
    ends = []
    for damping in (0.0, 1e4):
        spin = np.array([0.0, 0.0, 6.0])
        carrier = box("carrier", density=2000.0, spin=spin)
        far = np.array([[0.6, 0.0, 0.0]])
        binding = pg.bind_glue(carrier.positions, far)
        # At 0.61 m the spring carries what keeps the point on its circle, k 0.01 = m 36 0.61.
        place, mass = far + [0.01, 0, 0], 1e-3
        point = ElasticBody(place, np.full(1, mass), velocities=np.cross(spin, place), name="point")
        stiffness = mass * 36 * 0.61 / 0.01
        bond = Bond("point", [0], "carrier", binding, spring=pg.Spring(stiffness, damping=damping))
        solver = ImplicitSolver([carrier, point], glue=[bond], gravity=(0, 0, 0), tolerance=1e-12)
        state = run(solver, 50, 1e-3)
        ends.append(state.body("point")[0])
    # Euler's method lets the orbit wind out a little, and that is all the damping sees.
    assert_allclose(ends[1], ends[0], atol=2e-4)
    assert np.linalg.norm(ends[0]) == pytest.approx(0.61, abs=5e-3)


def test_damping_takes_energy():
    """The energy of everything never grows, and the more damping the less is left."""
    left = []
    for damping in (0.0, 1.0, 10.0):
        solver = on_a_spring(damping)
        state, energies = solver.start(), []
        for _ in range(60):
            state = solver.step(state, 0.01)
            energies.append(sum(solver.energy(state).values()))
        assert (np.diff(energies) <= 1e-9 * energies[0]).all()
        left.append(energies[-1])
    assert left[0] > left[1] > left[2]


def test_a_damper_alone_is_an_exponential():
    """A heavy point drawn by a spring through strong damping creeps as exp(-k t / c)."""
    anchor = soft("anchor", pinned=np.arange(64))
    place = np.array([[0.15, -0.1, 0.15]])
    binding = pg.bind_glue(anchor.positions, place)
    stiffness, damping, h, steps = 10.0, 50.0, 5e-3, 100
    point = ElasticBody(place + [0, -0.1, 0], np.full(1, 1e-3), name="point")
    bond = Bond("point", [0], "anchor", binding, spring=pg.Spring(stiffness, damping=damping))
    solver = ImplicitSolver([anchor, point], glue=[bond], gravity=(0, 0, 0), tolerance=1e-12)
    state = run(solver, steps, h)
    gap = state.body("point")[0, 1] - place[0, 1]
    # The mass is gone after c / m = 20 us; Euler's factor a step is 1 / (1 + h k / c).
    assert gap == pytest.approx(-0.1 / (1 + h * stiffness / damping) ** steps, rel=1e-4)
