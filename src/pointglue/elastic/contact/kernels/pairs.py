"""Squared distances of pairs of primitives, and the contacts that near pairs make."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array
from ....compute import kernel
from .barrier import EDGES, POINT_EDGE, POINTS, TRIANGLE
from .distances import (
    FREE,
    INTERIOR,
    cross_squared,
    dot,
    edge_edge,
    load,
    minus,
    point_plane,
    point_triangle,
    squared_distance_edges,
    squared_distance_triangle,
)

__all__ = [
    "QUARTER",
    "SurfaceArrays",
    "edge_contacts",
    "edge_distances",
    "edge_weight",
    "face_contacts",
    "face_distances",
    "face_weight",
    "plane_contacts",
    "plane_heights",
]

QUARTER = 0.25  # ratio: the share of each of the four kinds of areas that a contact stands for
# Ratio: the same of the area of what meets a ball or a capsule, which has none: by its triangles, or edges.
HALF = 0.5


class SurfaceArrays(NamedTuple):
    """Triangles and edges of V vertices, and the numbers of their contacts.

    Balls and capsules are there as well: as a vertex with a radius, and as an edge of two of them. They come
    last in the triangles, with corners that coincide.
    """

    faces: NDArray[np.int64]
    """(F, 3): the corners of the triangles."""
    edges: NDArray[np.int64]
    """(E, 2): the ends of the edges."""
    vertex_area: Array
    """(V,): a third of the triangles around each vertex at rest [m^2]."""
    edge_area: Array
    """(E,): a third of the triangles at each edge at rest [m^2]."""
    edge_squared: Array
    """(E,): the squared length of each edge at rest [m^2]."""
    face_area: Array
    """(F,): the area of each triangle at rest [m^2]."""
    radius: Array
    """(V,): the radius around each vertex and its edges, 0 but for balls and capsules [m]."""


@kernel
def face_weight(surface, v, f):
    """Return the area that the contact of a vertex and a triangle stands for [m^2]."""
    if surface.radius[v] > 0.0:
        return HALF * surface.face_area[f]
    return QUARTER * surface.vertex_area[v]


@kernel
def edge_weight(surface, e, f):
    """Return the area that the contact of two edges stands for [m^2]."""
    is_round = surface.radius[surface.edges[e, 0]] + surface.radius[surface.edges[f, 0]] > 0.0
    return (HALF if is_round else QUARTER) * (surface.edge_area[e] + surface.edge_area[f])


@kernel
def _interval_gap(low, high, other_low, other_high):
    """Return how far two intervals are apart, or 0."""
    return max(low - other_high, other_low - high, 0.0)


@kernel
def face_distances(start, stop, x, surface, pairs, reach, out):
    """Fill in the distances (K,) of vertices and faces (K, 2), less radii; infinity beyond the reach."""
    faces = surface.faces
    for k in range(start, stop):
        v, f = pairs[k, 0], pairs[k, 1]
        i, j, m = faces[f, 0], faces[f, 1], faces[f, 2]
        radius = surface.radius[v]
        gap = 0.0
        for a in range(3):
            low = min(x[i, a], x[j, a], x[m, a])
            high = max(x[i, a], x[j, a], x[m, a])
            gap += _interval_gap(low, high, x[v, a], x[v, a]) ** 2
        if gap > (reach + radius) * (reach + radius):
            out[k] = np.inf
        else:
            squared = squared_distance_triangle(load(x, v), load(x, i), load(x, j), load(x, m))
            out[k] = math.sqrt(squared) - radius


@kernel
def edge_distances(start, stop, x, surface, pairs, reach, out):
    """Fill in the distances (K,) of two edges (K, 2), less radii; infinity beyond the reach."""
    edges = surface.edges
    for k in range(start, stop):
        e, f = pairs[k, 0], pairs[k, 1]
        i, j, m, n = edges[e, 0], edges[e, 1], edges[f, 0], edges[f, 1]
        radius = surface.radius[i] + surface.radius[m]
        gap = 0.0
        for a in range(3):
            low, high = min(x[i, a], x[j, a]), max(x[i, a], x[j, a])
            gap += _interval_gap(low, high, min(x[m, a], x[n, a]), max(x[m, a], x[n, a])) ** 2
        if gap > (reach + radius) * (reach + radius):
            out[k] = np.inf
        else:
            squared = squared_distance_edges(load(x, i), load(x, j), load(x, m), load(x, n))
            out[k] = math.sqrt(squared) - radius


@kernel
def plane_heights(start, stop, x, planes, pairs, out):
    """Fill in the heights (K,) of vertices above planes (K, 2), which three vertices each tell."""
    for k in range(start, stop):
        v, p = pairs[k, 0], pairs[k, 1]
        a, b, c = planes[p, 0], planes[p, 1], planes[p, 2]
        out[k] = point_plane(load(x, v), load(x, a), load(x, b), load(x, c))[3]


@kernel
def _set_vectors(contacts, k, coefficients, r):
    """Set c, r and the squared distance of a contact."""
    for i in range(4):
        contacts.coefficients[k, i] = coefficients[i]
    for a in range(3):
        contacts.separation[k, a] = r[a]
    contacts.squared[k] = dot(r, r)


@kernel
def _set_points(contacts, k, p, q, r):
    """Make a contact of two points, p and q, with r = p - q; the lesser comes first."""
    contacts.kind[k] = POINTS
    sign = 1.0 if p < q else -1.0
    contacts.points[k, 0], contacts.points[k, 1] = min(p, q), max(p, q)
    contacts.points[k, 2] = contacts.points[k, 3] = -1
    _set_vectors(contacts, k, (1.0, -1.0, 0.0, 0.0), (sign * r[0], sign * r[1], sign * r[2]))


@kernel
def _set_point_edge(contacts, k, p, ends, t, r):
    """Make a contact of a point p and the point t of an edge, with r = p - that; the lesser end is first."""
    contacts.kind[k] = POINT_EDGE
    a, b = ends
    if a > b:
        a, b, t = b, a, 1.0 - t
    contacts.points[k, 0], contacts.points[k, 1], contacts.points[k, 2] = p, a, b
    contacts.points[k, 3] = -1
    _set_vectors(contacts, k, (1.0, t - 1.0, -t, 0.0), r)


@kernel
def face_contacts(start, stop, x, surface, pairs, contacts):
    """Fill in the contacts (K) of vertices and faces (K, 2)."""
    for k in range(start, stop):
        v, f = pairs[k, 0], pairs[k, 1]
        face = (surface.faces[f, 0], surface.faces[f, 1], surface.faces[f, 2])
        region, s, t, r = point_triangle(load(x, v), load(x, face[0]), load(x, face[1]), load(x, face[2]))
        contacts.weight[k], contacts.radius[k] = face_weight(surface, v, f), surface.radius[v]
        contacts.region[k], contacts.threshold[k] = INTERIOR, 0.0
        if region < 3:
            _set_points(contacts, k, v, face[region], r)
        elif region < 6:
            along = s if region == 3 else t if region == 4 else 1.0 - t
            _set_point_edge(contacts, k, v, (face[region - 3], face[(region - 2) % 3]), along, r)
        else:
            contacts.kind[k] = TRIANGLE
            contacts.points[k, 0] = v
            for i in range(3):
                contacts.points[k, 1 + i] = face[i]
            _set_vectors(contacts, k, (1.0, s + t - 1.0, -s, -t), r)


@kernel
def edge_contacts(start, stop, x, surface, pairs, ratio, contacts):
    """Fill in the contacts (K) of two edges (K, 2).

    Edges with |u x v|^2 below `ratio` times the product of their squared lengths at rest have a mollifier.
    """
    for k in range(start, stop):
        e, f = pairs[k, 0], pairs[k, 1]
        i, j, m, n = surface.edges[e, 0], surface.edges[e, 1], surface.edges[f, 0], surface.edges[f, 1]
        a0, a1, b0, b1 = load(x, i), load(x, j), load(x, m), load(x, n)
        region, s, t, r = edge_edge(a0, a1, b0, b1)
        threshold = ratio * surface.edge_squared[e] * surface.edge_squared[f]
        contacts.weight[k] = edge_weight(surface, e, f)
        contacts.radius[k] = surface.radius[i] + surface.radius[m]
        contacts.region[k], contacts.threshold[k] = INTERIOR, 0.0
        bent = cross_squared(minus(a1, a0), minus(b1, b0)) < threshold
        on_s, on_t = region // 3, region % 3
        if bent or region == INTERIOR:
            contacts.kind[k] = EDGES
            contacts.region[k], contacts.threshold[k] = region, threshold if bent else 0.0
            contacts.points[k, 0], contacts.points[k, 1] = i, j
            contacts.points[k, 2], contacts.points[k, 3] = m, n
            _set_vectors(contacts, k, (1.0 - s, s, t - 1.0, -t), r)
        elif on_s == FREE:
            _set_point_edge(contacts, k, n if on_t == 1 else m, (i, j), s, (-r[0], -r[1], -r[2]))
        elif on_t == FREE:
            _set_point_edge(contacts, k, j if on_s == 1 else i, (m, n), t, r)
        else:
            _set_points(contacts, k, j if on_s == 1 else i, n if on_t == 1 else m, r)


@kernel
def plane_contacts(start, stop, x, surface, planes, pairs, contacts):
    """Fill in the contacts (K) of vertices and planes (K, 2): those of a triangle without end."""
    for k in range(start, stop):
        v, p = pairs[k, 0], pairs[k, 1]
        a, b, c = planes[p, 0], planes[p, 1], planes[p, 2]
        s, t, r, height = point_plane(load(x, v), load(x, a), load(x, b), load(x, c))
        contacts.weight[k], contacts.radius[k] = QUARTER * surface.vertex_area[v], 0.0
        contacts.region[k], contacts.threshold[k] = INTERIOR, 0.0
        contacts.kind[k] = TRIANGLE
        contacts.points[k, 0], contacts.points[k, 1] = v, a
        contacts.points[k, 2], contacts.points[k, 3] = b, c
        # Below the plane there is no room at all.
        _set_vectors(contacts, k, (1.0, s + t - 1.0, -s, -t), r if height > 0.0 else (0.0, 0.0, 0.0))
