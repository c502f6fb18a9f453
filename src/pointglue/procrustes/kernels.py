"""Kernels of the rigid fit and its derivatives over groups of points.

All of them see one layout. There are F poses of N points, ``points[f, i]``, and K groups of
entries: entry e of group k, ``offsets[k] <= e < offsets[k + 1]``, is point ``indices[e]`` with
normalised weight w and rest offset v = rest - rest centroid, held as ``q[e] = w (v, 1)``. Fit number
``f K + k`` is group k in pose f. Matrices are flat, row by row; the plane is the case z = 0.

Symbols are those of docs/derivations: A moment, R rotation, S = R^T A stretch, G = (tr(S) I - S)^-1.
"""

import math

import numpy as np

from ..compute import kernel
from .algebra import product, times_cross, turn, turn_second
from .rotation import (
    BLOCK,
    LEAST_D,
    LEAST_MOMENT,
    REGULAR,
    SCRATCH,
    WORK,
    block_failed,
    block_rotations,
    robust_rotation,
    settled_rotation,
    spin_compliance,
    stretch,
)


@kernel
def _moment(points, f, first, last, indices, q, A, t):
    """[A | t] = sum x q^T of one group, x measured from its first point.

    So measured the sums do not suffer from a group far from the origin, and the choice of the point
    drops out of A because the rest offsets are centred.
    """
    i = indices[first]
    ox, oy, oz = np.float64(points[f, i, 0]), np.float64(points[f, i, 1]), np.float64(points[f, i, 2])
    a00 = a01 = a02 = a03 = a10 = a11 = a12 = a13 = a20 = a21 = a22 = a23 = 0.0
    for e in range(first, last):
        i = indices[e]
        x = np.float64(points[f, i, 0]) - ox
        y = np.float64(points[f, i, 1]) - oy
        z = np.float64(points[f, i, 2]) - oz
        q0, q1, q2, q3 = q[e, 0], q[e, 1], q[e, 2], q[e, 3]
        a00 += x * q0
        a01 += x * q1
        a02 += x * q2
        a03 += x * q3
        a10 += y * q0
        a11 += y * q1
        a12 += y * q2
        a13 += y * q3
        a20 += z * q0
        a21 += z * q1
        a22 += z * q2
        a23 += z * q3
    A[0], A[1], A[2], A[3], A[4], A[5], A[6], A[7], A[8] = a00, a01, a02, a10, a11, a12, a20, a21, a22
    t[0], t[1], t[2] = ox + a03, oy + a13, oz + a23


@kernel
def _keep_in_plane(A):
    """Give a moment of the plane the entry A_zz = s1: R then turns about z, and the gap is (s1 + s2) / s1."""
    A[8] = 0.5 * (math.hypot(A[0] + A[4], A[3] - A[1]) + math.hypot(A[0] - A[4], A[3] + A[1]))


@kernel
def fit(start, stop, points, offsets, indices, q, planar, previous, min_gap, R, t, A, status):
    """Rotation R, centroid t, moment A and status of fits start..stop."""
    groups = len(offsets) - 1
    least_d = max(LEAST_D, 4.0 * min_gap)
    scratch, work, s = np.empty(SCRATCH), np.empty(WORK), np.empty(3)
    moments, turned = np.empty((BLOCK, 9)), np.empty((BLOCK, 9))
    for base in range(start, stop, BLOCK):
        count = min(BLOCK, stop - base)
        for m in range(count, BLOCK):
            for j in range(9):
                moments[m, j] = 0.0
        for m in range(count):
            f, k = divmod(base + m, groups)
            _moment(points, f, offsets[k], offsets[k + 1], indices, q, moments[m], t[base + m])
            if planar:
                _keep_in_plane(moments[m])
        block_rotations(moments.reshape(-1), turned.reshape(-1), scratch, least_d)
        for m in range(count):
            n = base + m
            status[n] = REGULAR
            if block_failed(scratch, m):
                if np.abs(moments[m]).max() < LEAST_MOMENT:
                    moments[m] = 0.0
                status[n] = settled_rotation(
                    moments[m], turned[m], s, previous[n % len(previous)], min_gap, work
                )
            for j in range(9):
                R[n, j] = turned[m, j]
                A[n, j] = moments[m, j]


