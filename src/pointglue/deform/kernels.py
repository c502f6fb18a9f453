"""Kernels of handle deformation: weights at rest, moments of the handles, and the deformation itself.

Vertices go in blocks of BLOCK, the last one padded. ``W[b, i, m]`` is the weight u of handle i on vertex
m of block b. Each vertex is measured from its heaviest handle, its head h, which has no weight there:

    dp_i = p_i - p_h,  dq_i = q_i - q_h,
    u_i = w_i / sum of w over the others,  light = share of the others in the sum of all w,
    e = sum u dp,  centroid q* = q_h + light sum u dq,  A' = sum u dq dp^T - light (sum u dq) e^T.

A' is the moment of the handles about their weighted centroids, over `light`: so it keeps all its digits,
and has a limit, where the head outweighs everything, as it does for a vertex close to a handle.
"""

import numpy as np

from ..compute import kernel
from ..procrustes.algebra import out_of_plane
from ..procrustes.rotation import BLOCK, SCRATCH, block_failed, block_rotations

__all__ = ["deform", "gather", "moments", "weigh"]


@kernel
def _power(x, power):
    """x^power, without the cost of it where there is nothing to do."""
    return x if power == 1.0 else x**power


@kernel
def weigh(start, stop, x, p, power, importance, distance, W, heads, light, e, spread, inverse_others):
    """Weights of the handles on the vertices of blocks start..stop; w = importance / distance^(2 power).

    `distance` (handles, vertices) is empty for Euclidean distances. `spread` is sum u |dp|^2 - light |e|^2,
    `inverse_others` one over the sum of w without the head.
    """
    count, handles = x.shape[0], p.shape[0]
    square = np.empty(handles)
    for b in range(start, stop):
        for m in range(min(BLOCK, count - b * BLOCK)):
            v = b * BLOCK + m
            nearest = np.inf
            for i in range(handles):
                if distance.shape[0] > 0:
                    square[i] = distance[i, v] * distance[i, v]
                else:
                    dx, dy, dz = x[v, 0] - p[i, 0], x[v, 1] - p[i, 1], x[v, 2] - p[i, 2]
                    square[i] = dx * dx + dy * dy + dz * dz
                nearest = min(nearest, square[i])
            h, largest = 0, -1.0
            for i in range(handles):
                w = importance[i] * _power(nearest / square[i], power) if square[i] > 0.0 else np.inf
                if w > largest:
                    h, largest = i, w
            second = np.inf
            for i in range(handles):
                if i != h:
                    second = min(second, square[i])
            total = 0.0
            for i in range(handles):
                u = importance[i] * _power(second / square[i], power) if i != h else 0.0
                W[b, i, m] = u
                total += u
            heads[v] = h
            light[v] = 0.0
            inverse_others[v] = 1.0
            e[v, 0] = e[v, 1] = e[v, 2] = spread[v] = 0.0
            if total == 0.0:  # there is no other handle
                continue
            head = importance[h] * _power(second / square[h], power) if square[h] > 0.0 else np.inf
            light[v] = total / (total + head)
            inverse_others[v] = _power(second, power) / total
            ex = ey = ez = squares = 0.0
            for i in range(handles):
                u = W[b, i, m] / total
                W[b, i, m] = u
                dx, dy, dz = p[i, 0] - p[h, 0], p[i, 1] - p[h, 1], p[i, 2] - p[h, 2]
                ex += u * dx
                ey += u * dy
                ez += u * dz
                squares += u * (dx * dx + dy * dy + dz * dz)
            e[v, 0], e[v, 1], e[v, 2] = ex, ey, ez
            spread[v] = squares - light[v] * (ex * ex + ey * ey + ez * ez)


