"""The constraints within a body: shape matching, lengths and twists, relaxed one after another.

P (n, 16) holds each particle's position x and its share B = E M in a moment matrix side by side, because
they are always read together: four rows of three numbers, x first, each with a fourth one that makes it a
vector. After x that is 1, or 0 for a fixed particle; after the rows of B it means nothing. E (n, 9) is its
rotation from the rest pose, M (n, 12) = (m/5) Rrest diag(r^2) Rrest^T its moment at rest, in rows of four
as well. Constraints of one colour touch no particle twice: they are independent, and
whatever threads do them, in whatever order, the result is the same.
"""

import math

import numpy as np

from .....compute import kernel
from .....compute.simd import element, load, splat, store
from .....procrustes.rotation import (
    BLOCK,
    LEAST_D,
    PART,
    SCRATCH,
    block_failed,
    part_rotations,
    robust_rotations,
)
from ..shapes.rotations import rotate, rotation_between, update_moment

__all__ = ["MIN_GAP", "correct_lengths", "correct_twists", "match_shapes"]

# Ratio (s2 + s3) / s1 below which the moment matrix does not say which way to turn (opposed particles
# cancel each other), so that the spin that it leaves open stays as it is.
MIN_GAP = 1e-8


@kernel
def match_shapes(start, stop, base, groups, clamped, M, P, E):
    """Move the particles of each group towards their places in its best-fit rigid pose, x += s (g - x).

    A = sum_i m_i (x_i - c) p_i^T + B_i,  Q = polar(A),  g_i = Q' p_i + c, with p_i the offset from the
    group's centre of mass at rest. The first `turning` particles of a group take Q for their rotation. Q' is
    Q without the torque that the orientations exert in A, see `_untorqued`.
    Blocks are made of batches, and the groups of a batch share no particle: their rotations are computed
    together. `groups` are `ShapeGroups`.
    """
    blocks, batches, starts, members = groups.blocks, groups.batches, groups.starts, groups.members
    turning, compliances = groups.turning, groups.compliances
    scratch, work = np.empty(SCRATCH), (np.empty(1, np.int64), np.empty(BLOCK, np.int64))
    A, own, centroids = np.zeros(9 * BLOCK), np.empty(9 * BLOCK), np.zeros((BLOCK, 4))
    Q, goals = np.empty(9 * BLOCK), np.zeros(12 * BLOCK)
    places = goals.reshape(BLOCK, 12)
    for batch in range(blocks[base + start], blocks[base + stop]):
        for first in range(batches[batch], batches[batch + 1], BLOCK):
            count = min(BLOCK, batches[batch + 1] - first)
            for k in range(count):
                _moments(first + k, k, groups, P, A, own, centroids)
            part_rotations(A, Q, scratch, LEAST_D, (count + PART - 1) // PART * PART)
            for k in range(count):
                if block_failed(scratch, k):
                    work[0][0] = k
                    before = E[members[starts[first + k]]].reshape(1, 9)
                    robust_rotations(
                        0, 1, work[0], A.reshape(-1, 9), before, MIN_GAP, Q.reshape(-1, 9), work[1]
                    )
            # Called in two places, or LLVM would make it part of this loop and not vectorise it.
            if count == BLOCK:
                _untorqued(BLOCK, compliances[6 * first :], own, Q, goals)
            else:
                _untorqued(count, compliances[6 * first :], own, Q, goals)
            for k in range(count):
                g = first + k
                _pull(g, k, groups, P, places, centroids)
                for e in range(starts[g], starts[g] + turning[g]):
                    if not clamped[members[e]]:
                        _take(members[e], k, Q, M, P, E)


@kernel
def _moments(g, k, groups, P, A, own, centroids):
    """Compute the moment matrix A of a group over its size at rest, and its centroid from its first particle.

    `own` is the part of it that comes from orientations of particles that do not take the group's rotation.
    The fourth number of an offset is the particle's share in the group's mass.
    """
    starts, members, offsets, scales = groups.starts, groups.members, groups.offsets, groups.scales
    o = members[starts[g]]
    origin, zero = load(P, o, 0), splat(0.0)
    a0, a1, a2, b0, b1, b2, c = zero, zero, zero, zero, zero, zero, zero
    for e in range(starts[g], starts[g + 1]):
        i = members[e]
        p = load(offsets, e, 0)
        x = element(p, 3) * (load(P, i, 0) - origin)
        c = c + x
        a0 = a0 + element(x, 0) * p
        a1 = a1 + element(x, 1) * p
        a2 = a2 + element(x, 2) * p
        b0 = b0 + load(P, i, 4)
        b1 = b1 + load(P, i, 8)
        b2 = b2 + load(P, i, 12)
    s, t = scales[g, 0], scales[g, 1]
    _write(A, 9 * k, s * a0 + t * b0, s * a1 + t * b1, s * a2 + t * b2)
    # Those that take the group's rotation answer for themselves: the first of an implicit group, and all of
    # an explicit one but the shared ones, which have no moments.
    t = t if groups.turning[g] == 1 else 0.0
    _write(own, 9 * k, t * (b0 - load(P, o, 4)), t * (b1 - load(P, o, 8)), t * (b2 - load(P, o, 12)))
    store(centroids, k, 0, c)


@kernel
def _write(A, j, r0, r1, r2):
    """Write the first three elements of each row into the flat array A from j on."""
    A[j], A[j + 1], A[j + 2] = element(r0, 0), element(r0, 1), element(r0, 2)
    A[j + 3], A[j + 4], A[j + 5] = element(r1, 0), element(r1, 1), element(r1, 2)
    A[j + 6], A[j + 7], A[j + 8] = element(r2, 0), element(r2, 1), element(r2, 2)


@kernel
def _untorqued(count, compliances, own, Q, goals):
    """Compute the rotations towards which positions move, Q turned by about w, for `count` groups.

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
        x = compliances[g] * u + compliances[g + 1] * v + compliances[g + 2] * w
        y = compliances[g + 1] * u + compliances[g + 3] * v + compliances[g + 4] * w
        z = compliances[g + 2] * u + compliances[g + 4] * v + compliances[g + 5] * w
        # Cayley's rotation Q (I + f [r]x + f [r]x^2) in the frame at rest; a long step is made shorter.
        f = 0.5 / (1.0 + x * x + y * y + z * z)
        x, y, z = f * x, f * y, f * z
        f = 2.0 / (1.0 + x * x + y * y + z * z)
        for row in range(3):
            a, b, c = Q[j + 3 * row], Q[j + 3 * row + 1], Q[j + 3 * row + 2]
            u, v, w = b * z - c * y, c * x - a * z, a * y - b * x
            goals[12 * k + row] = a + f * (u + v * z - w * y)
            goals[12 * k + row + 4] = b + f * (v + w * x - u * z)
            goals[12 * k + row + 8] = c + f * (w + u * y - v * x)


@kernel
def _pull(g, k, groups, P, goals, centroids):
    """Compute x += s (g - x), all seen from the group's first particle, so that no digits are lost far away.

    The fourth element of s is 0, so that of x stays, which is 0 for those that are fixed: then so do they.
    """
    starts, members, offsets, stiffness = groups.starts, groups.members, groups.offsets, groups.stiffness
    origin, centre = load(P, members[starts[g]], 0), load(centroids, k, 0)
    q0, q1, q2 = load(goals, k, 0), load(goals, k, 4), load(goals, k, 8)
    s = load(stiffness, g, 0)
    for e in range(starts[g], starts[g + 1]):
        i = members[e]
        x, p = load(P, i, 0), load(offsets, e, 0)
        goal = centre + element(p, 0) * q0 + element(p, 1) * q1 + element(p, 2) * q2
        store(P, i, 0, x + element(x, 3) * (s * (goal - (x - origin))))


@kernel
def _take(i, k, Q, M, P, E):
    """Compute E = Q and B = Q M for particle i."""
    m0, m1, m2 = load(M, i, 0), load(M, i, 4), load(M, i, 8)
    for row in range(3):
        a, b, c = Q[9 * k + 3 * row], Q[9 * k + 3 * row + 1], Q[9 * k + 3 * row + 2]
        E[i, 3 * row], E[i, 3 * row + 1], E[i, 3 * row + 2] = a, b, c
        store(P, i, 4 + 4 * row, a * m0 + b * m1 + c * m2)


@kernel
def correct_lengths(start, stop, base, edges, inverse_mass, P):
    """Bring the two particles of each edge to its length, x_1 += s w_1 / (w_1 + w_2) (|d| - l) d / |d|."""
    pairs, lengths, stiffness = edges.pairs, edges.lengths, edges.stretch
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
def correct_twists(start, stop, base, edges, inverse_inertia, M, P, E):
    """Turn the two particles of each edge towards each other, as seen from the rest pose.

    With r the way from E_1 to E_2: E_1 <- exp(s u r) E_1 and E_2 <- exp(-s (1 - u) r) E_2, both at once; u is
    the share of the lighter one's inverse inertia, so that spin passes from one to the other.
    """
    pairs, stiffness = edges.pairs, edges.torsion
    for k in range(base + start, base + stop):
        i, j = pairs[k, 0], pairs[k, 1]
        u, v = inverse_inertia[i], inverse_inertia[j]
        if u + v == 0.0:
            continue
        x, y, z = rotation_between(E[j], E[i])
        f = stiffness[k] * u / (u + v)
        if u > 0.0:
            rotate(f * x, f * y, f * z, E[i])
            update_moment(E[i], M[i], P[i])
        f = -stiffness[k] * v / (u + v)
        if v > 0.0:
            rotate(f * x, f * y, f * z, E[j])
            update_moment(E[j], M[j], P[j])
