"""Distances measured inside a shape, and the folder that keeps them from one run to the next."""

import hashlib
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..checks import Array, check_rows
from ..errors import InputError, PointglueWarning
from ..files import atomic_write
from ..geometry.simplices import check_cells

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
    """Measure how far every vertex is from every handle inside the shape.

    The distance is that of the shortest path that goes straight from the handle to a vertex it sees, through
    no face, and then along edges. Vertices at one place count as one, so that unwelded triangles are a
    surface. A handle on the surface looks inwards; one outside sees the outside. Where the mesh is flat,
    paths lead over it, around its notches and holes.

    A shell, a connected surface, that cannot be reached is measured, with a warning, from where it is nearest
    to the shells that can, or from all places where it is close to one that is not much larger; and from
    there along its own edges, so that distances do not jump within it.

    Parameters
    ----------
    vertices : (V, 3)
        The vertices [m].
    faces : (m, 3)
        The triangles.
    handles : (H, 3)
        The handles [m].
    cache : path, optional
        A folder that keeps distances from one run to the next.
    progress : bool
        Whether a terminal shows a progress bar.

    Returns
    -------
    (H, V)
        The distances [m].

    Raises
    ------
    InputError
        If an argument is not of that kind, a handle sees no vertex, or the cache cannot be written.
    """
    vertices, faces = check_cells(vertices, faces)
    if vertices.shape[1] != 3 or faces.shape[1] != 3:
        raise InputError(f"faces must be triangles (m, 3) in space, got shape {faces.shape}")
    handles = check_rows("handles", handles)
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
        from .inside_shape import InsideShape  # here for the sake of start-up time: SciPy takes 0.3 s

        shape = InsideShape(vertices, faces)
        for k in _shown(missing, progress):
            result[k], unreached = shape.distances(handles[k], k)
            lost[k] = unreached > 0
            known.write(handles[k], np.append(result[k], unreached))
    if lost.any():
        warnings.warn(
            f"handles {np.flatnonzero(lost)[:8].tolist()} cannot reach all parts of the mesh: each such "
            f"part is measured from where it is nearest to the rest (distance 'euclidean' goes straight)",
            PointglueWarning,
            stacklevel=3,
        )
    return result


def _shown(handles: list[int], progress: bool) -> Iterator[int]:
    """Yield the handles, with a progress bar if there is a terminal to show it."""
    if not (progress and sys.stderr.isatty()):
        yield from handles
        return
    from rich.console import Console  # here for the sake of start-up time
    from rich.progress import track

    yield from track(handles, "distances inside the shape", console=Console(stderr=True))


class _Cache:
    """Distances on disk, a file per handle, named by what they depend on."""

    def __init__(self, folder: CacheFolder, vertices: Array, faces: NDArray[np.int64]) -> None:
        if folder is not None and not isinstance(folder, str | os.PathLike):
            raise InputError(f"cache must be a folder, got {type(folder).__name__}")
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            self.mesh = hashlib.sha256(b"pointglue inside 3")
            for array in (vertices, faces):
                self.mesh.update(str((array.shape, array.dtype)).encode())
                self.mesh.update(array.tobytes())

    def _path(self, handle: Array) -> Path:
        assert self.folder is not None
        key = self.mesh.copy()
        key.update(handle.tobytes())
        return self.folder / f"{key.hexdigest()[:40]}.npy"

    def read(self, handle: Array, count: int) -> Array | None:
        """Return the `count` numbers kept for a handle, None if they are not known."""
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
            with atomic_write(self._path(handle)) as draft:
                np.save(draft, distance)
        except OSError as error:
            raise InputError(f"cache {self.folder} cannot be written: {error}") from error
