"""Arrays by name in one .npz file that appears when it is complete; the same arrays give the same bytes.

The archives are written here and not by `zipfile`, because frames are packed by the thread that computes
them. A frame of 340 kB in 20 arrays takes 0.27 ms of a core to pack and write to memory (tmpfs), by `zipfile`
with the same fixed dates 0.61 ms and by `numpy.savez` 0.80 ms; on ext4 it is 0.40, 0.72 and 1.08 ms
(best of 60, Python 3.11, NumPy 2; ``pointglue bench scenes`` measures it again). What the format without its
64-bit extension cannot hold, 4 GiB, is refused by the name of the file and of the array. Archives are read
by `zipfile`, which also verifies their checksums.
"""

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
from ..errors import InputError
from ..files import atomic_write, explain_write_errors

__all__ = [
    "ArchiveTemplate",
    "Chunk",
    "archive_path",
    "is_complete",
    "pack_archive",
    "read_archive",
    "sync",
    "write_archive",
    "write_chunks",
]

Chunk = bytes | bytearray | memoryview
"""Consecutive bytes of a file."""

# Every entry is dated the first of January 1980, or its bytes would depend on when it was written.
DOS_DATE = 1 << 5 | 1
UTF8_NAMES = 1 << 11  # flag of entries whose names are in UTF-8
DTYPE_KINDS = "biufcU"  # booleans, integers, reals, complex numbers, texts
CRC = struct.Struct("<I")
END_RECORD = struct.Struct("<4sHHHHIIH")  # the last bytes of an archive
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)  # which only Windows has
MAX_CHUNKS = 1000  # number of chunks that systems write in one call
MAX_BYTES = 2**32 - 2**20  # size of archives without the 64-bit extension, less room for the directory


def archive_path(path: str | os.PathLike[str], kind: str) -> Path:
    """Return the path of an archive of a `kind` (in the plural), or raise unless it can be one."""
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
    """Write arrays to `target`, see `write_chunks`."""
    try:
        chunks = pack_archive(arrays)
    except InputError as error:
        raise InputError(f"{target}: {error}") from error
    write_chunks(target, chunks, durable=durable, keep=keep)


def pack_archive(arrays: Mapping[str, Array]) -> list[Chunk]:
    """Return the chunks of an archive: entries that are not compressed, and their directory.

    The arrays themselves are among them, and must not change before they are written.
    """
    return ArchiveTemplate(arrays).chunks()


class ArchiveTemplate:
    """An archive of arrays that are written again and again with other numbers.

    Everything but the numbers and their checksums is put together once.

    Parameters
    ----------
    arrays : mapping of str to array
        Native numbers are referred to, so that `chunks` sees how they change; other arrays are copied.
    offset : int
        The position of the first entry in the file [bytes].

    Raises
    ------
    InputError
        If an array holds neither numbers nor texts, or the archive would be larger than `MAX_BYTES`.
    """

    def __init__(self, arrays: Mapping[str, Array], offset: int = 0) -> None:
        self._entries = []
        self._end = offset
        for name, array in arrays.items():
            values = np.asarray(array, order="C")
            if values.dtype.kind not in DTYPE_KINDS:
                raise InputError(f"{name} must hold numbers or texts, got dtype {values.dtype}")
            header, key = _npy_header(values.dtype.str, values.shape), f"{name}.npy".encode()
            size = len(header) + values.nbytes
            if self._end + size > MAX_BYTES:
                raise InputError(
                    f"arrays must take less than {MAX_BYTES:.3g} bytes in all, got more with {name!r}"
                )
            about = struct.pack("<HHHHHIIIHH", 20, UTF8_NAMES, 0, 0, DOS_DATE, 0, size, size, len(key), 0)
            # Made by version 2.0 on Unix, whatever this machine is; readable and writable by the owner.
            record = b"PK\1\2\x14\3" + about + struct.pack("<HHHII", 0, 0, 0, 0o600 << 16, self._end) + key
            head = b"PK\3\4" + about + key + header
            self._entries.append(
                _Entry(bytearray(head), zlib.crc32(header), _raw_bytes(values), bytearray(record))
            )
            self._end += len(head) + values.nbytes

    def chunks(self, further: Mapping[str, Array] | None = None) -> list[Chunk]:
        """Return the archive of what the arrays hold now and of further ones, to write before they change."""
        chunks: list[Chunk] = []
        directory: list[Chunk] = []
        entries, end = self._entries, self._end
        if further:
            more = ArchiveTemplate(further, end)
            entries, end = entries + more._entries, more._end
        for entry in entries:
            crc = zlib.crc32(entry.data, entry.header_crc)
            CRC.pack_into(entry.head, 14, crc)
            CRC.pack_into(entry.record, 16, crc)
            chunks += (entry.head, entry.data)
            directory.append(entry.record)
        records, count = b"".join(directory), len(directory)
        return [*chunks, records, END_RECORD.pack(b"PK\5\6", 0, 0, count, count, len(records), end, 0)]


