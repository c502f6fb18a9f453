"""Figures of soft bones, and round things."""

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, check_real
from ..geometry.shapes import skin
from .subdivision import Cage, ring

__all__ = ["FIGURE", "bowl", "button", "donkey", "duck", "figure", "leaves", "pony", "pudding"]

X, Y, Z = np.eye(3)
Bone = tuple[ArrayLike, ArrayLike, float, float]

FIGURE: dict[str, tuple[tuple[float, ...], tuple[float, ...], tuple[float, float]]] = {
    "hips": ((0, 0.5, 0), (0, 0.55, 0), (0.088, 0.085)),
    "chest": ((0, 0.6, 0), (0, 0.82, 0), (0.09, 0.055)),
    "head": ((0, 0.88, 0.005), (0, 0.94, 0), (0.075, 0.09)),
    "arm": ((0.1, 0.74, 0), (0.22, 0.69, 0), (0.055, 0.04)),
    "forearm": ((0.22, 0.69, 0), (0.24, 0.7, 0.13), (0.038, 0.03)),
    "hand": ((0.24, 0.7, 0.14), (0.245, 0.705, 0.19), (0.04, 0.04)),
    "thigh": ((0.065, 0.47, 0), (0.085, 0.27, 0.01), (0.062, 0.048)),
    "shin": ((0.085, 0.27, 0.01), (0.085, 0.06, 0), (0.046, 0.036)),
    "foot": ((0.085, 0.045, 0), (0.095, 0.035, 0.09), (0.042, 0.036)),
}
"""Bones of `figure`: joint, tip and the radii there [m]. Limbs are the left ones; the right are mirrored."""
IN_THE_MIDDLE = ("hips", "chest", "head")
NOSE = (0, 0.91, 0.095)


def figure() -> tuple[Array, Array]:
    """Build a figure of 1 m that stands at y = 0 and looks along z: about 5,000 vertices.

    Returns
    -------
    vertices : (n, 3)
        Where the vertices are [m].
    faces : (m, 3)
        Triangles, counter-clockwise seen from outside.
    """
    bones: list[Bone] = [(NOSE, NOSE, 0.022, 0.022)]
    for name, (joint, tip, (first, last)) in FIGURE.items():
        a, b = np.array([joint, tip], dtype=np.float64)
        sides = (1,) if name in IN_THE_MIDDLE else (-1, 1)
        bones += [(a * [side, 1, 1], b * [side, 1, 1], first, last) for side in sides]
    return _fleshed(bones, 0.01, (-0.4, -0.1, -0.2), (0.4, 1.2, 0.35), 0.015)


def pony() -> tuple[Array, Array]:
    """Build a pony of 2.3 m that stands at y = 0 on four legs and looks along x: about 8,000 vertices.

    Returns
    -------
    vertices : (n, 3)
        Where the vertices are [m].
    faces : (m, 3)
        Triangles, counter-clockwise seen from outside.
    """
    bones: list[Bone] = [
        ((-0.7, 1.15, 0), (0.6, 1.2, 0), 0.36, 0.34),
        ((0.6, 1.3, 0), (1.05, 1.95, 0), 0.26, 0.18),
        ((1.05, 1.95, 0), (1.5, 1.75, 0), 0.19, 0.12),
        ((-1.0, 1.25, 0), (-1.35, 0.6, 0), 0.1, 0.07),
    ]
    legs = [(x, z) for x in (-0.75, 0.5) for z in (-0.19, 0.19)]
    bones += [((x, 1.0, z), (x, 0.1, z), 0.16, 0.1) for x, z in legs]
    bones += [((x, 0.1, z), (x + 0.1, 0.08, z), 0.11, 0.09) for x, z in legs]
    bones += [((0.98, 2.0, z), (0.9, 2.3, 1.6 * z), 0.09, 0.05) for z in (-0.1, 0.1)]
    return _fleshed(bones, 0.05, (-1.6, -0.2, -0.6), (1.8, 2.6, 0.6), 0.04)


def _fleshed(
    bones: list[Bone], blend: float, low: ArrayLike, high: ArrayLike, cell: float
) -> tuple[Array, Array]:
    """Return the skin of bones, rounded where they meet."""
    from scipy.special import logsumexp  # not before it is needed: it takes a while to load

    def outside(x: Array) -> Array:
        each = []
        for a, b, first, last in bones:
            way = np.subtract(b, a)
            t = np.clip((x - a) @ way / max(way @ way, 1e-12), 0, 1)
            each.append(np.linalg.norm(x - a - t[:, None] * way, axis=1) - first - t * (last - first))
        return np.asarray(-blend * logsumexp(-np.array(each) / blend, axis=0))

    return skin(outside, low, high, cell)


