"""Scene files: units, and everything that is wrong with a file at once, by line, key and nearest name."""

import json

import pytest

from pointglue.errors import SceneError
from pointglue.scene import json_schema, load_scene, parse_setting
from pointglue.scene.schema.loading import lines_of
from pointglue.scene.schema.units import Quantity, Row

BOX = {"kind": "flesh", "mesh": {"shape": "box", "size": [1, 1, 1]}, "material": {"young": "1 MPa"}}


def problems(scene, **overrides):
    with pytest.raises(SceneError) as caught:
        load_scene(scene, overrides)
    return list(caught.value.problems)


class TestUnits:
    @pytest.mark.parametrize(
        ("text", "unit", "number"),
        [
            (2, "m", 2.0),
            ("2", "m", 2.0),
            ("1 mm", "m", 1e-3),
            ("-3.5e-2 km", "m", -35.0),
            ("12in", "m", 0.3048),
            ("0.3 kg/m2", "kg/m2", 0.3),
            ("300 g/m^2", "kg/m2", 0.3),
            ("1 g/cm3", "kg/m3", 1000.0),
            ("2 MPa", "Pa", 2e6),
            ("3 N/m2", "Pa", 3.0),
            ("20 N", "N", 20.0),
            ("20 kg m/s2", "N", 20.0),
            ("5 N s/m", "N s/m", 5.0),
            ("5 kg/s", "N s/m", 5.0),
            ("36 km/h", "m/s", 10.0),
            ("180 deg/s", "rad/s", 3.141592653589793),
            ("1/240 s", "s", 1 / 240),
            ("24 Hz", "1/s", 24.0),
            ("50 %", "", 0.5),
        ],
    )
    def test_conversion(self, text, unit, number):
        assert Quantity(unit).parse(text) == pytest.approx(number, rel=1e-14)

    @pytest.mark.parametrize(
        ("value", "unit", "message"),
        [
            ("1 N", "m", "must be a number in m, or a text such as '2 m', got '1 N'"),
            ("1 kg/m3", "kg/m2", "must be a number in kg/m2"),
            ("1 furlong", "m", "got the unknown unit 'furlong'"),
            ("1 m/", "m/s", "unknown unit ''"),
            ("long", "m", "must be a number in m"),
            (True, "m", "must be a number in m"),
            ([1], "m", "must be a number in m"),
            ("1 m", "", "must be a number without a unit"),
            (float("nan"), "m", "must be a finite number, got nan"),
            ("1e999 m", "m", "must be a finite number"),
            (10**400, "m", "must be a smaller number"),
            ("1/0 s", "s", "must not be divided by zero"),
        ],
    )
    def test_refusal(self, value, unit, message):
        with pytest.raises(ValueError, match=message.replace("(", r"\(")):
            Quantity(unit).parse(value)

    def test_limits(self):
        with pytest.raises(ValueError, match="must be greater than 0, got '0 m'"):
            Quantity("m", above=0).parse("0 m")
        with pytest.raises(ValueError, match="must be at most 1, got 2"):
            Quantity("", most=1).parse(2)

    def test_rows(self):
        assert Row(Quantity("m")).parse(["1 cm", 2, "3 m"]) == (0.01, 2.0, 3.0)
        with pytest.raises(ValueError, match=r"must be 3 numbers in m, got \[1, 2\]"):
            Row(Quantity("m")).parse([1, 2])
        with pytest.raises(ValueError, match="number 3 of 3 must be a number in m"):
            Row(Quantity("m")).parse([1, 2, "3 s"])


BAD = """\
title = "wrong in many places"
frame = 1
[frames]
count = 0
rate = "24 m"
[objects.trunk]
kind = "flsh"
[objects.c]
kind = "rigid"
mesh = { shape = "box", size = ["10 N", 1, 1] }
color = "blu"
visible = "yes"
keys = [
    { time = "frame x", rotate = [0, 0, 0, 0] },
]
[objects.e]
kind = "cloth"
mesh = { file = "horze.ply" }
pin = {}
material.densty = "2 kg/m2"
material.density = "2 kg/m3"
groups.hem = { box = [[0, 0, 0], [1, 1, 1]] }

[[attach]]
kind = "glue"
atach = 2
[[attach]]
kind = "spring"
from = "e"
to = "trnk"
points = { name = "hemm" }
[[attach]]
kind = "gleu"
"""


