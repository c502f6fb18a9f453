"""The command line. No mathematics here."""

import json
import os
import runpy
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import __version__
from .errors import InputError, MissingDependencyError, PointglueError, PointglueWarning, SceneError

if TYPE_CHECKING:
    from .io import Handles

__all__ = ["app", "main"]

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
        str, typer.Argument(help="Which benchmark: core, glue, deform, particles, creatures, elastic.")
    ],
    markdown: Annotated[bool, typer.Option(help="Print the table as in the README.")] = False,
    quick: Annotated[bool, typer.Option(help="A tenth of the size, for a first look.")] = False,
) -> None:
    """Measure pointglue against its peers, side by side in one run."""
    folder = _benchmarks()
    names = sorted(path.stem for path in folder.glob("[a-z]*.py"))
    if name not in names:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(names)}", param_hint="NAME")
    sys.path.insert(0, str(folder))  # they share how they measure
    try:
        benchmark = runpy.run_path(str(folder / f"{name}.py"))
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"the benchmark needs {error.name}: in the checkout, pip install -e '.[bench]'"
        ) from error
    benchmark["main"](markdown=markdown, quick=quick)


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
        typer.Argument(metavar="HANDLES.json", help="Where handles are and go: see docs/handles-file.md."),
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

    moves = read_handles(handles)
    frames = len(moves.frames) if moves.animated else None
    with _warnings_in_a_line(moves.named):
        shape = read_mesh(mesh)
        with open_output(output, shape, frames) as out:
            with _about(moves, chosen):
                deformer = HandleDeformer(
                    (shape.vertices, shape.faces),
                    moves.rest,
                    cache=None if no_cache else cache or _user_cache(),
                    progress=not quiet,
                    **{**moves.options, **chosen},
                )
            pose = None
            for k in _shown(range(len(moves.frames)), quiet):
                with _about(moves, chosen):
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
) -> None:
    """Say all that is wrong with a scene file at once, without running it."""
    from .scene import build, json_schema, load_scene, parse_setting

    if schema:
        typer.echo(json.dumps(json_schema(), indent=2))
    if scene is None:
        if not schema:
            raise typer.BadParameter("give a scene file, or --schema", param_hint="SCENE.toml")
        return
    simulation = build(load_scene(scene, dict(map(parse_setting, settings or []))))
    if not schema:
        counts = (
            f"{_count(simulation.frames.count, 'frame')}, {_count(len(simulation.looks), 'visible object')}"
        )
        typer.echo(f"{scene}: nothing is wrong ({counts})")


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
    from .scene import parse_setting, run_scene
    from .scene.progress import tell, tell_problems

    if resume and replace:
        raise InputError("--resume and --replace exclude each other")
    overrides = dict(map(parse_setting, settings or []))
    frames = None
    try:
        with _warnings_in_a_line(str):
            frames = run_scene(scene, output, resume=resume, replace=replace, overrides=overrides)
            with frames:
                tell(frames, "json" if as_json else "quiet" if quiet else "bar")
    except SceneError as error:
        if as_json:
            tell_problems(error.problems)
        raise
    except KeyboardInterrupt:
        again = " ".join(shlex.quote(word) for word in sys.argv[1:] if word not in ("--resume", "--replace"))
        written = frames.store.numbers() if frames is not None and frames.store is not None else []
        told = f"stopped after frame {written[-1]}" if written else "stopped before the first frame"
        typer.secho(f"pointglue: {told}. Go on with: pointglue {again} --resume", fg="yellow", err=True)
        raise typer.Exit(130) from None


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _user_cache() -> Path | None:
    """The folder for what can be worked out again, or None if there is no writing to it."""
    try:
        folder = Path(
            os.environ.get("POINTGLUE_CACHE")
            or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pointglue"
        )
    except RuntimeError:  # nobody's home
        return None
    there = next((path for path in (folder, *folder.absolute().parents) if path.exists()), folder)
    return folder if there.is_dir() and os.access(there, os.W_OK | os.X_OK) else None


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
def _warnings_in_a_line(named: Callable[[str], str]) -> Iterator[None]:
    """Show warnings meant for people without source lines, but with the names of handles."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", PointglueWarning)
        show = warnings.showwarning

        def in_a_line(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, PointglueWarning):
                typer.secho(f"pointglue: warning: {named(str(message))}", fg="yellow", err=True)
            else:
                show(message, category, *rest, **more)

        warnings.showwarning = in_a_line
        yield


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
