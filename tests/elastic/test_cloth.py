import numpy as np
import pytest
from checking import check_energy, check_threads
from numpy.testing import assert_allclose, assert_array_equal
from peers import torch
from scipy.spatial.transform import Rotation

from pointglue.elastic import ClothEnergy, ElasticBody, ImplicitSolver
from pointglue.errors import InputError
from pointglue.geometry.shapes import box

STRETCH, POISSON, BEND = 300.0, 0.25, 0.02


def grid(n, m, step=1.0):
    """Flat cloth in the plane of x and y, every square cut along its diagonal (1, 1)."""
    x, y = (part.ravel() for part in np.meshgrid(np.arange(n + 1.0), np.arange(m + 1.0), indexing="ij"))
    at = np.arange((n + 1) * (m + 1)).reshape(n + 1, m + 1)
    a, b, c, d = (part.ravel() for part in (at[:-1, :-1], at[1:, :-1], at[1:, 1:], at[:-1, 1:]))
    faces = np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
    return step * np.stack([x, y, 0 * x], axis=1), faces


FLAT, FACES = grid(3, 2)
CURVED, SHELL = box((1.0, 1.0, 1.0), (2, 2, 2))


@pytest.mark.parametrize(
    ("options", "amplitude"),
    [
        ({}, 0.3),
        ({"poisson": -0.4, "bend": BEND}, 0.3),
        ({"bend": 100.0}, 0.2),
        ({"limit": 1.05, "bend": BEND}, 0.3),
    ],
)
def test_derivatives(rng, options, amplitude):
    for rest, faces in ((FLAT, FACES), (2 * CURVED, SHELL)):
        energy = ClothEnergy(rest, faces, stretch=STRETCH, **options)
        # Beyond the limit the third derivative jumps: differences have but their step as error there.
        step, tolerance = (1e-5, 1e-5) if "limit" in options else (1e-4, 2e-8)
        x = rest + amplitude * rng.normal(size=rest.shape)
        check_energy(energy, x, step=step, tolerance=tolerance)


def hessian_by_torch(x, rest, limit):
    """The triangle's Hessian from its energy, written with eigenvalues of the Cauchy-Green tensor."""
    edges = np.array(rest[1:] - rest[0]).T
    inverse, area = torch.tensor(np.linalg.inv(edges)), abs(np.linalg.det(edges)) / 2
    mu, lam = STRETCH / (2 * (1 + POISSON)), STRETCH * POISSON / (1 - POISSON**2)

    def energy(p):
        F = (p[1:] - p[0]).T @ inverse
        C = F.T @ F
        G = (C - torch.eye(2, dtype=p.dtype)) / 2
        mean, radius = (C[0, 0] + C[1, 1]) / 2, torch.sqrt((C[0, 0] - C[1, 1]) ** 2 / 4 + C[0, 1] ** 2)
        over = torch.relu(torch.sqrt(torch.stack([mean + radius, mean - radius])) - limit)
        more = 100 * STRETCH / (limit - 1) * (over**3).sum() / 3
        return area * (lam / 2 * torch.trace(G) ** 2 + mu * (G * G).sum() + more)

    t = torch.tensor(x, requires_grad=True)
    value = energy(t)
    (gradient,) = torch.autograd.grad(energy(t), t)
    hessian = torch.autograd.functional.hessian(energy, t).numpy().reshape(9, 9)
    return float(value.detach()), gradient.numpy(), hessian


