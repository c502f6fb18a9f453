"""Compiled loops over points and cells."""

import numpy as np

from ..compute import kernel

__all__ = ["blocked", "closest", "nearest_on", "search"]


@kernel
def search(start, stop, points, boxes, starts, cells, maps, extent, tolerance, found, weights):
    """The cell in whose barycentric coordinates b the smallest is largest, if that is at least -tolerance."""
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
def closest(start, stop, points, bounds, corners, low, high, face, weights, distance):
    """The triangle nearest to each point; boxes farther away than the best so far are passed over."""
    leaves = bounds.shape[0] - 1
    inner = leaves - 1  # nodes above the leaves
    stack = np.empty(64, np.int64)
    for i in range(start, stop):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        best = np.inf
        stack[0] = 0
        size = 1
        while size > 0:
            size -= 1
            node = stack[size]
            if _box_distance(low, high, node, x, y, z) >= best:
                continue
            if node < inner:
                # The nearer child last, so that it is looked at first.
                left, right = 2 * node + 1, 2 * node + 2
                if _box_distance(low, high, left, x, y, z) < _box_distance(low, high, right, x, y, z):
                    left, right = right, left
                stack[size], stack[size + 1] = left, right
                size += 2
                continue
            leaf = node - inner
            for k in range(bounds[leaf], bounds[leaf + 1]):
                u, v, w, square = _on_triangle(corners, k, x, y, z)
                if square < best:
                    best, face[i] = square, k
                    weights[i, 0], weights[i, 1], weights[i, 2] = u, v, w
        distance[i] = np.sqrt(best)


@kernel
def nearest_on(start, stop, points, which, corners, faces, weights, distance):
    """The point of triangle faces[i] nearest to points[which[i]], by weights of its corners."""
    for i in range(start, stop):
        k = which[i]
        u, v, w, square = _on_triangle(corners, faces[i], points[k, 0], points[k, 1], points[k, 2])
        weights[i, 0], weights[i, 1], weights[i, 2] = u, v, w
        distance[i] = np.sqrt(square)


@kernel
def _box_distance(low, high, node, x, y, z):
    """Squared distance of a point from a box, 0 inside."""
    dx = max(low[node, 0] - x, x - high[node, 0], 0.0)
    dy = max(low[node, 1] - y, y - high[node, 1], 0.0)
    dz = max(low[node, 2] - z, z - high[node, 2], 0.0)
    return dx * dx + dy * dy + dz * dz


@kernel
def _on_segment(ax, ay, az, bx, by, bz, x, y, z):
    """Share of b in the point of the segment ab nearest to (x, y, z), and the squared distance."""
    ux, uy, uz = bx - ax, by - ay, bz - az
    length = ux * ux + uy * uy + uz * uz
    t = 0.0
    if length > 0.0:
        t = min(max(((x - ax) * ux + (y - ay) * uy + (z - az) * uz) / length, 0.0), 1.0)
    dx, dy, dz = ax + t * ux - x, ay + t * uy - y, az + t * uz - z
    return t, dx * dx + dy * dy + dz * dz


@kernel
def _on_triangle(corners, k, x, y, z):
    """Weights of the corners in the point of a triangle nearest to (x, y, z), and the squared distance.

    The foot of the perpendicular where it falls inside, else the nearest point of the three edges.
    """
    ax, ay, az = corners[k, 0], corners[k, 1], corners[k, 2]
    bx, by, bz = corners[k, 3], corners[k, 4], corners[k, 5]
    cx, cy, cz = corners[k, 6], corners[k, 7], corners[k, 8]
    ux, uy, uz = bx - ax, by - ay, bz - az
    vx, vy, vz = cx - ax, cy - ay, cz - az
    px, py, pz = x - ax, y - ay, z - az
    uu, uv, vv = ux * ux + uy * uy + uz * uz, ux * vx + uy * vy + uz * vz, vx * vx + vy * vy + vz * vz
    pu, pv = px * ux + py * uy + pz * uz, px * vx + py * vy + pz * vz
    det = uu * vv - uv * uv
    if det > 1e-14 * uu * vv:
        s, t = (vv * pu - uv * pv) / det, (uu * pv - uv * pu) / det
        if s >= 0.0 and t >= 0.0 and s + t <= 1.0:
            dx, dy, dz = s * ux + t * vx - px, s * uy + t * vy - py, s * uz + t * vz - pz
            return 1.0 - s - t, s, t, dx * dx + dy * dy + dz * dz
    r, best = _on_segment(ax, ay, az, bx, by, bz, x, y, z)
    wa, wb, wc = 1.0 - r, r, 0.0
    r, square = _on_segment(bx, by, bz, cx, cy, cz, x, y, z)
    if square < best:
        best, wa, wb, wc = square, 0.0, 1.0 - r, r
    r, square = _on_segment(cx, cy, cz, ax, ay, az, x, y, z)
    if square < best:
        best, wa, wb, wc = square, r, 0.0, 1.0 - r
    return wa, wb, wc, best


