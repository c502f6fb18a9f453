"""The surfaces of a solver's bodies as one collision mesh: what may collide, and how near surfaces are."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...errors import InputError, PointglueWarning
from ..model.collider_bodies import ColliderBody
from ..model.solver_model import SolverModel
from .collision_mesh import CollisionMesh, Solids
from .contacts import ContactSet
from .options import Contact
from .start import PrimitivePair, ProximityQuery

__all__ = ["ContactSurfaces"]

# ratio: the first barrier stiffness, relative to the pressure that stops a body within one step. It is enough
# for bodies that fall, and is doubled when it is not.
INITIAL_STIFFNESS_FACTOR = 10.0


class ContactSurfaces:
    """The surfaces of a solver's bodies that meet, as one collision mesh.

    Parameters
    ----------
    contact : Contact
        The options of contact.
    model : SolverModel
        The bodies and what bonds them.
    x : (N, 3)
        Positions of all particles at the start [m].

    Raises
    ------
    IntersectionError
        If surfaces intersect at the start, and could not be untangled.
    InputError
        If no body has faces, `ignore` names no body, or surfaces are nearer than their thickness.
    """

    def __init__(self, contact: Contact, model: SolverModel, x: Array) -> None:
        self.contact, self.model, self._given = contact, model, x
        faces = _faces(model)
        ends, radius, planes = _solids(model)
        every = [rows.ravel() for rows in (faces, ends, planes)]
        self.particles: NDArray[np.int64] = np.unique(np.concatenate(every))
        """The particle of each vertex of the collision mesh (V,)."""
        local = np.searchsorted(self.particles, faces)
        start = self.at(x)
        bodies = _body_of(model)[self.particles]
        solids = Solids(
            np.searchsorted(self.particles, ends), radius, np.searchsorted(self.particles, planes)
        )
        patches = _patches(model, self.particles)
        still = (_immovable(model) & ~_kinematic(model))[self.particles]
        self.mesh = CollisionMesh(start, local, bodies, patches, self._ignored(), solids, still)
        self._friction = _friction(model, contact.friction)[self.particles]
        self.rough = bool((self._friction > 0).any())
        """Whether anything has friction."""
        self._turning = _turning(model, self.particles)
        self._blocked: set[tuple[int, int]] = set()
        self._active: tuple[bool, ...] = ()
        query = ProximityQuery(self.mesh, self.particles, model, start)
        self._bonded_pairs = [
            _vertex_pairs(pairs) for pairs in query.bonded_pairs(contact.thickness, contact.distance)
        ]
        self._filter_bonded(tuple(True for _ in self._bonded_pairs))
        self.start: Array = x
        """Positions of all particles at the start (N, 3) [m]: as given, or untangled."""
        if contact.grow and self.intersecting(x):
            free = ~model.pinned & (model.body_of < 0)
            for bond in model.initial_bonds:
                free[bond.particles], free[bond.parents] = False, False
            self.start = x.copy()
            self.start[self.particles] = query.untangle(free[self.particles])
        query.refuse_intersections(
            "move them apart, or let contact ignore the pair"
            + ("; untangling has not found a way" if contact.grow else ", or untangle them with its grow")
        )
        if self.least_distance(self.start) <= contact.thickness and not contact.grow:
            query.refuse_nearness(contact.thickness)
        self._warn_of_small_faces(local, start)
        # The mass per area of what is free to move is what contact has to stop.
        moving = ~_immovable(model)[faces].all(1)
        mass = model.mass[~model.pinned].sum() + model.inertia.mass[~model.fixed].sum()
        a, b, c = np.moveaxis(start[local[moving]], 1, 0)
        area = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2
        self._density = mass / area if area > 0 else 1.0

    def _ignored(self) -> list[tuple[int, int]]:
        """Return the numbers of bodies that ignore each other."""
        names = list(self.model.rows)
        for name in {name for pair in self.contact.ignore for name in pair}:
            if name not in names:
                known = ", ".join(map(repr, names))
                raise InputError(f"ignore must name bodies, {known}, got {name!r}")
        return [(names.index(one), names.index(other)) for one, other in self.contact.ignore]

    @property
    def adaptive(self) -> bool:
        """Whether the barrier stiffness is found from the masses, and not given."""
        return self.contact.stiffness is None

    def stiffness(self, gravity: Array, h: float) -> float:
        """Return the barrier stiffness to begin with [Pa], for steps of h seconds."""
        if self.contact.stiffness is not None:
            return float(self.contact.stiffness)
        stopped = float(np.linalg.norm(gravity)) + self.contact.distance / h**2
        return INITIAL_STIFFNESS_FACTOR * self._density * stopped

    def __reduce__(self) -> tuple[Any, ...]:
        """Build a copy anew from what it was made of."""
        return type(self), (self.contact, self.model, self._given)

    def thickness(self, x: Array, moment: float) -> float:
        """Return the thickness [m] in a step from x (N, 3) to a time [s].

        While it grows it stays below the least distance of surfaces at x, by half the distance at which
        contact begins to push or by half of that least distance. So there is a force that makes more room.
        """
        wanted, grow = self.contact.thickness, self.contact.grow
        if not grow:
            return wanted
        room = self.least_distance(x)
        return min(wanted * min(moment / grow, 1.0), max(room / 2, room - self.contact.distance / 2))

    def least_distance(self, x: Array) -> float:
        """Return the least distance of surfaces [m], or infinity if it is more than contact reaches."""
        vertices, reach = self.at(x), self.contact.thickness + self.contact.distance
        near = self.mesh.candidates(vertices, vertices, reach)
        lengths = (*self.mesh.distances(vertices, near, reach), self.mesh.heights(vertices))
        least = min(float(each.min(initial=np.inf)) for each in lengths)
        return least if least < reach else np.inf

    def filter_bonded(self, active: tuple[bool, ...], x: Array) -> None:
        """Let bonded surfaces pass through each other where they were too near at the start.

        Surfaces whose bond has been released collide as soon as they no longer intersect.

        Parameters
        ----------
        active : tuple of bool
            Whether each of the model's initial bonds still holds.
        x : (N, 3)
            Positions of all particles [m].
        """
        self._filter_bonded(active)
        if not all(active) and (self.intersecting(x) or self.least_distance(x) <= self.contact.thickness):
            now = ProximityQuery(self.mesh, self.particles, self.model, self.at(x))
            self.mesh.block(self._blocked | _vertex_pairs(now.too_near(self.contact.thickness)))
            self._active = ()

    def _filter_bonded(self, active: tuple[bool, ...]) -> None:
        """Block the pairs of the bonds that hold, if they are others than before."""
        if active != self._active or not active:
            bonds = zip(self._bonded_pairs, active, strict=True)
            self._blocked = {pair for pairs, holds in bonds if holds for pair in pairs}
            self.mesh.block(self._blocked)
            self._active = active

    def _warn_of_small_faces(self, faces: NDArray[np.int64], vertices: Array) -> None:
        """Warn of bodies with edges that are shorter than contact reaches."""
        reach = self.contact.thickness + self.contact.distance
        sides = np.linalg.norm(vertices[faces] - vertices[np.roll(faces, 1, axis=1)], axis=2)
        bodies = _body_of(self.model)[self.particles[faces[:, 0]]]
        alone = {body.name for body in self.model.rigid} | {
            one for one, other in self.contact.ignore if one == other
        }
        for number, name in enumerate(self.model.rows):
            mine = sides[bodies == number]
            # A vertex is about as far from the opposite sides of its triangles as its own sides are long.
            short = np.quantile(mine, 0.25) if len(mine) and name not in alone else np.inf
            if short < reach:
                warnings.warn(
                    f"contact reaches {reach:g} m, farther than many edges of {name!r} are long "
                    f"({short:.3g} m): it may push itself apart; a smaller distance is better",
                    PointglueWarning,
                    stacklevel=4,
                )

    def intersecting(self, x: Array) -> bool:
        """Return whether any surfaces intersect with the particles at x (N, 3)."""
        vertices = self.at(x)
        return len(self.mesh.crossings(vertices)) > 0 or len(self.mesh.entered(vertices)) > 0

    def friction_of(self, met: ContactSet) -> Array:
        """Return the coefficient of friction of each contact (K,): that of a collider, if it has its own."""
        points = met.contacts.points
        if (self._friction == self.contact.friction).all():
            return np.full(len(points), self.contact.friction)
        each = np.where(points >= 0, self._friction[points], np.nan)
        own = np.where(each == self.contact.friction, np.nan, each)
        given = np.isfinite(own).any(1)
        out = np.full(len(points), self.contact.friction)
        out[given] = np.nanmax(own[given], axis=1)
        return out

    def drift(self, met: ContactSet, x: Array, reference: Array, time: float) -> Array:
        """Return how far the surface of balls and capsules that keys turn goes in a step (K, 3) [m].

        That is what their rotation adds to the way of their centre or axis, at each contact.

        Parameters
        ----------
        met : ContactSet
            The contacts.
        x, reference : (N, 3)
            The particles now, and those by which velocities are told [m].
        time : float
            The end of the step [s].

        Returns
        -------
        (K, 3)
        """
        contacts = met.contacts
        out = np.zeros((len(met), 3))
        for body, frame, own in self._turning:
            rows = np.flatnonzero((contacts.radius > 0) & np.isin(contacts.points, own).any(1))
            if not len(rows):
                continue
            turned = body.motion_at(time)[1] @ _axes(body.positions[body.frame])
            change = (turned - _axes(reference[frame])) @ np.linalg.inv(_axes(x[frame]))
            normal = contacts.separation[rows] / np.sqrt(contacts.squared[rows])[:, None]
            out[rows] = -contacts.radius[rows, None] * (normal @ change.T)
        return out

    def at(self, x: Array) -> Array:
        """Return the mesh's vertices (V, 3) for particles at x (N, 3)."""
        return np.ascontiguousarray(x[self.particles])


