"""Springs of glue as energies, with damping of the gap as the frame of the bound point sees it."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import Array
from ...glue import Springs
from ..linalg.blocks import Stencils
from ..model.spring_frames import FRAME_POINTS, SpringFrames

__all__ = ["GlueDampers", "GlueDissipation", "GlueSprings"]


class GlueSprings:
    """The energy k/2 |u|^2 of springs of glue, u being the gap from a bound point to its particle.

    Their damping resists changes of R^T u, with R the rotation of the bound point's frame, so that nothing is
    damped which moves rigidly: the reaction on the frame has the torque of the gap.

    Parameters
    ----------
    springs : Springs
        The springs.
    frames : SpringFrames
        The points that tell the frames of those that are damped.
    active : (S,)
        Which of them act.
    """

    def __init__(self, springs: Springs, frames: SpringFrames, active: NDArray[np.bool_]) -> None:
        self.springs, self.frames, self.active = springs, frames, active
        self.stencils: Stencils = np.stack([springs.first, springs.second], axis=1)

    def value(self, x: ArrayLike) -> float:
        """Return the energy [J]."""
        return self.springs.value(x, self.active)

    def gradient(self, x: ArrayLike) -> Array:
        """Return the derivative by the particles (N, 3) [N]."""
        return self.springs.gradient(x, self.active)

    def elements(self, x: ArrayLike, *, project: bool = False, out: Array | None = None) -> Array:
        """Return the Hessians (S, 6, 6) [N/m], which are semidefinite anyway."""
        signs = np.kron([[1.0, -1.0], [-1.0, 1.0]], np.eye(3))
        return np.asarray(np.where(self.active, self.springs.stiffness, 0.0)[:, None, None] * signs)

    def dampers(self) -> "GlueDampers":
        """Return the damped ones of them as an energy that has damping alone."""
        return GlueDampers(self)

    def tensions(self, x: Array, dampers: "GlueDissipation | None") -> Array:
        """Return the force of each spring on its particle (S, 3) [N], that of its damping included."""
        tension = -np.where(self.active, self.springs.stiffness, 0.0)[:, None] * (
            x[self.springs.first] - x[self.springs.second]
        )
        if dampers is not None:
            tension[self.frames.springs] -= dampers.pulls(x)
        return np.asarray(tension)


class GlueDampers:
    """The dampers of springs of glue: an energy of no value, whose dissipation is that of the springs.

    Parameters
    ----------
    springs : GlueSprings
        The springs that they belong to.
    """

    damped = True

    def __init__(self, springs: GlueSprings) -> None:
        frames = springs.frames
        ends = (springs.springs.first[frames.springs], springs.springs.second[frames.springs])
        self.frames = frames
        self.damping = np.where(springs.active, springs.springs.damping, 0.0)[frames.springs]
        self.stencils: Stencils = np.column_stack([*ends, frames.points])

    def value(self, x: ArrayLike) -> float:
        """Return 0 [J]."""
        return 0.0

    def gradient(self, x: ArrayLike) -> Array:
        """Return zeros (N, 3) [N]."""
        return np.zeros_like(np.asarray(x))

    def elements(self, x: ArrayLike, *, project: bool = False, out: Array | None = None) -> Array:
        """Return zeros (S, 18, 18) [N/m]."""
        return np.zeros((len(self.damping), 18, 18))

    def offsets(self, x: Array) -> Array:
        """Return the gaps as their frames see them, R^T u (S, 3) [m]."""
        stencils = np.asarray(self.stencils)
        gaps = x[stencils[:, 0]] - x[stencils[:, 1]]
        # R = sum f_k v_k^T / reach, since the directions v_k of the frame's points f_k sum up to nothing.
        rotations = (
            np.einsum("ski,kj->sij", x[stencils[:, 2:]], FRAME_POINTS) / self.frames.reach[:, None, None]
        )
        return np.asarray(np.einsum("sij,si->sj", rotations, gaps))

    def dissipation(
        self, slope: float, x: ArrayLike, past: ArrayLike | None = None, extrapolation: float = 0.0
    ) -> "GlueDissipation":
        """Return the potential of the damping forces of one step, see `Damped.dissipation`."""
        reference = self.offsets(np.asarray(x))
        if past is not None:
            reference = reference + extrapolation * (reference - self.offsets(np.asarray(past)))
        return GlueDissipation(self, slope, reference)


class GlueDissipation:
    """The damping of springs of glue in one step, c slope / 2 ``|u - R e|^2`` with e of the reference.

    It is quadratic: R e is a fixed sum of the points of the frame.

    Parameters
    ----------
    dampers : GlueDampers
        The dampers.
    slope : float
        The derivative of velocities by positions [1/s].
    reference : (S, 3)
        The gaps e that rates are told from, as their frames see them [m].
    """

    def __init__(self, dampers: GlueDampers, slope: float, reference: Array) -> None:
        self.stencils = dampers.stencils
        shares = reference @ FRAME_POINTS.T / dampers.frames.reach[:, None]
        ones = np.ones((len(reference), 1))
        self._weights = np.hstack([ones, -ones, -shares])
        self._stiffness = slope * dampers.damping

    def pulls(self, x: Array) -> Array:
        """Return the derivative by the particle of each spring (S, 3) [N], minus the force on it."""
        left = np.einsum("sk,ski->si", self._weights, x[np.asarray(self.stencils)])
        return np.asarray(self._stiffness[:, None] * left)

    def value(self, x: ArrayLike) -> float:
        """Return the potential [J]."""
        left = np.einsum("sk,ski->si", self._weights, np.asarray(x)[np.asarray(self.stencils)])
        return float(0.5 * np.sum(self._stiffness * (left**2).sum(1)))

    def gradient(self, x: ArrayLike) -> Array:
        """Return the derivative by the particles (N, 3) [N]."""
        points = np.asarray(x)
        out = np.zeros_like(points)
        np.add.at(out, np.asarray(self.stencils), self._weights[:, :, None] * self.pulls(points)[:, None, :])
        return out

    def elements(self, x: ArrayLike, *, project: bool = False, out: Array | None = None) -> Array:
        """Return the Hessians (S, 18, 18) [N/m], which are semidefinite anyway."""
        w = self._weights
        blocks = self._stiffness[:, None, None] * w[:, :, None] * w[:, None, :]
        each: Any = np.einsum("sab,ij->saibj", blocks, np.eye(3))
        return np.asarray(each.reshape(len(w), 18, 18))
