"""Vertices and normals that follow up to four particles each.

A frame takes the bind pose to now, measured from one centre c: x - c = R (v - c) + t. Linear frames are the
columns of (R | t), each with a zero after it that makes it a vector of four, 16 numbers; dual ones a unit
quaternion q and q' = (0, t) q / 2, 8 numbers.
"""

import math

from ...compute import kernel
from ...compute.simd import element, load, splat

__all__ = ["dual_normals", "dual_points", "linear_normals", "linear_points"]

# Unit vectors that add up to less than this, squared, have cancelled and left mere rounding.
CANCELLED = 1e-20


@kernel
def linear_points(start, stop, frames, links, weights, centre, points, out):
    """Compute x = c + (sum w R) (v - c) + sum w t."""
    for v in range(start, stop):
        r0, r1, r2, t = splat(0.0), splat(0.0), splat(0.0), splat(0.0)
        for link in range(4):
            i, w = links[v, link], weights[v, link]
            r0 = r0 + w * load(frames, i, 0)
            r1 = r1 + w * load(frames, i, 4)
            r2 = r2 + w * load(frames, i, 8)
            t = t + w * load(frames, i, 12)
        x, y, z = points[v, 0] - centre[0], points[v, 1] - centre[1], points[v, 2] - centre[2]
        s = x * r0 + y * r1 + z * r2 + t
        out[v, 0], out[v, 1], out[v, 2] = (
            centre[0] + element(s, 0),
            centre[1] + element(s, 1),
            centre[2] + element(s, 2),
        )


@kernel
def linear_normals(start, stop, frames, links, weights, normals, out):
    """Compute sum w R n made a unit vector again; R n of the heaviest link where they cancel."""
    for v in range(start, stop):
        x, y, z = normals[v, 0], normals[v, 1], normals[v, 2]
        sx = sy = sz = 0.0
        for link in range(4):
            w, F = weights[v, link], frames[links[v, link]]
            sx += w * (F[0] * x + F[4] * y + F[8] * z)
            sy += w * (F[1] * x + F[5] * y + F[9] * z)
            sz += w * (F[2] * x + F[6] * y + F[10] * z)
        square = sx * sx + sy * sy + sz * sz
        if square < CANCELLED:
            F = frames[links[v, _heaviest(v, weights)]]
            sx = F[0] * x + F[4] * y + F[8] * z
            sy = F[1] * x + F[5] * y + F[9] * z
            sz = F[2] * x + F[6] * y + F[10] * z
            square = sx * sx + sy * sy + sz * sz
        # A vertex of no face has no normal.
        scale = 1.0 / math.sqrt(square) if square > 0.0 else 0.0
        out[v, 0], out[v, 1], out[v, 2] = scale * sx, scale * sy, scale * sz


@kernel
def _heaviest(v, weights):
    """Return which link of vertex v has the largest weight."""
    best, most = 0, weights[v, 0]
    for link in range(1, 4):
        w = weights[v, link]
        best, most = (link, w) if w > most else (best, most)
    return best


@kernel
def _blended(v, frames, links, weights):
    """Return the sums of w q and w q', each q on the side of the heaviest: that of q is 1/4 long or more."""
    heaviest = load(frames, links[v, _heaviest(v, weights)], 0)
    turn, move = splat(0.0), splat(0.0)
    for link in range(4):
        i = links[v, link]
        q = load(frames, i, 0)
        p = heaviest * q
        w = math.copysign(weights[v, link], (element(p, 0) + element(p, 1)) + (element(p, 2) + element(p, 3)))
        turn = turn + w * q
        move = move + w * load(frames, i, 4)
    return turn, move


@kernel
def _moved(turn, move, a, b, c):
    """Return q p q^-1 + 2 q' q^-1 = p + 2 (w u + r x u - e r) / |q|^2 for p = (a, b, c) and u = r x p + m.

    q is (w, r) and q' is (e, m).
    """
    w, x, y, z = element(turn, 0), element(turn, 1), element(turn, 2), element(turn, 3)
    e = element(move, 0)
    u0, u1, u2 = (
        y * c - z * b + element(move, 1),
        z * a - x * c + element(move, 2),
        x * b - y * a + element(move, 3),
    )
    scale = 2.0 / (w * w + x * x + y * y + z * z)
    return (
        a + scale * (w * u0 + y * u2 - z * u1 - e * x),
        b + scale * (w * u1 + z * u0 - x * u2 - e * y),
        c + scale * (w * u2 + x * u1 - y * u0 - e * z),
    )


@kernel
def dual_points(start, stop, frames, links, weights, centre, points, out):
    """Compute x = c + q (v - c) q^-1 + 2 q' q^-1."""
    c0, c1, c2 = centre[0], centre[1], centre[2]
    for v in range(start, stop):
        turn, move = _blended(v, frames, links, weights)
        x, y, z = _moved(turn, move, points[v, 0] - c0, points[v, 1] - c1, points[v, 2] - c2)
        out[v, 0], out[v, 1], out[v, 2] = c0 + x, c1 + y, c2 + z


@kernel
def dual_normals(start, stop, frames, links, weights, normals, out):
    """Compute q n q^-1: in these frames q' is 0."""
    for v in range(start, stop):
        turn, move = _blended(v, frames, links, weights)
        out[v, 0], out[v, 1], out[v, 2] = _moved(turn, move, normals[v, 0], normals[v, 1], normals[v, 2])
