"""Pictures and movies without a display.

A `Picture` is plain data: meshes, points, ellipsoids, lines and arrows, a ground and a camera. It is drawn
when an image is asked for, so pictures can coexist, and equal pictures give equal images. Y is up.

    picture = view.Picture()
    picture.mesh(vertices, faces, color="coral")
    picture.save("coral.png")

All pictures of a movie need one camera and one height of the ground; by default both follow the subject:

    camera = first.fitted_camera()
    view.save_movie((draw(state, camera) for state in states), "movie.mp4")

`render_run` makes pictures and a movie of a run that is on disk, `render_loads` a table and a chart of loads.
"""

from ..assets.palette import PALETTE
from .camera import Camera
from .output import save_movie
from .picture import Picture
from .runs import Rendered, last_pictures, render_loads, render_run
from .sheets import contact_sheet

__all__ = [
    "PALETTE",
    "Camera",
    "Picture",
    "Rendered",
    "contact_sheet",
    "last_pictures",
    "render_loads",
    "render_run",
    "save_movie",
]
