"""Kernels of the rigid fit and its derivatives over groups of points.

All of them see one layout. There are F poses of N points, ``points[f, i]``, and K groups of
entries: entry e of group k, ``offsets[k] <= e < offsets[k + 1]``, is point ``indices[e]`` with
normalised weight ``w[e]`` and weighted rest offset ``wv[e] = w[e] (rest - rest centroid)``. Fit
number ``f K + k`` is group k in pose f. Matrices are flat, row by row; the plane is the case z = 0.

Symbols are those of docs/derivations: A moment, R rotation, S = R^T A stretch, G = (tr(S) I - S)^-1.
"""

import math

import numpy as np

from ..compute import kernel
from .algebra import product, product_nt, turn, turn_second
from .rotation import (
    BLOCK,
    LEAST_D,
    REGULAR,
    SCRATCH,
    WORK,
    block_failed,
    block_rotations,
    robust_rotation,
    settled_rotation,
    spin_compliance,
    symmetric_stretch,
)


@kernel
def _moment(points, f, first, last, indices, wv, w, A, t):
    """A = sum w (x - x0) v^T and t = sum w x of one group, x0 its first point.

    Measured from x0 the sums do not suffer from a group far from the origin; the choice of x0 drops
    out because the v are centred.
    """
    i = indices[first]
    ox, oy, oz = np.float64(points[f, i, 0]), np.float64(points[f, i, 1]), np.float64(points[f, i, 2])
    tx = ty = tz = 0.0
    a00 = a01 = a02 = a10 = a11 = a12 = a20 = a21 = a22 = 0.0
    for e in range(first, last):
        i = indices[e]
        x = np.float64(points[f, i, 0]) - ox
        y = np.float64(points[f, i, 1]) - oy
        z = np.float64(points[f, i, 2]) - oz
        vx, vy, vz = wv[e, 0], wv[e, 1], wv[e, 2]
        tx += w[e] * x
        ty += w[e] * y
        tz += w[e] * z
        a00 += x * vx
        a01 += x * vy
        a02 += x * vz
        a10 += y * vx
        a11 += y * vy
        a12 += y * vz
        a20 += z * vx
        a21 += z * vy
        a22 += z * vz
    A[0], A[1], A[2], A[3], A[4], A[5], A[6], A[7], A[8] = a00, a01, a02, a10, a11, a12, a20, a21, a22
    t[0], t[1], t[2] = ox + tx, oy + ty, oz + tz


@kernel
def _keep_in_plane(A):
    """Give a moment of the plane the entry A_zz = s1: R then turns about z, and the gap is (s1 + s2) / s1."""
    A[8] = 0.5 * (math.hypot(A[0] + A[4], A[3] - A[1]) + math.hypot(A[0] - A[4], A[3] + A[1]))


@kernel
def fit(
    start, stop, points, offsets, indices, wv, w, planar, previous, min_gap, R, t, A, status
):
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
            _moment(points, f, offsets[k], offsets[k + 1], indices, wv, w, moments[m], t[base + m])
            if planar:
                _keep_in_plane(moments[m])
        block_rotations(moments.reshape(-1), turned.reshape(-1), scratch, least_d)
        for m in range(count):
            n = base + m
            status[n] = REGULAR
            if block_failed(scratch, m):
                status[n] = settled_rotation(moments[m], turned[m], s, previous[n % len(previous)], min_gap, work)
            for j in range(9):
                R[n, j] = turned[m, j]
                A[n, j] = moments[m, j]


@kernel
def spin_state(start, stop, R, A, min_gap, S, G):
    """S = R^T A and G = (tr(S) I - S)^-1 of fits start..stop: what the derivatives need."""
    work = np.empty(WORK)
    for n in range(start, stop):
        symmetric_stretch(R[n], A[n], S[n])
        spin_compliance(S[n], min_gap, G[n], work)


@kernel
def singular_values(start, stop, A, s):
    """s (n, 3): descending, the last one signed like det A."""
    work, R = np.empty(WORK), np.empty(9)
    for n in range(start, stop):
        robust_rotation(A[n], R, s[n], work)


@kernel
def moment_rate(rates, f, first, last, indices, wv, dA):
    """dA = sum w dx v^T of one group."""
    for j in range(9):
        dA[j] = 0.0
    for e in range(first, last):
        i = indices[e]
        for row in range(3):
            rate = np.float64(rates[f, i, row])
            dA[3 * row] += rate * wv[e, 0]
            dA[3 * row + 1] += rate * wv[e, 1]
            dA[3 * row + 2] += rate * wv[e, 2]


