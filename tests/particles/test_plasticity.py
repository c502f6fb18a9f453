"""Deformation that stays: dents of rigid groups and flow of soft ones; nothing jumps when it happens."""

import numpy as np
import pytest
from oracle import random_rotation
from particles.reference import mixed, polar, shaken
from scipy.spatial.transform import Rotation

from pointglue import fit_rigid
from pointglue.particles import Ball, OrientedBody, ParticleSolver, block, hinged_boxes, rope
from pointglue.particles._solve.plasticity import set_rest_shape


def axes(state):
    return state.rotations @ state.rest.rotations


def assert_same_poses(one, other):
    """Positions and orientations of the ellipsoids to 1e-12: sizes of 1, a few products of rotations."""
    np.testing.assert_allclose(one.positions, other.positions, atol=1e-12)
    np.testing.assert_allclose(axes(one), axes(other), atol=1e-12)


def bar(**options):
    body = block((0.6, 0.2, 0.2), (6, 2, 2), rigid=True, stiffness=0.5, **options)
    return body.moved(translation=(0, 0.6, 0))


def crash(speed, steps=30, let_go=5, **options):
    """A bar that falls on a ball, one substep a step; the states after each step."""
    body = bar(**{"yield_speed": 3.0, **options})
    collider = Ball((0.05, 0.2, 0), 0.2)
    solver = ParticleSolver(
        body, gravity=(0, 0, 0), colliders=[collider], plastic_time=let_go / 60, substep=1 / 60
    )
    states = [solver.start().replace(velocities=np.tile([0, -speed, 0.0], (len(body), 1)))]
    for _ in range(steps):
        states.append(solver.step(states[-1], 1 / 60))
    return body, states


def strain(body, state):
    """How far the body is from any rigid motion of its rest pose, m."""
    x, rest = (p - np.average(p, axis=0, weights=body.mass) for p in (state.positions, state.rest.positions))
    Q = polar(np.einsum("n,ni,nj->ij", body.mass, x, rest))
    return np.abs(x - rest @ Q.T).max()


@pytest.mark.parametrize("let_go", [5, 8])
def test_a_hit_above_the_yield_speed_lets_go_and_leaves_a_dent(let_go):
    body, states = crash(8.0, let_go=let_go)
    pauses = np.array([state.pause[0] for state in states]) * 60
    hit = int(np.flatnonzero(pauses > 0)[0])  # the first of the steps that it is let go of for
    absorbed = hit + let_go - 1
    expected = np.zeros(31)
    expected[hit:absorbed] = np.arange(let_go - 1, 0, -1)
    np.testing.assert_allclose(pauses, expected, atol=1e-9)
    for k, state in enumerate(states):
        changed = np.abs(state.rest.positions - body.positions).max()
        assert (changed > 1e-3) == (k >= absorbed)
        # For arrays that may be written, all kernels would be compiled once more.
        assert not state.rest.positions.flags.writeable
        # While it is let go of, it deforms; before and after it is rigid, but for rounding.
        assert (strain(body, state) > 1e-3) if hit <= k < absorbed else (strain(body, state) < 1e-14)
    # The bind pose stays what it was: skinning goes on from there.
    turn, shift = body.transforms(states[-1])
    moved = np.einsum("nij,nj->ni", turn, body.positions) + shift
    np.testing.assert_allclose(moved, states[-1].positions, atol=1e-12)


@pytest.mark.parametrize(("speed", "options"), [(2.0, {}), (8.0, {"yield_speed": np.inf})])
def test_a_hit_below_it_does_nothing(speed, options):
    body, states = crash(speed, **options)
    assert not any(state.pause.any() for state in states)
    for state in states:
        np.testing.assert_array_equal(state.rest.positions, body.positions)
        assert strain(body, state) < 1e-14
    assert np.abs(states[-1].spins).max() > 0.1  # it was hit and turned away


def test_the_substep_of_a_blow_is_done_again_as_if_the_group_had_been_let_go_of_before():
    body = bar(yield_speed=3.0)
    solver = ParticleSolver(
        body, gravity=(0, 0, 0), colliders=[Ball((0.05, 0.38, 0), 0.2)], plastic_time=5 / 60, substep=1 / 60
    )
    start = solver.start()
    spin = np.array([3.0, -2.0, 5.0])
    velocities = np.cross(spin, start.positions - [0, 0.6, 0]) + [0, -8, 0]
    before = start.replace(velocities=velocities, spins=np.tile(spin, (len(body), 1)))
    hit = solver.step(before, 1 / 60)
    let_go = solver.step(before.replace(pause=[5 / 60]), 1 / 60)
    assert hit.pause[0] == let_go.pause[0] > 0
    for name in ("positions", "rotations", "velocities", "spins"):
        np.testing.assert_array_equal(getattr(hit, name), getattr(let_go, name))


