"""Functions of the points of joints, with exact derivatives: products of differences, and angles."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..checks import Array

__all__ = ["AxisAngles", "PairProducts"]

# How the differences of a function's points follow from the points: a - b and head - tail of a product, ...
_PRODUCT_DIFFERENCES = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
# ... and v, w of the one side and v of the other, from their tips and the two places, of an angle.
_ANGLE_DIFFERENCES = np.array(
    [[-1.0, 1.0, 0.0, 0.0, 0.0], [-1.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, -1.0, 1.0]]
)


@dataclass(frozen=True, eq=False)
class PairProducts:
    """M functions (x[a] - x[b]) . (x[head] - x[tail]) / reach of points x, in metres.

    A distance along a direction that moves with the points: the direction is spanned by head and tail.

    Parameters
    ----------
    stencils : (M, 4)
        The points a, b, head and tail of each; they may repeat.
    reach : (M,)
        The distance of head and tail [m].
    """

    stencils: NDArray[np.int64]
    reach: Array

    def __len__(self) -> int:
        """Return the number of functions."""
        return len(self.stencils)

    def values(self, x: Array) -> Array:
        """Return the values (M,) at points x (N, 3) [m]."""
        difference, span = np.swapaxes(self._differences(x), 0, 1)
        return np.asarray((difference * span).sum(1) / self.reach)

    def gradients(self, x: Array) -> Array:
        """Return the derivatives (M, 4, 3) by the points of each stencil, at points x (N, 3) [1]."""
        swapped = self._differences(x)[:, ::-1] / self.reach[:, None, None]
        return np.asarray(np.einsum("kp,mki->mpi", _PRODUCT_DIFFERENCES, swapped))

    def elements(self, x: Array, multipliers: Array) -> Array:
        """Return the Hessians (M, 12, 12) of multipliers (M,) times the functions, at points x (N, 3)."""
        one, other = _PRODUCT_DIFFERENCES
        pairs = np.outer(one, other) + np.outer(other, one)
        return np.asarray((multipliers / self.reach)[:, None, None] * np.kron(pairs, np.eye(3)))

    def _differences(self, x: Array) -> Array:
        """Return x[a] - x[b] and x[head] - x[tail] of each (M, 2, 3) [m]."""
        points = x[self.stencils]
        return np.asarray(points[:, ::2] - points[:, 1::2])


@dataclass(frozen=True, eq=False)
class AxisAngles:
    """A functions reach * angle of points x, in metres: by how much a frame is turned about the first axis.

    With v, w the second and third axis of the one frame and v' that of the other, all across one common
    first axis, v' = cos(angle) v - sin(angle) w.

    Parameters
    ----------
    stencils : (A, 5)
        Place, tip of v and tip of w of the one side, place and tip of v' of the other.
    reach : (A,)
        The distance of the tips from the places [m], by which the angle is multiplied.
    """

    stencils: NDArray[np.int64]
    reach: Array

    def __len__(self) -> int:
        """Return the number of functions."""
        return len(self.stencils)

    def values(self, x: Array) -> Array:
        """Return the values (A,) at points x (N, 3), of angles from -pi to pi [m]."""
        v, w, other = self._differences(x)
        return np.asarray(self.reach * np.arctan2(-(w * other).sum(1), (v * other).sum(1)))

    def gradients(self, x: Array) -> Array:
        """Return the derivatives (A, 5, 3) by the points of each stencil, at points x (N, 3) [1]."""
        sine, cosine, by_sine, by_cosine = self._parts(x)
        square = sine**2 + cosine**2
        by_axes = (cosine / square)[:, None] * by_sine - (sine / square)[:, None] * by_cosine
        by_points = np.einsum("kp,aki->api", _ANGLE_DIFFERENCES, by_axes.reshape(-1, 3, 3))
        return np.asarray(self.reach[:, None, None] * by_points)

    def elements(self, x: Array, multipliers: Array) -> Array:
        """Return the Hessians (A, 15, 15) of multipliers (A,) times the functions, at points x (N, 3)."""
        sine, cosine, by_sine, by_cosine = self._parts(x)
        square = sine**2 + cosine**2
        twice = (2 * sine * cosine / square**2)[:, None, None]
        across = ((sine**2 - cosine**2) / square**2)[:, None, None]
        mixed = by_sine[:, :, None] * by_cosine[:, None, :]
        H = twice * (
            by_cosine[:, :, None] * by_cosine[:, None, :] - by_sine[:, :, None] * by_sine[:, None, :]
        )
        H += across * (mixed + np.swapaxes(mixed, 1, 2))
        # The sine is -w . v', the cosine v . v'; both are bilinear.
        of_sine, of_cosine = np.zeros((3, 3)), np.zeros((3, 3))
        of_sine[1, 2] = of_sine[2, 1] = -1.0
        of_cosine[0, 2] = of_cosine[2, 0] = 1.0
        H += (cosine / square)[:, None, None] * np.kron(of_sine, np.eye(3))
        H -= (sine / square)[:, None, None] * np.kron(of_cosine, np.eye(3))
        spread = np.kron(_ANGLE_DIFFERENCES, np.eye(3))
        return np.asarray((multipliers * self.reach)[:, None, None] * (spread.T @ H @ spread))

    def _differences(self, x: Array) -> tuple[Array, Array, Array]:
        """Return v and w of the one side and v' of the other (A, 3) [m]."""
        place, v, w, other_place, other = np.swapaxes(x[self.stencils], 0, 1)
        return v - place, w - place, other - other_place

    def _parts(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """Return sine and cosine, both times the squared reach, and their derivatives by v, w, v' (A, 9)."""
        v, w, other = self._differences(x)
        nothing = np.zeros_like(v)
        by_sine, by_cosine = np.hstack([nothing, -other, -w]), np.hstack([other, nothing, v])
        return -(w * other).sum(1), (v * other).sum(1), by_sine, by_cosine
