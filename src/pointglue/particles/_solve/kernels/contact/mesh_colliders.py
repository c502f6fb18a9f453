"""Ellipsoid particles against triangle meshes, in the coordinates of the mesh.

Meshes are `MeshArrays`. G and M are the shape of a particle as in `colliders`.

The two walks of the tree of boxes are written out here: with `geometry.kernels.trees.traverse`, and the same
results to the last bit, `resolve_mesh` took 15 % longer on a box of 12 triangles, 8 % on a sheet of 800 and
up to 3 % on thousands, and `find_near_mesh` 8 % longer on the box but 6 % less on the sheet.
"""

from math import inf, sqrt

import numpy as np

from .....compute import kernel
from .....procrustes.algebra import product_tn
from ..shapes.ellipsoids import shape_matrix, support
from .colliders import away, correct, scaled, to_local, to_world, unscaling

__all__ = ["find_near_mesh", "resolve_mesh"]

# Corrections of one particle in one call, each out of the triangle that it is deepest in.
_ROUNDS = 8
# Square of the scaled distance below which a particle overlaps a triangle: less of an overlap is rounding.
_TOUCH = 1.0 - 1e-12
# How far outside of a triangle, in weights of its corners, a path still crosses it, so that none slips
# through a seam between two.
_CROSSING_TOLERANCE = 1e-9


@kernel
def find_near_mesh(start, stop, mesh, poses, X, P, bounds, neighbours):
    """Mark the particles that may touch the mesh, on or beside their path, and those that start inside.

    Paths go from X (n, 3) to P. The distance from the mesh changes by no more than the way from where it was
    last asked for, so the tree is asked again only where that does not decide.
    """
    before, now = poses.before, poses.now
    origins, asked, gaps = neighbours.origins, neighbours.asked, neighbours.gaps
    near, inside = neighbours.near, neighbours.inside
    unit = np.eye(3).reshape(9)
    stack = np.empty(64, np.int64)
    for i in range(start, stop):
        ox, oy, oz = to_local(before, X[i, 0], X[i, 1], X[i, 2])
        x, y, z = to_local(now, P[i, 0], P[i, 1], P[i, 2])
        origins[i, 0], origins[i, 1], origins[i, 2] = ox, oy, oz
        far = 2.0 * (bounds[i] + sqrt((x - ox) ** 2 + (y - oy) ** 2 + (z - oz) ** 2))
        away_from = sqrt((ox - asked[i, 0]) ** 2 + (oy - asked[i, 1]) ** 2 + (oz - asked[i, 2]) ** 2)
        least = abs(gaps[i]) - away_from
        if least <= far:
            origin = (ox, oy, oz)
            square, k, weights = _nearest(mesh, origin, unit, unit, inf, stack)
            least = sqrt(square)
            gaps[i] = -least if mesh.closed and _height(mesh, k, weights, origin)[0] < 0.0 else least
            asked[i, 0], asked[i, 1], asked[i, 2] = ox, oy, oz
        inside[i] = gaps[i] < 0.0
        near[i] = inside[i] or least <= far


@kernel
def resolve_mesh(start, stop, mesh, now, chosen, neighbours, ellipsoids, contacts):
    """Move the particles `chosen` out of a mesh that stands in the pose `now`.

    In this order: out of a solid that it started in; back to where its path met a triangle; out of the
    triangle that it is deepest in. If that has no end, back to the start: nothing passes through.
    """
    P, E, C, fixed = ellipsoids.P, ellipsoids.E, ellipsoids.shapes, ellipsoids.fixed
    origins, inside, solid = neighbours.origins, neighbours.inside, mesh.closed
    G, M, T, unit = np.empty(9), np.empty(9), np.empty(9), np.eye(3).reshape(9)
    stack = np.empty(64, np.int64)
    for entry in range(start, stop):
        i = chosen[entry]
        if fixed[i]:
            continue
        x, y, z = to_local(now, P[i, 0], P[i, 1], P[i, 2])
        ox, oy, oz = origins[i, 0], origins[i, 1], origins[i, 2]
        product_tn(now.rotation, E[i], T)
        shape_matrix(T, C[i], G)
        unscaling(G, M)
        sx, sy, sz, depths = 0.0, 0.0, 0.0, 0.0
        nx, ny, nz = 0.0, 0.0, 0.0
        sunk, cleared = inside[i], False
        for turn in range(_ROUNDS + 1):
            depth = 0.0
            p = (x + sx, y + sy, z + sz)
            if sunk:
                depth, wx, wy, wz = _surface(mesh, p, G, unit, stack)
                sunk, cleared = depth > 0.0, depth == 0.0
            if depth == 0.0:
                depth, wx, wy, wz = _back(mesh, (ox, oy, oz), p, G, stack)
                if depth > 0.0 and turn == _ROUNDS:
                    sx, sy, sz = ox - x, oy - y, oz - z
            if turn == _ROUNDS:
                break
            if depth == 0.0:
                depth, wx, wy, wz, sunk = _overlap(mesh, solid and not cleared, p, G, M, stack)
                if sunk:
                    continue
            if depth == 0.0:
                break
            nx, ny, nz = wx, wy, wz
            depths += depth
            sx, sy, sz = sx + depth * nx, sy + depth * ny, sz + depth * nz
        if depths > 0.0:
            correct(i, to_world(now, sx, sy, sz), depths, to_world(now, nx, ny, nz), P, contacts)


