"""Cloth: triangles that resist stretch, and hinges between them that resist bending."""

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import Array, as_reals, check_real, require_finite
from ...compute import run
from ...errors import InputError
from ...procrustes import Groups
from ...procrustes.fit import for_kernel
from ..linalg.blocks import check_stencils
from .base import Elements
from .kernels import cloth as kernels
from .kernels import viscous as viscous_kernels
from .kernels.viscous import ViscousElements
from .materials import lumped, per_element
from .viscous import simplices, viscous_elements

__all__ = ["ClothEnergy"]

GRAIN = 2048  # elements worth a thread of their own
# ratio of the area to the product of two edges, below which a triangle is a line but for rounding
MIN_AREA_RATIO = 1e-10
# ratio: beyond its limit cloth pulls with this many times stretch (limit - 1), times the square of the excess
# in units of limit - 1. A tenth beyond doubles the pull, a third makes it eleven times.
LIMIT_STIFFENING = 100.0
# ratio of the rest edge: edges and heights that have shrunk below it count as this much where they divide
MIN_LENGTH_RATIO = 1e-4


class ClothEnergy(Elements):
    """The elastic energy of cloth: triangles that resist stretch, hinges between them that resist bending.

    Triangles are of the material of St. Venant and Kirchhoff. Bending is measured by the angles between
    neighbours and hence depends on the triangles: right for regular ones, and for grids of right angles cut
    by diagonals between 1 (along the edges) and 3 times (along the other diagonal) as stiff.

    Projected Hessians leave out the negative eigenvalues of a triangle's second derivative by its deformation
    gradient, and the second derivative of a hinge's angle, which is always indefinite: to keep its positive
    part takes more iterations, not fewer. Elements are the triangles, then the hinges.

    Parameters
    ----------
    rest : (n, 3), (n, 2) or (m, 3, 2)
        The shape without strain [m]: the points, whose angles are those at rest; or, of a sewing pattern, the
        corners of each triangle in its plane. Then there are as many points as the faces name, and the
        cloth is flat at rest, seams included.
    faces : (m, 3)
        The corners of the triangles.
    stretch : float or (m,)
        Young's modulus times the thickness, for all or for each triangle [N/m].
    poisson : float or (m,)
        Poisson's ratio, between -1 and 1 [1].
    bend : float or (m,)
        The flexural rigidity [N m]: cloth of curvature c about one axis has the energy bend c^2 / 2 per area.
    limit : float, optional
        The ratio of length to rest length, in any direction, beyond which cloth stiffens rapidly [1]; forces
        and stiffness stay continuous.
    damping : float or (m,)
        The ratio of viscosity to stiffness, of stretch and of bending, for all or for each triangle [s]. It
        resists changes of Green's strain and of the angles between triangles; rigid motion is not damped.

    Attributes
    ----------
    areas : (m,)
        The areas of the triangles at rest [m^2].
    faces : (m, 3)
        The corners of the triangles.
    hinges : (h, 4)
        The corner of one triangle, both ends of the common edge, the corner of the other triangle.

    Raises
    ------
    InputError
        If a shape is wrong, a number is out of its range, a triangle has no area at rest, or more than two
        triangles meet at an edge.
    """

    areas: Array
    faces: NDArray[np.int64]
    hinges: NDArray[np.int64]

    def __init__(
        self,
        rest: ArrayLike,
        faces: ArrayLike,
        *,
        stretch: ArrayLike,
        poisson: ArrayLike = 0.3,
        bend: ArrayLike = 0.0,
        limit: float | None = None,
        damping: ArrayLike = 0.0,
    ) -> None:
        points = as_reals("rest", rest).astype(np.float64)
        require_finite("rest", points)
        if not (points.ndim == 2 and points.shape[1] in (2, 3)) and points.shape[1:] != (3, 2):
            raise InputError(f"rest must have shape (n, 3), (n, 2) or (m, 3, 2), got shape {points.shape}")
        sewn = points.ndim == 3
        count = int(np.max(faces, initial=-1)) + 1 if sewn else len(points)
        self.faces = np.asarray(check_stencils("faces", faces, count))
        m = len(self.faces)
        if self.faces.shape[1] != 3 or not m:
            raise InputError(f"faces must have shape (m, 3), at least one row, got shape {self.faces.shape}")
        if sewn and len(points) != m:
            raise InputError(f"rest must hold the corners of {m} faces, got those of {len(points)}")
        if limit is not None:
            check_real("limit", limit, above=1)

        flat = points if sewn else _flattened(points[self.faces])
        edges = np.swapaxes(flat[:, 1:] - flat[:, :1], 1, 2)
        det = np.abs(np.linalg.det(edges))
        bad = np.flatnonzero(~(det > MIN_AREA_RATIO * np.prod(np.linalg.norm(edges, axis=1), axis=1)))
        if len(bad):
            raise InputError(
                f"faces must have an area at rest: face {bad[0]}, {self.faces[bad[0]].tolist()}, has none"
                + (f", nor have {len(bad) - 1} more" if len(bad) > 1 else "")
            )
        self.areas = det / 2
        Y = per_element("stretch", stretch, m, lambda v: v > 0, "a positive number of N/m")
        nu = per_element("poisson", poisson, m, lambda v: np.abs(v) < 1, "between -1 and 1")
        stiffening = np.zeros(m) if limit is None else LIMIT_STIFFENING * Y / (limit - 1)
        most = np.full(m, np.inf if limit is None else limit)
        self._triangles = kernels.Triangles(
            corners=self.faces,
            weight_gradients=for_kernel(np.linalg.inv(edges).reshape(m, 4)),
            area=self.areas,
            mu=Y / (2 * (1 + nu)),
            lam=Y * nu / (1 - nu * nu),
            stiffening=stiffening,
            limit=most,
        )

        hinges, sides = _hinges(self.faces)
        rigidity = per_element("bend", bend, m, lambda v: v >= 0, "at least 0 N m")
        if not rigidity.any():
            hinges, sides = hinges[:0], sides[:0]
        self.hinges = for_kernel(hinges)
        across = np.linalg.norm(flat[:, [1, 2, 0]] - flat[:, [2, 0, 1]], axis=2).reshape(-1)
        length = across[sides].mean(1)
        both = sides // 3
        k = rigidity[both].mean(1) * length**2 / self.areas[both].sum(1)
        angle = np.zeros(len(self.hinges))
        if not sewn and points.shape[1] == 3:
            floor = MIN_LENGTH_RATIO * length
            run(kernels.angles, len(angle), GRAIN, for_kernel(points), self.hinges, floor, angle)
        self._hinges = kernels.Hinges(self.hinges, k, angle, MIN_LENGTH_RATIO * length)
        self.damping = per_element("damping", damping, m, lambda v: v >= 0, "at least 0 s")
        self._hinge_damping = self.damping[both].mean(1) * k

        sizes = np.repeat([3, 4], [m, len(self.hinges)])
        corners = np.concatenate([self.faces.ravel(), self.hinges.ravel()])
        super().__init__(Groups(np.concatenate([[0], np.cumsum(sizes)]), corners), count)

    def mass(self, density: ArrayLike) -> Array:
        """Return the masses of the points.

        Parameters
        ----------
        density : float or (m,)
            The mass per area, for all or for each triangle [kg/m^2].

        Returns
        -------
        (n,)
            The masses [kg].
        """
        return lumped(density, self.areas, self.faces, self.count)

    def predict(self, x: ArrayLike, before: ArrayLike, elements: Array) -> None:
        """Replace the stress in the exact Hessians at x by the one that a linear step has foreseen.

        A linearised rotation stretches elements to second order; that stress is spurious and removed here, so
        that Newton's method takes fewer steps to the same end. It is the stress of St. Venant and Kirchhoff;
        the stress beyond the limit is not changed.

        Parameters
        ----------
        x : (n, 3)
            The points [m].
        before : (n, 3)
            The points before the last Newton step [m].
        elements : (k,)
            The element Hessians at x, see :meth:`elements`, which are changed in place [N/m].
        """
        m = len(self.faces)
        points, first = (self._points(name, each) for name, each in (("x", x), ("before", before)))
        out = elements[: 81 * m].reshape(m, 9, 9)
        run(kernels.predict_stress, m, 4 * GRAIN, points, first, self._triangles, out)

    @property
    def damped(self) -> bool:
        """Whether there is any damping."""
        return bool(self.damping.any())

    def dissipation(
        self, slope: float, x: ArrayLike, past: ArrayLike | None = None, extrapolation: float = 0.0
    ) -> "ClothDissipation":
        """Return the potential of the damping forces of one step, see `Damped.dissipation`."""
        points, before = self._points("x", x), None if past is None else self._points("past", past)
        triangles = viscous_elements(self._viscous, slope, points, before, extrapolation)
        angles = self._angles(points)
        if before is not None:
            # The short way round; a reference beyond half a turn is the same angle as one within.
            turned = np.mod(angles - self._angles(before) + np.pi, 2 * np.pi) - np.pi
            angles = np.mod(angles + extrapolation * turned + np.pi, 2 * np.pi) - np.pi
        hinges = self._hinges._replace(stiffness=slope * self._hinge_damping, rest_angle=angles)
        return ClothDissipation(self, triangles, hinges)

    @cached_property
    def _viscous(self) -> ViscousElements:
        """The triangles with the moduli of their damping [N s/m]."""
        each = self._triangles
        mu, lam = self.damping * each.mu, self.damping * each.lam
        return simplices(each.corners, each.weight_gradients, each.area, mu, lam)

    def _angles(self, x: Array) -> Array:
        """Return the angles of the hinges (h,) [rad]."""
        angle = np.empty(len(self.hinges))
        run(kernels.angles, len(angle), GRAIN, x, self.hinges, self._hinges.min_length, angle)
        return angle

    def _values(self, x: Array, out: Array) -> None:
        m, h = len(self.faces), len(self.hinges)
        run(kernels.stretch_values, m, 4 * GRAIN, x, self._triangles, out[:m])
        run(kernels.bend_values, h, 2 * GRAIN, x, self._hinges, out[m:])

    def _gradients(self, x: Array, out: Array) -> None:
        m, h = len(self.faces), len(self.hinges)
        first, second = out[: 3 * m].reshape(m, 3, 3), out[3 * m :].reshape(h, 4, 3)
        run(kernels.stretch_gradients, m, 4 * GRAIN, x, self._triangles, first)
        run(kernels.bend_gradients, h, 2 * GRAIN, x, self._hinges, second)

    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        m, h = len(self.faces), len(self.hinges)
        first, second = out[: 81 * m].reshape(m, 9, 9), out[81 * m :].reshape(h, 12, 12)
        run(kernels.stretch_hessians, m, GRAIN, x, self._triangles, project, first)
        run(kernels.bend_hessians, h, GRAIN, x, self._hinges, project, second)


