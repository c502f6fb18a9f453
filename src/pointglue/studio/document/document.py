"""The document that is edited: a scene as in its file, with bodies of particles in memory; immutable."""

import json
import os
import re
import unicodedata
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
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
from ...scene.build.meshing import USUAL_CELLS, Surface, surface_of
from ...scene.schema.fields import Transform
from ...scene.tracks import box_center, rotation
from ..protocol.commands import What
from ..protocol.constants import BINDABLE, GROUND
from .recent import RecentValues
from .toml import toml_text

__all__ = [
    "BINDABLE", "GROUND", "Document", "Rig", "Selection", "body_file", "empty_document", "file_time",
    "load_document", "save_document", "table_key",
]  # fmt: skip

# Scene files have no mesh without handles: such a mesh has one handle of this name, without keys.
REST = "rest"
# Ratios: the contact distance of scenes that do not give one, by the extent of the smallest object, and by
# the median length of its edges; the smaller of both.
CONTACT_BY_SIZE, CONTACT_BY_EDGE = 0.01, 0.3
# Keys that say how a body of particles is made, which an edited body no longer is.
_RECIPE_KEYS = ("material", "spacing", "placement", "reach", "aspect", "thickness")
# Keys that a body in memory replaces; tables keep them in case the object becomes a mesh again.
_REPLACED_KEYS = ("mesh", "transform")
_PLACEHOLDER = {"shape": "sphere", "radius": 1.0}
_SURFACES: RecentValues[Surface] = RecentValues(64)
_BODIES: RecentValues[OrientedBody] = RecentValues(32)


@dataclass(frozen=True)
class Rig:
    """The links between handles of an object, by name."""

    chains: tuple[tuple[str, ...], ...] = ()
    """Handles that are the joints of bones, from the root on."""
    groups: tuple[tuple[str, ...], ...] = ()
    """Handles that move as one rigid piece."""

    def without(self, handles: Sequence[str]) -> "Rig":
        """Return the rig without the links of any of these handles."""
        gone = set(handles)
        return Rig(
            tuple(chain for chain in self.chains if not gone & set(chain)),
            tuple(group for group in self.groups if not gone & set(group)),
        )


