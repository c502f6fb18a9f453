"""Closest points of triangle meshes, through a tree of boxes."""

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from ..checks import Array, as_integers, as_reals, require_finite
from ..compute import run
from ..errors import InputError
from ..procrustes.space import vectors_to_space
from . import kernels
from .simplices import check_cells

__all__ = ["TriangleTree"]

# Triangles in a box that is not divided further: testing a handful costs less than another level.
LEAF = 4


class TriangleTree:
    """The triangles (m, 3) between vertices (n, 3), sorted for questions about the closest point."""

    def __init__(self, vertices: ArrayLike, faces: ArrayLike) -> None:
        points, self.faces = check_cells(vertices, faces)
        if self.faces.shape[1] != 3:
            raise InputError(f"faces must have shape (m, 3), got shape {self.faces.shape}")
        self.vertices = np.ascontiguousarray(vectors_to_space(points))

    @cached_property
    def boxes(self) -> tuple[NDArray[np.int64], Array, Array, Array]:
        """Triangles in the order of the leaves, their corners (m, 9), and low and high corners of the boxes.

        The tree is balanced and has no pointers: node k has children 2k + 1 and 2k + 2, and node k of a
        level with 2^d nodes covers the k-th part of the order.
        """
        count = len(self.faces)
        depth = max(0, int(np.ceil(np.log2(count / LEAF))))
        corners = self.vertices[self.faces]
        middle = corners.mean(1)
        order = np.arange(count)
        for level in range(depth):
            bounds = _bounds(count, level)
            part = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
            low = np.minimum.reduceat(middle[order], bounds[:-1], axis=0)
            high = np.maximum.reduceat(middle[order], bounds[:-1], axis=0)
            axis = (high - low).argmax(1)[part]
            order = order[np.lexsort((middle[order, axis], part))]
        starts = _bounds(count, depth)[:-1]
        lows = [np.minimum.reduceat(corners.min(1)[order], starts, axis=0)]
        highs = [np.maximum.reduceat(corners.max(1)[order], starts, axis=0)]
        while len(lows[-1]) > 1:
            lows.append(np.minimum(lows[-1][::2], lows[-1][1::2]))
            highs.append(np.maximum(highs[-1][::2], highs[-1][1::2]))
        flat = np.ascontiguousarray(corners[order].reshape(-1, 9))
        return order, flat, np.concatenate(lows[::-1]), np.concatenate(highs[::-1])

    @cached_property
    def leaves(self) -> NDArray[np.int64]:
        """Where the triangles of each leaf begin and end in the order of `boxes`."""
        order, _, low, _ = self.boxes
        return _bounds(len(order), (len(low) + 1).bit_length() - 2)

    def closest(self, points: ArrayLike) -> tuple[NDArray[np.int64], Array, Array]:
        """The closest triangle to each point (k,), weights of its corners (k, 3) and the distance (k,)."""
        given = as_reals("points", points).astype(np.float64)
        if given.ndim != 2 or given.shape[1] not in (2, 3):
            raise InputError(f"points must have shape (k, 3), got shape {given.shape}")
        require_finite("points", given)
        wanted = np.ascontiguousarray(vectors_to_space(given))
        order, corners, low, high = self.boxes
        face, weights = np.empty(len(wanted), np.int64), np.empty((len(wanted), 3))
        distance = np.empty(len(wanted))
        run(
            kernels.closest,
            len(wanted),
            256,
            wanted,
            self.leaves,
            corners,
            low,
            high,
            face,
            weights,
            distance,
        )
        return order[face], weights, distance

    def within(
        self, points: ArrayLike, reach: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Array, Array]:
        """Every triangle closer than `reach` to a point: point, triangle, weights (n, 3), distance (n,).

        The weights are of the triangle's corners in its point nearest to the point asked for.
        """
        given = as_reals("points", points).astype(np.float64)
        corners = self.vertices[self.faces]
        middle = corners.mean(1)
        size = np.linalg.norm(corners - middle[:, None], axis=2).max(1)
        wanted = np.ascontiguousarray(vectors_to_space(given))
        # Triangles of like size together, or one large one would make all lists long.
        parts: list[tuple[Array, Array]] = []
        rank = np.argsort(size)
        for chosen in np.array_split(rank, min(8, len(rank))):
            tree = cKDTree(middle[chosen])
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
        run(kernels.nearest_on, len(point), 4096, wanted, point, flat, face, weights, distance)
        close = distance < reach
        return point[close], face[close], weights[close], distance[close]

    def blocked(self, origin: ArrayLike, targets: ArrayLike) -> NDArray[np.bool_]:
        """Whether a triangle stands between a point (3,) and each of the vertices `targets` (k,).

        The triangles that the vertex itself belongs to are not counted, nor one that the point lies on.
        """
        eye, vertices = as_reals("origin", origin).astype(np.float64), as_integers("targets", targets)
        if eye.shape != (3,):
            raise InputError(f"origin must have shape (3,), got shape {eye.shape}")
        require_finite("origin", eye)
        order, corners, low, high = self.boxes
        hidden = np.empty(len(vertices), np.bool_)
        run(
            kernels.blocked,
            len(vertices),
            256,
            eye,
            self.vertices,
            vertices,
            self.faces[order],
            self.leaves,
            corners,
            low,
            high,
            hidden,
        )
        return hidden


def _bounds(count: int, level: int) -> NDArray[np.int64]:
    """Where the 2^level parts of `count` items begin and end."""
    return np.asarray(np.arange(2**level + 1) * count // 2**level)
