"""Checks of arguments that only the particles need; all others are in `pointglue.checks`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from ..checks import Array, as_array, as_integers, as_reals, check_distinct, check_finite
from ..errors import InputError

__all__ = [
    "COINCIDENT", "check_edges", "check_group", "check_hulls", "check_layout", "check_list", "check_mask",
    "check_range", "spread",
]  # fmt: skip

# Ratio of the extents of a hull: flatter ones have no inside.
FLATTEST = 1e-3
# Particles nearer to each other than this fraction of the body's extent are one point given twice.
COINCIDENT = 1e-9


def check_list(name: str, values: Any, kind: Any) -> list[Any]:
    """Return the values as a list, or raise if one is not of that kind (a type, or Callable)."""
    if not isinstance(values, Iterable):
        raise InputError(f"{name} must be a list, got {type(values).__name__}")
    listed = list(values)
    for k, value in enumerate(listed):
        if not isinstance(value, kind):
            wanted = "a function" if kind is Callable else f"of type {kind.__name__}"
            raise InputError(f"{name}[{k}] must be {wanted}, got {type(value).__name__}")
    return listed


def spread(name: str, value: ArrayLike, count: int) -> Array:
    """Return `value` for each of `count` items."""
    given = as_reals(name, value).astype(np.float64)
    if given.shape not in ((), (count,)):
        raise InputError(f"{name} must be one number or have shape ({count},), got shape {given.shape}")
    return np.broadcast_to(given, (count,)).copy()


def check_range(
    name: str, array: Array, low: float, high: float, open_low: bool = False, open_high: bool = False
) -> Array:
    """Return the array, or raise unless all its numbers are between `low` and `high`."""
    fits = ((array > low) if open_low else (array >= low)) & (
        (array < high) if open_high else (array <= high)
    )
    if not fits.all():
        where = tuple(int(i) for i in np.argwhere(~fits)[0])
        if high == 1.0:
            wanted = "between 0 and 1"
        elif open_high:
            wanted = "positive and finite" if open_low else "finite and not negative"
        else:
            wanted = "not negative"
        raise InputError(f"{name} must be {wanted}, got {array[where]} at index {list(where)}")
    return array


def check_mask(name: str, value: ArrayLike, count: int) -> NDArray[np.bool_]:
    """Return a mask (count,), from one boolean or as many, or raise."""
    given = as_array(name, value)
    if given.dtype != np.bool_ or given.shape not in ((), (count,)):
        raise InputError(
            f"{name} must be a mask of {count} booleans, got {given.dtype} of shape {given.shape}"
        )
    return np.broadcast_to(given, (count,)).copy()


def check_edges(edges: ArrayLike, count: int) -> NDArray[np.int64]:
    """Return pairs (m, 2) of different particles out of `count`, each pair once, or raise."""
    given = as_array("edges", edges)
    if given.size == 0:
        return np.empty((0, 2), np.int64)
    if given.ndim != 2 or given.shape[1] != 2:
        raise InputError(f"edges must have shape (m, 2), got shape {given.shape}")
    pairs = as_integers("edges", given.ravel()).reshape(-1, 2)
    if pairs.min() < 0 or pairs.max() >= count:
        bad = int(np.flatnonzero(((pairs < 0) | (pairs >= count)).any(1))[0])
        raise InputError(f"edges[{bad}] is {pairs[bad].tolist()}, but there are {count} particles")
    if (pairs[:, 0] == pairs[:, 1]).any():
        bad = int(np.flatnonzero(pairs[:, 0] == pairs[:, 1])[0])
        raise InputError(f"edges[{bad}] joins particle {pairs[bad, 0]} to itself")
    _, first, times = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True, return_counts=True)
    if (times > 1).any():
        raise InputError(f"edges holds {pairs[first[times.argmax()]].tolist()} more than once")
    return pairs


def check_group(k: int, group: ArrayLike, count: int) -> NDArray[np.int64]:
    """Return the members of group k, different particles out of `count`, or raise."""
    members = check_distinct(f"groups[{k}]", group)
    if not len(members):
        raise InputError(f"groups[{k}] is empty")
    if members.min() < 0 or members.max() >= count:
        raise InputError(
            f"groups[{k}] must hold particles from 0 to {count - 1}, got {members.tolist()[:10]}"
        )
    return members


def check_hulls(hulls: Iterable[ArrayLike | None], groups: int) -> tuple[Array, ...]:
    """Return the points (k, 3) of the hull of each group, none for a group without one, or raise."""
    if not isinstance(hulls, Iterable):
        raise InputError(f"hulls must be a list of points for each group, got {type(hulls).__name__}")
    none = np.empty((0, 3))
    listed = [none if given is None else check_finite(f"hulls[{k}]", given) for k, given in enumerate(hulls)]
    if not listed:
        return tuple(none for _ in range(groups))
    if len(listed) != groups:
        raise InputError(f"hulls must be one for each of the {groups} groups, or empty, got {len(listed)}")
    for k, points in enumerate(listed):
        if points.ndim != 2 or points.shape[1] != 3:
            raise InputError(f"hulls[{k}] must have shape (k, 3), got shape {points.shape}")
        if not len(points):
            continue
        extents = np.linalg.svd(points - points.mean(0), compute_uv=False)
        if len(points) < 4 or extents[2] < FLATTEST * extents[0]:
            raise InputError(
                f"hulls[{k}] must have 4 points that are not in one plane, got {len(points)} flat ones"
            )
    return tuple(listed)


def check_layout(positions: Array, edges: Array, groups: Sequence[Array], loose: bool) -> None:
    """Raise for particles at one point, and for particles that nothing joins to the body."""
    count = len(positions)
    extent = np.ptp(positions, axis=0).max()
    if count > 1:
        near = cKDTree(positions).query(positions, k=2)
        # The second nearest of a point is itself where two coincide.
        first = int(near[0][:, 1].argmin())
        if near[0][first, 1] <= COINCIDENT * extent:
            pair = sorted({first, *(int(i) for i in near[1][first])})[:2]
            raise InputError(f"positions {pair} coincide at {positions[first].tolist()}: merge them")
    joined = np.zeros(count, np.bool_)
    joined[edges.ravel()] = True
    for group in groups:
        joined[group] = True
    if count > 1 and not loose and not joined.all():
        alone = np.flatnonzero(~joined)
        raise InputError(
            f"particles {alone[:5].tolist()}{' and more' if len(alone) > 5 else ''} have no edge and no "
            f"group, so nothing joins them to the body: connect them, or pass loose=True if that is meant"
        )
