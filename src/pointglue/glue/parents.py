"""The choice of parents: the points within reach of a target, and how much each of them weighs.

The reach r of a target follows from the distances of the points around it: r^2 = 1.2 d_k^2 + 0.5 d_1^2, by
those of the nearest and of the k-th nearest point. All points within it are parents, and their weights
(1 - d^2 / r^2)^2 fade to nothing there. So weights are continuous functions of the target: targets side by
side move alike, and it makes no difference whether rounding takes a point at the very end of the reach for a
parent. Points at one distance weigh the same, whatever the units, and however all is turned or mirrored.
The reach grows with the distance of the target from the points, which bounds how much farther it moves than
they do: at the distance h from a surface, by a factor of sqrt(1 + 8 h^2 / (r^2 - h^2)) < 3.6.

Parents cost time, the square of their number in a matrix. So the reach ends at the (4 k)-th nearest point, or
just beyond the k-th where that is as far. Above a surface this happens from 1.1 sqrt(k) spacings s on: from 3
for 8 parents. From there on the factor is about 2.5 h / (s sqrt(k)).

Where the points within reach are close to a line, the reach grows until they make a frame; it grows
continuously, too, as far as there are points.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from ..checks import Array, as_array, check_real
from ..errors import DegenerateFitError, InputError
from ..procrustes import Groups, RestShape
from ..procrustes.groups import runs
from .binding import merged_groups

__all__ = [
    "Falloff",
    "OnCollinear",
    "Parents",
    "adjacency",
    "choose_parents",
    "falloff_weights",
    "named_parents",
    "on_line",
    "parents_within",
    "refuse_lines",
    "rest_gap",
    "rest_moments",
]

Falloff = Literal["uniform", "smooth", "inverse"]
OnCollinear = Literal["widen", "raise"]

# Ratio: the least gap that parents should have at rest, that of a patch seven times longer than wide. It can
# lose nine tenths of its width in a simulation and is still a thousand times from free spin.
SAFE_GAP = 0.02
# Ratio: parents with a gap below this are a line but for rounding, and make no frame at all.
LINE_GAP = 1e-6
# Ratio of a target's distance from the line of its parents to their extent: closer, it lies on that line.
LINE_TOLERANCE = 1e-6
# How many of the nearest points are searched for some off a line, before the search gives up.
MAX_PARENTS = 4096
# Ratios of the square of the reach to those of the distances of the k-th nearest point and of the nearest.
REACH_BEYOND_LAST, REACH_BY_FIRST = 1.2, 0.5
# Ratios of the largest number of parents to k, but for those at one distance, and of the least reach to the
# distance of the k-th nearest point.
MOST_BEYOND, LEAST_REACH = 4, 1.001
# Ratio by which distances may differ that count as equal: far above rounding, far below any distance meant.
TIE = 1e-6
# Ratio of one reach to the next that is tried where parents are close to a line, and how often the interval
# between the two is halved before the rest is interpolated.
WIDER, HALVINGS = 1.5, 10

_Rows = NDArray[np.int64]
_Search = Callable[[_Rows, int], Groups]
"""From rows of targets and a number to so many of the points nearest to each, the nearest first."""


@dataclass(frozen=True, eq=False)
class Parents:
    """The parents of each target, and how far they are sought."""

    groups: Groups
    """The parents of each target."""
    reach: Array
    """The distance (T,) at which the smooth weights of each target fade out [m]; infinite where none does."""


def rest_gap(rest: Array, groups: Groups, weights: Array) -> Array:
    """Return the gap of each group's own rest shape (K,)."""
    return RestShape(rest, weights, groups=groups).fit(rest, on_degenerate="clamp").gap


