"""Rigid bodies: where their mass is, how they turn, and their inertia as a potential."""

import re

import numpy as np
import pytest
import trimesh
from checking import derivative
from numpy.testing import assert_allclose, assert_array_equal
from oracle import random_rotation
from scenes import box, run
from scipy.spatial.transform import Rotation

from pointglue.elastic import ImplicitSolver, RigidBody
from pointglue.elastic.model.rigid_bodies import RigidInertia, angular_velocities, rotated
from pointglue.errors import InputError


def test_mass_of_a_solid_box():
    a, b, c = extents = np.array([0.2, 0.3, 0.5])
    mesh = trimesh.creation.box(extents)
    for faces in (mesh.faces, mesh.faces[:, ::-1]):  # inside out is the same box
        body = RigidBody.solid(mesh.vertices + [1.0, 2.0, 3.0], faces, 100.0)
        mass = 100.0 * a * b * c
        assert body.mass == pytest.approx(mass)
        assert_allclose(body.center_of_mass, [1, 2, 3])
        assert_allclose(body.moment, np.diag(extents**2) * mass / 12, atol=1e-12)


def test_mass_of_points(rng):
    points, mass = rng.standard_normal((7, 3)), rng.random(7) + 0.1
    body = RigidBody.of_points(points, mass)
    center_of_mass = (mass[:, None] * points).sum(0) / mass.sum()
    arms = points - center_of_mass
    assert body.mass == pytest.approx(mass.sum())
    assert_allclose(body.center_of_mass, center_of_mass)
    assert_allclose(body.moment, sum(m * np.outer(r, r) for m, r in zip(mass, arms, strict=True)))


@pytest.fixture
def bodies(rng):
    """Inertia of three bodies, their places, and places they are drawn to that are no rotations."""
    A = rng.standard_normal((3, 3, 3))
    inertia = RigidInertia(rng.random(3) + 0.1, A @ np.swapaxes(A, 1, 2))
    turns = np.stack([random_rotation(rng) for _ in range(3)])
    return inertia, rng.standard_normal((3, 3)), turns, rng.standard_normal((3, 3)), turns + 0.3 * A


def test_inertia_is_that_of_the_points(rng):
    """1/2 sum m |x - x~|^2 of points at t + R r drawn to t~ + R~ r, with r about the centre of mass."""
    points, mass = rng.standard_normal((9, 3)), rng.random(9) + 0.1
    body = RigidBody.of_points(points, mass)
    inertia = RigidInertia(np.array([body.mass]), body.moment[None])
    R, S, t, s = random_rotation(rng), rng.standard_normal((3, 3)), *rng.standard_normal((2, 3))
    arms = points - body.center_of_mass
    apart = (arms @ R.T + t) - (arms @ S.T + s)
    expected = 0.5 * (mass * (apart**2).sum(1)).sum()
    assert inertia.value(t[None], R[None], s[None], S[None]) == pytest.approx(expected, rel=1e-12)


def test_derivatives_of_inertia(bodies, rng):
    inertia, origins, turns, to_origins, to_turns = bodies
    gradient = inertia.gradient(origins, turns, to_origins, to_turns)
    hessian = inertia.hessian(turns, to_turns)
    for _ in range(5):
        d = rng.standard_normal((3, 2, 3))

        def at(s, d=d):
            return origins + s * d[:, 0], rotated(turns, s * d[:, 1])

        slope = derivative(lambda s: inertia.value(*at(s), to_origins, to_turns), 1e-3)
        assert slope == pytest.approx(np.sum(gradient * d), rel=1e-9)
        # Along one turn its own axis stays what it is.
        change = derivative(lambda s, d=d: np.sum(inertia.gradient(*at(s), to_origins, to_turns) * d), 1e-3)
        assert change == pytest.approx(np.einsum("bki,bkij,bkj->", d, hessian, d), rel=1e-9)
    assert_array_equal(hessian, np.swapaxes(hessian, 2, 3))


def test_projected_inertia(bodies):
    inertia, _, turns, _, _ = bodies
    away = rotated(turns, np.full((3, 3), 1.8))  # nearly half a turn: indefinite
    exact, projected = inertia.hessian(turns, away), inertia.hessian(turns, away, project=True)
    assert np.linalg.eigvalsh(exact[:, 1]).min() < 0
    # Rounding of eigenvalues
    assert np.linalg.eigvalsh(projected[:, 1]).min() > -1e-12 * np.abs(exact).max()
    near = inertia.hessian(turns, turns)
    assert_allclose(inertia.hessian(turns, turns, project=True), near, atol=1e-12 * np.abs(near).max())


