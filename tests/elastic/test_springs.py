"""Springs, targets and constant forces."""

import numpy as np
import pytest
from checking import check_damping, check_energy, check_threads, points_of, torque
from numpy.testing import assert_allclose, assert_array_equal

from pointglue.elastic import Damped, ForceEnergy, SpringEnergy, TargetEnergy, gravity
from pointglue.errors import InputError


def net(rng, d, count=12, springs=25, **options):
    rest = rng.normal(size=(count, d))
    edges = np.array([rng.choice(count, 2, replace=False) for _ in range(springs)])
    return SpringEnergy(rest, edges, rng.uniform(10, 1000, springs), **options), rest


@pytest.mark.parametrize("d", [2, 3])
def test_springs_are_an_energy(rng, d):
    energy, rest = net(rng, d)
    x = rest + 0.1 * rng.normal(size=rest.shape)
    check_energy(energy, x, step=1e-4)  # short springs bend their energy much
    shortened = energy.elements(0.5 * rest, project=True)
    assert np.linalg.eigvalsh(energy.elements(0.5 * rest)).min() < -1
    assert np.linalg.eigvalsh(shortened).min() > -1e-9


@pytest.mark.parametrize("d", [2, 3])
def test_damped_springs(rng, d):
    energy, rest = net(rng, d, damping=0.01)
    x, v = rest + 0.1 * rng.normal(size=rest.shape), rng.normal(size=rest.shape)
    assert isinstance(energy, Damped)
    assert energy.damped
    check_damping(energy, x, v, step=1e-4)
    assert_allclose(torque(x, energy.rate_gradient(x, v)), 0, atol=1e-12)
    turning = np.stack([-x[:, 1], x[:, 0], 0 * x[:, 0]], axis=1)[:, :d]
    assert_allclose(energy.rate_gradient(x, turning + 1.0), 0, atol=1e-12)


def test_a_pulled_spring_has_the_energy_of_hookes_law():
    energy = SpringEnergy([[0, 0, 0], [2, 0, 0]], [[0, 1]], 50.0)
    x = np.array([[0, 0, 0], [0, 2.3, 0]])
    assert energy.value(x) == pytest.approx(0.5 * 50 * 0.3**2, rel=1e-14)
    assert_allclose(energy.gradient(x), [[0, -15, 0], [0, 15, 0]], atol=1e-13)
    across = 50 * (1 - 2 / 2.3)
    assert_allclose(np.diag(energy.hessian(x).toarray()), [across, 50, across] * 2, rtol=1e-14)


def test_a_spring_whose_ends_meet_pushes_them_apart():
    energy = SpringEnergy([[0, 0, 0], [1, 0, 0]], [[0, 1]], 10.0, damping=1.0)
    x = np.zeros((2, 3))
    assert_allclose(energy.gradient(x), [[-10, 0, 0], [10, 0, 0]])
    for project in (False, True):
        assert np.isfinite(energy.hessian(x, project=project).toarray()).all()
    for H in energy.rate_hessians(x, np.ones((2, 3))):
        assert np.isfinite(H.toarray()).all()


def test_a_spring_without_length_is_linear(rng):
    energy = SpringEnergy(rng.normal(size=(2, 3)), [[0, 1]], 10.0, rest_length=0.0)
    H = 10 * np.kron([[1, -1], [-1, 1]], np.eye(3))
    for x in (np.zeros((2, 3)), rng.normal(size=(2, 3))):
        assert_allclose(energy.hessian(x).toarray(), H, atol=1e-14)
        assert_allclose(energy.gradient(x).ravel(), H @ x.ravel(), atol=1e-13)


def test_many_springs_have_the_same_bits_for_any_number_of_threads(rng):
    rest = rng.normal(size=(20000, 3))
    energy = SpringEnergy(rest, rng.permuted(np.arange(20000)).reshape(-1, 2), 3.0)
    check_threads(energy, 1.1 * rest + 0.1 * rng.normal(size=rest.shape))


@pytest.mark.parametrize("d", [2, 3])
def test_targets_are_an_energy(rng, d):
    x, targets = rng.normal(size=(6, d)), rng.normal(size=(3, d))
    energy = TargetEnergy(6, [4, 0, 2], targets, [5.0, 10.0, 20.0])
    check_energy(energy, x, rigid=False)
    assert energy.gradient(x)[0] == pytest.approx(10 * (x[0] - targets[1]))
    assert_array_equal(np.concatenate(points_of(energy)), [4, 0, 2])
    moved = energy.towards(targets + 1)
    assert moved.gradient(x)[0] == pytest.approx(10 * (x[0] - targets[1] - 1))
    assert_array_equal(energy.targets, targets)


def test_constant_forces_are_an_energy(rng):
    forces, x = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    energy = ForceEnergy(forces)
    assert energy.value(x) == pytest.approx(-np.sum(forces * x))
    assert_array_equal(energy.gradient(x), -forces)
    assert not energy.hessian(x).toarray().any()


def test_weight_pulls_down():
    energy = gravity([1.0, 2.0])
    assert_allclose(energy.gradient(np.zeros((2, 3))), [[0, 9.81, 0], [0, 19.62, 0]])
    assert gravity([1.0], (0, -1)).forces.shape == (1, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: SpringEnergy(x, [0, 1], 1.0), r"edges must have shape \(E, 2\), got shape \(2,\)"),
        (lambda x: SpringEnergy(x, [[0, 4]], 1.0), r"stencils must name some of 4 points, got 4"),
        (lambda x: SpringEnergy(x, [[0, 1], [2, 2]], 1.0), r"edges must join two points each, got 2 twice"),
        (lambda x: SpringEnergy(x, [[0, 1]], -1.0), r"stiffness must be finite and at least 0, got -1"),
        (lambda x: SpringEnergy(x, [[0, 1]], np.nan), r"stiffness must be finite and at least 0, got nan"),
        (
            lambda x: SpringEnergy(x, [[0, 1]], [1.0, 2.0]),
            r"stiffness must be one number, or.*shape \(2,\)",
        ),
        (
            lambda x: SpringEnergy(x, [[0, 1]], 1.0, rest_length=-2.0),
            r"rest_length must be finite and at",
        ),
        (lambda x: SpringEnergy(x[0], [[0, 1]], 1.0), r"rest must have shape \(n, 3\) or \(n, 2\)"),
        (lambda x: TargetEnergy(4, [0, 1], x[:1], 1.0), r"one row for each of 2 points, got 1"),
        (lambda x: TargetEnergy(4, [9], x[:1], 1.0), r"stencils must name some of 4 points, got 9"),
        (lambda x: TargetEnergy(4, [0], x[:1], 1.0).towards(x), r"targets must have shape \(1, 3\), got"),
        (
            lambda x: TargetEnergy(4, [0], x[:1], 1.0).towards(x[:1], x[0]),
            r"velocities must have shape",
        ),
        (lambda x: ForceEnergy(x * np.inf), r"forces must be finite"),
        (lambda x: gravity([-1.0]), r"mass must not be negative, got -1 for point 0"),
        (lambda x: gravity([1.0], [1.0]), r"acceleration \(2,\) or \(3,\), got \(1,\) and \(1,\)"),
    ],
)
def test_what_is_wrong_is_named(make, message):
    with pytest.raises(InputError, match=message):
        make(np.arange(12.0).reshape(4, 3) + 1)
