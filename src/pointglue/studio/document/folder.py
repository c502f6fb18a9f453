"""The working directory: pages open and write files in it, and nowhere else."""

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...errors import InputError
from ..protocol.replies import FileEntry, Files
from .document import Document
from .recovery import FOLDER

__all__ = ["WorkingDirectory"]

LARGEST_LISTED = 10_000_000  # bytes: larger files are listed as scenes without being read
MESHES = (".ply", ".obj", ".stl", ".off", ".glb", ".gltf")


class WorkingDirectory:
    """The folder that pages work in, and files elsewhere that were named at the start.

    Parameters
    ----------
    root : Path
        The folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._trusted: set[str] = set()

    def inside(self, path: str) -> Path:
        """Return the absolute path of a file in the folder; raise InputError if a path leads out of it."""
        if "\0" in path or len(path) > 1000:
            raise InputError("this is no file name")
        try:
            target = (self.root / path).resolve()
            target.exists()  # fails for names that the system cannot have
        except (OSError, RuntimeError) as error:  # the latter for circular links
            name = path if len(path) < 60 else path[:57] + "..."
            raise InputError(f"{name}: is no file name here: {getattr(error, 'strerror', error)}") from error
        if target != self.root and self.root not in target.parents:
            raise InputError(f"{path}: is outside of the working directory, {self.root}")
        return target

    def display_path(self, path: Path) -> str:
        """Return a path as people read it: relative to the folder if it is inside."""
        whole = path.resolve()
        return whole.relative_to(self.root).as_posix() if self.root in whole.parents else str(whole)

    def to_write(self, path: str, endings: Sequence[str], *, over: Sequence[Path] | None = ()) -> Path:
        """Return the path of a file to write, with the first ending if it has none.

        An existing file is refused unless it is one of `over`; None allows all.
        """
        if not path.strip() or path.endswith("/"):
            raise InputError("give the file a name")
        target = self.inside(path if Path(path).suffix else path + endings[0])
        if target.suffix.lower() not in endings:
            raise InputError(f"{path}: must end in {', '.join(endings)}")
        if target.is_relative_to(self.root / FOLDER):
            raise InputError(f"{path}: this folder is for the studio itself, choose another one")
        if target.is_dir():
            raise InputError(f"{path}: is a folder")
        if over is not None and target.exists() and target not in over:
            raise InputError(f"{self.display_path(target)}: is there already, choose another name")
        return target

    def check_not_meshes(self, targets: Iterable[Path], documents: Iterable[Document]) -> None:
        """Raise InputError if one of the files to write is a mesh of one of the documents."""
        names = {file: name for document in documents for file, name in _meshes(document).items()}
        owners = {Path(file).resolve(): name for file, name in names.items()}
        for target in targets:
            if target.resolve() in owners:
                name = owners[target.resolve()]
                raise InputError(f"{self.display_path(target)}: is the mesh of {name!r}: choose another name")

    def allow(self, path: Path, trusted: bool = False) -> None:
        """Raise InputError unless a file that a scene names is in the folder, or trusted from now on."""
        try:
            file = str(path.resolve())
        except (
            OSError,
            RuntimeError,
            ValueError,
        ) as error:  # circular links, and characters that no name can have
            raise InputError(f"{path!s:.60}: is no file name here: {error}") from error
        if trusted:
            self._trusted.add(file)
        elif file not in self._trusted:
            self.inside(file)

    def checked(self, document: Document, trusted: bool = False) -> Document:
        """Return the document; raise InputError unless its files are in the folder, or trusted."""
        for file in _meshes(document):
            self.allow(Path(file), trusted)
        return document

    def listed(self, folder: str) -> Files:
        """Return what can be opened in a folder."""
        path = self.inside(folder)
        if not path.is_dir():
            raise InputError(f"{folder}: is not a folder")
        entries = []
        try:
            for item in sorted(path.iterdir(), key=lambda item: item.name.lower()):
                if item.name.startswith("."):
                    continue
                if item.is_dir():
                    run = (item / "scene.npz").is_file()
                    entries.append(FileEntry(name=item.name, kind="run" if run else "folder"))
                elif item.suffix.lower() in MESHES:
                    entries.append(FileEntry(name=item.name, kind="mesh"))
                elif item.suffix.lower() == ".toml" and _is_scene(item):
                    entries.append(FileEntry(name=item.name, kind="scene"))
        except OSError as error:
            raise InputError(f"{folder}: cannot be read: {error.strerror}") from error
        label = "" if path == self.root else path.relative_to(self.root).as_posix()
        return Files(folder=label, entries=entries)


def _is_scene(path: Path) -> bool:
    """Return whether a file has objects; one that cannot be read counts, so that opening it says why."""
    try:
        if path.stat().st_size > LARGEST_LISTED:
            return True
        return "objects" in tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return True


def _meshes(document: Document) -> dict[str, str]:
    """Return the names of objects by the files of their meshes."""
    meshes = {name: table.get("mesh") for name, table in document.objects.items()}
    return {
        str(mesh["file"]): name for name, mesh in meshes.items() if isinstance(mesh, dict) and "file" in mesh
    }
