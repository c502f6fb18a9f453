"""Pitfalls: what can be built but is probably a mistake, each with its remedy."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Any

import numpy as np

from ....checks import Array
from ....errors import InputError
from ....geometry.inside import Inside
from ...schema import scene as schema
from ...schema.attach_tables import GlueAttach
from ...schema.fields import Key
from ...schema.loading import LoadedScene, Problem, Where
from ...schema.shapes import PlaneShape
from ...tracks import Track
from ..built import (
    Built,
    BuiltAnimated,
    BuiltCollider,
    BuiltParticles,
    BuiltRigid,
    BuiltSolid,
    start_velocities,
)
from ..selection import select
from .estimates import extents

__all__ = ["find_pitfalls"]

FLAT_ASPECT = 1e-3  # ratio of thickness to width below which a mesh is flat
LARGE, SMALL = 100.0, 1e-3  # m: a mesh beyond these has probably other units
LIKELY_SIZE = 10.0  # m: a unit is likely if it makes a mesh smaller than this
UNITS = {"centimetres": 0.01, "millimetres": 0.001}
MOST_NAMED = 3  # objects that a warning names
# What the mass of a rigid object is taken from, where its mesh does not say.
GUESSED_MASSES = {
    "closed parts": "is open in places: its mass is that of its closed parts",
    "hull": "is open, or its faces look both ways: its mass is that of its convex hull",
    "plate": "is flat: its mass is that of a plate, a hundredth of its extent thick",
}
SAGGING = 0.3  # strain by its own weight from which on a soft body does not keep its shape
PROBES = 300  # points of a body that must be inside another
TIME_SAMPLES = 25  # at which keyframed motions are evaluated
MESH_SAMPLES = 9  # at which meshes that move by themselves are: all their vertices take some milliseconds
LONGEST_TIME = 1e6  # s that motions are followed: squares of much longer times would overflow
MOVED_OR_MET = BuiltSolid | BuiltRigid | BuiltAnimated | BuiltParticles | BuiltCollider


@dataclass(frozen=True, eq=False)
class _Body:
    """An object that a solver moves, or that others bump into."""

    name: str
    table: Any
    item: Built
    low: Array
    high: Array
    """Corners (3,) of the box that it sweeps if nothing stops it [m]."""

    def meets(self, other: "_Body") -> bool:
        """Return whether the boxes overlap."""
        return bool((self.low <= other.high).all() and (other.low <= self.high).all())


def find_pitfalls(
    scene: LoadedScene, built: Mapping[str, Built], tracks: Mapping[str, Track]
) -> list[Problem]:
    """Return what is probably a mistake in a scene, each with the key that it is about.

    Parameters
    ----------
    scene : LoadedScene
        The scene.
    built : mapping of str to Built
        Its objects, by name.
    tracks : mapping of str to Track
        The motions of those that have keys.
    """
    floors = _floors(scene.tables, tracks)
    bodies = [
        _Body(
            name, table, built[name], *_swept_box(scene.tables, table, built[name], tracks.get(name), floors)
        )
        for name, table in scene.tables.objects.items()
        if isinstance(built.get(name), MOVED_OR_MET)
    ]
    found = list(_keys_out_of_range(scene))
    for name, item in built.items():
        found += _odd_sizes(name, scene.tables.objects[name], item)
    found += _guessed_masses(bodies)
    found += _too_soft(scene.tables, bodies)
    found += _particles_meeting_solids(bodies)
    found += _solids_in_water(scene.tables.world.water, bodies)
    found += _inside_each_other(scene.tables, bodies)
    return found


def _floors(scene: schema.SceneFile, tracks: Mapping[str, Track]) -> list[float]:
    """Return the heights (m) of horizontal planes that do not move."""
    return [
        table.mesh.point[1] * table.transform.scale[1] + table.transform.translate[1]
        for name, table in scene.objects.items()
        if isinstance(table, schema.ColliderObject)
        and isinstance(table.mesh, PlaneShape)
        and table.mesh.normal[0] == table.mesh.normal[2] == 0 < table.mesh.normal[1]
        and not any(table.transform.rotate[:3])
        and name not in tracks
    ]


def _swept_box(
    scene: schema.SceneFile, table: Any, item: Built, track: Track | None, floors: list[float]
) -> tuple[Array, Array]:
    """Return the corners (3,) of the box that an object sweeps by its keys, or in free flight [m].

    It ends at the floors that it starts above, if it meets them.
    """
    if isinstance(item, BuiltCollider) and item.surface is None:  # a plane, which has no end
        return np.full(3, -np.inf), np.full(3, np.inf)
    points = item.points if item.surface is None else np.concatenate([item.points, item.surface.vertices])
    frames = scene.frames
    lasts = min((frames.count - 1) / frames.rate, LONGEST_TIME)
    corners = np.array(list(product(*zip(points.min(0), points.max(0), strict=True))))
    places = [corners]
    motions = [one.track for one in item.pinned] if item.pinned else [track]
    free = not item.pinned and _is_free(table, item, track)
    velocities = start_velocities(table, points) if free else np.zeros((1, 3))
    slowest, fastest = velocities.min(0), velocities.max(0)
    samples = MESH_SAMPLES if isinstance(item, BuiltAnimated) else TIME_SAMPLES
    for time in np.linspace(0, lasts, samples):
        places += [corners @ R.T + t for motion in motions if motion for R, t in [motion.at(time)]]
        if isinstance(item, BuiltAnimated):
            places.append(item.motion(time))
        elif free:
            fall = np.asarray(scene.world.gravity) * time**2 / 2
            places += [corners + velocity * time + fall for velocity in (slowest, fastest)]
    whole = np.concatenate(places)
    low, high = whole.min(0), whole.max(0)
    if isinstance(item, BuiltParticles) or scene.contact is not None:
        low[1] = max([low[1], *(height for height in floors if height <= corners[:, 1].min())])
    return low, high


def _is_free(table: Any, item: Built, track: Track | None) -> bool:
    """Return whether forces move the whole object."""
    fixed = getattr(table, "fixed", False) or (isinstance(item, BuiltRigid) and track is not None)
    return isinstance(item, BuiltSolid | BuiltRigid | BuiltParticles) and not fixed


def _keys_out_of_range(scene: LoadedScene) -> Iterator[Problem]:
    """Find keys before the first frame, and keys more than a frame after the last."""
    frames = scene.tables.frames
    span = f"of the frames {frames.start} to {frames.end}"
    # Who asks for fewer frames than the file has wants to see its beginning only.
    shortened = ("frames", "count") in scene.source.overridden
    for where, keys in _all_keys(scene.tables):
        numbers = [frames.start + frames.seconds(key.time) * frames.rate for key in keys]
        early = [number for number in numbers if number < frames.start - 1e-6]
        late = [number for number in numbers if number > frames.end + 1 + 1e-6 and not shortened]
        if early:
            yield (
                where,
                f"has {_keys(early)} before the first {span}, at frame {min(early):g}: "
                f"frames are counted from frames.start, seconds from the first frame",
            )
        if late:
            yield (
                where,
                f"has {_keys(late)} after the last {span}, at frame {max(late):g}: "
                f"frames.count = {ceil(max(late)) - frames.start + 1} reaches it",
            )


def _keys(numbers: list[float]) -> str:
    return "a key" if len(numbers) == 1 else f"{len(numbers)} keys"


def _all_keys(scene: schema.SceneFile) -> Iterator[tuple[Where, tuple[Key, ...]]]:
    for name, table in scene.objects.items():
        yield ("objects", name, "keys"), getattr(table, "keys", ())
        for key in ("grips", "handles"):
            for part, own in getattr(table, key, {}).items():
                yield ("objects", name, key, part, "keys"), own.keys


def _odd_sizes(name: str, table: Any, item: Built) -> Iterator[Problem]:
    """Find meshes in other units, and flat ones that should have a volume."""
    if item.surface is None or getattr(table, "mesh", None) is None:
        return
    _, width, thickness = extents(item.surface.vertices)
    if isinstance(table, schema.FleshObject | schema.JellyObject) and thickness < FLAT_ASPECT * width:
        yield (
            ("objects", name, "mesh"),
            f'is flat, and {table.kind} fills a volume: give the mesh a thickness, or make it kind = "cloth"',
        )
    size = np.ptp(item.surface.vertices, axis=0)
    ground = isinstance(table, schema.ColliderObject)  # which may be wide
    extent = float(size[1] if ground else size.max())
    where = ("objects", name, "mesh")
    if extent > LARGE:
        how = "high" if size[1] == extent else "long"
        likely = [unit for unit, scale in UNITS.items() if extent * scale < LIKELY_SIZE]
        unit = likely[0] if likely else "millimetres"
        scale = UNITS[unit]
        yield (
            where,
            f"is {extent:.4g} m {how}: if it was made in {unit}, {_scaled(table, scale)} makes it "
            f"{extent * scale:.3g} m",
        )
    elif not ground and extent < SMALL:
        yield (
            where,
            f"is only {extent:.2g} m large: if it was made in kilometres, {_scaled(table, 1000)} makes it "
            f"{extent * 1000:.3g} m",
        )


def _guessed_masses(bodies: list[_Body]) -> Iterator[Problem]:
    """Find rigid objects that forces move, whose mass is not that of the solid inside a closed mesh."""
    for body in bodies:
        if not isinstance(body.item, BuiltRigid) or body.table.material.mass is not None:
            continue
        text = GUESSED_MASSES.get(body.item.body.mass_source)
        if text is not None and not body.table.fixed and not body.table.keys:
            yield (
                ("objects", body.name, "mesh"),
                f"{text}, which makes {body.item.body.mass:.3g} kg: material.mass states the mass",
            )


def _too_soft(scene: schema.SceneFile, bodies: list[_Body]) -> Iterator[Problem]:
    """Find flesh and jelly that cannot carry their own weight.

    At its foot a column of the height h bears the stress rho g h; it sinks by rho g h^2 / (2 E).
    """
    gravity = np.asarray(scene.world.gravity)
    strength = float(np.linalg.norm(gravity))
    for body in bodies:
        if not isinstance(body.table, schema.FleshObject | schema.JellyObject) or not strength:
            continue
        if _is_carried(scene, body, {other.name: other.item for other in bodies}):
            continue
        assert body.item.surface is not None
        material, height = body.table.material, float(np.ptp(body.item.surface.vertices @ gravity)) / strength
        load = material.density * strength * height
        if load > SAGGING * material.young:
            sinks = height * min(load / (2 * material.young), 1.0)
            yield (
                ("objects", body.name, "material", "young"),
                f"is too little for its own weight, by which it sinks by about {_length(sinks)} of its "
                f"{_length(height)}: raise it to {float(f'{load / SAGGING:.2g}'):g} Pa or more, or lower the "
                "density",
            )


def _is_carried(scene: schema.SceneFile, body: _Body, built: Mapping[str, Built]) -> bool:
    """Return whether all points of a body are pinned or glued to others, and its stiffness idle."""
    carried = np.zeros(len(body.item.points), np.bool_)
    for one in body.item.pinned:
        carried[one.rows] = True
    for table in scene.attach:
        if isinstance(table, GlueAttach) and table.source == body.name and table.to in built:
            with suppress(InputError):  # a choice of no points is told where bonds are built
                carried[select(table.points, body.item.points, body.item.groups, built[table.to].points)] = (
                    True
                )
    return bool(carried.all())


def _length(meters: float) -> str:
    """Return a length in words."""
    return f"{100 * meters:.2g} cm" if 0.001 <= meters < 1 else f"{meters:.2g} m"


def _scaled(table: Any, factor: float) -> str:
    """Return the scale of an object, times a factor, as one writes it."""
    scales = [f"{factor * scale:g}" for scale in table.transform.scale]
    return f"transform.scale = {scales[0] if len(set(scales)) == 1 else '[' + ', '.join(scales) + ']'}"


def _particles_meeting_solids(bodies: list[_Body]) -> Iterator[Problem]:
    """Find particles and implicit objects whose paths cross: they do not collide."""
    implicit = [body for body in bodies if isinstance(body.item, BuiltSolid | BuiltRigid | BuiltAnimated)]
    for body in bodies:
        if isinstance(body.item, BuiltParticles):
            others = [other.name for other in implicit if body.meets(other)]
            if others:
                yield (
                    ("objects", body.name),
                    f"is made of particles, which pass through {_list(others)}: make them all particles, or "
                    "all flesh, cloth, jelly and rigid objects with [contact]; colliders are met by both",
                )


def _solids_in_water(water: schema.Water | None, bodies: list[_Body]) -> Iterator[Problem]:
    """Find implicit objects that get into the water, which does not act on them."""
    if water is None:
        return
    wet = [
        body.name
        for body in bodies
        if isinstance(body.item, BuiltSolid)
        or (isinstance(body.item, BuiltRigid) and not body.table.fixed and not body.table.keys)
        if body.low[1] < water.level
    ]
    if wet:
        yield (
            ("world", "water"),
            f'acts on particles only, and not on {_list(wet)}: what it moves must be of kind = "particles"',
        )


def _inside_each_other(scene: schema.SceneFile, bodies: list[_Body]) -> Iterator[Problem]:
    """Find bodies that start wholly inside others, neither attached to them nor meant to overlap."""
    ignored = scene.contact.ignore if scene.contact is not None else ()
    exempt = {frozenset((attach.source, attach.to)) for attach in scene.attach} | set(map(frozenset, ignored))
    for inner in bodies:
        if isinstance(inner.item, BuiltCollider):
            continue
        for outer in bodies:
            if inner is outer or frozenset((inner.name, outer.name)) in exempt:
                continue
            if _contains(outer, inner):
                below = "below the plane" if outer.item.surface is None else "inside"
                yield (
                    ("objects", inner.name),
                    f"starts wholly {below} {outer.name!r}, where it cannot come out or is not stopped: "
                    "move it with transform.translate, or attach them with [[attach]]",
                )


def _contains(outer: _Body, inner: _Body) -> bool:
    """Return whether the surface of one body is closed, faces outwards and encloses all points of another."""
    visible = inner.item.surface
    points = inner.item.points if visible is None else visible.vertices
    points = points[:: max(1, len(points) // PROBES)]
    mesh = getattr(outer.table, "mesh", None)
    if isinstance(mesh, PlaneShape):
        a, b, c = outer.item.points[:3]
        return bool(((points - a) @ np.cross(b - a, c - a) < 0).all())
    surface = outer.item.surface
    if surface is None or not len(surface.faces):
        return False
    low, high = surface.vertices.min(0), surface.vertices.max(0)
    if not ((points > low) & (points < high)).all():
        return False
    if np.linalg.det(surface.vertices[surface.faces] - low).sum() < 0:  # hollow: the room that others are in
        return False
    shape = Inside(surface.vertices, surface.faces)
    return bool(shape.solid.any() and shape.contains(points).all())


def _list(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:MOST_NAMED]))
    return shown + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
