"""Vectors and matrices of space: the plane embedded in it, cross-product matrices and their inverse."""

import numpy as np

from ..checks import Array
from .algebra import OUT_OF_PLANE

__all__ = [
    "axial_vectors",
    "cross_matrices",
    "matrices_to_space",
    "moments_to_space",
    "perpendiculars",
    "vectors_to_space",
]


def vectors_to_space(vectors: Array) -> Array:
    """Return vectors of the plane (..., 2) as vectors of space with z = 0; those of space as they are."""
    if vectors.shape[-1] == 3:
        return vectors
    embedded = np.zeros((*vectors.shape[:-1], 3), vectors.dtype)
    embedded[..., :2] = vectors
    return embedded


def matrices_to_space(matrices: Array, zz: float = 0.0) -> Array:
    """Return matrices (..., d, d) as matrices of space (..., 3, 3), a copy, with the entry `zz` if d is 2.

    With ``zz=1`` a rotation of the plane becomes the same rotation about z.
    """
    d = matrices.shape[-1]
    embedded = np.zeros((*matrices.shape[:-2], 3, 3), matrices.dtype)
    embedded[..., 2, 2] = zz
    embedded[..., :d, :d] = matrices
    return embedded


def moments_to_space(moments: Array) -> Array:
    """Return moments of the plane (..., 2, 2) as moments of space whose rotation is about z.

    Their entry A_zz is the largest singular value, see `algebra.out_of_plane`.
    """
    A = matrices_to_space(moments)
    with np.errstate(over="ignore", invalid="ignore"):
        diagonal = np.hypot(A[..., 0, 0] + A[..., 1, 1], A[..., 1, 0] - A[..., 0, 1])
        other = np.hypot(A[..., 0, 0] - A[..., 1, 1], A[..., 1, 0] + A[..., 0, 1])
        A[..., 2, 2] = OUT_OF_PLANE * (diagonal + other)
    return A


def cross_matrices(vectors: Array) -> Array:
    """Return the matrices [v]x (..., 3, 3) of vectors (..., 3), with ``[v]x u = v x u``."""
    x, y, z = vectors[..., 0], vectors[..., 1], vectors[..., 2]
    M = np.zeros((*vectors.shape, 3), vectors.dtype)
    M[..., 0, 1], M[..., 0, 2] = -z, y
    M[..., 1, 0], M[..., 1, 2] = z, -x
    M[..., 2, 0], M[..., 2, 1] = -y, x
    return M


def axial_vectors(matrices: Array) -> Array:
    """Return vee(M - M^T) (..., 3) of matrices M (..., 3, 3): ``axial_vectors(cross_matrices(v)) = 2 v``."""
    M = matrices
    return np.stack(
        [M[..., 2, 1] - M[..., 1, 2], M[..., 0, 2] - M[..., 2, 0], M[..., 1, 0] - M[..., 0, 1]], axis=-1
    )


def perpendiculars(vectors: Array) -> Array:
    """Return one vector perpendicular to each of the vectors (..., 3), not of unit length.

    It is the cross product with the coordinate axis farthest from the vector, so it vanishes only with it.
    """
    return np.cross(vectors, np.eye(3)[np.abs(vectors).argmin(-1)])
