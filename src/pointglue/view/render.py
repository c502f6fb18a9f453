"""Draw the items of a picture with Polyscope.

Polyscope has one window for each process, so a picture adds its items, takes a screenshot, and removes them.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from ctypes import CDLL
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import MissingDependencyError
from . import lighting
from .arguments import Size
from .camera import Camera
from .colors import BACKGROUND, GAMMA
from .items import Item
from .output import Image, save_png
from .tessellation import Floats, Triangles

# From the ground up to the lowest point, in camera distances, so that a flat base does not flicker.
GROUND_GAP = 5e-4
# How often each pixel is drawn along width and height, to be smooth; large and transparent pictures take 2.
SAMPLES = 3
STUDIO, FLAT = "pointglue studio", "pointglue flat"  # names of materials in Polyscope


def render_image(items: Sequence[Item], camera: Camera, ground: bool | float, size: Size) -> Image:
    """Return the pixels (height, width, 3) of items seen by a camera that has a target and a distance.

    Raises
    ------
    MissingDependencyError
        If Polyscope or OpenGL is missing.
    """
    ps = start_polyscope()
    # In camera distances every picture has the same scale: single precision and one set of radii suffice.
    items = [item.relative(camera) for item in items]
    solids = [item.triangles() for item in items]
    floor = None
    if ground is True:
        floor = min(_lowest(item, solid) for item, solid in zip(items, solids, strict=True)) - GROUND_GAP
    elif ground is not False and camera.target is not None and camera.distance is not None:
        floor = (ground - camera.target[1]) / camera.distance - GROUND_GAP

    samples = [lighting.surface_samples(*solid, 2 / lighting.TEXELS) for solid in solids]
    counts = [len(each) for each in samples]
    occluders = np.concatenate(samples)
    opacity = np.repeat([item.opacity for item in items], counts)
    occludes = np.repeat([item.kind != "arrows" for item in items], counts)
    occlusion = lighting.AmbientOcclusion(occluders[occludes], opacity[occludes], floor)
    transparent = any(item.opacity < 1 for item in items)
    # Polyscope's own supersampling does nothing without a window.
    times = min(2, SAMPLES) if transparent or size[0] * size[1] > 1920 * 1080 else SAMPLES
    ps.remove_all_structures()
    try:
        ps.set_window_size(size[0] * times, size[1] * times)
        ps.set_transparency_mode("pretty" if transparent else "none")
        ps.set_vertical_fov_degrees(camera.fov)
        ps.look_at_dir(tuple(camera.axes[2]), (0.0, 0.0, 0.0), tuple(camera.axes[1]))
        for index, (item, solid) in enumerate(zip(items, solids, strict=True)):
            if item.kind not in ("points", "lines"):
                _add_surface(ps, str(index), item, solid, occlusion)
            else:
                _add_round(ps, str(index), item, occlusion, camera)
        if floor is not None:
            _add_ground(ps, occluders - (0, floor, 0), opacity, floor, camera)
        pixels = ps.screenshot_to_buffer(transparent_bg=False)
    finally:
        ps.remove_all_structures()
    total = np.full((size[1], size[0], 3), times**2 // 2, dtype=np.uint16)
    for row in range(times):
        for column in range(times):
            total += pixels[row::times, column::times, :3]
    return (total // times**2).astype(np.uint8)


def _lowest(item: Item, solid: Triangles) -> float:
    """Return the height of the lowest point of an item."""
    if item.kind in ("points", "lines"):  # round in the picture, but not in the triangles
        return float(item.points[:, 1].min()) - (item.radius or 0.0)
    return float(solid[0][:, 1].min())


def _add_surface(
    ps: Any, name: str, item: Item, solid: Triangles, occlusion: lighting.AmbientOcclusion
) -> None:
    """Add triangles; meshes are split at their creases."""
    points, faces = solid
    color = item.color
    if color.ndim == 2:
        color = color.repeat(len(points) // len(color), axis=0)
    if item.kind == "mesh":  # the others have their creases where they belong
        old, faces = lighting.split_creases(points, faces)
        points, color = points[old], color[old] if color.ndim == 2 else color
    shade = np.ones(len(points))
    # Arrows explain what is in the picture: they neither occlude nor are occluded.
    if item.kind != "arrows":
        normals = lighting.vertex_normals(points, faces)
        # The outer side is the one with more light: the winding of files is not reliable.
        shade = max((occlusion.light(points, side, 0.28) for side in (normals, -normals)), key=np.mean)
    thing = ps.register_surface_mesh(name, points, faces, smooth_shade=True, back_face_policy="identical")
    thing.set_edge_width(1.2 if item.edges else 0.0)
    thing.set_edge_color(_linear(0.35 * np.atleast_2d(item.color).mean(axis=0)))
    _paint(thing, color, shade, item.opacity)


def _add_round(ps: Any, name: str, item: Item, occlusion: lighting.AmbientOcclusion, camera: Camera) -> None:
    """Add points or lines, which Polyscope draws as spheres and tubes."""
    radius = item.radius or 0.0
    if item.cells is None:
        thing = ps.register_point_cloud(name, item.points)
    else:
        thing = ps.register_curve_network(name, item.points, item.cells)
    thing.set_radius(radius, relative=False)
    towards = np.tile(lighting.KEY_LIGHT @ camera.axes, (len(item.points), 1))
    shade = occlusion.light(item.points + radius * towards, towards, 0.12)
    _paint(thing, item.color, shade, item.opacity)


def _paint(thing: Any, color: Floats, shade: Floats, opacity: float) -> None:
    """Colour the points of a structure, darker and more saturated where `shade` (n,) is below 1."""
    shade = shade[:, None]
    # Polyscope keeps the options of the structure that had this name before: set all that ever change.
    thing.set_material(STUDIO)
    thing.set_transparency(opacity)
    thing.add_color_quantity("color", _linear(color) ** shade**-0.35 * shade, enabled=True)


def _add_ground(ps: Any, points: Floats, opacity: Floats, floor: float, camera: Camera) -> None:
    """Add a square about the target that fades into the background, with the shadows of the points (n, 3)."""
    right, up, back = camera.axes[:, [0, 2]]
    ahead = up if camera.axes[2, 1] > 0.999 else -back
    drift = 0.45 * right + 0.3 * ahead / np.linalg.norm(ahead)  # away from the key light
    dark = 1 - lighting.shadow_map(points, opacity, drift)[..., None]
    color = lighting.ground_texture() * (1 - dark * (1, 0.985, 0.965))  # shadows are bluish, as under a sky
    corners = np.array([[-1, floor, -1], [-1, floor, 1], [1, floor, 1], [1, floor, -1]])
    faces = np.array([[0, 1, 2], [0, 2, 3]])
    ground = ps.register_surface_mesh("ground", corners, faces, material=FLAT)
    ground.set_back_face_policy("cull")  # a camera below the ground looks through it
    ground.add_parameterization_quantity("uv", (corners[:, [0, 2]] + 1) / 2)
    texture = {"defined_on": "texture", "param_name": "uv", "image_origin": "lower_left"}
    ground.add_color_quantity("color", color, **texture, filter_mode="linear", enabled=True)


def _linear(color: Floats) -> Floats:
    """Return a colour of the display as linear light."""
    return np.asarray(color**GAMMA)


@cache
def start_polyscope() -> Any:
    """Start Polyscope, without a window if the system has EGL, and return its module.

    Raises
    ------
    MissingDependencyError
        If Polyscope or OpenGL is missing; the message says how to install it.
    """
    no_opengl = (
        "pictures need OpenGL, through EGL or a display; on Debian or Ubuntu: "
        "apt-get install libegl1 libgl1 libgl1-mesa-dri (Polyscope says: {})"
    )
    try:
        import polyscope as ps  # here for start-up, and because machines without OpenGL cannot import it
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
    ps.set_background_color(tuple(BACKGROUND))
    ps.set_view_projection_mode("perspective")
    ps.set_automatically_compute_scene_extents(False)
    ps.set_length_scale(1.0)
    ps.set_bounding_box((-1.0, -1.0, -1.0), (1.0, 1.0, 1.0))
    for name, spheres in [(STUDIO, lighting.studio_matcap()), (FLAT, lighting.flat_matcap())]:
        with tempfile.TemporaryDirectory() as folder:
            files = [str(Path(folder, f"{k}.png")) for k in range(4)]
            for file, sphere in zip(files, spheres, strict=True):
                save_png((255 * np.clip(sphere, 0, 1) ** (1 / GAMMA)).round().astype(np.uint8), file)
            ps.load_blendable_material(name, files)
    return ps


def _prefers_egl() -> bool:
    """Return whether to draw by EGL: on Linux, if it is there or there is no display either."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        CDLL("libEGL.so.1")
    except OSError:
        return not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return True
