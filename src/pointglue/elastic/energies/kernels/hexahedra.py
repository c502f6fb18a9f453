"""Energy, forces and stiffness of hexahedra of stable neo-Hookean material.

With x_a the corners, b_a the means over the element of the gradients of their weights and g_ka the weights of
hourglass mode k, which are zero for every linear map, a hexahedron has the mean deformation gradient F, with
columns d_i, and four hourglass vectors q_k:

    d_i = sum_a b_ai x_a,    q_k = sum_a g_ka x_a,    p_ki = d_i . q_k.

Its energy, with psi and its derivatives as in `neo_hookean`, is

    V psi(F) + 1/2 p^T D p + 1/2 sum_k s_k |q_k|^2.

The p are the hourglass vectors as the material sees them, whatever its rotation. With t = D p, the
derivatives are

    by d_i           V (d psi / d F) e_i + sum_k t_ki q_k
    by q_k           sum_i t_ki d_i + s_k q_k
    by d_i and d_j   V (d2 psi)_ij + sum_kl D_ki,lj q_k q_l^T
    by d_i and q_l   sum_kj D_ki,lj q_k d_j^T + t_li 1
    by q_k and q_l   sum_ij D_ki,lj d_i d_j^T + s_k delta_kl 1.

Projection removes the negative eigenvalues of d2 psi, and those of the terms with t and s taken together.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array
from ....compute import kernel
from ....procrustes.rotation import (
    BLOCK,
    LEAST_D,
    SCRATCH,
    WORK,
    block_failed,
    block_rotations,
    robust_rotation,
)
from .neo_hookean import cofactors, density, diagonalise, invariants, project, second_derivative

__all__ = ["Hexahedra", "gradients", "hessians", "projected_hessians", "values"]

IDENTITY = np.eye(3).reshape(9)


class Hexahedra(NamedTuple):
    """The elements: m hexahedra."""

    corners: NDArray[np.int64]
    """(m, 8): the points of each."""
    modes: Array
    """(m, 7, 8): the weights of the corners in d_1, d_2, d_3 [1/m] and in q_1 to q_4 [1]."""
    mu: Array
    """(m,): the first modulus, times the volume at rest [J]."""
    lam: Array
    """(m,): the second modulus, lambda, times the volume at rest [J]."""
    hourglass: Array
    """(m, 12, 12): D, row 3 k + i for p_ki [N/m]."""
    stabilisation: Array
    """(m, 4): s [N/m]."""


@kernel
def _deform(x, corners, modes, y, F):
    """Fill y (21,), d_1 to d_3 and q_1 to q_4, and F (flat, 9) of one hexahedron."""
    first = corners[0]
    for row in range(3):
        origin = x[first, row]
        for k in range(7):
            total = 0.0
            for a in range(1, 8):
                total += modes[k, a] * (x[corners[a], row] - origin)
            y[3 * k + row] = total
        F[3 * row], F[3 * row + 1], F[3 * row + 2] = y[row], y[3 + row], y[6 + row]


@kernel
def _hourglass_strains(y, p):
    """Fill p (12,): p_ki = d_i . q_k."""
    for k in range(4):
        qx, qy, qz = y[9 + 3 * k], y[10 + 3 * k], y[11 + 3 * k]
        for i in range(3):
            p[3 * k + i] = y[3 * i] * qx + y[3 * i + 1] * qy + y[3 * i + 2] * qz


@kernel
def _hourglass_stresses(D, p, t):
    """Fill t = D p; return p . t."""
    work = 0.0
    for i in range(12):
        total = 0.0
        for j in range(12):
            total += D[i, j] * p[j]
        t[i] = total
        work += total * p[i]
    return work


@kernel
def values(start, stop, x, hexahedra, out):
    """Fill in the energy (m,) of each hexahedron."""
    y, F, p, t = np.empty(21), np.empty(9), np.empty(12), np.empty(12)
    for e in range(start, stop):
        _deform(x, hexahedra.corners[e], hexahedra.modes[e], y, F)
        square, det = invariants(F)
        _hourglass_strains(y, p)
        work = _hourglass_stresses(hexahedra.hourglass[e], p, t)
        for k in range(4):
            q = 9 + 3 * k
            work += hexahedra.stabilisation[e, k] * (y[q] * y[q] + y[q + 1] * y[q + 1] + y[q + 2] * y[q + 2])
        out[e] = density(square, det, hexahedra.mu[e], hexahedra.lam[e]) + 0.5 * work


@kernel
def gradients(start, stop, x, hexahedra, out):
    """Fill in the gradient (m, 8, 3) by the corners of each hexahedron."""
    y, F, C, p, t, g = np.empty(21), np.empty(9), np.empty(9), np.empty(12), np.empty(12), np.empty(21)
    for e in range(start, stop):
        modes, mu, lam = hexahedra.modes[e], hexahedra.mu[e], hexahedra.lam[e]
        _deform(x, hexahedra.corners[e], modes, y, F)
        square, det = invariants(F)
        cofactors(F, C)
        m, pressure = mu * (square / (square + 1.0)), lam * (det - 1.0) - 0.75 * mu
        _hourglass_strains(y, p)
        _hourglass_stresses(hexahedra.hourglass[e], p, t)
        for row in range(3):
            for i in range(3):
                total = m * F[3 * row + i] + pressure * C[3 * row + i]
                for k in range(4):
                    total += t[3 * k + i] * y[9 + 3 * k + row]
                g[3 * i + row] = total
            for k in range(4):
                total = hexahedra.stabilisation[e, k] * y[9 + 3 * k + row]
                for i in range(3):
                    total += t[3 * k + i] * y[3 * i + row]
                g[9 + 3 * k + row] = total
            for a in range(8):
                total = 0.0
                for k in range(7):
                    total += modes[k, a] * g[3 * k + row]
                out[e, a, row] = total


@kernel
def hessians(start, stop, x, hexahedra, out):
    """Fill in the stiffness (m, 24, 24) of each hexahedron."""
    y, F, H, scratch = np.empty(21), np.empty(9), np.empty((9, 9)), np.empty((3, 9))
    K, t, wide = np.empty((21, 21)), np.empty(12), np.empty((12, 21))
    for e in range(start, stop):
        _deform(x, hexahedra.corners[e], hexahedra.modes[e], y, F)
        second_derivative(F, IDENTITY, hexahedra.mu[e], hexahedra.lam[e], H, scratch)
        _by_modes(y, H, hexahedra.hourglass[e], K, t, wide)
        _add_geometric(t, hexahedra.stabilisation[e], K)
        _spread(K, hexahedra.modes[e], wide, out[e])


@kernel
def projected_hessians(start, stop, x, hexahedra, out):
    """Fill in the stiffness, of which no term has a negative eigenvalue."""
    y, F, R = np.empty((BLOCK, 21)), np.zeros((BLOCK, 9)), np.empty((BLOCK, 9))
    rotating, work = np.empty(SCRATCH), np.empty(WORK)
    H, scratch = np.empty((9, 9)), np.empty((7, 9))
    K, t, wide = np.empty((21, 21)), np.empty(12), np.empty((12, 21))
    for base in range(start, stop, BLOCK):
        count = min(BLOCK, stop - base)
        for at in range(count):
            _deform(x, hexahedra.corners[base + at], hexahedra.modes[base + at], y[at], F[at])
        block_rotations(F.reshape(-1), R.reshape(-1), rotating, LEAST_D)
        for at in range(count):
            e = base + at
            if block_failed(rotating, at):
                robust_rotation(F[at], R[at], scratch[0], work)
            mu = hexahedra.mu[e]
            coefficients = second_derivative(F[at], IDENTITY, mu, hexahedra.lam[e], H, scratch)
            project(F[at], R[at], IDENTITY, coefficients, H, scratch)
            _by_modes(y[at], H, hexahedra.hourglass[e], K, t, wide)
            _add_geometric(t, hexahedra.stabilisation[e], K)
            _project_geometric(t, hexahedra.stabilisation[e], mu, K, scratch)
            _spread(K, hexahedra.modes[e], wide, out[e])


@kernel
def _by_modes(y, H, D, K, t, wide):
    """Fill the upper blocks of K (21, 21), all but the terms with t and s, and t; `wide` is scratch (12, 21).

    H (9, 9) has the upper blocks of V d2 psi by d_1, d_2 and d_3.
    """
    # Row 3 k + i of `wide` is D times the derivative of p by d_j (3 entries each) and by q_l.
    for row in range(12):
        total = 0.0
        for j in range(3):
            for r in range(3):
                value = 0.0
                for other in range(4):
                    value += D[row, 3 * other + j] * y[9 + 3 * other + r]
                wide[row, 3 * j + r] = value
                total += value * y[3 * j + r]
        t[row] = total
        for other in range(4):
            for r in range(3):
                value = 0.0
                for j in range(3):
                    value += D[row, 3 * other + j] * y[3 * j + r]
                wide[row, 9 + 3 * other + r] = value
    for i in range(3):
        for r in range(3):
            row = 3 * i + r
            for column in range(3 * i, 21):
                total = H[row, column] if column < 9 else 0.0
                for k in range(4):
                    total += y[9 + 3 * k + r] * wide[3 * k + i, column]
                K[row, column] = total
    for k in range(4):
        for r in range(3):
            row = 9 + 3 * k + r
            for column in range(9 + 3 * k, 21):
                total = 0.0
                for i in range(3):
                    total += y[3 * i + r] * wide[3 * k + i, column]
                K[row, column] = total


@kernel
def _add_geometric(t, stabilisation, K):
    """Add the terms with t and s."""
    for k in range(4):
        for r in range(3):
            column = 9 + 3 * k + r
            K[column, column] += stabilisation[k]
            for i in range(3):
                K[3 * i + r, column] += t[3 * k + i]


@kernel
def _project_geometric(t, stabilisation, mu, K, scratch):
    """Remove the negative eigenvalues of the terms with t and s from K.

    In units in which mu and the s_k are one, with T_ik = t_ki / sqrt(mu s_k), the terms are
    [[0, T], [T^T, 1]], alike for each coordinate. Where T T^T u = c u and a = -2 / (1 + sqrt(1 + 4 c)), the
    negative eigenvalues are c a, of the vectors (u, a T^T u).
    """
    T, Q = scratch[0], scratch[1]
    for j in range(9):
        T[j] = 0.0
    for k in range(4):
        scale = 1.0 / (mu * stabilisation[k])
        for i in range(3):
            for j in range(3):
                T[3 * i + j] += scale * t[3 * k + i] * t[3 * k + j]
    diagonalise(T, Q)
    mode = scratch[2]
    for which in range(3):
        c = max(T[4 * which], 0.0)
        a = -2.0 / (1.0 + math.sqrt(1.0 + 4.0 * c))
        value = -c * a / (1.0 + a * a * c)
        if value == 0.0:
            continue
        # The vector times the roots of mu and s, which brings the units back.
        root = math.sqrt(mu)
        for i in range(3):
            mode[i] = root * Q[3 * i + which]
        for k in range(4):
            total = 0.0
            for i in range(3):
                total += t[3 * k + i] * Q[3 * i + which]
            mode[3 + k] = a * total / root
        for row in range(7):
            for column in range(row, 7):
                added = value * mode[row] * mode[column]
                for r in range(3):
                    K[3 * row + r, 3 * column + r] += added


@kernel
def _spread(K, modes, wide, out):
    """Fill in the stiffness (24, 24) by the corners from the upper blocks of K, exactly symmetric."""
    for i in range(21):
        for j in range(i + 1, 21):
            K[j, i] = K[i, j]
    for a in range(8):
        for r in range(3):
            for column in range(21):
                total = 0.0
                for k in range(7):
                    total += modes[k, a] * K[3 * k + r, column]
                wide[r, column] = total
        for r in range(3):
            row = 3 * a + r
            for b in range(a, 8):
                for c in range(3):
                    total = 0.0
                    for k in range(7):
                        total += wide[r, 3 * k + c] * modes[k, b]
                    out[row, 3 * b + c] = total
                    out[3 * b + c, row] = total
