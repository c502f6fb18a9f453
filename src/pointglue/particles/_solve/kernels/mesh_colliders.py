"""Ellipsoid particles against triangle meshes, in the coordinates of the mesh.

A mesh is (corners (m, 9), normals (m, 3), features (m, 18), low, high): triangles in the order of the leaves
of a `TriangleTree`, their unit normals, for closed ones the pseudo-normals of their edges ab, bc, ca and
corners a, b, c, and the boxes of the tree. G and M are the shape of a particle as in `collider_kernels`.
"""

from math import inf, sqrt

import numpy as np

from ....compute import kernel
from ....procrustes.algebra import product_tn
from .colliders import away, into, move, scaled, turned, unscaling
from .ellipsoids import shape_matrix, support

__all__ = ["push_mesh", "survey"]

# Pushes of one particle in one call, each out of the triangle that it is deepest in.
_ROUNDS = 8
# An overlap of less than this, relatively and squared, is rounding.
_TOUCH = 1.0 - 1e-12
# How far outside of a triangle, in weights, a path still goes through it: none slips through a seam.
_SEAM = 1e-9


@kernel
def survey(start, stop, mesh, solid, before, now, P, X0, bounds, origin, asked, gap, near, inside):
    """near[i]: whether particle i may touch the mesh, on or beside its path; inside[i]: it starts inside.

    `gap` is the distance from the mesh at the place `asked`, negative inside. It changes by no more than the
    way from there, so the tree is asked again only where that does not decide.
    """
    unit = np.eye(3).reshape(9)
    stack = np.empty(64, np.int64)
    for i in range(start, stop):
        ox, oy, oz = into(before, X0[i, 0], X0[i, 1], X0[i, 2])
        x, y, z = into(now, P[i, 0], P[i, 1], P[i, 2])
        origin[i, 0], origin[i, 1], origin[i, 2] = ox, oy, oz
        far = 2.0 * (bounds[i] + sqrt((x - ox) ** 2 + (y - oy) ** 2 + (z - oz) ** 2))
        away_from = sqrt((ox - asked[i, 0]) ** 2 + (oy - asked[i, 1]) ** 2 + (oz - asked[i, 2]) ** 2)
        least = abs(gap[i]) - away_from
        if least <= far:
            square, k, wa, wb, wc = _nearest(mesh, ox, oy, oz, unit, unit, inf, stack)
            least = sqrt(square)
            gap[i] = -least if solid and _height(mesh, k, wa, wb, wc, ox, oy, oz)[0] < 0.0 else least
            asked[i, 0], asked[i, 1], asked[i, 2] = ox, oy, oz
        inside[i] = gap[i] < 0.0
        near[i] = inside[i] or least <= far


@kernel
def push_mesh(start, stop, mesh, solid, now, chosen, origin, inside, P, E, C, fixed, pushed, normals, total):
    """Move the particles `chosen` out of a mesh.

    In this order: out of a solid that it started in; back to where its path met a triangle; out of the
    triangle that it is deepest in. If that has no end, back to the start: nothing passes through.
    """
    G, M, T, unit = np.empty(9), np.empty(9), np.empty(9), np.eye(3).reshape(9)
    stack = np.empty(64, np.int64)
    for entry in range(start, stop):
        i = chosen[entry]
        if fixed[i]:
            continue
        x, y, z = into(now, P[i, 0], P[i, 1], P[i, 2])
        ox, oy, oz = origin[i, 0], origin[i, 1], origin[i, 2]
        product_tn(now, E[i], T)
        shape_matrix(T, C[i], G)
        unscaling(G, M)
        sx, sy, sz, depths = 0.0, 0.0, 0.0, 0.0
        nx, ny, nz = 0.0, 0.0, 0.0
        sunk, cleared = inside[i], False
        for turn in range(_ROUNDS + 1):
            depth = 0.0
            px, py, pz = x + sx, y + sy, z + sz
            if sunk:
                depth, wx, wy, wz = _surface(mesh, px, py, pz, G, unit, stack)
                sunk, cleared = depth > 0.0, depth == 0.0
            if depth == 0.0:
                depth, wx, wy, wz = _back(mesh, solid, ox, oy, oz, px, py, pz, G, stack)
                if depth > 0.0 and turn == _ROUNDS:
                    sx, sy, sz = ox - x, oy - y, oz - z
            if turn == _ROUNDS:
                break
            if depth == 0.0:
                depth, wx, wy, wz, sunk = _overlap(mesh, solid and not cleared, px, py, pz, G, M, stack)
                if sunk:
                    continue
            if depth == 0.0:
                break
            nx, ny, nz = wx, wy, wz
            depths += depth
            sx, sy, sz = sx + depth * nx, sy + depth * ny, sz + depth * nz
        if depths > 0.0:
            sx, sy, sz = turned(now, sx, sy, sz)
            nx, ny, nz = turned(now, nx, ny, nz)
            move(i, sx, sy, sz, depths, nx, ny, nz, P, pushed, normals, total)