@pytest.mark.parametrize("scales", [(1.02, 0.8), (1.2, 0.7), (1.3, 1.15), (1.5, 1.4999999)])
def test_triangle_against_autodiff(rng, scales):
    rest = np.array([[0.1, 0.0], [1.0, 0.2], [0.3, 1.1]])
    limit = 1.1
    energy = ClothEnergy(rest, [[0, 1, 2]], stretch=STRETCH, poisson=POISSON, limit=limit)
    turn = Rotation.random(rng=rng).as_matrix()[:, :2]
    x = rest @ Rotation.from_rotvec([0, 0, 0.7]).as_matrix()[:2, :2] * scales @ turn.T
    value, gradient, hessian = hessian_by_torch(x, rest, limit)
    assert_allclose(energy.value(x), value, rtol=1e-12)
    assert_allclose(energy.gradient(x), gradient, rtol=0, atol=1e-12 * np.abs(gradient).max())
    # Autodiff divides by the difference of the stretches, the kernel does not.
    loss = 1e-15 / (scales[0] - scales[1])
    assert_allclose(
        energy.elements(x).reshape(9, 9), hessian, rtol=0, atol=max(1e-12, loss) * np.abs(hessian).max()
    )


def test_equal_stretches_beyond_the_limit():
    # Where autodiff gives nan: against differences of the gradient.
    energy = ClothEnergy(FLAT, FACES, stretch=STRETCH, limit=1.1)
    check_energy(energy, 1.3 * FLAT, step=1e-4, tolerance=1e-6)


def test_small_strains_are_those_of_a_plate():
    energy = ClothEnergy(FLAT, FACES, stretch=STRETCH, poisson=POISSON)
    stiffness = energy.hessian(FLAT)
    area = 6.0
    for A in np.random.default_rng(1).normal(size=(4, 2, 2)):
        u, strain = np.zeros_like(FLAT), (A + A.T) / 2
        u[:, :2] = FLAT[:, :2] @ A.T
        trace = np.trace(strain)
        expected = STRETCH / (1 - POISSON**2) * (POISSON * trace**2 + (1 - POISSON) * np.sum(strain**2))
        assert_allclose(u.ravel() @ stiffness @ u.ravel(), area * expected, rtol=1e-12)
    # Free across, a strip pulls with stretch times strain times its width, and narrows by Poisson's ratio.
    u = 1e-3 * FLAT * [1, -POISSON, 0]
    forces = (stiffness @ u.ravel()).reshape(-1, 3)
    assert_allclose(forces[FLAT[:, 0] == 3].sum(0), [STRETCH * 1e-3 * 2, 0, 0], atol=1e-12)
    assert_allclose(forces[(FLAT[:, 0] > 0) & (FLAT[:, 0] < 3)], 0, atol=1e-12)


def pull(energy, ratio):
    """Force on the right end of a strip that is stretched along x and keeps its width."""
    return energy.gradient(FLAT * [ratio, 1, 1])[FLAT[:, 0] == 3, 0].sum()


def test_limit():
    options = {"stretch": STRETCH, "poisson": 0.0}
    free, limited = ClothEnergy(FLAT, FACES, **options), ClothEnergy(FLAT, FACES, **options, limit=1.1)
    assert pull(limited, 1.099) == pull(free, 1.099)
    # A tenth of the limit's strain beyond doubles the pull, as documented, up to the terms of higher order.
    assert_allclose(pull(limited, 1.11) - pull(free, 1.11), STRETCH * 0.1 * 2, rtol=1e-10)
    # Energy, force and stiffness are continuous there: each differs by its order in the step.
    for step in (1e-3, 1e-4):
        x = FLAT * [1.1 + step, 1, 1]
        along = (FLAT * [1, 0, 0]).ravel()
        more = along @ (limited.hessian(x) - free.hessian(x)) @ along
        assert_allclose(more, 6 * 100 * STRETCH / 0.1 * 2 * step, rtol=1e-8)


def patch(kind, direction):
    """Four triangles: one and its neighbours, so that there is one hinge for each direction of edges."""
    if kind == "regular":
        a, b = np.array([1.0, 0.0]), np.array([0.5, np.sqrt(0.75)])
        faces = [[0, 1, 2], [1, 0, 3], [2, 1, 4], [0, 2, 5]]
        points = np.array([0 * a, a, b, a - b, a + b, b - a])
    else:  # a grid of squares cut along (1, 1)
        a, b = np.array([1.0, 0.0]), np.array([0.0, 1.0])
        faces = [[0, 1, 2], [1, 0, 3], [2, 1, 4], [0, 2, 5]]
        points = np.array([0 * a, a, a + b, -b, 2 * a + b, b])
    turn = Rotation.from_rotvec([0, 0, direction]).as_matrix()[:2, :2]
    return (points - points.mean(0)) @ turn, np.array(faces)


