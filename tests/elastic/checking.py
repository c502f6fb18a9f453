"""What every energy must satisfy, whatever it is: used by the tests of each of them."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.transform import Rotation

import pointglue as pg
from pointglue.elastic import Damped


def derivative(f, h):
    """f'(0) by central differences of fourth order."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def directions(x, number=4, seed=7):
    """Random directions of unit length in the space of points x."""
    all_of_them = np.random.default_rng(seed).normal(size=(number, *x.shape))
    return all_of_them / np.linalg.norm(all_of_them, axis=(1, 2), keepdims=True)


def check_derivatives(energy, x, *, step=1e-3, tolerance=1e-8):
    """Gradient and exact Hessian against differences.

    `step`, times the size of the body, should keep away from kinks. Their error is about step^4 + eps / step.
    """
    h = step * size_of(x)
    gradient, hessian = energy.gradient(x), energy.hessian(x)
    assert gradient.shape == x.shape
    assert hessian.shape == (x.size, x.size)
    for d in directions(x):
        slope = derivative(lambda s, d=d: energy.value(x + s * d), h)
        assert abs(slope - np.sum(gradient * d)) <= tolerance * (
            np.linalg.norm(gradient) + energy.value(x) / size_of(x)
        )
        change = derivative(lambda s, d=d: energy.gradient(x + s * d), h)
        error = change.ravel() - hessian @ d.ravel()
        assert np.linalg.norm(error) <= tolerance * np.linalg.norm(change)


def check_hessians(energy, x):
    """Symmetric, of one sparsity, the sum of the elements; the projected one has no negative part."""
    exact, projected = energy.hessian(x), energy.hessian(x, project=True)
    scale = np.abs(exact.data).max(initial=0)
    assert abs(exact - exact.T).max() <= 1e-13 * scale
    assert_array_equal(exact.indices, projected.indices)
    assert_array_equal(exact.indptr, projected.indptr)
    assert_array_equal(exact.indices, energy.hessian(1.1 * x).indices)
    for project, whole in ((False, exact), (True, projected)):
        each = energy.elements(x, project=project)
        taken = energy.elements(x, project=project, out=np.full_like(each, np.nan))
        assert_array_equal(each, taken)
        assert_allclose(whole.toarray(), summed(energy, each), rtol=0, atol=1e-13 * scale)
    for H in matrices(energy, energy.elements(x, project=True)):
        assert np.abs(H - H.T).max() <= 1e-13 * np.abs(H).max(initial=0)
        # Rounding of an eigenvalue: eps times the largest.
        values = np.linalg.eigvalsh(H)
        assert values[0] >= -1e-12 * values[-1]
    for before, H in zip(
        matrices(energy, energy.elements(x)), matrices(energy, energy.elements(x, project=True)), strict=True
    ):
        values = np.linalg.eigvalsh(before)
        if values[0] > 1e-12 * values[-1]:  # nothing to project
            assert_allclose(H, before, rtol=0, atol=1e-12 * values[-1])


def check_rigid_invariance(energy, x, *, tolerance=1e-11):
    """Value kept, gradient turned, no net force and no net torque, Hessian turned."""
    rng = np.random.default_rng(3)
    d = x.shape[1]
    R = (
        Rotation.random(rng=rng).as_matrix()
        if d == 3
        else Rotation.from_rotvec([0, 0, 2]).as_matrix()[:2, :2]
    )
    moved = x @ R.T + size_of(x) * rng.normal(size=d)
    gradient = energy.gradient(x)
    scale = np.abs(gradient).max()
    assert_allclose(energy.value(moved), energy.value(x), rtol=tolerance)
    assert_allclose(energy.gradient(moved), gradient @ R.T, rtol=0, atol=tolerance * scale)
    assert_allclose(gradient.sum(0), 0, atol=tolerance * scale * len(x))
    assert_allclose(torque(x - x.mean(0), gradient), 0, atol=tolerance * scale * len(x) * size_of(x))
    turn = np.kron(np.eye(len(x)), R)
    for project in (False, True):
        H = energy.hessian(x, project=project).toarray()
        turned = energy.hessian(moved, project=project).toarray()
        assert_allclose(turned, turn @ H @ turn.T, rtol=0, atol=10 * tolerance * np.abs(H).max())


def check_threads(energy, x):
    """The same bits for one thread and for several. Use enough elements that the work is split."""
    results = []
    for count in (1, 2, 3):
        with pg.threads(count):
            results.append(
                [
                    np.asarray(energy.value(x)),
                    energy.gradient(x),
                    energy.elements(x),
                    energy.elements(x, project=True),
                    energy.hessian(x).data,
                ]
            )
    for other in results[1:]:
        for one, another in zip(results[0], other, strict=True):
            assert_array_equal(one, another)


def check_energy(energy, x, *, step=1e-3, tolerance=1e-8, rigid=True):
    """All of the above but threads."""
    check_derivatives(energy, x, step=step, tolerance=tolerance)
    check_hessians(energy, x)
    if rigid:
        check_rigid_invariance(energy, x)


