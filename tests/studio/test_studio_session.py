"""The session without a browser: edits, undo, files, simulation, recovery."""

import tomllib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import stored_objects
from studio_server import ManualClock, write_box, write_octopus

from pointglue import HandleDeformer, OrientedBody, bind_glue
from pointglue.errors import InputError, PointglueError, SceneError
from pointglue.io import FrameStore, read_mesh, save_body
from pointglue.particles import block
from pointglue.scene import build_scene, load_scene
from pointglue.studio.document.document import Document, load_document, save_document
from pointglue.studio.document.recent import RecentValues
from pointglue.studio.document.recovery import FOLDER
from pointglue.studio.document.toml import toml_text
from pointglue.studio.edits.bindings import bindable_points
from pointglue.studio.protocol import commands as m
from pointglue.studio.protocol.replies import Exists
from pointglue.studio.runtime import playback
from pointglue.studio.runtime.session import AUTOSAVE_INTERVAL, Session


@pytest.fixture
def session(tmp_path):
    write_box(tmp_path)
    built = Session(tmp_path, clock=ManualClock())
    yield built
    built.close()


def opened(session):
    session.apply(m.Open(path="bar.ply"))
    return session.document


def with_handles(session):
    opened(session)
    for x in (-0.9, 0.0, 0.9):
        session.apply(m.AddHandle(object="bar", position=(x, 0.2, 0.0)))
    return session.document


def with_body(session):
    opened(session)
    session.apply(m.Make(object="bar", spacing=0.2))
    return session.document


def test_a_mesh_is_opened_as_it_is(session, tmp_path):
    opened(session)
    np.testing.assert_array_equal(
        session.replica.get("bar", "rest"), np.float32(read_mesh(tmp_path / "bar.ply").vertices)
    )
    assert not session.page_state().saved
    session.apply(m.Open(path="bar.ply"))
    assert list(session.document.objects) == ["bar", "bar 2"]


def test_dragging_is_the_deformation(session):
    document = with_handles(session)
    surface = document.surface("bar")
    handles = np.array([h["at"] for h in document.objects["bar"]["handles"].values()])
    now = handles.copy()
    now[2] = (0.7, 0.6, 0.0)
    session.apply(m.DragHandle(object="bar", handle="handle 3", position=tuple(now[2])))
    expected = HandleDeformer((surface.vertices, surface.faces), handles).deform(now)
    np.testing.assert_array_equal(session.replica.get("bar", "vertices"), np.float32(expected))
    assert session.document is document  # it is no edit until it is let go of
    session.apply(m.DragHandle(object="bar", handle="handle 3", position=tuple(now[2]), done=True))
    keys = session.document.objects["bar"]["handles"]["handle 3"]["keys"]
    assert keys == [{"time": "frame 1", "translate": [-0.2, 0.4, 0.0]}]
    np.testing.assert_allclose(
        session.replica.get("bar", "vertices"), expected, atol=1e-6
    )  # keys are rounded


def test_keys_are_interpolated_as_the_scene_does(session):
    with_handles(session)
    session.apply(m.Key(object="bar"))
    session.apply(m.Scrub(frame=31))
    session.apply(m.DragHandle(object="bar", handle="handle 3", position=(0.7, 0.6, 0.0), done=True))
    session.apply(m.Set(path=["frames", "count"], value=40))
    session.apply(m.Scrub(frame=16))
    session.apply(m.Save(path="moved.toml"))
    simulation = build_scene(load_scene(session.path))
    state = simulation.start()
    while state.number < 16:
        state = simulation.advance(state)
    expected = simulation.frame(state).points["bar"]
    np.testing.assert_allclose(session.replica.get("bar", "vertices"), expected, atol=1e-6)
    assert np.linalg.norm(expected - session.document.surface("bar").vertices, axis=1).max() > 0.05
    session.apply(m.Key(object="bar", remove=True))
    session.apply(m.Scrub(frame=31))
    session.apply(m.Key(object="bar", remove=True))
    assert all(len(h["keys"]) <= 1 for h in session.document.objects["bar"]["handles"].values())


