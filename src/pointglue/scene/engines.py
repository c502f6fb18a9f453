"""The three engines behind one interface: particles, implicit solids, handles."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..checks import Array
from ..deform import HandleSequence
from ..elastic import ImplicitSolver, RigidBody, SolverState, StepReport
from ..glue import Binding
from ..particles import ParticleSolver, ParticleState, RestPose

__all__ = ["STATS", "HandleEngine", "ImplicitEngine", "ParticleEngine"]

STATS = ("fastest particle", "newton iterations", "solver steps", "joint violation", "contacts")
"""Names of the statistics that frames can have."""


@dataclass(frozen=True, eq=False)
class ParticleEngine:
    """Bodies of oriented particles."""

    solver: ParticleSolver
    """The solver that steps them."""
    names: Sequence[str]
    """Names of the objects, in the order of the solver."""
    velocities: Array
    """Velocities at the start (n, 3) [m/s]."""
    spins: Array
    """Angular velocities at the start (n, 3) [rad/s]."""
    name: str = "particles"
    """The key under which checkpoints hold its state."""

    def start(self) -> ParticleState:
        """Return the state at the first frame."""
        state = self.solver.start()
        free = ~state.pinned[:, None]
        return state.replace(velocities=self.velocities * free, spins=self.spins * free)

    def advance(
        self, state: ParticleState, now: float, dt: float, steps: int, watch: Callable[[], object]
    ) -> ParticleState:
        """Return the state after `steps` steps of `dt` [s]."""
        for _ in range(steps):
            watch()
            state = self.solver.step(state, dt)
        return state

    def points(self, state: ParticleState) -> dict[str, Array]:
        """Return the vertices of the meshes, or the particles of bodies that have none, by name."""
        shown = self.solver.body.skin(state) if self.solver.body.visual is not None else np.empty((0, 3))
        parts = zip(self.names, self.solver.parts, self.solver.visual_parts, strict=True)
        return {
            name: shown[visual] if visual.stop > visual.start else state.positions[own]
            for name, own, visual in parts
        }

    def body(self, state: ParticleState, name: str) -> Array:
        """Return where the particles of an object are (n, 3) [m]."""
        return np.asarray(state.positions[self.solver.parts[list(self.names).index(name)]])

    def transforms(self, state: ParticleState) -> dict[str, Array]:
        """Return an empty mapping, since all objects deform."""
        return {}

    def stats(self, state: ParticleState) -> dict[str, float | int]:
        """Return the statistics of a frame."""
        speed = float(np.sqrt((state.velocities**2).sum(1).max()))
        return {"fastest particle": speed}

    def events(self, state: ParticleState) -> tuple[str, ...]:
        """Return an empty tuple."""
        return ()

    def details(self, state: ParticleState) -> dict[str, Any]:
        """Return an empty mapping."""
        return {}

    def pack(self, state: ParticleState) -> dict[str, Any]:
        """Return the state and its rest pose as arrays and numbers."""
        own = {field.name: getattr(state, field.name) for field in fields(state) if field.name != "rest"}
        return own | {f"rest.{field.name}": getattr(state.rest, field.name) for field in fields(state.rest)}

    def unpack(self, arrays: Mapping[str, Any]) -> ParticleState:
        """Return the state that was packed."""
        rest = RestPose(**{field.name: np.array(arrays[f"rest.{field.name}"]) for field in fields(RestPose)})
        own = {
            field.name: np.array(arrays[field.name])
            for field in fields(ParticleState)
            if field.name not in ("rest", "time")
        }
        return ParticleState(time=float(np.asarray(arrays["time"]).item()), rest=rest, **own)


@dataclass(frozen=True, eq=False)
class ImplicitEngine:
    """Flesh, cloth, jelly and rigid bodies."""

    solver: ImplicitSolver
    """The solver that steps them."""
    skins: Mapping[str, Callable[[], Binding]]
    """Functions that return the bindings of meshes to their cages, by name."""
    loads: bool = False
    """Whether details have the loads of bonds and contact, and the energy."""
    name: str = "implicit"
    """The key under which checkpoints hold its state."""

    def start(self) -> SolverState:
        """Return the state at the first frame."""
        return self.solver.start()

    def advance(
        self, state: SolverState, now: float, dt: float, steps: int, watch: Callable[[], object]
    ) -> SolverState:
        """Return the state after `steps` steps of `dt` [s], with one report of all of them."""
        reports = []
        for _ in range(steps):
            state = self.solver.step(state, dt, watch=watch)
            reports += [state.report] if state.report else []
        report = StepReport.merged(reports)
        if self.loads:
            report = replace(report, energy=self.solver.energy(state))
        return replace(state, report=report)

    def points(self, state: SolverState) -> dict[str, Array]:
        """Return the vertices of cloth and of the meshes in cages, by name."""
        soft = [body.name for body in self.solver.model.bodies if not isinstance(body, RigidBody)]
        return {
            name: self.skins[name]().positions(state.body(name)) if name in self.skins else state.body(name)
            for name in soft
        }

    def body(self, state: SolverState, name: str) -> Array:
        """Return where the points of a body are (n, 3) [m]."""
        return state.body(name)

    def transforms(self, state: SolverState) -> dict[str, Array]:
        """Return the transforms of the rigid bodies (4, 4) from where they start, by name."""
        found = {}
        for body, origin, turn in zip(self.solver.model.rigid, state.origins, state.rotations, strict=True):
            T = np.eye(4)
            T[:3, :3], T[:3, 3] = turn, origin - turn @ np.asarray(body.center_of_mass)
            found[body.name] = T
        return found

    def stats(self, state: SolverState) -> dict[str, float | int]:
        """Return the statistics of the last frame."""
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

    def events(self, state: SolverState) -> tuple[str, ...]:
        """Return which bonds and joints attached, were released or broke in the last frame, in words."""
        return () if state.report is None else tuple(map(str, state.report.events))

    def details(self, state: SolverState) -> dict[str, Any]:
        """Return iterations of all attempts, gap [m], unconverged substeps, events, and seconds of parts."""
        report = state.report
        if report is None:
            return {}
        details: dict[str, Any] = {"attempted iterations": report.iterations + report.wasted}
        if self.solver.surfaces is not None:
            details["gap"] = report.gap
            details["unconverged"] = report.unconverged
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
        if self.loads:
            details["energy"] = report.energy
            details["loads"] = [
                {
                    "kind": load.kind,
                    "from": load.first,
                    "to": load.second,
                    "position": load.position.tolist(),
                    "force": load.force.tolist(),
                    "torque": load.torque.tolist(),
                    "largest": load.largest,
                }
                for load in self.solver.loads(state)
            ]
        return details | {"seconds": report.seconds}

    def pack(self, state: SolverState) -> dict[str, Any]:
        """Return the state and the one before it as arrays and numbers."""
        packed = _packed(state)
        if state.previous is not None:
            packed |= {f"previous.{key}": value for key, value in _packed(state.previous).items()}
        return packed

    def unpack(self, arrays: Mapping[str, Any]) -> SolverState:
        """Return the state that was packed."""
        rows = self.solver.model.rows
        past = {
            key.removeprefix("previous."): value
            for key, value in arrays.items()
            if key.startswith("previous.")
        }
        before = SolverState(**_unpacked(past), rows=rows) if past else None
        return SolverState(**_unpacked(arrays), rows=rows, previous=before)


_SEPARATE = ("rows", "report", "previous")  # fields of a state that are no arrays or numbers


def _packed(state: SolverState) -> dict[str, Any]:
    """Return the arrays and numbers of a state; what is None is left out."""
    values = {
        field.name: getattr(state, field.name) for field in fields(state) if field.name not in _SEPARATE
    }
    return {name: value for name, value in values.items() if value is not None}


def _unpacked(arrays: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for field in fields(SolverState):
        if field.name not in _SEPARATE and field.name in arrays:
            value = np.asarray(arrays[field.name])
            found[field.name] = value.item() if value.ndim == 0 else np.array(value)
    return found


@dataclass(frozen=True, eq=False)
class HandleEngine:
    """Meshes that follow handles, by name; a state is vertices (V, 3) and rotations (V, 3, 3) of each."""

    sequences: Mapping[str, HandleSequence]
    """The poses of each mesh over time, by name."""
    name: str = "handles"
    """The key under which checkpoints hold its state."""

    def start(self) -> dict[str, tuple[Array, Array]]:
        """Return the state at time 0."""
        poses = {name: sequence.evaluate(0.0) for name, sequence in self.sequences.items()}
        return {name: (pose.positions, pose.rotations) for name, pose in poses.items()}

    def advance(
        self,
        state: dict[str, tuple[Array, Array]],
        now: float,
        dt: float,
        steps: int,
        watch: Callable[[], object],
    ) -> dict[str, tuple[Array, Array]]:
        """Return the state at the time `now` [s], one frame after `state`."""
        poses = {name: sequence.evaluate(now, state[name][1]) for name, sequence in self.sequences.items()}
        return {name: (pose.positions, pose.rotations) for name, pose in poses.items()}

    def points(self, state: dict[str, tuple[Array, Array]]) -> dict[str, Array]:
        """Return the vertices."""
        return {name: vertices for name, (vertices, _) in state.items()}

    def body(self, state: dict[str, tuple[Array, Array]], name: str) -> Array:
        """Return the vertices."""
        return state[name][0]

    def transforms(self, state: dict[str, tuple[Array, Array]]) -> dict[str, Array]:
        """Return an empty mapping, since all objects deform."""
        return {}

    def stats(self, state: dict[str, tuple[Array, Array]]) -> dict[str, float | int]:
        """Return an empty mapping."""
        return {}

    def events(self, state: dict[str, tuple[Array, Array]]) -> tuple[str, ...]:
        """Return an empty tuple."""
        return ()

    def details(self, state: dict[str, tuple[Array, Array]]) -> dict[str, Any]:
        """Return an empty mapping."""
        return {}

    def pack(self, state: dict[str, tuple[Array, Array]]) -> dict[str, Any]:
        """Return vertices and rotations as arrays."""
        return {
            f"{part}.{name}": array
            for name, pair in state.items()
            for part, array in zip(("vertices", "rotations"), pair, strict=True)
        }

    def unpack(self, arrays: Mapping[str, Any]) -> dict[str, tuple[Array, Array]]:
        """Return the state that was packed."""
        return {
            name: (np.array(arrays[f"vertices.{name}"]), np.array(arrays[f"rotations.{name}"]))
            for name in self.sequences
        }
