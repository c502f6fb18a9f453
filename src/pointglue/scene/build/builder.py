"""Turn a scene file into a simulation, or into a list of all that cannot be built."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from ...assets.palette import Rgb, object_colors
from ...checks import Array
from ...elastic import Contact, ElasticBody, ImplicitSolver, RigidBody
from ...errors import BindingCycleError, InputError, IntersectionError, PointglueError, PointglueWarning
from ...glue import Spring, bind_glue
from ...io.frame_records import Motion, StoredObject
from ...particles import Collider, KinematicParticles, ParticleSolver, editing
from ..engines import HandleEngine, ImplicitEngine, ParticleEngine
from ..schema import scene as schema
from ..schema.loading import LoadedScene, Problem, Where, read_tables, validated
from ..simulation import Engine, Follower, Simulation
from ..tracks import Track, box_center
from . import outside_forces as forces
from .bonds import bonds_of, cycle_problem
from .built import (
    SKIN_SUFFIX,
    Built,
    BuiltCollider,
    BuiltFollower,
    BuiltHandles,
    BuiltParticles,
    BuiltRigid,
    BuiltSolid,
    PinnedPoints,
    start_velocities,
)
from .construct import build_with_surface, object_surface
from .review.consistency import IMPLICIT, meeting_problems, moment_problems, of_kind, partner_problems
from .review.estimates import size_warnings
from .review.pitfalls import find_pitfalls
from .review.summary import summarise
from .selection import select

__all__ = ["build_scene", "check_scene"]

Progress = Callable[[str], object]
TOLERANCE = 1e-3  # m/s: the default tolerance of the implicit solver without contact


def build_scene(scene: LoadedScene, progress: Progress | None = None) -> Simulation:
    """Build the simulation of a scene.

    What can be built but is probably a mistake gives a PointglueWarning.

    Parameters
    ----------
    scene : LoadedScene
        The scene, from :func:`load_scene`.
    progress : callable, optional
        Called with a few words about each part of the work before it begins.

    Returns
    -------
    Simulation
        The simulation, ready for its first step.

    Raises
    ------
    SceneError
        If anything cannot be built; the error lists all problems.
    """
    return _Builder(scene, progress).simulation()


def check_scene(
    scene: str | Path | Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """Load and build a scene, and find all that is wrong with it at once.

    Where some tables are wrong, the others are checked all the same.

    Parameters
    ----------
    scene : str, Path or mapping
        A TOML file, or its tables.
    overrides : mapping, optional
        Values by dotted keys, as in :func:`load_scene`.
    progress : callable, optional
        Called with a few words about each part of the work before it begins.

    Returns
    -------
    Simulation
        The simulation of the scene, if nothing is wrong with it.

    Raises
    ------
    SceneError
        If anything is wrong with the scene; the error lists all problems.
    """
    source, raw = read_tables(scene, overrides)
    tables, problems = validated(raw, source)
    if tables is not None and not problems:
        return build_scene(LoadedScene(tables, source, raw), progress)
    right, numbers = _right_tables(raw, {where[:2] for where, _ in problems})
    tables, others = validated(right, source)
    if tables is not None and not others:
        builder = _Builder(LoadedScene(tables, source, right), progress)
        builder.build_objects()
        problems += [(_as_given(where, numbers), text) for where, text in builder.problems]
    raise source.error(problems)


def _as_given(where: Where, numbers: Mapping[str, list[int]]) -> Where:
    """Return a key of the tables that are left as a key of all tables."""
    match where:
        case (str(key), int(k), *rest) if key in numbers:
            return (key, numbers[key][k], *rest)
    return where


def _right_tables(raw: dict[str, Any], wrong: set[Where]) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """Return the tables without those that are wrong or depend on them, and which of each list are left."""
    right = {key: value for key, value in raw.items() if (key,) not in wrong}
    objects = raw.get("objects", {}) if isinstance(raw.get("objects"), dict) else {}
    right["objects"] = {name: item for name, item in objects.items() if ("objects", name) not in wrong}
    while lost := [n for n, item in right["objects"].items() if item.get("on", n) not in right["objects"]]:
        right["objects"] = {n: item for n, item in right["objects"].items() if n not in lost}
    numbers = {}
    for key in ("attach", "force"):
        tables = raw.get(key, []) if isinstance(raw.get(key), list) else []
        numbers[key] = [
            k
            for k, item in enumerate(tables)
            if (key, k) not in wrong
            and {item.get("from"), item.get("to"), *item.get("on", ())} - {None} <= right["objects"].keys()
        ]
        right[key] = [tables[k] for k in numbers[key]]
    for key in {str(where[0]) for where in wrong if where} - {"objects", "attach", "force"}:
        right.pop(key, None)
    if isinstance(contact := right.get("contact"), dict) and "ignore" in contact:
        pairs = [pair for pair in contact["ignore"] if set(pair) <= right["objects"].keys()]
        right["contact"] = {**contact, "ignore": pairs}
    return right, numbers


class _Builder:
    """The objects that have been built so far, and the problems that were found."""

    def __init__(self, scene: LoadedScene, progress: Progress | None) -> None:
        self.progress: Progress = progress or (lambda _: None)
        self.scene, self.tables, self.frames = scene, scene.tables, scene.tables.frames
        self.objects: dict[str, Any] = dict(scene.tables.objects)
        self.problems: list[Problem] = []
        self.built: dict[str, Built] = {}
        self.tracks: dict[str, Track] = {}
        self.crossing: list[str] = []
        """Objects that cross themselves at the start."""

    @contextmanager
    def recording(self, *where: str | int) -> Iterator[None]:
        """Record errors within this context as problems of a key, and go on after it."""
        try:
            yield
        except PointglueError as error:
            self.problems.append((where, str(error)))
        except MemoryError:
            self.problems.append((where, "needs more memory than there is"))

    def warn(self, where: Where, text: str) -> None:
        """Warn of what can be built, but is probably a mistake."""
        warnings.warn(self.scene.source.message(where, text), PointglueWarning, stacklevel=2)

    def build_objects(self) -> None:
        """Build all objects, and find what does not go together."""
        for name, table in self.objects.items():
            with self.recording("objects", name):
                self._object(name, table)
        self.problems += moment_problems(self.tables)
        self.problems += meeting_problems(self.tables, self.built)

    def simulation(self) -> Simulation:
        """Return the simulation, with all engines that the scene needs."""
        self.build_objects()
        self.problems += partner_problems(self.tables, self.built)
        if "usd" in self.tables.output.formats and find_spec("pxr") is None:
            text = "has usd, which needs usd-core: pip install 'pointglue[usd]'"
            self.problems.append((("output", "formats"), text))
        if self.problems:  # what depends on objects that could not be built is not reported
            raise self.scene.source.error(self.problems)
        self.progress("looking for pitfalls")
        for where, text in find_pitfalls(self.scene, self.built, self.tracks):
            self.warn(where, text)
        engines = [engine for engine in (self._handles(), self._particles(), self._solids()) if engine]
        followers = self._followers(engines)
        colors = object_colors([table.color for table in self.objects.values()])
        looks = [self._look(name, color) for name, color in zip(self.objects, colors, strict=True)]
        if not any(looks):
            self.problems.append((("objects",), "must be visible, at least one of them"))
        if self.problems:
            raise self.scene.source.error(self.problems)
        colliders = self._all(BuiltCollider)
        tracks = {name: track for name, track in self.tracks.items() if name in colliders}
        shown = [look for look in looks if look]
        objects = summarise(self.tables, self.built, self.crossing)
        return Simulation(self.frames, engines, shown, tracks, followers, objects)

    def _object(self, name: str, table: Any) -> None:
        self.progress(f"building {name}")
        surface = object_surface(table, self.scene.source.folder)
        for text in size_warnings(table, surface):
            self.warn(("objects", name), text)
        item = self.built[name] = build_with_surface(table, surface, self.scene.source.folder, self.frames)
        keys = getattr(table, "keys", ())
        if keys:
            with self.recording("objects", name, "keys"):
                self.tracks[name] = Track(keys, self.frames, table.ease, box_center(item.points))
        pin = getattr(table, "pin", None)
        if pin is not None:
            with self.recording("objects", name, "pin"):
                rows = select(pin, item.points, item.groups)
                item.pinned.append(PinnedPoints(rows, self.tracks.get(name)))
        elif keys and isinstance(item, (BuiltSolid, BuiltParticles)):
            self.problems.append((("objects", name, "keys"), "move what is pinned: say what with pin"))
        for group, own in getattr(table, "grips", {}).items():
            with self.recording("objects", name, "grips", group):
                rows = select(own.points, item.points, item.groups)
                if any(np.isin(rows, other.rows).any() for other in item.pinned):
                    raise InputError("pins points that are pinned already")
                pivot = box_center(item.points[rows])
                track = Track(own.keys, self.frames, table.ease, pivot) if own.keys else None
                item.pinned.append(PinnedPoints(rows, track))

    def _all(self, *kinds: type[Built]) -> dict[str, Any]:
        return of_kind(self.built, *kinds)

    def _look(self, name: str, color: Rgb) -> StoredObject | None:
        table, item = self.objects[name], self.built[name]
        if not table.visible or item.surface is None:
            return None
        motion: Motion = "points"
        if isinstance(item, (BuiltRigid, BuiltCollider)):
            moves = name in self.tracks or (isinstance(item, BuiltRigid) and not table.fixed)
            motion = "transform" if moves else "still"
        faces = item.surface.faces if len(item.surface.faces) else None
        radius = None
        if faces is None and isinstance(item, BuiltParticles):
            radius = float(item.body.radii.mean())
        return StoredObject(
            name=name,
            rest=item.surface.vertices,
            faces=faces,
            color=color,
            radius=radius,
            motion=motion,
        )

    def _followers(self, engines: list[Engine]) -> dict[str, Follower]:
        """Return the meshes that are bound to other objects."""
        homes: dict[str, Any] = {"particles": BuiltParticles, "implicit": IMPLICIT, "handles": BuiltHandles}
        found = {}
        for name, item in self._all(BuiltFollower).items():
            with self.recording("objects", name):
                on = self.built[item.on]
                binding = bind_glue(on.points, item.points, **item.options)
                for k, engine in enumerate(engines):
                    if isinstance(on, homes[engine.name]):
                        found[name] = Follower(k, item.on, binding)
        return found

    def _handles(self) -> Engine | None:
        sequences = {name: item.sequence for name, item in self._all(BuiltHandles).items()}
        return HandleEngine(sequences) if sequences else None

    def _particles(self) -> Engine | None:
        items: dict[str, BuiltParticles] = self._all(BuiltParticles)
        if not items:
            return None
        bodies, kinematic, velocities, spins = [], [], [], []
        offsets, first = {}, 0
        for name, item in items.items():
            table, body = self.objects[name], item.body
            for one in item.pinned:
                if one.track is not None:
                    kinematic.append(KinematicParticles(first + one.rows, one.track.at))
                else:
                    body = editing.pin(body, one.rows, pinned=table.pinned == "all" or "position")
            bodies.append(body)
            velocities.append(start_velocities(table, body.positions))
            spins.append(np.tile(table.spin, (len(body), 1)))
            offsets[name], first = first, first + len(body)
        world = self.tables.world
        acting: list[Any] = []
        if world.wind is not None:
            acting.append(forces.ParticleWind(forces.SceneWind.of(world.wind, self.frames)))
        if world.water is not None:
            acting.append(forces.ParticleWater(world.water, world.gravity))
        own = self._forces(offsets, {name: item.body.mass for name, item in items.items()})
        acting += [forces.on_particles(own)] if own else []
        colliders = self._colliders(self._all(BuiltCollider))
        self.progress("joining particles")
        with self.recording("solver", "particles"):
            solver = ParticleSolver(
                bodies,
                gravity=world.gravity,
                colliders=colliders,
                forces=acting,
                kinematic=kinematic,
                **self.tables.solver.particles.model_dump(),
            )
            return ParticleEngine(solver, list(items), np.concatenate(velocities), np.concatenate(spins))
        return None

    def _colliders(self, items: Mapping[str, BuiltCollider]) -> list[Collider]:
        """Return colliders, each with its motion."""
        found = []
        for name, item in items.items():
            with self.recording("objects", name):
                found.append(item.collider(name, self.objects[name], self.tracks.get(name)))
        return found

    def _solids(self) -> Engine | None:
        items = self._all(*IMPLICIT)
        if not items:
            return None
        met = self._all(BuiltCollider) if self.tables.contact is not None else {}
        items |= {name: item for name, item in met.items() if item.formula is None}
        colliders = self._colliders({name: item for name, item in met.items() if item.formula is not None})
        bodies: dict[str, ElasticBody | RigidBody] = {}
        for name, item in items.items():
            with self.recording("objects", name):
                bodies[name] = item.solid(name, self.objects[name], self.tracks.get(name))
        glue, joints = bonds_of(self.tables, self.built, self.recording)
        for name, item in self._all(BuiltSolid).items():
            body = bodies.get(name)
            if item.met_by_mesh and self.tables.contact is not None and isinstance(body, ElasticBody):
                with self.recording("objects", name):
                    bodies[name], skin, bond = item.collision_skin(body, self.objects[name])
                    bodies[skin.name] = skin
                    glue.append(bond)
        if self.problems:
            return None
        counts = [len(body.positions) for body in bodies.values()]
        offsets = dict(zip(bodies, np.cumsum([0, *counts]).tolist(), strict=False))
        masses = {
            name: np.broadcast_to(body.mass / (count if isinstance(body, RigidBody) else 1), (count,))
            for (name, body), count in zip(bodies.items(), counts, strict=True)
        }
        self.progress("joining flesh, cloth, jelly and rigid objects")
        acting = self._wind(bodies, offsets, masses)
        own = self._forces(offsets, masses)
        acting += [forces.on_solids(own)] if own else []
        options = self.tables.solver.implicit.model_dump()
        if options["tolerance"] is None and self.tables.contact is None:
            options["tolerance"] = TOLERANCE
        if options["conflict_spring"] is not None:
            options["conflict_spring"] = Spring(**options["conflict_spring"])
        build = partial(
            ImplicitSolver,
            list(bodies.values()),
            glue=glue,
            joints=joints,
            forces=acting,
            gravity=self.tables.world.gravity,
            colliders=colliders,
            **options,
        )
        with self.recording("attach" if glue or joints else "objects"):
            try:
                solver = build() if self.tables.contact is None else self._with_contact(build, bodies)
            except BindingCycleError as error:
                self.problems.append(cycle_problem(error.cycle, offsets, self.built, self.scene))
                return None
            caged = {name: item for name, item in self._all(BuiltSolid).items() if item.hexahedra is not None}
            skins = {name: partial(getattr, item, "skin") for name, item in caged.items()}
            return None if solver is None else ImplicitEngine(solver, skins, self.tables.output.loads)
        return None

    def _with_contact(
        self, build: Callable[..., ImplicitSolver], bodies: Mapping[str, Any]
    ) -> ImplicitSolver | None:
        """Return the solver with contact. Solids that start crossing themselves do not meet themselves."""
        assert self.tables.contact is not None
        options = self.tables.contact.model_dump()
        skins = {name: name + SKIN_SUFFIX for name in bodies if name + SKIN_SUFFIX in bodies}
        ignored = [tuple(skins.get(name, name) for name in pair) for pair in options.pop("ignore")]
        fine = self._fine_meshes(skins, options["distance"] + options["thickness"])
        ignored += [(skins[name],) * 2 for name in fine]
        self.crossing = fine
        self.progress("looking for what intersects at the start")
        try:
            return build(contact=Contact(**options, ignore=ignored))
        except IntersectionError as error:
            pairs = [
                (one.removesuffix(SKIN_SUFFIX), other.removesuffix(SKIN_SUFFIX)) for one, other in error.pairs
            ]
            found = zip(pairs, error.counts, error.places, strict=True)
            places = {pair: crossing_places(count, place, error.most) for pair, count, place in found}
        caged = [name for name, item in self._all(BuiltSolid).items() if item.hexahedra is not None]
        own = [one for one, other in pairs if one == other and one in caged]
        for one, other in pairs:
            if one not in own or one != other:
                fault = f"{one!r} crosses itself" if one == other else f"{one!r} and {other!r} intersect"
                remedy = "unfold it" if one == other else "move them apart"
                text = (
                    f"{fault} at the start {places[one, other]}: {remedy}, "
                    f'or let contact ignore = [["{one}", "{other}"]]'
                )
                self.problems.append((("contact",), text))
        if len(own) < len(pairs):
            return None
        self.crossing = fine + own
        for name in own:
            remedy = f'ignore = [["{name}", "{name}"]] in [contact] says so without this warning'
            if getattr(self.built[name], "simplified", False):
                remedy = f'touch = "mesh" leaves all details to the mesh that others bump into, {remedy}'
            self.warn(
                ("objects", name),
                f"crosses itself at the start {places[name, name]}, so that it does not meet itself: "
                + remedy,
            )
        ignored += [(skins.get(name, name),) * 2 for name in own]
        return build(contact=Contact(**options, ignore=ignored))

    def _fine_meshes(self, skins: Mapping[str, str], reach: float) -> list[str]:
        """Return the objects whose meshes are too fine to meet themselves in contact that reaches so far [m].

        They would push themselves apart: a vertex meets the triangles beside its own.
        """
        assert self.tables.contact is not None
        fine = []
        for name in skins:
            item = self.built[name]
            assert isinstance(item, BuiltSolid)
            assert item.surface is not None
            if [name, name] in [list(pair) for pair in self.tables.contact.ignore]:
                continue
            rows, faces = item.contact_surface
            corners = item.surface.vertices[rows[faces]]
            short = float(np.quantile(np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2), 0.25))
            if short < reach:
                fine.append(name)
                self.warn(
                    ("objects", name),
                    f"does not meet itself: many edges of its mesh are {short:.3g} m long, and contact "
                    f"reaches {reach:g} m. A contact.distance below {short:.2g} m, a coarser mesh, or "
                    f'touch = "cells" lets it; ignore = [["{name}", "{name}"]] in [contact] says so without '
                    "this warning",
                )
        return fine

    def _wind(self, bodies: dict[str, Any], offsets: dict[str, int], masses: dict[str, Array]) -> list[Any]:
        """Return the wind on all surfaces that can move."""
        if self.tables.world.wind is None:
            return []
        exposed = [name for name in bodies if name in self._all(BuiltSolid, BuiltRigid)]
        faces = [self._all(BuiltSolid, BuiltRigid)[name].faces for name in exposed]
        # A vertex is a corner of about six triangles: half the mean of its corners is a triangle's share.
        shares = [masses[name][own].mean(1) / 2 for name, own in zip(exposed, faces, strict=True)]
        placed = [own + offsets[name] for name, own in zip(exposed, faces, strict=True)]
        wind = forces.SceneWind.of(self.tables.world.wind, self.frames)
        dt = 1 / (self.frames.rate * self.frames.substeps)
        return [forces.SurfaceWind(wind, np.concatenate(placed), np.concatenate(shares), dt)]

    def _forces(self, offsets: dict[str, int], masses: dict[str, Array]) -> list[forces.Push | forces.Drag]:
        """Return the forces of the [[force]] tables on those objects that a solver has."""
        found: list[forces.Push | forces.Drag] = []
        dt = 1 / (self.frames.rate * self.frames.substeps)
        for k, table in enumerate(self.tables.force):
            start = self.frames.seconds(table.start)
            stop = inf if table.stop is None else self.frames.seconds(table.stop)
            for name in dict.fromkeys(table.on):
                if name not in offsets:
                    continue
                item, rows = self.built[name], np.arange(len(masses[name]))
                if table.points is not None:
                    with self.recording("force", k, "points"):
                        rows = select(table.points, item.points, item.groups)
                mass, at = masses[name][rows], offsets[name] + rows
                if isinstance(table, schema.PushForce):
                    each = (mass / mass.sum())[:, None] * np.array(table.force)
                    found.append(forces.Push(at, each, start, stop))
                else:
                    # Drag does not reverse a motion, however long the step is.
                    found.append(forces.Drag(at, mass * table.rate / (1 + table.rate * dt), start, stop))
        return found


def crossing_places(count: int, place: tuple[float, float, float], most: int) -> str:
    """Return where surfaces cross, in words; more than `most` crossings are not counted."""
    at = ", ".join(f"{x:.4g}" for x in place)
    if count == 1:
        return f"at ({at})"
    return f"in {'at least ' if count >= most else ''}{count:,} places, one at ({at})"
