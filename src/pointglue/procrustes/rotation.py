"""The rotation nearest to a 3x3 matrix: the kernels that everything else stands on.

Given A, find the rotation R that maximises tr(R^T A). With the stretch S = R^T A, symmetric with
eigenvalues s1 >= s2 >= |s3|, and its invariants i1 = tr S, i2 = s1 s2 + s1 s3 + s2 s3, i3 = det A,
the theorem of Cayley and Hamilton gives R as a polynomial in A (explanation/derivations):

    R = ((i1^2 - i2) A + i1 cof(A) - A A^T A) / D,    D = i1 i2 - i3 = (s1+s2)(s1+s3)(s2+s3).

i2 and i3 follow from i1, and i1 is the largest root of (x^2 - |A|^2)^2 - 8 det(A) x - 4 |cof A|^2.
An error in i1 only multiplies R by a polynomial in S, so R keeps its polar factor: one Newton-Schulz
step removes it. That is the fast path: no branches, no trigonometry, and the compiler vectorises it
over the batch. It checks itself: the defect |R^T R - I| before the last step, and D, are small or
large for every wrong or ill-conditioned answer. Whatever fails the check goes to `robust_rotation`,
a one-sided Jacobi decomposition, which is slower and right for every finite matrix.
"""

import math

import numpy as np

from ..compute import kernel
from .algebra import product_nt

# Matrices handled together, held as structure of arrays in a scratch buffer that stays in L1. The
# block is always computed whole, padding included, so each matrix meets the same vector code
# wherever it stands in a batch: a batch and a loop over it agree to the last bit.
BLOCK = 64
PART = 16
SCRATCH = 22 * BLOCK

# Below this value of D / i1^3 the polynomial cancels too much: its error is about eps i1^3 / D, which
# is more than the problem's own eps / gap where s1 + s3 is small too.
LEAST_D = 3e-4
# One Newton-Schulz step leaves 3/8 of the square of the defect: below rounding for this one.
MOST_DEFECT = 2e-8
# Squared norms within which the fast path neither overflows nor underflows (it forms |A|^6).
LEAST_SQUARE = 1e-45
MOST_SQUARE = 1e45

# Moments below this may have lost digits to underflow, and have derivatives that overflow: they count
# as zero in a fit.
LEAST_MOMENT = 1e-290
# Scratch space of the routines for a single matrix: four matrices of nine numbers, which begin here.
SCALED, EIGENVECTORS, LEFT, RIGHT, WORK = 0, 9, 18, 27, 36

REGULAR, DEGENERATE, NOT_FINITE, UNRESOLVED = 0, 1, 2, 3  # the status of one rotation

# cos(2/3 arccos h) on [0, 1], Chebyshev interpolation of degree 8, error 4e-9.
_COS = tuple(
    np.polynomial.Chebyshev.interpolate(lambda h: np.cos(2 / 3 * np.arccos(h)), 8, domain=[0, 1])
    .convert(kind=np.polynomial.Polynomial)
    .coef.tolist()
)
_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8 = _COS


@kernel
def _invariants(A, scratch, count):
    """Compute |A|^2, det A and |cof A|^2 of each matrix in the block; A and cof A as structure of arrays."""
    f, d, c, a, k = 0, BLOCK, 2 * BLOCK, 3 * BLOCK, 12 * BLOCK
    for m in range(count):
        j = 9 * m
        a00, a01, a02 = A[j], A[j + 1], A[j + 2]
        a10, a11, a12 = A[j + 3], A[j + 4], A[j + 5]
        a20, a21, a22 = A[j + 6], A[j + 7], A[j + 8]
        k00, k01, k02 = a11 * a22 - a12 * a21, a12 * a20 - a10 * a22, a10 * a21 - a11 * a20
        k10, k11, k12 = a02 * a21 - a01 * a22, a00 * a22 - a02 * a20, a01 * a20 - a00 * a21
        k20, k21, k22 = a01 * a12 - a02 * a11, a02 * a10 - a00 * a12, a00 * a11 - a01 * a10
        scratch[f + m] = (
            (a00 * a00 + a01 * a01 + a02 * a02)
            + (a10 * a10 + a11 * a11 + a12 * a12)
            + (a20 * a20 + a21 * a21 + a22 * a22)
        )
        scratch[d + m] = a00 * k00 + a01 * k01 + a02 * k02
        scratch[c + m] = (
            (k00 * k00 + k01 * k01 + k02 * k02)
            + (k10 * k10 + k11 * k11 + k12 * k12)
            + (k20 * k20 + k21 * k21 + k22 * k22)
        )
        scratch[a + m], scratch[a + BLOCK + m], scratch[a + 2 * BLOCK + m] = a00, a01, a02
        scratch[a + 3 * BLOCK + m], scratch[a + 4 * BLOCK + m], scratch[a + 5 * BLOCK + m] = a10, a11, a12
        scratch[a + 6 * BLOCK + m], scratch[a + 7 * BLOCK + m], scratch[a + 8 * BLOCK + m] = a20, a21, a22
        scratch[k + m], scratch[k + BLOCK + m], scratch[k + 2 * BLOCK + m] = k00, k01, k02
        scratch[k + 3 * BLOCK + m], scratch[k + 4 * BLOCK + m], scratch[k + 5 * BLOCK + m] = k10, k11, k12
        scratch[k + 6 * BLOCK + m], scratch[k + 7 * BLOCK + m], scratch[k + 8 * BLOCK + m] = k20, k21, k22


