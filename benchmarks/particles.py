"""Oriented particles: the paper's scenes by size, and shape matching against pypbd (C++).

pointglue bench particles [--markdown] [--quick] [--json FILE]
"""

import time

import _cantilever
import _pypbd
import numpy as np
from _racing import Results, Row, iteration_time, main, timed
from scipy.spatial import cKDTree
from threadpoolctl import threadpool_limits

import pointglue as pg
from pointglue.particles import Buoyancy, Plane, block, sheet

FRAME = 1 / 60


def step_time(solver: pg.ParticleSolver, steps: int, first: int = 0) -> float:
    """Time of a step from step `first` on, contacts and all: the best of medians over 25 steps.

    The median, because frames differ; the best, because the machine is shared.
    """
    state, times = solver.start(), []
    for _ in range(steps):
        start = time.perf_counter()
        state = solver.step(state, FRAME)
        times.append(time.perf_counter() - start)
    assert np.isfinite(state.positions).all()
    windows = [np.median(times[k : k + 25]) for k in range(first, steps, 25)]
    return float(min(windows))


def octopus() -> pg.OrientedBody:
    """A ball with eight tentacles, 300 particles and 750 edges as in Figure 3."""
    k = np.arange(60) + 0.5
    turn, height = np.pi * (1 + 5**0.5) * k, 1 - 2 * k / 60
    ring = np.sqrt(1 - height**2)
    head = 0.2 * np.stack([ring * np.cos(turn), height, ring * np.sin(turn)], axis=1)
    parts = [head]
    for arm in range(8):
        out = np.linspace(0.24, 1.4, 30)
        angle = arm * np.pi / 4 + 0.6 * out
        parts.append(np.stack([out * np.cos(angle), -0.1 - 0.2 * out, out * np.sin(angle)], axis=1))
    x = np.concatenate(parts)
    return pg.OrientedBody(x, radii=0.03, edges=shortest_edges(x, 750), stiffness=0.3)


def shortest_edges(x: np.ndarray, count: int) -> np.ndarray:
    """The shortest pairs, with those first that each particle needs to be tied to an earlier one."""
    needed = [(int(cKDTree(x[:i]).query(x[i])[1]), i) for i in range(1, len(x))]
    pairs = cKDTree(x).query_pairs(0.5, output_type="ndarray")
    length = np.linalg.norm(x[pairs[:, 0]] - x[pairs[:, 1]], axis=1)
    ordered = [(int(i), int(j)) for i, j in np.sort(pairs[np.argsort(length, kind="stable")], axis=1)]
    return np.array(list(dict.fromkeys(needed + ordered))[:count])


def fish_and_plants() -> list[pg.OrientedBody]:
    """Six rooted ribbons and a solid, about 1,000 particles and 3,500 edges as in Figure 4."""
    fish = block((1.3, 0.4, 0.4), (13, 4, 4), stiffness=0.5)
    fish = fish.replace(edges=shortest_edges(fish.positions, 986), stretch=0.0, torsion=0.0)
    upright = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
    plant = sheet((0.2, 1.6), (3, 32), thickness=0.02, stiffness=0.2, mass=0.02)
    plant = plant.replace(pinned=plant.positions[:, 2] < -0.79)
    plants = [plant.moved(rotation=upright, translation=(0.3 * k - 0.75, 0.2, 0.6)) for k in range(6)]
    return [fish.replace(mass=fish.mass * 0.52), *plants]


def paper_scene(name: str, bodies, theirs: float, **scene) -> list[Row]:
    """A frame in one step of two iterations (the paper does not say how many), and with our defaults."""
    rows = []
    for settings, options in (("1 x 2", {"substep": FRAME, "iterations": 2}), ("2 x 2, default", {})):
        solver = pg.ParticleSolver(bodies, **scene, **options)
        seconds = step_time(solver, 500, first=100)  # by then they have landed
        size = f"{len(solver.body):,} particles, {len(solver.body.edges):,} edges"
        work = f"frame of {name}: {size}, substeps x iterations {settings}"
        rows.append(Row(work, seconds, "the paper (Core2, 2.4 GHz)", theirs))
    return rows


