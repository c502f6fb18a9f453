"""What random commands have found, one by one: refused with a message, with everything as it was."""

import asyncio
import json
import tomllib
from contextlib import closing

import numpy as np
import pytest
from pydantic import ValidationError
from small_runs import write_run
from studio_server import write_box
from waiting import wait_until

from pointglue import OrientedBody
from pointglue.errors import InputError, PointglueError, SceneError
from pointglue.io import save_body
from pointglue.particles import block
from pointglue.studio.document.document import load_document
from pointglue.studio.document.recovery import FOLDER
from pointglue.studio.document.toml import toml_text
from pointglue.studio.protocol import commands as m
from pointglue.studio.runtime.hub import Hub, Page, without_overtaken
from pointglue.studio.runtime.session import Session

POISONED = """
[objects.box]
kind = "handles"
mesh = { shape = "box", size = [1, 1, 1] }
handles = { rest = { at = [0, 0, 0] } }

[objects.ground]
kind = "handles"
mesh = { shape = "plane", point = [0, -0.55, 0] }
handles = { rest = { at = [0, 0, 0] } }
"""


def with_handles(session):
    for x in (-0.9, 0.0, 0.9):
        session.apply(m.AddHandle(object="bar", position=(x, 0.2, 0.0)))
    session.apply(m.Link(object="bar", handles=["handle 1", "handle 2"], how="chain"))


@pytest.mark.parametrize("kind", ["handles", "particles", "flesh", "cloth", "jelly", "rigid"])
def test_the_ground_is_a_collider_and_nothing_else(tmp_path, kind):
    with closing(Session(tmp_path)) as session:
        session.apply(m.AddShape(shape="box"))
        session.apply(m.Ground(on=True))
        before = session.document
        with pytest.raises(InputError, match="'ground' is a plane, which has no end"):
            session.apply(m.SetKind(object="ground", kind=kind))
        with pytest.raises(PointglueError):
            session.apply(m.Set(path=["objects", "ground", "kind"], value=kind))
        assert session.document is before
        session.apply(m.Save(path="scene.toml"))
    with closing(Session(tmp_path, tmp_path / "scene.toml")) as session:
        assert list(session.document.objects) == ["box", "ground"]


def test_a_file_that_cannot_be_shown_is_refused_by_name(tmp_path):
    """Such files were written by an earlier studio, which could not be started with them any more."""
    (tmp_path / "poisoned.toml").write_text(POISONED)
    told = r"^poisoned\.toml: objects\.ground: a plane is for colliders only"
    with pytest.raises(InputError, match=told):
        Session(tmp_path, tmp_path / "poisoned.toml")
    with closing(Session(tmp_path)) as session:  # the folder is free again
        with pytest.raises(InputError, match=told):
            session.apply(m.Open(path="poisoned.toml"))
        assert not session.document.objects


def test_what_was_left_poisoned_is_told_and_can_be_thrown_away(tmp_path):
    left = tmp_path / FOLDER / "now"
    left.mkdir(parents=True)
    (left / "scene.toml").write_text(POISONED)
    (tmp_path / FOLDER / "found-mine").mkdir()
    (tmp_path / FOLDER / "found-mine" / "scene.toml").write_text(POISONED)  # a name that is not ours
    with closing(Session(tmp_path)) as session:
        with pytest.raises(InputError, match="a plane is for colliders only"):
            session.apply(m.Restore(keep=True))
        assert session.recovery.found is not None
        session.apply(m.Restore(keep=False))
        assert session.recovery.found is None


@pytest.mark.parametrize("told", ["a\0b", "no such folder/scene.toml"])
def test_a_damaged_path_does_not_keep_from_restoring(tmp_path, told):
    with closing(Session(tmp_path)) as session:
        session.apply(m.AddShape(shape="box"))
    (tmp_path / FOLDER / "now" / "path").write_text(told)
    with closing(Session(tmp_path)) as session:
        session.apply(m.Restore(keep=True))
        assert list(session.document.objects) == ["box"]


@pytest.mark.parametrize(
    "command",
    [
        m.SetKind(object="bar", kind="cloth"),
        m.Place(object="bar", position=(0, 0.2, 0), radius=0.1),
        m.Set(path=["objects", "bar", "handles"], value=None),
    ],
)
def test_links_go_with_the_handles(session, command):
    with_handles(session)
    session.apply(command)
    assert session.page_state().objects[0].links == []
    session.apply(m.Undo())
    assert session.page_state().objects[0].links == [[0, 1]]


def test_links_are_set_by_linking_alone(session):
    with_handles(session)
    for path, value in (
        (["objects", "bar", "chains"], [["handle 2", "handle 3"]]),
        (["objects", "bar", "together"], []),
        (["objects", "bar"], {**session.document.objects["bar"], "chains": []}),
    ):
        with pytest.raises(InputError, match="cannot be set: link handles instead"):
            session.apply(m.Set(path=path, value=value))


