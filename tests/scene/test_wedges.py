"""Parameter sweeps, on clusters of processes of their own: failures, lost workers, reruns."""

import csv
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial

import imageio.v3 as imageio
import numpy as np
import pytest
from small_scenes import HANDLES, PARTICLES
from waiting import DEADLINE, wait_until

from pointglue import view
from pointglue.errors import PointglueError, SceneError
from pointglue.io import FrameStore, load_checkpoint
from pointglue.scene import Wedge, draw_wedges, load_scene, parse_sweep, run_scene, run_wedges
from pointglue.scene.sweeps import planned_wedges, short_key, wedge_labels
from pointglue.scene.wedge import (
    finished_wedge,
    measured_metrics,
    run_wedge,
    stop_wedges,
    wedge_hash,
    write_table,
)

pytestmark = pytest.mark.filterwarnings("default")  # Dask's own


class TestSweeps:
    @pytest.mark.parametrize(
        ("text", "values"),
        [
            ("a.b=1,2.5,3", [1, 2.5, 3]),
            ("k=0:1:5", [0.0, 0.25, 0.5, 0.75, 1.0]),
            ("k=2:6:3", [2, 4, 6]),
            ("k=1e-3:1:2", [1e-3, 1.0]),
            ("k=1 mm, 2 cm", ["1 mm", "2 cm"]),
            ("k=soft,rigid", ["soft", "rigid"]),
            ("k=[1, 2, 3],[4, 5, 6]", [[1, 2, 3], [4, 5, 6]]),
            ("k=true", [True]),
        ],
    )
    def test_values(self, text, values):
        key, found = parse_sweep(text)
        assert key == text.split("=")[0]
        assert found == values
        assert [type(value) for value in found] == [type(value) for value in values]

    @pytest.mark.parametrize("text", ["k", "=1", "k=", "k=0:1:x", "k=0:1:1", "k=nan:1:3"])
    def test_refusals(self, text):
        with pytest.raises(SceneError, match=r"must look like key=a,b,c|a range must"):
            parse_sweep(text)

    def test_ranges_that_are_too_long(self):
        with pytest.raises(
            SceneError, match=r"a range must have at most 100,000 numbers, got 'k=1:10:1000000'"
        ):
            parse_sweep("k=1:10:1000000")

    @pytest.mark.parametrize(
        ("keys", "short"),
        [
            (["frames.count"], ["count"]),
            (["objects.a.transform.translate.1"], ["translate.1"]),
            (["objects.a.falloff", "objects.b.falloff", "frames.count"], ["a.falloff", "b.falloff", "count"]),
            (["objects.a.x.0", "objects.b.x.0", "objects.b.x.1"], ["a.x.0", "b.x.0", "x.1"]),
            (["rate", "frames.rate"], ["rate", "frames.rate"]),
            (["a.x.k", "a.y.k", "b.x.k"], ["a.x.k", "y.k", "b.k"]),
            (["0.1"], ["0.1"]),
        ],
    )
    def test_keys_are_shortened_to_what_tells_them_apart(self, keys, short):
        assert [short_key(key, keys) for key in keys] == short

    def test_folders_have_names_of_their_own_that_last(self, tmp_path):
        few = planned_wedges({"a.x": [1, 2], "b": ["1 mm"]}, tmp_path)
        many = planned_wedges({"a.x": [0, 1, 2, 2], "b": ["1 mm", "1_mm"]}, tmp_path)
        assert {wedge.folder for wedge in few} < {wedge.folder for wedge in many}
        assert len(many) == 6
        assert all(wedge.folder.name.startswith("x=") for wedge in many)
        with pytest.raises(SceneError, match="combinations of values, got 0"):
            planned_wedges({"a": []}, tmp_path)
        with pytest.raises(SceneError, match="at least one key"):
            planned_wedges({}, tmp_path)


