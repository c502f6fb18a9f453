"""Joints that slide, their limits and motors, against closed forms and conservation laws."""

from dataclasses import replace

import numpy as np
import pytest
from elastic.scenes import TOP, box, joined, run, soft
from numpy.testing import assert_allclose

import pointglue as pg
from pointglue.elastic import ImplicitSolver, JointBond, Motor, StepError

G = 9.81
SLIDING = ("prismatic", "cylindrical", "planar")
ANGLE = np.radians(30)
INCLINED = np.array([np.cos(ANGLE), -np.sin(ANGLE), 0.0])  # downhill


def bodies_on(what, shift=(0.0, 0.0, 0.0), **options):
    """A movable body "slider" of that kind; `options` are its velocities."""
    return box("slider", shift, **options) if what == "rigid" else soft("slider", shift, **options)


def base_of(what, shift):
    """A body that stays where it is."""
    return box("base", shift, fixed=True) if what == "rigid" else soft("base", shift, pinned=np.arange(64))


def residual(solver, state):
    """How far open the joints are, by the public equations of their bonds."""
    return max(
        np.abs(bond.joint.at(state.body(bond.first), state.body(bond.second)).residual).max(initial=0.0)
        for bond in solver.model.joints
    )


def momentum(solver, state, name):
    """Linear momentum and mass of one body."""
    for k, body in enumerate(solver.model.rigid):
        if body.name == name:
            return body.mass * state.origin_velocities[k], body.mass
    rows = solver.model.rows[name]
    mass = solver.model.mass[rows]
    return (mass[:, None] * state.velocities[rows]).sum(0), mass.sum()


def kinetic_energy(solver, state):
    """Of the rigid bodies."""
    inertia = solver.model.inertia
    rates = state.rotation_rates
    turning = np.einsum("bij,bjk,bik->", rates, inertia.moment, rates)
    return 0.5 * (np.sum(inertia.mass[:, None] * state.origin_velocities**2) + turning)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("second", ["rigid", "soft"])
@pytest.mark.parametrize("first", ["rigid", "soft"])
@pytest.mark.parametrize("kind", ["prismatic", "cylindrical"])
def test_a_block_slides_down_an_inclined_axis(kind, first, second, method):
    """With g sin(angle), whatever it is made of: the joint has no force along its axis."""
    slider, base = bodies_on(first, (0.5, 0, 0)), base_of(second, (0, 0, 0))
    bond = joined(slider, base, (0.35, 0.1, 0.1), kind, INCLINED)
    solver = ImplicitSolver([slider, base], joints=[bond], method=method, tolerance=1e-9)
    steps, h = 12, 0.02
    state = run(solver, steps, h)
    p, mass = momentum(solver, state, "slider")
    assert_allclose(p @ INCLINED / mass, G * np.sin(ANGLE) * steps * h, rtol=1e-8)
    assert residual(solver, state) < 1e-8 * solver.model.size
    if first == "rigid" and kind == "prismatic":
        expected = h * h * steps * (steps + 1) / 2 if method == "euler" else (steps * h) ** 2 / 2
        # As in free fall, the first substep by Euler's method is off by (h / 16)^2 g / 2 and a little more.
        atol = 1e-9 if method == "euler" else 2 * G * (h / 16) ** 2
        assert_allclose(solver.joint_coordinates(state), [[G * np.sin(ANGLE) * expected, np.nan]], atol=atol)


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("bdf2", 2)])
def test_a_cylindrical_joint_slides_and_spins_freely(method, order):
    """The slide to rounding, the spin to the method's order, and the angle is counted over whole turns."""
    rate, speed, duration, errors = 9.0, 0.7, 0.9, []
    for steps in (30, 60) if order == 2 else (160, 320):
        slider = box("slider", spin=rate * INCLINED, velocity=speed * INCLINED)
        base = box("base", (0, 2, 0), fixed=True)
        bond = joined(slider, base, (0, 0, 0), "cylindrical", INCLINED)
        solver = ImplicitSolver(
            [slider, base], joints=[bond], method=method, gravity=(0, 0, 0), tolerance=1e-10
        )
        state = run(solver, steps, duration / steps)
        ((slide, angle),) = solver.joint_coordinates(state)
        assert slide == pytest.approx(speed * duration, rel=1e-7)
        assert_allclose(state.origin_velocities[0], speed * INCLINED, atol=1e-7)
        assert_allclose(np.cross(state.spins[0], INCLINED), 0, atol=1e-6)  # about the axis only
        errors.append(abs(angle - rate * duration))
    assert angle > 2 * np.pi
    assert np.log2(errors[0] / errors[1]) > order - 0.3


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("first", ["rigid", "soft"])
def test_a_planar_joint_falls_in_its_plane(first, method):
    """Free fall along the plane, held across it."""
    normal = np.array([np.sin(ANGLE), np.cos(ANGLE), 0.0])
    slider, base = bodies_on(first, (0.0, 0.5, 0)), box("base", fixed=True)
    solver = ImplicitSolver(
        [slider, base],
        joints=[joined(slider, base, (0, 0.3, 0), "planar", normal)],
        method=method,
        tolerance=1e-9,
    )
    state = run(solver, 10, 0.02)
    p, mass = momentum(solver, state, "slider")
    assert_allclose(p @ INCLINED / mass, G * np.sin(ANGLE) * 0.2, rtol=1e-8)
    assert_allclose(p @ [0, 0, 1] / mass, 0, atol=1e-8)
    assert residual(solver, state) < 1e-8 * solver.model.size
    assert np.isnan(solver.joint_coordinates(state)[0, 0])


