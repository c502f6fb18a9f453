"""Rotations of single particles: vectors to matrices and back. Matrices are flat, row by row."""

import math

import numpy as np

from .....compute import kernel

__all__ = [
    "flow_edges", "flow_turns", "inertia", "inertia_times", "rotate", "rotation_between", "solve_symmetric",
    "update_moment",
]  # fmt: skip


@kernel
def rotate(x, y, z, E):
    """Compute E <- exp([r]x) E for the rotation vector r = (x, y, z), by Rodrigues' formula in sinc form."""
    t = x * x + y * y + z * z
    if t < 1e-2:  # the next terms of the two series are below rounding
        s = 1.0 - t * (1 / 6 - t * (1 / 120 - t * (1 / 5040 - t / 362880)))
        c = 0.5 - t * (1 / 24 - t * (1 / 720 - t * (1 / 40320 - t / 3628800)))
    else:
        angle = math.sqrt(t)
        s, c = math.sin(angle) / angle, (1.0 - math.cos(angle)) / t
    r00, r01, r02 = 1.0 - c * (y * y + z * z), c * x * y - s * z, c * x * z + s * y
    r10, r11, r12 = c * x * y + s * z, 1.0 - c * (x * x + z * z), c * y * z - s * x
    r20, r21, r22 = c * x * z - s * y, c * y * z + s * x, 1.0 - c * (x * x + y * y)
    for j in range(3):
        a, b, d = E[j], E[3 + j], E[6 + j]
        E[j] = r00 * a + r01 * b + r02 * d
        E[3 + j] = r10 * a + r11 * b + r12 * d
        E[6 + j] = r20 * a + r21 * b + r22 * d


@kernel
def rotation_between(E, F):
    """Return the rotation vector r of the shorter way from F to E, exp([r]x) F = E: no jump, no nan anywhere.

    With D = E F^T: the axial part of D is n sin, its trace 1 + 2 cos. Near half a turn the axis comes from
    the largest column of D + I instead.
    """
    d00 = E[0] * F[0] + E[1] * F[1] + E[2] * F[2]
    d01 = E[0] * F[3] + E[1] * F[4] + E[2] * F[5]
    d02 = E[0] * F[6] + E[1] * F[7] + E[2] * F[8]
    d10 = E[3] * F[0] + E[4] * F[1] + E[5] * F[2]
    d11 = E[3] * F[3] + E[4] * F[4] + E[5] * F[5]
    d12 = E[3] * F[6] + E[4] * F[7] + E[5] * F[8]
    d20 = E[6] * F[0] + E[7] * F[1] + E[8] * F[2]
    d21 = E[6] * F[3] + E[7] * F[4] + E[8] * F[5]
    d22 = E[6] * F[6] + E[7] * F[7] + E[8] * F[8]
    x, y, z = 0.5 * (d21 - d12), 0.5 * (d02 - d20), 0.5 * (d10 - d01)
    cos = 0.5 * (d00 + d11 + d22 - 1.0)
    t = x * x + y * y + z * z
    if t < 1e-3 and cos > 0.0:  # arcsin(s) / s; the next term is below rounding
        factor = 1.0 + t * (1 / 6 + t * (3 / 40 + t * (5 / 112 + t * (35 / 1152))))
        return factor * x, factor * y, factor * z
    angle = math.atan2(math.sqrt(t), cos)
    if cos > -0.9:
        factor = angle / math.sqrt(t)
        return factor * x, factor * y, factor * z
    if d00 >= d11 and d00 >= d22:
        u, v, w = d00 - cos, 0.5 * (d10 + d01), 0.5 * (d20 + d02)
    elif d11 >= d22:
        u, v, w = 0.5 * (d01 + d10), d11 - cos, 0.5 * (d21 + d12)
    else:
        u, v, w = 0.5 * (d02 + d20), 0.5 * (d12 + d21), d22 - cos
    factor = angle / math.sqrt(u * u + v * v + w * w)
    if u * x + v * y + w * z < 0.0:
        factor = -factor
    return factor * u, factor * v, factor * w


@kernel
def update_moment(E, M, P):
    """Write B = E M, the particle's share in its groups' moment matrices, into its row of P."""
    for row in range(3):
        a, b, c = E[3 * row], E[3 * row + 1], E[3 * row + 2]
        P[4 + 4 * row] = a * M[0] + b * M[3] + c * M[6]
        P[5 + 4 * row] = a * M[1] + b * M[4] + c * M[7]
        P[6 + 4 * row] = a * M[2] + b * M[5] + c * M[8]