def test_nothing_jumps_when_the_dent_is_absorbed():
    """Against a solver that lets go for one step more: until the next step, the same poses and velocities."""
    _, short = crash(8.0, let_go=5)
    _, long = crash(8.0, let_go=6)
    absorbed = next(k for k in range(1, 31) if short[k - 1].pause[0] > 0 and short[k].pause[0] == 0)
    for k in range(absorbed + 1):
        assert_same_poses(short[k], long[k])
        np.testing.assert_allclose(short[k].velocities, long[k].velocities, atol=1e-10)
    assert np.abs(short[absorbed].rest.positions - long[absorbed].rest.positions).max() > 1e-3
    assert np.abs(short[absorbed + 1].positions - long[absorbed + 1].positions).max() > 1e-6


def test_absorb_takes_the_shape_of_now_in_the_frame_of_the_match(rng):
    body = mixed(rng, groups=[np.arange(19)])
    state = shaken(body.start(), rng)
    R = np.stack([random_rotation(rng) for _ in range(len(body))])
    state = state.replace(positions=body.positions + 0.1 * rng.standard_normal((19, 3)), rotations=R)
    members = body.groups[0]
    after = set_rest_shape(body, state, members)
    assert_same_poses(after, state)
    np.testing.assert_array_equal(after.velocities, state.velocities)
    # All turn with the match; the rest pose goes to the current one by one rigid motion.
    Q = after.rotations[0]
    np.testing.assert_allclose(after.rotations, np.tile(Q, (19, 1, 1)), atol=1e-14)
    fits = (after.positions[:1] - after.rest.positions[:1] @ Q.T) + after.rest.positions @ Q.T
    np.testing.assert_allclose(fits, after.positions, atol=1e-13)
    # Where it lies in the rest pose has not moved on the whole.
    np.testing.assert_allclose(
        np.average(after.rest.positions, axis=0, weights=body.mass),
        np.average(body.positions, axis=0, weights=body.mass),
        atol=1e-13,
    )
    # Absorbing once more changes nothing.
    again = set_rest_shape(body, after, members)
    np.testing.assert_allclose(again.rest.positions, after.rest.positions, atol=1e-12)
    np.testing.assert_allclose(again.rest.rotations, after.rest.rotations, atol=1e-12)
    # What is outside the group is left alone.
    part = set_rest_shape(body.replace(groups=[np.arange(5)], loose=True), state, np.arange(5))
    np.testing.assert_array_equal(part.rest.positions[5:], state.rest.positions[5:])
    np.testing.assert_array_equal(part.rotations[5:], state.rotations[5:])


def test_what_has_only_moved_rigidly_keeps_its_rest_shape(rng):
    """Three particles in a row, too: how far they have turned about their line, their orientations tell."""
    body = OrientedBody(np.outer(np.arange(3.0), [1, 0, 0]), radii=0.3, groups=[[0, 1, 2]])
    start, R = body.start(), random_rotation(rng)
    moved = start.replace(positions=body.positions @ R.T + [0, 1, 0], rotations=np.tile(R, (3, 1, 1)))
    after = set_rest_shape(body, moved, body.groups[0])
    np.testing.assert_allclose(after.rotations, moved.rotations, atol=1e-14)
    np.testing.assert_allclose(after.rest.positions, start.rest.positions, atol=1e-14)
    np.testing.assert_allclose(after.rest.rotations, start.rest.rotations, atol=1e-14)


def test_overlaps_that_a_blow_made_belong_to_the_new_shape_and_those_with_others_do_not():
    row = np.outer(np.arange(4.0), [1, 0, 0])
    body = OrientedBody(row, radii=0.3, groups=[[0, 1, 2]], loose=True)
    start = body.start()
    assert not len(start.rest.touching)
    dented = start.replace(positions=np.outer([0.0, 0.4, 2.9, 3.0], [1, 0, 0]))
    assert set_rest_shape(body, dented, body.groups[0]).rest.touching.tolist() == [[0, 1]]


def test_a_dented_body_is_at_rest_in_its_new_shape():
    body, states = crash(8.0)
    solver = ParticleSolver(body, gravity=(0, 0, 0))
    still = states[-1].replace(velocities=np.zeros((len(body), 3)), spins=np.zeros((len(body), 3)))
    after = still
    for _ in range(30):
        after = solver.step(after, 1 / 60)
    # Orientations and positions have been turned apart by contacts, by 1e-8; no more than that is put right.
    np.testing.assert_allclose(after.positions, still.positions, atol=1e-8)


def test_blows_between_bodies_count_too():
    ball = OrientedBody([[0.05, 1.2, 0.0]], radii=0.15, mass=20.0)
    for speed, dents in ((2.0, False), (10.0, True)):
        solver = ParticleSolver([bar(yield_speed=3.0), ball], gravity=(0, 0, 0))
        velocities = np.zeros((len(solver.body), 3))
        velocities[-1, 1] = -speed
        state, dented = solver.start().replace(velocities=velocities), False
        for _ in range(40):
            state = solver.step(state, 1 / 60)
            dented = dented or bool(state.pause.any())
        assert dented == dents


