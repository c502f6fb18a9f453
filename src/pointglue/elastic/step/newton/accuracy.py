"""How far a Newton step goes, compared with what is allowed of a step that has converged."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array
from ...model.solver_model import SolverModel
from ..linear_system import LinearSystem

__all__ = ["RIGID_SPEED", "SOFT_SPEED", "Accuracy", "BodySizes", "Move"]

# 1/s: by default a step with contact has converged when no soft and no rigid body moves faster than this
# times the size of what it holds together with, in the mean over its points. Half a second of cloth on a ball
# is then within 0.07 % of its size of the converged motion, and twice the speed is not within 0.1 %; cloth
# that is softer goes on for dozens of Newton steps, and as far apart as from starts that differ by a
# micrometre. Rigid bodies that slide with friction are seen to go too far.
SOFT_SPEED, RIGID_SPEED = 1e-2, 1e-3


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

    def speeds(self, system: LinearSystem) -> Array:
        """Return the speeds of bodies that are allowed by default [m/s].

        A button is looked at with its shirt: bodies that glue or joints hold together count by the largest
        of them, and as soft ones if any of them is soft.
        """
        dofs, parts = system.dofs, system.parts
        body = self.of_nodes(system)
        number = int(parts.max(initial=-1)) + 1
        longest, soft = np.zeros(number), np.zeros(number, np.bool_)
        np.maximum.at(longest, parts, self.lengths[body])
        soft[parts[: len(dofs.particles)]] = True
        speeds = RIGID_SPEED * self.lengths
        np.maximum.at(speeds, body, np.where(soft, SOFT_SPEED, RIGID_SPEED)[parts] * longest[parts])
        return speeds

    def of_nodes(self, system: LinearSystem) -> NDArray[np.int64]:
        """Return the number of each node's body."""
        dofs = system.dofs
        rigid = np.repeat(self.of_rigid[dofs.bodies], 2)
        return np.concatenate([self.of_particles[dofs.particles], rigid])


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
        body's points may be that of `BodySizes.speeds`.
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
        speeds = np.maximum(sizes.speeds(system), rounding)
        self._body = sizes.of_nodes(system)
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
