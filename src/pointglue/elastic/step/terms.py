"""The energies that a step minimises, each with the particles that it is of."""

from dataclasses import dataclass, replace
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
        return self.pairs(self.springs.stiffness)

    def dissipation(
        self, slope: float, x: ArrayLike, past: ArrayLike | None = None, extrapolation: float = 0.0
    ) -> "GlueDissipation":
        """Return the potential of the damping forces of one step, see `Damped.dissipation`."""
        reference = np.asarray(x)
        if past is not None:
            reference = reference + extrapolation * (reference - np.asarray(past))
        return GlueDissipation(self, slope, reference)

    def pairs(self, values: Array) -> Array:
        """Return the matrices [[k, -k], [-k, k]] (S, 6, 6) of numbers k (S,) of the active springs."""
        signs = np.kron([[1.0, -1.0], [-1.0, 1.0]], np.eye(3))
        return np.asarray(np.where(self.active, values, 0.0)[:, None, None] * signs)


class GlueDissipation:
    """The damping of springs of glue in one step, c slope / 2 ``|gap - gap of the reference|^2``.

    Parameters
    ----------
    springs : GlueSprings
        The springs.
    slope : float
        The derivative of velocities by positions [1/s].
    reference : (N, 3)
        Where the particles are that velocities are told from [m].
    """

    def __init__(self, springs: GlueSprings, slope: float, reference: Array) -> None:
        self.springs, self.slope, self.reference = springs, slope, reference
        self.stencils = springs.stencils

    def value(self, x: ArrayLike) -> float:
        """Return the potential [J]."""
        return float(0.5 * np.sum(self.gradient(x) * (np.asarray(x) - self.reference)))

    def gradient(self, x: ArrayLike) -> Array:
        """Return the derivative by the particles (N, 3) [N]."""
        v = self.slope * (np.asarray(x) - self.reference)
        return -self.springs.springs.forces(np.zeros_like(v), v, self.springs.active)

    def elements(self, x: ArrayLike, *, project: bool = False, out: Array | None = None) -> Array:
        """Return the Hessians (S, 6, 6) [N/m], which are semidefinite anyway."""
        return self.springs.pairs(self.slope * self.springs.springs.damping)


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
