"""The stiffness of edges from Young's modulus: a lattice of beams between oriented particles.

An edge between particles i and j, with rest vector d of length L, has the energy

    k/2 |x_j - x_i - (R_i + R_j) d / 2|^2 + 1/2 phi^T K phi,

with R the rotations of the particles from rest and phi the rotation from one to the other, seen from rest.
With the area A of the section between the cells of the two, k = E A / L resists stretch and shear alike, as
in a material of Poisson's ratio 0, and K = k C' resists bending and twist, with C' from the second moments of
the cells. On a regular lattice of any spacing these are the stretch and the bending of beam theory.
"""

import numpy as np

from ....checks import Array
from ....geometry.quaternions import matrices_of
from ...body import OrientedBody
from ..kernels.constraints.lattice import missing_neighbours

__all__ = ["edge_stiffness", "sums"]

# Ratio of singular values below which directions without neighbours do not count: sheets and ropes.
FLAT = 1e-3
# The most that the energy is raised by for the disorder of a neighbourhood.
MOST_DISORDER = 0.5


def edge_stiffness(body: OrientedBody, young: Array) -> tuple[Array, Array]:
    """Return the stiffness (m,) [N/m] and the bending stiffness (m, 3, 3) [N m] of edges, at the bind pose.

    Sections are not known, but volumes are, the mass over the density. About a particle of volume V a uniform
    strain e has the energy V E tr(e^2) / 2 if A_j L_j / 2 = V u_j^T M^+ u_j, with the directions u_j of its
    edges and M = sum_j (1 + g_j) u_j u_j^T; where nothing is opposite to a neighbour, g is 1 and stands for
    the half of the cell that nothing strains. In a disordered lattice particles give way to strain: the part
    of the energy that each would lose alone is added.
    """
    i, j = body.edges.T
    d = body.positions[j] - body.positions[i]
    L = np.linalg.norm(d, axis=1)
    u = d / L[:, None]
    n, m = len(body), len(body.edges)
    volumes = body.mass / body.density
    owner, towards = np.concatenate([i, j]), np.concatenate([u, -u])
    order = np.argsort(owner, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n))]).astype(np.int64)
    missing = np.empty(2 * m)
    missing[order] = missing_neighbours(starts, np.ascontiguousarray(towards[order]))
    M = sums(owner, (1 + missing)[:, None, None] * towards[:, :, None] * towards[:, None, :], n)
    inverse = np.linalg.pinv(M, rcond=FLAT, hermitian=True)
    share = np.einsum("ni,nij,nj->n", towards, inverse[owner], towards)
    strained = share[:m] * volumes[i] + share[m:] * volumes[j]
    k = strained / L**2
    both = np.concatenate([k, k])
    pull = sums(owner, (both * (1 - missing))[:, None] * np.concatenate([d, -d]), n)
    held = sums(owner, both * (1 + missing), n)
    energy = 0.5 * sums(owner, both * (1 + missing) * np.concatenate([L, L]) ** 2, n)
    disorder = (pull**2).sum(1) / np.where(held * energy > 0, held * energy, 1.0)
    k *= _edge_modulus(young, i, j) / (1 - np.minimum(MOST_DISORDER, 0.5 * (disorder[i] + disorder[j])))
    C = _cells(body, volumes)
    C = 0.5 * (C[i] + C[j])
    across = np.eye(3) - u[:, :, None] * u[:, None, :]
    C = across @ C @ across
    polar = np.trace(C, axis1=1, axis2=2)[:, None, None] * np.eye(3)
    # Bending about an axis turns the section out of its plane; half of a twist is shear that strain takes up.
    along = u[:, :, None] * u[:, None, :]
    K = across @ (polar - C) @ across + 0.5 * along @ polar @ along
    return k, k[:, None, None] * K


def _edge_modulus(young: Array, i: Array, j: Array) -> Array:
    """Return Young's modulus of edges: half of each is of one material, the other half of the other [Pa]."""
    both = young[i] + young[j]
    return np.asarray(2 * young[i] * young[j] / np.where(both > 0, both, 1.0))


def _cells(body: OrientedBody, volumes: Array) -> Array:
    """Return the second moments (n, 3, 3) of the particles' cells, ellipsoids of their volumes [m^2]."""
    axes = matrices_of(body.orientations)
    own = 4 / 3 * np.pi * body.radii.prod(1)
    squares = body.radii**2 / 5 * np.cbrt(volumes / own)[:, None] ** 2
    return np.asarray(np.einsum("nik,nk,njk->nij", axes, squares, axes))


def sums(owner: Array, values: Array, count: int) -> Array:
    """Return the sums (count, ...) of values (k, ...) by their owners."""
    columns = values.reshape(len(values), -1).T
    sums = np.stack([np.bincount(owner, c, count) for c in columns], axis=1)
    return sums.reshape(count, *values.shape[1:])
