"""Frames and checkpoints, written to disk by a thread of their own."""

import queue
import threading
from time import perf_counter

from ..io.checkpoints import save_checkpoint
from ..io.frame_records import Frame
from ..io.frames import FrameStore, FrameTemplate, PackedFrame
from ..io.stats import StatsLog
from .simulation import Simulation, SimulationState

__all__ = ["CheckpointSchedule", "FrameWriter"]

TIME_SHARE = 0.005  # share of the time of quick frames that checkpoints may take
LONG_FRAME = 1.0  # s: after a frame that takes longer there always is a checkpoint
MOST_LOST = 10.0  # s of quick frames that a killed process loses at most
SIGNAL_INTERVAL = 0.1  # s: after so long a signal is seen that came just before a wait began
SYNC_INTERVAL = 0.1  # s a frame: slower frames are synchronised to disk, so that a power cut loses none


class CheckpointSchedule:
    """The frames after which there is a checkpoint.

    There is one after every frame that took more than a second to compute, however slow the disk is. After
    quicker frames there is one as soon as it takes no more than a small share of the time since the last,
    or when ten seconds of work would be lost without.
    """

    def __init__(self) -> None:
        self._pending, self._wait = 0.0, 0.0

    def due(self, seconds: float) -> bool:
        """Return whether a checkpoint follows a frame that took `seconds` to compute."""
        self._pending += seconds
        return seconds > LONG_FRAME or self._pending >= self._wait

    def written(self, seconds: float) -> None:
        """Record that a checkpoint took `seconds` to write."""
        self._pending, self._wait = 0.0, min(seconds / TIME_SHARE, MOST_LOST)


class FrameWriter:
    """Writes frames and checkpoints while the next frame is computed, in the order in which they come.

    Frames that come quickly are left to the system to bring to the disk: a power cut, unlike a kill, may
    take the last ones, and a run that is resumed then finds them missing.
    """

    def __init__(
        self, store: FrameStore, stats: StatsLog, simulation: Simulation, *, scene_hash: str
    ) -> None:
        """Write to a store and its statistics, which are closed with it."""
        self._store, self._stats, self._simulation, self._hash = store, stats, simulation, scene_hash
        # Two templates take turns: one is filled in while the other is written.
        self._templates: queue.SimpleQueue[FrameTemplate] = queue.SimpleQueue()
        self._frames: queue.SimpleQueue[tuple[PackedFrame, SimulationState, float] | None] = (
            queue.SimpleQueue()
        )
        for _ in range(2):
            self._templates.put(store.template())
        self._error: BaseException | None = None
        self._synced = perf_counter()
        self._spent: dict[str, float] = {}  # s on the checkpoint after the last frame
        # Thread.join cannot be used here: after an interruption it treats a running thread as ended.
        self._ended = threading.Event()
        threading.Thread(target=self._work, name="pointglue writer", daemon=True).start()

    def put(self, frame: Frame, state: SimulationState, seconds: float) -> None:
        """Hand over a frame that took `seconds` to compute; errors of earlier writes are raised here."""
        self._raise()
        # Packed here, where its arrays still are in the caches, and nothing has changed them yet.
        self._frames.put((self._store.pack(frame, self._templates.get()), state, seconds))

    def close(self) -> None:
        """Wait until all is written; errors of writing are raised."""
        self.abandon()
        self._raise()

    def abandon(self) -> None:
        """Wait until all is written, or writing has failed.

        A signal interrupts a wait that has begun. One that arrives in the moment before it begins is only
        looked at when the wait is over, so no wait is long.
        """
        self._frames.put(None)
        while not self._ended.wait(SIGNAL_INTERVAL):
            pass

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            waiting: SimulationState | None = None  # the last that has no checkpoint yet
            schedule = CheckpointSchedule()
            while (item := self._frames.get()) is not None:
                frame, state, seconds = item
                if self._error is None:
                    try:
                        self._write(frame, state, seconds)
                        waiting = state
                        if schedule.due(seconds):
                            schedule.written(self._checkpoint(state))
                            waiting = None
                    except BaseException as error:
                        self._error = error
                self._templates.put(frame.template)  # in any case, so that no thread waits for ever
            if waiting is not None and self._error is None:
                self._checkpoint(waiting)
        except BaseException as error:
            self._error = error
        finally:
            self._stats.close()
            self._ended.set()

    def _write(self, frame: PackedFrame, state: SimulationState, seconds: float) -> None:
        """Write a frame and then its line of statistics: what has a checkpoint has both."""
        begin = perf_counter()
        self._store.write(frame)
        more = self._simulation.details(state)
        spent = {"total": seconds, **more.pop("seconds"), "write": perf_counter() - begin, **self._spent}
        more["seconds"] = {part: round(value, 6) for part, value in spent.items()}
        self._stats.add(frame.about | more)
        self._spent = {}

    def _checkpoint(self, state: SimulationState) -> float:
        """Write a checkpoint, and return how long it took [s]."""
        begin = perf_counter()
        if begin - self._synced > SYNC_INTERVAL * self._store.unsynced:
            self._store.sync()
            self._stats.sync()
            self._synced = begin
        save_checkpoint(self._store.checkpoint, self._simulation.pack(state), scene_hash=self._hash)
        self._spent = {"checkpoint": perf_counter() - begin}
        return self._spent["checkpoint"]
