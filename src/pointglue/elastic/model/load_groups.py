"""Which particles tell the load of each bond and joint, and how their forces add up."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...checks import Array

__all__ = ["LoadGroups"]


@dataclass(frozen=True, eq=False)
class LoadGroups:
    """The G bonds and joints of a model as groups of particles, whose loads are forces on the first body.

    Parameters
    ----------
    bond_of : (G,)
        The row of each group's bond in `SolverModel.bonds`.
    joint_of : (G,)
        The joint of each group, counted through all joints, or -1 for glue.
    group_of : (k,)
        The group of each particle below, ascending.
    particles : (k,)
        The points that glue eliminates, and the particles of the second side of everything else.
    """

    bond_of: NDArray[np.int64]
    joint_of: NDArray[np.int64]
    group_of: NDArray[np.int64]
    particles: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self.bond_of)

    def totals(self, x: Array, forces: Array) -> tuple[Array, Array, Array]:
        """Return where each group acts, its force and its torque about that.

        Parameters
        ----------
        x : (N, 3)
            Where the particles are [m].
        forces : (N, 3)
            The loads of the particles [N].

        Returns
        -------
        position : (G, 3)
            The first particle of a joint, the centroid of the points of a bond [m].
        force : (G, 3)
            The sum of the forces [N].
        torque : (G, 3)
            Their torque about the position [N m].
        """
        count, of, rows = len(self), self.group_of, self.particles
        sizes = np.bincount(of, minlength=count)[:, None]
        position = _sums(x[rows], of, count) / np.maximum(sizes, 1)
        of_joints = self.joint_of >= 0
        position[of_joints] = x[rows[np.searchsorted(of, np.flatnonzero(of_joints))]]
        force = _sums(forces[rows], of, count)
        torque = _sums(np.cross(x[rows] - position[of], forces[rows]), of, count)
        return position, force, torque

    def largest(self, forces: Array) -> Array:
        """Return the largest force at one particle of each group (G,) [N]."""
        out = np.zeros(len(self))
        np.maximum.at(out, self.group_of, np.linalg.norm(forces[self.particles], axis=1))
        return out


def _sums(rows: Array, group_of: NDArray[np.int64], count: int) -> Array:
    """Return the sums (count, 3) of rows by their group."""
    out = np.zeros((count, 3))
    np.add.at(out, group_of, rows)
    return out
