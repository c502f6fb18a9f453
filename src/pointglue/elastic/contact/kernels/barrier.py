"""The barrier that keeps surfaces apart: values, gradients and Hessians of contacts.

A contact with squared distance d and weight w (an area) has the energy w m b(d), with the mollifier m of
nearly parallel edges and, for the thickness h, the distance h^ at which contact begins and the stiffness k,

    b = k h^ f(z),    f = -(z - 1)^2 ln z,    z = (d - h^2) / D,    D = h^ (h^ + 2 h).

Balls and capsules are points and edges with a radius, which adds to h.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array
from ....compute import kernel
from .distances import FREE, cross, cross_squared, dot, load, minus, mollifier
from .eigen import diagonalise

__all__ = [
    "EDGES",
    "POINTS",
    "POINT_EDGE",
    "TRIANGLE",
    "BarrierShape",
    "Contacts",
    "barrier",
    "gradients",
    "hessians",
    "values",
]

# The kinds of contacts: two points, a point and an edge, a point and a triangle, two edges.
POINTS, POINT_EDGE, TRIANGLE, EDGES = 0, 1, 2, 3


class Contacts(NamedTuple):
    """Pairs of primitives in contact: K of them."""

    kind: NDArray[np.int64]
    """(K,): POINTS, POINT_EDGE, TRIANGLE or EDGES."""
    points: NDArray[np.int64]
    """(K, 4): the vertices, those of the first primitive first; -1 where there are fewer than four."""
    coefficients: Array
    """(K, 4): c, by which r = sum of c_i x_i."""
    separation: Array
    """(K, 3): r, the vector between the closest points [m]."""
    squared: Array
    """(K,): the squared distance [m^2]."""
    weight: Array
    """(K,): w [m^2]."""
    region: NDArray[np.int64]
    """(K,): the region of the closest points of two edges, see `distances.edge_edge`."""
    threshold: Array
    """(K,): the threshold of the mollifier [m^4], or 0 where it is 1."""
    radius: Array
    """(K,): the radius around the primitives, 0 but for balls and capsules [m]."""


class BarrierShape(NamedTuple):
    """The numbers of the barrier."""

    distance: float
    """h^, the distance beyond the thickness at which contact begins [m]."""
    thickness: float
    """h, the distance at which the barrier is infinite [m]."""
    stiffness: float
    """k [Pa]."""


@kernel
def barrier(squared: float, radius: float, shape: BarrierShape) -> tuple[float, float, float]:
    """Return b and its two derivatives by the squared distance d; b is infinite at thickness and radius."""
    inner = shape.thickness + radius
    whole = shape.distance * (shape.distance + 2.0 * inner)
    z = (squared - inner * inner) / whole
    if z >= 1.0:
        return 0.0, 0.0, 0.0
    if z <= 0.0:
        return np.inf, 0.0, 0.0
    scale, log = shape.stiffness * shape.distance, math.log(z)
    first = (1.0 - z) * (2.0 * log + (z - 1.0) / z)
    second = (1.0 / z + 2.0) / z - 2.0 * log - 3.0
    return -scale * (z - 1.0) * (z - 1.0) * log, scale / whole * first, scale / (whole * whole) * second


@kernel
def _edges(x, points):
    """Return the vectors u and v along two edges."""
    u = minus(load(x, points[1]), load(x, points[0]))
    return u, minus(load(x, points[3]), load(x, points[2]))


@kernel
def values(start, stop, x, contacts, shape, out):
    """Fill in the energy (K,) of each contact."""
    for k in range(start, stop):
        value = contacts.weight[k] * barrier(contacts.squared[k], contacts.radius[k], shape)[0]
        if contacts.threshold[k] > 0.0:
            u, v = _edges(x, contacts.points[k])
            value *= mollifier(cross_squared(u, v), contacts.threshold[k])[0]
        out[k] = value


@kernel
def gradients(start, stop, x, contacts, shape, out):
    """Fill in the gradient (K, 4, 3) by the points of each contact: w (m b' 2 c (x) r + b m' dy)."""
    for k in range(start, stop):
        b, slope, _ = barrier(contacts.squared[k], contacts.radius[k], shape)
        slope *= 2.0 * contacts.weight[k]
        bent = contacts.threshold[k] > 0.0
        if bent:
            u, v = _edges(x, contacts.points[k])
            m, by_y, _ = mollifier(cross_squared(u, v), contacts.threshold[k])
            slope *= m
        for i in range(4):
            for j in range(3):
                out[k, i, j] = slope * contacts.coefficients[k, i] * contacts.separation[k, j]
        if bent:
            normal = cross(u, v)
            by_u, by_v = cross(v, normal), cross(normal, u)
            scale = 2.0 * contacts.weight[k] * b * by_y
            for j in range(3):
                out[k, 0, j] -= scale * by_u[j]
                out[k, 1, j] += scale * by_u[j]
                out[k, 2, j] -= scale * by_v[j]
                out[k, 3, j] += scale * by_v[j]


class Frame(NamedTuple):
    """Scratch space for the frame of one contact."""

    tangents: Array
    """(3, 3): the normal r / |r|, and orthonormal directions t_k in which closest points may slide."""
    slides: Array
    """(2, 4): dc by the way along each of them [1/m]."""
    axes: Array
    """(3, 4): an orthonormal basis of c and the slides."""
    parts: Array
    """(2, 3): the slides in that basis [1/m]."""
    small: Array
    """(9, 9): a matrix to diagonalise."""
    modes: Array
    """(9, 9): its eigenvectors."""
    vector: Array
    """(12,): one of them, over the points."""
    turns: Array
    """(4, 3): u, scaled [N/m]."""
    flat: Array
    """(3, 3): the projection to directions that are neither normal nor slides, scaled [N/m]."""


@kernel
def _new_frame():
    """Return scratch space."""
    return Frame(
        np.empty((3, 3)), np.empty((2, 4)), np.empty((3, 4)), np.empty((2, 3)),
        np.empty((9, 9)), np.empty((9, 9)), np.empty(12), np.empty((4, 3)), np.empty((3, 3)),
    )  # fmt: skip


@kernel
def _slide(x, kind, region, points, frame):
    """Fill in the directions along which the closest points slide, and how c changes; return their number."""
    t, q = frame.tangents, frame.slides
    for k in range(2):
        for i in range(4):
            q[k, i] = 0.0
    count = 0
    if kind in (POINT_EDGE, TRIANGLE):
        count = kind
        for k in range(count):
            for j in range(3):
                t[1 + k, j] = x[points[1], j] - x[points[2 + k], j]
            q[k, 1], q[k, 2 + k] = 1.0, -1.0
    elif kind == EDGES:
        if region // 3 == FREE:
            for j in range(3):
                t[1, j] = x[points[1], j] - x[points[0], j]
            q[0, 0], q[0, 1] = -1.0, 1.0
            count = 1
        if region % 3 == FREE:
            for j in range(3):
                t[1 + count, j] = x[points[2], j] - x[points[3], j]
            q[count, 2], q[count, 3] = 1.0, -1.0
            count += 1
    # Gram and Schmidt, once more than needed in exact arithmetic: edges may be nearly parallel.
    for k in range(count):
        for _ in range(2 * k):
            along = t[1, 0] * t[2, 0] + t[1, 1] * t[2, 1] + t[1, 2] * t[2, 2]
            for j in range(3):
                t[2, j] -= along * t[1, j]
            for i in range(4):
                q[1, i] -= along * q[0, i]
        length = math.sqrt(t[1 + k, 0] ** 2 + t[1 + k, 1] ** 2 + t[1 + k, 2] ** 2)
        for j in range(3):
            t[1 + k, j] /= length
        for i in range(4):
            q[k, i] /= length
    return count


@kernel
def _exact(contacts, k, first, second, count, frame, out):
    """Fill out (12, 12) with the Hessian of b(d), of which the derivatives by d are given.

    With the unit normal n, l = |r|, A = 4 d b'' + 2 b', the unit tangents t_k and slides q_k, and
    u = sum_k q_k (x) t_k, it is

    (A c c^T - 2 b' d sum_k q_k q_k^T) (x) n n^T - 2 b' l (c (x) u n^T + transposed)
    + 2 b' c c^T (x) (1 - n n^T - sum_k t_k t_k^T).
    """
    t, q, u, flat, squared = frame.tangents, frame.slides, frame.turns, frame.flat, contacts.squared[k]
    normal, bend, swing = 4.0 * squared * second + 2.0 * first, 2.0 * first * squared, 2.0 * first
    turn = 2.0 * first * math.sqrt(squared)
    for a in range(3):
        for i in range(4):
            u[i, a] = 0.0
            for m in range(count):
                u[i, a] -= turn * q[m, i] * t[1 + m, a]
        for b in range(3):
            flat[a, b] = (1.0 if a == b else 0.0) - t[0, a] * t[0, b]
            for m in range(count):
                flat[a, b] -= t[1 + m, a] * t[1 + m, b]
            flat[a, b] *= swing
    for i in range(4):
        ci = contacts.coefficients[k, i]
        for j in range(4):
            cj = contacts.coefficients[k, j]
            along = normal * ci * cj
            for m in range(count):
                along -= bend * q[m, i] * q[m, j]
            for a in range(3):
                left, right = along * t[0, a] + ci * u[j, a], cj * t[0, a]
                for b in range(3):
                    out[3 * i + a, 3 * j + b] = left * t[0, b] + right * u[i, b] + ci * cj * flat[a, b]


@kernel
def _add_mode(value, vector, out):
    """Add value * vector vector^T (12, 12) to out, and scale the vector; symmetric to the last bit."""
    scale = math.sqrt(value)
    for i in range(12):
        vector[i] *= scale
    for i in range(12):
        factor = vector[i]
        for j in range(12):
            out[i, j] += factor * vector[j]


@kernel
def _projected(contacts, k, first, second, count, frame, out):
    """Fill out (12, 12) with the positive semidefinite part of the Hessian of b(d), see `_exact`.

    It has at most five dimensions: c and the slides times n, and c times the tangents; the other tangential
    directions have the negative eigenvalue 2 b' |c|^2 or 0.
    """
    t, q, axes, parts, small = frame.tangents, frame.slides, frame.axes, frame.parts, frame.small
    squared, vector = contacts.squared[k], frame.vector
    for i in range(12):
        for j in range(12):
            out[i, j] = 0.0
    size = 0.0
    for i in range(4):
        size += contacts.coefficients[k, i] ** 2
    length = math.sqrt(size)
    for i in range(4):
        axes[0, i] = contacts.coefficients[k, i] / length
    normal = (4.0 * squared * second + 2.0 * first) * size
    for m in range(count):
        for j in range(3):
            parts[m, j] = 0.0
        for i in range(4):
            axes[1 + m, i] = q[m, i]
        for j in range(1 + m):
            along = 0.0
            for i in range(4):
                along += axes[j, i] * axes[1 + m, i]
            for i in range(4):
                axes[1 + m, i] -= along * axes[j, i]
            parts[m, j] = along
        rest = 0.0
        for i in range(4):
            rest += axes[1 + m, i] ** 2
        rest = math.sqrt(rest)
        for i in range(4):
            axes[1 + m, i] /= rest
        parts[m, 1 + m] = rest
    bend, turn = 2.0 * first * squared, 2.0 * first * math.sqrt(squared) * length
    n = 1 + count
    for i in range(n):
        for j in range(i, n):
            total = normal if i + j == 0 else 0.0
            for m in range(count):
                total -= bend * parts[m, i] * parts[m, j]
            small[i, j] = total
        for m in range(count):
            small[i, n + m] = -turn * parts[m, i]
    for i in range(n, n + count):
        for j in range(i, n + count):
            small[i, j] = 0.0
    diagonalise(small, n + count, frame.modes)
    for mode in range(n + count):
        value = small[mode, mode]
        if value > 0.0:
            v = frame.modes[mode]
            for i in range(4):
                along = 0.0
                for j in range(n):
                    along += v[j] * axes[j, i]
                for a in range(3):
                    aside = 0.0
                    for m in range(count):
                        aside += v[n + m] * t[1 + m, a]
                    vector[3 * i + a] = along * t[0, a] + axes[0, i] * aside
            _add_mode(value, vector, out)


@kernel
def _mollify(x, contacts, k, shape, project, frame, out):
    """Turn out (12, 12), the Hessian of w m b(d) with constant m, into that with the mollifier m of x."""
    points, weight, vector = contacts.points[k], contacts.weight[k], frame.vector
    u, v = _edges(x, points)
    normal = cross(u, v)
    _, by_y, by_yy = mollifier(dot(normal, normal), contacts.threshold[k])
    b, slope, _ = barrier(contacts.squared[k], contacts.radius[k], shape)
    by_u, by_v = cross(v, normal), cross(normal, u)
    for a in range(3):
        vector[a], vector[3 + a] = -2.0 * by_u[a], 2.0 * by_u[a]
        vector[6 + a], vector[9 + a] = -2.0 * by_v[a], 2.0 * by_v[a]
    # Hessian of w b m: b (m'' dy dy^T + m' d2y) + b' m' (dd dy^T + dy dd^T).
    uu, vv, uv = dot(u, u), dot(v, v), dot(u, v)
    mixed = 2.0 * weight * slope * by_y
    for i in range(4):
        for j in range(4):
            sign = (1.0 if i % 2 == 1 else -1.0) * (1.0 if j % 2 == 1 else -1.0)
            ci, cj = contacts.coefficients[k, i], contacts.coefficients[k, j]
            for a in range(3):
                for c in range(3):
                    same = 1.0 if a == c else 0.0
                    if i < 2 and j < 2:
                        bend = 2.0 * (vv * same - v[a] * v[c])
                    elif i >= 2 and j >= 2:
                        bend = 2.0 * (uu * same - u[a] * u[c])
                    elif i < 2:
                        bend = 4.0 * u[a] * v[c] - 2.0 * v[a] * u[c] - 2.0 * uv * same
                    else:
                        bend = 4.0 * v[a] * u[c] - 2.0 * u[a] * v[c] - 2.0 * uv * same
                    dy_a, dy_c = vector[3 * i + a], vector[3 * j + c]
                    dd_a, dd_c = ci * contacts.separation[k, a], cj * contacts.separation[k, c]
                    out[3 * i + a, 3 * j + c] += weight * b * (
                        by_yy * dy_a * dy_c + by_y * sign * bend
                    ) + mixed * (dd_a * dy_c + dy_a * dd_c)
    if project:
        _project_edges(frame, out)


@kernel
def _project_edges(frame, out):
    """Project a Hessian (12, 12) over the ends of two edges, which knows no translations, in nine dimensions.

    They are those of (u / sqrt 2, v / sqrt 2, twice the difference of the edges' centroids / 2).
    """
    small, modes, vector = frame.small, frame.modes, frame.vector
    axes = (
        (-math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0),
        (0.0, 0.0, -math.sqrt(0.5), math.sqrt(0.5)),
        (0.5, 0.5, -0.5, -0.5),
    )
    for i in range(9):
        for j in range(i, 9):
            total = 0.0
            for m in range(4):
                for n in range(4):
                    total += axes[i // 3][m] * axes[j // 3][n] * out[3 * m + i % 3, 3 * n + j % 3]
            small[i, j] = total
    diagonalise(small, 9, modes)
    for i in range(12):
        for j in range(12):
            out[i, j] = 0.0
    for mode in range(9):
        if small[mode, mode] > 0.0:
            for i in range(12):
                total = 0.0
                for j in range(3):
                    total += axes[j][i // 3] * modes[mode, 3 * j + i % 3]
                vector[i] = total
            _add_mode(small[mode, mode], vector, out)


@kernel
def hessians(start, stop, x, contacts, shape, project, out):
    """Fill in the Hessian (K, 12, 12) by the points of each contact; `project` drops negative eigenvalues."""
    frame = _new_frame()
    for k in range(start, stop):
        _, first, second = barrier(contacts.squared[k], contacts.radius[k], shape)
        bent = contacts.threshold[k] > 0.0
        scale = contacts.weight[k]
        if bent:
            u, v = _edges(x, contacts.points[k])
            scale *= mollifier(cross_squared(u, v), contacts.threshold[k])[0]
        length = math.sqrt(contacts.squared[k])
        for j in range(3):
            frame.tangents[0, j] = contacts.separation[k, j] / length
        count = _slide(x, contacts.kind[k], contacts.region[k], contacts.points[k], frame)
        if project and not bent:
            _projected(contacts, k, scale * first, scale * second, count, frame, out[k])
        else:
            _exact(contacts, k, scale * first, scale * second, count, frame, out[k])
            if bent:
                _mollify(x, contacts, k, shape, project, frame, out[k])
