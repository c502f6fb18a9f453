"""The choice of parents: the nearest points, as many as it takes to determine a frame."""

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

__all__ = ["Falloff", "OnCollinear", "adjacency", "choose_parents", "falloff_weights", "parents_within"]

Falloff = Literal["uniform", "smooth", "inverse"]
OnCollinear = Literal["widen", "raise"]

# Ratio: the least gap that parents should have at rest, that of a patch seven times longer than wide. It can
# lose nine tenths of its width in a simulation and is still a thousand times from free spin.
SAFE_GAP = 0.02
# Ratio: parents with a gap below this are a line but for rounding, and make no frame at all.
LINE_GAP = 1e-6
# How many of the nearest points are searched for some off a line, before the search gives up.
MAX_PARENTS = 4096


def rest_gap(rest: Array, groups: Groups, weights: Array) -> Array:
    """Return the gap of each group's own rest shape (K,)."""
    return RestShape(rest, weights, groups=groups).fit(rest, on_degenerate="clamp").gap


def refuse_lines(gap: Array, groups: Groups, rows: NDArray[np.int64], least: float, advice: str) -> None:
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
) -> Groups:
    """Return the `count` nearest points of each target, and more of them where those are close to a line."""
    tree = cKDTree(rest) if edges is None else None
    most = min(len(rest), max(count, MAX_PARENTS))
    waiting, wanted = np.arange(len(targets)), min(count, len(rest))
    found: list[tuple[NDArray[np.int64], Groups]] = []
    while len(waiting):
        if tree is not None:
            _, near = tree.query(targets[waiting], k=np.arange(1, wanted + 1), workers=-1)
            groups = Groups(np.arange(len(waiting) + 1) * wanted, near.ravel())
        else:
            groups = _along_surface(rest, targets[waiting], wanted, edges)
        gap = rest_gap(rest, groups, falloff_weights(rest, targets[waiting], groups, falloff))
        if on_collinear == "raise":
            advice = "Give more parents, name them by indices=, or pass on_collinear='widen'."
            refuse_lines(gap, groups, waiting, SAFE_GAP, advice)
            return groups
        safe = gap >= SAFE_GAP
        if wanted == most:  # less than safe will do in the end, if it is a frame at all
            refuse_lines(
                gap,
                groups,
                waiting,
                LINE_GAP,
                f"There are no points off the line among the nearest {most}: name parents by indices=.",
            )
            safe[:] = True
        rows = np.flatnonzero(safe)
        if len(rows):
            found.append((waiting[rows], groups.take(rows)[0]))
        waiting, wanted = waiting[~safe], min(2 * wanted, most)
    return merged_groups(found)


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


def _along_surface(rest: Array, targets: Array, wanted: int, edges: csr_array | None) -> Groups:
    """Return the `wanted` nearest points of those reached over edges from the nearest, ring by ring."""
    assert edges is not None
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


def parents_within(rest: Array, targets: Array, radius: float) -> Groups:
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
    return Groups(np.concatenate([[0], np.cumsum(sizes)]), np.concatenate(lists).astype(np.int64))


def falloff_weights(rest: Array, targets: Array, groups: Groups, kind: Falloff) -> Array:
    """Return the weight of each entry by the distance of its point from the target."""
    if kind == "uniform":
        return np.ones(len(groups.indices))
    distance = np.linalg.norm(rest[groups.indices] - targets[groups.group_of], axis=1)
    starts = groups.offsets[:-1]
    farthest = np.maximum.reduceat(distance, starts)[groups.group_of]
    if kind == "smooth":
        # Next to nothing at the farthest parent, so that it makes no difference when another takes its
        # place; not nothing, since the others alone may make no frame.
        nearest = np.minimum.reduceat(distance, starts)[groups.group_of]
        span = farthest - nearest
        place = np.divide(distance - nearest, span, out=np.zeros_like(span), where=span > 0)
        return np.asarray((1 - place**2) ** 2 + 1e-6)
    ratio = np.divide(distance, farthest, out=np.zeros_like(distance), where=farthest > 0)
    # Inverse: the nearest weighs at most a hundred times the farthest, as a frame needs more than one point.
    return np.asarray(1 / (ratio**2 + 0.01))
