"""What is edited: a scene, as in its file, with the bodies of particles in memory. Documents never change."""

import json
import os
import re
import unicodedata
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...errors import InputError, PointglueWarning
from ...files import atomic_write, explain_write_errors
from ...io import load_body, save_body
from ...particles import OrientedBody
from ...scene import LoadedScene, SceneFile, load_scene
from ...scene.build.built import BuiltParticles
from ...scene.build.construct import WELDED, build_object
from ...scene.build.surfaces import USUAL_CELLS, Surface, surface_of
from ...scene.schema.fields import Transform
from ...scene.tracks import box_center, rotation
from ..protocol.commands import What
from .toml import toml_text

__all__ = [
    "TIED", "Document", "Rig", "Selection", "body_file", "empty_document", "load_document", "save_document",
]  # fmt: skip

GROUND = "ground"
# A mesh without handles is a mesh with one that does nothing; in files it has this name.
REST = "rest"
# What can be tied together, and meets others only where the scene has contact.
TIED = ("flesh", "cloth", "jelly", "rigid", "animated")
# Contact that a scene needs and does not have: from where on things push each other away, in sizes of the
# smallest of them and in lengths of its edges.
NEAR, NEAR_EDGE = 0.01, 0.3
# What a body of particles has been made by, and no longer is once it has been edited.
_RECIPE = ("material", "spacing", "placement", "reach", "aspect", "thickness")
# What a body in memory has in itself: tables keep it for the day on which the mesh is no body any more.
_WITHIN = ("mesh", "transform")
_STAND_IN = {"shape": "sphere", "radius": 1.0}


