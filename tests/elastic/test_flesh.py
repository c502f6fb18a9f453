import numpy as np
import pytest
from checking import check_energy, check_rigid_invariance, check_threads
from numpy.testing import assert_allclose, assert_array_equal
from peers import torch
from scipy.optimize import minimize

from pointglue.elastic import FleshEnergy
from pointglue.errors import InputError
from pointglue.geometry.simplices import tet_box

YOUNG, POISSON = 2e4, 0.35
X, TETS = tet_box((1.0, 0.8, 0.6), (2, 2, 2))


def flesh(x=X, tets=TETS, young=YOUNG, poisson=POISSON):
    return FleshEnergy(x, tets, young=young, poisson=poisson)


def lame(young, poisson):
    return young / (2 * (1 + poisson)), young * poisson / ((1 + poisson) * (1 - 2 * poisson))


def printed(F, young, poisson):
    """Energy density of the paper, its equation 14, with the moduli of its section 3.4, for torch."""
    mu, lam = lame(young, poisson)
    mu, lam = 4 / 3 * mu, lam + 5 / 6 * mu
    alpha = 1 + mu / lam - mu / (4 * lam)
    square, det = (F * F).sum(), torch.linalg.det(F)
    return mu / 2 * (square - 3) + lam / 2 * (det - alpha) ** 2 - mu / 2 * torch.log(square + 1)


@pytest.mark.parametrize("poisson", [-0.3, 0.0, 0.35, 0.49])
@pytest.mark.parametrize("amplitude", [0.02, 0.5])  # the greater turns most tetrahedra inside out
def test_derivatives(rng, poisson, amplitude):
    energy = flesh(poisson=poisson)
    check_energy(energy, X + amplitude * rng.normal(size=X.shape))


def test_derivatives_at_rest():
    energy = flesh()
    assert_allclose(energy.value(X), 0, atol=1e-14 * YOUNG)
    assert_allclose(energy.gradient(X), 0, atol=1e-13 * YOUNG)
    # Nothing to project at rest.
    exact = energy.elements(X)
    assert_allclose(energy.elements(X, project=True), exact, rtol=0, atol=1e-13 * np.abs(exact).max())
    assert np.linalg.eigvalsh(exact).min() > -1e-13 * np.abs(exact).max()


def test_energy_is_that_of_the_paper(rng):
    rest = np.array([[0.1, 0, 0], [1, 0.2, 0], [0, 1.1, 0.1], [0.2, 0, 0.9]])
    energy = flesh(rest, [[0, 1, 2, 3]])
    inverse = torch.tensor(np.linalg.inv((rest[1:] - rest[0]).T))
    volume = float(energy.volumes[0])

    def oracle(x):
        F = (x[1:] - x[0]).T @ inverse
        return volume * (printed(F, YOUNG, POISSON) - printed(torch.eye(3, dtype=x.dtype), YOUNG, POISSON))

    for amplitude in (0.01, 0.3, 2.0):
        x = rest + amplitude * rng.normal(size=(4, 3))
        t = torch.tensor(x, requires_grad=True)
        assert_allclose(energy.value(x), float(oracle(t).detach()), rtol=1e-10)
        (gradient,) = torch.autograd.grad(oracle(t), t)
        scale = np.abs(gradient.numpy()).max()
        assert_allclose(energy.gradient(x), gradient.numpy(), rtol=0, atol=1e-11 * scale)
        hessian = torch.autograd.functional.hessian(oracle, t).numpy().reshape(12, 12)
        assert_allclose(energy.elements(x)[0], hessian, rtol=0, atol=1e-11 * np.abs(hessian).max())


