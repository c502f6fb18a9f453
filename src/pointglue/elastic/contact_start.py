"""What is looked at once, before anything moves: intersections, nearness, and what glue holds together."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import Array
from ..errors import InputError
from .scene import Scene

__all__ = ["Start"]

NAMED = 5  # pairs that an error names
ROUNDS = 200  # of untangling, after which it is given up


class Start:
    """A collision mesh of the toolkit `ipc` with its vertices (V, 3) where they start."""

    def __init__(
        self, ipc: Any, mesh: Any, particles: NDArray[np.int64], scene: Scene, vertices: Array
    ) -> None:
        self._ipc, self._mesh, self._particles, self._scene = ipc, mesh, particles, scene
        self._vertices = vertices
        self._faces, self._edges = np.asarray(mesh.faces), np.asarray(mesh.edges)

    def glued_pairs(self, reach: float) -> dict[tuple[int, int], bool]:
        """Pairs of vertices, as a filter reads them, that glue holds nearer than `reach` (m)."""
        sides = [self._around(*ends) for ends in self._glued()]
        if not sides:
            return {}
        blocked: set[tuple[int, int]] = set()
        for one, other in [*self._crossings(), *self._near(reach)]:
            for first, second in sides:
                if (first[one].any() and second[other].any()) or (second[one].any() and first[other].any()):
                    near, far = self._widened(one), self._widened(other)
                    blocked |= {(min(i, j), max(i, j)) for i in near for j in far if i != j}
                    break
        return dict.fromkeys(sorted(blocked), False)

    def refuse_intersections(self) -> None:
        """Raise, naming pairs, if surfaces intersect."""
        if not self._ipc.has_intersections(self._mesh, self._vertices):
            return
        pairs = [
            f"edge {self._named(edge)} and face {self._named(face)}"
            for edge, face in self._crossings()[:NAMED]
        ]
        raise InputError(
            "bodies must not intersect at the start, got "
            + "; ".join(pairs)
            + ": move them apart, let contact "
            "ignore the pair, or untangle them with its grow"
        )

    def untangle(self, free: NDArray[np.bool_]) -> Array:
        """Vertices (V, 3), of which those that are `free` (V,) have moved until nothing crosses, if ever.

        Where an edge goes through a face, the end that is not far through goes back, and the face meets it
        half-way.
        """
        places = self._vertices
        for _ in range(ROUNDS):
            crossings = self._crossings()
            if not crossings:
                break
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

    def least_distance(self, reach: float) -> float:
        """Between surfaces (m), or infinity if that is more than `reach`."""
        return min((self._distance(one, other) for one, other in self._near(reach)), default=np.inf)

    def refuse_nearness(self, thickness: float) -> None:
        """Raise, naming the nearest pair."""
        one, other = min(self._near(thickness), key=lambda pair: self._distance(*pair))
        raise InputError(
            f"thickness must be less than the distance of surfaces at the start: {thickness:g} m, but "
            f"{self._named(one)} and {self._named(other)} are {self._distance(one, other):.3g} m apart; "
            "with contact's grow thickness grows from there"
        )

    def _named(self, vertices: NDArray[np.int64]) -> str:
        """A primitive, by its body and points."""
        names = [self._scene.describe(int(self._particles[v])) for v in vertices]
        points, bodies = zip(*(name.split(" of ") for name in names), strict=True)
        return f"{' '.join(points)} of {bodies[0]}"

    def _glued(self) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        """For each bond and joint: the particles (N,) that hang, and those that they hang on."""
        scene, out = self._scene, []
        for rows, parents in scene.bonds:
            one, other = np.zeros((2, len(scene.rest)), np.bool_)
            one[rows], other[parents] = True, True
            out.append((one, other))
        return out

    def _around(
        self, one: NDArray[np.bool_], other: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Such particles, as vertices, with their neighbours."""
        sides = []
        for side in (one[self._particles], other[self._particles]):
            touched = side.copy()
            touched[self._faces[side[self._faces].any(1)]] = True
            sides.append(touched)
        return sides[0], sides[1]

    def _widened(self, vertices: NDArray[np.int64]) -> list[int]:
        """The vertices of all faces that have these: where the glue gives, its neighbours meet first."""
        faces = np.isin(self._faces, vertices).sum(1) == len(vertices)
        return [int(v) for v in np.unique(self._faces[faces])]

    def _crossings(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Edges (2,) and faces (3,) that intersect."""
        broad = self._ipc.LBVH()
        broad.can_vertices_collide = self._mesh.can_collide
        broad.build(self._vertices, self._edges, self._faces, 0.0)
        found = []
        for candidate in broad.detect_edge_face_candidates():
            edge, face = self._edges[candidate.edge_id], self._faces[candidate.face_id]
            if not np.isin(edge, face).any() and self._ipc.is_edge_intersecting_triangle(
                *self._vertices[edge], *self._vertices[face]
            ):
                found.append((edge.astype(np.int64), face.astype(np.int64)))
        return found

    def _near(self, reach: float) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Faces and points, and pairs of edges, that are nearer than `reach` (m)."""
        candidates = self._ipc.Candidates()
        candidates.build(self._mesh, self._vertices, reach / 2)
        found = []
        for candidate in [*candidates.fv_candidates, *candidates.ee_candidates]:
            squared = candidate.compute_distance(self._vertices, self._edges, self._faces)
            if squared < reach**2:
                if hasattr(candidate, "face_id"):
                    one, other = np.array([candidate.vertex_id]), self._faces[candidate.face_id]
                else:
                    one, other = self._edges[candidate.edge0_id], self._edges[candidate.edge1_id]
                found.append((one.astype(np.int64), other.astype(np.int64)))
        return found

    def _distance(self, one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
        places = self._vertices
        if len(one) == 1:
            return float(np.sqrt(self._ipc.point_triangle_distance(places[one[0]], *places[other])))
        return float(np.sqrt(self._ipc.edge_edge_distance(*places[one], *places[other])))
