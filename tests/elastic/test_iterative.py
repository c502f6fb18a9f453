import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scenes import TOP, run, soft
from test_linear import grid, matrix

import pointglue as pg
from pointglue.elastic import Bond, ImplicitSolver, problem
from pointglue.elastic.iterative import IndefiniteError, conjugate_gradients


def diagonal(A):
    """Where the diagonal blocks are in the data."""
    size = A.shape[0]
    key = np.repeat(np.arange(size), np.diff(A.indptr)) * size + A.indices
    own = np.arange(size).reshape(-1, 3)
    return np.searchsorted(key, own[:, :, None] * size + own[:, None, :])


def solved(A, b, tolerance=1e-10, iterations=500):
    return conjugate_gradients(
        A.indptr, A.indices, A.data, diagonal(A), b, tolerance=tolerance, iterations=iterations
    )


@pytest.mark.parametrize("counts", [(2,), (9, 11), (5, 6, 7)], ids=str)
def test_definite_systems(counts, rng):
    A = matrix(*grid(*counts), rng)
    x = rng.standard_normal(A.shape[0])
    # The tolerance is of x in the norm of A, whose condition number is below 1e4.
    assert_allclose(solved(A, A @ x), x, atol=1e-8 * np.linalg.norm(x))


def test_the_number_of_threads_changes_nothing(rng):
    A = matrix(*grid(14, 14, 14), rng)  # six chunks
    b, results = rng.standard_normal(A.shape[0]), []
    for count in (1, 2, 3):
        with pg.threads(count):
            results.append(solved(A, b))
    assert_allclose(A @ results[0], b, atol=1e-7)
    assert_array_equal(results[0], results[1])
    assert_array_equal(results[0], results[2])


def test_what_it_cannot_do(rng):
    points, pairs = grid(4, 4, 4)
    A = matrix(points, pairs, rng)
    b = rng.standard_normal(A.shape[0])
    assert solved(A, b, iterations=3) is None
    assert_array_equal(solved(A, np.zeros_like(b)), 0)
    with pytest.raises(IndefiniteError):
        solved(matrix(points, pairs, rng, shift=-60.0), b)


def test_the_solver_comes_to_the_same_end(monkeypatch):
    """Glue and a hard push included."""

    def end():
        first = soft("first", pinned=TOP, velocities=(0, 20.0, 0))
        second = soft("second", (0, -0.5, 0), velocities=(3.0, 20.0, 0))
        solver = ImplicitSolver([first, second], glue=[Bond("second", TOP, "first")], tolerance=1e-8)
        return run(solver, 3, 0.02)

    factored = end()
    monkeypatch.setattr(problem, "WORTH", 0)
    monkeypatch.setattr(problem, "PER_ENTRY", 0.1)
    iterated = end()
    assert factored.report.factorisations > 0
    assert iterated.report.factorisations == 0
    assert_allclose(iterated.positions, factored.positions, atol=1e-9)
