"""Particles with a Young's modulus: beam theory, the energy's gradient, and figures that hold their shape."""

import warnings
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation
from web_meshes import WEB_MESHES

from pointglue.assets.registry import ASSETS
from pointglue.compute import threads
from pointglue.errors import PointglueWarning
from pointglue.particles import OrientedBody, ParticleSolver, Plane, block
from pointglue.particles._solve.elastic.inverses import sparse_beams

DENSITY, GRAVITY = 1000.0, 9.81


def bar(*size):
    """A mesh of a box, its faces cut into small ones."""
    return trimesh.creation.box(size).subdivide().subdivide()


def clamped(body):
    """The body, held by the particles at its left end."""
    left = body.positions[:, 0]
    return body.replace(pinned=left < left.min() + 0.02 * np.ptp(left))


def sag(body, *, dt=1 / 60, seconds=2.0, **options):
    """How far the right end has come down once it is at rest, and how far beam theory lets it [m].

    The beam of length l begins at the centres of the pinned particles and ends at the face of the body; the
    deflection at x is w x^2 (6 l^2 - 4 l x + x^2) / (24 E I), with I / A = height^2 / 12.
    """
    body = clamped(body)
    x = body.positions
    solver = ParticleSolver(body, drag=10.0, contacts="none", **options)
    state = solver.start()
    for _ in range(round(seconds / dt)):
        state = solver.step(state, dt)
    left, right = x[body.pinned, 0].mean(), x[:, 0].max()
    end = x[:, 0] > right - 0.02 * np.ptp(x[:, 0])
    face = right + body.radii[end, 0].mean()
    height = np.ptp(x[:, 1]) + 2 * body.radii[end, 1].mean()
    s, length = x[end, 0].mean() - left, face - left
    beam = DENSITY * GRAVITY * s**2 * (6 * length**2 - 4 * length * s + s**2) / (24 * body.young[0])
    return (x - state.positions)[end, 1].mean(), beam / (height**2 / 12)


# Of 10 % the issue allows, 8.5 % are the second moment of an ellipsoid for that of a cell, where there is one
# cell across; the rest is shear, which beam theory leaves out.
@pytest.mark.parametrize(
    ("cells", "young"),
    [
        *product([(20, 1, 1), (20, 2, 2), (40, 4, 4)], [1e8, 1e9]),
        ((60, 6, 6), 1e7),  # more than are factored as a whole: on two levels
    ],
)
def test_a_cantilever_sags_as_beam_theory_says_at_any_resolution(cells, young):
    found, theory = sag(block((1.0, 0.1, 0.1), cells, young=young))
    assert found == pytest.approx(theory, rel=0.1)


@pytest.mark.parametrize("size", [0.05, 20.0])
def test_a_cantilever_of_another_size_sags_by_its_square(size):
    young = 1e8 * size  # so that it is deformed as one of 1 m
    seconds = 2.0 * max(1.0, size**0.5)
    found, theory = sag(block((size, 0.1 * size, 0.1 * size), (20, 2, 2), young=young), seconds=seconds)
    assert found == pytest.approx(theory, rel=0.1)


@cache
def usual_sag():
    """How far the right end of a beam comes down with no option set [m]."""
    return sag(block((1.0, 0.1, 0.1), (20, 2, 2), young=1e8))[0]


@pytest.mark.parametrize(
    ("dt", "options"),
    [
        (1 / 24, {"substep": 1 / 24}),
        (1 / 240, {}),
        (1 / 60, {"iterations": 1}),
        (1 / 60, {"substep": 1 / 480}),
    ],
)
def test_sag_depends_neither_on_frame_rate_nor_substep_nor_iterations(dt, options):
    """The minimum of the objective does not depend on h once nothing moves; the rest is what still moves."""
    found, _ = sag(block((1.0, 0.1, 0.1), (20, 2, 2), young=1e8), dt=dt, **options)
    assert found == pytest.approx(usual_sag(), rel=0.02)


def test_a_beam_filled_at_random_sags_as_beam_theory_says():
    """Sections are known from volumes only, and particles give way: 15 %, of which beams at hand took 10."""
    body = OrientedBody.from_mesh(bar(1.0, 0.1, 0.1), spacing=0.04, young=1e8)
    x = body.positions
    body = body.replace(pinned=x[:, 0] < x[:, 0].min() + 0.05)
    solver = ParticleSolver(body, drag=10.0, contacts="none")
    state = solver.start()
    for _ in range(120):
        state = solver.step(state, 1 / 60)
    left, end = x[body.pinned, 0].max(), x[:, 0] > x[:, 0].max() - 0.05
    length, s = x[:, 0].max() + 0.5 * 0.04 - left, x[end, 0] - left
    beam = DENSITY * GRAVITY * s**2 * (6 * length**2 - 4 * length * s + s**2) / (24 * 1e8) / (0.1**2 / 12)
    assert (x - state.positions)[end, 1].mean() == pytest.approx(beam.mean(), rel=0.15)


