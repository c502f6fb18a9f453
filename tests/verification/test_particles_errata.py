"""docs/explanation/errata.md, oriented particles: the printed form fails, the right form holds.

The entry on A.2 is in tests/particles/test_ellipsoids.py, next to the formula.
"""

import numpy as np
import pytest
from oracle import random_rotation
from scipy.spatial.transform import Rotation

from pointglue.geometry.quaternions import quaternions_of
from pointglue.particles import KinematicParticles, Motion, OrientedBody, ParticleSolver, Plane, block, rope
from pointglue.particles._solve.schedule import Schedule
from pointglue.particles._solve.topology import Topology


def polar(A):
    U, _, Vt = np.linalg.svd(A)
    return U @ np.diag([1, 1, np.linalg.det(U @ Vt)]) @ Vt


def ellipsoid_points(radii):
    """Six points of equal mass with the second moments of a solid ellipsoid, radii^2 / 5."""
    return np.concatenate([np.diag(radii), -np.diag(radii)]) * np.sqrt(3 / 5)


def test_equation_9_the_moment_is_taken_between_both_orientations(rng):
    radii, now, rest = np.array([1.0, 2.0, 3.0]), random_rotation(rng), random_rotation(rng)
    y = ellipsoid_points(radii)
    moment = (y @ now.T).T @ (y @ rest.T) / len(y)  # sum of x rest^T over the mass
    np.testing.assert_allclose(moment, now @ np.diag(radii**2) @ rest.T / 5, atol=1e-14)
    printed = np.diag(radii**2) @ now / 5
    assert np.abs(moment - printed).max() > 0.1
    body = OrientedBody([[0.0, 0, 0]], radii=radii[None], mass=1.0, orientations=quaternions_of(rest)[None])
    active = np.empty(0, np.bool_)
    M = Schedule.of(Topology(body), body.start().rest, body.pinned, active).moments[0].reshape(3, 3)
    np.testing.assert_allclose(now @ rest.T @ M, moment, atol=1e-14)  # what the solver adds: B = E M


def tilted_chain(rng):
    """Four particles in a row whose ellipsoids lie any which way at rest."""
    turned = quaternions_of(np.stack([random_rotation(rng) for _ in range(4)]))
    x = np.stack([np.arange(4.0), np.zeros(4), np.zeros(4)], axis=1)
    return OrientedBody(
        x, radii=np.tile([0.3, 0.2, 0.1], (4, 1)), orientations=turned, edges=[[0, 1], [1, 2], [2, 3]]
    )


def test_5_1_the_orientation_is_the_matched_rotation_times_the_one_at_rest(rng):
    body = tilted_chain(rng)
    solver = ParticleSolver(body, gravity=(0, 0, 0))
    after = solver.step(solver.start(), 1 / 60)
    axes = after.rotations @ after.rest.rotations
    np.testing.assert_allclose(axes, after.rest.rotations, atol=1e-12)  # at rest nothing turns
    printed = after.rotations  # the matched rotation alone: every particle would jump to the world's axes
    assert np.abs(printed - after.rest.rotations).max() > 0.1


def test_the_translation_needs_the_rotation(rng):
    rest = rng.standard_normal((6, 3)) + 3.0
    Q, c = random_rotation(rng), np.array([1.0, 2.0, 3.0])
    x = (rest - rest.mean(0)) @ Q.T + c
    np.testing.assert_allclose(rest @ Q.T + (x.mean(0) - Q @ rest.mean(0)), x, atol=1e-12)
    assert np.abs(rest @ Q.T + (x.mean(0) - rest.mean(0)) - x).max() > 1.0


def test_opposed_orientations_cancel_and_nothing_breaks():
    turns = np.stack([np.eye(3), *(np.diag(d) for d in ([1, -1, -1], [-1, 1, -1], [-1, -1, 1]))])
    np.testing.assert_array_equal(turns.sum(0), 0)
    x = np.stack([np.arange(4.0), np.zeros(4), np.zeros(4)], axis=1)
    edges = [[i, j] for i in range(4) for j in range(i)]
    body = OrientedBody(x, radii=0.3, mass=1.0, edges=edges)
    state = ParticleSolver(body).start().replace(rotations=turns)
    A = (x - x.mean(0)).T @ (x - x.mean(0)) + turns.sum(0) * 0.2 * 0.09
    assert np.linalg.matrix_rank(A) == 1  # "we always get a full rank moment matrix"
    after = ParticleSolver(body).step(state, 1 / 60)
    assert np.isfinite(after.positions).all()
    np.testing.assert_allclose(np.linalg.det(after.rotations), 1, atol=1e-12)


