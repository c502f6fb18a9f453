"""What contact does to motion along the surface, and to motion away from it.

Equations 16 to 21 in terms of displacements within the substep instead of velocities: what is held is then
held in place too, and does not creep by g h^2 each time.
"""

import numpy as np

from ..compute import kernel
from .collider_kernels import carried
from .ellipsoids import shape_matrix, support
from .turning import times, turn, turned_by


@kernel
def _roll(i, nx, ny, nz, r, ux, uy, uz, share, F, M, P, E, twist):
    """theta += r / |r|^2 x (u - theta x r) share, with r = r n: turn a particle with what it touches."""
    tx, ty, tz = turned_by(E[i], F[i])
    ux -= r * (ty * nz - tz * ny)
    uy -= r * (tz * nx - tx * nz)
    uz -= r * (tx * ny - ty * nx)
    f = share / r
    tx, ty, tz = f * (ny * uz - nz * uy), f * (nz * ux - nx * uz), f * (nx * uy - ny * ux)
    turn(tx, ty, tz, E[i])
    times(E[i], M[i], P[i])
    twist[i, 0] += tx
    twist[i, 1] += ty
    twist[i, 2] += tz


@kernel
def rub(start, stop, slide, roll, before, now, pushed, normals, C, M, X, F, P, E, total, twist):
    """Friction on a collider: equation 16, then 17 with r = -r n. `before` and `now` (12,) are its poses."""
    G = np.empty(9)
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
        dx, dy, dz = slide * x, slide * y, slide * z
        P[i, 0] += dx
        P[i, 1] += dy
        P[i, 2] += dz
        total[i, 0] += dx
        total[i, 1] += dy
        total[i, 2] += dz
        _roll(i, -nx, -ny, -nz, r, x - dx, y - dy, z - dz, roll, F, M, P, E, twist)


@kernel
def rub_pairs(
    start,
    stop,
    base,
    slide,
    roll,
    pairs,
    touched,
    normals,
    inverse_mass,
    piece_of,
    C,
    M,
    X,
    F,
    P,
    E,
    total,
    twist,
):
    """Friction between two particles, equations 18 to 21: both read first, means weighted by mass."""
    G = np.empty(9)
    for k in range(base + start, base + stop):
        if not touched[k] > 0.0:
            continue
        i, j = pairs[k, 0], pairs[k, 1]
        nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
        u = inverse_mass[i] / (inverse_mass[i] + inverse_mass[j])
        x = (P[j, 0] - X[j, 0]) - (P[i, 0] - X[i, 0])
        y = (P[j, 1] - X[j, 1]) - (P[i, 1] - X[i, 1])
        z = (P[j, 2] - X[j, 2]) - (P[i, 2] - X[i, 2])
        away = x * nx + y * ny + z * nz
        x, y, z = x - away * nx, y - away * ny, z - away * nz
        f, g = slide * u, -slide * (1.0 - u)
        P[i, 0] += f * x
        P[i, 1] += f * y
        P[i, 2] += f * z
        P[j, 0] += g * x
        P[j, 1] += g * y
        P[j, 2] += g * z
        if piece_of[i] != piece_of[j]:
            total[i, 0] += f * x
            total[i, 1] += f * y
            total[i, 2] += f * z
            total[j, 0] += g * x
            total[j, 1] += g * y
            total[j, 2] += g * z
        # The slip that is left, and how the two surfaces move by turning.
        x, y, z = (1.0 - slide) * x, (1.0 - slide) * y, (1.0 - slide) * z
        shape_matrix(E[i], C[i], G)
        r = support(G, nx, ny, nz)
        shape_matrix(E[j], C[j], G)
        s = support(G, nx, ny, nz)
        ax, ay, az = turned_by(E[i], F[i])
        bx, by, bz = turned_by(E[j], F[j])
        ax, ay, az = r * (ay * nz - az * ny), r * (az * nx - ax * nz), r * (ax * ny - ay * nx)
        bx, by, bz = -s * (by * nz - bz * ny), -s * (bz * nx - bx * nz), -s * (bx * ny - by * nx)
        # The mean surface displacement, seen from i and from j.
        px, py, pz = ax + u * (x + bx - ax), ay + u * (y + by - ay), az + u * (z + bz - az)
        if inverse_mass[i] > 0.0:
            _roll(i, nx, ny, nz, r, px, py, pz, roll, F, M, P, E, twist)
        if inverse_mass[j] > 0.0:
            _roll(j, -nx, -ny, -nz, s, px - x, py - y, pz - z, roll, F, M, P, E, twist)


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
