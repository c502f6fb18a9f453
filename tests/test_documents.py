"""Documentation that is not executed rots: run every Python block of README, conventions and docs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONVENTIONS.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
)
PAGES = [page for page in PAGES if "_build" not in page.parts]


def name(page):
    return str(page.relative_to(ROOT).with_suffix(""))


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": page.stem}
    for number, block in enumerate(blocks(page)):
        exec(compile(block, f"{page.name}, block {number}", "exec"), namespace)


def test_there_are_blocks_to_run():
    assert sum(len(blocks(page)) for page in PAGES) >= 10


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_make_targets_in_the_documents_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set()
    for page in PAGES:
        named |= set(re.findall(r"(?:^    |`)make ([a-z-]+)", page.read_text(), flags=re.MULTILINE))
    assert {"demo", "test"} <= named <= targets
