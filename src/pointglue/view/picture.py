"""Scenes: what is in a picture, as plain data."""

import os
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ..assets.palette import IN_TURN
from ..errors import InputError
from . import arguments as checks
from . import tessellation as shapes
from .arguments import Color
from .camera import Camera
from .output import Image, save_png
from .tessellation import Floats, Ints, Triangles

Size = tuple[int, int]
Kind = Literal["mesh", "ellipsoids", "points", "lines", "arrows"]

RADII = {"points": 0.006, "lines": 0.0018, "arrows": 0.003}  # where none is given, in camera distances


@dataclass(frozen=True)
class Item:
    """One thing in a scene."""

    kind: Kind
    points: Floats
    """Vertices, centres, nodes or origins (n, 3)."""
    color: Floats
    """(3,), or (k, 3) where k divides n: the points go in k equal runs."""
    cells: Ints | None = None
    """Faces (m, 3) or segments (m, 2)."""
    vectors: Floats | None = None
    radius: float | None = None
    opacity: float = 1.0
    edges: bool = False

    def relative(self, camera: Camera) -> "Item":
        """The item around the camera's target, in camera distances."""
        distance = camera.distance or 1.0
        return replace(
            self,
            points=(self.points - np.array(camera.target)) / distance,
            vectors=None if self.vectors is None else self.vectors / distance,
            radius=RADII.get(self.kind) if self.radius is None else self.radius / distance,
        )

    def triangles(self) -> Triangles:
        """What the item is in the shadows; if it is not points or lines, also in the picture."""
        radius, cells = self.radius or 0.0, self.cells
        if self.kind == "arrows" and self.vectors is not None:
            return shapes.arrows(self.points, self.vectors, radius)
        if cells is None:
            ball = shapes.icosphere(1 if len(self.points) < 2000 else 0)
            return shapes.instances(ball, self.points, np.tile(radius * np.eye(3), (len(self.points), 1, 1)))
        if self.kind == "lines":
            return shapes.tubes(self.points[cells[:, 0]], self.points[cells[:, 1]], radius)
        return self.points, cells


