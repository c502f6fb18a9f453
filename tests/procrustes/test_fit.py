"""The rigid fit itself: against scipy, brute force and 60 digits; shapes, batches, threads."""

import numpy as np
import pytest
from oracle import as_array, exact_fit, random_rotation
from scipy.optimize import minimize
from scipy.spatial.transform import Rotation

import pointglue as pg

EPS = np.finfo(float).eps


def cost(R, t, rest, points, weights):
    return np.einsum("i,ij->", weights, (rest @ R.T + t - points) ** 2)


def pose(rest, rng, noise=0.3):
    """A random rigid motion of `rest`, with noise."""
    d = rest.shape[-1]
    R = random_rotation(rng) if d == 3 else Rotation.from_euler("z", rng.uniform(-3, 3)).as_matrix()[:2, :2]
    return rest @ R.T + rng.standard_normal(d) + noise * rng.standard_normal(rest.shape)


@pytest.mark.parametrize("n", [3, 4, 8, 50])
def test_agrees_with_align_vectors(n, rng):
    for _ in range(20):
        rest, w = rng.standard_normal((n, 3)), rng.random(n) + 1e-3
        points = pose(rest, rng)
        fit = pg.fit_rigid(rest, points, w)
        centred = [x - np.average(x, axis=0, weights=w) for x in (points, rest)]
        expected, _ = Rotation.align_vectors(*centred, weights=w)
        # Two solvers of a problem of condition 1 / gap.
        assert np.abs(fit.rotation - expected.as_matrix()).max() < 100 * EPS / fit.gap
        np.testing.assert_allclose(
            fit.translation, np.average(points - rest @ fit.rotation.T, axis=0, weights=w), atol=1e-13
        )


@pytest.mark.parametrize("mirrored", [False, True])
def test_brute_force_finds_nothing_better(mirrored, rng):
    rest, w = rng.standard_normal((6, 3)), rng.random(6)
    points = pose(rest * [1, 1, -1 if mirrored else 1], rng)
    fit = pg.fit_rigid(rest, points, w)
    best = cost(fit.rotation, fit.translation, rest, points, w)

    def objective(parameters):
        return cost(Rotation.from_rotvec(parameters[:3]).as_matrix(), parameters[3:], rest, points, w)

    found = []
    for _ in range(12):
        start = np.concatenate([Rotation.random(rng=rng).as_rotvec(), fit.translation])
        found.append(minimize(objective, start, method="BFGS", options={"gtol": 1e-10}).fun)
    assert best <= min(found) * (1 + 1e-12)
    assert best >= min(found) * (1 - 1e-8)  # and brute force does get there


@pytest.mark.parametrize("d", [2, 3])
def test_against_60_digits(d, rng):
    for _ in range(10):
        rest, w = rng.standard_normal((5, d)), rng.random(5)
        points = rng.standard_normal((5, d))
        fit = pg.fit_rigid(rest, points, w)
        R, t = exact_fit(rest, points, w)
        assert np.abs(fit.rotation - as_array(R)).max() < 10 * EPS / fit.gap
        assert np.abs(fit.translation - as_array(t).ravel()).max() < 20 * EPS / fit.gap


def test_plane_by_complex_numbers(rng):
    """In the plane the best rotation is the phase of sum w conj(rest) points."""
    rest, points, w = rng.standard_normal((7, 2)), rng.standard_normal((20, 7, 2)), rng.random(7)
    fit = pg.fit_rigid(rest, points, w)
    z = (rest - np.average(rest, axis=0, weights=w)) @ [1, 1j]
    y = (points - np.average(points, axis=1, weights=w, keepdims=True).reshape(20, 1, 2)) @ [1, 1j]
    phase = (w * y * z.conj()).sum(-1)
    np.testing.assert_allclose(
        fit.rotation[:, 0, 0] + 1j * fit.rotation[:, 1, 0], phase / abs(phase), atol=1e-14
    )
    np.testing.assert_allclose(fit.singular_values.sum(-1), abs(phase) / w.sum(), rtol=1e-13)
    np.testing.assert_allclose(fit.gap, fit.singular_values.sum(-1) / fit.singular_values[:, 0], rtol=1e-13)


