"""Integration of one substep: prediction, the new velocities, and the momentum that must be kept."""

import math

from .....compute import kernel
from ..shapes.rotations import (
    inertia,
    inertia_times,
    rotate,
    rotation_between,
    solve_symmetric,
    update_moment,
)
from .rotors import PRECESSION, add_arc, add_tangent

__all__ = ["MOTION", "SUMS", "balance", "conserve", "finish", "predict", "sum_up"]

# Columns of the sums (chunks, SUMS) over the chunks of pieces, all about where the piece's origin was. In one
# row, because LLVM then adds several of them up at once.
WANTED_ANGULAR = 0  # angular momentum before constraints act (3), kg m^2/s
ANGULAR = 3  # angular momentum after them (3), kg m^2/s
MASS = 6  # kg
FIRST_MOMENT = 7  # mass times position (3), kg m
LINEAR = 10  # linear momentum after constraints (3), kg m/s
INERTIA = 13  # xx, xy, xz, yy, yz, zz (6), kg m^2
TOUCHING = 19  # how many particles touch something outside of the piece
WANTED_LINEAR = 20  # linear momentum before constraints act (3), kg m/s
SUMS = 23
# Columns of the rigid motion (pieces, MOTION) of pieces.
CENTROID = 0  # centre of mass (3), m
VELOCITY = 3  # (3), m/s
SPIN = 6  # (3), rad/s
MISSING_SPIN = 9  # what constraints took of the spin (3), rad/s
MISSING_VELOCITY = 12  # what rounding took of the velocity (3), m/s
MOTION = 15

# Radians that a particle turns in a substep, at most: absurd steps stay finite.
MOST_TURN = 1e6


@kernel
def predict(start, stop, limits, pieces, particles, rotors, buffers, sums):
    """Predict x = X + h v and E = exp(h w) F (equations 10, 11) after v += gain.

    `limits` are h [s] and how long paths are at most [m]. Rotors turn on the way. The momenta before
    constraints act go into `sums`.
    """
    h, farthest = limits
    chunks, origins, order = pieces.chunks, pieces.origins, pieces.order
    mass, fixed, M = particles.mass, particles.fixed, particles.moments
    X, F, P, E, V, W = buffers.X, buffers.F, buffers.P, buffers.E, buffers.V, buffers.W
    gain, touched = buffers.velocity_gain, buffers.touched
    for c in range(start, stop):
        o = origins[c]
        lx = ly = lz = px = py = pz = 0.0
        for e in range(chunks[c], chunks[c + 1]):
            i = order[e]
            touched[i] = False
            u = v = w = 0.0
            if fixed[i]:
                for j in range(3):
                    V[i, j] = 0.0
                    W[i, j] = 0.0 if particles.clamped[i] else W[i, j]
            else:
                for j in range(3):
                    V[i, j] += gain[i, j]
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
            k = rotors.rotor_of[i]
            if k >= 0:
                add_arc(i, h, rotors.rows[k], X, P)
            if rotors.rigid[i]:
                row = rotors.rows[k]
                x, y, z = x + row[PRECESSION], y + row[PRECESSION + 1], z + row[PRECESSION + 2]
            elif not fixed[i]:
                x, y, z = _precessed(h, F[i], M[i], (x, y, z), (u, v, w))
            most = h * max(abs(x), abs(y), abs(z))
            f = h if most < MOST_TURN else h * (MOST_TURN / most)
            rotate(f * x, f * y, f * z, E[i])
            update_moment(E[i], M[i], P[i])
        sums[c, WANTED_ANGULAR], sums[c, WANTED_ANGULAR + 1], sums[c, WANTED_ANGULAR + 2] = lx, ly, lz
        sums[c, WANTED_LINEAR], sums[c, WANTED_LINEAR + 1], sums[c, WANTED_LINEAR + 2] = px, py, pz


@kernel
def _precessed(h, F, M, spin, momentum):
    """Return the mean spin in the step, w + h/2 J^-1 (J w x w): momentum is kept, spin is not.

    `spin` is w and `momentum` is J w.
    """
    (x, y, z), (u, v, w) = spin, momentum
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
def finish(start, stop, h, particles, rotors, buffers):
    """Compute v = (x - X) / h and w = vector(E F^T) / h (equations 12 to 15)."""
    fixed, X, F, P, E, V, W, V0 = (
        particles.fixed, buffers.X, buffers.F, buffers.P, buffers.E, buffers.V, buffers.W, buffers.V0
    )  # fmt: skip
    for i in range(start, stop):
        W[i, 0], W[i, 1], W[i, 2] = rotation_between(E[i], F[i])
        for j in range(3):
            V0[i, j] = V[i, j]
            V[i, j] = (P[i, j] - X[i, j]) / h
            W[i, j] /= h
        r = rotors.rotor_of[i]
        if r >= 0 and not fixed[i]:
            add_tangent(i, h, rotors.rows[r], rotors.rigid[i], P, V, W)


