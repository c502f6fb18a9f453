"""Contact during one step: barrier and friction with their derivatives, and collision-free step fractions.

Surfaces push each other away before they touch, and no step takes one through another. Barrier, friction and
continuous collision detection (CCD) are those of the IPC Toolkit.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...checks import Array
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
BROAD_PHASE_INFLATION = 0.25


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
        self.surfaces, self._ipc, self._mesh = surfaces, surfaces.ipc, surfaces.mesh
        ipc, contact = self._ipc, surfaces.contact
        self.thickness = surfaces.thickness(x, time)
        self.reach = contact.distance + self.thickness
        self.barrier = ipc.BarrierPotential(contact.distance, stiffness, True)
        self._slope, self._reference = slope, surfaces.at(reference)
        self.covered_box: tuple[Array, Array] = (np.empty((0, 3)), np.empty((0, 3)))
        """The least and greatest coordinates of vertices (V, 3) that the candidate pairs are for [m]."""
        self._candidates = ipc.Candidates()
        vertices = surfaces.at(x)
        self._cover(vertices, vertices)
        self._last: tuple[Array, Any] | None = None
        self._tangential: Any = None
        self._friction = ipc.FrictionPotential(contact.slip)
        self.update_friction(x)

    def update_friction(self, x: Array) -> bool:
        """Set the normal forces of friction to those at x (N, 3); return whether there are or were any."""
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
        """Find all candidate pairs on the way between two arrays of vertices (V, 3), and a little beyond."""
        margin = BROAD_PHASE_INFLATION * self.reach
        self.covered_box = (np.minimum(start, end) - margin, np.maximum(start, end) + margin)
        self._candidates.build(self._mesh, start, end, margin + self.reach / 2)

    def _covered(self, vertices: Array) -> bool:
        """Return whether the candidate pairs are for vertices there as well."""
        low, high = self.covered_box
        return bool(np.all(vertices >= low) and np.all(vertices <= high))

    def collision_free_fraction(self, x: Array, to: Array, *, again: bool = False) -> float:
        """Return the collision-free step fraction of the straight way from x to `to` (both (N, 3)).

        `again` tells that the way has been cut short by an earlier call.
        """
        start, end = self.surfaces.at(x), self.surfaces.at(to)
        if not self._covered(end) or not self._covered(start):
            self._cover(start, end)
        rescaling = CCD_RECHECK_RESCALING if again else CCD_RESCALING
        ccd = self._ipc.AdditiveCCD(CCD_MAX_ITERATIONS, rescaling)
        return float(
            self._candidates.compute_collision_free_stepsize(self._mesh, start, end, self.thickness, ccd)
        )

    def collisions(self, vertices: Array) -> Any:
        """Return the toolkit's set of pairs in contact with the vertices (V, 3) there."""
        if self._last is None or not np.array_equal(self._last[0], vertices):
            met = self._ipc.NormalCollisions()
            met.use_area_weighting = True
            met.build(self._candidates, self._mesh, vertices, self.surfaces.contact.distance, self.thickness)
            self._last = (vertices, met)
        return self._last[1]

    def value(self, x: Array) -> float:
        """Return the energy of barrier and friction [J]; infinite where surfaces are nearer than allowed."""
        vertices = self.surfaces.at(x)
        total = float(self.barrier(self.collisions(vertices), self._mesh, vertices))
        if self._tangential is not None:
            total += float(self._friction(self._tangential, self._mesh, self._rates(vertices))) / self._slope
        return total

    def gradient(self, x: Array) -> Array:
        """Return the derivative of the value by the vertices (V, 3) [N]."""
        vertices = self.surfaces.at(x)
        total = self.barrier.gradient(self.collisions(vertices), self._mesh, vertices)
        if self._tangential is not None:
            total = total + self._friction.gradient(self._tangential, self._mesh, self._rates(vertices))
        return np.asarray(total).reshape(-1, 3)

    def blocks(self, x: Array, *, project: bool) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """Return the Hessian: particles of rows (K,) and columns (K,), and blocks (K, 3, 3) [N/m].

        With `project` each pair's part is made positive semidefinite.
        """
        vertices = self.surfaces.at(x)
        methods = self._ipc.PSDProjectionMethod
        method = methods.CLAMP if project else methods.NONE
        H = self.barrier.hessian(self.collisions(vertices), self._mesh, vertices, method)
        if self._tangential is not None:
            rates = self._rates(vertices)
            H = H + self._slope * self._friction.hessian(self._tangential, self._mesh, rates, method)
        return self._in_blocks(H)

    def pairs_nearby(self, x: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return rows (K,) and columns (K,) of the blocks of all pairs within twice the contact distance."""
        vertices = self.surfaces.at(x)
        distance = self.surfaces.contact.distance
        near = self._ipc.NormalCollisions()
        near.build(self._candidates, self._mesh, vertices, 2 * distance, self.thickness)
        H = self._ipc.BarrierPotential(2 * distance, 1.0, True).hessian(near, self._mesh, vertices)
        if self._tangential is not None:
            H = H + self._friction.hessian(self._tangential, self._mesh, self._rates(vertices))
        return self._in_blocks(H)[:2]

    def _in_blocks(self, H: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        blocks = H.tobsr((3, 3))
        row = np.repeat(np.arange(len(blocks.indptr) - 1), np.diff(blocks.indptr))
        particles = self.surfaces.particles
        # The column-major matrix is read as a row-major one, which is right since it is symmetric.
        return particles[row], particles[blocks.indices], np.asarray(blocks.data)

    def _rates(self, vertices: Array) -> Array:
        return np.asfortranarray(self._slope * (vertices - self._reference))

    def count(self, x: Array) -> int:
        """Return the number of pairs in contact."""
        return len(self.collisions(self.surfaces.at(x)))

    def gap(self, x: Array) -> float:
        """Return the least distance of surfaces in contact beyond their thickness [m], or infinity."""
        vertices = self.surfaces.at(x)
        met = self.collisions(vertices)
        if met.empty():
            return np.inf
        return float(np.sqrt(met.compute_minimum_distance(self._mesh, vertices))) - self.thickness

    def nearest(self, x: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Return the particles of the nearest two points, edges or faces in contact, or None."""
        vertices = self.surfaces.at(x)
        met, mesh = self.collisions(vertices), self._mesh
        found: tuple[float, list[int], int] | None = None
        for pairs, first in (
            (met.vv_collisions, 1), (met.ev_collisions, 1), (met.fv_collisions, 1), (met.ee_collisions, 2)
        ):  # fmt: skip
            for pair in pairs:
                squared = pair.compute_distance(pair.dof(vertices, mesh.edges, mesh.faces))
                if found is None or squared < found[0]:
                    rows = [row for row in pair.vertex_ids(mesh.edges, mesh.faces) if row >= 0]
                    found = squared, rows, first
        if found is None:
            return None
        _, rows, first = found
        particles = self.surfaces.particles
        return particles[rows[:first]], particles[rows[first:]]

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
