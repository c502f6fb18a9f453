"""``stats.jsonl`` of a run: a line of JSON for each frame, added when the frame has been written."""

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
    """The statistics of a run's frames, on their way to the disk.

    Each line is handed to the system at once: a process that is killed leaves at most one that is cut short.
    A log that is opened again keeps the lines of the frames `numbers`, in that order, and no others. Those
    that are missing or cut short are made again from the frames themselves, without what only the process
    knew that computed them.
    """

    def __init__(self, store: FrameStore, numbers: Iterable[int]) -> None:
        self.path = store.stats
        known = _whole_lines(self.path)
        kept = b"".join(known.get(number) or _line(store.about(number)) for number in numbers)
        with explain_write_errors(self.path):
            if not self.path.exists() or self.path.read_bytes() != kept:
                with atomic_write(self.path) as draft:
                    draft.write_bytes(kept)
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))

    def add(self, about: Mapping[str, Any]) -> None:
        """Add the line of a frame: what `FrameStore.about` gives, and more. What is not finite is null."""
        left = memoryview(_line(about))
        with explain_write_errors(self.path):
            while left:
                left = left[os.write(self._file, left) :]

    def sync(self) -> None:
        """Return when all lines are on the disk, whatever happens to the machine."""
        with explain_write_errors(self.path):
            os.fsync(self._file)

    def close(self) -> None:
        """Add no more lines."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _line(about: Mapping[str, Any]) -> bytes:
    return json.dumps(_strict(about)).encode() + b"\n"


def _strict(value: Any) -> Any:
    """The same without numbers that JSON does not have."""
    if isinstance(value, Mapping):
        return {key: _strict(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _whole_lines(path: Path) -> dict[int, bytes]:
    """The lines that are whole, by the numbers of their frames."""
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
