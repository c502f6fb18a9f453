"""Thin things: nothing passes through ropes and cloth, and they do not pass through themselves."""

import numpy as np
import pytest

import pointglue as pg
from pointglue.geometry.quaternions import quaternions_of
from pointglue.particles import KinematicParticles, OrientedBody, ParticleSolver, block, rope, sheet
from pointglue.particles._solve.thin import thin_parts
from pointglue.particles._solve.topology import Topology

SUBSTEP = 1 / 120


def parts_of(body):
    return thin_parts(Topology(body))


def test_each_cell_of_a_sheet_has_two_triangles():
    """A cell has two diagonals, of which one is left; Euler: edges = particles + triangles - 1 for a disc."""
    cloth = sheet((1.0, 0.8), (10, 8), thickness=0.01)
    parts = parts_of(cloth)
    assert len(parts.triangles) == 2 * 10 * 8
    assert len(parts.edges) == len(cloth) + len(parts.triangles) - 1
    assert (~parts.inner).sum() == 2 * (10 + 8)
    assert not parts.ropes.any()
    np.testing.assert_allclose(parts.triangle_radii, 0.005)


def test_a_rope_is_edges_as_thick_as_it_is():
    line = rope((0, 0, 0), (1, 1, 0), particles=11, radius=0.02)
    parts = parts_of(line)
    np.testing.assert_array_equal(np.sort(parts.edges, axis=0), line.edges)
    np.testing.assert_allclose(parts.edge_radii, 0.02)
    assert parts.ropes.all()
    assert len(parts.triangles) == 0


def test_what_particles_cover_needs_no_edges():
    """A solid, a chain of overlapping balls, and a rigid plate, which collides as a whole."""
    chain = rope((0, 0, 0), (1, 0, 0), particles=11, radius=0.02, radii=0.08)
    plate = block((1, 0.1, 1), (5, 1, 5), rigid=True)
    for body in (block((0.4, 0.4, 0.4), (4, 4, 4)), chain, plate):
        parts = parts_of(body)
        assert len(parts.edges) + len(parts.triangles) == 0


