"""The search for pairs that may meet: trees of boxes around the triangles of each part, walked leaf by leaf.

Vertices move along straight ways. Each part has boxes in a frame that moves with the mean of its ways, so
that what falls as a whole is searched as if it stood still; the boxes of two parts are compared over their
relative motion. Every vertex and every edge belongs to one triangle around it, its owner: where the boxes of
two triangles overlap, what they own is compared, so that each pair is found once, in an order that only
depends on the trees.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array
from ....compute import kernel
from .ccd import relative_ways, squared_distance
from .crossings import NO, crossing
from .distances import load, minus

__all__ = [
    "FacingFaces",
    "Forest",
    "Found",
    "Motion",
    "Permissions",
    "Search",
    "compacted",
    "find_crossings",
    "find_pairs",
    "may_meet",
    "overlapping_faces",
    "refit",
    "vertex_boxes",
]

STACK = 64  # nodes that can wait in a walk: two for each level, enough for 2^32 leaves


class Forest(NamedTuple):
    """The trees of P parts, one after the other: L leaves, and 2 l - 1 nodes for l leaves of a part.

    Node k of a part has children 2 k + 1 and 2 k + 2, and the last l nodes are its leaves.
    """

    faces: NDArray[np.int64]
    """(F, 3): the corners of the triangles."""
    edges: NDArray[np.int64]
    """(E, 2): the ends of the edges."""
    order: NDArray[np.int64]
    """(F,): the triangles, leaf by leaf."""
    leaves: NDArray[np.int64]
    """(L + 1,): where the triangles of each leaf begin in the order."""
    part_of: NDArray[np.int64]
    """(L,): the part of each leaf."""
    part_of_face: NDArray[np.int64]
    """(F,): the part of each triangle."""
    first_leaf: NDArray[np.int64]
    """(P + 1,): the first leaf of each part."""
    first_node: NDArray[np.int64]
    """(P + 1,): the first node of each part."""
    own_vertices: NDArray[np.int64]
    """(F, 3): the vertices that each triangle owns, then -1."""
    own_edges: NDArray[np.int64]
    """(F, 3): the edges that each triangle owns, then -1."""
    radius: Array
    """(V,): the radius around each vertex and its edges, 0 but for balls and capsules [m]."""


class Motion(NamedTuple):
    """Where everything goes, and the boxes around that: three least coordinates, then three greatest ones."""

    start: Array
    """(V, 3): the vertices [m]."""
    end: Array
    """(V, 3): the vertices at the end of their ways [m]."""
    drift: Array
    """(P, 3): the mean way of each part [m]."""
    vertices: Array
    """(V, 6): boxes of the vertices in their part's frame [m]."""
    faces: Array
    """(F, 6): boxes of the triangles [m]."""
    nodes: Array
    """(nodes, 6): boxes of the nodes [m]."""


class Permissions(NamedTuple):
    """Which vertices may meet; primitives may if any of their vertices may."""

    patch: NDArray[np.int64]
    """(V,): vertices of one patch do not meet; -1 is no patch."""
    starts: NDArray[np.int64]
    """(V + 1,): where the list of each vertex begins in `others`."""
    others: NDArray[np.int64]
    """Vertices that each vertex does not meet, in ascending order."""
    free: NDArray[np.bool_]
    """(V,): whether a vertex has no patch and meets all others; primitives with such a vertex may meet."""
    partner_starts: NDArray[np.int64]
    """(P + 1,): where the list of each part begins in `partners`."""
    partners: NDArray[np.int64]
    """The parts that each part is searched against; each two parts are there once."""


class Search(NamedTuple):
    """All that a search needs."""

    forest: Forest
    """The trees."""
    motion: Motion
    """The boxes."""
    permissions: Permissions
    """Who may meet whom."""
    reach: float
    """The distance of pairs that are looked for [m]."""


