"""Numbered mesh files, read by trimesh."""

import numpy as np
import pytest
import trimesh
from small_runs import stored_objects, write_run

from pointglue.errors import InputError, PointglueError
from pointglue.io import FrameStore, StoredObject, write_sequence
from pointglue.io.frame_records import Frame

FLOAT32 = 1e-7  # PLY files have single precision; coordinates are about 1


def test_ply_files_are_what_the_frames_are(tmp_path):
    store = write_run(tmp_path, [7, 8, 12])
    files = write_sequence(store)
    assert [str(file.relative_to(tmp_path)) for file in files] == [
        "ply/frame_0007.ply",
        "ply/frame_0008.ply",
        "ply/frame_0012.ply",
    ]
    for file, frame in zip(files, store, strict=True):
        mesh = trimesh.load(file, process=False)
        points = store.positions(frame)
        assert mesh.vertices == pytest.approx(np.concatenate(list(points.values())), abs=FLOAT32)
        starts = np.cumsum([0, *(len(part) for part in points.values())])
        faces = [
            look.faces + start
            for look, start in zip(stored_objects(), starts, strict=False)
            if look.faces is not None
        ]
        assert (mesh.faces == np.concatenate(faces)).all()
        colors = np.repeat(
            [look.color for look in stored_objects()], [len(look.rest) for look in stored_objects()], axis=0
        )
        assert mesh.visual.vertex_colors[:, :3] == pytest.approx(255 * colors, abs=0.5)


def test_obj_files_have_the_names(tmp_path):
    store = write_run(tmp_path)
    file = write_sequence(store, tmp_path / "elsewhere", format="obj")[1]
    assert file == tmp_path / "elsewhere" / "frame_0002.obj"
    assert [line[2:] for line in file.read_text().splitlines() if line[0] == "o"] == [
        "cloth", "box", "rope", "dust", "stone",
    ]  # fmt: skip
    mesh = trimesh.load(file, process=False, maintain_order=True)
    points = np.concatenate(list(store.positions(store.read(2)).values()))
    assert mesh.vertices == pytest.approx(points, abs=1e-9)  # ten digits
    assert len(mesh.faces) == sum(len(look.faces) for look in stored_objects() if look.faces is not None)


@pytest.mark.parametrize("format", ["ply", "obj"])
def test_points_alone(tmp_path, format):
    rest = np.random.default_rng(0).random((5, 3))
    with FrameStore.create(tmp_path, [StoredObject(name="a", rest=rest)], rate=24) as store:
        store.add(Frame(number=0, time=0.0, points={"a": rest}))
    cloud = trimesh.load(write_sequence(store, format=format)[0])
    assert cloud.vertices == pytest.approx(rest, abs=FLOAT32)


def test_the_same_run_gives_the_same_bytes_and_old_files_go(tmp_path):
    store = write_run(tmp_path, range(1, 6))
    first = [file.read_bytes() for file in write_sequence(store)]
    (tmp_path / "ply" / "notes.txt").write_text("mine")
    store.path(5).unlink()
    assert [file.read_bytes() for file in write_sequence(store)] == first[:4]
    assert sorted(file.name for file in (tmp_path / "ply").iterdir()) == [
        "frame_0001.ply", "frame_0002.ply", "frame_0003.ply", "frame_0004.ply", "notes.txt",
    ]  # fmt: skip


def test_files_of_others_are_left_alone(tmp_path):
    store, others = write_run(tmp_path / "run", range(1, 3)), tmp_path / "shared"
    others.mkdir()
    (others / "frame_0009.ply").write_text("somebody else's")
    write_sequence(store, others)
    names = ["frame_0001.ply", "frame_0002.ply", "frame_0009.ply"]
    assert sorted(file.name for file in others.iterdir()) == names
    assert (others / "frame_0009.ply").read_text() == "somebody else's"


def test_a_small_disk_runs_full(small_disk, tmp_path):
    rest = np.random.default_rng(0).random((10_000, 3))
    with FrameStore.create(tmp_path / "run", [StoredObject(name="a", rest=rest)], rate=24) as store:
        for number in range(12):
            store.add(Frame(number=number, time=0.0, points={"a": rest}))
    with pytest.raises(PointglueError, match=r"\.ply: cannot be written: No space left on device"):
        write_sequence(store, small_disk)
    written = list(small_disk.iterdir())
    assert written
    assert all(len(trimesh.load(file).vertices) == 10_000 for file in written)


def test_what_is_wrong(tmp_path):
    store = write_run(tmp_path, [])
    with pytest.raises(InputError, match="has no frames to write"):
        write_sequence(store)
    with pytest.raises(InputError, match=r"format must be .ply. or .obj., got 'stl'"):
        write_sequence(store, format="stl")
