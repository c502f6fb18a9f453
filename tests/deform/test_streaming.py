"""Clouds from file to file: the same bits as in memory, in bounded memory, and files whole or not there."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import trimesh
from oracle import random_rotation
from streams import COUNT, VERTEX, leftovers, ply, records

from pointglue.deform import HandleDeformer, streaming
from pointglue.deform.streaming import deform_cloud
from pointglue.errors import InputError

existing = streaming._existing  # opens a file to write into, which tests watch
CHUNKS = [1, 63, 64, 65, 100, 1000]
LAS = np.dtype(
    [("X", "<i4"), ("Y", "<i4"), ("Z", "<i4"), ("intensity", "<u2"), ("gps_time", "<f8"), ("flags", "u1")]
)


class TestSameBits:
    @pytest.mark.parametrize("chunk", CHUNKS)
    @pytest.mark.parametrize("dtype", ["<f8", "<f4", ">f8"])
    def test_files_of_points(self, scene, tmp_path, chunk, dtype):
        points = scene.points.astype(dtype)
        np.save(tmp_path / "a.npy", points)
        deform_cloud(tmp_path / "a.npy", tmp_path / "b.npy", scene.handles, scene.now, chunk=chunk)
        result = np.load(tmp_path / "b.npy")
        assert result.dtype == points.dtype
        assert (result == scene.moved(points).astype(dtype)).all()
        assert not leftovers(tmp_path, "a.npy", "b.npy")

    @pytest.mark.parametrize("chunk", CHUNKS)
    @pytest.mark.parametrize(
        ("count", "options"),
        [
            (1, {"radii": 0.3}),
            (2, {}),  # the rotation about the axis is open: vertices take the slow way
            (2, {"stretch": 0.5}),
            (6, {"stretch": 1.0, "falloff": 1.7, "weights": np.arange(1.0, 7.0)}),
            (6, {"radii": np.arange(6) / 10}),
        ],
    )
    def test_options(self, scene, rng, chunk, count, options):
        handles, now = scene.handles[:count], scene.now[:count]
        turned = {"rotations": [random_rotation(rng) for _ in handles]} if "radii" in options else {}
        expected = HandleDeformer(scene.points, handles, **options).deform(now, **turned)
        result = np.empty_like(scene.points)
        deform_cloud(scene.points, result, handles, now, chunk=chunk, **options, **turned)
        assert (result == expected).all()

    @pytest.mark.parametrize("chunk", [7, 65])
    def test_radii_and_stretch(self, rng, chunk):
        points, handles = rng.standard_normal((3000, 3)), rng.standard_normal((50, 3))
        options = {"radii": 0.3, "stretch": 0.5}
        expected = HandleDeformer(points, handles, **options).deform(2 * handles)
        deform_cloud(points, points, handles, 2 * handles, chunk=chunk, **options)
        assert (points == expected).all()

    def test_the_plane(self, scene, tmp_path):
        points, handles, now = scene.points[:, :2].copy(), scene.handles[:, :2], scene.now[:, :2]
        np.save(tmp_path / "a.npy", points)
        deform_cloud(tmp_path / "a.npy", tmp_path / "b.npy", handles, now, chunk=50)
        assert (np.load(tmp_path / "b.npy") == HandleDeformer(points, handles).deform(now)).all()

    def test_columns_one_after_the_other(self, scene, tmp_path):
        np.save(tmp_path / "a.npy", np.asfortranarray(scene.points))
        assert b"'fortran_order': True" in (tmp_path / "a.npy").read_bytes()
        deform_cloud(tmp_path / "a.npy", tmp_path / "b.npy", scene.handles, scene.now, chunk=100)
        assert (np.load(tmp_path / "b.npy") == scene.moved()).all()

    def test_handles_are_far_by_the_size_of_the_cloud(self, scene):
        """Not by that of a chunk, which may be small: a scanner's points come in order."""
        points = np.linspace([0.0, 0.0, 0.0], [1e4, 1.0, 1.0], COUNT)
        result = np.empty_like(points)
        deform_cloud(points, result, scene.handles, scene.now, chunk=2)
        assert (result == scene.moved(points)).all()
        with pytest.raises(InputError, match=r"handle 4 at .* times the shape's size away") as streamed:
            deform_cloud(points, result, scene.handles + 1e7 * np.eye(6, 3, -3), scene.now, chunk=2)
        with pytest.raises(InputError) as whole:
            HandleDeformer(points, scene.handles + 1e7 * np.eye(6, 3, -3))
        assert str(streamed.value) == str(whole.value)


