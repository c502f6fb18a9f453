"""What goes wrong around a run: kills, damage, full disks, folders and files that are not there."""

import os
import subprocess
import sys

import pytest
from small_scenes import HANDLES, PARTICLES, SOLIDS

from pointglue.io import FrameStore
from pointglue.scene import run_scene

# One process that has everything loaded gives birth to those that are killed: each is at work at once.
NURSERY = """
import os, random, signal, sys, time
from pointglue.scene import run_scene

scene, out, kills = sys.argv[1], sys.argv[2], int(sys.argv[3])
count = len(list(run_scene(scene, out + "-whole")))
run = run_scene(scene, out + "-again")
begin = time.perf_counter()
list(run)
lasts = (time.perf_counter() - begin) / count
rng = random.Random(7)


def written():
    folder = os.path.join(out, "frames")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sum(name.startswith("frame_") for name in names)


for kill in range(kills):
    before = written()
    # The child says when it begins, when the scene is built and after every frame. It is killed a moment
    # after one of these, and does not end by itself: what is left to do at the end is to wait for that.
    listening, telling = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(telling, b"!")
        run = run_scene(scene, out, resume=True)
        os.write(telling, b"!")
        for frame in run:
            os.write(telling, b"!")
        os.write(telling, b"!" * 1000)
        signal.pause()
    os.close(telling)  # or an error of the child would be waited for
    for _ in range(1 if kill % 5 == 0 else 2 + rng.randrange(max(count // kills, 1) + 2)):
        assert os.read(listening, 1)
    while kill % 2 and written() < min(before + 1, count):  # every other one leaves a frame behind
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
        time.sleep(0.001)
    time.sleep(rng.uniform(0, 1) * lasts)  # anywhere within a frame
    os.kill(child, signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL  # and not an error before
    os.close(listening)
"""
FINE = {"objects.bar.mesh.cells": [40, 8, 8], "frames.count": 60}  # frames of 40 kB


def frames(directory):
    return {path.name: path.read_bytes() for path in sorted((directory / "frames").glob("frame_*.npz"))}


@pytest.fixture
def scene(tmp_path):
    file = tmp_path / "scene.toml"
    file.write_text(HANDLES)
    return file


def settings(values):
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.parametrize(
    ("text", "count", "kills"), [(PARTICLES, 40, 14), (SOLIDS, 12, 6)], ids=["particles", "solids"]
)
def test_killed_many_times_and_resumed(text, count, kills, tmp_path):
    """Frames are whole or not there at any time, and the last comes out to the same bytes."""
    file, out = tmp_path / "scene.toml", tmp_path / "run"
    file.write_text(text.replace("count = 8", f"count = {count}"))
    environment = {**os.environ, "POINTGLUE_NUM_THREADS": "1"}
    nursery = [sys.executable, "-c", NURSERY, str(file), str(out), str(kills)]
    done = subprocess.run(nursery, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    whole = frames(tmp_path / "run-whole")
    assert len(whole) == count
    left = frames(out)
    assert len(left) > 0
    assert all(content == whole[name] for name, content in left.items())
    list(run_scene(file, out, resume=True))
    assert frames(out) == whole
    names = {path.name for path in out.iterdir()} - {".lock"}
    assert names == {"checkpoint.npz", "checkpoint.previous.npz", "frames", "scene.npz", "stats.jsonl"}


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 0.999])
def test_truncated_checkpoints(share, command, scene, tmp_path):
    out = tmp_path / "run"
    command("run", scene, "-o", out, "--quiet")
    before = frames(out)
    for names in (["checkpoint.npz"], ["checkpoint.npz", "checkpoint.previous.npz"]):
        for name in names:
            content = (out / name).read_bytes()
            (out / name).write_bytes(content[: int(share * len(content))])
        code, _, told = command("run", scene, "-o", out, "--resume", "--quiet")
        assert code == 0
        assert "warning" in told
        assert "checkpoint.npz" in told
        assert frames(out) == before


def test_damaged_frames_and_descriptions_are_named(command, scene, tmp_path):
    out = tmp_path / "run"
    command("run", scene, "-o", out, "--quiet")
    frame = out / "frames" / "frame_1003.npz"
    frame.write_bytes(frame.read_bytes()[:-100])
    code, _, told = command("render", out, "--no-movie")
    assert code == 1
    assert f"{frame}: is damaged" in told
    (out / "scene.npz").write_bytes(b"")
    code, _, told = command("run", scene, "-o", out, "--resume")
    assert code == 1
    assert f"{out / 'scene.npz'}: is damaged" in told
    assert command("run", scene, "-o", out, "--replace", "--quiet")[0] == 0
    assert FrameStore.open(out).damaged() == []


