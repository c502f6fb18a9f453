"""Kernels of the rigid fit and its derivatives over groups of points.

All of them see one layout, that of `records`: there are F poses of N points, ``points[f, i]``, and K groups
of entries with ``q[e] = w (v, 1)``. Fit number ``f K + k`` is group k in pose f. Matrices are flat, row by
row; the plane is the case z = 0.

Symbols are those of explanation/derivations: A moment, R rotation, S = R^T A stretch, G = (tr(S) I - S)^-1.
"""

import numpy as np

from ..compute import kernel
from .algebra import out_of_plane, rotation_derivative, rotation_second_derivative
from .rotation import (
    BLOCK,
    LEAST_MOMENT,
    REGULAR,
    SCRATCH,
    UNRESOLVED,
    block_failed,
    block_rotations,
    stretch,
)

CHUNK = 512  # points summed at a time
JACOBIAN_BLOCK = 16  # fits whose Jacobians are begun together, for the sake of vector code as with BLOCK


@kernel
def fit(start, stop, rest, points, planar, least_d, out, status):
    """Compute rotations R, centroids t, moments A (in `out`, FitArrays) and status of fits start..stop.

    `rest` are RestArrays. The status is UNRESOLVED as in `rotation`.

    [A | t] = sum x q^T, with x measured from the heaviest point of the group, its head. So measured
    the sums do not suffer from a group far from the origin, nor from light points far from the others;
    the choice drops out of A because the rest offsets are centred. Long sums go by chunks, whose
    rounding errors do not add up along the whole group.
    """
    offsets, indices, heads, q = rest.offsets, rest.indices, rest.heads, rest.q
    R, t, A = out.R, out.t, out.A
    groups = len(offsets) - 1
    scratch, moments, rotations = np.empty(SCRATCH), np.zeros((BLOCK, 9)), np.empty((BLOCK, 9))
    for base in range(start, stop, BLOCK):
        count = min(BLOCK, stop - base)
        for m in range(BLOCK):
            for j in range(9):
                moments[m, j] = 0.0
        f, k = divmod(base, groups)
        for m in range(count):
            n, head, last = base + m, heads[k], offsets[k + 1]
            ox, oy, oz = (
                np.float64(points[f, head, 0]),
                np.float64(points[f, head, 1]),
                np.float64(points[f, head, 2]),
            )
            t[n, 0], t[n, 1], t[n, 2] = ox, oy, oz
            for chunk in range(offsets[k], last, CHUNK):
                a00 = a01 = a02 = a03 = a10 = a11 = a12 = a13 = a20 = a21 = a22 = a23 = 0.0
                for e in range(chunk, min(chunk + CHUNK, last)):
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
                moments[m, 0] += a00
                moments[m, 1] += a01
                moments[m, 2] += a02
                moments[m, 3] += a10
                moments[m, 4] += a11
                moments[m, 5] += a12
                moments[m, 6] += a20
                moments[m, 7] += a21
                moments[m, 8] += a22
                t[n, 0] += a03
                t[n, 1] += a13
                t[n, 2] += a23
            if planar:
                moments[m, 8] = out_of_plane(moments[m, 0], moments[m, 1], moments[m, 3], moments[m, 4])
            f, k = (f, k + 1) if k + 1 < groups else (f + 1, 0)
        block_rotations(moments.reshape(-1), rotations.reshape(-1), scratch, least_d)
        for m in range(count):
            n = base + m
            for j in range(9):
                R[n, j] = rotations[m, j]
                A[n, j] = moments[m, j]
            status[n] = REGULAR
            if block_failed(scratch, m):
                status[n] = UNRESOLVED
                size = 0.0  # a sum, not a maximum, which would overlook a nan
                for j in range(9):
                    size += abs(A[n, j])
                if size < LEAST_MOMENT:
                    for j in range(9):
                        A[n, j] = 0.0


@kernel
def stretches(start, stop, R, A, S):
    """S = R^T A of fits start..stop."""
    for n in range(start, stop):
        stretch(R[n], A[n], S[n])


@kernel
def moment_rate(rates, f, k, rest, dA):
    """dA = sum dx q^T of group k in pose f, 3 x 4 by columns of q: the rates of [A | t]."""
    indices, q = rest.indices, rest.q
    for j in range(12):
        dA[j] = 0.0
    for e in range(rest.offsets[k], rest.offsets[k + 1]):
        i = indices[e]
        for row in range(3):
            rate = np.float64(rates[f, i, row])
            for column in range(3):
                dA[3 * row + column] += rate * q[e, column]
            dA[9 + row] += rate * q[e, 3]


@kernel
def jvp(start, stop, rest, rates, R, G, dR, dt):
    """Compute the rates dR of the rotations and dt of the centroids for rates of the points."""
    groups = len(rest.offsets) - 1
    dA, M = np.empty(12), np.empty(9)
    for n in range(start, stop):
        f, k = divmod(n, groups)
        moment_rate(rates, f, k, rest, dA)
        rotation_derivative(R[n], G[n], dA, dR[n], M)
        for axis in range(3):
            dt[n, axis] = dA[9 + axis]


