"""Sliding glue: the curve and the surface, their rows by differences, and what binding refuses."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pointglue as pg
from pointglue.errors import DegenerateFitError, InputError
from pointglue.glue.sliders import SliderRows, SplineAxis

KNOTS = np.array([0.0, 1.0, 2.2, 3.0, 4.1])
AXES = {
    "curve": (SplineAxis(KNOTS),),
    "closed curve": (SplineAxis(np.append(KNOTS, 5.0), closed=True),),
    "surface": (SplineAxis(KNOTS), SplineAxis(KNOTS[:4])),
    "closed surface": (SplineAxis(np.append(KNOTS, 5.0), closed=True), SplineAxis(KNOTS[:3])),
}


@pytest.fixture(params=AXES)
def slider(request, rng):
    """A point near a bent path through the other points, in no order; closed ones go round a circle."""
    axes = AXES[request.param]
    grid = np.stack(np.meshgrid(*[axis.knots[: len(axis)] for axis in axes], indexing="ij"), axis=-1)
    places = np.zeros((*grid.shape[:-1], 3))
    if axes[0].closed:
        angle = 2 * np.pi * grid[..., 0] / axes[0].length
        places[..., :2] = axes[0].length / 2 / np.pi * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    else:
        places[..., 0] = grid[..., 0]
    if len(axes) == 2:
        places[..., 2] = grid[..., 1]
    places = places.reshape(-1, 3)
    rows = SliderRows(rng.permutation(1 + len(places)), axes)
    x = np.empty((len(rows.stencil), 3))
    x[rows.stencil[1:]] = places + 0.1 * rng.standard_normal(places.shape)
    lengths = [1.7, 1.3][: len(axes)]
    x[rows.stencil[0]] = rows.foot(lengths).weights @ x[rows.stencil[1:]] + 0.03 * rng.standard_normal(3)
    return rows, x


def along(f, h=1e-3):
    """f'(0) by central differences of fourth order."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


@pytest.mark.parametrize("closed", [False, True])
def test_weights_interpolate_and_are_smooth(closed):
    """At the knots they are those of single places, and two derivatives agree from both sides."""
    axis = SplineAxis(KNOTS, closed)
    for k, knot in enumerate(KNOTS):
        assert_allclose(axis.weights(knot)[0], np.eye(len(axis))[k % len(axis)], atol=1e-14)
        assert_allclose(axis.weights(knot - 1e-9), axis.weights(knot + 1e-9), atol=1e-6)
    for s in (-0.5, 0.3, 2.9, 4.5):
        N, slopes, bends = axis.weights(s)
        assert_allclose([N.sum(), slopes.sum(), bends.sum()], [1, 0, 0], atol=1e-13)
        if closed:
            assert_allclose(axis.weights(s + axis.length), [N, slopes, bends], atol=1e-13)
        else:
            assert_allclose(N @ KNOTS, s, atol=1e-13)  # a straight line is a straight line
        assert_allclose(along(lambda t, s=s: axis.weights(s + t)[0]), slopes, atol=1e-9)
        assert_allclose(along(lambda t, s=s: axis.weights(s + t)[1]), bends, atol=1e-9)


def test_a_surface_goes_through_its_places(rng):
    """Row by row, and a plane is a plane, beyond its edges too."""
    rows = SliderRows(np.arange(21), AXES["surface"])
    places = rng.standard_normal((5, 4, 3))
    for i, j in np.ndindex(5, 4):
        assert_allclose(rows.foot((KNOTS[i], KNOTS[j])).weights @ places.reshape(-1, 3), places[i, j])
    plane = np.stack(np.meshgrid(KNOTS, KNOTS[:4], indexing="ij"), axis=-1).reshape(-1, 2)
    for lengths in ((0.4, 2.9), (-1.0, 2.0), (5.0, 3.5)):
        foot = rows.foot(lengths)
        assert_allclose(foot.weights @ plane, lengths, atol=1e-13)
        assert_allclose(foot.slopes @ plane, np.eye(2), atol=1e-13)
        assert_allclose(foot.bends @ plane, 0, atol=1e-12)


def test_nearest(slider):
    """No other place of the path is nearer, and the axes are orthogonal, the first ones tangents."""
    rows, x = slider
    point, y, count = x[rows.stencil[0]], x[rows.stencil[1:]], len(rows.axes)
    frame = rows.nearest(x)
    samples = np.stack(np.meshgrid(*[np.linspace(0, a.length, 60) for a in rows.axes]), axis=-1)
    places = np.array([rows.foot(each).weights @ y for each in samples.reshape(-1, count)])
    foot = rows.foot(frame.lengths)
    off = foot.weights @ y - point
    assert np.linalg.norm(off) <= np.linalg.norm(places - point, axis=1).min()
    assert_allclose(frame.axes @ frame.axes.T, np.eye(3), atol=1e-14)
    assert_allclose(foot.slopes @ y @ frame.axes[count:].T, 0, atol=1e-14)
    assert_allclose(frame.axes[:count] @ off, 0, atol=1e-12)
    assert_allclose(rows.values(x, frame)[3 - count :], frame.lengths, rtol=1e-12)


