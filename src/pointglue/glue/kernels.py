"""Compiled loops over bound points. Matrices are flat, row by row; layout as in `procrustes.records`."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checks import Array
from ..compute import kernel
from ..procrustes.algebra import product, rotation_derivative
from ..procrustes.curvature import new_world_frame, world_frame
from ..procrustes.kernels import fit, gather_to_points
from ..procrustes.records import FitArrays
from ..procrustes.rotation import REGULAR, UNRESOLVED, compliances, stretch

__all__ = [
    "BodyRows",
    "HessianPairs",
    "PoseArrays",
    "add_to_parents",
    "covectors",
    "fit_positions",
    "hessian_terms",
    "rigid_positions",
    "sum_hessian_pairs",
]

# What `hessian_terms` writes for an entry, and where in its row: the vectors u, e, G u and y, the matrix M.
U, E, GU, Y, M = 0, 3, 6, 9, 12
TERMS = 21


class BodyRows(NamedTuple):
    """The k-th particle on a rigid body, for all k."""

    rows: NDArray[np.int64]
    """Its row among all particles."""
    body: NDArray[np.int64]
    """Its body."""
    rest_arms: Array
    """(k, 3): its place in the body's frame, from the origin [m]."""


class PoseArrays(NamedTuple):
    """The fits of one pose, as `fit_positions` writes them."""

    fitted: FitArrays
    compliances: Array
    """(T, 9): as in `rotation.compliances`."""
    status: NDArray[np.uint8]
    """(T,): as in `rotation`."""


class HessianPairs(NamedTuple):
    """The blocks (P,) of one triangle of a Hessian, and the pairs of entries that each is the sum of."""

    starts: Array
    """(P + 1,): block p is summed of the pairs ``starts[p]`` to ``starts[p + 1]``."""
    first: Array
    """The first entry of each pair."""
    second: Array
    """The second entry of each pair."""
    places: Array
    """(P,): where each block stands among those of both triangles."""
    mirrors: Array
    """(P,): where its transpose stands."""


@kernel
def rigid_positions(start, stop, particles, origins, rotations, arms, x):
    """Compute arms[k] = R rest_arms[k] and x = origin + arm of the particles on bodies, BodyRows."""
    rows, body, rest_arms = particles.rows, particles.body, particles.rest_arms
    for k in range(start, stop):
        b, i = body[k], rows[k]
        for row in range(3):
            arm = 0.0
            for column in range(3):
                arm += rotations[b, row, column] * rest_arms[k, column]
            arms[k, row] = arm
            x[i, row] = origins[b, row] + arm


@kernel
def fit_positions(start, stop, rest, arms, least_d, rows, out, x):
    """Fit one pose x in space, and write R arm + t of the regular fits to x[rows].

    `rest` are RestArrays, `out` are PoseArrays.
    """
    fitted, G, status = out.fitted, out.compliances, out.status
    R, t, A = fitted.R, fitted.t, fitted.A
    fit(start, stop, rest, x.reshape(1, -1, 3), False, least_d, fitted, status)
    compliances(start, stop, R, A, least_d, G)
    for k in range(start, stop):
        if not math.isfinite(G[k, 0]):
            status[k] = UNRESOLVED
        i, a0, a1, a2 = rows[k], arms[k, 0], arms[k, 1], arms[k, 2]
        if status[k] == REGULAR:
            for row in range(3):
                x[i, row] = R[k, 3 * row] * a0 + R[k, 3 * row + 1] * a1 + R[k, 3 * row + 2] * a2 + t[k, row]


@kernel
def covectors(start, stop, arms, R, G, f, out):
    """Compute DR[f arm^T] and f of forces f on bound points, for `gather_to_points`; arms at rest."""
    groups = len(arms)
    moment, work = np.empty(9), np.empty(9)
    for n in range(start, stop):
        k = n % groups
        for row in range(3):
            for column in range(3):
                moment[3 * row + column] = f[n, row] * arms[k, column]
            out[n, 9 + row] = f[n, row]
        rotation_derivative(R[n], G[n], moment, out[n], work)


@kernel
def add_to_parents(start, stop, entries, groups, B, shares, parents, out):
    """Add what `gather_to_points` gives for some points alone, its `shares`, to the rows `parents` of out."""
    gather_to_points(start, stop, entries, groups, B, shares)
    for n in range(start, stop):
        f, i = divmod(n, len(parents))
        for axis in range(out.shape[2]):
            out[f, parents[i], axis] += shares[f, i, axis]


