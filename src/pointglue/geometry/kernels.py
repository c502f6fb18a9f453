"""Compiled loops over points and cells."""

import numpy as np

from ..compute import kernel

__all__ = ["search"]


@kernel
def search(start, stop, points, boxes, starts, cells, maps, extent, tolerance, found, weights):
    """The cell in whose barycentric coordinates b the smallest is largest, if that is at least -tolerance."""
    d, k = points.shape[1], weights.shape[1]
    for i in range(start, stop):
        if boxes[i] < 0:
            continue
        best = -tolerance
        for entry in range(starts[boxes[i]], starts[boxes[i] + 1]):
            cell = cells[entry]
            least = np.inf
            height = 0.0
            for row in range(maps.shape[1]):
                b = maps[cell, row, d]
                for axis in range(d):
                    b += maps[cell, row, axis] * points[i, axis]
                if row >= k:
                    height = abs(b)
                elif not b >= least:  # nan, of a flat cell, is the least of all
                    least = b
            if height <= tolerance * extent[cell] and least >= best:
                best, found[i] = least, cell
        if found[i] < 0:
            continue
        total = 0.0
        for row in range(k):
            b = maps[found[i], row, d]
            for axis in range(d):
                b += maps[found[i], row, axis] * points[i, axis]
            weights[i, row] = max(b, 0.0)
            total += weights[i, row]
        for row in range(k):
            weights[i, row] /= total