DRIVEN = {
    "prismatic": {"slide_limits": (-0.01, 0.01), "slide_motor": Motor(speed=0.4, max_force=3.0)},
    "cylindrical": {
        "slide_motor": Motor(position=0.1, stiffness=30.0, damping=1.0),
        "angle_limits": (0, 0.1),
    },
    "planar": {"angle_motor": Motor(speed=2.0)},
    "hinge": {"angle_limits": (-0.02, 0.02), "angle_motor": Motor(position=np.sin, max_force=0.3)},
}


@pytest.mark.parametrize("drives", [{}, DRIVEN], ids=["free", "driven"])
@pytest.mark.parametrize("what", [("rigid", "rigid"), ("soft", "rigid"), ("soft", "soft")])
@pytest.mark.parametrize("kind", [*SLIDING, "hinge", "bushing"])
def test_momentum_of_joined_bodies(kind, what, drives, rng):
    """No net force, and about the places at the end of each step no net torque, driven or not."""
    spins = {"spin": (1.0, 2.0, -1.0), "velocity": (0.3, 0, 1.0)}
    made = []
    for name, of, shift in (("one", what[0], (0, 0, 0)), ("two", what[1], (0, 0.6, 0))):
        options = spins if of == "rigid" else {"velocities": rng.standard_normal((64, 3))}
        made.append((box if of == "rigid" else soft)(name, shift, **options))
    options = drives.get(kind, {})
    if kind == "bushing":
        options = {"stiffness": (50.0, 200.0, 0.0), "damping": (0.0, 1.0, 3.0)}
    bond = joined(*made, (0.1, 0.4, 0.1), kind, (1.0, 2.0, 0.5), **options)
    solver = ImplicitSolver(made, joints=[bond], gravity=(0, 0, 0), tolerance=1e-9)
    state = solver.start()
    scale = 1 + np.abs(solver.momenta(state)[1]).max()
    for _ in range(6):
        before, state = state, solver.step(state, 0.02)
        held = replace(
            state,
            particle_velocities=before.particle_velocities,
            origin_velocities=before.origin_velocities,
            rotation_rates=before.rotation_rates,
        )
        for now, then in zip(solver.momenta(state), solver.momenta(held), strict=True):
            assert_allclose(now, then, atol=1e-8 * scale)  # what the tolerance leaves
    assert residual(solver, state) < 1e-8 * solver.model.size


