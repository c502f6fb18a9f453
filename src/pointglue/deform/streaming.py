"""Handle deformation of clouds larger than memory: points stream from file to file, a chunk at a time.

Every point is independent of the others, so the result is that of one `HandleDeformer` over all of
them, to the last bit, whatever the chunk and whichever machine works on it.
"""

import os
import shutil
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from ..checks import Array, as_reals, check_integer, require_finite
from ..compute import threads
from ..errors import InputError
from ..files import atomic_write
from .deformer import HandleDeformer

__all__ = ["deform_cloud"]

FilePath = str | os.PathLike[str]
Piece = tuple[int, int]

PLY_ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">"}
PLY_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4",
    "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4",
    "float32": "f4", "double": "f8", "float64": "f8",
}  # fmt: skip
LONGEST_LINE = 1 << 16  # bytes of a line of a header: what is no PLY file may have no line ends at all


def deform_cloud(
    source: FilePath | ArrayLike,
    target: FilePath | Array,
    handles: ArrayLike,
    handles_now: ArrayLike,
    *,
    falloff: float = 1.0,
    stretch: float = 0.0,
    weights: ArrayLike | None = None,
    radii: ArrayLike | None = None,
    rotations: ArrayLike | None = None,
    scale: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    chunk: int = 200_000,
    client: Any = None,
    progress: bool = False,
) -> None:
    """Deform a cloud of points chunk by chunk, as handles move.

    Distances are Euclidean. The points are read twice: all are checked first. Normals nx, ny, nz of records
    and vertices turn along; all other fields are kept.

    Parameters
    ----------
    source : path or array
        One of

        - a .npy file of points (n, 3) or (n, 2), float32 or float64 [m];
        - a .npy file of records with fields x, y, z in either case. Whole numbers, as in LAS files, stand
          for ``number * scale + offset``, and are rounded on the way back;
        - a binary .ply file, whose other elements are copied as they are;
        - an array of points or records.
    target : path or array
        A file of the same kind, or a .npy file for the points or records alone, or an array like the source.
        A file appears when it is complete: an earlier one is left as it was until then, and may be the source
        itself. An array is filled on the way, and may be the source too.
    handles : (H, d)
        The handles at rest [m].
    handles_now : (H, d)
        Where they move to [m].
    falloff, stretch, weights, radii
        As for :class:`HandleDeformer`.
    rotations : (H, d, d), optional
        How handles with radii are turned.
    scale, offset : float or (3,), optional
        The step and the origin of coordinates that are whole numbers [m].
    chunk : int
        The number of points that are in memory at a time, in about ``8 chunk (H + 30)`` bytes, twice that
        with radii or normals.
    client : dask.distributed.Client, optional
        Its cluster works on the chunks, each in one thread of a worker. Source and target are then files that
        all workers reach by the same name, on a file system they share.
    progress : bool
        Whether a terminal shows a progress bar.

    Raises
    ------
    InputError
        If an argument is not of that kind, a point is not finite, or the target cannot hold the result.
    """
    cloud = _cloud(source, scale, offset)
    step = check_integer("chunk", chunk, at_least=1)
    if client is not None:
        if not hasattr(client, "nthreads") or getattr(client, "asynchronous", False):
            raise InputError(f"client must be a synchronous dask.distributed.Client, got {client!r}")
        if cloud.path is None or isinstance(target, np.ndarray):
            raise InputError("with a client, source and target must be files, got an array")
    count = cloud.shape[0]
    pieces = [(start, min(start + step, count)) for start in range(0, count, step)]
    options = {"falloff": falloff, "stretch": stretch, "weights": weights, "radii": radii}
    with _sink(target, cloud) as sink:
        bounds = np.stack(_over(pieces, cloud.bounds, client, progress, "checking points"))
        box = np.stack([bounds[:, 0].min(0), bounds[:, 1].max(0)])
        job = _Job(cloud, sink, box, handles, handles_now, rotations, options)
        job.deformer(box).at(handles_now, rotations=rotations)  # here, what is wrong with them comes to light
        _over(pieces, job.move, client, progress, "deforming points")


