"""Newton's method for one step: exact Hessians first, mixed with projected ones where those are no use."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ...checks import Array
from ...errors import ConvergenceError
from ..linalg.cg import IndefiniteError
from ..state import Cause, Stall
from .objective import Evaluation, Loads, Place, Problem

__all__ = ["Outcome", "StalledError", "minimise", "nearest_contact"]

DECREASE = 1e-4  # of what the slope promises, the least that a step must bring
SHORTEST = 1e-7  # share of a Newton step below which the search along it is given up
NOISE = 1e-13  # of the terms' sizes: below that, differences of values are rounding
# Shares of the projected Hessian, tried in turn until the matrix is definite. Where little is wrong with
# the exact one, the projected one is far too stiff, and leaves a saddle in dozens of short steps.
MIXTURES = (0.0, 1 / 8, 1 / 2, 1.0)
PATIENCE = 8  # whole steps with one mixture, at most, before a purer one is tried again
LOOSE, TIGHT = 3e-3, 1e-4  # how much of the error conjugate gradients leave, at first and at the end
AGAIN = 8  # Newton steps in which friction may follow the pressures, and that may bring next to nothing
BARRED = 1e-3  # of the tolerance: that is next to nothing


class StalledError(ConvergenceError):
    """A step found no end; its message says how far it came, and `locate` where it is stuck.

    That may take long, and most such steps are tried again.
    """

    def __init__(self, message: str, locate: Callable[[], Stall], iterations: int = 0) -> None:
        super().__init__(message)
        self.locate, self.iterations = locate, iterations


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
    watch: Callable[[], object],
) -> Outcome:
    """Find the end of a step of that duration (s), from the best of some places.

    Converged when a full Newton step moves nothing faster than `tolerance` (m/s) and leaves no joint more
    than `violation` (m) open. `watch` is called before each iteration.
    """
    force = 2 * float(np.abs(multipliers).max(initial=0.0))
    tried = [found for found in _reachable(problem, starts) if problem.evaluate(found)]
    if not tried:
        raise StalledError("no starting point has a finite energy", lambda: Stall("convergence"))
    now = min(tried, key=lambda each: each.value + force * np.abs(each.violation).sum())
    outcome = Outcome(now, multipliers.copy())
    now.before = problem.before.positions
    level, speed, share = 0, np.inf, 1.0
    worst = 0  # the node that the last Newton step moves most

    def stalled(message: str) -> StalledError:
        """Return the error for a step that ends here."""
        barred = problem.contact is not None and share < 1.0
        locate = partial(_located, problem, now, worst, barred=barred, violation=violation)
        return StalledError(message, locate, len(outcome.speeds))

    wait, pause = 0, 1  # whole steps until a purer mixture is tried again
    hessians: _Hessians | None = None
    found_once: tuple[Evaluation, Array] | None = None
    barred = 0  # steps in a row that contact has cut to next to nothing
    if not len(problem.system.freedom):
        speed, iterations = 0.0, 0
        if np.abs(now.violation).max(initial=0.0) <= violation:
            return outcome
    while len(outcome.speeds) < iterations:
        watch()
        if hessians is None:
            hessians = _Hessians(problem, now, outcome.multipliers)
        forcing = _forcing(outcome.speeds, tolerance)
        found = _direction(
            problem, now, outcome, hessians, mixture=MIXTURES[level], force=force, forcing=forcing
        )
        after, share = None, 0.0
        if found is not None:
            step, change, slope, force = found
            worst, way = _largest(problem, step)
            speed = way / duration
            if not np.isfinite(speed):
                raise stalled("the Newton step is not finite")
            after, share = _search(problem, now, step, slope, force, trust=speed <= tolerance)
        if found is None or after is None:
            level += 1
            if level < len(MIXTURES):
                wait, pause = pause, min(2 * pause, PATIENCE)
                continue
            if found is None and found_once is None:
                raise stalled("the projected Newton step does not lead downhill")
            break
        outcome.speeds.append(speed)
        outcome.projected += level > 0
        outcome.multipliers = outcome.multipliers + share * change
        after.before = now.x
        now, hessians = after, None
        outcome.end = now
        wait -= share == 1.0
        barred = barred + 1 if share < 1.0 and share * speed < BARRED * tolerance else 0
        if barred > AGAIN:
            break
        level = max(level - (wait <= 0), 0)
        if share == 1.0 and speed <= tolerance and np.abs(now.violation).max(initial=0.0) <= violation:
            # Friction has gone by the pressures before the step: once more, by those at its end, unless
            # that takes long, as in a blow.
            if found_once is not None or not problem.press(now):
                return outcome
            found_once = (now, outcome.multipliers)
            iterations = min(iterations, len(outcome.speeds) + AGAIN)
    if found_once is not None:
        outcome.end, outcome.multipliers = found_once
        return outcome
    raise stalled(
        f"after {len(outcome.speeds)} iterations {speed:.3g} m/s to go, {tolerance:.3g} allowed"
        + ("; contact bars the way" if problem.contact is not None and share < 1.0 else "")
        + _open_joint(problem, now, outcome, violation)
    )


def _located(problem: Problem, now: Evaluation, worst: int, *, barred: bool, violation: float) -> Stall:
    """Where a step is stuck: at an open joint, at the nearest contact, or at what would still move most."""
    system, model = problem.system, problem.system.model
    if np.abs(now.violation).max(initial=0.0) > violation:
        equation = system.equations[int(np.abs(now.violation).argmax())]
        bond = model.joints[int(model.bond_of_joint[model.equations.joint_of[equation]])]
        return Stall.at("joint", (bond.first, bond.second), now.x[model.equations.first[equation]])
    if barred and (met := nearest_contact(problem, now)) is not None:
        return met
    freedom = system.freedom
    if not len(freedom):
        return Stall("convergence")
    cause: Cause = "contact" if barred else "convergence"
    if worst < len(freedom.particles):
        particle = int(freedom.particles[worst])
        return Stall.at(cause, (model.body_named(particle) or "",), now.x[particle])
    body = int(freedom.bodies[(worst - len(freedom.particles)) // 2])
    return Stall.at(cause, (model.rigid[body].name,), now.place.origins[body])


def nearest_contact(problem: Problem, now: Evaluation) -> Stall | None:
    """The two bodies in contact that are nearest to each other, as what bars the way, if there are any."""
    sides = None if problem.contact is None else problem.contact.nearest(now.x)
    if sides is None:
        return None
    model = problem.system.model
    names = dict.fromkeys(model.body_named(int(side[0])) or "" for side in sides)
    return Stall.at("contact", tuple(names), now.x[sides[0]].mean(0))


def _reachable(problem: Problem, starts: list[Place]) -> list[Evaluation]:
    """Those of the places that have a pose, and no contact between them and the last, where things are."""
    found = [there for there in map(problem.posed, starts) if there is not None]
    return [there for there in found[:-1] if problem.free_way(found[-1], there) == 1.0] + found[-1:]


def _open_joint(problem: Problem, now: Evaluation, outcome: Outcome, allowed: float) -> str:
    """Which joint is open, if one is, as text."""
    system = problem.system
    if not np.abs(now.violation).max(initial=0.0) > allowed:
        return ""
    worst = int(np.abs(now.violation).argmax())
    number = int(system.model.equations.joint_of[system.equations[worst]])
    return (
        f"; {system.model.describe_joint(number)} stays {abs(now.violation[worst]):.3g} m open: something "
        f"holds against it ({outcome.redundant} of {len(system.equations)} equations of joints are redundant)"
    )


class _Hessians:
    """The gradient's loads at a place, the exact and the projected matrix when asked for, and mixtures."""

    loads: Loads

    def __init__(self, problem: Problem, now: Evaluation, multipliers: Array) -> None:
        problem.differentiate(now)
        self.loads = problem.loads(now, multipliers)
        self._problem, self._now = problem, now
        self._made: dict[bool, tuple[Array, Array]] = {}

    def mixed(self, share: float) -> tuple[Array, Array]:
        """Data with that share of the projected matrix, and the least pivots that are right."""
        if share in (0.0, 1.0):
            return self._matrix(share == 1.0)
        exact, projected = self._matrix(False), self._matrix(True)
        data, least = (a + share * (b - a) for a, b in zip(exact, projected, strict=True))
        return data, least

    def _matrix(self, project: bool) -> tuple[Array, Array]:
        if project not in self._made:
            self._made[project] = self._problem.matrix(self._now, self.loads, project=project)
        return self._made[project]