def energies_of_sliding_boxes(kind, method, h):
    """Kinetic energies through 1.2 s of two boxes that tumble and slide along each other."""
    one = box("one", spin=(2.0, 1.0, -3.0), velocity=(0.2, 0, 0))
    two = box("two", (0, 0.5, 0), spin=(2.0, 1.0, -3.0), velocity=(-0.2, 0, 0.4))
    solver = ImplicitSolver(
        [one, two],
        joints=[joined(one, two, (0, 0.25, 0), kind, (1.0, 0.3, 0.2))],
        gravity=(0, 0, 0),
        method=method,
        tolerance=1e-9,
    )
    state = solver.step(solver.start(), 1e-5)  # velocities that the joint does not allow are gone
    energies = [kinetic_energy(solver, state)]
    while state.time < 1.2:
        state = solver.step(state, h)
        energies.append(kinetic_energy(solver, state))
    assert residual(solver, state) < 1e-8 * solver.model.size
    return np.array(energies)


@pytest.mark.parametrize("kind", SLIDING)
def test_energy_does_not_grow(kind):
    """Euler's method loses it in every step; the other errs by the square of the step, either way."""
    assert np.diff(energies_of_sliding_boxes(kind, "euler", 0.02)).max() < 0
    errors = []
    for h in (0.02, 0.01):
        energies = energies_of_sliding_boxes(kind, "bdf2", h)
        errors.append(np.abs(energies / energies[0] - 1).max())
    assert errors[0] < 0.01
    assert errors[1] < errors[0] / 3


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("first", ["rigid", "soft"])
def test_a_slide_stops_at_its_limit(first, method):
    """At rest there within the joints' tolerance; the reaction is the load along the axis."""
    slider, base = bodies_on(first, (0.5, 0, 0)), box("base", fixed=True)
    if first == "soft":
        slider = soft("slider", (0.5, 0, 0), damping=0.05)
    bond = joined(slider, base, (0.35, 0.1, 0.1), "prismatic", INCLINED, slide_limits=(-0.1, 0.05))
    solver = ImplicitSolver([slider, base], joints=[bond], method=method, tolerance=1e-7)
    state = solver.start()
    for _ in range(40):
        state = solver.step(state, 0.025)
        assert solver.joint_coordinates(state)[0, 0] < 0.05 + 1e-8 * solver.model.size
    assert solver.joint_coordinates(state)[0, 0] == pytest.approx(0.05, abs=1e-8)
    weight = momentum(solver, state, "slider")[1] * G
    assert_allclose(solver.loads(state)[0].force, [0, weight, 0], atol=1e-2 * weight)  # limit included
    load = momentum(solver, state, "slider")[1] * G * np.sin(ANGLE)
    # What still wobbles is a thousandth of the soft body's weight.
    assert state.multipliers[-1] == pytest.approx(load, rel=1e-6 if first == "rigid" else 1e-2)