def test_handles_are_mirrored_paired_and_chained(session):
    opened(session)
    session.apply(m.AddHandle(object="bar", position=(0.9, 0.2, 0.0), mirror="x"))
    session.apply(m.AddHandle(object="bar", position=(0.0, 0.2, 0.0), mirror="x"))  # on the plane: no twin
    session.apply(m.AddHandle(object="bar", position=(0.0, -0.2, 0.0)))
    assert len(session.document.objects["bar"]["handles"]) == 4
    session.apply(
        m.DragHandle(object="bar", handle="handle 1", position=(0.9, 0.5, 0.1), mirror="x", done=True)
    )
    now = session.replica.get("bar", "handles")
    np.testing.assert_allclose(now[:2], [[0.9, 0.5, 0.1], [-0.9, 0.5, 0.1]], atol=1e-6)
    session.apply(m.Link(object="bar", handles=["handle 3", "handle 4"], how="group"))
    session.apply(m.DragHandle(object="bar", handle="handle 3", position=(0.0, 0.7, 0.0), done=True))
    np.testing.assert_allclose(session.replica.get("bar", "handles")[3], [0, 0.3, 0], atol=1e-6)
    session.apply(m.Link(object="bar", handles=["handle 2", "handle 3"], how="chain"))
    session.apply(m.Save(path="rig.toml"))
    rigs = load_document(session.path).rigs
    assert rigs["bar"].chains == (("handle 2", "handle 3"),)
    assert rigs["bar"].groups == (("handle 3", "handle 4"),)
    for handles, how, told in (
        (["handle 1"], "chain", "at least two handles"),
        (["handle 1", "handle 3"], "chain", "'handle 3' is in a chain already: Unlink it first"),
        (["handle 1", "handle 4"], "group", "'handle 4' is in a group already: Unlink it first"),
        (["handle 1", "handle 4", "handle 1"], "chain", "'handle 1' can be in a chain once only"),
        (["handle 1", "handle 4"], "chain", "'handle 3' and 'handle 4' are in chains"),
        (["handle 3", "handle 2"], "chain", "'handle 3', 'handle 2' cannot be a chain"),
    ):
        with pytest.raises(InputError, match=told):
            session.apply(m.Link(object="bar", handles=handles, how=how))
    session.apply(m.RemoveHandle(object="bar", handle="handle 3"))
    assert session.document.rigs["bar"].chains == session.document.rigs["bar"].groups == ()


