"""The state of particles: where they are and how they move, the only thing a step changes."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, as_integers, as_reals, check_real, check_rotations, require_finite
from ..errors import InputError
from ..geometry.quaternions import quaternions_of

__all__ = ["ParticleState", "RestPose"]


@dataclass(frozen=True, eq=False)
class RestPose:
    """The shape that the body wants to take. It is the bind pose until plastic flow changes it.

    Parameters
    ----------
    positions : (n, 3)
        The particles [m].
    rotations : (n, 3, 3)
        The axes of the ellipsoids, as columns.
    touching : (k, 2)
        The pairs that overlap at rest: their contact is part of the shape and not resolved.
    """

    positions: Array
    rotations: Array
    touching: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Make the arrays read-only, always: kernels are compiled for one of the two."""
        for array in (self.positions, self.rotations, self.touching):
            array.flags.writeable = False

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Make the arrays of copies read-only too."""
        self.__dict__.update(values)
        self.__post_init__()


@dataclass(frozen=True, eq=False)
class ParticleState:
    """All that a step reads and returns anew; states already computed are never changed.

    Parameters
    ----------
    time : float
        The time [s].
    positions : (n, 3)
        The particles [m].
    rotations : (n, 3, 3)
        Their rotations from the rest pose to now, the identity in a body that has not moved; the axes of the
        ellipsoids now are `orientations`.
    velocities : (n, 3)
        Their velocities [m/s].
    spins : (n, 3)
        Their angular velocities in world axes [rad/s].
    pinned : (n,)
        Which of them stay where they are.
    rest : RestPose
        The shape that the body wants to take.
    pause : (groups,)
        How long each rigid group is still released, to deform plastically [s].
    still : (n,), optional
        How long the particle and all that touches it have been quiet, until they sleep [s].
    """

    time: float
    positions: Array
    rotations: Array
    velocities: Array
    spins: Array
    pinned: NDArray[np.bool_]
    rest: RestPose
    pause: Array
    still: Array = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        """Make the arrays read-only, since states are never changed."""
        if not len(self.still):
            object.__setattr__(self, "still", np.zeros(len(self.positions)))
        for name in ("positions", "rotations", "velocities", "spins", "pinned", "pause", "still"):
            getattr(self, name).flags.writeable = False

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Make the arrays of copies read-only too."""
        self.__dict__.update(values)
        self.__post_init__()

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def orientations(self) -> Array:
        """Quaternions (n, 4), wxyz: the axes of the ellipsoids now, their rotations after those at rest."""
        return quaternions_of(self.rotations @ self.rest.rotations)

    def replace(self, **changes: Any) -> "ParticleState":
        """Return the same state with some of its fields changed: pins set, velocities given.

        Parameters
        ----------
        **changes
            The fields, as :class:`ParticleState` has them.

        Returns
        -------
        ParticleState

        Raises
        ------
        InputError
            If there is no such field, a shape does not fit, or a number is not finite.
        """
        arrays = {
            name: np.array(as_reals(name, value), np.float64)
            for name, value in changes.items()
            if name in ("positions", "rotations", "velocities", "spins")
        }
        for name, array in arrays.items():
            if array.shape != getattr(self, name).shape:
                raise InputError(f"{name} must have shape {getattr(self, name).shape}, got {array.shape}")
            require_finite(name, array)
        if "rotations" in arrays:
            check_rotations("rotations", arrays["rotations"])
        if "pinned" in changes:
            arrays["pinned"] = np.array(changes["pinned"])
            if arrays["pinned"].dtype != np.bool_ or arrays["pinned"].shape != self.pinned.shape:
                raise InputError(f"pinned must be a mask of {len(self)} booleans")
        if "pause" in changes:
            arrays["pause"] = np.array(as_reals("pause", changes["pause"]), np.float64)
            if arrays["pause"].shape != self.pause.shape or not (arrays["pause"] >= 0).all():
                raise InputError(f"pause must be {len(self.pause)} times that are not negative")
        if "time" in changes:
            changes["time"] = check_real("time", changes["time"])
        if not isinstance(changes.get("rest", self.rest), RestPose):
            raise InputError(f"rest must be a RestPose, got {type(changes['rest']).__name__}")
        try:
            return replace(self, **{**changes, **arrays})
        except TypeError as error:
            known = ", ".join(self.__dataclass_fields__)
            raise InputError(f"ParticleState has the fields {known}, got {', '.join(changes)}") from error

    def with_impulses(self, mass: ArrayLike, particles: ArrayLike, impulse: ArrayLike) -> "ParticleState":
        """Return the state after impulses on some particles.

        Parameters
        ----------
        mass : (n,)
            The masses of the body [kg].
        particles : (k,)
            The numbers of the particles.
        impulse : (3,) or (k, 3)
            The impulse on each of them [N s].

        Returns
        -------
        ParticleState

        Raises
        ------
        InputError
            If a shape does not fit, a number is not finite, or there is no such particle.
        """
        kilograms = as_reals("mass", mass)
        if kilograms.shape != (len(self),) or not (kilograms > 0).all():
            raise InputError(f"mass must be that of the body, {len(self)} positive numbers, got {mass!r}")
        chosen = as_integers("particles", particles)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= len(self)):
            raise InputError(f"particles must be from 0 to {len(self) - 1}, got {chosen.tolist()[:10]}")
        kick = as_reals("impulse", impulse).astype(np.float64)
        if kick.shape not in ((3,), (len(chosen), 3)):
            raise InputError(f"impulse must have shape (3,) or ({len(chosen)}, 3), got shape {kick.shape}")
        require_finite("impulse", kick)
        velocities = self.velocities.copy()
        np.add.at(velocities, chosen, kick / kilograms[chosen, None])
        velocities[self.pinned] = 0.0
        return replace(self, velocities=velocities)
