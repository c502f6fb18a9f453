"""Compiled loops over points, cells and trees of boxes.

A tree of boxes is balanced and has no pointers: node k has children 2k + 1 and 2k + 2, and the leaves, the
last nodes, cover the triangles in order. All queries go through one walk, :func:`traverse`.
"""

from typing import Any, NamedTuple

import numpy as np

from ...compute import kernel

__all__ = [
    "CellGrid",
    "TreeArrays",
    "blocked",
    "closest",
    "closest_on_faces",
    "is_blocked",
    "new_stack",
    "search",
    "traverse",
]

# Number of nodes that can wait in a walk: two for each level, enough for 2^32 leaves.
DEPTH = 64
# Parameter of a segment, from 0 to 1: a hit this near to its ends does not count.
END_MARGIN = 1e-9
# Barycentric coordinate: a hit this far outside a triangle counts, so that nothing slips through a seam.
SEAM_MARGIN = 1e-12
# Parameter of a segment: how much a box is enlarged, against rounding.
BOX_MARGIN = 1e-12
# A triangle whose determinant is less than this times |u|^2 |v|^2 is a line.
FLAT = 1e-14


class TreeArrays(NamedTuple):
    """A tree of boxes around m triangles, which are in the order of its leaves."""

    faces: Any
    """(m, 3), the corners of the triangles, as rows of the vertices."""
    leaves: Any
    """(l + 1,), where the triangles of each of l leaves begin and end."""
    corners: Any
    """(m, 9), the three corners of each triangle, one after the other [m]."""
    low: Any
    """(2 l - 1, 3), the low corner of each box [m]."""
    high: Any
    """(2 l - 1, 3), the high corner of each box [m]."""


class CellGrid(NamedTuple):
    """A grid of boxes, each with the cells that touch it."""

    starts: Any
    """(boxes + 1,), where the list of each box begins in `cells`."""
    cells: Any
    """(n,), the lists, one after the other."""
    maps: Any
    """(m, rows, d + 1), the maps of `barycentric`."""
    extent: Any
    """(m,), the largest side of the box of each cell [m]."""


@kernel
def search(start, stop, points, boxes, grid, tolerance, found, weights):
    """Find the cell in whose barycentric coordinates b the smallest is largest, and at least -tolerance."""
    starts, cells, maps, extent = grid.starts, grid.cells, grid.maps, grid.extent
    d, k = points.shape[1], weights.shape[1]
    for i in range(start, stop):
        if boxes[i] < 0:
            continue
        best = -tolerance
        for entry in range(starts[boxes[i]], starts[boxes[i] + 1]):
            cell = cells[entry]
            least = np.inf
            height = 0.0
            for row in range(maps.shape[1]):
                b = maps[cell, row, d]
                for axis in range(d):
                    b += maps[cell, row, axis] * points[i, axis]
                if row >= k:
                    height = abs(b)
                elif not b >= least:  # nan, of a flat cell, is the least of all
                    least = b
            if height <= tolerance * extent[cell] and least >= best:
                best, found[i] = least, cell
        if found[i] < 0:
            continue
        total = 0.0
        for row in range(k):
            b = maps[found[i], row, d]
            for axis in range(d):
                b += maps[found[i], row, axis] * points[i, axis]
            weights[i, row] = max(b, 0.0)
            total += weights[i, row]
        for row in range(k):
            weights[i, row] /= total


@kernel
def new_stack():
    """Return the stack of a walk: nodes that wait, and their keys."""
    return np.empty(DEPTH, np.int64), np.empty(DEPTH)


@kernel
def traverse(tree, stack, query, state, key, opens, visit):
    """Walk a tree of boxes depth first, of two children the one with the smaller key first.

    Queries differ in three kernels. ``key(tree, query, node)`` is what children are ordered by, inf for
    a box to leave out. ``opens(tree, query, state, node, key)`` returns whether the walk goes into a box, and
    the state with what the box as a whole adds to it. ``visit(tree, query, state, k)`` returns the state with
    triangle k.
    The root has the key 0. The last state is returned.
    """
    nodes, keys = stack
    first_leaf = tree.leaves.shape[0] - 2
    nodes[0], keys[0] = 0, 0.0
    size = 1
    while size > 0:
        size -= 1
        node = nodes[size]
        inside, state = opens(tree, query, state, node, keys[size])
        if not inside:
            continue
        if node < first_leaf:
            left, right = 2 * node + 1, 2 * node + 2
            far, near = key(tree, query, left), key(tree, query, right)
            if far < near:
                left, right, far, near = right, left, near, far
            if far < np.inf:
                nodes[size], keys[size] = left, far
                size += 1
            if near < np.inf:
                nodes[size], keys[size] = right, near
                size += 1
            continue
        leaf = node - first_leaf
        for k in range(tree.leaves[leaf], tree.leaves[leaf + 1]):
            state = visit(tree, query, state, k)
    return state


