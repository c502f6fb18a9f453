"""What contact does to motion along the surface, and to motion away from it.

Equations 16 to 21 in terms of displacements within the substep instead of velocities: what is held is then
held in place too, and does not creep by g h^2 each time.
"""

import math

import numpy as np

from ..compute import kernel
from .collider_kernels import carried
from .ellipsoids import shape_matrix, support
from .turning import inertia, times, turn, turned_by


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
def rub(start, stop, mu, roll, before, now, pushed, normals, inverse_mass, alone, C, M, X, F, P, E):
    """Friction on a collider, no more than `mu` times the push that keeps a particle out (Coulomb's law).

    A particle that is `alone` takes an impulse at its surface that moves and turns it. One with neighbours,
    which say how it is turned, moves as in equation 16, and then turns by the fraction `roll` of the slip
    that is left as in 17, with the lever r = -r n. `before` and `now` (12,) are the poses of the collider.
    """
    G, turned = np.empty(9), np.empty(3)
    for i in range(start, stop):
        if not pushed[i] > 0.0:
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
def rub_pairs(start, stop, base, mu, roll, pairs, touched, normals, inverse_mass, alone, C, M, X, F, P, E):
    """The same between two particles (equations 18 to 21): both read first, shared by mass."""
    G, turned_i, turned_j = np.empty(9), np.empty(3), np.empty(3)
    for k in range(base + start, base + stop):
        if not touched[k] > 0.0:
            continue
        i, j = pairs[k, 0], pairs[k, 1]
        nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
        u, v = inverse_mass[i], inverse_mass[j]
        both = alone[i] and alone[j]
        x = (P[j, 0] - X[j, 0]) - (P[i, 0] - X[i, 0])
        y = (P[j, 1] - X[j, 1]) - (P[i, 1] - X[i, 1])
        z = (P[j, 2] - X[j, 2]) - (P[i, 2] - X[i, 2])
        away = x * nx + y * ny + z * nz
        x, y, z = x - away * nx, y - away * ny, z - away * nz
        if not both:
            slip = math.sqrt(x * x + y * y + z * z)
            slide = mu * touched[k] / slip if slip > mu * touched[k] else 1.0
            f, g = slide * u / (u + v), -slide * v / (u + v)
            P[i, 0] += f * x
            P[i, 1] += f * y
            P[i, 2] += f * z
            P[j, 0] += g * x
            P[j, 1] += g * y
            P[j, 2] += g * z
            x, y, z = (1.0 - slide) * x, (1.0 - slide) * y, (1.0 - slide) * z
        # What turning adds to the slip of the surfaces, at r n from i and at -s n from j.
        shape_matrix(E[i], C[i], G)
        r = support(G, nx, ny, nz)
        shape_matrix(E[j], C[j], G)
        s = support(G, nx, ny, nz)
        ax, ay, az = turned_by(E[i], F[i])
        bx, by, bz = turned_by(E[j], F[j])
        ax, ay, az = r * ax + s * bx, r * ay + s * by, r * az + s * bz
        x, y, z = x - (ay * nz - az * ny), y - (az * nx - ax * nz), z - (ax * ny - ay * nx)
        slip = math.sqrt(x * x + y * y + z * z)
        if slip == 0.0:
            continue
        x, y, z = x / slip, y / slip, z / slip
        push = mu * touched[k] / (u + v)
        if not both:
            u, v = 0.0, 0.0
        ease = _yield(i, r * nx, r * ny, r * nz, x, y, z, u, inverse_mass, M, E, turned_i)
        ease += _yield(j, -s * nx, -s * ny, -s * nz, x, y, z, v, inverse_mass, M, E, turned_j)
        if ease > 0.0:
            impulse = min(slip / ease, push) if both else roll * slip / ease
            _push(i, impulse, x, y, z, u, turned_i, M, P, E)
            _push(j, -impulse, x, y, z, v, turned_j, M, P, E)


@kernel
def calm(start, stop, h, bounce, before, now, pushed, normals, X, V0, V, struck):
    """A collider gives no speed but what it returns of the approach: being pushed out is not a kick."""
    for i in range(start, stop):
        if not pushed[i] > 0.0:
            continue
        nx, ny, nz = normals[i, 0], normals[i, 1], normals[i, 2]
        sx, sy, sz = carried(before, now, X[i, 0], X[i, 1], X[i, 2])
        surface = (sx * nx + sy * ny + sz * nz) / h
        approach = surface - (V0[i, 0] * nx + V0[i, 1] * ny + V0[i, 2] * nz)
        struck[i] = max(struck[i], approach)
        excess = V[i, 0] * nx + V[i, 1] * ny + V[i, 2] * nz - surface - max(0.0, bounce * approach)
        if excess > 0.0:
            V[i, 0] -= excess * nx
            V[i, 1] -= excess * ny
            V[i, 2] -= excess * nz


@kernel
def calm_pairs(start, stop, base, bounce, pairs, touched, normals, inverse_mass, V0, V, struck):
    """The same for two particles, which share it by mass."""
    for k in range(base + start, base + stop):
        if not touched[k] > 0.0:
            continue
        i, j = pairs[k, 0], pairs[k, 1]
        nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
        approach = (V0[i, 0] - V0[j, 0]) * nx + (V0[i, 1] - V0[j, 1]) * ny + (V0[i, 2] - V0[j, 2]) * nz
        struck[i], struck[j] = max(struck[i], approach), max(struck[j], approach)
        parting = (V[j, 0] - V[i, 0]) * nx + (V[j, 1] - V[i, 1]) * ny + (V[j, 2] - V[i, 2]) * nz
        excess = parting - max(0.0, bounce * approach)
        if excess > 0.0:
            f = excess * inverse_mass[i] / (inverse_mass[i] + inverse_mass[j])
            g = f - excess
            V[i, 0] += f * nx
            V[i, 1] += f * ny
            V[i, 2] += f * nz
            V[j, 0] += g * nx
            V[j, 1] += g * ny
            V[j, 2] += g * nz
