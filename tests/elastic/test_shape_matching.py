"""Shape matching as an energy: every derivative against differences and against torch's own."""

from itertools import product

import numpy as np
import pytest
from checking import check_damping, check_energy, check_threads, matrices, torque
from numpy.testing import assert_allclose, assert_array_equal
from oracle import random_rotation
from peers import torch

import pointglue as pg
from pointglue.elastic import Damped, ShapeMatchingEnergy
from pointglue.errors import InputError

MODES = [(0.0, False), (0.3, False), (0.3, True), (0.95, False), (1.0, False), (1.0, True)]


def cube(side=3, d=3):
    return np.array(list(product(range(side), repeat=d)), float)


def clustered(rng, d, blend=0.0, quadratic=False, proportional=False, damping=(0.0, 0.0)):
    """Twenty points in three clusters that overlap, and a deformed state of theirs."""
    rest = rng.normal(size=(20, d))
    mass = rng.uniform(1, 3, 20)
    stiffness = 400 * mass if proportional else rng.uniform(100, 3000, 20)
    energy = ShapeMatchingEnergy(
        rest,
        mass,
        stiffness,
        clusters=[np.arange(12), np.arange(7, 20), np.arange(19, -1, -1)],
        blend=blend,
        quadratic=quadratic,
        damping=damping[0],
        drag=damping[1],
    )
    turn = random_rotation(rng) if d == 3 else np.array([[0.6, -0.8], [0.8, 0.6]])
    return energy, (rest + 0.3 * rng.normal(size=rest.shape)) @ turn


@pytest.mark.parametrize("proportional", [True, False])
@pytest.mark.parametrize(("blend", "quadratic"), MODES)
@pytest.mark.parametrize("d", [2, 3])
def test_derivatives(rng, d, blend, quadratic, proportional):
    check_energy(*clustered(rng, d, blend, quadratic, proportional))


@pytest.mark.parametrize("proportional", [True, False])
@pytest.mark.parametrize(("blend", "quadratic"), MODES)
@pytest.mark.parametrize("d", [2, 3])
def test_derivatives_of_damping(rng, d, blend, quadratic, proportional):
    energy, x = clustered(rng, d, blend, quadratic, proportional, (0.2, 0.0))
    assert isinstance(energy, Damped)
    check_damping(energy, x, rng.normal(size=x.shape))
    both, _ = clustered(rng, d, blend, quadratic, proportional, (0.2, 0.7))
    check_damping(both, x, rng.normal(size=x.shape), rigid=False)


class Printed:
    """The paper's equations 1 to 6 for one cluster, differentiated by torch."""

    def __init__(self, rest, mass, stiffness, blend, quadratic):
        self.m, self.k = torch.tensor(mass), torch.tensor(stiffness)
        self.w = self.m / self.m.sum()
        self.v = torch.tensor(rest)
        self.v = self.v - self.w @ self.v
        self.blend = blend
        v, pairs = self.v, [(i, j) for i in range(rest.shape[1]) for j in range(i, rest.shape[1])]
        self.q = torch.stack([*v.T, *(v[:, i] * v[:, j] for i, j in pairs)], 1) if quadratic else v
        self.q = self.q - self.w @ self.q

    def offsets(self, x):
        y = x - self.w @ x
        U, _, Vh = torch.linalg.svd(y.T @ (self.w[:, None] * self.v))
        Z = torch.ones(len(U), dtype=x.dtype)
        Z[-1] = torch.linalg.det(U.detach() @ Vh.detach())
        rigid = self.v @ (U * Z @ Vh).T
        if self.blend == 0:
            return y - rigid
        A = y.T @ (self.w[:, None] * self.q)
        As = self.q.T @ (self.w[:, None] * self.q)
        return y - self.blend * (self.q @ torch.linalg.solve(As, A.T)) - (1 - self.blend) * rigid

    def value(self, x):
        return 0.5 * (self.k[:, None] * self.offsets(x) ** 2).sum()

    def jacobian(self, x):
        """d offsets / d x (n d, n d)."""
        return torch.autograd.functional.jacobian(self.offsets, x, create_graph=True).reshape(x.numel(), -1)

    def damping(self, x, v, alpha, beta):
        rates = (self.jacobian(x) @ v.reshape(-1)).reshape(x.shape)
        return 0.5 * (alpha * self.k[:, None] * rates**2 + beta * self.m[:, None] * v**2).sum()


