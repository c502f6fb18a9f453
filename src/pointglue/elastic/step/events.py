"""What bonds and joints do: they attach, are released or break, and carry loads."""

from collections import Counter
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..bodies import Bond, JointBond
from ..model.solver_model import SolverModel
from ..state import BondChange, BondEvent, Load, SolverState

__all__ = ["TIME_ROUNDING", "bond_events", "state_loads"]

TIME_ROUNDING = 1e-6  # ratio of a step: times of events are met in spite of the rounding of sums of steps


def bond_events(model: SolverModel, before: SolverState, after: SolverState) -> tuple[BondEvent, ...]:
    """Return the events of a step between two states, in the order of the bonds and joints."""
    counts: Counter[tuple[int, BondChange]] = Counter()
    for change, bonds in _changes(model, before, after):
        counts.update((bond, change) for bond in bonds.tolist() if bond >= 0)
    return tuple(
        _event(model.bonds[bond], change, counts[bond, change], after.time) for bond, change in sorted(counts)
    )


def _changes(
    model: SolverModel, before: SolverState, after: SolverState
) -> Iterator[tuple[BondChange, NDArray[np.int64]]]:
    """Yield the bond or joint of every point, spring and joint that has changed; joints count after bonds."""
    h = after.time - before.time
    begin = before.time + TIME_ROUNDING * h

    def became_due(times: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which times are in force from this step on, of which states keep no record."""
        return np.asarray((times > max(begin - h, 0.0)) & (times <= begin))

    released = after.released & ~before.released
    timed = model.release <= after.time
    yield "attach", model.bond_of[before.pending & ~after.pending & ~after.released]
    yield "release", model.bond_of[released & timed]
    yield "break", model.bond_of[released & ~timed]
    springs = model.springs
    if len(springs):
        yield "attach", model.bond_of_spring[became_due(springs.attach)]
        yield "release", model.bond_of_spring[became_due(springs.release) & ~before.broken_springs]
        yield "break", model.bond_of_spring[after.broken_springs & ~before.broken_springs]
    if model.joint_count:
        released = after.released_joints & ~before.released_joints
        timed = model.joint_release <= after.time
        bonds = model.bond_of_joint
        yield "attach", bonds[before.pending_joints & ~after.pending_joints]
        yield "release", bonds[released & timed]
        yield "break", bonds[released & ~timed]


def state_loads(model: SolverModel, state: SolverState) -> tuple[Load, ...]:
    """Return the loads of all bonds and joints, and of contact on all bodies that it acts on."""
    groups, x = model.load_groups, state.particles
    position, force, torque = groups.totals(x, state.bond_forces)
    largest = groups.largest(state.bond_forces)
    loads = []
    for g, k in enumerate(groups.bond_of.tolist()):
        first, second, kind = _sides(model.bonds[k])
        greatest = np.linalg.norm(force[g]) if kind == "joint" else largest[g]
        loads.append(Load(kind, first, second, position[g], force[g], torque[g], float(greatest)))
    if len(state.contact_forces):
        for name, rows in model.rows.items():
            forces = state.contact_forces[rows]
            met = forces.any(1)
            if met.any():
                at = x[rows][met].mean(0)
                twist = np.cross(x[rows] - at, forces).sum(0)
                largest_one = float(np.linalg.norm(forces, axis=1).max())
                loads.append(Load("contact", name, None, at, forces.sum(0), twist, largest_one))
    return tuple(loads)


def _event(bond: Bond | JointBond, change: BondChange, count: int, time: float) -> BondEvent:
    """Return the record of one change of a bond or joint."""
    first, second, kind = _sides(bond)
    return BondEvent(change, kind, first, second, count, time)


def _sides(bond: Bond | JointBond) -> tuple[str, str | None, Literal["glue", "spring", "joint"]]:
    """Return the two bodies of a bond or joint, and its kind."""
    if isinstance(bond, JointBond):
        return bond.first, bond.second, "joint"
    return bond.body, bond.to, "glue" if bond.spring is None else "spring"