@kernel
def stretches(start, stop, R, A, S):
    """S = R^T A of fits start..stop."""
    for n in range(start, stop):
        stretch(R[n], A[n], S[n])


@kernel
def compliances(start, stop, R, A, min_gap, G):
    """G = (tr(S) I - S)^-1 of fits start..stop."""
    work = np.empty(WORK)
    for n in range(start, stop):
        spin_compliance(R[n], A[n], min_gap, G[n], work)


@kernel
def singular_values(start, stop, A, s):
    """s (n, 3): descending, the last one signed like det A."""
    work, R = np.empty(WORK), np.empty(9)
    for n in range(start, stop):
        robust_rotation(A[n], R, s[n], work)


@kernel
def moment_rate(rates, f, first, last, indices, q, dA):
    """dA = sum dx q^T of one group, 3 x 4 by columns of q: the rates of [A | t]."""
    for j in range(12):
        dA[j] = 0.0
    for e in range(first, last):
        i = indices[e]
        for row in range(3):
            rate = np.float64(rates[f, i, row])
            for column in range(3):
                dA[3 * row + column] += rate * q[e, column]
            dA[9 + row] += rate * q[e, 3]


@kernel
def jvp(start, stop, rates, offsets, indices, q, R, G, dR, dt):
    """Rates dR of the rotation and dt of the centroid for rates of the points."""
    groups = len(offsets) - 1
    dA, M = np.empty(12), np.empty(9)
    for n in range(start, stop):
        f, k = divmod(n, groups)
        moment_rate(rates, f, offsets[k], offsets[k + 1], indices, q, dA)
        turn(R[n], G[n], dA, dR[n], M)
        for axis in range(3):
            dt[n, axis] = dA[9 + axis]


@kernel
def second(start, stop, rates1, rates2, offsets, indices, q, R, S, G, out):
    """out = D2R[rates1, rates2]; the centroid is linear in the points and has none."""
    groups = len(offsets) - 1
    dA1, dA2, work = np.empty(12), np.empty(12), np.empty(27)
    for n in range(start, stop):
        f, k = divmod(n, groups)
        moment_rate(rates1, f, offsets[k], offsets[k + 1], indices, q, dA1)
        moment_rate(rates2, f, offsets[k], offsets[k + 1], indices, q, dA2)
        turn_second(R[n], S[n], G[n], dA1, dA2, out[n], work)


@kernel
def turns(start, stop, R, G, dA, out):
    """DR[dA] of matrices start..stop."""
    M = np.empty(9)
    for n in range(start, stop):
        turn(R[n], G[n], dA[n], out[n], M)


@kernel
def turns_of_matrices(start, stop, A, R, dA, min_gap, out):
    """DR[dA] at the matrices A with rotations R, in one pass: for automatic differentiation."""
    G, M, work = np.empty(9), np.empty(9), np.empty(WORK)
    for n in range(start, stop):
        spin_compliance(R[n], A[n], min_gap, G, work)
        turn(R[n], G, dA[n], out[n], M)


@kernel
def spread(start, stop, point_offsets, point_entries, group_of, groups, q, B, b, out):
    """out[f, i] = sum over the entries of point i of [B | b] q: the transpose of the moments.

    Gathered point by point instead of scattered group by group, so that no two threads write to one
    place and the order of the sum is fixed.
    """
    N = len(point_offsets) - 1
    for n in range(start, stop):
        f, i = divmod(n, N)
        x = y = z = 0.0
        for at in range(point_offsets[i], point_offsets[i + 1]):
            e = point_entries[at]
            k = f * groups + group_of[e]
            q0, q1, q2, q3 = q[e, 0], q[e, 1], q[e, 2], q[e, 3]
            x += B[k, 0] * q0 + B[k, 1] * q1 + B[k, 2] * q2 + b[k, 0] * q3
            y += B[k, 3] * q0 + B[k, 4] * q1 + B[k, 5] * q2 + b[k, 1] * q3
            z += B[k, 6] * q0 + B[k, 7] * q1 + B[k, 8] * q2 + b[k, 2] * q3
        out[f, i, 0], out[f, i, 1], out[f, i, 2] = x, y, z


