"""A cantilever by three methods at equal cost: how far it sags, against beam theory.

A beam of 1 x 0.1 x 0.1 m and 1000 kg/m3 hangs by the cells at its end. Ours is an elastic `block`. The plain
XPBD has springs between all 26 neighbours of a lattice, pypbd shape matching of the same neighbourhoods; both
take as many iterations in substeps of 1/480 s as fit into the time that our frame takes.
"""

import time

import _pypbd
import numba
import numpy as np
import pypbd
from threadpoolctl import threadpool_limits

import pointglue as pg
from pointglue.particles import block

FRAME, SUBSTEPS, SECONDS = 1 / 60, 8, 4.0
LENGTH, HEIGHT, DENSITY, GRAVITY = 1.0, 0.1, 1000.0, 9.81


def theory(cells, young: float) -> float:
    """The sag of the last cells of a beam clamped where the first ones are, under its own weight [m]."""
    step = LENGTH / cells[0]
    length, x = LENGTH - step / 2, LENGTH - step
    shape = x**2 * (6 * length**2 - 4 * length * x + x**2) / 24
    return DENSITY * GRAVITY * shape / (young * HEIGHT**2 / 12)


def ours(cells, young: float) -> tuple[float, float]:
    """The sag [m] and the time of a frame [s]."""
    body = block((LENGTH, HEIGHT, HEIGHT), cells, young=young, density=DENSITY)
    x = body.positions
    body = body.replace(pinned=x[:, 0] < x[:, 0].min() + 1e-6)
    solver = pg.ParticleSolver(body, contacts="none", drag=2.0)
    return _sag(x, *_frames(solver.start(), lambda state: solver.step(state, FRAME), lambda s: s.positions))


def _frames(state, step, positions):
    times = []
    for _ in range(round(SECONDS / FRAME)):
        start = time.process_time()
        state = step(state)
        times.append(time.process_time() - start)
    return positions(state), float(np.median(times))


def _sag(rest, now, seconds: float) -> tuple[float, float]:
    end = rest[:, 0] > rest[:, 0].max() - 1e-6
    return float((rest - now)[end, 1].mean()), seconds


def lattice(cells):
    """Positions, masses and the 26-neighbourhoods of a lattice of cell centres; masses of the end are 0."""
    grid = np.indices(cells).reshape(3, -1).T
    step = np.array([LENGTH, HEIGHT, HEIGHT]) / cells
    near = np.indices((3, 3, 3)).reshape(3, -1).T - 1
    places = grid[:, None] + near
    within = ((places >= 0) & (places < cells)).all(2)
    numbers = np.ravel_multi_index(np.clip(places, 0, np.array(cells) - 1).transpose(2, 0, 1), cells)
    groups = [row[mask] for row, mask in zip(numbers, within, strict=True)]
    masses = np.where(grid[:, 0] == 0, 0.0, DENSITY * step.prod())
    return (grid + 0.5) * step, masses, groups


@numba.njit(cache=True)
def _xpbd(x, v, w, pairs, lengths, compliance, h, substeps, iterations, gravity):
    multipliers = np.zeros(len(pairs))
    for _ in range(substeps):
        before = x.copy()
        for i in range(len(x)):
            if w[i] > 0.0:
                v[i, 1] -= h * gravity
                x[i] += h * v[i]
        multipliers[:] = 0.0
        for _ in range(iterations):
            for k in range(len(pairs)):
                i, j = pairs[k, 0], pairs[k, 1]
                if w[i] + w[j] == 0.0:
                    continue
                dx, dy, dz = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
                length = np.sqrt(dx * dx + dy * dy + dz * dz)
                a = compliance[k] / (h * h)
                change = -(length - lengths[k] + a * multipliers[k]) / (w[i] + w[j] + a)
                multipliers[k] += change
                f, g = w[i] * change / length, w[j] * change / length
                x[i, 0] -= f * dx
                x[i, 1] -= f * dy
                x[i, 2] -= f * dz
                x[j, 0] += g * dx
                x[j, 1] += g * dy
                x[j, 2] += g * dz
        v[:] = (x - before) / h * (1.0 - 2.0 * h)


def xpbd(cells, young: float, budget: float) -> tuple[float, float]:
    """The same of springs; their stiffness E V / (n L^2) has the modulus E for stretch, about."""
    rest, masses, groups = lattice(cells)
    pairs = np.array([(i, j) for i, row in enumerate(groups) for j in row if i < j])
    lengths = np.linalg.norm(rest[pairs[:, 1]] - rest[pairs[:, 0]], axis=1)
    volume = LENGTH * HEIGHT**2 / len(rest)
    w = np.divide(1.0, masses, out=np.zeros_like(masses), where=masses > 0)
    # 13 springs for each particle, of which a third of the squares of the lengths are along the beam.
    compliance = 13 * lengths**2 / (6 * young * volume)
    x, v = rest.copy(), np.zeros_like(rest)

    def step(iterations: int) -> None:
        _xpbd(x, v, w, pairs, lengths, compliance, FRAME / SUBSTEPS, SUBSTEPS, iterations, GRAVITY)

    step(1)
    count = _fitting(step, budget)
    x[:], v[:] = rest, 0.0
    now, seconds = _frames(x, lambda state: (step(count), state)[1], lambda state: state)
    return _sag(rest, now, seconds)


def _fitting(step, budget: float) -> int:
    """How many iterations take about the time that is given, from steps of few and of many."""
    times = []
    for count in (1, 1, 21, 21):
        start = time.process_time()
        step(count)
        times.append(time.process_time() - start)
    each = max((min(times[2:]) - min(times[:2])) / 20, 1e-9)
    return int(np.clip((budget - min(times[:2])) / each + 1, 1, 50))


def pbd(cells, budget: float) -> tuple[float, float]:
    """The same of pypbd's shape matching at stiffness 1, which knows no modulus."""
    rest, masses, groups = lattice(cells)
    model = _pypbd.build(rest, masses, pg.Groups.from_lists(groups))
    controller = pypbd.TimeStepController()
    controller.init()
    controller.setValueUInt(controller.NUM_SUB_STEPS, SUBSTEPS)
    controller.setValueUInt(controller.MAX_ITERATIONS_V, 0)
    pypbd.TimeManager.getCurrent().setTimeStepSize(FRAME)

    def step(iterations: int) -> None:
        controller.setValueUInt(controller.MAX_ITERATIONS, iterations)
        controller.step(model)

    count = _fitting(step, budget)
    now, seconds = _frames(
        None, lambda _: step(count), lambda _: np.array(model.getParticles().getVertices())
    )
    return _sag(rest, now, seconds)


def table(quick: bool = False) -> list[str]:
    """A line for each lattice and modulus, with the time of our frame."""
    lines = []
    with threadpool_limits(1):
        for cells in ((20, 2, 2),) if quick else ((20, 2, 2), (40, 4, 4)):
            for young in (1e7,) if quick else (1e5, 1e6, 1e7, 1e8, 1e9):
                sag, seconds = ours(cells, young)
                springs, _ = xpbd(cells, young, seconds)
                matched, _ = pbd(cells, seconds)
                lines.append(
                    f"cantilever {'x'.join(map(str, cells))}, {young:.0e} Pa, {seconds * 1e3:.2f} ms: "
                    f"sag {sag:.4g} m, beam theory {theory(cells, young):.4g} m, "
                    f"XPBD at equal cost {springs:.4g} m, pypbd at equal cost {matched:.4g} m"
                )
    return lines


if __name__ == "__main__":
    with pg.threads(1):
        print("\n".join(table()))
