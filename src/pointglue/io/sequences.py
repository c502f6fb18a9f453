"""Runs as numbered mesh files, one for each frame, for programs that do not read USD."""

import os
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from ..checks import Array, check_choice
from ..errors import InputError
from ..files import explain_write_errors
from .frames import FrameStore

__all__ = ["write_sequence"]

SequenceFormat = Literal["ply", "obj"]


def write_sequence(
    store: FrameStore, directory: str | os.PathLike[str] | None = None, *, format: SequenceFormat = "ply"
) -> list[Path]:
    """Write the frames of a run as mesh files, ``frame_0001.ply`` etc.

    A file holds all objects, with colours of vertices; an OBJ file also their names. Points and lines are
    vertices without faces. Each file appears when it is complete. Numbered files in the run's own folder that
    belong to none of its frames are removed at the end: they are of an earlier run.

    Parameters
    ----------
    store : FrameStore
        The run.
    directory : str or path, optional
        The folder to write to, where other files are left alone; by default ``ply`` or ``obj`` in the folder
        of the run.
    format : {"ply", "obj"}
        The format.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    InputError
        If there are no frames, or the format is unknown.
    PointglueError
        If a file cannot be written.
    """
    # Imported here for the sake of start-up time: trimesh takes 0.2 s.
    from ..geometry.meshes.mesh_parts import Mesh, Part
    from .mesh_output import open_output

    check_choice("format", format, get_args(SequenceFormat))
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
    """Return the triangles (m, 3) of an object, an empty array if it has none."""
    return np.empty((0, 3), np.int64) if faces is None else faces


def _colors(color: tuple[float, float, float], count: int) -> Array:
    """Return one colour for `count` vertices: (count, 4) of uint8."""
    return np.tile(np.round(255 * np.array([*color, 1.0])).astype(np.uint8), (count, 1))