def _forcing(speeds: list[float], tolerance: float) -> float:
    """What conjugate gradients may leave: as Newton's method itself will, or else far less than allowed."""
    if len(speeds) < 2:
        return LOOSE
    own, allowed = speeds[-1] / speeds[-2], tolerance / speeds[-1]
    return float(np.clip(0.1 * max(own, allowed), TIGHT, LOOSE))


def _direction(
    problem: Problem,
    now: Evaluation,
    outcome: Outcome,
    hessians: _Hessians,
    *,
    mixture: float,
    force: float,
    forcing: float,
) -> tuple[Array, Array, float, float] | None:
    """The Newton step (nodes, 3), the multipliers' change, the merit's slope, and the weight of violations.

    None if the matrix is not what a minimum needs, or the step does not lead downhill.
    """
    system, count = problem.system, len(problem.system.freedom)
    loads = hessians.loads
    data, least = hessians.mixed(mixture)
    right = -np.concatenate([loads.on_nodes.ravel(), now.violation])
    try:
        with problem.clock("solve"):
            solution = system.iterated(data, right, forcing)
    except IndefiniteError:
        if mixture < 1.0:
            return None
        solution = None
    if solution is None:
        with problem.clock("factor"):
            wrong = system.ldl.factor(data, least=least)
            outcome.factorisations += 1
        if mixture < 1.0 and wrong.any():
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
    share, again = 1.0, False
    while share >= SHORTEST:
        after = problem.posed(problem.moved(now.place, step, share))
        if after is not None:
            way = problem.free_way(now, after, again=again)
            if way < 1.0:
                share *= 0.5 if again else way
                again = True
                continue
        if after is not None and problem.evaluate(after):
            if trust or _fell(problem, now, after, share * slope, force):
                return after, share
            if share == 1.0 and len(after.violation):
                better = _closed(problem, after)
                if better is not None and problem.free_way(now, better) < 1.0:
                    better = None
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


def _largest(problem: Problem, step: Array) -> tuple[int, float]:
    """The node that moves most, and its way (m): of a particle, or of a body's outermost point."""
    freedom = problem.system.freedom
    with np.errstate(over="ignore"):  # a step that is not finite is an error with a name
        lengths = np.linalg.norm(step, axis=1)
    if len(freedom.bodies):
        lengths[len(freedom.particles) + 1 :: 2] *= problem.system.model.radii[freedom.bodies]
    worst = int(lengths.argmax())
    return worst, float(lengths[worst])
