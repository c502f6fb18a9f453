"""The rotation of a 3x3 matrix: against 60 digits, over matrices chosen to hurt."""

import mpmath as mp
import numpy as np
import pytest
from oracle import as_array, exact_rotation, random_rotation

import pointglue as pg
from pointglue.errors import DegenerateFitError, InputError
from pointglue.procrustes import matrices, rotation

EPS = np.finfo(float).eps

NASTY = {
    "isotropic": (1, 1, 1),
    "isotropic but for rounding": (1, 1 - 1e-15, 1 - 2e-15),
    "two equal, largest": (1, 1, 0.3),
    "two equal, smallest": (1, 0.4, 0.4),
    "coplanar": (1, 0.5, 0),
    "coplanar and round": (1, 1, 0),
    "nearly coplanar": (1, 0.5, 1e-13),
    "reflected": (1, 0.7, -0.2),
    "reflected and round": (1, 1, -0.5),
    "reflected, nearly cancelling": (1, 0.5, -0.499),
    "reflected and nearly isotropic": (1, 1, -0.999),
    "reflected and nearly isotropic, all different": (1, 0.9995, -0.998),
    "reflected, both sums small": (1, 0.9961, -0.9947),
    "thin rod": (1, 1e-3, 1e-3),
    "thin rod, flat": (1, 2e-3, 0),
    "thin rod, reflected": (1, 3e-3, -1e-3),
    "needle": (1, 1e-5, 1e-6),
    "needle, flat": (1, 1e-7, 0),
    "needle, reflected": (1, 1e-5, -0.9e-5),
    "hair": (1, 1e-9, 1e-10),
    "reflected, cancelling to 1e-6": (1, 0.5, -0.5 + 1e-6),
    "reflected, cancelling to 1e-10": (1, 0.5, -0.5 + 1e-10),
    "reflected isotropic to 1e-6": (1, 1, -1 + 1e-6),
}

SINGULAR = {
    "zero": (0, 0, 0),
    "rank one": (1, 0, 0),
    "rank one but for rounding": (1, 1e-17, 0),
    "cancelling": (1, 0.5, -0.5),
    "reflected isotropic": (1, 1, -1),
}

SCALES = [1.0, 1e-150, 1e150, 1e-300, 1e300, 3e-12, 7e9]


def rotations(A, previous=None, min_gap=1e-8):
    A = np.ascontiguousarray(A, dtype=float).reshape(-1, 9)
    previous = np.eye(3) if previous is None else previous
    R, status = matrices.nearest_rotations(A, previous.reshape(-1, 9), min_gap)
    return R.reshape(-1, 3, 3), status


def matrices_with(singular_values, rng, scale=1.0, count=4):
    """Both axis-aligned and turned: exact zeros and equal entries, and none."""
    S = np.diag(singular_values).astype(float) * scale
    turned = [random_rotation(rng) @ S @ random_rotation(rng) for _ in range(count)]
    permuted = np.eye(3)[[1, 2, 0]]
    return np.array([S, permuted @ S, S @ permuted, *turned])


def numpy_rotations(A):
    U, s, Vt = np.linalg.svd(A)
    sign = np.sign(np.linalg.det(U @ Vt))
    U[..., 2] *= sign[:, None]
    return U @ Vt, (s[:, 1] + sign * s[:, 2]) / s[:, 0]


def assert_proper(R):
    assert np.isfinite(R).all()
    assert np.abs(np.swapaxes(R, -1, -2) @ R - np.eye(3)).max() < 20 * EPS
    assert (np.linalg.det(R) > 0).all()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", NASTY)