def test_equation_17_the_lever_points_from_the_centre_to_the_surface():
    v, n, r = np.array([1.0, 0, 0]), np.array([0, 1.0, 0]), 0.5

    def friction(lever):  # full strength, from rest
        return np.cross(lever, -v) / r**2

    rolling = np.array([0, 0, -v[0] / r])  # a wheel that goes along x turns about -z
    np.testing.assert_allclose(friction(-r * n), rolling)
    np.testing.assert_allclose(friction(r * n), -rolling)  # as printed: it spins backwards
    ball = OrientedBody([[0.0, r, 0.0]], radii=r)
    # With the reaction that 17 leaves out a sliding ball ends up rolling at 5/7 of its speed, as it should.
    solver = ParticleSolver(ball, colliders=[Plane((0, 0, 0), n)], friction=0.5)
    state = solver.start().replace(velocities=[v])
    for _ in range(60):
        state = solver.step(state, 1 / 60)
    np.testing.assert_allclose(state.velocities[0], 5 / 7 * v, atol=1e-6)
    np.testing.assert_allclose(state.spins[0], 5 / 7 * rolling, atol=1e-6)


def test_equations_18_to_21_one_after_the_other_with_equal_weights_lose_momentum(rng):
    m, v = np.array([1.0, 5.0]), rng.standard_normal((2, 3)) * [1, 0, 1]  # tangential to the normal, y
    sequential = v.copy()
    sequential[0] += (sequential.mean(0) - sequential[0]) * 0.5
    sequential[1] += (sequential.mean(0) - sequential[1]) * 0.5
    right = v + 0.5 * (m @ v / m.sum() - v)
    assert np.abs(m @ sequential - m @ v).max() > 0.1
    np.testing.assert_allclose(m @ right, m @ v, atol=1e-14)
    bodies = [OrientedBody([[0, 0.19 * k, 0]], radii=0.1, mass=m[k]) for k in range(2)]  # they touch
    two = ParticleSolver(bodies, gravity=(0, 0, 0), friction=5.0)
    state = two.start().replace(velocities=v)
    after = two.step(state, 1 / 60)
    assert np.abs(after.velocities - v).max() > 0.1  # there was friction
    np.testing.assert_allclose(m @ after.velocities, m @ v, atol=1e-12)


def test_equations_22_and_23_move_a_bent_rest_pose():
    """With orientations that differ at rest, plain slerp turns them towards each other for ever."""
    angle = np.linspace(0, np.pi / 2, 6)
    x = np.stack([np.sin(angle), 1 - np.cos(angle), np.zeros(6)], axis=1)
    axes = Rotation.from_rotvec(np.outer(angle, [0, 0, 1.0]))
    apart = (axes[1] * axes[0].inv()).magnitude()
    slerped = Rotation.from_rotvec(0.25 * (axes[1] * axes[0].inv()).as_rotvec()) * axes[0]
    assert (slerped * axes[0].inv()).magnitude() == pytest.approx(0.25 * apart)  # printed: it moves at rest
    body = OrientedBody(
        x,
        radii=np.tile([0.15, 0.05, 0.05], (6, 1)),
        orientations=axes.as_quat(scalar_first=True),
        edges=np.stack([np.arange(5), np.arange(1, 6)], axis=1),
        torsion=0.5,
    )
    solver = ParticleSolver(body, gravity=(0, 0, 0))
    after = solver.step(solver.start(), 1 / 60)
    np.testing.assert_allclose(after.positions, x, atol=1e-14)
    np.testing.assert_allclose(after.rotations, np.tile(np.eye(3), (6, 1, 1)), atol=1e-14)


def test_5_4_the_deformation_becomes_the_matched_transform_or_poses_jump(rng):
    from pointglue.particles._solve.plasticity import set_rest_shape

    body = block((1, 1, 1), (3, 3, 3), rigid=True, yield_speed=1.0)
    turned = random_rotation(rng)
    bent = body.positions @ turned.T + 0.05 * rng.standard_normal(body.positions.shape)
    local = np.stack(
        [turned @ Rotation.from_rotvec(0.1 * rng.standard_normal(3)).as_matrix() for _ in body.positions]
    )
    state = body.start().replace(positions=bent, rotations=local)
    after = set_rest_shape(body, state, body.groups[0])
    axes = state.rotations @ state.rest.rotations
    np.testing.assert_allclose(after.rotations @ after.rest.rotations, axes, atol=1e-12)
    Q = after.rotations[0]
    centre = bent.mean(0) - Q @ after.rest.positions.mean(0)
    np.testing.assert_allclose(after.rest.positions @ Q.T + centre, bent, atol=1e-12)  # s r is where it is
    printed = state.rotations @ after.rest.rotations  # r changed, d left as it was
    assert np.abs(printed - axes).max() > 0.05


