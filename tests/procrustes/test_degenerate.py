"""The table of degenerate cases in docs/explanation/degenerate.md, row by row."""

import numpy as np
import pytest
from oracle import random_rotation

import pointglue as pg
from pointglue.errors import DegenerateFitError

LINE = np.array([[-1.0, 0, 0], [0.2, 0, 0], [0.5, 0, 0], [1.3, 0, 0]])
SHEET = np.array([[0.0, 0, 0], [1, 0, 0], [1, 0.7, 0], [0, 1, 0], [0.3, 0.2, 0]])


def clamp(rest, points, **options):
    fit = pg.fit_rigid(rest, points, on_degenerate="clamp", **options)
    assert np.isfinite(fit.rotation).all()
    assert np.allclose(np.linalg.det(fit.rotation), 1)
    return fit


def derivatives(fit, rng):
    """All derivatives, asserted finite."""
    points = fit.apply(np.zeros(3))[..., None, :] + np.zeros(fit._points_shape)
    rates = rng.standard_normal(points.shape)
    results = [*fit.jvp(rates), fit.vjp(fit.rotation, fit.translation), fit.jacobian(np.ones(3))]
    results += [*fit.second(rates, rates), fit.hessian(np.ones(3), np.ones(3))]
    results.append(fit.hessian_product(np.ones(3), np.ones(3), rates))
    for result in results:
        assert np.isfinite(result).all()
    return results


def test_gap_is_reported_and_derivatives_grow_as_its_inverse(rng):
    """S2 + S3 -> 0: J grows as 1 / gap, second derivatives as its square."""
    gaps = np.array([1e-2, 1e-3, 1e-4, 1e-5])
    first, second = [], []
    rates = rng.standard_normal((6, 3))
    cross = np.concatenate([np.eye(3), -np.eye(3)])
    for gap in gaps:
        rest = cross * np.sqrt([1, gap, 0])
        fit = pg.fit_rigid(rest, rest)
        assert fit.gap == pytest.approx(gap, rel=1e-9)
        first.append(np.abs(fit.jvp(rates)[0]).max())
        second.append(np.abs(fit.second(rates, rates)[0]).max())
    # The rest offsets shrink as sqrt(gap) here, which takes half a power from each derivative.
    assert np.polyfit(np.log(gaps), np.log(first), 1)[0] == pytest.approx(-0.5, abs=0.05)
    assert np.polyfit(np.log(gaps), np.log(second), 1)[0] == pytest.approx(-1.0, abs=0.1)


def test_rotation_jumps_by_half_a_turn_where_the_gap_closes():
    """The two sides of S2 + S3 = 0 differ by 180 degrees, and both are best fits."""
    cross = np.concatenate([np.eye(3), -np.eye(3)])
    before = pg.fit_rigid(cross, cross * [1, 0.5, -0.499])
    after = pg.fit_rigid(cross, cross * [1, 0.499, -0.5])
    assert np.trace(before.rotation.T @ after.rotation) == pytest.approx(-1)  # half a turn
    clamped = clamp(cross, cross * [1, 0.5, -0.5])
    assert clamped.degenerate


def test_collinear_parents_raise_and_say_so():
    with pytest.raises(
        DegenerateFitError, match=r"the fit does not determine a rotation: its points lie on a line"
    ):
        pg.fit_rigid(LINE, LINE)


def test_the_culprit_in_a_batch_is_named():
    points = np.stack([SHEET, SHEET, SHEET * [1, 0, 0]]).reshape(3, 1, 5, 3)
    with pytest.raises(DegenerateFitError, match=r"fit \[2, 0\].*1 of 3.*on_degenerate='clamp'"):
        pg.fit_rigid(SHEET, points)


