"""Locks: one process at a time writes to a folder."""

import sys
import time
from pathlib import Path
from typing import IO

from ..errors import PointglueError
from ..files import explain_write_errors

__all__ = ["is_locked", "lock"]

# How often, and after how many seconds, a lock is tried again: another process may be in `is_locked`.
TRIES, PAUSE = 10, 0.01


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
