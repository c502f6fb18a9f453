"""Contacts of convex hulls, solved together: three rows each, along the normal and along two tangents.

Sought are impulses l with l_n >= 0, |l_t| <= mu l_n, so that each contact opens by what it overlaps, or not
at all if l_n > 0, and slips no farther than friction allows. Projected Gauss-Seidel from below upwards, with
directions of the nonsmooth conjugate gradient method (Silcowitz, Niebe and Erleben 2010), which carries the
weight of a stack, or of the heavy on the light, through all of it.

Bodies are rows of `rigid`: rigid groups, then single particles, and one in the end that does not move.
"""

import math

import numpy as np

from .....compute import kernel
from ..shapes.rotations import inertia, rotate, solve_symmetric, update_moment
from .hulls import GAP, NORMAL, POINT, SIZE
from .rigid import CENTROID, INVERSE_INERTIA, INVERSE_MASS, ROTATION, TRANSLATION

__all__ = [
    "CONTACT_ROW", "DIRECTIONS", "FRICTION", "IMPULSE", "WANTED", "add_bodies", "hasten_particles",
    "limit_speeds", "measure", "middles", "move_particles", "set_rows", "solve",
]  # fmt: skip

# Columns of a contact.
DIRECTIONS = 0  # normal and two tangents (9)
ANCHOR_A = 9  # the point of contact in coordinates of the first side (3), m
ANCHOR_B = 12  # (3), m
ARM_A = 15  # r x d for the three directions (9), m
ARM_B = 24
TURN_A = 33  # J^-1 (r x d) (9), 1/(kg m)
TURN_B = 42
MOBILITY = 51  # inverse effective mass along the three (3), 1/kg
WANTED = 54  # the displacements that are sought (3), m
IMPULSE = 57  # so far (3), kg m
CHANGE = 60  # in the last sweep (3), kg m
STEP = 63  # the direction of the conjugate gradient method (3), kg m
FRICTION = 66  # Coulomb's coefficient
SLACK = 67  # of an overlap from before the substep, what is not resolved in this one, m
APPROACH = 68  # how far the two came nearer, m
CONTACT_ROW = 69
# Ratio of the last change of all impulses to themselves at which they are good enough.
ENOUGH = 1e-6


@kernel
def _place(side, end, q, places, P, E):
    """Return the point of a side with its own coordinates q, at the start of the substep (end 0) or now."""
    count = len(places.leads)
    i = places.leads[side] if side < count else side - count
    if i < 0:
        R = places.poses[end][side]
        return (
            R[0] * q[0] + R[1] * q[1] + R[2] * q[2] + R[9],
            R[3] * q[0] + R[4] * q[1] + R[5] * q[2] + R[10],
            R[6] * q[0] + R[7] * q[1] + R[8] * q[2] + R[11],
        )
    if side >= count and not places.turning[i]:
        return P[i, 0] + q[0], P[i, 1] + q[1], P[i, 2] + q[2]
    R = E[i]
    return (
        P[i, 0] + R[0] * q[0] + R[1] * q[1] + R[2] * q[2],
        P[i, 1] + R[3] * q[0] + R[4] * q[1] + R[5] * q[2],
        P[i, 2] + R[6] * q[0] + R[7] * q[1] + R[8] * q[2],
    )


@kernel
def _anchor(side, x, y, z, places, P, E, q):
    """Compute the coordinates q of a point in those of a side, as it lies now."""
    count = len(places.leads)
    i = places.leads[side] if side < count else side - count
    if i < 0:
        R = places.poses[1][side]
        x, y, z = x - R[9], y - R[10], z - R[11]
    else:
        R = E[i]
        x, y, z = x - P[i, 0], y - P[i, 1], z - P[i, 2]
    if side >= count and not places.turning[i]:
        q[0], q[1], q[2] = x, y, z
    else:
        q[0] = R[0] * x + R[3] * y + R[6] * z
        q[1] = R[1] * x + R[4] * y + R[7] * z
        q[2] = R[2] * x + R[5] * y + R[8] * z


