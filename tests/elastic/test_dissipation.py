"""The potentials of viscous damping: derivatives, independent formulas, and what they leave alone."""

from itertools import product

import numpy as np
import pytest
from checking import check_derivatives, check_dissipation, check_hessians, check_threads, torque
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from pointglue.elastic import (
    ClothEnergy,
    ElasticBody,
    Elements,
    FleshEnergy,
    ImplicitSolver,
    ShapeMatchingEnergy,
    SpringEnergy,
    TargetEnergy,
)
from pointglue.elastic.energies.kernels.viscous import ViscousElements
from pointglue.elastic.energies.viscous import ViscousDissipation, viscous_elements
from pointglue.errors import InputError
from pointglue.geometry.shapes import box
from pointglue.geometry.simplices import tet_box

X, TETS = tet_box((1.0, 0.8, 0.6), (2, 2, 2))
SHELL, FACES = box((1.0, 1.0, 1.0), (2, 2, 2))
MODES = [(0.0, False), (0.3, False), (0.3, True), (0.95, False), (1.0, False), (1.0, True)]
SLOPE, B = 30.0, 0.4


def springs(rng, d=3):
    rest = rng.normal(size=(12, d))
    edges = np.array([rng.choice(12, 2, replace=False) for _ in range(25)])
    return SpringEnergy(rest, edges, rng.uniform(10, 1000, 25), damping=rng.uniform(0, 2, 25)), rest


def clusters(rng, d=3, blend=0.0, quadratic=False, proportional=False, **options):
    rest, mass = rng.normal(size=(20, d)), rng.uniform(1, 3, 20)
    stiffness = 400 * mass if proportional else rng.uniform(100, 3000, 20)
    parts = [np.arange(12), np.arange(7, 20), np.arange(19, -1, -1)]
    kind = {"clusters": parts, "blend": blend, "quadratic": quadratic}
    return ShapeMatchingEnergy(rest, mass, stiffness, **kind, **options), rest


def flesh(rng):
    young, damping = rng.uniform(1e4, 3e4, len(TETS)), rng.uniform(0, 2, len(TETS))
    return FleshEnergy(X, TETS, young=young, poisson=0.35, damping=damping), X


def cloth(rng):
    # Cloth beyond its limit is damped as below it.
    damping = rng.uniform(0, 2, len(FACES))
    return ClothEnergy(SHELL, FACES, stretch=300.0, bend=5.0, limit=1.05, damping=damping), SHELL


@pytest.mark.parametrize("d", [2, 3])
def test_springs(rng, d):
    energy, rest = springs(rng, d)
    check_dissipation(energy, rest, amount=0.02, step=1e-4)


@pytest.mark.parametrize("d", [2, 3])
def test_targets(rng, d):
    x, targets = rng.normal(size=(6, d)), rng.normal(size=(3, d))
    energy = TargetEnergy(6, [4, 0, 2], targets, [5.0, 10.0, 20.0], damping=[0.3, 0.0, 2.0])
    check_dissipation(energy, x, amount=0.2, rigid=False)
    # Targets that move, with whatever stands or moves as they do: the force is c (v - velocity).
    velocities = rng.normal(size=(3, d))
    moving = energy.towards(targets, velocities).dissipation(SLOPE, x)
    expected = np.zeros((6, d))
    expected[[4, 0, 2]] = -np.array([[1.5], [0.0], [40.0]]) * velocities
    assert_allclose(moving.gradient(x), expected, rtol=1e-11, atol=1e-12)
    carried = x.copy()
    carried[[4, 0, 2]] += velocities / SLOPE
    assert_allclose(moving.gradient(carried), 0, atol=1e-12)
    assert not energy.towards(targets + 1).velocities.any()
    assert not TargetEnergy(6, [4], targets[:1], 5.0).damped


