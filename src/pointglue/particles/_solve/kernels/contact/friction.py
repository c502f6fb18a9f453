"""Contact along the surface (friction), and away from it (restitution).

Equations 16 to 21 in terms of displacements within the substep instead of velocities: a particle that
friction stops then stays where it is, and does not creep by g h^2 each time.
"""

import math

import numpy as np

from .....compute import kernel
from ..shapes.ellipsoids import shape_matrix, support
from ..shapes.rotations import inertia, rotate, rotation_between, update_moment
from .colliders import collider_displacement
from .rigid import (
    CENTROID,
    PASSES,
    ROTATION,
    TRANSLATION,
    apply_impulse,
    corrected_position,
    inverse_effective_mass,
)

__all__ = [
    "collider_friction", "collider_restitution", "group_friction", "group_restitution", "pair_friction",
    "pair_restitution",
]  # fmt: skip

# Columns of a contact of a rigid group, while its friction is worked out.
LEVER = 0  # the point of contact from the particle (3), m
SLIP = 3  # how far the collider has slipped along it (3), m
LIMIT = 6  # the largest impulse that friction allows, kg m
IMPULSE = 7  # the impulse so far (3), kg m
CONTACT = 10


@kernel
def _surface_inverse_mass(i, arm, tangent, mobility, inverse_mass, M, E, turned):
    """Return how far the surface of particle i at r goes along a unit tangent t for an impulse of 1 along it.

    mobility + (r x t)^T J^-1 (r x t); J^-1 (r x t), by how much it turns, goes into `turned`. What does not
    move, or has no orientation, does not turn.
    """
    rx, ry, rz = arm
    tx, ty, tz = tangent
    turned[0], turned[1], turned[2] = 0.0, 0.0, 0.0
    a, b, c, d, e, f = inertia(E[i], M[i])
    p, q, r = d * f - e * e, c * e - b * f, b * e - c * d
    det = a * p + b * q + c * r
    if inverse_mass[i] == 0.0 or det == 0.0:
        return mobility
    x, y, z = ry * tz - rz * ty, rz * tx - rx * tz, rx * ty - ry * tx
    u, v, w = a * f - c * c, b * c - a * e, a * d - b * b
    turned[0] = (p * x + q * y + r * z) / det
    turned[1] = (q * x + u * y + v * z) / det
    turned[2] = (r * x + v * y + w * z) / det
    return mobility + x * turned[0] + y * turned[1] + z * turned[2]


@kernel
def _apply_surface_impulse(i, j, tangent, mobility, turned, M, P, E):
    """Move and turn particle i by an impulse j along a tangent on its surface."""
    tx, ty, tz = tangent
    P[i, 0] += mobility * j * tx
    P[i, 1] += mobility * j * ty
    P[i, 2] += mobility * j * tz
    if turned[0] != 0.0 or turned[1] != 0.0 or turned[2] != 0.0:
        rotate(j * turned[0], j * turned[1], j * turned[2], E[i])
        update_moment(E[i], M[i], P[i])


@kernel
def collider_friction(start, stop, friction, poses, contacts, group_of, particles, buffers):
    """Apply friction on a collider to particles of no rigid group, by Coulomb's law.

    It is no more than the coefficient times the contact's depth. A particle that is alone takes an impulse at
    its surface that moves and turns it. One with neighbours, which say how it is turned, moves as in equation
    16, and then turns by the rolling fraction of the slip that is left as in 17, with the lever r = -r n.
    """
    mu, roll = friction.sliding, friction.rolling
    depths, normals = contacts.depths, contacts.normals
    inverse_mass, alone, C, M = particles.inverse_mass, particles.alone, particles.shapes, particles.moments
    X, F, P, E = buffers.X, buffers.F, buffers.P, buffers.E
    G, turned = np.empty(9), np.empty(3)
    for i in range(start, stop):
        if not depths[i] > 0.0 or group_of[i] >= 0:
            continue
        nx, ny, nz = normals[i, 0], normals[i, 1], normals[i, 2]
        shape_matrix(E[i], C[i], G)
        r = support(G, nx, ny, nz)
        sx, sy, sz = collider_displacement(poses, P[i, 0] - r * nx, P[i, 1] - r * ny, P[i, 2] - r * nz)
        x, y, z = sx - (P[i, 0] - X[i, 0]), sy - (P[i, 1] - X[i, 1]), sz - (P[i, 2] - X[i, 2])
        away = x * nx + y * ny + z * nz
        x, y, z = x - away * nx, y - away * ny, z - away * nz
        if not alone[i]:
            slip = math.sqrt(x * x + y * y + z * z)
            f = mu * depths[i] / slip if slip > mu * depths[i] else 1.0
            P[i, 0] += f * x
            P[i, 1] += f * y
            P[i, 2] += f * z
            x, y, z = (1.0 - f) * x, (1.0 - f) * y, (1.0 - f) * z
            if roll == 0.0:
                continue
        ax, ay, az = rotation_between(E[i], F[i])
        x, y, z = x + r * (ay * nz - az * ny), y + r * (az * nx - ax * nz), z + r * (ax * ny - ay * nx)
        slip = math.sqrt(x * x + y * y + z * z)
        if slip > 0.0:
            t = (x / slip, y / slip, z / slip)
            mobility = inverse_mass[i] if alone[i] else 0.0
            arm = (-r * nx, -r * ny, -r * nz)
            w = _surface_inverse_mass(i, arm, t, mobility, inverse_mass, M, E, turned)
            if alone[i]:
                j = min(slip / w, mu * depths[i] / inverse_mass[i])
                _apply_surface_impulse(i, j, t, mobility, turned, M, P, E)
            elif w > 0.0:
                _apply_surface_impulse(i, roll * slip / w, t, 0.0, turned, M, P, E)


