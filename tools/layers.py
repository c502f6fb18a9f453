"""Write the tables of layers in CONTRIBUTING.md from the import contracts in pyproject.toml.

    python tools/layers.py

Each table stands below a heading that names its package. A row has the layer, or siblings that do not import
each other, and the first paragraph of the docstring of each.
"""

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- layers: made by tools/layers.py -->\n", "<!-- end of layers -->\n"


def contracts() -> dict[str, list[list[str]]]:
    """Return the layers of every package that has a contract, from the top: each a list of siblings."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layered = [contract for contract in settings["contracts"] if contract["type"] == "layers"]
    return {
        container: [
            [name.strip(" ()") for name in layer.replace(":", "|").split("|")] for layer in contract["layers"]
        ]
        for contract in layered
        for container in contract["containers"]
    }


def section() -> str:
    """Return the tables, in Markdown."""
    parts = []
    for container, layers in sorted(contracts().items()):  # a package comes before what is in it
        rows = [
            f"| {number} | `{name}` | {_summary(container, name)} |"
            for number, siblings in enumerate(layers, 1)
            for name in siblings
        ]
        heading = [
            f"### Layers of `{container}`",
            "",
            "| layer | module | what it is |",
            "| ---: | --- | --- |",
        ]
        parts.append("\n".join([*heading, *rows, ""]))
    return "\n".join(parts)


def _summary(container: str, name: str) -> str:
    """Return the first paragraph of the docstring of a module or package."""
    path = ROOT / "src" / Path(*container.split("."), *name.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(doc.split("\n\n")[0].split()).replace("|", "\\|")


def main() -> None:
    """Replace the tables in CONTRIBUTING.md."""
    page = ROOT / "CONTRIBUTING.md"
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{section()}\n{END}{after}")


if __name__ == "__main__":
    main()