def check_dissipation(energy, x, *, amount=0.1, step=1e-3, tolerance=1e-8, rigid=True):
    """The potential of a step's damping: its derivatives and rates, and that it leaves rigid motion alone.

    The points were `amount` of the body's size away at the beginning of the step, and one step before.
    """
    assert isinstance(energy, Damped)
    assert energy.damped
    rng = np.random.default_rng(11)
    x0, past = (x + amount * size_of(x) * rng.normal(size=x.shape) for _ in range(2))
    slope, b = 30.0, 0.4
    damping = energy.dissipation(slope, x0, past, b)
    check_derivatives(damping, x, step=step, tolerance=tolerance)
    check_hessians(damping, x)
    assert damping.stencils is energy.stencils
    if rigid:
        check_rigid_invariance(damping, x)
    assert damping.value(x) > 0
    # No velocity, no force: neither one step, nor two.
    scale = np.abs(damping.gradient(x)).max()
    for rest in (energy.dissipation(slope, x0), energy.dissipation(slope, x0, x0, b)):
        assert rest.value(x0) <= 1e-25 * damping.value(x)
        assert_allclose(rest.gradient(x0), 0, atol=1e-12 * scale)
    # For short steps the power is twice the potential, and the rate that of the strains, whatever the slope.
    v = rng.normal(size=x.shape)
    powers = []
    for h in (1e-3, 1e-4):
        one = energy.dissipation(1 / h, x, None)
        two = energy.dissipation(1.5 / h, x, x - h * v, 1 / 3)
        powers.append([np.sum(each.gradient(x + h * v) * v) for each in (one, two)])
        assert all(power >= 0 for power in powers[-1])
    first, second = np.array(powers)
    assert_allclose(second, second[0], rtol=2e-3)
    assert np.abs(second - second[0]).max() <= 0.2 * np.abs(first - first[0]).max() + 1e-9 * second[0]
    if rigid:
        moved = rigidly_moved(x0, rng)
        back = rigidly_moved(x0, rng)
        for rest in (energy.dissipation(slope, x0), energy.dissipation(slope, x0, back, b)):
            assert rest.value(moved) <= 1e-20 * damping.value(x)
            assert_allclose(rest.gradient(moved), 0, atol=1e-10 * scale)


def rigidly_moved(x, rng):
    """The points after a random rotation and translation."""
    d = x.shape[1]
    angle = rng.uniform(0.5, 2.5)
    R = Rotation.random(rng=rng).as_matrix() if d == 3 else np.array(
        [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    )  # fmt: skip
    return x @ R.T + size_of(x) * rng.normal(size=d)


def check_damping(energy, x, v, *, step=1e-3, tolerance=1e-8, rigid=True):
    """Derivatives of the damping force by x and by v of the paper's potential, and that it never drives."""
    force = energy.rate_gradient(x, v)
    assert np.sum(force * v) >= 0
    by_x, by_v = energy.rate_hessians(x, v)
    for d in directions(x):
        for H, f, size in (
            (by_x, lambda s, d=d: energy.rate_gradient(x + s * d, v), size_of(x)),
            (by_v, lambda s, d=d: energy.rate_gradient(x, v + s * d), size_of(v)),
        ):
            change = derivative(f, step * size)
            error = np.linalg.norm(change.ravel() - H @ d.ravel())
            assert error <= tolerance * np.linalg.norm(force) / size_of(x)
    mean = energy.rate_hessians(x, v, symmetric=True)[0]
    assert abs(mean - (by_x + by_x.T) / 2).max() <= 1e-13 * np.abs(by_x.data).max()
    for H in matrices(energy, energy.rate_elements(x, v)[1]):
        values = np.linalg.eigvalsh(H)
        assert values[0] >= -1e-12 * values[-1]
    if rigid:
        assert_allclose(force.sum(0), 0, atol=1e-11 * np.abs(force).max() * len(x))


def torque(x, forces):
    """The net torque, as the antisymmetric matrix it is in any dimension."""
    return x.T @ forces - forces.T @ x


def size_of(x):
    """Largest extent of the points."""
    return np.ptp(x, axis=0).max()


def points_of(energy):
    """The points of each element, as a list of arrays."""
    stencils = energy.stencils
    if isinstance(stencils, pg.Groups):
        return np.split(stencils.indices, stencils.offsets[1:-1])
    return list(stencils)


def matrices(energy, elements):
    """The element matrices, as a list."""
    sizes = [energy.dimension * len(points) for points in points_of(energy)]
    parts = np.split(elements.reshape(-1), np.cumsum(np.square(sizes))[:-1]) if sizes else []
    return [part.reshape(size, size) for part, size in zip(parts, sizes, strict=True)]


def summed(energy, elements):
    """The dense sum of the element matrices, by plain loops."""
    d, total = energy.dimension, np.zeros((energy.dimension * energy.count,) * 2)
    for points, H in zip(points_of(energy), matrices(energy, elements), strict=True):
        rows = (d * points[:, None] + np.arange(d)).ravel()
        np.add.at(total, (rows[:, None], rows), H)
    return total