def test_projection_clips_the_eigenvalues_by_the_deformation_gradient(rng):
    energy = flesh()
    weights = np.linalg.inv(np.swapaxes(X[TETS[:, 1:]] - X[TETS[:, :1]], 1, 2))
    weights = np.concatenate([-weights.sum(1, keepdims=True), weights], axis=1)
    to_F = np.einsum("eaj,ik->eijak", weights, np.eye(3)).reshape(-1, 9, 12)
    for amplitude in (0.02, 0.2, 1.0):
        x = X + amplitude * rng.normal(size=X.shape)
        back = np.linalg.pinv(to_F)
        values, vectors = np.linalg.eigh(np.swapaxes(back, 1, 2) @ energy.elements(x) @ back)
        assert (values < -1e-6 * values.max()).any()
        clipped = (vectors * values.clip(0)[:, None]) @ np.swapaxes(vectors, 1, 2)
        expected = np.swapaxes(to_F, 1, 2) @ clipped @ to_F
        scale = np.abs(expected).max((1, 2), keepdims=True)
        assert_allclose(energy.elements(x, project=True) / scale, expected / scale, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("young", "poisson"), [(1.0, 0.0), (2e4, 0.35), (1e6, 0.495), (3.0, -0.5)])
def test_small_strains_are_those_of_hooke(rng, young, poisson):
    energy = flesh(young=young, poisson=poisson)
    mu, lam = lame(young, poisson)
    volume = 1.0 * 0.8 * 0.6
    stiffness = energy.hessian(X)
    for _ in range(4):
        A = rng.normal(size=(3, 3))
        u, strain = (X @ A.T).ravel(), (A + A.T) / 2
        expected = volume * (lam * np.trace(strain) ** 2 + 2 * mu * np.sum(strain**2))
        assert_allclose(u @ stiffness @ u, expected, rtol=1e-11)


def test_stretched_bar_recovers_young_and_poisson():
    # Pulled along x and free across, a bar has forces at its ends only: Young's modulus times strain times
    # the area of the end, if it narrows by Poisson's ratio.
    x, tets = tet_box((1.0, 0.3, 0.2), (5, 2, 2))
    energy = FleshEnergy(x, tets, young=YOUNG, poisson=POISSON)
    strain = 1e-3
    forces = (energy.hessian(x) @ (strain * x * [1, -POISSON, -POISSON]).ravel()).reshape(-1, 3)
    end = x[:, 0] > 0.5 - 1e-9
    assert_allclose(forces[end].sum(0), [YOUNG * strain * 0.06, 0, 0], atol=1e-12 * YOUNG * strain)
    assert_allclose(forces[np.abs(x[:, 0]) < 0.5 - 1e-9], 0, atol=1e-12 * YOUNG * strain)
    # The energy itself, to the order of the strain.
    stretched = x * [1 + strain, 1 - POISSON * strain, 1 - POISSON * strain]
    assert_allclose(energy.value(stretched), YOUNG * strain**2 / 2 * 0.06, rtol=5 * strain)


def collapsed():
    return {
        "point": np.zeros_like(X),
        "line": X * [1, 0, 0],
        "plane": X * [1, 1, 0],
        "inside out": X * [1, 1, -1],
        "through the origin": -3 * X,
        "huge": 1e6 * X,
    }


@pytest.mark.parametrize("name", list(collapsed()))
def test_every_state_is_finite(name):
    x = collapsed()[name]
    energy = flesh()
    assert np.isfinite(energy.value(x))
    assert energy.value(x) > 0
    assert np.isfinite(energy.gradient(x)).all()
    projected = energy.elements(x, project=True)
    values = np.linalg.eigvalsh(projected)
    assert (values[:, 0] >= -1e-12 * values[:, -1]).all()
    assert np.isfinite(energy.elements(x)).all()


@pytest.mark.parametrize("name", ["point", "line", "plane", "inside out"])
def test_returns_to_rest(rng, name):
    x, tets = tet_box((1.0, 1.0, 1.0), (1, 1, 1))
    start = {"point": 0 * x, "line": x * [1, 0, 0], "plane": x * [1, 1, 0], "inside out": x * [1, 1, -1]}[
        name
    ]
    energy = FleshEnergy(x, tets, young=1.0, poisson=0.4)
    result = minimize(
        lambda q: (energy.value(q.reshape(-1, 3)), energy.gradient(q.reshape(-1, 3)).ravel()),
        (start + 0.01 * rng.normal(size=x.shape)).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9},
    )
    assert result.fun < 1e-10
    found = result.x.reshape(-1, 3)
    assert_allclose(
        np.linalg.norm(found[:, None] - found, axis=2), np.linalg.norm(x[:, None] - x, axis=2), atol=1e-4
    )


