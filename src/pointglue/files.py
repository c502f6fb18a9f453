"""Files that appear when they are complete, locks of files, and the user's cache folder."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .errors import PointglueError

__all__ = ["atomic_write", "explain_write_errors", "is_locked", "lock", "temporary_path", "user_cache"]

# How often, and after how many seconds, a lock is tried again: another process may be in `is_locked`.
TRIES, PAUSE = 10, 0.01


def temporary_path(target: Path) -> Path:
    """Return the path of a hidden file next to `target`, with its ending, that does not exist yet."""
    folder, name = os.path.split(target)  # takes a third of the time that Path takes
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


def lock(file: Path, busy: PointglueError) -> IO[bytes]:
    """Open a file and lock it; the lock ends when the file is closed or the process ends, however it does.

    Systems and file systems without locks let every process pass.

    Parameters
    ----------
    file : Path
        The file, which is made if there is none.
    busy : PointglueError
        The error to raise if another process has locked it.

    Returns
    -------
    IO of bytes
        The open file.
    """
    with explain_write_errors(file):
        opened = file.open("ab")
    if sys.platform != "win32":
        import fcntl  # which Windows does not have

        for left in reversed(range(TRIES)):
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if not left:
                    opened.close()
                    raise busy from error
                time.sleep(PAUSE)
            except OSError:
                break  # a file system without locks
    return opened


def is_locked(file: Path) -> bool | None:
    """Return whether a process has locked a file; None if this system cannot tell."""
    if sys.platform == "win32":
        return None
    import fcntl  # which Windows does not have

    try:
        with file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def user_cache() -> Path | None:
    """Return the user's cache folder of pointglue, or None if it cannot be written to."""
    try:
        folder = Path(
            os.environ.get("POINTGLUE_CACHE")
            or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pointglue"
        )
    except RuntimeError:  # the user has no home folder
        return None
    there = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    return folder if there.is_dir() and os.access(there, os.W_OK | os.X_OK) else None
