"""Compiled loops for distances inside a shape: lines of sight, Dijkstra's search, winding numbers."""

import math
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from ...compute import kernel
from .trees import is_blocked, new_stack, traverse

__all__ = [
    "Dipoles",
    "NearestLists",
    "SurfaceArrays",
    "ViewArrays",
    "Viewpoint",
    "assign_visible",
    "insert_points",
    "lines_of_sight",
    "propagate",
    "visible_candidates",
    "winding_numbers",
]

# Ratio: a path must be shorter than this times the known one, or rounding could make the search endless.
SHORTER = 1.0 - 1e-9
# Ratio of distance to radius beyond which a box acts like a single small triangle, a dipole.
DIPOLE_DISTANCE = 4.0
# Ratio of height to base: thinner triangles are crossed along their edges, which is as short. Within them
# paths would keep getting shorter by negligible amounts.
NEEDLE = 0.05
# Ratio of squares of distance and length: a source this close to an edge is on it, but for rounding.
ON_EDGE = 1e-12


class SurfaceArrays(NamedTuple):
    """A surface, with the triangles of each vertex."""

    vertices: Any
    """(n, 3) [m]."""
    component: Any
    """(n,), the component of each vertex, -1 for vertices of no face."""
    faces: Any
    """(m, 3)."""
    starts: Any
    """(n + 1,), where the triangles of each vertex begin in `faces_of`."""
    faces_of: Any
    """(3 m,), the triangles of each vertex."""


class ViewArrays(NamedTuple):
    """Points that look at a surface."""

    points: Any
    """(k, 3) [m]."""
    origins: Any
    """(k, 3), where their lines of sight begin [m]."""
    component: Any
    """(k,), the component that they belong to."""


class Viewpoint(NamedTuple):
    """One of the points that look at a surface."""

    number: int
    point: Any
    """(3,) [m]."""
    origin: Any
    """(3,), where its lines of sight begin [m]."""


class NearestLists(NamedTuple):
    """The lists of the points nearest to each vertex, in ascending order."""

    numbers: Any
    """(n, count), numbers of points, -1 where there are fewer."""
    distances: Any
    """(n, count), their distances, inf where there are fewer [m]."""


class Dipoles(NamedTuple):
    """The dipoles by which far points see the triangles in each box of a tree."""

    centre: Any
    """(nodes, 3), the centroid of their area [m]."""
    area: Any
    """(nodes, 3), the sum of their area vectors [m^2]."""
    radius: Any
    """(nodes,), how far the box reaches from the centre [m]."""


@kernel
def visible_candidates(start, stop, surface, candidates, views, tree, lists):
    """List for each vertex the first of its candidates (n, c) that see it, with their distances."""
    vertices, points, origins = surface.vertices, views.points, views.origins
    numbers, distances = lists.numbers, lists.distances
    stack = new_stack()
    for v in range(start, stop):
        x, y, z = vertices[v, 0], vertices[v, 1], vertices[v, 2]
        found = 0
        for k in range(candidates.shape[1]):
            i = candidates[v, k]
            if views.component[i] != surface.component[v]:
                continue
            ox, oy, oz = origins[i, 0], origins[i, 1], origins[i, 2]
            if is_blocked(tree, stack, (ox, oy, oz), (x - ox, y - oy, z - oz), v):
                continue
            dx, dy, dz = x - points[i, 0], y - points[i, 1], z - points[i, 2]
            numbers[v, found] = i
            distances[v, found] = math.sqrt(dx * dx + dy * dy + dz * dz)
            found += 1
            if found == numbers.shape[1]:
                break


@kernel
def assign_visible(start, stop, vertices, near, view, tree, lists):
    """Assign the vertices `near` that a viewpoint sees to it, if it is nearer than their own point."""
    stack = new_stack()
    point, origin = view.point, view.origin
    ox, oy, oz = origin[0], origin[1], origin[2]
    for k in range(start, stop):
        v = near[k]
        x, y, z = vertices[v, 0], vertices[v, 1], vertices[v, 2]
        if not is_blocked(tree, stack, (ox, oy, oz), (x - ox, y - oy, z - oz), v):
            dx, dy, dz = x - point[0], y - point[1], z - point[2]
            _insert(lists, v, view.number, math.sqrt(dx * dx + dy * dy + dz * dz))


