"""The simulation in the page: the scene as the command line runs it, and a spring that the mouse pulls."""

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
from ..document.document import BINDABLE, Document

__all__ = ["Hand", "Preview", "StoppedError", "is_simulated", "require_grabbable", "unskinned"]

PARTICLE_RATE = 120  # steps/s of particles alone: the motion is that of fewer, and pulling is smoother
HAND_FREQUENCY = 12.0  # 1/s: angular frequency of the hand's spring on a free point, quick but not abrupt
HAND_STEP_SHARE = 0.4  # ratio: of the largest frequency that an explicit force of one step allows
HAND_POINT_SHARE = 0.2  # ratio: the points of an object that the hand is bound to, so that it does not tear
GRABBABLE = ("particles", "flesh", "cloth", "jelly", "rigid")  # the kinds that are simulated
LONGEST_CAUSE = 200  # characters of a solver's message that a page has room for


class StoppedError(PointglueError):
    """A frame that could not be computed; its message tells artists why, and what may help."""

    def __init__(self, frame: int, cause: Exception) -> None:
        reason = str(cause)
        reason = reason if len(reason) <= LONGEST_CAUSE else reason[: LONGEST_CAUSE - 3] + "..."
        if isinstance(cause, ConvergenceError):
            reason = (
                "the solver found no way on. Lighter or stiffer materials, or more steps a frame "
                f"(frames.substeps), usually help. The solver says: {reason}"
            )
        super().__init__(f"Stopped in frame {frame}: {reason}")


def require_grabbable(document: Document, name: str) -> None:
    """Raise InputError unless an object is simulated, so that the hand can pull at it."""
    if document.objects.get(name, {}).get("kind") not in GRABBABLE:
        raise InputError(f"{name!r} is not simulated: there is nothing to take hold of")


def is_simulated(document: Document) -> bool:
    """Return whether there is anything to simulate: not only meshes with handles and colliders."""
    kinds = {table["kind"] for table in document.objects.values()}
    return not kinds or bool(kinds - {"handles", "collider"})


def unskinned(document: Document) -> list[str]:
    """Return the objects whose whole mesh follows one particle, the first that was placed."""
    found = []
    for name in document.objects:
        body = document.particles(name)
        if body is not None and body.visual is not None and len(body) > 1:
            followed = body.visual.links[body.visual.weights > 0]
            if (followed == followed[0]).all():
                found.append(name)
    return found


@dataclass(eq=False)
class Hand:
    """A spring from a point that glue binds to an object, to where the mouse is; it also bears the weight."""

    engine: Any
    """The engine that simulates the object."""
    rows: slice
    """The points of the object among those of the engine."""
    glue: Glue
    """The point that is pulled, bound to points of the object."""
    mass: Array
    """Masses (n,) of the points of the object [kg]."""
    weight: Array
    """Weight (3,) of the object [N]."""
    object: str
    """The name of the object."""
    target: Array
    """Where the mouse is (3,) [m]."""
    dt: float
    """Length of a step [s]."""
    rigid: bool
    """Whether the object is rigid."""

    def __call__(self, *arguments: Any) -> Array:
        """Return the forces (N, 3) on all points of the solver [N]."""
        state = next(argument for argument in arguments if hasattr(argument, "velocities"))
        pose = self.glue.at(state.positions[self.rows])
        # The whole mass of a rigid object resists at its centroid, less of it elsewhere.
        mass = 0.25 * float(self.mass.sum()) if self.rigid else float(pose.effective_mass(self.mass)[0])
        rate = min(HAND_FREQUENCY, HAND_STEP_SHARE / self.dt)
        # Critical damping of the whole object, as far as the step allows.
        damping = min(2 * rate * float(np.sqrt(mass * self.mass.sum())), HAND_STEP_SHARE / self.dt * mass)
        away = self.target - pose.positions[0]
        speed = pose.velocities(state.velocities[self.rows])[0]
        force: Array = mass * rate**2 * away - damping * speed - self.weight
        forces: Array = np.zeros(state.positions.shape)
        forces[self.rows] = pose.transfer_forces(force[None])
        return forces

    def position(self, state: Any) -> Array:
        """Return where the point that is pulled is (3,) [m]."""
        return np.asarray(self.glue.at(state.positions[self.rows]).positions[0])


