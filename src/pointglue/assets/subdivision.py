"""Smooth solids: solids of revolution, and coarse cages of quads with extruded arms, subdivided."""

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array

__all__ = ["Cage", "revolved", "ring", "subdivided"]


def ring(centre: ArrayLike, u: ArrayLike, v: ArrayLike, count: int) -> Array:
    """Return an ellipse (count, 3) from half axis `u` to half axis `v`; the last face is at `u`."""
    angle = 2 * np.pi * (np.arange(count) + 0.5)[:, None] / count
    points: Array = np.asarray(centre) + np.cos(angle) * np.asarray(u) + np.sin(angle) * np.asarray(v)
    return points


def revolved(radii: Array, across: Array) -> tuple[Array, Array]:
    """Return vertices and faces of a ring about z, whose profile may differ from angle to angle.

    `radii` and `across` (k, p) are r and z of p points of a closed profile at k angles. The profile goes
    counter-clockwise in the plane of r and z.
    """
    k, p = radii.shape
    angle = 2 * np.pi * np.arange(k)[:, None] / k
    vertices = np.stack([radii * np.cos(angle), radii * np.sin(angle), across], axis=-1).reshape(-1, 3)
    at = np.arange(k * p).reshape(k, p)
    on, up = np.roll(at, -1, axis=0), np.roll(at, -1, axis=1)
    quads = np.stack([at, on, np.roll(on, -1, axis=1), up], axis=-1).reshape(-1, 4)
    return vertices, _triangles(vertices, quads)


class Cage:
    """A closed mesh of quads, counter-clockwise seen from outside, from which arms are extruded.

    It starts as a tube through rings (k, s, 3) of an even number of points, counter-clockwise seen from the
    end that the rings go to.
    """

    sides: Array
    """The tube's faces (k - 1, s), by number."""
    end: list[int]
    """The faces that close the tube at its last ring, as a ladder from the tube's last face to its centre."""

    def __init__(self, rings: ArrayLike) -> None:
        tube = np.asarray(rings)
        k, s, _ = tube.shape
        self.points = list(tube.reshape(-1, 3))
        first, second = np.arange(s), np.roll(np.arange(s), -1)
        loop = np.stack([first, second, second + s, first + s], axis=1)
        quads = (s * np.arange(k - 1)[:, None, None] + loop).reshape(-1, 4)
        rung = np.arange(s // 2 - 1)
        ladder = np.stack([rung, rung + 1, s - 2 - rung, s - 1 - rung], axis=1)
        self.quads = list(np.concatenate([quads, ladder[:, ::-1], ladder + (k - 1) * s]))
        self.sides = np.arange(len(quads)).reshape(k - 1, s)
        self.end = list(range(len(self.quads) - len(rung), len(self.quads)))

    def pose(self, face: int) -> tuple[Array, Array]:
        """Return the centre (3,) and the outward unit normal (3,) of a face."""
        a, b, c, d = np.array([self.points[i] for i in self.quads[face]])
        normal = np.cross(c - a, d - b)
        return (a + b + c + d) / 4, normal / np.linalg.norm(normal)

    def grow(self, face: int, spine: ArrayLike, wide: ArrayLike, high: ArrayLike) -> Array:
        """Extrude `face` along a `spine` (k, 3), and return the new faces (k, 4); `face` moves to the tip.

        The arm's half sizes (k,) are `wide` along the face's first edge and `high` along its second. The
        first new ring is at the first point of the spine.
        """
        path = np.asarray(spine, dtype=float)
        a, b, c, d = np.array([self.points[i] for i in self.quads[face]])
        tangents = np.gradient(np.concatenate([[(a + b + c + d) / 4], path]), axis=0)[1:]
        tangents /= np.linalg.norm(tangents, axis=1, keepdims=True)
        side = b - a + c - d
        signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
        grown = np.arange(4 * len(path)).reshape(-1, 4) + len(self.quads)
        for point, along, w, h in zip(path, tangents, np.asarray(wide), np.asarray(high), strict=True):
            side = side - (side @ along) * along
            side /= np.linalg.norm(side)
            old, new = self.quads[face], np.arange(4) + len(self.points)
            self.points.extend(point + signs * [w, h] @ [side, np.cross(along, side)])
            for i, j in zip(range(4), (1, 2, 3, 0), strict=True):
                self.quads.append(np.array([old[i], old[j], new[j], new[i]]))
            self.quads[face] = new
        return grown

    def smooth(self, levels: int) -> tuple[Array, Array]:
        """Return vertices (n, 3) and faces (m, 3) after `levels` rounds of Catmull-Clark subdivision."""
        vertices, quads = np.array(self.points), np.array(self.quads)
        for _ in range(levels):
            vertices, quads = subdivided(vertices, quads)
        return vertices, _triangles(vertices, quads)


def subdivided(vertices: Array, quads: Array) -> tuple[Array, Array]:
    """Return a closed mesh after one round of Catmull-Clark subdivision, which makes four quads of each."""
    n, m = len(vertices), len(quads)
    sides = np.stack([quads, np.roll(quads, -1, axis=1)], axis=-1)
    edges, at = np.unique(np.sort(sides.reshape(-1, 2), axis=1), axis=0, return_inverse=True)
    at = at.reshape(m, 4)
    centres, middles = vertices[quads].mean(1), vertices[edges].mean(1)
    around = np.repeat(np.arange(m), 4)
    on_edges = (middles + _sums(at.ravel(), centres[around], len(edges)) / 2) / 2
    degree = np.bincount(quads.ravel(), minlength=n)[:, None]
    faces_mean = _sums(quads.ravel(), centres[around], n) / degree
    edges_mean = _sums(edges.ravel(), np.repeat(middles, 2, axis=0), n) / degree
    moved = (faces_mean + 2 * edges_mean + (degree - 3) * vertices) / degree
    centre = np.broadcast_to(n + len(edges) + np.arange(m)[:, None], (m, 4))
    parts = np.stack([quads, n + at, centre, n + np.roll(at, 1, axis=1)], axis=-1)
    return np.concatenate([moved, on_edges, centres]), parts.reshape(-1, 4)


def _sums(index: Array, rows: Array, count: int) -> Array:
    """Return the sums (count, 3) of the rows with the same index."""
    columns = [np.bincount(index, weights=column, minlength=count) for column in rows.T]
    return np.stack(columns, axis=1)


def _triangles(vertices: Array, quads: Array) -> Array:
    """Return two triangles (2 m, 3) for each of the `quads` (m, 4), divided along the shorter diagonal."""
    a, b, c, d = np.moveaxis(vertices[quads], 1, 0)
    short = np.linalg.norm(c - a, axis=1) <= np.linalg.norm(d - b, axis=1)
    ordered = np.where(short[:, None], quads, np.roll(quads, -1, axis=1))
    return ordered[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)
