"""The core against its peers, on one core, side by side in one run.

    pointglue bench core [--markdown] [--quick] [--json FILE]

Every pair does the same work on the same numbers. Times are the best of several runs, alternating
between the two, after a warm-up that compiles whatever compiles.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
import roma
import torch
import warp as wp
from _racing import Results, Row, main, race
from scipy.spatial.transform import Rotation
from threadpoolctl import threadpool_limits

import pointglue as pg
from pointglue.procrustes.torch import special_procrustes


@wp.kernel
def _warp_rotations(A: wp.array(dtype=wp.mat33d), R: wp.array(dtype=wp.mat33d)):
    i = wp.tid()
    U = wp.mat33d()
    s = wp.vec3d()
    V = wp.mat33d()
    wp.svd3(A[i], U, s, V)
    R[i] = U * wp.transpose(V)


def numpy_rotations(A):
    U, _, Vt = np.linalg.svd(A)
    U[..., 2] *= np.sign(np.linalg.det(U @ Vt))[:, None]
    return U @ Vt


def rotations(count: int, rng: np.random.Generator) -> list[Row]:
    A = rng.standard_normal((count, 3, 3))
    R = np.empty_like(A)

    def ours():
        pg.special_procrustes(A, on_degenerate="clamp", out=R)

    few = max(count // 10, 1)
    tensor = torch.from_numpy(A)
    warp_A = wp.array(A, dtype=wp.mat33d, device="cpu")
    warp_R = wp.empty_like(warp_A)
    work = f"rotation of {count:,} 3x3 matrices, float64"
    rows = [
        race(work, "numpy.linalg.svd, the factors alone", count, ours, lambda: np.linalg.svd(A[:few]), few),
        race(work, "numpy.linalg.svd to a rotation", count, ours, lambda: numpy_rotations(A[:few]), few),
        race(work, "torch.linalg.svd", count, ours, lambda: torch.linalg.svd(tensor[:few]), few),
        race(
            work, "roma.special_procrustes", count, ours, lambda: roma.special_procrustes(tensor[:few]), few
        ),
        race(
            work,
            "warp svd3 (CPU)",
            count,
            ours,
            lambda: wp.launch(_warp_rotations, count, [warp_A], [warp_R], device="cpu"),
        ),
    ]
    np.testing.assert_allclose(R[:few], numpy_rotations(A[:few]), atol=1e-6)
    return rows


def fits(count: int, rng: np.random.Generator) -> list[Row]:
    rest = rng.standard_normal((count, 8, 3))
    points = rest + 0.2 * rng.standard_normal(rest.shape)
    w = rng.random((count, 8))
    shape = pg.RestShape(rest, w)
    few = max(count // 10, 1)
    few_rest, few_points, few_w = rest[:few], points[:few], w[:few]

    def numpy_fit():
        v = few_w / few_w.sum(-1, keepdims=True)
        a, b = (v[..., None] * few_rest).sum(1), (v[..., None] * few_points).sum(1)
        A = np.einsum("bi,bij,bik->bjk", v, few_points - b[:, None], few_rest - a[:, None])
        R = numpy_rotations(A)
        return R, b - np.einsum("bij,bj->bi", R, a)

    def scipy_fit():
        for x, y, v in zip(few_rest[:200], few_points[:200], few_w[:200], strict=True):
            Rotation.align_vectors(
                y - np.average(y, axis=0, weights=v), x - np.average(x, axis=0, weights=v), weights=v
            )

    tensors = [torch.from_numpy(x) for x in (few_rest, few_points, few_w)]
    work = f"rigid fit of {count:,} groups of 8 points"
    return [
        race(work, "NumPy (einsum and svd)", count, lambda: shape.fit(points), numpy_fit, few),
        race(
            work,
            "roma.rigid_points_registration",
            count,
            lambda: shape.fit(points),
            lambda: roma.rigid_points_registration(*tensors),
            few,
        ),
        race(
            work, "scipy align_vectors, in a loop", count, lambda: shape.fit(points), scipy_fit, min(few, 200)
        ),
    ]


def jacobians(count: int, rng: np.random.Generator) -> list[Row]:
    rest = rng.standard_normal((count, 8, 3))
    points = rest + 0.2 * rng.standard_normal(rest.shape)
    p = rng.standard_normal((count, 1, 3))
    shape = pg.RestShape(rest)
    fit = shape.fit(points)
    few = max(count // 10, 1)
    buffer = fit.jacobian(p)

    def new_fit():  # which has kept nothing yet that its derivatives need
        return shape.fit(points)

    def ours(fit):
        return fit.jacobian(p, out=buffer)

    def cross(v):
        o = np.zeros(v.shape[:-1])
        x, y, z = np.moveaxis(v, -1, 0)
        return np.stack([o, -z, y, z, o, -x, -y, x, o], -1).reshape(*v.shape, 3)

    R, S, few_rest, arm = fit.rotation[:few], fit.stretch[:few], rest[:few], p[:few, 0] - rest[:few].mean(1)

    def numpy_jacobian():
        G = np.linalg.inv(np.trace(S, axis1=1, axis2=2)[:, None, None] * np.eye(3) - S)
        L = R @ cross(arm) @ G
        v = few_rest - few_rest.mean(1, keepdims=True)
        return (np.eye(3) - L[:, None] @ cross(v) @ np.swapaxes(R, 1, 2)[:, None]) / 8

    np.testing.assert_allclose(ours(fit)[:few, 0], numpy_jacobian(), atol=1e-8)
    fewer = max(count // 100, 1)
    tensors = [torch.from_numpy(x[:fewer]) for x in (rest, points, p)]

    def position(x, y, q):
        R, t = roma.rigid_points_registration(x, y)
        return (R @ q[0] + t).sum(0)

    autodiff = torch.func.vmap(torch.func.jacrev(position, argnums=1))
    work = f"Jacobians of {count:,} bound points with 8 parents"
    return [
        race(work, "the fit itself", count, ours, new_fit, prepare=new_fit),
        race(work, "NumPy, the same formula", count, ours, numpy_jacobian, few, prepare=new_fit),
        race(
            work,
            "roma and torch.func.jacrev",
            count,
            ours,
            lambda: autodiff(*tensors),
            fewer,
            prepare=new_fit,
        ),
    ]


def automatic_differentiation(count: int, rng: np.random.Generator) -> list[Row]:
    rows = []
    for n in (count // 1000, count // 10, count):
        M = torch.from_numpy(rng.standard_normal((n, 3, 3))).requires_grad_()
        g = torch.from_numpy(rng.standard_normal((n, 3, 3)))

        def forward_and_backward(function, M=M, g=g):
            return torch.autograd.grad(function(M), M, g)

        rows.append(
            race(
                f"torch forward + backward, {n:,} matrices",
                "roma.special_procrustes",
                n,
                lambda run=forward_and_backward: run(special_procrustes),
                lambda run=forward_and_backward: run(roma.special_procrustes),
            )
        )
    return rows


START = """
import time
start = time.perf_counter()
import pointglue as pg
imported = time.perf_counter()
import numpy as np
x = np.random.default_rng(0).standard_normal((8, 3))
fit = pg.fit_rigid(x, x)
fit.jvp(x), fit.vjp(fit.rotation), fit.jacobian(x), fit.second(x, x), fit.gap, fit.stretch
fit.hessian(x, x), fit.hessian_product(x, x, x)
print(imported - start, time.perf_counter() - imported)
"""


def start_up() -> list[str]:
    """Import, first use with an empty cache, and first use after that, each in a new process."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}

        def run() -> list[float]:
            command = [sys.executable, "-c", START]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            return [float(number) for number in done.stdout.split()]

        cold, warm = run(), min(run() for _ in range(3))
    return [
        f"import pointglue: {warm[0]:.3f} s",
        f"first use of everything, compiling: {cold[1]:.1f} s; from the cache on disk: {warm[1]:.2f} s",
    ]


def measure(quick: bool = False) -> Results:
    rng = np.random.default_rng(0)
    torch.set_num_threads(1)
    wp.config.quiet = True
    scale = 10 if quick else 1
    with pg.threads(1), threadpool_limits(1):
        rows = [
            *rotations(1_000_000 // scale, rng),
            *fits(100_000 // scale, rng),
            *jacobians(100_000 // scale, rng),
            *automatic_differentiation(1_000_000 // scale, rng),
        ]
    notes = start_up()
    peers = f"torch {torch.__version__}, roma {roma.__version__}, warp {wp.__version__}"
    return Results("core", rows, notes, peers)


if __name__ == "__main__":
    main("core")