@kernel
def _block_moments(b, count, W, heads, light, e, p, q, s, A):
    """A' (BLOCK rows of 9) and, in rows 15 to 17 of `s`, sum u dq of the vertices of block b.

    `s` is flat, 18 rows of BLOCK: the head's p and q, the sums of u dq dp^T and of u dq. One array, read
    before it is written, and handles two at a time: so the inner loop becomes vector code and is not
    bound by its loads and stores.
    """
    for m in range(count):
        h = heads[b * BLOCK + m]
        s[m], s[BLOCK + m], s[2 * BLOCK + m] = p[h, 0], p[h, 1], p[h, 2]
        s[3 * BLOCK + m], s[4 * BLOCK + m], s[5 * BLOCK + m] = q[h, 0], q[h, 1], q[h, 2]
    for j in range(6 * BLOCK, 18 * BLOCK):
        s[j] = 0.0
    handles = p.shape[0]
    flat = W.reshape(-1)
    for i in range(0, handles, 2):
        # An odd one out is paired with itself, at no weight.
        k = min(i + 1, handles - 1)
        more = 1.0 if k > i else 0.0
        first, second = (b * handles + i) * BLOCK, (b * handles + k) * BLOCK
        px, py, pz, qx, qy, qz = p[i, 0], p[i, 1], p[i, 2], q[i, 0], q[i, 1], q[i, 2]
        rx, ry, rz, tx, ty, tz = p[k, 0], p[k, 1], p[k, 2], q[k, 0], q[k, 1], q[k, 2]
        for m in range(BLOCK):
            u, w = flat[first + m], more * flat[second + m]
            hx, hy, hz = s[m], s[BLOCK + m], s[2 * BLOCK + m]
            gx, gy, gz = s[3 * BLOCK + m], s[4 * BLOCK + m], s[5 * BLOCK + m]
            x, y, z = u * (px - hx), u * (py - hy), u * (pz - hz)
            dx, dy, dz = qx - gx, qy - gy, qz - gz
            a, c, d = w * (rx - hx), w * (ry - hy), w * (rz - hz)
            ex, ey, ez = tx - gx, ty - gy, tz - gz
            s[6 * BLOCK + m] += dx * x + ex * a
            s[7 * BLOCK + m] += dx * y + ex * c
            s[8 * BLOCK + m] += dx * z + ex * d
            s[9 * BLOCK + m] += dy * x + ey * a
            s[10 * BLOCK + m] += dy * y + ey * c
            s[11 * BLOCK + m] += dy * z + ey * d
            s[12 * BLOCK + m] += dz * x + ez * a
            s[13 * BLOCK + m] += dz * y + ez * c
            s[14 * BLOCK + m] += dz * z + ez * d
            s[15 * BLOCK + m] += u * dx + w * ex
            s[16 * BLOCK + m] += u * dy + w * ey
            s[17 * BLOCK + m] += u * dz + w * ez
    for m in range(count):
        v = b * BLOCK + m
        for row in range(3):
            pull = light[v] * s[(15 + row) * BLOCK + m]
            for column in range(3):
                A[9 * m + 3 * row + column] = s[(6 + 3 * row + column) * BLOCK + m] - pull * e[v, column]


@kernel
def _add_orientations(b, count, W, heads, factor, own, Z, A):
    """A = factor (A' + sum u Z) + own Z_h, Z (handles, 9) the weighted rotations that handles carry."""
    for m in range(count):
        v = b * BLOCK + m
        for j in range(9):
            total = A[9 * m + j]
            for i in range(W.shape[1]):
                total += W[b, i, m] * Z[i, j]
            A[9 * m + j] = factor[v] * total + own[v] * Z[heads[v], j]


@kernel
def moments(start, stop, which, W, heads, light, e, p, q, Z, factor, own, A, shift):
    """A (BLOCK rows a block, 9) and shift = q* - q_h of the vertices of blocks which[start..stop]."""
    sums, block = np.zeros(18 * BLOCK), np.empty(9 * BLOCK)
    for k in range(start, stop):
        b = which[k]
        count = min(BLOCK, len(heads) - b * BLOCK)
        _block_moments(b, count, W, heads, light, e, p, q, sums, block)
        if Z.shape[0] > 0:
            _add_orientations(b, count, W, heads, factor, own, Z, block)
        for m in range(count):
            n = k * BLOCK + m
            for j in range(9):
                A[n, j] = block[9 * m + j]
            for axis in range(3):
                shift[n, axis] = light[b * BLOCK + m] * sums[(15 + axis) * BLOCK + m]


