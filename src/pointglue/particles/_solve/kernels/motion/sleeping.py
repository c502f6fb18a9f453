"""Sleep: islands that have been quiet for a while, and rest on something, stay exactly where they are.

Every substep is still worked out for them, as if they had been let go of at that moment. What it does to
them is not more than quiet, or they wake: nothing has to be told when a support goes or something new comes.
"""

import math

from .....compute import kernel
from .islands import find_root

__all__ = ["fall_asleep", "find_restless"]


@kernel
def find_restless(speeds, particles, buffers, restless) -> None:
    """Mark pieces with a particle faster than its piece's speed, or a fixed particle that moves at all."""
    V, W, bounds, piece_of = buffers.V, buffers.W, particles.bounds, particles.piece_of
    for i in range(len(V)):
        v = math.sqrt(V[i, 0] ** 2 + V[i, 1] ** 2 + V[i, 2] ** 2)
        w = math.sqrt(W[i, 0] ** 2 + W[i, 1] ** 2 + W[i, 2] ** 2)
        most = 0.0 if particles.fixed[i] else speeds[piece_of[i]]
        if v + bounds[i] * w > most:
            restless[piece_of[i]] = True


@kernel
def fall_asleep(h, after, islands, particles, X, buffers, still, quiet) -> None:
    """Add to the time (n,) for which islands are quiet, and put those back that have been for long enough.

    An island is quiet if none of its pieces is restless, and at least one of them is held. X (n, 3) are the
    positions at the start of the substep; `quiet` (pieces,) is for this function to write in. `islands` are
    the parents of pieces, and which ones are held and restless.
    """
    parents, held, restless = islands
    for piece in range(len(parents)):
        quiet[piece] = 0
    for piece in range(len(parents)):
        root = find_root(piece, parents)
        if restless[piece]:
            quiet[root] = -len(parents) - 1
        elif held[piece]:
            quiet[root] += 1
    for i in range(len(still)):
        still[i] = still[i] + h if quiet[parents[particles.piece_of[i]]] > 0 else 0.0
    # The time of the piece that came last counts for all.
    for i in range(len(still)):
        if not still[i] > after:
            quiet[find_root(particles.piece_of[i], parents)] = 0
    for i in range(len(still)):
        if quiet[parents[particles.piece_of[i]]] > 0 and not particles.fixed[i]:
            for j in range(3):
                buffers.X[i, j] = X[i, j]
                buffers.V[i, j] = buffers.W[i, j] = 0.0
            for j in range(9):
                buffers.E[i, j] = buffers.F[i, j]
