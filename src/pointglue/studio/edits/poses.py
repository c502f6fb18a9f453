"""Edits of handles: where they are in a frame, how they are dragged, and the mesh that follows."""

import glob
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from ...checks import Array
from ...deform import HandleDeformer, HandleSequence, InsideShape, Skeleton
from ...errors import InputError, PointglueWarning
from ...io import Mesh, Part, open_output, read_mesh
from ...scene.build.construct import WELDED
from ...scene.build.keyed_handles import KeyedHandles, handle_deformer
from ...scene.schema.fields import Transform
from ...scene.tracks import box_center, rotation
from ..document.document import Document, Rig
from ..protocol import commands as messages

__all__ = ["Poses", "add_handle", "existing_exports", "export", "key", "link", "moved", "remove_handle"]

EXPORTS = (".ply", ".obj", ".stl", ".off", ".glb", ".gltf", ".npy", ".npz")
AXES = {"x": 0, "y": 1, "z": 2}
MIRROR_TOLERANCE = (
    1e-3  # ratio: distance of a handle from the mirror image of another, by the size of the mesh
)


def frame_time(number: int) -> str:
    """Return the time of a frame as scene files write it."""
    return f"frame {number}"


def places(document: Document, name: str) -> Array:
    """Return the positions of the handles at rest (H, 3) [m]."""
    handles = document.item(name).handles
    return np.array([handle.at for handle in handles.values()]).reshape(-1, 3)


def key_frames(document: Document, name: str, handle: str) -> list[int]:
    """Return the frames of the keys of a handle."""
    frames = document.scene.frames
    table = document.item(name).handles[handle]
    return [round(frames.start + frames.seconds(k.time) * frames.rate) for k in table.keys]


def rounded(position: Array, size: float) -> list[float]:
    """Return coordinates (3,) [m], rounded to about 1e-7 of the size of an object [m]."""
    digits = 7 - math.floor(math.log10(size))
    return [float(value) for value in np.round(position, digits) + 0.0]


def _handles(document: Document, name: str) -> dict[str, Any]:
    """Return the tables of the handles of an object."""
    table = document.table(name)
    if table["kind"] != "handles":
        raise InputError(
            f"{name!r} is of kind {table['kind']}, and has no handles: make it a mesh with handles"
        )
    return dict(table.get("handles", {}))


def mirrored(document: Document, name: str, position: Array, axis: str) -> Array:
    """Return the mirror image (3,) of a position at the centre of the mesh's box [m]."""
    k, image = AXES[axis], np.array(position, float)
    image[k] = 2 * box_center(document.mesh(name).vertices)[k] - image[k]
    return image


def _size(document: Document, name: str) -> float:
    """Return the largest extent of the mesh of an object [m]."""
    return float(np.ptp(document.mesh(name).vertices, axis=0).max())


def mirror_handle(document: Document, name: str, handle: int, axis: str) -> int | None:
    """Return the handle that is at rest at the mirror image of another one, None if there is none."""
    rest = places(document, name)
    away = np.linalg.norm(rest - mirrored(document, name, rest[handle], axis), axis=1)
    other = int(away.argmin())
    return other if other != handle and away[other] < MIRROR_TOLERANCE * _size(document, name) else None


@dataclass(frozen=True, eq=False)
class Solved:
    """The deformer of an object, and what it was made for."""

    made_for: tuple[Any, ...]
    deformer: HandleDeformer
    shape: InsideShape | None
    distances: Mapping[tuple[float, ...], Array]
    """Inside distances (V,) by the places of handles."""


