"""A body: what its numbers mean, and wrong ones named."""

import numpy as np
import pytest
from oracle import random_rotation
from particles.reference import axes_of, ball_joint, curved_rope, inertia_of, mixed, shaken, solids

from pointglue.errors import InputError
from pointglue.particles import OrientedBody, ParticleSolver, block, rope
from pointglue.particles.body import join


def test_numbers_are_spread_and_given_back():
    x = [[0.0, 0, 0], [1, 0, 0], [2, 0, 0]]
    body = OrientedBody(x, radii=[0.1, 0.2, 0.3], edges=[[0, 1], [2, 1]], stiffness=0.5, stretch=[0.1, 0.2])
    np.testing.assert_array_equal(body.radii, [[0.1] * 3, [0.2] * 3, [0.3] * 3])
    np.testing.assert_array_equal(body.orientations, [[1, 0, 0, 0]] * 3)
    np.testing.assert_allclose(body.mass, 1000 * 4 / 3 * np.pi * np.array([0.001, 0.008, 0.027]))
    np.testing.assert_array_equal(body.stiffness, [0.5] * 3)
    np.testing.assert_array_equal(body.stretch, [0.1, 0.2])
    np.testing.assert_array_equal(body.torsion, [0, 0])
    np.testing.assert_array_equal(body.edges, [[0, 1], [2, 1]])
    assert len(body) == 3
    assert not body.pinned.any()
    assert np.isinf(body.yield_strain).all()


def test_what_is_given_stays_the_callers_and_what_is_held_cannot_be_changed():
    x = np.zeros((2, 3))
    x[1] = 1
    body = OrientedBody(x, radii=0.1, edges=[[0, 1]])
    x[0] = 7
    np.testing.assert_array_equal(body.positions[0], 0)
    with pytest.raises(ValueError, match="read-only"):
        body.positions[0] = 1
    with pytest.raises(AttributeError):
        body.mass = 1


def test_quaternions_of_any_length_are_made_unit(rng):
    q = 3 * rng.standard_normal((4, 4))
    body = OrientedBody(rng.standard_normal((4, 3)), radii=0.1, orientations=q, loose=True)
    np.testing.assert_allclose(body.orientations, q / np.linalg.norm(q, axis=1, keepdims=True))


def test_pieces_and_shared_particles():
    body = join([ball_joint(), rope((9, 0, 0), (10, 0, 0), particles=3, radius=0.1), solids()["sphere"]])
    pieces = body.components
    assert [len(set(pieces[a:b])) for a, b in ((0, 5), (5, 8), (8, 9))] == [1, 1, 1]
    assert len(set(pieces)) == 3
    np.testing.assert_array_equal(body.oriented, [True] * 4 + [False] + [True] * 4)


def test_bodies_joined_keep_their_own_numbers(rng):
    one, two = mixed(rng), curved_rope(torsion=0.3, pinned=[True] + 8 * [False])
    body = join([one, two, one.moved(translation=(0, 5, 0))])
    n = len(one)
    for name in ("positions", "radii", "mass", "stiffness", "pinned", "orientations"):
        np.testing.assert_array_equal(getattr(body, name)[n : n + 9], getattr(two, name))
    np.testing.assert_array_equal(body.edges[len(one.edges) :][: len(two.edges)], two.edges + n)
    np.testing.assert_array_equal(body.torsion[len(one.edges) :][: len(two.edges)], two.torsion)
    np.testing.assert_array_equal(body.groups[1], one.groups[0] + n + 9)


def test_momentum_and_energy_of_a_turning_solid(rng):
    """As sums over single ellipsoids, whose inertia is (m/5) (b^2 + c^2) about their own axes."""
    body = mixed(rng)
    state = shaken(body.start(), rng)
    R = np.stack([random_rotation(rng) for _ in range(len(body))])
    state = state.replace(rotations=R)
    inertia = inertia_of(body.mass, body.radii, R @ axes_of(body))
    p, L = body.momentum(state)
    np.testing.assert_allclose(p, body.mass @ state.velocities)
    spin = np.einsum("nij,nj->ni", inertia, state.spins)
    orbit = np.cross(state.positions, body.mass[:, None] * state.velocities)
    np.testing.assert_allclose(L, (orbit + spin).sum(0), atol=1e-13)
    energy = 0.5 * (body.mass * (state.velocities**2).sum(1)).sum() + 0.5 * (state.spins * spin).sum()
    assert body.kinetic_energy(state) == pytest.approx(energy, rel=1e-13)


def test_a_ball_has_the_moment_in_the_tables():
    ball = OrientedBody([[0.0, 0, 0]], radii=0.3, mass=2.0)
    spun = ball.start().replace(spins=[[0, 0, 5.0]])
    assert ball.momentum(spun)[1][2] == pytest.approx(2 / 5 * 2.0 * 0.3**2 * 5)
    assert ball.kinetic_energy(spun) == pytest.approx(0.5 * 2 / 5 * 2.0 * 0.3**2 * 25)


