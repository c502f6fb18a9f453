"""The command line. No mathematics here."""

import os
import runpy
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
from .errors import InputError, MissingDependencyError, PointglueError, PointglueWarning

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
    except PointglueError as error:
        typer.secho(f"pointglue: {error}", fg="red", err=True)
        sys.exit(1)
