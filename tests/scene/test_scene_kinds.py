"""What goes with what: followers, grips, animated meshes, meshes that are touched, linear bindings."""

import re
import tomllib
from contextlib import nullcontext
from typing import ClassVar

import numpy as np
import pytest
import trimesh
from scipy.spatial import cKDTree
from small_scenes import TOGETHER

import pointglue as pg
from pointglue.errors import PointglueWarning, SceneError
from pointglue.glue.linear import LinearBinding
from pointglue.scene import build_scene, load_scene
from pointglue.scene.identity import scene_hash
from pointglue.scene.tracks import rotation


def frames(scene, count, **overrides):
    simulation = build_scene(load_scene(scene, overrides))
    state, found = simulation.start(), []
    for _ in range(count):
        found.append(simulation.frame(state))
        state = simulation.advance(state)
    return found


def problems(scene, **overrides):
    with pytest.raises(SceneError) as caught:
        build_scene(load_scene(scene, overrides))
    return "\n".join(caught.value.problems)


@pytest.fixture(scope="module")
def together():
    return frames(tomllib.loads(TOGETHER), 5)


class TestTogether:
    def test_followers_are_where_glue_says(self, together):
        first, last = together[0], together[-1]
        rest, now = first.points["cloth"], last.points["cloth"]
        glue = pg.bind_glue(rest, first.points["tag"], parents=8)
        assert np.allclose(glue.positions(now), last.points["tag"], atol=1e-12)
        assert np.abs(last.points["tag"] - first.points["tag"]).max() > 0.01

    def test_a_follower_of_handles(self, together):
        bar, ring = (together[-1].points[name] - together[0].points[name] for name in ("bar", "mark"))
        assert 0.05 < ring[:, 1].mean() < bar[:, 1].max() + 0.05

    def test_every_grip_goes_its_own_way(self, together):
        first, last = together[0].points["rope"], together[-1].points["rope"]
        near, far = first[:, 2] < 0.01, first[:, 2] > 0.99
        assert np.allclose(
            last[near].mean(0), first[near].mean(0), atol=0.02
        )  # the skin follows its neighbours, too
        assert np.allclose(last[far].mean(0) - first[far].mean(0), [0, 0.1, 0], atol=0.02)
        held = together[0].points["cloth"][:, 0] < -1.19
        moved = together[-1].points["cloth"][held] - together[0].points["cloth"][held]
        assert np.allclose(moved, [0, 0.05, 0], atol=1e-12)

    def test_a_mesh_that_is_touched_stays_out_of_the_ground(self, together):
        lowest = [frame.points["block"][:, 1].min() for frame in together]
        assert together[0].points["block"][:, 1].min() < 0.02
        assert min(lowest) > 0
        assert max(frame.stats.get("contacts", 0) for frame in together) > 0

    def test_linear_bindings_are_weighted_sums_of_tetrahedra(self):
        simulation = build_scene(load_scene(tomllib.loads(TOGETHER)))
        (engine,) = (engine for engine in simulation.engines if engine.name == "implicit")
        (bond,) = (bond for bond in engine.solver.model.glue if bond.body == "weight")
        assert isinstance(bond.binding, LinearBinding)
        assert bond.binding.parents.indices.max() < len(engine.body(engine.start(), "block"))
        assert (np.diff(bond.binding.parents.offsets) == 4).all()