def bending(flat, faces, radius):
    """Energy per area, in units of that of a cylinder, bent about the y axis."""
    x = np.stack(
        [radius * np.sin(flat[:, 0] / radius), flat[:, 1], radius * np.cos(flat[:, 0] / radius)], axis=1
    )
    bent, unbent = (ClothEnergy(flat, faces, stretch=1.0, bend=bend) for bend in (BEND, 0.0))
    # Three hinges go with the area of two triangles.
    return (bent.value(x) - unbent.value(x)) / (2 * bent.areas[0]) / (BEND / 2 / radius**2)


@pytest.mark.parametrize("direction", [0.0, 0.3, np.pi / 6, 1.0, np.pi / 2, 2.5])
def test_regular_triangles_bend_as_a_cylinder(direction):
    flat, faces = patch("regular", direction)
    errors = [abs(bending(flat, faces, radius) - 1) for radius in (20.0, 80.0)]
    assert errors[0] < 2e-3
    assert errors[1] <= errors[0] / 15 + 1e-10  # second order, that is 16, or rounding where it is exact


@pytest.mark.parametrize(("direction", "factor"), [(0.0, 1), (np.pi / 2, 1), (-np.pi / 4, 1), (np.pi / 4, 3)])
def test_squares_bend_as_documented(direction, factor):
    flat, faces = patch("square", direction)
    assert_allclose(bending(flat, faces, 100.0), factor, rtol=1e-3)


def test_tube():
    # A closed tube, rolled from a flat pattern of sewn triangles, against the energy of a bent plate.
    n, m, radius = 48, 6, 0.1
    step = 2 * np.pi * radius / n
    flat, faces = grid(n, m, step)
    seam = np.arange(len(flat))
    seam[n * (m + 1) :] = seam[: m + 1]
    angle = flat[:, 0] / radius
    x = np.stack([radius * np.cos(angle), flat[:, 1], radius * np.sin(angle)], axis=1)[: n * (m + 1)]
    options = {"stretch": 1.0, "poisson": 0.0}
    bent, unbent = (
        ClothEnergy(flat[faces][..., :2], seam[faces], bend=bend, **options) for bend in (BEND, 0.0)
    )
    area = 2 * np.pi * radius * m * step
    # Each of the m edges on a ruling turns by 2 pi / n.
    assert_allclose(bent.value(x) - unbent.value(x), BEND / 2 / radius**2 * area, rtol=1e-10)


def folded(angle):
    """Two triangles on either side of the y axis, of heights 1 and 2, folded up by `angle` in all."""
    c, s = np.cos(angle / 2), np.sin(angle / 2)
    return np.array([[-c, 0.3, s], [0, 0, 0], [0, 1, 0], [2 * c, 0.6, 2 * s]]), np.array(
        [[0, 1, 2], [3, 2, 1]]
    )


@pytest.mark.parametrize("rest", [-3.0, -1.0, 0.0, 2.0, 3.1])
@pytest.mark.parametrize("angle", [-3.1, -0.5, 0.0, 1.5, 3.0])
def test_hinge(rest, angle):
    x, faces = folded(angle)
    energy = ClothEnergy(folded(rest)[0], faces, stretch=1.0, bend=BEND)
    short_way = (angle - rest + np.pi) % (2 * np.pi) - np.pi
    # |edge|^2 over the areas 1/2 and 1
    assert_allclose(energy.value(x), BEND / 1.5 * short_way**2 / 2, rtol=1e-12, atol=1e-15)
    assert_allclose(energy.value(folded(rest)[0]), 0, atol=1e-28)


