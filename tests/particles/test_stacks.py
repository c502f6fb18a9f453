"""Stacks and piles of rigid bodies: they stand, come to rest, and wake when what held them is gone."""

import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation

import pointglue
from pointglue.errors import InputError
from pointglue.io import load_body, save_body
from pointglue.particles import Ball, Box, OrientedBody, ParticleSolver, Plane, block, editing
from pointglue.particles._solve.hulls import hull_shape

FLOOR = Plane((0, 0, 0), (0, 1, 0))
SIZE = 0.2  # m


def stack(densities, floor=FLOOR, cells=(1, 1, 1), lift=0.0):
    """Cubes one upon the other, as dense as given, from below."""
    cube = (SIZE, SIZE, SIZE)
    bodies = [
        block(cube, cells, rigid=True, density=density).moved(translation=(0, lift + SIZE * (k + 0.5), 0))
        for k, density in enumerate(densities)
    ]
    return ParticleSolver(bodies, colliders=[floor])


def after(solver, seconds, state=None):
    state = solver.start() if state is None else state
    for _ in range(round(60 * seconds)):
        state = solver.step(state, 1 / 60)
    return state


@pytest.mark.parametrize("densities", [[1000.0] * 10, [100.0, 1e3], [100.0, 1e4], [100.0, 1e3, 1e4]], ids=len)
def test_a_stack_stands(densities):
    """Once all of it sleeps a step changes nothing, so that it stands for 60 s and for ever."""
    solver = stack(densities)
    state = after(solver, 2.0)
    assert not state.velocities.any()
    # It was in equilibrium from the start: what has moved is the error of the impulses, far below 1 mm.
    np.testing.assert_allclose(state.positions, solver.body.positions, atol=5e-4)
    later = after(solver, 1 / 6, state)
    np.testing.assert_array_equal(later.positions, state.positions)
    np.testing.assert_array_equal(later.rotations, state.rotations)


@pytest.mark.parametrize("seed", range(3))
def test_a_stack_stands_whichever_way_is_up(seed):
    """Boxes on a floor that are turned together with gravity keep their places as upright ones do."""
    turn = Rotation.random(random_state=seed).as_matrix()
    cube = (SIZE, SIZE, SIZE)
    bodies = [
        block(cube, (1, 1, 1), rigid=True).moved(rotation=turn, translation=turn @ (0, SIZE * (k + 0.5), 0))
        for k in range(4)
    ]
    floor = Box((0, 0, 0), (0.5, 0.5, 0.5), motion=lambda time: (turn, turn @ (0, -0.5, 0)))
    solver = ParticleSolver(bodies, colliders=[floor], gravity=turn @ (0, -9.81, 0))
    state = after(solver, 2.0)
    assert not state.velocities.any()
    np.testing.assert_allclose(state.positions, solver.body.positions, atol=5e-4)


def test_a_stack_that_is_put_down_stands_too():
    solver = stack([1000.0] * 5, lift=0.01)
    state = after(solver, 2.5)
    assert not state.velocities.any()
    expected = solver.body.positions - [0, 0.01, 0]
    np.testing.assert_allclose(state.positions, expected, atol=2e-3)


def pile(count):
    rng = np.random.default_rng(1)
    bodies = []
    for k in range(count):
        place = (rng.uniform(-0.25, 0.25), 0.3 + 0.125 * k, rng.uniform(-0.25, 0.25))
        turn = Rotation.random(random_state=k).as_matrix()
        bodies.append(
            block((SIZE, SIZE, SIZE), (1, 1, 1), rigid=True).moved(rotation=turn, translation=place)
        )
    return ParticleSolver(bodies, colliders=[FLOOR])


def test_thirty_bodies_come_to_rest_and_threads_change_no_bit():
    ends = []
    for count in (1, 3):
        with pointglue.threads(count):
            ends.append(after(pile(30), 1.0))
    np.testing.assert_array_equal(ends[0].positions, ends[1].positions)
    np.testing.assert_array_equal(ends[0].velocities, ends[1].velocities)
    solver = pile(30)
    state = after(solver, 4.0, ends[0])
    assert np.linalg.norm(state.velocities, axis=1).max() < 1e-3
    # Cubes that do not overlap: no two middles are nearer than their size, and none is in the floor.
    apart = np.linalg.norm(state.positions[:, None] - state.positions, axis=2)[np.triu_indices(30, 1)]
    assert apart.min() > SIZE - 1e-3
    assert state.positions[:, 1].min() > SIZE / 2 - 1e-3


def test_a_stack_wakes_when_its_floor_goes_away():
    """It sleeps until then, and falls freely after."""

    def gone(time):
        return np.eye(3), np.array([0.0, 0.0, 0.0 if time < 1.5 else -50.0])

    solver = stack([1000.0] * 3, floor=Box((0, -0.5, 0), (0.5, 0.5, 0.5), motion=gone))
    state = after(solver, 1.4)
    assert not state.velocities.any()
    state = after(solver, 0.6, state)
    fallen = 0.5 * 9.81 * 0.5**2
    np.testing.assert_allclose(solver.body.positions[:, 1] - state.positions[:, 1], fallen, rtol=0.05)


def test_a_stack_wakes_when_it_is_hit():
    solver = stack([1000.0] * 3)
    state = after(solver, 1.5)
    assert not state.velocities.any()
    pushed = state.with_impulses(solver.body.mass, [2], [8 * 2.0, 0, 0])  # 2 m/s
    assert after(solver, 0.2, pushed).positions[2, 0] > 0.1
    assert after(solver, 0.2, state).positions[2, 0] == state.positions[2, 0]


