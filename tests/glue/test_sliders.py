"""Sliding glue: the curve, its rows by differences, and what binding refuses."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pointglue as pg
from pointglue.errors import InputError
from pointglue.glue.sliders import CurveRows

KNOTS = np.array([0.0, 1.0, 2.2, 3.0, 4.1])


@pytest.fixture
def slider(rng):
    """A point near a bent curve through five of six points, in no order."""
    rows = CurveRows(np.array([2, 5, 1, 0, 4, 3]), KNOTS)
    x = 0.2 * rng.standard_normal((6, 3))
    x[rows.stencil[1:], 0] += KNOTS
    x[2] = rows.weights(1.7)[0] @ x[rows.stencil[1:]] + 0.05 * rng.standard_normal(3)
    return rows, x


def along(f, h=1e-3):
    """f'(0) by central differences of fourth order."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def test_weights_interpolate_and_are_smooth():
    """At the knots they are those of single places, and two derivatives agree from both sides."""
    rows = CurveRows(np.arange(6), KNOTS)
    for k, knot in enumerate(KNOTS):
        values = rows.weights(knot)
        assert_allclose(values[0], np.eye(5)[k], atol=1e-14)
        for before, after in zip(rows.weights(knot - 1e-9), rows.weights(knot + 1e-9), strict=True):
            assert_allclose(before, after, atol=1e-6)
    for s in (-0.5, 0.3, 2.9, 4.5):
        N, slopes, bends = rows.weights(s)
        assert_allclose([N.sum(), slopes.sum(), bends.sum()], [1, 0, 0], atol=1e-13)
        assert_allclose(N @ KNOTS, s, atol=1e-13)  # a straight line is a straight line
        assert_allclose(along(lambda t, s=s: rows.weights(s + t)[0]), slopes, atol=1e-9)
        assert_allclose(along(lambda t, s=s: rows.weights(s + t)[1]), bends, atol=1e-9)


def test_nearest(slider):
    """No other place of the curve is nearer, and the axes are orthogonal, the first along the curve."""
    rows, x = slider
    frame = rows.nearest(x)
    s = np.linspace(-0.5, 4.6, 5000)
    places = np.array([rows.weights(each)[0] for each in s]) @ x[rows.stencil[1:]]
    found = rows.weights(frame.length)[0] @ x[rows.stencil[1:]]
    assert np.linalg.norm(found - x[2]) <= np.linalg.norm(places - x[2], axis=1).min()
    assert_allclose(frame.axes @ frame.axes.T, np.eye(3), atol=1e-14)
    assert_allclose(frame.axes[0] @ (found - x[2]), 0, atol=1e-14)
    assert_allclose(rows.values(x, frame)[2], frame.length, rtol=1e-14)


def test_derivatives(slider, rng):
    """Of both equations and of the length, well away from where the frame was taken."""
    rows, x = slider
    frame = rows.nearest(x)
    x = x + 0.1 * rng.standard_normal(x.shape)
    d, multipliers = rng.standard_normal(x.shape), rng.standard_normal(3)
    J = np.zeros((3, 6, 3))
    J[:, rows.stencil] = rows.gradients(x, frame)
    change = along(lambda t: rows.values(x + t * d, frame))
    assert_allclose(J.reshape(3, -1) @ d.ravel(), change, atol=1e-9)
    H = rows.elements(x, frame, multipliers)
    assert_allclose(H, H.T, atol=1e-14)
    change = along(lambda t: np.einsum("r,rpi->pi", multipliers, rows.gradients(x + t * d, frame)))
    assert_allclose(H @ d[rows.stencil].ravel(), change.ravel(), atol=1e-8)


def test_binding(rng):
    """The point is on the curve, at the place that is nearest to where it was asked for, within the ends."""
    first, second = rng.standard_normal((20, 3)), rng.standard_normal((30, 3))
    path = np.array([[-0.5, 0, 0], [0, 0, 0], [0.5, 0, 0]])
    slider = pg.bind_slider(first, second, [0.2, 0.7, 0], path)
    assert_allclose(slider.first.targets, [[0.2, 0, 0]], atol=1e-14)
    assert (slider.start, len(slider)) == (pytest.approx(0.7), 1)
    assert_allclose(slider.second.positions(second), path, atol=1e-13)
    assert pg.bind_slider(first, second, [3.0, 0, 0], path).start == pytest.approx(1.0)
    for at, places, message in (
        ([0, 0, 0], path[:1], "path must have at least two places, got 1"),
        ([0, 0, 0], path[[0, 1, 1]], "got place 1 twice"),
        ([0, 0], path, r"at must have shape \(3,\)"),
    ):
        with pytest.raises(InputError, match=message):
            pg.bind_slider(first, second, at, places)
