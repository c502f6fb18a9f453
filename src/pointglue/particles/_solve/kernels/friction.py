"""What contact does to motion along the surface, and to motion away from it.

Equations 16 to 21 in terms of displacements within the substep instead of velocities: what is held is then
held in place too, and does not creep by g h^2 each time.
"""

import math

import numpy as np

from ....compute import kernel
from .colliders import carried
from .ellipsoids import shape_matrix, support
from .rigid import PASSES, ease, place, push
from .rotations import inertia, times, turn, turned_by


@kernel
def _yield(i, rx, ry, rz, tx, ty, tz, mobility, inverse_mass, M, E, turned):
    """How far the surface of particle i at r goes along the unit vector t for an impulse of 1 along it.

    mobility + (r x t)^T J^-1 (r x t); J^-1 (r x t), by how much it turns, goes into `turned`. What does not
    move, or carries no orientation, does not turn.
    """
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
def _push(i, j, tx, ty, tz, mobility, turned, M, P, E):
    """Move and turn particle i by an impulse j along t on its surface."""
    P[i, 0] += mobility * j * tx
    P[i, 1] += mobility * j * ty
    P[i, 2] += mobility * j * tz
    if turned[0] != 0.0 or turned[1] != 0.0 or turned[2] != 0.0:
        turn(j * turned[0], j * turned[1], j * turned[2], E[i])
        times(E[i], M[i], P[i])


@kernel
def rub(start, stop, mu, roll, before, now, pushed, normals, rigid_of, inverse_mass, alone, C, M, X, F, P, E):
    """Friction on a collider, no more than `mu` times the push that keeps a particle out (Coulomb's law).

    A particle that is `alone` takes an impulse at its surface that moves and turns it. One with neighbours,
    which say how it is turned, moves as in equation 16, and then turns by the fraction `roll` of the slip
    that is left as in 17, with the lever r = -r n. `before` and `now` (12,) are the poses of the collider.
    """
    G, turned = np.empty(9), np.empty(3)
    for i in range(start, stop):
        if not pushed[i] > 0.0 or rigid_of[i] >= 0:
            continue
        nx, ny, nz = normals[i, 0], normals[i, 1], normals[i, 2]
        shape_matrix(E[i], C[i], G)
        r = support(G, nx, ny, nz)
        sx, sy, sz = carried(before, now, P[i, 0] - r * nx, P[i, 1] - r * ny, P[i, 2] - r * nz)
        x, y, z = sx - (P[i, 0] - X[i, 0]), sy - (P[i, 1] - X[i, 1]), sz - (P[i, 2] - X[i, 2])
        away = x * nx + y * ny + z * nz
        x, y, z = x - away * nx, y - away * ny, z - away * nz
        if not alone[i]:
            slip = math.sqrt(x * x + y * y + z * z)
            f = mu * pushed[i] / slip if slip > mu * pushed[i] else 1.0
            P[i, 0] += f * x
            P[i, 1] += f * y
            P[i, 2] += f * z
            x, y, z = (1.0 - f) * x, (1.0 - f) * y, (1.0 - f) * z
            if roll == 0.0:
                continue
        ax, ay, az = turned_by(E[i], F[i])
        x, y, z = x + r * (ay * nz - az * ny), y + r * (az * nx - ax * nz), z + r * (ax * ny - ay * nx)
        slip = math.sqrt(x * x + y * y + z * z)
        if slip > 0.0:
            x, y, z = x / slip, y / slip, z / slip
            mobility = inverse_mass[i] if alone[i] else 0.0
            ease = _yield(i, -r * nx, -r * ny, -r * nz, x, y, z, mobility, inverse_mass, M, E, turned)
            if alone[i]:
                j = min(slip / ease, mu * pushed[i] / inverse_mass[i])
                _push(i, j, x, y, z, mobility, turned, M, P, E)
            elif ease > 0.0:
                _push(i, roll * slip / ease, x, y, z, 0.0, turned, M, P, E)


@kernel
def _hits(g, starts, members, pushed):
    """Particles of a rigid group that a collider has pushed."""
    count = 0
    for e in range(starts[g], starts[g + 1]):
        if pushed[members[e]] > 0.0:
            count += 1
    hits = np.empty(count, np.int64)
    count = 0
    for e in range(starts[g], starts[g + 1]):
        if pushed[members[e]] > 0.0:
            hits[count] = members[e]
            count += 1
    return hits


