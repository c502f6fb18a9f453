"""Kernels of the shape matching energy. Cluster k has the entries ``offsets[k]`` to ``offsets[k + 1]``.

Entry r is point ``indices[r]`` with rest offset v_r, share w_r of the cluster's mass and stiffness k_r. With
the centroid t and the rotation R of the cluster, orthonormal rest coordinates q_r (linear or quadratic) and
the offset u_r of the goal, in the frame of the rest shape,

    d_r = x_r - t - g A q_r - R u_r,    A = sum_r w_r (x_r - t) q_r^T,    V = 1/2 sum_r k_r |d_r|^2.

The energy has u = (1 - g) v; the damping of a step has that plus the strains R^T d that it begins with.
R is the fit of the offsets v in both.

All but R is linear in x: d = L x - R u with the constant matrix L = 1 - Phi Psi^T over the entries,
Phi = [1, q], Psi = w [1, g q]. Every second derivative below is a multiple of N = L^T K L, plus a part of
low rank (explanation/derivations): R depends on x through a_r = w_r v_r alone, and meets b = L^T K u. With a
basis Z of the columns of a and b, at most six,

    block (i, l) = N_il I - sum_pq Z_ip D_pq Z_lq,    a = Z alpha,    b = Z beta,

so that the work per pair of points is that of a product, and D (its "core") is that of a cluster of six
points. Z is orthonormal in the sense Z^T N^+ Z = I: the block is positive semidefinite exactly if no
eigenvalue of D exceeds one. For g = 1 the columns of a are outside of what N spans; with Z_a those of Z and
Z^T (N + Z_a Z_a^T)^+ Z = I the same holds for the eigenvalues of D plus one on the diagonal of Z_a.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array
from ....compute import kernel
from ....compute.simd import load, splat, store
from ....procrustes.algebra import (
    product,
    product_nt,
    rotation_derivative,
    rotation_second_derivative,
    times_cross,
)
from ....procrustes.kernels import moment_rate
from ...linalg.kernels.blocks import psd_part

# ratio of the size of a column: what is less is its rounding
SPANNED = 1e-13


class Clusters(NamedTuple):
    """The clusters at rest: K of them, with E entries in all."""

    offsets: NDArray[np.int64]
    """(K + 1,)."""
    indices: NDArray[np.int64]
    """(E,): the point of each entry."""
    v: Array
    """(E, 3): rest offset from the centroid [m]."""
    w: Array
    """(E,): share of the cluster's mass."""
    stiffness: Array
    """(E,): stiffness [N/m]."""
    q: Array
    """(E, m): orthonormal rest coordinates, none for blend 0."""
    blend: float
    """g, 0 to 1."""
    u: Array
    """(E, 3): offset of the goal from the centroid, less that of the linear map, in the frame of v [m]."""


class Goals(NamedTuple):
    """Where the clusters are, or the rates of it."""

    t: Array
    """(K, 3): centroids [m]."""
    R: Array
    """(K, 9): rotations."""


class Reduced(NamedTuple):
    """Constants of the second derivatives in the letters above: those of clusters of r <= 6 points."""

    dimension: int
    """d, 2 or 3."""
    inside: Array
    """(r,): 1 for the columns of Z that N spans, 0 for others."""
    Z: Array
    """(E, r)."""
    alpha: Array
    """(K, r, 3)."""
    beta: Array
    """(K, r, 3)."""
    psi: Array
    """(E, 1 + m): the columns Psi."""
    chi: Array
    """(E, 1 + m): N without its diagonal is -(chi psi^T + psi chi^T)."""
    second_moments: Array
    """(K, 9): sum k u u^T [N m]."""
    cluster_of: NDArray[np.int64]
    """(E,): the cluster of each entry."""
    offsets: NDArray[np.int64]
    """(K + 1,): as in `Clusters`."""
    starts: NDArray[np.int64]
    """(K + 1,): where the matrix of each cluster begins, among the numbers of all."""


@kernel
def grams(start, stop, offsets, weights, a, b, out):
    """out[k] = sum of weights a b^T over the entries of cluster k."""
    for k in range(start, stop):
        out[k] = 0.0
        for e in range(offsets[k], offsets[k + 1]):
            for i in range(a.shape[1]):
                scaled = weights[e] * a[e, i]
                for j in range(b.shape[1]):
                    out[k, i, j] += scaled * b[e, j]


