"""Body files: all of a body comes back, to the last bit, and what is wrong with a file is said."""

import os
import pickle
import tempfile
import zipfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from particles.reference import ball_joint, mixed

from pointglue.errors import InputError, PointglueError
from pointglue.geometry.shapes import box
from pointglue.io import load_body, save_body
from pointglue.particles import OrientedBody, ParticleSolver, sheet
from pointglue.particles.authoring.skinning import Skin


def bodies():
    rng = np.random.default_rng(1)
    plain = mixed(rng, yield_strain=0.1 + rng.random(19), creep=rng.random(19), pinned=rng.random(19) < 0.3)
    vertices, faces = box((2.0, 1.0, 1.0), (4, 2, 2))
    return {
        "one": OrientedBody([[1.0, 2, 3]], radii=0.1),
        "sheet": sheet((1, 1), (3, 3), thickness=0.1, loose=True),
        "joint": ball_joint().replace(yield_speed=[1.0, np.inf]),
        "mixed": plain,
        "shown": plain.replace(visual=Skin.of(vertices, faces, plain.positions)),
    }


NOBODY = 65534  # the user who has no rights on Linux and macOS


@pytest.fixture
def folder_of_nobody():
    """A folder of a user for whom, unlike root, not everything may be read and written, or one's own."""
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        yield Path(folder)


