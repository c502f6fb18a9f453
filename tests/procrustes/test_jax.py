"""The JAX front: jit, vmap, grad, hessian; against JAX's numerical check and the NumPy path."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import pointglue as pg
from pointglue.errors import InputError
from pointglue.procrustes.jax import RigidFit, fit_rigid, special_procrustes

# The matrices in space have one shape, so that their derivatives are compiled once.
CASES = {
    "random": np.random.default_rng(1).standard_normal((3, 3)),
    "random too": np.random.default_rng(2).standard_normal((3, 3)),
    "reflected": np.diag([1.0, 0.8, -0.5]),
    "repeated singular values": np.eye(3),
    "coplanar": np.diag([2.0, 1.0, 0.0]),
    "plane": np.random.default_rng(1).standard_normal((2, 2, 2)),
}


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def quickly_compiled():
    """What is compiled here runs a few times only; the other tests compile as users do."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


# Compiled: operation by operation, JAX compiles each of them by itself, which takes ten times as long.
rotation = jax.jit(special_procrustes)


@pytest.mark.usefixtures("quickly_compiled")
@pytest.mark.parametrize("name", CASES)
def test_derivatives_to_second_order(name):
    check_grads(rotation, (CASES[name],), order=2, modes=("fwd", "rev"))


@pytest.mark.parametrize("d", [2, 3])
def test_matches_the_numpy_path(d, rng):
    rest, points, w = rng.standard_normal((7, d)), rng.standard_normal((5, 7, d)), rng.random(7)
    gR, gt = rng.standard_normal((5, d, d)), rng.standard_normal((5, d))

    @jax.jit
    def fit_and_gradient(x):
        fit, pull_back = jax.vjp(lambda x: fit_rigid(rest, x, w), x)
        gradient = pull_back(RigidFit(gR, gt, jnp.zeros_like(fit.stretch)))[0]
        return fit, fit.singular_values, fit.gap, fit.apply(rest), fit.apply(rest[0]), gradient

    fit, singular_values, gap, moved, one_moved, gradient = fit_and_gradient(points)
    reference = pg.fit_rigid(rest, points, w)
    for name in ("rotation", "translation", "stretch"):
        np.testing.assert_allclose(getattr(fit, name), getattr(reference, name), atol=1e-13)
    np.testing.assert_allclose(singular_values, reference.singular_values, atol=1e-13)
    np.testing.assert_allclose(gap, reference.gap, atol=1e-13)
    np.testing.assert_allclose(moved, reference.apply(rest), atol=1e-13)
    np.testing.assert_allclose(one_moved, reference.apply(rest[0]), atol=1e-13)
    np.testing.assert_allclose(gradient, reference.vjp(gR, gt), atol=1e-12)


@pytest.mark.parametrize("far", ["rest", "points"])
def test_far_from_the_origin_nothing_is_lost(far, rng):
    """Points on a grid, of which a shift by a power of two and the mean of four lose no bit."""
    arrays = {name: rng.standard_normal((4, 3)) for name in ("rest", "points")}
    arrays[far] = np.round(256 * arrays[far]) / 256
    fit = jax.jit(fit_rigid)
    here, there = fit(**arrays), fit(**{**arrays, far: arrays[far] + 2.0**30})
    # Rounding of sums of numbers of the size of the points; of the size of the shift it would be 1e-7.
    np.testing.assert_allclose(there.rotation, here.rotation, atol=1e-14)
    np.testing.assert_allclose(there.stretch, here.stretch, atol=1e-13)


def test_hessian_under_jit_and_vmap(rng):
    rest, points = rng.standard_normal((5, 3)), rng.standard_normal((4, 5, 3))
    p, g = rng.standard_normal(3), rng.standard_normal(3)
    H = jax.jit(jax.vmap(jax.hessian(lambda x: fit_rigid(rest, x).apply(p) @ g)))(points)
    expected = pg.fit_rigid(rest, points).hessian(p, g).transpose(0, 1, 3, 2, 4)
    np.testing.assert_allclose(H, expected, atol=1e-11 * np.abs(expected).max())


@pytest.mark.usefixtures("quickly_compiled")
@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_gradients_by_rest_and_weights(mode, rng):
    # One mode in the other is tested with the rotation above, which is all that has a rule of its own.
    arguments = rng.standard_normal((4, 3)), rng.standard_normal((4, 3)), rng.random(4) + 0.1
    check_grads(jax.jit(lambda *a: fit_rigid(*a)[:2]), arguments, order=2, modes=(mode,))


def test_degenerate_is_finite_and_tells(rng):
    line = np.outer(np.arange(4.0), [1, 2, 3])

    def turned(x):
        return fit_rigid(line, x).rotation.sum()

    @jax.jit
    def derivatives(x):
        return fit_rigid(line, x).gap, jax.grad(turned)(x), jax.hessian(turned)(x)

    gap, gradient, hessian = derivatives(line)
    assert gap < 1e-8
    assert jnp.isfinite(gradient).all()
    assert jnp.isfinite(hessian).all()
    assert (jax.grad(jax.jit(lambda m: special_procrustes(m).sum()))(jnp.zeros((3, 3))) == 0).all()


def test_single_precision_knows_a_line(rng):
    with jax.enable_x64(False):
        line = jnp.asarray(np.outer(np.linspace(0, 1, 5), [1, 2, 3]), jnp.float32)
        total, gradient = jax.jit(jax.value_and_grad(lambda x: fit_rigid(line, x).rotation.sum()))(line)
        assert total.dtype == jnp.float32
        assert jnp.abs(gradient).max() < 100  # 1e5 and more if rounding were taken for width


def test_half_precision_goes_through_32_bits(rng):
    x = jnp.asarray(rng.standard_normal((5, 3)), jnp.bfloat16)
    assert fit_rigid(x, x).rotation.dtype == jnp.float32


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda x: fit_rigid(x[0], x), r"rest must have shape \(\.\.\., n, 3\).*got \(3,\)"),
        (lambda x: fit_rigid(None, x), "rest must be an array of numbers, got NoneType"),
        (lambda x: fit_rigid(x, "abc"), "points must be an array of numbers, got str"),
        (lambda x: fit_rigid(x, x * 1j), "points must hold real numbers, got complex128"),
        (lambda x: fit_rigid(x, x[:2]), r"points must match rest"),
        (lambda x: fit_rigid(np.stack([x] * 2), np.stack([x] * 3)), "leading shapes that broadcast"),
        (lambda x: fit_rigid(x, x, x[:2, 0]), r"weights must have shape \(\.\.\., 4\), got \(2,\)"),
        (special_procrustes, r"M must have shape \(\.\.\., 3, 3\).*got \(4, 3\)"),
    ],
)
def test_bad_input(call, match, rng):
    with pytest.raises(InputError, match=match):
        call(rng.standard_normal((4, 3)))
