"""Who writes to a folder: one process at a time."""

import sys
import time
from pathlib import Path
from typing import IO

from ..errors import PointglueError
from .archives import writing

__all__ = ["is_locked", "lock"]

TRIES, PAUSE = 10, 0.01  # how often, and after how many seconds: somebody may just look, see `is_locked`


def lock(folder: Path) -> IO[bytes]:
    """A file that is held as long as it is open; the system lets go of it when the process ends, however."""
    target = folder / ".lock"
    with writing(target):
        file = target.open("ab")
    if sys.platform != "win32":
        import fcntl

        for left in reversed(range(TRIES)):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if not left:
                    file.close()
                    raise PointglueError(f"{folder}: another process is writing there") from error
                time.sleep(PAUSE)
            except OSError:
                break  # a file system without locks
    return file


def is_locked(folder: Path) -> bool | None:
    """Whether somebody holds the lock of a folder; None if this system cannot tell."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        with (folder / ".lock").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False
