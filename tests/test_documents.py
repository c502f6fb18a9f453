"""Documentation that is not executed rots: run every Python block of README, conventions and docs."""

import json
import re
from pathlib import Path

import api_pages
import layers
import pytest
import timings_page
from public_api import INTERNAL, PUBLIC, documented, home, modules, names

import pointglue

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


def test_the_page_of_timings_is_made_from_its_figures():
    folder = ROOT / "docs" / "reference"
    figures = json.loads((folder / "timings.json").read_text())
    command = "python tools/timings_page.py docs/reference/timings.json > docs/reference/timings.md"
    assert (folder / "timings.md").read_text() == timings_page.page(figures), command
    assert timings_page.page(figures["rows"]).count("\n| ") > len(figures["rows"])


def test_the_figures_of_the_readme_are_on_the_page_of_timings():
    rows = re.findall(r"^\| .* \|$", (ROOT / "README.md").read_text(), flags=re.MULTILINE)
    figures = [row for row in rows if row.endswith("x |")]
    assert len(figures) == 5
    page = (ROOT / "docs" / "reference" / "timings.md").read_text().splitlines()
    assert set(figures) <= set(page)


def test_every_package_is_public_or_internal():
    folder = Path(pointglue.__file__).parent
    found = {
        path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    public = {path.split(".")[1] for path in PUBLIC if "." in path}
    assert found - {"__init__"} == public | set(INTERNAL)
    assert not public & set(INTERNAL)


def test_every_public_name_is_on_an_api_page(tmp_path):
    api_pages.write(tmp_path)
    for module in modules():
        text = (tmp_path / f"{module.__name__}.md").read_text()
        for name, one in names(module).items():
            path = f"{module.__name__}.{name}"
            assert f":: {path}\n" in text or f"`{name} <{home(one, path)}>`" in text, path
        assert module.__name__ in (tmp_path / "index.md").read_text()
    for path in (
        "pointglue.elastic.Contact",
        "pointglue.io.read_mesh",
        "pointglue.particles.authoring.editing.pin",
    ):
        assert path in documented()


def test_old_api_pages_are_removed(tmp_path):
    (tmp_path / "pointglue.gone.md").write_text("# Gone\n")
    api_pages.write(tmp_path)
    assert not (tmp_path / "pointglue.gone.md").exists()


def layers_of_the_page():
    """Return the layers in the tables of CONTRIBUTING.md, by package, each a set of siblings."""
    tables = re.findall(
        r"^### Layers of `([a-z_.]+)`\n\n(.*?)\n\n",
        (ROOT / "CONTRIBUTING.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    found = {}
    for package, table in tables:
        found[package] = {}
        for row in table.splitlines()[2:]:
            number, module = re.match(r"\| (\d+) \| `([\w.]+)` \|", row).groups()
            found[package].setdefault(int(number), set()).add(module)
    return {package: [modules for _, modules in sorted(each.items())] for package, each in found.items()}


def test_contributing_shows_the_layers_as_they_are():
    contracts = {
        package: [set(siblings) for siblings in each] for package, each in layers.contracts().items()
    }
    assert layers_of_the_page() == contracts, "python tools/layers.py"


def test_contributing_names_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    folders = [ROOT, ROOT / "src" / "pointglue", ROOT / "studio-client" / "src"]
    folders += [ROOT / "src" / "pointglue" / "particles" / "_solve" / sub for sub in (".", "kernels/contact")]
    named = set(re.findall(r"`([\w./-]+/[\w./-]*|[\w-]+\.(?:py|ts|md))`", text))
    assert len(named) > 60
    missing = [name for name in sorted(named) if not any((folder / name).exists() for folder in folders)]
    assert not missing


def test_docstrings_are_checked():
    import check_docstrings

    def right(points):
        """Return the number of points.

        Parameters
        ----------
        points : (n, 3)
            Where the points are [m].

        Returns
        -------
        int
            The number n.
        """
        return len(points)

    def wrong(points):
        """Of the points."""
        return len(points)

    check_docstrings.right, check_docstrings.wrong = right, wrong
    try:
        assert check_docstrings.problems("check_docstrings.right", right) == []
        found = check_docstrings.problems("check_docstrings.wrong", wrong)
        assert {line.split(":")[0] for line in found} == {"PR01", "RT01", "fragment"}
    finally:
        del check_docstrings.right, check_docstrings.wrong