def test_everything_can_be_undone_and_redone(session):
    commands = [
        m.Open(path="bar.ply"),
        m.AddHandle(object="bar", position=(0.9, 0.2, 0)),
        m.DragHandle(object="bar", handle="handle 1", position=(1, 1, 0), done=True),
        m.Key(object="bar"),
        m.SetKind(object="bar", kind="flesh"),
        m.Select(object="bar", what="points", indices=[0, 1, 2]),
        m.Pin(object="bar"),
        m.Set(path=["objects", "bar", "material", "young"], value=2e5),
        m.Rename(object="bar", name="beam"),
        m.AddShape(shape="box"),
        m.SetKind(object="box", kind="rigid"),
        m.Select(object="box", what="points", indices=[0, 1, 2, 3]),
        m.Attach(object="box", to="beam", kind="spring"),
        m.AttachKey(number=0, what="release"),
        m.Detach(number=0),
        m.SetKind(object="beam", kind="handles"),
        m.Spray(object="beam", centres=[(0, 0.2, 0), (0.3, 0.2, 0)], radius=0.3, spacing=0.15),
        m.Connect(object="beam", centres=[(0, 0.2, 0)], radius=1.0, longest=0.3),
        m.Paint(object="beam", centres=[(0, 0.2, 0)], radius=0.2, field="stiffness", value=0.9, strength=0.5),
        m.Paint(object="beam", centres=[(0, 0.2, 0)], radius=0.2, field="torsion", value=0.5),
        m.Fit(object="beam"),
        m.Skin(object="beam"),
        m.Select(object="beam", what="particles", indices=[0, 1]),
        m.Group(object="beam"),
        m.ConnectPair(object="beam", pair=(0, 1), cut=True),
        m.Cut(object="beam", centres=[(0.3, 0.2, 0)], radius=0.1),
        m.Erase(object="beam", centres=[(0.3, 0.2, 0)], radius=0.1),
        m.Place(object="beam", position=(0.9, 0, 0), radius=0.1),
        m.Ground(on=True),
        m.Remove(object="box"),
        m.New(),
    ]
    documents = [session.document]
    for command in commands:
        session.apply(command)
        assert session.document is not documents[-1], command
        documents.append(session.document)
    for document in documents[-2::-1]:
        session.apply(m.Undo())
        assert session.document is document
    with pytest.raises(InputError, match="nothing to undo"):
        session.apply(m.Undo())
    for document in documents[1:]:
        session.apply(m.Redo())
        assert session.document is document
    with pytest.raises(InputError, match="nothing to redo"):
        session.apply(m.Redo())


def test_what_was_undone_cannot_be_redone_after_another_edit(session):
    session.apply(m.AddShape(shape="box"))
    session.apply(m.Undo())
    session.apply(m.AddShape(shape="sphere"))
    assert session.page_state().redo == 0
    with pytest.raises(InputError, match="nothing to redo"):
        session.apply(m.Redo())
    assert "box" not in session.document.objects


def test_a_stroke_is_undone_as_one(session):
    before = opened(session)
    for x in (-0.5, 0.0, 0.5):
        session.apply(m.Spray(object="bar", centres=[(x, 0.2, 0)], radius=0.2, spacing=0.15, stroke=7))
    many = len(session.document.bodies["bar"])
    session.apply(m.Erase(object="bar", centres=[(0.5, 0.2, 0)], radius=0.2, stroke=8))
    assert len(session.document.bodies["bar"]) < many
    session.apply(m.Undo())
    assert len(session.document.bodies["bar"]) == many
    session.apply(m.Undo())
    assert session.document is before


def test_erasing_all_leaves_the_mesh(session):
    with_body(session)
    session.apply(m.Erase(object="bar", centres=[(0, 0, 0)], radius=9))
    assert session.document.objects["bar"]["kind"] == "handles"
    assert session.replica.get("bar", "particles") is None


def test_what_is_made_for_me_is_from_mesh(session):
    document = with_body(session)
    expected = OrientedBody.from_mesh(document.surface("bar"), spacing=0.2, stiffness=0.3)
    np.testing.assert_array_equal(document.bodies["bar"].positions, expected.positions)
    np.testing.assert_array_equal(session.replica.get("bar", "links"), expected.visual.links)
    assert session.replica.get("bar", "gap").min() > 0.1


def test_scenes_come_back_as_they_were(session, tmp_path):
    document = with_body(session)
    session.apply(m.Open(path="bar.ply"))
    session.apply(m.Ground(on=True))
    session.apply(m.Save(path="deep/down/scene"))
    again = load_document(tmp_path / "deep" / "down" / "scene.toml")
    assert again.objects["bar 2"]["mesh"]["file"] == str(tmp_path / "bar.ply")
    assert again.objects["bar 2"]["handles"] == {}
    for name in ("positions", "orientations", "stiffness", "edges"):
        np.testing.assert_array_equal(
            getattr(again.bodies["bar"], name), getattr(document.bodies["bar"], name)
        )
    session.apply(m.Open(path="deep/down/scene.toml"))
    assert session.page_state().saved
    assert session.page_state().path == "deep/down/scene.toml"