def test_against_60_digits(name, scale, rng):
    A = matrices_with(NASTY[name], rng, scale)
    R, status = rotations(A)
    assert_proper(R)
    for a, r, s in zip(A, R, status, strict=True):
        with mp.workdps(60):
            exact, values = exact_rotation(a)
            gap = float((values[1] + values[2]) / values[0])
        assert s == (gap < 1e-8)
        if s == rotation.REGULAR:
            # 1e-12 is what the package promises above a gap of 1e-3; 10 eps / gap is the condition
            # of the problem times a modest constant, and it holds for every gap.
            error = np.abs(r - as_array(exact)).max()
            assert error < 10 * EPS / gap
            assert error < 1e-12 or gap < 1e-3


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", [*NASTY, *SINGULAR])
def test_backward_stable(name, scale, rng):
    """Some matrix within rounding of A has exactly this rotation: R^T A is symmetric and maximal."""
    s = np.array({**NASTY, **SINGULAR}[name])
    A = matrices_with(s, rng, scale)
    R, _ = rotations(A, min_gap=1e-300)
    assert_proper(R)
    S = np.swapaxes(R, 1, 2) @ (A / scale)
    assert np.abs(S - np.swapaxes(S, 1, 2)).max() < 40 * EPS
    assert np.abs(np.trace(S, axis1=1, axis2=2) - s.sum()).max() < 40 * EPS


def test_random_against_numpy(rng):
    A = rng.standard_normal((200_000, 3, 3))
    R, _ = rotations(A)
    expected, gap = numpy_rotations(A)
    error = np.abs(R - expected).max((1, 2))
    assert (error * gap).max() < 100 * EPS  # LAPACK is off by up to 45 of them, as 60 digits show
    assert np.median(error) < 4 * EPS


def test_gap_swept_to_zero(rng):
    """The hand-over from the fast path to the robust one shows no step in accuracy."""
    gaps = np.logspace(-7.5, 0, 4000)
    s = np.stack([np.ones_like(gaps), 0.5 * np.ones_like(gaps), gaps - 0.5], 1)
    U = np.array([random_rotation(rng) for _ in gaps])
    V = np.array([random_rotation(rng) for _ in gaps])
    R, _ = rotations(U * s[:, None, :] @ np.swapaxes(V, 1, 2))
    error = np.abs(R - U @ np.swapaxes(V, 1, 2)).max((1, 2))
    assert (error * gaps).max() < 20 * EPS


