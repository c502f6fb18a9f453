"""Kernels of handle deformation: weights at rest, moments of the handles, and the deformation itself.

Vertices go in blocks of BLOCK, the last one padded. ``W[b, i, m]`` is the weight u of handle i on vertex
m of block b. Each vertex is measured from its heaviest handle, its head h, which has no weight there:

    dp_i = p_i - p_h,  dq_i = q_i - q_h,
    u_i = w_i / sum of w over the others,  share = share of the others in the sum of all w,
    e = sum u dp,  centroid q* = q_h + share sum u dq,  A' = sum u dq dp^T - share (sum u dq) e^T.

A' is the moment of the handles about their weighted centroids, over `share`: so it keeps all its digits,
and has a limit, where the head outweighs everything, as it does for a vertex close to a handle.

Handles with an orientation Z_i, a weighted rotation, add to it: A = factor (A' + sum u Z) + head_factor Z_h.
"""

from typing import Any, NamedTuple

import numpy as np

from ..compute import kernel
from ..procrustes.algebra import out_of_plane
from ..procrustes.rotation import BLOCK, SCRATCH, block_failed, block_rotations

__all__ = [
    "FitLimits",
    "HandlePlaces",
    "HandleWeights",
    "compute_weights",
    "deform",
    "moments",
    "pull_back_moments",
]

# Rows of BLOCK numbers in the scratch space of `_block_moments`: the head's p and q, the nine entries of
# sum u dq dp^T, and sum u dq.
HEAD_P, HEAD_Q, MOMENT, SUM = 0, 3 * BLOCK, 6 * BLOCK, 15 * BLOCK
MOMENT_SCRATCH = 18 * BLOCK


class HandleWeights(NamedTuple):
    """The influence of H handles on V vertices: all that depends on the rest shape alone."""

    p: Any
    """(H, 3), the handles at rest [m]."""
    W: Any
    """(blocks, H, BLOCK), weights u of the handles on the vertices, by block; 0 for the head."""
    heads: Any
    """(V,), the heaviest handle of each vertex."""
    share: Any
    """(V,), the share of the other handles in the sum of all weights."""
    e: Any
    """(V, 3), sum u dp [m]."""
    spread: Any
    """(V,), sum u |dp|^2 - share |e|^2 [m^2]."""
    inverse_others: Any
    """(V,), one over the sum of the weights w without the head."""
    factor: Any
    """(V,), the factor of the moments of all handles."""
    head_factor: Any
    """(V,), the factor of the orientation of the head."""
    trace: Any
    """(V,), the trace of the moment of the handles at rest [m^2]."""
    arms: Any
    """(V, 3), the vertex from the weighted centroid of the handles at rest [m]."""


class HandlePlaces(NamedTuple):
    """The handles of a pose."""

    q: Any
    """(H, 3), their positions [m], or the rates of them [m/s]."""
    Z: Any
    """(H, 9), their rotations times the second moment of their balls [m^2]; (0, 9) if none is oriented."""


class FitLimits(NamedTuple):
    """What the fit of a vertex may do."""

    low: float
    """The least scale."""
    high: float
    """The largest scale."""
    planar: bool
    """Whether the shape lies in the plane."""
    least_d: float
    """The least D / i1^3 that the fast path may answer, as in `procrustes.rotation`."""


@kernel
def _power(x, power):
    """Return x^power, at no cost for the power 1."""
    return x if power == 1.0 else x**power


@kernel
def compute_weights(start, stop, x, distance, importance, power, weights):
    """Compute w = importance / distance^(2 power) and what follows from it, for blocks start..stop.

    `distance` (H, V) is empty for Euclidean distances, which are measured from the vertices x (V, 3). The
    result goes into the fields of `weights` from `W` to `inverse_others`.
    """
    p, W, heads, share, e = weights.p, weights.W, weights.heads, weights.share, weights.e
    spread, inverse_others = weights.spread, weights.inverse_others
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
            share[v] = 0.0
            inverse_others[v] = 1.0
            e[v, 0] = e[v, 1] = e[v, 2] = spread[v] = 0.0
            if total == 0.0:  # there is no other handle
                continue
            head = importance[h] * _power(second / square[h], power) if square[h] > 0.0 else np.inf
            share[v] = total / (total + head)
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
            spread[v] = squares - share[v] * (ex * ex + ey * ey + ez * ez)