def test_links_of_handles_are_to_be_saved_too(session):
    opened(session)
    for x in (-0.9, 0.9):
        session.apply(m.AddHandle(object="bar", position=(x, 0.2, 0.0)))
    session.apply(m.Save(path="scene.toml"))
    assert session.page_state().saved
    session.apply(m.Link(object="bar", handles=["handle 1", "handle 2"], how="chain"))
    assert not session.page_state().saved
    session.apply(m.Undo())
    assert session.page_state().saved


def test_bodies_of_other_files_are_put_in_their_place(tmp_path):
    body = block((0.4, 0.4, 0.4), (2, 2, 2))
    save_body(tmp_path / "block.npz", body)
    scene = {
        "objects": {"b": {"kind": "particles", "body": "block.npz", "transform": {"translate": [0, 2, 0]}}}
    }
    (tmp_path / "a.toml").write_text(toml_text(scene))
    document = load_document(tmp_path / "a.toml")
    np.testing.assert_allclose(document.bodies["b"].positions, body.positions + [0, 2, 0])
    save_document(document, tmp_path / "b.toml")
    np.testing.assert_array_equal(
        load_document(tmp_path / "b.toml").bodies["b"].positions, document.bodies["b"].positions
    )


def test_the_preview_is_the_scene(session):
    with_body(session)
    session.apply(m.Ground(on=True))
    for _ in range(5):
        session.apply(m.Step())
    session.apply(m.Save(path="fall.toml"))
    simulation = build_scene(load_scene(session.path))
    state = simulation.start()
    for _ in range(5):
        state = simulation.advance(state)
    assert session.replica.clock.frame == state.number == 6
    # Four steps of 1/120 s are what the solver makes of one of 1/30 s.
    shown = simulation.frame(state).points["bar"]
    np.testing.assert_allclose(session.replica.get("bar", "vertices"), shown, atol=1e-5)


def test_edits_go_on_with_the_simulation(session):
    with_body(session)
    for _ in range(6):
        session.apply(m.Step())
    height = session.replica.get("bar", "particles_now")[:, 1].mean()
    session.apply(m.Set(path=["world", "gravity"], value=[0, 0, 0]))
    assert session.replica.clock.frame == 7
    assert session.replica.get("bar", "particles_now")[:, 1].mean() == height
    session.apply(m.Spray(object="bar", centres=[(0, 0.2, 0)], radius=0.3, spacing=0.1))
    assert session.replica.clock.status == "paused"
    assert session.state.preview.frame == 1  # other particles: from the start


@pytest.mark.parametrize("kind", ["particles", "flesh", "rigid"])
def test_the_hand_pulls_without_shaking(session, kind):
    if kind == "particles":
        with_body(session)
    else:
        opened(session)
        session.apply(m.SetKind(object="bar", kind=kind))
    if kind == "flesh":  # of stiffer flesh the whole bar swings on the hand for longer
        session.apply(m.Set(path=["objects", "bar", "material", "young"], value=1e5))
    session.apply(m.Step())
    session.apply(m.Grab(object="bar", position=(0.0, 0.2, 0.0)))
    session.apply(m.Pull(position=(0.0, 0.6, 0.0)))
    for _ in range({"particles": 100, "flesh": 25, "rigid": 45}[kind]):
        session.apply(m.Step())
    at, target = session.replica.get("", "hand")
    np.testing.assert_allclose(at, target, atol=0.1)  # it swings a little yet
    session.apply(m.LetGo())
    session.apply(m.Step())
    assert session.replica.get("", "hand") is None
    with pytest.raises(InputError, match="not simulated"):
        session.apply(m.Grab(object="ground", position=(0, 0, 0)))


