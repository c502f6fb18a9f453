"""Frames on disk: to the last bit, whole or not at all, and what is wrong is said."""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_runs import frame, stored_objects, write_run

from pointglue import files
from pointglue.errors import InputError, PointglueError
from pointglue.io import Frame, FrameStore, StoredObject, save_checkpoint


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        a, b = np.asarray(one[name]), np.asarray(other[name])
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), name


def test_all_comes_back_to_the_last_bit(tmp_path):
    write_run(tmp_path / "run", scene_hash="abc", rate=23.976)
    store = FrameStore.open(tmp_path / "run")
    assert (store.rate, store.scene_hash) == (23.976, "abc")
    for before, after in zip(stored_objects(), store.objects, strict=True):
        same({k: v for k, v in vars(before).items() if v is not None},
             {k: v for k, v in vars(after).items() if v is not None})  # fmt: skip
    assert store.numbers() == [1, 2, 3]
    for number, again in zip((1, 2, 3), store, strict=True):
        before = frame(number)
        assert (again.number, again.time) == (number, before.time)
        assert again.stats == before.stats
        assert type(again.stats["iterations"]) is int
        same({name: x.astype(np.float32) for name, x in before.points.items()}, again.points)
        same(before.transforms, again.transforms)


def test_frames_are_plain_npz_files(tmp_path):
    store = write_run(tmp_path)
    with np.load(store.path(2)) as arrays:
        assert (arrays["points/cloth"] == frame(2).points["cloth"].astype(np.float32)).all()
        assert json.loads(str(arrays["frame"]))["stats"] == {"iterations": 2, "residual": 0.05}


def test_points_beyond_32_bits_are_refused(tmp_path):
    store = write_run(tmp_path)
    with FrameStore.open(store.directory, write=True) as store:
        far = frame(4).points | {"cloth": frame(4).points["cloth"] * 1e39}
        with pytest.raises(InputError, match="points of 'cloth' in frame 4 must be finite, got"):
            store.add(replace(frame(4), points=far))
    assert store.numbers() == [1, 2, 3]