@kernel
def rub_rigid(
    start,
    stop,
    mu,
    before,
    now,
    pushed,
    normals,
    starts,
    members,
    rigid_of,
    inverse_mass,
    C,
    X,
    F,
    P,
    E,
    frames,
):
    """The same for rigid groups: impulses at the surfaces of their particles move and turn the whole."""
    G = np.empty(9)
    for g in range(start, stop):
        hits = _hits(g, starts, members, pushed)
        contact = np.zeros((len(hits), 10))
        for k in range(len(hits)):
            i, c = hits[k], contact[k]
            nx, ny, nz = normals[i, 0], normals[i, 1], normals[i, 2]
            shape_matrix(E[i], C[i], G)
            r = support(G, nx, ny, nz)
            # The lever, the point of contact, and how far the collider has carried it.
            c[0], c[1], c[2] = -r * nx, -r * ny, -r * nz
            c[3], c[4], c[5] = carried(before, now, P[i, 0] + c[0], P[i, 1] + c[1], P[i, 2] + c[2])
            ax, ay, az = turned_by(E[i], F[i])
            c[3] -= P[i, 0] - X[i, 0] + ay * c[2] - az * c[1]
            c[4] -= P[i, 1] - X[i, 1] + az * c[0] - ax * c[2]
            c[5] -= P[i, 2] - X[i, 2] + ax * c[1] - ay * c[0]
            c[6] = mu * pushed[i] / inverse_mass[i]
        w = frames[g]
        for _ in range(PASSES):
            for k in range(len(hits)):
                i, c = hits[k], contact[k]
                nx, ny, nz = normals[i, 0], normals[i, 1], normals[i, 2]
                px, py, pz = P[i, 0] + c[0], P[i, 1] + c[1], P[i, 2] + c[2]
                rx, ry, rz = px - w[0], py - w[1], pz - w[2]
                x = c[3] - (w[10] + w[14] * rz - w[15] * ry)
                y = c[4] - (w[11] + w[15] * rx - w[13] * rz)
                z = c[5] - (w[12] + w[13] * ry - w[14] * rx)
                away = x * nx + y * ny + z * nz
                x, y, z = x - away * nx, y - away * ny, z - away * nz
                slip = math.sqrt(x * x + y * y + z * z)
                if slip == 0.0:
                    continue
                f = 1.0 / ease(i, px, py, pz, x / slip, y / slip, z / slip, rigid_of, inverse_mass, frames)
                # The impulse so far and this one together are no more than friction allows.
                x, y, z = c[7] + f * x, c[8] + f * y, c[9] + f * z
                most = math.sqrt(x * x + y * y + z * z)
                f = c[6] / most if most > c[6] else 1.0
                x, y, z = f * x - c[7], f * y - c[8], f * z - c[9]
                c[7], c[8], c[9] = c[7] + x, c[8] + y, c[9] + z
                push(i, 1.0, px, py, pz, x, y, z, rigid_of, inverse_mass, frames, P)


