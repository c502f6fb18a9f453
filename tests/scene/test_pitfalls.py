"""What `check` and `run` warn of: what can be built, but is probably not what was meant."""

import warnings
from importlib import import_module

import numpy as np
import pytest
import trimesh

from pointglue.errors import PointglueWarning, SceneError
from pointglue.scene import build_scene, check_scene, demo_path, demo_titles, load_scene

BUILD = import_module("pointglue.scene.build.builder")  # not the function of that name
BOX = {"shape": "box", "size": [0.2, 0.2, 0.2]}
SHEET = {"shape": "sheet", "size": [1, 1], "cells": [4, 4]}
RIGID = {"kind": "rigid", "mesh": BOX}
CLOTH = {"kind": "cloth", "mesh": SHEET}
GRAINS = {"kind": "particles", "mesh": SHEET, "material": {"preset": "cloth"}}
FLESH = {"kind": "flesh", "mesh": BOX, "material": {"young": 1e5}}


def at(x, y, z, table):
    return table | {"transform": {"translate": [x, y, z]}}


def warned(scene, **overrides):
    """The warnings of a scene, in their order."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PointglueWarning)
        build_scene(load_scene(scene, overrides))
    return [str(one.message) for one in caught if issubclass(one.category, PointglueWarning)]


def still(**more):
    return {"world": {"gravity": [0, 0, 0]}, **more}


class TestStrangers:
    def test_particles_that_fall_on_cloth(self):
        (told,) = warned({"objects": {"above": at(0, 1, 0, GRAINS), "below": CLOTH}})
        assert told.startswith(
            "objects.above is made of particles, which pass through 'below': make them all"
        )

    def test_those_that_fall_side_by_side(self):
        assert warned({"objects": {"one": at(3, 1, 0, GRAINS), "other": CLOTH}}) == []

    def test_those_that_fly_towards_each_other(self):
        objects = {"one": at(3, 1, 0, GRAINS) | {"velocity": [-2, 0, 0]}, "other": CLOTH}
        (told,) = warned({"objects": objects})
        assert "pass through 'other'" in told

    def test_what_keys_move_through_them(self):
        keys = [{"time": 0}, {"time": "1 s", "translate": [3, 0, 0]}]
        objects = {"one": at(3, 0, 0, GRAINS), "other": RIGID | {"keys": keys}}
        (told,) = warned(still(objects=objects))
        assert "pass through 'other'" in told

    def test_colliders_are_met_by_both(self):
        wall = at(0, -0.5, 0, {"kind": "collider", "mesh": BOX})
        assert warned({"objects": {"grains": GRAINS, "wall": wall}}) == []


class TestWater:
    def test_it_ignores_cloth(self):
        scene = {
            "world": {"water": {"level": 0}},
            "objects": {"a": at(0, 1, 0, CLOTH), "b": at(5, 1, 0, GRAINS)},
        }
        (told,) = warned(scene)
        assert told.startswith("world.water acts on particles only, and not on 'a': what it moves must be")

    def test_what_a_floor_keeps_out_of_it(self):
        scene = {"world": {"water": {"level": -1}}, "contact": {"distance": 0.001}}
        scene["objects"] = {
            "a": at(0, 1, 0, CLOTH),
            "floor": {"kind": "collider", "mesh": {"shape": "plane"}},
        }
        assert warned(scene) == []
        assert len(warned(scene, **{"objects.floor.transform.translate": [0, -2, 0]})) == 1
        below = {"objects.floor.transform.translate": [0, 2, 0], "contact.ignore": [["a", "floor"]]}
        (told,) = warned(scene, **below)
        assert told.startswith("world.water acts on particles only, and not on 'a'")

    def test_what_stays_dry_or_does_not_move(self):
        objects = {"grains": at(5, -1, 0, GRAINS), "dry": at(0, 1, 0, CLOTH), "rock": RIGID | {"fixed": True}}
        assert warned(still(objects=objects) | {"world": {"gravity": [0, 0, 0], "water": {}}}) == []


class TestInside:
    def test_a_body_wholly_inside_another(self):
        objects = {"small": RIGID, "large": RIGID | {"mesh": {"shape": "sphere", "radius": 1}}}
        (told,) = warned({"objects": objects})
        assert told.startswith("objects.small starts wholly inside 'large'")
        assert "move it with transform.translate, or attach them with [[attach]]" in told

    def test_one_that_is_attached_or_ignored_may_be(self):
        objects = {"small": RIGID, "large": FLESH | {"mesh": {"shape": "sphere", "radius": 1}}}
        tie = {"kind": "joint", "type": "weld", "from": "small", "to": "large", "at": [0, 0, 0]}
        assert warned({"objects": objects, "attach": [tie]}) == []
        contact = {"distance": 0.001, "ignore": [["small", "large"]]}
        assert warned({"objects": objects, "contact": contact}) == []

    def test_one_that_sticks_out_is_not(self):
        objects = {"small": at(1, 0, 0, RIGID), "large": RIGID | {"mesh": {"shape": "sphere", "radius": 1}}}
        assert warned({"objects": objects}) == []

    def test_one_in_the_hole_of_a_ring_is_not(self):
        ring = {"shape": "ring", "radius": 1, "girth": 0.3}
        assert warned({"objects": {"small": RIGID, "ring": RIGID | {"mesh": ring}}}) == []

    def test_one_in_a_room_whose_faces_look_inwards_is_not(self, tmp_path):
        room = trimesh.creation.box((4, 3, 4))
        room.invert()
        room.export(tmp_path / "room.ply")
        objects = {"small": RIGID, "room": {"kind": "collider", "mesh": {"file": str(tmp_path / "room.ply")}}}
        assert warned({"objects": objects, "contact": {"distance": 0.001}}) == []
        room.invert()
        room.export(tmp_path / "room.ply")
        assert len(warned({"objects": objects, "contact": {"distance": 0.001}})) == 1

    def test_one_below_the_ground(self):
        plane = {"kind": "collider", "mesh": {"shape": "plane"}}
        (told,) = warned({"objects": {"a": at(0, -1, 0, GRAINS), "ground": plane}})
        assert told.startswith("objects.a starts wholly below the plane 'ground'")
        assert warned({"objects": {"a": at(0, 1, 0, GRAINS), "ground": plane}}) == []


class TestKeys:
    def moved(self, *times):
        keys = [{"time": time, "translate": [k, 0, 0]} for k, time in enumerate(times)]
        return {"frames": {"start": 1001, "count": 48}, "objects": {"a": RIGID | {"keys": keys}}}

    def test_keys_before_the_first_frame(self):
        (told,) = warned(self.moved("frame 1", "frame 36", "frame 1024"))
        assert told.startswith(
            "objects.a.keys has 2 keys before the first of the frames 1001 to 1048, at frame 1: "
        )

    def test_keys_after_the_last_frame(self):
        (told,) = warned(self.moved("frame 1001", "frame 1060"))
        assert told == (
            "objects.a.keys has a key after the last of the frames 1001 to 1048, at frame 1060: "
            "frames.count = 60 reaches it"
        )

    def test_the_frame_after_the_last_ends_a_cycle(self):
        assert warned(self.moved("frame 1001", "frame 1049")) == []

    def test_who_asks_for_fewer_frames_knows(self):
        assert warned(self.moved("frame 1001", "frame 1048"), **{"frames.count": 10}) == []

    def test_keys_of_grips_and_handles(self):
        grips = {"hand": {"points": {"indices": [0, 1]}, "keys": [{"time": 0}, {"time": 9}]}}
        (told,) = warned({"objects": {"a": CLOTH | {"grips": grips}}})
        assert told.startswith("objects.a.grips.hand.keys has a key after the last of the frames 1 to 100")
        handles = {"knee": {"at": [0, 0, 0], "keys": [{"time": -1}]}}
        (told,) = warned({"objects": {"a": {"kind": "handles", "mesh": BOX, "handles": handles}}})
        assert told.startswith(
            "objects.a.handles.knee.keys has a key before the first of the frames 1 to 100"
        )


class TestSizes:
    def test_a_flat_mesh_as_flesh(self):
        (told,) = warned({"objects": {"a": FLESH | {"mesh": SHEET, "transform": {"rotate": [30, 20, 10]}}}})
        assert told == (
            "objects.a.mesh is flat, and flesh fills a volume: give the mesh a thickness, or make it "
            'kind = "cloth"'
        )

    @pytest.mark.parametrize(
        ("height", "unit", "scale", "metres"),
        [(495, "centimetres", 0.01, "4.95"), (1800, "millimetres", 0.001, "1.8")],
    )
    def test_a_mesh_in_other_units(self, tmp_path, height, unit, scale, metres):
        trimesh.creation.box((height / 3, height, height / 4)).export(tmp_path / "figure.ply")
        (tmp_path / "scene.toml").write_text('[objects.a]\nkind = "rigid"\nmesh.file = "figure.ply"\n')
        (told,) = warned(tmp_path / "scene.toml")
        assert told == (
            f"{tmp_path / 'scene.toml'}:3: objects.a.mesh is {height} m high: if it was made in {unit}, "
            f"transform.scale = {scale} makes it {metres} m"
        )

    def test_a_mesh_that_is_tiny(self):
        (told,) = warned({"objects": {"a": RIGID | {"transform": {"scale": [0.001, 0.002, 0.001]}}}})
        assert "objects.a.mesh is only 0.0004 m large" in told
        assert "transform.scale = [1, 2, 1] makes it 0.4 m" in told

    def test_wide_grounds_are_no_mistake(self):
        wide = {"kind": "collider", "mesh": {"shape": "box", "size": [500, 0.1, 500]}}
        assert warned({"objects": {"a": at(0, 1, 0, GRAINS), "ground": wide}}) == []


class TestEstimates:
    def test_a_needle_is_told_with_what_it_takes_before_it_is_made(self, monkeypatch):
        """A box of particles scaled by 1,000 along one axis takes long: said before the work begins."""
        monkeypatch.setattr(BUILD, "build_with_surface", lambda *_: pytest.fail("the work has begun"))
        box = {"kind": "particles", "mesh": {"shape": "box", "size": [1, 1, 1]}}
        box["transform"] = {"scale": [1000, 1, 1]}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", PointglueWarning)
            with pytest.raises(pytest.fail.Exception, match="the work has begun"):
                check_scene({"objects": {"a": box}})
        amount, aspect = (str(one.message) for one in caught)
        assert amount.startswith("objects.a will be about 300 particles, ")
        assert " MB of memory and 10 s to make: choose a simpler mesh" in amount
        assert aspect.startswith("objects.a is 1000 m long and only 1 m wide, 1,000 to 1")

    @pytest.mark.parametrize(
        ("table", "told"),
        [
            (
                {"kind": "particles", "mesh": BOX, "spacing": "1 mm"},
                r"would be about 13,600,000 particles, 76 GB of memory and 3 h to make, "
                "but at most 50,000 particles are allowed: choose a larger spacing",
            ),
            (
                {"kind": "particles", "mesh": BOX, "spacing": "0.5 mm", "placement": "surface"},
                "would be about 960,000 particles",
            ),
            (
                FLESH | {"cell": "1 mm"},
                "would be about 8,120,000 cubes, 203 GB of memory and 20 min to make, "
                "but at most 300,000 cubes are allowed: choose a larger cell",
            ),
            (CLOTH | {"mesh": SHEET | {"cells": [1000, 1000]}}, "would be about 1,002,001 vertices"),
            (GRAINS | {"mesh": SHEET | {"cells": [1000, 1000]}}, "would be about 1,002,001 particles"),
        ],
        ids=["volume", "surface", "cubes", "cloth", "sheet of particles"],
    )
    def test_too_much_is_refused_before_it_is_made(self, table, told, monkeypatch):
        monkeypatch.setattr(BUILD, "build_with_surface", lambda *_: pytest.fail("the work has begun"))
        with pytest.raises(SceneError) as caught:
            check_scene({"objects": {"a": table}})
        (problem,) = caught.value.problems
        assert problem.startswith(f"objects.a {told}")

    def test_much_is_built_with_a_warning(self):
        cloth = CLOTH | {"mesh": SHEET | {"cells": [230, 230]}}
        (told,) = warned({"objects": {"a": cloth}})
        assert told.startswith("objects.a will be about 53,361 vertices, ")

    @pytest.mark.parametrize("placement", ["volume", "surface"])
    def test_estimates_are_about_right(self, placement):
        table = {"kind": "particles", "mesh": BOX, "spacing": "3 cm", "placement": placement}
        loaded = load_scene({"objects": {"a": table}})
        from pointglue.scene.build.construct import object_surface
        from pointglue.scene.build.review.estimates import estimate

        table = loaded.tables.objects["a"]
        found = estimate(table, object_surface(table, loaded.source.folder))
        (there,) = build_scene(loaded).objects
        assert 0.5 < found.count / there.points < 2


@pytest.mark.parametrize("name", demo_titles())
def test_nothing_of_the_demos_is_extreme(name):
    """No demo has an object whose size is worth a warning."""
    from pointglue.scene.build.construct import object_surface
    from pointglue.scene.build.review.estimates import size_warnings

    loaded = load_scene(demo_path(name))
    for table in loaded.tables.objects.values():
        assert size_warnings(table, object_surface(table, loaded.source.folder)) == []


class TestCommand:
    @pytest.fixture
    def scene(self, tmp_path):
        file = tmp_path / "scene.toml"
        file.write_text(
            "frames.count = 2\n[contact]\ndistance = 0.001\n"
            '[objects.floor]\nkind = "collider"\nmesh.shape = "plane"\n'
            '[objects.block]\nkind = "rigid"\nmesh = { shape = "box", size = [0.2, 0.4, 0.6] }\n'
            "transform.translate = [0, 1, 0]\n"
            '[objects.flag]\nkind = "cloth"\nmesh = { shape = "sheet", size = [1, 1], cells = [4, 4] }\n'
            "transform.translate = [0, 2, 0]\n"
            '[[attach]]\nkind = "spring"\nfrom = "flag"\nto = "block"\nstiffness = 1\npoints.indices = [0]\n'
        )
        return file

    def test_what_a_scene_is_made_of(self, command, scene):
        code, printed, told = command("check", scene)
        assert (code, told) == (0, "")
        first, *rows = printed.splitlines()
        assert first == f"{scene}: nothing is wrong (2 frames, 2 visible objects)"
        assert [row.split() for row in rows] == [
            ["object", "kind", "size", "(m)", "mass", "(kg)", "points", "engine", "meets", "attached", "to"],
            ["floor", "collider", "endless", "4", "none", "block,", "flag"],
            ["block", "rigid", "0.2", "x", "0.4", "x", "0.6", "48", "8", "implicit", "floor,", "flag"],
            ["flag", "cloth", "1", "x", "0", "x", "1", "0.2", "25", "implicit", "floor,", "block,", "itself",
             "block", "(spring)"],
        ]  # fmt: skip
        assert len({row.index("implicit") for row in rows[2:]}) == 1  # columns are aligned

    def test_as_json(self, command, scene):
        import json

        floor, block, flag = json.loads(command("check", scene, "--json")[1])
        assert (floor["size"], floor["mass"]) == (None, None)
        assert np.allclose(block["size"], [0.2, 0.4, 0.6])
        assert flag["meets"] == ["floor", "block", "flag"]

    @pytest.mark.parametrize("contacts", ["none", "bodies", "all"])
    def test_what_particles_meet(self, command, tmp_path, contacts):
        import json

        scene = tmp_path / "particles.toml"
        box = '{ shape = "box", size = [0.4, 0.4, 0.4] }'
        scene.write_text(
            f'frames.count = 1\nsolver.particles.contacts = "{contacts}"\n'
            f'[objects.one]\nkind = "particles"\nmesh = {box}\nspacing = 0.2\n'
            f'[objects.two]\nkind = "particles"\nmesh = {box}\nspacing = 0.2\n'
            "transform.translate = [0, 2, 0]\n"
        )
        one, two = json.loads(command("check", scene, "--json")[1])
        wanted = {"none": [[], []], "bodies": [["two"], ["one"]], "all": [["one", "two"], ["one", "two"]]}
        assert [sorted(one["meets"]), sorted(two["meets"])] == wanted[contacts]

    @pytest.mark.parametrize("how", ["check", "run"])
    def test_warnings_are_a_line_each_with_the_place_in_the_file(self, command, scene, tmp_path, how):
        small = '[objects.seed]\nkind = "rigid"\nmesh = { shape = "sphere", radius = 0.02 }\n'
        scene.write_text(scene.read_text() + small + "transform.translate = [0, 1, 0]\n")
        more = ["-o", tmp_path / "run", "--quiet"] if how == "run" else []
        code, printed, told = command(how, scene, *more)
        assert code == 0
        assert told.splitlines() == [
            f"pointglue: warning: {scene}:21: objects.seed starts wholly inside 'block', where it "
            "cannot come out or is not stopped: move it with transform.translate, or attach them with "
            "[[attach]]"
        ]
        if how == "check":
            assert printed.startswith(f"{scene}: can be run, with 1 warning (2 frames, 3 visible objects)\n")


def test_progress_says_what_is_being_made():
    told = []
    check_scene(
        {"objects": {"one": RIGID, "other": at(1, 0, 0, CLOTH)}, "contact": {"distance": 0.001}},
        None,
        told.append,
    )
    assert [text for text in told if "building" in text] == ["building one", "building other"]
    assert told[-1] == "looking for what intersects at the start"