def test_shared_particles_have_no_spin_of_their_own():
    body = ball_joint()
    spins = np.zeros((5, 3))
    spins[4] = 100.0
    state = body.start().replace(spins=spins)
    np.testing.assert_array_equal(body.momentum(state)[1], 0)
    assert body.kinetic_energy(state) == 0


def test_moved_bodies_move_with_their_axes(rng):
    body, R, t = mixed(rng), random_rotation(rng), np.array([1.0, 2, 3])
    there = body.moved(rotation=R, translation=t)
    np.testing.assert_allclose(there.positions, body.positions @ R.T + t, atol=1e-15)
    np.testing.assert_allclose(axes_of(there), R @ axes_of(body), atol=1e-14)
    np.testing.assert_array_equal(there.mass, body.mass)


def test_bodies_are_scaled_at_the_same_density(rng):
    body, R = block((0.4, 0.3, 0.2), (4, 3, 2)), random_rotation(rng)
    there = body.moved(scale=2.5, rotation=R, translation=(1, 2, 3))
    assert there.positions == pytest.approx(2.5 * body.positions @ R.T + [1, 2, 3])
    assert there.radii == pytest.approx(2.5 * body.radii)
    volume = body.radii.prod(1).sum()
    assert there.mass.sum() / there.radii.prod(1).sum() == pytest.approx(body.mass.sum() / volume)
    for scale in (0, -1, np.nan, np.inf, True, "2"):
        with pytest.raises(InputError, match="scale must be a finite number above 0"):
            body.moved(scale=scale)


def test_a_moved_body_moves_in_the_same_way(rng):
    """Nothing in the solver knows a direction or a place but gravity."""
    body, R, t = mixed(rng), random_rotation(rng), np.array([5.0, -2, 3])
    v, w = rng.standard_normal((2, len(body), 3))
    ends = []
    for turn, it in ((np.eye(3), body), (R, body.moved(rotation=R, translation=t))):
        solver = ParticleSolver(it, gravity=turn @ [0, -9.81, 0], contacts="none")
        state = solver.start().replace(velocities=v @ turn.T, spins=w @ turn.T)
        for _ in range(30):
            state = solver.step(state, 1 / 60)
        ends.append(state)
    # Rounding of positions, 1e-15, after 60 substeps of a soft body
    np.testing.assert_allclose(ends[1].positions, ends[0].positions @ R.T + t, atol=1e-10)
    np.testing.assert_allclose(ends[1].rotations, R @ ends[0].rotations @ R.T, atol=1e-10)


def test_transforms_lead_from_the_bind_pose_to_now(rng):
    body = mixed(rng)
    turn, shift = body.transforms(body.start())
    np.testing.assert_allclose(turn, np.tile(np.eye(3), (len(body), 1, 1)), atol=1e-14)
    np.testing.assert_allclose(shift, 0, atol=1e-14)
    R = np.stack([random_rotation(rng) for _ in range(len(body))])
    x = rng.standard_normal((len(body), 3))
    turn, shift = body.transforms(body.start().replace(positions=x, rotations=R))
    # Centres go to centres, axes to axes.
    np.testing.assert_allclose(np.einsum("nij,nj->ni", turn, body.positions) + shift, x, atol=1e-14)
    np.testing.assert_allclose(turn @ axes_of(body), R @ axes_of(body), atol=1e-14)


def test_replace_changes_what_it_says():
    body = block((1, 1, 1), (2, 1, 1), stiffness=0.2)
    other = body.replace(stiffness=0.7)
    assert (other.stiffness == 0.7).all()
    assert (body.stiffness == 0.2).all()
    np.testing.assert_array_equal(other.positions, body.positions)


def test_a_particle_alone_needs_no_neighbour_and_loose_ones_are_allowed():
    assert len(OrientedBody([[0, 0, 0]], radii=1)) == 1
    apart = OrientedBody([[0, 0, 0], [1, 0, 0]], radii=0.1, loose=True)
    assert len(set(apart.components)) == 2
    assert len(OrientedBody([[0, 0, 0], [1, 0, 0]], radii=0.1, groups=[[0, 1]])) == 2
    joined = join([OrientedBody([[0, 0, 0]], radii=1), OrientedBody([[5, 0, 0]], radii=1)])
    assert joined.loose


TWO = [[0.0, 0, 0], [1, 0, 0]]
THREE = [*TWO, [2.0, 0, 0]]


