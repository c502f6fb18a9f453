"""The command line. No mathematics here."""

import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from .errors import InputError, MissingDependencyError, PointglueError, PointglueWarning, SceneError
from .files import user_cache
from .version import __version__

if TYPE_CHECKING:
    from .io import Handles

__all__ = ["app", "main"]

Number = TypeVar("Number", int, float)

app = typer.Typer(
    name="pointglue",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Physics-based animation and mesh deformation on the best-fit rigid transform.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pointglue {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def _benchmarks() -> Path:
    """The folder of benchmarks: they come with the source, not with the package, as their peers do."""
    for root in (Path(__file__).parents[2], Path.cwd()):
        if (root / "benchmarks" / "core.py").is_file():
            return root / "benchmarks"
    raise PointglueError(
        "the benchmarks are part of the source, not of the installed package: "
        "run this command in a checkout of pointglue, after pip install -e '.[bench]'"
    )


@app.command()
def bench(
    name: Annotated[
        str,
        typer.Argument(
            help="Which: core, glue, deform, particles, creatures, elastic, contact, scenes, studio, all of "
            "these by the name all, or jitter."
        ),
    ],
    markdown: Annotated[bool, typer.Option(help="Print the table as in the README.")] = False,
    quick: Annotated[bool, typer.Option(help="A tenth of the size, for a first look.")] = False,
    rows: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the rows to a JSON file as well.")
    ] = None,
) -> None:
    """Measure pointglue, against its peers where there are any, side by side in one run."""
    folder = _benchmarks()
    names = sorted(path.stem for path in folder.glob("[a-z]*.py"))
    if name not in (*names, "all"):
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(names)}, all", param_hint="NAME")
    sys.path.insert(0, str(folder))  # they share how they measure
    try:
        racing = import_module("_racing")
        suites = racing.SUITES if name == "all" else [name]
        racing.run_suites(suites, markdown=markdown, quick=quick, output=rows)
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"the benchmark needs {error.name}: in the checkout, pip install -e '.[bench]'"
        ) from error


class Distance(StrEnum):
    """How far a vertex is from a handle."""

    inside = "inside"
    euclidean = "euclidean"


@app.command()
def deform(
    mesh: Annotated[
        Path, typer.Argument(metavar="MESH", help="The mesh at rest, in any format that trimesh reads.")
    ],
    handles: Annotated[
        Path,
        typer.Argument(
            metavar="HANDLES.json", help="Where handles are and go: see docs/reference/handles-file.md."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="The mesh to write: .ply, .obj, .stl, .off, .glb or .gltf; several frames get numbers, "
            "out_0001.ply. Or .npy or .npz, for all frames in one array.",
        ),
    ],
    falloff: Annotated[
        float | None, typer.Option(show_default="1", help="Larger: handles act more locally.")
    ] = None,
    stretch: Annotated[
        float | None,
        typer.Option(show_default="0", help="How much vertices may scale: 0 is rigid, at most 1."),
    ] = None,
    damping: Annotated[
        float | None, typer.Option(show_default="0", help="Holds rotations back towards the frame before.")
    ] = None,
    distance: Annotated[
        Distance | None,
        typer.Option(show_default="inside", help="Through the inside of the mesh, or straight."),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            show_default="$POINTGLUE_CACHE, $XDG_CACHE_HOME/pointglue or ~/.cache/pointglue",
            help="Where distances are kept for the next run.",
        ),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Keep no distances.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print warnings and errors only.")] = False,
) -> None:
    """Move point handles, and the mesh follows as rigidly as it can.

    What the options set goes before what the handles file says.
    """
    begin = time.perf_counter()
    if no_cache and cache is not None:
        raise InputError("--cache and --no-cache exclude each other")
    chosen: dict[str, Any] = {"falloff": falloff, "stretch": stretch, "damping": damping}
    chosen["distance"] = None if distance is None else distance.value
    chosen = {name: value for name, value in chosen.items() if value is not None}
    from .deform import HandleDeformer
    from .io import open_output, read_handles, read_mesh
    from .io.signals import deferred, stoppable

    moves = read_handles(handles)
    frames = len(moves.frames) if moves.animated else None
    with _warnings_in_a_line(moves.named), stoppable(lambda: "before all was written"):
        shape = read_mesh(mesh)
        with open_output(output, shape, frames) as out:
            with _about(moves, chosen):
                deformer = HandleDeformer(
                    (shape.vertices, shape.faces),
                    moves.rest,
                    cache=None if no_cache else cache or user_cache(),
                    progress=not quiet,
                    **{**moves.options, **chosen},
                )
            pose = None
            for k in _shown(range(len(moves.frames)), quiet):
                with _about(moves, chosen), deferred():
                    pose = deformer.at(
                        moves.frames[k],
                        rotations=None if moves.rotations is None else moves.rotations[k],
                        previous=None if pose is None else pose.rotations,
                    )
                out.add(pose.positions, None if shape.normals is None else pose.normals(shape.normals))
    if not quiet:
        counts = "" if frames is None else f"{_count(frames, 'frame')}, "
        counts += f"{_count(len(shape.vertices), 'vertex', 'vertices')}, {_count(len(moves.rest), 'handle')}"
        typer.echo(f"wrote {out.names} ({counts}, {time.perf_counter() - begin:.1f} s)")


