"""Solids of hexahedra, and of tetrahedra, against beam theory, exact fields and values of the literature."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_bvp
from scipy.sparse.linalg import spsolve

from pointglue.elastic import FleshEnergy, HexahedronEnergy
from pointglue.geometry.simplices import hex_box, tet_box

LENGTH, SIDE, YOUNG, DENSITY, GRAVITY = 1.0, 0.06, 1e7, 500.0, 9.81


def linear(energy, rest, loads, fixed, given=0.0):
    """Small displacements (n, 3): `loads` (n, 3) are forces, `given` the displacements where `fixed` says."""
    free = ~fixed.ravel()
    K = energy.hessian(rest).tocsc()
    u = np.where(fixed, given, 0.0).ravel()
    u[free] = spsolve(K[free][:, free], (loads.ravel() - K @ u)[free])
    return u.reshape(-1, 3)


def equilibrium(energy, rest, loads, pinned):
    """Where points (n, 3) come to rest under forces: Newton's method with a line search."""
    x, free = rest.copy(), np.repeat(~pinned, 3)
    scale = np.abs(loads).max()

    def potential(x):
        return energy.value(x) - np.sum(loads * x)

    for _ in range(80):
        g = (energy.gradient(x) - loads).ravel()[free]
        if np.abs(g).max() < 1e-9 * scale:
            return x
        step = np.zeros(x.size)
        step[free] = -spsolve(energy.hessian(x).tocsc()[free][:, free], g)
        share, before = 1.0, potential(x)
        # Energies of about 1 J: a rise by their rounding is none.
        while share > 1e-3 and potential(x + share * step.reshape(x.shape)) > before + 1e-12:
            share /= 2
        x = x + share * step.reshape(x.shape)
    raise AssertionError("no equilibrium")


def elastica(poisson):
    """The deflection of the tip of the cantilever [m]: Reissner's beam, which turns, stretches and shears.

    Its sections are small against its length, its deflection is not: theory of small deflections would have
    w L^4 / (8 E I) = 0.2044 m, 3 % more.
    """
    area, inertia = SIDE**2, SIDE**4 / 12
    weight = DENSITY * area * GRAVITY
    shear = 10 * (1 + poisson) / (12 + 11 * poisson) * YOUNG / (2 * (1 + poisson)) * area

    def slope(s, y):
        angle, moment = y[:2]
        force = -weight * (LENGTH - s)  # of the part beyond, downwards
        stretch, slide = 1 + force * np.sin(angle) / (YOUNG * area), force * np.cos(angle) / shear
        dx = stretch * np.cos(angle) - slide * np.sin(angle)
        dy = stretch * np.sin(angle) + slide * np.cos(angle)
        return np.array([moment / (YOUNG * inertia), -dx * force, dx, dy])

    s = np.linspace(0, LENGTH, 51)
    start = np.array([0 * s, 0 * s, s, 0 * s])
    found = solve_bvp(slope, lambda a, b: np.array([a[0], b[1], a[2], a[3]]), s, start, tol=1e-8)
    assert found.success
    return found.y[3, -1]


def cantilever(cells, poisson, *, box=hex_box, energy=HexahedronEnergy):
    """The displacement of the tip of a bar under its own weight, clamped at the other end."""
    rest, elements = box((LENGTH, SIDE, SIDE), (10 * cells, cells, cells))
    bar = energy(rest, elements, young=YOUNG, poisson=poisson)
    loads = bar.mass(DENSITY)[:, None] * [0, -GRAVITY, 0]
    x = equilibrium(bar, rest, loads, rest[:, 0] < -LENGTH / 2 + 1e-9)
    tip = rest[:, 0] > LENGTH / 2 - 1e-9
    return (x - rest)[tip].mean(0)


@pytest.mark.parametrize(("cells", "tolerance"), [(1, 0.05), (2, 0.05), (4, 0.02)])
def test_cantilever(cells, tolerance):
    tip = cantilever(cells, 0.3)
    assert_allclose(tip[1], elastica(0.3), rtol=tolerance)
    assert abs(tip[2]) < 1e-9  # rounding: nothing bends it sideways


