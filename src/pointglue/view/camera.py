"""The camera, and how it finds its place."""

from dataclasses import dataclass, replace

import numpy as np

from ..errors import InputError
from .arguments import floats, number, positive
from .tessellation import Floats

MARGIN = 0.86  # of the picture's half width and half height, the most that the subject fills


@dataclass(frozen=True, kw_only=True)
class Camera:
    """Where a picture is taken from; `Picture.fitted_camera` works out what is None here."""

    direction: tuple[float, float, float] = (0.55, 0.38, 1.0)
    """From the target towards the camera; its length does not matter."""
    target: tuple[float, float, float] | None = None
    """The point in the middle of the picture."""
    distance: float | None = None
    """From the target to the camera."""
    fov: float = 30.0
    """Angle from the bottom to the top of the picture, in degrees."""

    def __post_init__(self) -> None:
        """Check the values."""
        if not floats("direction", self.direction, 3).any():
            raise InputError("direction must not be zero")
        if self.target is not None:
            floats("target", self.target, 3)
        if self.distance is not None:
            positive("distance", self.distance)
        if not 1 <= number("fov", self.fov) <= 120:
            raise InputError(f"fov must be from 1 to 120 degrees, got {self.fov!r}")

    @property
    def axes(self) -> Floats:
        """Unit vectors in rows (3, 3): to the right of the picture, up in it, and out of it to the camera."""
        back = np.asarray(self.direction, dtype=float)
        _, power = np.frexp(abs(back).max())
        back = np.ldexp(back, -power)  # of about unit size: squares of huge or tiny numbers are none
        back = back / np.linalg.norm(back)
        up = (0.0, 1.0, 0.0) if abs(back[1]) < 0.999 else (0.0, 0.0, -1.0)  # straight down: -z is up
        right = np.cross(up, back)
        right /= np.linalg.norm(right)
        return np.stack([right, np.cross(back, right), back])

    def fit(self, points: Floats, radii: Floats, aspect: float) -> "Camera":
        """The camera with target and distance such that spheres (n, 3), (n,) fill the picture, centred.

        Seen from the distance d, a sphere reaches from (x - r c) / (d - z) to (x + r c) / (d - z) on the
        screen, with c = sqrt(1 + t²) at the edge t of the screen. It is inside if
        d >= z + (abs(x) + r c) / t.
        """
        target = (points.min(axis=0) + points.max(axis=0)) / 2
        if self.target is not None:
            target = np.array(self.target)
        edges = MARGIN * np.tan(np.radians(self.fov / 2)) * np.array([aspect, 1.0])
        reach = radii[:, None] * np.sqrt(1 + edges**2)
        for _ in range(8):  # the target moves the distance and the other way round, less each time
            seen = (points - target) @ self.axes.T
            across, depth = seen[:, :2], seen[:, 2:]
            distance = self.distance or float((depth + (abs(across) + reach) / edges).max())
            if self.target is not None or distance == 0:
                break
            away = np.maximum(distance - depth, 0.1 * distance)
            middle = (((across + reach) / away).max(axis=0) + ((across - reach) / away).min(axis=0)) / 2
            target = target + distance * middle @ self.axes[:2]
        x, y, z = map(float, target)
        return replace(self, target=(x, y, z), distance=distance or 1.0)  # a lone point has no size to fit
