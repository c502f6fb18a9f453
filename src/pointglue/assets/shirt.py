"""A shirt for the figure of `torso`: front opening, sleeves, collar, positions of buttons."""

from dataclasses import dataclass

import numpy as np

from ..checks import Array, check_integer
from .torso import (
    FIGURE,
    HEM,
    LIMB,
    LIMB_QUADS,
    LINES,
    NECK,
    Ints,
    figure_cage,
    grid_triangles,
    sampled_patches,
    sewn_patches,
    smooth_grids,
)

__all__ = ["BUTTONS", "SHIRT_PARTS", "Shirt", "shirt"]

LAYER_GAP = 0.004  # m between the two layers of the placket, and from chest to pocket
EASE = np.array(  # by how much the shirt's rings are wider and higher [m], up to where the collar begins
    [
        (0.040, 0.000),
        (0.040, 0.000),
        (0.040, 0.000),
        (0.036, 0.000),
        (0.040, 0.000),
        (0.044, 0.000),
        (0.047, 0.000),
        (0.046, 0.000),
        (0.042, -0.002),
        (0.036, -0.010),
        (0.030, -0.022),
        (0.024, -0.002),
        (0.018, 0.014),
        (0.015, 0.016),
        (0.017, 0.012),
    ]
)
SHIRT_PARTS = ("trunk", "left sleeve", "right sleeve", "cuff", "placket", "stand", "collar")
POCKET = ((0.72, 2.35), (5.6, 7.7))  # columns from the middle of the front, and rings from the hem
WRIST = 9  # ring where the sleeve ends
# The collar in section, from the seam at the neck: outwards and upwards (m).
STAND = np.array([(0.0, 0.0), (-0.002, 0.017), (0.001, 0.034)])
FALL = np.array([(0.001, 0.034), (0.008, 0.040), (0.016, 0.033), (0.026, 0.013), (0.036, -0.008)])
BUTTONS = (1.457, 1.385, 1.29, 1.195, 1.10, 1.005, 0.91)  # heights (m), from the top


@dataclass(frozen=True)
class Shirt:
    """A shirt around the figure at rest, buttoned up; its left front lies over the right one.

    Parameters
    ----------
    vertices : (n, 3)
        Where the vertices are [m].
    faces : (m, 3) of int
        Triangles.
    parts : (m,) of int
        Index into `SHIRT_PARTS` of each face.
    left : array of int
        Vertices of the left front where it lies over the right one.
    right : array of int
        Vertices of the right front, under it.
    cuffs : tuple of arrays
        Vertices of the last two rings of the left and of the right sleeve.
    buttons : (7, 3)
        Where the buttons are on the left front [m], from the top.
    normals : (7, 3)
        Outward unit normals there.
    pocket : (vertices, faces)
        Vertices and faces of a patch before the left chest.
    seam : array of int
        Vertices of the pocket along three sides: all but the upper one.
    """

    vertices: Array
    faces: Ints
    parts: Ints
    left: Ints
    right: Ints
    cuffs: tuple[Ints, Ints]
    buttons: Array
    normals: Array
    pocket: tuple[Array, Ints]
    seam: Ints


def shirt(detail: int = 3) -> Shirt:
    """Build a shirt for the figure of `torso`.

    Parameters
    ----------
    detail : int
        Cells along a side of each face of its cage, from 2 to 8: about 1,700 vertices for 2, 3,700 for 3,
        10,200 for 5.

    Returns
    -------
    Shirt
        The shirt, with the places of its buttons.

    Raises
    ------
    InputError
        If `detail` is no such number.
    """
    check_integer("detail", detail, 2, LINES)
    rings = FIGURE.copy()
    rings[:, 1:3] += np.pad(EASE[:, :1], ((0, len(rings) - len(EASE)), (0, 0)), mode="edge")
    rings[: len(EASE), 0] += EASE[:, 1]
    cage, sides, _ = figure_cage(rings, LIMB[:, 3])
    quads = np.array(cage.quads)
    grids = smooth_grids(np.array(cage.points), quads)
    trunk, count = sides[HEM:NECK], 8 * (WRIST + 1)
    front, body = trunk[:, -1], trunk[:, :-1][trunk[:, :-1] >= 0]
    begin = len(quads) - 2 * LIMB_QUADS
    sleeves = [begin + k * LIMB_QUADS + np.arange(count) for k in range(2)]
    # The front's middle is there twice; across it u goes from the right to the left.
    pieces = sampled_patches(grids, detail)
    u = np.linspace(0, 1, detail + 1)[:, None, None]
    middle = _joined(pieces[front])
    out = LAYER_GAP * _normals(middle)
    over, under = (_parted(strip, detail) for strip in (middle + (1 - u) * out, middle - u * out))
    patches = np.concatenate([pieces[np.concatenate([body, *sleeves])], over, under])
    layer = np.zeros(patches.shape[:3])
    layer[-2 * len(front) : -len(front), :-1], layer[-len(front) :, 1:] = 1, 2
    vertices, faces, number = sewn_patches(patches, layer)
    each = 2 * detail**2
    parts = np.repeat(
        [0, 1, 3, 2, 3, 4, 4], each * np.array([len(body), count - 8, 8, count - 8, 8, *[len(front)] * 2])
    )
    left_sleeve, right_sleeve, lefts, rights = np.split(
        number[len(body) :], np.cumsum([count, count, len(front)])
    )
    # Along the neck, from the edge of the left front all around to that of the right one.
    back = number[np.searchsorted(body, trunk[-1, :-1]), 1:, -1]
    neck = np.concatenate([lefts[-1, :, -1], back.ravel(), rights[-1, 1:, -1]])
    collar, more, stand = _collar(vertices, neck, detail, rings[NECK])
    vertices, faces = np.concatenate([vertices, collar]), np.concatenate([faces, *more])
    middle = _joined(grids[front])
    buttons, normals = _button_places(middle, vertices[stand[:, : detail + 1]].mean(1))
    chest = np.concatenate(
        [_joined(grids[column])[: LINES + (k == 2)] for k, column in enumerate(trunk[:, :3].T)]
    )
    pocket, pocket_faces, seam = _pocket(chest, detail)
    return Shirt(
        vertices,
        faces,
        np.concatenate([parts, np.repeat([5, 6], [len(each) for each in more])]),
        np.unique(np.concatenate([lefts[:, :-1].ravel(), stand[:, :detail].ravel()])),
        np.unique(np.concatenate([rights[:, 1:].ravel(), stand[:, -detail:].ravel()])),
        (np.unique(left_sleeve[-8:, :, -2:]), np.unique(right_sleeve[-8:, :, -2:])),
        buttons,
        normals,
        (pocket, pocket_faces),
        seam,
    )


