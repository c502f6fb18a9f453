"""Energy, forces and stiffness of cloth: triangles that stretch and hinges that bend.

Both stiffnesses are sums of terms  a y y^T + b (y z^T + z y^T) + d z z^T  with vectors y and z that no
other term shares. They are exact. Triangles are made positive semidefinite term by term, by the eigenvalues
of (a b; b d); hinges by leaving out the second derivative of the angle (Gauss-Newton).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array
from ....compute import kernel

__all__ = [
    "Hinges",
    "Triangles",
    "angles",
    "bend_gradients",
    "bend_hessians",
    "bend_values",
    "predict_stress",
    "stretch_gradients",
    "stretch_hessians",
    "stretch_values",
]

SQRT_HALF = math.sqrt(0.5)


class Triangles(NamedTuple):
    """The elements that stretch: m triangles."""

    corners: NDArray[np.int64]
    """(m, 3): the points of each."""
    weight_gradients: Array
    """(m, 4): the gradients b_1 and b_2 of the corners' weights at rest [1/m]; b_0 is minus their sum."""
    area: Array
    """(m,): V at rest [m^2]."""
    mu: Array
    """(m,): the shear modulus times the thickness [N/m]."""
    lam: Array
    """(m,): the second modulus, lambda, times the thickness [N/m]."""
    stiffening: Array
    """(m,): the factor of the pull beyond the limit [N/m]."""
    limit: Array
    """(m,): the principal stretch beyond which cloth stiffens [1]."""


class Hinges(NamedTuple):
    """The elements that bend: h hinges."""

    corners: NDArray[np.int64]
    """(h, 4): the tip of one flap, both ends of the axis, the tip of the other flap."""
    stiffness: Array
    """(h,): k, the moment by angle [N m]."""
    rest_angle: Array
    """(h,): the angle at rest [rad]."""
    min_length: Array
    """(h,): lengths of less than this count as this much where they divide [m]."""


@kernel
def _sum(terms, y, project, modes, out):
    """Set out to the sum of terms (a, b, d), of two rows of y each; `project` drops negative eigenvalues.

    Symmetric to the last bit. `modes` (2, n) is scratch space.
    """
    n = y.shape[1]
    for i in range(n):
        for j in range(n):
            out[i, j] = 0.0
    for k in range(len(terms)):
        a, b, d = terms[k, 0], terms[k, 1], terms[k, 2]
        half, mean = 0.5 * (a - d), 0.5 * (a + d)
        radius = math.sqrt(half * half + b * b)
        u, v = (half + radius, b) if half >= 0.0 else (b, radius - half)
        length = math.sqrt(u * u + v * v)
        u, v = (u / length, v / length) if length > 0.0 else (1.0, 0.0)
        for which in range(2):
            value = mean + radius
            if which == 1:
                value, u, v = mean - radius, -v, u
            if value == 0.0 or (value < 0.0 and project):
                continue
            scale, sign = math.sqrt(abs(value)), math.copysign(1.0, value)
            for i in range(n):
                modes[0, i] = scale * (u * y[2 * k, i] + v * y[2 * k + 1, i])
                modes[1, i] = sign * modes[0, i]
            for i in range(n):
                factor = modes[1, i]
                for j in range(n):
                    out[i, j] += factor * modes[0, j]


@kernel
def _strain(x, face, b, F):
    """Fill F (flat, 3x2: columns along the rest axes) of one triangle; return C_00, C_01, C_11, C = F^T F."""
    i0, i1, i2 = face[0], face[1], face[2]
    for row in range(3):
        d1, d2 = x[i1, row] - x[i0, row], x[i2, row] - x[i0, row]
        F[2 * row] = d1 * b[0] + d2 * b[2]
        F[2 * row + 1] = d1 * b[1] + d2 * b[3]
    return (
        F[0] * F[0] + F[2] * F[2] + F[4] * F[4],
        F[0] * F[1] + F[2] * F[3] + F[4] * F[5],
        F[1] * F[1] + F[3] * F[3] + F[5] * F[5],
    )


@kernel
def _stretches(c00, c01, c11):
    """Return the greater and the lesser principal stretch, the roots of the eigenvalues of C."""
    mean, half = 0.5 * (c00 + c11), 0.5 * (c00 - c11)
    radius = math.sqrt(half * half + c01 * c01)
    return math.sqrt(mean + radius), math.sqrt(max(mean - radius, 0.0))


