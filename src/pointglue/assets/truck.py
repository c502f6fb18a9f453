"""A truck on big wheels, in parts that move against each other."""

from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, check_choice
from ..geometry.shapes import skin
from .subdivision import Cage, revolved, ring

__all__ = ["TRUCK_PARTS", "Car", "car", "truck_part"]

Surface = tuple[Array, Array]
Polygon = list[tuple[float, float]]

TRUCK_PARTS = ("body", "glass", "lamps", "trim", "front wheels", "rear wheels")
AXLES = (1.25, -1.2)  # m, x of the front and of the rear axle
TRACK = 0.93  # m from the middle to the centre of a wheel
RADIUS, WIDTH = 0.6, 0.5  # m, of a tyre
# What is seen from the side, as convex polygons of x and y, counter-clockwise.
HULL: Polygon = [(-2, 0.84), (1.95, 0.84), (2.08, 1), (2.05, 1.4), (0.8, 1.53), (-2, 1.5)]
SCOOP: Polygon = [(0.8, 1.3), (1.9, 1.3), (1.86, 1.47), (0.8, 1.6)]
CABIN: Polygon = [(-0.75, 1.2), (1.05, 1.2), (0.3, 2.02), (-0.65, 2.02)]
BED: Polygon = [(-1.84, 1.2), (-0.88, 1.2), (-0.88, 2), (-1.84, 2)]
WINDSCREEN: Polygon = [(-0.1, 1.6), (1.5, 1.6), (1.2, 1.92), (-0.1, 1.92)]
REAR: Polygon = [(-1, 1.6), (-0.3, 1.6), (-0.3, 1.92), (-1, 1.92)]
WINDOW: Polygon = [(-0.02, 1.58), (0.55, 1.58), (0.25, 1.92), (-0.02, 1.92)]
QUARTER: Polygon = [(-0.62, 1.58), (-0.11, 1.58), (-0.11, 1.92), (-0.55, 1.92)]


@dataclass(frozen=True)
class Car:
    """A truck of 4 m that looks along x and stands on y = 0; right is +z. A part is (vertices, faces).

    Parameters
    ----------
    body : (vertices, faces)
        The painted metal.
    glass : (vertices, faces)
        The window panes, which go with the body.
    lamps : (vertices, faces)
        Eight lamps, which go with the body.
    trim : (vertices, faces)
        Bumpers, grille, frame and roll bars, which go with the body.
    axles : tuple of (vertices, faces)
        The front and the rear axle.
    rims : tuple of (vertices, faces)
        The rims: front left, front right, rear left and rear right.
    tyres : tuple of (vertices, faces)
        The tyres, in the order of the rims.
    axle_ends : (2, 2, 3)
        The centres of the wheels [m]: front and rear, left and right.
    tyre_radius : float
        Radius of a tyre [m].
    tyre_width : float
        Width of a tyre [m].
    """

    body: Surface
    glass: Surface
    lamps: Surface
    trim: Surface
    axles: tuple[Surface, ...]
    rims: tuple[Surface, ...]
    tyres: tuple[Surface, ...]
    axle_ends: Array
    tyre_radius: float
    tyre_width: float


def car() -> Car:
    """Build a truck on big wheels in fourteen closed parts, about 60,000 vertices in all.

    Returns
    -------
    Car
        The parts of the truck.
    """
    ends = np.array([[(x, RADIUS, -TRACK), (x, RADIUS, TRACK)] for x in AXLES])
    axle, rim, tyre = _axle(), _rim(), _tyre()
    return Car(
        body=skin(_body, (-2.3, 0.6, -1.2), (2.3, 2.2, 1.2), 0.033),
        glass=skin(_glass, (-1, 1, -1), (1.3, 2.2, 1), 0.035),
        lamps=_lamps(),
        trim=_trim(),
        axles=tuple((axle[0] + (x, RADIUS, 0), axle[1]) for x in AXLES),
        rims=tuple(_wheel(rim, end) for end in ends.reshape(-1, 3)),
        tyres=tuple(_wheel(tyre, end) for end in ends.reshape(-1, 3)),
        axle_ends=ends,
        tyre_radius=RADIUS,
        tyre_width=WIDTH,
    )


def truck_part(truck: Car, part: str) -> Surface:
    """Return one of the parts of a truck that move against each other, or have a colour of their own.

    Parameters
    ----------
    truck : Car
        The whole.
    part : str
        One of `TRUCK_PARTS`; wheels are those of an axle, with it.

    Returns
    -------
    vertices : (n, 3)
        Where the vertices are [m].
    faces : (m, 3)
        Triangles, counter-clockwise seen from outside.

    Raises
    ------
    InputError
        If there is no such part.
    """
    match check_choice("part", part, TRUCK_PARTS):
        case "front wheels":
            return _joined([truck.axles[0], *truck.rims[:2], *truck.tyres[:2]])
        case "rear wheels":
            return _joined([truck.axles[1], *truck.rims[2:], *truck.tyres[2:]])
    surface: Surface = getattr(truck, part)
    return surface


