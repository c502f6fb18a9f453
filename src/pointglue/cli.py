"""The command line. No mathematics here."""

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .actions import (
    CAMERA_DIRECTION,
    PICTURE_SIZE,
    benchmark_files,
    deform_file,
    render_folder,
    run_benchmarks,
    run_into_folder,
)
from .console import counted, parse_numbers, warnings_in_a_line
from .errors import InputError, PointglueError, SceneError
from .files import user_cache
from .version import __version__

if TYPE_CHECKING:
    from .scene import Wedge
    from .scene.progress import ReportStyle

__all__ = ["app", "main"]

# Commands import what they need when they run: `pointglue --help` takes a tenth of a second that way.

app = typer.Typer(
    name="pointglue",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Physics-based animation and mesh deformation on the best-fit rigid transform.",
)

Quiet = Annotated[bool, typer.Option("--quiet", help="Print warnings and errors only.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the run that is in DIR.")]
SceneArgument = Annotated[Path, typer.Argument(metavar="SCENE.toml", help="The scene file.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Another value for a key: frames.count=10."),
]


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


@app.command()
def bench(
    name: Annotated[
        str,
        typer.Argument(
            help="Which: core, glue, deform, particles, creatures, elastic, contact, scenes, studio, all of "
            "these by the name all, collisions, drops, jitter or solids."
        ),
    ],
    markdown: Annotated[bool, typer.Option(help="Print the table as in the README.")] = False,
    quick: Annotated[bool, typer.Option(help="A tenth of the size, for a first look.")] = False,
    rows: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the rows to a JSON file as well.")
    ] = None,
) -> None:
    """Measure pointglue, against its peers where there are any, side by side in one run."""
    benchmarks = benchmark_files()
    if name not in (*benchmarks, "all"):
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(benchmarks)}, all", param_hint="NAME")
    run_benchmarks(name, markdown=markdown, quick=quick, output=rows)


class Distance(StrEnum):
    """How the distance of a vertex from a handle is measured."""

    inside = "inside"
    euclidean = "euclidean"


@app.command()
def deform(
    *,
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
        float | None,
        typer.Option(show_default="0", help="How much rotations stay near those of the frame before."),
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
            help="Where distances are stored for the next run.",
        ),
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Store no distances.")] = False,
    quiet: Quiet = False,
) -> None:
    """Move point handles, and the mesh follows as rigidly as it can.

    What the options set goes before what the handles file says.
    """
    if no_cache and cache is not None:
        raise InputError("--cache and --no-cache exclude each other")
    chosen: dict[str, Any] = {"falloff": falloff, "stretch": stretch, "damping": damping}
    chosen["distance"] = None if distance is None else distance.value
    chosen = {name: value for name, value in chosen.items() if value is not None}
    store = None if no_cache else cache or user_cache()
    deform_file(mesh, handles, output, options=chosen, cache=store, quiet=quiet)


@app.command()
def check(
    scene: Annotated[Path | None, typer.Argument(metavar="SCENE.toml", help="The scene file.")] = None,
    settings: Settings = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of scene files.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the objects as JSON.")] = False,
) -> None:
    """Find all that is wrong with a scene file at once, and list its objects, without running it."""
    from .scene import check_scene, json_schema, parse_setting
    from .scene.status import print_summary, waiting

    if schema:
        typer.echo(json.dumps(json_schema(), indent=2))
    if scene is None:
        if not schema:
            raise typer.BadParameter("give a scene file, or --schema", param_hint="SCENE.toml")
        return
    with warnings_in_a_line() as warned, waiting() as progress:
        simulation = check_scene(scene, dict(map(parse_setting, settings or [])), progress)
    if schema:
        return
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in simulation.objects], indent=2))
        return
    found = f"can be run, with {counted(len(warned), 'warning')}" if warned else "nothing is wrong"
    visible = counted(len(simulation.looks), "visible object")
    typer.echo(f"{scene}: {found} ({counted(simulation.frames.count, 'frame')}, {visible})")
    print_summary(simulation.objects)


