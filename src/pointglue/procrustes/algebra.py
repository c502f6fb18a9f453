"""Algebra of 3x3 matrices stored flat, row by row, and the derivatives of the rotation of one matrix.

Symbols are those of explanation/derivations: R rotation, S = R^T A stretch, G = (tr(S) I - S)^-1, omega the
spin in the rest frame (dR = R [omega]x).
"""

import math

from ..compute import kernel

# The entry A_zz of a moment of the plane, in units of its largest singular value s1 = 0.5 (hypot + hypot). A
# trifle more than s1, so that z is always the first of the axes and a free spin is about it.
OUT_OF_PLANE = 0.5 * (1 + 1e-12)


@kernel
def product(X, Y, Z):
    """Z = X Y."""
    for row in range(0, 9, 3):
        x0, x1, x2 = X[row], X[row + 1], X[row + 2]
        for column in range(3):
            Z[row + column] = x0 * Y[column] + x1 * Y[3 + column] + x2 * Y[6 + column]


@kernel
def product_tn(X, Y, Z):
    """Z = X^T Y."""
    for row in range(3):
        x0, x1, x2 = X[row], X[3 + row], X[6 + row]
        for column in range(3):
            Z[3 * row + column] = x0 * Y[column] + x1 * Y[3 + column] + x2 * Y[6 + column]


@kernel
def product_nt(X, Y, Z):
    """Z = X Y^T."""
    for row in range(0, 9, 3):
        for column in range(3):
            y = 3 * column
            Z[row + column] = X[row] * Y[y] + X[row + 1] * Y[y + 1] + X[row + 2] * Y[y + 2]


@kernel
def times_cross(R, x, y, z, out):
    """out = R [(x, y, z)]x."""
    for row in range(0, 9, 3):
        r0, r1, r2 = R[row], R[row + 1], R[row + 2]
        out[row] = r1 * z - r2 * y
        out[row + 1] = r2 * x - r0 * z
        out[row + 2] = r0 * y - r1 * x


@kernel
def spin(G, M):
    """omega = G vee(M - M^T), the spin caused by the moment rate M = R^T dA."""
    kx, ky, kz = M[7] - M[5], M[2] - M[6], M[3] - M[1]
    return (
        G[0] * kx + G[1] * ky + G[2] * kz,
        G[3] * kx + G[4] * ky + G[5] * kz,
        G[6] * kx + G[7] * ky + G[8] * kz,
    )


@kernel
def out_of_plane(xx, xy, yx, yy):
    """A_zz of a moment of the plane: with it R is about z, and the gap is (s1 + s2) / s1."""
    diagonal = math.hypot(xx + yy, yx - xy)
    return OUT_OF_PLANE * (diagonal + math.hypot(xx - yy, yx + xy))


@kernel
def rotation_derivative(R, G, dA, out, M):
    """out = DR[dA] = R [omega]x. The map is symmetric: it is its own transpose, jvp and vjp in one."""
    product_tn(R, dA, M)
    x, y, z = spin(G, M)
    times_cross(R, x, y, z, out)


@kernel
def _stretch_rate(S, M, x, y, z, T):
    """T = tr(dS) I - dS with dS = M - [omega]x S, for omega = (x, y, z)."""
    d00 = M[0] - (y * S[6] - z * S[3])
    d11 = M[4] - (z * S[1] - x * S[7])
    d22 = M[8] - (x * S[5] - y * S[2])
    T[0], T[4], T[8] = d11 + d22, d00 + d22, d00 + d11
    # Both triangles of dS are equal but for rounding: their mean keeps T exactly symmetric.
    T[1] = -0.5 * (M[1] - (y * S[7] - z * S[4]) + M[3] - (z * S[0] - x * S[6]))
    T[2] = -0.5 * (M[2] - (y * S[8] - z * S[5]) + M[6] - (x * S[3] - y * S[0]))
    T[5] = -0.5 * (M[5] - (z * S[2] - x * S[8]) + M[7] - (x * S[4] - y * S[1]))
    T[3], T[6], T[7] = T[1], T[2], T[5]


@kernel
def rotation_second_derivative(R, S, G, dA1, dA2, out, work):
    """out = D2R[dA1, dA2] = R ([omega2]x [omega1]x + [a]x),

    a = -G (T1 omega2 + T2 omega1 - omega1 x S omega2),    T = tr(dS) I - dS,

    with the mean over the order of the two: the same, but also symmetric where G is clamped.
    """
    M, T1, T2 = work[:9], work[9:18], work[18:27]
    product_tn(R, dA1, M)
    x1, y1, z1 = spin(G, M)
    _stretch_rate(S, M, x1, y1, z1, T1)
    product_tn(R, dA2, M)
    x2, y2, z2 = spin(G, M)
    _stretch_rate(S, M, x2, y2, z2, T2)
    sx = S[0] * x2 + S[1] * y2 + S[2] * z2
    sy = S[3] * x2 + S[4] * y2 + S[5] * z2
    sz = S[6] * x2 + S[7] * y2 + S[8] * z2
    px = S[0] * x1 + S[1] * y1 + S[2] * z1
    py = S[3] * x1 + S[4] * y1 + S[5] * z1
    pz = S[6] * x1 + S[7] * y1 + S[8] * z1
    cx = 0.5 * (y1 * sz - z1 * sy + y2 * pz - z2 * py)
    cy = 0.5 * (z1 * sx - x1 * sz + z2 * px - x2 * pz)
    cz = 0.5 * (x1 * sy - y1 * sx + x2 * py - y2 * px)
    bx = T1[0] * x2 + T1[1] * y2 + T1[2] * z2 + T2[0] * x1 + T2[1] * y1 + T2[2] * z1 - cx
    by = T1[3] * x2 + T1[4] * y2 + T1[5] * z2 + T2[3] * x1 + T2[4] * y1 + T2[5] * z1 - cy
    bz = T1[6] * x2 + T1[7] * y2 + T1[8] * z2 + T2[6] * x1 + T2[7] * y1 + T2[8] * z1 - cz
    ax = -(G[0] * bx + G[1] * by + G[2] * bz)
    ay = -(G[3] * bx + G[4] * by + G[5] * bz)
    az = -(G[6] * bx + G[7] * by + G[8] * bz)
    # [omega2]x [omega1]x = omega1 omega2^T - (omega1 . omega2) I
    dot = x1 * x2 + y1 * y2 + z1 * z2
    xy, xz, yz = 0.5 * (x1 * y2 + y1 * x2), 0.5 * (x1 * z2 + z1 * x2), 0.5 * (y1 * z2 + z1 * y2)
    M[0], M[1], M[2] = x1 * x2 - dot, xy - az, xz + ay
    M[3], M[4], M[5] = xy + az, y1 * y2 - dot, yz - ax
    M[6], M[7], M[8] = xz - ay, yz + ax, z1 * z2 - dot
    product(R, M, out)
