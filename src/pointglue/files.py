"""Files that appear when they are complete, and the folder for what can be made again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["draft_name", "drafted", "user_cache"]


def draft_name(target: Path) -> Path:
    """A hidden name next to `target`, of its own kind, that nobody else has."""
    folder, name = os.path.split(target)  # a third of the time that a Path takes for the same
    stem, suffix = os.path.splitext(name)
    return Path(folder, f".{stem}-{os.urandom(4).hex()}{suffix}")


@contextmanager
def drafted(target: Path) -> Iterator[Path]:
    """A file to write that takes the place of `target` only when all went well, and is removed otherwise."""
    draft = draft_name(target)
    try:
        yield draft
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def user_cache() -> Path | None:
    """Return the folder for what can be worked out again, or None if there is no writing to it."""
    try:
        folder = Path(
            os.environ.get("POINTGLUE_CACHE")
            or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pointglue"
        )
    except RuntimeError:  # nobody's home
        return None
    there = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    return folder if there.is_dir() and os.access(there, os.W_OK | os.X_OK) else None