def against_pypbd(side: int, size: int, rng: np.random.Generator) -> Row:
    """Time per cluster and iteration on the same clusters, points held deformed.

    From steps of few and of many iterations, so that all else cancels.
    """
    rest, masses, clusters, points = _pypbd.lattice(side, size, rng)
    theirs = _pypbd.seconds(rest, masses, clusters, points, stiffness=1e-9)
    centre = np.repeat(np.arange(len(clusters)), np.diff(clusters.offsets))
    pairs = np.stack([centre, clusters.indices], axis=1)[centre < clusters.indices]
    body = pg.OrientedBody(rest, radii=0.5, mass=masses, edges=pairs, stiffness=1e-9)
    options = {"contacts": "none", "substep": FRAME, "gravity": (0, 0, 0)}
    solvers = {count: pg.ParticleSolver(body, iterations=count, **options) for count in (1, 21)}
    states = {count: solver.start().replace(positions=points) for count, solver in solvers.items()}

    def step(count: int) -> float:
        return timed(lambda: solvers[count].step(states[count], FRAME))

    ours = iteration_time(step) / len(clusters)
    mean = len(clusters.indices) / len(clusters)
    work = (
        f"cluster of {size} (mean {mean:.1f}) with orientations, one iteration ({len(clusters):,} clusters)"
    )
    return Row(work, ours, "pypbd", theirs)


def scaling(sides: list[int]) -> list[str]:
    """Soft cubes in contact with themselves and the ground, from small to large, on one core and on two."""
    lines = []
    for side in sides:
        body = block((0.1 * side,) * 3, (side,) * 3, stiffness=0.5)
        ground = Plane((0, -0.05 * side - 0.01, 0), (0, 1, 0))
        figures = []
        for cores in (1, 2):
            with pg.threads(cores):
                solver = pg.ParticleSolver(body, colliders=[ground], substep=FRAME, iterations=2)
                figures.append(step_time(solver, 25 + 50_000 // len(body)))
        one, two = figures
        lines.append(
            f"{len(body):,} particles, step of 2 iterations: {one * 1e3:.2f} ms on one core "
            f"({one / len(body) * 1e9:.0f} ns a particle), {two * 1e3:.2f} ms on two"
        )
    return lines


def heaps(counts: list[int], rng: np.random.Generator) -> list[str]:
    """Loose balls of all sizes that fall in a heap, from few to many, by the processor's time of a frame."""
    lines = []
    for count in counts:
        side = 0.09 * count ** (1 / 3)
        x = rng.uniform(0, side, (count, 3)) + [0, 0.05, 0]
        body = pg.OrientedBody(x, radii=0.02 * np.exp(rng.normal(0, 0.5, count)), loose=True)
        solver = pg.ParticleSolver(body, colliders=[Plane((0, 0, 0), (0, 1, 0))])
        state, times = solver.start(), []
        for _ in range(40):
            start = time.process_time()
            state = solver.step(state, FRAME)
            times.append(time.process_time() - start)
        seconds = float(np.median(times[-10:]))
        pairs = len(solver.candidate_pairs)
        lines.append(
            f"{count:,} loose balls of all sizes, {pairs:,} pairs near each other, frame of 2 x 2: "
            f"{seconds * 1e3:.1f} ms of CPU ({seconds / count * 1e9:.0f} ns a ball)"
        )
    return lines


def measure(quick: bool = False) -> Results:
    rng = np.random.default_rng(0)
    with pg.threads(1), threadpool_limits(1):
        ground = Plane((0, -0.6, 0), (0, 1, 0))
        rows = paper_scene("the octopus", octopus(), 4e-3, colliders=[ground])
        water = Buoyancy(level=2.0, current=(0.2, 0.0, 0.0))
        rows += paper_scene("fish and plants", fish_and_plants(), 10e-3, colliders=[ground], forces=[water])
        rows += [against_pypbd(10, size, rng) for size in ((7,) if quick else (7, 27))]
        notes = _cantilever.table(quick)
        notes += heaps([1000] if quick else [1000, 10_000, 50_000], rng)
    notes += scaling([10] if quick else [10, 22, 46])
    return Results("particles", rows, notes, "pyPBD 2.2")


if __name__ == "__main__":
    main("particles")
