"""Glue against plain NumPy and against automatic differentiation, on one core, in one run.

pointglue bench glue [--markdown] [--quick] [--json FILE]
"""

import time

import numpy as np
import roma
import torch
from _racing import Results, Row, best_time, main, race
from scipy.sparse import bsr_array
from threadpoolctl import threadpool_limits

import pointglue as pg


def cross(v):
    """[v]x of the last axis."""
    o = np.zeros(v.shape[:-1])
    x, y, z = np.moveaxis(v, -1, 0)
    return np.stack([o, -z, y, z, o, -x, -y, x, o], -1).reshape(*v.shape, 3)


class NumpyGlue:
    """Glue as one writes it in NumPy: batched svd and einsum."""

    def __init__(self, glue, rest):
        self.indices = glue.parents.indices.reshape(len(glue), -1)
        gathered = rest[self.indices]
        self.centre = gathered.mean(1, keepdims=True)
        self.v, self.arm = gathered - self.centre, glue.targets - self.centre[:, 0]
        self.n = self.indices.shape[1]

    def fitted(self, x):
        gathered = x[self.indices]
        t = gathered.mean(1, keepdims=True)
        A = np.einsum("tni,tnj->tij", gathered - t, self.v) / self.n
        U, s, Vt = np.linalg.svd(A)
        sign = np.sign(np.linalg.det(U @ Vt))
        U[..., 2] *= sign[:, None]
        s[:, 2] *= sign
        R = U @ Vt
        return R, np.einsum("tij,tj->ti", R, self.arm) + t[:, 0], A, U, s, Vt

    def by_the_paper(self, x):
        """Derivatives of the decomposition for each coordinate of each parent: equations 15 to 17."""
        _, positions, _, U, s, Vt = self.fitted(x)
        moved = np.einsum("tli,tkj,tnj->tnlik", U, Vt, self.v) / self.n  # U^T dA V
        sums = s[:, :, None] + s[:, None, :]
        omega = (moved - np.swapaxes(moved, -1, -2)) / sums[:, None, None]
        arm = np.einsum("tkj,tj->tk", Vt, self.arm)
        J = np.einsum("tij,tnljk,tk->tnil", U, omega, arm, optimize=True)
        return positions, J + np.eye(3) / self.n

    def by_our_formula(self, x):
        """J_i = w (I - R [v_b]x (tr(S) I - S)^-1 [v_i]x R^T), of docs/explanation/derivations.md."""
        R, positions, A, *_ = self.fitted(x)
        S = np.swapaxes(R, 1, 2) @ A
        G = np.linalg.inv(np.trace(S, axis1=1, axis2=2)[:, None, None] * np.eye(3) - S)
        L = R @ cross(self.arm) @ G
        return positions, (np.eye(3) - L[:, None] @ cross(self.v) @ np.swapaxes(R, 1, 2)[:, None]) / self.n


def bound(count: int, rng: np.random.Generator) -> tuple[list[Row], list[str]]:
    rest = rng.random((count // 2, 3))
    targets = rng.random((count, 3)) * 1.2 - 0.1
    glue = pg.bind_glue(rest, targets, parents=8, falloff="uniform", on_collinear="raise")
    x = rest + 0.05 * rng.standard_normal(rest.shape) * count ** (-1 / 3)
    plain = NumpyGlue(glue, rest)
    J = glue.jacobian(x)

    def ours():
        pose = glue.at(x)
        return pose.positions, pose.jacobian(out=J)

    for theirs in (plain.by_the_paper(x), plain.by_our_formula(x)):
        np.testing.assert_allclose(ours()[0], theirs[0], atol=1e-9)
        np.testing.assert_allclose(J.data.reshape(theirs[1].shape), theirs[1], atol=1e-9)

    tensors = [torch.from_numpy(a) for a in (rest[plain.indices], x[plain.indices], glue.targets[:, None])]

    def position(p, q, target):
        R, t = roma.rigid_points_registration(p, q)
        return (R @ target[0] + t).sum(0)

    autodiff = torch.func.vmap(torch.func.jacrev(position, argnums=1))
    few = max(count // 10, 1)
    work = f"positions + Jacobian, {count:,} bound points with 8 parents"
    f, v = rng.standard_normal((count, 3)), rng.standard_normal(x.shape)
    pose = glue.at(x)
    rows = [
        race(work, "NumPy, the paper's equations", count, ours, lambda: plain.by_the_paper(x)),
        race(work, "NumPy, our closed form", count, ours, lambda: plain.by_our_formula(x)),
        race(
            work,
            "roma and torch.func.jacrev",
            count,
            ours,
            lambda: autodiff(*[tensor[:few] for tensor in tensors]),
            few,
        ),
        race(
            f"J^T f of {count:,} forces, no matrix",
            "NumPy Jacobian, scipy product",
            count,
            lambda: glue.transfer_forces(x, f),
            lambda: numpy_forces(plain, glue, x, f),
        ),
    ]

    def new_pose():  # which has kept nothing yet that its derivatives need
        return glue.at(x)

    whole, fit = best_time(ours), best_time(new_pose)
    jacobian = best_time(lambda pose: pose.jacobian(out=J), prepare=new_pose)
    velocities = best_time(lambda pose: pose.velocities(v), prepare=new_pose)
    forces = best_time(lambda pose: pose.transfer_forces(f), prepare=new_pose)
    rotation = rotations_alone(pose.fit)
    notes = [
        f"all {count:,} positions and Jacobians: {whole * 1e3:.2f} ms, of which {rotation / whole:.0%} is "
        f"rotations (the paper's SVD), {jacobian / whole:.0%} the derivatives, "
        f"{(whole - rotation - jacobian) / whole:.0%} sums over parents, positions and checks",
        f"velocities {velocities * 1e3:.2f} ms, forces {forces * 1e3:.2f} ms, "
        f"Hessian {best_time(lambda: pose.hessian(f), 5) * 1e3:.0f} ms, fit {fit * 1e3:.2f} ms",
    ]
    return rows, notes


def rotations_alone(fit):
    """Return the time that the rotations R of the moments A = R S of a fit take."""
    A, R = fit.rotation @ fit.stretch, np.empty_like(fit.rotation)
    return best_time(lambda: pg.special_procrustes(A, on_degenerate="clamp", out=R))


def numpy_forces(plain, glue, x, f):
    blocks = plain.by_our_formula(x)[1].reshape(-1, 3, 3)
    J = bsr_array((blocks, *glue.block_pattern), shape=(3 * len(glue), 3 * glue.point_count))
    return J.T @ f.ravel()


def binding(count: int, rng: np.random.Generator) -> list[str]:
    rest, targets = rng.random((10 * count, 3)), rng.random((count, 3))
    start = time.perf_counter()
    pg.bind_glue(rest, targets)
    return [
        f"binding {count:,} targets to {10 * count:,} points: {time.perf_counter() - start:.1f} s, all cores"
    ]


def measure(quick: bool = False) -> Results:
    rng = np.random.default_rng(0)
    torch.set_num_threads(1)
    scale = 10 if quick else 1
    with pg.threads(1), threadpool_limits(1):
        rows, notes = bound(10_000 // scale, rng)
    notes += binding(100_000 // scale, rng)
    return Results("glue", rows, notes, f"torch {torch.__version__}, roma {roma.__version__}")


if __name__ == "__main__":
    main("glue")
