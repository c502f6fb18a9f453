"""Particles that meet: all near pairs are found, and what happens to them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from pointglue.particles import OrientedBody, ParticleSolver, Plane, block, rope
from pointglue.particles._solve.pairs import PairContacts, touching_pairs
from pointglue.particles.solver import RECOVERY_RATE

FLOOR = Plane((0, 0, 0), (0, 1, 0))


def least_distances(X, P):
    """Of each pair (n, n) while all go straight from X to P in the same time."""
    a, d = X[None] - X[:, None], (P - X)[None] - (P - X)[:, None]
    square = (d**2).sum(-1)
    t = np.clip(-(a * d).sum(-1) / np.where(square > 0, square, 1), 0, 1)
    return np.linalg.norm(a + t[..., None] * d, axis=-1)


def found(X, P, radii, family=None, fixed=None, touching=(), group_of=None):
    """Pairs that the broad phase finds; P may hold more than positions, as the solver's does."""
    n = len(X)
    contacts = PairContacts(n, radii, np.full(n, -1) if family is None else family)
    wide = np.concatenate([P, np.full((n, 9), 7.0)], axis=1)
    touching = np.array(touching, np.int64).reshape(-1, 2)
    group_of = np.full(n, -1) if group_of is None else group_of
    contacts.prepare(X, wide, np.zeros(n, bool) if fixed is None else fixed, group_of, touching)
    return contacts


def as_set(pairs):
    assert (pairs[:, 0] < pairs[:, 1]).all()
    listed = [tuple(pair) for pair in pairs.tolist()]
    assert len(set(listed)) == len(listed)  # none twice
    return set(listed)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 80),
    st.sampled_from([0.3, 1.0, 5.0, 30.0]),
    st.sampled_from(["alike", "mixed", "one giant", "giants alike"]),
    st.sampled_from([0.0, 0.3, 20.0]),
    st.sampled_from([0.0, 1e6]),
)
@settings(max_examples=150)
def test_every_pair_that_meets_on_its_way_is_found(seed, n, spread, sizes, speed, away):
    rng = np.random.default_rng(seed)
    X = spread * rng.standard_normal((n, 3)) + away
    radii = {
        "alike": np.full(n, 0.3),
        "mixed": 10.0 ** rng.uniform(-3, 1, n),
        "one giant": np.r_[50.0, np.full(n - 1, 0.1)],
        "giants alike": np.where(np.arange(n) < 3, 50.0, 0.1),
    }[sizes]
    P = X + speed * rng.standard_normal((n, 3)) * (rng.random((n, 1)) < 0.5)
    pairs = as_set(found(X, P, radii).arrays.pairs)
    reach = radii[:, None] + radii[None, :]
    meets = np.argwhere(np.triu(least_distances(X, P) <= reach, 1))
    assert {tuple(pair) for pair in meets.tolist()} <= pairs
    # And none whose balls about their whole ways stay apart, with a tenth of the radii for later moves; ways
    # are seen from what they have in common.
    way = P - X - (P - X).mean(0)
    middle, half = X + 0.5 * way, 0.5 * np.linalg.norm(way, axis=1)
    far = np.linalg.norm(middle[None] - middle[:, None], axis=-1)
    # Rounding 1e6 away is 1e-10.
    near = np.argwhere(np.triu(far <= 1.1 * reach + half[:, None] + half[None, :] + 1e-9, 1))
    assert pairs <= {tuple(pair) for pair in near.tolist()}


def test_long_ways_that_stay_apart_are_no_pairs():
    """Balls that fall side by side at their own speeds meet no other: a ball about a way is not the way."""
    columns = 0.5 * np.stack(np.meshgrid(*[np.arange(12.0)] * 2, indexing="ij"), -1).reshape(-1, 2)
    X = np.stack([columns[:, 0], np.zeros(144), columns[:, 1]], axis=1)
    P = X - np.linspace(0, 20, 144)[:, None] * [0, 1, 0]
    assert not len(found(X, P, np.full(144, 0.1)).arrays.pairs)


