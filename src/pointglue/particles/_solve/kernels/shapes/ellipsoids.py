"""Ellipsoids that touch planes and each other, exactly: appendix A of the paper, with its A.2 corrected.

An ellipsoid about the origin is {x : x^T A x <= 1}, and it is stored as G = A^-1 (paper, eq. 25): flat,
9 numbers row by row, of which the symmetric half is read. From rest to now it turns by E, G = E C E^T.
"""

from math import inf, sqrt

from .....compute import kernel

__all__ = ["pair_normal", "pair_separation", "shape_matrix", "support"]

# A last step this small, relatively, leaves an error of its square in k, and of the square of that in d.
_STEP = 1e-4
# Less than this, relatively, between the axes of G is a sphere: d would change by the square of it.
_ROUND = 1e-7


@kernel
def shape_matrix(E, C, G):
    """Compute G = E C E^T, all flat (9,)."""
    if C[0] == C[4] and C[0] == C[8] and C[1] == 0.0 and C[2] == 0.0 and C[5] == 0.0:
        # A ball lies as it lies: E, which is far away in memory where there are many, is not read.
        for i in range(9):  # `G[:] = C` would compile a message about shapes into every kernel
            G[i] = C[i]
        return
    for i in range(3):
        e0, e1, e2 = E[3 * i], E[3 * i + 1], E[3 * i + 2]
        x = e0 * C[0] + e1 * C[1] + e2 * C[2]
        y = e0 * C[1] + e1 * C[4] + e2 * C[5]
        z = e0 * C[2] + e1 * C[5] + e2 * C[8]
        for j in range(i, 3):
            G[3 * i + j] = x * E[3 * j] + y * E[3 * j + 1] + z * E[3 * j + 2]
    G[3], G[6], G[7] = G[1], G[2], G[5]


@kernel
def support(G, nx, ny, nz):
    """Return sqrt(n^T G n), half the extent along a unit vector n; n^T x for the x of eq. 28."""
    return sqrt(_square(G, nx, ny, nz))


@kernel
def pair_separation(G1, G2, nx, ny, nz):
    """Return the distance d of centres at which two ellipsoids touch from outside, 2 along unit n from 1.

    d = min over w of (h1 + h2) / (n^T w),    h_i = sqrt(w^T G_i w),

    the first distance at which a plane fits between the two: its normal is w, see :func:`pair_normal`.
    The square of d is 1 / max over s of s (1 - s) n^T ((1 - s) G1 + s G2)^-1 n.
    """
    wx, wy, wz, f, g = _between(G1, G2, nx, ny, nz)
    return (sqrt(f) + sqrt(g)) / (nx * wx + ny * wy + nz * wz)


@kernel
def pair_normal(G1, G2, nx, ny, nz):
    """Return the unit normal w of the plane between two ellipsoids moved apart along n until they touch.

    It points from 1 to 2. With it come their supports h1 and h2 along w. The vector n may have any length
    but 0.
    """
    wx, wy, wz, f, g = _between(G1, G2, nx, ny, nz)
    scale = 1.0 / sqrt(wx * wx + wy * wy + wz * wz)
    return scale * wx, scale * wy, scale * wz, scale * sqrt(f), scale * sqrt(g)