class TestAnimated:
    def scene(self, folder, count=3):
        for k in range(count):
            text = "".join(f"v {x} {0.1 * k} {z}\n" for x in (0, 1) for z in (0, 1)) + "f 1 2 3\nf 2 4 3\n"
            (folder / f"floor_{k + 7:03}.obj").write_text(text)
        (folder / "scene.toml").write_text(
            "frames.count = 5\n[world]\ngravity = [0, 0, 0]\n"
            '[objects.floor]\nkind = "animated"\nmesh.file = "floor_007.obj"\n'
            '[objects.sheet]\nkind = "cloth"\nmesh = { shape = "sheet", size = [0.4, 0.4], cells = [2, 2] }\n'
            "transform.translate = [0.5, 0.1, 0.5]\n"
            '[[attach]]\nkind = "glue"\nfrom = "sheet"\nto = "floor"\nparents = 4\n'
            "points = { indices = [0, 1] }\n"
        )
        return folder / "scene.toml"

    def test_it_goes_as_its_files_say_and_takes_along_what_is_glued(self, tmp_path):
        found = frames(self.scene(tmp_path), 5)
        heights = [frame.points["floor"][:, 1].mean() for frame in found]
        assert np.allclose(heights, [0, 0.1, 0.2, 0.2, 0.2], atol=1e-9)
        glued = [frame.points["sheet"][:2, 1].mean() - 0.1 for frame in found]
        assert np.allclose(glued, heights, atol=1e-9)

    def test_all_of_its_files_are_part_of_the_scene(self, tmp_path):
        scene = self.scene(tmp_path)
        before = scene_hash(load_scene(scene))
        (tmp_path / "floor_009.obj").write_text((tmp_path / "floor_008.obj").read_text())
        assert scene_hash(load_scene(scene)) != before

    def test_files_that_do_not_fit(self, tmp_path):
        scene = self.scene(tmp_path)
        (tmp_path / "floor_008.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
        assert "floor_008.obj must have 4 vertices" in problems(scene)

    def test_a_gap_in_the_sequence_is_refused_by_name(self, tmp_path):
        scene = self.scene(tmp_path, count=9)
        (tmp_path / "floor_009.obj").unlink()
        told = problems(scene)
        assert "floor_009.obj is missing between floor_007.obj and floor_015.obj" in told
        for number in (10, 12, 13, 14):
            (tmp_path / f"floor_{number:03}.obj").unlink()
        assert "floor_009.obj, floor_010.obj, floor_012.obj and 2 more are missing" in problems(scene)

    def test_files_of_other_sequences_are_no_gap(self, tmp_path):
        scene = self.scene(tmp_path)
        for name in ("floor_001.obj", "floor_0020.obj", "floor_20.obj", "floor_020.ply", "a_floor_020.obj"):
            (tmp_path / name).write_text("another")
        assert len(frames(scene, 5)) == 5

    def test_a_single_file_is_no_sequence(self, tmp_path):
        scene = self.scene(tmp_path, count=1)
        assert "objects.floor: mesh.file must be the first of several files" in problems(scene)
        (tmp_path / "floor.obj").write_text((tmp_path / "floor_007.obj").read_text())
        told = problems(scene, **{"objects.floor.mesh.file": "floor.obj"})
        assert "mesh.file must be the first of a numbered sequence" in told
        assert "got 'floor.obj', which has no number: what does not move is a collider" in told

    def test_the_torso_moves_by_itself(self):
        torso = {"kind": "animated", "mesh": {"shape": "torso", "detail": 2}}
        ball = {"kind": "rigid", "mesh": {"shape": "sphere", "radius": 0.1, "detail": 1}, "fixed": True}
        first, last = frames({"objects": {"torso": torso, "ball": ball}}, 5)[::4]
        assert 0.001 < np.abs(last.points["torso"] - first.points["torso"]).max() < 1


CLOTH = {"kind": "cloth", "mesh": {"shape": "sheet", "size": [1, 1], "cells": [4, 4]}}
BALL = {"shape": "sphere", "radius": 0.1, "detail": 1}


class TestProblems:
    def test_followers(self):
        objects = {"a": CLOTH, "b": {"kind": "follower", "mesh": BALL, "on": "aa"}}
        assert "objects.b.on names no object: 'aa'" in problems({"objects": objects})
        objects["c"] = {"kind": "follower", "mesh": BALL, "on": "b"}
        objects["b"]["on"] = "a"
        assert "objects.c.on must be an object that a solver moves, got 'b'" in problems({"objects": objects})

    def test_grips(self):
        grips = {"a": {"points": {"indices": [0, 1]}}, "b": {"points": {"indices": [1, 2]}}}
        found = problems({"objects": {"a": CLOTH | {"grips": grips}}})
        assert "objects.a.grips.b pins points that are pinned already" in found

    def test_groups_that_name_each_other(self):
        groups = {"one": {"any": [{"name": "two"}]}, "two": {"any": [{"name": "one"}]}}
        found = problems({"objects": {"a": CLOTH | {"groups": groups, "pin": {"name": "one"}}}})
        assert "names no group: 'two'" in found

    def test_attachments_to_itself(self):
        tie = {"kind": "glue", "from": "a", "to": "a", "points": {"indices": [0]}}
        scene = {"objects": {"a": CLOTH}, "attach": [tie]}
        assert "attach[0] attaches 'a' to itself: say among which of its points" in problems(scene)
        scene["attach"] = [tie | {"among": {"indices": [13, 14, 18, 19, 24]}, "parents": 4}]
        first, last = frames(scene, 3)[::2]
        rest, now = first.points["a"], last.points["a"]
        glue = pg.bind_glue(rest, rest[:1], parents=4, among=[13, 14, 18, 19, 24])
        assert np.allclose(now[:1], glue.positions(now), atol=1e-9)

    def test_parents_weights_and_the_policy_of_collapse_are_those_of_the_table(self):
        names = [13, 14, 18, 19, 23, 24]
        tie = {
            "kind": "glue",
            "from": "a",
            "to": "a",
            "points": {"indices": [0]},
            "among": {"indices": names},
        }
        rest = frames({"objects": {"a": CLOTH}}, 1)[0].points["a"]
        options = [
            {"parents": 3, "falloff": "uniform"},
            {"falloff": "inverse", "on_degenerate": "clamp"},
            {"radius": 10.0, "falloff": "smooth"},
        ]
        for chosen in options:
            scene = {"objects": {"a": CLOTH}, "attach": [tie | chosen]}
            (bond,) = build_scene(load_scene(scene)).engines[0].solver.model.glue
            expected = pg.bind_glue(rest, rest[:1], among=names, **chosen)
            assert bond.binding.parents.indices.tolist() == expected.parents.indices.tolist()
            assert bond.binding.weights.tolist() == expected.weights.tolist()
            assert bond.binding.on_degenerate == expected.on_degenerate

    def test_the_conflict_spring_is_that_of_the_solver_table(self):
        box = {"shape": "box", "size": [0.2, 0.2, 0.2], "cells": [2, 2, 2]}
        above = {
            "kind": "flesh",
            "mesh": box,
            "material": {"young": 1e5},
            "transform": {"translate": [0, 0.2, 0]},
        }
        tie = {"kind": "glue", "from": "a", "to": "above", "points": {"indices": [12]}}
        scene = {"objects": {"a": CLOTH, "above": above}, "attach": [tie, tie]}
        scene["solver"] = {"implicit": {"conflict_spring": {"stiffness": "3 kN/m", "damping": 2}}}
        springs = build_scene(load_scene(scene)).engines[0].solver.model.springs
        assert set(springs.stiffness) == {3000.0}
        assert set(springs.damping) == {2.0}

    def test_joints_take_parents_of_the_second_object_among_those_named(self):
        names, box = [0, 1, 2, 3, 4, 5], {"shape": "box", "size": [0.2, 0.2, 0.2], "cells": [2, 2, 2]}
        above = {"kind": "rigid", "mesh": box, "transform": {"translate": [0, 0.3, 0]}}
        joint = {"kind": "joint", "type": "ball", "from": "above", "to": "a", "at": [0, 0.1, 0], "parents": 4}
        joint["among"] = {"indices": names}
        scene = {"objects": {"a": CLOTH, "above": above}, "attach": [joint]}
        (bond,) = build_scene(load_scene(scene)).engines[0].solver.model.joints
        points = [side.shape.point_count for side in (bond.joint.first, bond.joint.second)]
        assert points == [26, 25]
        assert set(bond.joint.second.parents.indices) <= set(names)
        assert not set(bond.joint.first.parents.indices) <= set(names)

    def test_sliding_joints_with_limits_and_motors(self):
        """Keys of a motor, with units; what `check` says of drives that a joint does not have."""
        box = {"shape": "box", "size": [0.2, 0.2, 0.2]}
        drawer = {"kind": "rigid", "mesh": box}
        joint = {"kind": "joint", "type": "prismatic", "from": "drawer", "to": "case", "at": [0, 0, 0]}
        joint |= {"axis": [0, 0, 1], "slide_limits": ["-1 cm", "20 cm"]}
        keys = [{"time": 0, "position": 0}, {"time": "0.1 s", "position": "5 cm"}]
        moved = joint | {"slide_motor": {"keys": keys, "max_force": "2 kN", "ease": "linear"}}
        case = {"kind": "rigid", "mesh": box | {"size": [0.3, 0.3, 0.3]}, "fixed": True}
        scene = {"objects": {"drawer": drawer, "case": case}, "attach": [moved]}
        scene["frames"] = {"rate": 40}
        last = frames(scene, 5)[-1]
        assert np.allclose(last.transforms["drawer"][:3, 3], [0, 0, 0.05], atol=1e-8)
        (bond,) = build_scene(load_scene(scene)).engines[0].solver.model.joints
        assert bond.slide_limits == (-0.01, 0.2)
        assert (bond.slide_motor.max_force, bond.slide_motor.at(0.05)) == (2000.0, 0.025)
        for changes, message in (
            (
                {"slide_motor": {"max_force": 1}},
                "slide_motor must have one of the keys speed, position, keys",
            ),
            ({"slide_motor": {"keys": keys[::-1]}}, "keys must have times that increase"),
            ({"slide_motor": {"keys": [{"time": 0}]}}, "keys[0] must have a speed or a position, got none"),
            (
                {"slide_motor": {"keys": [keys[0], {"time": 1, "speed": 2}]}},
                "keys must all be speeds, or all",
            ),
            ({"slide_motor": {"speed": "3 rad/s"}}, "speed must be a number in m/s"),
            ({"angle_motor": {"speed": "3 rad/s", "max_torque": "2 N m"}}, "a prismatic joint has no angle"),
            ({"slide_limits": ["1 cm", "2 cm"]}, "slide_limits must include 0"),
            ({"path": [[0, 0, 0], [0, 0, 1]]}, "must have a path if its type is curve, and only then"),
            ({"patch": [[[0, 0, 0], [0, 0, 1]]] * 2}, "must have a patch if its type is surface, and only"),
            ({"type": "surface"}, "must have a patch if its type is surface, and only then"),
            ({"type": "surface", "patch": [[[0, 0, 0], [0, 0]]] * 2}, "patch[0][1] must be 3 numbers in m"),
            (
                {"type": "surface", "patch": [[[0, 0, 0]] * 2, [[0, 0, 0]] * 3]},
                "must have a patch with rows of one length, got 2, 3",
            ),
            ({"closed": True}, "must not be closed unless its type is curve or surface"),
            ({"stiffness": [1, 1, 1]}, "stiffness and damping are of bushings"),
        ):
            found = problems(scene | {"attach": [joint | changes]})
            assert "attach[0]" in found
            assert message in found

    def test_bushings_curves_and_surfaces(self):
        """A box sags in a bushing by its weight; others slide down a path, or a patch, to its end."""
        box = {"shape": "box", "size": [0.2, 0.2, 0.2]}
        post = {"kind": "rigid", "mesh": box, "fixed": True, "transform": {"translate": [0, -1, 0]}}
        objects = {"hung": {"kind": "rigid", "mesh": box, "material": {"density": 100}}, "post": post}
        tie = {"kind": "joint", "from": "hung", "to": "post", "at": [0, 0, 0]}
        bushing = tie | {"type": "bushing", "axis": [0, 1, 0], "across": [1, 0, 0]}
        bushing |= {"stiffness": ["1 kN/m", 500, 500], "damping": [30, 0.5, 0]}
        scene = {"objects": objects, "attach": [bushing], "frames": {"rate": 10}}
        last = frames(scene, 30)[-1]
        assert np.allclose(last.transforms["hung"][:3, 3], [0, -0.8 * 9.81 / 1000, 0], atol=1e-5)
        curve = tie | {"type": "curve", "path": [[0, 0, 0], [0.1, -0.1, 0], [0.3, -0.15, 0]]}
        last = frames(scene | {"attach": [curve]}, 15)[-1]
        assert np.allclose(
            last.transforms["hung"][:3, :3] @ [0, 0, 0] + last.transforms["hung"][:3, 3], [0.3, -0.15, 0]
        )

        hoop = [[0, 0, 0], ["0.2 m", -0.2, 0], [0, -0.4, 0], [-0.2, -0.2, 0]]
        curve = tie | {"type": "curve", "path": hoop, "closed": True}
        (bond,) = build_scene(load_scene(scene | {"attach": [curve]})).engines[0].solver.model.joints
        assert bond.joint.axes[0].closed
        assert bond.joint.reach == pytest.approx(4 * 0.2 * np.sqrt(2))
        slope = [[[x, -0.5 * x, z] for z in (-0.2, 0, 0.2)] for x in (-0.1, 0.1, 0.3)]
        surface = tie | {"type": "surface", "patch": slope}
        last = frames(scene | {"attach": [surface]}, 15)[-1]
        assert np.allclose(last.transforms["hung"][:3, 3], [0.3, -0.15, 0])

    def test_what_is_animated_does_not_follow_forces(self):
        torso = {"kind": "animated", "mesh": {"shape": "torso"}}
        scene = {
            "objects": {"t": torso, "a": CLOTH},
            "force": [{"kind": "drag", "on": ["t"], "rate": 1}],
        }
        assert "cannot be pushed: 't' is of kind animated" in problems(scene)
        tie = {"kind": "glue", "from": "t", "to": "a", "points": {"indices": [0]}}
        found = problems({"objects": scene["objects"], "attach": [tie]})
        assert "attach[0].from must be flesh, cloth, jelly or rigid" in found
        box = {"kind": "animated", "mesh": {"shape": "box", "size": [1, 1, 1]}}
        assert "must be a torso or a numbered sequence of files, got a box" in problems(
            {"objects": {"b": box}}
        )

    def test_shapes_that_cannot_be(self):
        ring = {"kind": "rigid", "mesh": {"shape": "ring", "radius": 0.1, "girth": 0.2}}
        assert "girth must be less than radius" in problems({"objects": {"a": ring}})


def test_rotations_of_grips_are_about_their_middle():
    grip = {"points": {"box": [[-0.51, -1, -1], [-0.49, 1, 1]]}}
    grip["keys"] = [{"time": 0}, {"time": "1/24 s", "rotate": [90, 0, 0]}]
    cloth = CLOTH | {"grips": {"hand": grip}}
    first, last = frames({"objects": {"a": cloth}, "world": {"gravity": [0, 0, 0]}}, 2)
    held = first.points["a"][:, 0] < -0.49
    turned = first.points["a"][held] @ rotation((90.0, 0.0, 0.0)).T
    assert np.allclose(last.points["a"][held], turned, atol=1e-9)


@pytest.mark.parametrize("kind", ["cloth", "rigid"])
def test_vertices_at_the_same_place_are_one(kind, tmp_path):
    """As in STL files, where every triangle has corners of its own: else cloth would fall to pieces."""
    solid = trimesh.creation.box((1.0, 0.1, 1.0)).subdivide()
    loose = trimesh.Trimesh(solid.vertices[solid.faces.ravel()], np.arange(solid.faces.size).reshape(-1, 3),
                            process=False)  # fmt: skip
    built = {}
    for name, mesh in (("whole", solid), ("loose", loose)):
        mesh.export(tmp_path / f"{name}.ply")
        thing = {"kind": kind, "mesh": {"file": str(tmp_path / f"{name}.ply")}, "velocity": [0, 0, 1]}
        built[name] = frames({"objects": {"a": thing}}, 4)[-1]
    if kind == "rigid":
        assert np.allclose(built["whole"].transforms["a"], built["loose"].transforms["a"], atol=1e-9)
    else:
        one, other = (built[name].points["a"] for name in ("whole", "loose"))
        assert one.shape == other.shape
        assert cKDTree(one).query(other)[0].max() < 1e-6  # in another order, and with rounding of the file


class TestStart:
    """What intersects where contact begins."""

    octopus: ClassVar = {"kind": "flesh", "mesh": {"shape": "octopus"}, "material": {"young": 1e5}}

    @pytest.mark.parametrize("touch", ["cells", "mesh"])
    @pytest.mark.parametrize(
        "pin", [{}, {"pin": {"box": [[-9, -9, -9], [9, 0.1, 9]]}}], ids=["free", "pinned"]
    )
    def test_solids_that_cross_themselves_do_not_meet_themselves(self, touch, pin):
        """Cubes of limbs that are near each other overlap, so that they do not hang together."""
        scene = {"objects": {"a": self.octopus | pin | {"touch": touch}}, "contact": {"distance": 0.002}}
        with (
            pytest.warns(PointglueWarning, match="objects.a crosses itself at the start")
            if touch == "cells"
            else nullcontext()
        ):
            simulation = build_scene(load_scene(scene))
        simulation.advance(simulation.start())
        (summary,) = simulation.objects
        assert summary.meets == (() if touch == "cells" else ("a",))
        scene["contact"]["ignore"] = [["a", "a"]]
        assert len(frames(scene, 2)) == 2

    def test_others_are_named_with_a_remedy(self):
        box = {"kind": "rigid", "mesh": {"shape": "box", "size": [0.3, 0.3, 0.3]}}
        told = problems({"objects": {"a": CLOTH, "b": box}, "contact": {"distance": 0.002}})
        assert re.fullmatch(
            r"contact: 'a' and 'b' intersect at the start in \d+ places, one at \([^)]*\): move them apart, "
            r'or let contact ignore = \[\["a", "b"\]\]',
            told,
        )
