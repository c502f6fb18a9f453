"""The energies that a step minimises, each with the particles that it is of."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...checks import Array
from ...procrustes import Groups
from ..energies.base import Energy
from ..linalg.blocks import Stencils

__all__ = ["Term", "energy_at", "shifted_stencils"]


@dataclass(frozen=True, eq=False)
class Term:
    """An energy, the rows of the particles that it is of, and the potential of its damping in this step.

    Parameters
    ----------
    energy : Energy
        The energy.
    rows : slice
        The rows of its particles among all.
    dissipation : Energy, optional
        The potential of its damping, of the same stencils.
    """

    energy: Any
    rows: slice
    dissipation: Any = None

    @cached_property
    def parts(self) -> tuple[Any, ...]:
        """The energy, and the potential of its damping if there is any."""
        return (self.energy,) if self.dissipation is None else (self.energy, self.dissipation)

    def damped(
        self, slope: float, x: ArrayLike, past: ArrayLike | None = None, extrapolation: float = 0.0
    ) -> "Term":
        """Return the term with the damping of one step, see `Damped.dissipation`; x and past are (N, 3)."""
        if not getattr(self.energy, "damped", False):
            return self
        before = None if past is None else np.asarray(past)[self.rows]
        potential = self.energy.dissipation(slope, np.asarray(x)[self.rows], before, extrapolation)
        return replace(self, dissipation=potential)

    def value(self, x: Array) -> float:
        """Return the sum of the energy and its damping [J] at all particles x (N, 3) [m]."""
        return sum(float(part.value(x[self.rows])) for part in self.parts)

    def gradient(self, x: Array) -> Array:
        """Return the derivative by the particles of `rows` (n, 3) [N]."""
        return np.asarray(sum(part.gradient(x[self.rows]) for part in self.parts))

    def elements(self, x: Array, before: Array | None, *, project: bool) -> Array:
        """Return the element Hessians [N/m].

        With the particles `before` the last Newton step, energies that can foresee the stress of a linear
        step do so, see `ClothEnergy.predict`.
        """
        out = None
        for part in self.parts:
            each = part.elements(x[self.rows], project=project)
            if before is not None and not project and callable(getattr(part, "predict", None)):
                part.predict(x[self.rows], before[self.rows], each)
            out = each if out is None else out + each
        return np.asarray(out)


def shifted_stencils(stencils: Stencils, offset: int) -> Stencils:
    """Return the stencils of a body's energy in rows of all particles."""
    if isinstance(stencils, Groups):
        return Groups(stencils.offsets, stencils.indices + offset)
    return np.asarray(stencils + offset)


def energy_at(energy: Any, time: float) -> Energy:
    """Return the energy itself, or the one that a function of the time [s] returns."""
    given: Energy = energy if hasattr(energy, "stencils") else energy(time)
    return given
