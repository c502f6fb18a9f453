"""What is said of a scene that is wrong reads as English, whatever is wrong with it."""

import re
from typing import get_args

import pytest

from pointglue.errors import SceneError
from pointglue.scene import check_scene, load_scene
from pointglue.scene.schema import fields as tables
from pointglue.scene.schema import materials, motors, shapes
from pointglue.scene.schema import scene as schema

BOX = {"shape": "box", "size": [1, 1, 1]}
RIGID = {"kind": "rigid", "mesh": BOX}
GLUE = {"kind": "glue", "from": "a", "to": "b", "points": {"all": True}}
CLOTH = {"kind": "cloth", "mesh": {"shape": "sheet", "size": [1, 1], "cells": [4, 4]}}


def problems(scene, of=load_scene):
    with pytest.raises(SceneError) as caught:
        of(scene)
    return list(caught.value.problems)


def members(union):
    """The tables of a union by the value of the key that tells them apart."""
    return {get_args(part)[1].tag.split("=")[1]: get_args(part)[0] for part in get_args(get_args(union)[0])}


def wanting():
    """Scenes with a table in which all needed keys are missing, and that table's place and type."""
    yield {}, "", schema.SceneFile
    for kind, model in members(schema.Object).items():
        yield {"objects": {"a": {"kind": kind}}}, "objects.a.", model
    for shape, model in members(shapes.Mesh).items():
        mesh = {"shape": shape}
        if shape != "file":  # which is told by its key
            yield {"objects": {"a": {"kind": "rigid", "mesh": mesh}}}, "objects.a.mesh.", model
    for key, union in (("attach", schema.Attach), ("force", schema.Force)):
        for kind, model in members(union).items():
            yield {"objects": {"a": RIGID}, key: [{"kind": kind}]}, f"{key}[0].", model
    for kind, model in (("flesh", materials.FleshMaterial), ("jelly", materials.JellyMaterial)):
        table = {"kind": kind, "mesh": BOX, "material": {}}
        yield {"objects": {"a": table}}, "objects.a.material.", model
    cloth = CLOTH | {"keys": [{}], "grips": {"hand": {}}, "pin": {"ball": {}}}
    yield {"objects": {"a": cloth}}, "objects.a.keys[0].", tables.Key
    yield {"objects": {"a": cloth}}, "objects.a.grips.hand.", schema.KinematicPoints
    yield {"objects": {"a": cloth}}, "objects.a.pin.ball.", tables.BallOf
    for name, model in (("slide_motor", motors.SlideKey), ("angle_motor", motors.AngleKey)):
        joint = {"kind": "joint", "type": "cylindrical", "from": "a", "to": "b", "at": [0, 0, 0]}
        driven = joint | {name: {"keys": [{}]}}
        objects = {"a": RIGID, "b": RIGID}
        yield {"objects": objects, "attach": [driven]}, f"attach[0].{name}.keys[0].", model
    handles = {"kind": "handles", "mesh": BOX, "handles": {"knee": {}}}
    yield {"objects": {"a": handles}}, "objects.a.handles.knee.", schema.Handle
    yield {"objects": {"a": RIGID}, "world": {"wind": {}}}, "world.wind.", schema.Wind
    yield {"objects": {"a": RIGID}, "contact": {}}, "contact.", schema.Contact
    implicit = {"implicit": {"conflict_spring": {}}}
    place = "solver.implicit.conflict_spring."
    yield {"objects": {"a": RIGID}, "solver": implicit}, place, schema.ConflictSpring


WANTING = list(wanting())


@pytest.mark.parametrize(
    ("scene", "place", "model"), WANTING, ids=lambda value: getattr(value, "__name__", "")
)
def test_each_missing_key_says_what_to_give(scene, place, model):
    needed = [info.alias or name for name, info in model.model_fields.items() if info.is_required()]
    needed = [name for name in needed if name not in ("kind", "shape")]
    told = problems(scene) if needed else []
    for name in needed:
        (sentence,) = (text for text in told if text.startswith(f"{place}{name} is missing"))
        assert re.fullmatch(r"\S+ is missing: give the [a-z].{5,}", sentence, re.IGNORECASE), sentence
        assert not sentence.endswith("."), sentence


def every_table(kind, seen):
    """All tables that a type has in it, and those in these."""
    if isinstance(kind, type) and issubclass(kind, tables.Table) and kind not in seen:
        seen.add(kind)
        for info in kind.model_fields.values():
            every_table(info.annotation, seen)
    for part in get_args(kind):
        every_table(part, seen)
    return seen


def test_no_table_with_needed_keys_is_left_out_above():
    needing = {
        model
        for model in every_table(schema.SceneFile, set())
        if {name for name, info in model.model_fields.items() if info.is_required()} - {"kind", "shape"}
    }
    assert needing - {shapes.FromFile} <= {model for _, _, model in WANTING}