def drawn(method, dt, *, mass=2.0, k=50.0, damping=0.08, end=1.0):
    """The way of a damped point from 1 m beside its target, at rest at the start [m]."""
    pin = TargetEnergy(1, [0], np.zeros((1, 3)), k, damping=damping)
    body = ElasticBody([[1.0, 0.0, 0.0]], [mass], [pin])
    solver = ImplicitSolver([body], gravity=(0, 0, 0), method=method)
    state, way = solver.start(), []
    for _ in range(round(end / dt)):
        state = solver.step(state, dt)
        way.append(state.positions[0, 0])
    return np.array(way)


def test_a_damped_point_swings_as_the_closed_form_says():
    """Frequency 5 rad/s, 0.2 of the critical damping: e^(-t) (cos w t + sin w t / w), w^2 = 24 /s^2."""
    w = np.sqrt(24.0)
    errors = {}
    for method in ("euler", "bdf2"):
        errors[method] = []
        for dt in (0.02, 0.01, 0.005):
            t = dt * np.arange(1, round(1 / dt) + 1)
            exact = np.exp(-t) * (np.cos(w * t) + np.sin(w * t) / w)
            errors[method].append(np.abs(drawn(method, dt) - exact).max())
    assert errors["bdf2"][-1] < 2e-3
    for method, order in (("euler", 1), ("bdf2", 2)):
        orders = np.log2(np.divide(errors[method][:-1], errors[method][1:]))
        assert_allclose(orders, order, atol=0.25)


def test_a_step_of_euler_with_a_damped_point_is_exact():
    """The step is linear: (m + h c + h^2 k) x1 = (m + h c) x0 + h m v0."""
    m, k, c, h = 2.0, 50.0, 4.0, 0.1
    expected, x, v = [], 1.0, 0.0
    for _ in range(10):
        x, before = ((m + h * c) * x + h * m * v) / (m + h * c + h * h * k), x
        v = (x - before) / h
        expected.append(x)
    assert_allclose(drawn("euler", h), expected, atol=1e-13)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_a_point_that_moves_with_its_target_is_not_damped(method):
    start, velocity = np.zeros((1, 3)), np.array([[1.0, 0.5, 0.0]])
    pin = TargetEnergy(1, [0], start, 1e4, damping=1.0)
    body = ElasticBody(
        start, [1.0], [lambda time: pin.towards(time * velocity, velocity)], velocities=velocity[0]
    )
    solver = ImplicitSolver([body], gravity=(0, 0, 0), method=method)
    state = solver.start()
    for k in range(1, 7):
        state = solver.step(state, 1 / 24)
        assert_allclose(state.positions, k / 24 * velocity, atol=1e-13)


@pytest.mark.parametrize("proportional", [True, False])
@pytest.mark.parametrize(("blend", "quadratic"), MODES)
@pytest.mark.parametrize("d", [2, 3])
def test_shape_matching(rng, d, blend, quadratic, proportional):
    energy, rest = clusters(rng, d, blend, quadratic, proportional, damping=0.2)
    x = rest + 0.2 * rng.normal(size=rest.shape)
    check_dissipation(energy, x, amount=0.04)


@pytest.mark.parametrize("damping", [0.0, 0.2])
@pytest.mark.parametrize("d", [2, 3])
def test_shape_matching_with_drag(rng, d, damping):
    energy, rest = clusters(rng, d, 0.3, damping=damping, drag=0.7)
    x = rest + 0.2 * rng.normal(size=rest.shape)
    check_dissipation(energy, x, amount=0.04, rigid=False)
    only = clusters(np.random.default_rng(3), d, drag=0.7)[0]
    expected = 0.7 * SLOPE * only.mass[:, None] * 0.25 * np.ones(d)
    assert_allclose(only.dissipation(SLOPE, rest - 0.25).gradient(rest), expected, rtol=1e-12)
    # A body that has moved by 0.25 in the step before, and again: that is slope (1 - b) 0.25.
    steady = only.dissipation(SLOPE, rest - 0.25, rest - 0.5, B)
    assert_allclose(steady.gradient(rest), (1 - B) * expected, rtol=1e-12)