def close(actual, expected, tolerance=1e-10):
    """To the accuracy of torch's derivative of the decomposition, well-conditioned here."""
    wanted = expected.detach().numpy()
    assert_allclose(actual, wanted, rtol=0, atol=tolerance * np.abs(wanted).max())


@pytest.mark.parametrize(("blend", "quadratic"), [(0.0, False), (0.3, False), (0.3, True), (1.0, False)])
@pytest.mark.parametrize("d", [2, 3])
def test_torch_finds_the_same(rng, d, blend, quadratic):
    count = 11 if quadratic else 7
    rest = rng.normal(size=(count, d)) * np.array([1.0, 1.7, 2.5])[:d]
    mass, stiffness = rng.uniform(1, 3, count), rng.uniform(100, 3000, count)
    energy = ShapeMatchingEnergy(
        rest, mass, stiffness, blend=blend, quadratic=quadratic, damping=0.2, drag=0.7
    )
    printed = Printed(rest, mass, stiffness, blend, quadratic)
    x, v = rest + 0.2 * rng.normal(size=rest.shape), rng.normal(size=rest.shape)
    X, size = torch.tensor(x, requires_grad=True), rest.size
    value = printed.value(X)
    assert energy.value(x) == pytest.approx(value.item(), rel=1e-12)
    close(energy.gradient(x), torch.autograd.grad(value, X)[0])
    close(
        energy.hessian(x).toarray(),
        torch.autograd.functional.hessian(printed.value, X).reshape(size, size),
    )
    J = printed.jacobian(X)
    close(energy.gauss_newton(x).toarray(), J.T @ (printed.k.repeat_interleave(d)[:, None] * J))

    V = torch.tensor(v, requires_grad=True)

    def force(X, V):
        return torch.autograd.grad(printed.damping(X, V, 0.2, 0.7), V, create_graph=True)[0]

    close(energy.rate_gradient(x, v), force(X, V))
    by_x, by_v = torch.autograd.functional.jacobian(force, (X, V))
    found = energy.rate_hessians(x, v)
    # Third derivatives of the decomposition lose another digit or two; none at all for blend 1.
    assert_allclose(
        found[0].toarray(), by_x.reshape(size, size), rtol=0, atol=1e-10 * np.abs(found[1].data).max()
    )
    close(found[1].toarray(), by_v.reshape(size, size))


def test_a_body_swollen_about_its_centre_has_the_energy_of_its_points(rng):
    rest = rng.normal(size=(10, 3))
    mass, stiffness = rng.uniform(1, 2, 10), rng.uniform(100, 200, 10)
    energy = ShapeMatchingEnergy(rest, mass, stiffness)
    arms = rest - mass @ rest / mass.sum()
    R = random_rotation(rng)
    expected = 0.5 * 0.3**2 * np.sum(stiffness * (arms**2).sum(1))
    assert energy.value(1.3 * rest @ R.T + 5) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("blend", "quadratic"), MODES)
def test_nothing_pulls_at_rest(rng, blend, quadratic):
    energy = ShapeMatchingEnergy(cube(), 2.0, 100.0, blend=blend, quadratic=quadratic)
    x = cube() @ random_rotation(rng).T + [1e3, 0, 0]
    assert energy.value(x) < 1e-20
    assert_allclose(energy.gradient(x), 0, atol=1e-9)  # a thousand off: eps 1e3 k
    values = np.linalg.eigvalsh(energy.hessian(x).toarray())
    free = {
        (0.0, False): 6,
        (0.3, False): 6,
        (0.3, True): 6,
        (0.95, False): 6,
        (1.0, False): 12,
        (1.0, True): 30,
    }
    assert_allclose(values[: free[blend, quadratic]], 0, atol=1e-10)
    assert values[free[blend, quadratic]] > 0.1


