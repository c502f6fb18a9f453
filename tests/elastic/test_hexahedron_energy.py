import numpy as np
import pytest
from checking import check_dissipation, check_energy, check_rigid_invariance, check_threads
from numpy.testing import assert_allclose, assert_array_equal
from peers import torch
from scipy.optimize import minimize

from pointglue.elastic import HexahedronEnergy
from pointglue.errors import InputError
from pointglue.geometry.simplices import hex_box

YOUNG, POISSON = 2e4, 0.35
X, HEXAHEDRA = hex_box((1.0, 0.8, 0.6), (2, 2, 2))
RNG = np.random.default_rng(11)
DISTORTED = X + 0.06 * RNG.uniform(-1, 1, X.shape)
# The corners of a cube from -1 to 1, in the order of VTK, written out as an oracle.
CUBE = np.array(
    [[-1, -1, -1], [1, -1, -1], [1, 1, -1], [-1, 1, -1], [-1, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]],
    float,
)


def solid(x=X, hexahedra=HEXAHEDRA, young=YOUNG, poisson=POISSON, **options):
    return HexahedronEnergy(x, hexahedra, young=young, poisson=poisson, **options)


def lame(young, poisson):
    return young / (2 * (1 + poisson)), young * poisson / ((1 + poisson) * (1 - 2 * poisson))


@pytest.mark.parametrize("poisson", [-0.3, 0.0, 0.35, 0.49])
@pytest.mark.parametrize("amplitude", [0.02, 0.5])  # the greater turns most hexahedra inside out
@pytest.mark.parametrize("rest", [X, DISTORTED])
def test_derivatives(rng, rest, poisson, amplitude):
    check_energy(solid(rest, poisson=poisson), rest + amplitude * rng.normal(size=X.shape))


@pytest.mark.parametrize("rest", [X, DISTORTED])
def test_derivatives_at_rest(rest):
    energy = solid(rest)
    assert_allclose(energy.value(rest), 0, atol=1e-14 * YOUNG)
    assert_allclose(energy.gradient(rest), 0, atol=1e-13 * YOUNG)
    # Nothing to project at rest.
    exact = energy.elements(rest)
    assert_allclose(energy.elements(rest, project=True), exact, rtol=0, atol=1e-13 * np.abs(exact).max())
    assert np.linalg.eigvalsh(exact).min() > -1e-13 * np.abs(exact).max()


def test_projection_is_exact_where_no_term_is_negative(rng):
    # Stretched along x, narrower by a little less than it would be and not bent, the material pulls in all
    # directions: every term is positive, and is left alone.
    x = X * [1.1, 0.97, 0.97]
    energy = solid()
    exact = energy.elements(x)
    assert np.linalg.eigvalsh(exact).min() > -1e-12 * np.abs(exact).max()
    assert_allclose(energy.elements(x, project=True), exact, rtol=0, atol=1e-12 * np.abs(exact).max())
    # What it removes elsewhere is negative: the rest is at least the exact one.
    for amplitude in (0.02, 0.2, 1.0):
        x = X + amplitude * rng.normal(size=X.shape)
        exact, projected = energy.elements(x), energy.elements(x, project=True)
        assert np.linalg.eigvalsh(exact).min() < -1e-6 * np.abs(exact).max()
        assert np.linalg.eigvalsh(projected - exact).min() > -1e-12 * np.abs(exact).max()


def test_energy_is_its_formula(rng):
    """Linear maps have the energy of the material, of which torch knows the formula; others have more."""
    rest = CUBE * [0.3, 0.2, 0.25] + 0.02 * rng.normal(size=(8, 3))
    energy = solid(rest, [np.arange(8)])
    # Mean gradients by three points along each coordinate, one more than the code uses.
    nodes, weights = np.polynomial.legendre.leggauss(3)
    mean, volume = np.zeros((8, 3)), 0.0
    for i in range(3):
        for j in range(3):
            for k in range(3):
                place = np.array([nodes[i], nodes[j], nodes[k]])
                factor = 1 + CUBE * place
                slopes = np.stack([CUBE[:, c] * factor[:, c - 2] * factor[:, c - 1] / 8 for c in range(3)], 1)
                jacobian = rest.T @ slopes
                share = weights[i] * weights[j] * weights[k] * np.linalg.det(jacobian)
                volume += share
                mean += share * slopes @ np.linalg.inv(jacobian)
    mean /= volume
    assert_allclose(energy.volumes, volume, rtol=1e-12)
    mu, lam = lame(YOUNG, POISSON)
    mu, lam = 4 / 3 * mu, lam + 5 / 6 * mu

    def oracle(x):
        F = x.T @ torch.tensor(mean)
        square, det = (F * F).sum(), torch.linalg.det(F)
        return volume * (
            mu / 2 * (square - 3 - torch.log((square + 1) / 4))
            + lam / 2 * (det - 1) ** 2
            - 0.75 * mu * (det - 1)
        )

    # Affine maps have the energy of the mean gradient alone, whatever the hourglass stiffness.
    for _ in range(3):
        x = rest @ (np.eye(3) + 0.3 * rng.normal(size=(3, 3))).T + rng.normal(size=3)
        assert_allclose(energy.value(x), float(oracle(torch.tensor(x))), rtol=1e-10)
    # Any other map has more.
    for _ in range(3):
        x = rest + 0.1 * rng.normal(size=(8, 3))
        assert energy.value(x) > float(oracle(torch.tensor(x)))


