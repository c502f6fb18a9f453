"""The simulation in the page: the scene as the command line runs it, and a hand that pulls at it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from ...checks import Array
from ...elastic import RigidBody
from ...errors import ConvergenceError, InputError, PointglueError
from ...glue import Glue, bind_glue
from ...scene import build_scene, load_scene
from ...scene.engines import ImplicitEngine, ParticleEngine
from ..document.document import TIED, Document

__all__ = ["Preview", "StoppedError", "require_holdable", "unskinned"]

# Steps a second of particles alone: the motion is the same as with fewer, and the hand is smoother.
PARTICLE_RATE = 120
# The hand: its spring, were it on a free point, 1/s; and how much of the step's limit it uses.
EAGER, SAFE = 12.0, 0.4
# The share of an object's points that the hand holds on to.
HELD = 0.2
# What is simulated, and so can be taken hold of.
HOLDABLE = ("particles", "flesh", "cloth", "jelly", "rigid")
LONGEST_TEXT = 200


class StoppedError(PointglueError):
    """A frame that could not be computed; the message tells artists why, and what may help."""

    def __init__(self, frame: int, cause: Exception) -> None:
        told = str(cause)
        told = told if len(told) <= LONGEST_TEXT else told[: LONGEST_TEXT - 3] + "..."
        if isinstance(cause, ConvergenceError):
            told = (
                "the solver found no way on. Lighter or stiffer materials, or more steps a frame "
                f"(frames.substeps), usually help. The solver says: {told}"
            )
        super().__init__(f"Stopped in frame {frame}: {told}")


def require_holdable(document: Document, name: str) -> None:
    """Raise unless an object is simulated, so that a hand can take hold of it."""
    if document.objects.get(name, {}).get("kind") not in HOLDABLE:
        raise InputError(f"{name!r} is not simulated: there is nothing to take hold of")


def unskinned(document: Document) -> list[str]:
    """Objects whose mesh does not follow their particles: all of it hangs on the first that was placed."""
    found = []
    for name in document.objects:
        body = document.particles(name)
        if body is not None and body.visual is not None and len(body) > 1:
            carriers = body.visual.links[body.visual.weights > 0]
            if (carriers == carriers[0]).all():
                found.append(name)
    return found


@dataclass(eq=False)
class Hand:
    """A spring from a place that glue attaches to an object, to where the mouse is; it carries the weight."""

    engine: Any
    rows: slice
    glue: Glue
    mass: Array
    weight: Array
    object: str
    target: Array
    dt: float
    rigid: bool

    def __call__(self, *arguments: Any) -> Array:
        """Forces (N, 3) on all points of the solver."""
        state = next(argument for argument in arguments if hasattr(argument, "velocities"))
        pose = self.glue.at(state.positions[self.rows])
        # All of a rigid object resists, off its centre less of it.
        mass = 0.25 * float(self.mass.sum()) if self.rigid else float(pose.effective_mass(self.mass)[0])
        rate = min(EAGER, SAFE / self.dt)
        # Enough that the whole object does not swing, as far as the step allows.
        damping = min(2 * rate * float(np.sqrt(mass * self.mass.sum())), SAFE / self.dt * mass)
        away = self.target - pose.positions[0]
        speed = pose.velocities(state.velocities[self.rows])[0]
        force: Array = mass * rate**2 * away - damping * speed - self.weight
        forces: Array = np.zeros(state.positions.shape)
        forces[self.rows] = pose.transfer_forces(force[None])
        return forces

    def place(self, state: Any) -> Array:
        """Where it holds on to the object (3,)."""
        return np.asarray(self.glue.at(state.positions[self.rows]).positions[0])


class Preview:
    """A simulation of the document that is stepped frame by frame."""

    def __init__(self, document: Document, bodies: Mapping[str, Mapping[str, str]]) -> None:
        tables = document.runnable(bodies)
        frames = document.scene.frames
        if not any(table.kind in TIED for table in document.scene.objects.values()):
            substeps = max(frames.substeps, round(PARTICLE_RATE / frames.rate))
            tables["frames"] = {**tables.get("frames", {}), "substeps": min(substeps, 1000)}
        self.document = document
        self.simulation = build_scene(load_scene(tables))
        self.state = self.simulation.start()
        self.hand: Hand | None = None
        self.milliseconds = 0.0

    def resumed(self, before: "Preview") -> bool:
        """Go on from where another simulation is, if this is of the same objects."""
        try:
            self.state = self.simulation.unpack(before.simulation.pack(before.state))
            self.simulation.frame(self.state)
        except (PointglueError, ValueError, IndexError, KeyError, TypeError):  # made of something else now
            self.state = self.simulation.start()
            return False
        if before.hand is not None:
            self.grab(before.hand.object, before.hand.place(before._part(before.hand.engine)))
            self.pull(before.hand.target)
        return True

    @property
    def steps(self) -> int:
        """Steps a frame."""
        return int(self.simulation.frames.substeps)

    @property
    def frame(self) -> int:
        """The number of the frame."""
        return int(self.state.number)

    def advance(self, watch: Callable[[], object]) -> None:
        """The next frame, unless `watch`, which is called now and then, raises an error to give it up."""
        begin = perf_counter()
        try:
            self.state = self.simulation.advance(self.state, watch=watch)
        except (PointglueError, ArithmeticError, np.linalg.LinAlgError) as error:
            raise StoppedError(self.frame + 1, error) from error
        self.milliseconds = 1e3 * (perf_counter() - begin)

    def arrays(self) -> dict[tuple[str, str], Array | None]:
        """What is seen now, by object and channel."""
        frame = self.simulation.frame(self.state)
        found: dict[tuple[str, str], Array | None] = {}
        for look in self.simulation.looks:
            if look.name in frame.points:
                found[look.name, "vertices"] = frame.points[look.name]
            elif look.name in frame.transforms:
                T = frame.transforms[look.name]
                found[look.name, "vertices"] = look.rest @ T[:3, :3].T + T[:3, 3]
        for engine, part in zip(self.simulation.engines, self.state.parts, strict=True):
            if isinstance(engine, ParticleEngine):
                turns = part.orientations
                for name, rows in zip(engine.names, engine.solver.parts, strict=True):
                    if self.document.particles(name) is not None:
                        found[name, "particles_now"] = part.positions[rows]
                        found[name, "turns_now"] = turns[rows]
        hand = None
        if self.hand is not None:
            hand = np.stack([self.hand.place(self._part(self.hand.engine)), self.hand.target])
        found["", "hand"] = hand
        return found

    def holds(self, attach: Any) -> bool:
        """Whether an attachment holds now, by its times; whether it has broken is not asked."""
        frames = self.simulation.frames
        begin = -np.inf if attach.attach is None else frames.seconds(attach.attach)
        end = np.inf if attach.release is None else frames.seconds(attach.release)
        return bool(begin <= self.simulation.time(self.frame) < end)

    def points(self, name: str) -> Array | None:
        """Where the points of an object that glue can hold on to are."""
        for engine, part in zip(self.simulation.engines, self.state.parts, strict=True):
            if isinstance(engine, ImplicitEngine) and name in engine.solver.model.rows:
                return np.asarray(engine.body(part, name))
        return None

    def _part(self, engine: Any) -> Any:
        return self.state.parts[list(self.simulation.engines).index(engine)]

    def grab(self, name: str, position: Any) -> None:
        """Take hold of the place of an object that is nearest to a position, instead of what is held."""
        place = np.asarray(position, float)
        gravity = np.asarray(self.document.scene.world.gravity)
        for engine, part in zip(self.simulation.engines, self.state.parts, strict=True):
            if isinstance(engine, ParticleEngine) and name in engine.names:
                rows, rigid = engine.solver.parts[list(engine.names).index(name)], False
                mass = engine.solver.body.mass[rows]
            elif isinstance(engine, ImplicitEngine) and name in engine.solver.model.rows:
                rows = engine.solver.model.rows[name]
                body = next(body for body in engine.solver.model.bodies if body.name == name)
                count, rigid = len(body.positions), isinstance(body, RigidBody)
                mass = np.broadcast_to(np.asarray(body.mass) / (count if rigid else 1), (count,))
            else:
                continue
            x = part.positions[rows]
            if len(x) < 3:
                raise InputError(f"{name!r} has too few points to take hold of")
            glue = bind_glue(
                x, [place], parents=min(len(x), max(8, int(HELD * len(x)))), on_degenerate="clamp"
            )
            frames = self.simulation.frames
            dt = 1 / (frames.rate * frames.substeps)
            weight = float(mass.sum()) * gravity
            self.let_go()
            self.hand = Hand(engine, rows, glue, np.array(mass), weight, name, place, dt, rigid)
            engine.solver.forces = (*engine.solver.forces, self.hand)
            return
        raise InputError(f"{name!r} is not simulated: nothing to take hold of")

    def pull(self, position: Any) -> None:
        """Draw what is held to a position."""
        if self.hand is not None:
            self.hand.target = np.asarray(position, float)

    def let_go(self) -> None:
        """Let go of it."""
        if self.hand is not None:
            solver = self.hand.engine.solver
            solver.forces = tuple(force for force in solver.forces if force is not self.hand)
            self.hand = None
