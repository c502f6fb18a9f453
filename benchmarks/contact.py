"""Contact: what a frame of the shirt of the examples costs at three resolutions, and how that grows.

Then a blanket that lies on another, where all is in contact: how its cost grows with their number.

And two cloths, one that drapes over a ball and one that falls on itself, beside MuJoCo and newton's VBD.

Times are of the processor: what the clock on the wall says of a machine that is not shared.

pointglue bench contact [--markdown] [--quick] [--json FILE]
Only the comparison with others: python benchmarks/contact.py --peers [--quick] [--json FILE]
"""

from dataclasses import replace
from time import perf_counter, process_time

import _contact_race
import numpy as np
from _racing import Results, Row, example, main
from threadpoolctl import threadpool_limits

import pointglue as pg
from pointglue.compute import measured
from pointglue.elastic import ClothEnergy, Contact, ElasticBody, ImplicitSolver
from pointglue.scene.build.meshing import sheet_grid

STEP, FRAME = 1 / 60, 2  # s, and steps a frame
SETTLING, MEASURED = 6, 4  # steps
PARTS = {
    "contact": ("contact",),
    "elasticity": ("energies",),
    "glue": ("glue",),
    "linear solve": ("sum", "factor", "solve"),
}
KERNELS = {
    "fits": ("glue.kernels.fit_positions", "procrustes.kernels.jacobian"),
    "second derivatives": ("glue.kernels.hessian_terms", "glue.kernels.sum_hessian_pairs"),
}
SECONDS = "seconds a frame"
HEADINGS = ["vertices", "contacts", "iterations a step", SECONDS, *PARTS, *KERNELS]
BLANKETS = (16, 32, 64)  # cells along a metre


def mean_step(solver: ImplicitSolver, settling: int, steps: int) -> dict[str, float]:
    """Return the numbers of a mean step and the seconds of a frame, after some steps to settle."""
    state = solver.start()
    for _ in range(settling):
        state = solver.step(state, STEP)
    reports, seconds, begin = [], process_time(), perf_counter()
    with measured() as kernels:
        for _ in range(steps):
            state = solver.step(state, STEP)
            reports.append(state.report)
    seconds, wall = process_time() - seconds, perf_counter() - begin  # reports are of the wall's clock
    assert not solver.surfaces.intersecting(state.positions)
    shares = {
        part: sum(each.seconds.get(name, 0.0) for each in reports for name in names) / wall
        for part, names in PARTS.items()
    }
    return {
        "contacts": float(np.mean([each.contacts for each in reports])),
        "iterations a step": float(np.mean([each.iterations for each in reports])),
        SECONDS: FRAME * seconds / steps,
        **shares,
        **{part: sum(kernels.get(name, 0.0) for name in names) / wall for part, names in KERNELS.items()},
    }


def shirt(outfits: type, detail: int, settling: int, steps: int) -> dict[str, float]:
    """Measure the shirt; the paper's figure is that of its `fits`."""
    outfit = outfits(detail, close=0.1, release=np.inf)
    return {"vertices": len(outfit.shirt.vertices), **mean_step(outfit.solver, settling, steps)}


def blankets(cells: int) -> ImplicitSolver:
    """Return a solver of a square metre of cloth that lies on another, which is pinned."""
    bodies = []
    over = [0.3 / cells, 1.5e-3, 0.2 / cells]
    for name, shift, fixed in (("under", [0.0, 0.0, 0.0], True), ("over", over, False)):
        points, faces = sheet_grid((1.0, 1.0), (cells, cells))
        x = points + shift
        energy = ClothEnergy(x, faces, stretch=500.0, bend=1e-5)
        pinned = np.full(len(x), fixed)
        bodies.append(ElasticBody(x, energy.mass(0.2), [energy], pinned=pinned, faces=faces, name=name))
    return ImplicitSolver(bodies, contact=Contact(distance=2e-3), tolerance=1e-2)


def in_words(row: dict[str, float]) -> str:
    """Return the cost of blankets in words."""
    iteration = 1e3 * row[SECONDS] / FRAME / row["iterations a step"]
    return (
        f"{row['contacts']:,.0f} contacts {iteration:.0f} ms an iteration, {row['contact']:.0%} of it contact"
    )


def exponent(rows: list[dict[str, float]], by: str, part: str | None = None) -> float:
    """Return the power of a number with which the time of an iteration, or of a `part` of it, grows."""
    cost = [row[SECONDS] * (row[part] if part else 1.0) / row["iterations a step"] for row in rows]
    return float(np.polyfit(np.log([row[by] for row in rows]), np.log(cost), 1)[0])


def measure(quick: bool = False) -> Results:
    outfits = example("shirt")["Outfit"]
    settling, steps = (3, 2) if quick else (SETTLING, MEASURED)
    with pg.threads(1), threadpool_limits(1):
        rows = [shirt(outfits, detail, settling, steps) for detail in ((2, 3) if quick else (2, 3, 5))]
        covers = [mean_step(blankets(cells), 1, steps) for cells in (BLANKETS[:2] if quick else BLANKETS)]
    cells = [
        [
            f"{row['vertices']:,}",
            f"{row['contacts']:,.0f}",
            f"{row['iterations a step']:.1f}",
            f"{row[SECONDS]:.2f}",
            *(f"{row[part]:.2%}" for part in PARTS),
            *(f"{row[part]:.3%}" for part in KERNELS),
        ]
        for row in rows
    ]
    notes = [
        f"A frame is {FRAME} steps of 1/{1 / STEP:.0f} s",
        "Glue is all that it adds; fits, first derivatives included, and second ones are of its kernels",
        f"The time of an iteration grows as the number of vertices to the {exponent(rows, 'vertices'):.2f}, "
        f"that of its contact to the {exponent(rows, 'vertices', 'contact'):.2f}",
        f"A blanket on another: {', '.join(map(in_words, covers))}: as their number to the "
        f"{exponent(covers, 'contacts'):.2f}, contact itself to the "
        f"{exponent(covers, 'contacts', 'contact'):.2f}",
    ]
    measured_rows = [
        Row(
            f"frame of the shirt, {row['vertices']:,} vertices, {row['contacts']:,.0f} contacts", row[SECONDS]
        )
        for row in rows
    ]
    measured_rows += [
        Row(
            f"Newton iteration of a blanket on another, {row['contacts']:,.0f} contacts",
            row[SECONDS] / FRAME / row["iterations a step"],
        )
        for row in covers
    ]
    alone = Results("contact", measured_rows, notes, headings=HEADINGS, cells=cells)
    return replace(alone, further=[peers(quick)])


def peers(quick: bool = False) -> Results:
    """Measure ours beside other programs."""
    with pg.threads(1), threadpool_limits(1):
        return _contact_race.measure(quick)


if __name__ == "__main__":
    main("contact", {"--peers": peers})