@app.command()
def check(
    scene: Annotated[Path | None, typer.Argument(metavar="SCENE.toml", help="The scene file.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another value for a key: frames.count=10."),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of scene files.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what it is made of as JSON.")] = False,
) -> None:
    """Say all that is wrong with a scene file at once, and what it is made of, without running it."""
    from .scene import check_scene, json_schema, parse_setting
    from .scene.status import print_summary, waiting

    if schema:
        typer.echo(json.dumps(json_schema(), indent=2))
    if scene is None:
        if not schema:
            raise typer.BadParameter("give a scene file, or --schema", param_hint="SCENE.toml")
        return
    with _warnings_in_a_line(str) as warned, waiting() as progress:
        simulation = check_scene(scene, dict(map(parse_setting, settings or [])), progress)
    if schema:
        return
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in simulation.objects], indent=2))
        return
    found = f"can be run, with {_count(len(warned), 'warning')}" if warned else "nothing is wrong"
    visible = _count(len(simulation.looks), "visible object")
    typer.echo(f"{scene}: {found} ({_count(simulation.frames.count, 'frame')}, {visible})")
    print_summary(simulation.objects)


@app.command()
def run(
    scene: Annotated[Path, typer.Argument(metavar="SCENE.toml", help="The scene file.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder for frames and other results.")
    ],
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that is in DIR.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Begin anew where a run has been.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another value for a key: frames.count=10."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print warnings and errors only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for every frame.")] = False,
) -> None:
    """Simulate a scene, frame by frame, into a folder.

    It can be stopped at any time, and goes on with --resume.
    """
    from .io.signals import stoppable
    from .scene import parse_setting, run_scene
    from .scene.progress import tell, tell_problems

    if resume and replace:
        raise InputError("--resume and --replace exclude each other")
    overrides = dict(map(parse_setting, settings or []))
    frames = None

    def done() -> str:
        if frames is None or frames.store is None:
            return "before it began"
        written = frames.store.numbers()
        return f"after frame {written[-1]}" if written else "before the first frame"

    def again() -> list[str]:
        if frames is None:  # what was there before, to be resumed or replaced, still is
            return sys.argv[1:]
        return [word for word in sys.argv[1:] if word not in ("--resume", "--replace")] + ["--resume"]

    try:
        with _warnings_in_a_line(str), stoppable(done, again):
            frames = run_scene(scene, output, resume=resume, replace=replace, overrides=overrides)
            with frames:
                tell(frames, "json" if as_json else "quiet" if quiet else "people")
    except SceneError as error:
        if as_json:
            tell_problems(error.problems)
        raise