def test_blend_one_lets_go_of_what_it_can_map(rng):
    arms = cube() - 1
    linear = ShapeMatchingEnergy(cube(), 1.0, 100.0, blend=1.0)
    quadratic = ShapeMatchingEnergy(cube(), 1.0, 100.0, blend=1.0, quadratic=True)
    sheared = cube() @ rng.normal(size=(3, 3))
    bent = arms + 0.3 * np.stack([arms[:, 1] * arms[:, 2], arms[:, 0] ** 2, arms[:, 0] * arms[:, 1]], axis=1)
    assert linear.value(sheared) < 1e-20
    assert quadratic.value(sheared) < 1e-20
    assert quadratic.value(bent) < 1e-20
    assert linear.value(bent) > 1


def test_overlapping_clusters_add_up(rng):
    rest, lists = rng.normal(size=(9, 3)), [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7, 8]]
    mass = rng.uniform(1, 2, 9)
    x = rest + 0.2 * rng.normal(size=rest.shape)
    together = ShapeMatchingEnergy(rest, mass, 50.0, clusters=lists)
    grouped = ShapeMatchingEnergy(rest, mass, 50.0, clusters=pg.Groups.from_lists(lists))
    assert_array_equal(grouped.gradient(x), together.gradient(x))
    value, gradient = 0.0, np.zeros_like(x)
    for rows in lists:
        alone = ShapeMatchingEnergy(rest[rows], mass[rows], 50.0)
        value += alone.value(x[rows])
        gradient[rows] += alone.gradient(x[rows])
    assert together.value(x) == pytest.approx(value, rel=1e-14)
    assert_allclose(together.gradient(x), gradient, atol=1e-12)


def test_mass_damping_counts_a_point_once(rng):
    rest = rng.normal(size=(9, 3))
    energy = ShapeMatchingEnergy(rest, np.arange(1.0, 10), 50.0, clusters=[[0, 1, 2, 3], [2, 3, 4, 5, 6, 7]],
                                 drag=0.5)  # fmt: skip
    v = rng.normal(size=rest.shape)
    expected = 0.5 * np.arange(1.0, 10)[:, None] * v
    expected[8] = 0  # in no cluster
    assert_allclose(energy.rate_gradient(rest, v), expected, rtol=1e-14)
    assert_allclose(energy.rate_hessians(rest, v)[1] @ v.ravel(), expected.ravel(), rtol=1e-13)


def test_the_projection_leaves_the_rest_of_the_hessian(rng):
    """Compressed, the exact Hessian is indefinite; only that is taken away, in the metric of the cluster."""
    energy = ShapeMatchingEnergy(cube(2), 1.0, 100.0)
    squeezed, swollen = 0.5 * cube(2), 1.5 * cube(2)
    assert np.linalg.eigvalsh(energy.hessian(squeezed).toarray())[0] < -10
    H = energy.hessian(squeezed, project=True).toarray()
    assert_allclose(np.linalg.eigvalsh(H)[:6], 0, atol=1e-11)
    assert_allclose(np.linalg.eigvalsh(H)[6:], 100, rtol=1e-12)
    assert np.linalg.eigvalsh(energy.hessian(swollen).toarray())[2] > -1e-11
    assert_allclose(
        energy.hessian(swollen, project=True).toarray(), energy.hessian(swollen).toarray(), atol=1e-11
    )


def test_gradient_and_force_of_damping_have_no_net_part(rng):
    energy, x = clustered(rng, 3, 0.3, damping=(0.3, 0.0))
    v = rng.normal(size=x.shape)
    assert_allclose(energy.gradient(x).sum(0), 0, atol=1e-10)
    assert_allclose(torque(x, energy.gradient(x)), 0, atol=1e-10)
    assert_allclose(energy.rate_gradient(x, v).sum(0), 0, atol=1e-10)
    # Rigid motion of the undeformed body is not damped.
    spin = np.cross([0.3, -1.0, 2.0], energy.rest) + [1.0, 2, 3]
    assert_allclose(energy.rate_gradient(energy.rest, spin), 0, atol=1e-10)