class TestProblems:
    def test_all_at_once_with_their_lines(self, tmp_path):
        (tmp_path / "horse.ply").touch()
        file = tmp_path / "bad.toml"
        file.write_text(BAD)
        told = problems(file)
        assert [line.removeprefix(f"{file}:") for line in told] == [
            "2: frame is not known here; did you mean 'frames'?",
            "4: frames.count must be at least 1, got 0",
            "5: frames.rate must be a number in 1/s, or a text such as '2 1/s', got '24 m'",
            "7: objects.trunk.kind must be one of handles, particles, flesh, cloth, jelly, rigid, collider, "
            "animated, follower, got 'flsh'; did you mean 'flesh'?",
            "10: objects.c.mesh.size: number 1 of 3 must be a number in m, or a text such as '2 m', "
            "got '10 N'",
            "11: objects.c.color must be #rrggbb or one of coral, teal, gold, blue, plum, sage, sky, rose, "
            "red, green, sand, slate, graphite, white, got 'blu'; did you mean 'blue'?",
            "12: objects.c.visible must be true or false, got 'yes'",
            "13: objects.c.keys[0].time must be seconds, '1.5 s' or 'frame 36', got 'frame x'",
            "13: objects.c.keys[0].rotate must not be zero: a quaternion wxyz is needed, got [0, 0, 0, 0]",
            "18: objects.e.mesh.file is not a file: 'horze.ply'; did you mean 'horse.ply'?",
            "19: objects.e.pin must have one of the keys box, ball, nearest, indices, name, all, any, "
            "got none",
            "20: objects.e.material.densty is not known here; did you mean 'density'?",
            "21: objects.e.material.density must be a number in kg/m2, or a text such as '2 kg/m2', "
            "got '2 kg/m3'",
            "24: attach[0].from is missing: give the name of the object that is attached",
            "24: attach[0].to is missing: give the name of the object that it is attached to",
            "24: attach[0].points is missing: give the points of `from` that are attached",
            "26: attach[0].atach is not known here; did you mean 'attach'?",
            "27: attach[1].stiffness is missing: give the stiffness of each spring (in N/m)",
            "30: attach[1].to names no object: 'trnk'; did you mean 'trunk'?",
            "31: attach[1].points.name names no group of 'e': 'hemm'; did you mean 'hem'?",
            "33: attach[2].kind must be one of glue, spring, joint, got 'gleu'; did you mean 'glue'?",
        ]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"title = \xff", "is not a text file in UTF-8"),
            (b"title = 'a'\nframes = [", ":2: is not TOML: Invalid value"),
            (b"title = 'a'\ntitle = 'b'", ":2: is not TOML: Cannot overwrite a value"),
            (b"", "objects is missing: give the objects"),
            (b"objects = {}", "objects must have at least 1 entry, got 0"),
            (b"objects = 3", ":1: objects must be a table, got 3"),
            (b"a = " + b"[" * 5000, "is nested too deeply"),
            (b"a = " + b"9" * 5000, "is not TOML"),
        ],
    )
    def test_files_that_are_none(self, tmp_path, content, message):
        file = tmp_path / "scene.toml"
        file.write_bytes(content)
        (told,) = problems(file)[:1]
        assert told.startswith(str(file))
        assert message in told

    def test_missing_files(self, tmp_path):
        assert "cannot be read: No such file" in problems(tmp_path / "none.toml")[0]
        assert "cannot be read: Is a directory" in problems(tmp_path)[0]
        assert "got int" in problems(3)[0]

    def test_lists_and_tables_that_are_not(self):
        told = problems({"objects": {"a": {**BOX, "keys": 3, "transform": 4, "mesh": 5}}})
        assert "objects.a.keys must be a list, got 3" in told
        assert "objects.a.transform must be a table, got 4" in told
        assert "objects.a.mesh must be a table, got 5" in told

    def test_too_many_points_are_a_slip(self):
        mesh = {"shape": "sheet", "size": [1, 1], "cells": [100000, 100000]}
        (told,) = problems({"objects": {"a": {"kind": "cloth", "mesh": mesh}}})
        assert told == "objects.a.mesh: cells must make at most 2,000,000 points, got 10,000,200,001"

    def test_rows_of_handles_name_handles(self):
        table = {"kind": "handles", "mesh": {"shape": "figure"}, "handles": {"knee": {"at": [0, 0.3, 0]}}}
        load_scene({"objects": {"a": table | {"chains": [["knee"]]}}})
        assert problems({"objects": {"a": table | {"chains": [["kne"]], "together": [["knee", "hip"]]}}}) == [
            "objects.a.chains[0][0] names no handle of 'a': 'kne'; did you mean 'knee'?",
            "objects.a.together[0][1] names no handle of 'a': 'hip'; there are 'knee'",
        ]

    def test_an_object_cannot_be_attached_to_itself(self):
        attach = {"kind": "glue", "from": "a", "to": "a", "points": {"all": True}}
        assert problems({"objects": {"a": BOX}, "attach": [attach]}) == [
            "attach[0] attaches 'a' to itself: say among which of its points"
        ]


