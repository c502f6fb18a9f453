"""Products of differences and angles about axes: their values by hand, their derivatives by differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pointglue.glue.joint_functions import AxisAngles, PairProducts


def made(kind, rng):
    """Four functions of a dozen points, some of which are in a stencil twice."""
    width = 4 if kind is PairProducts else 5
    stencils = np.array([rng.permutation(12)[:width] for _ in range(4)])
    if kind is PairProducts:
        stencils[0, 3] = stencils[0, 1]
    return kind(stencils, rng.uniform(0.5, 2.0, 4)), rng.standard_normal((12, 3))


def scattered(stencils, each):
    """Rows of a dense matrix (M, 36) from vectors of stencils (M, k, 3)."""
    out = np.zeros((len(stencils), 12, 3))
    for m, points in enumerate(stencils):
        np.add.at(out[m], points, each[m])
    return out.reshape(len(stencils), -1)


@pytest.mark.parametrize("kind", [PairProducts, AxisAngles])
def test_derivatives(kind, rng):
    """Complex steps are no help to atan2: central differences of 4th order."""
    function, x = made(kind, rng)
    multipliers, d, h = rng.standard_normal(4), rng.standard_normal((12, 3)), 1e-3

    def along(f):
        weights = zip((-2, -1, 1, 2), (1, -8, 8, -1), strict=True)
        return sum(w * f(x + k * h * d) for k, w in weights) / (12 * h)

    J = scattered(function.stencils, function.gradients(x))
    assert_allclose(J @ d.ravel(), along(function.values), rtol=1e-8, atol=1e-8)
    H = function.elements(x, multipliers)
    assert_allclose(H, np.swapaxes(H, 1, 2), atol=1e-13)
    moved = d[function.stencils].reshape(4, -1)
    each = np.einsum("mij,mj->mi", H, moved).reshape(4, -1, 3)
    change = along(lambda x: multipliers[:, None, None] * function.gradients(x))
    assert_allclose(each, change, rtol=1e-7, atol=1e-7)


def test_values():
    """A frame turned by 2 rad about z, and a distance along an axis of twice the reach."""
    angle = 2.0
    turned = np.array([np.cos(angle), np.sin(angle), 0])
    # The one frame is turned against the other, which is at rest with v' along x.
    w = np.array([-np.sin(angle), np.cos(angle), 0])
    x = np.array([[1.0, 1, 1], 1 + 0.5 * turned, 1 + 0.5 * w, [3, 0, 0], [3.5, 0, 0]])
    angles = AxisAngles(np.arange(5)[None], np.array([0.5]))
    assert_allclose(angles.values(x), 0.5 * angle, rtol=1e-14)
    products = PairProducts(np.array([[3, 0, 4, 3]]), np.array([0.5]))
    assert_allclose(products.values(x), 2.0, rtol=1e-14)