@kernel
def jacobian(start, stop, offsets, q, R, G, arms, out):
    """Blocks out[f, j, e] = w I - L [w v]x R^T, L = R [v_b]x G, of point j of each fit.

    `arms` (n, m, 3) are the v_b: points in the rest frame, from the rest centroid. A block is linear
    in q, so that three matrices X, Y, Z a point serve all entries: X = -L [e_x]x R^T and so on, an
    outer product of columns of L and R twice.
    """
    groups, m, entries = len(offsets) - 1, arms.shape[1], len(q)
    C, L = np.empty(9), np.empty(9)
    for n in range(start, stop):
        f, k = divmod(n, groups)
        r00, r01, r02, r10, r11, r12, r20, r21, r22 = (
            R[n, 0], R[n, 1], R[n, 2], R[n, 3], R[n, 4], R[n, 5], R[n, 6], R[n, 7], R[n, 8]
        )  # fmt: skip
        for j in range(m):
            times_cross(R[n], arms[n, j, 0], arms[n, j, 1], arms[n, j, 2], C)
            product(C, G[n], L)
            l00, l01, l02, l10, l11, l12, l20, l21, l22 = L[0], L[1], L[2], L[3], L[4], L[5], L[6], L[7], L[8]
            x0, x1, x2 = l01 * r02 - l02 * r01, l01 * r12 - l02 * r11, l01 * r22 - l02 * r21
            x3, x4, x5 = l11 * r02 - l12 * r01, l11 * r12 - l12 * r11, l11 * r22 - l12 * r21
            x6, x7, x8 = l21 * r02 - l22 * r01, l21 * r12 - l22 * r11, l21 * r22 - l22 * r21
            y0, y1, y2 = l02 * r00 - l00 * r02, l02 * r10 - l00 * r12, l02 * r20 - l00 * r22
            y3, y4, y5 = l12 * r00 - l10 * r02, l12 * r10 - l10 * r12, l12 * r20 - l10 * r22
            y6, y7, y8 = l22 * r00 - l20 * r02, l22 * r10 - l20 * r12, l22 * r20 - l20 * r22
            z0, z1, z2 = l00 * r01 - l01 * r00, l00 * r11 - l01 * r10, l00 * r21 - l01 * r20
            z3, z4, z5 = l10 * r01 - l11 * r00, l10 * r11 - l11 * r10, l10 * r21 - l11 * r20
            z6, z7, z8 = l20 * r01 - l21 * r00, l20 * r11 - l21 * r10, l20 * r21 - l21 * r20
            at = (f * m + j) * entries
            for e in range(offsets[k], offsets[k + 1]):
                u, v, s, w = q[e, 0], q[e, 1], q[e, 2], q[e, 3]
                b0, b1, b2 = x0 * u + y0 * v + z0 * s + w, x1 * u + y1 * v + z1 * s, x2 * u + y2 * v + z2 * s
                b3, b4, b5 = x3 * u + y3 * v + z3 * s, x4 * u + y4 * v + z4 * s + w, x5 * u + y5 * v + z5 * s
                b6, b7, b8 = x6 * u + y6 * v + z6 * s, x7 * u + y7 * v + z7 * s, x8 * u + y8 * v + z8 * s + w
                out[at + e, 0], out[at + e, 1], out[at + e, 2] = b0, b1, b2
                out[at + e, 3], out[at + e, 4], out[at + e, 5] = b3, b4, b5
                out[at + e, 6], out[at + e, 7], out[at + e, 8] = b6, b7, b8
