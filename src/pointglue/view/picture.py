"""Pictures: items to draw, a ground and a camera, as plain data until an image is asked for."""

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..assets.palette import COLOR_CYCLE
from ..checks import check_real, check_rotations
from ..errors import InputError
from . import tessellation as shapes
from .arguments import Size, check_array, check_indices, check_size
from .camera import Camera
from .colors import Color, as_rgb, ramp_colors
from .items import Item, Kind
from .output import Image, save_png
from .tessellation import Floats


class Picture:
    """A picture: items to draw, a ground and a camera.

    A colour is a name in `PALETTE`, "#rrggbb", or red, green and blue in [0, 1]; (n, 3) gives one to each
    point, ellipsoid or arrow. Colours that are left out come in turn. A radius that is left out looks the
    same in every picture. Arrays are copied. Lengths are in the unit of the points, metres as a rule.

    Parameters
    ----------
    size : (int, int)
        Width and height [pixels], from 16 to 8192.
    ground : bool or float
        The height of the ground, which takes the shadows and hides what is below it: True for just under the
        lowest point, False for none.
    camera : Camera, optional
        Where the picture is taken from; by default from above the front, with everything in view.

    Raises
    ------
    InputError
        If an argument is not what it should be; the message names it.

    Examples
    --------
    >>> picture = Picture(size=(640, 360))
    >>> picture.points([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], radius=0.2, color="coral")
    >>> picture.save("points.png")  # doctest: +SKIP
    """

    def __init__(
        self, *, size: Size = (1280, 720), ground: bool | float = True, camera: Camera | None = None
    ) -> None:
        self.size = check_size(size)
        self.ground = bool(ground) if type(ground) in (bool, np.bool_) else check_real("ground", ground)
        self.camera = camera or Camera()
        self._items: list[Item] = []
        self._cycled = 0

    @property
    def items(self) -> tuple[Item, ...]:
        """The items of the picture, in the order in which they were added."""
        return tuple(self._items)

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
        """Add triangles, shaded smoothly except across edges sharper than 70 degrees.

        Parameters
        ----------
        vertices : (n, 3)
            Where the vertices are.
        faces : (m, 3)
            The vertices of each triangle.
        color : str, (3,) or (n, 3), optional
            One colour, or one for each vertex.
        values : (n,), optional
            Numbers that colour the vertices instead, from dark blue to yellow.
        limits : (float, float), optional
            The values of dark blue and of yellow, for pictures that are compared; by default the lowest and
            the highest.
        edges : bool
            Whether the edges of the triangles are drawn as well.
        opacity : float
            From just above 0 to 1, which hides what is behind.
        """
        points = check_array("vertices", vertices, None, 3)
        cells = check_indices("faces", faces, 3, len(points))
        if values is not None:
            if color is not None:
                raise InputError("color and values exclude each other, got both")
            color = ramp_colors(values, limits, len(points))
        self._add("mesh", points, color, cells=cells, edges=edges, opacity=opacity)

    def points(self, points: ArrayLike, *, radius: float | None = None, color: Color | None = None) -> None:
        """Add points (n, 3) as small spheres."""
        self._add("points", check_array("points", points, None, 3), color, radius=radius)

    def ellipsoids(
        self,
        centres: ArrayLike,
        radii: ArrayLike,
        rotations: ArrayLike | None = None,
        *,
        color: Color | None = None,
    ) -> None:
        """Add ellipsoids.

        Parameters
        ----------
        centres : (n, 3)
            Where their centroids are.
        radii : (n, 3)
            Their half axes.
        rotations : (n, 3, 3), optional
            Rotations whose columns are the directions of the axes; by default those of the world.
        color : str, (3,) or (n, 3), optional
            One colour, or one for each ellipsoid.
        """
        origins = check_array("centres", centres, None, 3)
        n = len(origins)
        frames = np.tile(np.eye(3), (n, 1, 1))
        if rotations is not None:
            frames = check_rotations("rotations", rotations, (n, 3, 3))
        lengths = check_array("radii", radii, n, 3)
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
        nodes = check_array("points", points, None, 3)
        if segments is not None:
            cells = check_indices("segments", segments, 2, len(nodes))
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
        starts = check_array("origins", origins, None, 3)
        along = check_array("vectors", vectors, len(starts), 3)
        self._add("arrows", starts, color, vectors=along, radius=radius)

    def frame(self, rotation: ArrayLike, origin: ArrayLike, *, size: float) -> None:
        """Add the columns of a rotation (3, 3) as red, green and blue arrows of length `size`."""
        axes = check_rotations("rotation", rotation, (3, 3)).T
        start = check_array("origin", origin, 3)
        length = check_real("size", size, above=0)
        rgb = np.stack([as_rgb(name, 1) for name in ("red", "green", "blue")])
        self._add("arrows", np.tile(start, (3, 1)), rgb, vectors=length * axes, radius=0.035 * length)

    def fitted_camera(self) -> Camera:
        """Return the camera with its target and its distance worked out, for all pictures of a movie.

        Raises
        ------
        InputError
            If the picture is empty.
        """
        if not self._items:
            raise InputError("the picture is empty: add something to look at")
        tips = [item.points + item.vectors for item in self._items if item.vectors is not None]
        points = [item.points for item in self._items] + tips
        radii = [np.full(len(item.points), item.radius or 0.0) for item in self._items]
        radii += [np.zeros(len(tip)) for tip in tips]
        return self.camera.fit(np.concatenate(points), np.concatenate(radii), self.size[0] / self.size[1])

    def image(self) -> Image:
        """Return the pixels (height, width, 3) of uint8.

        Raises
        ------
        InputError
            If the picture is empty.
        MissingDependencyError
            If Polyscope or OpenGL is missing; the message says how to install it.
        """
        from . import render  # here for the sake of start-up time: most of SciPy comes with it

        return render.render_image(self.items, self.fitted_camera(), self.ground, self.size)

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
        """Check what all kinds of items have in common, and add one with at most `count` colours."""
        if color is None:
            color = COLOR_CYCLE[self._cycled % len(COLOR_CYCLE)]
            self._cycled += 1
        rgb = as_rgb(color, count or len(points))
        opacity = check_real("opacity", opacity, above=0, at_most=1)
        if radius is not None:
            radius = check_real("radius", radius, above=0)
        if kind == "arrows":
            real = parts["vectors"].any(axis=1)
            if not real.any():
                return
            points, parts["vectors"] = points[real], parts["vectors"][real]
            rgb = rgb[real] if rgb.ndim == 2 else rgb
        self._items.append(Item(kind, points, rgb, radius=radius, opacity=opacity, **parts))