class TestArrays:
    @pytest.mark.parametrize("mapped", [False, True])
    def test_in_place(self, scene, tmp_path, mapped):
        expected = scene.moved()
        np.save(tmp_path / "a.npy", scene.points)
        cloud = np.load(tmp_path / "a.npy", mmap_mode="r+") if mapped else scene.points
        deform_cloud(cloud, cloud, scene.handles, scene.now, chunk=100)
        assert (cloud == expected).all()

    def test_to_a_file(self, scene, tmp_path):
        deform_cloud(scene.points.tolist(), tmp_path / "b.npy", scene.handles, scene.now)
        assert (np.load(tmp_path / "b.npy") == scene.moved()).all()

    def test_from_a_file(self, scene, tmp_path):
        np.save(tmp_path / "a.npy", scene.points)
        result = np.empty((2 * COUNT, 3))[::2]
        deform_cloud(str(tmp_path / "a.npy"), result, scene.handles, scene.now, chunk=100)
        assert (result == scene.moved()).all()


class TestRecords:
    SCALE, OFFSET = [0.001, 0.002, 0.001], [5e5, 0.0, -10.0]

    @pytest.fixture
    def las(self, scene, rng):
        return records(scene.points, LAS, rng, scale=0.001)

    @pytest.mark.parametrize("chunk", CHUNKS)
    def test_whole_numbers(self, scene, las, tmp_path, chunk):
        points = np.stack([las[name] for name in "XYZ"], axis=1) * self.SCALE + self.OFFSET
        handles, now = scene.handles + self.OFFSET, scene.now + self.OFFSET
        moved = HandleDeformer(points, handles).deform(now)
        np.save(tmp_path / "a.npy", las)
        deform_cloud(
            tmp_path / "a.npy", tmp_path / "b.npy", handles, now,
            scale=self.SCALE, offset=self.OFFSET, chunk=chunk,
        )  # fmt: skip
        result = np.load(tmp_path / "b.npy")
        assert result.dtype == LAS
        for k, name in enumerate("XYZ"):
            assert (result[name] == np.rint((moved[:, k] - self.OFFSET[k]) / self.SCALE[k])).all()
            assert (result[name] != las[name]).any()
        for name in LAS.names[3:]:
            assert result[name].tobytes() == las[name].tobytes()

    def test_whole_numbers_at_rest_come_back(self, scene, las):
        result = las.copy()
        deform_cloud(las, result, scene.handles, scene.handles, scale=0.01)
        assert (result == las).all()

    @pytest.mark.parametrize("kind", ["int16", "uint8", "int64", "uint64"])
    def test_what_does_not_fit(self, kind):
        rows = np.zeros(COUNT, [(name, kind) for name in "xyz"])
        limit = np.iinfo(kind).max
        step = max(1, (limit + 1) >> 53)  # between float64 below the limit
        rows["z"][200] = limit + 1 - step
        rest, result = np.zeros((1, 3)), rows.copy()
        deform_cloud(rows, result, rest, rest, scale=1.0, chunk=30)
        assert (result == rows).all()
        message = f"source: z of point 200 becomes .*, which does not fit {kind}: choose another"
        with pytest.raises(InputError, match=message):
            deform_cloud(rows, result, rest, rest + [0.0, 0.0, step], scale=1.0, chunk=30)
        with pytest.raises(InputError, match=f"source: x of point 0 becomes -.*, which does not fit {kind}"):
            deform_cloud(rows, result, rest, rest - [2.0 * limit, 0.0, 0.0], scale=1.0, chunk=30)

    def test_float32_that_overflows(self, scene):
        points = scene.points.astype(np.float32)
        with pytest.raises(InputError, match=r"x of point 0 becomes .*e\+38, which does not fit float32"):
            deform_cloud(points, points.copy(), scene.handles, scene.now + 4e38)

    @pytest.mark.parametrize("chunk", [64, 100, 1000])
    def test_normals_turn_along(self, scene, rng, chunk):
        rows = records(scene.points, VERTEX, rng)
        for name in ("nx", "ny", "nz"):
            rows[name] = rng.standard_normal(COUNT)
        points = np.stack([rows[name].astype(float) for name in "xyz"], axis=1)
        normals = np.stack([rows[name].astype(float) for name in ("nx", "ny", "nz")], axis=1)
        deformer = HandleDeformer(points, scene.handles)
        moved, turned = deformer.deform(scene.now), deformer.at(scene.now).normals(normals)
        result = rows.copy()
        deform_cloud(rows, result, scene.handles, scene.now, chunk=chunk)
        for k, name in enumerate("xyz"):
            assert (result[name] == moved[:, k].astype(result.dtype[name])).all()
            assert (result["n" + name] == turned[:, k].astype(result.dtype["n" + name])).all()
        assert (result["red"] == rows["red"]).all()