def test_glue_is_that_of_the_scene(session):
    opened(session)
    session.apply(m.SetKind(object="bar", kind="flesh"))
    session.apply(m.AddShape(shape="box"))
    session.apply(m.SetKind(object="box", kind="rigid"))
    with pytest.raises(InputError, match="select points of 'box'"):
        session.apply(m.Attach(object="box", to="bar", kind="glue"))
    session.apply(m.Select(object="box", what="points", indices=[0, 5, 9]))
    session.apply(m.Attach(object="box", to="bar", kind="glue"))
    session.apply(m.Attach(object="box", to="bar", kind="hinge"))
    glue, hinge = session.page_state().attach
    assert (glue.points, hinge.points) == (3, 4)
    bar, box = (bindable_points(session.document, name) for name in ("bar", "box"))
    expected = bind_glue(bar, box[[0, 5, 9]])
    assert glue.gap == expected.gap(bar).min()
    ends = session.replica.get("", "tie 0").reshape(-1, 2, 3)
    np.testing.assert_array_equal(ends[:, 1], np.float32(bar[expected.parents.indices]))
    assert len(session.replica.get("", "tie 0")) == 2 * len(expected.parents.indices)
    session.apply(m.Detach(number=1))
    assert session.replica.get("", "tie 1") is None
    session.apply(m.Step())
    assert len(session.replica.get("", "gaps")) == 1
    with pytest.raises(InputError, match="by a spring or a joint, not by glue"):
        session.apply(m.AttachKey(number=0, what="attach"))


@pytest.mark.parametrize("kind", ["prismatic", "cylindrical", "planar"])
def test_joints_that_slide_do_so_by_their_own_axis(kind, session):
    """A box hangs on a bar that is held, by a joint with an upright axis: along it, it falls; across, not."""
    opened(session)
    session.apply(m.SetKind(object="bar", kind="rigid"))
    session.apply(m.AddShape(shape="box"))
    session.apply(m.SetKind(object="box", kind="rigid"))
    session.apply(m.Set(path=["objects", "bar", "keys"], value=[{"time": 0.0}]))
    session.apply(m.Select(object="box", what="points", indices=[0, 5, 9]))
    session.apply(m.Attach(object="box", to="bar", kind=kind))
    session.apply(m.Set(path=["attach", 0, "axis"], value=[0, 1, 0]))
    before, steps = session.document.surface("box").vertices, 6
    for _ in range(steps):
        session.apply(m.Step())
    fallen = (before - session.replica.get("box", "vertices"))[:, 1].mean()
    free = 9.81 / 2 * ((steps - 1) / 24) ** 2  # the first step shows the start
    # Steps of first order, as the first one is, fall farther by their share.
    assert fallen == pytest.approx(0.0 if kind == "planar" else free, rel=0.2, abs=1e-5)


def test_a_finished_run_is_played(session, tmp_path, monkeypatch):
    monkeypatch.setattr(playback, "PATIENCE", -1.0)  # nobody waits for more frames
    with FrameStore.create(tmp_path / "run", stored_objects(), rate=24) as store:
        from small_runs import frame

        for number in (1, 2, 3):
            store.add(frame(number))
    session.apply(m.Open(path="run"))
    state = session.page_state()
    assert (state.run.first, state.run.last) == (1, 3)
    session.apply(m.Scrub(frame=3))
    expected = store.positions(store.read(3))
    np.testing.assert_allclose(session.replica.get("run: cloth", "vertices"), expected["cloth"], atol=1e-6)
    np.testing.assert_allclose(session.replica.get("run: dust", "particles_now"), expected["dust"], atol=1e-6)
    session.apply(m.Play())
    while session.state.playing:
        session.clock.wait_until(session.state.due)
        session.tick()
    assert session.replica.clock.frame == 3
    session.apply(m.CloseRun())
    assert session.page_state().run is None
    assert session.replica.get("run: cloth", "rest") is None


