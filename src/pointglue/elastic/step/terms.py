"""The energies that a step minimises, each with the particles that it is of."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import Array
from ...glue import Springs
from ...procrustes import Groups
from ..energies.base import Energy
from ..linalg.blocks import Stencils

__all__ = ["GlueSprings", "Term", "energy_at", "shifted_stencils"]


class GlueSprings:
    """The springs of glue as an energy with damping.

    Parameters
    ----------
    springs : Springs
        The springs.
    active : (S,)
        Which of them act.
    """

    def __init__(self, springs: Springs, active: NDArray[np.bool_]) -> None:
        self.springs, self.active = springs, active
        self.stencils: Stencils = np.stack([springs.first, springs.second], axis=1)
        self.damped = bool(springs.damping.any())

    def value(self, x: ArrayLike) -> float:
        """Return the energy [J]."""
        return self.springs.value(x, self.active)

    def gradient(self, x: ArrayLike) -> Array:
        """Return the derivative by the particles (N, 3) [N]."""
        return self.springs.gradient(x, self.active)

    def elements(self, x: ArrayLike, *, project: bool = False, out: Array | None = None) -> Array:
        """Return the Hessians (S, 6, 6) [N/m], which are semidefinite anyway."""
        return self._pairs(self.springs.stiffness)

    def rate_gradient(self, x: ArrayLike, v: ArrayLike) -> Array:
        """Return the derivative of the damping potential by the velocities (N, 3) [N]."""
        at_rest = np.zeros_like(np.asarray(v))
        return -self.springs.forces(at_rest, v, self.active)

    def rate_elements(self, x: ArrayLike, v: ArrayLike, *, symmetric: bool = False) -> tuple[Array, Array]:
        """Return the derivatives of `rate_gradient` by x, which are zero, and by v [N/m, N s/m]."""
        by_v = self._pairs(self.springs.damping)
        return np.zeros_like(by_v), by_v

    def _pairs(self, values: Array) -> Array:
        """Return the matrices [[k, -k], [-k, k]] (S, 6, 6) of numbers k (S,) of the active springs."""
        signs = np.kron([[1.0, -1.0], [-1.0, 1.0]], np.eye(3))
        return np.asarray(np.where(self.active, values, 0.0)[:, None, None] * signs)


@dataclass(frozen=True, eq=False)
class Term:
    """An energy, and the rows of the particles that it is of."""

    energy: Any
    rows: slice

    @cached_property
    def damped(self) -> bool:
        """Whether it has damping."""
        return bool(getattr(self.energy, "damped", False))

    @cached_property
    def predicts(self) -> bool:
        """Whether it can foresee the stress of a linear step, see `ClothEnergy.predict`."""
        return callable(getattr(self.energy, "predict", None))


def shifted_stencils(stencils: Stencils, offset: int) -> Stencils:
    """Return the stencils of a body's energy in rows of all particles."""
    if isinstance(stencils, Groups):
        return Groups(stencils.offsets, stencils.indices + offset)
    return np.asarray(stencils + offset)


def energy_at(energy: Any, time: float) -> Energy:
    """Return the energy itself, or the one that a function of the time [s] returns."""
    given: Energy = energy if hasattr(energy, "stencils") else energy(time)
    return given