def test_hinge_does_not_jump_where_it_folds_through():
    faces = folded(0.0)[1]
    energy = ClothEnergy(folded(0.0)[0], faces, stretch=1.0, bend=BEND)
    before, after = (energy.value(folded(angle)[0]) for angle in (np.pi - 1e-9, np.pi + 1e-9))
    assert_allclose(before, after, rtol=1e-8)


def test_curved_rest_is_at_rest():
    energy = ClothEnergy(CURVED, SHELL, stretch=STRETCH, bend=BEND)
    assert len(energy.hinges) == 72
    assert_allclose(energy.value(CURVED), 0, atol=1e-25)
    assert_allclose(energy.gradient(CURVED), 0, atol=1e-12)
    assert energy.value(CURVED * [1, 1, 0.5]) > 0


def test_patterns_agree(rng):
    options = {"stretch": STRETCH, "bend": BEND, "limit": 1.1}
    x = FLAT + 0.2 * rng.normal(size=FLAT.shape)
    pieces = FLAT[FACES][..., :2]
    turned = pieces @ Rotation.from_rotvec([0, 0, 1]).as_matrix()[:2, :2] + rng.normal(
        size=(len(FACES), 1, 2)
    )
    whole = ClothEnergy(FLAT, FACES, **options)
    for rest in (FLAT[:, :2], pieces, turned, turned * [1, -1]):
        other = ClothEnergy(rest, FACES, **options)
        assert_allclose(other.value(x), whole.value(x), rtol=1e-12)
        assert_allclose(
            other.gradient(x), whole.gradient(x), rtol=0, atol=1e-10 * np.abs(whole.gradient(x)).max()
        )


def test_faces_may_be_turned_over(rng):
    faces = FACES.copy()
    faces[::3] = faces[::3, ::-1]
    x = FLAT + 0.2 * rng.normal(size=FLAT.shape)
    one, other = (ClothEnergy(FLAT, f, stretch=STRETCH, bend=BEND).value(x) for f in (FACES, faces))
    assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("scale", [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, -1, 1), (1e5, 1e5, 1)])
def test_every_state_is_finite(scale):
    energy = ClothEnergy(FLAT, FACES, stretch=STRETCH, bend=BEND, limit=1.1)
    for x in (FLAT * scale, FLAT * scale + [[0, 0, 1e-9]] * np.sin(np.arange(len(FLAT)))[:, None]):
        assert np.isfinite(energy.value(x))
        assert np.isfinite(energy.gradient(x)).all()
        assert np.isfinite(energy.elements(x)).all()
        m = 81 * len(FACES)
        for part, size in ((slice(0, m), 9), (slice(m, None), 12)):
            values = np.linalg.eigvalsh(energy.elements(x, project=True)[part].reshape(-1, size, size))
            assert (values[:, 0] >= -1e-12 * values[:, -1]).all()


def test_projected_hinge_is_the_square_of_its_slope(rng):
    # E = k d^2 / 2 has the gradient g = k d (angle)' and the first part of its Hessian is g g^T / (2 E).
    rest, faces = folded(0.3)
    energy = ClothEnergy(rest, faces, stretch=1e-9, bend=1.0)
    x = rest + 0.2 * rng.normal(size=rest.shape)
    g = energy.gradient(x)[energy.hinges[0]].ravel()
    hinge = energy.elements(x, project=True)[-144:].reshape(12, 12)
    assert_allclose(hinge, np.outer(g, g) / (2 * energy.value(x)), rtol=0, atol=1e-7 * np.abs(hinge).max())