def test_collinear_parents_off_the_line_hold_the_free_spin(rng):
    """The line is followed; the spin about it is that of the previous frame, and has no rate."""
    previous = random_rotation(rng)
    Q = random_rotation(rng)
    fit = clamp(LINE, LINE @ Q.T, previous=previous)
    assert fit.degenerate
    assert fit.gap == pytest.approx(0, abs=1e-15)
    np.testing.assert_allclose(fit.apply(LINE), LINE @ Q.T, atol=1e-14)
    derivatives(fit, rng)
    # Motion of the points across the line cannot turn anything about the line.
    axis = Q[:, 0]
    dR, _ = fit.jvp(rng.standard_normal(LINE.shape))
    spin = dR @ fit.rotation.T
    assert abs(np.array([spin[2, 1], spin[0, 2], spin[1, 0]]) @ axis) < 1e-13


@pytest.mark.parametrize("min_gap", [1e-8, 1e-2, 0.3])
def test_clamping_moves_nothing_but_the_free_spin(min_gap, rng):
    Q = random_rotation(rng)
    needle = LINE + 0.01 * rng.standard_normal(LINE.shape)
    for rest in (LINE, needle):
        fit = clamp(rest, rest @ Q.T, previous=random_rotation(rng), min_gap=min_gap)
        axis = np.linalg.eigh(np.cov(rest.T))[1][:, 2]
        np.testing.assert_allclose(fit.rotation @ axis, Q @ axis, atol=1e-13)


def test_clamped_second_derivative_is_symmetric(rng):
    line = LINE @ random_rotation(rng).T
    fit = clamp(line, line @ random_rotation(rng).T)
    d1, d2, p, g = (rng.standard_normal(shape) for shape in (LINE.shape, LINE.shape, 3, 3))
    ddR, ddt = fit.second(d1, d2)
    np.testing.assert_allclose(ddR, fit.second(d2, d1)[0], atol=1e-12)
    expected = g @ (ddR @ p + ddt)
    assert (fit.hessian_product(p, g, d1) * d2).sum() == pytest.approx(expected, rel=1e-9)
    assert np.einsum("ijkl,ik,jl->", fit.hessian(p, g), d1, d2) == pytest.approx(expected, rel=1e-9)


def test_previous_is_made_a_rotation(rng):
    fit = clamp(SHEET[:1], SHEET[:1], previous=1.0004 * np.eye(3))
    np.testing.assert_allclose(fit.rotation, np.eye(3), atol=1e-15)


def test_collinear_parents_on_the_line_have_the_exact_derivative(rng):
    """On the line of its parents a point is t + s a / |a| with a = sum w s_i x_i, which is smooth."""
    Q = random_rotation(rng)
    points, rates = LINE @ Q.T + 0.5, rng.standard_normal(LINE.shape)
    along = LINE[:, 0] - LINE[:, 0].mean()
    a, da = along @ points, along @ rates
    u, length = a / np.linalg.norm(a), np.linalg.norm(a)
    arm = 2.0 - LINE[:, 0].mean()
    expected = rates.mean(0) + arm * (da - u * (u @ da)) / length
    fit = clamp(LINE, points)
    got = np.einsum("nij,nj->i", fit.jacobian(np.array([2.0, 0, 0])), rates)
    np.testing.assert_allclose(got, expected, atol=1e-13)


def test_coincident_parents_keep_the_previous_rotation(rng):
    previous = random_rotation(rng)
    points = np.full_like(SHEET, 3.0)
    with pytest.raises(DegenerateFitError, match="its points, or those of its rest shape, coincide"):
        pg.fit_rigid(SHEET, points)
    w = rng.random(len(SHEET))
    fit = clamp(SHEET, points, weights=w, previous=previous)
    np.testing.assert_allclose(fit.rotation, previous, atol=1e-15)
    assert fit.degenerate
    assert fit.gap == 0
    expected = (w / w.sum())[:, None, None] * np.eye(3)
    np.testing.assert_allclose(fit.jacobian(np.array([5.0, 1, 2])), expected, atol=1e-15)
    derivatives(fit, rng)


