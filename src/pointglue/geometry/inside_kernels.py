"""Compiled loops for distances inside a shape: what is seen, ways over the surface, winding numbers."""

import math
from heapq import heapify, heappop, heappush

import numpy as np

from ..compute import kernel
from .kernels import in_the_way

__all__ = ["claim", "enter", "see", "sights", "spread", "wind"]

# A way must be shorter by more than rounding to count as shorter, or the search would not end.
SHORTER = 1.0 - 1e-9
# A box this many times its own radius away acts like a single small triangle (a dipole).
FAR = 4.0
# Triangles thinner than this are crossed along their edges, which is as short: within them ways would go on
# getting shorter by next to nothing.
NEEDLE = 0.05


@kernel
def see(
    start,
    stop,
    vertices,
    component,
    candidates,
    points,
    eyes,
    owner,
    faces,
    bounds,
    corners,
    low,
    high,
    numbers,
    distances,
):
    """For each vertex the first of its candidates that see it, with their distances."""
    stack = np.empty(64, np.int64)
    for v in range(start, stop):
        x, y, z = vertices[v, 0], vertices[v, 1], vertices[v, 2]
        found = 0
        for k in range(candidates.shape[1]):
            i = candidates[v, k]
            if owner[i] != component[v]:
                continue
            ox, oy, oz = eyes[i, 0], eyes[i, 1], eyes[i, 2]
            if in_the_way(ox, oy, oz, x - ox, y - oy, z - oz, v, faces, bounds, corners, low, high, stack):
                continue
            dx, dy, dz = x - points[i, 0], y - points[i, 1], z - points[i, 2]
            numbers[v, found] = i
            distances[v, found] = math.sqrt(dx * dx + dy * dy + dz * dz)
            found += 1
            if found == numbers.shape[1]:
                break


@kernel
def claim(
    start, stop, vertices, near, point, eye, number, faces, bounds, corners, low, high, numbers, distances
):
    """Give the vertices `near` that the eye sees to the point of that number, if it is nearer than theirs."""
    stack = np.empty(64, np.int64)
    ox, oy, oz = eye[0], eye[1], eye[2]
    for k in range(start, stop):
        v = near[k]
        x, y, z = vertices[v, 0], vertices[v, 1], vertices[v, 2]
        if not in_the_way(ox, oy, oz, x - ox, y - oy, z - oz, v, faces, bounds, corners, low, high, stack):
            dx, dy, dz = x - point[0], y - point[1], z - point[2]
            _improve(numbers, distances, v, number, math.sqrt(dx * dx + dy * dy + dz * dz))


@kernel
def sights(start, stop, begin, end, faces, bounds, corners, low, high, clear):
    """Whether no triangle stands between begin[k] and end[k]."""
    stack = np.empty(64, np.int64)
    for k in range(start, stop):
        ox, oy, oz = begin[k, 0], begin[k, 1], begin[k, 2]
        dx, dy, dz = end[k, 0] - ox, end[k, 1] - oy, end[k, 2] - oz
        clear[k] = not in_the_way(ox, oy, oz, dx, dy, dz, -1, faces, bounds, corners, low, high, stack)


@kernel
def _improve(numbers, distances, v, i, d):
    """Enter point i at distance d into the ascending list of vertex v; whether that changed it."""
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
def enter(start, stop, first, corners, way, numbers, distances):
    """Enter each point into the lists of the three vertices next to it. Not for threads: lists are shared."""
    for i in range(start, stop):
        for k in range(3):
            _improve(numbers, distances, corners[i, k], first + i, way[i, k])


@kernel
def _known(numbers, distances, v, i):
    """The distance of point i in the list of vertex v, inf if it is not there."""
    for slot in range(numbers.shape[1]):
        if numbers[v, slot] == i:
            return distances[v, slot]
    return np.inf


