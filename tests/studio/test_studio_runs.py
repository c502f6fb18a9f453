"""What runs, stops and comes back: frames of runs on disk, simulations that fail, work that was not saved."""

import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from small_runs import frame, stored_objects, write_run
from studio_server import ManualClock, write_box

from pointglue.elastic import ImplicitSolver, StepError
from pointglue.errors import InputError, PointglueError
from pointglue.io import FrameStore
from pointglue.studio.document import recovery
from pointglue.studio.document.recovery import FOLDER
from pointglue.studio.protocol import commands as m
from pointglue.studio.runtime import playback
from pointglue.studio.runtime.session import AUTOSAVE_INTERVAL, Session


def damage(folder, number):
    path = FrameStore.open(folder).path(number)
    path.write_bytes(path.read_bytes()[:100])


def played(session):
    """Until it stops by itself; the notes of it."""
    session.take_notes()
    for _ in range(1000):
        session.clock.wait_until(session.state.due)
        session.tick()
        if not session.state.playing:
            break
    for _ in range(3):
        session.tick()
    return [note.text for note in session.notes]


def still_works(session):
    session.apply(m.Save(path="after.toml", replace=True))
    session.apply(m.CloseRun())
    assert session.page_state().run is None
    session.apply(m.Open(path="bar.ply"))


def test_a_run_that_begins_with_damage_is_not_opened(session, tmp_path):
    write_run(tmp_path / "run")
    damage(tmp_path / "run", 1)
    with pytest.raises(InputError, match="frame_0001"):
        session.apply(m.Open(path="run"))
    assert session.page_state().run is None
    still_works(session)


def test_the_next_frame_of_a_run_under_way_is_waited_for(session, tmp_path, monkeypatch):
    write_run(tmp_path / "run")
    with FrameStore.open(tmp_path / "run", write=True) as store:
        session.apply(m.Open(path="run"))
        assert session.page_state().run.growing
        session.apply(m.Play())
        for _ in range(5):
            session.clock.wait_until(session.state.due)
            session.tick()
        assert (session.replica.clock.frame, session.replica.clock.status) == (3, "playing")
        store.add(frame(4))
        session.clock.wait_until(session.state.due)
        session.tick()
        assert session.replica.clock.frame == 4
    assert played(session) == []  # it has ended
    assert session.replica.clock.status == "still"
    assert not session.page_state().run.growing
    (tmp_path / "run" / ".lock").unlink()  # a file system that does not tell whether it has
    assert session.page_state().run.growing
    monkeypatch.setattr(playback, "PATIENCE", -1.0)  # no new frame for long: it was stopped
    assert not session.page_state().run.growing


def vanish(folder):
    shutil.rmtree(folder)


def replaced(folder):
    with FrameStore.create(folder, stored_objects()[:1], rate=30, replace=True):
        pass


def replaced_by_the_like(folder):
    shutil.rmtree(folder)
    write_run(folder)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda folder: damage(folder, 3), "frame_0003"),
        (vanish, "cannot be read any more"),
        (replaced, "holds another run now"),
        (replaced_by_the_like, "holds another run now"),
    ],
)
def test_a_run_that_is_spoiled_while_it_plays_stops_where_it_is(session, tmp_path, change, told):
    write_run(tmp_path / "run")
    session.apply(m.Open(path="run"))
    session.apply(m.Scrub(frame=2))
    shown = session.replica.get("run: cloth", "vertices")
    session.apply(m.Play())
    change(tmp_path / "run")
    (note,) = played(session)
    assert told in note
    assert (session.replica.clock.frame, session.replica.clock.status) == (2, "still")
    for command in (m.Step(), m.Scrub(frame=3)):
        with pytest.raises(InputError, match=told):
            session.apply(command)
    assert session.replica.get("run: cloth", "vertices") is shown
    still_works(session)


def test_playback_follows_a_run_that_is_still_computed(session, tmp_path):
    with FrameStore.create(tmp_path / "run", stored_objects(), rate=24) as store:
        store.add(frame(1))
        session.apply(m.Open(path="run"))
        store.add(frame(2))
        session.apply(m.Play())
        store.add(frame(3))
        assert played(session) == []
        assert session.replica.clock.frame == session.page_state().run.last == 3
        store.add(frame(4))
        session.apply(m.Play())
        assert session.replica.clock.frame == 3  # from where it was, not from the start
        assert played(session) == []
        assert session.replica.clock.frame == 4
        store.add(frame(5))
        session.apply(m.Scrub(frame=9))
        assert session.replica.clock.frame == session.page_state().run.last == 5
        session.apply(m.Play())
        assert session.replica.clock.frame == 1  # there is nothing more


