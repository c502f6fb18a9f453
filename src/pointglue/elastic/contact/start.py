"""Checks of the start, before anything moves: intersections, surfaces that are too near, bonded surfaces."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...errors import InputError, IntersectionError
from ..model.bound_points import InitialBond
from ..model.solver_model import SolverModel
from .collision_mesh import CollisionMesh

__all__ = ["PrimitivePair", "ProximityQuery"]

MAX_NAMED_PAIRS = 5  # pairs of primitives that an error names
# Intersections that are counted for two bodies: a mesh that goes through itself everywhere has millions.
MAX_COUNTED_INTERSECTIONS = 1000
MAX_IDLE_ROUNDS = 20  # rounds of untangling without fewer intersections, after which it is given up
UNTANGLE_OVERSHOOT = 0.02  # ratio of an edge's length: how far beyond a face untangling moves an end


KINDS = {1: "point", 2: "edge", 3: "face"}  # of primitives, by the number of their vertices

PrimitivePair = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The vertices of two primitives (edge and face, point and face, or two edges) or of their surroundings."""


class ProximityQuery:
    """Intersections and near pairs of a collision mesh whose vertices are at given positions.

    Parameters
    ----------
    mesh : CollisionMesh
        The collision mesh.
    particles : (V,)
        The particle of each vertex.
    model : SolverModel
        The bodies that the particles belong to.
    vertices : (V, 3)
        Positions of the vertices [m].
    """

    def __init__(
        self, mesh: CollisionMesh, particles: NDArray[np.int64], model: SolverModel, vertices: Array
    ) -> None:
        self._mesh, self._particles, self._model = mesh, particles, model
        self._vertices = vertices
        self._faces, self._edges = mesh.arrays.faces, mesh.arrays.edges

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
        intersecting += self._mesh.entered(self._vertices)
        return intersecting + [pair for pair, _ in self._near(thickness, everywhere)]

    def refuse_intersections(self, advice: str) -> None:
        """Raise an error that names pairs and gives advice, if surfaces intersect."""
        crossed, entered = self._intersections(), self._mesh.entered(self._vertices)
        if not crossed and not entered:
            return
        most = MAX_COUNTED_INTERSECTIONS
        named = [f"edge {self._named(edge)} and face {self._named(face)}" for edge, face in crossed]
        named += [f"{KINDS[len(one)]} {self._named(one)} in {self._named(other)}" for one, other in entered]
        found = "; ".join(named[:MAX_NAMED_PAIRS])
        pairs_found = crossed + entered
        ends = np.array([[one[0], other[0]] for one, other in pairs_found])
        bodies = np.sort(self._bodies[ends], axis=1)
        numbers, first, counts = np.unique(bodies, axis=0, return_index=True, return_counts=True)
        names = list(self._model.rows)
        told = sorted(
            (
                tuple(sorted((names[one], names[other]))),
                min(count, most),
                self._vertices[pairs_found[k][0]].mean(0).tolist(),
            )
            for (one, other), count, k in zip(numbers, counts.tolist(), first.tolist(), strict=True)
        )
        pairs, counted, positions = zip(*told, strict=True)
        raise IntersectionError(
            f"bodies must not intersect at the start, got {found}: {advice}",
            pairs,
            counted,
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
            intersections, entered = self._intersections(), self._mesh.entered(x)
            count = len(intersections) + len(entered)
            if not count:
                break
            idle = 0 if count < fewest else idle + 1
            fewest = min(fewest, count)
            moves, counts = np.zeros_like(x), np.zeros(len(x))
            if intersections:
                self._draw_apart(intersections, moves, counts)
            for points, solid in entered:
                np.add.at(moves, points, self._way_out(points, solid))
                np.add.at(counts, points, 1)
            moves /= np.maximum(counts, 1)[:, None]
            x = x + np.where(free[:, None], moves, 0.0)
            self._vertices = x
        return x

    def _draw_apart(self, intersections: list[PrimitivePair], moves: Array, counts: Array) -> None:
        """Add the ways (V, 3) that draw edges out of faces, and count them for each vertex (V,)."""
        x = self._vertices
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
        for points, shift in ((edges[row, end], back), *((faces[:, k], -back) for k in range(3))):
            np.add.at(moves, points, shift)
            np.add.at(counts, points, 1)

    def _way_out(self, points: NDArray[np.int64], solid: NDArray[np.int64]) -> Array:
        """Return the way (3,) by which a primitive leaves a collider by formula, or comes nearer to that."""
        x, own = self._vertices[points], self._vertices[solid]
        depth, size = 0.0, 0.0
        if len(solid) == 3:
            normal = np.cross(own[1] - own[0], own[2] - own[0])
            normal /= np.linalg.norm(normal)
            depth = float(-((x - own[0]) @ normal).min())
            size = float(np.linalg.norm(own[1] - own[0]))
        else:
            axis, middle = own[-1] - own[0], x.mean(0)
            along = float(np.clip((middle - own[0]) @ axis / max(axis @ axis, np.finfo(float).tiny), 0, 1))
            normal = middle - own[0] - along * axis
            size, height = float(self._mesh.arrays.radius[solid[0]]), float(np.linalg.norm(normal))
            normal, depth = normal / height, max(size - height, 0.0)
        return np.asarray((depth + UNTANGLE_OVERSHOOT * size) * normal)

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
        """Return the description of a primitive by its body and points; that of a collider is its name."""
        if self._mesh.arrays.radius[vertices[0]] > 0.0 or vertices[0] in self._mesh.planes:
            return repr(list(self._model.rows)[self._bodies[vertices[0]]])
        names = [self._model.describe(int(self._particles[v])) for v in vertices]
        points, bodies = zip(*(name.split(" of ", 1) for name in names), strict=True)
        return f"{' '.join(points)} of {bodies[0]}"

    @cached_property
    def _bodies(self) -> NDArray[np.int64]:
        """The number of each vertex's body (V,), in the order of the bodies."""
        stops = [rows.stop for rows in self._model.rows.values()]
        return np.searchsorted(stops, self._particles, side="right")

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

    def _intersections(self, region: NDArray[np.bool_] | None = None) -> list[PrimitivePair]:
        """Return edges (2,) and faces (3,) that intersect, and of which both touch a region (V,) if given."""
        pairs = self._mesh.crossings(self._vertices)
        edges, faces = self._edges[pairs[:, 0]], self._faces[pairs[:, 1]]
        if region is not None:
            inside = region[edges].any(1) & region[faces].any(1)
            edges, faces = edges[inside], faces[inside]
        return list(zip(edges, faces, strict=True))

    def _near(self, reach: float, region: NDArray[np.bool_]) -> list[tuple[PrimitivePair, float]]:
        """Return point-face and edge-edge pairs of a region (V,) within `reach`, with their distances.

        All lengths are in m.
        """
        x = self._vertices
        candidates = self._mesh.candidates(x, x, reach)
        by_face, by_edge = self._mesh.distances(x, candidates, reach)
        above = self._mesh.above
        kinds = (
            (candidates.faces[:, :1].astype(np.int64), self._faces[candidates.faces[:, 1]], by_face),
            (self._edges[candidates.edges[:, 0]], self._edges[candidates.edges[:, 1]], by_edge),
            (above[:, :1], self._mesh.planes[above[:, 1]], self._mesh.heights(x)),
        )
        found = []
        for one, other, lengths in kinds:
            inside = region[one].any(1) & region[other].any(1) & (lengths <= reach)
            pairs = zip(one[inside], other[inside], strict=True)
            found += list(zip(pairs, lengths[inside].tolist(), strict=True))
        return found