def rest_moments(shape: RestShape) -> Array:
    """Return the eigenvalues (T, 3) of the covariance of each target's parents at rest, descending [m^2]."""
    q, starts = shape.arrays.q, shape.groups.offsets[:-1]
    arms = q[:, :3] / np.maximum(q[:, 3:], 1e-300)
    outer = q[:, :3, None] * arms[:, None]
    return np.asarray(np.linalg.eigvalsh(np.add.reduceat(outer, starts, axis=0))[:, ::-1])


def on_line(shape: RestShape, targets: Array) -> NDArray[np.bool_]:
    """Return which targets (T, 3) lie on the line that their parents at rest are on (T,).

    Their parents make no frame, but a target on the line needs none: spin about the line leaves it there.
    """
    moments = rest_moments(shape)
    straight = moments[:, 1:].sum(1) < LINE_GAP * moments[:, 0]
    if shape.dimension == 2 or not straight.any():
        return np.zeros(len(moments), np.bool_)
    arrays = shape.arrays
    arms = arrays.q[:, :3] / np.maximum(arrays.q[:, 3:], 1e-300)
    length = np.where(arrays.q[:, 3] > 0, np.linalg.norm(arms, axis=1), 0.0)
    # The farthest parent tells the direction of the line best.
    farthest = shape.groups.largest(length)
    extent = length[farthest]
    along = arms[farthest] / np.maximum(extent, 1e-300)[:, None]
    away = np.linalg.norm(np.cross(along, targets - arrays.centroids), axis=1)
    return np.asarray(straight & (away <= LINE_TOLERANCE * extent))


def refuse_lines(gap: Array, groups: Groups, rows: _Rows, least: float, advice: str) -> None:
    """Raise for the first group that makes no frame; `rows` are the targets the groups belong to."""
    if (gap >= least).all():
        return
    k = int(np.flatnonzero(gap < least)[0])
    names = groups.indices[groups.offsets[k] : groups.offsets[k + 1]].tolist()
    listed = f"{names[:12]}" + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    raise DegenerateFitError(
        f"target {int(rows[k])} has no frame: its parents {listed} lie on or close to a line "
        f"(gap {gap[k]:.1e}, least {least:g}). {advice}"
    )


def choose_parents(
    rest: Array,
    targets: Array,
    count: int,
    falloff: Falloff,
    on_collinear: OnCollinear,
    edges: csr_array | None,
) -> Parents:
    """Return the points within reach of each target, where the `count` nearest points set the reach.

    With other weights than smooth ones the reach ends at the `count`-th point and those as far as it.
    """
    if edges is None:
        search: _Search = partial(_in_space, cKDTree(rest), targets)
    else:
        search = partial(_along_surface, rest, targets, edges)
    choice = _Choice(rest, targets, falloff, search, count)
    every = np.arange(len(targets))
    reach = choice.reach()
    groups = choice.few_within(reach)
    gap = choice.gap(every, groups, reach)
    if on_collinear == "raise":
        advice = "Give more parents, name them by indices=, or pass on_collinear='widen'."
        refuse_lines(gap, groups, every, SAFE_GAP, advice)
    narrow = gap < SAFE_GAP
    if not narrow.any():
        return Parents(groups, reach)
    parts = choice.widened(np.flatnonzero(narrow), gap[narrow], groups.take(np.flatnonzero(narrow))[0], reach)
    if not narrow.all():
        parts.append((np.flatnonzero(~narrow), groups.take(np.flatnonzero(~narrow))[0]))
    return Parents(merged_groups(parts), reach)