@kernel
def _linear_map(x, clusters, k, t, A):
    """A = sum w (x - t) q^T of cluster k."""
    indices, w, q = clusters.indices, clusters.w, clusters.q
    tx, ty, tz = t[0], t[1], t[2]
    A[:] = 0.0
    for e in range(clusters.offsets[k], clusters.offsets[k + 1]):
        i = indices[e]
        y0, y1, y2 = w[e] * (x[i, 0] - tx), w[e] * (x[i, 1] - ty), w[e] * (x[i, 2] - tz)
        for j in range(q.shape[1]):
            A[0, j] += y0 * q[e, j]
            A[1, j] += y1 * q[e, j]
            A[2, j] += y2 * q[e, j]


@kernel
def _residual(x, clusters, e, t, R, A):
    """d of entry e, given t, R and A of its cluster."""
    i, u, q, blend = clusters.indices[e], clusters.u, clusters.q, clusters.blend
    ux, uy, uz = u[e, 0], u[e, 1], u[e, 2]
    dx = x[i, 0] - t[0] - (R[0] * ux + R[1] * uy + R[2] * uz)
    dy = x[i, 1] - t[1] - (R[3] * ux + R[4] * uy + R[5] * uz)
    dz = x[i, 2] - t[2] - (R[6] * ux + R[7] * uy + R[8] * uz)
    for j in range(q.shape[1]):
        s = blend * q[e, j]
        dx -= A[0, j] * s
        dy -= A[1, j] * s
        dz -= A[2, j] * s
    return dx, dy, dz


@kernel
def values(start, stop, x, clusters, goals, out):
    """V of each cluster."""
    offsets, stiffness, t, R = clusters.offsets, clusters.stiffness, goals.t, goals.R
    A = np.empty((3, clusters.q.shape[1]))
    for k in range(start, stop):
        _linear_map(x, clusters, k, t[k], A)
        total = 0.0
        for e in range(offsets[k], offsets[k + 1]):
            dx, dy, dz = _residual(x, clusters, e, t[k], R[k], A)
            total += stiffness[e] * (dx * dx + dy * dy + dz * dz)
        out[k] = 0.5 * total


@kernel
def strains(start, stop, x, clusters, goals, out):
    """R^T d of each entry (E, 3): the residual in the frame of the rest shape."""
    offsets, t, R = clusters.offsets, goals.t, goals.R
    A = np.empty((3, clusters.q.shape[1]))
    for k in range(start, stop):
        _linear_map(x, clusters, k, t[k], A)
        for e in range(offsets[k], offsets[k + 1]):
            dx, dy, dz = _residual(x, clusters, e, t[k], R[k], A)
            for j in range(3):
                out[e, j] = R[k, j] * dx + R[k, 3 + j] * dy + R[k, 6 + j] * dz


@kernel
def moments(start, stop, x, clusters, goals, P):
    """P = sum k d u^T of each cluster, flat."""
    offsets, u, stiffness, t, R = clusters.offsets, clusters.u, clusters.stiffness, goals.t, goals.R
    A = np.empty((3, clusters.q.shape[1]))
    for k in range(start, stop):
        _linear_map(x, clusters, k, t[k], A)
        P[k] = 0.0
        for e in range(offsets[k], offsets[k + 1]):
            dx, dy, dz = _residual(x, clusters, e, t[k], R[k], A)
            for j in range(3):
                s = stiffness[e] * u[e, j]
                P[k, j] += dx * s
                P[k, 3 + j] += dy * s
                P[k, 6 + j] += dz * s