@kernel
def stretch_values(start, stop, x, triangles, out):
    """Fill in the energy (m,) of each triangle.

    With the strain G = (F^T F - 1)/2 and the principal stretches s_i it is

    V (lambda/2 tr(G)^2 + mu |G|^2 + sum over s_i > limit of stiffening (s_i - limit)^3 / 3),    V the area.
    """
    F = np.empty(6)
    for e in range(start, stop):
        area, mu, lam = triangles.area[e], triangles.mu[e], triangles.lam[e]
        stiffening, limit = triangles.stiffening[e], triangles.limit[e]
        c00, c01, c11 = _strain(x, triangles.corners[e], triangles.weight_gradients[e], F)
        g00, g01, g11 = 0.5 * (c00 - 1.0), 0.5 * c01, 0.5 * (c11 - 1.0)
        total = 0.5 * lam * (g00 + g11) ** 2 + mu * (g00 * g00 + 2.0 * g01 * g01 + g11 * g11)
        if c00 + c11 > limit * limit:
            s1, s2 = _stretches(c00, c01, c11)
            total += stiffening / 3.0 * (max(s1 - limit, 0.0) ** 3 + max(s2 - limit, 0.0) ** 3)
        out[e] = area * total


@kernel
def stretch_gradients(start, stop, x, triangles, out):
    """Fill in the gradient (m, 3, 3) by the corners of each triangle, V F S b_a, with the stress

    S = lambda tr(G) 1 + 2 mu G + h(C),    h(s^2) = stiffening (s - limit)^2 / s for s > limit.
    """
    F = np.empty(6)
    for e in range(start, stop):
        b, area = triangles.weight_gradients[e], triangles.area[e]
        mu, lam = triangles.mu[e], triangles.lam[e]
        stiffening, limit = triangles.stiffening[e], triangles.limit[e]
        c00, c01, c11 = _strain(x, triangles.corners[e], b, F)
        # S = p 1 + q C
        p, q = 0.5 * lam * (c00 + c11 - 2.0) - mu, mu
        if c00 + c11 > limit * limit:
            s1, s2 = _stretches(c00, c01, c11)
            if s1 > limit:
                first = stiffening * (s1 - limit) ** 2 / s1
                if s2 > limit:
                    slope = stiffening * (1.0 - limit * limit / (s1 * s2)) / (s1 + s2)
                else:
                    slope = first / ((s1 - s2) * (s1 + s2))
                p += first - slope * s1 * s1
                q += slope
        s00, s01, s11 = area * (p + q * c00), area * (q * c01), area * (p + q * c11)
        t10, t11 = s00 * b[0] + s01 * b[1], s01 * b[0] + s11 * b[1]
        t20, t21 = s00 * b[2] + s01 * b[3], s01 * b[2] + s11 * b[3]
        for row in range(3):
            g1 = F[2 * row] * t10 + F[2 * row + 1] * t11
            g2 = F[2 * row] * t20 + F[2 * row + 1] * t21
            out[e, 0, row], out[e, 1, row], out[e, 2, row] = -(g1 + g2), g1, g2


@kernel
def _frame(F, c00, c01, c11, U):
    """Fill U (flat) with the principal axes u_1, u_2 and the normal as rows; return w_1 and the stretches.

    w_1 is the principal axis at rest, w_2 is at its left. Where the triangle has collapsed, the axes are any
    that fit.
    """
    half = 0.5 * (c00 - c11)
    radius = math.sqrt(half * half + c01 * c01)
    wx, wy = (half + radius, c01) if half >= 0.0 else (c01, radius - half)
    length = math.sqrt(wx * wx + wy * wy)
    wx, wy = (wx / length, wy / length) if length > 0.0 else (1.0, 0.0)
    ux, uy, uz = F[0] * wx + F[1] * wy, F[2] * wx + F[3] * wy, F[4] * wx + F[5] * wy
    s1 = math.sqrt(ux * ux + uy * uy + uz * uz)
    ux, uy, uz = (ux / s1, uy / s1, uz / s1) if s1 > 0.0 else (1.0, 0.0, 0.0)
    nx, ny, nz = F[2] * F[5] - F[4] * F[3], F[4] * F[1] - F[0] * F[5], F[0] * F[3] - F[2] * F[1]
    area = math.sqrt(nx * nx + ny * ny + nz * nz)
    if not area > 1e-15 * s1 * s1:
        nx, ny, nz = (0.0, -uz, uy) if abs(ux) < 0.8 else (uz, 0.0, -ux)
        area = 0.0
    along = nx * ux + ny * uy + nz * uz
    nx, ny, nz = nx - along * ux, ny - along * uy, nz - along * uz
    length = math.sqrt(nx * nx + ny * ny + nz * nz)
    nx, ny, nz = nx / length, ny / length, nz / length
    U[0], U[1], U[2] = ux, uy, uz
    U[3], U[4], U[5] = ny * uz - nz * uy, nz * ux - nx * uz, nx * uy - ny * ux
    U[6], U[7], U[8] = nx, ny, nz
    return wx, wy, s1, area / s1 if s1 > 0.0 else 0.0


