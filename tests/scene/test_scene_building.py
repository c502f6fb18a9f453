"""What tables are made into: places, motions, masses, ties; and what cannot be built."""

import tomllib
from math import pi

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from small_scenes import ALL, HANDLES, PARTICLES, SOLIDS

import pointglue as pg
from pointglue.errors import SceneError
from pointglue.scene import build_scene, check_scene, load_scene
from pointglue.scene.build.meshing import surface_of
from pointglue.scene.build.selection import select
from pointglue.scene.schema.fields import Key, Points, Transform
from pointglue.scene.schema.loading import LoadedScene
from pointglue.scene.schema.scene import Frames
from pointglue.scene.tracks import Track, placed, rotation


def simulation(scene, **overrides):
    return build_scene(load_scene(tomllib.loads(scene) if isinstance(scene, str) else scene, overrides))


def problems(scene, **overrides):
    with pytest.raises(SceneError) as caught:
        simulation(scene, **overrides)
    return list(caught.value.problems)


def frames(simulation, count):
    state, found = simulation.start(), []
    for _ in range(count):
        found.append(simulation.frame(state))
        state = simulation.advance(state)
    return found


def rigid(**more):
    return {"kind": "rigid", "mesh": {"shape": "box", "size": [0.2, 0.2, 0.2]}, **more}


class TestPlaces:
    def test_scaled_then_turned_then_moved(self):
        transform = Transform(scale=2.0, rotate=(90, 0, 0), translate=(1, 0, 0))
        assert np.allclose(placed([[0, 1, 0]], transform), [[1, 0, 2]], atol=1e-15)

    def test_angles_are_about_x_then_y_then_z(self):
        turn = rotation((90.0, 90.0, 0.0))
        assert np.allclose(turn @ [0, 1, 0], [1, 0, 0], atol=1e-15)  # to z by x, then to x by y
        assert np.allclose(rotation((0.5**0.5, 0.0, 0.0, 0.5**0.5)), rotation((0.0, 0.0, 90.0)), atol=1e-15)

    def test_tracks(self):
        keys = (
            Key.model_validate({"time": "frame 1"}),
            Key.model_validate({"time": 1.0, "translate": [1, 0, 0], "rotate": [0, 0, 180]}),
        )
        pivot = np.array([0.0, 2.0, 0.0])
        for ease, share in (("linear", 0.25), ("smooth", 0.15625)):  # 3 s^2 - 2 s^3 at a quarter
            turn, shift = Track(keys, Frames(), ease, pivot).at(0.25)
            assert np.allclose(turn, rotation((0.0, 0.0, 180 * share)), atol=1e-14)
            assert np.allclose(turn @ pivot + shift, pivot + [share, 0, 0], atol=1e-14)
        assert np.allclose(Track(keys, Frames(), "smooth", pivot).matrix(7.0)[:3, 3], [1, 4, 0])

    @pytest.mark.parametrize(
        ("mesh", "volume"),
        [
            ({"shape": "box", "size": [1, 2, 3], "cells": [2, 2, 2]}, 6.0),
            ({"shape": "sphere", "radius": 1, "detail": 4}, 4 / 3 * pi),
            ({"shape": "cylinder", "radius": 1, "height": 2, "sections": 200}, 2 * pi),
            ({"shape": "capsule", "radius": 1, "height": 2}, 2 * pi + 4 / 3 * pi),
            ({"shape": "rope", "start": [0, 0, 0], "end": [0, 3, 0], "radius": 1, "cells": 3}, 3 * pi),
            (
                {
                    "shape": "branch",
                    "spine": [[0, 0, 0], [0, 1, 0], [0, 2, 0]],
                    "radius": 0.1,
                    "taper": 0,
                },
                0.02 * pi * 1.05,
            ),
        ],
        ids=lambda value: value["shape"] if isinstance(value, dict) else "",
    )
    def test_shapes_are_closed_outwards_and_as_large_as_they_should(self, mesh, volume, tmp_path):
        import trimesh

        table = load_scene({"objects": {"a": rigid(mesh=mesh)}}).tables.objects["a"]
        surface = surface_of(table.mesh, table.transform, tmp_path)
        built = trimesh.Trimesh(surface.vertices, surface.faces, process=False)
        assert built.is_watertight
        assert built.volume == pytest.approx(volume, rel=0.07)  # polygons are inside of circles

    @pytest.mark.parametrize("shape", ["octopus", "fish", "plant", "gear", "stairs", "sheet"])
    def test_models(self, shape, tmp_path):
        size = {"size": [1, 1]} if shape == "sheet" else {}
        objects = {"a": {"kind": "cloth", "mesh": {"shape": shape, **size}}}
        table = load_scene({"objects": objects}).tables.objects["a"]
        assert len(surface_of(table.mesh, table.transform, tmp_path).faces) > 10

    def test_sheets_look_up(self, tmp_path):
        objects = {"a": {"kind": "cloth", "mesh": {"shape": "sheet", "size": [2, 1], "cells": [4, 2]}}}
        table = load_scene({"objects": objects}).tables.objects["a"]
        surface = surface_of(table.mesh, table.transform, tmp_path)
        a, b, c = surface.vertices[surface.faces].swapaxes(0, 1)
        assert np.allclose(np.cross(b - a, c - a), [0, 0.25, 0])  # 16 triangles of an eighth

    def test_selections(self):
        points = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0]])
        groups = {"end": Points.model_validate({"box": [[1.5, 0, 0], [9, 0, 0]]})}
        for table, rows in (
            ({"box": [[1, -1, -1], [2, 1, 1]]}, [1, 2]),
            ({"ball": {"center": [3, 0, 0], "radius": 1}}, [2, 3]),
            ({"indices": [3, 0, 3]}, [0, 3]),
            ({"all": True}, [0, 1, 2, 3]),
            ({"name": "end"}, [2, 3]),
            ({"nearest": 2}, [0, 1]),
        ):
            chosen = select(Points.model_validate(table), points, groups, np.array([[-1.0, 0, 0]]))
            assert chosen.tolist() == rows


