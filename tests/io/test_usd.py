"""USD files, read by usd-core."""

import sys

import numpy as np
import pytest
from pxr import Usd, UsdGeom, UsdShade, UsdValidation
from small_runs import frame, stored_objects, write_run

from pointglue.errors import InputError, MissingDependencyError, PointglueError
from pointglue.io import FrameStore, StoredObject, write_usd
from pointglue.io.frame_records import Frame

FLOAT32 = 1e-7  # USD points have single precision; coordinates are about 1


@pytest.fixture
def stage(tmp_path):
    store = write_run(tmp_path, range(5, 9), rate=23.976)
    path = write_usd(store)
    assert path == tmp_path / "animation.usdc"
    return Usd.Stage.Open(str(path))


def test_the_stage(stage):
    assert stage.GetTimeCodesPerSecond() == stage.GetFramesPerSecond() == 23.976
    assert (stage.GetStartTimeCode(), stage.GetEndTimeCode()) == (5, 8)
    assert UsdGeom.GetStageUpAxis(stage) == "Y"
    assert UsdGeom.GetStageMetersPerUnit(stage) == 1
    assert stage.GetDefaultPrim().GetPath() == "/World"
    kinds = {prim.GetName(): prim.GetTypeName() for prim in stage.GetDefaultPrim().GetChildren()}
    assert kinds == {"cloth": "Mesh", "box": "Mesh", "rope": "BasisCurves", "dust": "Points", "stone": "Mesh"}


def world_points(stage, name, time):
    """Points of a prim in the world, as a renderer has them."""
    prim = stage.GetPrimAtPath(f"/World/{name}")
    local = np.array(UsdGeom.PointBased(prim).GetPointsAttr().Get(time), dtype=float)
    matrix = np.array(UsdGeom.Imageable(prim).ComputeLocalToWorldTransform(time))
    return (np.c_[local, np.ones(len(local))] @ matrix)[:, :3]


def test_everything_is_where_the_frames_say(stage, tmp_path):
    store = FrameStore.open(tmp_path)
    for number in range(5, 9):
        points = store.positions(store.read(number))
        for name in ("cloth", "box", "dust", "stone"):
            assert world_points(stage, name, number) == pytest.approx(points[name], abs=4 * FLOAT32)
        # Two lines: through the first three points, and from the fourth to the fifth.
        assert world_points(stage, "rope", number) == pytest.approx(points["rope"], abs=FLOAT32)
    samples = {look.name: UsdGeom.PointBased(stage.GetPrimAtPath(f"/World/{look.name}")).GetPointsAttr()
               for look in stored_objects()}  # fmt: skip
    assert samples["cloth"].GetTimeSamples() == [5, 6, 7, 8]
    assert samples["box"].GetTimeSamples() == samples["stone"].GetTimeSamples() == []
    assert np.array(samples["cloth"].Get()) == pytest.approx(stored_objects()[0].rest)


def test_shapes(stage):
    cloth = UsdGeom.Mesh(stage.GetPrimAtPath("/World/cloth"))
    assert list(cloth.GetFaceVertexCountsAttr().Get()) == [3, 3]
    assert list(cloth.GetFaceVertexIndicesAttr().Get()) == [0, 2, 1, 0, 3, 2]
    assert cloth.GetSubdivisionSchemeAttr().Get() == "none"
    assert cloth.GetDoubleSidedAttr().Get()
    rope = UsdGeom.BasisCurves(stage.GetPrimAtPath("/World/rope"))
    assert list(rope.GetCurveVertexCountsAttr().Get()) == [3, 2]
    assert rope.GetTypeAttr().Get() == "linear"
    assert list(rope.GetWidthsAttr().Get()) == pytest.approx([0.04])


def test_extents_hold_the_points_and_their_radii(stage):
    dust = UsdGeom.Points(stage.GetPrimAtPath("/World/dust"))
    points = frame(6).points["dust"]
    expected = [points.min(axis=0) - 0.03, points.max(axis=0) + 0.03]
    assert np.array(dust.GetExtentAttr().Get(6)) == pytest.approx(np.array(expected), abs=FLOAT32)
    computed = UsdGeom.Points.ComputeExtent(dust.GetPointsAttr().Get(6), [0.06, 0.06])
    assert np.array(dust.GetExtentAttr().Get(6)) == pytest.approx(np.array(computed), abs=FLOAT32)


