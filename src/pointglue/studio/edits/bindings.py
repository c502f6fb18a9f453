"""Glue between objects: made from what is selected, kept where it is, shown with parents, weights and gap."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ...checks import Array
from ...errors import InputError, PointglueError
from ...glue import Glue, bind_glue, bind_joint
from ...scene.build.built import Built, BuiltRigid, BuiltSolid
from ...scene.build.construct import build_object
from ...scene.build.selection import select
from ...scene.schema.scene import JointAttach
from ...scene.tracks import placed, rotation
from ..document.document import TIED, Document, Hidden, dumped, file_age
from ..protocol import commands as messages
from .poses import frame_time

__all__ = ["Tie", "attach", "attach_key", "carried", "detach", "health", "hold", "points", "tie"]

# Below these gaps a frame is sensitive to noise, and all but undetermined.
FAIR, POOR = 0.2, 0.02
# The share of its size by which springs, as they are made, let an object hang down.
SAG = 0.02
GRAVITY = 9.81  # m/s^2


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
def _made(table: str, age: float, hidden: Hidden) -> Built:
    item = build_object(*hidden.values)
    item.points.flags.writeable = False
    return item


def points(document: Document, name: str) -> Array:
    """The points (n, 3) of an object that can be tied, at rest: vertices, or those of the cage about them."""
    return _thing(document, name).points


def _thing(document: Document, name: str) -> Built:
    table = document.item(name)
    if table.kind not in TIED:
        raise InputError(
            f"{name!r} is of kind {table.kind}: flesh, cloth, jelly and rigid objects can be tied"
        )
    age = file_age(table.mesh)
    return _made(dumped(table), age, Hidden((table, Path(), document.scene.frames)))


def _mass(document: Document, name: str) -> float:
    """In kg, of what has any and is not held."""
    item = _thing(document, name)
    if isinstance(item, BuiltSolid):
        return float(item.mass.sum())
    table = document.item(name)
    return item.body.mass if isinstance(item, BuiltRigid) and not table.fixed and not table.keys else 0.0


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
            tied["stiffness"] = _stiffness(document, command, len(rows))
    else:
        at = points(document, command.object)[rows].mean(0)
        tied |= {"kind": "joint", "type": command.kind, "at": at.tolist()}
    changed = document.set(["attach"], [*document.attach, tied])
    problem = tie(changed, len(changed.attach) - 1).problem
    if problem:
        raise InputError(problem)
    return changed


def _stiffness(document: Document, command: messages.Attach, count: int) -> float:
    """Of each of so many springs (N/m) that hold the heavier of two objects without drawing out."""
    mass = max(_mass(document, command.object), _mass(document, command.to)) or 1.0
    size = float(np.ptp(points(document, command.object), axis=0).max())
    return float(f"{mass * GRAVITY / (count * SAG * size):.2g}")


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
    changed = document.set(["attach", command.number, command.what], value)
    known, seconds = changed.scene.attach[command.number], changed.scene.frames.seconds
    if known.attach is None or known.release is None or seconds(known.attach) < seconds(known.release):
        return changed
    raise InputError(f"it must attach before it releases, got {known.attach} and {known.release}")


def _check(document: Document, number: int) -> None:
    if not 0 <= number < len(document.attach):
        raise InputError(f"there is no attachment {number}")


def hold(document: Document, command: messages.Pin) -> Document:
    """The selected points held where they are, or none any more."""
    if not command.pinned:
        return document.set(["objects", command.object, "pin"], None)
    rows = _selected(document, command.object)
    return document.set(["objects", command.object, "pin"], {"indices": rows.tolist()})


def carried(before: Document, after: Document) -> Document:
    """The document after an edit, with what is tied, held or selected where it was on its objects.

    Points are known by their numbers, and have others where an object is turned or made of something else.
    """
    if after.origin != before.origin:
        return after  # another scene
    for name in after.objects:
        kinds = {document.objects.get(name, {}).get("kind") for document in (before, after)}
        if kinds <= set(TIED) and (old := points(before, name)) is not (new := points(after, name)):
            after = _carried(before, after, name, old, new)
    return after


def _carried(before: Document, after: Document, name: str, old: Array, new: Array) -> Document:
    was, now = before.item(name).transform, after.item(name).transform
    there = placed((old - was.translate) @ rotation(was.rotate) / was.scale, now)
    nearest = cKDTree(new).query(there)[1]

    def renumbered(value: Any) -> Any:
        """The same points of the object, wherever a table names them by number; what names none stays."""
        if isinstance(value, Mapping):
            return {
                key: sorted({int(nearest[row]) if row < len(nearest) else row for row in each})
                if key == "indices"
                else renumbered(each)
                for key, each in value.items()
            }
        return [renumbered(each) for each in value] if isinstance(value, list | tuple) else value

    table = after.table(name)
    table = {**table, **{key: renumbered(table[key]) for key in ("pin", "grips", "groups") if key in table}}
    ties = []
    for tied, known in zip(after.attach, after.scene.attach, strict=True):
        changed = dict(tied)
        for key, side in (("points", "from"), ("among", "to")):
            if key in tied and tied[side] == name:
                changed[key] = renumbered(tied[key])
        if isinstance(known, JointAttach) and tied["from"] == name:
            at = (np.asarray(known.at) - was.translate) @ rotation(was.rotate) / was.scale
            changed["at"] = placed([at], now)[0].tolist()
        ties.append(changed)
    chosen = after.selection
    if chosen is not None and len(rows := chosen.of(name, "points")):
        chosen = replace(chosen, chosen={**chosen.chosen, "points": np.unique(nearest[rows])})
    tables = {**after.tables, "objects": {**after.objects, name: table}}
    if ties:
        tables["attach"] = ties
    return replace(after, tables=tables, selection=chosen)


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