@pytest.mark.parametrize(("slope", "slides"), [(0.4, False), (0.6, True)])
def test_a_hull_on_a_slope_obeys_coulomb(slope, slides):
    """With mu = 0.5 it holds below that slope, and above slides with g (sin - mu cos)."""
    angle = np.arctan(slope)
    normal = np.array([-np.sin(angle), np.cos(angle), 0])
    turn = Rotation.from_rotvec([0, 0, angle]).as_matrix()
    body = block((0.4, SIZE, 0.4), (2, 1, 2), rigid=True).moved(rotation=turn, translation=SIZE / 2 * normal)
    solver = ParticleSolver(body, colliders=[Plane((0, 0, 0), normal)], friction=0.5)
    way = np.linalg.norm((after(solver, 1.0).positions - body.positions)[0])
    expected = 0.5 * 9.81 * (np.sin(angle) - 0.5 * np.cos(angle)) if slides else 0.0
    assert way == pytest.approx(expected, rel=0.03, abs=1e-3)


def test_a_ball_rests_on_a_hull_and_a_hull_on_a_ball_collider():
    table = block((1.0, SIZE, 1.0), (3, 1, 3), rigid=True).moved(translation=(0, SIZE / 2, 0))
    ball = OrientedBody([[0.1, 0.35, 0.05]], radii=0.1)
    solver = ParticleSolver([table, ball], colliders=[FLOOR])
    state = after(solver, 2.0)
    np.testing.assert_allclose(state.positions[-1], [0.1, SIZE + 0.1, 0.05], atol=1e-3)
    solver = ParticleSolver(table.moved(translation=(0, 0.5, 0)), colliders=[Ball((0, 0, 0), 0.5)])
    assert after(solver, 0.5).positions[:, 1].min() > 0.3


def test_boxes_that_bounce_return_their_share():
    body = block((SIZE, SIZE, SIZE), (1, 1, 1), rigid=True).moved(translation=(0, 0.1 + 0.5, 0))
    solver = ParticleSolver(body, colliders=[FLOOR], bounce=0.5)
    heights = []
    state = solver.start()
    for _ in range(45):
        state = solver.step(state, 1 / 60)
        heights.append(state.positions[0, 1] - 0.1)
    # It comes with v and goes with v / 2: up to a quarter of the height.
    assert max(heights[25:]) == pytest.approx(0.125, rel=0.15)


def test_the_hull_of_a_cube_has_its_faces_and_edges():
    inside = np.random.default_rng(0).uniform(-0.9, 0.9, (50, 3))
    corners = [[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    hull = hull_shape(np.concatenate([inside, corners]))
    assert len(hull.corners) == 8
    assert [len(loop) for loop in hull.loops] == [4] * 6
    assert len(hull.edges) == 12
    for normal, loop in zip(hull.normals, hull.loops, strict=True):
        a, b, c = hull.corners[loop[:3]]
        assert np.cross(b - a, c - b) @ normal > 0  # counterclockwise from outside
        np.testing.assert_allclose(hull.corners[loop] @ normal, 1.0)


@pytest.fixture(scope="module")
def drum():
    """A rigid body made from the mesh of a drum that stands."""
    mesh = trimesh.creation.cylinder(0.2, 0.3)
    return OrientedBody.from_mesh((mesh.vertices[:, [1, 2, 0]], mesh.faces), rigid=True, particles=40)


def test_meshes_as_good_as_convex_collide_as_hulls(drum):
    ring = OrientedBody.from_mesh(trimesh.creation.torus(0.3, 0.1), rigid=True, particles=40)
    assert len(drum.hulls[0])
    assert not len(ring.hulls[0])
    assert len(editing.hull(ring, filled=0.0).hulls[0])


def test_drums_of_a_mesh_stack(drum):
    bodies = [drum.moved(translation=(0, 0.15 + 0.3 * k, 0)) for k in range(4)]
    solver = ParticleSolver(bodies, colliders=[FLOOR])
    state = after(solver, 2.0)
    assert not state.velocities.any()
    np.testing.assert_allclose(state.positions, solver.body.positions, atol=5e-3)


def test_hulls_are_kept_in_files_and_follow_edits(tmp_path):
    body = block((1, 2, 3), (2, 2, 2), rigid=True).moved(translation=(1, 0, 0))
    save_body(tmp_path / "box.npz", body)
    again = load_body(tmp_path / "box.npz")
    np.testing.assert_array_equal(again.hulls[0], body.hulls[0])
    np.testing.assert_allclose(np.ptp(again.hulls[0], axis=0), [1, 2, 3])
    assert not len(editing.erase(body, [0]).hulls[0])
    assert not len(body.replace(groups=[np.arange(4)]).hulls[0])


@pytest.mark.parametrize(
    ("hulls", "message"),
    [
        ([np.eye(3)], r"hulls\[0\] must have 4 points"),
        ([None, None], "hulls must be one for each of the 1 groups"),
        ([np.zeros((5, 2))], r"hulls\[0\] must have shape"),
        (3, "hulls must be a list"),
    ],
)
def test_wrong_hulls_are_named(hulls, message):
    with pytest.raises(InputError, match=message):
        block((1, 1, 1), (2, 2, 2), rigid=True, hulls=hulls)
