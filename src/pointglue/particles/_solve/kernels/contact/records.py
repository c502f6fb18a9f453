"""The records that kernels of contact take: named arrays instead of long lists of arguments.

There are n particles, in connected pieces, some of them in rigid groups. Matrices are flat, row by row.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .....checks import Array

__all__ = [
    "ColliderPoses",
    "ContactArrays",
    "Friction",
    "HashGrid",
    "HullArrays",
    "HullPlaces",
    "HullSides",
    "ImpulseBodies",
    "ImpulseContacts",
    "MeshArrays",
    "MeshNeighbours",
    "Neighbours",
    "PairArrays",
    "PairFilter",
    "Pose",
    "Restitution",
    "Sheets",
    "Solid",
    "Survey",
    "ThinContactArrays",
]

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class ImpulseBodies(NamedTuple):
    """Points in contact, by the bodies through which impulses on them move each other.

    Elastic bodies tell how each of their points moves for impulses on each other. Rigid ones move as a whole.
    """

    body_of: Integers
    """(t,), the body of each point; those of one body follow each other."""
    starts: Integers
    """(bodies + 1,): where the points of each body begin."""
    block_starts: Integers
    """(bodies + 1,): where the responses of each body begin; a rigid one has none."""
    responses: Array
    """(blocks, 9): how far point a of a body goes for an impulse on its point b, row by row, 1/kg."""
    moved: Array
    """(t, 3), how far the impulses have moved each point of an elastic body, m."""
    arms: Array
    """(t, 3), each point from the centre of mass of its rigid body, m."""
    inverses: Array
    """(bodies, 10), inverse mass and inverse inertia (3, 3) of rigid bodies, 1/kg and 1/(kg m^2)."""
    motions: Array
    """(bodies, 6), how far the impulses have moved and turned each rigid body, m and rad."""


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


class Supports(NamedTuple):
    """Contacts of hulls, for those who find impulses together with their own: the second side is pushed."""

    groups: Integers
    """(k, 2), the rigid group of each side, -1 for none."""
    particles: Integers
    """(k, 2), the single particle of each side, -1 for none; a side that is neither does not move."""
    points: Array
    """(k, 3), where they act, m."""
    normals: Array
    """(k, 3), from the first side to the second."""
    needs: Array
    """(k,), how far the second has to go along the normal, m."""
    slips: Array
    """(k, 3), how far it has gone against the first within the substep, m."""
    friction: Array
    """(k,), Coulomb's coefficient."""
    impulses: Array
    """(k, 3), on the second side, all of this substep, kg m."""


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
