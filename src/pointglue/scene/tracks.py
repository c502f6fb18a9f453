"""Transforms and keyframes of the tables of a scene, as matrices and motions."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.transform import Rotation

from ..checks import Array
from ..errors import InputError
from ..particles import Motion
from .schema.fields import Key, Transform
from .schema.scene import Frames

__all__ = ["NumberTrack", "Track", "box_center", "placed", "rotation"]


def rotation(turn: tuple[float, ...]) -> Array:
    """Return the matrix (3, 3) of degrees about x, then y, then z, or of a quaternion wxyz."""
    if len(turn) == 3:
        return np.asarray(Rotation.from_euler("xyz", turn, degrees=True).as_matrix())
    return np.asarray(Rotation.from_quat([*turn[1:], turn[0]]).as_matrix())


def placed(points: ArrayLike, transform: Transform) -> Array:
    """Return points (n, 3) scaled, rotated and translated."""
    scaled = np.asarray(points, np.float64) * transform.scale
    return scaled @ rotation(transform.rotate).T + transform.translate


def box_center(points: Array) -> Array:
    """Return the centre (3,) of the box around points (n, 3)."""
    return np.asarray((points.min(0) + points.max(0)) / 2)


class Track:
    """A keyframed rigid motion x -> R x + t of points, from where they are at the start.

    Parameters
    ----------
    keys : tuple of Key
        Poses at times, relative to the start.
    frames : Frames
        The frames of the scene, which give times in frames a meaning in seconds.
    ease : {"smooth", "linear"}
        Whether the motion slows down at each key.
    pivot : (3,)
        The point about which keys turn [m].

    Raises
    ------
    InputError
        If times of keys do not increase.
    """

    def __init__(self, keys: tuple[Key, ...], frames: Frames, ease: str, pivot: Array) -> None:
        turns = [rotation(key.rotate) for key in keys]
        self.times = np.array([frames.seconds(key.time) for key in keys])
        quaternions = Rotation.from_matrix(turns).as_quat()[:, [3, 0, 1, 2]]
        try:
            self._motion = Motion(self.times, [key.translate for key in keys], quaternions)
        except InputError as error:
            raise InputError(str(error).removeprefix("times ")) from None
        self._smooth, self._pivot = ease == "smooth", pivot

    def at(self, time: float) -> tuple[Array, Array]:
        """Return R (3, 3) and t (3,) [m] at a time [s]."""
        eased = _eased(self.times, float(time)) if self._smooth else float(time)
        turn, shift = self._motion.at(eased)
        return turn, shift + self._pivot - turn @ self._pivot

    def matrix(self, time: float) -> Array:
        """Return the same as one matrix (4, 4)."""
        T = np.eye(4)
        T[:3, :3], T[:3, 3] = self.at(time)
        return T


class NumberTrack:
    """A keyframed number.

    Parameters
    ----------
    times : (n,)
        The times of the keys, which increase [s].
    values : (n,)
        The numbers at those times; before the first and after the last they stay.
    ease : {"smooth", "linear"}
        Whether the number slows down at each key.

    Raises
    ------
    InputError
        If times do not increase.
    """

    def __init__(self, times: ArrayLike, values: ArrayLike, ease: str) -> None:
        self.times, self.values = np.asarray(times, np.float64), np.asarray(values, np.float64)
        if not (np.diff(self.times) > 0).all():
            raise InputError(f"keys must have times that increase, got {self.times.tolist()}")
        self._smooth = ease == "smooth"

    def __call__(self, time: float) -> float:
        """Return the number at a time [s]."""
        return float(np.interp(_eased(self.times, time) if self._smooth else time, self.times, self.values))


def _eased(times: Array, time: float) -> float:
    """Return the time [s] at which a linear motion would be where one that slows down at each key is."""
    k = int(np.searchsorted(times, time)) - 1
    if not 0 <= k < len(times) - 1:
        return time
    begin, end = times[k], times[k + 1]
    share = (time - begin) / (end - begin)
    return float(begin + (end - begin) * share * share * (3 - 2 * share))