def test_some_of_them_as_they_are():
    assert problems({}) == [
        "objects is missing: give the objects, each a table by its name: [objects.ball], say"
    ]
    spring = {"kind": "spring", "from": "a", "to": "b", "points": {"all": True}}
    assert problems({"objects": {"a": RIGID, "b": RIGID}, "attach": [spring]}) == [
        "attach[0].stiffness is missing: give the stiffness of each spring (in N/m)"
    ]
    assert problems({"objects": {"a": {"kind": "rigid"}}}) == [
        "objects.a.mesh is missing: give the mesh that is seen: a file, or a shape"
    ]


@pytest.mark.parametrize(
    ("scene", "sentence"),
    [
        ({"objects": {}}, "objects must have at least 1 entry, got 0"),
        ({"objects": {"a": {}}}, "objects.a has no kind: the kind must be one of handles, particles, flesh, "
         "cloth, jelly, rigid, collider, animated, follower"),
        ({"objects": {"a": {"kind": 3}}}, "objects.a.kind must be one of handles, particles, flesh, "
         "cloth, jelly, rigid, collider, animated, follower, got 3"),
        ({"objects": {"a/b": RIGID}},
         "objects.'a/b' must be a name of letters a to z, digits, _, - and spaces, got 'a/b'"),
        ({"objects": {"a" * 61: RIGID}}, f"objects.{'a' * 61} must have at most 60 letters"),
        ({"objects": {"a": RIGID | {"mesh": BOX | {"size": [1, 1, "1 N"]}}}},
         "objects.a.mesh.size: number 3 of 3 must be a number in m, or a text such as '2 m', got '1 N'"),
        ({"objects": {"a": CLOTH | {"pin": {"box": [[0, 0, 0]]}}}},
         "objects.a.pin.box must have at least 2 entries, got 1"),
        ({"objects": {"a": RIGID}, "solver": {"implicit": {"x": 1}}},
         "solver.implicit.x is not known here; the keys here are method, tolerance, iterations, "
         "conflict_spring"),
        ({"objects": {"a": RIGID}, "title": 3}, "title must be a text, got 3"),
        ({"objects": {"a": RIGID}, "frames": {"count": 1.5}}, "frames.count must be a whole number, got 1.5"),
        ({"objects": {"a": RIGID}, "frames": {"count": 2_000_000}},
         "frames.count must be at most 1000000, got 2000000"),
        ({"objects": {"a": RIGID | {"fixed": "yes"}}}, "objects.a.fixed must be true or false, got 'yes'"),
        ({"objects": {"a": RIGID | {"keys": 3}}}, "objects.a.keys must be a list, got 3"),
        ({"objects": {"a": RIGID | {"mesh": []}}}, "objects.a.mesh must be a table, got []"),
        ({"objects": {"a": RIGID | {"ease": "slow"}}},
         "objects.a.ease must be one of smooth, linear, got 'slow'"),
    ],
)  # fmt: skip
def test_each_kind_of_error_is_a_sentence(scene, sentence):
    assert problems(scene) == [sentence]


def test_what_cannot_be_built_is_told_as_a_sentence():
    mesh = {"shape": "plane"}
    assert problems({"objects": {"a": RIGID | {"mesh": mesh}}}, check_scene) == [
        "objects.a: a plane is for colliders only"
    ]


class TestCircles:
    def file(self, folder, *ties):
        """A file with three sheets and glue between them."""
        text = "".join(
            f'[objects.{name}]\nkind = "cloth"\nmesh = {{ shape = "sheet", size = [1, 1], cells = [2, 2] }}\n'
            f"transform.translate = [0, {0.1 * k}, 0]\n"
            for k, name in enumerate("abc")
        )
        for one, other in ties:
            text += f'[[attach]]\nkind = "glue"\nfrom = "{one}"\nto = "{other}"\npoints.all = true\n'
        (folder / "scene.toml").write_text(text)
        return folder / "scene.toml"

    def test_two_objects_that_are_glued_to_each_other(self, tmp_path):
        file = self.file(tmp_path, "ab", "ba")
        (told,) = problems(file, check_scene)
        assert told.startswith(
            f"{file}:13: attach[0] glues 'a' to 'b', which attach[1] (line 18) glues to 'a': "
            "glue must not go round in a circle."
        )

    def test_three_of_them(self, tmp_path):
        (told,) = problems(self.file(tmp_path, "ab", "bc", "ca"), check_scene)
        assert "attach[0] glues 'a' to 'b', which attach[1] (line 18) glues to 'c', " in told
        assert "which attach[2] (line 23) glues to 'a': glue must not go round" in told

    def test_an_object_that_is_glued_to_points_of_itself_that_are_glued(self):
        glue = {"kind": "glue", "from": "a", "to": "a", "points": {"all": True}, "among": {"all": True}}
        (told,) = problems({"objects": {"a": CLOTH}, "attach": [glue]}, check_scene)
        assert told.startswith("attach[0] glues 'a' to itself: glue must not go round in a circle.")


def test_frames_that_last_for_ages():
    """A frame of 1e300 s kept the studio from answering for minutes."""
    (problem,) = problems({"objects": {"a": RIGID}, "frames": {"rate": 1e-300}})
    assert problem == "frames.rate must be at least 0.1, got 1e-300"
