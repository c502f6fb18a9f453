"""Flat meshes with handles: they stay in their plane, nothing tears, and poses tell what is turned over."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from web_meshes import figure, flat

from pointglue.deform import HandleDeformer, HandleSequence

VERTICES, FACES = flat()
REST = np.array([[0, 1.66, 0], [0, 1, 0], [-0.5, 0.95, 0], [0.5, 0.95, 0], [-0.12, 0.06, 0], [0.12, 0.06, 0]])
# One leg over the other, and an arm bent: the moments of some vertices are mirrored.
CROSSED = np.array([[0, 1.66, 0], [0, 1, 0], [-0.75, 1.2, 0], [0.3, 0.7, 0], [0.3, 0.4, 0], [-0.2, 0.1, 0]])
TURN = Rotation.from_rotvec([0.7, -1.1, 0.4]).as_matrix()


@pytest.fixture(scope="module")
def deformer():
    return HandleDeformer((VERTICES, FACES), REST)


def stretches(x):
    edges = np.unique(np.sort(FACES[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1), axis=0)
    now, rest = (np.linalg.norm(p[edges[:, 0]] - p[edges[:, 1]], axis=1) for p in (x, VERTICES))
    return now / rest


def signed_areas(x):
    a, b, c = np.moveaxis(x[FACES][:, :, :2], 1, 0)
    (ux, uy), (vx, vy) = (b - a).T, (c - a).T
    return ux * vy - uy * vx


def test_a_sheet_is_not_turned_over(deformer):
    """In space, half a turn fits mirrored handles best, and the vertices beside do not turn: a tear.

    In the plane rotations are continuous where the determinant of the moment changes its sign.
    """
    pose = deformer.at(CROSSED)
    assert (pose.positions[:, 2] == 0).all()
    np.testing.assert_allclose(pose.rotations[:, :, 2] - [0, 0, 1], 0, atol=1e-12)
    assert stretches(pose.positions).max() < 4  # in space: 9


def test_a_moderate_pose_flips_nothing(deformer):
    moved = REST + [[0, 0, 0], [0.1, 0, 0], [-0.1, 0.35, 0], [0.1, 0.3, 0], [-0.3, 0.1, 0], [0.1, 0, 0]]
    pose = deformer.at(moved)
    assert len(pose.flipped) == 0
    assert (signed_areas(pose.positions) * signed_areas(VERTICES) > 0).all()


def test_flipped_triangles_are_those_of_negative_area(deformer):
    pose = deformer.at(CROSSED)
    negative = np.flatnonzero(signed_areas(pose.positions) * signed_areas(VERTICES) < 0)
    assert len(negative)
    np.testing.assert_array_equal(pose.flipped, negative)


def test_flipped_triangles_of_a_solid():
    """Rigid motions flip nothing; a handle that is pushed through the body turns triangles inside out."""
    vertices, faces = figure()
    handles = np.array([[0, 1.66, 0], [0, 1, 0], [-0.5, 0.95, 0], [0.12, 0.06, 0]])
    deformer = HandleDeformer((vertices, faces), handles)
    assert len(deformer.at(handles @ TURN.T + 1).flipped) == 0
    pushed = handles.copy()
    pushed[0] = [0, 0.3, 0]
    assert len(deformer.at(pushed).flipped) > 0


def test_any_plane_is_as_good_as_that_of_the_axes(deformer):
    """Rest shape and handles turned alike, or the handles alone: the picture is the same."""
    expected = deformer.at(CROSSED).positions
    turned = HandleDeformer((VERTICES @ TURN.T + 3, FACES), REST @ TURN.T + 3)
    np.testing.assert_allclose(turned.at(CROSSED @ TURN.T + 3).positions, expected @ TURN.T + 3, atol=1e-9)
    np.testing.assert_allclose(deformer.deform(CROSSED @ TURN.T + 3), expected @ TURN.T + 3, atol=1e-9)
    plane = HandleDeformer((VERTICES[:, :2], FACES), REST[:, :2])
    np.testing.assert_allclose(plane.deform(CROSSED[:, :2]), expected[:, :2], atol=1e-12)


def test_a_page_that_is_turned_shows_its_back(deformer):
    """Turned about the vertical by half a turn the handles are in their plane again, but mirrored."""

    def handles(time):
        return REST @ Rotation.from_euler("y", np.pi * time).as_matrix().T, None

    pose = HandleSequence(deformer, handles, rate=8).pose(8)
    np.testing.assert_allclose(pose.positions, VERTICES * [-1, 1, -1], atol=1e-9)
    assert len(pose.flipped) == 0
    # Alone, the last frame is a drag within the plane, and the handles mirror it there.
    assert len(deformer.at(handles(1.0)[0]).flipped)


def test_a_handle_that_leaves_the_plane_lifts_the_sheet(deformer):
    lifted = REST.copy()
    lifted[2, 2] = 0.3
    pose = deformer.at(lifted)
    assert pose.plane is None
    assert pose.positions[:, 2].max() > 0.2


@pytest.mark.parametrize("height", [0.0, 1.0])
def test_derivatives(deformer, rng, height):
    """By differences and by the adjoint identity, in the plane and out of it."""
    moved = REST + [[0, 0, 0], [0, 0, 0], [-0.1, 0.3, 0], [0, 0.2, 0], [0, 0, 0], [0, 0, 0]]
    pose = deformer.at(moved)
    assert pose.plane is not None
    rates, g = rng.standard_normal(REST.shape) * [1, 1, height], rng.standard_normal(VERTICES.shape)
    step = 1e-4
    ahead, behind = (deformer.at(moved + s * step * rates).positions for s in (1, -1))
    # Central differences are off by the square of the step, times third derivatives.
    np.testing.assert_allclose(pose.jvp(rates), (ahead - behind) / (2 * step), atol=1e-6)
    assert np.vdot(pose.jvp(rates), g) == pytest.approx(np.vdot(rates, pose.vjp(g)), rel=1e-12)


def test_oriented_handles_stay_in_the_plane():
    deformer = HandleDeformer((VERTICES, FACES), REST[:3], radii=0.1)
    spin = Rotation.from_euler("z", [[0.3], [-0.2], [1.0]]).as_matrix()
    assert deformer.at(REST[:3], rotations=spin).plane is not None
    tilt = Rotation.from_euler("x", [[0.3], [0], [0]]).as_matrix()
    assert deformer.at(REST[:3], rotations=tilt).plane is None
