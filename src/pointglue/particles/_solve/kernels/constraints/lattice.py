"""The lattice of beams between oriented particles: its directions, and its residual in a substep.

The objective of a substep of length h, times h^2, over positions x and rotations R from rest, is

    sum_i m_i/2 |x_i - y_i|^2 - tr(R_i B_i^T) + h^2 sum_e k/2 |r|^2 - tr(D R_i^T R_j),

with y and the moments B = S M where particles are, at y and turned by S, without forces,
r = x_j - x_i - (R_i + R_j) d / 2, and D = tr(K)/2 - K, by which the last term is phi^T K phi / 2 for small
rotations phi from one particle to the other.
"""

import numpy as np

from .....checks import Array
from .....compute import kernel
from ..shapes.rotations import rotate, update_moment

__all__ = ["add_displacement", "beam_loads", "missing_neighbours", "residual"]


@kernel
def missing_neighbours(starts, towards) -> Array:
    """Return for each direction (k, 3) of a particle's edges how much is missing opposite to it, 0 to 1."""
    missing = np.empty(len(towards))
    for i in range(len(starts) - 1):
        for a in range(starts[i], starts[i + 1]):
            opposite = 0.0
            for b in range(starts[i], starts[i + 1]):
                dot = (
                    towards[a, 0] * towards[b, 0]
                    + towards[a, 1] * towards[b, 1]
                    + towards[a, 2] * towards[b, 2]
                )
                opposite += max(0.0, -dot)
            missing[a] = 1.0 - min(1.0, opposite)
    return missing


@kernel
def _product(A, i, B, j, out):
    """Compute out = A[i] B[j]^T of flat matrices."""
    for r in range(3):
        for c in range(3):
            out[3 * r + c] = (
                A[i, 3 * r] * B[j, 3 * c]
                + A[i, 3 * r + 1] * B[j, 3 * c + 1]
                + A[i, 3 * r + 2] * B[j, 3 * c + 2]
            )


@kernel
def beam_loads(start, stop, h, lattice, buffers, loads):
    """Compute the force of each beam on its end, its torques on the ends, and its energy, times h^2: (m, 10).

    The force on the beginning is the opposite one.
    """
    ends, rest, stretch, bend = lattice.ends, lattice.rest, lattice.stretch, lattice.bend
    P, E, T, N, square = buffers.P, buffers.E, np.empty((1, 9)), np.empty(9), h * h
    for k in range(start, stop):
        i, j = ends[k, 0], ends[k, 1]
        dx, dy, dz = rest[k, 0], rest[k, 1], rest[k, 2]
        ux = E[i, 0] * dx + E[i, 1] * dy + E[i, 2] * dz
        uy = E[i, 3] * dx + E[i, 4] * dy + E[i, 5] * dz
        uz = E[i, 6] * dx + E[i, 7] * dy + E[i, 8] * dz
        vx = E[j, 0] * dx + E[j, 1] * dy + E[j, 2] * dz
        vy = E[j, 3] * dx + E[j, 4] * dy + E[j, 5] * dz
        vz = E[j, 6] * dx + E[j, 7] * dy + E[j, 8] * dz
        rx = P[j, 0] - P[i, 0] - 0.5 * (ux + vx)
        ry = P[j, 1] - P[i, 1] - 0.5 * (uy + vy)
        rz = P[j, 2] - P[i, 2] - 0.5 * (uz + vz)
        f = square * stretch[k]
        energy = 0.5 * f * (rx * rx + ry * ry + rz * rz)
        fx, fy, fz = f * rx, f * ry, f * rz
        for r in range(3):
            for c in range(3):
                T[0, 3 * r + c] = (
                    E[j, 3 * r] * bend[k, c]
                    + E[j, 3 * r + 1] * bend[k, 3 + c]
                    + E[j, 3 * r + 2] * bend[k, 6 + c]
                )
        _product(T, 0, E, i, N)
        loads[k, 9] = energy - square * (N[0] + N[4] + N[8] - bend[k, 0] - bend[k, 4] - bend[k, 8])
        bx, by, bz = square * (N[5] - N[7]), square * (N[6] - N[2]), square * (N[1] - N[3])
        loads[k, 0], loads[k, 1], loads[k, 2] = fx, fy, fz
        loads[k, 3] = bx - 0.5 * (uy * fz - uz * fy)
        loads[k, 4] = by - 0.5 * (uz * fx - ux * fz)
        loads[k, 5] = bz - 0.5 * (ux * fy - uy * fx)
        loads[k, 6] = -bx - 0.5 * (vy * fz - vz * fy)
        loads[k, 7] = -by - 0.5 * (vz * fx - vx * fz)
        loads[k, 8] = -bz - 0.5 * (vx * fy - vy * fx)


