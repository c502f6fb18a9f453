"""What `pointglue check` shows: a line while it works, and a table of the objects of a scene."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer

from .simulation import ObjectSummary

__all__ = ["print_summary", "waiting"]

DELAY = 1.0  # s: what takes less is over before one could read the line
HEADINGS = ("object", "kind", "size (m)", "mass (kg)", "points", "engine", "meets", "attached to")
MOST_NAMED = 3  # names in a cell of the table


@contextmanager
def waiting() -> Iterator[Callable[[str], object]]:
    """Yield a function that takes a few words about the work, which a line shows after a second.

    The line is removed at the end; nothing is written if standard error is not a terminal.
    """
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console  # not before it is needed: it takes a while to load

    status = Console(stderr=True).status("reading")
    timer = Timer(DELAY, status.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda text: status.update(text + " ...")
    finally:
        timer.cancel()
        timer.join()
        status.stop()


def print_summary(objects: Sequence[ObjectSummary]) -> None:
    """Print a table of objects: with colours and folded on a terminal, as aligned text elsewhere."""
    rows = [_cells(one) for one in objects]
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
        for row in (HEADINGS, *rows):
            cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
            print("  ".join(cells).rstrip())
        return
    from rich.console import Console  # not before it is needed: it takes a while to load
    from rich.table import Table

    table = Table(*HEADINGS, box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _cells(one: ObjectSummary) -> tuple[str, ...]:
    """Return the row of an object in a table with the columns HEADINGS."""
    size = "endless" if one.size is None else " x ".join(map(_length, one.size))
    mass = "" if one.mass is None else f"{one.mass:.3g}"
    meets = ["itself" if name == one.name else name for name in one.meets]
    what = (one.name, one.kind, size, mass, f"{one.points:,}", one.engine)
    return (*what, _short(meets), _short(one.attached))


def _length(metres: float) -> str:
    return f"{metres if metres > 1e-9 else 0:.3g}"  # the extent of flat objects is zero up to rounding


def _short(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (
        f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    )
