"""Rigid bodies: six degrees of freedom, rotations in exponential increments, inertia as a potential."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ...checks import Array, as_reals, check_choice, check_real, require_finite
from ...errors import InputError
from ...geometry.moments import is_watertight, solid_moments
from ...procrustes.space import axial_vectors, cross_matrices
from ..bodies import check_faces, check_name, check_points, store_fields
from .rigid_meshes import Collision, MassSource, collision_faces, mass_shape

__all__ = [
    "RigidBody",
    "RigidInertia",
    "angular_velocities",
    "psd_blocks",
    "rotated",
]

SYMMETRY_TOLERANCE = (
    1e-9  # ratio of the largest entry: how far a moment may be from symmetric and semidefinite
)
# ratio of the largest eigenvalue: with a second one below this, the mass is on a line, about which the body
# could spin without inertia.
MIN_MOMENT_RATIO = 1e-12


@dataclass(frozen=True, eq=False)
class RigidBody:
    """A rigid body: points fixed to it, its mass and the moments of its mass.

    Parameters
    ----------
    positions : (n, 3)
        Where its points start [m].
    mass : float
        Its mass [kg].
    moment : (3, 3)
        The second moment of its mass about the centre of mass, the sum of m x x^T [kg m^2]. The inertia
        tensor is tr(moment) I - moment.
    center_of_mass : (3,)
        Where its centre of mass starts [m].
    velocity : (3,)
        The velocity of its centre of mass at the start [m/s].
    spin : (3,)
        Its angular velocity at the start [rad/s].
    fixed : bool
        Whether it stays where it is, or goes where `motion` says.
    motion : callable, optional
        A function of the time [s] that returns the position of the centre of mass (3,) [m] and the rotation
        from the start (3, 3) of a fixed body, which is then kinematic.
    faces : (m, 3), optional
        Triangles of the points: the surface that contact sees.
    name : str
        The body's name, by which bonds and states refer to it.
    mass_source : {"given", "solid", "closed parts", "hull", "surface", "plate"}
        What mass and moment were taken from, see :meth:`from_mesh`.

    Raises
    ------
    InputError
        If a shape is wrong, a number is not finite, the mass is not positive, or the moment is not that of a
        mass which is not all on one line.
    """

    positions: Array
    mass: float
    moment: Array
    center_of_mass: Array
    velocity: ArrayLike = (0.0, 0.0, 0.0)
    spin: ArrayLike = (0.0, 0.0, 0.0)
    fixed: bool = False
    motion: Callable[[float], tuple[ArrayLike, ArrayLike]] | None = None
    faces: ArrayLike | None = None
    name: str = "rigid"
    mass_source: MassSource = "given"

    def __post_init__(self) -> None:
        """Check and copy the arrays."""
        store_fields(self, positions=check_points("positions", self.positions))
        check_faces(self.faces, len(self.positions), self.name)
        shapes = {"moment": (3, 3), "center_of_mass": (3,), "velocity": (3,), "spin": (3,)}
        for name, shape in shapes.items():
            value = as_reals(name, getattr(self, name)).astype(np.float64)
            if value.shape != shape:
                raise InputError(f"{name} must have shape {shape}, got {value.shape}")
            require_finite(name, value)
            store_fields(self, **{name: value})
        check_real("mass", self.mass, above=0)
        moment = self.moment
        values = np.linalg.eigvalsh(moment)
        if not np.abs(moment - moment.T).max() <= SYMMETRY_TOLERANCE * np.abs(moment).max():
            raise InputError("moment must be symmetric")
        if values[0] < -SYMMETRY_TOLERANCE * values[2] or not values[1] > MIN_MOMENT_RATIO * values[2]:
            raise InputError(
                f"moment must be that of mass which is not all on one line, got eigenvalues {values.tolist()}"
            )
        if self.motion is not None and not self.fixed:
            raise InputError("motion is that of a fixed body: give fixed=True")
        check_name(self.name)

    @classmethod
    def solid(cls, vertices: ArrayLike, faces: ArrayLike, density: float, **options: Any) -> Self:
        """Return a solid body inside a closed mesh, whose vertices are its points.

        Parameters
        ----------
        vertices : (n, 3)
            The vertices of the mesh [m].
        faces : (m, 3)
            Its triangles, of either orientation.
        density : float
            The density [kg/m^3].
        **options
            Further arguments of `RigidBody`: velocity, spin, fixed, motion, name.

        Returns
        -------
        RigidBody

        Raises
        ------
        InputError
            If the mesh is not closed or has no volume, or the density is not positive.
        """
        points = check_points("vertices", vertices)
        check_faces(faces, len(points), str(options.get("name", cls.name)))
        triangles = np.asarray(faces)
        if not is_watertight(triangles):
            raise InputError("faces must close up around a volume, got a mesh with open edges")
        check_real("density", density, above=0)
        # Far from the origin, moments about it would drown those about the centre of mass.
        mean = points.mean(0)
        volume, center, moment = solid_moments((points - mean)[triangles])
        if not abs(volume) > 0:
            raise InputError("faces must enclose a volume, got none")
        orientation = np.sign(volume)
        return cls(
            points,
            density * abs(volume),
            density * orientation * moment,
            mean + center,
            faces=faces,
            mass_source="solid",
            **options,
        )

    @classmethod
    def from_mesh(
        cls,
        vertices: ArrayLike,
        faces: ArrayLike,
        *,
        density: float = 1000.0,
        mass: float | None = None,
        collision: Collision = "mesh",
        **options: Any,
    ) -> Self:
        """Return a rigid body of any triangle mesh, closed or not, whose vertices are its points.

        A closed mesh is solid. The mass of an open one is spread evenly over its surface if it is stated;
        otherwise it is that of the solid in its closed parts, if they are the larger part of it, or in its
        convex hull. A flat mesh is a plate, which without a mass is a hundredth of its extent thick. The
        attribute `mass_source` tells which of these it was.

        Parameters
        ----------
        vertices : (n, 3)
            The vertices of the mesh [m].
        faces : (m, 3)
            Its triangles.
        density : float
            The density of the solid [kg/m^3], where the mass is not stated.
        mass : float, optional
            The mass [kg].
        collision : {"mesh", "hull", "decomposition"}
            What others bump into: the mesh itself, its convex hull, or the convex hulls of parts of it (up
            to 32, and more if it has more connected parts) that together cover it.
        **options
            Further arguments of `RigidBody`: velocity, spin, fixed, motion, name.

        Returns
        -------
        RigidBody

        Raises
        ------
        InputError
            If all triangles lie on one line, or density or mass is not positive.
        """
        points = check_points("vertices", vertices)
        check_faces(faces, len(points), str(options.get("name", cls.name)))
        triangles = np.asarray(faces, np.int64)
        check_real("density", density, above=0)
        if mass is not None:
            check_real("mass", mass, above=0)
        check_choice("collision", collision, ("mesh", "hull", "decomposition"))
        shape = mass_shape(points, triangles, stated=mass is not None)
        total = density * shape.volume if mass is None else mass
        return cls(
            points,
            total,
            total / shape.volume * shape.moment,
            shape.center,
            faces=collision_faces(points, triangles, collision),
            mass_source=shape.source,
            **options,
        )

    @classmethod
    def of_points(cls, points: ArrayLike, mass: ArrayLike, **options: Any) -> Self:
        """Return a rigid body of points with masses.

        Parameters
        ----------
        points : (n, 3)
            Where the points are [m].
        mass : (n,)
            Their masses [kg].
        **options
            Further arguments of `RigidBody`: velocity, spin, fixed, motion, faces, name.

        Returns
        -------
        RigidBody

        Raises
        ------
        InputError
            If the masses are not as many positive numbers as there are points, or the points are on a line.
        """
        x = check_points("points", points)
        masses = as_reals("mass", mass).astype(np.float64)
        if masses.shape != (len(x),) or not ((masses > 0) & np.isfinite(masses)).all():
            raise InputError(
                f"mass must be {len(x)} positive numbers, got shape {masses.shape} with values from "
                f"{masses.min(initial=np.inf):g} to {masses.max(initial=-np.inf):g}"
            )
        total = float(masses.sum())
        center = masses @ x / total
        arms = x - center
        return cls(x, total, np.einsum("n,ni,nj->ij", masses, arms, arms), center, **options)


@dataclass(frozen=True, eq=False)
class RigidInertia:
    """The inertia term of B rigid bodies: what draws them to target frames, per unit of 1/s^2.

    The value is 1/2 m |t - t~|^2 + 1/2 tr((R - R~) J (R - R~)^T) [J s^2], in which t and R are the origins
    and rotations of the bodies, t~ and R~ those of their targets; R~ need not be rotations. Rotations change
    by R -> exp([theta]x) R, and derivatives are by theta at 0.

    Parameters
    ----------
    mass : (B,)
        The masses m [kg].
    moment : (B, 3, 3)
        The second moments J of the mass at rest [kg m^2].
    """

    mass: Array
    moment: Array

    def value(self, origins: Array, rotations: Array, to_origins: Array, to_rotations: Array) -> float:
        """Return the inertia term of all bodies [J s^2]."""
        shift, turn = origins - to_origins, rotations - to_rotations
        turning = np.einsum("bij,bjk,bik->", turn, self.moment, turn)
        return float(0.5 * (self.mass @ (shift**2).sum(1) + turning))

    def gradient(self, origins: Array, rotations: Array, to_origins: Array, to_rotations: Array) -> Array:
        """Return the derivatives by the origin and by the rotation vector of each body (B, 2, 3)."""
        P = rotations @ self.moment @ np.swapaxes(to_rotations, 1, 2)
        return np.stack([self.mass[:, None] * (origins - to_origins), axial_vectors(P)], axis=1)

    def hessian(self, rotations: Array, to_rotations: Array, *, project: bool = False) -> Array:
        """Return the diagonal blocks of origins and rotation vectors (B, 2, 3, 3); there are no others."""
        P = rotations @ self.moment @ np.swapaxes(to_rotations, 1, 2)
        trace = np.trace(P, axis1=1, axis2=2)
        H = trace[:, None, None] * np.eye(3) - (P + np.swapaxes(P, 1, 2)) / 2
        if project:
            H = psd_blocks(H)
        return np.stack([self.mass[:, None, None] * np.eye(3), H], axis=1)


def psd_blocks(H: Array) -> Array:
    """Return symmetric matrices (..., d, d) with their negative eigenvalues replaced by zero."""
    values, vectors = np.linalg.eigh(H)
    return np.asarray((vectors * np.maximum(values, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def rotated(rotations: Array, theta: Array) -> Array:
    """Return exp([theta]x) R of rotations R (B, 3, 3) and rotation vectors (B, 3), by Rodrigues' formula."""
    angle = np.linalg.norm(theta, axis=-1)[:, None, None]
    K = cross_matrices(theta)
    # sin a / a and (1 - cos a) / a^2 = (sin (a/2) / (a/2))^2 / 2, both accurate at 0
    first, half = np.sinc(angle / np.pi), np.sinc(angle / (2 * np.pi))
    return np.asarray(rotations + (first * K + 0.5 * half**2 * (K @ K)) @ rotations)


def angular_velocities(rotations: Array, rates: Array) -> Array:
    """Return angular velocities (B, 3) in world space, given rotations and their rates, both (B, 3, 3)."""
    return 0.5 * axial_vectors(rates @ np.swapaxes(rotations, 1, 2))
