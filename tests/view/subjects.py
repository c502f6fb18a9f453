"""What the pictures of the tests are of, and how their pixels are looked at."""

import colorsys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pointglue import view
from pointglue.view import tessellation as shapes

SMALL = (320, 180)
BALL = shapes.icosphere(3)
BOX = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
BOX_FACES = np.array(
    [[a, b, c] for a, b, c in zip(*[iter(map(int, "013032467475045051237276026064157173"))] * 3, strict=True)]
)


def subject(image: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Where the saturated colours are: the ground, its shadows and the background are nearly grey."""
    wide = image.astype(int)
    return np.asarray(wide.max(axis=2) - wide.min(axis=2) > 40)


def bounds(mask: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return int(columns[0]), int(columns[-1]), int(rows[0]), int(rows[-1])


def hue(image: NDArray[np.uint8]) -> float:
    red, green, blue = np.median(image[subject(image)], axis=0) / 255
    return colorsys.rgb_to_hsv(red, green, blue)[0]


def ball_scene(**options: Any) -> view.Picture:
    scene = view.Picture(size=SMALL, **options)
    scene.mesh(*BALL, color="coral")
    return scene