@pytest.mark.parametrize("d", [2, 3])
def test_reported_quantities(d, rng):
    rest, points, w = rng.standard_normal((9, d)), rng.standard_normal((30, 9, d)), rng.random(9)
    w /= w.sum()
    fit = pg.fit_rigid(rest, points, w)
    x = points - (w[:, None] * points).sum(-2, keepdims=True)
    A = np.einsum("i,bij,ik->bjk", w, x, rest - w @ rest)
    np.testing.assert_allclose(fit.rotation @ fit.stretch, A, atol=1e-14)
    np.testing.assert_allclose(fit.stretch, np.swapaxes(fit.stretch, 1, 2), atol=0)
    s = np.linalg.svd(A, compute_uv=False)
    s[:, -1] *= np.sign(np.linalg.det(A))
    np.testing.assert_allclose(fit.singular_values, s, atol=1e-14)
    np.testing.assert_allclose(fit.gap, (s[:, -2] + s[:, -1]) / s[:, 0], rtol=1e-10)
    np.testing.assert_allclose(fit.centroid, np.einsum("i,bij->bj", w, points), atol=1e-15)
    moved = fit.apply(rest)
    np.testing.assert_allclose(
        moved, rest @ np.swapaxes(fit.rotation, 1, 2) + fit.translation[:, None], atol=1e-14
    )
    np.testing.assert_allclose(fit.apply(rest[0]), moved[:, 0], atol=1e-15)


@pytest.mark.parametrize("d", [2, 3])
def test_equivariance(d, rng):
    """Moving the points moves the fit; moving the rest shape moves it the other way."""
    rest, points = rng.standard_normal((6, d)), rng.standard_normal((6, d))
    fit = pg.fit_rigid(rest, points)
    Q = random_rotation(rng) if d == 3 else Rotation.from_euler("z", 1.1).as_matrix()[:2, :2]
    shift = rng.standard_normal(d)
    moved = pg.fit_rigid(rest, points @ Q.T + shift)
    np.testing.assert_allclose(moved.rotation, Q @ fit.rotation, atol=20 * EPS / fit.gap)
    np.testing.assert_allclose(moved.translation, Q @ fit.translation + shift, atol=50 * EPS / fit.gap)
    turned = pg.fit_rigid(rest @ Q.T + shift, points)
    np.testing.assert_allclose(turned.rotation, fit.rotation @ Q.T, atol=20 * EPS / fit.gap)
    scaled = pg.fit_rigid(3e5 * rest, 2e-7 * points, np.full(6, 1e-20))
    np.testing.assert_allclose(scaled.rotation, fit.rotation, atol=20 * EPS / fit.gap)


def test_rigid_motion_is_recovered_far_from_the_origin(rng):
    """A body of size 1 at a distance of 1e6: nothing but the rounding of its coordinates is lost."""
    rest = rng.standard_normal((8, 3)) + np.array([1e6, -2e6, 3e6])
    Q = random_rotation(rng)
    fit = pg.fit_rigid(rest, rest @ Q.T)
    assert np.abs(fit.rotation - Q).max() < 1e-8
    p = rest[0] + 0.5
    assert np.abs(fit.apply(p) - Q @ p).max() < 1e-8


@pytest.mark.parametrize("far", [1e3, 1e6, 1e9])
def test_light_points_far_away_do_no_harm(far, rng):
    """Padding rows of weight zero, wherever they lie and wherever in the list, change nothing."""
    rest, Q = rng.standard_normal((10, 3)), random_rotation(rng)
    points = rest @ Q.T + [1.0, 2.0, 3.0]
    for front in (True, False):
        pad = [(1, 0), (0, 0)] if front else [(0, 1), (0, 0)]
        padded = np.pad(rest, pad, constant_values=far), np.pad(points, pad, constant_values=-far)
        fit = pg.fit_rigid(*padded, np.pad(np.ones(10), pad[0]))
        np.testing.assert_allclose(fit.rotation, Q, atol=1e-14)
        np.testing.assert_allclose(fit.apply(rest), points, atol=1e-13)


