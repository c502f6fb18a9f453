"""What a scene is made of: size, mass, points and engine of each object, what it meets and is tied to."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..schema import scene as schema
from .built import (
    Built,
    BuiltAnimated,
    BuiltCollider,
    BuiltFollower,
    BuiltHandles,
    BuiltParticles,
    BuiltRigid,
    BuiltSolid,
)

__all__ = ["ObjectSummary", "print_summary", "summarised"]

HEADINGS = ("object", "kind", "size (m)", "mass (kg)", "points", "engine", "meets", "tied to")
NAMED = 3  # in a cell of the table


@dataclass(frozen=True)
class ObjectSummary:
    """One object of a scene that can be run."""

    name: str
    kind: str
    size: tuple[float, float, float] | None
    """Along x, y and z (m); None for a plane."""
    mass: float | None
    """In kg; None for what has none."""
    points: int
    """Those that are simulated, or moved."""
    engine: str
    """particles, implicit, handles, or none."""
    meets: tuple[str, ...]
    """Names of the objects that it bumps into, its own if it meets itself."""
    tied: tuple[str, ...]
    """What holds it, in words: its pins, and what it is attached to."""

    @property
    def cells(self) -> tuple[str, ...]:
        """What it is, in the words of a table with the columns HEADINGS."""
        size = "endless" if self.size is None else " x ".join(map(_length, self.size))
        mass = "" if self.mass is None else f"{self.mass:.3g}"
        meets = ["itself" if name == self.name else name for name in self.meets]
        what = (self.name, self.kind, size, mass, f"{self.points:,}", self.engine)
        return (*what, _short(meets), _short(self.tied))


def summarised(
    scene: schema.SceneFile, built: Mapping[str, Built], crossing: Iterable[str] = ()
) -> tuple[ObjectSummary, ...]:
    """Return what the objects of a scene are, in their order.

    Those that are `crossing` themselves at the start do not meet themselves.
    """
    meets = _meetings(scene, built) - {frozenset((name,)) for name in crossing}
    return tuple(
        ObjectSummary(
            name=name,
            kind=table.kind,
            size=_size(built[name]),
            mass=_mass(scene, name, built[name]),
            points=len(built[name].points),
            engine=_engine(built[name]),
            meets=tuple(other for other in built if frozenset((name, other)) in meets),
            tied=tuple(_ties(scene, name, built[name])),
        )
        for name, table in scene.objects.items()
    )


def print_summary(objects: Sequence[ObjectSummary]) -> None:
    """Print a table of objects: with colours and folded on a terminal, as aligned text elsewhere."""
    rows = [one.cells for one in objects]
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
        for row in (HEADINGS, *rows):
            cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
            print("  ".join(cells).rstrip())
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(*HEADINGS, box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _length(metres: float) -> str:
    return f"{metres if metres > 1e-9 else 0:.3g}"  # what is flat is so but for rounding


def _short(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _size(item: Built) -> tuple[float, float, float] | None:
    if item.surface is None:
        return None
    x, y, z = np.ptp(item.surface.vertices, axis=0).tolist()
    return x, y, z


def _mass(scene: schema.SceneFile, name: str, item: Built) -> float | None:
    match item:
        case BuiltSolid(hide=float()) if scene.contact is not None:
            return float(item.mass.sum() + np.sum(item.touched(name, scene.objects[name])[0].mass))
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
    """Pairs of names of objects that bump into each other; one name alone meets itself."""
    grains = {name: item for name, item in built.items() if isinstance(item, BuiltParticles)}
    walls = {name for name, item in built.items() if isinstance(item, BuiltCollider)}
    contacts = scene.solver.particles.contacts
    pairs = {frozenset((one, wall)) for one in grains for wall in walls}
    if contacts != "none":
        pairs |= {frozenset((one, other)) for one in grains for other in grains if one != other}
    if contacts == "all":
        pairs |= {frozenset((name,)) for name, item in grains.items() if not _is_rigid(item)}
    if scene.contact is not None:
        solids = {name for name, item in built.items() if _engine(item) == "implicit"}
        still = walls | {name for name in solids if _is_still(scene.objects[name])}
        soft = {name for name in solids if isinstance(built[name], BuiltSolid)}
        pairs |= {
            frozenset((one, other)) for one in solids - still for other in solids | walls if one != other
        }
        pairs |= {frozenset((name,)) for name in soft}
        pairs -= set(map(frozenset, scene.contact.ignore))
    return pairs


def _is_rigid(item: BuiltParticles) -> bool:
    """Whether a body of particles is one rigid piece."""
    groups = item.body.groups
    return len(groups) == 1 and len(groups[0]) == len(item.body)


def _is_still(table: schema.Object) -> bool:
    """Whether no force moves an implicit object, so that others like it pass through it."""
    if isinstance(table, schema.RigidObject):
        return table.fixed or bool(table.keys)
    return isinstance(table, schema.AnimatedObject)


def _ties(scene: schema.SceneFile, name: str, item: Built) -> list[str]:
    """What holds an object, in words."""
    told = []
    held = sum(len(hold.rows) for hold in item.holds)
    if held:
        keyed = any(hold.track for hold in item.holds)
        told.append(f"{'keys' if keyed else 'its place'} ({held:,} points)")
    if isinstance(item, BuiltFollower):
        told.append(f"{item.on} (follows)")
    table = scene.objects[name]
    if isinstance(table, schema.RigidObject | schema.ColliderObject) and table.keys:
        told.append("keys")
    elif getattr(table, "fixed", False):
        told.append("its place")
    for attach in scene.attach:
        if attach.source == name:
            kind = f"{attach.type} joint" if isinstance(attach, schema.JointAttach) else attach.kind
            to = "itself" if attach.to == name else attach.to
            told.append(f"{to} ({kind})")
    return list(dict.fromkeys(told))
