"""Convex hulls of rigid groups, from the visual mesh that moves with them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import ConvexHull, QhullError

from ...checks import Array

__all__ = ["CONVEX", "fitted_hulls"]

# The least share of its hull that a solid fills if it is as good as convex.
CONVEX = 0.87
# Corners of a hull: of one with more, those are taken that are farthest in as many directions.
MOST_CORNERS = 48


def fitted_hulls(
    groups: Sequence[NDArray[np.int64]],
    vertices: Array,
    faces: NDArray[np.int64],
    owners: NDArray[np.integer[Any]],
    least: float,
) -> list[Array | None]:
    """Return corners of the hull of each group, None for one that fills less than the share `least` of it.

    `owners` (V,) are the particles that vertices follow the most.
    """
    found: list[Array | None] = []
    for group in groups:
        mine = np.isin(owners, group)
        points = vertices[mine]
        own = faces[mine[faces].all(1)]
        try:
            hull = ConvexHull(points)
        except (QhullError, ValueError):  # flat, or too few
            found.append(None)
            continue
        a, b, c = (vertices[own] - points.mean(0)).transpose(1, 0, 2)
        volume = np.einsum("ij,ij->", a, np.cross(b, c)) / 6
        corners = points[hull.vertices]
        if len(corners) > MOST_CORNERS:
            far = (corners - points.mean(0)) @ _directions(MOST_CORNERS).T
            corners = corners[np.unique(far.argmax(0))]
        found.append(corners if volume >= least * hull.volume else None)
    return found


def _directions(count: int) -> Array:
    """Return unit vectors (count, 3), evenly spread: a spiral by the golden angle."""
    z = 1 - (2 * np.arange(count) + 1) / count
    angle = np.pi * (3 - np.sqrt(5)) * np.arange(count)
    r = np.sqrt(1 - z * z)
    return np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1)