@pytest.mark.parametrize("amount", [0.02, 0.4])
def test_flesh(rng, amount):
    energy, rest = flesh(rng)
    check_dissipation(energy, rest + amount * rng.normal(size=rest.shape), amount=amount)


@pytest.mark.parametrize("amount", [0.02, 0.1])
def test_cloth(rng, amount):
    energy, rest = cloth(rng)
    check_dissipation(energy, rest + 0.02 * rng.normal(size=rest.shape), amount=amount, step=1e-4)


def reference(strains, x, past):
    return strains(x) + B * (strains(x) - strains(past))


def test_spring_values_by_their_formula(rng):
    energy, rest = springs(rng)
    y, x, past = (rest + 0.1 * rng.normal(size=rest.shape) for _ in range(3))

    def lengths(p):
        return np.linalg.norm(p[energy.edges[:, 0]] - p[energy.edges[:, 1]], axis=1)

    rate = SLOPE * (lengths(y) - reference(lengths, x, past))
    expected = np.sum(energy.damping * energy.stiffness * rate**2) / (2 * SLOPE)
    assert energy.dissipation(SLOPE, x, past, B).value(y) == pytest.approx(expected, rel=1e-12)


def test_shape_matching_values_by_their_formula(rng):
    energy, rest = clusters(rng, blend=0.4, damping=0.2)
    y, x, past = (rest + 0.2 * rng.normal(size=rest.shape) for _ in range(3))
    mass, k = energy.mass, energy.stiffness

    def strains(p):
        rows = []
        for cluster in (np.arange(12), np.arange(7, 20), np.arange(19, -1, -1)):
            w = mass[cluster] / mass[cluster].sum()
            now, then = p[cluster] - w @ p[cluster], rest[cluster] - w @ rest[cluster]
            A = (w * now.T) @ then
            U, _, Vt = np.linalg.svd(A)
            R = U @ np.diag([1, 1, np.linalg.det(U @ Vt)]) @ Vt
            linear = A @ np.linalg.inv((w * then.T) @ then)
            d = now - then @ (0.4 * linear + 0.6 * R).T
            rows.append(np.sqrt(k[cluster])[:, None] * (d @ R))
        return np.concatenate(rows)

    rate = SLOPE * (strains(y) - reference(strains, x, past))
    expected = 0.2 * np.sum(rate**2) / (2 * SLOPE)
    assert energy.dissipation(SLOPE, x, past, B).value(y) == pytest.approx(expected, rel=1e-11)


def green(p, corners, rest):
    """Green's strain of simplices, whose rest (N, m + 1, m) is flat."""
    edges = np.swapaxes(rest[:, 1:] - rest[:, :1], 1, 2)
    F = np.swapaxes(p[corners[:, 1:]] - p[corners[:, :1]], 1, 2) @ np.linalg.inv(edges)
    return (np.swapaxes(F, 1, 2) @ F - np.eye(rest.shape[2])) / 2


def viscous(rate, mu, lam, size):
    return np.sum(size * (mu * (rate**2).sum((1, 2)) + lam / 2 * np.trace(rate, axis1=1, axis2=2) ** 2))


def test_flesh_values_by_their_formula(rng):
    energy = FleshEnergy(X, TETS, young=2e4, poisson=0.35, damping=0.3)
    y, x, past = (X + 0.2 * rng.normal(size=X.shape) for _ in range(3))
    mu, lam = 2e4 / (2 * 1.35), 2e4 * 0.35 / (1.35 * 0.3)
    rate = green(y, TETS, X[TETS]) - reference(lambda p: green(p, TETS, X[TETS]), x, past)
    expected = 0.3 * SLOPE * viscous(rate, mu, lam, energy.volumes)
    assert energy.dissipation(SLOPE, x, past, B).value(y) == pytest.approx(expected, rel=1e-12)


