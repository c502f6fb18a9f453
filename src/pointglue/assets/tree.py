"""A tree of tetrahedra: a trunk, limbs on it and twigs on those, none of which meets another."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from ..checks import Array
from ..errors import InputError
from ..geometry.simplices import tet_box

__all__ = ["Branch", "tree"]

UP = np.array([0.0, 1.0, 0.0])
TRUNK, GIRTH = np.array([[0.0, 0.0, 0.0], [-0.08, 0.9, 0.04], [0.06, 1.75, 0.0]]), 0.085  # m
# Of the limbs: the share of the trunk where they leave it, the direction they go, their length.
LIMBS = [(0.42, 3.3, 0.95), (0.5, 0.2, 0.95), (0.64, 1.5, 0.75), (0.7, -1.7, 0.75), (0.78, 2.8, 0.8),
         (0.86, -0.5, 0.75)]  # fmt: skip
TWIGS = [("a", 0.4, 1.0, 0.5), ("b", 0.62, -1.0, 0.5)]  # the same on each limb, with the turn from it
RISE = 0.5  # of all but the trunk, above the horizontal
FITTED = 0.25  # share of its length over which a branch is stretched to fit its parent


@dataclass(eq=False)
class Branch:
    """A bent, tapered stick of tetrahedra, `cells` long and two by two across.

    `spine` are the three points of its parabola (3, 3), `girth` is its radius at the root, in m. With
    `clearance` (m) the root is cut to follow the surface of the parent at about that distance; without, it
    is flat.
    """

    name: str
    level: int
    spine: Array
    girth: float
    cells: int
    parent: "Branch | None" = None
    clearance: float | None = None

    def __post_init__(self) -> None:
        """Make the tetrahedra."""
        box, tets = tet_box((1, 2, 2), (self.cells, 2, 2))
        share = box[:, 0] + 0.5
        self.tets: NDArray[np.int64] = tets
        self.points: Array = self.swept(share, box[:, 1:])
        """(n, 3): rings of nine, from the root to the tip."""
        self.ring: NDArray[np.int64] = np.arange(9)
        """The points of the root; every other one is a corner or the middle."""
        if self.parent is not None and self.clearance is not None:
            way, ends, cut = self.at(0.0)[1], self.points[self.ring], np.zeros(9)
            # Steps as long as the distance never go through a surface, and end on it.
            for _ in range(60):
                cut += self.parent.outside(ends - cut[:, None] * way) - self.clearance
            shift = np.tile(cut, self.cells + 1) * np.clip(1 - share / FITTED, 0, 1)
            self.points = self.points - shift[:, None] * way

    def at(self, s: ArrayLike) -> tuple[Array, Array]:
        """Place and direction at the shares s (n,) of the length; below 0 it goes straight on."""
        a, b, c = self.spine
        t = np.asarray(s, dtype=float)[..., None]
        along = (1 - t) * (b - a) + t * (c - b)
        place = np.where(t < 0, a + 2 * t * (b - a), (1 - t) ** 2 * a + 2 * t * (1 - t) * b + t * t * c)
        return place, along / np.linalg.norm(along, axis=-1, keepdims=True)

    def radius(self, s: ArrayLike) -> Array:
        """Thick where it comes from its parent, thin and round at the tip (m)."""
        t = np.asarray(s, dtype=float)
        taper = 1 - 0.7 * t + 0.3 * np.exp(-((t / 0.06) ** 2))
        return np.asarray(self.girth * taper * np.sqrt(1 - 0.96 * np.abs(t) ** 30))

    def swept(self, s: Array, across: Array) -> Array:
        """Points at s (n,), and at `across` (n, 2) in a square about the spine, which is made round."""
        place, along = self.at(s)
        side = np.cross(along, [0.3, 0.1, 1.0])
        side /= np.linalg.norm(side, axis=1, keepdims=True)
        y, z = (across * np.sqrt(1 - across[:, ::-1] ** 2 / 2)).T * self.radius(s)
        return np.asarray(place + y[:, None] * side + z[:, None] * np.cross(along, side))

    def outside(self, points: Array) -> Array:
        """How far points (n, 3) are from its round surface (n,), in m; negative inside."""
        s = np.linspace(0, 1, 400)
        return np.asarray((cdist(points, self.at(s)[0]) - self.radius(s)).min(1))

    def grow(self, name: str, s: float, turn: float, length: float, cells: int) -> "Branch":
        """A branch on this one at s, `length` (m) long, in the direction `turn` about the vertical."""
        place, along = self.at(s)
        radius = float(self.radius(s))
        way = np.array([np.cos(turn) * np.cos(RISE), np.sin(RISE), np.sin(turn) * np.cos(RISE)])
        girth = 0.62 * radius
        # Far enough out for the first ring to be clear of this branch
        start = place + way * (1.15 * radius + 0.9 * girth) / np.linalg.norm(np.cross(way, along))
        middle = start + 0.5 * length * way
        tip = middle + 0.5 * length * (way + 0.35 * UP)
        spine = np.array([start, middle, tip])
        return Branch(name, self.level + 1, spine, girth, cells, self, self.clearance)


def tree(
    size: float = 1.0, *, cells: tuple[int, int, int] = (30, 24, 18), clearance: float | None = None
) -> list[Branch]:
    """A trunk, six limbs on it and two twigs on each, about 2 m high times `size`; parents come first.

    `cells` are those along the trunk, limbs and twigs. See :class:`Branch` for `clearance`.
    """
    if not size > 0 or (clearance is not None and not clearance > 0):
        raise InputError(f"size and clearance must be positive, got {size!r} and {clearance!r}")
    trunk = Branch("trunk", 0, size * TRUNK, size * GIRTH, cells[0], None, clearance)
    limbs = [
        trunk.grow(f"limb {k}", s, turn, size * length, cells[1]) for k, (s, turn, length) in enumerate(LIMBS)
    ]
    twigs = [
        limb.grow(f"twig {k}{side}", s, LIMBS[k][1] + turn, size * length, cells[2])
        for k, limb in enumerate(limbs)
        for side, s, turn, length in TWIGS
    ]
    return [trunk, *limbs, *twigs]
