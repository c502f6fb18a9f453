"""Rotors: rigid groups, each with the soft particles that hang on it alone, which turn as they fly.

A particle that flies straight leaves the circle on which its body turns, and matching shapes brakes what it
brings back: by (w h)^2 / 3 in a substep, a wheel at 20 rad/s by two thirds in a second. Rotors are therefore
predicted by turning them, x = c + exp(h w) (x - c), and their velocities are tangents at the end of the
arc, not its chord.
"""

import math

import numpy as np

from .....compute import kernel
from ..shapes.rotations import inertia, inertia_times, rotation_between, solve_symmetric

__all__ = ["ROTOR", "add_arc", "add_tangent", "end_rotors", "start_rotors"]

# Columns of `RotorArrays.rows`.
CENTRE = 0  # centre of mass, or of the fixed particles that it turns about (3), m
SPIN = 3  # at the start of the substep (3), rad/s
PRECESSION = 6  # half of what the spin of a free rotor changes in the substep (3), rad/s
TURN = 9  # how the group turned in the substep, a rotation vector (3), rad
ROTOR = 12
# Sine of the angle below which fixed particles lie on one axis.
ON_AXIS = 1e-6


@kernel
def start_rotors(start, stop, h, rotors, particles, buffers):
    """Compute the centre and the spin of each rotor: w = J^-1 L, about its fixed particles if it has some."""
    mass, M, X, F, V, W = (
        particles.mass, particles.moments, buffers.X, buffers.F, buffers.V, buffers.W
    )  # fmt: skip
    centre, drift, axis, L, J = np.empty(3), np.empty(3), np.empty(3), np.empty(3), np.empty(6)
    for k in range(start, stop):
        row = rotors.rows[k]
        row[:] = 0.0
        freedom = _pivot(k, rotors, mass, X, V, centre, drift, axis)
        row[CENTRE], row[CENTRE + 1], row[CENTRE + 2] = centre
        if freedom == 0:
            continue
        L[:] = 0.0
        J[:] = 0.0
        for e in range(rotors.starts[k], rotors.starts[k + 1]):
            i = rotors.members[e]
            m, x, y, z = mass[i], X[i, 0] - centre[0], X[i, 1] - centre[1], X[i, 2] - centre[2]
            u, v, w = V[i, 0] - drift[0], V[i, 1] - drift[1], V[i, 2] - drift[2]
            p, q, r = inertia_times(F[i], M[i], W[i, 0], W[i, 1], W[i, 2])
            L[0] += m * (y * w - z * v) + p
            L[1] += m * (z * u - x * w) + q
            L[2] += m * (x * v - y * u) + r
            a, b, c, d, f, g = inertia(F[i], M[i])
            J[0] += m * (y * y + z * z) + a
            J[1] += b - m * x * y
            J[2] += c - m * x * z
            J[3] += m * (x * x + z * z) + d
            J[4] += f - m * y * z
            J[5] += m * (x * x + y * y) + g
        if freedom == 1:
            x, y, z = axis
            own = J[0] * x * x + J[3] * y * y + J[5] * z * z
            own += 2.0 * (J[1] * x * y + J[2] * x * z + J[4] * y * z)
            s = (L[0] * x + L[1] * y + L[2] * z) / own if own > 0.0 else 0.0
            row[SPIN], row[SPIN + 1], row[SPIN + 2] = s * x, s * y, s * z
        else:
            whole = (J[0], J[1], J[2], J[3], J[4], J[5])
            x, y, z = solve_symmetric(whole, L[0], L[1], L[2])
            row[SPIN], row[SPIN + 1], row[SPIN + 2] = x, y, z
            u, v, w = solve_symmetric(whole, L[1] * z - L[2] * y, L[2] * x - L[0] * z, L[0] * y - L[1] * x)
            # Where a step is too long to be followed, the correction is no larger than what it corrects.
            most, all_of_it = 0.25 * h * h * (u * u + v * v + w * w), x * x + y * y + z * z
            half = 0.5 * h * (1.0 if most <= all_of_it else math.sqrt(all_of_it / most))
            row[PRECESSION], row[PRECESSION + 1], row[PRECESSION + 2] = half * u, half * v, half * w
        if not h * math.sqrt(row[SPIN] ** 2 + row[SPIN + 1] ** 2 + row[SPIN + 2] ** 2) < math.pi:
            row[SPIN:] = 0.0  # more than half a turn in a substep is not seen as what it is anyway