def shaken(rng, h):
    """An elastic piece of 16 particles that are anywhere near where they were, and any way around."""
    body = block((1.0, 0.3, 0.3), (4, 2, 2), young=1e5)
    solver = ParticleSolver(body)
    solver.step(solver.start(), h)
    piece, particles, buffers = solver._contact.elastic.pieces[0], solver._particles, solver._buffers
    n = len(body)
    buffers.P[:, :3] = body.positions + 0.1 * rng.normal(size=(n, 3))
    buffers.E[:] = Rotation.from_rotvec(0.8 * rng.normal(size=(n, 3))).as_matrix().reshape(n, 9)
    return body, piece, particles, buffers


@pytest.mark.parametrize("seed", range(6))
def test_steps_that_remember_the_last_ones_find_the_minimum(seed):
    """They take 9 to 11 steps; those from the Hessian at rest alone take 11 to more than 20."""
    h = 1 / 60
    _, piece, particles, buffers = shaken(np.random.default_rng(seed), h)
    free = (buffers.P[:, :3].copy(), particles.moments)
    assert piece.relax(h, particles, buffers, free) <= 12
    assert piece.relax(h, particles, buffers, free) == 0  # it was there


def test_gradient_and_hessian_at_rest_are_those_of_the_objective():
    rng, h = np.random.default_rng(0), 1 / 60
    body, piece, particles, buffers = shaken(rng, h)
    n = len(body)
    free = (body.positions + 0.1 * rng.normal(size=(n, 3)), 1e-3 * rng.normal(size=(n, 9)))
    piece.objective(h, particles, buffers, free, None)
    gradient, start = piece.gradient.copy(), (buffers.P.copy(), buffers.E.copy())
    for a, c in [(0, 0), (5, 1), (9, 2), (3, 3), (7, 4), (12, 5)]:
        values = []
        for way in (1e-6, -1e-6):
            buffers.P[:], buffers.E[:] = start
            step = np.zeros((n, 6))
            step[a, c] = way
            piece.move(1.0, step, particles, buffers)
            values.append(piece.objective(h, particles, buffers, free, None))
        # Differences of the second order, of values that have 15 digits.
        assert gradient[a, c] == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5, abs=1e-7)
    matrix = sparse_beams(piece.hessian(h)).toarray()
    start = body.positions, np.tile(np.eye(3).reshape(9), (n, 1))
    free = (body.positions, particles.moments)
    for dof in (0, 7, 40, 65, 94):
        gradients = []
        for way in (1e-5, -1e-5):
            buffers.P[:, :3], buffers.E[:] = start
            step = np.zeros(6 * n)
            step[dof] = way
            piece.move(1.0, step.reshape(n, 6), particles, buffers)
            piece.objective(h, particles, buffers, free, None)
            gradients.append(piece.gradient.reshape(-1).copy())
        # Differences of the second order, of gradients that have 15 digits.
        np.testing.assert_allclose(
            (gradients[0] - gradients[1]) / 2e-5, matrix[:, dof], atol=1e-8 * np.abs(matrix).max()
        )


@pytest.mark.parametrize("size", [0.003, 1.0])
def test_a_figure_dropped_from_its_own_height_keeps_its_shape_and_comes_to_rest(size):
    """Without options: 99.9 % of the skin's edges within 0.8 to 1.25 of their lengths, and no motion."""
    mesh = bar(0.12 * size, size, 0.12 * size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PointglueWarning)  # of what is 3 mm tall
        body = OrientedBody.from_mesh(mesh)
    tilted = Rotation.from_euler("z", 3, degrees=True).as_matrix()
    body = body.moved(rotation=tilted, translation=(0.0, 1.5 * size, 0.0))
    solver = ParticleSolver(body, colliders=[Plane((0, 0, 0), (0, 1, 0))])
    state = solver.start()
    frame = size**0.5 / 60
    for _ in range(150):
        state = solver.step(state, frame)
    assert kept(body, state) >= 0.999
    # At rest: slower than a hundredth of the speed at which it arrived.
    assert np.abs(state.velocities).max() < 0.01 * (2 * GRAVITY * size) ** 0.5


