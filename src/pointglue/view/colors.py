"""Colours of pictures: from what users write to red, green and blue, and the display's transfer curve."""

import numpy as np
from numpy.typing import ArrayLike

from ..assets.palette import PALETTE
from ..errors import InputError
from .arguments import check_array
from .tessellation import Floats

Color = str | ArrayLike

GAMMA = 2.2  # exponent of the display: Polyscope's output is linear light to the power of 1 / GAMMA
BACKGROUND = 0.745 * np.array([0.97, 0.985, 1.0])  # linear light behind everything, slightly blue
RAMP = ("#3b2a63", "#33628d", "#2a9d8f", "#8fc26b", "#f6d860")  # values from low to high, dark to light


def as_rgb(color: Color, count: int) -> Floats:
    """Return one colour (3,), or one for each of several things (count, 3), as sRGB in [0, 1].

    Parameters
    ----------
    color : str or array_like
        A name in `PALETTE`, "#rrggbb", or red, green and blue: (3,) or (count, 3).
    count : int
        The number of things that are coloured.

    Returns
    -------
    (3,) or (count, 3)
        Red, green and blue.

    Raises
    ------
    InputError
        If the name is unknown, or a number is outside of [0, 1].
    """
    if isinstance(color, str):
        code = PALETTE.get(color, color)
        try:
            if len(code) != 7 or code[0] != "#":
                raise ValueError(code)
            return np.array([int(code[k : k + 2], 16) for k in (1, 3, 5)]) / 255
        except ValueError as error:
            raise InputError(
                f"color must be #rrggbb or one of {', '.join(PALETTE)}; got {color!r}"
            ) from error
    rgb = check_array("color", color, 3) if np.ndim(color) == 1 else check_array("color", color, count, 3)
    if rgb.min() < 0 or rgb.max() > 1:
        raise InputError(f"color must be in [0, 1], got {rgb.min() if rgb.min() < 0 else rgb.max()}")
    return rgb


def ramp_colors(values: ArrayLike, limits: tuple[float, float] | None, count: int) -> Floats:
    """Return colours (count, 3) for values (count,): dark blue at the lower limit, yellow at the upper.

    The limits are the lowest and the highest value if they are None.
    """
    array = check_array("values", values, count)
    low, high = (array.min(), array.max()) if limits is None else check_array("limits", limits, 2)
    if limits is not None and not low < high:
        raise InputError(f"limits must be a lower and a higher value, got {limits!r}")
    stops = np.stack([as_rgb(code, 1) for code in RAMP])
    position = (array - low) / ((high - low) or 1.0) * (len(stops) - 1)
    return np.stack([np.interp(position, np.arange(len(stops)), channel) for channel in stops.T], axis=1)