def test_metrics_are_those_of_the_frames(tmp_path):
    (tmp_path / "scene.toml").write_text(PARTICLES)
    done = run_wedge(str(tmp_path / "scene.toml"), {"frames.count": 4}, str(tmp_path / "run"), [])
    assert done["status"] == "done"
    store = FrameStore.open(tmp_path / "run")
    frames = list(store)
    assert done["metrics"] == {"fastest particle": max(frame.stats["fastest particle"] for frame in frames)}
    found = measured_metrics(tmp_path / "run", ["low.dented", "high.rope", "drift.ball", "contacts"])
    assert found["low.dented"] == min(frame.points["dented"][:, 1].min() for frame in frames)
    assert found["high.rope"] == max(frame.points["rope"][:, 1].max() for frame in frames)
    assert found["drift.ball"] == pytest.approx(np.linalg.norm(frames[-1].transforms["ball"][:3, 3]))
    assert np.isnan(found["contacts"])
    with pytest.raises(
        SceneError, match=r"low\.nothing: 'nothing' is not visible, so that it cannot be measured"
    ):
        measured_metrics(tmp_path / "run", ["low.nothing"])


def test_tables(tmp_path):
    import pyarrow.parquet

    wedges = planned_wedges({"a": [1, "2 m"], "b": [[1, 2]]}, tmp_path)
    write_table(tmp_path / "wedges.csv", wedges, parquet=True)
    read = pyarrow.parquet.read_table(tmp_path / "wedges.parquet").to_pydict()
    assert read["a"] == ["1", "2 m"]
    with (tmp_path / "wedges.csv").open() as file:
        assert [row["a"] for row in csv.DictReader(file)] == ["1", "2 m"]


