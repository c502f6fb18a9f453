"""The tables of a scene file: its objects, what attaches them, what moves them, and how long it runs."""

from typing import Annotated, Any, Literal

from pydantic import Field, Tag, model_validator

from .attach_tables import Attach, Parents
from .fields import (
    Accelerations,
    Color,
    Flag,
    Forces,
    Key,
    Length,
    Name,
    Points,
    Position,
    Share,
    Speeds,
    Spins,
    Table,
    Transform,
    chosen_by,
)
from .materials import (
    ClothMaterial,
    Density,
    FleshMaterial,
    JellyMaterial,
    ParticleMaterial,
    Rate,
    RigidMaterial,
    Stiffness,
)
from .shapes import Mesh
from .units import Moment, Quantity, moment_in_seconds

__all__ = ["Force", "Object", "SceneFile", "json_schema"]

MOST_FRAMES = 1_000_000

_Seconds = Annotated[float, Quantity("s", above=0)]
_Friction = Annotated[float, Quantity("", least=0)]


class Frames(Table):
    """The frames of the scene. The first is the start of the motion, at the time 0."""

    start: Annotated[int, Field(strict=True, ge=0, le=10_000_000)] = 1
    """Number of the first frame."""
    count: Annotated[int, Field(strict=True, ge=1, le=MOST_FRAMES)] = 100
    """The number of frames, the first one included."""
    rate: Annotated[float, Quantity("1/s", least=0.1, most=1e6)] = 24.0
    """Frames per second."""
    substeps: Annotated[int, Field(strict=True, ge=1, le=1000)] = 1
    """Steps of the solvers in a frame."""

    @property
    def end(self) -> int:
        """The number of the last frame."""
        return self.start + self.count - 1

    def seconds(self, moment: float | str) -> float:
        """Return the time of a moment, from the first frame [s]."""
        return moment_in_seconds(moment, self.start, self.rate)


class Wind(Table):
    """Moving air: it pushes on particles, cloth, and the surfaces of flesh, jelly and rigid objects."""

    velocity: Speeds
    """The velocity of the air: where it blows to, and how fast."""
    density: Density = 1.2
    """The density of the air."""
    drag: Annotated[float, Quantity("", least=0)] = 1.0
    """The drag coefficient."""
    gust: Annotated[float, Quantity("", least=0)] = 0.0
    """Gusts: how much stronger and weaker it becomes, as a share of the velocity."""
    period: _Seconds = 1.0
    """The time from one gust to the next."""
    start: Moment = 0.0
    """When it starts."""
    stop: Moment | None = None
    """When it ends; never if left out."""


class Water(Table):
    """Water below a level, that lifts particles and slows them down."""

    level: Annotated[float, Quantity("m")] = 0.0
    """Height of its surface."""
    density: Density = 1000.0
    """The density of the water."""
    drag: Annotated[float, Quantity("", least=0)] = 0.5
    """The drag coefficient."""
    current: Speeds = (0.0, 0.0, 0.0)
    """The velocity of the current."""
    swell: Speeds = (0.0, 0.0, 0.0)
    """The amplitude of a velocity that oscillates, added to the current."""
    period: _Seconds = 4.0
    """The period of that oscillation."""


class World(Table):
    """What acts on all objects: gravity, wind and water."""

    gravity: Accelerations = (0.0, -9.81, 0.0)
    """The acceleration of gravity."""
    wind: Wind | None = None
    """Moving air."""
    water: Water | None = None
    """Water, for particles."""


class _Object(Table):
    color: Color | None = None
    """A name of the palette, "#rrggbb", or red, green and blue from 0 to 1."""
    visible: Flag = True
    """Whether it is written out."""
    transform: Transform = Transform()
    """The transform from the mesh as it is built or read to where it starts."""
    ease: Literal["smooth", "linear"] = "smooth"
    """How it goes from key to key: with or without slowing down at each."""


class _Moving(_Object):
    mesh: Mesh
    """The mesh that is seen: a file, or a shape."""
    velocity: Speeds = (0.0, 0.0, 0.0)
    """The velocity at the start."""
    spin: Spins = (0.0, 0.0, 0.0)
    """The angular velocity at the start, about its middle."""
    keys: tuple[Key, ...] = ()
    """How what is pinned moves: poses at times."""


