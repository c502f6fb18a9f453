"""Energy, forces and stiffness of tetrahedra of stable neo-Hookean flesh.

With x_a the corners, b_a the gradients of their weights at rest, F = sum x_a b_a^T, and m, c, p and C as in
`neo_hookean`:

    force on corner a       -V (m F + p C) b_a
    stiffness of a and b    V (m (b_a . b_b) 1 + c (F b_a)(F b_b)^T + lambda (C b_a)(C b_b)^T
                               - p [F (b_a x b_b)]x)
"""

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
from .neo_hookean import cofactors, density, invariants, project, second_derivative

__all__ = ["Tetrahedra", "gradients", "hessians", "projected_hessians", "values"]


class Tetrahedra(NamedTuple):
    """The elements: m tetrahedra."""

    corners: NDArray[np.int64]
    """(m, 4): the points of each."""
    weight_gradients: Array
    """(m, 9): b_1, b_2 and b_3 at rest [1/m]; b_0 is minus their sum."""
    volume: Array
    """(m,): V at rest [m^3]."""
    mu: Array
    """(m,): the first modulus [Pa]."""
    lam: Array
    """(m,): the second modulus, lambda [Pa]."""


@kernel
def _deform(x, tet, b, F):
    """Fill F (flat, 9) of one tetrahedron."""
    i0, i1, i2, i3 = tet[0], tet[1], tet[2], tet[3]
    for row in range(3):
        d1, d2, d3 = x[i1, row] - x[i0, row], x[i2, row] - x[i0, row], x[i3, row] - x[i0, row]
        F[3 * row] = d1 * b[0] + d2 * b[3] + d3 * b[6]
        F[3 * row + 1] = d1 * b[1] + d2 * b[4] + d3 * b[7]
        F[3 * row + 2] = d1 * b[2] + d2 * b[5] + d3 * b[8]


@kernel
def values(start, stop, x, tets, out):
    """Fill in the energy (m,) of each tetrahedron."""
    F = np.empty(9)
    for e in range(start, stop):
        volume, mu, lam = tets.volume[e], tets.mu[e], tets.lam[e]
        _deform(x, tets.corners[e], tets.weight_gradients[e], F)
        square, det = invariants(F)
        out[e] = volume * density(square, det, mu, lam)


@kernel
def gradients(start, stop, x, tets, out):
    """Fill in the gradient (m, 4, 3) by the corners of each tetrahedron."""
    F, C = np.empty(9), np.empty(9)
    for e in range(start, stop):
        b, volume, mu, lam = tets.weight_gradients[e], tets.volume[e], tets.mu[e], tets.lam[e]
        _deform(x, tets.corners[e], b, F)
        square, det = invariants(F)
        cofactors(F, C)
        m, p = volume * mu * (square / (square + 1.0)), volume * (lam * (det - 1.0) - 0.75 * mu)
        for row in range(3):
            j = 3 * row
            p0, p1, p2 = m * F[j] + p * C[j], m * F[j + 1] + p * C[j + 1], m * F[j + 2] + p * C[j + 2]
            g1 = p0 * b[0] + p1 * b[1] + p2 * b[2]
            g2 = p0 * b[3] + p1 * b[4] + p2 * b[5]
            g3 = p0 * b[6] + p1 * b[7] + p2 * b[8]
            out[e, 0, row] = -(g1 + g2 + g3)
            out[e, 1, row], out[e, 2, row], out[e, 3, row] = g1, g2, g3


@kernel
def hessians(start, stop, x, tets, out):
    """Fill in the stiffness (m, 12, 12) of each tetrahedron."""
    F, H, scratch = np.empty(9), np.empty((9, 9)), np.empty((3, 9))
    for e in range(start, stop):
        b, volume = tets.weight_gradients[e], tets.volume[e]
        _deform(x, tets.corners[e], b, F)
        second_derivative(F, b, volume * tets.mu[e], volume * tets.lam[e], H, scratch)
        _spread(H, out[e])


@kernel
def projected_hessians(start, stop, x, tets, out):
    """Fill in the stiffness without the negative eigenvalues of the second derivative of psi by F."""
    F, R, rotating = np.zeros((BLOCK, 9)), np.empty((BLOCK, 9)), np.empty(SCRATCH)
    H, scratch, work = np.empty((9, 9)), np.empty((7, 9)), np.empty(WORK)
    for base in range(start, stop, BLOCK):
        count = min(BLOCK, stop - base)
        for at in range(count):
            _deform(x, tets.corners[base + at], tets.weight_gradients[base + at], F[at])
        block_rotations(F.reshape(-1), R.reshape(-1), rotating, LEAST_D)
        for at in range(count):
            e = base + at
            if block_failed(rotating, at):
                robust_rotation(F[at], R[at], scratch[0], work)
            b, mu, lam = tets.weight_gradients[e], tets.volume[e] * tets.mu[e], tets.volume[e] * tets.lam[e]
            coefficients = second_derivative(F[at], b, mu, lam, H, scratch)
            project(F[at], R[at], b, coefficients, H, scratch)
            _spread(H, out[e])


@kernel
def _spread(H, out):
    """Fill in all of the stiffness (12, 12), exactly symmetric; its rows sum to zero over the corners."""
    for i in range(9):
        for j in range(i, 9):
            value = H[i, j]
            out[3 + i, 3 + j] = value
            out[3 + j, 3 + i] = value
    for i in range(9):
        for column in range(3):
            value = -(out[3 + i, 3 + column] + out[3 + i, 6 + column] + out[3 + i, 9 + column])
            out[3 + i, column] = value
            out[column, 3 + i] = value
    for i in range(3):
        for j in range(i, 3):
            value = -(out[3 + i, j] + out[6 + i, j] + out[9 + i, j])
            out[i, j] = value
            out[j, i] = value
