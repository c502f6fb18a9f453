"""Contact during one step: barrier and friction with their derivatives, and collision-free step fractions.

Surfaces push each other away before they touch, and no step takes one through another: the method is
Incremental Potential Contact (IPC), with continuous collision detection (CCD).
"""

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
from ...compute import run
from .contacts import ContactSet, FrictionSet, block_pattern, summed_blocks
from .impacts import ImpactSet
from .kernels import ccd
from .kernels.barrier import EDGES, BarrierShape
from .kernels.ccd import ImpactLimits
from .surfaces import ContactSurfaces

__all__ = ["ContactStage"]

# ratio: the part of the way to an impact that a step may take; with the rest the barrier stays finite.
CCD_RESCALING = 0.9
# ratio: the same for a way that has been cut short before and is checked again, because particles do not move
# along straight lines: such a way may end a little nearer.
CCD_RECHECK_RESCALING = 0.95
CCD_MAX_ITERATIONS = 1000  # of one search for an impact, which then ends a little before it
# ratios of the contact distance: the gaps below which the barrier stiffness is doubled, above which halved.
MIN_GAP_RATIO, MAX_GAP_RATIO = 0.1, 0.5
MAX_STIFFNESS_GROWTH = 2.0**20  # ratio: the largest barrier stiffness, relative to the first one
# ratio of the reach of contact: how far beyond a way the broad phase looks for pairs. With more of it the
# search is repeated less often, but most of the pairs that it finds never meet.
BROAD_PHASE_INFLATION = 0.5
# ratio: the most candidate pairs of a way, relative to the number of vertices and edges. A way with more,
# which is far too long, is halved until it has fewer.
MAX_CANDIDATE_RATIO = 30.0
MAX_HALVINGS = 20  # of such a way
PAIRS_PER_THREAD = 1024