@kernel
def gradients(start, stop, x, clusters, goals, R, G, out):
    """(dd/dx)^T K d of each entry, d with t and R of `goals`: those of the clusters, or their rates.

    L^T K d - DR[P] a, with L^T K d = k d - w (sum k d) - g w (sum k d q^T) q and P = sum k d u^T.
    """
    v, u, w, stiffness = clusters.v, clusters.u, clusters.w, clusters.stiffness
    q, blend = clusters.q, clusters.blend
    m, d = q.shape[1], out.shape[1]
    A, F, P, rotated, work = np.empty((3, m)), np.empty((3, m)), np.empty(9), np.empty(9), np.empty(9)
    mean = np.empty(3)
    for k in range(start, stop):
        first, last = clusters.offsets[k], clusters.offsets[k + 1]
        forces = np.empty((last - first, 3))
        _linear_map(x, clusters, k, goals.t[k], A)
        F[:] = 0.0
        P[:] = 0.0
        fx = fy = fz = 0.0
        for e in range(first, last):
            dx, dy, dz = _residual(x, clusters, e, goals.t[k], goals.R[k], A)
            dx, dy, dz = stiffness[e] * dx, stiffness[e] * dy, stiffness[e] * dz
            fx, fy, fz = fx + dx, fy + dy, fz + dz
            for j in range(3):
                P[j] += dx * u[e, j]
                P[3 + j] += dy * u[e, j]
                P[6 + j] += dz * u[e, j]
            for j in range(m):
                F[0, j] += dx * q[e, j]
                F[1, j] += dy * q[e, j]
                F[2, j] += dz * q[e, j]
            forces[e - first, 0], forces[e - first, 1], forces[e - first, 2] = dx, dy, dz
        rotation_derivative(R[k], G[k], P, rotated, work)
        for e in range(first, last):
            mean[0], mean[1], mean[2] = fx, fy, fz
            for row in range(3):
                for j in range(3):
                    mean[row] += rotated[3 * row + j] * v[e, j]
                for j in range(m):
                    mean[row] += blend * F[row, j] * q[e, j]
            for row in range(d):
                out[e, row] = forces[e - first, row] - w[e] * mean[row]


@kernel
def add_goal_moments(start, stop, R, reduced, P):
    """Add R sum k u u^T to P: the moment of the goal positions, all flat."""
    second_moments = reduced.second_moments
    work = np.empty(9)
    for k in range(start, stop):
        product(R[k], second_moments[k], work)
        for j in range(9):
            P[k, j] += work[j]


@kernel
def _world_frame(k, R, G, reduced, Gw, u, p, work):
    """G and the columns of alpha and beta of cluster k in the world frame: Gw, u and p."""
    alpha, beta = reduced.alpha, reduced.beta
    product(R[k], G[k], work)
    product_nt(work, R[k], Gw)
    for c in range(len(u)):
        for row in range(3):
            r0, r1, r2 = R[k, 3 * row], R[k, 3 * row + 1], R[k, 3 * row + 2]
            u[c, row] = r0 * alpha[k, c, 0] + r1 * alpha[k, c, 1] + r2 * alpha[k, c, 2]
            p[c, row] = r0 * beta[k, c, 0] + r1 * beta[k, c, 1] + r2 * beta[k, c, 2]


@kernel
def _crosses(X, u, out):
    """out = -[u]x X for a symmetric X: the transpose of X [u]x."""
    times_cross(X, u[0], u[1], u[2], out)
    out[1], out[2], out[3], out[5], out[6], out[7] = out[3], out[6], out[1], out[7], out[2], out[5]


@kernel
def cores(start, stop, R, G, reduced, curvature, D):
    """D of the exact Hessian: -[p_i]x G [u_j]x - [u_i]x G [p_j]x + curvature_ij.

    u = R alpha, p = R beta; `curvature` is the Hessian of <P, R> for points with a = alpha.
    """
    dimension, r = reduced.dimension, reduced.alpha.shape[1]
    Gw, X, Y, block, work = np.empty(9), np.empty(9), np.empty(9), np.empty(9), np.empty(9)
    u, p = np.empty((r, 3)), np.empty((r, 3))
    for k in range(start, stop):
        _world_frame(k, R, G, reduced, Gw, u, p, work)
        for i in range(r):
            _crosses(Gw, p[i], X)
            _crosses(Gw, u[i], Y)
            for j in range(i, r):
                times_cross(X, u[j, 0], u[j, 1], u[j, 2], block)
                times_cross(Y, p[j, 0], p[j, 1], p[j, 2], work)
                for row in range(dimension):
                    for column in range(dimension):
                        at = 3 * row + column
                        value = block[at] + work[at] + curvature[k, i * r + j, at]
                        D[k, dimension * i + row, dimension * j + column] = value
                        D[k, dimension * j + column, dimension * i + row] = value