def test_projected_triangle_has_the_positive_eigenvalues(rng):
    rest = np.array([[0.0, 0], [1, 0], [0, 1]])
    energy = ClothEnergy(rest, [[0, 1, 2]], stretch=STRETCH, limit=1.1)
    weights = np.array([[-1.0, -1], [1, 0], [0, 1]])
    to_F = np.einsum("aj,ik->ijak", weights, np.eye(3)).reshape(6, 9)
    back = np.linalg.pinv(to_F)
    for _ in range(20):
        x = np.c_[rest, 0 * rest[:, 0]] + 0.5 * rng.normal(size=(3, 3))
        values, vectors = np.linalg.eigh(back.T @ energy.elements(x).reshape(9, 9) @ back)
        expected = to_F.T @ (vectors * values.clip(0)) @ vectors.T @ to_F
        found = energy.elements(x, project=True).reshape(9, 9)
        assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(values).max())


def test_predicted_stress(rng):
    """The stiffness with the stress of a strain that changes linearly, against its formula."""
    before = FLAT + 0.2 * rng.normal(size=FLAT.shape)
    x = before + 0.2 * rng.normal(size=FLAT.shape)
    energy = ClothEnergy(FLAT, FACES, stretch=STRETCH, poisson=POISSON, bend=BEND)
    mu, lam = STRETCH / (2 * (1 + POISSON)), STRETCH * POISSON / (1 - POISSON**2)
    inverse = np.linalg.inv(np.swapaxes(FLAT[FACES[:, 1:], :2] - FLAT[FACES[:, :1], :2], 1, 2))
    b = np.concatenate([-inverse.sum(1, keepdims=True), inverse], axis=1)
    F, D = (np.einsum("mai,maj->mij", each[FACES], b) for each in (x, x - before))
    G = (np.swapaxes(F, 1, 2) @ F - np.eye(2) - np.swapaxes(D, 1, 2) @ D) / 2
    S = lam * np.trace(G, axis1=1, axis2=2)[:, None, None] * np.eye(2) + 2 * mu * G
    f = np.einsum("mij,maj->mai", F, b)
    blocks = np.einsum("mai,mij,mbj,kl->makbl", b, S, b, np.eye(3))
    blocks += lam * np.einsum("mak,mbl->makbl", f, f) + mu * np.einsum("mbk,mal->makbl", f, f)
    blocks += mu * np.einsum("mai,mbi,mkj,mlj->makbl", b, b, F, F)
    expected = energy.areas[:, None, None] * blocks.reshape(-1, 9, 9)
    elements = energy.elements(x)
    hinges = elements[81 * len(FACES) :].copy()
    energy.predict(x, before, elements)
    assert_allclose(elements[: 81 * len(FACES)].reshape(-1, 9, 9), expected, atol=1e-11 * expected.max())
    assert_array_equal(elements[81 * len(FACES) :], hinges)
    exact = energy.elements(x)
    energy.predict(x, x, exact)
    assert_array_equal(exact, energy.elements(x))


class Unforeseen(ClothEnergy):
    """Cloth that does not tell its stress."""

    predict = None


def test_predicted_stress_saves_iterations():
    """To the same end, of a cloth that falls and hangs by two corners."""
    rest, faces = grid(10, 10, 0.1)
    ends = {}
    for kind in (ClothEnergy, Unforeseen):
        energy = kind(rest, faces, stretch=2e3, bend=2e-5)
        pinned = np.isin(np.arange(len(rest)), [0, 10])
        state, total = None, 0
        solver = ImplicitSolver(
            [ElasticBody(rest, energy.mass(0.2), [energy], pinned=pinned)], gravity=(0, 0, -9.8)
        )
        for _ in range(35):
            state = solver.step(state or solver.start(), 1 / 60)
            total += state.report.iterations
        ends[kind] = state.positions, total
    # The last steps are smaller than 1e-4 m/s, and what they leave a hundredth of that; times 1/60 s.
    assert_allclose(ends[ClothEnergy][0], ends[Unforeseen][0], atol=2e-8)
    assert ends[ClothEnergy][1] < 0.9 * ends[Unforeseen][1]


