"""Squared distances of points, edges and triangles, by region, and the mollifier of nearly parallel edges.

The closest points of two primitives differ by r = sum_i c_i x_i over their n <= 4 points x_i. The
coefficients c depend on up to two parameters s_k (positions on edges, or in a triangle), with q_k = dc/ds_k
and e_k = dr/ds_k, and r is orthogonal to every e_k. With G = E^T E, the squared distance d = r^T r has

    gradient  2 c (x) r,    Hessian  2 (c c^T (x) 1 - W G^-1 W^T),    W = c (x) E + Q (x) r.

Vectors are tuples of three numbers.
"""

import math

from ....compute import kernel

__all__ = [
    "FREE",
    "INTERIOR",
    "cross",
    "cross_squared",
    "dot",
    "edge_edge",
    "load",
    "minus",
    "mollifier",
    "point_plane",
    "point_triangle",
    "squared_distance_edges",
    "squared_distance_triangle",
]

FREE = 2  # the state of a parameter of an edge that is at neither end; 0 and 1 are the ends
INTERIOR = 8  # the region of two edges whose parameters are both free: 3 * state of s + state of t
PARALLEL = 1e-20  # ratio |u x v|^2 / (|u|^2 |v|^2): below it two edges count as parallel


@kernel
def load(x, i):
    """Return row i of x (V, 3) as three numbers."""
    return x[i, 0], x[i, 1], x[i, 2]


@kernel
def minus(a, b):
    """Return a - b."""
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@kernel
def dot(a, b):
    """Return a . b."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@kernel
def cross(a, b):
    """Return a x b."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@kernel
def point_plane(p, a, b, c):
    """Return the weights of b and c in the point of the plane of a, b, c closest to p, r, and p's height.

    r points to p; the height is positive on the side that the normal (b - a) x (c - a) points to.
    """
    ab, ac, ap = minus(b, a), minus(c, a), minus(p, a)
    normal = cross(ab, ac)
    size = dot(normal, normal)
    height = dot(normal, ap) / size
    s, t = dot(cross(ap, ac), normal) / size, dot(cross(ab, ap), normal) / size
    r = (height * normal[0], height * normal[1], height * normal[2])
    return s, t, r, height * math.sqrt(size)


@kernel
def point_triangle(p, a, b, c):
    """Return the region of the point of a triangle closest to p, its weights of b and c, and r.

    Regions are the corners 0, 1, 2, the edges 3 (ab), 4 (bc), 5 (ca), and 6, the inside; r points to p.
    """
    ab, ac, ap = minus(b, a), minus(c, a), minus(p, a)
    d1, d2 = dot(ab, ap), dot(ac, ap)
    if d1 <= 0.0 and d2 <= 0.0:
        return 0, 0.0, 0.0, ap
    bp = minus(p, b)
    d3, d4 = dot(ab, bp), dot(ac, bp)
    if d3 >= 0.0 and d4 <= d3:
        return 1, 1.0, 0.0, bp
    to_c = d1 * d4 - d3 * d2
    if to_c <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        s = d1 / dot(ab, ab)
        return 3, s, 0.0, (ap[0] - s * ab[0], ap[1] - s * ab[1], ap[2] - s * ab[2])
    cp = minus(p, c)
    d5, d6 = dot(ab, cp), dot(ac, cp)
    if d6 >= 0.0 and d5 <= d6:
        return 2, 0.0, 1.0, cp
    to_b = d5 * d2 - d1 * d6
    if to_b <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        t = d2 / dot(ac, ac)
        return 5, 0.0, t, (ap[0] - t * ac[0], ap[1] - t * ac[1], ap[2] - t * ac[2])
    to_a = d3 * d6 - d5 * d4
    if to_a <= 0.0 and d4 >= d3 and d5 >= d6:
        bc = minus(c, b)
        t = dot(bc, bp) / dot(bc, bc)
        return 4, 1.0 - t, t, (bp[0] - t * bc[0], bp[1] - t * bc[1], bp[2] - t * bc[2])
    s, t, r, _ = point_plane(p, a, b, c)
    return 6, s, t, r


@kernel
def _end(numerator, denominator):
    """Return the state of a parameter that is clamped to an edge: 0, 1 or FREE."""
    if numerator <= 0.0:
        return 0
    return 1 if numerator >= denominator else FREE


@kernel
def edge_edge(a0, a1, b0, b1):
    """Return the region of the closest points of two edges, their parameters s and t, and r.

    The region is 3 * state of s + state of t, INTERIOR if both are free. r = a(s) - b(t).
    """
    u, v, w = minus(a1, a0), minus(b1, b0), minus(a0, b0)
    a, b, c, d, e = dot(u, u), dot(u, v), dot(v, v), dot(u, w), dot(v, w)
    normal = cross(u, v)
    size = dot(normal, normal)
    if size <= PARALLEL * a * c:
        # The lines are equally far everywhere: the end of the first edge that is beside the other will do.
        on_s, s_over = (1 if not 0.0 < e < c and 0.0 < e + b < c else 0), 0.0
    else:
        s_over = dot(cross(v, w), normal)
        on_s = _end(s_over, size)
    if on_s == FREE:
        t_over, t_whole = dot(cross(u, w), normal), size
    else:
        t_over, t_whole = e + on_s * b, c
    on_t = _end(t_over, t_whole)
    if on_t != FREE:
        on_s = _end(-d if on_t == 0 else b - d, a)
    if on_s == FREE and on_t == FREE:
        height = dot(normal, w) / size
        return (
            INTERIOR,
            s_over / size,
            t_over / size,
            (height * normal[0], height * normal[1], height * normal[2]),
        )
    s, t = 1.0 * (on_s == 1), 1.0 * (on_t == 1)
    if on_s == FREE:
        s = (t * b - d) / a
    elif on_t == FREE:
        t = (s * b + e) / c
    r = (
        w[0] + s * u[0] - t * v[0],
        w[1] + s * u[1] - t * v[1],
        w[2] + s * u[2] - t * v[2],
    )
    return 3 * on_s + on_t, s, t, r


@kernel
def squared_distance_triangle(p, a, b, c):
    """Return the squared distance of a point and a triangle."""
    r = point_triangle(p, a, b, c)[3]
    return dot(r, r)


@kernel
def squared_distance_edges(a0, a1, b0, b1):
    """Return the squared distance of two edges."""
    r = edge_edge(a0, a1, b0, b1)[3]
    return dot(r, r)


@kernel
def cross_squared(u, v):
    """Return |u x v|^2."""
    normal = cross(u, v)
    return dot(normal, normal)


@kernel
def mollifier(y, threshold):
    """Return the mollifier of two edges with y = |u x v|^2, and its two derivatives by y.

    m = (2 - z) z with z = y / threshold, below the threshold; beyond it 1.
    """
    if y >= threshold:
        return 1.0, 0.0, 0.0
    z = y / threshold
    return (2.0 - z) * z, 2.0 * (1.0 - z) / threshold, -2.0 / (threshold * threshold)
