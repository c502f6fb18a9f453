"""Meshes from files.

Those of formats with more than vertices and triangles are read by trimesh, which is loaded when it is needed.
"""

import os
from pathlib import Path

import numpy as np

from ...errors import InputError, MissingDependencyError, PointglueError
from .mesh_parts import Mesh, Part
from .plain_obj import plain_obj

__all__ = ["read_mesh"]


def read_mesh(path: str | os.PathLike[str]) -> Mesh:
    """Read a mesh of any format that trimesh reads.

    Parameters
    ----------
    path : str or path
        The file; its ending is the format.

    Returns
    -------
    Mesh
        Polygons are split into triangles; vertices are in the order of the file.

    Raises
    ------
    InputError
        If the file is missing, damaged, of an unknown format or holds no triangles; the message names it.
    MissingDependencyError
        If the format needs a package that is missing.

    Warns
    -----
    PointglueWarning
        If a texture or a library of materials that the file names is missing.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{file}: {'is a folder, not a mesh' if file.is_dir() else 'no such file'}")
    kind = file.suffix.lower()
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    plain = plain_obj(file.read_bytes()) if kind == ".obj" else None
    parts = [Part(file.name, *plain)] if plain is not None else _parts_by_trimesh(file)
    if not parts:
        raise InputError(f"{file}: holds no triangles")
    for part in parts:
        if not np.isfinite(part.vertices).all():
            k = int(np.argwhere(~np.isfinite(part.vertices))[0, 0])
            raise InputError(f"{file}: vertex {k} is not finite: {part.vertices[k].tolist()}")
        if part.faces.min() < 0 or part.faces.max() >= len(part.vertices):
            raise InputError(
                f"{file}: faces must index the {len(part.vertices)} vertices, "
                f"got {part.faces.min()} to {part.faces.max()}"
            )
    return Mesh(tuple(parts))


def _parts_by_trimesh(file: Path) -> list[Part]:
    """Return the parts of a file as trimesh reads them, or raise an error that names the file."""
    from .trimesh_files import read_parts, readable_kinds  # here for the sake of start-up time

    try:
        return read_parts(file)
    except PointglueError:
        raise
    except ImportError as error:
        raise MissingDependencyError(f"{file}: {_line(error)}") from error
    except Exception as error:  # trimesh raises errors of any type for broken files
        kind, kinds = file.suffix.lower(), readable_kinds()
        if kind not in kinds:
            known = ", ".join(name for name in kinds if "_" not in name)
            raise InputError(f"{file}: is of no format that trimesh reads, {known}") from error
        raise InputError(f"{file}: cannot be read as {kind}: {_line(error)}") from error


def _line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