def test_cloth_values_by_their_formula(rng):
    flat = rng.normal(size=(4, 2)) + [[0, 3], [0, 0], [3, 0], [1, -3]]
    faces = np.array([[0, 1, 2], [3, 2, 1]])
    energy = ClothEnergy(flat, faces, stretch=300.0, poisson=0.2, bend=2.0, damping=0.3)
    space = np.column_stack([flat, np.zeros(4)])
    y, x, past = (space + 0.3 * rng.normal(size=space.shape) for _ in range(3))
    mu, lam = 300 / 2.4, 300 * 0.2 / 0.96
    rate = green(y, faces, flat[faces]) - reference(lambda p: green(p, faces, flat[faces]), x, past)

    def angle(p):
        first = np.cross(p[1] - p[0], p[2] - p[0])
        second = np.cross(p[2] - p[3], p[1] - p[3])
        axis = (p[2] - p[1]) / np.linalg.norm(p[2] - p[1])
        return np.arctan2(np.cross(first, second) @ axis, first @ second)

    bent = angle(y) - reference(angle, x, past)
    k = 2.0 * np.sum((flat[2] - flat[1]) ** 2) / energy.areas.sum()
    expected = 0.3 * SLOPE * (viscous(rate, mu, lam, energy.areas) + k / 2 * bent**2)
    assert energy.dissipation(SLOPE, x, past, B).value(y) == pytest.approx(expected, rel=1e-12)


class Bricks(Elements):
    """Trilinear hexahedra of eight integration points, which have viscous damping and nothing else."""

    damped = True

    def __init__(self, points, hexes):
        super().__init__(hexes, len(points))
        ends = np.array(list(product((0.0, 1.0), repeat=3)))
        gauss = 0.5 + (ends - 0.5) / np.sqrt(3)
        # The weight of a corner is the product of t or 1 - t over the axes.
        factors = np.where(ends[None] > 0, gauss[:, None], 1 - gauss[:, None])
        slopes = np.stack([
            np.where(ends[:, axis] > 0, 1, -1) * np.prod(np.delete(factors, axis, axis=2), axis=2)
            for axis in range(3)
        ], axis=2)  # fmt: skip
        jacobians = np.einsum("eca,qcb->eqab", points[hexes], slopes)
        gradients = np.einsum("qcb,eqba->eqca", slopes, np.linalg.inv(jacobians))
        weight = np.linalg.det(jacobians) / 8
        moduli = np.random.default_rng(2).uniform(1, 9, (2, *weight.shape))
        self.bricks = ViscousElements(np.asarray(hexes), gradients, weight, *moduli, np.empty(0))

    def dissipation(self, slope, x, past=None, extrapolation=0.0):
        return ViscousDissipation(self, viscous_elements(self.bricks, slope, x, past, extrapolation))

    def _values(self, x, out): ...
    def _gradients(self, x, out): ...
    def _hessians(self, x, project, out): ...


def test_elements_of_several_integration_points(rng):
    points = np.array(list(product((0.0, 1.0, 2.2), (0.0, 1.0), (0.0, 0.8))))
    points = points + 0.05 * rng.normal(size=points.shape)
    hexes = np.array([np.arange(8), np.arange(4, 12)])
    bricks = Bricks(points, hexes)
    assert bricks.bricks.weight.sum() == pytest.approx(2.2 * 0.8, rel=0.2)
    check_dissipation(bricks, points + 0.1 * rng.normal(size=points.shape), amount=0.05)


def test_an_angle_that_passes_half_a_turn_is_damped_by_the_short_way():
    """A flap that is folded right over and goes on: its angle jumps from pi to -pi."""
    flat = np.array([[0.5, 1.0], [0, 0], [1, 0], [0.5, -1.0]])
    energy = ClothEnergy(flat, [[0, 1, 2], [3, 2, 1]], stretch=1e-9, bend=2.0, damping=0.3)

    def folded(angle):
        points = np.column_stack([flat, np.zeros(4)])
        points[0, 1:] = np.cos(angle), np.sin(angle)
        return points

    def turned(now, before, past):
        return energy.dissipation(SLOPE, folded(before), folded(past), B).value(folded(now))

    plain = turned(0.4, 0.3, 0.1)
    assert plain > 1e-3
    for shift in (np.pi - 0.35, np.pi - 0.2):  # either the last angle jumps, or that before
        assert turned(0.4 + shift, 0.3 + shift, 0.1 + shift) == pytest.approx(plain, rel=1e-9)


