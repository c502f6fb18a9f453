"""Ellipsoids that touch each other."""

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.spatial.transform import Rotation

from pointglue.particles._solve.kernels.shapes.ellipsoids import (
    pair_normal,
    pair_separation,
    shape_matrix,
    support,
)


def ellipsoid(rng, aspect, size=1.0):
    """G of an ellipsoid with this longest half axis and ratio of it to the shortest, turned anyhow."""
    axes = size * np.array([1.0, aspect ** -rng.uniform(), 1 / aspect])
    R = Rotation.random(random_state=rng).as_matrix()
    G = R @ np.diag(axes**2) @ R.T
    return ((G + G.T) / 2).ravel()


def direction(rng):
    n = rng.standard_normal(3)
    return n / np.linalg.norm(n)


def distance_to(squares, point):
    """Distance of a point from the ellipsoid with these squared axes along x, y, z; 0 inside."""
    if (point**2 / squares).sum() <= 1:
        return 0.0

    # The foot is squares * point / (squares + t) for the t at which it lies on the surface.
    def outside(t):
        return (squares * (point / (squares + t)) ** 2).sum() - 1

    t = brentq(outside, 0, np.sqrt(squares.max()) * np.linalg.norm(point), xtol=1e-300, rtol=1e-15)
    return np.linalg.norm(t * point / (squares + t))


def touching(G1, G2, n):
    """Distance at which they touch: where ellipsoid 1 is a unit ball, 2 is as far as 1 from its centre."""
    G1, G2 = G1.reshape(3, 3), G2.reshape(3, 3)
    scale = np.linalg.inv(np.linalg.cholesky(G1))
    squares, axes = np.linalg.eigh(scale @ G2 @ scale.T)
    way = axes.T @ scale @ n
    inner = 1 / np.linalg.norm(way)  # centre 2 on the surface of 1
    outer = inner * (1 + np.sqrt(squares.max()))
    return brentq(lambda d: distance_to(squares, d * way) - 1, inner, 2 * outer, xtol=1e-300, rtol=1e-14)


def touching_in_digits(G1, G2, n):
    """The same in 50 digits, where both conditions at once are one equation for t (errata, A.2)."""
    with mp.workdps(50):
        G1, G2 = mp.matrix(G1.reshape(3, 3).tolist()), mp.matrix(G2.reshape(3, 3).tolist())
        scale = mp.cholesky(G1) ** -1
        squares, axes = mp.eigsy(scale * G2 * scale.T)
        way = axes.T * scale * mp.matrix(n.tolist())

        def excess(t):
            return sum(way[i] ** 2 * (t * t - squares[i]) / (squares[i] + t) ** 2 for i in range(3))

        low, high = mp.sqrt(min(squares)), mp.sqrt(max(squares))
        for _ in range(150):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) < 0 else (low, middle)
        square = sum(squares[i] * (way[i] / (squares[i] + low)) ** 2 for i in range(3))
        return float(1 / mp.sqrt(square))


def test_touching_distance(rng):
    for aspect in (1.0, 1.2, 2.0, 5.0):
        for _ in range(50):
            G1, G2, n = ellipsoid(rng, aspect), ellipsoid(rng, 2.0), direction(rng)
            d = touching(G1, G2, n)
            assert pair_separation(G1, G2, *n) == pytest.approx(d, rel=1e-12)
            assert touching_in_digits(G1, G2, n) == pytest.approx(d, rel=1e-12)


@pytest.mark.parametrize("aspect", [10.0, 100.0, 1e3])
def test_long_and_flat_ones(rng, aspect):
    # Rounding in w^T G w counts up to the square of the aspect where w is along a short axis.
    for _ in range(20):
        G1, G2, n = ellipsoid(rng, aspect), ellipsoid(rng, aspect), direction(rng)
        d = touching_in_digits(G1, G2, n)
        assert pair_separation(G1, G2, *n) == pytest.approx(d, rel=1e-14 + 2e-16 * aspect**2)


@given(st.integers(0, 2**32 - 1), st.floats(0, 3), st.floats(0, 3), st.floats(-6, 6), st.floats(-6, 6))
def test_any_two_ellipsoids(seed, aspect1, aspect2, size1, size2):
    rng = np.random.default_rng(seed)
    G1, G2 = ellipsoid(rng, 10**aspect1, 10**size1), ellipsoid(rng, 10**aspect2, 10**size2)
    n = direction(rng)
    d = pair_separation(G1, G2, *n)
    assert d == pytest.approx(touching_in_digits(G1, G2, n), rel=1e-9)
    # A plane fits between the two, and both reach it: no smaller distance would do.
    wx, wy, wz, h1, h2 = pair_normal(G1, G2, *n)
    assert np.linalg.norm([wx, wy, wz]) == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose([h1, h2], [support(G1, wx, wy, wz), support(G2, wx, wy, wz)], rtol=1e-9)
    assert n @ [wx, wy, wz] * d == pytest.approx(h1 + h2, rel=1e-9)
    assert pair_separation(G2, G1, *-n) == pytest.approx(d, rel=1e-9)


