"""Products of matrices of 6 by 6 blocks: of the Hessian of an elastic piece, and of its coarse level."""

from .....compute import kernel

__all__ = ["multiply_beams", "prolong", "restrict"]


@kernel
def multiply_beams(start, stop, matrix, x, out):
    """Compute rows start to stop of the matrix of beams times x (p, 6)."""
    own, starts, others, numbers = matrix.own, matrix.starts, matrix.others, matrix.numbers
    signs, stretch, turn, bend = matrix.signs, matrix.stretch, matrix.turn, matrix.bend
    for i in range(start, stop):
        a, b, c, d, e, f = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for s in range(6):
            y = x[i, s]
            a += own[i, s, 0] * y
            b += own[i, s, 1] * y
            c += own[i, s, 2] * y
            d += own[i, s, 3] * y
            e += own[i, s, 4] * y
            f += own[i, s, 5] * y
        for n in range(starts[i], starts[i + 1]):
            j, m = others[n], numbers[n]
            k, tx, ty, tz = stretch[m], signs[n] * turn[m, 0], signs[n] * turn[m, 1], signs[n] * turn[m, 2]
            px, py, pz, u, v, w = x[j, 0], x[j, 1], x[j, 2], x[j, 3], x[j, 4], x[j, 5]
            a -= k * px + ty * w - tz * v
            b -= k * py + tz * u - tx * w
            c -= k * pz + tx * v - ty * u
            d += bend[m, 0] * u + bend[m, 1] * v + bend[m, 2] * w - ty * pz + tz * py
            e += bend[m, 1] * u + bend[m, 3] * v + bend[m, 4] * w - tz * px + tx * pz
            f += bend[m, 2] * u + bend[m, 4] * v + bend[m, 5] * w - tx * py + ty * px
        out[i, 0], out[i, 1], out[i, 2], out[i, 3], out[i, 4], out[i, 5] = a, b, c, d, e, f


@kernel
def restrict(start, stop, matrix, x, out):
    """Compute rows start to stop of a block matrix times x (columns, 6)."""
    starts, columns, blocks = matrix.starts, matrix.columns, matrix.blocks
    for i in range(start, stop):
        a, b, c, d, e, f = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for n in range(starts[i], starts[i + 1]):
            j = columns[n]
            for s in range(6):
                y = x[j, s]
                a += blocks[n, s, 0] * y
                b += blocks[n, s, 1] * y
                c += blocks[n, s, 2] * y
                d += blocks[n, s, 3] * y
                e += blocks[n, s, 4] * y
                f += blocks[n, s, 5] * y
        out[i, 0], out[i, 1], out[i, 2], out[i, 3], out[i, 4], out[i, 5] = a, b, c, d, e, f


@kernel
def prolong(start, stop, matrix, coarse, own, x, out):
    """Compute rows start to stop of a block matrix times `coarse` (columns, 6), plus blocks `own` times x."""
    starts, columns, blocks = matrix.starts, matrix.columns, matrix.blocks
    for i in range(start, stop):
        a, b, c, d, e, f = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for s in range(6):
            y = x[i, s]
            a += own[i, s, 0] * y
            b += own[i, s, 1] * y
            c += own[i, s, 2] * y
            d += own[i, s, 3] * y
            e += own[i, s, 4] * y
            f += own[i, s, 5] * y
        for n in range(starts[i], starts[i + 1]):
            j = columns[n]
            for s in range(6):
                y = coarse[j, s]
                a += blocks[n, s, 0] * y
                b += blocks[n, s, 1] * y
                c += blocks[n, s, 2] * y
                d += blocks[n, s, 3] * y
                e += blocks[n, s, 4] * y
                f += blocks[n, s, 5] * y
        out[i, 0], out[i, 1], out[i, 2], out[i, 3], out[i, 4], out[i, 5] = a, b, c, d, e, f
