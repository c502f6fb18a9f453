"""What mesh files hold: parts of one material each, everything of which is kept when their vertices move."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...checks import Array

__all__ = ["Mesh", "Part", "UniqueNames"]


@dataclass(frozen=True, eq=False)
class Part:
    """Triangles of one material.

    Parameters
    ----------
    name : str
        The name of the object, which no other part of the mesh has.
    vertices : (n, 3)
        Where the vertices are.
    faces : (m, 3)
        The vertices of each triangle.
    normals : (n, 3) or None
        Unit normals of the vertices, if the file has them.
    colors : (n, 4) of uint8 or None
        Red, green, blue and alpha of the vertices.
    face_colors : (m, 4) of uint8 or None
        Red, green, blue and alpha of the triangles.
    uv : (n, 2) or None
        Texture coordinates.
    material : object or None
        The material, as trimesh has it.
    """

    name: str
    vertices: Array
    faces: Array
    normals: Array | None = None
    colors: Array | None = None
    face_colors: Array | None = None
    uv: Array | None = None
    material: Any = None


@dataclass(frozen=True, eq=False)
class Mesh:
    """The content of a mesh file.

    Parameters
    ----------
    parts : tuple of Part
        One part, or one for every object and material, in the coordinates of the file.
    """

    parts: tuple[Part, ...]

    @cached_property
    def vertices(self) -> Array:
        """The vertices (V, 3) of all parts, one part after the other."""
        return np.concatenate([part.vertices for part in self.parts])

    @cached_property
    def faces(self) -> Array:
        """The triangles (m, 3) of all parts, as rows of `vertices`."""
        starts = np.cumsum([0] + [len(part.vertices) for part in self.parts])
        return np.concatenate([part.faces + start for part, start in zip(self.parts, starts, strict=False)])

    @cached_property
    def normals(self) -> Array | None:
        """The normals (V, 3) of all parts, zero in those that have none; None if no part has any."""
        if all(part.normals is None for part in self.parts):
            return None
        zero = [np.zeros_like(part.vertices) if part.normals is None else part.normals for part in self.parts]
        return np.concatenate(zero)

    def moved(self, vertices: Array, normals: Array | None = None) -> "Mesh":
        """Return the same mesh with other `vertices` (V, 3) and `normals` (V, 3)."""
        ends = np.cumsum([len(part.vertices) for part in self.parts])[:-1]
        vertices_of = np.split(vertices, ends)
        normals_of = [None] * len(vertices_of) if normals is None else np.split(normals, ends)
        return Mesh(
            tuple(
                replace(part, vertices=own, normals=None if part.normals is None else normal)
                for part, own, normal in zip(self.parts, vertices_of, normals_of, strict=True)
            )
        )


class UniqueNames:
    """A source of unique names: a name that has been given already gets a number."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._numbers: dict[str, int] = {}

    def new(self, name: str) -> str:
        """Return `name`, or the first of `name_2`, `name_3`... that has not been given yet."""
        number, other = self._numbers.get(name, 1), name
        while other in self._given:
            number += 1
            other = f"{name}_{number}"
        self._numbers[name] = (
            number  # where to search next time, or a thousand equal names would take a million tries
        )
        self._given.add(other)
        return other
