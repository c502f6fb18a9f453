"""Groups of a body and the order in which they run: everything once, nothing twice at a time."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from particles.reference import axes_of, solids

from pointglue.particles import OrientedBody, block
from pointglue.particles._solve.colouring import Order, by_color, gather, in_blocks, in_chunks
from pointglue.particles._solve.schedule import PIN_WEIGHT, Schedule
from pointglue.particles._solve.topology import Topology


@st.composite
def graphs(draw):
    """A random body: any edges, overlapping groups, different masses."""
    n = draw(st.integers(1, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    pairs = np.array(list(combinations(range(n), 2))).reshape(-1, 2)
    edges = pairs[rng.random(len(pairs)) < draw(st.sampled_from([0.0, 0.05, 0.2, 1.0]))]
    groups = [
        rng.choice(n, int(rng.integers(1, n + 1)), replace=False)
        for _ in range(draw(st.integers(0, min(3, n))))
    ]
    return OrientedBody(
        rng.standard_normal((n, 3)),
        radii=0.01 + rng.random((n, 3)),
        mass=0.1 + rng.random(n),
        orientations=rng.standard_normal((n, 4)),
        edges=rng.permutation(edges) if len(edges) else edges,
        groups=groups,
        loose=True,
    )


def plan_of(body, fixed=None, active=None):
    return Schedule.of(
        Topology(body),
        body.start().rest,
        np.zeros(len(body), bool) if fixed is None else fixed,
        np.ones(len(body.groups), bool) if active is None else active,
    )


def neighbours(body, i):
    return {int(b) if a == i else int(a) for a, b in body.edges if i in (a, b)}


def disjoint(lists):
    """Whether no particle is in two of the lists."""
    together = np.concatenate([np.empty(0, np.int64), *(np.unique(part) for part in lists)])
    return len(np.unique(together)) == len(together)


def assert_independent(order, touched):
    """Sets of a batch, and blocks of a layer, share no particle; everything is covered without gaps."""
    assert order.batches[0] == order.blocks[0] == order.layers[0] == 0
    assert order.batches[-1] == len(order.sets) == len(touched)
    assert order.blocks[-1] == len(order.batches) - 1
    assert order.layers[-1] == len(order.blocks) - 1
    for bounds in (order.batches, order.blocks, order.layers):
        assert (np.diff(bounds) >= 0).all()
    for a, b in pairwise(order.batches):
        assert disjoint(touched[a:b])
    for first, last in pairwise(order.layers):
        blocks = []
        for k in range(first, last):
            inside = touched[order.batches[order.blocks[k]] : order.batches[order.blocks[k + 1]]]
            blocks.append(np.concatenate([np.empty(0, np.int64), *inside]))
        assert disjoint(blocks)


@given(graphs(), st.data())
@settings(max_examples=60)
def test_every_group_runs_once_and_none_twice_at_a_time(body, data):
    n = len(body)
    active = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(body.groups), max_size=len(body.groups))), bool
    )
    plan = plan_of(body, active=active)
    governed = {int(i) for k in np.flatnonzero(active) for i in body.groups[k]}
    # A particle alone has nothing to match.
    alone = np.bincount(body.components)[body.components] == 1
    expected = {i: {i} | neighbours(body, i) for i in range(n) if i not in governed and not alone[i]}
    expected |= {n + k: set(body.groups[k].tolist()) for k in np.flatnonzero(active)}
    touched = [plan.members[a:b] for a, b in pairwise(plan.starts)]
    assert sorted(plan.order.sets) == sorted(expected)
    for k, members in zip(plan.order.sets, touched, strict=True):
        assert len(members) == len(expected[k])
        assert set(members.tolist()) == expected[k]
    np.testing.assert_array_equal(plan.owner, np.where(plan.order.sets < n, plan.order.sets, -1))
    # The owner of an implicit group, which takes its rotation, is its first member.
    own = plan.order.sets < n
    assert (plan.members[plan.starts[:-1]][own] == plan.order.sets[own]).all()
    assert (plan.turning[own] == 1).all()
    assert_independent(plan.order, touched)


@given(graphs())
@settings(max_examples=30)
def test_a_particle_turns_with_the_first_of_its_groups_only(body):
    plan = plan_of(body)
    turned = []
    for g, k in enumerate(plan.order.sets):
        if k >= len(body):
            members = plan.members[plan.starts[g] : plan.starts[g] + plan.turning[g]]
            turned += members.tolist()
            for i in members:
                assert next(j for j, group in enumerate(body.groups) if i in group) == k - len(body)
    assert sorted(turned) == sorted({int(i) for group in body.groups for i in group})
    times = np.bincount(np.concatenate([np.empty(0, int), *body.groups]), minlength=len(body))
    np.testing.assert_array_equal(body.oriented, times < 2)
    # Particles of several groups have no moments of their own.
    assert (plan.moments[times > 1] == 0).all()


@given(graphs(), st.data())
@settings(max_examples=30)
def test_numbers_of_a_group(body, data):
    fixed = np.array(data.draw(st.lists(st.booleans(), min_size=len(body), max_size=len(body))), bool)
    plan = plan_of(body, fixed)
    axes = axes_of(body)
    weight = np.where(fixed, PIN_WEIGHT, 1.0) * body.mass
    C = np.einsum("nik,nk,njk->nij", axes, body.radii**2, axes)
    M = C * (body.mass / 5 * body.oriented)[:, None, None]
    np.testing.assert_allclose(plan.shapes.reshape(-1, 3, 3), C, atol=1e-14)
    np.testing.assert_allclose(plan.moments.reshape(-1, 3, 3), M, atol=1e-14)
    for g, (a, b) in enumerate(pairwise(plan.starts)):
        i = plan.members[a:b]
        m = weight[i]
        arm = body.positions[i] - np.average(body.positions[i], axis=0, weights=m)
        np.testing.assert_allclose(plan.offsets[a:b, :3], arm, atol=1e-13)
        np.testing.assert_allclose(plan.offsets[a:b, 3], m / m.sum(), rtol=1e-13)
        trace = m @ (arm**2).sum(1) + np.trace(M[i].sum(0))
        # Alone and without orientation it has no size, and any will do.
        expected = [m.sum() / trace, 1 / trace] if trace > 1e-20 else [m.sum(), 1.0]
        np.testing.assert_allclose(plan.scales[g], expected, rtol=1e-11)
    d = body.positions[plan.pairs[:, 1]] - body.positions[plan.pairs[:, 0]]
    np.testing.assert_allclose(plan.lengths, np.linalg.norm(d, axis=1))


@given(graphs())
@settings(max_examples=30)
def test_edges_of_one_colour_share_no_particle(body):
    topology = Topology(body)
    assert sorted(topology.edge_order) == list(range(len(body.edges)))
    assert topology.edge_colors[-1] == len(body.edges)
    for a, b in pairwise(topology.edge_colors):
        assert disjoint(list(body.edges[topology.edge_order[a:b]]))


@given(graphs())
@settings(max_examples=30)
def test_pieces_are_the_connected_parts(body):
    topology = Topology(body)
    label = np.arange(len(body))
    links = [tuple(edge) for edge in body.edges] + [(g[0], i) for g in body.groups for i in g]
    for _ in range(len(body)):
        for i, j in links:
            label[i] = label[j] = min(label[i], label[j])
    same = label[:, None] == label[None, :]
    np.testing.assert_array_equal(topology.piece_of[:, None] == topology.piece_of[None, :], same)
    for k, (a, b) in enumerate(pairwise(topology.pieces)):
        assert (topology.piece_of[topology.piece_order[a:b]] == k).all()
    # Chunks run through the pieces without crossing from one to the next.
    assert topology.chunks[0] == 0
    assert topology.chunks[-1] == len(body)
    for k, (first, last) in enumerate(pairwise(topology.piece_chunks)):
        for a, b in pairwise(topology.chunks[first : last + 1]):
            assert set(topology.piece_of[topology.piece_order[a:b]]) == {k}


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 8), st.integers(1, 20))
@settings(max_examples=60)
def test_blocks_of_any_size_are_independent(seed, count, size, most):
    rng = np.random.default_rng(seed)
    sets = [rng.choice(50, int(rng.integers(1, size + 1)), replace=False) for _ in range(count)]
    starts, members = np.cumsum([0, *map(len, sets)]), np.concatenate(sets)
    for order in (
        in_blocks(starts, members, rng.standard_normal((count, 3)), 50, most),
        in_chunks(starts, members, 50, most),
    ):
        assert sorted(order.sets) == list(range(count))
        assert_independent(order, [sets[k] for k in order.sets])
        sizes = np.diff(order.batches[order.blocks])
        assert (sizes <= most).all()
        # Taking sets away keeps all that.
        mask = rng.random(count) < 0.5
        kept = order.kept(mask)
        np.testing.assert_array_equal(kept.sets, order.sets[mask[order.sets]])
        assert_independent(kept, [sets[k] for k in kept.sets])
        both = kept.then(order, count)
        touched = [sets[k % count] for k in both.sets]
        np.testing.assert_array_equal(both.sets, [*kept.sets, *(order.sets + count)])
        assert_independent(both, touched)


def test_more_colours_than_bits_in_a_word():
    """200 sets through one particle need 200 colours; a pinned particle (-1) keeps nothing apart."""
    starts = np.arange(0, 401, 2)
    members = np.stack([np.zeros(200, np.int64), np.arange(1, 201)], axis=1).ravel()
    order, bounds = by_color(starts, members, 201)
    np.testing.assert_array_equal(order, np.arange(200))
    np.testing.assert_array_equal(bounds, np.arange(201))
    _, bounds = by_color(starts, np.where(members == 0, -1, members), 201)
    np.testing.assert_array_equal(bounds, [0, 200])


def test_nothing_to_sort():
    order, bounds = by_color(np.array([0]), np.empty(0, np.int64), 5)
    assert len(order) == 0
    np.testing.assert_array_equal(bounds, [0])
    plan = plan_of(solids()["sphere"])
    assert len(plan.pairs) == 0
    assert len(plan.members) == 0


def test_gather():
    starts, values = gather(np.array([0, 2, 2, 5]), np.arange(10, 15), np.array([2, 0, 1, 2]))
    np.testing.assert_array_equal(starts, [0, 3, 5, 5, 8])
    np.testing.assert_array_equal(values, [12, 13, 14, 10, 11, 12, 13, 14])


def test_a_large_block_is_cut_into_blocks_that_run_side_by_side():
    body = block((4.0, 2.0, 2.0), (24, 12, 12))
    plan = plan_of(body)
    assert_independent(plan.order, [plan.members[a:b] for a, b in pairwise(plan.starts)])
    assert np.diff(plan.order.batches[plan.order.blocks]).max() <= 1024
    assert np.diff(plan.order.layers).max() > 1


def test_an_order_is_what_the_solver_assumes():
    """The reference in these tests runs groups one after another as the arrays stand."""
    order = Order(np.array([4, 2]), np.array([0, 1, 2]), np.array([0, 1, 2]), np.array([0, 1, 2]))
    np.testing.assert_array_equal(order.kept(np.array([0, 0, 1, 0, 0], bool)).sets, [2])
    assert order.kept(np.zeros(5, bool)).batches.tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", ["rope", "block", "mixed"])
def test_far_from_the_origin_offsets_lose_no_digits(name):
    body = solids()[name]
    near, far = plan_of(body), plan_of(body.moved(translation=(2.0**13, 0, -(2.0**13))))
    # The positions themselves are rounded to eps 2^13 = 2e-12.
    np.testing.assert_allclose(far.offsets, near.offsets, atol=4e-12)
