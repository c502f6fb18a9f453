"""Tables of how solids behave, as Markdown, in figures that a closed form or a conservation law fixes.

pointglue bench solids, or for some of the tables: python benchmarks/solids.py TABLE ...
"""

import sys
from itertools import product
from time import process_time

import numpy as np
from _racing import Results
from scipy.sparse.linalg import spsolve
from scipy.spatial import cKDTree

from pointglue import Spring, bind_glue
from pointglue.elastic import (
    Bond,
    ClothEnergy,
    ElasticBody,
    FleshEnergy,
    HexahedronEnergy,
    ImplicitSolver,
    RigidBody,
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


# The deflection of the tip of a cantilever of 1 x 0.06 x 0.06 m, 1e7 Pa and 500 kg/m3 under its weight [m],
# by Poisson's ratio: Reissner's beam, which turns, stretches and shears. It is integrated in
# tests/verification/test_hexahedra.py. The theory of small deflections has 0.2044 m.
TIPS = {0.3: 0.19864, 0.49: 0.19874, 0.495: 0.19874}


def cantilevers():
    """A cantilever under its own weight: tetrahedra against hexahedra."""
    print("The deflection of the tip of a cantilever of 1 x 0.06 x 0.06 m (1e7 Pa, 500 kg/m3) under its own")
    print("weight, in m; beam theory of large deflections has 0.1986 m. Seconds are of one step of 1/60 s.\n")
    print("| elements | Poisson's ratio | cells | points | deflection | error | sideways | s a step |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for name, box, energy, sizes in (
        ("tetrahedra", tet_box, FleshEnergy, (1, 2, 4, 6)),
        ("hexahedra", hex_box, HexahedronEnergy, (1, 2, 4)),
    ):
        for poisson, exact in TIPS.items():
            for n in sizes if poisson == 0.3 else sizes[:3]:
                cells = (10 * n, n, n)
                rest, elements = box((1.0, 0.06, 0.06), cells)
                bar = energy(rest, elements, young=1e7, poisson=poisson)
                x = hung(bar, rest)
                tip = (x - rest)[rest[:, 0] > 0.5 - 1e-9].mean(0)
                shown = [
                    name,
                    f"{poisson:g}",
                    " x ".join(map(str, cells)),
                    f"{len(rest):,}",
                    f"{-tip[1]:.4f}",
                ]
                shown += [
                    f"{-tip[1] / exact - 1:+.1%}",
                    f"{abs(tip[2]):.1e}",
                    f"{step_seconds(bar, rest):.3f}",
                ]
                print(f"| {' | '.join(shown)} |", flush=True)


def hung(bar, rest):
    """Where the points of a bar come to rest under its weight, clamped where x is least: Newton's method."""
    loads = bar.mass(500.0)[:, None] * [0.0, -9.81, 0.0]
    x, free = rest.copy(), np.repeat(rest[:, 0] > rest[:, 0].min() + 1e-9, 3)

    def potential(x):
        return bar.value(x) - np.sum(loads * x)

    for _ in range(100):
        force = (bar.gradient(x) - loads).ravel()[free]
        if np.abs(force).max() < 1e-8 * np.abs(loads).max():
            break
        step = np.zeros(x.size)
        step[free] = -spsolve(bar.hessian(x).tocsc()[free][:, free], force)
        share, before = 1.0, potential(x)
        while share > 1e-3 and potential(x + share * step.reshape(x.shape)) > before + 1e-12:
            share /= 2
        x = x + share * step.reshape(x.shape)
    return x


def step_seconds(bar, rest):
    """The processor's time of a step of the falling bar, the mean of ten [s]."""
    body = ElasticBody(rest, bar.mass(500.0), [bar], pinned=rest[:, 0] < rest[:, 0].min() + 1e-9)
    solver = ImplicitSolver([body])
    state = solver.step(solver.start(), 1 / 60)
    begin = process_time()
    for _ in range(10):
        state = solver.step(state, 1 / 60)
    return (process_time() - begin) / 10


def mass_ratios():
    """A rigid lantern glued to a soft cube that carries it, of any mass."""
    print(
        "A rigid lantern below a soft cube of 0.64 kg that carries it, glued by four corners: how far glued"
    )
    print(
        "points are from where their glue puts them, at most in a second of steps of 1/24 s, in m. Before, a"
    )
    print("spring of 1e4 N/m a point stood for the glue.\n")
    print("| mass, lantern to cube | gap | gap before | Newton steps |")
    print("| ---: | ---: | ---: | ---: |")
    side = 0.1 * np.arange(4.0)
    points = np.array(list(product(side, repeat=3)))
    edges = cKDTree(points).query_pairs(0.18, output_type="ndarray")
    corners = np.array(list(product((0.05, 0.25), (-0.35, -0.05), (0.05, 0.25))))
    glued = np.flatnonzero(corners[:, 1] > -0.1)
    glue = bind_glue(points, corners[glued])
    for ratio in (1e-6, 1e-3, 1.0, 1e3, 1e6):
        energy = SpringEnergy(points, edges, 500.0 * max(ratio, 1.0))
        cube = ElasticBody(points, np.full(64, 0.01), [energy], pinned=points[:, 1] > 0.25, name="cube")
        lantern = RigidBody.of_points(corners, np.full(8, 0.08 * ratio), name="lantern")
        shown = []
        for spring in (None, Spring(1e4, damping=10.0)):
            bond = Bond("lantern", glued, "cube", glue, spring=spring)
            solver = ImplicitSolver([cube, lantern], glue=[bond])
            state, gap, steps = solver.start(), 0.0, 0
            for _ in range(24):
                state = solver.step(state, 1 / 24)
                off = state.body("lantern")[glued] - glue.positions(state.body("cube"))
                gap, steps = max(gap, float(np.abs(off).max())), steps + state.report.iterations
            shown.append((gap, steps))
        (exact, steps), (before, _) = shown
        print(f"| {ratio:g} | {exact:.1e} | {before:.1e} | {steps} |", flush=True)


TABLES = {"spin_energies": spin_energies, "cantilevers": cantilevers, "mass_ratios": mass_ratios}


def measure(quick=False, tables=tuple(TABLES)):
    """Print the tables; each takes seconds, also without `quick`."""
    for name in tables:
        TABLES[name]()
        print(flush=True)
    return Results("solids", [], headings=("table",), cells=[[name] for name in tables])


if __name__ == "__main__":
    measure(tables=sys.argv[1:] or tuple(TABLES))
