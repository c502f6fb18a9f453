"""Distances measured inside a shape: straight to what a handle sees, then along the edges of the mesh."""

import hashlib
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree

from ..checks import Array, as_reals, require_finite
from ..errors import InputError, PointglueWarning
from ..files import drafted
from ..geometry.simplices import check_cells
from ..geometry.trees import TriangleTree

__all__ = ["CacheFolder", "inside_distances"]

CacheFolder = str | os.PathLike[str] | None

# In sizes of the mesh: what is closer together is one vertex; how close to the surface a handle is on
# it, and how far within it then looks from.
SEAM, ON_SURFACE, STEP_IN = 1e-7, 1e-4, 1e-5


def inside_distances(
    vertices: Array,
    faces: NDArray[np.int64],
    handles: Array,
    *,
    cache: CacheFolder = None,
    progress: bool = False,
) -> Array:
    """Distance (H, V) of every vertex from every handle, measured inside the shape.

    The shortest way that goes straight from the handle to a vertex it sees, through no face, and then
    along edges. Vertices at one place count as one, so that unwelded triangles are a surface. A handle on
    the surface looks inwards; one outside sees the outside. A vertex that cannot be reached is given the
    way to the nearest vertex that can, and a straight line from there.
    """
    vertices, faces = check_cells(vertices, faces)
    handles = as_reals("handles", handles).astype(np.float64)
    if vertices.shape[1] != 3 or faces.shape[1] != 3:
        raise InputError(f"faces must be triangles (m, 3) in space, got shape {faces.shape}")
    if handles.ndim != 2 or handles.shape[1] != 3:
        raise InputError(f"handles must have shape (H, 3), got shape {handles.shape}")
    require_finite("handles", handles)
    known = _Cache(cache, vertices, faces)
    result, lost = np.empty((len(handles), len(vertices))), np.zeros(len(handles), dtype=bool)
    missing = []
    for k, handle in enumerate(handles):
        stored = known.read(handle, len(vertices) + 1)
        if stored is None:
            missing.append(k)
        else:
            result[k], lost[k] = stored[:-1], stored[-1] > 0
    if missing:
        welded, place = _welded(vertices)
        cells = place[faces]
        tree, edges = TriangleTree(welded, cells), _edges(welded, cells)
        for k in _shown(missing, progress):
            distance = _from_one(tree, edges, welded, handles[k], k)
            unreached = ~np.isfinite(distance)
            if unreached.any():
                gap, index = cKDTree(welded[~unreached]).query(welded[unreached])
                distance[unreached] = distance[~unreached][index] + gap
            result[k], lost[k] = distance[place], unreached.any()
            known.write(handles[k], np.append(result[k], unreached.sum()))
    if lost.any():
        warnings.warn(
            f"handles {np.flatnonzero(lost)[:8].tolist()} cannot reach all parts of the mesh: those parts "
            f"are measured from the nearest part that can be reached",
            PointglueWarning,
            stacklevel=3,
        )
    return result


def _welded(vertices: Array) -> tuple[Array, NDArray[np.int64]]:
    """Vertices without repetition, and where each of the given ones is among them."""
    unique, place = np.unique(vertices, axis=0, return_inverse=True)
    pairs = cKDTree(unique).query_pairs(SEAM * _size(vertices), output_type="ndarray")
    place = place.reshape(-1)
    if not len(pairs):
        return unique, place
    touching = csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(unique),) * 2)
    _, label = connected_components(touching, directed=False)
    _, first = np.unique(label, return_index=True)
    return unique[first], label[place]


def _size(vertices: Array) -> float:
    return float(np.linalg.norm(np.ptp(vertices, axis=0)))


def _eye(tree: TriangleTree, handle: Array) -> Array:
    """Where a handle looks from: itself, or if it is on the surface, a place just within.

    A handle picked on a vertex would see both sides of the wall, and through the air. Which side is within
    is told by winding numbers, whatever way the faces are turned; an open mesh may have no such side.
    """
    size = _size(tree.vertices)
    (face,), weights, (distance,) = tree.closest(handle[None])
    corners = tree.vertices[tree.faces[face]]
    normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
    length = np.linalg.norm(normal)
    if distance > ON_SURFACE * size or not length > 0:
        return handle
    sides = weights[0] @ corners + STEP_IN * size * np.array([[1.0], [-1.0]]) * normal / length
    inside = np.abs([_winding(tree, side) for side in sides])
    if inside.max() < 0.75 or inside.min() > 0.25:
        return handle
    return np.asarray(sides[inside.argmax()])


