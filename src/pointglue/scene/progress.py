"""Reports of a run while it goes on: a bar on a terminal, lines in a log, JSON for programs, or nothing."""

import json
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ..io.frame_records import Frame
from .run import Run

__all__ = ["ReportStyle", "print_problems", "report_run"]

RECENT = 10  # frames from whose times the time that is left is estimated

ReportStyle = Literal["people", "json", "quiet"]


def report_run(run: Run, style: ReportStyle) -> int:
    """Compute all frames of a run, report each, and return how many there were."""
    begin, count = perf_counter(), 0
    with _reporter(run, style) as report:
        before = begin
        for frame in run:
            now = perf_counter()
            report(frame, now - before)
            before, count = now, count + 1
    _report_end(run, style, count, perf_counter() - begin)
    return count


@contextmanager
def _reporter(run: Run, style: ReportStyle) -> Iterator[Callable[[Frame, float], object]]:
    """Yield a function that reports a frame, given how long it took [s]."""
    last = run.simulation.frames.end
    if style == "json":
        yield lambda frame, seconds: _print_json(
            event="frame",
            frame=frame.number,
            last=last,
            time=frame.time,
            seconds=round(seconds, 6),
            **frame.stats,
            **({"happened": list(frame.events)} if frame.events else {}),
        )
        return
    if style == "quiet":
        yield lambda frame, seconds: None
        return
    console = Console(stderr=True)
    if not (console.is_terminal and sys.stdout.isatty()):
        yield _Lines(run)
        return
    columns = (
        TextColumn("frame {task.fields[number]}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[stats]}"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        total, done = run.simulation.frames.count, run.simulation.frames.count - len(run.numbers)
        task = progress.add_task("", total=total, completed=done, number=run.numbers.start, stats="")

        def show(frame: Frame, seconds: float) -> None:
            progress.update(task, advance=1, number=frame.number, stats=_stats_text(frame))
            for event in frame.events:
                progress.console.print(f"frame {frame.number}: {event}", highlight=False, markup=False)

        yield show


class _Lines:
    """A plain line for each frame, at once: for logs, and for output that is redirected."""

    def __init__(self, run: Run) -> None:
        self._first, self._last = run.simulation.frames.start, run.simulation.frames.end
        self._recent: deque[float] = deque(maxlen=RECENT)

    def __call__(self, frame: Frame, seconds: float) -> None:
        words = [f"frame {frame.number}/{self._last}", f"{seconds:.2f} s", _stats_text(frame)]
        if frame.number > self._first:  # the first takes no step: its time tells nothing about the others
            self._recent.append(seconds)
            each = sum(self._recent) / len(self._recent)
            words.append(f"left {timedelta(seconds=round((self._last - frame.number) * each))}")
        print("  ".join(filter(None, words)), flush=True)
        for event in frame.events:
            print(f"frame {frame.number}: {event}", flush=True)


def _stats_text(frame: Frame) -> str:
    """Return the statistics of a frame in a few words."""
    words = {"newton iterations": "Newton", "contacts": "contacts"}
    return "  ".join(f"{word} {frame.stats[key]}" for key, word in words.items() if key in frame.stats)


def _report_end(run: Run, style: ReportStyle, count: int, seconds: float) -> None:
    folder = None if run.store is None else run.store.directory
    if style == "json":
        files = [str(path) for path in run.files]
        _print_json(event="done", frames=count, seconds=round(seconds, 3), directory=str(folder), files=files)
    elif style == "people":
        frames = "1 frame" if count == 1 else f"{count:,} frames"
        print(f"wrote {frames} to {folder} in {seconds:.1f} s")
        for path in run.files:
            if path.name != "stats.jsonl":
                print(f"wrote {path}")


def _print_json(**values: Any) -> None:
    """Print a line of JSON, at once."""
    plain = {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}
    sys.stdout.write(json.dumps(plain) + "\n")
    sys.stdout.flush()


def print_problems(problems: tuple[str, ...]) -> None:
    """Print all that is wrong with a scene as a line of JSON."""
    _print_json(event="error", problems=list(problems))