@kernel
def _block_moments(b, count, weights, q, s, A):
    """Compute A' (BLOCK rows of 9) and, from s[SUM] on, sum u dq of the vertices of block b.

    `s` is flat, MOMENT_SCRATCH numbers. One array, read before it is written, and handles two at a time:
    so the inner loop becomes vector code and is not bound by its loads and stores.
    """
    W, heads, share, e, p = weights.W, weights.heads, weights.share, weights.e, weights.p
    for m in range(count):
        h = heads[b * BLOCK + m]
        s[HEAD_P + m], s[HEAD_P + BLOCK + m], s[HEAD_P + 2 * BLOCK + m] = p[h, 0], p[h, 1], p[h, 2]
        s[HEAD_Q + m], s[HEAD_Q + BLOCK + m], s[HEAD_Q + 2 * BLOCK + m] = q[h, 0], q[h, 1], q[h, 2]
    for j in range(MOMENT, MOMENT_SCRATCH):
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
            hx, hy, hz = s[HEAD_P + m], s[HEAD_P + BLOCK + m], s[HEAD_P + 2 * BLOCK + m]
            gx, gy, gz = s[HEAD_Q + m], s[HEAD_Q + BLOCK + m], s[HEAD_Q + 2 * BLOCK + m]
            x, y, z = u * (px - hx), u * (py - hy), u * (pz - hz)
            dx, dy, dz = qx - gx, qy - gy, qz - gz
            a, c, d = w * (rx - hx), w * (ry - hy), w * (rz - hz)
            ex, ey, ez = tx - gx, ty - gy, tz - gz
            s[MOMENT + m] += dx * x + ex * a
            s[MOMENT + BLOCK + m] += dx * y + ex * c
            s[MOMENT + 2 * BLOCK + m] += dx * z + ex * d
            s[MOMENT + 3 * BLOCK + m] += dy * x + ey * a
            s[MOMENT + 4 * BLOCK + m] += dy * y + ey * c
            s[MOMENT + 5 * BLOCK + m] += dy * z + ey * d
            s[MOMENT + 6 * BLOCK + m] += dz * x + ez * a
            s[MOMENT + 7 * BLOCK + m] += dz * y + ez * c
            s[MOMENT + 8 * BLOCK + m] += dz * z + ez * d
            s[SUM + m] += u * dx + w * ex
            s[SUM + BLOCK + m] += u * dy + w * ey
            s[SUM + 2 * BLOCK + m] += u * dz + w * ez
    for m in range(count):
        v = b * BLOCK + m
        for row in range(3):
            pull = share[v] * s[SUM + row * BLOCK + m]
            for column in range(3):
                A[9 * m + 3 * row + column] = s[MOMENT + (3 * row + column) * BLOCK + m] - pull * e[v, column]


@kernel
def _add_orientations(b, count, weights, Z, A):
    """Compute A = factor (A' + sum u Z) + head_factor Z_h in place, for the vertices of block b."""
    W, heads, factor, head_factor = weights.W, weights.heads, weights.factor, weights.head_factor
    for m in range(count):
        v = b * BLOCK + m
        for j in range(9):
            total = A[9 * m + j]
            for i in range(W.shape[1]):
                total += W[b, i, m] * Z[i, j]
            A[9 * m + j] = factor[v] * total + head_factor[v] * Z[heads[v], j]


