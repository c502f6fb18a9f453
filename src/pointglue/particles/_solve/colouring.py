"""Sort constraints into colours, so that those of one colour share no particle and may run side by side."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute import kernel

__all__ = ["Order", "by_colour", "gather", "in_blocks", "in_chunks"]


@kernel
def paint(starts, members, used, colours) -> bool:
    """The first colour that none of its particles has seen, for each set; -1 where `used` has no room left.

    used (particles, words) has a bit for each colour; members below 0 block nothing (pinned particles, which
    no constraint moves).
    """
    full = np.uint64(0xFFFFFFFFFFFFFFFF)
    one = np.uint64(1)
    complete = True
    for g in range(len(starts) - 1):
        colours[g] = -1
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
            colours[g] = 64 * word + np.int64(bit)
            break
        complete = complete and colours[g] >= 0
    return complete


@kernel
def arrange(colours, most):
    """The items sorted by colour, and where each colour begins and ends."""
    counts = np.zeros(most + 1, np.int64)
    last = 0
    for colour in colours:
        counts[colour + 1] += 1
        last = max(last, colour + 1)
    for colour in range(last):
        counts[colour + 1] += counts[colour]
    bounds = counts[: last + 1].copy()
    order = np.empty(len(colours), np.int64)
    for k in range(len(colours)):
        order[counts[colours[k]]] = k
        counts[colours[k]] += 1
    return order, bounds


def by_colour(starts: Array, members: Array, particles: int) -> tuple[Array, Array]:
    """The sets sorted by colour, (k,), and where each colour begins and ends, (colours + 1,).

    Set g holds the particles ``members[starts[g]:starts[g + 1]]``. Within a colour the order is as given.
    """
    colours = np.empty(len(starts) - 1, np.int64)
    words = 1
    while not paint(starts, members, np.zeros((particles, words), np.uint64), colours):
        words *= 2
    order, bounds = arrange(colours, 64 * words)
    return order, bounds


@dataclass(frozen=True)
class Order:
    """In what order sets are worked on: layers of independent blocks, each of batches of independent sets.

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
        """Without the sets that are not in the mask."""
        kept = mask[self.sets]
        left = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
        return Order(self.sets[kept], left[self.batches], self.blocks, self.layers)

    def then(self, other: "Order", offset: int) -> "Order":
        """This one and then another, whose sets are numbered from `offset`."""
        return Order(
            np.concatenate([self.sets, other.sets + offset]),
            np.concatenate([self.batches, len(self.sets) + other.batches[1:]]),
            np.concatenate([self.blocks, len(self.batches) - 1 + other.blocks[1:]]),
            np.concatenate([self.layers, len(self.blocks) - 1 + other.layers[1:]]),
        )


def in_blocks(starts: Array, members: Array, places: Array, particles: int, most: int) -> Order:
    """Sets in blocks of at most `most` neighbours by their `places` (k, 3)."""
    parts = _bisected(places, most)
    touched = [np.unique(gather(starts, members, part)[1]) for part in parts]
    ends = np.cumsum([0, *(len(t) for t in touched)]).astype(np.int64)
    order, layers = by_colour(ends, np.concatenate(touched), particles)
    sets, batches, blocks = [np.empty(0, np.int64)], [np.zeros(1, np.int64)], [0]
    begun = 0
    for part in (parts[k] for k in order):
        inner, bounds = by_colour(*gather(starts, members, part), particles)
        sets.append(part[inner])
        batches.append(begun + bounds[1:])
        blocks.append(blocks[-1] + len(bounds) - 1)
        begun += len(part)
    return Order(np.concatenate(sets), np.concatenate(batches), np.array(blocks, np.int64), layers)


def in_chunks(starts: Array, members: Array, particles: int, most: int) -> Order:
    """Sets that lie anywhere: one layer a colour, in blocks of one batch of at most `most` each."""
    sets, colours = by_colour(starts, members, particles)
    bounds = [np.arange(a, b, most) for a, b in pairwise(colours)]
    batches = np.concatenate([*bounds, colours[-1:]]).astype(np.int64)
    layers = np.cumsum([0, *(len(b) for b in bounds)]).astype(np.int64)
    return Order(sets, batches, np.arange(len(batches)), layers)


def _bisected(places: Array, most: int) -> list[Array]:
    """Points (k, 3) cut in halves along the longest side of their box until no part has more than `most`."""
    waiting, parts = [np.arange(len(places))], []
    while waiting:
        part = waiting.pop()
        if len(part) <= most:
            parts.append(part)
            continue
        axis = int(np.ptp(places[part], axis=0).argmax())
        order = part[np.argsort(places[part, axis], kind="stable")]
        waiting += [np.sort(order[len(order) // 2 :]), np.sort(order[: len(order) // 2])]
    return parts


def gather(starts: Array, values: Array, chosen: Array) -> tuple[Array, Array]:
    """The chosen rows of a ragged array, as a ragged array."""
    counts = np.diff(starts)[chosen]
    ends = np.cumsum(counts)
    index = np.arange(counts.sum()) + np.repeat(starts[chosen] - (ends - counts), counts)
    return np.concatenate([[0], ends]).astype(np.int64), values[index]