@kernel
def _surface(mesh, point, G, unit, stack):
    """Return depth and normal of the correction that takes a particle inside out by the nearest way."""
    square, k, weights = _nearest(mesh, point, unit, unit, inf, stack)
    height, nx, ny, nz = _height(mesh, k, weights, point)
    if height >= 0.0:
        return 0.0, 0.0, 0.0, 0.0
    distance = sqrt(square)
    return distance + support(G, nx, ny, nz), nx, ny, nz


@kernel
def _height(mesh, k, weights, point):
    """Return how far outside a closed mesh a point is, by sign, and the unit direction outwards at its foot.

    The foot has the weights w in triangle k, and the sign is that of the pseudo-normal there: of the
    triangle, the mean of two at an edge, and at a corner the mean weighted by angles.
    """
    corners, normals, features = mesh.corners, mesh.normals, mesh.features
    x, y, z = point
    wa, wb, wc = weights
    nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
    zeros = (wa == 0.0) + (wb == 0.0) + (wc == 0.0)
    if zeros == 0:
        height = nx * (x - corners[k, 0]) + ny * (y - corners[k, 1]) + nz * (z - corners[k, 2])
        return height, nx, ny, nz
    if zeros == 1:
        column = 0 if wc == 0.0 else (3 if wa == 0.0 else 6)
    else:
        column = 9 if wa > 0.0 else (12 if wb > 0.0 else 15)
    dx = x - wa * corners[k, 0] - wb * corners[k, 3] - wc * corners[k, 6]
    dy = y - wa * corners[k, 1] - wb * corners[k, 4] - wc * corners[k, 7]
    dz = z - wa * corners[k, 2] - wb * corners[k, 5] - wc * corners[k, 8]
    height = features[k, column] * dx + features[k, column + 1] * dy + features[k, column + 2] * dz
    length = sqrt(dx * dx + dy * dy + dz * dz)
    if length > 0.0:
        length = -length if height < 0.0 else length
        nx, ny, nz = dx / length, dy / length, dz / length
    return height, nx, ny, nz


@kernel
def _back(mesh, origin, point, G, stack):
    """Return depth and normal of the correction to the near side of the first triangle on the path."""
    k = _crossed(mesh, origin, point, stack)
    if k < 0:
        return 0.0, 0.0, 0.0, 0.0
    corners, normals = mesh.corners, mesh.normals
    x, y, z = point
    nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
    height = nx * (x - corners[k, 0]) + ny * (y - corners[k, 1]) + nz * (z - corners[k, 2])
    if height > 0.0:
        nx, ny, nz = -nx, -ny, -nz
    return abs(height) + support(G, nx, ny, nz), nx, ny, nz