def test_pairs_in_blocks_are_those_of_one_block_and_share_nothing(rng):
    """Many particles are worked on in blocks: each pair once; what runs side by side shares no particle."""
    n = 5000
    X, group_of = rng.uniform(0, 12, (n, 3)), np.full(n, -1)
    group_of[rng.choice(n, 60, replace=False)] = np.arange(60) // 12
    fixed = rng.random(n) < 0.1
    fixed[group_of >= 0] = False
    contacts = found(X, X, np.full(n, 0.5), fixed=fixed, group_of=group_of)
    pairs, node = contacts.arrays.pairs, np.where(group_of >= 0, n + group_of, np.arange(n))
    tree = cKDTree(X).query_pairs(1.1, output_type="ndarray")
    expected = tree[~fixed[tree].all(1)]
    assert as_set(pairs) == {tuple(pair) for pair in np.sort(expected, axis=1).tolist()}
    assert len(contacts.blocks) > 2
    assert contacts.blocks[-1] == contacts.colors[0]
    moved = [set(node[p][~fixed[p]]) for p in np.split(pairs[: contacts.colors[0]], contacts.blocks[1:-1])]
    assert len(set.union(*moved)) == sum(len(m) for m in moved)
    for begin, end in pairwise(contacts.colors):
        used = [node[i] for i in pairs[begin:end].ravel() if not fixed[i]]
        assert len(used) == len(set(used))


def test_pairs_left_out(rng):
    """One family, both pinned, touching at rest."""
    X = 0.5 * rng.standard_normal((60, 3))
    radii, family = np.full(60, 0.3), rng.integers(-1, 4, 60)
    fixed, touching = rng.random(60) < 0.3, np.array([[0, 1], [5, 2], [7, 50]])
    everyone = as_set(found(X, X, radii).arrays.pairs)
    kept = {tuple(sorted(pair)) for pair in touching.tolist()}
    expected = {
        (i, j)
        for i, j in everyone
        if not (family[i] == family[j] >= 0) and not (fixed[i] and fixed[j]) and (i, j) not in kept
    }
    assert as_set(found(X, X, radii, family, fixed, touching).arrays.pairs) == expected
    assert len(everyone) > len(expected) > 100


def test_pairs_of_one_colour_share_no_free_particle_and_no_rigid_group(rng):
    X, fixed = 0.7 * rng.standard_normal((300, 3)), rng.random(300) < 0.1
    group_of = rng.integers(-1, 40, 300)
    contacts = found(X, X, np.full(300, 0.2), fixed=fixed, group_of=group_of)
    moves = np.where(group_of >= 0, 300 + group_of, np.arange(300))
    for a, b in zip(contacts.colors[:-1], contacts.colors[1:], strict=True):
        ends = contacts.arrays.pairs[a:b]
        # A pair within one group, which the solver leaves out, would be listed with it once.
        listed = np.concatenate([np.unique(moves[pair][~fixed[pair]]) for pair in ends])
        assert len(np.unique(listed)) == len(listed)
    assert contacts.colors[-1] == len(contacts.arrays.pairs)


def test_touching_pairs_of_balls(rng):
    x, radii = rng.standard_normal((150, 3)), 0.05 + 0.3 * rng.random(150)
    pairs = touching_pairs(x, np.tile(np.eye(3), (150, 1, 1)), np.tile(radii[:, None], 3))
    apart = np.linalg.norm(x[None] - x[:, None], axis=-1) - radii[:, None] - radii[None, :]
    least = np.minimum(radii[:, None], radii[None, :])
    assert as_set(pairs) == {tuple(p) for p in np.argwhere(np.triu(apart < 0.02 * least, 1)).tolist()}


