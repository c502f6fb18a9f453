"""Pictures, a movie and a contact sheet of a run that has been written to a folder."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError, MissingDependencyError
from .arguments import picture_size
from .camera import Camera
from .output import Image, save_movie, save_png
from .picture import Picture, Size
from .sheets import contact_sheet
from .tessellation import Floats

if TYPE_CHECKING:
    from ..io.frames import Frame, FrameStore

THUMBNAILS = 12
COLUMNS = 4
AROUND = 0.25  # of the size of the action: what of the things that stand still is sure to be seen beside it


@dataclass(frozen=True)
class Rendered:
    """What `render_run` has written."""

    pictures: tuple[Path, ...]
    sheet: Path
    movie: Path | None


def render_run(
    directory: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    size: Size = (960, 540),
    every: int = 1,
    movie: bool = True,
    ground: bool | float = True,
    camera: Camera | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Rendered:
    """Draw every frame of a run, or of those one in so many, every object in its colour.

    Writes ``frame_0001.png`` and on, ``contact_sheet.png`` and ``movie.mp4`` to `out`, or to the folder
    ``pictures`` of the run. The camera holds still and has all that moves in view, in all frames.
    The ground is below the lowest point of all frames, at a height, or not there (False). `progress` is
    called with the number of pictures done and of all.
    """
    from ..io.archives import writing
    from ..io.frames import FrameStore

    size = picture_size(size)
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise InputError(f"every must be a whole number from 1 up, got {every!r}")
    if movie and find_spec("imageio_ffmpeg") is None:  # now, rather than after an hour of drawing
        raise MissingDependencyError("movies need ffmpeg: pip install 'pointglue[movie]'")
    store = FrameStore.open(directory)
    numbers = store.numbers()[::every]
    if not numbers:
        raise InputError(f"{store.directory}: has no frames to draw")
    folder = store.directory / "pictures" if out is None else Path(out)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    held, lowest = _held(store, numbers, camera or Camera(), size)
    height = lowest if ground is True else ground
    chosen = {numbers[k] for k in np.linspace(0, len(numbers) - 1, THUMBNAILS).round().astype(int)}
    pictures: list[Path] = []
    thumbnails: list[Image] = []
    labels: list[str] = []

    def drawn() -> Iterator[Image]:
        for number in numbers:
            frame = store.read(number)
            image = _picture(store, frame, Picture(size=size, ground=height, camera=held))
            pictures.append(folder / f"{store.path(number).stem}.png")
            save_png(image, pictures[-1])
            if number in chosen:
                thumbnails.append(image)
                labels.append(f"frame {number},  {frame.time:.2f} s")
            if progress is not None:
                progress(len(pictures), len(numbers))
            yield image

    film = folder / "movie.mp4" if movie else None
    sheet = folder / "contact_sheet.png"
    with writing(folder):
        if film is not None:
            save_movie(drawn(), film, fps=store.rate / every)
        else:
            for _ in drawn():
                pass
        for old in set(folder.glob("frame_*.png")) - set(pictures):
            old.unlink()  # of an earlier run
        save_png(contact_sheet(thumbnails, labels, columns=COLUMNS), sheet)
    return Rendered(tuple(pictures), sheet, film)


def last_pictures(directories: Sequence[str | os.PathLike[str]], *, size: Size = (640, 360)) -> list[Image]:
    """The last frame of each of several runs, all seen by the same camera: to compare them."""
    from ..io.frames import FrameStore

    size = picture_size(size)
    stores = [FrameStore.open(directory) for directory in directories]
    ends = [store.read(store.numbers()[-1]) for store in stores if store.numbers()]
    if not stores or len(ends) < len(stores):
        raise InputError("directories must be those of runs with frames, at least one")
    placed = [store.positions(frame) for store, frame in zip(stores, ends, strict=True)]
    seen = np.concatenate(
        [
            _reach(points[look.name], look.radius)
            for store, points in zip(stores, placed, strict=True)
            for look in store.looks
        ]
    )
    camera = Camera().fit(seen, np.zeros(len(seen)), size[0] / size[1])
    ground = float(seen[:, 1].min())
    return [
        _picture(store, frame, Picture(size=size, ground=ground, camera=camera))
        for store, frame in zip(stores, ends, strict=True)
    ]


def _picture(store: "FrameStore", frame: "Frame", scene: Picture) -> Image:
    points = store.positions(frame)
    for look in store.looks:
        if look.faces is not None and len(look.faces):
            scene.mesh(points[look.name], look.faces, color=look.color)
        elif look.segments is not None and len(look.segments):
            scene.lines(points[look.name], segments=look.segments, radius=look.radius, color=look.color)
        else:
            scene.points(points[look.name], radius=look.radius, color=look.color)
    return scene.image()


def _held(store: "FrameStore", numbers: list[int], camera: Camera, size: Size) -> tuple[Camera, float]:
    """The camera that has all that moves in view all the time, and the height of the lowest point."""
    moving: list[Floats] = []
    for number in numbers:
        points = store.positions(store.read(number))
        moving += [_reach(points[look.name], look.radius) for look in store.looks if look.motion != "still"]
    still = [_reach(look.rest, look.radius) for look in store.looks if look.motion == "still"]
    action = np.concatenate(moving or still)
    lowest = float(min(part[:, 1].min() for part in [action, *still]))
    low, high = action.min(axis=0), action.max(axis=0)
    margin = AROUND * np.linalg.norm(high - low)
    seen = np.concatenate([action, *(np.clip(part, low - margin, high + margin) for part in still)])
    return camera.fit(seen, np.zeros(len(seen)), size[0] / size[1]), lowest


def _reach(points: Floats, radius: float | None) -> Floats:
    """The outermost points (k, 3) of a set (n, 3) of spheres: enough to know what room it takes."""
    ways = _directions()
    outermost = points[(ways @ points.T).argmax(axis=1)]
    return np.asarray(outermost + (radius or 0.0) * ways)


def _directions(count: int = 36) -> Floats:
    """Unit vectors (count + 6, 3): both ways along each axis, and evenly about (a Fibonacci sphere)."""
    k = np.arange(count) + 0.5
    height, turn = 1 - 2 * k / count, np.pi * (1 + np.sqrt(5)) * k
    radius = np.sqrt(1 - height**2)
    around = np.stack([radius * np.cos(turn), height, radius * np.sin(turn)], axis=1)
    return np.concatenate([np.eye(3), -np.eye(3), around])