def is_below(point, positions, triangles):
    """Whether a point is below a sheet whose border is fixed: the parity of crossings above it."""
    a, b, c = (positions[triangles[:, k], :] - point for k in range(3))

    def side(p, q):
        return p[:, 0] * q[:, 2] - p[:, 2] * q[:, 0]

    u, v, w = side(b, c), side(c, a), side(a, b)
    area = u + v + w
    inside = ((u > 0) == (v > 0)) & ((v > 0) == (w > 0)) & (area != 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        height = (u * a[:, 1] + v * b[:, 1] + w * c[:, 1]) / area
    return bool((inside & (height > 0)).sum() % 2)


def framed_cloth():
    cloth = sheet((1.0, 1.0), (10, 10), thickness=0.01)
    return cloth.replace(pinned=np.abs(cloth.positions[:, [0, 2]]).max(1) > 0.49)


@pytest.mark.parametrize("speed", [5.0, 30.0, 99.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_ball_does_not_pass_through_cloth(speed, seed):
    """3 of 4 passed at 5 m/s, all at 30 m/s: they went between the ellipsoids."""
    x, z = np.random.default_rng(seed).uniform(-0.3, 0.3, 2)
    ball = OrientedBody([[x, 0.3, z]], radii=0.03, loose=True)
    cloth = framed_cloth()
    solver, triangles = ParticleSolver([cloth, ball]), parts_of(cloth).triangles
    state = solver.start()
    velocities = state.velocities.copy()
    velocities[-1] = (0, -speed, 0)
    state = state.replace(velocities=velocities)
    for _ in range(60):
        state = solver.step(state, SUBSTEP)
        assert not is_below(state.positions[-1], state.positions, triangles)


@pytest.mark.parametrize("speed", [5.0, 30.0, 99.0])
def test_cloth_does_not_pass_through_cloth(speed):
    turn = np.array([[0.8, 0, 0.6], [0, 1, 0], [-0.6, 0, 0.8]])
    cloth = framed_cloth()
    patch = sheet((0.5, 0.5), (6, 6), thickness=0.01).moved(rotation=turn, translation=(0.05, 0.2, 0.02))
    solver, triangles = ParticleSolver([cloth, patch]), parts_of(cloth).triangles
    state = solver.start()
    velocities = state.velocities.copy()
    velocities[len(cloth) :] = (0, -speed, 0)
    state = state.replace(velocities=velocities)
    for _ in range(40):
        state = solver.step(state, SUBSTEP)
        corners = state.positions[len(cloth) :]
        assert not any(is_below(corner, state.positions, triangles) for corner in corners)


@pytest.mark.parametrize("speed", [5.0, 30.0, 99.0])
@pytest.mark.parametrize("offset", [0.0, 0.013, 0.05])
def test_a_ball_does_not_pass_through_a_rope(speed, offset):
    """Straight above a rope, at a joint or between two, it is on the rope as long as it is in its plane."""
    line = rope((-1, 0, 0), (1, 0, 0), particles=21, radius=0.02)
    line = line.replace(pinned=np.isin(np.arange(21), [0, 20]))
    ball = OrientedBody([[offset, 0.3, 0.0]], radii=0.03, loose=True)
    solver = ParticleSolver([line, ball])
    state = solver.start()
    velocities = state.velocities.copy()
    velocities[-1] = (0, -speed, 0)
    state = state.replace(velocities=velocities)
    for _ in range(12):
        state = solver.step(state, SUBSTEP)
        x, y, z = state.positions[-1]
        order = np.argsort(state.positions[:-1, 0])
        beneath = np.interp(x, state.positions[order, 0], state.positions[order, 1])
        assert abs(z) > 0.02 or y > beneath


def knot():
    """The long trefoil (s^3 - 3 s, s^4 - 4 s^2, s^5 - 10 s), which is the overhand knot, as a rope."""
    s = np.linspace(-2.2, 2.2, 4000)
    curve = 0.12 * np.stack([s**3 - 3 * s, s**4 - 4 * s**2, (s**5 - 10 * s) / 6], axis=1)
    ends = np.linspace(0.5, 0, 200)[:-1, None] * [1.0, 0, 0]
    curve = np.concatenate([curve[0] - ends, curve, curve[-1] + ends[::-1]])
    along = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=1))])
    count = round(along[-1] / 0.03) + 1
    x = np.stack([np.interp(np.linspace(0, along[-1], count), along, c) for c in curve.T], axis=1)
    tangent = np.gradient(x, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    side = np.cross(tangent, [0.1, 0.2, 0.97])
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    index = np.arange(count)
    return OrientedBody(
        x,
        radii=np.tile([0.015, 0.01, 0.01], (count, 1)),
        orientations=quaternions_of(np.stack([tangent, side, np.cross(tangent, side)], axis=2)),
        edges=np.stack([index[:-1], index[1:]], axis=1),
    )


def fewest_crossings(x, rng):
    """The fewest crossings of a polygon in random projections; that of a trefoil is 3, of no knot 0."""
    fewest = len(x) ** 2
    for _ in range(40):
        p = (x @ np.linalg.qr(rng.standard_normal((3, 3)))[0])[:, :2]
        a, u = p[:-1], np.diff(p, axis=0)
        w, cross = a[None] - a[:, None], u[:, None, 0] * u[None, :, 1] - u[:, None, 1] * u[None, :, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            s = (w[..., 0] * u[None, :, 1] - w[..., 1] * u[None, :, 0]) / cross
            t = (w[..., 0] * u[:, None, 1] - w[..., 1] * u[:, None, 0]) / cross
        hit = (s > 0) & (s < 1) & (t > 0) & (t < 1)
        fewest = min(fewest, int(np.triu(hit, 2).sum()))
    return fewest


def test_an_overhand_knot_holds_when_it_is_pulled_to_more_than_its_length(rng):
    """Ends at 102 % of the rope's length stretch it, and still there is no way out of a knot."""
    body = knot()
    length = np.linalg.norm(np.diff(body.positions, axis=0), axis=1).sum()
    way = body.positions[-1] - body.positions[0]
    apart = np.linalg.norm(way)
    speed, time = 1.5 * way / apart, (1.02 * length - apart) / 3.0

    def pulled(sign):
        return lambda t: (np.eye(3), sign * min(t, time) * speed)

    ends = [KinematicParticles([0], pulled(-1)), KinematicParticles([len(body) - 1], pulled(1))]
    solver = ParticleSolver(body, gravity=(0, 0, 0), kinematic=ends)
    state = solver.start()
    assert fewest_crossings(state.positions, rng) == 3
    while state.time < time + 0.2:
        state = solver.step(state, 1 / 60)
    np.testing.assert_allclose(np.linalg.norm(state.positions[-1] - state.positions[0]), 1.02 * length)
    assert fewest_crossings(state.positions, rng) == 3


def test_contacts_of_thin_parts_do_not_depend_on_threads(rng):
    cloth, scarf = sheet((1, 1), (25, 25), thickness=0.01), sheet((1, 1), (22, 22), thickness=0.01)
    bodies = [cloth.replace(pinned=framed(cloth)), scarf.moved(translation=(0.013, 0.03, 0.021))]
    bodies.append(OrientedBody(rng.uniform(-0.4, 0.4, (40, 3)) + [0, 0.6, 0], radii=0.02, loose=True))
    results = []
    for count in (1, 2):
        with pg.threads(count):
            solver = ParticleSolver(bodies)
            state = solver.start()
            for _ in range(6):
                state = solver.step(state, 1 / 60)
            results.append(state)
    assert np.array_equal(results[0].positions, results[1].positions)
    assert np.array_equal(results[0].rotations, results[1].rotations)


def framed(cloth):
    return np.abs(cloth.positions[:, [0, 2]]).max(1) > 0.49