class FacingFaces(NamedTuple):
    """Pairs of triangles whose boxes overlap, by blocks of leaves."""

    block: int
    """The number of leaves in a block."""
    pairs: NDArray[np.int32]
    """(blocks, capacity, 2): the pairs."""
    counts: NDArray[np.int64]
    """(blocks,): how many each block has, also if there is no room for them."""


class Found(NamedTuple):
    """What a search finds, by blocks of pairs of triangles."""

    block: int
    """The number of pairs of triangles in a block."""
    faces: NDArray[np.int32]
    """(blocks, capacity, 2): pairs of a vertex and a triangle, or of an edge that crosses a triangle."""
    edges: NDArray[np.int32]
    """(blocks, capacity, 2): pairs of edges."""
    counts: NDArray[np.int64]
    """(blocks, 2): how many of both each block has."""


@kernel
def vertex_boxes(start, stop, motion, vertices, part_of_vertex, radius, inflation):
    """Fill in the boxes around the ways of some vertices, which have a radius (V,)."""
    for k in range(start, stop):
        v = vertices[k]
        part, around = part_of_vertex[v], inflation + radius[v]
        for a in range(3):
            here = motion.start[v, a]
            there = motion.end[v, a] - motion.drift[part, a]
            motion.vertices[v, a] = min(here, there) - around
            motion.vertices[v, 3 + a] = max(here, there) + around


@kernel
def refit(start, stop, forest, motion, parts):
    """Fill in the boxes of the triangles and nodes of some parts."""
    nodes, faces, vertices = motion.nodes, motion.faces, motion.vertices
    corners, order, leaves = forest.faces, forest.order, forest.leaves
    for k in range(start, stop):
        part = parts[k]
        base, first, last = forest.first_node[part], forest.first_leaf[part], forest.first_leaf[part + 1]
        for leaf in range(first, last):
            node = base + (last - first) - 1 + leaf - first
            for a in range(3):
                nodes[node, a], nodes[node, 3 + a] = np.inf, -np.inf
            for slot in range(leaves[leaf], leaves[leaf + 1]):
                f = order[slot]
                i, j, m = corners[f, 0], corners[f, 1], corners[f, 2]
                for a in range(3):
                    low = min(vertices[i, a], vertices[j, a], vertices[m, a])
                    high = max(vertices[i, 3 + a], vertices[j, 3 + a], vertices[m, 3 + a])
                    faces[f, a], faces[f, 3 + a] = low, high
                    nodes[node, a] = min(nodes[node, a], low)
                    nodes[node, 3 + a] = max(nodes[node, 3 + a], high)
        for node in range(last - first - 2, -1, -1):
            one = base + 2 * node + 1
            for a in range(3):
                nodes[base + node, a] = min(nodes[one, a], nodes[one + 1, a])
                nodes[base + node, 3 + a] = max(nodes[one, 3 + a], nodes[one + 1, 3 + a])


@kernel
def _box(boxes, i):
    """Return box i as six numbers."""
    return boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3], boxes[i, 4], boxes[i, 5]


@kernel
def _swept(box, way):
    """Return the box around a box that goes a way."""
    return (
        box[0] + min(way[0], 0.0), box[1] + min(way[1], 0.0), box[2] + min(way[2], 0.0),
        box[3] + max(way[0], 0.0), box[4] + max(way[1], 0.0), box[5] + max(way[2], 0.0),
    )  # fmt: skip


@kernel
def _united(a, b):
    """Return the box around two boxes."""
    return (
        min(a[0], b[0]), min(a[1], b[1]), min(a[2], b[2]), max(a[3], b[3]), max(a[4], b[4]), max(a[5], b[5])
    )  # fmt: skip


@kernel
def _overlap(a, b):
    """Return whether two boxes overlap."""
    return (a[0] <= b[3]) & (b[0] <= a[3]) & (a[1] <= b[4]) & (b[1] <= a[4]) & (a[2] <= b[5]) & (b[2] <= a[5])