@kernel
def _surface(mesh, x, y, z, G, unit, stack):
    """Depth and normal of the push that takes a particle with its centre inside out by the nearest way."""
    square, k, wa, wb, wc = _nearest(mesh, x, y, z, unit, unit, inf, stack)
    height, nx, ny, nz = _height(mesh, k, wa, wb, wc, x, y, z)
    if height >= 0.0:
        return 0.0, 0.0, 0.0, 0.0
    distance = sqrt(square)
    return distance + support(G, nx, ny, nz), nx, ny, nz


@kernel
def _height(mesh, k, wa, wb, wc, x, y, z):
    """How far outside a closed mesh a point is, by sign, and the unit direction outwards to or from its foot.

    The foot has weights w in triangle k, and the sign is that of the pseudo-normal there: of the triangle,
    the mean of two at an edge, and at a corner the mean weighted by angles.
    """
    corners, normals, features, _, _ = mesh
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
def _back(mesh, solid, ox, oy, oz, x, y, z, G, stack):
    """Depth and normal of the push back to the near side of the first triangle on the path from o."""
    k = _crossed(mesh, solid, ox, oy, oz, x, y, z, stack)
    if k < 0:
        return 0.0, 0.0, 0.0, 0.0
    corners, normals = mesh[0], mesh[1]
    nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
    height = nx * (x - corners[k, 0]) + ny * (y - corners[k, 1]) + nz * (z - corners[k, 2])
    if height > 0.0:
        nx, ny, nz = -nx, -ny, -nz
    return abs(height) + support(G, nx, ny, nz), nx, ny, nz


