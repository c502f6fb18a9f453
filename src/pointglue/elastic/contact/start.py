"""What is looked at once, before anything moves: intersections, nearness, and what glue holds together."""

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...errors import InputError, IntersectionError
from ..model.solver_model import SolverModel, Tie

__all__ = ["Start", "apart"]

NAMED = 5  # pairs that an error names
# Crossings that are counted of two bodies: a mesh that goes through itself everywhere has millions.
COUNTED = 1000
BLOCK = 8192  # edges that are looked at together, which bounds the memory that their candidates take
IDLE = 20  # rounds of untangling without fewer crossings, after which it is given up


Pair = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Vertices of two primitives: an edge and a face, a point and a face, two edges; or of what is around."""


def apart(ipc: Any, one: NDArray[np.bool_], other: NDArray[np.bool_]) -> Any:
    """Return a filter of the toolkit `ipc` that lets the vertices of two bodies, masks (V,), not meet.

    If they are the same, it is one body that does not meet itself.
    """
    make, alone = ipc.make_vertex_patches_filter, np.arange(len(one)) + 1

    def within(mask: NDArray[np.bool_]) -> Any:
        return make(np.where(mask, 0, alone).astype(np.int32))

    if np.array_equal(one, other):
        return within(one)
    return within(one | other) | ~within(one) | ~within(other)


class Start:
    """A collision mesh of the toolkit `ipc` with its vertices (V, 3) where they are."""

    def __init__(
        self, ipc: Any, mesh: Any, particles: NDArray[np.int64], model: SolverModel, vertices: Array
    ) -> None:
        self._ipc, self._mesh, self._particles, self._scene = ipc, mesh, particles, model
        self._vertices = vertices
        self._faces, self._edges = np.asarray(mesh.faces), np.asarray(mesh.edges)

    def tied_pairs(self, thickness: float, distance: float) -> list[list[Pair]]:
        """For each tie of the scene the primitives around it that are too near to meet.

        Of glue those that are nearer than contact reaches (m), of joints those nearer than they may be.
        """
        sides = [self._around(tie) for tie in self._scene.ties]
        # What hangs on points that do not meet anything, such as the mesh of a cage, has nothing to avoid.
        facing = [first | second for first, second in sides if first.any() and second.any()]
        if not facing:
            return [[] for _ in sides]
        region = np.any(facing, axis=0)
        crossing = [self._widened(*pair) for pair in self._crossings(self._ring(region))]
        near = self._near(thickness + distance, region)
        out = []
        for tie, (first, second) in zip(self._scene.ties, sides, strict=True):
            reach = thickness + distance if tie.joints is None else thickness
            kept = crossing + [pair for pair, apart in near if apart <= reach]
            out.append([
                (one, other)
                for one, other in kept
                if (first[one].any() and second[other].any()) or (second[one].any() and first[other].any())
            ])  # fmt: skip
        return out

    def too_near(self, thickness: float) -> list[Pair]:
        """Primitives that cross, or are nearer than they may be (m)."""
        everywhere = np.ones(len(self._vertices), np.bool_)
        crossing = [self._widened(*pair) for pair in self._crossings()]
        return crossing + [pair for pair, _ in self._near(thickness, everywhere)]

    def refuse_intersections(self, advice: str) -> None:
        """Raise, naming pairs, if surfaces intersect."""
        if not self._ipc.has_intersections(self._mesh, self._vertices):
            return
        crossings = self._crossings(most=COUNTED)
        named = [f"edge {self._named(edge)} and face {self._named(face)}" for edge, face in crossings[:NAMED]]
        found = "; ".join(named) if named else "surfaces that touch"
        by_pair: dict[tuple[str, str], list[Pair]] = {}
        for edge, face in crossings:
            one, other = sorted((self._body(edge[0]), self._body(face[0])))
            by_pair.setdefault((one, other), []).append((edge, face))
        pairs = sorted(by_pair)
        places = [self._vertices[by_pair[pair][0][0]].mean(0).tolist() for pair in pairs]
        raise IntersectionError(
            f"bodies must not intersect at the start, got {found}: {advice}",
            tuple(pairs),
            tuple(min(len(by_pair[pair]), COUNTED) for pair in pairs),
            tuple((x, y, z) for x, y, z in places),
            COUNTED,
        )

    def untangle(self, free: NDArray[np.bool_]) -> Array:
        """Vertices (V, 3), of which those that are `free` (V,) have moved until nothing crosses, if ever.

        Where an edge goes through a face, the end that is not far through goes back, and the face meets it
        half-way.
        """
        places, fewest, idle = self._vertices, np.inf, 0
        while idle < IDLE:
            crossings = self._crossings()
            if not crossings:
                break
            idle = 0 if len(crossings) < fewest else idle + 1
            fewest = min(fewest, len(crossings))
            edges, faces = (np.array(each) for each in zip(*crossings, strict=True))
            a, b, c = np.moveaxis(places[faces], 1, 0)
            normal = np.cross(b - a, c - a)
            normal /= np.linalg.norm(normal, axis=1)[:, None]
            depth = np.einsum("kej,kj->ke", places[edges] - a[:, None], normal)
            end = np.abs(depth).argmin(1)
            row = np.arange(len(edges))
            # A little farther than the surface, so that rounding does not keep it there.
            size = np.linalg.norm(places[edges[:, 1]] - places[edges[:, 0]], axis=1)
            way = -depth[row, end] - 0.02 * size * np.sign(depth[row, end])
            back = 0.5 * way[:, None] * normal
            moves, counts = np.zeros_like(places), np.zeros(len(places))
            for points, shift in ((edges[row, end], back), *((faces[:, k], -back) for k in range(3))):
                np.add.at(moves, points, shift)
                np.add.at(counts, points, 1)
            moves /= np.maximum(counts, 1)[:, None]
            places = np.asfortranarray(places + np.where(free[:, None], moves, 0.0))
            self._vertices = places
        return places

    def refuse_nearness(self, thickness: float) -> None:
        """Raise, naming the nearest pair."""
        everywhere = np.ones(len(self._vertices), np.bool_)
        (one, other), apart = min(self._near(thickness, everywhere), key=lambda found: found[1])
        raise InputError(
            f"thickness must be less than the distance of surfaces at the start: {thickness:g} m, but "
            f"{self._named(one)} and {self._named(other)} are {apart:.3g} m apart; "
            "with contact's grow thickness grows from there"
        )

    def _named(self, vertices: NDArray[np.int64]) -> str:
        """A primitive, by its body and points."""
        names = [self._scene.describe(int(self._particles[v])) for v in vertices]
        points, bodies = zip(*(name.split(" of ", 1) for name in names), strict=True)
        return f"{' '.join(points)} of {bodies[0]}"

    @cached_property
    def _bodies(self) -> NDArray[np.int64]:
        """The number of each vertex's body (V,), in the order of the bodies."""
        stops = [rows.stop for rows in self._scene.rows.values()]
        return np.searchsorted(stops, self._particles, side="right")

    def _body(self, vertex: int) -> str:
        """The name of the body of a vertex."""
        return str(list(self._scene.rows)[self._bodies[vertex]])

    def _around(self, tie: Tie) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Vertices (V,) that hang and that they hang on, with their neighbours."""
        sides = []
        for particles in (tie.rows, tie.parents):
            marked = np.zeros(len(self._scene.rest), np.bool_)
            marked[particles] = True
            side = marked[self._particles]
            touched = side.copy()
            touched[self._faces[side[self._faces].any(1)]] = True
            sides.append(touched)
        return sides[0], sides[1]

    def _widened(self, edge: NDArray[np.int64], face: NDArray[np.int64]) -> Pair:
        """All vertices of the faces around an edge, and around a face that it crosses.

        It will cross these next, when it slides or is drawn out.
        """
        around = (np.isin(self._faces, vertices).any(1) for vertices in (edge, face))
        one, other = (np.unique(self._faces[faces]).astype(np.int64) for faces in around)
        return one, np.setdiff1d(other, one)

    def _ring(self, region: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return a region (V,) with all vertices that share a face with it."""
        wider = region.copy()
        wider[self._faces[region[self._faces].any(1)]] = True
        return wider

    def _crossings(self, region: NDArray[np.bool_] | None = None, *, most: int | None = None) -> list[Pair]:
        """Return edges (2,) and faces (3,) that intersect, of which both touch a region (V,) if one is given.

        With `most`, two bodies are not looked at any more once so many of theirs are found.
        """
        edges, faces = self._edges, self._faces
        if region is not None:
            edges, faces = edges[region[edges].any(1)], faces[region[faces].any(1)]
        bodies = self._bodies
        allowed = self._mesh.can_collide
        found: list[Pair] = []
        counts: Counter[tuple[int, int]] = Counter()
        for start in range(0, len(edges), BLOCK):
            broad = self._ipc.LBVH()
            broad.can_vertices_collide = allowed
            block = np.ascontiguousarray(edges[start : start + BLOCK])
            broad.build(self._vertices, block, faces, 0.0)
            full: set[tuple[int, int]] = set()
            for edge, face in self._likely(block, faces, broad.detect_edge_face_candidates()):
                one, other = sorted((int(bodies[edge[0]]), int(bodies[face[0]])))
                if (one, other) not in full and self._ipc.is_edge_intersecting_triangle(
                    *self._vertices[edge], *self._vertices[face]
                ):
                    found.append((edge, face))
                    counts[one, other] += 1
                    if most is not None and counts[one, other] >= most:
                        full.add((one, other))
            for one, other in full:
                allowed = allowed & apart(self._ipc, bodies == one, bodies == other)
        return found

    def _likely(self, edges: NDArray[np.int32], faces: NDArray[np.int32], candidates: Any) -> Iterator[Pair]:
        """Yield edges and faces without a common vertex, unless both ends are on one side of the face."""
        ids = np.array([(c.edge_id, c.face_id) for c in candidates], np.int64).reshape(-1, 2)
        edge, face = edges[ids[:, 0]].astype(np.int64), faces[ids[:, 1]].astype(np.int64)
        a, b, c = np.moveaxis(self._vertices[face], 1, 0)
        normal = np.cross(b - a, c - a)
        away = self._vertices[edge] - a[:, None]
        depth = np.einsum("kej,kj->ke", away, normal)
        # What rounding may add: the exact test decides about all that is nearer.
        slack = 1e-9 * np.linalg.norm(away, axis=2) * np.linalg.norm(normal, axis=1)[:, None]
        aside = (depth > slack).all(1) | (depth < -slack).all(1)
        shared = (edge[:, :, None] == face[:, None, :]).any((1, 2))
        likely = ~aside & ~shared
        yield from zip(edge[likely], face[likely], strict=True)

    def _near(self, reach: float, region: NDArray[np.bool_]) -> list[tuple[Pair, float]]:
        """Points and faces, and pairs of edges, that touch a region (V,) and are nearer than `reach` (m)."""
        candidates = self._ipc.Candidates()
        candidates.build(self._mesh, self._vertices, reach / 2)
        points = np.array([(c.vertex_id, c.face_id) for c in candidates.fv_candidates], np.int64).reshape(
            -1, 2
        )
        edges = np.array([(c.edge0_id, c.edge1_id) for c in candidates.ee_candidates], np.int64).reshape(
            -1, 2
        )
        kinds = (
            (points[:, :1], self._faces[points[:, 1]]),
            (self._edges[edges[:, 0]], self._edges[edges[:, 1]]),
        )
        found = []
        for one, other in kinds:
            inside = region[one].any(1) & region[other].any(1)
            for a, b in zip(one[inside].astype(np.int64), other[inside].astype(np.int64), strict=True):
                apart = self._distance(a, b)
                if apart <= reach:
                    found.append(((a, b), apart))
        return found

    def _distance(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
        places = self._vertices
        if len(one) == 1:
            return float(np.sqrt(self._ipc.point_triangle_distance(places[one[0]], *places[other])))
        return float(np.sqrt(self._ipc.edge_edge_distance(*places[one], *places[other])))
