"""Independent references: slow, in many digits, and written without the package's formulas."""

import mpmath as mp
import numpy as np
from scipy.spatial.transform import Rotation

DIGITS = 60


def random_rotation(rng):
    return Rotation.random(rng=rng).as_matrix()


def exact_rotation(A):
    """R and signed singular values of the matrix A of floats, by a decomposition in 60 digits."""
    with mp.workdps(DIGITS):
        M = mp.matrix(A.tolist()) if isinstance(A, np.ndarray) else A
        U, s, Vh = mp.svd_r(M)
        sign = mp.sign(mp.det(U) * mp.det(Vh))
        Z = mp.diag([1] * (M.rows - 1) + [sign])
        return U * Z * Vh, [*list(s)[:-1], sign * s[M.rows - 1]]


def exact_fit(rest, points, weights):
    """R and translation of one fit in 60 digits; the points may be mpmath matrices."""
    with mp.workdps(DIGITS):
        X, Y = mp.matrix(rest), points if isinstance(points, mp.matrix) else mp.matrix(points)
        total = mp.fsum(weights)
        w = [mp.mpf(weight) / total for weight in weights]
        n, d = X.rows, X.cols
        rest_centroid = mp.matrix([mp.fsum(w[i] * X[i, k] for i in range(n)) for k in range(d)])
        centroid = mp.matrix([mp.fsum(w[i] * Y[i, k] for i in range(n)) for k in range(d)])
        A = mp.matrix(d, d)
        for j in range(d):
            for k in range(d):
                A[j, k] = mp.fsum(
                    w[i] * (Y[i, j] - centroid[j]) * (X[i, k] - rest_centroid[k]) for i in range(n)
                )
        R, _ = exact_rotation(A)
        return R, centroid - R * rest_centroid


def as_array(M):
    return np.array(M.tolist(), dtype=float)


def exact_derivatives(rest, points, weights, d1, d2, h="1e-15"):
    """First derivative along d1 and mixed second derivative along d1, d2 of (R, translation).

    Central differences in 60 digits: with h = 1e-15 their error is about 1e-30.
    """
    with mp.workdps(DIGITS):
        step = mp.mpf(h)
        X, D1, D2 = mp.matrix(points), mp.matrix(d1), mp.matrix(d2)

        def at(a, b):
            return exact_fit(rest, X + a * step * D1 + b * step * D2, weights)

        plus, minus = at(1, 0), at(-1, 0)
        first = [as_array((p - m) / (2 * step)) for p, m in zip(plus, minus, strict=True)]
        corners = at(1, 1), at(1, -1), at(-1, 1), at(-1, -1)
        second = [as_array((a - b - c + d) / (4 * step * step)) for a, b, c, d in zip(*corners, strict=True)]
        return (first[0], first[1].ravel()), (second[0], second[1].ravel())
