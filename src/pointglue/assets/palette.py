"""Named colours, and the colours of objects for which none is chosen."""

from collections import Counter
from collections.abc import Sequence

__all__ = ["COLOR_CYCLE", "PALETTE", "Rgb", "color_code", "object_colors"]

Rgb = tuple[float, float, float]
"""Red, green and blue from 0 to 1."""

PALETTE = {
    "coral": "#e8674a",
    "teal": "#2a9d8f",
    "gold": "#e9b44c",
    "blue": "#4178bc",
    "plum": "#8e5583",
    "sage": "#8ab17d",
    "sky": "#6bb3d6",
    "rose": "#dd8fa3",
    "red": "#d1434f",
    "green": "#4f9d5b",
    "sand": "#d9c4a0",
    "slate": "#647384",
    "graphite": "#3a4048",
    "white": "#f2f0eb",
}
"""The colours that have a name, as #rrggbb."""

COLOR_CYCLE = tuple(PALETTE.values())[:8]
"""The colours that are taken in turn where none is given."""


def object_colors(chosen: Sequence[Rgb | None]) -> list[Rgb]:
    """Return the colours of the objects of a scene: those chosen, and for None the least used of the cycle.

    If none is chosen, the colours come in turn; one that another object has is passed over for the next.
    """
    users = Counter(color_code(color) for color in chosen if color is not None)
    found = []
    for k, color in enumerate(chosen):
        if color is None:
            turn = k % len(COLOR_CYCLE)
            code = min(COLOR_CYCLE[turn:] + COLOR_CYCLE[:turn], key=users.__getitem__)
            users[code] += 1
            found.append(_rgb(code))
        else:
            found.append(color)
    return found


def color_code(color: Rgb) -> str:
    """Return a colour in [0, 1] as #rrggbb."""
    return "#" + "".join(f"{round(255 * c):02x}" for c in color)


def _rgb(code: str) -> Rgb:
    red, green, blue = (int(code[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return red, green, blue