@kernel
def deform(
    start,
    stop,
    W,
    heads,
    light,
    e,
    p,
    q,
    Z,
    factor,
    own,
    arms,
    trace,
    low,
    high,
    planar,
    least_d,
    out,
    status,
):
    """out = q* + scale R arm for the vertices of blocks start..stop, in one pass; status 1 where R is open.

    scale = tr(R^T A) / trace, held between `low` and `high`.
    """
    sums, scratch = np.zeros(18 * BLOCK), np.empty(SCRATCH)
    A, R = np.zeros(9 * BLOCK), np.empty(9 * BLOCK)
    for b in range(start, stop):
        count = min(BLOCK, out.shape[0] - b * BLOCK)
        _block_moments(b, count, W, heads, light, e, p, q, sums, A)
        if Z.shape[0] > 0:
            _add_orientations(b, count, W, heads, factor, own, Z, A)
        if planar:
            for m in range(count):
                keep_in_plane(A, 9 * m)
        block_rotations(A, R, scratch, least_d)
        for m in range(count):
            v, k = b * BLOCK + m, 9 * m
            status[v] = block_failed(scratch, m)
            scale = 1.0
            if low < high:
                turned = 0.0
                for j in range(8 if planar else 9):
                    turned += R[k + j] * A[k + j]
                scale = min(max(turned / trace[v], low), high) if trace[v] > 0.0 else 1.0
            x, y, z = scale * arms[v, 0], scale * arms[v, 1], scale * arms[v, 2]
            for row in range(3):
                j = k + 3 * row
                centroid = q[heads[v], row] + light[v] * sums[(15 + row) * BLOCK + m]
                out[v, row] = R[j] * x + R[j + 1] * y + R[j + 2] * z + centroid


@kernel
def keep_in_plane(A, k):
    """Give the moment of the plane at A[k : k + 9] the entry that keeps its rotation in the plane."""
    A[k + 8] = out_of_plane(A[k], A[k + 1], A[k + 3], A[k + 4])


@kernel
def gather(start, stop, blocks, W, heads, light, e, p, gA, g, sums):
    """Gradients by the handles, sums[k] (handles, 3), over parts start..stop of `blocks` blocks each.

    The transpose of `moments`: u (gA (dp - light e) + light g) for each handle, and what is left of g for
    the head, (1 - light) (g - gA e).
    """
    handles = p.shape[0]
    columns, total = np.zeros((12, BLOCK)), np.empty(12)
    for part in range(start, stop):
        sums[part] = 0.0
        for b in range(part * blocks, min((part + 1) * blocks, W.shape[0])):
            count = min(BLOCK, g.shape[0] - b * BLOCK)
            columns[:] = 0.0
            for m in range(count):
                v = b * BLOCK + m
                h, share = heads[v], light[v]
                cx, cy, cz = p[h, 0] + share * e[v, 0], p[h, 1] + share * e[v, 1], p[h, 2] + share * e[v, 2]
                for row in range(3):
                    j = 3 * row
                    for column in range(3):
                        columns[j + column, m] = gA[v, j + column]
                    columns[9 + row, m] = share * g[v, row] - (
                        gA[v, j] * cx + gA[v, j + 1] * cy + gA[v, j + 2] * cz
                    )
                    turned = gA[v, j] * e[v, 0] + gA[v, j + 1] * e[v, 1] + gA[v, j + 2] * e[v, 2]
                    sums[part, h, row] += (1.0 - share) * (g[v, row] - turned)
            for i in range(handles):
                for k in range(12):
                    total[k] = 0.0
                    for m in range(count):
                        total[k] += W[b, i, m] * columns[k, m]
                for row in range(3):
                    j = 3 * row
                    turned = total[j] * p[i, 0] + total[j + 1] * p[i, 1] + total[j + 2] * p[i, 2]
                    sums[part, i, row] += turned + total[9 + row]
