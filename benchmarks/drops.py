"""Drop meshes as they are from their own height onto ground and onto stairs, with no option set.

For each the table says how the edges of its skin have changed after three seconds, and how fast it is then.

pointglue bench drops [--quick], or for others, with pictures: python benchmarks/drops.py FOLDER MESH ...
"""

import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import trimesh
from _racing import Results

from pointglue import view
from pointglue.assets.simple import stairs
from pointglue.particles import MeshCollider, OrientedBody, ParticleSolver, ParticleState, Plane
from pointglue.view.output import save_png

SECONDS, FRAME = 3.0, 1 / 60
FAIR = (0.8, 1.25)  # edges that have changed by less look as they did
SHARES = (0.05, 50.0, 99.95)  # %: 99.9 % of the edges are between the first and the last
SHOWN = (0.0, 0.5, 1.0, 3.0)  # s
STEPS = 6
SIZE = (480, 400)
ROOT = Path(__file__).parents[1]
Mesh = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Drop:
    """What was dropped, and what became of it."""

    body: OrientedBody
    states: list[ParticleState]
    """At `SHOWN`."""
    below: Mesh
    """The stairs."""
    ratios: np.ndarray
    """The lengths of the edges in the end, by those at rest, at `SHARES`."""
    speed: float
    """The fastest particle in the end, in heights of the mesh a second."""

    @property
    def fair(self) -> bool:
        """Whether it kept its proportions."""
        return bool(FAIR[0] <= self.ratios[0] and self.ratios[-1] <= FAIR[1])


def flight(height: float) -> Mesh:
    """Stairs as high as what falls down on them."""
    rise = height / STEPS
    return stairs(STEPS, rise=rise, run=1.5 * rise, width=6 * height)


def drop(mesh: Mesh, *, on_stairs: bool) -> Drop:
    """Drop a mesh."""
    body = OrientedBody.from_mesh(mesh)
    low, high = mesh[0].min(0), mesh[0].max(0)
    height = float((high - low).max())
    below = flight(height)
    ground = Plane([0, 0, 0], [0, 1, 0])
    above = height * (2 if on_stairs else 1)
    middle = (low + high) / 2
    at = np.array([height / STEPS if on_stairs else 0.0, above, 0.0])
    body = body.moved(translation=at - [middle[0], low[1], middle[2]])
    solver = ParticleSolver(body, colliders=[ground, MeshCollider(*below)] if on_stairs else [ground])
    state, states = solver.start(), []
    edges = trimesh.Trimesh(*mesh, process=False).edges_unique
    rest = _lengths(body.skin(state), edges)
    for frame in range(round(SECONDS / FRAME) + 1):
        if any(abs(frame * FRAME - time) < FRAME / 2 for time in SHOWN):
            states.append(state)
        if frame < round(SECONDS / FRAME):
            state = solver.step(state, FRAME)
    kept = rest > 1e-9 * height
    ratios = _lengths(body.skin(state), edges)[kept] / rest[kept]
    fastest = float(np.linalg.norm(state.velocities, axis=1).max())
    return Drop(body, states, below, np.percentile(ratios, SHARES), fastest / height)


def _lengths(points: np.ndarray, edges: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1))


def strip(drops: list[Drop], faces: np.ndarray, path: Path) -> None:
    """Draw what fell onto ground, above, and onto stairs, below, at several times."""
    images = []
    for one, on_stairs in zip(drops, (False, True), strict=True):
        row, skins = [], [one.body.skin(state) for state in one.states]
        below = narrowed(one.below, np.concatenate(skins))
        whole = view.Picture(size=SIZE, ground=0.0, camera=view.Camera(direction=(0.6, 0.35, 1.0)))
        for skin in skins:
            whole.mesh(skin, faces)
        if on_stairs:
            whole.mesh(*below)
        camera = whole.fitted_camera()  # one for all
        for skin in skins:
            picture = view.Picture(size=SIZE, ground=0.0, camera=camera)
            picture.mesh(skin, faces, color="coral")
            if on_stairs:
                picture.mesh(*below, color="sand")
            row.append(picture.image())
        images.append(np.concatenate(row, axis=1))
    save_png(np.concatenate(images, axis=0), path)


def narrowed(mesh: Mesh, near: np.ndarray) -> Mesh:
    """The stairs, not wider than what falls on them needs."""
    points, wide = mesh[0].copy(), max(1.2 * np.abs(near[:, 2]).max(), 0.25 * np.ptp(mesh[0][:, 1]))
    points[:, 2] = np.clip(points[:, 2], -wide, wide)
    return points, mesh[1]


def found_meshes(quick: bool) -> dict[str, Callable[[], Mesh]]:
    """The real meshes that are at hand, and those of the tests that are as bad as people find them."""
    folder = Path(os.environ.get("POINTGLUE_MESHES", ROOT.parent / "shared" / "meshes"))
    files = sorted(file for file in folder.glob("*.*") if file.suffix in (".obj", ".ply", ".stl", ".glb"))
    sys.path.insert(0, str(ROOT / "tests"))
    from web_meshes import WEB_MESHES

    every = {file.stem: lambda file=file: read(file) for file in files} | WEB_MESHES
    return dict(list(every.items())[:2]) if quick else every


def read(file: Path) -> Mesh:
    """A mesh of a file, of triangles."""
    mesh = trimesh.load(file, force="mesh", process=False)
    return np.array(mesh.vertices), np.array(mesh.faces)


def triangles(mesh: Mesh) -> Mesh:
    """The same with quads in two halves."""
    points, faces = np.asarray(mesh[0], float), np.asarray(mesh[1])
    return points, faces if faces.shape[1] == 3 else faces[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)


def measure(
    quick: bool = False, meshes: dict[str, Callable[[], Mesh]] | None = None, pictures: Path | None = None
) -> Results:
    """Drop all of them."""
    cells, good, count = [], 0, 0
    for name, make in (found_meshes(quick) if meshes is None else meshes).items():
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            mesh = triangles(make())
            drops = [drop(mesh, on_stairs=on_stairs) for on_stairs in (False, True)]
        good, count = good + sum(one.fair for one in drops), count + len(drops)
        cells.append(
            [name, f"{len(mesh[0]):,}", str(len(drops[0].body)), *_cells(drops[0]), *_cells(drops[1])]
        )
        print(*cells[-1], *{str(one.message)[:150] for one in told}, sep="  ", flush=True)
        if pictures is not None:
            strip(drops, mesh[1], pictures / f"{name}.png")
    where = ("edges on ground", "heights/s", "edges on stairs", "heights/s")
    note = f"{good} of {count} keep 99.9 % of their edges between {FAIR[0]} and {FAIR[1]} of their lengths"
    return Results("drops", [], [note], headings=("mesh", "vertices", "particles", *where), cells=cells)


def _cells(one: Drop) -> list[str]:
    return [f"{one.ratios[0]:.2f} to {one.ratios[-1]:.2f}", f"{one.speed:.1e}"]


if __name__ == "__main__":
    folder, *files = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    chosen = {Path(file).stem: lambda file=file: read(Path(file)) for file in files} or None
    print(measure(meshes=chosen, pictures=Path(folder)).notes[0])
