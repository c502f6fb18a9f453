"""Triangles of the shapes that pictures are made of: vertices (k, 3) and faces (m, 3)."""

from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..procrustes.space import perpendiculars

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Triangles = tuple[Floats, Ints]


@cache
def icosphere(subdivisions: int) -> Triangles:
    """Return the unit sphere in 20 * 4**subdivisions triangles."""
    import trimesh  # here because it takes longer to import than the rest of the module

    sphere = trimesh.creation.icosphere(subdivisions=subdivisions)
    return np.array(sphere.vertices), np.array(sphere.faces, dtype=np.int64)


@cache
def revolve(profile: tuple[tuple[float, float], ...], sides: int) -> Triangles:
    """Return the surface of a profile of (radius, height) corners turned about the z axis.

    Every corner of the profile is a sharp crease of the surface.
    """
    angles = np.linspace(0, 2 * np.pi, sides, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles), np.zeros(sides)], axis=1)
    # Each piece of the profile has rings of its own: shared ones would average the normals at the crease.
    rings = [r * circle + (0, 0, z) for piece in pairwise(profile) for r, z in piece]
    i = np.arange(sides)
    j = (i + 1) % sides
    lower, upper = np.stack([i, j, i + sides], axis=1), np.stack([j, j + sides, i + sides], axis=1)
    bands = [
        half + 2 * sides * k
        for k, ((bottom, _), (top, _)) in enumerate(pairwise(profile))
        for half, radius in [(lower, bottom), (upper, top)]
        if radius > 0  # at a tip these triangles have no area, hence no normal
    ]
    return np.concatenate(rings), np.concatenate(bands)


def instances(template: Triangles, origins: Floats, frames: Floats) -> Triangles:
    """Return copies of a template at `origins[i] + frames[i] @ v`: origins (n, 3), frames (n, 3, 3)."""
    vertices, faces = template
    copies = origins[:, None] + vertices @ frames.transpose(0, 2, 1)
    shifts = len(vertices) * np.arange(len(origins))
    return copies.reshape(-1, 3), (faces + shifts[:, None, None]).reshape(-1, 3)


def _frames(vectors: Floats, lengths: Floats, radii: Floats) -> Floats:
    """Return frames (n, 3, 3): third columns of `lengths` along the vectors, the others `radii` across."""
    z = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    x = perpendiculars(z)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.stack([radii[:, None] * x, radii[:, None] * np.cross(z, x), lengths[:, None] * z], axis=2)


def tubes(starts: Floats, ends: Floats, radius: float) -> Triangles:
    """Return hexagonal open tubes between points (n, 3), for shadows; those of no length are left out."""
    vectors = ends - starts
    lengths = np.linalg.norm(vectors, axis=1)
    real = lengths > 0
    frames = _frames(vectors[real], lengths[real], np.full(np.count_nonzero(real), radius))
    return instances(revolve(((1, 0), (1, 1)), 6), starts[real], frames)


def arrows(origins: Floats, vectors: Floats, radius: float) -> Triangles:
    """Return arrows exactly as long as their nonzero vectors (n, 3); short ones are thinner in proportion."""
    lengths = np.linalg.norm(vectors, axis=1)
    radii = np.minimum(radius, lengths / 14)
    heads = 7 * radii
    necks = origins + vectors * (1 - heads / lengths)[:, None]
    shafts = revolve(((0, 0), (1, 0), (1, 1)), 20)
    cones = revolve(((0, 0), (1, 0), (0, 1)), 28)
    v, _ = instances(shafts, origins, _frames(vectors, lengths - heads, radii))
    w, _ = instances(cones, necks, _frames(vectors, heads, 2.6 * radii))
    n = len(origins)  # arrow by arrow, shaft and head together, as a colour per arrow needs it
    both = np.concatenate([v.reshape(n, -1, 3), w.reshape(n, -1, 3)], axis=1)
    faces = np.concatenate([shafts[1], cones[1] + len(shafts[0])])
    return both.reshape(-1, 3), (faces + both.shape[1] * np.arange(n)[:, None, None]).reshape(-1, 3)
