"""The points of an object that a table of a scene chooses."""

from collections.abc import Mapping

import numpy as np
from scipy.spatial import cKDTree

from ...checks import Array
from ...errors import InputError
from ..schema.fields import Points
from .meshing import Indices

__all__ = ["select"]


def select(
    points: Points, places: Array, groups: Mapping[str, Points], other: Array | None = None
) -> Indices:
    """Return the points that a table chooses.

    Parameters
    ----------
    points : Points
        The table.
    places : (n, 3)
        Where the points of the object are at the start [m].
    groups : mapping of str to Points
        The groups of the object, by name.
    other : (m, 3), optional
        Where the points of the other object of an attachment are [m].

    Returns
    -------
    (k,)
        Rows of `places`, in increasing order.

    Raises
    ------
    InputError
        If no point is chosen, or the table does not fit the object.
    """
    if points.name is not None:
        if points.name not in groups:
            raise InputError(f"names no group: {points.name!r}")
        if groups[points.name].name is not None:
            raise InputError(f"names the group {points.name!r}, which is only another name")
        return select(groups[points.name], places, {}, other)
    count = len(places)
    if points.all:
        return np.arange(count)
    if points.any is not None:
        return np.unique(np.concatenate([select(one, places, groups, other) for one in points.any]))
    if points.indices is not None:
        rows = np.unique(np.array(points.indices, np.int64))
        if len(rows) and rows[-1] >= count:
            raise InputError(f"must have indices below {count}, the number of points, got {rows[-1]}")
    elif points.box is not None:
        rows = np.flatnonzero(((places >= points.box[0]) & (places <= points.box[1])).all(1))
    elif points.ball is not None:
        away = np.linalg.norm(places - points.ball.center, axis=1)
        rows = np.flatnonzero(away <= points.ball.radius)
    else:
        if other is None:
            raise InputError("nearest is for attachments: there is no other object here")
        away = cKDTree(other).query(places)[0]
        rows = np.sort(np.argsort(away, kind="stable")[: points.nearest])
    if not len(rows):
        low, high = (np.array2string(corner, precision=4) for corner in (places.min(0), places.max(0)))
        raise InputError(f"selects no point: there are {count}, from {low} to {high}")
    return rows