class TestBuilding:
    def test_every_kind_moves_as_it_should(self):
        first, last = frames(simulation(SOLIDS), 8)[::7]
        assert set(first.points) == {"trunk", "twig", "flag", "jelly"}
        assert set(first.transforms) == {"ball"}
        assert np.array_equal(first.transforms["ball"], np.eye(4))
        assert last.stats["newton iterations"] > 0
        assert last.points["twig"][:, 1].mean() < first.points["twig"][:, 1].mean() - 0.01  # let go
        pinned = first.points["trunk"][:, 1] < 0.0
        assert np.allclose(first.points["trunk"][pinned], last.points["trunk"][pinned], atol=0.01)
        mast = first.points["flag"][:, 0] < 1.26
        # After 7/24 s of 0.3 s, eased, the mast has turned about the middle of the flag by nearly 90 degrees.
        assert np.abs(last.points["flag"][mast][:, 0] - 1.5).max() < 0.02
        assert all(np.isfinite(points).all() for points in last.points.values())

    def test_particles_meet_colliders_and_follow_keys(self):
        first, last = frames(simulation(PARTICLES), 8)[::7]
        assert set(first.points) == {"dented", "cloth", "rope"}
        assert set(first.transforms) == {"ball"}
        assert last.transforms["ball"][1, 3] == pytest.approx(0.3)
        end = first.points["rope"][:, 2] < 0.01
        moved = last.points["rope"][end].mean(0) - first.points["rope"][end].mean(0)
        assert np.allclose(moved, [0, 0, 0.3], atol=0.02)  # the skin there follows its neighbours as well
        assert last.points["dented"][:, 1].min() > -0.05

    def test_handles(self):
        first, last = frames(simulation(HANDLES), 5)[::4]
        assert (first.number, last.number) == (1001, 1005)
        right = first.points["bar"][:, 0] > 0.49
        left = first.points["bar"][:, 0] < -0.49
        assert np.allclose(last.points["bar"][right].mean(0), [0.5, 0.4, 0], atol=0.1)
        assert np.allclose(last.points["bar"][left], first.points["bar"][left], atol=0.1)

    def test_masses_are_those_of_the_material(self):
        built = simulation(SOLIDS)
        (engine,) = built.engines
        scene = engine.solver.model
        assert scene.inertia.mass[0] == pytest.approx(1000 * 4 / 3 * pi * 0.05**3, rel=0.15)  # 80 faces
        cloth = scene.mass[scene.rows["flag"]].sum()
        assert cloth == pytest.approx(0.2 * 0.25)
        heavy = simulation(PARTICLES, **{"objects.dented.material.mass": "7 kg"}).engines[0].solver
        assert heavy.body.mass[heavy.parts[0]].sum() == pytest.approx(7.0)
        sheet = heavy.body.mass[heavy.parts[1]].sum()
        assert sheet == pytest.approx(1000 * 0.2 / 6)  # a fifth of a cell thick

    @pytest.mark.parametrize("name", ["trunk", "flag", "jelly"])
    def test_damping_is_in_seconds_for_every_soft_object(self, name):
        def energy_of(**overrides):
            (engine,) = simulation(SOLIDS, **overrides).engines
            return next(body for body in engine.solver.model.bodies if body.name == name).energies[0]

        key = f"objects.{name}.material.damping"
        assert np.all(energy_of(**{key: "30 ms"}).damping == 0.03)
        assert not energy_of(**{key: 0}).damped
        assert "damping" in problems(SOLIDS, **{key: "3 N s/m"})[0]
        assert "damping" in problems(SOLIDS, **{key: -1})[0]

    def test_a_rigid_object_falls_like_a_stone_and_spins(self):
        scene = {"frames": {"rate": 100}, "objects": {"a": rigid(velocity=[1, 0, 0], spin=[0, 1, 0])}}
        last = frames(simulation(scene), 11)[-1]
        # Backward Euler falls by g t (t + h) / 2.
        assert np.allclose(last.transforms["a"][:3, 3], [0.1, -9.81 * 0.1 * 0.11 / 2, 0], atol=1e-9)
        assert np.allclose(last.transforms["a"][:3, :3], rotation((0, np.degrees(0.1), 0)), atol=1e-3)

    def test_what_is_pinned_has_no_speed_at_the_start(self):
        moving = {"velocity": [1, 0, 0], "spin": [0, 0, 2], "keys": []}
        changes = {f"objects.rope.{key}": value for key, value in moving.items()}
        engine = simulation(PARTICLES, **changes).engines[0]
        state = engine.start()
        held = state.pinned[engine.solver.parts[2]]
        for rates in (state.velocities, state.spins):
            own = rates[engine.solver.parts[2]]
            assert 0 < held.sum() < len(held)
            assert not own[held].any()
            assert own[~held].any(1).all()

    def test_meshes_with_handles_go_on_from_their_turns_in_the_frame_before(self):
        """By way of y a handle comes from x to z with another turn about the handles than straight."""
        ways = [[0, 0, 0], [-1, 1, 0], [-1, 0, 1]]
        keys = [{"time": f"frame {k}", "translate": way} for k, way in enumerate(ways, 1)]
        handles = {"still": {"at": [0, 0, 0]}, "round": {"at": [1, 0, 0], "keys": keys}}
        mesh = {"shape": "box", "size": [1, 0.2, 0.2], "cells": [2, 1, 1]}
        bar = {"kind": "handles", "mesh": mesh, "handles": handles, "distance": "euclidean"}
        found = [frame.points["a"] for frame in frames(simulation({"objects": {"a": bar}}), 3)]
        first, second = rotation((0, 0, 90)), rotation((90, 0, 0))
        assert np.allclose(found[1], found[0] @ first.T, atol=1e-6)
        assert np.allclose(found[2], found[0] @ (second @ first).T, atol=1e-6)

    def test_wind_and_push_do_what_their_numbers_say(self):
        """A sheet across the wind: 1/2 density drag area speed^2; a push: force by mass."""
        cloth = {"kind": "cloth", "mesh": {"shape": "sheet", "size": [1, 1], "cells": [2, 2]}}
        cloth["transform"] = {"rotate": [0, 0, 90]}  # it looks along -x now
        world = {"gravity": [0, 0, 0], "wind": {"velocity": [0.01, 0, 0], "density": 1.2}}
        scene = {"frames": {"rate": 1000}, "objects": {"a": cloth}, "world": world}
        state = simulation(scene).advance(simulation(scene).start()).parts[0]
        pull = 0.5 * 1.2 * 0.01**2 / 0.2 / 1000  # m/s after a millisecond of 0.2 kg
        mass = build_scene(load_scene(scene)).engines[0].solver.model.mass
        mean = mass @ state.velocities / mass.sum()
        assert np.allclose(mean, [pull, 0, 0], rtol=1e-3)
        del world["wind"]
        scene["force"] = [{"kind": "push", "on": ["a"], "force": [0, "2 N", 0], "stop": "frame 2"}]
        state = simulation(scene).advance(simulation(scene).start()).parts[0]
        assert np.allclose(state.velocities, [0, 2 / 0.2 / 1000, 0], rtol=1e-6)

    def test_drag_slows_down_without_turning_round(self):
        scene = {
            "frames": {"rate": 10},
            "world": {"gravity": [0, 0, 0]},
            "objects": {"a": rigid(velocity=[1, 0, 0])},
            "force": [{"kind": "drag", "on": ["a"], "rate": 50}],
        }
        x = [frame.transforms["a"][0, 3] for frame in frames(simulation(scene), 4)]
        # A step leaves 1 / (1 + rate h) = 1/6 of the speed.
        assert np.allclose(np.diff(x), [0.1 / 6, 0.1 / 36, 0.1 / 216], rtol=1e-6)

    def test_a_keyed_rigid_object_carries_what_is_glued_to_it(self):
        flag = {"kind": "cloth", "mesh": {"shape": "sheet", "size": [0.4, 0.4], "cells": [4, 4]}}
        flag["transform"] = {"translate": [0.3, 0, 0]}
        keys = [{"time": 0}, {"time": "0.2 s", "translate": [0, 1, 0], "rotate": [0, 0, 90]}]
        scene = {
            "objects": {"a": rigid(keys=keys), "flag": flag},
            "attach": [
                {"kind": "glue", "from": "flag", "to": "a", "points": {"box": [[0, -1, -1], [0.11, 1, 1]]}}
            ],
        }
        first, last = frames(simulation(scene), 7)[::6]
        glued = first.points["flag"][:, 0] < 0.11
        x = first.points["flag"][glued] @ rotation((0.0, 0.0, 90.0)).T + [0, 1, 0]
        assert glued.sum() == 5
        assert np.allclose(last.points["flag"][glued], x, atol=1e-9)

    @pytest.mark.parametrize(
        "tie",
        [{"kind": "glue", "points": {"all": True}}, {"kind": "joint", "type": "weld", "at": [0.3, 0, 0]}],
        ids=["glue", "joint"],
    )
    def test_what_attaches_later_holds_things_where_they_are_then(self, tie):
        keys = [{"time": 0}, {"time": "0.2 s", "translate": [0, 1, 0], "rotate": [0, 0, 90]}]
        flag = {"kind": "cloth", "mesh": {"shape": "sheet", "size": [0.4, 0.4], "cells": [4, 4]}}
        if tie["kind"] == "joint":
            flag = rigid()
        flag["transform"] = {"translate": [0.3, 0, 0]}
        scene = {
            "world": {"gravity": [0, 0, 0]},
            "frames": {"start": 0},
            "objects": {"a": rigid(keys=keys), "flag": flag},
            "attach": [{"from": "flag", "to": "a", "attach": "frame 3", **tie}],
        }
        shown = frames(simulation(scene), 7)
        moved = [
            frame.points["flag"] if tie["kind"] == "glue" else frame.transforms["flag"][:3, 3]
            for frame in shown
        ]
        assert np.allclose(moved[3], moved[0], atol=1e-9)  # free until then
        held = [
            np.linalg.solve(frame.transforms["a"][:3, :3], (x - frame.transforms["a"][:3, 3]).T)
            for frame, x in zip(shown, moved, strict=True)
        ]
        assert np.allclose(held[4:], held[3], atol=1e-9)
        assert not np.allclose(held[3], held[0], atol=0.1)

    @pytest.mark.parametrize(("collision", "corners"), [(None, 8), ("hull", 8), ("particles", 0)])
    def test_a_rigid_box_collides_as_its_hull(self, collision, corners):
        box = {"kind": "particles", "mesh": {"shape": "box", "size": [0.3, 0.2, 0.2]}, "particles": 20}
        box |= {"material": {"preset": "rigid"}} | ({} if collision is None else {"collision": collision})
        built = simulation({"frames": {"count": 2, "rate": 24}, "objects": {"box": box}})
        assert len(built.engines[0].solver.body.hulls[0]) == corners

    def test_a_plane_is_a_half_space_for_solids(self):
        """Through its point, along its normal, and wherever its end might have been."""
        point, normal = np.array([1.0, 2.0, 3.0]), np.array([1.0, 8.0, -4.0]) / 9
        ground = {"shape": "plane", "point": point.tolist(), "normal": (2 * normal).tolist()}
        objects = {
            "box": rigid(transform={"translate": [0, 8, 0]}),
            "ground": {"kind": "collider", "mesh": ground},
        }
        built = simulation({"contact": {"distance": 0.01}, "objects": objects})
        (body,) = (body for body in built.engines[0].solver.model.rigid if body.name == "ground")
        assert body.is_plane
        a, b, c = body.positions
        across = np.cross(b - a, c - a)
        assert np.allclose(across / np.linalg.norm(across), normal, atol=1e-15)
        assert np.allclose(a, point, atol=1e-15)

    def test_a_plane_has_no_end(self):
        """A box that starts 10 km from its point lies on it as one beside its point does."""
        heights = []
        for away in (0.0, 1e4):
            objects = {
                "box": rigid(transform={"translate": [away, 0.2, 0]}),
                "ground": {"kind": "collider", "mesh": {"shape": "plane"}},
            }
            scene = {"frames": {"count": 12, "rate": 24}, "contact": {"distance": 0.01}, "objects": objects}
            heights.append(frames(simulation(scene), 13)[-1].transforms["box"][1, 3])
        assert heights[1] == pytest.approx(heights[0], abs=1e-4)
        assert -0.1 < heights[0] < -0.09  # from 0.2 m to its half size and less than the distance of contact

    def test_rigid_pieces_that_share_a_row_turn_about_it(self):
        """Two halves of a sheet, one held: the other falls by turning about the row, and stays flat."""
        halves = [{"box": [[-1, -1, -1], [0.01, 1, 1]]}, {"box": [[-0.01, -1, -1], [1, 1, 1]]}]
        built = simulation({
            "frames": {"count": 9, "rate": 24},
            "solver": {"particles": {"iterations": 8, "substep": "1/240 s"}},
            "objects": {
                "door": {
                    "kind": "particles",
                    "mesh": {"shape": "sheet", "size": [1.2, 0.6], "cells": [8, 4]},
                    "material": {"preset": "cloth"},
                    "rigid": halves,
                    "pin": {"box": [[-1, -1, -1], [-0.01, 1, 1]]},
                }
            },
        })  # fmt: skip
        rest = built.engines[0].solver.body.positions
        last = built.start()
        for _ in range(8):
            last = built.advance(last)
        x = last.parts[0].positions
        free, row = rest[:, 0] > -0.01, np.abs(rest[:, 0]) < 0.01
        np.testing.assert_allclose(x[row], rest[row], atol=1e-3)
        np.testing.assert_allclose(x[:, 2], rest[:, 2], atol=1e-3)
        np.testing.assert_allclose(pg.fit_rigid(rest[free], x[free]).apply(rest[free]), x[free], atol=1e-3)
        # As a pendulum of these particles does.
        arms = rest[free, 0]
        rate = 9.81 * arms.sum() / (arms**2).sum()
        swing = solve_ivp(lambda t, y: [y[1], rate * np.cos(y[0])], (0, 8 / 24), [0, 0], rtol=1e-9)
        tip = x[rest[:, 0].argmax()]
        assert np.arctan2(-tip[1], tip[0]) == pytest.approx(swing.y[0, -1], rel=0.05)

    def test_bodies_from_files(self, tmp_path):
        from pointglue.io import save_body

        save_body(tmp_path / "body.npz", pg.particles.block((0.4, 0.4, 0.4), (2, 2, 2)))
        (tmp_path / "scene.toml").write_text(
            '[objects.a]\nkind = "particles"\nbody = "body.npz"\ntransform.translate = [0, 5, 0]\n'
        )
        built = build_scene(load_scene(tmp_path / "scene.toml"))
        first = built.frame(built.start())
        assert first.points["a"].shape == (8, 3)
        assert np.allclose(first.points["a"].mean(0), [0, 5, 0])
        assert built.looks[0].faces is None
        assert built.looks[0].radius == pytest.approx(0.1)

    def test_meshes_from_files(self, tmp_path):
        import trimesh

        trimesh.creation.box((1, 1, 1)).export(tmp_path / "box.ply")
        (tmp_path / "scene.toml").write_text(
            '[objects.a]\nkind = "rigid"\nmesh.file = "box.ply"\nmaterial.density = "1 g/cm3"\n'
        )
        built = build_scene(load_scene(tmp_path / "scene.toml"))
        assert built.engines[0].solver.model.inertia.mass[0] == pytest.approx(1000.0)

    def test_nothing_of_a_frame_is_of_what_is_invisible(self):
        built = simulation(SOLIDS, **{"objects.flag.visible": False, "objects.ball.visible": False})
        frame = built.frame(built.start())
        assert "flag" not in frame.points
        assert not frame.transforms

    def test_what_is_packed_comes_back(self):
        for scene in ALL.values():
            built = simulation(scene)
            state = built.advance(built.advance(built.start()))
            again = built.unpack({key: np.array(value) for key, value in built.pack(state).items()})
            one, other = built.pack(state), built.pack(again)
            assert one.keys() == other.keys()
            assert all(np.array_equal(one[key], other[key]) for key in one)


