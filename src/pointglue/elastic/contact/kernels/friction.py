"""Lagged friction: smooth Coulomb friction whose normal forces and tangent planes are those of one moment.

A contact with the velocity u = (1 - n n^T) (sum_i c_i v_i + w) along its tangent plane has the potential
p f0(|u|), p = mu times the normal force, with the speed e below which surfaces count as sticking and y = |u|,

    f0 = y^2 / e (1 - y / (3 e)) + e / 3 for y < e,    f0 = y beyond it.

w is how the surface of a ball or capsule that keys turn moves about its centre or axis. Velocities are
slope * (x - reference); the energy of a step is the potential divided by the slope.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....checks import Array
from ....compute import kernel
from .barrier import barrier

__all__ = ["Slides", "lag", "slide_gradients", "slide_hessians", "slide_values"]


class Slides(NamedTuple):
    """Contacts with friction: K of them, and the law."""

    points: NDArray[np.int64]
    """(K, 4): the vertices; -1 where there are fewer than four."""
    coefficients: Array
    """(K, 4): c."""
    normal: Array
    """(K, 3): n."""
    drift: Array
    """(K, 3): w / slope, the way of turning surfaces in the step [m]."""
    pressure: Array
    """(K,): p, the coefficient of friction times the normal force [N]."""
    slip: float
    """e [m/s]."""
    slope: float
    """The derivative of velocities by positions [1/s]."""


@kernel
def lag(start, stop, contacts, shape, friction, normal, pressure):
    """Fill in the normals (K, 3) and friction forces (K,) of contacts; nearly parallel edges have none.

    `friction` (K,) are their coefficients.
    """
    for k in range(start, stop):
        length = math.sqrt(contacts.squared[k])
        for a in range(3):
            normal[k, a] = contacts.separation[k, a] / length
        force = -2.0 * length * barrier(contacts.squared[k], contacts.radius[k], shape)[1]
        pressure[k] = friction[k] * contacts.weight[k] * force if contacts.threshold[k] == 0.0 else 0.0


@kernel
def _velocity(x, reference, slides, k):
    """Return the velocity u of a contact along its tangent plane."""
    u0, u1, u2 = slides.drift[k, 0], slides.drift[k, 1], slides.drift[k, 2]
    for i in range(4):
        p = slides.points[k, i]
        if p >= 0:
            c = slides.coefficients[k, i]
            u0 += c * (x[p, 0] - reference[p, 0])
            u1 += c * (x[p, 1] - reference[p, 1])
            u2 += c * (x[p, 2] - reference[p, 2])
    n0, n1, n2 = slides.normal[k, 0], slides.normal[k, 1], slides.normal[k, 2]
    along = u0 * n0 + u1 * n1 + u2 * n2
    return (
        slides.slope * (u0 - along * n0),
        slides.slope * (u1 - along * n1),
        slides.slope * (u2 - along * n2),
    )


@kernel
def _rate(y, slip):
    """Return f0'(y) / y."""
    return 1.0 / y if y >= slip else (2.0 - y / slip) / slip


@kernel
def slide_values(start, stop, x, reference, slides, out):
    """Fill in the energy (K,) of each contact, p f0 / slope."""
    for k in range(start, stop):
        u = _velocity(x, reference, slides, k)
        y, e = math.sqrt(u[0] * u[0] + u[1] * u[1] + u[2] * u[2]), slides.slip
        f = y if y >= e else y * y / e * (1.0 - y / (3.0 * e)) + e / 3.0
        out[k] = slides.pressure[k] * f / slides.slope


@kernel
def slide_gradients(start, stop, x, reference, slides, out):
    """Fill in the gradient (K, 4, 3), p f0' / y c (x) u."""
    for k in range(start, stop):
        u = _velocity(x, reference, slides, k)
        y = math.sqrt(u[0] * u[0] + u[1] * u[1] + u[2] * u[2])
        scale = slides.pressure[k] * _rate(y, slides.slip)
        for i in range(4):
            for a in range(3):
                out[k, i, a] = scale * slides.coefficients[k, i] * u[a]


@kernel
def slide_hessians(start, stop, x, reference, slides, out):
    """Fill in the Hessian (K, 12, 12), c c^T (x) K, which is positive semidefinite.

    K = slope p (f0' / y (1 - n n^T) + (f0'' - f0' / y) u u^T / y^2).
    """
    block = np.empty((3, 3))
    for k in range(start, stop):
        u = _velocity(x, reference, slides, k)
        squared = u[0] * u[0] + u[1] * u[1] + u[2] * u[2]
        y, e = math.sqrt(squared), slides.slip
        rate = _rate(y, e)
        bend = 0.0 if y >= e else 2.0 * (1.0 - y / e) / e
        fall = (bend - rate) / squared if squared > 0.0 else 0.0
        scale = slides.slope * slides.pressure[k]
        for a in range(3):
            for b in range(3):
                flat = (1.0 if a == b else 0.0) - slides.normal[k, a] * slides.normal[k, b]
                block[a, b] = scale * (rate * flat + fall * u[a] * u[b])
        for i in range(4):
            for j in range(4):
                c = slides.coefficients[k, i] * slides.coefficients[k, j]
                for a in range(3):
                    for b in range(3):
                        out[k, 3 * i + a, 3 * j + b] = c * block[a, b]
