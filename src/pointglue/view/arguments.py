"""Checks of the arguments of pictures; every message names the argument and says what arrived."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..checks import as_reals, require_finite
from ..errors import InputError
from .tessellation import Floats, Ints

Size = tuple[int, int]
"""The width and the height of a picture, in pixels."""


def check_array(name: str, value: ArrayLike, *shape: int | None) -> Floats:
    """Return a copy of finite numbers of the given shape, or raise; None stands for any length but zero."""
    array = as_reals(name, value).astype(np.float64)
    if array.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
        wanted = ", ".join("n" if n is None else str(n) for n in shape) + "," * (len(shape) == 1)
        raise InputError(f"{name} must have shape ({wanted}), got {array.shape}")
    if array.size == 0:
        raise InputError(f"{name} is empty")
    require_finite(name, array)
    return array


def check_size(value: Any) -> Size:
    """Return the width and the height of a picture [pixels], or raise unless both are within the limits."""
    width, height = check_array("size", value, 2)
    if not all(n == int(n) and 16 <= n <= 8192 for n in (width, height)):
        raise InputError(f"size must be a width and a height of 16 to 8192 pixels, got {value!r}")
    return int(width), int(height)


def check_indices(name: str, value: ArrayLike, columns: int, count: int) -> Ints:
    """Return rows (m, columns) of whole numbers from 0 to count - 1, or raise."""
    cells = check_array(name, value, None, columns)
    if (cells != np.floor(cells)).any():
        raise InputError(f"{name} must be integers, got {cells[cells != np.floor(cells)][0]}")
    if cells.min() < 0 or cells.max() >= count:
        bad = cells.min() if cells.min() < 0 else cells.max()
        raise InputError(f"{name} must be indices from 0 to {count - 1}, got {bad:.0f}")
    return cells.astype(np.int64)