class Preview:
    """A simulation of the document that is stepped frame by frame.

    Parameters
    ----------
    document : Document
        The scene.
    bodies : mapping of str to mapping
        For each body in memory, the keys of its table that say in which file it is.
    """

    def __init__(self, document: Document, bodies: Mapping[str, Mapping[str, str]]) -> None:
        tables = document.runnable(bodies)
        frames = document.scene.frames
        if not any(table.kind in BINDABLE for table in document.scene.objects.values()):
            substeps = max(frames.substeps, round(PARTICLE_RATE / frames.rate))
            tables["frames"] = {**tables.get("frames", {}), "substeps": min(substeps, 1000)}
        self.document = document
        self.simulation = build_scene(load_scene(tables))
        self.state = self.simulation.start()
        self.hand: Hand | None = None
        self.milliseconds = 0.0

    def resume_from(self, before: "Preview") -> bool:
        """Continue from the state of another simulation; return False if that has other objects."""
        try:
            self.state = self.simulation.unpack(before.simulation.pack(before.state))
            self.simulation.frame(self.state)
        except (PointglueError, ValueError, IndexError, KeyError, TypeError):  # other objects
            self.state = self.simulation.start()
            return False
        if before.hand is not None:
            self.grab(before.hand.object, before.hand.position(before._part(before.hand.engine)))
            self.pull(before.hand.target)
        return True

    @property
    def steps(self) -> int:
        """The number of steps of a frame."""
        return int(self.simulation.frames.substeps)

    @property
    def frame(self) -> int:
        """The number of the frame."""
        return int(self.state.number)

    def advance(self, watch: Callable[[], object]) -> None:
        """Compute the next frame; `watch` is called now and then, and gives it up by raising an error."""
        begin = perf_counter()
        try:
            self.state = self.simulation.advance(self.state, watch=watch)
        except (PointglueError, ArithmeticError, np.linalg.LinAlgError) as error:
            raise StoppedError(self.frame + 1, error) from error
        self.milliseconds = 1e3 * (perf_counter() - begin)

    @property
    def events(self) -> tuple[str, ...]:
        """What happened in the last frame, such as attachments that broke, in words."""
        parts = zip(self.simulation.engines, self.state.parts, strict=True)
        return tuple(text for engine, part in parts for text in engine.events(part))

    def arrays(self) -> dict[tuple[str, str], Array | None]:
        """Return the arrays that pages show of the current frame, by object and channel."""
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
            hand = np.stack([self.hand.position(self._part(self.hand.engine)), self.hand.target])
        found["", "hand"] = hand
        return found

    def binding_is_active(self, attach: Any) -> bool:
        """Return whether the times of a binding include the current frame, even if it has broken."""
        frames = self.simulation.frames
        begin = -np.inf if attach.attach is None else frames.seconds(attach.attach)
        end = np.inf if attach.release is None else frames.seconds(attach.release)
        return bool(begin <= self.simulation.time(self.frame) < end)

    def points(self, name: str) -> Array | None:
        """Return the points (n, 3) of an object that glue can bind to [m], None if it has none."""
        for engine, part in zip(self.simulation.engines, self.state.parts, strict=True):
            if isinstance(engine, ImplicitEngine) and name in engine.solver.model.rows:
                return np.asarray(engine.body(part, name))
        return None

    def _part(self, engine: Any) -> Any:
        return self.state.parts[list(self.simulation.engines).index(engine)]

    def grab(self, name: str, position: Any) -> None:
        """Bind the hand to an object at a position (3,) [m], instead of what it pulled before."""
        grabbed = np.asarray(position, float)
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
                x,
                [grabbed],
                parents=min(len(x), max(8, int(HAND_POINT_SHARE * len(x)))),
                on_degenerate="clamp",
            )
            frames = self.simulation.frames
            dt = 1 / (frames.rate * frames.substeps)
            weight = float(mass.sum()) * gravity
            self.let_go()
            self.hand = Hand(engine, rows, glue, np.array(mass), weight, name, grabbed, dt, rigid)
            engine.solver.forces = (*engine.solver.forces, self.hand)
            return
        raise InputError(f"{name!r} is not simulated: nothing to take hold of")

    def pull(self, position: Any) -> None:
        """Pull what was grabbed to a position (3,) [m]."""
        if self.hand is not None:
            self.hand.target = np.asarray(position, float)

    def let_go(self) -> None:
        """Release what was grabbed."""
        if self.hand is not None:
            solver = self.hand.engine.solver
            solver.forces = tuple(force for force in solver.forces if force is not self.hand)
            self.hand = None
