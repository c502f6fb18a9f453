"""Small meshes that are as bad as those that people find: the ten ways in which a model is seldom clean.

`WEB_MESHES` has them by name; each is a function without arguments that returns vertices (n, 3) and faces
(m, 3) or (m, 4), always the same ones. All are figures or things that stand on y = 0, in metres, unless the
name says otherwise.
"""

from functools import cache
from itertools import pairwise

import numpy as np
import trimesh

from pointglue.geometry.shapes import box, skin

__all__ = ["WEB_MESHES", "count_shells", "figure", "merged"]

HEIGHT = 1.8  # m
# Capsules of a figure: two ends and a radius [m].
LIMBS = [
    ((0, 0.95, 0), (0, 1.4, 0), 0.15),
    ((0, 1.4, 0), (0, 1.55, 0), 0.07),
    ((0, 1.66, 0.01), (0, 1.67, 0.01), 0.13),
    ((-0.12, 0.06, 0.03), (-0.09, 0.95, 0), 0.085),
    ((0.12, 0.06, 0.03), (0.09, 0.95, 0), 0.085),
    ((-0.12, 0.05, 0.02), (-0.12, 0.05, 0.14), 0.06),
    ((0.12, 0.05, 0.02), (0.12, 0.05, 0.14), 0.06),
    ((-0.15, 1.38, 0), (-0.5, 0.95, 0.02), 0.055),
    ((0.15, 1.38, 0), (0.5, 0.95, 0.02), 0.055),
]
BLEND = 0.03  # m, how far limbs flow into each other


def merged(*parts):
    """Return parts (vertices, faces) as one mesh."""
    starts = np.cumsum([0] + [len(points) for points, _ in parts])
    return (
        np.concatenate([points for points, _ in parts]),
        np.concatenate([faces + start for (_, faces), start in zip(parts, starts, strict=False)]),
    )


def count_shells(vertices, faces):
    """Return how many connected surfaces there are, vertices at one place being one."""
    mesh = trimesh.Trimesh(vertices, faces, process=False)
    mesh.merge_vertices()
    return len(trimesh.graph.connected_components(mesh.edges_unique))


def _outside(points, grow=0.0, limbs=range(9)):
    """Return signed distances of points from the figure, all limbs thicker by `grow`."""
    least = np.full(len(points), np.inf)
    for k in limbs:
        a, b, radius = (np.array(item, float) for item in LIMBS[k])
        way = b - a
        along = np.clip((points - a) @ way / max(way @ way, 1e-12), 0, 1)
        distance = np.linalg.norm(points - a - along[:, None] * way, axis=1) - radius - grow
        overlap = np.maximum(BLEND - np.abs(least - distance), 0) / BLEND
        least = np.minimum(least, distance) - overlap**2 * BLEND / 4
    return least


@cache
def figure():
    """Return a closed figure that stands: the clean model that the others are spoilt copies of."""
    points, faces = skin(_outside, (-0.7, -0.1, -0.3), (0.7, 1.95, 0.35), 0.04)
    low, high = points[:, 1].min(), points[:, 1].max()
    points[:, 1] = (points[:, 1] - low) * HEIGHT / (high - low)
    return points, faces


@cache
def _jacket():
    """Return an open surface a centimetre around trunk and arms, without hem and cuffs."""
    points, faces = skin(lambda x: _outside(x, 0.02, (0, 7, 8)), (-0.7, 0.6, -0.3), (0.7, 1.7, 0.35), 0.04)
    middle = points[faces].mean(1)
    kept = (middle[:, 1] > 0.95) & (middle[:, 1] < 1.46) & (np.abs(middle[:, 0]) < 0.42)
    used, faces = np.unique(faces[kept], return_inverse=True)
    return points[used], faces.reshape(-1, 3)


def _ball(centre, radius, detail=1):
    ball = trimesh.creation.icosphere(detail, radius)
    return np.array(ball.vertices) + centre, np.array(ball.faces)


def _strip(one, other):
    """Return the triangles between two lines of as many points."""
    count = len(one)
    quads = np.array([[j, j + 1, count + j + 1, count + j] for j in range(count - 1)])
    return np.concatenate([one, other]), quads[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)


def _brick(centre, size, cells=(1, 1, 1)):
    points, faces = box(size, cells)
    return points + centre, faces