def _winding(tree: TriangleTree, point: Array) -> float:
    """How often the surface goes around a point: the solid angles of its triangles over that of a sphere."""
    a, b, c = np.moveaxis(tree.vertices[tree.faces] - point, 1, 0)
    la, lb, lc = (np.linalg.norm(side, axis=1) for side in (a, b, c))
    volume = np.einsum("ij,ij->i", a, np.cross(b, c))
    dots = [np.einsum("ij,ij->i", *pair) for pair in ((a, b), (b, c), (c, a))]
    angle = 2 * np.arctan2(volume, la * lb * lc + dots[0] * lc + dots[1] * la + dots[2] * lb)
    return float(angle.sum() / (4 * np.pi))


def _from_one(tree: TriangleTree, edges: csr_array, vertices: Array, handle: Array, number: int) -> Array:
    """Distance of every vertex from one handle; infinite where there is no way."""
    straight = np.linalg.norm(vertices - handle, axis=1)
    used = np.diff(edges.indptr) > 0  # vertices of no face block nothing and are part of no surface
    visible = used & ~tree.blocked(_eye(tree, handle), np.arange(len(vertices)))
    if not visible.any():
        raise InputError(
            f"handle {number} at {handle.tolist()} sees no vertex of the mesh: it is within a wall or among "
            f"triangles that enclose it. Move it, or choose distance='euclidean'"
        )
    # The straight line is the shortest way to what is seen. The search is for the rest, and starts from
    # the seen vertices next to it.
    distance = np.where(visible, straight, np.inf)
    hidden = ~visible & used
    border = visible & (np.diff(edges[:, np.flatnonzero(hidden)].indptr) > 0)
    nodes = np.flatnonzero(hidden | border)
    if len(nodes):
        some = edges[nodes][:, nodes]
        begin = np.flatnonzero(border[nodes])
        lengths = np.maximum(straight[nodes[begin]], 1e-300)  # 0 would mean that there is no way
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


def _edges(vertices: Array, faces: NDArray[np.int64]) -> csr_array:
    """Lengths of the edges, in both directions, as a sparse matrix."""
    ends = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    ends = np.unique(np.sort(ends, axis=1), axis=0)
    ends = ends[ends[:, 0] != ends[:, 1]]
    length = np.linalg.norm(vertices[ends[:, 0]] - vertices[ends[:, 1]], axis=1)
    rows, columns = np.concatenate([ends[:, 0], ends[:, 1]]), np.concatenate([ends[:, 1], ends[:, 0]])
    return csr_array((np.tile(length, 2), (rows, columns)), shape=(len(vertices), len(vertices)))


def _shown(handles: list[int], progress: bool) -> Iterator[int]:
    """The handles, with a progress bar if there is somebody to look at it."""
    if not (progress and sys.stderr.isatty()):
        yield from handles
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(handles, "distances inside the shape", console=Console(stderr=True))


class _Cache:
    """Distances on disk, a file per handle, named by what they depend on."""

    def __init__(self, folder: CacheFolder, vertices: Array, faces: NDArray[np.int64]) -> None:
        if folder is not None and not isinstance(folder, str | os.PathLike):
            raise InputError(f"cache must be a folder, got {type(folder).__name__}")
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            self.mesh = hashlib.sha256(b"pointglue inside 2")
            for array in (vertices, faces):
                self.mesh.update(str((array.shape, array.dtype)).encode())
                self.mesh.update(array.tobytes())

    def _path(self, handle: Array) -> Path:
        assert self.folder is not None
        key = self.mesh.copy()
        key.update(handle.tobytes())
        return self.folder / f"{key.hexdigest()[:40]}.npy"

    def read(self, handle: Array, count: int) -> Array | None:
        """The `count` numbers kept for a handle, if they are known."""
        if self.folder is None:
            return None
        try:
            stored: Array = np.load(self._path(handle), allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None  # not there, or not readable: it will be worked out and written again
        return stored if stored.shape == (count,) and stored.dtype == np.float64 else None

    def write(self, handle: Array, distance: Array) -> None:
        """Keep the distances; the file appears when it is complete."""
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with drafted(self._path(handle)) as draft:
                np.save(draft, distance)
        except OSError as error:
            raise InputError(f"cache {self.folder} cannot be written: {error}") from error
