"""Ellipsoid particles against planes, balls, capsules and boxes, each in the coordinates of the collider.

There a solid stands in one way only: a half space is y <= 0, a capsule lies along y about the origin (a ball
is one without length) and a box is centred and straight. G is the shape of a particle as in `ellipsoids`,
and A = G^-1 = M M^T: lengths |M^T u| are those in which the particle is a unit ball.
"""

from math import inf, sqrt

import numpy as np

from .....compute import kernel
from .....procrustes.algebra import product_tn
from ..shapes.ellipsoids import pair_normal, shape_matrix, support

__all__ = [
    "BOX", "CAPSULE", "PLANE", "away", "collider_displacement", "correct", "find_near_solid", "resolve_solid",
    "scaled", "to_local", "to_world", "unscaling",
]  # fmt: skip

PLANE, CAPSULE, BOX = 0, 1, 2
# In radii: nearer than this to the axis or the centre of a capsule, there is no direction away from it.
_NO_DIRECTION = 1e-30


@kernel
def find_near_solid(start, stop, solid, poses, X, P, bounds, neighbours):
    """Mark the particles that may touch the solid, on their path or up to twice their bound away.

    Paths go from X (n, 3) to P, as seen from the collider as it stands at the time.
    """
    kind, size, before, now = solid.kind, solid.size, poses.before, poses.now
    origins, near = neighbours.origins, neighbours.near
    for i in range(start, stop):
        ox, oy, oz = to_local(before, X[i, 0], X[i, 1], X[i, 2])
        x, y, z = to_local(now, P[i, 0], P[i, 1], P[i, 2])
        origins[i, 0], origins[i, 1], origins[i, 2] = ox, oy, oz
        if kind == PLANE:
            gap = y
        elif kind == CAPSULE:
            gap = sqrt(x * x + max(abs(y) - size[1], 0.0) ** 2 + z * z) - size[0]
        else:
            dx, dy, dz = max(abs(x) - size[0], 0.0), max(abs(y) - size[1], 0.0), max(abs(z) - size[2], 0.0)
            gap = sqrt(dx * dx + dy * dy + dz * dz)
        near[i] = gap < 2.0 * (bounds[i] + sqrt((x - ox) ** 2 + (y - oy) ** 2 + (z - oz) ** 2))


@kernel
def resolve_solid(start, stop, solid, now, chosen, origins, ellipsoids, contacts):
    """Move the particles `chosen` out of a solid that stands in the pose `now`."""
    kind, size = solid.kind, solid.size
    P, E, C, fixed = ellipsoids.P, ellipsoids.E, ellipsoids.shapes, ellipsoids.fixed
    G, M, T = np.empty(9), np.empty(9), np.empty(9)
    X, X0, n = np.empty(3), np.empty(3), np.empty(3)
    G2 = np.zeros(9)
    for entry in range(start, stop):
        i = chosen[entry]
        if fixed[i]:
            continue
        X[0], X[1], X[2] = to_local(now, P[i, 0], P[i, 1], P[i, 2])
        product_tn(now.rotation, E[i], T)
        shape_matrix(T, C[i], G)
        if kind == PLANE:
            n[0], n[1], n[2] = 0.0, 1.0, 0.0
            depth = sqrt(G[4]) - X[1]
        else:
            X0[0], X0[1], X0[2] = origins[i, 0], origins[i, 1], origins[i, 2]
            if kind == CAPSULE:
                depth = _out_of_capsule(X, X0, size[0], size[1], G, G2, T, n)
            else:
                depth = _out_of_box(X, X0, size, G, M, n)
        if depth > 0.0:
            nx, ny, nz = to_world(now, n[0], n[1], n[2])
            correct(i, (depth * nx, depth * ny, depth * nz), depth, (nx, ny, nz), P, contacts)


@kernel
def to_local(pose, x, y, z):
    """Return R^T (p - t): a point in the coordinates of the collider."""
    R, t = pose.rotation, pose.translation
    x, y, z = x - t[0], y - t[1], z - t[2]
    return (
        R[0] * x + R[3] * y + R[6] * z,
        R[1] * x + R[4] * y + R[7] * z,
        R[2] * x + R[5] * y + R[8] * z,
    )


@kernel
def to_world(pose, x, y, z):
    """Return R v: a direction in the coordinates of the world."""
    R = pose.rotation
    return (
        R[0] * x + R[1] * y + R[2] * z,
        R[3] * x + R[4] * y + R[5] * z,
        R[6] * x + R[7] * y + R[8] * z,
    )


@kernel
def collider_displacement(poses, x, y, z):
    """Return how far the collider has moved its point that is now at (x, y, z), since the substep began."""
    qx, qy, qz = to_local(poses.now, x, y, z)
    px, py, pz = to_world(poses.before, qx, qy, qz)
    t = poses.before.translation
    return x - px - t[0], y - py - t[1], z - pz - t[2]


