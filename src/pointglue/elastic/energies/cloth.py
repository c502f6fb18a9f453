"""Cloth: triangles that resist stretch, and hinges between them that resist bending."""

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import Array, as_reals, require_finite
from ...compute import run
from ...errors import InputError
from ...procrustes import Groups
from ...procrustes.fit import for_kernel
from ..linalg.blocks import checked_stencils
from .base import Elements
from .kernels import cloth as kernels
from .materials import lumped, per_element

__all__ = ["ClothEnergy"]

GRAIN = 2048  # elements worth a thread of their own
FLAT = 1e-10  # area, of the product of two edges, below which a triangle is a line but for rounding
# Beyond its limit cloth pulls with this many times stretch (limit - 1), times the square of how far beyond,
# in shares of limit - 1: a tenth beyond doubles the pull, a third makes it eleven times.
STIFFENING = 100.0
LEAST = 1e-4  # edges and heights that have shrunk to less of the rest edge count as this much


class ClothEnergy(Elements):
    """Elastic energy of triangles (m, 3) between points.

    `rest` is the shape without strain: positions (n, 3) or (n, 2), or, of a sewing pattern, the places in
    its plane (m, 3, 2) of the corners of each triangle; then there are as many points as the faces name,
    and the cloth is flat at rest, seams included.

    `stretch` is Young's modulus times the thickness, in N/m, and `poisson` how much of a stretch the
    cloth gives way across: the material of St. Venant and Kirchhoff. Beyond the ratio `limit`, 1.1 say, of
    length to rest length in any direction cloth stiffens rapidly: forces and stiffness stay continuous.

    `bend` is the flexural rigidity in N m: cloth of curvature c about one axis has the energy bend c^2 / 2
    per area. It is held by the angles between neighbours and hence depends on the triangles: right for
    regular ones, and for grids of right angles cut by diagonals between 1 (along the edges) and 3 times
    (along the other diagonal) as stiff. The rest angles are those of `rest`.

    Projected Hessians leave out the negative eigenvalues of a triangle's second derivative by its deformation
    gradient, and of a hinge the second derivative of its angle: that one is always indefinite, and to keep
    its positive part takes more iterations, not fewer.

    Elements are the triangles, then the hinges. `stretch`, `poisson` and `bend` may be given per triangle.
    """

    areas: Array
    """At rest (m,), in m^2."""
    faces: NDArray[np.int64]
    """(m, 3)"""
    hinges: NDArray[np.int64]
    """(h, 4): corner of one triangle, both ends of the common edge, corner of the other."""

    def __init__(
        self,
        rest: ArrayLike,
        faces: ArrayLike,
        *,
        stretch: ArrayLike,
        poisson: ArrayLike = 0.3,
        bend: ArrayLike = 0.0,
        limit: float | None = None,
    ) -> None:
        points = as_reals("rest", rest).astype(np.float64)
        require_finite("rest", points)
        if not (points.ndim == 2 and points.shape[1] in (2, 3)) and points.shape[1:] != (3, 2):
            raise InputError(f"rest must have shape (n, 3), (n, 2) or (m, 3, 2), got shape {points.shape}")
        sewn = points.ndim == 3
        count = int(np.max(faces, initial=-1)) + 1 if sewn else len(points)
        self.faces = np.asarray(checked_stencils("faces", faces, count))
        m = len(self.faces)
        if self.faces.shape[1] != 3 or not m:
            raise InputError(f"faces must have shape (m, 3), at least one row, got shape {self.faces.shape}")
        if sewn and len(points) != m:
            raise InputError(f"rest must hold the corners of {m} faces, got those of {len(points)}")
        if limit is not None and (not isinstance(limit, Real) or not 1 < limit < np.inf):
            raise InputError(f"limit must be None or a ratio of more than 1, got {limit!r}")

        flat = points if sewn else _flattened(points[self.faces])
        edges = np.swapaxes(flat[:, 1:] - flat[:, :1], 1, 2)
        det = np.abs(np.linalg.det(edges))
        bad = np.flatnonzero(~(det > FLAT * np.prod(np.linalg.norm(edges, axis=1), axis=1)))
        if len(bad):
            raise InputError(
                f"faces must have an area at rest: face {bad[0]}, {self.faces[bad[0]].tolist()}, has none"
                + (f", nor have {len(bad) - 1} more" if len(bad) > 1 else "")
            )
        self.areas = det / 2
        Y = per_element("stretch", stretch, m, lambda v: v > 0, "a positive number of N/m")
        nu = per_element("poisson", poisson, m, lambda v: np.abs(v) < 1, "between -1 and 1")
        stiffening = np.zeros(m) if limit is None else STIFFENING * Y / (limit - 1)
        most = np.full(m, np.inf if limit is None else limit)
        own = [self.areas, Y / (2 * (1 + nu)), Y * nu / (1 - nu * nu), stiffening, most]
        self._stretch = for_kernel(
            np.concatenate([np.linalg.inv(edges).reshape(m, 4), np.stack(own, axis=1)], axis=1)
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
            run(kernels.angles, len(angle), GRAIN, for_kernel(points), self.hinges, LEAST * length, angle)
        self._bend = for_kernel(np.stack([k, angle, LEAST * length], axis=1))

        sizes = np.repeat([3, 4], [m, len(self.hinges)])
        corners = np.concatenate([self.faces.ravel(), self.hinges.ravel()])
        super().__init__(Groups(np.concatenate([[0], np.cumsum(sizes)]), corners), count)

    def mass(self, density: ArrayLike) -> Array:
        """Masses (n,) in kg of a `density` in kg/m^2, one number or one per triangle."""
        return lumped(density, self.areas, self.faces, self.count)

    def predict(self, x: ArrayLike, before: ArrayLike, elements: Array) -> None:
        """Put into the exact `elements` at x the stress that the strain's slope at `before` foretold.

        That is the part of St. Venant and Kirchhoff; beyond the limit, the stress stays that at x.
        """
        m = len(self.faces)
        points, first = (self._points(name, each) for name, each in (("x", x), ("before", before)))
        out = elements[: 81 * m].reshape(m, 9, 9)
        run(kernels.predict_stress, m, 4 * GRAIN, points, first, self.faces, self._stretch, out)

    def _values(self, x: Array, out: Array) -> None:
        m, h = len(self.faces), len(self.hinges)
        run(kernels.stretch_values, m, 4 * GRAIN, x, self.faces, self._stretch, out[:m])
        run(kernels.bend_values, h, 2 * GRAIN, x, self.hinges, self._bend, out[m:])

    def _gradients(self, x: Array, out: Array) -> None:
        m, h = len(self.faces), len(self.hinges)
        first, second = out[: 3 * m].reshape(m, 3, 3), out[3 * m :].reshape(h, 4, 3)
        run(kernels.stretch_gradients, m, 4 * GRAIN, x, self.faces, self._stretch, first)
        run(kernels.bend_gradients, h, 2 * GRAIN, x, self.hinges, self._bend, second)

    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        m, h = len(self.faces), len(self.hinges)
        first, second = out[: 81 * m].reshape(m, 9, 9), out[81 * m :].reshape(h, 12, 12)
        run(kernels.stretch_hessians, m, GRAIN, x, self.faces, self._stretch, project, first)
        run(kernels.bend_hessians, h, GRAIN, x, self.hinges, self._bend, project, second)


def _flattened(corners: Array) -> Array:
    """Triangles (m, 3, d) laid into the plane, (m, 3, 2)."""
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
    """Hinges (h, 4) at the edges of two triangles, and their places (h, 2) among the sides (3 m) of all."""
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
