"""A bounding volume hierarchy of the triangles of a mesh: closest points and lines of sight."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from ..checks import Array, as_integers, as_reals, require_finite
from ..compute import run
from ..errors import InputError
from ..procrustes.space import vectors_to_space
from .kernels import trees as kernels
from .kernels.trees import TreeArrays
from .simplices import check_cells

__all__ = ["Boxes", "TriangleTree"]

# Triangles in a box that is not divided further: testing a handful costs less than another level.
LEAF_SIZE = 4
# Number of size classes whose triangles are searched separately: a large triangle would otherwise lengthen
# the lists of candidates of all.
SIZE_CLASSES = 8
# Least number of queries per thread: of those that walk a tree, and of those that look at one triangle.
WALKS_PER_THREAD, TRIANGLES_PER_THREAD = 256, 4096


class Boxes(NamedTuple):
    """The boxes of a balanced tree without pointers: node k has children 2k + 1 and 2k + 2."""

    order: NDArray[np.int64]
    """(m,), the triangles in the order of the leaves."""
    corners: Array
    """(m, 9), the corners of the triangles in that order [m]."""
    low: Array
    """(nodes, 3), the low corner of each box [m]."""
    high: Array
    """(nodes, 3), the high corner of each box [m]."""


class TriangleTree:
    """A tree of boxes around the triangles of a mesh, for closest points and lines of sight.

    Parameters
    ----------
    vertices : (n, 3) or (n, 2)
        The vertices [m]; a mesh of the plane lies at z = 0.
    faces : (m, 3)
        The triangles.

    Raises
    ------
    InputError
        If `faces` are not triangles, or a vertex is not finite.
    """

    def __init__(self, vertices: ArrayLike, faces: ArrayLike) -> None:
        points, self.faces = check_cells(vertices, faces)
        if self.faces.shape[1] != 3:
            raise InputError(f"faces must have shape (m, 3), got shape {self.faces.shape}")
        self.vertices = np.ascontiguousarray(vectors_to_space(points))

    @cached_property
    def boxes(self) -> Boxes:
        """The boxes; the k-th box of a level with 2^d nodes covers the k-th of 2^d parts of the order."""
        count = len(self.faces)
        depth = max(0, int(np.ceil(np.log2(count / LEAF_SIZE))))
        corners = self.vertices[self.faces]
        centroid = corners.mean(1)
        order = np.arange(count)
        for level in range(depth):
            bounds = _bounds(count, level)
            part = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
            low = np.minimum.reduceat(centroid[order], bounds[:-1], axis=0)
            high = np.maximum.reduceat(centroid[order], bounds[:-1], axis=0)
            axis = (high - low).argmax(1)[part]
            order = order[np.lexsort((centroid[order, axis], part))]
        starts = _bounds(count, depth)[:-1]
        lows = [np.minimum.reduceat(corners.min(1)[order], starts, axis=0)]
        highs = [np.maximum.reduceat(corners.max(1)[order], starts, axis=0)]
        while len(lows[-1]) > 1:
            lows.append(np.minimum(lows[-1][::2], lows[-1][1::2]))
            highs.append(np.maximum(highs[-1][::2], highs[-1][1::2]))
        flat = np.ascontiguousarray(corners[order].reshape(-1, 9))
        return Boxes(order, flat, np.concatenate(lows[::-1]), np.concatenate(highs[::-1]))

    @cached_property
    def arrays(self) -> TreeArrays:
        """The tree as kernels take it."""
        order, corners, low, high = self.boxes
        leaves = _bounds(len(order), (len(low) + 1).bit_length() - 2)
        return TreeArrays(self.faces[order], leaves, corners, low, high)

    def closest(self, points: ArrayLike) -> tuple[NDArray[np.int64], Array, Array]:
        """Find the closest triangle to each point.

        Parameters
        ----------
        points : (k, 3) or (k, 2)
            The points [m].

        Returns
        -------
        face : (k,)
            The closest triangle, a row of `faces`.
        weights : (k, 3)
            Weights of its corners in its closest point.
        distance : (k,)
            The distance to that point [m].

        Raises
        ------
        InputError
            If `points` has another shape, or a number is not finite.
        """
        given = as_reals("points", points).astype(np.float64)
        if given.ndim != 2 or given.shape[1] not in (2, 3):
            raise InputError(f"points must have shape (k, 3), got shape {given.shape}")
        require_finite("points", given)
        wanted = np.ascontiguousarray(vectors_to_space(given))
        face, weights = np.empty(len(wanted), np.int64), np.empty((len(wanted), 3))
        distance = np.empty(len(wanted))
        run(kernels.closest, len(wanted), WALKS_PER_THREAD, wanted, self.arrays, face, weights, distance)
        return self.boxes.order[face], weights, distance

    def closest_other(
        self,
        points: Array,
        shells: tuple[NDArray[np.int64], Array],
        face_shells: tuple[NDArray[np.int64], Array],
    ) -> tuple[NDArray[np.int64], Array]:
        """Find the triangle closest to each point of those that have another label.

        Distances are compared in sizes of the larger of the two shells that point and triangle belong to.

        Parameters
        ----------
        points : (k, 3)
            The points [m].
        shells : (k,) and (k,)
            The labels of the points, and the sizes of their shells, above 0 [m].
        face_shells : (m,) and (m,)
            Those of the triangles; at least two labels differ.

        Returns
        -------
        face : (k,)
            The closest triangle, a row of `faces`.
        distance : (k,)
            How far it is [m].
        """
        order, wanted = self.boxes.order, np.ascontiguousarray(points)
        labels, sizes = face_shells
        of_faces = (labels[order], sizes[order], float(max(sizes.max(), shells[1].max(initial=0.0))))
        face, distance = np.empty(len(wanted), np.int64), np.empty(len(wanted))
        run(
            kernels.closest_other,
            len(wanted),
            WALKS_PER_THREAD,
            wanted,
            shells,
            self.arrays,
            of_faces,
            face,
            distance,
        )
        return order[face], distance

    def within(
        self, points: ArrayLike, reach: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Array, Array]:
        """Find every triangle that is closer than `reach` to a point.

        Parameters
        ----------
        points : (k, 3) or (k, 2)
            The points [m].
        reach : float
            The distance [m].

        Returns
        -------
        point, face : (n,)
            The pairs: rows of `points` and of `faces`.
        weights : (n, 3)
            Weights of the triangle's corners in its point closest to the point asked for.
        distance : (n,)
            The distance to that point [m].
        """
        given = as_reals("points", points).astype(np.float64)
        corners = self.vertices[self.faces]
        centroid = corners.mean(1)
        size = np.linalg.norm(corners - centroid[:, None], axis=2).max(1)
        wanted = np.ascontiguousarray(vectors_to_space(given))
        parts: list[tuple[Array, Array]] = []
        rank = np.argsort(size)
        for chosen in np.array_split(rank, min(SIZE_CLASSES, len(rank))):
            tree = cKDTree(centroid[chosen])
            lists = tree.query_ball_point(wanted, reach + size[chosen].max(), workers=-1, return_sorted=True)
            counts = np.array([len(part) for part in lists])
            if counts.sum():
                found = chosen[np.concatenate([part for part in lists if part]).astype(np.int64)]
                parts.append((np.repeat(np.arange(len(wanted)), counts), found))
        if not parts:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, 3)), np.empty(0)
        point, face = (np.concatenate(column) for column in zip(*parts, strict=True))
        weights, distance = np.empty((len(point), 3)), np.empty(len(point))
        flat = np.ascontiguousarray(corners.reshape(-1, 9))
        run(
            kernels.closest_on_faces,
            len(point),
            TRIANGLES_PER_THREAD,
            wanted,
            point,
            flat,
            face,
            weights,
            distance,
        )
        close = distance < reach
        return point[close], face[close], weights[close], distance[close]

    def blocked(self, origin: ArrayLike, targets: ArrayLike) -> NDArray[np.bool_]:
        """Find out whether a triangle stands between a point and vertices of the mesh.

        Triangles that the vertex belongs to, or that the point lies on, are not counted.

        Parameters
        ----------
        origin : (3,)
            The point [m].
        targets : (k,)
            The vertices.

        Returns
        -------
        (k,)
            Whether each of them is hidden from the point.

        Raises
        ------
        InputError
            If `origin` has another shape, or a number is not finite.
        """
        eye, vertices = as_reals("origin", origin).astype(np.float64), as_integers("targets", targets)
        if eye.shape != (3,):
            raise InputError(f"origin must have shape (3,), got shape {eye.shape}")
        require_finite("origin", eye)
        hidden = np.empty(len(vertices), np.bool_)
        run(
            kernels.blocked,
            len(vertices),
            WALKS_PER_THREAD,
            eye,
            self.vertices,
            vertices,
            self.arrays,
            hidden,
        )
        return hidden


def _bounds(count: int, level: int) -> NDArray[np.int64]:
    """Return where the 2^level parts of `count` items begin and end."""
    return np.asarray(np.arange(2**level + 1) * count // 2**level)
