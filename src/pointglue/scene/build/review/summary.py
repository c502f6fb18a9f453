"""Summaries of the objects of a scene, for `pointglue check`."""

from collections.abc import Iterable, Mapping

import numpy as np

from ...schema import scene as schema
from ...schema.attach_tables import JointAttach
from ...simulation import ObjectSummary
from ..built import (
    Built,
    BuiltAnimated,
    BuiltCollider,
    BuiltFollower,
    BuiltHandles,
    BuiltParticles,
    BuiltRigid,
    BuiltSolid,
)

__all__ = ["summarise"]


def summarise(
    scene: schema.SceneFile, built: Mapping[str, Built], crossing: Iterable[str] = ()
) -> tuple[ObjectSummary, ...]:
    """Return a summary of each object of a scene, in their order.

    Parameters
    ----------
    scene : SceneFile
        The tables of the scene.
    built : mapping of str to Built
        Its objects, by name.
    crossing : iterable of str
        Names of objects that cross themselves at the start, and so do not meet themselves.
    """
    meets = _meetings(scene, built) - {frozenset((name,)) for name in crossing}
    return tuple(
        ObjectSummary(
            name=name,
            kind=table.kind,
            size=_size(built[name]),
            mass=_mass(scene, built[name]),
            points=len(built[name].points),
            engine=_engine(built[name]),
            meets=tuple(other for other in built if frozenset((name, other)) in meets),
            attached=tuple(_attachments(scene, name, built[name])),
        )
        for name, table in scene.objects.items()
    )


def _size(item: Built) -> tuple[float, float, float] | None:
    if item.surface is None:
        return None
    x, y, z = np.ptp(item.surface.vertices, axis=0).tolist()
    return x, y, z


def _mass(scene: schema.SceneFile, item: Built) -> float | None:
    match item:
        case BuiltSolid(met_by_mesh=True, hide=float()) if scene.contact is not None:
            return float(item.mass.sum() + item.skin_mass.sum())
        case BuiltParticles() | BuiltRigid():
            return float(np.sum(item.body.mass))
        case BuiltSolid():
            return float(item.mass.sum())
    return None


def _engine(item: Built) -> str:
    match item:
        case BuiltParticles():
            return "particles"
        case BuiltSolid() | BuiltRigid() | BuiltAnimated():
            return "implicit"
        case BuiltHandles():
            return "handles"
    return "none"


def _meetings(scene: schema.SceneFile, built: Mapping[str, Built]) -> set[frozenset[str]]:
    """Return pairs of names of objects that bump into each other; one name alone meets itself."""
    particles = {name: item for name, item in built.items() if isinstance(item, BuiltParticles)}
    colliders = {name for name, item in built.items() if isinstance(item, BuiltCollider)}
    contacts = scene.solver.particles.contacts
    pairs = {frozenset((one, wall)) for one in particles for wall in colliders}
    if contacts != "none":
        pairs |= {frozenset((one, other)) for one in particles for other in particles if one != other}
    if contacts == "all":
        pairs |= {frozenset((name,)) for name, item in particles.items() if not _is_rigid(item)}
    if scene.contact is not None:
        solids = {name for name, item in built.items() if _engine(item) == "implicit"}
        unmoved = {name for name in solids if _is_unmoved(scene.objects[name])}
        soft = {name for name in solids if isinstance(built[name], BuiltSolid)}
        pairs |= {
            frozenset((one, other))
            for one in solids - unmoved
            for other in solids | colliders
            if one != other
        }
        pairs |= {frozenset((name,)) for name in soft}
        pairs -= set(map(frozenset, scene.contact.ignore))
    return pairs


def _is_rigid(item: BuiltParticles) -> bool:
    """Return whether a body of particles is one rigid piece."""
    groups = item.body.groups
    return len(groups) == 1 and len(groups[0]) == len(item.body)


def _is_unmoved(table: schema.Object) -> bool:
    """Return whether no force moves an implicit object, so that others like it pass through it."""
    if isinstance(table, schema.RigidObject):
        return table.fixed or bool(table.keys)
    return isinstance(table, schema.AnimatedObject)


def _attachments(scene: schema.SceneFile, name: str, item: Built) -> list[str]:
    """Return what an object is attached to, in words."""
    words = []
    pinned = sum(len(one.rows) for one in item.pinned)
    if pinned:
        keyed = any(one.track for one in item.pinned)
        words.append(f"{'keys' if keyed else 'its place'} ({pinned:,} points)")
    if isinstance(item, BuiltFollower):
        words.append(f"{item.on} (follows)")
    table = scene.objects[name]
    if isinstance(table, schema.RigidObject | schema.ColliderObject) and table.keys:
        words.append("keys")
    elif getattr(table, "fixed", False):
        words.append("its place")
    for attach in scene.attach:
        if attach.source == name:
            kind = f"{attach.type} joint" if isinstance(attach, JointAttach) else attach.kind
            to = "itself" if attach.to == name else attach.to
            words.append(f"{to} ({kind})")
    return list(dict.fromkeys(words))
