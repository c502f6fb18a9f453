"""Objects as a whole: materials for any size, points that stay where they are, places that are kept."""

import numpy as np
import pytest
import trimesh
from studio_server import write_box

from pointglue.errors import InputError
from pointglue.scene.tracks import box_center
from pointglue.studio.edits.bindings import bindable_points
from pointglue.studio.protocol import commands as m
from pointglue.studio.runtime.session import Session


def extent(session, name="bar"):
    return np.ptp(session.document.surface(name).vertices, axis=0)


@pytest.mark.parametrize("kind", ["flesh", "jelly"])
@pytest.mark.parametrize("scale", [0.01, 1.0, 20.0])
def test_things_of_any_size_carry_their_own_weight(session, kind, scale):
    session.apply(m.Move(object="bar", scale=scale))
    session.apply(m.SetKind(object="bar", kind=kind))
    session.apply(m.Ground(on=True))
    session.apply(m.Set(path=["frames", "rate"], value=30.0 / scale**0.5))  # falls take so much longer
    for _ in range(30):
        session.apply(m.Step())
    now = session.replica.get("bar", "vertices")
    assert now[:, 1].min() > session.page_state().ground
    assert np.ptp(now, axis=0) == pytest.approx(extent(session), rel=0.15)


def select(session, name, chosen):
    rows = np.flatnonzero(chosen(bindable_points(session.document, name)))
    session.apply(m.Select(object=name, what="points", indices=rows.tolist()))
    return len(rows)


@pytest.fixture
def bound(session):
    """The left end of the bar is pinned, its right end bound to a box, by points and at a joint."""
    session.apply(m.AddShape(shape="box"))
    for name, kind in (("bar", "flesh"), ("box", "rigid")):
        session.apply(m.SetKind(object=name, kind=kind))
    left, right = extent(session)[0] * np.array([-0.45, 0.45])
    select(session, "bar", lambda x: x[:, 0] < left)
    session.apply(m.Pin(object="bar", pinned=True))
    select(session, "bar", lambda x: x[:, 0] > right)
    session.apply(m.Attach(object="bar", to="box", kind="glue"))
    session.apply(m.Attach(object="bar", to="box", kind="ball"))
    return session


def ends(session):
    """Along the bar, in its lengths: what is pinned, what is bound, and where the joint is."""
    document = session.document
    turn = document.objects["bar"].get("transform", {}).get("rotate", [0, 0, 0])[1]
    along = np.array([np.cos(np.radians(turn)), 0, -np.sin(np.radians(turn))])
    x = (bindable_points(document, "bar") - box_center(document.surface("bar").vertices)) @ along
    length = np.ptp(document.surface("bar").vertices @ along)
    rows = [document.objects["bar"]["pin"]["indices"], document.attach[0]["points"]["indices"]]
    joint = (np.array(document.attach[1]["at"]) - box_center(document.surface("bar").vertices)) @ along
    return [(x[of] / length).mean() for of in rows] + [joint / length]


@pytest.mark.parametrize(
    "edit",
    [
        m.Set(path=["objects", "bar", "transform"], value={"rotate": [0, 40, 0], "translate": [3, 0, 1]}),
        m.Set(path=["objects", "bar", "cell"], value=0.3),
        m.SetKind(object="bar", kind="jelly"),
        m.SetKind(object="bar", kind="cloth"),
    ],
    ids=["turned", "other cells", "jelly", "cloth"],
)
def test_what_is_bound_and_pinned_stays_where_it_is_on_the_object(bound, edit):
    before = ends(bound)
    bound.apply(edit)
    assert ends(bound) == pytest.approx(before, abs=0.1)  # a cell
    assert all(tie.problem == "" for tie in bound.page_state().attach)
    bound.apply(m.Undo())
    assert ends(bound) == before


def test_it_is_not_let_go_of_before_it_is_attached(bound):
    bound.apply(m.Scrub(frame=20))
    bound.apply(m.AttachKey(number=1, what="release"))
    for frame in (20, 60):
        bound.apply(m.Scrub(frame=frame))
        with pytest.raises(InputError, match=f"before it releases, got frame {frame} and frame 20"):
            bound.apply(m.AttachKey(number=1, what="attach"))
    bound.apply(m.Scrub(frame=10))
    bound.apply(m.AttachKey(number=1, what="attach"))
    assert bound.document.attach[1]["attach"] == "frame 10"


def test_lines_of_what_has_been_let_go_of_are_gone(bound):
    bound.apply(m.Scrub(frame=3))
    bound.apply(m.AttachKey(number=0, what="release"))
    bound.apply(m.Reset())
    seen = []
    for _ in range(4):
        bound.apply(m.Step())
        seen.append(bound.replica.get("", "tie 0") is not None)
    assert seen == [True, False, False, False]  # frames 2 to 5
    bound.apply(m.Reset())
    assert bound.replica.get("", "tie 0") is not None


def test_other_scenes_keep_their_numbers(bound):
    bound.apply(m.Save(path="one.toml"))
    bound.apply(m.Set(path=["objects", "bar", "transform"], value={"rotate": [0, 40, 0]}))
    turned = bound.document.attach[0]["points"]["indices"]
    bound.apply(m.Open(path="one.toml"))
    assert bound.document.attach[0]["points"]["indices"] != turned


