"""What runs tell of their frames: statistics as they come, and errors with objects, place and remedy."""

import json
import re
import tomllib

import pytest
from small_scenes import ALL, HANDLES, SOLIDS

from pointglue.elastic import Stall, StepError
from pointglue.errors import SceneError
from pointglue.io import FrameStore
from pointglue.scene import load_scene, run_scene
from pointglue.scene.remedies import explained

PRESS = {
    "frames": {"count": 8},
    "contact": {"distance": "5 mm"},
    "objects": {
        "cushion": {
            "kind": "flesh",
            "mesh": {"shape": "sphere", "radius": 0.1, "detail": 1},
            "touch": "mesh",
            "cell": 0.1,
            "material": {"young": "50 kPa"},
            "transform": {"translate": [0, 0.11, 0]},
        },
        "press": {
            "kind": "rigid",
            "mesh": {"shape": "box", "size": [0.4, 0.1, 0.4]},
            "transform": {"translate": [0, 0.3, 0]},
            "keys": [{"time": 0}, {"time": "0.25 s", "translate": [0, -0.26, 0]}],
        },
        "ground": {"kind": "collider", "mesh": {"shape": "box", "size": [2, 0.2, 2]},
                   "transform": {"translate": [0, -0.1, 0]}},
    },
}  # fmt: skip

FLAP = """
[frames]
count = 6
[objects.base]
kind = "rigid"
mesh = { shape = "box", size = [0.4, 0.2, 0.4] }
fixed = true
[objects.flap]
kind = "rigid"
mesh = { shape = "box", size = [0.4, 0.05, 0.4] }
transform = { translate = [0.4, 0, 0] }
material = { density = 500 }
[[attach]]
kind = "joint"
type = "hinge"
from = "flap"
to = "base"
at = [0.2, 0, 0]
axis = [0, 0, 1]
angle_limits = ["0 deg", "10 deg"]
angle_motor = { speed = "90 deg/s" }
"""