# How near to its ends, in lengths of the segment, a hit does not count; and how far outside a triangle
# it still does, so that nothing is seen through the seam of two triangles.
END, SEAM = 1e-9, 1e-12


@kernel
def blocked(start, stop, eye, vertices, targets, faces, bounds, corners, low, high, hidden):
    """Whether a triangle that does not belong to the target stands between the eye and it."""
    stack = np.empty(64, np.int64)
    ox, oy, oz = eye[0], eye[1], eye[2]
    for i in range(start, stop):
        t = targets[i]
        dx, dy, dz = vertices[t, 0] - ox, vertices[t, 1] - oy, vertices[t, 2] - oz
        hidden[i] = in_the_way(ox, oy, oz, dx, dy, dz, t, faces, bounds, corners, low, high, stack)


@kernel
def in_the_way(ox, oy, oz, dx, dy, dz, target, faces, bounds, corners, low, high, stack):
    """Whether a triangle that `target` is no corner of stands between o and o + d."""
    inner = bounds.shape[0] - 2
    stack[0] = 0
    size = 1
    while size > 0:
        size -= 1
        node = stack[size]
        if node < inner:
            # The one that is entered first is looked at first: it is more likely to end the search.
            left, right = 2 * node + 1, 2 * node + 2
            near = _enters_box(low, high, left, ox, oy, oz, dx, dy, dz)
            far = _enters_box(low, high, right, ox, oy, oz, dx, dy, dz)
            if near > far:
                left, right, near, far = right, left, far, near
            if far <= 1.0:
                stack[size] = right
                size += 1
            if near <= 1.0:
                stack[size] = left
                size += 1
            continue
        for k in range(bounds[node - inner], bounds[node - inner + 1]):
            own = faces[k, 0] == target or faces[k, 1] == target or faces[k, 2] == target
            if not own and _meets_triangle(corners, k, ox, oy, oz, dx, dy, dz):
                return True
    return False


@kernel
def _overlap(low, high, o, d, first, last):
    """The part of a ray's [first, last] that is within a slab."""
    if d == 0.0:
        return (first, last) if low <= o <= high else (1.0, 0.0)
    a, b = (low - o) / d, (high - o) / d
    return max(first, min(a, b)), min(last, max(a, b))


@kernel
def _enters_box(low, high, node, ox, oy, oz, dx, dy, dz):
    """Where the segment from o to o + d enters a box, 0 to 1, with a little to spare; 2 if it does not."""
    first, last = _overlap(low[node, 0], high[node, 0], ox, dx, 0.0, 1.0)
    first, last = _overlap(low[node, 1], high[node, 1], oy, dy, first, last)
    first, last = _overlap(low[node, 2], high[node, 2], oz, dz, first, last)
    return first if first <= last + 1e-12 else 2.0


@kernel
def _meets_triangle(corners, k, ox, oy, oz, dx, dy, dz):
    """Whether the segment from o to o + d goes through triangle k, not counting its ends."""
    ax, ay, az = corners[k, 0], corners[k, 1], corners[k, 2]
    ux, uy, uz = corners[k, 3] - ax, corners[k, 4] - ay, corners[k, 5] - az
    vx, vy, vz = corners[k, 6] - ax, corners[k, 7] - ay, corners[k, 8] - az
    nx, ny, nz = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    slope = nx * dx + ny * dy + nz * dz
    if slope == 0.0:
        return False  # along the triangle's own plane: it has no thickness
    sx, sy, sz = ox - ax, oy - ay, oz - az
    t = -(nx * sx + ny * sy + nz * sz) / slope
    if not END < t < 1.0 - END:
        return False
    # Coordinates of the hit in the triangle, by determinants with the direction.
    cx, cy, cz = sy * dz - sz * dy, sz * dx - sx * dz, sx * dy - sy * dx
    a = -(vx * cx + vy * cy + vz * cz) / slope
    b = (ux * cx + uy * cy + uz * cz) / slope
    return a >= -SEAM and b >= -SEAM and a + b <= 1.0 + SEAM
