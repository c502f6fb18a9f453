"""Elastic pieces: lattices of beams with a Young's modulus, stepped implicitly.

Each iteration of a substep takes one Newton step of all particles of a piece at once, by the Hessian at rest
turned with each particle. The inverse of the Hessian is prepared once for a length of the substep. It also
tells how far an impulse on one particle moves all others, so that a contact knows how heavy and how stiff the
body behind it is.
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ....checks import Array
from ....compute.launching import Launcher
from ....procrustes.matrices import nearest_rotations
from ....procrustes.space import cross_matrices
from ...body import OrientedBody
from ...state import RestPose
from ..kernels.constraints.lattice import add_displacement, beam_loads, residual
from ..kernels.constraints.matching import MIN_GAP
from ..kernels.records import BeamMatrix, Lattice, ParticleArrays, ParticleBuffers
from .edge_stiffness import edge_stiffness, sums
from .holds import Held, Holds
from .inverses import ExactInverse, Inverse, Solver, TwoLevelInverse, inner

__all__ = ["MOMENT", "ElasticPiece", "elastic_edges", "elastic_pieces"]

Integers = NDArray[np.int64]
# Where the moment B is in a row of P.
MOMENT = np.array([4, 5, 6, 8, 9, 10, 12, 13, 14])
# Particles worth a thread of their own.
GRAIN = 256
# Ratio to the largest entry of the Hessian: that of fixed particles, which do not move.
FIXED = 1e9
# Newton steps in an iteration at most, and what is a short one: in radians, and in lengths of beams.
MOST_STEPS, SHORT = 20, 1e-2
# Steps that the next one takes account of.
MEMORY = 5
# How often a step is shortened, and the share of the decrease promised by its slope that is enough (Armijo).
SHORTENINGS, DECREASE = 8, 1e-4
# Radians that contact turns a particle at once, at most: beyond, its response to impulses is another one.
MOST_TURN = 0.3
# Inverses that a piece keeps, for substeps of different lengths.
KEPT_INVERSES = 3
# Particles of a piece whose Hessian is factored as a whole: for more, two levels take less time.
LARGEST_FACTORED = 2000
# Ratio of an energy below which a rise of the objective is rounding.
ROUNDING = 1e-12


def elastic_edges(body: OrientedBody, active: NDArray[np.bool_]) -> Integers:
    """Return the numbers of the edges that are beams while these (groups,) rigid groups are active."""
    i, j = body.edges.T
    beams = (body.young[i] > 0) & (body.young[j] > 0)
    for group in (g for g, on in zip(body.groups, active, strict=True) if on):
        inside = np.zeros(len(body), np.bool_)
        inside[group] = True
        beams &= ~(inside[i] & inside[j])
    return np.flatnonzero(beams)


class ElasticPiece:
    """Particles connected by beams.

    Parameters
    ----------
    lattice : Lattice
        The beams.
    positions : (p, 3)
        The particles at rest [m].
    bending : (m, 3, 3)
        Their stiffness against bending, K [N m].
    pairs : (m, 2)
        Their ends, as numbers within the piece.
    mass, inertia : (p,), (p, 3, 3)
        Of the particles: mass [kg] and inertia at rest [kg m^2].
    fixed, clamped : (p,)
        Which of them do not move, and which do not turn.
    """

    def __init__(
        self,
        lattice: Lattice,
        positions: Array,
        bending: Array,
        pairs: Integers,
        mass: Array,
        inertia: Array,
        fixed: NDArray[np.bool_],
        clamped: NDArray[np.bool_],
    ) -> None:
        self.lattice = lattice
        self.mass, self.inertia, self.fixed, self.clamped = mass, inertia, fixed, clamped
        self.positions, self.bending, self.pairs = positions, bending, pairs
        self._inverses: dict[float, Inverse] = {}
        p = len(lattice.members)
        self.gradient, self._energies = np.empty((p, 6)), np.empty(p)
        self._loads = np.empty((len(pairs), 10))
        # Where particles were when the objective was computed last, and whether they had been relaxed.
        self._seen: Array | None = None
        self._value, self._settled = 0.0, False
        self._launcher = Launcher()
        length = float(np.median(np.linalg.norm(lattice.rest, axis=1)))
        self._short = np.tile(np.repeat([SHORT * length, SHORT], 3), p)

    def __len__(self) -> int:
        return len(self.lattice.members)

    def inverse(self, h: float) -> Inverse:
        """Return the inverse of the Hessian at rest, or what is near it, for a substep of length h [s]."""
        if h not in self._inverses:
            while len(self._inverses) >= KEPT_INVERSES:
                self._inverses.pop(next(iter(self._inverses)))
            matrix = self.hessian(h)
            if len(self) <= LARGEST_FACTORED:
                self._inverses[h] = ExactInverse(matrix)
            else:
                free = ~np.repeat(np.stack([self.fixed, self.clamped], axis=1), 3, axis=1)
                self._inverses[h] = TwoLevelInverse(matrix, self.positions, self.pairs, free.astype(float))
        return self._inverses[h]

    def hessian(self, h: float) -> BeamMatrix:
        """Return the Hessian of the objective at rest, in kilograms and their moments."""
        lattice, p, (i, j) = self.lattice, len(self), self.pairs.T
        k, K = h * h * lattice.stretch[:, None, None], h * h * self.bending
        half = 0.5 * cross_matrices(lattice.rest)
        T = k * half
        both, one = K - np.matmul(half, T), k * np.eye(3)
        own = np.zeros((p, 6, 6))
        own[:, [0, 1, 2], [0, 1, 2]] = self.mass[:, None]
        own[:, 3:, 3:] = self.inertia
        for end, sign in ((i, 1.0), (j, -1.0)):
            top, below = np.concatenate([one, -sign * T], axis=2), np.concatenate([sign * T, both], axis=2)
            own += sums(end, np.concatenate([top, below], axis=1), p)
        firm = FIXED * own.max() * np.eye(3)
        own[self.fixed, :3, :3] += firm
        own[self.clamped, 3:, 3:] += firm
        return BeamMatrix(
            own=own,
            starts=lattice.starts,
            others=self.pairs[lattice.numbers, (lattice.signs > 0).astype(np.int64)],
            numbers=lattice.numbers,
            signs=lattice.signs,
            stretch=h * h * lattice.stretch,
            turn=0.5 * h * h * lattice.stretch[:, None] * lattice.rest,
            bend=np.ascontiguousarray((both - 2 * K).reshape(-1, 9)[:, [0, 1, 2, 4, 5, 8]]),
        )

    def begin(
        self, h: float, particles: ParticleArrays, buffers: ParticleBuffers, free: tuple[Array, Array]
    ) -> None:
        """Begin a substep: move the piece as a rigid one instead of freely, if that strains it less.

        Particles that fly straight on stretch a piece that turns, to second order, and a stiff one so much
        that it would take many steps to find its shape again. The rigid motion is that which minimises the
        inertial part of the objective, from the shape at the start of the substep, with pins as heavy as
        they are in the Hessian: what hangs on them at rest begins where it was.
        """
        members = self.lattice.members
        y, B = free[0][members], free[1][members].reshape(-1, 3, 3)
        x, F = buffers.X[members], buffers.F[members].reshape(-1, 3, 3)
        mass = np.where(self.fixed, FIXED * self.mass, self.mass)
        shares = mass / mass.sum()
        old, new = shares @ x, shares @ y
        A = np.einsum("n,ni,nj->ij", mass, y - new, x - old)
        A += np.einsum("n,nik,njk->ij", np.where(self.clamped, FIXED, 1.0), B, F)
        R = nearest_rotations(A.reshape(1, 9), np.eye(3).reshape(1, 9), MIN_GAP)[0].reshape(3, 3)
        flown = self.objective(h, particles, buffers, free, None)
        saved = buffers.P[members], buffers.E[members]
        turned = R @ F[~self.clamped]
        moving, turning = members[~self.fixed], members[~self.clamped]
        buffers.P[moving, :3] = (x[~self.fixed] - old) @ R.T + new
        buffers.E[turning] = turned.reshape(-1, 9)
        moments = np.matmul(turned, particles.moments[turning].reshape(-1, 3, 3))
        buffers.P[turning[:, None], MOMENT] = moments.reshape(-1, 9)
        value = self.objective(h, particles, buffers, free, None)
        self._settled, self._value, self._seen = False, value, buffers.P[members]
        if value >= flown:
            buffers.P[members], buffers.E[members] = saved

    def relax(
        self,
        h: float,
        particles: ParticleArrays,
        buffers: ParticleBuffers,
        free: tuple[Array, Array],
        holds: Holds | None = None,
    ) -> int:
        """Minimise the objective until a step is short; return how many steps it took.

        The steps are those of L-BFGS from the Hessian at rest and that of contacts as they are at first: to
        factor these at every step costs more than the steps that it saves. What raises the objective is
        shortened. What nothing has moved since, and nothing holds, takes none.
        """
        members = self.lattice.members
        same = holds is None and self._seen is not None and bool((self._seen == buffers.P[members]).all())
        if same and self._settled:
            return 0
        before = self._value if same else self.objective(h, particles, buffers, free, holds)
        gradient, history = self.gradient.ravel().copy(), deque[tuple[Array, Array, float]](maxlen=MEMORY)
        self._settled, self._seen, count = False, None, 0
        solve = self.inverse(h).solver(self._held(buffers, holds))
        while count < MOST_STEPS:
            step = -_secant(gradient, history, solve)
            slope = inner(gradient, step)
            if not slope < 0.0:
                break
            count += 1
            saved = buffers.P[members], buffers.E[members]
            factor = 1.0
            for _ in range(SHORTENINGS):
                self.move(factor, step.reshape(-1, 6), particles, buffers)
                now = self.objective(h, particles, buffers, free, holds)
                if now <= before + DECREASE * factor * slope + ROUNDING * abs(before):
                    break
                buffers.P[members], buffers.E[members] = saved
                # Where the parabola through both ends has its minimum.
                factor *= min(0.5, max(0.1, 0.5 * factor * slope / (factor * slope + before - now)))
            else:
                break
            taken, change = factor * step, self.gradient.ravel() - gradient
            if (np.abs(taken) <= self._short).all():
                if holds is None:
                    self._settled, self._seen = True, buffers.P[members]
                break
            curvature = inner(taken, change)
            if curvature > 0.0:
                history.append((taken, change, curvature))
            before, gradient = now, gradient + change
        return count

    def objective(
        self,
        h: float,
        particles: ParticleArrays,
        buffers: ParticleBuffers,
        free: tuple[Array, Array],
        holds: Holds | None,
    ) -> float:
        """Compute the gradient, and return the objective."""
        loads, result = self._loads, (self._energies, self.gradient)
        self._launcher.run(beam_loads, len(loads), GRAIN, h, self.lattice, buffers, loads)
        of = (self.lattice, loads, particles, buffers, free, result)
        self._launcher.run(residual, len(self), GRAIN, *of)
        energy = float(self._energies.sum() + loads[:, 9].sum())
        if holds is not None:
            at = self.lattice.members[holds.particles]
            held, forces = holds.evaluate(buffers.P[at, :3])
            energy += held
            self.gradient[holds.particles, :3] -= _own_axes(forces, buffers.E[at])
        return energy

    def _held(self, buffers: ParticleBuffers, holds: Holds | None) -> Held | None:
        """Return the stiffness of contacts at their particles, in the frames of these."""
        if holds is None:
            return None
        at = self.lattice.members[holds.particles]
        turns = buffers.E[at].reshape(-1, 3, 3)
        stiffness = np.matmul(turns.transpose(0, 2, 1), np.matmul(holds.stiffness(buffers.P[at, :3]), turns))
        return Held(holds.particles, stiffness)

    def move(self, factor: float, step: Array, particles: ParticleArrays, buffers: ParticleBuffers) -> None:
        moved = (factor, step, self.lattice, particles, buffers)
        self._launcher.run(add_displacement, len(self), 16 * GRAIN, *moved)

    def apply_impulses(
        self,
        h: float,
        chosen: Integers,
        impulses: Array,
        particles: ParticleArrays,
        buffers: ParticleBuffers,
    ) -> None:
        """Move all by impulses (k, 3) on the chosen particles, in world axes, as far as they turn little."""
        own = _own_axes(impulses, buffers.E[self.lattice.members[chosen]])
        step = self.inverse(h).displacements(chosen, own)
        most = float(np.abs(step[:, 3:]).max())
        self.move(min(1.0, MOST_TURN / most) if most > 0 else 1.0, step, particles, buffers)


def _own_axes(vectors: Array, turns: Array) -> Array:
    """Return vectors (k, 3) in the frames of particles turned by (k, 9) or (k, 3, 3)."""
    return np.asarray(np.matmul(vectors[:, None], turns.reshape(-1, 3, 3))[:, 0])


def _secant(gradient: Array, history: deque[tuple[Array, Array, float]], solve: Solver) -> Array:
    """Return the gradient times the inverse Hessian at rest, corrected by past steps (L-BFGS)."""
    q, shares = gradient.copy(), []
    for taken, change, curvature in reversed(history):
        shares.append(inner(taken, q) / curvature)
        q -= shares[-1] * change
    q = solve(q)
    for (taken, change, curvature), share in zip(history, reversed(shares), strict=True):
        q += (share - inner(change, q) / curvature) * taken
    return q


def elastic_pieces(
    body: OrientedBody,
    rest: RestPose,
    active: NDArray[np.bool_],
    *,
    fixed: NDArray[np.bool_],
    clamped: NDArray[np.bool_],
    moments: Array,
) -> list[ElasticPiece]:
    """Return the elastic pieces of a body, for a rest pose and (groups,) active groups.

    Particles that are (n,) fixed do not move, those that are (n,) clamped do not turn; `moments` (n, 9) are
    their moment matrices at rest [kg m^2].
    """
    numbers = elastic_edges(body, active)
    if not len(numbers):
        return []
    n, ends = len(body), body.edges[numbers]
    k, K = (array[numbers] for array in edge_stiffness(body, body.young))
    links = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))
    label = connected_components(links, directed=False)[1]
    used = np.zeros(n, np.bool_)
    used[ends] = True
    M = moments.reshape(-1, 3, 3)
    inertia = np.trace(M, axis1=1, axis2=2)[:, None, None] * np.eye(3) - M
    pieces = []
    for piece in np.unique(label[used]):
        members = np.flatnonzero(used & (label == piece))
        beams = np.flatnonzero(label[ends[:, 0]] == piece)
        local = np.searchsorted(members, ends[beams])
        lattice = _lattice(members, local, rest.positions, k[beams], K[beams])
        pieces.append(
            ElasticPiece(
                lattice,
                rest.positions[members],
                K[beams],
                local,
                body.mass[members],
                inertia[members],
                fixed[members],
                clamped[members],
            )
        )
    return pieces


def _lattice(members: Integers, pairs: Integers, positions: Array, k: Array, K: Array) -> Lattice:
    """Return the beams with ends `pairs` (m, 2) within the members, as kernels read them."""
    owner = np.concatenate([pairs[:, 0], pairs[:, 1]])
    order = np.argsort(owner, kind="stable")
    m = len(pairs)
    x = positions[members]
    half = 0.5 * np.trace(K, axis1=1, axis2=2)[:, None, None] * np.eye(3)
    return Lattice(
        members=members,
        starts=np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(members)))]).astype(np.int64),
        numbers=np.tile(np.arange(m), 2)[order],
        signs=np.repeat([1.0, -1.0], m)[order],
        ends=members[pairs],
        rest=x[pairs[:, 1]] - x[pairs[:, 0]],
        stretch=np.ascontiguousarray(k),
        bend=np.ascontiguousarray((half - K).reshape(-1, 9)),
    )
