"""Contact: surfaces push each other away before they touch, and no step carries one through another.

Barrier, friction and the search for times of impact are those of the IPC Toolkit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import Array
from ..errors import InputError, MissingDependencyError
from .contact_start import Start
from .scene import Scene

__all__ = ["Contact", "ContactStage", "ContactSurfaces"]

# A step ends where a tenth of the way to the impact is left; what is checked again, because things do not
# move in straight lines, may go a little nearer.
RESERVE, RECHECKED = 0.9, 0.95
# Pressure at half the distance, of what stops a body within a step: enough, and doubled when it is not.
FIRMNESS = 10.0
NEAR, FIRMEST = 0.1, 2.0**20  # share of the distance that is too near; most that the stiffness grows


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

    def __init__(self, contact: Contact, scene: Scene, x: Array) -> None:
        self.ipc = ipc = _toolkit()
        self.contact, self.scene = contact, scene
        faces = _faces(scene)
        self.particles: NDArray[np.int64] = np.unique(faces)
        """The particle of each vertex of the collision mesh (V,)."""
        local = np.searchsorted(self.particles, faces).astype(np.int32, order="F")
        edges = ipc.edges(local)
        start = np.asfortranarray(x[self.particles])
        self.mesh = ipc.CollisionMesh(start, edges, local)
        self._check_names()
        self.mesh.can_collide = self._filter(_patches(contact, scene, self.particles))
        begin = Start(ipc, self.mesh, self.particles, scene, start)
        blocked = begin.glued_pairs(contact.thickness + contact.distance)
        if blocked:
            self.mesh.can_collide = self.mesh.can_collide & ipc.make_sparse_filter(blocked, True)
        self.start: Array = x
        """Particles (N, 3) where they start: as given, or untangled."""
        if contact.grow and self.intersecting(x):
            free = ~scene.pinned & (scene.body_of < 0)
            for rows, parents in scene.bonds:
                free[rows], free[parents] = False, False
            self.start = x.copy()
            self.start[self.particles] = begin.untangle(free[self.particles])
        begin.refuse_intersections()
        self.room = begin.least_distance(contact.thickness + contact.distance)
        """The least distance at the start (m), or infinity if that is more than contact reaches."""
        if self.room <= contact.thickness and not contact.grow:
            begin.refuse_nearness(contact.thickness)
        # Mass by area, of what is free to move: what contact has to stop.
        moving = ~_still(scene)[faces].all(1)
        mass = scene.mass[~scene.pinned].sum() + scene.inertia.mass[~scene.fixed].sum()
        a, b, c = np.moveaxis(start[local[moving]], 1, 0)
        area = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2
        self._density = mass / area if area > 0 else 1.0

    def _check_names(self) -> None:
        for name in {name for pair in self.contact.ignore for name in pair}:
            if name not in self.scene.rows:
                names = ", ".join(map(repr, self.scene.rows))
                raise InputError(f"ignore must name bodies, {names}, got {name!r}")

    def _filter(self, patches: NDArray[np.int32]) -> Any:
        """Who may meet whom: different patches, but for pairs of bodies that ignore each other."""
        make = self.ipc.make_vertex_patches_filter
        allowed = make(patches)
        body_of = _body_of(self.scene)[self.particles]
        names = list(self.scene.rows)
        alone = np.arange(len(patches)) + len(names)
        for pair in self.contact.ignore:
            a, b = (names.index(name) for name in pair)
            if a != b:
                one, other = body_of == a, body_of == b
                apart = make(np.where(one | other, 0, alone).astype(np.int32))
                both_in_one = ~make(np.where(one, 0, alone).astype(np.int32))
                both_in_other = ~make(np.where(other, 0, alone).astype(np.int32))
                allowed = allowed & (apart | both_in_one | both_in_other)
        return allowed

    def stiffness(self, gravity: Array, h: float) -> float:
        """The pressure at about half the distance to begin with (Pa), for steps of h seconds."""
        if self.contact.stiffness is not None:
            return float(self.contact.stiffness)
        stopped = float(np.linalg.norm(gravity)) + self.contact.distance / h**2
        return FIRMNESS * self._density * stopped

    def thickness(self, moment: float) -> float:
        """At a time (s): it may be growing."""
        contact = self.contact
        if moment >= contact.grow or self.room > contact.thickness:
            return contact.thickness
        begin = 0.5 * self.room
        return begin + (contact.thickness - begin) * moment / contact.grow

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
        self.thickness = surfaces.thickness(moment)
        self.reach = contact.distance + self.thickness
        self.stiffness = stiffness
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
        margin = self.reach
        self._low, self._high = np.minimum(start, end) - margin, np.maximum(start, end) + margin
        self._candidates.build(self._mesh, start, end, margin + self.reach / 2)

    def _covered(self, vertices: Array) -> bool:
        return bool(np.all(vertices >= self._low) and np.all(vertices <= self._high))

    def free_way(self, x: Array, to: Array, *, again: bool = False) -> float:
        """The share of the straight way from x to `to` (N, 3) that is free; `again`: it was cut short."""
        start, end = self.surfaces.at(x), self.surfaces.at(to)
        if not self._covered(end) or not self._covered(start):
            self._cover(start, end)
        ccd = self._ipc.AdditiveCCD(conservative_rescaling=RECHECKED if again else RESERVE)
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

    def next_stiffness(self, x: Array, first: float) -> float:
        """That of the next step: twice as much where surfaces have come too near."""
        contact = self.surfaces.contact
        if contact.stiffness is None and self.gap(x) < NEAR * contact.distance:
            return min(2 * self.stiffness, FIRMEST * first)
        return self.stiffness


def _toolkit() -> Any:
    try:
        import ipctk
    except ImportError as error:
        raise MissingDependencyError("contact needs ipctk: pip install 'pointglue[contact]'") from error
    # Its sums over threads have no fixed order.
    ipctk.set_num_threads(1)
    return ipctk


def _faces(scene: Scene) -> NDArray[np.int64]:
    """Triangles of all bodies that have them (F, 3), among all particles."""
    parts = []
    for body in scene.bodies:
        if body.faces is not None:
            rows = scene.rows[body.name]
            faces = np.asarray(body.faces)
            if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu" or not len(faces):
                raise InputError(
                    f"faces of {body.name!r} must be triangles (m, 3), got {faces.dtype} {faces.shape}"
                )
            if faces.min() < 0 or faces.max() >= rows.stop - rows.start:
                wrong = faces.min() if faces.min() < 0 else faces.max()
                raise InputError(
                    f"faces of {body.name!r} must name some of its {rows.stop - rows.start} points, "
                    f"got {wrong}"
                )
            parts.append(rows.start + faces.astype(np.int64))
    if not parts:
        raise InputError("contact needs bodies with faces, got none")
    return np.concatenate(parts)


def _body_of(scene: Scene) -> NDArray[np.int64]:
    """The number of each particle's body, in the order of the bodies (N,); -1 for particles of joints."""
    out = np.full(len(scene.rest), -1)
    for number, rows in enumerate(scene.rows.values()):
        out[rows] = number
    return out


def _still(scene: Scene) -> NDArray[np.bool_]:
    """Which particles (N,) stay, or go where keys say."""
    fixed = np.append(scene.fixed, False)  # the last for those of no rigid body, -1
    return np.asarray(scene.pinned | fixed[scene.body_of])


def _patches(contact: Contact, scene: Scene, particles: NDArray[np.int64]) -> NDArray[np.int32]:
    """A number a vertex: those with the same do not meet. All that cannot move is one patch."""
    out = np.arange(len(scene.rest)) + len(scene.bodies) + 1
    for number, body in enumerate(scene.bodies):
        if body in scene.rigid or (body.name, body.name) in [tuple(pair) for pair in contact.ignore]:
            out[scene.rows[body.name]] = number + 1
    out[_still(scene)] = 0
    return out[particles].astype(np.int32)


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float | np.number)
        and not isinstance(value, bool)
        and bool(np.isfinite(value))
    )
