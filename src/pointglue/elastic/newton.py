"""Newton's method for one step: exact Hessians first, projected ones where those are no use."""

from dataclasses import dataclass, field

import numpy as np

from ..checks import Array
from ..errors import ConvergenceError
from .iterative import IndefiniteError
from .problem import Evaluation, Place, Problem

__all__ = ["Outcome", "StalledError", "minimise"]

DECREASE = 1e-4  # of what the slope promises, the least that a step must bring
SHORTEST = 1e-7  # share of a Newton step below which the search along it is given up
NOISE = 1e-13  # of the terms' sizes: below that, differences of values are rounding


class StalledError(ConvergenceError):
    """A step found no end; its message says how far it came."""


@dataclass(eq=False)
class Outcome:
    """Where a step has come to, and how."""

    end: Evaluation
    multipliers: Array
    speeds: list[float] = field(default_factory=list)
    """Size of each Newton step, in m/s: the largest way of a particle, by the time step."""
    projected: int = 0
    factorisations: int = 0
    redundant: int = 0
    """Equations of joints that follow from others."""


def minimise(
    problem: Problem,
    starts: list[Place],
    multipliers: Array,
    duration: float,
    *,
    tolerance: float,
    violation: float,
    iterations: int,
) -> Outcome:
    """Find the end of a step of that duration (s), from the best of some places.

    Converged when a full Newton step moves nothing faster than `tolerance` (m/s) and leaves no joint more
    than `violation` (m) open.
    """
    force = 2 * float(np.abs(multipliers).max(initial=0.0))
    tried = [found for found in map(problem.at, starts) if found is not None]
    if not tried:
        raise StalledError("no starting point has a finite energy")
    now = min(tried, key=lambda each: each.value + force * np.abs(each.violation).sum())
    outcome = Outcome(now, multipliers.copy())
    exact, speed = True, np.inf
    wait, pause = 0, 1  # whole projected steps until exact Hessians are tried again
    if not len(problem.system.freedom):
        speed, iterations = 0.0, 0
        if np.abs(now.violation).max(initial=0.0) <= violation:
            return outcome
    while len(outcome.speeds) < iterations:
        problem.differentiate(now)
        found = _direction(problem, now, outcome, exact=exact, force=force)
        if found is None:
            if not exact:
                raise StalledError("the projected Newton step does not lead downhill")
            exact, wait, pause = False, pause, 2 * pause
            continue
        step, change, slope, force = found
        speed = _largest(problem, step) / duration
        if not np.isfinite(speed):
            raise StalledError("the Newton step is not finite")
        after, share = _search(problem, now, step, slope, force, trust=speed <= tolerance)
        if after is None:
            if exact:
                exact, wait, pause = False, pause, 2 * pause
                continue
            break
        outcome.speeds.append(speed)
        outcome.projected += not exact
        outcome.multipliers = outcome.multipliers + share * change
        now = outcome.end = after
        wait -= share == 1.0
        exact = exact or wait <= 0
        if share == 1.0 and speed <= tolerance and np.abs(now.violation).max(initial=0.0) <= violation:
            return outcome
    raise StalledError(
        f"after {len(outcome.speeds)} iterations {speed:.3g} m/s to go, {tolerance:.3g} allowed"
        + _open_joint(problem, now, outcome, violation)
    )


def _open_joint(problem: Problem, now: Evaluation, outcome: Outcome, allowed: float) -> str:
    """Which joint is open, if one is, as text."""
    system = problem.system
    if not np.abs(now.violation).max(initial=0.0) > allowed:
        return ""
    worst = int(np.abs(now.violation).argmax())
    number = int(system.scene.equations.joint_of[system.equations[worst]])
    return (
        f"; {system.scene.describe_joint(number)} stays {abs(now.violation[worst]):.3g} m open: something "
        f"holds against it ({outcome.redundant} of {len(system.equations)} equations of joints are redundant)"
    )