@kernel
def _coefficients(scratch, least_d, count):
    """Compute the three coefficients of R's polynomial from the invariants, in their place; nan where unsafe.

    s1^2 is the largest root of t^3 - f t^2 + c t - d^2, by the cosine formula; then
    i1 = s1 + sqrt(f - s1^2 + 2 d / s1) and one Newton step on the quartic. The error of the cosine
    formula near s1 = s2 does no harm: di1/ds1 vanishes there.
    """
    for m in range(count):
        f, d, c = scratch[m], scratch[BLOCK + m], scratch[2 * BLOCK + m]
        ff = f * f
        gg = ff - 3.0 * c
        gg = gg if gg > 1e-30 * ff else 1e-30 * ff
        g = math.sqrt(gg)
        hh = 0.5 + 0.25 * (f * (2.0 * ff - 9.0 * c) + 27.0 * d * d) / (gg * g)
        hh = hh if hh > 0.0 else 0.0
        hh = hh if hh < 1.0 else 1.0
        h = math.sqrt(hh)
        cos = _C0 + h * (
            _C1 + h * (_C2 + h * (_C3 + h * (_C4 + h * (_C5 + h * (_C6 + h * (_C7 + h * _C8))))))
        )
        s1s1 = (f + 2.0 * g * cos) * (1.0 / 3.0)
        s1 = math.sqrt(s1s1)
        e = f - s1s1 + 2.0 * d / s1
        e = e if e > 0.0 else 0.0
        x = s1 + math.sqrt(e)
        y = x * x - f
        # The quartic's slope is 8 D, so one reciprocal serves the step and, corrected, 1 / D.
        v = 1.0 / (0.5 * x * y - d)
        x = x - 0.125 * v * (y * y - 8.0 * d * x - 4.0 * c)
        i2 = 0.5 * (x * x - f)
        D = x * i2 - d
        w = v * (2.0 - v * D)
        w = w if least_d * x * x * x < D else math.nan
        w = w if f > LEAST_SQUARE else math.nan
        w = w if f < MOST_SQUARE else math.nan
        scratch[m], scratch[BLOCK + m], scratch[2 * BLOCK + m] = (x * x - i2) * w, x * w, w


