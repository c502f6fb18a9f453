"""Kernels of viscous elements: stress by the rate of Green's strain, for tetrahedra, triangles, hexahedra.

Element e has k corners x_a and Q integration points. At each of them, with the gradients g_a of the corners'
weights by the m rest coordinates and F = sum x_a g_a^T (3, m), the potential is

    weight (mu |D|^2 + lambda/2 tr(D)^2),    D = E - reference,    E = (F^T F - 1)/2.

With the stress S = 2 mu D + lambda tr(D) 1 and f_a = F g_a:

    gradient by corner a    weight F S g_a
    Hessian of a and b      weight (g_a . S g_b 1 + mu ((g_a . g_b) F F^T + f_b f_a^T) + lambda f_a f_b^T)

All but the first term of the Hessian is positive semidefinite (Gauss and Newton); so is the first if S is.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array
from ....compute import kernel
from ...linalg.kernels.blocks import psd_part

__all__ = ["ViscousElements", "gradients", "hessians", "predict_stress", "strains", "values"]


class ViscousElements(NamedTuple):
    """The elements: N of them, with Q integration points each."""

    corners: NDArray[np.int64]
    """(N, k): the points of each."""
    weight_gradients: Array
    """(N, Q, k, m): g_a, the gradients of the corners' weights by the rest coordinates [1/m]."""
    weight: Array
    """(N, Q): the share of the volume, or area, at rest [m^m]."""
    mu: Array
    """(N, Q): the first modulus, of shear, times the damping and the slope [Pa, of cloth N/m]."""
    lam: Array
    """(N, Q): the second modulus, lambda, times the same."""
    reference: Array
    """(N, Q, m, m): Green's strain that rates are told from."""


@kernel
def _green_strain(x, corners, g, F, E):
    """Fill in F (3, m) and Green's strain E (m, m) at one integration point, of weight gradients g (k, m)."""
    m = F.shape[1]
    for row in range(3):
        origin = x[corners[0], row]
        for j in range(m):
            F[row, j] = 0.0
        for a in range(1, len(corners)):
            along = x[corners[a], row] - origin  # the gradients sum to zero
            for j in range(m):
                F[row, j] += along * g[a, j]
    for i in range(m):
        for j in range(i, m):
            total = F[0, i] * F[0, j] + F[1, i] * F[1, j] + F[2, i] * F[2, j]
            E[i, j] = E[j, i] = 0.5 * (total - 1.0) if i == j else 0.5 * total


@kernel
def _stress(elements, e, q, E, S):
    """Fill in weight S (m, m) for the strain E; return weight (mu |D|^2 + lambda/2 tr(D)^2)."""
    weight, reference = elements.weight[e, q], elements.reference
    mu, lam = weight * elements.mu[e, q], weight * elements.lam[e, q]
    m, trace, square = len(E), 0.0, 0.0
    for i in range(m):
        for j in range(m):
            change = E[i, j] - reference[e, q, i, j]
            square += change * change
            S[i, j] = 2.0 * mu * change
            trace += change if i == j else 0.0
    for i in range(m):
        S[i, i] += lam * trace
    return mu * square + 0.5 * lam * trace * trace


@kernel
def strains(start, stop, x, elements, out):
    """Fill in Green's strain (N, Q, m, m)."""
    g = elements.weight_gradients
    F = np.empty((3, g.shape[3]))
    for e in range(start, stop):
        for q in range(g.shape[1]):
            _green_strain(x, elements.corners[e], g[e, q], F, out[e, q])


@kernel
def values(start, stop, x, elements, out):
    """Fill in the potential (N,) of each element."""
    g = elements.weight_gradients
    m = g.shape[3]
    F, E, S = np.empty((3, m)), np.empty((m, m)), np.empty((m, m))
    for e in range(start, stop):
        total = 0.0
        for q in range(g.shape[1]):
            _green_strain(x, elements.corners[e], g[e, q], F, E)
            total += _stress(elements, e, q, E, S)
        out[e] = total


@kernel
def gradients(start, stop, x, elements, out):
    """Fill in the gradient (N, k, 3) by the corners of each element."""
    g = elements.weight_gradients
    k, m = g.shape[2], g.shape[3]
    F, E, S = np.empty((3, m)), np.empty((m, m)), np.empty((m, m))
    for e in range(start, stop):
        for a in range(k):
            for row in range(3):
                out[e, a, row] = 0.0
        for q in range(g.shape[1]):
            _green_strain(x, elements.corners[e], g[e, q], F, E)
            _stress(elements, e, q, E, S)
            for row in range(3):
                for j in range(m):
                    pull = 0.0  # F S
                    for i in range(m):
                        pull += F[row, i] * S[i, j]
                    for a in range(k):
                        out[e, a, row] += pull * g[e, q, a, j]


