"""After which frames there is a checkpoint, whatever the disk does."""

import signal
import threading
import tomllib
from itertools import pairwise

import pytest
from small_scenes import HANDLES
from waiting import DEADLINE

from pointglue.io import FrameStore
from pointglue.io.signals import Ending
from pointglue.scene import checkpointing, run, run_scene
from pointglue.scene.checkpointing import LONG_FRAME, MOST_LOST, TIME_SHARE, CheckpointSchedule, FrameWriter
from pointglue.scene.simulation import Simulation


def kept(schedule, frames, cost):
    """Which of some frames, by what they take (s), have a checkpoint that takes `cost` (s)."""
    found = []
    for number, seconds in enumerate(frames):
        if schedule.due(seconds):
            found.append(number)
            schedule.written(cost)
    return found


@pytest.mark.parametrize("cost", [1e-3, 0.6, 50.0])
def test_there_is_one_after_every_long_frame(cost):
    """However slow the disk is: a heap of 20 s a frame was lost for a checkpoint that took 0.6 s."""
    assert kept(CheckpointSchedule(), [1.1 * LONG_FRAME] * 9, cost) == list(range(9))
    mixed = kept(CheckpointSchedule(), [0.01, 0.01, 2.0, 0.01, 2.0, 0.01], cost)
    assert {0, 2, 4} <= set(mixed)


def test_checkpoints_of_quick_frames_take_a_small_share():
    cost = 0.01
    found = kept(CheckpointSchedule(), [0.01] * 10_000, cost)
    assert cost * len(found) == pytest.approx(TIME_SHARE * 100, rel=0.05)


@pytest.mark.parametrize("cost", [0.5, 50.0])
def test_no_more_than_some_seconds_of_quick_frames_are_lost(cost):
    found = kept(CheckpointSchedule(), [0.9] * 100, cost)
    apart = [b - a for a, b in pairwise(found)]
    assert max(apart) * 0.9 <= MOST_LOST + 0.9


def test_a_run_of_long_frames_has_a_checkpoint_of_each(tmp_path, monkeypatch):
    """By a clock of its own, on which a frame takes 20 s and a checkpoint 0.6 s."""
    now, saved = 0.0, []
    advance, save = Simulation.advance, checkpointing.save_checkpoint

    def clock():
        return now

    def slow_frame(self, state, **options):
        nonlocal now
        now += 20.0
        return advance(self, state, **options)

    def slow_disk(path, arrays, **options):
        nonlocal now
        now += 0.6
        saved.append(arrays["number"])
        save(path, arrays, **options)

    monkeypatch.setattr(run, "perf_counter", clock)
    monkeypatch.setattr(checkpointing, "perf_counter", clock)
    monkeypatch.setattr(Simulation, "advance", slow_frame)
    monkeypatch.setattr(checkpointing, "save_checkpoint", slow_disk)
    list(run_scene(tomllib.loads(HANDLES), tmp_path, overrides={"frames.count": 9}))
    assert saved == FrameStore.open(tmp_path).numbers() == list(range(1001, 1010))


def test_who_waits_for_the_disk_can_be_interrupted(tmp_path, monkeypatch):
    """By a signal while the last frame is written: that goes on as long as the process does."""
    write, abandon = FrameStore.write, FrameWriter.abandon
    begun, waiting, free = threading.Event(), threading.Event(), threading.Event()

    def slow_disk(self, frame):
        if frame.number == 1002:
            begun.set()
            assert free.wait(DEADLINE)
        return write(self, frame)

    def wait(self):
        waiting.set()
        abandon(self)

    def interrupt():
        assert begun.wait(DEADLINE)
        assert waiting.wait(DEADLINE)
        # Sent to this thread, it does not wake the main one, as if it had come just before that waits.
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    monkeypatch.setattr(FrameStore, "write", slow_disk)
    monkeypatch.setattr(FrameWriter, "abandon", wait)
    run = run_scene(tomllib.loads(HANDLES), tmp_path / "run")
    next(run), next(run)
    threads = [thread for thread in threading.enumerate() if thread.name == "pointglue writer"]
    with Ending():
        other = threading.Thread(target=interrupt)
        other.start()
        with pytest.raises(KeyboardInterrupt):
            run.close()
        other.join()
    assert FrameStore.open(tmp_path / "run").numbers() == [1001]
    free.set()
    for thread in threads:
        thread.join(DEADLINE)
    run.close()
    assert [frame.number for frame in run_scene(tomllib.loads(HANDLES), tmp_path / "run", resume=True)] == [
        1003, 1004, 1005,
    ]  # fmt: skip