def test_a_strip_that_buckles_leaves_the_saddle_soon():
    """Projected Hessians alone, far stiffer than the exact one less a little, take 83 iterations."""
    rest, faces = grid(12, 2, 0.05)
    energy = ClothEnergy(rest, faces, stretch=1e3, bend=1e-3)
    x = rest * [0.997, 1.0, 1.0]
    x[:, 2] = 1e-3 * np.sin(np.pi * rest[:, 0] / 0.6)
    body = ElasticBody(x, energy.mass(0.2), [energy], pinned=np.isin(rest[:, 0], [0.0, 12 * 0.05]))
    solver = ImplicitSolver([body], gravity=(0, 0, 0))
    state = solver.step(solver.start(), 1 / 60)
    assert state.report.iterations < 40
    assert np.abs(state.positions[:, 2]).max() > 3e-3


def test_mass():
    energy = ClothEnergy(FLAT, FACES, stretch=STRETCH)
    assert_allclose(energy.mass(0.2).sum(), 6 * 0.2, rtol=1e-13)
    assert_allclose(energy.mass(np.arange(1, 13.0)).sum(), np.arange(1, 13).sum() / 2, rtol=1e-13)


def test_materials_may_differ(rng):
    stretch = rng.uniform(1, 2, len(FACES))
    x = FLAT + 0.1 * rng.normal(size=FLAT.shape)
    each = [ClothEnergy(FLAT, FACES[[k]], stretch=stretch[k]).value(x) for k in range(len(FACES))]
    assert_allclose(ClothEnergy(FLAT, FACES, stretch=stretch).value(x), np.sum(each), rtol=1e-13)


def test_threads(rng):
    rest, faces = grid(92, 92, 0.1)
    x = rest + 0.01 * rng.normal(size=rest.shape)
    check_threads(ClothEnergy(rest, faces, stretch=STRETCH, bend=BEND, limit=1.02), x)


def test_no_bending_no_hinges():
    energy = ClothEnergy(FLAT, FACES, stretch=STRETCH)
    assert len(energy) == len(FACES)
    assert_array_equal(energy.stencils.indices.reshape(-1, 3), FACES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"rest": FLAT * [1, 0, 0]},
            r"faces must have an area at rest: face 0, \[0, 3, 4\], has none, nor have 11",
        ),
        ({"faces": [[0, 1, 1]]}, "face 0, .* has none"),
        ({"rest": FLAT[:, :1]}, r"rest must have shape \(n, 3\), \(n, 2\) or \(m, 3, 2\)"),
        ({"rest": FLAT * np.nan}, "rest must be finite"),
        ({"rest": FLAT[FACES][:5, :, :2]}, "rest must hold the corners of 12 faces, got those of 5"),
        ({"faces": FACES[:, :2]}, r"faces must have shape \(m, 3\)"),
        ({"faces": FACES + 1}, "faces must name some of 12 points, got 12"),
        (
            {"faces": [[0, 1, 3], [1, 0, 4], [0, 1, 5]]},
            r"two at an edge, got 3 at \[0, 1\]: faces \[0, 1, 2\]",
        ),
        ({"faces": [[0, 1, 3], [1, 0, 3]]}, r"faces must differ, got the same points in faces \[0, 1\]"),
        ({"stretch": 0.0}, "stretch must be a positive number of N/m, got 0.0"),
        ({"stretch": np.inf}, "stretch must be a positive number of N/m, got inf"),
        ({"poisson": 1.0}, "poisson must be between -1 and 1"),
        ({"bend": -1.0}, "bend must be at least 0 N m, got -1.0"),
        ({"bend": np.nan}, "bend must be at least 0 N m, got nan"),
        ({"limit": 1.0}, "limit must be a finite number above 1, got 1.0"),
        ({"limit": "much"}, "limit must be a finite number above 1"),
    ],
)
def test_bad_input(change, message):
    options = {"rest": FLAT, "faces": FACES, "stretch": STRETCH, **change}
    with pytest.raises(InputError, match=message):
        ClothEnergy(options.pop("rest"), options.pop("faces"), **options)
