"""Which particles may collide, and the pairs that do in one substep."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute import run, thread_count
from .colouring import by_colour
from .kernels import contacts, friction

__all__ = ["PairContacts", "touching_pairs"]

# Particles that are closer at rest than this fraction of their radii count as touching there.
TOUCHING = 0.02
GRAIN = 512


class _NearPairs:
    """The spatial hash: cells as wide as an ordinary particle reaches, in a table of fixed size."""

    def __init__(self, count: int) -> None:
        self.balls, self.sorted_balls = np.empty((count, 4)), np.empty((count, 4))
        self.cells = np.empty((count, 3), np.int64)
        self.table = np.empty(2 ** max(4, math.ceil(math.log2(2 * count))) + 2, np.int64)
        self.ids, self.starts = np.empty(count, np.int64), np.empty(count + 1, np.int64)
        self.near, self.counts = np.empty((count, 8), np.int32), np.empty(count, np.int64)

    def find(
        self,
        bounds: Array,
        X: Array,
        P: Array,
        family: NDArray[np.int64],
        fixed: NDArray[np.bool_],
        apart: tuple[NDArray[np.int64], NDArray[np.int64]],
    ) -> NDArray[np.int64]:
        """Pairs (k, 2) whose swept balls meet and that are not in one family and not kept apart."""
        count = len(bounds)
        grid = (self.balls, self.cells, self.table, self.ids, self.sorted_balls)
        cell = contacts.fill_table(bounds, X, P, *grid)
        far = np.flatnonzero(self.sorted_balls[:, 3] > 0.5 * cell)
        while True:
            found = (self.ids, self.sorted_balls, family, fixed, *apart, self.near, self.counts)
            run(contacts.find_near, count, GRAIN, cell, self.cells, self.table, *found)
            if len(far):
                run(contacts.find_far, len(far), 8, far, *found)
            most = int(self.counts.max())
            if most <= self.near.shape[1]:
                break
            self.near = np.empty((count, 2 * most), np.int32)
        pairs = np.empty((int(self.counts.sum()), 2), np.int64)
        if len(pairs):
            contacts.list_pairs(self.ids, self.near, self.counts, self.starts, pairs)
        return pairs


def touching_pairs(positions: Array, rotations: Array, radii: Array) -> NDArray[np.int64]:
    """Pairs (k, 2) of ellipsoids that overlap or as good as touch."""
    count = len(positions)
    bounds = radii.max(1)
    no_pairs = (np.empty(0, np.int64), np.zeros(count + 1, np.int64))
    free, alone = np.zeros(count, np.bool_), np.full(count, -1)
    near = _NearPairs(count).find(bounds, positions, positions, alone, free, no_pairs)
    axes = np.einsum("nik,nk,njk->nij", rotations, radii**2, rotations).reshape(count, 9)
    still, depth = np.tile(np.eye(3).reshape(9), (count, 1)), np.empty(len(near))
    run(contacts.overlapping, len(near), GRAIN, near, positions, axes, still, depth)
    near = near[depth > -TOUCHING * bounds[near].min(1)]
    return np.asarray(near[np.lexsort((near[:, 1], near[:, 0]))])


class PairContacts:
    """The pairs of one substep: found once, then separated in every iteration."""

    def __init__(self, count: int, bounds: Array, family: NDArray[np.int64]) -> None:
        self.bounds, self.family = bounds, family
        self.finder = _NearPairs(count)
        self._apart_of: NDArray[np.int64] | None = None
        self.pairs = np.empty((0, 2), np.int64)

    def prepare(
        self, X: Array, P: Array, fixed: NDArray[np.bool_], rigid_of: Array, touching: NDArray[np.int64]
    ) -> None:
        """Find the pairs that may meet on the way from X to P, sorted by colour."""
        if touching is not self._apart_of:
            self._apart_of, self.apart = touching, _listed(touching, len(X))
        pairs = self.finder.find(self.bounds, X, P, self.family, fixed, self.apart)
        if len(pairs):
            starts = np.arange(0, 2 * len(pairs) + 1, 2)
            # What is fixed does not keep two pairs from one colour; rigid groups move as a whole.
            moving = np.where(rigid_of >= 0, len(X) + rigid_of, np.arange(len(X)))
            nodes = np.where(fixed, -1, moving)[pairs].ravel()
            order, self.colours = by_colour(starts, nodes, len(X) + int(rigid_of.max()) + 1)
            pairs = pairs[order]
        self.pairs = pairs
        self.touched, self.normals = np.zeros(len(pairs)), np.zeros((len(pairs), 3))

    def _each(self, function: Callable[..., None], *arguments: object) -> None:
        """Colour after colour; those too small to be divided are done in one call, as far as they follow."""
        base, large = 0, 2 * GRAIN if thread_count() > 1 else len(self.pairs) + 1
        for begin, end in pairwise(self.colours):
            if end - begin >= large:
                if base < begin:
                    function(0, begin - base, base, *arguments)
                run(function, end - begin, GRAIN, begin, *arguments)
                base = end
        if base < len(self.pairs):
            function(0, len(self.pairs) - base, base, *arguments)

    def separate(self, recovery: float, *arrays: Array) -> None:
        """Push apart what overlaps. Arrays: inverse masses, rigid_of, pieces, C, X, P, E, frames, met.

        `recovery`, in radii, is how far overlaps of before come apart.
        """
        if len(self.pairs):
            met = arrays[-1]
            found = (*arrays[:-1], self.touched, self.normals, met)
            self._each(contacts.separate, recovery, self.pairs, self.bounds, *found)

    def rub(self, mu: float, roll: float, *arrays: Array) -> None:
        """Friction of what touched. Arrays: frames, rigid_of, inverse masses, alone, C, M, X, F, P, E."""
        if len(self.pairs):
            self._each(friction.rub_pairs, mu, roll, self.pairs, self.touched, self.normals, *arrays)

    def calm(self, bounce: float, slow: float, *arrays: Array) -> None:
        """No speed from being pushed apart. Arrays: rigid_of, inverse masses, X, V0, V, struck, frames."""
        if len(self.pairs):
            self._each(friction.calm_pairs, bounce, slow, self.pairs, self.touched, self.normals, *arrays)


def _listed(pairs: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each particle the others of its pairs, as a ragged array: values and starts."""
    both = np.concatenate([pairs, pairs[:, ::-1]])
    order = np.argsort(both[:, 0], kind="stable")
    counts = np.bincount(both[:, 0], minlength=count)
    return both[order, 1], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
