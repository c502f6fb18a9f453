"""The statistics of a run, ``stats.jsonl``: a line of JSON for each frame, added when it has been written."""

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from ..files import atomic_write, explain_write_errors
from .frames import FrameStore

__all__ = ["StatsLog"]


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
