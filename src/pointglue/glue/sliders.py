"""Sliding glue: a point of one body that may move along a curve or over a surface of another.

A ring on a rope slides along a curve, a button on a cloth over a surface. Both are splines through places of
the second body, of one parameter or of two; what is said of the d parameters holds for either.
"""

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, as_reals, check_flag, require_finite
from ..errors import DegenerateFitError, InputError
from ..procrustes.matrices import OnDegenerate
from ..procrustes.space import perpendiculars
from .glue import Glue
from .gluing import bind_glue

__all__ = ["Slider", "SliderFrame", "SliderRows", "SplineAxis", "bind_slider"]

SEARCH_SAMPLES = 8  # places between two points of a path at which the search for the nearest one looks
MAX_PROJECTIONS = 30  # iterations of a search along the path, which converges quadratically
LAST_PROJECTION = 1e-10  # ratio of the path's length: after a step as small, a search is at rounding
LEAST_CURVING = 0.5  # ratio of a search's second derivative to that of a straight path, at least
PARALLEL = 1e-9  # sine of the angle between the directions of a surface: with less it has no normal
METRIC_ROUNDING = 1e-15  # ratio of a metric's trace: added, it keeps one of parallel directions definite


@dataclass(frozen=True, eq=False)
class SplineAxis:
    """The weights of places along one direction: those of the natural or the periodic cubic spline.

    They change smoothly, with two derivatives, from place to place.

    Parameters
    ----------
    knots : (n,), or (n + 1,) if closed
        The length at rest up to each place, and then to the first one again [m].
    closed : bool
        Whether the last place is followed by the first, without ends.
    """

    knots: Array
    closed: bool = False

    def __len__(self) -> int:
        """Return the number of places."""
        return len(self.knots) - self.closed

    @property
    def length(self) -> float:
        """The length at rest [m]."""
        return float(self.knots[-1])

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest length that is still on the path [m]."""
        return (-np.inf, np.inf) if self.closed else (0.0, self.length)

    @cached_property
    def _spline(self) -> Any:
        from scipy.interpolate import CubicSpline  # not before it is needed: it takes a while to load

        values = np.eye(len(self))
        if self.closed:
            return CubicSpline(self.knots, np.vstack([values, values[:1]]), bc_type="periodic")
        return CubicSpline(self.knots, values, bc_type="natural")

    @cached_property
    def samples(self) -> tuple[Array, Array]:
        """Lengths (m,) all along the path [m], and the weights there (m, n)."""
        steps = np.arange(SEARCH_SAMPLES) / SEARCH_SAMPLES
        between = self.knots[:-1, None] + np.diff(self.knots)[:, None] * steps
        lengths = np.append(between.ravel(), self.knots[-1])
        return lengths, np.asarray(self._spline(lengths))

    def weights(self, s: float) -> Array:
        """Return the weights and two derivatives by the length (3, n); beyond its ends a path is straight."""
        end = float(np.clip(s, *self.ends))
        values, slopes, bends = (np.asarray(self._spline(end, k)) for k in range(3))
        if end != s:
            return np.stack([values + (s - end) * slopes, slopes, np.zeros_like(bends)])
        return np.stack([values, slopes, bends])

    def wrapped(self, s: float, least: float = 0.0) -> float:
        """Return a length with whole turns of a closed path taken away, from `least` on [m]."""
        return float((s - least) % self.length + least) if self.closed else s


@dataclass(frozen=True, eq=False)
class Slider:
    """A point of one body on a smooth curve or surface of another, made by :func:`bind_slider`.

    The curve is the natural cubic spline through the places, over the length of the polyline at rest; a
    closed one is periodic. The surface is the tensor product of two, over the mean lengths of its grid's
    lines.

    Attributes
    ----------
    first : Glue
        The point, bound to the first side.
    second : Glue
        The places of the path, bound to the second side; those of a surface row by row.
    axes : tuple of SplineAxis
        The direction of a curve, or both of a surface.
    start : (d,)
        The lengths along them at which the point is at rest [m].
    kind : {"curve", "surface"}
        What it slides on.
    reach : (1,)
        The length of the path, along the longer of its directions [m].
    """

    first: Glue
    second: Glue
    axes: tuple[SplineAxis, ...]
    start: Array

    def __len__(self) -> int:
        """Return the number of joints, which is one."""
        return 1

    @property
    def kind(self) -> str:
        """What it slides on."""
        return "curve" if len(self.axes) == 1 else "surface"

    @property
    def reach(self) -> Array:
        """The length of the path, along the longer of its directions (1,) [m]."""
        return np.array([max(axis.length for axis in self.axes)])

    def slides(self, lengths: Array) -> Array:
        """Return how far lengths (d,) are from the start (d,), the shorter way round a closed path [m].

        Parameters
        ----------
        lengths : (d,)
            Lengths along the directions of the path [m].

        Returns
        -------
        (d,)
        """
        pairs = zip(self.axes, lengths - self.start, strict=True)
        return np.array([axis.wrapped(float(s), -0.5 * axis.length) for axis, s in pairs])


@dataclass(frozen=True)
class SliderFrame:
    """Where a slider is at the beginning of a step.

    Parameters
    ----------
    lengths : (d,)
        The lengths along the directions of the path at rest [m].
    axes : (3, 3)
        Orthogonal directions in rows, of which the first d are tangents [1].
    """

    lengths: Array
    axes: Array


class _Foot(NamedTuple):
    """A place of the path, with d parameters s, over its n points."""

    lengths: Array
    """(d,): the parameters s [m]."""
    weights: Array
    """(n,): the weights N of the points."""
    slopes: Array
    """(d, n): their derivatives [1/m]."""
    bends: Array
    """(d, d, n): their second derivatives [1/m^2]."""


@dataclass(frozen=True, eq=False)
class SliderRows:
    """The three rows of one slider, in metres: 3 - d equations, and the d lengths s along its path.

    With the curve or surface X(s, y) = sum N_i(s) y_i through points y, and constant directions, the d
    tangents t and the 3 - d normals n, s is where t . (x - X(s, y)) = 0 for the point x and each t, and the
    equations are n . (x - X) = 0. So together x = X(s, y), without s as unknowns.

    Parameters
    ----------
    stencil : (1 + n,)
        The slider's point, then those of the path.
    axes : tuple of SplineAxis
        The d directions of the path.
    """

    stencil: NDArray[np.int64]
    axes: tuple[SplineAxis, ...]

    @property
    def ends(self) -> Array:
        """The least and the greatest left sides (2, 3): zero for equations, and the ends of the path [m]."""
        equations = [(0.0, 0.0)] * (3 - len(self.axes))
        return np.array([*equations, *(axis.ends for axis in self.axes)]).T

    def foot(self, lengths: ArrayLike) -> _Foot:
        """Return the place of the path at lengths (d,) along its directions [m]."""
        s = np.asarray(lengths, float)
        along = [axis.weights(float(each)) for axis, each in zip(self.axes, s, strict=True)]
        orders = np.eye(len(along), dtype=np.int64)

        def product(order: NDArray[np.int64]) -> Array:
            weights: Array = reduce(
                np.multiply.outer, [each[k] for each, k in zip(along, order, strict=True)]
            )
            return weights.ravel()

        slopes = np.array([product(a) for a in orders])
        bends = np.array([[product(a + b) for b in orders] for a in orders])
        return _Foot(s, product(0 * orders[0]), slopes, bends)

    def nearest(self, x: Array) -> SliderFrame:
        """Return the place of the path that is nearest to the slider's point, with particles at x (N, 3).

        Raises
        ------
        DegenerateFitError
            If the path is a surface that has collapsed to a line there.
        """
        point, y = x[self.stencil[0]], x[self.stencil[1:]]
        found = min(
            (self._projected(point, y, start) for start in self._starts(point, y)),
            key=lambda foot: float(np.linalg.norm(point - foot.weights @ y)),
        )
        lengths = np.array([axis.wrapped(float(s)) for axis, s in zip(self.axes, found.lengths, strict=True)])
        along = found.slopes @ y
        t = along[0] / np.linalg.norm(along[0])
        across = perpendiculars(t[None])[0] if len(along) == 1 else along[1] - (along[1] @ t) * t
        if len(along) == 2 and not np.linalg.norm(across) > PARALLEL * np.linalg.norm(along[1]):
            raise DegenerateFitError(
                f"the surface of a slider has no normal at {point.tolist()}: the places of its path have "
                "collapsed to a line. Bind it to a stiffer body, or to fewer places"
            )
        across = across / np.linalg.norm(across)
        return SliderFrame(lengths, np.stack([t, across, np.cross(t, across)]))

    def _starts(self, point: Array, y: Array) -> Array:
        """Return the lengths (m, d) at all samples that are nearer to a point (3,) than those beside them.

        The nearest of all may be on another fold of the path, where that is finer than the samples.
        """
        from scipy.ndimage import minimum_filter  # not before it is needed: it takes a while to load

        places = y.reshape(*(len(axis) for axis in self.axes), 3)
        for axis in self.axes:
            places = np.tensordot(places, axis.samples[1], axes=(0, 1))  # its direction becomes the last
        distances = np.linalg.norm(np.moveaxis(places, 0, -1) - point, axis=-1)
        least = np.argwhere(distances == minimum_filter(distances, size=3, mode="nearest"))
        return np.stack([axis.samples[0][k] for axis, k in zip(self.axes, least.T, strict=True)], axis=1)

    def _projected(self, point: Array, y: Array, lengths: Array) -> _Foot:
        """Return the place nearest to a point (3,) by Newton's method, from where it is at lengths (d,)."""
        foot = self.foot(lengths)
        for _ in range(MAX_PROJECTIONS):
            along, off = foot.slopes @ y, point - foot.weights @ y
            straight = along @ along.T
            straight += METRIC_ROUNDING * np.trace(straight) * np.eye(len(straight))
            curving, directions = scipy.linalg.eigh(straight - foot.bends @ y @ off, straight)
            change = directions @ ((along @ off @ directions) / np.maximum(curving, LEAST_CURVING))
            foot = self.foot(foot.lengths + change)
            if self._is_last(change):
                break
        return foot

    def values(self, x: Array, frame: SliderFrame) -> Array:
        """Return the equations and the lengths (3,) [m] at particles x (N, 3)."""
        foot = self._met(x, frame)
        off = x[self.stencil[0]] - foot.weights @ x[self.stencil[1:]]
        return np.concatenate([frame.axes[len(self.axes) :] @ off, foot.lengths])

    def gradients(self, x: Array, frame: SliderFrame) -> Array:
        """Return the derivatives (3, 1 + n, 3) of the rows by the points of the stencil [1]."""
        foot = self._met(x, frame)
        by_offset = np.concatenate(self._by_offset(x, frame, foot))
        return np.asarray(by_offset[:, None, :] * _spread(foot)[:, None])

    def elements(self, x: Array, frame: SliderFrame, multipliers: Array) -> Array:
        """Return the Hessian (3 + 3 n, 3 + 3 n) of multipliers (3,) times the rows [N/m]."""
        foot = self._met(x, frame)
        equations, lengths = self._by_offset(x, frame, foot)
        m = multipliers @ np.concatenate([equations, lengths])
        changes = np.einsum("p,ai->api", _spread(foot), lengths).reshape(len(lengths), -1)  # ds
        slopes = np.pad(foot.slopes, ((0, 0), (1, 0)))
        by_slopes = np.einsum("ap,i->api", slopes, m).reshape(len(lengths), -1)  # m . (sum N_i' dy_i)
        crossed = changes.T @ by_slopes
        bends = foot.bends @ x[self.stencil[1:]] @ m
        return np.asarray(-crossed - crossed.T - changes.T @ bends @ changes)

    def _by_offset(self, x: Array, frame: SliderFrame, foot: _Foot) -> tuple[Array, Array]:
        """Return the derivatives of equations (3 - d, 3) and lengths (d, 3) by x - X, with s eliminated."""
        count = len(self.axes)
        tangents, normals = frame.axes[:count], frame.axes[count:]
        along = foot.slopes @ x[self.stencil[1:]]
        lengths = np.linalg.solve(tangents @ along.T, tangents)
        return normals - normals @ along.T @ lengths, lengths

    def _met(self, x: Array, frame: SliderFrame) -> _Foot:
        """Return where the path meets the slider's point as seen along the normals, near where it was."""
        point, y = x[self.stencil[0]], x[self.stencil[1:]]
        tangents, foot = frame.axes[: len(self.axes)], self.foot(frame.lengths)
        for _ in range(MAX_PROJECTIONS):
            rates = tangents @ (foot.slopes @ y).T
            if not np.linalg.det(rates) > 0:
                break  # the path has turned over: wherever it is met now, that is far from closed
            change = np.linalg.solve(rates, tangents @ (point - foot.weights @ y))
            foot = self.foot(foot.lengths + change)
            if self._is_last(change):
                break
        return foot

    def _is_last(self, change: Array) -> bool:
        """Return whether a step (d,) of a search is as small as rounding [m]."""
        return all(
            abs(each) <= LAST_PROJECTION * axis.length for axis, each in zip(self.axes, change, strict=True)
        )


