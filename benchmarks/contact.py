"""Contact: the shirt of the examples at three resolutions, what a frame of it costs and how that grows.

Times are of the processor: what the clock on the wall says of a machine that is not shared.

pointglue bench contact [--markdown] [--quick]
"""

import runpy
import sys
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from _racing import machine
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import pointglue as pg

SHIRT = Path(__file__).parents[1] / "examples" / "shirt.py"
STEP, FRAME = 1 / 60, 2  # s, and steps a frame
SETTLING, MEASURED = 6, 4  # steps
PARTS = {
    "contact": ("contact",),
    "elasticity": ("energies",),
    "glue": ("glue",),
    "linear solve": ("sum", "factor", "solve"),
}
HEADINGS = ["vertices", "contacts", "iterations a step", "seconds a frame", *PARTS]


def measured(outfit, settling: int, steps: int) -> dict[str, float]:
    """Numbers of a mean step, and seconds of a frame, after some steps in which the shirt comes to hang."""
    state = outfit.solver.start()
    for _ in range(settling):
        state = outfit.solver.step(state, STEP)
    reports, seconds, begin = [], process_time(), perf_counter()
    for _ in range(steps):
        state = outfit.solver.step(state, STEP)
        reports.append(state.report)
    seconds, wall = process_time() - seconds, perf_counter() - begin  # reports are of the wall's clock
    assert not outfit.solver.surfaces.intersecting(state.positions)
    shares = {
        part: sum(each.seconds.get(name, 0.0) for each in reports for name in names) / wall
        for part, names in PARTS.items()
    }
    return {
        "vertices": len(outfit.shirt.vertices),
        "contacts": float(np.mean([each.contacts for each in reports])),
        "iterations a step": float(np.mean([each.iterations for each in reports])),
        "seconds a frame": FRAME * seconds / steps,
        **shares,
    }


def exponent(rows: list[dict[str, float]], part: str | None = None) -> float:
    """Of the contacts, by which the time of an iteration grows, fitted to all rows; or of its `part`."""
    cost = [row["seconds a frame"] * (row[part] if part else 1.0) / row["iterations a step"] for row in rows]
    return float(np.polyfit(np.log([row["contacts"] for row in rows]), np.log(cost), 1)[0])


def main(markdown: bool = False, quick: bool = False) -> None:
    outfit = runpy.run_path(str(SHIRT))["Outfit"]
    settling, steps = (3, 2) if quick else (SETTLING, MEASURED)
    with pg.threads(1), threadpool_limits(1):
        rows = [
            measured(outfit(detail, close=0.1, release=np.inf), settling, steps)
            for detail in ((2, 3) if quick else (2, 3, 5))
        ]
    cells = [
        [
            f"{row['vertices']:,}",
            f"{row['contacts']:,.0f}",
            f"{row['iterations a step']:.1f}",
            f"{row['seconds a frame']:.2f}",
            *(f"{row[part]:.1%}" for part in PARTS),
        ]
        for row in rows
    ]
    notes = [
        f"A frame is {FRAME} steps of 1/{1 / STEP:.0f} s",
        f"The time of an iteration grows as the number of contacts to the {exponent(rows):.2f}, "
        f"that of its contact to the {exponent(rows, 'contact'):.2f}",
    ]
    if markdown:
        for line in [HEADINGS, ["---:"] * len(HEADINGS), *cells]:
            print("| " + " | ".join(line) + " |")
        print("\n" + ". ".join([machine("ipctk"), *notes]) + ".")
        return
    table = Table(*HEADINGS, title="pointglue contact: a shirt on a moving figure", caption=machine("ipctk"))
    for line in cells:
        table.add_row(*line)
    console = Console()
    console.print(table)
    for note in notes:
        console.print(note)


if __name__ == "__main__":
    main(markdown="--markdown" in sys.argv, quick="--quick" in sys.argv)
