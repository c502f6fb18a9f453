"""From meshes to bodies: how long authoring takes, and skinning against NumPy and the paper.

pointglue bench creatures [--markdown] [--quick] [--json FILE]
"""

import os
import time
from pathlib import Path

import numpy as np
import trimesh
from _racing import Results, Row, main, race
from threadpoolctl import threadpool_limits

import pointglue as pg
from pointglue import assets
from pointglue.particles import Plane

FRAME = 1 / 60
MESHES = Path(os.environ.get("POINTGLUE_MESHES", Path(__file__).parents[2] / "shared" / "meshes"))


def truck() -> pg.OrientedBody:
    """A skin of some 63,000 vertices, as the paper's monster truck has, on about 300 particles."""
    vertices, faces = assets.octopus()
    mesh = trimesh.Trimesh(vertices, faces, process=False)
    while len(mesh.vertices) < 60_000:
        mesh = mesh.subdivide()
    return pg.OrientedBody.from_mesh((mesh.vertices[:63_000], _within(mesh.faces, 63_000)), spacing=0.06)


def _within(faces: np.ndarray, count: int) -> np.ndarray:
    return faces[(faces < count).all(1)]


def in_numpy(body: pg.OrientedBody, state: pg.ParticleState) -> np.ndarray:
    """Linear blend skinning as one writes it in NumPy."""
    R, t = body.transforms(state)
    skin = body.visual
    moved = np.einsum("vkij,vj->vki", R[skin.links], skin.vertices) + t[skin.links]
    return np.einsum("vk,vki->vi", skin.weights, moved)


def skinning(body: pg.OrientedBody) -> list[Row]:
    solver = pg.ParticleSolver(body, colliders=[Plane((0, -0.2, 0), (0, 1, 0))])
    state = solver.start()
    for _ in range(30):
        state = solver.step(state, FRAME)
    out, count = np.empty_like(body.visual.vertices), len(body.visual)
    ours = {
        blend: (lambda blend=blend: body.skin(state, blend=blend, out=out)) for blend in ("linear", "dual")
    }
    assert np.abs(ours["linear"]() - in_numpy(body, state)).max() < 1e-12
    work = f"skinning of a vertex, {{}} blend, 4 links ({count:,} vertices)"
    numpy = race(work.format("linear"), "NumPy", count, ours["linear"], lambda: in_numpy(body, state))
    dual = race(
        work.format("dual quaternion"), "NumPy, linear", count, ours["dual"], lambda: in_numpy(body, state)
    )
    # Two trucks of 63,000 vertices in 30 ms.
    return [numpy, Row(numpy.work, numpy.ours, "the paper (Core2, 2.4 GHz)", 30e-3 / 126_000), dual]


def authoring(quick: bool) -> list[str]:
    """Particles, edges and seconds for each mesh there is."""
    shapes = {"octopus": assets.octopus(), "fish": assets.fish(), "plant": assets.plant()}
    if MESHES.is_dir() and not quick:
        for file in sorted(MESHES.iterdir()):
            mesh = trimesh.load(file, force="mesh", process=False)
            shapes[file.stem] = (mesh.vertices, mesh.faces)
    lines = []
    for name, mesh in shapes.items():
        start = time.perf_counter()
        body = pg.OrientedBody.from_mesh(mesh)
        seconds = time.perf_counter() - start
        size = f"{len(mesh[0]):,} vertices"
        lines.append(f"{name}: {size}, {len(body)} particles, {len(body.edges)} edges, {seconds:.1f} s")
    return lines


def measure(quick: bool = False) -> Results:
    with pg.threads(1), threadpool_limits(1):
        rows = skinning(truck())
    return Results("creatures", rows, authoring(quick), "all cores for authoring")


if __name__ == "__main__":
    main("creatures")