def test_all_problems_are_told_at_once():
    """What is right is looked at, though other tables are wrong; what hangs on those is not told."""
    box = {"kind": "jelly", "mesh": {"shape": "box", "size": [1, 1, 1]}, "material": {"young": 6000}}
    rigid = {"kind": "rigid", "mesh": {"shape": "sphere", "radius": 1}}
    glue = {"kind": "glue", "points": {"all": True}}
    scene = {
        "frames": {"cuont": 3},
        "objects": {
            "lost": {"kind": "cloth", "mesh": {"file": "lost.obj"}},
            "odd": {"kind": "rigit"},
            "on odd": {"kind": "follower", "mesh": {"shape": "sphere", "radius": 1}, "on": "odd"},
            "jelly": box | {"pin": {"box": [[5, 5, 5], [6, 6, 6]]}},
            "ball": rigid,
            "plane": {"kind": "collider", "mesh": {"shape": "plane"}},
            "huge": {"kind": "rigid", "mesh": {"shape": "sphere", "radius": 1e300}},
        },
        "attach": [
            glue | {"from": "nobody", "to": "ball"},
            glue | {"from": "lost", "to": "ball"},
            glue | {"from": "jelly", "to": "plane"},
            glue | {"from": "jelly", "to": "ball", "attach": "2 s", "release": "1 s"},
        ],
        "force": [
            {"kind": "push", "force": [1, 2], "on": ["ball"]},
            {"kind": "push", "force": [1, 2, 3], "on": ["ball"], "start": "2 s", "stop": "1 s"},
        ],
        "contact": {"distance": "1 cm", "ignore": [["lost", "ball"]]},
    }
    with pytest.raises(SceneError) as caught:
        check_scene(scene)
    keys = sorted(problem.split(" ")[0].rstrip(":") for problem in caught.value.problems)
    assert keys == [
        "attach[0].from", "attach[2].to", "attach[3].release", "force[0].force", "force[1].stop",
        "frames.cuont", "objects.huge", "objects.jelly.pin", "objects.lost.mesh.file", "objects.odd.kind",
    ]  # fmt: skip
    right = {"objects": {"ball": rigid}}
    assert check_scene(right, {"frames.count": 3}).frames.count == 3