class _Entry(NamedTuple):
    """One array of an archive."""

    head: bytearray
    """The entry up to the numbers; the checksum is written into it."""
    header_crc: int
    """The checksum of the .npy header, which that of the numbers continues."""
    data: Chunk
    """The numbers."""
    record: bytearray
    """The entry in the directory; the checksum is written into it as well."""


@lru_cache(1024)
def _npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Return what comes before the numbers in an .npy file."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    return header.getvalue()


def _raw_bytes(values: Array) -> Chunk:
    """Return the bytes of an array, without a copy if they are native numbers."""
    native = values.size and values.ndim and values.dtype.isnative and values.dtype.kind in "biuf"
    return values.data.cast("B") if native else values.tobytes()


def write_chunks(
    target: Path, chunks: Sequence[Chunk], *, durable: bool = False, keep: Path | None = None
) -> None:
    """Write a file that appears when it is complete.

    Parameters
    ----------
    target : Path
        The file.
    chunks : sequence of bytes
        What it holds.
    durable : bool
        Whether to return only when it is on the disk. At any moment the disk holds at least one complete
        file.
    keep : Path, optional
        The name that an earlier file gets; without one it is replaced.

    Raises
    ------
    PointglueError
        If the file cannot be written.
    """
    with explain_write_errors(target):
        with atomic_write(target) as temporary:
            _write(temporary, chunks)
            if durable:
                sync(temporary)
            if keep is not None and target.exists():
                target.replace(keep)
        if durable:
            sync(target.parent)


def _write(path: Path, chunks: Sequence[Chunk]) -> None:
    """Write a new file by the system's own calls: Python's files take half as long again for a frame."""
    handle = os.open(path, CREATE, 0o666)
    try:
        gathers = hasattr(os, "writev") and len(chunks) <= MAX_CHUNKS
        written = os.writev(handle, chunks) if gathers else 0
        if written == sum(map(len, chunks)):
            return
        left = memoryview(b"".join(chunks))[written:]
        while left:
            left = left[os.write(handle, left) :]
    finally:
        os.close(handle)


def sync(*paths: Path) -> None:
    """Flush files and folders to the disk, and return when they are there."""
    for path in paths:
        if os.name == "nt" and path.is_dir():
            continue  # Windows opens no folders
        handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def is_complete(file: Path) -> bool:
    """Return whether an archive is as long as its last bytes say: a quick check, for power cuts."""
    try:
        with file.open("rb") as archive:
            size = archive.seek(0, os.SEEK_END)
            archive.seek(max(size - END_RECORD.size, 0))
            end = archive.read()
    except OSError:
        return False
    if len(end) < END_RECORD.size:
        return False
    signature, *_, directory, offset, _ = END_RECORD.unpack(end)
    return bool(signature == b"PK\5\6" and offset + directory + END_RECORD.size == size)


def read_archive(file: Path, kind: str, *, only: str | None = None) -> dict[str, Array]:
    """Return every array of a file by name, or one.

    Parameters
    ----------
    file : Path
        The archive.
    kind : str
        What it should be, for the message if it is damaged.
    only : str, optional
        The name of the only array to read.

    Returns
    -------
    dict of str to array
        The arrays, by name.

    Raises
    ------
    InputError
        If the file is missing, cannot be read or is damaged; the message names it.
    """
    with _explain_read_errors(file, kind), zipfile.ZipFile(file) as archive:
        names = archive.namelist() if only is None else [f"{only}.npy"]
        return {name.removesuffix(".npy"): _array(archive, name) for name in names}


@contextmanager
def _explain_read_errors(file: Path, kind: str) -> Iterator[None]:
    """Turn any error into an InputError that names the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{file}: no such file") from error
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # of any kind: zipfile and numpy do not say what damage makes them raise
        raise InputError(f"{file}: is damaged or no {kind}: {str(error) or 'it ends early'}") from error


def _array(archive: zipfile.ZipFile, name: str) -> Array:
    """Return one array; its entry is read to the end, where the checksum is verified."""
    with archive.open(name) as entry:
        array: Array = np.lib.format.read_array(entry, allow_pickle=False)
        entry.read()
    return array
