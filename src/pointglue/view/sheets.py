"""Contact sheets: many small pictures on one, each with its label below."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..checks import check_integer
from ..errors import InputError, MissingDependencyError
from .arguments import Size
from .colors import BACKGROUND, GAMMA, as_rgb
from .output import Image

GAP = 10  # pixels around every thumbnail
LINE_HEIGHT = 20  # pixels


def contact_sheet(
    images: Sequence[Image], labels: Sequence[str], *, columns: int | None = None, width: int = 400
) -> Image:
    """Return one picture of many in rows, each with its label below.

    Parameters
    ----------
    images : sequence of (h, w, 3) of uint8
        The pictures.
    labels : sequence of str
        A text for each; one that is too long for a line takes several, since its end may be what tells it
        from others.
    columns : int, optional
        Pictures in a row; by default about as many as there are rows.
    width : int
        Width of each picture on the sheet [pixels].

    Returns
    -------
    (h, w, 3) of uint8
        The sheet.

    Raises
    ------
    InputError
        If there are no images, or not as many labels as images.
    MissingDependencyError
        If Pillow is missing.
    """
    if not images or len(images) != len(labels):
        raise InputError(f"images and labels must be as many, got {len(images)} and {len(labels)}")
    if columns is None:
        columns = int(np.ceil(np.sqrt(len(images))))
    check_integer("columns", columns, at_least=1)
    check_integer("width", width, at_least=1)
    heights = [round(width * image.shape[0] / image.shape[1]) for image in images]
    _, pen, font = blank_sheet((1, 1), LINE_HEIGHT)
    texts = [_lines(label, lambda line: bool(pen.textlength(line, font) <= width)) for label in labels]
    cell = (width + GAP, max(heights) + LINE_HEIGHT * max(map(len, texts)) + 3 * GAP)
    columns = min(columns, len(images))
    rows = -(-len(images) // columns)
    sheet, pen, font = blank_sheet((columns * cell[0] + GAP, rows * cell[1] + GAP), LINE_HEIGHT)
    from PIL import Image as Pillow  # here because it is optional: `blank_sheet` says if it is missing

    for k, (image, lines, height) in enumerate(zip(images, texts, heights, strict=True)):
        x, y = GAP + k % columns * cell[0], GAP + k // columns * cell[1]
        small = Pillow.fromarray(image).resize((width, height), Pillow.Resampling.LANCZOS)
        sheet.paste(small, (x, y + max(heights) - height))
        for number, line in enumerate(lines):
            top = (x + width / 2, y + max(heights) + GAP + number * LINE_HEIGHT)
            pen.text(top, line, _text_color(), font, anchor="ma")
    return np.asarray(sheet)


def _lines(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Return a text in lines that fit, at least one: broken at spaces, and within words that are too long."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if fits(longer):
            lines[-1] = longer
            continue
        lines += [""] if lines[-1] else []
        for letter in word:
            if lines[-1] and not fits(lines[-1] + letter):
                lines.append("")
            lines[-1] += letter
    return lines


def text_picture(text: str, *, size: Size) -> Image:
    """Return a picture (h, w, 3) of a word, in place of one that could not be drawn."""
    width, height = size
    picture, pen, font = blank_sheet(size, height // 8)
    pen.rectangle((0, 0, width - 1, height - 1), outline=_text_color(), width=2)
    pen.text((width / 2, height / 2), text, _text_color(), font, anchor="mm")
    return np.asarray(picture)


def blank_sheet(size: Size, letters: float) -> tuple[Any, Any, Any]:
    """Return an empty sheet, what draws on it, and a font with letters of the given height [pixels]."""
    try:
        from PIL import Image as Pillow
        from PIL import ImageDraw, ImageFont
    except ImportError as error:
        advice = "contact sheets and charts need Pillow: pip install 'pointglue[view]'"
        raise MissingDependencyError(advice) from error
    sheet = Pillow.new("RGB", size, bytes_of_color(BACKGROUND ** (1 / GAMMA)))
    return sheet, ImageDraw.Draw(sheet), ImageFont.load_default(letters)


def _text_color() -> tuple[int, int, int]:
    return bytes_of_color(as_rgb("graphite", 1))


def bytes_of_color(rgb: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[int, int, int]:
    """Return a color of three numbers from 0 to 1 as Pillow takes it."""
    red, green, blue = (round(255 * value) for value in np.ravel(rgb).tolist())
    return red, green, blue
