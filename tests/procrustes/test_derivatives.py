"""Derivatives of the fit: against differences in 60 digits, their adjoints, and each other."""

import numpy as np
import pytest
from oracle import exact_derivatives

import pointglue as pg


def configurations(d, rng):
    """Named (rest, points, weights); the gap of each is above 0.05."""
    n = 6
    rest, w = rng.standard_normal((n, d)), rng.random(n) + 0.1
    flat = rest * ([1] * (d - 1) + [0])
    cases = {
        "deformed": (rest, rest + 0.4 * rng.standard_normal((n, d)), w),
        "at rest": (rest, rest.copy(), w),
        "far from rest": (rest, rng.standard_normal((n, d)), w),
        "rest off the origin": (rest + 5.0, rest + 0.4 * rng.standard_normal((n, d)) - 3.0, w),
        "mirrored": (rest, rest * ([1] * (d - 1) + [-0.4]), w),
        "one weight zero": (rest, rng.standard_normal((n, d)), w * (np.arange(n) != 2)),
    }
    if d == 3:
        cross = np.concatenate([np.eye(3), -np.eye(3)])
        cases["coplanar"] = (flat, rng.standard_normal((n, d)), w)
        cases["coplanar at rest"] = (flat, flat.copy(), w)
        cases["repeated singular values"] = (cross, cross.copy(), np.ones(n))
        cases["three points"] = (rest[:3], rng.standard_normal((3, d)), w[:3])
    return cases


NAMES = [(d, name) for d in (2, 3) for name in configurations(d, np.random.default_rng(0))]


@pytest.fixture(params=NAMES, ids=lambda case: f"{case[0]}D {case[1]}")
def case(request, rng):
    d, name = request.param
    rest, points, w = configurations(d, rng)[name]
    fit = pg.fit_rigid(rest, points, w)
    assert fit.gap > 0.05
    return rest, points, w, fit


def test_first_and_second_derivative_against_60_digits(case, rng):
    rest, points, w, fit = case
    d1, d2 = rng.standard_normal(points.shape), rng.standard_normal(points.shape)
    first, second = exact_derivatives(rest, points, w, d1, d2)
    for got, expected in zip(fit.jvp(d1), first, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-12 * max(1, np.abs(expected).max()))
    for got, expected in zip(fit.second(d1, d2), second, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-11 * max(1, np.abs(expected).max()))


def test_jvp_and_vjp_are_adjoint(case, rng):
    _, points, _, fit = case
    for _ in range(5):
        rates = rng.standard_normal(points.shape)
        gR, gt = rng.standard_normal(fit.rotation.shape), rng.standard_normal(fit.translation.shape)
        dR, dt = fit.jvp(rates)
        right = (gR * dR).sum() + (gt * dt).sum()
        assert abs((fit.vjp(gR, gt) * rates).sum() - right) < 1e-11 * max(1, abs(right))


def test_jacobian_is_the_jvp_of_apply(case, rng):
    rest, points, _, fit = case
    p = np.concatenate([rest[:2], 10 * rng.standard_normal((2, rest.shape[1]))])
    rates = rng.standard_normal(points.shape)
    dR, dt = fit.jvp(rates)
    got = np.einsum("mnij,nj->mi", fit.jacobian(p), rates)
    np.testing.assert_allclose(got, p @ dR.T + dt, atol=1e-12 * np.abs(got).max())
    np.testing.assert_array_equal(fit.jacobian(p[2]), fit.jacobian(p)[2])


def test_apply_vjp_is_the_transposed_jacobian(case, rng):
    _, points, _, fit = case
    d = points.shape[1]
    p, g = rng.standard_normal((4, d)), rng.standard_normal((4, d))
    expected = np.einsum("mnij,mi->nj", fit.jacobian(p), g)
    np.testing.assert_allclose(fit.apply_vjp(p, g), expected, atol=1e-12 * np.abs(expected).max())
    # One force for several points, and one point with several forces.
    shared = np.einsum("mnij,i->nj", fit.jacobian(p), g[0])
    np.testing.assert_allclose(fit.apply_vjp(p, g[0]), shared, atol=1e-12 * np.abs(shared).max())
    several = np.einsum("nij,mi->nj", fit.jacobian(p[0]), g)
    np.testing.assert_allclose(fit.apply_vjp(p[0], g), several, atol=1e-12 * np.abs(several).max())
    with pytest.raises(pg.errors.InputError, match="g must have as many rows as p, 4, got 3"):
        fit.apply_vjp(p, g[:3])


