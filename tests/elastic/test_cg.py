import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scenes import TOP, run, soft
from scipy.sparse import csr_array, diags_array, kron
from test_ldl import grid, matrix

import pointglue as pg
from pointglue.elastic import Bond, Contact, ElasticBody, FleshEnergy, ImplicitSolver
from pointglue.elastic.linalg.cg import ConjugateGradients, IndefiniteError, near_groups
from pointglue.elastic.step import linear_system as system
from pointglue.geometry.simplices import tet_box, tet_surface
from pointglue.geometry.solids import Ball


def diagonal(A):
    """Where the diagonal blocks are in the data."""
    size = A.shape[0]
    key = np.repeat(np.arange(size), np.diff(A.indptr)) * size + A.indices
    own = np.arange(size).reshape(-1, 3)
    return np.searchsorted(key, own[:, :, None] * size + own[:, None, :])


def solved(A, b, points, tolerance=1e-10, iterations=500):
    gradients = ConjugateGradients(A.indptr, A.indices, diagonal(A), points, near_groups(points))
    return gradients.solve(A.data, b, tolerance=tolerance, iterations=iterations)


@pytest.mark.parametrize("counts", [(2,), (9, 11), (5, 6, 7)], ids=str)
def test_definite_systems(counts, rng):
    points, pairs = grid(*counts)
    A = matrix(points, pairs, rng)
    x = rng.standard_normal(A.shape[0])
    for grouped in (points, points[: len(points) // 2], points[:0]):
        # The tolerance is of x in the norm of A, whose condition number is below 1e4.
        assert_allclose(solved(A, A @ x, grouped), x, atol=1e-8 * np.linalg.norm(x))


def test_iterations_do_not_grow_with_the_number_of_nodes():
    """Of springs between neighbours; without groups a cube of twice the side takes twice as many."""
    taken = []
    for side in (6, 12):
        points, pairs = grid(side, side, side)
        ends = np.concatenate([pairs, pairs[:, ::-1]])
        links = csr_array((np.ones(len(ends)), tuple(ends.T)), shape=(len(points),) * 2)
        L = diags_array(np.asarray(links.sum(axis=1)) + 1e-3) - links
        A = csr_array(kron(L, np.ones((3, 3)) + np.eye(3)))
        A.sort_indices()
        b = np.sin(np.arange(A.shape[0]))
        few = (k for k in range(200) if solved(A, b, points, 1e-3, k) is not None)
        taken.append(next(few))
    assert taken[1] < 1.3 * taken[0]


def test_the_number_of_threads_changes_nothing(rng):
    points, pairs = grid(14, 14, 14)  # six chunks
    A = matrix(points, pairs, rng)
    b, results = rng.standard_normal(A.shape[0]), []
    for count in (1, 2, 3):
        with pg.threads(count):
            results.append(solved(A, b, points))
    assert_allclose(A @ results[0], b, atol=1e-7)
    assert_array_equal(results[0], results[1])
    assert_array_equal(results[0], results[2])


def test_what_it_cannot_do(rng):
    points, pairs = grid(4, 4, 4)
    A = matrix(points, pairs, rng)
    b = rng.standard_normal(A.shape[0])
    assert solved(A, b, points, iterations=3) is None
    assert_array_equal(solved(A, np.zeros_like(b), points), 0)
    for grouped in (points, points[:0]):  # found on the groups, and without any
        with pytest.raises(IndefiniteError):
            solved(matrix(points, pairs, rng, shift=-60.0), b, grouped)


def both_ways(end, monkeypatch):
    """The end by factors alone, and by conjugate gradients alone."""
    factored = end()
    monkeypatch.setattr(system, "MIN_CG_ITERATIONS", 0)
    monkeypatch.setattr(system, "CG_ENTRY_COST", 0.1)
    iterated = end()
    assert factored.report.factorisations > 0
    assert iterated.report.factorisations == 0
    return factored, iterated


def test_the_solver_comes_to_the_same_end(monkeypatch):
    """Glue and a hard push included."""

    def end():
        first = soft("first", pinned=TOP, velocities=(0, 20.0, 0))
        second = soft("second", (0, -0.5, 0), velocities=(3.0, 20.0, 0))
        solver = ImplicitSolver([first, second], glue=[Bond("second", TOP, "first")], tolerance=1e-8)
        return run(solver, 3, 0.02)

    factored, iterated = both_ways(end, monkeypatch)
    assert_allclose(iterated.positions, factored.positions, atol=1e-9)


def test_systems_with_contact_are_solved_as_well(monkeypatch):
    """Soft boxes that fall on each other and on a ball: stiff contact between far groups of nodes."""

    def flesh(name, shift, speed):
        points, tets = tet_box((0.3, 0.2, 0.3), (3, 2, 3))
        points = points + shift
        energy = FleshEnergy(points, tets, young=1e5, poisson=0.3)
        options = {"faces": tet_surface(tets), "velocities": (0.0, -speed, 0.0), "name": name}
        return ElasticBody(points, energy.mass(300.0), [energy], **options)

    def end():
        boxes = [flesh("low", (0.0, 0.26, 0.0), 1.0), flesh("high", (0.05, 0.47, 0.03), 2.0)]
        contact = Contact(distance=4e-3, friction=0.3)
        ball = Ball((0.0, 0.0, 0.0), 0.15)
        solver = ImplicitSolver(boxes, contact=contact, colliders=[ball], tolerance=1e-8)
        return run(solver, 8, 0.01)

    factored, iterated = both_ways(end, monkeypatch)
    assert factored.report.contacts > 10
    # Each of eight steps of 0.01 s ends within 1e-8 m/s, which is 8e-10 m.
    assert_allclose(iterated.positions, factored.positions, atol=1e-9)
