"""Distances measured within a shape: straight where nothing stands between, else over its surface."""

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ..checks import Array, as_integers, as_reals, require_finite
from ..compute import run
from ..errors import InputError, PointglueWarning
from . import inside_kernels as kernels
from .bvh import TriangleTree
from .simplices import check_cells

__all__ = ["Cover", "Eyes", "Inside", "edge_lengths", "once", "size_of", "welded", "winding"]

# In sizes of the mesh: what is closer together is one vertex, and how close to the surface a point is on it.
SEAM, ON_SURFACE = 1e-7, 1e-4
# How far a point on the surface moves to look from just within: towards the middle of its triangle, in
# shares of the way, so that it leaves the tip of a spike; then inwards, in heights of the triangle.
ASIDE, STEP_IN = 1e-2, 1e-4
# A surface has an inside if the winding number on its two sides differs this much in size, which is 1 for a
# closed one and 0 for a flat sheet, over this share of its area: small holes do no harm.
STEP, SHARE, PROBES = 0.75, 0.9, 100
# More places in the lists than asked for: a way goes straight over a triangle, and not along its edges, where
# two of its corners know the point.
SPARE = 2


@dataclass(frozen=True)
class Eyes:
    """Where points (k, 3) look from within a shape."""

    points: Array
    """(k, 3)"""
    places: Array
    """(k, 3): the points themselves, or a place just within for those on the surface or outside."""
    able: NDArray[np.bool_]
    """(k,), whether they see at all: points of open components do not."""
    owner: NDArray[np.int64]
    """(k,), the component they belong to: that of the nearest triangle."""
    face: NDArray[np.int64]
    """(k,), the nearest triangle."""
    foot: Array
    """(k, 3), the nearest place on it."""


