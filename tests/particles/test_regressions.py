"""Defects that use has shown, and what holds since."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pointglue as pg
from pointglue.errors import InputError
from pointglue.particles import Buoyancy, Collider, OrientedBody, ParticleSolver, Plane, block, rope, sheet

GROUND = Plane((0, 0, 0), (0, 1, 0))


def linked(count):
    """Rigid pieces in a row, each sharing a particle with the next."""
    x = [[0.2 * i, 0, 0] for i in range(2 * count + 1)] + [[0.4 * i + 0.2, 0, 0.2] for i in range(count)]
    groups = [[2 * i, 2 * i + 1, 2 * i + 2, 2 * count + 1 + i] for i in range(count)]
    return OrientedBody(x, radii=0.1, groups=groups)


def test_groups_that_share_particles_do_not_depend_on_threads():
    outcomes = []
    for threads in (1, 2, 3):
        with pg.threads(threads):
            tilt = np.array([[0.8, -0.6, 0], [0.6, 0.8, 0], [0, 0, 1]])
            solver = ParticleSolver(
                linked(24).moved(rotation=tilt, translation=(0, 0.3, 0)), colliders=[GROUND]
            )
            state = solver.start()
            for _ in range(30):
                state = solver.step(state, 1 / 60)
            outcomes.append(state.positions)
    assert state.positions[:, 1].min() < 0.11  # its lower end lies on the ground
    np.testing.assert_array_equal(outcomes[0], outcomes[1])
    np.testing.assert_array_equal(outcomes[0], outcomes[2])


@pytest.mark.parametrize("shift", [0.01, 1.0, 1e3])
def test_motion_does_not_depend_on_where_the_scene_stands(shift):
    body, outcomes = block((0.4, 0.4, 0.4), (4, 4, 4), stiffness=0.3), []
    for place in (0.0, shift):
        solver = ParticleSolver(body.moved(translation=(place, 0.3, 0)), colliders=[GROUND])
        state = solver.start()
        for _ in range(60):
            state = solver.step(state, 1 / 60)
        outcomes.append(state.positions - [place, 0, 0])
    # Rounding of places 1 km away is 1e-13, and a fall multiplies it.
    np.testing.assert_allclose(outcomes[0], outcomes[1], atol=1e-9)


@pytest.mark.parametrize(("place", "speed"), [((0.21, 0.11, 0.013), 1.0), ((0.39, 0.003, 0.002), 0.1)])
def test_rigid_bodies_that_start_inside_each_other_part_slowly(place, speed):
    one = block((0.4, 0.4, 0.4), (4, 4, 4), rigid=True)
    solver = ParticleSolver([one, one.moved(translation=place)], gravity=(0, 0, 0))
    state = solver.start()
    for _ in range(60):
        state = solver.step(state, 1 / 60)
    assert np.abs(state.velocities).max() < speed  # once 9 m/s


def test_what_moves_together_costs_no_more_than_what_rests():
    body = block((1, 1, 1), (6, 6, 6))
    solver = ParticleSolver(body, gravity=(0, 0, 0))
    solver.step(solver.start().replace(velocities=np.tile([0, -200.0, 0], (216, 1))), 1 / 60)
    assert len(solver.candidate_pairs) == 0


def test_two_bodies_may_have_a_particle_in_the_same_place():
    one = block((0.4, 0.4, 0.4), (2, 2, 2))
    state = ParticleSolver([one, one]).start()
    assert len(state) == 16


def test_a_scene_is_not_confused_by_a_pin_set_later():
    solver = ParticleSolver(rope((0, 0, 0), (1, 0, 0), particles=5, radius=0.03))
    state = solver.step(solver.start(), 1 / 60)
    pinned = solver.step(state.replace(pinned=np.arange(5) == 2), 1 / 60)
    np.testing.assert_array_equal(pinned.positions[2], state.positions[2])


ONE = block((1, 1, 1), (2, 2, 2), rigid=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ONE.start().replace(time="a"), "time"),
        (lambda: ONE.start().replace(time=np.nan), "time must be a finite number"),
        (lambda: ONE.start().replace(rest=None), "rest must be a RestPose, got NoneType"),
        (lambda: ONE.start().replace(pause=1.0), "pause must be 1 times"),
        (lambda: ONE.start().replace(pause=[np.nan]), "pause must be 1 times"),
        (
            lambda: ONE.start().replace(rotations=2 * ONE.start().rotations),
            r"rotations must be rotations, but at index \[0\] R R\^T is off by 3",
        ),
        (lambda: ONE.start().with_impulses(1.0, [0], (1, 0, 0)), "mass must be that of the body"),
        (lambda: ONE.start().with_impulses(np.ones(3), [5], (1, 0, 0)), "mass must be that of the body"),
        (lambda: sheet((1, 1), (2, 2), thickness=None), "thickness"),
        (lambda: block((1, 1, 1), (2, 2, 2), density="x"), "density"),
        (
            lambda: rope((0, 0, 0), (1, 0, 0), particles=3, radius=0.1, colour=3.0),
            "'colour' is not an option",
        ),
        (lambda: block((1, 1, 1), (2, 2, 2), positions=3), "'positions' is not an option"),
        (lambda: Buoyancy(level=[1, 2]), r"level must be a finite number, got \[1, 2\]"),
        (lambda: ParticleSolver(ONE, colliders=[Collider()]), "Collider is no shape of its own"),
        (lambda: OrientedBody([[0.0, 0, 0]], radii=1, loose="no"), "loose must be True or False"),
        (lambda: ONE.momentum(rope((0, 0, 0), (1, 0, 0), particles=3, radius=0.1).start()), "state has 3"),
        (lambda: ParticleSolver(ONE).step(3, 1 / 60), "state must be a ParticleState, got int"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_other_edges_keep_what_held_for_all():
    body = block((1, 1, 1), (2, 2, 2), stretch=0.5, rigid=True, yield_speed=3.0)
    fewer = body.replace(edges=body.edges[:7], groups=[range(4), range(4, 8)])
    np.testing.assert_array_equal(fewer.stretch, np.full(7, 0.5))
    np.testing.assert_array_equal(fewer.yield_speed, [3.0, 3.0])


@pytest.mark.parametrize("groups", [[[0], [0]], [[0], [0], [0]]], ids=["two", "three"])
def test_a_lone_particle_in_several_groups_falls_freely(groups):
    """Shared, it has no orientation, and so no inertia: what rounding leaves of it is no spin."""
    body = OrientedBody([[0.3, 0.2, 0.1]], radii=0.1, groups=groups)
    solver = ParticleSolver(body)
    state = solver.start()
    for _ in range(30):
        state = solver.step(state, 1 / 60)
    # Half a second of free fall, in 60 substeps of the symplectic Euler method.
    fall = 9.81 * 0.5**2 / 2 * (1 + 1 / 60)
    assert_allclose(state.positions, [[0.3, 0.2 - fall, 0.1]], atol=1e-12)
    assert_allclose(state.rotations, [np.eye(3)], atol=1e-12)
