"""From one substep to the next: prediction, the new velocities, and the momentum that must be kept."""

import math

import numpy as np

from ....compute import kernel
from .rotations import inertia, inertia_times, times, turn, turned_by

# Sums over a chunk of a piece, all about the place that the piece's first particle, its origin, had: wanted
# angular momentum (3), angular momentum now (3), mass, mass times place (3), momentum (3), the inertia
# xx, xy, xz, yy, yz, zz, how many particles touch something outside, and wanted momentum (3).
SUMS = 23
# Radians that a particle turns in a substep, at most: absurd steps stay finite.
MOST_TURN = 1e6
# Rigid motion of a piece: centre, velocity, spin, the spin that is missing, and the velocity that is.
RIGID = 15


@kernel
def predict(
    start,
    stop,
    h,
    farthest,
    chunks,
    origins,
    order,
    gained,
    mass,
    fixed,
    M,
    X,
    F,
    V,
    W,
    P,
    E,
    met,
    sums,
):
    """x = X + h v, E = exp(h w) F (equations 10, 11) after v += `gained`; no way is longer than `farthest`.

    The momenta before constraints act go into `sums`.
    """
    for c in range(start, stop):
        o = origins[c]
        lx = ly = lz = px = py = pz = 0.0
        for k in range(chunks[c], chunks[c + 1]):
            i = order[k]
            met[i] = False
            u = v = w = 0.0
            if fixed[i]:
                for j in range(3):
                    V[i, j] = 0.0
                    W[i, j] = 0.0
            else:
                for j in range(3):
                    V[i, j] += gained[i, j]
                way = h * math.sqrt(V[i, 0] ** 2 + V[i, 1] ** 2 + V[i, 2] ** 2)
                if not way <= farthest:
                    for j in range(3):
                        V[i, j] = V[i, j] * (farthest / way) if way < math.inf else 0.0
                x, y, z = X[i, 0] - X[o, 0], X[i, 1] - X[o, 1], X[i, 2] - X[o, 2]
                u, v, w = inertia_times(F[i], M[i], W[i, 0], W[i, 1], W[i, 2])
                lx += mass[i] * (y * V[i, 2] - z * V[i, 1]) + u
                ly += mass[i] * (z * V[i, 0] - x * V[i, 2]) + v
                lz += mass[i] * (x * V[i, 1] - y * V[i, 0]) + w
                px += mass[i] * V[i, 0]
                py += mass[i] * V[i, 1]
                pz += mass[i] * V[i, 2]
            for j in range(3):
                P[i, j] = X[i, j] + h * V[i, j]
            for j in range(9):
                E[i, j] = F[i, j]
            x, y, z = W[i, 0], W[i, 1], W[i, 2]
            if not fixed[i]:
                x, y, z = _precessed(h, F[i], M[i], x, y, z, u, v, w)
            most = h * max(abs(x), abs(y), abs(z))
            f = h if most < MOST_TURN else h * (MOST_TURN / most)
            turn(f * x, f * y, f * z, E[i])
            times(E[i], M[i], P[i])
        sums[c, 0], sums[c, 1], sums[c, 2] = lx, ly, lz
        sums[c, 20], sums[c, 21], sums[c, 22] = px, py, pz


@kernel
def _precessed(h, F, M, x, y, z, u, v, w):
    """The mean spin in the step, w + h/2 J^-1 (J w x w): an ellipsoid keeps its momentum, not its spin.

    (x, y, z) is w and (u, v, w) is J w.
    """
    p, q, r = v * z - w * y, w * x - u * z, u * y - v * x
    most = (u * u + v * v + w * w) * (x * x + y * y + z * z)
    if p * p + q * q + r * r <= 1e-24 * most:
        return x, y, z  # a ball, or about an axis of its own
    a, b, c, d, e, f = inertia(F, M)
    s, t, o = d * f - e * e, c * e - b * f, b * e - c * d
    half = 0.5 * h / (a * s + b * t + c * o)
    k, m, n = a * f - c * c, b * c - a * e, a * d - b * b
    u, v, w = half * (s * p + t * q + o * r), half * (t * p + k * q + m * r), half * (o * p + m * q + n * r)
    # Where a step is too long to be followed, the correction is at least no larger than what it corrects.
    most, all_of_it = u * u + v * v + w * w, x * x + y * y + z * z
    f = 1.0 if most < all_of_it else math.sqrt(all_of_it / most)
    return x + f * u, y + f * v, z + f * w