def many_shells():
    """Return a dressed figure: eyes, pupils, teeth, nails, buttons, hair, a jacket, a hat that floats."""
    parts = [figure(), _jacket()]
    few = (-2, -1, 0, 1, 2)
    for side in (-1, 1):
        parts += [_ball((0.05 * side, 1.69, 0.12), 0.025), _ball((0.05 * side, 1.69, 0.144), 0.006)]
        parts += [_brick((0.53 * side, 0.94 + 0.02 * k, 0.05), (0.008, 0.012, 0.012)) for k in few]
        parts += [_brick((0.12 * side + 0.02 * k, 0.05, 0.185), (0.012, 0.01, 0.014)) for k in few]
    parts += [_brick((0.014 * k, 1.61, 0.128), (0.012, 0.014, 0.01)) for k in few]
    parts += [_ball((0, 1.05 + 0.09 * k, 0.178), 0.008) for k in range(4)]
    for turn in np.linspace(np.pi, 2 * np.pi, 8):  # hair: strips that stick in the head
        out, side = np.array([np.cos(turn), 0, np.sin(turn)]), np.array([-np.sin(turn), 0, np.cos(turn)])
        rows = [np.array([0, 1.74 - 0.05 * j, 0.01]) + (0.1 + 0.02 * j) * out for j in range(4)]
        parts.append(_strip([row - 0.02 * side for row in rows], [row + 0.02 * side for row in rows]))
    angle = np.linspace(0, 2 * np.pi, 25)
    circles = [
        np.stack([r * np.cos(angle), y + 0 * angle, 0.01 + r * np.sin(angle)], axis=1)
        for r, y in ((0.16, 1.76), (0.1, 1.77), (0.1, 1.85), (0.01, 1.86))
    ]
    parts.append(merged(*(_strip(one, other) for one, other in pairwise(circles))))
    return merged(*parts)


def quads():
    """Return a table of quads: a slab and four legs that are stuck into it, faces (m, 4)."""
    parts = [((1.2, 0.06, 0.8), (0, 0.72, 0), (12, 1, 8))]
    parts += [((0.06, 0.71, 0.06), (x, 0.355, z), (1, 7, 1)) for x in (-0.5, 0.5) for z in (-0.3, 0.3)]
    points, cells = [], []
    for size, centre, count in parts:
        vertices, faces = box(size, count)
        half = len(faces) // 2  # `box` lists the first halves of all quads, then the second ones
        first = sum(map(len, points))
        cells.append(np.column_stack([faces[:half], faces[half:, 2]]) + first)
        points.append(vertices + centre)
    return np.concatenate(points), np.concatenate(cells)


def open_shell():
    """Return a bust: the figure above the waist, open below, without the back of its head."""
    points, faces = figure()
    middle = points[faces].mean(1)
    kept = (middle[:, 1] > 1.0) & (np.abs(middle[:, 0]) < 0.3)
    kept &= ~((middle[:, 1] > 1.6) & (middle[:, 2] < -0.08))
    used, faces = np.unique(faces[kept], return_inverse=True)
    return points[used] - [0, 1.0, 0], faces.reshape(-1, 3)


def flat():
    """Return a figure of paper, in the plane z = 0, its limbs apart."""
    step = 0.03
    x, y = np.meshgrid(np.arange(-0.66, 0.67, step), np.arange(-0.03, 1.86, step), indexing="ij")
    points = np.stack([x, y, 0 * x], axis=-1).reshape(-1, 3)
    number = np.arange(x.size).reshape(x.shape)
    cells = np.stack([number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]], -1).reshape(-1, 4)
    cells = cells[(_outside(points[cells].mean(1)) < 0.01)]
    used, cells = np.unique(cells, return_inverse=True)
    cells = cells.reshape(-1, 4)
    return points[used], cells[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)


def non_manifold():
    """Return a bookshelf: a box with inner walls that share edges with it, and a fin on its top."""
    points, faces = merged(*(_brick((0, 0.2 + 0.4 * k, 0), (0.8, 0.4, 0.3), (8, 4, 2)) for k in range(3)))
    mesh = trimesh.Trimesh(points, faces, process=False)
    mesh.merge_vertices()  # shelves are shared now: four triangles at their edges
    edge = np.linspace([-0.4, 1.2, 0.0], [0.4, 1.2, 0.0], 9)
    fin = _strip(edge, edge + [0, 0.15, 0])
    faces = np.unique(np.sort(mesh.faces, axis=1), axis=0, return_index=True)[1]
    return merged((np.array(mesh.vertices), np.array(mesh.faces)[np.sort(faces)]), fin)


def huge():
    """Return a figure of 273 m: somebody has exported millimetres, or another unit."""
    points, faces = figure()
    return points * (273 / HEIGHT), faces


def tiny():
    """Return a figure of 3 mm."""
    points, faces = figure()
    return points * (0.003 / HEIGHT), faces


def z_up():
    """Return a figure that stands along z, as many programs have it: here it lies on its back."""
    points, faces = figure()
    return np.stack([points[:, 0], -points[:, 2], points[:, 1]], axis=1), faces


def centimetres():
    """Return a figure of 180 units."""
    points, faces = figure()
    return 100 * points, faces


def duplicated_vertices():
    """Return the figure with vertices of its own for each triangle, some triangles twice, some of no area."""
    points, faces = figure()
    soup = points[np.concatenate([faces, faces[::7], faces[::11, [0, 1, 1]]])].reshape(-1, 3)
    return np.concatenate([soup, points[:5]]), np.arange(len(soup)).reshape(-1, 3)


MAKERS = (
    many_shells, quads, open_shell, flat, non_manifold, huge, tiny, z_up, centimetres, duplicated_vertices
)  # fmt: skip
WEB_MESHES = {make.__name__: make for make in MAKERS}
