"""Rigid groups in contact: what corrects one of their particles moves and turns the group as a whole.

Corrections of a group gather in its row of `RigidGroups.rows` until `apply_corrections`.
Particles of no group that moves freely, `group_of` -1, are corrected with their own mass.

Functions for single contacts take arrays, not records, since reading a field costs time in loops; those that
are called most often take few arrays, since each costs 50 ns a call.
"""

import math

import numpy as np

from .....compute import kernel
from ..shapes.rotations import inertia, rotate, update_moment
from .colliders import collider_displacement

__all__ = [
    "CENTROID", "PASSES", "ROTATION", "ROW", "TRANSLATION", "apply_corrections", "apply_impulse",
    "apply_velocity_corrections", "corrected_position", "inverse_effective_mass", "limit_recovery",
    "mass_properties", "resolve_group_contacts",
]  # fmt: skip

# Columns of `RigidGroups.rows`: what is read and changed together stands side by side.
CENTROID = 0  # centre of mass (3), m
INVERSE_MASS = 3  # 1/kg
INVERSE_INERTIA = 4  # xx, xy, xz, yy, yz, zz (6), 1/(kg m^2)
TRANSLATION = 10  # gathered corrections (3), m, or m/s while velocities are corrected
ROTATION = 13  # gathered rotation vector (3), rad or rad/s
ROW = 16
# Gauss-Seidel passes over the contacts of one group with one collider, after which their impulses agree.
PASSES = 8


@kernel
def mass_properties(start, stop, groups, mass, M, P, E):
    """Compute centre of mass, inverse mass and inverse inertia of each group as it lies now."""
    starts, members = groups.starts, groups.members
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
        w = groups.rows[g]
        w[CENTROID], w[CENTROID + 1], w[CENTROID + 2], w[INVERSE_MASS] = cx, cy, cz, 1.0 / m
        w[INVERSE_INERTIA], w[INVERSE_INERTIA + 1], w[INVERSE_INERTIA + 2] = turns * p, turns * q, turns * r
        w[INVERSE_INERTIA + 3], w[INVERSE_INERTIA + 4] = turns * (a * f - c * c), turns * (b * c - a * e)
        w[INVERSE_INERTIA + 5] = turns * (a * d - b * b)
        for j in range(TRANSLATION, ROW):
            w[j] = 0.0


@kernel
def corrected_position(i, group_of, rows, P):
    """Return the position of particle i, with the correction of its group that is still to be applied."""
    x, y, z = P[i, 0], P[i, 1], P[i, 2]
    g = group_of[i]
    if g < 0:
        return x, y, z
    w = rows[g]
    rx, ry, rz = x - w[CENTROID], y - w[CENTROID + 1], z - w[CENTROID + 2]
    return (
        x + w[TRANSLATION] + w[ROTATION + 1] * rz - w[ROTATION + 2] * ry,
        y + w[TRANSLATION + 1] + w[ROTATION + 2] * rx - w[ROTATION] * rz,
        z + w[TRANSLATION + 2] + w[ROTATION] * ry - w[ROTATION + 1] * rx,
    )


@kernel
def inverse_effective_mass(i, point, normal, group_of, rows, inverse_mass):
    """Return how far a point of particle i's group goes along a unit normal for an impulse of 1 along it."""
    g = group_of[i]
    if g < 0:
        return inverse_mass[i]
    x, y, z = point
    nx, ny, nz = normal
    w = rows[g]
    x, y, z = x - w[CENTROID], y - w[CENTROID + 1], z - w[CENTROID + 2]
    x, y, z = y * nz - z * ny, z * nx - x * nz, x * ny - y * nx
    return (
        w[INVERSE_MASS]
        + x * (w[INVERSE_INERTIA] * x + 2.0 * (w[INVERSE_INERTIA + 1] * y + w[INVERSE_INERTIA + 2] * z))
        + y * (w[INVERSE_INERTIA + 3] * y + 2.0 * w[INVERSE_INERTIA + 4] * z)
        + w[INVERSE_INERTIA + 5] * z * z
    )