def test_links_of_a_handle_that_is_none_are_left_out(tmp_path):
    (tmp_path / "scene.toml").write_text(
        '[objects.box]\nkind = "handles"\nmesh = { shape = "box", size = [1, 1, 1] }\n'
        'handles = { rest = { at = [0, 0, 0] } }\nchains = [["rest"]]\n'
    )
    with closing(Session(tmp_path, tmp_path / "scene.toml")) as session:
        assert session.page_state().objects[0].links == []


def test_a_body_goes_when_its_object_is_made_of_something_else(session, tmp_path):
    session.apply(m.Make(object="bar", spacing=0.4))
    session.apply(m.Set(path=["objects", "bar", "kind"], value="cloth"))
    assert session.document.bodies == {}
    session.apply(m.Save(path="cloth.toml"))
    assert load_document(tmp_path / "cloth.toml").objects["bar"]["kind"] == "cloth"


@pytest.mark.parametrize(("key", "value"), [("transform", 0.0), ("mesh", 0.0), ("mesh", {"shape": "ball"})])
def test_what_a_body_hides_is_checked_too(session, key, value):
    session.apply(m.Make(object="bar", spacing=0.4))
    with pytest.raises(PointglueError, match=f"objects.bar.{key}"):
        session.apply(m.Set(path=["objects", "bar", key], value=value))
    (session.files.root / "bar.ply").unlink()  # which the body does not need any more
    session.apply(m.Move(object="bar", translate=(1, 0, 0)))


@pytest.mark.parametrize("name", ["run: cloth", "", "nobody", 1000 * "x"])
def test_objects_that_are_not_there_are_refused_by_name(session, tmp_path, name):
    write_run(tmp_path / "run")
    session.apply(m.Open(path="run"))
    drawn = {
        "position": (0, 0, 0), "radius": 1, "spacing": 1, "centres": [(0, 0, 0)], "what": "points",
        "kind": "glue", "indices": [], "handle": "handle 1", "handles": [], "how": "group", "to": "bar",
        "path": "x.ply", "pair": (0, 1), "field": "stretch", "value": 1, "name": "new",
    }  # fmt: skip
    fitting = {m.SetKind: {"kind": "cloth"}, m.Select: {"how": "add"}}
    before = session.document
    for kind in m.COMMANDS:
        needed = {key for key, field in kind.model_fields.items() if field.is_required()}
        if "object" in kind.model_fields and kind is not m.Grab:
            values = {key: drawn[key] for key in needed - {"object"}} | fitting.get(kind, {})
            if issubclass(kind, m.Brushed):
                values |= {"centres": drawn["centres"], "radius": 1}
            with pytest.raises(InputError, match="there is no object"):
                session.apply(kind(object=name, **values))
    assert session.document is before


@pytest.mark.parametrize("number", [-1, 2**31, 2**63, 10**30])
def test_numbers_fit_the_arrays(session, number):
    for values in (
        {"type": "select", "object": "bar", "what": "vertices", "indices": [number]},
        {"type": "connect_pair", "object": "bar", "pair": [0, number]},
        {"type": "detach", "number": number},
        {"type": "set", "path": ["attach", number], "value": {}},
        {"type": "undo", "stroke": number},
    ):
        with pytest.raises(ValidationError):
            m.parse_command(json.dumps(values))
    session.apply(m.SetKind(object="bar", kind="cloth"))
    with pytest.raises(PointglueError):
        session.apply(m.Set(path=["objects", "bar", "pin"], value={"indices": [number]}))


def test_points_that_are_not_there_do_not_keep_an_object_from_moving(session):
    session.apply(m.SetKind(object="bar", kind="cloth"))
    session.apply(m.Set(path=["objects", "bar", "pin"], value={"indices": [0, 99999]}))
    session.apply(m.Move(object="bar", translate=(1, 0, 0)))
    assert session.document.objects["bar"]["pin"] == {"indices": [0, 99999]}
    with pytest.raises(PointglueError, match="must have indices below"):
        session.apply(m.Play())


def test_many_wrong_numbers_are_told_as_one(session):
    text = json.dumps({"type": "select", "object": "bar", "what": "vertices", "indices": 100_000 * [-1]})
    with pytest.raises(ValidationError) as raised:
        m.parse_command(text)
    assert raised.value.error_count() == 1


def test_a_body_without_a_mesh_is_moved(tmp_path):
    body = block((1, 1, 1), (2, 2, 2))
    assert body.visual is None
    save_body(tmp_path / "body.npz", body)
    (tmp_path / "scene.toml").write_text('[objects.body]\nkind = "particles"\nbody = "body.npz"\n')
    with closing(Session(tmp_path, tmp_path / "scene.toml")) as session:
        session.apply(m.Move(object="body", translate=(1, 2, 3)))
        np.testing.assert_allclose(session.document.body("body").positions, body.positions + [1, 2, 3])