def test_one_run_after_another(session, tmp_path):
    write_run(tmp_path / "one")
    with FrameStore.create(tmp_path / "two", [stored_objects()[0]], rate=24) as store:
        store.add(type(frame(1))(number=1, time=0.0, points={"cloth": frame(1).points["cloth"]}))
    session.apply(m.Open(path="one"))
    session.apply(m.Open(path="two"))
    assert session.replica.get("run: cloth", "faces") is not None
    assert session.replica.get("run: box", "faces") is None
    session.apply(m.Open(path="one"))
    assert session.replica.get("run: box", "faces") is not None


def test_a_run_stays_open_if_something_else_cannot_be_opened(session, tmp_path):
    write_run(tmp_path / "run")
    (tmp_path / "bad.toml").write_text("objects = 3")
    (tmp_path / "bad.ply").write_bytes(b"ply nonsense")
    session.apply(m.Open(path="run"))
    for name in ("bad.toml", "bad.ply"):
        with pytest.raises(PointglueError):
            session.apply(m.Open(path=name))
        assert session.page_state().run is not None


def test_only_what_is_simulated_can_be_taken_hold_of(session, tmp_path):
    for x in (-0.9, 0.9):
        session.apply(m.AddHandle(object="bar", position=(x, 0.2, 0.0)))
    session.apply(m.Ground(on=True))
    for name in ("bar", "ground", "nobody"):
        with pytest.raises(InputError, match=f"'{name}' is not simulated"):
            session.apply(m.Grab(object=name, position=(0, 0, 0)))
    assert session.replica.clock.status == "still"
    session.apply(m.Scrub(frame=120))
    session.apply(m.Step())
    assert session.replica.clock.frame == 1  # round and round
    write_run(tmp_path / "run")
    session.apply(m.Open(path="run"))
    with pytest.raises(InputError, match="go back to the scene"):
        session.apply(m.Grab(object="run: cloth", position=(0, 0, 0)))
    session.apply(m.Step())
    assert session.replica.clock.frame == 2


def killed(session):
    session.recovery.close()  # as the end of the process does; nothing else is done


def kept(session):
    session.clock.advance(2 * AUTOSAVE_INTERVAL)
    session.tick()


def test_what_is_restored_is_kept_at_once_and_knows_its_file(tmp_path):
    write_box(tmp_path)
    session = Session(tmp_path, clock=ManualClock())
    session.apply(m.Open(path="bar.ply"))
    session.apply(m.Save(path="deep/scene.toml"))
    session.apply(m.AddShape(shape="box"))
    kept(session)
    killed(session)
    for _ in range(3):
        session = Session(tmp_path, clock=ManualClock())
        assert session.page_state().found
        session.apply(m.Restore(keep=True))
        assert list(session.document.objects) == ["bar", "box"]
        assert (session.page_state().path, session.page_state().saved) == ("deep/scene.toml", False)
        assert session.page_state().found == ""
        killed(session)  # at once
    session = Session(tmp_path, clock=ManualClock())
    session.apply(m.Restore(keep=True))
    session.apply(m.Save(path="deep/scene.toml"))  # its own: nothing is asked
    session.close()
    assert not any((tmp_path / FOLDER).glob("found-*"))


def test_what_cannot_be_kept_is_not_forgotten(tmp_path, monkeypatch):
    session = Session(tmp_path, clock=ManualClock())
    session.apply(m.AddShape(shape="box"))
    kept(session)
    killed(session)
    session = Session(tmp_path, clock=ManualClock())
    monkeypatch.setattr(recovery, "save_document", full_disk)
    with pytest.raises(PointglueError, match="No space left"):
        session.apply(m.Restore(keep=True))
    assert session.page_state().found
    killed(session)


def test_a_scene_elsewhere_is_known_again_if_it_is_named_again(tmp_path):
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here, elsewhere):
        folder.mkdir()
    session = Session(elsewhere, clock=ManualClock())
    session.apply(m.AddShape(shape="box"))
    session.apply(m.Save(path="scene.toml"))
    session.close()
    for start, path in ((None, ""), (elsewhere / "scene.toml", str(elsewhere / "scene.toml"))):
        session = Session(here, elsewhere / "scene.toml", clock=ManualClock())
        session.apply(m.AddShape(shape="sphere"))
        kept(session)
        killed(session)
        session = Session(here, start, clock=ManualClock())
        session.apply(m.Restore(keep=True))
        assert list(session.document.objects) == ["box", "sphere"]
        assert session.page_state().path == path
        session.recovery.clear()
        killed(session)


