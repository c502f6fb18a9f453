"""Bodies of every kind meet those of every other: what falls on something that is held stays on it."""

from functools import cache

import numpy as np
import pytest
import trimesh

from pointglue.compute.launching import Launcher
from pointglue.particles import OrientedBody, ParticleSolver, Plane, block, sheet
from pointglue.particles._solve.kernels.contact.impulses import find_impulses

BALL = trimesh.creation.icosphere(2, 0.2)
KINDS = {
    "elastic": {},  # what `from_mesh` makes with no option set
    "soft": {"stiffness": 0.9},
    "rigid": {"rigid": True},
}


@cache
def ball_of(kind):
    """A ball of that kind with its middle at the origin; bodies do not change."""
    return OrientedBody.from_mesh(BALL, particles=80, density=100.0, **KINDS[kind])


def below(kind):
    """Something with its middle at the origin that is held, and how high its top is."""
    if kind == "cloth":
        body = sheet((1.2, 1.2), (14, 14), thickness=0.04, stiffness=0.05, stretch=1.0)
        edge = np.abs(body.positions[:, [0, 2]]).max(1) > 0.58
        return body.replace(pinned=edge), 0.0
    size, cells = (0.8, 0.3, 0.8), (4, 2, 4)
    options = {"rigid": True} if kind == "rigid" else {"stiffness": 0.9} if kind == "soft" else {"young": 1e7}
    body = block(size, cells, **options)
    return body.replace(pinned=body.positions[:, 1] < 0), 0.15


@pytest.mark.parametrize("other", ["cloth", "elastic", "soft", "rigid"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_falls_on_something_stays_on_it(kind, other):
    held, top = below(other)
    ball = ball_of(kind).moved(translation=[0.02, top + 0.45, 0.01])
    solver = ParticleSolver([ball, held])
    state, heights = solver.start(), []
    for _ in range(90):
        state = solver.step(state, 1 / 60)
        heights.append(state.positions[solver.parts[0], 1].mean() - top)
    # It has fallen, and not through: cloth gives way by less than a radius.
    assert heights[30] < 0.42
    assert min(heights) > (-0.1 if other == "cloth" else 0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_free_box_bears_what_stands_on_it(kind):
    """A rigid box that collides as a hull lies on the ground, and a ball on the box."""
    box = block((0.8, 0.3, 0.8), (4, 2, 4), rigid=True, density=500.0)
    bodies = [ball_of(kind).moved(translation=[0.02, 0.6, 0.01]), box.moved(translation=[0.0, 0.15, 0.0])]
    solver = ParticleSolver(bodies, colliders=[Plane([0, 0, 0], [0, 1, 0])])
    state = solver.start()
    for _ in range(90):
        state = solver.step(state, 1 / 60)
    assert state.positions[solver.parts[0], 1].mean() > 0.4
    np.testing.assert_allclose(state.positions[solver.parts[1]], bodies[1].positions, atol=2e-3)


def test_only_hulls_that_lead_to_an_elastic_body_are_solved_with_it(monkeypatch):
    """An elastic box on two rigid ones, and a wall of boxes beside it that is solved for on its own."""
    cube, counts, call = (0.2, 0.2, 0.2), [], Launcher.call

    def counted(launcher, kernel, *arguments):
        if kernel is find_impulses:
            counts[-1].append(len(arguments[-1].first))
        return call(launcher, kernel, *arguments)

    def boxes(x, heights):
        one = block(cube, (2, 2, 2), rigid=True)
        return [one.moved(translation=(x, 0.2 * k + 0.1, 0.0)) for k in heights]

    monkeypatch.setattr(Launcher, "call", counted)
    tower = [block(cube, (2, 2, 2), young=1e7).moved(translation=(0.0, 0.5, 0.0)), *boxes(0.0, range(2))]
    wall = [box for x in (1.0, 1.2, 1.4) for box in boxes(x, range(3))]
    for bodies in (tower, tower + wall):
        counts.append([])
        solver = ParticleSolver(bodies, colliders=[Plane([0, 0, 0], [0, 1, 0])])
        state = solver.start()
        for _ in range(6):
            state = solver.step(state, 1 / 60)
    # The rigid boxes have four contacts at least, with the ground and each other, and the elastic one four.
    assert min(counts[0]) >= 12
    # Those of the tower come and go with rounding, corner by corner, while the wall would bring 36 at least.
    assert max(counts[1]) < 12 + 36 / 2