@kernel
def set_rows(contacts, sides, friction, recovery, places, buffers, rows) -> None:
    """Write what stays the same in the substep; `contacts` are those of `hulls`, between `sides` (k, 2).

    Overlaps of before the substep are resolved by at most `recovery` times the size.
    """
    X, F, P, E = buffers.X, buffers.F, buffers.P, buffers.E
    for k in range(len(contacts)):
        c, row = contacts[k], rows[k]
        a, b = sides[k, 0], sides[k, 1]
        row[:] = 0.0
        nx, ny, nz = c[NORMAL], c[NORMAL + 1], c[NORMAL + 2]
        # Any two directions across the normal.
        if abs(nx) < 0.6:
            tx, ty, tz = 0.0, nz, -ny
        else:
            tx, ty, tz = -nz, 0.0, nx
        f = 1.0 / math.sqrt(tx * tx + ty * ty + tz * tz)
        tx, ty, tz = f * tx, f * ty, f * tz
        row[0], row[1], row[2], row[3], row[4], row[5] = nx, ny, nz, tx, ty, tz
        row[6], row[7], row[8] = ny * tz - nz * ty, nz * tx - nx * tz, nx * ty - ny * tx
        x, y, z, gap = c[POINT], c[POINT + 1], c[POINT + 2], c[GAP]
        _anchor(a, x, y, z, places, P, E, row[ANCHOR_A : ANCHOR_A + 3])
        _anchor(b, x + gap * nx, y + gap * ny, z + gap * nz, places, P, E, row[ANCHOR_B : ANCHOR_B + 3])
        px, py, pz = _place(a, 0, row[ANCHOR_A : ANCHOR_A + 3], places, X, F)
        qx, qy, qz = _place(b, 0, row[ANCHOR_B : ANCHOR_B + 3], places, X, F)
        row[APPROACH] = nx * (qx - px) + ny * (qy - py) + nz * (qz - pz) - gap
        row[SLACK] = max(0.0, -gap - max(0.0, row[APPROACH]) - recovery * c[SIZE])
        row[FRICTION] = friction[k]


@kernel
def add_bodies(sides, slots, first, count, particles, buffers, bodies) -> None:
    """Write the rows of single particles, from `first` on; those that are alone can turn."""
    inverse_mass, alone, M, P, E = (
        particles.inverse_mass, particles.alone, particles.moments, buffers.P, buffers.E
    )  # fmt: skip
    bodies[first:] = 0.0
    for k in range(len(sides)):
        for end in range(2):
            s, i = slots[k, end], sides[k, end] - count
            if s < first or i < 0:
                continue
            w = bodies[s]
            w[CENTROID], w[CENTROID + 1], w[CENTROID + 2], w[INVERSE_MASS] = (
                P[i, 0], P[i, 1], P[i, 2], inverse_mass[i]
            )  # fmt: skip
            if alone[i] and inverse_mass[i] > 0.0:
                J = inertia(E[i], M[i])
                w[INVERSE_INERTIA], w[INVERSE_INERTIA + 1], w[INVERSE_INERTIA + 2] = solve_symmetric(
                    J, 1.0, 0.0, 0.0
                )
                _, w[INVERSE_INERTIA + 3], w[INVERSE_INERTIA + 4] = solve_symmetric(J, 0.0, 1.0, 0.0)
                _, _, w[INVERSE_INERTIA + 5] = solve_symmetric(J, 0.0, 0.0, 1.0)


@kernel
def measure(sides, slots, places, buffers, bodies, rows) -> None:
    """Measure overlaps and slips as bodies lie now, and how easily each contact moves."""
    X, F, P, E = buffers.X, buffers.F, buffers.P, buffers.E
    for k in range(len(rows)):
        row = rows[k]
        a, b = sides[k, 0], sides[k, 1]
        q, s = row[ANCHOR_A : ANCHOR_A + 3], row[ANCHOR_B : ANCHOR_B + 3]
        ax, ay, az = _place(a, 1, q, places, P, E)
        bx, by, bz = _place(b, 1, s, places, P, E)
        ox, oy, oz = _place(a, 0, q, places, X, F)
        ux, uy, uz = _place(b, 0, s, places, X, F)
        gap = row[0] * (bx - ax) + row[1] * (by - ay) + row[2] * (bz - az)
        row[WANTED] = -gap - row[SLACK]
        x, y, z = (ax - ox) - (bx - ux), (ay - oy) - (by - uy), (az - oz) - (bz - uz)
        row[WANTED + 1] = row[3] * x + row[4] * y + row[5] * z
        row[WANTED + 2] = row[6] * x + row[7] * y + row[8] * z
        # One point for both, so that angular momentum is kept.
        x, y, z = 0.5 * (ax + bx), 0.5 * (ay + by), 0.5 * (az + bz)
        for d in range(3):
            row[MOBILITY + d] = 0.0
        for end in range(2):
            w = bodies[slots[k, end]]
            arm, turn = (ARM_A, TURN_A) if end == 0 else (ARM_B, TURN_B)
            rx, ry, rz = x - w[CENTROID], y - w[CENTROID + 1], z - w[CENTROID + 2]
            for d in range(3):
                dx, dy, dz = row[3 * d], row[3 * d + 1], row[3 * d + 2]
                px, py, pz = ry * dz - rz * dy, rz * dx - rx * dz, rx * dy - ry * dx
                i = INVERSE_INERTIA
                qx = w[i] * px + w[i + 1] * py + w[i + 2] * pz
                qy = w[i + 1] * px + w[i + 3] * py + w[i + 4] * pz
                qz = w[i + 2] * px + w[i + 4] * py + w[i + 5] * pz
                row[arm + 3 * d], row[arm + 3 * d + 1], row[arm + 3 * d + 2] = px, py, pz
                row[turn + 3 * d], row[turn + 3 * d + 1], row[turn + 3 * d + 2] = qx, qy, qz
                row[MOBILITY + d] += w[INVERSE_MASS] + px * qx + py * qy + pz * qz


