"""The points of bonds, and how each of them is held: by elimination, by equations or by a spring."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...checks import Array, as_integers
from ...errors import InputError
from ...glue import Attachment, Spring, bind_glue
from ...glue.attachments import check_places
from ..bodies import Bond
from .bond_layers import among_particles

__all__ = ["BoundPoints", "InitialBond", "bound_points", "rows_of"]


@dataclass(frozen=True, eq=False)
class InitialBond:
    """Particles that are bound from the start: by glue to their parents, or by joints between two sides.

    Parameters
    ----------
    particles : (n,)
        The bound particles, or the parents of the joints' first sides.
    parents : (m,)
        The particles that they follow, or the parents of the joints' second sides.
    release : float
        The time at which the bond is released [s].
    joints : slice or None
        The rows of the equations' joints among all joints, or None for glue that eliminates its particles.
    """

    particles: NDArray[np.int64]
    parents: NDArray[np.int64]
    release: float
    joints: slice | None

    def holds(self, time: float, released: NDArray[np.bool_], released_joints: NDArray[np.bool_]) -> bool:
        """Return whether any of it holds at a time [s].

        Parameters
        ----------
        time : float
            The time [s].
        released : (N,)
            Which particles have been released.
        released_joints : (J,)
            Which joints have been released.

        Returns
        -------
        bool
        """
        gone = released[self.particles] if self.joints is None else released_joints[self.joints]
        return time < self.release and not gone.all()


@dataclass(frozen=True, eq=False)
class BoundPoints:
    """Points of one bond that hold in one way.

    Parameters
    ----------
    bond : int
        The row of the bond in `SolverModel.glue`.
    attachment : Attachment
        The particles and what they follow; with a spring, if it is one that holds them.
    by_equations : bool
        Whether equations hold them, instead of eliminating their particles.
    """

    bond: int
    attachment: Attachment
    by_equations: bool = False

    @property
    def particles(self) -> NDArray[np.int64]:
        """Rows of the particles (n,)."""
        return np.asarray(self.attachment.particles)


def bound_points(
    glue: Sequence[Bond],
    body_rows: Mapping[str, slice],
    positions: Array,
    body_of: NDArray[np.int64],
    conflict_spring: Spring | None,
) -> list[BoundPoints]:
    """Return all bonds as attachments of particles, each with how it is to hold.

    Glue without a spring eliminates a particle that nothing else binds. On a rigid body it is an
    equation. Where a particle has several bonds, all but the first are equations, or all of them are
    springs if one is given for conflicts.

    Parameters
    ----------
    glue : sequence of Bond
        The bonds.
    body_rows : mapping of str to slice
        The rows of each body's particles, by its name.
    positions : (n, 3)
        Where the points of all bodies start [m].
    body_of : (n,)
        The rigid body of each point, or -1.
    conflict_spring : Spring or None
        The spring that is given for conflicts.

    Returns
    -------
    list of BoundPoints

    Raises
    ------
    InputError
        If a bond names bodies or points that there are not, or its binding does not fit them.
    """
    if conflict_spring is not None and not isinstance(conflict_spring, Spring):
        raise InputError(f"conflict_spring must be a Spring, got {type(conflict_spring).__name__}")
    parts = [(k, part) for k, bond in enumerate(glue) for part in _attachments(bond, body_rows, positions)]
    hard = [np.asarray(part.particles) for _, part in parts if part.spring is None]
    uses = np.bincount(np.concatenate([np.empty(0, np.int64), *hard]), minlength=len(positions))
    bound, found = body_of >= 0, []
    for k, part in parts:
        if part.spring is not None:
            found.append(BoundPoints(k, part))
            continue
        rows = np.asarray(part.particles)
        check_places(rows, positions, part.binding)
        by_spring = (uses[rows] > 1) & (body_of[rows] < 0) & (conflict_spring is not None)
        by_equations = bound[rows] & ~by_spring
        bound[rows] |= ~by_spring
        spring = None
        if conflict_spring is not None:
            bond = glue[k]
            limits = {name: getattr(bond, name) for name in ("attach", "release", "break_force")}
            spring = replace(conflict_spring, **limits)
        ways = (
            (~by_spring & ~by_equations, None, False),
            (by_equations, None, True),
            (by_spring, spring, False),
        )
        for chosen, pull, equations in ways:
            some = np.flatnonzero(chosen)
            if len(some):
                piece = Attachment(rows[some], part.binding.take(some), pull)
                found.append(BoundPoints(k, piece, by_equations=equations))
    return found


def _attachments(bond: Bond, body_rows: Mapping[str, slice], positions: Array) -> list[Attachment]:
    """Return a bond as attachments of particles."""
    mine = rows_of(body_rows, bond.body, "glue")
    count = mine.stop - mine.start
    given = np.asarray(bond.points)
    if given.dtype == np.bool_ and given.shape == (count,):
        given = np.flatnonzero(given)
    numbers = as_integers("points", given)
    if not len(numbers) or numbers.min() < 0 or numbers.max() >= count:
        wrong = numbers.tolist()[:4] if len(numbers) else "none"
        raise InputError(f"points must name some of the {count} points of {bond.body!r}, got {wrong}")
    if bond.to is None:
        parts = among_particles(bond.binding, positions, 0)
    else:
        theirs = rows_of(body_rows, bond.to, "glue")
        if bond.binding is None:
            among = np.setdiff1d(np.arange(theirs.start, theirs.stop), mine.start + numbers)
            glue = bind_glue(positions, positions[mine.start + numbers], among=among)
            parts = [(np.arange(len(numbers)), glue)]
        else:
            if bond.binding.point_count != theirs.stop - theirs.start:
                raise InputError(
                    f"the binding of {bond.body!r} must be to the {theirs.stop - theirs.start} points of "
                    f"{bond.to!r}, got one to {bond.binding.point_count} points"
                )
            parts = among_particles(bond.binding, positions, theirs.start)
    if sum(len(rows) for rows, _ in parts) != len(numbers):
        raise InputError(f"points names {len(numbers)} points for {len(bond.binding or ())} bound ones")
    return [Attachment(mine.start + numbers[rows], part, bond.spring) for rows, part in parts]


def rows_of(body_rows: Mapping[str, slice], name: str, what: str) -> slice:
    """Return the rows of a body's particles, or raise if there is no such body."""
    if name not in body_rows:
        raise InputError(f"{what} must name bodies, {', '.join(map(repr, body_rows))}, got {name!r}")
    return body_rows[name]
