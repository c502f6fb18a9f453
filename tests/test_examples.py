"""Every example runs, and does what it says: each asserts its own outcome and writes its picture."""

import runpy
import sys
from pathlib import Path

import imageio.v3 as imageio
import pytest

from pointglue.view import render

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("[a-z]*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_example(example, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(render, "SAMPLES", 1)  # how smooth pictures are is for tests/view to see
    picture = tmp_path / "new folder" / "picture.png"
    monkeypatch.setattr(sys, "argv", [str(example), str(picture)])
    runpy.run_path(str(example), run_name="__main__")
    assert f"wrote {picture}" in capsys.readouterr().out
    assert imageio.imread(picture).std() > 10  # not a blank view