def test_equation_14_takes_more_than_half_a_turn_for_its_other_way_round():
    """A limit that the paper does not state: |w| h < pi. Free bodies get their spin from their momentum."""
    h, turns = 1 / 60, 0.6
    w = np.array([0, 0, 2 * np.pi * turns / h])
    assert Rotation.from_rotvec(w * h).as_rotvec()[2] / h == pytest.approx(-2 * np.pi * 0.4 / h)
    solver = ParticleSolver(OrientedBody([[0.0, 0, 0]], radii=0.1), gravity=(0, 0, 0), substep=h)
    after = solver.step(solver.start().replace(spins=[w]), h)
    np.testing.assert_allclose(after.spins[0], w, rtol=1e-9, atol=1e-9)


def test_no_threshold_freezes_slow_turning():
    """The paper sets w to zero below an epsilon: a slow spin would stop."""
    slow = 1e-12
    chain = rope((0, 0, 0), (1, 0, 0), particles=2, radius=0.1)
    ball = OrientedBody([[0.0, 0, 0]], radii=0.1)
    for body in (chain, ball):
        solver = ParticleSolver(body, gravity=(0, 0, 0))
        w = np.tile([slow, 0, 0], (len(body), 1))
        state = solver.start().replace(spins=w)
        for _ in range(100):
            state = solver.step(state, 1 / 60)
        np.testing.assert_allclose(
            state.spins[:, 0], slow, rtol=1e-3
        )  # 1e-12 is a few thousand times rounding


def test_5_1_orientations_exert_a_torque_that_nothing_answers(rng):
    p = rng.standard_normal((5, 3))
    p -= p.mean(0)
    x = p + 0.1 * rng.standard_normal(p.shape)
    x -= x.mean(0)
    turns = Rotation.from_rotvec(0.5 * rng.standard_normal((5, 3))).as_matrix()
    positional, own = x.T @ p, 0.2 * turns.sum(0)
    Q = polar(positional + own)
    printed = np.cross(x, p @ Q.T - x).sum(0)
    k = own @ Q.T
    k = np.array([k[1, 2] - k[2, 1], k[2, 0] - k[0, 2], k[0, 1] - k[1, 0]])
    rest = p.T @ p + np.eye(3)  # all five turns are the identity
    H = np.trace(rest) * np.eye(3) - rest
    right = Q @ Rotation.from_rotvec(np.linalg.solve(H, Q.T @ k)).as_matrix()
    # One step of Newton's with the moments at rest, the own ones included, which make it a little too short.
    assert np.linalg.norm(np.cross(x, p @ right.T - x).sum(0)) < 0.5 * np.linalg.norm(printed)


def test_5_1_a_twisted_rope_comes_to_rest():
    """With the printed form this one still goes at 3 to 5 m/s after seven seconds."""
    line = rope((0, 0, 0), (2.2, 0, 0), particles=41, radius=0.03, stretch=1.0, torsion=0.3)
    turn = Motion(
        times=np.linspace(0, 2, 25),
        positions=np.zeros((25, 3)),
        rotations=Rotation.from_rotvec(np.outer(np.linspace(0, 6 * np.pi, 25), [1.0, 0, 0])).as_quat(
            scalar_first=True
        ),
    )
    hands = [KinematicParticles([0, 1], Motion([0.0], [[0.0, 0, 0]])), KinematicParticles([39, 40], turn)]
    solver = ParticleSolver(line, kinematic=hands, damping=3.0, iterations=4, substep=1 / 240)
    state = solver.start()
    for _ in range(9 * 60):
        state = solver.step(state, 1 / 60)
    assert np.linalg.norm(state.velocities, axis=1).max() < 0.5


def test_4_1_matching_straight_paths_to_a_turning_shape_loses_angular_momentum(rng):
    p, w, h = rng.standard_normal((8, 3)), 5.0, 1 / 60
    p -= p.mean(0)
    v = np.cross([0, 0, w], p)
    x = p @ polar((p + h * v).T @ p).T
    before, after = (np.cross(p, u).sum(0)[2] for u in (v, (x - p) / h))
    assert after / before == pytest.approx(1 - 0.5 * (w * h) ** 2, rel=0.01)
    body = OrientedBody(p, radii=0.1, mass=1.0, groups=[range(8)])
    solver = ParticleSolver(body, gravity=(0, 0, 0), substep=h)
    state = solver.start().replace(velocities=v, spins=np.tile([0, 0, w], (8, 1)))
    L = body.momentum(state)[1]
    np.testing.assert_allclose(body.momentum(solver.step(state, h))[1], L, atol=1e-12 * np.abs(L).max())