@kernel
def lines_of_sight(start, stop, begin, end, tree, clear):
    """Find out whether no triangle stands between begin[k] and end[k]."""
    stack = new_stack()
    for k in range(start, stop):
        ox, oy, oz = begin[k, 0], begin[k, 1], begin[k, 2]
        dx, dy, dz = end[k, 0] - ox, end[k, 1] - oy, end[k, 2] - oz
        clear[k] = not is_blocked(tree, stack, (ox, oy, oz), (dx, dy, dz), -1)


@kernel
def _insert(lists, v, i, d):
    """Insert point i at distance d into the ascending list of vertex v; return whether that changed it."""
    numbers, distances = lists.numbers, lists.distances
    k = numbers.shape[1] - 1
    if not d < distances[v, k]:
        return False
    for slot in range(numbers.shape[1]):
        if numbers[v, slot] == i:
            if d >= distances[v, slot] * SHORTER:
                return False
            k = slot
            break
    while k > 0 and distances[v, k - 1] > d:
        numbers[v, k], distances[v, k] = numbers[v, k - 1], distances[v, k - 1]
        k -= 1
    numbers[v, k], distances[v, k] = i, d
    return True


@kernel
def insert_points(start, stop, first, corners, length, lists):
    """Insert points, numbered from `first`, at distances `length` (k, 3) into the lists of three vertices.

    It runs on one thread only: the lists are shared.
    """
    for i in range(start, stop):
        for k in range(3):
            _insert(lists, corners[i, k], first + i, length[i, k])


@kernel
def _listed_distance(lists, v, i):
    """Return the distance of point i in the list of vertex v, inf if it is not there."""
    for slot in range(lists.numbers.shape[1]):
        if lists.numbers[v, slot] == i:
            return lists.distances[v, slot]
    return np.inf


@kernel
def _unfolded(vertices, p, q, c, dp, dq):
    """Return the distance of c from a source beyond the edge pq that is dp from p and dq from q.

    The source lies in the plane of pqc, unfolded about the edge. The distance is infinite if the straight
    line from there does not cross the edge.
    """
    ex, ey, ez = (
        vertices[q, 0] - vertices[p, 0],
        vertices[q, 1] - vertices[p, 1],
        vertices[q, 2] - vertices[p, 2],
    )
    fx, fy, fz = (
        vertices[c, 0] - vertices[p, 0],
        vertices[c, 1] - vertices[p, 1],
        vertices[c, 2] - vertices[p, 2],
    )
    e = math.sqrt(ex * ex + ey * ey + ez * ez)
    if e == 0.0:
        return np.inf
    x = (dp * dp - dq * dq + e * e) / (2.0 * e)
    h = dp * dp - x * x
    if h < -ON_EDGE * e * e:
        return np.inf
    h = math.sqrt(max(h, 0.0))
    cx = (ex * fx + ey * fy + ez * fz) / e
    cy = math.sqrt(max(fx * fx + fy * fy + fz * fz - cx * cx, 0.0))
    if cy < NEEDLE * (e + abs(cx)):
        return np.inf
    crossing = x + (cx - x) * h / (h + cy)
    if not 0.0 <= crossing <= e:
        return np.inf
    return math.hypot(cx - x, cy + h)


