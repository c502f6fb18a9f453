"""Energy, forces and stiffness of tetrahedra of stable neo-Hookean flesh.

With x_a the corners, b_a the gradients of their weights at rest and F = sum x_a b_a^T, the energy per
volume at rest is (Smith, de Goes and Kim 2018, less its value at rest)

    psi = mu/2 (I - 3 - log((I + 1)/4)) + lambda/2 (J - 1)^2 - 3/4 mu (J - 1),    I = |F|^2,  J = det F.

With p = d psi / d J, m = mu (1 - 1/(I + 1)), c = 2 mu/(I + 1)^2 and C = cof F:

    force on corner a       -V (m F + p C) b_a
    stiffness of a and b    V (m (b_a . b_b) 1 + c (F b_a)(F b_b)^T + lambda (C b_a)(C b_b)^T
                               - p [F (b_a x b_b)]x)
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array
from ....compute import kernel
from ....procrustes.algebra import product, product_tn
from ....procrustes.rotation import (
    BLOCK,
    LEAST_D,
    SCRATCH,
    WORK,
    block_failed,
    block_rotations,
    robust_rotation,
)

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


class _Coefficients(NamedTuple):
    """The numbers of one tetrahedron's second derivative, each times V."""

    m: float
    c: float
    lam: float
    p: float


@kernel
def _deform(x, tet, b, F):
    """Fill F (flat, 9) of one tetrahedron; return |F|^2 and det F."""
    i0, i1, i2, i3 = tet[0], tet[1], tet[2], tet[3]
    for row in range(3):
        d1, d2, d3 = x[i1, row] - x[i0, row], x[i2, row] - x[i0, row], x[i3, row] - x[i0, row]
        F[3 * row] = d1 * b[0] + d2 * b[3] + d3 * b[6]
        F[3 * row + 1] = d1 * b[1] + d2 * b[4] + d3 * b[7]
        F[3 * row + 2] = d1 * b[2] + d2 * b[5] + d3 * b[8]
    square = 0.0
    for j in range(9):
        square += F[j] * F[j]
    det = (
        F[0] * (F[4] * F[8] - F[5] * F[7])
        + F[1] * (F[5] * F[6] - F[3] * F[8])
        + F[2] * (F[3] * F[7] - F[4] * F[6])
    )
    return square, det


@kernel
def _cofactors(F, C):
    """Fill C = cof F = d det F / d F."""
    C[0], C[1], C[2] = F[4] * F[8] - F[5] * F[7], F[5] * F[6] - F[3] * F[8], F[3] * F[7] - F[4] * F[6]
    C[3], C[4], C[5] = F[2] * F[7] - F[1] * F[8], F[0] * F[8] - F[2] * F[6], F[1] * F[6] - F[0] * F[7]
    C[6], C[7], C[8] = F[1] * F[5] - F[2] * F[4], F[2] * F[3] - F[0] * F[5], F[0] * F[4] - F[1] * F[3]


@kernel
def values(start, stop, x, tets, out):
    """Fill in the energy (m,) of each tetrahedron."""
    F = np.empty(9)
    for e in range(start, stop):
        volume, mu, lam = tets.volume[e], tets.mu[e], tets.lam[e]
        square, det = _deform(x, tets.corners[e], tets.weight_gradients[e], F)
        change, growth = square - 3.0, det - 1.0
        out[e] = volume * (
            0.5 * mu * (change - math.log1p(0.25 * change)) + growth * (0.5 * lam * growth - 0.75 * mu)
        )


@kernel
def gradients(start, stop, x, tets, out):
    """Fill in the gradient (m, 4, 3) by the corners of each tetrahedron."""
    F, C = np.empty(9), np.empty(9)
    for e in range(start, stop):
        b, volume, mu, lam = tets.weight_gradients[e], tets.volume[e], tets.mu[e], tets.lam[e]
        square, det = _deform(x, tets.corners[e], b, F)
        _cofactors(F, C)
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
        square, det = _deform(x, tets.corners[e], tets.weight_gradients[e], F)
        _exact(F, square, det, tets, e, H, scratch)
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
            square, det = _deform(x, tets.corners[e], tets.weight_gradients[e], F[at])
            coefficients = _exact(F[at], square, det, tets, e, H, scratch)
            _project(F[at], R[at], tets.weight_gradients[e], coefficients, H, scratch)
            _spread(H, out[e])