@kernel
def _assemble(scratch, R, count):
    """Compute R from its polynomial and one Newton-Schulz step R (3 I - R^T R) / 2; the defect in scratch."""
    a, k, q = 3 * BLOCK, 12 * BLOCK, 21 * BLOCK
    for m in range(count):
        a00, a01, a02 = scratch[a + m], scratch[a + BLOCK + m], scratch[a + 2 * BLOCK + m]
        a10, a11, a12 = scratch[a + 3 * BLOCK + m], scratch[a + 4 * BLOCK + m], scratch[a + 5 * BLOCK + m]
        a20, a21, a22 = scratch[a + 6 * BLOCK + m], scratch[a + 7 * BLOCK + m], scratch[a + 8 * BLOCK + m]
        u, v, w = scratch[m], scratch[BLOCK + m], scratch[2 * BLOCK + m]
        # P = u I - w A^T A, R = A P + v cof(A)
        p00 = u - w * (a00 * a00 + a10 * a10 + a20 * a20)
        p11 = u - w * (a01 * a01 + a11 * a11 + a21 * a21)
        p22 = u - w * (a02 * a02 + a12 * a12 + a22 * a22)
        p01 = -w * (a00 * a01 + a10 * a11 + a20 * a21)
        p02 = -w * (a00 * a02 + a10 * a12 + a20 * a22)
        p12 = -w * (a01 * a02 + a11 * a12 + a21 * a22)
        r00 = v * scratch[k + m] + a00 * p00 + a01 * p01 + a02 * p02
        r01 = v * scratch[k + BLOCK + m] + a00 * p01 + a01 * p11 + a02 * p12
        r02 = v * scratch[k + 2 * BLOCK + m] + a00 * p02 + a01 * p12 + a02 * p22
        r10 = v * scratch[k + 3 * BLOCK + m] + a10 * p00 + a11 * p01 + a12 * p02
        r11 = v * scratch[k + 4 * BLOCK + m] + a10 * p01 + a11 * p11 + a12 * p12
        r12 = v * scratch[k + 5 * BLOCK + m] + a10 * p02 + a11 * p12 + a12 * p22
        r20 = v * scratch[k + 6 * BLOCK + m] + a20 * p00 + a21 * p01 + a22 * p02
        r21 = v * scratch[k + 7 * BLOCK + m] + a20 * p01 + a21 * p11 + a22 * p12
        r22 = v * scratch[k + 8 * BLOCK + m] + a20 * p02 + a21 * p12 + a22 * p22
        q00 = r00 * r00 + r10 * r10 + r20 * r20 - 1.0
        q11 = r01 * r01 + r11 * r11 + r21 * r21 - 1.0
        q22 = r02 * r02 + r12 * r12 + r22 * r22 - 1.0
        q01 = r00 * r01 + r10 * r11 + r20 * r21
        q02 = r00 * r02 + r10 * r12 + r20 * r22
        q12 = r01 * r02 + r11 * r12 + r21 * r22
        scratch[q + m] = abs(q00) + abs(q11) + abs(q22) + abs(q01) + abs(q02) + abs(q12)
        j = 9 * m
        R[j] = r00 - 0.5 * (r00 * q00 + r01 * q01 + r02 * q02)
        R[j + 1] = r01 - 0.5 * (r00 * q01 + r01 * q11 + r02 * q12)
        R[j + 2] = r02 - 0.5 * (r00 * q02 + r01 * q12 + r02 * q22)
        R[j + 3] = r10 - 0.5 * (r10 * q00 + r11 * q01 + r12 * q02)
        R[j + 4] = r11 - 0.5 * (r10 * q01 + r11 * q11 + r12 * q12)
        R[j + 5] = r12 - 0.5 * (r10 * q02 + r11 * q12 + r12 * q22)
        R[j + 6] = r20 - 0.5 * (r20 * q00 + r21 * q01 + r22 * q02)
        R[j + 7] = r21 - 0.5 * (r20 * q01 + r21 * q11 + r22 * q12)
        R[j + 8] = r22 - 0.5 * (r20 * q02 + r21 * q12 + r22 * q22)


@kernel
def part_rotations(A, R, scratch, least_d, count):
    """Compute the first `count` rotations of a block, a multiple of PART; bit-identical by count."""
    _invariants(A, scratch, count)
    _coefficients(scratch, least_d, count)
    _assemble(scratch, R, count)


@kernel
def block_rotations(A, R, scratch, least_d):
    """Compute rotations of BLOCK matrices, flat; ``block_failed(scratch, m)`` tells which are not valid."""
    part_rotations(A, R, scratch, least_d, BLOCK)


@kernel
def block_failed(scratch, m):
    """Whether matrix m of the block has to go to `robust_rotation` (true for nan)."""
    return not scratch[21 * BLOCK + m] < MOST_DEFECT


@kernel
def _rotate_columns(B, V, p, q):
    """Make columns p and q of B orthogonal by a Jacobi rotation, also of V; return if one was needed."""
    pp = B[p] * B[p] + B[3 + p] * B[3 + p] + B[6 + p] * B[6 + p]
    qq = B[q] * B[q] + B[3 + q] * B[3 + q] + B[6 + q] * B[6 + q]
    pq = B[p] * B[q] + B[3 + p] * B[3 + q] + B[6 + p] * B[6 + q]
    if not pq * pq > (4e-16 * pp) * (4e-16 * qq):  # also where both underflow: such a column is nothing
        return False
    zeta = (qq - pp) / (2.0 * pq)
    t = math.copysign(1.0, zeta) / (abs(zeta) + math.sqrt(1.0 + zeta * zeta))
    c = 1.0 / math.sqrt(1.0 + t * t)
    s = c * t
    for row in range(0, 9, 3):
        x, y = B[row + p], B[row + q]
        B[row + p], B[row + q] = c * x - s * y, s * x + c * y
        x, y = V[row + p], V[row + q]
        V[row + p], V[row + q] = c * x - s * y, s * x + c * y
    return True


