"""Checks of the start, before anything moves: intersections, surfaces that are too near, bonded surfaces."""

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...errors import InputError, IntersectionError
from ..model.bound_points import InitialBond
from ..model.solver_model import SolverModel

__all__ = ["PrimitivePair", "ProximityQuery", "no_collision_filter"]

MAX_NAMED_PAIRS = 5  # pairs of primitives that an error names
# Intersections that are counted for two bodies: a mesh that goes through itself everywhere has millions.
MAX_COUNTED_INTERSECTIONS = 1000
EDGES_PER_BATCH = 8192  # edges that are searched together, which bounds the memory of their candidates
MAX_IDLE_ROUNDS = 20  # rounds of untangling without fewer intersections, after which it is given up
UNTANGLE_OVERSHOOT = 0.02  # ratio of an edge's length: how far beyond a face untangling moves an end


PrimitivePair = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The vertices of two primitives (edge and face, point and face, or two edges) or of their surroundings."""


def no_collision_filter(ipc: Any, one: NDArray[np.bool_], other: NDArray[np.bool_]) -> Any:
    """Return a collision filter by which the vertices of two bodies do not collide.

    Parameters
    ----------
    ipc : module
        The IPC Toolkit.
    one, other : (V,)
        Masks of the bodies' vertices. If they are equal, it is one body that does not collide with itself.

    Returns
    -------
    A filter of the toolkit.
    """
    make, alone = ipc.make_vertex_patches_filter, np.arange(len(one)) + 1

    def within(mask: NDArray[np.bool_]) -> Any:
        return make(np.where(mask, 0, alone).astype(np.int32))

    if np.array_equal(one, other):
        return within(one)
    return within(one | other) | ~within(one) | ~within(other)


class ProximityQuery:
    """Intersections and near pairs of a collision mesh whose vertices are at given positions.

    Parameters
    ----------
    ipc : module
        The IPC Toolkit.
    mesh : ipctk.CollisionMesh
        The collision mesh.
    particles : (V,)
        The particle of each vertex.
    model : SolverModel
        The bodies that the particles belong to.
    vertices : (V, 3)
        Positions of the vertices [m].
    """

    def __init__(
        self, ipc: Any, mesh: Any, particles: NDArray[np.int64], model: SolverModel, vertices: Array
    ) -> None:
        self._ipc, self._mesh, self._particles, self._model = ipc, mesh, particles, model
        self._vertices = vertices
        self._faces, self._edges = np.asarray(mesh.faces), np.asarray(mesh.edges)

    def bonded_pairs(self, thickness: float, distance: float) -> list[list[PrimitivePair]]:
        """Return, for each initial bond, the pairs of primitives around it that are too near to collide.

        For glue these are pairs within the reach of contact, thickness + distance [m]; for joints, pairs
        nearer than the thickness [m].
        """
        sides = [self._around(bond) for bond in self._model.initial_bonds]
        # Points that are bonded to a body without faces, such as a cage, have nothing to collide with.
        facing = [first | second for first, second in sides if first.any() and second.any()]
        if not facing:
            return [[] for _ in sides]
        region = np.any(facing, axis=0)
        intersecting = [self._widened(*pair) for pair in self._intersections(self._ring(region))]
        near = self._near(thickness + distance, region)
        out = []
        for bond, (first, second) in zip(self._model.initial_bonds, sides, strict=True):
            reach = thickness + distance if bond.joints is None else thickness
            kept = intersecting + [pair for pair, length in near if length <= reach]
            out.append([
                (one, other)
                for one, other in kept
                if (first[one].any() and second[other].any()) or (second[one].any() and first[other].any())
            ])  # fmt: skip
        return out

    def too_near(self, thickness: float) -> list[PrimitivePair]:
        """Return the pairs of primitives that intersect, or are nearer than the thickness [m]."""
        everywhere = np.ones(len(self._vertices), np.bool_)
        intersecting = [self._widened(*pair) for pair in self._intersections()]
        return intersecting + [pair for pair, _ in self._near(thickness, everywhere)]

    def refuse_intersections(self, advice: str) -> None:
        """Raise an error that names pairs and gives advice, if surfaces intersect."""
        if not self._ipc.has_intersections(self._mesh, self._vertices):
            return
        most = MAX_COUNTED_INTERSECTIONS
        pairs_found = self._intersections(most=most)
        named = [
            f"edge {self._named(edge)} and face {self._named(face)}"
            for edge, face in pairs_found[:MAX_NAMED_PAIRS]
        ]
        found = "; ".join(named) if named else "surfaces that touch"
        by_pair: dict[tuple[str, str], list[PrimitivePair]] = {}
        for edge, face in pairs_found:
            one, other = sorted((self._body(edge[0]), self._body(face[0])))
            by_pair.setdefault((one, other), []).append((edge, face))
        pairs = sorted(by_pair)
        positions = [self._vertices[by_pair[pair][0][0]].mean(0).tolist() for pair in pairs]
        raise IntersectionError(
            f"bodies must not intersect at the start, got {found}: {advice}",
            tuple(pairs),
            tuple(min(len(by_pair[pair]), most) for pair in pairs),
            tuple((x, y, z) for x, y, z in positions),
            most,
        )

    def untangle(self, free: NDArray[np.bool_]) -> Array:
        """Move vertices until nothing intersects, or no progress is made.

        Where an edge goes through a face, the end of lesser depth goes back, and the face meets it half-way.

        Parameters
        ----------
        free : (V,)
            Which vertices may move.

        Returns
        -------
        (V, 3)
            The vertices after that [m].
        """
        x, fewest, idle = self._vertices, np.inf, 0
        while idle < MAX_IDLE_ROUNDS:
            intersections = self._intersections()
            if not intersections:
                break
            idle = 0 if len(intersections) < fewest else idle + 1
            fewest = min(fewest, len(intersections))
            edges, faces = (np.array(each) for each in zip(*intersections, strict=True))
            a, b, c = np.moveaxis(x[faces], 1, 0)
            normal = np.cross(b - a, c - a)
            normal /= np.linalg.norm(normal, axis=1)[:, None]
            depth = np.einsum("kej,kj->ke", x[edges] - a[:, None], normal)
            end = np.abs(depth).argmin(1)
            row = np.arange(len(edges))
            # A little farther than the surface, so that rounding does not keep it there.
            size = np.linalg.norm(x[edges[:, 1]] - x[edges[:, 0]], axis=1)
            way = -depth[row, end] - UNTANGLE_OVERSHOOT * size * np.sign(depth[row, end])
            back = 0.5 * way[:, None] * normal
            moves, counts = np.zeros_like(x), np.zeros(len(x))
            for points, shift in ((edges[row, end], back), *((faces[:, k], -back) for k in range(3))):
                np.add.at(moves, points, shift)
                np.add.at(counts, points, 1)
            moves /= np.maximum(counts, 1)[:, None]
            x = np.asfortranarray(x + np.where(free[:, None], moves, 0.0))
            self._vertices = x
        return x

    def refuse_nearness(self, thickness: float) -> None:
        """Raise an error that names the nearest pair."""
        everywhere = np.ones(len(self._vertices), np.bool_)
        (one, other), length = min(self._near(thickness, everywhere), key=lambda found: found[1])
        raise InputError(
            f"thickness must be less than the distance of surfaces at the start: {thickness:g} m, but "
            f"{self._named(one)} and {self._named(other)} are {length:.3g} m apart; "
            "with contact's grow thickness grows from there"
        )

    def _named(self, vertices: NDArray[np.int64]) -> str:
        """Return the description of a primitive by its body and points."""
        names = [self._model.describe(int(self._particles[v])) for v in vertices]
        points, bodies = zip(*(name.split(" of ", 1) for name in names), strict=True)
        return f"{' '.join(points)} of {bodies[0]}"

    @cached_property
    def _bodies(self) -> NDArray[np.int64]:
        """The number of each vertex's body (V,), in the order of the bodies."""
        stops = [rows.stop for rows in self._model.rows.values()]
        return np.searchsorted(stops, self._particles, side="right")

    def _body(self, vertex: int) -> str:
        """Return the name of the body of a vertex."""
        return str(list(self._model.rows)[self._bodies[vertex]])

    def _around(self, bond: InitialBond) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return masks (V,) of the bound vertices and of their parents, each with their neighbours."""
        sides = []
        for particles in (bond.particles, bond.parents):
            marked = np.zeros(len(self._model.rest), np.bool_)
            marked[particles] = True
            side = marked[self._particles]
            # A body without faces is met by the mesh that another bond binds to it.
            marked[self._particles] = False
            following = self._model.followers(marked)
            following[bond.particles] = False
            side |= following[self._particles]
            touched = side.copy()
            touched[self._faces[side[self._faces].any(1)]] = True
            sides.append(touched)
        return sides[0], sides[1]

    def _widened(self, edge: NDArray[np.int64], face: NDArray[np.int64]) -> PrimitivePair:
        """Return all vertices of the faces around an edge, and around a face that it intersects.

        The edge will intersect these next, when it slides or is drawn out.
        """
        around = (np.isin(self._faces, vertices).any(1) for vertices in (edge, face))
        one, other = (np.unique(self._faces[faces]).astype(np.int64) for faces in around)
        return one, np.setdiff1d(other, one)

    def _ring(self, region: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the mask (V,) of a region and of all vertices that share a face with it."""
        wider = region.copy()
        wider[self._faces[region[self._faces].any(1)]] = True
        return wider

    def _intersections(
        self, region: NDArray[np.bool_] | None = None, *, most: int | None = None
    ) -> list[PrimitivePair]:
        """Return edges (2,) and faces (3,) that intersect, of which both touch a region (V,) if one is given.

        With `most`, the search skips two bodies once that many of their intersections are found.
        """
        edges, faces = self._edges, self._faces
        if region is not None:
            edges, faces = edges[region[edges].any(1)], faces[region[faces].any(1)]
        bodies = self._bodies
        allowed = self._mesh.can_collide
        found: list[PrimitivePair] = []
        counts: Counter[tuple[int, int]] = Counter()
        for start in range(0, len(edges), EDGES_PER_BATCH):
            broad = self._ipc.LBVH()
            broad.can_vertices_collide = allowed
            batch = np.ascontiguousarray(edges[start : start + EDGES_PER_BATCH])
            broad.build(self._vertices, batch, faces, 0.0)
            full: set[tuple[int, int]] = set()
            for edge, face in self._likely(batch, faces, broad.detect_edge_face_candidates()):
                one, other = sorted((int(bodies[edge[0]]), int(bodies[face[0]])))
                if (one, other) not in full and self._ipc.is_edge_intersecting_triangle(
                    *self._vertices[edge], *self._vertices[face]
                ):
                    found.append((edge, face))
                    counts[one, other] += 1
                    if most is not None and counts[one, other] >= most:
                        full.add((one, other))
            for one, other in full:
                allowed = allowed & no_collision_filter(self._ipc, bodies == one, bodies == other)
        return found

    def _likely(
        self, edges: NDArray[np.int32], faces: NDArray[np.int32], candidates: Any
    ) -> Iterator[PrimitivePair]:
        """Yield edges and faces without a common vertex, unless both ends are on one side of the face."""
        ids = np.array([(c.edge_id, c.face_id) for c in candidates], np.int64).reshape(-1, 2)
        edge, face = edges[ids[:, 0]].astype(np.int64), faces[ids[:, 1]].astype(np.int64)
        a, b, c = np.moveaxis(self._vertices[face], 1, 0)
        normal = np.cross(b - a, c - a)
        away = self._vertices[edge] - a[:, None]
        depth = np.einsum("kej,kj->ke", away, normal)
        # This much may be rounding: the exact test decides about all that is nearer.
        slack = 1e-9 * np.linalg.norm(away, axis=2) * np.linalg.norm(normal, axis=1)[:, None]
        aside = (depth > slack).all(1) | (depth < -slack).all(1)
        shared = (edge[:, :, None] == face[:, None, :]).any((1, 2))
        likely = ~aside & ~shared
        yield from zip(edge[likely], face[likely], strict=True)

    def _near(self, reach: float, region: NDArray[np.bool_]) -> list[tuple[PrimitivePair, float]]:
        """Return point-face and edge-edge pairs of a region (V,) within `reach`, with their distances.

        All lengths are in m.
        """
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
                length = self._distance(a, b)
                if length <= reach:
                    found.append(((a, b), length))
        return found

    def _distance(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
        """Return the distance of a point and a face, or of two edges [m]."""
        x = self._vertices
        if len(one) == 1:
            return float(np.sqrt(self._ipc.point_triangle_distance(x[one[0]], *x[other])))
        return float(np.sqrt(self._ipc.edge_edge_distance(*x[one], *x[other])))
