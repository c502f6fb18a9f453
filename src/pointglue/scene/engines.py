"""The three solvers behind one interface: particles, implicit solids, handles."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..checks import Array
from ..deform import HandleDeformer
from ..elastic import ImplicitSolver, RigidBody, SolverState, StepReport
from ..glue import Binding
from ..particles import ParticleSolver, ParticleState, RestPose
from .tracks import Track

__all__ = ["STATS", "HandleEngine", "HandledMesh", "ImplicitEngine", "ParticleEngine"]

STATS = ("fastest particle", "newton iterations", "solver steps", "joint violation", "contacts")
"""What frames may have statistics of."""


@dataclass(frozen=True, eq=False)
class ParticleEngine:
    """Bodies of oriented particles, by name in the order of the solver."""

    solver: ParticleSolver
    names: Sequence[str]
    velocities: Array
    """At the start (n, 3), m/s."""
    spins: Array
    """At the start (n, 3), rad/s."""
    name: str = "particles"

    def start(self) -> ParticleState:
        """At rest but for the velocities."""
        state = self.solver.start()
        free = ~state.pinned[:, None]
        return state.replace(velocities=self.velocities * free, spins=self.spins * free)

    def advance(
        self, state: ParticleState, now: float, dt: float, steps: int, watch: Callable[[], object]
    ) -> ParticleState:
        """So many steps."""
        for _ in range(steps):
            watch()
            state = self.solver.step(state, dt)
        return state

    def points(self, state: ParticleState) -> dict[str, Array]:
        """The meshes; of bodies that have none, the particles."""
        shown = self.solver.body.skin(state) if self.solver.body.visual is not None else np.empty((0, 3))
        parts = zip(self.names, self.solver.parts, self.solver.visual_parts, strict=True)
        return {
            name: shown[visual] if visual.stop > visual.start else state.positions[own]
            for name, own, visual in parts
        }

    def body(self, state: ParticleState, name: str) -> Array:
        """The particles."""
        return np.asarray(state.positions[self.solver.parts[list(self.names).index(name)]])

    def transforms(self, state: ParticleState) -> dict[str, Array]:
        """None: they all deform."""
        return {}

    def stats(self, state: ParticleState) -> dict[str, float | int]:
        """How much is going on."""
        speed = float(np.sqrt((state.velocities**2).sum(1).max()))
        return {"fastest particle": speed}

    def details(self, state: ParticleState) -> dict[str, Any]:
        """Nothing."""
        return {}

    def pack(self, state: ParticleState) -> dict[str, Any]:
        """The state and its rest pose."""
        own = {field.name: getattr(state, field.name) for field in fields(state) if field.name != "rest"}
        return own | {f"rest.{field.name}": getattr(state.rest, field.name) for field in fields(state.rest)}

    def unpack(self, arrays: Mapping[str, Any]) -> ParticleState:
        """The state again."""
        rest = RestPose(**{field.name: np.array(arrays[f"rest.{field.name}"]) for field in fields(RestPose)})
        own = {
            field.name: np.array(arrays[field.name])
            for field in fields(ParticleState)
            if field.name not in ("rest", "time")
        }
        return ParticleState(time=float(np.asarray(arrays["time"]).item()), rest=rest, **own)


@dataclass(frozen=True, eq=False)
class ImplicitEngine:
    """Flesh, cloth, jelly and rigid bodies; `skins` give the bindings of meshes to their cages, by name."""

    solver: ImplicitSolver
    skins: Mapping[str, Callable[[], Binding]]
    name: str = "implicit"

    def start(self) -> SolverState:
        """At time 0."""
        return self.solver.start()

    def advance(
        self, state: SolverState, now: float, dt: float, steps: int, watch: Callable[[], object]
    ) -> SolverState:
        """So many steps; the report is of all of them."""
        reports = []
        for _ in range(steps):
            state = self.solver.step(state, dt, watch=watch)
            reports += [state.report] if state.report else []
        return replace(state, report=StepReport.merged(reports))

    def points(self, state: SolverState) -> dict[str, Array]:
        """Cloth, and the meshes in cages."""
        soft = [body.name for body in self.solver.model.bodies if not isinstance(body, RigidBody)]
        return {
            name: self.skins[name]().positions(state.body(name)) if name in self.skins else state.body(name)
            for name in soft
        }

    def body(self, state: SolverState, name: str) -> Array:
        """The points of a body."""
        return state.body(name)

    def transforms(self, state: SolverState) -> dict[str, Array]:
        """Of the rigid bodies."""
        found = {}
        for body, origin, turn in zip(self.solver.model.rigid, state.origins, state.rotations, strict=True):
            T = np.eye(4)
            T[:3, :3], T[:3, 3] = turn, origin - turn @ np.asarray(body.centre)
            found[body.name] = T
        return found

    def stats(self, state: SolverState) -> dict[str, float | int]:
        """Of the last frame."""
        report = state.report
        if report is None:
            return {}
        stats: dict[str, float | int] = {
            "newton iterations": report.iterations,
            "solver steps": report.substeps,
            "joint violation": report.violation,
        }
        if self.solver.surfaces is not None:
            stats["contacts"] = report.contacts
        return stats

    def details(self, state: SolverState) -> dict[str, Any]:
        """Newton iterations of all attempts, the least gap (m), what bonds and joints did, and seconds."""
        report = state.report
        if report is None:
            return {}
        details: dict[str, Any] = {"attempted iterations": report.iterations + report.wasted}
        if self.solver.surfaces is not None:
            details["gap"] = report.gap
        details["events"] = [
            {
                "event": one.event,
                "kind": one.kind,
                "from": one.first,
                "to": one.second,
                "count": one.count,
                "time": round(one.time, 9),
            }
            for one in report.events
        ]
        return details | {"seconds": report.seconds}

    def pack(self, state: SolverState) -> dict[str, Any]:
        """The state, and the one before it."""
        packed = _packed(state)
        if state.past is not None:
            packed |= {f"past.{key}": value for key, value in _packed(state.past).items()}
        return packed

    def unpack(self, arrays: Mapping[str, Any]) -> SolverState:
        """The state again."""
        rows = self.solver.model.rows
        past = {key.removeprefix("past."): value for key, value in arrays.items() if key.startswith("past.")}
        before = SolverState(**_unpacked(past), rows=rows) if past else None
        return SolverState(**_unpacked(arrays), rows=rows, past=before)


_APART = ("rows", "report", "past")


def _packed(state: SolverState) -> dict[str, Any]:
    """Arrays and numbers of a state; what is None is left out."""
    values = {field.name: getattr(state, field.name) for field in fields(state) if field.name not in _APART}
    return {name: value for name, value in values.items() if value is not None}


def _unpacked(arrays: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for field in fields(SolverState):
        if field.name not in _APART and field.name in arrays:
            value = np.asarray(arrays[field.name])
            found[field.name] = value.item() if value.ndim == 0 else np.array(value)
    return found


@dataclass(frozen=True, eq=False)
class HandledMesh:
    """A mesh with its handles (H, 3) and the tracks of those that move."""

    deformer: HandleDeformer
    tracks: Mapping[int, Track]
    oriented: bool
    """Whether any handle carries an orientation."""

    def at(self, time: float, previous: Array | None) -> tuple[Array, Array]:
        """Vertices (V, 3) and their rotations (V, 3, 3), given those of the frame before."""
        handles = self.deformer.handles.copy()
        turns = np.tile(np.eye(3), (len(handles), 1, 1))
        for k, track in self.tracks.items():
            turn, shift = track.at(time)
            handles[k], turns[k] = turn @ handles[k] + shift, turn
        rotations = turns if self.oriented else None
        pose = self.deformer.at(handles, rotations=rotations, previous=previous)
        return pose.positions, pose.rotations


@dataclass(frozen=True, eq=False)
class HandleEngine:
    """Meshes that follow handles, by name; a state is vertices and rotations of each."""

    meshes: Mapping[str, HandledMesh]
    name: str = "handles"

    def start(self) -> dict[str, tuple[Array, Array]]:
        """At time 0."""
        return {name: mesh.at(0.0, None) for name, mesh in self.meshes.items()}

    def advance(
        self,
        state: dict[str, tuple[Array, Array]],
        now: float,
        dt: float,
        steps: int,
        watch: Callable[[], object],
    ) -> dict[str, tuple[Array, Array]]:
        """At the time `now`."""
        return {name: mesh.at(now, state[name][1]) for name, mesh in self.meshes.items()}

    def points(self, state: dict[str, tuple[Array, Array]]) -> dict[str, Array]:
        """The vertices."""
        return {name: vertices for name, (vertices, _) in state.items()}

    def body(self, state: dict[str, tuple[Array, Array]], name: str) -> Array:
        """The vertices."""
        return state[name][0]

    def transforms(self, state: dict[str, tuple[Array, Array]]) -> dict[str, Array]:
        """None: they all deform."""
        return {}

    def stats(self, state: dict[str, tuple[Array, Array]]) -> dict[str, float | int]:
        """Nothing."""
        return {}

    def details(self, state: dict[str, tuple[Array, Array]]) -> dict[str, Any]:
        """Nothing."""
        return {}

    def pack(self, state: dict[str, tuple[Array, Array]]) -> dict[str, Any]:
        """Vertices and rotations."""
        return {
            f"{part}.{name}": array
            for name, pair in state.items()
            for part, array in zip(("vertices", "rotations"), pair, strict=True)
        }

    def unpack(self, arrays: Mapping[str, Any]) -> dict[str, tuple[Array, Array]]:
        """The state again."""
        return {
            name: (np.array(arrays[f"vertices.{name}"]), np.array(arrays[f"rotations.{name}"]))
            for name in self.meshes
        }
