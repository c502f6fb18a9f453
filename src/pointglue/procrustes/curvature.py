"""Kernels of the second derivative of the fit contracted with a covector: what Newton's method needs.

The Hessian of x -> <gR, R(x)>. In the world frame, with u = R v weighted, G and S rotated by R,
K = gR R^T, y = G vee(K - K^T), Q = K - tr(K) I - S [y]x (symmetric) and N = G Q G, the block of
entries i and j is (explanation/derivations)

    -[u_i]x N [u_j]x - u_i (G y x u_j)^T - (G y x u_i) u_j^T + y (G u_i x u_j)^T + (G u_j x u_i) y^T.

Layout as in `kernels`.
"""

from typing import NamedTuple

import numpy as np

from ..checks import Array
from ..compute import kernel
from .algebra import product, product_nt, spin, times_cross
from .kernels import moment_rate


class WorldFrame(NamedTuple):
    """The letters of the formula above for one fit, in the world frame; matrices are flat."""

    G: Array
    """(9,)."""
    K: Array
    """(9,)."""
    Q: Array
    """(9,)."""
    y: Array
    """(3,)."""


@kernel
def new_world_frame():
    """Return an empty record for `world_frame` to fill."""
    return WorldFrame(np.empty(9), np.empty(9), np.empty(9), np.empty(3))


@kernel
def world_frame(R, S, G, gR, frame, work):
    """Fill `frame`, a WorldFrame, for the covector gR of the rotation R."""
    Gw, K, Q, y = frame.G, frame.K, frame.Q, frame.y
    product_nt(gR, R, K)
    product(R, G, work)
    product_nt(work, R, Gw)
    y[0], y[1], y[2] = spin(Gw, K)
    product(R, S, work)
    product_nt(work, R, Q)
    times_cross(Q, y[0], y[1], y[2], work)
    trace = K[0] + K[4] + K[8]
    for j in range(9):
        Q[j] = K[j] - work[j] - (trace if j % 4 == 0 else 0.0)
    # Symmetric but for rounding (and for the fading inverse of a degenerate fit): take the mean.
    Q[1] = Q[3] = 0.5 * (Q[1] + Q[3])
    Q[2] = Q[6] = 0.5 * (Q[2] + Q[6])
    Q[5] = Q[7] = 0.5 * (Q[5] + Q[7])


@kernel
def _times_vector(X, v, out):
    """out = X v."""
    v0, v1, v2 = v[0], v[1], v[2]
    out[0] = X[0] * v0 + X[1] * v1 + X[2] * v2
    out[1] = X[3] * v0 + X[4] * v1 + X[5] * v2
    out[2] = X[6] * v0 + X[7] * v1 + X[8] * v2


@kernel
def _cross(a, b, out):
    """out = a x b."""
    out[0], out[1], out[2] = a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@kernel
def hessian(start, stop, offsets, block_offsets, q, rotations, gR, out):
    """Compute the blocks of all fits: out[f, block_offsets[k] + i n + j] is d2 / dx_i dx_j, n the size.

    `offsets` and `q` are those of RestArrays, `rotations` are RotationArrays.
    """
    R, S, G = rotations.R, rotations.S, rotations.G
    groups = len(offsets) - 1
    frame = new_world_frame()
    Gw, Q, y = frame.G, frame.Q, frame.y
    N, work, Gy = np.empty(9), np.empty(9), np.empty(3)
    c, d, Gui, Guj, uiN, ei, ej = (
        np.empty(3),
        np.empty(3),
        np.empty(3),
        np.empty(3),
        np.empty(9),
        np.empty(3),
        np.empty(3),
    )
    for m in range(start, stop):
        f, k = divmod(m, groups)
        world_frame(R[m], S[m], G[m], gR[m], frame, work)
        _times_vector(Gw, y, Gy)
        product(Gw, Q, work)
        product(work, Gw, N)
        first, n = offsets[k], offsets[k + 1] - offsets[k]
        u = np.empty((n, 3))
        for i in range(n):
            _times_vector(R[m], q[first + i], u[i])
        for i in range(n):
            _times_vector(Gw, u[i], Gui)
            _cross(Gy, u[i], ei)
            for column in range(3):  # -[u_i]x N
                uiN[column] = u[i, 2] * N[3 + column] - u[i, 1] * N[6 + column]
                uiN[3 + column] = u[i, 0] * N[6 + column] - u[i, 2] * N[column]
                uiN[6 + column] = u[i, 1] * N[column] - u[i, 0] * N[3 + column]
            for j in range(n):
                _times_vector(Gw, u[j], Guj)
                _cross(Gy, u[j], ej)
                _cross(Gui, u[j], c)
                _cross(Guj, u[i], d)
                block = out[f, block_offsets[k] + i * n + j]
                times_cross(uiN, u[j, 0], u[j, 1], u[j, 2], work)
                for row in range(3):
                    for column in range(3):
                        block[3 * row + column] = (
                            work[3 * row + column]
                            - u[i, row] * ej[column]
                            - ei[row] * u[j, column]
                            + y[row] * c[column]
                            + d[row] * y[column]
                        )


@kernel
def hessian_maps(start, stop, rest, rates, rotations, gR, B):
    """Compute the Hessian times `rates` as one matrix B a fit: entry e receives B w v.

    B = ([G m]x - (y . omega) I + y omega^T) R,    m = Q omega - tr(D) y + D^T y,
    with D = sum rate u^T and the spin omega = G vee(D - D^T), all in the world frame.
    """
    R, S, G = rotations.R, rotations.S, rotations.G
    groups = len(rest.offsets) - 1
    frame = new_world_frame()
    Gw, Q, y = frame.G, frame.Q, frame.y
    D, work, dA = np.empty(9), np.empty(9), np.empty(12)
    omega, m, Gm = np.empty(3), np.empty(3), np.empty(3)
    for n in range(start, stop):
        f, k = divmod(n, groups)
        world_frame(R[n], S[n], G[n], gR[n], frame, work)
        moment_rate(rates, f, k, rest, dA)
        product_nt(dA, R[n], D)
        omega[0], omega[1], omega[2] = spin(Gw, D)
        _times_vector(Q, omega, m)
        trace = D[0] + D[4] + D[8]
        for j in range(3):
            m[j] += D[j] * y[0] + D[3 + j] * y[1] + D[6 + j] * y[2] - trace * y[j]
        _times_vector(Gw, m, Gm)
        dot = y[0] * omega[0] + y[1] * omega[1] + y[2] * omega[2]
        for row in range(3):
            for column in range(3):
                work[3 * row + column] = y[row] * omega[column] - (dot if row == column else 0.0)
        work[1] -= Gm[2]
        work[2] += Gm[1]
        work[3] += Gm[2]
        work[5] -= Gm[0]
        work[6] -= Gm[1]
        work[7] += Gm[0]
        product(work, R[n], B[n])