@app.command()
def studio(
    start: Annotated[
        Path | None,
        typer.Argument(metavar="[MESH or SCENE or RUN]", help="What to open.", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
    host: Annotated[
        str, typer.Option(help="Another address than this machine's own: others can reach it there.")
    ] = "127.0.0.1",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address only.")] = False,
) -> None:
    """Open the design tool in the browser: bodies, handles, glue, simulation."""
    from .studio.server import serve

    serve(start, host=host, port=port, browser=not no_browser)


@app.command()
def render(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="OUT", show_default="DIR/pictures", help="Where they go."),
    ] = None,
    size: Annotated[str, typer.Option(metavar="WxH", help="Width and height in pixels.")] = "960x540",
    every: Annotated[int, typer.Option(metavar="N", help="Draw one frame in so many.")] = 1,
    movie: Annotated[bool, typer.Option(help="Make a movie of the pictures.")] = True,
    ground: Annotated[bool, typer.Option(help="Draw the ground.")] = True,
    direction: Annotated[
        str, typer.Option("--from", metavar="X,Y,Z", help="Where the camera is, from what it looks at.")
    ] = "0.55,0.38,1",
    quiet: Annotated[bool, typer.Option("--quiet", help="Print warnings and errors only.")] = False,
) -> None:
    """Draw the frames of a run: pictures, a movie, and a contact sheet."""
    from .io.signals import stoppable
    from .view import Camera, render_run

    width, height = _numbers("--size", size, "x", 2, int)
    x, y, z = _numbers("--from", direction, ",", 3, float)
    if not any((x, y, z)):
        raise InputError(
            f"--from must not be zero: say where the camera is, such as 0,0,1, got {direction!r}"
        )
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
        stoppable(lambda: f"after {_count(drawn, 'picture')}", again),
        _bar("pictures", quiet) as progress,
    ):
        made = render_run(
            directory,
            output,
            size=(width, height),
            every=every,
            movie=movie,
            ground=ground,
            camera=Camera(direction=(x, y, z)),
            progress=count,
        )
    if not quiet:
        typer.echo(f"wrote {_count(len(made.pictures), 'picture')} to {made.sheet.parent}")
        for path in (made.movie, made.sheet):
            if path is not None:
                typer.echo(f"wrote {path}")


class ExportFormat(StrEnum):
    """What other programs read."""

    usd = "usd"
    ply = "ply"
    obj = "obj"


@app.command()
def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run, finished or not.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            show_default="animation.usdc, ply or obj in DIR",
            help="A USD file (.usdc, .usda, .usd), or a folder for mesh files.",
        ),
    ] = None,
    format: Annotated[
        ExportFormat | None,
        typer.Option(show_default="usd", help="One USD file, or a PLY or OBJ file for each frame."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print warnings and errors only.")] = False,
) -> None:
    """Write the frames of a run for other programs: all that are there, whether it came to its end or not."""
    from .io import FrameStore, export_run
    from .io.signals import stoppable

    with stoppable(lambda: "before all was written"):
        store = FrameStore.open(directory)
        made = export_run(store, output, format=None if format is None else format.value)
    if not quiet:
        typer.echo(f"wrote {_count(len(store.numbers()), 'frame')} to {made}")


@app.command()
def demo(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Which: see --list.")] = None,
    every: Annotated[bool, typer.Option("--list", help="Say what there is, in a line each.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", show_default="out/NAME", help="The folder for results."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that is in DIR.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Begin anew where a run has been; out/NAME always does.")
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another value for a key: frames.count=10."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print warnings and errors only.")] = False,
) -> None:
    """Run a scene that comes with pointglue, and film it. Without a name, say which there are."""
    from .scene import demo_path, demo_titles

    if every or name is None:
        titles = demo_titles()
        for one, title in titles.items():
            typer.echo(f"{one:<{max(map(len, titles))}}  {title}")
        return
    path, folder = demo_path(name), output or Path("out") / name
    formats = ["output.formats=['usd']"] if find_spec("pxr") else []
    replace = replace or (output is None and not resume)
    run(path, folder, resume, replace, [*formats, *(settings or [])], quiet, False)
    if find_spec("polyscope") is None:
        typer.echo("for pictures: pip install 'pointglue[movie]', then pointglue render " + str(folder))
        return
    render(folder, movie=find_spec("imageio_ffmpeg") is not None, quiet=quiet)


@app.command()
def wedge(
    scene: Annotated[Path, typer.Argument(metavar="SCENE.toml", help="The scene file.")],
    settings: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="KEY=VALUES", help="Values for a key: a,b,c, or 0:1:5 for five from 0 to 1."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", show_default="out/SCENE_wedges", help="The folder for results."
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", show_default="all cores of this machine", help="Of a Dask scheduler."
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics", metavar="NAMES", help="Columns of the table: contacts,low.OBJECT,drift.OBJECT..."
        ),
    ] = None,
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Write the table as a Parquet file as well.")
    ] = False,
    sheet: Annotated[bool, typer.Option(help="Draw the last frame of each on one sheet.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print warnings and errors only.")] = False,
) -> None:
    """Run a scene for every combination of values, each into a folder of its own, with a table of all.

    What fails does not stop the others; what has been done is not done again.
    """
    from .io.signals import stoppable
    from .scene import draw_wedges, parse_sweep, run_wedges

    folder = output or Path("out") / f"{scene.stem}_wedges"
    through = "before the first wedge was through"

    def told(one: Any, done: int, count: int) -> None:
        nonlocal through
        through = f"with {done:,} of {_count(count, 'wedge')} through"
        if one.status == "failed":
            typer.secho(f"pointglue: {one.folder.name}: {one.error}", fg="red", err=True)
        elif not quiet:
            typer.echo(f"{done}/{count}  {one.folder.name}  {one.status} ({one.seconds:.1f} s)")

    files = [folder / "wedges.csv", *([folder / "wedges.parquet"] if parquet else [])]

    def stopped() -> str:
        return through + (f"; they are in {files[0]}" if files[0].exists() else "")

    with stoppable(stopped):
        wedges = run_wedges(
            scene,
            dict(map(parse_sweep, settings)),
            folder,
            scheduler=scheduler,
            metrics=[name.strip() for names in metrics or [] for name in names.split(",")],
            parquet=parquet,
            progress=told,
        )
        if sheet and find_spec("polyscope"):
            files += draw_wedges(wedges, folder / "contact_sheet.png")
    if not quiet:
        for path in files:
            typer.echo(f"wrote {path}")
    if any(one.status == "failed" for one in wedges):
        raise typer.Exit(1)