@kernel
def second(start, stop, rest, rates1, rates2, rotations, out):
    """out = D2R[rates1, rates2]; the centroid is linear in the points. `rotations`: RotationArrays."""
    groups = len(rest.offsets) - 1
    dA1, dA2, work = np.empty(12), np.empty(12), np.empty(27)
    for n in range(start, stop):
        f, k = divmod(n, groups)
        moment_rate(rates1, f, k, rest, dA1)
        moment_rate(rates2, f, k, rest, dA2)
        rotation_second_derivative(rotations.R[n], rotations.S[n], rotations.G[n], dA1, dA2, out[n], work)


@kernel
def rotation_derivatives(start, stop, R, G, dA, out):
    """out = DR[dA] of matrices start..stop."""
    M = np.empty(9)
    for n in range(start, stop):
        rotation_derivative(R[n], G[n], dA[n], out[n], M)


@kernel
def gather_to_points(start, stop, entries, groups, B, out):
    """out[f, i] = sum over the entries of point i of B q, B a matrix (9 numbers) and a vector of each fit.

    `entries` are PointEntries, `groups` is K. This is the transpose of the moments, gathered point by point
    instead of scattered group by group, so that no two threads write to one place and the order of the sum is
    fixed.
    """
    starts, groups_of, q = entries.starts, entries.groups, entries.q
    N = len(starts) - 1
    for n in range(start, stop):
        f, i = divmod(n, N)
        x = y = z = 0.0
        for e in range(starts[i], starts[i + 1]):
            k = f * groups + groups_of[e]
            q0, q1, q2, q3 = q[e, 0], q[e, 1], q[e, 2], q[e, 3]
            x += B[k, 0] * q0 + B[k, 1] * q1 + B[k, 2] * q2 + B[k, 9] * q3
            y += B[k, 3] * q0 + B[k, 4] * q1 + B[k, 5] * q2 + B[k, 10] * q3
            z += B[k, 6] * q0 + B[k, 7] * q1 + B[k, 8] * q2 + B[k, 11] * q3
        out[f, i, 0], out[f, i, 1], out[f, i, 2] = x, y, z


@kernel
def transform(start, stop, centroids, R, t, p, out):
    """out[n, j] = R (p[n, j] - rest centroid) + t; p as in `jacobian`."""
    groups = len(centroids)
    for n in range(start, stop):
        k = n % groups
        for j in range(p.shape[1]):
            i = n % len(p)
            x, y, z = p[i, j, 0] - centroids[k, 0], p[i, j, 1] - centroids[k, 1], p[i, j, 2] - centroids[k, 2]
            for row in range(3):
                rotated = R[n, 3 * row] * x + R[n, 3 * row + 1] * y + R[n, 3 * row + 2] * z
                out[n, j, row] = rotated + t[n, row]


@kernel
def _block_bases(R, G, arms, J):
    """Compute the matrices of `jacobian` for an arm v_b in each fit of a block: -L [e_x]x R^T, and so on.

    L = R [v_b]x G; each matrix is two outer products of columns of L and R. All flat.
    """
    for m in range(JACOBIAN_BLOCK):
        i, j = 36 * m, 9 * m
        rxx, rxy, rxz = R[j], R[j + 1], R[j + 2]
        ryx, ryy, ryz = R[j + 3], R[j + 4], R[j + 5]
        rzx, rzy, rzz = R[j + 6], R[j + 7], R[j + 8]
        gxx, gxy, gxz, gyy, gyz, gzz = G[j], G[j + 1], G[j + 2], G[j + 4], G[j + 5], G[j + 8]
        x, y, z = arms[3 * m], arms[3 * m + 1], arms[3 * m + 2]
        cx, cy, cz = rxy * z - rxz * y, rxz * x - rxx * z, rxx * y - rxy * x
        lx = cx * gxx + cy * gxy + cz * gxz
        ly = cx * gxy + cy * gyy + cz * gyz
        lz = cx * gxz + cy * gyz + cz * gzz
        J[i], J[i + 1], J[i + 2] = ly * rxz - lz * rxy, ly * ryz - lz * ryy, ly * rzz - lz * rzy
        J[i + 9], J[i + 10], J[i + 11] = lz * rxx - lx * rxz, lz * ryx - lx * ryz, lz * rzx - lx * rzz
        J[i + 18], J[i + 19], J[i + 20] = lx * rxy - ly * rxx, lx * ryy - ly * ryx, lx * rzy - ly * rzx
        cx, cy, cz = ryy * z - ryz * y, ryz * x - ryx * z, ryx * y - ryy * x
        lx = cx * gxx + cy * gxy + cz * gxz
        ly = cx * gxy + cy * gyy + cz * gyz
        lz = cx * gxz + cy * gyz + cz * gzz
        J[i + 3], J[i + 4], J[i + 5] = ly * rxz - lz * rxy, ly * ryz - lz * ryy, ly * rzz - lz * rzy
        J[i + 12], J[i + 13], J[i + 14] = lz * rxx - lx * rxz, lz * ryx - lx * ryz, lz * rzx - lx * rzz
        J[i + 21], J[i + 22], J[i + 23] = lx * rxy - ly * rxx, lx * ryy - ly * ryx, lx * rzy - ly * rzx
        cx, cy, cz = rzy * z - rzz * y, rzz * x - rzx * z, rzx * y - rzy * x
        lx = cx * gxx + cy * gxy + cz * gxz
        ly = cx * gxy + cy * gyy + cz * gyz
        lz = cx * gxz + cy * gyz + cz * gzz
        J[i + 6], J[i + 7], J[i + 8] = ly * rxz - lz * rxy, ly * ryz - lz * ryy, ly * rzz - lz * rzy
        J[i + 15], J[i + 16], J[i + 17] = lz * rxx - lx * rxz, lz * ryx - lx * ryz, lz * rzx - lx * rzz
        J[i + 24], J[i + 25], J[i + 26] = lx * rxy - ly * rxx, lx * ryy - ly * ryx, lx * rzy - ly * rzx