@pytest.mark.parametrize(
    ("positions", "options", "message"),
    [
        ([], {}, r"positions must have shape \(n, 3\) with n at least 1"),
        ([[0, 0]], {}, r"positions must have shape \(n, 3\)"),
        ([[0, np.nan, 0]], {}, r"positions must be finite, got nan at index \[0, 1\]"),
        ([[0, 0, 0], [0, 0]], {}, "positions must be an array of numbers"),
        ("abc", {}, "positions must hold real numbers"),
        ([[0, 0, 0], [0, 0, 0]], {}, r"positions \[0, 1\] coincide at \[0.0, 0.0, 0.0\]"),
        ([*THREE, [1, 0, 1e-12]], {"loose": True}, r"positions \[1, 3\] coincide"),
        (THREE, {"edges": [[0, 1]]}, r"particles \[2\] have no edge and no group.* loose=True"),
        (THREE, {"groups": [[0, 2]]}, r"particles \[1\] have no edge and no group"),
        (TWO, {"radii": 0}, "radii must be positive and finite, got 0.0"),
        (TWO, {"radii": [0.1, -0.1]}, r"radii must be positive and finite, got -0.1 at index \[1, 0\]"),
        (TWO, {"radii": np.nan}, "radii must be positive and finite, got nan"),
        (TWO, {"radii": np.inf}, "radii must be positive and finite, got inf"),
        (TWO, {"radii": [1, 2, 3]}, "radii must be one number or have shape"),
        (TWO, {"radii": None}, "radii must hold real numbers"),
        (TWO, {"radii": [[1, 1, 1], [1, 1, 1e-4]]}, "radii of one particle may differ by a factor of 1000"),
        (TWO, {"mass": -1}, "mass must be positive and finite, got -1.0"),
        (TWO, {"mass": [1, 0]}, r"mass must be positive and finite, got 0.0 at index \[1\]"),
        (TWO, {"mass": [1, np.nan]}, "mass must be positive and finite, got nan"),
        (TWO, {"mass": [1, 2, 3]}, r"mass must be one number or have shape \(2,\)"),
        (TWO, {"orientations": [[1, 0, 0]]}, r"orientations must have shape \(2, 4\)"),
        (TWO, {"orientations": [[1, 0, 0, 0], [0, 0, 0, 0]]}, r"orientations\[1\] is zero"),
        (TWO, {"orientations": np.full((2, 4), np.nan)}, "orientations must be finite"),
        (TWO, {"stiffness": 1.1}, "stiffness must be between 0 and 1, got 1.1"),
        (TWO, {"stiffness": -0.1}, "stiffness must be between 0 and 1, got -0.1"),
        (TWO, {"stiffness": np.nan}, "stiffness must be between 0 and 1, got nan"),
        (TWO, {"stretch": 2}, "stretch must be between 0 and 1"),
        (TWO, {"torsion": [0.5, 0.5]}, r"torsion must be one number or have shape \(1,\)"),
        (TWO, {"edges": [[0, 2]]}, r"edges\[0\] is \[0, 2\], but there are 2 particles"),
        (TWO, {"edges": [[0, -1]]}, r"edges\[0\] is \[0, -1\]"),
        (TWO, {"edges": [[0, 0]]}, r"edges\[0\] joins particle 0 to itself"),
        (TWO, {"edges": [[0, 1], [1, 0]]}, r"edges holds \[0, 1\] more than once"),
        (TWO, {"edges": [[0, 0.5]]}, "edges must hold whole numbers"),
        (TWO, {"edges": [0, 1]}, r"edges must have shape \(m, 2\)"),
        (TWO, {"groups": [[]]}, r"groups\[0\] is empty"),
        (TWO, {"groups": [[0, 1], [2]]}, r"groups\[1\] must hold particles from 0 to 1, got \[2\]"),
        (TWO, {"groups": [[0, 0]]}, r"groups\[0\] must not name anything twice, got 0 again"),
        (TWO, {"groups": [0, 1]}, r"groups\[0\] must be a flat list"),
        (TWO, {"groups": [[0, 0.5]]}, r"groups\[0\] must hold whole numbers"),
        (TWO, {"groups": [[0, 1]], "yield_speed": -1}, "yield_speed must be not negative"),
        (TWO, {"yield_strain": np.nan}, "yield_strain must be not negative, got nan"),
        (TWO, {"creep": np.inf}, "creep must be finite and not negative"),
        (TWO, {"pinned": 1}, "pinned must be a mask of 2 booleans"),
        (TWO, {"pinned": [True]}, "pinned must be a mask of 2 booleans"),
    ],
)
def test_bad_input_is_named(positions, options, message):
    with pytest.raises(InputError, match=message):
        OrientedBody(positions, **{"radii": 0.1, "edges": [[0, 1]] if len(positions) == 2 else [], **options})


def test_other_bad_input_is_named():
    body = solids()["rope"]
    with pytest.raises(InputError, match="no field 'size'; it has positions"):
        body.replace(size=3)
    with pytest.raises(InputError, match="rotation must be rotations, but it reflects"):
        body.moved(rotation=np.diag([1, 1, -1]))
    with pytest.raises(InputError, match=r"rotation must be rotations, but R R\^T is off by 3"):
        body.moved(rotation=2 * np.eye(3))
    with pytest.raises(InputError, match=r"translation must have shape \(3,\), got \(2,\)"):
        body.moved(translation=(1, 2))
    with pytest.raises(InputError, match="bodies must hold at least one"):
        join([])