def _numbers(option: str, text: str, between: str, count: int, kind: type[Number]) -> list[Number]:
    try:
        numbers = [kind(part) for part in text.split(between)]
        usable = len(numbers) == count and all(map(math.isfinite, numbers))
    except (ValueError, OverflowError):
        usable = False
    if not usable:
        words = "whole numbers" if kind is int else "finite numbers"
        raise InputError(f"{option} must be {count} {words} with {between!r} between them, got {text!r}")
    return numbers


@contextmanager
def _bar(what: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar, if there is somebody to look at it: what is done, and how many there are."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what)
        yield lambda done, count: progress.update(task, completed=done, total=count)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


@contextmanager
def _about(moves: "Handles", chosen: dict[str, Any]) -> Iterator[None]:
    """Say where a setting that is refused comes from: an option, or the handles file."""
    try:
        yield
    except InputError as error:
        text = moves.named(str(error))
        if text.startswith("cache "):
            raise InputError(f"{text}. Choose another folder with --cache, or --no-cache") from error
        given = any(text.startswith(f"{name} ") for name in chosen)
        raise InputError(f"--{text}" if given else f"{moves.path}: {text}") from error


@contextmanager
def _warnings_in_a_line(named: Callable[[str], str]) -> Iterator[list[str]]:
    """Show warnings meant for people without source lines, but with the names of handles.

    Yields the list of those that have been shown.
    """
    shown: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", PointglueWarning)
        show = warnings.showwarning

        def in_a_line(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, PointglueWarning):
                shown.append(named(str(message)))
                typer.secho(f"pointglue: warning: {shown[-1]}", fg="yellow", err=True)
            else:
                show(message, category, *rest, **more)

        warnings.showwarning = in_a_line
        yield shown


def _shown(frames: range, quiet: bool) -> Iterable[int]:
    """The frames, with a progress bar if there are several and somebody to look at it."""
    if quiet or len(frames) < 2 or not sys.stderr.isatty():
        return frames
    from rich.console import Console
    from rich.progress import track

    return track(frames, "frames", console=Console(stderr=True))


def main() -> None:
    """Run the command line; errors meant for people are shown without a traceback."""
    try:
        app()
    except SceneError as error:
        for problem in error.problems:
            typer.secho(f"pointglue: {problem}", fg="red", err=True)
        sys.exit(1)
    except PointglueError as error:
        typer.secho(f"pointglue: {error}", fg="red", err=True)
        sys.exit(1)