def hung_beam(method="euler", **options):
    """A box 0.4 m long on a hinge about z at its end, horizontal; with its mass, arm and inertia there."""
    beam, base = box("beam", (0.2, 0, 0), extents=(0.4, 0.1, 0.1)), box("base", (0, 0.5, 0), fixed=True)
    solver = ImplicitSolver(
        [beam, base], joints=[joined(beam, base, (0, 0, 0), "hinge", (0, 0, 1), **options)], method=method
    )
    inertia = beam.mass * (0.4**2 + 0.1**2) / 12 + beam.mass * 0.2**2
    return solver, beam.mass * G * 0.2, inertia


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_a_pendulum_with_a_limit(method):
    """It falls to 0.5 rad below the horizontal, stays, and the torque there is weight times lever arm."""
    solver, torque, _ = hung_beam(method, angle_limits=(-0.5, 0.1))
    state = solver.start()
    for _ in range(50):
        state = solver.step(state, 0.02)
        assert solver.joint_coordinates(state)[0, 1] > -0.5 - 1e-8
    assert solver.joint_coordinates(state)[0, 1] == pytest.approx(-0.5, abs=1e-8)
    reach = solver.model.joints[0].joint.reach[0]
    assert state.multipliers[-1] * reach == pytest.approx(-torque * np.cos(0.5), rel=1e-6)
    assert_allclose(state.spins, 0, atol=1e-8)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_a_motor_keeps_its_speed(method):
    """Through two turns, lifting and lowering; its torque is that of the weight."""
    solver, torque, _ = hung_beam(method, angle_motor=Motor(speed=4.0))
    state, reach = solver.start(), solver.model.joints[0].joint.reach[0]
    for k in range(160):
        state = solver.step(state, 0.02)
        if k > 2:
            assert state.spins[0] @ [0, 0, 1] == pytest.approx(4.0, rel=5e-3)  # of a chord, sin(x) / x
            # The turning itself needs no torque, but for the error of the time step: h rate / 2 by Euler's.
            angle = solver.joint_coordinates(state)[0, 1]
            atol = (0.08 if method == "euler" else 0.01) * torque
            assert -state.multipliers[-1] * reach == pytest.approx(torque * np.cos(angle), abs=atol)
    assert solver.joint_coordinates(state)[0, 1] == pytest.approx(4.0 * 160 * 0.02, abs=0.01)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_a_motor_stalls(method):
    """With half the torque that it takes it pushes with that, and is turned back by the rest."""
    _, torque, inertia = hung_beam(method)
    solver, _, _ = hung_beam(method, angle_motor=Motor(speed=4.0, max_force=torque / 2))
    reach = solver.model.joints[0].joint.reach[0]
    state = run(solver, 10, 1e-3)
    assert -state.multipliers[-1] * reach == pytest.approx(torque / 2, rel=1e-12)
    assert state.spins[0] @ [0, 0, 1] == pytest.approx(-torque / 2 / inertia * 0.01, rel=1e-3)


def test_a_motor_pushes_against_a_limit():
    """The limit bears what the motor pushes beyond the weight."""
    _, torque, _ = hung_beam()
    solver, _, _ = hung_beam(angle_limits=(-0.1, 0.2), angle_motor=Motor(speed=4.0, max_force=3 * torque))
    state = run(solver, 20, 0.02)
    limit, motor = state.multipliers[-2:] * solver.model.joints[0].joint.reach[0]
    assert solver.joint_coordinates(state)[0, 1] == pytest.approx(0.2, abs=1e-8)
    assert motor == pytest.approx(-3 * torque, rel=1e-9)
    assert limit == pytest.approx(3 * torque - torque * np.cos(0.2), rel=1e-6)


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("bdf2", 2)])
def test_a_soft_servo_is_a_damped_oscillator(method, order):
    """A prismatic motor with stiffness and damping against the solution of the oscillator."""
    k, c, duration, errors = 40.0, 3.0, 0.5, []
    slider, base = box("slider", (0.5, 0, 0)), box("base", fixed=True)
    rate, omega = c / (2 * slider.mass), np.sqrt(k / slider.mass - (c / (2 * slider.mass)) ** 2)
    expected = 0.3 * (
        1 - np.exp(-rate * duration) * (np.cos(omega * duration) + rate / omega * np.sin(omega * duration))
    )
    for steps in (40, 80):
        motor = Motor(position=0.3, stiffness=k, damping=c)
        bond = joined(slider, base, (0.3, 0, 0), "prismatic", slide_motor=motor)
        solver = ImplicitSolver(
            [slider, base], joints=[bond], method=method, gravity=(0, 0, 0), tolerance=1e-10
        )
        state = run(solver, steps, duration / steps)
        errors.append(abs(solver.joint_coordinates(state)[0, 0] - expected))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.4)


