"""Kernels of the shape matching energy. Cluster k has the entries ``offsets[k]`` to ``offsets[k + 1]``.

Entry r is point ``indices[r]`` with rest offset v_r, share w_r of the cluster's mass and stiffness k_r. With
the centre t and the rotation R of the cluster, and orthonormal rest coordinates q_r (linear or quadratic),

    d_r = x_r - t - g A q_r - (1 - g) R v_r,    A = sum_r w_r (x_r - t) q_r^T,    V = 1/2 sum_r k_r |d_r|^2.

All but R is linear in x: d = L x - (1 - g) R v with the constant matrix L = 1 - Phi Psi^T over the entries,
Phi = [1, q], Psi = w [1, g q]. Every second derivative below is a multiple of N = L^T K L, plus a part of
low rank (explanation/derivations): R depends on x through a_r = w_r v_r alone, and meets b = L^T K v. With a
basis Z of the columns of (1 - g) a and b, at most six,

    block (i, l) = N_il I - sum_pq Z_ip D_pq Z_lq,    (1 - g) a = Z alpha,    b = Z beta,

so that the work per pair of points is that of a product, and D (its "core") is that of a cluster of six
points. Z is orthonormal in the sense Z^T N^+ Z = I: the block is positive semidefinite exactly if no
eigenvalue of D exceeds one.
"""

import numpy as np

from ....compute import kernel
from ....compute.simd import load, splat, store
from ....procrustes.algebra import product, product_nt, times_cross, turn, turn_second
from ....procrustes.kernels import moment_rate
from ...linalg.kernels.blocks import psd_part


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
def _stretched(x, first, last, indices, w, q, tx, ty, tz, A):
    """A = sum w (x - t) q^T."""
    A[:] = 0.0
    for e in range(first, last):
        i = indices[e]
        y0, y1, y2 = w[e] * (x[i, 0] - tx), w[e] * (x[i, 1] - ty), w[e] * (x[i, 2] - tz)
        for j in range(q.shape[1]):
            A[0, j] += y0 * q[e, j]
            A[1, j] += y1 * q[e, j]
            A[2, j] += y2 * q[e, j]


@kernel
def _residual(x, e, i, v, q, blend, t, R, A):
    """d of entry e, which is point i; the other factor than R is in t and A."""
    rigid = 1.0 - blend
    vx, vy, vz = rigid * v[e, 0], rigid * v[e, 1], rigid * v[e, 2]
    dx = x[i, 0] - t[0] - (R[0] * vx + R[1] * vy + R[2] * vz)
    dy = x[i, 1] - t[1] - (R[3] * vx + R[4] * vy + R[5] * vz)
    dz = x[i, 2] - t[2] - (R[6] * vx + R[7] * vy + R[8] * vz)
    for j in range(q.shape[1]):
        s = blend * q[e, j]
        dx -= A[0, j] * s
        dy -= A[1, j] * s
        dz -= A[2, j] * s
    return dx, dy, dz


@kernel
def values(start, stop, x, offsets, indices, v, w, stiffness, q, blend, t, R, out):
    """V of each cluster."""
    A = np.empty((3, q.shape[1]))
    for k in range(start, stop):
        first, last = offsets[k], offsets[k + 1]
        _stretched(x, first, last, indices, w, q, t[k, 0], t[k, 1], t[k, 2], A)
        total = 0.0
        for e in range(first, last):
            dx, dy, dz = _residual(x, e, indices[e], v, q, blend, t[k], R[k], A)
            total += stiffness[e] * (dx * dx + dy * dy + dz * dz)
        out[k] = 0.5 * total


@kernel
def moments(start, stop, x, offsets, indices, v, w, stiffness, q, blend, t, R, P):
    """P = sum k d v^T of each cluster, flat."""
    A = np.empty((3, q.shape[1]))
    for k in range(start, stop):
        first, last = offsets[k], offsets[k + 1]
        _stretched(x, first, last, indices, w, q, t[k, 0], t[k, 1], t[k, 2], A)
        P[k] = 0.0
        for e in range(first, last):
            dx, dy, dz = _residual(x, e, indices[e], v, q, blend, t[k], R[k], A)
            for j in range(3):
                s = stiffness[e] * v[e, j]
                P[k, j] += dx * s
                P[k, 3 + j] += dy * s
                P[k, 6 + j] += dz * s


