"""The claims of the Point Cloud Glue paper, measured."""

import numpy as np
import pytest

import pointglue as pg

TRIANGLE = np.array([[0.0, 0, 0], [1, 0, 0], [0.3, 0.9, 0]])
OUTSIDE = np.array([[0.6, -0.7, 0.0]])  # beyond the first edge: the third weight is negative


def driving_apart(x, f):
    """Rate at which forces f on points x spend work on blowing them up about their mean."""
    return float((f * (x - x.mean(0))).sum())


@pytest.fixture(params=["rest", "deformed"])
def parents(request, rng):
    return TRIANGLE if request.param == "rest" else TRIANGLE + 0.15 * rng.standard_normal((3, 3))


def test_linear_bindings_push_a_parent_backwards_and_drive_them_apart(parents):
    """Figure 1."""
    linear = pg.bind_linear(TRIANGLE, OUTSIDE, [[0, 1, 2]])
    assert linear.weights.min() < -0.5
    f = np.array([[0.0, -1.0, 0.0]])  # away from the triangle
    on_parents = linear.transfer_forces(parents, f)
    assert on_parents[2] @ f[0] < -0.5  # the far parent is pushed the other way
    assert driving_apart(parents, on_parents) > 0.5


def test_glue_never_drives_its_parents_apart(parents, rng):
    """Blowing up the parents about their mean does not move a glued point, so no force on it can."""
    glue = pg.bind_glue(TRIANGLE, OUTSIDE, parents=3)
    for f in [np.array([[0.0, -1.0, 0.0]]), *rng.standard_normal((20, 1, 3))]:
        on_parents = glue.transfer_forces(parents, f)
        assert abs(driving_apart(parents, on_parents)) < 1e-13


def test_pushed_free_parents_stay_together_with_glue_only():
    """The same push for half a second on three free particles, by either binding."""
    spread = {}
    for name, binding in [
        ("linear", pg.bind_linear(TRIANGLE, OUTSIDE, [[0, 1, 2]])),
        ("glue", pg.bind_glue(TRIANGLE, OUTSIDE, parents=3)),
    ]:
        x, v, dt = TRIANGLE.copy(), np.zeros((3, 3)), 1e-3
        for _ in range(500):
            v += dt * binding.transfer_forces(x, [[0.0, -3.0, 0.0]])
            x += dt * v
        spread[name] = np.linalg.norm(x - x.mean(0)) / np.linalg.norm(TRIANGLE - TRIANGLE.mean(0))
    assert spread["linear"] > 1.3
    assert abs(spread["glue"] - 1) < 0.05


def fibonacci_sphere(count):
    """Evenly spread points: their second moments hardly depend on the number."""
    z = 1 - (2 * np.arange(count) + 1) / count
    angle = np.pi * (1 + np.sqrt(5)) * np.arange(count)
    r = np.sqrt(1 - z * z)
    return np.stack([r * np.cos(angle), r * np.sin(angle), z], axis=1)


def test_more_parents_average_out_jitter(rng):
    """Noise on the parents reaches the bound point as 1 / sqrt(n)."""
    counts, poses = np.array([8, 16, 32, 64, 128, 256]), 4000
    jitter = []
    for count in counts:
        rest = fibonacci_sphere(count)
        glue = pg.bind_glue(rest, [[1.5, 0.5, 0.0]], parents=int(count))
        noisy = rest + 0.01 * rng.standard_normal((poses, count, 3))
        jitter.append(glue.positions(noisy).std(0).mean())
    slope = np.polyfit(np.log(counts), np.log(jitter), 1)[0]
    # 4000 poses know each deviation to 1 %, the slope over five octaves to 0.005.
    assert slope == pytest.approx(-0.5, abs=0.02)


@pytest.mark.parametrize(("times_bound", "stable"), [(1.0, True), (4.0, False)])
def test_the_effective_mass_bounds_the_time_step(rng, times_bound, stable):
    """A stiff spring at a bound point, free parents, explicit (symplectic) steps."""
    rest, mass, stiffness = rng.standard_normal((8, 3)), 0.5 + rng.random(8), 1e4
    glue = pg.bind_glue(rest, [[1.5, 0.5, 0.0]], parents=8)
    dt = times_bound * glue.time_step(rest, mass, stiffness)[0]
    x, v, start = rest + 0.0, np.zeros((8, 3)), 1e-4
    x[:, 0] += start
    largest = 0.0
    for _ in range(2000):
        stretch = glue.positions(x) - glue.targets
        largest = max(largest, np.abs(stretch).max())
        if largest > 0.05:
            break
        v += dt * glue.transfer_forces(x, -stiffness * stretch) / mass[:, None]
        x += dt * v
    # Stable: the spring swings through not much more than it was stretched by.
    assert (largest < 3 * start) if stable else (largest > 0.05)


def test_cloth_keeps_its_side(rng):
    """A point bound above a sheet stays above it, however the sheet is turned and bent."""
    u, v = (grid.ravel() for grid in np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-1, 1, 9)))
    sheet = np.stack([u, v, np.zeros_like(u)], axis=1)
    glue = pg.bind_glue(sheet, [[0.1, 0.1, 0.15]])
    for angle in np.linspace(0, 2 * np.pi, 25):
        c, s = np.cos(angle), np.sin(angle)
        bent = np.stack([u, v, 0.3 * np.sin(2 * u + angle) * np.cos(v)], axis=1)
        turned = bent @ np.array([[1, 0, 0], [0, c, -s], [0, s, c]]).T
        pose = glue.at(turned)
        normal = pose.rotations[0] @ [0, 0, 1]
        parents = turned[glue.parents.indices]
        assert ((pose.positions[0] - parents) @ normal).min() > 0.05
