"""Islands: pieces that touch each other, directly or through others. They keep their momenta together."""

from .....compute import kernel
from ..shapes.rotations import solve_symmetric
from .integration import (
    ANGULAR,
    CENTROID,
    FIRST_MOMENT,
    INERTIA,
    LINEAR,
    MASS,
    MISSING_SPIN,
    MISSING_VELOCITY,
    SPIN,
    WANTED_ANGULAR,
    WANTED_LINEAR,
)

__all__ = ["ISLAND", "balance_islands", "find_root", "unite"]

# Columns of the sums over an island: those of `integration`, and how many pieces it has.
PIECES = 23
ISLAND = 24


@kernel
def find_root(piece, parents):
    """Return the first piece of an island, and make the way to it short."""
    root = piece
    while parents[root] != root:
        root = parents[root]
    while parents[piece] != root:
        parents[piece], piece = root, parents[piece]
    return root


@kernel
def unite(pairs, depths, piece_of, parents) -> None:
    """Unite the pieces of all pairs of particles (k, 2) that are in contact."""
    for k in range(len(pairs)):
        if depths[k] > 0.0:
            a, b = find_root(piece_of[pairs[k, 0]], parents), find_root(piece_of[pairs[k, 1]], parents)
            parents[max(a, b)] = min(a, b)


@kernel
def _add_angular(total, sums, angular, linear, arm):
    """Add the angular momentum that a piece's linear momentum has by its distance from the origin."""
    x, y, z = arm
    u, v, w = sums[linear], sums[linear + 1], sums[linear + 2]
    total[angular] += y * w - z * v
    total[angular + 1] += z * u - x * w
    total[angular + 2] += x * v - y * u


@kernel
def balance_islands(pieces, parents, held, positions, sums, totals, motion) -> None:
    """Give the pieces of each island what their contacts took of its momenta, as one rigid spin of the whole.

    Parting what has come into each other moves masses that fly, m v d of angular momentum. Islands with a
    piece that is `held`, by a collider or a pin, exchange momentum with it, and nothing is made up for.
    `sums` are those of `balance`, about the origin of each piece; `positions` are those at the start of the
    substep, about which momenta are wanted, and X, by which overlaps from before have been parted since.
    """
    before, X = positions
    count = len(pieces.piece_chunks) - 1
    for piece in range(count):
        totals[piece] = 0.0
    for piece in range(count):
        root = find_root(piece, parents)
        first, o = pieces.piece_chunks[piece], pieces.origins[pieces.piece_chunks[root]]
        p, s, t = pieces.origins[first], sums[first], totals[root]
        t[PIECES] += -1e300 if held[piece] else 1.0
        x, y, z = X[p, 0] - X[o, 0], X[p, 1] - X[o, 1], X[p, 2] - X[o, 2]
        m, u, v, w = s[MASS], s[FIRST_MOMENT], s[FIRST_MOMENT + 1], s[FIRST_MOMENT + 2]
        for j in range(PIECES):
            t[j] += s[j]
        xo, yo, zo = before[p, 0] - X[o, 0], before[p, 1] - X[o, 1], before[p, 2] - X[o, 2]
        _add_angular(t, s, ANGULAR, LINEAR, (x, y, z))
        _add_angular(t, s, WANTED_ANGULAR, WANTED_LINEAR, (xo, yo, zo))
        t[FIRST_MOMENT] += m * x
        t[FIRST_MOMENT + 1] += m * y
        t[FIRST_MOMENT + 2] += m * z
        # Squares of r + d instead of r.
        xx, yy, zz = x * (m * x + 2.0 * u), y * (m * y + 2.0 * v), z * (m * z + 2.0 * w)
        t[INERTIA] += yy + zz
        t[INERTIA + 1] -= m * x * y + x * v + y * u
        t[INERTIA + 2] -= m * x * z + x * w + z * u
        t[INERTIA + 3] += xx + zz
        t[INERTIA + 4] -= m * y * z + y * w + z * v
        t[INERTIA + 5] += xx + yy
    for piece in range(count):
        root = find_root(piece, parents)
        t, o = totals[root], pieces.origins[pieces.piece_chunks[root]]
        if not t[PIECES] > 1.0:
            continue
        m = t[MASS]
        x, y, z = t[FIRST_MOMENT] / m, t[FIRST_MOMENT + 1] / m, t[FIRST_MOMENT + 2] / m
        J = (
            t[INERTIA] - m * (y * y + z * z),
            t[INERTIA + 1] + m * x * y,
            t[INERTIA + 2] + m * x * z,
            t[INERTIA + 3] - m * (x * x + z * z),
            t[INERTIA + 4] + m * y * z,
            t[INERTIA + 5] - m * (x * x + y * y),
        )
        u = t[WANTED_LINEAR] - t[LINEAR]
        v = t[WANTED_LINEAR + 1] - t[LINEAR + 1]
        w = t[WANTED_LINEAR + 2] - t[LINEAR + 2]
        gx, gy, gz = solve_symmetric(
            J,
            t[WANTED_ANGULAR] - t[ANGULAR] - (y * w - z * v),
            t[WANTED_ANGULAR + 1] - t[ANGULAR + 1] - (z * u - x * w),
            t[WANTED_ANGULAR + 2] - t[ANGULAR + 2] - (x * v - y * u),
        )
        r = motion[piece]
        x, y, z = r[CENTROID] - X[o, 0] - x, r[CENTROID + 1] - X[o, 1] - y, r[CENTROID + 2] - X[o, 2] - z
        r[SPIN], r[SPIN + 1], r[SPIN + 2] = r[SPIN] + gx, r[SPIN + 1] + gy, r[SPIN + 2] + gz
        r[MISSING_SPIN], r[MISSING_SPIN + 1], r[MISSING_SPIN + 2] = gx, gy, gz
        r[MISSING_VELOCITY] = u / m + gy * z - gz * y
        r[MISSING_VELOCITY + 1] = v / m + gz * x - gx * z
        r[MISSING_VELOCITY + 2] = w / m + gx * y - gy * x
