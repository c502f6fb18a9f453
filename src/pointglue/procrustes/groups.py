"""Groups of points of different sizes, as flat lists."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, as_integers
from ..errors import InputError

__all__ = ["Groups", "bisect_points", "runs"]


@dataclass(frozen=True, eq=False, init=False)
class Groups:
    """K groups of points: group k is the points ``indices[offsets[k] : offsets[k + 1]]``.

    This is the layout of a compressed sparse row matrix. A point may stand in several groups.

    Parameters
    ----------
    offsets : (K + 1,)
        Where the groups begin among the entries; increasing from 0 to E.
    indices : (E,), optional
        The point of each entry. By default the groups are consecutive runs of the points:
        ``Groups([0, 4, 9])`` is points 0-3 and points 4-8.

    Raises
    ------
    InputError
        If a group is empty, or an index is negative.
    """

    offsets: NDArray[np.int64]
    indices: NDArray[np.int64]

    def __init__(self, offsets: ArrayLike, indices: ArrayLike | None = None) -> None:
        starts = as_integers("offsets", offsets)
        if len(starts) < 2 or starts[0] != 0:
            raise InputError(f"offsets must start at 0 and hold one end per group, got {starts.tolist()[:8]}")
        empty = np.flatnonzero(np.diff(starts) <= 0)
        if len(empty):
            k = int(empty[0])
            what = "is empty" if starts[k] == starts[k + 1] else "ends before it starts"
            raise InputError(f"offsets must increase: group {k} {what} ({starts[k]} to {starts[k + 1]})")
        rows = np.arange(starts[-1]) if indices is None else as_integers("indices", indices)
        if len(rows) != starts[-1]:
            raise InputError(f"indices must have offsets[-1] = {starts[-1]} entries, got {len(rows)}")
        if rows.size and rows.min() < 0:
            raise InputError(f"indices must not be negative, got {rows.min()} at entry {rows.argmin()}")
        for name, array in (("offsets", starts), ("indices", rows)):
            array.flags.writeable = False  # the kernels trust what was checked here
            object.__setattr__(self, name, array)

    @classmethod
    def from_lists(cls, lists: Iterable[Sequence[int] | NDArray[np.integer]]) -> "Groups":
        """Make groups from one list of point indices each.

        Parameters
        ----------
        lists : iterable of sequences of int
            The points of each group, at least one.

        Returns
        -------
        Groups

        Raises
        ------
        InputError
            If there is no group, or one is empty.
        """
        if not isinstance(lists, Iterable):
            raise InputError(f"lists must hold lists of point indices, got {type(lists).__name__}")
        parts = [as_integers(f"lists[{k}]", part) for k, part in enumerate(lists)]
        if not parts or not all(map(len, parts)):
            empty = f"lists[{[len(part) for part in parts].index(0)}] is empty" if parts else "got none"
            raise InputError(f"lists must hold at least one group, each of at least one point: {empty}")
        return cls(np.cumsum([0, *map(len, parts)]), np.concatenate(parts))

    def __len__(self) -> int:
        """Number of groups."""
        return len(self.offsets) - 1

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """The number of points of each group (K,)."""
        return np.diff(self.offsets)

    @cached_property
    def group_of(self) -> NDArray[np.int64]:
        """The group of each entry (E,)."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def take(self, rows: NDArray[np.int64]) -> tuple["Groups", NDArray[np.int64]]:
        """Return some of the groups, by their numbers, and which of the entries they consist of."""
        sizes = self.sizes[rows]
        entries = runs(self.offsets[:-1][rows], sizes)
        return Groups(np.concatenate([[0], np.cumsum(sizes)]), self.indices[entries]), entries

    def largest(self, values: Array) -> NDArray[np.int64]:
        """Return the entry of each group with the largest of the values (E,), the first of equals (K,)."""
        most = np.maximum.reduceat(values, self.offsets[:-1])
        entries = np.flatnonzero(values == most[self.group_of])
        return np.asarray(entries[np.searchsorted(self.group_of[entries], np.arange(len(self)))])

    def first_repeat(self) -> tuple[int, int] | None:
        """Return a group that names a point twice, and that point; None if no group does."""
        count = int(self.indices.max()) + 1
        places, uses = np.unique(self.group_of * count + self.indices, return_counts=True)
        if (uses == 1).all():
            return None
        k, point = divmod(int(places[uses > 1][0]), count)
        return k, point

    def entries_of_points(self, point_count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the transposed lists: point i stands at ``entries[starts[i] : starts[i + 1]]``."""
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.indices, minlength=point_count))])
        return starts, np.argsort(self.indices, kind="stable")


def runs(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return starts[0], starts[0] + 1, ... for sizes[0] numbers, then on from starts[1], and so on."""
    ends = np.cumsum(sizes)
    return np.asarray(np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - sizes), sizes))


def bisect_points(points: Array, most: int) -> list[NDArray[np.int64]]:
    """Halve points along the longest side of their box until no part has more than `most`.

    Parameters
    ----------
    points : (n, d)
        The points [m].
    most : int
        The largest part.

    Returns
    -------
    list of (k,)
        The indices of each part, ascending; neighbouring parts are near each other. None for no points.
    """
    waiting, parts = [np.arange(len(points))] if len(points) else [], []
    while waiting:
        part = waiting.pop()
        if len(part) <= most:
            parts.append(part)
            continue
        axis = int(np.ptp(points[part], axis=0).argmax())
        order = part[np.argsort(points[part, axis], kind="stable")]
        waiting += [np.sort(order[len(order) // 2 :]), np.sort(order[: len(order) // 2])]
    return parts
