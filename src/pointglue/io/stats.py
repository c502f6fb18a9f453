"""The statistics of a run, ``stats.jsonl``: a line of JSON for each frame, added when it has been written."""

import csv
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from ..files import atomic_write, explain_write_errors
from .frames import FrameStore

__all__ = ["StatsLog", "read_stats", "write_loads"]


class StatsLog:
    """The file with the statistics of a run's frames.

    Each line is handed to the system at once: a process that is killed leaves at most one that is cut short.
    Lines that are missing or cut short when the file is opened again are made from the frames themselves,
    without the values that only the process that computed them had.

    Parameters
    ----------
    store : FrameStore
        The run.
    numbers : iterable of int
        The frames whose lines are kept, in this order; others are removed.

    Attributes
    ----------
    path : Path
        The file.

    Raises
    ------
    PointglueError
        If the file cannot be written.
    """

    def __init__(self, store: FrameStore, numbers: Iterable[int]) -> None:
        self.path = store.stats
        known = _complete_lines(self.path)
        kept = b"".join(known.get(number) or _line(store.about(number)) for number in numbers)
        with explain_write_errors(self.path):
            if not self.path.exists() or self.path.read_bytes() != kept:
                with atomic_write(self.path) as temporary:
                    temporary.write_bytes(kept)
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))

    def add(self, about: Mapping[str, Any]) -> None:
        """Add the line of a frame: what `FrameStore.about` returns, and more; nan and inf become null."""
        left = memoryview(_line(about))
        with explain_write_errors(self.path):
            while left:
                left = left[os.write(self._file, left) :]

    def sync(self) -> None:
        """Flush all lines to the disk, so that a power cut cannot destroy them."""
        with explain_write_errors(self.path):
            os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_stats(store: FrameStore) -> list[dict[str, Any]]:
    """Return the lines of a run's statistics in the order of the frames, without those that are cut short.

    Parameters
    ----------
    store : FrameStore
        The run.

    Returns
    -------
    list of dict
        What `StatsLog` has written of each frame.
    """
    lines = _complete_lines(store.stats)
    return [json.loads(lines[number]) for number in sorted(lines)]


def write_loads(path: Path, stats: Iterable[Mapping[str, Any]]) -> int:
    """Write the loads of all frames as a table in a CSV file, and return how many rows it has.

    Parameters
    ----------
    path : Path
        The file.
    stats : iterable of mapping
        The statistics of the frames, see `read_stats`; frames without loads have no rows.

    Returns
    -------
    int

    Raises
    ------
    PointglueError
        If the file cannot be written.
    """
    vectors = [f"{name}_{axis}" for name in ("position", "force", "torque") for axis in "xyz"]
    rows = [
        [line["frame"], line["time"], load["kind"], load["from"], load["to"], load["largest"]]
        + [number for name in ("position", "force", "torque") for number in load[name]]
        for line in stats
        for load in line.get("loads", ())
    ]
    with (
        explain_write_errors(path),
        atomic_write(path) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as file,
    ):
        table = csv.writer(file)
        table.writerow(["frame", "time", "kind", "from", "to", "largest", *vectors])
        table.writerows(rows)
    return len(rows)


def _line(about: Mapping[str, Any]) -> bytes:
    """Return the line of a frame."""
    return json.dumps(_strict(about)).encode() + b"\n"


def _strict(value: Any) -> Any:
    """Return the same value with None for numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {key: _strict(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _complete_lines(path: Path) -> dict[int, bytes]:
    """Return the complete lines of a file by the numbers of their frames."""
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError:
        return {}
    found: dict[int, bytes] = {}
    for line in lines:
        try:
            number = json.loads(line)["frame"]
        except (ValueError, KeyError, TypeError):
            continue
        if isinstance(number, int) and line.endswith(b"\n"):
            found[number] = line
    return found