def test_turning_is_the_exponential(rng):
    turns = np.stack([random_rotation(rng) for _ in range(5)])
    theta = rng.standard_normal((5, 3)) * np.array([0.0, 1e-9, 1e-3, 1.0, 3.0])[:, None]
    expected = Rotation.from_rotvec(theta).as_matrix() @ turns
    assert_allclose(rotated(turns, theta), expected, atol=4e-16 * 4)


def test_angular_velocities_a_turning_body(rng):
    R, spin = random_rotation(rng)[None], rng.standard_normal((1, 3))
    rate = derivative(lambda t: rotated(R, t * spin), 1e-3)
    assert_allclose(angular_velocities(R, rate), spin, atol=1e-11)


def test_rotations_stay_orthonormal():
    solver = ImplicitSolver([box(spin=(3.0, 5.0, -2.0))], gravity=(0, 0, 0), method="bdf2")
    state = run(solver, 200, 0.02)
    R = state.rotations[0]
    assert np.abs(R.T @ R - np.eye(3)).max() < 1e-15 * 4
    assert np.linalg.det(R) > 0


def test_free_precession():
    """A symmetric top whose axis is tilted from its spin goes round its angular momentum at L / I1."""
    mesh = trimesh.creation.box((0.2, 0.2, 0.4))
    spin = np.array([1.0, 0.0, 4.0])
    body = RigidBody.solid(mesh.vertices, mesh.faces, 100.0, spin=spin)
    inertia = np.trace(body.moment) * np.eye(3) - body.moment
    L = inertia @ spin
    rate = np.linalg.norm(L) / inertia[0, 0]
    turn = Rotation.from_rotvec(rate * 0.5 * L / np.linalg.norm(L))
    exact = turn.apply([0, 0, 1.0])
    errors = []
    for steps in (50, 100, 200):
        state = run(
            ImplicitSolver([body], gravity=(0, 0, 0), method="bdf2", tolerance=1e-9), steps, 0.5 / steps
        )
        errors.append(np.linalg.norm(state.rotations[0] @ [0, 0, 1.0] - exact))
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert errors[-1] < 1e-4
    assert (orders > 1.8).all(), (errors, orders)


def test_bodies_that_move_as_told():
    def motion(t):
        return (0.0, t, 0.0), Rotation.from_rotvec([0, 2 * t, 0]).as_matrix()

    body = box(fixed=True, motion=motion)
    state = run(ImplicitSolver([body]), 5, 0.1)
    expected = body.positions @ motion(0.5)[1].T + [0, 0.5, 0]
    assert_allclose(state.body("box"), expected, atol=1e-14)
    still = run(ImplicitSolver([box(fixed=True)]), 2, 0.1)
    assert_array_equal(still.origins, ImplicitSolver([box(fixed=True)]).start().origins)


LINE = np.diag([1.0, 0.0, 0.0])
BAD = {
    "mass must be a finite number above 0, got 0": {"mass": 0},
    "mass must be a finite number above 0, got 'one'": {"mass": "one"},
    "moment must have shape (3, 3), got (3,)": {"moment": np.ones(3)},
    "moment must be symmetric": {"moment": np.eye(3) + np.eye(3, k=1)},
    "moment must be that of mass which is not all on one line": {"moment": LINE},
    "moment must be that of mass which is not all on one line, got eigenvalues [0.0, 0.0, 0.0]": {
        "moment": np.zeros((3, 3))
    },
    "center_of_mass must be finite, got nan at index [1]": {"center_of_mass": np.array([0, np.nan, 0])},
    "spin must have shape (3,), got (2,)": {"spin": (1.0, 2.0)},
    "positions must have at least one row, got none": {"positions": np.empty((0, 3))},
    "motion is that of a fixed body: give fixed=True": {"motion": lambda t: t},
    "name must be a text, got 3": {"name": 3},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_bodies(message):
    good = {"positions": np.eye(3), "mass": 1.0, "moment": np.eye(3), "center_of_mass": np.zeros(3)}
    with pytest.raises(InputError, match=re.escape(message)):
        RigidBody(**{**good, **BAD[message]})


def test_bad_solids():
    mesh = trimesh.creation.box((1, 1, 1))
    with pytest.raises(InputError, match="faces must close up around a volume, got a mesh with open edges"):
        RigidBody.solid(mesh.vertices, mesh.faces[1:], 1.0)
    with pytest.raises(InputError, match="density must be a finite number above 0, got nan"):
        RigidBody.solid(mesh.vertices, mesh.faces, np.nan)
    with pytest.raises(InputError, match=re.escape("mass must be 3 positive numbers, got shape (2,)")):
        RigidBody.of_points(np.eye(3), np.ones(2))
