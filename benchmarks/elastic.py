"""Implicit solids: a hanging cloth and a hanging block against newton's VBD, and frame cost by size.

Times are of the processor, on one core: what the clock on the wall says of a machine that is not shared.

pointglue bench elastic [--markdown] [--quick]
"""

import sys
from time import perf_counter, process_time

import numpy as np
from _racing import Row, report
from _vbd import Peer, Solid
from threadpoolctl import threadpool_limits

import pointglue as pg
from pointglue.elastic import Bond, ClothEnergy, ElasticBody, FleshEnergy, ImplicitSolver
from pointglue.geometry.simplices import tet_box

FRAME, STEPS = 1 / 60, 60
SAMPLES = (8, 22, 36, 50)  # frames of the second from which VBD steps
GOAL = 1e-4  # m/s: as far as 32 bits go
LOOSE = 1e-2  # m/s: tolerance of ours that is nearer to what VBD comes to
DEFAULT = 10  # iterations of VBD unless told


def cloth(cells: int, name: str = "cloth") -> tuple[Solid, ClothEnergy, ClothEnergy]:
    """A square metre pinned at two corners, of 2 x cells^2 triangles; its energy, and that without hinges."""
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
    flat = ClothEnergy(x, faces, stretch=stretch, poisson=poisson)
    return Solid(body, faces, mu, lam, energy.hinges, stiffness), energy, flat


def block(cells: int, name: str = "block", shift=(0.0, 0.0, 0.0)) -> tuple[Solid, FleshEnergy]:
    """A soft bar of 0.8 x 0.4 x 0.4 m, held at one end, of 12 x cells^3 tetrahedra."""
    young, poisson = 1e5, 0.4
    x, tets = tet_box((0.8, 0.4, 0.4), (2 * cells, cells, cells))
    energy = FleshEnergy(x, tets, young=young, poisson=poisson)
    body = ElasticBody(x + shift, energy.mass(1000.0), [energy], pinned=x[:, 0] < -0.399, name=name)
    mu, lam = young / (2 * (1 + poisson)), young * poisson / ((1 + poisson) * (1 - 2 * poisson))
    return Solid(body, tets, mu, lam, np.empty((0, 4), np.int64), np.empty(0)), energy


def second(solid: Solid, energy, tolerance: float) -> tuple[float, list, float]:
    """Time of a second of ours, some states (x, v) in it, and the residual of the steps from these (m/s)."""
    solver = ImplicitSolver([solid.body], tolerance=tolerance)
    state, states, left, seconds = solver.start(), [], [], 0.0
    for frame in range(STEPS):
        start = process_time()
        after = solver.step(state, FRAME)
        seconds += process_time() - start
        if frame in SAMPLES:
            states.append((state.positions, state.velocities))
            left.append(solid.residual(energy.gradient, *states[-1], after.positions, FRAME))
        state = after
    return seconds, states, _rms(left)


def against_vbd(what: str, solid: Solid, energy, bending, most: int) -> list[Row]:
    """A second of ours, to a loose tolerance and the default, against VBD's steps from some of its states.

    VBD's steps all take the same time. It gets twice as many iterations again and again until it is as
    converged as ours with the loose tolerance, or as 32 bits allow, or `most`.
    """
    peer = Peer(solid, bending)
    runs = [second(solid, energy, tolerance) for tolerance in (LOOSE, 1e-4)]
    (_, states, left), iterations = runs[0], DEFAULT
    while iterations < most and peer.step(*states[len(states) // 2], FRAME, iterations)[1] > max(GOAL, left):
        iterations *= 2
    rows = []
    for number in (DEFAULT, iterations):
        seconds, residuals = np.transpose([peer.step(*each, FRAME, number) for each in states])
        name = f"VBD, {number} iterations, residual {_rms(residuals):.0e} m/s"
        for ours, _, left in runs:
            work = f"a second of {what}, {STEPS} steps, residual {left:.0e} m/s"
            rows.append(Row(work, ours, name, STEPS * seconds.mean()))
    return rows


def _rms(values) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


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


def scaling(what: str, bodies) -> list[str]:
    """Frame cost by size."""
    lines, first = [], None
    for body in bodies:
        count = len(body.energies[0].faces if what == "triangles" else body.energies[0])
        seconds, shares, iterations = frame_cost([body], 3)
        first = first or (count, seconds)
        line = f"{count:,} {what}: {seconds * 1e3:.0f} ms a step of {iterations:.1f} Newton iterations, "
        line += f"{seconds / count * 1e6:.1f} us an element; " + _percent(shares)
        if count > first[0]:
            power = np.log(seconds / first[1]) / np.log(count / first[0])
            line += f"; grows as the number to the {power:.2f}"
        lines.append(line)
    return lines


def glue_overhead(cells: int) -> str:
    """One block on another by glue, against two that are held."""
    first, second = block(cells)[0].body, block(cells, "hung", (0.85, 0.0, 0.0))[0].body
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


def main(markdown: bool = False, quick: bool = False) -> None:
    most = 80 if quick else 320
    with pg.threads(1), threadpool_limits(1):
        solid, energy, flat = cloth(16 if quick else 55)
        size = f"a hanging cloth, {len(solid.elements):,} triangles"

        def bending(x):
            return energy.gradient(x) - flat.gradient(x)

        rows = against_vbd(size, solid, energy, bending, most)
        solid, flesh = block(4 if quick else 8)
        size = f"a hanging block, {len(solid.elements):,} tetrahedra"
        rows += against_vbd(size, solid, flesh, np.zeros_like, most)
        notes = scaling("tetrahedra", [block(n)[0].body for n in ((4, 6) if quick else (4, 6, 9, 14))])
        notes += scaling("triangles", [cloth(n)[0].body for n in ((22, 39) if quick else (22, 39, 71, 122))])
        notes.append(glue_overhead(4 if quick else 8))
    report("elastic", rows, notes, "newton 1.7 (VBD, CPU)", markdown)


if __name__ == "__main__":
    main(markdown="--markdown" in sys.argv, quick="--quick" in sys.argv)