@kernel
def rub_pairs(
    start,
    stop,
    base,
    mu,
    roll,
    pairs,
    touched,
    normals,
    frames,
    rigid_of,
    inverse_mass,
    alone,
    C,
    M,
    X,
    F,
    P,
    E,
):
    """The same between two particles (equations 18 to 21): both read first, equal impulses."""
    G, turned_i, turned_j = np.empty(9), np.empty(3), np.empty(3)
    for k in range(base + start, base + stop):
        if not touched[k] > 0.0:
            continue
        i, j = pairs[k, 0], pairs[k, 1]
        nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
        both = alone[i] and alone[j]
        xi, yi, zi = place(i, rigid_of, frames, P)
        xj, yj, zj = place(j, rigid_of, frames, P)
        x = (xj - X[j, 0]) - (xi - X[i, 0])
        y = (yj - X[j, 1]) - (yi - X[i, 1])
        z = (zj - X[j, 2]) - (zi - X[i, 2])
        # What turning adds to the slip of the surfaces, at r n from i and at -s n from j.
        shape_matrix(E[i], C[i], G)
        r = support(G, nx, ny, nz)
        shape_matrix(E[j], C[j], G)
        s = support(G, nx, ny, nz)
        ax, ay, az = _turned(i, r, E, F, rigid_of, frames)
        bx, by, bz = _turned(j, s, E, F, rigid_of, frames)
        # Orientations that follow from neighbours do not count as slip, those of rigid groups do.
        f = 1.0 if both or rigid_of[i] >= 0 else 0.0
        g = 1.0 if both or rigid_of[j] >= 0 else 0.0
        px, py, pz = f * ax + g * bx, f * ay + g * by, f * az + g * bz
        x, y, z = x - (py * nz - pz * ny), y - (pz * nx - px * nz), z - (px * ny - py * nx)
        away = x * nx + y * ny + z * nz
        x, y, z = x - away * nx, y - away * ny, z - away * nz
        slip = math.sqrt(x * x + y * y + z * z)
        most = mu * touched[k] / (inverse_mass[i] + inverse_mass[j])
        if both and slip > 0.0:
            u, v = inverse_mass[i], inverse_mass[j]
            x, y, z = x / slip, y / slip, z / slip
            w = _yield(i, r * nx, r * ny, r * nz, x, y, z, u, inverse_mass, M, E, turned_i)
            w += _yield(j, -s * nx, -s * ny, -s * nz, x, y, z, v, inverse_mass, M, E, turned_j)
            impulse = min(slip / w, most)
            _push(i, impulse, x, y, z, u, turned_i, M, P, E)
            _push(j, -impulse, x, y, z, v, turned_j, M, P, E)
        if both:
            continue
        if slip > 0.0:
            p, q, t = x / slip, y / slip, z / slip
            cx, cy, cz = xi + r * nx, yi + r * ny, zi + r * nz
            u = ease(i, cx, cy, cz, p, q, t, rigid_of, inverse_mass, frames)
            v = ease(j, cx, cy, cz, p, q, t, rigid_of, inverse_mass, frames)
            impulse = min(slip / (u + v), most)
            push(i, impulse, cx, cy, cz, p, q, t, rigid_of, inverse_mass, frames, P)
            push(j, -impulse, cx, cy, cz, p, q, t, rigid_of, inverse_mass, frames, P)
            left = 1.0 - impulse * (u + v) / slip
            x, y, z = left * x, left * y, left * z
        if roll == 0.0:
            continue
        f, g = 1.0 - f, 1.0 - g
        px, py, pz = f * ax + g * bx, f * ay + g * by, f * az + g * bz
        x, y, z = x - (py * nz - pz * ny), y - (pz * nx - px * nz), z - (px * ny - py * nx)
        slip = math.sqrt(x * x + y * y + z * z)
        if slip > 0.0:
            x, y, z = x / slip, y / slip, z / slip
            w = f * _yield(i, r * nx, r * ny, r * nz, x, y, z, 0.0, inverse_mass, M, E, turned_i)
            w += g * _yield(j, -s * nx, -s * ny, -s * nz, x, y, z, 0.0, inverse_mass, M, E, turned_j)
            if w > 0.0:
                _push(i, f * roll * slip / w, x, y, z, 0.0, turned_i, M, P, E)
                _push(j, -g * roll * slip / w, x, y, z, 0.0, turned_j, M, P, E)


@kernel
def _turned(i, r, E, F, rigid_of, frames):
    """r times how far particle i has turned, with what its group has been turned by since."""
    x, y, z = turned_by(E[i], F[i])
    if rigid_of[i] >= 0:
        w = frames[rigid_of[i]]
        x, y, z = x + w[13], y + w[14], z + w[15]
    return r * x, r * y, r * z


@kernel
def _parting(i, h, bounce, slow, before, now, normals, X, V0, struck):
    """How fast particle i is to leave a collider along its normal, at most; and whether also at least.

    A blow is returned by the share `bounce`; what comes slower than `slow` only rests.
    """
    nx, ny, nz = normals[i, 0], normals[i, 1], normals[i, 2]
    sx, sy, sz = carried(before, now, X[i, 0], X[i, 1], X[i, 2])
    surface = (sx * nx + sy * ny + sz * nz) / h
    approach = surface - (V0[i, 0] * nx + V0[i, 1] * ny + V0[i, 2] * nz)
    struck[i] = max(struck[i], approach)
    returned = bounce * approach if approach > slow else 0.0
    return surface + returned, returned > 0.0


@kernel
def calm(start, stop, h, bounce, slow, before, now, pushed, normals, rigid_of, X, V0, V, struck):
    """A collider gives no speed but what it returns of the approach: being pushed out is not a kick."""
    for i in range(start, stop):
        if not pushed[i] > 0.0 or rigid_of[i] >= 0:
            continue
        nx, ny, nz = normals[i, 0], normals[i, 1], normals[i, 2]
        speed, least = _parting(i, h, bounce, slow, before, now, normals, X, V0, struck)
        excess = V[i, 0] * nx + V[i, 1] * ny + V[i, 2] * nz - speed
        if excess > 0.0 or least:
            V[i, 0] -= excess * nx
            V[i, 1] -= excess * ny
            V[i, 2] -= excess * nz