@kernel
def hessian_terms(start, stop, rest, arms, fitted, G, f, terms):
    """Compute what the second derivative of f . position takes of each entry, see `sum_hessian_pairs`.

    In the letters of `procrustes.curvature`: u_i, e_i = G y x u_i, G u_i, y and M_i = y (G u_i)^T - [u_i]x N.
    `rest` are RestArrays, `fitted` are FitArrays.
    """
    offsets, q, R, A = rest.offsets, rest.q, fitted.R, fitted.A
    frame = new_world_frame()
    Gw, Q, y = frame.G, frame.Q, frame.y
    S, gR, N, work, Gy = np.empty(9), np.empty(9), np.empty(9), np.empty(9), np.empty(3)
    for k in range(start, stop):
        for row in range(3):
            for column in range(3):
                gR[3 * row + column] = f[k, row] * arms[k, column]
        stretch(R[k], A[k], S)
        world_frame(R[k], S, G[k], gR, frame, work)
        product(Gw, Q, work)
        product(work, Gw, N)
        for row in range(3):
            Gy[row] = Gw[3 * row] * y[0] + Gw[3 * row + 1] * y[1] + Gw[3 * row + 2] * y[2]
        for i in range(offsets[k], offsets[k + 1]):
            out = terms[i]
            for row in range(3):
                out[U + row] = (
                    R[k, 3 * row] * q[i, 0] + R[k, 3 * row + 1] * q[i, 1] + R[k, 3 * row + 2] * q[i, 2]
                )
            u0, u1, u2 = out[U], out[U + 1], out[U + 2]
            out[E], out[E + 1], out[E + 2] = (
                Gy[1] * u2 - Gy[2] * u1,
                Gy[2] * u0 - Gy[0] * u2,
                Gy[0] * u1 - Gy[1] * u0,
            )
            for row in range(3):
                out[GU + row] = Gw[3 * row] * u0 + Gw[3 * row + 1] * u1 + Gw[3 * row + 2] * u2
                out[Y + row] = y[row]
            for column in range(3):
                c = out[GU + column]
                out[M + column] = y[0] * c + u2 * N[3 + column] - u1 * N[6 + column]
                out[M + 3 + column] = y[1] * c + u0 * N[6 + column] - u2 * N[column]
                out[M + 6 + column] = y[2] * c + u1 * N[column] - u0 * N[3 + column]


@kernel
def sum_hessian_pairs(start, stop, pairs, terms, out):
    """Sum the blocks of the second derivative over the pairs of entries i, j that belong to each:

    M_i [u_j]x - e_i u_j^T - u_i e_j^T - (u_i x G u_j) y^T,

    with its transpose where the block has its mirror image. `pairs` are HessianPairs.
    """
    starts, first, second, places, mirrors = pairs
    for p in range(start, stop):
        b00 = b01 = b02 = b10 = b11 = b12 = b20 = b21 = b22 = 0.0
        for e in range(starts[p], starts[p + 1]):
            i, j = terms[first[e]], terms[second[e]]
            u0, u1, u2, e0, e1, e2 = j[U], j[U + 1], j[U + 2], j[E], j[E + 1], j[E + 2]
            y0, y1, y2 = i[Y], i[Y + 1], i[Y + 2]
            v, w, d = i[U], i[E], i[U + 1] * j[GU + 2] - i[U + 2] * j[GU + 1]
            m0, m1, m2 = i[M], i[M + 1], i[M + 2]
            b00 += m1 * u2 - m2 * u1 - w * u0 - v * e0 - d * y0
            b01 += m2 * u0 - m0 * u2 - w * u1 - v * e1 - d * y1
            b02 += m0 * u1 - m1 * u0 - w * u2 - v * e2 - d * y2
            v, w, d = i[U + 1], i[E + 1], i[U + 2] * j[GU] - i[U] * j[GU + 2]
            m0, m1, m2 = i[M + 3], i[M + 4], i[M + 5]
            b10 += m1 * u2 - m2 * u1 - w * u0 - v * e0 - d * y0
            b11 += m2 * u0 - m0 * u2 - w * u1 - v * e1 - d * y1
            b12 += m0 * u1 - m1 * u0 - w * u2 - v * e2 - d * y2
            v, w, d = i[U + 2], i[E + 2], i[U] * j[GU + 1] - i[U + 1] * j[GU]
            m0, m1, m2 = i[M + 6], i[M + 7], i[M + 8]
            b20 += m1 * u2 - m2 * u1 - w * u0 - v * e0 - d * y0
            b21 += m2 * u0 - m0 * u2 - w * u1 - v * e1 - d * y1
            b22 += m0 * u1 - m1 * u0 - w * u2 - v * e2 - d * y2
        block, mirror = out[places[p]], out[mirrors[p]]
        mirror[0], mirror[1], mirror[2] = b00, b10, b20
        mirror[3], mirror[4], mirror[5] = b01, b11, b21
        mirror[6], mirror[7], mirror[8] = b02, b12, b22
        block[0], block[1], block[2] = b00, b01, b02
        block[3], block[4], block[5] = b10, b11, b12
        block[6], block[7], block[8] = b20, b21, b22
