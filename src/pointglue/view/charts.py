"""Line charts, drawn with Pillow: values over time, a line for each name."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..assets.palette import PALETTE
from ..checks import Array
from ..errors import InputError
from .arguments import Size
from .colors import as_rgb
from .output import Image
from .sheets import blank_sheet, bytes_of_color

__all__ = ["line_chart"]

MARGIN = 70  # pixels around each panel, for its labels
LETTERS = 15  # pixels: the height of the letters
TICKS = 5  # about how many numbers each axis has
COLORS = [name for name in PALETTE if name not in ("white", "graphite", "sand")]


def line_chart(
    x: Array, panels: Mapping[str, Mapping[str, Array]], *, label: str = "time [s]", size: Size = (1100, 420)
) -> Image:
    """Return a chart with one panel below the other, and a legend.

    Parameters
    ----------
    x : (n,)
        The horizontal coordinates, ascending.
    panels : mapping of str to mapping of str to (n,)
        The lines of each panel by their names; the key of a panel is the label of its vertical axis. Numbers
        that are not finite leave gaps.
    label : str
        The label of the horizontal axis.
    size : (int, int)
        Width and height of each panel [pixels].

    Returns
    -------
    (h, w, 3) of uint8

    Raises
    ------
    InputError
        If there is nothing to draw.
    MissingDependencyError
        If Pillow is missing.
    """
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    if not len(x) or not names:
        raise InputError("a chart needs at least one line with one value")
    width, height = size
    legend = LETTERS * 2 * len(names) + MARGIN // 2
    sheet, pen, font = blank_sheet((width, height * len(panels) + legend), LETTERS)
    colors = {name: bytes_of_color(as_rgb(COLORS[k % len(COLORS)], 1)) for k, name in enumerate(names)}
    for k, (title, lines) in enumerate(panels.items()):
        box = (MARGIN * 1.4, k * height + MARGIN // 2, width - MARGIN / 2, (k + 1) * height - MARGIN * 0.8)
        _panel(pen, font, box, x, lines, colors, (label, title))
    for k, name in enumerate(names):
        y = height * len(panels) + LETTERS * (2 * k + 1)
        pen.line((MARGIN, y, MARGIN + 40, y), colors[name], 4)
        pen.text((MARGIN + 52, y), name, _ink(), font, anchor="lm")
    return np.asarray(sheet)


def _panel(
    pen: Any,
    font: Any,
    box: tuple[float, float, float, float],
    x: Array,
    lines: Mapping[str, Array],
    colors: Mapping[str, Any],
    labels: tuple[str, str],
) -> None:
    """Draw one panel of a chart into a box (left, top, right, bottom) [pixels]."""
    left, top, right, bottom = box
    finite = [values[np.isfinite(values)] for values in lines.values()]
    every = np.concatenate([np.zeros(1), *finite])
    low, high = _span(float(every.min()), float(every.max()))
    first, last = _span(float(x[0]), float(x[-1]))

    def place(u: float, value: float) -> tuple[float, float]:
        across = left + (u - first) / (last - first) * (right - left)
        return across, bottom - (value - low) / (high - low) * (bottom - top)

    for value in _ticks(low, high):
        y = place(first, value)[1]
        pen.line((left, y, right, y), bytes_of_color(0.82 * np.ones((1, 3))), 1)
        pen.text((left - 8, y), f"{value:g}", _ink(), font, anchor="rm")
    for value in _ticks(first, last):
        pen.text((place(value, low)[0], bottom + 8), f"{value:g}", _ink(), font, anchor="ma")
    pen.rectangle(box, outline=_ink(), width=1)
    pen.text(((left + right) / 2, bottom + 10 + 1.3 * LETTERS), labels[0], _ink(), font, anchor="ma")
    pen.text((left, top - 6), labels[1], _ink(), font, anchor="ls")
    for name, values in lines.items():
        known = np.isfinite(values)
        for run in np.split(np.arange(len(x)), np.flatnonzero(np.diff(known.astype(int))) + 1):
            if known[run[0]]:
                points = [place(float(x[i]), float(values[i])) for i in run]
                pen.line(points if len(points) > 1 else points * 2, colors[name], 3, joint="curve")


def _ink() -> tuple[int, int, int]:
    return bytes_of_color(as_rgb("graphite", 1))


def _span(low: float, high: float) -> tuple[float, float]:
    """Return a range that is not empty, a little larger upwards."""
    if not high > low:
        return low - 0.5, low + 0.5
    return low, high + 0.05 * (high - low)


def _ticks(low: float, high: float) -> Sequence[float]:
    """Return round numbers between two others."""
    step = 10.0 ** np.floor(np.log10((high - low) / TICKS))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (factor * step) <= TICKS)
    numbers = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    return [float(round(number, 12)) for number in numbers]
