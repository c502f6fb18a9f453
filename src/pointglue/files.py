"""Files that appear when they are complete."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["draft_name", "drafted"]


def draft_name(target: Path) -> Path:
    """A hidden name next to `target`, of its own kind, that nobody else has."""
    return target.with_name(f".{target.stem}-{os.urandom(4).hex()}{target.suffix}")


@contextmanager
def drafted(target: Path) -> Iterator[Path]:
    """A file to write that takes the place of `target` only when all went well, and is removed otherwise."""
    draft = draft_name(target)
    try:
        yield draft
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
