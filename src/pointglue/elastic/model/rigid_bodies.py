"""Rigid bodies: six degrees of freedom, rotations in exponential increments, inertia as a potential."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ...checks import Array, as_reals, require_finite
from ...errors import InputError
from ...geometry.moments import is_watertight, solid_moments
from ...procrustes.space import axial_vectors, cross_matrices
from ..bodies import checked_faces, checked_name, checked_rows, store

__all__ = ["RigidBody", "RigidInertia"]


@dataclass(frozen=True, eq=False)
class RigidBody:
    """A rigid body: points (n, 3) fixed to it, in m where they start, its mass and how that is spread.

    `moment` (3, 3) is the second moment of the mass about the centre, the sum of m x x^T, in kg m^2; the
    inertia tensor is tr(moment) I - moment. `centre` (3,) is the centre of mass. A body that is `fixed` stays
    where it is, or goes where `motion` says: a function of the time (s) that gives the place of its centre
    and its rotation from the start. `velocity` (3,) in m/s and `spin` (3,) in rad/s are those at the start.
    """

    positions: Array
    mass: float
    moment: Array
    centre: Array
    velocity: ArrayLike = (0.0, 0.0, 0.0)
    spin: ArrayLike = (0.0, 0.0, 0.0)
    fixed: bool = False
    motion: Callable[[float], tuple[ArrayLike, ArrayLike]] | None = None
    faces: ArrayLike | None = None
    name: str = "rigid"

    def __post_init__(self) -> None:
        """Check and copy the arrays."""
        store(self, positions=checked_rows("positions", self.positions))
        checked_faces(self.faces, len(self.positions), self.name)
        for name, shape in (("moment", (3, 3)), ("centre", (3,)), ("velocity", (3,)), ("spin", (3,))):
            value = as_reals(name, getattr(self, name)).astype(np.float64)
            if value.shape != shape:
                raise InputError(f"{name} must have shape {shape}, got {value.shape}")
            require_finite(name, value)
            store(self, **{name: value})
        if isinstance(self.mass, bool) or not isinstance(self.mass, (int, float, np.number)):
            raise InputError(f"mass must be a number of kilograms, got {self.mass!r}")
        if not 0 < self.mass < np.inf:
            raise InputError(f"mass must be positive and finite, got {self.mass!r}")
        moment = self.moment
        values = np.linalg.eigvalsh(moment)
        if not np.abs(moment - moment.T).max() <= 1e-9 * np.abs(moment).max():
            raise InputError("moment must be symmetric")
        # One that is on a line could spin about it without inertia.
        if values[0] < -1e-9 * values[2] or not values[1] > 1e-12 * values[2]:
            raise InputError(
                f"moment must be that of mass which is not all on one line, got eigenvalues {values.tolist()}"
            )
        if self.motion is not None and not self.fixed:
            raise InputError("motion is that of a fixed body: give fixed=True")
        checked_name(self.name)

    @classmethod
    def solid(cls, vertices: ArrayLike, faces: ArrayLike, density: float, **options: Any) -> Self:
        """A solid inside a closed mesh, of a density in kg/m^3; the vertices are the points."""
        points = checked_rows("vertices", vertices)
        checked_faces(faces, len(points), str(options.get("name", cls.name)))
        triangles = np.asarray(faces)
        if not is_watertight(triangles):
            raise InputError("faces must close up around a volume, got a mesh with open edges")
        if not isinstance(density, int | float | np.number) or not 0 < density < np.inf:
            raise InputError(f"density must be positive and finite, got {density!r}")
        middle = points.mean(0)  # far from the origin, moments about it would drown those about the centre
        volume, centre, moment = solid_moments((points - middle)[triangles])
        if not abs(volume) > 0:
            raise InputError("faces must enclose a volume, got none")
        outwards = np.sign(volume)  # either orientation of the faces is the same solid
        return cls(
            points,
            density * abs(volume),
            density * outwards * moment,
            middle + centre,
            faces=faces,
            **options,
        )

    @classmethod
    def of_points(cls, points: ArrayLike, mass: ArrayLike, **options: Any) -> Self:
        """Points with masses (n,) in kg, held rigidly together."""
        places = checked_rows("points", points)
        masses = as_reals("mass", mass).astype(np.float64)
        if masses.shape != (len(places),) or not ((masses > 0) & np.isfinite(masses)).all():
            raise InputError(
                f"mass must be {len(places)} positive numbers, got shape {masses.shape} with values from "
                f"{masses.min(initial=np.inf):g} to {masses.max(initial=-np.inf):g}"
            )
        total = float(masses.sum())
        centre = masses @ places / total
        arms = places - centre
        return cls(places, total, np.einsum("n,ni,nj->ij", masses, arms, arms), centre, **options)


@dataclass(frozen=True, eq=False)
class RigidInertia:
    """What draws B bodies to where they would go without forces, per unit of 1/s^2:

    1/2 m |t - t~|^2 + 1/2 tr((R - R~) J (R - R~)^T)

    in J s^2. Rotations change by R -> exp([theta]x) R, and derivatives are by theta at 0. Masses (B,),
    moments J of the bodies as they are at rest (B, 3, 3).
    """

    mass: Array
    moment: Array

    def value(self, origins: Array, rotations: Array, to_origins: Array, to_rotations: Array) -> float:
        """Of bodies at such places, drawn to others; R~ need not be rotations."""
        shift, turn = origins - to_origins, rotations - to_rotations
        turning = np.einsum("bij,bjk,bik->", turn, self.moment, turn)
        return float(0.5 * (self.mass @ (shift**2).sum(1) + turning))

    def gradient(self, origins: Array, rotations: Array, to_origins: Array, to_rotations: Array) -> Array:
        """Force on the origin and torque (B, 2, 3)."""
        P = rotations @ self.moment @ np.swapaxes(to_rotations, 1, 2)
        return np.stack([self.mass[:, None] * (origins - to_origins), axial_vectors(P)], axis=1)

    def hessian(self, rotations: Array, to_rotations: Array, *, project: bool = False) -> Array:
        """Blocks of the origins and of the rotations (B, 2, 3, 3); there are none across."""
        P = rotations @ self.moment @ np.swapaxes(to_rotations, 1, 2)
        trace = np.trace(P, axis1=1, axis2=2)
        H = trace[:, None, None] * np.eye(3) - (P + np.swapaxes(P, 1, 2)) / 2
        if project:
            H = psd_blocks(H)
        return np.stack([self.mass[:, None, None] * np.eye(3), H], axis=1)


def psd_blocks(H: Array) -> Array:
    """Symmetric matrices (..., d, d) with their negative eigenvalues made zero."""
    values, vectors = np.linalg.eigh(H)
    return np.asarray((vectors * np.maximum(values, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def rotated(rotations: Array, theta: Array) -> Array:
    """exp([theta]x) R of rotations (B, 3, 3) and rotation vectors (B, 3), by Rodrigues' formula."""
    angle = np.linalg.norm(theta, axis=-1)[:, None, None]
    K = cross_matrices(theta)
    # sin a / a and (1 - cos a) / a^2 = (sin (a/2) / (a/2))^2 / 2, both good at 0
    first, half = np.sinc(angle / np.pi), np.sinc(angle / (2 * np.pi))
    return np.asarray(rotations + (first * K + 0.5 * half**2 * (K @ K)) @ rotations)


def spin_of(rotations: Array, rates: Array) -> Array:
    """Angular velocities (B, 3) in world space of rotations with their rates of change, both (B, 3, 3)."""
    return 0.5 * axial_vectors(rates @ np.swapaxes(rotations, 1, 2))
