"""Lengths along chains of edges, all at once: a heavy weight hangs on a rope no deeper than a light one.

One edge after the other, the pull of a weight goes up a rope by one particle an iteration. The equations of a
chain have three diagonals, and are solved from one end to the other and back.
"""

import math

import numpy as np

from .....compute import kernel

__all__ = ["correct_chains"]


# Newton steps at most, for chains that do not give way; the strain at which an edge is as long as it should;
# and how far a particle goes in a step, in lengths of the edges beside it.
STEPS, EXACT, FARTHEST = 20, 1e-4, 0.25


@kernel
def correct_chains(start, stop, chains, inverse_mass, P):
    """Bring the edges of each chain to their lengths: J W J^T l = |d| - l_0, x += W J^T l, J = d / |d|.

    The diagonal is divided by the stretch s, so that an edge by itself corrects the fraction s. Chains that
    do not stretch at all, s = 1, are corrected until they have their lengths, in steps that turn them little.
    """
    for c in range(start, stop):
        first, count = chains.starts[c], chains.starts[c + 1] - chains.starts[c] - 1
        directions, upper, pull = np.empty((count, 3)), np.empty(count), np.empty(count)
        firm = True
        for k in range(count):
            firm = firm and chains.stretch[first + k] == 1.0
        for _ in range(STEPS if firm else 1):
            if _correct(first, count, chains, inverse_mass, P, directions, upper, pull) < EXACT:
                break


@kernel
def _correct(first, count, chains, inverse_mass, P, directions, upper, pull):
    """Correct one chain by one step of Newton's method; return the largest strain before it."""
    directions[:], upper[:], pull[:] = 0.0, 0.0, 0.0
    before, strain = 1.0, 0.0
    for k in range(count):
        i, j = chains.nodes[first + k], chains.nodes[first + k + 1]
        s, v, w = chains.stretch[first + k], inverse_mass[i], inverse_mass[j]
        x, y, z = P[j, 0] - P[i, 0], P[j, 1] - P[i, 1], P[j, 2] - P[i, 2]
        d = math.sqrt(x * x + y * y + z * z)
        if d == 0.0 or s == 0.0 or v + w == 0.0:
            before = 1.0  # nothing passes here
            continue
        u, length = directions[k], chains.lengths[first + k]
        u[0], u[1], u[2] = x / d, y / d, z / d
        diagonal, right = (v + w) / s, d - length
        strain = max(strain, abs(right) / length)
        if k > 0:
            t = directions[k - 1]
            beside = -v * (t[0] * u[0] + t[1] * u[1] + t[2] * u[2])
            upper[k - 1] = beside / before
            diagonal -= beside * upper[k - 1]
            right -= beside * pull[k - 1]
        before = diagonal
        pull[k] = right / diagonal
    for k in range(count - 2, -1, -1):
        pull[k] -= upper[k] * pull[k + 1]
    most = 1.0
    for k in range(count + 1):
        i, square, length = chains.nodes[first + k], 0.0, math.inf
        for a in range(3):
            way = pull[k] * directions[k, a] if k < count else 0.0
            way -= pull[k - 1] * directions[k - 1, a] if k > 0 else 0.0
            square += (inverse_mass[i] * way) ** 2
        if k < count:
            length = chains.lengths[first + k]
        if k > 0:
            length = min(length, chains.lengths[first + k - 1])
        # What is stretched goes back as far as it is, whatever that is.
        most = max(most, math.sqrt(square) / (FARTHEST * (1.0 + 4.0 * strain) * length))
    for k in range(count):
        i, j = chains.nodes[first + k], chains.nodes[first + k + 1]
        for a in range(3):
            P[i, a] += inverse_mass[i] * pull[k] / most * directions[k, a]
            P[j, a] -= inverse_mass[j] * pull[k] / most * directions[k, a]
    return strain