class ClothDissipation(Elements):
    """The damping of cloth in one step: by the rates of Green's strain and of the angles of hinges.

    Parameters
    ----------
    cloth : ClothEnergy
        The cloth.
    triangles : ViscousElements
        The elements that stretch.
    hinges : Hinges
        The elements that bend, at rest at the angles that rates are told from.
    """

    def __init__(self, cloth: ClothEnergy, triangles: ViscousElements, hinges: kernels.Hinges) -> None:
        super().__init__(cloth)
        self._triangles, self._hinges = triangles, hinges

    def predict(self, x: ArrayLike, before: ArrayLike, elements: Array) -> None:
        """Replace the stress in the exact Hessians at x, see :meth:`ClothEnergy.predict`."""
        m = len(self._triangles.corners)
        points, first = (self._points(name, each) for name, each in (("x", x), ("before", before)))
        out = elements[: 81 * m].reshape(m, 9, 9)
        run(viscous_kernels.predict_stress, m, 4 * GRAIN, points, first, self._triangles, out)

    def _values(self, x: Array, out: Array) -> None:
        m, h = len(self._triangles.corners), len(self._hinges.corners)
        run(viscous_kernels.values, m, 4 * GRAIN, x, self._triangles, out[:m])
        run(kernels.bend_values, h, 2 * GRAIN, x, self._hinges, out[m:])

    def _gradients(self, x: Array, out: Array) -> None:
        m, h = len(self._triangles.corners), len(self._hinges.corners)
        first, second = out[: 3 * m].reshape(m, 3, 3), out[3 * m :].reshape(h, 4, 3)
        run(viscous_kernels.gradients, m, 4 * GRAIN, x, self._triangles, first)
        run(kernels.bend_gradients, h, 2 * GRAIN, x, self._hinges, second)

    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        m, h = len(self._triangles.corners), len(self._hinges.corners)
        first, second = out[: 81 * m].reshape(m, 9, 9), out[81 * m :].reshape(h, 12, 12)
        run(viscous_kernels.hessians, m, GRAIN, x, self._triangles, project, first)
        run(kernels.bend_hessians, h, GRAIN, x, self._hinges, project, second)