@kernel
def jvp(
    start, stop, rates, offsets, indices, wv, w, R, G, dR, dt
):
    """Rates dR of the rotation and dt of the centroid for rates of the points."""
    groups = len(offsets) - 1
    dA, M = np.empty(9), np.empty(9)
    for n in range(start, stop):
        f, k = divmod(n, groups)
        moment_rate(rates, f, offsets[k], offsets[k + 1], indices, wv, dA)
        turn(R[n], G[n], dA, dR[n], M)
        for axis in range(3):
            dt[n, axis] = 0.0
            for e in range(offsets[k], offsets[k + 1]):
                dt[n, axis] += w[e] * rates[f, indices[e], axis]


@kernel
def second(
    start, stop, rates1, rates2, offsets, indices, wv, R, S, G, out
):
    """out = D2R[rates1, rates2]; the centroid is linear in the points and has none."""
    groups = len(offsets) - 1
    dA1, dA2, work = np.empty(9), np.empty(9), np.empty(27)
    for n in range(start, stop):
        f, k = divmod(n, groups)
        moment_rate(rates1, f, offsets[k], offsets[k + 1], indices, wv, dA1)
        moment_rate(rates2, f, offsets[k], offsets[k + 1], indices, wv, dA2)
        turn_second(R[n], S[n], G[n], dA1, dA2, out[n], work)


@kernel
def turns(start, stop, R, G, dA, out):
    """DR[dA] of matrices start..stop."""
    M = np.empty(9)
    for n in range(start, stop):
        turn(R[n], G[n], dA[n], out[n], M)


@kernel
def spread(
    start, stop, point_offsets, point_entries, group_of, groups, wv, w, B, b, out
):
    """out[f, i] = sum over the entries of point i of B wv + b w: the transpose of the moments.

    Gathered point by point instead of scattered group by group, so that no two threads write to one
    place and the order of the sum is fixed.
    """
    N = len(point_offsets) - 1
    for n in range(start, stop):
        f, i = divmod(n, N)
        x = y = z = 0.0
        for q in range(point_offsets[i], point_offsets[i + 1]):
            e = point_entries[q]
            k = f * groups + group_of[e]
            vx, vy, vz = wv[e, 0], wv[e, 1], wv[e, 2]
            x += B[k, 0] * vx + B[k, 1] * vy + B[k, 2] * vz + b[k, 0] * w[e]
            y += B[k, 3] * vx + B[k, 4] * vy + B[k, 5] * vz + b[k, 1] * w[e]
            z += B[k, 6] * vx + B[k, 7] * vy + B[k, 8] * vz + b[k, 2] * w[e]
        out[f, i, 0], out[f, i, 1], out[f, i, 2] = x, y, z


@kernel
def jacobian(
    start, stop, offsets, wv, w, R, G, arms, out
):
    """Blocks out[f, j, e] = w I - [u_b]x G_w [w u]x of point j of each fit, u_b its arm, u = R v.

    `arms` (n, m, 3) are the points in the rest frame, from the rest centroid. G_w = R G R^T. Each
    block is linear in the weighted offset of its entry, so three matrices a point serve them all.
    """
    groups, m, entries = len(offsets) - 1, arms.shape[1], len(w)
    GR, RG, J = np.empty(9), np.empty(9), np.empty((3, 9))
    for n in range(start, stop):
        f, k = divmod(n, groups)
        r = R[n]
        product(r, G[n], RG)
        product_nt(RG, r, GR)
        for j in range(m):
            px, py, pz = arms[n, j, 0], arms[n, j, 1], arms[n, j, 2]
            bx = r[0] * px + r[1] * py + r[2] * pz
            by = r[3] * px + r[4] * py + r[5] * pz
            bz = r[6] * px + r[7] * py + r[8] * pz
            for axis in range(3):
                # -[u_b]x G_w [R e]x for the axis e of the rest frame; row by row, l x (R e) with
                # l a row of [u_b]x G_w.
                ex, ey, ez = r[axis], r[3 + axis], r[6 + axis]
                for row in range(3):
                    if row == 0:
                        lx = by * GR[6] - bz * GR[3]
                        ly = by * GR[7] - bz * GR[4]
                        lz = by * GR[8] - bz * GR[5]
                    elif row == 1:
                        lx = bz * GR[0] - bx * GR[6]
                        ly = bz * GR[1] - bx * GR[7]
                        lz = bz * GR[2] - bx * GR[8]
                    else:
                        lx = bx * GR[3] - by * GR[0]
                        ly = bx * GR[4] - by * GR[1]
                        lz = bx * GR[5] - by * GR[2]
                    J[axis, 3 * row] = lz * ey - ly * ez
                    J[axis, 3 * row + 1] = lx * ez - lz * ex
                    J[axis, 3 * row + 2] = ly * ex - lx * ey
            for e in range(offsets[k], offsets[k + 1]):
                block = out[(f * m + j) * entries + e]
                x, y, z = wv[e, 0], wv[e, 1], wv[e, 2]
                for c in range(9):
                    block[c] = x * J[0, c] + y * J[1, c] + z * J[2, c]
                block[0] += w[e]
                block[4] += w[e]
                block[8] += w[e]
