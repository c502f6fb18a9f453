"""What a bound point does, and what its forces become, in every kind of pose."""

import numpy as np
import pytest
from configurations import bound_cloud, deformed, every_pose
from hypothesis import given
from hypothesis import strategies as st
from oracle import exact_fit, random_rotation
from peers import torch

import pointglue as pg


def moments(x, f):
    """Net force and net torque about the origin, and what their rounding is measured by."""
    force, torque = f.sum(0), np.cross(x, f).sum(0)
    return force, torque, np.abs(f).sum(), (np.linalg.norm(x, axis=1) * np.linalg.norm(f, axis=1)).sum()


@every_pose
def test_net_force_and_torque_arrive(rng, pose):
    rest, glue = bound_cloud(rng)
    x = pose(rest, rng)
    f = rng.standard_normal((40, 3))
    at = glue.at(x)
    force, torque, size, lever = moments(at.positions, f)
    on_parents = at.transfer_forces(f)
    arrived, arrived_torque, *_ = moments(x, on_parents)
    np.testing.assert_allclose(arrived, force, atol=1e-12 * size)
    np.testing.assert_allclose(arrived_torque, torque, atol=1e-12 * lever)


@every_pose
def test_torques_arrive_without_force(rng, pose):
    rest, glue = bound_cloud(rng)
    x = pose(rest, rng)
    torques = rng.standard_normal((40, 3))
    on_parents = glue.at(x).transfer_forces(np.zeros((40, 3)), torques)
    force, torque, size, lever = moments(x, on_parents)
    np.testing.assert_allclose(force, 0, atol=1e-12 * size)
    np.testing.assert_allclose(torque, torques.sum(0), atol=1e-12 * lever)


@every_pose
def test_adjoint_identity(rng, pose):
    rest, glue = bound_cloud(rng)
    at = glue.at(pose(rest, rng))
    v, f, torques = (rng.standard_normal(shape) for shape in ((200, 3), (40, 3), (40, 3)))
    J, velocities = at.jacobian(), at.velocities(v)
    scale = np.abs(J).sum()
    np.testing.assert_allclose(J @ v.ravel(), velocities.ravel(), atol=1e-14 * scale)
    np.testing.assert_allclose(J.T @ f.ravel(), at.transfer_forces(f).ravel(), atol=1e-14 * scale)
    power = (f * velocities).sum() + (torques * at.angular_velocities(v)).sum()
    assert (at.transfer_forces(f, torques) * v).sum() == pytest.approx(power, rel=1e-12, abs=1e-12 * scale)


@every_pose
def test_jacobian_against_central_differences(rng, pose):
    rest, glue = bound_cloud(rng)
    x = pose(rest, rng)
    v, h = rng.standard_normal(x.shape), 1e-5
    difference = (glue.positions(x + h * v) - glue.positions(x - h * v)) / (2 * h)
    # h^2 times the third derivative, and eps / h: both below 1e-9 of the largest second derivative
    scale = np.abs(difference).max() + np.abs(glue.accelerations(x, v, 0 * v)).max() ** 1.5
    np.testing.assert_allclose(glue.velocities(x, v), difference, atol=1e-8 * scale)


@every_pose
def test_accelerations_against_second_differences(rng, pose):
    rest, glue = bound_cloud(rng)
    x = pose(rest, rng)
    v, a, h = rng.standard_normal(x.shape), rng.standard_normal(x.shape), 1e-4

    def along(t):
        return glue.positions(x + t * v + 0.5 * t * t * a)

    # Fourth order: what is left is rounding, eps / h^2 = 2e-8
    second = (-along(2 * h) + 16 * along(h) - 30 * along(0) + 16 * along(-h) - along(-2 * h)) / (12 * h * h)
    expected = glue.accelerations(x, v, a)
    np.testing.assert_allclose(second, expected, atol=1e-6 * np.abs(expected).max())


def autodiff_positions(rest, glue, x):
    """Bound positions by torch's own decomposition; shares no formula with the package."""
    groups, weights = glue.parents, torch.tensor(glue.weights)
    result = []
    for k, target in enumerate(torch.tensor(glue.targets)):
        span = slice(groups.offsets[k], groups.offsets[k + 1])
        rows, w = torch.tensor(groups.indices[span]), weights[span]
        p, q = torch.tensor(rest)[rows], x[rows]
        centre, now = w @ p, w @ q
        U, _, Vh = torch.linalg.svd((q - now).T @ (w[:, None] * (p - centre)))
        Z = torch.diag(
            torch.stack([torch.ones(()), torch.ones(()), torch.det(U @ Vh).sign().detach()]).double()
        )
        result.append(U @ Z @ Vh @ (target - centre) + now)
    return torch.stack(result)


