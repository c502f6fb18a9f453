"""Distances measured within a shape: straight along lines of sight, else over its surface."""

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from ..checks import Array, as_integers, check_integer, check_rows
from ..compute import run
from ..errors import InputError, PointglueWarning
from .bvh import WALKS_PER_THREAD, TriangleTree
from .kernels import inside as kernels
from .kernels.inside import Dipoles, NearestLists, SurfaceArrays, ViewArrays, Viewpoint
from .meshes.shells import Shells
from .normals import area_normals
from .simplices import check_cells
from .welding import bounding_diagonal, unique_faces, vertex_components, weld
from .winding import encloses, tree_dipoles, winding_numbers

__all__ = ["Cover", "Inside", "Viewpoints"]

# Ratio to the size of the mesh: a point this close to the surface is on it.
ON_SURFACE = 1e-4
# Lines of sight of a point on the surface begin just inside: at a place moved towards the centroid of its
# triangle, by this share of the way, so that it leaves the tip of a spike; then inwards, by this share of the
# triangle's height.
SHARE_TO_CENTROID, SHARE_OF_HEIGHT = 1e-2, 1e-4
# A surface has an inside if the winding numbers on its two sides differ by at least this much in size (1 for
# a closed surface, 0 for a flat sheet) over at least this share of its area, so that small holes do no harm;
# and the number of samples of the area that are tested.
LEAST_WINDING_STEP, LEAST_CLOSED_SHARE, PROBES = 0.75, 0.9, 100
# Number of entries in the lists beyond those asked for: a path crosses a triangle straight, and not along its
# edges, where the lists of two of its corners have the point.
SPARE_ENTRIES = 2
# Number of candidates for each vertex, at least, and for each entry asked for: some will not be seen.
LEAST_CANDIDATES, CANDIDATES_PER_ENTRY = 8, 2


@dataclass(frozen=True)
class Viewpoints:
    """Points in, on or about a shape, and where their lines of sight begin within it."""

    points: Array
    """(k, 3), the points [m]."""
    origins: Array
    """(k, 3), the points themselves, or places just within for those on the surface or outside [m]."""
    sighted: NDArray[np.bool_]
    """(k,), whether they have lines of sight at all: points of open components have none."""
    component: NDArray[np.int64]
    """(k,), the component they belong to: that of the closest triangle."""
    face: NDArray[np.int64]
    """(k,), the closest triangle."""
    foot: Array
    """(k, 3), the closest place on it [m]."""

    def __getitem__(self, rows: NDArray[np.bool_] | slice) -> "Viewpoints":
        """Return some of the points."""
        return Viewpoints(*(array[rows] for array in vars(self).values()))