def test_second_derivative_is_symmetric(case, rng):
    _, points, _, fit = case
    d1, d2 = rng.standard_normal(points.shape), rng.standard_normal(points.shape)
    for a, b in zip(fit.second(d1, d2), fit.second(d2, d1), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12 * max(1, np.abs(a).max()))


def test_hessian_contracts_the_second_derivative(case, rng):
    rest, points, _, fit = case
    p, g = rng.standard_normal((3, rest.shape[1])), rng.standard_normal((3, rest.shape[1]))
    d1, d2 = rng.standard_normal(points.shape), rng.standard_normal(points.shape)
    H = fit.hessian(p, g)
    ddR, ddt = fit.second(d1, d2)
    expected = (g * (p @ ddR.T + ddt)).sum()
    scale = np.abs(H).max()
    assert abs(np.einsum("ijkl,ik,jl->", H, d1, d2) - expected) < 1e-11 * scale
    np.testing.assert_allclose(H, H.transpose(1, 0, 3, 2), atol=1e-13 * scale)
    product = np.einsum("ijkl,jl->ik", H, d1)
    np.testing.assert_allclose(fit.hessian_product(p, g, d1), product, atol=1e-12 * scale)


def test_rotation_rate_is_a_spin(case, rng):
    _, points, _, fit = case
    dR, _ = fit.jvp(rng.standard_normal(points.shape))
    spin = fit.rotation.T @ dR
    np.testing.assert_allclose(spin, -spin.T, atol=1e-13 * max(1, np.abs(spin).max()))


def test_rigid_motion_gives_its_own_spin(case, rng):
    """Points that turn rigidly about any centre turn the fit at the same rate, deformed or not."""
    _, points, _, fit = case
    d = points.shape[1]
    spin = rng.standard_normal((d, d))
    spin -= spin.T
    rates = points @ spin.T + rng.standard_normal(d)
    np.testing.assert_allclose(fit.jvp(rates)[0], spin @ fit.rotation, atol=1e-12 * np.abs(spin).max())


def test_translation_moves_everything_alike(case):
    rest, _, _, fit = case
    d = rest.shape[1]
    total = fit.jacobian(rest[0] + 2.0).sum(0)
    np.testing.assert_allclose(total, np.eye(d), atol=1e-12)


def test_against_richardson_differences_of_the_package(case, rng):
    """The fit and its derivative belong together: extrapolated central differences of fit_rigid itself."""
    rest, points, w, fit = case
    rates = rng.standard_normal(points.shape)

    def central(h):
        plus, minus = (pg.fit_rigid(rest, points + s * h * rates, w).rotation for s in (1, -1))
        return (plus - minus) / (2 * h)

    h = 1e-3
    estimate = (4 * central(h / 2) - central(h)) / 3
    # The error of the extrapolation is h^4 times the fifth derivative, which grows as gap^-5.
    assert np.abs(estimate - fit.jvp(rates)[0]).max() < 1e-9 * max(1, fit.gap.item() ** -5)


def test_ill_conditioned_derivatives_keep_their_digits(rng):
    """Relative error about eps / gap down the whole range, through the robust path too."""
    for exponent in range(-7, 0):
        gap = 10.0**exponent
        rest = rng.standard_normal((6, 3)) * [1, gap**0.5, gap**0.5]
        points = rest @ np.linalg.qr(rng.standard_normal((3, 3)))[0].T
        rates = rng.standard_normal(points.shape)
        fit = pg.fit_rigid(rest, points)
        (first, _), _ = exact_derivatives(rest, points, np.ones(6), rates, rates, h="1e-25")
        error = np.abs(fit.jvp(rates)[0] - first).max() / np.abs(first).max()
        assert error < 200 * np.finfo(float).eps / fit.gap