def _flattened(corners: Array) -> Array:
    """Return triangles (m, 3, d) laid into the plane, (m, 3, 2)."""
    if corners.shape[2] == 2:
        return corners
    first, second = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    length = np.linalg.norm(first, axis=1)
    twice = np.linalg.norm(np.cross(first, second), axis=1)
    flat = np.zeros((len(corners), 3, 2))
    safe = np.where(length > 0, length, 1.0)
    flat[:, 1, 0] = length
    flat[:, 2, 0], flat[:, 2, 1] = np.einsum("md,md->m", first, second) / safe, twice / safe
    return flat


def _hinges(faces: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the hinges (h, 4) at edges of two triangles, and their sides (h, 2) among all 3 m sides."""
    ends = faces[:, [[1, 2], [2, 0], [0, 1]]].reshape(-1, 2)
    _, edge, uses = np.unique(np.sort(ends, axis=1), axis=0, return_inverse=True, return_counts=True)
    crowded = np.flatnonzero(uses > 2)
    order = np.argsort(edge, kind="stable")
    first = np.cumsum(uses) - uses
    if len(crowded):
        sides = order[first[crowded[0]] :][: uses[crowded[0]]]
        raise InputError(
            f"faces must meet two at an edge, got {len(sides)} at {ends[sides[0]].tolist()}: "
            f"faces {(sides // 3).tolist()}"
        )
    sides = order[first[uses == 2][:, None] + [0, 1]]
    tips = faces.reshape(-1)[sides]
    same = np.flatnonzero(tips[:, 0] == tips[:, 1])
    if len(same):
        raise InputError(f"faces must differ, got the same points in faces {(sides[same[0]] // 3).tolist()}")
    return np.column_stack([tips[:, 0], ends[sides[:, 0]], tips[:, 1]]), sides
