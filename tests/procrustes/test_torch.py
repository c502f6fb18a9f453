"""The torch front: autograd of every order against torch's own checks and the NumPy path."""

import numpy as np
import pytest
import roma
import torch
from oracle import random_rotation
from torch.autograd import gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

import pointglue as pg
from pointglue.errors import DegenerateFitError, InputError
from pointglue.procrustes import torch as front
from pointglue.procrustes.torch import fit_rigid, special_procrustes

# The derivative of the rotation in torch alone, and by the kernels.
pure_turn, kernel_turn = front._derivative, front._Derivative.apply
CASES = {
    "random": np.random.default_rng(1).standard_normal((4, 3, 3)),
    "reflected": np.diag([1.0, 0.8, -0.5])[None] @ random_rotation(np.random.default_rng(2)),
    "repeated singular values": np.eye(3)[None],
    "two equal": np.diag([1.0, 1.0, 0.4])[None],
    "coplanar": np.diag([2.0, 1.0, 0.0])[None],
    "plane": np.random.default_rng(1).standard_normal((4, 2, 2)),
}


def tensor(array, grad=True):
    return torch.tensor(np.asarray(array), requires_grad=grad)


@pytest.mark.parametrize("name", CASES)
def test_gradcheck_and_gradgradcheck(name):
    M = tensor(CASES[name])
    assert gradcheck(special_procrustes, M, check_forward_ad=True, check_undefined_grad=False)
    assert gradgradcheck(special_procrustes, M, check_fwd_over_rev=True)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("d", [2, 3])
def test_fit_gradients_by_points_rest_and_weights(d, flat, rng):
    rest, points, w = rng.standard_normal((4, d)), rng.standard_normal((2, 4, d)), rng.random(4) + 0.1
    if flat and d == 3:
        rest[:, 2] = 0.0
    arguments = tensor(rest), tensor(points), tensor(w)

    def rotation_and_translation(*arguments):
        return tuple(fit_rigid(*arguments)[:2])

    assert gradcheck(rotation_and_translation, arguments)
    assert gradgradcheck(rotation_and_translation, arguments)


@pytest.mark.parametrize("d", [2, 3])
def test_matches_the_numpy_path(d, rng):
    rest, points, w = rng.standard_normal((7, d)), rng.standard_normal((5, 7, d)), rng.random(7)
    fit, reference = fit_rigid(tensor(rest), tensor(points), tensor(w)), pg.fit_rigid(rest, points, w)
    for name in ("rotation", "translation", "stretch", "singular_values", "gap"):
        np.testing.assert_allclose(getattr(fit, name).detach(), getattr(reference, name), atol=1e-13)
    np.testing.assert_allclose(fit.apply(tensor(rest)).detach(), reference.apply(rest), atol=1e-13)
    np.testing.assert_allclose(fit.apply(tensor(rest[0])).detach(), reference.apply(rest[0]), atol=1e-13)
    x = tensor(points)
    gR, gt = rng.standard_normal((5, d, d)), rng.standard_normal((5, d))
    (gradient,) = torch.autograd.grad(fit_rigid(tensor(rest), x, tensor(w))[:2], x, [tensor(gR), tensor(gt)])
    np.testing.assert_allclose(gradient, reference.vjp(gR, gt), atol=1e-12)


def test_second_derivative_matches_the_numpy_path(rng):
    rest, points = rng.standard_normal((5, 3)), rng.standard_normal((5, 3))
    p, g = rng.standard_normal(3), rng.standard_normal(3)
    H = hessian(lambda x: fit_rigid(tensor(rest, False), x).apply(tensor(p, False)) @ tensor(g, False))(
        tensor(points)
    )
    expected = pg.fit_rigid(rest, points).hessian(p, g).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(H.detach(), expected, atol=1e-11 * np.abs(expected).max())


def test_pure_torch_path_equals_the_kernels(rng):
    """What runs on other devices, run here: the same numbers, first and second derivative."""
    M, D = tensor(rng.standard_normal((20, 3, 3)), False), tensor(rng.standard_normal((20, 3, 3)), False)
    R = special_procrustes(M)
    np.testing.assert_allclose(pure_turn(M, R, D, 1e-8), kernel_turn(M, R, D, 1e-8), atol=1e-10)
    degenerate = torch.diag(torch.tensor([1.0, 0, 0], dtype=torch.float64))[None]
    Q, rate = special_procrustes(degenerate), D[:1]
    np.testing.assert_allclose(
        pure_turn(degenerate, Q, rate, 1e-8), kernel_turn(degenerate, Q, rate, 1e-8), atol=1e-9
    )


def test_other_devices_take_the_pure_path():
    """A tensor that is not on the CPU never meets a kernel ('meta' has shapes but no numbers)."""
    M = torch.empty(4, 3, 3, dtype=torch.float64, device="meta")
    assert special_procrustes(M).device.type == "meta"