def test_a_keyed_motor_follows_its_function():
    """A slide that is a function of the time, exactly, whatever the load."""
    slider, base = soft("slider", (0.5, 0, 0)), soft("base", pinned=TOP)
    bond = joined(
        slider, base, (0.4, 0.1, 0.1), "prismatic", (0, 1, 0), slide_motor=Motor(position=lambda t: 0.2 * t)
    )
    solver = ImplicitSolver([slider, base], joints=[bond])
    state = run(solver, 10, 0.02)
    assert solver.joint_coordinates(state)[0, 0] == pytest.approx(0.04, abs=1e-8)


@pytest.mark.parametrize("kind", SLIDING)
def test_joints_that_attach_later_begin_at_zero(kind):
    """A body falls past another, then slides along it from there; its coordinates count from that time."""
    slider, base = box("slider", (0.5, 0, 0), spin=(0, 2, 0)), box("base", fixed=True)
    bond = joined(slider, base, (0.3, 0, 0), kind, (0, 1, 0), attach=0.1)
    solver = ImplicitSolver([slider, base], joints=[bond])
    state = run(solver, 5, 0.02)
    assert np.isnan(solver.joint_coordinates(state)).all()
    fallen = state.origins[0].copy()
    state = run(solver, 5, 0.02, state)
    slide, angle = solver.joint_coordinates(state)[0]
    moved = state.origins[0] - fallen
    if kind == "planar":
        assert abs(moved[1]) < 1e-8
        assert angle > 0.1
    else:
        assert slide == pytest.approx(moved[1], abs=1e-8)
        assert moved[1] < -0.1
        assert np.isnan(angle) if kind == "prismatic" else angle > 0.01  # slower, about an axis beside it


def test_a_planar_joint_breaks_by_what_it_bears():
    """At 0.9 times the weight it breaks, at 1.1 times it holds."""
    for share in (0.9, 1.1):
        slider, base = box("slider", (0, 0.5, 0)), box("base", fixed=True)
        limit = share * slider.mass * G
        bond = joined(slider, base, (0, 0.3, 0), "planar", (0, 1, 0), break_force=limit)
        state = run(ImplicitSolver([slider, base], joints=[bond]), 5, 0.02)
        assert state.released_joints.all() == (share < 1)
        assert (state.origins[0, 1] < 0.49) == (share < 1)


def test_keys_that_break_a_limit_are_told():
    slider = box("slider", (0.5, 0, 0), fixed=True, motion=lambda t: ((0.5 + t, 0, 0), np.eye(3)))
    base = box("base", fixed=True)
    bond = joined(slider, base, (0.3, 0, 0), "prismatic", slide_limits=(-1, 0.05))
    solver = ImplicitSolver([slider, base], joints=[bond])
    state = run(solver, 4, 0.01)
    with pytest.raises(StepError, match=r"slide limit of prismatic joint 0 of 'slider' and 'base' stays"):
        run(solver, 4, 0.01, state)


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("bdf2", 2)])
def test_a_bushing_is_a_spring_along_each_axis(method, order):
    """Three damped oscillators of their own frequencies, in a frame that is turned, and one axis is free."""
    axes = np.linalg.qr(np.random.default_rng(5).standard_normal((3, 3)))[0].T
    axes[2] = np.cross(axes[0], axes[1])
    k, c, speed, duration = (60.0, 20.0, 0.0), (0.0, 1.0, 2.0), 0.5, 0.4
    for axis in range(3):
        errors = []
        for steps in (40, 80):
            body, base = box("body", velocity=speed * axes[axis]), box("base", (0, 1, 0), fixed=True)
            joint = pg.bind_joint(
                body.positions, base.positions, (0, 0, 0), kind="bushing", axis=axes[0], across=axes[1]
            )
            bond = JointBond("body", "base", joint, stiffness=k, damping=c)
            solver = ImplicitSolver(
                [body, base], joints=[bond], gravity=(0, 0, 0), method=method, tolerance=1e-10
            )
            state = run(solver, steps, duration / steps)
            rate = c[axis] / (2 * body.mass)
            omega = np.sqrt(complex(k[axis] / body.mass - rate**2))
            # A damper alone is the limit of zero stiffness: sin(i y) / (i y) is real.
            expected = (speed * np.exp(-rate * duration) * np.sin(omega * duration) / omega).real
            errors.append(np.linalg.norm(state.origins[0] - expected * axes[axis]))
        assert errors[1] < 0.02 * speed * duration
        assert np.log2(errors[0] / errors[1]) > order - 0.3


