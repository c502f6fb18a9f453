"""Items to pixels through Polyscope.

Polyscope is one window per process, so a picture puts everything in, shoots, and takes everything out again.
"""

import os
import sys
import tempfile
from ctypes import CDLL
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import MissingDependencyError
from . import light
from .camera import Camera
from .output import Image, save_png
from .picture import Item
from .tessellation import Floats, Triangles

GAMMA = 2.2  # of Polyscope's output: colours go in as linear light
GAP = 5e-4  # from the ground up to the lowest point, so that a flat base does not flicker


def draw(items: list[Item], camera: Camera, ground: bool | float, size: tuple[int, int]) -> Image:
    """The picture (height, width, 3); the camera has its target and distance."""
    ps = _polyscope()
    # Seen from the camera every scene has the same scale, so single precision and one set of radii will do.
    items = [item.relative(camera) for item in items]
    solids = [item.triangles() for item in items]
    floor = None
    if ground is True:
        floor = min(_lowest(item, solid) for item, solid in zip(items, solids, strict=True)) - GAP
    elif ground is not False and camera.target is not None and camera.distance is not None:
        floor = (ground - camera.target[1]) / camera.distance - GAP

    spots = [light.samples(*solid, 2 / light.TEXELS) for solid in solids]
    weights = np.repeat([item.opacity for item in items], [len(spot) for spot in spots])
    body = np.repeat([item.kind != "arrows" for item in items], [len(spot) for spot in spots])
    folds = light.Folds(np.concatenate(spots)[body], weights[body], floor)
    clear = any(item.opacity < 1 for item in items)
    # Polyscope's own supersampling does nothing without a window.
    times = 2 if clear or size[0] * size[1] > 1920 * 1080 else 3
    ps.remove_all_structures()
    try:
        ps.set_window_size(size[0] * times, size[1] * times)
        ps.set_transparency_mode("pretty" if clear else "none")
        ps.set_vertical_fov_degrees(camera.fov)
        ps.look_at_dir(tuple(camera.axes[2]), (0.0, 0.0, 0.0), tuple(camera.axes[1]))
        for index, (item, solid) in enumerate(zip(items, solids, strict=True)):
            if item.kind not in ("points", "lines"):
                _put_surface(ps, str(index), item, solid, folds)
            else:
                _put_round(ps, str(index), item, folds, camera)
        if floor is not None:
            _put_ground(ps, np.concatenate(spots) - (0, floor, 0), weights, floor, camera)
        pixels = ps.screenshot_to_buffer(transparent_bg=False)
    finally:
        ps.remove_all_structures()
    total = np.full((size[1], size[0], 3), times**2 // 2, dtype=np.uint16)
    for row in range(times):
        for column in range(times):
            total += pixels[row::times, column::times, :3]
    return (total // times**2).astype(np.uint8)


def _lowest(item: Item, solid: Triangles) -> float:
    if item.kind in ("points", "lines"):  # round in the picture, but not in the triangles
        return float(item.points[:, 1].min()) - (item.radius or 0.0)
    return float(solid[0][:, 1].min())


def _put_surface(ps: Any, name: str, item: Item, solid: Triangles, folds: light.Folds) -> None:
    points, faces = solid
    color = item.color
    if color.ndim == 2:
        color = color.repeat(len(points) // len(color), axis=0)
    if item.kind == "mesh":  # the others have their creases where they belong
        old, faces = light.split_creases(points, faces)
        points, color = points[old], color[old] if color.ndim == 2 else color
    shade = np.ones(len(points))
    # Arrows explain what is in the picture: they neither take nor cast a shade there.
    if item.kind != "arrows":
        normals = light.vertex_normals(points, faces)
        # Which side is out? The one with more light: a file's winding is not to be trusted.
        shade = max((folds.light(points, side, 0.28) for side in (normals, -normals)), key=np.mean)
    thing = ps.register_surface_mesh(name, points, faces, smooth_shade=True, back_face_policy="identical")
    thing.set_edge_width(1.2 if item.edges else 0.0)
    thing.set_edge_color(_linear(0.35 * np.atleast_2d(item.color).mean(axis=0)))
    _paint(thing, color, shade, item.opacity)


def _put_round(ps: Any, name: str, item: Item, folds: light.Folds, camera: Camera) -> None:
    radius = item.radius or 0.0
    if item.cells is None:
        thing = ps.register_point_cloud(name, item.points)
    else:
        thing = ps.register_curve_network(name, item.points, item.cells)
    thing.set_radius(radius, relative=False)
    lamp = np.tile(light.KEY @ camera.axes, (len(item.points), 1))
    _paint(thing, item.color, folds.light(item.points + radius * lamp, lamp, 0.12), item.opacity)


def _paint(thing: Any, color: Floats, shade: Floats, opacity: float) -> None:
    """Colour the points of a thing, darker and richer where `shade` (n,) is below 1."""
    shade = shade[:, None]
    # Polyscope remembers the options of whatever had the same name before: set every one that ever changes.
    thing.set_material("pointglue studio")
    thing.set_transparency(opacity)
    thing.add_color_quantity("color", _linear(color) ** shade**-0.35 * shade, enabled=True)


def _put_ground(ps: Any, points: Floats, weights: Floats, floor: float, camera: Camera) -> None:
    """The ground: a square around the target, fading into the background, with the shadows of the points."""
    right, up, back = camera.axes[:, [0, 2]]
    ahead = up if camera.axes[2, 1] > 0.999 else -back
    drift = 0.45 * right + 0.3 * ahead / np.linalg.norm(ahead)  # away from the key light
    dark = 1 - light.shadow(points, weights, drift)[..., None]
    color = light.floor() * (
        1 - dark * (1, 0.985, 0.965)
    )  # what light is left comes from the blue of the sky
    corners = np.array([[-1, floor, -1], [-1, floor, 1], [1, floor, 1], [1, floor, -1]])
    faces = np.array([[0, 1, 2], [0, 2, 3]])
    ground = ps.register_surface_mesh("ground", corners, faces, material="pointglue plain")
    ground.set_back_face_policy("cull")  # a camera below the ground looks through it
    ground.add_parameterization_quantity("uv", (corners[:, [0, 2]] + 1) / 2)
    texture = {"defined_on": "texture", "param_name": "uv", "image_origin": "lower_left"}
    ground.add_color_quantity("color", color, **texture, filter_mode="linear", enabled=True)


def _linear(color: Floats) -> Floats:
    return np.asarray(color**GAMMA)


@cache
def _polyscope() -> Any:
    """Polyscope, started without a window where it can be, silent, and with the materials of `light`."""
    no_opengl = (
        "pictures need OpenGL, through EGL or a display; on Debian or Ubuntu: "
        "apt-get install libegl1 libgl1 libgl1-mesa-dri (Polyscope says: {})"
    )
    try:
        import polyscope as ps
    except ModuleNotFoundError as error:
        raise MissingDependencyError("pictures need polyscope: pip install 'pointglue[view]'") from error
    except ImportError as error:  # it is there, but a library that it links to is not
        raise MissingDependencyError(no_opengl.format(error)) from error
    ps.set_verbosity(0)
    ps.set_use_prefs_file(False)
    ps.set_errors_throw_exceptions(True)  # without this, a missing libEGL is a crash
    ps.set_allow_headless_backends(True)
    try:
        if not ps.is_initialized():
            ps.init("openGL3_egl" if _prefers_egl() else "openGL3_glfw")
    except RuntimeError as error:
        raise MissingDependencyError(no_opengl.format(str(error).strip())) from error
    ps.set_ground_plane_mode("none")
    ps.set_background_color(tuple(light.BACKGROUND))
    ps.set_view_projection_mode("perspective")
    ps.set_automatically_compute_scene_extents(False)
    ps.set_length_scale(1.0)
    ps.set_bounding_box((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0))
    for name, spheres in [("pointglue studio", light.studio()), ("pointglue plain", light.plain())]:
        with tempfile.TemporaryDirectory() as folder:
            files = [str(Path(folder, f"{k}.png")) for k in range(4)]
            for file, sphere in zip(files, spheres, strict=True):
                save_png((255 * np.clip(sphere, 0, 1) ** (1 / GAMMA)).round().astype(np.uint8), file)
            ps.load_blendable_material(name, files)
    return ps


def _prefers_egl() -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        CDLL("libEGL.so.1")
    except OSError:
        return not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return True