class Poses:
    """Deformers of the objects with handles, made when needed, and handles that are being dragged."""

    def __init__(self) -> None:
        self._solved: dict[str, Solved] = {}
        self._sequences: dict[str, tuple[Any, Any, HandleSequence]] = {}
        self.live: Mapping[str, Array] = {}
        """Places of handles that are not in the document yet, by object; replaced, never changed in place."""

    def handles(self, document: Document, name: str, frame: int) -> Array:
        """Return where the handles of an object are in a frame (H, 3) [m]."""
        if name in self.live:
            return self.live[name]
        frames = document.scene.frames
        return KeyedHandles.from_table(document.item(name), frames).at((frame - frames.start) / frames.rate)[
            0
        ]

    def vertices(self, document: Document, name: str, frame: int) -> Array:
        """Return where the vertices of an object are in a frame (V, 3) [m], as `pointglue run` has them."""
        if not document.table(name).get("handles"):
            return document.mesh(name).vertices
        sequence = self._sequence(document, name)
        number = max(frame - document.scene.frames.start, 0)
        if name not in self.live:
            return sequence.pose(number).positions
        rotations = sequence.handles_at(number / sequence.rate)[1]
        return sequence.deformer.deform(
            self.live[name], rotations=rotations, previous=sequence.previous(number)
        )

    def _sequence(self, document: Document, name: str) -> HandleSequence:
        """Return the poses of an object, with those that an edit has not changed."""
        deformer, table, frames = self.deformer(document, name), document.item(name), document.scene.frames
        old = self._sequences.get(name)
        if old is not None and old[0] is table and old[1] == frames and old[2].deformer is deformer:
            return old[2]
        sequence = HandleSequence(deformer, KeyedHandles.from_table(table, frames).at, frames.rate)
        if old is not None:
            sequence.adopt(old[2])
        self._sequences[name] = table, frames, sequence
        return sequence

    def deformer(self, document: Document, name: str) -> HandleDeformer:
        """The deformer of an object; distances of handles that stay are not measured again."""
        table, surface = document.item(name), document.mesh(name)
        rest = places(document, name)
        radii = [handle.radius for handle in table.handles.values()]
        options = (table.falloff, table.stretch, table.damping, table.distance)
        made_for = (surface, rest.tobytes(), tuple(radii), *options)
        old = self._solved.get(name)
        if old is not None and old.made_for[0] is surface and old.made_for[1:] == made_for[1:]:
            return old.deformer
        same = old is not None and old.made_for[0] is surface
        known, shape = (dict(old.distances), old.shape) if old is not None and same else ({}, None)
        distance = None
        if table.distance == "inside":
            for k, place in enumerate(map(tuple, rest.tolist())):
                if place not in known:
                    shape = shape or InsideShape(surface.vertices, surface.faces)
                    known[place], lost = shape.distances(rest[k], k)
                    if lost:
                        told = f"{lost} vertices of {name!r} cannot be reached inside it from handle {k + 1}"
                        warnings.warn(told, PointglueWarning, stacklevel=2)
            distance = np.stack([known[tuple(place)] for place in rest.tolist()])
        deformer = handle_deformer(table, surface, rest, distance)
        self._solved[name] = Solved(made_for, deformer, shape, known)
        return deformer

    def drag(self, document: Document, command: messages.DragHandle, frame: int) -> None:
        """Move a handle, those linked to it, and its mirror image."""
        names = list(_handles(document, command.object))
        if command.handle not in names:
            raise InputError(f"there is no handle {command.handle!r}")
        k, target = names.index(command.handle), np.array(command.position)
        now = self.handles(document, command.object, frame)
        moves = {k: target}
        if (
            command.mirror is not None
            and (other := mirror_handle(document, command.object, k, command.mirror)) is not None
        ):
            moves[other] = mirrored(document, command.object, target, command.mirror)
        rig = document.rigs.get(command.object, Rig())
        skeleton = Skeleton(
            places(document, command.object),
            chains=[[names.index(handle) for handle in chain] for chain in rig.chains],
            groups=[[names.index(handle) for handle in members] for members in rig.groups],
        )
        self.live = {**self.live, command.object: skeleton.drag(now, moves)}

    def with_dragged_keys(self, document: Document, name: str, frame: int) -> Document:
        """Return the document with keys at the positions to which handles were dragged."""
        now = self.live.get(name)
        if now is None:
            return document
        self.live = {other: places for other, places in self.live.items() if other != name}
        before = self.handles(document, name, frame)
        return with_keys(document, name, frame, now, np.flatnonzero((now != before).any(1)).tolist())