class TestOverrides:
    def test_they_go_before_the_file(self):
        attach = [{"kind": "glue", "from": "a", "to": "b", "points": {"all": True}}]
        scene = {"objects": {"a": BOX, "b": BOX}, "attach": attach}
        loaded = load_scene(
            scene, {"frames.count": 7, "objects.a.material.young": "3 kPa", "attach.0.release": "frame 3"}
        )
        assert loaded.tables.frames.count == 7
        assert loaded.tables.objects["a"].material.young == 3000.0
        assert loaded.tables.attach[0].release == "frame 3"
        assert "release" not in attach[0]  # what was given is left alone

    def test_wrong_ones_are_named(self):
        scene = {"objects": {"a": BOX}}
        assert problems(scene, **{"frames.cont": 7}) == [
            "as set, frames.cont is not known here; did you mean 'count'?"
        ]
        assert "has 0 entries" in problems({**scene, "attach": []}, **{"attach.0.release": 1})[0]
        assert "is 'flesh', not a table" in problems(scene, **{"objects.a.kind.x": 1})[0]

    @pytest.mark.parametrize(
        ("text", "setting"),
        [
            ("a.b=3", ("a.b", 3)),
            ("a = [1, 2.5]", ("a", [1, 2.5])),
            ("a=true", ("a", True)),
            ("a=2 mm", ("a", "2 mm")),
            ("a=soft", ("a", "soft")),
            ("a='b=c'", ("a", "b=c")),
        ],
    )
    def test_settings(self, text, setting):
        assert parse_setting(text) == setting

    def test_a_setting_needs_a_value(self):
        with pytest.raises(SceneError, match="must look like key=value, got 'frames'"):
            parse_setting("frames")


def testlines_of_keys():
    text = '[a]\nb = 1\n"c d".e = 2\n[[f]]\ng = 3\n[[f]]\n[f.h]\ni = 4 # [x]\n'
    found = lines_of(text)
    expected = {("a",): 1, ("a", "b"): 2, ("a", "c d", "e"): 3, ("f", 0): 4, ("f", 0, "g"): 5, ("f", 1): 6}
    assert found == {**expected, ("f", 1, "h"): 7, ("f", 1, "h", "i"): 8}


def test_moments_are_seconds_or_frames():
    tables = load_scene({"frames": {"start": 101, "rate": 25}, "objects": {"a": BOX}}).tables
    assert tables.frames.end == 200
    assert tables.frames.seconds("frame 126") == 1.0
    assert tables.frames.seconds(0.5) == 0.5


def test_json_schema_accepts_what_is_right():
    """Every table is closed, every field described: that is what editors show."""
    schema = json_schema()
    json.dumps(schema)
    tables = [entry for entry in schema["$defs"].values() if entry.get("type") == "object"]
    assert len(tables) > 35
    for table in [schema, *tables]:
        assert table["additionalProperties"] is False
        for name, field in table["properties"].items():
            assert name in ("kind", "shape") or field["description"]


def test_texts_of_other_editors(tmp_path):
    scene = '[objects.a]\r\nkind = "rigid"\r\nmesh = { shape = "sphere", radius = 1 }\r\n'
    (tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbf" + scene.encode())
    assert list(load_scene(tmp_path / "marked.toml").tables.objects) == ["a"]
    (tmp_path / "latin.toml").write_bytes((scene + 'title = "Bär"').encode("latin-1"))
    with pytest.raises(SceneError, match=r"latin.toml:4: is not a text file in UTF-8"):
        load_scene(tmp_path / "latin.toml")


def test_a_folder_is_no_mesh(tmp_path):
    (tmp_path / "d.obj").mkdir()
    thing = {"kind": "rigid", "mesh": {"file": str(tmp_path / "d.obj")}}
    with pytest.raises(SceneError, match=r"objects.a.mesh.file is a folder, not a file: '"):
        load_scene({"objects": {"a": thing}})
