"""Sliding glue: a point of one body that may move along a curve of another, as a ring on a rope."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline

from ..checks import Array, as_reals, check_rows, require_finite
from ..errors import InputError
from ..procrustes.matrices import OnDegenerate
from ..procrustes.space import perpendiculars
from .glue import Glue
from .gluing import bind_glue

__all__ = ["CurveFrame", "CurveRows", "Slider", "bind_slider"]

SEARCH_SAMPLES = 8  # places between two points of a path at which the search for the nearest one looks
MAX_PROJECTIONS = 30  # iterations of a search along the curve, which converges quadratically
LAST_PROJECTION = 1e-10  # ratio of the curve's length: after a step as small, a search is at rounding


@dataclass(frozen=True, eq=False)
class Slider:
    """A point of one body on a smooth curve through places of another, made by :func:`bind_slider`.

    The curve is the natural cubic spline through the places, over the length of the polyline at rest: its
    weights change smoothly, with two derivatives, as the point passes from place to place.

    Attributes
    ----------
    first : Glue
        The point, bound to the first side.
    second : Glue
        The places of the path, bound to the second side.
    knots : (n,)
        The length of the polyline at rest up to each place [m].
    start : float
        The length at which the point is at rest [m].
    reach : (1,)
        The length of the path [m].
    """

    first: Glue
    second: Glue
    knots: Array
    start: float

    kind = "curve"

    def __len__(self) -> int:
        """Return the number of joints, which is one."""
        return 1

    @property
    def reach(self) -> Array:
        """The length of the path (1,) [m]."""
        return self.knots[-1:]


@dataclass(frozen=True)
class CurveFrame:
    """Where a slider is at the beginning of a step.

    Parameters
    ----------
    length : float
        The length along the curve at rest [m].
    axes : (3, 3)
        Orthogonal directions in rows, of which the first is along the curve [1].
    """

    length: float
    axes: Array


@dataclass(frozen=True, eq=False)
class CurveRows:
    """The rows of one slider, in metres: two equations, and the length s that it has come along its curve.

    With the curve X(s, y) = sum N_i(s) y_i through points y and constant directions t, n, n', s is where
    t . (x - X(s, y)) = 0 for the point x, and the equations are n . (x - X) = 0 and n' . (x - X) = 0.
    So together x = X(s, y), without s as an unknown.

    Parameters
    ----------
    stencil : (1 + n,)
        The slider's point, then those of the curve.
    knots : (n,)
        The lengths at rest at the points of the curve [m].
    """

    stencil: NDArray[np.int64]
    knots: Array

    @cached_property
    def _spline(self) -> CubicSpline:
        return CubicSpline(self.knots, np.eye(len(self.knots)), bc_type="natural")

    def weights(self, s: float) -> tuple[Array, Array, Array]:
        """Return the weights N(s) (n,) and two derivatives; beyond its ends the curve is straight."""
        end = float(np.clip(s, self.knots[0], self.knots[-1]))
        values, slopes, bends = (np.asarray(self._spline(end, k)) for k in range(3))
        if end != s:
            return values + (s - end) * slopes, slopes, np.zeros_like(bends)
        return values, slopes, bends

    def nearest(self, x: Array) -> CurveFrame:
        """Return the place of the curve that is nearest to the slider's point, with particles at x (N, 3)."""
        point, y = x[self.stencil[0]], x[self.stencil[1:]]
        steps = np.arange(SEARCH_SAMPLES) / SEARCH_SAMPLES
        between = self.knots[:-1, None] + np.diff(self.knots)[:, None] * steps
        samples = np.append(between.ravel(), self.knots[-1])
        s = float(samples[np.linalg.norm(self._spline(samples) @ y - point, axis=1).argmin()])
        for _ in range(MAX_PROJECTIONS):
            N, slopes, bends = self.weights(s)
            along, bend, off = slopes @ y, bends @ y, point - N @ y
            change = (along @ off) / max(along @ along - bend @ off, 0.5 * along @ along)
            s += change
            if abs(change) <= LAST_PROJECTION * self.knots[-1]:
                break
        t = self.weights(s)[1] @ y
        t = t / np.linalg.norm(t)
        n = perpendiculars(t[None])[0]
        n = n / np.linalg.norm(n)
        return CurveFrame(s, np.stack([t, n, np.cross(t, n)]))

    def values(self, x: Array, frame: CurveFrame) -> Array:
        """Return both equations and the length (3,) [m] at particles x (N, 3)."""
        s = self._length(x, frame)
        off = x[self.stencil[0]] - self.weights(s)[0] @ x[self.stencil[1:]]
        return np.array([*(frame.axes[1:] @ off), s])

    def gradients(self, x: Array, frame: CurveFrame) -> Array:
        """Return the derivatives (3, 1 + n, 3) of the rows by the points of the stencil [1]."""
        s = self._length(x, frame)
        spread, _ = self._spreads(s)
        return np.asarray(self._normals(x, frame, s)[:, None, :] * spread[:, None])

    def elements(self, x: Array, frame: CurveFrame, multipliers: Array) -> Array:
        """Return the Hessian (3 + 3 n, 3 + 3 n) of multipliers (3,) times the rows [N/m]."""
        s = self._length(x, frame)
        spread, slopes = self._spreads(s)
        y, t = x[self.stencil[1:]], frame.axes[0]
        _, first, second = self.weights(s)
        m = multipliers @ self._normals(x, frame, s)
        by_s = np.outer(spread, t / (t @ (first @ y))).ravel()  # ds
        by_slope = np.outer(slopes, m).ravel()  # m . (sum N_i' dy_i)
        crossed = np.outer(by_s, by_slope)
        return np.asarray(-crossed - crossed.T - (m @ (second @ y)) * np.outer(by_s, by_s))

    def _spreads(self, s: float) -> tuple[Array, Array]:
        """Return the factors (1 + n,) of the points in x - X, and in the change of X by s."""
        N, slopes, _ = self.weights(s)
        return np.concatenate([[1.0], -N]), np.concatenate([[0.0], slopes])

    def _normals(self, x: Array, frame: CurveFrame, s: float) -> Array:
        """Return the derivatives (3, 3) of the rows by x - X, with what s does to it."""
        t, along = frame.axes[0], self.weights(s)[1] @ x[self.stencil[1:]]
        tilts = (frame.axes[1:] @ along) / (t @ along)
        return np.concatenate([frame.axes[1:] - tilts[:, None] * t, t[None] / (t @ along)])

    def _length(self, x: Array, frame: CurveFrame) -> float:
        """Return where the curve meets the plane through the slider's point, near where it was [m]."""
        point, y, t, s = x[self.stencil[0]], x[self.stencil[1:]], frame.axes[0], frame.length
        for _ in range(MAX_PROJECTIONS):
            N, slopes, _ = self.weights(s)
            rate = t @ (slopes @ y)
            if (
                not rate > 0
            ):  # the curve has turned over: wherever the plane is met now, it is far from closed
                break
            change = t @ (point - N @ y) / rate
            s += change
            if abs(change) <= LAST_PROJECTION * self.knots[-1]:
                break
        return float(s)