def with_keys(document: Document, name: str, frame: int, now: Array, chosen: list[int]) -> Document:
    """Return the document with keys of the `chosen` handles, which are at `now` (H, 3), at a frame.

    A first key after the first frame comes with one at rest in the first, or all frames had one pose.
    """
    handles, start = _handles(document, name), document.scene.frames.start
    for k, (handle, at) in enumerate(zip(list(handles), places(document, name), strict=True)):
        if k in chosen:
            frames = key_frames(document, name, handle)
            keys = [
                key
                for key, there in zip(handles[handle].get("keys", []), frames, strict=True)
                if there != frame
            ]
            old = [
                key
                for key, there in zip(handles[handle].get("keys", []), frames, strict=True)
                if there == frame
            ]
            fresh = {
                **(old[0] if old else {}),
                "time": frame_time(frame),
                "translate": rounded(now[k] - at, _size(document, name)),
            }
            if not frames and frame > start:
                keys, frames = [{"time": frame_time(start), "translate": [0.0, 0.0, 0.0]}], [start]
            row = sum(other < frame for other in frames)
            handles[handle] = {**handles[handle], "keys": [*keys[:row], fresh, *keys[row:]]}
    return document.set(["objects", name, "handles"], handles)


def add_handle(document: Document, command: messages.AddHandle, poses: Poses, frame: int) -> Document:
    """Return the document with a handle on the mesh as it is shown.

    Its rest position is that of the point of the mesh that it was placed on.
    """
    handles = _handles(document, command.object)
    surface = document.mesh(command.object)
    shown = poses.vertices(document, command.object, frame)
    nearest = int(((shown - command.position) ** 2).sum(1).argmin())
    position = np.asarray(command.position) + surface.vertices[nearest] - shown[nearest]
    wanted = [position]
    if command.mirror is not None:
        image = mirrored(document, command.object, position, command.mirror)
        if np.linalg.norm(image - position) > MIRROR_TOLERANCE * _size(document, command.object):
            wanted.append(image)
    size = _size(document, command.object)
    for place in wanted:
        number = 1
        while f"handle {number}" in handles:
            number += 1
        handles[f"handle {number}"] = {"at": rounded(place, size)}
    return document.set(["objects", command.object, "handles"], handles)


def moved(document: Document, name: str, scale: float, turn: Array, shift: Array, *, size: float) -> Document:
    """Return the document with a mesh, its handles and keys moved to `scale` `turn` x + `shift`.

    `turn` is a rotation (3, 3), `shift` (3,) [m], and `size` the largest extent of the moved mesh [m].
    """
    table = document.item(name)
    place = Transform.model_validate(document.table(name).get("transform", {}))
    transform = {
        "rotate": euler_degrees(turn @ rotation(place.rotate)),
        "translate": rounded(scale * turn @ place.translate + shift, size),
    }
    if scale != 1 or place.scale != (1.0, 1.0, 1.0):
        transform["scale"] = [float(f"{scale * each:.12g}") for each in place.scale]
    document = document.set(["objects", name, "transform"], transform)
    if table.kind != "handles":
        return document
    handles = _handles(document, name)
    for handle in handles:
        known = table.handles[handle]
        handle_table = {**handles[handle], "at": rounded(scale * turn @ known.at + shift, size)}
        if known.radius:
            handle_table["radius"] = scale * known.radius
        if known.keys:
            handle_table["keys"] = [
                {**key, "translate": rounded(scale * turn @ parsed.translate, size)}
                | (
                    {"rotate": euler_degrees(turn @ rotation(parsed.rotate) @ turn.T)}
                    if "rotate" in key
                    else {}
                )
                for key, parsed in zip(handle_table["keys"], known.keys, strict=True)
            ]
        handles[handle] = handle_table
    return document.set(["objects", name, "handles"], handles)


