"""Glue between objects: made from what is selected, and shown with its parents, weights and gap."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..checks import Array
from ..errors import InputError, PointglueError
from ..glue import Glue, bind_glue, bind_joint
from ..scene.bodies import made
from ..scene.geometry import select
from . import messages
from .document import TIED, Document, Hidden, dumped, file_age
from .posing import frame_time

__all__ = ["Tie", "attach", "attach_key", "detach", "health", "hold", "points", "tie"]

# Below these gaps a frame is sensitive to noise, and all but undetermined.
FAIR, POOR = 0.2, 0.02


@dataclass(frozen=True, eq=False)
class Tie:
    """What an attachment looks like at rest."""

    sides: tuple[tuple[str, Glue], ...]
    """What binds it, by the names of the objects that it is bound to."""
    ends: Array
    """Lines (2 k, 3) from bound points to their parents, in pairs."""
    shares: Array
    """Of each line (k,), its weight by the largest one of its point."""
    problem: str = ""

    @property
    def points(self) -> int:
        """How many are bound."""
        return len(self.sides[0][1]) if self.sides else 0

    def moved(self, places: Callable[[str], Array | None]) -> Array:
        """The lines, with the points of objects where they are."""
        ends = []
        for name, glue in self.sides:
            x = places(name)
            if x is None:
                return self.ends
            bound = glue.at(x).positions if np.isfinite(x).all() else glue.targets
            ends.append(
                np.stack([bound[glue.parents.group_of], x[glue.parents.indices]], axis=1).reshape(-1, 3)
            )
        return np.concatenate(ends) if ends else self.ends

    def gap(self, places: Callable[[str], Array | None]) -> float | None:
        """The least of its frames, with the points of objects where they are."""
        found = [(glue, places(name)) for name, glue in self.sides]
        gaps = [float(glue.gap(x).min()) for glue, x in found if x is not None]
        return min(gaps) if gaps and np.isfinite(gaps).all() else None


def health(gap: float | None) -> Literal["good", "fair", "poor", "broken"]:
    """Of an attachment, in a word."""
    if gap is None:
        return "broken"
    return "poor" if gap < POOR else "fair" if gap < FAIR else "good"


@lru_cache(32)
def _points(table: str, age: float, hidden: Hidden) -> Array:
    item = made(*hidden.values)
    item.points.flags.writeable = False
    return item.points


def points(document: Document, name: str) -> Array:
    """The points (n, 3) of an object that can be tied, at rest: vertices, or those of the cage about them."""
    table = document.item(name)
    if table.kind not in TIED:
        raise InputError(
            f"{name!r} is of kind {table.kind}: flesh, cloth, jelly and rigid objects can be tied"
        )
    age = file_age(table.mesh)
    return _points(dumped(table), age, Hidden((table, Path(), document.scene.frames)))


def attach(document: Document, command: messages.Attach) -> Document:
    """The selected points of one object tied to another."""
    source, target = document.table(command.object), document.table(command.to)
    if command.object == command.to:
        raise InputError("choose another object to tie it to")
    for name, table in ((command.object, source), (command.to, target)):
        if table["kind"] not in TIED or (table is source and table["kind"] == "animated"):
            raise InputError(
                f"{name!r} is of kind {table['kind']}: flesh, cloth, jelly and rigid can be tied"
            )
    rows = _selected(document, command.object)
    tied: dict[str, Any] = {"from": command.object, "to": command.to}
    if command.kind in ("glue", "spring"):
        tied |= {"kind": command.kind, "points": {"indices": rows.tolist()}}
        if command.kind == "spring":
            tied["stiffness"] = 100.0
    else:
        at = points(document, command.object)[rows].mean(0)
        tied |= {"kind": "joint", "type": command.kind, "at": at.tolist()}
    changed = document.set(["attach"], [*document.attach, tied])
    problem = tie(changed, len(changed.attach) - 1).problem
    if problem:
        raise InputError(problem)
    return changed


def _selected(document: Document, name: str) -> NDArray[np.int64]:
    chosen = document.selection
    rows = np.empty(0, np.int64) if chosen is None else chosen.of(name, "points")
    if not len(rows):
        raise InputError(f"select points of {name!r} first: drag a rectangle or a lasso around them")
    return rows


def detach(document: Document, command: messages.Detach) -> Document:
    """Without an attachment."""
    _check(document, command.number)
    left = [table for k, table in enumerate(document.attach) if k != command.number]
    return document.set(["attach"], left)


def attach_key(document: Document, command: messages.AttachKey, frame: int) -> Document:
    """With a beginning or an end of an attachment at a frame, or without."""
    _check(document, command.number)
    table = document.attach[command.number]
    if (
        command.what == "attach"
        and table["kind"] == "glue"
        and document.table(table["from"])["kind"] == "rigid"
    ):
        raise InputError("points of a rigid object attach later by a spring or a joint, not by glue")
    if frame > document.scene.frames.end and not command.remove:
        raise InputError(f"frame {frame} is after the last one, {document.scene.frames.end}")
    value = None if command.remove else frame_time(frame)
    return document.set(["attach", command.number, command.what], value)


def _check(document: Document, number: int) -> None:
    if not 0 <= number < len(document.attach):
        raise InputError(f"there is no attachment {number}")


def hold(document: Document, command: messages.Pin) -> Document:
    """The selected points held where they are, or none any more."""
    if not command.pinned:
        return document.set(["objects", command.object, "pin"], None)
    rows = _selected(document, command.object)
    return document.set(["objects", command.object, "pin"], {"indices": rows.tolist()})


def tie(document: Document, number: int) -> Tie:
    """What an attachment looks like at rest."""
    table = document.scene.attach[number]
    try:
        one, other = points(document, table.source), points(document, table.to)
        if table.kind == "joint":
            joint = bind_joint(one, other, table.at, kind=table.type, axis=table.axis, parents=table.parents)
            sides = [(table.source, joint.first, one), (table.to, joint.second, other)]
        else:
            groups = getattr(document.item(table.source), "groups", {})
            rows = select(table.points, one, groups, other)
            sides = [(table.to, bind_glue(other, one[rows], parents=table.parents), other)]
    except PointglueError as error:
        return Tie((), np.empty((0, 3)), np.empty(0), str(error))
    ends, shares = [], []
    for _, glue, places in sides:
        of, parents = glue.parents.group_of, glue.parents.indices
        ends.append(np.stack([glue.targets[of], places[parents]], axis=1).reshape(-1, 3))
        heaviest = np.maximum.reduceat(glue.weights, glue.parents.offsets[:-1])
        shares.append(glue.weights / heaviest[of])
    bound = tuple((name, glue) for name, glue, _ in sides)
    return Tie(bound, np.concatenate(ends), np.concatenate(shares))