@kernel
def _between(G1, G2, nx, ny, nz):
    """Return the normal w, of some length, of the plane between two touching ellipsoids, and w^T G w of both.

    Equations 31 to 34 with k = -lambda > 0 say that x = G1 w and d n - x = k G2 w at the contact, so that

    (G1 + k G2) w = d n,    w^T G1 w = k^2 w^T G2 w,

    and the second decides k: the quotient of the two forms exceeds k^2 below a certain k, and not above it.
    Newton's method finds that within brackets. The length of w drops out, so that the adjugate does for the
    inverse: w = p + k q + k^2 m. An error in w changes d by its square only, since d is a minimum over w.
    """
    if _is_round(G1) and _is_round(G2):
        return nx, ny, nz, _square(G1, nx, ny, nz), _square(G2, nx, ny, nz)
    a0, a1, a2, a4, a5, a8 = G1[0], G1[1], G1[2], G1[4], G1[5], G1[8]
    b0, b1, b2, b4, b5, b8 = G2[0], G2[1], G2[2], G2[4], G2[5], G2[8]
    px, py, pz = _adjugate((a0, a1, a2, a4, a5, a8), nx, ny, nz)
    mx, my, mz = _adjugate((b0, b1, b2, b4, b5, b8), nx, ny, nz)
    # The part of adj(G1 + k G2) that is linear in k.
    c0 = a4 * b8 + b4 * a8 - 2.0 * a5 * b5
    c4 = a0 * b8 + b0 * a8 - 2.0 * a2 * b2
    c8 = a0 * b4 + b0 * a4 - 2.0 * a1 * b1
    c1 = a2 * b5 + b2 * a5 - a1 * b8 - b1 * a8
    c2 = a1 * b5 + b1 * a5 - a2 * b4 - b2 * a4
    c5 = a1 * b2 + b1 * a2 - a5 * b0 - b5 * a0
    qx = c0 * nx + c1 * ny + c2 * nz
    qy = c1 * nx + c4 * ny + c5 * nz
    qz = c2 * nx + c5 * ny + c8 * nz
    k = sqrt(_square(G1, nx, ny, nz) / _square(G2, nx, ny, nz))
    low, high = 0.0, inf
    last = False
    for _ in range(80):
        wx, wy, wz = px + k * (qx + k * mx), py + k * (qy + k * my), pz + k * (qz + k * mz)
        ux, uy, uz = a0 * wx + a1 * wy + a2 * wz, a1 * wx + a4 * wy + a5 * wz, a2 * wx + a5 * wy + a8 * wz
        vx, vy, vz = b0 * wx + b1 * wy + b2 * wz, b1 * wx + b4 * wy + b5 * wz, b2 * wx + b5 * wy + b8 * wz
        f, g = wx * ux + wy * uy + wz * uz, wx * vx + wy * vy + wz * vz
        if last:
            break
        excess = f - k * k * g
        if excess > 0.0:
            low = k
        else:
            high = k
        dx, dy, dz = qx + 2.0 * k * mx, qy + 2.0 * k * my, qz + 2.0 * k * mz
        df, dg = dx * ux + dy * uy + dz * uz, dx * vx + dy * vy + dz * vz
        step = 0.5 * excess * g / (k * g * g - df * g + dg * f)
        last = abs(step) <= _STEP * k
        k += step
        if not low <= k <= high:
            last = False
            k = 0.5 * high if low == 0.0 else 2.0 * low if high == inf else sqrt(low * high)
    return wx, wy, wz, f, g


@kernel
def _is_round(G):
    """Return whether G is a multiple of the identity, nearly."""
    return abs(G[0] - G[4]) + abs(G[0] - G[8]) + abs(G[1]) + abs(G[2]) + abs(G[5]) <= _ROUND * G[0]


@kernel
def _square(G, x, y, z):
    """Return v^T G v."""
    return G[0] * x * x + G[4] * y * y + G[8] * z * z + 2.0 * (G[1] * x * y + G[2] * x * z + G[5] * y * z)


@kernel
def _adjugate(upper, x, y, z):
    """Return adj(G) v, G symmetric and given by its upper half, row by row."""
    g0, g1, g2, g4, g5, g8 = upper
    c0, c4, c8 = g4 * g8 - g5 * g5, g0 * g8 - g2 * g2, g0 * g4 - g1 * g1
    c1, c2, c5 = g2 * g5 - g1 * g8, g1 * g5 - g2 * g4, g1 * g2 - g5 * g0
    return c0 * x + c1 * y + c2 * z, c1 * x + c4 * y + c5 * z, c2 * x + c5 * y + c8 * z
