"""The constraints within a body: shape matching, lengths and twists, relaxed one after another.

P (n, 12) holds each particle's position x and its share B = E M in a moment matrix side by side, because
they are always read together; E (n, 9) is its rotation from the rest pose, M = (m/5) Rrest diag(r^2)
Rrest^T its moment at rest. Constraints of one colour touch no particle twice: they are independent, and
whatever threads do them, in whatever order, the result is the same.
"""

import math

import numpy as np

from ..compute import kernel
from ..procrustes.rotation import BLOCK, LEAST_D, PART, SCRATCH, block_failed, part_rotations, settle
from .turning import times, turn, turned_by

# Below this gap the moment matrix does not say which way to turn (opposed particles cancel each other),
# and the spin that it leaves open stays as it is.
MIN_GAP = 1e-8


@kernel
def match(
    start,
    stop,
    base,
    blocks,
    batches,
    starts,
    members,
    offsets,
    shares,
    turning,
    scales,
    yields,
    stiffness,
    fixed,
    M,
    P,
    E,
):
    """Move the particles of each group towards their places in its best-fit rigid pose, x += s (g - x).

    A = sum_i m_i (x_i - c) p_i^T + B_i,  Q = polar(A),  g_i = Q' p_i + c, with p_i the offset from the
    group's centre of mass at rest. The first `turning` particles of a group take Q for their rotation. Q' is
    Q without the torque that the orientations exert in A, see `_untorqued`.
    Blocks are made of batches, and the groups of a batch share no particle: their rotations are computed
    together.
    """
    scratch, work = np.empty(SCRATCH), (np.empty(1, np.int64), np.empty(BLOCK, np.int64))
    A, own, centres = np.zeros(9 * BLOCK), np.empty(9 * BLOCK), np.empty(3 * BLOCK)
    Q, goals = np.empty(9 * BLOCK), np.empty(9 * BLOCK)
    for batch in range(blocks[base + start], blocks[base + stop]):
        for first in range(batches[batch], batches[batch + 1], BLOCK):
            count = min(BLOCK, batches[batch + 1] - first)
            for k in range(count):
                _moments(first + k, k, starts, members, offsets, shares, turning, scales, P, A, own, centres)
            part_rotations(A, Q, scratch, LEAST_D, (count + PART - 1) // PART * PART)
            for k in range(count):
                if block_failed(scratch, k):
                    work[0][0] = k
                    before = E[members[starts[first + k]]].reshape(1, 9)
                    settle(0, 1, work[0], A.reshape(-1, 9), before, MIN_GAP, Q.reshape(-1, 9), work[1])
            # Called in two places, or LLVM would make it part of this loop and not vectorise it.
            if count == BLOCK:
                _untorqued(BLOCK, yields[6 * first :], own, Q, goals)
            else:
                _untorqued(count, yields[6 * first :], own, Q, goals)
            for k in range(count):
                g = first + k
                _pull(g, k, starts, members, offsets, stiffness[g], fixed, P, goals, centres)
                for e in range(starts[g], starts[g] + turning[g]):
                    if not fixed[members[e]]:
                        _take(members[e], k, Q, M, P, E)


@kernel
def _moments(g, k, starts, members, offsets, shares, turning, scales, P, A, own, centres):
    """The moment matrix A of a group, divided by its size at rest; its centre seen from its first particle.

    `own` is the part of it that comes from orientations of particles that do not take the group's rotation.

    The fourth number of an offset is 1: so the sum for the centre is one of four alike, a single vector
    instruction.
    """
    o = members[starts[g]]
    ox, oy, oz = P[o, 0], P[o, 1], P[o, 2]
    a00 = a01 = a02 = cx = a10 = a11 = a12 = cy = a20 = a21 = a22 = cz = 0.0
    b00 = b01 = b02 = b10 = b11 = b12 = b20 = b21 = b22 = 0.0
    for e in range(starts[g], starts[g + 1]):
        i, w = members[e], shares[e]
        x, y, z = w * (P[i, 0] - ox), w * (P[i, 1] - oy), w * (P[i, 2] - oz)
        p, q, r, u = offsets[e, 0], offsets[e, 1], offsets[e, 2], offsets[e, 3]
        a00 += x * p
        a01 += x * q
        a02 += x * r
        cx += x * u
        a10 += y * p
        a11 += y * q
        a12 += y * r
        cy += y * u
        a20 += z * p
        a21 += z * q
        a22 += z * r
        cz += z * u
        b00 += P[i, 3]
        b01 += P[i, 4]
        b02 += P[i, 5]
        b10 += P[i, 6]
        b11 += P[i, 7]
        b12 += P[i, 8]
        b20 += P[i, 9]
        b21 += P[i, 10]
        b22 += P[i, 11]
    s, t = scales[g, 0], scales[g, 1]
    j = 9 * k
    A[j], A[j + 1], A[j + 2] = s * a00 + t * b00, s * a01 + t * b01, s * a02 + t * b02
    A[j + 3], A[j + 4], A[j + 5] = s * a10 + t * b10, s * a11 + t * b11, s * a12 + t * b12
    A[j + 6], A[j + 7], A[j + 8] = s * a20 + t * b20, s * a21 + t * b21, s * a22 + t * b22
    # Those that take the group's rotation answer for themselves: the first of an implicit group, and all of
    # an explicit one but the shared ones, which have no moments.
    t = t if turning[g] == 1 else 0.0
    own[j], own[j + 1], own[j + 2] = t * (b00 - P[o, 3]), t * (b01 - P[o, 4]), t * (b02 - P[o, 5])
    own[j + 3], own[j + 4], own[j + 5] = t * (b10 - P[o, 6]), t * (b11 - P[o, 7]), t * (b12 - P[o, 8])
    own[j + 6], own[j + 7], own[j + 8] = t * (b20 - P[o, 9]), t * (b21 - P[o, 10]), t * (b22 - P[o, 11])
    centres[3 * k], centres[3 * k + 1], centres[3 * k + 2] = cx, cy, cz


@kernel
def _untorqued(count, yields, own, Q, goals):
    """The rotations towards which positions move, Q turned by about w, for `count` groups.

    A = A_x + B with the moments B of orientations that do not answer to the group, and A Q^T is symmetric: if
    B Q^T is not, then neither is A_x Q^T, and to move towards Q would turn the others by a torque to which
    nothing responds. One Newton step removes it: w = -Q H^-1 Q^T vee(B Q^T - Q B^T), H = tr(A) I - A at rest.
    """
    for k in range(count):
        j, g = 9 * k, 6 * k
        q00, q01, q02 = Q[j], Q[j + 1], Q[j + 2]
        q10, q11, q12 = Q[j + 3], Q[j + 4], Q[j + 5]
        q20, q21, q22 = Q[j + 6], Q[j + 7], Q[j + 8]
        b00, b01, b02 = own[j], own[j + 1], own[j + 2]
        b10, b11, b12 = own[j + 3], own[j + 4], own[j + 5]
        b20, b21, b22 = own[j + 6], own[j + 7], own[j + 8]
        x = (b10 * q20 + b11 * q21 + b12 * q22) - (b20 * q10 + b21 * q11 + b22 * q12)
        y = (b20 * q00 + b21 * q01 + b22 * q02) - (b00 * q20 + b01 * q21 + b02 * q22)
        z = (b00 * q10 + b01 * q11 + b02 * q12) - (b10 * q00 + b11 * q01 + b12 * q02)
        u, v, w = q00 * x + q10 * y + q20 * z, q01 * x + q11 * y + q21 * z, q02 * x + q12 * y + q22 * z
        x = yields[g] * u + yields[g + 1] * v + yields[g + 2] * w
        y = yields[g + 1] * u + yields[g + 3] * v + yields[g + 4] * w
        z = yields[g + 2] * u + yields[g + 4] * v + yields[g + 5] * w
        # Cayley's rotation Q (I + f [r]x + f [r]x^2) in the frame at rest; a long step is made shorter.
        f = 0.5 / (1.0 + x * x + y * y + z * z)
        x, y, z = f * x, f * y, f * z
        f = 2.0 / (1.0 + x * x + y * y + z * z)
        for row in range(j, j + 9, 3):
            a, b, c = Q[row], Q[row + 1], Q[row + 2]
            u, v, w = b * z - c * y, c * x - a * z, a * y - b * x
            goals[row] = a + f * (u + v * z - w * y)
            goals[row + 1] = b + f * (v + w * x - u * z)
            goals[row + 2] = c + f * (w + u * y - v * x)


@kernel
def _pull(g, k, starts, members, offsets, s, fixed, P, goals, centres):
    """x += s (g - x), all seen from the group's first particle, that no digits be lost far away."""
    o = members[starts[g]]
    ox, oy, oz = P[o, 0], P[o, 1], P[o, 2]
    cx, cy, cz = centres[3 * k], centres[3 * k + 1], centres[3 * k + 2]
    j = 9 * k
    q00, q01, q02 = goals[j], goals[j + 1], goals[j + 2]
    q10, q11, q12 = goals[j + 3], goals[j + 4], goals[j + 5]
    q20, q21, q22 = goals[j + 6], goals[j + 7], goals[j + 8]
    for e in range(starts[g], starts[g + 1]):
        i = members[e]
        if fixed[i]:
            continue
        p, q, r = offsets[e, 0], offsets[e, 1], offsets[e, 2]
        P[i, 0] += s * (cx + (q00 * p + q01 * q + q02 * r) - (P[i, 0] - ox))
        P[i, 1] += s * (cy + (q10 * p + q11 * q + q12 * r) - (P[i, 1] - oy))
        P[i, 2] += s * (cz + (q20 * p + q21 * q + q22 * r) - (P[i, 2] - oz))


@kernel
def _take(i, k, Q, M, P, E):
    """E = Q and B = Q M for particle i."""
    for row in range(3):
        a, b, c = Q[9 * k + 3 * row], Q[9 * k + 3 * row + 1], Q[9 * k + 3 * row + 2]
        E[i, 3 * row], E[i, 3 * row + 1], E[i, 3 * row + 2] = a, b, c
        P[i, 3 + 3 * row] = a * M[i, 0] + b * M[i, 3] + c * M[i, 6]
        P[i, 4 + 3 * row] = a * M[i, 1] + b * M[i, 4] + c * M[i, 7]
        P[i, 5 + 3 * row] = a * M[i, 2] + b * M[i, 5] + c * M[i, 8]


@kernel
def stretch(start, stop, base, pairs, lengths, stiffness, inverse_mass, P):
    """Bring the two particles of each edge to its length, x_1 += s w_1 / (w_1 + w_2) (|d| - l) d / |d|."""
    for k in range(base + start, base + stop):
        i, j = pairs[k, 0], pairs[k, 1]
        u, v = inverse_mass[i], inverse_mass[j]
        x, y, z = P[j, 0] - P[i, 0], P[j, 1] - P[i, 1], P[j, 2] - P[i, 2]
        d = math.sqrt(x * x + y * y + z * z)
        if u + v == 0.0 or d == 0.0:
            continue
        f = stiffness[k] * (d - lengths[k]) / (d * (u + v))
        P[i, 0] += u * f * x
        P[i, 1] += u * f * y
        P[i, 2] += u * f * z
        P[j, 0] -= v * f * x
        P[j, 1] -= v * f * y
        P[j, 2] -= v * f * z


@kernel
def untwist(start, stop, base, pairs, stiffness, inverse_inertia, M, P, E):
    """Turn the two particles of each edge towards each other, as seen from the rest pose.

    With r the way from E_1 to E_2: E_1 <- exp(s u r) E_1 and E_2 <- exp(-s (1 - u) r) E_2, both at once; u is
    the share of the lighter one's inverse inertia, so that spin passes from one to the other.
    """
    for k in range(base + start, base + stop):
        i, j = pairs[k, 0], pairs[k, 1]
        u, v = inverse_inertia[i], inverse_inertia[j]
        if u + v == 0.0:
            continue
        x, y, z = turned_by(E[j], E[i])
        f = stiffness[k] * u / (u + v)
        if u > 0.0:
            turn(f * x, f * y, f * z, E[i])
            times(E[i], M[i], P[i])
        f = -stiffness[k] * v / (u + v)
        if v > 0.0:
            turn(f * x, f * y, f * z, E[j])
            times(E[j], M[j], P[j])
