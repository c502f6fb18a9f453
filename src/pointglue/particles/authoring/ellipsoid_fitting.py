"""Ellipsoids that fit the surface around each particle."""

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...geometry.inside import Inside

__all__ = ["LINKS", "RADIUS", "fitted_ellipsoids"]

# Ratio of a particle's radius to the spacing: neighbours overlap a little.
RADIUS = 0.55
# How many nearest particles each vertex is given.
LINKS = 6
# Vertices below which there are too few to tell a shape: the ellipsoid is a ball.
FEWEST_VERTICES = 4


def fitted_ellipsoids(
    inside: Inside, points: Array, links: tuple[NDArray[np.int32], Array], step: float, aspect: float
) -> tuple[Array, Array]:
    """Fit ellipsoids that reach the surface around each particle.

    The axes are the eigenvectors of the covariance, about the particle, of the vertices it owns; the radii
    are how far these extend along them, clamped.

    Parameters
    ----------
    inside : Inside
        The shape.
    points : (n, 3)
        The particles [m].
    links : (V, k) and (V, k)
        The particles nearest to each vertex of the shape, -1 for none, and their distances [m].
    step : float
        The spacing of the particles [m].
    aspect : float
        The most that a radius may be smaller than the largest possible one, at least 1.

    Returns
    -------
    axes : (n, 3, 3)
        The axes, as columns.
    radii : (n, 3)
        The radii [m].
    """
    count, radius = len(points), RADIUS * step
    used = (inside.components >= 0) & (links[1][:, 0] <= step)
    owner = links[0][used, 0].astype(np.int64)
    away = inside.vertices[used] - points[owner]
    covariance = np.zeros((count, 3, 3))
    for i, j in np.ndindex(3, 3):
        covariance[:, i, j] = np.bincount(owner, away[:, i] * away[:, j], minlength=count)
    axes = np.linalg.eigh(covariance)[1][:, :, ::-1]
    # Of the two directions of an axis, the one whose largest entry is positive; the third follows.
    largest = np.take_along_axis(axes, np.abs(axes).argmax(1)[:, None], axis=1)
    axes = axes * np.where(largest < 0, -1.0, 1.0)
    axes[:, :, 2] = np.cross(axes[:, :, 0], axes[:, :, 1])
    reach = np.zeros((count, 3))
    np.maximum.at(reach, owner, np.abs(np.einsum("kd,kdi->ki", away, axes[owner])))
    radii = np.clip(reach, radius / aspect, radius)
    few = np.bincount(owner, minlength=count) < FEWEST_VERTICES
    axes[few], radii[few] = np.eye(3), radius
    return axes, radii
