"""A tree of tetrahedra: a trunk, limbs on it and twigs on those, none of which meets another."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from ..checks import Array, check_real
from ..geometry.simplices import tet_box

__all__ = ["Branch", "tree"]

UP = np.array([0.0, 1.0, 0.0])
TRUNK, GIRTH = np.array([[0.0, 0.0, 0.0], [-0.08, 0.9, 0.04], [0.06, 1.75, 0.0]]), 0.085  # m
# Limbs: the share of the trunk where they leave it, their direction about the vertical [rad], length [m].
LIMBS = [(0.42, 3.3, 0.95), (0.5, 0.2, 0.95), (0.64, 1.5, 0.75), (0.7, -1.7, 0.75), (0.78, 2.8, 0.8),
         (0.86, -0.5, 0.75)]  # fmt: skip
TWIGS = [("a", 0.4, 1.0, 0.5), ("b", 0.62, -1.0, 0.5)]  # the same on each limb, with the turn from it
ELEVATION = 0.5  # rad above the horizontal, of all but the trunk
ROOT_SHARE = 0.25  # share of its length over which a branch is stretched to fit its parent


@dataclass(eq=False)
class Branch:
    """A bent, tapered stick of tetrahedra, two by two across.

    Parameters
    ----------
    name : str
        What it is called.
    level : int
        0 for the trunk, 1 for limbs, 2 for twigs.
    spine : (3, 3)
        Root, control point and tip of its parabola [m].
    girth : float
        Radius at the root [m].
    cells : int
        Number of cells along it.
    parent : Branch, optional
        What it grows on.
    clearance : float, optional
        About how far from the surface of the parent the root is cut [m]; without, the root is flat.

    Attributes
    ----------
    points : (n, 3)
        Rings of nine, from the root to the tip [m].
    tets : (m, 4)
        Tetrahedra.
    ring : (9,)
        The points of the root.
    """

    name: str
    level: int
    spine: Array
    girth: float
    cells: int
    parent: "Branch | None" = None
    clearance: float | None = None

    def __post_init__(self) -> None:
        """Build the tetrahedra."""
        box, tets = tet_box((1, 2, 2), (self.cells, 2, 2))
        share = box[:, 0] + 0.5
        self.tets: NDArray[np.int64] = tets
        self.points: Array = self.swept(share, box[:, 1:])
        self.ring: NDArray[np.int64] = np.arange(9)
        """The points of the root; every other one is a corner or the centre."""
        if self.parent is not None and self.clearance is not None:
            way, ends, cut = self.at(0.0)[1], self.points[self.ring], np.zeros(9)
            # Steps as long as the distance never go through a surface, and end on it.
            for _ in range(60):
                cut += self.parent.outside(ends - cut[:, None] * way) - self.clearance
            shift = np.tile(cut, self.cells + 1) * np.clip(1 - share / ROOT_SHARE, 0, 1)
            self.points = self.points - shift[:, None] * way

    def at(self, s: ArrayLike) -> tuple[Array, Array]:
        """Return position and direction at the shares s (n,) of the length; below 0 it goes straight on."""
        a, b, c = self.spine
        t = np.asarray(s, dtype=float)[..., None]
        along = (1 - t) * (b - a) + t * (c - b)
        place = np.where(t < 0, a + 2 * t * (b - a), (1 - t) ** 2 * a + 2 * t * (1 - t) * b + t * t * c)
        return place, along / np.linalg.norm(along, axis=-1, keepdims=True)

    def radius(self, s: ArrayLike) -> Array:
        """Return the radius [m] at the shares s of the length, large at the root and round at the tip."""
        t = np.asarray(s, dtype=float)
        taper = 1 - 0.7 * t + 0.3 * np.exp(-((t / 0.06) ** 2))
        return np.asarray(self.girth * taper * np.sqrt(1 - 0.96 * np.abs(t) ** 30))

    def swept(self, s: Array, across: Array) -> Array:
        """Return the points at s (n,) and at `across` (n, 2), a square about the spine that becomes round."""
        place, along = self.at(s)
        side = np.cross(along, [0.3, 0.1, 1.0])
        side /= np.linalg.norm(side, axis=1, keepdims=True)
        y, z = (across * np.sqrt(1 - across[:, ::-1] ** 2 / 2)).T * self.radius(s)
        return np.asarray(place + y[:, None] * side + z[:, None] * np.cross(along, side))

    def outside(self, points: Array) -> Array:
        """Return the signed distances (n,) of points (n, 3) from its round surface [m], negative inside."""
        s = np.linspace(0, 1, 400)
        return np.asarray((cdist(points, self.at(s)[0]) - self.radius(s)).min(1))

    def grow(self, name: str, s: float, turn: float, length: float, cells: int) -> "Branch":
        """Return a branch on this one at s, `length` [m] long, at the azimuth `turn` [rad]."""
        place, along = self.at(s)
        radius = float(self.radius(s))
        way = np.array(
            [np.cos(turn) * np.cos(ELEVATION), np.sin(ELEVATION), np.sin(turn) * np.cos(ELEVATION)]
        )
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
    """Build a trunk, six limbs on it and two twigs on each limb.

    Parameters
    ----------
    size : float
        Factor of all lengths: at 1 the tree is about 2 m high.
    cells : (int, int, int)
        Number of cells along the trunk, a limb and a twig.
    clearance : float, optional
        See :class:`Branch` [m].

    Returns
    -------
    list of Branch
        Parents come before what grows on them.

    Raises
    ------
    InputError
        If `size` or `clearance` is not positive and finite.
    """
    check_real("size", size, above=0)
    if clearance is not None:
        check_real("clearance", clearance, above=0)
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