@kernel
def correct(i, shift, depth, normal, P, contacts):
    """Shift particle i, and add the correction to its contact."""
    sx, sy, sz = shift
    normals, total = contacts.normals, contacts.corrections
    P[i, 0] += sx
    P[i, 1] += sy
    P[i, 2] += sz
    contacts.depths[i] += depth
    normals[i, 0], normals[i, 1], normals[i, 2] = normal
    total[i, 0] += sx
    total[i, 1] += sy
    total[i, 2] += sz


@kernel
def unscaling(G, M):
    """Compute M = L^-T, flat (9,), where G = L L^T. Its rows are the axes in lengths of the ellipsoid."""
    l00 = sqrt(G[0])
    l10, l20 = G[1] / l00, G[2] / l00
    l11 = sqrt(G[4] - l10 * l10)
    l21 = (G[5] - l10 * l20) / l11
    l22 = sqrt(G[8] - l20 * l20 - l21 * l21)
    M[0], M[4], M[8] = 1.0 / l00, 1.0 / l11, 1.0 / l22
    M[1] = -l10 / (l00 * l11)
    M[5] = -l21 / (l11 * l22)
    M[2] = (l10 * l21 - l20 * l11) / (l00 * l11 * l22)
    M[3], M[6], M[7] = 0.0, 0.0, 0.0


@kernel
def scaled(M, x, y, z):
    """Return M^T u."""
    return M[0] * x, M[1] * x + M[4] * y, M[2] * x + M[5] * y + M[8] * z


@kernel
def away(M, x, y, z):
    """Return -A u / |A u| from the scaled v = M^T u: the normal, inwards, of the ellipsoid through u."""
    ax, ay, az = M[0] * x + M[1] * y + M[2] * z, M[4] * y + M[5] * z, M[8] * z
    scale = -1.0 / sqrt(ax * ax + ay * ay + az * az)
    return scale * ax, scale * ay, scale * az


@kernel
def _out_of_capsule(X, X0, radius, half, G, G2, G1, n):
    """Return the depth of a particle in a capsule; n becomes the common normal along which it moves out.

    How far it is, in units of the distance at which the two touch, is a convex function along n, so that
    Newton's method comes down to its root from above.
    """
    if _enters_capsule(X, X0, radius, half, n):
        height = n[0] * X[0] + n[1] * X[1] + n[2] * X[2]
        top = radius + half * abs(n[1])
        return support(G, n[0], n[1], n[2]) + top - height
    x, y, z = X[0], X[1], X[2]
    side = y - min(max(y, -half), half)
    distance = sqrt(x * x + side * side + z * z)
    if distance > radius and distance - radius >= support(G, x / distance, side / distance, z / distance):
        return 0.0  # a plane across the shortest way fits between: this is most of what is near
    depth = 0.0
    for step in range(20):
        wx, wy, wz, gap, size = _capsule_gap(x, y, z, radius, half, G, G2, G1)
        if step == 0:
            if gap >= 0.0:
                break
            n[0], n[1], n[2] = wx, wy, wz
        share = -gap / (wx * n[0] + wy * n[1] + wz * n[2])
        depth += share
        if abs(share) <= 1e-12 * size:
            break
        x, y, z = X[0] + depth * n[0], X[1] + depth * n[1], X[2] + depth * n[2]
    return depth


@kernel
def _capsule_gap(x, y, z, radius, half, G, G2, G1):
    """Return the unit normal between a capsule and an ellipsoid at (x, y, z), the gap, the sum of supports.

    Over the places t on the axis, the touching distance is convex: its least is either that of the cylinder,
    a problem of the shadows along the axis, or lies at an end.
    """
    G1[:] = 0.0
    G1[0] = G1[4] = G1[8] = radius * radius
    t = min(max(y, -half), half)
    near = _NO_DIRECTION * radius
    if half > 0.0 and abs(x) + abs(z) > near:
        G2[0], G2[2], G2[4], G2[6], G2[8] = G[0], G[2], radius * radius, G[6], G[8]
        wx, wy, wz, h1, h2 = pair_normal(G1, G2, x, 0.0, z)
        # The ellipsoid touches at x - G w / h2, and the axis passes at that height, moved to the centre line.
        t = y - (x * wx + z * wz) * (G[1] * wx + G[7] * wz) / (h2 * (h1 + h2))
        if abs(t) <= half:
            return wx, 0.0, wz, x * wx + z * wz - h1 - h2, h1 + h2
        t = half if t > 0.0 else -half
    y -= t
    if abs(x) + abs(y) + abs(z) <= near:
        # On the axis or in the centre: sideways or upwards, always the same way.
        x, y, z = (1.0, 0.0, 0.0) if half > 0.0 else (0.0, 1.0, 0.0)
        size = radius + support(G, x, y, z)
        return x, y, z, -size, size
    wx, wy, wz, h1, h2 = pair_normal(G1, G, x, y, z)
    return wx, wy, wz, x * wx + y * wy + z * wz - h1 - h2, h1 + h2


