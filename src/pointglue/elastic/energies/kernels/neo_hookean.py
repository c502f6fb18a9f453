"""The stable neo-Hookean material: its energy by the deformation gradient, and the derivatives.

With F the deformation gradient, flat and row by row, the energy per volume at rest is (Smith, de Goes and Kim
2018, less its value at rest)

    psi = mu/2 (I - 3 - log((I + 1)/4)) + lambda/2 (J - 1)^2 - 3/4 mu (J - 1),    I = |F|^2,  J = det F.

With p = d psi / d J, m = mu (1 - 1/(I + 1)), c = 2 mu/(I + 1)^2 and C = cof F:

    stress                                       d psi / d F = m F + p C
    second derivative between b_a and b_b        m (b_a . b_b) 1 + c (F b_a)(F b_b)^T
                                                 + lambda (C b_a)(C b_b)^T - p [F (b_a x b_b)]x

where three vectors b_a (flat, 9) choose the basis: entry (3 a + i, 3 b + j) is the derivative by changes of F
that are e_i b_a^T and e_j b_b^T.
"""

import math
from typing import NamedTuple

from ....compute import kernel
from ....procrustes.algebra import product, product_tn

__all__ = ["cofactors", "density", "diagonalise", "invariants", "project", "second_derivative"]


class Coefficients(NamedTuple):
    """The numbers of a second derivative."""

    m: float
    c: float
    lam: float
    p: float


@kernel
def invariants(F):
    """Return I = |F|^2 and J = det F."""
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
def density(square, det, mu, lam):
    """Return psi, by I and J."""
    change, growth = square - 3.0, det - 1.0
    return 0.5 * mu * (change - math.log1p(0.25 * change)) + growth * (0.5 * lam * growth - 0.75 * mu)


@kernel
def cofactors(F, C):
    """Fill C = cof F = d det F / d F."""
    C[0], C[1], C[2] = F[4] * F[8] - F[5] * F[7], F[5] * F[6] - F[3] * F[8], F[3] * F[7] - F[4] * F[6]
    C[3], C[4], C[5] = F[2] * F[7] - F[1] * F[8], F[0] * F[8] - F[2] * F[6], F[1] * F[6] - F[0] * F[7]
    C[6], C[7], C[8] = F[1] * F[5] - F[2] * F[4], F[2] * F[3] - F[0] * F[5], F[0] * F[4] - F[1] * F[3]


@kernel
def second_derivative(F, b, mu, lam, H, scratch):
    """Fill in the upper blocks of H (9, 9), the second derivative in the basis b; return its coefficients.

    `scratch` is (3, 9).
    """
    C, f, g = scratch[0], scratch[1], scratch[2]
    square, det = invariants(F)
    m, c, p = mu * (square / (square + 1.0)), 2.0 * mu / (square + 1.0) ** 2, lam * (det - 1.0) - 0.75 * mu
    cofactors(F, C)
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
    return Coefficients(m, c, lam, p)


@kernel
def project(F, R, b, coefficients, H, scratch):
    """Remove the negative eigenvalues from H, in closed form but for a 3x3 matrix; R is the rotation of F.

    With F = U diag(s) W^T, the second derivative of psi has the eigenmatrices (u_i w_j^T -+ u_j w_i^T)/sqrt 2
    with the values m +- p s_k, and three that are sums of the u_i w_i^T. `scratch` is (7, 9).
    """
    m, c, lam, p = coefficients
    S, W, U, N, mode = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    A, Q = scratch[5], scratch[6]
    product_tn(R, F, S)
    diagonalise(S, W)
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
    diagonalise(A, Q)
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
def diagonalise(A, Q):
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
