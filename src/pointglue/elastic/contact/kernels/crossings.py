"""Whether an edge crosses a triangle, by the signs of volumes whose rounding is bounded."""

from ....compute import kernel
from .distances import cross, load, minus

__all__ = ["NO", "UNSURE", "YES", "crossing", "crossings"]

NO, YES, UNSURE = 0, 1, 2
# ratio of the sum of absolute terms: a volume beyond this has the right sign. Shewchuk's bound is
# (7 + 56 eps) eps, eps = 1.1e-16; this is a little more, for fused operations.
ROUNDING = 1e-15
# The same of an area, whose bound is (3 + 16 eps) eps.
AREA_ROUNDING = 5e-16


@kernel
def _side(a, b, c, p):
    """Return the sign of the volume of a, b, c, p, or 0 if rounding may have changed it."""
    u, v, w = minus(a, p), minus(b, p), minus(c, p)
    bc, ca, ab = cross(v, w), cross(w, u), cross(u, v)
    volume = u[2] * bc[2] + v[2] * ca[2] + w[2] * ab[2]
    size = (
        abs(u[2]) * (abs(v[0] * w[1]) + abs(v[1] * w[0]))
        + abs(v[2]) * (abs(w[0] * u[1]) + abs(w[1] * u[0]))
        + abs(w[2]) * (abs(u[0] * v[1]) + abs(u[1] * v[0]))
    )
    if abs(volume) <= ROUNDING * size:
        return 0
    return 1 if volume > 0.0 else -1


@kernel
def _turn(a, b, p, i, j):
    """Return the sign of the area of a, b, p along the axes i and j, or 0 if rounding may have changed it."""
    one, other = (b[i] - a[i]) * (p[j] - a[j]), (b[j] - a[j]) * (p[i] - a[i])
    if abs(one - other) <= AREA_ROUNDING * (abs(one) + abs(other)):
        return 0
    return 1 if one > other else -1


@kernel
def _apart(p, q, a, b, c, i, j):
    """Return whether a line through two of the points has edge and triangle surely apart along two axes."""
    at_a = _turn(p, q, a, i, j)
    if at_a != 0 and at_a == _turn(p, q, b, i, j) and at_a == _turn(p, q, c, i, j):
        return True
    inside = _turn(a, b, c, i, j)  # the same for all three sides
    if inside == 0:
        return False
    for first, second in ((a, b), (b, c), (c, a)):
        if _turn(first, second, p, i, j) == -inside and _turn(first, second, q, i, j) == -inside:
            return True
    return False


@kernel
def crossing(p, q, a, b, c):
    """Return whether the edge p q crosses the triangle a b c: YES, NO, or UNSURE if rounding may tell."""
    at_p, at_q = _side(a, b, c, p), _side(a, b, c, q)
    if at_p * at_q > 0:
        return NO
    one, two, three = _side(p, q, a, b), _side(p, q, b, c), _side(p, q, c, a)
    if one * two < 0 or two * three < 0 or three * one < 0:
        return NO
    if at_p * at_q * one * two * three != 0:
        return YES
    # In a flat sheet each edge lies in the plane of the triangles around it, beside them in some projection.
    for i, j in ((0, 1), (1, 2), (2, 0)):
        if _apart(p, q, a, b, c, i, j):
            return NO
        if max(p[i], q[i]) < min(a[i], b[i], c[i]) or max(a[i], b[i], c[i]) < min(p[i], q[i]):
            return NO
    return UNSURE


@kernel
def crossings(start, stop, x, edges, faces, pairs, out):
    """Fill in (K,) whether edges cross triangles, for pairs (K, 2) of them."""
    for k in range(start, stop):
        e, f = pairs[k, 0], pairs[k, 1]
        out[k] = crossing(
            load(x, edges[e, 0]), load(x, edges[e, 1]), load(x, faces[f, 0]), load(x, faces[f, 1]),
            load(x, faces[f, 2]),
        )  # fmt: skip
