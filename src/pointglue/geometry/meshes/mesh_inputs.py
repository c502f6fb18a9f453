"""Meshes as users have them: a file, an object of trimesh, or two arrays."""

import os
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from ...errors import InputError

__all__ = ["mesh_arrays"]


def mesh_arrays(mesh: Any) -> tuple[ArrayLike, ArrayLike]:
    """Return the vertices and faces of whatever a mesh was given as; they are not checked.

    Parameters
    ----------
    mesh : path, mesh or scene of trimesh, object with vertices and faces, or a tuple of these
        The mesh.

    Returns
    -------
    vertices : (n, 3)
        The vertices [m].
    faces : (m, 3) or (m, 4)
        Triangles or quads.

    Raises
    ------
    InputError
        If it is none of these, or a file that cannot be read.
    """
    if isinstance(mesh, str | os.PathLike):
        from .mesh_files import read_mesh  # here for the sake of start-up time: trimesh takes 0.2 s

        mesh = read_mesh(mesh)
    elif hasattr(mesh, "geometry") and hasattr(mesh, "graph"):
        from .trimesh_files import mesh_of_scene

        mesh = mesh_of_scene(mesh)
    if isinstance(mesh, Sequence) and len(mesh) == 2:
        return mesh[0], mesh[1]
    if not (hasattr(mesh, "vertices") and hasattr(mesh, "faces")):
        raise InputError(
            f"mesh must be a file, have vertices and faces, or be a tuple of them, got {type(mesh).__name__}"
        )
    return mesh.vertices, mesh.faces