def _axes(frame: Array) -> Array:
    """Return the axes, as columns, of a frame of four points (4, 3)."""
    return np.asarray((frame[1:] - frame[0]).T)


def _solids(model: SolverModel) -> tuple[NDArray[np.int64], Array, NDArray[np.int64]]:
    """Return the colliders by formula as `Solids` has them, by rows of all particles."""
    ends, radii, planes = [np.empty((0, 2), np.int64)], [np.empty(0)], [np.empty((0, 3), np.int64)]
    for body in model.bodies:
        if isinstance(body, ColliderBody):
            first = model.rows[body.name].start
            if body.is_plane:
                planes.append(np.array([[first, first + 1, first + 2]]))
            elif body.radius > 0:
                ends.append(first + np.array([body.ends]))
                radii.append(np.array([body.radius]))
    return np.concatenate(ends), np.concatenate(radii), np.concatenate(planes)


def _friction(model: SolverModel, usual: float) -> Array:
    """Return the coefficient of friction of each particle (N,), the usual one but for that of colliders."""
    out = np.full(len(model.rest), float(usual))
    for body in model.bodies:
        if isinstance(body, ColliderBody) and body.shape.friction is not None:
            out[model.rows[body.name]] = body.shape.friction
    return out


Turning = tuple[ColliderBody, NDArray[np.int64], NDArray[np.int64]]
"""A body, the particles of its frame, and its vertices in the collision mesh."""


