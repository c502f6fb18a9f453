"""What two runs differ in, by the names of keys and files."""

import json
import tomllib

import numpy as np
import pytest
from small_scenes import HANDLES, SOLIDS

import pointglue.scene.identity as identity
from pointglue.errors import SceneError
from pointglue.io.archives import read_archive, write_archive
from pointglue.scene import load_scene, run_scene
from pointglue.scene.identity import SceneIdentity, differences


def inputs(text, **overrides):
    """As they come back from a file."""
    changes = {key.replace("__", "."): value for key, value in overrides.items()}
    return json.loads(json.dumps(SceneIdentity.of(load_scene(tomllib.loads(text), changes)).inputs))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"frames__rate": 25}, "frames.rate was 24.0, now it is 25.0"),
        ({"title": "another", "frames__count": 9, "output__formats": ["usd"]}, ""),
        ({"objects__trunk__cell": 0.2}, "objects.trunk.cell was null, now it is 0.2"),
        ({"attach__0__release": None}, 'attach[0].release was "frame 6", now it is null'),
        ({"world__gravity": [0, 0, 0]}, "world.gravity was [0.0, -9.81, 0.0], now it is [0.0, 0.0, 0.0]"),
        ({"objects__flag__keys__1__time": 0.4}, "objects.flag.keys[1].time was 0.3, now it is 0.4"),
    ],
)  # fmt: skip
def test_keys_are_named(changes, told):
    assert differences(inputs(SOLIDS), inputs(SOLIDS, **changes)) == told


def test_tables_that_come_and_go_are_named():
    longer = HANDLES.replace("left =", "new = { at = [0, 0, 0] }\nleft =")
    one, other = inputs(HANDLES), inputs(longer)
    assert "objects.bar.handles.new.at is [0.0, 0.0, 0.0], and was not there" in differences(one, other)
    assert "objects.bar.handles.new.at was [0.0, 0.0, 0.0], now it is not there" in differences(other, one)


def test_a_message_names_a_few():
    told = differences(inputs(HANDLES), inputs(SOLIDS))
    assert told.count(";") == identity.MOST_NAMED
    assert told.endswith("more")
    long = {"objects__bar__mesh__size": [1.123456789012, 2.123456789012, 3.123456789012]}
    assert differences(inputs(HANDLES), inputs(HANDLES, **long)).endswith(
        "[1.123456789012, 2.123456789012, 3.1234…"
    )


def test_versions_are_named(monkeypatch):
    before = inputs(HANDLES)
    monkeypatch.setattr(identity, "__version__", "99.0")
    told = differences(before, inputs(HANDLES))
    assert told == f"it is by pointglue {before['pointglue']}, this is 99.0"


@pytest.fixture
def cloth(tmp_path):
    """A scene file with a mesh, run for a frame."""
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "a.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    scene = tmp_path / "scene.toml"
    scene.write_text('[frames]\ncount = 2\n[objects.a]\nkind = "cloth"\nmesh.file = "meshes/a.obj"\n')
    with run_scene(scene, tmp_path / "run") as run:
        next(run)
    return scene


def test_a_mesh_that_has_changed_is_named_when_a_run_is_resumed(cloth, tmp_path):
    (tmp_path / "meshes" / "a.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 2 0\nf 1 2 3\n")
    with pytest.raises(
        SceneError, match=r"run: .* cannot be resumed: the file meshes/a\.obj has changed\. Give"
    ):
        run_scene(cloth, tmp_path / "run", resume=True)


def test_runs_of_earlier_versions_do_not_say_what_they_were_made_of(cloth, tmp_path):
    file = tmp_path / "run" / "scene.npz"
    arrays = read_archive(file, "description")
    about = json.loads(str(arrays["scene"]))
    del about["inputs"]
    write_archive(file, arrays | {"scene": np.array(json.dumps(about))})
    with pytest.raises(
        SceneError, match="of another scene, or the scene or a mesh has changed since: it cannot"
    ):
        run_scene(cloth, tmp_path / "run", resume=True, overrides={"frames.rate": 30})
    assert len(list(run_scene(cloth, tmp_path / "run", resume=True))) == 1