def test_large_groups_keep_their_digits(rng):
    """A million points, in long runs of equal terms whose rounding errors all have one sign."""
    rest, Q = np.repeat(rng.standard_normal((4, 3)), 250_000, axis=0), random_rotation(rng)
    fit = pg.fit_rigid(rest, rest @ Q.T + 0.3)
    assert np.abs(fit.rotation - Q).max() < 1e-13 / fit.gap


def test_never_reflects(rng):
    rest = rng.standard_normal((100, 10, 3))
    fit = pg.fit_rigid(rest, rest * [1, 1, -1] + 1e-3 * rng.standard_normal(rest.shape))
    np.testing.assert_allclose(np.linalg.det(fit.rotation), 1.0, atol=1e-14)
    assert (fit.singular_values[:, 2] < 0).all()


@pytest.mark.parametrize("rest_shape", [(), (4,), (1, 4), (5, 4), (5, 1), (3, 1, 1)])
@pytest.mark.parametrize("weight_shape", [(), (4,), (5, 1)])
@pytest.mark.parametrize("points_shape", [(), (4,), (5, 4), (3, 5, 4)])
def test_leading_shapes_broadcast(rest_shape, weight_shape, points_shape, rng):
    rest, points = rng.standard_normal((*rest_shape, 7, 3)), rng.standard_normal((*points_shape, 7, 3))
    w = rng.random((*weight_shape, 7))
    fit = pg.fit_rigid(rest, points, w)
    full = np.broadcast_shapes(rest_shape, weight_shape, points_shape)
    assert fit.rotation.shape == (*full, 3, 3)
    assert fit.gap.shape == fit.degenerate.shape == full
    rest, points = np.broadcast_to(rest, (*full, 7, 3)), np.broadcast_to(points, (*full, 7, 3))
    w = np.broadcast_to(w, (*full, 7))
    d1, gR, gt = rng.standard_normal(points.shape), rng.standard_normal((3, 3)), rng.standard_normal(3)
    p, g = rng.standard_normal((2, 3)), rng.standard_normal((2, 3))
    batched = [
        fit.rotation,
        fit.translation,
        *fit.jvp(d1),
        fit.vjp(gR, gt),
        fit.jacobian(p),
        *fit.second(d1, d1),
    ]
    batched += [
        fit.hessian(p, g),
        fit.hessian_product(p, g, d1),
        fit.apply(p),
        fit.singular_values,
        fit.stretch,
    ]
    for index in np.ndindex(full):
        one, d = pg.fit_rigid(rest[index], points[index], w[index]), d1[index]
        single = [
            one.rotation,
            one.translation,
            *one.jvp(d),
            one.vjp(gR, gt),
            one.jacobian(p),
            *one.second(d, d),
        ]
        single += [
            one.hessian(p, g),
            one.hessian_product(p, g, d),
            one.apply(p),
            one.singular_values,
            one.stretch,
        ]
        for many, alone in zip(batched, single, strict=True):
            np.testing.assert_array_equal(many[index], alone)  # bit for bit


