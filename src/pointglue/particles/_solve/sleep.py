"""Sleep: what has been quiet for a while, and rests on something, stays exactly where it is."""

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute.launching import Launcher
from .kernels.motion import sleeping
from .kernels.records import ParticleArrays, ParticleBuffers
from .schedule import Schedule

__all__ = ["Sleep"]

# Ratio to the speed of a fall by its own size: what is slower is quiet; soft bodies settle more slowly.
QUIET, QUIET_SOFT = 1e-2, 1e-3
# s: what has been quiet for so long falls asleep.
DROWSY = 0.5


class Sleep:
    """The times for which particles have been quiet, and the speeds below which they are."""

    still: Array
    """(n,), how long each particle's island has been quiet [s]."""
    start: Array
    """(n, 3), the positions at the start of the substep [m]."""
    held: NDArray[np.bool_]
    """(pieces,): in contact with a collider in this substep, or pinned."""
    restless: NDArray[np.bool_]
    """(pieces,): never to sleep in this substep, whatever its speed."""

    def __init__(self, count: int, pieces: int) -> None:
        self._launcher = Launcher()
        self.still, self.start = np.zeros(count), np.empty((count, 3))
        self.held, self.restless = np.empty(pieces, np.bool_), np.empty(pieces, np.bool_)
        self._quiet, self._speeds = np.empty(pieces, np.int64), np.empty(pieces)

    def plan(self, schedule: Schedule, bounds: Array, gravity: Array, friction: float) -> None:
        """Work out how slow pieces have to be; without friction, or while they creep, they never sleep."""
        topology, body = schedule.topology, schedule.topology.body
        piece_of, count = topology.piece_of, len(self._speeds)
        low, high = np.full((count, 3), np.inf), np.full((count, 3), -np.inf)
        np.minimum.at(low, piece_of, body.positions - bounds[:, None])
        np.maximum.at(high, piece_of, body.positions + bounds[:, None])
        fall = np.sqrt(2 * np.linalg.norm(gravity) * (high - low).max(1))
        soft = np.bincount(piece_of, (schedule.group_of < 0) & ~topology.alone, count) > 0
        never = np.bincount(piece_of, np.isfinite(body.yield_strain) & (body.creep > 0), count) > 0
        # What hangs on pins settles for as long as it likes.
        never |= soft & (np.bincount(piece_of, schedule.fixed, count) > 0)
        self._speeds[:] = np.where(soft, QUIET_SOFT, QUIET) * fall
        self._speeds[never | (friction == 0)] = -1.0

    def begin(self, X: Array) -> None:
        """Keep the positions (n, 3) at the start of a substep [m]."""
        self.start[:] = X
        self.restless[:] = self._speeds < 0

    def end(
        self, h: float, islands: NDArray[np.int64], particles: ParticleArrays, buffers: ParticleBuffers
    ) -> None:
        """Put back what sleeps; `islands` (pieces,) are the roots of what touches each other."""
        self._launcher.call(sleeping.find_restless, self._speeds, particles, buffers, self.restless)
        quiet = ((islands, self.held, self.restless), particles, self.start, buffers)
        self._launcher.call(sleeping.fall_asleep, h, DROWSY, *quiet, self.still, self._quiet)