def test_the_same_frames_give_the_same_bytes(tmp_path):
    for name, scrambled in (("a", False), ("b", True)):
        with FrameStore.create(tmp_path / name, stored_objects(), rate=24) as store:
            one = frame(1)
            points = dict(reversed(one.points.items())) if scrambled else one.points
            store.add(replace(one, points=points))
        os.utime(store.path(1), (0, 0))
    for file in ("scene.npz", "frames/frame_0001.npz"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_where_everything_is(tmp_path):
    store = write_run(tmp_path)
    one = frame(2)
    found = store.positions(one)
    assert list(found) == ["cloth", "box", "rope", "dust", "stone"]
    box = stored_objects()[1].rest
    expected = [(one.transforms["box"] @ [*corner, 1.0])[:3] for corner in box]
    assert found["box"] == pytest.approx(np.array(expected), abs=1e-15)
    assert (found["stone"] == stored_objects()[4].rest).all()


def test_frames_beyond_four_digits_stay_in_order(tmp_path):
    with FrameStore.create(tmp_path, [], rate=24) as store:
        for number in (10_000, 0, 9999):
            store.add(Frame(number=number, time=0.0))
    assert store.numbers() == [0, 9999, 10_000]


def test_damaged_frames_are_found_and_named(tmp_path):
    store = write_run(tmp_path, range(1, 8))
    whole = store.path(1).read_bytes()
    store.path(2).write_bytes(whole[: len(whole) // 2])
    store.path(3).write_bytes(b"")
    flipped = bytearray(whole)
    flipped[len(whole) // 3] ^= 1
    store.path(4).write_bytes(flipped)
    np.savez(store.path(5), frame=np.array("{}"))
    np.savez(store.path(6), points=np.zeros(3))
    assert store.damaged() == [2, 3, 4, 5, 6]
    for number in store.damaged():
        with pytest.raises(InputError, match=rf"frame_000{number}.npz: .*(damaged|no frame).*Delete it"):
            store.read(number)
    store.path(8).write_bytes(whole)
    with pytest.raises(InputError, match=r"frame_0008.npz: holds frame 1"):
        store.read(8)
    with pytest.raises(InputError, match=r"frame_0009.npz: no such file$"):
        store.read(9)


def test_a_frame_of_another_scene_is_refused(tmp_path):
    store = write_run(tmp_path / "one")
    with FrameStore.create(tmp_path / "two", stored_objects()[:3], rate=24) as other:
        other.path(1).write_bytes(store.path(1).read_bytes())
    with pytest.raises(InputError, match=r"frame_0001.npz: frame 1 has points of 'dust', unlike"):
        other.read(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"number": -1}, "number of a frame must be a whole number of at least 0, got -1"),
        ({"number": 1.0}, "number of a frame must be a whole number of at least 0, got 1.0"),
        ({"time": float("inf")}, "time of frame 1 must be a finite number, got inf"),
        ({"points": {}}, "frame 1 has no points of 'cloth', unlike the description"),
        ({"transforms": {"cloth": np.eye(4)}}, "frame 1 has no transform of 'box'"),
        ({"transforms": {"box": np.eye(3)}}, r"transform of 'box' must have shape \(4, 4\), got \(3, 3\)"),
        ({"stats": {"mood": "good"}}, r"stats\['mood'\] must be a number, got 'good'"),
    ],
)
def test_what_is_wrong_with_a_frame(tmp_path, change, message):
    with (
        FrameStore.create(tmp_path, stored_objects(), rate=24) as store,
        pytest.raises(InputError, match=message),
    ):
        store.add(replace(frame(1), **change))
    assert store.numbers() == []


def test_numbers_that_are_none_are_not_written(tmp_path):
    one = frame(1)
    one.points["cloth"][2, 1] = np.nan
    with (
        FrameStore.create(tmp_path, stored_objects(), rate=24) as store,
        pytest.raises(
            InputError, match=r"points of 'cloth' in frame 1 must be finite, got nan at index \[2, 1\]"
        ),
    ):
        store.add(one)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "a/b"}, "name must be a text without slashes, .* got 'a/b'"),
        ({"name": " "}, "name must be a text"),
        ({"rest": np.zeros((0, 3))}, r"rest of 'cloth' must have shape \(n, 3\), got \(0, 3\)"),
        ({"rest": np.full((4, 3), np.inf)}, "rest of 'cloth' must be finite"),
        ({"faces": [[0, 1, 4]]}, "faces of 'cloth' must be rows of rest, 0 to 3, got 0 to 4"),
        ({"faces": [[0, 1]]}, r"must be whole numbers of shape \(m, 3\), got int64 of shape \(1, 2\)"),
        ({"segments": [[0, 1]]}, "'cloth': faces and segments exclude each other, got both"),
        ({"color": (1, 2, 0)}, r"color of 'cloth' must be three numbers in \[0, 1\], got \(1, 2, 0\)"),
        ({"radius": 0.0}, "radius of 'cloth' must be a finite number above 0, got 0.0"),
        ({"motion": "wobbly"}, r"motion of 'cloth' must be .points., .transform. or .still., got 'wobbly'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_look(change, message):
    with pytest.raises(InputError, match=message):
        replace(stored_objects()[0], **change)


def test_stored_objects_do_not_change():
    rest = np.zeros((2, 3))
    look = StoredObject(name="a", rest=rest)
    rest[:] = 1
    assert (look.rest == 0).all()
    with pytest.raises(ValueError, match="read-only"):
        look.rest[:] = 1


def test_a_run_is_not_overwritten_by_accident(tmp_path):
    store = write_run(tmp_path, range(1, 6))
    save_checkpoint(store.checkpoint, {"x": 1}, scene_hash="")
    save_checkpoint(store.checkpoint, {"x": 2}, scene_hash="")
    store.stats.touch()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.npz")}
    with pytest.raises(InputError, match=f"{tmp_path}: holds a run already"):
        FrameStore.create(tmp_path, [], rate=24)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.npz")} == before
    FrameStore.create(tmp_path, [], rate=24, replace=True).close()
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == [".lock", "scene.npz"]
    assert FrameStore.open(tmp_path).objects == ()


def test_what_is_wrong_with_a_folder(tmp_path):
    with pytest.raises(InputError, match=f"{tmp_path}: holds no run: there is no scene.npz"):
        FrameStore.open(tmp_path)
    with pytest.raises(InputError, match="nowhere: no such folder"):
        FrameStore.open(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file: is a file, not a folder"):
        FrameStore.create(tmp_path / "file", [], rate=24)
    with pytest.raises(PointglueError, match=r"file/below: cannot be written: Not a directory"):
        FrameStore.create(tmp_path / "file" / "below", [], rate=24)
    for rate in (0, "24", float("nan")):
        with pytest.raises(InputError, match="rate must be a finite number above 0, got"):
            FrameStore.create(tmp_path / "a", [], rate=rate)
    with pytest.raises(InputError, match="objects must have different names, got 'cloth' twice"):
        FrameStore.create(tmp_path / "a", [stored_objects()[0]] * 2, rate=24)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"scene": np.array('{"version": 2}')}, "has version 2, but this pointglue reads up to 1: update it"),
        ({"scene": np.array('{"version": 1}')}, "is no description of a run: 'rate'"),
        ({"a": np.zeros(2)}, "is no description of a run: 'scene'"),
    ],
)
def test_what_is_wrong_with_a_description(tmp_path, content, message):
    np.savez(tmp_path / "scene.npz", **content)
    with pytest.raises(InputError, match=f"scene.npz: {message}"):
        FrameStore.open(tmp_path)