@kernel
def calm_rigid(
    start,
    stop,
    h,
    bounce,
    slow,
    before,
    now,
    pushed,
    normals,
    starts,
    members,
    rigid_of,
    inverse_mass,
    X,
    V0,
    V,
    struck,
    frames,
):
    """The same for rigid groups, which lose speed as a whole."""
    for g in range(start, stop):
        hits = _hits(g, starts, members, pushed)
        taken, limits, lifted = np.zeros(len(hits)), np.empty(len(hits)), np.empty(len(hits), np.bool_)
        for k in range(len(hits)):
            i = hits[k]
            limits[k], lifted[k] = _parting(i, h, bounce, slow, before, now, normals, X, V0, struck)
            u, v, w = V[i, 0] * normals[i, 0], V[i, 1] * normals[i, 1], V[i, 2] * normals[i, 2]
            lifted[k] = lifted[k] and u + v + w < limits[k]
        for _ in range(PASSES):
            for k in range(len(hits)):
                i = hits[k]
                nx, ny, nz = normals[i, 0], normals[i, 1], normals[i, 2]
                x, y, z = X[i, 0], X[i, 1], X[i, 2]
                u, v, w = _speed(i, X, V, rigid_of, frames)
                excess = u * nx + v * ny + w * nz - limits[k]
                before_it = taken[k]
                taken[k] += excess / ease(i, x, y, z, nx, ny, nz, rigid_of, inverse_mass, frames)
                # Each contact either slows or lifts.
                taken[k] = min(0.0, taken[k]) if lifted[k] else max(0.0, taken[k])
                push(i, before_it - taken[k], x, y, z, nx, ny, nz, rigid_of, inverse_mass, frames, V)


@kernel
def _speed(i, X, V, rigid_of, frames):
    """Velocity of particle i, with what its group has lost since."""
    u, v, w = V[i, 0], V[i, 1], V[i, 2]
    if rigid_of[i] < 0:
        return u, v, w
    f = frames[rigid_of[i]]
    x, y, z = X[i, 0] - f[0], X[i, 1] - f[1], X[i, 2] - f[2]
    return (
        u + f[10] + f[14] * z - f[15] * y,
        v + f[11] + f[15] * x - f[13] * z,
        w + f[12] + f[13] * y - f[14] * x,
    )


@kernel
def calm_pairs(
    start, stop, base, bounce, slow, pairs, touched, normals, rigid_of, inverse_mass, X, V0, V, struck, frames
):
    """The same for two particles or their groups, which share it by mass."""
    for k in range(base + start, base + stop):
        if not touched[k] > 0.0:
            continue
        i, j = pairs[k, 0], pairs[k, 1]
        nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
        approach = (V0[i, 0] - V0[j, 0]) * nx + (V0[i, 1] - V0[j, 1]) * ny + (V0[i, 2] - V0[j, 2]) * nz
        # What is fixed may stand in several pairs of a colour, and nothing is to be written there.
        if inverse_mass[i] > 0.0:
            struck[i] = max(struck[i], approach)
        if inverse_mass[j] > 0.0:
            struck[j] = max(struck[j], approach)
        ui, vi, wi = _speed(i, X, V, rigid_of, frames)
        uj, vj, wj = _speed(j, X, V, rigid_of, frames)
        returned = bounce * approach if approach > slow else 0.0
        excess = (uj - ui) * nx + (vj - vi) * ny + (wj - wi) * nz - returned
        if excess > 0.0 or returned > 0.0:
            xi, yi, zi, xj, yj, zj = X[i, 0], X[i, 1], X[i, 2], X[j, 0], X[j, 1], X[j, 2]
            w = ease(i, xi, yi, zi, nx, ny, nz, rigid_of, inverse_mass, frames)
            w += ease(j, xj, yj, zj, nx, ny, nz, rigid_of, inverse_mass, frames)
            push(i, excess / w, xi, yi, zi, nx, ny, nz, rigid_of, inverse_mass, frames, V)
            push(j, -excess / w, xj, yj, zj, nx, ny, nz, rigid_of, inverse_mass, frames, V)
