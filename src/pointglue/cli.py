"""The command line. No mathematics here."""

import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer

from . import __version__
from .errors import MissingDependencyError, PointglueError

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
    name: Annotated[str, typer.Argument(help="Which benchmark: core, glue.")],
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


def main() -> None:
    """Run the command line; errors meant for people are shown without a traceback."""
    try:
        app()
    except PointglueError as error:
        typer.secho(f"pointglue: {error}", fg="red", err=True)
        sys.exit(1)