@kernel
def closest(start, stop, points, tree, face, weights, distance):
    """Find the triangle closest to each point; boxes farther away than the best so far are passed over."""
    stack = new_stack()
    for i in range(start, stop):
        query = (points[i, 0], points[i, 1], points[i, 2])
        state = (np.inf, np.int64(-1), 0.0, 0.0, 0.0)
        best, k, u, v, w = traverse(tree, stack, query, state, _box_distance, _is_closer, _closer)
        face[i] = k
        weights[i, 0], weights[i, 1], weights[i, 2] = u, v, w
        distance[i] = np.sqrt(best)


@kernel
def _box_distance(tree, query, node):
    """Return the squared distance of a point from a box, 0 inside."""
    low, high = tree.low, tree.high
    x, y, z = query
    dx = max(low[node, 0] - x, x - high[node, 0], 0.0)
    dy = max(low[node, 1] - y, y - high[node, 1], 0.0)
    dz = max(low[node, 2] - z, z - high[node, 2], 0.0)
    return dx * dx + dy * dy + dz * dz


@kernel
def _is_closer(tree, query, state, node, key):
    """Return whether a box may hold a triangle closer than the best."""
    return key < state[0], state


@kernel
def _closer(tree, query, state, k):
    """Return the closer of triangle k and the best: squared distance, number and weights of the corners."""
    u, v, w, square = _closest_on_triangle(tree.corners, k, query)
    if square < state[0]:
        return square, np.int64(k), u, v, w
    return state


@kernel
def closest_other(start, stop, points, shells, tree, face_shells, face, distance):
    """Find the triangle closest to each point of those with another label, in sizes of the larger shell.

    `shells` and `face_shells` are the labels and the sizes of the points' and of the triangles' shells.
    """
    labels, sizes = shells
    stack = new_stack()
    for i in range(start, stop):
        query = (points[i, 0], points[i, 1], points[i, 2], labels[i], sizes[i], face_shells)
        state = (np.inf, np.int64(-1), 0.0)
        _, face[i], distance[i] = traverse(
            tree, stack, query, state, _other_box_distance, _is_closer, _closer_other
        )


@kernel
def _other_box_distance(tree, query, node):
    """Return the least squared distance, in sizes of the larger shell, of a point from a box."""
    return _box_distance(tree, query[:3], node) / query[5][2] ** 2


@kernel
def _closer_other(tree, query, state, k):
    """Return the closer of triangle k and the best: squared distance in sizes, number and distance."""
    x, y, z, label, size, (labels, sizes, _) = query
    if labels[k] == label:
        return state
    _, _, _, square = _closest_on_triangle(tree.corners, k, (x, y, z))
    ratio = square / max(size, sizes[k]) ** 2
    if ratio < state[0]:
        return ratio, np.int64(k), np.sqrt(square)
    return state


@kernel
def closest_on_faces(start, stop, points, which, corners, faces, weights, distance):
    """Find the point of triangle faces[i] closest to points[which[i]], by weights of its corners."""
    for i in range(start, stop):
        k = which[i]
        point = (points[k, 0], points[k, 1], points[k, 2])
        u, v, w, square = _closest_on_triangle(corners, faces[i], point)
        weights[i, 0], weights[i, 1], weights[i, 2] = u, v, w
        distance[i] = np.sqrt(square)


@kernel
def _closest_on_segment(a, b, point):
    """Return the share of b in the point of the segment ab closest to a point, and the squared distance."""
    (ax, ay, az), (bx, by, bz), (x, y, z) = a, b, point
    ux, uy, uz = bx - ax, by - ay, bz - az
    length = ux * ux + uy * uy + uz * uz
    t = 0.0
    if length > 0.0:
        t = min(max(((x - ax) * ux + (y - ay) * uy + (z - az) * uz) / length, 0.0), 1.0)
    dx, dy, dz = ax + t * ux - x, ay + t * uy - y, az + t * uz - z
    return t, dx * dx + dy * dy + dz * dz