def test_ellipsoids_touch_as_they_lie():
    radii = np.tile([0.5, 0.1, 0.1], (3, 1))
    x = np.array([[0.0, 0, 0], [0.9, 0, 0], [0, 0.9, 0]])
    assert as_set(touching_pairs(x, np.tile(np.eye(3), (3, 1, 1)), radii)) == {(0, 1)}


def test_overlaps_at_rest_are_left_alone():
    body = rope((0, 0, 0), (1, 0, 0), particles=6, radius=0.3, radii=0.3)  # spacing 0.2: overlaps of 0.4
    solver = ParticleSolver(body, gravity=(0, 0, 0))
    state = solver.start()
    for _ in range(20):
        state = solver.step(state, 1 / 60)
    np.testing.assert_allclose(state.positions, body.positions, atol=1e-13)


def two_balls(v, offset=0.0, mass=(1.0, 1.0), gap=1.0, steps=60, **options):
    """Two balls of radius 0.1 that fly at each other along x, and all that came out."""
    body = OrientedBody([[0, 0, 0], [gap, offset, 0]], radii=0.1, mass=mass, loose=True)
    solver = ParticleSolver(body, gravity=(0, 0, 0), **options)
    states = [solver.start().replace(velocities=[[v[0], 0, 0], [v[1], 0, 0]])]
    for _ in range(steps):
        states.append(solver.step(states[-1], 1 / 60))
    return body, states


@pytest.mark.parametrize("speed", [0.5, 5.0, 50.0, 500.0, 5000.0])
@pytest.mark.parametrize("offset", [0.0, 0.05])
def test_fast_balls_do_not_pass_through_each_other(speed, offset):
    gap = max(1.0, 5 * speed / 60)
    body, states = two_balls((speed, -speed), offset, gap=gap, steps=90)
    ahead = [state.positions[1, 0] - state.positions[0, 0] for state in states]
    assert min(ahead) > 0 if offset == 0 else states[-1].velocities[1, 0] > -speed
    p0 = body.momentum(states[0])[0]
    for state in states:
        np.testing.assert_allclose(body.momentum(state)[0], p0, atol=1e-12 * speed)
        # Rounding at 400 m
        assert np.linalg.norm(np.diff(state.positions, axis=0)) > 0.2 - 1e-12
    assert body.kinetic_energy(states[-1]) < body.kinetic_energy(states[0])


def test_without_bounce_they_stay_together():
    _, states = two_balls((3.0, -1.0), mass=(1.0, 3.0))
    np.testing.assert_allclose(states[-1].velocities, 0, atol=1e-13)  # 1 * 3 - 3 * 1 = 0
    _, states = two_balls((2.0, -1.0))
    np.testing.assert_allclose(states[-1].velocities[:, 0], 0.5, atol=1e-13)


@pytest.mark.parametrize(
    ("v", "mass", "bounce"),
    [((1.0, -1.0), (1.0, 1.0), 1.0), ((3.0, -1.0), (1.0, 3.0), 1.0), ((2.0, 0.0), (1.0, 1.0), 0.5)],
)
def test_bounce_returns_its_share_of_the_approach(v, mass, bounce):
    """v2' - v1' = e (v1 - v2) with momentum kept; the contact falls within a substep, speeds are exact."""
    _, states = two_balls(v, mass=mass, bounce=bounce)
    mean = np.dot(mass, v) / sum(mass)
    parting = bounce * (v[0] - v[1])
    after = states[-1].velocities[:, 0]
    np.testing.assert_allclose(
        after, [mean - parting * mass[1] / sum(mass), mean + parting * mass[0] / sum(mass)]
    )


def test_a_ball_bounces_from_the_floor():
    body = OrientedBody([[0, 1.1, 0]], radii=0.1)
    solver = ParticleSolver(body, colliders=[FLOOR], bounce=1.0)
    state, heights = solver.start(), []
    for _ in range(100):
        state = solver.step(state, 1 / 60)
        heights.append(state.positions[0, 1])
    # It hits at 4.4 m/s, and one substep of that is 0.04 m of the height of 1 m.
    assert max(heights[45:]) == pytest.approx(1.1, abs=0.1)


