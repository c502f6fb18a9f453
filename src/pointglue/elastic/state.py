"""What a step of the implicit solver reads and returns: where everything is, and what the step took."""

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from ..checks import Array
from ..errors import ConvergenceError, InputError
from .model.rigid_bodies import spin_of

if TYPE_CHECKING:
    from .step.events import BondEvent

__all__ = ["SolverState", "Stall", "StepError", "StepReport"]


Cause = Literal["contact", "joint", "motion", "convergence"]


@dataclass(frozen=True)
class Stall:
    """Why a step did not converge, and where."""

    cause: Cause
    """Contact bars the way, a joint stays open, keys cannot be followed, or nothing of these."""
    bodies: tuple[str, ...] = ()
    """The names of those that it is about: the two in contact, or of what would still move most."""
    position: tuple[float, float, float] | None = None
    """Where that is (m)."""

    @classmethod
    def at(cls, cause: Cause, bodies: tuple[str, ...], place: Array) -> Self:
        """Return one at coordinates (3,)."""
        x, y, z = place.tolist()
        return cls(cause, bodies, (x, y, z))

    def __str__(self) -> str:
        names = " and ".join(map(repr, self.bodies))
        if self.position is None:
            return names
        place = ", ".join(f"{round(value, 6) + 0.0:.6g}" for value in self.position)  # no -0, no 1e-18
        return f"{names} near ({place}) m"


class StepError(ConvergenceError):
    """A step did not converge, nor did its halves; `state` is the last that did."""

    def __init__(self, message: str, state: "SolverState", stall: Stall | None = None) -> None:
        super().__init__(message)
        self.state = state
        self.stall = stall or Stall("convergence")

    def __reduce__(self) -> tuple[Any, ...]:
        """So that it comes through to other processes."""
        return type(self), (str(self), self.state, self.stall)


@dataclass(frozen=True)
class StepReport:
    """What a step took."""

    substeps: int
    """1, or more where the step had to be halved, or is the first of "bdf2"."""
    speeds: tuple[float, ...]
    """Size of each Newton step, in m/s: the largest way of a particle, by the time step."""
    projected: int
    """Newton steps with projected Hessians."""
    factorisations: int
    violation: float
    """How far the worst joint is open (m)."""
    redundant: int
    """Equations of joints that follow from others."""
    seconds: dict[str, float]
    """By part: energies, contact, sum, glue, factor, solve; the rest is bookkeeping.

    With what attempts took that did not converge.
    """
    contacts: int = 0
    """Pairs of surfaces in contact at the end."""
    gap: float = inf
    """Least distance of those beyond their thickness (m)."""
    wasted: int = 0
    """Newton steps of attempts that did not converge, beyond `iterations`."""
    events: "tuple[BondEvent, ...]" = ()
    """What bonds and joints took hold, were released or broke."""

    @property
    def iterations(self) -> int:
        """Newton steps."""
        return len(self.speeds)

    @staticmethod
    def merged(reports: "list[StepReport]") -> "StepReport":
        """One report of several substeps."""
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
            events=tuple(event for report in reports for event in report.events),
        )


@dataclass(frozen=True, eq=False)
class SolverState:
    """All that a step reads and returns anew; states are never changed.

    Particles are those of the bodies one after the other, `rows` says where, then some that joints and
    springs hang on.
    """

    time: float
    """s."""
    positions: Array
    """(N, 3), m."""
    velocities: Array
    """(N, 3), m/s."""
    origins: Array
    """Centres of mass of the rigid bodies (B, 3), m."""
    rotations: Array
    """Of the rigid bodies from the start (B, 3, 3)."""
    origin_velocities: Array
    """(B, 3), m/s."""
    rotation_rates: Array
    """(B, 3, 3), 1/s: how `rotations` change."""
    multipliers: Array
    """Forces of the joints (M,), N, along the directions of their equations."""
    loose: NDArray[np.bool_]
    """(N,): glued particles that have been let go."""
    torn: NDArray[np.bool_]
    """(S,): springs of glue that have broken."""
    opened: NDArray[np.bool_]
    """Joints that no longer hold."""
    waiting: NDArray[np.bool_]
    """(N,): particles whose glue is to stick later."""
    waiting_joints: NDArray[np.bool_]
    """Joints that are to hold later."""
    targets: Array
    """(N, 3), m: where glued particles would be at rest."""
    rows: dict[str, slice]
    stiffness: float = 0.0
    """Of contact (Pa), or 0 before the first step."""
    report: StepReport | None = None
    past: "SolverState | None" = None
    """The state before, which methods of two steps need."""

    def __post_init__(self) -> None:
        """States are never changed: neither are their arrays."""
        for value in self.__dict__.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Copies are never changed either."""
        self.__dict__.update(values)
        self.__post_init__()

    def body(self, name: str) -> Array:
        """Positions of a body's points (n, 3)."""
        if name not in self.rows:
            raise InputError(f"name must be that of a body, {', '.join(map(repr, self.rows))}, got {name!r}")
        return np.asarray(self.positions[self.rows[name]])

    @property
    def spins(self) -> Array:
        """Angular velocities of the rigid bodies (B, 3), rad/s, in world space."""
        return spin_of(self.rotations, self.rotation_rates)