@kernel
def _contacts_of(g, starts, members, depths):
    """Return the particles of a rigid group that are in contact with a collider."""
    count = 0
    for e in range(starts[g], starts[g + 1]):
        if depths[members[e]] > 0.0:
            count += 1
    hits = np.empty(count, np.int64)
    count = 0
    for e in range(starts[g], starts[g + 1]):
        if depths[members[e]] > 0.0:
            hits[count] = members[e]
            count += 1
    return hits


@kernel
def group_friction(start, stop, friction, poses, contacts, groups, particles, buffers):
    """Apply friction on a collider to rigid groups: impulses at their particles' surfaces move the whole."""
    mu, depths, normals = friction.sliding, contacts.depths, contacts.normals
    starts, members, group_of, rows = groups.starts, groups.members, groups.group_of, groups.rows
    inverse_mass, C = particles.inverse_mass, particles.shapes
    X, F, P, E = buffers.X, buffers.F, buffers.P, buffers.E
    G = np.empty(9)
    for g in range(start, stop):
        hits = _contacts_of(g, starts, members, depths)
        count = len(hits)
        states = np.zeros((count, CONTACT))
        for k in range(count):
            i, c = hits[k], states[k]
            nx, ny, nz = normals[i, 0], normals[i, 1], normals[i, 2]
            shape_matrix(E[i], C[i], G)
            r = support(G, nx, ny, nz)
            c[LEVER], c[LEVER + 1], c[LEVER + 2] = -r * nx, -r * ny, -r * nz
            c[SLIP], c[SLIP + 1], c[SLIP + 2] = collider_displacement(
                poses, P[i, 0] + c[LEVER], P[i, 1] + c[LEVER + 1], P[i, 2] + c[LEVER + 2]
            )
            ax, ay, az = rotation_between(E[i], F[i])
            c[SLIP] -= P[i, 0] - X[i, 0] + ay * c[LEVER + 2] - az * c[LEVER + 1]
            c[SLIP + 1] -= P[i, 1] - X[i, 1] + az * c[LEVER] - ax * c[LEVER + 2]
            c[SLIP + 2] -= P[i, 2] - X[i, 2] + ax * c[LEVER + 1] - ay * c[LEVER]
            c[LIMIT] = mu * depths[i] / inverse_mass[i]
        w = rows[g]
        for _ in range(PASSES):
            for k in range(count):
                i, c = hits[k], states[k]
                nx, ny, nz = normals[i, 0], normals[i, 1], normals[i, 2]
                px, py, pz = P[i, 0] + c[LEVER], P[i, 1] + c[LEVER + 1], P[i, 2] + c[LEVER + 2]
                rx, ry, rz = px - w[CENTROID], py - w[CENTROID + 1], pz - w[CENTROID + 2]
                x = c[SLIP] - (w[TRANSLATION] + w[ROTATION + 1] * rz - w[ROTATION + 2] * ry)
                y = c[SLIP + 1] - (w[TRANSLATION + 1] + w[ROTATION + 2] * rx - w[ROTATION] * rz)
                z = c[SLIP + 2] - (w[TRANSLATION + 2] + w[ROTATION] * ry - w[ROTATION + 1] * rx)
                away = x * nx + y * ny + z * nz
                x, y, z = x - away * nx, y - away * ny, z - away * nz
                slip = math.sqrt(x * x + y * y + z * z)
                if slip == 0.0:
                    continue
                tangent = (x / slip, y / slip, z / slip)
                f = 1.0 / inverse_effective_mass(i, (px, py, pz), tangent, group_of, rows, inverse_mass)
                # The impulse so far and this one together are no more than friction allows.
                x, y, z = c[IMPULSE] + f * x, c[IMPULSE + 1] + f * y, c[IMPULSE + 2] + f * z
                most = math.sqrt(x * x + y * y + z * z)
                f = c[LIMIT] / most if most > c[LIMIT] else 1.0
                x, y, z = f * x - c[IMPULSE], f * y - c[IMPULSE + 1], f * z - c[IMPULSE + 2]
                c[IMPULSE], c[IMPULSE + 1], c[IMPULSE + 2] = (
                    c[IMPULSE] + x,
                    c[IMPULSE + 1] + y,
                    c[IMPULSE + 2] + z,
                )
                apply_impulse(i, 1.0, (px, py, pz), (x, y, z), group_of, rows, inverse_mass, P)


