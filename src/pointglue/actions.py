"""The actions of the commands, called after `cli` has read their options."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import typer

from .console import counted, progress_bar, tracked, warnings_in_a_line
from .errors import InputError, MissingDependencyError, PointglueError, SceneError

if TYPE_CHECKING:
    from .io import Handles
    from .scene.progress import ReportStyle

__all__ = ["benchmark_files", "deform_file", "render_folder", "run_benchmarks", "run_into_folder"]

# Functions import what they need when they run: `pointglue --help` takes a tenth of a second that way.

PICTURE_SIZE = (960, 540)  # pixels
CAMERA_DIRECTION = (0.55, 0.38, 1.0)  # from what the camera looks at to the camera


def benchmark_files() -> dict[str, Path]:
    """Return the benchmarks by name; they come with the source, not with the package, as their peers do."""
    for root in (Path(__file__).parents[2], Path.cwd()):
        if (root / "benchmarks" / "core.py").is_file():
            return {path.stem: path for path in sorted((root / "benchmarks").glob("[a-z]*.py"))}
    raise PointglueError(
        "the benchmarks are part of the source, not of the installed package: "
        "run this command in a checkout of pointglue, after pip install -e '.[bench]'"
    )


def run_benchmarks(name: str, *, markdown: bool, quick: bool, output: Path | None) -> None:
    """Run one benchmark, or "all"; print the tables, and write the rows to `output` as JSON."""
    folder = next(iter(benchmark_files().values())).parent
    sys.path.insert(0, str(folder))  # benchmarks import the code that they share from here
    try:
        racing = import_module("_racing")
        suites = racing.SUITES if name == "all" else [name]
        racing.run_suites(suites, markdown=markdown, quick=quick, output=output)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"the benchmark needs {error.name}: in the checkout, pip install -e '.[bench]'"
        ) from error


def deform_file(
    mesh: Path, handles: Path, output: Path, *, options: Mapping[str, Any], cache: Path | None, quiet: bool
) -> None:
    """Deform a mesh by the handles of a file, and write all frames.

    Parameters
    ----------
    mesh, handles, output : Path
        The mesh at rest, the file of handles, and the file to write.
    options : mapping
        Options of HandleDeformer that go before those of the file of handles.
    cache : Path or None
        The folder where distances are stored.
    quiet : bool
        Whether to print warnings only.
    """
    begin = perf_counter()
    for file in (handles, mesh):  # before anything is loaded to read them
        if not file.exists():
            raise InputError(f"{file}: no such file")

    from .deform.deformer import HandleDeformer
    from .io import open_output, read_handles, read_mesh
    from .io.signals import deferred, stoppable

    moves = read_handles(handles)
    frames = len(moves.frames) if moves.animated else None
    with warnings_in_a_line(moves.named), stoppable(lambda: "before all was written"):
        shape = read_mesh(mesh)
        with open_output(output, shape, frames) as out:
            with _naming_options(moves, options):
                deformer = HandleDeformer(
                    (shape.vertices, shape.faces),
                    moves.rest,
                    cache=cache,
                    progress=not quiet,
                    **{**moves.options, **options},
                )
            pose, flipped = None, []
            # Raised at any moment, an interruption may come in a finaliser, which swallows it.
            with deferred() as check:
                for k in tracked(range(len(moves.frames)), quiet):
                    check()
                    with _naming_options(moves, options):
                        pose = deformer.at(
                            moves.frames[k],
                            rotations=None if moves.rotations is None else moves.rotations[k],
                            previous=None if pose is None else pose.rotations,
                        )
                    flipped.append(len(pose.flipped))
                    out.add(pose.positions, None if shape.normals is None else pose.normals(shape.normals))
    if any(flipped):
        _warn_of_folds(flipped, len(shape.faces), frames is not None)
    if not quiet:
        counts = "" if frames is None else f"{counted(frames, 'frame')}, "
        counts += (
            f"{counted(len(shape.vertices), 'vertex', 'vertices')}, {counted(len(moves.rest), 'handle')}"
        )
        typer.echo(f"wrote {out.names} ({counts}, {perf_counter() - begin:.1f} s)")


def _warn_of_folds(flipped: Sequence[int], count: int, animated: bool) -> None:
    """Print how many of `count` triangles are turned over in the worst frame, given how many are in each."""
    worst = max(range(len(flipped)), key=flipped.__getitem__)
    text = f"{counted(flipped[worst], 'triangle')} of {count:,} turned over"
    if animated:
        text += f" in frame {worst + 1}, the worst of {counted(sum(map(bool, flipped)), 'frame')} with folds"
    text += ": move handles less far, or set more of them"
    typer.secho(f"pointglue: warning: {text}", fg="yellow", err=True)


@contextmanager
def _naming_options(moves: "Handles", options: Mapping[str, Any]) -> Iterator[None]:
    """Name the source of a setting that is refused: an option, or the handles file."""
    try:
        yield
    except InputError as error:
        text = moves.named(str(error))
        if text.startswith("cache "):
            raise InputError(f"{text}. Choose another folder with --cache, or --no-cache") from error
        given = any(text.startswith(f"{name} ") for name in options)
        raise InputError(f"--{text}" if given else f"{moves.path}: {text}") from error


def run_into_folder(
    scene: Path, output: Path, *, resume: bool, replace: bool, settings: Sequence[str], style: "ReportStyle"
) -> None:
    """Simulate a scene into a folder, and report on it.

    Parameters
    ----------
    scene, output : Path
        The scene file, and the folder.
    resume, replace : bool
        Whether to go on with the run in the folder, or to begin anew.
    settings : sequence of str
        Other values of keys, "frames.count=10" say.
    style : ReportStyle
        How to report.
    """
    from .io.signals import stoppable
    from .scene import parse_setting, run_scene
    from .scene.progress import print_problems, report_run

    if resume and replace:
        raise InputError("--resume and --replace exclude each other")
    overrides = dict(map(parse_setting, settings))
    frames = None

    def done() -> str:
        if frames is None or frames.store is None:
            return "before it began"
        written = frames.store.numbers()
        return f"after frame {written[-1]}" if written else "before the first frame"

    def again() -> list[str]:
        if frames is None:  # nothing has changed yet: the same command works again
            return sys.argv[1:]
        return [word for word in sys.argv[1:] if word not in ("--resume", "--replace")] + ["--resume"]

    try:
        with warnings_in_a_line(), stoppable(done, again):
            frames = run_scene(scene, output, resume=resume, replace=replace, overrides=overrides)
            with frames:
                report_run(frames, style)
    except SceneError as error:
        if style == "json":
            print_problems(error.problems)
        raise


def render_folder(
    directory: Path,
    output: Path | None = None,
    *,
    size: tuple[int, int] = PICTURE_SIZE,
    every: int = 1,
    movie: bool = True,
    ground: bool = True,
    direction: tuple[float, float, float] = CAMERA_DIRECTION,
    quiet: bool = False,
) -> None:
    """Draw the frames of a run, and print what was written; see `view.render_run`."""
    from .io.signals import stoppable
    from .view import Camera, render_run

    drawn = 0

    def count(done: int, total: int) -> None:
        nonlocal drawn
        drawn = done
        if progress is not None:
            progress(done, total)

    def again() -> list[str]:
        # A demo that is drawn need not be run again.
        return sys.argv[1:] if "render" in sys.argv[1:2] else ["render", str(directory)]

    with (
        stoppable(lambda: f"after {counted(drawn, 'picture')}", again),
        progress_bar("pictures", quiet) as progress,
    ):
        rendered = render_run(
            directory,
            output,
            size=size,
            every=every,
            movie=movie,
            ground=ground,
            camera=Camera(direction=direction),
            progress=count,
        )
    if not quiet:
        typer.echo(f"wrote {counted(len(rendered.pictures), 'picture')} to {rendered.sheet.parent}")
        for path in (rendered.movie, rendered.sheet):
            if path is not None:
                typer.echo(f"wrote {path}")