@kernel
def propagate(_start, _stop, surface, seeds, limit, lists):
    """Propagate the lists of nearest points from the vertices `seeds` over the surface, as Dijkstra does.

    Paths longer than `limit` are not followed. A path goes along an edge, or straight across a triangle from
    the edge on its far side.
    """
    vertices, faces, starts, faces_of = surface.vertices, surface.faces, surface.starts, surface.faces_of
    numbers, distances = lists.numbers, lists.distances
    heap = [(np.float64(0.0), 0, 0)]
    heap.pop()
    for v in seeds:
        for slot in range(numbers.shape[1]):
            if numbers[v, slot] >= 0:
                heap.append((distances[v, slot], v, int(numbers[v, slot])))  # noqa: PERF401
    heapify(heap)
    while len(heap) > 0:
        d, v, i = heappop(heap)
        if d != _listed_distance(lists, v, i):
            continue  # a shorter path has been found since, or enough points that are nearer
        for entry in range(starts[v], starts[v + 1]):
            face = faces_of[entry]
            for turn in range(3):
                c = faces[face, turn]
                if c == v:
                    continue
                other = faces[face, 3 - turn - _corner(faces, face, v)]
                dx, dy, dz = (
                    vertices[c, 0] - vertices[v, 0],
                    vertices[c, 1] - vertices[v, 1],
                    vertices[c, 2] - vertices[v, 2],
                )
                length = d + math.sqrt(dx * dx + dy * dy + dz * dz)
                beside = _listed_distance(lists, other, i)
                if beside < np.inf and other != v and other != c:
                    length = min(length, _unfolded(vertices, v, other, c, d, beside))
                if length <= limit and _insert(lists, c, i, length):
                    heappush(heap, (length, c, i))


@kernel
def _corner(faces, face, v):
    """Return which corner of a triangle v is."""
    if faces[face, 0] == v:
        return 0
    return 1 if faces[face, 1] == v else 2


@kernel
def winding_numbers(start, stop, points, tree, dipoles, winding):
    """Compute the winding number of a surface about each point: the sum of solid angles over 4 pi.

    Far boxes count as dipoles: area . r / |r|^3 with r from the point to their centre.
    """
    stack = new_stack()
    for i in range(start, stop):
        query = (points[i, 0], points[i, 1], points[i, 2], dipoles)
        total = traverse(tree, stack, query, 0.0, _any_order, _add_dipole, _add_triangle)
        winding[i] = total / (4.0 * math.pi)


@kernel
def _any_order(tree, query, node):
    """Return the same key for all boxes."""
    return 0.0


@kernel
def _add_dipole(tree, query, total, node, key):
    """Return whether a box is near, and the sum of solid angles, with that of the box if it is far."""
    x, y, z, dipoles = query
    centre, area, radius = dipoles.centre, dipoles.area, dipoles.radius
    rx, ry, rz = centre[node, 0] - x, centre[node, 1] - y, centre[node, 2] - z
    square = rx * rx + ry * ry + rz * rz
    if square > DIPOLE_DISTANCE * DIPOLE_DISTANCE * radius[node] * radius[node]:
        dot = area[node, 0] * rx + area[node, 1] * ry + area[node, 2] * rz
        return False, total + dot / (square * math.sqrt(square))
    return True, total


@kernel
def _add_triangle(tree, query, total, k):
    """Return the sum of solid angles with that of triangle k."""
    return total + _solid_angle(tree.corners, k, query)


@kernel
def _solid_angle(corners, k, query):
    """Return the solid angle of triangle k seen from a point, positive from behind.

    This is the formula of van Oosterom and Strackee: tan(angle / 2) = a . (b x c) /
    (|a| |b| |c| + (a . b) |c| + (b . c) |a| + (c . a) |b|).
    """
    x, y, z, _ = query
    ax, ay, az = corners[k, 0] - x, corners[k, 1] - y, corners[k, 2] - z
    bx, by, bz = corners[k, 3] - x, corners[k, 4] - y, corners[k, 5] - z
    cx, cy, cz = corners[k, 6] - x, corners[k, 7] - y, corners[k, 8] - z
    a = math.sqrt(ax * ax + ay * ay + az * az)
    b = math.sqrt(bx * bx + by * by + bz * bz)
    c = math.sqrt(cx * cx + cy * cy + cz * cz)
    volume = ax * (by * cz - bz * cy) + ay * (bz * cx - bx * cz) + az * (bx * cy - by * cx)
    ab, bc, ca = ax * bx + ay * by + az * bz, bx * cx + by * cy + bz * cz, cx * ax + cy * ay + cz * az
    return 2.0 * math.atan2(volume, a * b * c + ab * c + bc * a + ca * b)