@kernel
def middles(sides, places, buffers, rows, points) -> None:
    """Compute the points (k, 3) at which contacts act, as bodies lie now: the same for both sides."""
    P, E = buffers.P, buffers.E
    for k in range(len(rows)):
        row = rows[k]
        ax, ay, az = _place(sides[k, 0], 1, row[ANCHOR_A : ANCHOR_A + 3], places, P, E)
        bx, by, bz = _place(sides[k, 1], 1, row[ANCHOR_B : ANCHOR_B + 3], places, P, E)
        points[k, 0], points[k, 1], points[k, 2] = 0.5 * (ax + bx), 0.5 * (ay + by), 0.5 * (az + bz)


@kernel
def _relative(row, d, v, w):
    """Return how far the second body has moved from the first along direction d of the contact."""
    t, o, a, b, j = TRANSLATION, ROTATION, ARM_A + 3 * d, ARM_B + 3 * d, 3 * d
    return (
        row[j] * (w[t] - v[t]) + row[j + 1] * (w[t + 1] - v[t + 1]) + row[j + 2] * (w[t + 2] - v[t + 2])
        + row[b] * w[o] + row[b + 1] * w[o + 1] + row[b + 2] * w[o + 2]
        - row[a] * v[o] - row[a + 1] * v[o + 1] - row[a + 2] * v[o + 2]
    )  # fmt: skip


@kernel
def _push(row, d, impulse, v, w):
    """Apply an impulse along direction d of a contact to both bodies."""
    for j in range(3):
        v[TRANSLATION + j] -= v[INVERSE_MASS] * impulse * row[3 * d + j]
        w[TRANSLATION + j] += w[INVERSE_MASS] * impulse * row[3 * d + j]
        v[ROTATION + j] -= impulse * row[TURN_A + 3 * d + j]
        w[ROTATION + j] += impulse * row[TURN_B + 3 * d + j]


@kernel
def solve(slots, most, bodies, rows):
    """Find the impulses of all contacts, and move the bodies by them; return how many sweeps that took."""
    before, old = math.inf, np.empty(3)
    for k in range(len(rows)):
        for d in range(3):
            rows[k, CHANGE + d] = rows[k, STEP + d] = 0.0
    for sweep in range(most):
        change, size = 0.0, 0.0
        for k in range(len(rows)):
            row, v, w = rows[k], bodies[slots[k, 0]], bodies[slots[k, 1]]
            if row[MOBILITY] == 0.0:
                continue
            for d in range(3):
                old[d] = row[IMPULSE + d]
            step = (row[WANTED] - _relative(row, 0, v, w)) / row[MOBILITY]
            row[IMPULSE] = max(0.0, old[0] + step)
            if row[IMPULSE] != old[0]:
                _push(row, 0, row[IMPULSE] - old[0], v, w)
            limit = row[FRICTION] * row[IMPULSE]
            if row[FRICTION] > 0.0:
                x = old[1] + (row[WANTED + 1] - _relative(row, 1, v, w)) / row[MOBILITY + 1]
                y = old[2] + (row[WANTED + 2] - _relative(row, 2, v, w)) / row[MOBILITY + 2]
                length = math.sqrt(x * x + y * y)
                f = limit / length if length > limit else 1.0
                row[IMPULSE + 1], row[IMPULSE + 2] = f * x, f * y
                _push(row, 1, row[IMPULSE + 1] - old[1], v, w)
                _push(row, 2, row[IMPULSE + 2] - old[2], v, w)
            for d in range(3):
                row[CHANGE + d] = row[IMPULSE + d] - old[d]
                change += row[CHANGE + d] ** 2
                size += row[IMPULSE + d] ** 2
        if change <= ENOUGH * ENOUGH * size or sweep == most - 1:
            return sweep + 1
        # Go on the way of the sweeps before; where it led astray, begin anew.
        ahead = change / before
        ahead = ahead if ahead <= 1.0 else 0.0
        for k in range(len(rows)):
            row, v, w = rows[k], bodies[slots[k, 0]], bodies[slots[k, 1]]
            for d in range(3):
                more = ahead * row[STEP + d]
                row[STEP + d] = more + row[CHANGE + d]
                if more != 0.0:
                    row[IMPULSE + d] += more
                    _push(row, d, more, v, w)
        before = change
    return most


