"""Compiled loops over bound points."""

import numpy as np

from ..compute import kernel

__all__ = ["sum_blocks"]


@kernel
def sum_blocks(start, stop, blocks, order, starts, sums):
    """sums[p] = sum of blocks[order[e]] over e from starts[p] to starts[p + 1]."""
    size = blocks.shape[1]
    total = np.empty(size)
    for place in range(start, stop):
        total[:] = 0.0
        for entry in range(starts[place], starts[place + 1]):
            for k in range(size):
                total[k] += blocks[order[entry], k]
        for k in range(size):
            sums[place, k] = total[k]