@pytest.mark.parametrize("iterations", [1, 2, 7])
@pytest.mark.parametrize("normal", [*np.eye(3), np.array([-2.0, 1.0, 2.0]) / 3])
def test_what_lies_in_a_collider_comes_out_slowly_and_gains_no_speed(normal, iterations):
    """By a share of its radius in each substep, RECOVERY_RATE / 60, in any number of iterations."""
    body = OrientedBody([[0, 0, 0]], radii=0.1)
    floor = Plane((0, 0, 0), normal)
    options = {"gravity": (0, 0, 0), "substep": 1 / 60, "iterations": iterations}
    solver = ParticleSolver(body, colliders=[floor], **options)
    state, share = solver.start(), RECOVERY_RATE / 60
    for substep in range(1, int(2 / share)):
        state = solver.step(state, 1 / 60)
        np.testing.assert_allclose(state.positions[0], 0.1 * min(substep * share, 1.0) * normal, atol=1e-14)
        np.testing.assert_allclose(state.velocities[0], 0, atol=1e-13)


def test_glancing_balls_keep_both_momenta():
    """Parting them moves what flies, but pieces in contact get back what that takes of their momenta."""
    for substep in (1 / 120, 1 / 480):
        body, states = two_balls((2.0, -2.0), 0.1, substep=substep, friction=0.0, spin_friction=0.0)
        before, after = (body.momentum(state) for state in (states[0], states[-1]))
        assert np.abs(states[-1].velocities[0, 1]) > 0.1  # they did meet
        np.testing.assert_allclose(after[0], before[0], atol=1e-12)
        np.testing.assert_allclose(after[1], before[1], atol=1e-12)