@pytest.mark.parametrize("offset", [0, 1, 63, 64, 65, 4097])
def test_batch_equals_loop_bit_for_bit(offset, rng):
    A = rng.standard_normal((300, 3, 3))
    for k, name in enumerate(NASTY):
        A[7 * k] = matrices_with(NASTY[name], rng)[-1]
    padded = np.concatenate([rng.standard_normal((offset, 3, 3)), A])
    R, status = rotations(padded)
    one_by_one = [rotations(a[None]) for a in A]
    np.testing.assert_array_equal(R[offset:], np.concatenate([r for r, _ in one_by_one]))
    np.testing.assert_array_equal(status[offset:], np.concatenate([s for _, s in one_by_one]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite_is_reported(bad):
    A = np.tile(np.eye(3), (130, 1, 1))
    A[65, 1, 2] = bad
    _, status = rotations(A)
    assert status[65] == rotation.NOT_FINITE
    assert status.sum() == rotation.NOT_FINITE


def test_rank_one_takes_the_spin_of_the_previous_rotation(rng):
    for _ in range(20):
        previous, a, b = random_rotation(rng), rng.standard_normal(3), rng.standard_normal(3)
        a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
        (R,), (status,) = rotations(np.outer(a, b)[None], previous)
        assert status == rotation.DEGENERATE
        np.testing.assert_allclose(R @ b, a, atol=1e-14)  # what is determined stays
        # Among all rotations that take b to a, the nearest to the previous one: their relative
        # rotation has no component about a.
        Q = R @ previous.T
        axis = np.array([Q[2, 1] - Q[1, 2], Q[0, 2] - Q[2, 0], Q[1, 0] - Q[0, 1]])
        assert abs(axis @ a) < 1e-7  # the rounding of A, 1e-16, against a pull of 1e-8


def test_pull_to_previous_is_continuous_at_the_least_gap(rng):
    """Just below min_gap the result is what it was just above."""
    U, V, previous = random_rotation(rng), random_rotation(rng), random_rotation(rng)
    min_gap = 1e-4
    gaps = min_gap * np.array([1 + 1e-6, 1 - 1e-6])
    A = np.array([U @ np.diag([1, g, 0]) @ V.T for g in gaps])
    R, status = rotations(A, previous, min_gap)
    np.testing.assert_array_equal(status, [rotation.REGULAR, rotation.DEGENERATE])
    # The pull there is 1e-6 min_gap, against a gap of min_gap.
    assert np.abs(R[0] - R[1]).max() < 1e-5


class TestSpecialProcrustes:
    """The public function on matrices."""

    @pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
    def test_shapes(self, shape, rng):
        M = rng.standard_normal((*shape, 3, 3))
        R = pg.special_procrustes(M)
        np.testing.assert_allclose(R.reshape(-1, 3, 3), numpy_rotations(M.reshape(-1, 3, 3))[0], atol=1e-12)
        buffer = np.empty_like(M)
        assert pg.special_procrustes(M, out=buffer) is buffer
        np.testing.assert_array_equal(buffer, R)

    def test_out_may_be_the_input(self, rng):
        M = np.concatenate([rng.standard_normal((100, 3, 3)), matrices_with((1, 1e-5, 1e-6), rng)])
        R = pg.special_procrustes(M)
        overlapping = np.concatenate([M, M[:1]])
        pg.special_procrustes(overlapping[:-1], out=overlapping[1:])
        np.testing.assert_array_equal(overlapping[1:], R)
        assert pg.special_procrustes(M, out=M) is M
        np.testing.assert_array_equal(M, R)

    def test_plane(self, rng):
        M = rng.standard_normal((20, 2, 2))
        R = pg.special_procrustes(M)
        phase = M[:, 0, 0] + M[:, 1, 1] + 1j * (M[:, 1, 0] - M[:, 0, 1])
        np.testing.assert_allclose(R[:, 0, 0] + 1j * R[:, 1, 0], phase / abs(phase), atol=1e-13)
        assert pg.special_procrustes(M, out=np.empty_like(M)).tolist() == R.tolist()

    def test_float32(self, rng):
        M = rng.standard_normal((4, 3, 3)).astype("f4")
        assert pg.special_procrustes(M).dtype == np.float32

    def test_degenerate(self):
        M = np.stack([np.eye(3), np.diag([1.0, 0, 0])])
        with pytest.raises(DegenerateFitError, match=r"M\[1\] does not determine a rotation"):
            pg.special_procrustes(M)
        np.testing.assert_allclose(
            pg.special_procrustes(M, on_degenerate="clamp"), [np.eye(3)] * 2, atol=1e-12
        )

    @pytest.mark.parametrize(
        ("M", "options", "match"),
        [
            (np.ones((3, 4)), {}, r"M must have shape \(\.\.\., 3, 3\).*got shape \(3, 4\)"),
            (np.ones(3), {}, "M must have shape"),
            (np.empty((0, 3, 3)), {}, "M must have shape"),
            (np.full((3, 3), np.nan), {}, "M must be finite"),
            (np.eye(3), {"on_degenerate": "?"}, "on_degenerate must be"),
            (
                np.eye(3),
                {"out": np.empty((3, 3), "f4")},
                "out must be a contiguous, writeable array of float64",
            ),
            (np.eye(3), {"out": [1]}, "out must be an array, got list"),
            (np.full((2, 2), np.nan), {}, "M must be finite"),
            (np.array([[1.5e308, 1e308], [-1e308, 1.5e308]]), {"on_degenerate": "clamp"}, "M is too large"),
        ],
    )
    def test_bad_input(self, M, options, match):
        with pytest.raises(InputError, match=match):
            pg.special_procrustes(M, **options)


def test_the_fast_way_is_good_enough_for_all_but_hard_matrices(rng):
    """The robust way gives the same rotations and takes dozens of times as long."""
    A = rng.standard_normal((64 * rotation.BLOCK, 3, 3))
    s = np.linalg.svd(A, compute_uv=False)
    gap = (s[:, 1] + np.sign(np.linalg.det(A)) * s[:, 2]) / s[:, 0]
    scratch, R = np.empty(rotation.SCRATCH), np.empty(9 * rotation.BLOCK)
    for block in A[gap > 0.01][: 63 * rotation.BLOCK].reshape(-1, rotation.BLOCK, 9):
        rotation.block_rotations(block.ravel(), R, scratch, rotation.LEAST_D)
        assert not any(rotation.block_failed(scratch, m) for m in range(rotation.BLOCK))
