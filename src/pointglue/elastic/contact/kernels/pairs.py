"""Squared distances of pairs of primitives, and the contacts that near pairs make."""

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
    point_triangle,
    squared_distance_edges,
    squared_distance_triangle,
)

__all__ = ["QUARTER", "SurfaceArrays", "edge_contacts", "edge_distances", "face_contacts", "face_distances"]

QUARTER = 0.25  # ratio: the share of each of the four kinds of areas that a contact stands for


class SurfaceArrays(NamedTuple):
    """Triangles and edges of V vertices, and the numbers of their contacts."""

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


@kernel
def _interval_gap(low, high, other_low, other_high):
    """Return how far two intervals are apart, or 0."""
    return max(low - other_high, other_low - high, 0.0)


@kernel
def face_distances(start, stop, x, faces, pairs, reach, out):
    """Fill in the squared distances (K,) of vertices and faces (K, 2); infinity beyond the reach."""
    for k in range(start, stop):
        v, f = pairs[k, 0], pairs[k, 1]
        i, j, m = faces[f, 0], faces[f, 1], faces[f, 2]
        gap = 0.0
        for a in range(3):
            low = min(x[i, a], x[j, a], x[m, a])
            high = max(x[i, a], x[j, a], x[m, a])
            gap += _interval_gap(low, high, x[v, a], x[v, a]) ** 2
        if gap > reach * reach:
            out[k] = np.inf
        else:
            out[k] = squared_distance_triangle(load(x, v), load(x, i), load(x, j), load(x, m))


@kernel
def edge_distances(start, stop, x, edges, pairs, reach, out):
    """Fill in the squared distances (K,) of two edges (K, 2); infinity beyond the reach."""
    for k in range(start, stop):
        e, f = pairs[k, 0], pairs[k, 1]
        i, j, m, n = edges[e, 0], edges[e, 1], edges[f, 0], edges[f, 1]
        gap = 0.0
        for a in range(3):
            low, high = min(x[i, a], x[j, a]), max(x[i, a], x[j, a])
            gap += _interval_gap(low, high, min(x[m, a], x[n, a]), max(x[m, a], x[n, a])) ** 2
        if gap > reach * reach:
            out[k] = np.inf
        else:
            out[k] = squared_distance_edges(load(x, i), load(x, j), load(x, m), load(x, n))


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
        contacts.weight[k] = QUARTER * surface.vertex_area[v]
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
        contacts.weight[k] = QUARTER * (surface.edge_area[e] + surface.edge_area[f])
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