def _both(a: Array, b: Array, rounding: float) -> Array:
    """Return the approximate distance from the intersection of two solids, with rounded edges."""
    near = np.maximum(2 * rounding - np.abs(a - b), 0)
    return np.asarray(np.maximum(a, b) + near**2 / (8 * rounding))


def _either(a: Array, b: Array, rounding: float) -> Array:
    """Return the approximate distance from the union of two solids, with a fillet between them."""
    return -_both(-a, -b, rounding)


def _slab(x: Array, polygon: Polygon, half: Array | float, rounding: float) -> Array:
    """Return the approximate distance from a convex polygon of x and y, extruded to |z| = `half`."""
    sides = [np.abs(x[:, 2]) - half]
    for a, b in zip(np.array(polygon), np.roll(polygon, -1, axis=0), strict=True):
        normal = np.array([b[1] - a[1], a[0] - b[0]]) / np.hypot(*(b - a))
        sides.append(normal[0] * (x[:, 0] - a[0]) + normal[1] * (x[:, 1] - a[1]))
    return reduce(lambda one, other: _both(one, other, rounding), sides)


def _cabin(x: Array) -> Array:
    """Return the distance from the cabin, which leans in towards its roof."""
    return _slab(x, CABIN, 0.82 - 0.25 * (x[:, 1] - 1.4), 0.08)


def _body(x: Array) -> Array:
    """Return the distance from the painted metal."""
    out = np.abs(x[:, 2])
    hull = _slab(x, HULL, 0.84 - 0.04 * np.clip(x[:, 0] - 0.8, 0, None) ** 2, 0.07)
    shape = _either(hull, _slab(x, SCOOP, 0.4, 0.04), 0.05)
    shape = _either(shape, _cabin(x), 0.06)
    bed = _slab(x, BED, 0.68, 0.05)
    for axle in AXLES:
        wheel = np.hypot(x[:, 0] - axle, x[:, 1] - 0.72)
        flare = _both(_both(wheel - 0.78, 0.84 - x[:, 1], 0.04), _both(out - 1.0, 0.7 - out, 0.04), 0.05)
        shape = _either(shape, flare, 0.05)
        shape = _both(shape, -_both(wheel - 0.64, 0.52 - out, 0.04), 0.03)
        bed = _both(bed, -_both(wheel - 0.75, 0.42 - out, 0.04), 0.03)
    shape = _both(shape, -bed, 0.03)
    grille = _slab(x, [(1.98, 0.98), (2.3, 0.98), (2.3, 1.28), (1.98, 1.28)], 0.42, 0.03)
    return _both(shape, -grille, 0.02)


def _glass(x: Array) -> Array:
    """Return the distance from the windows: ends of blocks through the cabin that stand out by 1 cm."""
    panes = [_slab(x, WINDSCREEN, 0.68 - 0.25 * (x[:, 1] - 1.4), 0.04), _slab(x, REAR, 0.54, 0.04)]
    panes += [_slab(x, pane, 2.0, 0.04) for pane in (WINDOW, QUARTER)]
    return _both(reduce(lambda one, other: _either(one, other, 0.03), panes), _cabin(x) - 0.012, 0.015)


def _lamps() -> Surface:
    """Build two lamps at the front, two at the back, four on the roof."""
    import trimesh  # not before it is needed: it takes a while to load

    ball = trimesh.creation.icosphere(2)
    places = [
        (2.03, 1.13, 0.6, 0.12),
        (-1.99, 1.28, 0.7, 0.07),
        (0.24, 2.1, 0.18, 0.08),
        (0.24, 2.1, 0.46, 0.08),
    ]
    return _joined(
        [
            (ball.vertices * (0.05, r, r) + (x, y, side * z), np.asarray(ball.faces))
            for x, y, z, r in places
            for side in (-1, 1)
        ]
    )


def _bar(path: ArrayLike, wide: ArrayLike, high: ArrayLike) -> Surface:
    """Build a rounded bar along a path (k, 3), which does not start upright; half sizes (k,)."""
    points = np.asarray(path, dtype=float)
    w, h = (np.broadcast_to(size, len(points)) for size in (wide, high))
    along = points[1] - points[0]
    side = np.cross((0, 1, 0), along)
    side /= np.linalg.norm(side)
    up = np.cross(along, side) / np.linalg.norm(along)
    u, v = np.sqrt(2) * side, np.sqrt(2) * up  # a ring of four has its corners at 45 degrees
    cage = Cage([ring(points[k], w[k] * u, h[k] * v, 4) for k in (0, 1)])
    cage.grow(cage.end[0], points[2:], w[2:], h[2:])
    return cage.smooth(2)