def test_a_small_figure_topples_and_keeps_its_shape_at_usual_frame_rates():
    """A figure of 3 mm turns by half a radian in a substep as it topples: it turns as a whole."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PointglueWarning)  # of what is 3 mm tall
        body = OrientedBody.from_mesh(WEB_MESHES["tiny"]()).moved(translation=(0.0, 0.003, 0.0))
    solver = ParticleSolver(body, colliders=[Plane((0, 0, 0), (0, 1, 0))])
    state = solver.start()
    for _ in range(20):
        state = solver.step(state, 1 / 60)
        assert kept(body, state) >= 0.999
    # Lying on the ground, slower than a hundredth of the speed at which it arrived.
    assert state.positions[:, 1].max() < 0.001
    assert np.abs(state.velocities).max() < 0.01 * (2 * GRAVITY * 0.003) ** 0.5


def test_an_octopus_stands_on_its_arms():
    vertices, faces = ASSETS["octopus"].build()
    body = OrientedBody.from_mesh((vertices, faces)).moved(translation=(0.0, np.ptp(vertices[:, 1]), 0.0))
    solver = ParticleSolver(body, colliders=[Plane((0, 0, 0), (0, 1, 0))])
    state = solver.start()
    for _ in range(120):
        state = solver.step(state, 1 / 60)
    assert kept(body, state) >= 0.999


def kept(body, state):
    """The share of the skin's edges that are 0.8 to 1.25 times as long as at rest."""
    edges = np.unique(np.sort(body.visual.faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1), axis=0)
    ends = body.skin(state)[edges], body.visual.vertices[edges]
    now, before = (np.linalg.norm(np.diff(e, axis=1)[:, 0], axis=1) for e in ends)
    ratio = now / before
    return np.mean((ratio > 0.8) & (ratio < 1.25))


def test_a_hundred_times_heavier_elastic_body_stands_on_a_light_one():
    """It sinks by less than a hundredth of its size, and stays."""
    bodies = [
        block((0.2, 0.2, 0.2), (2, 2, 2), young=1e8, density=density).moved(translation=(0, height, 0))
        for density, height in ((100.0, 0.1), (10_000.0, 0.3))
    ]
    solver = ParticleSolver(bodies, colliders=[Plane((0, 0, 0), (0, 1, 0))])
    state = solver.start()
    for _ in range(120):
        state = solver.step(state, 1 / 60)
    heights = [state.positions[part, 1].mean() for part in solver.parts]
    np.testing.assert_allclose(heights, [0.1, 0.3], atol=0.002)


@pytest.mark.parametrize(("angle", "slides"), [(25.0, False), (28.0, True)])
def test_an_elastic_block_slides_where_the_slope_is_steeper_than_friction(angle, slides):
    """Coulomb: it slides by g (sin - mu cos) t^2 / 2 if tan > mu = 0.5, which is at 26.6 degrees."""
    a = np.radians(angle)
    body = block((0.3, 0.1, 0.3), (3, 1, 3), young=1e8).moved(translation=(0, 0.05, 0))
    gravity = GRAVITY * np.array([np.sin(a), -np.cos(a), 0.0])
    solver = ParticleSolver(body, colliders=[Plane((0, 0, 0), (0, 1, 0))], gravity=gravity)
    state = solver.start()
    for _ in range(60):
        state = solver.step(state, 1 / 60)
    way = state.positions[:, 0].mean()
    theory = 0.5 * GRAVITY * (np.sin(a) - 0.5 * np.cos(a)) if slides else 0.0
    # Backward Euler advances by the speed at the end of a substep: 1/120 more, and then 1 % of the way.
    assert way == pytest.approx(theory, rel=0.02, abs=1e-3)


def mixed(kinds):
    """Boxes of 0.3 x 0.2 x 0.25 m, elastic (e) or rigid (r)."""
    made = {"e": {"young": 1e7}, "r": {"rigid": True}}
    return [block((0.3, 0.2, 0.25), (2, 2, 2), **made[kind]) for kind in kinds]


@pytest.mark.parametrize("angle", [0.0, 20.0])
@pytest.mark.parametrize("kinds", ["er", "re", "ere", "rer"])
def test_rigid_and_elastic_boxes_stand_on_each_other(kinds, angle):
    """Where friction holds them nothing slides, whichever is on which, and all of them fall asleep."""
    a = np.radians(angle)
    bodies = [body.moved(translation=(0, 0.1 + 0.2 * k, 0)) for k, body in enumerate(mixed(kinds))]
    gravity = GRAVITY * np.array([np.sin(a), -np.cos(a), 0.0])
    solver = ParticleSolver(bodies, colliders=[Plane((0, 0, 0), (0, 1, 0))], gravity=gravity)
    state = solver.start()
    for _ in range(120):
        state = solver.step(state, 1 / 60)
    assert not state.velocities.any()
    # The weight of all three, sideways too, bends and shears them by less than half a millimetre.
    np.testing.assert_allclose(state.positions, solver.body.positions, atol=5e-4)


