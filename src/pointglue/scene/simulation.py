"""A scene that runs: engines that step side by side, a frame at a time."""

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
        """Under which checkpoints hold it."""
        ...

    def start(self) -> Any:
        """The state at the first frame."""
        ...

    def advance(self, state: Any, now: float, dt: float, steps: int, watch: Callable[[], object]) -> Any:
        """The state at `now` (s), after so many steps of `dt` (s); `watch` is called now and then."""
        ...

    def points(self, state: Any) -> dict[str, Array]:
        """Where the points (n, 3) of the objects are that deform, by name."""
        ...

    def body(self, state: Any, name: str) -> Array:
        """Where the points (n, 3) of one of its objects are that others hold on to."""
        ...

    def transforms(self, state: Any) -> dict[str, Array]:
        """How the others stand (4, 4), from where they start."""
        ...

    def stats(self, state: Any) -> dict[str, float | int]:
        """What the last frame took; nothing that depends on the machine."""
        ...

    def details(self, state: Any) -> dict[str, Any]:
        """What else there is to say of the last frame, which may depend on the machine.

        Under "seconds" there is what parts of the engine took (s), under "events" what happened.
        """
        ...

    def pack(self, state: Any) -> dict[str, Any]:
        """The whole state as arrays, numbers and texts."""
        ...

    def unpack(self, arrays: Mapping[str, Any]) -> Any:
        """The same state again, to the last bit."""
        ...


@dataclass(frozen=True, eq=False)
class SimulationState:
    """The states of all engines at a frame."""

    number: int
    parts: tuple[Any, ...]
    seconds: tuple[float, ...] = ()
    """What each engine took for this frame (s), where that is known; no part of checkpoints."""


@dataclass(frozen=True, eq=False)
class Follower:
    """A mesh that goes with the object `on` of an engine, one of `Simulation.engines` by its place there."""

    engine: int
    on: str
    binding: Binding


@dataclass(frozen=True)
class ObjectSummary:
    """A summary of one object of a scene that can be run."""

    name: str
    """As in the scene file."""
    kind: str
    """As in the scene file."""
    size: tuple[float, float, float] | None
    """Its extent along x, y and z [m]; None for a plane."""
    mass: float | None
    """Its mass [kg]; None for what has none."""
    points: int
    """Number of points that are simulated, or moved."""
    engine: str
    """What moves it: particles, implicit, handles, or none."""
    meets: tuple[str, ...]
    """Names of the objects that it bumps into, its own if it meets itself."""
    attached: tuple[str, ...]
    """What it is attached to, in words: its pins, its keys, and other objects."""


@dataclass(frozen=True, eq=False)
class Simulation:
    """Engines, what their objects look like, and what moves by keys alone."""

    frames: Frames
    engines: Sequence[Engine]
    looks: Sequence[StoredObject]
    tracks: Mapping[str, Track]
    """Of objects that no engine moves, by name."""
    followers: Mapping[str, Follower] = field(default_factory=dict)
    """Meshes that go with objects, by name."""
    objects: Sequence[ObjectSummary] = ()
    """What it is made of, in the order of the scene."""

    def start(self) -> SimulationState:
        """The first frame."""
        return SimulationState(self.frames.start, tuple(engine.start() for engine in self.engines))

    def advance(
        self, state: SimulationState, *, watch: Callable[[], object] = lambda: None
    ) -> SimulationState:
        """The next frame. `watch` is called now and then: it may raise an error of its own to give it up."""
        number, steps = state.number + 1, self.frames.substeps
        now, dt = self.time(number), 1 / (self.frames.rate * steps)
        parts, times = [], [perf_counter()]
        for engine, part in zip(self.engines, state.parts, strict=True):
            parts.append(engine.advance(part, now, dt, steps, watch))
            times.append(perf_counter())
        seconds = tuple(end - begin for begin, end in pairwise(times))
        return SimulationState(number, tuple(parts), seconds)

    def time(self, number: int) -> float:
        """Of a frame, in seconds from the first."""
        return (number - self.frames.start) / self.frames.rate

    def frame(self, state: SimulationState) -> Frame:
        """What is seen of a state."""
        points: dict[str, Array] = {}
        transforms = {name: track.matrix(self.time(state.number)) for name, track in self.tracks.items()}
        stats: dict[str, float | int] = {}
        for engine, part in zip(self.engines, state.parts, strict=True):
            points |= engine.points(part)
            transforms |= engine.transforms(part)
            stats |= engine.stats(part)
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
        )

    def details(self, state: SimulationState) -> dict[str, Any]:
        """What there is to say of a frame beyond its `stats`, with "seconds" by engine and its parts."""
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
        """The whole state as arrays, numbers and texts by name."""
        packed: dict[str, Any] = {"number": state.number}
        for engine, part in zip(self.engines, state.parts, strict=True):
            packed |= {f"{engine.name}.{key}": value for key, value in engine.pack(part).items()}
        return packed

    def unpack(self, arrays: Mapping[str, Any]) -> SimulationState:
        """The same state again, to the last bit."""
        parts = []
        try:
            for engine in self.engines:
                own = f"{engine.name}."
                mine = {key.removeprefix(own): value for key, value in arrays.items() if key.startswith(own)}
                parts.append(engine.unpack(mine))
            return SimulationState(int(np.asarray(arrays["number"]).item()), tuple(parts))
        except KeyError as error:
            raise InputError(f"the checkpoint lacks {error.args[0]!r}: it is not of this scene") from None