def test_colors_are_linear_light(stage):
    stone = stage.GetPrimAtPath("/World/stone")
    linear = [0.2140411] * 3  # of 0.5 in sRGB (IEC 61966-2-1)
    assert np.array(UsdGeom.Gprim(stone).GetDisplayColorAttr().Get()[0]) == pytest.approx(linear)
    material, _ = UsdShade.MaterialBindingAPI(stone).ComputeBoundMaterial()
    shader = UsdShade.Shader(material.ComputeSurfaceSource()[0])
    assert np.array(shader.GetInput("diffuseColor").Get()) == pytest.approx(linear)


def test_the_checkers_of_usd_have_no_complaints(stage):
    validators = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    assert len(validators) > 20
    complaints = UsdValidation.ValidationContext(validators).Validate(stage)
    assert [complaint.GetErrorAsString() for complaint in complaints] == []


def test_names_that_usd_does_not_know(tmp_path):
    names = ["left arm", "left_arm", "2nd", "Bär"]
    objects = [StoredObject(name=name, rest=np.eye(3), motion="still") for name in names]
    with FrameStore.create(tmp_path, objects, rate=24) as store:
        store.add(Frame(number=0, time=0.0))
    stage = Usd.Stage.Open(str(write_usd(store)))
    prims = stage.GetDefaultPrim().GetChildren()
    assert [prim.GetDisplayName() for prim in prims] == names
    assert [prim.GetName() for prim in prims] == ["left_arm", "left_arm_", "_2nd", "B_r"]


def test_the_same_run_gives_the_same_bytes(tmp_path):
    store = write_run(tmp_path)
    one, two = (write_usd(store, tmp_path / "usd" / name) for name in ("a.usdc", "b.usdc"))
    assert one.read_bytes() == two.read_bytes()
    assert not list(tmp_path.rglob(".*-*"))


def test_long_runs_are_saved_piece_by_piece(tmp_path, monkeypatch):
    store = write_run(tmp_path, range(1, 9))
    whole = write_usd(store, tmp_path / "whole.usdc")
    monkeypatch.setattr("pointglue.io.usd.MAX_UNSAVED", 200)
    pieces = write_usd(store, tmp_path / "pieces.usdc")
    assert pieces.read_bytes() != whole.read_bytes()  # else it was not
    texts = [Usd.Stage.Open(str(path)).ExportToString(addSourceFileComment=False) for path in (whole, pieces)]
    assert texts[0] == texts[1]


def test_as_text(tmp_path):
    text = write_usd(write_run(tmp_path), tmp_path / "a.usda").read_text()
    assert text.startswith("#usda 1.0")
    assert 'def Mesh "cloth"' in text


def test_without_usd(tmp_path, monkeypatch):
    store = write_run(tmp_path)
    monkeypatch.setitem(sys.modules, "pxr", None)
    with pytest.raises(
        MissingDependencyError, match=r"USD files need usd-core: pip install 'pointglue\[usd\]'"
    ):
        write_usd(store)


def test_what_is_wrong(tmp_path):
    store = write_run(tmp_path, [1, 2, 3])
    with pytest.raises(InputError, match=r"a.obj: must end in .usdc, .usda, .usd"):
        write_usd(store, "a.obj")
    (tmp_path / "a.usdc").mkdir()
    with pytest.raises(InputError, match=r"a.usdc: is a folder, not a file"):
        write_usd(store, tmp_path / "a.usdc")
    (tmp_path / "file").touch()
    with pytest.raises(
        PointglueError, match=r"file/b.usdc: cannot be written: (Not a directory|File exists)"
    ):
        write_usd(store, tmp_path / "file" / "b.usdc")
    target = write_usd(store)
    before = target.read_bytes()
    store.path(2).write_bytes(b"")
    with pytest.raises(InputError, match=r"frame_0002.npz: is damaged"):
        write_usd(store)
    assert target.read_bytes() == before
    for number in (1, 2, 3):
        store.path(number).unlink()
    with pytest.raises(InputError, match="has no frames to write"):
        write_usd(store)


def test_a_small_disk_runs_full(small_disk, tmp_path):
    rest = np.random.default_rng(0).random((5000, 3))
    with FrameStore.create(tmp_path / "run", [StoredObject(name="a", rest=rest)], rate=24) as store:
        for number in range(30):
            store.add(Frame(number=number, time=0.0, points={"a": rest + number}))
    target = small_disk / "a.usdc"
    target.write_bytes(b"earlier")
    with pytest.raises(PointglueError, match=r"a.usdc: cannot be written: No space left on device"):
        write_usd(store, target)
    assert target.read_bytes() == b"earlier"
    assert list(small_disk.iterdir()) == [target]