class KinematicPoints(Table):
    """Points that no force moves: keys of their own move them, and turn them about their middle."""

    points: Points
    """The points of the object that are pinned."""
    keys: tuple[Key, ...] = ()
    """How they move: poses at times. Without, they stay."""


class _Soft(_Moving):
    pin: Points | None = None
    """Points that stay where they are, or move as `keys` say."""
    grips: dict[Name, KinematicPoints] = Field(default_factory=dict)
    """Further points that are pinned, with keys of their own: two hands on a rope, say."""
    groups: dict[Name, Points] = Field(default_factory=dict)
    """Points with a name, for attachments and forces."""


class _Caged(_Soft):
    cell: Length | None = None
    """The largest size of the cells that fill the mesh; left out, a box and a branch have those of their
    `cells`, and other meshes a tenth of their extent. Cells are cubes, or shorter along axes where that makes
    them fit; they weigh and push by the share of them that is inside the mesh."""
    touch: Literal["mesh", "cells"] | None = None
    """What others bump into: the mesh, whose contacts the cells feel, or the cells themselves, which stand
    out from the mesh where it does not fill them. Left out, it is the mesh; one of more than 4,000 triangles
    without details that are smaller than a third of a cell, which is faster, and of a box or a branch the
    cells, which have its shape."""
    hide: Annotated[float, Quantity("kg/m2", above=0)] | None = None
    """The mass by area of the mesh that others bump into, besides that of the cells; left out, it has a
    thousandth of the mass of the object, and the cells have the rest."""


class Handle(Table):
    """A point on, in or about a mesh that keys move; the mesh follows."""

    at: Position
    """The place of the handle in the scene, at the start."""
    radius: Annotated[float, Quantity("m", least=0)] = 0.0
    """The radius of a handle with an orientation, which acts as a ball of that radius."""
    keys: tuple[Key, ...] = ()
    """How it moves: poses at times. Without, it stays."""


class HandlesObject(_Object):
    """A mesh that follows keyframed handles."""

    kind: Literal["handles"]
    mesh: Mesh
    """The mesh that is seen: a file, or a shape."""
    handles: Annotated[dict[Name, Handle], Field(min_length=1)]
    """The handles, each a table by its name: [objects.NAME.handles.knee], say."""
    chains: tuple[tuple[Name, ...], ...] = ()
    """Rows of handles, such as the joints of a limb, for tools that drag them: a run goes by keys alone."""
    together: tuple[tuple[Name, ...], ...] = ()
    """Sets of handles that such tools move as one."""
    falloff: Annotated[float, Quantity("", above=0, most=100)] = 1.0
    """How locally handles act: the larger, the more locally."""
    stretch: Share = 0.0
    """How much vertices may scale: 0 is rigid."""
    damping: Annotated[float, Quantity("", least=0)] = 0.0
    """How much rotations stay near those of the frame before."""
    distance: Literal["inside", "euclidean"] = "inside"
    """How the distance of a vertex from a handle is measured: through the inside of the mesh, or straight."""


class ParticlesObject(_Soft):
    """A body of oriented particles that carries the mesh."""

    kind: Literal["particles"]
    mesh: Mesh | None = None  # type: ignore[assignment]
    """What it looks like, and what particles are sampled from; a sheet and a rope have one at each corner."""
    body: str | None = None
    """Instead of a mesh, a file of `pointglue.io.save_body`, relative to the scene file."""
    material: ParticleMaterial = ParticleMaterial()
    """What it is made of."""
    spacing: Length | None = None
    """The distance from particle to particle; left out, there are about 300."""
    particles: Annotated[int, Field(strict=True, ge=1, le=50_000)] | None = None
    """How many particles there are, about, instead of their spacing."""
    tie: bool | None = None
    """Whether shells of the mesh, eyes or clothes, are tied to those that they touch, sit on or are in; left
    out, they are, with a warning."""
    pinned: Literal["all", "position"] = "all"
    """Whether what `pin` and `grips` hold still cannot turn either, or is free to turn."""
    placement: Literal["surface", "volume", "skeleton"] | None = None
    """Where particles are; left out, in the volume of what has one."""
    reach: Annotated[float, Quantity("", least=1, most=10)] = 1.4
    """Particles closer than this many spacings are joined."""
    aspect: Annotated[float, Quantity("", least=1, most=100)] = 2.0
    """The largest ratio of length to thickness of the ellipsoids."""
    thickness: Length | None = None
    """The thickness of the particles of a sheet; left out, a fifth of a cell."""
    rigid: tuple[Points, ...] = ()
    """Pieces that are rigid, each by its particles. Pieces that share particles are jointed: by one as by a
    ball, by a row of them as by a hinge. The presets rigid and plastic have one piece without this."""
    collision: Literal["hull", "particles"] | None = None
    """What of rigid pieces others bump into: the convex hulls of their parts of the mesh, which can stack, or
    their particles; left out, the hulls of pieces that are as good as convex. What takes dents has none."""

    @model_validator(mode="after")
    def _one(self) -> "ParticlesObject":
        if (self.mesh is None) == (self.body is None):
            raise ValueError("must have a mesh, or a body, and not both")
        if self.spacing is not None and self.particles is not None:
            raise ValueError("must have a spacing, or a number of particles, and not both")
        return self


