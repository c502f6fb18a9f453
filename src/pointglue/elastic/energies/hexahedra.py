"""Solids of hexahedra of stable neo-Hookean material, which bend as they should."""

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import Array, as_reals, require_finite
from ...compute import run
from ...errors import InputError
from ...geometry.simplices import CUBE_CORNERS
from ...procrustes.fit import for_kernel
from ..linalg.blocks import check_stencils
from .kernels import hexahedra as kernels
from .kernels.viscous import ViscousElements
from .materials import lame, moduli, neo_hookean, per_element
from .viscous import Solid

__all__ = ["HexahedronEnergy"]

GRAIN = 256  # hexahedra worth a thread of their own
# ratio of the volume at a corner to the product of its three edges, below which it is flat but for rounding
MIN_VOLUME_RATIO = 1e-10
# Where the corners are in the cube from -1 to 1 of a hexahedron's own coordinates.
CORNERS = 2 * CUBE_CORNERS - 1
# From a corner to its neighbours along each of the three coordinates.
FLIPS = np.array([[-1, 1, 1], [1, -1, 1], [1, 1, -1]])
# The four functions that are not linear in those coordinates, at the corners: yz, zx, xy and xyz.
HOURGLASS = np.stack([*(np.delete(CORNERS, c, axis=1).prod(1) for c in range(3)), CORNERS.prod(1)])
# Share of the isotropic stiffness that is left to be so: the rest of the stiffness stays definite.
ISOTROPIC_SHARE = 0.99


class HexahedronEnergy(Solid):
    """The elastic energy of hexahedra of stable neo-Hookean material.

    It is the material of :class:`FleshEnergy`, at the mean deformation gradient of each hexahedron. What
    this does not see (hourglass modes: an element that bends, twists or warps) has an energy of its own, that
    of assumed strains without parasitic shear and without change of volume. So a single layer of elements
    bends as a beam does, the material may be nearly incompressible, and only rigid motions are free. Every
    linear deformation is exact, also of distorted elements. Displacements converge with the square of the
    elements' size.

    Energy and forces are finite for every position.

    Parameters
    ----------
    rest : (n, 3)
        The points at rest [m].
    hexahedra : (m, 8)
        The corners of the hexahedra: four around the lower side, counter-clockwise seen from above, then
        the four above them, as in VTK files.
    young : float or (m,)
        Young's modulus of small strains, for all or for each hexahedron [Pa].
    poisson : float or (m,)
        Poisson's ratio of small strains, between -1 and 0.5, for all or for each hexahedron [1].
    fill : float or (m,)
        The share of each hexahedron that is filled with material, above 0 and at most 1. Stiffness and mass
        are in proportion to it.
    damping : float or (m,)
        The ratio of viscosity to stiffness, for all or for each hexahedron [s]; see :class:`FleshEnergy`.

    Attributes
    ----------
    volumes : (m,)
        The volumes of material in the hexahedra at rest [m^3].

    Raises
    ------
    InputError
        If a shape is wrong, a number is out of its range, or a hexahedron is flat or inside out at a corner.
    """

    def __init__(
        self,
        rest: ArrayLike,
        hexahedra: ArrayLike,
        *,
        young: ArrayLike,
        poisson: ArrayLike,
        fill: ArrayLike = 1.0,
        damping: ArrayLike = 0.0,
    ) -> None:
        points = as_reals("rest", rest).astype(np.float64)
        if points.ndim != 2 or points.shape[1] != 3:
            raise InputError(f"rest must have shape (n, 3), got shape {points.shape}")
        require_finite("rest", points)
        super().__init__(check_stencils("hexahedra", hexahedra, len(points)), len(points))
        cells = np.asarray(self.stencils)
        if cells.shape[1] != 8 or not len(cells):
            raise InputError(f"hexahedra must have shape (m, 8), at least one row, got shape {cells.shape}")
        corners = points[cells]
        _check_corners(corners, cells)
        count = len(cells)
        E, nu = moduli(young, poisson, count)
        share = per_element("fill", fill, count, lambda v: (v > 0) & (v <= 1), "above 0 and at most 1")
        self.damping = per_element("damping", damping, count, lambda v: v >= 0, "at least 0 s")
        volumes, gradients = _mean_gradients(corners)
        self.volumes = share * volumes
        self._rest, self._moduli = corners, (E, nu)
        mu, lam = neo_hookean(*lame(E, nu))
        # The weights of the hourglass modes, without their part that is linear in space.
        linear = np.einsum("ka,mai->mki", HOURGLASS, corners)
        hourglass = (HOURGLASS - np.einsum("mki,mia->mka", linear, gradients)) / 8
        stiffness = _hourglass_stiffness(corners, E, nu) * self.volumes[:, None, None]
        stabilisation = _stabilisation(stiffness)
        diagonal = np.arange(12)
        stiffness[:, diagonal, diagonal] -= np.repeat(stabilisation, 3, axis=1)
        self._hexahedra = kernels.Hexahedra(
            corners=cells,
            modes=for_kernel(np.concatenate([gradients, hourglass], axis=1)),
            mu=mu * self.volumes,
            lam=lam * self.volumes,
            hourglass=for_kernel(stiffness),
            stabilisation=for_kernel(stabilisation),
        )

    @cached_property
    def _viscous(self) -> ViscousElements:
        """The hexahedra with the moduli of their damping [Pa s].

        Change of volume is damped at the centre, shear at eight points. There the hourglass gradients are
        scaled so that a cube that bends is damped as it is stiff, in spite of parasitic shear.
        """
        mu, lam = (self.damping * modulus for modulus in lame(*self._moduli))
        modes = self._hexahedra.modes  # (m, 7, 8)
        scale = np.sqrt(2 * (1 + self._moduli[1]) / 3)
        slopes = scale[:, None, None, None] * _hourglass_gradients(self._rest)
        gradients = np.repeat(np.swapaxes(modes[:, None, :3], 2, 3), 9, axis=1)  # (m, 9, 8, 3)
        gradients[:, 1:] += np.einsum("mka,mqki->mqai", modes[:, 3:], slopes)
        share = np.array([1.0] + 8 * [1 / 8])
        centre = np.array([1.0] + 8 * [0.0])
        return ViscousElements(
            corners=self._hexahedra.corners,
            weight_gradients=for_kernel(gradients),
            weight=for_kernel(self.volumes[:, None] * share),
            mu=for_kernel(mu[:, None] * (1 - centre)),
            lam=for_kernel(lam[:, None] * centre),
            reference=np.empty((len(self), 9, 3, 3)),
        )

    def _values(self, x: Array, out: Array) -> None:
        run(kernels.values, len(self), 4 * GRAIN, x, self._hexahedra, out)

    def _gradients(self, x: Array, out: Array) -> None:
        run(kernels.gradients, len(self), 4 * GRAIN, x, self._hexahedra, out)

    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        fill = kernels.projected_hessians if project else kernels.hessians
        run(fill, len(self), GRAIN, x, self._hexahedra, out)


