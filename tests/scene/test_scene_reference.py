"""The reference page is that of the schema, and the scenes of the documentation are right."""

import re
from pathlib import Path

import pytest

from pointglue.scene import build_scene, load_scene
from pointglue.scene.schema.reference import reference

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date():
    page = ROOT / "docs" / "reference" / "scene-file.md"
    command = f"python -m pointglue.scene.schema.reference > {page.relative_to(ROOT)}"
    assert page.read_text() == reference(), command


PAGES = [page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts]
SCENES = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in sorted(PAGES)
    for number, block in enumerate(
        re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    )
]


def test_there_are_scenes_in_the_documentation():
    assert len(SCENES) >= 3


@pytest.mark.parametrize("block", SCENES)
def test_scenes_of_the_documentation_can_be_built(block, tmp_path):
    (tmp_path / "scene.toml").write_text(block)
    build_scene(load_scene(tmp_path / "scene.toml"))
