"""Flesh: tetrahedra of stable neo-Hookean material."""

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ...checks import Array, as_reals, require_finite
from ...compute import run
from ...errors import InputError
from ...procrustes.fit import for_kernel
from ..linalg.blocks import check_stencils
from .kernels import flesh as kernels
from .kernels.viscous import ViscousElements
from .materials import lame, moduli, neo_hookean, per_element
from .viscous import Solid, simplices

__all__ = ["FleshEnergy"]

GRAIN = 1024  # tetrahedra worth a thread of their own
# ratio of the volume to the product of three edges, below which a tetrahedron is flat but for rounding
MIN_VOLUME_RATIO = 1e-10


class FleshEnergy(Solid):
    """The elastic energy of tetrahedra of stable neo-Hookean material.

    It is the material of Smith, de Goes and Kim, Stable Neo-Hookean Flesh Simulation (2018). It has finite
    energy and forces for every position, also where tetrahedra are flat or inside out, and returns to rest.
    Projected Hessians leave out the negative eigenvalues of the energy's second derivative by the
    deformation gradient.

    Parameters
    ----------
    rest : (n, 3)
        The points at rest [m].
    tets : (m, 4)
        The corners of the tetrahedra, of positive volume.
    young : float or (m,)
        Young's modulus of small strains, for all or for each tetrahedron [Pa].
    poisson : float or (m,)
        Poisson's ratio of small strains, between -1 and 0.5, for all or for each tetrahedron [1].
    damping : float or (m,)
        The ratio of viscosity to stiffness, for all or for each tetrahedron [s]. The stress of the damping is
        that of small strains, with the rate of Green's strain (F^T F - 1)/2 times this in place of the
        strain. Rigid motion is not damped.

    Attributes
    ----------
    volumes : (m,)
        The volumes of the tetrahedra at rest [m^3].

    Raises
    ------
    InputError
        If a shape is wrong, a modulus is out of its range, or a tetrahedron is flat or inside out.
    """

    def __init__(
        self,
        rest: ArrayLike,
        tets: ArrayLike,
        *,
        young: ArrayLike,
        poisson: ArrayLike,
        damping: ArrayLike = 0.0,
    ) -> None:
        points = as_reals("rest", rest).astype(np.float64)
        if points.ndim != 2 or points.shape[1] != 3:
            raise InputError(f"rest must have shape (n, 3), got shape {points.shape}")
        require_finite("rest", points)
        super().__init__(check_stencils("tets", tets, len(points)), len(points))
        cells = np.asarray(self.stencils)
        if cells.shape[1] != 4 or not len(cells):
            raise InputError(f"tets must have shape (m, 4), at least one row, got shape {cells.shape}")
        edges = np.swapaxes(points[cells[:, 1:]] - points[cells[:, :1]], 1, 2)
        det = np.linalg.det(edges)
        flat = ~(np.abs(det) > MIN_VOLUME_RATIO * np.prod(np.linalg.norm(edges, axis=1), axis=1))
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
        self._moduli = lame(*moduli(young, poisson, count))
        self.damping = per_element("damping", damping, count, lambda v: v >= 0, "at least 0 s")
        mu, lam = neo_hookean(*self._moduli)
        self._tets = kernels.Tetrahedra(
            corners=cells,
            weight_gradients=for_kernel(np.linalg.inv(edges).reshape(count, 9)),
            volume=self.volumes,
            mu=mu,
            lam=lam,
        )

    @cached_property
    def _viscous(self) -> ViscousElements:
        """The tetrahedra with the moduli of their damping [Pa s]."""
        tets = self._tets
        mu, lam = (self.damping * modulus for modulus in self._moduli)
        return simplices(tets.corners, tets.weight_gradients, tets.volume, mu, lam)

    def _values(self, x: Array, out: Array) -> None:
        run(kernels.values, len(self), 4 * GRAIN, x, self._tets, out)

    def _gradients(self, x: Array, out: Array) -> None:
        run(kernels.gradients, len(self), 4 * GRAIN, x, self._tets, out)

    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        fill = kernels.projected_hessians if project else kernels.hessians
        run(fill, len(self), GRAIN, x, self._tets, out)