@kernel
def may_meet(v, w, permissions) -> Any:
    """Return whether two vertices may meet."""
    patch, starts, others = permissions.patch, permissions.starts, permissions.others
    allowed = patch[v] != patch[w] or patch[v] < 0
    low, high = starts[v], starts[v + 1]
    if allowed and low < high:
        last = high
        while low < high:
            middle = (low + high) // 2
            if others[middle] < w:
                low = middle + 1
            else:
                high = middle
        allowed = low == last or others[low] != w
    return allowed


@kernel
def _near(x, y, points, first, reach):
    """Return whether two primitives of four points may come nearer than `reach` from x to y."""
    i, j, m, n = points
    at = (load(x, i), load(x, j), load(x, m), load(x, n))
    speed = relative_ways(minus(load(y, i), at[0]), minus(load(y, j), at[1]), minus(load(y, m), at[2]),
                          minus(load(y, n), at[3]), first)[4]  # fmt: skip
    return squared_distance(at[0], at[1], at[2], at[3], first) <= (reach + speed) ** 2


@kernel
def overlapping_faces(start, stop, search, found):
    """Fill in the pairs of triangles whose boxes overlap, of blocks of leaves with all others.

    Their order only depends on the trees. A block with more pairs than there is room for is counted no
    further than twice that.
    """
    part_of, order, leaves = search.forest.part_of, search.forest.order, search.forest.leaves
    first_leaf, first_node = search.forest.first_leaf, search.forest.first_node
    nodes, faces, drift = search.motion.nodes, search.motion.faces, search.motion.drift
    partners, partner_starts = search.permissions.partners, search.permissions.partner_starts
    pairs, counts = found.pairs, found.counts
    room, stack = pairs.shape[1], np.empty(STACK, np.int64)
    for block in range(start, stop):
        count = 0
        for leaf in range(block * found.block, min((block + 1) * found.block, len(part_of))):
            part = part_of[leaf]
            mine = first_node[part] + leaf - first_leaf[part] + first_leaf[part + 1] - first_leaf[part] - 1
            for k in range(partner_starts[part], partner_starts[part + 1]):
                if count > 2 * room:
                    break
                other = partners[k]
                way = minus(load(drift, part), load(drift, other))
                box = _swept(_box(nodes, mine), way)
                base, first = first_node[other], first_leaf[other]
                inner = first_leaf[other + 1] - first - 1
                stack[0], waiting = 0, 1
                while waiting > 0:
                    waiting -= 1
                    node = stack[waiting]
                    if not _overlap(box, _box(nodes, base + node)):
                        continue
                    if node < inner:
                        stack[waiting], stack[waiting + 1] = 2 * node + 2, 2 * node + 1
                        waiting += 2
                        continue
                    facing = first + node - inner
                    if other == part and facing < leaf:
                        continue
                    for p in range(leaves[leaf], leaves[leaf + 1]):
                        f = order[p]
                        own = _swept(_box(faces, f), way)
                        begin = p + 1 if facing == leaf else leaves[facing]
                        for q in range(begin, leaves[facing + 1]):
                            g = order[q]
                            if _overlap(own, _box(faces, g)):
                                if count < room:
                                    pairs[block, count, 0], pairs[block, count, 1] = f, g
                                count += 1
        counts[block] = count