@kernel
def _closest_on_triangle(corners, k, point):
    """Return the corner weights of the point of a triangle closest to a point, and the squared distance.

    It is the foot of the perpendicular where that falls inside, else the closest point of the three edges.
    """
    ax, ay, az = corners[k, 0], corners[k, 1], corners[k, 2]
    bx, by, bz = corners[k, 3], corners[k, 4], corners[k, 5]
    cx, cy, cz = corners[k, 6], corners[k, 7], corners[k, 8]
    x, y, z = point
    ux, uy, uz = bx - ax, by - ay, bz - az
    vx, vy, vz = cx - ax, cy - ay, cz - az
    px, py, pz = x - ax, y - ay, z - az
    uu, uv, vv = ux * ux + uy * uy + uz * uz, ux * vx + uy * vy + uz * vz, vx * vx + vy * vy + vz * vz
    pu, pv = px * ux + py * uy + pz * uz, px * vx + py * vy + pz * vz
    det = uu * vv - uv * uv
    if det > FLAT * uu * vv:
        s, t = (vv * pu - uv * pv) / det, (uu * pv - uv * pu) / det
        if s >= 0.0 and t >= 0.0 and s + t <= 1.0:
            dx, dy, dz = s * ux + t * vx - px, s * uy + t * vy - py, s * uz + t * vz - pz
            return 1.0 - s - t, s, t, dx * dx + dy * dy + dz * dz
    a, b, c = (ax, ay, az), (bx, by, bz), (cx, cy, cz)
    r, best = _closest_on_segment(a, b, point)
    wa, wb, wc = 1.0 - r, r, 0.0
    r, square = _closest_on_segment(b, c, point)
    if square < best:
        best, wa, wb, wc = square, 0.0, 1.0 - r, r
    r, square = _closest_on_segment(c, a, point)
    if square < best:
        best, wa, wb, wc = square, r, 0.0, 1.0 - r
    return wa, wb, wc, best


@kernel
def blocked(start, stop, origin, vertices, targets, tree, hidden):
    """Find out whether a triangle stands between the origin and each of the vertices `targets`."""
    stack = new_stack()
    ox, oy, oz = origin[0], origin[1], origin[2]
    for i in range(start, stop):
        t = targets[i]
        dx, dy, dz = vertices[t, 0] - ox, vertices[t, 1] - oy, vertices[t, 2] - oz
        hidden[i] = is_blocked(tree, stack, (ox, oy, oz), (dx, dy, dz), t)


@kernel
def is_blocked(tree, stack, origin, direction, target):
    """Return whether a triangle that `target` is no corner of stands between o and o + d."""
    query = (origin, direction, np.int64(target))
    return traverse(tree, stack, query, False, _entry, _goes_on, _blocks)


@kernel
def _goes_on(tree, query, state, node, key):
    """Return whether the walk goes on: it ends once the segment is blocked."""
    return not state, state


@kernel
def _blocks(tree, query, state, k):
    """Return whether triangle k, or one before it, blocks the segment."""
    origin, direction, target = query
    faces = tree.faces
    own = faces[k, 0] == target or faces[k, 1] == target or faces[k, 2] == target
    return state or (not own and _crosses_triangle(tree.corners, k, origin, direction))


@kernel
def _clip(low, high, o, d, first, last):
    """Return the part of a ray's [first, last] that is within a slab."""
    if d == 0.0:
        return (first, last) if low <= o <= high else (1.0, 0.0)
    a, b = (low - o) / d, (high - o) / d
    return max(first, min(a, b)), min(last, max(a, b))


@kernel
def _entry(tree, query, node):
    """Return where the segment from o to o + d enters a box, 0 to 1; inf if it does not."""
    low, high = tree.low, tree.high
    (ox, oy, oz), (dx, dy, dz), _ = query
    first, last = _clip(low[node, 0], high[node, 0], ox, dx, 0.0, 1.0)
    first, last = _clip(low[node, 1], high[node, 1], oy, dy, first, last)
    first, last = _clip(low[node, 2], high[node, 2], oz, dz, first, last)
    return first if first <= last + BOX_MARGIN else np.inf


@kernel
def _crosses_triangle(corners, k, origin, direction):
    """Return whether the segment from o to o + d goes through triangle k, not counting its ends."""
    (ox, oy, oz), (dx, dy, dz) = origin, direction
    ax, ay, az = corners[k, 0], corners[k, 1], corners[k, 2]
    ux, uy, uz = corners[k, 3] - ax, corners[k, 4] - ay, corners[k, 5] - az
    vx, vy, vz = corners[k, 6] - ax, corners[k, 7] - ay, corners[k, 8] - az
    nx, ny, nz = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    slope = nx * dx + ny * dy + nz * dz
    if slope == 0.0:
        return False  # along the triangle's own plane: it has no thickness
    sx, sy, sz = ox - ax, oy - ay, oz - az
    t = -(nx * sx + ny * sy + nz * sz) / slope
    if not END_MARGIN < t < 1.0 - END_MARGIN:
        return False
    # Coordinates of the hit in the triangle, by determinants with the direction.
    cx, cy, cz = sy * dz - sz * dy, sz * dx - sx * dz, sx * dy - sy * dx
    a = -(vx * cx + vy * cy + vz * cz) / slope
    b = (ux * cx + uy * cy + uz * cz) / slope
    return a >= -SEAM_MARGIN and b >= -SEAM_MARGIN and a + b <= 1.0 + SEAM_MARGIN