class Inside:
    """A shape, and distances measured within it.

    It takes any triangles: open, not manifold, in many components, with vertices that belong to none.
    Vertices at one place count as one, so that unwelded triangles are a surface, and triangles that are
    there twice count once. A distance is straight where there is a line of sight, through no face, and goes
    over the surface to the rest; open components have no inside, and are measured over the surface only. A
    point belongs to the component whose surface is closest, and the other components are out of its reach.
    The wall of a cavity is part of the component around it.

    Parameters
    ----------
    vertices : (n, 3)
        The vertices [m].
    faces : (m, 3)
        The triangles.

    Attributes
    ----------
    size : float
        The diagonal of the box around the triangles [m].
    tree : TriangleTree
        The welded triangles.
    components : (n,)
        The component that each vertex belongs to, -1 for vertices of no face.
    solid : (components,)
        Whether each component has an inside.
    enclosed : (components,)
        Whether each component is within the inside of others.

    Raises
    ------
    InputError
        If `faces` are not triangles, or a vertex is not finite.
    """

    components: NDArray[np.int64]
    solid: NDArray[np.bool_]
    enclosed: NDArray[np.bool_]

    def __init__(self, vertices: ArrayLike, faces: ArrayLike) -> None:
        points, cells = check_cells(vertices, faces, "faces")
        if points.shape[1] != 3 or cells.shape[1] != 3:
            raise InputError(f"faces must be triangles (m, 3) in space, got shape {cells.shape}")
        self.vertices, self.faces = points, cells
        self.size = bounding_diagonal(points[np.unique(cells)])  # a stray vertex does not count
        self._welded, self._place = weld(points, self.size)
        self.tree = TriangleTree(self._welded, unique_faces(self._place[cells]))
        self._component = vertex_components(len(self._welded), self.tree.faces)
        self._merge_cavities()
        self.components = self._component[self._place]

    @property
    def face_components(self) -> NDArray[np.int64]:
        """The component that each triangle of the tree belongs to."""
        return np.asarray(self._component[self.tree.faces[:, 0]])

    @property
    def welded(self) -> NDArray[np.int64]:
        """The vertex of the tree (n,) that each vertex has become."""
        return self._place

    @cached_property
    def shells(self) -> Shells:
        """The components, and where they are nearest to each other."""
        return Shells(self.tree, self._component)

    def contains(self, points: ArrayLike) -> NDArray[np.bool_]:
        """Return whether each point (k, 3) is inside: its winding number is more than one half in size."""
        return np.asarray(np.abs(self._winding(check_rows("points", points))) > 0.5)

    def faces_in_box(self, low: ArrayLike, high: ArrayLike) -> NDArray[np.int64]:
        """Return the triangles, rows of `faces`, whose boxes meet the box with such corners (3,) [m]."""
        lows, highs = self._face_boxes
        return np.flatnonzero(((lows <= high) & (highs >= low)).all(1))

    @cached_property
    def _face_boxes(self) -> tuple[Array, Array]:
        corners = self.vertices[self.faces]
        return corners.min(1), corners.max(1)

    def components_of(self, points: ArrayLike) -> NDArray[np.int64]:
        """Return the component that each point (k, 3) belongs to: that of the closest triangle."""
        face, _, _ = self.tree.closest(check_rows("points", points))
        return self.face_components[face]

    def nearest(
        self, points: ArrayLike, count: int, *, among: ArrayLike | None = None
    ) -> tuple[NDArray[np.int32], Array]:
        """Find the points nearest to each vertex, measured inside the shape.

        A vertex of no face takes the points nearest in a straight line. A component that no point belongs to
        follows, as a whole and with a warning, the place of another component that it is nearest to.

        Parameters
        ----------
        points : (k, 3)
            The points [m].
        count : int
            How many for each vertex.
        among : (j,), optional
            The vertices that are asked for; all by default.

        Returns
        -------
        numbers : (j, count)
            Rows of `points`, the nearest first; -1 where there are fewer.
        distances : (j, count)
            Their distances [m]; inf where there are fewer.

        Raises
        ------
        InputError
            If there is no point, or an argument is not of that kind.
        """
        given, wanted = check_rows("points", points), check_integer("count", count, at_least=1)
        if not len(given):
            raise InputError("points must hold at least one point, got none")
        asked = np.arange(len(self._place)) if among is None else as_integers("among", among)
        if asked.size and (asked.min() < 0 or asked.max() >= len(self._place)):
            raise InputError(
                f"among must be vertices from 0 to {len(self._place) - 1}, got {asked[:8].tolist()}"
            )
        numbers, distances = self._lists(self.viewpoints(given), wanted)
        lost = (numbers[:, 0] < 0) & (self._component >= 0)
        places = self._place[asked]
        apart = np.unique(self._component[places[lost[places]]])
        if len(apart):
            self._follow(numbers, distances)
            warnings.warn(
                f"no point belongs to components {apart[:8].tolist()} of the mesh: each follows the place of "
                f"another that it is nearest to",
                PointglueWarning,
                stacklevel=2,
            )
        alone = numbers[:, 0] < 0
        if alone.any():
            straight, index = _query(given, self._welded[alone], wanted)
            numbers[alone, : index.shape[1]], distances[alone, : index.shape[1]] = index, straight
        return numbers[places], distances[places]

    def _follow(self, numbers: NDArray[np.int32], distances: Array) -> None:
        """Give all vertices of a component without points the list of the place that it is nearest to."""
        known = np.unique(self._component[(numbers[:, 0] >= 0) & (self._component >= 0)])
        for component, _, vertex, gap in self.shells.ways_from(known):
            own = self._component == component
            numbers[own], distances[own] = numbers[vertex], distances[vertex] + gap

    def distances_from(self, point: ArrayLike) -> Array:
        """Measure how far every vertex is from a point, inside the shape.

        Parameters
        ----------
        point : (3,)
            The point [m].

        Returns
        -------
        (n,)
            The distances [m], inf for vertices of other components and of no face.
        """
        _, distances = self._lists(self.viewpoints(np.reshape(point, (1, 3))), 1)
        return np.asarray(distances[self._place, 0])

    def between(
        self, points: ArrayLike, reach: float, links: tuple[NDArray[np.int32], Array]
    ) -> tuple[NDArray[np.int64], Array]:
        """Find pairs of points of one component that are neighbours, and how far apart they are.

        Points within reach with a line of sight are neighbours, at their straight distance. So are points
        that meet on the surface, where a vertex has one nearest and the other among its links; they are as
        far apart as the shortest path through such a vertex.

        Parameters
        ----------
        points : (k, 3)
            The points [m].
        reach : float
            The longest line of sight [m].
        links : tuple of (n, count) and (n, count)
            The numbers and distances that :meth:`nearest` gives.

        Returns
        -------
        pairs : (m, 2)
            Rows of `points`.
        distances : (m,)
            How far apart they are [m].
        """
        views = self.viewpoints(points)
        near = cKDTree(views.points).query_pairs(reach, output_type="ndarray").astype(np.int64)
        seen = near[self.line_of_sight(views, near[:, 0], views, near[:, 1])]
        straight = np.linalg.norm(views.points[seen[:, 0]] - views.points[seen[:, 1]], axis=1)
        numbers, distances = links
        first = np.repeat(numbers[:, :1], numbers.shape[1] - 1, axis=1)
        met = np.stack([first.ravel(), numbers[:, 1:].ravel()], axis=1).astype(np.int64)
        path = (distances[:, :1] + distances[:, 1:]).ravel()
        alike = np.isfinite(path) & (views.component[met[:, 0]] == views.component[met[:, 1]])
        pairs = np.sort(np.concatenate([seen, met[alike]]), axis=1)
        length = np.concatenate([straight, path[alike]])
        key, place = np.unique(pairs[:, 0] * len(views.points) + pairs[:, 1], return_inverse=True)
        shortest = np.full(len(key), np.inf)
        np.minimum.at(shortest, place, length)
        return np.stack(np.divmod(key, len(views.points)), axis=1), shortest

    def viewpoints(self, points: ArrayLike) -> Viewpoints:
        """Return where the lines of sight of the points (k, 3) begin.

        A point on the surface would see both sides of it, so its lines of sight begin just inside, as do
        those of a point outside.
        """
        given = check_rows("points", points)
        face, weights, distance = self.tree.closest(given)
        corners = self._welded[self.tree.faces[face]]
        component = self._component[self.tree.faces[face, 0]]
        sighted = self.solid[component]
        outside = distance <= ON_SURFACE * self.size
        deep = np.flatnonzero(sighted & ~outside)
        outside[deep] = ~self.contains(given[deep])
        origins = given.copy()
        at = np.flatnonzero(sighted & outside)
        above, below = self._sides(face[at], (1 - SHARE_TO_CENTROID) * weights[at] + SHARE_TO_CENTROID / 3)
        # The winding number below a triangle is one more than above it, so one side determines both.
        origins[at] = np.where((self._winding(above) >= -0.5)[:, None], below, above)
        foot = np.einsum("kc,kcd->kd", weights, corners)
        return Viewpoints(given, origins, sighted, component, face, foot)

    def line_of_sight(
        self, one: Viewpoints, i: NDArray[np.int64], other: Viewpoints, j: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return whether points i (m,) of `one` and j (m,) of `other` see each other inside the shape."""
        seen = one.sighted[i] & other.sighted[j] & (one.component[i] == other.component[j])
        begin, end = one.origins[i[seen]], other.origins[j[seen]]
        clear = np.empty(len(begin), np.bool_)
        run(kernels.lines_of_sight, len(begin), WALKS_PER_THREAD, begin, end, self.tree.arrays, clear)
        seen[seen] = clear
        return np.asarray(seen)

    def _lists(self, views: Viewpoints, count: int) -> tuple[NDArray[np.int32], Array]:
        """Return what `nearest` gives, for the welded vertices, with empty lists for those out of reach."""
        total, width = len(self._welded), count + SPARE_ENTRIES
        lists = NearestLists(np.full((total, width), -1, np.int32), np.full((total, width), np.inf))
        sighted = np.flatnonzero(views.sighted)
        if len(sighted):
            _, index = _query(
                views.points[sighted], self._welded, max(LEAST_CANDIDATES, CANDIDATES_PER_ENTRY * count)
            )
            run(
                kernels.visible_candidates,
                total,
                WALKS_PER_THREAD,
                self._surface,
                sighted[index],
                ViewArrays(views.points, views.origins, views.component),
                self.tree.arrays,
                lists,
            )
        self._insert(views, 0, lists)
        run(kernels.propagate, 1, 1, self._surface, np.arange(total), np.inf, lists)
        return lists.numbers[:, :count].copy(), lists.distances[:, :count].copy()

    def _insert(self, views: Viewpoints, first: int, lists: NearestLists) -> None:
        """Insert the points, numbered from `first`, into the lists of the corners of their triangles."""
        corners = self.tree.faces[views.face]
        # Through the foot where a wall may stand between; points of open components are close to the surface.
        off = np.linalg.norm(views.points - views.foot, axis=1)[:, None]
        beside = np.linalg.norm(self._welded[corners] - views.foot[:, None], axis=2)
        length = np.where(views.sighted[:, None], off + beside, np.hypot(off, beside))
        count = len(views.points)
        run(kernels.insert_points, count, count, first, corners, length, lists)

    def _sides(self, face: NDArray[np.int64], weights: Array) -> Array:
        """Return places (2, k, 3) just off triangles: above, where their normals point, and below."""
        corners = self._welded[self.tree.faces[face]]
        normal = area_normals(corners)
        longest = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).max(1)
        # The normal is as long as twice the area: divided by the longest edge, it is as long as the height.
        step = SHARE_OF_HEIGHT * normal / np.where(longest > 0, longest, 1.0)[:, None]
        foot = np.einsum("kc,kcd->kd", weights, corners)
        return np.stack([foot + step, foot - step])

    def _merge_cavities(self) -> None:
        """Find which components have an inside, and merge cavities with the components around them."""
        faces = self.tree.faces
        corners = self._welded[faces]
        component = self._component[faces[:, 0]]
        count = int(component.max()) + 1
        volume = np.bincount(component, np.linalg.det(corners) / 6, minlength=count)
        area = np.linalg.norm(area_normals(corners), axis=1)
        order = np.argsort(component, kind="stable")
        parts = np.split(order, np.cumsum(np.bincount(component, minlength=count))[:-1])
        self.solid, enclosed = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        within = np.zeros(count, np.bool_)
        known = [k for k in range(count) if area[parts[k]].sum() > 0]
        probes = [_probes(parts[k], area[parts[k]]) for k in known]
        if probes:
            face = np.concatenate(probes)
            sides = self._sides(face, np.full((len(face), 3), 1 / 3))
            around = np.abs(self._winding(sides.reshape(-1, 3))).reshape(2, -1)
            parting = np.abs(around[0] - around[1]) > LEAST_WINDING_STEP
            closed = parting.reshape(-1, PROBES).mean(1) >= LEAST_CLOSED_SHARE
            # Outwards is where normals point if the component's own volume is positive.
            above, below = around.reshape(2, -1, PROBES).mean(2)
            out = np.where(volume[known] > 0, above, below)
            self.solid[known], enclosed[known] = closed, closed & (out > 0.5)
            within[known] = np.minimum(above, below) > 0.5
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
                    and encloses(shell, wall[0, 0])
                ):
                    owner[k] = other
                    break
        for k in range(count):
            while owner[owner[k]] != owner[k]:
                owner[k] = owner[owner[k]]
        kept, number = np.unique(owner, return_inverse=True)
        self.solid, self.enclosed = self.solid[kept], within[kept]
        used = self._component >= 0
        self._component[used] = number.reshape(-1)[self._component[used]]

    @cached_property
    def _surface(self) -> SurfaceArrays:
        """The welded surface, as the kernels take it."""
        faces = self.tree.faces
        order = np.argsort(faces.ravel(), kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(faces.ravel(), minlength=len(self._welded)))])
        return SurfaceArrays(self._welded, self._component, faces, starts, order // 3)

    @cached_property
    def _dipoles(self) -> Dipoles:
        return tree_dipoles(self.tree)

    def _winding(self, points: Array) -> Array:
        return winding_numbers(self.tree, points, self._dipoles)


class Cover:
    """The distance of each vertex of a shape from the nearest of a growing set of points.

    Parameters
    ----------
    inside : Inside
        The shape.
    limit : float
        The longest distance that is computed [m]; longer ones are inf.
    """

    def __init__(self, inside: Inside, limit: float) -> None:
        self.inside, self.limit = inside, limit
        self.count = 0
        total = len(inside._welded)
        self._lists = NearestLists(np.full((total, 1), -1, np.int32), np.full((total, 1), np.inf))
        self._near = cKDTree(inside._welded)

    @property
    def distances(self) -> Array:
        """The distance of each vertex from the nearest point so far (n,), measured inside [m]."""
        return np.asarray(self._lists.distances[self.inside._place, 0])

    def distance(self, vertex: int) -> float:
        """Return the distance of one vertex from the nearest point so far [m]."""
        return float(self._lists.distances[self.inside._place[vertex], 0])

    def add(self, points: ArrayLike) -> None:
        """Add points (k, 3) [m]."""
        views, mesh, lists = self.inside.viewpoints(points), self.inside, self._lists
        for k, point in enumerate(views.points):
            one = views[k : k + 1]
            near = np.empty(0, np.int64)
            if one.sighted[0]:
                near = np.array(self._near.query_ball_point(point, self.limit, return_sorted=True), np.int64)
                near = near[mesh._component[near] == one.component[0]]
                straight = np.linalg.norm(mesh._welded[near] - point, axis=1)
                near = near[straight < lists.distances[near, 0]]
                run(
                    kernels.assign_visible,
                    len(near),
                    WALKS_PER_THREAD,
                    mesh._welded,
                    near,
                    Viewpoint(self.count, point, one.origins[0]),
                    mesh.tree.arrays,
                    lists,
                )
            mesh._insert(one, self.count, lists)
            seeds = np.unique(np.concatenate([near, mesh.tree.faces[one.face[0]]]))
            seeds = seeds[lists.numbers[seeds, 0] == self.count]
            run(kernels.propagate, 1, 1, mesh._surface, seeds, self.limit, lists)
            self.count += 1


def _probes(faces: NDArray[np.int64], area: Array) -> NDArray[np.int64]:
    """Return PROBES of the faces, spread evenly over their area."""
    filled = np.cumsum(area)
    return np.asarray(faces[np.searchsorted(filled, (np.arange(PROBES) + 0.5) / PROBES * filled[-1])])


def _query(points: Array, places: Array, count: int) -> tuple[Array, NDArray[np.int64]]:
    """Return distances and numbers (k, at most count) of the points nearest to each place."""
    count = min(count, len(points))
    distance, index = cKDTree(points).query(places, k=count)
    return distance.reshape(len(places), count), index.reshape(len(places), count)