def test_poses_and_animations_are_exported(session, tmp_path):
    with_handles(session)
    session.apply(m.DragHandle(object="bar", handle="handle 3", position=(0.7, 0.6, 0.0), done=True))
    session.apply(m.Export(object="bar", path="posed.obj"))
    np.testing.assert_allclose(
        read_mesh(tmp_path / "posed.obj").vertices, session.replica.get("bar", "vertices"), atol=1e-6
    )
    session.apply(m.Set(path=["frames", "count"], value=3))
    session.apply(m.Export(object="bar", path="all.npy", animation=True))
    assert np.load(tmp_path / "all.npy").shape == (3, len(session.document.surface("bar").vertices), 3)
    with pytest.raises(InputError, match=r"bar\.ply: is the mesh of 'bar'"):
        session.apply(m.Export(object="bar", path="bar.ply"))
    before = (tmp_path / "posed.obj").stat().st_mtime_ns
    assert session.apply(m.Export(object="bar", path="posed.obj")) == [Exists(path="posed.obj")]
    assert (tmp_path / "posed.obj").stat().st_mtime_ns == before
    assert session.apply(m.Export(object="bar", path="posed.obj", replace=True)) == []
    session.apply(m.Export(object="bar", path="steps.ply", animation=True))
    again = session.apply(m.Export(object="bar", path="steps.ply", animation=True))
    assert again == [Exists(path="steps_0001.ply")]
    assert session.apply(m.Export(object="bar", path="steps.ply", animation=True, replace=True)) == []


@pytest.mark.parametrize(
    ("handles", "options"),
    [(3, {"damping": 0.5}), (3, {"damping": 0.5, "stretch": 0.3}), (2, {})],
    ids=["damped", "stretched", "two handles"],
)
def test_the_view_and_exports_are_what_a_run_computes(session, tmp_path, handles, options):
    """Also with damping, and where handles leave rotations open: both look at the frame before."""
    opened(session)
    for x in (-0.9, 0.9, 0.0)[:handles]:
        session.apply(m.AddHandle(object="bar", position=(x, 0.2, 0.1 * x)))
    session.apply(m.Set(path=["frames", "count"], value=8))
    for key, value in options.items():
        session.apply(m.Set(path=["objects", "bar", key], value=value))
    for frame, place in ((4, (0.2, 1.0, 0.3)), (8, (-0.6, 0.9, 0.8))):
        session.apply(m.Scrub(frame=frame))
        session.apply(m.DragHandle(object="bar", handle="handle 2", position=place, done=True))
    session.apply(m.Save(path="scene.toml"))
    simulation = build_scene(load_scene(tmp_path / "scene.toml"))
    state, expected = simulation.start(), []
    for number in range(1, 9):
        expected.append(simulation.frame(state).points["bar"])
        state = simulation.advance(state) if number < 8 else state
    session.apply(m.Export(object="bar", path="all.npy", animation=True))
    np.testing.assert_array_equal(np.load(tmp_path / "all.npy"), expected)
    for frame in (8, 2, 5):
        session.apply(m.Scrub(frame=frame))
        np.testing.assert_array_equal(session.replica.get("bar", "vertices"), np.float32(expected[frame - 1]))


def test_killing_it_loses_nothing_that_was_kept(tmp_path):
    write_box(tmp_path)
    session = Session(tmp_path, clock=ManualClock())
    with_body(session)
    session.clock.advance(2 * AUTOSAVE_INTERVAL)
    session.tick()  # which keeps it
    session.recovery.close()  # as the end of the process does; nothing else is done
    after = Session(tmp_path)
    assert after.page_state().found.startswith(FOLDER)
    after.apply(m.Restore(keep=True))
    np.testing.assert_array_equal(
        after.document.bodies["bar"].positions, session.document.bodies["bar"].positions
    )
    assert after.page_state().found == ""
    after.apply(m.Save(path="saved.toml"))
    after.close()
    last = Session(tmp_path)
    assert last.page_state().found == ""
    with pytest.raises(InputError, match="another studio"):
        Session(tmp_path)
    last.close()