@kernel
def pulls(start, stop, x, offsets, indices, v, w, stiffness, q, blend, t, goal, R, G, out):
    """(dd/dx)^T K d of each entry, d with the centres t and matrices `goal`: R, or its rate and that of t.

    L^T K d - (1 - g) DR[P] a, with L^T K d = k d - w (sum k d) - g w (sum k d q^T) q and P = sum k d v^T.
    """
    m, d = q.shape[1], out.shape[1]
    A, F, P, turned, work = np.empty((3, m)), np.empty((3, m)), np.empty(9), np.empty(9), np.empty(9)
    pull = np.empty(3)
    for k in range(start, stop):
        first, last = offsets[k], offsets[k + 1]
        forces = np.empty((last - first, 3))
        _stretched(x, first, last, indices, w, q, t[k, 0], t[k, 1], t[k, 2], A)
        F[:] = 0.0
        P[:] = 0.0
        fx = fy = fz = 0.0
        for e in range(first, last):
            dx, dy, dz = _residual(x, e, indices[e], v, q, blend, t[k], goal[k], A)
            dx, dy, dz = stiffness[e] * dx, stiffness[e] * dy, stiffness[e] * dz
            fx, fy, fz = fx + dx, fy + dy, fz + dz
            for j in range(3):
                P[j] += dx * v[e, j]
                P[3 + j] += dy * v[e, j]
                P[6 + j] += dz * v[e, j]
            for j in range(m):
                F[0, j] += dx * q[e, j]
                F[1, j] += dy * q[e, j]
                F[2, j] += dz * q[e, j]
            forces[e - first, 0], forces[e - first, 1], forces[e - first, 2] = dx, dy, dz
        turn(R[k], G[k], P, turned, work)
        for e in range(first, last):
            pull[0], pull[1], pull[2] = fx, fy, fz
            for row in range(3):
                for j in range(3):
                    pull[row] += (1.0 - blend) * turned[3 * row + j] * v[e, j]
                for j in range(m):
                    pull[row] += blend * F[row, j] * q[e, j]
            for row in range(d):
                out[e, row] = forces[e - first, row] - w[e] * pull[row]


@kernel
def goal_moments(start, stop, P, R, spread, rigid):
    """Add (1 - g) R sum k v v^T to P: the moment of the goal positions, all flat."""
    work = np.empty(9)
    for k in range(start, stop):
        product(R[k], spread[k], work)
        for j in range(9):
            P[k, j] += rigid * work[j]


@kernel
def _world_frame(R, G, alpha, beta, k, Gw, u, p, work):
    """G and the columns of alpha and beta of cluster k in the world frame."""
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
def cores(start, stop, dimension, R, G, alpha, beta, bent, rigid, D):
    """D of the exact Hessian: -[p_i]x G [u_j]x - [u_i]x G [p_j]x + bent_ij / (1 - g).

    u = R alpha, p = R beta; `bent` is the Hessian of <P, R> for points with a = alpha.
    """
    r = alpha.shape[1]
    Gw, X, Y, block, work = np.empty(9), np.empty(9), np.empty(9), np.empty(9), np.empty(9)
    u, p = np.empty((r, 3)), np.empty((r, 3))
    for k in range(start, stop):
        _world_frame(R, G, alpha, beta, k, Gw, u, p, work)
        for i in range(r):
            _crosses(Gw, p[i], X)
            _crosses(Gw, u[i], Y)
            for j in range(i, r):
                times_cross(X, u[j, 0], u[j, 1], u[j, 2], block)
                times_cross(Y, p[j, 0], p[j, 1], p[j, 2], work)
                for row in range(dimension):
                    for column in range(dimension):
                        at = 3 * row + column
                        value = block[at] + work[at] + bent[k, i * r + j, at] / rigid
                        D[k, dimension * i + row, dimension * j + column] = value
                        D[k, dimension * j + column, dimension * i + row] = value


