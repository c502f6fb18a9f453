"""Parts of points that are near each other."""

import numpy as np
from numpy.typing import NDArray

from ..checks import Array

__all__ = ["bisect_points"]


def bisect_points(points: Array, most: int) -> list[NDArray[np.int64]]:
    """Halve points along the longest side of their box until no part has more than `most`.

    Parameters
    ----------
    points : (n, d)
        The points [m].
    most : int
        The largest part.

    Returns
    -------
    list of (k,)
        The indices of each part, ascending; neighbouring parts are near each other. None for no points.
    """
    waiting, parts = [np.arange(len(points))] if len(points) else [], []
    while waiting:
        part = waiting.pop()
        if len(part) <= most:
            parts.append(part)
            continue
        axis = int(np.ptp(points[part], axis=0).argmax())
        order = part[np.argsort(points[part, axis], kind="stable")]
        waiting += [np.sort(order[len(order) // 2 :]), np.sort(order[: len(order) // 2])]
    return parts
