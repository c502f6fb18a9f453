"""Rigid groups in contact: what pushes one of their particles moves and turns the group as a whole.

A frame holds, of one group: centre of mass (0 to 2), inverse mass (3), inverse inertia xx, xy, xz, yy, yz,
zz (4 to 9), and how far contacts have moved it (10 to 12) and turned it (13 to 15) since the last `carry`.
Particles that belong to no group in force, `rigid_of` -1, answer for themselves with their own mass.
"""

import math

import numpy as np

from ....compute import kernel
from .colliders import carried
from .rotations import inertia, times, turn

FRAME = 16
# How often the pushes of one collider are gone through until they agree.
PASSES = 8


@kernel
def weigh(start, stop, starts, members, mass, M, P, E, frames):
    """Centre, inverse mass and inverse inertia of each group as it lies now."""
    for g in range(start, stop):
        m, cx, cy, cz = 0.0, 0.0, 0.0, 0.0
        for k in range(starts[g], starts[g + 1]):
            i = members[k]
            m += mass[i]
            cx += mass[i] * P[i, 0]
            cy += mass[i] * P[i, 1]
            cz += mass[i] * P[i, 2]
        cx, cy, cz = cx / m, cy / m, cz / m
        a, b, c, d, e, f = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(starts[g], starts[g + 1]):
            i = members[k]
            x, y, z = P[i, 0] - cx, P[i, 1] - cy, P[i, 2] - cz
            xx, xy, xz, yy, yz, zz = inertia(E[i], M[i])
            a += mass[i] * (y * y + z * z) + xx
            b += xy - mass[i] * x * y
            c += xz - mass[i] * x * z
            d += mass[i] * (x * x + z * z) + yy
            e += yz - mass[i] * y * z
            f += mass[i] * (x * x + y * y) + zz
        p, q, r = d * f - e * e, c * e - b * f, b * e - c * d
        det = a * p + b * q + c * r
        trace = a + d + f
        turns = 1.0 / det if det > 1e-14 * trace * trace * trace else 0.0
        frames[g, 0], frames[g, 1], frames[g, 2], frames[g, 3] = cx, cy, cz, 1.0 / m
        frames[g, 4], frames[g, 5], frames[g, 6] = turns * p, turns * q, turns * r
        frames[g, 7], frames[g, 8] = turns * (a * f - c * c), turns * (b * c - a * e)
        frames[g, 9] = turns * (a * d - b * b)
        for j in range(10, FRAME):
            frames[g, j] = 0.0


@kernel
def place(i, rigid_of, frames, P):
    """Where particle i is, with what its group has been moved by since."""
    x, y, z = P[i, 0], P[i, 1], P[i, 2]
    if rigid_of[i] < 0:
        return x, y, z
    w = frames[rigid_of[i]]
    rx, ry, rz = x - w[0], y - w[1], z - w[2]
    return (
        x + w[10] + w[14] * rz - w[15] * ry,
        y + w[11] + w[15] * rx - w[13] * rz,
        z + w[12] + w[13] * ry - w[14] * rx,
    )


@kernel
def ease(i, x, y, z, nx, ny, nz, rigid_of, inverse_mass, frames):
    """How far the point (x, y, z) of particle i's group goes along n for an impulse of 1 along n."""
    if rigid_of[i] < 0:
        return inverse_mass[i]
    w = frames[rigid_of[i]]
    x, y, z = x - w[0], y - w[1], z - w[2]
    x, y, z = y * nz - z * ny, z * nx - x * nz, x * ny - y * nx
    return (
        w[3] + x * (w[4] * x + 2.0 * (w[5] * y + w[6] * z)) + y * (w[7] * y + 2.0 * w[8] * z) + w[9] * z * z
    )


@kernel
def push(i, j, x, y, z, nx, ny, nz, rigid_of, inverse_mass, frames, P):
    """An impulse j along n at the point (x, y, z) of particle i's group, or on the particle itself."""
    if rigid_of[i] < 0:
        P[i, 0] += inverse_mass[i] * j * nx
        P[i, 1] += inverse_mass[i] * j * ny
        P[i, 2] += inverse_mass[i] * j * nz
        return
    w = frames[rigid_of[i]]
    x, y, z = x - w[0], y - w[1], z - w[2]
    x, y, z = j * (y * nz - z * ny), j * (z * nx - x * nz), j * (x * ny - y * nx)
    w[10] += w[3] * j * nx
    w[11] += w[3] * j * ny
    w[12] += w[3] * j * nz
    w[13] += w[4] * x + w[5] * y + w[6] * z
    w[14] += w[5] * x + w[7] * y + w[8] * z
    w[15] += w[6] * x + w[8] * y + w[9] * z


