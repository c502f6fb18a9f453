"""Impulses of contacts of which each moves whole bodies, found together by projected Gauss-Seidel sweeps."""

import math

import numpy as np

from .....compute import kernel

__all__ = ["find_impulses"]

# Of so many sweeps one goes over all contacts, the others over those that had not settled in the last one.
EVERY = 10


@kernel
def _push(t, x, y, z, bodies):
    """Move the body of point t, and with it all of its points, by an impulse on it."""
    b = bodies.body_of[t]
    first, count = bodies.starts[b], bodies.starts[b + 1] - bodies.starts[b]
    if bodies.block_starts[b + 1] == bodies.block_starts[b]:
        m, J, arm = bodies.motions[b], bodies.inverses[b], bodies.arms[t]
        u, v, w = arm[1] * z - arm[2] * y, arm[2] * x - arm[0] * z, arm[0] * y - arm[1] * x
        m[0], m[1], m[2] = m[0] + J[0] * x, m[1] + J[0] * y, m[2] + J[0] * z
        for k in range(3):
            m[3 + k] += J[1 + 3 * k] * u + J[2 + 3 * k] * v + J[3 + 3 * k] * w
        return
    block, W, moved = bodies.block_starts[b] + t - first, bodies.responses, bodies.moved
    for a in range(count):
        w = block + a * count
        moved[first + a, 0] += W[w, 0] * x + W[w, 1] * y + W[w, 2] * z
        moved[first + a, 1] += W[w, 3] * x + W[w, 4] * y + W[w, 5] * z
        moved[first + a, 2] += W[w, 6] * x + W[w, 7] * y + W[w, 8] * z


@kernel
def _way(t, bodies):
    """Return how far point t has been moved."""
    b = bodies.body_of[t]
    if bodies.block_starts[b + 1] > bodies.block_starts[b]:
        return bodies.moved[t, 0], bodies.moved[t, 1], bodies.moved[t, 2]
    m, arm = bodies.motions[b], bodies.arms[t]
    return (
        m[0] + m[4] * arm[2] - m[5] * arm[1],
        m[1] + m[5] * arm[0] - m[3] * arm[2],
        m[2] + m[3] * arm[1] - m[4] * arm[0],
    )


@kernel
def _add_response(a, b, factor, bodies, W):
    """Add the symmetric part of the response of point a to impulses on b, times a factor, to W (9,)."""
    body = bodies.body_of[a]
    if body != bodies.body_of[b]:
        return
    first, count = bodies.starts[body], bodies.starts[body + 1] - bodies.starts[body]
    own = np.empty(9)
    if bodies.block_starts[body + 1] > bodies.block_starts[body]:
        own[:] = bodies.responses[bodies.block_starts[body] + (a - first) * count + b - first]
    else:
        r, J = bodies.arms[a], bodies.inverses[body]
        for c in range(3):
            # An impulse of 1 on b along axis c has a moment about the two others.
            e, f = (c + 1) % 3, (c + 2) % 3
            p, q = bodies.arms[b, f], -bodies.arms[b, e]
            u, v, w = J[1 + e] * p + J[1 + f] * q, J[4 + e] * p + J[4 + f] * q, J[7 + e] * p + J[7 + f] * q
            own[c] = v * r[2] - w * r[1]
            own[3 + c] = w * r[0] - u * r[2]
            own[6 + c] = u * r[1] - v * r[0]
            own[4 * c] += J[0]
    for r in range(3):
        for c in range(3):
            W[3 * r + c] += 0.5 * factor * (own[3 * r + c] + own[3 * c + r])


@kernel
def _give(a, b, normal, bodies, W):
    """Return how far a contact gives way to an impulse of 1: along its normal, and at most across it."""
    W[:] = 0.0
    _add_response(a, a, 1.0, bodies, W)
    if b >= 0:
        _add_response(b, b, 1.0, bodies, W)
        _add_response(a, b, -2.0, bodies, W)
    x, y, z = normal
    u, v, w = W[0] * x + W[1] * y + W[2] * z, W[3] * x + W[4] * y + W[5] * z, W[6] * x + W[7] * y + W[8] * z
    along = u * x + v * y + w * z
    # The larger eigenvalue of the part across the normal, from its trace and its norm.
    square = along * along - 2.0 * (u * u + v * v + w * w)
    for k in range(9):
        square += W[k] * W[k]
    half = 0.5 * (W[0] + W[4] + W[8] - along)
    return along, half + math.sqrt(max(0.0, 0.5 * square - half * half))


@kernel
def find_impulses(sweeps, tolerance, bodies, contacts) -> int:
    """Change the impulses until what has to go far enough does, with friction.

    Normal impulses are not negative; tangential ones stop the slip, if that takes no more than Coulomb's cone
    allows. A contact has settled when it is moved by no more than the tolerance [m], and sweeps end when all
    of them have. In large contacts a few that share a load take hundreds of sweeps after all others have
    settled. Return how often a contact was looked at.
    """
    impulses, count, looks = contacts.impulses, len(contacts.first), 0
    restless = np.ones(count, np.bool_)
    gives, W = contacts.gives, np.empty(9)
    for k in range(count):
        normal = (contacts.normals[k, 0], contacts.normals[k, 1], contacts.normals[k, 2])
        gives[k, 0], gives[k, 1] = _give(contacts.first[k], contacts.second[k], normal, bodies, W)
    since = 0
    for _ in range(sweeps):
        if since == 0:
            restless[:] = True
        most = 0.0
        for k in range(count):
            if not restless[k]:
                continue
            looks += 1
            restless[k] = False
            a, b, along, across = contacts.first[k], contacts.second[k], gives[k, 0], gives[k, 1]
            if not along > 0.0:
                continue
            x, y, z = contacts.normals[k, 0], contacts.normals[k, 1], contacts.normals[k, 2]
            u, v, w = _way(a, bodies)
            if b >= 0:
                p, q, r = _way(b, bodies)
                u, v, w = u - p, v - q, w - r
            jx, jy, jz = impulses[k, 0], impulses[k, 1], impulses[k, 2]
            j = jx * x + jy * y + jz * z
            tx, ty, tz = jx - j * x, jy - j * y, jz - j * z
            j = max(0.0, j + (contacts.needs[k] - (u * x + v * y + w * z)) / along)
            u, v, w = u + contacts.slips[k, 0], v + contacts.slips[k, 1], w + contacts.slips[k, 2]
            off, f = u * x + v * y + w * z, 1.0 / max(across, 1e-6 * along)
            tx, ty, tz = tx - f * (u - off * x), ty - f * (v - off * y), tz - f * (w - off * z)
            length, allowed = math.sqrt(tx * tx + ty * ty + tz * tz), contacts.friction[k] * j
            f = allowed / length if length > allowed else 1.0
            dx, dy, dz = j * x + f * tx - jx, j * y + f * ty - jy, j * z + f * tz - jz
            if dx != 0.0 or dy != 0.0 or dz != 0.0:
                impulses[k, 0], impulses[k, 1], impulses[k, 2] = jx + dx, jy + dy, jz + dz
                _push(a, dx, dy, dz, bodies)
                if b >= 0:
                    _push(b, -dx, -dy, -dz, bodies)
                moved = max(along, across) * math.sqrt(dx * dx + dy * dy + dz * dz)
                restless[k] = moved > tolerance
                most = max(most, moved)
        if most > tolerance:
            since = (since + 1) % EVERY
        elif since == 0:
            break
        else:
            since = 0
    return looks