@contextmanager
def as_nobody():
    """Be that user for a while, if root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def arrays_of(body):
    """Every array that a body has, by name."""
    found = {}
    for name in body.__dataclass_fields__:
        value = getattr(body, name)
        if name == "groups":
            found |= {f"groups[{k}]": members for k, members in enumerate(value)}
        elif name == "visual":
            found |= {n: getattr(value, n) for n in Skin.__dataclass_fields__} if value is not None else {}
        else:
            found[name] = np.asarray(value)
    return found


@pytest.mark.parametrize("name", bodies())
def test_all_comes_back_to_the_last_bit(tmp_path, name):
    body = bodies()[name]
    save_body(tmp_path / "body.npz", body)
    again = load_body(tmp_path / "body.npz")
    before, after = arrays_of(body), arrays_of(again)
    assert before.keys() == after.keys()
    for key, array in before.items():
        assert array.dtype == after[key].dtype, key
        assert array.tobytes() == after[key].tobytes(), key
        assert array.shape == after[key].shape, key
    assert (again.visual is None) == (body.visual is None)
    # And again: what was read writes the same file.
    save_body(tmp_path / "again.npz", again)
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "body.npz").read_bytes()


def test_it_goes_on_as_before(tmp_path):
    body = bodies()["shown"]
    save_body(tmp_path / "body.npz", body)
    shown = []
    for it in (body, load_body(tmp_path / "body.npz")):
        solver = ParticleSolver(it)
        shown.append(it.skin(solver.step(solver.start(), 0.1)))
    np.testing.assert_array_equal(*shown)


def test_the_bytes_do_not_know_the_day(tmp_path, monkeypatch):
    """Nor the system; and NumPy reads the file without us."""
    body = bodies()["shown"]
    save_body(tmp_path / "a.npz", body)
    monkeypatch.setattr("time.localtime", lambda *_: (2031, 5, 6, 7, 8, 9, 0, 1, 0))
    monkeypatch.setattr("sys.platform", "win32")
    save_body(tmp_path / "b.npz", body)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "a.npz", allow_pickle=False) as file:
        np.testing.assert_array_equal(file["positions"], body.positions)


class TestReading:
    @pytest.fixture
    def refused(self, tmp_path):
        """The message about a body file with some entries replaced, added or, by None, left out."""

        def refused(**changes):
            path = tmp_path / "body.npz"
            save_body(path, bodies()["shown"])
            with np.load(path) as file:
                entries = dict(file) | changes
            np.savez(path, **{name: value for name, value in entries.items() if value is not None})
            return self.message(path)

        return refused

    def message(self, path):
        with pytest.raises(InputError) as caught:
            load_body(path)
        assert str(caught.value).startswith(f"{path}: ")
        return str(caught.value).removeprefix(f"{path}: ")

    def test_missing(self, tmp_path):
        assert self.message(tmp_path / "none.npz") == "no such file"

    def test_a_folder(self, tmp_path):
        (tmp_path / "folder.npz").mkdir()
        assert self.message(tmp_path / "folder.npz") == "is a folder, not a file"

    def test_another_ending(self, tmp_path):
        assert self.message(tmp_path / "body.obj") == "must end in .npz, as body files do"
        with pytest.raises(InputError, match="path must be a file name, got int"):
            load_body(3)

    @pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 but no more"])
    def test_not_a_body(self, tmp_path, content):
        (tmp_path / "body.npz").write_bytes(content)
        assert self.message(tmp_path / "body.npz").startswith("is damaged or no body file: ")

    def test_truncated_anywhere(self, tmp_path):
        path = tmp_path / "body.npz"
        save_body(path, bodies()["mixed"])
        data = path.read_bytes()
        for length in np.linspace(0, len(data) - 1, 40).astype(int):
            path.write_bytes(data[:length])
            assert self.message(path).startswith("is damaged or no body file: ")

    def test_a_flipped_bit(self, tmp_path):
        path = tmp_path / "body.npz"
        save_body(path, bodies()["mixed"])
        data = bytearray(path.read_bytes())
        data[data.index(np.float64(bodies()["mixed"].mass[3]).tobytes())] ^= 4
        path.write_bytes(data)
        assert "Bad CRC-32 for file 'mass.npy'" in self.message(path)

    @pytest.mark.parametrize(
        "header",
        [
            "{",  # no end: the tokenizer gives up
            "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 30 + ",)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (True,)}",
            "{'descr': (), 'fortran_order': False, 'shape': ()}",
            "{[1]: 2}",
            "if 1:\n  2\n 3",
        ],
    )
    def test_a_header_that_makes_no_sense(self, tmp_path, header):
        """In an archive that is whole, so that nothing is wrong before it."""
        path, text = tmp_path / "body.npz", header.encode() + b"\n"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("version.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
        assert self.message(path).startswith("is damaged or no body file: ")

    def test_no_pickles(self, tmp_path):
        class Trap:
            def __reduce__(self):
                return (Path.touch, (tmp_path / "sprung",))

        with (
            zipfile.ZipFile(tmp_path / "body.npz", "w") as archive,
            archive.open("version.npy", "w") as entry,
        ):
            header = {"descr": "|O", "fortran_order": False, "shape": ()}
            np.lib.format.write_array_header_1_0(entry, header)
            entry.write(pickle.dumps(Trap()))
        assert "Object arrays cannot be loaded" in self.message(tmp_path / "body.npz")
        assert not (tmp_path / "sprung").exists()

    def test_version(self, refused):
        assert refused(version=None) == "is no body file: it has no version"
        assert refused(version="one") == "is no body file: it has no version"
        assert refused(version=3) == "has version 3, but this pointglue reads up to 2: update it"
        assert refused(version=0) == "has version 0, but the first is 1"

    def test_the_first_version_had_no_hulls(self, tmp_path):
        body = bodies()["shown"]
        save_body(tmp_path / "new.npz", body)
        with np.load(tmp_path / "new.npz") as file:
            entries = {name: value for name, value in file.items() if not name.startswith("hull")}
        np.savez(tmp_path / "old.npz", **entries | {"version": 1})
        read = load_body(tmp_path / "old.npz")
        np.testing.assert_array_equal(read.positions, body.positions)
        assert not any(len(hull) for hull in read.hulls)

    def test_entries(self, refused):
        assert refused(mass=None) == "has no entry 'mass'"
        assert refused(visual_links=None) == "has no entry 'visual_links'"
        assert refused(color=np.zeros(3)) == "has an entry 'color'"

    def test_values(self, refused):
        body = bodies()["shown"]
        bad = body.positions.copy()
        bad[2, 1] = np.nan
        assert refused(positions=bad) == "positions must be finite, got nan at index [2, 1]"
        assert refused(mass=np.ones(7)).startswith(
            "mass must be one number or have shape (19,), got shape (7,)"
        )
        assert refused(edges=[[0, 99]]) == "edges[0] is [0, 99], but there are 19 particles"
        assert refused(loose=np.ones(3)).startswith("loose must be True or False")
        assert refused(group_sizes=[3]).startswith("group_sizes must add up to the length of groups, 4")
        assert refused(group_sizes=[[4]]).startswith("group_sizes must add up")
        assert refused(group_sizes=[5, -1]).startswith("group_sizes must add up")
        assert refused(groups=np.array(["a"] * 4)).startswith("groups[0] must hold whole numbers")
        assert refused(groups=np.array([15, 16, 17, 19])).startswith(
            "groups[0] must hold particles from 0 to 18"
        )
        assert refused(visual_links=body.visual.links + 10).startswith("visual is linked to particle")
        assert refused(visual_weights=0 * body.visual.weights).startswith("weights[0] must add up to 1")
        assert refused(visual_faces=body.visual.faces[:, :2]).startswith("faces must have shape (m, 3)")

    @pytest.mark.skipif(os.name != "posix", reason="has no such rights")
    def test_not_allowed(self, folder_of_nobody):
        path = folder_of_nobody / "body.npz"
        save_body(path, bodies()["one"])
        load_body(path)
        path.chmod(0)
        with as_nobody():
            assert self.message(path) == "cannot be read: Permission denied"


class TestWriting:
    def test_a_missing_folder_is_made(self, tmp_path):
        save_body(tmp_path / "a" / "b" / "body.npz", bodies()["one"])
        assert len(load_body(tmp_path / "a" / "b" / "body.npz")) == 1

    def test_what_is_no_body(self, tmp_path):
        with pytest.raises(InputError, match="body must be an OrientedBody, got dict"):
            save_body(tmp_path / "body.npz", {})
        with pytest.raises(InputError, match=r"body\.json: must end in \.npz"):
            save_body(tmp_path / "body.json", bodies()["one"])
        (tmp_path / "folder.npz").mkdir()
        with pytest.raises(InputError, match=r"folder\.npz: is a folder"):
            save_body(tmp_path / "folder.npz", bodies()["one"])
        assert [p.name for p in tmp_path.iterdir()] == ["folder.npz"]

    def test_a_full_disk_leaves_the_earlier_file(self, tmp_path, fill_disk):
        path = tmp_path / "body.npz"
        save_body(path, bodies()["one"])
        before = path.read_bytes()
        fill_disk()
        with pytest.raises(PointglueError, match=r"body\.npz: cannot be written: No space left on device"):
            save_body(path, bodies()["mixed"])
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.skipif(os.name != "posix", reason="files may be of any size")
    @pytest.mark.parametrize("size", [0, 100, 5000, 9000])
    def test_no_room_for_the_file(self, tmp_path, size):
        """The system itself refuses, wherever the writing has come to."""
        import resource

        body = bodies()["shown"]  # before: it may compile kernels, and write those
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        try:
            with pytest.raises(PointglueError, match=r"body\.npz: cannot be written: File too large"):
                save_body(tmp_path / "body.npz", body)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert not list(tmp_path.iterdir())

    def test_a_folder_that_cannot_be_made(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(
            PointglueError, match=r"body\.npz: cannot be written: (Not a directory|File exists)"
        ):
            save_body(tmp_path / "file" / "body.npz", bodies()["one"])

    @pytest.mark.skipif(os.name != "posix", reason="has no such rights")
    def test_a_folder_that_is_not_ours(self, folder_of_nobody, tmp_path):
        body = bodies()["one"]
        save_body(tmp_path / "body.npz", body)
        folder_of_nobody.chmod(0o500)
        with (
            as_nobody(),
            pytest.raises(PointglueError, match=r"body\.npz: cannot be written: Permission denied"),
        ):
            save_body(folder_of_nobody / "body.npz", body)
        folder_of_nobody.chmod(0o700)