@kernel
def _overlap(mesh, solid, point, G, M, stack):
    """Return depth and normal of the correction out of the triangle nearest in the lengths of the particle.

    At an edge or corner the normal is that of the particle where it meets it first. The last value says
    that the centre is inside a solid.
    """
    square, k, weights = _nearest(mesh, point, G, M, _TOUCH, stack)
    if k < 0:
        return 0.0, 0.0, 0.0, 0.0, False
    corners, normals = mesh.corners, mesh.normals
    x, y, z = point
    wa, wb, wc = weights
    ax, ay, az = corners[k, 0] - x, corners[k, 1] - y, corners[k, 2] - z
    nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
    height = -(nx * ax + ny * ay + nz * az)
    if wa > 0.0 and wb > 0.0 and wc > 0.0:
        if solid and height < 0.0:
            return 0.0, 0.0, 0.0, 0.0, True
        if height < 0.0:
            nx, ny, nz = -nx, -ny, -nz
        return support(G, nx, ny, nz) - abs(height), nx, ny, nz, False
    if square > 0.0:
        bx, by, bz = corners[k, 3] - x, corners[k, 4] - y, corners[k, 5] - z
        cx, cy, cz = corners[k, 6] - x, corners[k, 7] - y, corners[k, 8] - z
        vx, vy, vz = scaled(
            M, wa * ax + wb * bx + wc * cx, wa * ay + wb * by + wc * cy, wa * az + wb * bz + wc * cz
        )
        nx, ny, nz = away(M, vx, vy, vz)
    return (1.0 - sqrt(square)) * support(G, nx, ny, nz), nx, ny, nz, False


