"""A surface within which distances are measured: along lines of sight, then along the edges of the mesh."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from ..checks import Array
from ..errors import InputError
from ..geometry.bvh import TriangleTree
from ..geometry.inside import Inside
from ..geometry.meshes.shells import Shells
from ..geometry.simplices import check_cells
from ..geometry.welding import bounding_diagonal, edge_lengths, vertex_components, weld
from ..geometry.winding import winding_numbers
from .flatness import flat_frame

__all__ = ["InsideShape"]

# Ratios to the size of the mesh: how close to the surface a handle is on it, and how far within its lines of
# sight then begin.
ON_SURFACE, INWARD_STEP = 1e-4, 1e-5
# Winding numbers (1 inside, 0 outside, in size) that tell the inside of a wall from the outside.
LEAST_INSIDE, MOST_OUTSIDE = 0.75, 0.25
# m: an edge of length 0 would mean to the search that there is no edge.
SHORTEST_EDGE = 1e-300
# Ratio to the size of the shell that it sits on: a smaller shell, a tooth or an eye, is measured from one
# place and so moves as a whole; a larger one, a coat, from all places where the two are close.
SMALL_SHELL = 0.1


class InsideShape:
    """A surface, ready for distances from one handle after the other, measured as `inside_distances` does.

    Parameters
    ----------
    vertices : (V, 3)
        The vertices [m].
    faces : (m, 3)
        The triangles.

    Raises
    ------
    InputError
        If these are no triangles between finite vertices in space.
    """

    def __init__(self, vertices: Array, faces: NDArray[np.int64]) -> None:
        points, cells = check_cells(vertices, faces)
        if points.shape[1] != 3 or cells.shape[1] != 3:
            raise InputError(f"faces must be triangles (m, 3) in space, got shape {cells.shape}")
        self._points, self._place = weld(points, bounding_diagonal(points))
        cells = self._place[cells]
        self._tree, self._edges = TriangleTree(self._points, cells), edge_lengths(self._points, cells)
        # In a plane no triangle stands in the way of another one: there, ways are measured over the surface.
        used = self._points[np.unique(cells)]
        self._flat = Inside(self._points, cells) if flat_frame(used) is not None else None

    def distances(self, handle: Array, number: int = 0) -> tuple[Array, int]:
        """Measure how far every vertex is from a handle.

        Parameters
        ----------
        handle : (3,)
            Where it is [m].
        number : int
            What it is called in messages.

        Returns
        -------
        distances : (V,)
            The distances [m].
        unreached : int
            How many vertices cannot be reached inside the shape.

        Raises
        ------
        InputError
            If the handle sees no vertex.
        """
        if self._flat is None:
            distance = _from_one(self._tree, self._edges, self._points, handle, number)
        else:
            distance = self._flat.distances_from(handle)
        unreached = ~np.isfinite(distance)
        if unreached.any():
            distance = self._over_bridges(distance)
            stray = ~np.isfinite(distance)
            if stray.any():
                gap, index = cKDTree(self._points[~stray]).query(self._points[stray])
                distance[stray] = distance[~stray][index] + gap
        return distance[self._place], int(unreached.sum())

    @cached_property
    def _bridges(self) -> NDArray[np.int64]:
        """Pairs of vertices (k, 2) by which all shells are joined."""
        shells = Shells(self._tree, vertex_components(len(self._points), self._tree.faces))
        close, _ = shells.close_places
        sizes = shells.sizes[shells.components[close]]
        close = close[sizes.min(1) >= SMALL_SHELL * sizes.max(1)]
        return np.unique(np.concatenate([shells.bridges[0], close]), axis=0)

    def _over_bridges(self, distance: Array) -> Array:
        """Return distances with those of shells out of reach: over the bridges to them, then along edges."""
        lost = np.flatnonzero(~np.isfinite(distance))
        number = np.full(len(distance), -1)
        number[lost] = np.arange(len(lost))
        pairs = np.concatenate([self._bridges, self._bridges[:, ::-1]])
        length = np.linalg.norm(self._points[pairs[:, 0]] - self._points[pairs[:, 1]], axis=1)
        length = np.maximum(length, SHORTEST_EDGE)
        there = np.isfinite(distance[pairs])
        first = np.full(len(lost), np.inf)
        over = there[:, 0] & ~there[:, 1]
        np.minimum.at(first, number[pairs[over, 1]], distance[pairs[over, 0]] + length[over])
        begin, within = np.flatnonzero(np.isfinite(first)), ~there.any(1)
        edges = self._edges[lost][:, lost].tocoo()
        rows = (edges.row, number[pairs[within, 0]], np.full(len(begin), len(lost)))
        columns = (edges.col, number[pairs[within, 1]], begin)
        values = (edges.data, length[within], np.maximum(first[begin], SHORTEST_EDGE))
        graph = coo_array(
            (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
            shape=(len(lost) + 1, len(lost) + 1),
        )
        result = distance.copy()
        result[lost] = dijkstra(graph.tocsr(), directed=True, indices=len(lost))[: len(lost)]
        return result


def _view_origin(tree: TriangleTree, handle: Array) -> Array:
    """Return where the lines of sight of a handle begin: at itself, or if it is on the surface, just within.

    A handle picked on a vertex would see both sides of the wall, and through the air. Which side is within
    is told by winding numbers, whatever way the faces are turned; an open mesh may have no such side.
    """
    size = bounding_diagonal(tree.vertices)
    (face,), weights, (distance,) = tree.closest(handle[None])
    corners = tree.vertices[tree.faces[face]]
    normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
    length = np.linalg.norm(normal)
    if distance > ON_SURFACE * size or not length > 0:
        return handle
    sides = weights[0] @ corners + INWARD_STEP * size * np.array([[1.0], [-1.0]]) * normal / length
    inside = np.abs(winding_numbers(tree, sides))
    if inside.max() < LEAST_INSIDE or inside.min() > MOST_OUTSIDE:
        return handle
    return np.asarray(sides[inside.argmax()])


def _from_one(tree: TriangleTree, edges: csr_array, vertices: Array, handle: Array, number: int) -> Array:
    """Return the distance (V,) of every vertex from one handle [m]; infinite where there is no path.

    Vertices in sight are at their straight distance; Dijkstra's search along the edges finds the rest.
    """
    straight = np.linalg.norm(vertices - handle, axis=1)
    used = np.diff(edges.indptr) > 0  # vertices of no face block nothing and are part of no surface
    visible = used & ~tree.blocked(_view_origin(tree, handle), np.arange(len(vertices)))
    if not visible.any():
        raise InputError(
            f"handle {number} at {handle.tolist()} sees no vertex of the mesh: it is within a wall or among "
            f"triangles that enclose it. Move it, or choose distance='euclidean'"
        )
    # The straight line is the shortest path to what is seen. The search is for the rest, and starts from
    # the seen vertices next to it.
    distance = np.where(visible, straight, np.inf)
    hidden = ~visible & used
    border = visible & (np.diff(edges[:, np.flatnonzero(hidden)].indptr) > 0)
    nodes = np.flatnonzero(hidden | border)
    if len(nodes):
        some = edges[nodes][:, nodes]
        begin = np.flatnonzero(border[nodes])
        lengths = np.maximum(straight[nodes[begin]], SHORTEST_EDGE)
        graph = csr_array(
            (
                np.concatenate([some.data, lengths]),
                np.concatenate([some.indices, begin]),
                np.append(some.indptr, len(some.data) + len(begin)),
            ),
            shape=(len(nodes) + 1, len(nodes) + 1),
        )
        found = dijkstra(graph, directed=True, indices=len(nodes))[: len(nodes)]
        distance[nodes] = np.where(hidden[nodes], found, distance[nodes])
    return distance