def test_jacobian_and_hessian_against_autodiff(rng):
    rest = rng.standard_normal((12, 3))
    glue = pg.bind_glue(rest, 2 * rng.standard_normal((3, 3)), parents=6)
    x, f = torch.tensor(deformed(rest, rng)), torch.tensor(rng.standard_normal((3, 3)))
    J = torch.func.jacrev(lambda y: autodiff_positions(rest, glue, y))(x).reshape(9, 36)
    np.testing.assert_allclose(glue.jacobian(x.numpy()).toarray(), J, atol=1e-10)
    # Forward over reverse, since that is how torch differentiates its decomposition twice.
    H = torch.func.jacfwd(torch.func.jacrev(lambda y: (f * autodiff_positions(rest, glue, y)).sum()))(x)
    np.testing.assert_allclose(glue.hessian(x.numpy(), f.numpy()).toarray(), H.reshape(36, 36), atol=1e-8)


@every_pose
def test_hessian_is_the_derivative_of_the_transferred_forces(rng, pose):
    rest, glue = bound_cloud(rng)
    x = pose(rest, rng)
    v, f, h = rng.standard_normal(x.shape), rng.standard_normal((40, 3)), 1e-5
    difference = (glue.transfer_forces(x + h * v, f) - glue.transfer_forces(x - h * v, f)) / (2 * h)
    H = glue.hessian(x, f)
    product = (H @ v.ravel()).reshape(x.shape)
    np.testing.assert_allclose(product, difference, atol=1e-6 * np.abs(H).max())
    assert abs(H - H.T).max() <= 1e-13 * np.abs(H).max()


@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(-6, 6))
def test_binding_is_exact_under_rigid_motion(seed, scale):
    rng = np.random.default_rng(seed)
    rest = 10**scale * rng.standard_normal((30, 3))
    glue = pg.bind_glue(rest, 3 * 10**scale * rng.standard_normal((8, 3)))
    R, t = random_rotation(rng), 10**scale * rng.standard_normal(3)
    at = glue.at(rest @ R.T + t)
    np.testing.assert_allclose(at.positions, glue.targets @ R.T + t, atol=1e-11 * 10**scale)
    np.testing.assert_allclose(at.rotations, np.broadcast_to(R, (8, 3, 3)), atol=1e-11)


def test_positions_against_many_digits(rng):
    rest, glue = bound_cloud(rng)
    x = deformed(rest, rng)
    for k in (0, 17):
        rows = glue.parents.indices[glue.parents.offsets[k] : glue.parents.offsets[k + 1]]
        w = glue.weights[glue.parents.offsets[k] : glue.parents.offsets[k + 1]]
        R, t = exact_fit(rest[rows], x[rows], w.tolist())
        R, t = np.array(R.tolist(), float), np.array(t.tolist(), float).ravel()
        np.testing.assert_allclose(glue.positions(x)[k], R @ glue.targets[k] + t, atol=1e-12)


def test_in_the_plane(rng):
    rest = rng.standard_normal((20, 2))
    glue = pg.bind_glue(rest, 2 * rng.standard_normal((5, 2)), parents=4)
    x = rest + 0.1 * rng.standard_normal(rest.shape)
    v, f, tau, h = rng.standard_normal((20, 2)), rng.standard_normal((5, 2)), rng.standard_normal(5), 1e-5
    at = glue.at(x)
    difference = (glue.positions(x + h * v) - glue.positions(x - h * v)) / (2 * h)
    np.testing.assert_allclose(at.velocities(v), difference, atol=1e-8)
    np.testing.assert_allclose(at.jacobian() @ v.ravel(), at.velocities(v).ravel(), atol=1e-13)
    power = (f * at.velocities(v)).sum() + (tau * at.angular_velocities(v)).sum()
    assert (at.transfer_forces(f, tau) * v).sum() == pytest.approx(power, rel=1e-12)
    slope = (glue.transfer_forces(x + h * v, f) - glue.transfer_forces(x - h * v, f)) / (2 * h)
    np.testing.assert_allclose((glue.hessian(x, f) @ v.ravel()).reshape(x.shape), slope, atol=1e-7)
    largest = [np.linalg.norm(block, 2) for block in at.blocks]
    np.testing.assert_allclose(at.reach, largest, rtol=1e-12)