def _trim() -> Surface:
    """Build bumpers, grille, rails of the frame, a roll bar behind the cabin and a bar for its lamps."""
    across = np.array([-0.92, -0.8, -0.45, 0, 0.45, 0.8, 0.92])
    bow = np.array([-0.16, -0.02, 0.03, 0.04, 0.03, -0.02, -0.16])
    arch = [
        (1.3, -0.74),
        (1.7, -0.68),
        (2.08, -0.6),
        (2.1, -0.3),
        (2.1, 0.3),
        (2.08, 0.6),
        (1.7, 0.68),
        (1.3, 0.74),
    ]
    return _joined(
        [
            _bar(np.stack([2.08 + bow, np.full(7, 0.9), across], axis=1), 0.06, 0.11),
            _bar(np.stack([-2.0 - bow, np.full(7, 0.9), across], axis=1), 0.06, 0.09),
            *(_bar(np.linspace((-1.9, 0.8, z), (1.95, 0.8, z), 12), 0.06, 0.08) for z in (-0.4, 0.4)),
            *(
                _bar([(2.03, y, z) for z in np.linspace(-0.4, 0.4, 6)], 0.03, 0.025)
                for y in (1.05, 1.13, 1.21)
            ),
            _bar([(-0.98, y, z) for y, z in arch], 0.045, 0.045),
            _bar([(0.2, 2.03, z) for z in np.linspace(-0.6, 0.6, 7)], 0.04, 0.03),
        ]
    )


def _axle() -> Surface:
    """Build an axle from hub to hub about the origin, thick in the middle where the gear is."""
    z = TRACK * np.array([-1.06, -1, -0.6, -0.25, -0.15, 0, 0.15, 0.25, 0.6, 1, 1.06])
    size = np.array([0.06, 0.06, 0.06, 0.07, 0.15, 0.19, 0.15, 0.07, 0.06, 0.06, 0.06])
    return _bar(z[:, None] * (0, 0, 1), size, size)


def _rim() -> Surface:
    """Build the rim of a right wheel about the origin, with six spokes."""
    corners = [
        (0.31, -0.2),
        (0.31, 0.21),
        (0.27, 0.21),
        (0.26, 0.11),
        (0.1, 0.11),
        (0.09, 0.16),
        (0.04, 0.16),
    ]
    corners += [(0.04, -0.02), (0.25, -0.02), (0.27, -0.2)]
    profile = np.array([*corners, corners[0]])
    far = np.append(0, np.cumsum(np.linalg.norm(np.diff(profile, axis=0), axis=1)))
    r, z = (np.interp(np.linspace(0, far[-1], 36, endpoint=False), far, side) for side in profile.T)
    angle = 2 * np.pi * np.arange(60)[:, None] / 60
    hollow = np.clip(0.5 + 1.5 * np.cos(6 * angle), 0, 1) * ((z > 0.05) & (r > 0.12) & (r < 0.25))
    return revolved(np.broadcast_to(r, hollow.shape), z - 0.09 * hollow)


def _tyre() -> Surface:
    """Build a right tyre about the origin, with lugs that meet in the middle."""
    t = 2 * np.pi * np.arange(32) / 32
    inner, outer, lug = 0.29, RADIUS - 0.04, 0.04
    u, v = (np.sign(side) * np.abs(side) ** 0.6 for side in (np.cos(t), np.sin(t)))  # nearly a rectangle
    r, z = (inner + outer) / 2 + (outer - inner) / 2 * u, WIDTH / 2 * v
    angle = 2 * np.pi * np.arange(144)[:, None] / 144
    wave = np.sin(18 * angle + np.pi * (z > 0) + 6 * np.abs(z))
    tread = np.clip(0.5 + 1.5 * wave, 0, 1) * np.clip((r - 0.47) / 0.06, 0, 1)
    return revolved(r + lug * tread, np.broadcast_to(z, tread.shape))


def _wheel(part: Surface, centre: Array) -> Surface:
    """Return a right wheel's part at `centre`, mirrored on the left."""
    vertices, faces = part
    left = centre[2] < 0
    return vertices * (1, 1, -1 if left else 1) + centre, faces[:, ::-1] if left else faces


def _joined(parts: list[Surface]) -> Surface:
    """Return several surfaces as one."""
    starts = np.cumsum([0] + [len(vertices) for vertices, _ in parts])
    faces = [start + faces for start, (_, faces) in zip(starts, parts, strict=False)]
    return np.concatenate([vertices for vertices, _ in parts]), np.concatenate(faces)
