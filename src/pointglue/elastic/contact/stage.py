"""Contact: surfaces push each other away before they touch, and no step carries one through another.

Barrier, friction and the search for times of impact are those of the IPC Toolkit.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...errors import InputError, MissingDependencyError, PointglueWarning
from ..model.solver_model import SolverModel
from .start import Pair, Start, apart

__all__ = ["Contact", "ContactStage", "ContactSurfaces"]

# A step ends where a tenth of the way to the impact is left; what is checked again, because things do not
# move in straight lines, may go a little nearer.
RESERVE, RECHECKED = 0.9, 0.95
# Pressure at half the distance, of what stops a body within a step: enough, and doubled when it is not.
FIRMNESS = 10.0
NEAR, FAR = 0.1, 0.5  # shares of the distance that are too near, and farther than need be
FIRMEST = 2.0**20  # most that the stiffness grows
# How far beyond a way pairs are looked for, of what contact reaches: more are found anew less often, but most
# of them never meet.
BEYOND = 0.25
CCD_ROUNDS = 1000  # in a search for an impact, which then ends a little before it


@dataclass(frozen=True)
class Contact:
    """How surfaces meet: all bodies that have faces, each with itself too unless it is rigid.

    Points, edges and triangles that come nearer than `thickness` + `distance` (m) are pushed apart, and never
    nearer than `thickness`. `friction` is Coulomb's coefficient; what slides slower than `slip` (m/s) counts
    as sticking. `stiffness` (Pa) is about the pressure at half the distance; by default it is found from the
    masses, and grows when surfaces come too near. Pairs of names in `ignore` pass through each other; a name
    paired with itself is a body that does not meet itself.

    Bodies that are glued together do not meet where, at the start, glued parts are nearer than thickness +
    distance. Any other start that intersects or is too near is refused. With `grow` (s) it is not: soft
    bodies that intersect are untangled, and thickness begins with what there is room for and grows to its
    value in that time.
    """

    distance: float
    thickness: float = 0.0
    friction: float = 0.0
    slip: float = 1e-3
    stiffness: float | None = None
    ignore: Sequence[tuple[str, str]] = ()
    grow: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, least in (("distance", 0.0), ("slip", 0.0), ("stiffness", 0.0)):
            value = getattr(self, name)
            if not (name == "stiffness" and value is None) and not (_is_number(value) and value > least):
                raise InputError(f"{name} must be a positive number, got {value!r}")
        for name in ("thickness", "friction", "grow"):
            value = getattr(self, name)
            if not (_is_number(value) and value >= 0):
                raise InputError(f"{name} must be a number of at least 0, got {value!r}")
        for pair in self.ignore:
            if not (
                isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(n, str) for n in pair)
            ):
                raise InputError(f"ignore must hold pairs of names of bodies, got {pair!r}")


class ContactSurfaces:
    """The surfaces of a scene that meet, as one collision mesh."""

    def __init__(self, contact: Contact, model: SolverModel, x: Array) -> None:
        self.ipc = ipc = _toolkit()
        self.contact, self.model, self._given = contact, model, x
        faces = _faces(model)
        self.particles: NDArray[np.int64] = np.unique(faces)
        """The particle of each vertex of the collision mesh (V,)."""
        local = np.searchsorted(self.particles, faces).astype(np.int32, order="F")
        edges = ipc.edges(local)
        start = np.asfortranarray(x[self.particles])
        self.mesh = ipc.CollisionMesh(start, edges, local)
        self._check_names()
        self._allowed = self._filter(_patches(model, self.particles))
        self.mesh.can_collide = self._allowed
        self._holding: tuple[bool, ...] = ()
        begin = Start(ipc, self.mesh, self.particles, model, start)
        self._tied = begin.tied_pairs(contact.thickness, contact.distance)
        self._hold(tuple(True for _ in self._tied))
        self.start: Array = x
        """Particles (N, 3) where they start: as given, or untangled."""
        if contact.grow and self.intersecting(x):
            free = ~model.pinned & (model.body_of < 0)
            for tie in model.ties:
                free[tie.rows], free[tie.parents] = False, False
            self.start = x.copy()
            self.start[self.particles] = begin.untangle(free[self.particles])
        begin.refuse_intersections(
            "move them apart, or let contact ignore the pair"
            + ("; untangling has not found a way" if contact.grow else ", or untangle them with its grow")
        )
        if self.least_distance(self.start) <= contact.thickness and not contact.grow:
            begin.refuse_nearness(contact.thickness)
        self._warn_of_small_faces(local, start)
        # Mass by area, of what is free to move: what contact has to stop.
        moving = ~_still(model)[faces].all(1)
        mass = model.mass[~model.pinned].sum() + model.inertia.mass[~model.fixed].sum()
        a, b, c = np.moveaxis(start[local[moving]], 1, 0)
        area = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2
        self._density = mass / area if area > 0 else 1.0

    def _check_names(self) -> None:
        for name in {name for pair in self.contact.ignore for name in pair}:
            if name not in self.model.rows:
                names = ", ".join(map(repr, self.model.rows))
                raise InputError(f"ignore must name bodies, {names}, got {name!r}")

    def _filter(self, patches: NDArray[np.int32]) -> Any:
        """Who may meet whom: different patches, but for pairs of bodies that ignore each other."""
        allowed = self.ipc.make_vertex_patches_filter(patches)
        body_of = _body_of(self.model)[self.particles]
        names = list(self.model.rows)
        for pair in self.contact.ignore:
            one, other = (body_of == names.index(name) for name in pair)
            allowed = allowed & apart(self.ipc, one, other)
        return allowed

    @property
    def adaptive(self) -> bool:
        """Whether the stiffness is found here, and not given."""
        return self.contact.stiffness is None

    def stiffness(self, gravity: Array, h: float) -> float:
        """The pressure at about half the distance to begin with (Pa), for steps of h seconds."""
        if self.contact.stiffness is not None:
            return float(self.contact.stiffness)
        stopped = float(np.linalg.norm(gravity)) + self.contact.distance / h**2
        return FIRMNESS * self._density * stopped

    def __reduce__(self) -> tuple[Any, ...]:
        """The toolkit's objects cannot be copied: they are made anew."""
        return type(self), (self.contact, self.model, self._given)

    def thickness(self, x: Array, moment: float) -> float:
        """Return the thickness in a step from x (N, 3) to a time (s).

        While it grows it is less than surfaces are apart at x, by half the distance at which contact begins
        to push, or by half of what there is: so there is a force that makes room for more.
        """
        wanted, grow = self.contact.thickness, self.contact.grow
        if not grow:
            return wanted
        room = self.least_distance(x)
        return min(wanted * min(moment / grow, 1.0), max(room / 2, room - self.contact.distance / 2))

    def least_distance(self, x: Array) -> float:
        """Between surfaces (m), or infinity if that is more than contact reaches."""
        met = self.ipc.NormalCollisions()
        vertices = self.at(x)
        met.build(self.mesh, vertices, self.contact.thickness + self.contact.distance)
        if met.empty():
            return np.inf
        return float(np.sqrt(met.compute_minimum_distance(self.mesh, vertices)))

    def hold(self, holding: tuple[bool, ...], x: Array) -> None:
        """Let what is tied not meet where it was too near; what no longer is tied meets as soon as it can."""
        self._hold(holding)
        if not all(holding) and (self.intersecting(x) or self.least_distance(x) <= self.contact.thickness):
            now = Start(self.ipc, self.mesh, self.particles, self.model, self.at(x))
            self.mesh.can_collide = self.mesh.can_collide & self._without(
                now.too_near(self.contact.thickness)
            )
            self._holding = ()

    def _hold(self, holding: tuple[bool, ...]) -> None:
        if holding != self._holding or not holding:
            pairs = [pair for each, held in zip(self._tied, holding, strict=True) if held for pair in each]
            self.mesh.can_collide = self._allowed & self._without(pairs) if pairs else self._allowed
            self._holding = holding

    def _without(self, pairs: list[Pair]) -> Any:
        """A filter that lets no points of such primitives meet."""
        blocked = {
            (min(i, j), max(i, j)) for one, other in pairs for i in one.tolist() for j in other.tolist()
        }
        return self.ipc.make_sparse_filter(dict.fromkeys(sorted(blocked), False), True)

    def _warn_of_small_faces(self, faces: NDArray[np.int32], vertices: Array) -> None:
        reach = self.contact.thickness + self.contact.distance
        sides = np.linalg.norm(vertices[faces] - vertices[np.roll(faces, 1, axis=1)], axis=2)
        bodies = _body_of(self.model)[self.particles[faces[:, 0]]]
        alone = {body.name for body in self.model.rigid} | {
            one for one, other in self.contact.ignore if one == other
        }
        for number, name in enumerate(self.model.rows):
            mine = sides[bodies == number]
            # A vertex is about as far from the sides around it that it has no part in as its own are long.
            short = np.quantile(mine, 0.25) if len(mine) and name not in alone else np.inf
            if short < reach:
                warnings.warn(
                    f"contact reaches {reach:g} m, farther than many edges of {name!r} are long "
                    f"({short:.3g} m): it may push itself apart; a smaller distance is better",
                    PointglueWarning,
                    stacklevel=4,
                )

    def intersecting(self, x: Array) -> bool:
        """Whether any surfaces intersect with the particles at x (N, 3)."""
        return bool(self.ipc.has_intersections(self.mesh, self.at(x)))

    def at(self, x: Array) -> Array:
        """The vertices (V, 3) of particles at x (N, 3), as the toolkit reads them."""
        return np.asfortranarray(x[self.particles])


