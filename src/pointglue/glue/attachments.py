"""Attachments of particles to bound points: hard, or by springs, which also resolve conflicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import bsr_array

from ..checks import Array, as_integers, as_reals, check_real, check_rows, require_finite
from ..errors import InputError
from .assembly import Assembly
from .binding import Binding

__all__ = ["Attachment", "Spring", "Springs", "assemble", "check_places"]


@dataclass(frozen=True)
class Spring:
    """A spring of no rest length that pulls a particle to its bound point.

    Parameters
    ----------
    stiffness : float
        Stiffness [N/m].
    damping : float
        Damping of the relative velocity [N s/m].
    attach, release : float
        The times from which and until which it acts [s].
    break_force : float
        The force beyond which it breaks [N]; solvers take it out then, see :meth:`Springs.overloaded`.

    Raises
    ------
    InputError
        If a number is out of range, or `release` does not come after `attach`.
    """

    stiffness: float
    damping: float = 0.0
    attach: float = -inf
    release: float = inf
    break_force: float = inf

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_real("stiffness", self.stiffness, above=0.0)
        check_real("damping", self.damping, at_least=0.0)
        check_real("attach", self.attach, infinite=True)
        check_real("release", self.release, infinite=True)
        if not self.attach < self.release:
            raise InputError(f"release must come after attach, got {self.release!r} after {self.attach!r}")
        check_real("break_force", self.break_force, above=0.0, infinite=True)


@dataclass(frozen=True, eq=False)
class Attachment:
    """Particles that follow bound points: ``particles[k]`` goes with target k of the binding.

    Parameters
    ----------
    particles : (T,)
        Rows of the particles.
    binding : Binding
        The points that they follow.
    spring : Spring, optional
        What pulls them there. Without it they are bound hard: their positions are those of the bound points,
        exactly.
    """

    particles: ArrayLike
    binding: Binding
    spring: Spring | None = None


@dataclass(frozen=True, eq=False)
class Springs:
    """Springs of no rest length between pairs of particles, as arrays over the springs (S,).

    Which of them act is a mask that you keep: ``active = springs.active(time) & intact``, and after a
    step ``intact &= ~springs.overloaded(x, v, active)``.

    Attributes
    ----------
    first : (S,)
        Row of the one particle.
    second : (S,)
        Row of the other particle.
    stiffness : (S,)
        Stiffness [N/m].
    damping : (S,)
        Damping of the relative velocity [N s/m].
    attach : (S,)
        The time from which each acts [s].
    release : (S,)
        The time until which it acts [s].
    break_force : (S,)
        The force beyond which they break [N].
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    stiffness: Array
    damping: Array
    attach: Array
    release: Array
    break_force: Array

    def __len__(self) -> int:
        """Number of springs."""
        return len(self.first)

    def active(self, time: float) -> NDArray[np.bool_]:
        """Return which springs are attached at `time` [s] and not released yet (S,), bool."""
        time = check_real("time", time, infinite=True)
        return np.asarray((self.attach <= time) & (time < self.release))

    def value(self, x: ArrayLike, active: ArrayLike) -> float:
        """Return the energy [J] of the active springs (S,) at particle positions x (N, 3)."""
        return float(
            0.5 * np.sum(self._now(self.stiffness, active) * (self._stretched("x", x)[1] ** 2).sum(1))
        )

    def gradient(self, x: ArrayLike, active: ArrayLike) -> Array:
        """Return the derivative of the energy by the positions (N, 3) [N]."""
        return -self._scattered(self._tension(x, None, active), len(self._stretched("x", x)[0]))

    def hessian(self, x: ArrayLike, active: ArrayLike) -> bsr_array:
        """Return the second derivative of the energy (3 N, 3 N) [N/m]; it depends on `active` alone."""
        count, k = len(self._stretched("x", x)[0]), self._now(self.stiffness, active)
        signed = np.concatenate([k, k, -k, -k])
        rows = np.concatenate([self.first, self.second, self.first, self.second])
        columns = np.concatenate([self.first, self.second, self.second, self.first])
        place, where = np.unique(rows * count + columns, return_inverse=True)
        sums = np.bincount(where, signed, minlength=len(place))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(place // count, minlength=count))])
        blocks = sums[:, None, None] * np.eye(3)
        return bsr_array((blocks, place % count, indptr), shape=(3 * count, 3 * count))

    def forces(self, x: ArrayLike, v: ArrayLike, active: ArrayLike) -> Array:
        """Return the forces on the particles (N, 3) [N], damping included."""
        return self._scattered(self._tension(x, v, active), len(self._stretched("x", x)[0]))

    def overloaded(self, x: ArrayLike, v: ArrayLike, active: ArrayLike) -> NDArray[np.bool_]:
        """Return which springs have a force beyond `break_force` (S,), bool."""
        return np.asarray(np.linalg.norm(self._tension(x, v, active), axis=1) > self.break_force)

    def _tension(self, x: ArrayLike, v: ArrayLike | None, active: ArrayLike) -> Array:
        """Return the force on the first particle of each spring (S, 3)."""
        tension = -self._now(self.stiffness, active)[:, None] * self._stretched("x", x)[1]
        if v is not None:
            tension -= self._now(self.damping, active)[:, None] * self._stretched("v", v)[1]
        return np.asarray(tension)

    def _stretched(self, name: str, rows: ArrayLike) -> tuple[Array, Array]:
        """Return checked rows of all particles (N, 3), and the difference of each spring's two (S, 3)."""
        given = as_reals(name, rows)
        if given.ndim != 2 or given.shape[1] != 3:
            raise InputError(f"{name} must have shape (n, 3), one row per particle, got shape {given.shape}")
        require_finite(name, given)
        if len(self) and len(given) <= max(self.first.max(), self.second.max()):
            raise InputError(f"{name} must hold every particle of the assembly, got {len(given)} rows")
        return given, np.asarray(given[self.first] - given[self.second])

    def _scattered(self, tension: Array, count: int) -> Array:
        """Return the forces on all particles (N, 3)."""
        forces = np.zeros((count, 3))
        np.add.at(forces, self.first, tension)
        np.subtract.at(forces, self.second, tension)
        return forces

    def _now(self, values: Array, active: ArrayLike) -> Array:
        mask = np.asarray(active)
        if mask.shape != (len(self),) or mask.dtype != bool:
            raise InputError(f"active must be {len(self)} booleans, got {mask.dtype} of shape {mask.shape}")
        return np.where(mask, values, 0.0)


def assemble(
    rest: ArrayLike,
    attachments: Sequence[Attachment],
    *,
    body_of: ArrayLike | None = None,
    origins: ArrayLike | None = None,
    conflict_spring: Spring | None = None,
) -> tuple[Assembly, Springs]:
    """Make an assembly and its springs of particles and their attachments.

    A hard attachment of a particle that has no other becomes a binding. Where a spring is asked for,
    and where a particle has several hard attachments or is on a rigid body, a new particle is bound
    instead, at row N or later of the assembly, and a spring pulls the two together.

    Parameters
    ----------
    rest : (N, 3)
        Rest positions of the particles [m].
    attachments : sequence of Attachment
        What binds them.
    body_of : (N,), optional
        The rigid body that a particle is fixed to, -1 for none.
    origins : (B, 3), optional
        The points about which the bodies' torques are taken [m], as in :class:`Assembly`.
    conflict_spring : Spring, optional
        The spring that replaces a hard attachment in a conflict; by default 1e4 N/m with damping 10 N s/m.

    Returns
    -------
    assembly : Assembly
        The given particles, and after them those that were added.
    springs : Springs
        The springs between rows of the assembly.

    Raises
    ------
    InputError
        If the arguments do not go together, or a particle is not where it is to be bound hard.
    """
    particles = check_rows("rest", rest)
    count = len(particles)
    if conflict_spring is not None and not isinstance(conflict_spring, Spring):
        raise InputError(f"conflict_spring must be a Spring, got {type(conflict_spring).__name__}")
    if isinstance(attachments, Attachment):
        raise InputError("attachments must be a list of them, got a single Attachment")
    fallback = conflict_spring or Spring(1e4, damping=10.0)
    rows_of = [_checked_particles(k, attachment, count) for k, attachment in enumerate(attachments)]
    bound = [rows for rows, attachment in zip(rows_of, attachments, strict=True) if attachment.spring is None]
    uses = np.bincount(np.concatenate([*bound, np.empty(0, np.int64)]), minlength=count)
    bodies = None if body_of is None else as_integers("body_of", body_of)
    if bodies is not None:
        if len(bodies) != count:
            raise InputError(
                f"body_of must hold a body or -1 for each of {count} particles, got {len(bodies)}"
            )
        uses = uses + (bodies >= 0)
    bindings: list[tuple[NDArray[np.int64], Binding]] = []
    ghosts: list[Array] = []
    pairs: list[tuple[NDArray[np.int64], NDArray[np.int64], Spring]] = []
    total = count
    for attachment, rows in zip(attachments, rows_of, strict=True):
        hard = (uses[rows] == 1) & (attachment.spring is None)
        if hard.any():
            binding = attachment.binding.take(np.flatnonzero(hard))
            check_places(rows[hard], particles, binding)
            bindings.append((rows[hard], binding))
        if not hard.all():
            soft = attachment.binding.take(np.flatnonzero(~hard))
            fresh = np.arange(total, total + len(soft))
            total += len(soft)
            bindings.append((fresh, soft))
            ghosts.append(soft.targets)
            pairs.append((rows[~hard], fresh, attachment.spring or fallback))
    if bodies is not None:
        bodies = np.concatenate([bodies, np.full(total - count, -1)])
    every = np.concatenate([particles, *ghosts])
    return Assembly(every, bindings, body_of=bodies, origins=origins), _springs(pairs)


def _checked_particles(k: int, attachment: Attachment, count: int) -> NDArray[np.int64]:
    if not isinstance(attachment, Attachment):
        raise InputError(f"attachments[{k}] must be an Attachment, got {type(attachment).__name__}")
    if not isinstance(attachment.binding, Binding):
        raise InputError(f"attachments[{k}] needs a binding, got {type(attachment.binding).__name__}")
    if attachment.spring is not None and not isinstance(attachment.spring, Spring):
        raise InputError(f"attachments[{k}].spring must be a Spring, got {attachment.spring!r}")
    if attachment.binding.dimension != 3 or attachment.binding.point_count > count:
        raise InputError(
            f"attachments[{k}] must have its parents among the {count} particles in space, got a binding to "
            f"{attachment.binding.point_count} points of {attachment.binding.dimension} coordinates"
        )
    rows = as_integers(f"attachments[{k}].particles", attachment.particles)
    if len(rows) != len(attachment.binding):
        raise InputError(
            f"attachments[{k}] names {len(rows)} particles for {len(attachment.binding)} bound points"
        )
    if rows.min() < 0 or rows.max() >= count:
        wrong = rows.min() if rows.min() < 0 else rows.max()
        raise InputError(f"attachments[{k}] must name rows of the {count} particles, got {wrong}")
    return rows


def check_places(rows: NDArray[np.int64], particles: Array, binding: Binding) -> None:
    """Raise where a particle that is bound hard would jump to its bound point."""
    away = np.linalg.norm(particles[rows] - binding.targets, axis=1)
    if (away > 1e-6 * np.ptp(particles, axis=0).max()).any():
        k = int(away.argmax())
        raise InputError(
            f"particle {rows[k]} is {away[k]:.3g} away from the bound point that it is to be: bind that "
            f"point where the particle is at rest, or attach it by a spring"
        )


def _springs(pairs: Sequence[tuple[NDArray[np.int64], NDArray[np.int64], Spring]]) -> Springs:
    def per_spring(name: str) -> Array:
        return np.concatenate([np.empty(0), *(np.full(len(a), getattr(s, name), float) for a, _, s in pairs)])

    nobody = np.empty(0, np.int64)
    return Springs(
        np.concatenate([nobody, *(first for first, _, _ in pairs)]),
        np.concatenate([nobody, *(second for _, second, _ in pairs)]),
        per_spring("stiffness"),
        per_spring("damping"),
        per_spring("attach"),
        per_spring("release"),
        per_spring("break_force"),
    )