@kernel
def gauss_newton_cores(start, stop, R, G, reduced, D):
    """D of (dd/dx)^T K (dd/dx): -[p_i]x G [u_j]x - [u_i]x G [p_j]x + [u_i]x G E G [u_j]x.

    E = tr(M) I - M with M = sum k u u^T, rotated into the world frame.
    """
    dimension, second_moments, r = reduced.dimension, reduced.second_moments, reduced.alpha.shape[1]
    Gw, F, X, Y, block, work = np.empty(9), np.empty(9), np.empty(9), np.empty(9), np.empty(9), np.empty(9)
    u, p = np.empty((r, 3)), np.empty((r, 3))
    for k in range(start, stop):
        M = second_moments[k]
        trace = M[0] + M[4] + M[8]
        for j in range(9):
            X[j] = (trace if j % 4 == 0 else 0.0) - M[j]
        product(G[k], X, work)
        product(work, G[k], X)
        product(R[k], X, work)
        product_nt(work, R[k], F)
        _world_frame(k, R, G, reduced, Gw, u, p, work)
        for i in range(r):
            _crosses(F, u[i], Y)
            _crosses(Gw, p[i], X)
            for j in range(9):
                X[j] -= Y[j]
            _crosses(Gw, u[i], Y)
            for j in range(i, r):
                times_cross(X, u[j, 0], u[j, 1], u[j, 2], block)
                times_cross(Y, p[j, 0], p[j, 1], p[j, 2], work)
                for row in range(dimension):
                    for column in range(dimension):
                        at = 3 * row + column
                        value = block[at] + work[at]
                        D[k, dimension * i + row, dimension * j + column] = value
                        D[k, dimension * j + column, dimension * i + row] = value


@kernel
def rate_cores(start, stop, rest, rates, rotations, reduced, curvature, D):
    """D of the derivative of the damping force by x over the damping alpha; not symmetric.

    Column s of block (i, j) is curvature_ij + X beta_i - DR[X M] alpha_i with
    X = D2R[rates, e_s alpha_j^T]. `rest` are RestArrays, `rotations` are RotationArrays.
    """
    R, S, G = rotations.R, rotations.S, rotations.G
    dimension, second_moments = reduced.dimension, reduced.second_moments
    alpha, beta = reduced.alpha, reduced.beta
    r = alpha.shape[1]
    dA, step, X, Y, work, long = (
        np.empty(12),
        np.empty(9),
        np.empty(9),
        np.empty(9),
        np.empty(9),
        np.empty(27),
    )
    rotated = np.empty(9)
    for k in range(start, stop):
        moment_rate(rates, 0, k, rest, dA)
        for j in range(r):
            for s in range(dimension):
                step[:] = 0.0
                for c in range(3):
                    step[3 * s + c] = alpha[k, j, c]
                rotation_second_derivative(R[k], S[k], G[k], dA, step, X, long)
                product(X, second_moments[k], Y)
                rotation_derivative(R[k], G[k], Y, rotated, work)
                for i in range(r):
                    for row in range(dimension):
                        value = curvature[k, i * r + j, 3 * row + s]
                        for c in range(3):
                            value += X[3 * row + c] * beta[k, i, c] - rotated[3 * row + c] * alpha[k, i, c]
                        D[k, dimension * i + row, dimension * j + s] = value


