"""Points that are held in place and free to turn: pendulums and ropes that hang."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from pointglue import OrientedBody, ParticleSolver
from pointglue.errors import InputError
from pointglue.io import load_body, save_body
from pointglue.particles import Box, Skin, block, editing, rope


def test_a_bar_on_a_pivot_is_a_compound_pendulum():
    """Its period is 2 pi sqrt(I / (m g d)), 1 % longer at most for the swing of 0.1 rad and the steps."""
    bar = block((1.0, 0.1, 0.1), (10, 1, 1), rigid=True)
    body = editing.pivot(bar, (-0.5, 0, 0)).moved(
        rotation=Rotation.from_euler("z", 0.1 - np.pi / 2).as_matrix()
    )
    solver, dt, swing = ParticleSolver(body), 1 / 120, []
    state = solver.start()
    for _ in range(480):
        state = solver.step(state, dt)
        swing.append(state.positions[9, 0] - state.positions[10, 0])
    np.testing.assert_array_equal(state.positions[10], body.positions[10])
    up = np.flatnonzero((np.array(swing[:-1]) < 0) & (np.array(swing[1:]) >= 0))
    times = [dt * (k + 1 - swing[k] / (swing[k + 1] - swing[k])) for k in up]
    away = bar.positions[:, 0] + 0.5
    inertia = (bar.mass * (away**2 + (bar.radii[:, 0] ** 2 + bar.radii[:, 1] ** 2) / 5)).sum()
    period = 2 * np.pi * np.sqrt(inertia / (9.81 * (bar.mass * away).sum()))
    assert np.diff(times).mean() == pytest.approx(period, rel=0.01)


@pytest.mark.parametrize("held", ["position", True])
def test_a_rope_hangs_straight_from_a_point_that_may_turn(held):
    """A support that is free to turn carries no moment, so the rope is below it; a clamp carries one."""
    body = editing.pin(rope((0, 0, 0), (1, 0, 0), particles=6, radius=0.03), [0], pinned=held)
    solver = ParticleSolver(body, drag=3.0)
    state = solver.start()
    for _ in range(400):
        state = solver.step(state, 1 / 60)
    np.testing.assert_array_equal(state.positions[0], 0)
    sideways = np.abs(state.positions[:, 0]).max()
    assert sideways < 0.01 if held == "position" else sideways > 0.2


def test_two_pivots_are_a_hinge():
    body = block((0.4, 0.4, 0.4), (3, 3, 3))
    body = editing.pivot(editing.pivot(body, (-0.3, 0.2, -0.2)), (-0.3, 0.2, 0.2))
    solver = ParticleSolver(body)
    state = solver.start()
    for _ in range(60):
        state = solver.step(state, 1 / 60)
    # It has turned about the line between them, and not left its place along that line.
    assert state.positions[:27, 1].mean() < body.positions[:27, 1].mean() - 0.02
    np.testing.assert_allclose(state.positions[:, 2], body.positions[:, 2], atol=0.01)


def test_pins_pivots_and_releases(tmp_path):
    body = rope((0, 0, 0), (1, 0, 0), particles=6, radius=0.03, pinned="position")
    assert body.pivots.all()
    assert not body.pinned.any()
    body = editing.pin(editing.pin(body, [0]), [1, 2], pinned=False)
    assert body.pinned.tolist() == [True] + [False] * 5
    assert body.pivots.tolist() == [False] * 3 + [True] * 3
    save_body(tmp_path / "rope.npz", body)
    np.testing.assert_array_equal(load_body(tmp_path / "rope.npz").pivots, body.pivots)
    with pytest.raises(InputError, match=r"pinned must be .position., got .place."):
        rope((0, 0, 0), (1, 0, 0), particles=6, radius=0.03, pinned="place")
    on_one = editing.pivot(rope((0, 0, 0), (1, 0, 0), particles=6, radius=0.03), (0, 0, 0))
    assert len(on_one) == 6
    assert on_one.pivots.tolist() == [True] + [False] * 5


def test_ellipsoids_are_fitted_again():
    """Balls in a sheet become as flat as a body made from it has them."""
    grid = np.stack(np.meshgrid(np.arange(9) / 8, [0.0], np.arange(9) / 8, indexing="ij"), -1).reshape(-1, 3)
    k = np.arange(81).reshape(9, 9)
    faces = np.stack([k[:-1, :-1], k[:-1, 1:], k[1:, 1:], k[1:, :-1]], -1).reshape(-1, 4)
    made = OrientedBody.from_mesh((grid, faces), spacing=0.25)
    balls = made.replace(radii=0.1, orientations=np.tile([1.0, 0, 0, 0], (len(made), 1)))
    fitted = editing.fit_ellipsoids(balls, spacing=0.25)
    # Vertices half way between two particles may go to the other one, which is a tenth of a radius.
    np.testing.assert_allclose(fitted.radii, made.radii, rtol=0.15)
    some = editing.fit_ellipsoids(balls, [0, 1], aspect=4.0)
    assert (some.radii[2:] == 0.1).all()
    assert some.radii[:2].min() < 0.6 * made.radii[:2].min()
    with pytest.raises(InputError, match="visual mesh"):
        editing.fit_ellipsoids(rope((0, 0, 0), (1, 0, 0), particles=6, radius=0.03))


def test_a_brush_may_join_pieces():
    one = block((0.4, 0.4, 0.4), (2, 2, 2))
    positions = np.concatenate([one.positions, one.positions + [0.45, 0, 0]])
    cube = np.array([[x, y, z] for x in (-0.2, 0.2) for y in (-0.2, 0.2) for z in (-0.2, 0.2)])
    sides = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
    skin = Skin.of(np.concatenate([cube, cube + [0.45, 0, 0]]), np.concatenate([sides, sides + 8]), positions)
    edges = np.concatenate([one.edges, one.edges + 8])
    body = OrientedBody(positions, radii=0.1, edges=edges, visual=skin)
    assert len(set(body.components)) == 2
    brush = editing.Brush((0.2, 0, 0), 0.6)
    apart = editing.connect(body, brush, longest=0.26)
    assert len(set(apart.components)) == 2
    assert len(apart.check()) == 1
    joined = editing.connect(body, brush, longest=0.26, across=True)
    assert len(set(joined.components)) == 1
    assert joined.check() == []
    assert len(joined.edges) == len(edges) + 4


def test_a_box_measures_as_a_block_does():
    box = Box((0, 0, 0), size=(1.0, 2.0, 3.0))
    np.testing.assert_array_equal(box.half_extents, [0.5, 1.0, 1.5])
    np.testing.assert_array_equal(Box((0, 0, 0), (0.5, 1, 1.5)).size, box.size)
    for given in ({}, {"size": (1, 1, 1), "half_extents": (1, 1, 1)}):
        with pytest.raises(InputError, match="either half_extents or size"):
            Box((0, 0, 0), **given)
    with pytest.raises(InputError, match="size must be positive"):
        Box((0, 0, 0), size=(1, 0, 1))