@kernel
def pair_friction(start, stop, base, friction, contacts, groups, particles, buffers):
    """Apply friction between two particles (equations 18 to 21): both are read first, impulses are equal."""
    mu, roll = friction.sliding, friction.rolling
    pairs, depths, normals = contacts.pairs, contacts.depths, contacts.normals
    group_of, rows = groups.group_of, groups.rows
    inverse_mass, alone, C, M = particles.inverse_mass, particles.alone, particles.shapes, particles.moments
    X, F, P, E = buffers.X, buffers.F, buffers.P, buffers.E
    G, turned_i, turned_j = np.empty(9), np.empty(3), np.empty(3)
    for k in range(base + start, base + stop):
        if not depths[k] > 0.0:
            continue
        i, j = pairs[k, 0], pairs[k, 1]
        nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
        both = alone[i] and alone[j]
        xi, yi, zi = corrected_position(i, group_of, rows, P)
        xj, yj, zj = corrected_position(j, group_of, rows, P)
        x = (xj - X[j, 0]) - (xi - X[i, 0])
        y = (yj - X[j, 1]) - (yi - X[i, 1])
        z = (zj - X[j, 2]) - (zi - X[i, 2])
        # What turning adds to the slip of the surfaces, at r n from i and at -s n from j.
        shape_matrix(E[i], C[i], G)
        r = support(G, nx, ny, nz)
        shape_matrix(E[j], C[j], G)
        s = support(G, nx, ny, nz)
        ax, ay, az = _turned(i, r, E, F, group_of, rows)
        bx, by, bz = _turned(j, s, E, F, group_of, rows)
        # Orientations that follow from neighbours do not count as slip, those of rigid groups do.
        f = 1.0 if both or group_of[i] >= 0 else 0.0
        g = 1.0 if both or group_of[j] >= 0 else 0.0
        px, py, pz = f * ax + g * bx, f * ay + g * by, f * az + g * bz
        x, y, z = x - (py * nz - pz * ny), y - (pz * nx - px * nz), z - (px * ny - py * nx)
        away = x * nx + y * ny + z * nz
        x, y, z = x - away * nx, y - away * ny, z - away * nz
        slip = math.sqrt(x * x + y * y + z * z)
        most = mu * depths[k] / (inverse_mass[i] + inverse_mass[j])
        if both and slip > 0.0:
            u, v = inverse_mass[i], inverse_mass[j]
            t = (x / slip, y / slip, z / slip)
            arm_i, arm_j = (r * nx, r * ny, r * nz), (-s * nx, -s * ny, -s * nz)
            w = _surface_inverse_mass(i, arm_i, t, u, inverse_mass, M, E, turned_i)
            w += _surface_inverse_mass(j, arm_j, t, v, inverse_mass, M, E, turned_j)
            impulse = min(slip / w, most)
            _apply_surface_impulse(i, impulse, t, u, turned_i, M, P, E)
            _apply_surface_impulse(j, -impulse, t, v, turned_j, M, P, E)
        if both:
            continue
        if slip > 0.0:
            t = (x / slip, y / slip, z / slip)
            point = (xi + r * nx, yi + r * ny, zi + r * nz)
            u = inverse_effective_mass(i, point, t, group_of, rows, inverse_mass)
            v = inverse_effective_mass(j, point, t, group_of, rows, inverse_mass)
            impulse = min(slip / (u + v), most)
            apply_impulse(i, impulse, point, t, group_of, rows, inverse_mass, P)
            apply_impulse(j, -impulse, point, t, group_of, rows, inverse_mass, P)
            left = 1.0 - impulse * (u + v) / slip
            x, y, z = left * x, left * y, left * z
        if roll == 0.0:
            continue
        f, g = 1.0 - f, 1.0 - g
        px, py, pz = f * ax + g * bx, f * ay + g * by, f * az + g * bz
        x, y, z = x - (py * nz - pz * ny), y - (pz * nx - px * nz), z - (px * ny - py * nx)
        slip = math.sqrt(x * x + y * y + z * z)
        if slip > 0.0:
            t = (x / slip, y / slip, z / slip)
            arm_i, arm_j = (r * nx, r * ny, r * nz), (-s * nx, -s * ny, -s * nz)
            w = f * _surface_inverse_mass(i, arm_i, t, 0.0, inverse_mass, M, E, turned_i)
            w += g * _surface_inverse_mass(j, arm_j, t, 0.0, inverse_mass, M, E, turned_j)
            if w > 0.0:
                _apply_surface_impulse(i, f * roll * slip / w, t, 0.0, turned_i, M, P, E)
                _apply_surface_impulse(j, -g * roll * slip / w, t, 0.0, turned_j, M, P, E)


