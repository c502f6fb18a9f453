"""Runs in the formats of other programs, by the function and by the command."""

import pytest
from small_runs import write_run

from pointglue.errors import InputError
from pointglue.io import FrameStore, export_run


def test_formats_and_where_they_go(tmp_path):
    run, out = tmp_path / "run", tmp_path / "out"
    write_run(run)
    assert export_run(run) == run / "animation.usdc"
    assert export_run(FrameStore.open(run), format="obj") == run / "obj"
    assert export_run(run, out / "a.usda") == out / "a.usda"
    assert (out / "a.usda").read_text().startswith("#usda")
    assert export_run(run, out / "meshes", format="ply") == out / "meshes"
    assert sorted(path.name for path in (out / "meshes").iterdir()) == [
        f"frame_000{number}.ply" for number in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("name", "format", "told"),
    [
        ("meshes", None, r"meshes: must end in \.usdc, .*; for a folder of mesh files, give the format"),
        ("a.ply", "ply", r"a\.ply: must be a folder: ply has a file for each frame"),
        ("a.usd", "fbx", r"format must be .usd., .ply. or .obj., got 'fbx'"),
        ("a.ply", "usd", r"a\.ply: must end in \.usdc"),
    ],
)
def test_names_that_do_not_fit(name, format, told, tmp_path):
    write_run(tmp_path / "run")
    with pytest.raises(InputError, match=told):
        export_run(tmp_path / "run", tmp_path / name, format=format)
    assert not (tmp_path / name).exists()


def test_the_command(command, tmp_path):
    write_run(tmp_path / "run")
    code, printed, _ = command("export", tmp_path / "run", "-o", tmp_path / "a.usdc")
    assert (code, printed) == (0, f"wrote 3 frames to {tmp_path / 'a.usdc'}\n")
    code, printed, _ = command("export", tmp_path / "run", "--format", "obj", "--quiet")
    assert (code, printed) == (0, "")
    assert (tmp_path / "run" / "obj" / "frame_0003.obj").exists()
    code, _, told = command("export", tmp_path)
    assert (code, told) == (1, f"pointglue: {tmp_path}: holds no run: there is no scene.npz\n")
    write_run(tmp_path / "empty", [])
    for words in ([], ["--format", "ply"]):
        code, _, told = command("export", tmp_path / "empty", *words)
        assert (code, told) == (1, f"pointglue: {tmp_path / 'empty'}: has no frames to write\n")