@kernel
def apply_impulse(i, j, point, normal, group_of, rows, inverse_mass, P):
    """Apply an impulse j along `normal` at a point of particle i's group, or to the particle itself.

    P are positions, or velocities if it is these that are corrected.
    """
    nx, ny, nz = normal
    g = group_of[i]
    if g < 0:
        P[i, 0] += inverse_mass[i] * j * nx
        P[i, 1] += inverse_mass[i] * j * ny
        P[i, 2] += inverse_mass[i] * j * nz
        return
    x, y, z = point
    w = rows[g]
    x, y, z = x - w[CENTROID], y - w[CENTROID + 1], z - w[CENTROID + 2]
    x, y, z = j * (y * nz - z * ny), j * (z * nx - x * nz), j * (x * ny - y * nx)
    w[TRANSLATION] += w[INVERSE_MASS] * j * nx
    w[TRANSLATION + 1] += w[INVERSE_MASS] * j * ny
    w[TRANSLATION + 2] += w[INVERSE_MASS] * j * nz
    w[ROTATION] += w[INVERSE_INERTIA] * x + w[INVERSE_INERTIA + 1] * y + w[INVERSE_INERTIA + 2] * z
    w[ROTATION + 1] += w[INVERSE_INERTIA + 1] * x + w[INVERSE_INERTIA + 3] * y + w[INVERSE_INERTIA + 4] * z
    w[ROTATION + 2] += w[INVERSE_INERTIA + 2] * x + w[INVERSE_INERTIA + 4] * y + w[INVERSE_INERTIA + 5] * z


@kernel
def apply_corrections(start, stop, groups, M, P, E):
    """Move and turn the particles of each group by the corrections that it has gathered."""
    starts, members = groups.starts, groups.members
    for g in range(start, stop):
        w = groups.rows[g]
        moved = False
        for j in range(TRANSLATION, ROW):
            moved = moved or w[j] != 0.0
        if not moved:
            continue
        turned = np.zeros(9)
        turned[0] = turned[4] = turned[8] = 1.0
        rotate(w[ROTATION], w[ROTATION + 1], w[ROTATION + 2], turned)
        for e in range(starts[g], starts[g + 1]):
            i = members[e]
            x, y, z = P[i, 0] - w[CENTROID], P[i, 1] - w[CENTROID + 1], P[i, 2] - w[CENTROID + 2]
            P[i, 0] = w[CENTROID] + w[TRANSLATION] + turned[0] * x + turned[1] * y + turned[2] * z
            P[i, 1] = w[CENTROID + 1] + w[TRANSLATION + 1] + turned[3] * x + turned[4] * y + turned[5] * z
            P[i, 2] = w[CENTROID + 2] + w[TRANSLATION + 2] + turned[6] * x + turned[7] * y + turned[8] * z
            rotate(w[ROTATION], w[ROTATION + 1], w[ROTATION + 2], E[i])
            update_moment(E[i], M[i], P[i])
        for j in range(3):
            w[CENTROID + j] += w[TRANSLATION + j]
            w[TRANSLATION + j] = 0.0
            w[ROTATION + j] = 0.0


@kernel
def apply_velocity_corrections(start, stop, groups, X, V, W):
    """Add the velocity corrections that a group has gathered to the velocities of its particles."""
    starts, members = groups.starts, groups.members
    for g in range(start, stop):
        w = groups.rows[g]
        for e in range(starts[g], starts[g + 1]):
            i = members[e]
            x, y, z = X[i, 0] - w[CENTROID], X[i, 1] - w[CENTROID + 1], X[i, 2] - w[CENTROID + 2]
            V[i, 0] += w[TRANSLATION] + w[ROTATION + 1] * z - w[ROTATION + 2] * y
            V[i, 1] += w[TRANSLATION + 1] + w[ROTATION + 2] * x - w[ROTATION] * z
            V[i, 2] += w[TRANSLATION + 2] + w[ROTATION] * y - w[ROTATION + 1] * x
            for j in range(3):
                W[i, j] += w[ROTATION + j]
        for j in range(TRANSLATION, ROW):
            w[j] = 0.0


