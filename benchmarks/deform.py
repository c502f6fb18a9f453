"""Handle deformation against vectorised NumPy and against libigl's as-rigid-as-possible solver.

pointglue bench deform [--markdown] [--quick] [--json FILE]
"""

import time

import igl
import numpy as np
from _racing import Results, Row, best_time, main, race
from threadpoolctl import threadpool_limits

import pointglue as pg
from pointglue.geometry import shapes


class NumpyDeformer:
    """Rigid moving least squares as one writes it in NumPy; weights and rest moments worked out once."""

    def __init__(self, x, p):
        w = 1 / ((x[:, None] - p) ** 2).sum(-1)
        self.w = w / w.sum(1, keepdims=True)
        centre = self.w @ p
        self.c = self.w[:, :, None] * (p - centre[:, None])
        self.arm = x - centre

    def deform(self, q):
        A = np.einsum("vhi,hj->vji", self.c, q)
        U, _, Vt = np.linalg.svd(A)
        U[..., 2] *= np.sign(np.linalg.det(U @ Vt))[:, None]
        return np.einsum("vij,vj->vi", U @ Vt, self.arm) + self.w @ q


def scene(count: int, rng: np.random.Generator):
    x, p = rng.standard_normal((count, 3)), rng.standard_normal((50, 3))
    return x, p, p + 0.2 * rng.standard_normal(p.shape)


def against_numpy(count: int, rng: np.random.Generator) -> Row:
    x, p, q = scene(count, rng)
    deformer, plain, out = pg.HandleDeformer(x, p), NumpyDeformer(x, p), np.empty_like(x)
    np.testing.assert_allclose(deformer.deform(q, out=out), plain.deform(q), atol=1e-8)
    work, peer = f"frame of {count:,} vertices, 50 handles", "NumPy (einsum and svd)"
    return race(work, peer, count, lambda: deformer.deform(q, out=out), lambda: plain.deform(q))


def against_arap(cells: int) -> tuple[Row, list[str]]:
    """A bar twisted by a quarter turn and bent, held by the same 50 vertices in both."""
    vertices, faces = shapes.box((4.0, 1.0, 1.0), (4 * cells, cells, cells))
    along = np.argsort(vertices[:, 0], kind="stable")
    b = along[np.linspace(0, len(along) - 1, 50).astype(int)]
    angle = np.pi / 8 * vertices[b, 0]
    c, s = np.cos(angle), np.sin(angle)
    x, y, z = vertices[b].T
    bc = np.stack([x, c * y - s * z + 0.1 * x * x, s * y + c * z], axis=1)
    deformer = pg.HandleDeformer((vertices, faces), vertices[b], distance="euclidean", falloff=2.0)
    data = igl.ARAPData()
    data.max_iter = 10
    data.energy = igl.ARAP_ENERGY_TYPE_SPOKES_AND_RIMS
    igl.arap_precomputation(vertices, faces, 3, b.astype(np.int32), data)
    out = np.empty_like(vertices)
    row = race(
        f"frame of a bar, {len(vertices):,} vertices",
        "libigl ARAP, prefactored, 10 iterations",
        len(vertices),
        lambda: deformer.deform(bc, out=out),
        lambda: igl.arap_solve(bc, data, vertices),
    )
    edges = np.unique(np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1), axis=0)

    def strain(moved):
        length = [np.linalg.norm(v[edges[:, 0]] - v[edges[:, 1]], axis=1) for v in (moved, vertices)]
        return np.sqrt(np.mean((length[0] / length[1] - 1) ** 2))

    solved = igl.arap_solve(bc, data, vertices)
    note = (
        f"stretch of the bar's edges (rms): {strain(out):.1%} here, {strain(solved):.1%} by ARAP; "
        f"handles missed by {np.abs(out[b] - bc).max():.0e} and {np.abs(solved[b] - bc).max():.0e}"
    )
    return row, [note]


def scaling(sizes: list[int], rng: np.random.Generator) -> list[str]:
    """Frames per second on all cores, and time per vertex from small to large."""
    lines = []
    for count in sizes:
        x, p, q = scene(count, rng)
        start = time.perf_counter()
        deformer, out = pg.HandleDeformer(x, p), np.empty_like(x)
        built = time.perf_counter() - start
        best = best_time(lambda deformer=deformer, q=q, out=out: deformer.deform(q, out=out), 5)
        lines.append(
            f"{count:,} vertices, 50 handles, all cores: {best * 1e3:.1f} ms a frame, "
            f"{1 / best:,.0f} frames/s, {best / count * 1e9:.0f} ns a vertex; built in {built:.1f} s"
        )
    return lines


def measure(quick: bool = False) -> Results:
    rng = np.random.default_rng(0)
    scale = 10 if quick else 1
    with pg.threads(1), threadpool_limits(1):
        rows = [against_numpy(100_000 // scale, rng)]
        arap, notes = against_arap(20 if quick else 64)
        rows.append(arap)
    notes += scaling([10_000 // scale, 100_000 // scale, 1_000_000 // scale], rng)
    return Results("deform", rows, notes, "libigl 2.6")


if __name__ == "__main__":
    main("deform")
