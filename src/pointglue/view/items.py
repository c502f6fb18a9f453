"""The items of a picture, as plain data."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from . import tessellation as shapes
from .camera import Camera
from .tessellation import Floats, Ints, Triangles

Kind = Literal["mesh", "ellipsoids", "points", "lines", "arrows"]

# Radii of items that have none of their own, in camera distances, so that they look alike in every picture.
DEFAULT_RADII = {"points": 0.006, "lines": 0.0018, "arrows": 0.003}


@dataclass(frozen=True)
class Item:
    """One thing in a picture: a mesh, ellipsoids, points, lines or arrows."""

    kind: Kind
    points: Floats
    """Vertices, centres, nodes or origins (n, 3)."""
    color: Floats
    """(3,), or (k, 3) where k divides n: each colour is that of n / k points in a row."""
    cells: Ints | None = None
    """Faces (m, 3) or segments (m, 2)."""
    vectors: Floats | None = None
    """Arrows (n, 3) from the points."""
    radius: float | None = None
    opacity: float = 1.0
    edges: bool = False
    """Whether the edges of the triangles are drawn."""

    def relative(self, camera: Camera) -> "Item":
        """Return the item about the camera's target, in camera distances."""
        distance = camera.distance or 1.0
        return replace(
            self,
            points=(self.points - np.array(camera.target)) / distance,
            vectors=None if self.vectors is None else self.vectors / distance,
            radius=DEFAULT_RADII.get(self.kind) if self.radius is None else self.radius / distance,
        )

    def triangles(self) -> Triangles:
        """Return the triangles that cast the item's shadow; points and lines are drawn without them."""
        radius, cells = self.radius or 0.0, self.cells
        if self.kind == "arrows" and self.vectors is not None:
            return shapes.arrows(self.points, self.vectors, radius)
        if cells is None:
            ball = shapes.icosphere(1 if len(self.points) < 2000 else 0)
            return shapes.instances(ball, self.points, np.tile(radius * np.eye(3), (len(self.points), 1, 1)))
        if self.kind == "lines":
            return shapes.tubes(self.points[cells[:, 0]], self.points[cells[:, 1]], radius)
        return self.points, cells