def test_needles_keep_their_invariance(rng):
    rest = np.array([[0, 0, 0], [1, 0, 0], [0, 1e-3, 0], [0, 0, 1e-2]])
    energy = flesh(rest, [[0, 1, 2, 3]])
    x = (rest @ np.array([[1.1, 0.2, 0], [0, 0.9, 0.1], [0, 0, 1.2]])) + 1e-4 * rng.normal(size=(4, 3))
    # Gradients by the thin side are a thousand times those by the long one.
    check_rigid_invariance(energy, x, tolerance=1e-9)


def test_materials_may_differ(rng):
    young, poisson = rng.uniform(1, 2, len(TETS)), rng.uniform(0, 0.4, len(TETS))
    x = X + 0.1 * rng.normal(size=X.shape)
    each = [flesh(X, TETS[[k]], young[k], poisson[k]).value(x) for k in range(len(TETS))]
    assert_allclose(flesh(young=young, poisson=poisson).value(x), np.sum(each), rtol=1e-13)


def test_mass():
    energy = flesh()
    assert_allclose(energy.volumes.sum(), 0.48, rtol=1e-14)
    mass = energy.mass(1000.0)
    assert mass.shape == (len(X),)
    assert_allclose(mass.sum(), 480.0, rtol=1e-13)
    corner = np.flatnonzero((X.min(0) == X).all(1))[0]
    assert_allclose(mass[corner], 1000 * energy.volumes[(corner == TETS).any(1)].sum() / 4, rtol=1e-13)
    assert_allclose(energy.mass(np.full(len(TETS), 1000.0)), mass)
    # A point of no tetrahedron has none.
    assert FleshEnergy(np.vstack([X, [9, 9, 9]]), TETS, young=1, poisson=0).mass(1.0)[-1] == 0


def test_threads(rng):
    x, tets = tet_box((1, 1, 1), (11, 12, 11))
    check_threads(flesh(x, tets), x + 0.02 * rng.normal(size=x.shape))


def test_an_element_does_not_depend_on_the_others(rng):
    x = X + 0.1 * rng.normal(size=X.shape)
    all_of_them = flesh().elements(x, project=True)
    for k in (0, 7, 40):
        assert_array_equal(flesh(X, TETS[k:]).elements(x, project=True), all_of_them[k:])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tets": TETS[:, [1, 0, 2, 3]]}, r"tet 0, \[.*\], is inside out .*; 47 more"),
        ({"tets": [[0, 1, 2, 1]]}, r"tet 0, \[0, 1, 2, 1\], is flat"),
        ({"x": X * [1, 1, 0]}, "positive volume at rest: tet 0"),
        ({"tets": TETS[:, :3]}, r"tets must have shape \(m, 4\)"),
        ({"tets": np.empty((0, 4), int)}, "at least one row"),
        ({"tets": [[0, 1, 2, 99]]}, "tets must name some of 27 points, got 99"),
        ({"x": X[:, :2]}, r"rest must have shape \(n, 3\)"),
        ({"x": X * np.nan}, "rest must be finite"),
        ({"young": np.nan}, "young must be a positive number of Pa, got nan"),
        ({"young": 0.0}, "young must be a positive number of Pa, got 0.0"),
        ({"young": [1.0, 2.0]}, "young must be one number, or one for each of 48 elements"),
        ({"young": np.r_[np.ones(47), -1]}, "got -1.0 at element 47"),
        ({"poisson": 0.5}, "poisson must be between -1 and 0.5, got 0.5"),
        ({"poisson": -1.0}, "poisson must be between -1 and 0.5"),
        ({"poisson": np.nan}, "poisson must be between -1 and 0.5, got nan"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(InputError, match=message):
        flesh(**change)


def test_bad_points():
    with pytest.raises(InputError, match="x must have shape"):
        flesh().gradient(X[1:])
    with pytest.raises(InputError, match="density must be a positive number, got nan"):
        flesh().mass(np.nan)