def test_a_store_to_read_is_not_written(tmp_path):
    write_run(tmp_path)
    with pytest.raises(InputError, match="the store is open to read, not to write"):
        FrameStore.open(tmp_path).add(frame(4))


@contextmanager
def nobody():
    """Without the rights of root, who may write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_folder_without_rights():
    with tempfile.TemporaryDirectory() as name:  # pytest's are hidden from others
        folder = Path(name)
        write_run(folder / "run")
        folder.chmod(0o755)
        (folder / "run").chmod(0o555)
        with nobody():
            with pytest.raises(PointglueError, match=r"run/.lock: cannot be written: Permission denied"):
                FrameStore.open(folder / "run", write=True)
            with pytest.raises(PointglueError, match=r"cannot be written: Permission denied"):
                FrameStore.create(folder / "run" / "new", [], rate=24)
            assert FrameStore.open(folder / "run").numbers() == [1, 2, 3]
        (folder / "run").chmod(0o755)


def test_a_full_disk_leaves_what_is_there(tmp_path, fill_disk):
    write_run(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.npz")}
    with FrameStore.open(tmp_path, write=True) as store:
        for number in (2, 4):
            fill_disk()
            with pytest.raises(
                PointglueError, match=rf"frame_000{number}.npz: cannot be written: No space left on device"
            ):
                store.add(frame(number))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.npz")} == before


def test_a_small_disk_runs_full(small_disk):
    """A real one: frames until there is no room, and every one that is there is whole."""
    rest = np.random.default_rng(0).random((2000, 3))
    with FrameStore.create(small_disk / "run", [StoredObject(name="a", rest=rest)], rate=24) as store:
        frames = (Frame(number=k, time=0.0, points={"a": rest + k}) for k in range(100))
        with pytest.raises(PointglueError, match=r"cannot be written: No space left on device"):
            list(map(store.add, frames))
        last = store.numbers()[-1]
        assert last > 5
        assert store.damaged() == []
        with pytest.raises(PointglueError, match="No space left on device"):
            save_checkpoint(store.checkpoint, {"x": np.zeros(10_000)}, scene_hash="")
        assert not store.checkpoint.exists()
        store.path(0).unlink()  # somebody makes room
        store.add(Frame(number=last + 1, time=0.0, points={"a": rest}))
    assert not [path for path in small_disk.rglob(".*") if path.name != ".lock"]


WRITER = """
import os, random, signal, sys, time
import numpy as np
from pointglue.io import Frame, FrameStore, StoredObject

