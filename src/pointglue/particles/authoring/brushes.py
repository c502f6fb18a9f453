"""Brushes: where an edit works, the points that it sprays and the pairs that are near inside a shape."""

from dataclasses import dataclass, replace
from math import pi

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import Array, check_flag, check_real, check_vector
from ...errors import InputError
from ...geometry.inside import Inside, Viewpoints
from ...geometry.sampling import inscribed_balls, refined
from .skinning import Skin

__all__ = [
    "LOOKOUT_DEPTH", "MOST_TRIANGLES", "Brush", "close_inside", "lookouts", "scattered", "see_each_other"
]  # fmt: skip

# A stroke that would make more particles than this is taken for a mistake.
MOST_PARTICLES = 50_000
# Points tried for each particle that finds room: enough that no gap of twice the spacing is left.
TRIES = 30
# In spacings: how deep below the surface sprayed particles look for each other, so that they see along the
# floor of a bowl, but not across a gap.
LOOKOUT_DEPTH = 0.25
# Paths over the surface lead through vertices, which makes them too long by a few per cent where this many of
# those go to the length of an edge; triangles are not made finer than that.
VERTICES_PER_EDGE = 6
# Triangles at which refining ends.
MOST_TRIANGLES = 100_000


@dataclass(frozen=True, eq=False)
class Brush:
    """A ball that says what an edit is about.

    Parameters
    ----------
    centre : (3,)
        Its centre [m].
    radius : float
        Its radius, above 0 [m].
    smooth : bool
        Whether it works less towards its rim, as (1 - (d / radius)^2)^2.

    Raises
    ------
    InputError
        If a shape does not fit, or a number is not finite or out of its bounds.
    """

    centre: ArrayLike
    radius: float
    smooth: bool = False

    def __post_init__(self) -> None:
        """Check the numbers."""
        object.__setattr__(self, "centre", check_vector("centre", self.centre))
        check_real("radius", self.radius, above=0)
        check_flag("smooth", self.smooth)

    def strength(self, points: Array) -> Array:
        """Return how much (k,) the brush does at points (k, 3): 0 outside, 1 within unless it is smooth."""
        near = np.linalg.norm(points - self.centre, axis=1) / self.radius
        return np.where(near <= 1, (1 - near**2) ** 2 if self.smooth else 1.0, 0.0)

    def covers(self, points: Array) -> NDArray[np.bool_]:
        """Return which (k,) of points (k, 3) are within the brush."""
        return np.asarray(np.linalg.norm(points - self.centre, axis=1) <= self.radius)


def scattered(skin: Skin, brush: Brush, spacing: float, rng: np.random.Generator) -> Array:
    """Return points (k, 3) on the mesh within the brush, equally dense everywhere and in random order.

    A triangle's plane meets the ball in a disc: points are drawn in the smaller of the two, and those kept
    that lie in both.
    """
    centre = np.asarray(brush.centre)
    near = skin.inside.faces_in_box(centre - brush.radius, centre + brush.radius)
    a, b, c = np.moveaxis(skin.vertices[skin.faces[near]], 1, 0)
    normal = np.cross(b - a, c - a)
    double = np.linalg.norm(normal, axis=1)
    solid = double > 0
    a, b, c, normal, double = a[solid], b[solid], c[solid], normal[solid] / double[solid, None], double[solid]
    height = np.einsum("ni,ni->n", centre - a, normal)
    disc_centre = centre - height[:, None] * normal
    rim = np.sqrt(np.maximum(brush.radius**2 - height**2, 0.0))
    in_disc = pi * rim**2 < 0.5 * double
    expected = TRIES * np.where(in_disc, pi * rim**2, 0.5 * double) / spacing**2
    if expected.sum() > TRIES * MOST_PARTICLES:
        raise InputError(
            f"spacing of {spacing:g} would make about {expected.sum() / TRIES:.0f} particles, "
            f"more than {MOST_PARTICLES}: take a larger one"
        )
    times = (expected + rng.random(len(expected))).astype(np.int64)
    k = np.repeat(np.arange(len(times)), times)
    u, v = rng.random((2, len(k)))
    fold = u + v > 1
    s, t = np.where(fold, 1 - u, u), np.where(fold, 1 - v, v)
    points = a[k] + s[:, None] * (b - a)[k] + t[:, None] * (c - a)[k]
    side = (b - a) / np.linalg.norm(b - a, axis=1, keepdims=True)
    r, angle = rim[k] * np.sqrt(u), 2 * pi * v
    round_about = np.cos(angle)[:, None] * side[k] + np.sin(angle)[:, None] * np.cross(normal, side)[k]
    points = np.where(in_disc[k, None], disc_centre[k] + r[:, None] * round_about, points)
    within = brush.covers(points)
    for p, q in ((a, b), (b, c), (c, a)):
        left = np.einsum("ni,ni->n", np.cross((q - p)[k], points - p[k]), normal[k])
        within &= ~in_disc[k] | (left >= 0)
    return np.asarray(points[within][rng.permutation(int(within.sum()))])


def lookouts(inside: Inside, points: Array, depth: float) -> Viewpoints:
    """Return views of points (k, 3); those on the surface look from `depth` below it, or half way through."""
    views = inside.viewpoints(points)
    shallow = views.sighted & (np.linalg.norm(points - views.foot, axis=1) < depth)
    below, _ = inscribed_balls(inside, views, depth)
    return replace(views, origins=np.where(shallow[:, None], below, views.origins))


def see_each_other(
    inside: Inside, views: Viewpoints, i: NDArray[np.int64], j: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return whether points i (m,) and j (m,) see each other, or are of one component without an inside."""
    blind = ~views.sighted[i] & (views.component[i] == views.component[j])
    return np.asarray(blind | inside.line_of_sight(views, i, views, j))


def close_inside(skin: Skin, points: Array, pairs: NDArray[np.int64], longest: float) -> NDArray[np.int64]:
    """Return the pairs (m, 2) of points that are as close inside the shape as in a straight line."""
    views = skin.inside.viewpoints(points)
    seen = skin.inside.line_of_sight(views, pairs[:, 0], views, pairs[:, 1])
    rest = np.unique(pairs[~seen])
    if not len(rest):
        return pairs
    # No path that short leaves the box around the points by more than half of it.
    some = points[rest]
    near = skin.inside.faces_in_box(some.min(0) - longest / 2, some.max(0) + longest / 2)
    if not len(near):
        return pairs[seen]
    used, faces = np.unique(skin.faces[near], return_inverse=True)
    faces = faces.reshape(-1, 3)
    patch = Inside(*refined(skin.vertices[used], faces, longest / VERTICES_PER_EDGE, MOST_TRIANGLES))
    # All that a vertex can know on a way that short.
    count = 1 + int(np.bincount(pairs.ravel()).max())
    among = np.flatnonzero(np.isin(patch.components, patch.components_of(some)))
    way, length = patch.between(some, 0.0, patch.nearest(some, count, among=among))
    way = rest[way[length <= longest]]
    alike = views.component[pairs[:, 0]] == views.component[pairs[:, 1]]
    met = np.isin(pairs @ [len(points), 1], way @ [len(points), 1])
    return np.asarray(pairs[seen | alike & met])