@kernel
def moments(start, stop, which, weights, now, A, shift):
    """Compute A (BLOCK rows a block, 9) and shift = q* - q_h of the vertices of blocks which[start..stop]."""
    heads, share = weights.heads, weights.share
    sums, block = np.zeros(MOMENT_SCRATCH), np.empty(9 * BLOCK)
    for k in range(start, stop):
        b = which[k]
        count = min(BLOCK, len(heads) - b * BLOCK)
        _block_moments(b, count, weights, now.q, sums, block)
        if now.Z.shape[0] > 0:
            _add_orientations(b, count, weights, now.Z, block)
        for m in range(count):
            n = k * BLOCK + m
            for j in range(9):
                A[n, j] = block[9 * m + j]
            for axis in range(3):
                shift[n, axis] = share[b * BLOCK + m] * sums[SUM + axis * BLOCK + m]


@kernel
def deform(start, stop, weights, now, limits, out, status):
    """Compute out = q* + scale R arm of the vertices of blocks start..stop; status is 1 where R is open.

    R is the rotation nearest to A, and scale = tr(R^T A) / trace, clamped to the limits.
    """
    heads, share, arms, trace = weights.heads, weights.share, weights.arms, weights.trace
    q, low, high, planar = now.q, limits.low, limits.high, limits.planar
    sums, scratch = np.zeros(MOMENT_SCRATCH), np.empty(SCRATCH)
    A, R = np.zeros(9 * BLOCK), np.empty(9 * BLOCK)
    for b in range(start, stop):
        count = min(BLOCK, out.shape[0] - b * BLOCK)
        _block_moments(b, count, weights, q, sums, A)
        if now.Z.shape[0] > 0:
            _add_orientations(b, count, weights, now.Z, A)
        if planar:
            for m in range(count):
                _keep_in_plane(A, 9 * m)
        block_rotations(A, R, scratch, limits.least_d)
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
                centroid = q[heads[v], row] + share[v] * sums[SUM + row * BLOCK + m]
                out[v, row] = R[j] * x + R[j + 1] * y + R[j + 2] * z + centroid


@kernel
def _keep_in_plane(A, k):
    """Give the moment of the plane at A[k : k + 9] the entry A_zz that keeps its rotation in the plane."""
    A[k + 8] = out_of_plane(A[k], A[k + 1], A[k + 3], A[k + 4])


@kernel
def pull_back_moments(start, stop, blocks, weights, gA, g, sums):
    """Compute gradients by the handles, sums[k] (H, 3), over parts start..stop of `blocks` blocks each.

    This is the transpose of `moments`, for the gradients gA (V, 9) by A' and g (V, 3) by the centroids:
    u (gA (dp - share e) + share g) for each handle, and the rest of g, (1 - share) (g - gA e), for the head.
    """
    W, heads, share, e, p = weights.W, weights.heads, weights.share, weights.e, weights.p
    handles = p.shape[0]
    columns, total = np.zeros((12, BLOCK)), np.empty(12)
    for part in range(start, stop):
        sums[part] = 0.0
        for b in range(part * blocks, min((part + 1) * blocks, W.shape[0])):
            count = min(BLOCK, g.shape[0] - b * BLOCK)
            columns[:] = 0.0
            for m in range(count):
                v = b * BLOCK + m
                h, others = heads[v], share[v]
                cx, cy, cz = (
                    p[h, 0] + others * e[v, 0],
                    p[h, 1] + others * e[v, 1],
                    p[h, 2] + others * e[v, 2],
                )
                for row in range(3):
                    j = 3 * row
                    for column in range(3):
                        columns[j + column, m] = gA[v, j + column]
                    columns[9 + row, m] = others * g[v, row] - (
                        gA[v, j] * cx + gA[v, j + 1] * cy + gA[v, j + 2] * cz
                    )
                    turned = gA[v, j] * e[v, 0] + gA[v, j + 1] * e[v, 1] + gA[v, j + 2] * e[v, 2]
                    sums[part, h, row] += (1.0 - others) * (g[v, row] - turned)
            for i in range(handles):
                for k in range(12):
                    total[k] = 0.0
                    for m in range(count):
                        total[k] += W[b, i, m] * columns[k, m]
                for row in range(3):
                    j = 3 * row
                    turned = total[j] * p[i, 0] + total[j + 1] * p[i, 1] + total[j + 2] * p[i, 2]
                    sums[part, i, row] += turned + total[9 + row]
