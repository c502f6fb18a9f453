"""The camera, and how it is placed so that everything is in view."""

from dataclasses import dataclass, replace

import numpy as np

from ..checks import check_real
from ..errors import InputError
from .arguments import check_array
from .tessellation import Floats

FILLED = 0.86  # ratio: the share of the picture's width or height that the subject fills at most


@dataclass(frozen=True, kw_only=True)
class Camera:
    """A camera; `Picture.fitted_camera` works out the values that are None here.

    Parameters
    ----------
    direction : (3,)
        The direction from the target to the camera; its length does not matter.
    target : (3,), optional
        The point at the centre of the picture.
    distance : float, optional
        The distance from the target to the camera.
    fov : float
        The angle from the bottom to the top of the picture [degrees], from 1 to 120.

    Raises
    ------
    InputError
        If a number is not finite or out of its range, or the direction is zero.
    """

    direction: tuple[float, float, float] = (0.55, 0.38, 1.0)
    target: tuple[float, float, float] | None = None
    distance: float | None = None
    fov: float = 30.0

    def __post_init__(self) -> None:
        """Check the values."""
        if not check_array("direction", self.direction, 3).any():
            raise InputError("direction must not be zero")
        if self.target is not None:
            check_array("target", self.target, 3)
        if self.distance is not None:
            check_real("distance", self.distance, above=0)
        check_real("fov", self.fov, at_least=1, at_most=120)

    @property
    def axes(self) -> Floats:
        """The unit vectors, in rows (3, 3), to the right, up, and out of the picture to the camera."""
        back = np.asarray(self.direction, dtype=float)
        _, power = np.frexp(abs(back).max())
        back = np.ldexp(
            back, -power
        )  # of about unit size: squares of huge or tiny numbers overflow or vanish
        back = back / np.linalg.norm(back)
        up = (0.0, 1.0, 0.0) if abs(back[1]) < 0.999 else (0.0, 0.0, -1.0)  # straight down: -z is up
        right = np.cross(up, back)
        right /= np.linalg.norm(right)
        return np.stack([right, np.cross(back, right), back])

    def fit(self, points: Floats, radii: Floats, aspect: float) -> "Camera":
        """Return the camera with a target and a distance at which spheres fill the picture, centred.

        Seen from the distance d, a sphere reaches from (x - r c) / (d - z) to (x + r c) / (d - z) on the
        screen, with c = sqrt(1 + t²) at the edge t of the screen. It is inside if
        d >= z + (abs(x) + r c) / t.

        Parameters
        ----------
        points : (n, 3)
            The centres of the spheres.
        radii : (n,)
            Their radii.
        aspect : float
            The width of the picture divided by its height.

        Returns
        -------
        Camera
            The camera, with its target and its distance.
        """
        target = (points.min(axis=0) + points.max(axis=0)) / 2
        if self.target is not None:
            target = np.array(self.target)
        edges = FILLED * np.tan(np.radians(self.fov / 2)) * np.array([aspect, 1.0])
        edges = edges[:, None]
        reach = np.sqrt(1 + edges**2) * radii
        axes = self.axes
        for _ in range(8):  # target and distance depend on each other; this converges
            # The largest numbers along rows are found far more quickly than those of columns.
            seen = np.ascontiguousarray(((points - target) @ axes.T).T)
            across, depth = seen[:2], seen[2]
            distance = self.distance or float((depth + (abs(across) + reach) / edges).max())
            if self.target is not None or distance == 0:
                break
            away = np.maximum(distance - depth, 0.1 * distance)
            centre = (((across + reach) / away).max(axis=1) + ((across - reach) / away).min(axis=1)) / 2
            target = target + distance * centre @ axes[:2]
        x, y, z = map(float, target)
        return replace(self, target=(x, y, z), distance=distance or 1.0)  # a lone point has no size to fit
