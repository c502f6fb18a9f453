"""Vectors and matrices of space: each function against its definition."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from pointglue import special_procrustes
from pointglue.procrustes import space


def test_cross_matrices_and_their_inverse(rng):
    v, u = rng.standard_normal((2, 4, 5, 3))
    K = space.cross_matrices(v)
    assert_allclose((K @ u[..., None])[..., 0], np.cross(v, u), atol=1e-14)
    assert_array_equal(K, -np.swapaxes(K, -1, -2))
    assert_array_equal(space.axial_vectors(K), 2 * v)
    symmetric = K @ K
    assert_allclose(space.axial_vectors(symmetric), np.zeros_like(v), atol=1e-14)


def test_perpendiculars(rng):
    v = np.vstack([np.eye(3), rng.standard_normal((20, 3))])
    p = space.perpendiculars(v)
    assert_allclose(np.einsum("ij,ij->i", v, p), 0.0, atol=1e-14)
    assert (np.linalg.norm(p, axis=1) > 0.5 * np.linalg.norm(v, axis=1)).all()
    assert_array_equal(space.perpendiculars(v[5]), p[5])


def test_the_plane_embeds_into_space(rng):
    flat, full = rng.standard_normal((4, 2)).astype(np.float32), rng.standard_normal((4, 3))
    embedded = space.vectors_to_space(flat)
    assert_array_equal(embedded, np.column_stack([flat, np.zeros(4)]))
    assert embedded.dtype == np.float32
    assert space.vectors_to_space(full) is full
    M = rng.standard_normal((6, 2, 2))
    R = special_procrustes(M)
    about_z = space.matrices_to_space(R, zz=1.0)
    assert_array_equal(about_z[:, :2, :2], R)
    assert_allclose(about_z[:, :, 2], np.tile([0.0, 0, 1], (6, 1)))
    # The rotation of an embedded moment is that of the plane, about z.
    assert_allclose(special_procrustes(space.moments_to_space(M)), about_z, atol=1e-13)
    # Out of the plane is the larger singular value, so that the gap is that of the plane.
    largest = np.linalg.svd(M, compute_uv=False)[:, 0]
    assert_allclose(space.moments_to_space(M)[:, 2, 2], largest, rtol=1e-11)