@kernel
def _length(B, k):
    """Return the length of column k of B, whose squares might underflow."""
    largest = max(abs(B[k]), abs(B[3 + k]), abs(B[6 + k]))
    if largest == 0.0:
        return 0.0
    total = 0.0
    for row in range(0, 9, 3):
        total += (B[row + k] / largest) ** 2
    return largest * math.sqrt(total)


@kernel
def _complete(U):
    """Make column 2 of U the cross product of columns 0 and 1."""
    U[2] = U[3] * U[7] - U[6] * U[4]
    U[5] = U[6] * U[1] - U[0] * U[7]
    U[8] = U[0] * U[4] - U[3] * U[1]


@kernel
def robust_rotation(A, R, s, work):
    """Compute R (9) and signed singular values s (3, descending) of any matrix A; False if not finite.

    One-sided Jacobi: A V = U diag(s) with A scaled by a power of two. The third axes are the cross
    products of the first two, which makes R proper and the smallest singular value signed. Where A
    leaves the second axis free, some perpendicular axis is taken. In `work` it leaves V from EIGENVECTORS
    on, and U and V with sorted columns from LEFT and RIGHT on.
    """
    largest = 0.0
    for j in range(9):
        if not abs(A[j]) < math.inf:
            return False
        largest = max(largest, abs(A[j]))
    _, exponent = math.frexp(largest)
    B, V = work[SCALED : SCALED + 9], work[EIGENVECTORS : EIGENVECTORS + 9]
    U, W = work[LEFT : LEFT + 9], work[RIGHT : RIGHT + 9]
    for j in range(9):
        B[j] = math.ldexp(A[j], -exponent)
        V[j] = 1.0 if j % 4 == 0 else 0.0
    for _sweep in range(20):  # 4 or 5 sweeps are enough; the limit only guards the loop
        rotated = False
        for pair in range(3):
            rotated = _rotate_columns(B, V, pair // 2, (pair + 3) // 2) or rotated
        if not rotated:
            break
    for k in range(3):
        s[k] = _length(B, k)
    first = 0 if s[0] >= s[1] and s[0] >= s[2] else (1 if s[1] >= s[2] else 2)
    second, third = (first + 1) % 3, (first + 2) % 3
    if s[second] < s[third]:
        second, third = third, second
    s1, s2 = s[first], s[second]

    for row in range(0, 9, 3):
        U[row] = B[row + first] / s1 if s1 > 0.0 else (1.0 if row == 0 else 0.0)
        U[row + 1] = B[row + second] / s2 if s2 > 0.0 else 0.0
        W[row], W[row + 1] = V[row + first], V[row + second]
    along = U[0] * U[1] + U[3] * U[4] + U[6] * U[7]
    for row in range(0, 9, 3):
        U[row + 1] -= along * U[row]
    if not U[1] * U[1] + U[4] * U[4] + U[7] * U[7] > 0.25:
        # No second axis, or nothing but rounding: any perpendicular will do.
        least = (
            0 if abs(U[0]) <= abs(U[3]) and abs(U[0]) <= abs(U[6]) else (1 if abs(U[3]) <= abs(U[6]) else 2)
        )
        before, after = (least + 1) % 3, (least + 2) % 3
        U[3 * least + 1] = 0.0
        U[3 * before + 1], U[3 * after + 1] = -U[3 * after], U[3 * before]
    length = math.sqrt(U[1] * U[1] + U[4] * U[4] + U[7] * U[7])
    for row in range(0, 9, 3):
        U[row + 1] /= length
    _complete(U)
    _complete(W)
    product_nt(U, W, R)

    mirrored = W[2] * V[third] + W[5] * V[3 + third] + W[8] * V[6 + third] < 0.0
    s3 = U[2] * B[third] + U[5] * B[3 + third] + U[8] * B[6 + third]
    s[0], s[1] = math.ldexp(s1, exponent), math.ldexp(s2, exponent)
    s[2] = math.ldexp(max(-s2, min(s2, -s3 if mirrored else s3)), exponent)
    return True


@kernel
def _rotate_towards(U, W, before, s, pull, R):
    """Rotate R = U W^T within the plane that A leaves free, towards the rotation `before`.

    With c, d the cosine and sine of the angle, tr(R^T A) gains (s2 + s3) c and tr(R^T before) the rest
    of the sum below; the best angle is the direction of that vector. The first axes stay as they are.
    """
    along, across = s[1] + s[2], 0.0
    for i in range(3):
        for j in range(3):
            along += pull * before[3 * i + j] * (U[3 * i + 1] * W[3 * j + 1] + U[3 * i + 2] * W[3 * j + 2])
            across += pull * before[3 * i + j] * (U[3 * i + 2] * W[3 * j + 1] - U[3 * i + 1] * W[3 * j + 2])
    largest = max(abs(along), abs(across))
    if not largest > 0.0:
        return
    c, d = along / largest, across / largest  # first by the largest: both may be subnormal
    length = math.sqrt(c * c + d * d)
    c, d = c / length, d / length
    for row in range(0, 9, 3):
        u2, u3 = U[row + 1], U[row + 2]
        U[row + 1], U[row + 2] = c * u2 + d * u3, c * u3 - d * u2
    product_nt(U, W, R)


@kernel
def robust_rotations(start, stop, which, A, previous, min_gap, R, status):
    """Compute rotations R and status of the matrices A[which], also where A does not determine R.

    Below `min_gap` the spin that A leaves free is pulled towards the `previous` rotation, (n, 9) or
    (1, 9), with the strength (min_gap - gap) s1: continuous where the gap crosses `min_gap`, and equal
    to the best rotation closest to the previous one where the gap is zero.
    """
    work, s = np.empty(WORK), np.empty(3)
    for at in range(start, stop):
        n = which[at]
        before = previous[n % len(previous)]
        status[n] = NOT_FINITE
        if not robust_rotation(A[n], R[n], s, work):
            continue
        pull = min_gap * s[0] - (s[1] + s[2])
        if s[0] == 0.0:
            status[n] = DEGENERATE
            for j in range(9):
                R[n, j] = before[j]
        elif pull > 0.0:
            status[n] = DEGENERATE
            _rotate_towards(work[LEFT : LEFT + 9], work[RIGHT : RIGHT + 9], before, s, pull, R[n])
        else:
            status[n] = REGULAR


@kernel
def rotations(start, stop, A, least_d, R, status):
    """Compute rotations R of matrices A, all (n, 9); UNRESOLVED where `robust_rotations` has to look."""
    scratch, padded, spare = np.empty(SCRATCH), np.zeros(9 * BLOCK), np.empty(9 * BLOCK)
    flat_A, flat_R = A.reshape(-1), R.reshape(-1)
    for base in range(start, stop, BLOCK):
        count = min(BLOCK, stop - base)
        source, target = flat_A[9 * base :], flat_R[9 * base :]
        if count < BLOCK:
            for j in range(9 * count):
                padded[j] = source[j]
            source, target = padded, spare
        block_rotations(source, target, scratch, least_d)
        for j in range(9 * count if count < BLOCK else 0):
            flat_R[9 * base + j] = spare[j]
        for m in range(count):
            status[base + m] = UNRESOLVED if block_failed(scratch, m) else REGULAR


@kernel
def singular_values(start, stop, A, s):
    """Compute the singular values s (n, 3): descending, the last one signed like det A."""
    work, R = np.empty(WORK), np.empty(9)
    for n in range(start, stop):
        robust_rotation(A[n], R, s[n], work)


@kernel
def stretch(R, A, S):
    """S = R^T A, made exactly symmetric; all flat."""
    for j in range(3):
        for k in range(j, 3):
            value = 0.5 * (
                (R[j] * A[k] + R[3 + j] * A[3 + k] + R[6 + j] * A[6 + k])
                + (R[k] * A[j] + R[3 + k] * A[3 + j] + R[6 + k] * A[6 + j])
            )
            S[3 * j + k] = value
            S[3 * k + j] = value


@kernel
def _block_compliances(R, A, G, least_d):
    """G = (A^T A + i2 I) / D of BLOCK matrices, all flat; nan where D is small."""
    for m in range(BLOCK):
        j = 9 * m
        a00, a01, a02 = A[j], A[j + 1], A[j + 2]
        a10, a11, a12 = A[j + 3], A[j + 4], A[j + 5]
        a20, a21, a22 = A[j + 6], A[j + 7], A[j + 8]
        c00 = a00 * a00 + a10 * a10 + a20 * a20
        c11 = a01 * a01 + a11 * a11 + a21 * a21
        c22 = a02 * a02 + a12 * a12 + a22 * a22
        c01 = a00 * a01 + a10 * a11 + a20 * a21
        c02 = a00 * a02 + a10 * a12 + a20 * a22
        c12 = a01 * a02 + a11 * a12 + a21 * a22
        i1 = (
            (R[j] * a00 + R[j + 1] * a01 + R[j + 2] * a02)
            + (R[j + 3] * a10 + R[j + 4] * a11 + R[j + 5] * a12)
            + (R[j + 6] * a20 + R[j + 7] * a21 + R[j + 8] * a22)
        )
        f = c00 + c11 + c22
        i2 = 0.5 * (i1 * i1 - f)
        i3 = a00 * (a11 * a22 - a12 * a21) + a01 * (a12 * a20 - a10 * a22) + a02 * (a10 * a21 - a11 * a20)
        D = i1 * i2 - i3
        w = 1.0 / D
        w = w if least_d * i1 * i1 * i1 < D else math.nan
        w = w if f > LEAST_SQUARE else math.nan
        w = w if f < MOST_SQUARE else math.nan
        g01, g02, g12 = w * c01, w * c02, w * c12
        G[j], G[j + 1], G[j + 2] = w * (c00 + i2), g01, g02
        G[j + 3], G[j + 4], G[j + 5] = g01, w * (c11 + i2), g12
        G[j + 6], G[j + 7], G[j + 8] = g02, g12, w * (c22 + i2)


@kernel
def compliances(start, stop, R, A, least_d, G):
    """G = (tr(S) I - S)^-1, S = R^T A, all (n, 9); nan where `clamped_compliances` has to look."""
    padded_R, padded_A, padded_G = np.zeros(9 * BLOCK), np.zeros(9 * BLOCK), np.empty(9 * BLOCK)
    flat_R, flat_A, flat_G = R.reshape(-1), A.reshape(-1), G.reshape(-1)
    for base in range(start, stop, BLOCK):
        count = min(BLOCK, stop - base)
        rotations, moments, target = flat_R[9 * base :], flat_A[9 * base :], flat_G[9 * base :]
        if count < BLOCK:
            for j in range(9 * count):
                padded_R[j], padded_A[j] = rotations[j], moments[j]
            rotations, moments, target = padded_R, padded_A, padded_G
        _block_compliances(rotations, moments, target, least_d)
        for j in range(9 * count if count < BLOCK else 0):
            flat_G[9 * base + j] = padded_G[j]


@kernel
def clamped_compliances(start, stop, which, R, A, min_gap, G):
    """Compute the same by eigenvalues: accurate throughout, and fading to zero where the spin is free.

    An eigenvalue mu of H = tr(S) I - S below t = min_gap s1 is inverted as mu / t^2: bounded by
    1 / t, continuous, and the pseudo-inverse at mu = 0.
    """
    work, S, H, mu = np.empty(WORK), np.empty(9), np.empty(9), np.empty(3)
    V = work[
        EIGENVECTORS : EIGENVECTORS + 9
    ]  # where robust_rotation leaves the eigenvectors, in no particular order
    for at in range(start, stop):
        n = which[at]
        stretch(R[n], A[n], S)
        trace = S[0] + S[4] + S[8]
        for j in range(9):
            H[j] = (trace if j % 4 == 0 else 0.0) - S[j]
            G[n, j] = 0.0
        robust_rotation(H, S, mu, work)
        s1 = trace - mu[2]
        if s1 < LEAST_MOMENT:
            continue
        threshold = min_gap * s1
        for k in range(3):
            x, y, z = V[k], V[3 + k], V[6 + k]
            eigen = (
                x * (H[0] * x + H[1] * y + H[2] * z)
                + y * (H[3] * x + H[4] * y + H[5] * z)
                + z * (H[6] * x + H[7] * y + H[8] * z)
            )
            inverse = 1.0 / eigen if eigen > threshold else max(eigen, 0.0) / threshold / threshold
            for row in range(3):
                for column in range(3):
                    G[n, 3 * row + column] += inverse * V[3 * row + k] * V[3 * column + k]