def test_a_scene_that_is_named_from_another_folder_is_the_same(tmp_path, monkeypatch):
    session = Session(tmp_path, clock=ManualClock())
    session.apply(m.AddShape(shape="box"))
    session.apply(m.Save(path="deep/scene.toml"))
    session.close()
    monkeypatch.chdir(tmp_path / "deep")
    session = Session(tmp_path, Path("scene.toml"), clock=ManualClock())
    session.apply(m.AddShape(shape="sphere"))
    kept(session)
    killed(session)
    session = Session(tmp_path, clock=ManualClock())
    session.apply(m.Restore(keep=True))
    assert session.page_state().path == "deep/scene.toml"
    session.apply(m.Save(path="deep/scene.toml"))
    session.close()


def test_only_what_is_not_saved_is_found(tmp_path):
    write_box(tmp_path)
    session = Session(tmp_path, clock=ManualClock())
    session.apply(m.Open(path="bar.ply"))
    session.apply(m.Make(object="bar", spacing=0.25))
    session.apply(m.Save(path="scene.toml"))
    session.apply(m.Step())  # which needs the body in a file
    files = {file: file.stat().st_mtime_ns for file in (tmp_path / FOLDER).rglob("*.npz")}
    assert files
    session.apply(m.Set(path=["world", "gravity"], value=[0, -1, 0]))
    assert {file: file.stat().st_mtime_ns for file in files} == files  # the same body, not written again
    session.apply(m.Undo())
    killed(session)
    session = Session(tmp_path, clock=ManualClock())
    assert session.page_state().found == ""
    session.apply(m.Open(path="scene.toml"))
    session.apply(m.AddShape(shape="box"))
    kept(session)
    session.apply(m.Undo())
    kept(session)
    killed(session)
    session = Session(tmp_path, clock=ManualClock())
    assert session.page_state().found == ""
    session.close()


@pytest.mark.parametrize(
    "command", [m.New(), m.Remove(object="bar"), m.SetKind(object="bar", kind="handles")]
)
def test_a_simulation_of_nothing_ends_silently(session, command):
    session.apply(m.SetKind(object="bar", kind="rigid"))
    session.apply(m.Ground(on=True))
    session.apply(m.Step())
    session.take_notes()
    session.apply(command)
    assert (session.replica.clock.frame, session.replica.clock.status) == (1, "still")
    assert not [note for note in session.notes if "simulation" in note.text]


def full_disk(*_):
    raise PointglueError("scene.toml: cannot be written: No space left on device")


def test_a_full_disk_is_told_once(session, monkeypatch):
    whole = recovery.save_document
    told = []
    for works in (False, False, True, False, False):
        session.take_notes()
        session.apply(m.AddShape(shape="box"))
        with monkeypatch.context() as patched:
            patched.setattr(recovery, "save_document", whole if works else full_disk)
            kept(session)
        told.append(["Autosave failed" in note.text for note in session.notes])
    assert told == [[True], [], [], [True], []]


def flesh(session):
    session.apply(m.SetKind(object="bar", kind="flesh"))
    session.apply(m.Step())


def fail(monkeypatch, error):
    def step(self, state, *_, **__):
        raise error(state)

    monkeypatch.setattr(ImplicitSolver, "step", step)


@pytest.mark.parametrize("how", ["play", "step"])
def test_why_it_stopped_is_said_until_it_goes_on(session, monkeypatch, how):
    flesh(session)
    with monkeypatch.context() as patched:
        fail(patched, lambda state: StepError("the step did not converge: " + 100 * "residual ", state))
        if how == "play":
            session.apply(m.Play())
            (told,) = played(session)
        else:
            with pytest.raises(PointglueError) as raised:
                session.apply(m.Step())
            told = str(raised.value)
    clock = session.replica.clock
    assert (clock.status, clock.frame, clock.problem) == ("paused", 2, told)
    assert told.startswith("Stopped in frame 3: the solver found no way on. Lighter or stiffer materials")
    assert "the step did not converge" in told
    assert told.endswith("...")
    assert len(told) < 400
    session.apply(m.Select(object="bar", what="points", indices=[0]))
    session.apply(m.ListFiles())
    assert session.replica.clock.problem == told


@pytest.mark.parametrize(
    "command",
    [m.Play(), m.Step(), m.Reset(), m.Scrub(frame=5), m.Set(path=["world", "gravity"], value=[0, -1, 0])],
)
def test_what_goes_on_has_no_problem(session, monkeypatch, command):
    flesh(session)
    with monkeypatch.context() as patched:
        fail(patched, lambda state: InputError("the wind is too strong"))
        with pytest.raises(PointglueError):
            session.apply(m.Step())
    assert session.replica.clock.problem == "Stopped in frame 3: the wind is too strong"
    session.apply(command)
    assert session.replica.clock.problem == ""


