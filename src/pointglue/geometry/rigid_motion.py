"""Rigid motions over time: key poses, or any function of time."""

from collections.abc import Callable
from dataclasses import dataclass
from math import atan2, dist, hypot, sin
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, check_finite, check_real, check_rotations, check_vector, frozen
from ..errors import InputError
from ..procrustes import special_procrustes
from .quaternions import matrices_of

__all__ = ["Motion", "RigidMotion", "check_rotation", "pose_at"]


@dataclass(frozen=True, eq=False)
class Motion:
    """Key poses of a rigid motion p -> R p + t.

    Translations go straight from key to key, and rotations the shorter way round at a constant rate. Before
    the first key and after the last one the motion rests.

    Parameters
    ----------
    times : (k,)
        The times of the keys, increasing [s].
    positions : (k, 3)
        The translations t at the keys [m].
    rotations : (k, 4), optional
        The rotations R at the keys: quaternions wxyz of any length but 0. Without them nothing turns.

    Raises
    ------
    InputError
        If the times do not increase, a shape does not fit or a number is not finite.
    """

    times: ArrayLike
    positions: ArrayLike
    rotations: ArrayLike | None = None

    def __post_init__(self) -> None:
        """Check the keys, and turn quaternions of any length into neighbouring unit ones."""
        times = check_finite("times", self.times)
        if times.ndim != 1 or not len(times):
            raise InputError(f"times must be a list of at least one time, got shape {times.shape}")
        if (np.diff(times) <= 0).any():
            k = int(np.argmax(np.diff(times) <= 0))
            raise InputError(f"times must increase, got {times[k + 1]} after {times[k]} at index {k + 1}")
        positions = check_finite("positions", self.positions)
        if positions.shape != (len(times), 3):
            raise InputError(f"positions must have shape ({len(times)}, 3), got shape {positions.shape}")
        rotations = np.tile([1.0, 0.0, 0.0, 0.0], (len(times), 1))
        if self.rotations is not None:
            rotations = check_finite("rotations", self.rotations)
            if rotations.shape != (len(times), 4):
                raise InputError(f"rotations must have shape ({len(times)}, 4), got shape {rotations.shape}")
            largest = np.abs(rotations).max(1, keepdims=True)
            if not largest.all():
                raise InputError(f"rotations must not be zero, got zeros at index {int(largest.argmin())}")
            rotations = rotations / largest
            rotations /= np.linalg.norm(rotations, axis=1, keepdims=True)
            # q and -q are the same rotation: of the two ways between keys, the shorter one.
            opposed = (rotations[1:] * rotations[:-1]).sum(1) < 0
            rotations[1:] *= np.cumprod(np.where(opposed, -1.0, 1.0))[:, None]
        for name, value in (("times", times), ("positions", positions), ("rotations", rotations)):
            object.__setattr__(self, name, frozen(value))

    def at(self, time: float) -> tuple[Array, Array]:
        """Return the pose at a time.

        Parameters
        ----------
        time : float
            The time [s].

        Returns
        -------
        rotation : (3, 3)
            R.
        translation : (3,)
            t [m].

        Raises
        ------
        InputError
            If `time` is no finite number.
        """
        time = check_real("time", time)
        times, positions, rotations = (np.asarray(a) for a in (self.times, self.positions, self.rotations))
        k = min(max(int(np.searchsorted(times, time)) - 1, 0), max(len(times) - 2, 0))
        after = min(k + 1, len(times) - 1)
        share = 0.0
        if after > k:
            share = min(max(float((time - times[k]) / (times[after] - times[k])), 0.0), 1.0)
        q = _slerp(rotations[k].tolist(), rotations[after].tolist(), share)
        return matrices_of(np.array(q)), (1 - share) * positions[k] + share * positions[after]


def _slerp(q0: list[float], q1: list[float], share: float) -> list[float]:
    """Return the unit quaternion at a share of the way from q0 to q1; plain numbers are faster for one."""
    # The angle between the two, from both diagonals: exact for small ones.
    angle = 2 * atan2(dist(q0, q1), hypot(*(a + b for a, b in zip(q0, q1, strict=True))))
    w0, w1 = 1 - share, share
    if angle > 0:
        w0, w1 = sin(w0 * angle) / sin(angle), sin(w1 * angle) / sin(angle)
    q = [w0 * a + w1 * b for a, b in zip(q0, q1, strict=True)]
    length = hypot(*q)
    return [a / length for a in q]


RigidMotion: TypeAlias = Motion | Callable[[float], tuple[ArrayLike, ArrayLike]]
"""A rigid motion: keys, or a function of time that returns a rotation (3, 3) and a translation (3,)."""


def pose_at(name: str, motion: RigidMotion, time: float) -> tuple[Array, Array]:
    """Return the pose of a motion at a time.

    Parameters
    ----------
    name : str
        What error messages call the motion.
    motion : Motion or callable
        The motion.
    time : float
        The time [s].

    Returns
    -------
    rotation : (3, 3)
        R.
    translation : (3,)
        t [m].

    Raises
    ------
    InputError
        If the motion is none, or does not return a pose.
    """
    if isinstance(motion, Motion):
        return motion.at(time)
    if not callable(motion):
        raise InputError(f"{name} must be a Motion or a function of time, got {type(motion).__name__}")
    pose = motion(time)
    if not isinstance(pose, tuple | list) or len(pose) != 2:
        raise InputError(f"{name} must return a rotation (3, 3) and a translation (3,), got {pose!r}")
    return check_rotation(f"{name}'s rotation", pose[0]), check_vector(f"{name}'s translation", pose[1])


def check_rotation(name: str, value: ArrayLike) -> Array:
    """Return the rotation nearest to a matrix that is one but for rounding.

    Parameters
    ----------
    name : str
        What error messages call it.
    value : (3, 3)
        The matrix.

    Returns
    -------
    (3, 3)
        The rotation.

    Raises
    ------
    InputError
        If it is no rotation.
    """
    return special_procrustes(check_rotations(name, value, (3, 3)))