def donkey() -> tuple[Array, Array]:
    """Build a young donkey of 65 cm that stands at y = 0 and looks along x: about 1,000 vertices.

    Returns
    -------
    vertices : (n, 3)
        Where the vertices are [m].
    faces : (m, 3)
        Triangles, counter-clockwise seen from outside.
    """
    # From muzzle to rump: place, half height and half width.
    spine = np.array(
        [
            (0.400, 0.485, 0.030, 0.030),
            (0.375, 0.500, 0.046, 0.043),
            (0.330, 0.530, 0.050, 0.045),
            (0.285, 0.560, 0.062, 0.056),
            (0.235, 0.562, 0.066, 0.054),
            (0.200, 0.510, 0.062, 0.046),
            (0.175, 0.450, 0.078, 0.054),
            (0.130, 0.395, 0.100, 0.078),
            (0.060, 0.365, 0.105, 0.092),
            (-0.020, 0.355, 0.100, 0.094),
            (-0.100, 0.360, 0.100, 0.092),
            (-0.170, 0.365, 0.100, 0.086),
            (-0.220, 0.375, 0.075, 0.065),
            (-0.245, 0.380, 0.040, 0.035),
        ]
    )
    along = np.gradient(spine[:, :2], axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    up = along[:, 1:] * X - along[:, :1] * Y
    cage = Cage([ring((a, b, 0), h * u, -w * Z, 8) for (a, b, h, w), u in zip(spine, up, strict=True)])
    for row, foot in ((7, 0.12), (10, -0.16)):
        for face, side in ((2, -1), (4, 1)):
            leg = cage.sides[row, face]
            hip, top, _ = cage.pose(leg)[0]
            height = np.array([0.24, 0.185, 0.12, 0.065, 0.04, 0.0])
            share = 1 - height / top
            path = np.stack([hip + (foot - hip) * share, height, side * (0.062 + 0.014 * share)], axis=1)
            thick = [0.046, 0.038, 0.031, 0.03, 0.038, 0.04]
            cage.grow(leg, path, thick, thick)
    for face, side in ((0, -1), (6, 1)):
        ear = cage.sides[3, face]
        path = cage.pose(ear)[0] + np.outer([0.012, 0.045, 0.08], [-0.35, 1.0, 0.55 * side])
        cage.grow(ear, path, [0.016, 0.026, 0.01], [0.012, 0.016, 0.008])
    tail, thick = cage.end[0], [0.014, 0.014, 0.02, 0.012]
    bend = [[-0.02, 0.005, 0], [-0.045, -0.02, 0], [-0.06, -0.075, 0], [-0.062, -0.13, 0]]
    cage.grow(tail, cage.pose(tail)[0] + np.array(bend), thick, thick)
    return cage.smooth(1)


def duck(*, cell: float = 0.02) -> tuple[Array, Array]:
    """Build a rubber duck of 27 cm that looks along x.

    Parameters
    ----------
    cell : float
        Approximate length of its edges [m], from 0.002 to 0.04.

    Returns
    -------
    vertices : (n, 3)
        Where the vertices are [m].
    faces : (m, 3)
        Triangles, counter-clockwise seen from outside.

    Raises
    ------
    InputError
        If `cell` is outside of its bounds.
    """
    check_real("cell", cell, at_least=0.002, at_most=0.04)
    from scipy.special import logsumexp  # not before it is needed: it takes a while to load

    parts = [  # centre and half axes
        ((0.0, 0.0, 0.0), (0.125, 0.08, 0.09)),
        ((0.075, 0.11, 0.0), (0.065, 0.065, 0.06)),
        ((0.145, 0.1, 0.0), (0.035, 0.016, 0.03)),
        ((-0.12, 0.05, 0.0), (0.045, 0.035, 0.04)),
    ]

    def outside(x: Array) -> Array:
        each = [(np.linalg.norm((x - np.array(c)) / a, axis=1) - 1) * min(a) for c, a in parts]
        return np.asarray(-0.012 * logsumexp(-np.array(each) / 0.012, axis=0))

    vertices, faces = skin(outside, (-0.2, -0.11, -0.13), (0.21, 0.2, 0.13), cell)
    return 0.8 * vertices, faces


def pudding() -> tuple[Array, Array]:
    """Build a fluted pudding, 21 cm wide and 12.5 cm high, that stands at y = 0: about 7,000 vertices.

    Returns
    -------
    vertices : (n, 3)
        Where the vertices are [m].
    faces : (m, 3)
        Triangles, counter-clockwise seen from outside.
    """
    from scipy.interpolate import PchipInterpolator  # not before it is needed: it takes a while to load

    width, height, flutes = 0.105, 0.125, 9
    # Up the side, over a round edge, and down into a dimple: radii and heights.
    knots = [[1.0, 0.0], [0.97, 0.15], [0.86, 0.55], [0.75, 0.9], [0.57, 1.0], [0.36, 0.96], [0.0, 0.87]]
    side = PchipInterpolator(range(len(knots)), knots)(np.linspace(0, len(knots) - 1, 40))
    vertices, faces = _lathed(np.vstack([[0.0, 0.0], side * [width, height]]), 180)
    angle = np.arctan2(vertices[:, 2], vertices[:, 0])
    ribs = 2 * abs(np.cos(flutes / 2 * angle)) ** 0.8 - 1
    deep = 0.07 * np.sqrt(np.clip(vertices[:, 1] / height * 3, 0.0, 1.0))
    return vertices * (1 + (deep * ribs)[:, None] * [1.0, 0.0, 1.0]), faces


def bowl() -> tuple[Array, Array]:
    """Build a shallow bowl, 1.04 m wide and 18.5 cm high, that stands at y = 0.

    Returns
    -------
    vertices : (n, 3)
        Where the vertices are [m].
    faces : (m, 3)
        Triangles, counter-clockwise seen from outside.
    """
    return _lathed([[0.0, 0.0], [0.3, 0.0], [0.52, 0.17], [0.5, 0.185], [0.28, 0.03], [0.0, 0.02]], 40)


def button(radius: float, *, sections: int = 32) -> tuple[Array, Array]:
    """Build a disc with a rim about the origin, its axis along z, a quarter as thick as wide.

    Parameters
    ----------
    radius : float
        Radius of the disc [m].
    sections : int
        Number of sides of its rim.

    Returns
    -------
    vertices : (n, 3)
        Where the vertices are [m].
    faces : (m, 3)
        Triangles, counter-clockwise seen from outside.

    Raises
    ------
    InputError
        If `radius` is not positive and finite.
    """
    check_real("radius", radius, above=0)
    profile = [[0, -2], [11, -2], [14, 0], [14, 1.5], [12.5, 2.5], [11, 1.5], [9.5, 0.8], [0, 0.8]]
    vertices, faces = _lathed(radius / 14 * np.array(profile), sections)
    return vertices[:, [2, 0, 1]], faces


def leaves(
    spine: ArrayLike, radius: float, *, count: int = 16, size: float = 0.14, seed: int = 0
) -> tuple[Array, Array]:
    """Build leaves about the outer half of a branch, which is a parabola: 15 vertices each.

    Parameters
    ----------
    spine : (3, 3)
        Root of the branch, the point that it bends towards, and its tip [m].
    radius : float
        Radius of the branch at the root [m].
    count : int
        Number of leaves.
    size : float
        Approximate length of a leaf [m].
    seed : int
        Start of the random numbers by which leaves differ.

    Returns
    -------
    vertices : (n, 3)
        Where the vertices are [m].
    faces : (m, 3)
        Triangles of open blades.
    """
    random = np.random.default_rng(seed)
    a, b, c = np.asarray(spine, dtype=np.float64)
    s = np.linspace(0.35, 0.99, count)[:, None]
    place = (1 - s) ** 2 * a + 2 * s * (1 - s) * b + s * s * c
    along = (1 - s) * (b - a) + s * (c - b)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    way = random.standard_normal((count, 3)) + 0.8 * along + 0.2 * Y
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    side = np.cross(way, Y + 0.5 * random.standard_normal((count, 3)))
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    profile = [(0, 0.02), (0.25, 0.19), (0.5, 0.23), (0.8, 0.12), (1, 0.01)]  # length, half width
    blade = np.array([[x, y * w, 0.3 * abs(y) * w] for x, w in profile for y in (-1, 0, 1)])
    frames = np.stack([way, side, np.cross(way, side)], axis=2)
    frames *= size * random.uniform(0.75, 1.2, (count, 1, 1))
    foot = place + 0.9 * radius * (1 - 0.7 * s) * way
    vertices = foot[:, None] + blade @ np.swapaxes(frames, 1, 2)
    corner = np.array([[r, r + 1, r + 4, r, r + 4, r + 3] for k in range(4) for r in (3 * k, 3 * k + 1)])
    faces = corner.reshape(-1, 3) + 15 * np.arange(count)[:, None, None]
    return vertices.reshape(-1, 3), faces.reshape(-1, 3)


def _lathed(profile: ArrayLike, sections: int) -> tuple[Array, Array]:
    """Return the surface of a profile (k, 2) of radii and heights that is revolved about the y axis."""
    import trimesh  # not before it is needed: it takes a while to load

    mesh = trimesh.creation.revolve(profile, sections=sections)
    return np.array(mesh.vertices)[:, [1, 2, 0]], np.array(mesh.faces)