@kernel
def inertia_times(E, M, x, y, z):
    """Return (tr(M) I - E M E^T) (x, y, z): the inertia of an ellipsoid as it lies now, times a vector."""
    u = E[0] * x + E[3] * y + E[6] * z
    v = E[1] * x + E[4] * y + E[7] * z
    w = E[2] * x + E[5] * y + E[8] * z
    p = M[0] * u + M[1] * v + M[2] * w
    q = M[3] * u + M[4] * v + M[5] * w
    r = M[6] * u + M[7] * v + M[8] * w
    trace = M[0] + M[4] + M[8]
    return (
        trace * x - (E[0] * p + E[1] * q + E[2] * r),
        trace * y - (E[3] * p + E[4] * q + E[5] * r),
        trace * z - (E[6] * p + E[7] * q + E[8] * r),
    )


@kernel
def inertia(E, M):
    """Return xx, xy, xz, yy, yz, zz of tr(M) I - E M E^T, the inertia of an ellipsoid as it lies now."""
    trace = M[0] + M[4] + M[8]
    if M[0] == M[4] and M[0] == M[8] and M[1] == 0.0 and M[2] == 0.0 and M[5] == 0.0:
        return 2.0 * M[0], 0.0, 0.0, 2.0 * M[0], 0.0, 2.0 * M[0]  # a ball, however it lies
    a, b = E[0] * M[0] + E[1] * M[3] + E[2] * M[6], E[0] * M[1] + E[1] * M[4] + E[2] * M[7]
    c = E[0] * M[2] + E[1] * M[5] + E[2] * M[8]
    xx = trace - (a * E[0] + b * E[1] + c * E[2])
    xy = -(a * E[3] + b * E[4] + c * E[5])
    xz = -(a * E[6] + b * E[7] + c * E[8])
    a, b = E[3] * M[0] + E[4] * M[3] + E[5] * M[6], E[3] * M[1] + E[4] * M[4] + E[5] * M[7]
    c = E[3] * M[2] + E[4] * M[5] + E[5] * M[8]
    yy = trace - (a * E[3] + b * E[4] + c * E[5])
    yz = -(a * E[6] + b * E[7] + c * E[8])
    a, b = E[6] * M[0] + E[7] * M[3] + E[8] * M[6], E[6] * M[1] + E[7] * M[4] + E[8] * M[7]
    c = E[6] * M[2] + E[7] * M[5] + E[8] * M[8]
    return xx, xy, xz, yy, yz, trace - (a * E[6] + b * E[7] + c * E[8])


@kernel
def solve_symmetric(J, x, y, z):
    """Return J^-1 (x, y, z) for a positive J = (xx, xy, xz, yy, yz, zz); zero where it has no inverse."""
    a, b, c, d, e, f = J
    p, q, r = d * f - e * e, c * e - b * f, b * e - c * d
    det = a * p + b * q + c * r
    trace = abs(a + d + f)  # that of a point without orientation is rounding, of either sign
    if not det > 1e-14 * trace * trace * trace:
        return 0.0, 0.0, 0.0
    u, v, w = a * f - c * c, b * c - a * e, a * d - b * b
    return (p * x + q * y + r * z) / det, (q * x + u * y + v * z) / det, (r * x + v * y + w * z) / det


@kernel
def flow_turns(start, stop, pairs, share, Q, bend):
    """Compute bend = share log(Q_i^T Q_j), the part of the rotation along an edge that becomes permanent."""
    for k in range(start, stop):
        i, j = pairs[k, 0], pairs[k, 1]
        x, y, z = rotation_between(Q[j], Q[i])
        for a in range(3):
            bend[k, a] = share[k] * (Q[i, a] * x + Q[i, 3 + a] * y + Q[i, 6 + a] * z)


@kernel
def flow_edges(start, stop, flowing, fraction, Q, phi, edges):
    """Compute edges = mean over both ends of exp([phi]x) ((1 - f) e + f Q^T d).

    `flowing` are `PlasticEdges`: e and d are the edge at rest and now. `fraction` (n,) is f, `Q` (n, 9) and
    `phi` (n, 3) are the rotations of the particles' groups and those of their frames at rest.
    """
    pairs, at_rest, now = flowing.pairs, flowing.rest, flowing.now
    column = np.empty(9)
    for k in range(start, stop):
        edges[k] = 0.0
        for end in range(2):
            i = pairs[k, end]
            f = fraction[i]
            for a in range(3):
                local = Q[i, a] * now[k, 0] + Q[i, 3 + a] * now[k, 1] + Q[i, 6 + a] * now[k, 2]
                column[3 * a] = (1.0 - f) * at_rest[k, a] + f * local
                column[3 * a + 1], column[3 * a + 2] = 0.0, 0.0
            rotate(phi[i, 0], phi[i, 1], phi[i, 2], column)
            for a in range(3):
                edges[k, a] += 0.5 * column[3 * a]