class FleshObject(_Caged):
    """An elastic solid of hexahedra that carries the mesh."""

    kind: Literal["flesh"]
    material: FleshMaterial
    """The material that it is made of."""


class ClothObject(_Soft):
    """A cloth whose points are the vertices of the mesh."""

    kind: Literal["cloth"]
    material: ClothMaterial = ClothMaterial()
    """What it is made of."""


class JellyObject(_Caged):
    """An elastic solid by shape matching that carries the mesh."""

    kind: Literal["jelly"]
    material: JellyMaterial
    """The material that it is made of."""


class RigidObject(_Moving):
    """A rigid body; with `keys`, or `fixed`, nothing else moves it."""

    kind: Literal["rigid"]
    material: RigidMaterial = RigidMaterial()
    """What it is made of."""
    fixed: Flag = False
    """Whether it stays where it is."""
    collision: Literal["mesh", "hull", "decomposition"] = "mesh"
    """What others bump into: the mesh, its convex hull, or convex hulls of parts that together cover it."""
    groups: dict[Name, Points] = Field(default_factory=dict)
    """Points with a name, for attachments and forces."""


class ColliderObject(_Object):
    """A collider, which others bump into: at rest, or moved by keys.

    Planes, spheres, capsules, boxes and cylinders (of 32 sections and more) are met as these shapes, and all
    else as a mesh.
    """

    kind: Literal["collider"]
    mesh: Mesh
    """The mesh that others bump into: a file, or a shape."""
    friction: _Friction | None = None
    """Coulomb's coefficient; left out, that of the solver."""
    keys: tuple[Key, ...] = ()
    """How it moves: poses at times."""


class AnimatedObject(_Object):
    """A mesh with a motion of its own for every vertex; others bump into it, and can be attached to it."""

    kind: Literal["animated"]
    mesh: Mesh
    """The mesh: a torso, which moves by itself, or the first file of a numbered sequence, `walk_0001.obj`
    say, of which there is one for each frame; after the last it stays."""
    groups: dict[Name, Points] = Field(default_factory=dict)
    """Points with a name, for attachments."""


class FollowerObject(_Object, Parents):
    """A mesh that is only seen, and goes with another object by glue: leaves, lamps, a finer mesh."""

    kind: Literal["follower"]
    mesh: Mesh
    """The mesh that is seen, where it starts: a file, or a shape."""
    on: str
    """The name of the object that it goes with."""


Object = Annotated[
    Annotated[HandlesObject, Tag("kind=handles")]
    | Annotated[ParticlesObject, Tag("kind=particles")]
    | Annotated[FleshObject, Tag("kind=flesh")]
    | Annotated[ClothObject, Tag("kind=cloth")]
    | Annotated[JellyObject, Tag("kind=jelly")]
    | Annotated[RigidObject, Tag("kind=rigid")]
    | Annotated[ColliderObject, Tag("kind=collider")]
    | Annotated[AnimatedObject, Tag("kind=animated")]
    | Annotated[FollowerObject, Tag("kind=follower")],
    chosen_by("kind"),
]


class _ForceOn(Table):
    on: Annotated[list[str], Field(min_length=1)]
    """The names of the objects."""
    points: Points | None = None
    """Which points of each; all if left out."""
    start: Moment = 0.0
    """When it starts."""
    stop: Moment | None = None
    """When it ends; never if left out."""


class PushForce(_ForceOn):
    """A force, spread over the points by their mass (over those of a rigid object evenly)."""

    kind: Literal["push"]
    force: Forces
    """The force on each object in all."""