@kernel
def jacobian(start, stop, rest, R, G, p, layout, out):
    """Compute the blocks w I - L [w v]x R^T, L = R [v_b]x G, of point p[n, j] of each fit.

    The p are (n, m, 3), or (1, m, 3) for all; v_b = p - rest centroid. A block is linear in q, so
    that four matrices a point serve all entries: `_block_bases` and the identity. Where the blocks go in
    `out` is said by `layout`, a BlockLayout.
    """
    offsets, q, centroids = rest.offsets, rest.q, rest.centroids
    firsts, pose_stride, point_stride = layout.starts, layout.pose_stride, layout.point_stride
    groups, points = len(offsets) - 1, p.shape[1]
    flat_R, flat_G = R.reshape(-1), G.reshape(-1)
    padded_R, padded_G = np.zeros(9 * JACOBIAN_BLOCK), np.zeros(9 * JACOBIAN_BLOCK)
    arms, J = np.zeros(3 * JACOBIAN_BLOCK), np.zeros((JACOBIAN_BLOCK, 36))
    for i in range(JACOBIAN_BLOCK):
        J[i, 27] = J[i, 31] = J[i, 35] = 1.0
    for base in range(start, stop, JACOBIAN_BLOCK):
        count = min(JACOBIAN_BLOCK, stop - base)
        rotations, compliance = flat_R[9 * base :], flat_G[9 * base :]
        if count < JACOBIAN_BLOCK:
            for j in range(9 * count):
                padded_R[j], padded_G[j] = rotations[j], compliance[j]
            rotations, compliance = padded_R, padded_G
        for j in range(points):
            f, k = divmod(base, groups)
            for i in range(count):
                n = base + i if len(p) > 1 else 0
                for axis in range(3):
                    arms[3 * i + axis] = p[n, j, axis] - centroids[k, axis]
                k = k + 1 if k + 1 < groups else 0
            _block_bases(rotations, compliance, arms, J.reshape(-1))
            f, k = divmod(base, groups)
            for i in range(count):
                at = f * pose_stride + j * point_stride + firsts[k] - offsets[k]
                for e in range(offsets[k], offsets[k + 1]):
                    x, y, z, w = q[e, 0], q[e, 1], q[e, 2], q[e, 3]
                    b0 = J[i, 0] * x + J[i, 9] * y + J[i, 18] * z + J[i, 27] * w
                    b1 = J[i, 1] * x + J[i, 10] * y + J[i, 19] * z + J[i, 28] * w
                    b2 = J[i, 2] * x + J[i, 11] * y + J[i, 20] * z + J[i, 29] * w
                    b3 = J[i, 3] * x + J[i, 12] * y + J[i, 21] * z + J[i, 30] * w
                    b4 = J[i, 4] * x + J[i, 13] * y + J[i, 22] * z + J[i, 31] * w
                    b5 = J[i, 5] * x + J[i, 14] * y + J[i, 23] * z + J[i, 32] * w
                    b6 = J[i, 6] * x + J[i, 15] * y + J[i, 24] * z + J[i, 33] * w
                    b7 = J[i, 7] * x + J[i, 16] * y + J[i, 25] * z + J[i, 34] * w
                    b8 = J[i, 8] * x + J[i, 17] * y + J[i, 26] * z + J[i, 35] * w
                    # All read before any is written, or the compiler could not combine them.
                    out[at + e, 0], out[at + e, 1], out[at + e, 2] = b0, b1, b2
                    out[at + e, 3], out[at + e, 4], out[at + e, 5] = b3, b4, b5
                    out[at + e, 6], out[at + e, 7], out[at + e, 8] = b6, b7, b8
                f, k = (f, k + 1) if k + 1 < groups else (f + 1, 0)
