"""Side by side in one run: how the benchmarks measure and report."""

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One comparison; times in seconds per item."""

    work: str
    ours: float
    peer: str
    theirs: float

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours


def race(
    work: str, peer: str, count: int, ours: Callable, theirs: Callable, their_count: int | None = None
) -> Row:
    """Best times per item of both, alternating; the slower one may be given fewer items."""
    times: tuple[list[float], list[float]] = ([], [])
    for function in (ours, theirs):
        function()
    for _ in range(5):
        for function, record in zip((ours, theirs), times, strict=True):
            start = time.perf_counter()
            function()
            record.append(time.perf_counter() - start)
    return Row(work, min(times[0]) / count, peer, min(times[1]) / (their_count or count))


def machine(peers: str) -> str:
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    return f"{model}, one core; Python {platform.python_version()}, NumPy {np.__version__}, {peers}"


def report(name: str, rows: list[Row], notes: list[str], peers: str, markdown: bool) -> None:
    """Print the table, as in the README or for the terminal."""
    headings = ["work", "pointglue", "peer", "peer's time", "ratio"]
    cells = [[row.work, _time(row.ours), row.peer, _time(row.theirs), f"{row.ratio:.3g}x"] for row in rows]
    if markdown:
        for line in [headings, ["---", "---:", "---", "---:", "---:"], *cells]:
            print("| " + " | ".join(line) + " |")
        print("\n" + ". ".join([machine(peers), *notes]) + ".")
        return
    table = Table(*headings, title=f"pointglue {name}, time per item", caption=machine(peers))
    for line in cells:
        table.add_row(*line)
    console = Console()
    console.print(table)
    for note in notes:
        console.print(note)


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1e9:,.0f} ns"