class DragForce(_ForceOn):
    """A force against the motion: mass times rate times velocity."""

    kind: Literal["drag"]
    rate: Rate
    """The rate at which motion dies away."""


Force = Annotated[
    Annotated[PushForce, Tag("kind=push")] | Annotated[DragForce, Tag("kind=drag")], chosen_by("kind")
]


class ParticleOptions(Table):
    """Options of the particle solver."""

    iterations: Annotated[int, Field(strict=True, ge=1, le=1000)] = 2
    """Iterations over all constraints in an internal step."""
    substep: _Seconds | None = None
    """The longest internal step; without it 1/120 s, or less for bodies of less than 5 cm."""
    contacts: Literal["all", "bodies", "none"] = "all"
    """Which particles collide: all, those of different objects, or none."""
    friction: _Friction = 0.5
    """Coulomb's coefficient."""
    bounce: Share = 0.0
    """Share of the approach speed that contact returns."""
    drag: Rate = 0.0
    """Slows all motion."""
    damping: Rate = 0.0
    """Slows motion within an object."""
    plastic_time: _Seconds = 5 / 60
    """How long a rigid piece gives way when it takes a dent."""


class ConflictSpring(Table):
    """A spring that takes the place of glue where a point has several bonds."""

    stiffness: Stiffness
    """The stiffness of the spring."""
    damping: Annotated[float, Quantity("N s/m", least=0)] = 0.0
    """The damping of the spring."""


class ImplicitOptions(Table):
    """Options of the solver of flesh, cloth, jelly and rigid objects."""

    method: Literal["euler", "bdf2"] = "euler"
    """euler: of first order, damps; bdf2: of second order, damps less."""
    tolerance: Annotated[float, Quantity("m/s", above=0)] | None = None
    """A step is done when Newton's method moves nothing faster than this any more. Left out, it is 1 mm/s;
    with contact, 1/100 of the size of each soft object and 1/1000 of that of each rigid one a second, in
    the mean over its points; objects that are attached to each other count by the largest of them."""
    iterations: Annotated[int, Field(strict=True, ge=1, le=1000)] = 60
    """Iterations of Newton's method, at most, before a step is halved."""
    conflict_spring: ConflictSpring | None = None
    """The spring that holds a point which several attachments claim; left out, they all hold exactly."""


class Solver(Table):
    """Options of the solvers."""

    particles: ParticleOptions = ParticleOptions()
    """For particles."""
    implicit: ImplicitOptions = ImplicitOptions()
    """For flesh, cloth, jelly and rigid objects."""


class Contact(Table):
    """Contact between flesh, cloth, jelly, rigid objects and colliders."""

    distance: Length
    """The distance from which on surfaces push each other away."""
    friction: _Friction = 0.3
    """Coulomb's coefficient."""
    thickness: Annotated[float, Quantity("m", least=0)] = 0.0
    """How far apart surfaces stay at least."""
    ignore: tuple[tuple[str, str], ...] = ()
    """Pairs of names of objects that pass through each other; twice the same one: it does not meet itself."""


class Output(Table):
    """What a run writes in addition to its frames as npz files."""

    formats: tuple[Literal["usd", "ply", "obj"], ...] = ()
    """One USD file with all frames; sequences of PLY or OBJ files."""
    loads: Flag = False
    """Whether stats.jsonl has, for each frame, the force and torque of every attachment and of contact on
    every implicit object, and the energy by its kind. `pointglue render --loads` makes a table and a chart
    of them."""


class SceneFile(Table):
    """A scene: its objects, what attaches them, what moves them, and how long it runs."""

    title: str = ""
    """What it shows, in words."""
    frames: Frames = Frames()
    """Which frames there are."""
    world: World = World()
    """Gravity, wind and water."""
    objects: Annotated[dict[Name, Object], Field(min_length=1)]
    """The objects, each a table by its name: [objects.ball], say."""
    attach: tuple[Attach, ...] = ()
    """What attaches them to each other."""
    force: tuple[Force, ...] = ()
    """What pushes them."""
    solver: Solver = Solver()
    """How accurately, and by which method, the solvers compute."""
    contact: Contact | None = None
    """Contact between what is not made of particles."""
    output: Output = Output()
    """What a run writes in addition to its frames."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of scene files, for editors.

    Returns
    -------
    dict
        The schema, of the draft 2020-12.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **SceneFile.model_json_schema(by_alias=True),
    }