class TestPly:
    @pytest.fixture
    def rows(self, scene, rng):
        rows = records(scene.points, VERTEX, rng)
        for name in ("nx", "ny", "nz"):
            rows[name] = rng.standard_normal(COUNT)
        return rows

    @pytest.mark.parametrize("order", ["<", ">"])
    @pytest.mark.parametrize("options", [{}, {"lists": False}, {"before": b"\x01\x02\x03"}, {"end": "\r\n"}])
    def test_all_but_points_and_normals_is_kept(self, scene, rows, tmp_path, order, options):
        (tmp_path / "a.ply").write_bytes(ply(rows, order, **options))
        deform_cloud(tmp_path / "a.ply", tmp_path / "b.ply", scene.handles, scene.now, chunk=100)
        expected = rows.copy()
        deform_cloud(rows, expected, scene.handles, scene.now)
        assert (expected["x"] != rows["x"]).any()
        assert (tmp_path / "b.ply").read_bytes() == ply(expected, order, **options)

    def test_it_has_its_size_from_the_beginning(self, scene, rows, tmp_path, monkeypatch):
        """Workers on other machines must not take bytes between their own for the end of the file."""
        sizes = []

        def write(path, flags):
            sizes.append(Path(path).stat().st_size)
            return existing(path, flags)

        monkeypatch.setattr(streaming, "_existing", write)
        content = ply(rows, lists=False)
        (tmp_path / "a.ply").write_bytes(content)
        deform_cloud(tmp_path / "a.ply", tmp_path / "b.ply", scene.handles, scene.now, chunk=100)
        assert sizes == 4 * [len(content)]

    def test_others_read_it(self, scene, tmp_path):
        mesh = trimesh.creation.icosphere(3)
        mesh.export(tmp_path / "a.ply")
        deform_cloud(tmp_path / "a.ply", tmp_path / "b.ply", scene.handles, scene.now, chunk=100)
        result = trimesh.load(tmp_path / "b.ply", process=False)
        points = mesh.vertices.astype(np.float32)  # as the file has them
        assert (result.vertices == scene.moved(points).astype(np.float32)).all()
        assert (result.faces == mesh.faces).all()

    def test_vertices_alone(self, scene, rows, tmp_path):
        (tmp_path / "a.ply").write_bytes(ply(rows))
        deform_cloud(tmp_path / "a.ply", tmp_path / "b.npy", scene.handles, scene.now, chunk=100)
        deform_cloud(rows, rows, scene.handles, scene.now)
        assert (np.load(tmp_path / "b.npy") == rows).all()

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ((b"ply\n", b"png\n"), "is no PLY file"),
            ((b"binary_little_endian", b"ascii"), "is an ascii PLY file, and must be binary. Convert it"),
            ((b"little", b"middle"), "the header has a line .*middle"),
            ((b"property float x", b"property float32 w"), "must have fields x, y, z, once each, got w, y"),
            ((b"property float nx", b"property int nx"), "nx must be float32 or float64 to turn, got int32"),
            ((b"property float y", b"property float x"), "cannot read .*a.ply.*'x'"),
            ((b"property float x", b"property half x"), "the header has a line b'property half x"),
            ((b"vertex 333", b"vertex -1"), "the header has a line b'element vertex -1"),
            ((b"vertex 333", b"vertex 3330"), "is cut off: it has \\d+ bytes, and 3330 of vertex end at"),
            ((b"vertex 333", b"vertex 0"), "a.ply holds no points"),
            ((b"element vertex", b"element vertices"), "has no element vertex"),
            ((b"end_header", b"end_heather"), "the header has a line b'end_heather"),
            ((b"uchar red", b"list uchar int red"), "element vertex, with lists, must not come before or be"),
        ],
    )  # fmt: skip
    def test_files_that_are_wrong(self, scene, rows, tmp_path, change, message):
        content = ply(rows, lists=False)
        assert change[0] in content
        (tmp_path / "a.ply").write_bytes(content.replace(*change, 1))
        with pytest.raises(InputError, match=message) as raised:
            deform_cloud(tmp_path / "a.ply", tmp_path / "b.ply", scene.handles, scene.now)
        assert str(tmp_path / "a.ply") in str(raised.value)
        assert not leftovers(tmp_path, "a.ply")

    def test_a_header_without_end(self, scene, tmp_path):
        (tmp_path / "a.ply").write_bytes(b"ply\nformat binary_little_endian 1.0\nelement")
        with pytest.raises(InputError, match="the header has no end"):
            deform_cloud(tmp_path / "a.ply", tmp_path / "b.ply", scene.handles, scene.now)


