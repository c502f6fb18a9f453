"""What is said about bodies that are not what they were probably meant to be: pieces, units, stiffness."""

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..checks import Array

__all__ = [
    "GRAVITY",
    "LONGEST_SUBSTEP",
    "loose_piece_advice",
    "matching_advice",
    "suitable_substep",
    "unit_advice",
]

# s: the substep of bodies of usual size.
LONGEST_SUBSTEP = 1 / 120
# Substeps in the time in which something as large as a body falls its own height, at least, about.
SUBSTEPS_PER_FALL = 8
# m: sizes beyond which another unit was probably meant.
SMALLEST, LARGEST = 0.005, 50.0
# Ratio of the Young's modulus of beams by shape matching to density (spacing / substep)^2, found by trying.
MATCHING = 30.0
# Ratio of a Young's modulus to the pressure of a column as long as a body: below, it bends by its weight.
FIRM = 300.0
GRAVITY = 9.81  # m/s^2: bodies are meant to stand on Earth
# What meshes are measured in instead of metres, largest first.
UNITS = ((0.01, "centimetres"), (0.001, "millimetres"), (1e-6, "micrometres"))
# What too small meshes were multiplied by once too often: millimetres to metres, twice.
TWICE = 0.001


def unit_advice(size: float, mass: float) -> str | None:
    """Return what is said about a body of this size [m] and mass [kg], or None if both are usual."""
    if SMALLEST <= size <= LARGEST:
        return None
    text = f"the body is {size:.3g} m across and weighs {mass:.3g} kg"
    if size < SMALLEST and size / TWICE <= LARGEST:
        return (
            f"{text}: lengths are metres. If they were converted from millimetres twice, scale the mesh by "
            f"{1 / TWICE:g}"
        )
    fitting = [unit for unit in UNITS if SMALLEST <= unit[0] * size <= LARGEST]
    if not fitting:
        return f"{text}: lengths are metres, scale the mesh to what was meant"
    scale, name = fitting[0]
    return f"{text}: lengths are metres. If they were meant as {name}, scale the mesh by {scale:g}"


def suitable_substep(positions: Array, radii: Array, pieces: NDArray[np.int64], gravity: float) -> float:
    """Return the longest substep [s] in which the smallest connected piece falls a small part of its size.

    `pieces` (n,) are the numbers of the pieces; single particles do not count.
    """
    count = int(pieces.max()) + 1
    several = np.bincount(pieces, minlength=count) > 1
    if not several.any() or gravity == 0.0:
        return LONGEST_SUBSTEP
    low, high = np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
    reach = radii.max(1)[:, None]
    np.minimum.at(low, pieces, positions - reach)
    np.maximum.at(high, pieces, positions + reach)
    smallest = float((high - low).max(1)[several].min())
    return min(LONGEST_SUBSTEP, math.sqrt(smallest / gravity) / SUBSTEPS_PER_FALL)


class Solid(Protocol):
    """What stiffness depends on."""

    @property
    def positions(self) -> Array:
        """The particles (n, 3) [m]."""

    @property
    def edges(self) -> NDArray[np.int64]:
        """Pairs (m, 2) of particles."""

    @property
    def young(self) -> Array:
        """Young's moduli (n,) [Pa]."""

    @property
    def groups(self) -> Sequence[NDArray[np.int64]]:
        """Particles that move as one rigid piece, group by group."""

    @property
    def size(self) -> float:
        """The longest side of its bounding box [m]."""

    @property
    def stiffness(self) -> Array:
        """The coefficients of shape matching (n,)."""

    @property
    def density(self) -> Array:
        """Densities (n,) [kg/m^3]."""


def matching_advice(solid: Solid, substep: float) -> str | None:
    """Return what is said about a body that shape matching cannot make stiff enough for its own weight."""
    matched = (solid.young == 0) & (solid.stiffness == 1)
    for group in solid.groups:
        matched[group] = False
    edges = solid.edges[matched[solid.edges].all(1)]
    if not len(edges):
        return None
    lengths = np.linalg.norm(np.diff(solid.positions[edges], axis=1)[:, 0], axis=1)
    density = float(solid.density[edges].mean())
    reached = MATCHING * density * (float(np.median(lengths)) / substep) ** 2
    if reached > FIRM * density * GRAVITY * solid.size:
        return None
    return (
        f"stiffness=1 reaches a Young's modulus of about {reached:.1g} Pa, with these distances between "
        f"particles and substeps of {substep:.2g} s: young= reaches any, and rigid=True does not bend"
    )


def loose_piece_advice(positions: Array, pieces: NDArray[np.int64]) -> list[str]:
    """Return a sentence about pieces that nothing joins to the largest one, none if there are none."""
    sizes = np.bincount(pieces)
    if len(sizes) == 1:
        return []
    first = np.unique(pieces, return_index=True)[1]
    smaller = np.flatnonzero(np.arange(len(sizes)) != sizes.argmax())
    shown = [f"{sizes[k]} at {positions[first[k]].round(4).tolist()}" for k in smaller[:4]]
    more = f" and {len(smaller) - 4} more" if len(smaller) > 4 else ""
    return [
        f"{len(sizes)} pieces move on their own: besides the largest one there are particles "
        f"{', '.join(shown)}{more}. Join them by editing.connect(across=True) or from_mesh(tie=True)"
    ]
