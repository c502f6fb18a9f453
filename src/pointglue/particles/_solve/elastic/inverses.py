"""Inverses of the Hessian of an elastic piece: by its factors, or on two levels for large pieces.

On the coarse level of a large piece, aggregates of some thirty particles move rigidly. A step of damped
Jacobi iteration smooths that, so that they bend into each other (smoothed aggregation). With the
prolongation P, the Hessian A and the blocks D of its particles,

    B = D^-1 + P (P^T A P)^-1 P^T

is near the inverse of A at any number of particles: conjugate gradients need some ten iterations with it.
What is held by contacts is added to B in closed form, as it is to the inverse itself.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import bsr_array, csc_array, csr_array, eye_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import SuperLU, splu

from ....checks import Array
from ....compute.launching import Launcher
from ....procrustes.space import cross_matrices
from ..kernels.constraints.blocks import multiply_beams, prolong, restrict
from ..kernels.constraints.dense import factor_dense, solve_dense
from ..kernels.records import BeamMatrix, BlockMatrix
from .holds import Held

__all__ = ["ExactInverse", "Inverse", "Solver", "TwoLevelInverse", "inner", "sparse_beams"]

Integers = NDArray[np.int64]
Solver = Callable[[Array], Array]
# Particles in an aggregate, at most, and aggregates, about: more particles make larger ones.
AGGREGATE, MOST_AGGREGATES = 32, 2000
# Of damped Jacobi iteration: 4/3 over the largest eigenvalue of D^-1 A, at most 2 for a sum over pairs.
SMOOTHING = 2 / 3
# Ratio to the largest diagonal entry of the coarse level: added to it, where directions may be missing.
RIDGE = 1e-12
# Ratio of the error of conjugate gradients, in the norm of the energy, to that at the start; most iterations.
ACCURACY, MOST_ITERATIONS = 0.03, 60
# Ratio to the largest one: what is held is not held along directions of less stiffness.
LEAST_STIFFNESS = 1e-12
# Particles beyond which the factors answer sooner to forces on them than the known answers are summed.
FEW = 80
# Particles worth a thread of their own.
GRAIN = 512


def inner(a: Array, b: Array) -> float:
    """Return the inner product; not by BLAS, whose threads wait for each other on busy cores."""
    return float((a * b).sum())


class Inverse(ABC):
    """The inverse of the Hessian of a piece of p particles, or what is near it, in the particles' frames.

    Factors give an answer to a load, `size` numbers, from which the displacements of the particles follow.

    Parameters
    ----------
    matrix
        What is factored, positive definite.
    count : int
        The number of particles p.
    """

    def __init__(self, matrix: csc_array, count: int) -> None:
        # In MMD's order and without pivoting, since the matrix is positive definite.
        options = {"SymmetricMode": True}
        self._factors: SuperLU = splu(
            matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options
        )
        self._rows = np.full(count, -1)  # where the answers to loads on each particle are; -1 while unknown
        self._known = np.empty((0, 3, matrix.shape[0]))
        self._count = 0
        self._asked, self._compliance = np.empty(0, np.int64), np.empty((0, 3, 0, 3))

    @abstractmethod
    def _reduced(self, load: Array) -> Array:
        """Return what a load (6 p,) is for the factors, (size,); the next call may write over it."""

    @abstractmethod
    def _displacements(self, load: Array, answer: Array) -> Array:
        """Return the displacements (6 p,) for a load and the answer to it."""

    @abstractmethod
    def _reader(self, dofs: Integers) -> Solver:
        """Return the function from answers (size, ...) to the displacements by them at some dofs (k, ...)."""

    @abstractmethod
    def _at(self, rows: Integers, dofs: Integers) -> Array:
        """Return the displacements (3 k, m) of some dofs (m,) by known answers, three for each row (k,)."""

    @abstractmethod
    def _own(self, chosen: Integers) -> Array:
        """Return how far chosen particles move by impulses on themselves, beside the answers, (k, 3, 3)."""

    @abstractmethod
    def solver(self, held: Held | None) -> Solver:
        """Return the function that solves by the Hessian, and the stiffness of what is held."""

    def _answer(self, load: Array) -> Array:
        """Return the answer (size,) of the factors to a load (6 p,)."""
        return np.asarray(self._factors.solve(self._reduced(load)))

    def apply(self, load: Array) -> Array:
        """Return the displacements (6 p,) for a load (6 p,), if nothing is held."""
        return self._displacements(load, self._answer(load))

    def compliance(self, chosen: Integers) -> Array:
        """Return how far chosen particles move for impulses on each other, (k, 3, k, 3) [1/kg].

        While a piece is relaxed this is asked for the same particles at every Newton step, and remembered.
        """
        if not np.array_equal(chosen, self._asked):
            k = len(chosen)
            # It is symmetric, so that what moves may stand for what is pushed.
            W = self._at(self._known_rows(chosen), _axes(chosen)).reshape(k, 3, k, 3)
            W[np.arange(k), :, np.arange(k)] += self._own(chosen)
            self._asked, self._compliance = chosen.copy(), W
        return self._compliance

    def displacements(self, chosen: Integers, impulses: Array) -> Array:
        """Return how all particles move and turn, (p, 6), for impulses (k, 3) on the chosen ones."""
        load = np.zeros((len(self._rows), 6))
        load[chosen, :3] = impulses
        if len(chosen) > FEW:
            return self.apply(load.reshape(-1)).reshape(-1, 6)
        answer = np.einsum("ka,kai->i", impulses, self._responses(chosen))
        return self._displacements(load.reshape(-1), answer).reshape(-1, 6)

    def _responses(self, chosen: Integers) -> Array:
        """Return the answers (k, 3, size) to loads of 1 along the three axes of chosen particles."""
        rows = self._known_rows(chosen)
        return np.asarray(self._known[rows])

    def _known_rows(self, chosen: Integers) -> Integers:
        """Return where the answers (3, size) to loads on chosen particles are, once they are known."""
        new = chosen[self._rows[chosen] < 0]
        if self._count + len(new) > len(self._known):
            most = min(len(self._rows), 2 * (self._count + len(new)))
            room = np.empty((most, *self._known.shape[1:]))
            room[: self._count] = self._known[: self._count]
            self._known = room
        if len(new):
            load, columns = np.zeros(6 * len(self._rows)), []
            for dof in _axes(new):
                load[dof] = 1.0
                columns.append(self._reduced(load).copy())
                load[dof] = 0.0
            # At once, which takes a third of the time.
            answers = self._factors.solve(np.stack(columns, axis=1)).T
            end = self._count + len(new)
            self._known[self._count : end] = answers.reshape(len(new), 3, -1)
            self._rows[new], self._count = np.arange(self._count, end), end
        return np.asarray(self._rows[chosen])

    def _held_solver(self, held: Held | None) -> Solver:
        """Return the function that solves with the stiffness of what is held (Woodbury's formula).

        What slips is held along its normal only, and what has come free not at all: the system has an
        unknown for each direction in which something is held.
        """
        if held is None:
            return self.apply
        squares, axes = np.linalg.eigh(held.stiffness)
        of, which = np.nonzero(squares > LEAST_STIFFNESS * squares.max())
        if not len(of):
            return self.apply
        chosen, k, m = held.particles, len(held.particles), len(of)
        # The stiffness is V^T V; with the compliance W, V^T (I + V W V^T)^-1 V is what it adds to the load.
        roots = axes[of, :, which] * np.sqrt(squares[of, which])[:, None]
        V = csr_array((roots.reshape(-1), _threes(of), np.arange(0, 3 * m + 1, 3)), shape=(m, 3 * k))
        system = V @ (V @ self.compliance(chosen).reshape(3 * k, 3 * k)).T + np.eye(m)
        factor_dense(system)
        read, own = self._reader(_axes(chosen)), self._own(chosen)
        responses = self._responses(chosen) if k <= FEW else None

        def solved(load: Array) -> Array:
            answer, at = self._answer(load), load.reshape(-1, 6)[chosen, :3]
            moved = read(answer) + np.matmul(own, at[..., None]).reshape(-1)
            pulled = V @ moved
            solve_dense(system, pulled)
            forces = (V.T @ pulled).reshape(k, 3)
            left = load.reshape(-1, 6).copy()
            left[chosen, :3] -= forces
            if responses is None:
                return self.apply(left.reshape(-1))
            return self._displacements(left.reshape(-1), answer - np.einsum("ka,kai->i", forces, responses))

        return solved


class ExactInverse(Inverse):
    """The inverse of a matrix of beams by its factors."""

    def __init__(self, matrix: BeamMatrix) -> None:
        super().__init__(csc_array(sparse_beams(matrix)), len(matrix.own))

    def _reduced(self, load: Array) -> Array:
        return load

    def _displacements(self, load: Array, answer: Array) -> Array:
        return answer

    def _reader(self, dofs: Integers) -> Solver:
        return lambda answers: answers[dofs]

    def _at(self, rows: Integers, dofs: Integers) -> Array:
        known = self._known.reshape(-1, self._known.shape[2])
        return np.asarray(known[_threes(rows)[:, None], dofs])

    def _own(self, chosen: Integers) -> Array:
        return np.zeros((len(chosen), 3, 3))

    def solver(self, held: Held | None) -> Solver:
        """Return the function that solves by the Hessian, and the stiffness of what is held."""
        return self._held_solver(held)


class TwoLevelInverse(Inverse):
    """What is near the inverse of a matrix of beams, from the motions of single particles and of aggregates.

    Parameters
    ----------
    matrix : BeamMatrix
        The Hessian.
    positions : (p, 3)
        The particles at rest.
    pairs : (m, 2)
        Which of them are connected.
    free : (p, 6)
        1 for what may move, 0 for what is held for ever.
    """

    def __init__(self, matrix: BeamMatrix, positions: Array, pairs: Integers, free: Array) -> None:
        p = len(positions)
        self._matrix, self._launcher = matrix, Launcher()
        A = sparse_beams(matrix)
        self._inverse_blocks = np.linalg.inv(matrix.own)
        rigid = _rigid_motions(positions, _aggregates(positions, pairs), free)
        moved = (A @ rigid).tobsr((6, 6))
        of = np.repeat(np.arange(p), np.diff(moved.indptr))
        smoothed = np.matmul(self._inverse_blocks[of], moved.data)
        P = rigid - SMOOTHING * bsr_array((smoothed, moved.indices, moved.indptr), shape=rigid.shape)
        self._rows_of_P = csr_array(P)
        coarse = csr_array(P.T) @ (A @ self._rows_of_P)
        ridge = RIDGE * coarse.diagonal().max()
        super().__init__(csc_array(coarse + ridge * eye_array(coarse.shape[0])), p)
        self._P, self._PT = _block_matrix(P.tobsr((6, 6))), _block_matrix(P.T.tobsr((6, 6)))
        self._fine, self._coarse = np.empty((p, 6)), np.empty((coarse.shape[0] // 6, 6))

    def _reduced(self, load: Array) -> Array:
        coarse = self._coarse
        self._launcher.run(restrict, len(coarse), GRAIN // 8, self._PT, load.reshape(-1, 6), coarse)
        return coarse.reshape(-1)

    def _displacements(self, load: Array, answer: Array) -> Array:
        out = np.empty((len(self._fine), 6))
        of = (self._P, answer.reshape(-1, 6), self._inverse_blocks, load.reshape(-1, 6), out)
        self._launcher.run(prolong, len(out), GRAIN, *of)
        return out.reshape(-1)

    def _reader(self, dofs: Integers) -> Solver:
        rows = self._rows_of_P[dofs]
        return lambda answers: rows @ answers

    def _at(self, rows: Integers, dofs: Integers) -> Array:
        known = self._known[rows].reshape(3 * len(rows), -1)
        return np.asarray((self._rows_of_P[dofs] @ known.T).T)

    def _own(self, chosen: Integers) -> Array:
        return self._inverse_blocks[chosen, :3, :3]

    def solver(self, held: Held | None) -> Solver:
        """Return the function that solves by the Hessian, and the stiffness of what is held."""
        near = self._held_solver(held)

        def solved(load: Array) -> Array:
            x, r = np.zeros_like(load), load.copy()
            way = near(r)
            error = inner(r, way)
            enough = ACCURACY**2 * error
            for _ in range(MOST_ITERATIONS):
                if not error > enough:
                    break
                against = self._multiplied(way, held)
                share = error / inner(way, against)
                x, r = x + share * way, r - share * against
                z = near(r)
                before, error = error, inner(r, z)
                way = z + error / before * way
            return x

        return solved

    def _multiplied(self, x: Array, held: Held | None) -> Array:
        """Return the Hessian times x (6 p,), with the stiffness of what is held."""
        x, out = x.reshape(-1, 6), self._fine
        self._launcher.run(multiply_beams, len(x), GRAIN, self._matrix, x, out)
        if held is not None:
            out[held.particles, :3] += np.matmul(held.stiffness, x[held.particles, :3, None])[..., 0]
        return out.reshape(-1)


def _axes(chosen: Integers) -> Integers:
    """Return the degrees of freedom (3 k,) by which chosen particles move."""
    return np.asarray((6 * chosen[:, None] + np.arange(3)).reshape(-1))


def _threes(rows: Integers) -> Integers:
    """Return 3 r, 3 r + 1 and 3 r + 2 for every r (k,)."""
    return np.asarray((3 * rows[:, None] + np.arange(3)).reshape(-1))


def sparse_beams(matrix: BeamMatrix) -> csr_array:
    """Return a matrix of beams as a sparse one of single numbers (6 p, 6 p)."""
    p, (sign, t) = len(matrix.own), (matrix.signs[:, None], matrix.turn[matrix.numbers])
    blocks = np.zeros((len(matrix.others), 6, 6))
    blocks[:, [0, 1, 2], [0, 1, 2]] = -matrix.stretch[matrix.numbers, None]
    T = cross_matrices(sign * t)
    blocks[:, :3, 3:], blocks[:, 3:, :3] = -T, -T
    blocks[:, 3:, 3:] = matrix.bend[matrix.numbers][:, [0, 1, 2, 1, 3, 4, 2, 4, 5]].reshape(-1, 3, 3)
    beams = bsr_array((blocks, matrix.others, matrix.starts), shape=(6 * p, 6 * p))
    own = bsr_array((matrix.own, np.arange(p), np.arange(p + 1)), shape=beams.shape)
    return csr_array(beams + own)


def _block_matrix(matrix: bsr_array) -> BlockMatrix:
    """Return a sparse matrix of blocks, as kernels read it, rounded: it is a part of what is near only."""
    blocks = np.ascontiguousarray(matrix.data.transpose(0, 2, 1), np.float32)
    return BlockMatrix(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), blocks)


def _aggregates(positions: Array, pairs: Integers) -> Integers:
    """Return the number of the aggregate of each particle: small regions, each connected."""
    p = len(positions)
    most = max(AGGREGATE, -(-p // MOST_AGGREGATES))
    label, count, parts = np.zeros(p, np.int64), 0, [np.arange(p)]
    while parts:
        members = parts.pop()
        if len(members) <= most:
            label[members], count = count, count + 1
            continue
        x = positions[members]
        order = np.argsort(x[:, np.ptp(x, axis=0).argmax()], kind="stable")
        half = len(members) // 2
        parts += [members[order[:half]], members[order[half:]]]
    # Legs that are near each other are not one.
    within = pairs[label[pairs[:, 0]] == label[pairs[:, 1]]]
    links = csr_array((np.ones(len(within)), (within[:, 0], within[:, 1])), shape=(p, p))
    return np.asarray(connected_components(links, directed=False)[1], np.int64)


def _rigid_motions(positions: Array, aggregate: Integers, free: Array) -> bsr_array:
    """Return the matrix (6 p, 6 aggregates) from motions of aggregates to those of their particles."""
    p, sizes = len(positions), np.bincount(aggregate)
    centroids = np.stack([np.bincount(aggregate, c) / sizes for c in positions.T], axis=1)
    blocks = np.tile(np.eye(6), (p, 1, 1))
    blocks[:, :3, 3:] = -cross_matrices(positions - centroids[aggregate])
    blocks *= free[:, :, None]
    return bsr_array((blocks, aggregate, np.arange(p + 1)), shape=(6 * p, 6 * len(sizes)))
