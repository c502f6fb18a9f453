"""How far a Newton step goes, compared with what is allowed of a step that has converged."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ..model.solver_model import SolverModel
from .linear_system import LinearSystem

__all__ = ["RIGID_SPEED", "SOFT_SPEED", "Accuracy", "BodySizes", "Move"]

# 1/s: by default a step with contact has converged when no soft and no rigid body moves faster than this
# times its own size, in the mean over its points. Cloth that buckles goes on for dozens of Newton steps that
# nobody would see; rigid bodies that slide with friction are seen to go too far.
SOFT_SPEED, RIGID_SPEED = 5e-3, 1e-3


class BodySizes:
    """The size of each body, and which body each particle and each rigid body is.

    Parameters
    ----------
    model : SolverModel
        All bodies.
    """

    def __init__(self, model: SolverModel) -> None:
        self.of_particles: NDArray[np.int64] = np.zeros(len(model.rest), np.int64)
        """The number of each particle's body (N,), in the order of the bodies; any for those of joints."""
        sizes = []
        for number, rows in enumerate(model.rows.values()):
            self.of_particles[rows] = number
            sizes.append(np.linalg.norm(np.ptp(model.rest[rows], axis=0)))
        names = list(model.rows)
        self.of_rigid: NDArray[np.int64] = np.array(
            [names.index(body.name) for body in model.rigid], np.int64
        )
        """The number of each rigid body (B,) among all bodies."""
        self.lengths: Array = np.where(np.array(sizes) > 0, sizes, model.size)
        """The diagonals of the bodies' bounding boxes at rest [m]; of single points, the model's size."""
        self.speeds: Array = SOFT_SPEED * self.lengths
        """The speeds of bodies that are allowed by default [m/s]."""
        self.speeds[self.of_rigid] *= RIGID_SPEED / SOFT_SPEED


class Move(NamedTuple):
    """How far a Newton step goes."""

    worst: int
    """The node that moves most."""
    length: float
    """Its way [m], that of a particle or of a body's outermost point."""
    excess: float
    """The ratio of the step to what is allowed: a step of at most 1 has converged."""


class Accuracy:
    """What is allowed of a Newton step that has converged.

    Parameters
    ----------
    system : LinearSystem
        The unknowns.
    sizes : BodySizes
        The sizes of the bodies.
    duration : float
        The duration of the time step [s].
    tolerance : float or None
        The speed that no point may exceed [m/s]. If it is None, the root mean square of the speeds of each
        body's points may be SOFT_SPEED or RIGID_SPEED times the diagonal of its bounding box at rest.
    rounding : float
        The speed that is rounding of the coordinates [m/s].
    """

    def __init__(
        self,
        system: LinearSystem,
        sizes: BodySizes,
        duration: float,
        tolerance: float | None,
        rounding: float,
    ) -> None:
        dofs = system.dofs
        self.duration = duration
        self._free, self._radii = len(dofs.particles), system.model.radii[dofs.bodies]
        self._allowed: float | Array
        self._body: NDArray[np.int64] | None = None
        if tolerance is not None:
            self._allowed = duration * max(tolerance, rounding)
            return
        speeds = np.maximum(sizes.speeds, rounding)
        self._body = np.concatenate(
            [sizes.of_particles[dofs.particles], np.repeat(sizes.of_rigid[dofs.bodies], 2)]
        )
        self._count = np.maximum(np.bincount(self._body, minlength=len(speeds)), 1)
        self._allowed = duration * speeds

    def measure(self, step: Array) -> Move:
        """Return how far a step (nodes, 3) goes."""
        with np.errstate(over="ignore"):  # a step that is not finite is an error with a name
            lengths = np.linalg.norm(step, axis=1)
            lengths[self._free + 1 :: 2] *= self._radii
            worst = int(lengths.argmax())
            if self._body is None:
                return Move(worst, float(lengths[worst]), float(lengths[worst] / self._allowed))
            square = np.bincount(self._body, lengths**2, len(self._count)) / self._count
            return Move(worst, float(lengths[worst]), float((np.sqrt(square) / self._allowed).max()))