@kernel
def sum_up(start, stop, pieces, particles, buffers, sums):
    """Compute the sums for `balance`, over the chunks of pieces."""
    chunks, origins, order = pieces.chunks, pieces.origins, pieces.order
    mass, fixed, M = particles.mass, particles.fixed, particles.moments
    X, P, E, V, W = buffers.X, buffers.P, buffers.E, buffers.V, buffers.W
    for c in range(start, stop):
        o = origins[c]
        lx = ly = lz = m = mx = my = mz = px = py = pz = touching = 0.0
        ixx = ixy = ixz = iyy = iyz = izz = 0.0
        for k in range(chunks[c], chunks[c + 1]):
            i = order[k]
            if fixed[i]:
                continue
            s = mass[i]
            if buffers.touched[i]:
                touching += 1.0
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
        sums[c, TOUCHING] = touching
        sums[c, ANGULAR], sums[c, ANGULAR + 1], sums[c, ANGULAR + 2], sums[c, MASS] = lx, ly, lz, m
        sums[c, FIRST_MOMENT], sums[c, FIRST_MOMENT + 1], sums[c, FIRST_MOMENT + 2] = mx, my, mz
        sums[c, LINEAR], sums[c, LINEAR + 1], sums[c, LINEAR + 2] = px, py, pz
        sums[c, INERTIA], sums[c, INERTIA + 1], sums[c, INERTIA + 2] = ixx, ixy, ixz
        sums[c, INERTIA + 3], sums[c, INERTIA + 4], sums[c, INERTIA + 5] = iyy, iyz, izz


@kernel
def balance(pieces, X, sums, motion) -> None:
    """Compute the rigid motion of each piece from the sums, and the spin that its constraints took from it.

    Matching straight paths to a turning shape loses angular momentum of the order of (w h)^2 a step. What is
    pinned or touches something gives and takes momentum there, and nothing is made up for.
    """
    for piece in range(len(pieces.piece_chunks) - 1):
        first = pieces.piece_chunks[piece]
        for c in range(first + 1, pieces.piece_chunks[piece + 1]):
            for j in range(SUMS):
                sums[first, j] += sums[c, j]
        s = sums[first]
        motion[piece] = 0.0
        m = s[MASS]
        if m == 0.0:
            continue
        x, y, z = s[FIRST_MOMENT] / m, s[FIRST_MOMENT + 1] / m, s[FIRST_MOMENT + 2] / m
        u, v, w = s[LINEAR] / m, s[LINEAR + 1] / m, s[LINEAR + 2] / m
        J = (
            s[INERTIA] - m * (y * y + z * z),
            s[INERTIA + 1] + m * x * y,
            s[INERTIA + 2] + m * x * z,
            s[INERTIA + 3] - m * (x * x + z * z),
            s[INERTIA + 4] + m * y * z,
            s[INERTIA + 5] - m * (x * x + y * y),
        )
        free = not pieces.fixed[piece] and s[TOUCHING] == 0.0
        now = WANTED_ANGULAR if free else ANGULAR
        # What rounding took of the linear momentum, which would add up over thousands of steps, and what
        # elastic pieces lose of it where their last step was short but no solution.
        ex, ey, ez = (
            (s[WANTED_LINEAR] / m - u, s[WANTED_LINEAR + 1] / m - v, s[WANTED_LINEAR + 2] / m - w)
            if free
            else (0.0, 0.0, 0.0)
        )
        # That velocity has an angular momentum about the origin, too.
        gx, gy, gz = solve_symmetric(
            J,
            s[now] - s[ANGULAR] - m * (y * ez - z * ey),
            s[now + 1] - s[ANGULAR + 1] - m * (z * ex - x * ez),
            s[now + 2] - s[ANGULAR + 2] - m * (x * ey - y * ex),
        )
        rx, ry, rz = solve_symmetric(
            J,
            s[now] - m * (y * w - z * v),
            s[now + 1] - m * (z * u - x * w),
            s[now + 2] - m * (x * v - y * u),
        )
        o = pieces.origins[first]
        r = motion[piece]
        r[CENTROID], r[CENTROID + 1], r[CENTROID + 2] = x + X[o, 0], y + X[o, 1], z + X[o, 2]
        r[VELOCITY], r[VELOCITY + 1], r[VELOCITY + 2] = u, v, w
        r[SPIN], r[SPIN + 1], r[SPIN + 2] = rx, ry, rz
        r[MISSING_SPIN], r[MISSING_SPIN + 1], r[MISSING_SPIN + 2] = gx, gy, gz
        r[MISSING_VELOCITY], r[MISSING_VELOCITY + 1], r[MISSING_VELOCITY + 2] = ex, ey, ez


@kernel
def conserve(start, stop, damped, dragged, particles, motion, buffers):
    """Give each piece the spin it is missing, about its centre of mass: shape and linear momentum stay.

    Then all motion but the rigid one is multiplied by `damped`, and all by `dragged`. X takes the new
    positions.
    """
    P, X, V, W = buffers.P, buffers.X, buffers.V, buffers.W
    for i in range(start, stop):
        if not particles.fixed[i]:
            r = motion[particles.piece_of[i]]
            sx, sy, sz = r[SPIN], r[SPIN + 1], r[SPIN + 2]
            gx, gy, gz = r[MISSING_SPIN], r[MISSING_SPIN + 1], r[MISSING_SPIN + 2]
            x, y, z = P[i, 0] - r[CENTROID], P[i, 1] - r[CENTROID + 1], P[i, 2] - r[CENTROID + 2]
            u = r[VELOCITY] + sy * z - sz * y
            v = r[VELOCITY + 1] + sz * x - sx * z
            w = r[VELOCITY + 2] + sx * y - sy * x
            V[i, 0] = dragged * (r[MISSING_VELOCITY] + u + damped * (V[i, 0] + gy * z - gz * y - u))
            V[i, 1] = dragged * (r[MISSING_VELOCITY + 1] + v + damped * (V[i, 1] + gz * x - gx * z - v))
            V[i, 2] = dragged * (r[MISSING_VELOCITY + 2] + w + damped * (V[i, 2] + gx * y - gy * x - w))
            for j in range(3):
                W[i, j] = dragged * (r[SPIN + j] + damped * (W[i, j] + r[MISSING_SPIN + j] - r[SPIN + j]))
        for j in range(3):
            X[i, j] = P[i, j]
