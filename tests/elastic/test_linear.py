import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import block_array, coo_array, csr_array
from scipy.sparse.linalg import spsolve

import pointglue as pg
from pointglue.elastic.linear import SparseLDL


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


def factors(A, points, multipliers=()):
    """Factors of A, whose last unknowns are multipliers, a list of how many belong together."""
    node_of = np.repeat(np.arange(len(points) + len(multipliers)), [3] * len(points) + list(multipliers))
    places = np.concatenate([points, np.zeros((len(multipliers), 3))])
    return SparseLDL(A.indptr, A.indices, node_of, places, multipliers=len(multipliers))


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


def test_bodies_apart_and_points_in_one_place(rng):
    points, pairs = grid(4, 4, 4)
    both, all_pairs = np.concatenate([points, points]), np.concatenate([pairs, pairs + len(points)])
    A = matrix(both, all_pairs, rng)
    for places in (both, np.zeros_like(both)):
        ldl = factors(A, places)
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
