"""Quaternions wxyz and rotation matrices of whole arrays."""

import numpy as np

from ..checks import Array

__all__ = ["matrices_of", "quaternions_of"]


def matrices_of(quaternions: Array) -> Array:
    """Return the rotation matrices of unit quaternions.

    Parameters
    ----------
    quaternions : (..., 4)
        The quaternions wxyz.

    Returns
    -------
    (..., 3, 3)
        The rotations.
    """
    w, x, y, z = np.moveaxis(quaternions, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def quaternions_of(matrices: Array) -> Array:
    """Return the unit quaternions of rotation matrices, with w not negative.

    Row k of the symmetric matrix 4 q q^T is known from sums of entries; the row with the largest diagonal
    entry has lost no digits.

    Parameters
    ----------
    matrices : (..., 3, 3)
        The rotations.

    Returns
    -------
    (..., 4)
        The quaternions wxyz.
    """
    R = matrices
    a, b, c = R[..., 0, 0], R[..., 1, 1], R[..., 2, 2]
    x, y, z = R[..., 2, 1] - R[..., 1, 2], R[..., 0, 2] - R[..., 2, 0], R[..., 1, 0] - R[..., 0, 1]
    u, v, w = R[..., 1, 0] + R[..., 0, 1], R[..., 2, 0] + R[..., 0, 2], R[..., 2, 1] + R[..., 1, 2]
    rows = np.stack(
        [
            np.stack([1 + a + b + c, x, y, z], axis=-1),
            np.stack([x, 1 + a - b - c, u, v], axis=-1),
            np.stack([y, u, 1 - a + b - c, w], axis=-1),
            np.stack([z, v, w, 1 - a - b + c], axis=-1),
        ],
        axis=-2,
    )
    best = np.diagonal(rows, axis1=-2, axis2=-1).argmax(-1)
    q = np.take_along_axis(rows, best[..., None, None], axis=-2)[..., 0, :]
    q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    return np.asarray(np.where(q[..., :1] < 0, -q, q))