def _turning(model: SolverModel, particles: NDArray[np.int64]) -> list[Turning]:
    """Return the balls and capsules that keys move."""
    found = []
    for body in model.bodies:
        if isinstance(body, ColliderBody) and body.motion is not None and body.radius > 0:
            rows = model.rows[body.name]
            own = np.flatnonzero((particles >= rows.start) & (particles < rows.stop))
            found.append((body, rows.start + body.frame, own))
    return found


def _vertex_pairs(pairs: list[PrimitivePair]) -> set[tuple[int, int]]:
    """Return the pairs of vertices of pairs of primitives."""
    return {(i, j) for one, other in pairs for i in one.tolist() for j in other.tolist()}


def _faces(model: SolverModel) -> NDArray[np.int64]:
    """Return the triangles (F, 3) of all bodies that have them, as rows of all particles."""
    parts: list[NDArray[np.int64]] = [
        model.rows[body.name].start + np.asarray(body.faces, np.int64)
        for body in model.bodies
        if body.faces is not None
    ]
    if not parts:
        raise InputError("contact needs bodies with faces, got none")
    return np.concatenate(parts)


def _body_of(model: SolverModel) -> NDArray[np.int64]:
    """Return the number of each particle's body (N,), in the order of the bodies; -1 for those of joints."""
    out = np.full(len(model.rest), -1)
    for number, rows in enumerate(model.rows.values()):
        out[rows] = number
    return out


def _immovable(model: SolverModel) -> NDArray[np.bool_]:
    """Return which particles (N,) are pinned or kinematic, and so are not moved by forces."""
    fixed = np.append(model.fixed, False)  # the last one is for particles of no rigid body, -1
    return np.asarray(model.pinned | fixed[model.body_of])


def _kinematic(model: SolverModel) -> NDArray[np.bool_]:
    """Return which particles (N,) keys move."""
    bodies = np.append(model.kinematic_bodies, False)  # the last one is for particles of no rigid body, -1
    return np.asarray(model.kinematic | bodies[model.body_of])


def _patches(model: SolverModel, particles: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the patch of each vertex (V,): vertices of one patch do not collide; -1 is no patch.

    Each rigid body is a patch, and so is all that forces do not move.
    """
    out = np.full(len(model.rest), -1)
    for number, body in enumerate(model.bodies):
        if body in model.rigid:
            out[model.rows[body.name]] = number + 1
    out[_immovable(model)] = 0
    return out[particles]
