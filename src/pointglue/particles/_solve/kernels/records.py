"""The records that kernels take: named arrays instead of long lists of arguments.

There are n particles, in connected pieces, some of them in rigid groups. Matrices are flat, row by row.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array

__all__ = [
    "BeamMatrix",
    "BlockMatrix",
    "ChainArrays",
    "EdgeArrays",
    "Ellipsoids",
    "Immersed",
    "Lattice",
    "Medium",
    "ParticleArrays",
    "ParticleBuffers",
    "PieceArrays",
    "PlasticEdges",
    "RigidGroups",
    "RotorArrays",
    "ShapeGroups",
]

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class ParticleArrays(NamedTuple):
    """What particles are: nothing in here changes within a step."""

    mass: Array
    """(n,), kg."""
    inverse_mass: Array
    """(n,), 1/kg; 0 where `fixed`."""
    fixed: Booleans
    """(n,): pinned, a pivot or kinematic, so that no constraint moves it."""
    clamped: Booleans
    """(n,): pinned or kinematic, so that no constraint turns it."""
    bounds: Array
    """(n,), radius of a ball that holds the ellipsoid, m."""
    moments: Array
    """(n, 9), M = (m/5) Rrest diag(r^2) Rrest^T, the moment matrix at rest, kg m^2."""
    shapes: Array
    """(n, 9), C: the ellipsoid at rest is x^T C^-1 x <= 1, m^2."""
    piece_of: Integers
    """(n,), the number of the connected piece."""
    alone: Booleans
    """(n,): the only particle of its piece."""
    rest: Array
    """(n, 3), positions at rest, m."""


class ParticleBuffers(NamedTuple):
    """Where particles are and how they move: the buffers of a solver, which kernels change in place."""

    X: Array
    """(n, 3), positions at the start of the substep, m."""
    F: Array
    """(n, 9), rotations from rest at the start of the substep."""
    P: Array
    """(n, 16), positions at its end and moments B = E M, in rows of four numbers: see `matching`."""
    E: Array
    """(n, 9), rotations from rest at its end."""
    V: Array
    """(n, 3), velocities, m/s."""
    W: Array
    """(n, 3), angular velocities in world axes, rad/s."""
    V0: Array
    """(n, 3), velocities before constraints and contacts acted, m/s."""
    velocity_gain: Array
    """(n, 3), what gravity and forces add to the velocity in a substep, m/s."""
    impact_speeds: Array
    """(n,), the fastest approach in any contact of the step, m/s."""
    touched: Booleans
    """(n,): was in contact with another piece or with a collider in this substep."""

    @classmethod
    def empty(cls, count: int) -> "ParticleBuffers":
        """Return room for so many particles."""
        # Rows of P begin with a cache line, so that reading them at random is cheaper.
        room = np.zeros(16 * count + 8)
        skip = -room.ctypes.data // 8 % 8
        return cls(
            X=np.empty((count, 3)),
            F=np.empty((count, 9)),
            P=room[skip : skip + 16 * count].reshape(count, 16),
            E=np.empty((count, 9)),
            V=np.empty((count, 3)),
            W=np.empty((count, 3)),
            V0=np.empty((count, 3)),
            velocity_gain=np.empty((count, 3)),
            impact_speeds=np.zeros(count),
            touched=np.empty(count, np.bool_),
        )


class RigidGroups(NamedTuple):
    """The rigid groups that move freely, with the corrections that contacts have made to them.

    Corrections gather here until `rigid.apply_corrections` moves the particles. Particles of no such group
    have their own mass instead.
    """

    starts: Integers
    """(groups + 1,): group g has the particles ``members[starts[g]:starts[g + 1]]``."""
    members: Integers
    """(entries,), numbers of particles."""
    group_of: Integers
    """(n,), the group of each particle; -1 for none."""
    rows: Array
    """(groups, ROW), mass properties and gathered corrections of each group: see the columns in `rigid`."""


class RotorArrays(NamedTuple):
    """Rigid groups, each with the soft particles that hang on it alone: what turns as one, see `rotors`."""

    starts: Integers
    """(rotors + 1,): rotor k has the particles ``members[starts[k]:starts[k + 1]]``."""
    members: Integers
    """(entries,), numbers of particles; none of them is fixed."""
    pivot_starts: Integers
    """(rotors + 1,): where those of each rotor begin in `pivots`."""
    pivots: Integers
    """(entries,), the fixed particles of the groups."""
    leads: Integers
    """(rotors,), a particle of the group, which tells how it turns."""
    rotor_of: Integers
    """(n,), the rotor of each particle; -1 for none."""
    rigid: Booleans
    """(n,): belongs to the rotor's group, and turns with it."""
    rows: Array
    """(rotors, ROTOR), how each of them turns: see the columns in `rotors`."""