class TestImpossible:
    def test_what_cannot_be_built_is_told_at_once(self):
        told = problems(
            SOLIDS,
            **{
                "objects.trunk.pin.box": [[5, 5, 5], [6, 6, 6]],
                "objects.flag.keys": [{"time": 1}, {"time": 0}],
                "objects.jelly.cell": "1 um",
            },
        )
        assert len(told) == 3
        assert "objects.trunk.pin selects no point: there are 63, from [" in told[0]
        assert told[1] == "as set, objects.flag.keys must increase, got 0.0 after 1.0 at index 1"
        assert "objects.jelly would be about 3.7e+15 cubes" in told[2]

    @pytest.mark.parametrize(
        ("override", "message"),
        [
            ({"attach.0.points": {"indices": [99999]}}, "attach[0]: points must have indices below 45"),
            ({"attach.0.points": {"box": [[9, 9, 9], [9, 9, 9]]}}, "attach[0]: points selects no point"),
            ({"attach.2.release": 0.01}, "attach[2].release must come after attach, which is frame 3"),
            ({"attach.0.release": "frame -3"}, "attach[0].release must come after the first frame, which is"),
            ({"attach.0.release": 0}, "attach[0].release must come after the first frame, which is frame 1"),
            ({"world.wind.stop": -1}, "world.wind.stop must come after start"),
            (
                {"world.wind.start": -2, "world.wind.stop": -1},
                "world.wind.stop must come after the first frame",
            ),
            ({"objects.trunk.pin": {"nearest": 3}}, "objects.trunk.pin: nearest is for attachments"),
            (
                {"objects.twig.keys": [{"time": 0}]},
                "objects.twig.keys move what is pinned: say what with pin",
            ),
            ({"objects.twig.mesh.radius": 9.0}, "objects.twig: hexahedra must have a positive volume"),
            ({"output.formats": ["abc"]}, "must be one of usd, ply, obj, got 'abc'"),
            (
                {"contact": {"distance": "1 mm", "ignore": [["twig", "nobody"]]}},
                "contact.ignore[0][1] must name what contact is of",
            ),
            (
                {"objects.twig.transform": {"scale": 1e9, "translate": [1e9, 1e9, 1e9]}},
                "mesh must be within 1e+09 m of the origin",
            ),
            ({"objects.twig.transform.scale": 1e-12}, "mesh must be at least 1e-09 m large"),
        ],
    )
    def test_of_solids(self, override, message):
        assert any(message in line for line in problems(SOLIDS, **override)), problems(SOLIDS, **override)

    @pytest.mark.parametrize(
        ("override", "message"),
        [
            ({"objects.dented.mesh": {"shape": "plane"}}, "objects.dented: a plane is for colliders only"),
            ({"objects.dented.spacing": 5}, "objects.dented: spacing must be smaller than the mesh"),
            ({"objects.dented.body": "x"}, "objects.dented must have a mesh, or a body, and not both"),
            ({"objects.cloth.material.yield_speed": 2}, "yield_speed is for the presets rigid and plastic"),
            (
                {"objects.cloth.rigid": [{"all": True}, {"box": [[8, 8, 8], [9, 9, 9]]}]},
                "objects.cloth: rigid[1] selects no point",
            ),
            ({"contact": {"distance": "1 mm"}}, "contact is for flesh, cloth, jelly and rigid objects"),
            ({"objects.ground.mesh.normal": [0, 0, 0]}, "objects.ground: mesh.normal must not be zero"),
            ({"force.0.on": ["ball"]}, "force[0].on[0] cannot be pushed: 'ball' is of kind collider"),
        ],
    )
    def test_of_particles(self, override, message):
        assert any(message in line for line in problems(PARTICLES, **override))

    def test_attachments_of_particles_and_colliders(self):
        scene = tomllib.loads(PARTICLES)
        scene["attach"] = [{"kind": "glue", "from": "rope", "to": "ball", "points": {"all": True}}]
        told = problems(scene)
        assert (
            "attach[0].from must be flesh, cloth, jelly or rigid, got 'rope', which is of kind particles"
            in told
        )
        assert (
            "attach[0].to must be flesh, cloth, jelly or rigid, got 'ball', which is of kind collider" in told
        )

    def test_a_collider_that_nothing_can_touch(self):
        scene = {"objects": {"a": rigid(), "b": {"kind": "collider", "mesh": {"shape": "plane"}}}}
        (told,) = problems(scene)
        assert told.startswith("objects.b is a collider that nothing can touch: particles can, and others")

    def test_nothing_to_see(self):
        assert problems({"objects": {"a": rigid(visible=False)}}) == [
            "objects must be visible, at least one of them"
        ]

    def test_a_loaded_scene_is_what_is_built(self):
        assert isinstance(load_scene(tomllib.loads(HANDLES)), LoadedScene)