class Inside:
    """A shape, and distances measured within it.

    It takes any triangles (m, 3) between vertices (n, 3): open, not manifold, in many components, with
    vertices that belong to none. Vertices at one place count as one, so that unwelded triangles are a
    surface. A distance is straight to what is seen through no face, and goes over the surface to the rest;
    open components have no inside, and are measured over the surface only. A point belongs to the component
    whose surface is nearest, and the other components are out of its reach. The wall of a cavity is part of
    the component around it. Triangles that are there twice count once.
    """

    components: NDArray[np.int64]
    """(n,), the component that each vertex belongs to, -1 for vertices of no face."""
    solid: NDArray[np.bool_]
    """Whether each component has an inside."""

    def __init__(self, vertices: ArrayLike, faces: ArrayLike) -> None:
        points, cells = check_cells(vertices, faces, "faces")
        if points.shape[1] != 3 or cells.shape[1] != 3:
            raise InputError(f"faces must be triangles (m, 3) in space, got shape {cells.shape}")
        self.vertices, self.faces = points, cells
        self.size = size_of(points[np.unique(cells)])  # a stray vertex does not count
        self._welded, self._place = welded(points, self.size)
        self.tree = TriangleTree(self._welded, once(self._place[cells]))
        self._faces = self.tree.faces[self.tree.boxes[0]]
        self._component = _components(len(self._welded), self.tree.faces)
        self._merge_cavities()
        self.components = self._component[self._place]

    @property
    def face_components(self) -> NDArray[np.int64]:
        """The component that each triangle of the tree belongs to."""
        return np.asarray(self._component[self.tree.faces[:, 0]])

    def contains(self, points: ArrayLike) -> NDArray[np.bool_]:
        """Whether the surface goes around each point (k, 3) more than half."""
        return np.asarray(np.abs(self._winding(_checked(points))) > 0.5)

    def meeting(self, low: ArrayLike, high: ArrayLike) -> NDArray[np.int64]:
        """The triangles, rows of `faces`, whose boxes meet the box with such corners (3,)."""
        lows, highs = self._face_boxes
        return np.flatnonzero(((lows <= high) & (highs >= low)).all(1))

    @cached_property
    def _face_boxes(self) -> tuple[Array, Array]:
        corners = self.vertices[self.faces]
        return corners.min(1), corners.max(1)

    def owners(self, points: ArrayLike) -> NDArray[np.int64]:
        """The component that each point (k, 3) belongs to: that of the nearest triangle."""
        face, _, _ = self.tree.closest(_checked(points))
        return self.face_components[face]

    def nearest(
        self, points: ArrayLike, count: int, *, among: ArrayLike | None = None
    ) -> tuple[NDArray[np.int32], Array]:
        """The `count` of the points (k, 3) nearest to each vertex: numbers and distances (n, count).

        They ascend. Where there are fewer, the number is -1 and the distance inf. `among` are the vertices
        (j,) that are asked for, if not all. A vertex of no face takes the points nearest in a straight line,
        and so does, with a warning, one whose component no point belongs to.
        """
        given = _checked(points)
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            raise InputError(f"count must be a whole number of at least 1, got {count!r}")
        if not len(given):
            raise InputError("points must hold at least one point, got none")
        asked = np.arange(len(self._place)) if among is None else as_integers("among", among)
        if asked.size and (asked.min() < 0 or asked.max() >= len(self._place)):
            raise InputError(
                f"among must be vertices from 0 to {len(self._place) - 1}, got {asked[:8].tolist()}"
            )
        numbers, distances = self._lists(self.look(given), int(count))
        lost = numbers[:, 0] < 0
        if lost.any():
            straight, index = _query(given, self._welded[lost], int(count))
            numbers[lost, : index.shape[1]], distances[lost, : index.shape[1]] = index, straight
        places = self._place[asked]
        apart = np.unique(self._component[places[lost[places]]])
        if (apart >= 0).any():
            warnings.warn(
                f"no point belongs to components {apart[apart >= 0][:8].tolist()} of the mesh: their "
                f"vertices take the nearest points in a straight line",
                PointglueWarning,
                stacklevel=2,
            )
        return numbers[places], distances[places]

    def between(
        self, points: ArrayLike, reach: float, links: tuple[NDArray[np.int32], Array]
    ) -> tuple[NDArray[np.int64], Array]:
        """Pairs (m, 2) of points (k, 3) of one component that are neighbours, and the distances (m,).

        They are straight between points within reach that see each other. Others that meet on the surface,
        which is where a vertex has one nearest and the other among its `links`, as :meth:`nearest` gives
        them, are as far apart as the shortest way through such a vertex.
        """
        eyes = self.look(points)
        near = cKDTree(eyes.points).query_pairs(reach, output_type="ndarray").astype(np.int64)
        seen = near[self.clear(eyes, near[:, 0], eyes, near[:, 1])]
        straight = np.linalg.norm(eyes.points[seen[:, 0]] - eyes.points[seen[:, 1]], axis=1)
        numbers, distances = links
        first = np.repeat(numbers[:, :1], numbers.shape[1] - 1, axis=1)
        met = np.stack([first.ravel(), numbers[:, 1:].ravel()], axis=1).astype(np.int64)
        way = (distances[:, :1] + distances[:, 1:]).ravel()
        alike = np.isfinite(way) & (eyes.owner[met[:, 0]] == eyes.owner[met[:, 1]])
        pairs = np.sort(np.concatenate([seen, met[alike]]), axis=1)
        length = np.concatenate([straight, way[alike]])
        key, place = np.unique(pairs[:, 0] * len(eyes.points) + pairs[:, 1], return_inverse=True)
        shortest = np.full(len(key), np.inf)
        np.minimum.at(shortest, place, length)
        return np.stack(np.divmod(key, len(eyes.points)), axis=1), shortest

    def look(self, points: ArrayLike) -> Eyes:
        """Where each of the points (k, 3) looks from.

        A point on the surface would see both sides of the wall, and through the air, so it looks from a
        place just within, as does one outside.
        """
        given = _checked(points)
        face, weights, distance = self.tree.closest(given)
        corners = self._welded[self.tree.faces[face]]
        owner = self._component[self.tree.faces[face, 0]]
        able = self.solid[owner]
        outside = distance <= ON_SURFACE * self.size
        deep = np.flatnonzero(able & ~outside)
        outside[deep] = ~self.contains(given[deep])
        places = given.copy()
        at = np.flatnonzero(able & outside)
        above, below = self._sides(face[at], (1 - ASIDE) * weights[at] + ASIDE / 3)
        # Below a triangle the surface goes around once more than above it, so one side tells of both.
        places[at] = np.where((self._winding(above) >= -0.5)[:, None], below, above)
        return Eyes(given, places, able, owner, face, np.einsum("kc,kcd->kd", weights, corners))

    def clear(self, one: Eyes, i: NDArray[np.int64], other: Eyes, j: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether points i (m,) of `one` and j (m,) of `other` see each other inside the shape."""
        seen = one.able[i] & other.able[j] & (one.owner[i] == other.owner[j])
        begin, end = one.places[i[seen]], other.places[j[seen]]
        straight = np.empty(len(begin), np.bool_)
        run(kernels.sights, len(begin), 256, begin, end, *self._boxes(), straight)
        seen[seen] = straight
        return np.asarray(seen)

    def _lists(self, eyes: Eyes, count: int) -> tuple[NDArray[np.int32], Array]:
        """What `nearest` gives, for the welded vertices, with nothing for those out of reach."""
        total, width = len(self._welded), count + SPARE
        numbers, distances = np.full((total, width), -1, np.int32), np.full((total, width), np.inf)
        able = np.flatnonzero(eyes.able)
        if len(able):
            # More candidates than places, for some will not be seen.
            _, index = _query(eyes.points[able], self._welded, max(8, 2 * count))
            arguments = (self._component, able[index], eyes.points, eyes.places, eyes.owner, *self._boxes())
            run(kernels.see, total, 256, self._welded, *arguments, numbers, distances)
        self._enter(eyes, 0, numbers, distances)
        run(kernels.spread, 1, 1, *self._surface, np.arange(total), np.inf, numbers, distances)
        return numbers[:, :count].copy(), distances[:, :count].copy()

    def _enter(self, eyes: Eyes, first: int, numbers: NDArray[np.int32], distances: Array) -> None:
        """Enter the points, numbered from `first`, into the lists of the corners of their triangles."""
        corners = self.tree.faces[eyes.face]
        # By the foot where a wall may stand between; points of open components are about on the surface.
        off = np.linalg.norm(eyes.points - eyes.foot, axis=1)[:, None]
        beside = np.linalg.norm(self._welded[corners] - eyes.foot[:, None], axis=2)
        way = np.where(eyes.able[:, None], off + beside, np.hypot(off, beside))
        count = len(eyes.points)
        run(kernels.enter, count, count, first, corners, way, numbers, distances)

    def _sides(self, face: NDArray[np.int64], weights: Array) -> Array:
        """Places (2, k, 3) just off triangles: above, where their normals point, and below."""
        corners = self._welded[self.tree.faces[face]]
        normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(1)
        # The normal is as long as twice the area: over the longest edge squared, it has the height's share.
        step = STEP_IN * normal / np.where(longest > 0, longest, 1.0)[:, None]
        foot = np.einsum("kc,kcd->kd", weights, corners)
        return np.stack([foot + step, foot - step])

    def _merge_cavities(self) -> None:
        """Find out which components have an inside, and make cavities part of what they are cavities of."""
        faces = self.tree.faces
        corners = self._welded[faces]
        component = self._component[faces[:, 0]]
        count = int(component.max()) + 1
        volume = np.bincount(component, np.linalg.det(corners) / 6, minlength=count)
        area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
        order = np.argsort(component, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(component, minlength=count))[:-1])
        self.solid, enclosed = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        known = [k for k in range(count) if area[parts[k]].sum() > 0]
        probes = [_spread(parts[k], area[parts[k]]) for k in known]
        if probes:
            face = np.concatenate(probes)
            sides = self._sides(face, np.full((len(face), 3), 1 / 3))
            around = np.abs(self._winding(sides.reshape(-1, 3))).reshape(2, -1)
            parting = (np.abs(around[0] - around[1]) > STEP).reshape(-1, PROBES).mean(1)
            # Outwards is where normals point if the component's own volume is positive.
            above, below = around.reshape(2, -1, PROBES).mean(2)
            out = np.where(volume[known] > 0, above, below)
            self.solid[known], enclosed[known] = parting >= SHARE, (parting >= SHARE) & (out > 0.5)
        owner = np.arange(count)
        for k in np.flatnonzero(enclosed).tolist():
            wall = corners[parts[k]]
            for other in np.argsort(np.abs(volume), kind="stable").tolist():
                shell = corners[parts[other]]
                fits = (shell.min((0, 1)) < wall.min((0, 1))).all() and (
                    shell.max((0, 1)) > wall.max((0, 1))
                ).all()
                if (
                    fits
                    and self.solid[other]
                    and volume[other] * volume[k] < 0
                    and _around(shell, wall[0, 0])
                ):
                    owner[k] = other
                    break
        for k in range(count):
            while owner[owner[k]] != owner[k]:
                owner[k] = owner[owner[k]]
        kept, number = np.unique(owner, return_inverse=True)
        self.solid = self.solid[kept]
        used = self._component >= 0
        self._component[used] = number.reshape(-1)[self._component[used]]

    @cached_property
    def _surface(self) -> tuple[Any, ...]:
        """Vertices, triangles, and the triangles of each vertex, as the kernels take them."""
        faces = self.tree.faces
        order = np.argsort(faces.ravel(), kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(faces.ravel(), minlength=len(self._welded)))])
        return self._welded, faces, starts, order // 3

    @cached_property
    def _dipoles(self) -> tuple[Array, Array, Array]:
        return _dipoles(self.tree)

    def _winding(self, points: Array) -> Array:
        return _wound(self.tree, self._dipoles, points)

    def _boxes(self) -> tuple[Any, ...]:
        """The tree as the kernels take it."""
        return self._faces, self.tree.leaves, *self.tree.boxes[1:]


class Cover:
    """How far each vertex of a shape is from the nearest of some points, which come one after the other.

    Distances (n,) are measured inside, and known up to `limit`; beyond they are inf.
    """

    def __init__(self, inside: Inside, limit: float) -> None:
        self.inside, self.limit = inside, limit
        self.count = 0
        total = len(inside._welded)
        self._numbers, self._distances = np.full((total, 1), -1, np.int32), np.full((total, 1), np.inf)
        self._near = cKDTree(inside._welded)

    @property
    def distances(self) -> Array:
        """(n,), of each vertex from the nearest point so far."""
        return np.asarray(self._distances[self.inside._place, 0])

    def distance(self, vertex: int) -> float:
        """Of one vertex from the nearest point so far."""
        return float(self._distances[self.inside._place[vertex], 0])

    def add(self, points: ArrayLike) -> None:
        """Add points (k, 3)."""
        eyes = self.inside.look(points)
        mesh = self.inside
        for k, point in enumerate(eyes.points):
            one = Eyes(*(array[k : k + 1] for array in vars(eyes).values()))
            near = np.empty(0, np.int64)
            if one.able[0]:
                near = np.array(self._near.query_ball_point(point, self.limit, return_sorted=True), np.int64)
                near = near[mesh._component[near] == one.owner[0]]
                straight = np.linalg.norm(mesh._welded[near] - point, axis=1)
                near = near[straight < self._distances[near, 0]]
                arguments = (mesh._welded, near, point, one.places[0], self.count, *mesh._boxes())
                run(kernels.claim, len(near), 256, *arguments, self._numbers, self._distances)
            mesh._enter(one, self.count, self._numbers, self._distances)
            seeds = np.unique(np.concatenate([near, mesh.tree.faces[one.face[0]]]))
            seeds = seeds[self._numbers[seeds, 0] == self.count]
            run(kernels.spread, 1, 1, *mesh._surface, seeds, self.limit, self._numbers, self._distances)
            self.count += 1


def winding(tree: TriangleTree, points: Array) -> Array:
    """How often the surface goes around each point (k, 3): 1 inside a closed one, 0 outside; to 0.03."""
    return _wound(tree, _dipoles(tree), points)


def _wound(tree: TriangleTree, dipoles: tuple[Array, Array, Array], points: Array) -> Array:
    result = np.empty(len(points))
    arguments = (tree.leaves, tree.boxes[1], *dipoles, result)
    run(kernels.wind, len(points), 256, np.ascontiguousarray(points), *arguments)
    return result


def _dipoles(tree: TriangleTree) -> tuple[Array, Array, Array]:
    """For each box of the tree: the centre (k, 3) of its area, the sum (k, 3) of area vectors, its radius."""
    _, corners, low, high = tree.boxes
    a, b, c = np.moveaxis(corners.reshape(-1, 3, 3), 1, 0)
    area = 0.5 * np.cross(b - a, c - a)
    size = np.linalg.norm(area, axis=1)[:, None]
    sums = np.concatenate([area, size, size * (a + b + c) / 3], axis=1)
    levels = [np.add.reduceat(sums, tree.leaves[:-1], axis=0)]
    while len(levels[-1]) > 1:
        levels.append(levels[-1][::2] + levels[-1][1::2])
    nodes = np.concatenate(levels[::-1])
    weight = np.where(nodes[:, 3:4] > 0, nodes[:, 3:4], 1.0)
    centre = np.where(nodes[:, 3:4] > 0, nodes[:, 4:] / weight, (low + high) / 2)
    radius = np.linalg.norm(np.maximum(centre - low, high - centre), axis=1)
    return centre, np.ascontiguousarray(nodes[:, :3]), radius


def once(faces: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each triangle once, whichever way round: copies are what exporters make of two-sided surfaces."""
    _, first = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
    return faces[np.sort(first)]


def _spread(faces: NDArray[np.int64], area: Array) -> NDArray[np.int64]:
    """PROBES of the faces, spread evenly over their area."""
    filled = np.cumsum(area)
    return np.asarray(faces[np.searchsorted(filled, (np.arange(PROBES) + 0.5) / PROBES * filled[-1])])


def _around(corners: Array, point: Array) -> bool:
    """Whether triangles (m, 3, 3) go around a point, by the solid angles that they fill."""
    a, b, c = np.moveaxis(corners - point, 1, 0)
    la, lb, lc = (np.linalg.norm(side, axis=1) for side in (a, b, c))
    volume = np.einsum("ij,ij->i", a, np.cross(b, c))
    dots = [np.einsum("ij,ij->i", *pair) for pair in ((a, b), (b, c), (c, a))]
    angle = np.arctan2(volume, la * lb * lc + dots[0] * lc + dots[1] * la + dots[2] * lb).sum()
    return bool(abs(angle) > np.pi)


def welded(vertices: Array, size: float) -> tuple[Array, NDArray[np.int64]]:
    """Vertices of a mesh of this size without repetition, and where each of the given ones is among them."""
    unique, place = np.unique(vertices, axis=0, return_inverse=True)
    pairs = cKDTree(unique).query_pairs(SEAM * size, output_type="ndarray")
    place = place.reshape(-1)
    if not len(pairs):
        return unique, place
    touching = csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(unique),) * 2)
    _, label = connected_components(touching, directed=False)
    _, first = np.unique(label, return_index=True)
    return unique[first], label[place]


