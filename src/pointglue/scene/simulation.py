"""The simulation of a scene: engines that step side by side, a frame at a time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from ..checks import Array
from ..errors import InputError
from ..glue import Binding
from ..io.frame_records import Frame, StoredObject
from .schema.scene import Frames
from .tracks import Track

__all__ = ["Engine", "Follower", "ObjectSummary", "Simulation", "SimulationState"]


class Engine(Protocol):
    """One solver with its objects."""

    @property
    def name(self) -> str:
        """The key under which checkpoints hold its state."""
        ...

    def start(self) -> Any:
        """Return the state at the first frame."""
        ...

    def advance(self, state: Any, now: float, dt: float, steps: int, watch: Callable[[], object]) -> Any:
        """Return the state at `now` [s], after `steps` steps of `dt` [s]; `watch` is called now and then."""
        ...

    def points(self, state: Any) -> dict[str, Array]:
        """Return the visible points (n, 3) [m] of the objects that deform, by name."""
        ...

    def body(self, state: Any, name: str) -> Array:
        """Return the points (n, 3) [m] of one of its objects that followers are bound to."""
        ...

    def transforms(self, state: Any) -> dict[str, Array]:
        """Return the transforms (4, 4) of the other objects from where they start, by name."""
        ...

    def stats(self, state: Any) -> dict[str, float | int]:
        """Return the statistics of the last frame; nothing that depends on the machine."""
        ...

    def events(self, state: Any) -> tuple[str, ...]:
        """Return what happened in the last frame, in words."""
        ...

    def details(self, state: Any) -> dict[str, Any]:
        """Return further statistics of the last frame, which may depend on the machine.

        "seconds" has the times of parts of the engine [s], "events" what happened.
        """
        ...

    def pack(self, state: Any) -> dict[str, Any]:
        """Return the whole state as arrays, numbers and texts."""
        ...

    def unpack(self, arrays: Mapping[str, Any]) -> Any:
        """Return the state that was packed, bit-identical."""
        ...


@dataclass(frozen=True, eq=False)
class SimulationState:
    """The states of all engines at a frame.

    Parameters
    ----------
    number : int
        The number of the frame.
    parts : tuple
        The state of each engine.
    seconds : tuple of float, optional
        The time that each engine took for this frame [s], where it is known; no part of checkpoints.
    """

    number: int
    parts: tuple[Any, ...]
    seconds: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Follower:
    """A mesh that is bound to an object of an engine."""

    engine: int
    """The index of the engine in `Simulation.engines`."""
    on: str
    """The name of the object."""
    binding: Binding
    """Binds the vertices of the mesh to the points of the object."""


@dataclass(frozen=True)
class ObjectSummary:
    """A summary of one object of a scene that can be run."""

    name: str
    """The name in the scene file."""
    kind: str
    """The kind in the scene file."""
    size: tuple[float, float, float] | None
    """Its extent along x, y and z [m]; None for a plane."""
    mass: float | None
    """Its mass [kg]; None if it has none."""
    points: int
    """Number of points that are simulated, or moved."""
    engine: str
    """The engine that moves it: particles, implicit, handles, or none."""
    meets: tuple[str, ...]
    """Names of the objects that it bumps into, its own if it meets itself."""
    attached: tuple[str, ...]
    """What it is attached to, in words: its pins, its keys, and other objects."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """A scene that can be run: engines, looks of their objects, and what moves by keys alone.

    Parameters
    ----------
    frames : Frames
        Which frames there are.
    engines : sequence of Engine
        The solvers with their objects.
    looks : sequence of Look
        What the visible objects look like.
    tracks : mapping of str to Track
        Motions of objects that no engine moves, by name.
    followers : mapping of str to Follower, optional
        Meshes that are bound to objects, by name.
    objects : sequence of ObjectSummary, optional
        Summaries of the objects, in the order of the scene.
    """

    frames: Frames
    engines: Sequence[Engine]
    looks: Sequence[StoredObject]
    tracks: Mapping[str, Track]
    followers: Mapping[str, Follower] = field(default_factory=dict)
    objects: Sequence[ObjectSummary] = ()

    def start(self) -> SimulationState:
        """Return the state at the first frame.

        Returns
        -------
        SimulationState
            The states of all engines.
        """
        return SimulationState(self.frames.start, tuple(engine.start() for engine in self.engines))

    def advance(
        self, state: SimulationState, *, watch: Callable[[], object] = lambda: None
    ) -> SimulationState:
        """Return the state at the next frame.

        Parameters
        ----------
        state : SimulationState
            The state at a frame.
        watch : callable
            Called now and then; it may raise an error of its own to stop the computation.

        Returns
        -------
        SimulationState
            The states of all engines.
        """
        number, steps = state.number + 1, self.frames.substeps
        now, dt = self.time(number), 1 / (self.frames.rate * steps)
        parts, times = [], [perf_counter()]
        for engine, part in zip(self.engines, state.parts, strict=True):
            parts.append(engine.advance(part, now, dt, steps, watch))
            times.append(perf_counter())
        seconds = tuple(end - begin for begin, end in pairwise(times))
        return SimulationState(number, tuple(parts), seconds)

    def time(self, number: int) -> float:
        """Return the time of a frame from the first [s], given its number."""
        return (number - self.frames.start) / self.frames.rate

    def frame(self, state: SimulationState) -> Frame:
        """Return the frame of a state: where all visible objects are, and statistics."""
        points: dict[str, Array] = {}
        transforms = {name: track.matrix(self.time(state.number)) for name, track in self.tracks.items()}
        stats: dict[str, float | int] = {}
        events: tuple[str, ...] = ()
        for engine, part in zip(self.engines, state.parts, strict=True):
            points |= engine.points(part)
            transforms |= engine.transforms(part)
            stats |= engine.stats(part)
            events += engine.events(part)
        for name, one in self.followers.items():
            on = self.engines[one.engine].body(state.parts[one.engine], one.on)
            points[name] = one.binding.positions(on)
        motions = {look.name: look.motion for look in self.looks}
        return Frame(
            number=state.number,
            time=self.time(state.number),
            points={name: x for name, x in points.items() if motions.get(name) == "points"},
            transforms={name: T for name, T in transforms.items() if motions.get(name) == "transform"},
            stats=stats,
            events=events,
        )

    def details(self, state: SimulationState) -> dict[str, Any]:
        """Return statistics of a frame beyond its `stats`, with "seconds" by engine and its parts."""
        details: dict[str, Any] = {}
        events: list[dict[str, Any]] = []
        seconds: dict[str, float] = {}
        for engine, part, spent in zip(self.engines, state.parts, state.seconds, strict=False):
            own = engine.details(part)
            seconds[engine.name] = spent
            seconds |= {f"{engine.name}.{name}": value for name, value in own.pop("seconds", {}).items()}
            events += own.pop("events", [])
            details |= own
        return {**details, "events": events, "seconds": seconds}

    def pack(self, state: SimulationState) -> dict[str, Any]:
        """Return the whole state as arrays, numbers and texts, by name."""
        packed: dict[str, Any] = {"number": state.number}
        for engine, part in zip(self.engines, state.parts, strict=True):
            packed |= {f"{engine.name}.{key}": value for key, value in engine.pack(part).items()}
        return packed

    def unpack(self, arrays: Mapping[str, Any]) -> SimulationState:
        """Return the state that was packed, bit-identical."""
        parts = []
        try:
            for engine in self.engines:
                own = f"{engine.name}."
                mine = {key.removeprefix(own): value for key, value in arrays.items() if key.startswith(own)}
                parts.append(engine.unpack(mine))
            return SimulationState(int(np.asarray(arrays["number"]).item()), tuple(parts))
        except KeyError as error:
            raise InputError(f"the checkpoint lacks {error.args[0]!r}: it is not of this scene") from None