@kernel
def _pivot(k, rotors, mass, X, V, centre, drift, axis):
    """Find where a rotor turns and how that moves; return how many ways it may turn: 0, 1 (`axis`) or 3."""
    first, end = rotors.pivot_starts[k], rotors.pivot_starts[k + 1]
    centre[:], drift[:] = 0.0, 0.0
    if first == end:
        total = 0.0
        for e in range(rotors.starts[k], rotors.starts[k + 1]):
            i = rotors.members[e]
            total += mass[i]
            for j in range(3):
                centre[j] += mass[i] * X[i, j]
                drift[j] += mass[i] * V[i, j]
        for j in range(3):
            centre[j] /= total
            drift[j] /= total
        return 3
    origin = rotors.pivots[first]
    far = 0.0
    for e in range(first, end):
        i = rotors.pivots[e]
        square = 0.0
        for j in range(3):
            centre[j] += X[i, j] / (end - first)
            drift[j] += V[i, j] / (end - first)
            square += (X[i, j] - X[origin, j]) ** 2
        if square > far:
            far = square
            for j in range(3):
                axis[j] = (X[i, j] - X[origin, j]) / math.sqrt(square)
    if far == 0.0:
        return 3
    for e in range(first, end):
        i = rotors.pivots[e]
        x, y, z = X[i, 0] - X[origin, 0], X[i, 1] - X[origin, 1], X[i, 2] - X[origin, 2]
        along = x * axis[0] + y * axis[1] + z * axis[2]
        if x * x + y * y + z * z - along * along > ON_AXIS**2 * far:
            return 0
    return 1


@kernel
def add_arc(i, h, row, X, P):
    """Add to a straight path what a turn by the mean spin adds, (exp(h w') - I) r - h w x r."""
    x, y, z = X[i, 0] - row[CENTRE], X[i, 1] - row[CENTRE + 1], X[i, 2] - row[CENTRE + 2]
    u, v, w = row[SPIN], row[SPIN + 1], row[SPIN + 2]
    p, q, r = _turned(
        h * (u + row[PRECESSION]), h * (v + row[PRECESSION + 1]), h * (w + row[PRECESSION + 2]), x, y, z
    )
    P[i, 0] += p - h * (v * z - w * y)
    P[i, 1] += q - h * (w * x - u * z)
    P[i, 2] += r - h * (u * y - v * x)


@kernel
def _turned(x, y, z, a, b, c):
    """Return (exp([r]x) - I) p for r = (x, y, z) and p = (a, b, c)."""
    t = x * x + y * y + z * z
    if t < 1e-2:  # the next terms of the two series are below rounding
        s = 1.0 - t * (1 / 6 - t * (1 / 120 - t * (1 / 5040 - t / 362880)))
        d = 0.5 - t * (1 / 24 - t * (1 / 720 - t * (1 / 40320 - t / 3628800)))
    else:
        angle = math.sqrt(t)
        s, d = math.sin(angle) / angle, (1.0 - math.cos(angle)) / t
    u, v, w = y * c - z * b, z * a - x * c, x * b - y * a
    return (
        s * u + d * (y * w - z * v),
        s * v + d * (z * u - x * w),
        s * w + d * (x * v - y * u),
    )


@kernel
def end_rotors(start, stop, rotors, mass, buffers):
    """Compute where each rotor is at the end of the substep, and how its group has turned."""
    P, E, F = buffers.P, buffers.E, buffers.F
    for k in range(start, stop):
        row = rotors.rows[k]
        first, end = rotors.pivot_starts[k], rotors.pivot_starts[k + 1]
        x = y = z = total = 0.0
        for e in range(first, end):
            i = rotors.pivots[e]
            total += 1.0
            x, y, z = x + P[i, 0], y + P[i, 1], z + P[i, 2]
        if first == end:
            for e in range(rotors.starts[k], rotors.starts[k + 1]):
                i = rotors.members[e]
                m = mass[i]
                total += m
                x, y, z = x + m * P[i, 0], y + m * P[i, 1], z + m * P[i, 2]
        row[CENTRE], row[CENTRE + 1], row[CENTRE + 2] = x / total, y / total, z / total
        i = rotors.leads[k]
        row[TURN], row[TURN + 1], row[TURN + 2] = rotation_between(E[i], F[i])


@kernel
def add_tangent(i, h, row, rigid, P, V, W):
    """Turn the mean velocity of an arc into that at its end, w x r - (r - exp(-h w) r) / h; w likewise."""
    x, y, z = P[i, 0] - row[CENTRE], P[i, 1] - row[CENTRE + 1], P[i, 2] - row[CENTRE + 2]
    a, b, c = row[TURN], row[TURN + 1], row[TURN + 2]
    p, q, r = _turned(-a, -b, -c, x, y, z)
    u, v, w = a / h + row[PRECESSION], b / h + row[PRECESSION + 1], c / h + row[PRECESSION + 2]
    V[i, 0] += v * z - w * y + p / h
    V[i, 1] += w * x - u * z + q / h
    V[i, 2] += u * y - v * x + r / h
    if rigid:
        for j in range(3):
            W[i, j] += row[PRECESSION + j]
