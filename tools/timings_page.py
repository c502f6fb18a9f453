"""Make the page of timings from the output of the benchmarks.

    pointglue bench all --json docs/reference/timings.json
    python tools/timings_page.py docs/reference/timings.json > docs/reference/timings.md

The file is a list of rows, or a table with `rows`, `measured` (when), `machine` (on what) and `notes`
(sentences by suite). A row has `suite`, `work`, `pointglue_seconds`, `peer`, `peer_seconds` and `ratio`; the
last three are null where there is no peer.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

TITLES = {
    "core": "Fits",
    "glue": "Glue",
    "deform": "Handle deformation",
    "particles": "Oriented particles",
    "creatures": "Characters from meshes",
    "elastic": "Implicit solids",
    "contact": "Contact",
    "jitter": "Repeated runs",
    "scenes": "Scenes",
    "studio": "The studio",
}
HEAD = """\
# Timings

<!-- Made by tools/timings_page.py from timings.json: measure again, do not edit this page. -->

Every comparison is measured in one run, side by side with its peer, per item of the work.
`pointglue bench SUITE` measures a suite again (after `make test`, in `.venv/bin`), and `make timings`
measures all of them and makes this page. Times of a shared machine vary by a third from run to run,
the ratios less.
"""


def page(data: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> str:
    """Return the page in Markdown."""
    table = data if isinstance(data, Mapping) else {"rows": data}
    rows, notes = table["rows"], table.get("notes", {})
    parts = [HEAD]
    if "machine" in table:
        parts.append(f"Measured {table.get('measured', '')} on {table['machine']}.\n".replace("  ", " "))
    for suite in dict.fromkeys([*(row["suite"] for row in rows), *notes]):
        own = [row for row in rows if row["suite"] == suite]
        parts.append(f"## {TITLES.get(suite, suite)}\n\n`pointglue bench {suite}`\n")
        raced = [row for row in own if row.get("peer")]
        if raced:
            parts.append(
                _table(["work", "pointglue", "peer", "peer's time", "ratio"], map(cells, raced), "lrlrr")
            )
        alone = [[row["work"], duration(row["pointglue_seconds"])] for row in own if not row.get("peer")]
        if alone:
            parts.append(_table(["work", "time"], alone, "lr"))
        parts += [f"{note}\n" for note in notes.get(suite, [])]
    return "\n".join(parts)


def cells(row: Mapping[str, Any]) -> list[str]:
    """Return the cells of a row that has a peer."""
    ratio = row["ratio"]
    return [
        row["work"],
        duration(row["pointglue_seconds"]),
        row["peer"],
        duration(row["peer_seconds"]),
        f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.3g}x",
    ]


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    if seconds < 1e-4:
        return f"{seconds * 1e9:,.0f} ns"
    return f"{seconds * 1e3:.4g} ms" if seconds < 0.1 else f"{seconds:.4g} s"


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> str:
    rule = ["---:" if side == "r" else "---" for side in align]
    return "\n".join("| " + " | ".join(line) + " |" for line in [headings, rule, *rows]) + "\n"


if __name__ == "__main__":
    print(page(json.loads(Path(sys.argv[1]).read_text())), end="")