def _spread(foot: _Foot) -> Array:
    """Return the factors (1 + n,) of the slider's point and those of the path in x - X."""
    return np.concatenate([[1.0], -foot.weights])


def bind_slider(
    first_rest: ArrayLike,
    second_rest: ArrayLike,
    at: ArrayLike,
    path: ArrayLike,
    *,
    closed: bool = False,
    parents: int = 8,
    among: ArrayLike | None = None,
    on_degenerate: OnDegenerate = "raise",
) -> Slider:
    """Let a point of one object slide along a curve or over a surface of another, by their points at rest.

    Parameters
    ----------
    first_rest : (N, 3)
        Points of the object that slides, at rest [m].
    second_rest : (M, 3)
        Points of the object that it slides on, at rest [m].
    at : (3,)
        Where it slides [m]; the place of the path that is nearest to it is bound to the first object.
    path : (n, 3) or (m, n, 3)
        Places on the second object through which the curve goes, in order, or the grid of places through
        which the surface goes [m].
    closed : bool
        Whether the last place is followed by the first, so that the curve has no ends, as a hoop. For a
        surface, whether the last row is followed by the first, as around a sleeve.
    parents : int
        How many of the nearest points of either object are parents.
    among : (m,), optional
        The points of the second object that may be parents at all.
    on_degenerate : {"raise", "clamp"}
        What happens when parents collapse later on, as in :func:`~pointglue.fit_rigid`.

    Returns
    -------
    Slider
        The slider, which is on its path at rest.

    Raises
    ------
    InputError
        If the arguments do not go together, places of the path coincide, or those of a surface span none.
    DegenerateFitError
        If the parents of a place lie on a line at rest.
    """
    check_flag("closed", closed)
    grid = as_reals("path", path).astype(np.float64)
    if grid.ndim not in (2, 3) or grid.shape[-1] != 3:
        raise InputError(f"path must have shape (n, 3), or (m, n, 3) for a surface, got {grid.shape}")
    require_finite("path", grid)
    axes = tuple(_axis(grid, k, closed=closed and k == 0) for k in range(grid.ndim - 1))
    point = as_reals("at", at).astype(np.float64)
    if point.shape != (3,):
        raise InputError(f"at must have shape (3,), got shape {point.shape}")
    require_finite("at", point)
    places = grid.reshape(-1, 3)
    rows = SliderRows(np.arange(1 + len(places)), axes)
    if grid.ndim == 3:
        _check_normals(rows, grid)
    nearest = rows.nearest(np.vstack([point, places])).lengths
    start = np.array([np.clip(s, *axis.ends) for axis, s in zip(axes, nearest, strict=True)])
    target = rows.foot(start).weights @ places
    first = bind_glue(first_rest, target[None], parents=parents, on_degenerate=on_degenerate)
    second = bind_glue(second_rest, places, parents=parents, among=among, on_degenerate=on_degenerate)
    return Slider(first, second, axes, start)