def euler_degrees(turn: Array) -> list[float]:
    """Return the angles of a rotation (3, 3) about x, then y, then z [degrees]."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Gimbal lock", UserWarning)  # any of the equivalent angles will do
        return [
            float(angle) + 0.0 for angle in Rotation.from_matrix(turn).as_euler("xyz", degrees=True).round(9)
        ]


def remove_handle(document: Document, command: messages.RemoveHandle) -> Document:
    """Return the document without a handle and its links."""
    handles = _handles(document, command.object)
    if command.handle not in handles:
        raise InputError(f"there is no handle {command.handle!r}")
    del handles[command.handle]
    rig = document.rigs.get(command.object, Rig()).without([command.handle])
    return document.set(["objects", command.object, "handles"], handles).with_rig(command.object, rig)


def link(document: Document, command: messages.Link) -> Document:
    """Return the document with handles linked to a group or a chain, or without their links."""
    handles = list(_handles(document, command.object))
    chosen = tuple(command.handles)
    missing = [handle for handle in chosen if handle not in handles]
    if missing:
        raise InputError(f"there is no handle {missing[0]!r}")
    old = document.rigs.get(command.object, Rig())
    if command.how == "none":
        return document.with_rig(command.object, old.without(chosen))
    if len({*chosen}) < 2:
        raise InputError(f"choose at least two handles, got {len({*chosen})}")
    chains, groups = old.chains, old.groups
    rig = Rig((*chains, chosen), groups) if command.how == "chain" else Rig(chains, (*groups, chosen))
    _check_links(rig)
    try:
        Skeleton(
            places(document, command.object),
            chains=[[handles.index(handle) for handle in chain] for chain in rig.chains],
            groups=[[handles.index(handle) for handle in members] for members in rig.groups],
        )
    except InputError as error:
        names = ", ".join(map(repr, chosen))
        raise InputError(
            f"{names} cannot be a {command.how}: handles are in the same place, or it would hang from itself"
        ) from error
    return document.with_rig(command.object, rig)


def _check_links(rig: Rig) -> None:
    """Raise InputError for links that a skeleton cannot have. Only the root of a chain may be in several."""
    for what, links, first in (("chain", rig.chains, 1), ("group", rig.groups, 0)):
        home: dict[str, int] = {}
        for k, members in enumerate(links):
            twice = [handle for handle in members if members.count(handle) > 1]
            if twice:
                raise InputError(f"{twice[0]!r} can be in a {what} once only")
            for handle in members[first:]:
                if home.setdefault(handle, k) != k:
                    raise InputError(f"{handle!r} is in a {what} already: Unlink it first")
    led = {handle for chain in rig.chains for handle in chain[1:]}
    for members in rig.groups:
        both = [handle for handle in members if handle in led]
        if len(both) > 1:
            raise InputError(
                f"{both[0]!r} and {both[1]!r} are in chains, and a group can follow one of them only: "
                "Unlink one first"
            )


def key(document: Document, command: messages.Key, poses: Poses, frame: int) -> Document:
    """Return the document with a key of every handle at a frame, or without the keys of that frame."""
    handles = _handles(document, command.object)
    if not handles:
        raise InputError("place handles first")
    if not command.remove:
        now = poses.handles(document, command.object, frame)
        return with_keys(document, command.object, frame, now, list(range(len(now))))
    for handle, table in handles.items():
        frames = key_frames(document, command.object, handle)
        kept = [key for key, there in zip(table.get("keys", []), frames, strict=True) if there != frame]
        handles[handle] = {**table, "keys": kept}
    return document.set(["objects", command.object, "handles"], handles)


def existing_exports(path: Path, animation: bool) -> list[Path]:
    """Return the files that an export may replace; an animation has a number in the name of each."""
    existing = [path] if path.exists() else []
    if animation and path.suffix.lower() not in (".npy", ".npz"):  # which hold all frames
        existing += sorted(path.parent.glob(f"{glob.escape(path.stem)}_[0-9]*{path.suffix}"))
    return existing


def export(
    document: Document, command: messages.Export, poses: Poses, shown: Array | None, path: Path
) -> str:
    """Write the mesh as it is `shown` (V, 3) [m], or as handles move it in all frames; return the names."""
    surface = document.mesh(command.object)
    mesh = Mesh((Part(command.object, np.asarray(surface.vertices), np.asarray(surface.faces)),))
    table = document.item(command.object)
    file = (
        getattr(getattr(table, "mesh", None), "file", None) if command.object not in document.bodies else None
    )
    if file is not None and table.kind not in WELDED:
        read = read_mesh(file)
        # The normals of the file belong to its rest pose.
        mesh = Mesh(tuple(Part(**{**part.__dict__, "normals": None}) for part in read.parts))
    frames = document.scene.frames
    if not command.animation:
        with open_output(path, mesh) as out:
            out.add(surface.vertices if shown is None else np.asarray(shown, float))
        return out.names
    if document.table(command.object)["kind"] != "handles":
        raise InputError(
            "an animation by handles can be exported; of a simulation, save the scene and run it"
        )
    with open_output(path, mesh, frames.count) as out:
        for number in range(frames.start, frames.end + 1):
            out.add(poses.vertices(document, command.object, number))
    return out.names
