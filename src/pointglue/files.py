"""Files that appear when they are complete, and the folder for what can be computed again."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import PointglueError

__all__ = ["atomic_write", "explain_write_errors", "temporary_path", "user_cache"]


def temporary_path(target: Path) -> Path:
    """Return the path of a hidden file next to `target`, with its ending, that does not exist yet."""
    folder, name = os.path.split(target)  # a third of the time that a Path takes for the same
    stem, suffix = os.path.splitext(name)
    return Path(folder, f".{stem}-{os.urandom(4).hex()}{suffix}")


@contextmanager
def atomic_write(target: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; the file replaces `target`, or is removed if something fails."""
    temporary = temporary_path(target)
    try:
        yield temporary
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def explain_write_errors(target: Path) -> Iterator[None]:
    """Turn an OSError into a PointglueError that names the file and says why it cannot be written."""
    try:
        yield
    except OSError as error:
        raise PointglueError(f"{target}: cannot be written: {error.strerror or error}") from error


def user_cache() -> Path | None:
    """Return the folder for what can be computed again, or None if it cannot be written to."""
    try:
        folder = Path(
            os.environ.get("POINTGLUE_CACHE")
            or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pointglue"
        )
    except RuntimeError:  # the user has no home folder
        return None
    there = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    return folder if there.is_dir() and os.access(there, os.W_OK | os.X_OK) else None