def test_the_axes_of_a_bushing_turn_with_the_first_body():
    """A weight on a body that has turned by a quarter: what was its stiff axis bears it, softly the other."""
    for turn, stiffness in ((0.0, 100.0), (np.pi / 2, 1000.0)):
        c, s = np.cos(turn), np.sin(turn)
        R = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]])
        holder = box("holder", fixed=True, motion=lambda t, R=R: (np.zeros(3), R if t > 0 else np.eye(3)))
        weight = box("weight", extents=(0.1, 0.1, 0.1))
        joint = pg.bind_joint(holder.positions, weight.positions, (0, 0, 0), kind="bushing", across=(0, 1, 0))
        bond = JointBond("holder", "weight", joint, stiffness=(1000.0, 100.0, 100.0), damping=(9.0, 3.0, 3.0))
        state = run(ImplicitSolver([holder, weight], joints=[bond]), 120, 0.05)
        assert state.origins[1, 1] == pytest.approx(-weight.mass * G / stiffness, rel=1e-3)


@pytest.mark.parametrize("ratio", [1e-6, 1e-3, 1e3, 1e6])
def test_limits_bear_any_ratio_of_masses(ratio):
    """A body slides on a rod that slides in a holder, both to their limits: each bears what hangs below."""
    low, rod = box("low", density=1000.0 * ratio), box("rod", (0, 0.5, 0), density=1000.0)
    holder = box("holder", (0, 1, 0), fixed=True)
    joints = [
        joined(low, rod, (0, 0.25, 0), "prismatic", (0, 1, 0), slide_limits=(-0.2, 0.2)),
        joined(rod, holder, (0, 0.75, 0), "cylindrical", (0, 1, 0), slide_limits=(-0.1, 0.1)),
    ]
    solver = ImplicitSolver([low, rod, holder], joints=joints)
    state = run(solver, 30, 0.02)
    assert_allclose(solver.joint_coordinates(state)[:, 0], [-0.2, -0.1], atol=1e-9)
    assert_allclose(-state.multipliers[-2:], [low.mass * G, (low.mass + rod.mass) * G], rtol=1e-6)


@pytest.mark.parametrize("kind", [*SLIDING, "hinge", "bushing"])
def test_joints_in_any_order(kind):
    """A welded body carries another by such a joint, which is named before the weld or after it.

    Rows of joints that slide come behind the equations of all joints, whatever their order: the memory of the
    factors was overwritten where a weld was named after such a joint.
    """
    base, arm, slider = box("base", fixed=True), box("arm", (0, 0.3, 0)), soft("slider", (0, 0.6, 0))
    springs = {"stiffness": (300.0, 300.0, 300.0)} if kind == "bushing" else {}
    place, axis = [0.15, 0.45, 0.15], [0.0, 0.0, 1.0]
    joint = pg.bind_joint(slider.positions, arm.positions, place, kind=kind, axis=axis)
    limits = {"angle_limits": (-0.2, 0.2)} if kind in ("hinge", "cylindrical", "planar") else {}
    carries = JointBond("slider", "arm", joint, **springs, **limits)
    weld = JointBond(
        "arm", "base", pg.bind_joint(arm.positions, base.positions, [0.1, 0.2, 0.1], kind="weld")
    )
    ends = []
    for joints in ([carries, weld], [weld, carries]):
        solver = ImplicitSolver([base, arm, slider], joints=joints, gravity=(1.0, -G, 0.5))
        state = run(solver, 6, 1 / 24)
        assert state.report.violation < 1e-9
        assert_allclose(state.body("arm"), arm.positions, atol=1e-9)
        ends.append(state.body("slider"))
    assert_allclose(*ends, atol=1e-5)  # the tolerance of the steps is 1e-4 m/s