STRANGE = {
    "mirrored": lambda x: x * [1, 1, -1],
    "turned inside out": lambda x: -x,  # a cube has no best rotation then
    "flat": lambda x: x * [1, 1, 0],
    "a line": lambda x: x * [1, 0, 0],
    "a mirrored line": lambda x: x * [-1, 0, 0],
    "a point": lambda x: 0 * x,
    "nearly a point": lambda x: 1e-200 * x,
    "huge": lambda x: 1e60 * x,
    "far": lambda x: x + 1e9,
}


@pytest.mark.parametrize("state", STRANGE)
@pytest.mark.parametrize(("blend", "quadratic"), MODES)
def test_strange_states_stay_finite(rng, state, blend, quadratic):
    for stiffness in (10.0, rng.uniform(1, 10, 27)):
        energy = ShapeMatchingEnergy(
            cube() - 1, 1.0, stiffness, blend=blend, quadratic=quadratic, damping=0.1, drag=0.1
        )
        x, v = STRANGE[state](cube() - 1.0), rng.normal(size=(27, 3))
        results = [
            energy.value(x),
            energy.gradient(x),
            energy.hessian(x).data,
            energy.hessian(x, project=True).data,
            energy.rate_gradient(x, v),
            *(H.data for H in energy.rate_hessians(x, v)),
        ]
        assert all(np.isfinite(result).all() for result in results)
        H = energy.hessian(x, project=True).toarray()
        values = np.linalg.eigvalsh(H / np.abs(H).max())
        assert values[0] > -1e-7 * values[-1]  # gaps down to 1e-8 cost as many digits


def test_an_inverted_body_turns_back(rng):
    """Down its gradient the energy falls to zero from a mirrored state, pushed off the exact mirror image."""
    energy = ShapeMatchingEnergy(cube(2), 1.0, 1.0)
    x = cube(2) * [1, 1, -1] + 0.1 * rng.normal(size=(8, 3))
    for _ in range(200):
        x = x - 0.5 * energy.gradient(x)
    assert energy.value(x) < 1e-12


def test_a_flat_cluster_bends_when_it_matches_rigidly(rng):
    rest = np.pad(cube(3, 2), [(0, 0), (0, 1)]) @ random_rotation(rng).T
    for stiffness in (100.0, rng.uniform(50, 200, 9)):
        check_energy(ShapeMatchingEnergy(rest, 1.0, stiffness), rest + 0.1 * rng.normal(size=rest.shape))
    with pytest.raises(
        InputError, match=r"blend must be 0 for cluster 0, got 0.5: its 9 points lie in a plane"
    ):
        ShapeMatchingEnergy(rest, 1.0, 100.0, blend=0.5)
    with pytest.raises(
        InputError, match=r"blend must be 0 for cluster 1, got 0.5: its 3 points lie in a line"
    ):
        ShapeMatchingEnergy(
            [[0, 0], [1, 0], [2, 0], [1, 1]], 1.0, 100.0, blend=0.5, clusters=[[0, 1, 3], [0, 1, 2]]
        )


def test_nearly_proportional_stiffness_is_as_exact(rng):
    """The basis of the second derivatives has a direction that nearly vanishes."""
    rest = rng.normal(size=(9, 3))
    x = rest + 0.2 * rng.normal(size=rest.shape)
    for off in (1e-15, 1e-12, 1e-9, 1e-6, 1e-3):
        check_energy(ShapeMatchingEnergy(rest, 1.0, 100 * (1 + off * rng.normal(size=9))), x)


def test_wide_ranges_of_stiffness_and_mass(rng):
    rest = rng.normal(size=(9, 3))
    energy = ShapeMatchingEnergy(rest, 10.0 ** rng.uniform(-3, 3, 9), 10.0 ** rng.uniform(-3, 3, 9))
    check_energy(energy, rest + 0.1 * rng.normal(size=rest.shape), step=1e-4, tolerance=1e-7)