@kernel
def stretch_hessians(start, stop, x, triangles, project, out):
    """Fill in the stiffness (m, 9, 9) of each triangle.

    The second derivative by F of an energy psi(s1, s2) has the eigenmatrices (u_1 w_2^T -+ u_2 w_1^T)/sqrt 2
    with the values (psi_1 +- psi_2)/(s1 +- s2), and n w_i^T with psi_i / s_i, where psi_i is d psi / d s_i;
    between the u_i w_i^T it is the matrix psi_ij.
    """
    F, U, y = np.empty(6), np.empty(9), np.empty((6, 9))
    terms, modes = np.zeros((3, 3)), np.empty((2, 9))
    for e in range(start, stop):
        b, area = triangles.weight_gradients[e], triangles.area[e]
        mu, lam = triangles.mu[e], triangles.lam[e]
        stiffening, limit = triangles.stiffening[e], triangles.limit[e]
        c00, c01, c11 = _strain(x, triangles.corners[e], b, F)
        wx, wy, s1, s2 = _frame(F, c00, c01, c11, U)
        for corner in range(3):
            bx, by = (b[2 * corner - 2], b[2 * corner - 1]) if corner else (-b[0] - b[2], -b[1] - b[3])
            n1, n2 = bx * wx + by * wy, by * wx - bx * wy
            for row in range(3):
                i = 3 * corner + row
                y[0, i], y[1, i] = U[row] * n1, U[3 + row] * n2
                y[2, i] = SQRT_HALF * (U[row] * n2 - U[3 + row] * n1)
                y[3, i] = SQRT_HALF * (U[row] * n2 + U[3 + row] * n1)
                y[4, i], y[5, i] = U[6 + row] * n1, U[6 + row] * n2
        over1, over2 = max(s1 - limit, 0.0), max(s2 - limit, 0.0)
        pull1, pull2 = stiffening * over1 * over1, stiffening * over2 * over2
        common = 0.5 * lam * (s1 * s1 + s2 * s2 - 2.0)
        p1, p2 = common + mu * (s1 * s1 - 1.0), common + mu * (s2 * s2 - 1.0)
        a11 = p1 + (lam + 2.0 * mu) * s1 * s1 + 2.0 * stiffening * over1
        a22 = p2 + (lam + 2.0 * mu) * s2 * s2 + 2.0 * stiffening * over2
        twist = common + mu * (s1 * s1 - s1 * s2 + s2 * s2 - 1.0)
        flip = common + mu * (s1 * s1 + s1 * s2 + s2 * s2 - 1.0)
        if over1 > 0.0:
            twist += (pull1 + pull2) / (s1 + s2)
            flip += stiffening * (over1 + over2) if over2 > 0.0 else pull1 / (s1 - s2)
            p1 += pull1 / s1
            p2 += pull2 / s2 if over2 > 0.0 else 0.0
        terms[0, 0], terms[0, 1], terms[0, 2] = area * a11, area * lam * s1 * s2, area * a22
        terms[1, 0], terms[1, 2] = area * twist, area * flip
        terms[2, 0], terms[2, 2] = area * p1, area * p2
        _sum(terms, y, project, modes, out[e])