def _axis(grid: Array, direction: int, *, closed: bool) -> SplineAxis:
    """Return one direction of a path through a grid of places (..., 3), or raise if places coincide."""
    count, least = grid.shape[direction], 3 if closed else 2
    if count < least:
        number = "three places if it is closed" if closed else "two places"
        raise InputError(f"path must have at least {number}, got {count}")
    ahead = np.roll(grid, -1, axis=direction) - grid
    lengths = np.moveaxis(np.linalg.norm(ahead, axis=-1), direction, 0)[: None if closed else -1]
    if not (lengths > 0).all():
        twice = np.unravel_index(int(lengths.argmin()), lengths.shape)
        where = ", ".join(map(str, twice if direction == 0 else twice[::-1]))
        raise InputError(f"path must go on from place to place, got place {where} twice")
    return SplineAxis(np.append(0.0, np.cumsum(lengths.reshape(len(lengths), -1).mean(1))), closed)


def _check_normals(rows: SliderRows, grid: Array) -> None:
    """Raise unless a surface has a normal at all places of its grid (m, n, 3)."""
    for place in np.ndindex(*grid.shape[:2]):
        lengths = [axis.knots[k] for axis, k in zip(rows.axes, place, strict=True)]
        u, v = rows.foot(lengths).slopes @ grid.reshape(-1, 3)
        if not np.linalg.norm(np.cross(u, v)) > PARALLEL * np.linalg.norm(u) * np.linalg.norm(v):
            where = ", ".join(map(str, place))
            raise InputError(f"path must span a surface, got both directions along one line at place {where}")
