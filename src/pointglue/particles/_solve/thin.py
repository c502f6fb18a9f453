"""What is thin in a body: edges and triangles of its connectivity between which ellipsoids leave gaps.

Ropes and cloth are made of few particles that touch, or do not even touch, so that other things would pass
between them. Where the ellipsoids cover an edge or a triangle, they are enough.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from ...checks import Array
from ...compute import run
from ...geometry.quaternions import matrices_of
from ..body import OrientedBody
from .colouring import gather
from .kernels.contact import thin as kernels
from .kernels.contact.thin import NEIGHBOURS
from .topology import Topology

__all__ = ["ThinParts", "thin_parts"]

# Squared ratio of the extents of a particle and its neighbours below which they lie in a plane or on a line.
FLAT = 0.04
# Particles from which distances along a piece are measured.
VIEWPOINTS = 64
# A point is covered where an ellipsoid is at least this much of its thickness thick, squared.
COVERED = 0.5


@dataclass(frozen=True)
class ThinParts:
    """Edges and triangles that collide."""

    edges: NDArray[np.int64]
    """(e, 2)."""
    edge_radii: Array
    """(e,), m: how thick their ends are across them."""
    ropes: NDArray[np.bool_]
    """(e,): part of no triangle."""
    inner: NDArray[np.bool_]
    """(e,): within a cloth, between two triangles or more."""
    triangles: NDArray[np.int64]
    """(t, 3)."""
    triangle_radii: Array
    """(t,), half the thickness, m."""
    detours: Array
    """(pieces,), the largest ratio of the way between two particles along edges to the straight one."""


def thin_parts(topology: Topology) -> ThinParts:
    """Return the edges and triangles of a body, in its bind pose, that have to collide themselves."""
    body = topology.body
    thin = _is_thin(topology)
    # Rigid groups collide as a whole.
    group = topology.group_of
    edges = np.sort(body.edges, axis=1)
    a, b = edges.T
    edges = edges[thin[a] & thin[b] & ((group[a] < 0) | (group[a] != group[b]))]
    edges = edges[np.lexsort((edges[:, 1], edges[:, 0]))]
    edges = _without_crossings(edges, body.positions)
    triangles = _cliques(edges, edges)
    axes = matrices_of(body.orientations)
    shapes = np.einsum("nik,nk,njk->nij", axes, body.radii**2, axes)
    covered = _Coverage(topology, shapes)
    keys = edges @ [len(body), 1]
    pairs = np.stack([triangles[:, pair] @ [len(body), 1] for pair in ([0, 1], [0, 2], [1, 2])], axis=1)
    sides = np.searchsorted(keys, pairs)
    uses = np.bincount(sides.ravel(), minlength=len(edges))
    open_edges = ~covered(edges, np.full(2, 1 / 2))
    open_triangles = ~covered(triangles, np.full(3, 1 / 3)) | open_edges[sides].any(1)
    kept = triangles[open_triangles]
    return ThinParts(
        edges=edges[open_edges],
        edge_radii=_edge_radii(body, edges[open_edges], shapes),
        ropes=(uses == 0)[open_edges],
        inner=(uses > 1)[open_edges],
        triangles=kept,
        triangle_radii=_triangle_radii(body, kept, shapes),
        detours=_detours(topology, np.union1d(edges[open_edges], kept)),
    )


def _is_thin(topology: Topology) -> NDArray[np.bool_]:
    """Return the mask (n,) of particles that lie in a plane or on a line with their neighbours."""
    n, starts, members = len(topology.body), topology.starts, topology.members
    owner = np.repeat(np.arange(n), np.diff(starts))
    arm = topology.body.positions[members] - topology.body.positions[owner]
    count = np.diff(starts)
    mean = np.stack([np.bincount(owner, c, n) / count for c in arm.T], axis=1)
    arm -= mean[owner]
    spread = (arm[:, :, None] * arm[:, None, :]).reshape(-1, 9)
    A = np.stack([np.bincount(owner, c, n) for c in spread.T], axis=1).reshape(n, 3, 3)
    least, middle, most = np.linalg.eigvalsh(A).T
    return np.asarray(((least <= FLAT * middle) | (middle <= FLAT * most)) & (most > 0))


def _cliques(sets: NDArray[np.int64], edges: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the cliques (t, k + 1) that extend cliques (s, k) by a later particle, all joined by edges.

    Rows ascend; edges are sorted.
    """
    size = int(edges.max()) + 1 if len(edges) else 1
    keys = edges @ [size, 1]
    starts = np.searchsorted(edges[:, 0], np.arange(size + 1))
    last = sets[:, -1]
    ends, found = gather(starts, edges[:, 1], last)
    owner = np.repeat(np.arange(len(sets)), np.diff(ends))
    joined = np.ones(len(found), np.bool_)
    for column in sets[owner][:, :-1].T:
        wanted = column * size + found
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        joined &= keys[at] == wanted
    return np.concatenate([sets[owner[joined]], found[joined, None]], axis=1)