def test_func_transforms(rng):
    M, D = tensor(rng.standard_normal((5, 3, 3)), False), tensor(rng.standard_normal((5, 3, 3)), False)
    C = tensor(rng.standard_normal((3, 3)), False)
    torch.testing.assert_close(vmap(special_procrustes)(M), special_procrustes(M), rtol=0, atol=0)
    torch.testing.assert_close(
        vmap(vmap(special_procrustes), in_dims=1)(M[None]), special_procrustes(M[:, None]), rtol=0, atol=0
    )
    _, rate = jvp(special_procrustes, (M,), (D,))
    torch.testing.assert_close(rate, pure_turn(M, special_procrustes(M), D, 1e-8))
    f = lambda m: (special_procrustes(m) * C).sum()  # noqa: E731
    for one in M:
        second = jacfwd(jacrev(f))(one)
        for other in (jacrev(jacrev(f)), jacfwd(jacfwd(f)), jacrev(jacfwd(f))):
            torch.testing.assert_close(other(one), second, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(vmap(grad(f))(M), torch.stack([grad(f)(m) for m in M]))
    rest, x = tensor(rng.standard_normal((4, 3)), False), tensor(rng.standard_normal((6, 4, 3)), False)
    torch.testing.assert_close(vmap(lambda x: fit_rigid(rest, x).rotation)(x), fit_rigid(rest, x).rotation)


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch.compile inspects what it traces
def test_torch_compile_goes_around_the_kernels(rng):
    M = tensor(rng.standard_normal((5, 3, 3)))
    expected = 2 * special_procrustes(1.5 * M)
    got = torch.compile(lambda m: 2 * special_procrustes(1.5 * m), backend="eager")(M)
    torch.testing.assert_close(got, expected)
    gradients = [torch.autograd.grad(R.sum(), M)[0] for R in (got, expected)]
    torch.testing.assert_close(*gradients)


def test_third_derivative(rng):
    """Exact in reverse mode; refused, not wrong, where PyTorch would drop it."""
    M, D = tensor(rng.standard_normal((3, 3)), False), tensor(rng.standard_normal((3, 3)), False)
    second = hessian(lambda m: special_procrustes(m)[0, 1])
    h = 1e-5
    expected = (second(M + h * D) - second(M - h * D)) / (2 * h)
    torch.testing.assert_close((jacrev(second)(M) * D).sum((-1, -2)), expected, rtol=1e-6, atol=1e-6)
    with pytest.raises(NotImplementedError, match="a third derivative of a rigid fit in forward mode"):
        jacfwd(second)(M)


def test_degenerate_policy(rng):
    line = tensor(np.outer(np.arange(4.0), [1, 2, 3]))
    with pytest.raises(DegenerateFitError, match="lie on a line"):
        fit_rigid(line, line)
    x = tensor(line.detach().numpy())
    fit = fit_rigid(line.detach(), x, on_degenerate="clamp")
    (gradient,) = torch.autograd.grad(fit.rotation.sum() + fit.translation.sum(), x, create_graph=True)
    assert torch.isfinite(gradient).all()
    (second,) = torch.autograd.grad(gradient.square().sum(), x)
    assert torch.isfinite(second).all()
    zero = tensor(np.zeros((2, 3, 3)))
    assert (torch.autograd.grad(special_procrustes(zero).sum(), zero)[0] == 0).all()


def test_float32(rng):
    rest, points = rng.standard_normal((6, 3)).astype("f4"), rng.standard_normal((3, 6, 3)).astype("f4")
    x = tensor(points)
    fit = fit_rigid(tensor(rest), x)
    assert fit.rotation.dtype == torch.float32
    np.testing.assert_array_equal(fit.rotation.detach(), pg.fit_rigid(rest, points).rotation)
    fit.rotation.sum().backward()
    assert x.grad.dtype == torch.float32
    line = tensor(np.outer(np.linspace(0, 1, 5), [1, 2, 3]).astype("f4"))
    with pytest.raises(DegenerateFitError):
        fit_rigid(line, line)


def test_results_can_be_changed_in_place(rng):
    x = tensor(rng.standard_normal((2, 5, 3)), False)
    R = fit_rigid(x, x + 0.1).rotation
    R *= 2
    torch.testing.assert_close(R, 2 * torch.eye(3, dtype=torch.float64).expand(2, 3, 3))


def test_half_precision_works_throughout(rng):
    x = tensor(rng.standard_normal((6, 3)), False).half().requires_grad_()
    fit = fit_rigid(x.detach(), x)
    assert fit.rotation.dtype == fit.gap.dtype == torch.float16
    (gradient,) = torch.autograd.grad(fit.rotation.sum(), x, create_graph=True)
    assert torch.isfinite(torch.autograd.grad(gradient.sum(), x)[0]).all()
    assert fit.apply([1.0, 2.0, 3.0]).shape == (3,)


def test_second_derivative_in_float32_is_computed_in_64_bits(rng):
    """At a gap of 1e-4: to the rounding of the input and of the result."""
    Q = random_rotation(rng)
    M = torch.tensor(Q @ np.diag([1.0, 2e-4, -1e-4]), dtype=torch.float32)
    f = lambda m: special_procrustes(m)[0, 1]  # noqa: E731
    single, double = (jacrev(jacrev(f))(M.to(dtype)) for dtype in (torch.float32, torch.float64))
    assert (single - double).abs().max() < 1e-4 * double.abs().max()


def test_gap_of_coincident_points_has_a_derivative(rng):
    x = torch.zeros(4, 3, dtype=torch.float64, requires_grad=True)
    rest = tensor(rng.standard_normal((4, 3)), False)
    assert torch.isfinite(torch.autograd.grad(fit_rigid(rest, x, on_degenerate="clamp").gap, x)[0]).all()


class TestDropInForRoma:
    """special_procrustes has RoMa's meaning."""

    def test_values_and_gradients(self, rng):
        M, g = tensor(rng.standard_normal((50, 3, 3))), tensor(rng.standard_normal((50, 3, 3)), False)
        for options in ({}, {"regularization": 0.3}):
            ours, theirs = special_procrustes(M, **options), roma.special_procrustes(M, **options)
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
            gradients = [torch.autograd.grad(R, M, g)[0] for R in (ours, theirs)]
            # RoMa damps 1/t as t / (t^2 + 1e-10).
            torch.testing.assert_close(*gradients, rtol=1e-6, atol=1e-6)

    def test_singular_values(self, rng):
        M = tensor(rng.standard_normal((50, 3, 3)))
        R, values = special_procrustes(M, return_singular_values=True)
        expected_R, expected = roma.special_procrustes(M, return_singular_values=True)
        torch.testing.assert_close(R, expected_R, rtol=0, atol=1e-12)
        torch.testing.assert_close(values, expected, rtol=0, atol=1e-12)
        assert gradcheck(lambda M: special_procrustes(M, return_singular_values=True), (M[:4],))

    def test_positional_arguments_mean_the_same_or_are_refused(self, rng):
        """The third argument of RoMa is gradient_eps, which must not be taken for another option."""
        M = tensor(rng.standard_normal((5, 3, 3)))
        gradients = [
            torch.autograd.grad(function(M, 0.3).sum(), M)[0]
            for function in (special_procrustes, roma.special_procrustes)
        ]
        torch.testing.assert_close(*gradients, rtol=1e-6, atol=1e-6)  # as above
        for arguments in ((0.0, 1e-5), (0.0, 1e-5, True), (0.0, 1e-5, True, "auto")):
            with pytest.raises(TypeError, match="positional arguments"):
                special_procrustes(M, *arguments)

    def test_regularization_leaves_forward_mode_alone(self, rng):
        M, D = tensor(rng.standard_normal((5, 3, 3)), False), tensor(rng.standard_normal((5, 3, 3)), False)
        rates = [jvp(lambda m, r=r: special_procrustes(m, r), (M,), (D,))[1] for r in (0.0, 0.1)]
        assert (rates[0] == rates[1]).all()

    def test_optimisation_leaves_a_degenerate_start(self, rng):
        """From a matrix of rank one, gradient descent reaches any target rotation."""
        target = tensor(np.array([random_rotation(rng) for _ in range(5)]), False)
        M = torch.zeros(5, 3, 3, dtype=torch.float64)
        M[:, 0, 0] = 1.0
        M.requires_grad_()
        optimizer = torch.optim.Adam([M], lr=0.1)
        for _ in range(400):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(special_procrustes(M), target)
            loss.backward()
            optimizer.step()
        assert loss < 1e-7


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (
            lambda x: fit_rigid(np.ones((4, 3)), x),
            "rest must be a tensor of floating point numbers, got ndarray",
        ),
        (lambda x: fit_rigid(x.long(), x), "rest must be a tensor of floating point numbers"),
        (lambda x: fit_rigid(x[0], x), r"rest must have shape \(\.\.\., n, 3\).*got \(3,\)"),
        (lambda x: fit_rigid(x, x[:2]), r"points must match rest in \(n, d\) = \(4, 3\), got \(2, 3\)"),
        (lambda x: fit_rigid(x, x, [1, 1, 1, 1]), "weights must be a tensor, got list"),
        (
            lambda x: fit_rigid(x.expand(2, 4, 3), x.expand(3, 4, 3)),
            "must have leading shapes that broadcast",
        ),
        (lambda x: fit_rigid(x, x, x[:2, 0]), r"weights must have shape \(\.\.\., 4\), got \(2,\)"),
        (lambda x: fit_rigid(x, x * torch.nan), "must be finite"),
        (lambda x: fit_rigid(x, x, on_degenerate="no"), "on_degenerate must be"),
        (special_procrustes, r"M must be a floating point tensor"),
    ],
)
def test_bad_input(call, match, rng):
    with pytest.raises(InputError, match=match):
        call(tensor(rng.standard_normal((4, 3)), False))
