"""The records that a step of the implicit solver reads and returns: states, reports, events and stalls."""

from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ..checks import Array
from ..errors import ConvergenceError, InputError
from .bodies import check_body_name
from .model.rigid_bodies import angular_velocities

__all__ = ["BondChange", "BondEvent", "Load", "SolverState", "Stall", "StallCause", "StepError", "StepReport"]


StallCause = Literal["contact", "joint", "motor", "glue", "motion", "convergence"]
BondChange = Literal["attach", "release", "break"]


@dataclass(frozen=True)
class BondEvent:
    """Points of a bond, or joints between two bodies, that attached, were released or broke in one step.

    Parameters
    ----------
    event : {"attach", "release", "break"}
        What happened.
    kind : {"glue", "spring", "joint"}
        What it happened to.
    first : str
        The body whose points are bound, or the first body of the joint.
    second : str or None
        The body that they are bound to, or None if they are bound to several.
    count : int
        How many points or joints it happened to.
    time : float
        The end of the step [s].
    """

    event: BondChange
    kind: Literal["glue", "spring", "joint"]
    first: str
    second: str | None
    count: int
    time: float

    def __str__(self) -> str:
        """Return what happened in a few words."""
        other = "other bodies" if self.second is None else repr(self.second)
        verb = {"attach": "is attached to", "release": "is released from", "break": "breaks off"}[self.event]
        what = "joint" if self.kind == "joint" else "point"
        return f"{self.first!r} {verb} {other} ({self.kind}, {self.count} {what}{'s' * (self.count != 1)})"


@dataclass(frozen=True, eq=False)
class Load:
    """The force and torque by which a bond, a joint or contact acts on a body.

    Parameters
    ----------
    kind : {"glue", "spring", "joint", "contact"}
        What acts.
    first : str
        The body that it acts on: whose points are bound, or the first of the joint.
    second : str or None
        The body that it is bound to, or None for several bodies, and for contact.
    position : (3,)
        The joint, or the centroid of the points that are bound, or of the body's points in contact [m].
    force : (3,)
        The force on the first body [N].
    torque : (3,)
        The torque on the first body about the position [N m].
    largest : float
        The largest force at one of the points [N], which `break_force` is compared with.
    """

    kind: Literal["glue", "spring", "joint", "contact"]
    first: str
    second: str | None
    position: Array
    force: Array
    torque: Array
    largest: float


@dataclass(frozen=True)
class Stall:
    """Why a step did not converge, and where.

    Parameters
    ----------
    cause : {"contact", "joint", "motor", "glue", "motion", "convergence"}
        Whether contact bars the way, a joint stays open, it does so in a mechanism with a motor of unlimited
        force, parents of glue have collapsed, keys cannot be followed, or none of these.
    bodies : tuple of str
        The names of the bodies that it is about: the two in contact, those of the joint or motor, or those
        that would still move most.
    position : (float, float, float), optional
        Where that is [m].
    """

    cause: StallCause
    bodies: tuple[str, ...] = ()
    position: tuple[float, float, float] | None = None

    @classmethod
    def at(cls, cause: StallCause, bodies: tuple[str, ...], position: Array) -> Self:
        """Return a stall at some position.

        Parameters
        ----------
        cause : {"contact", "joint", "motor", "glue", "motion", "convergence"}
            Why the step did not converge.
        bodies : tuple of str
            The names of the bodies that it is about.
        position : (3,)
            Where that is [m].

        Returns
        -------
        Stall
        """
        x, y, z = position.tolist()
        return cls(cause, bodies, (x, y, z))

    def __str__(self) -> str:
        names = " and ".join(map(repr, self.bodies))
        if self.position is None:
            return names
        coordinates = ", ".join(f"{round(value, 6) + 0.0:.6g}" for value in self.position)  # no -0, no 1e-18
        return f"{names} near ({coordinates}) m"