@kernel
def _enters_capsule(X, X0, radius, half, n):
    """Return whether the path from X0 to X enters a capsule and has passed its axis; n where it enters.

    The distance from the axis is convex along the path: Newton's method never oversteps its first root.
    """
    dx, dy, dz = X[0] - X0[0], X[1] - X0[1], X[2] - X0[2]
    way = sqrt(dx * dx + dy * dy + dz * dz)
    s = 0.0
    for _ in range(50):
        px, py, pz = X0[0] + s * dx, X0[1] + s * dy, X0[2] + s * dz
        t = min(max(py, -half), half)
        py -= t
        distance = sqrt(px * px + py * py + pz * pz)
        gap, slope = distance - radius, px * dx + py * dy + pz * dz
        if s > 0.0 and gap <= 1e-9 * radius:
            n[0], n[1], n[2] = px / distance, py / distance, pz / distance
            return X[0] * n[0] + (X[1] - t) * n[1] + X[2] * n[2] < 0.0
        if gap <= 0.0 or gap > (1.0 - s) * way or slope >= 0.0:
            return False  # it starts inside, or cannot reach it, or goes away
        s -= gap * distance / slope
    return False


@kernel
def _out_of_box(X, X0, half, G, M, n):
    """Return the depth of a particle in a box with these half extents; n becomes the way out.

    Outside of it, the nearest point of the box in the lengths of the particle decides: u from the centre,
    k = |M^T u| < 1 for an overlap, n = -A u / |A u| and depth (1 - k) sqrt(n^T G n).
    """
    n[0] = n[1] = n[2] = 0.0
    axis = _enters_box(X, X0, half)
    if axis >= 0:
        n[axis] = 1.0 if X0[axis] > X[axis] else -1.0
        return sqrt(G[4 * axis]) + half[axis] - n[axis] * X[axis]
    inside, least = True, inf
    for a in range(3):
        depth = sqrt(G[4 * a]) + half[a] - abs(X[a])
        if depth <= 0.0:
            return 0.0  # the face lies between the two
        inside = inside and abs(X[a]) <= half[a]
        if depth < least:
            least, axis = depth, a
    if inside:
        n[axis] = 1.0 if X[axis] >= 0.0 else -1.0
        return least
    unscaling(G, M)
    best = 1.0
    for a in range(3):
        if abs(X[a]) <= half[a]:
            continue  # only faces that are seen from the centre can be the nearest
        b, c = (a + 1) % 3, (a + 2) % 3
        side = 1.0 if X[a] > 0.0 else -1.0
        u = side * half[a] - X[a]
        # Nearest point of the plane of the face.
        over_b = X[b] + G[3 * a + b] * u / G[4 * a]
        over_c = X[c] + G[3 * a + c] * u / G[4 * a]
        if abs(over_b) <= half[b] and abs(over_c) <= half[c]:
            n[0] = n[1] = n[2] = 0.0
            n[a] = side
            return sqrt(G[4 * a]) - abs(u)
        if abs(over_b) > half[b]:
            v = (half[b] if over_b > 0.0 else -half[b]) - X[b]
            best = _at_box_edge(X, half, M, (a, b), (u, v), best, n)
        if abs(over_c) > half[c]:
            v = (half[c] if over_c > 0.0 else -half[c]) - X[c]
            best = _at_box_edge(X, half, M, (a, c), (u, v), best, n)
    if best >= 1.0:
        return 0.0
    return (1.0 - sqrt(best)) * support(G, n[0], n[1], n[2])


@kernel
def _at_box_edge(X, half, M, axes, offsets, best, n):
    """Return the square of the length to the nearest point of a box edge, if it is less than `best`, or that.

    The edge is at `offsets` (u_a, u_b) from the centre along the axes (a, b); n becomes the normal there.
    """
    (a, b), (ua, ub) = axes, offsets
    c = 3 - a - b
    ex, ey, ez = M[3 * c], M[3 * c + 1], M[3 * c + 2]
    fx = M[3 * a] * ua + M[3 * b] * ub
    fy = M[3 * a + 1] * ua + M[3 * b + 1] * ub
    fz = M[3 * a + 2] * ua + M[3 * b + 2] * ub
    uc = -(ex * fx + ey * fy + ez * fz) / (ex * ex + ey * ey + ez * ez)
    uc = min(max(uc, -half[c] - X[c]), half[c] - X[c])
    vx, vy, vz = fx + uc * ex, fy + uc * ey, fz + uc * ez
    square = vx * vx + vy * vy + vz * vz
    if square >= best:
        return best
    n[0], n[1], n[2] = away(M, vx, vy, vz)
    return square


@kernel
def _enters_box(X, X0, half):
    """Return the axis of the face by which the path enters a box; -1 if it starts inside or misses it."""
    axis, first, last = -1, 0.0, 1.0
    for a in range(3):
        d = X[a] - X0[a]
        if d == 0.0:
            if abs(X0[a]) > half[a]:
                return -1
            continue
        end = half[a] if d > 0.0 else -half[a]
        enter, leave = (-end - X0[a]) / d, (end - X0[a]) / d
        if enter > first:
            axis, first = a, enter
        last = min(last, leave)
    return axis if first <= last else -1