def size_of(vertices: Array) -> float:
    """The diagonal of the box that holds the vertices."""
    return float(np.linalg.norm(np.ptp(vertices, axis=0)))


def edge_lengths(vertices: Array, faces: NDArray[np.int64]) -> csr_array:
    """Lengths of the edges, in both directions, as a sparse matrix."""
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    ends = np.unique(np.sort(ends, axis=1), axis=0)
    ends = ends[ends[:, 0] != ends[:, 1]]
    length = np.linalg.norm(vertices[ends[:, 0]] - vertices[ends[:, 1]], axis=1)
    rows, columns = np.concatenate([ends[:, 0], ends[:, 1]]), np.concatenate([ends[:, 1], ends[:, 0]])
    return csr_array((np.tile(length, 2), (rows, columns)), shape=(len(vertices), len(vertices)))


def _components(count: int, faces: NDArray[np.int64]) -> NDArray[np.int64]:
    """(count,), numbers of the connected pieces in the order of their first vertices; -1 for no face."""
    ends = np.concatenate([faces[:, :2], faces[:, 1:]])
    graph = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(count, count))
    _, label = connected_components(graph, directed=False)
    used = np.zeros(count, np.bool_)
    used[faces] = True
    result = np.full(count, -1)
    result[used] = np.unique(label[used], return_inverse=True)[1].reshape(-1)
    return result


def _query(points: Array, places: Array, count: int) -> tuple[Array, NDArray[np.int64]]:
    """Distances and numbers (k, at most count) of the points nearest to each place."""
    count = min(count, len(points))
    distance, index = cKDTree(points).query(places, k=count)
    return distance.reshape(len(places), count), index.reshape(len(places), count)


def _checked(points: ArrayLike) -> Array:
    given = as_reals("points", points).astype(np.float64)
    if given.ndim != 2 or given.shape[1] != 3:
        raise InputError(f"points must have shape (k, 3), got shape {given.shape}")
    require_finite("points", given)
    return given