def test_a_spacing_next_to_nothing_is_refused(session):
    surface = session.document.surface("bar")
    for spacing in (1e-300, 1e-110, 1e-9):
        with pytest.raises(InputError, match="would make about"):
            OrientedBody.from_mesh((surface.vertices, surface.faces), spacing=spacing)


def test_objects_keep_their_order_in_files(session, tmp_path):
    """By which they have their colours."""
    session.apply(m.Set(path=["objects", "bar", "transform"], value={"rotate": [10.5, 20.25, 30.125]}))
    session.apply(m.AddShape(shape="box"))
    session.apply(m.Place(object="box", position=(0, 0, 0), radius=0.1))
    colors = [one.color for one in session.page_state().objects]
    session.apply(m.Save(path="scene.toml"))
    assert list(tomllib.loads((tmp_path / "scene.toml").read_text())["objects"]) == ["bar", "box"]
    session.apply(m.Open(path="scene.toml"))
    assert [one.color for one in session.page_state().objects] == colors
    tables = {"a": {"b": {"c": 1}}, "d": {"e": 2}, "f": 3}
    assert list(tomllib.loads(toml_text(tables))) == ["f", "a", "d"]


def test_a_handle_called_rest_that_moves_is_kept(session, tmp_path):
    keys = [{"time": "frame 1", "translate": [0.0, 1.0, 0.0]}]
    session.apply(
        m.Set(path=["objects", "bar", "handles"], value={"rest": {"at": [0.5, 0, 0], "keys": keys}})
    )
    before = session.document.objects["bar"]["handles"]
    session.apply(m.Save(path="scene.toml"))
    assert load_document(tmp_path / "scene.toml").objects["bar"]["handles"] == before


class TestTransactions:
    """A command that fails leaves everything as it was."""

    def grabbed(self, session):
        session.apply(m.SetKind(object="bar", kind="flesh"))
        session.apply(m.Grab(object="bar", position=(0, 0, 0)))
        return session.state.preview, session.state.preview.hand

    def test_what_is_grabbed_stays_grabbed(self, session):
        session.apply(m.AddShape(shape="box"))
        session.apply(m.Place(object="box", position=(0, 0, 0), radius=0.1))
        preview, hand = self.grabbed(session)
        with pytest.raises(InputError, match="too few points"):
            session.apply(m.Grab(object="box", position=(0, 0, 0)))
        assert session.state.preview is preview
        assert preview.hand is hand
        assert sum(force is hand for force in hand.engine.solver.forces) == 1

    def test_a_simulation_goes_on(self, session, tmp_path):
        preview, hand = self.grabbed(session)
        session.apply(m.Play())
        for command in (
            m.DragHandle(object="bar", handle="handle 1", position=(0, 0, 0)),
            m.Open(path="nowhere.toml"),
            m.Restore(keep=True),
            m.Set(path=["world", "gravity"], value="up"),
        ):
            with pytest.raises(PointglueError):
                session.apply(command)
            assert session.state.preview is preview
            assert preview.hand is hand
            assert session.state.playing

    def test_a_simulation_that_cannot_be_built_is_none(self, session):
        session.apply(m.SetKind(object="bar", kind="cloth"))
        session.apply(m.Scrub(frame=7))
        session.apply(m.Set(path=["objects", "bar", "pin"], value={"indices": [99999]}))
        for command in (m.Play(), m.Step(), m.Grab(object="bar", position=(0, 0, 0))):
            with pytest.raises(PointglueError):
                session.apply(command)
            assert (session.state.preview, session.state.playing, session.frame) == (None, False, 7)

    def test_a_run_stays_at_its_frame(self, session, tmp_path):
        store = write_run(tmp_path / "run", numbers=range(1, 6))
        session.apply(m.Open(path="run"))
        session.apply(m.Scrub(frame=2))
        run, shown = session.state.run, session.replica.get("run: cloth", "vertices")
        store.path(4).write_bytes(b"damaged")
        with pytest.raises(PointglueError):
            session.apply(m.Scrub(frame=4))
        store.path(1).unlink()
        session.apply(m.Scrub(frame=3))
        session.apply(m.Scrub(frame=2))
        store.path(2).write_bytes(b"damaged")
        with pytest.raises(PointglueError):
            session.apply(m.Reset())
        assert session.state.run is run
        assert (run.frame, run.numbers) == (2, [2, 3, 4, 5])
        np.testing.assert_array_equal(session.replica.get("run: cloth", "vertices"), shown)

    def test_what_cannot_be_shown_is_not_taken(self, session, monkeypatch):
        """Also where the fault is ours."""
        with_handles(session)
        session.apply(m.Undo())
        before = session.document, session.state.past, session.state.future, session.replica.since(0)[3]

        def fail(self, document, name, frame):
            if name == "box":
                raise KeyError(name)
            return places(self, document, name, frame)

        places = type(session.poses).vertices
        monkeypatch.setattr(type(session.poses), "vertices", fail)
        with pytest.raises(KeyError):
            session.apply(m.AddShape(shape="box"))
        assert (session.document, session.state.past, session.state.future) == before[:3]
        after = session.replica.since(0)[3]
        assert after.keys() == before[3].keys()

    def test_a_drag_that_fails_leaves_the_pose(self, session):
        with_handles(session)
        session.apply(m.DragHandle(object="bar", handle="handle 3", position=(1.0, 0.5, 0.0)))
        shown = session.replica.get("bar", "handles")
        with pytest.raises(InputError, match="there is no handle"):
            session.apply(m.DragHandle(object="bar", handle="nobody", position=(1.0, 0.5, 0.0), done=True))
        np.testing.assert_array_equal(session.replica.get("bar", "handles"), shown)
        far = (-1e9, 0.0, 0.0)  # the handle is at 0.9, and its key would be more than that away
        with pytest.raises(SceneError, match="must be at least"):
            session.apply(m.DragHandle(object="bar", handle="handle 3", position=far, done=True))
        np.testing.assert_array_equal(session.replica.get("bar", "handles"), shown)
        session.apply(m.DragHandle(object="bar", handle="handle 3", position=(1.0, 0.5, 0.0), done=True))
        assert session.document.objects["bar"]["handles"]["handle 3"]["keys"]


