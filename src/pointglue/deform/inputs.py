"""Checks of what a deformer is made of: shapes, handles, and numbers for each handle."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, as_array, as_integers, as_reals, require_finite
from ..errors import InputError

__all__ = ["LARGEST", "check_handles", "check_magnitude", "check_per_handle", "split_shape"]

# Larger coordinates [m] have squares and cubes that overflow.
LARGEST = 1e100
# Ratio of a handle's distance from the bounding box to the diagonal of that box: more is a mistake of units.
FARTHEST_HANDLE = 100.0


def split_shape(shape: Any) -> tuple[Array, NDArray[np.int64] | None]:
    """Return the vertices (V, d) of a shape and its triangles (m, 3), None if it has none."""
    faces: Any = None
    if hasattr(shape, "vertices"):
        points, faces = shape.vertices, getattr(shape, "faces", None)
    elif isinstance(shape, tuple) and len(shape) == 2 and (shape[1] is None or np.ndim(shape[0]) == 2):
        points, faces = shape
    else:
        points = shape
    try:
        vertices = np.array(as_reals("shape", points), dtype=np.float64)
    except InputError:
        raise InputError(
            f"shape must be points (n, 3), a tuple (vertices, faces) or a trimesh.Trimesh, "
            f"got {type(shape).__name__}"
        ) from None
    if vertices.ndim != 2 or vertices.shape[1] not in (2, 3) or not len(vertices):
        raise InputError(f"shape must hold points (n, 3) or (n, 2), at least one, got shape {vertices.shape}")
    check_magnitude("shape", vertices)
    if faces is None:
        return vertices, None
    cells = as_array("faces", faces)
    if not cells.size:
        return vertices, None
    if cells.ndim != 2 or cells.shape[1] != 3:
        raise InputError(f"faces must be triangles (m, 3), got shape {cells.shape}")
    flat = as_integers("faces", cells.ravel())
    if flat.min() < 0 or flat.max() >= len(vertices):
        raise InputError(f"faces must index the {len(vertices)} vertices, got {flat.min()} to {flat.max()}")
    return vertices, flat.reshape(-1, 3)


def check_magnitude(name: str, given: Array) -> None:
    """Raise unless the numbers are finite and none is larger than `LARGEST`."""
    require_finite(name, given)
    if np.abs(given).max(initial=0.0) > LARGEST:
        raise InputError(f"{name} must be numbers that can be squared, got {np.abs(given).max():.1e}")


def check_handles(handles: ArrayLike, points: Array) -> Array:
    """Return handles (H, d) as float64, a copy; raise if two coincide or one is far from the points."""
    given = np.array(as_reals("handles", handles), dtype=np.float64)
    if given.ndim != 2 or given.shape[1] != points.shape[1] or not len(given):
        raise InputError(
            f"handles must have shape (H, {points.shape[1]}), at least one, got shape {given.shape}"
        )
    check_magnitude("handles", given)
    low, high = points.min(0), points.max(0)
    size = float(np.linalg.norm(high - low)) or 1.0
    away = np.linalg.norm(given - np.clip(given, low, high), axis=1)
    if away.max() > FARTHEST_HANDLE * size:
        k = int(away.argmax())
        raise InputError(
            f"handle {k} at {given[k].tolist()} is {away[k] / size:.0f} times the shape's size away from it"
        )
    order = np.lexsort(given.T)
    same = (np.diff(given[order], axis=0) == 0).all(1)
    if same.any():
        k = int(np.flatnonzero(same)[0])
        a, b = sorted((int(order[k]), int(order[k + 1])))
        raise InputError(f"handles {a} and {b} coincide at {given[a].tolist()}: leave one of them out")
    return given


def check_per_handle(name: str, value: ArrayLike, count: int) -> Array:
    """Return one number for each of `count` handles (count,), from one for all or one each."""
    given = as_reals(name, value).astype(np.float64)
    if given.shape not in ((), (count,)):
        raise InputError(
            f"{name} must be one number, or one for each of {count} handles, got shape {given.shape}"
        )
    check_magnitude(name, given)
    return np.ascontiguousarray(np.broadcast_to(given, (count,)))
