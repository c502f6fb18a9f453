"""Distances measured inside a shape: straight to what a handle sees, then along the edges of the mesh."""

import hashlib
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from ..checks import Array
from ..errors import InputError, PointglueWarning
from ..geometry.trees import TriangleTree

__all__ = ["CacheFolder", "inside_distances"]

CacheFolder = str | os.PathLike[str] | None


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
    along edges. Vertices at one place count as one, so that unwelded triangles are a surface. A vertex
    that cannot be reached is given the way to the nearest vertex that can, and a straight line from there.
    """
    known = _Cache(cache, vertices, faces)
    result = np.empty((len(handles), len(vertices)))
    missing = [k for k in range(len(handles)) if not known.read(handles[k], result[k])]
    if not missing:
        return result
    welded, place = np.unique(vertices, axis=0, return_inverse=True)
    place = place.reshape(-1)
    cells = place[faces]
    tree, edges = TriangleTree(welded, cells), _edges(welded, cells)
    stranded: list[int] = []
    for k in _shown(missing, progress):
        distance = _from_one(tree, edges, welded, handles[k], k)
        unreached = ~np.isfinite(distance)
        if unreached.any():
            stranded.append(k)
            nearest = cKDTree(welded[~unreached])
            gap, index = nearest.query(welded[unreached])
            distance[unreached] = distance[~unreached][index] + gap
        result[k] = distance[place]
        known.write(handles[k], result[k])
    if stranded:
        warnings.warn(
            f"handles {stranded[:8]} cannot reach all parts of the mesh: those parts are measured from the "
            f"nearest part that can be reached",
            PointglueWarning,
            stacklevel=3,
        )
    return result


def _from_one(tree: TriangleTree, edges: csr_array, vertices: Array, handle: Array, number: int) -> Array:
    """Distance of every vertex from one handle; infinite where there is no way."""
    straight = np.linalg.norm(vertices - handle, axis=1)
    used = np.diff(edges.indptr) > 0  # vertices of no face block nothing and are part of no surface
    visible = used & ~tree.blocked(handle, np.arange(len(vertices)))
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
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            self.mesh = hashlib.sha256(b"pointglue inside 1")
            for array in (vertices, faces):
                self.mesh.update(str((array.shape, array.dtype)).encode())
                self.mesh.update(array.tobytes())

    def _path(self, handle: Array) -> Path:
        assert self.folder is not None
        key = self.mesh.copy()
        key.update(handle.tobytes())
        return self.folder / f"{key.hexdigest()[:40]}.npy"

    def read(self, handle: Array, out: Array) -> bool:
        """Fill `out` and return True, if these distances are known."""
        if self.folder is None:
            return False
        try:
            stored = np.load(self._path(handle), allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return False  # not there, or not readable: it will be worked out and written again
        if stored.shape != out.shape or stored.dtype != out.dtype:
            return False
        out[:] = stored
        return True

    def write(self, handle: Array, distance: Array) -> None:
        """Keep the distances; the file appears when it is complete."""
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
                try:
                    np.save(file, distance)
                    file.close()
                    os.replace(file.name, self._path(handle))
                except BaseException:
                    os.unlink(file.name)
                    raise
        except OSError as error:
            raise InputError(f"cache {self.folder} cannot be written: {error}") from error