@kernel
def predict_stress(start, stop, x, before, triangles, out):
    """Remove from the stiffness (m, 9, 9) of each triangle the stress of second order in the last step.

    From `before` to x the strain grows by sym(F^T dF) + dF^T dF / 2; the stress of the second term, which a
    linear step does not foresee, is subtracted.
    """
    F, D = np.empty(6), np.empty(6)
    for e in range(start, stop):
        b, area = triangles.weight_gradients[e], triangles.area[e]
        mu, lam = triangles.mu[e], triangles.lam[e]
        _strain(x, triangles.corners[e], b, F)
        _strain(before, triangles.corners[e], b, D)
        for j in range(6):
            D[j] = F[j] - D[j]
        g00 = 0.5 * area * (D[0] * D[0] + D[2] * D[2] + D[4] * D[4])
        g01 = 0.5 * area * (D[0] * D[1] + D[2] * D[3] + D[4] * D[5])
        g11 = 0.5 * area * (D[1] * D[1] + D[3] * D[3] + D[5] * D[5])
        s00, s01, s11 = lam * (g00 + g11) + 2.0 * mu * g00, 2.0 * mu * g01, lam * (g00 + g11) + 2.0 * mu * g11
        for i in range(3):
            ix, iy = (b[2 * i - 2], b[2 * i - 1]) if i else (-b[0] - b[2], -b[1] - b[3])
            sx, sy = s00 * ix + s01 * iy, s01 * ix + s11 * iy
            for j in range(i, 3):
                jx, jy = (b[2 * j - 2], b[2 * j - 1]) if j else (-b[0] - b[2], -b[1] - b[3])
                value = sx * jx + sy * jy
                for row in range(3):
                    out[e, 3 * i + row, 3 * j + row] -= value
                    if i != j:
                        out[e, 3 * j + row, 3 * i + row] -= value


@kernel
def _hinge(x, hinge, floor, frame):
    """Fill the frame of one hinge; return its angle, |axis|, h_0, t_0, h_3, t_3.

    Points 1 and 2 are its axis, of the direction a, points 0 and 3 the tips of its flaps, of normals n. A
    flap has its height h, from the foot at the fraction t of the way from 1 to 2, along m. The angle is
    positive where the tips rise to the side of the normals. The rows of `frame` are a, n_0, m_0, n_3, m_3.
    Lengths of less than `floor` count as that much where they divide.
    """
    i0, i1, i2, i3 = hinge[0], hinge[1], hinge[2], hinge[3]
    ax, ay, az = x[i2, 0] - x[i1, 0], x[i2, 1] - x[i1, 1], x[i2, 2] - x[i1, 2]
    px, py, pz = x[i0, 0] - x[i1, 0], x[i0, 1] - x[i1, 1], x[i0, 2] - x[i1, 2]
    qx, qy, qz = x[i3, 0] - x[i1, 0], x[i3, 1] - x[i1, 1], x[i3, 2] - x[i1, 2]
    length = max(math.sqrt(ax * ax + ay * ay + az * az), floor)
    ax, ay, az = ax / length, ay / length, az / length
    t0, t3 = (px * ax + py * ay + pz * az) / length, (qx * ax + qy * ay + qz * az) / length
    # The normals are axis x flap on one side and flap x axis on the other, as long as the heights.
    nx, ny, nz = ay * pz - az * py, az * px - ax * pz, ax * py - ay * px
    ox, oy, oz = qy * az - qz * ay, qz * ax - qx * az, qx * ay - qy * ax
    sine = ax * (oy * nz - oz * ny) + ay * (oz * nx - ox * nz) + az * (ox * ny - oy * nx)
    angle = math.atan2(sine, nx * ox + ny * oy + nz * oz)
    h0 = max(math.sqrt(nx * nx + ny * ny + nz * nz), floor)
    h3 = max(math.sqrt(ox * ox + oy * oy + oz * oz), floor)
    nx, ny, nz, ox, oy, oz = nx / h0, ny / h0, nz / h0, ox / h3, oy / h3, oz / h3
    frame[0, 0], frame[0, 1], frame[0, 2] = ax, ay, az
    frame[1, 0], frame[1, 1], frame[1, 2] = nx, ny, nz
    frame[2, 0], frame[2, 1], frame[2, 2] = ny * az - nz * ay, nz * ax - nx * az, nx * ay - ny * ax
    frame[3, 0], frame[3, 1], frame[3, 2] = ox, oy, oz
    frame[4, 0], frame[4, 1], frame[4, 2] = ay * oz - az * oy, az * ox - ax * oz, ax * oy - ay * ox
    return angle, length, h0, t0, h3, t3


@kernel
def angles(start, stop, x, hinges, floor, out):
    """Fill in the angle (h,) of each hinge, from -pi to pi."""
    frame = np.empty((5, 3))
    for e in range(start, stop):
        out[e] = _hinge(x, hinges[e], floor[e], frame)[0]


