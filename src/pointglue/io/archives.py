"""Arrays by name in one .npz file that is whole or not there, with the same bytes for the same arrays."""

import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ..checks import Array
from ..errors import InputError, PointglueError
from ..files import drafted

__all__ = ["packed", "read_archive", "sync", "write_archive", "write_content", "writing"]

# Every entry of the archive is from this day, or its bytes would tell when it was written.
DAY = (1980, 1, 1, 0, 0, 0)


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Say which file it is that cannot be written, and why."""
    try:
        yield
    except OSError as error:
        raise PointglueError(f"{target}: cannot be written: {error.strerror or error}") from error


def write_archive(
    target: Path, arrays: Mapping[str, Array], *, durable: bool = False, keep: Path | None = None
) -> None:
    """Write arrays to `target`, see `write_content`."""
    write_content(target, packed(arrays), durable=durable, keep=keep)


def packed(arrays: Mapping[str, Array]) -> memoryview:
    """The archive as bytes. On a disk, going back to the head of every entry would take most of the time."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", DAY)
            entry.create_system = 3  # else it is that of this machine
            with archive.open(entry, "w", force_zip64=True) as file:
                values = np.asarray(array, order="C")
                np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(values))
                file.write(values.data)
    return whole.getbuffer()


def write_content(
    target: Path, content: memoryview, *, durable: bool = False, keep: Path | None = None
) -> None:
    """Write a file that appears when it is complete.

    If `durable`, it is on the disk when this returns, and there is never less than one whole file on it.
    An earlier file is kept under the name `keep`.
    """
    with writing(target):
        with drafted(target) as draft:
            draft.write_bytes(content)
            if durable:
                sync(draft)
            if keep is not None and target.exists():
                target.replace(keep)
        if durable:
            sync(target.parent)


def sync(*paths: Path) -> None:
    """Return when files and folders are on the disk, not only on their way there."""
    for path in paths:
        if os.name == "nt" and path.is_dir():
            continue  # Windows opens no folders
        handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def read_archive(file: Path, kind: str, *, only: str | None = None) -> dict[str, Array]:
    """Every array in a file, or one; the InputError for a damaged file says what `kind` of file it is no."""
    with _reading(file, kind), zipfile.ZipFile(file) as archive:
        names = archive.namelist() if only is None else [f"{only}.npy"]
        return {name.removesuffix(".npy"): _array(archive, name) for name in names}


@contextmanager
def _reading(file: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{file}: no such file") from error
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # of any kind: zipfile and numpy do not say what damage makes them raise
        raise InputError(f"{file}: is damaged or no {kind}: {str(error) or 'it ends early'}") from error


def _array(archive: zipfile.ZipFile, name: str) -> Array:
    with archive.open(name) as entry:
        array: Array = np.lib.format.read_array(entry, allow_pickle=False)
        entry.read()  # to the end, where what was written is compared with what has arrived
    return array
