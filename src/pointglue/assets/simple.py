"""Simple creatures and things: a body with arms, a fish, a plant, a gear and stairs."""

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, check_integer, check_real
from .subdivision import Cage, revolved, ring

__all__ = ["fish", "gear", "octopus", "plant", "stairs"]

X, Y, Z = np.eye(3)


def octopus() -> tuple[Array, Array]:
    """Build an octopus, 1 m across, that stands at y = 0 on its eight arms: about 5,000 vertices.

    Returns
    -------
    vertices : (n, 3)
        Where the vertices are [m].
    faces : (m, 3)
        Triangles, counter-clockwise seen from outside.
    """
    # Height, radius and how far to the front, from between the arms to the top of the mantle.
    body = [
        (0.075, 0.1, 0.0),
        (0.15, 0.105, 0.0),
        (0.215, 0.085, 0.0),
        (0.315, 0.13, -0.025),
        (0.43, 0.165, -0.075),
        (0.53, 0.125, -0.12),
        (0.58, 0.035, -0.145),
    ]
    cage = Cage([ring((x, y, 0), r * Z, r * X, 16) for y, r, x in body])
    for eye in cage.sides[2, [1, 5]]:
        centre, normal = cage.pose(eye)
        cage.grow(eye, centre + np.outer([0.02, 0.034], normal + 0.4 * Y), [0.037, 0.026], [0.037, 0.026])
    reach = np.array([0.06, 0.15, 0.24, 0.325, 0.4, 0.46, 0.5])
    thick = np.array([0.043, 0.036, 0.03, 0.024, 0.018, 0.012, 0.006])
    share = reach / reach[-1]
    for arm, face in enumerate(cage.sides[0, ::2]):
        centre, normal = cage.pose(face)
        sway, curl = np.sin(2.4 * arm), 1.7 + 0.7 * np.sin(1.9 * arm)  # so that no two arms are alike
        turn = np.arctan2(normal[2], normal[0]) - 0.15 * sway * share + curl * (-1) ** (arm // 3) * share**3
        slope = np.interp(share, [0, 0.3, 0.5, 0.8, 1], [-0.2, -0.5, -0.1, 0.1, 0.7 + 0.5 * sway])
        ways = np.stack([np.cos(turn) * np.cos(slope), np.sin(slope), np.sin(turn) * np.cos(slope)], axis=1)
        cage.grow(face, centre + np.cumsum(np.diff(reach, prepend=0)[:, None] * ways, axis=0), thick, thick)
    return _standing(*cage.smooth(2))


def fish() -> tuple[Array, Array]:
    """Build a lionfish of half a metre about the origin: about 9,000 vertices.

    Every ray of its fins is a blade.

    Returns
    -------
    vertices : (n, 3)
        Where the vertices are [m].
    faces : (m, 3)
        Triangles, counter-clockwise seen from outside.
    """
    # From snout to tail: x, height of the centre, half height and half width.
    stations = np.array(
        [
            (0.172, -0.020, 0.011, 0.009),
            (0.152, -0.016, 0.027, 0.021),
            (0.125, -0.008, 0.044, 0.032),
            (0.095, 0.000, 0.058, 0.040),
            (0.065, 0.003, 0.066, 0.044),
            (0.035, 0.004, 0.069, 0.044),
            (0.005, 0.004, 0.067, 0.041),
            (-0.025, 0.003, 0.061, 0.036),
            (-0.055, 0.001, 0.053, 0.030),
            (-0.085, 0.000, 0.043, 0.023),
            (-0.115, 0.000, 0.034, 0.016),
            (-0.145, 0.000, 0.030, 0.011),
            (-0.165, 0.000, 0.034, 0.008),
        ]
    )
    cage = Cage([ring((x, y, 0), h * Y, -w * Z, 12) for x, y, h, w in stations])
    top, bottom = cage.sides[:, 11], cage.sides[:, 5]
    thin = [0.006, 0.0035, 0.002]

    def blade(face: int, way: ArrayLike, bend: ArrayLike, wide: ArrayLike, high: ArrayLike) -> None:
        """Grow a ray of a fin from a face, along `way` and bent by `bend`."""
        share = np.array([0.15, 0.55, 1.0])[:, None]
        spine = cage.pose(face)[0] + share * np.asarray(way) + share**2 * np.asarray(bend)
        cage.grow(face, spine, wide, high)

    thin, dorsal, feather = [0.006, 0.0035, 0.002], [0.011, 0.008, 0.0035], [0.007, 0.013, 0.005]
    for k, length in zip(range(2, 11), [0.09, 0.13, 0.15, 0.155, 0.15, 0.135, 0.12, 0.11, 0.09], strict=True):
        blade(top[k], length * np.array([0.35 - 0.1 * k, 1, 0]), (-0.35 * length, 0, 0), thin, dorsal)
    for k, length in [(8, 0.08), (9, 0.1), (10, 0.08)]:
        blade(bottom[k], (-0.5 * length, -length, 0), (-0.5 * length, 0, 0), thin, dorsal)
    for face, rise in zip(cage.end, np.linspace(1, -1, 5), strict=True):
        blade(face, (-0.16, 0.05 * rise, 0), (0.02 * rise**2, 0.03 * rise, 0), feather, thin)
    for side, arm, belly, eye in [(-1, 3, 4, 1), (1, 7, 6, 9)]:
        # A pectoral fin is a spar with a ray from each of the faces behind it, and one from its tip.
        spar = cage.sides[4, arm]
        steps = np.linspace(0.012, 0.09, 6)[:, None]
        spine = cage.pose(spar)[0] + steps * [-0.25, 0.35, side] + 3 * steps**2 * Y
        grown = cage.grow(spar, spine, np.linspace(0.012, 0.005, 6), np.linspace(0.014, 0.006, 6))
        for ray, spread in zip([*grown[1:, 2], spar], np.linspace(0, 1, 6), strict=True):
            way = 0.17 * np.array([-1 + 0.75 * spread, -0.6 + 1.4 * spread, side * (0.2 + 0.7 * spread)])
            blade(ray, way, (-0.05, -0.02, 0), thin, feather)
        blade(cage.sides[4, belly], (-0.03, -0.11, 0.05 * side), (-0.07, 0.02, 0), thin, feather)
        eyeball = cage.sides[1, eye]
        centre, normal = cage.pose(eyeball)
        cage.grow(eyeball, centre + np.outer([0.006, 0.010], normal), [0.011, 0.007], [0.011, 0.007])
    return cage.smooth(2)


def plant(*, seed: int = 0) -> tuple[Array, Array]:
    """Build an under-water plant of 1 m with its root at y = 0: about 3,000 vertices.

    Parameters
    ----------
    seed : int
        Start of the random numbers by which its eight broad leaves differ from those of other plants.

    Returns
    -------
    vertices : (n, 3)
        Where the vertices are [m].
    faces : (m, 3)
        Triangles, counter-clockwise seen from outside.
    """
    random = np.random.default_rng(seed)
    sway, phase = random.uniform(0.03, 0.06), random.uniform(0, 2 * np.pi)
    rings = []
    for k, r in enumerate([0.05, 0.026, 0.024, 0.022, 0.02, 0.019, 0.018, 0.017, 0.015]):
        y, turn = 0.1 * k, phase - 0.74 * k  # with every leaf on the other side: the golden angle
        u, v = np.cos(turn) * Z + np.sin(turn) * X, np.cos(turn) * X - np.sin(turn) * Z
        middle = (sway * np.sin(4 * y), y, sway * np.sin(5 * y + phase))
        rings.append(ring(middle, r * u, r * v, 4))
    cage = Cage(rings)
    wide = np.array([0.016, 0.07, 0.088, 0.062, 0.01])
    high = np.array([0.013, 0.010, 0.009, 0.007, 0.004])
    leaves = [(cage.sides[k, (2 * k) % 4], 1.12 - 0.07 * k, 0.0) for k in range(1, 8)]
    for face, scale, lift in [*leaves, (cage.end[0], 0.6, 0.5)]:
        centre, normal = cage.pose(face)
        heading = np.arctan2(normal[2], normal[0]) + random.uniform(-0.3, 0.3)
        rise = np.linspace(0.9, random.uniform(-0.5, 0.1), 5) + lift
        ways = np.stack(
            [np.cos(heading) * np.cos(rise), np.sin(rise), np.sin(heading) * np.cos(rise)], axis=1
        )
        step = scale * random.uniform(0.072, 0.084)
        cage.grow(face, centre + step * np.cumsum(ways, axis=0), scale * wide, scale * high)
    return _standing(*cage.smooth(2))


def gear(*, teeth: int = 8) -> tuple[Array, Array]:
    """Build a gear of half a metre with a hole, about the origin, that turns about z.

    Parameters
    ----------
    teeth : int
        Number of teeth, at least 3; each has 512 vertices.

    Returns
    -------
    vertices : (n, 3)
        Where the vertices are [m].
    faces : (m, 3)
        Triangles, counter-clockwise seen from outside.

    Raises
    ------
    InputError
        If `teeth` is no such number.
    """
    check_integer("teeth", teeth, at_least=3)
    t = 2 * np.pi * np.arange(32) / 32
    u, v = (np.sign(side) * np.abs(side) ** 0.4 for side in (np.cos(t), np.sin(t)))  # nearly a square
    angle = 2 * np.pi * np.arange(16 * teeth)[:, None] / (16 * teeth)
    hole, rim = 0.1, 0.22 + 0.03 * np.tanh(2.5 * np.cos(teeth * angle))
    radii = (rim + hole) / 2 + (rim - hole) / 2 * u
    return revolved(radii, np.broadcast_to(0.06 * v, radii.shape))


def stairs(steps: int = 8, *, rise: float = 0.2, run: float = 0.3, width: float = 2.0) -> tuple[Array, Array]:
    """Build solid stairs that go down along x to the ground, y = 0, with z = 0 in their middle.

    Parameters
    ----------
    steps : int
        Number of steps, at least 1.
    rise : float
        Height of a step [m]; the uppermost is at `steps` times `rise`.
    run : float
        Depth of a step [m].
    width : float
        Width of the flight [m].

    Returns
    -------
    vertices : (n, 3)
        Where the vertices are [m].
    faces : (m, 3)
        Triangles, counter-clockwise seen from outside.

    Raises
    ------
    InputError
        If `steps` is no such number, or a length is not positive and finite.
    """
    check_integer("steps", steps, at_least=1)
    for name, length in [("rise", rise), ("run", run), ("width", width)]:
        check_real(name, length, above=0)
    # The outline, in steps: from the foot of the lowest one up to the top, then down the back.
    up, down = np.arange(steps + 1), np.arange(steps - 1, -1, -1)
    x = np.concatenate([np.repeat(up[::-1], 2)[:-1], 0 * down])
    y = np.concatenate([np.repeat(up, 2)[1:], down])
    n, i = len(x), up[:-1]
    back = n - 1 - i
    layers = np.stack([[back, 2 * i, 2 * i + 2], [2 * i, 2 * i + 1, 2 * i + 2], [back, 2 * i + 2, back - 1]])
    right = layers.transpose(2, 0, 1).reshape(-1, 3)[:-1]  # the uppermost layer ends in a corner
    at, on = np.arange(n), np.roll(np.arange(n), -1)
    around = np.concatenate([np.stack([at, at + n, on + n], axis=1), np.stack([at, on + n, on], axis=1)])
    vertices = [np.stack([run * x, rise * y, np.full(n, z)], axis=1) for z in (width / 2, -width / 2)]
    return np.concatenate(vertices), np.concatenate([right, right[:, ::-1] + n, around])


def _standing(vertices: Array, faces: Array) -> tuple[Array, Array]:
    """Return the model with its lowest point at y = 0."""
    return vertices - vertices[:, 1].min() * Y, faces
