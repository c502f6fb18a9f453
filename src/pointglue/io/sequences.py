"""Runs as numbered mesh files, one for each frame, for programs that read no USD."""

import os
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from ..checks import Array
from ..errors import InputError
from ..files import explain_write_errors
from .frames import FrameStore

__all__ = ["write_sequence"]

Format = Literal["ply", "obj"]


def write_sequence(
    store: FrameStore, directory: str | os.PathLike[str] | None = None, *, format: Format = "ply"
) -> list[Path]:
    """Write the frames of a run as ``frame_0001.ply`` and on, to its folder ``ply`` or to a `directory`.

    A file holds every object in the colour of its vertices; an OBJ file, their names as well. Points and
    lines are vertices without faces. Each file appears when it is complete. Numbered files in the run's own
    folder that belong to none of its frames are removed at the end: they are of an earlier run. In another
    `directory` they are left alone.
    """
    # Not before they are needed: trimesh takes a while to load.
    from .mesh_output import open_output
    from .meshes import Mesh, Part

    if format not in get_args(Format):
        raise InputError(f"format must be one of {', '.join(get_args(Format))}, got {format!r}")
    folder = store.directory / format if directory is None else Path(directory)
    if not store.numbers():
        raise InputError(f"{store.directory}: has no frames to write")
    mesh = Mesh(
        tuple(
            Part(
                stored.name, stored.rest, _faces(stored.faces), colors=_colors(stored.color, len(stored.rest))
            )
            for stored in store.objects
        )
    )
    files = []
    for frame in store:
        path = folder / f"{store.path(frame.number).stem}.{format}"
        with open_output(path, mesh) as out:
            out.add(np.concatenate(list(store.positions(frame).values())))
        files.append(path)
    stale = set(folder.glob(f"frame_*.{format}")) - set(files) if directory is None else ()
    for path in stale:
        with explain_write_errors(path):
            path.unlink()
    return files


def _faces(faces: Array | None) -> Array:
    return np.empty((0, 3), np.int64) if faces is None else faces


def _colors(color: tuple[float, float, float], count: int) -> Array:
    """Of `count` vertices: (count, 4) of uint8."""
    return np.tile(np.round(255 * np.array([*color, 1.0])).astype(np.uint8), (count, 1))