@pytest.mark.parametrize("make", [springs, flesh, cloth])
def test_projected_hessians_without_stress_are_exact(rng, make):
    energy, rest = make(rng)
    damping = energy.dissipation(SLOPE, rest)
    exact = damping.elements(rest)
    assert_allclose(damping.elements(rest, project=True), exact, rtol=0, atol=1e-12 * np.abs(exact).max())


def test_collapsed_bodies_are_finite(rng):
    energies = [*(make(rng)[0] for make in (springs, flesh, cloth)), clusters(rng, blend=0.3, damping=0.2)[0]]
    for energy in energies:
        n = energy.count
        line = np.outer(np.linspace(0, 1, n), [1.0, 0.0, 0.0])
        for x in (np.zeros((n, 3)), line):
            for x0 in (np.zeros((n, 3)), line, rng.normal(size=(n, 3))):
                damping = energy.dissipation(SLOPE, x0, x, B)
                assert np.isfinite(damping.value(x))
                assert np.isfinite(damping.gradient(x)).all()
                for project in (False, True):
                    assert np.isfinite(damping.elements(x, project=project)).all()


def test_the_damping_of_a_mirrored_body_is_right(rng):
    energy, rest = clusters(rng, blend=0.3, damping=0.2)
    x = rest * [1, 1, -1] + 0.05 * rng.normal(size=rest.shape)
    damping = energy.dissipation(SLOPE, x + 0.05 * rng.normal(size=rest.shape))
    check_derivatives(damping, x)
    check_hessians(damping, x)


def test_threads():
    rng = np.random.default_rng(5)
    points = rng.normal(size=(400, 3))
    parts = [rng.choice(400, 12, replace=False) for _ in range(800)]
    many = ShapeMatchingEnergy(points, 1.0, 100.0, clusters=parts, blend=0.3, damping=0.1, drag=0.1)
    box_points, tets = tet_box((1.0, 1.0, 1.0), (8, 8, 8))
    sheet, faces = box((1.0, 1.0, 1.0), (20, 20, 20))
    for energy, rest in (
        (many, points),
        (FleshEnergy(box_points, tets, young=1e4, poisson=0.3, damping=0.1), box_points),
        (ClothEnergy(sheet, faces, stretch=10.0, bend=1.0, damping=0.1), sheet),
    ):
        x = rest + 0.01 * rng.normal(size=rest.shape)
        check_threads(energy.dissipation(SLOPE, rest, x, B), x)


def test_forces_have_neither_net_force_nor_torque(rng):
    """Also where the body has been deformed, and has changed its shape since."""
    for make in (springs, flesh, cloth, lambda rng: clusters(rng, blend=0.3, damping=0.2)):
        energy, rest = make(rng)
        turn = Rotation.random(rng=rng).as_matrix()
        x, x0 = rest @ turn.T + 0.2 * rng.normal(size=rest.shape), rest + 0.2 * rng.normal(size=rest.shape)
        force = energy.dissipation(SLOPE, x0).gradient(x)
        scale = np.abs(force).max() * len(x)
        assert_allclose(force.sum(0), 0, atol=1e-12 * scale)
        assert_allclose(torque(x, force), 0, atol=1e-11 * scale)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FleshEnergy(X, TETS, young=1.0, poisson=0.3, damping=-1.0), "at least 0 s, got -1"),
        (lambda: ClothEnergy(SHELL, FACES, stretch=1.0, damping=np.nan), "at least 0 s, got nan"),
        (lambda: SpringEnergy(X, [[0, 1]], 1.0, damping=-1.0), "finite and at least 0, got -1"),
        (lambda: TargetEnergy(9, [0], X[:1], 1.0, damping=-1.0), "finite and at least 0, got -1"),
    ],
)
def test_what_is_wrong_is_named(make, message):
    with pytest.raises(InputError, match=f"damping must be {message}"):
        make()
