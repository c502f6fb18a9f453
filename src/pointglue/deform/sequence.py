"""The one evaluator of moving handles: poses frame by frame, each with the rotations of the frame before."""

from collections.abc import Callable

import numpy as np

from ..checks import Array, check_integer, check_real
from .deformer import HandleDeformer
from .pose import HandlePose

__all__ = ["HandleSequence"]

# Rotations of every so many frames are kept, so that a frame is reached again without walking from the first:
# 72 bytes a vertex each, 50 MB for 50,000 vertices and 240 frames.
KEPT_INTERVAL = 16

HandlesAt = Callable[[float], tuple[Array, Array | None]]


class HandleSequence:
    """A deformer whose handles move with time, and the pose of any frame.

    The pose of a frame depends on that of the frame before, by damping, where the handles leave a rotation
    open, and in which side a flat shape shows. So frames are evaluated one after the other from the first,
    frame 0 at time 0, however they are asked for, and all who show, export or simulate them get the same.

    Parameters
    ----------
    deformer : HandleDeformer
        The shape and its handles at rest.
    handles_at : callable
        Takes a time [s] to the handles (H, d) [m] and their rotations (H, d, d), None if they have none.
    rate : float
        Frames per second [1/s].

    Raises
    ------
    InputError
        If the rate is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> deformer = HandleDeformer(np.eye(3), np.eye(3), damping=0.1)
    >>> sequence = HandleSequence(deformer, lambda time: (np.eye(3) * (1 + time), None), rate=24.0)
    >>> sequence.pose(12).positions.shape
    (3, 3)
    """

    def __init__(self, deformer: HandleDeformer, handles_at: HandlesAt, rate: float) -> None:
        self.deformer, self.handles_at = deformer, handles_at
        self.rate = check_real("rate", rate, above=0)
        self._last: tuple[int, HandlePose] | None = None
        self._kept: dict[int, Array] = {}  # rotations (V, d, d) by frame

    def evaluate(self, time: float, previous: Array | None = None) -> HandlePose:
        """Return the pose at a time, given the rotations of the frame before.

        Parameters
        ----------
        time : float
            The time [s].
        previous : (V, d, d), optional
            The rotations of the vertices in the frame before; None for the first frame.

        Returns
        -------
        HandlePose
        """
        handles, rotations = self.handles_at(time)
        return self.deformer.at(handles, rotations=rotations, previous=previous)

    def pose(self, frame: int) -> HandlePose:
        """Return the pose of a frame.

        Parameters
        ----------
        frame : int
            The number of the frame, 0 for the first.

        Returns
        -------
        HandlePose

        Raises
        ------
        InputError
            If the number is negative.
        """
        number = check_integer("frame", frame, at_least=0)
        if self._last is None or self._last[0] != number:
            self._last = number, self._alone(number) or self._walk(number)
        return self._last[1]

    def previous(self, frame: int) -> Array | None:
        """Return the rotations of the frame before (V, d, d), None where nothing depends on them.

        Nothing does in the first frame, and without damping if the shape is not flat and the handles of the
        frame before determine every rotation. It serves handles that are dragged in a frame, whose keys are
        not yet set.
        """
        if frame == 0:
            return None
        before = self.pose(frame - 1)
        return before.rotations if self.deformer.remembers or before.degenerate.any() else None

    def adopt(self, other: "HandleSequence") -> None:
        """Keep what another sequence of the same deformer has computed, up to where the handles differ.

        An edit of a late key then does not cost a walk from the first frame.
        """
        if other.deformer is not self.deformer or other.rate != self.rate:
            return
        known = sorted(other._kept)
        for frame in range(known[-1] + 1 if known else 0):
            ours, theirs = (each.handles_at(frame / self.rate) for each in (self, other))
            if not all(map(_equal, ours, theirs)):
                break
            if frame in other._kept:
                self._kept[frame] = other._kept[frame]

    def _alone(self, frame: int) -> HandlePose | None:
        """Return the pose of a frame if it does not depend on the one before, else None."""
        if frame > 0 and self.deformer.remembers:
            return None
        pose = self.evaluate(frame / self.rate)
        return None if frame > 0 and pose.degenerate.any() else pose

    def _walk(self, frame: int) -> HandlePose:
        """Return the pose of a frame that is not the first, from the nearest frame before that is known."""
        known = {number: rotations for number, rotations in self._kept.items() if number < frame}
        if self._last is not None and self._last[0] < frame:
            known[self._last[0]] = self._last[1].rotations
        if not known:
            known[0] = self.evaluate(0.0).rotations
        nearest = max(known)
        previous = known[nearest]
        for number in range(nearest + 1, frame + 1):
            pose = self.evaluate(number / self.rate, previous)
            previous = pose.rotations
            if number % KEPT_INTERVAL == 0:
                self._kept[number] = previous
        return pose


def _equal(one: Array | None, other: Array | None) -> bool:
    """Return whether two arrays, or absences of one, are the same."""
    return one is other if one is None or other is None else bool(np.array_equal(one, other))