@dataclass(frozen=True)
class Rig:
    """Which handles of an object hold together, by name."""

    chains: tuple[tuple[str, ...], ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()

    def without(self, handles: Sequence[str]) -> "Rig":
        """With no link of any of these handles."""
        gone = set(handles)
        return Rig(
            tuple(chain for chain in self.chains if not gone & set(chain)),
            tuple(group for group in self.groups if not gone & set(group)),
        )


@dataclass(frozen=True, eq=False)
class Selection:
    """Numbers of particles, vertices or points of an object; both particles and vertices may be chosen."""

    object: str
    what: What
    chosen: Mapping[str, NDArray[np.int64]]
    """Ascending, by what they are."""

    def of(self, name: str, what: What) -> NDArray[np.int64]:
        """The numbers of what is chosen of an object."""
        return self.chosen.get(what, np.empty(0, np.int64)) if name == self.object else np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Document:
    """A scene. Files in `tables` are absolute paths; particles whose body is in memory have none."""

    tables: dict[str, Any]
    bodies: Mapping[str, OrientedBody] = field(default_factory=dict)
    rigs: Mapping[str, Rig] = field(default_factory=dict)
    selection: Selection | None = None
    origin: int = 0
    """Which scene it is a state of: edits keep it, opening another scene or a new one does not."""

    def __post_init__(self) -> None:
        """Raise SceneError for anything that a scene file may not say."""
        self.loaded  # noqa: B018

    @cached_property
    def loaded(self) -> LoadedScene:
        """The scene; bodies are stood in for."""
        return load_scene(self.told({name: _stood_in(self.objects.get(name, {})) for name in self.bodies}))

    @property
    def scene(self) -> SceneFile:
        """Its tables as pointglue.scene reads them."""
        return self.loaded.tables

    def item(self, name: str) -> Any:
        """The table of an object as pointglue.scene reads it; InputError if there is none of the name."""
        self.table(name)
        return self.scene.objects[name]

    @property
    def objects(self) -> dict[str, dict[str, Any]]:
        """The tables of the objects as they are."""
        return dict(self.tables.get("objects", {}))

    def told(self, bodies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The tables as a scene file has them, with what to say of bodies in memory."""
        objects = {}
        for name, table in self.objects.items():
            own = {
                key: value for key, value in table.items() if name not in self.bodies or key not in _WITHIN
            }
            told = {**own, **bodies.get(name, {})}
            if told.get("kind") == "handles" and not told.get("handles"):
                told["handles"] = {REST: {"at": [0.0, 0.0, 0.0]}}
            objects[name] = told
        return {**self.tables, "objects": objects or {"nothing": {"kind": "collider", "mesh": _STAND_IN}}}

    def runnable(self, bodies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The same; handles that only keep a mesh where it is are in its middle.

        Where something is to be met that particles alone would meet, there is contact: with that, and of the
        others with each other where they are clearly apart at the start.
        """
        tables = self.told(bodies)
        if "contact" not in tables and (contact := self._contact_table()) is not None:
            tables["contact"] = contact
        for name, table in self.objects.items():
            if table["kind"] == "handles" and not table.get("handles"):
                at = box_center(self.mesh(name).vertices).tolist()
                tables["objects"][name]["handles"] = {REST: {"at": at}}
        return tables

    def _contact_table(self) -> dict[str, Any] | None:
        """The contact that a scene needs which does not say so itself; None if it needs none."""
        found, tied = [], [name for name, table in self.objects.items() if table["kind"] in TIED]
        others = any(table["kind"] == "collider" for table in self.objects.values()) or len(tied) > 1
        if not tied or not others:
            return None
        for name, table in self.objects.items():
            surface = self.surface(name)
            if table["kind"] in TIED and surface is not None and len(surface.faces):
                x, faces = surface.vertices, surface.faces
                edge = np.median(np.linalg.norm(x[faces] - x[np.roll(faces, 1, axis=1)], axis=2))
                found.append(min(NEAR * float(np.ptp(x, axis=0).max()), NEAR_EDGE * float(edge)))
        distance = float(f"{min(found, default=1e-3):.2g}")
        boxes = {name: self._box(name) for name in tied}

        def apart(one: str, other: str) -> bool:
            (low, high), (bottom, top) = boxes[one], boxes[other]
            return bool((bottom - high > distance).any() or (low - top > distance).any())

        pairs = [[one, other] for k, one in enumerate(tied) for other in tied[k:] if not apart(one, other)]
        return {"distance": distance, "ignore": pairs}

    def _box(self, name: str) -> tuple[Array, Array]:
        """Around an object and the cubes that it may be carried by, which are a tenth of it at most."""
        x, kind = self.mesh(name).vertices, self.item(name).kind
        cell = getattr(self.item(name), "cell", None) or np.ptp(x, axis=0).max() / USUAL_CELLS
        margin = cell if kind in ("flesh", "jelly") else 0.0
        return x.min(0) - margin, x.max(0) + margin

    def particles(self, name: str) -> OrientedBody | None:
        """The body of an object: as edited, or as its table has it made; None if it is no body."""
        if name in self.bodies:
            return self.bodies[name]
        table = self.item(name)
        if table.kind != "particles":
            return None
        if table.mesh is None:
            raise InputError(f"{name!r} has its body in a file: open the scene that names it")
        return _made(dumped(table), file_age(table.mesh), Hidden((table, Path(), self.scene.frames)))

    def surface(self, name: str) -> Surface | None:
        """The mesh of an object at rest; None if it has none to see."""
        if (body := self.particles(name)) is not None:
            skin = body.visual
            return None if skin is None else Surface(skin.vertices, skin.faces)
        table = self.item(name)
        if table.kind == "collider" and getattr(table.mesh, "shape", "") == "plane":
            return None
        return _surface(
            dumped(table.mesh),
            dumped(table.transform),
            file_age(table.mesh),
            table.kind in WELDED,
            Hidden((table.mesh, table.transform)),
        )

    def mesh(self, name: str) -> Surface:
        """The mesh of an object at rest; InputError if it has none to see."""
        surface = self.surface(name)
        if surface is None:
            raise InputError(f"{name!r} has no mesh")
        return surface

    def set(self, path: Sequence[str | int], value: Any) -> "Document":
        """With another value at a path of the tables; None removes what is there."""
        if not path:
            raise InputError("path must not be empty")
        return replace(self, tables=_changed(self.tables, tuple(path), (), value))

    def with_object(
        self, name: str, table: Mapping[str, Any] | None, body: OrientedBody | None = None
    ) -> "Document":
        """With an object, in place of an earlier one of its name, or without it."""
        objects, bodies, rigs = self.objects, dict(self.bodies), dict(self.rigs)
        bodies.pop(name, None)
        tables = {**self.tables}
        if table is None:
            objects.pop(name, None)
            rigs.pop(name, None)
            tables["attach"] = self._untied(name)
        else:
            objects[name] = dict(table)
            if table["kind"] not in TIED:
                tables["attach"] = self._untied(name)
        if body is not None:
            bodies[name] = body
        chosen = self.selection
        if chosen is not None and chosen.object == name:
            chosen = None
        return replace(
            self, tables={**tables, "objects": objects}, bodies=bodies, rigs=rigs, selection=chosen
        )

    def _untied(self, name: str) -> list[dict[str, Any]]:
        """The attachments without those of an object."""
        left = [tie for tie in self.attach if name not in (tie["from"], tie["to"])]
        if len(left) < len(self.attach):
            warnings.warn(f"what tied {name!r} to others is gone", PointglueWarning, stacklevel=3)
        return left

    def with_body(self, name: str, body: OrientedBody, keep: bool = False) -> "Document":
        """With another body of an object; `keep`: particles have the same numbers as before."""
        chosen = self.selection
        if chosen is not None and chosen.object == name and not keep:
            chosen = replace(chosen, chosen={k: v for k, v in chosen.chosen.items() if k != "particles"})
        changed = replace(self, bodies={**self.bodies, name: body}, selection=chosen)
        if name in self.bodies:
            return changed
        table = {key: value for key, value in self.table(name).items() if key not in _RECIPE}
        return replace(changed, tables={**self.tables, "objects": {**self.objects, name: table}})

    def with_rig(self, name: str, rig: Rig) -> "Document":
        """With other links of handles."""
        return replace(self, rigs={**self.rigs, name: rig})

    def without_leftovers(self) -> "Document":
        """Without bodies of what is not made of particles, and links of handles that are not there."""
        kinds = {name: table["kind"] for name, table in self.objects.items()}
        bodies = {name: body for name, body in self.bodies.items() if kinds.get(name) == "particles"}
        rigs = {}
        for name, rig in self.rigs.items():
            there = self.objects.get(name, {}).get("handles", {})
            gone = [handle for link in (*rig.chains, *rig.groups) for handle in link if handle not in there]
            if name in self.objects:
                rigs[name] = rig.without(gone)
        same = len(bodies) == len(self.bodies) and rigs == self.rigs
        return self if same else replace(self, bodies=bodies, rigs=rigs)

    @property
    def attach(self) -> list[dict[str, Any]]:
        """What ties objects together, as in the file."""
        return list(self.tables.get("attach", []))

    def body(self, name: str) -> OrientedBody:
        """The body of an object; InputError if it has none yet."""
        self.table(name)
        body = self.particles(name)
        if body is None:
            raise InputError(f"{name!r} has no particles yet: spray some, or let a body be made")
        return body

    def table(self, name: str) -> dict[str, Any]:
        """The table of an object; InputError if there is none of the name."""
        if name not in self.objects:
            raise InputError(f"there is no object {name!r}")
        return self.objects[name]

    def free_name(self, wanted: str) -> str:
        """A name that no object has, made of letters that scene files allow."""
        plain = "".join(letter for letter in unicodedata.normalize("NFKD", wanted) if letter.isascii())
        base = re.sub(r"[^A-Za-z0-9_ -]", "_", plain).strip(" -_")[:50] or "object"
        number = 2
        name = base
        while name in self.objects or name == GROUND:
            name, number = f"{base} {number}", number + 1
        return name

    def bounds(self) -> tuple[Array, Array]:
        """The box around everything that is seen."""
        surfaces = [self.surface(name) for name in self.objects]
        points = [surface.vertices for surface in surfaces if surface is not None]
        if not points:
            return -np.ones(3), np.ones(3)
        return np.min([p.min(0) for p in points], axis=0), np.max([p.max(0) for p in points], axis=0)


EMPTY = {
    "frames": {"start": 1, "count": 120, "rate": 30.0},
    "world": {"gravity": [0.0, -9.81, 0.0]},
    "objects": {},
}
_ORIGINS = count(1)


def empty_document() -> Document:
    """A new scene."""
    return Document(EMPTY, origin=next(_ORIGINS))


def _stood_in(table: Mapping[str, Any]) -> dict[str, Any]:
    """What is checked in place of a body in memory; it does not need the file of its mesh any more."""
    kept = {key: table[key] for key in _WITHIN if key in table}
    mesh = kept.get("mesh", _STAND_IN)
    return {**kept, "mesh": _STAND_IN if isinstance(mesh, Mapping) and "file" in mesh else mesh}


def _changed(here: Any, path: tuple[str | int, ...], done: tuple[str | int, ...], value: Any) -> Any:
    """A copy of tables with one value changed."""
    if not path:
        return value
    key, rest = path[0], path[1:]
    place = ".".join(map(str, done)) or "the scene"
    if isinstance(here, list | tuple):
        if not isinstance(key, int) or not 0 <= key < len(here):
            raise InputError(f"{place} has {len(here)} entries, from 0, got {key!r}")
        changed = list(here)
        changed[key] = _changed(here[key], rest, (*done, key), value)
        return changed
    if not isinstance(here, Mapping) or not isinstance(key, str):
        raise InputError(f"{place} has no {key!r}")
    if not rest and value is None:
        return {k: v for k, v in here.items() if k != key}
    return {**here, key: _changed(here.get(key, {}), rest, (*done, key), value)}


def dumped(table: Any) -> str:
    return f"{type(table).__name__}{table.model_dump_json()}"


def file_age(mesh: Any) -> float:
    """When a mesh file was written, so that a new one is read."""
    file = getattr(mesh, "file", None)
    try:
        return os.stat(file).st_mtime if file else 0.0
    except OSError:
        return 0.0


@dataclass(frozen=True, eq=False)
class Hidden:
    """Values that do not tell calls of a cached function apart."""

    values: tuple[Any, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hidden)

    def __hash__(self) -> int:
        return 0


@lru_cache(64)
def _surface(mesh: str, transform: str, age: float, weld: bool, tables: Hidden) -> Surface:
    found: Surface = surface_of(tables.values[0], tables.values[1], Path(), weld=weld)
    for array in (found.vertices, found.faces):
        array.flags.writeable = False
    return found


@lru_cache(32)
def _made(table: str, age: float, tables: Hidden) -> OrientedBody:
    item = build_object(*tables.values)
    assert isinstance(item, BuiltParticles)
    return item.body


def load_document(path: Path, allow: Callable[[Path], None] = lambda path: None) -> Document:
    """Read a scene file, and the bodies that it names; `allow` raises for files that may not be read."""
    loaded = load_scene(path)
    folder = path.resolve().parent
    tables: dict[str, Any] = json.loads(json.dumps(loaded.raw))
    bodies, rigs = {}, {}
    for name, table in tables.get("objects", {}).items():
        if isinstance(table.get("mesh"), dict) and "file" in table["mesh"]:
            table["mesh"]["file"] = str((folder / table["mesh"]["file"]).resolve())
            allow(Path(table["mesh"]["file"]))
        if "body" in table:
            allow(folder / table["body"])
            place = loaded.tables.objects[name].transform
            table.pop("transform", None)
            body = load_body(folder / table.pop("body"))
            if place != Transform():
                body = body.moved(rotation=rotation(place.rotate), translation=place.translate)
            bodies[name] = body
        # A handle of this name that moves, or carries an orientation, is somebody's own.
        handles = table.get("handles", {})
        if handles.keys() == {REST} and handles[REST].keys() == {"at"}:
            table["handles"] = {}
        chains, together = (tuple(map(tuple, table.pop(key, ()))) for key in ("chains", "together"))
        if chains or together:
            rigs[name] = Rig(chains, together)
    document = Document(tables, bodies, rigs, origin=next(_ORIGINS)).without_leftovers()
    bare = document.set(["contact"], None)
    # Contact as it is saved with a scene that needs it goes on to fit the scene as that is edited.
    return bare if tables.get("contact") == bare._contact_table() else document


def body_file(path: Path, name: str) -> str:
    """The name of the file of a body of a scene."""
    return f"{path.stem}.{name}.npz"


def save_document(document: Document, path: Path, known: Mapping[str, OrientedBody] | None = None) -> None:
    """Write a scene file, with bodies next to it; each appears when it is complete, the scene last.

    Bodies that are `known` are there already.
    """
    folder = path.resolve().parent
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    names = {}
    for name, body in document.bodies.items():
        if (known or {}).get(name) is not body:
            save_body(folder / body_file(path, name), body)
        names[name] = {"body": body_file(path, name)}
    tables = json.loads(json.dumps(document.runnable(names)))
    for table in tables["objects"].values():
        if isinstance(table.get("mesh"), dict) and "file" in table["mesh"]:
            table["mesh"]["file"] = Path(os.path.relpath(table["mesh"]["file"], folder)).as_posix()
    for name, rig in document.rigs.items():
        for key, rows in (("chains", rig.chains), ("together", rig.groups)):
            if rows:
                tables["objects"][name][key] = [list(row) for row in rows]
    with explain_write_errors(path), atomic_write(path) as draft:
        draft.write_text(toml_text(tables), encoding="utf-8")
