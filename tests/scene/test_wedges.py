"""Parameter sweeps, on clusters of processes of their own: failures, lost workers, reruns."""

import csv
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from small_scenes import HANDLES, PARTICLES

from pointglue.cli import main
from pointglue.errors import PointglueError, SceneError
from pointglue.io import FrameStore
from pointglue.scene import load_scene, parse_sweep, run_scene, run_wedges
from pointglue.scene.wedge import _measured, _planned, run_wedge, write_table

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

    def test_folders_have_names_of_their_own_that_last(self, tmp_path):
        few = _planned({"a.x": [1, 2], "b": ["1 mm"]}, tmp_path)
        many = _planned({"a.x": [0, 1, 2, 2], "b": ["1 mm", "1_mm"]}, tmp_path)
        assert {wedge.folder for wedge in few} < {wedge.folder for wedge in many}
        assert len(many) == 6
        assert all(wedge.folder.name.startswith("x=") for wedge in many)
        with pytest.raises(SceneError, match="combinations of values, got 0"):
            _planned({"a": []}, tmp_path)
        with pytest.raises(SceneError, match="at least one key"):
            _planned({}, tmp_path)


def test_metrics_are_those_of_the_frames(tmp_path):
    (tmp_path / "scene.toml").write_text(PARTICLES)
    done = run_wedge(str(tmp_path / "scene.toml"), {"frames.count": 4}, str(tmp_path / "run"), [])
    assert done["status"] == "done"
    store = FrameStore.open(tmp_path / "run")
    frames = list(store)
    assert done["metrics"] == {"fastest particle": max(frame.stats["fastest particle"] for frame in frames)}
    found = _measured(tmp_path / "run", ["low.dented", "high.rope", "drift.ball", "contacts"])
    assert found["low.dented"] == min(frame.points["dented"][:, 1].min() for frame in frames)
    assert found["high.rope"] == max(frame.points["rope"][:, 1].max() for frame in frames)
    assert found["drift.ball"] == pytest.approx(np.linalg.norm(frames[-1].transforms["ball"][:3, 3]))
    assert np.isnan(found["contacts"])


def test_tables(tmp_path):
    import pyarrow.parquet

    wedges = _planned({"a": [1, "2 m"], "b": [[1, 2]]}, tmp_path)
    write_table(tmp_path / "wedges.csv", wedges, parquet=True)
    read = pyarrow.parquet.read_table(tmp_path / "wedges.parquet").to_pydict()
    assert read["a"] == ["1", "2 m"]
    with (tmp_path / "wedges.csv").open() as file:
        assert [row["a"] for row in csv.DictReader(file)] == ["1", "2 m"]


def test_a_command_with_a_wedge_that_fails_and_a_rerun(tmp_path, monkeypatch, capsys):
    scene, out = tmp_path / "scene.toml", tmp_path / "wedges"
    scene.write_text(HANDLES)

    def command(*more):
        arguments = ["wedge", str(scene), "--set", "objects.bar.falloff=1,2,-1", "-o", str(out), *more]
        monkeypatch.setattr(sys, "argv", ["pointglue", *arguments])
        with pytest.raises(SystemExit) as done:
            main()
        return done.value.code, *capsys.readouterr()

    code, printed, told = command("--metrics", "high.bar")
    assert code == 1
    assert "falloff=1" in printed
    assert "done" in printed
    assert "objects.bar.falloff must be" in told
    assert "Traceback" not in told
    with (out / "wedges.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["status"] for row in rows] == ["done", "done", "failed"]
    assert float(rows[0]["high.bar"]) == pytest.approx(0.5, abs=0.05)
    assert (out / "contact_sheet.png").stat().st_size > 10_000
    begin = time.monotonic()
    code, printed, _ = command("--metrics", "high.bar,low.bar", "--no-sheet")
    assert printed.count("skipped") == 2
    assert time.monotonic() - begin < 5  # no cluster has been started
    scene.write_text(HANDLES.replace("damping = 0.1", "damping = 0.2"))
    frames = (out / rows[0]["folder"] / "frames" / "frame_1005.npz").read_bytes()
    run_wedge(str(scene), {"objects.bar.falloff": 1}, str(out / rows[0]["folder"]), [])
    assert (out / rows[0]["folder"] / "frames" / "frame_1005.npz").read_bytes() != frames  # another scene
    code, _, told = command("--metrics", "height")
    assert code == 1
    assert "metric must be one of fastest particle, " in told


def test_keys_that_no_wedge_can_have(tmp_path, monkeypatch):
    monkeypatch.setattr("pointglue.scene.wedge.ANSWER", "1s")
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
        """The first worker, as soon as a wedge has frames."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not killed:
            if any(len(list(folder.glob("frames/frame_*.npz"))) > 1 for folder in out.glob("*-*")):
                workers = cluster.scheduler.workers.values()
                busy = [worker for worker in workers if worker.processing]
                pids = {nanny.worker_address: nanny.pid for nanny in cluster.workers.values()}
                killed.append(pids[busy[0].address])
                os.kill(killed[0], signal.SIGKILL)
            time.sleep(0.01)

    with LocalCluster(**options, silence_logs=50) as cluster:
        watcher = threading.Thread(target=kill, args=(cluster,))
        watcher.start()
        wedges = run_wedges(scene, sweeps, out, scheduler=cluster.scheduler_address)
        watcher.join()
    assert len(killed) == 1
    assert [wedge.status for wedge in wedges] == ["done"] * 3, [wedge.error for wedge in wedges]
    overrides = {"world.wind.gust": 0.5}
    last = list(run_scene(load_scene(scene, overrides), tmp_path / "alone"))[-1].number
    name = f"frame_{last:04}.npz"
    alone = (tmp_path / "alone" / "frames" / name).read_bytes()
    assert (wedges[1].folder / "frames" / name).read_bytes() == alone