@kernel
def gauss_cores(start, stop, dimension, R, G, alpha, beta, spread, D):
    """D of (dd/dx)^T K (dd/dx): -[p_i]x G [u_j]x - [u_i]x G [p_j]x + [u_i]x G E G [u_j]x.

    E = tr(M) I - M with M = sum k v v^T, turned into the world frame.
    """
    r = alpha.shape[1]
    Gw, F, X, Y, block, work = np.empty(9), np.empty(9), np.empty(9), np.empty(9), np.empty(9), np.empty(9)
    u, p = np.empty((r, 3)), np.empty((r, 3))
    for k in range(start, stop):
        trace = spread[k, 0] + spread[k, 4] + spread[k, 8]
        for j in range(9):
            X[j] = (trace if j % 4 == 0 else 0.0) - spread[k, j]
        product(G[k], X, work)
        product(work, G[k], X)
        product(R[k], X, work)
        product_nt(work, R[k], F)
        _world_frame(R, G, alpha, beta, k, Gw, u, p, work)
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
def rate_cores(
    start,
    stop,
    dimension,
    rates,
    offsets,
    indices,
    moment,
    R,
    S,
    G,
    alpha,
    beta,
    spread,
    bent,
    rigid,
    symmetric,
    scale,
    D,
):
    """D of the derivative of the damping force by x; not symmetric unless `symmetric` takes the mean.

    Column s of block (i, j) is bent_ij / (1 - g) + X beta_i - DR[X M] alpha_i, X = D2R[rates, e_s alpha_j^T].
    """
    r, size = alpha.shape[1], D.shape[1]
    dA, step, X, Y, work, long = (
        np.empty(12),
        np.empty(9),
        np.empty(9),
        np.empty(9),
        np.empty(9),
        np.empty(27),
    )
    turned = np.empty(9)
    for k in range(start, stop):
        moment_rate(rates, 0, offsets[k], offsets[k + 1], indices, moment, dA)
        for j in range(r):
            for s in range(dimension):
                step[:] = 0.0
                for c in range(3):
                    step[3 * s + c] = alpha[k, j, c]
                turn_second(R[k], S[k], G[k], dA, step, X, long)
                product(X, spread[k], Y)
                turn(R[k], G[k], Y, turned, work)
                for i in range(r):
                    for row in range(dimension):
                        value = bent[k, i * r + j, 3 * row + s] / rigid
                        for c in range(3):
                            value += X[3 * row + c] * beta[k, i, c] - turned[3 * row + c] * alpha[k, i, c]
                        D[k, dimension * i + row, dimension * j + s] = scale * value
        if symmetric:
            for i in range(size):
                for j in range(i):
                    D[k, i, j] = D[k, j, i] = 0.5 * (D[k, i, j] + D[k, j, i])


@kernel
def project(start, stop, D):
    """Bring eigenvalues of D above one down to one."""
    n = D.shape[1]
    M, work, V = np.empty((n, n)), np.empty((n + 4, n)), np.empty((n, n))
    for k in range(start, stop):
        for i in range(n):
            for j in range(n):
                M[i, j] = (1.0 if i == j else 0.0) - D[k, i, j]
        psd_part(M, n, work, V)
        for i in range(n):
            for j in range(n):
                D[k, i, j] = (1.0 if i == j else 0.0) - M[i, j]


@kernel
def _repeated(columns, first, last, d, out):
    """out[c, d l + a] = columns[first + l, c] for every axis a; zero beyond the last entry."""
    out[:] = 0.0
    for e in range(first, last):
        for c in range(columns.shape[1]):
            for a in range(d):
                out[c, d * (e - first) + a] = columns[e, c]


@kernel
def expand(start, stop, dimension, cluster_of, offsets, places, Z, psi, chi, diagonal, stiff, D, out):
    """Blocks (i, l) = (diagonal_i delta_il + stiff N_il) I - sum Z_ip D_pq Z_lq of entries i in start..stop.

    N_il without its diagonal k_i is -(chi_i . psi_l + psi_i . chi_l). The matrix of cluster k begins at
    out[places[k]]. A row of it is made twelve numbers at a time: whole blocks, and whole registers.
    """
    d, r, m, known = dimension, Z.shape[1], psi.shape[1], -1
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
            at = places[k] + (d * (e - first) + a) * width
            target = out[at : at + width]
            for j in range(width):
                target[j] = row[0, j]
