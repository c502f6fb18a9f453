"""The store of a run's frames: a folder with its objects, once, and where they are, frame by frame."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from ..checks import Array, as_reals, check_integer, check_real, require_finite
from ..errors import InputError, PointglueError
from ..files import explain_write_errors, is_locked, lock
from .archives import ArchiveTemplate, Chunk, is_complete, read_archive, sync, write_archive, write_chunks
from .checkpoints import previous
from .frame_records import Frame, StoredObject

__all__ = ["FrameStore", "FrameTemplate", "PackedFrame"]

VERSION = 1
LOCK = ".lock"  # name of the file in the folder
DIGITS = 4  # of the numbers in file names, at least
TEMPORARY = ".*-[0-9a-f]" + "[0-9a-f]" * 7 + ".*"  # names as `files.temporary_path` makes them


@dataclass(frozen=True, eq=False)
class PackedFrame:
    """The file of a frame, to be written."""

    number: int
    about: dict[str, Any]
    """Number, time and statistics, as `FrameStore.about` returns them."""
    template: "FrameTemplate"
    """The template whose arrays hold the frame until it is written."""
    chunks: list[Chunk]
    """The bytes of the file."""


class FrameTemplate(ArchiveTemplate):
    """The file of a frame whose numbers are filled in.

    Points have 32 bits, as in programs that draw them, which takes half the time and space of 64 bits.

    Parameters
    ----------
    shapes : mapping
        The shapes of the arrays, by "points" or "transform" and then by the names of the objects.
    """

    def __init__(self, shapes: Mapping[str, Mapping[str, tuple[int, ...]]]) -> None:
        counts = [shape[0] for shape in shapes["points"].values()]
        self._points = np.zeros((sum(counts), 3), np.float32)
        self._transforms = np.zeros((len(shapes["transform"]), 4, 4))
        parts = iter(np.split(self._points, np.cumsum(counts)))
        self.arrays: dict[tuple[str, str], Array] = {}
        """The arrays to fill in, by "points" or "transform" and the name of the object."""
        self.arrays |= {("points", name): next(parts) for name in shapes["points"]}
        self.arrays |= {
            ("transform", name): T for name, T in zip(shapes["transform"], self._transforms, strict=True)
        }
        folders = {"points": "points", "transform": "transforms"}
        super().__init__({f"{folders[kind]}/{name}": array for (kind, name), array in self.arrays.items()})

    def require_finite(self, number: int) -> None:
        """Raise unless all numbers that were filled in for a frame are finite."""
        if np.isfinite(self._points).all() and np.isfinite(self._transforms).all():
            return
        for (kind, name), array in self.arrays.items():
            require_finite(f"{kind} of {name!r} in frame {number}", array)


class FrameStore:
    """A folder with the frames of a run: ``scene.npz``, ``frames/frame_0001.npz`` etc., ``stats.jsonl``.

    A frame is there in full or not at all, whatever happens to the process, and the same frame gives the same
    bytes; points are stored in 32 bits. One process at a time can write: it locks the folder until the store
    is closed, or the process ends. Stores are made by `create` and `open`.

    Parameters
    ----------
    directory : Path
        The folder.
    locked : IO of bytes, optional
        The open file that locks the folder, for a store that is written.

    Attributes
    ----------
    objects : tuple of StoredObject
        The objects of the run.
    rate : float
        Frames per second.
    scene_hash : str
        A text that differs from scene to scene.
    inputs : mapping or None
        What the hash was computed from, as JSON has it; None for runs of earlier versions.

    Examples
    --------
    >>> with FrameStore.create("out", objects, rate=24) as store:  # doctest: +SKIP
    ...     store.add(frame)
    """

    directory: Path
    objects: tuple[StoredObject, ...]
    rate: float
    scene_hash: str
    inputs: Mapping[str, Any] | None

    def __init__(self, directory: Path, locked: IO[bytes] | None = None) -> None:
        self.directory, self._lock = directory, locked
        self._unsynced: list[Path] = []

    @classmethod
    def create(
        cls,
        directory: str | os.PathLike[str],
        objects: Sequence[StoredObject],
        *,
        rate: float,
        scene_hash: str = "",
        inputs: Mapping[str, Any] | None = None,
        replace: bool = False,
    ) -> Self:
        """Begin a run.

        Parameters
        ----------
        directory : str or path
            The folder, which is made if there is none.
        objects : sequence of StoredObject
            The objects of the run.
        rate : float
            Frames per second.
        scene_hash : str
            A text that differs from scene to scene.
        inputs : mapping, optional
            What the hash was computed from, as JSON has it.
        replace : bool
            Whether to remove the frames, the statistics and the checkpoints of a run that the folder holds.

        Returns
        -------
        FrameStore
            The store, which this process can write to.

        Raises
        ------
        InputError
            If the folder holds a run that is not to be replaced, or an argument is not what it should be.
        PointglueError
            If another process is writing there, or the folder cannot be written to.
        """
        rate = check_real("rate", rate, above=0)
        names = [each.name for each in objects]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InputError(f"objects must have different names, got {twice[0]!r} twice")
        folder = Path(directory)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: is a file, not a folder")
        with explain_write_errors(folder):
            (folder / "frames").mkdir(parents=True, exist_ok=True)
        store = cls(folder, _lock(folder))
        try:
            store._begin(tuple(objects), rate, scene_hash, inputs, replace)
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def open(cls, directory: str | os.PathLike[str], *, write: bool = False) -> Self:
        """Open the run of a folder.

        Parameters
        ----------
        directory : str or path
            The folder.
        write : bool
            Whether to lock the folder, so that frames can be added.

        Returns
        -------
        FrameStore
            The store.

        Raises
        ------
        InputError
            If the folder holds no run, or a damaged one.
        PointglueError
            If it is to be written, and another process is writing there.
        """
        folder = Path(directory)
        if not (folder / "scene.npz").is_file():
            what = "holds no run: there is no scene.npz" if folder.is_dir() else "no such folder"
            raise InputError(f"{folder}: {what}")
        store = cls(folder, _lock(folder) if write else None)
        try:
            store._read_scene()
            if write:
                store._remove_temporary_files()
        except BaseException:
            store.close()
            raise
        return store

    @property
    def growing(self) -> bool | None:
        """Whether a process is writing frames; None if the system cannot tell."""
        return is_locked(self.directory / LOCK)

    def close(self) -> None:
        """Release the lock of the folder, so that other processes can write."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def checkpoint(self) -> Path:
        """The file for the checkpoint of the run."""
        return self.directory / "checkpoint.npz"

    @property
    def stats(self) -> Path:
        """The file for the statistics of the run; see `StatsLog`."""
        return self.directory / "stats.jsonl"

    def add(self, frame: Frame) -> Path:
        """Write a frame, which replaces an earlier one of its number, and return its file."""
        return self.write(self.pack(frame, self.template()))

    def template(self) -> FrameTemplate:
        """Return a template for `pack`, which may be used for one frame after the other."""
        return FrameTemplate(self._shapes)

    def pack(self, frame: Frame, template: FrameTemplate) -> PackedFrame:
        """Return the file of a frame for `write`.

        The frame may change after this, the template only after `write`.
        """
        with np.errstate(over="ignore"):  # numbers too large for 32 bits are reported as not finite
            for kind, name, array in self._checked(frame):
                template.arrays[kind, name][:] = array
        template.require_finite(frame.number)
        known = {"number": int(frame.number), "time": float(frame.time), "stats": _numbers(frame.stats)}
        chunks = template.chunks({"frame": np.array(json.dumps(known))})
        return PackedFrame(frame.number, _about(known), template, chunks)

    def write(self, frame: PackedFrame) -> Path:
        """Write a frame that `pack` has made, and return its file."""
        if self._lock is None:
            raise InputError(f"{self.directory}: the store is open to read, not to write")
        path = self.path(frame.number)
        write_chunks(path, frame.chunks)
        self._unsynced.append(path)
        return path

    @property
    def unsynced(self) -> int:
        """The number of frames that this store has written and a power cut could destroy."""
        return len(self._unsynced)

    def sync(self) -> None:
        """Flush all added frames to the disk, so that a power cut cannot destroy them."""
        with explain_write_errors(self.directory):
            sync(*self._unsynced, self.directory / "frames")
        self._unsynced.clear()

    def path(self, number: int) -> Path:
        """Return the file of the frame with a number."""
        return Path(f"{self.directory}/frames/frame_{number:0{DIGITS}}.npz")  # quicker than with slashes

    def numbers(self) -> list[int]:
        """Return the numbers of the frames that are there, in order."""
        names = (re.fullmatch(r"frame_(\d{4,})\.npz", path.name) for path in self._frame_files())
        return sorted(int(name[1]) for name in names if name)

    def read(self, number: int) -> Frame:
        """Return the frame with a number.

        Raises
        ------
        InputError
            If it is missing or damaged; the message names its file and says what to do.
        """
        with _explain_repair():
            return self._read(number)

    def _read(self, number: int) -> Frame:
        """Return the frame with a number, or raise an error that names its file."""
        file = self.path(number)
        arrays = read_archive(file, "frame of a run")
        try:
            about = json.loads(str(arrays.pop("frame")))
            parts: dict[str, dict[str, Array]] = {"points": {}, "transforms": {}}
            for key, array in arrays.items():
                kind, name = key.split("/", 1)
                parts[kind][name] = array
            frame = Frame(
                number=about["number"],
                time=about["time"],
                points=parts["points"],
                transforms=parts["transforms"],
                stats=about["stats"],
            )
            for kind, name, array in self._checked(frame):
                require_finite(f"{kind} of {name!r} in frame {number}", array)
            if frame.number != number:
                raise InputError(f"holds frame {frame.number}")
        except InputError as error:
            raise InputError(f"{file}: {error}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{file}: is no frame of a run: {error}") from error
        return frame

    def about(self, number: int) -> dict[str, Any]:
        """Return the number of a frame, its time [s] and its statistics by name, without its points."""
        with _explain_repair():
            entry = read_archive(self.path(number), "frame of a run", only="frame")
        return _about(json.loads(str(entry["frame"])))

    def __iter__(self) -> Iterator[Frame]:
        """Iterate over all frames in order, one in memory at a time."""
        return (self.read(number) for number in self.numbers())

    def lost(self, numbers: Iterable[int]) -> list[int]:
        """Return the numbers, among those given, of frames that are missing or cut short."""
        return [number for number in numbers if not is_complete(self.path(number))]

    def damaged(self) -> list[int]:
        """Return the numbers of the frames that are there but cannot be read."""
        bad = []
        for number in self.numbers():
            try:
                self.read(number)
            except InputError:
                bad.append(number)
        return bad

    def positions(self, frame: Frame) -> dict[str, Array]:
        """Return the points (n, 3) of every object in a frame [m], by name, in the order of `objects`."""
        found: dict[str, Array] = {}
        for each in self.objects:
            if each.motion == "points":
                found[each.name] = frame.points[each.name]
            elif each.motion == "transform":
                T = frame.transforms[each.name]
                found[each.name] = each.rest @ T[:3, :3].T + T[:3, 3]
            else:
                found[each.name] = each.rest
        return found

    def _begin(
        self,
        objects: tuple[StoredObject, ...],
        rate: float,
        scene_hash: str,
        inputs: Mapping[str, Any] | None,
        replace: bool,
    ) -> None:
        """Remove an earlier run, and write the description of this one."""
        target = self.directory / "scene.npz"
        if target.exists() or self.numbers():
            if not replace:
                raise InputError(f"{self.directory}: holds a run already")
            # Checkpoints first: a run that has one, but not its frames, could not be resumed.
            for path in [self.checkpoint, previous(self.checkpoint), *self._frame_files(), self.stats]:
                with explain_write_errors(path):
                    path.unlink(missing_ok=True)
        self._remove_temporary_files()
        self.objects, self.rate, self.scene_hash, self.inputs = objects, rate, scene_hash, inputs
        about: dict[str, Any] = {"version": VERSION, "rate": rate, "scene_hash": scene_hash}
        about |= {} if inputs is None else {"inputs": inputs}
        about["objects"] = [
            {"name": each.name, "color": each.color, "radius": each.radius, "motion": each.motion}
            for each in objects
        ]
        arrays = {"scene": np.array(json.dumps(about))}
        for each in objects:
            for key in ("rest", "faces", "segments"):
                if (array := getattr(each, key)) is not None:
                    arrays[f"{key}/{each.name}"] = array
        write_archive(target, arrays, durable=True)

    def _read_scene(self) -> None:
        """Read the description of the run."""
        file = self.directory / "scene.npz"
        arrays = read_archive(file, "description of a run")
        try:
            about = json.loads(str(arrays["scene"]))
            if about["version"] > VERSION:
                raise InputError(
                    f"has version {about['version']}, but this pointglue reads up to {VERSION}: update it"
                )
            self.rate, self.scene_hash = about["rate"], about["scene_hash"]
            self.inputs = about.get("inputs")
            objects = []
            for known in about["objects"]:
                arrays_of = {
                    key: arrays.get(f"{key}/{known['name']}") for key in ("rest", "faces", "segments")
                }
                objects.append(StoredObject(**known | arrays_of))
            self.objects = tuple(objects)
        except InputError as error:
            raise InputError(f"{file}: {error}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{file}: is no description of a run: {error}") from error

    @cached_property
    def _shapes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """The shapes of the arrays of a frame, by "points" or "transform" and the names of the objects."""
        return {
            "points": {each.name: each.rest.shape for each in self.objects if each.motion == "points"},
            "transform": {each.name: (4, 4) for each in self.objects if each.motion == "transform"},
        }

    def _checked(self, frame: Frame) -> Iterator[tuple[str, str, Array]]:
        """Yield "points" or "transform", the name and the array of each object that moves, or raise."""
        number = frame.number
        check_integer("number of a frame", number, at_least=0)
        check_real(f"time of frame {number}", frame.time)
        for (kind, shapes), given in zip(self._shapes.items(), (frame.points, frame.transforms), strict=True):
            if shapes.keys() != given.keys():
                name = next(name for name in [*shapes, *given] if name not in given or name not in shapes)
                what = "has no" if name in shapes else "has"
                raise InputError(f"frame {number} {what} {kind} of {name!r}, unlike the description")
            for name, shape in shapes.items():
                array = as_reals(f"{kind} of {name!r}", given[name])
                if array.shape != shape:
                    raise InputError(f"{kind} of {name!r} must have shape {shape}, got {array.shape}")
                yield kind, name, array

    def _frame_files(self) -> list[Path]:
        """Return the files of all frames, in any order."""
        return list((self.directory / "frames").glob("frame_*.npz"))

    def _remove_temporary_files(self) -> None:
        """Remove the files that a killed process has left; no other process is writing."""
        for folder in (self.directory, self.directory / "frames"):
            for path in folder.glob(TEMPORARY):
                with explain_write_errors(path):
                    path.unlink(missing_ok=True)


@contextmanager
def _explain_repair() -> Iterator[None]:
    """Add to the message about a damaged frame what to do about it."""
    try:
        yield
    except InputError as error:
        if isinstance(error.__cause__, OSError):  # it is not there, or may well be complete
            raise
        raise InputError(
            f"{error}. Delete it and run the scene with --resume, which then computes all frames again"
        ) from error


def _lock(folder: Path) -> IO[bytes]:
    """Lock a folder for this process."""
    return lock(folder / LOCK, PointglueError(f"{folder}: another process is writing there"))


def _about(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a frame's file says about it, as in the statistics."""
    return {"frame": known["number"], "time": known["time"], **known["stats"]}


def _numbers(stats: Mapping[str, Any]) -> dict[str, float | int]:
    """Return statistics as Python's own numbers, which survive JSON to the last bit."""
    plain = {}
    for name, value in stats.items():
        number = value.item() if isinstance(value, np.generic | np.ndarray) and np.ndim(value) == 0 else value
        if not isinstance(number, int | float):
            raise InputError(f"stats[{name!r}] must be a number, got {value!r}")
        plain[str(name)] = number
    return plain
