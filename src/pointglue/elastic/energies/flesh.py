"""Flesh: tetrahedra of stable neo-Hookean material."""

import numpy as np
from numpy.typing import ArrayLike

from ...checks import Array, as_reals, require_finite
from ...compute import run
from ...errors import InputError
from ...procrustes.fit import for_kernel
from ..linalg.blocks import checked_stencils
from .base import Elements
from .kernels import flesh as kernels
from .materials import lumped, per_element

__all__ = ["FleshEnergy"]

GRAIN = 1024  # tetrahedra worth a thread of their own
FLAT = 1e-10  # volume, of the product of three edges, below which a tetrahedron is flat but for rounding


class FleshEnergy(Elements):
    """Elastic energy of tetrahedra (m, 4) between points whose rest positions are (n, 3).

    `young` (Pa) and `poisson`, each one number or one per tetrahedron, are the moduli of small strains; the
    material is that of Smith, de Goes and Kim, Stable Neo-Hookean Flesh Simulation (2018). It has finite
    energy and forces for every position, also where tetrahedra are flat or inside out, and returns to rest.
    Projected Hessians leave out the negative eigenvalues of the energy's second derivative by the
    deformation gradient.
    """

    volumes: Array
    """At rest (m,), in m^3."""

    def __init__(self, rest: ArrayLike, tets: ArrayLike, *, young: ArrayLike, poisson: ArrayLike) -> None:
        points = as_reals("rest", rest).astype(np.float64)
        if points.ndim != 2 or points.shape[1] != 3:
            raise InputError(f"rest must have shape (n, 3), got shape {points.shape}")
        require_finite("rest", points)
        super().__init__(checked_stencils("tets", tets, len(points)), len(points))
        cells = np.asarray(self.stencils)
        if cells.shape[1] != 4 or not len(cells):
            raise InputError(f"tets must have shape (m, 4), at least one row, got shape {cells.shape}")
        edges = np.swapaxes(points[cells[:, 1:]] - points[cells[:, :1]], 1, 2)
        det = np.linalg.det(edges)
        flat = ~(np.abs(det) > FLAT * np.prod(np.linalg.norm(edges, axis=1), axis=1))
        bad = np.flatnonzero(flat | (det < 0))
        if len(bad):
            first = bad[0]
            what = "is flat" if flat[first] else "is inside out (swap two of its corners)"
            raise InputError(
                f"tets must have a positive volume at rest: tet {first}, {cells[first].tolist()}, {what}"
                + (f"; {len(bad) - 1} more are not right" if len(bad) > 1 else "")
            )
        self.volumes = det / 6.0
        count = len(cells)
        E = per_element("young", young, count, lambda v: v > 0, "a positive number of Pa")
        nu = per_element("poisson", poisson, count, lambda v: (v > -1) & (v < 0.5), "between -1 and 0.5")
        mu, lam = E / (2 * (1 + nu)), E * nu / ((1 + nu) * (1 - 2 * nu))
        # The energy's own two numbers that make its small strains those of mu and lambda.
        inverse = np.linalg.inv(edges).reshape(count, 9)
        own = np.stack([self.volumes, 4 / 3 * mu, lam + 5 / 6 * mu], axis=1)
        self._data = for_kernel(np.concatenate([inverse, own], axis=1))

    def mass(self, density: ArrayLike) -> Array:
        """Masses (n,) in kg of a `density` in kg/m^3, one number or one per tetrahedron."""
        return lumped(density, self.volumes, np.asarray(self.stencils), self.count)

    def _values(self, x: Array, out: Array) -> None:
        run(kernels.values, len(self), 4 * GRAIN, x, self.stencils, self._data, out)

    def _gradients(self, x: Array, out: Array) -> None:
        run(kernels.gradients, len(self), 4 * GRAIN, x, self.stencils, self._data, out)

    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        fill = kernels.projected_hessians if project else kernels.hessians
        run(fill, len(self), GRAIN, x, self.stencils, self._data, out)
