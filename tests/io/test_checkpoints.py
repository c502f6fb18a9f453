"""Checkpoints: all comes back to the last bit, and damage never passes for a state."""

import errno
import os

import numpy as np
import pytest

from pointglue.errors import InputError, PointglueError, PointglueWarning
from pointglue.io import load_checkpoint, save_checkpoint

ARRAYS = {
    "positions": np.random.default_rng(0).standard_normal((7, 3)),
    "float32": np.float32([0.1, np.inf]),
    "strange": np.array([-0.0, np.nan, 5e-324]),
    "columns": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "every other": np.arange(10)[::2],
    "flags": np.array([True, False]),
    "none": np.empty((0, 3)),
    "body/faces": np.array([[0, 1, 2]], np.int32),
    "wave": np.array([1 + 2j]),
    "time": 0.1,
    "frame": 12,
    "text": "Bär",
}


def test_all_comes_back_to_the_last_bit(tmp_path):
    path = tmp_path / "new" / "state.npz"
    save_checkpoint(path, ARRAYS, scene_hash="abc")
    again = load_checkpoint(path, scene_hash="abc")
    assert list(again) == list(ARRAYS)
    for name, value in ARRAYS.items():
        array = np.asarray(value)
        assert (again[name].dtype, again[name].shape) == (array.dtype, array.shape), name
        assert again[name].tobytes() == array.tobytes(), name
    assert (again["frame"].item(), again["time"].item(), again["text"].item()) == (12, 0.1, "Bär")
    save_checkpoint(tmp_path / "again.npz", again, scene_hash="abc")
    assert path.read_bytes() == (tmp_path / "again.npz").read_bytes()


def test_there_is_none_yet(tmp_path):
    assert load_checkpoint(tmp_path / "state.npz", scene_hash="") is None


def three(tmp_path):
    """The file after three checkpoints: the third, beside it the second."""
    for k in (1, 2, 3):
        save_checkpoint(tmp_path / "state.npz", {"k": k, "x": np.full(1000, float(k))}, scene_hash="abc")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state.npz", "state.previous.npz"]
    return tmp_path / "state.npz"


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99, "gone"])
def test_if_the_last_is_cut_short_the_one_before_is_taken(tmp_path, share):
    path = three(tmp_path)
    content = path.read_bytes()
    if share == "gone":  # killed just before the new file took its place
        path.unlink()
        assert load_checkpoint(path, scene_hash="abc")["k"] == 2
        return
    path.write_bytes(content[: int(share * len(content))])
    with pytest.warns(
        PointglueWarning, match=r"state.npz: is damaged or no checkpoint: .*; going on from the"
    ):
        found = load_checkpoint(path, scene_hash="abc")
    assert set(found) == {"k", "x"}
    assert found["k"] == 2
    assert (found["x"] == 2.0).all()
    with (
        pytest.warns(PointglueWarning, match="going on from the checkpoint before"),
        pytest.raises(InputError, match=r"state\.previous\.npz: is of another scene"),
    ):
        load_checkpoint(path, scene_hash="xyz")
    (tmp_path / "state.previous.npz").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"state.npz: is damaged or no checkpoint"):
        load_checkpoint(path, scene_hash="abc")


def test_no_flipped_bit_goes_unnoticed(tmp_path):
    """Every byte of a file, one after the other: either it is found, or it does not matter."""
    path = tmp_path / "state.npz"
    arrays = {"x": np.arange(4.0), "k": 7}
    save_checkpoint(path, arrays, scene_hash="abc")
    content, found = path.read_bytes(), 0
    for k in range(len(content)):
        path.write_bytes(content[:k] + bytes([content[k] ^ 1 << k % 8]) + content[k + 1 :])
        try:
            again = load_checkpoint(path, scene_hash="abc")
        except InputError:
            found += 1
        else:
            assert {name: array.tobytes() for name, array in again.items()} == {
                name: np.asarray(value).tobytes() for name, value in arrays.items()
            }
    assert found > len(content) / 2


@pytest.mark.parametrize("wrong", ["another array", "no checksum", "no scene"])
def test_a_whole_archive_that_is_no_checkpoint_is_refused(tmp_path, wrong):
    """The sums that archives have of their own are right in what others have written."""
    path = tmp_path / "state.npz"
    save_checkpoint(path, {"x": np.arange(4.0)}, scene_hash="abc")
    with np.load(path) as opened:
        arrays = dict(opened)
    if wrong == "another array":
        arrays["x"][2] += 1e-9
    else:
        del arrays["checksum" if wrong == "no checksum" else "scene_hash"]
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=r"state.npz: is damaged or no checkpoint: its checksum"):
        load_checkpoint(path, scene_hash="abc")


def test_a_changed_scene_is_refused(tmp_path):
    path = three(tmp_path)
    with pytest.raises(InputError, match=r"state.npz: is of another scene, or the scene has changed since"):
        load_checkpoint(path, scene_hash="abd")


def test_a_version_to_come(tmp_path, monkeypatch):
    monkeypatch.setattr("pointglue.io.checkpoints.VERSION", 99)
    save_checkpoint(tmp_path / "state.npz", {}, scene_hash="")
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"state.npz: has version 99, but this pointglue reads 3"):
        load_checkpoint(tmp_path / "state.npz", scene_hash="")


def test_a_full_disk_leaves_the_last(tmp_path, monkeypatch):
    path = three(tmp_path)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(PointglueError, match=r"state.npz: cannot be written: No space left on device"):
        save_checkpoint(path, {"k": 4}, scene_hash="abc")
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_small_disk_runs_full(small_disk):
    path = small_disk / "state.npz"
    for k in (1, 2, 3):  # a third of the disk each: there is room for three, as each is made beside two
        save_checkpoint(path, {"k": k, "x": np.zeros(37_000)}, scene_hash="")
    with pytest.raises(PointglueError, match=r"state.npz: cannot be written: No space left on device"):
        save_checkpoint(path, {"k": 4, "x": np.zeros(60_000)}, scene_hash="")
    assert load_checkpoint(path, scene_hash="")["k"] == 3
    assert sorted(file.name for file in small_disk.iterdir()) == ["state.npz", "state.previous.npz"]


@pytest.mark.parametrize(
    ("path", "arrays", "message"),
    [
        ("state.txt", {}, r"state.txt: must end in .npz, as checkpoints do"),
        (3, {}, "path must be a file name, got int"),
        (".npz/", {}, r"must end in .npz"),
        ("state.npz", {"x": np.array([None])}, "x must hold numbers or text, got dtype object"),
        ("state.npz", {"x": 2**70}, "x must hold numbers or text, got dtype object"),
        ("state.npz", {"checksum": 1}, "arrays must have texts for names, other than .* got 'checksum'"),
        ("state.npz", {3: 1}, "arrays must have texts for names, .* got 3"),
    ],
)  # fmt: skip
def test_what_is_wrong(tmp_path, path, arrays, message):
    with pytest.raises(InputError, match=message):
        save_checkpoint(tmp_path / path if isinstance(path, str) else path, arrays, scene_hash="")
    assert not list(tmp_path.iterdir())
