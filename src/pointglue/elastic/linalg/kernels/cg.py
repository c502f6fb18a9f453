"""Compiled loops of conjugate gradients, over chunks of nodes: sums have one order whatever the threads."""

from ....compute import kernel

CHUNK = 512  # nodes


@kernel
def invert_blocks(start, stop, blocks, out):
    """Inverses of symmetric 3 x 3 matrices; the identity in place of one that is not positive."""
    for i in range(start, stop):
        B, C = blocks[i], out[i]
        a, b, c, d, e, f = B[0, 0], B[0, 1], B[0, 2], B[1, 1], B[1, 2], B[2, 2]
        p, q, r = d * f - e * e, c * e - b * f, b * e - c * d
        det = a * p + b * q + c * r
        if not (a > 0.0 and a * d - b * b > 0.0 and det > 0.0):
            for j in range(3):
                for k in range(3):
                    C[j, k] = 1.0 if j == k else 0.0
            continue
        C[0, 0], C[0, 1], C[0, 2] = p / det, q / det, r / det
        C[1, 1], C[1, 2], C[2, 2] = (a * f - c * c) / det, (b * c - a * e) / det, (a * d - b * b) / det
        C[1, 0], C[2, 0], C[2, 1] = C[0, 1], C[0, 2], C[1, 2]


@kernel
def multiply(start, stop, count, indptr, indices, data, p, q, sums):
    """q = A p for a matrix of 3 x 3 blocks, and p . q of each chunk."""
    for chunk in range(start, stop):
        total = 0.0
        for i in range(CHUNK * chunk, min(CHUNK * (chunk + 1), count)):
            begin = indptr[3 * i]
            width = indptr[3 * i + 1] - begin
            x = y = z = 0.0
            for k in range(begin, begin + width, 3):
                j = indices[k]
                a, b, c = p[j], p[j + 1], p[j + 2]
                x += data[k] * a + data[k + 1] * b + data[k + 2] * c
                m = k + width
                y += data[m] * a + data[m + 1] * b + data[m + 2] * c
                m += width
                z += data[m] * a + data[m + 1] * b + data[m + 2] * c
            q[3 * i], q[3 * i + 1], q[3 * i + 2] = x, y, z
            total += p[3 * i] * x + p[3 * i + 1] * y + p[3 * i + 2] * z
        sums[chunk] = total


@kernel
def advance(start, stop, count, alpha, inverses, p, q, x, r, z, sums):
    """x += alpha p, r -= alpha q, z = inverses r, and r . z of each chunk."""
    for chunk in range(start, stop):
        total = 0.0
        for i in range(CHUNK * chunk, min(CHUNK * (chunk + 1), count)):
            for j in range(3 * i, 3 * i + 3):
                x[j] += alpha * p[j]
                r[j] -= alpha * q[j]
            for j in range(3):
                B = inverses[i]
                z[3 * i + j] = B[j, 0] * r[3 * i] + B[j, 1] * r[3 * i + 1] + B[j, 2] * r[3 * i + 2]
                total += z[3 * i + j] * r[3 * i + j]
        sums[chunk] = total


@kernel
def turn(start, stop, count, beta, z, group_of, moves, p):
    """p = z + beta p, and the move of its group for each node."""
    for chunk in range(start, stop):
        for i in range(CHUNK * chunk, min(CHUNK * (chunk + 1), count)):
            move = moves[group_of[i]]
            for j in range(3):
                p[3 * i + j] = z[3 * i + j] + move[j] + beta * p[3 * i + j]
