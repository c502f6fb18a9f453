"""Archives of arrays: what others read in them, and what has no place there."""

import io
import zipfile

import numpy as np
import pytest

from pointglue.errors import InputError
from pointglue.io import archives
from pointglue.io.archives import is_complete

ARRAYS = {
    "text": np.array("größer"),
    "texts": np.array(["a", "bcd"]),
    "number": np.array(0.1),
    "points/größe": np.arange(12.0).reshape(4, 3),
    "single": np.linspace(0, 1, 7, dtype=np.float32),
    "columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(20)[::3],
    "swapped": np.arange(3.0).astype(">f8"),
    "complex": np.arange(3) * 1j,
    "true": np.array([True, False]),
    "none": np.empty((0, 3)),
}


def packed(arrays):
    return b"".join(archives.pack_archive(arrays))


def test_numpy_and_zipfile_read_them():
    content = packed(ARRAYS)
    with np.load(io.BytesIO(content)) as found:
        assert list(found) == list(ARRAYS)
        for name, array in ARRAYS.items():
            assert found[name].dtype == array.dtype
            assert found[name].shape == array.shape
            np.testing.assert_array_equal(found[name], array)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        assert all(entry.date_time == (1980, 1, 1, 0, 0, 0) for entry in archive.infolist())
        assert all(entry.compress_type == zipfile.ZIP_STORED for entry in archive.infolist())
    assert packed(ARRAYS) == content


def test_templates_are_filled_in_again_and_again():
    arrays = {"points": np.zeros((4, 3), np.float32), "turn": np.zeros((2, 2))}
    template = archives.ArchiveTemplate(arrays)
    for k in range(3):
        arrays["points"][:], arrays["turn"][:] = k, -k
        about = np.array(f"frame {10**k}")  # of another length each time
        content = b"".join(template.chunks({"about": about}))
        assert content == packed(arrays | {"about": about})
        with np.load(io.BytesIO(content)) as found:
            assert (found["points"] == k).all()
            assert str(found["about"]) == f"frame {10**k}"


def test_no_arrays():
    with np.load(io.BytesIO(packed({}))) as found:
        assert not list(found)


def test_what_has_no_place(monkeypatch, tmp_path):
    with pytest.raises(InputError, match="a must hold numbers or texts, got dtype object"):
        packed({"a": np.array([None, {}])})
    monkeypatch.setattr(archives, "MAX_BYTES", 1000)
    with pytest.raises(
        InputError, match=r"arrays must take less than 1e\+03 bytes in all, got more with 'b'"
    ):
        packed({"a": np.zeros(50), "b": np.zeros(50)})
    with pytest.raises(InputError, match=r"large\.npz: arrays must take less than .*, got more with 'b'"):
        archives.write_archive(tmp_path / "large.npz", {"a": np.zeros(50), "b": np.zeros(50)})
    assert not list(tmp_path.iterdir())


def test_files_cut_short_are_recognised_by_their_end(tmp_path):
    content, path = packed(ARRAYS), tmp_path / "cut.npz"
    assert not is_complete(path)
    for length in range(len(content)):
        path.write_bytes(content[:length])
        assert not is_complete(path)
    for other in (bytes(len(content)), content[:100] + content[101:], content[:100] + b"0" + content[100:]):
        path.write_bytes(other)
        assert not is_complete(path)
    path.write_bytes(content)
    assert is_complete(path)
    with zipfile.ZipFile(path, "w") as archive:  # as earlier versions wrote them
        archive.writestr("a.npy", b"1")
    assert is_complete(path)


def test_a_shape_that_has_become_smaller_is_damage(tmp_path):
    """Reading ends before the entry does then, and with it before its checksum is looked at."""
    content, path = packed({"points": np.zeros((4000, 3))}), tmp_path / "damaged.npz"
    path.write_bytes(content.replace(b"(4000, 3)", b"(2000, 3)"))
    with pytest.raises(InputError, match=r"damaged\.npz: is damaged or no frame: Bad CRC-32"):
        archives.read_archive(path, "frame")


def test_more_parts_than_systems_write_in_one_go(tmp_path):
    arrays = {f"array {k}": np.full(3, k) for k in range(1000)}
    archives.write_archive(tmp_path / "many.npz", arrays)
    with np.load(tmp_path / "many.npz") as found:
        assert {name: array.tolist() for name, array in found.items()} == {
            k: v.tolist() for k, v in arrays.items()
        }
