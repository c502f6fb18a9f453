"""Properties of every fit, over shapes, weights, scales and constructions made to break it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import pointglue as pg

CONSTRUCTIONS = [
    "random",
    "flat",
    "line",
    "point",
    "mirrored",
    "nearly line",
    "nearly mirrored",
    "duplicates",
]


def construct(kind, rest, rng, size):
    """Points made from `rest` in one of the ways above."""
    d = rest.shape[-1]
    last = np.r_[np.ones(d - 1), 0.0]
    if kind == "random":
        return size * rng.standard_normal(rest.shape)
    if kind == "flat":
        return size * rest * last
    if kind == "line":
        return size * rest[..., :1] * rng.standard_normal(d)
    if kind == "point":
        return np.zeros_like(rest) + rng.standard_normal(d)
    if kind == "mirrored":
        return size * rest * (2 * last - 1)
    if kind == "nearly line":
        return size * (rest[..., :1] * rng.standard_normal(d) + 10.0 ** rng.uniform(-12, -2) * rest)
    if kind == "nearly mirrored":
        return size * (rest * (2 * last - 1) + 10.0 ** rng.uniform(-12, -2) * rng.standard_normal(rest.shape))
    return size * rest[..., rng.integers(0, rest.shape[-2], rest.shape[-2]), :]


def assert_sound(fit):
    R = fit.rotation
    assert np.isfinite(R).all()
    assert np.abs(np.swapaxes(R, -1, -2) @ R - np.eye(R.shape[-1])).max() < 50 * np.finfo(R.dtype).eps
    assert (np.linalg.det(R) > 0).all()
    assert np.isfinite(fit.translation).all()
    assert ((fit.gap >= 0) & (fit.gap <= 2 + 1e-6)).all()
    assert (fit.degenerate == (fit.gap < fit.min_gap)).all() or np.isclose(fit.gap, fit.min_gap).any()


@given(
    kind=st.sampled_from(CONSTRUCTIONS),
    d=st.sampled_from([2, 3]),
    n=st.integers(1, 12),
    exponents=st.tuples(st.integers(-60, 60), st.integers(-60, 60)),
    seed=st.integers(0, 2**32 - 1),
    zeros=st.integers(0, 11),
)
@settings(max_examples=400)
def test_any_fit_is_sound(kind, d, n, exponents, seed, zeros):
    rng = np.random.default_rng(seed)
    rest = rng.standard_normal((n, d)) * 10.0 ** exponents[0]
    w = rng.random(n)
    w[: min(zeros, n - 1)] = 0.0
    points = construct(kind, rest, rng, 10.0 ** (exponents[1] - exponents[0]))
    fit = pg.fit_rigid(rest, points, w, on_degenerate="clamp")
    assert_sound(fit)
    rates = rng.standard_normal(points.shape) * 10.0 ** exponents[1]
    p, g = rest[0] + rest[-1], rng.standard_normal(d)
    for result in [
        *fit.jvp(rates),
        fit.jacobian(p),
        *fit.second(rates, rates),
        fit.hessian_product(p, g, rates),
    ]:
        assert np.isfinite(result).all()
    # At the optimum R^T A is symmetric, so that growing about the centroid turns nothing.
    dR, _ = fit.jvp(points - fit.centroid)
    assert np.abs(dR).max() < 1e-6 or fit.gap < 1e-6


@given(
    rest=arrays(float, st.tuples(st.integers(3, 7), st.just(3)), elements=st.floats(-10, 10)),
    motion=arrays(float, (3, 3), elements=st.floats(-1, 1)),
    shift=arrays(float, 3, elements=st.floats(-10, 10)),
)
def test_a_rigid_motion_is_found(rest, motion, shift):
    Q, _ = np.linalg.qr(motion + 2 * np.eye(3))
    Q *= np.sign(np.linalg.det(Q))
    fit = pg.fit_rigid(rest, rest @ Q.T + shift, on_degenerate="clamp")
    assert_sound(fit)
    # Where the rotation is free the points still have to be met, up to the width of the needle.
    width = 4 * np.sqrt(fit.min_gap) * np.ptp(rest) if fit.degenerate else 0.0
    assert np.abs(fit.apply(rest) - (rest @ Q.T + shift)).max() < 1e-6 + width
    if fit.gap > 1e-6:
        assert np.abs(fit.rotation - Q).max() < 1e-14 * 50 / fit.gap


@given(matrix=arrays(float, (2, 4, 3), elements=st.floats(allow_nan=False, allow_infinity=False, width=32)))
def test_any_float32_coordinates(matrix):
    """Subnormals, zeros of both signs, values at the end of the range."""
    assert_sound(pg.fit_rigid(*matrix, on_degenerate="clamp"))
    # The translation has to be a float32 as well, and is up to 2 sqrt(3) times as large as a coordinate.
    assert_sound(pg.fit_rigid(*(matrix / 4).astype("f4"), on_degenerate="clamp"))


@pytest.mark.parametrize("kind", CONSTRUCTIONS)
def test_a_million_fits(kind, rng):
    """125,000 of each construction: no nan, no improper rotation, nothing unflagged."""
    count = 125_000
    rest = rng.standard_normal((count, 4, 3)) * 10.0 ** rng.integers(-40, 40, (count, 1, 1))
    points = construct(kind, rest, rng, 10.0 ** rng.integers(-30, 30, (count, 1, 1)))
    w = rng.random((count, 4)) * (rng.random((count, 4)) > 0.1)
    w[:, 0] += 1e-3
    fit = pg.fit_rigid(rest, points, w, on_degenerate="clamp")
    R = fit.rotation
    assert np.isfinite(R).all()
    assert np.isfinite(fit.translation).all()
    assert np.abs(np.einsum("bji,bjk->bik", R, R) - np.eye(3)).max() < 1e-14
    assert (np.einsum("bi,bi->b", np.cross(R[:, 0], R[:, 1]), R[:, 2]) > 0.5).all()
    assert np.isfinite(fit.jacobian(rest[:, :1])).all()