class ContactStage:
    """Contact during one step: it begins at x (N, 3), and velocities are slope * (x - reference)."""

    def __init__(
        self,
        surfaces: ContactSurfaces,
        x: Array,
        reference: Array,
        slope: float,
        stiffness: float,
        moment: float,
    ) -> None:
        self.surfaces, self._ipc, self._mesh = surfaces, surfaces.ipc, surfaces.mesh
        ipc, contact = self._ipc, surfaces.contact
        self.thickness = surfaces.thickness(x, moment)
        self.reach = contact.distance + self.thickness
        self.barrier = ipc.BarrierPotential(contact.distance, stiffness, True)
        self._slope, self._reference = slope, surfaces.at(reference)
        self._low = self._high = np.empty((0, 3))
        self._candidates = ipc.Candidates()
        vertices = surfaces.at(x)
        self._cover(vertices, vertices)
        self._last: tuple[Array, Any] | None = None
        self._tangential: Any = None
        self._sliding = ipc.FrictionPotential(contact.slip)
        self.press(x)

    def press(self, x: Array) -> bool:
        """Let friction go by the pressures at x (N, 3); whether there is any, or has been."""
        contact = self.surfaces.contact
        if not contact.friction:
            return False
        before = self._tangential
        vertices = self.surfaces.at(x)
        self._tangential = self._ipc.TangentialCollisions()
        met = self.collisions(vertices)
        self._tangential.build(self._mesh, vertices, met, self.barrier, contact.friction)
        return not (self._tangential.empty() and (before is None or before.empty()))

    def _cover(self, start: Array, end: Array) -> None:
        """Find all pairs that may meet on the way between two places, and a little beyond."""
        margin = BEYOND * self.reach
        self._low, self._high = np.minimum(start, end) - margin, np.maximum(start, end) + margin
        self._candidates.build(self._mesh, start, end, margin + self.reach / 2)

    def _covered(self, vertices: Array) -> bool:
        return bool(np.all(vertices >= self._low) and np.all(vertices <= self._high))

    def free_way(self, x: Array, to: Array, *, again: bool = False) -> float:
        """The share of the straight way from x to `to` (N, 3) that is free; `again`: it was cut short."""
        start, end = self.surfaces.at(x), self.surfaces.at(to)
        if not self._covered(end) or not self._covered(start):
            self._cover(start, end)
        ccd = self._ipc.AdditiveCCD(CCD_ROUNDS, RECHECKED if again else RESERVE)
        return float(
            self._candidates.compute_collision_free_stepsize(self._mesh, start, end, self.thickness, ccd)
        )

    def collisions(self, vertices: Array) -> Any:
        """What is in contact with the vertices there."""
        if self._last is None or not np.array_equal(self._last[0], vertices):
            met = self._ipc.NormalCollisions()
            met.use_area_weighting = True
            met.build(self._candidates, self._mesh, vertices, self.surfaces.contact.distance, self.thickness)
            self._last = (vertices, met)
        return self._last[1]

    def value(self, x: Array) -> float:
        """Energy (J); infinite where surfaces are nearer than they may be."""
        vertices = self.surfaces.at(x)
        total = float(self.barrier(self.collisions(vertices), self._mesh, vertices))
        if self._tangential is not None:
            total += float(self._sliding(self._tangential, self._mesh, self._rates(vertices))) / self._slope
        return total

    def gradient(self, x: Array) -> Array:
        """Derivative by the vertices (V, 3)."""
        vertices = self.surfaces.at(x)
        total = self.barrier.gradient(self.collisions(vertices), self._mesh, vertices)
        if self._tangential is not None:
            total = total + self._sliding.gradient(self._tangential, self._mesh, self._rates(vertices))
        return np.asarray(total).reshape(-1, 3)

    def blocks(self, x: Array, *, project: bool) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """The Hessian in blocks: rows and columns (particles), (K, 3, 3).

        With `project` each pair's part is made positive semidefinite.
        """
        vertices = self.surfaces.at(x)
        methods = self._ipc.PSDProjectionMethod
        method = methods.CLAMP if project else methods.NONE
        H = self.barrier.hessian(self.collisions(vertices), self._mesh, vertices, method)
        if self._tangential is not None:
            rates = self._rates(vertices)
            H = H + self._slope * self._sliding.hessian(self._tangential, self._mesh, rates, method)
        return self._in_blocks(H)

    def pairs_nearby(self, x: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows and columns of the blocks of all that is in contact or soon may be."""
        vertices = self.surfaces.at(x)
        distance = self.surfaces.contact.distance
        near = self._ipc.NormalCollisions()
        near.build(self._candidates, self._mesh, vertices, 2 * distance, self.thickness)
        H = self._ipc.BarrierPotential(2 * distance, 1.0, True).hessian(near, self._mesh, vertices)
        if self._tangential is not None:
            H = H + self._sliding.hessian(self._tangential, self._mesh, self._rates(vertices))
        return self._in_blocks(H)[:2]

    def _in_blocks(self, H: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        blocks = H.tobsr((3, 3))
        row = np.repeat(np.arange(len(blocks.indptr) - 1), np.diff(blocks.indptr))
        particles = self.surfaces.particles
        # It is symmetric: the transpose of a column-major matrix is itself.
        return particles[row], particles[blocks.indices], np.asarray(blocks.data)

    def _rates(self, vertices: Array) -> Array:
        return np.asfortranarray(self._slope * (vertices - self._reference))

    def count(self, x: Array) -> int:
        """Pairs in contact."""
        return len(self.collisions(self.surfaces.at(x)))

    def gap(self, x: Array) -> float:
        """The least distance of surfaces in contact beyond their thickness (m), or infinity."""
        vertices = self.surfaces.at(x)
        met = self.collisions(vertices)
        if met.empty():
            return np.inf
        return float(np.sqrt(met.compute_minimum_distance(self._mesh, vertices))) - self.thickness

    def nearest(self, x: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """The particles of the two points, edges or faces in contact that are nearest to each other."""
        vertices = self.surfaces.at(x)
        met, mesh = self.collisions(vertices), self._mesh
        found: tuple[float, list[int], int] | None = None
        for pairs, first in (
            (met.vv_collisions, 1), (met.ev_collisions, 1), (met.fv_collisions, 1), (met.ee_collisions, 2)
        ):  # fmt: skip
            for pair in pairs:
                apart = pair.compute_distance(pair.dof(vertices, mesh.edges, mesh.faces))
                if found is None or apart < found[0]:
                    rows = [row for row in pair.vertex_ids(mesh.edges, mesh.faces) if row >= 0]
                    found = apart, rows, first
        if found is None:
            return None
        _, rows, first = found
        particles = self.surfaces.particles
        return particles[rows[:first]], particles[rows[first:]]

    def next_stiffness(self, x: Array, now: float, first: float) -> float:
        """That of the next step (Pa): twice as much where surfaces came too near, less where none did.

        `now` is that before this step, `first` what it begins with, and never less.
        """
        contact, gap = self.surfaces.contact, self.gap(x)
        if not self.surfaces.adaptive:
            return now
        if gap < NEAR * contact.distance:
            return min(2 * now, FIRMEST * first)
        return max(now / 2, first) if gap > FAR * contact.distance else now


def _toolkit() -> Any:
    try:
        import ipctk
    except ImportError as error:
        raise MissingDependencyError("contact needs ipctk: pip install 'pointglue[contact]'") from error
    # Its sums over threads have no fixed order; and what it warns of is dealt with.
    ipctk.set_num_threads(1)
    ipctk.set_logger_level(ipctk.LoggerLevel.off)
    return ipctk


def _faces(model: SolverModel) -> NDArray[np.int64]:
    """Triangles of all bodies that have them (F, 3), among all particles."""
    parts = [
        model.rows[body.name].start + np.asarray(body.faces, np.int64)
        for body in model.bodies
        if body.faces is not None
    ]
    if not parts:
        raise InputError("contact needs bodies with faces, got none")
    return np.concatenate(parts)


def _body_of(model: SolverModel) -> NDArray[np.int64]:
    """The number of each particle's body, in the order of the bodies (N,); -1 for particles of joints."""
    out = np.full(len(model.rest), -1)
    for number, rows in enumerate(model.rows.values()):
        out[rows] = number
    return out


def _still(model: SolverModel) -> NDArray[np.bool_]:
    """Which particles (N,) stay, or go where keys say."""
    fixed = np.append(model.fixed, False)  # the last for those of no rigid body, -1
    return np.asarray(model.pinned | fixed[model.body_of])


def _patches(model: SolverModel, particles: NDArray[np.int64]) -> NDArray[np.int32]:
    """A number a vertex: those with the same do not meet. All that cannot move is one patch."""
    out = np.arange(len(model.rest)) + len(model.bodies) + 1
    for number, body in enumerate(model.bodies):
        if body in model.rigid:
            out[model.rows[body.name]] = number + 1
    out[_still(model)] = 0
    return out[particles].astype(np.int32)


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float | np.number)
        and not isinstance(value, bool)
        and bool(np.isfinite(value))
    )