class StepError(ConvergenceError):
    """A step did not converge, nor did its halves.

    Parameters
    ----------
    message : str
        What went wrong, for users.
    state : SolverState
        The last state that was reached.
    stall : Stall, optional
        Why the step did not converge, and where.
    """

    def __init__(self, message: str, state: "SolverState", stall: Stall | None = None) -> None:
        super().__init__(message)
        self.state = state
        self.stall = stall or Stall("convergence")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the attributes too, so that the error can be raised in another process."""
        return type(self), (str(self), self.state, self.stall)


@dataclass(frozen=True)
class StepReport:
    """What a step took.

    Parameters
    ----------
    substeps : int
        1, or more where the step was halved, or is the first step of "bdf2".
    speeds : tuple of float
        The size of each Newton step: the largest way of a particle, divided by the time step [m/s].
    projected : int
        The number of Newton steps with projected Hessians.
    factorisations : int
        The number of factorisations of the linear system.
    violation : float
        How far the worst joint is open [m].
    redundant : int
        The number of equations of joints that follow from others.
    seconds : dict of str to float
        The time taken by part [s]: energies, contact, sum, glue, factor and solve; the rest is bookkeeping.
        Attempts that did not converge are included.
    contacts : int
        The number of pairs of surfaces in contact at the end.
    gap : float
        The least distance of surfaces in contact, beyond their thickness [m].
    wasted : int
        The number of Newton steps of attempts that did not converge, which `iterations` leaves out.
    unconverged : int
        The number of substeps that were accepted although the last Newton step was not within the tolerance.
    events : tuple of BondEvent
        Which bonds and joints attached, were released or broke.
    energy : dict of str to float
        The energy at the end by its kind [J], see `ImplicitSolver.energy`, where somebody has asked for it.
    """

    substeps: int
    speeds: tuple[float, ...]
    projected: int
    factorisations: int
    violation: float
    redundant: int
    seconds: dict[str, float]
    contacts: int = 0
    gap: float = inf
    wasted: int = 0
    unconverged: int = 0
    events: tuple[BondEvent, ...] = ()
    energy: dict[str, float] = field(default_factory=dict)

    @property
    def iterations(self) -> int:
        """The number of Newton steps."""
        return len(self.speeds)

    @staticmethod
    def merged(reports: "list[StepReport]") -> "StepReport":
        """Return one report of several substeps.

        Parameters
        ----------
        reports : list of StepReport
            The reports of the substeps, at least one.

        Returns
        -------
        StepReport
        """
        parts = sorted({part for report in reports for part in report.seconds})
        return StepReport(
            substeps=len(reports),
            speeds=tuple(speed for report in reports for speed in report.speeds),
            projected=sum(report.projected for report in reports),
            factorisations=sum(report.factorisations for report in reports),
            violation=max(report.violation for report in reports),
            redundant=max(report.redundant for report in reports),
            seconds={part: sum(report.seconds.get(part, 0.0) for report in reports) for part in parts},
            contacts=reports[-1].contacts,
            gap=min(report.gap for report in reports),
            wasted=sum(report.wasted for report in reports),
            unconverged=sum(report.unconverged for report in reports),
            events=tuple(event for report in reports for event in report.events),
        )


@dataclass(frozen=True, eq=False)
class SolverState:
    """The state of an implicit solver: all that a step reads and returns anew; states are never changed.

    There are N particles: the n points of the bodies one after the other, which are `positions`, then those
    that the solver adds for joints and springs. There are B rigid bodies, S springs of glue, and M equations
    of J joints and of points that glue holds by equations.

    Parameters
    ----------
    time : float
        The time [s].
    particles, particle_velocities : (N, 3)
        Where all particles are and how they move [m, m/s].
    origins, origin_velocities : (B, 3)
        The centres of mass of the rigid bodies and their velocities [m, m/s].
    rotations, rotation_rates : (B, 3, 3)
        The rotations of the rigid bodies from the start, and their derivatives by time [1, 1/s].
    multipliers : (M,)
        The forces of the joints along the directions of their equations, and of their limits and motors [N].
    angles : (A,)
        The angles of the joints that have one, counted over whole turns, see
        `ImplicitSolver.joint_coordinates` [rad].
    released : (N,)
        Which particles of glue have been released, or have broken off.
    broken_springs : (S,)
        Which springs of glue have broken.
    released_joints : (J,)
        Which joints have been released or have broken.
    pending : (N,)
        Which particles have glue that attaches later.
    pending_joints : (J,)
        Which joints attach later.
    targets : (N, 3)
        Where glued particles would be at rest [m].
    bond_forces : (N, 3)
        The forces of bonds and joints on particles at the end of the step that led here [N]: on a point that
        glue eliminates, and on what the solver adds for joints, springs and equations; see
        `ImplicitSolver.loads`.
    contact_forces : (N, 3), or (0, 3) without contact
        The forces of contact and friction on particles [N].
    rows : dict of str to slice
        The rows of each body's particles, by its name.
    barrier_stiffness : float
        The barrier stiffness of contact [Pa], or 0 before the first step.
    mixture : (3,)
        Which mixture of exact and projected Hessians the next step begins with, and for how long.
    report : StepReport, optional
        What the step to this state took.
    previous : SolverState, optional
        The state before, which methods of two steps need.
    blow : bool
        Whether surfaces have met in the step to this state, from which a method of two steps goes on as after
        a step of Euler's.
    """

    time: float
    particles: Array
    particle_velocities: Array
    origins: Array
    rotations: Array
    origin_velocities: Array
    rotation_rates: Array
    multipliers: Array
    angles: Array
    released: NDArray[np.bool_]
    broken_springs: NDArray[np.bool_]
    released_joints: NDArray[np.bool_]
    pending: NDArray[np.bool_]
    pending_joints: NDArray[np.bool_]
    targets: Array
    bond_forces: Array
    contact_forces: Array
    rows: dict[str, slice]
    barrier_stiffness: float = 0.0
    mixture: NDArray[np.int64] = field(default_factory=lambda: np.array([0, 0, 1]))
    report: StepReport | None = None
    previous: "SolverState | None" = None
    blow: bool = False

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        for value in self.__dict__.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Make the arrays of copies read-only too."""
        self.__dict__.update(values)
        self.__post_init__()

    def body(self, name: str) -> Array:
        """Return the positions (n, 3) of a body's points [m].

        Parameters
        ----------
        name : str
            The body's name.

        Returns
        -------
        (n, 3)

        Raises
        ------
        InputError
            If there is no such body.
        """
        check_body_name("name", name)
        if name not in self.rows:
            raise InputError(f"name must be that of a body, {', '.join(map(repr, self.rows))}, got {name!r}")
        return np.asarray(self.particles[self.rows[name]])

    @property
    def positions(self) -> Array:
        """The positions of all bodies' points (n, 3), one body after the other as `rows` says [m]."""
        return np.asarray(self.particles[: self._count])

    @property
    def velocities(self) -> Array:
        """The velocities of all bodies' points (n, 3) [m/s]."""
        return np.asarray(self.particle_velocities[: self._count])

    @property
    def _count(self) -> int:
        """The number of points of all bodies."""
        return int(max(rows.stop for rows in self.rows.values()))

    @property
    def spins(self) -> Array:
        """Angular velocities of the rigid bodies (B, 3), in world space [rad/s]."""
        return angular_velocities(self.rotations, self.rotation_rates)
