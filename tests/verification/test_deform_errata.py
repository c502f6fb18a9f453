"""docs/explanation/errata.md, moving least squares: the printed form fails, the right form holds."""

import numpy as np
import pytest
from oracle import random_rotation
from scipy.spatial.transform import Rotation

from pointglue.deform import HandleDeformer
from pointglue.geometry import shapes
from pointglue.geometry.bvh import TriangleTree


def energy(w, p, q, T):
    return (w * ((T(p) - q) ** 2).sum(1)).sum()


@pytest.fixture
def fit(rng):
    """Weights at one vertex, handles before and after, and the parts of the paper's solution."""
    x, p = rng.standard_normal(3), rng.standard_normal((6, 3)) + 2.0
    q = 1.4 * p @ random_rotation(rng).T + 0.2 * rng.standard_normal(p.shape)
    w = 1 / ((x - p) ** 2).sum(1)
    p_star, q_star = w @ p / w.sum(), w @ q / w.sum()
    P, Q = np.sqrt(w) * (p - p_star).T, np.sqrt(w) * (q - q_star).T
    return x, w, p, q, p_star, q_star, P, Q


def test_the_translation_needs_the_rotation(fit):
    x, w, p, q, p_star, q_star, P, Q = fit
    U, _, Vt = np.linalg.svd(P @ Q.T)
    M = Vt.T @ np.diag([1, 1, np.linalg.det(U @ Vt)]) @ U.T
    printed = energy(w, p, q, lambda y: y @ M.T + q_star - p_star)
    right = energy(w, p, q, lambda y: y @ M.T + q_star - M @ p_star)
    assert printed > 2 * right
    moved = HandleDeformer(x[None], p).deform(q)[0]
    np.testing.assert_allclose(moved, M @ (x - p_star) + q_star, atol=1e-12)


def test_without_z_three_handles_mirror_half_of_the_time(rng):
    mirrored = 0
    for _ in range(300):
        p, q = rng.standard_normal((3, 3)), rng.standard_normal((3, 3))
        U, _, Vt = np.linalg.svd((p - p.mean(0)).T @ (q - q.mean(0)))
        mirrored += np.linalg.det(Vt.T @ U.T) < 0
    assert 0.4 < mirrored / 300 < 0.6
    rotations = HandleDeformer(rng.standard_normal((20, 3)), p).at(q).rotations
    np.testing.assert_allclose(np.linalg.det(rotations), 1)


def test_the_scale_takes_the_sign_too(rng):
    x, p = rng.standard_normal(3), rng.standard_normal((6, 3))
    q = p * [1.0, 0.9, -0.5]  # mirrored: the smallest singular value counts as negative
    w = 1 / ((x - p) ** 2).sum(1)
    p_star, q_star = w @ p / w.sum(), w @ q / w.sum()
    P, Q = np.sqrt(w) * (p - p_star).T, np.sqrt(w) * (q - q_star).T
    U, s, Vt = np.linalg.svd(P @ Q.T)
    Z = np.diag([1, 1, np.linalg.det(U @ Vt)])
    assert Z[2, 2] < 0
    M = Vt.T @ Z @ U.T

    def left(scale):
        return ((scale * M @ P - Q) ** 2).sum()

    printed, right = s.sum() / (P**2).sum(), np.trace(Z @ np.diag(s)) / (P**2).sum()
    assert left(right) < left(printed)
    assert all(left(right) <= left(right + h) for h in (-1e-3, 1e-3))
    assert HandleDeformer(x[None], p, stretch=1.0).at(q).scales[0] == pytest.approx(right)


def test_damping_with_scale_is_not_a_closed_form(fit):
    """The joint minimum over rotation and scale, against the paper's single step."""
    x, w, p, q, _, _, P, Q = fit
    # Damped towards a rotation some way from the best one: far from it, the best scale would be negative.
    U, _, Vt = np.linalg.svd(Q @ P.T)
    turn = Rotation.from_rotvec([0.5, -0.4, 0.3]).as_matrix()
    delta, before = 0.5, turn @ U @ np.diag([1, 1, np.linalg.det(U @ Vt)]) @ Vt
    A = Q @ P.T

    def objective(M, scale):
        return ((scale * M @ P - Q) ** 2).sum() + delta * ((M - before) ** 2).sum()

    U, _, Vt = np.linalg.svd(A + delta * before)
    M = U @ np.diag([1, 1, np.linalg.det(U @ Vt)]) @ Vt
    printed = objective(M, np.trace(M.T @ A) / (P**2).sum())
    pose = HandleDeformer(x[None], p, stretch=1.0, damping=delta).at(q, previous=before[None])
    found = objective(pose.rotations[0], pose.scales[0])
    assert 0.5 < pose.scales[0] < 2
    assert found < printed - 1e-6
    # With normalised weights the same delta would hold back more or less by their sum.
    normalised = HandleDeformer(x[None], p, stretch=1.0, damping=delta / w.sum()).at(q, previous=before[None])
    assert np.abs(normalised.rotations - pose.rotations).max() > 1e-3


def test_with_its_own_faces_counted_no_vertex_is_visible():
    vertices, faces = shapes.box((1.0, 1.0, 1.0), (2, 2, 2))
    eye = np.array([0.11, 0.07, 0.13])
    hits = np.zeros(len(vertices), int)
    for v, target in enumerate(vertices):
        for face in faces[(faces == v).any(1)]:
            a, b, c = vertices[face]
            r = np.linalg.solve(np.stack([b - a, c - a, eye - target], axis=1), eye - a)
            hits[v] += min(r[0], r[1], 1 - r[0] - r[1]) > -1e-12 and r[2] < 1 + 1e-12
    assert (hits > 0).all()  # the segment ends on a face, so every vertex would be hidden
    assert not TriangleTree(vertices, faces).blocked(eye, np.arange(len(vertices))).any()