def test_many_poses_at_once_are_the_single_ones(rng):
    rest, glue = bound_cloud(rng)
    x = rest + 0.1 * rng.standard_normal((2, 3, 200, 3))
    v, a, f = rng.standard_normal(x.shape), rng.standard_normal(x.shape), rng.standard_normal((2, 3, 40, 3))
    one = (1, 2)
    np.testing.assert_array_equal(glue.positions(x)[one], glue.positions(x[one]))
    np.testing.assert_array_equal(glue.velocities(x, v)[one], glue.velocities(x[one], v[one]))
    expected = glue.accelerations(x[one], v[one], a[one])
    np.testing.assert_array_equal(glue.accelerations(x, v, a)[one], expected)
    np.testing.assert_array_equal(glue.transfer_forces(x, f)[one], glue.transfer_forces(x[one], f[one]))
    assert glue.gap(x).shape == (2, 3, 40)
    np.testing.assert_array_equal(glue.at(x).velocities(v[one])[one], glue.velocities(x[one], v[one]))
    with pytest.raises(
        pg.errors.InputError, match=r"v must be for the one pose of x, got shape \(2, 3, 200, 3\)"
    ):
        glue.at(x[one]).velocities(v)
    with pytest.raises(pg.errors.InputError, match=r"f must be for the poses \(2, 3\) of x"):
        glue.at(x).transfer_forces(f[:1, :2])
    with pytest.raises(pg.errors.InputError, match="x must be one pose"):
        glue.jacobian(x)
    with pytest.raises(pg.errors.InputError, match="x must be one pose"):
        glue.hessian(x, f)


def test_threads_do_not_change_a_bit(rng):
    rest = rng.standard_normal((3000, 3))
    glue = pg.bind_glue(rest, rng.standard_normal((20000, 3)))
    x, f = rest + 0.1 * rng.standard_normal(rest.shape), rng.standard_normal((20000, 3))
    results = []
    for count in (1, 2, 3):
        with pg.threads(count):
            at = glue.at(x)
            results.append((at.positions, at.blocks, at.transfer_forces(f), at.hessian(f).data))
    for other in results[1:]:
        for first, second in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(first, second)


def test_jacobian_values_are_updated_in_place(rng):
    rest, glue = bound_cloud(rng)
    x, y = deformed(rest, rng), deformed(rest, rng)
    J = glue.jacobian(x)
    data, pattern = J.data, J.indices
    again = glue.jacobian(y, out=J)
    assert again is J
    assert J.data is data
    assert J.indices is pattern
    np.testing.assert_array_equal(J.toarray(), glue.jacobian(y).toarray())
    other = glue.take([1, 2])
    with pytest.raises(pg.errors.InputError, match="out must be a Jacobian"):
        other.jacobian(x, out=J)