class Picture:
    """Things to look at, a ground and a camera.

    A colour is a name in `PALETTE`, "#rrggbb", or red, green and blue in [0, 1]; (n, 3) gives one to each
    point, ellipsoid or arrow. A radius that is left out looks the same in every picture. Arrays are copied.
    """

    def __init__(
        self, *, size: Size = (1280, 720), ground: bool | float = True, camera: Camera | None = None
    ) -> None:
        """Start an empty scene.

        `size` is the width and height in pixels. `ground` is the height of the ground, which takes the
        shadows and hides what is below it: True for just under the lowest point, False for none.
        """
        self.size = checks.picture_size(size)
        self.ground = bool(ground) if isinstance(ground, bool | np.bool_) else checks.number("ground", ground)
        self.camera = camera or Camera()
        self._items: list[Item] = []
        self._cycled = 0

    def mesh(
        self,
        vertices: ArrayLike,
        faces: ArrayLike,
        *,
        color: Color | None = None,
        values: ArrayLike | None = None,
        limits: tuple[float, float] | None = None,
        edges: bool = False,
        opacity: float = 1.0,
    ) -> None:
        """Add triangles: vertices (n, 3), faces (m, 3).

        `values` (n,) colour the vertices from dark blue at the lower of the `limits` to yellow at the upper;
        give the limits where pictures are to be compared. `edges` draws the edges of the triangles as well.
        Shading is smooth, except across edges sharper than 70 degrees.
        """
        points = checks.floats("vertices", vertices, None, 3)
        cells = checks.indices("faces", faces, 3, len(points))
        if values is not None:
            if color is not None:
                raise InputError("color and values exclude each other, got both")
            color = checks.ramp(values, limits, len(points))
        self._add("mesh", points, color, cells=cells, edges=edges, opacity=opacity)

    def points(self, points: ArrayLike, *, radius: float | None = None, color: Color | None = None) -> None:
        """Add points (n, 3) as small spheres."""
        self._add("points", checks.floats("points", points, None, 3), color, radius=radius)

    def ellipsoids(
        self,
        centres: ArrayLike,
        radii: ArrayLike,
        rotations: ArrayLike | None = None,
        *,
        color: Color | None = None,
    ) -> None:
        """Add ellipsoids: centres (n, 3), radii (n, 3) along the columns of rotations (n, 3, 3)."""
        origins = checks.floats("centres", centres, None, 3)
        n = len(origins)
        frames = np.tile(np.eye(3), (n, 1, 1))
        if rotations is not None:
            frames = checks.rotations("rotations", rotations, n)
        lengths = checks.floats("radii", radii, n, 3)
        if lengths.min() <= 0:
            raise InputError(f"radii must be positive, got {lengths.min()}")
        ball = shapes.icosphere(3 if n <= 200 else 2)
        vertices, faces = shapes.instances(ball, origins, frames * lengths[:, None])
        self._add("ellipsoids", vertices, color, count=n, cells=faces)

    def lines(
        self,
        points: ArrayLike,
        *,
        segments: ArrayLike | None = None,
        radius: float | None = None,
        color: Color | None = None,
    ) -> None:
        """Add a polyline through points (n, 3), or the segments (m, 2) between them, as round tubes."""
        nodes = checks.floats("points", points, None, 3)
        if segments is not None:
            cells = checks.indices("segments", segments, 2, len(nodes))
        elif len(nodes) > 1:
            cells = np.stack([np.arange(len(nodes) - 1), np.arange(1, len(nodes))], axis=1)
        else:
            raise InputError("points: a line needs at least 2, got 1")
        self._add("lines", nodes, color, cells=cells, radius=radius)

    def arrows(
        self,
        origins: ArrayLike,
        vectors: ArrayLike,
        *,
        radius: float | None = None,
        color: Color | None = None,
    ) -> None:
        """Add arrows from origins (n, 3), exactly as long as their vectors (n, 3); a zero vector has none."""
        starts = checks.floats("origins", origins, None, 3)
        along = checks.floats("vectors", vectors, len(starts), 3)
        self._add("arrows", starts, color, vectors=along, radius=radius)

    def frame(self, rotation: ArrayLike, origin: ArrayLike, *, size: float) -> None:
        """Add the columns of a rotation (3, 3) as red, green and blue arrows of length `size`."""
        axes = checks.rotations("rotation", checks.floats("rotation", rotation, 3, 3)[None], 1)[0].T
        start = checks.floats("origin", origin, 3)
        length = checks.positive("size", size)
        rgb = np.stack([checks.colors(name, 1) for name in ("red", "green", "blue")])
        self._add("arrows", np.tile(start, (3, 1)), rgb, vectors=length * axes, radius=0.035 * length)

    def fitted_camera(self) -> Camera:
        """The camera with its target and distance settled, to be held still over a film."""
        if not self._items:
            raise InputError("the scene is empty: add something to look at")
        tips = [item.points + item.vectors for item in self._items if item.vectors is not None]
        points = [item.points for item in self._items] + tips
        radii = [np.full(len(item.points), item.radius or 0.0) for item in self._items]
        radii += [np.zeros(len(tip)) for tip in tips]
        return self.camera.fit(np.concatenate(points), np.concatenate(radii), self.size[0] / self.size[1])

    def image(self) -> Image:
        """The picture, (height, width, 3) of uint8."""
        from . import render  # not before it is needed: most of scipy comes with it

        return render.draw(self._items, self.fitted_camera(), self.ground, self.size)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a .png file, which appears when it is complete."""
        save_png(self.image, path)

    def _add(
        self,
        kind: Kind,
        points: Floats,
        color: Color | None,
        *,
        count: int | None = None,
        radius: float | None = None,
        opacity: float = 1.0,
        **parts: Any,
    ) -> None:
        """Check what the items have in common and keep one; `count` is of its colours."""
        if color is None:
            color = IN_TURN[self._cycled % len(IN_TURN)]
            self._cycled += 1
        rgb = checks.colors(color, count or len(points))
        if checks.positive("opacity", opacity) > 1:
            raise InputError(f"opacity must be at most 1, got {opacity!r}")
        if radius is not None:
            radius = checks.positive("radius", radius)
        if kind == "arrows":
            real = parts["vectors"].any(axis=1)
            if not real.any():
                return
            points, parts["vectors"] = points[real], parts["vectors"][real]
            rgb = rgb[real] if rgb.ndim == 2 else rgb
        self._items.append(Item(kind, points, rgb, radius=radius, opacity=float(opacity), **parts))
