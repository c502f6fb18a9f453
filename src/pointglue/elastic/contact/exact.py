"""Whether an edge crosses a triangle, in exact arithmetic: for the few cases that rounding leaves open."""

from collections.abc import Sequence

import numpy as np

from ...checks import Array

__all__ = ["crosses"]

Vector = Sequence[int]


def _whole(points: Array) -> list[Vector]:
    """Return points (n, 3) as multiples of one power of two: whole numbers, much quicker than fractions."""
    ratios = [value.as_integer_ratio() for value in points.ravel().tolist()]
    unit = max(below for _, below in ratios)  # each of them is a power of two
    values = [above * (unit // below) for above, below in ratios]
    return [values[k : k + 3] for k in range(0, len(values), 3)]


def _sign(value: int) -> int:
    """Return -1, 0 or 1."""
    return (value > 0) - (value < 0)


def _side(a: Vector, b: Vector, c: Vector, p: Vector) -> int:
    """Return the sign of the volume of four points."""
    x, y, z = p
    u, v, w = a[0] - x, a[1] - y, a[2] - z
    r, s, t = b[0] - x, b[1] - y, b[2] - z
    f, g, h = c[0] - x, c[1] - y, c[2] - z
    return _sign(u * (s * h - t * g) - v * (r * h - t * f) + w * (r * g - s * f))


def _turn(a: Vector, b: Vector, c: Vector, axes: tuple[int, int]) -> int:
    """Return the sign of the area of three points in the plane of two axes."""
    i, j = axes
    return _sign((b[i] - a[i]) * (c[j] - a[j]) - (b[j] - a[j]) * (c[i] - a[i]))


def _apart(polygon: Sequence[Vector], other: Sequence[Vector], axes: tuple[int, int]) -> bool:
    """Return whether a side of a convex polygon, or an axis, has it and another strictly apart in a plane."""
    for k, a in enumerate(polygon):
        b = polygon[k - 1]
        theirs = {_turn(a, b, p, axes) for p in other}
        ours = {_turn(a, b, p, axes) for p in polygon} - {0}
        if len(theirs) == 1 and 0 not in theirs and ours.isdisjoint(theirs):
            return True
    return any(
        max(p[i] for p in polygon) < min(p[i] for p in other)
        or max(p[i] for p in other) < min(p[i] for p in polygon)
        for i in axes
    )


def crosses(edge: Array, triangle: Array) -> bool:
    """Return whether an edge (2, 3) and a triangle (3, 3) have a point in common [m]."""
    p, q, a, b, c = _whole(np.concatenate([edge, triangle]))
    sides = {_side(a, b, c, end) for end in (p, q)}
    if sides in ({1}, {-1}):
        return False
    around = {_side(p, q, *ends) for ends in ((a, b), (b, c), (c, a))}
    if {1, -1} <= around:
        return False
    # In one plane, what has a point in common has so in every projection, and one of these is faithful.
    return sides != {0} or not any(
        _apart((p, q), (a, b, c), axes) or _apart((a, b, c), (p, q), axes)
        for axes in ((0, 1), (1, 2), (2, 0))
    )
