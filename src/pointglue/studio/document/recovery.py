"""The copy of unsaved work in a hidden folder, for the case that the server is killed."""

import shutil
from pathlib import Path
from typing import IO

from ...errors import InputError
from ...files import atomic_write, explain_write_errors, lock
from ...io import save_body
from ...particles import OrientedBody
from .document import Document, load_document, save_document

__all__ = ["FOLDER", "Recovery"]

FOLDER = ".pointglue-studio"


class Recovery:
    """The hidden folder, which one studio at a time locks.

    Its folder `now` has the unsaved scene and the path of its file, `found-1` and on have what sessions
    that did not end well have left, and `bodies` has the files that simulations are built from.

    Parameters
    ----------
    root : Path
        The working directory.

    Raises
    ------
    InputError
        If another studio works in `root`.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / FOLDER
        with explain_write_errors(self.folder):
            self.folder.mkdir(exist_ok=True)
        busy = InputError(f"{root}: another studio is working in this folder")
        self._lock: IO[bytes] | None = lock(self.folder / "lock", busy)
        self._now, self._bodies = self.folder / "now", self.folder / "bodies"
        self._known: dict[str, OrientedBody] = {}
        self._built: dict[str, OrientedBody] = {}
        if self.scene.exists():
            numbers = [int(path.name.partition("-")[2]) for path in self._kept()]
            self._now.replace(self.folder / f"found-{max(numbers, default=0) + 1}")

    @property
    def scene(self) -> Path:
        """The file that the unsaved scene is copied to."""
        return self._now / "scene.toml"

    @property
    def found(self) -> Path | None:
        """The scene of the last session that did not end well, if there is one."""
        kept = self._kept()
        return kept[-1] / "scene.toml" if kept else None

    def _kept(self) -> list[Path]:
        """Return the folders of sessions that did not end well, the last one last."""
        whole = [path.parent for path in self.folder.glob("found-*/scene.toml")]
        ours = [path for path in whole if path.name.partition("-")[2].isdecimal()]
        return sorted(ours, key=lambda path: int(path.name.partition("-")[2]))

    def save(self, document: Document, path: Path | None) -> None:
        """Write an unsaved document, and the `path` of its scene file, if it has one."""
        with explain_write_errors(self._now):
            self._now.mkdir(exist_ok=True)
            with atomic_write(self._now / "path") as draft:
                inside = path is not None and path.is_relative_to(self.root)
                text = "" if path is None else str(path.relative_to(self.root) if inside else path)
                draft.write_text(text, encoding="utf-8")
        save_document(document, self.scene, self._known)
        self._known = dict(document.bodies)

    def build(self, document: Document) -> dict[str, dict[str, str]]:
        """Write the bodies that a simulation reads; return the keys that say where they are."""
        with explain_write_errors(self._bodies):
            self._bodies.mkdir(exist_ok=True)
        files = {name: self._bodies / f"{name}.npz" for name in document.bodies}
        for name, body in document.bodies.items():
            if self._built.get(name) is not body:
                save_body(files[name], body)
                self._built[name] = body
        return {name: {"body": str(file)} for name, file in files.items()}

    def restore(self) -> tuple[Document, Path | None]:
        """Return the scene that was found, and the path of its file, if it had one."""
        if self.found is None:
            raise InputError("there is nothing to restore")
        try:
            text = self.found.with_name("path").read_text(encoding="utf-8")
        except (OSError, ValueError):  # of an earlier pointglue, or damaged
            text = ""
        return load_document(self.found), self.root / text if text else None

    def forget_found(self) -> None:
        """Remove the scene that was found; the one before it, if there is any, is found next."""
        if self.found is not None:
            shutil.rmtree(self.found.parent, ignore_errors=True)

    def clear(self) -> None:
        """Remove the copy, since all is saved."""
        self._known = {}
        shutil.rmtree(self._now, ignore_errors=True)

    def close(self) -> None:
        """Unlock the folder."""
        if self._lock is not None:
            shutil.rmtree(self._bodies, ignore_errors=True)
            self._lock.close()
            self._lock = None