@pytest.mark.parametrize("friction", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("ground", ["floor", "particle"])
def test_a_sliding_ball_slows_down_until_it_rolls(ground, friction):
    """Coulomb: v = v0 - mu g t and r w = 5/2 mu g t, until they meet at 5/7 v0; from then on it rolls.

    The particle is huge and pinned: as good as flat over the 0.3 m that the ball goes, a slope of 3e-3.
    """
    ball = OrientedBody([[0, 0.1, 0]], radii=0.1, mass=1.0)
    giant = OrientedBody([[0, -100.0, 0]], radii=100.0, mass=1.0, pinned=True)
    if ground == "floor":
        solver = ParticleSolver(ball, colliders=[FLOOR], friction=friction)
    else:
        solver = ParticleSolver([ball, giant], friction=friction)
    velocities = np.zeros((len(solver.body), 3))
    velocities[0, 0] = 0.5
    state = solver.start().replace(velocities=velocities)
    # Exact but for the substep in which it begins to roll, mu g h, and the slope times g t.
    tolerance = friction * 9.81 / 120 + (0 if ground == "floor" else 3e-3 * 9.81 * 0.5) + 1e-12
    for k in range(1, 31):
        state = solver.step(state, 1 / 60)
        sliding = min(friction * 9.81 * k / 60, 2 / 7 * 0.5)
        assert state.velocities[0, 0] == pytest.approx(0.5 - sliding, abs=tolerance)
        assert -0.1 * state.spins[0, 2] == pytest.approx(2.5 * sliding, abs=2.5 * tolerance)
    if ground == "floor":
        assert state.positions[0, 1] == pytest.approx(0.1, abs=1e-13)
    else:
        assert not state.spins[1].any()


@pytest.mark.parametrize(("slope", "slides"), [(0.35, False), (0.65, True)])
def test_a_block_holds_on_a_slope_below_its_coefficient(slope, slides):
    """mu = 0.5; beyond it the acceleration is g (sin - mu cos)."""
    along, normal = np.array([1, -slope, 0]), np.array([slope, 1, 0])
    along, normal = along / np.linalg.norm(along), normal / np.linalg.norm(normal)
    turned = np.stack([along, normal, [0, 0, 1]], axis=1)
    body = block((0.4, 0.2, 0.4), (4, 2, 4), rigid=True).moved(rotation=turned, translation=0.1 * normal)
    solver = ParticleSolver(body, colliders=[Plane((0, 0, 0), normal)], friction=0.5)
    state = solver.start()
    for _ in range(60):
        state = solver.step(state, 1 / 60)
    way = (state.positions - body.positions).mean(0) @ along
    if slides:
        # Contact of a rigid block is not exact: its particles are pushed out one by one.
        assert way == pytest.approx(0.5 * 9.81 * (-along[1] - 0.5 * normal[1]), rel=0.2)
    else:
        assert abs(way) < 5e-3


@pytest.mark.parametrize("substep", [1 / 60, 1 / 120, 1 / 480])
def test_a_sliding_rope_comes_to_roll_by_the_same_fraction_whatever_the_substep(substep):
    """Spin friction is the share of the slip that goes in 1/60 s; without Coulomb's nothing slows down."""
    body = rope((0, 0.05, 0), (0, 0.05, 1), particles=8, radius=0.05, stiffness=0.5)
    solver = ParticleSolver(body, colliders=[FLOOR], friction=0.0, spin_friction=0.3, substep=substep)
    state = solver.start().replace(velocities=np.tile([1.0, 0, 0], (8, 1)))
    for frame in range(1, 5):
        state = solver.step(state, 1 / 60)
        slip = state.velocities[:, 0] + 0.05 * state.spins[:, 2]
        np.testing.assert_allclose(slip, 0.7**frame, rtol=1e-3)


def test_friction_between_free_balls_keeps_linear_momentum():
    body, states = two_balls((2.0, -2.0), 0.15, mass=(1.0, 2.5), friction=0.9, spin_friction=0.9)
    for state in states:
        np.testing.assert_allclose(body.momentum(state)[0], body.momentum(states[0])[0], atol=1e-13)
    assert np.abs(states[-1].spins[:, 2]).min() > 1  # both were set spinning, the same way round
    assert states[-1].spins[0, 2] * states[-1].spins[1, 2] > 0


@pytest.mark.parametrize("distance", [1e-6, 0.01, 0.1, 0.19])
def test_overlap_at_the_start_is_resolved_without_a_kick(distance):
    solver = ParticleSolver(
        [OrientedBody([[x, 0, 0]], radii=0.1) for x in (0.0, distance)], gravity=(0, 0, 0)
    )
    state = solver.start()
    for _ in range(30):
        state = solver.step(state, 1 / 60)
        # Being pushed out is no motion: what is left is rounding of 0.2 m / h.
        assert solver.body.kinetic_energy(state) < 1e-24
    assert np.ptp(state.positions[:, 0]) == pytest.approx(0.2, abs=1e-12)


def test_blocks_inside_each_other_come_apart_calmly():
    one = block((0.4, 0.4, 0.4), (3, 3, 3), stiffness=0.5)
    solver = ParticleSolver([one, one.moved(translation=(0.05, 0.22, 0.03))], gravity=(0, 0, 0))
    state = solver.start()
    energies = []
    for _ in range(60):
        state = solver.step(state, 1 / 60)
        energies.append(solver.body.kinetic_energy(state))
    # 64 kg each, overlapping by 0.18 m: if that were spent in one substep it would be 30 kJ.
    assert max(energies) < 300


@pytest.mark.parametrize("iterations", [1, 2, 7])
def test_two_particles_at_one_point_are_parted(iterations):
    body = OrientedBody([[0, 0, 0], [1, 0, 0]], radii=0.1, loose=True)
    solver = ParticleSolver(body, gravity=(0, 0, 0), iterations=iterations)
    state = solver.start().replace(positions=np.zeros((2, 3)))
    apart = []
    for _ in range(30):
        state = solver.step(state, 1 / 60)
        apart.append(np.linalg.norm(np.diff(state.positions, axis=0)))
    # Ten radii a second, however often they are parted in a substep, and no speed at all in the end.
    assert apart[0] == pytest.approx(RECOVERY_RATE * 0.1 / 60)
    assert apart[-1] == pytest.approx(0.2)
    np.testing.assert_allclose(state.velocities, 0, atol=1e-12)


def shoot(target, bullet, speed, seconds=0.25, **options):
    """How far the middle of the bullet, which comes from above, is over that of its target in the end."""
    solver = ParticleSolver([target, bullet], gravity=(0, 0, 0), **options)
    state = solver.start()
    velocities = np.zeros((len(state), 3))
    velocities[solver.parts[1]] = [0, -speed, 0]
    state = state.replace(velocities=velocities)
    before = solver.body.momentum(state)[0]
    energy = solver.body.kinetic_energy(state)
    for _ in range(round(60 * seconds)):
        state = solver.step(state, 1 / 60)
        assert solver.body.kinetic_energy(state) < energy * (1 + 1e-9)
    np.testing.assert_allclose(solver.body.momentum(state)[0], before, atol=1e-11 * np.abs(before).max())
    a, b = (state.positions[part].mean(0) for part in solver.parts)
    return b[1] - a[1]


def crossed_bars(scale, **options):
    """Two bars of 6 x 2 x 2 balls, 0.1 wide each at scale 1, crossing, 0.3 apart."""
    one = block((0.6 * scale, 0.2 * scale, 0.2 * scale), (6, 2, 2), **options)
    other = block((0.2 * scale, 0.2 * scale, 0.6 * scale), (2, 2, 6), **options)
    return one, other.moved(translation=(0.03 * scale, 0.2 * scale + 0.3, 0.01 * scale))


@pytest.mark.parametrize("options", [{"rigid": True}, {"stiffness": 1.0}], ids=["rigid", "stiff"])
def test_bodies_do_not_pass_through_each_other_at_20_m_per_s(options):
    """As long as a substep's way, 0.17 m, is below half a particle."""
    assert shoot(*crossed_bars(4.0, **options), 20.0) > 0.6


def test_rigid_bodies_of_small_particles_do_not_pass_through_each_other_either():
    """A substep's way is more than a particle and a half."""
    assert shoot(*crossed_bars(1.0, rigid=True), 20.0, friction=0.0, spin_friction=0.0) > 0.15


def test_soft_bodies_of_small_particles_do_not_pass_through_each_other():
    """Faster, they pry each other's particles apart: a limit that docs/how-to/particles.md names."""
    assert shoot(*crossed_bars(1.0, stiffness=0.5), 3.0, friction=0.0, spin_friction=0.0) > 0.15


@pytest.mark.parametrize(("contacts", "meets"), [("all", True), ("bodies", True), ("none", False)])
def test_contacts_between_bodies(contacts, meets):
    bars = crossed_bars(1.0, rigid=True)
    assert (shoot(*bars, 2.0, contacts=contacts, seconds=0.5) > 0.15) == meets


@pytest.mark.parametrize(("contacts", "meets"), [("all", True), ("bodies", False), ("none", False)])
def test_contacts_within_a_body(contacts, meets):
    """A rope of which the two ends fly at each other."""
    body = OrientedBody([[0, 0, 0], [1, 1, 0], [2, 0, 0]], radii=0.2, edges=[[0, 1], [1, 2]], stiffness=0.0)
    solver = ParticleSolver(body, gravity=(0, 0, 0), contacts=contacts)
    state = solver.start().replace(velocities=[[2, 0, 0], [0, 0, 0], [-2, 0, 0]])
    for _ in range(60):
        state = solver.step(state, 1 / 60)
    assert (state.positions[2, 0] > state.positions[0, 0]) == meets