class TestWrongArguments:
    @pytest.mark.parametrize(
        ("source", "message"),
        [
            (np.zeros((5, 4)), "source must hold points .* got shape \\(5, 4\\) of float64"),
            (np.zeros((5, 3), int), "source must hold points .* got shape \\(5, 3\\) of int64"),
            (np.zeros(3), "source must hold points .* got shape \\(3,\\)"),
            (np.zeros((5, 3), np.float16), "of float16"),
            (np.zeros((0, 3)), "source holds no points"),
            (np.ma.zeros((5, 3)), "source must not be a masked array"),
            ("a.las", "source must be an array or end in .npy or .ply, got 'a.las'"),
            (np.zeros(5, [("x", float), ("y", float)]), "source must have fields x, y, z, .* got x, y"),
            (np.zeros(5, [(n, float) for n in "xXyz"]), "x, y, z, once each, got x, X, y, z"),
            (np.zeros((5, 1), [(n, float) for n in "xyz"]), "fields x, y, z, got shape \\(5, 1\\) of"),
            (np.zeros(5, [("x", int), ("y", int), ("z", float)]), "all whole numbers, got int64, int64, fl"),
            (np.zeros(5, [(n, float, 2) for n in "xyz"]), "x, y, z must all be float32 or float64"),
            (np.zeros(5, [(n, int) for n in "xyz"]), "scale is missing: the coord.* of .*source are whole"),
        ],
    )  # fmt: skip
    def test_sources(self, scene, tmp_path, source, message):
        with pytest.raises(InputError, match=message):
            deform_cloud(source, tmp_path / "b.npy", scene.handles, scene.now)
        if isinstance(source, np.ndarray) and not isinstance(source, np.ma.MaskedArray):
            np.save(tmp_path / "a.npy", source)
            with pytest.raises(InputError, match=message.replace("source", "a.npy")):
                deform_cloud(tmp_path / "a.npy", tmp_path / "b.npy", scene.handles, scene.now)
        assert not leftovers(tmp_path, "a.npy")

    def test_files_that_cannot_be_read(self, scene, tmp_path):
        source = tmp_path / "a.npy"

        def message():
            with pytest.raises(
                InputError, match=re.escape(f"source: cannot read {str(source)!r}: ")
            ) as raised:
                deform_cloud(source, tmp_path / "b.npy", scene.handles, scene.now)
            return str(raised.value)

        assert "No such file" in message()
        source.write_bytes(b"something else")
        assert "magic string" in message()
        np.save(source, scene.points)
        source.write_bytes(source.read_bytes()[:-1])
        assert "greater than file size" in message()
        np.save(source, np.array([None, 1]), allow_pickle=True)
        assert "Python objects" in message()

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            ("b.ply", "target must end in .npy, got '.*b.ply'"),
            ("none/b.npy", "target must be a file in a directory that is there, got '.*none/b.npy'"),
            ("folder.npy", "target must be a file in a directory that is there"),
            (3, "target must be a file name or an array, got int"),
            (np.empty((COUNT, 2)), "target must be writeable and like the source, shape \\(333, 3\\)"),
            (np.empty((COUNT, 3), np.float32), "got shape \\(333, 3\\) of float32"),
            (np.broadcast_to(0.0, (COUNT, 3)), "target must be writeable"),
        ],
    )  # fmt: skip
    def test_targets(self, scene, tmp_path, target, message):
        (tmp_path / "folder.npy").mkdir()
        with pytest.raises(InputError, match=message):
            deform_cloud(
                scene.points,
                tmp_path / target if isinstance(target, str) else target,
                scene.handles,
                scene.now,
            )
        assert not leftovers(tmp_path, "folder.npy")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"chunk": 0}, "chunk must be a whole number of at least 1, got 0"),
            ({"chunk": 1e5}, "chunk must be a whole number of at least 1, got 100000.0"),
            ({"scale": 0.01}, "scale and offset are for whole numbers, not for those of source"),
            ({"falloff": -1.0}, "falloff must be a finite number above 0"),
            ({"rotations": np.eye(3)}, "rotations are for handles with radii"),
            ({"client": "localhost"}, "client must be a synchronous dask.distributed.Client, got 'loc"),
        ],
    )  # fmt: skip
    def test_options(self, scene, tmp_path, options, message):
        with pytest.raises(InputError, match=message):
            deform_cloud(scene.points, tmp_path / "b.npy", scene.handles, scene.now, **options)
        assert not leftovers(tmp_path)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"scale": [1.0, 2.0]}, "scale must be one number, or one each for x, y, z, got shape \\(2,\\)"),
            ({"scale": [1.0, 0.0, 1.0]}, "scale must be positive"),
            ({"scale": 1.0, "offset": np.nan}, "offset must be finite"),
        ],
    )
    def test_scales(self, scene, options, message):
        rows = np.zeros(5, LAS)
        with pytest.raises(InputError, match=message):
            deform_cloud(rows, rows, scene.handles, scene.now, **options)

    @pytest.mark.parametrize("chunk", CHUNKS)
    def test_points_that_are_not_finite(self, scene, tmp_path, chunk):
        scene.points[[222, 300], 1] = np.nan, np.inf
        np.save(tmp_path / "a.npy", scene.points)
        with pytest.raises(InputError, match=r"a\.npy: point 222 must be finite, got \[.*, nan, .*\]"):
            deform_cloud(tmp_path / "a.npy", tmp_path / "b.npy", scene.handles, scene.now, chunk=chunk)
        assert not leftovers(tmp_path, "a.npy")