def test_a_pile_of_rigid_and_elastic_boxes_comes_to_rest():
    rng = np.random.default_rng(0)
    bodies = [
        body.moved(
            rotation=Rotation.random(random_state=rng).as_matrix(),
            translation=(0.3 * (k % 2) + rng.uniform(-0.1, 0.1), 0.3 + 0.25 * k, rng.uniform(-0.1, 0.1)),
        )
        for k, body in enumerate(mixed("rererere"))
    ]
    solver = ParticleSolver(bodies, colliders=[Plane((0, 0, 0), (0, 1, 0))])
    state = solver.start()
    for _ in range(300):
        state = solver.step(state, 1 / 60)
    assert np.linalg.norm(state.velocities, axis=1).max() < 1e-3
    assert state.positions[:, 1].min() > 0.0


@pytest.mark.parametrize("kinds", ["er", "re", "rr"])
def test_rigid_and_elastic_bodies_that_collide_keep_both_momenta(kinds):
    bodies = [body.moved(translation=(0.5 * k, 0.05 * k, 0.05 * k)) for k, body in enumerate(mixed(kinds))]
    solver = ParticleSolver(bodies, gravity=(0, 0, 0))
    speeds = np.repeat([[3.0, 0.2, 0.0], [-2.0, 0.0, 0.3]], 8, axis=0)
    state = replace(solver.start(), velocities=speeds)
    before = solver.body.momentum(state)
    for _ in range(30):
        state = solver.step(state, 1 / 60)
    assert state.velocities[:8, 0].mean() < 1.0  # they did collide
    for now, then in zip(solver.body.momentum(state), before, strict=True):
        np.testing.assert_allclose(now, then, atol=1e-6 * np.linalg.norm(then))


def test_elastic_bodies_that_collide_keep_both_momenta():
    """They overlap before they are parted: that moves masses that fly, and nothing of it may be lost."""
    one = block((0.3, 0.2, 0.25), (3, 2, 2), young=1e6)
    solver = ParticleSolver([one, one.moved(translation=(0.6, 0.05, 0.05))], gravity=(0, 0, 0))
    state = solver.start()
    speeds = np.repeat([[3.0, 0.2, 0.0], [-2.0, 0.0, 0.3]], len(one), axis=0)
    state = replace(state, velocities=speeds)
    before = solver.body.momentum(state)
    for _ in range(30):
        state = solver.step(state, 1 / 60)
    assert state.velocities[: len(one), 0].mean() < 1.0  # they did collide
    for now, then in zip(solver.body.momentum(state), before, strict=True):
        # Relaxation ends at steps of a hundredth of a beam, of which rounding is not all that is left.
        np.testing.assert_allclose(now, then, atol=1e-6 * np.linalg.norm(then))


@pytest.mark.parametrize("cells", [(12, 5, 5), (26, 9, 9)])  # by factors, and on two levels
def test_elastic_steps_are_the_same_bits_on_any_number_of_threads(cells):
    states = []
    for count in (1, 2):
        with threads(count):
            body = block((0.6, 0.2, 0.2), cells, young=1e6).moved(translation=(0, 0.12, 0))
            solver = ParticleSolver(body, colliders=[Plane((0, 0, 0), (0.1, 1, 0))])
            state = solver.start()
            for _ in range(5):
                state = solver.step(state, 1 / 60)
            states.append(state)
    for name in ("positions", "rotations", "velocities", "spins"):
        np.testing.assert_array_equal(getattr(states[0], name), getattr(states[1], name))


def test_units_that_were_probably_meant_are_told():
    mesh = bar(273.0, 100.0, 100.0)
    with pytest.warns(PointglueWarning, match="m across.*scale the mesh by 0.01"):
        body = OrientedBody.from_mesh(mesh, spacing=60.0)
    assert "centimetres" in body.check()[0]
    assert block((0.1, 0.1, 0.1), (2, 2, 2)).check() == []
    small = block((0.003, 0.003, 0.003), (2, 2, 2))
    assert "millimetres twice, scale the mesh by 1000" in small.check()[0]
    assert [sentence for sentence in small.check() if "substeps" in sentence]
    assert ParticleSolver(small).substep < 1 / 400


def test_check_tells_what_shape_matching_reaches():
    """A cantilever of coefficient 1 sags as one of 1.4 MPa here, and what stands firmly is not told."""
    (told,) = block((1.0, 0.1, 0.1), (20, 2, 2), stiffness=1.0).check()
    assert "reaches a Young's modulus of about 1e+06 Pa" in told
    assert block((1.0, 0.1, 0.1), (20, 2, 2), young=1e9).check() == []
    assert block((1.0, 0.1, 0.1), (20, 2, 2), rigid=True).check() == []
