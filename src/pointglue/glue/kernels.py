"""Compiled loops over bound points. Matrices are flat, row by row; layout as in `procrustes.kernels`."""

import math

import numpy as np

from ..compute import kernel
from ..procrustes.algebra import product, turn
from ..procrustes.curvature import world_frame
from ..procrustes.kernels import fit, spread
from ..procrustes.rotation import REGULAR, UNSETTLED, compliances, stretch

__all__ = ["bends", "carry", "pulls", "ride", "spread_to", "sum_bends"]

TERMS = 21  # numbers an entry in `bends`


@kernel
def ride(start, stop, rows, body, rest_arms, origins, rotations, arms, x):
    """Particles rows[k] of rigid bodies: arms[k] = R rest_arms[k] and x = origin + arm."""
    for k in range(start, stop):
        b, i = body[k], rows[k]
        for row in range(3):
            arm = 0.0
            for column in range(3):
                arm += rotations[b, row, column] * rest_arms[k, column]
            arms[k, row] = arm
            x[i, row] = origins[b, row] + arm


@kernel
def carry(start, stop, points, offsets, indices, heads, q, least_d, arms, rows, R, t, A, G, status, x):
    """Fits of one pose in space, see `procrustes.kernels.fit`; regular ones carry their arms to x[rows].

    G is as in `rotation.compliances`.
    """
    fit(start, stop, points, offsets, indices, heads, q, False, least_d, R, t, A, status)
    compliances(start, stop, R, A, least_d, G)
    for k in range(start, stop):
        if not math.isfinite(G[k, 0]):
            status[k] = UNSETTLED
        i, a0, a1, a2 = rows[k], arms[k, 0], arms[k, 1], arms[k, 2]
        if status[k] == REGULAR:
            for row in range(3):
                x[i, row] = R[k, 3 * row] * a0 + R[k, 3 * row + 1] * a1 + R[k, 3 * row + 2] * a2 + t[k, row]


@kernel
def pulls(start, stop, arms, R, G, f, out):
    """Forces f on bound points as `procrustes.kernels.spread` takes them: DR[f arm^T] and f; arms at rest."""
    groups = len(arms)
    moment, M = np.empty(9), np.empty(9)
    for n in range(start, stop):
        k = n % groups
        for row in range(3):
            for column in range(3):
                moment[3 * row + column] = f[n, row] * arms[k, column]
            out[n, 9 + row] = f[n, row]
        turn(R[n], G[n], moment, out[n], M)


@kernel
def spread_to(start, stop, starts, groups_of, q, groups, B, shares, points, out):
    """Add what `procrustes.kernels.spread` has for some points alone, its `shares`, to those rows of out."""
    spread(start, stop, starts, groups_of, q, groups, B, shares)
    for n in range(start, stop):
        f, i = divmod(n, len(points))
        for axis in range(out.shape[2]):
            out[f, points[i], axis] += shares[f, i, axis]


@kernel
def bends(start, stop, offsets, q, arms, R, A, G, f, terms):
    """What the second derivative of f . position takes of each entry, see `sum_bends`.

    In the letters of `procrustes.curvature`: u_i, e_i = G y x u_i, G u_i, y and M_i = y (G u_i)^T - [u_i]x N.
    """
    Gw, K, Q, N = np.empty(9), np.empty(9), np.empty(9), np.empty(9)
    S, gR, work, y, Gy = np.empty(9), np.empty(9), np.empty(9), np.empty(3), np.empty(3)
    for k in range(start, stop):
        for row in range(3):
            for column in range(3):
                gR[3 * row + column] = f[k, row] * arms[k, column]
        stretch(R[k], A[k], S)
        world_frame(R[k], S, G[k], gR, Gw, K, Q, y, work)
        product(Gw, Q, work)
        product(work, Gw, N)
        for row in range(3):
            Gy[row] = Gw[3 * row] * y[0] + Gw[3 * row + 1] * y[1] + Gw[3 * row + 2] * y[2]
        for i in range(offsets[k], offsets[k + 1]):
            out = terms[i]
            for row in range(3):
                out[row] = R[k, 3 * row] * q[i, 0] + R[k, 3 * row + 1] * q[i, 1] + R[k, 3 * row + 2] * q[i, 2]
            u0, u1, u2 = out[0], out[1], out[2]
            out[3], out[4], out[5] = (
                Gy[1] * u2 - Gy[2] * u1,
                Gy[2] * u0 - Gy[0] * u2,
                Gy[0] * u1 - Gy[1] * u0,
            )
            for row in range(3):
                out[6 + row] = Gw[3 * row] * u0 + Gw[3 * row + 1] * u1 + Gw[3 * row + 2] * u2
                out[9 + row] = y[row]
            for column in range(3):
                c = out[6 + column]
                out[12 + column] = y[0] * c + u2 * N[3 + column] - u1 * N[6 + column]
                out[15 + column] = y[1] * c + u0 * N[6 + column] - u2 * N[column]
                out[18 + column] = y[2] * c + u1 * N[column] - u0 * N[3 + column]


@kernel
def sum_bends(start, stop, starts, first, second, terms, places, mirrors, out):
    """Blocks of the second derivative, each a sum over the pairs of entries i, j that belong to it:

    M_i [u_j]x - e_i u_j^T - u_i e_j^T - (u_i x G u_j) y^T,

    with its transpose where the block has its mirror image.
    """
    for p in range(start, stop):
        b00 = b01 = b02 = b10 = b11 = b12 = b20 = b21 = b22 = 0.0
        for e in range(starts[p], starts[p + 1]):
            i, j = terms[first[e]], terms[second[e]]
            u0, u1, u2, e0, e1, e2 = j[0], j[1], j[2], j[3], j[4], j[5]
            y0, y1, y2 = i[9], i[10], i[11]
            v, w, d = i[0], i[3], i[1] * j[8] - i[2] * j[7]
            m0, m1, m2 = i[12], i[13], i[14]
            b00 += m1 * u2 - m2 * u1 - w * u0 - v * e0 - d * y0
            b01 += m2 * u0 - m0 * u2 - w * u1 - v * e1 - d * y1
            b02 += m0 * u1 - m1 * u0 - w * u2 - v * e2 - d * y2
            v, w, d = i[1], i[4], i[2] * j[6] - i[0] * j[8]
            m0, m1, m2 = i[15], i[16], i[17]
            b10 += m1 * u2 - m2 * u1 - w * u0 - v * e0 - d * y0
            b11 += m2 * u0 - m0 * u2 - w * u1 - v * e1 - d * y1
            b12 += m0 * u1 - m1 * u0 - w * u2 - v * e2 - d * y2
            v, w, d = i[2], i[5], i[0] * j[7] - i[1] * j[6]
            m0, m1, m2 = i[18], i[19], i[20]
            b20 += m1 * u2 - m2 * u1 - w * u0 - v * e0 - d * y0
            b21 += m2 * u0 - m0 * u2 - w * u1 - v * e1 - d * y1
            b22 += m0 * u1 - m1 * u0 - w * u2 - v * e2 - d * y2
        block, mirror = out[places[p]], out[mirrors[p]]
        mirror[0], mirror[1], mirror[2] = b00, b10, b20
        mirror[3], mirror[4], mirror[5] = b01, b11, b21
        mirror[6], mirror[7], mirror[8] = b02, b12, b22
        block[0], block[1], block[2] = b00, b01, b02
        block[3], block[4], block[5] = b10, b11, b12
        block[6], block[7], block[8] = b20, b21, b22
