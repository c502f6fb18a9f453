"""What contacts do to an elastic piece while it is relaxed."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array

__all__ = ["Held", "Holds"]

Integers = NDArray[np.int64]


class Held(NamedTuple):
    """Particles that something resists to move, besides the piece itself."""

    particles: Integers
    """(k,), as numbers within the piece."""
    stiffness: Array
    """(k, 3, 3), in the frames of the particles, kg."""


@dataclass(frozen=True)
class Holds:
    """What contacts do to a piece while it is relaxed: impulses that give way when they turn out too large.

    A contact with the normal impulse l and the stiffness b has the energy b/2 max(0, level + l/b - n x)^2, of
    which the force is l at the level and vanishes soon beyond it (an augmented Lagrangian). Friction is the
    same across the normal, from where the particle would be without slip, up to Coulomb's bound.
    """

    particles: Integers
    """(t,), held particles, as numbers within the piece."""
    slots: Integers
    """(k,), which of them each contact is of."""
    normals: Array
    """(k, 3)."""
    levels: Array
    """(k,), m."""
    pushes: Array
    """(k,), normal impulses, kg m."""
    anchors: Array
    """(k, 3), m."""
    drags: Array
    """(k, 3), tangential impulses, kg m."""
    bounds: Array
    """(k,), the largest tangential impulse, kg m."""
    gains: Array
    """(k, 2), stiffness along and across the normal, kg."""

    def impulses(self, x: Array) -> tuple[Array, Array, Array]:
        """Return the normal (k,) and tangential (k, 3) impulses for positions (t, 3), and which slip (k,)."""
        at = x[self.slots]
        along = self.pushes + self.gains[:, 0] * (self.levels - (self.normals * at).sum(1))
        slip = at - self.anchors
        slip -= (self.normals * slip).sum(1)[:, None] * self.normals
        across = self.drags - self.gains[:, 1:] * slip
        length = np.linalg.norm(across, axis=1)
        slips = length > self.bounds
        across[slips] *= (self.bounds[slips] / length[slips])[:, None]
        return np.maximum(0.0, along), across, slips

    def evaluate(self, x: Array) -> tuple[float, Array]:
        """Return the energy, and the impulses (t, 3) on the held particles."""
        along, across, slips = self.impulses(x)
        energy = 0.5 * (along**2 / self.gains[:, 0]).sum()
        b = self.gains[:, 1]
        slip = x[self.slots] - self.anchors
        slip -= (self.normals * slip).sum(1)[:, None] * self.normals
        wanted = np.linalg.norm(self.drags - b[:, None] * slip, axis=1)
        energy += np.where(slips, self.bounds * (wanted - 0.5 * self.bounds), 0.5 * wanted**2).dot(1 / b)
        total = np.zeros((len(self.particles), 3))
        np.add.at(total, self.slots, along[:, None] * self.normals + across)
        return float(energy), total

    def stiffness(self, x: Array) -> Array:
        """Return the Hessian blocks (t, 3, 3) of the energy; what slips resists no more."""
        along, _, slips = self.impulses(x)
        outer = self.normals[:, :, None] * self.normals[:, None, :]
        across = np.where(slips, 0.0, self.gains[:, 1])
        blocks = (along > 0)[:, None, None] * self.gains[:, :1, None] * outer
        blocks = blocks + across[:, None, None] * (np.eye(3) - outer)
        total = np.zeros((len(self.particles), 3, 3))
        np.add.at(total, self.slots, blocks)
        return total
