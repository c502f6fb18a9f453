"""Viscous damping: spin is left alone, and changes of shape are damped as Kelvin and Voigt say."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import eigh

from pointglue.elastic import (
    ClothEnergy,
    ElasticBody,
    FleshEnergy,
    HexahedronEnergy,
    ImplicitSolver,
    RigidBody,
    ShapeMatchingEnergy,
    SpringEnergy,
)
from pointglue.geometry.simplices import hex_box, tet_box

CUBE = np.array(list(product((-0.5, 0.5), repeat=3)))
KINDS = ("spring", "shape", "flesh", "hexahedra", "cloth")
# The damping of a hexahedron that bends is not quite in proportion to its stiffness.
PROPORTIONAL = tuple(kind for kind in KINDS if kind != "hexahedra")
METHODS = ("euler", "bdf2")
ORDERS = {"euler": 1, "bdf2": 2}


def sheet(n):
    """A flat square of 1 m, every cell cut along its diagonal."""
    side = np.linspace(-0.5, 0.5, n + 1)
    points = np.array([(x, y, 0.0) for x in side for y in side])
    at = np.arange((n + 1) ** 2).reshape(n + 1, n + 1)
    a, b, c, d = (part.ravel() for part in (at[:-1, :-1], at[1:, :-1], at[1:, 1:], at[:-1, 1:]))
    return points, np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])


def made(kind, stiffness, damping):
    """The points, masses and energy of a body of about 1 m; stiffness in N/m, of flesh in Pa."""
    if kind == "spring":
        points = np.array([[-0.5, 0, 0], [0.5, 0, 0]])
        return points, np.ones(2), SpringEnergy(points, [[0, 1]], stiffness, damping=damping)
    if kind == "shape":
        return CUBE, np.full(8, 0.125), ShapeMatchingEnergy(CUBE, 0.125, stiffness, damping=damping)
    if kind == "flesh":
        points, tets = tet_box((1.0, 0.3, 0.3), (3, 1, 1))
        energy = FleshEnergy(points, tets, young=stiffness, poisson=0.3, damping=damping)
        return points, energy.mass(1000.0), energy
    if kind == "hexahedra":
        points, hexes = hex_box((1.0, 0.3, 0.3), (3, 1, 1))
        energy = HexahedronEnergy(points, hexes, young=stiffness, poisson=0.3, damping=damping)
        return points, energy.mass(1000.0), energy
    points, faces = sheet(3)
    energy = ClothEnergy(points, faces, stretch=stiffness, bend=1e-4 * stiffness, damping=damping)
    return points, energy.mass(0.3), energy


class Run:
    """Some steps of one body without gravity: its energies and angular momenta, the first at the start."""

    def __init__(self, body, method, dt, steps, velocities, **options):
        points, self.mass, self.energy = body
        soft = ElasticBody(points, self.mass, [self.energy], velocities=velocities, name="body")
        solver = ImplicitSolver([soft], gravity=(0, 0, 0), method=method, **options)
        state = solver.start()
        self.energies, self.momenta = [self.total(state)], [solver.momenta(state)[1]]
        self.iterations, self.states = 0, [state]
        for _ in range(steps):
            state = solver.step(state, dt)
            self.iterations += state.report.iterations
            self.energies.append(self.total(state))
            self.momenta.append(solver.momenta(state)[1])
            self.states.append(state)

    def total(self, state):
        kinetic = 0.5 * np.sum(self.mass[:, None] * state.velocities**2)
        return kinetic + self.energy.value(state.positions)

    @property
    def ratios(self):
        return np.array(self.energies) / self.energies[0]


def spun(kind, stiffness, damping, method, dt, steps, *, spin=6.0, **options):
    """A body that spins about its centroid, without strain at the start."""
    points, mass, energy = made(kind, stiffness, damping)
    axis = np.array([0.0, 0.0, 1.0]) if kind == "spring" else np.array([0.3, 0.2, 1.0])
    arms = points - mass @ points / mass.sum()
    velocities = np.cross(spin * axis / np.linalg.norm(axis), arms)
    return Run((points, mass, energy), method, dt, steps, velocities, **options)


@pytest.mark.parametrize(
    ("kind", "stiffness", "damping", "method", "steps"),
    [
        ("shape", 1e8, 0.1, "euler", 1),  # was 21 times the start
        ("shape", 1e8, 1.0, "bdf2", 1),  # was 574 times, with 5 % of the angular momentum left
        ("spring", 1e6, 1.0, "euler", 12),  # was 2,425 times
        ("spring", 1e6, 1.0, "bdf2", 12),
        ("flesh", 1e8, 1.0, "euler", 12),
        ("flesh", 1e8, 1.0, "bdf2", 12),
        ("hexahedra", 1e8, 1.0, "euler", 12),
        ("hexahedra", 1e8, 1.0, "bdf2", 12),
        ("cloth", 1e6, 1.0, "euler", 12),
        ("cloth", 1e6, 1.0, "bdf2", 12),
    ],
)
def test_damping_leaves_the_spin_of_a_stiff_body_as_it_is_without(kind, stiffness, damping, method, steps):
    """At 6 rad/s and 24 steps a second. The bodies stretch by 1e-6 to 1e-4, of which damping changes all."""
    plain, damped = (spun(kind, stiffness, c, method, 1 / 24, steps) for c in (0.0, damping))
    assert_allclose(damped.ratios, plain.ratios, atol=1e-3)
    assert_allclose(damped.momenta[-1], plain.momenta[-1], rtol=1e-3, atol=1e-3 * np.abs(plain.momenta).max())
    assert max(damped.ratios) < 1 + 1e-6
    # Newton's method takes no longer for it.
    assert damped.iterations <= plain.iterations + steps
    assert damped.iterations <= 4 * steps + 6


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10)
@given(data=st.data())
def test_energy_never_grows_in_free_spin(kind, method, data):
    """From jelly to steel, from no damping to goo, from 1,000 steps a second to 8.

    Of BDF2 kinetic and elastic energy swing against each other, but in six steps their sum stays below that
    of the start where a step turns the body by up to 0.6 rad. Steps that turn it farther are divided; soft
    tetrahedra, which these stretch to twice their length, have gained up to 0.2 % there.
    """
    stiffness = 10 ** data.draw(st.floats(1, 9), label="log stiffness")
    damping = 10 ** data.draw(st.floats(-5, 1), label="log damping")
    dt = 10 ** data.draw(st.floats(-3, -0.9), label="log dt")
    spin = data.draw(st.floats(1.0, 8.0), label="spin")
    for each in (damping, 0.0):
        ratios = spun(kind, stiffness, each, method, dt, 6, spin=spin).ratios
        if method == "euler":
            assert (np.diff(ratios) < 1e-9).all()
        else:
            assert max(ratios) < 1 + (1e-9 if dt * spin < 0.6 else 5e-3)


@pytest.mark.parametrize("damping", [0.0, 1e-3])
@pytest.mark.parametrize("kind", KINDS)
def test_bdf2_gains_no_energy_however_badly_a_step_resolves_the_swing(kind, damping):
    """At 6 rad/s. It was up to 2.3 % in steps of 1/24 s, and 8 % in those of 0.1 s, which turn by 0.6 rad."""
    softest = {"spring": 1, "shape": 0, "flesh": 3, "hexahedra": 3, "cloth": -1}[kind]
    for dt in (1 / 24, 0.1):
        largest = [
            max(spun(kind, 10.0 ** (softest + k), damping, "bdf2", dt, 8).ratios[1:]) for k in range(6)
        ]
        assert max(largest) < 1 + 1e-9


@pytest.mark.parametrize("turn", [1.2, 2.5])
def test_bdf2_divides_steps_that_turn_a_free_body_far(turn):
    """Of springs of any stiffness at 6 rad/s: undivided, they gained 0.3 % in steps of 1.2 rad, 1.8 % in 2.5.

    Velocities that are told from positions on a circle have a part outwards, by which the energy of what is
    rigid is 1 + a^6 / 16 times as large, where a is the angle between two of these positions.
    """
    for k in np.arange(1.0, 8.5, 0.5):
        run = spun("spring", 10**k, 0.0, "bdf2", turn / 6.0, 12)
        assert max(run.ratios) < 1 + 1e-9
    # This one is rigid. Its first part is divided as every first step is; it then turns as fast as before.
    parts = int(np.ceil(turn / 0.4))
    assert [state.report.substeps for state in run.states[1:]] == [parts + 4] + [parts] * 11


def test_what_a_body_gains_that_tumbles_falls_as_the_cube_of_the_step():
    """By BDF2, in three seconds: its angular momentum is kept, and how it lies to that is the method's."""
    box, gained = np.array(list(product((-0.5, 0.5), repeat=3))) * [0.85, 0.26, 0.63], []
    for dt in (1 / 24, 1 / 48):
        body = RigidBody.of_points(box, np.full(8, 0.1), spin=(-3.0, 4.4, -2.8))
        solver = ImplicitSolver([body], gravity=(0, 0, 0), method="bdf2")
        state, energies = solver.start(), []
        for _ in range(round(3 / dt)):
            state = solver.step(state, dt)
            energies.append(solver.energy(state)["kinetic"])
        gained.append(energies[-1] / energies[round(0.5 / dt)] - 1)
    assert 0 < gained[0] < 4e-3
    assert np.log2(gained[0] / gained[1]) > 2.3