def _check_corners(corners: Array, cells: NDArray[np.int64]) -> None:
    """Raise unless the hexahedra (m, 8, 3) have a positive volume at each of their corners."""
    along = [
        int(np.flatnonzero((corner * sign == CORNERS).all(1))[0]) for corner in CORNERS for sign in FLIPS
    ]
    edges = (corners[:, along].reshape(-1, 8, 3, 3) - corners[:, :, None]) * -CORNERS[:, :, None]
    det = np.linalg.det(edges)
    flat = ~(np.abs(det) > MIN_VOLUME_RATIO * np.prod(np.linalg.norm(edges, axis=3), axis=2))
    bad = np.flatnonzero((flat | (det < 0)).any(1))
    if len(bad):
        first = bad[0]
        what = "is inside out" if (det[first] < 0).any() else "is flat"
        raise InputError(
            f"hexahedra must have a positive volume at each corner at rest: hexahedron {first}, "
            f"{cells[first].tolist()}, {what} (corners go around the lower side, then around the upper one)"
            + (f"; {len(bad) - 1} more are not right" if len(bad) > 1 else "")
        )


def _mean_gradients(corners: Array) -> tuple[Array, Array]:
    """Return the volumes (m,) and the means of the gradients of the weights of corners (m, 3, 8).

    Both are integrals of polynomials of third degree in each coordinate, for which two points each suffice.
    """
    volumes, sums = np.zeros(len(corners)), np.zeros((len(corners), 3, 8))
    for place in CORNERS / np.sqrt(3.0):
        factors = 1 + CORNERS * place
        slopes = np.stack(
            [CORNERS[:, c] * np.delete(factors, c, axis=1).prod(1) / 8 for c in range(3)]
        )  # (3, 8): derivatives of the weights by the coordinates
        jacobian = np.einsum("ca,mai->mci", slopes, corners)
        det = np.linalg.det(jacobian)
        volumes += det
        sums += det[:, None, None] * np.linalg.solve(jacobian, np.broadcast_to(slopes, (len(corners), 3, 8)))
    return volumes, sums / volumes[:, None, None]