def _without_crossings(edges: NDArray[np.int64], X: Array) -> NDArray[np.int64]:
    """Return the edges without the longer one of two that cross, such as the two diagonals of a cell."""
    quads = _cliques(_cliques(edges, edges), edges)
    if not len(quads):
        return edges
    crossed = np.empty((3 * len(quads), 2, 2), np.int64)
    for k, order in enumerate(([0, 1, 2, 3], [0, 2, 1, 3], [0, 3, 1, 2])):
        crossed[k::3] = quads[:, order].reshape(-1, 2, 2)
    cross = np.zeros(len(crossed), np.bool_)
    run(kernels.find_crossings, len(crossed), 1024, crossed, X, cross)
    crossed = crossed[cross]
    lengths = np.linalg.norm(X[crossed[:, :, 1]] - X[crossed[:, :, 0]], axis=2)
    # Of equals the later one goes, and lengths within rounding are equal.
    first = lengths[:, 0] > lengths[:, 1] * (1 + 1e-9)
    longer = np.where(first[:, None], crossed[:, 0], crossed[:, 1])
    size = len(X)
    return edges[~np.isin(edges @ [size, 1], np.sort(longer, axis=1) @ [size, 1])]


class _Coverage:
    """Whether ellipsoids cover points between particles: their own, or those of neighbours."""

    def __init__(self, topology: Topology, shapes: Array) -> None:
        self.topology = topology
        self.inverse = np.linalg.inv(shapes)

    def __call__(self, sets: NDArray[np.int64], weights: Array) -> NDArray[np.bool_]:
        """Return the mask (s,) of sets (s, k) of particles whose weighted mean is covered."""
        topology = self.topology
        X = topology.body.positions
        points = np.einsum("skj,k->sj", X[sets], weights)
        ends, near = gather(topology.starts, topology.members, sets.ravel())
        owner = np.repeat(np.arange(len(sets)), np.diff(ends[:: sets.shape[1]]))
        d = points[owner] - X[near]
        inside = np.einsum("ki,kij,kj->k", d, self.inverse[near], d) <= COVERED
        return np.bincount(owner, inside, len(sets)) > 0


def _detours(topology: Topology, vertices: NDArray[np.int64]) -> Array:
    """Return the largest detour in each piece, as seen from some of its `vertices`; 1 without any."""
    body, X = topology.body, topology.body.positions
    detours = np.ones(len(topology.pieces) - 1)
    i, j = body.edges.T
    graph = coo_array((np.linalg.norm(X[j] - X[i], axis=1), (i, j)), shape=(len(body), len(body))).tocsr()
    for piece in np.unique(topology.piece_of[vertices]):
        listed = vertices[topology.piece_of[vertices] == piece]
        seen = listed[:: max(1, len(listed) // VIEWPOINTS)]
        along = dijkstra(graph, directed=False, indices=seen)[:, listed]
        straight = np.linalg.norm(X[seen][:, None] - X[listed][None], axis=2)
        far = straight > NEIGHBOURS * 2 * body.radii[listed].min(1)
        ratio = along[far] / straight[far]
        detours[piece] = ratio.max(initial=1.0)
    return detours


def _edge_radii(body: OrientedBody, edges: NDArray[np.int64], shapes: Array) -> Array:
    """Return how thick edges are: the least extent of their ends across them."""
    along = body.positions[edges[:, 1]] - body.positions[edges[:, 0]]
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    across = np.eye(3) - along[:, :, None] * along[:, None, :]
    squares = [np.linalg.eigvalsh(across @ shapes[end] @ across)[:, 1] for end in edges.T]
    return np.sqrt(np.minimum(*squares))


def _triangle_radii(body: OrientedBody, triangles: NDArray[np.int64], shapes: Array) -> Array:
    """Return half the thickness of triangles: the least extent of their corners along the normal."""
    a, b, c = body.positions[triangles.T]
    normal = np.cross(b - a, c - a)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    squares = np.einsum("ti,tkij,tj->tk", normal, shapes[triangles], normal)
    return np.asarray(np.sqrt(squares.min(1, initial=np.inf)))
