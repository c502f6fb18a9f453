"""How the benchmarks measure and report: pointglue and its peers side by side, in one run."""

import importlib
import json
import platform
import runpy
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

SUITES = ("core", "glue", "deform", "particles", "creatures", "elastic", "contact", "scenes", "studio")
"""The benchmarks that ``pointglue bench all`` runs, in this order."""
EXAMPLES = Path(__file__).parents[1] / "examples"
HEADINGS = ("work", "pointglue", "peer", "peer's time", "ratio")
SAME_MEASUREMENT = ("suite", "work", "peer")  # what two rows of one measurement have in common


@dataclass(frozen=True)
class Row:
    """One measurement, beside that of a peer if there is one; times are in seconds per item."""

    work: str
    ours: float
    peer: str | None = None
    theirs: float | None = None

    @property
    def ratio(self) -> float | None:
        """How many times as long the peer takes."""
        return None if self.theirs is None else self.theirs / self.ours


@dataclass(frozen=True)
class Results:
    """What a benchmark has measured."""

    suite: str
    rows: list[Row]
    notes: list[str] = field(default_factory=list)
    peers: str = ""
    """Names and versions of the peers."""
    headings: Sequence[str] = HEADINGS
    cells: list[list[str]] | None = None
    """The table to print, if it has other columns than those of the rows."""
    further: Sequence["Results"] = ()
    """What the same benchmark has measured that has a table of its own."""


def race(
    work: str,
    peer: str,
    count: int,
    ours: Callable[..., Any],
    theirs: Callable[[], Any],
    their_count: int | None = None,
    *,
    prepare: Callable[[], Any] | None = None,
) -> Row:
    """Return the best times per item of both, alternating, after a warm-up that compiles what compiles.

    The slower one may be given fewer items. What `prepare` returns is passed to ours, untimed.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for repeat in range(6):
        for function, record, setup in zip((ours, theirs), times, (prepare, None), strict=True):
            seconds = timed(function, setup)
            if repeat:
                record.append(seconds)
    return Row(work, min(times[0]) / count, peer, min(times[1]) / (their_count or count))


def timed(function: Callable[..., Any], prepare: Callable[[], Any] | None = None) -> float:
    """Return the time of a call [s], of the wall's clock; what `prepare` returns is passed to it."""
    given = () if prepare is None else (prepare(),)
    start = time.perf_counter()
    function(*given)
    return time.perf_counter() - start


def best_time(
    function: Callable[..., Any], repeats: int = 30, prepare: Callable[[], Any] | None = None
) -> float:
    """Return the best time of several calls [s]."""
    return min(timed(function, prepare) for _ in range(repeats))


def iteration_time(
    step: Callable[[int], float], counts: tuple[int, int] = (1, 21), repeats: int = 40
) -> float:
    """Return the time of one more iteration [s], from the best steps of few and of many.

    `step` takes a number of iterations and returns its time [s]. What all steps do alike cancels.
    """
    best = dict.fromkeys(counts, np.inf)
    for _ in range(repeats):
        for count in counts:
            best[count] = min(best[count], step(count))
    few, many = counts
    return float((best[many] - best[few]) / (many - few))


def example(name: str) -> dict[str, Any]:
    """Return what an example of the folder ``examples`` defines."""
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))  # they share how they report
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def machine(peers: str) -> str:
    """Return the processor, Python, NumPy and peers of this run."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}"
    return ", ".join(filter(None, [f"{model}, one core; {versions}", peers]))


def report(results: Results, markdown: bool) -> None:
    """Print the table of a benchmark, in Markdown or for the terminal."""
    cells = results.cells
    if cells is None:
        cells = [[each.work, _time(each.ours), *_peer_cells(each)] for each in results.rows]
    if markdown:
        rule = ["---", *("---" if heading == "peer" else "---:" for heading in results.headings[1:])]
        for line in [results.headings, rule, *cells]:
            print("| " + " | ".join(line) + " |")
        print("\n" + ". ".join([machine(results.peers), *results.notes]) + ".")
    else:
        _print_table(results, cells)
    for each in results.further:
        report(each, markdown)


def _print_table(results: Results, cells: list[list[str]]) -> None:
    """Print a table for the terminal, and its notes."""
    title = f"pointglue {results.suite}" + (", time per item" if results.cells is None else "")
    table = Table(*results.headings, title=title, caption=machine(results.peers))
    for line in cells:
        table.add_row(*line)
    console = Console()
    console.print(table)
    for note in results.notes:
        console.print(note)


def json_rows(results: Results) -> list[dict[str, Any]]:
    """Return the rows of a benchmark as the page of timings reads them."""
    return [
        {
            "suite": results.suite,
            "work": row.work,
            "pointglue_seconds": row.ours,
            "peer": row.peer,
            "peer_seconds": row.theirs,
            "ratio": row.ratio,
        }
        for row in results.rows
    ] + [row for each in results.further for row in json_rows(each)]


def merged_rows(table: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a table of timings with rows that have been measured again, each where the old one was.

    Rows are of the same measurement if suite, work and peer are the same. A new one comes behind the row that
    was measured before it, and what else the table says stays as it is.
    """
    found, last = list(table["rows"]), -1
    for row in rows:
        same = [k for k, old in enumerate(found) if all(old[key] == row[key] for key in SAME_MEASUREMENT)]
        suite = [k for k, old in enumerate(found) if old["suite"] == row["suite"]]
        if same:
            last = same[0]
            found[last] = row
        else:
            behind = [last] if last in suite else suite
            last = behind[-1] + 1 if behind else len(found)
            found.insert(last, row)
    return {**table, "rows": found}


def run_suites(
    names: Sequence[str], *, markdown: bool = False, quick: bool = False, output: Path | None = None
) -> None:
    """Run benchmarks by name, print their tables, and write the rows of all to a JSON file, if one is named.

    The file is written after every benchmark, so that one that fails costs no other's rows. If it is the
    table of the page of timings, its rows are replaced and its notes stay.
    """
    rows: list[dict[str, Any]] = []
    for name in names:
        results = importlib.import_module(name).measure(quick=quick)
        report(results, markdown)
        rows += json_rows(results)
        write_rows(rows, output)


def write_rows(rows: list[dict[str, Any]], output: Path | None) -> None:
    """Write rows to a file, if one is named, or into the table that it holds."""
    if output is None:
        return
    known = json.loads(output.read_text(encoding="utf-8")) if output.exists() else None
    data = merged_rows(known, rows) if isinstance(known, dict) else rows
    output.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(name: str, parts: Mapping[str, Callable[..., Results]] | None = None) -> None:
    """Run one benchmark as a script: [--markdown] [--quick] [--json FILE].

    `parts` are functions that measure parts of it, by the option that asks for each.
    """
    words = sys.argv[1:]
    output = Path(words[words.index("--json") + 1]) if "--json" in words else None
    markdown, quick = "--markdown" in words, "--quick" in words
    asked = [measure for option, measure in (parts or {}).items() if option in words]
    if not asked:
        run_suites([name], markdown=markdown, quick=quick, output=output)
    for measure in asked:
        results = measure(quick=quick)
        report(results, markdown)
        write_rows(json_rows(results), output)


def _peer_cells(row: Row) -> list[str]:
    """Return the peer, its time and the ratio, empty if there is none."""
    if row.peer is None or row.theirs is None:
        return ["", "", ""]
    return [row.peer, _time(row.theirs), f"{row.ratio:.3g}x"]


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1e9:,.0f} ns"