@dataclass(frozen=True, eq=False)
class Selection:
    """The selected particles, vertices and points of an object."""

    object: str
    """The name of the object."""
    what: What
    """What was selected last."""
    chosen: Mapping[str, NDArray[np.int64]]
    """Ascending numbers, by what they are numbers of."""

    def of(self, name: str, what: What) -> NDArray[np.int64]:
        """Return the ascending numbers that are selected of an object."""
        return self.chosen.get(what, np.empty(0, np.int64)) if name == self.object else np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Document:
    """A scene. It never changes: edits make another document.

    Raises
    ------
    SceneError
        For anything that a scene file may not say.
    """

    tables: dict[str, Any]
    """The tables of the scene file; its files are absolute paths, and a body in memory has none."""
    bodies: Mapping[str, OrientedBody] = field(default_factory=dict)
    """Edited bodies of particles, by the names of objects."""
    rigs: Mapping[str, Rig] = field(default_factory=dict)
    """Links between handles, by the names of objects."""
    selection: Selection | None = None
    """What is selected."""
    origin: int = 0
    """The number of the scene: edits keep it, a scene that is opened or new has another one."""

    def __post_init__(self) -> None:
        """Raise SceneError for anything that a scene file may not say."""
        self.loaded  # noqa: B018

    @cached_property
    def loaded(self) -> LoadedScene:
        """The scene as `pointglue.scene` reads it, with placeholders for bodies in memory."""
        return load_scene(
            self.file_tables({name: _placeholder_keys(self.objects.get(name, {})) for name in self.bodies})
        )

    @property
    def scene(self) -> SceneFile:
        """The tables as `pointglue.scene` reads them."""
        return self.loaded.tables

    def item(self, name: str) -> Any:
        """Return the table of an object as `pointglue.scene` reads it; raise InputError if there is none."""
        self.table(name)
        return self.scene.objects[name]

    @property
    def objects(self) -> dict[str, dict[str, Any]]:
        """The tables of the objects."""
        return dict(self.tables.get("objects", {}))

    def file_tables(self, bodies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the tables as a scene file has them, with the given keys for bodies in memory."""
        objects = {}
        for name, table in self.objects.items():
            own = {
                key: value
                for key, value in table.items()
                if name not in self.bodies or key not in _REPLACED_KEYS
            }
            complete = {**own, **bodies.get(name, {})}
            if complete.get("kind") == "handles" and not complete.get("handles"):
                complete["handles"] = {REST: {"at": [0.0, 0.0, 0.0]}}
            objects[name] = complete
        return {**self.tables, "objects": objects or {"nothing": {"kind": "collider", "mesh": _PLACEHOLDER}}}

    def runnable(self, bodies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return the tables as a scene file that runs has them.

        A mesh without handles has one at the centre of its box, and a scene that needs contact has it.
        """
        tables = self.file_tables(bodies)
        if "contact" not in tables and (contact := self.default_contact()) is not None:
            tables["contact"] = contact
        for name, table in self.objects.items():
            if table["kind"] == "handles" and not table.get("handles"):
                at = box_center(self.mesh(name).vertices).tolist()
                tables["objects"][name]["handles"] = {REST: {"at": at}}
        return tables

    def default_contact(self) -> dict[str, Any] | None:
        """Return the contact table of a scene that has none, None if it needs none.

        Objects of the implicit solver meet colliders, and each other if they are apart at the start.
        """
        found, solid = [], [name for name, table in self.objects.items() if table["kind"] in BINDABLE]
        others = any(table["kind"] == "collider" for table in self.objects.values()) or len(solid) > 1
        if not solid or not others:
            return None
        for name, table in self.objects.items():
            surface = self.surface(name)
            if table["kind"] in BINDABLE and surface is not None and len(surface.faces):
                x, faces = surface.vertices, surface.faces
                edge = np.median(np.linalg.norm(x[faces] - x[np.roll(faces, 1, axis=1)], axis=2))
                found.append(
                    min(CONTACT_BY_SIZE * float(np.ptp(x, axis=0).max()), CONTACT_BY_EDGE * float(edge))
                )
        distance = float(f"{min(found, default=1e-3):.2g}")
        boxes = {name: self._box(name) for name in solid}

        def apart(one: str, other: str) -> bool:
            """Return whether the boxes of two objects are farther apart than the contact distance."""
            (low, high), (bottom, top) = boxes[one], boxes[other]
            return bool((bottom - high > distance).any() or (low - top > distance).any())

        pairs = [[one, other] for k, one in enumerate(solid) for other in solid[k:] if not apart(one, other)]
        return {"distance": distance, "ignore": pairs}

    def _box(self, name: str) -> tuple[Array, Array]:
        """Return the corners (3,) of the box around an object and its cage, whose cells may stand out."""
        x, kind = self.mesh(name).vertices, self.item(name).kind
        cell = getattr(self.item(name), "cell", None) or np.ptp(x, axis=0).max() / USUAL_CELLS
        margin = cell if kind in ("flesh", "jelly") else 0.0
        return x.min(0) - margin, x.max(0) + margin

    def particles(self, name: str) -> OrientedBody | None:
        """Return the body of an object, edited or made from its table; None if it has none."""
        if name in self.bodies:
            return self.bodies[name]
        table = self.item(name)
        if table.kind != "particles":
            return None
        if table.mesh is None:
            raise InputError(f"{name!r} has its body in a file: open the scene that names it")

        def build() -> OrientedBody:
            item = build_object(table, Path(), self.scene.frames)
            assert isinstance(item, BuiltParticles)
            return item.body

        return _BODIES.get((table_key(table), file_time(table.mesh)), build)

    def surface(self, name: str) -> Surface | None:
        """Return the mesh of an object at rest, None if it has none."""
        if (body := self.particles(name)) is not None:
            skin = body.visual
            return None if skin is None else Surface(skin.vertices, skin.faces)
        table = self.item(name)
        if table.kind == "collider" and getattr(table.mesh, "shape", "") == "plane":
            return None
        weld = table.kind in WELDED

        def build() -> Surface:
            found: Surface = surface_of(table.mesh, table.transform, Path(), weld=weld)
            for array in (found.vertices, found.faces):
                array.flags.writeable = False
            return found

        key = (table_key(table.mesh), table_key(table.transform), file_time(table.mesh), weld)
        return _SURFACES.get(key, build)

    def mesh(self, name: str) -> Surface:
        """Return the mesh of an object at rest; raise InputError if it has none."""
        surface = self.surface(name)
        if surface is None:
            raise InputError(f"{name!r} has no mesh")
        return surface

    def set(self, path: Sequence[str | int], value: Any) -> "Document":
        """Return the document with another value at a path of the tables; None removes the key."""
        if not path:
            raise InputError("path must not be empty")
        return replace(self, tables=_changed(self.tables, tuple(path), (), value))

    def with_object(
        self, name: str, table: Mapping[str, Any] | None, body: OrientedBody | None = None
    ) -> "Document":
        """Return the document with an object, which replaces one of its name, or for None without it."""
        objects, bodies, rigs = self.objects, dict(self.bodies), dict(self.rigs)
        bodies.pop(name, None)
        tables = {**self.tables}
        if table is None:
            objects.pop(name, None)
            rigs.pop(name, None)
            tables["attach"] = self._without_bindings(name)
        else:
            objects[name] = dict(table)
            if table["kind"] not in BINDABLE:
                tables["attach"] = self._without_bindings(name)
        if body is not None:
            bodies[name] = body
        chosen = self.selection
        if chosen is not None and chosen.object == name:
            chosen = None
        return replace(
            self, tables={**tables, "objects": objects}, bodies=bodies, rigs=rigs, selection=chosen
        )

    def _without_bindings(self, name: str) -> list[dict[str, Any]]:
        """Return the tables of bindings without those of an object."""
        left = [table for table in self.attach if name not in (table["from"], table["to"])]
        if len(left) < len(self.attach):
            warnings.warn(f"what bound {name!r} to others is gone", PointglueWarning, stacklevel=3)
        return left

    def with_body(self, name: str, body: OrientedBody, keep: bool = True) -> "Document":
        """Return the document with another body of an object, whose particles stay selected with `keep`."""
        chosen = self.selection
        if chosen is not None and chosen.object == name and not keep:
            chosen = replace(chosen, chosen={k: v for k, v in chosen.chosen.items() if k != "particles"})
        changed = replace(self, bodies={**self.bodies, name: body}, selection=chosen)
        if name in self.bodies:
            return changed
        table = {key: value for key, value in self.table(name).items() if key not in _RECIPE_KEYS}
        return replace(changed, tables={**self.tables, "objects": {**self.objects, name: table}})

    def with_rig(self, name: str, rig: Rig) -> "Document":
        """Return the document with other links between the handles of an object."""
        return replace(self, rigs={**self.rigs, name: rig})

    def without_leftovers(self) -> "Document":
        """Return the document without bodies of objects of other kinds and links of missing handles."""
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
        """The tables of the bindings between objects."""
        return list(self.tables.get("attach", []))

    def body(self, name: str) -> OrientedBody:
        """Return the body of an object; raise InputError if it has none yet."""
        self.table(name)
        body = self.particles(name)
        if body is None:
            raise InputError(f"{name!r} has no particles yet: spray some, or let a body be made")
        return body

    def table(self, name: str) -> dict[str, Any]:
        """Return the table of an object; raise InputError if there is none."""
        if name not in self.objects:
            raise InputError(f"there is no object {name!r}")
        return self.objects[name]

    def free_name(self, wanted: str) -> str:
        """Return a name like the wanted one that no object has and scene files allow."""
        plain = "".join(letter for letter in unicodedata.normalize("NFKD", wanted) if letter.isascii())
        base = re.sub(r"[^A-Za-z0-9_ -]", "_", plain).strip(" -_")[:50] or "object"
        number = 2
        name = base
        while name in self.objects or name == GROUND:
            name, number = f"{base} {number}", number + 1
        return name

    def bounds(self) -> tuple[Array, Array]:
        """Return the corners (3,) of the box around all meshes."""
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
    """Return a new scene without objects."""
    return Document(EMPTY, origin=next(_ORIGINS))


def _placeholder_keys(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that are checked in place of a body in memory, which needs no mesh file any more."""
    kept = {key: table[key] for key in _REPLACED_KEYS if key in table}
    mesh = kept.get("mesh", _PLACEHOLDER)
    return {**kept, "mesh": _PLACEHOLDER if isinstance(mesh, Mapping) and "file" in mesh else mesh}


def _changed(here: Any, path: tuple[str | int, ...], done: tuple[str | int, ...], value: Any) -> Any:
    """Return a copy of tables with one value changed."""
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


def table_key(table: Any) -> str:
    """Return a text that is the same for tables that say the same."""
    return f"{type(table).__name__}{table.model_dump_json()}"


def file_time(mesh: Any) -> float:
    """Return when the file of a mesh was written [s], so that a new one is read; 0 for no file."""
    file = getattr(mesh, "file", None)
    try:
        return os.stat(file).st_mtime if file else 0.0
    except OSError:
        return 0.0


def load_document(path: Path, allow: Callable[[Path], None] = lambda path: None) -> Document:
    """Read a scene file and the bodies that it names.

    Parameters
    ----------
    path : Path
        The scene file.
    allow : callable, optional
        Raises InputError for a file that may not be read.

    Returns
    -------
    Document
        The scene, with an origin of its own.

    Raises
    ------
    SceneError
        If the file is no scene.
    InputError
        If a file that it names cannot be read.
    """
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
        # A handle of this name with keys or an orientation was made by a person.
        handles = table.get("handles", {})
        if handles.keys() == {REST} and handles[REST].keys() == {"at"}:
            table["handles"] = {}
        chains, together = (tuple(map(tuple, table.pop(key, ()))) for key in ("chains", "together"))
        if chains or together:
            rigs[name] = Rig(chains, together)
    document = Document(tables, bodies, rigs, origin=next(_ORIGINS)).without_leftovers()
    bare = document.set(["contact"], None)
    # A contact table that the studio saved with the scene adapts to edits; one that a person wrote stays.
    return bare if tables.get("contact") == bare.default_contact() else document


def body_file(path: Path, name: str) -> str:
    """Return the name of the file of a body of a scene."""
    return f"{path.stem}.{name}.npz"


def save_document(document: Document, path: Path, known: Mapping[str, OrientedBody] | None = None) -> None:
    """Write a scene file, with bodies next to it; each appears when it is complete, the scene last.

    Parameters
    ----------
    document : Document
        The scene.
    path : Path
        The scene file.
    known : mapping of str to OrientedBody, optional
        Bodies whose files exist already.

    Raises
    ------
    InputError
        If a file cannot be written.
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
