"""Nothing prefers a direction: a scene that is turned as a whole, with gravity, moves as before, turned."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import pointglue
from pointglue.particles import Ball, Box, Capsule, OrientedBody, ParticleSolver, Plane, block, rope, sheet

STEPS = 30
# Rounding, and the angle by which Jacobi rotations stop, are amplified a little by each blow.
CLOSE = 1e-8  # m, of bodies of half a metre
# The same for hulls, whose impulses are swept until they change by less than 1e-6 of themselves, and which
# tumble on for half a second.
SWEPT = 3e-4
TURN = Rotation.from_rotvec([1.1, -0.7, 2.0]).as_matrix()


def lump(place, **options):
    """Five ellipsoids, each of its own size, in no plane."""
    rng = np.random.default_rng(3)
    x = np.array([[0, 0, 0], [0.3, 0.1, 0], [0, 0.35, 0.1], [0.1, 0, 0.4], [-0.25, 0.2, -0.2]])
    edges = [[i, j] for i in range(5) for j in range(i)]
    body = OrientedBody(x, radii=0.08 + 0.06 * rng.random((5, 3)), edges=edges, **options)
    return body.moved(translation=place)


GROUP = {"groups": [np.arange(5)]}
SOFT = {"stiffness": 0.6, "stretch": 0.5, "torsion": 0.4}
SCENES = {
    "a rigid lump bounces from a floor": ([lump((0, 0.9, 0), **GROUP)], "floor", {"bounce": 0.7}),
    "a soft lump on a floor": ([lump((0, 0.6, 0), **SOFT)], "floor", {}),
    "rigid lumps meet": ([lump((0, 0, 0), **GROUP), lump((0.9, 0.2, 0.1), **GROUP)], None, {"bounce": 0.8}),
    "soft lumps meet": ([lump((0, 0, 0), **SOFT), lump((0.9, 0.2, 0.1), **SOFT)], None, {"bounce": 0.3}),
    "soft lumps roll": (
        [lump((0, 0, 0), **SOFT), lump((0.9, 0.2, 0.1), **SOFT)],
        None,
        {"spin_friction": 0.5},
    ),
    "a rigid and a soft lump": ([lump((0, 0, 0), **GROUP), lump((0.9, 0.2, 0.1), **SOFT)], None, {}),
    "ropes meet": (
        [
            rope((0, 0.1, -0.3), (0, 0, 0.3), particles=9, radius=0.02),
            rope((0.15, -0.3, 0), (0.2, 0.3, 0.1), particles=9, radius=0.02),
        ],
        None,
        {},
    ),
    "a lump meets cloth": (
        [
            lump((0, 0, 0), **GROUP),
            sheet((0.6, 0.6), (6, 6), thickness=0.02).moved(
                rotation=np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]]), translation=(0.7, 0, 0)
            ),
        ],
        None,
        {},
    ),
    "boxes meet": (
        [block((0.4, 0.3, 0.2), (1, 1, 1), rigid=True).moved(translation=(k, 0.1 * k, 0)) for k in range(2)],
        None,
        {"bounce": 0.5},
    ),
    "a ball": ([lump((0.1, 0.9, 0), **GROUP)], "ball", {"bounce": 0.4}),
    "a capsule": ([lump((0.1, 0.9, 0), **SOFT)], "capsule", {}),
    "a box": ([lump((0.1, 0.9, 0), **GROUP)], "box", {"bounce": 0.4}),
}


def collider(kind, turn):
    if kind is None:
        return []
    made = {
        "floor": lambda: Plane((0, 0, 0), turn @ (0, 1, 0)),
        "ball": lambda: Ball((0, 0, 0), 0.5),
        "capsule": lambda: Capsule(turn @ (-0.5, 0, 0.1), turn @ (0.5, 0.1, 0), 0.3),
        "box": lambda: Box((0, 0, 0), (0.4, 0.3, 0.5), motion=lambda time: (turn, np.zeros(3))),
    }
    return [made[kind]()]


def end(scene, turn):
    bodies, kind, options = SCENES[scene]
    gravity = turn @ (0, -9.81, 0) if kind else np.zeros(3)
    solver = ParticleSolver(
        [body.moved(rotation=turn) for body in bodies],
        colliders=collider(kind, turn),
        gravity=gravity,
        friction=0.4,
        substep=1 / 240,
        **options,
    )
    state = solver.start()
    v, w = np.array([0.4, -0.5, 0.3]) @ turn.T, np.array([2.0, 1.0, -3.0]) @ turn.T
    n = len(bodies[0].positions)
    velocities, spins = state.velocities.copy(), state.spins.copy()
    center = np.average(state.positions[:n], axis=0, weights=solver.body.mass[:n])
    velocities[:n] = v + np.cross(w, state.positions[:n] - center) + (0 if kind else 1.5 * turn[:, 0])
    spins[:n] = w
    state = state.replace(velocities=velocities, spins=spins)
    with pointglue.threads(1):
        for _ in range(STEPS):
            state = solver.step(state, 1 / 60)
    drift = np.average(state.velocities[:n], axis=0, weights=solver.body.mass[:n])
    fallen = np.average(velocities[:n], axis=0, weights=solver.body.mass[:n]) + gravity * STEPS / 60
    assert np.linalg.norm(drift - fallen) > 0.1  # it has hit something
    return state


@pytest.mark.parametrize("scene", SCENES)
def test_a_turned_scene_moves_as_before(scene):
    plain, turned = end(scene, np.eye(3)), end(scene, TURN)
    close = SWEPT if scene == "boxes meet" else CLOSE
    np.testing.assert_allclose(turned.positions, plain.positions @ TURN.T, rtol=0, atol=close)
    np.testing.assert_allclose(turned.rotations, TURN @ plain.rotations @ TURN.T, rtol=0, atol=close)