@pytest.mark.parametrize(("young", "poisson"), [(1.0, 0.0), (2e4, 0.35), (1e6, 0.495), (3.0, -0.5)])
def test_hourglass_stiffness_of_boxes(young, poisson):
    """Bending and twist of one box against the strain energy of plane stress, integrated by hand."""
    half = np.array([0.5, 0.15, 0.3])
    rest = CUBE * half
    energy = solid(rest, [np.arange(8)], young, poisson)
    K = energy.hessian(rest).toarray()
    shear, volume = young / (2 * (1 + poisson)), 8 * half.prod()

    def work(u):
        return u.ravel() @ K @ u.ravel()

    for i, j in ((0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)):
        k = 3 - i - j
        # Fibres along i, longer the farther they are along j, and narrower along k by Poisson's ratio.
        u = np.zeros((8, 3))
        u[:, i] = CUBE[:, i] * CUBE[:, j]
        u[:, k] = -poisson * half[k] / half[i] * CUBE[:, k] * CUBE[:, j]
        assert_allclose(work(u), volume * young / half[i] ** 2 / 3, rtol=1e-11)
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        # Twist about k: sections turn in proportion to their distance, and do not warp.
        u = np.zeros((8, 3))
        u[:, i] = -CUBE[:, k] * half[k] * CUBE[:, j] * half[j]
        u[:, j] = CUBE[:, k] * half[k] * CUBE[:, i] * half[i]
        assert_allclose(work(u), volume * shear * (half[i] ** 2 + half[j] ** 2) / 3, rtol=1e-11)
        # The last mode: the bending of fibres along k changes its sign across the element.
        u = np.zeros((8, 3))
        u[:, k] = CUBE.prod(1)
        assert_allclose(work(u), volume * young / half[k] ** 2 / 9, rtol=1e-11)


@pytest.mark.parametrize(("young", "poisson"), [(1.0, 0.0), (2e4, 0.35), (1e6, 0.495), (3.0, -0.5)])
@pytest.mark.parametrize("rest", [X, DISTORTED])
def test_small_strains_are_those_of_hooke(rng, rest, young, poisson):
    energy = solid(rest, young=young, poisson=poisson)
    mu, lam = lame(young, poisson)
    stiffness = energy.hessian(rest)
    for _ in range(4):
        A = rng.normal(size=(3, 3))
        u, strain = (rest @ A.T).ravel(), (A + A.T) / 2
        expected = energy.volumes.sum() * (lam * np.trace(strain) ** 2 + 2 * mu * np.sum(strain**2))
        assert_allclose(u @ stiffness @ u, expected, rtol=1e-11)


@pytest.mark.parametrize(
    "x",
    [np.zeros_like(X), X * [1, 0, 0], X * [1, 1, 0], X * [1, 1, -1], -3 * X, 1e6 * X],
    ids=["point", "line", "plane", "inside out", "through the origin", "huge"],
)
def test_every_state_is_finite(x):
    energy = solid()
    assert np.isfinite(energy.value(x))
    assert energy.value(x) > 0
    assert np.isfinite(energy.gradient(x)).all()
    values = np.linalg.eigvalsh(energy.elements(x, project=True))
    assert (values[:, 0] >= -1e-12 * values[:, -1]).all()
    assert np.isfinite(energy.elements(x)).all()


@pytest.mark.parametrize("flat", [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, -1]])
def test_returns_to_rest(rng, flat):
    x, hexahedra = hex_box((1.0, 1.0, 1.0), (1, 1, 1))
    energy = HexahedronEnergy(x, hexahedra, young=1.0, poisson=0.4)
    result = minimize(
        lambda q: (energy.value(q.reshape(-1, 3)), energy.gradient(q.reshape(-1, 3)).ravel()),
        (x * flat + 0.01 * rng.normal(size=x.shape)).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9},
    )
    assert result.fun < 1e-10
    found = result.x.reshape(-1, 3)
    distances = [np.linalg.norm(points[:, None] - points, axis=2) for points in (found, x)]
    assert_allclose(*distances, atol=1e-4)


def test_needles_keep_their_invariance(rng):
    rest = CUBE * [1.0, 1e-3, 1e-2]
    energy = solid(rest, [np.arange(8)])
    x = rest @ np.array([[1.1, 0.2, 0], [0, 0.9, 0.1], [0, 0, 1.2]]) + 1e-4 * rng.normal(size=(8, 3))
    # Gradients by the thin side are a thousand times those by the long one.
    check_rigid_invariance(energy, x, tolerance=1e-9)