class ShapeGroups(NamedTuple):
    """The groups of shape matching, in the order in which they are worked on: see `Schedule`."""

    blocks: Integers
    """(blocks + 1,): where each block begins in `batches`."""
    batches: Integers
    """(batches + 1,): where each batch of independent groups begins."""
    starts: Integers
    """(groups + 1,): where each group begins in `members`."""
    members: NDArray[np.int32]
    """(entries,), numbers of particles."""
    offsets: Array
    """(entries, 4), position at rest from the group's centre of mass [m], and share in its mass."""
    turning: Integers
    """(groups,): how many members, the first ones, take the rotation of the group."""
    scales: Array
    """(groups, 2), mass / s and 1 / s, s the trace of the moment matrix at rest."""
    compliances: Array
    """(6 groups,), xx, xy, xz, yy, yz, zz of (tr(A) I - A)^-1 each, A the moment matrix at rest over s."""
    stiffness: Array
    """(groups, 4), the fraction of its deviation that a group corrects, three times, and 0."""


class EdgeArrays(NamedTuple):
    """The edges of bodies, sorted by colour."""

    pairs: Integers
    """(m, 2), numbers of particles."""
    lengths: Array
    """(m,), at rest, m."""
    stretch: Array
    """(m,), the fraction of a deviation in length that is corrected in an iteration."""
    torsion: Array
    """(m,), the fraction of a twist that is corrected in a substep."""


class Lattice(NamedTuple):
    """The beams of one elastic piece of p particles: see `lattice`."""

    members: Integers
    """(p,), numbers of particles."""
    starts: Integers
    """(p + 1,): where the beams of each particle begin in the two lists."""
    numbers: Integers
    """(2 m,), which beam it is."""
    signs: Array
    """(2 m,), 1 if the beam begins here and -1 if it ends here."""
    ends: Integers
    """(m, 2), the particles at both ends."""
    rest: Array
    """(m, 3), its vector at rest, m."""
    stretch: Array
    """(m,), k, N/m."""
    bend: Array
    """(m, 9), D = tr(K)/2 - K, N m."""


class BeamMatrix(NamedTuple):
    """A sparse symmetric matrix of 6 by 6 blocks, with those of beams between particles.

    The block from the beginning i of a beam to its end j, with T = [t]x, is
    A_ij = [[-k I, -T], [-T, S]], and A_ji its transpose.
    """

    own: Array
    """(p, 6, 6), the blocks on the diagonal."""
    starts: Integers
    """(p + 1,): where the beams of each particle begin in the three lists."""
    others: Integers
    """(2 m,), the particle at the other end, as a number within the piece."""
    numbers: Integers
    """(2 m,), which beam it is."""
    signs: Array
    """(2 m,), 1 if the beam begins here and -1 if it ends here."""
    stretch: Array
    """(m,), k."""
    turn: Array
    """(m, 3), t."""
    bend: Array
    """(m, 6), xx, xy, xz, yy, yz, zz of S."""


class BlockMatrix(NamedTuple):
    """A sparse matrix of 6 by 6 blocks."""

    starts: Integers
    """(rows + 1,): where the blocks of each row begin."""
    columns: Integers
    """(blocks,), the column of each."""
    blocks: NDArray[np.float32]
    """(blocks, 6, 6), each transposed."""


class ChainArrays(NamedTuple):
    """Chains of edges, whose lengths are corrected together."""

    starts: Integers
    """(chains + 1,): where each begins in `nodes`."""
    nodes: Integers
    """(entries,), numbers of particles, from one end to the other."""
    lengths: Array
    """(entries,), of the edge from each to the next at rest, m; of the last nothing."""
    stretch: Array
    """(entries,), the fraction of a deviation in length that is corrected in an iteration."""


class PlasticEdges(NamedTuple):
    """Edges that flow: their ends and their vectors."""

    pairs: Integers
    """(m, 2), numbers of particles."""
    rest: Array
    """(m, 3), vectors at rest, m."""
    now: Array
    """(m, 3), vectors now, m."""


class PieceArrays(NamedTuple):
    """The connected pieces, cut into chunks whose sums do not depend on who adds them up."""

    order: Integers
    """(n,), numbers of particles, sorted by piece."""
    chunks: Integers
    """(chunks + 1,): where each chunk begins in `order`."""
    origins: Integers
    """(chunks,), the first particle of the chunk's piece: sums are about where it was."""
    piece_chunks: Integers
    """(pieces + 1,): the first chunk of each piece."""
    fixed: Booleans
    """(pieces,): has a pinned or kinematic particle."""


class Ellipsoids(NamedTuple):
    """The particles as a collider sees them."""

    P: Array
    """(n, 3 or more), positions in the first three columns, m; contact changes them."""
    E: Array
    """(n, 9), rotations from rest."""
    shapes: Array
    """(n, 9), C at rest, m^2."""
    fixed: Booleans
    """(n,): not to be moved."""


class Medium(NamedTuple):
    """Air or water that flows."""

    level: float
    """Height of the surface along `up`, m; inf for air."""
    up: Array
    """(3,), unit vector."""
    gravity: float
    """m/s^2."""
    density: float
    """kg/m^3."""
    drag: float
    """The drag coefficient."""
    flow: Array
    """(3,), velocity, m/s."""


class Immersed(NamedTuple):
    """Ellipsoids in a medium."""

    radii: Array
    """(n, 3), m."""
    mass: Array
    """(n,), kg."""
    positions: Array
    """(n, 3), m."""
    velocities: Array
    """(n, 3), m/s."""
    rotations: Array
    """(n, 9), from rest."""
    axes: Array
    """(n, 9), axes at rest."""