@pytest.fixture
def page():
    loop = asyncio.new_event_loop()
    yield Page(loop)
    loop.close()


def told(page, count):
    """What a page has been told, when so many commands have been answered."""
    wait_until(lambda: sum('"done"' in text for text in [*page.outbox]) >= count, lambda: [*page.outbox])
    return [json.loads(text) for text in page.outbox]


def unforeseen(page):
    return sum("unforeseen" in text for text in [*page.outbox])


def test_a_fault_of_ours_is_told_and_the_next_command_is_done(tmp_path, page, monkeypatch, capsys):
    write_box(tmp_path)
    hub = Hub(Session(tmp_path))
    hub.pages.add(page)
    session = hub.session

    def fail(*_):
        raise KeyError("ours")

    try:
        with monkeypatch.context() as patched:
            patched.setattr(Session, "_save", fail)
            hub.receive(page, '{"type": "save", "path": "x.toml"}')
            answers = told(page, 1)
        assert [one["text"] for one in answers if one["type"] == "note"] == [
            "Something unforeseen went wrong: KeyError('ours')"
        ]
        assert "Traceback" in capsys.readouterr().err
        hub.receive(page, '{"type": "open", "path": "bar.ply"}')
        told(page, 2)
        assert list(session.document.objects) == ["bar"]
        with monkeypatch.context() as patched:
            patched.setattr(Session, "_advance", fail)
            hub.receive(page, '{"type": "play"}')
            # It is told once, and not again and again.
            wait_until(
                lambda: (
                    not session.state.playing and sum("unforeseen" in text for text in [*page.outbox]) == 2
                ),
                lambda: (session.state.playing, [*page.outbox]),
            )
        hub.receive(page, '{"type": "step"}')
        told(page, 4)
    finally:
        hub.close()
    assert unforeseen(page) == 2


def test_only_moves_that_are_followed_by_another_of_the_same_thing_are_left_out(page):
    def drag(handle, **options):
        return page, m.DragHandle(object="bar", handle=handle, position=(0, 0, 0), **options)

    batch = [drag("one"), drag("one"), drag("two"), drag("two", done=True), drag("two"), (page, m.Play())]
    assert [kept for _, _, kept in without_overtaken(batch)] == [False, True, False, True, True, True]


def test_who_cannot_take_hold_does_not_let_go_for_others(tmp_path, page):
    write_box(tmp_path)
    hub = Hub(Session(tmp_path))
    loop = asyncio.new_event_loop()
    other = Page(loop)
    try:
        for text in (
            '{"type": "open", "path": "bar.ply"}',
            '{"type": "set_kind", "object": "bar", "kind": "flesh"}',
        ):
            hub.receive(page, text)
        hub.receive(page, '{"type": "grab", "object": "bar", "position": [0, 0, 0]}')
        told(page, 3)
        hand = hub.session.state.preview.hand
        hub.receive(other, '{"type": "grab", "object": "nobody", "position": [0, 0, 0]}')
        told(other, 1)
        hub.left(other)
        hub.receive(page, '{"type": "list_files"}')
        told(page, 4)
        assert hub.session.state.preview.hand is hand
    finally:
        hub.close()
        loop.close()
