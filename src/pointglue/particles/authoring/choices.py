"""What edits are about: particles, edges or vertices within a brush, by number, by a mask, or all of them."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import Array, as_array, as_integers
from ...errors import InputError
from ..body import OrientedBody
from .brushes import Brush
from .skinning import Skin

__all__ = ["check_body", "check_brush", "chosen", "edited", "numbers_of", "pairs_of", "visual_of"]


def edited(body: OrientedBody, **changes: Any) -> OrientedBody:
    """Return the body with fields changed, loose if, and only if, some particle has no neighbour now."""
    edges, groups = changes.get("edges", body.edges), changes.get("groups", body.groups)
    joined = np.zeros(len(changes.get("positions", body.positions)), np.bool_)
    joined[np.concatenate([edges.ravel(), *groups])] = True
    return body.replace(**changes, loose=bool(len(joined) > 1 and not joined.all()))


def check_body(body: OrientedBody) -> None:
    """Raise unless it is a body."""
    if not isinstance(body, OrientedBody):
        raise InputError(f"body must be an OrientedBody, got {type(body).__name__}")


def visual_of(body: OrientedBody) -> Skin:
    """Return the visual mesh of a body, or raise if it has none."""
    if body.visual is None:
        raise InputError("body has no visual mesh: give it one, visual=Skin.of(vertices, faces, ...)")
    return body.visual


def chosen(name: str, where: Brush | ArrayLike | None, places: Array, what: str) -> NDArray[np.int64]:
    """Return the numbers of what is within a brush or in a mask, the numbers given, or all for None."""
    if isinstance(where, Brush):
        return np.flatnonzero(where.covers(places))
    return np.arange(len(places)) if where is None else numbers_of(name, where, len(places), what)


def numbers_of(name: str, where: ArrayLike, count: int, what: str) -> NDArray[np.int64]:
    """Return different numbers below `count`, given as such or by a mask, or raise."""
    given = as_array(name, where)
    if given.dtype == np.bool_:
        if given.shape != (count,):
            raise InputError(f"{name} is a mask of shape {given.shape}, but there are {count} {what}")
        return np.flatnonzero(given)
    numbers = as_integers(name, given)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        wrong = numbers.min() if numbers.min() < 0 else numbers.max()
        raise InputError(f"{name} holds {wrong}, but there are {count} {what}")
    return np.unique(numbers)


def pairs_of(where: ArrayLike, count: int) -> NDArray[np.int64]:
    """Return pairs (k, 2) of numbers below `count`, or raise."""
    given = as_array("where", where)
    if given.ndim != 2 or given.shape[1] != 2:
        raise InputError(f"where must be a Brush or pairs of shape (k, 2), got shape {given.shape}")
    pairs = as_integers("where", given.ravel()).reshape(-1, 2)
    numbers_of("where", pairs.ravel(), count, "particles")
    return pairs


def check_brush(where: Brush) -> None:
    """Raise unless it is a brush."""
    if not isinstance(where, Brush):
        raise InputError(f"where must be a Brush, got {type(where).__name__}")