@pytest.mark.parametrize("kind", KINDS)
def test_bdf2_keeps_angular_momentum_but_for_the_first_substep(kind):
    """Of stiff bodies, and of those that are soft enough to be stretched; it lost 3 % in these twelve steps.

    The first substep, a sixteenth of a step by Euler's method, turns what is stiff by atan(w h / 16) and
    leaves the cosine of this. Then dL_n = b dL_n-1, where b is 1/3, or 4/5 after a step half as long.
    """
    soft = {"spring": 300.0, "shape": 40.0, "flesh": 2e4, "hexahedra": 2e4, "cloth": 20.0}[kind]
    first = 1 - np.cos(np.arctan(6.0 / 24 / 16))
    expected = first * (1 + np.cumprod([1 / 3, 4 / 5, 4 / 5, 4 / 5, 4 / 5, *[1 / 3] * 10]).sum())
    for stiffness in (1e8, soft):
        momenta = np.array(spun(kind, stiffness, 0.0, "bdf2", 1 / 24, 12, tolerance=1e-9).momenta)
        size = np.linalg.norm(momenta[0])
        lost = 1 - np.linalg.norm(momenta[-1]) / size
        assert abs(lost) < 1.05 * expected
        if stiffness == 1e8 and kind in ("spring", "shape"):  # which turn about a principal axis
            assert lost == pytest.approx(expected, rel=0.01)
        # After six more steps there is 1/3^6 of it left to lose.
        assert_allclose(momenta[7:], momenta[7:8].repeat(6, 0), rtol=0, atol=2 * expected / 3**6 * size)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", KINDS)