def test_a_mesh_that_stays_behind_is_told_of_once(session):
    for x in (-0.5, 0.5):
        session.apply(m.Spray(object="bar", centres=[(x, 0.2, 0)], radius=0.3, spacing=0.15))
    session.take_notes()
    for _ in range(2):
        session.apply(m.Play())
        session.apply(m.Reset())
    told = "The mesh of 'bar' does not follow its particles yet: Author, Skin."
    assert [note.text for note in session.notes].count(told) == 1
    session.apply(m.Skin(object="bar"))
    session.state.warned_unskinned = frozenset()
    session.take_notes()
    session.apply(m.Play())
    assert told not in [note.text for note in session.notes]


def test_names_of_files_are_checked_before_anything_is_written(session, tmp_path):
    for name in (f"{FOLDER}/mine.toml", f"{FOLDER}/now/scene.toml"):
        with pytest.raises(InputError, match="for the studio itself"):
            session.apply(m.Save(path=name))
    for command in (m.Save(path=300 * "x"), m.Export(object="bar", path=300 * "x"), m.Open(path=300 * "x")):
        with pytest.raises(InputError, match="is no file name"):
            session.apply(command)
    (tmp_path / "round.toml").symlink_to("round.toml")
    with pytest.raises(InputError, match="is no file name"):
        session.apply(m.Save(path="round.toml"))
    session.apply(m.Save(path="my $scene's.toml"))
    words = shlex.split(session.notes[-1].text.partition("Run it with: ")[2])
    assert words == ["pointglue", "run", "my $scene's.toml", "-o", "my $scene's_run"]


def test_meshes_are_never_written_over(session, tmp_path):
    before = (tmp_path / "bar.ply").read_bytes()
    write_box(tmp_path, "steps_0001.ply")
    session.apply(m.Open(path="steps_0001.ply"))
    session.apply(m.AddShape(shape="box"))
    session.apply(m.Remove(object="bar"))  # undo would bring it back
    (tmp_path / "link.ply").symlink_to("bar.ply")
    for path, name, animation in (
        ("bar.ply", "bar", False),
        ("link.ply", "bar", False),
        ("steps.ply", "steps_0001", True),
    ):
        for replace in (False, True):
            with pytest.raises(InputError, match=rf"\.ply: is the mesh of '{name}': choose another name"):
                session.apply(m.Export(object="box", path=path, animation=animation, replace=replace))
    session.apply(m.Undo())
    session.apply(m.Undo())
    session.apply(m.Undo())
    assert list(session.document.objects) == ["bar"]
    with pytest.raises(InputError, match="is the mesh of 'steps_0001'"):
        session.apply(m.Export(object="bar", path="steps_0001.ply", replace=True))  # redo would
    assert (tmp_path / "bar.ply").read_bytes() == before


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["objects"], 3),
        (["objects"], None),
        (["objects"], {"a": 3}),
        (["objects", "bar"], [1]),
        (["objects", "bar", "handles"], 0),
        (["objects", "bar"], {"kind": "handles", "mesh": {"shape": "octopus"}, "handles": ""}),
        (["attach"], 3),
        (["attach"], {"a": 1}),
        (["attach"], [3]),
        (["frames"], 3),
        (["world"], [1]),
    ],
)
def test_nonsense_is_no_document(session, path, value):
    before = session.document
    with pytest.raises(PointglueError):
        session.apply(m.Set(path=path, value=value))
    assert session.document is before


def test_nothing_is_left_of_what_is_set_to_nothing(session, tmp_path):
    for x in (-0.9, 0.0, 0.9):
        session.apply(m.AddHandle(object="bar", position=(x, 0.2, 0.0)))
    session.apply(m.Link(object="bar", handles=["handle 1", "handle 2"], how="chain"))
    session.apply(m.Set(path=["objects", "bar", "handles", "handle 2"], value=None))
    assert session.page_state().objects[0].links == []
    session.apply(m.Undo())
    session.apply(m.AddShape(shape="box"))
    session.apply(m.Set(path=["objects", "bar"], value=None))
    session.apply(m.Save(path="box.toml"))
    assert list(session.document.objects) == ["box"]
    session.apply(m.Undo())
    session.apply(m.Set(path=["objects"], value={"box": session.document.objects["box"]}))
    session.apply(m.Save(path="box.toml", replace=True))
    np.testing.assert_array_equal(
        session.document.bounds()[0], session.document.surface("box").vertices.min(0)
    )