def test_results_are_the_caller_s_own(rng):
    """What scipy does to a matrix in place, and what the caller does, reaches neither glue nor pose."""
    rest, glue = bound_cloud(rng)
    x, f = deformed(rest, rng), rng.standard_normal((40, 3))
    some = f * (np.arange(40)[:, None] > 3)
    J, H = glue.jacobian(x).toarray(), glue.hessian(x, f).toarray()
    pose = glue.at(x)
    mass = pose.effective_mass(np.ones(200))
    first = pose.jacobian()
    first *= 2
    glue.hessian(x, some).eliminate_zeros()
    first.eliminate_zeros()
    np.testing.assert_array_equal(glue.jacobian(x).toarray(), J)
    np.testing.assert_array_equal(pose.jacobian().toarray(), J)
    np.testing.assert_array_equal(glue.hessian(x, f).toarray(), H)
    np.testing.assert_array_equal(glue.at(x).effective_mass(np.ones(200)), mass)
    with pytest.raises(ValueError, match="read-only"):
        pose.blocks[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        glue.targets[0] = 0


def test_a_jacobian_of_another_glue_is_not_taken_for_out(rng):
    rest = rng.standard_normal((50, 3))
    one, other = (pg.bind_glue(rest, rng.standard_normal((3, 3))) for _ in range(2))
    with pytest.raises(
        pg.errors.InputError, match="out must be a Jacobian that this binding returned before"
    ):
        other.jacobian(rest, out=one.jacobian(rest))


@pytest.mark.parametrize("where", [0.0, 1e3, 1e6])
def test_velocities_far_from_the_origin(rng, where):
    """A float32 object of 20 cm: its arms are short, wherever it is."""
    small = (0.1 * rng.standard_normal((30, 3)) + where).astype(np.float32)
    glue = pg.bind_glue(small, (np.array([[0.05, -0.06, 0.0]]) + where).astype(np.float32))
    v = rng.standard_normal(small.shape).astype(np.float32)
    pose = glue.at(small)
    expected = pose.jacobian().astype(np.float64) @ v.astype(np.float64).ravel()
    np.testing.assert_allclose(pose.velocities(v).ravel(), expected, rtol=1e-5, atol=1e-6)


def test_a_large_hessian_goes_in_parts(rng, monkeypatch):
    rest, glue = bound_cloud(rng)
    x, f = deformed(rest, rng), rng.standard_normal((40, 3))
    whole = glue.hessian(x, f).toarray()
    monkeypatch.setattr("pointglue.glue.glue.MAX_PAIRS", 700)  # seven targets of 100 pairs each
    np.testing.assert_allclose(glue.hessian(x, f).toarray(), whole, atol=1e-13 * np.abs(whole).max())


def test_some_of_the_targets_alone(rng):
    rest, glue = bound_cloud(rng)
    x, rows = deformed(rest, rng), [7, 3, 3, 39]
    few = glue.take(rows)
    np.testing.assert_array_equal(few.positions(x), glue.positions(x)[rows])
    dense = glue.jacobian(x).toarray().reshape(40, 3, -1)
    np.testing.assert_array_equal(few.jacobian(x).toarray().reshape(4, 3, -1), dense[rows])
    assert few.weights.sum() == pytest.approx(4)
    for rows in ([40], [-1], []):
        with pytest.raises(pg.errors.InputError, match="rows must name some of the 40 targets"):
            glue.take(rows)


def test_effective_mass_is_a_lower_bound(rng):
    rest, glue = bound_cloud(rng)
    x, mass = deformed(rest, rng), 0.1 + rng.random(200)
    J = glue.jacobian(x).toarray().reshape(40, 3, 200, 3)
    exact = [1 / np.linalg.norm(np.einsum("inj,n,knj->ik", j, 1 / mass, j), 2) for j in J]
    by_hand = [1 / sum(np.linalg.norm(j[:, i], 2) ** 2 / mass[i] for i in range(200)) for j in J]
    bound = glue.effective_mass(x, mass)
    np.testing.assert_allclose(bound, by_hand, rtol=1e-12)
    assert (bound <= np.array(exact) * (1 + 1e-12)).all()
    assert (bound > 0.2 * np.array(exact)).all()  # and not a useless one


def test_the_time_step_is_safe_for_all_springs_at_once(rng):
    rest, glue = bound_cloud(rng)
    x, mass = deformed(rest, rng), 0.1 + rng.random(200)
    k = 1 + rng.random(40)
    J = glue.jacobian(x).toarray()
    stiffness = (
        J.T @ (np.repeat(k, 3)[:, None] * J) / np.sqrt(np.outer(np.repeat(mass, 3), np.repeat(mass, 3)))
    )
    longest = 2 / np.sqrt(np.linalg.eigvalsh(stiffness)[-1])
    step = glue.time_step(x, mass, k).min()
    assert 0.3 * longest < step <= longest * (1 + 1e-12)
    alone = glue.take([7])
    expected = 2 * np.sqrt(alone.effective_mass(x, mass) / 7.0)
    np.testing.assert_allclose(alone.time_step(x, mass, 7.0), expected)


def test_float32_in_float32_out(rng):
    rest = rng.standard_normal((50, 3)).astype(np.float32)
    glue = pg.bind_glue(rest, rng.standard_normal((5, 3)).astype(np.float32))
    x = rest + np.float32(0.1) * rng.standard_normal(rest.shape).astype(np.float32)
    assert glue.positions(x).dtype == np.float32
    assert glue.jacobian(x).dtype == np.float32
    wide = pg.bind_glue(rest.astype(float), glue.targets.astype(float))
    np.testing.assert_allclose(glue.positions(x), wide.positions(x.astype(float)), atol=3e-6)