@kernel
def move_particles(sides, slots, first, count, M, P, E, bodies) -> None:
    """Move single particles by their corrections, and turn those that are alone."""
    for k in range(len(sides)):
        for end in range(2):
            s, i = slots[k, end], sides[k, end] - count
            if s < first or i < 0:
                continue
            w = bodies[s]
            for j in range(3):
                P[i, j] += w[TRANSLATION + j]
            if w[ROTATION] != 0.0 or w[ROTATION + 1] != 0.0 or w[ROTATION + 2] != 0.0:
                rotate(w[ROTATION], w[ROTATION + 1], w[ROTATION + 2], E[i])
                update_moment(E[i], M[i], P[i])
            for j in range(TRANSLATION, ROTATION + 3):
                w[j] = 0.0


@kernel
def _point_velocity(side, q, h, at, places, buffers):
    """Return the velocity of a side at a place, where its point q is."""
    X, V, W, (x, y, z) = buffers.X, buffers.V, buffers.W, at
    count = len(places.leads)
    i = places.leads[side] if side < count else side - count
    if i < 0:
        px, py, pz = _place(side, 0, q, places, X, W)
        qx, qy, qz = _place(side, 1, q, places, X, W)
        return (qx - px) / h, (qy - py) / h, (qz - pz) / h
    u, v, w = V[i, 0], V[i, 1], V[i, 2]
    if side < count or places.turning[i]:
        x, y, z = x - X[i, 0], y - X[i, 1], z - X[i, 2]
        u += W[i, 1] * z - W[i, 2] * y
        v += W[i, 2] * x - W[i, 0] * z
        w += W[i, 0] * y - W[i, 1] * x
    return u, v, w


@kernel
def limit_speeds(sides, slots, sweeps, restitution, places, buffers, bodies, rows) -> None:
    """Find the changes of velocity by which contacts part no faster than they return: see `friction`.

    X are the positions now. The changes gather in `bodies`.
    """
    P, E, h = buffers.P, buffers.E, restitution.substep
    count = len(places.leads)
    for k in range(len(rows)):
        row, a, b = rows[k], sides[k, 0], sides[k, 1]
        row[STEP] = row[CHANGE] = 0.0
        if not row[IMPULSE] > 0.0:
            continue
        q, s = row[ANCHOR_A : ANCHOR_A + 3], row[ANCHOR_B : ANCHOR_B + 3]
        x, y, z = _place(a, 1, q, places, P, E)
        o, p, r = _place(b, 1, s, places, P, E)
        x, y, z = 0.5 * (x + o), 0.5 * (y + p), 0.5 * (z + r)
        au, av, aw = _point_velocity(a, q, h, (x, y, z), places, buffers)
        bu, bv, bw = _point_velocity(b, s, h, (x, y, z), places, buffers)
        approach = row[APPROACH] / h
        for side in (a, b):
            i = side - count
            if i >= 0:
                buffers.impact_speeds[i] = max(buffers.impact_speeds[i], approach)
        returned = restitution.coefficient * approach if approach > restitution.threshold else 0.0
        row[WANTED] = returned - row[0] * (bu - au) - row[1] * (bv - av) - row[2] * (bw - aw)
        # Each contact either slows or lifts.
        row[STEP] = 1.0 if returned > 0.0 and row[WANTED] > 0.0 else -1.0
    for _ in range(sweeps):
        for k in range(len(rows)):
            row, v, w = rows[k], bodies[slots[k, 0]], bodies[slots[k, 1]]
            if row[STEP] == 0.0 or row[MOBILITY] == 0.0:
                continue
            before = row[CHANGE]
            after = before + (row[WANTED] - _relative(row, 0, v, w)) / row[MOBILITY]
            row[CHANGE] = max(0.0, after) if row[STEP] > 0.0 else min(0.0, after)
            _push(row, 0, row[CHANGE] - before, v, w)


@kernel
def hasten_particles(sides, slots, first, count, V, W, bodies) -> None:
    """Add the changes of velocity of single particles to their velocities."""
    for k in range(len(sides)):
        for end in range(2):
            s, i = slots[k, end], sides[k, end] - count
            if s >= first and i >= 0:
                for j in range(3):
                    V[i, j] += bodies[s, TRANSLATION + j]
                    W[i, j] += bodies[s, ROTATION + j]
                    bodies[s, TRANSLATION + j] = bodies[s, ROTATION + j] = 0.0
