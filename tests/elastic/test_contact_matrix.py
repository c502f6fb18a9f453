"""Room for blocks that come and go, against dense products with the assembly's Jacobian."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from oracle import random_rotation
from scipy.sparse import csr_array

import pointglue as pg
from pointglue.elastic.linalg.ldl import SparseLDL
from pointglue.elastic.model.dofs import DegreesOfFreedom, DofMatrix
from pointglue.elastic.step.contact_matrix import ContactMatrix
from pointglue.errors import InputError

COUNT = 60
HELD = (20, 33, 59)


def assembled(rng):
    """Free particles, some glued to others and to a body, some on a body that moves and one that does not."""
    rest = rng.standard_normal((COUNT, 3))
    bodies = np.where(np.arange(COUNT) < 12, np.arange(COUNT) // 6, -1)
    pairs = [
        (rows, pg.bind_glue(rest, rest[rows], among=among))
        for rows, among in (
            (np.arange(40, 50), np.arange(40)),
            (np.arange(55, 58), np.r_[0:6, 45:50]),
        )
    ]
    assembly = pg.Assembly(rest, pairs, body_of=bodies)
    turns = np.stack([random_rotation(rng) for _ in range(2)])
    pose = assembly.at(rest + 0.1 * rng.standard_normal(rest.shape), pg.BodyFrames(assembly.origins, turns))
    dofs = DegreesOfFreedom(assembly, np.isin(np.arange(COUNT), HELD), np.array([False, True]))
    return dofs, dofs.blocks(pose), jacobian(dofs, pose)


def jacobian(dofs, pose):
    """Of all particles by the nodes, from the assembly."""
    assembly = dofs.assembly
    own = 3 * np.searchsorted(assembly.free, dofs.particles)[:, None] + np.arange(3)
    turned = (3 * len(assembly.free) + 6 * dofs.bodies)[:, None] + np.arange(6)
    return pose.jacobian().toarray()[:, np.concatenate([own.ravel(), turned.ravel()])]


def energies(dofs, pairs, extra=None, size=None):
    """The layout of blocks between pairs of particles, one after the other in the data."""
    number = len(pairs)
    layout = (9 * np.arange(number), np.full(number, 3))
    return DofMatrix(dofs, pairs[:, 0], pairs[:, 1], *layout, extra=extra, size=size)


def dense(layout, data, size):
    matrix = csr_array((data, layout.indices, layout.indptr), shape=(size, size))
    matrix.check_format()
    assert matrix.has_canonical_format  # ascending, nothing twice
    return matrix.toarray()


def between(pairs, blocks):
    """The matrix over all particles."""
    H = np.zeros((COUNT, 3, COUNT, 3))
    np.add.at(H.transpose(0, 2, 1, 3), tuple(pairs.T), blocks)
    return H.reshape(3 * COUNT, -1)


def both(pairs):
    return np.concatenate([pairs, pairs[:, ::-1]])


def check(dofs, derivatives, J, first, pairs, rng, *, room=None):
    """Room for some pairs, blocks between others, against J^T H J."""
    base = energies(dofs, first)
    layout = ContactMatrix(base, dofs, *(pairs if room is None else room).T)
    values, blocks = (rng.standard_normal((len(each), 3, 3)) for each in (first, pairs))
    given = base.reduce(derivatives, values.ravel())
    located = layout.locate(*pairs.T)
    assert located.fits
    out = layout.add_blocks(given, derivatives, located, blocks)
    expected = J.T @ (between(first, values) + between(pairs, blocks)) @ J
    # Sums of some hundred products; the largest entries are their size.
    assert_allclose(dense(layout, out, 3 * len(dofs)), expected, atol=1e-13 * np.abs(expected).max())
    return layout, base


def test_blocks_between_all_kinds_of_particles(rng):
    dofs, derivatives, J = assembled(rng)
    first, pairs = both(rng.integers(0, COUNT, (60, 2))), both(rng.integers(0, COUNT, (80, 2)))
    kinds = [0, 7, 15, 20, 42, 56]  # on a body, on a fixed one, free, pinned, glued, glued to both
    pairs = np.concatenate([pairs, np.stack(np.meshgrid(kinds, kinds), -1).reshape(-1, 2)])
    layout, _ = check(dofs, derivatives, J, first, pairs, rng)
    numbers = np.arange(len(layout.indices), dtype=float)
    shown = dense(layout, numbers, 3 * len(dofs))
    for node, entries in enumerate(layout.diagonal):
        assert_array_equal(entries, shown[3 * node : 3 * node + 3, 3 * node : 3 * node + 3])


def test_less_than_there_is_room_for(rng):
    dofs, derivatives, J = assembled(rng)
    first, room = both(rng.integers(0, COUNT, (60, 2))), both(rng.integers(0, COUNT, (80, 2)))
    check(dofs, derivatives, J, first, rng.permutation(room)[:50], rng, room=room)


def test_pairs_that_come_up_again_and_again(rng):
    dofs, derivatives, J = assembled(rng)
    first = both(rng.integers(0, COUNT, (60, 2)))
    again = np.tile(both(np.array([[15, 42], [56, 2], [15, 15], [*first[0]]])), (5, 1))
    check(dofs, derivatives, J, first, again, rng)


@pytest.mark.parametrize("pairs", [np.empty((0, 2), int), np.array([[20, 33], [7, 15], [15, 8]])], ids=str)
def test_nothing_to_add(rng, pairs):
    """No pairs, or pairs with a particle that does not move."""
    dofs, derivatives, J = assembled(rng)
    layout, base = check(dofs, derivatives, J, both(rng.integers(0, COUNT, (60, 2))), pairs, rng)
    for name in ("indptr", "indices", "diagonal", "extra"):
        assert_array_equal(getattr(layout, name), getattr(base, name))


@pytest.mark.parametrize("count", [1, 5])
def test_nodes_that_nothing_connects(rng, count):
    assembly = pg.Assembly(rng.standard_normal((count, 3)), [])
    dofs = DegreesOfFreedom(assembly, np.zeros(count, bool), np.zeros(0, bool))
    base = energies(dofs, np.empty((0, 2), int))
    layout = ContactMatrix(base, dofs, np.array([0]), np.array([0]))
    located = layout.locate(np.array([0]), np.array([0]))
    data = layout.add_blocks(np.ones(9 * count), np.empty((0, 3, 3)), located, np.full((1, 3, 3), 2.0))
    expected = np.kron(np.eye(count), np.ones((3, 3)))
    expected[:3, :3] += 2
    assert_array_equal(dense(layout, data, 3 * count), expected)


def test_rows_and_columns_of_multipliers_are_carried_over(rng):
    dofs, derivatives, J = assembled(rng)
    nodes, number = 3 * len(dofs), 7
    touched = rng.random((number, len(dofs))) < 0.1
    touched[0], touched[1, -1] = False, True  # one is connected to nothing, one to the last node
    C = rng.standard_normal((number, nodes)) * np.repeat(touched, 3, axis=1)
    at, across = np.nonzero(C)
    below, own = nodes + at, nodes + np.arange(number)
    extra = (np.concatenate([below, across, own]), np.concatenate([across, below, own]))
    first, pairs = both(rng.integers(0, COUNT, (60, 2))), both(rng.integers(0, COUNT, (80, 2)))
    base = energies(dofs, first, extra, nodes + number)
    layout = ContactMatrix(base, dofs, *pairs.T)
    values, blocks = rng.standard_normal((len(first), 3, 3)), rng.standard_normal((len(pairs), 3, 3))
    entries = np.concatenate([C[at, across], C[at, across], np.full(number, -3.0)])
    expected = np.zeros((nodes + number,) * 2)
    expected[:nodes, :nodes] = J.T @ (between(first, values) + between(pairs, blocks)) @ J
    expected[nodes:, :nodes], expected[:nodes, nodes:] = C, C.T
    expected[own, own] = -3.0
    for early in (True, False):  # entries written into the base's data, or into the whole
        data = base.reduce(derivatives, values.ravel())
        if early:
            data[base.extra] = entries
        data = layout.add_blocks(data, derivatives, layout.locate(*pairs.T), blocks)
        if not early:
            data[layout.extra] = entries
        result = dense(layout, data, nodes + number)
        assert_allclose(result, expected, atol=1e-13 * np.abs(expected).max())


def test_what_there_is_no_room_for(rng):
    dofs, derivatives, _ = assembled(rng)
    base = energies(dofs, np.array([[12, 13], [13, 12]]))
    layout = ContactMatrix(base, dofs, np.array([14, 15]), np.array([15, 14]))
    inside, outside = np.array([14, 12, 20]), np.array([15, 13, 14])  # one is pinned
    assert layout.locate(inside, outside).fits
    assert layout.locate(inside[:0], outside[:0]).fits
    located = layout.locate(np.array([14, 14]), np.array([15, 13]))
    assert not located.fits
    nodes = [int(np.flatnonzero(dofs.particles == particle)[0]) for particle in (14, 13)]
    with pytest.raises(InputError, match="no room for a block between nodes {} and {}".format(*nodes)):
        layout.add_blocks(np.zeros(len(base.indices)), derivatives, located, np.zeros((2, 3, 3)))


def test_the_number_of_threads_changes_nothing_and_factors_take_it(rng):
    """Blocks of many pairs on the same entries, and a solution by factors of the whole."""
    count = 9000
    positions = rng.random((count, 3))
    dofs = DegreesOfFreedom(pg.Assembly(positions, []), np.zeros(count, bool), np.zeros(0, bool))
    chain = both(np.stack([np.arange(count - 1), np.arange(1, count)], axis=1))
    base = energies(dofs, chain)
    first = np.arange(count - 60)
    one_way = np.tile(np.stack([first, first + rng.integers(1, 60, len(first))], axis=1), (3, 1))
    pairs, B = both(one_way), rng.standard_normal((len(one_way), 3, 3))
    blocks, nothing = np.concatenate([B, np.swapaxes(B, 1, 2)]), np.zeros(len(base.indices))
    results = []
    for threads in (1, 2, 3):
        with pg.threads(threads):
            layout = ContactMatrix(base, dofs, *pairs.T)
            located = layout.locate(*pairs.T)
            results.append(layout.add_blocks(nothing, np.empty((0, 3, 3)), located, blocks))
    assert_array_equal(results[0], results[1])
    assert_array_equal(results[0], results[2])

    A = csr_array((results[0], layout.indices, layout.indptr))
    own = layout.diagonal[:, np.arange(3), np.arange(3)].ravel()
    A.data[own] += 1.0 + abs(A).sum(axis=1)  # dominant
    line = np.arange(float(count))[:, None]
    ldl = SparseLDL(layout.indptr, layout.indices, np.repeat(np.arange(count), 3), line)
    assert not ldl.factor(A.data, least=1e-14 * A.diagonal()).any()
    x = rng.standard_normal(3 * count)
    assert_allclose(ldl.solve(A @ x), x, atol=1e-12)
