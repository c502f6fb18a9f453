"""Loads and events of scenes: statistics, command line, studio, a table and a chart."""

import csv
import json

import imageio.v3 as imageio
import numpy as np
import pytest
from typer.testing import CliRunner

from pointglue.cli import app
from pointglue.errors import InputError, SceneError
from pointglue.scene import load_scene, run_scene
from pointglue.studio.document.document import Document
from pointglue.studio.document.toml import toml_text
from pointglue.studio.runtime.preview import Preview
from pointglue.view import render_loads
from pointglue.view.charts import line_chart

WEIGHT = 300.0 * 0.1 * 0.16 * 0.1 * 9.81  # N: of the lantern below


def lantern(*, attach=(), count=5, loads=True):
    """A box that hangs on a fixed one by a weld, or by other attachments."""
    weld = {"kind": "joint", "type": "weld", "from": "lantern", "to": "hook", "at": [0, -0.1, 0]}
    return {
        "frames": {"count": count},
        "output": {"loads": loads},
        "objects": {
            "hook": {
                "kind": "rigid",
                "mesh": {"shape": "box", "size": [0.2, 0.2, 0.2]},
                "keys": [{"time": 0}, {"time": 0.1}],
            },
            "lantern": {
                "kind": "rigid",
                "mesh": {"shape": "box", "size": [0.1, 0.16, 0.1]},
                "transform": {"translate": [0.3, -0.18, 0]},
                "material": {"density": 300},
            },
        },
        "attach": [weld | dict(attach)],
    }


def test_loads_and_energy_are_in_the_statistics(tmp_path):
    list(run_scene(lantern(), tmp_path))
    lines = [json.loads(line) for line in (tmp_path / "stats.jsonl").read_text().splitlines()]
    assert "loads" not in lines[0]
    for line in lines[1:]:
        (load,) = line["loads"]
        assert (load["kind"], load["from"], load["to"]) == ("joint", "lantern", "hook")
        assert load["force"] == pytest.approx([0, WEIGHT, 0], abs=1e-6)
        assert load["torque"] == pytest.approx([0, 0, WEIGHT * 0.3], abs=1e-6)
        assert load["largest"] == pytest.approx(WEIGHT)
        assert set(line["energy"]) == {"kinetic", "gravity", "elastic", "springs", "contact"}


def test_they_are_not_there_unless_asked_for(tmp_path):
    list(run_scene(lantern(loads=False), tmp_path))
    assert "loads" not in (tmp_path / "stats.jsonl").read_text()
    with pytest.raises(InputError, match=r"has no loads: run its scene with output.loads = true"):
        render_loads(tmp_path)


def test_a_table_and_a_chart(tmp_path):
    list(run_scene(lantern(), tmp_path / "run"))
    done = CliRunner().invoke(app, ["render", str(tmp_path / "run"), "--loads", "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert done.output.split() == [
        "wrote",
        str(tmp_path / "out/loads.csv"),
        "wrote",
        str(tmp_path / "out/loads.png"),
    ]
    rows = list(csv.DictReader((tmp_path / "out" / "loads.csv").read_text().splitlines()))
    assert [int(row["frame"]) for row in rows] == [2, 3, 4, 5]
    assert all(float(row["force_y"]) == pytest.approx(WEIGHT) for row in rows)
    assert imageio.imread(tmp_path / "out" / "loads.png").shape[2] == 3


@pytest.mark.parametrize(("torque", "breaks"), [("1.5 N m", False), ("1.2 N m", True)])
def test_torque_breaks(torque, breaks, tmp_path):
    """The weld carries 1.39 N m."""
    frames = list(run_scene(lantern(attach={"break_torque": torque}), tmp_path))
    told = [event for frame in frames for event in frame.events]
    assert told == ["'lantern' breaks off 'hook' (joint, 1 joint)"] * breaks


def test_events_on_the_command_line(tmp_path):
    scene = tmp_path / "lantern.toml"
    scene.write_text(toml_text(lantern(attach={"break_torque": "1.2 N m"})))
    run = CliRunner().invoke(app, ["run", str(scene), "-o", str(tmp_path / "run")])
    assert "frame 2: 'lantern' breaks off 'hook' (joint, 1 joint)" in run.output.splitlines()
    told = CliRunner().invoke(app, ["run", str(scene), "-o", str(tmp_path / "again"), "--json"])
    frames = [json.loads(line) for line in told.output.splitlines() if line.startswith("{")]
    assert [line.get("happened") for line in frames if line["event"] == "frame"] == [
        None,
        ["'lantern' breaks off 'hook' (joint, 1 joint)"],
        None,
        None,
        None,
    ]


def test_events_in_the_studio():
    preview = Preview(Document(lantern(attach={"break_torque": "1.2 N m"})), {})
    preview.advance(lambda: None)
    assert preview.events == ("'lantern' breaks off 'hook' (joint, 1 joint)",)
    preview.advance(lambda: None)
    assert preview.events == ()


def test_springs_have_no_torque():
    scene = lantern()
    scene["attach"] = [{"kind": "spring", "from": "lantern", "to": "hook", "points": {"all": True},
                        "stiffness": 100, "break_torque": 1}]  # fmt: skip
    with pytest.raises(SceneError, match="break_torque"):
        load_scene(scene)


def test_a_chart_shows_its_lines():
    """A line that rises goes from the lower left to the upper right of its panel, in its own colour."""
    x = np.linspace(0, 2, 50)
    image = line_chart(x, {"force [N]": {"rope": x, "hook": np.where(x < 1, 2 - x, np.nan)}}, size=(400, 200))
    assert image.shape[1] == 400
    colorful = np.ptp(image[:200].astype(int), axis=2) > 60
    rows, columns = np.nonzero(colorful)
    assert columns.max() - columns.min() > 200
    assert rows[columns > np.percentile(columns, 95)].mean() < rows.mean()
    with pytest.raises(InputError, match="a chart needs at least one line"):
        line_chart(x, {})