@kernel
def residual(start, stop, lattice, loads, particles, buffers, free, result):
    """Compute the gradient of the objective by position and rotation, (p, 6), in the frames of the particles.

    Also the part of the objective that is of each particle alone. `loads` are those of `beam_loads`, `free`
    the places y (n, 3) and moments B (n, 9) without forces, `result` the values (p,) and the gradient.
    """
    members, starts, numbers, signs = lattice.members, lattice.starts, lattice.numbers, lattice.signs
    P, E, mass, M = buffers.P, buffers.E, particles.mass, particles.moments
    (y, B), (energies, out), N = free, result, np.empty(9)
    for a in range(start, stop):
        i = members[a]
        px, py, pz = P[i, 0] - y[i, 0], P[i, 1] - y[i, 1], P[i, 2] - y[i, 2]
        gx, gy, gz = mass[i] * px, mass[i] * py, mass[i] * pz
        _product(E, i, B, i, N)
        energies[a] = 0.5 * mass[i] * (px * px + py * py + pz * pz)
        energies[a] -= N[0] + N[4] + N[8] - M[i, 0] - M[i, 4] - M[i, 8]
        tx, ty, tz = N[7] - N[5], N[2] - N[6], N[3] - N[1]
        for n in range(starts[a], starts[a + 1]):
            k, s = numbers[n], signs[n]
            gx, gy, gz = gx - s * loads[k, 0], gy - s * loads[k, 1], gz - s * loads[k, 2]
            t = 3 if s > 0.0 else 6
            tx, ty, tz = tx + loads[k, t], ty + loads[k, t + 1], tz + loads[k, t + 2]
        out[a, 0] = E[i, 0] * gx + E[i, 3] * gy + E[i, 6] * gz
        out[a, 1] = E[i, 1] * gx + E[i, 4] * gy + E[i, 7] * gz
        out[a, 2] = E[i, 2] * gx + E[i, 5] * gy + E[i, 8] * gz
        out[a, 3] = E[i, 0] * tx + E[i, 3] * ty + E[i, 6] * tz
        out[a, 4] = E[i, 1] * tx + E[i, 4] * ty + E[i, 7] * tz
        out[a, 5] = E[i, 2] * tx + E[i, 5] * ty + E[i, 8] * tz


@kernel
def add_displacement(start, stop, factor, step, lattice, particles, buffers):
    """Move and turn the particles of a lattice by a step (p, 6) in their own frames, times a factor."""
    members, P, E, M = lattice.members, buffers.P, buffers.E, particles.moments
    for a in range(start, stop):
        i = members[a]
        x, y, z = factor * step[a, 0], factor * step[a, 1], factor * step[a, 2]
        u, v, w = factor * step[a, 3], factor * step[a, 4], factor * step[a, 5]
        if not particles.fixed[i]:
            for r in range(3):
                P[i, r] += E[i, 3 * r] * x + E[i, 3 * r + 1] * y + E[i, 3 * r + 2] * z
        if particles.clamped[i]:
            continue
        p = E[i, 0] * u + E[i, 1] * v + E[i, 2] * w
        q = E[i, 3] * u + E[i, 4] * v + E[i, 5] * w
        t = E[i, 6] * u + E[i, 7] * v + E[i, 8] * w
        rotate(p, q, t, E[i])
        update_moment(E[i], M[i], P[i])
