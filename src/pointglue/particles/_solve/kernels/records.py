"""The records that kernels take: named arrays instead of long lists of arguments.

There are n particles, in connected pieces, some of them in rigid groups. Matrices are flat, row by row.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array

__all__ = [
    "ChainArrays",
    "ColliderPoses",
    "ContactArrays",
    "EdgeArrays",
    "Ellipsoids",
    "Friction",
    "HashGrid",
    "HullArrays",
    "HullPlaces",
    "HullSides",
    "Immersed",
    "ImpulseBodies",
    "ImpulseContacts",
    "Lattice",
    "Medium",
    "MeshArrays",
    "MeshNeighbours",
    "Neighbours",
    "PairArrays",
    "PairFilter",
    "ParticleArrays",
    "ParticleBuffers",
    "PieceArrays",
    "PlasticEdges",
    "Pose",
    "Restitution",
    "RigidGroups",
    "RotorArrays",
    "ShapeGroups",
    "Sheets",
    "Solid",
    "Survey",
    "ThinContactArrays",
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
    """(p + 1,): where the beams of each particle begin in the three lists."""
    others: Integers
    """(2 m,), the particle at the other end."""
    numbers: Integers
    """(2 m,), which beam it is."""
    signs: Array
    """(2 m,), 1 if the beam begins here and -1 if it ends here."""
    rest: Array
    """(m, 3), its vector at rest, m."""
    stretch: Array
    """(m,), k, N/m."""
    bend: Array
    """(m, 9), D = tr(K)/2 - K, N m."""


class ImpulseBodies(NamedTuple):
    """Particles in contact, by the bodies through which impulses on them move each other."""

    particles: Integers
    """(t,), their numbers, body by body."""
    body_of: Integers
    """(t,)."""
    starts: Integers
    """(bodies + 1,): where the particles of each body begin."""
    block_starts: Integers
    """(bodies + 1,): where the responses of each body begin."""
    responses: Array
    """(blocks, 9): how far particle a of a body goes for an impulse on its particle b, row by row, 1/kg."""
    moved: Array
    """(t, 3), how far the impulses have moved each particle, m."""


class ImpulseContacts(NamedTuple):
    """Contacts whose impulses are found together: the first particle is pushed along the normal."""

    first: Integers
    """(k,), which of the particles in contact."""
    second: Integers
    """(k,), the other one, -1 for a collider."""
    normals: Array
    """(k, 3), from the second to the first."""
    needs: Array
    """(k,), how far the first has to go along the normal, negative where it need not, m."""
    slips: Array
    """(k, 3), how far it has gone against the second within the substep, m."""
    friction: Array
    """(k,), Coulomb's coefficient."""
    impulses: Array
    """(k, 3), on the first particle, all of this substep, kg m."""
    gives: Array
    """(k, 2), how far the contact gives way to an impulse of 1, along the normal and across it, 1/kg."""


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


class Pose(NamedTuple):
    """A rigid pose p = R q + t."""

    rotation: Array
    """(9,), R."""
    translation: Array
    """(3,), t, m."""


class ColliderPoses(NamedTuple):
    """How a collider stands at both ends of a substep: which of its points is taken does not matter."""

    before: Pose
    now: Pose


class HullArrays(NamedTuple):
    """Convex hulls in their own coordinates: those of rigid groups that have one, and of box colliders."""

    corner_starts: Integers
    """(hulls + 1,): where those of each hull begin in `corners`."""
    corners: Array
    """(corners, 3), m."""
    face_starts: Integers
    """(hulls + 1,): where those of each hull begin in `normals`."""
    normals: Array
    """(faces, 3), unit vectors outwards."""
    loop_starts: Integers
    """(faces + 1,): where the corners of each face begin in `loops`."""
    loops: Integers
    """(entries,), numbers of corners, counterclockwise as seen from outside."""
    edge_starts: Integers
    """(hulls + 1,): where those of each hull begin in `edges`."""
    edges: Integers
    """(edges, 4), numbers of two corners and of the two faces beside them."""
    middles: Array
    """(hulls, 3), a point inside, m."""
    bounds: Array
    """(hulls,), radius of a ball about the middle that holds it, m."""
    sizes: Array
    """(hulls,), distance of the nearest face from the middle, m."""
    leads: Integers
    """(hulls,), the particle that it moves with, its origin; -1 for a collider."""


class HullPlaces(NamedTuple):
    """Convex hulls where they are now, in world coordinates."""

    corners: Array
    """(corners, 3), m."""
    normals: Array
    """(faces, 3)."""
    offsets: Array
    """(faces,), n x of the points of a face, m."""
    middles: Array
    """(hulls, 3), m."""


class HullSides(NamedTuple):
    """The two sides of contacts: first all hulls, by their numbers, and then all particles."""

    leads: Integers
    """(hulls,), the particle that each hull moves with; -1 for a collider."""
    poses: tuple[Array, Array]
    """(hulls, 12) each, R and t of all hulls at the start of the substep, and of colliders at its end."""
    turning: Booleans
    """(n,): a particle that is alone or in a rigid group, so that its surface turns with it."""


class ContactArrays(NamedTuple):
    """The contacts of particles with one collider in one substep."""

    depths: Array
    """(n,), how far contact has corrected each particle, the sum of all corrections, m."""
    normals: Array
    """(n, 3), unit vector out of the collider at the last correction."""
    corrections: Array
    """(n, 3), the sum of corrections in this call, m."""