def test_a_command_with_a_wedge_that_fails_and_a_rerun(tmp_path, monkeypatch, command):
    scene, out = tmp_path / "scene.toml", tmp_path / "wedges"
    scene.write_text(HANDLES)

    wedge = partial(command, "wedge", scene, "--set", "objects.bar.falloff=1,2,-1", "-o", out)
    code, printed, told = wedge("--metrics", "high.bar")
    assert code == 1
    assert "falloff=1" in printed
    assert "done" in printed
    assert "objects.bar.falloff must be" in told
    assert "Traceback" not in told
    with (out / "wedges.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["status"] for row in rows] == ["done", "done", "failed"]
    assert float(rows[0]["high.bar"]) == pytest.approx(0.5, abs=0.05)
    assert (
        imageio.imread(out / "contact_sheet.png").shape == contact_sheet(3).shape
    )  # what failed has a place
    with monkeypatch.context() as patched:
        patched.setattr("distributed.LocalCluster", no_cluster)
        code, printed, _ = wedge("--metrics", "high.bar,low.bar", "--no-sheet")
    assert printed.count("skipped") == 2
    scene.write_text(HANDLES.replace("damping = 0.1", "damping = 0.2"))
    frames = (out / rows[0]["folder"] / "frames" / "frame_1005.npz").read_bytes()
    run_wedge(str(scene), {"objects.bar.falloff": 1}, str(out / rows[0]["folder"]), [])
    assert (out / rows[0]["folder"] / "frames" / "frame_1005.npz").read_bytes() != frames  # another scene
    code, _, told = wedge("--metrics", "height")
    assert code == 1
    assert "metric must be one of fastest particle, " in told


def no_cluster(**options):
    raise AssertionError("a cluster is started though there is nothing to do for it")


def contact_sheet(count):
    """An empty one of so many pictures."""
    return view.contact_sheet([np.zeros((360, 640, 3), np.uint8)] * count, [""] * count)


def test_what_failed_is_on_the_contact_sheet(tmp_path, monkeypatch):
    drawn, wedges = {}, planned_wedges({"a.b.0": [1, 2, 3], "a.c.0": [4]}, tmp_path)
    wedges[1] = replace(wedges[1], status="failed")
    pictures = [np.full((36, 64, 3), value, np.uint8) for value in (0, 1)]
    monkeypatch.setattr("pointglue.scene.wedge.last_pictures", lambda folders: pictures[: len(folders)])
    monkeypatch.setattr(
        "pointglue.scene.wedge.contact_sheet",
        lambda images, labels: drawn.update(zip(labels, images, strict=True)),
    )
    monkeypatch.setattr("pointglue.scene.wedge.save_png", lambda image, path: None)
    draw_wedges(wedges, tmp_path / "sheet.png")
    assert list(drawn) == ["b.0=1", "b.0=2", "b.0=3"]
    first, failed, last = drawn.values()
    assert (first == 0).all()
    assert (last == 1).all()
    assert failed.shape == first.shape
    assert failed.min() < 100 < np.median(failed)  # letters on paper


def test_a_scene_made_shorter_is_run_anew(tmp_path):
    (tmp_path / "scene.toml").write_text(HANDLES)
    for count in (5, 3):
        (tmp_path / "scene.toml").write_text(HANDLES.replace("count = 5", f"count = {count}"))
        done = run_wedge(str(tmp_path / "scene.toml"), {}, str(tmp_path / "run"), [])
        assert done["status"] == "done"
        assert len(FrameStore.open(tmp_path / "run").numbers()) == count


def test_what_is_done_is_not_done_again_unless_the_scene_has_changed(tmp_path):
    scene, wedge = tmp_path / "scene.toml", Wedge({}, tmp_path / "run")

    def finished():
        return finished_wedge(wedge, wedge_hash(load_scene(scene)), [])

    scene.write_text(HANDLES)
    assert finished() is None
    run_wedge(str(scene), {}, str(wedge.folder), [])
    assert finished().status == "skipped"
    scene.write_text(HANDLES.replace("damping = 0.1", "damping = 0.2"))
    assert finished() is None


def test_frames_that_are_all_there_are_kept(tmp_path):
    """As when it is stopped after its last frame, and before it has noted that it is done."""
    (tmp_path / "scene.toml").write_text(HANDLES)
    arguments = (str(tmp_path / "scene.toml"), {}, str(tmp_path / "run"), [])
    run_wedge(*arguments)
    frames = sorted((tmp_path / "run" / "frames").iterdir())
    written = [path.stat().st_mtime_ns for path in frames]
    (tmp_path / "run" / "wedge.json").unlink()
    assert run_wedge(*arguments)["status"] == "done"
    assert [path.stat().st_mtime_ns for path in frames] == written
    assert (tmp_path / "run" / "wedge.json").exists()


@pytest.mark.parametrize(
    ("sweeps", "labels"),
    [
        ({"a.x": [1, 2], "b.y": ["soft"]}, ["x=1", "x=2"]),
        ({"a.x": [0.25, 0.5], "b.x": [1, 2]}, [f"a.x={a}, b.x={b}" for a in (0.25, 0.5) for b in (1, 2)]),
        ({"x": [1.0000001, 1.0000002]}, ["x=1.0000001", "x=1.0000002"]),
        ({"x": [0.1 + 0.2, 0.3]}, ["x=0.30000000000000004", "x=0.29999999999999999"]),
        ({"x": [1, 1.0, "1"]}, ["x=1", "x=1.0", "x='1'"]),
        ({"x": [5], "y": ["1 mm"]}, ["x=5, y=1 mm"]),
    ],
)
def test_labels_tell_wedges_apart(sweeps, labels, tmp_path):
    assert wedge_labels([wedge.settings for wedge in planned_wedges(sweeps, tmp_path)]) == labels


def test_a_wedge_that_is_stopped_goes_on_from_its_last_frame(tmp_path, monkeypatch):
    (tmp_path / "scene.toml").write_text(HANDLES)
    arguments = (str(tmp_path / "scene.toml"), {}, str(tmp_path / "run"), [])
    with monkeypatch.context() as patched:
        patched.setattr("pointglue.scene.wedge._stopping", threading.Event())
        stop_wedges()
        done = run_wedge(*arguments)
    assert (done["status"], done["error"]) == ("failed", "it was stopped, and can go on from its last frame")
    store = FrameStore.open(tmp_path / "run")
    assert store.numbers() == [1001]
    assert load_checkpoint(store.checkpoint, scene_hash=store.scene_hash)["number"] == 1001
    assert run_wedge(*arguments)["status"] == "done"


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="has no groups of processes")
def test_interrupted(tmp_path):
    """By signals that go to the workers as well: what is done is in the table, and all else can go on."""
    scene, out = tmp_path / "scene.toml", tmp_path / "wedges"
    scene.write_text(HANDLES)
    code = "import sys; from pointglue.cli import main; sys.argv[0] = 'pointglue'; main()"
    arguments = ["wedge", str(scene), "--set", "frames.count=-1,3,100000,100001,100002", "-o", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    told = ""
    while not ("count=3" in told and "count=-1" in told):  # which may come in any order
        line = process.stdout.readline()
        assert line, told
        told += line
    begun = wait_until(
        lambda: sorted(out.glob("count=1*/frames/frame_*.npz")),
        lambda: sorted(path.name for path in out.rglob("*")),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        os.killpg(process.pid, number)
    told += process.communicate(timeout=DEADLINE)[0]
    assert process.returncode in (130, 143), told  # whichever the system hands over first
    assert "Traceback" not in told
    table = out / "wedges.csv"
    assert f"stopped with 2 of 5 wedges finished; they are in {table}. Go on with: pointglue wedge" in told
    with table.open() as file:
        assert [row["status"] for row in csv.DictReader(file)] == ["failed", "done"]
    for folder in {path.parent.parent for path in begun}:
        store = FrameStore.open(folder)
        assert load_checkpoint(store.checkpoint, scene_hash=store.scene_hash)["number"] == store.numbers()[-1]


def test_keys_that_no_wedge_can_have(tmp_path, monkeypatch):
    monkeypatch.setattr("pointglue.scene.wedge.CONNECT_TIMEOUT", "1s")
    (tmp_path / "scene.toml").write_text(HANDLES)
    with pytest.raises(SceneError, match="did you mean 'falloff'"):
        run_wedges(tmp_path / "scene.toml", {"objects.bar.fallof": [1, 2]}, tmp_path / "out")
    with pytest.raises(PointglueError, match="no scheduler answers at"):
        run_wedges(
            tmp_path / "scene.toml", {"frames.count": [2]}, tmp_path / "out", scheduler="tcp://127.0.0.1:1"
        )


def test_a_lost_worker_on_a_cluster(tmp_path):
    """One of two worker processes is killed midway: its wedges are done by others, to the bit."""
    from distributed import LocalCluster

    scene, out = tmp_path / "scene.toml", tmp_path / "wedges"
    scene.write_text(PARTICLES.replace("count = 8", "count = 40"))
    sweeps = {"world.wind.gust": [0, 0.5, 1]}
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    killed = []

    def kill(cluster):
        """A worker that is at work, as soon as a wedge has frames."""

        def midway():
            begun = any(len(list(folder.glob("frames/frame_*.npz"))) > 1 for folder in out.glob("*-*"))
            workers = list(cluster.scheduler.workers.values())
            return begun and [worker.address for worker in workers if worker.processing]

        busy = wait_until(midway, lambda: sorted(path.name for path in out.rglob("*")))
        pids = {nanny.worker_address: nanny.pid for nanny in cluster.workers.values()}
        os.kill(pids[busy[0]], signal.SIGKILL)
        killed.append(busy[0])

    with LocalCluster(**options, silence_logs=50) as cluster:
        watcher = threading.Thread(target=kill, args=(cluster,))
        watcher.start()
        wedges = run_wedges(scene, sweeps, out, scheduler=cluster.scheduler_address)
        watcher.join(DEADLINE)
    assert len(killed) == 1
    assert [wedge.status for wedge in wedges] == ["done"] * 3, [wedge.error for wedge in wedges]
    overrides = {"world.wind.gust": 0.5}
    last = list(run_scene(load_scene(scene, overrides), tmp_path / "alone"))[-1].number
    name = f"frame_{last:04}.npz"
    alone = (tmp_path / "alone" / "frames" / name).read_bytes()
    assert (wedges[1].folder / "frames" / name).read_bytes() == alone