@pytest.mark.parametrize("d", [2, 3])
def test_groups_equal_separate_fits(d, rng):
    rest, points = rng.standard_normal((40, d)), rng.standard_normal((2, 3, 40, d))
    lists = [rng.choice(40, size, replace=False) for size in (3, 8, 40, 5, 8, 12)]
    groups = pg.Groups.from_lists(lists)
    w = rng.random(len(groups.indices))
    fit = pg.fit_rigid(rest, points, w, groups=groups)
    assert fit.rotation.shape == (2, 3, 6, d, d)
    rates, gR, gt = rng.standard_normal(points.shape), rng.standard_normal((d, d)), rng.standard_normal(d)
    p, g = rng.standard_normal((4, d)), rng.standard_normal((4, d))
    dR, dt = fit.jvp(rates)
    ddR, _ = fit.second(rates, points)
    J, H = fit.jacobian(p), fit.hessian(p, g)
    assert J.shape == (2, 3, 4, len(groups.indices), d, d)
    gradient, product = np.zeros(points.shape), np.zeros(points.shape)
    blocks = np.concatenate([[0], np.cumsum(groups.sizes**2)])
    for k, rows in enumerate(lists):
        span = slice(groups.offsets[k], groups.offsets[k + 1])
        one = pg.fit_rigid(rest[rows], points[:, :, rows], w[span])
        np.testing.assert_array_equal(fit.rotation[:, :, k], one.rotation)
        np.testing.assert_array_equal(fit.translation[:, :, k], one.translation)
        np.testing.assert_array_equal(dR[:, :, k], one.jvp(rates[:, :, rows])[0])
        np.testing.assert_array_equal(dt[:, :, k], one.jvp(rates[:, :, rows])[1])
        np.testing.assert_array_equal(ddR[:, :, k], one.second(rates[:, :, rows], points[:, :, rows])[0])
        np.testing.assert_array_equal(J[:, :, :, span], one.jacobian(p))
        size = len(rows)
        part = H[:, :, blocks[k] : blocks[k + 1]].reshape(2, 3, size, size, d, d)
        np.testing.assert_array_equal(part, one.hessian(p, g))
        gradient[:, :, rows] += one.vjp(gR, gt)
        product[:, :, rows] += one.hessian_product(p, g, rates[:, :, rows])
    np.testing.assert_allclose(fit.vjp(gR, gt), gradient, atol=1e-13)
    np.testing.assert_allclose(fit.hessian_product(p, g, rates), product, atol=1e-10)


def test_consecutive_groups_need_no_indices(rng):
    rest, points = rng.standard_normal((9, 3)), rng.standard_normal((9, 3))
    fit = pg.fit_rigid(rest, points, groups=pg.Groups([0, 4, 9]))
    np.testing.assert_array_equal(fit.rotation[1], pg.fit_rigid(rest[4:], points[4:]).rotation)


def test_zero_weight_is_absence(rng):
    rest, points, w = rng.standard_normal((8, 3)), rng.standard_normal((8, 3)), rng.random(8)
    w[[2, 5]] = 0.0
    keep = w > 0
    with_zeros, without = pg.fit_rigid(rest, points, w), pg.fit_rigid(rest[keep], points[keep], w[keep])
    np.testing.assert_allclose(with_zeros.rotation, without.rotation, atol=1e-14)
    assert (with_zeros.vjp(np.ones((3, 3)), np.ones(3))[~keep] == 0).all()


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_only_ratios_of_weights_matter(scale, rng):
    rest, points, w = rng.standard_normal((8, 3)), rng.standard_normal((8, 3)), rng.random(8)
    np.testing.assert_allclose(
        pg.fit_rigid(rest, points, w * scale).rotation, pg.fit_rigid(rest, points, w).rotation, atol=1e-14
    )


def test_float32_in_float32_out(rng):
    rest, points = rng.standard_normal((8, 3)).astype("f4"), rng.standard_normal((50, 8, 3)).astype("f4")
    fit = pg.fit_rigid(rest, points)
    exact = pg.fit_rigid(rest.astype(float), points.astype(float))
    rates, p = rng.standard_normal(points.shape).astype("f4"), rest[0]
    pairs = [
        (fit.rotation, exact.rotation),
        (fit.translation, exact.translation),
        (fit.gap, exact.gap),
        (fit.jacobian(p), exact.jacobian(p)),
        (fit.jvp(rates)[0], exact.jvp(rates)[0]),
        (fit.vjp(fit.rotation, fit.translation), exact.vjp(fit.rotation, fit.translation)),
        (fit.hessian(p, p), exact.hessian(p, p)),
        (fit.apply(rest), exact.apply(rest)),
    ]
    for got, expected in pairs:
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, expected.astype("f4"))  # computed in 64 bits, rounded once
    assert pg.fit_rigid(rest.astype(float), points).rotation.dtype == np.float64
    assert pg.fit_rigid(rest.astype(">f4"), points.astype(">f4")).rotation.dtype == np.float32


