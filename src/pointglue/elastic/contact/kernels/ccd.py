"""Continuous collision detection: how far two primitives may go along straight ways before they meet.

Additive CCD (Li et al., Codimensional Incremental Potential Contact, 2021). Two primitives at the distance l,
whose points move by at most p and q relative to their common motion, cannot come nearer than l - t (p + q)
within the share t of the way: so a share of (l - thickness) / (p + q) is free, and the next one from there.
"""

import math
from typing import NamedTuple

from ....compute import kernel
from .distances import load, minus, squared_distance_edges, squared_distance_triangle

__all__ = ["ImpactLimits", "edge_impacts", "face_impacts", "impact", "relative_ways", "squared_distance"]


BISECTIONS = 4  # of the last part of a way


class ImpactLimits(NamedTuple):
    """What a search for an impact keeps to."""

    thickness: float
    """The distance that counts as an impact [m]."""
    share: float
    """The share of the first gap that may be used up [1]."""
    iterations: int
    """The most iterations; a search that needs more ends a little earlier on its way."""


@kernel
def relative_ways(d0, d1, d2, d3, first):
    """Return the four ways without their mean, and how fast the two primitives may approach each other.

    The first of them has `first` points, 1 or 2.
    """
    mean = (
        0.25 * (d0[0] + d1[0] + d2[0] + d3[0]),
        0.25 * (d0[1] + d1[1] + d2[1] + d3[1]),
        0.25 * (d0[2] + d1[2] + d2[2] + d3[2]),
    )
    d0 = (d0[0] - mean[0], d0[1] - mean[1], d0[2] - mean[2])
    d1 = (d1[0] - mean[0], d1[1] - mean[1], d1[2] - mean[2])
    d2 = (d2[0] - mean[0], d2[1] - mean[1], d2[2] - mean[2])
    d3 = (d3[0] - mean[0], d3[1] - mean[1], d3[2] - mean[2])
    l0, l1 = d0[0] ** 2 + d0[1] ** 2 + d0[2] ** 2, d1[0] ** 2 + d1[1] ** 2 + d1[2] ** 2
    l2, l3 = d2[0] ** 2 + d2[1] ** 2 + d2[2] ** 2, d3[0] ** 2 + d3[1] ** 2 + d3[2] ** 2
    far = max(l2, l3)
    near, far = (max(l0, l1), far) if first == 2 else (l0, max(l1, far))
    speed = math.sqrt(near) + math.sqrt(far)
    return d0, d1, d2, d3, speed


@kernel
def _moved(x, d, t):
    """Return x + t d."""
    return x[0] + t * d[0], x[1] + t * d[1], x[2] + t * d[2]


@kernel
def squared_distance(x0, x1, x2, x3, first):
    """Return the squared distance of two edges (`first` is 2), or of a point and a triangle (1)."""
    if first == 2:
        return squared_distance_edges(x0, x1, x2, x3)
    return squared_distance_triangle(x0, x1, x2, x3)


@kernel
def _box_gap(x, first):
    """Return the distance of the boxes around two edges (`first` is 2), or a point and a triangle (1)."""
    total = 0.0
    for a in range(3):
        low, high = x[0][a], x[0][a]
        other_low, other_high = min(x[2][a], x[3][a]), max(x[2][a], x[3][a])
        if first == 2:
            low, high = min(low, x[1][a]), max(high, x[1][a])
        else:
            other_low, other_high = min(other_low, x[1][a]), max(other_high, x[1][a])
        total += max(low - other_high, other_low - high, 0.0) ** 2
    return math.sqrt(total)


@kernel
def _gap(x, ways, t, first, thickness):
    """Return the gap of two primitives of four points after a share t of their ways."""
    x0, x1, x2, x3 = x
    d0, d1, d2, d3 = ways
    squared = squared_distance(
        _moved(x0, d0, t), _moved(x1, d1, t), _moved(x2, d2, t), _moved(x3, d3, t), first
    )
    return (squared - thickness * thickness) / (math.sqrt(squared) + thickness)


@kernel
def impact(x, ways, first, limits, until):
    """Return the collision-free share of the ways of four points, or `until` if it is more.

    What is left of the first gap g there is (1 - share) g at least, and share g / 2^BISECTIONS more at most.
    """
    h, share = limits.thickness, limits.share
    d0, d1, d2, d3, speed = relative_ways(ways[0], ways[1], ways[2], ways[3], first)
    # Answers that are not less than `until` are of no interest; which they are is not for it to decide, or
    # the least of all answers would depend on their order.
    enough = min(until / share, 1.0) * speed
    if _box_gap(x, first) - h > enough:
        return until
    gap = _gap(x, ways, 0.0, first, h)
    if gap > enough:
        return until
    if not gap > 0.0:
        return 0.0
    least, t, ahead = (1.0 - share) * gap, 0.0, 0.0
    for _ in range(limits.iterations):
        ahead = t + share * gap / speed
        if t >= until or ahead >= 1.0:
            return until
        gap = _gap(x, (d0, d1, d2, d3), ahead, first, h)
        if t > 0.0 and gap < least:
            break
        t = ahead
    # All the way ahead is free, and the gap falls below the least one on it: go nearly as far as that.
    for _ in range(BISECTIONS):
        middle = 0.5 * (t + ahead)
        if _gap(x, (d0, d1, d2, d3), middle, first, h) < least:
            ahead = middle
        else:
            t = middle
    return t


@kernel
def face_impacts(start, stop, way, faces, pairs, limits, out):
    """Fill in the collision-free shares (K,) of vertices and faces (K, 2), or a lesser one found before.

    `way` are the vertices (V, 3) at both ends. Only the least of all shares is certain.
    """
    x, y = way
    until = 1.0
    for k in range(start, stop):
        i, f = pairs[k, 0], pairs[k, 1]
        j, m, n = faces[f, 0], faces[f, 1], faces[f, 2]
        at = (load(x, i), load(x, j), load(x, m), load(x, n))
        ways = (minus(load(y, i), at[0]), minus(load(y, j), at[1]), minus(load(y, m), at[2]),
                minus(load(y, n), at[3]))  # fmt: skip
        until = min(until, impact(at, ways, 1, limits, until))
        out[k] = until


@kernel
def edge_impacts(start, stop, way, edges, pairs, limits, out):
    """Fill in the collision-free shares (K,) of two edges (K, 2), see `face_impacts`."""
    x, y = way
    until = 1.0
    for k in range(start, stop):
        e, f = pairs[k, 0], pairs[k, 1]
        i, j, m, n = edges[e, 0], edges[e, 1], edges[f, 0], edges[f, 1]
        at = (load(x, i), load(x, j), load(x, m), load(x, n))
        ways = (minus(load(y, i), at[0]), minus(load(y, j), at[1]), minus(load(y, m), at[2]),
                minus(load(y, n), at[3]))  # fmt: skip
        until = min(until, impact(at, ways, 2, limits, until))
        out[k] = until