@kernel
def _overlap(mesh, solid, x, y, z, G, M, stack):
    """Depth and normal of the push out of the triangle that is nearest in the lengths of the particle.

    At an edge or corner the normal is that of the particle where it meets it first. The last value says
    that the centre is inside a solid.
    """
    square, k, wa, wb, wc = _nearest(mesh, x, y, z, G, M, _TOUCH, stack)
    if k < 0:
        return 0.0, 0.0, 0.0, 0.0, False
    corners, normals = mesh[0], mesh[1]
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
def _nearest(mesh, x, y, z, G, M, limit, stack):
    """The triangle with the least |M^T u|^2 below `limit`, u from (x, y, z): that, which or -1, weights."""
    corners, normals, _, low, high = mesh
    ex, ey, ez = 1.0 / sqrt(G[0]), 1.0 / sqrt(G[4]), 1.0 / sqrt(G[8])
    count, leaves = corners.shape[0], (low.shape[0] + 1) // 2
    best, face, wa, wb, wc = limit, -1, 0.0, 0.0, 0.0
    stack[0] = 0
    size = 1
    while size > 0:
        size -= 1
        node = stack[size]
        if _least(low, high, node, x, y, z, ex, ey, ez) >= best:
            continue
        if node < leaves - 1:
            # The nearer child last, so that it is looked at first.
            left, right = 2 * node + 1, 2 * node + 2
            if _least(low, high, left, x, y, z, ex, ey, ez) < _least(low, high, right, x, y, z, ex, ey, ez):
                left, right = right, left
            stack[size], stack[size + 1] = left, right
            size += 2
            continue
        leaf = node - leaves + 1
        for k in range(count * leaf // leaves, count * (leaf + 1) // leaves):
            square, a, b, c = _on_triangle(corners, normals, k, x, y, z, G, M, best)
            if square < best:
                best, face, wa, wb, wc = square, k, a, b, c
    return best, face, wa, wb, wc


@kernel
def _least(low, high, node, x, y, z, ex, ey, ez):
    """A lower bound of |M^T u|^2 in a box: a slab at distance g is at least g / sqrt(G_ii) away; 0 inside."""
    gx = max(low[node, 0] - x, x - high[node, 0], 0.0) * ex
    gy = max(low[node, 1] - y, y - high[node, 1], 0.0) * ey
    gz = max(low[node, 2] - z, z - high[node, 2], 0.0) * ez
    return max(gx, gy, gz) ** 2


@kernel
def _on_triangle(corners, normals, k, x, y, z, G, M, best):
    """The least |M^T u|^2 in triangle k, if it is below `best`, and the weights of the corners there.

    In its plane, h below the centre, that is h^2 / (n^T G n) at u = -h G n / (n^T G n). If this is outside,
    the nearest point lies on an edge that it is outside of.
    """
    ax, ay, az = corners[k, 0] - x, corners[k, 1] - y, corners[k, 2] - z
    nx, ny, nz = normals[k, 0], normals[k, 1], normals[k, 2]
    gx = G[0] * nx + G[1] * ny + G[2] * nz
    gy = G[1] * nx + G[4] * ny + G[5] * nz
    gz = G[2] * nx + G[5] * ny + G[8] * nz
    height, spread = -(nx * ax + ny * ay + nz * az), nx * gx + ny * gy + nz * gz
    if height * height >= best * spread:
        return best, 0.0, 0.0, 0.0
    bx, by, bz = corners[k, 3] - x, corners[k, 4] - y, corners[k, 5] - z
    cx, cy, cz = corners[k, 6] - x, corners[k, 7] - y, corners[k, 8] - z
    share = -height / spread
    wa, wb, wc = _weights(share * gx, share * gy, share * gz, ax, ay, az, bx, by, bz, cx, cy, cz, nx, ny, nz)
    if wa >= 0.0 and wb >= 0.0 and wc >= 0.0:
        return height * height / spread, wa, wb, wc
    ra, rb, rc = 0.0, 0.0, 0.0
    if wc < 0.0:
        square, t = _on_edge(M, ax, ay, az, bx, by, bz)
        if square < best:
            best, ra, rb, rc = square, 1.0 - t, t, 0.0
    if wa < 0.0:
        square, t = _on_edge(M, bx, by, bz, cx, cy, cz)
        if square < best:
            best, ra, rb, rc = square, 0.0, 1.0 - t, t
    if wb < 0.0:
        square, t = _on_edge(M, cx, cy, cz, ax, ay, az)
        if square < best:
            best, ra, rb, rc = square, t, 0.0, 1.0 - t
    return best, ra, rb, rc


@kernel
def _on_edge(M, ax, ay, az, bx, by, bz):
    """The least |M^T u|^2 on the edge from a to b, and the share of b in that point."""
    fx, fy, fz = scaled(M, ax, ay, az)
    ex, ey, ez = scaled(M, bx - ax, by - ay, bz - az)
    t = min(max(-(ex * fx + ey * fy + ez * fz) / (ex * ex + ey * ey + ez * ez), 0.0), 1.0)
    vx, vy, vz = fx + t * ex, fy + t * ey, fz + t * ez
    return vx * vx + vy * vy + vz * vz, t


@kernel
def _weights(x, y, z, ax, ay, az, bx, by, bz, cx, cy, cz, nx, ny, nz):
    """Weights of the corners in a point of their plane with unit normal n."""
    ux, uy, uz = bx - ax, by - ay, bz - az
    vx, vy, vz = cx - ax, cy - ay, cz - az
    px, py, pz = x - ax, y - ay, z - az
    area = nx * (uy * vz - uz * vy) + ny * (uz * vx - ux * vz) + nz * (ux * vy - uy * vx)
    wb = (nx * (py * vz - pz * vy) + ny * (pz * vx - px * vz) + nz * (px * vy - py * vx)) / area
    wc = (nx * (uy * pz - uz * py) + ny * (uz * px - ux * pz) + nz * (ux * py - uy * px)) / area
    return 1.0 - wb - wc, wb, wc


@kernel
def _crossed(mesh, solid, ox, oy, oz, x, y, z, stack):
    """The first triangle that the path from o goes through, of a solid only into it; -1 for none."""
    corners, normals, _, low, high = mesh
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
            bx, by, bz = corners[k, 3] - ox, corners[k, 4] - oy, corners[k, 5] - oz
            cx, cy, cz = corners[k, 6] - ox, corners[k, 7] - oy, corners[k, 8] - oz
            wa, wb, wc = _weights(
                t * (x - ox), t * (y - oy), t * (z - oz), ax, ay, az, bx, by, bz, cx, cy, cz, nx, ny, nz
            )
            if wa >= -_SEAM and wb >= -_SEAM and wc >= -_SEAM:
                first, face = t, k
    return face
