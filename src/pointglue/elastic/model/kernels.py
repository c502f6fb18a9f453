"""Compiled loops of freedom: derivatives through chains of bindings, in blocks of 3 x 3."""

from ...compute import kernel


@kernel
def ride(start, stop, rows, arms, blocks):
    """Blocks 2 k and 2 k + 1 of a particle on a body, with the arm r = arms[rows[k]]: I and -[r]x."""
    for k in range(start, stop):
        x, y, z = arms[rows[k], 0], arms[rows[k], 1], arms[rows[k], 2]
        place, turn = blocks[2 * k], blocks[2 * k + 1]
        for i in range(3):
            for j in range(3):
                place[i, j] = 1.0 if i == j else 0.0
        turn[0, 0], turn[0, 1], turn[0, 2] = 0.0, z, -y
        turn[1, 0], turn[1, 1], turn[1, 2] = -z, 0.0, x
        turn[2, 0], turn[2, 1], turn[2, 2] = y, -x, 0.0


@kernel
def compose(start, stop, starts, entries, sources, first, own, blocks):
    """Block first + k of a chain: the sum of own[entry] blocks[source] over its links; -1 is the identity."""
    for k in range(start, stop):
        out = blocks[first + k]
        for i in range(3):
            for j in range(3):
                out[i, j] = 0.0
        for e in range(starts[k], starts[k + 1]):
            A = own[entries[e]]
            if sources[e] < 0:
                for i in range(3):
                    for j in range(3):
                        out[i, j] += A[i, j]
            else:
                B = blocks[sources[e]]
                for i in range(3):
                    for j in range(3):
                        out[i, j] += A[i, 0] * B[0, j] + A[i, 1] * B[1, j] + A[i, 2] * B[2, j]


@kernel
def couple(start, stop, starts, equations, links, signs, directions, blocks, out):
    """out[k] = sum of sign blocks^T direction over the links of a place, each of an equation and a block."""
    for k in range(start, stop):
        x = y = z = 0.0
        for e in range(starts[k], starts[k + 1]):
            n, B = directions[equations[e]], blocks[links[e]]
            x += signs[e] * (n[0] * B[0, 0] + n[1] * B[1, 0] + n[2] * B[2, 0])
            y += signs[e] * (n[0] * B[0, 1] + n[1] * B[1, 1] + n[2] * B[2, 1])
            z += signs[e] * (n[0] * B[0, 2] + n[1] * B[1, 2] + n[2] * B[2, 2])
        out[k, 0], out[k, 1], out[k, 2] = x, y, z


@kernel
def project(start, stop, starts, sources, widths, lefts, rights, blocks, data, targets, strides, out):
    """Block p of J^T H J: the sum of blocks[left]^T H blocks[right] over blocks H of `data`.

    H begins at sources[e] with rows widths[e] apart, the result at targets[p] with rows strides[p] apart;
    a left or right of -1 stands for the identity.
    """
    for p in range(start, stop):
        t00 = t01 = t02 = t10 = t11 = t12 = t20 = t21 = t22 = 0.0
        for e in range(starts[p], starts[p + 1]):
            s, w = sources[e], widths[e]
            a00, a01, a02 = data[s], data[s + 1], data[s + 2]
            a10, a11, a12 = data[s + w], data[s + w + 1], data[s + w + 2]
            a20, a21, a22 = data[s + 2 * w], data[s + 2 * w + 1], data[s + 2 * w + 2]
            if rights[e] >= 0:
                B = blocks[rights[e]]
                a00, a01, a02 = (
                    a00 * B[0, 0] + a01 * B[1, 0] + a02 * B[2, 0],
                    a00 * B[0, 1] + a01 * B[1, 1] + a02 * B[2, 1],
                    a00 * B[0, 2] + a01 * B[1, 2] + a02 * B[2, 2],
                )
                a10, a11, a12 = (
                    a10 * B[0, 0] + a11 * B[1, 0] + a12 * B[2, 0],
                    a10 * B[0, 1] + a11 * B[1, 1] + a12 * B[2, 1],
                    a10 * B[0, 2] + a11 * B[1, 2] + a12 * B[2, 2],
                )
                a20, a21, a22 = (
                    a20 * B[0, 0] + a21 * B[1, 0] + a22 * B[2, 0],
                    a20 * B[0, 1] + a21 * B[1, 1] + a22 * B[2, 1],
                    a20 * B[0, 2] + a21 * B[1, 2] + a22 * B[2, 2],
                )
            if lefts[e] >= 0:
                A = blocks[lefts[e]]
                a00, a10, a20 = (
                    A[0, 0] * a00 + A[1, 0] * a10 + A[2, 0] * a20,
                    A[0, 1] * a00 + A[1, 1] * a10 + A[2, 1] * a20,
                    A[0, 2] * a00 + A[1, 2] * a10 + A[2, 2] * a20,
                )
                a01, a11, a21 = (
                    A[0, 0] * a01 + A[1, 0] * a11 + A[2, 0] * a21,
                    A[0, 1] * a01 + A[1, 1] * a11 + A[2, 1] * a21,
                    A[0, 2] * a01 + A[1, 2] * a11 + A[2, 2] * a21,
                )
                a02, a12, a22 = (
                    A[0, 0] * a02 + A[1, 0] * a12 + A[2, 0] * a22,
                    A[0, 1] * a02 + A[1, 1] * a12 + A[2, 1] * a22,
                    A[0, 2] * a02 + A[1, 2] * a12 + A[2, 2] * a22,
                )
            t00, t01, t02 = t00 + a00, t01 + a01, t02 + a02
            t10, t11, t12 = t10 + a10, t11 + a11, t12 + a12
            t20, t21, t22 = t20 + a20, t21 + a21, t22 + a22
        t, w = targets[p], strides[p]
        out[t], out[t + 1], out[t + 2] = t00, t01, t02
        out[t + w], out[t + w + 1], out[t + w + 2] = t10, t11, t12
        out[t + 2 * w], out[t + 2 * w + 1], out[t + 2 * w + 2] = t20, t21, t22
