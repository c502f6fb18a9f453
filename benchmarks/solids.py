"""Tables of how solids behave, as Markdown, in figures that a closed form or a conservation law fixes.

pointglue bench solids, or for some of the tables: python benchmarks/solids.py TABLE ...
"""

import sys
from itertools import product

import numpy as np
from _racing import Results

from pointglue.elastic import (
    ClothEnergy,
    ElasticBody,
    FleshEnergy,
    HexahedronEnergy,
    ImplicitSolver,
    ShapeMatchingEnergy,
    SpringEnergy,
)
from pointglue.geometry.simplices import hex_box, tet_box

SPIN, DT, STEPS = 6.0, 1 / 24, 12  # rad/s, s
# The energies when damping was evaluated with the velocity of the chord at the pose at the end of a step
# (version 0.1), as ratios to the start: after twelve steps, and the largest.
BEFORE = {
    ("spring", "euler"): "2,425 (2,425)",
    ("spring", "bdf2"): "1.91 (1.91)",
    ("shape matching", "euler"): "1.91 (4.66)",
    ("shape matching", "bdf2"): "366 (653)",
}


def spinning_bodies(damping):
    """Bodies of about 1 m: name, stiffness in words, points, masses, energy."""
    pair = np.array([[-0.5, 0, 0], [0.5, 0, 0]])
    spring = SpringEnergy(pair, [[0, 1]], 1e6, damping=damping)
    yield "spring", "1e6 N/m", pair, np.ones(2), spring
    cube = np.array(list(product((-0.5, 0.5), repeat=3)))
    matched = ShapeMatchingEnergy(cube, 0.125, 1e8, damping=damping)
    yield "shape matching", "1e8 N/m", cube, np.full(8, 0.125), matched
    points, tets = tet_box((1.0, 0.3, 0.3), (3, 1, 1))
    flesh = FleshEnergy(points, tets, young=1e8, poisson=0.3, damping=damping)
    yield "flesh", "1e8 Pa", points, flesh.mass(1000.0), flesh
    points, hexahedra = hex_box((1.0, 0.3, 0.3), (3, 1, 1))
    bricks = HexahedronEnergy(points, hexahedra, young=1e8, poisson=0.3, damping=damping)
    yield "hexahedra", "1e8 Pa", points, bricks.mass(1000.0), bricks
    n = 4
    side = np.linspace(-0.5, 0.5, n + 1)
    points = np.array([(x, y, 0.0) for x in side for y in side])
    at = np.arange((n + 1) ** 2).reshape(n + 1, n + 1)
    a, b, c, d = (part.ravel() for part in (at[:-1, :-1], at[1:, :-1], at[1:, 1:], at[:-1, 1:]))
    faces = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    cloth = ClothEnergy(points, faces, stretch=1e6, bend=1.0, damping=damping)
    yield "cloth", "1e6 N/m", points, cloth.mass(0.3), cloth


def spin_energies():
    """Bodies that spin freely, with damping of 1 s and without."""
    print(f"Energies of bodies that spin at {SPIN:g} rad/s, after {STEPS} steps of 1/24 s, as ratios to the")
    print("start; the largest of all steps in brackets.\n")
    print("| body | stiffness | method | before, damped | undamped | damped by 1 s | Newton steps a step |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: |")
    for method in ("euler", "bdf2"):
        for plain, damped in zip(spinning_bodies(0.0), spinning_bodies(1.0), strict=True):
            (ratios, _), (others, iterations) = (spun(*each[2:], method) for each in (plain, damped))
            name, stiffness = plain[:2]
            columns = [f"{each[-1]:.4f} ({max(each):.4f})" for each in (ratios, others)]
            before = BEFORE.get((name, method), "no damping")
            cells = [name, stiffness, method, before, *columns, f"{iterations:.1f}"]
            print(f"| {' | '.join(cells)} |")


def spun(points, mass, energy, method):
    """The energies as ratios to the start, and the Newton steps a step."""
    arms = points - mass @ points / mass.sum()
    body = ElasticBody(points, mass, [energy], velocities=np.cross([0, 0, SPIN], arms))
    solver = ImplicitSolver([body], gravity=(0, 0, 0), method=method)
    states = [solver.start()]
    for _ in range(STEPS):
        states.append(solver.step(states[-1], DT))
    energies = [
        0.5 * np.sum(mass[:, None] * state.velocities**2) + energy.value(state.positions) for state in states
    ]
    iterations = sum(state.report.iterations for state in states[1:])
    return np.array(energies) / energies[0], iterations / STEPS


TABLES = {"spin_energies": spin_energies}


def measure(quick=False, tables=tuple(TABLES)):
    """Print the tables; each takes seconds, also without `quick`."""
    for name in tables:
        TABLES[name]()
        print(flush=True)
    return Results("solids", [], headings=("table",), cells=[[name] for name in tables])


if __name__ == "__main__":
    measure(tables=sys.argv[1:] or tuple(TABLES))