@kernel
def carry(start, stop, starts, members, M, P, E, frames):
    """Move and turn the particles of each group by what its contacts have gathered."""
    for g in range(start, stop):
        w = frames[g]
        moved = False
        for j in range(10, FRAME):
            moved = moved or w[j] != 0.0
        if not moved:
            continue
        turned = np.zeros(9)
        turned[0] = turned[4] = turned[8] = 1.0
        turn(w[13], w[14], w[15], turned)
        for e in range(starts[g], starts[g + 1]):
            i = members[e]
            x, y, z = P[i, 0] - w[0], P[i, 1] - w[1], P[i, 2] - w[2]
            P[i, 0] = w[0] + w[10] + turned[0] * x + turned[1] * y + turned[2] * z
            P[i, 1] = w[1] + w[11] + turned[3] * x + turned[4] * y + turned[5] * z
            P[i, 2] = w[2] + w[12] + turned[6] * x + turned[7] * y + turned[8] * z
            turn(w[13], w[14], w[15], E[i])
            times(E[i], M[i], P[i])
        for j in range(3):
            w[j] += w[10 + j]
            w[10 + j] = 0.0
            w[13 + j] = 0.0


@kernel
def carry_speed(start, stop, starts, members, X, V, W, frames):
    """The same with velocities: what the group has gathered goes into those of its particles."""
    for g in range(start, stop):
        w = frames[g]
        for e in range(starts[g], starts[g + 1]):
            i = members[e]
            x, y, z = X[i, 0] - w[0], X[i, 1] - w[1], X[i, 2] - w[2]
            V[i, 0] += w[10] + w[14] * z - w[15] * y
            V[i, 1] += w[11] + w[15] * x - w[13] * z
            V[i, 2] += w[12] + w[13] * y - w[14] * x
            for j in range(3):
                W[i, j] += w[13 + j]
        for j in range(10, FRAME):
            w[j] = 0.0


@kernel
def restrain(start, stop, recovery, bounds, before, now, X, P, shift, pushed):
    """Take back by how much a collider has pushed a particle out of an overlap of before, but for a little.

    `recovery`, in radii; `before` and `now` (12,) are the poses of the collider.
    """
    for i in range(start, stop):
        d = math.sqrt(shift[i, 0] ** 2 + shift[i, 1] ** 2 + shift[i, 2] ** 2)
        if d == 0.0:
            continue
        nx, ny, nz = shift[i, 0] / d, shift[i, 1] / d, shift[i, 2] / d
        sx, sy, sz = carried(before, now, P[i, 0], P[i, 1], P[i, 2])
        x, y, z = X[i, 0] + sx - P[i, 0], X[i, 1] + sy - P[i, 1], X[i, 2] + sz - P[i, 2]
        excess = d - max(0.0, nx * x + ny * y + nz * z + d) - recovery * bounds[i]
        if excess > 0.0:
            for j in range(3):
                back = excess * shift[i, j] / d
                P[i, j] -= back
                shift[i, j] -= back
            pushed[i] -= excess


@kernel
def respond(start, stop, starts, members, rigid_of, mass, inverse_mass, frames, shift, pushed, P):
    """Instead of its particles alone, move a group by the impulses that keep all of them out of a collider.

    The collider has moved particle i by `shift`, along n by a depth d. Sought are impulses l_i >= 0 along n
    so that each goes at least d (projected Gauss-Seidel). `pushed` becomes l_i / m_i, what friction goes by.
    """
    for g in range(start, stop):
        count = 0
        for e in range(starts[g], starts[g + 1]):
            i = members[e]
            if rigid_of[i] == g and (shift[i, 0] != 0.0 or shift[i, 1] != 0.0 or shift[i, 2] != 0.0):
                count += 1
        if count == 0:
            continue
        hits, contact = np.empty(count, np.int64), np.empty((count, 8))
        k = 0
        for e in range(starts[g], starts[g + 1]):
            i = members[e]
            if rigid_of[i] == g and (shift[i, 0] != 0.0 or shift[i, 1] != 0.0 or shift[i, 2] != 0.0):
                d = math.sqrt(shift[i, 0] ** 2 + shift[i, 1] ** 2 + shift[i, 2] ** 2)
                for j in range(3):
                    P[i, j] -= shift[i, j]
                    contact[k, j] = shift[i, j] / d
                    contact[k, 3 + j] = P[i, j]
                contact[k, 6], contact[k, 7] = d, 0.0
                hits[k] = i
                k += 1
        for _ in range(PASSES):
            for k in range(count):
                i, c = hits[k], contact[k]
                x, y, z = place(i, rigid_of, frames, P)
                gone = (x - c[3]) * c[0] + (y - c[4]) * c[1] + (z - c[5]) * c[2]
                w = ease(i, c[3], c[4], c[5], c[0], c[1], c[2], rigid_of, inverse_mass, frames)
                before = c[7]
                c[7] = max(0.0, before + (c[6] - gone) / w)
                push(i, c[7] - before, c[3], c[4], c[5], c[0], c[1], c[2], rigid_of, inverse_mass, frames, P)
        for k in range(count):
            i = hits[k]
            pushed[i] += contact[k, 7] / mass[i] - contact[k, 6]