def _hourglass_gradients(corners: Array) -> Array:
    """Return the gradients (m, 8, 4, 3) of the hourglass modes at eight points inside [1/m].

    Along the shorter ones of the edges they are those of the longest, which a mode would lock by otherwise.
    """
    edges = np.einsum("ac,mai->mci", CORNERS, corners) / 8
    dual = np.swapaxes(np.linalg.inv(edges), 1, 2)
    length = np.linalg.norm(edges, axis=2)
    out = np.zeros((len(corners), 8, 4, 3))
    for q, place in enumerate(CORNERS / np.sqrt(3.0)):
        for k in range(4):
            along = [c for c in range(3) if c != k]  # the coordinates of mode k; all three of the last
            for c in along:
                others = float(np.prod([place[d] for d in along if d != c]))
                share = length[:, c] / length[:, along].max(1)
                out[:, q, k] += others * share[:, None] * dual[:, c]
    return out


def _hourglass_stiffness(corners: Array, young: Array, poisson: Array) -> Array:
    """Return the second derivative of the hourglass energy by the vectors q, per volume (m, 12, 12) [Pa/m^2].

    With a_c half the edges of the element at its centre and g_c their dual vectors, the trilinear deformation
    q_1 yz + q_2 zx + q_3 xy + q_4 xyz has the gradient

        x (q_3 g_2^T + q_2 g_3^T) + ... + yz q_4 g_1^T + ...

    The term with x has the energy of plane stress across g_1: strains x v g_1^T, which relax it, are those of
    the displacement x^2 v / 2, that elements would have if they had more points. In the same way the term
    with yz has uniaxial stress along a_1. The means of x^2 and (yz)^2 are 1/3 and 1/9, those of all products
    of two such factors are zero.
    """
    edges = np.einsum("ac,mai->mci", CORNERS, corners) / 8
    dual = np.swapaxes(np.linalg.inv(edges), 1, 2)
    count = len(corners)
    total = np.zeros((count, 4, 3, 4, 3))
    for k, m, n in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        normal = dual[:, k] / np.linalg.norm(dual[:, k], axis=1, keepdims=True)
        within = np.eye(3) - normal[:, :, None] * normal[:, None, :]
        one, other = (np.einsum("eij,ej->ei", within, dual[:, c]) for c in (m, n))
        # The gradient q_n g_m^T + q_m g_n^T within the plane, as a linear map of q.
        gradient = np.zeros((count, 3, 3, 4, 3))
        gradient[:, :, :, n] = np.einsum("eir,ej->eijr", within, one)
        gradient[:, :, :, m] = np.einsum("eir,ej->eijr", within, other)
        strain = (gradient + np.swapaxes(gradient, 1, 2)) / 2
        trace = np.einsum("eiikr->ekr", strain)
        shear = young / (1 + poisson) / 3
        spread = young * poisson / (1 - poisson**2) / 3
        total += np.einsum("e,eijkr,eijls->ekrls", shear, strain, strain)
        total += np.einsum("e,ekr,els->ekrls", spread, trace, trace)
        length = np.linalg.norm(edges[:, k], axis=1)
        along = edges[:, k] / length[:, None] ** 2
        total[:, 3, :, 3] += np.einsum("e,ei,ej->eij", young / 9, along, along)
    return total.reshape(count, 12, 12)


def _stabilisation(stiffness: Array) -> Array:
    """Return the isotropic part (m, 4) of hourglass stiffnesses (m, 12, 12) that leaves a semidefinite rest.

    It does not depend on how the element is stretched, and is there also where the element is flat.
    """
    blocks = stiffness.reshape(-1, 4, 3, 4, 3)
    mean = np.einsum("mkrkr->mk", blocks) / 3
    scale = np.repeat(1 / np.sqrt(mean), 3, axis=1)
    least = np.linalg.eigvalsh(stiffness * scale[:, :, None] * scale[:, None, :])[:, 0]
    return np.asarray(ISOTROPIC_SHARE * least[:, None] * mean)
