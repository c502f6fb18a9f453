"""The inverse of the Hessian of elastic pieces, and what is near it on two levels, against dense algebra."""

import numpy as np
import pytest

from pointglue.particles import OrientedBody, ParticleSolver, Plane, block, rope, sheet
from pointglue.particles._solve.elastic import inverses
from pointglue.particles._solve.elastic.holds import Held
from pointglue.particles._solve.elastic.inverses import ExactInverse, TwoLevelInverse, sparse_beams
from pointglue.particles._solve.elastic.pieces import ElasticPiece

H = 1 / 120


def piece_of(body):
    solver = ParticleSolver(body, contacts="none")
    solver.step(solver.start(), H)
    (piece,) = solver._contact.elastic.pieces
    return piece


def clamped(body):
    left = body.positions[:, 0]
    return body.replace(pinned=left < left.min() + 1e-6)


def free_of(piece):
    return ~np.repeat(np.stack([piece.fixed, piece.clamped], axis=1), 3, axis=1)


def two_levels(piece):
    return TwoLevelInverse(piece.hessian(H), piece.positions, piece.pairs, free_of(piece).astype(float))


BODIES = {
    "free": block((1.0, 0.3, 0.3), (8, 3, 3), young=1e7),
    "clamped": clamped(block((1.0, 0.3, 0.3), (8, 3, 3), young=1e7)),
    "sheet": clamped(sheet((1.0, 1.0), (9, 9), thickness=0.05, young=1e7)),
    "rope": clamped(rope((0, 0, 0), (1, 0, 0), particles=40, radius=0.02, young=1e7)),
}


@pytest.fixture(params=BODIES)
def piece(request, monkeypatch):
    monkeypatch.setattr(inverses, "AGGREGATE", 6)  # so that small bodies have several
    return piece_of(BODIES[request.param])


def dense(piece):
    return sparse_beams(piece.hessian(H)).toarray()


def test_two_levels_are_near_the_inverse_and_positive(piece):
    near, matrix = two_levels(piece), dense(piece)
    B = np.stack([near.apply(e) for e in np.eye(len(matrix))])
    free = free_of(piece).reshape(-1)
    B, A = B[free][:, free], matrix[free][:, free]
    # The prolongation is rounded to single precision.
    np.testing.assert_allclose(B, B.T, atol=1e-6 * np.abs(B).max())
    eigenvalues = np.sort(np.linalg.eigvals(B @ A).real)
    # At most 2 of the blocks and 1 of the coarse level; the smallest falls with the size of aggregates.
    assert eigenvalues[0] > 0.05
    assert eigenvalues[-1] < 3.0


def test_two_levels_are_positive_however_stiff(monkeypatch):
    """What resists rigid motions is the mass alone, 1e-13 here of what resists strain: rounding hides it."""
    monkeypatch.setattr(inverses, "AGGREGATE", 6)
    near = two_levels(piece_of(block((1.0, 0.3, 0.3), (8, 3, 3), young=1e17)))
    B = np.stack([near.apply(e) for e in np.eye(6 * 72)])
    eigenvalues = np.linalg.eigvalsh((B + B.T) / 2)
    # Rounding of the single precision of the prolongation may not be symmetric.
    assert eigenvalues[0] > -1e-6 * eigenvalues[-1]