class PairArrays(NamedTuple):
    """Pairs of particles that may touch in one substep, sorted by colour."""

    pairs: Integers
    """(k, 2), numbers of particles."""
    depths: Array
    """(k,), how far contact has moved the two apart for their own masses, m."""
    normals: Array
    """(k, 3), unit vector from the first to the second."""


class ThinContactArrays(NamedTuple):
    """Contacts of thin parts that may come about in one substep, sorted by colour: see `thin`."""

    particles: Integers
    """(k, 4), numbers: a particle and a triangle, or two edges."""
    faces: Booleans
    """(k,): a triangle, not an edge."""
    bulky: Booleans
    """(k,): the first side is a particle that is no thin part, and its ellipsoid counts."""
    reach: Array
    """(k,), the distance at which thin parts meet, without such an ellipsoid, m."""
    starts: Array
    """(k,), the distance at the start of the substep, m."""
    weights: Array
    """(k, 4), c at the last correction."""
    depths: Array
    """(k,), how far contact has moved the two sides apart, m."""
    normals: Array
    """(k, 3), unit vector from the second side to the first."""


class Sheets(NamedTuple):
    """The connected pieces that have thin parts, called sheets here, in patches."""

    sheet_of: Integers
    """(n,), the sheet of each corner of a thin part; -1 for all others."""
    patch_of: Integers
    """(n,), the patch of each corner of a thin part; -1 for all others."""
    sheets: Integers
    """(patches,), the sheet of each patch."""
    pieces: Integers
    """(sheets,), the number of its piece."""
    detours: Array
    """(sheets,), the largest ratio of the way between two points along the sheet to the straight one."""
    corners: Integers
    """(entries,), the corners of the parts of patches."""
    patches: Integers
    """(entries,), the patches that they belong to."""


class Survey(NamedTuple):
    """Where thin parts may meet something in a substep."""

    calm: Booleans
    """(sheets,): cannot meet itself."""
    boxes: Array
    """(patches + 1, 6), boxes about the paths of their corners: least and greatest coordinates, m."""
    active: Booleans
    """(patches,): may meet something."""
    wanted: Booleans
    """(n,): may meet a patch."""


class PairFilter(NamedTuple):
    """Which pairs of particles are never in contact."""

    family: Integers
    """(n,): particles of one family do not collide; -1 for none."""
    fixed: Booleans
    """(n,): two of these do not collide."""
    apart: Integers
    """(entries,), numbers of the particles that a particle does not collide with."""
    apart_starts: Integers
    """(n + 1,): where those of each particle begin in `apart`."""


class HashGrid(NamedTuple):
    """A spatial hash: balls sorted by the slots of the grid cells that their centres are in.

    There are grids of several levels, each for balls up to the width of its cells.
    """

    balls: Array
    """(n, 4), centre and radius of the ball that a particle sweeps, m."""
    cells: Integers
    """(n, 4), the cell of each particle, and the level of its grid."""
    table: Integers
    """(slots + 2,): those of slot k are from table[k] to table[k + 1]."""
    ids: Integers
    """(n,), numbers of particles in the order of the table."""
    sorted_balls: Array
    """(n, 4), `balls` in the order of the table."""


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


class Solid(NamedTuple):
    """A primitive solid in its own coordinates: see `colliders`."""

    kind: int
    """PLANE, CAPSULE or BOX."""
    size: Array
    """(3,), m: radius and half length of a capsule, half extents of a box."""


class Neighbours(NamedTuple):
    """The particles near a collider in this substep."""

    origins: Array
    """(n, 3), where their paths begin, in coordinates of the collider, m."""
    near: Booleans
    """(n,): may touch the collider."""


class MeshNeighbours(NamedTuple):
    """The particles near a mesh, and what is remembered of their distances."""

    origins: Array
    """(n, 3), where their paths begin, in coordinates of the mesh, m."""
    near: Booleans
    """(n,): may touch the mesh."""
    inside: Booleans
    """(n,): its path begins inside of a closed mesh."""
    asked: Array
    """(n, 3), where the distance was last measured, m."""
    gaps: Array
    """(n,), the distance from the mesh there, negative inside, m."""


class MeshArrays(NamedTuple):
    """Triangles in the order of the leaves of a `TriangleTree`."""

    corners: Array
    """(m, 9), corners a, b, c, m."""
    normals: Array
    """(m, 3), unit normals."""
    features: Array
    """(m, 18), pseudo-normals of the edges ab, bc, ca and the corners a, b, c; zero for open meshes."""
    low: Array
    """(nodes, 3), least corners of the boxes of the tree, m."""
    high: Array
    """(nodes, 3), greatest corners, m."""
    closed: bool
    """Whether it is the surface of a solid."""


class Friction(NamedTuple):
    """Coefficients of friction."""

    sliding: float
    """Coulomb's coefficient."""
    rolling: float
    """The fraction of the slip that is left that turns a particle with neighbours, in a substep."""


class Restitution(NamedTuple):
    """How contact gives speed back."""

    coefficient: float
    """The share of the approach speed that is returned."""
    threshold: float
    """Slower approaches return nothing, m/s."""
    substep: float
    """s."""


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