folder, rounds = sys.argv[1], int(sys.argv[2])
rest = np.zeros((200_000, 3))  # large, so that writing takes a while
FrameStore.create(folder, [StoredObject(name="a", rest=rest)], rate=24).close()
random.seed(1)
drafts = 0
def writing():
    return any(name.startswith(".") for name in os.listdir(folder + "/frames"))
for k in range(rounds):
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        with FrameStore.open(folder, write=True) as store:
            assert not [name for name in os.listdir(folder + "/frames") if name.startswith(".")]
            if k % 2:
                os.write(go, b"x")
            number = len(store.numbers())
            while True:
                store.add(Frame(number=number, time=0.0, points={"a": rest + number}))
                os.write(go, b"x")  # every other process adds a frame at least, however busy the machine is
                number += 1
    os.close(go)  # or an error of the child would be waited for
    os.read(ready, 1)
    time.sleep(0.03 * random.random())  # at any moment, and every other time while a draft is there
    while k % 2:
        os.kill(child, signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
        if writing():
            break
        os.kill(child, signal.SIGCONT)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL  # and not an error before
    drafts += writing()
print(drafts)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has neither fork nor kill")
def test_killed_at_any_moment_every_frame_is_whole(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(tmp_path / "run"), "20"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 10  # every other one was killed while it wrote
    store = FrameStore.open(tmp_path / "run")
    numbers = store.numbers()
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= 10
    for one in store:
        assert (one.points["a"] == one.number).all()


@pytest.mark.skipif(sys.platform == "win32", reason="has no such locks")
def test_asking_whether_a_run_grows_does_not_keep_it_from_growing(tmp_path, monkeypatch):
    import fcntl

    write_run(tmp_path)
    (tmp_path / ".lock").rename(tmp_path / "elsewhere")
    assert FrameStore.open(tmp_path).growing is None  # it cannot be told
    (tmp_path / "elsewhere").rename(tmp_path / ".lock")
    with (tmp_path / ".lock").open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        monkeypatch.setattr(files.time, "sleep", lambda seconds: fcntl.flock(looking, fcntl.LOCK_UN))
        with FrameStore.open(tmp_path, write=True) as store:
            assert store.growing


@pytest.mark.skipif(sys.platform == "win32", reason="has no such locks")
def test_one_process_writes_at_a_time(tmp_path):
    code = (
        "import sys; from pointglue.io import FrameStore\n"
        "store = FrameStore.create(sys.argv[1], [], rate=24); print('ready', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout.readline() == b"ready\n"
        with pytest.raises(PointglueError, match=f"{tmp_path}: another process is writing there"):
            FrameStore.open(tmp_path, write=True)
        with pytest.raises(PointglueError, match="another process is writing there"):
            FrameStore.create(tmp_path, [], rate=24, replace=True)
        assert FrameStore.open(tmp_path).numbers() == []
        assert FrameStore.open(tmp_path).growing
    finally:
        other.kill()
        other.communicate()
    assert FrameStore.open(tmp_path).growing is False
    draft = Path(tmp_path / "frames" / ".frame_0001-0a1b2c3d.npz")
    draft.touch()
    with FrameStore.open(tmp_path, write=True) as store:
        assert not draft.exists()
        store.add(Frame(number=1, time=0.0))
        store.sync()
    assert store.numbers() == [1]
