"""What is left if the server is killed: the document of a moment ago, in a hidden folder."""

import shutil
import sys
from pathlib import Path
from typing import IO

from ..errors import InputError
from ..io.archives import writing
from ..particles import OrientedBody
from .document import Document, body_file, load_document, save_document

__all__ = ["Recovery"]

FOLDER = ".pointglue-studio"


class Recovery:
    """The hidden folder: one studio at a time holds it."""

    def __init__(self, root: Path) -> None:
        self.folder = root / FOLDER
        with writing(self.folder):
            self.folder.mkdir(exist_ok=True)
            self._lock: IO[bytes] | None = (self.folder / "lock").open("ab")
        _hold(self._lock, root)
        self._now = self.folder / "now"
        self._known: dict[str, OrientedBody] = {}
        if self.scene.exists():
            numbers = [int(path.name.partition("-")[2]) for path in self._kept()]
            self._now.replace(self.folder / f"found-{max(numbers, default=0) + 1}")

    @property
    def scene(self) -> Path:
        """Where the scene is kept."""
        return self._now / "scene.toml"

    @property
    def found(self) -> Path | None:
        """The scene of a session that did not end well, the last of them, if there is one."""
        kept = self._kept()
        return kept[-1] / "scene.toml" if kept else None

    def _kept(self) -> list[Path]:
        """What such sessions have left, the last one last."""
        whole = [path.parent for path in self.folder.glob("found-*/scene.toml")]
        return sorted(whole, key=lambda path: int(path.name.partition("-")[2]))

    def save(self, document: Document) -> dict[str, dict[str, str]]:
        """Write the document; where its bodies are, as scene files say it."""
        save_document(document, self.scene, self._known)
        self._known = dict(document.bodies)
        return {name: {"body": str(self._now / body_file(self.scene, name))} for name in document.bodies}

    def restore(self) -> Document:
        """What was found."""
        if self.found is None:
            raise InputError("there is nothing to restore")
        return load_document(self.found)

    def forget_found(self) -> None:
        """Throw away what was found; what was left before that, if anything, is found next."""
        if self.found is not None:
            shutil.rmtree(self.found.parent, ignore_errors=True)

    def clear(self) -> None:
        """All is saved elsewhere."""
        self._known = {}
        shutil.rmtree(self._now, ignore_errors=True)

    def close(self) -> None:
        """Let other studios work here."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _hold(lock: IO[bytes], root: Path) -> None:
    """Hold a file as long as this process lives, where the system can."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise InputError(f"{root}: another studio is working in this folder") from error
    except OSError:
        pass  # a file system without locks
