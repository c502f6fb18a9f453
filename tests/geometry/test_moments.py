"""The volume and the moments of solids, against trimesh and closed forms."""

import numpy as np
import pytest
import trimesh
from numpy.testing import assert_allclose
from oracle import random_rotation

from pointglue.geometry.moments import is_watertight, solid_moments


@pytest.mark.parametrize(
    "mesh",
    [trimesh.creation.icosphere(2), trimesh.creation.torus(1.0, 0.3), trimesh.creation.capsule(0.4, 0.2)],
    ids=["sphere", "torus", "capsule"],
)
def test_as_trimesh_has_it(mesh, rng):
    points = mesh.vertices @ random_rotation(rng).T * [1, 2, 3] + [0.1, -0.2, 0.3]
    peer = trimesh.Trimesh(points, mesh.faces, process=False)
    volume, centroid, moments = solid_moments(points[mesh.faces])
    # Sums of some thousand terms of one size: 1e-12 is a few hundred roundings.
    assert volume == pytest.approx(peer.volume, rel=1e-12)
    assert_allclose(centroid, peer.center_mass, atol=1e-12)
    inertia = np.trace(moments) * np.eye(3) - moments
    assert_allclose(inertia, peer.moment_inertia, atol=1e-12 * np.abs(inertia).max())
    inside_out = solid_moments(points[mesh.faces[:, ::-1]])
    assert inside_out[0] == pytest.approx(-volume, rel=1e-12)
    assert_allclose(inside_out[1], centroid, atol=1e-12)
    assert_allclose(inside_out[2], -moments, atol=1e-12)


def test_a_tetrahedron():
    corners = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    faces = np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]])
    volume, centroid, moments = solid_moments(corners[faces])
    assert volume == pytest.approx(1 / 6)
    assert_allclose(centroid, [0.25] * 3)
    # Of x^2 over the corner of a cube 1/60, of x y 1/120, less a volume of 1/6 at (1/4, 1/4, 1/4).
    assert_allclose(moments, np.full((3, 3), 1 / 120 - 1 / 96) + np.eye(3) / 120, atol=1e-15)


def test_without_a_volume_there_is_no_centroid():
    sheet = np.array([[[0.0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 0, 0], [0, 1, 0], [1, 0, 0]]])
    volume, centroid, _ = solid_moments(sheet)
    assert volume == 0
    assert np.isnan(centroid).all()


def test_watertight():
    faces = trimesh.creation.icosphere(1).faces
    assert is_watertight(faces)
    assert not is_watertight(faces[1:])
    assert not is_watertight(np.concatenate([faces, faces[:1]]))
    turned = np.concatenate([faces[:1, ::-1], faces[1:]])
    assert is_watertight(turned)  # as with trimesh: whether faces agree is another question
