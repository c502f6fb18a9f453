"""What people trip over: grounds for everything, files of others, bodies of scenes, two crashes in a row."""

import tomllib

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from studio_server import ManualClock, write_box

from pointglue.errors import InputError
from pointglue.io import save_body
from pointglue.particles import OrientedBody, block
from pointglue.scene import demo_path, run_scene
from pointglue.scene.tracks import box_center
from pointglue.studio.document.document import load_document
from pointglue.studio.document.recovery import FOLDER
from pointglue.studio.document.toml import toml_text
from pointglue.studio.protocol import commands as m
from pointglue.studio.runtime.session import AUTOSAVE_INTERVAL, Session


@pytest.mark.parametrize("kind", ["flesh", "jelly", "cloth", "rigid"])
def test_all_kinds_stay_above_the_ground(session, tmp_path, kind):
    session.apply(m.SetKind(object="bar", kind=kind))
    session.apply(m.Ground(on=True))
    height = session.page_state().ground
    for _ in range(14):
        session.apply(m.Step())
    lowest = session.replica.get("bar", "vertices")[:, 1].min()
    assert height < lowest < height + 0.25  # free fall would be 0.6 m below
    session.apply(m.Set(path=["frames", "count"], value=2))
    session.apply(m.Save(path="scene.toml"))
    assert len(list(run_scene(tmp_path / "scene.toml"))) == 2
    assert "contact" in tomllib.loads((tmp_path / "scene.toml").read_text())
    assert "contact" not in load_document(tmp_path / "scene.toml").tables  # made anew as the scene changes


def test_a_larger_object_is_made_of_stiffer_flesh(session):
    """As stiff as 25 times its longest side of water weighs: it sags by 4 % of it at most."""
    session.apply(m.SetKind(object="bar", kind="flesh"))
    assert session.document.table("bar")["material"] == {"young": float(f"{25 * 1000 * 9.81 * 2.0:.2g}")}


def test_what_intersects_itself_meets_the_ground_all_the_same(tmp_path):
    session = Session(tmp_path)
    session.apply(m.AddShape(shape="octopus"))
    session.apply(m.SetKind(object="octopus", kind="flesh"))
    session.apply(m.Ground(on=True))
    for _ in range(3):
        session.apply(m.Step())
    assert session.replica.clock.frame == 4
    session.apply(m.Save(path="octopus.toml"))
    saved = tomllib.loads((tmp_path / "octopus.toml").read_text())
    assert saved["contact"]["ignore"] == [["octopus", "octopus"]]
    session.close()


def test_contact_of_the_file_stays_if_it_is_another(session, tmp_path):
    session.apply(m.SetKind(object="bar", kind="rigid"))
    session.apply(m.Ground(on=True))
    session.apply(m.Set(path=["contact"], value={"distance": 0.003, "friction": 0.4}))
    session.apply(m.Save(path="scene.toml"))
    assert load_document(tmp_path / "scene.toml").tables["contact"] == {"distance": 0.003, "friction": 0.4}


@pytest.mark.parametrize("kind", ["rigid", "flesh"])
def test_what_falls_on_another_object_stays_on_it(session, kind):
    session.apply(m.AddShape(shape="box"))
    for name, made_of in (("bar", "rigid"), ("box", kind)):
        session.apply(m.SetKind(object=name, kind=made_of))
    session.apply(m.Set(path=["objects", "bar", "fixed"], value=True))
    top = session.document.surface("bar").vertices[:, 1].max()
    place = {"translate": [0, float(top) + 0.7, 0], "scale": 0.4}
    session.apply(m.Set(path=["objects", "box", "transform"], value=place))
    for _ in range(24):
        session.apply(m.Step())
    low = session.replica.get("box", "vertices")[:, 1].min()
    assert top < low < top + 0.2  # free fall would be 2.6 m below


def test_what_begins_within_another_passes_through(session):
    session.apply(m.AddShape(shape="box"))
    for name in ("bar", "box"):
        session.apply(m.SetKind(object=name, kind="rigid"))
    session.apply(m.Set(path=["objects", "box", "transform"], value={"scale": 0.3}))
    session.apply(m.Ground(on=True))
    session.apply(m.Step())
    assert session.replica.clock.problem == ""