def test_it_is_the_greatest_of_a_function_without_eigenvectors(rng):
    """The square of d is 1 / max of s (1 - s) n^T ((1 - s) G1 + s G2)^-1 n, by search over s."""
    s = np.linspace(0, 1, 20001)[1:-1]
    for _ in range(20):
        G1, G2, n = ellipsoid(rng, 3), ellipsoid(rng, 3), direction(rng)
        blend = np.multiply.outer(1 - s, G1.reshape(3, 3)) + np.multiply.outer(s, G2.reshape(3, 3))
        values = s * (1 - s) * (np.linalg.inv(blend) @ n @ n)
        assert pair_separation(G1, G2, *n) == pytest.approx(values.max() ** -0.5, rel=1e-8)  # step^2 of s


def printed(G1, G2, n):
    """Appendix A.2 as it is printed: equation 40, then 36."""
    A1, A2 = np.linalg.inv(G1.reshape(3, 3)), np.linalg.inv(G2.reshape(3, 3))
    square = n @ A1 @ np.linalg.inv(A2) @ n
    if square < 0:
        return np.nan
    lam = -np.sqrt(square)
    B = np.linalg.inv(lam * A2 - A1) @ A2
    return 1 / np.sqrt(square * n @ B.T @ A1 @ B @ n)


def test_the_printed_formula_is_wrong(rng):
    """It is off by up to 14 % at an aspect of 2, and has no value for some pairs above 1 + sqrt(2)."""

    def pancake(aspect, angle):
        R = Rotation.from_rotvec([0, 0, angle]).as_matrix()
        return (R @ np.diag([1, aspect**-2.0, 1]) @ R.T).ravel()

    off = []
    for angle1, angle2 in rng.uniform(0, np.pi, (2000, 2)):
        G1, G2, n = pancake(2, angle1), pancake(2, angle2), np.array([1.0, 0, 0])
        off.append(abs(printed(G1, G2, n) / pair_separation(G1, G2, *n) - 1))
    assert 0.12 < max(off) < 0.15
    angles = rng.uniform(0, np.pi, (4000, 2))
    x = np.array([1.0, 0, 0])
    for aspect, fails in ((2.4, False), (2.6, True)):
        values = [printed(pancake(aspect, a), pancake(aspect, b), x) for a, b in angles]
        assert np.isnan(values).any() == fails


@given(st.floats(-6, 6), st.floats(-6, 6), st.integers(0, 2**32 - 1))
def test_spheres(size1, size2, seed):
    r1, r2 = 10**size1, 10**size2
    n = direction(np.random.default_rng(seed))
    d = pair_separation(r1**2 * np.eye(3).ravel(), r2**2 * np.eye(3).ravel(), *n)
    assert d == pytest.approx(r1 + r2, rel=1e-14)


def test_equal_ellipsoids_touch_at_twice_the_radius(rng):
    """Then the contact is in the middle, and d is twice the radius 1 / sqrt(n^T A n)."""
    for aspect in (1.0, 1 + 1e-9, 2.0, 100.0):
        G, n = ellipsoid(rng, aspect), direction(rng)
        radius = (n @ np.linalg.solve(G.reshape(3, 3), n)) ** -0.5
        assert pair_separation(G, G, *n) == pytest.approx(2 * radius, rel=1e-11)


def test_along_common_axes():
    G1, G2 = np.diag([4.0, 1, 9]).ravel(), np.diag([1.0, 25, 1e-4]).ravel()
    assert [pair_separation(G1, G2, *e) for e in np.eye(3)] == pytest.approx([3, 6, 3.01], rel=1e-13)


def test_nearly_round_ones_are_treated_alike(rng):
    """Where spheres are recognised, nothing jumps."""
    R, n = Rotation.random(random_state=rng).as_matrix(), direction(rng)
    for off in (1e-9, 5e-8, 9e-8, 1.1e-7, 1e-6, 1e-5, 1e-4):
        G = (R @ np.diag([1, 1 + off, 1 - off]) @ R.T).ravel()
        G = ((G.reshape(3, 3) + G.reshape(3, 3).T) / 2).ravel()
        assert pair_separation(G, 4 * np.eye(3).ravel(), *n) == pytest.approx(
            touching(G, 4 * np.eye(3).ravel(), n), rel=1e-13
        )


def test_shape_and_support(rng):
    C = ellipsoid(rng, 5.0)
    E = Rotation.random(random_state=rng).as_matrix()
    G = np.empty(9)
    shape_matrix(E.ravel(), C, G)
    np.testing.assert_allclose(G.reshape(3, 3), E @ C.reshape(3, 3) @ E.T, atol=1e-15)
    np.testing.assert_array_equal(G.reshape(3, 3), G.reshape(3, 3).T)
    # Points of the surface: the farthest along n is as far as the support.
    surface = rng.standard_normal((200000, 3))
    surface /= np.linalg.norm(surface, axis=1, keepdims=True)
    surface = surface @ np.linalg.cholesky(G.reshape(3, 3)).T
    n = direction(rng)
    assert (surface @ n).max() == pytest.approx(support(G, *n), rel=1e-3)
    assert (surface @ n).max() <= support(G, *n)
