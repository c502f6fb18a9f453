"""Runs that end before their last frame, by signals and by steps that find no end: nothing is lost."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
import tomllib

import pytest
from small_scenes import HANDLES, SOLIDS
from waiting import COMPILING, DEADLINE

from pointglue.deform import HandleDeformer
from pointglue.errors import SceneError
from pointglue.io import FrameStore, export_run, load_checkpoint
from pointglue.io.signals import ENDING
from pointglue.scene import run_scene
from pointglue.view import runs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no such signals")

COMMAND = [sys.executable, "-m", "pointglue"]
LONG = HANDLES.replace("count = 5", "count = 100000")
# What a terminal's first process is: it loses the terminal by SIGHUP.
ON_TERMINAL = (
    "import fcntl, os, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execv(sys.argv[1], sys.argv[1:])\n"
)


@pytest.fixture
def scene(tmp_path):
    file = tmp_path / "scene.toml"
    file.write_text(LONG)
    return file


@pytest.fixture
def started():
    """Starts processes, which end with the test."""
    processes = []

    def start(words, **options):
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        # What the tests themselves ignore, under nohup say, the processes would as well.
        ours = {number: signal.signal(number, signal.SIG_DFL) for number in ENDING}
        try:
            processes.append(subprocess.Popen(list(map(str, words)), **streams | options))
        finally:
            for number, handler in ours.items():
                signal.signal(number, handler)
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def checkpoint(out):
    """The frame that a run would go on after."""
    store = FrameStore.open(out)
    return int(load_checkpoint(store.checkpoint, scene_hash=store.scene_hash)["number"])


def whole(out):
    """The last frame of a run that has ended, of which all there is is whole."""
    store = FrameStore.open(out)
    numbers = store.numbers()
    assert numbers == list(range(1001, numbers[-1] + 1))
    assert store.damaged() == []
    assert [json.loads(line)["frame"] for line in store.stats.read_text().splitlines()] == numbers
    assert [path.name for path in out.rglob(".*")] == [".lock"]  # nothing that is half written
    assert checkpoint(out) == numbers[-1]
    return numbers[-1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_which_goes_on_after_its_last_frame(number, scene, started, tmp_path):
    out = tmp_path / "run folder"
    process = started([*COMMAND, "run", scene, "-o", out, "--json"])
    told = [json.loads(process.stdout.readline())["frame"] for _ in range(5)]
    process.send_signal(number)
    assert process.wait(DEADLINE) == 128 + number
    # communicate() would lose what is buffered.
    told += [json.loads(line)["frame"] for line in process.stdout]
    errors = process.stderr.read()
    last = whole(out)
    assert told[-1] <= last <= told[-1] + 1  # the one that was just computed may not have been told
    again = f"pointglue run {scene} -o '{out}' --json --resume"
    assert errors.removeprefix(COMPILING) == f"pointglue: stopped after frame {last}. Go on with: {again}\n"
    left = run_scene(scene, out, resume=True, overrides={"frames.count": last - 1000 + 2})
    assert [frame.number for frame in left] == [last + 1, last + 2]


def test_several_signals_at_once_lose_nothing(scene, started, tmp_path):
    process = started([*COMMAND, "run", scene, "-o", tmp_path / "run"])
    for _ in range(3):
        assert process.stdout.readline().startswith("frame 100")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode in (129, 130, 143)  # whichever the system hands over first
    assert f"stopped after frame {whole(tmp_path / 'run')}. Go on with" in errors


def test_nohup_stays_deaf_to_terminals_that_close(scene, started, tmp_path):
    ignoring = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh"]
    process = started([*ignoring, *COMMAND, "run", scene, "-o", tmp_path / "run"])
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    for _ in range(100):
        assert process.stdout.readline().startswith("frame ")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 143
    assert whole(tmp_path / "run") > 1100


def test_a_terminal_that_closes_ends_a_run(scene, started, tmp_path):
    """Its progress bar cannot be taken back then, and nobody reads the message."""
    out, (ours, theirs) = tmp_path / "run", pty.openpty()
    words = [sys.executable, "-c", ON_TERMINAL, *COMMAND, "run", scene, "-o", out]
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
    process = started(words, start_new_session=True, **streams)
    os.close(theirs)
    end, shown = time.monotonic() + DEADLINE, b""
    while (not list(out.glob("frames/frame_1005.npz")) or b"left" not in shown) and time.monotonic() < end:
        if select.select([ours], [], [], 0.1)[0]:
            shown += os.read(ours, 10_000)
    assert b"left" in shown, shown  # there is a bar
    os.close(ours)
    assert process.wait(DEADLINE) == 129
    assert whole(out) >= 1005


def test_demos_end_by_signals_too(started, tmp_path):
    words = ["demo", "hinged_flap", "-o", tmp_path / "run", "--set", "frames.count=100000"]
    process = started([*COMMAND, *words])
    assert process.stdout.readline().startswith("frame 1/100000  ")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 143, errors
    assert (
        f"stopped after frame {checkpoint(tmp_path / 'run')}. Go on with: pointglue demo hinged_flap"
        in errors
    )
    assert errors.endswith(" --resume\n")


@pytest.mark.parametrize("word", ["--resume", "--replace"])
def test_a_run_that_is_stopped_before_it_begins_is_begun_as_before(word, command, tmp_path, monkeypatch):
    """While the scene is built, say: what was there before still is, and is to be resumed, or replaced."""
    scene, out = tmp_path / "scene.toml", tmp_path / "run"
    scene.write_text(HANDLES)
    command("run", scene, "-o", out, "--quiet")
    monkeypatch.setattr("pointglue.scene.run.build_scene", lambda *_: signal.raise_signal(signal.SIGTERM))
    code, _, told = command("run", scene, word, "-o", out)
    assert code == 143
    again = f"pointglue run {scene} {word} -o {out}"
    assert told == f"pointglue: stopped before it began. Go on with: {again}\n"
    assert whole(out) == 1005


def test_a_run_that_was_stopped_is_exported_and_drawn(command, scene, started, tmp_path):
    out = tmp_path / "run"
    process = started([*COMMAND, "run", scene, "-o", out])
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=DEADLINE)
    count = whole(out) - 1000
    code, printed, _ = command("export", out, "--format", "obj")
    assert (code, printed.split()[:2]) == (0, ["wrote", str(count)])
    assert len(list((out / "obj").iterdir())) == count
    code, printed, _ = command("render", out, "--no-movie", "--size", "64x48", "--every", count)
    assert (code, printed.splitlines()[0]) == (0, f"wrote 1 picture to {out / 'pictures'}")


def test_a_run_that_failed_is_exported_and_drawn(command, tmp_path):
    """By a step that finds no end."""
    scene, out = tmp_path / "scene.toml", tmp_path / "run"
    scene.write_text(SOLIDS)
    with run_scene(scene, out) as run:
        integrator = run.simulation.engines[0].solver.integrator
        frames = [next(run), next(run)]
        integrator.iterations, integrator.tolerance = 1, 1e-15
        with pytest.raises(SceneError, match="frame 3 cannot be computed: the step from"):
            next(run)
    assert len(frames) == len(FrameStore.open(out).numbers()) == checkpoint(out) == 2
    code, printed, _ = command("export", out, "-o", tmp_path / "a.usdc")
    assert (code, printed) == (0, f"wrote 2 frames to {tmp_path / 'a.usdc'}\n")
    assert command("render", out, "--no-movie", "--size", "64x48")[0] == 0
    assert export_run(out, format="ply") == out / "ply"
    assert [frame.number for frame in run_scene(scene, out, resume=True)] == [3, 4, 5, 6, 7, 8]


def test_pictures_that_are_stopped_are_whole(command, tmp_path, monkeypatch):
    """And there is no movie of a part of them."""
    out, save, names = tmp_path / "run", runs.save_png, []
    list(run_scene(tomllib.loads(HANDLES), out))

    def saved(image, path):
        save(image, path)
        names.append(path.name)
        if len(names) == 3:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(runs, "save_png", saved)
    code, printed, told = command("render", out, "--size", "64x48")
    assert (code, printed) == (143, "")
    assert told.startswith(f"pointglue: stopped after 2 pictures. Go on with: pointglue render {out}")
    assert sorted(path.name for path in (out / "pictures").iterdir()) == names


def test_meshes_that_are_stopped_are_whole(command, tmp_path, monkeypatch):
    """The frame that was being computed is the last one written."""
    at, poses = HandleDeformer.at, []
    monkeypatch.setenv("POINTGLUE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "bar.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    moves = {"rest": [[0, 0, 0], [1, 0, 0]], "frames": [[[0, 0, 0], [1 + k, 0, 0]] for k in range(5)]}
    (tmp_path / "moves.json").write_text(json.dumps(moves))

    def stopped(self, *arguments, **options):
        poses.append(at(self, *arguments, **options))
        if len(poses) == 3:
            signal.raise_signal(signal.SIGHUP)
        return poses[-1]

    monkeypatch.setattr(HandleDeformer, "at", stopped)
    words = ["deform", tmp_path / "bar.obj", tmp_path / "moves.json", "--distance", "euclidean"]
    for name, left in (("a.npy", []), ("a.ply", ["a_0001.ply", "a_0002.ply", "a_0003.ply"])):
        poses.clear()
        code, printed, told = command(*words, "-o", tmp_path / "out" / name)
        assert (code, printed) == (129, "")
        assert "pointglue: stopped before all was written. Go on with: pointglue deform" in told
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == left
