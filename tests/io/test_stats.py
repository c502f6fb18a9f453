"""Statistics of a run, a line for each frame: written as they come, and mended where they were cut short."""

import json

import numpy as np
import pytest
from small_runs import frame, stored_objects, write_run

from pointglue.errors import PointglueError
from pointglue.io import Frame, FrameStore, StatsLog


def lines(store):
    return [json.loads(line) for line in store.stats.read_text().splitlines()]


@pytest.fixture
def store(tmp_path):
    with FrameStore.create(tmp_path / "run", stored_objects(), rate=24) as store:
        yield store


def test_lines_are_there_as_soon_as_they_are_added(store):
    with StatsLog(store, range(0)) as log:
        assert store.stats.read_bytes() == b""
        for number in (1, 2):
            store.add(frame(number))
            log.add({"frame": number, "seconds": {"total": 0.5}, "events": []})
            assert lines(store)[-1] == {"frame": number, "seconds": {"total": 0.5}, "events": []}


def test_what_is_not_finite_is_null(store):
    with StatsLog(store, range(0)) as log:
        log.add({"frame": 1, "gap": np.inf, "seconds": {"total": np.nan}, "events": [{"time": -np.inf}]})
    assert lines(store) == [{"frame": 1, "gap": None, "seconds": {"total": None}, "events": [{"time": None}]}]


def test_frames_tell_their_statistics(tmp_path):
    with FrameStore.create(tmp_path, [], rate=10) as store:
        store.add(Frame(number=12, time=0.5, stats={"contacts": np.int32(3), "error": np.float64("nan")}))
        assert store.about(12) == pytest.approx(
            {"frame": 12, "time": 0.5, "contacts": 3, "error": np.nan}, nan_ok=True
        )


def begun(store, text):
    """Of frames 1 to 3."""
    for number in (1, 2, 3):
        store.add(frame(number))
    store.stats.write_bytes(text.encode())


WHOLE = '{"frame": 1, "mine": 1}\n{"frame": 2, "mine": 2}\n{"frame": 3, "mine": 3}\n'


def test_a_log_that_goes_on_keeps_its_lines(store):
    begun(store, WHOLE)
    with StatsLog(store, range(1, 4)) as log:
        log.add({"frame": 4})
    assert store.stats.read_text() == WHOLE + '{"frame": 4}\n'


def test_lines_after_the_checkpoint_go(store):
    begun(store, WHOLE)
    StatsLog(store, range(1, 3)).close()
    assert [line["frame"] for line in lines(store)] == [1, 2]
    StatsLog(store, range(0)).close()
    assert lines(store) == []


@pytest.mark.parametrize(
    "left",
    [
        WHOLE[:-10],  # killed while it wrote
        WHOLE[:-1],  # before the end of the line
        WHOLE[:24],  # a power cut
        '{"frame": 1, "mine": 1}\n\0\0\0\0\0\n[3]\n{"frame": "3"}\n{"frame": 7}\n',
    ],
)
def test_what_is_cut_short_or_missing_is_made_again_from_the_frames(left, store):
    begun(store, left)
    StatsLog(store, range(1, 4)).close()
    found = lines(store)
    assert [line["frame"] for line in found] == [1, 2, 3]
    assert found[0] == {"frame": 1, "mine": 1}
    assert found[2] == {"frame": 3, "time": frame(3).time, **frame(3).stats}


def test_runs_of_earlier_versions_have_no_lines_until_they_end(tmp_path):
    store = write_run(tmp_path)
    StatsLog(store, range(1, 4)).close()
    assert [line["iterations"] for line in lines(store)] == [1, 2, 3]


def test_a_full_disk_is_told(small_disk):
    with FrameStore.create(small_disk / "run", [], rate=24) as store, StatsLog(store, range(0)) as log:
        log.add({"frame": 1})
        with pytest.raises(PointglueError, match=r"stats\.jsonl: cannot be written: No space left on device"):
            log.add({"frame": 2, "text": "x" * 2_000_000})
        StatsLog(store, []).close()  # which makes room
        assert store.stats.read_bytes() == b""
