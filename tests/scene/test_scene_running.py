"""Runs: the same bytes however often they are stopped and on however many threads; and what can go wrong."""

import json
import re
import tomllib

import numpy as np
import pytest
from small_scenes import ALL, HANDLES, SOLIDS

import pointglue as pg
from pointglue.assets.palette import PALETTE, color_code
from pointglue.errors import PointglueError, PointglueWarning, SceneError
from pointglue.io.frames import FrameStore
from pointglue.scene import load_scene, run_scene
from pointglue.scene.identity import scene_hash
from pointglue.studio.document.document import Document
from pointglue.studio.edits import objects


def tables(text):
    return tomllib.loads(text)


def files(folder):
    """The bytes of all frames, by name."""
    return {path.name: path.read_bytes() for path in sorted((folder / "frames").iterdir())}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Uninterrupted runs on two threads."""
    folder = tmp_path_factory.mktemp("whole")
    with pg.threads(2):
        for name, text in ALL.items():
            list(run_scene(tables(text), folder / name))
    return {name: files(folder / name) for name in ALL}


class TestSameBytes:
    @pytest.mark.parametrize("name", ALL)
    def test_on_one_thread(self, name, whole, tmp_path):
        with pg.threads(1):
            list(run_scene(tables(ALL[name]), tmp_path))
        assert files(tmp_path) == whole[name]

    @pytest.mark.parametrize("name", ALL)
    def test_stopped_and_resumed(self, name, whole, tmp_path):
        count = len(whole[name])
        out, given = tmp_path / "run", 0
        for some in (1, 2, count - 4, 1):
            with run_scene(tables(ALL[name]), out, resume=True) as run:
                assert len(run.numbers) == count - given
                given += len([next(run) for _ in range(some)])
        assert list(run_scene(tables(ALL[name]), out, resume=True)) == []  # but the end of it is done
        assert files(out) == whole[name]
        assert len((out / "stats.jsonl").read_text().splitlines()) == count

    def test_without_a_folder(self, whole, tmp_path):
        frames = list(run_scene(tables(SOLIDS)))
        list(run_scene(tables(SOLIDS), tmp_path / "run"))
        read = list(FrameStore.open(tmp_path / "run"))
        assert [frame.number for frame in frames] == [frame.number for frame in read] == list(range(1, 9))
        for one, other in zip(frames, read, strict=True):
            assert one.stats == other.stats
            for name in one.points:
                assert np.array_equal(one.points[name].astype(np.float32), other.points[name])

    def test_methods_of_two_steps_resume_as_well(self, tmp_path):
        scene = tables(SOLIDS) | {"solver": {"implicit": {"method": "bdf2"}}}
        list(run_scene(scene, tmp_path / "whole"))
        with run_scene(scene, tmp_path / "parts") as run:
            next(run), next(run), next(run)
        list(run_scene(scene, tmp_path / "parts", resume=True))
        assert files(tmp_path / "parts") == files(tmp_path / "whole")

    def test_contact_resumes_as_well(self, tmp_path):
        """It keeps stencils and their order from step to step: a frame must not depend on how they came."""
        cloth = {"kind": "cloth", "mesh": {"shape": "sheet", "size": [0.4, 0.4], "cells": [6, 6]}}
        cloth["transform"] = {"translate": [0, 0.225, 0]}
        ball = {"kind": "collider", "mesh": {"shape": "sphere", "radius": 0.2, "detail": 2}}
        ball["keys"] = [{"time": 0}, {"time": "frame 6", "translate": [0, 0.035, 0]}]
        scene = {"frames": {"count": 5}, "contact": {"distance": "5 mm"}, "objects": {"a": cloth, "b": ball}}
        list(run_scene(scene, tmp_path / "whole"))
        for stop in (2, 3):
            with run_scene(scene, tmp_path / str(stop)) as run:
                assert len([next(run) for _ in range(stop)]) == stop
            frames = list(run_scene(scene, tmp_path / str(stop), resume=True))
            assert frames[-1].stats["contacts"] > 0
            assert files(tmp_path / str(stop)) == files(tmp_path / "whole")


class TestScenesThatChange:
    def test_a_changed_scene_is_refused(self, tmp_path):
        with run_scene(tables(HANDLES), tmp_path / "run") as run:
            next(run)
        with pytest.raises(
            SceneError, match=r"cannot be resumed: objects\.bar\.stretch was 0\.0, now it is 0"
        ):
            run_scene(tables(HANDLES), tmp_path / "run", resume=True, overrides={"objects.bar.stretch": 0.5})
        assert len(list(run_scene(tables(HANDLES), tmp_path / "run", resume=True))) == 4

    def test_it_may_be_made_longer_and_get_another_title(self, tmp_path):
        longer = {"frames.count": 7, "title": "longer", "output.formats": ["obj"]}
        list(run_scene(tables(HANDLES), tmp_path / "run"))
        run = run_scene(tables(HANDLES), tmp_path / "run", resume=True, overrides=longer)
        assert [frame.number for frame in run] == [1006, 1007]
        list(run_scene(tables(HANDLES), tmp_path / "once", overrides=longer))
        assert files(tmp_path / "run") == files(tmp_path / "once")

    def test_it_cannot_be_made_shorter(self, tmp_path):
        list(run_scene(tables(HANDLES), tmp_path / "run"))
        before = files(tmp_path / "run")
        for path in (tmp_path / "run").glob("checkpoint*"):
            path.unlink()  # even without, nothing that is there is lost
        with pytest.raises(
            SceneError, match=r"run: holds 5 frames, but frames\.count is 2: .*count=5 or more"
        ):
            run_scene(tables(HANDLES), tmp_path / "run", resume=True, overrides={"frames.count": 2})
        assert files(tmp_path / "run") == before

    def test_a_changed_mesh_is_another_scene(self, tmp_path):
        (tmp_path / "a.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
        (tmp_path / "scene.toml").write_text('[objects.a]\nkind = "cloth"\nmesh.file = "a.obj"\n')
        before = scene_hash(load_scene(tmp_path / "scene.toml"))
        (tmp_path / "a.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 2 0\nf 1 2 3\n")
        assert scene_hash(load_scene(tmp_path / "scene.toml")) != before

    def test_a_run_is_not_overwritten_by_accident(self, tmp_path):
        list(run_scene(tables(HANDLES), tmp_path / "run"))
        before = files(tmp_path / "run")
        with pytest.raises(SceneError, match="holds a run already: --resume it, --replace it, or choose"):
            run_scene(tables(HANDLES), tmp_path / "run")
        run = run_scene(tables(HANDLES), tmp_path / "run", replace=True, overrides={"frames.count": 2})
        assert len(list(run)) == 2
        assert files(tmp_path / "run") == dict(list(before.items())[:2])

    def test_overrides_come_before_loading(self):
        with pytest.raises(PointglueError, match="overrides are for scenes that are not loaded yet"):
            run_scene(load_scene(tables(HANDLES)), overrides={"frames.count": 2})


class TestFaults:
    def test_damaged_checkpoints(self, tmp_path):
        out = tmp_path / "run"
        list(run_scene(tables(HANDLES), out))
        before = files(out)
        last, previous = out / "checkpoint.npz", out / "checkpoint.previous.npz"
        last.write_bytes(last.read_bytes()[:200])
        with pytest.warns(PointglueWarning, match=r"checkpoint\.npz: .*going on from the checkpoint before"):
            run = run_scene(tables(HANDLES), out, resume=True)
        list(run)
        assert files(out) == before
        for path in (last, previous):
            path.write_bytes(b"nothing")
        with pytest.warns(PointglueWarning, match="running from the first frame"):
            run = run_scene(tables(HANDLES), out, resume=True)
        assert len(list(run)) == 5
        assert files(out) == before

    @pytest.mark.parametrize(("number", "left"), [(1003, None), (1003, 0), (1003, 99), (1001, 0), (1005, 0)])
    def test_a_frame_that_is_missing_is_made_again(self, tmp_path, number, left):
        out = tmp_path / "run"
        list(run_scene(tables(HANDLES), out))
        before = files(out)
        path = out / "frames" / f"frame_{number}.npz"
        if left is None:
            path.unlink()
        else:  # a power cut
            path.write_bytes(path.read_bytes()[:left])
        with pytest.warns(PointglueWarning, match=rf"frame_{number}\.npz: is missing"):
            run = run_scene(tables(HANDLES), out, resume=True)
        list(run)
        assert files(out) == before

    def test_a_full_disk_stops_the_run_and_resume_goes_on(self, tmp_path, monkeypatch):
        out = tmp_path / "run"
        write = FrameStore.write

        def full(self, frame):
            if frame.number == 1003:
                raise PointglueError("frame_1003.npz: cannot be written: No space left on device")
            return write(self, frame)

        with monkeypatch.context() as patched:
            patched.setattr(FrameStore, "write", full)
            with pytest.raises(PointglueError, match="No space left on device"):
                list(run_scene(tables(HANDLES), out))
        assert list(files(out)) == ["frame_1001.npz", "frame_1002.npz"]
        assert [frame.number for frame in run_scene(tables(HANDLES), out, resume=True)][-1] == 1005
        list(run_scene(tables(HANDLES), tmp_path / "whole"))
        assert files(out) == files(tmp_path / "whole")

    def test_a_frame_that_cannot_be_computed_is_named(self, tmp_path):
        hopeless = {"solver.implicit.iterations": 1, "solver.implicit.tolerance": "1e-12 m/s"}
        run = run_scene(tables(SOLIDS), tmp_path / "run", overrides=hopeless)
        with pytest.raises(
            SceneError, match="frame 2 cannot be computed: the step from 0 s did not converge"
        ):
            list(run)
        assert list(files(tmp_path / "run")) == ["frame_0001.npz"]

    def test_two_runs_into_one_folder(self, tmp_path):
        with run_scene(tables(HANDLES), tmp_path / "run") as run:
            next(run)
            with pytest.raises(PointglueError, match="another process is writing there"):
                run_scene(tables(HANDLES), tmp_path / "run", resume=True)
        list(run_scene(tables(HANDLES), tmp_path / "run", resume=True))

    def test_a_folder_that_is_a_file(self, tmp_path):
        (tmp_path / "run").touch()
        with pytest.raises(PointglueError, match="is a file, not a folder"):
            run_scene(tables(HANDLES), tmp_path / "run")


def test_what_the_output_asks_for_is_written_at_the_end(tmp_path):
    run = run_scene(tables(HANDLES), tmp_path / "run", overrides={"output.formats": ["ply", "usd"]})
    list(run)
    assert [path.name for path in run.files] == ["stats.jsonl", "ply", "animation.usdc"]
    assert len(list((tmp_path / "run" / "ply").iterdir())) == 5


def test_colours_that_are_chosen_are_not_given_to_others():
    cloth = {"kind": "cloth", "mesh": {"shape": "sheet", "size": [1, 1]}}
    chosen = {"a": {}, "b": {"color": "coral"}, "c": {}, "d": {"color": "blue"}}
    scene = {"frames": {"count": 1}, "objects": {name: cloth | own for name, own in chosen.items()}}
    looks = {look.name: color_code(look.color) for look in run_scene(scene).simulation.looks}
    assert looks == {"a": PALETTE["teal"], "b": PALETTE["coral"], "c": PALETTE["gold"], "d": PALETTE["blue"]}
    assert {name: objects.color(Document(scene), name) for name in looks} == looks  # in the studio as well


class TestCommands:
    @pytest.fixture
    def scene(self, tmp_path):
        file = tmp_path / "scene.toml"
        file.write_text(HANDLES)
        return file

    def test_check(self, command, scene):
        _, printed, _ = command("check", scene)
        assert printed.startswith(f"{scene}: nothing is wrong (5 frames, 1 visible object)\n")
        scene.write_text(HANDLES.replace("damping", "damping_").replace("radius = 0.1", "radius = '1 s'"))
        code, _, told = command("check", scene, "--set", "frames.count=0")
        assert code == 1
        assert told.splitlines() == [
            f"pointglue: {scene}: as set, frames.count must be at least 1, got 0",
            f"pointglue: {scene}:8: objects.bar.damping_ is not known here; did you mean 'damping'?",
            f"pointglue: {scene}:10: objects.bar.handles.left.radius must be a number in m, "
            "or a text such as '2 m', got '1 s'",
        ]

    def test_schema(self, command):
        assert json.loads(command("check", "--schema")[1])["title"] == "SceneFile"
        assert "give a scene file, or --schema" in command("check")[2]

    def test_run(self, command, scene, tmp_path):
        out = tmp_path / "run"
        _, printed, told = command("run", scene, "-o", out, "--set", "frames.count=3")
        *lines, last = printed.splitlines()
        assert [line.split("  ")[0] for line in lines] == [f"frame {n}/1003" for n in (1001, 1002, 1003)]
        assert re.fullmatch(r"frame 1001/1003  \d+\.\d\d s", lines[0])
        assert re.fullmatch(r"frame 1003/1003  \d+\.\d\d s  left 0:00:00", lines[2])
        assert last.startswith(f"wrote 3 frames to {out} in ")
        assert told == ""
        _, printed, _ = command("run", scene, "-o", out, "--resume", "--json")
        lines = [json.loads(line) for line in printed.splitlines()]
        assert [line.get("frame") for line in lines] == [1004, 1005, None]
        assert lines[-1]["event"] == "done"
        assert command("run", scene, "-o", out, "--replace", "--quiet") == (0, "", "")

    def test_errors_as_json(self, command, scene, tmp_path):
        code, printed, _ = command("run", scene, "-o", tmp_path / "run", "--json", "--set", "frames.cuont=3")
        assert code == 1
        (line,) = map(json.loads, printed.splitlines())
        assert line["event"] == "error"
        assert "did you mean 'count'" in line["problems"][0]
        _, _, told = command("run", scene, "-o", tmp_path / "run", "--resume", "--replace")
        assert told == "pointglue: --resume and --replace exclude each other\n"