class ContactStage:
    """Contact during one step, in which velocities are slope * (x - reference).

    Parameters
    ----------
    surfaces : ContactSurfaces
        The surfaces that meet.
    x : (N, 3)
        Positions of all particles where the step begins [m].
    reference : (N, 3)
        The positions by which velocities are told [m].
    slope : float
        The derivative of velocities by positions [1/s].
    stiffness : float
        The barrier stiffness [Pa].
    time : float
        The end of the step [s].
    """

    def __init__(
        self,
        surfaces: ContactSurfaces,
        x: Array,
        reference: Array,
        slope: float,
        stiffness: float,
        time: float,
    ) -> None:
        self.surfaces, self._mesh, contact = surfaces, surfaces.mesh, surfaces.contact
        self.thickness = surfaces.thickness(x, time)
        self.reach = contact.distance + self.thickness
        self.barrier = BarrierShape(float(contact.distance), float(self.thickness), float(stiffness))
        self._slope, self._reference = slope, surfaces.at(reference)
        self._reference_frames, self._time = reference, time
        self._margin = BROAD_PHASE_INFLATION * self.reach
        vertices = surfaces.at(x)
        self._way = (vertices, vertices)
        self.candidates = self._mesh.candidates(vertices, vertices, self.reach, self._margin)
        """The pairs that may meet on the way that has been searched, and a little beyond."""
        self._last: ContactSet | None = None
        self._friction: FrictionSet | None = None
        self.update_friction(x)

    def update_friction(self, x: Array) -> bool:
        """Set the normal forces of friction to those at x (N, 3); return whether there are or were any."""
        contact = self.surfaces.contact
        if not self.surfaces.rough:
            return False
        before = self._friction
        met = self.met(x)
        coefficients = self.surfaces.friction_of(met)
        drift = self.surfaces.drift(met, x, self._reference_frames, self._time)
        self._friction = FrictionSet(met, self.barrier, coefficients, contact.slip, self._slope, drift)
        return len(self._friction) > 0 or (before is not None and len(before) > 0)

    def _cover(self, start: Array, end: Array) -> float:
        """Find all candidate pairs on the way between two arrays of vertices (V, 3), and a little beyond.

        Return the share of the way for which that has been done: 1 unless it is so long that everything is a
        candidate.
        """
        arrays = self._mesh.arrays
        most = int(MAX_CANDIDATE_RATIO * (len(start) + len(arrays.edges)))
        share = 1.0
        for _ in range(MAX_HALVINGS):
            there = end if share == 1.0 else start + share * (end - start)
            found = self._mesh.few_candidates(start, there, self.reach, self._margin, most=most)
            if found is not None:
                break
            share /= 2
        else:
            there = start + share * (end - start)
            found = self._mesh.candidates(start, there, self.reach, self._margin)
        self.candidates, self._way = found, (start, there)
        return share

    def _covered(self, vertices: Array) -> bool:
        """Return whether the candidate pairs are for vertices there as well: near one point of the way."""
        start, end = self._way
        way, off = end - start, vertices - start
        # Not by BLAS: on busy cores its threads wait for each other for 10 ms.
        length = float((way * way).sum())
        t = min(max(float((way * off).sum()) / length, 0.0), 1.0) if length > 0 else 0.0
        return bool(np.abs(off - t * way).max(initial=0.0) <= self._margin)

    def collision_free_fraction(self, x: Array, to: Array, *, again: bool = False) -> float:
        """Return the collision-free step fraction of the straight way from x to `to` (both (N, 3)).

        `again` tells that the way has been cut short by an earlier call.
        """
        (start, end), share = self._searched(x, to)
        limits = self._limits(again)
        faces, edges = self.candidates
        planes, above = self._mesh.planes, self._mesh.above
        shares = by_face, by_edge, by_plane = [np.empty(len(pairs)) for pairs in (faces, edges, above)]
        way, arrays, grain = (start, end), self._mesh.arrays, PAIRS_PER_THREAD
        run(ccd.face_impacts, len(faces), grain, way, arrays, faces, limits, by_face)
        run(ccd.edge_impacts, len(edges), grain, way, arrays, edges, limits, by_edge)
        run(ccd.plane_impacts, len(above), grain, way, planes, above, limits, by_plane)
        return share * min(float(each.min(initial=1.0)) for each in shares)

    def _searched(self, x: Array, to: Array) -> tuple[tuple[Array, Array], float]:
        """Return the part of a way that there are candidates for, its ends (V, 3) and its share."""
        start, end = self.surfaces.at(x), self.surfaces.at(to)
        if self._covered(end) and self._covered(start):
            return (start, end), 1.0
        share = self._cover(start, end)
        return self._way, share

    def _limits(self, again: bool) -> ImpactLimits:
        """Return what a search for impacts keeps to."""
        rescaling = CCD_RECHECK_RESCALING if again else CCD_RESCALING
        return ImpactLimits(float(self.thickness), rescaling, CCD_MAX_ITERATIONS)

    def impacts(self, x: Array, to: Array) -> ImpactSet:
        """Return the impacts on the straight way from x to `to` (both (N, 3)), as far as it is searched."""
        way, _ = self._searched(x, to)
        return ImpactSet(self._mesh, way, self.candidates, self.barrier, self._limits(False))

    def met(self, x: Array) -> ContactSet:
        """Return the pairs in contact with the particles at x (N, 3)."""
        vertices = self.surfaces.at(x)
        if self._last is None or not np.array_equal(self._last.x, vertices):
            self._last = ContactSet(self._mesh, vertices, self.candidates, self.reach)
        return self._last

    def value(self, x: Array) -> float:
        """Return the energy of barrier and friction [J]; infinite where surfaces are nearer than allowed."""
        met = self.met(x)
        total = met.value(self.barrier)
        if self._friction is not None:
            total += self._friction.value(met.x, self._reference)
        return total

    def gradient(self, x: Array) -> Array:
        """Return the derivative of the value by the vertices (V, 3) [N]."""
        met = self.met(x)
        total = np.zeros_like(met.x)
        met.add_gradient(self.barrier, total)
        if self._friction is not None:
            self._friction.add_gradient(met.x, self._reference, total)
        return total

    def blocks(self, x: Array, *, project: bool) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """Return the Hessian: particles of rows (K,) and columns (K,), and blocks (K, 3, 3) [N/m].

        With `project` each pair's part is made positive semidefinite.
        """
        met, slides, particles = self.met(x), self._friction, self.surfaces.particles
        points = self._points(met)
        each = np.empty((len(points), 12, 12))
        met.hessians(self.barrier, each[: len(met)], project=project)
        if slides is not None:
            slides.hessians(met.x, self._reference, each[len(met) :])
        rows, columns, blocks = summed_blocks(points, each, len(particles))
        return particles[rows], particles[columns], blocks

    def _points(self, met: ContactSet) -> NDArray[np.int64]:
        """Return the points (K, 4) of contacts, and of those with friction."""
        if self._friction is None:
            return met.contacts.points
        return np.concatenate([met.contacts.points, self._friction.slides.points])

    def pairs_nearby(self, x: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return rows (K,) and columns (K,) of the blocks of all pairs within twice the contact distance."""
        particles = self.surfaces.particles
        reach = self.reach + self.surfaces.contact.distance
        near = ContactSet(self._mesh, self.surfaces.at(x), self.candidates, reach)
        rows, columns = block_pattern(self._points(near), len(particles))
        return particles[rows], particles[columns]

    def count(self, x: Array) -> int:
        """Return the number of pairs in contact."""
        return len(self.met(x))

    def gap(self, x: Array) -> float:
        """Return the least distance of surfaces in contact beyond their thickness [m], or infinity."""
        return float(self.met(x).distances.min(initial=np.inf)) - self.thickness

    def nearest(self, x: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return the particles of the nearest two points, edges or faces in contact, or None."""
        met = self.met(x)
        if not len(met):
            return None
        nearest = int(met.distances.argmin())
        points = met.contacts.points[nearest]
        first = 2 if met.contacts.kind[nearest] == EDGES else 1
        particles = self.surfaces.particles[points[points >= 0]]
        return particles[:first], particles[first:]

    def next_stiffness(self, x: Array, now: float, first: float) -> float:
        """Return the barrier stiffness of the next step [Pa].

        It is doubled if the gap fell below MIN_GAP_RATIO, and halved if it stayed above MAX_GAP_RATIO.

        Parameters
        ----------
        x : (N, 3)
            Positions of all particles at the end of this step [m].
        now : float
            The barrier stiffness before this step [Pa].
        first : float
            The barrier stiffness to begin with, below which it never falls [Pa].

        Returns
        -------
        float
        """
        contact, gap = self.surfaces.contact, self.gap(x)
        if not self.surfaces.adaptive:
            return now
        if gap < MIN_GAP_RATIO * contact.distance:
            return min(2 * now, MAX_STIFFNESS_GROWTH * first)
        return max(now / 2, first) if gap > MAX_GAP_RATIO * contact.distance else now
