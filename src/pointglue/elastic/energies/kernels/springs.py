"""Kernels of springs: element e joins points ``edges[e]``, with n its direction and l its length."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array
from ....compute import kernel

__all__ = ["SpringElements", "gradients", "hessians", "rate_gradients", "rate_hessians", "values"]


class SpringElements(NamedTuple):
    """The elements: E springs."""

    edges: NDArray[np.int64]
    """(E, 2): the points that each joins."""
    rest_length: Array
    """(E,): the length at rest [m]."""
    stiffness: Array
    """(E,): k [N/m]."""
    damping: Array
    """(E,): c [N s/m]."""


@kernel
def _direction(x, edge, n):
    """Fill n and return l; where the ends meet, n is the first axis, so that a force parts them."""
    total = 0.0
    for axis in range(len(n)):
        n[axis] = x[edge[0], axis] - x[edge[1], axis]
        total += n[axis] * n[axis]
    length = math.sqrt(total)
    for axis in range(len(n)):
        n[axis] = n[axis] / length if length > 0.0 else (1.0 if axis == 0 else 0.0)
    return length


@kernel
def values(start, stop, x, springs, out):
    """Fill in the energy (E,) of each spring: k/2 (l - rest_length)^2."""
    edges, rest_length, stiffness = springs.edges, springs.rest_length, springs.stiffness
    n = np.empty(x.shape[1])
    for e in range(start, stop):
        out[e] = 0.5 * stiffness[e] * (_direction(x, edges[e], n) - rest_length[e]) ** 2


@kernel
def gradients(start, stop, x, springs, out):
    """Fill in the gradient (E, 2, d) of each spring: +- k (l - rest_length) n."""
    edges, rest_length, stiffness = springs.edges, springs.rest_length, springs.stiffness
    n = np.empty(x.shape[1])
    for e in range(start, stop):
        pull = stiffness[e] * (_direction(x, edges[e], n) - rest_length[e])
        for axis in range(len(n)):
            out[e, 0, axis], out[e, 1, axis] = pull * n[axis], -pull * n[axis]


@kernel
def _four_blocks(block, out):
    """Fill in the matrix [[B, -B], [-B, B]]."""
    d = len(block)
    for i in range(d):
        for j in range(d):
            value = block[i, j]
            out[i, j] = out[d + i, d + j] = value
            out[i, d + j] = out[d + i, j] = -value


@kernel
def hessians(start, stop, x, springs, project, out):
    """Fill in the stiffness (E, 2 d, 2 d) of each spring, [[B, -B], [-B, B]].

    B = k (n n^T + (1 - rest_length / l) (I - n n^T)); with `project` the second factor is not negative.
    """
    edges, rest_length, stiffness = springs.edges, springs.rest_length, springs.stiffness
    d = x.shape[1]
    n, block = np.empty(d), np.empty((d, d))
    for e in range(start, stop):
        length = _direction(x, edges[e], n)
        across = 1.0 if rest_length[e] == 0.0 else 0.0
        if length > 0.0:
            across = 1.0 - rest_length[e] / length
        if project:
            across = max(across, 0.0)
        for i in range(d):
            for j in range(d):
                both = n[i] * n[j]
                block[i, j] = stiffness[e] * (both + across * ((1.0 if i == j else 0.0) - both))
        _four_blocks(block, out[e])


@kernel
def rate_gradients(start, stop, x, v, springs, out):
    """Fill in the damping gradient (E, 2, d) of each spring: +- c n n . u, u the relative velocity."""
    edges, damping = springs.edges, springs.damping
    d = x.shape[1]
    n = np.empty(d)
    for e in range(start, stop):
        _direction(x, edges[e], n)
        speed = 0.0
        for axis in range(d):
            speed += n[axis] * (v[edges[e, 0], axis] - v[edges[e, 1], axis])
        for axis in range(d):
            push = damping[e] * speed * n[axis]
            out[e, 0, axis], out[e, 1, axis] = push, -push


@kernel
def rate_hessians(start, stop, x, v, springs, symmetric, by_x, by_v):
    """Fill in the derivatives (E, 2 d, 2 d) of each damping gradient by x and by v, [[B, -B], [-B, B]].

    B is c / l ((n . u) (I - n n^T) + n (u - n (n . u))^T) by x, or its symmetric part; c n n^T by v.
    """
    edges, damping = springs.edges, springs.damping
    d = x.shape[1]
    n, u, block = np.empty(d), np.empty(d), np.empty((d, d))
    for e in range(start, stop):
        length = _direction(x, edges[e], n)
        speed = 0.0
        for axis in range(d):
            u[axis] = v[edges[e, 0], axis] - v[edges[e, 1], axis]
            speed += n[axis] * u[axis]
        inverse = damping[e] / length if length > 0.0 else 0.0
        for i in range(d):
            for j in range(d):
                turned = n[i] * (u[j] - n[j] * speed)
                if symmetric:
                    turned = 0.5 * (turned + n[j] * (u[i] - n[i] * speed))
                block[i, j] = inverse * (speed * ((1.0 if i == j else 0.0) - n[i] * n[j]) + turned)
        _four_blocks(block, by_x[e])
        for i in range(d):
            for j in range(d):
                block[i, j] = damping[e] * n[i] * n[j]
        _four_blocks(block, by_v[e])