def bind_slider(
    first_rest: ArrayLike,
    second_rest: ArrayLike,
    at: ArrayLike,
    path: ArrayLike,
    *,
    parents: int = 8,
    among: ArrayLike | None = None,
    on_degenerate: OnDegenerate = "raise",
) -> Slider:
    """Let a point of one object slide along a curve of another, given by their points at rest.

    Parameters
    ----------
    first_rest : (N, 3)
        Points of the object that slides, at rest [m].
    second_rest : (M, 3)
        Points of the object that it slides along, at rest [m].
    at : (3,)
        Where it slides [m]; the place of the curve that is nearest to it is bound to the first object.
    path : (n, 3)
        Places on the second object through which the curve goes, in order [m].
    parents : int
        How many of the nearest points of either object are parents.
    among : (m,), optional
        The points of the second object that may be parents at all.
    on_degenerate : {"raise", "clamp"}
        What happens when parents collapse later on, as in :func:`~pointglue.fit_rigid`.

    Returns
    -------
    Slider
        The slider, which is on its curve at rest.

    Raises
    ------
    InputError
        If the arguments do not go together, or places of the path coincide.
    DegenerateFitError
        If the parents of a place lie on a line at rest.
    """
    places = check_rows("path", path)
    if len(places) < 2:
        raise InputError(f"path must have at least two places, got {len(places)}")
    lengths = np.linalg.norm(np.diff(places, axis=0), axis=1)
    if not (lengths > 0).all():
        raise InputError(f"path must go on from place to place, got place {int(lengths.argmin())} twice")
    point = as_reals("at", at).astype(np.float64)
    if point.shape != (3,):
        raise InputError(f"at must have shape (3,), got shape {point.shape}")
    require_finite("at", point)
    knots = np.concatenate([[0.0], np.cumsum(lengths)])
    rows = CurveRows(np.arange(1 + len(places)), knots)
    start = float(np.clip(rows.nearest(np.vstack([point, places])).length, 0.0, knots[-1]))
    target = rows.weights(start)[0] @ places
    first = bind_glue(first_rest, target[None], parents=parents, on_degenerate=on_degenerate)
    second = bind_glue(second_rest, places, parents=parents, among=among, on_degenerate=on_degenerate)
    return Slider(first, second, knots, start)