def _joined(grids: Array) -> Array:
    """Return surfaces one above the other (m, a, b, 3) as one (a, m (b - 1) + 1, 3)."""
    return np.concatenate([*grids[:-1, :, :-1], grids[-1]], axis=1)


def _parted(strip: Array, detail: int) -> Array:
    """Return a strip, such as `_joined` returns, in surfaces of `detail` cells."""
    return np.stack([strip[:, k : k + detail + 1] for k in range(0, strip.shape[1] - 1, detail)])


def _normals(grid: Array) -> Array:
    """Return the unit normals of a surface (a, b, 3)."""
    normals = np.cross(np.gradient(grid, axis=0), np.gradient(grid, axis=1))
    return np.asarray(normals / np.linalg.norm(normals, axis=-1, keepdims=True))


def _collar(vertices: Array, neck: Ints, detail: int, ring: Array) -> tuple[Array, list[Ints], Ints]:
    """Return a collar on the vertices along the neck: vertices, faces, and vertices of its stand (rows, p).

    It stands up and then folds over; there are the faces of both. The fold ends before the fronts overlap.
    """
    base = vertices[neck]
    _, deep, wide, middle, tilt = ring
    up = np.array([tilt / deep, 1.0, 0.0]) / np.hypot(tilt / deep, 1.0)
    out = np.stack([(base[:, 0] - middle) / deep**2, 0 * base[:, 0], base[:, 2] / wide**2], axis=1)
    out -= (out @ up)[:, None] * up
    out /= np.linalg.norm(out, axis=1, keepdims=True)
    rise = _along(STAND, detail)[1:]
    stood = base + rise[:, :1, None] * out + rise[:, 1:, None] * up
    first = len(vertices) + np.arange(stood[..., 0].size).reshape(detail, -1)
    clear = detail + round(0.4 * detail)  # of where the fronts overlap
    kept = slice(clear, len(neck) - clear)
    drop = _along(FALL, detail + 1)[1:]
    ahead = np.clip(out[kept, 0], 0, 1)[:, None] ** 3  # towards its points
    longer = np.linspace(0, 1, len(drop))[:, None, None] * 0.012 * ahead
    folded = base[kept] + drop[:, :1, None] * out[kept] + (drop[:, 1:, None] - longer) * up
    then = len(vertices) + stood[..., 0].size + np.arange(folded[..., 0].size).reshape(len(drop), -1)
    stand, fall = np.vstack([neck, first]), np.vstack([first[-1, kept], then])
    collar = np.concatenate([stood.reshape(-1, 3), folded.reshape(-1, 3)])
    faces = [grid_triangles(rows.T[None], np.concatenate([vertices, collar])) for rows in (stand, fall)]
    return collar, faces, first


def _along(path: Array, count: int) -> Array:
    """Return the ends (count + 1, 2) of `count` steps of equal length along a path (k, 2)."""
    far = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    at = np.linspace(0, far[-1], count + 1)
    return np.stack([np.interp(at, far, side) for side in path.T], axis=1)


def _button_places(front: Array, stand: Array) -> tuple[Array, Array]:
    """Return points and normals at the heights of the buttons, on the front (9, k, 3) or up the collar."""
    out = _normals(front)[LINES // 2]
    line = np.concatenate([front[LINES // 2] + 0.5 * LAYER_GAP * out, stand])
    out = np.concatenate([out, np.repeat(out[-1:], len(stand), axis=0)])
    places, ways = (
        np.stack([np.interp(BUTTONS, line[:, 1], c) for c in rows.T], axis=1) for rows in (line, out)
    )
    return places, ways / np.linalg.norm(ways, axis=1, keepdims=True)


def _pocket(chest: Array, detail: int) -> tuple[Array, Ints, Ints]:
    """Return vertices, faces and seam of a patch before a surface (a, b, 3), which stands out at the top."""
    from scipy.ndimage import map_coordinates  # not before it is needed: it takes a while to load

    u, v = np.meshgrid(np.linspace(0, 1, 2 * detail + 2), np.linspace(0, 1, 2 * detail + 3), indexing="ij")
    at = [LINES * (low + share * (high - low)) for share, (low, high) in ((u, POCKET[0]), (v, POCKET[1]))]
    place, way = (
        np.stack([map_coordinates(side, at, order=1) for side in np.moveaxis(field, 2, 0)], axis=-1)
        for field in (chest, _normals(chest))
    )
    before = LAYER_GAP + 0.004 * np.sin(np.pi * u) * v
    number = np.arange(u.size).reshape(u.shape)
    seam = np.unique(np.concatenate([number[0], number[-1], number[:, 0]]))
    vertices = (place + before[..., None] * way).reshape(-1, 3)
    return vertices, grid_triangles(number[None], vertices), seam