def bend(state):
    """Degrees between the two ends of a rope."""
    along = np.diff(state.positions, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    return np.degrees(np.arccos(np.clip(along[0] @ along[-1], -1, 1)))


def bent(state, angle=1.2):
    """A straight rope along x, held in an arc."""
    a = np.linspace(0, angle, len(state))
    x = np.stack([np.sin(a), 1 - np.cos(a), 0 * a], axis=1) / angle
    return state.replace(
        positions=x,
        rotations=Rotation.from_rotvec(np.outer(a, [0, 0, 1])).as_matrix(),
        pinned=np.ones(len(state), bool),
    )


@pytest.mark.parametrize(
    ("options", "stays"),
    [
        ({"yield_strain": 0.005, "creep": 5.0}, True),
        ({}, False),
        ({"yield_strain": 0.5, "creep": 5.0}, False),
    ],
    ids=["flows", "elastic", "below its yield strain"],
)
def test_a_bent_rope_that_flows_stays_bent(options, stays):
    body = rope((0, 0, 0), (1, 0, 0), particles=8, radius=0.05, stiffness=0.8, **options)
    solver = ParticleSolver(body, gravity=(0, 0, 0), contacts="none", damping=2.0)
    state = bent(solver.start())
    held = bend(state)
    for _ in range(120):
        state = solver.step(state, 1 / 60)
    state = state.replace(pinned=np.zeros(8, bool))
    for _ in range(300):
        state = solver.step(state, 1 / 60)
    assert bend(state) > 0.6 * held if stays else bend(state) < 0.05 * held


def test_nothing_jumps_while_it_flows():
    """A step with flow against one without, from the same state: the same poses, another rest pose."""
    options = {"particles": 8, "radius": 0.05, "stiffness": 0.8, "torsion": 0.3}
    flows = rope((0, 0, 0), (1, 0, 0), yield_strain=0.005, creep=5.0, **options)
    elastic = rope((0, 0, 0), (1, 0, 0), **options)
    solver, other = (ParticleSolver(body, contacts="none") for body in (flows, elastic))
    state = bent(solver.start()).replace(pinned=np.arange(8) == 0)
    for _ in range(30):
        plain, state = other.step(state, 1 / 60), solver.step(state, 1 / 60)
        assert_same_poses(state, plain)
        np.testing.assert_allclose(state.velocities, plain.velocities, atol=1e-10)
        assert not state.pause.any()
    assert np.abs(state.rest.positions - flows.positions).max() > 1e-3


def test_flow_approaches_the_yield_strain_at_its_rate():
    """A pair held at twice its length: the edge grows until the strain is down to the limit."""
    body = OrientedBody([[0, 0, 0], [0.2, 0, 0]], radii=0.05, edges=[[0, 1]], yield_strain=0.1, creep=2.0)
    solver = ParticleSolver(body, gravity=(0, 0, 0))
    state = solver.start().replace(positions=[[0, 0, 0], [0.4, 0, 0]], pinned=[True, True])
    lengths = [0.2]
    for _ in range(300):
        state = solver.step(state, 1 / 60)
        lengths.append(np.linalg.norm(np.diff(state.rest.positions, axis=0)))
    assert (np.diff(lengths) >= 0).all()
    # In the end the strain is 0.4 / l - 1 = 0.1.
    assert lengths[-1] == pytest.approx(0.4 / 1.1, rel=1e-3)
    # At first the strain is 1, nine tenths of which flow at 2 / s, in a step of 1 - exp(-2 / 60).
    assert lengths[1] - 0.2 == pytest.approx(0.9 * 0.2 * -np.expm1(-2 / 60), rel=1e-9)


def test_a_body_at_rest_does_not_flow():
    body = rope((0, 0, 0), (1, 0, 0), particles=8, radius=0.05, yield_strain=1e-6, creep=5.0)
    solver = ParticleSolver(body, gravity=(0, 0, 0))
    state = solver.start()
    rest = state.rest
    for _ in range(50):
        state = solver.step(state, 1 / 60)
    assert state.rest is rest


def test_a_dent_on_one_side_of_a_hinge_leaves_the_other_side_as_it_is():
    boxes = hinged_boxes((1.2, 0.4, 0.8), (6, 2, 4), stiffness=0.5).replace(yield_speed=[1.0, np.inf])
    ball = OrientedBody([[-1.0, 1.0, 0.0]], radii=0.15, mass=200.0)
    solver = ParticleSolver(
        [boxes, ball], iterations=4, substep=1 / 240, gravity=(0, 0, 0), contacts="bodies"
    )
    state = solver.start().with_impulses(solver.body.mass, [len(boxes)], [0.0, -1600.0, 0.0])
    for _ in range(60):
        state = solver.step(state, 1 / 60)

    def off(group):
        rest, x = boxes.positions[group], state.positions[group]
        return np.linalg.norm(fit_rigid(rest, x).apply(rest) - x, axis=1).max()

    dented, other = boxes.groups
    assert off(dented) > 0.02
    assert off(other) < 1e-4  # 41 mm when the hinge's particles moved in its rest shape
