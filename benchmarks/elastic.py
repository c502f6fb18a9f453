"""Implicit solids: a hanging cloth and a hanging block against newton's VBD, and frame cost by size.

Times are of the processor, on one core: what the clock on the wall says of a machine that is not shared.

pointglue bench elastic [--markdown] [--quick] [--json FILE]
Without the peer, which takes most of the time: python benchmarks/elastic.py --steps [--json FILE]
"""

from dataclasses import replace
from importlib.metadata import version
from time import perf_counter, process_time

import numpy as np
from _racing import Results, Row, main
from _vbd import Material, Peer, Solid
from threadpoolctl import threadpool_limits

import pointglue as pg
from pointglue.elastic import (
    Bond,
    ClothEnergy,
    ElasticBody,
    Energy,
    FleshEnergy,
    HexahedronEnergy,
    ImplicitSolver,
)
from pointglue.geometry.simplices import hex_box, tet_box

FRAME, STEPS = 1 / 60, 60
SAMPLES = (4, 14, 24, 34, 44, 54)  # frames of the second from which both step
TOLERANCES = (10.0, 1.0, 1e-1, 1e-2, 1e-3, 1e-4)  # of ours, in m/s; the last is the default
DEFAULT = 10  # iterations of VBD unless told


def cloth(cells: int, name: str = "cloth") -> tuple[Solid, ClothEnergy]:
    """A square metre pinned at two corners, of 2 x cells^2 triangles, and the energy of its hinges alone."""
    stretch, poisson, bend = 2e3, 0.3, 2e-5  # N/m, -, N m: light cotton
    k = np.arange((cells + 1) ** 2).reshape(cells + 1, cells + 1)
    x = np.stack([k // (cells + 1), 0 * k, k % (cells + 1)], axis=-1).reshape(-1, 3) / cells
    a, b, c, d = (q.ravel() for q in (k[:-1, :-1], k[1:, :-1], k[1:, 1:], k[:-1, 1:]))
    even = (np.add.outer(np.arange(cells), np.arange(cells)) % 2 == 0).ravel()
    faces = np.concatenate([
        np.stack([a, c, b], 1)[even], np.stack([a, d, c], 1)[even],
        np.stack([a, d, b], 1)[~even], np.stack([b, d, c], 1)[~even],
    ])  # fmt: skip
    energy = ClothEnergy(x, faces, stretch=stretch, poisson=poisson, bend=bend)
    pinned = np.isin(np.arange(len(x)), [0, cells])
    body = ElasticBody(x, energy.mass(0.2), [energy], pinned=pinned, name=name)
    length = np.linalg.norm(x[energy.hinges[:, 1]] - x[energy.hinges[:, 2]], axis=1)
    stiffness = bend * length**2 * cells**2  # all triangles have the same area
    mu, lam = stretch / (2 * (1 + poisson)), stretch * poisson / (1 - poisson**2)
    hinges = ClothEnergy(x, faces, stretch=1e-9, bend=bend)  # next to nothing of the triangles
    return Solid(body, faces, mu, lam, energy.hinges, stiffness), hinges


def block(cells: int, name: str = "block", shift=(0.0, 0.0, 0.0)) -> Solid:
    """A soft bar of 0.8 x 0.4 x 0.4 m, held at one end, of 12 x cells^3 tetrahedra."""
    young, poisson = 1e5, 0.4
    x, tets = tet_box((0.8, 0.4, 0.4), (2 * cells, cells, cells))
    energy = FleshEnergy(x, tets, young=young, poisson=poisson)
    body = ElasticBody(x + shift, energy.mass(1000.0), [energy], pinned=x[:, 0] < -0.399, name=name)
    mu, lam = young / (2 * (1 + poisson)), young * poisson / ((1 + poisson) * (1 - 2 * poisson))
    return Solid(body, tets, mu, lam, np.empty((0, 4), np.int64), np.empty(0))


def hexahedral_block(cells: int) -> ElasticBody:
    """The same bar of 2 x cells^3 hexahedra."""
    x, hexahedra = hex_box((0.8, 0.4, 0.4), (2 * cells, cells, cells))
    energy = HexahedronEnergy(x, hexahedra, young=1e5, poisson=0.4)
    return ElasticBody(x, energy.mass(1000.0), [energy], pinned=x[:, 0] < -0.399, name="block")


def sampled(solid: Solid) -> list[tuple[np.ndarray, np.ndarray]]:
    """Places and velocities in a second of ours, in 32 bits: the same for both."""
    solver = ImplicitSolver([solid.body])
    state, states = solver.start(), []
    for frame in range(max(SAMPLES) + 1):
        if frame in SAMPLES:
            states.append(
                tuple(a.astype(np.float32).astype(float) for a in (state.positions, state.velocities))
            )
        state = solver.step(state, FRAME)
    return states


def ended(body: ElasticBody, states, tolerance: float) -> tuple[float, list[np.ndarray]]:
    """Mean time of our steps from such states, and their ends."""
    solver = ImplicitSolver([body], tolerance=tolerance)
    start = solver.start()
    solver.step(start, FRAME)
    seconds, ends = 0.0, []
    for x, v in states:
        begin = process_time()
        ends.append(solver.step(replace(start, particles=x, particle_velocities=v), FRAME).positions)
        seconds += process_time() - begin
    return seconds / len(states), ends


def error(ends, exact) -> float:
    """How much too fast or slow a point is at the end of a step, at worst (m/s)."""
    return max(float(np.linalg.norm(a - b, axis=1).max()) for a, b in zip(ends, exact, strict=True)) / FRAME


def against_vbd(what: str, solid: Solid, shared: list[Energy], most: int) -> tuple[list[Row], str]:
    """Steps of VBD, and ours to the loosest tolerance that comes as near to the exact end of the step.

    VBD gets four times as many iterations again and again. `shared` are energies that both have.
    """
    states, peer = sampled(solid), Peer(solid)
    theirs = ElasticBody(
        solid.body.positions, solid.body.mass, [Material(solid), *shared], pinned=solid.body.pinned
    )
    exact, their_exact = (ended(body, states, 1e-6)[1] for body in (solid.body, theirs))
    runs = []
    for tolerance in TOLERANCES:
        seconds, ends = ended(solid.body, states, tolerance)
        runs.append((error(ends, exact), seconds, tolerance))
    rows, iterations = [], DEFAULT
    while iterations <= most:
        times, ends = zip(*(peer.step(*each, FRAME, iterations) for each in states), strict=True)
        off = error(ends, their_exact)
        left, seconds, tolerance = min(
            (run for run in runs if run[0] <= off), key=lambda run: run[1], default=runs[-1]
        )
        work = f"a second of {what}, {STEPS} steps, tolerance {tolerance:.0e}: within {left:.0e} m/s"
        name = f"VBD, {iterations} iterations: within {off:.0e} m/s"
        rows.append(Row(work, STEPS * seconds, name, STEPS * float(np.mean(times))))
        iterations *= 4
    each = (
        f"{tolerance:.0e}: {STEPS * seconds:.2g} s, within {left:.0e}" for left, seconds, tolerance in runs
    )
    return rows, f"{what}, ours by tolerance (m/s): " + "; ".join(each)


def frame_cost(bodies, steps: int, **options) -> tuple[float, dict[str, float], float]:
    """Median time of a step after the first, the shares of its parts, and Newton iterations a step."""
    solver = ImplicitSolver(bodies, **options)
    state = solver.step(solver.start(), FRAME)
    times, parts, iterations, begin = [], [], [], perf_counter()
    for _ in range(steps):
        start = process_time()
        state = solver.step(state, FRAME)
        times.append(process_time() - start)
        assert state.report is not None
        parts.append(state.report.seconds)
        iterations.append(state.report.iterations)
    total = perf_counter() - begin  # reports are of the wall's clock
    names = ("energies", "sum", "factor", "solve", "glue")
    shares = {name: sum(part.get(name, 0.0) for part in parts) / total for name in names}
    return float(np.median(times)), shares, float(np.mean(iterations))


def scaling(what: str, bodies) -> tuple[list[Row], list[str]]:
    """Frame cost by size: the time of a step, and what it is spent on."""
    rows, lines, first = [], [], None
    for body in bodies:
        count = len(body.energies[0].faces if what == "triangles" else body.energies[0])
        seconds, shares, iterations = frame_cost([body], 3)
        first = first or (count, seconds)
        rows.append(Row(f"a step of {count:,} {what}", seconds))
        line = f"{count:,} {what}: {iterations:.1f} Newton iterations, {seconds / count * 1e6:.1f} us an "
        line += f"element; {_percent(shares)}"
        if count > first[0]:
            power = np.log(seconds / first[1]) / np.log(count / first[0])
            line += f"; grows as the number to the {power:.2f}"
        lines.append(line)
    return rows, lines


def glue_overhead(cells: int) -> str:
    """One block on another by glue, against two that are held."""
    first, second = block(cells).body, block(cells, "hung", (0.85, 0.0, 0.0)).body
    ends = np.flatnonzero(second.pinned)
    hung = ElasticBody(second.positions, second.mass, second.energies, name="hung")
    seconds, shares, _ = frame_cost([first, hung], 5, glue=[Bond("hung", ends, "block")])
    without = frame_cost([first, second], 5)[1]
    return (
        f"{len(ends)} points of a block glued to another, {2 * len(first.energies[0]):,} tetrahedra in all: "
        f"{seconds * 1e3:.0f} ms a step, glue {shares['glue']:.1%} of it ({without['glue']:.1%} without glue)"
    )


def _percent(shares: dict[str, float]) -> str:
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items())


def steps(quick: bool = False) -> Results:
    """Steps by the number of elements, and of glued blocks."""
    rows, notes = [], []
    solids, cloths = ((4, 6), (22, 39)) if quick else ((4, 6, 9, 14), (22, 39, 71, 122))
    with pg.threads(1), threadpool_limits(1):
        for what, bodies in (
            ("tetrahedra", [block(n).body for n in solids]),
            ("hexahedra", [hexahedral_block(n) for n in solids]),
            ("triangles", [cloth(n)[0].body for n in cloths]),
        ):
            more, lines = scaling(what, bodies)
            rows += more
            notes += lines
        notes.append(glue_overhead(4 if quick else 8))
    return Results("elastic", rows, notes)


def measure(quick: bool = False) -> Results:
    most = 40 if quick else 640
    with pg.threads(1), threadpool_limits(1):
        solid, hinges = cloth(16 if quick else 55)
        what = f"a hanging cloth, {len(solid.elements):,} triangles"
        rows, note = against_vbd(what, solid, [hinges], most)
        notes = [note]
        solid = block(4 if quick else 8)
        what = f"a hanging block, {len(solid.elements):,} tetrahedra"
        more, note = against_vbd(what, solid, [], most)
        rows += more
        notes.append(note)
    alone = steps(quick)
    return Results(
        "elastic", rows + alone.rows, notes + alone.notes, f"newton {version('newton')} (VBD, CPU)"
    )


if __name__ == "__main__":
    main("elastic", {"--steps": steps})
