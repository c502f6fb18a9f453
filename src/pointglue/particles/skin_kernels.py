"""Vertices and normals carried along by up to four particles each.

A frame takes the bind pose to now, measured from one centre c: x - c = R (v - c) + t. Linear frames are the
columns of (R | t), each with a zero after it that makes it a vector of four, 16 numbers; dual ones a unit
quaternion q and (0, t) q, 8 numbers.
"""

import math

from ..compute import kernel
from ..lanes import lane, load, splat

__all__ = ["dual_normals", "dual_points", "linear_normals", "linear_points"]

# Unit vectors that add up to less than this, squared, have cancelled and left mere rounding.
CANCELLED = 1e-20


@kernel
def linear_points(start, stop, frames, links, weights, centre, points, out):
    """x = c + (sum w R) (v - c) + sum w t."""
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
            centre[0] + lane(s, 0),
            centre[1] + lane(s, 1),
            centre[2] + lane(s, 2),
        )


@kernel
def linear_normals(start, stop, frames, links, weights, normals, out):
    """sum w R n made a unit vector again; R n of the heaviest link where the turns cancel each other."""
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
    best = 0
    for link in range(1, 4):
        if weights[v, link] > weights[v, best]:
            best = link
    return best


@kernel
def _blended(v, frames, links, weights):
    """The sum of w (q, q') with each q on the side of the heaviest: it is at least 1/4 long."""
    H = frames[links[v, _heaviest(v, weights)]]
    a = b = c = d = e = f = g = h = 0.0
    for link in range(4):
        w, F = weights[v, link], frames[links[v, link]]
        if H[0] * F[0] + H[1] * F[1] + H[2] * F[2] + H[3] * F[3] < 0.0:
            w = -w
        a += w * F[0]
        b += w * F[1]
        c += w * F[2]
        d += w * F[3]
        e += w * F[4]
        f += w * F[5]
        g += w * F[6]
        h += w * F[7]
    return a, b, c, d, e, f, g, h


@kernel
def _turned(w, x, y, z, scale, a, b, c):
    """q (0, a, b, c) q^-1 = p + 2 (w u + r x u) / |q|^2 with r = (x, y, z), u = r x p; scale is 2 / |q|^2."""
    u0, u1, u2 = y * c - z * b, z * a - x * c, x * b - y * a
    return (
        a + scale * (w * u0 + y * u2 - z * u1),
        b + scale * (w * u1 + z * u0 - x * u2),
        c + scale * (w * u2 + x * u1 - y * u0),
    )


@kernel
def dual_points(start, stop, frames, links, weights, centre, points, out):
    """x = c + q (v - c) q^-1 + t, where (0, t) is the vector part of q' q^-1."""
    c0, c1, c2 = centre[0], centre[1], centre[2]
    for v in range(start, stop):
        w, x, y, z, e, f, g, h = _blended(v, frames, links, weights)
        inverse = 1.0 / (w * w + x * x + y * y + z * z)
        a, b, c = _turned(w, x, y, z, 2.0 * inverse, points[v, 0] - c0, points[v, 1] - c1, points[v, 2] - c2)
        out[v, 0] = c0 + (a + inverse * (w * f - e * x + y * h - z * g))
        out[v, 1] = c1 + (b + inverse * (w * g - e * y + z * f - x * h))
        out[v, 2] = c2 + (c + inverse * (w * h - e * z + x * g - y * f))


@kernel
def dual_normals(start, stop, frames, links, weights, normals, out):
    """q n q^-1."""
    for v in range(start, stop):
        w, x, y, z, _, _, _, _ = _blended(v, frames, links, weights)
        scale = 2.0 / (w * w + x * x + y * y + z * z)
        out[v, 0], out[v, 1], out[v, 2] = _turned(
            w, x, y, z, scale, normals[v, 0], normals[v, 1], normals[v, 2]
        )