def lines(out):
    return [json.loads(line) for line in (out / "stats.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", ALL)
def test_lines_have_what_frames_have_and_seconds(name, tmp_path):
    run = run_scene(tomllib.loads(ALL[name]), tmp_path)
    frames = list(run)
    engines = {engine.name for engine in run.simulation.engines}
    for line, frame in zip(lines(tmp_path), frames, strict=True):
        assert line["frame"] == frame.number
        assert line["time"] == frame.time
        assert frame.stats.items() <= line.items()
        seconds = line["seconds"]
        spent = {part for part in seconds if part in engines}
        assert spent == (engines if frame is not frames[0] else set())
        assert seconds["total"] >= sum(seconds[part] for part in spent) - 1e-5  # they are rounded
        assert seconds["write"] >= 0
    if "implicit" in engines:
        assert {"implicit.energies", "implicit.factor", "implicit.solve"} <= seconds.keys()
        assert line["attempted iterations"] >= line["newton iterations"]
    assert ("gap" in line) == ("contacts" in line)


def test_events_are_told_in_the_frame_that_they_change(tmp_path):
    list(run_scene(tomllib.loads(SOLIDS), tmp_path))
    told = [(line["frame"], event) for line in lines(tmp_path) for event in line["events"]]
    # They are to happen at frames 3 and 6: the steps from there are the first that go by them.
    assert told == [
        (4, {"event": "attach", "kind": "spring", "from": "jelly", "to": "trunk", "count": 2, "time": 0.125}),
        (7, {"event": "release", "kind": "glue", "from": "twig", "to": "trunk", "count": 6, "time": 0.25}),
    ]


def test_a_line_is_there_before_the_next_frame_is_computed(tmp_path):
    """After the checkpoint of its frame, at the latest; the first has one in any case."""
    with run_scene(tomllib.loads(HANDLES), tmp_path) as run:
        next(run)
    assert [line["frame"] for line in lines(tmp_path)] == [1001]
    with run_scene(tomllib.loads(HANDLES), tmp_path, resume=True) as run:
        next(run), next(run)
    assert [line["frame"] for line in lines(tmp_path)] == [1001, 1002, 1003]


def test_a_resumed_run_has_each_line_once(tmp_path):
    """Lines of frames that a killed run had no checkpoint of yet are written again."""
    with run_scene(tomllib.loads(HANDLES), tmp_path) as run:
        next(run), next(run)
    with (tmp_path / "stats.jsonl").open("a") as file:
        file.write('{"frame": 1003, "stale": 1}\n{"frame": 10')
    list(run_scene(tomllib.loads(HANDLES), tmp_path, resume=True))
    assert [line["frame"] for line in lines(tmp_path)] == [1001, 1002, 1003, 1004, 1005]
    assert not any("stale" in line for line in lines(tmp_path))
    assert all("seconds" in line for line in lines(tmp_path))
    (tmp_path / "stats.jsonl").unlink()
    list(run_scene(tomllib.loads(HANDLES), tmp_path, resume=True))
    assert [line["time"] for line in lines(tmp_path)] == [frame.time for frame in FrameStore.open(tmp_path)]


def test_the_gap_is_less_than_contact_reaches(tmp_path):
    list(run_scene(PRESS, tmp_path, overrides={"frames.count": 4}))
    found = lines(tmp_path)
    assert found[-1]["contacts"] > 0
    assert 0 < found[-1]["gap"] < 5e-3
    assert found[-1]["unconverged"] == 0
    assert "gap" not in found[0]  # nothing has been computed for the first


class TestErrors:
    def test_a_frame_that_cannot_be_computed_says_where_and_what_to_try(self, tmp_path):
        """A press squeezes a cushion to nothing. Its mesh is what touches, but the object is named."""
        run = run_scene(PRESS, tmp_path, overrides={"objects.press.keys.1.time": "frame 2"})
        run.simulation.engines[0].solver.halvings = 0
        with pytest.raises(SceneError) as caught:
            list(run)
        (told,) = caught.value.problems
        assert told.startswith("frame 2 cannot be computed: the step from 0 s did not converge")
        keeps = (
            r": contact keeps 'press' .* from where its motion says \(.*'cushion'.* near \(.*\) m\)\. Try "
        )
        assert re.search(keeps, told), told
        assert "/mesh" not in told
        assert ". Try shorter steps (frames.substeps = 2), or " in told

    def test_a_motor_of_unlimited_force_is_told_by_its_keys(self, tmp_path):
        """A hinge turns against its own limit; with the key that is told, the motor stalls there."""
        run = run_scene(tomllib.loads(FLAP), tmp_path)
        run.simulation.engines[0].solver.halvings = 0
        with pytest.raises(SceneError) as caught:
            list(run)
        (told,) = caught.value.problems
        assert told.endswith(". Try attach.0.angle_motor.max_torque, so that the motor stalls"), told
        key = {"attach.0.angle_motor.max_torque": "20 N m"}
        assert len(list(run_scene(tomllib.loads(FLAP), tmp_path, overrides=key, replace=True))) == 6

    @pytest.mark.parametrize(
        ("stall", "tries"),
        [
            (
                Stall("contact", ("cushion/mesh", "press")),
                "shorter steps (frames.substeps = 2), or a larger contact.distance than 0.005 m, or slower "
                "motions of objects.cushion and objects.press, or "
                'contact.ignore = [["cushion", "press"]]',
            ),
            (
                Stall("motion", ("press",)),
                "shorter steps (frames.substeps = 2), or slower keys, "
                "or keys that do not squeeze objects.press",
            ),
            (
                Stall("joint", ("a", "b")),
                "leaving out a pin, keys or an attachment that keep objects.a and objects.b apart",
            ),
            (
                Stall("convergence"),
                "shorter steps (frames.substeps = 2), or solver.implicit.iterations = 120, or a larger "
                "solver.implicit.tolerance, or softer or heavier materials of the objects",
            ),
        ],
    )
    def test_remedies_fit_the_cause(self, stall, tries):
        error = StepError("it did not converge", None, stall)
        assert explained(error, load_scene(PRESS).tables) == f"it did not converge. Try {tries}"