@kernel
def finish(start, stop, h, chunks, origins, order, mass, fixed, M, X, F, met, P, E, V0, V, W, sums):
    """v = (x - X) / h and w = vector(E F^T) / h (equations 12 to 15), and the sums that `balance` needs."""
    for c in range(start, stop):
        o = origins[c]
        lx = ly = lz = m = mx = my = mz = px = py = pz = touched = 0.0
        ixx = ixy = ixz = iyy = iyz = izz = 0.0
        for k in range(chunks[c], chunks[c + 1]):
            i = order[k]
            W[i, 0], W[i, 1], W[i, 2] = turned_by(E[i], F[i])
            for j in range(3):
                V0[i, j] = V[i, j]
                V[i, j] = (P[i, j] - X[i, j]) / h
                W[i, j] /= h
            if fixed[i]:
                continue
            s = mass[i]
            if met[i]:
                touched += 1.0
            x, y, z = P[i, 0] - X[o, 0], P[i, 1] - X[o, 1], P[i, 2] - X[o, 2]
            a, b, d, e, f, g = inertia(E[i], M[i])
            lx += s * (y * V[i, 2] - z * V[i, 1]) + a * W[i, 0] + b * W[i, 1] + d * W[i, 2]
            ly += s * (z * V[i, 0] - x * V[i, 2]) + b * W[i, 0] + e * W[i, 1] + f * W[i, 2]
            lz += s * (x * V[i, 1] - y * V[i, 0]) + d * W[i, 0] + f * W[i, 1] + g * W[i, 2]
            m += s
            mx += s * x
            my += s * y
            mz += s * z
            px += s * V[i, 0]
            py += s * V[i, 1]
            pz += s * V[i, 2]
            ixx += s * (y * y + z * z) + a
            iyy += s * (x * x + z * z) + e
            izz += s * (x * x + y * y) + g
            ixy += b - s * x * y
            ixz += d - s * x * z
            iyz += f - s * y * z
        sums[c, 19] = touched
        sums[c, 3], sums[c, 4], sums[c, 5], sums[c, 6] = lx, ly, lz, m
        sums[c, 7], sums[c, 8], sums[c, 9], sums[c, 10], sums[c, 11], sums[c, 12] = mx, my, mz, px, py, pz
        sums[c, 13], sums[c, 14], sums[c, 15] = ixx, ixy, ixz
        sums[c, 16], sums[c, 17], sums[c, 18] = iyy, iyz, izz


@kernel
def balance(piece_chunks, origins, held, X, sums, rigid) -> None:
    """From the sums the rigid motion of each piece, and the spin that its own constraints took from it.

    Matching straight paths to a turning shape loses angular momentum of the order of (w h)^2 a step. What is
    pinned or touches something gives and takes momentum there, and nothing is made up for.
    """
    J = np.empty(9)
    for piece in range(len(piece_chunks) - 1):
        first = piece_chunks[piece]
        for c in range(first + 1, piece_chunks[piece + 1]):
            for j in range(SUMS):
                sums[first, j] += sums[c, j]
        s = sums[first]
        rigid[piece] = 0.0
        m = s[6]
        if m == 0.0:
            continue
        x, y, z = s[7] / m, s[8] / m, s[9] / m
        u, v, w = s[10] / m, s[11] / m, s[12] / m
        J[0], J[4], J[8] = (
            s[13] - m * (y * y + z * z),
            s[16] - m * (x * x + z * z),
            s[18] - m * (x * x + y * y),
        )
        J[1], J[2], J[5] = s[14] + m * x * y, s[15] + m * x * z, s[17] + m * y * z
        J[3], J[6], J[7] = J[1], J[2], J[5]
        free = not held[piece] and s[19] == 0.0
        now = 0 if free else 3
        # What rounding took of the linear momentum, which would add up over thousands of steps.
        ex, ey, ez = (s[20] / m - u, s[21] / m - v, s[22] / m - w) if free else (0.0, 0.0, 0.0)
        gx, gy, gz = _solve(J, s[now] - s[3], s[now + 1] - s[4], s[now + 2] - s[5])
        rx, ry, rz = _solve(
            J,
            s[now] - m * (y * w - z * v),
            s[now + 1] - m * (z * u - x * w),
            s[now + 2] - m * (x * v - y * u),
        )
        o = origins[first]
        r = rigid[piece]
        r[0], r[1], r[2], r[3], r[4], r[5] = x + X[o, 0], y + X[o, 1], z + X[o, 2], u, v, w
        r[6], r[7], r[8], r[9], r[10], r[11] = rx, ry, rz, gx, gy, gz
        r[12], r[13], r[14] = ex, ey, ez


@kernel
def conserve(start, stop, damped, dragged, piece_of, rigid, fixed, P, X, V, W):
    """Give each piece the spin it is missing, about its centre of mass: shape and linear momentum stay.

    Then all motion but the rigid one is multiplied by `damped`, and all by `dragged`. X takes the new places.
    """
    for i in range(start, stop):
        if not fixed[i]:
            r = rigid[piece_of[i]]
            x, y, z = P[i, 0] - r[0], P[i, 1] - r[1], P[i, 2] - r[2]
            u, v, w = r[3] + r[7] * z - r[8] * y, r[4] + r[8] * x - r[6] * z, r[5] + r[6] * y - r[7] * x
            V[i, 0] = dragged * (r[12] + u + damped * (V[i, 0] + r[10] * z - r[11] * y - u))
            V[i, 1] = dragged * (r[13] + v + damped * (V[i, 1] + r[11] * x - r[9] * z - v))
            V[i, 2] = dragged * (r[14] + w + damped * (V[i, 2] + r[9] * y - r[10] * x - w))
            for j in range(3):
                W[i, j] = dragged * (r[6 + j] + damped * (W[i, j] + r[9 + j] - r[6 + j]))
        for j in range(3):
            X[i, j] = P[i, j]


@kernel
def _solve(J, x, y, z):
    """J^-1 (x, y, z) for a symmetric positive matrix; zero where it has no inverse."""
    a, b, c = J[4] * J[8] - J[5] * J[7], J[5] * J[6] - J[3] * J[8], J[3] * J[7] - J[4] * J[6]
    det = J[0] * a + J[1] * b + J[2] * c
    trace = J[0] + J[4] + J[8]
    if not det > 1e-14 * trace * trace * trace:
        return 0.0, 0.0, 0.0
    d, e, f = J[0] * J[8] - J[2] * J[6], J[1] * J[6] - J[0] * J[7], J[0] * J[4] - J[1] * J[3]
    return (a * x + b * y + c * z) / det, (b * x + d * y + e * z) / det, (c * x + e * y + f * z) / det
