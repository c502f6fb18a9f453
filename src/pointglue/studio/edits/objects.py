"""Edits of objects as a whole: which there are, of which kind, where, and what is selected of them."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...assets.palette import color_code, object_colors
from ...errors import InputError, PointglueWarning
from ...scene.build.meshing import FARTHEST, SMALLEST
from ...scene.tracks import box_center, rotation
from ..document.document import BINDABLE, GROUND, Document, Selection
from ..protocol import commands as messages
from . import bindings
from . import poses as handle_edits

__all__ = ["GROUND", "add_shape", "color", "ground", "move", "remove", "rename", "select", "set_kind"]

# Ratio: about how much of its height a new soft object gives way under its own weight.
_SAG = {"flesh": 0.04, "jelly": 0.03}
SPECIFIC_WEIGHT = 1000 * 9.81  # N/m^3: of water, which most soft things are about as dense as
_PINNABLE = ("flesh", "jelly", "cloth")  # the kinds with points that can be pinned
_KEPT_KEYS = ("mesh", "transform", "color", "visible")  # what all kinds have


def add_shape(document: Document, command: messages.AddShape) -> Document:
    """Return the document with a simple object beside the others."""
    name = document.free_name(command.shape)
    table: dict[str, Any] = {
        "kind": "handles",
        "mesh": {"shape": command.shape, **messages.SHAPES[command.shape]},
        "handles": {},
    }
    if any(name != GROUND for name in document.objects):
        low, high = document.bounds()
        # Relative to the first object: relative to the whole scene, each would be larger than the last.
        first = next(name for name in document.objects if name != GROUND)
        surface = document.surface(first)
        extent = high - low if surface is None else np.ptp(surface.vertices, axis=0)
        size = max(float(extent.max()), 1e-6)
        table["transform"] = {
            "scale": 0.5 * size,
            "translate": [float(high[0]) + 0.5 * size, float(low[1]) + 0.5 * size, 0.0],
        }
    return document.with_object(name, table)


def set_kind(document: Document, command: messages.SetKind) -> Document:
    """Return the document with an object of another kind, with the same mesh."""
    old = document.table(command.object)
    if old["kind"] == command.kind:
        return document
    if "mesh" not in old:
        raise InputError(
            f"{command.object!r} comes from a body file: its mesh cannot be made of something else"
        )
    if document.surface(command.object) is None:
        raise InputError(
            f"{command.object!r} is a plane, which has no end: it can be a collider, and nothing else"
        )
    pins = ("pin", "grips") if {old["kind"], command.kind} <= set(_PINNABLE) else ()
    table = {key: old[key] for key in (*_KEPT_KEYS, *pins) if key in old}
    lost = "its handles and their keys are" if old.get("handles") else "its edited particles are"
    if old.get("handles") or command.object in document.bodies:
        warnings.warn(
            f"{command.object!r} is made of something else now: {lost} gone. Undo brings them back",
            PointglueWarning,
            stacklevel=2,
        )
    return document.with_object(
        command.object,
        {**table, "kind": command.kind, **_required_keys(document, command.object, command.kind)},
    )


def _required_keys(document: Document, name: str, kind: str) -> dict[str, Any]:
    """Return the keys that an object of a kind needs: a larger one must be stiffer to keep its shape."""
    if kind == "handles":
        return {"handles": {}}
    if kind not in _SAG:
        return {}
    size = float(np.ptp(document.mesh(name).vertices, axis=0).max())
    return {"material": {"young": float(f"{SPECIFIC_WEIGHT * size / _SAG[kind]:.2g}")}}


def rename(document: Document, command: messages.Rename) -> Document:
    """Return the document with another name of an object."""
    old, new = command.object, command.name
    document.table(old)
    if new == old:
        return document
    if new in document.objects:
        raise InputError(f"there is an object {new!r} already")
    if new == GROUND:
        raise InputError(f"{GROUND!r} is the name of the ground that Play has, choose another one")

    def renamed(items: Mapping[str, Any]) -> dict[str, Any]:
        """Return a table with the new key in place of the old one."""
        return {new if name == old else name: value for name, value in items.items()}

    attach = [
        {key: new if key in ("from", "to") and value == old else value for key, value in binding.items()}
        for binding in document.attach
    ]
    forces = [
        {**force, "on": [new if name == old else name for name in force["on"]]}
        for force in document.tables.get("force", [])
    ]
    objects = {
        name: {**table, "on": new} if table.get("on") == old else table
        for name, table in renamed(document.objects).items()
    }
    tables = {**document.tables, "objects": objects}
    tables |= {key: value for key, value in (("attach", attach), ("force", forces)) if value}
    return replace(
        document, tables=tables, bodies=renamed(document.bodies), rigs=renamed(document.rigs), selection=None
    )


def move(document: Document, command: messages.Move) -> Document:
    """Return the document with an object moved, with its handles or its edited particles."""
    name = command.object
    document.table(name)
    surface, body = document.surface(name), document.bodies.get(name)
    if surface is not None:
        points = surface.vertices
    elif body is not None and len(body):
        points = body.positions
    else:
        raise InputError(f"{name!r} has nothing to move")
    scale, turn, centre = command.scale, rotation(command.rotate), box_center(points)
    shift = command.translate + centre - scale * turn @ centre
    moved = scale * points @ turn.T + shift
    if not np.abs(moved).max(initial=0.0) <= FARTHEST or not np.ptp(moved, axis=0).max() >= SMALLEST:
        raise InputError(
            f"{name!r} must stay within {FARTHEST:g} m of the origin, and at least {SMALLEST:g} m large"
        )
    size = float(np.ptp(moved, axis=0).max())
    document = handle_edits.moved(document, name, scale, turn, shift, size=size)
    if body is None:
        return document
    return document.with_body(name, body.moved(scale=scale, rotation=turn, translation=shift))


def remove(document: Document, command: messages.Remove) -> Document:
    """Return the document without an object."""
    document.table(command.object)
    return document.with_object(command.object, None)


def ground(document: Document, command: messages.Ground) -> Document:
    """Return the document with a ground a little below everything, or without one."""
    old = document.objects.get(GROUND)
    if old is not None and old.get("mesh", {}).get("shape") != "plane":
        raise InputError(f"there is an object {GROUND!r} that is no plane: rename it first")
    if command.on == (old is not None):
        return document
    if not command.on:
        return document.with_object(GROUND, None)
    low, high = document.bounds()
    height = float(low[1] - 0.05 * (high - low).max())
    plane = {"shape": "plane", "point": [0.0, height, 0.0]}
    return document.with_object(GROUND, {"kind": "collider", "mesh": plane})


def select(document: Document, command: messages.Select) -> Document:
    """Return the document with another selection of particles, vertices or points."""
    document.table(command.object)
    counts = {"particles": 0, "vertices": 0, "points": 0}
    surface = document.surface(command.object)
    if (body := document.particles(command.object)) is not None:
        counts["particles"] = len(body)
    if surface is not None:
        counts["vertices"] = len(surface.vertices)
    if document.item(command.object).kind in BINDABLE:
        counts["points"] = len(bindings.bindable_points(document, command.object))
    numbers = np.unique(np.array(command.indices, np.int64))
    count = counts.get(command.what, 0)
    if len(numbers) and (numbers[0] < 0 or numbers[-1] >= count):
        raise InputError(f"{command.object!r} has {count} {command.what}, got number {numbers[-1]}")
    old = document.selection
    same = old is not None and old.object == command.object
    chosen = dict(old.chosen) if old is not None and same else {}
    had = chosen.get(command.what, np.empty(0, np.int64))
    if command.how == "add":
        numbers = np.union1d(had, numbers)
    elif command.how == "remove":
        numbers = np.setdiff1d(had, numbers)
    return replace(
        document, selection=Selection(command.object, command.what, {**chosen, command.what: numbers})
    )


def color(document: Document, name: str) -> str:
    """Return the color of an object as #rrggbb, the same as in pictures of a run."""
    names = list(document.objects)
    colors = object_colors([document.item(other).color for other in names])
    return color_code(colors[names.index(name)])