@kernel
def find_pairs(start, stop, search, facing, found):
    """Fill in pairs that may come nearer than the reach on their ways, of blocks of pairs `facing` (T, 2).

    These are triangles f and g; what f owns is compared with g, and what g owns with f.
    """
    corners, ends = search.forest.faces, search.forest.edges
    own_vertices, own_edges = search.forest.own_vertices, search.forest.own_edges
    vertices, faces, drift = search.motion.vertices, search.motion.faces, search.motion.drift
    x, y, part_of = search.motion.start, search.motion.end, search.forest.part_of_face
    permissions, free, reach = search.permissions, search.permissions.free, search.reach
    radius = search.forest.radius
    near_faces, near_edges = found.faces, found.edges
    for block in range(start, stop):
        by_face, by_edge = 0, 0
        for k in range(block * found.block, min((block + 1) * found.block, len(facing))):
            way = minus(load(drift, part_of[facing[k, 0]]), load(drift, part_of[facing[k, 1]]))
            for side in range(2):
                f, g = facing[k, side], facing[k, 1 - side]
                box = _box(faces, g)
                a, b, c = corners[g, 0], corners[g, 1], corners[g, 2]
                for i in range(3):
                    v = own_vertices[f, i]
                    # Balls and capsules meet triangles by their centres, and edges by their axes.
                    if v < 0 or b == c:
                        break
                    if v in (a, b, c) or not _overlap(_swept(_box(vertices, v), way), box):
                        continue
                    if not (free[v] or free[a] or free[b] or free[c]) and not (
                        may_meet(v, a, permissions)
                        or may_meet(v, b, permissions)
                        or may_meet(v, c, permissions)
                    ):
                        continue
                    if _near(x, y, (v, a, b, c), 1, reach + radius[v]):
                        near_faces[block, by_face, 0], near_faces[block, by_face, 1] = v, g
                        by_face += 1
                way = (-way[0], -way[1], -way[2])
            f, g = facing[k, 0], facing[k, 1]
            for i in range(3):
                e = own_edges[f, i]
                if e < 0:
                    break
                a, b = ends[e, 0], ends[e, 1]
                box = _swept(_united(_box(vertices, a), _box(vertices, b)), way)
                for j in range(3):
                    d = own_edges[g, j]
                    if d < 0:
                        break
                    m, n = ends[d, 0], ends[d, 1]
                    if a in (m, n) or b in (m, n):
                        continue
                    if not _overlap(box, _united(_box(vertices, m), _box(vertices, n))):
                        continue
                    if not (free[a] or free[b] or free[m] or free[n]) and not (
                        may_meet(a, m, permissions)
                        or may_meet(a, n, permissions)
                        or may_meet(b, m, permissions)
                        or may_meet(b, n, permissions)
                    ):
                        continue
                    if _near(x, y, (a, b, m, n), 2, reach + radius[a] + radius[m]):
                        near_edges[block, by_edge, 0], near_edges[block, by_edge, 1] = e, d
                        by_edge += 1
        found.counts[block, 0], found.counts[block, 1] = by_face, by_edge


@kernel
def find_crossings(start, stop, search, facing, found):
    """Fill in edges and triangles that may cross, of blocks of pairs of triangles `facing` (T, 2)."""
    corners, ends, own = search.forest.faces, search.forest.edges, search.forest.own_edges
    x, permissions, pairs = search.motion.start, search.permissions, found.faces
    for block in range(start, stop):
        count = 0
        for k in range(block * found.block, min((block + 1) * found.block, len(facing))):
            for side in range(2):
                f, g = facing[k, side], facing[k, 1 - side]
                a, b, c = corners[g, 0], corners[g, 1], corners[g, 2]
                for i in range(3):
                    e = own[f, i]
                    if e < 0 or b == c:
                        break
                    m, n = ends[e, 0], ends[e, 1]
                    if m in (a, b, c) or n in (a, b, c):
                        continue
                    if crossing(load(x, m), load(x, n), load(x, a), load(x, b), load(x, c)) != NO and (
                        may_meet(m, a, permissions) or may_meet(m, b, permissions)
                        or may_meet(m, c, permissions) or may_meet(n, a, permissions)
                        or may_meet(n, b, permissions) or may_meet(n, c, permissions)
                    ):  # fmt: skip
                        pairs[block, count, 0], pairs[block, count, 1] = e, g
                        count += 1
        found.counts[block, 0], found.counts[block, 1] = count, 0


@kernel
def compacted(pairs, counts) -> NDArray[np.int32]:
    """Return the pairs (K, 2) of blocks (blocks, capacity, 2) of which each has so many."""
    out = np.empty((counts.sum(), 2), np.int32)
    slot = 0
    for block in range(len(counts)):
        for k in range(counts[block]):
            out[slot, 0], out[slot, 1] = pairs[block, k, 0], pairs[block, k, 1]
            slot += 1
    return out