def test_angular_momentum_is_kept_to_the_order_of_the_integrator(kind, method):
    """Of bodies that are soft enough to be stretched and to swing, with strong damping, after 0.4 s."""
    stiffness = {"spring": 300.0, "shape": 40.0, "flesh": 2e4, "hexahedra": 2e4, "cloth": 20.0}[kind]
    lost = []
    for steps in (20, 40, 80):
        run = spun(kind, stiffness, 0.02, method, 0.4 / steps, steps, tolerance=1e-9)
        lost.append(np.linalg.norm(run.momenta[-1] - run.momenta[0]) / np.linalg.norm(run.momenta[0]))
    orders = np.log2(np.array(lost[:-1]) / lost[1:])
    assert lost[-1] < {"euler": 0.1, "bdf2": 0.003}[method]
    assert orders[-1] > ORDERS[method] - 0.2, (lost, orders)


def test_damping_takes_energy_but_not_the_spin_of_a_swinging_body():
    """What is stretched and let go while it spins comes to spin steadily, with its angular momentum."""
    points, mass, energy = made("shape", 250.0, 0.05)
    spin = np.cross([0, 0, 3.0], points) + [0.5, 0, 0] * np.sign(points)
    run = Run((points, mass, energy), "bdf2", 1 / 240, 240, spin)
    assert run.momenta[-1][2] == pytest.approx(run.momenta[0][2], rel=1e-3)
    x = run.states[-1].positions
    offsets = np.linalg.norm(x[:, None] - x[None], axis=2)
    rates = np.abs(offsets - np.linalg.norm(
        run.states[-2].positions[:, None] - run.states[-2].positions[None], axis=2)).max() * 240  # fmt: skip
    assert rates < 1e-3
    assert run.energies[-1] < 0.95 * run.energies[0]


@pytest.mark.parametrize("kind", [*PROPORTIONAL, "linear", "quadratic"])
def test_at_rest_the_damping_is_its_seconds_times_the_stiffness(kind):
    """The damping matrix of Kelvin and Voigt, C = damping K."""
    if kind in ("linear", "quadratic"):
        points = np.random.default_rng(1).normal(size=(14, 3))
        energy = ShapeMatchingEnergy(
            points, 1.0, 500.0, blend=0.6, quadratic=kind == "quadratic", damping=0.3
        )
    else:
        points, _, energy = made(kind, 500.0, 0.3)
    stiffness = energy.hessian(points).toarray()
    for project in (False, True):
        damping = energy.dissipation(40.0, points).hessian(points, project=project).toarray()
        assert_allclose(damping, 40.0 * 0.3 * stiffness, atol=1e-11 * np.abs(damping).max())


