"""Compiled loops of the degrees of freedom: Jacobian blocks through chains of bindings, and J^T H J.

All blocks are 3 x 3. A block -1 stands for the identity.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...compute import kernel

__all__ = [
    "BlockProducts",
    "ChainLinks",
    "ConstraintLinks",
    "Dependence",
    "compose_blocks",
    "constraint_blocks",
    "reduce_blocks",
    "rigid_blocks",
]


class Dependence(NamedTuple):
    """The nodes that each of N particles depends on, through K Jacobian blocks."""

    node_of: NDArray[np.int64]
    """(N,): the node that the particle is, or -1."""
    first_block: NDArray[np.int64]
    """(N,): the first Jacobian block of a particle that is no node."""
    block_count: NDArray[np.int64]
    """(N,): how many blocks it has."""
    block_nodes: NDArray[np.int64]
    """(K,): the node by which each block is a derivative."""


class ChainLinks(NamedTuple):
    """The sums of products that the blocks of one layer of bindings are."""

    first: int
    """The block that the first sum goes to."""
    starts: NDArray[np.int64]
    """(k + 1,): where the links of each sum begin."""
    entries: NDArray[np.int64]
    """The block of the layer's own binding, of each link."""
    sources: NDArray[np.int64]
    """The Jacobian block of the binding's parent that it is multiplied by, of each link; -1 for a node."""


class ConstraintLinks(NamedTuple):
    """The sums that the blocks of the joints' constraint Jacobian C are."""

    starts: NDArray[np.int64]
    """(k + 1,): where the links of each block of C begin."""
    entries: NDArray[np.int64]
    """The derivative of an equation by a particle, of each link."""
    blocks: NDArray[np.int64]
    """The Jacobian block of that particle, of each link; -1 for a node."""


class BlockProducts(NamedTuple):
    """The sums of products that the blocks of J^T H J are."""

    starts: NDArray[np.int64]
    """(p + 1,): where the products of each block begin."""
    sources: NDArray[np.int64]
    """Where the block of H begins in its data, of each product."""
    widths: NDArray[np.int64]
    """How far apart the rows of that block are."""
    lefts: NDArray[np.int64]
    """The Jacobian block whose transpose is on the left, or -1."""
    rights: NDArray[np.int64]
    """The Jacobian block on the right, or -1."""
    targets: NDArray[np.int64]
    """(p,): where each block begins in the data of the result."""
    strides: NDArray[np.int64]
    """(p,): how far apart its rows are."""


@kernel
def rigid_blocks(start, stop, rows, arms, blocks):
    """Fill blocks 2 k and 2 k + 1 of a particle on a body with I and -[r]x, r = arms[rows[k]]."""
    for k in range(start, stop):
        x, y, z = arms[rows[k], 0], arms[rows[k], 1], arms[rows[k], 2]
        shift, turn = blocks[2 * k], blocks[2 * k + 1]
        for i in range(3):
            for j in range(3):
                shift[i, j] = 1.0 if i == j else 0.0
        turn[0, 0], turn[0, 1], turn[0, 2] = 0.0, z, -y
        turn[1, 0], turn[1, 1], turn[1, 2] = -z, 0.0, x
        turn[2, 0], turn[2, 1], turn[2, 2] = y, -x, 0.0


@kernel
def compose_blocks(start, stop, links, own, blocks):
    """Fill block links.first + k with the sum of own[entry] blocks[source] over its links."""
    first, starts, entries, sources = links.first, links.starts, links.entries, links.sources
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
def constraint_blocks(start, stop, links, gradients, blocks, out):
    """Fill out[k] with the sum of blocks[block]^T gradients[entry] over the links of block k."""
    starts, entries, sources = links.starts, links.entries, links.blocks
    for k in range(start, stop):
        x = y = z = 0.0
        for e in range(starts[k], starts[k + 1]):
            g = gradients[entries[e]]
            if sources[e] < 0:
                x, y, z = x + g[0], y + g[1], z + g[2]
            else:
                B = blocks[sources[e]]
                x += g[0] * B[0, 0] + g[1] * B[1, 0] + g[2] * B[2, 0]
                y += g[0] * B[0, 1] + g[1] * B[1, 1] + g[2] * B[2, 1]
                z += g[0] * B[0, 2] + g[1] * B[1, 2] + g[2] * B[2, 2]
        out[k, 0], out[k, 1], out[k, 2] = x, y, z


@kernel
def reduce_blocks(start, stop, products, blocks, data, out):
    """Fill block p of J^T H J with the sum of blocks[left]^T H blocks[right] over blocks H of `data`."""
    starts, sources, widths = products.starts, products.sources, products.widths
    lefts, rights = products.lefts, products.rights
    targets, strides = products.targets, products.strides
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