def test_files_stay_in_the_working_directory(session, tmp_path):
    outside = tmp_path.parent / f"{tmp_path.name}_outside.ply"
    write_box(outside.parent, outside.name)
    (tmp_path / "link.ply").symlink_to(outside)
    for command in (
        m.Open(path=f"../{outside.name}"),
        m.Open(path=str(outside)),
        m.Open(path="link.ply"),
        m.ListFiles(folder=".."),
        m.Save(path="../a.toml"),
        m.Export(object="bar", path="/tmp/x.ply"),
        m.Set(path=["objects", "bar", "mesh", "file"], value=str(outside)),
    ):
        if not session.document.objects:
            opened(session)
        before = session.document
        with pytest.raises(InputError, match="outside of the working directory"):
            session.apply(command)
        assert session.document is before
    scene = {"objects": {"a": {"kind": "collider", "mesh": {"file": f"../{outside.name}"}}}}
    (tmp_path / "scene.toml").write_text(toml_text(scene))
    with pytest.raises(InputError, match="outside"):
        session.apply(m.Open(path="scene.toml"))
    # Whoever starts the studio may name any file.
    session.recovery.close()
    other = Session(tmp_path, tmp_path / "scene.toml")
    assert list(other.document.objects) == ["a"]
    other.close()


def test_the_list_of_files(session, tmp_path):
    write_octopus(tmp_path)
    (tmp_path / "deep").mkdir()
    (tmp_path / "notes.txt").write_text("nothing to open")
    (files,) = session.apply(m.ListFiles())
    assert [(entry.name, entry.kind) for entry in files.entries] == [
        ("bar.ply", "mesh"),
        ("deep", "folder"),
        ("octopus.ply", "mesh"),
    ]


names = st.text(min_size=1, max_size=8)
values = st.recursive(
    st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | names,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=40)
@given(st.dictionaries(names, values, max_size=5))
def test_toml_reads_back(tables):
    assert tomllib.loads(toml_text(tables)) == tables


def test_documents_are_checked_by_the_rules_of_scenes():
    with pytest.raises(SceneError, match=r"objects\.a\.falloff must be"):
        Document(
            {
                "objects": {
                    "a": {"kind": "handles", "mesh": {"shape": "octopus"}, "handles": {}, "falloff": -1}
                }
            }
        )
    with pytest.raises(PointglueError, match="is not known here"):
        Document({"objects": {}, "world": {"gravitty": 1}})


def test_the_whole_body_is_painted_whatever_the_brush(session):
    with_body(session)
    session.apply(m.Select(object="bar", what="particles", indices=[0]))
    session.apply(m.Paint(object="bar", field="stiffness", value=0.3, whole=True))
    assert (session.document.bodies["bar"].stiffness == 0.3).all()
    session.apply(m.Paint(object="bar", field="torsion", value=0.2, whole=True))
    assert (session.document.bodies["bar"].torsion == 0.2).all()


def test_frames_follow_the_clock(session):
    """One frame at a time: those that were missed while the session was busy are not made up for."""
    with_handles(session)
    session.apply(m.DragHandle(object="bar", handle="handle 3", position=(0.7, 0.6, 0.0), done=True))
    step = 1 / session.document.scene.frames.rate
    session.apply(m.Play())
    frames = []
    for seconds in (0.0, 0.5 * step, 0.6 * step, 5 * step, 0.5 * step, 0.6 * step):
        session.clock.advance(seconds)
        session.tick()
        frames.append(session.frame)
    assert frames == [2, 2, 3, 4, 5, 6]
    assert session.tick() == pytest.approx(session.state.due - session.clock())


def test_recent_values_are_built_once_and_the_oldest_is_forgotten():
    recent, built = RecentValues(2), []
    for key in "abacba":
        recent.get(key, lambda key=key: built.append(key))
    assert built == ["a", "b", "c", "b", "a"]
