"""Contact sheets: many small pictures on one, each with its label."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import InputError, MissingDependencyError
from .arguments import colors
from .output import Image
from .picture import Size

GAP = 10  # pixels around every thumbnail
TEXT = 20  # height of the letters


def contact_sheet(
    images: Sequence[Image], labels: Sequence[str], *, columns: int | None = None, width: int = 400
) -> Image:
    """Pictures (h, w, 3) of uint8 in rows, `width` pixels wide each, with a text below each.

    As many `columns` as rows, about, unless a number is given. A label too long for a line takes several:
    what tells it from others may be at its end.
    """
    if not images or len(images) != len(labels):
        raise InputError(f"images and labels must be as many, got {len(images)} and {len(labels)}")
    if columns is None:
        columns = int(np.ceil(np.sqrt(len(images))))
    for name, value in (("columns", columns), ("width", width)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value!r}")
    heights = [round(width * image.shape[0] / image.shape[1]) for image in images]
    _, draw, font = _paper((1, 1), TEXT)
    texts = [_lines(label, lambda line: bool(draw.textlength(line, font) <= width)) for label in labels]
    cell = (width + GAP, max(heights) + TEXT * max(map(len, texts)) + 3 * GAP)
    columns = min(columns, len(images))
    rows = -(-len(images) // columns)
    sheet, draw, font = _paper((columns * cell[0] + GAP, rows * cell[1] + GAP), TEXT)
    from PIL import Image as Pillow

    for k, (image, lines, height) in enumerate(zip(images, texts, heights, strict=True)):
        x, y = GAP + k % columns * cell[0], GAP + k // columns * cell[1]
        small = Pillow.fromarray(image).resize((width, height), Pillow.Resampling.LANCZOS)
        sheet.paste(small, (x, y + max(heights) - height))
        for number, line in enumerate(lines):
            middle = (x + width / 2, y + max(heights) + GAP + number * TEXT)
            draw.text(middle, line, _ink(), font, anchor="ma")
    return np.asarray(sheet)


def _lines(text: str, fits: Callable[[str], bool]) -> list[str]:
    """A text in lines that fit, at least one: broken at spaces, and within words that are too long."""
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
    """A picture of a word, in place of one that could not be drawn."""
    width, height = size
    picture, draw, font = _paper(size, height // 8)
    draw.rectangle((0, 0, width - 1, height - 1), outline=_ink(), width=2)
    draw.text((width / 2, height / 2), text, _ink(), font, anchor="mm")
    return np.asarray(picture)


def _paper(size: Size, letters: float) -> tuple[Any, Any, Any]:
    """An empty sheet, what draws on it, and a font of that height."""
    from . import light, render  # not before they are needed: most of scipy comes with them

    try:
        from PIL import Image as Pillow
        from PIL import ImageDraw, ImageFont
    except ImportError as error:
        raise MissingDependencyError("contact sheets need Pillow: pip install 'pointglue[view]'") from error
    sheet = Pillow.new("RGB", size, _color(light.BACKGROUND ** (1 / render.GAMMA)))
    return sheet, ImageDraw.Draw(sheet), ImageFont.load_default(letters)


def _ink() -> tuple[int, int, int]:
    return _color(colors("graphite", 1))


def _color(rgb: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[int, int, int]:
    red, green, blue = (round(255 * value) for value in rgb.tolist())
    return red, green, blue