def test_single_point_and_pair(rng):
    for count in (1, 2):
        fit = clamp(SHEET[:count], SHEET[:count] + 1.0)
        assert fit.degenerate
        np.testing.assert_allclose(fit.apply(SHEET[:count]), SHEET[:count] + 1.0, atol=1e-12)
        np.testing.assert_allclose(fit.rotation, np.eye(3), atol=1e-12)  # the smallest rotation


def test_coplanar_is_a_normal_result(rng):
    fit = pg.fit_rigid(SHEET, SHEET @ random_rotation(rng).T)
    assert not fit.degenerate
    assert fit.singular_values[2] == pytest.approx(0, abs=1e-15)
    derivatives(fit, rng)


def test_repeated_singular_values_are_the_easiest_case(rng):
    cross = np.concatenate([np.eye(3), -np.eye(3)])
    fit = pg.fit_rigid(cross, cross)
    np.testing.assert_allclose(fit.singular_values, 1 / 3)
    assert fit.gap == pytest.approx(2)
    derivatives(fit, rng)


def test_mirrored_plane_is_not_unique(rng):
    square = np.array([[1.0, 1], [-1, 1], [-1, -1], [1, -1]])
    with pytest.raises(DegenerateFitError, match="mirrored"):
        pg.fit_rigid(square, square * [1, -1])
    fit = pg.fit_rigid(square, square * [1, -1], on_degenerate="clamp", previous=[[0.0, -1], [1, 0]])
    np.testing.assert_allclose(fit.rotation, [[0, -1], [1, 0]], atol=1e-12)
    assert np.isfinite(fit.jacobian(np.ones(2))).all()
    # A rectangle mirrored is determined: it keeps its long side.
    assert not pg.fit_rigid(square * [2, 1], square * [2, -1]).degenerate


def test_a_line_in_the_plane_is_a_normal_result():
    segment = np.array([[0.0, 0], [1, 0]])
    fit = pg.fit_rigid(segment, [[0, 0], [0, 2]])
    np.testing.assert_allclose(fit.rotation, [[0, -1], [1, 0]], atol=1e-15)
    assert fit.gap == pytest.approx(1)


def test_clamped_jacobian_is_bounded(rng):
    """However close to the edge, no block exceeds arm / (min_gap s1): nothing explodes."""
    min_gap = 1e-4
    for gap in [0, 1e-12, 1e-7, 0.99e-4, 1.01e-4]:
        rest = np.concatenate([np.eye(3), -np.eye(3)]) * np.sqrt([1, gap, 0])
        fit = clamp(rest, rest, min_gap=min_gap)
        bound = 1 + np.sqrt(3) * 2 / (min_gap * fit.singular_values[0])
        assert np.abs(fit.jacobian(np.ones(3))).max() < bound


def test_the_derivative_of_the_free_spin_fades_out_without_a_jump():
    """It goes by 1 / gap down to min_gap, and by gap / min_gap^2 below."""
    min_gap = 1e-2

    def spin_per_moment(gap):
        rest = np.concatenate([np.eye(3), -np.eye(3)]) * np.sqrt([1, gap, 0])
        rates = np.zeros((6, 3))
        rates[1, 2] = 1.0  # of the point on the y axis, along z
        dR, _ = clamp(rest, rest, min_gap=min_gap).jvp(rates)
        return dR[2, 1] / np.sqrt(gap)

    whole = spin_per_moment(1.0)
    for gap in (0.5, 0.02, 1.0001e-2):
        assert spin_per_moment(gap) == pytest.approx(whole / gap, rel=1e-9)
    for gap in (0.9999e-2, 1e-3, 1e-6):
        assert spin_per_moment(gap) == pytest.approx(whole * gap / min_gap**2, rel=1e-9)


def test_moments_that_underflow_count_as_none(rng):
    tiny = 1e-160 * SHEET
    with pytest.raises(DegenerateFitError, match="its points, or those of its rest shape, coincide"):
        pg.fit_rigid(tiny, tiny)
    derivatives(clamp(tiny, tiny), rng)
    assert not pg.fit_rigid(1e-140 * SHEET, 1e-140 * SHEET).degenerate
