"""Impacts on a way: all pairs that would meet, with their distances as linear functions of the way.

Closest points at the moment of an impact, with the weights c and the unit normal n, say how far two
primitives are apart for any other way d of their points: l + sum of c_i n . (d_i - t p_i), where p is the way
that they meet on, t the share of it until then and l their distance there.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array
from ....compute import kernel
from .barrier import barrier
from .ccd import impact, plane_impact, thicker
from .distances import dot, edge_edge, load, minus, point_plane, point_triangle
from .pairs import QUARTER, edge_weight, face_weight

__all__ = ["Expansion", "ImpactRows", "edge_rows", "expand", "face_rows", "plane_rows"]


class ImpactRows(NamedTuple):
    """Pairs that meet on a way: K of them, as linear functions of other ways."""

    points: NDArray[np.int64]
    """(K, 4): the vertices, those of the first primitive first."""
    coefficients: Array
    """(K, 4): c, the weights of the vertices in the vector between the closest points [1]."""
    normal: Array
    """(K, 3): n, the direction of that vector [1]."""
    offset: Array
    """(K,): the distance for no way at all [m]; infinite for pairs that do not meet."""
    radius: Array
    """(K,): the radius around the primitives [m]."""
    weight: Array
    """(K,): the area that the pair stands for [m^2]."""


class Expansion(NamedTuple):
    """The barrier of K pairs to second order in their distance."""

    length: Array
    """(K,): the distance about which it is [m]."""
    slope: Array
    """(K,): the derivative there [N]."""
    stiffness: Array
    """(K,): the second derivative there [N/m]."""


@kernel
def expand(start, stop, rows, shape, gap, expansion):
    """Fill in the expansions of rows (K) about a gap [m]."""
    for k in range(start, stop):
        length = shape.thickness + rows.radius[k] + gap
        # By the distance, from the derivatives by the square of it.
        _, first, second = barrier(length * length, rows.radius[k], shape)
        expansion.length[k] = length
        expansion.slope[k] = 2.0 * length * first * rows.weight[k]
        expansion.stiffness[k] = (2.0 * first + 4.0 * length * length * second) * rows.weight[k]


@kernel
def _set_row(rows, k, points, ways, weights, r, share):
    """Set the row of a pair, given the vector r between its closest points after a share of the ways."""
    length = math.sqrt(dot(r, r))
    normal = (r[0] / length, r[1] / length, r[2] / length)
    gone = 0.0
    for i in range(4):
        gone += weights[i] * dot(normal, ways[i])
        rows.points[k, i], rows.coefficients[k, i] = points[i], weights[i]
    for a in range(3):
        rows.normal[k, a] = normal[a]
    rows.offset[k] = length - share * gone


@kernel
def _after(at, ways, share):
    """Return four points after a share of their ways."""
    return (
        (at[0][0] + share * ways[0][0], at[0][1] + share * ways[0][1], at[0][2] + share * ways[0][2]),
        (at[1][0] + share * ways[1][0], at[1][1] + share * ways[1][1], at[1][2] + share * ways[1][2]),
        (at[2][0] + share * ways[2][0], at[2][1] + share * ways[2][1], at[2][2] + share * ways[2][2]),
        (at[3][0] + share * ways[3][0], at[3][1] + share * ways[3][1], at[3][2] + share * ways[3][2]),
    )


@kernel
def _loaded(way, points):
    """Return where four points are at the start of a way, and how far they go."""
    x, y = way
    at = (load(x, points[0]), load(x, points[1]), load(x, points[2]), load(x, points[3]))
    return at, (
        minus(load(y, points[0]), at[0]),
        minus(load(y, points[1]), at[1]),
        minus(load(y, points[2]), at[2]),
        minus(load(y, points[3]), at[3]),
    )


@kernel
def face_rows(start, stop, way, surface, pairs, limits, rows):
    """Fill in the rows of vertices and faces (K, 2). `way` are the vertices (V, 3) at both ends."""
    faces = surface.faces
    for k in range(start, stop):
        v, f = pairs[k, 0], pairs[k, 1]
        points = (np.int64(v), faces[f, 0], faces[f, 1], faces[f, 2])
        at, ways = _loaded(way, points)
        share = impact(at, ways, 1, thicker(limits, surface.radius[v]), 1.0)
        rows.offset[k], rows.radius[k] = np.inf, surface.radius[v]
        rows.weight[k] = face_weight(surface, v, f)
        if share < 1.0:
            there = _after(at, ways, share)
            _, s, t, r = point_triangle(there[0], there[1], there[2], there[3])
            _set_row(rows, k, points, ways, (1.0, s + t - 1.0, -s, -t), r, share)


@kernel
def edge_rows(start, stop, way, surface, pairs, limits, rows):
    """Fill in the rows of two edges (K, 2), see `face_rows`."""
    edges = surface.edges
    for k in range(start, stop):
        e, f = pairs[k, 0], pairs[k, 1]
        points = (edges[e, 0], edges[e, 1], edges[f, 0], edges[f, 1])
        at, ways = _loaded(way, points)
        radius = surface.radius[points[0]] + surface.radius[points[2]]
        share = impact(at, ways, 2, thicker(limits, radius), 1.0)
        rows.offset[k], rows.radius[k], rows.weight[k] = np.inf, radius, edge_weight(surface, e, f)
        if share < 1.0:
            there = _after(at, ways, share)
            _, s, t, r = edge_edge(there[0], there[1], there[2], there[3])
            _set_row(rows, k, points, ways, (1.0 - s, s, t - 1.0, -t), r, share)


@kernel
def plane_rows(start, stop, way, surface, planes, pairs, limits, rows):
    """Fill in the rows of vertices and planes (K, 2), see `face_rows`."""
    for k in range(start, stop):
        v, p = pairs[k, 0], pairs[k, 1]
        points = (v, planes[p, 0], planes[p, 1], planes[p, 2])
        at, ways = _loaded(way, points)
        share = plane_impact(at, ways, limits, 1.0)
        rows.offset[k], rows.radius[k], rows.weight[k] = np.inf, 0.0, QUARTER * surface.vertex_area[v]
        if share < 1.0:
            there = _after(at, ways, share)
            s, t, r, _ = point_plane(there[0], there[1], there[2], there[3])
            _set_row(rows, k, points, ways, (1.0, s + t - 1.0, -s, -t), r, share)
