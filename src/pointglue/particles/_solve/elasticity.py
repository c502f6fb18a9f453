"""Elastic pieces: lattices of beams with a Young's modulus, stepped implicitly, and their contacts.

Each iteration of a substep takes one Newton step of all particles of a piece at once, by the Hessian at rest
turned with each particle. The Hessian is factored once for a length of the substep. The same factors tell
how far an impulse on one particle moves all others, so that a contact knows how heavy and how stiff the body
behind it is; the impulses of all contacts of elastic pieces are found together.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import SuperLU, splu

from ...checks import Array
from ...compute.launching import Launcher
from ...procrustes.matrices import nearest_rotations
from ...procrustes.space import cross_matrices
from ..advice import LARGEST_PIECE
from ..body import OrientedBody
from ..state import RestPose
from .kernels.constraints.dense import solve_dense
from .kernels.constraints.lattice import add_displacement, residual
from .kernels.constraints.matching import MIN_GAP
from .kernels.records import Lattice, ParticleArrays, ParticleBuffers
from .stiffness import edge_stiffness

__all__ = ["MOMENT", "ElasticPiece", "Holds", "elastic_edges", "elastic_pieces", "turned_responses"]

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
# Factors that a piece keeps, for substeps of different lengths.
KEPT_FACTORS = 3
# Ratio of an energy below which a rise of the objective is rounding.
ROUNDING = 1e-12


def elastic_edges(body: OrientedBody, active: NDArray[np.bool_]) -> Integers:
    """Return the numbers of the edges that are beams while these (groups,) rigid groups are active.

    Those of pieces too large to be relaxed as a whole are none.
    """
    i, j = body.edges.T
    beams = (body.young[i] > 0) & (body.young[j] > 0)
    if not beams.any():
        return np.flatnonzero(beams)
    pieces = body.components
    beams &= (np.bincount(pieces) <= LARGEST_PIECE)[pieces[i]]
    for group in (g for g, on in zip(body.groups, active, strict=True) if on):
        inside = np.zeros(len(body), np.bool_)
        inside[group] = True
        beams &= ~(inside[i] & inside[j])
    return np.flatnonzero(beams)


@dataclass(frozen=True)
class Holds:
    """What contacts do to a piece while it is relaxed: impulses that give way when they turn out too large.

    A contact with the normal impulse l and the stiffness b has the energy b/2 max(0, level + l/b - n x)^2, of
    which the force is l at the level and vanishes soon beyond it (an augmented Lagrangian). Friction is the
    same across the normal, from where the particle would be without slip, up to Coulomb's bound.
    """

    particles: Integers
    """(t,), held particles, as numbers within the piece."""
    slots: Integers
    """(k,), which of them each contact is of."""
    normals: Array
    """(k, 3)."""
    levels: Array
    """(k,), m."""
    pushes: Array
    """(k,), normal impulses, kg m."""
    anchors: Array
    """(k, 3), m."""
    drags: Array
    """(k, 3), tangential impulses, kg m."""
    bounds: Array
    """(k,), the largest tangential impulse, kg m."""
    gains: Array
    """(k, 2), stiffness along and across the normal, kg."""

    def impulses(self, x: Array) -> tuple[Array, Array, Array]:
        """Return the normal (k,) and tangential (k, 3) impulses for positions (t, 3), and which slip (k,)."""
        at = x[self.slots]
        along = self.pushes + self.gains[:, 0] * (self.levels - (self.normals * at).sum(1))
        slip = at - self.anchors
        slip -= (self.normals * slip).sum(1)[:, None] * self.normals
        across = self.drags - self.gains[:, 1:] * slip
        length = np.linalg.norm(across, axis=1)
        slips = length > self.bounds
        across[slips] *= (self.bounds[slips] / length[slips])[:, None]
        return np.maximum(0.0, along), across, slips

    def evaluate(self, x: Array) -> tuple[float, Array]:
        """Return the energy, and the impulses (t, 3) on the held particles."""
        along, across, slips = self.impulses(x)
        energy = 0.5 * (along**2 / self.gains[:, 0]).sum()
        b = self.gains[:, 1]
        slip = x[self.slots] - self.anchors
        slip -= (self.normals * slip).sum(1)[:, None] * self.normals
        wanted = np.linalg.norm(self.drags - b[:, None] * slip, axis=1)
        energy += np.where(slips, self.bounds * (wanted - 0.5 * self.bounds), 0.5 * wanted**2).dot(1 / b)
        total = np.zeros((len(self.particles), 3))
        np.add.at(total, self.slots, along[:, None] * self.normals + across)
        return float(energy), total

    def stiffness(self, x: Array) -> Array:
        """Return the Hessian blocks (t, 3, 3) of the energy; what slips resists no more."""
        along, _, slips = self.impulses(x)
        outer = self.normals[:, :, None] * self.normals[:, None, :]
        across = np.where(slips, 0.0, self.gains[:, 1])
        blocks = (along > 0)[:, None, None] * self.gains[:, :1, None] * outer
        blocks = blocks + across[:, None, None] * (np.eye(3) - outer)
        total = np.zeros((len(self.particles), 3, 3))
        np.add.at(total, self.slots, blocks)
        return total


@dataclass
class _Factors:
    """The factors of the Hessian for one length of the substep, and the responses found by them."""

    solver: SuperLU
    rows: Integers
    """(p,), where the response to impulses on each particle is in `responses`; -1 while unknown."""
    responses: Array
    """(rows, 3, p, 6): displacements for impulses of 1 along the axes of a particle, in their frames."""
    count: int = 0
    """How many rows are in use."""


class ElasticPiece:
    """Particles connected by beams.

    Parameters
    ----------
    lattice : Lattice
        The beams.
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
        bending: Array,
        pairs: Integers,
        mass: Array,
        inertia: Array,
        fixed: NDArray[np.bool_],
        clamped: NDArray[np.bool_],
    ) -> None:
        self.lattice = lattice
        self.mass, self.inertia, self.fixed, self.clamped = mass, inertia, fixed, clamped
        self._bending, self._pairs = bending, pairs
        self._factors: dict[float, _Factors] = {}
        p = len(lattice.members)
        self._gradient, self._energies = np.empty((p, 6)), np.empty(p)
        self._launcher = Launcher()
        length = float(np.median(np.linalg.norm(lattice.rest, axis=1)))
        self._short = np.tile(np.repeat([SHORT * length, SHORT], 3), p)

    def __len__(self) -> int:
        return len(self.lattice.members)

    def _factored(self, h: float) -> _Factors:
        """Return the factors for a substep of length h [s]."""
        if h not in self._factors:
            while len(self._factors) >= KEPT_FACTORS:
                self._factors.pop(next(iter(self._factors)))
            # In MMD's order and without pivoting, since the matrix is positive definite.
            solver = splu(
                self.hessian(h),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
            p = len(self)
            self._factors[h] = _Factors(solver, np.full(p, -1), np.empty((0, 3, p, 6)))
        return self._factors[h]

    def hessian(self, h: float) -> csc_array:
        """Return the Hessian (6 p, 6 p) of the objective at rest, in kilograms and their moments."""
        lattice, p, m = self.lattice, len(self), len(self._pairs)
        turn = 0.5 * cross_matrices(lattice.rest)
        one = np.tile(np.eye(3), (m, 1, 1))
        gap = np.concatenate([-one, turn, one, turn], axis=2)
        bend = np.concatenate([0 * one, -one, 0 * one, one], axis=2)
        blocks = np.einsum("m,mai,maj->mij", lattice.stretch, gap, gap)
        blocks += np.einsum("mai,mab,mbj->mij", bend, self._bending, bend)
        dofs = (6 * self._pairs[:, :, None] + np.arange(6)).reshape(m, 12)
        rows, columns = np.repeat(dofs, 12, axis=1).ravel(), np.tile(dofs, (1, 12)).ravel()
        own = np.zeros((p, 6, 6))
        own[:, [0, 1, 2], [0, 1, 2]] = self.mass[:, None]
        own[:, 3:, 3:] = self.inertia
        firm = FIXED * max(h * h * blocks.max(initial=0.0), own.max()) * np.eye(3)
        own[self.fixed, :3, :3] += firm
        own[self.clamped, 3:, 3:] += firm
        dofs = np.arange(6 * p).reshape(p, 6)
        rows = np.concatenate([rows, np.repeat(dofs, 6, axis=1).ravel()])
        columns = np.concatenate([columns, np.tile(dofs, (1, 6)).ravel()])
        data = np.concatenate([h * h * blocks.ravel(), own.ravel()])
        return csc_array(coo_array((data, (rows, columns)), shape=(6 * p, 6 * p)))

    def begin(
        self, h: float, particles: ParticleArrays, buffers: ParticleBuffers, free: tuple[Array, Array]
    ) -> None:
        """Begin a substep: move the piece as a rigid one instead of freely, if that strains it less.

        Particles that fly straight on stretch a piece that turns, to second order, and a stiff one so much
        that it would take many steps to find its shape again. The rigid motion is that which minimises the
        inertial part of the objective, from the shape at the start of the substep.
        """
        if self.fixed.any() or self.clamped.any():
            return
        members = self.lattice.members
        y, B = free[0][members], free[1][members]
        x, F = buffers.X[members], buffers.F[members].reshape(-1, 3, 3)
        shares = self.mass / self.mass.sum()
        old, new = shares @ x, shares @ y
        A = np.einsum("n,ni,nj->ij", self.mass, y - new, x - old)
        A += np.einsum("nik,njk->ij", B.reshape(-1, 3, 3), F)
        R = nearest_rotations(A.reshape(1, 9), np.eye(3).reshape(1, 9), MIN_GAP)[0].reshape(3, 3)
        flown = self._objective(h, particles, buffers, free, None)
        saved = buffers.P[members], buffers.E[members]
        turned = R @ F
        buffers.P[members, :3] = (x - old) @ R.T + new
        buffers.E[members] = turned.reshape(-1, 9)
        moments = np.matmul(turned, particles.moments[members].reshape(-1, 3, 3))
        buffers.P[members[:, None], MOMENT] = moments.reshape(-1, 9)
        if self._objective(h, particles, buffers, free, None) >= flown:
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

        The steps are those of L-BFGS from the Hessian at rest and that of contacts; what raises the objective
        is shortened.
        """
        members = self.lattice.members
        before = self._objective(h, particles, buffers, free, holds)
        gradient, history = self._gradient.ravel().copy(), deque[tuple[Array, Array, float]](maxlen=MEMORY)
        count = 0
        while count < MOST_STEPS:
            step = -_secant(gradient, history, self._inverse(h, buffers, holds))
            slope = float(gradient @ step)
            if not slope < 0.0:
                break
            count += 1
            saved = buffers.P[members], buffers.E[members]
            factor = 1.0
            for _ in range(SHORTENINGS):
                self._move(factor, step.reshape(-1, 6), particles, buffers)
                now = self._objective(h, particles, buffers, free, holds)
                if now <= before + DECREASE * factor * slope + ROUNDING * abs(before):
                    break
                buffers.P[members], buffers.E[members] = saved
                # Where the parabola through both ends has its minimum.
                factor *= min(0.5, max(0.1, 0.5 * factor * slope / (factor * slope + before - now)))
            else:
                break
            taken, change = factor * step, self._gradient.ravel() - gradient
            if (np.abs(taken) <= self._short).all():
                break
            curvature = float(taken @ change)
            if curvature > 0.0:
                history.append((taken, change, curvature))
            before, gradient = now, gradient + change
        return count

    def _objective(
        self,
        h: float,
        particles: ParticleArrays,
        buffers: ParticleBuffers,
        free: tuple[Array, Array],
        holds: Holds | None,
    ) -> float:
        """Compute the gradient, and return the objective."""
        of = (self.lattice, particles, buffers, free, (self._energies, self._gradient))
        self._launcher.run(residual, len(self), GRAIN, h, *of)
        energy = float(self._energies.sum())
        if holds is not None:
            at = self.lattice.members[holds.particles]
            held, forces = holds.evaluate(buffers.P[at, :3])
            energy += held
            self._gradient[holds.particles, :3] -= _own_axes(forces, buffers.E[at])
        return energy

    def _inverse(self, h: float, buffers: ParticleBuffers, holds: Holds | None) -> Callable[[Array], Array]:
        """Return the function that solves by the Hessian at rest, and that of what is held (Woodbury)."""
        solve: Callable[[Array], Array] = self._factored(h).solver.solve
        if holds is None:
            return solve
        k, at = len(holds.particles), self.lattice.members[holds.particles]
        turns, stiffness = buffers.E[at].reshape(-1, 3, 3), holds.stiffness(buffers.P[at, :3])
        responses = self.responses(h, holds.particles)
        W = turned_responses(responses[:, :, holds.particles, :3], turns)
        # I + W B, with the blocks B of the stiffness.
        system = np.matmul(W, stiffness[None]).transpose(0, 2, 1, 3).reshape(3 * k, 3 * k) + np.eye(3 * k)

        def solved(gradient: Array) -> Array:
            y = solve(gradient)
            gone = np.ascontiguousarray(np.matmul(turns, y.reshape(-1, 6)[holds.particles, :3, None])[..., 0])
            solve_dense(system.copy(), gone.reshape(-1))  # in place
            forces = _own_axes(np.matmul(stiffness, gone[..., None])[..., 0], turns)
            return np.asarray(y - np.einsum("ka,kapi->pi", forces, responses).ravel())

        return solved

    def _move(self, factor: float, step: Array, particles: ParticleArrays, buffers: ParticleBuffers) -> None:
        moved = (factor, step, self.lattice, particles, buffers)
        self._launcher.run(add_displacement, len(self), 16 * GRAIN, *moved)

    def responses(self, h: float, chosen: Integers) -> Array:
        """Return how all particles move for impulses on the chosen ones, (k, 3, p, 6), in own frames."""
        factors = self._factored(h)
        new = chosen[factors.rows[chosen] < 0]
        if len(new):
            p, count = len(self), factors.count
            if count + len(new) > len(factors.responses):
                room = np.empty((min(p, 2 * (count + len(new))), 3, p, 6))
                room[:count] = factors.responses[:count]
                factors.responses = room
            for a in new:
                ones = np.zeros((6 * p, 3))
                ones[6 * a : 6 * a + 3] = np.eye(3)
                factors.responses[factors.count] = factors.solver.solve(ones).T.reshape(3, p, 6)
                factors.rows[a] = factors.count
                factors.count += 1
        return factors.responses[factors.rows[chosen]]

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
        step = np.einsum("ka,kapi->pi", own, self.responses(h, chosen))
        most = float(np.abs(step[:, 3:]).max())
        self._move(min(1.0, MOST_TURN / most) if most > 0 else 1.0, step, particles, buffers)


def _own_axes(vectors: Array, turns: Array) -> Array:
    """Return vectors (k, 3) in the frames of particles turned by (k, 9) or (k, 3, 3)."""
    return np.asarray(np.matmul(vectors[:, None], turns.reshape(-1, 3, 3))[:, 0])


def turned_responses(own: Array, turns: Array) -> Array:
    """Return responses (particle, impulse, 3, 3) in world axes, from (impulse, axis, particle, axis)."""
    # To the particle's world axes, then from those of the impulse.
    half = np.matmul(turns[None], own.transpose(0, 2, 3, 1))
    return np.asarray(np.matmul(half, turns.transpose(0, 2, 1)[:, None]).transpose(1, 0, 2, 3))


def _secant(
    gradient: Array, history: deque[tuple[Array, Array, float]], solve: Callable[[Array], Array]
) -> Array:
    """Return the gradient times the inverse Hessian at rest, corrected by past steps (L-BFGS)."""
    q, shares = gradient.copy(), []
    for taken, change, curvature in reversed(history):
        shares.append(float(taken @ q) / curvature)
        q -= shares[-1] * change
    q = solve(q)
    for (taken, change, curvature), share in zip(history, reversed(shares), strict=True):
        q += (share - float(change @ q) / curvature) * taken
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
    other = np.concatenate([pairs[:, 1], pairs[:, 0]])
    order = np.argsort(owner, kind="stable")
    m = len(pairs)
    x = positions[members]
    half = 0.5 * np.trace(K, axis1=1, axis2=2)[:, None, None] * np.eye(3)
    return Lattice(
        members=members,
        starts=np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(members)))]).astype(np.int64),
        others=members[other[order]],
        numbers=np.tile(np.arange(m), 2)[order],
        signs=np.repeat([1.0, -1.0], m)[order],
        rest=x[pairs[:, 1]] - x[pairs[:, 0]],
        stretch=np.ascontiguousarray(k),
        bend=np.ascontiguousarray((half - K).reshape(-1, 9)),
    )