@kernel
def _turned(i, r, E, F, group_of, rows):
    """Return r times how far particle i has turned, with the correction of its group."""
    x, y, z = rotation_between(E[i], F[i])
    g = group_of[i]
    if g >= 0:
        w = rows[g]
        x, y, z = x + w[ROTATION], y + w[ROTATION + 1], z + w[ROTATION + 2]
    return r * x, r * y, r * z


@kernel
def _separation_speed(i, restitution, poses, normals, X, V0, impact_speeds):
    """Return how fast particle i is to leave a collider along its normal at most, and whether also at least.

    An impact is returned by the coefficient; what comes slower than the threshold only rests.
    """
    nx, ny, nz = normals[i, 0], normals[i, 1], normals[i, 2]
    sx, sy, sz = collider_displacement(poses, X[i, 0], X[i, 1], X[i, 2])
    surface = (sx * nx + sy * ny + sz * nz) / restitution.substep
    approach = surface - (V0[i, 0] * nx + V0[i, 1] * ny + V0[i, 2] * nz)
    impact_speeds[i] = max(impact_speeds[i], approach)
    returned = restitution.coefficient * approach if approach > restitution.threshold else 0.0
    return surface + returned, returned > 0.0


@kernel
def collider_restitution(start, stop, restitution, poses, contacts, group_of, buffers):
    """Limit the speed at which particles of no rigid group leave a collider to what it returns.

    A correction of the position is no impulse: it adds no speed of its own.
    """
    depths, normals = contacts.depths, contacts.normals
    X, V, V0, impact_speeds = buffers.X, buffers.V, buffers.V0, buffers.impact_speeds
    for i in range(start, stop):
        if not depths[i] > 0.0 or group_of[i] >= 0:
            continue
        nx, ny, nz = normals[i, 0], normals[i, 1], normals[i, 2]
        speed, least = _separation_speed(i, restitution, poses, normals, X, V0, impact_speeds)
        excess = V[i, 0] * nx + V[i, 1] * ny + V[i, 2] * nz - speed
        if excess > 0.0 or least:
            V[i, 0] -= excess * nx
            V[i, 1] -= excess * ny
            V[i, 2] -= excess * nz


