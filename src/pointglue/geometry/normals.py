"""Normals of triangles."""

import numpy as np

from ..checks import Array

__all__ = ["area_normals", "unit_normals"]


def area_normals(corners: Array) -> Array:
    """Return (b - a) x (c - a) of triangles a, b, c.

    Parameters
    ----------
    corners : (m, 3, 3)
        The corners [m].

    Returns
    -------
    (m, 3)
        The normals, as long as twice the areas [m^2].
    """
    return np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])


def unit_normals(corners: Array) -> Array:
    """Return the unit normals of triangles a, b, c, along (b - a) x (c - a).

    Parameters
    ----------
    corners : (m, 3, 3)
        The corners [m].

    Returns
    -------
    (m, 3)
        The normals, of length one; zero for triangles without an area.
    """
    normal = area_normals(corners)
    length = np.linalg.norm(normal, axis=1, keepdims=True)
    return np.asarray(np.divide(normal, length, out=np.zeros_like(normal), where=length > 0))
