"""The collision mesh: triangles and edges of all bodies, areas, who may meet whom, and searches for pairs.

Colliders by formula are in it too. A ball is a vertex with a radius and a capsule an edge with one: they meet
triangles and edges as other vertices and edges do, which is exact. A plane meets vertices only, which is
exact as well, since what has its corners above a plane is above it.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute import run
from ...geometry.bvh import TriangleTree
from .exact import crosses
from .kernels import broad_phase, crossings, pairs
from .kernels.broad_phase import FacingFaces, Forest, Found, Motion, Permissions, Search
from .kernels.pairs import SurfaceArrays

__all__ = ["Candidates", "CollisionMesh", "Solids"]

# Leaves, and pairs of triangles, that are searched together: the least work for a thread.
LEAVES_PER_BLOCK, FACES_PER_BLOCK = 32, 512
VERTICES_PER_THREAD, PARTS_PER_THREAD, PAIRS_PER_THREAD = 16384, 8, 2048
FIRST_ROOM = 1024  # pairs of a block that there is room for at first


class Candidates(NamedTuple):
    """Pairs of primitives that may meet."""

    faces: NDArray[np.int32]
    """(K, 2): a vertex and a triangle."""
    edges: NDArray[np.int32]
    """(K, 2): two edges."""


class Solids(NamedTuple):
    """Colliders by formula, as vertices of a collision mesh: B balls and capsules, and P planes."""

    ends: NDArray[np.int64]
    """(B, 2): the ends of the axis of each capsule; twice the centre of a ball."""
    radius: Array
    """(B,): the radius around them [m]."""
    planes: NDArray[np.int64]
    """(P, 3): vertices a, b, c that tell each plane, below (b - a) x (c - a)."""


NO_SOLIDS = Solids(np.empty((0, 2), np.int64), np.empty(0), np.empty((0, 3), np.int64))


class CollisionMesh:
    """Triangles of all bodies, for searches of what is near to what.

    Parameters
    ----------
    vertices : (V, 3)
        The vertices at the start, by which areas are measured and trees are built [m].
    faces : (F, 3)
        The triangles.
    part_of : (V,)
        The part (the body) of each vertex; a triangle has one part.
    patch : (V,)
        Vertices of one patch do not meet; those of -1 meet all others.
    ignored : iterable of (int, int)
        Pairs of parts that do not meet; a part that is paired with itself does not meet itself.
    solids : Solids
        The colliders by formula.
    still : (V,), optional
        Which vertices never move: the boxes of parts of nothing else are found once.
    """

    def __init__(
        self,
        vertices: Array,
        faces: NDArray[np.int64],
        part_of: NDArray[np.int64],
        patch: NDArray[np.int64],
        ignored: Iterable[tuple[int, int]] = (),
        solids: Solids = NO_SOLIDS,
        still: NDArray[np.bool_] | None = None,
    ) -> None:
        # Parts are numbered again, without those that have no vertices; planes, which are in no tree, are
        # the last ones.
        names = np.unique(part_of)
        flat = np.isin(names, part_of[solids.planes])
        number = np.full(names[-1] + 1, -1)
        number[np.concatenate([names[~flat], names[flat]])] = np.arange(len(names))
        self._trees = int((~flat).sum())
        self._ignored = {
            (int(number[a]), int(number[b]))
            for one, other in ignored
            for a, b in ((one, other), (other, one))
            if one in names and other in names
        }
        self._part_of, self._patch = number[part_of], patch
        sides = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
        edges, edge_of = np.unique(sides, axis=0, return_inverse=True)
        edge_of = edge_of.reshape(-1, 3)
        a, b, c = np.moveaxis(vertices[faces], 1, 0)
        third = np.linalg.norm(np.cross(b - a, c - a), axis=1) / 6
        long = solids.ends[:, 0] != solids.ends[:, 1]
        axes = np.full((len(long), 3), -1)
        axes[long, 0] = len(edges) + np.arange(long.sum())
        edge_area = np.bincount(edge_of.ravel(), np.repeat(third, 3), len(edges))
        edges = np.concatenate([edges, solids.ends[long]])
        radius = np.zeros(len(vertices))
        radius[solids.ends] = solids.radius[:, None]
        self.arrays = SurfaceArrays(
            np.concatenate([faces, solids.ends[:, [0, 1, 1]]]),
            edges,
            np.bincount(faces.ravel(), np.repeat(third, 3), len(vertices)),
            np.concatenate([edge_area, np.zeros(long.sum())]),
            ((vertices[edges[:, 0]] - vertices[edges[:, 1]]) ** 2).sum(1),
            np.concatenate([3 * third, np.zeros(len(long))]),
            radius,
        )
        self.planes = solids.planes
        """Vertices (P, 3) that tell each plane."""
        self._count = np.bincount(self._part_of)
        self._forest = self._plant(vertices, np.concatenate([edge_of, axes]))
        self._room = FIRST_ROOM
        nodes = int(self._forest.first_node[-1])
        moves = np.ones(len(vertices), np.bool_) if still is None else ~still
        self._moves = np.bincount(self._part_of, moves) > 0
        self._boxes = tuple(np.empty((n, 6)) for n in (len(vertices), len(self.arrays.faces), nodes))
        self.block(())

    def _plant(self, vertices: Array, edge_of: NDArray[np.int64]) -> Forest:
        """Build the trees of all parts."""
        faces, edges = self.arrays.faces, self.arrays.edges
        part_of_face = self._part_of[faces[:, 0]]
        orders: list[NDArray[np.int64]] = []
        leaves, counts = [np.zeros(1, np.int64)], []
        for part in range(self._trees):
            mine = np.flatnonzero(part_of_face == part)
            tree = TriangleTree(vertices, faces[mine])
            leaves.append(tree.arrays.leaves[1:] + sum(len(order) for order in orders))
            orders.append(mine[tree.boxes.order])
            counts.append(len(leaves[-1]))
        per_part = np.array(counts)
        order = np.concatenate(orders)
        return Forest(
            faces,
            edges,
            order,
            np.concatenate(leaves),
            np.repeat(np.arange(len(per_part)), per_part),
            part_of_face,
            np.concatenate([[0], np.cumsum(per_part)]),
            np.concatenate([[0], np.cumsum(2 * per_part - 1)]),
            _owned(faces, order, len(vertices)),
            _owned(edge_of, order, len(edges)),
            self.arrays.radius,
        )

    def _permissions(self, blocked: Iterable[tuple[int, int]]) -> Permissions:
        """Return who may meet whom, without some pairs of vertices."""
        each = np.array(sorted({pair for i, j in blocked for pair in ((i, j), (j, i))}), np.int64).reshape(
            -1, 2
        )
        starts = np.searchsorted(each[:, 0], np.arange(len(self._part_of) + 1))
        parts = len(self._count)
        # Parts that are one patch as a whole do not meet the same patch elsewhere.
        least, most = np.full(parts, np.iinfo(np.int64).max), np.full(parts, -2)
        np.minimum.at(least, self._part_of, self._patch)
        np.maximum.at(most, self._part_of, self._patch)
        whole = np.where((least == most) & (least >= 0), least, -1)
        leaves = np.diff(self._forest.first_leaf)
        partners: list[list[int]] = [[] for _ in range(self._trees)]
        for one in range(self._trees):
            for other in range(one, self._trees):
                if (one, other) in self._ignored or (whole[one] == whole[other] and whole[one] >= 0):
                    continue
                # The part with more leaves looks for the other, which is shared better by threads.
                many, few = (one, other) if leaves[one] >= leaves[other] else (other, one)
                partners[many].append(few)
        return Permissions(
            self._patch,
            starts,
            np.ascontiguousarray(each[:, 1]),
            (self._patch < 0) & (np.diff(starts) == 0),
            np.concatenate([[0], np.cumsum([len(p) for p in partners])]),
            np.array([p for each_part in partners for p in each_part], np.int64),
        )

    def block(self, blocked: Iterable[tuple[int, int]]) -> None:
        """Let pairs of vertices not meet, and no others but those that never do."""
        self.permissions = self._permissions(blocked)
        """Who may meet whom."""
        self.above = self._above()
        """Vertices and planes (K, 2) that may meet; they are few enough to need no search."""
        # What meets nothing in the trees needs no boxes, and what is still needs them once.
        starts, partners = self.permissions.partner_starts, self.permissions.partners
        meets = np.zeros(len(self._count), np.bool_)
        meets[: self._trees] = np.diff(starts) > 0
        meets[partners] = True
        self._every, self._moving = (
            (np.flatnonzero(each[self._part_of]), np.flatnonzero(each[: self._trees]))
            for each in (meets, meets & self._moves)
        )
        self._inflation = np.nan  # of the boxes of what is still

    def _above(self) -> NDArray[np.int64]:
        """Return the vertices and planes (K, 2) that may meet."""
        starts, others = self.permissions.starts, self.permissions.others
        found = [np.empty((0, 2), np.int64)]
        for plane, corners in enumerate(self.planes):
            part = int(self._part_of[corners[0]])
            meets = (self._part_of < self._trees) & (self.arrays.radius == 0.0)
            meets &= (self._patch != self._patch[corners[0]]) | (self._patch < 0)
            meets &= ~np.isin(self._part_of, [one for one, other in self._ignored if other == part])
            for corner in corners:
                meets[others[starts[corner] : starts[corner + 1]]] = False
            rows = np.flatnonzero(meets)
            found.append(np.stack([rows, np.full(len(rows), plane)], axis=1))
        return np.concatenate(found)

    def may_meet(self, i: int, j: int) -> bool:
        """Return whether two vertices may meet."""
        parts = (int(self._part_of[i]), int(self._part_of[j]))
        return parts not in self._ignored and bool(broad_phase.may_meet(i, j, self.permissions))

    def candidates(self, start: Array, end: Array, reach: float, margin: float = 0.0) -> Candidates:
        """Find the pairs that may come nearer than `reach` while vertices move straight from start to end.

        Parameters
        ----------
        start, end : (V, 3)
            The vertices [m].
        reach : float
            The distance [m].
        margin : float
            How far vertices may be off these ways, along each axis [m].

        Returns
        -------
        Candidates
            The pairs, in an order that depends on the mesh only.
        """
        found = self.few_candidates(start, end, reach, margin, most=None)
        assert found is not None
        return found

    def few_candidates(
        self, start: Array, end: Array, reach: float, margin: float, *, most: int | None
    ) -> Candidates | None:
        """Find the pairs as `candidates` does; return None if more than `most` triangles face each other."""
        motion = self._refit(start, end, reach / 2 + margin)
        return self._search(motion, reach + 2 * np.sqrt(3) * margin, broad_phase.find_pairs, most)

    def _refit(self, start: Array, end: Array, inflation: float) -> Motion:
        """Return the boxes around all ways."""
        drift = np.stack(
            [np.bincount(self._part_of, (end - start)[:, a]) / self._count for a in range(3)], axis=1
        )
        motion = Motion(start, end, drift, *self._boxes)
        rows, parts = self._moving if inflation == self._inflation else self._every
        self._inflation = inflation
        run(
            broad_phase.vertex_boxes, len(rows), VERTICES_PER_THREAD, motion, rows, self._part_of,
            self.arrays.radius, inflation,
        )  # fmt: skip
        run(broad_phase.refit, len(parts), PARTS_PER_THREAD, self._forest, motion, parts)
        return motion

    def _search(
        self, motion: Motion, reach: float, finder: Callable[..., None], most: int | None
    ) -> Candidates | None:
        """Return the pairs that a kernel finds between triangles that are near each other.

        Return None if there are more than `most`.
        """
        search = Search(self._forest, motion, self.permissions, float(reach))
        leaves = len(self._forest.part_of)
        facing = self._facing(search, -(-leaves // LEAVES_PER_BLOCK), most)
        if facing is None:
            return None
        blocks = -(-len(facing) // FACES_PER_BLOCK)
        counts = np.zeros((blocks, 2), np.int64)
        # Two triangles have at most six pairs of vertices (or edges) and triangles, and nine of edges.
        by_face, by_edge = (np.empty((blocks, n * FACES_PER_BLOCK, 2), np.int32) for n in (6, 9))
        run(finder, blocks, 1, search, facing, Found(FACES_PER_BLOCK, by_face, by_edge, counts))
        return Candidates(
            broad_phase.compacted(by_face, counts[:, 0]), broad_phase.compacted(by_edge, counts[:, 1])
        )

    def _facing(self, search: Search, blocks: int, most: int | None) -> NDArray[np.int32] | None:
        """Return the pairs of triangles (T, 2) whose boxes overlap, or None if there are more than `most`."""
        counts = np.empty(blocks, np.int64)
        while True:
            pairs = np.empty((blocks, self._room, 2), np.int32)
            run(
                broad_phase.overlapping_faces, blocks, 1, search, FacingFaces(LEAVES_PER_BLOCK, pairs, counts)
            )
            if most is not None and counts.sum() > most:
                return None
            if counts.max() <= self._room:
                return broad_phase.compacted(pairs, counts)
            self._room = int(2 * counts.max())

    def distances(self, x: Array, candidates: Candidates, reach: float) -> tuple[Array, Array]:
        """Return the distances [m] of both kinds of candidates, less radii; infinite far beyond the reach."""
        by_face, by_edge = np.empty(len(candidates.faces)), np.empty(len(candidates.edges))
        arrays, grain = self.arrays, PAIRS_PER_THREAD
        run(pairs.face_distances, len(by_face), grain, x, arrays, candidates.faces, reach, by_face)
        run(pairs.edge_distances, len(by_edge), grain, x, arrays, candidates.edges, reach, by_edge)
        return by_face, by_edge

    def heights(self, x: Array) -> Array:
        """Return the heights (K,) of `above`, of vertices above planes, with the vertices (V, 3) at x [m]."""
        out = np.empty(len(self.above))
        run(pairs.plane_heights, len(out), PAIRS_PER_THREAD, x, self.planes, self.above, out)
        return out

    def entered(self, x: Array) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Return what is not outside of colliders by formula, with the vertices (V, 3) at x.

        Each of these is a pair: the vertices of a vertex, an edge or a triangle, and those of the collider.
        """
        if not len(self.planes) and not self.arrays.radius.any():
            return []
        near, (faces, edges) = self.candidates(x, x, 0.0), (self.arrays.faces, self.arrays.edges)
        by_face, by_edge = self.distances(x, near, 0.0)
        radius = self.arrays.radius
        found = [
            (faces[f], np.array([v]))
            for v, f in near.faces[(by_face <= 0.0) & (radius[near.faces[:, 0]] > 0.0)]
        ]
        for e, f in near.edges[by_edge <= 0.0]:
            one, other = (edges[f], edges[e]) if radius[edges[e, 0]] > 0.0 else (edges[e], edges[f])
            if radius[other[0]] > 0.0:
                found.append((one, other))
        found += [(np.array([v]), self.planes[p]) for v, p in self.above[self.heights(x) <= 0.0]]
        return found

    def crossings(self, x: Array) -> NDArray[np.int64]:
        """Return the edges and triangles (K, 2) that intersect, or touch, with the vertices (V, 3) at x."""
        motion = self._refit(x, x, 0.0)
        found = self._search(motion, 0.0, broad_phase.find_crossings, None)
        assert found is not None
        each = found.faces.astype(np.int64)
        faces, edges = self.arrays.faces, self.arrays.edges
        state = np.empty(len(each), np.int64)
        run(crossings.crossings, len(each), PAIRS_PER_THREAD, x, edges, faces, each, state)
        kept = state == crossings.YES
        for k in np.flatnonzero(state == crossings.UNSURE):
            edge, face = each[k]
            kept[k] = crosses(x[edges[edge]], x[faces[face]])
        return np.asarray(each[kept])


def _owned(parts: NDArray[np.int64], order: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return which of its parts (F, 3), of `count` in all, each triangle owns: those seen first.

    A part of -1 is none.
    """
    known, first = np.unique(parts[order].ravel(), return_index=True)
    first = first[known >= 0]
    assert len(first) <= count
    mine = np.zeros(3 * len(parts), np.bool_)
    mine[first] = True
    own = np.full_like(parts, -1)
    ranked = np.where(mine.reshape(-1, 3), parts[order], -1)
    own[order] = np.take_along_axis(ranked, np.argsort(ranked < 0, axis=1, kind="stable"), axis=1)
    return own
