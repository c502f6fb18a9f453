from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import block_array, coo_array, csr_array
from scipy.sparse.linalg import spsolve

import pointglue as pg
from pointglue.elastic.linalg.kernels import ldl as kernels
from pointglue.elastic.linalg.ldl import SparseLDL
from pointglue.elastic.linalg.ordering import Ordering
from pointglue.errors import InputError


def grid(*counts):
    """Points of a grid and pairs of neighbours, diagonals included."""
    points = np.stack(np.meshgrid(*[np.arange(n) for n in counts], indexing="ij"), -1).reshape(
        -1, len(counts)
    )
    points = np.pad(points, [(0, 0), (0, 3 - len(counts))]).astype(float)
    near = np.abs(points[:, None] - points).max(-1) == 1
    return points, np.argwhere(np.triu(near))


def matrix(points, pairs, rng, shift=0.1):
    """A random symmetric matrix of 3 x 3 blocks, positive definite for a positive shift."""
    A = rng.standard_normal((len(pairs), 6, 6))
    blocks = np.einsum("eij,ekj->eik", A, A)
    rows = (3 * pairs[:, :, None] + np.arange(3)).reshape(-1, 6)
    i, j = np.repeat(rows, 6, axis=1).ravel(), np.tile(rows, (1, 6)).ravel()
    own = np.arange(3 * len(points))
    entries = np.concatenate([blocks.ravel(), np.full(len(own), shift)])
    both = (np.concatenate([i, own]), np.concatenate([j, own]))
    return csr_array(coo_array((entries, both), shape=(len(own),) * 2))


def factors(A, points, multipliers=(), reuse=None):
    """Factors of A, whose last unknowns are multipliers, a list of how many belong together."""
    node_of = np.repeat(np.arange(len(points) + len(multipliers)), [3] * len(points) + list(multipliers))
    positions = np.concatenate([points, np.zeros((len(multipliers), points.shape[1]))])
    return SparseLDL(A.indptr, A.indices, node_of, positions, multipliers=len(multipliers), reuse=reuse)


def positive(A):
    return 1e-14 * A.diagonal()


@pytest.mark.parametrize("counts", [(1,), (2,), (40,), (9, 11), (5, 6, 7)], ids=str)
def test_definite_systems(counts, rng):
    points, pairs = grid(*counts)
    A = matrix(points, pairs, rng)
    ldl = factors(A, points)
    assert not ldl.factor(A.data, least=positive(A)).any()
    x = rng.standard_normal(A.shape[0])
    # The condition number is below 1e4.
    assert_allclose(ldl.solve(A @ x), x, atol=1e-11)


