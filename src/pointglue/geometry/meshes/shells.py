"""Shells: the connected surfaces that a mesh is made of, and where they sit on each other."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ..bvh import TriangleTree

__all__ = ["Shells"]

Indices = NDArray[np.int64]

# Ratio to the size of the larger of two shells: where the gap is smaller, they are parts of one thing.
NEAR = 0.01


class Shells:
    """The shells of a mesh, each with the place where it is nearest to another.

    A place is a pair of vertices, one of either shell, and the gap there: that between the first vertex and
    the triangle of the other shell which is nearest to it. The second vertex is a corner of that triangle.

    Parameters
    ----------
    tree : TriangleTree
        The triangles, their seams welded.
    components : (n,)
        The shell of each vertex, numbered from 0, -1 for vertices of no face.

    Attributes
    ----------
    sizes : (shells,)
        The diagonal of the box around each shell [m].
    """

    def __init__(self, tree: TriangleTree, components: Indices) -> None:
        self.tree, self.components = tree, components
        count = int(components.max(initial=-1)) + 1
        used = components >= 0
        low, high = np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
        np.minimum.at(low, components[used], tree.vertices[used])
        np.maximum.at(high, components[used], tree.vertices[used])
        self.sizes: Array = np.maximum(np.linalg.norm(high - low, axis=1), np.finfo(np.float64).tiny)

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def bridges(self) -> tuple[Indices, Array]:
        """The fewest and shortest places (k, 2) that join all shells, and their gaps (k,) [m].

        They are the edges of the minimum spanning tree of the shells, found as Boruvka does, shortest first.
        Lengths are compared in sizes of the larger of two shells: a tooth sits on the jaw, and not on the
        tooth beside it.
        """
        cluster = np.arange(len(self))
        found: list[tuple[float, int, int, float]] = []
        while len(np.unique(cluster)) > 1:
            labels = np.where(self.components >= 0, cluster[self.components], -1)
            places, gaps = self._gaps(labels)
            ratios = gaps / self._larger(places)
            order = np.lexsort((places[:, 0], ratios))
            first = order[np.unique(labels[places[order, 0]], return_index=True)[1]]
            for k in first:
                a, b = cluster[self.components[places[k]]]
                if a != b:  # of two that chose each other, one is enough
                    cluster[cluster == a] = b
                    found.append((ratios[k], *places[k].tolist(), gaps[k]))
        found.sort()
        pairs, lengths = [row[1:3] for row in found], [row[3] for row in found]
        return np.array(pairs, np.int64).reshape(-1, 2), np.array(lengths, np.float64)

    @cached_property
    def close_places(self) -> tuple[Indices, Array]:
        """All places (k, 2) where shells are close to each other, and their gaps (k,) [m]."""
        if len(self) < 2:
            return np.empty((0, 2), np.int64), np.empty(0)
        places, gaps = self._gaps(self.components)
        close = gaps <= NEAR * self._larger(places)
        return places[close], gaps[close]

    def _gaps(self, labels: Indices) -> tuple[Indices, Array]:
        """Return the place (k, 2) nearest to each vertex with another label, and the gaps (k,) [m].

        Those that have the most common label are not asked: the others meet them.
        """
        of_faces, vertices = self.tree.faces[:, 0], self.tree.vertices
        some = np.flatnonzero((labels >= 0) & (labels != np.bincount(labels[labels >= 0]).argmax()))
        face, gaps = self.tree.closest_other(
            vertices[some],
            (labels[some], self.sizes[self.components[some]]),
            (labels[of_faces], self.sizes[self.components[of_faces]]),
        )
        corners = self.tree.faces[face]
        nearest = np.linalg.norm(vertices[corners] - vertices[some, None], axis=2).argmin(1)
        return np.stack([some, corners[np.arange(len(some)), nearest]], axis=1), gaps

    def _larger(self, places: Indices) -> Array:
        """Return the size (k,) of the larger of the two shells of each place (k, 2) [m]."""
        return np.asarray(self.sizes[self.components[places]].max(1))

    def parts(self, enclosed: NDArray[np.bool_]) -> Indices:
        """Return the part (shells,) that each shell belongs to.

        Shells are of one part if a gap smaller than `NEAR` of the larger one's size is between them, or if
        one of them is enclosed.

        Parameters
        ----------
        enclosed : (shells,)
            Which shells are within the inside of others.

        Returns
        -------
        (shells,)
            The parts, numbered from 0.
        """
        part = np.arange(len(self))
        places, gaps = self.bridges
        near = gaps <= NEAR * self._larger(places)
        for (a, b), close in zip(self.components[places], near, strict=True):
            if close or enclosed[a] or enclosed[b]:
                part[part == part[a]] = part[b]
        return np.asarray(np.unique(part, return_inverse=True)[1].reshape(-1))

    def ways_from(self, known: Indices) -> Iterator[tuple[int, int, int, float]]:
        """Find the ways over the bridges from some shells to all others.

        Parameters
        ----------
        known : (k,)
            The shells where the ways begin, at least one.

        Yields
        ------
        shell, before : int
            A shell that has not been known so far, and the one before it, which has.
        vertex : int
            The vertex of the shell before where the bridge begins.
        gap : float
            The gap there [m].
        """
        places, gaps = self.bridges
        shells = self.components[places]
        reached = np.zeros(len(self), np.bool_)
        reached[known] = True
        while True:
            there = reached[shells]
            ways = np.flatnonzero(there[:, 0] != there[:, 1])
            if not len(ways):
                return
            k = int(ways[0])  # the shortest
            side = int(there[k, 1])
            shell, before = int(shells[k, 1 - side]), int(shells[k, side])
            reached[shell] = True
            yield shell, before, int(places[k, side]), float(gaps[k])