@pytest.mark.parametrize("poisson", [0.49, 0.495])
@pytest.mark.parametrize("cells", [1, 2])
def test_nearly_incompressible_cantilever(cells, poisson):
    tip = cantilever(cells, poisson)
    assert_allclose(tip[1], elastica(poisson), rtol=0.1)
    assert abs(tip[2]) < 1e-9


def test_tetrahedra_of_boxes_do_not_bend_sideways():
    assert abs(cantilever(2, 0.3, box=tet_box, energy=FleshEnergy)[2]) < 1e-9


@pytest.mark.parametrize("distortion", [0.0, 0.2])
def test_patch(rng, distortion):
    """A linear deformation, small or large, leaves inner points without forces, whatever the elements."""
    rest, hexahedra = hex_box((1.0, 0.8, 0.6), (3, 3, 3))
    rest = rest + distortion * rng.uniform(-0.5, 0.5, rest.shape) * [1 / 3, 0.8 / 3, 0.2]
    inner = (np.bincount(hexahedra.ravel()) == 8).nonzero()[0]
    assert len(inner) == 8
    for poisson in (0.0, 0.3, 0.499):
        energy = HexahedronEnergy(rest, hexahedra, young=1e5, poisson=poisson)
        for size in (1e-3, 0.3):
            forces = energy.gradient(rest @ (np.eye(3) + size * rng.normal(size=(3, 3))).T)
            assert np.abs(forces[inner]).max() < 1e-12 * np.abs(forces).max()


@pytest.mark.parametrize("cells", [(1, 1, 1), (2, 1, 1), (3, 2, 2)])
@pytest.mark.parametrize("distortion", [0.0, 0.3])
@pytest.mark.parametrize("poisson", [0.0, 0.3, 0.495])
def test_only_rigid_motions_are_free(rng, cells, distortion, poisson):
    rest, hexahedra = hex_box((1.0, 1.0, 1.0), cells)
    rest = rest + distortion * rng.uniform(-0.5, 0.5, rest.shape) / cells
    values = np.linalg.eigvalsh(
        HexahedronEnergy(rest, hexahedra, young=1.0, poisson=poisson).hessian(rest).toarray()
    )
    assert (np.abs(values[:6]) < 1e-12 * values[-1]).all()
    # The softest mode of all is the bending of three cells; shear is a hundred times softer at 0.495.
    assert values[6] > 1e-5 * values[-1]


def harmonic(points):
    """The gradient of exp(x) sin(y/sqrt 2) sin(z/sqrt 2), in equilibrium without forces in any material."""
    x, y, z = points.T * [[1.0], [np.sqrt(0.5)], [np.sqrt(0.5)]]
    fields = [np.sin(y) * np.sin(z), np.cos(y) * np.sin(z) / np.sqrt(2), np.sin(y) * np.cos(z) / np.sqrt(2)]
    return (np.exp(x) * fields).T


@pytest.mark.parametrize(("box", "energy"), [(hex_box, HexahedronEnergy), (tet_box, FleshEnergy)])
@pytest.mark.parametrize("poisson", [0.0, 0.3])
def test_order_of_convergence(box, energy, poisson):
    """Displacements converge with the square of the size of elements."""
    errors = []
    for cells in (4, 8):
        rest, elements = box((1.0, 1.2, 0.8), (cells, cells, cells))
        surface = (np.abs(rest) > np.array([0.5, 0.6, 0.4]) - 1e-9).any(1)
        solid = energy(rest, elements, young=1.0, poisson=poisson)
        exact = harmonic(rest)
        u = linear(solid, rest, 0 * rest, np.repeat(surface[:, None], 3, axis=1), exact)
        error = u[elements].mean(1) - harmonic(rest[elements].mean(1))  # at the centroids of elements
        errors.append(np.sqrt(np.mean(error**2)))
    assert errors[1] < 1e-3
    assert_allclose(np.log2(errors[0] / errors[1]), 2, atol=0.1)