@kernel
def hessians(start, stop, x, elements, project, out):
    """Fill in the Hessian (N, 3 k, 3 k) of each element; `project` keeps the positive part of its stress."""
    g = elements.weight_gradients
    k, m = g.shape[2], g.shape[3]
    F, E, S = np.empty((3, m)), np.empty((m, m)), np.empty((m, m))
    f, stressed, FF = np.empty((k, 3)), np.empty((k, m)), np.empty((3, 3))
    work, W = np.empty((m + 4, m)), np.empty((m, m))
    for e in range(start, stop):
        H = out[e]
        for q in range(g.shape[1]):
            at = g[e, q]
            _green_strain(x, elements.corners[e], at, F, E)
            _stress(elements, e, q, E, S)
            if project:
                psd_part(S, m, work, W)
            mu = elements.weight[e, q] * elements.mu[e, q]
            lam = elements.weight[e, q] * elements.lam[e, q]
            _products(F, S, at, f, stressed, FF)
            for a in range(k):
                for b in range(a, k):
                    along, across = 0.0, 0.0
                    for j in range(m):
                        along += stressed[a, j] * at[b, j]
                        across += at[a, j] * at[b, j]
                    across *= mu
                    for i in range(3):
                        row, first, second = 3 * a + i, mu * f[b, i], lam * f[a, i]
                        for j in range(3):
                            value = across * FF[i, j] + first * f[a, j] + second * f[b, j]
                            H[row, 3 * b + j] = value if q == 0 else H[row, 3 * b + j] + value
                        H[row, 3 * b + i] += along
        _mirror(H)


@kernel
def _products(F, S, g, f, stressed, FF):
    """Fill in f_a = F g_a (k, 3), S g_a (k, m) and F F^T (3, 3)."""
    m = F.shape[1]
    for a in range(len(g)):
        for row in range(3):
            f[a, row] = 0.0
            for j in range(m):
                f[a, row] += F[row, j] * g[a, j]
        for i in range(m):
            stressed[a, i] = 0.0
            for j in range(m):
                stressed[a, i] += S[i, j] * g[a, j]
    for i in range(3):
        for j in range(3):
            FF[i, j] = 0.0
            for c in range(m):
                FF[i, j] += F[i, c] * F[j, c]


@kernel
def _mirror(H):
    """Copy what is above the diagonal below it."""
    for i in range(len(H)):
        for j in range(i + 1, len(H)):
            H[j, i] = H[i, j]


@kernel
def predict_stress(start, stop, x, before, elements, out):
    """Remove from the Hessians (N, 3 k, 3 k) the stress of second order in the last step.

    From `before` to x the strain grows by sym(F^T dF) + dF^T dF / 2; the stress of the second term, which a
    linear step does not foresee, is subtracted.
    """
    g = elements.weight_gradients
    k, m = g.shape[2], g.shape[3]
    F, D, E, S = np.empty((3, m)), np.empty((3, m)), np.empty((m, m)), np.empty((m, m))
    for e in range(start, stop):
        for q in range(g.shape[1]):
            _green_strain(x, elements.corners[e], g[e, q], F, E)
            _green_strain(before, elements.corners[e], g[e, q], D, E)
            mu = elements.weight[e, q] * elements.mu[e, q]
            lam = elements.weight[e, q] * elements.lam[e, q]
            trace = 0.0
            for i in range(3):
                for j in range(m):
                    D[i, j] = F[i, j] - D[i, j]
                    trace += 0.5 * D[i, j] * D[i, j]
            for i in range(m):
                for j in range(m):
                    S[i, j] = mu * (D[0, i] * D[0, j] + D[1, i] * D[1, j] + D[2, i] * D[2, j])
                S[i, i] += lam * trace
            for a in range(k):
                for b in range(k):
                    value = 0.0
                    for i in range(m):
                        for j in range(m):
                            value += g[e, q, a, i] * S[i, j] * g[e, q, b, j]
                    for row in range(3):
                        out[e, 3 * a + row, 3 * b + row] -= value
