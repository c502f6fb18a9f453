"""Arrays by name in one .npz file that is whole or not there, with the same bytes for the same arrays."""

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..checks import Array
from ..errors import InputError, PointglueError
from ..files import drafted

__all__ = [
    "Form",
    "archive_path",
    "ends_whole",
    "packed",
    "read_archive",
    "sync",
    "write_archive",
    "write_content",
    "writing",
]

Part = bytes | bytearray | memoryview

# Every entry of an archive is from the first of January 1980, or its bytes would tell when it was written.
DAY = 1 << 5 | 1
UTF8 = 1 << 11  # names of entries are
KINDS = "biufcU"  # booleans, whole, real and complex numbers, texts
CHECK = struct.Struct("<I")
END = struct.Struct("<4sHHHHIIH")  # what an archive ends with
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)  # which only Windows has
MOST_PARTS = 1000  # that systems write in one go
LARGEST = 2**32 - 2**20  # of archives without the extension for larger ones


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Say which file it is that cannot be written, and why."""
    try:
        yield
    except OSError as error:
        raise PointglueError(f"{target}: cannot be written: {error.strerror or error}") from error


def archive_path(path: str | os.PathLike[str], kind: str) -> Path:
    """The path of a file, if it can be one of an archive of this `kind`, in the plural."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path must be a file name, got {type(path).__name__}")
    file = Path(path)
    if file.suffix.lower() != ".npz":
        raise InputError(f"{file}: must end in .npz, as {kind} do")
    if file.is_dir():
        raise InputError(f"{file}: is a folder, not a file")
    return file


def write_archive(
    target: Path, arrays: Mapping[str, Array], *, durable: bool = False, keep: Path | None = None
) -> None:
    """Write arrays to `target`, see `write_content`."""
    write_content(target, packed(arrays), durable=durable, keep=keep)


def packed(arrays: Mapping[str, Array]) -> list[Part]:
    """An archive in parts, one after the other: entries that are not compressed, and their directory.

    The arrays themselves are among them, and not to be changed.
    """
    return Form(arrays).parts()


class Form:
    """Arrays by name that can be filled in and written again and again.

    All but the numbers and their checksums is put together once; `zipfile` takes five times as long for the
    few small arrays of a frame.
    """

    def __init__(self, arrays: Mapping[str, Array], at: int = 0) -> None:
        """Ordinary numbers are taken as they are, others are copied; entries begin at the byte `at`."""
        self._entries = []
        self._end = at
        for name, array in arrays.items():
            values = np.asarray(array, order="C")
            if values.dtype.kind not in KINDS:
                raise InputError(f"{name} must hold numbers or texts, got dtype {values.dtype}")
            head, key = _head(values.dtype.str, values.shape), f"{name}.npy".encode()
            size = len(head) + values.nbytes
            if self._end + size > LARGEST:
                raise InputError(
                    f"arrays must take less than {LARGEST:.3g} bytes in all, got more with {name!r}"
                )
            about = struct.pack("<HHHHHIIIHH", 20, UTF8, 0, 0, DAY, 0, size, size, len(key), 0)
            # Made by version 2.0 on Unix, whatever this machine is; readable and writable by the owner.
            record = b"PK\1\2\x14\3" + about + struct.pack("<HHHII", 0, 0, 0, 0o600 << 16, self._end) + key
            front = b"PK\3\4" + about + key + head
            self._entries.append(
                _Entry(bytearray(front), zlib.crc32(head), _content(values), bytearray(record))
            )
            self._end += len(front) + values.nbytes

    def parts(self, further: Mapping[str, Array] | None = None) -> list[Part]:
        """The archive of what the arrays hold now and of further ones, to be written before they change."""
        parts: list[Part] = []
        directory: list[Part] = []
        entries, end = self._entries, self._end
        if further:
            more = Form(further, end)
            entries, end = entries + more._entries, more._end
        for entry in entries:
            check = zlib.crc32(entry.data, entry.check)
            CHECK.pack_into(entry.front, 14, check)
            CHECK.pack_into(entry.record, 16, check)
            parts += (entry.front, entry.data)
            directory.append(entry.record)
        ends, count = b"".join(directory), len(directory)
        return [*parts, ends, END.pack(b"PK\5\6", 0, 0, count, count, len(ends), end, 0)]


class _Entry(NamedTuple):
    """Of an archive: what comes before the data, with the checksum of its .npy header, data and record."""

    front: bytearray
    check: int
    data: Part
    record: bytearray


@lru_cache(1024)
def _head(kind: str, shape: tuple[int, ...]) -> bytes:
    """What comes before the numbers in an .npy file."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": kind, "fortran_order": False, "shape": shape})
    return head.getvalue()


def _content(values: Array) -> Part:
    """The bytes of an array, not copied if they are ordinary numbers."""
    plain = values.size and values.ndim and values.dtype.isnative and values.dtype.kind in "biuf"
    return values.data.cast("B") if plain else values.tobytes()


def write_content(
    target: Path, content: Sequence[Part], *, durable: bool = False, keep: Path | None = None
) -> None:
    """Write a file that appears when it is complete.

    If `durable`, it is on the disk when this returns, and there is never less than one whole file on it.
    An earlier file is kept under the name `keep`.
    """
    with writing(target):
        with drafted(target) as draft:
            _write(draft, content)
            if durable:
                sync(draft)
            if keep is not None and target.exists():
                target.replace(keep)
        if durable:
            sync(target.parent)


def _write(path: Path, content: Sequence[Part]) -> None:
    """Write a file by the system's own calls: Python's files take half as long again for a frame."""
    handle = os.open(path, NEW, 0o666)
    try:
        gathers = hasattr(os, "writev") and len(content) <= MOST_PARTS
        written = os.writev(handle, content) if gathers else 0
        if written == sum(map(len, content)):
            return
        left = memoryview(b"".join(content))[written:]
        while left:
            left = left[os.write(handle, left) :]
    finally:
        os.close(handle)


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


def ends_whole(file: Path) -> bool:
    """Whether a file that `packed` made is as long as it says at its end: a quick look, for power cuts."""
    try:
        with file.open("rb") as archive:
            size = archive.seek(0, os.SEEK_END)
            archive.seek(max(size - END.size, 0))
            end = archive.read()
    except OSError:
        return False
    if len(end) < END.size:
        return False
    sign, *_, directory, at, _ = END.unpack(end)
    return bool(sign == b"PK\5\6" and at + directory + END.size == size)


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
