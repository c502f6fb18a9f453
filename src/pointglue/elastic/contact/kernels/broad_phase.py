"""The search for pairs that may meet: trees of boxes around the triangles of each part, walked leaf by leaf.

Vertices move along straight ways. Each part has boxes in a frame that moves with the mean of its ways, so
that what falls as a whole is searched as if it stood still; the boxes of two parts are compared over their
relative motion. Every vertex and every edge belongs to one triangle around it, its owner: where the boxes of
two triangles overlap, what they own is compared, so that each pair is found once, in an order that only
depends on the trees.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array
from ....compute import kernel
from .ccd import relative_ways
from .crossings import NO, crossing
from .distances import load, minus, squared_distance_edges, squared_distance_triangle

__all__ = ["Forest", "Found", "Motion", "Permissions", "find", "may_meet", "refit", "vertex_boxes"]

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
    first_leaf: NDArray[np.int64]
    """(P + 1,): the first leaf of each part."""
    first_node: NDArray[np.int64]
    """(P + 1,): the first node of each part."""
    own_vertices: NDArray[np.int64]
    """(F, 3): the vertices that each triangle owns, then -1."""
    own_edges: NDArray[np.int64]
    """(F, 3): the edges that each triangle owns, then -1."""


class Motion(NamedTuple):
    """Where everything goes, and the boxes around that."""

    start: Array
    """(V, 3): the vertices [m]."""
    end: Array
    """(V, 3): the vertices at the end of their ways [m]."""
    drift: Array
    """(P, 3): the mean way of each part [m]."""
    vertex_low: Array
    """(V, 3): boxes of the vertices in their part's frame [m]."""
    vertex_high: Array
    """(V, 3) [m]."""
    face_low: Array
    """(F, 3): boxes of the triangles [m]."""
    face_high: Array
    """(F, 3) [m]."""
    node_low: Array
    """(nodes, 3): boxes of the nodes [m]."""
    node_high: Array
    """(nodes, 3) [m]."""


class Permissions(NamedTuple):
    """Which vertices may meet; primitives may if any of their vertices may."""

    patch: NDArray[np.int64]
    """(V,): vertices of one patch do not meet; -1 is no patch."""
    starts: NDArray[np.int64]
    """(V + 1,): where the list of each vertex begins in `others`."""
    others: NDArray[np.int64]
    """Vertices that each vertex does not meet, in ascending order."""
    partner_starts: NDArray[np.int64]
    """(P + 1,): where the list of each part begins in `partners`."""
    partners: NDArray[np.int64]
    """The parts that each part is searched against; each two parts are there once."""


class Found(NamedTuple):
    """What a search finds, by blocks of leaves."""

    block: int
    """The number of leaves in a block."""
    crossing: bool
    """Whether edges are looked for that cross triangles."""
    faces: NDArray[np.int32]
    """(blocks, capacity, 2): pairs of a vertex and a triangle, or of an edge that crosses a triangle."""
    edges: NDArray[np.int32]
    """(blocks, capacity, 2): pairs of edges."""
    counts: NDArray[np.int64]
    """(blocks, 2): how many of both each block has, also if there is no room for them."""


@kernel
def vertex_boxes(start, stop, motion, part_of_vertex, inflation):
    """Fill in the boxes around the ways of vertices."""
    for v in range(start, stop):
        part = part_of_vertex[v]
        for a in range(3):
            here = motion.start[v, a]
            there = motion.end[v, a] - motion.drift[part, a]
            motion.vertex_low[v, a] = min(here, there) - inflation
            motion.vertex_high[v, a] = max(here, there) + inflation


@kernel
def refit(start, stop, forest, motion):
    """Fill in the boxes of the triangles and nodes of parts."""
    low, high = motion.node_low, motion.node_high
    for part in range(start, stop):
        base, first, last = forest.first_node[part], forest.first_leaf[part], forest.first_leaf[part + 1]
        for leaf in range(first, last):
            node = base + (last - first) - 1 + leaf - first
            for a in range(3):
                low[node, a], high[node, a] = np.inf, -np.inf
            for k in range(forest.leaves[leaf], forest.leaves[leaf + 1]):
                f = forest.order[k]
                for a in range(3):
                    least, most = np.inf, -np.inf
                    for i in range(3):
                        v = forest.faces[f, i]
                        least = min(least, motion.vertex_low[v, a])
                        most = max(most, motion.vertex_high[v, a])
                    motion.face_low[f, a], motion.face_high[f, a] = least, most
                    low[node, a], high[node, a] = min(low[node, a], least), max(high[node, a], most)
        for node in range(last - first - 2, -1, -1):
            one = base + 2 * node + 1
            for a in range(3):
                low[base + node, a] = min(low[one, a], low[one + 1, a])
                high[base + node, a] = max(high[one, a], high[one + 1, a])


