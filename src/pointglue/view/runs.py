"""Pictures, a movie and a contact sheet of a run that is on disk."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from ..checks import Array, check_integer
from ..errors import InputError, MissingDependencyError
from ..files import explain_write_errors
from ..io.frame_records import Frame
from ..io.frames import FrameStore
from ..io.stats import read_stats, write_loads
from .arguments import Size, check_size
from .camera import Camera
from .charts import line_chart
from .output import Image, save_movie, save_png
from .picture import Picture
from .sheets import contact_sheet
from .tessellation import Floats

THUMBNAILS, COLUMNS = 12, 4  # of the contact sheet: pictures in all, and in a row
# Ratio to the size of what moves: how far around it things that stand still are sure to be seen.
SURROUNDINGS = 0.25


@dataclass(frozen=True)
class Rendered:
    """The files that `render_run` has written.

    Parameters
    ----------
    pictures : tuple of Path
        One for each frame drawn.
    sheet : Path
        The contact sheet.
    movie : Path or None
        The movie, if one was asked for.
    """

    pictures: tuple[Path, ...]
    sheet: Path
    movie: Path | None


def render_loads(
    directory: str | os.PathLike[str], out: str | os.PathLike[str] | None = None
) -> tuple[Path, Path]:
    """Write the loads of a run's attachments and contacts as a table and a chart.

    Parameters
    ----------
    directory : str or path
        The folder of the run, whose scene has asked for loads.
    out : str or path, optional
        The folder for both; by default ``pictures`` in that of the run.

    Returns
    -------
    table, chart : Path
        ``loads.csv`` and ``loads.png``: the size of forces [N] and torques [N m] over time.

    Raises
    ------
    InputError
        If the run has no loads.
    MissingDependencyError
        If Pillow is missing.
    PointglueError
        If a file cannot be written.
    """
    store = FrameStore.open(directory)
    stats = [line for line in read_stats(store) if line.get("loads")]
    if not stats:
        raise InputError(
            f"{store.directory}: has no loads: run its scene with output.loads = true, and with attachments "
            "or contact of implicit objects"
        )
    folder = store.directory / "pictures" if out is None else Path(out)
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    table, chart = folder / "loads.csv", folder / "loads.png"
    write_loads(table, stats)
    panels: dict[str, dict[str, Array]] = {}
    for key, unit in (("force", "N"), ("torque", "N m")):
        lines = panels.setdefault(f"{key} [{unit}]", {})
        for k, line in enumerate(stats):
            seen: Counter[str] = Counter()
            for load in line["loads"]:
                name = f"{load['kind']} of {load['from']}" + (f" and {load['to']}" if load["to"] else "")
                seen[name] += 1
                name += f" {seen[name]}" if seen[name] > 1 else ""
                values = lines.setdefault(name, np.full(len(stats), np.nan))
                values[k] = np.linalg.norm(load[key])
    save_png(line_chart(np.array([line["time"] for line in stats]), panels), chart)
    return table, chart


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
    """Draw the frames of a run, every object in its colour.

    It writes ``frame_0001.png`` etc., ``contact_sheet.png`` and ``movie.mp4``. The camera does not move, and
    everything that moves is in view in all frames.

    Parameters
    ----------
    directory : str or path
        The folder of the run, which may be under way.
    out : str or path, optional
        The folder for the pictures; by default ``pictures`` in that of the run.
    size : (int, int)
        Width and height [pixels].
    every : int
        Draw every n-th frame only.
    movie : bool
        Whether to write the movie.
    ground : bool or float
        The height of the ground [m]; True for the lowest point of all frames, False for none.
    camera : Camera, optional
        Where the pictures are taken from; target and distance are worked out if it has none.
    progress : callable, optional
        Called with the number of pictures drawn so far and the number of all pictures.

    Returns
    -------
    Rendered
        The files that were written.

    Raises
    ------
    InputError
        If an argument is not what it should be, or the folder has no frames.
    MissingDependencyError
        If Polyscope, OpenGL or ffmpeg is missing.
    PointglueError
        If a file cannot be written.
    """
    size = check_size(size)
    check_integer("every", every, at_least=1)
    if movie and find_spec("imageio_ffmpeg") is None:  # now, not after an hour of drawing
        raise MissingDependencyError("movies need ffmpeg: pip install 'pointglue[movie]'")
    store = FrameStore.open(directory)
    numbers = store.numbers()[::every]
    if not numbers:
        raise InputError(f"{store.directory}: has no frames to draw")
    folder = store.directory / "pictures" if out is None else Path(out)
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    fitted, lowest = run_camera(store, numbers, camera or Camera(), size)
    height = lowest if ground is True else ground
    chosen = {numbers[k] for k in np.linspace(0, len(numbers) - 1, THUMBNAILS).round().astype(int)}
    pictures: list[Path] = []
    thumbnails: list[Image] = []
    labels: list[str] = []

    def images() -> Iterator[Image]:
        for number in numbers:
            frame = store.read(number)
            image = _image(store, frame, Picture(size=size, ground=height, camera=fitted))
            pictures.append(folder / f"{store.path(number).stem}.png")
            save_png(image, pictures[-1])
            if number in chosen:
                thumbnails.append(image)
                labels.append(f"frame {number},  {frame.time:.2f} s")
            if progress is not None:
                progress(len(pictures), len(numbers))
            yield image

    movie_file = folder / "movie.mp4" if movie else None
    sheet = folder / "contact_sheet.png"
    with explain_write_errors(folder):
        if movie_file is not None:
            save_movie(images(), movie_file, fps=store.rate / every)
        else:
            for _ in images():
                pass
        for old in set(folder.glob("frame_*.png")) - set(pictures):
            old.unlink()  # from an earlier call
        save_png(contact_sheet(thumbnails, labels, columns=COLUMNS), sheet)
    return Rendered(tuple(pictures), sheet, movie_file)


def last_pictures(directories: Sequence[str | os.PathLike[str]], *, size: Size = (640, 360)) -> list[Image]:
    """Return images of the last frames of several runs, all seen by the same camera, to compare them.

    Parameters
    ----------
    directories : sequence of str or path
        The folders of the runs.
    size : (int, int)
        Width and height of each image [pixels].

    Returns
    -------
    list of (h, w, 3) of uint8
        An image of each run, in the given order.

    Raises
    ------
    InputError
        If there is no run, or one has no frames.
    MissingDependencyError
        If Polyscope or OpenGL is missing.
    """
    size = check_size(size)
    stores = [FrameStore.open(directory) for directory in directories]
    ends = [store.read(store.numbers()[-1]) for store in stores if store.numbers()]
    if not stores or len(ends) < len(stores):
        raise InputError("directories must name at least one run, and only runs that have frames")
    positions = [store.positions(frame) for store, frame in zip(stores, ends, strict=True)]
    seen = np.concatenate(
        [
            _extremes(points[stored.name], stored.radius)
            for store, points in zip(stores, positions, strict=True)
            for stored in store.objects
        ]
    )
    camera = Camera().fit(seen, np.zeros(len(seen)), size[0] / size[1])
    ground = float(seen[:, 1].min())
    return [
        _image(store, frame, Picture(size=size, ground=ground, camera=camera))
        for store, frame in zip(stores, ends, strict=True)
    ]


def _image(store: FrameStore, frame: Frame, picture: Picture) -> Image:
    """Return the image of an empty picture with the objects of a frame added to it."""
    points = store.positions(frame)
    for stored in store.objects:
        if stored.faces is not None and len(stored.faces):
            picture.mesh(points[stored.name], stored.faces, color=stored.color)
        elif stored.segments is not None and len(stored.segments):
            picture.lines(
                points[stored.name], segments=stored.segments, radius=stored.radius, color=stored.color
            )
        else:
            picture.points(points[stored.name], radius=stored.radius, color=stored.color)
    return picture.image()


def run_camera(store: FrameStore, numbers: list[int], camera: Camera, size: Size) -> tuple[Camera, float]:
    """Return the camera that has everything that moves in view in all frames, and the lowest height."""
    moving: list[Floats] = []
    for number in numbers:
        points = store.positions(store.read(number))
        moving += [
            _extremes(points[stored.name], stored.radius)
            for stored in store.objects
            if stored.motion != "still"
        ]
    still = [_extremes(stored.rest, stored.radius) for stored in store.objects if stored.motion == "still"]
    action = np.concatenate(moving or still)
    lowest = float(min(part[:, 1].min() for part in [action, *still]))
    low, high = action.min(axis=0), action.max(axis=0)
    margin = SURROUNDINGS * np.linalg.norm(high - low)
    seen = np.concatenate([action, *(np.clip(part, low - margin, high + margin) for part in still)])
    return camera.fit(seen, np.zeros(len(seen)), size[0] / size[1]), lowest


def _extremes(points: Floats, radius: float | None) -> Floats:
    """Return the outermost points (k, 3) of spheres at points (n, 3), from which their extent is known."""
    directions = _directions()
    outermost = points[(directions @ points.T).argmax(axis=1)]
    return np.asarray(outermost + (radius or 0.0) * directions)


def _directions(count: int = 36) -> Floats:
    """Return unit vectors (count + 6, 3): both ways along each axis, and a Fibonacci sphere."""
    k = np.arange(count) + 0.5
    height, turn = 1 - 2 * k / count, np.pi * (1 + np.sqrt(5)) * k
    radius = np.sqrt(1 - height**2)
    around = np.stack([radius * np.cos(turn), height, radius * np.sin(turn)], axis=1)
    return np.concatenate([np.eye(3), -np.eye(3), around])
