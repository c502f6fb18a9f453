"""docs/explanation/errata.md, Hessian of Shape Matching: the printed form fails, the right form holds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracle import random_rotation

import pointglue as pg
from pointglue.elastic import ShapeMatchingEnergy

N = 5
ALPHA, BETA = 0.3, 0.7


def cross(a):
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])


def skew(A):
    return np.array([A[2, 1] - A[1, 2], A[0, 2] - A[2, 0], A[1, 0] - A[0, 1]]) / 2


def unit(i, j):
    step = np.zeros((N, 3))
    step[i, j] = 1
    return step


class Body:
    """A deformed cluster; its energy is proved in tests/elastic."""

    def __init__(self, rng, proportional=False, blend=0.0):
        self.mass = rng.uniform(1, 3, N)
        self.k = 10 * self.mass if proportional else rng.uniform(5, 50, N)
        rest = rng.normal(size=(N, 3))
        self.w = self.mass / self.mass.sum()
        self.q = rest - self.w @ rest
        self.x = (self.q + 0.3 * rng.normal(size=(N, 3))) @ random_rotation(rng).T
        self.v = rng.normal(size=(N, 3))
        self.energy = ShapeMatchingEnergy(self.q, self.mass, self.k, blend=blend, damping=ALPHA, drag=BETA)
        self.fit = pg.fit_rigid(self.q, self.x, self.mass)


@pytest.fixture
def body(rng):
    return Body(rng)


def moment(body, x):
    return np.einsum("i,ij,ik->jk", body.w, x - body.w @ x, body.q)


def spin(R, S, dA):
    """Equation 17."""
    return np.linalg.solve((np.trace(S) * np.eye(3) - S) @ R.T, 2 * skew(R.T @ dA))


def test_equations_13_and_14_omega_is_in_the_world_frame(body):
    R, A = body.fit.rotation, moment(body, body.x)
    dA = moment(body, body.v)
    omega = spin(R, R.T @ A, dA)
    dR = body.fit.jvp(body.v)[0]
    assert np.abs(R @ cross(omega) - dR).max() > 0.1 * np.abs(dR).max()
    assert_allclose(cross(omega) @ R, dR, atol=1e-12)


def test_equation_7_needs_the_rotation_not_the_polar_factor(body):
    """Mirrored, the polar factor is a reflection, and equation 20 gives minus its derivative."""
    x = body.x * [1, 1, -1]

    def polar(x):
        U, _, Vh = np.linalg.svd(moment(body, x))
        return U @ Vh

    Q, dA, h = polar(x), moment(body, body.v), 1e-5
    assert np.linalg.det(Q) < 0
    printed = cross(spin(Q, Q.T @ moment(body, x), dA)) @ Q
    dQ = (polar(x + h * body.v) - polar(x - h * body.v)) / (2 * h)
    assert_allclose(-printed, dQ, atol=1e-7 * np.abs(dQ).max())
    fit = pg.fit_rigid(body.q, x, body.mass)
    right = cross(spin(fit.rotation, fit.rotation.T @ moment(body, x), dA)) @ fit.rotation
    assert_allclose(right, fit.jvp(body.v)[0], atol=1e-11)


def test_equation_18_needs_rest_coordinates_centred_by_mass(body):
    for q, holds in ((body.q, True), (body.q - body.q.mean(0), False)):
        step = unit(2, 1)
        exact = np.einsum("i,ij,ik->jk", body.w, step - body.w @ step, q)
        printed = body.w[2] * np.outer([0, 1, 0], q[2])
        assert (np.abs(exact - printed).max() < 1e-15) == holds
        with_equation_11 = body.w[2] * np.outer([0, 1, 0], q[2] - body.w @ q)
        assert_allclose(exact, with_equation_11, atol=1e-15)


@pytest.mark.parametrize(
    ("proportional", "blend", "exact"),
    [(True, 0.0, True), (True, 1.0, True), (True, 0.5, False), (False, 0.0, False), (False, 1.0, False)],
)
def test_the_short_gradient_is_a_special_case(rng, proportional, blend, exact):
    """k d is the gradient only where stiffness goes with mass and the blend is 0 or 1."""
    body = Body(rng, proportional, blend)
    y = body.x - body.w @ body.x
    A = np.linalg.solve(np.einsum("i,ij,ik->jk", body.w, body.q, body.q), moment(body, body.x).T).T
    d = y - body.q @ (blend * A + (1 - blend) * body.fit.rotation).T
    difference = np.abs(body.k[:, None] * d - body.energy.gradient(body.x)).max()
    assert (difference < 1e-12) if exact else (difference > 1e-2)


def test_equations_32_and_35_contract_the_other_index(body):
    fit, k, q, v = body.fit, body.k, body.q, body.v
    J = np.zeros((N, 3, N, 3))  # d d_r / d x_i
    for i in range(N):
        for j in range(3):
            step = unit(i, j)
            J[:, :, i, j] = step - body.w @ step - q @ fit.jvp(step)[0].T
    rates = np.einsum("raib,ib->ra", J, v)
    second = np.zeros((N, 3, N, 3, 3, 3))
    for i, s, j, b in np.ndindex(N, 3, N, 3):
        second[i, s, j, b] = fit.second(unit(i, s), unit(j, b))[0]
    bent = np.einsum("lsjbac,rc->ralsjb", second, q)  # d2 (R q_r)_a / dx_ls dx_jb
    first = -ALPHA * np.einsum("r,ralsjb,ra->jbls", k, bent, rates)
    turned = np.einsum("ralsjb,jb->rals", bent, v)
    right = first - ALPHA * np.einsum("r,raib,rals->ibls", k, J, turned)
    printed = first - ALPHA * np.einsum("r,raib,rals->ibls", k, J, np.einsum("rblsja,jb->rals", bent, v))
    found = body.energy.rate_hessians(body.x, v)[0].toarray().reshape(N, 3, N, 3)
    assert_allclose(right, found, atol=1e-11 * np.abs(found).max())
    assert np.linalg.norm(printed - found) > 0.3 * np.linalg.norm(found)
    matrix = found.reshape(3 * N, 3 * N)
    assert np.linalg.norm(matrix - matrix.T) > 0.1 * np.linalg.norm(matrix)


def test_equation_33_has_mass_on_the_diagonal_only(body):
    with_mass = body.energy.rate_hessians(body.x, body.v)[1].toarray()
    without = ShapeMatchingEnergy(body.q, body.mass, body.k, damping=ALPHA)
    difference = with_mass - without.rate_hessians(body.x, body.v)[1].toarray()
    printed = np.kron(np.repeat(BETA * body.mass[:, None], N, axis=1), np.eye(3))
    assert np.abs(difference - printed).max() > 0.1
    assert_allclose(difference, np.diag(np.repeat(BETA * body.mass, 3)), atol=1e-12)


def test_damping_slows_the_spin_of_a_deformed_body(body):
    """The damping by alpha keeps linear momentum, and takes angular momentum unless undeformed."""
    energy = ShapeMatchingEnergy(body.q, body.mass, body.k, damping=ALPHA)
    for x, kept in ((body.q, True), (body.x, False)):
        force = energy.rate_gradient(x, np.cross([0.5, -1.0, 2.0], x))
        assert_allclose(force.sum(0), 0, atol=1e-12)
        assert (np.abs(np.cross(x, force).sum(0)).max() < 1e-12) == kept


def test_the_hessian_is_indefinite_away_from_rest(body):
    squeezed = 0.4 * body.q
    assert np.linalg.eigvalsh(body.energy.hessian(body.q).toarray())[0] > -1e-12
    assert np.linalg.eigvalsh(body.energy.hessian(squeezed).toarray())[0] < -1
    for H in (body.energy.hessian(squeezed, project=True), body.energy.gauss_newton(squeezed)):
        assert np.linalg.eigvalsh(H.toarray())[0] > -1e-12