@kernel
def _exact(F, square, det, tets, e, H, scratch):
    """Fill in the upper blocks of the stiffness of corners 1, 2, 3 of tetrahedron e; return coefficients."""
    C, f, g = scratch[0], scratch[1], scratch[2]
    b, volume = tets.weight_gradients[e], tets.volume[e]
    mu, lam = volume * tets.mu[e], volume * tets.lam[e]
    m, c, p = mu * (square / (square + 1.0)), 2.0 * mu / (square + 1.0) ** 2, lam * (det - 1.0) - 0.75 * mu
    _cofactors(F, C)
    for a in range(3):
        for row in range(3):
            j = 3 * row
            f[3 * a + row] = F[j] * b[3 * a] + F[j + 1] * b[3 * a + 1] + F[j + 2] * b[3 * a + 2]
            g[3 * a + row] = C[j] * b[3 * a] + C[j + 1] * b[3 * a + 1] + C[j + 2] * b[3 * a + 2]
    for i in range(9):
        fi, gi = c * f[i], lam * g[i]
        for j in range(9):
            H[i, j] = fi * f[j] + gi * g[j]
    for i in range(0, 9, 3):
        for j in range(i, 9, 3):
            ax, ay, az, bx, by, bz = b[i], b[i + 1], b[i + 2], b[j], b[j + 1], b[j + 2]
            along = m * (ax * bx + ay * by + az * bz)
            H[i, j] += along
            H[i + 1, j + 1] += along
            H[i + 2, j + 2] += along
            if i != j:
                cx, cy, cz = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
                hx = p * (F[0] * cx + F[1] * cy + F[2] * cz)
                hy = p * (F[3] * cx + F[4] * cy + F[5] * cz)
                hz = p * (F[6] * cx + F[7] * cy + F[8] * cz)
                H[i, j + 1] += hz
                H[i, j + 2] -= hy
                H[i + 1, j] -= hz
                H[i + 1, j + 2] += hx
                H[i + 2, j] += hy
                H[i + 2, j + 1] -= hx
    return _Coefficients(m, c, lam, p)


@kernel
def _project(F, R, b, coefficients, H, scratch):
    """Remove the negative eigenvalues from H, in closed form but for a 3x3 matrix.

    With F = U diag(s) W^T, the second derivative of psi has the eigenmatrices (u_i w_j^T -+ u_j w_i^T)/sqrt 2
    with the values m +- p s_k, and three that are sums of the u_i w_i^T.
    """
    m, c, lam, p = coefficients
    S, W, U, N, mode = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    A, Q = scratch[5], scratch[6]
    product_tn(R, F, S)
    _eigen(S, W)
    product(R, W, U)
    product(b, W, N)
    s = (S[0], S[4], S[8])
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        shear = p * s[k]
        A[4 * k] = m + c * s[k] * s[k] + lam * (s[i] * s[j]) ** 2
        A[3 * i + j] = A[3 * j + i] = s[i] * s[j] * (c + lam * s[k] * s[k]) + shear
        value = m - abs(shear)
        if value < 0.0:
            sign = 1.0 if shear > 0.0 else -1.0  # of the two, the symmetric one if p s_k > 0
            for a in range(0, 9, 3):
                for row in range(3):
                    mode[a + row] = U[3 * row + i] * N[a + j] + sign * U[3 * row + j] * N[a + i]
            _subtract(H, 0.5 * value, mode)
    if _positive(A):
        return
    _eigen(A, Q)
    for k in range(3):
        if A[4 * k] < 0.0:
            for a in range(0, 9, 3):
                for row in range(0, 9, 3):
                    mode[a + row // 3] = (
                        Q[k] * U[row] * N[a]
                        + Q[3 + k] * U[row + 1] * N[a + 1]
                        + Q[6 + k] * U[row + 2] * N[a + 2]
                    )
            _subtract(H, A[4 * k], mode)


@kernel
def _subtract(H, value, mode):
    """Set H -= value mode mode^T."""
    for i in range(9):
        scaled = value * mode[i]
        for j in range(9):
            H[i, j] -= scaled * mode[j]


@kernel
def _positive(A):
    """Return whether the symmetric 3x3 matrix A (flat) is positive definite."""
    minor = A[0] * A[4] - A[1] * A[1]
    det = A[8] * minor - A[5] * (A[0] * A[5] - A[1] * A[2]) + A[2] * (A[1] * A[5] - A[4] * A[2])
    return A[0] > 0.0 and minor > 0.0 and det > 0.0


@kernel
def _eigen(A, Q):
    """Diagonalise the symmetric A (flat) by Jacobi rotations, on its upper triangle.

    The eigenvalues are then on its diagonal, and the eigenvectors are the columns of Q (flat).
    """
    for j in range(9):
        Q[j] = 1.0 if j % 4 == 0 else 0.0
    for _sweep in range(12):  # 3 or 4 are enough; the limit only guards the loop
        turned = _turn(A, Q, 0, 1, 2, 5)
        turned = _turn(A, Q, 0, 2, 1, 5) or turned
        turned = _turn(A, Q, 1, 2, 1, 2) or turned
        if not turned:
            break


@kernel
def _turn(A, Q, i, j, ik, jk):
    """Apply the rotation that makes A_ij zero; return whether it was needed.

    `ik` and `jk` are the indices of the other two entries.
    """
    ij = A[3 * i + j]
    if abs(ij) <= 1e-16 * (abs(A[4 * i]) + abs(A[4 * j])):
        return False
    zeta = (A[4 * j] - A[4 * i]) / (2.0 * ij)
    t = math.copysign(1.0, zeta) / (abs(zeta) + math.sqrt(1.0 + zeta * zeta))
    c = 1.0 / math.sqrt(1.0 + t * t)
    s = c * t
    A[4 * i] -= t * ij
    A[4 * j] += t * ij
    A[3 * i + j] = 0.0
    y, z = A[ik], A[jk]
    A[ik], A[jk] = c * y - s * z, s * y + c * z
    for row in range(0, 9, 3):
        y, z = Q[row + i], Q[row + j]
        Q[row + i], Q[row + j] = c * y - s * z, s * y + c * z
    return True


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