@pytest.mark.parametrize(("cells", "tolerance"), [(4, 0.05), (8, 0.015), (16, 0.005)])
def test_cooks_membrane(cells, tolerance):
    """A tapered panel under shear, in plane stress.

    The middle of the loaded edge moves by 23.96 (Simo and Rifai 1990; Belytschko and Bindeman 1991); with
    incompatible modes by 23.02 at 4 x 4 elements.
    """
    grid, hexahedra = hex_box((1.0, 1.0, 1.0), (cells, cells, 1))
    s, t, z = (grid + 0.5).T
    rest = np.stack([48 * s, 44 * s + t * (44 - 28 * s), z], axis=1)
    panel = HexahedronEnergy(rest, hexahedra, young=1.0, poisson=1 / 3)
    edge = s > 1 - 1e-9
    loads = np.zeros_like(rest)
    loads[edge, 1] = np.where(np.abs(t[edge] - 0.5) > 0.5 - 1e-9, 0.5, 1.0) / (2 * cells)
    fixed = np.stack([s < 1e-9, s < 1e-9, z < 1e-9], axis=1)
    u = linear(panel, rest, loads, fixed)
    assert_allclose(u[edge & (np.abs(t - 0.5) < 1e-9), 1], 23.96, rtol=tolerance)


@pytest.mark.parametrize(("axis", "deflection"), [(2, 5.424e-3), (1, 1.754e-3)])
def test_twisted_beam(axis, deflection):
    """A cantilever that is twisted by a right angle, of warped elements, under a unit force at its tip.

    The deflections are those of MacNeal and Harder (1985), for loads in the plane of the tip and out of it.
    """
    grid, hexahedra = hex_box((1.0, 1.0, 1.0), (12, 2, 1))
    s = grid[:, 0] + 0.5
    y, z, angle = 1.1 * grid[:, 1], 0.32 * grid[:, 2], s * np.pi / 2
    rest = np.stack(
        [12 * s, y * np.cos(angle) - z * np.sin(angle), y * np.sin(angle) + z * np.cos(angle)], axis=1
    )
    beam = HexahedronEnergy(rest, hexahedra, young=29e6, poisson=0.22)
    tip = s > 1 - 1e-9
    loads = np.zeros_like(rest)
    loads[tip, axis] = np.where(np.abs(grid[tip, 1]) < 0.1, 2, 1) / 8
    u = linear(beam, rest, loads, np.repeat((s < 1e-9)[:, None], 3, axis=1))
    assert_allclose(u[tip, axis].mean(), deflection, rtol=0.015)


@pytest.mark.parametrize("poisson", [0.3, 0.49])
def test_torsion_of_a_square_bar(poisson):
    """The torque of Saint-Venant, 0.140577 G a^4 per unit of twist, for sections that may warp.

    It converges with the square of the size of elements, from above.
    """
    errors = []
    for cells in (2, 4):
        rest, hexahedra = hex_box((3.0, 1.0, 1.0), (2 * cells, cells, cells))
        bar = HexahedronEnergy(rest, hexahedra, young=1e4, poisson=poisson)
        ends = np.abs(rest[:, 0]) > 1.5 - 1e-9
        fixed = np.stack([(np.abs(rest) < 1e-9).all(1), ends, ends], axis=1)
        given = 1e-3 * rest[:, :1] * np.stack([0 * rest[:, 0], -rest[:, 2], rest[:, 1]], axis=1)
        u = linear(bar, rest, 0 * rest, fixed, given)
        forces = (bar.hessian(rest) @ u.ravel()).reshape(-1, 3)
        end = rest[:, 0] > 1.5 - 1e-9
        torque = np.sum(rest[end, 1] * forces[end, 2] - rest[end, 2] * forces[end, 1])
        errors.append(torque / (1e-3 * 0.140577 * 1e4 / (2 * (1 + poisson))) - 1)
    assert 0 < errors[1] < 0.06
    assert errors[0] > 3 * errors[1]