class TestWholeOrNotAtAll:
    @pytest.fixture
    def files(self, scene, tmp_path):
        np.save(tmp_path / "a.npy", scene.points)
        (tmp_path / "b.npy").write_bytes(b"from before")
        return tmp_path / "a.npy", tmp_path / "b.npy"

    @pytest.mark.parametrize(
        "error", [KeyboardInterrupt(), MemoryError(), OSError(errno.ENOSPC, "disk full")]
    )
    def test_a_failure_on_the_way(self, scene, files, monkeypatch, error):
        written = []

        def write(path, flags):
            written.append(Path(path).exists() and files[1].read_bytes())
            if len(written) == 3:
                raise error
            return existing(path, flags)

        monkeypatch.setattr(streaming, "_existing", write)
        with pytest.raises(type(error)) as raised:
            deform_cloud(*files, scene.handles, scene.now, chunk=100)
        assert written == 3 * [b"from before"]
        assert files[1].read_bytes() == b"from before"
        assert not leftovers(files[0].parent, "a.npy", "b.npy")
        if isinstance(error, OSError):
            assert raised.value.errno == errno.ENOSPC
            assert raised.value.filename == str(files[1])

    @pytest.mark.parametrize("suffix", [".npy", ".ply"])
    def test_a_file_that_may_not_grow(self, scene, tmp_path, suffix):
        """By a limit of the system's, so that it is a true failure to write."""
        resource = pytest.importorskip("resource")
        (tmp_path / "a.ply").write_bytes(ply(scene.points.view([(n, "f8") for n in "xyz"])[:, 0]))
        np.save(tmp_path / "a.npy", scene.points)
        source, target = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (source.stat().st_size - 100, limit[1]))
        try:
            with pytest.raises(OSError, match="File too large") as raised:
                deform_cloud(source, target, scene.handles, scene.now, chunk=100)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert raised.value.filename == str(target)
        assert not leftovers(tmp_path, "a.ply", "a.npy")

    def test_onto_itself(self, scene, files):
        deform_cloud(files[0], files[0], scene.handles, scene.now, chunk=100)
        assert (np.load(files[0]) == scene.moved()).all()
        assert not leftovers(files[0].parent, "a.npy", "b.npy")

    def test_progress_is_for_somebody_who_looks(self, scene, files, capsys, monkeypatch):
        deform_cloud(*files, scene.handles, scene.now, progress=True)
        assert capsys.readouterr() == ("", "")
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
        deform_cloud(*files, scene.handles, scene.now, progress=True)
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "checking points" in shown.err
        assert "deforming points" in shown.err
        assert (np.load(files[1]) == scene.moved()).all()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is measured by /proc")
