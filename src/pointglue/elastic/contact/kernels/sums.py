"""Sums of what contacts give over vertices, and its blocks, in the order of the contacts."""

from ....compute import kernel

__all__ = ["add_gradients", "spread_blocks"]


@kernel
def add_gradients(points, gradients, out) -> None:
    """Add the gradients (K, 4, 3) of contacts with points (K, 4) to those of the vertices (V, 3)."""
    for k in range(len(points)):
        for i in range(4):
            p = points[k, i]
            if p >= 0:
                for a in range(3):
                    out[p, a] += gradients[k, i, a]


@kernel
def spread_blocks(start, stop, points, hessians, begins, out):
    """Fill in the vertices of rows and columns (B,) and blocks (B, 3, 3) of contacts with points (K, 4).

    Those of contact k, of Hessians (K, 12, 12), begin at begins[k].
    """
    rows, columns, blocks = out
    for k in range(start, stop):
        slot = begins[k]
        for i in range(4):
            if points[k, i] < 0:
                continue
            for j in range(4):
                if points[k, j] < 0:
                    continue
                rows[slot], columns[slot] = points[k, i], points[k, j]
                for a in range(3):
                    for b in range(3):
                        blocks[slot, a, b] = hessians[k, 3 * i + a, 3 * j + b]
                slot += 1