@dataclass(frozen=True, eq=False)
class _Choice:
    """What a choice of parents is made from."""

    rest: Array
    targets: Array
    falloff: Falloff
    search: _Search
    count: int
    """How many of the nearest points set the reach."""

    @property
    def most(self) -> int:
        """The largest number of parents."""
        return min(len(self.rest), max(self.count, MAX_PARENTS))

    def reach(self) -> Array:
        """Return the reach of every target (T,) [m], infinite where all points are parents."""
        reach, rows, wanted = np.zeros(len(self.targets)), np.arange(len(self.targets)), self.count
        while len(rows):
            near = self.search(rows, min(wanted, len(self.rest)))
            distance = distances(self.rest, self.targets[rows], near)
            first, last = distance[near.offsets[:-1]], distance[near.offsets[1:] - 1]
            reach[rows] = _smooth_reach(first, last) if self.falloff == "smooth" else (1 + TIE) * last
            reach[rows[(near.sizes < wanted) | (wanted == len(self.rest))]] = np.inf
            rows, wanted = (
                rows[reach[rows] == 0],
                2 * wanted,
            )  # more points are at the target than it has parents
        return reach

    def few_within(self, reach: Array) -> Groups:
        """Return the points within reach of every target, and shorten the `reach` of those with too many."""
        every, most = np.arange(len(self.targets)), MOST_BEYOND * self.count
        if self.falloff != "smooth":
            return self.within(every, reach)[0]
        groups, _ = self.within(every, reach, most)
        crowded, others = np.flatnonzero(groups.sizes == most), np.flatnonzero(groups.sizes < most)
        if not len(crowded):
            return groups
        crowd, _ = groups.take(crowded)
        distance = distances(self.rest, self.targets[crowded], crowd).reshape(-1, most)
        reach[crowded] = np.maximum(distance[:, -1], LEAST_REACH * distance[:, self.count - 1])
        parts = [(crowded, self.within(crowded, reach[crowded])[0])]
        if len(others):
            parts.append((others, groups.take(others)[0]))
        return merged_groups(parts)

    def within(self, rows: _Rows, reach: Array, most: int | None = None) -> tuple[Groups, NDArray[np.bool_]]:
        """Return the points within reach (n,) of some targets, and whether these are all that there are.

        At most so many of each, the nearest.
        """
        most = self.most if most is None else min(most, self.most)
        waiting, wanted = np.arange(len(rows)), min(2 * self.count, most)
        parts, complete = [], np.zeros(len(rows), np.bool_)
        while len(waiting):
            groups = self.search(rows[waiting], wanted)
            distance = distances(self.rest, self.targets[rows[waiting]], groups)
            inside = distance < reach[waiting][groups.group_of]
            sizes = np.add.reduceat(inside.astype(np.int64), groups.offsets[:-1])
            ended = (groups.sizes < wanted) | (wanted == most)
            done = np.flatnonzero((sizes < groups.sizes) | ended)
            if len(done):
                complete[waiting[done]] = sizes[done] == groups.sizes[done]
                entries = runs(groups.offsets[:-1][done], sizes[done])  # the nearest come first
                ends = np.concatenate([[0], np.cumsum(sizes[done])])
                parts.append((waiting[done], Groups(ends, groups.indices[entries])))
            waiting, wanted = np.delete(waiting, done), min(2 * wanted, most)
        return merged_groups(parts), complete

    def gap(self, rows: _Rows, groups: Groups, reach: Array) -> Array:
        """Return the gap of the parents of some targets (n,), with their weights."""
        weights = falloff_weights(self.rest, self.targets[rows], groups, self.falloff, reach)
        return rest_gap(self.rest, groups, weights)

    def widened(self, rows: _Rows, gap: Array, groups: Groups, reach: Array) -> list[tuple[_Rows, Groups]]:
        """Return more parents of targets whose first ones have too small a gap, and set their `reach`."""
        start, found, near = rows, [], reach[rows]
        while len(rows):
            far = WIDER * near
            wider, complete = self.within(rows, far)
            far[complete] = np.inf
            reached = self.gap(rows, wider, far)
            safe = reached >= SAFE_GAP
            if safe.any():
                done = rows[safe]
                reach[done] = far[safe]
                if self.falloff == "smooth":
                    ends = (near[safe], gap[safe]), (far[safe], reached[safe])
                    reach[done] = self._just_safe(done, wider.take(np.flatnonzero(safe))[0], *ends)
                found.append((done, self.within(done, reach[done])[0]))
            last = np.flatnonzero(complete & ~safe)
            if len(last):
                found += self._all_there_are(rows[last], reached[last], wider.take(last)[0], reach)
            on = ~(safe | complete)
            rows, gap, near = rows[on], reached[on], far[on]
        straight = np.setdiff1d(start, np.concatenate([np.empty(0, np.int64), *(part for part, _ in found)]))
        if len(straight):  # lies on the line of all points there are: the nearest of them will do
            found.append((straight, groups.take(np.searchsorted(start, straight))[0]))
        return found

    def _just_safe(
        self, rows: _Rows, groups: Groups, near: tuple[Array, Array], far: tuple[Array, Array]
    ) -> Array:
        """Return the reach (n,) between two, each with its gap, at which parents become safe.

        It is a continuous function of the target. By the inverses of the reach, which may be infinite.
        """
        (low, below), (high, above) = (1 / near[0], near[1]), (1 / far[0], far[1])
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            gap = self.gap(rows, groups, 1 / middle)
            safe = gap >= SAFE_GAP
            low, below = np.where(safe, low, middle), np.where(safe, below, gap)
            high, above = np.where(safe, middle, high), np.where(safe, gap, above)
        with np.errstate(divide="ignore"):
            return np.asarray(1 / (low + (high - low) * (SAFE_GAP - below) / (above - below)))

    def _all_there_are(
        self, rows: _Rows, gap: Array, groups: Groups, reach: Array
    ) -> list[tuple[_Rows, Groups]]:
        """Return all points as parents of targets that do not lie on their line, though less than safe."""
        shape = RestShape(self.rest, groups=groups)
        straight = on_line(shape, self.targets[rows])
        kept = np.flatnonzero(~straight)
        if not len(kept):
            return []
        some, _ = groups.take(kept)
        advice = f"There are no points off the line among the nearest {self.most}: name parents by indices=."
        refuse_lines(gap[kept], some, rows[kept], LINE_GAP, advice)
        reach[rows[kept]] = np.inf
        return [(rows[kept], some)]


