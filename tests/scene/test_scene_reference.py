"""The reference page is that of the schema, and the scenes of the documentation are right."""

import re
from pathlib import Path

from pointglue.scene import build_scene, load_scene
from pointglue.scene.schema.reference import reference

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date():
    page = ROOT / "docs" / "scene-reference.md"
    command = f"python -m pointglue.scene.schema.reference > {page.relative_to(ROOT)}"
    assert page.read_text() == reference(), command


def test_scenes_of_the_documentation_can_be_built(tmp_path):
    blocks = re.findall(
        r"^```toml\n(.*?)^```", (ROOT / "docs" / "scenes.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert blocks
    for block in blocks:
        (tmp_path / "scene.toml").write_text(block)
        build_scene(load_scene(tmp_path / "scene.toml"))