@kernel
def _unfolded(vertices, p, q, c, dp, dq):
    """Distance of c from the source in the plane of pqc, beyond the edge pq, that is dp from p and dq from q.

    Infinite if the straight line from there does not cross the edge.
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
    if h < 0.0:
        return np.inf
    h = math.sqrt(h)
    cx = (ex * fx + ey * fy + ez * fz) / e
    cy = math.sqrt(max(fx * fx + fy * fy + fz * fz - cx * cx, 0.0))
    if cy < NEEDLE * (e + abs(cx)):
        return np.inf
    crossing = x + (cx - x) * h / (h + cy)
    if not 0.0 <= crossing <= e:
        return np.inf
    return math.hypot(cx - x, cy + h)


@kernel
def spread(_start, _stop, vertices, faces, starts, faces_of, seeds, limit, numbers, distances):
    """Carry the lists of nearest points from the vertices `seeds` over the surface, the shortest way first.

    Ways longer than `limit` are not followed. A way goes along an edge, or straight across a triangle from
    the edge on its far side.
    """
    heap = [(np.float64(0.0), 0, 0)]
    heap.pop()
    for v in seeds:
        for slot in range(numbers.shape[1]):
            if numbers[v, slot] >= 0:
                heap.append((distances[v, slot], v, int(numbers[v, slot])))  # noqa: PERF401
    heapify(heap)
    while len(heap) > 0:
        d, v, i = heappop(heap)
        if d != _known(numbers, distances, v, i):
            continue  # a shorter way has been found since, or enough points that are nearer
        for entry in range(starts[v], starts[v + 1]):
            face = faces_of[entry]
            for turn in range(3):
                c = faces[face, turn]
                if c == v:
                    continue
                other = faces[face, 3 - turn - _place(faces, face, v)]
                dx, dy, dz = (
                    vertices[c, 0] - vertices[v, 0],
                    vertices[c, 1] - vertices[v, 1],
                    vertices[c, 2] - vertices[v, 2],
                )
                way = d + math.sqrt(dx * dx + dy * dy + dz * dz)
                beside = _known(numbers, distances, other, i)
                if beside < np.inf and other != v and other != c:
                    way = min(way, _unfolded(vertices, v, other, c, d, beside))
                if way <= limit and _improve(numbers, distances, c, i, way):
                    heappush(heap, (way, c, i))


@kernel
def _place(faces, face, v):
    """Which corner of a triangle v is."""
    if faces[face, 0] == v:
        return 0
    return 1 if faces[face, 1] == v else 2


@kernel
def wind(start, stop, points, bounds, corners, centre, area, radius, winding):
    """How often the surface goes around each point: the solid angles of its triangles over that of a sphere.

    Far boxes count as dipoles: area . r / |r|^3 with r from the point to their centre.
    """
    inner = bounds.shape[0] - 2
    stack = np.empty(64, np.int64)
    for i in range(start, stop):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        total = 0.0
        stack[0] = 0
        size = 1
        while size > 0:
            size -= 1
            node = stack[size]
            rx, ry, rz = centre[node, 0] - x, centre[node, 1] - y, centre[node, 2] - z
            square = rx * rx + ry * ry + rz * rz
            if square > FAR * FAR * radius[node] * radius[node]:
                dot = area[node, 0] * rx + area[node, 1] * ry + area[node, 2] * rz
                total += dot / (square * math.sqrt(square))
                continue
            if node < inner:
                stack[size], stack[size + 1] = 2 * node + 1, 2 * node + 2
                size += 2
                continue
            for k in range(bounds[node - inner], bounds[node - inner + 1]):
                total += _solid_angle(corners, k, x, y, z)
        winding[i] = total / (4.0 * math.pi)


@kernel
def _solid_angle(corners, k, x, y, z):
    """Of triangle k seen from (x, y, z), positive from behind (van Oosterom and Strackee)."""
    ax, ay, az = corners[k, 0] - x, corners[k, 1] - y, corners[k, 2] - z
    bx, by, bz = corners[k, 3] - x, corners[k, 4] - y, corners[k, 5] - z
    cx, cy, cz = corners[k, 6] - x, corners[k, 7] - y, corners[k, 8] - z
    a = math.sqrt(ax * ax + ay * ay + az * az)
    b = math.sqrt(bx * bx + by * by + bz * bz)
    c = math.sqrt(cx * cx + cy * cy + cz * cz)
    volume = ax * (by * cz - bz * cy) + ay * (bz * cx - bx * cz) + az * (bx * cy - by * cx)
    ab, bc, ca = ax * bx + ay * by + az * bz, bx * cx + by * cy + bz * cz, cx * ax + cy * ay + cz * az
    return 2.0 * math.atan2(volume, a * b * c + ab * c + bc * a + ca * b)