def test_a_new_scene_begins_at_its_first_frame(session):
    session.apply(m.Scrub(frame=47))
    session.apply(m.New())
    assert session.replica.clock.frame == 1
    session.apply(m.Undo())
    assert list(session.document.objects) == ["bar"]


def test_particles_alone_need_no_contact(session, tmp_path):
    session.apply(m.Make(object="bar", spacing=0.25))
    session.apply(m.Ground(on=True))
    session.apply(m.Save(path="scene.toml"))
    assert "contact" not in load_document(tmp_path / "scene.toml").tables


def test_no_file_is_overwritten_unasked(session, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'precious'\n")
    (tmp_path / "other.toml").write_text(toml_text({"objects": {}}))
    (files,) = session.apply(m.ListFiles())
    assert [entry.name for entry in files.entries] == ["bar.ply", "other.toml"]
    for name in ("pyproject.toml", "other"):
        with pytest.raises(InputError, match="is there already"):
            session.apply(m.Save(path=name))
    session.apply(m.Save(path="mine.toml"))
    session.apply(m.Save(path="mine.toml"))  # its own
    session.apply(m.Save(path="other.toml", replace=True))
    assert session.page_state().path == "other.toml"


def test_undo_and_new_know_which_scene_it_is(session):
    session.apply(m.Save(path="one.toml"))
    session.apply(m.New())
    assert (session.page_state().path, session.page_state().saved) == ("", False)
    session.apply(m.AddShape(shape="box"))
    with pytest.raises(InputError, match="is there already"):
        session.apply(m.Save(path="one.toml"))
    session.apply(m.Save(path="two.toml"))
    for _ in range(2):
        session.apply(m.Undo())
    assert (session.page_state().path, session.page_state().saved) == ("one.toml", True)
    session.apply(m.Redo())
    session.apply(m.Redo())
    assert (session.page_state().path, session.page_state().saved) == ("two.toml", True)


def test_selecting_is_nothing_to_save(session):
    session.apply(m.Save(path="one.toml"))
    session.apply(m.Select(object="bar", what="vertices", indices=[0, 1]))
    assert session.page_state().saved


def test_bodies_of_scenes_are_there_and_keep_what_they_are_made_of(tmp_path):
    session = Session(tmp_path, demo_path("octopus"))
    state = next(each for each in session.page_state().objects if each.kind == "particles")
    name = state.name
    assert state.particles > 100
    assert not state.edited
    assert len(session.replica.get(name, "particles")) == state.particles
    before = session.document.particles(name)
    session.apply(
        m.Paint(object=name, centres=[before.positions[0]], radius=0.05, field="stiffness", value=0.9)
    )
    body = session.document.bodies[name]
    touched = body.stiffness == 0.9
    assert 0 < touched.sum() < len(body)
    np.testing.assert_array_equal(body.stiffness[~touched], before.stiffness[~touched])
    np.testing.assert_array_equal(body.mass, before.mass)
    session.apply(m.Step())
    assert len(session.replica.get(name, "particles_now")) == len(body)
    session.apply(m.Save(path="mine.toml"))
    session.close()
    again = load_document(tmp_path / "mine.toml").bodies[name]
    np.testing.assert_array_equal(again.stiffness, body.stiffness)


def test_what_is_said_to_be_particles_has_some(session):
    session.apply(m.SetKind(object="bar", kind="particles"))
    assert session.page_state().objects[0].particles > 100


def test_a_body_elsewhere_is_not_read(session, tmp_path):
    outside = tmp_path.parent / f"{tmp_path.name}_outside.npz"
    save_body(outside, block((1, 1, 1), (3, 3, 3)))
    scene = {"objects": {"a": {"kind": "particles", "body": f"../{outside.name}"}}}
    (tmp_path / "evil.toml").write_text(toml_text(scene))
    with pytest.raises(InputError, match="outside of the working directory"):
        session.apply(m.Open(path="evil.toml"))
    inside = {"kind": "particles", "body": str(outside)}
    with pytest.raises(InputError, match="open the scene that names it"):
        session.apply(m.Set(path=["objects", "a"], value=inside))


def test_two_crashes_lose_neither(tmp_path):
    write_box(tmp_path)
    for shape in ("box", "sphere"):
        session = Session(tmp_path, clock=ManualClock())
        session.apply(m.AddShape(shape=shape))
        session.clock.advance(2 * AUTOSAVE_INTERVAL)
        session.tick()
        session.recovery.close()  # as when it is killed
    last = Session(tmp_path)
    last.apply(m.Restore(keep=True))
    assert list(last.document.objects) == ["sphere"]
    assert last.page_state().found
    last.apply(m.Restore(keep=True))
    assert list(last.document.objects) == ["box"]
    assert not last.page_state().found
    last.close()


@pytest.mark.parametrize("way", [5.0, -5.0, 0.1])
def test_objects_meet_where_they_are_apart_whichever_comes_first(session, way):
    session.apply(m.SetKind(object="bar", kind="rigid"))
    session.apply(m.AddShape(shape="box"))
    session.apply(m.SetKind(object="box", kind="rigid"))
    bar, box = (session.document.surface(name).vertices.mean(0) for name in ("bar", "box"))
    session.apply(m.Move(object="bar", translate=tuple(box - bar + [way, 0, 0])))
    contact = session.document.runnable({})["contact"]
    assert (["bar", "box"] in contact["ignore"]) == (abs(way) < 1)


def test_edges_are_cut_between_selected_particles_alone(session):
    session.apply(m.Make(object="bar", spacing=0.2))
    before = session.document.bodies["bar"].edges
    chosen = before[0].tolist()
    session.apply(m.Select(object="bar", what="particles", indices=chosen))
    session.apply(m.Cut(object="bar"))
    after = session.document.bodies["bar"].edges
    assert len(before) - len(after) == 1
    assert sorted(chosen) not in np.sort(after, axis=1).tolist()


@pytest.mark.parametrize(
    "edit",
    [
        m.Place(object="bar", position=(0, 0, 0), radius=0.1),
        m.Spray(object="bar", centres=[(0, 0, 0)], radius=0.3, spacing=0.1),
        m.Fit(object="bar", aspect=2.5),
        m.Paint(object="bar", field="stiffness", value=0.5),
        m.Pin(object="bar"),
    ],
    ids=lambda edit: edit.type,
)
def test_edits_that_leave_all_particles_leave_them_selected(session, edit):
    """One edit after the other is made of the same selection, without selecting again."""
    session.apply(m.Make(object="bar", spacing=0.2))
    session.apply(m.Select(object="bar", what="particles", indices=[1, 2, 5]))
    before = session.document.bodies["bar"]
    session.apply(edit)
    assert session.document.bodies["bar"] is not before
    assert session.document.selection.of("bar", "particles").tolist() == [1, 2, 5]


def test_no_particles_are_selected_after_some_were_erased(session):
    """Those that are left have other numbers."""
    session.apply(m.Make(object="bar", spacing=0.2))
    session.apply(m.Select(object="bar", what="particles", indices=[1, 2, 5]))
    session.apply(m.Erase(object="bar"))
    assert not len(session.document.selection.of("bar", "particles"))


def test_ellipsoids_that_are_fitted_keep_their_density(session):
    session.apply(m.Make(object="bar", spacing=0.2))
    before = session.document.bodies["bar"]
    session.apply(m.Fit(object="bar", aspect=2.5))
    after = session.document.bodies["bar"]
    assert not np.allclose(after.radii, before.radii)
    np.testing.assert_allclose(
        after.mass / after.radii.prod(1), before.mass / before.radii.prod(1), rtol=1e-12
    )


def test_what_is_found_takes_no_number_that_is_taken(tmp_path):
    """Somebody may have thrown away the first of two by hand."""
    hidden = tmp_path / FOLDER
    for name in ("found-2", "now"):
        (hidden / name).mkdir(parents=True)
        (hidden / name / "scene.toml").write_text(toml_text({"title": name, "objects": {}}))
    session = Session(tmp_path)
    assert session.recovery.found == hidden / "found-3" / "scene.toml"
    assert 'title = "now"' in session.recovery.found.read_text()
    session.close()


def test_handles_play_from_where_they_are_and_round(session):
    session.apply(m.Set(path=["frames", "count"], value=20))
    for x in (-0.9, 0.9):
        session.apply(m.AddHandle(object="bar", position=(x, 0.2, 0.0)))
    rest = session.replica.get("bar", "vertices").copy()
    session.apply(m.Scrub(frame=15))
    session.apply(m.DragHandle(object="bar", handle="handle 2", position=(0.9, 0.8, 0.0), done=True))
    keys = session.document.objects["bar"]["handles"]["handle 2"]["keys"]
    assert [key["time"] for key in keys] == ["frame 1", "frame 15"]
    session.apply(m.Scrub(frame=1))
    np.testing.assert_allclose(session.replica.get("bar", "vertices"), rest, atol=1e-6)
    session.apply(m.Scrub(frame=10))
    for frame in (11, 12):
        session.apply(m.Step())
        assert session.replica.clock.frame == frame
    session.apply(m.Scrub(frame=20))
    session.apply(m.Step())
    assert session.replica.clock.frame == 1


def test_spraying_says_that_handles_go(session):
    session.apply(m.AddHandle(object="bar", position=(0.9, 0.2, 0.0)))
    session.apply(m.Spray(object="bar", centres=[(0, 0.2, 0)], radius=0.2, spacing=0.1))
    assert "its handles and their keys are gone" in session.notes[-1].text


def test_connecting_a_large_selection_takes_no_square(session, tmp_path):
    # From a file, since making so many particles from a mesh takes long: all of them are on one chain.
    grid = 0.05 * np.stack(np.meshgrid(*map(np.arange, (12, 10, 10))), axis=-1).reshape(-1, 3)
    chain = np.stack([np.arange(len(grid) - 1), np.arange(1, len(grid))], axis=1)
    save_body(tmp_path / "grid.npz", OrientedBody(grid, radii=0.02, edges=chain))
    (tmp_path / "grid.toml").write_text('[objects.grid]\nkind = "particles"\nbody = "grid.npz"\n')
    session.apply(m.Open(path="grid.toml"))
    count = len(session.document.bodies["grid"])
    assert count > 1000
    session.apply(m.Select(object="grid", what="particles", indices=list(range(count))))
    before = len(session.document.bodies["grid"].edges)
    session.apply(m.Connect(object="grid", longest=0.07))
    body = session.document.bodies["grid"]
    length = np.linalg.norm(body.positions[body.edges[:, 0]] - body.positions[body.edges[:, 1]], axis=1)
    assert len(body.edges) > before
    assert length[before:].max() <= 0.07
    with pytest.raises(InputError, match="take a smaller longest edge"):
        session.apply(m.Connect(object="grid", longest=10.0))


def numbers(value):
    """All that is a number or a text in a table, without names and moments."""
    for key, each in value.items():
        if isinstance(each, dict):
            yield from numbers(each)
        elif key not in (
            "kind",
            "preset",
            "shape",
            "part",
            "file",
            "color",
            "distance",
            "ease",
            "on",
            "motion",
        ):
            yield from each if isinstance(each, list) else [each]


@pytest.mark.parametrize("name", ["donkey_on_stairs", "cloth_with_buttons", "jelly", "pile", "napkin"])
def test_pages_get_numbers_where_files_have_units(tmp_path, name):
    session = Session(tmp_path, demo_path(name))
    for item in session.page_state().objects:
        for part in ("material", "transform"):
            found = list(numbers(item.table.get(part, {})))
            assert all(isinstance(number, int | float) for number in found), (item.name, found)
    for tie in session.page_state().attach:
        assert isinstance(tie.table.get("stiffness", 0.0), float)
    session.close()


def test_what_is_made_of_something_else_loses_its_ties_and_says_so(session):
    session.apply(m.SetKind(object="bar", kind="flesh"))
    session.apply(m.AddShape(shape="box"))
    session.apply(m.SetKind(object="box", kind="flesh"))
    session.apply(m.Select(object="box", what="points", indices=[0, 5, 9]))
    session.apply(m.Attach(object="box", to="bar", kind="glue"))
    session.take_notes()
    session.apply(m.SetKind(object="box", kind="handles"))
    assert session.document.attach == []
    assert "what bound 'box' to others is gone" in session.notes[-1].text
    session.apply(m.AddHandle(object="box", position=session.document.surface("box").vertices[0]))
    session.apply(m.SetKind(object="box", kind="rigid"))
    assert "its handles and their keys are gone" in session.notes[-1].text


def test_ground_is_the_name_of_the_ground(session, tmp_path):
    write_box(tmp_path, "ground.ply")
    session.apply(m.Open(path="ground.ply"))
    assert list(session.document.objects) == ["bar", "ground 2"]
    with pytest.raises(InputError, match="choose another"):
        session.apply(m.Rename(object="bar", name="ground"))
    session.apply(m.Ground(on=True))
    assert session.page_state().ground is not None


def test_reset_returns_to_the_first_frame_and_frames_stay_in_range(session):
    session.apply(m.Scrub(frame=60))
    session.apply(m.Reset())
    assert session.replica.clock.frame == 1
    session.apply(m.Scrub(frame=60))
    session.apply(m.Set(path=["frames", "count"], value=10))
    assert session.replica.clock.frame == 10
    session.apply(m.Make(object="bar", spacing=0.25))
    for _ in range(3):
        session.apply(m.Step())
    session.apply(m.Select(object="bar", what="particles", indices=[0]))
    session.apply(m.Erase(object="bar"))
    assert session.replica.clock.frame == session.state.preview.frame == 1
    assert "begins anew" in session.notes[-1].text


def test_bodies_move_with_their_particles(session):
    session.apply(m.Make(object="bar", spacing=0.25))
    before = session.document.body("bar")
    session.apply(m.Move(object="bar", rotate=(0, 0, 90), translate=(1, 2, 3)))
    after = session.document.body("bar")
    turn = Rotation.from_euler("z", 90, degrees=True).as_matrix()
    for name in ("positions", "vertices"):
        was, now = (getattr(body if name == "positions" else body.visual, name) for body in (before, after))
        np.testing.assert_allclose(now, was @ turn.T + [1, 2, 3], atol=1e-12)  # its middle is the origin
    session.apply(m.Step())
    session.apply(m.Undo())
    assert session.document.body("bar") is before
    with pytest.raises(InputError, match="must stay within 1e\\+09 m"):
        session.apply(m.Move(object="bar", translate=(1e9, 0, 0)))


def test_meshes_move_with_their_handles_and_keys(session):
    """The whole animation is the same, only elsewhere."""
    session.apply(m.Move(object="bar", translate=(0.3, 0, 0.1)))  # not about the origin
    for x in (-0.6, 0.0, 0.6):
        session.apply(m.AddHandle(object="bar", position=(x, 0.2, 0.1)))
    session.apply(m.Scrub(frame=20))
    session.apply(m.DragHandle(object="bar", handle="handle 3", position=(0.5, 0.9, 0.2), done=True))
    keys = session.document.objects["bar"]["handles"]["handle 3"]["keys"]
    turned = [{**keys[0], "rotate": [0, 20, 0]}, *keys[1:]]
    session.apply(m.Set(path=["objects", "bar", "handles", "handle 3", "keys"], value=turned))
    session.apply(m.Set(path=["objects", "bar", "handles", "handle 3", "radius"], value=0.1))
    before = session.replica.get("bar", "vertices")
    centre = box_center(session.document.surface("bar").vertices)
    session.apply(m.Move(object="bar", rotate=(30, -40, 90), translate=(1, 2, 3)))
    session.apply(m.Scrub(frame=20))
    turn = Rotation.from_euler("xyz", (30, -40, 90), degrees=True)
    expected = turn.apply(before - centre) + centre + [1, 2, 3]
    np.testing.assert_allclose(session.replica.get("bar", "vertices"), expected, atol=1e-5)


def test_turns_by_quaternions_are_shown_in_degrees(session):
    session.apply(m.Set(path=["objects", "bar", "transform"], value={"rotate": [0.5, 0.5, 0.5, 0.5]}))
    shown = session.page_state().objects[0].table["transform"]["rotate"]
    turned = Rotation.from_euler("xyz", shown, degrees=True).apply(np.eye(3))
    np.testing.assert_allclose(turned, np.roll(np.eye(3), 1, axis=1), atol=1e-9)
