"""Which parts of a solver's bodies are free, and that each keeps its angular momentum with BDF2."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scenes import EDGES, GRID, TOP, box, joined, soft

import pointglue as pg
from pointglue.elastic import Bond, ElasticBody, ImplicitSolver, SpringEnergy

DT = 1 / 24
TURN = np.array([2.0, 3.0, -4.0])  # rad/s


def spinning(points, spin=TURN, velocity=(0.0, 0.0, 0.0)):
    """The velocities of points that spin about their centroid."""
    return np.cross(spin, points - points.mean(0)) + velocity


def cube(name, shift=(0, 0, 0), spin=TURN, **options):
    """A soft cube that spins; the softer, the more it swings."""
    return soft(name, shift, velocities=spinning(GRID, np.asarray(spin)), stiffness=50.0, **options)


def own_momentum(solver, state, rows):
    """The angular momentum of particles about their centroid."""
    m, x, v = solver.model.mass[rows, None], state.particles[rows], state.particle_velocities[rows]
    return np.cross(x - (m * x).sum(0) / m.sum(), m * v).sum(0)


def states(solver, steps=12, first=None):
    """The states after each of some steps, from the first one on."""
    found = [solver.start() if first is None else first]
    for _ in range(steps):
        found.append(solver.step(found[-1], DT))
    return found


def assert_kept(momenta, *, but=1e-3):
    """The last of the momenta are the same, and as at the start but for what the first substep takes."""
    size = np.linalg.norm(momenta[0])
    assert_allclose(momenta[-1], momenta[0], rtol=0, atol=but * size)
    # What the first substep has taken goes on by 1/3 a step, so 1e-3 of it is left after six steps.
    assert_allclose(momenta[-1], momenta[-3], rtol=0, atol=1e-3 * but * size)


def free(bodies, **options):
    return ImplicitSolver(bodies, gravity=(0, 0, 0), method="bdf2", tolerance=1e-10, **options)


def test_what_is_tied_together_is_one_part(rng):
    """A soft cube glued to another, a rigid box on a spring below it, and one more on a hinge."""
    first = cube("first")
    second = soft("second", (0, -0.5, 0), velocities=spinning(GRID, 2 * TURN))
    hung = box("hung", (0.1, -0.8, 0.1), spin=(3, 1, 2))
    last = box("last", (0.1, -1.2, 0.1), velocity=(1, 0, 0))
    solver = free(
        [first, second, hung, last],
        glue=[Bond("second", TOP, "first"), Bond("hung", [0], "first", spring=pg.Spring(50.0, damping=1.0))],
        joints=[joined(hung, last, (0.1, -1.0, 0.1), "hinge")],
    )
    found = states(solver)
    linear, angular = (np.array(each) for each in zip(*map(solver.momenta, found), strict=True))
    assert_allclose(linear, np.broadcast_to(linear[0], linear.shape), atol=1e-9)
    center = [
        (
            solver.model.mass @ state.particles + solver.model.inertia.mass @ state.origins
        ) / (solver.model.mass.sum() + solver.model.inertia.mass.sum())
        for state in found
    ]  # fmt: skip
    assert_kept(angular - np.cross(center, linear), but=3e-3)


@pytest.mark.parametrize("apart", [True, False])
def test_each_part_keeps_its_own(apart):
    """Two cubes that spin each in its own way, as bodies of their own, and as one body of two pieces."""
    spins, shift = (TURN, [-1.0, 0.0, 5.0]), (1.0, 0.2, 0.0)
    if apart:
        bodies = [cube("one", spin=spins[0]), cube("other", shift, spins[1])]
    else:
        points = np.concatenate([GRID, GRID + shift])
        energy = SpringEnergy(points, np.concatenate([EDGES, EDGES + len(GRID)]), 50.0)
        speeds = np.concatenate([spinning(GRID, np.asarray(spin)) for spin in spins])
        bodies = [ElasticBody(points, np.full(128, 0.01), [energy], velocities=speeds)]
    solver = free(bodies)
    found = states(solver)
    for rows in (slice(0, 64), slice(64, 128)):
        assert_kept([own_momentum(solver, state, rows) for state in found])


def test_parts_come_apart_where_a_spring_breaks():
    """Two cubes on a spring that breaks: from then on each keeps what it has."""
    spring = pg.Spring(20.0, break_force=2.0)
    bodies = [cube("one"), cube("other", (0.5, 0, 0), [-1.0, 0, 5.0])]
    solver = free(bodies, glue=[Bond("other", [0], "one", spring=spring)])
    found = states(solver, 15)
    assert not found[1].broken_springs.any()
    after = next(k for k, state in enumerate(found) if state.broken_springs.all())
    assert after < 6
    for rows in (slice(0, 64), slice(64, 128)):
        momenta = [own_momentum(solver, state, rows) for state in found[after + 7 :]]
        # What the pull has begun goes on by 1/3 a step: there is 1/3^7 of it left here.
        assert_allclose(momenta[-1], momenta[0], rtol=0, atol=5e-4 * np.linalg.norm(momenta[0]))


@pytest.mark.parametrize("held", ["pinned", "glued", "hinged"])
def test_what_is_held_has_the_velocities_of_the_method(held):
    """What is pinned, or tied to something that is, moves as BDF2 says: (3 x1 - 4 x0 + x-1) / 2h."""
    fast = cube("fast", pinned=[0] if held == "pinned" else None)
    if held == "pinned":
        solver = free([fast])
    elif held == "glued":
        solver = free([soft("still", (0, -0.5, 0), pinned=[0]), fast], glue=[Bond("fast", [0], "still")])
    else:
        still = box("still", (0.1, -0.2, 0.1), fixed=True)
        solver = free([still, fast], joints=[joined(still, fast, (0.1, 0.0, 0.1), "hinge")])
    *_, past, before, now = states(solver, 4)
    expected = (3 * now.particles - 4 * before.particles + past.particles) / (2 * DT)
    assert_allclose(now.particle_velocities, expected, atol=1e-9)


def test_a_rigid_body_alone_is_a_part():
    """Free and tumbling: it lost 3 % in twelve steps."""
    solver = free([box(spin=(1.0, 2.0, 6.0))])
    assert_kept([solver.momenta(state)[1] for state in states(solver)])


def test_single_particles_and_lines():
    """A particle alone has nothing to turn; of two on a spring nothing tells how they spin about it."""
    pair = np.array([[-0.5, 0, 0], [0.5, 0, 0]])
    spring = ElasticBody(
        pair, [1.0, 2.0], [SpringEnergy(pair, [[0, 1]], 100.0)], velocities=np.cross(TURN, pair), name="pair"
    )
    lone = ElasticBody(np.array([[0.0, 3.0, 0.0]]), [1.0], velocities=(1.0, 2.0, 3.0), name="lone")
    solver = free([spring, lone])
    found = states(solver)
    assert_kept([own_momentum(solver, state, slice(0, 2)) for state in found], but=2e-3)
    assert_allclose(found[-1].velocities[2], [1.0, 2.0, 3.0], atol=1e-12)


def test_a_body_far_from_the_origin_keeps_as_much():
    """Momenta are those about a part's own centroid: a thousand bodies' lengths away it is the same."""
    near, far = (free([cube("cube", shift)]) for shift in ((0, 0, 0), (300.0, -200.0, 100.0)))
    for one, other in zip(states(near), states(far), strict=True):
        # 1e-14 of 300 m in positions, by the steps of 1/384 s that BDF2 begins with
        assert_allclose(one.velocities, other.velocities, atol=1e-8)


def test_threads_and_copies_do_not_matter():
    """The parts belong to the solver, not to the state: a fresh one goes on to the same bits."""
    make = lambda: free([cube("one"), cube("other", (1, 0, 0))])  # noqa: E731
    solver = make()
    middle = states(solver, 3)[-1]
    assert np.array_equal(states(solver, 2, middle)[-1].velocities, states(make(), 2, middle)[-1].velocities)
