"""What pages are shown of an object: its arrays, and what is known of it besides."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import BaseModel

from ...scene.tracks import rotation
from ..document.document import TIED, Document, Rig
from ..edits import bindings as gluing
from ..edits import bodies as authoring
from ..edits import objects
from ..edits import poses as posing
from ..protocol.replies import HandleState, ObjectState
from ..protocol.wire import Replica

__all__ = ["object_state", "plain", "show_object"]

TIMES = ("attach", "release", "keys")
BODY = (
    "particles",
    "turns",
    "radii",
    "edges",
    "stiffness",
    "torsion",
    "gap",
    "group",
    "members",
    "member_ends",
    "pinned",
    "links",
    "weights",
)


def show_object(replica: Replica, document: Document, name: str) -> None:
    """The arrays of an object at rest."""
    surface, body = document.surface(name), document.particles(name)
    tied = document.item(name).kind in TIED
    arrays: dict[str, Any] = dict.fromkeys(BODY)
    arrays["rest"] = None if surface is None else surface.vertices
    arrays["faces"] = None if surface is None else surface.faces.astype(np.uint32)
    arrays["points"] = gluing.points(document, name) if tied else None
    if body is not None:
        members, ends = authoring.members(body)
        arrays |= {
            "particles": body.positions,
            "turns": body.orientations,
            "radii": body.radii,
            "edges": body.edges.astype(np.uint32),
            "stiffness": body.stiffness,
            "torsion": body.torsion,
            "gap": authoring.gaps(body),
            "group": authoring.groups_of(body),
            "members": members,
            "member_ends": ends,
            "pinned": body.pinned.astype(np.uint32),
            "links": None if body.visual is None else body.visual.links.astype(np.uint32),
            "weights": None if body.visual is None else body.visual.weights,
        }
    for channel, array in arrays.items():
        replica.put(name, channel, array)


def plain(table: Mapping[str, Any], parsed: Any) -> dict[str, Any]:
    """A table with numbers, in SI units, where the file has texts like "40 kPa"; moments stay texts."""
    told: dict[str, Any] = {}
    for key, value in table.items():
        known = getattr(parsed, key, None)
        if isinstance(value, Mapping) and isinstance(known, BaseModel):
            told[key] = plain(value, known)
        elif (
            isinstance(value, str | list | tuple)
            and isinstance(known, int | float | tuple)
            and key not in TIMES
        ):
            told[key] = list(known) if isinstance(known, tuple) else known
        else:
            told[key] = value
    return told


def object_state(document: Document, name: str) -> ObjectState:
    """What the page knows of an object besides its arrays."""
    table, body, surface = document.objects[name], document.particles(name), document.surface(name)
    shown = plain({key: value for key, value in table.items() if key != "handles"}, document.item(name))
    if len(shown.get("transform", {}).get("rotate", ())) == 4:
        shown["transform"]["rotate"] = posing.degrees(rotation(shown["transform"]["rotate"]))
    rig = document.rigs.get(name, Rig())
    links = {handle: f"chain {k + 1}" for k, chain in enumerate(rig.chains) for handle in chain}
    links |= {handle: f"group {k + 1}" for k, members in enumerate(rig.groups) for handle in members}
    return ObjectState(
        name=name,
        kind=table["kind"],
        table=shown,
        color=objects.color(document, name),
        visible=document.item(name).visible,
        vertices=0 if surface is None else len(surface.vertices),
        particles=0 if body is None else len(body),
        edges=0 if body is None else len(body.edges),
        groups=0 if body is None else len(body.groups),
        pinned=0 if body is None else int(body.pinned.sum()),
        handles=[
            HandleState(name=handle, keys=posing.keys_of(document, name, handle), link=links.get(handle, ""))
            for handle in table.get("handles", {})
        ],
        edited=name in document.bodies,
        links=[
            [list(table["handles"]).index(handle) for handle in link] for link in (*rig.chains, *rig.groups)
        ],
    )