@dataclass(frozen=True, eq=False)
class _Cloud:
    """A cloud: rows in `array`, or in the file `path` from byte `begin` on, points or records with fields."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    array: Array | None = None
    path: Path | None = None
    begin: int = 0
    order: Literal["C", "F"] = "C"
    axes: tuple[str, ...] = ()
    normals: tuple[str, ...] = ()
    grid: tuple[Array, Array] | None = None

    def rows(self, start: int, stop: int) -> tuple[Array, list[Array]]:
        """Return a copy of some rows, and views of its coordinates."""
        rows = self.array
        if self.path is not None:  # mapped for no longer than this: pages once read count as our memory
            rows = np.memmap(self.path, self.dtype, "r", self.begin, self.shape, self.order)
        assert rows is not None
        rows = np.array(rows[start:stop], order="C")
        return rows, [rows[name] for name in self.axes] if self.axes else list(rows.T)

    def points(self, columns: list[Array]) -> Array:
        """Return the points (n, d) of some coordinates [m]."""
        points = np.stack([column.astype(np.float64) for column in columns], axis=1)
        return points if self.grid is None else points * self.grid[0] + self.grid[1]

    def bounds(self, start: int, stop: int) -> Array:
        """Return the least and greatest coordinates (2, d) of points, or raise if one is not finite."""
        points = self.points(self.rows(start, stop)[1])
        if not np.isfinite(points).all():
            k = int(np.isfinite(points).all(1).argmin())
            raise InputError(f"{self.name}: point {start + k} must be finite, got {points[k].tolist()}")
        return np.stack([points.min(0), points.max(0)])

    def store(self, values: Array, column: Array, start: int, axis: int) -> None:
        """Put coordinates of the points from `start` on into their column, if it can hold them."""
        if self.grid is None:
            with np.errstate(over="ignore"):
                fits = np.isfinite(values.astype(column.dtype))
        else:
            values = np.rint((values - self.grid[1][axis]) / self.grid[0][axis])
            limits = np.iinfo(column.dtype)
            fits = (values >= limits.min) & (values < limits.max + 1.0)
        if not fits.all():
            k = int((~fits).argmax())
            raise InputError(
                f"{self.name}: {'xyz'[axis]} of point {start + k} becomes {values[k]:.17g}, which does not "
                f"fit {column.dtype}" + ("" if self.grid is None else ": choose another scale or offset")
            )
        column[...] = values


@dataclass(frozen=True, eq=False)
class _Sink:
    """A target of rows: `array`, or the file `draft` from byte `begin` on, which is to become `path`."""

    array: Array | None = None
    path: Path = Path()
    draft: Path = Path()
    begin: int = 0

    def write(self, start: int, rows: Array) -> None:
        """Put rows in their place."""
        if self.array is not None:
            self.array[start : start + len(rows)] = rows
            return
        # Written, not mapped: so a full disk is an error and not the end of the process.
        with _naming(self.path), open(self.draft, "wb", opener=_existing) as file:
            file.seek(self.begin + start * rows[:1].nbytes)
            file.write(rows.view(np.uint8).data)


@dataclass(frozen=True, eq=False)
class _Job:
    """The work to be done with each chunk, on whichever machine."""

    cloud: _Cloud
    sink: _Sink
    box: Array
    handles: ArrayLike
    handles_now: ArrayLike
    rotations: ArrayLike | None
    options: dict[str, Any]

    def deformer(self, points: Array) -> HandleDeformer:
        """Return the deformer of some points and the corners of the cloud, by whose size handles are far."""
        shape = np.concatenate([points, self.box])
        return HandleDeformer(shape, self.handles, distance="euclidean", **self.options)

    def move(self, start: int, stop: int) -> None:
        """Deform some points into the sink."""
        rows, columns = self.cloud.rows(start, stop)
        deformer = self.deformer(self.cloud.points(columns))
        moved = deformer.deform(self.handles_now, rotations=self.rotations)
        for axis, column in enumerate(columns):
            self.cloud.store(moved[: len(rows), axis], column, start, axis)
        if self.cloud.normals:
            normals = [rows[name] for name in self.cloud.normals]
            rest = np.zeros(moved.shape)
            rest[: len(rows)] = np.stack(normals, axis=1)
            turned = deformer.at(self.handles_now, rotations=self.rotations).normals(rest)
            for axis, column in enumerate(normals):
                column[...] = turned[: len(rows), axis]
        self.sink.write(start, rows)


def _over(
    pieces: list[Piece], work: Callable[[int, int], Any], client: Any, progress: bool, title: str
) -> list[Any]:
    """Return the results of `work` over the pieces, in their order."""
    results, waiting, coming = [], deque[Any](), iter(pieces)
    bar: AbstractContextManager[Iterable[Piece]] = nullcontext(pieces)
    if progress and sys.stderr.isatty():
        from rich.console import Console  # here for the sake of start-up time
        from rich.progress import track

        bar = closing(cast(Generator[Piece], track(pieces, title, console=Console(stderr=True))))
    try:
        with bar as shown:
            for piece in shown:
                if client is None:
                    results.append(work(*piece))
                    continue
                # For each thread of the cluster, a task to work on and one to go on with.
                room = max(2 * sum(client.nthreads().values()), 2) - len(waiting)
                for task in islice(coming, max(room, 0)):
                    waiting.append(client.submit(_in_one_thread, work, task, pure=False))
                results.append(waiting[0].result())
                waiting.popleft()
    finally:
        if waiting:
            client.cancel(list(waiting))
    return results


def _in_one_thread(work: Callable[[int, int], Any], piece: Piece) -> Any:
    with threads(1):  # the cluster has its other threads at work on other chunks
        return work(*piece)


def _cloud(source: Any, scale: ArrayLike | None, offset: ArrayLike | None) -> _Cloud:
    """Open the source, and check it as far as that needs no points."""
    if isinstance(source, str | os.PathLike):
        path = Path(source).absolute()
        read = {".npy": _npy, ".ply": _ply}.get(path.suffix.lower())
        if read is None:
            raise InputError(f"source must be an array or end in .npy or .ply, got {os.fspath(source)!r}")
        try:
            cloud = read(path)
        except InputError:
            raise
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(f"source: cannot read {str(path)!r}: {why}") from error
    else:
        plain = isinstance(source, np.ndarray) and not isinstance(source, np.ma.MaskedArray)
        array = source if plain else as_reals("source", source)
        cloud = _Cloud("source", array.dtype, array.shape, array)
    shape, dtype, names = cloud.shape, cloud.dtype, cloud.dtype.names
    is_points = len(shape) == 2 and shape[1] in (2, 3) and _is_real(dtype)
    if not (is_points if names is None else len(shape) == 1):
        raise InputError(
            f"{cloud.name} must hold points (n, 3) or (n, 2) of float32 or float64, or records (n,) with "
            f"fields x, y, z, got shape {shape} of {dtype}"
        )
    if not shape[0]:
        raise InputError(f"{cloud.name} holds no points")
    if names is not None:
        cloud = replace(cloud, axes=_fields(dtype, "x", "y", "z"), normals=_fields(dtype, "nx", "ny", "nz"))
        if not cloud.axes:
            raise InputError(f"{cloud.name} must have fields x, y, z, once each, got {', '.join(names)}")
    for name in cloud.normals:
        if not _is_real(dtype[name]):
            raise InputError(f"{cloud.name}: {name} must be float32 or float64 to turn, got {dtype[name]}")
    return replace(cloud, grid=_grid(cloud, scale, offset))


def _is_real(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" and dtype.itemsize in (4, 8)


def _fields(dtype: np.dtype[Any], *wanted: str) -> tuple[str, ...]:
    """Return the fields of these (sorted) names, in either case; none unless each is there once."""
    found = sorted((name for name in dtype.names or () if name.lower() in wanted), key=str.lower)
    return tuple(found) if [name.lower() for name in found] == list(wanted) else ()


def _grid(cloud: _Cloud, scale: ArrayLike | None, offset: ArrayLike | None) -> tuple[Array, Array] | None:
    """Return scale and offset (3,) [m], None unless the coordinates are whole numbers."""
    kinds = [cloud.dtype[name] for name in cloud.axes]
    if all(map(_is_real, kinds)):
        if scale is not None or offset is not None:
            raise InputError(f"scale and offset are for whole numbers, not for those of {cloud.name}")
        return None
    if not all(kind.kind in "iu" for kind in kinds):
        raise InputError(
            f"{cloud.name}: x, y, z must all be float32 or float64, or all whole numbers, got "
            + ", ".join(map(str, kinds))
        )
    if scale is None:
        raise InputError(f"scale is missing: the coordinates of {cloud.name} are whole numbers")
    grid = []
    for name, value in (("scale", scale), ("offset", 0.0 if offset is None else offset)):
        given = as_reals(name, value).astype(np.float64)
        if given.shape not in ((), (3,)):
            raise InputError(f"{name} must be one number, or one each for x, y, z, got shape {given.shape}")
        require_finite(name, given)
        grid.append(np.broadcast_to(given, (3,)))
    if not (grid[0] > 0).all():
        raise InputError(f"scale must be positive, got {scale!r}")
    return grid[0], grid[1]


def _npy(path: Path) -> _Cloud:
    """Open an array of a .npy file."""
    rows = np.lib.format.open_memmap(path, mode="r")
    order: Literal["C", "F"] = "C" if rows.flags.c_contiguous else "F"
    return _Cloud(str(path), rows.dtype, rows.shape, None, path, rows.offset, order)


def _ply(path: Path) -> _Cloud:
    """Open the vertices of a binary PLY file; only its header is read."""
    order, elements = "", list[tuple[str, int, list[tuple[str, str]]]]()
    with path.open("rb") as file:
        if file.readline(LONGEST_LINE).strip() != b"ply":
            raise InputError(f"{path} is no PLY file: it does not begin with a line 'ply'")
        while True:
            line = file.readline(LONGEST_LINE)
            if not line.endswith(b"\n"):
                raise InputError(f"{path}: the header has no end")
            match line.decode("ascii", "replace").split():
                case ["end_header"]:
                    break
                case ["comment" | "obj_info", *_]:
                    pass
                case ["format", "ascii", _]:
                    raise InputError(
                        f"{path} is an ascii PLY file, and must be binary. Convert it, say with plyfile: "
                        "data = PlyData.read(path); data.text = False; data.write(path)"
                    )
                case ["format", kind, "1.0"] if kind in PLY_ORDERS:
                    order = PLY_ORDERS[kind]
                case ["element", name, number] if number.isdecimal():
                    elements.append((name, int(number), []))
                case ["property", "list", _, _, name] if elements:
                    elements[-1][2].append((name, "list"))
                case ["property", kind, name] if kind in PLY_TYPES and elements and order:
                    elements[-1][2].append((name, order + PLY_TYPES[kind]))
                case _:
                    raise InputError(f"{path}: the header has a line {line!r}")
        begin = file.tell()
        size = file.seek(0, os.SEEK_END)
    for name, count, properties in elements:
        if any(kind == "list" for _, kind in properties):
            raise InputError(f"{path}: element {name}, with lists, must not come before or be the vertices")
        dtype = np.dtype(properties)
        end = begin + count * dtype.itemsize
        if end > size:
            raise InputError(f"{path} is cut off: it has {size} bytes, and {count} of {name} end at {end}")
        if name == "vertex":
            return _Cloud(str(path), dtype, (count,), None, path, begin)
        begin = end
    raise InputError(f"{path} has no element vertex")


@contextmanager
def _sink(target: Any, cloud: _Cloud) -> Iterator[_Sink]:
    """Open the target: an array, or a file that takes its name when all went well."""
    if isinstance(target, np.ndarray):
        if target.shape != cloud.shape or target.dtype != cloud.dtype or not target.flags.writeable:
            raise InputError(
                f"target must be writeable and like the source, shape {cloud.shape} of {cloud.dtype}, got "
                f"shape {target.shape} of {target.dtype}"
            )
        if cloud.array is not None and np.shares_memory(cloud.array, target):
            layouts = [(rows.ctypes.data, rows.strides) for rows in (cloud.array, target)]
            if layouts[0] != layouts[1]:
                raise InputError(
                    "target overlaps the source without being it: points would be read after writing"
                )
        yield _Sink(target)
        return
    if not isinstance(target, str | os.PathLike):
        raise InputError(f"target must be a file name or an array, got {type(target).__name__}")
    path = Path(target).absolute()
    own = ".npy" if cloud.path is None else cloud.path.suffix.lower()
    if path.suffix.lower() not in (own, ".npy"):
        raise InputError(f"target must end in {' or '.join({own: 0, '.npy': 0})}, got {os.fspath(target)!r}")
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"target must be a file in a directory that is there, got {os.fspath(target)!r}")
    with atomic_write(path) as draft:
        with _naming(path):
            begin = _allocate(draft, cloud)
        yield _Sink(None, path, draft, begin)


def _allocate(draft: Path, cloud: _Cloud) -> int:
    """Write a file of the final size with everything but the rows; return the byte where those begin."""
    if draft.suffix.lower() == ".npy":
        rows = np.lib.format.open_memmap(draft, mode="w+", dtype=cloud.dtype, shape=cloud.shape)
        return int(rows.offset)
    assert cloud.path is not None
    with cloud.path.open("rb") as old, draft.open("wb") as new:
        new.write(old.read(cloud.begin))
        old.seek(cloud.shape[0] * cloud.dtype.itemsize, os.SEEK_CUR)
        new.seek(old.tell())
        shutil.copyfileobj(old, new)
        new.truncate()
    return cloud.begin


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Raise failures to write with the name of the file that was asked for, not of its draft."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _existing(path: str, flags: int) -> int:
    """Open an existing file for writing, without truncating what others wrote into it.

    A task that is late does not bring back a removed file. And nothing is read: a network file system
    would write a page back as a whole, with the old bytes of a neighbour.
    """
    return os.open(path, flags & ~(os.O_CREAT | os.O_TRUNC))
