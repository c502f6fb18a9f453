"""Where the particles are and how they move: the only thing a step changes."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import Array, as_integers, as_reals, require_finite
from ..errors import InputError
from .quaternions import quaternions_of

__all__ = ["ParticleState", "RestPose"]


@dataclass(frozen=True, eq=False)
class RestPose:
    """The shape that the body wants to take. It is the bind pose until plastic flow changes it."""

    positions: Array
    """(n, 3)."""
    rotations: Array
    """(n, 3, 3), axes of the ellipsoids."""
    touching: NDArray[np.int64]
    """(k, 2), pairs that overlap at rest: their contact is part of the shape and not resolved."""


@dataclass(frozen=True, eq=False)
class ParticleState:
    """All that a step reads and returns anew; states already computed are never changed."""

    time: float
    """s."""
    positions: Array
    """(n, 3), m."""
    rotations: Array
    """(n, 3, 3), from the rest pose to now."""
    velocities: Array
    """(n, 3), m/s."""
    spins: Array
    """(n, 3), rad/s, in world axes."""
    pinned: NDArray[np.bool_]
    """(n,): held where they are."""
    rest: RestPose
    pause: Array
    """(groups,), s: how long a rigid group is still let go of, to deform plastically."""

    def __post_init__(self) -> None:
        """States are never changed: neither are their arrays."""
        for name in ("positions", "rotations", "velocities", "spins", "pinned", "pause"):
            getattr(self, name).flags.writeable = False

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def orientations(self) -> Array:
        """(n, 4), wxyz: the axes of the ellipsoids now."""
        return quaternions_of(self.rotations @ self.rest.rotations)

    def replace(self, **changes: Any) -> "ParticleState":
        """The same state with some of its fields changed: pins set, velocities given."""
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
            off = np.abs(arrays["rotations"] @ np.swapaxes(arrays["rotations"], 1, 2) - np.eye(3)).max((1, 2))
            wrong = (off > 1e-6) | (np.linalg.det(arrays["rotations"]) < 0)
            if wrong.any():
                raise InputError(f"rotations[{int(wrong.argmax())}] is not a rotation matrix")
        if "pinned" in changes:
            arrays["pinned"] = np.array(changes["pinned"])
            if arrays["pinned"].dtype != np.bool_ or arrays["pinned"].shape != self.pinned.shape:
                raise InputError(f"pinned must be a mask of {len(self)} booleans")
        if "pause" in changes:
            arrays["pause"] = np.array(as_reals("pause", changes["pause"]), np.float64)
            if arrays["pause"].shape != self.pause.shape or not (arrays["pause"] >= 0).all():
                raise InputError(f"pause must be {len(self.pause)} times that are not negative")
        time = as_reals("time", changes.get("time", self.time))
        if time.shape != () or not np.isfinite(time):
            raise InputError(f"time must be a finite number of seconds, got {changes['time']!r}")
        if not isinstance(changes.get("rest", self.rest), RestPose):
            raise InputError(f"rest must be a RestPose, got {type(changes['rest']).__name__}")
        try:
            return replace(self, **{**changes, **arrays})
        except TypeError as error:
            known = ", ".join(self.__dataclass_fields__)
            raise InputError(f"ParticleState has the fields {known}, got {', '.join(changes)}") from error

    def pushed(self, mass: ArrayLike, particles: ArrayLike, impulse: ArrayLike) -> "ParticleState":
        """After an impulse (3,) or (k, 3), N s, on each of `particles` (k,); `mass` (n,) is the body's."""
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
