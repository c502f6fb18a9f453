"""Ties between the shells of a mesh: eyes, teeth and clothes stay with the figure that they belong to.

A shell that is smaller than the spacing of the particles rides: it has no particles, and follows as a whole
the place of the larger shell that it sits on. Larger shells have particles of their own, which are joined to
those of the shells that they sit on.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...geometry.inside import Inside

__all__ = ["Ties"]

Indices = NDArray[np.int64]
Links = tuple[NDArray[np.int32], Array]

# Edges by which two shells are joined where they are nearest, at most: three hold one to the other.
NEAREST_TIES = 3


@dataclass(frozen=True)
class Ties:
    """What the shells of a mesh are tied to.

    Parameters
    ----------
    parts : (shells,)
        The part that each shell belongs to; those of one part are tied.
    riders : (shells,)
        Which of them have no particles of their own.
    bearers : tuple of (int, int)
        Each rider, and the vertex of the tree that it sits on, a bearer of other riders before these.
    vertex_parts : (n,)
        The part of each vertex, -1 for vertices of no face.
    """

    parts: Indices
    riders: NDArray[np.bool_]
    bearers: tuple[tuple[int, int], ...]
    vertex_parts: Indices

    @classmethod
    def of(cls, inside: Inside, step: float) -> "Ties":
        """Find the ties of a shape whose particles are `step` apart [m]."""
        shells = inside.shells
        parts = shells.parts(inside.enclosed)
        # How far shells reach beyond those with particles: a chain of riders is no longer than the spacing.
        beyond = np.where(shells.sizes >= step, 0.0, np.inf)
        riders, bearers = np.zeros(len(shells), np.bool_), []
        if np.isfinite(beyond).any():
            for shell, before, vertex, _ in shells.ways_from(np.flatnonzero(beyond == 0)):
                if parts[shell] == parts[before] and beyond[before] + shells.sizes[shell] < step:
                    beyond[shell] = beyond[before] + shells.sizes[shell]
                    riders[shell] = True
                    bearers.append((shell, vertex))
        vertex_parts = np.where(inside.components >= 0, parts[inside.components], -1)
        return cls(parts, riders, tuple(bearers), vertex_parts)

    @property
    def count(self) -> int:
        """How many shells are tied to another one."""
        return len(self.parts) - len(np.unique(self.parts))

    def without_riders(self, inside: Inside) -> Inside:
        """Return the shape without the triangles of riders; its vertices are the same."""
        if not self.riders.any():
            return inside
        return Inside(inside.vertices, inside.faces[~self.riders[inside.components[inside.faces[:, 0]]]])

    def joined(self, inside: Inside, links: Links, edges: Indices, reach: float) -> Indices:
        """Return the edges, and more that join shells of one part to each other.

        Wherever two shells are close, the particles nearest to that place are joined if the way between them
        is within reach. Some are joined, in any case, where the shells are nearest.

        Parameters
        ----------
        inside : Inside
            The shape without riders.
        links : (V, k) and (V, k)
            The particles nearest to each vertex, -1 for none, and their distances [m].
        edges : (m, 2)
            The edges within shells.
        reach : float
            The longest way [m].

        Returns
        -------
        (l, 2)
            All edges, each once.
        """
        shells, used = inside.shells, inside.components >= 0
        part = np.empty(len(shells), np.int64)
        part[inside.components[used]] = self.vertex_parts[used]
        vertex = np.empty(len(inside.tree.vertices), np.int64)
        vertex[inside.welded] = np.arange(len(inside.welded))
        added = []
        close, nearest = shells.close_places[0], shells.bridges[0]
        for places, most, limit in ((close, 1, reach), (nearest, NEAREST_TIES, np.inf)):
            tied = part[shells.components[places]]
            rows = vertex[places[tied[:, 0] == tied[:, 1]]]
            pairs, lengths = _across(inside.vertices, rows, links, most)
            added.append(np.sort(pairs[lengths <= limit], axis=1))
        more = np.unique(np.concatenate(added), axis=0)
        more = more[more[:, 0] != more[:, 1]]
        known = np.isin(more @ [1 << 32, 1], np.sort(edges, axis=1) @ [1 << 32, 1])
        return np.concatenate([edges, more[~known]])

    def carry_riders(self, inside: Inside, links: Links) -> None:
        """Give all vertices of a rider, in place, the links of the vertex that it sits on.

        Parameters
        ----------
        inside : Inside
            The shape with riders.
        links : (V, k) and (V, k)
            Particles and distances of each vertex, without those of riders [m].
        """
        vertex = np.empty(len(inside.tree.vertices), np.int64)
        vertex[inside.welded] = np.arange(len(inside.welded))
        for shell, place in self.bearers:
            own = inside.components == shell
            for array in links:
                array[own] = array[vertex[place]]


def _across(vertices: Array, places: Indices, links: Links, most: int) -> tuple[Indices, Array]:
    """Return the pairs of particles nearest to places (k, 2), `most` at each, and the ways between them [m].

    Ways lead over both vertices of a place; where there are fewer pairs, they are infinite.
    """
    numbers, distances = (array[places][:, :, :most] for array in links)
    shape = (len(places), most, most)
    i = np.broadcast_to(numbers[:, 0, :, None], shape).reshape(len(places), most * most)
    j = np.broadcast_to(numbers[:, 1, None, :], shape).reshape(len(places), most * most)
    gap = np.linalg.norm(vertices[places[:, 0]] - vertices[places[:, 1]], axis=1)
    ways = distances[:, 0, :, None] + distances[:, 1, None, :] + gap[:, None, None]
    ways = ways.reshape(len(places), most * most)
    first = np.argsort(ways, axis=1, kind="stable")[:, :most]
    pairs = np.stack([np.take_along_axis(each, first, axis=1).ravel() for each in (i, j)], axis=1)
    lengths = np.take_along_axis(ways, first, axis=1).ravel()
    there = np.isfinite(lengths)
    return pairs[there].astype(np.int64), lengths[there]
