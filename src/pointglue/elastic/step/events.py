"""What happens to bonds and joints during a step: they take hold, are released, or break."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..bodies import Bond, JointBond
from ..model.solver_model import SolverModel
from ..state import SolverState

__all__ = ["BondEvent", "bond_events"]

ROUNDING = 1e-6  # of a step: times of events are met in spite of the rounding of sums of steps

Change = Literal["attach", "release", "break"]


@dataclass(frozen=True)
class BondEvent:
    """Points of a bond, or joints between two bodies, that took hold, were released or broke in one step."""

    event: Change
    kind: Literal["glue", "spring", "joint"]
    first: str
    """The body whose points are bound, or the first of the joint."""
    second: str | None
    """The body that they hold on to, or None if they hold on to several."""
    count: int
    """How many points or joints did."""
    time: float
    """The end of the step (s)."""


def bond_events(model: SolverModel, before: SolverState, after: SolverState) -> tuple[BondEvent, ...]:
    """Return what has happened in a step between two states, in the order of the bonds and joints."""
    counts: Counter[tuple[int, Change]] = Counter()
    for change, bonds in _changes(model, before, after):
        counts.update((bond, change) for bond in bonds.tolist() if bond >= 0)
    tied: list[Bond | JointBond] = [*model.glue, *model.joints]
    return tuple(
        _event(tied[bond], change, counts[bond, change], after.time) for bond, change in sorted(counts)
    )


def _changes(
    model: SolverModel, before: SolverState, after: SolverState
) -> Iterator[tuple[Change, NDArray[np.int64]]]:
    """Yield the bond or joint of every point, spring and joint that has changed; joints count after bonds."""
    h = after.time - before.time
    begin = before.time + ROUNDING * h

    def fell(times: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which times are in force from this step on: springs keep no record of theirs."""
        return np.asarray((times > max(begin - h, 0.0)) & (times <= begin))

    loose = after.loose & ~before.loose
    timed = model.release <= after.time
    yield "attach", model.bond_of[before.waiting & ~after.waiting & ~after.loose]
    yield "release", model.bond_of[loose & timed]
    yield "break", model.bond_of[loose & ~timed]
    springs = model.springs
    if len(springs):
        yield "attach", model.bond_of_spring[fell(springs.attach)]
        yield "release", model.bond_of_spring[fell(springs.release) & ~before.torn]
        yield "break", model.bond_of_spring[after.torn & ~before.torn]
    if model.joint_count:
        opened, timed = after.opened & ~before.opened, model.joint_release <= after.time
        bonds = model.bond_of_joint + len(model.glue)
        yield "attach", bonds[before.waiting_joints & ~after.waiting_joints]
        yield "release", bonds[opened & timed]
        yield "break", bonds[opened & ~timed]


def _event(bond: Bond | JointBond, change: Change, count: int, time: float) -> BondEvent:
    if isinstance(bond, JointBond):
        return BondEvent(change, "joint", bond.first, bond.second, count, time)
    return BondEvent(change, "glue" if bond.spring is None else "spring", bond.body, bond.to, count, time)