@pytest.mark.parametrize("blend", [0.0, 0.3])
def test_threads_do_not_change_a_bit(rng, blend):
    count = 1100
    rest = rng.normal(size=(8 * count, 3))
    groups = pg.Groups(8 * np.arange(count + 1), rng.permutation(8 * count))
    energy = ShapeMatchingEnergy(rest, 1.0, rng.uniform(1, 2, 8 * count), clusters=groups, blend=blend,
                                 damping=0.1, drag=0.1)  # fmt: skip
    x, v = rest + 0.2 * rng.normal(size=rest.shape), rng.normal(size=rest.shape)
    check_threads(energy, x)
    results = []
    for number in (1, 2):
        with pg.threads(number):
            results.append([energy.rate_gradient(x, v), *energy.rate_elements(x, v)])
    for one, other in zip(*results, strict=True):
        assert_array_equal(one, other)


def test_a_cluster_alone_has_the_same_bits_as_among_others(rng):
    rest = rng.normal(size=(40, 3))
    x = rest + 0.2 * rng.normal(size=rest.shape)
    lists = [np.arange(5 * i, 5 * i + 5) for i in range(8)]
    energy = ShapeMatchingEnergy(rest, 1.0, 1.0, clusters=lists)
    alone = ShapeMatchingEnergy(rest, 1.0, 1.0, clusters=lists[5:6])
    for project in (False, True):
        H = matrices(energy, energy.elements(x, project=project))[5]
        assert_array_equal(H.ravel(), alone.elements(x, project=project))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"rest": np.zeros((4, 4))},
            r"rest must have shape \(n, 3\) or \(n, 2\), at least one row, got \(4, 4\)",
        ),
        ({"rest": np.full((8, 3), np.nan)}, r"rest must be finite, got nan"),
        ({"mass": 0.0}, r"mass must be positive, got 0$"),
        ({"mass": [1.0] * 7 + [-2.0]}, r"mass must be positive, got -2 for point 7"),
        ({"mass": np.nan}, r"mass must be finite, got nan"),
        ({"stiffness": [1.0, 2.0]}, r"stiffness must be one number or 8, one per point, got shape \(2,\)"),
        ({"stiffness": np.inf}, r"stiffness must be finite, got inf"),
        ({"blend": 1.5}, r"blend must be a finite number of at least 0 and of at most 1, got 1.5"),
        ({"blend": np.nan}, r"blend must be a finite number of at least 0 and of at most 1, got nan"),
        ({"quadratic": True}, r"quadratic says what a body may deform to, which needs a blend above 0"),
        ({"quadratic": 2}, r"quadratic must be True or False, got 2"),
        ({"quadratic": True, "blend": 0.5}, r"cluster 0: its 8 points are too few, or too regular.*takes 10"),
        ({"damping": (0.1, 0.0)}, r"damping must be a finite number of at least 0, got \(0.1, 0.0\)"),
        ({"damping": np.inf}, r"damping must be a finite number of at least 0, got inf"),
        ({"drag": -1}, r"drag must be a finite number of at least 0, got -1"),
        ({"clusters": [[0, 1, 8]]}, r"clusters must name some of 8 points, got 8 in cluster 0"),
        ({"clusters": [[0, 1, 2], [3, 3, 4]]}, r"cluster 1 names point 3 twice"),
        ({"clusters": [[0, 1, 2], []]}, r"lists\[1\] is empty"),
        ({"clusters": [[0, 1, 2], [0, 1]]}, r"cluster 1 has no shape to remember: its points lie on a line"),
        ({"clusters": [[0]]}, r"cluster 0 has no shape to remember: its points lie on a line or coincide"),
    ],
)
def test_what_is_wrong_is_named(options, message):
    with pytest.raises(InputError, match=message):
        ShapeMatchingEnergy(**{"rest": cube(2), "mass": 1.0, "stiffness": 1.0, **options})
