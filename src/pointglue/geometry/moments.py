"""Volume, centroid and second moments of the solid inside a closed mesh of triangles, or of its surface.

trimesh computes the same; importing it takes 0.25 s, which was an eighth of `pointglue check` of the demos
with rigid bodies, so the few lines stand here and trimesh is the oracle of their tests.
"""

import numpy as np

from ..checks import Array

__all__ = ["is_watertight", "solid_moments", "surface_moments"]


def is_watertight(faces: Array) -> bool:
    """Return whether every edge of a triangle mesh belongs to exactly two triangles.

    Parameters
    ----------
    faces : (m, 3)
        The triangles, as rows of vertices.

    Returns
    -------
    bool
        Whether the surface is closed; True also where there are no faces.
    """
    edges = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    _, counts = np.unique(edges[:, 0] * (edges.max(initial=0) + 1) + edges[:, 1], return_counts=True)
    return bool((counts == 2).all())


def solid_moments(corners: Array) -> tuple[float, Array, Array]:
    """Return the volume, the centroid and the second moments about it of the solid inside closed triangles.

    The solid is the sum of the tetrahedra between the origin and each triangle a, b, c, of volume
    v = det(a, b, c) / 6:  V = sum v,  V m = sum v s / 4  and  M = sum v (s s^T + a a^T + b b^T + c c^T) / 20
    - V m m^T  with s = a + b + c. Triangles far from the origin lose digits: give them near it.

    Parameters
    ----------
    corners : (m, 3, 3)
        Corners of the triangles, counter-clockwise seen from outside [m].

    Returns
    -------
    volume : float
        Negative where the triangles are clockwise [m^3].
    centroid : (3,)
        Not a number where there is no volume [m].
    moments : (3, 3)
        The integral of r r^T over the solid, r from the centroid; of the sign of the volume [m^5].
    """
    volumes = np.linalg.det(corners) / 6
    total, sums = float(volumes.sum()), corners.sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        centroid = volumes @ sums / (4 * np.float64(total))
    moments = (volumes * sums.T) @ sums + np.einsum("m,mki,mkj->ij", volumes, corners, corners)
    return total, centroid, moments / 20 - total * np.outer(centroid, centroid)


def surface_moments(corners: Array) -> tuple[float, Array, Array]:
    """Return the area, the centroid and the second moments about it of a surface of triangles.

    With s = a + b + c of a triangle of area A its share of the second moments about the origin is
    A (s s^T + a a^T + b b^T + c c^T) / 12.

    Parameters
    ----------
    corners : (m, 3, 3)
        Corners of the triangles [m].

    Returns
    -------
    area : float
        The area [m^2].
    centroid : (3,)
        Not a number where there is no area [m].
    moments : (3, 3)
        The integral of r r^T over the surface, r from the centroid [m^4].
    """
    areas = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2
    total, sums = float(areas.sum()), corners.sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        centroid = areas @ sums / (3 * np.float64(total))
    moments = (areas * sums.T) @ sums + np.einsum("m,mki,mkj->ij", areas, corners, corners)
    return total, centroid, moments / 12 - total * np.outer(centroid, centroid)