@app.command()
def run(
    scene: SceneArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder for frames and other results.")
    ],
    resume: Resume = False,
    replace: Annotated[bool, typer.Option("--replace", help="Begin anew where a run has been.")] = False,
    settings: Settings = None,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for every frame.")] = False,
) -> None:
    """Simulate a scene, frame by frame, into a folder.

    It can be stopped at any time, and goes on with --resume.
    """
    style: ReportStyle = "json" if as_json else "quiet" if quiet else "people"
    run_into_folder(scene, output, resume=resume, replace=replace, settings=settings or [], style=style)


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
    *,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="OUT", show_default="DIR/pictures", help="Where they go."),
    ] = None,
    size: Annotated[str, typer.Option(metavar="WxH", help="Width and height in pixels.")] = "{}x{}".format(
        *PICTURE_SIZE
    ),
    every: Annotated[int, typer.Option(metavar="N", help="Draw one frame in so many.")] = 1,
    movie: Annotated[bool, typer.Option(help="Make a movie of the pictures.")] = True,
    ground: Annotated[bool, typer.Option(help="Draw the ground.")] = True,
    direction: Annotated[
        str, typer.Option("--from", metavar="X,Y,Z", help="Where the camera is, from what it looks at.")
    ] = ",".join(f"{x:g}" for x in CAMERA_DIRECTION),
    loads: Annotated[
        bool,
        typer.Option(
            "--loads",
            help="Write instead a table and a chart of the loads that a scene with output.loads = true has.",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Draw the frames of a run: pictures, a movie, and a contact sheet."""
    if loads:
        from .view import render_loads  # not before it is needed: it takes a while to load

        for path in render_loads(directory, output):
            if not quiet:
                typer.echo(f"wrote {path}")
        return
    width, height = parse_numbers("--size", size, "x", 2, int)
    x, y, z = parse_numbers("--from", direction, ",", 3, float)
    if not any((x, y, z)):
        raise InputError(
            f"--from must not be zero: say where the camera is, such as 0,0,1, got {direction!r}"
        )
    render_folder(
        directory,
        output,
        size=(width, height),
        every=every,
        movie=movie,
        ground=ground,
        direction=(x, y, z),
        quiet=quiet,
    )


class ExportFormat(StrEnum):
    """A format that other programs read."""

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
    quiet: Quiet = False,
) -> None:
    """Write the frames of a run for other programs: all that are there, whether it came to its end or not."""
    from .io import FrameStore, export_run
    from .io.signals import stoppable

    with stoppable(lambda: "before all was written"):
        store = FrameStore.open(directory)
        written = export_run(store, output, format=None if format is None else format.value)
    if not quiet:
        typer.echo(f"wrote {counted(len(store.numbers()), 'frame')} to {written}")


@app.command()
def demo(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Which: see --list.")] = None,
    every: Annotated[bool, typer.Option("--list", help="Print the names and titles of all.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", show_default="out/NAME", help="The folder for results."
        ),
    ] = None,
    resume: Resume = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Begin anew where a run has been; out/NAME always does.")
    ] = False,
    settings: Settings = None,
    quiet: Quiet = False,
) -> None:
    """Run a scene that comes with pointglue, and film it. Without a name, list all of them."""
    from .scene import demo_path, demo_titles

    if every or name is None:
        titles = demo_titles()
        for one, title in titles.items():
            typer.echo(f"{one:<{max(map(len, titles))}}  {title}")
        return
    path, folder = demo_path(name), output or Path("out") / name
    formats = ["output.formats=['usd']"] if find_spec("pxr") else []
    replace = replace or (output is None and not resume)
    chosen = [*formats, *(settings or [])]
    style: ReportStyle = "quiet" if quiet else "people"
    run_into_folder(path, folder, resume=resume, replace=replace, settings=chosen, style=style)
    if find_spec("polyscope") is None:
        typer.echo("for pictures: pip install 'pointglue[movie]', then pointglue render " + str(folder))
        return
    render_folder(folder, movie=find_spec("imageio_ffmpeg") is not None, quiet=quiet)


@app.command()
def wedge(
    scene: SceneArgument,
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
    quiet: Quiet = False,
) -> None:
    """Run a scene for every combination of values, each into a folder of its own, with a table of all.

    What fails does not stop the others; what has been done is not done again.
    """
    from .io.signals import stoppable
    from .scene import draw_wedges, parse_sweep, run_wedges

    folder = output or Path("out") / f"{scene.stem}_wedges"
    finished = "before the first wedge was finished"

    def report(one: "Wedge", done: int, count: int) -> None:
        nonlocal finished
        finished = f"with {done:,} of {counted(count, 'wedge')} finished"
        if one.status == "failed":
            typer.secho(f"pointglue: {one.folder.name}: {one.error}", fg="red", err=True)
        elif not quiet:
            typer.echo(f"{done}/{count}  {one.folder.name}  {one.status} ({one.seconds:.1f} s)")

    files = [folder / "wedges.csv", *([folder / "wedges.parquet"] if parquet else [])]

    def stopped() -> str:
        return finished + (f"; they are in {files[0]}" if files[0].exists() else "")

    with stoppable(stopped):
        wedges = run_wedges(
            scene,
            dict(map(parse_sweep, settings)),
            folder,
            scheduler=scheduler,
            metrics=[name.strip() for names in metrics or [] for name in names.split(",")],
            parquet=parquet,
            progress=report,
        )
        if sheet and find_spec("polyscope"):
            files += draw_wedges(wedges, folder / "contact_sheet.png")
    if not quiet:
        for path in files:
            typer.echo(f"wrote {path}")
    if any(one.status == "failed" for one in wedges):
        raise typer.Exit(1)


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
