"""Continuous collision detection: how far two primitives may go along straight ways before they meet.

Additive CCD (Li et al., Codimensional Incremental Potential Contact, 2021). Two primitives at the distance l,
whose points move by at most p and q relative to their common motion, cannot come nearer than l - t (p + q)
within the share t of the way: so a share of (l - thickness) / (p + q) is free, and the next one from there.
"""

import math
from typing import NamedTuple

from ....compute import kernel
from .distances import cross, dot, load, minus, point_plane, squared_distance_edges, squared_distance_triangle

__all__ = [
    "ImpactLimits",
    "edge_impacts",
    "face_impacts",
    "impact",
    "plane_impact",
    "plane_impacts",
    "relative_ways",
    "squared_distance",
    "thicker",
]


BISECTIONS = 4  # of the last part of a way
# Ratio to the area of the triangle that tells a plane: it keeps this much on the part of a way in question.
LEAST_AREA = 0.5


class ImpactLimits(NamedTuple):
    """What a search for an impact keeps to."""

    thickness: float
    """The distance that counts as an impact [m]."""
    share: float
    """The share of the first gap that may be used up [1]."""
    iterations: int
    """The most iterations; a search that needs more ends a little earlier on its way."""


@kernel
def thicker(limits, radius):
    """Return the limits of primitives with a radius around them."""
    return ImpactLimits(limits.thickness + radius, limits.share, limits.iterations)


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
def face_impacts(start, stop, way, surface, pairs, limits, out):
    """Fill in the collision-free shares (K,) of vertices and faces (K, 2), or a lesser one found before.

    `way` are the vertices (V, 3) at both ends. Only the least of all shares is certain.
    """
    x, y = way
    faces, until = surface.faces, 1.0
    for k in range(start, stop):
        i, f = pairs[k, 0], pairs[k, 1]
        j, m, n = faces[f, 0], faces[f, 1], faces[f, 2]
        at = (load(x, i), load(x, j), load(x, m), load(x, n))
        ways = (minus(load(y, i), at[0]), minus(load(y, j), at[1]), minus(load(y, m), at[2]),
                minus(load(y, n), at[3]))  # fmt: skip
        until = min(until, impact(at, ways, 1, thicker(limits, surface.radius[i]), until))
        out[k] = until


@kernel
def edge_impacts(start, stop, way, surface, pairs, limits, out):
    """Fill in the collision-free shares (K,) of two edges (K, 2), see `face_impacts`."""
    x, y = way
    edges, until = surface.edges, 1.0
    for k in range(start, stop):
        e, f = pairs[k, 0], pairs[k, 1]
        i, j, m, n = edges[e, 0], edges[e, 1], edges[f, 0], edges[f, 1]
        at = (load(x, i), load(x, j), load(x, m), load(x, n))
        ways = (minus(load(y, i), at[0]), minus(load(y, j), at[1]), minus(load(y, m), at[2]),
                minus(load(y, n), at[3]))  # fmt: skip
        radius = surface.radius[i] + surface.radius[m]
        until = min(until, impact(at, ways, 2, thicker(limits, radius), until))
        out[k] = until


@kernel
def _height(x, ways, t):
    """Return the height of the first of four points above the plane of the others after a share t of ways."""
    return point_plane(
        _moved(x[0], ways[0], t), _moved(x[1], ways[1], t), _moved(x[2], ways[2], t), _moved(x[3], ways[3], t)
    )[3]


@kernel
def _longest(a, b):
    """Return the length of the longer of two vectors."""
    return math.sqrt(max(dot(a, a), dot(b, b)))


@kernel
def _turning(x, ways, until):
    """Return how fast a plane turns at most on a part of the ways, and how long the part is that is known.

    The unit normal of N = u x v turns by at most |dN| / |N|.
    """
    u, v = minus(x[2], x[1]), minus(x[3], x[1])
    du, dv = minus(ways[2], ways[1]), minus(ways[3], ways[1])
    if dot(du, du) == 0.0 and dot(dv, dv) == 0.0:
        return 0.0, until
    area = cross(u, v)
    least = LEAST_AREA * math.sqrt(dot(area, area))
    while True:
        turn = math.sqrt(dot(du, du)) * _longest(v, _moved(v, dv, until)) + math.sqrt(dot(dv, dv)) * _longest(
            u, _moved(u, du, until)
        )
        if until * turn <= least:
            return turn / least, until
        until *= 0.5


@kernel
def plane_impact(x, ways, limits, until):
    """Return the collision-free share of the ways of a point and of three that tell a plane, or `until`.

    The point may not get below the plane. A plane that does not turn is met as its height tells, which is
    linear; for one that turns, the way is walked as `impact` does.
    """
    h, share = limits.thickness, limits.share
    gap = _height(x, ways, 0.0) - h
    if not gap > 0.0:
        return 0.0
    turn, end = _turning(x, ways, until)
    way = minus(ways[0], ways[1])
    if turn == 0.0:
        closing = _height(x, ways, 0.0) - _height(x, ways, 1.0)
        return until if closing * until <= share * gap else share * gap / closing
    arm = minus(x[0], x[1])
    speed = math.sqrt(dot(way, way)) + turn * _longest(arm, _moved(arm, way, end))
    least, t, ahead = (1.0 - share) * gap, 0.0, 0.0
    for _ in range(limits.iterations):
        ahead = t + share * gap / speed
        if ahead >= end:
            return end
        gap = _height(x, ways, ahead) - h
        if gap < least and t > 0.0:
            break
        t = ahead
    for _ in range(BISECTIONS):
        middle = 0.5 * (t + ahead)
        if _height(x, ways, middle) - h < least:
            ahead = middle
        else:
            t = middle
    return t


@kernel
def plane_impacts(start, stop, way, planes, pairs, limits, out):
    """Fill in the collision-free shares (K,) of vertices and planes (K, 2), see `face_impacts`."""
    x, y = way
    until = 1.0
    for k in range(start, stop):
        i, p = pairs[k, 0], pairs[k, 1]
        j, m, n = planes[p, 0], planes[p, 1], planes[p, 2]
        at = (load(x, i), load(x, j), load(x, m), load(x, n))
        ways = (minus(load(y, i), at[0]), minus(load(y, j), at[1]), minus(load(y, m), at[2]),
                minus(load(y, n), at[3]))  # fmt: skip
        until = min(until, plane_impact(at, ways, limits, until))
        out[k] = until
