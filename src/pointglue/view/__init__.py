"""Pictures and movies without a display.

A `Picture` is plain data: meshes, points, ellipsoids, lines and arrows, a ground and a camera. It is drawn
when an image is asked for, so pictures can coexist, and equal pictures give equal images. Y is up.

    scene = view.Picture()
    scene.mesh(vertices, faces, color="coral")
    scene.save("coral.png")

To film, hold the camera and the ground still, or both follow the subject from frame to frame:

    camera = first.fitted_camera()
    view.save_movie((picture(state, camera) for state in states), "film.mp4")

A run that is on disk is filmed in one call: `render_run`.
"""

from ..assets.palette import PALETTE
from .camera import Camera
from .output import save_movie
from .picture import Picture
from .runs import Rendered, last_pictures, render_run
from .sheets import contact_sheet

__all__ = [
    "PALETTE",
    "Camera",
    "Picture",
    "Rendered",
    "contact_sheet",
    "last_pictures",
    "render_run",
    "save_movie",
]