@kernel
def group_restitution(start, stop, restitution, poses, contacts, groups, particles, buffers):
    """Limit the speed at which rigid groups leave a collider; they lose speed as a whole."""
    depths, normals, inverse_mass = contacts.depths, contacts.normals, particles.inverse_mass
    starts, members, group_of, rows = groups.starts, groups.members, groups.group_of, groups.rows
    X, V, V0, impact_speeds = buffers.X, buffers.V, buffers.V0, buffers.impact_speeds
    for g in range(start, stop):
        hits = _contacts_of(g, starts, members, depths)
        taken, limits, lifted = np.zeros(len(hits)), np.empty(len(hits)), np.empty(len(hits), np.bool_)
        for k in range(len(hits)):
            i = hits[k]
            limits[k], lifted[k] = _separation_speed(i, restitution, poses, normals, X, V0, impact_speeds)
            u, v, w = V[i, 0] * normals[i, 0], V[i, 1] * normals[i, 1], V[i, 2] * normals[i, 2]
            lifted[k] = lifted[k] and u + v + w < limits[k]
        for _ in range(PASSES):
            for k in range(len(hits)):
                i = hits[k]
                normal = (normals[i, 0], normals[i, 1], normals[i, 2])
                point = (X[i, 0], X[i, 1], X[i, 2])
                u, v, w = _corrected_velocity(i, X, V, group_of, rows)
                excess = u * normal[0] + v * normal[1] + w * normal[2] - limits[k]
                before = taken[k]
                taken[k] += excess / inverse_effective_mass(i, point, normal, group_of, rows, inverse_mass)
                # Each contact either slows or lifts.
                taken[k] = min(0.0, taken[k]) if lifted[k] else max(0.0, taken[k])
                apply_impulse(i, before - taken[k], point, normal, group_of, rows, inverse_mass, V)


@kernel
def _corrected_velocity(i, X, V, group_of, rows):
    """Return the velocity of particle i, with the correction of its group that is still to be applied."""
    u, v, w = V[i, 0], V[i, 1], V[i, 2]
    g = group_of[i]
    if g < 0:
        return u, v, w
    f = rows[g]
    x, y, z = X[i, 0] - f[CENTROID], X[i, 1] - f[CENTROID + 1], X[i, 2] - f[CENTROID + 2]
    return (
        u + f[TRANSLATION] + f[ROTATION + 1] * z - f[ROTATION + 2] * y,
        v + f[TRANSLATION + 1] + f[ROTATION + 2] * x - f[ROTATION] * z,
        w + f[TRANSLATION + 2] + f[ROTATION] * y - f[ROTATION + 1] * x,
    )


@kernel
def pair_restitution(start, stop, base, restitution, contacts, groups, particles, buffers):
    """Limit the speed at which two particles or their groups part; they share it by mass."""
    pairs, depths, normals = contacts.pairs, contacts.depths, contacts.normals
    bounce, slow, inverse_mass = restitution.coefficient, restitution.threshold, particles.inverse_mass
    group_of, rows = groups.group_of, groups.rows
    X, V, V0, impact_speeds = buffers.X, buffers.V, buffers.V0, buffers.impact_speeds
    for k in range(base + start, base + stop):
        if not depths[k] > 0.0:
            continue
        i, j = pairs[k, 0], pairs[k, 1]
        nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
        approach = (V0[i, 0] - V0[j, 0]) * nx + (V0[i, 1] - V0[j, 1]) * ny + (V0[i, 2] - V0[j, 2]) * nz
        # What is fixed may stand in several pairs of a colour, and nothing is to be written there.
        if inverse_mass[i] > 0.0:
            impact_speeds[i] = max(impact_speeds[i], approach)
        if inverse_mass[j] > 0.0:
            impact_speeds[j] = max(impact_speeds[j], approach)
        ui, vi, wi = _corrected_velocity(i, X, V, group_of, rows)
        uj, vj, wj = _corrected_velocity(j, X, V, group_of, rows)
        returned = bounce * approach if approach > slow else 0.0
        excess = (uj - ui) * nx + (vj - vi) * ny + (wj - wi) * nz - returned
        if excess > 0.0 or returned > 0.0:
            normal = (nx, ny, nz)
            # At one point of both, which keeps angular momentum; particles have theirs at the centre.
            f = 0.5 if group_of[i] >= 0 and group_of[j] >= 0 else (1.0 if group_of[j] < 0 else 0.0)
            point = (
                X[i, 0] + f * (X[j, 0] - X[i, 0]),
                X[i, 1] + f * (X[j, 1] - X[i, 1]),
                X[i, 2] + f * (X[j, 2] - X[i, 2]),
            )
            w = inverse_effective_mass(i, point, normal, group_of, rows, inverse_mass)
            w += inverse_effective_mass(j, point, normal, group_of, rows, inverse_mass)
            apply_impulse(i, excess / w, point, normal, group_of, rows, inverse_mass, V)
            apply_impulse(j, -excess / w, point, normal, group_of, rows, inverse_mass, V)