@kernel
def _from_rest(angle, rest):
    """Return angle - rest, the short way round."""
    bent = angle - rest
    if bent > math.pi:
        bent -= 2.0 * math.pi
    elif bent < -math.pi:
        bent += 2.0 * math.pi
    return bent


@kernel
def bend_values(start, stop, x, hinges, out):
    """Fill in the energy (h,) of each hinge: k/2 (angle - rest)^2."""
    frame = np.empty((5, 3))
    for e in range(start, stop):
        angle = _hinge(x, hinges.corners[e], hinges.min_length[e], frame)[0]
        out[e] = 0.5 * hinges.stiffness[e] * _from_rest(angle, hinges.rest_angle[e]) ** 2


@kernel
def bend_gradients(start, stop, x, hinges, out):
    """Fill in the gradient (h, 4, 3) by the points of each hinge; that of the angle by a tip is n / h."""
    frame = np.empty((5, 3))
    for e in range(start, stop):
        angle, _, h0, t0, h3, t3 = _hinge(x, hinges.corners[e], hinges.min_length[e], frame)
        moment = hinges.stiffness[e] * _from_rest(angle, hinges.rest_angle[e])
        for row in range(3):
            g0, g3 = moment / h0 * frame[1, row], moment / h3 * frame[3, row]
            out[e, 0, row], out[e, 3, row] = g0, g3
            out[e, 1, row] = -((1.0 - t0) * g0 + (1.0 - t3) * g3)
            out[e, 2, row] = -(t0 * g0 + t3 * g3)


@kernel
def bend_hessians(start, stop, x, hinges, project, out):
    """Fill in the stiffness (h, 12, 12) of each hinge.

    Let w be the motion of a tip from that of its foot, v that of the axis' end from its beginning, and
    A = n . w / h, B = m . w / h, L = a . w / h of a flap, D = n . v / |axis|, M = m . v / |axis|. The angle's
    first derivative is A_0 + A_3 and its second the sum over both flaps of  -2 A B - D M - 2 L D.
    Sums and differences over the flaps, and the directions p between the normals and q across, decouple it:

        -2 A+ B+ - 2 A- B- - sin(angle) (P^2 - Q^2) - sqrt 8 (cos(angle/2) P L+ + sin(angle/2) Q L-).
    """
    frame, y = np.empty((5, 3)), np.empty((8, 12))
    terms, modes = np.zeros((4, 3)), np.empty((2, 12))
    for e in range(start, stop):
        angle, length, h0, t0, h3, t3 = _hinge(x, hinges.corners[e], hinges.min_length[e], frame)
        k = hinges.stiffness[e]
        d = 0.0 if project else k * _from_rest(angle, hinges.rest_angle[e])
        cos, sin = math.cos(0.5 * angle), math.sin(0.5 * angle)
        r0, r3 = SQRT_HALF / h0, SQRT_HALF / h3
        for row in range(3):
            a, n, m = frame[0, row], frame[1, row], frame[2, row]
            _pair(y[0], y[2], row, r0 * n, t0, r3 * frame[3, row], t3)
            _pair(y[1], y[3], row, r0 * m, t0, r3 * frame[4, row], t3)
            _pair(y[5], y[7], row, r0 * a, t0, r3 * a, t3)
            p, q = (cos * n + sin * m) / length, (sin * n - cos * m) / length
            y[4, row] = y[4, 9 + row] = y[6, row] = y[6, 9 + row] = 0.0
            y[4, 3 + row], y[4, 6 + row] = -p, p
            y[6, 3 + row], y[6, 6 + row] = -q, q
        twist = 2.0 * d * sin * cos
        terms[0, 0], terms[0, 1] = 2.0 * k, -d
        terms[1, 1] = -d
        terms[2, 0], terms[2, 1] = -twist, -d * cos / SQRT_HALF
        terms[3, 0], terms[3, 1] = twist, -d * sin / SQRT_HALF
        _sum(terms, y, project, modes, out[e])


@kernel
def _pair(total, difference, row, y, t0, z, t3):
    """Fill in sum and difference of y . w_0 and z . w_3, as rows of coefficients by the four points."""
    total[row], difference[row] = y, y
    total[3 + row], difference[3 + row] = -(1.0 - t0) * y - (1.0 - t3) * z, -(1.0 - t0) * y + (1.0 - t3) * z
    total[6 + row], difference[6 + row] = -t0 * y - t3 * z, -t0 * y + t3 * z
    total[9 + row], difference[9 + row] = z, -z
