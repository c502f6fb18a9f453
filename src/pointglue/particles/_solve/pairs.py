"""The pairs of particles that may collide, and those that do in one substep."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute import run, thread_count
from ...compute.launching import Launcher
from .colouring import by_color, by_number
from .kernels.contact import contacts, friction
from .kernels.contact.records import Friction, HashGrid, PairArrays, PairFilter, Restitution
from .kernels.records import ParticleArrays, ParticleBuffers, RigidGroups

__all__ = ["NearPairs", "PairContacts", "each_color", "touching_pairs"]

# Particles that are closer at rest than this fraction of the smaller radius count as touching there.
TOUCHING = 0.02
# Particles or pairs worth a thread of their own.
GRAIN = 512
# Particles of a block: what contact reads of them fits into the cache of a core.
BLOCK = 2048


class NearPairs:
    """The spatial hash: cells as wide as particles reach, by their size, in a table of fixed size."""

    def __init__(self, count: int, launcher: Launcher | None = None) -> None:
        self.grid = HashGrid(
            balls=np.empty((count, 4)),
            cells=np.empty((count, 4), np.int64),
            table=np.empty(2 ** max(4, math.ceil(math.log2(2 * count))) + 2, np.int64),
            ids=np.empty(count, np.int64),
            sorted_balls=np.empty((count, 4)),
        )
        self.launcher = launcher or Launcher()
        self.starts = np.empty(count + 1, np.int64)
        self.near, self.counts = np.empty((count, 8), np.int32), np.empty(count, np.int64)

    def find(self, bounds: Array, X: Array, P: Array, without: PairFilter) -> NDArray[np.int64]:
        """Return the pairs (k, 2) that may meet on their paths and that are not filtered out."""
        count, grid = len(bounds), self.grid
        grids = self.launcher.call(contacts.fill_table, bounds, X, P, grid)
        self.cell = grids[0]
        while True:
            looked_at = (grids, grid, without, bounds, X, (self.near, self.counts))
            self.launcher.run(contacts.find_near, count, GRAIN, *looked_at)
            most = int(self.counts.max())
            if most <= self.near.shape[1]:
                break
            self.near = np.empty((count, 2 * most), np.int32)
        pairs = np.empty((int(self.counts.sum()), 2), np.int64)
        if len(pairs):
            contacts.list_pairs(grid.ids, self.near, self.counts, self.starts, pairs)
        return pairs


def each_color(
    launcher: Launcher, colors: NDArray[np.int64], function: Callable[..., None], *arguments: object
) -> None:
    """Call a kernel colour after colour; those too small to be divided are done in one call."""
    base, count = int(colors[0]), int(colors[-1])
    large = 2 * GRAIN if thread_count() > 1 else count + 1
    for begin, end in pairwise(colors):
        if end - begin >= large:
            if base < begin:
                launcher.call(function, 0, begin - base, base, *arguments)
            launcher.run(function, end - begin, GRAIN, begin, *arguments)
            base = end
    if base < count:
        launcher.call(function, 0, count - base, base, *arguments)


def touching_pairs(positions: Array, rotations: Array, radii: Array) -> NDArray[np.int64]:
    """Return the pairs (k, 2) of ellipsoids that overlap or as good as touch."""
    count = len(positions)
    bounds = radii.max(1)
    everyone = PairFilter(
        family=np.full(count, -1),
        fixed=np.zeros(count, np.bool_),
        apart=np.empty(0, np.int64),
        apart_starts=np.zeros(count + 1, np.int64),
    )
    near = NearPairs(count).find(bounds, positions, positions, everyone)
    axes = np.einsum("nik,nk,njk->nij", rotations, radii**2, rotations).reshape(count, 9)
    unturned, depth = np.tile(np.eye(3).reshape(9), (count, 1)), np.empty(len(near))
    run(contacts.overlaps, len(near), GRAIN, near, positions, axes, unturned, depth)
    near = near[depth > -TOUCHING * bounds[near].min(1)]
    return np.asarray(near[np.lexsort((near[:, 1], near[:, 0]))])


class PairContacts:
    """The pairs of one substep: found once, then separated in every iteration."""

    arrays: PairArrays
    """The pairs that may touch, and how far contact has moved them."""
    hidden: NDArray[np.bool_] | None
    """Particles (n,) that do not collide, because the hull of their group does; None for none."""
    taken: NDArray[np.int64]
    """(k, 2), pairs of which one is elastic: their contacts are not resolved here."""

    def __init__(self, count: int, bounds: Array, family: NDArray[np.int64]) -> None:
        self.bounds, self.family = bounds, family
        self.finder = NearPairs(count)
        self.hidden: NDArray[np.bool_] | None = None
        self._apart_of: NDArray[np.int64] | None = None
        self.arrays = PairArrays(np.empty((0, 2), np.int64), np.zeros(0), np.zeros((0, 3)))
        self.taken = np.empty((0, 2), np.int64)

    def __len__(self) -> int:
        return len(self.arrays.pairs)

    def prepare(
        self,
        X: Array,
        P: Array,
        fixed: NDArray[np.bool_],
        group_of: Array,
        touching: NDArray[np.int64],
        elastic: NDArray[np.bool_] | None = None,
    ) -> None:
        """Find the pairs that may meet on their paths from X to P, sorted by colour.

        Those of (n,) elastic particles are put aside.
        """
        if touching is not self._apart_of:
            self._apart_of, self._apart = touching, _listed(touching, len(X))
        pairs = self.finder.find(self.bounds, X, P, PairFilter(self.family, fixed, *self._apart))
        if elastic is not None:  # they meet the particles of hulls, too
            others = elastic[pairs].any(1)
            self.taken, pairs = pairs[others], pairs[~others]
        if self.hidden is not None:
            pairs = pairs[~self.hidden[pairs].any(1)]
        # What is fixed does not keep two pairs from one colour; rigid groups move as a whole.
        moving = np.where(group_of >= 0, len(X) + group_of, np.arange(len(X)))
        order, self.blocks, self.colors = self._in_blocks(np.where(fixed, -1, moving), pairs)
        pairs = pairs[order]
        self.arrays = PairArrays(pairs, np.zeros(len(pairs)), np.zeros((len(pairs), 3)))

    def _in_blocks(
        self, moving: NDArray[np.int64], pairs: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Return the order of pairs: those within blocks of near particles first, then those between blocks.

        The particles of a block stay in the cache of the thread that works on it. `moving` (n,) is the number
        of what moves with each particle, -1 if fixed. With the order come where each block begins and ends,
        and then each colour of the pairs between blocks.
        """
        block_of = self._blocks_of(moving)
        nodes = moving[pairs]
        count = int(moving.max()) + 1
        starts = np.arange(0, 2 * len(pairs) + 1, 2)
        if block_of is None:
            order, colors = by_color(starts, nodes.ravel(), count)
            return order, colors[:1], colors
        shared = np.empty(len(pairs), np.int64)
        self.finder.launcher.run(contacts.shared_blocks, len(pairs), GRAIN, nodes, block_of, shared)
        within, between = np.flatnonzero(shared >= 0), np.flatnonzero(shared < 0)
        order, _ = by_color(starts[: len(within) + 1], nodes[within].ravel(), count)
        order = within[order]
        block_order, blocks = by_number(shared[order])
        last, colors = by_color(starts[: len(between) + 1], nodes[between].ravel(), count)
        return np.concatenate([order[block_order], between[last]]), blocks, len(within) + colors

    def _blocks_of(self, moving: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return the block of everything that moves, by its number; None if one block holds all."""
        count = len(moving) // BLOCK
        if count < 2:
            return None
        keys = np.empty(len(moving), np.int64)
        self.finder.launcher.run(
            contacts.curve_keys, len(keys), GRAIN, self.finder.cell, self.finder.grid.balls, keys
        )
        placed = np.empty(len(moving), np.int64)
        placed[np.argsort(keys, kind="stable")] = np.arange(len(moving)) * count // len(moving)
        # A rigid group is where its first particle is.
        block_of = np.zeros(int(moving.max()) + 1, np.int64)
        free = np.flatnonzero(moving >= 0)[::-1]
        block_of[moving[free]] = placed[free]
        return block_of

    def _each(self, function: Callable[..., None], *arguments: object) -> None:
        """Call a kernel block after block, then colour after colour for what is between blocks."""
        if not len(self):
            return
        launcher = self.finder.launcher
        if len(self.blocks) > 1:
            blocks = self.blocks

            def work(start: int, stop: int) -> None:
                first, end = int(blocks[start]), int(blocks[stop])
                function(0, end - first, first, *arguments)

            run(work, len(blocks) - 1, 1)
        each_color(launcher, self.colors, function, *arguments)

    def separate(
        self, recovery: float, groups: RigidGroups, particles: ParticleArrays, buffers: ParticleBuffers
    ) -> None:
        """Move apart what overlaps; overlaps of before the substep by at most `recovery` radii."""
        self._each(contacts.separate, recovery, self.arrays, groups, particles, buffers)

    def apply_friction(
        self, coefficients: Friction, groups: RigidGroups, particles: ParticleArrays, buffers: ParticleBuffers
    ) -> None:
        """Apply friction between particles that touched."""
        self._each(friction.pair_friction, coefficients, self.arrays, groups, particles, buffers)

    def apply_restitution(
        self,
        restitution: Restitution,
        groups: RigidGroups,
        particles: ParticleArrays,
        buffers: ParticleBuffers,
    ) -> None:
        """Limit the speed at which particles that touched part."""
        self._each(friction.pair_restitution, restitution, self.arrays, groups, particles, buffers)


def _listed(pairs: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the partners of each particle as a ragged array: values and starts."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    order = np.argsort(both[:, 0], kind="stable")
    counts = np.bincount(both[:, 0], minlength=count)
    return both[order, 1], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