@kernel
def project(start, stop, reduced, D):
    """Clamp the eigenvalues of D to one from above, those of columns outside of N to zero."""
    n, d, inside = D.shape[1], reduced.dimension, reduced.inside
    M, work, V = np.empty((n, n)), np.empty((n + 4, n)), np.empty((n, n))
    for k in range(start, stop):
        for i in range(n):
            for j in range(n):
                M[i, j] = (inside[i // d] if i == j else 0.0) - D[k, i, j]
        psd_part(M, n, work, V)
        for i in range(n):
            for j in range(n):
                D[k, i, j] = (inside[i // d] if i == j else 0.0) - M[i, j]


@kernel
def orthonormalise(start, stop, offsets, sizes, columns, T):
    """Make columns (E, c) of each cluster orthonormal from the left, but for those that are sums of others.

    What column j was is sum_p columns_p T_pj (K, c, c) of those that result. One that the columns before it
    span but for rounding, which is judged by `sizes` (K, c), becomes zero.
    """
    for k in range(start, stop):
        low, high = offsets[k], offsets[k + 1]
        T[k] = 0.0
        for j in range(columns.shape[1]):
            for _again in range(2):  # the second time for the rounding of the first
                for p in range(j):
                    along = 0.0
                    for e in range(low, high):
                        along += columns[e, p] * columns[e, j]
                    for e in range(low, high):
                        columns[e, j] -= along * columns[e, p]
                    T[k, p, j] += along
            square = 0.0
            for e in range(low, high):
                square += columns[e, j] * columns[e, j]
            length = math.sqrt(square)
            kept = length > SPANNED * sizes[k, j]
            T[k, j, j] = length if kept else 0.0
            for e in range(low, high):
                columns[e, j] = columns[e, j] / length if kept else 0.0


@kernel
def _repeated(columns, first, last, d, out):
    """out[c, d l + a] = columns[first + l, c] for every axis a; zero beyond the last entry."""
    out[:] = 0.0
    for e in range(first, last):
        for c in range(columns.shape[1]):
            for a in range(d):
                out[c, d * (e - first) + a] = columns[e, c]


@kernel
def expand(start, stop, reduced, diagonal, stiff, D, out):
    """Blocks (i, l) = (diagonal_i delta_il + stiff N_il) I - sum Z_ip D_pq Z_lq of entries i in start..stop.

    N_il without its diagonal k_i is -(chi_i . psi_l + psi_i . chi_l). The matrix of cluster k begins at
    out[starts[k]]. A row of it is made twelve numbers at a time: whole blocks, and whole registers.
    """
    cluster_of, offsets, starts = reduced.cluster_of, reduced.offsets, reduced.starts
    Z, psi, chi = reduced.Z, reduced.psi, reduced.chi
    d, r, m, known = reduced.dimension, Z.shape[1], psi.shape[1], -1
    E = np.empty((d, d * r))
    pattern, axis = np.empty((r, 12)), np.zeros((d, 12))
    for j in range(12):
        axis[j % d, j] = 1.0
    Zs = psis = chis = N = row = np.empty((0, 0))
    for e in range(start, stop):
        k = cluster_of[e]
        first, width = offsets[k], d * (offsets[k + 1] - offsets[k])
        if k != known:
            known, padded = k, -(-width // 12) * 12
            Zs, psis, chis = np.empty((r, padded)), np.empty((m, padded)), np.empty((m, padded))
            N, row = np.empty((1, padded)), np.empty((1, padded))
            _repeated(Z, first, offsets[k + 1], d, Zs)
            _repeated(psi, first, offsets[k + 1], d, psis)
            _repeated(chi, first, offsets[k + 1], d, chis)
        for j in range(0, N.shape[1], 4):
            total = splat(0.0)
            for c in range(m):
                total = total - (chi[e, c] * load(psis, c, j) + psi[e, c] * load(chis, c, j))
            store(N, 0, j, stiff * total)
        for a in range(d):
            N[0, d * (e - first) + a] += diagonal[e]
        for a in range(d):
            E[a] = 0.0
            for b in range(r):
                for j in range(d * r):
                    E[a, j] += Z[e, b] * D[k, d * b + a, j]
            for c in range(r):
                for j in range(12):
                    pattern[c, j] = E[a, d * c + j % d]
            for j in range(0, N.shape[1], 12):
                x = load(axis, a, 0) * load(N, 0, j)
                y = load(axis, a, 4) * load(N, 0, j + 4)
                z = load(axis, a, 8) * load(N, 0, j + 8)
                for c in range(r):
                    x = x - load(pattern, c, 0) * load(Zs, c, j)
                    y = y - load(pattern, c, 4) * load(Zs, c, j + 4)
                    z = z - load(pattern, c, 8) * load(Zs, c, j + 8)
                store(row, 0, j, x)
                store(row, 0, j + 4, y)
                store(row, 0, j + 8, z)
            at = starts[k] + (d * (e - first) + a) * width
            target = out[at : at + width]
            for j in range(width):
                target[j] = row[0, j]