@kernel
def limit_recovery(start, stop, recovery, bounds, poses, X, P, contacts):
    """Take back corrections that resolve an overlap of before the substep faster than `recovery` allows.

    `recovery` is in radii; `poses` are those of the collider.
    """
    shift, depths = contacts.corrections, contacts.depths
    for i in range(start, stop):
        d = math.sqrt(shift[i, 0] ** 2 + shift[i, 1] ** 2 + shift[i, 2] ** 2)
        if d == 0.0:
            continue
        nx, ny, nz = shift[i, 0] / d, shift[i, 1] / d, shift[i, 2] / d
        sx, sy, sz = collider_displacement(poses, P[i, 0], P[i, 1], P[i, 2])
        x, y, z = X[i, 0] + sx - P[i, 0], X[i, 1] + sy - P[i, 1], X[i, 2] + sz - P[i, 2]
        # How far it has come out in all passes of the substep, beyond what it went in.
        excess = min(d, -(nx * x + ny * y + nz * z) - recovery * bounds[i])
        if excess > 0.0:
            for j in range(3):
                back = excess * shift[i, j] / d
                P[i, j] -= back
                shift[i, j] -= back
            depths[i] -= excess


@kernel
def resolve_group_contacts(start, stop, groups, mass, inverse_mass, contacts, P):
    """Move a group as a whole, instead of its particles alone, by impulses that keep it out of a collider.

    The collider has corrected particle i along n by a depth d. Sought are impulses l_i >= 0 along n so that
    each goes at least d (projected Gauss-Seidel). The contact's depth becomes l_i / m_i, which limits
    friction.
    """
    starts, members, group_of, rows = groups.starts, groups.members, groups.group_of, groups.rows
    shift = contacts.corrections
    for g in range(start, stop):
        count = 0
        for e in range(starts[g], starts[g + 1]):
            i = members[e]
            if group_of[i] == g and (shift[i, 0] != 0.0 or shift[i, 1] != 0.0 or shift[i, 2] != 0.0):
                count += 1
        if count == 0:
            continue
        hits, depths, impulses = np.empty(count, np.int64), np.empty(count), np.zeros(count)
        normals, points = np.empty((count, 3)), np.empty((count, 3))
        k = 0
        for e in range(starts[g], starts[g + 1]):
            i = members[e]
            if group_of[i] == g and (shift[i, 0] != 0.0 or shift[i, 1] != 0.0 or shift[i, 2] != 0.0):
                d = math.sqrt(shift[i, 0] ** 2 + shift[i, 1] ** 2 + shift[i, 2] ** 2)
                for j in range(3):
                    P[i, j] -= shift[i, j]
                    normals[k, j] = shift[i, j] / d
                    points[k, j] = P[i, j]
                depths[k] = d
                hits[k] = i
                k += 1
        for _ in range(PASSES):
            for k in range(count):
                i = hits[k]
                normal = (normals[k, 0], normals[k, 1], normals[k, 2])
                point = (points[k, 0], points[k, 1], points[k, 2])
                x, y, z = corrected_position(i, group_of, rows, P)
                gone = (x - point[0]) * normal[0] + (y - point[1]) * normal[1] + (z - point[2]) * normal[2]
                w = inverse_effective_mass(i, point, normal, group_of, rows, inverse_mass)
                before = impulses[k]
                impulses[k] = max(0.0, before + (depths[k] - gone) / w)
                apply_impulse(i, impulses[k] - before, point, normal, group_of, rows, inverse_mass, P)
        for k in range(count):
            i = hits[k]
            contacts.depths[i] += impulses[k] / mass[i] - depths[k]
