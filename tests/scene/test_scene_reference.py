"""The reference page is that of the schema, and the scenes that come along are right."""

import re
from pathlib import Path

import pytest

from pointglue.scene import build, load_scene
from pointglue.scene.reference import reference

ROOT = Path(__file__).parents[2]
DEMOS = sorted((ROOT / "src" / "pointglue" / "scene" / "demos").glob("*.toml"))


def test_the_page_is_up_to_date():
    page = ROOT / "docs" / "scene-reference.md"
    assert page.read_text() == reference(), f"python -m pointglue.scene.reference > {page.relative_to(ROOT)}"


@pytest.mark.parametrize("demo", DEMOS, ids=lambda demo: demo.stem)
def test_demos_can_be_built(demo):
    scene = load_scene(demo)
    assert scene.tables.title
    made = build(scene)
    frame = made.frame(made.start())
    assert frame.points or frame.transforms


def test_scenes_of_the_documentation_can_be_built(tmp_path):
    blocks = re.findall(
        r"^```toml\n(.*?)^```", (ROOT / "docs" / "scenes.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert blocks
    for block in blocks:
        (tmp_path / "scene.toml").write_text(block)
        build(load_scene(tmp_path / "scene.toml"))
