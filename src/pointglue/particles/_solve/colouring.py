"""Sort constraints into colours, so that those of one colour share no particle and may run side by side."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute import kernel
from ...procrustes.groups import bisect_points

__all__ = ["Order", "by_color", "by_number", "gather", "in_blocks", "in_chunks"]


@kernel
def paint(starts, members, used, colors) -> bool:
    """Give each set the first colour that none of its particles has; -1 where `used` has no room left.

    used (particles, words) has a bit for each colour; members below 0 block nothing (pinned particles, which
    no constraint moves).
    """
    full = np.uint64(0xFFFFFFFFFFFFFFFF)
    one = np.uint64(1)
    complete = True
    for g in range(len(starts) - 1):
        colors[g] = -1
        for word in range(used.shape[1]):
            seen = np.uint64(0)
            for e in range(starts[g], starts[g + 1]):
                if members[e] >= 0:
                    seen |= used[members[e], word]
            if seen == full:
                continue
            bit = np.uint64(0)
            while seen & (one << bit):
                bit += one
            for e in range(starts[g], starts[g + 1]):
                if members[e] >= 0:
                    used[members[e], word] |= one << bit
            colors[g] = 64 * word + np.int64(bit)
            break
        complete = complete and colors[g] >= 0
    return complete


@kernel
def arrange(colors, most):
    """Return the items sorted by colour, and where each colour begins and ends."""
    counts = np.zeros(most + 1, np.int64)
    last = 0
    for color in colors:
        counts[color + 1] += 1
        last = max(last, color + 1)
    for color in range(last):
        counts[color + 1] += counts[color]
    bounds = counts[: last + 1].copy()
    order = np.empty(len(colors), np.int64)
    for k in range(len(colors)):
        order[counts[colors[k]]] = k
        counts[colors[k]] += 1
    return order, bounds


def by_color(starts: Array, members: Array, particles: int) -> tuple[Array, Array]:
    """Return the sets sorted by colour, (k,), and where each colour begins and ends, (colors + 1,).

    Set g holds the particles ``members[starts[g]:starts[g + 1]]``. Within a colour the order is as given.
    """
    colors = np.empty(len(starts) - 1, np.int64)
    # A particle has as many colours as it has sets; room for half as many again is nearly always enough.
    most = int(np.bincount(members[members >= 0], minlength=1).max())
    words = 1 + most // 48
    while not paint(starts, members, np.zeros((particles, words), np.uint64), colors):
        words *= 2
    order, bounds = arrange(colors, 64 * words)
    return order, bounds


def by_number(numbers: Array) -> tuple[Array, Array]:
    """Return the items (k,) sorted by their numbers, from 0 on, and where each number begins and ends."""
    order, bounds = arrange(numbers, int(numbers.max(initial=0)) + 1)
    return order, bounds


@dataclass(frozen=True)
class Order:
    """An order of work on sets: layers of independent blocks, each of batches of independent sets.

    The blocks of a layer may run side by side. Each is worked on by one thread, batch after batch, and is
    small enough to stay in its cache. The sets of a batch are computed together.
    """

    sets: NDArray[np.int64]
    """(k,)."""
    batches: NDArray[np.int64]
    """Where each batch begins in `sets`."""
    blocks: NDArray[np.int64]
    """Where each block begins in `batches`."""
    layers: NDArray[np.int64]
    """Where each layer begins in `blocks`."""

    def kept(self, mask: Array) -> "Order":
        """Return the order without the sets that are not in the mask."""
        kept = mask[self.sets]
        left = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
        return Order(self.sets[kept], left[self.batches], self.blocks, self.layers)

    def then(self, other: "Order", offset: int) -> "Order":
        """Return this order followed by another, whose sets are numbered from `offset`."""
        return Order(
            np.concatenate([self.sets, other.sets + offset]),
            np.concatenate([self.batches, len(self.sets) + other.batches[1:]]),
            np.concatenate([self.blocks, len(self.batches) - 1 + other.blocks[1:]]),
            np.concatenate([self.layers, len(self.blocks) - 1 + other.layers[1:]]),
        )


def in_blocks(starts: Array, members: Array, positions: Array, particles: int, most: int) -> Order:
    """Return the sets in blocks of at most `most` neighbours by their `positions` (k, 3)."""
    parts = bisect_points(positions, most) or [np.empty(0, np.int64)]  # no sets are one block of none
    touched = [np.unique(gather(starts, members, part)[1]) for part in parts]
    ends = np.cumsum([0, *(len(t) for t in touched)]).astype(np.int64)
    order, layers = by_color(ends, np.concatenate(touched), particles)
    sets, batches, blocks = [np.empty(0, np.int64)], [np.zeros(1, np.int64)], [0]
    begun = 0
    for part in (parts[k] for k in order):
        inner, bounds = by_color(*gather(starts, members, part), particles)
        sets.append(part[inner])
        batches.append(begun + bounds[1:])
        blocks.append(blocks[-1] + len(bounds) - 1)
        begun += len(part)
    return Order(np.concatenate(sets), np.concatenate(batches), np.array(blocks, np.int64), layers)


def in_chunks(starts: Array, members: Array, particles: int, most: int) -> Order:
    """Return sets that lie anywhere: one layer a colour, in blocks of one batch of at most `most` each."""
    sets, colors = by_color(starts, members, particles)
    bounds = [np.arange(a, b, most) for a, b in pairwise(colors)]
    batches = np.concatenate([*bounds, colors[-1:]]).astype(np.int64)
    layers = np.cumsum([0, *(len(b) for b in bounds)]).astype(np.int64)
    return Order(sets, batches, np.arange(len(batches)), layers)


def gather(starts: Array, values: Array, chosen: Array) -> tuple[Array, Array]:
    """Return the chosen rows of a ragged array, as a ragged array."""
    counts = np.diff(starts)[chosen]
    ends = np.cumsum(counts)
    index = np.arange(counts.sum()) + np.repeat(starts[chosen] - (ends - counts), counts)
    return np.concatenate([[0], ends]).astype(np.int64), values[index]
