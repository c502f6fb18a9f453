"""What a run leaves on disk: what the objects look like, once, and where they are, frame by frame."""

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal, Self, get_args

import numpy as np

from ..checks import Array, as_array, as_reals, require_finite
from ..errors import InputError
from .archives import Form, Part, ends_whole, read_archive, sync, write_archive, write_content, writing
from .checkpoints import previous
from .locks import is_locked, lock

__all__ = ["Frame", "FrameStore", "Look"]

VERSION = 1
DIGITS = 4
DRAFTS = ".*-[0-9a-f]" + "[0-9a-f]" * 7 + ".*"  # as `files.draft_name` makes them

Motion = Literal["points", "transform", "still"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Look:
    """One object: a mesh if it has faces, lines if it has segments, points otherwise."""

    name: str
    """Of its own in the scene, without slashes and control characters."""
    rest: Array
    """Where its points are before anything moves (n, 3), in metres."""
    faces: Array | None = None
    """(m, 3) rows of `rest`."""
    segments: Array | None = None
    """(m, 2) rows of `rest`."""
    color: tuple[float, float, float] = (0.6, 0.6, 0.6)
    """Red, green and blue in [0, 1], as on a screen (sRGB)."""
    radius: float | None = None
    """Of points and lines, in metres."""
    motion: Motion = "points"
    """What frames say of it: its points, a transform of the rest points, or nothing."""

    def __post_init__(self) -> None:
        """Check the values and keep copies that do not change."""
        name = self.name
        if not isinstance(name, str) or not name.strip() or re.search(r"[/\\\x00-\x1f\x7f]", name):
            raise InputError(
                f"name must be a text without slashes, backslashes and control characters, got {name!r}"
            )
        rest = _points(f"rest of {name!r}", self.rest)
        object.__setattr__(self, "rest", _kept(rest))
        if self.faces is not None and self.segments is not None:
            raise InputError(f"{name!r}: faces and segments exclude each other, got both")
        for key, columns in (("faces", 3), ("segments", 2)):
            if getattr(self, key) is not None:
                cells = as_array(f"{key} of {name!r}", getattr(self, key))
                if cells.shape[1:] != (columns,) or cells.dtype.kind not in "iu":
                    raise InputError(
                        f"{key} of {name!r} must be whole numbers of shape (m, {columns}), "
                        f"got {cells.dtype} of shape {cells.shape}"
                    )
                if cells.size and not 0 <= cells.min() <= cells.max() < len(rest):
                    raise InputError(
                        f"{key} of {name!r} must be rows of rest, 0 to {len(rest) - 1}, "
                        f"got {cells.min()} to {cells.max()}"
                    )
                object.__setattr__(self, key, _kept(cells.astype(np.int64)))
        color = as_reals(f"color of {name!r}", self.color)
        if color.shape != (3,) or not ((color >= 0) & (color <= 1)).all():
            raise InputError(f"color of {name!r} must be three numbers in [0, 1], got {self.color!r}")
        object.__setattr__(self, "color", tuple(color.tolist()))
        if self.radius is not None and not 0 < self.radius < math.inf:
            raise InputError(f"radius of {name!r} must be positive, got {self.radius!r}")
        if self.motion not in get_args(Motion):
            raise InputError(
                f"motion of {name!r} must be one of {', '.join(get_args(Motion))}, got {self.motion!r}"
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class Frame:
    """Where everything is at one time."""

    number: int
    """From 0 up; the time code in USD files."""
    time: float
    """In seconds."""
    points: Mapping[str, Array] = field(default_factory=dict)
    """(n, 3) by the names of objects whose motion is "points"."""
    transforms: Mapping[str, Array] = field(default_factory=dict)
    """(4, 4) by the names of objects whose motion is "transform": x = T @ (rest, 1)."""
    stats: Mapping[str, float | int] = field(default_factory=dict)
    """Numbers about the work, by name."""


@dataclass(frozen=True, eq=False)
class PackedFrame:
    """The file of a frame, before it is one."""

    number: int
    about: dict[str, Any]
    """As `FrameStore.about` gives it."""
    form: "FrameForm"
    content: list[Part]


class FrameForm(Form):
    """The file of a frame, to be filled in.

    Points have 32 bits, as all who draw them have them: half the time and room of 64.
    """

    def __init__(self, shapes: Mapping[str, Mapping[str, tuple[int, ...]]]) -> None:
        """See `FrameStore._shapes`."""
        counts = [shape[0] for shape in shapes["points"].values()]
        self._points = np.zeros((sum(counts), 3), np.float32)
        self._transforms = np.zeros((len(shapes["transform"]), 4, 4))
        parts = iter(np.split(self._points, np.cumsum(counts)))
        self.arrays: dict[tuple[str, str], Array] = {}
        """What is to be filled in, by its kind and the name of the object."""
        self.arrays |= {("points", name): next(parts) for name in shapes["points"]}
        self.arrays |= {
            ("transform", name): T for name, T in zip(shapes["transform"], self._transforms, strict=True)
        }
        folders = {"points": "points", "transform": "transforms"}
        super().__init__({f"{folders[kind]}/{name}": array for (kind, name), array in self.arrays.items()})

    def require_finite(self, number: int) -> None:
        """Raise unless all that is filled in for a frame is finite."""
        if np.isfinite(self._points).all() and np.isfinite(self._transforms).all():
            return
        for (kind, name), array in self.arrays.items():
            require_finite(f"{kind} of {name!r} in frame {number}", array)


class FrameStore:
    """A folder with the frames of a run: ``scene.npz``, ``frames/frame_0001.npz`` and on, ``stats.jsonl``.

    A frame is there whole or not at all, whatever happens to the process, and the same frame gives the same
    bytes; points are kept in 32 bits. One process at a time can write; it holds the folder until the store
    is closed, or it ends:

        with FrameStore.create("out", looks, rate=24) as store:
            store.add(frame)
    """

    directory: Path
    looks: tuple[Look, ...]
    rate: float
    """Frames per second."""
    scene_hash: str
    """What tells this scene from others."""
    inputs: Mapping[str, Any] | None
    """What the hash is of, if that is known: it is not of runs of earlier versions."""

    def __init__(self, directory: Path, held: IO[bytes] | None = None) -> None:
        """See `create` and `open`."""
        self.directory, self._lock = directory, held
        self._unsynced: list[Path] = []

    @classmethod
    def create(
        cls,
        directory: str | os.PathLike[str],
        looks: Sequence[Look],
        *,
        rate: float,
        scene_hash: str = "",
        inputs: Mapping[str, Any] | None = None,
        replace: bool = False,
    ) -> Self:
        """Begin a run; a folder that holds one is refused, unless it is to be replaced.

        The folder is made. Replacing removes the frames, the statistics and the checkpoints of the other run.
        `inputs` are what the hash is of, as JSON has it.
        """
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
            raise InputError(f"rate must be a positive number of frames per second, got {rate!r}")
        names = [look.name for look in looks]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise InputError(f"looks must have names of their own, got {twice[0]!r} twice")
        folder = Path(directory)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder}: is a file, not a folder")
        with writing(folder):
            (folder / "frames").mkdir(parents=True, exist_ok=True)
        store = cls(folder, lock(folder))
        try:
            store._begin(tuple(looks), float(rate), scene_hash, inputs, replace)
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def open(cls, directory: str | os.PathLike[str], *, write: bool = False) -> Self:
        """The run that is in a folder, to look at or, with `write`, to go on with."""
        folder = Path(directory)
        if not (folder / "scene.npz").is_file():
            what = "holds no run: there is no scene.npz" if folder.is_dir() else "no such folder"
            raise InputError(f"{folder}: {what}")
        store = cls(folder, lock(folder) if write else None)
        try:
            store._read_scene()
            if write:
                store._remove_drafts()
        except BaseException:
            store.close()
            raise
        return store

    @property
    def growing(self) -> bool | None:
        """Whether a process is writing there; None if the system cannot tell."""
        return is_locked(self.directory)

    def close(self) -> None:
        """Let other processes write."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def checkpoint(self) -> Path:
        """Where the checkpoint of the run belongs."""
        return self.directory / "checkpoint.npz"

    @property
    def stats(self) -> Path:
        """Where the statistics of the run belong; see `StatsLog`."""
        return self.directory / "stats.jsonl"

    def add(self, frame: Frame) -> Path:
        """Write a frame, in place of an earlier one of its number. Where the folder is full, it says so."""
        return self.write(self.pack(frame, self.form()))

    def form(self) -> "FrameForm":
        """A form for `pack` to fill in, as often as one likes."""
        return FrameForm(self._shapes)

    def pack(self, frame: Frame, form: "FrameForm") -> "PackedFrame":
        """What `write` writes. The frame may change after this, its form only when it is written."""
        with np.errstate(over="ignore"):  # what is too large for 32 bits is told as what is not finite
            for kind, name, array in self._checked(frame):
                form.arrays[kind, name][:] = array
        form.require_finite(frame.number)
        known = {"number": frame.number, "time": float(frame.time), "stats": _numbers(frame.stats)}
        content = form.parts({"frame": np.array(json.dumps(known))})
        return PackedFrame(frame.number, _about(known), form, content)

    def write(self, frame: "PackedFrame") -> Path:
        """Write what `pack` has made of a frame."""
        if self._lock is None:
            raise InputError(f"{self.directory}: the store is open to read, not to write")
        path = self.path(frame.number)
        write_content(path, frame.content)
        self._unsynced.append(path)
        return path

    @property
    def unsynced(self) -> int:
        """How many frames this store has written that a power cut may take."""
        return len(self._unsynced)

    def sync(self) -> None:
        """Return when all frames added are on the disk, whatever happens to the machine."""
        with writing(self.directory):
            sync(*self._unsynced, self.directory / "frames")
        self._unsynced.clear()

    def path(self, number: int) -> Path:
        """Where the frame of a number is."""
        return Path(f"{self.directory}/frames/frame_{number:0{DIGITS}}.npz")  # quicker than with slashes

    def numbers(self) -> list[int]:
        """The numbers of the frames that are there, in order."""
        names = (re.fullmatch(r"frame_(\d{4,})\.npz", path.name) for path in self._frame_files())
        return sorted(int(name[1]) for name in names if name)

    def read(self, number: int) -> Frame:
        """The frame of a number; the error for a missing or damaged one names its file."""
        with _saying_how_to_mend_it():
            return self._read(number)

    def _read(self, number: int) -> Frame:
        file = self.path(number)
        arrays = read_archive(file, "frame of a run")
        try:
            about = json.loads(str(arrays.pop("frame")))
            parts: dict[str, dict[str, Array]] = {"points": {}, "transforms": {}}
            for key, array in arrays.items():
                kind, name = key.split("/", 1)
                parts[kind][name] = array
            frame = Frame(number=about["number"], time=about["time"], stats=about["stats"], **parts)
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
        """The number of a frame, its time (s) and its statistics by name, without where anything is."""
        with _saying_how_to_mend_it():
            entry = read_archive(self.path(number), "frame of a run", only="frame")
        return _about(json.loads(str(entry["frame"])))

    def __iter__(self) -> Iterator[Frame]:
        """All frames in order, one in memory at a time."""
        return (self.read(number) for number in self.numbers())

    def lost(self, numbers: Iterable[int]) -> list[int]:
        """Those of the numbers whose frame is not there, or cut short."""
        return [number for number in numbers if not ends_whole(self.path(number))]

    def damaged(self) -> list[int]:
        """The numbers of frames that are there but cannot be read: a fault of the disk, or a strange file."""
        bad = []
        for number in self.numbers():
            try:
                self.read(number)
            except InputError:
                bad.append(number)
        return bad

    def positions(self, frame: Frame) -> dict[str, Array]:
        """The points (n, 3) of every object in a frame, by name, in the order of `looks`."""
        found: dict[str, Array] = {}
        for look in self.looks:
            if look.motion == "points":
                found[look.name] = frame.points[look.name]
            elif look.motion == "transform":
                T = frame.transforms[look.name]
                found[look.name] = look.rest @ T[:3, :3].T + T[:3, 3]
            else:
                found[look.name] = look.rest
        return found

    def _begin(
        self,
        looks: tuple[Look, ...],
        rate: float,
        scene_hash: str,
        inputs: Mapping[str, Any] | None,
        replace: bool,
    ) -> None:
        target = self.directory / "scene.npz"
        if target.exists() or self.numbers():
            if not replace:
                raise InputError(f"{self.directory}: holds a run already")
            # Checkpoints first: with one, but without its frames, a run could not go on.
            for path in [self.checkpoint, previous(self.checkpoint), *self._frame_files(), self.stats]:
                with writing(path):
                    path.unlink(missing_ok=True)
        self._remove_drafts()
        self.looks, self.rate, self.scene_hash, self.inputs = looks, rate, scene_hash, inputs
        about: dict[str, Any] = {"version": VERSION, "rate": rate, "scene_hash": scene_hash}
        about |= {} if inputs is None else {"inputs": inputs}
        about["objects"] = [
            {"name": look.name, "color": look.color, "radius": look.radius, "motion": look.motion}
            for look in looks
        ]
        arrays = {"scene": np.array(json.dumps(about))}
        for look in looks:
            for key in ("rest", "faces", "segments"):
                if (array := getattr(look, key)) is not None:
                    arrays[f"{key}/{look.name}"] = array
        write_archive(target, arrays, durable=True)

    def _read_scene(self) -> None:
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
            looks = []
            for known in about["objects"]:
                arrays_of = {
                    key: arrays.get(f"{key}/{known['name']}") for key in ("rest", "faces", "segments")
                }
                looks.append(Look(**known | arrays_of))
            self.looks = tuple(looks)
        except InputError as error:
            raise InputError(f"{file}: {error}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{file}: is no description of a run: {error}") from error

    @cached_property
    def _shapes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """Of what a frame says of the objects, by its kind and their names."""
        return {
            "points": {look.name: look.rest.shape for look in self.looks if look.motion == "points"},
            "transform": {look.name: (4, 4) for look in self.looks if look.motion == "transform"},
        }

    def _checked(self, frame: Frame) -> Iterator[tuple[str, str, Array]]:
        """Kind, name and array of all that a frame says, if it is what the objects need."""
        number = frame.number
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InputError(f"number of a frame must be a whole number from 0 up, got {number!r}")
        if not math.isfinite(frame.time):
            raise InputError(f"time of frame {number} must be finite, got {frame.time!r}")
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
        return list((self.directory / "frames").glob("frame_*.npz"))

    def _remove_drafts(self) -> None:
        """Remove what a process that was killed has left; nobody else is writing."""
        for folder in (self.directory, self.directory / "frames"):
            for draft in folder.glob(DRAFTS):
                with writing(draft):
                    draft.unlink(missing_ok=True)


@contextmanager
def _saying_how_to_mend_it() -> Iterator[None]:
    """Say what to do about a frame that is there but cannot be used."""
    try:
        yield
    except InputError as error:
        if isinstance(error.__cause__, OSError):  # it is not there, or may well be whole
            raise
        raise InputError(
            f"{error}. Delete it and run the scene with --resume, which then computes all frames again"
        ) from error


def _points(name: str, value: Any) -> Array:
    points = as_reals(name, value)
    if points.ndim != 2 or points.shape[1] != 3 or not len(points):
        raise InputError(f"{name} must have shape (n, 3), got {points.shape}")
    require_finite(name, points)
    return points


def _kept(array: Array) -> Array:
    """A copy that does not change."""
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy


def _about(known: Mapping[str, Any]) -> dict[str, Any]:
    """What a frame's file says of it, as statistics have it."""
    return {"frame": known["number"], "time": known["time"], **known["stats"]}


def _numbers(stats: Mapping[str, Any]) -> dict[str, float | int]:
    """Statistics as Python's own numbers, which a text gives back to the last bit."""
    plain = {}
    for name, value in stats.items():
        number = value.item() if isinstance(value, np.generic | np.ndarray) and np.ndim(value) == 0 else value
        if not isinstance(number, int | float):
            raise InputError(f"stats[{name!r}] must be a number, got {value!r}")
        plain[str(name)] = number
    return plain