def test_responses_to_impulses_are_those_of_the_inverse(piece):
    chosen, k = np.array([20, 3, 31]), 3
    impulses = np.arange(9.0).reshape(3, 3) - 4
    for inverse in (ExactInverse(piece.hessian(H)), two_levels(piece)):
        load = np.zeros((len(piece), 6))
        load[chosen, :3] = impulses
        expected = inverse.apply(load.reshape(-1)).reshape(-1, 6)
        moved = inverse.displacements(chosen, impulses)
        W = inverse.compliance(chosen)
        # Single precision of the prolongation, to and from the coarse level.
        np.testing.assert_allclose(moved, expected, atol=1e-6 * np.abs(expected).max())
        at = (W.reshape(3 * k, 3 * k) @ impulses.reshape(-1)).reshape(3, 3)
        np.testing.assert_allclose(at, expected[chosen, :3], atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("held", [False, True])
def test_both_solve_by_the_hessian_and_what_is_held(piece, held, rng):
    matrix = dense(piece)
    free = free_of(piece)
    particles = np.flatnonzero(~piece.fixed)[[1, 5, 9]]
    factor = rng.normal(size=(3, 3, 3))
    stiffness = np.abs(np.diag(matrix)[6 * particles]).max() * factor @ factor.transpose(0, 2, 1)
    if held:
        for a, K in zip(particles, stiffness, strict=True):
            matrix[6 * a : 6 * a + 3, 6 * a : 6 * a + 3] += K
    load = (rng.normal(size=(len(piece), 6)) * free).reshape(-1)
    expected = np.linalg.solve(matrix, load)
    given = Held(particles, stiffness) if held else None
    exact = ExactInverse(piece.hessian(H)).solver(given)(load)
    np.testing.assert_allclose(exact, expected, atol=1e-9 * np.abs(expected).max())
    error = two_levels(piece).solver(given)(load) - expected
    # Conjugate gradients know the preconditioned residual, which is a little less than the error.
    assert (error @ matrix @ error) ** 0.5 < 2 * inverses.ACCURACY * (load @ expected) ** 0.5


@pytest.fixture
def factored(monkeypatch):
    """The numbers of unknowns of all systems of contacts that are factored."""
    sizes, factor = [], inverses.factor_dense
    monkeypatch.setattr(inverses, "factor_dense", lambda A: sizes.append(len(A)) or factor(A))
    return sizes


def test_there_is_an_unknown_for_each_direction_that_is_held(factored):
    """The first of three particles sticks, the second slips and the third has come free."""
    piece = piece_of(BODIES["free"])
    stiffness = np.stack([np.eye(3), np.diag([0.0, 1.0, 0.0]), np.zeros((3, 3))])
    ExactInverse(piece.hessian(H)).solver(Held(np.array([1, 5, 9]), stiffness))
    assert factored == [4]


def test_contacts_are_factored_once_while_a_piece_is_relaxed(factored, monkeypatch):
    counts, relax = [], ElasticPiece.relax

    def counted(piece, *given):
        counts.append(relax(piece, *given) if given[-1] is not None else 0)
        return counts[-1]

    monkeypatch.setattr(ElasticPiece, "relax", counted)
    body = block((0.4, 0.4, 0.4), (3, 3, 3), young=1e5).moved(translation=(0.0, 0.25, 0.0))
    solver = ParticleSolver(body, colliders=[Plane((0, 0, 0), (0, 1, 0))])
    state = solver.start()
    for _ in range(30):
        state = solver.step(state, 1 / 60)
    # It takes more steps than that, or there would be nothing to save.
    assert sum(counts) > np.count_nonzero(counts)
    assert 0 < len(factored) <= np.count_nonzero(counts)


def test_iterations_do_not_grow_with_the_number_of_particles(monkeypatch):
    """On a beam of the same shape, 8 and 64 times as many particles: conjugate gradients end as soon."""
    counts = []
    multiplied = TwoLevelInverse._multiplied
    monkeypatch.setattr(TwoLevelInverse, "_multiplied", lambda *of: counts.append(1) or multiplied(*of))
    needed = []
    for n in (1, 2, 4):
        piece = piece_of(clamped(block((1.0, 0.25, 0.25), (16 * n, 4 * n, 4 * n), young=1e9)))
        load = np.zeros((len(piece), 6))
        load[:, 1] = -piece.mass * ~piece.fixed
        counts.clear()
        two_levels(piece).solver(None)(load.reshape(-1))
        needed.append(len(counts))
    assert max(needed) < 20
    assert needed[2] < 1.5 * needed[0] + 2


def test_legs_that_are_near_each_other_are_not_one_aggregate():
    """Two columns a hundredth apart, joined at the top only."""
    x = np.array([[side * 0.01, 0.1 * k, 0.0] for side in (-1, 1) for k in range(8)])
    edges = [(k, k + 1) for k in (*range(7), *range(8, 15))] + [(7, 15)]
    body = OrientedBody(x, radii=0.05, edges=edges, young=1e7)
    aggregate = inverses._aggregates(body.positions, body.edges)
    assert len(np.unique(aggregate)) == 1  # 16 particles, which hang together
    apart = inverses._aggregates(body.positions, body.edges[:-1])
    assert len(np.unique(apart)) == 2
    assert set(apart[:8]).isdisjoint(apart[8:])
