"""What the commands share: counts and lists of numbers as text, warnings in a line, progress bars."""

import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import typer

from .errors import InputError, PointglueWarning

__all__ = ["counted", "parse_numbers", "progress_bar", "tracked", "warnings_in_a_line"]

Number = TypeVar("Number", int, float)


def counted(number: int, one: str, many: str = "") -> str:
    """Return a count with its noun, in the singular or the plural: "1 frame", "2 frames", "3 vertices"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def parse_numbers(option: str, text: str, between: str, count: int, kind: type[Number]) -> list[Number]:
    """Return the numbers of an option, or raise.

    Parameters
    ----------
    option : str
        The name of the option, for the message.
    text : str
        What was given for it.
    between : str
        What separates the numbers.
    count : int
        How many there must be.
    kind : type
        int or float.

    Raises
    ------
    InputError
        If there are not `count` finite numbers.
    """
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
def warnings_in_a_line(renamed: Callable[[str], str] = str) -> Iterator[list[str]]:
    """Print warnings of pointglue as one line each, without the line of the source.

    Parameters
    ----------
    renamed : callable
        Returns the text of a warning, with the user's names of things.

    Yields
    ------
    list of str
        The warnings that have been printed.
    """
    shown: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", PointglueWarning)
        show = warnings.showwarning

        def in_a_line(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, PointglueWarning):
                shown.append(renamed(str(message)))
                typer.secho(f"pointglue: warning: {shown[-1]}", fg="yellow", err=True)
            else:
                show(message, category, *rest, **more)

        warnings.showwarning = in_a_line
        yield shown


@contextmanager
def progress_bar(what: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a function that shows how many are done of how many, or None if standard error is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # not before it is needed: it takes a while to load
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what)
        yield lambda done, count: progress.update(task, completed=done, total=count)


def tracked(frames: range, quiet: bool) -> Iterable[int]:
    """Return the frames, with a progress bar if there are several and standard error is a terminal."""
    if quiet or len(frames) < 2 or not sys.stderr.isatty():
        return frames
    from rich.console import Console  # not before it is needed: it takes a while to load
    from rich.progress import track

    return track(frames, "frames", console=Console(stderr=True))
