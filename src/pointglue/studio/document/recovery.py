"""What is left if the server is killed: the document of a moment ago, in a hidden folder."""

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
    """The hidden folder: one studio at a time holds it.

    `now` has what is not saved, with the path of the scene that it is of; `found-1` and on have what
    sessions that did not end well have left; `bodies` has what simulations are built from.
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
        ours = [path for path in whole if path.name.partition("-")[2].isdecimal()]
        return sorted(ours, key=lambda path: int(path.name.partition("-")[2]))

    def save(self, document: Document, path: Path | None) -> None:
        """Write a document that is not saved, and the `path` of its scene, if it has one."""
        with explain_write_errors(self._now):
            self._now.mkdir(exist_ok=True)
            with atomic_write(self._now / "path") as draft:
                inside = path is not None and path.is_relative_to(self.root)
                told = "" if path is None else str(path.relative_to(self.root) if inside else path)
                draft.write_text(told, encoding="utf-8")
        save_document(document, self.scene, self._known)
        self._known = dict(document.bodies)

    def build(self, document: Document) -> dict[str, dict[str, str]]:
        """Write the bodies that a simulation reads; where they are, as scene files say it."""
        with explain_write_errors(self._bodies):
            self._bodies.mkdir(exist_ok=True)
        files = {name: self._bodies / f"{name}.npz" for name in document.bodies}
        for name, body in document.bodies.items():
            if self._built.get(name) is not body:
                save_body(files[name], body)
                self._built[name] = body
        return {name: {"body": str(file)} for name, file in files.items()}

    def restore(self) -> tuple[Document, Path | None]:
        """What was found, and the path of its scene, if it had one."""
        if self.found is None:
            raise InputError("there is nothing to restore")
        try:
            told = self.found.with_name("path").read_text(encoding="utf-8")
        except (OSError, ValueError):  # of an earlier pointglue, or damaged
            told = ""
        return load_document(self.found), self.root / told if told else None

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
            shutil.rmtree(self._bodies, ignore_errors=True)
            self._lock.close()
            self._lock = None