@kernel
def _nearest(mesh, point, G, M, limit, stack):
    """Find the triangle with the least |M^T u|^2 below `limit`, u from the point.

    Return that square, which triangle or -1, and the weights of its corners in the nearest point.
    """
    scale = (1.0 / sqrt(G[0]), 1.0 / sqrt(G[4]), 1.0 / sqrt(G[8]))
    count, leaves = mesh.corners.shape[0], (mesh.low.shape[0] + 1) // 2
    best, face, wa, wb, wc = limit, -1, 0.0, 0.0, 0.0
    stack[0] = 0
    size = 1
    while size > 0:
        size -= 1
        node = stack[size]
        if _least(mesh, node, point, scale) >= best:
            continue
        if node < leaves - 1:
            # The nearer child last, so that it is looked at first.
            left, right = 2 * node + 1, 2 * node + 2
            if _least(mesh, left, point, scale) < _least(mesh, right, point, scale):
                left, right = right, left
            stack[size], stack[size + 1] = left, right
            size += 2
            continue
        leaf = node - leaves + 1
        for k in range(count * leaf // leaves, count * (leaf + 1) // leaves):
            square, a, b, c = _on_triangle(mesh, k, point, G, M, best)
            if square < best:
                best, face, wa, wb, wc = square, k, a, b, c
    return best, face, (wa, wb, wc)


@kernel
def _least(mesh, node, point, scale):
    """Return a lower bound of |M^T u|^2 in a box: a slab at distance g is at least g / sqrt(G_ii) away."""
    low, high = mesh.low, mesh.high
    x, y, z = point
    gx = max(low[node, 0] - x, x - high[node, 0], 0.0) * scale[0]
    gy = max(low[node, 1] - y, y - high[node, 1], 0.0) * scale[1]
    gz = max(low[node, 2] - z, z - high[node, 2], 0.0) * scale[2]
    return max(gx, gy, gz) ** 2


@kernel
def _on_triangle(mesh, k, point, G, M, best):
    """Return the least |M^T u|^2 in triangle k, if it is below `best`, and the weights of the corners there.

    In its plane, h below the centre, that is h^2 / (n^T G n) at u = -h G n / (n^T G n). If this is outside,
    the nearest point lies on an edge that it is outside of.
    """
    corners, normals = mesh.corners, mesh.normals
    x, y, z = point
    ax, ay, az = corners[k, 0] - x, corners[k, 1] - y, corners[k, 2] - z
    nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
    gx = G[0] * nx + G[1] * ny + G[2] * nz
    gy = G[1] * nx + G[4] * ny + G[5] * nz
    gz = G[2] * nx + G[5] * ny + G[8] * nz
    height, spread = -(nx * ax + ny * ay + nz * az), nx * gx + ny * gy + nz * gz
    if height * height >= best * spread:
        return best, 0.0, 0.0, 0.0
    a = (ax, ay, az)
    b = (corners[k, 3] - x, corners[k, 4] - y, corners[k, 5] - z)
    c = (corners[k, 6] - x, corners[k, 7] - y, corners[k, 8] - z)
    share = -height / spread
    wa, wb, wc = _weights((share * gx, share * gy, share * gz), a, b, c, (nx, ny, nz))
    if wa >= 0.0 and wb >= 0.0 and wc >= 0.0:
        return height * height / spread, wa, wb, wc
    ra, rb, rc = 0.0, 0.0, 0.0
    if wc < 0.0:
        square, t = _on_edge(M, a, b)
        if square < best:
            best, ra, rb, rc = square, 1.0 - t, t, 0.0
    if wa < 0.0:
        square, t = _on_edge(M, b, c)
        if square < best:
            best, ra, rb, rc = square, 0.0, 1.0 - t, t
    if wb < 0.0:
        square, t = _on_edge(M, c, a)
        if square < best:
            best, ra, rb, rc = square, t, 0.0, 1.0 - t
    return best, ra, rb, rc


@kernel
def _on_edge(M, a, b):
    """Return the least |M^T u|^2 on the edge from a to b, and the share of b in that point."""
    (ax, ay, az), (bx, by, bz) = a, b
    fx, fy, fz = scaled(M, ax, ay, az)
    ex, ey, ez = scaled(M, bx - ax, by - ay, bz - az)
    t = min(max(-(ex * fx + ey * fy + ez * fz) / (ex * ex + ey * ey + ez * ez), 0.0), 1.0)
    vx, vy, vz = fx + t * ex, fy + t * ey, fz + t * ez
    return vx * vx + vy * vy + vz * vz, t


@kernel
def _weights(point, a, b, c, normal):
    """Return the weights of the corners a, b, c in a point of their plane."""
    x, y, z = point
    nx, ny, nz = normal
    (ax, ay, az), (bx, by, bz), (cx, cy, cz) = a, b, c
    ux, uy, uz = bx - ax, by - ay, bz - az
    vx, vy, vz = cx - ax, cy - ay, cz - az
    px, py, pz = x - ax, y - ay, z - az
    area = nx * (uy * vz - uz * vy) + ny * (uz * vx - ux * vz) + nz * (ux * vy - uy * vx)
    wb = (nx * (py * vz - pz * vy) + ny * (pz * vx - px * vz) + nz * (px * vy - py * vx)) / area
    wc = (nx * (uy * pz - uz * py) + ny * (uz * px - ux * pz) + nz * (ux * py - uy * px)) / area
    return 1.0 - wb - wc, wb, wc


@kernel
def _crossed(mesh, origin, point, stack):
    """Return the first triangle that the path goes through, of a solid only into it; -1 for none."""
    corners, normals, low, high, solid = mesh.corners, mesh.normals, mesh.low, mesh.high, mesh.closed
    (ox, oy, oz), (x, y, z) = origin, point
    count, leaves = corners.shape[0], (low.shape[0] + 1) // 2
    first, face = inf, -1
    if ox == x and oy == y and oz == z:
        return face
    stack[0] = 0
    size = 1
    while size > 0:
        size -= 1
        node = stack[size]
        if (
            (ox < low[node, 0] and x < low[node, 0])
            or (ox > high[node, 0] and x > high[node, 0])
            or (oy < low[node, 1] and y < low[node, 1])
            or (oy > high[node, 1] and y > high[node, 1])
            or (oz < low[node, 2] and z < low[node, 2])
            or (oz > high[node, 2] and z > high[node, 2])
        ):
            continue
        if node < leaves - 1:
            stack[size], stack[size + 1] = 2 * node + 1, 2 * node + 2
            size += 2
            continue
        leaf = node - leaves + 1
        for k in range(count * leaf // leaves, count * (leaf + 1) // leaves):
            ax, ay, az = corners[k, 0] - ox, corners[k, 1] - oy, corners[k, 2] - oz
            nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
            start = -(nx * ax + ny * ay + nz * az)
            end = start + nx * (x - ox) + ny * (y - oy) + nz * (z - oz)
            if not (start > 0.0 > end or (start < 0.0 < end and not solid)):
                continue
            t = start / (start - end)
            if t >= first:
                continue
            b = (corners[k, 3] - ox, corners[k, 4] - oy, corners[k, 5] - oz)
            c = (corners[k, 6] - ox, corners[k, 7] - oy, corners[k, 8] - oz)
            on = (t * (x - ox), t * (y - oy), t * (z - oz))
            wa, wb, wc = _weights(on, (ax, ay, az), b, c, (nx, ny, nz))
            if wa >= -_CROSSING_TOLERANCE and wb >= -_CROSSING_TOLERANCE and wc >= -_CROSSING_TOLERANCE:
                first, face = t, k
    return face
