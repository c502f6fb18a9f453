"""docs/explanation/errata.md, Point Cloud Glue: the printed form fails, the right form holds."""

import numpy as np
import pytest
from oracle import random_rotation

import pointglue as pg

N = 6


def cross(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


@pytest.fixture
def setup(rng):
    """A deformed configuration, its moment and Jacobian; the Jacobian is proved in test_derivatives."""
    rest, w = rng.standard_normal((N, 3)), rng.random(N)
    w /= w.sum()
    points = rest @ random_rotation(rng).T + 0.2 * rng.standard_normal((N, 3))
    fit = pg.fit_rigid(rest, points, w)
    v, x = rest - w @ rest, points - w @ points
    A = np.einsum("i,ij,ik->jk", w, x, v)
    return w, v, x, A, fit


def test_equation_7_is_the_inverse_rotation(setup):
    w, v, x, _, fit = setup
    printed = np.einsum("i,ij,ik->jk", w, v, x)
    U, _, Vt = np.linalg.svd(printed)
    R = U @ np.diag([1, 1, np.linalg.det(U @ Vt)]) @ Vt
    assert np.abs(R - fit.rotation).max() > 0.1
    np.testing.assert_allclose(R.T, fit.rotation, atol=1e-13)


def test_z_needs_sorted_singular_values():
    A = np.diag([0.2, 0.9, -1.0])  # a decomposition as two-sided Jacobi leaves it, unsorted
    U, V = np.diag([1, 1, -1]), np.eye(3)
    unsorted = U @ np.diag([1, 1, np.linalg.det(U @ V.T)]) @ V.T
    best = pg.special_procrustes(A)
    assert np.trace(unsorted.T @ A) < np.trace(best.T @ A) - 1
    np.testing.assert_allclose(best, np.diag([-1, 1, -1]), atol=1e-15)


def test_equations_19_and_20_rotation_part_is_not_u_skew_v(setup, rng):
    w, v, _, A, fit = setup
    v_b = rng.standard_normal(3)
    J = fit.jacobian(fit.rest.arrays.centroids[0] + v_b)
    U, _, Vt = np.linalg.svd(A)
    S = fit.rotation.T @ A
    G = np.linalg.inv(np.trace(S) * np.eye(3) - S)
    for i in range(N):
        rotation_part = J[i] - w[i] * np.eye(3)
        inside = U.T @ rotation_part @ Vt.T
        symmetric, skew = np.linalg.norm(inside + inside.T), np.linalg.norm(inside - inside.T)
        assert symmetric > 0.2 * skew
        right = -w[i] * fit.rotation @ cross(v_b) @ G @ cross(v[i]) @ fit.rotation.T
        np.testing.assert_allclose(rotation_part, right, atol=1e-13)


def test_equation_21_at_rest(rng):
    rest = np.sqrt(3) * np.concatenate([np.eye(3), -np.eye(3)])  # its moment is the identity
    v_b = rng.standard_normal(3)
    fit = pg.fit_rigid(rest, rest)
    np.testing.assert_allclose(fit.stretch, np.eye(3), atol=1e-15)
    for i, J in enumerate(fit.jacobian(v_b)):
        rotation_part = J - np.eye(3) / N
        printed = cross(np.cross(rest[i], v_b))
        assert np.linalg.norm(rotation_part - printed) > 0.5 * np.linalg.norm(printed)
        np.testing.assert_allclose(rotation_part, -cross(v_b) @ cross(rest[i]) / (2 * N), atol=1e-15)


def test_forces_at_rest(rng):
    rest, w = rng.standard_normal((N, 3)), rng.random(N)
    w /= w.sum()
    v = rest - w @ rest
    A0 = np.einsum("i,ij,ik->jk", w, v, v)
    I0 = np.trace(A0) * np.eye(3) - A0
    v_b, f_b = rng.standard_normal(3), rng.standard_normal(3)
    forces = np.einsum("nij,i->nj", pg.fit_rigid(rest, rest, w).jacobian(w @ rest + v_b), f_b)
    torque = np.cross(v_b, f_b)
    printed = w[:, None] * f_b + np.cross(v, torque)
    right = w[:, None] * (f_b + np.cross(np.linalg.solve(I0, torque), v))
    assert np.abs(forces - printed).max() > 0.1
    np.testing.assert_allclose(forces, right, atol=1e-14)


@pytest.mark.parametrize("kind", ["at rest", "deformed", "coplanar", "mirrored"])
def test_confirmed_net_force_and_torque(kind, rng):
    rest, w = rng.standard_normal((N, 3)), rng.random(N)
    if kind == "coplanar":
        rest[:, 2] = 0.0
    points = {
        "at rest": rest,
        "deformed": rng.standard_normal((N, 3)),
        "coplanar": rng.standard_normal((N, 3)),
        "mirrored": rest * [1, 1, -0.5],
    }[kind]
    fit = pg.fit_rigid(rest, points, w)
    p, f = rng.standard_normal((4, 3)), rng.standard_normal((4, 3))
    forces = np.einsum("mnij,mi->nj", fit.jacobian(p), f)
    np.testing.assert_allclose(forces.sum(0), f.sum(0), atol=1e-12)
    np.testing.assert_allclose(
        np.cross(points, forces).sum(0), np.cross(fit.apply(p), f).sum(0), atol=1e-12 / min(1, fit.gap)
    )


def test_confirmed_bound_on_the_effective_mass(rng):
    rest, points, mass = rng.standard_normal((N, 3)), rng.standard_normal((N, 3)), rng.random(N) + 0.1
    J = pg.fit_rigid(rest, points).jacobian(rng.standard_normal(3))
    exact = np.linalg.norm(np.einsum("nij,nkj,n->ik", J, J, 1 / mass), 2)
    bound = (np.linalg.norm(J, 2, axis=(1, 2)) ** 2 / mass).sum()
    assert exact <= bound
    assert bound < 10 * exact  # and not an idle one


def test_confirmed_acceleration_needs_the_second_derivative(rng):
    """A bound point on a rigidly spinning body accelerates to the axis; J a alone misses it."""
    rest = rng.standard_normal((N, 3))
    omega, p = np.array([0.0, 0.0, 2.0]), np.array([1.0, 0.5, 0.3])
    v = np.cross(omega, rest)
    a = np.cross(omega, v)
    fit = pg.fit_rigid(rest, rest)
    without = np.einsum("nij,nj->i", fit.jacobian(p), a)
    ddR, ddt = fit.second(v, v)
    expected = np.cross(omega, np.cross(omega, p))
    np.testing.assert_allclose(without + ddR @ p + ddt, expected, atol=1e-12)
    assert np.abs(without - expected).max() > 0.1