def _smooth_reach(first: Array, last: Array) -> Array:
    """Return the reach of targets by the distances of their nearest and of their k-th nearest point [m]."""
    return np.asarray(np.sqrt(REACH_BEYOND_LAST * last**2 + REACH_BY_FIRST * first**2))


def distances(rest: Array, targets: Array, groups: Groups) -> Array:
    """Return the distance of each entry's point from its target (E,) [m]."""
    apart = rest[groups.indices].astype(np.float64, copy=False) - targets[groups.group_of]
    return np.asarray(np.linalg.norm(apart, axis=1))


def adjacency(faces: ArrayLike, count: int) -> csr_array:
    """Return which of the `count` points share an edge of the faces (m, k), each its own neighbour too."""
    cells = as_array("faces", faces)
    if cells.ndim != 2 or cells.shape[1] < 3 or cells.dtype.kind not in "iu" or not cells.size:
        raise InputError(f"faces must be whole numbers of shape (m, 3), got {cells.dtype} {cells.shape}")
    if cells.min() < 0 or cells.max() >= count:
        raise InputError(
            f"faces must index the {count} rest_points, got numbers from {cells.min()} to {cells.max()}"
        )
    a, b = cells.ravel(), np.roll(cells, -1, axis=1).ravel()
    used = np.unique(a)
    rows, columns = np.concatenate([a, b, used]), np.concatenate([b, a, used])
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=(count, count))


def _in_space(tree: cKDTree, targets: Array, rows: _Rows, wanted: int) -> Groups:
    """Return the `wanted` nearest points of some of the targets, the nearest first."""
    _, near = tree.query(targets[rows], k=np.arange(1, wanted + 1), workers=-1)
    return Groups(np.arange(len(rows) + 1) * wanted, near.ravel())


