"""Edits of bindings between objects, and what pages show of them: parents, weights and gap."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ...checks import Array
from ...errors import InputError, PointglueError
from ...glue import Glue, bind_glue
from ...scene.build.bonds import joint_of
from ...scene.build.built import Built, BuiltRigid, BuiltSolid
from ...scene.build.construct import build_object
from ...scene.build.selection import select
from ...scene.schema.attach_tables import JointAttach
from ...scene.tracks import placed, rotation
from ..document.document import BINDABLE, Document, file_time, table_key
from ..document.recent import RecentValues
from ..protocol import commands as messages
from ..protocol.constants import FAIR_GAP, POOR_GAP
from .poses import frame_time

__all__ = [
    "BindingView",
    "bind",
    "bindable_points",
    "binding_view",
    "health",
    "key_binding",
    "pin_points",
    "unbind",
    "with_matched_points",
]

SPRING_SAG = 0.02  # ratio: by how much of its size new springs let an object sag under its weight
GRAVITY = 9.81  # m/s^2
_BUILT: RecentValues[Built] = RecentValues(32)
_VIEWS: RecentValues["BindingView"] = RecentValues(32)


@dataclass(frozen=True, eq=False)
class BindingView:
    """What pages show of a binding at rest."""

    sides: tuple[tuple[str, Glue], ...]
    """The glue of each side, with the name of the object that it binds to."""
    lines: Array
    """Lines (2 k, 3) from bound points to their parents, in pairs."""
    shares: Array
    """The weight of each line (k,), relative to the largest of its point."""
    problem: str = ""
    """Why there is no glue, "" if there is."""

    @property
    def points(self) -> int:
        """The number of bound points."""
        return len(self.sides[0][1]) if self.sides else 0

    def lines_at(self, positions: Callable[[str], Array | None]) -> Array:
        """Return the lines (2 k, 3) for the current positions of the points of each object [m]."""
        ends = []
        for name, glue in self.sides:
            x = positions(name)
            if x is None:
                return self.lines
            bound = glue.at(x).positions if np.isfinite(x).all() else glue.targets
            ends.append(
                np.stack([bound[glue.parents.group_of], x[glue.parents.indices]], axis=1).reshape(-1, 3)
            )
        return np.concatenate(ends) if ends else self.lines

    def gap(self, positions: Callable[[str], Array | None]) -> float | None:
        """Return the least gap of the fits at the current positions [m], None if it is not finite."""
        found = [(glue, positions(name)) for name, glue in self.sides]
        gaps = [float(glue.gap(x).min()) for glue, x in found if x is not None]
        return min(gaps) if gaps and np.isfinite(gaps).all() else None


def health(gap: float | None) -> Literal["good", "fair", "poor", "broken"]:
    """Return how well a binding with this least gap is determined, in a word."""
    if gap is None:
        return "broken"
    return "poor" if gap < POOR_GAP else "fair" if gap < FAIR_GAP else "good"


def bindable_points(document: Document, name: str) -> Array:
    """Return the points (n, 3) of an object that can be bound, at rest: its vertices or those of its cage."""
    return _built(document, name).points


def _built(document: Document, name: str) -> Built:
    """Return an object as the solver has it at rest."""
    table = document.item(name)
    if table.kind not in BINDABLE:
        raise InputError(
            f"{name!r} is of kind {table.kind}: flesh, cloth, jelly and rigid objects can be bound"
        )

    def build() -> Built:
        item = build_object(table, Path(), document.scene.frames)
        item.points.flags.writeable = False
        return item

    return _BUILT.get((table_key(table), file_time(table.mesh)), build)


def _mass(document: Document, name: str) -> float:
    """Return the mass of an object [kg], 0 for one that is fixed or kinematic."""
    item = _built(document, name)
    if isinstance(item, BuiltSolid):
        return float(item.mass.sum())
    table = document.item(name)
    return item.body.mass if isinstance(item, BuiltRigid) and not table.fixed and not table.keys else 0.0


def bind(document: Document, command: messages.Attach) -> Document:
    """Return the document with the selected points of one object bound to another."""
    source, target = document.table(command.object), document.table(command.to)
    if command.object == command.to:
        raise InputError("choose another object to bind it to")
    for name, table in ((command.object, source), (command.to, target)):
        if table["kind"] not in BINDABLE or (table is source and table["kind"] == "animated"):
            raise InputError(
                f"{name!r} is of kind {table['kind']}: flesh, cloth, jelly and rigid can be bound"
            )
    rows = _selected(document, command.object)
    binding: dict[str, Any] = {"from": command.object, "to": command.to}
    if command.kind in ("glue", "spring"):
        binding |= {"kind": command.kind, "points": {"indices": rows.tolist()}}
        if command.kind == "spring":
            binding["stiffness"] = _stiffness(document, command, len(rows))
    else:
        at = bindable_points(document, command.object)[rows].mean(0)
        binding |= {"kind": "joint", "type": command.kind, "at": at.tolist()}
    changed = document.set(["attach"], [*document.attach, binding])
    problem = binding_view(changed, len(changed.attach) - 1).problem
    if problem:
        raise InputError(problem)
    return changed


def _stiffness(document: Document, command: messages.Attach, count: int) -> float:
    """Return the stiffness [N/m] of each of `count` springs that bear the heavier of the two objects."""
    mass = max(_mass(document, command.object), _mass(document, command.to)) or 1.0
    size = float(np.ptp(bindable_points(document, command.object), axis=0).max())
    return float(f"{mass * GRAVITY / (count * SPRING_SAG * size):.2g}")


def _selected(document: Document, name: str) -> NDArray[np.int64]:
    """Return the numbers of the selected points of an object."""
    chosen = document.selection
    rows = np.empty(0, np.int64) if chosen is None else chosen.of(name, "points")
    if not len(rows):
        raise InputError(f"select points of {name!r} first: drag a rectangle or a lasso around them")
    return rows


def unbind(document: Document, command: messages.Detach) -> Document:
    """Return the document without a binding."""
    _check(document, command.number)
    left = [table for k, table in enumerate(document.attach) if k != command.number]
    return document.set(["attach"], left)


def key_binding(document: Document, command: messages.AttachKey, frame: int) -> Document:
    """Return the document with a binding that begins or ends at a frame, or always did or never does."""
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
    """Raise InputError if there is no binding of this number."""
    if not 0 <= number < len(document.attach):
        raise InputError(f"there is no binding {number}")


def pin_points(document: Document, command: messages.Pin) -> Document:
    """Return the document with the selected points pinned, or with no pinned points."""
    if not command.pinned:
        return document.set(["objects", command.object, "pin"], None)
    rows = _selected(document, command.object)
    return document.set(["objects", command.object, "pin"], {"indices": rows.tolist()})


def with_matched_points(before: Document, after: Document) -> Document:
    """Return the document after an edit, with the same points bound, pinned and selected as before.

    Points have other numbers once an object is turned or of another kind; each is replaced by the nearest
    of the new points.
    """
    if after.origin != before.origin:
        return after  # another scene
    for name in after.objects:
        kinds = {document.objects.get(name, {}).get("kind") for document in (before, after)}
        if kinds <= set(BINDABLE):
            old, new = bindable_points(before, name), bindable_points(after, name)
            if old is not new:
                after = _with_matched_points(before, after, name, old, new)
    return after


def _with_matched_points(before: Document, after: Document, name: str, old: Array, new: Array) -> Document:
    """Return the document with the points of one object, (n, 3) before and (m, 3) after, matched."""
    was, now = before.item(name).transform, after.item(name).transform
    moved = placed((old - was.translate) @ rotation(was.rotate) / was.scale, now)
    nearest = cKDTree(new).query(moved)[1]

    def renumbered(value: Any) -> Any:
        """Return a table with the numbers of points replaced, and all else as it is."""
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
    attach = []
    for binding, known in zip(after.attach, after.scene.attach, strict=True):
        changed = dict(binding)
        for key, side in (("points", "from"), ("among", "to")):
            if key in binding and binding[side] == name:
                changed[key] = renumbered(binding[key])
        if isinstance(known, JointAttach) and binding["from"] == name:
            at = (np.asarray(known.at) - was.translate) @ rotation(was.rotate) / was.scale
            changed["at"] = placed([at], now)[0].tolist()
        attach.append(changed)
    chosen = after.selection
    if chosen is not None and len(rows := chosen.of(name, "points")):
        chosen = replace(chosen, chosen={**chosen.chosen, "points": np.unique(nearest[rows])})
    tables = {**after.tables, "objects": {**after.objects, name: table}}
    if attach:
        tables["attach"] = attach
    return replace(after, tables=tables, selection=chosen)


def binding_view(document: Document, number: int) -> BindingView:
    """Return what pages show of a binding at rest; edits of other objects do not compute it anew."""
    table = document.scene.attach[number]
    try:
        ends = [document.item(name) for name in (table.source, table.to)]
        known = [(table_key(end), file_time(getattr(end, "mesh", None))) for end in ends]
        return _VIEWS.get((table_key(table), *known), lambda: _bound(document, table))
    except PointglueError as error:
        return BindingView((), np.empty((0, 3)), np.empty(0), str(error))


def _bound(document: Document, table: Any) -> BindingView:
    """Return what pages show of a binding at rest, computed anew."""
    one, other = bindable_points(document, table.source), bindable_points(document, table.to)
    if table.kind == "joint":
        joint = joint_of(table, one, other)
        sides = [(table.source, joint.first, one), (table.to, joint.second, other)]
    else:
        groups = getattr(document.item(table.source), "groups", {})
        rows = select(table.points, one, groups, other)
        sides = [(table.to, bind_glue(other, one[rows], **table.glue_options), other)]
    lines, shares = [], []
    for _, glue, positions in sides:
        of, parents = glue.parents.group_of, glue.parents.indices
        lines.append(np.stack([glue.targets[of], positions[parents]], axis=1).reshape(-1, 3))
        heaviest = np.maximum.reduceat(glue.weights, glue.parents.offsets[:-1])
        shares.append(glue.weights / heaviest[of])
    bound = tuple((name, glue) for name, glue, _ in sides)
    return BindingView(bound, np.concatenate(lines), np.concatenate(shares))
