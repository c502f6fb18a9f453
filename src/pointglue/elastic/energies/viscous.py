"""The viscous damping of elements whose strain is Green's: of flesh, hexahedra and cloth."""

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...checks import Array
from ...compute import run
from ...procrustes.fit import for_kernel
from .base import Elements
from .kernels import viscous as kernels
from .kernels.viscous import ViscousElements
from .materials import lumped

__all__ = ["Solid", "ViscousDissipation", "simplices", "viscous_elements"]

GRAIN = 1024  # elements worth a thread of their own


def simplices(
    corners: NDArray[np.int64], weight_gradients: Array, size: Array, mu: Array, lam: Array
) -> ViscousElements:
    """Return elements of one integration point: tetrahedra (m = 3) or triangles (m = 2).

    Parameters
    ----------
    corners : (N, m + 1)
        The points of each.
    weight_gradients : (N, m m)
        The gradients of the weights of all corners but the first [1/m].
    size : (N,)
        The volumes or areas at rest [m^m].
    mu : (N,)
        The shear modulus times the damping [Pa s, of triangles N s/m].
    lam : (N,)
        The second modulus times the damping, likewise.

    Returns
    -------
    ViscousElements
        The elements, whose reference is not filled in.
    """
    count, m = len(corners), corners.shape[1] - 1
    others = weight_gradients.reshape(count, m, m)
    gradients = np.concatenate([-others.sum(1, keepdims=True), others], axis=1)[:, None]
    return ViscousElements(
        corners=for_kernel(corners),
        weight_gradients=for_kernel(gradients),
        weight=for_kernel(size[:, None]),
        mu=for_kernel(mu[:, None]),
        lam=for_kernel(lam[:, None]),
        reference=np.empty((count, 1, m, m)),
    )


def viscous_elements(
    elements: ViscousElements, scale: float, x: Array, past: Array | None, extrapolation: float
) -> ViscousElements:
    """Return the elements of one step's damping, see `Damped.dissipation`.

    Parameters
    ----------
    elements : ViscousElements
        The elements, with moduli times their damping [Pa s]; their reference is not read.
    scale : float
        The derivative of velocities by positions [1/s].
    x : (n, 3)
        The points at the beginning of the step [m].
    past : (n, 3) or None
        The points one step before [m].
    extrapolation : float
        The weight of the step before [1].

    Returns
    -------
    ViscousElements
    """
    reference = _strains(elements, x)
    if past is not None:
        reference += extrapolation * (reference - _strains(elements, past))
    return elements._replace(mu=scale * elements.mu, lam=scale * elements.lam, reference=reference)


def _strains(elements: ViscousElements, x: Array) -> Array:
    """Return Green's strain at all integration points (N, Q, m, m)."""
    count, points, _, m = elements.weight_gradients.shape
    out = np.empty((count, points, m, m))
    run(kernels.strains, count, 4 * GRAIN, x, elements, out)
    return out


class ViscousDissipation(Elements):
    """The damping of an energy in one step, by the rate of Green's strain.

    Parameters
    ----------
    energy : Elements
        The energy.
    elements : ViscousElements
        Its elements, see `viscous_elements`.
    """

    def __init__(self, energy: Elements, elements: ViscousElements) -> None:
        super().__init__(energy)
        self._elements = elements

    def _values(self, x: Array, out: Array) -> None:
        run(kernels.values, len(self), 4 * GRAIN, x, self._elements, out)

    def _gradients(self, x: Array, out: Array) -> None:
        run(kernels.gradients, len(self), 4 * GRAIN, x, self._elements, out)

    def _hessians(self, x: Array, project: bool, out: Array) -> None:
        run(kernels.hessians, len(self), GRAIN, x, self._elements, project, out)


class Solid(Elements):
    """An energy of elements with a volume, which give its points their mass and may be viscous.

    Attributes
    ----------
    volumes : (m,)
        The volumes of material in the elements at rest [m^3].
    damping : (m,)
        The ratios of viscosity to stiffness [s].
    """

    volumes: Array
    damping: Array

    @property
    @abstractmethod
    def _viscous(self) -> ViscousElements:
        """The elements with the moduli of their damping [Pa s]."""

    @property
    def damped(self) -> bool:
        """Whether there is any damping."""
        return bool(self.damping.any())

    def dissipation(
        self, slope: float, x: ArrayLike, past: ArrayLike | None = None, extrapolation: float = 0.0
    ) -> ViscousDissipation:
        """Return the potential of the damping forces of one step, see `Damped.dissipation`."""
        before = None if past is None else self._points("past", past)
        elements = viscous_elements(self._viscous, slope, self._points("x", x), before, extrapolation)
        return ViscousDissipation(self, elements)

    def mass(self, density: ArrayLike) -> Array:
        """Return the masses of the points.

        Parameters
        ----------
        density : float or (m,)
            The density, for all or for each element [kg/m^3].

        Returns
        -------
        (n,)
            The masses [kg].
        """
        return lumped(density, self.volumes, np.asarray(self.stencils), self.count)