@pytest.mark.parametrize("r", [1, 7, 64, 136])
def test_updates_are_of_the_upper_triangle_alone(r, rng):
    """In whole tiles: what is left of them would double the work, and run over the ends of rows."""
    p = 70  # more than are summed up at once
    LT, W = rng.standard_normal((2, p, kernels.padded(p, r)))
    U = np.zeros((kernels.wide(r),) * 2)
    kernels.update_tiles(0, (r + 3) // 4, LT, W, U, p, r)
    whole = -LT[:p, p : p + r].T @ W[:p, p : p + r]
    rows, columns = np.indices((r, r))
    expected = np.where(columns >= rows // kernels.TILE * kernels.TILE, whole, 0.0)
    assert_allclose(U[:r, :r], expected, atol=1e-12)  # sums of 70 products of about 1


def test_bodies_apart_and_points_in_one_place(rng):
    points, pairs = grid(4, 4, 4)
    both, all_pairs = np.concatenate([points, points]), np.concatenate([pairs, pairs + len(points)])
    A = matrix(both, all_pairs, rng)
    for positions in (both, np.zeros_like(both)):
        ldl = factors(A, positions)
        assert not ldl.factor(A.data, least=positive(A)).any()
        b = rng.standard_normal(A.shape[0])
        assert_allclose(A @ ldl.solve(b), b, atol=1e-11)


def test_factors_are_used_again(rng):
    points, pairs = grid(6, 6, 6)
    A, B = matrix(points, pairs, rng), matrix(points, pairs, rng)
    ldl = factors(A, points)
    b = rng.standard_normal(A.shape[0])
    ldl.factor(A.data, least=positive(A))
    ldl.factor(B.data, least=positive(B))
    fresh = factors(B, points)
    fresh.factor(B.data, least=positive(B))
    assert_array_equal(ldl.solve(b), fresh.solve(b))


def test_the_number_of_threads_changes_nothing(rng):
    points, pairs = grid(11, 11, 10)
    A = matrix(points, pairs, rng)
    ldl = factors(A, points)
    assert ldl.work > 2e8  # large enough for subtrees and for fronts that are shared
    b, results = rng.standard_normal(A.shape[0]), []
    for count in (1, 2, 3):
        with pg.threads(count):
            ldl.factor(A.data, least=positive(A))
            results.append(ldl.solve(b))
    assert_allclose(A @ results[0], b, atol=1e-10)
    assert_array_equal(results[0], results[1])
    assert_array_equal(results[0], results[2])


def test_memory_is_handed_on(rng):
    """From a larger system and from a smaller one, with what is not a number left in it."""
    points, pairs = grid(5, 5, 5)
    A = matrix(points, pairs, rng)
    b, fresh = rng.standard_normal(A.shape[0]), factors(A, points)
    fresh.factor(A.data, least=positive(A))
    expected = fresh.solve(b)
    for counts in ((7, 7, 7), (3, 3)):
        other, joined = grid(*counts)
        B = matrix(other, joined, rng)
        before = factors(B, other)
        before.factor(np.full_like(B.data, np.nan), least=positive(B))
        after = factors(A, points, reuse=before)
        for late in (before, after):
            with pytest.raises(InputError, match="no factors to solve by: call factor first"):
                late.solve(b)
        after.factor(A.data, least=positive(A))
        assert_array_equal(after.solve(b), expected)


def test_indefinite_matrices_are_found_out(rng):
    points, pairs = grid(3, 3, 3)
    found = []
    for shift in np.linspace(-30.0, 0.5, 15):
        A = matrix(points, pairs, rng, shift)
        wrong = factors(A, points).factor(A.data, least=1e-14 * np.abs(A.diagonal()) + 1e-300)
        least = np.linalg.eigvalsh(A.toarray())[0]
        assert wrong.any() == (least < 0)
        found.append(wrong.any())
    assert 0 < sum(found) < len(found)


def with_equations(A, C, give):
    return csr_array(block_array([[A, C.T], [C, -give * csr_array(np.eye(C.shape[0]))]]))


def equations(A, rng, count, each):
    """Equations between unknowns of a few nodes, far apart."""
    C = np.zeros((count * each, A.shape[0]))
    for k in range(count):
        nodes = rng.choice(A.shape[0] // 3, 4, replace=False)
        columns = (3 * nodes[:, None] + np.arange(3)).ravel()
        C[each * k : each * (k + 1), columns] = rng.standard_normal((each, len(columns)))
    return C


def test_multipliers(rng):
    points, pairs = grid(5, 5, 5)
    A = matrix(points, pairs, rng)
    C = csr_array(equations(A, rng, 4, 5))
    K = with_equations(A, C, 1e-10)
    ldl = factors(K, points, [5] * 4)
    least = np.concatenate([positive(A), np.full(20, -5e-11)])
    assert not ldl.factor(K.data, least=least).any()
    assert ldl.weak(10 * least) == 0
    b = rng.standard_normal(K.shape[0])
    assert_allclose(ldl.solve(b), spsolve(K.tocsc(), b), atol=1e-9)


def test_redundant_equations_are_counted_and_do_no_harm(rng):
    points, pairs = grid(5, 5, 5)
    A = matrix(points, pairs, rng)
    C = equations(A, rng, 2, 5)
    C = np.concatenate([C, C[:5]])  # said twice
    K = with_equations(A, csr_array(C), 1e-10)
    ldl = factors(K, points, [5] * 3)
    least = np.concatenate([positive(A), np.full(15, -5e-11)])
    ldl.factor(K.data, least=least)
    assert ldl.weak(10 * least) == 5
    x = rng.standard_normal(A.shape[0])
    b = np.concatenate([A @ x, C @ x])  # solved by x, without multipliers
    # What give and rounding do to the redundant ones is of the order of eps / give.
    assert_allclose(ldl.solve(b)[: len(x)], x, atol=1e-5)


def test_redundant_equations_are_counted_where_they_are_eliminated_early(rng):
    points, pairs = grid(100)
    A = matrix(points, pairs, rng)
    C = np.pad(rng.standard_normal((5, 12)), [(0, 0), (0, A.shape[0] - 12)])  # of one end alone
    K = with_equations(A, csr_array(np.concatenate([C, C])), 1e-10)
    ldl = factors(K, points, [5, 5])
    assert not ldl.is_multiplier[ldl.order][-10:].any()
    least = np.concatenate([positive(A), np.full(10, -5e-11)])
    ldl.factor(K.data, least=least)
    assert ldl.weak(10 * least) == 5


def ordering(A, points, multipliers=0):
    """Of a matrix whose unknowns are three a node, all of them."""
    node_of = np.repeat(np.arange(len(points)), 3)
    return Ordering.of(A.indptr, A.indices, node_of, points, multipliers=multipliers)


def scattered(rng, count=150):
    """Points in the plane, each connected to a few near it and some to one far away."""
    points = np.pad(rng.random((count, 2)), [(0, 0), (0, 1)])
    near = np.argsort(np.linalg.norm(points[:, None] - points, axis=2), axis=1)[:, 1:5]
    pairs = np.stack([np.repeat(np.arange(count), 4), near.ravel()], axis=1)
    return points, np.concatenate([pairs, rng.integers(0, count, (6, 2))])


@pytest.mark.parametrize("multipliers", [0, 8])
def test_the_order_is_one_of_elimination_on_a_tree(rng, multipliers):
    """Against elimination of a dense pattern, one part after the other."""
    points, pairs = scattered(rng)
    A = matrix(points, pairs[pairs[:, 0] != pairs[:, 1]], rng)
    parts = ordering(A, points, multipliers)
    count = len(points)
    assert_array_equal(np.sort(parts.nodes), np.arange(count))
    assert (np.diff(parts.bounds) > 0).all()
    filled = (A.toarray()[::3, ::3] != 0)[np.ix_(parts.nodes, parts.nodes)]
    for s, (begin, end) in enumerate(pairwise(parts.bounds)):
        rows = parts.rows[parts.starts[s] : parts.starts[s + 1]]
        touched = end + np.flatnonzero(filled[begin:end, end:].any(axis=0))
        assert_array_equal(rows, touched)
        filled[np.ix_(touched, touched)] = True
        above = np.searchsorted(parts.bounds, touched[0], side="right") - 1 if len(touched) else -1
        assert parts.parents[s] == above
    # All that is below a part stands right before it.
    below = np.ones(len(parts.parents), int)
    for s, parent in enumerate(parts.parents):
        assert (parts.parents[s - below[s] + 1 : s] <= s).all()
        if parent >= 0:
            below[parent] += below[s]
    linked = A.toarray()[::3, ::3] != 0
    position = np.argsort(parts.nodes)
    free = np.arange(count) < count - multipliers
    for node in np.flatnonzero(~free):
        assert (position[linked[node] & free] < position[node]).all()


def test_what_is_near_now_or_was_at_rest_is_cut_well(rng):
    """A strip that is rolled up, layers in contact: either place alone is worse than both together."""
    points, pairs = grid(120, 8)
    turn = 10 * np.pi * np.sqrt(points[:, 0] / 120)
    rolled = np.stack([turn * np.cos(turn), turn * np.sin(turn), 3 * points[:, 1]], axis=1)
    near = np.argwhere(np.triu(np.linalg.norm(rolled[:, None] - rolled, axis=2) < 6.5, 1))
    flat, crossed = matrix(points, pairs, rng), matrix(points, np.concatenate([pairs, near]), rng)
    positions = np.concatenate([points, rolled], axis=1)
    by_rest, by_now, by_both = (factors(flat, each).work for each in (points, rolled, positions))
    assert by_both < 1.1 * by_rest < by_now
    by_rest, by_now, by_both = (factors(crossed, each).work for each in (points, rolled, positions))
    assert by_both < 1.1 * by_now < by_rest


def test_symbolic_work_is_about_linear_in_the_size(rng):
    """Counted in rows of fronts: n log n for a sheet."""
    rows = [len(ordering(matrix(p, q, rng), p).rows) / len(p) for p, q in (grid(16, 16), grid(45, 45))]
    assert rows[1] < 2 * rows[0]


def test_no_unknowns_at_all():
    nothing = csr_array((0, 0))
    ldl = factors(nothing, np.empty((0, 3)))
    assert len(ldl.factor(nothing.data, least=np.empty(0))) == 0
    assert len(ldl.solve(np.empty(0))) == 0


def test_nodes_that_do_not_ascend_are_refused():
    """The kernels would write beyond their memory."""
    A = csr_array(np.eye(3))
    with pytest.raises(InputError, match="node_of must ascend"):
        SparseLDL(A.indptr, A.indices, np.array([0, 2, 1]), np.zeros((3, 3)))