@pytest.mark.parametrize(("one", "other"), [("rigid", "rigid"), ("rigid", "flesh"), ("flesh", "jelly")])
def test_springs_hold_as_they_are_made(session, one, other):
    """A box hangs from the middle of a bar of which the ends are pinned, or which is fixed."""
    session.apply(m.AddShape(shape="box"))
    session.apply(m.SetKind(object="bar", kind=other))
    session.apply(m.SetKind(object="box", kind=one))
    below = box_center(session.document.surface("bar").vertices) - [0, 0.5 * extent(session)[1] + 0.8, 0]
    scale = session.document.objects["box"]["transform"]["scale"]
    place = {"translate": below.tolist(), "scale": scale}
    session.apply(m.Set(path=["objects", "box", "transform"], value=place))
    if other == "rigid":
        session.apply(m.Set(path=["objects", "bar", "fixed"], value=True))
    else:
        reach = 0.4 * extent(session)[0]
        select(session, "bar", lambda x: np.abs(x[:, 0]) > reach)
        session.apply(m.Pin(object="bar", pinned=True))
    assert select(session, "box", lambda x: x[:, 1] > x[:, 1].max() - 1e-9)
    session.apply(m.Attach(object="box", to="bar", kind="spring"))
    for _ in range(30):
        session.apply(m.Step())
    bar = session.replica.get("bar", "vertices")
    low = (session.document.surface("bar").vertices if bar is None else bar)[:, 1].min()
    gap = low - session.replica.get("box", "vertices")[:, 1].max()
    assert abs(gap - 0.3) < 0.1  # as far below as at the start: falling freely it would be 4.9 m


class TestPlaces:
    def test_particles_do_not_forget_where_the_mesh_was(self, session):
        session.apply(m.Set(path=["objects", "bar", "transform"], value={"scale": 3.0, "rotate": [0, 90, 0]}))
        before = session.document.surface("bar").vertices
        session.apply(m.Make(object="bar", spacing=0.8))
        session.apply(m.Move(object="bar", translate=(5, 0, 0), scale=0.5))
        session.apply(m.SetKind(object="bar", kind="flesh"))
        again = session.document.surface("bar").vertices
        centre = box_center(before)
        assert again == pytest.approx(centre + 0.5 * (before - centre) + [5, 0, 0], abs=1e-9)

    def test_nor_does_a_mesh_of_which_all_particles_are_erased(self, session):
        session.apply(m.Set(path=["objects", "bar", "transform"], value={"rotate": [-90, 0, 0]}))
        before = session.document.surface("bar").vertices
        session.apply(m.Make(object="bar", spacing=0.3))
        session.apply(m.Erase(object="bar", centres=[(0.0, 0.0, 0.0)], radius=100.0))
        assert session.document.objects["bar"]["kind"] == "handles"
        assert (session.document.surface("bar").vertices == before).all()

    def test_bodies_and_handles_are_scaled(self, session):
        session.apply(m.AddHandle(object="bar", position=(1.0, 0.0, 0.0)))
        handle = session.replica.get("bar", "handles")[0]
        middle_of = box_center(session.document.surface("bar").vertices)
        session.apply(m.Move(object="bar", scale=4.0))
        expected = middle_of + 4 * (handle - middle_of)
        assert session.replica.get("bar", "handles")[0] == pytest.approx(expected, abs=1e-6)
        size = extent(session)
        session.apply(m.Make(object="bar", spacing=0.8))
        body = session.document.body("bar")
        session.apply(m.Move(object="bar", scale=0.25))
        small = session.document.body("bar")
        assert extent(session) == pytest.approx(0.25 * size)
        assert small.mass.sum() == pytest.approx(body.mass.sum() / 64)
        assert small.radii == pytest.approx(0.25 * body.radii)
        for scale in (1e-20, 1e18):
            with pytest.raises(InputError, match="must stay within"):
                session.apply(m.Move(object="bar", scale=scale))


def test_groups_that_share_particles_are_told_apart(session):
    session.apply(m.Make(object="bar", spacing=0.25))
    x = session.document.body("bar").positions[:, 0]
    pieces = [np.flatnonzero(x < 0.1), np.flatnonzero(x > -0.1), np.flatnonzero(x < -0.5)]
    for rows in pieces:
        session.apply(m.Select(object="bar", what="particles", indices=rows.tolist()))
        session.apply(m.Group(object="bar"))
    members, stops = session.replica.get("bar", "members"), session.replica.get("bar", "member_ends")
    found = np.split(members, stops[:-1])
    assert [sorted(group) for group in found] == [rows.tolist() for rows in pieces]


def test_meshes_without_shared_vertices_are_whole(tmp_path):
    trimesh.creation.box((1, 2, 3)).export(tmp_path / "box.stl")
    session = Session(tmp_path)
    session.apply(m.Open(path="box.stl"))
    assert session.page_state().objects[0].vertices == 36
    session.apply(m.SetKind(object="box", kind="rigid"))
    assert session.page_state().objects[0].vertices == 8
    session.apply(m.Step())
    assert session.replica.get("box", "vertices").shape == (8, 3)
    session.apply(m.Export(object="box", path="now.ply"))
    assert trimesh.load(tmp_path / "now.ply").volume == pytest.approx(6)
    session.close()


def test_an_open_mesh_can_be_rigid(tmp_path):
    box = trimesh.creation.box((1, 2, 3))
    box.update_faces(np.arange(len(box.faces)) > 0)
    box.export(tmp_path / "open.ply")
    session = Session(tmp_path)
    session.apply(m.Open(path="open.ply"))
    session.apply(m.SetKind(object="open", kind="rigid"))
    assert session.document.objects["open"]["kind"] == "rigid"
    session.apply(m.Step())
    assert session.replica.get("open", "vertices").shape == (8, 3)
    session.close()


def test_names_of_files_become_names_that_scenes_allow(tmp_path):
    write_box(tmp_path)
    (tmp_path / "bar.ply").rename(tmp_path / "ünïcode náme (1).ply")
    session = Session(tmp_path)
    session.apply(m.Open(path="ünïcode náme (1).ply"))
    assert list(session.document.objects) == ["unicode name _1"]
    session.close()