def _direction(
    problem: Problem, now: Evaluation, outcome: Outcome, *, exact: bool, force: float
) -> tuple[Array, Array, float, float] | None:
    """The Newton step (nodes, 3), the multipliers' change, the merit's slope, and the weight of violations.

    None if the matrix is not what a minimum needs, or the step does not lead downhill.
    """
    system, count = problem.system, len(problem.system.freedom)
    loads = problem.loads(now, outcome.multipliers)
    data, least = problem.matrix(now, loads, project=not exact)
    right = -np.concatenate([loads.on_nodes.ravel(), now.violation])
    try:
        with problem.clock("solve"):
            solution = system.iterated(data, right)
    except IndefiniteError:
        if exact:
            return None
        solution = None
    if solution is None:
        with problem.clock("factor"):
            wrong = system.ldl.factor(data, least=least)
            outcome.factorisations += 1
        if exact and wrong.any():
            return None
        with problem.clock("solve"):
            solution = system.ldl.solve(right)
        outcome.redundant = system.ldl.weak(10 * least)
    step, change = solution[: 3 * count].reshape(-1, 3), solution[3 * count :]
    # Along the step, the gradient without the joints: these would add multipliers . C step.
    along = np.sum(now.coupling * step[system.coupled_node], axis=1)
    slope = float(np.sum(loads.on_nodes * step) - outcome.multipliers[system.coupled_equation] @ along)
    weight = max(force, 1.5 * float(np.abs(outcome.multipliers + change).max(initial=0.0)))
    slope -= weight * float(np.abs(now.violation).sum())
    if not slope <= NOISE * now.size:
        return None
    return step, change, slope, weight


def _search(
    problem: Problem, now: Evaluation, step: Array, slope: float, force: float, *, trust: bool
) -> tuple[Evaluation | None, float]:
    """The first place along the step, halving it, where value and violations come down enough.

    A step that is tolerated as an error is to be trusted: rounding may hide what it brings.
    """
    longest = problem.longest_step(now, step)
    share = longest
    while share >= SHORTEST:
        after = problem.at(problem.moved(now.place, step, share))
        if after is not None:
            if trust or _fell(problem, now, after, share * slope, force):
                return after, share
            if share == 1.0 and len(after.violation):
                better = _closed(problem, after)
                if better is not None and _fell(problem, now, better, share * slope, force):
                    return better, share
        share /= 2
    return None, 0.0


def _fell(problem: Problem, now: Evaluation, after: Evaluation, promised: float, force: float) -> bool:
    """Whether the merit has come down by enough of what was promised."""
    change = after.value - now.value
    if any(term.damped for term in problem.terms):
        # Along a line every force has a potential; here to second order.
        change += float(np.sum(_mean_damping(problem, now, after) * (after.x - now.x)))
    change += force * float(np.abs(after.violation).sum() - np.abs(now.violation).sum())
    return change <= DECREASE * promised + NOISE * max(now.size, after.size)


def _mean_damping(problem: Problem, now: Evaluation, after: Evaluation) -> Array:
    total, v = now.damping.copy(), problem.velocities(after.x)
    for term in problem.terms:
        if term.damped:
            total[term.rows] += term.energy.rate_gradient(after.x[term.rows], v[term.rows])
    return total / 2


def _closed(problem: Problem, after: Evaluation) -> Evaluation | None:
    """A step's end with the joints closed again, by the factors at hand: what their curvature has opened."""
    count = 3 * len(problem.system.freedom)
    with problem.clock("solve"):
        back = problem.system.ldl.solve(np.concatenate([np.zeros(count), -after.violation]))
    return problem.at(problem.moved(after.place, back[:count].reshape(-1, 3), 1.0))


def _largest(problem: Problem, step: Array) -> float:
    """The largest way of a particle, or of a body's outermost point (m)."""
    freedom = problem.system.freedom
    lengths = np.linalg.norm(step, axis=1)
    if len(freedom.bodies):
        lengths[len(freedom.particles) + 1 :: 2] *= problem.system.scene.radii[freedom.bodies]
    return float(lengths.max(initial=0.0))
