"""The records of a run: its objects, which do not change, and where they are at one time."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from ..checks import Array, as_array, as_reals, check_choice, check_real, require_finite
from ..errors import InputError

__all__ = ["Frame", "Motion", "StoredObject"]

Motion = Literal["points", "transform", "still"]
"""What frames store of an object: its points, a transform of its points at rest, or nothing."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredObject:
    """An object of a run: a mesh if it has faces, lines if it has segments, points otherwise.

    Parameters
    ----------
    name : str
        A name that no other object of the run has, without slashes and control characters.
    rest : (n, 3)
        Where its points are before anything moves [m].
    faces : (m, 3), optional
        Triangles, as rows of `rest`.
    segments : (m, 2), optional
        Line segments, as rows of `rest`.
    color : (3,)
        Red, green and blue in [0, 1], as on a screen (sRGB).
    radius : float, optional
        The radius of points and lines [m].
    motion : {"points", "transform", "still"}
        What frames store of it: its points, a transform of `rest`, or nothing.

    Raises
    ------
    InputError
        If an argument is not what it should be.
    """

    name: str
    rest: Array
    faces: Array | None = None
    segments: Array | None = None
    color: tuple[float, float, float] = (0.6, 0.6, 0.6)
    radius: float | None = None
    motion: Motion = "points"

    def __post_init__(self) -> None:
        """Check the values and keep copies that do not change."""
        name = self.name
        if not isinstance(name, str) or not name.strip() or re.search(r"[/\\\x00-\x1f\x7f]", name):
            raise InputError(
                f"name must be a text without slashes, backslashes and control characters, got {name!r}"
            )
        rest = _points(f"rest of {name!r}", self.rest)
        object.__setattr__(self, "rest", _read_only(rest))
        if self.faces is not None and self.segments is not None:
            raise InputError(f"{name!r}: faces and segments exclude each other, got both")
        for key, columns in (("faces", 3), ("segments", 2)):
            if getattr(self, key) is not None:
                cells = as_array(f"{key} of {name!r}", getattr(self, key))
                if cells.shape[1:] != (columns,) or cells.dtype.kind not in "iu":
                    raise InputError(
                        f"{key} of {name!r} must be whole numbers of shape (m, {columns}), "
                        f"got {cells.dtype} of shape {cells.shape}"
                    )
                if cells.size and not 0 <= cells.min() <= cells.max() < len(rest):
                    raise InputError(
                        f"{key} of {name!r} must be rows of rest, 0 to {len(rest) - 1}, "
                        f"got {cells.min()} to {cells.max()}"
                    )
                object.__setattr__(self, key, _read_only(cells.astype(np.int64)))
        color = as_reals(f"color of {name!r}", self.color)
        if color.shape != (3,) or not ((color >= 0) & (color <= 1)).all():
            raise InputError(f"color of {name!r} must be three numbers in [0, 1], got {self.color!r}")
        object.__setattr__(self, "color", tuple(color.tolist()))
        if self.radius is not None:
            check_real(f"radius of {name!r}", self.radius, above=0)
        check_choice(f"motion of {name!r}", self.motion, get_args(Motion))


@dataclass(frozen=True, eq=False, kw_only=True)
class Frame:
    """A frame: where the objects of a run are at one time.

    Parameters
    ----------
    number : int
        A number of at least 0, which is the time code in USD files.
    time : float
        The time [s].
    points : mapping of str to (n, 3)
        Where the points are [m], by the names of the objects whose motion is "points".
    transforms : mapping of str to (4, 4)
        Transforms T, x = T @ (rest, 1), by the names of the objects whose motion is "transform".
    stats : mapping of str to number
        Statistics of the computation, by name.
    events : tuple of str
        What happened since the frame before, such as attachments that broke, in words. Files do not keep it.
    """

    number: int
    time: float
    points: Mapping[str, Array] = field(default_factory=dict)
    transforms: Mapping[str, Array] = field(default_factory=dict)
    stats: Mapping[str, float | int] = field(default_factory=dict)
    events: tuple[str, ...] = ()


def _points(name: str, value: Any) -> Array:
    """Return finite rows (n, 3) of the precision that they have, at least one, or raise."""
    points = as_reals(name, value)
    if points.ndim != 2 or points.shape[1] != 3 or not len(points):
        raise InputError(f"{name} must have shape (n, 3), got {points.shape}")
    require_finite(name, points)
    return points


def _read_only(array: Array) -> Array:
    """Return a copy that does not change."""
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy
