"""What users hand in, checked and copied; every message names the argument and says what arrived."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..assets.palette import PALETTE
from ..checks import as_reals, require_finite
from ..errors import InputError
from .tessellation import Floats, Ints

Color = str | ArrayLike

RAMP = ("#3b2a63", "#33628d", "#2a9d8f", "#8fc26b", "#f6d860")  # values from low to high, dark to light


def floats(name: str, value: ArrayLike, *shape: int | None) -> Floats:
    """A copy of finite numbers of the given shape, of any length where that is None."""
    array = as_reals(name, value).astype(np.float64)
    if array.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
        wanted = ", ".join("n" if n is None else str(n) for n in shape) + "," * (len(shape) == 1)
        raise InputError(f"{name} must have shape ({wanted}), got {array.shape}")
    if array.size == 0:
        raise InputError(f"{name} is empty")
    require_finite(name, array)
    return array


def number(name: str, value: Any) -> float:
    """A finite number."""
    try:
        result = np.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError):
        result = np.nan
    if not np.isfinite(result):
        raise InputError(f"{name} must be a finite number, got {value!r}")
    return result


def positive(name: str, value: Any) -> float:
    """A finite number above zero."""
    if number(name, value) <= 0:
        raise InputError(f"{name} must be positive, got {value!r}")
    return float(value)


def picture_size(value: Any) -> tuple[int, int]:
    """Width and height in pixels."""
    width, height = floats("size", value, 2)
    if not all(n == int(n) and 16 <= n <= 8192 for n in (width, height)):
        raise InputError(f"size must be a width and a height of 16 to 8192 pixels, got {value!r}")
    return int(width), int(height)


def indices(name: str, value: ArrayLike, columns: int, count: int) -> Ints:
    """Rows (m, columns) of integers from 0 to count - 1."""
    cells = floats(name, value, None, columns)
    if (cells != np.floor(cells)).any():
        raise InputError(f"{name} must be integers, got {cells[cells != np.floor(cells)][0]}")
    if cells.min() < 0 or cells.max() >= count:
        bad = cells.min() if cells.min() < 0 else cells.max()
        raise InputError(f"{name} must be indices from 0 to {count - 1}, got {bad:.0f}")
    return cells.astype(np.int64)


def rotations(name: str, value: ArrayLike, count: int) -> Floats:
    """Orthogonal matrices (count, 3, 3)."""
    turns = floats(name, value, count, 3, 3)
    error = abs(turns @ turns.transpose(0, 2, 1) - np.eye(3)).max()
    if error > 1e-4:
        raise InputError(f"{name} must be orthogonal, got R Rᵀ that is {error:.2g} away from the identity")
    return turns


def colors(color: Color, count: int) -> Floats:
    """One colour (3,) or one each (count, 3), in [0, 1]."""
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
    rgb = floats("color", color, 3) if np.ndim(color) == 1 else floats("color", color, count, 3)
    if rgb.min() < 0 or rgb.max() > 1:
        raise InputError(f"color must be in [0, 1], got {rgb.min() if rgb.min() < 0 else rgb.max()}")
    return rgb


def ramp(values: ArrayLike, limits: tuple[float, float] | None, count: int) -> Floats:
    """Colours (count, 3) for values (count,): dark blue at the lower limit, yellow at the upper."""
    array = floats("values", values, count)
    low, high = (array.min(), array.max()) if limits is None else floats("limits", limits, 2)
    if limits is not None and not low < high:
        raise InputError(f"limits must be a lower and a higher value, got {limits!r}")
    stops = np.stack([colors(code, 1) for code in RAMP])
    place = (array - low) / ((high - low) or 1.0) * (len(stops) - 1)
    return np.stack([np.interp(place, np.arange(len(stops)), channel) for channel in stops.T], axis=1)