def _along_surface(rest: Array, targets: Array, edges: csr_array, rows: _Rows, wanted: int) -> Groups:
    """Return the `wanted` nearest points of those reached over edges from the nearest, ring by ring."""
    targets = targets[rows]
    used = np.flatnonzero(np.diff(edges.indptr))  # points of no face have no neighbours to offer
    _, seed = cKDTree(rest[used]).query(targets, workers=-1)
    patch = csr_array(
        (np.ones(len(targets)), used[seed], np.arange(len(targets) + 1)), (len(targets), len(rest))
    )
    growing, done = np.arange(len(targets)), []
    while len(growing):
        wider = patch @ edges
        size = np.diff(wider.indptr)
        # One ring more than enough: the nearest points are not always in the first rings.
        complete = (np.diff(patch.indptr) >= wanted) | (size == np.diff(patch.indptr))
        rows = np.flatnonzero(complete)
        if len(rows):
            done.append((growing[rows], _nearest(rest, targets[growing[rows]], wider[rows], wanted)))
        patch, growing = wider[np.flatnonzero(~complete)], growing[~complete]
    return merged_groups(done)


def _nearest(rest: Array, targets: Array, patch: csr_array, wanted: int) -> Groups:
    """Return the `wanted` nearest of each row's points."""
    size = np.diff(patch.indptr).astype(np.int64)
    row = np.repeat(np.arange(len(targets)), size)
    distance = np.linalg.norm(rest[patch.indices] - targets[row], axis=1)
    order = np.lexsort((patch.indices, distance, row))
    kept = np.minimum(size, wanted)
    entries = order[runs(patch.indptr[:-1].astype(np.int64), kept)]
    return Groups(np.concatenate([[0], np.cumsum(kept)]), patch.indices[entries])


def parents_within(rest: Array, targets: Array, radius: float) -> Parents:
    """Return all points within `radius` [m] of each target."""
    radius = check_real("radius", radius, above=0.0)
    lists = cKDTree(rest).query_ball_point(targets, radius, workers=-1, return_sorted=True)
    sizes = np.array([len(part) for part in lists])
    least = rest.shape[1]
    if (sizes < least).any():
        k = int(np.flatnonzero(sizes < least)[0])
        raise InputError(
            f"radius {radius:g} holds {sizes[k]} points around target {k} and a frame needs {least} "
            f"({int((sizes < least).sum())} such targets)"
        )
    groups = Groups(np.concatenate([[0], np.cumsum(sizes)]), np.concatenate(lists).astype(np.int64))
    return Parents(groups, np.full(len(targets), radius))


def named_parents(rest: Array, targets: Array, groups: Groups) -> Parents:
    """Return parents that were named, with a reach that none of them is beyond."""
    distance, starts = distances(rest, targets, groups), groups.offsets[:-1]
    first, last = np.minimum.reduceat(distance, starts), np.maximum.reduceat(distance, starts)
    return Parents(groups, _smooth_reach(first, last))


def falloff_weights(rest: Array, targets: Array, groups: Groups, kind: Falloff, reach: Array) -> Array:
    """Return the weight of each entry by the distance of its point from the target."""
    if kind == "uniform":
        return np.ones(len(groups.indices))
    distance = distances(rest, targets, groups)
    if kind == "smooth":
        within = reach[groups.group_of]
        ratio = np.divide(distance, within, out=np.zeros_like(distance), where=within > 0)
        return np.asarray((1 - np.minimum(ratio, 1.0) ** 2) ** 2)
    farthest = np.maximum.reduceat(distance, groups.offsets[:-1])[groups.group_of]
    ratio = np.divide(distance, farthest, out=np.zeros_like(distance), where=farthest > 0)
    # Inverse: the nearest weighs at most a hundred times the farthest, as a frame needs more than one point.
    return np.asarray(1 / (ratio**2 + 0.01))
