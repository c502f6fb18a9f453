"""Flat shapes in space: their plane, and that of handles that stay coplanar."""

import numpy as np

from ..checks import Array

__all__ = ["FLAT", "flat_frame", "turned_frame"]

# Ratio to the size: points are in a plane if none is farther from it. Single precision is sure of that much.
FLAT = 1e-5


def flat_frame(points: Array) -> Array | None:
    """Return the frame of the plane that points lie in.

    Parameters
    ----------
    points : (n, 3)
        The points [m].

    Returns
    -------
    (3, 3) or None
        Two axes of the plane and its normal, as columns of a rotation; None if the points are not flat, or on
        a line.
    """
    away = points - points.mean(0)
    size = float(np.linalg.norm(np.ptp(points, axis=0)))
    if not size > 0:
        return None
    away /= size
    spread, axes = np.linalg.eigh(away.T @ away)
    if not spread[1] > FLAT**2 or np.abs(away @ axes[:, 0]).max() > FLAT:
        return None
    frame = axes[:, ::-1] * np.where(np.diag(axes[:, ::-1]) < 0, -1.0, 1.0)
    frame[:, 2] = np.cross(frame[:, 0], frame[:, 1])
    return np.asarray(frame)


def turned_frame(frame: Array, normal: Array) -> Array:
    """Return the frame (3, 3) turned by the smallest rotation so that its normal is another unit vector (3,).

    Parameters
    ----------
    frame : (3, 3)
        A rotation whose last column is the normal.
    normal : (3,)
        The new normal.

    Returns
    -------
    (3, 3)
        The turned frame.
    """
    old = frame[:, 2]
    cosine, axis = float(old @ normal), np.cross(old, normal)
    if cosine < -1 + 1e-12:  # half a turn about any axis of the plane
        return frame * [1.0, -1.0, -1.0]
    K = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    return np.asarray((np.eye(3) + K + K @ K / (1 + cosine)) @ frame)