def test_float32_knows_a_line(rng):
    """Rounded to 32 bits, points on a line have some width; against points in space it shows in the gap."""
    line = np.outer(np.linspace(0, 1, 6), [1, 2, 3]).astype("f4")
    for _ in range(20):
        assert pg.fit_rigid(line, rng.standard_normal((6, 3)), on_degenerate="clamp").degenerate


def test_integers_are_numbers():
    square = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
    fit = pg.fit_rigid(square, [[0, 0, 0], [0, 1, 0], [-1, 1, 0], [-1, 0, 0]])
    np.testing.assert_allclose(fit.rotation, [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-15)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_threads_do_not_change_a_bit(count, rng):
    rest, points = rng.standard_normal((8, 3)), rng.standard_normal((60_000, 8, 3))
    points[::17] *= [1, 1e-3, 1e-4]  # some for the robust path
    rates, p, g = rng.standard_normal(points.shape), rng.standard_normal(3), rng.standard_normal(3)

    def everything(threads):
        with pg.threads(threads):
            fit = pg.fit_rigid(rest, points)
            return [
                fit.rotation,
                fit.gap,
                *fit.jvp(rates),
                fit.vjp(fit.rotation, fit.translation),
                fit.jacobian(p),
                *fit.second(rates, points),
                fit.hessian_product(p, g, rates),
            ]

    for one, several in zip(everything(1), everything(count), strict=True):
        np.testing.assert_array_equal(one, several)


def test_inputs_are_left_alone(rng):
    rest, points, w = rng.standard_normal((8, 3)), rng.standard_normal((8, 3)), rng.random(8)
    copies = rest.copy(), points.copy(), w.copy()
    for array in (rest, points, w):
        array.flags.writeable = False
    pg.fit_rigid(rest, points, w).jacobian(rest)
    for array, copy in zip((rest, points, w), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("single", [False, True])
def test_jacobian_into_a_buffer(d, single, rng):
    fit = pg.fit_rigid(rng.standard_normal((5, 6, d)), rng.standard_normal((5, 6, d)))
    p = rng.standard_normal(d) if single else rng.standard_normal((2, d))
    expected = fit.jacobian(p)
    buffer = np.full_like(expected, np.nan)
    assert fit.jacobian(p, out=buffer) is buffer
    np.testing.assert_array_equal(buffer, expected)
    read_only = buffer.copy()
    read_only.flags.writeable = False
    for bad in (
        read_only,
        buffer[1:],
        buffer.astype("f4"),
        np.moveaxis(buffer, 0, -1).copy(),
        buffer[..., ::-1],
    ):
        with pytest.raises(
            pg.errors.InputError, match="out must be a contiguous, writeable array of float64 of"
        ):
            fit.jacobian(p, out=bad)


def test_joined_shapes_fit_as_they_did_apart(rng):
    groups = [pg.Groups.from_lists([[0, 1, 2, 3], [4, 1, 7]]), pg.Groups.from_lists([[9, 8, 5, 2, 3]])]
    shapes = [pg.RestShape(rng.standard_normal((10, 3)), groups=group) for group in groups]
    x = rng.standard_normal((10, 3))
    joined = pg.RestShape.joined(shapes).fit(x)
    for part, rows in zip((shape.fit(x) for shape in shapes), (slice(0, 2), slice(2, 3)), strict=True):
        assert np.array_equal(joined.rotation[rows], part.rotation)
        assert np.array_equal(joined.translation[rows], part.translation)
    blocks = np.concatenate([shape.fit(x).jacobian([0.1, 0.2, 0.3]) for shape in shapes])
    assert np.array_equal(joined.jacobian([0.1, 0.2, 0.3]), blocks)
