"""Compiled test of which cubes of a lattice, and which squares between them, triangles touch."""

import math

from ...compute import kernel

__all__ = ["mark_crossed"]


@kernel
def _is_separating(axis, p, q, r, half):
    """Return whether triangle p, q, r and a box of half sizes about the origin are apart along an axis."""
    (ax, ay, az), (px, py, pz), (qx, qy, qz), (rx, ry, rz), (hx, hy, hz) = axis, p, q, r, half
    a, b, c = px * ax + py * ay + pz * az, qx * ax + qy * ay + qz * az, rx * ax + ry * ay + rz * az
    reach = hx * abs(ax) + hy * abs(ay) + hz * abs(az)
    return min(a, b, c) > reach or max(a, b, c) < -reach


@kernel
def _touches(t, centre, half):
    """Return whether a triangle (9,) touches a box of a centre and half sizes: no axis separates them."""
    cx, cy, cz = centre
    px, py, pz = t[0] - cx, t[1] - cy, t[2] - cz
    qx, qy, qz = t[3] - cx, t[4] - cy, t[5] - cz
    rx, ry, rz = t[6] - cx, t[7] - cy, t[8] - cz
    p, q, r = (px, py, pz), (qx, qy, qz), (rx, ry, rz)
    for axis in range(3):
        ax, ay, az = 1.0 * (axis == 0), 1.0 * (axis == 1), 1.0 * (axis == 2)
        if _is_separating((ax, ay, az), p, q, r, half):
            return False
        for edge in range(3):
            i, j = 3 * edge, 3 * ((edge + 1) % 3)
            ex, ey, ez = t[j] - t[i], t[j + 1] - t[i + 1], t[j + 2] - t[i + 2]
            bx, by, bz = ay * ez - az * ey, az * ex - ax * ez, ax * ey - ay * ex
            if _is_separating((bx, by, bz), p, q, r, half):
                return False
    ux, uy, uz, vx, vy, vz = qx - px, qy - py, qz - pz, rx - px, ry - py, rz - pz
    nx, ny, nz = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    return not _is_separating((nx, ny, nz), p, q, r, half)


@kernel
def mark_crossed(start, stop, triangles, crossed):
    """Mark the unit cubes (i, j, k) that triangles (m, 9) touch, in crossed[i, j, k, 0].

    Their lower squares across each axis are marked in crossed[i, j, k, 1 + axis]. All threads only ever
    write True.
    """
    for m in range(start, stop):
        t = triangles[m]
        first, last = [0, 0, 0], [0, 0, 0]
        for axis in range(3):
            low, high = min(t[axis], t[3 + axis], t[6 + axis]), max(t[axis], t[3 + axis], t[6 + axis])
            most = crossed.shape[axis] - 1
            first[axis] = min(max(math.floor(low), 0), most)
            last[axis] = min(max(math.floor(high), 0), most)
        for i in range(first[0], last[0] + 1):
            for j in range(first[1], last[1] + 1):
                for k in range(first[2], last[2] + 1):
                    if not _touches(t, (i + 0.5, j + 0.5, k + 0.5), (0.5, 0.5, 0.5)):
                        continue
                    crossed[i, j, k, 0] = True
                    if _touches(t, (1.0 * i, j + 0.5, k + 0.5), (0.0, 0.5, 0.5)):
                        crossed[i, j, k, 1] = True
                    if _touches(t, (i + 0.5, 1.0 * j, k + 0.5), (0.5, 0.0, 0.5)):
                        crossed[i, j, k, 2] = True
                    if _touches(t, (i + 0.5, j + 0.5, 1.0 * k), (0.5, 0.5, 0.0)):
                        crossed[i, j, k, 3] = True