def test_memory_is_that_of_a_chunk(tmp_path):
    """A file of 72 MB within 24 MB. Read or deformed as a whole it would not do: so the measure is one."""
    code = """if True:
        import re, sys
        import numpy as np
        from pointglue.deform.streaming import deform_cloud

        def peak():  # of this program: ru_maxrss would be that of its parent
            return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1e3

        handles = np.eye(3)
        small = np.zeros((10_000, 3))
        deform_cloud(small, small, handles, 2 * handles)
        before = peak()
        deform_cloud("a.npy", "b.npy", handles, 2 * handles, chunk=10_000)
        print(peak() - before)
        deform_cloud("a.npy", "b.npy", handles, 2 * handles, chunk=1_000_000)
        print(peak() - before)
        print("dask" in sys.modules)
    """
    count = 3_000_000
    cloud = np.lib.format.open_memmap(tmp_path / "a.npy", mode="w+", dtype=np.float64, shape=(count, 3))
    cloud[:, 0] = np.arange(count) / count
    path = os.pathsep.join([str(Path(streaming.__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    chunked, whole, dask = done.stdout.split()
    assert float(chunked) < 24 < 72 < float(whole)
    assert dask == "False"
    assert np.load(tmp_path / "b.npy", mmap_mode="r").shape == (count, 3)


def test_overlapping_arrays_are_refused(rng):
    big = rng.random((120, 3))
    handles = np.eye(3)
    for source, target in ((big[:100], big[10:110]), (big, big[::-1])):
        with pytest.raises(InputError, match="target overlaps the source"):
            deform_cloud(source, target, handles, handles + 0.1, chunk=10)