def test_nearest_on_the_right_fold():
    """Of a hairpin whose legs are nearer to each other than the samples of the search."""
    places = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [1.94, 0.01, 0], [0.94, 0.01, 0], [0, 0.01, 0]])
    lengths = np.append(0, np.cumsum(np.linalg.norm(np.diff(places, axis=0), axis=1)))
    rows = SliderRows(np.arange(7), (SplineAxis(lengths),))
    for s in np.linspace(0.03, 4, 50):
        x = np.vstack([rows.foot([s]).weights @ places, places])
        assert_allclose(rows.nearest(x).lengths, s, atol=1e-9)


def test_a_surface_that_collapses():
    """It has no normal, and says so; squeezed to a thousandth of its width it still has one."""
    rows = SliderRows(np.arange(21), AXES["surface"])
    plane = np.stack([*np.meshgrid(KNOTS, KNOTS[:4], indexing="ij"), np.zeros((5, 4))], axis=-1)
    x = np.vstack([[1.7, 1.3, 0], plane.reshape(-1, 3)])
    frame = rows.nearest(x * [1, 1e-3, 1])
    assert_allclose(frame.lengths, [1.7, 1.3], atol=1e-9)
    assert_allclose(np.abs(frame.axes[2]), [0, 0, 1], atol=1e-12)
    with pytest.raises(DegenerateFitError, match="the surface of a slider has no normal at"):
        rows.nearest(x * [1, 0, 1])


def test_derivatives(slider, rng):
    """Of the equations and of the lengths, well away from where the frame was taken."""
    rows, x = slider
    frame = rows.nearest(x)
    x = x + 0.05 * rng.standard_normal(x.shape)
    d, multipliers = rng.standard_normal(x.shape), rng.standard_normal(3)
    J = np.zeros((3, *x.shape))
    J[:, rows.stencil] = rows.gradients(x, frame)
    change = along(lambda t: rows.values(x + t * d, frame))
    assert_allclose(J.reshape(3, -1) @ d.ravel(), change, atol=1e-8)
    H = rows.elements(x, frame, multipliers)
    assert_allclose(H, H.T, atol=1e-14 * np.abs(H).max())
    change = along(lambda t: np.einsum("r,rpi->pi", multipliers, rows.gradients(x + t * d, frame)))
    assert_allclose(H @ d[rows.stencil].ravel(), change.ravel(), atol=1e-7)


def test_binding(rng):
    """The point is on the curve, at the place that is nearest to where it was asked for, within the ends."""
    first, second = rng.standard_normal((20, 3)), rng.standard_normal((30, 3))
    path = np.array([[-0.5, 0, 0], [0, 0, 0], [0.5, 0, 0]])
    slider = pg.bind_slider(first, second, [0.2, 0.7, 0], path)
    assert_allclose(slider.first.targets, [[0.2, 0, 0]], atol=1e-14)
    assert (slider.kind, len(slider)) == ("curve", 1)
    assert_allclose(slider.start, 0.7)
    assert_allclose(slider.second.positions(second), path, atol=1e-13)
    assert_allclose(pg.bind_slider(first, second, [3.0, 0, 0], path).start, 1.0)
    line = np.stack([path, path + [0.1, 0, 0]])
    for at, places, closed, message in (
        ([0, 0, 0], path[:1], False, "path must have at least two places, got 1"),
        ([0, 0, 0], path[:2], True, "path must have at least three places if it is closed, got 2"),
        ([0, 0, 0], path[[0, 1, 1]], False, "got place 1 twice"),
        ([0, 0, 0], path[[0, 1, 2, 0]], True, "got place 3 twice"),
        ([0, 0, 0], path[[[0, 1, 1], [2, 0, 2]]], False, "got place 0, 1 twice"),
        ([0, 0, 0], path[[[0, 1], [0, 2]]], False, "got place 0, 0 twice"),
        ([0, 0, 0], line, False, "span a surface, got both directions along one line at place 0, 0"),
        ([0, 0, 0], path[0], False, r"path must have shape \(n, 3\), or \(m, n, 3\) for a surface"),
        ([0, 0], path, False, r"at must have shape \(3,\)"),
    ):
        with pytest.raises(InputError, match=message):
            pg.bind_slider(first, second, at, places, closed=closed)


def test_binding_to_a_surface(rng):
    """Beyond an edge it is bound to the edge, at the place that is nearest along it."""
    first, second = rng.standard_normal((20, 3)), rng.standard_normal((30, 3))
    u, v = np.meshgrid(np.linspace(0, 0.6, 4), np.linspace(0, 0.4, 3), indexing="ij")
    path = np.stack([u, 0 * u, v], axis=-1)
    slider = pg.bind_slider(first, second, [0.25, 0.3, 1.0], path)
    assert slider.kind == "surface"
    assert_allclose(slider.start, [0.25, 0.4], atol=1e-14)
    assert_allclose(slider.first.targets, [[0.25, 0, 0.4]], atol=1e-14)
    assert_allclose(slider.second.positions(second), path.reshape(-1, 3), atol=1e-13)