def swing(omega, ratio, t):
    """An oscillator that begins at 1 and at rest, after t; the ratio is that to critical damping."""
    root = np.emath.sqrt(ratio**2 - 1)
    if abs(root) < 1e-9:
        return (1 + omega * t) * np.exp(-omega * t)
    slow, fast = omega * (ratio - root), omega * (ratio + root)
    return np.real((fast * np.exp(-slow * t) - slow * np.exp(-fast * t)) / (fast - slow))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ratio", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("kind", PROPORTIONAL)
def test_a_mode_swings_out_as_its_closed_form_says(kind, ratio, method):
    """A mode of vibration of frequency omega is damped by the ratio damping omega / 2 of the critical."""
    points, mass, energy = made(kind, 1e4, 0.0)
    weights = np.repeat(mass, 3)
    values, vectors = eigh(energy.hessian(points).toarray(), np.diag(weights))
    which = int(np.argmax(values > 1e-6 * values[-1]))
    omega, mode = np.sqrt(values[which]), vectors[:, which].reshape(-1, 3)
    mode = 1e-4 * mode / np.abs(mode).max()  # so small that all is linear, and above rounding
    _, _, energy = made(kind, 1e4, 2 * ratio / omega)
    duration = 3.0 / omega
    errors = []
    for steps in (40, 80):
        body = ElasticBody(points + mode, mass, [energy], name="body")
        solver = ImplicitSolver([body], gravity=(0, 0, 0), method=method, tolerance=1e-9 * omega)
        state = solver.start()
        for _ in range(steps):
            state = solver.step(state, duration / steps)
        share = np.sum(weights.reshape(-1, 3) * mode * (state.positions - points))
        share /= np.sum(weights.reshape(-1, 3) * mode**2)
        errors.append(abs(share - swing(omega, ratio, duration)))
    assert errors[-1] < {"euler": 0.05, "bdf2": 0.003}[method]
    assert np.log2(errors[0] / errors[1]) > ORDERS[method] - 0.3, errors


@pytest.mark.parametrize("method", METHODS)
def test_goo_creeps_to_where_its_weight_takes_it(method):
    """So much damping that inertia does not count: every point is 1 - exp(-t / damping) of the way down."""
    points, tets = tet_box((0.2, 0.6, 0.2), (1, 3, 1))
    damping = 2.0
    energy = FleshEnergy(points, tets, young=1e6, poisson=0.3, damping=damping)
    mass = energy.mass(1000.0)
    pinned = points[:, 1] > points[:, 1].max() - 1e-9
    still = ElasticBody(points, mass, [FleshEnergy(points, tets, young=1e6, poisson=0.3)], pinned=pinned)
    solver = ImplicitSolver([still], method="euler")
    state = solver.start()
    for _ in range(60):
        state = solver.step(state, 0.2)
    sag = state.positions - points
    assert 1e-3 < -sag[:, 1].min() < 3e-3  # small enough to be linear but for half a percent
    errors = []
    for steps in (10, 20):
        solver = ImplicitSolver(
            [ElasticBody(points, mass, [energy], pinned=pinned)], method=method, tolerance=1e-9
        )
        state = solver.start()
        for _ in range(steps):
            state = solver.step(state, damping / steps)
        share = np.sum(sag * (state.positions - points)) / np.sum(sag**2)
        errors.append(abs(share - (1 - np.exp(-1.0))))
    # What is left of BDF2's error at 20 steps is the strain's, not the step's.
    assert errors[0] < {"euler": 0.021, "bdf2": 0.005}[method]
    assert errors[1] < {"euler": 0.011, "bdf2": 0.004}[method]


def test_drag_slows_what_moves_as_a_whole():
    """Of shape matching alone: the speed of a free body falls as exp(-drag t)."""
    energy = ShapeMatchingEnergy(CUBE, 1.0, 1e4, drag=0.8)
    run = Run((CUBE, np.ones(8), energy), "bdf2", 0.01, 100, np.full((8, 3), 2.0))
    assert_allclose(run.states[-1].velocities, 2.0 * np.exp(-0.8), rtol=1e-4)