def test_fill_scales_an_element(rng):
    fill = rng.uniform(0.02, 1, len(HEXAHEDRA))
    x = X + 0.1 * rng.normal(size=X.shape)
    each = [solid(X, HEXAHEDRA[[k]]).value(x) for k in range(len(HEXAHEDRA))]
    energy = solid(fill=fill)
    assert_allclose(energy.value(x), fill @ each, rtol=1e-13)
    assert_allclose(energy.elements(x), fill[:, None, None] * solid().elements(x), rtol=1e-11)
    assert_allclose(energy.volumes, 0.06 * fill, rtol=1e-13)
    assert_allclose(energy.mass(1000.0).sum(), 60 * fill.sum(), rtol=1e-13)


def test_materials_may_differ(rng):
    young, poisson = rng.uniform(1, 2, len(HEXAHEDRA)), rng.uniform(0, 0.4, len(HEXAHEDRA))
    x = X + 0.1 * rng.normal(size=X.shape)
    each = [solid(X, HEXAHEDRA[[k]], young[k], poisson[k]).value(x) for k in range(len(HEXAHEDRA))]
    assert_allclose(solid(young=young, poisson=poisson).value(x), np.sum(each), rtol=1e-13)


def test_mass():
    energy = solid()
    assert_allclose(energy.volumes.sum(), 0.48, rtol=1e-14)
    mass = energy.mass(1000.0)
    assert mass.shape == (len(X),)
    assert_allclose(mass.sum(), 480.0, rtol=1e-13)
    corner = np.flatnonzero((X.min(0) == X).all(1))[0]
    assert_allclose(mass[corner], 1000 * 0.06 / 8, rtol=1e-13)
    # A point of no hexahedron has none.
    loose = HexahedronEnergy(np.vstack([X, [9, 9, 9]]), HEXAHEDRA, young=1, poisson=0)
    assert loose.mass(1.0)[-1] == 0


def test_threads(rng):
    x, hexahedra = hex_box((1, 1, 1), (12, 12, 11))
    check_threads(solid(x, hexahedra), x + 0.02 * rng.normal(size=x.shape))


def test_an_element_does_not_depend_on_the_others(rng):
    x = X + 0.1 * rng.normal(size=X.shape)
    all_of_them = solid().elements(x, project=True)
    for k in (0, 3, 5):
        assert_array_equal(solid(X, HEXAHEDRA[k:]).elements(x, project=True), all_of_them[k:])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"hexahedra": HEXAHEDRA[:, [1, 0, 3, 2, 5, 4, 7, 6]]},
            r"hexahedron 0, \[.*\], is inside out .*; 7 more",
        ),
        # Corners counted by rows, as some lattices have them.
        ({"hexahedra": HEXAHEDRA[:, [0, 1, 3, 2, 4, 5, 7, 6]]}, "is inside out"),
        ({"x": X * [1, 1, 0]}, "positive volume at each corner at rest: hexahedron 0, .*, is flat"),
        ({"hexahedra": HEXAHEDRA[:, :4]}, r"hexahedra must have shape \(m, 8\)"),
        ({"hexahedra": np.empty((0, 8), int)}, "at least one row"),
        ({"hexahedra": [[0, 1, 2, 3, 4, 5, 6, 99]]}, "hexahedra must name some of 27 points, got 99"),
        ({"x": X[:, :2]}, r"rest must have shape \(n, 3\)"),
        ({"x": X * np.nan}, "rest must be finite"),
        ({"young": 0.0}, "young must be a positive number of Pa, got 0.0"),
        ({"poisson": 0.5}, "poisson must be between -1 and 0.5, got 0.5"),
        ({"fill": 0.0}, "fill must be above 0 and at most 1, got 0.0"),
        ({"fill": 1.1}, "fill must be above 0 and at most 1, got 1.1"),
        ({"fill": [0.5, 0.5]}, "fill must be one number, or one for each of 8 elements"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(InputError, match=message):
        solid(**change)


@pytest.mark.parametrize("poisson", [0.0, 0.35, 0.49])
@pytest.mark.parametrize("rest", [X, DISTORTED])
def test_damping(rng, rest, poisson):
    energy = solid(rest, poisson=poisson, damping=0.2)
    check_dissipation(energy, rest + 0.1 * rng.normal(size=X.shape))
    assert not solid().damped


@pytest.mark.parametrize("poisson", [0.0, 0.3, 0.49])
def test_damping_is_in_proportion_to_stiffness(rng, poisson):
    """For small strains, to the last digit for linear deformations, and for cubes that bend."""
    rest, hexahedra = hex_box((0.4, 0.4, 0.4), (1, 1, 1))
    energy = HexahedronEnergy(rest, hexahedra, young=YOUNG, poisson=poisson, damping=0.2)
    K, C = energy.hessian(rest), energy.dissipation(1.0, rest).hessian(rest)
    bent = np.zeros_like(rest)
    bent[:, 0] = rest[:, 0] * rest[:, 1]
    bent[:, 2] = -poisson * rest[:, 2] * rest[:, 1]
    for u in (rest @ rng.normal(size=(3, 3)), bent):
        stiff, viscous = (u.ravel() @ matrix @ u.ravel() for matrix in (K, C))
        # A cube that bends widens as well; the damping of that is not exact.
        assert_allclose(viscous, 0.2 * stiff, rtol=1e-11 if u is not bent else 0.35)