@kernel
def _overlap(low, high, i, other_low, other_high, j, sweep):
    """Return whether box i, swept by `sweep` (its least and greatest shift), overlaps box j."""
    least, most = sweep
    return (
        low[i, 0] + least[0] <= other_high[j, 0]
        and other_low[j, 0] <= high[i, 0] + most[0]
        and low[i, 1] + least[1] <= other_high[j, 1]
        and other_low[j, 1] <= high[i, 1] + most[1]
        and low[i, 2] + least[2] <= other_high[j, 2]
        and other_low[j, 2] <= high[i, 2] + most[2]
    )


@kernel
def _edges_overlap(e, f, forest, motion, sweep):
    """Return whether the box of edge e, swept, overlaps that of edge f."""
    i, j, m, n = forest.edges[e, 0], forest.edges[e, 1], forest.edges[f, 0], forest.edges[f, 1]
    low, high = motion.vertex_low, motion.vertex_high
    least, most = sweep
    for a in range(3):
        if min(low[i, a], low[j, a]) + least[a] > max(high[m, a], high[n, a]):
            return False
        if min(low[m, a], low[n, a]) > max(high[i, a], high[j, a]) + most[a]:
            return False
    return True


@kernel
def may_meet(v, w, permissions) -> bool:
    """Return whether two vertices may meet."""
    if permissions.patch[v] == permissions.patch[w] and permissions.patch[v] >= 0:
        return False
    low, high = permissions.starts[v], permissions.starts[v + 1]
    while low < high:
        middle = (low + high) // 2
        if permissions.others[middle] < w:
            low = middle + 1
        else:
            high = middle
    return not (low < permissions.starts[v + 1] and permissions.others[low] == w)


@kernel
def _try_face(v, f, sweep, forest, motion, permissions, reach):
    """Return whether a vertex and a triangle may meet on their ways, so that they are a pair."""
    i, j, m = forest.faces[f, 0], forest.faces[f, 1], forest.faces[f, 2]
    if v in (i, j, m):
        return False
    low, high = motion.vertex_low, motion.vertex_high
    if not _overlap(low, high, v, motion.face_low, motion.face_high, f, sweep):
        return False
    if not (may_meet(v, i, permissions) or may_meet(v, j, permissions) or may_meet(v, m, permissions)):
        return False
    x, y = motion.start, motion.end
    at = (load(x, v), load(x, i), load(x, j), load(x, m))
    speed = relative_ways(minus(load(y, v), at[0]), minus(load(y, i), at[1]), minus(load(y, j), at[2]),
                          minus(load(y, m), at[3]), 1)[4]  # fmt: skip
    return squared_distance_triangle(at[0], at[1], at[2], at[3]) <= (reach + speed) ** 2


@kernel
def _try_edges(e, f, sweep, forest, motion, permissions, reach):
    """Return whether two edges may meet on their ways, so that they are a pair."""
    i, j, m, n = forest.edges[e, 0], forest.edges[e, 1], forest.edges[f, 0], forest.edges[f, 1]
    if i in (m, n) or j in (m, n):
        return False
    if not _edges_overlap(e, f, forest, motion, sweep):
        return False
    if not (
        may_meet(i, m, permissions) or may_meet(i, n, permissions)
        or may_meet(j, m, permissions) or may_meet(j, n, permissions)
    ):  # fmt: skip
        return False
    x, y = motion.start, motion.end
    at = (load(x, i), load(x, j), load(x, m), load(x, n))
    speed = relative_ways(minus(load(y, i), at[0]), minus(load(y, j), at[1]), minus(load(y, m), at[2]),
                          minus(load(y, n), at[3]), 2)[4]  # fmt: skip
    return squared_distance_edges(at[0], at[1], at[2], at[3]) <= (reach + speed) ** 2


@kernel
def _add(pairs, counts, block, column, one, other):
    """Add a pair to those of a block, if there is room."""
    count = counts[block, column]
    if count < pairs.shape[1]:
        pairs[block, count, 0], pairs[block, count, 1] = one, other
    counts[block, column] = count + 1


