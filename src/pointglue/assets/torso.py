"""A tailor's dummy that moves, and its cage, from which `shirt` derives the shirt."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from ..checks import Array, check_integer
from .subdivision import Cage, subdivided

__all__ = ["Torso", "torso"]

Ints = NDArray[np.int64]

X, Y, Z = np.eye(3)
COLUMNS = 18  # faces around the trunk; the last is in the middle of the front
LEVELS = 3  # rounds of subdivision from which meshes are sampled
LINES = 2**LEVELS  # cells along a side of a quad after LEVELS subdivisions
PLACKET = 0.021  # m, half the width of the front's middle

# Rings from thighs to crown, of the figure and of the shirt [m]: height, half depth, half width, how far the
# centre is to the front, and by how much the front is lower than the centre.
FIGURE = np.array(
    [
        (0.58, 0.108, 0.165, 0.0, 0.0),
        (0.66, 0.116, 0.178, 0.0, 0.0),
        (0.73, 0.122, 0.183, 0.0, 0.0),
        (0.80, 0.121, 0.182, 0.0, 0.0),
        (0.87, 0.115, 0.174, 0.0, 0.0),
        (0.935, 0.109, 0.163, 0.002, 0.0),
        (1.00, 0.105, 0.156, 0.004, 0.0),
        (1.065, 0.106, 0.157, 0.006, 0.0),
        (1.13, 0.111, 0.164, 0.006, 0.0),
        (1.195, 0.118, 0.172, 0.004, 0.0),
        (1.26, 0.122, 0.178, 0.002, 0.0),
        (1.325, 0.119, 0.182, -0.002, 0.004),
        (1.402, 0.100, 0.180, -0.008, 0.012),
        (1.455, 0.078, 0.128, -0.012, 0.020),
        (1.480, 0.060, 0.074, -0.006, 0.022),
        (1.515, 0.058, 0.061, 0.004, 0.018),
        (1.550, 0.060, 0.058, 0.008, 0.012),
        (1.578, 0.080, 0.063, 0.020, 0.012),
        (1.615, 0.098, 0.074, 0.023, 0.004),
        (1.665, 0.107, 0.081, 0.016, 0.0),
        (1.715, 0.106, 0.080, 0.009, 0.0),
        (1.758, 0.090, 0.068, 0.004, 0.0),
        (1.785, 0.060, 0.046, 0.002, 0.0),
        (1.797, 0.026, 0.020, 0.002, 0.0),
    ]
)
HEM, ARMHOLE, NECK = 3, 10, 14  # rings
# Along an arm: how far, by what angle (degrees) it points down, half widths of the arm and of the sleeve.
LIMB = np.array(
    [
        (0.095, 20, 0.063, 0.081),
        (0.150, 34, 0.057, 0.080),
        (0.202, 43, 0.053, 0.077),
        (0.255, 46, 0.049, 0.073),
        (0.308, 46, 0.046, 0.070),
        (0.361, 46, 0.044, 0.068),
        (0.414, 46, 0.041, 0.065),
        (0.467, 46, 0.036, 0.062),
        (0.510, 46, 0.032, 0.050),
        (0.575, 46, 0.029, 0.044),
        (0.620, 46, 0.038, 0.044),
        (0.680, 46, 0.037, 0.044),
        (0.725, 46, 0.024, 0.030),
    ]
)
LIMB_QUADS, LIMB_POINTS = 8 * len(LIMB) + 4, 8 * len(LIMB) + 1  # of the cage of an arm
ROOT, SHOULDER = np.array([0.0, 1.337, -0.165]), np.array([0.0, 1.345, -0.160])  # of the left arm
ELBOW = 5  # ring
OCTAGON = (2 + np.cos(np.pi / 4)) / 3  # how much smaller a ring of eight becomes when it is smoothed
ARMS, MIRRORS = (np.array([3, 4]), np.array([12, 13])), np.array([(1, 1, 1), (1, 1, -1)])  # left, right
# Keys of the motion, in s and rad: sideways, forwards and around of the spine, then raise, swing and elbow
# of the left and of the right arm, and the turn of the head.
KEYS = np.array(
    [
        (0.0, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00),
        (0.5, 0.01, 0.01, 0.03, -0.02, 0.06, 0.08, -0.04, 0.02, 0.06, 0.05),
        (1.2, 0.08, 0.05, 0.38, 0.10, 0.55, 0.75, -0.10, -0.30, 0.30, 0.45),
        (2.0, -0.09, 0.07, -0.30, 0.40, 0.35, 0.50, -0.02, 0.40, 0.70, -0.35),
        (2.7, -0.02, 0.20, -0.03, 0.62, 0.30, 0.30, 0.58, 0.30, 0.35, 0.00),
        (3.4, 0.03, -0.02, 0.10, 0.05, 0.10, 0.25, 0.08, 0.05, 0.25, 0.12),
        (4.0, 0.00, 0.00, 0.00, 0.00, 0.00, 0.10, 0.00, 0.00, 0.10, 0.00),
    ]
)
SPINE = (1.28, 1.19, 1.10, 1.01, 0.92)  # heights of its joints (m)


@dataclass(frozen=True)
class Torso:
    """A figure from the thighs up that looks along x, its arms away from its sides; a closed mesh.

    Parameters
    ----------
    vertices : (n, 3)
        Where the vertices are at rest [m].
    faces : (m, 3) of int
        Triangles, counter-clockwise seen from outside.
    height : (n,)
        Height along the spine [m]: that of the shoulder for all of an arm.
    shoulders : (n, 2)
        Share of the rotation of the left and of the right shoulder that a vertex takes.
    elbows : (n, 2)
        The same for the elbows.
    """

    vertices: Array
    faces: Ints
    height: Array
    shoulders: Array
    elbows: Array

    def pose(self, time: float) -> Array:
        """Return the vertices at a time: at rest at 0, then it bends, turns and swings its arms.

        Parameters
        ----------
        time : float
            Time from the start [s]; after 4 s it is at rest again.

        Returns
        -------
        (n, 3)
            Where the vertices are [m].
        """
        side, ahead, around, *arms, head = clamped_spline(KEYS[:, 0], KEYS[:, 1:], time)
        x = self.vertices
        for k, mirror in enumerate(MIRRORS):
            pivot, (spine, ways) = SHOULDER * mirror, _spine()
            ahead_axis = np.cross(ways[ELBOW] * mirror, X)
            lift, swing, elbow = arms[3 * k : 3 * k + 3]
            x = _rotated(x, spine[ELBOW] * mirror, elbow * self.elbows[:, k, None] * ahead_axis)
            x = _rotated(x, pivot, swing * self.shoulders[:, k, None] * ahead_axis)
            x = _rotated(x, pivot, lift * self.shoulders[:, k, None] * mirror[2] * X)
        neck = _smooth((self.height - 1.49) / 0.06)[:, None]
        x = _rotated(x, np.array([0.0, 1.50, 0.0]), neck * head * Y)
        for joint in SPINE:
            share = _smooth((self.height - joint + 0.06) / 0.12)[:, None] / len(SPINE)
            x = _rotated(x, joint * Y, share * (side * X - ahead * Z))
            x = _rotated(x, joint * Y, share * around * Y)
        return x


def torso(detail: int = 3) -> Torso:
    """Build a figure of 1.8 m, down to its thighs.

    Parameters
    ----------
    detail : int
        Cells along a side of each face of its cage, from 2 to 8: about 2,600 vertices for 2, 5,700 for 3.

    Returns
    -------
    Torso
        The figure at rest, which can be posed.

    Raises
    ------
    InputError
        If `detail` is no such number.
    """
    check_integer("detail", detail, 2, LINES)
    cage, _, arms = figure_cage(FIGURE, LIMB[:, 2])
    extra = np.zeros((len(cage.points), 5))
    extra[:, 0] = np.concatenate([np.repeat(FIGURE[:, 0], COLUMNS), np.full(2 * LIMB_POINTS, SHOULDER[1])])
    bend = _smooth((LIMB[:, 0] - LIMB[ELBOW, 0] + 0.09) / 0.18)
    turn = np.interp(np.arange(len(LIMB)), [0, 1, 2], [0.7, 0.95, 1.0])
    for k, (loop, rings, tip) in enumerate(arms):
        extra[loop, 1 + k] = 0.3
        extra[rings, 1 + k], extra[rings, 3 + k] = turn[:, None], bend[:, None]
        extra[tip, [1 + k, 3 + k]] = 1.0
    grids = smooth_grids(np.hstack([cage.points, extra]), np.array(cage.quads))
    patches = sampled_patches(grids, detail)
    rows, faces, _ = sewn_patches(patches, np.zeros(patches.shape[:3]))
    return Torso(rows[:, :3], faces, rows[:, 3], rows[:, 4:6], rows[:, 6:])


def figure_cage(rings: Array, girth: Array) -> tuple[Cage, Ints, list[tuple[Ints, Ints, int]]]:
    """Return a cage of trunk, head and arms, the faces of the trunk, and the points of the arms.

    Faces are -1 where the arms are. For each arm there are the loop on the trunk (8,), the rings (k, 8), and
    the tip.
    """
    cage = Cage([_ring(row, k < NECK) for k, row in enumerate(rings)])
    sides = cage.sides.copy()
    gone = np.zeros(len(cage.quads), np.bool_)
    for columns in ARMS:
        block = np.ix_(np.arange(2) + ARMHOLE, columns)
        gone[sides[block]] = True
        sides[block] = -1
    sides[sides >= 0] = (np.cumsum(~gone) - 1)[sides[sides >= 0]]
    cage.quads = [quad for quad, left_out in zip(cage.quads, gone, strict=True) if not left_out]
    arms = []
    for columns, mirror in zip(ARMS, MIRRORS, strict=True):
        grid = COLUMNS * (ARMHOLE + np.arange(3))[:, None] + columns[0] + np.arange(3)
        loop = grid[[0, 0, 0, 1, 2, 2, 2, 1], [0, 1, 2, 2, 2, 1, 0, 0]]
        spine, ways = _spine()
        up, ahead = np.cross(X, ways)[:, None] * mirror, mirror[2] * X
        angle = -np.pi / 4 * (np.arange(8) + 1)[:, None]
        points = spine[:, None] * mirror + girth[:, None, None] / OCTAGON * (
            np.cos(angle) * ahead + np.sin(angle) * up
        )
        start, tip = len(cage.points), (spine[-1] + 0.02 * ways[-1]) * mirror
        cage.points += [*points.reshape(-1, 3), tip]
        numbers = start + np.arange(8 * len(LIMB)).reshape(-1, 8)
        for one, other in zip([loop, *numbers[:-1]], numbers, strict=True):
            cage.quads += list(np.stack([one, np.roll(one, -1), np.roll(other, -1), other], axis=1))
        last, end = numbers[-1], start + 8 * len(LIMB)
        cage.quads += [np.array([last[k - 1], last[k], last[k + 1], end]) for k in (0, 2, 4, 6)]
        arms.append((loop, numbers, end))
    return cage, sides, arms


def _spine() -> tuple[Array, Array]:
    """Return the centres of the rings of the left arm, and its direction there, both (k, 3)."""
    angle = np.radians(LIMB[:, 1])
    ways = np.stack([0 * angle, -np.sin(angle), -np.cos(angle)], axis=1)
    steps = np.diff(LIMB[:, 0], prepend=0)[:, None] * (ways + np.vstack([-Z, ways[:-1]])) / 2
    return ROOT + np.cumsum(steps, axis=0), ways


def _ring(row: Array, square: bool) -> Array:
    """Return a ring of the trunk (18, 3), counter-clockwise from above; it begins beside the placket."""
    y, deep, wide, middle, tilt = row
    first = np.arcsin(min(PLACKET / wide, 0.4))
    half = np.concatenate([np.linspace(first, np.pi / 2, 5), np.linspace(np.pi / 2, np.radians(170), 5)[1:]])
    angle = np.concatenate([half, -half[::-1]])
    power = 0.85 if square else 1.0
    c, s = (np.sign(side) * np.abs(side) ** power for side in (np.cos(angle), np.sin(angle)))
    return np.stack([middle + deep * c, y - tilt * c, -wide * s], axis=1)


def smooth_grids(points: Array, quads: Ints) -> Array:
    """Return the smooth surface over each quad (m, 9, 9, k), from points with k coordinates (n, k)."""
    corners = np.tile(np.array([(0, 0), (LINES, 0), (LINES, LINES), (0, LINES)]), (len(quads), 1, 1))
    owner = np.arange(len(quads))
    used, quads = np.unique(quads, return_inverse=True)
    points, quads = points[used], quads.reshape(-1, 4)
    for _ in range(LEVELS):
        points, quads = subdivided(points, quads)
        middles = (corners + np.roll(corners, -1, axis=1)) // 2
        centre = np.broadcast_to(corners[:, :1] + corners[:, 2:3], corners.shape) // 2
        corners = np.stack([corners, middles, centre, np.roll(middles, 1, axis=1)], axis=2).reshape(-1, 4, 2)
        owner = np.repeat(owner, 4)
    out = np.empty((owner[-1] + 1, LINES + 1, LINES + 1, points.shape[1]))
    out[owner[:, None], corners[..., 0], corners[..., 1]] = points[quads]
    return out


def sampled_patches(grids: Array, detail: int) -> Array:
    """Return the surfaces of `smooth_grids` with `detail` cells a side (m, detail + 1, detail + 1, k)."""
    at = np.linspace(0, LINES, detail + 1)
    weights = np.maximum(1 - np.abs(at[:, None] - np.arange(LINES + 1)), 0)
    return np.asarray(np.einsum("iu,jv,muvk->mijk", weights, weights, grids))


def sewn_patches(patches: Array, layer: Array) -> tuple[Array, Ints, Ints]:
    """Return vertices and faces of patches (m, a, b, k), and the vertex of each of their points (m, a, b).

    Patches are joined where points coincide and are of one `layer` (m, a, b).
    """
    points = patches.reshape(-1, patches.shape[-1])
    places = np.column_stack([points[:, :3], layer.ravel()])
    pairs = cKDTree(places).query_pairs(1e-7, output_type="ndarray")
    graph = coo_array((np.ones(len(pairs)), pairs.T), shape=(len(points),) * 2)
    count, number = connected_components(graph, directed=False)
    vertices = np.empty((count, points.shape[1]))
    vertices[number] = points
    number = number.reshape(layer.shape).astype(np.int64)
    return vertices, grid_triangles(number, vertices), number


def grid_triangles(number: Ints, vertices: Array) -> Ints:
    """Return the triangles of grids of vertices (m, a, b), patch by patch, mirrored on the right."""
    a, b, c, d = number[:, :-1, :-1], number[:, 1:, :-1], number[:, 1:, 1:], number[:, :-1, 1:]
    right = sum(vertices[corner, 2] for corner in (a, b, c, d)) > 1e-9
    one = np.stack([np.stack([a, b, c], -1), np.stack([a, c, d], -1)], axis=-2)
    other = np.stack([np.stack([a, b, d], -1), np.stack([b, c, d], -1)], axis=-2)
    return np.where(np.asarray(right)[..., None, None], one, other).reshape(-1, 3)


def clamped_spline(times: Array, values: Array, time: float) -> Array:
    """Return the cubic spline through values (k, m) at times (k,), at rest at both ends.

    scipy.interpolate has it too; loading that takes 0.2 s, a tenth of `pointglue check` of the shirt.
    """
    h = np.diff(times)
    slope = np.diff(values, axis=0) / h[:, None]
    # The second derivative is continuous: h_i m_(i-1) + 2 (h_(i-1) + h_i) m_i + h_(i-1) m_(i+1) = 3 (...).
    A = np.diag(np.r_[1.0, 2 * (h[:-1] + h[1:]), 1.0])
    A += np.diag(np.r_[h[1:], 0.0], -1) + np.diag(np.r_[0.0, h[:-1]], 1)
    b = np.zeros_like(values)
    b[1:-1] = 3 * (h[1:, None] * slope[:-1] + h[:-1, None] * slope[1:])
    m = np.linalg.solve(A, b)
    time = np.clip(time, times[0], times[-1])
    k = min(int(np.searchsorted(times, time, side="right")) - 1, len(h) - 1)
    u = (time - times[k]) / h[k]
    start = (1 + 2 * u) * (1 - u) ** 2 * values[k] + u * (1 - u) ** 2 * h[k] * m[k]
    return np.asarray(start + u**2 * (3 - 2 * u) * values[k + 1] - u**2 * (1 - u) * h[k] * m[k + 1])


def _rotated(x: Array, pivot: Array, angles: Array) -> Array:
    """Return points (n, 3), each turned about a pivot by a rotation vector of its own (n, 3)."""
    size = np.linalg.norm(angles, axis=1, keepdims=True)
    axis = angles / np.maximum(size, 1e-12)
    arm = x - pivot
    along = (axis * arm).sum(1, keepdims=True) * axis
    return np.asarray(pivot + along + np.cos(size) * (arm - along) + np.sin(size) * np.cross(axis, arm))


def _smooth(x: Array) -> Array:
    """Return the cubic that rises from 0 at 0 to 1 at 1, constant beyond."""
    t = np.clip(x, 0, 1)
    return np.asarray(t * t * (3 - 2 * t))