def test_a_frame_damaged_inside_is_computed_again_as_the_error_says(command, scene, tmp_path):
    out, usd = tmp_path / "run", ["--set", "output.formats=['usd']"]
    command("run", scene, "-o", out, "--quiet")
    before, frame = frames(out), out / "frames" / "frame_1003.npz"
    content = bytearray(frame.read_bytes())
    content[len(content) // 2] ^= 1
    frame.write_bytes(content)
    for arguments in (["render", out, "--no-movie"], ["run", scene, "-o", out, "--resume", *usd]):
        code, _, told = command(*arguments)
        assert code == 1
        assert f"{frame}: is damaged or no frame of a run: Bad CRC-32" in told
        assert "Delete it and run the scene with --resume, which then computes all frames again" in told
    frame.unlink()
    code, printed, _ = command("run", scene, "-o", out, "--resume", *usd)
    assert code == 0
    assert "\nwrote 5 frames" in printed
    assert frames(out) == before


def test_folders_that_cannot_be_written(command, scene, tmp_path):
    (tmp_path / "file").touch()
    places = [tmp_path / "file" / "run"]
    if sys.platform == "linux":
        places.append("/proc/nowhere/run")  # not even for root
    for place in places:
        code, printed, told = command("run", scene, "-o", place)
        assert (code, printed) == (1, "")
        assert told.startswith(f"pointglue: {place}: cannot be written: ")
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    if os.geteuid() != 0:
        code, _, told = command("run", scene, "-o", locked / "run")
        assert code == 1
        assert "Permission denied" in told


def test_missing_meshes(command, tmp_path):
    file = tmp_path / "scene.toml"
    (tmp_path / "body.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    file.write_text('[objects.a]\nkind = "cloth"\nmesh.file = "bodi.obj"\n')
    for arguments in (["check", file], ["run", file, "-o", tmp_path / "run"]):
        code, _, told = command(*arguments)
        assert code == 1
        assert told == (
            f"pointglue: {file}:3: objects.a.mesh.file is not a file: 'bodi.obj'; did you mean 'body.obj'?\n"
        )
    assert not (tmp_path / "run").exists()
    file.write_text('[objects.a]\nkind = "cloth"\nmesh.file = "body.obj"\npin = { all = true }\n')
    assert command("run", file, "-o", tmp_path / "run", "--quiet", "--set", "frames.count=2")[0] == 0
    (tmp_path / "body.obj").unlink()
    code, _, told = command("run", file, "-o", tmp_path / "run", "--resume")
    assert code == 1
    assert "is not a file: 'body.obj'" in told


def test_a_full_disk(command, scene, small_disk, tmp_path):
    """It says so, keeps what is whole, and goes on when there is room."""
    out = small_disk / "run"
    code, printed, told = command("run", scene, "-o", out, "--quiet", *settings(FINE))
    assert (code, printed) == (1, "")
    assert "No space left on device" in told
    there = FrameStore.open(out)
    assert 3 < len(there.numbers()) < 60
    assert there.damaged() == []
    code, _, told = command("run", scene, "-o", out, "--resume", *settings(FINE))
    assert code == 1  # it is still full
    assert "No space left on device" in told
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    assert command("run", scene, "-o", out, "--resume", "--quiet", *settings(FINE))[0] == 0
    assert command("run", scene, "-o", tmp_path / "whole", "--quiet", *settings(FINE))[0] == 0
    assert frames(out) == frames(tmp_path / "whole")


def test_no_room_for_usd_files(command, scene, small_disk):
    out, more = small_disk / "run", settings(FINE | {"frames.count": 5})
    assert command("run", scene, "-o", out, "--quiet", *more)[0] == 0
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    (small_disk / "filler").write_bytes(bytes(free - 40_000))
    code, _, told = command("run", scene, "-o", out, "--resume", *more, "--set", "output.formats=['usd']")
    assert code == 1
    assert "animation.usdc: cannot be written" in told
    assert not list(out.glob("*.usdc"))
    assert FrameStore.open(out).damaged() == []