@kernel
def find(start, stop, forest, motion, permissions, reach, found):
    """Fill in the pairs of blocks of leaves with all others.

    Pairs are those that may come nearer than `reach` on their ways. A block with more pairs than there is
    room for is counted no further than twice the room.
    """
    stack = np.empty(STACK, np.int64)
    total, room = len(forest.part_of), found.faces.shape[1]
    for block in range(start, stop):
        found.counts[block, 0] = found.counts[block, 1] = 0
        for leaf in range(block * found.block, min((block + 1) * found.block, total)):
            part = forest.part_of[leaf]
            mine = forest.first_node[part] + leaf - forest.first_leaf[part] + (
                forest.first_leaf[part + 1] - forest.first_leaf[part] - 1
            )  # fmt: skip
            for k in range(permissions.partner_starts[part], permissions.partner_starts[part + 1]):
                if max(found.counts[block, 0], found.counts[block, 1]) > 2 * room:
                    break
                other = permissions.partners[k]
                w0 = motion.drift[part, 0] - motion.drift[other, 0]
                w1 = motion.drift[part, 1] - motion.drift[other, 1]
                w2 = motion.drift[part, 2] - motion.drift[other, 2]
                sweep = (
                    (min(w0, 0.0), min(w1, 0.0), min(w2, 0.0)),
                    (max(w0, 0.0), max(w1, 0.0), max(w2, 0.0)),
                )
                base, first = forest.first_node[other], forest.first_leaf[other]
                inner = forest.first_leaf[other + 1] - first - 1
                stack[0], waiting = 0, 1
                while waiting > 0:
                    waiting -= 1
                    node = stack[waiting]
                    if not _overlap(
                        motion.node_low, motion.node_high, mine, motion.node_low, motion.node_high,
                        base + node, sweep,
                    ):  # fmt: skip
                        continue
                    if node < inner:
                        stack[waiting], stack[waiting + 1] = 2 * node + 2, 2 * node + 1
                        waiting += 2
                        continue
                    facing = first + node - inner
                    if other == part and facing < leaf:
                        continue
                    for p in range(forest.leaves[leaf], forest.leaves[leaf + 1]):
                        f = forest.order[p]
                        for q in range(forest.leaves[facing], forest.leaves[facing + 1]):
                            g = forest.order[q]
                            if facing == leaf and q <= p:
                                continue
                            if _overlap(
                                motion.face_low, motion.face_high, f, motion.face_low, motion.face_high, g,
                                sweep,
                            ):  # fmt: skip
                                _compare(f, g, sweep, block, forest, motion, permissions, reach, found)


@kernel
def _compare(f, g, sweep, block, forest, motion, permissions, reach, found):
    """Add the pairs of what triangles f, swept, and g own; or edges that may cross them."""
    if found.crossing:
        _compare_crossing(f, g, block, forest, motion.start, permissions, found)
        _compare_crossing(g, f, block, forest, motion.start, permissions, found)
        return
    back = (
        (-sweep[1][0], -sweep[1][1], -sweep[1][2]),
        (-sweep[0][0], -sweep[0][1], -sweep[0][2]),
    )
    for i in range(3):
        v = forest.own_vertices[f, i]
        if v < 0:
            break
        if _try_face(v, g, sweep, forest, motion, permissions, reach):
            _add(found.faces, found.counts, block, 0, v, g)
    for i in range(3):
        v = forest.own_vertices[g, i]
        if v < 0:
            break
        if _try_face(v, f, back, forest, motion, permissions, reach):
            _add(found.faces, found.counts, block, 0, v, f)
    for i in range(3):
        e = forest.own_edges[f, i]
        if e < 0:
            break
        for j in range(3):
            d = forest.own_edges[g, j]
            if d < 0:
                break
            if _try_edges(e, d, sweep, forest, motion, permissions, reach):
                _add(found.edges, found.counts, block, 1, e, d)


@kernel
def _compare_crossing(f, g, block, forest, x, permissions, found):
    """Add the edges that triangle f owns and that cross, or may cross, triangle g, as pairs with g."""
    a, b, c = forest.faces[g, 0], forest.faces[g, 1], forest.faces[g, 2]
    for i in range(3):
        e = forest.own_edges[f, i]
        if e < 0:
            break
        m, n = forest.edges[e, 0], forest.edges[e, 1]
        if m in (a, b, c) or n in (a, b, c):
            continue
        sure = crossing(load(x, m), load(x, n), load(x, a), load(x, b), load(x, c))
        if sure == NO:
            continue
        if (
            may_meet(m, a, permissions) or may_meet(m, b, permissions) or may_meet(m, c, permissions)
            or may_meet(n, a, permissions) or may_meet(n, b, permissions) or may_meet(n, c, permissions)
        ):  # fmt: skip
            _add(found.faces, found.counts, block, 0, e, g)
