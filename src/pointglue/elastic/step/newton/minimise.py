"""Newton's method with line search: exact Hessians first, mixed with projected ones if need be."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from ....checks import Array
from ...contact.impacts import ImpactSet
from ...linalg.cg import IndefiniteError
from ..active_set import held_ends, initial_set, penalties, set_multipliers, settled
from ..objective import Configuration, Evaluation, Loads, NewtonMatrix, Objective, ReducedHessian
from .accuracy import Accuracy, Move
from .mixture import Mixture
from .stalls import StalledError, collapsed_glue, locate_stall, no_start, open_joint

__all__ = ["Outcome", "minimise"]

ARMIJO_FRACTION = 1e-4  # ratio of the decrease that the slope promises: the least that a step must bring
MIN_STEP_FRACTION = 1e-7  # fraction of a Newton step below which the line search is given up
VALUE_ROUNDING = 1e-13  # ratio of the terms' sizes: smaller differences of values are rounding
# relative errors that conjugate gradients may leave, at first and at the end
MAX_FORCING, MIN_FORCING = 3e-3, 1e-4
# Newton steps in which friction may follow the normal forces, and that contact may cut to next to nothing
MAX_FRICTION_STEPS = 8
BLOCKED_RATIO = 1e-3  # ratio to what is allowed: a Newton step that contact cuts below this is blocked
# After some Newton steps in a row of which less than a fraction was taken, the next one is taken again with
# all impacts on its way if less than that is free of them; and how many times such ways are searched.
MAX_CUT_STEPS, MIN_FREE_FRACTION, MAX_LOOKS = 3, 0.5, 3
# ratio to the reach of contact: how far a joint may stay open where the last halving of a step is accepted as
# it is, since contact has kept it from closing; the next step goes on with it
JOINT_SLACK = 1e-2
# most guesses of which limits and motors act in one Newton step
MAX_ACTIVE_SETS = 12
# ratio of the largest multiplier: the weight of violations in the merit function, which must be above 1
PENALTY_RATIO = 1.5


@dataclass(eq=False)
class Outcome:
    """Where Newton's method has come to, and how.

    Parameters
    ----------
    end : Evaluation
        The last evaluation.
    multipliers : (M,)
        The multipliers of the joints' equations there [N].
    speeds : list of float
        The size of each Newton step: the largest way of a particle, divided by the time step [m/s].
    projected : int
        The number of Newton steps with projected Hessians.
    factorisations : int
        The number of factorisations.
    redundant : int
        The number of equations of joints that follow from others.
    mixture : Mixture
        The mixture of Hessians that the next step begins with.
    converged : bool
        Whether the last Newton step is within what is allowed.
    """

    end: Evaluation
    multipliers: Array
    speeds: list[float] = field(default_factory=list)
    projected: int = 0
    factorisations: int = 0
    redundant: int = 0
    mixture: Mixture = field(default_factory=Mixture)
    converged: bool = True


def minimise(
    objective: Objective,
    guesses: list[Configuration],
    multipliers: Array,
    accuracy: Accuracy,
    mixture: Mixture,
    *,
    violation: float,
    iterations: int,
    patience: float,
    watch: Callable[[], object],
) -> Outcome:
    """Find the end of a step, from the best of some initial guesses.

    Parameters
    ----------
    objective : Objective
        What the step minimises.
    guesses : list of Configuration
        Configurations to begin from; the last one is the current configuration.
    multipliers : (M,)
        The first multipliers of the joints' equations [N].
    accuracy : Accuracy
        What is allowed of a full Newton step that has converged.
    mixture : Mixture
        The mixture of exact and projected Hessians to begin with.
    violation : float
        How far joints may be open then [m].
    iterations : int
        The most Newton steps.
    patience : float
        The ratio to what is allowed that is accepted of the last Newton step, if none has converged.
    watch : callable
        A function that is called before each Newton step.

    Returns
    -------
    Outcome

    Raises
    ------
    StalledError
        If it does not converge.
    """
    penalty = 2 * float(np.abs(multipliers).max(initial=0.0))
    tried = [found for found in _reachable(objective, guesses) if objective.evaluate(found)]
    if not tried:
        raise no_start(objective)
    now = min(tried, key=lambda each: each.value + _penalty(objective, each.left_sides, penalty))
    mixture = replace(mixture)
    outcome = Outcome(now, multipliers.copy(), mixture=mixture)
    now.before = objective.before.positions
    fraction = 1.0
    move = Move(0, np.inf, np.inf)  # of the last Newton step

    def stalled(message: str) -> StalledError:
        """Return the error for a step that ends here."""
        collapsed = collapsed_glue(objective, outcome.end, len(outcome.speeds))
        if collapsed is not None:
            return collapsed
        blocked = objective.contact is not None and fraction < 1.0
        locate = partial(
            locate_stall,
            objective,
            outcome.end,
            outcome.multipliers,
            move.worst,
            blocked=blocked,
            violation=violation,
        )
        return StalledError(message, locate, len(outcome.speeds), blocked=blocked)

    hessians: _Hessians | None = None
    excesses: list[float] = []  # of the Newton steps, see `Move`
    converged: tuple[Evaluation, Array] | None = None  # without the last update of friction
    blocked_steps = 0  # Newton steps in a row that contact has cut to next to nothing
    cut_steps = 0  # Newton steps in a row of which less than MIN_FREE_FRACTION was taken
    if not len(objective.system.dofs):
        move, iterations = Move(0, 0.0, 0.0), 0
        if objective.open_by(now, outcome.multipliers).max(initial=0.0) <= violation:
            return outcome
    while len(outcome.speeds) < iterations:
        watch()
        if hessians is None:
            hessians = _Hessians(objective, now, outcome.multipliers)
        forcing = _forcing(excesses)
        direction = partial(
            _direction,
            objective,
            now,
            outcome,
            hessians,
            mixture=mixture.fraction,
            penalty=penalty,
            forcing=forcing,
            rounding=violation,
        )
        found = direction()
        after, fraction = None, 0.0
        if found is not None:
            move = accuracy.measure(found.step)
            if not np.isfinite(move.length):
                raise stalled("the Newton step is not finite")
            if cut_steps >= MAX_CUT_STEPS:
                # Whether this is the end is for the step without the impacts to tell, which hold it back.
                found = _past_impacts(objective, now, found, direction)
            penalty, change = found.penalty, found.change
            after, fraction = _line_search(objective, now, found, trust=move.excess <= 1.0)
        if found is None or after is None:
            if mixture.stiffen():
                continue
            if found is None and converged is None:
                raise stalled("the projected Newton step does not lead downhill")
            break
        outcome.speeds.append(move.length / accuracy.duration)
        excesses.append(move.excess)
        outcome.projected += mixture.level > 0
        outcome.multipliers = outcome.multipliers + fraction * change
        if fraction == 1.0 and move.excess <= 1.0:
            after = _closed(objective, after, found.ends, outcome.multipliers, violation)
        after.before = now.x
        now, hessians = after, None
        outcome.end = now
        blocked = fraction < 1.0 and fraction * move.excess < BLOCKED_RATIO
        blocked_steps = blocked_steps + 1 if blocked else 0
        cut_steps = cut_steps + 1 if objective.contact is not None and fraction < MIN_FREE_FRACTION else 0
        if blocked_steps > MAX_FRICTION_STEPS:
            break
        mixture.relax(full=fraction == 1.0)
        closed = objective.open_by(now, outcome.multipliers).max(initial=0.0) <= violation
        if fraction == 1.0 and move.excess <= 1.0 and closed:
            # The friction lag: friction has been computed with the normal forces before the step. It is
            # minimised once more with those at its end, unless that takes long, as in a blow.
            if converged is not None or not objective.update_friction(now):
                return outcome
            converged = (now, outcome.multipliers)
            iterations = min(iterations, len(outcome.speeds) + MAX_FRICTION_STEPS)
    if converged is not None:
        outcome.end, outcome.multipliers = converged
        return outcome
    if objective.contact is not None and np.isinf(patience):
        if found is not None:
            outcome.end = now = _closed(objective, now, found.ends, outcome.multipliers, violation)
        violation = max(violation, JOINT_SLACK * objective.contact.reach)
    closed = objective.open_by(now, outcome.multipliers).max(initial=0.0) <= violation
    if outcome.speeds and closed and move.excess <= patience:
        outcome.converged = False
        return outcome
    raise stalled(
        f"after {len(outcome.speeds)} iterations {move.length / accuracy.duration:.3g} m/s to go, "
        f"{move.excess:.3g} times what is allowed"
        + ("; contact bars the way" if objective.contact is not None and fraction < 1.0 else "")
        + open_joint(objective, now, outcome.multipliers, violation, outcome.redundant)
    )


def _reachable(objective: Objective, guesses: list[Configuration]) -> list[Evaluation]:
    """Return the guesses that have a pose and a collision-free path from the last, the current one."""
    found = [there for there in map(objective.posed, guesses) if there is not None]
    return [
        there for there in found[:-1] if objective.collision_free_fraction(found[-1], there) == 1.0
    ] + found[-1:]


class _Hessians:
    """The loads of the gradient at an evaluation, and mixtures of exact and projected matrix there."""

    loads: Loads

    def __init__(self, objective: Objective, now: Evaluation, multipliers: Array) -> None:
        objective.differentiate(now)
        self.loads = objective.loads(now, multipliers)
        self._objective, self._now = objective, now
        self._reduced: dict[bool, ReducedHessian] = {}

    def mixed(self, fraction: float, impacts: ImpactSet | None) -> NewtonMatrix:
        """Return the matrix with that fraction of the projected one, and with the terms of impacts."""
        if fraction in (0.0, 1.0):
            return self._matrix(fraction == 1.0, impacts)
        return self._matrix(False, impacts).mixed(self._matrix(True, impacts), fraction)

    def _matrix(self, project: bool, impacts: ImpactSet | None) -> NewtonMatrix:
        """Return the exact or the projected matrix."""
        if project not in self._reduced:
            self._reduced[project] = self._objective.reduced(self._now, self.loads, project=project)
        reduced = self._reduced[project]
        return self._objective.matrix(self._now, self.loads, reduced, project=project, impacts=impacts)


def _forcing(excesses: list[float]) -> float:
    """Return the relative error that conjugate gradients may leave, small beside that of Newton's step."""
    if len(excesses) < 2:
        return MAX_FORCING
    own, allowed = excesses[-1] / excesses[-2], 1 / excesses[-1]
    return float(np.clip(0.1 * max(own, allowed), MIN_FORCING, MAX_FORCING))


def _penalty(objective: Objective, left_sides: Array, penalty: float) -> float:
    """Return what open joints, limits and motors add to the merit function [J]."""
    if not objective.bounded:
        return penalty * float(np.abs(left_sides).sum())
    return float(penalties(objective.bounds, left_sides, penalty).sum())


@dataclass(frozen=True, eq=False)
class _NewtonStep:
    """A Newton step: of the nodes (nodes, 3) and of the multipliers (M,).

    The slope is that of the merit, which is the value plus what open rows cost, see `penalties`. `ends` are
    what the left sides of the equations that hold should be (M,), and not a number for other rows.
    """

    step: Array
    change: Array
    slope: float
    penalty: float
    ends: Array


def _direction(
    objective: Objective,
    now: Evaluation,
    outcome: Outcome,
    hessians: _Hessians,
    *,
    mixture: float,
    penalty: float,
    forcing: float,
    rounding: float,
    impacts: ImpactSet | None = None,
) -> _NewtonStep | None:
    """Return the Newton step, or None if the matrix is indefinite, or the step does not lead downhill."""
    system, count = objective.system, len(objective.system.dofs)
    loads = hessians.loads
    matrix = hessians.mixed(mixture, impacts)
    pulls = (matrix.penalties * now.left_sides)[system.constraint_equation, None] * now.constraint_jacobian
    on_nodes = loads.on_nodes.copy()
    if impacts is not None:
        on_nodes += objective.impact_loads(now, impacts)
    np.add.at(on_nodes, system.constraint_node, pulls)
    solve = partial(_solved, objective, outcome, matrix.least, mixture=mixture, forcing=forcing)
    if objective.bounded:
        found = _bounded_step(objective, now, outcome, on_nodes, matrix.data, solve, rounding)
    else:
        solution = solve(matrix.data, -np.concatenate([on_nodes.ravel(), now.left_sides]))
        found = None if solution is None else (solution, np.zeros(len(now.left_sides)))
    if found is None:
        return None
    solution, ends = found
    step, change = solution[: 3 * count].reshape(-1, 3), solution[3 * count :]
    # The slope is that of the value without the joints, which would add multipliers . C step.
    along = np.sum(now.constraint_jacobian * step[system.constraint_node], axis=1)
    slope = float(np.sum(loads.on_nodes * step) - outcome.multipliers[system.constraint_equation] @ along)
    after = outcome.multipliers + change
    penalty = max(penalty, PENALTY_RATIO * float(np.abs(after).max(initial=0.0)))
    there = now.left_sides + np.bincount(system.constraint_equation, along, len(now.left_sides))
    # The regularisation leaves equations open by next to nothing, which the next step closes: the slope is
    # that of a step that closes them, or it would be uphill where multipliers fall and nothing else changes.
    held = ~np.isnan(ends)
    slope += float(after[held] @ (there[held] - ends[held]))
    # What open rows cost is convex: along the step it changes by no more than to the step's linear end.
    there[held] = ends[held]
    cost = _penalty(objective, now.left_sides, penalty)
    slope += _penalty(objective, there, penalty) - cost
    if not slope <= VALUE_ROUNDING * (now.size + cost):
        return None
    return _NewtonStep(step, change, slope, penalty, ends)


def _past_impacts(
    objective: Objective,
    now: Evaluation,
    found: _NewtonStep,
    direction: Callable[..., _NewtonStep | None],
) -> _NewtonStep:
    """Return the step, or one that is taken again with the impacts on its way, whichever promises more."""
    best, promise = found, 0.0
    for again in range(MAX_LOOKS):
        after = objective.posed(objective.moved(now.configuration, found.step, 1.0))
        if after is None:
            break
        fraction = objective.collision_free_fraction(now, after)
        if again == 0 or fraction * found.slope < promise:
            best, promise = found, fraction * found.slope
        if fraction >= MIN_FREE_FRACTION or again == MAX_LOOKS - 1:
            break
        other = direction(impacts=objective.impacts(now, after))
        if other is None:
            break
        found = other
    return best


def _solved(
    objective: Objective,
    outcome: Outcome,
    least: Array,
    data: Array,
    right: Array,
    *,
    mixture: float,
    forcing: float,
) -> Array | None:
    """Return the solution of the linear system, or None if the matrix is indefinite or all but singular.

    Where the parents of glue collapse, its Hessian grows without bound, and the factors may overflow.
    """
    system = objective.system
    try:
        with objective.clock("solve"):
            solution = system.solve_iteratively(data, right, forcing)
    except IndefiniteError:
        if mixture < 1.0:
            return None
        solution = None
    if solution is None:
        with objective.clock("factor"):
            wrong = system.ldl.factor(data, least=least)
            outcome.factorisations += 1
        if mixture < 1.0 and wrong.any():
            return None
        with objective.clock("solve"):
            solution = system.ldl.solve(right)
        outcome.redundant = system.ldl.weak(10 * least)
    return solution if np.isfinite(solution).all() else None


def _bounded_step(
    objective: Objective,
    now: Evaluation,
    outcome: Outcome,
    on_nodes: Array,
    data: Array,
    solve: Callable[[Array, Array], Array | None],
    rounding: float,
) -> tuple[Array, Array] | None:
    """Return the Newton step with limits and motors, and the ends that rows are held at, see `_NewtonStep`.

    The rows that act are found by a primal-dual active set method: a row that is pulled at is let go, one
    that the step would take beyond its end is held, until nothing changes.
    """
    system, bounds, multipliers = objective.system, objective.bounds, outcome.multipliers
    count, C = 3 * len(system.dofs), now.constraint_jacobian
    active = initial_set(bounds, multipliers)
    for _ in range(MAX_ACTIVE_SETS):
        held, ends = held_ends(active, bounds)
        jump = np.where(held, 0.0, set_multipliers(active, bounds) - multipliers)
        pull = np.zeros((len(system.dofs), 3))
        np.add.at(pull, system.constraint_node, jump[system.constraint_equation, None] * C)
        rows = np.where(held, now.left_sides - ends - bounds.compliance * multipliers, jump)
        right = -np.concatenate([(on_nodes + pull).ravel(), rows])
        solution = solve(objective.uncoupled(data, ~held), right)
        if solution is None:
            return None
        step = solution[:count].reshape(-1, 3)
        along = np.sum(C * step[system.constraint_node], axis=1)
        there = now.left_sides + np.bincount(system.constraint_equation, along, len(now.left_sides))
        after = settled(active, bounds, there, multipliers + solution[count:], rounding)
        found = solution, np.where(held & (bounds.compliance == 0), ends, np.nan)
        if np.array_equal(after, active):
            break
        active = after
    return found


def _line_search(
    objective: Objective, now: Evaluation, found: _NewtonStep, *, trust: bool
) -> tuple[Evaluation | None, float]:
    """Return the first evaluation along the step, halving it, with enough decrease; and the fraction.

    A step that is below the tolerance is trusted, since rounding may hide what it brings.
    """
    fraction, again = 1.0, False
    while fraction >= MIN_STEP_FRACTION:
        after = objective.posed(objective.moved(now.configuration, found.step, fraction))
        if after is not None:
            collision_free = objective.collision_free_fraction(now, after, again=again)
            if collision_free < 1.0:
                fraction *= 0.5 if again else collision_free
                again = True
                continue
        if after is not None and objective.evaluate(after):
            if trust or _decreased(objective, now, after, found, fraction):
                return after, fraction
            if fraction == 1.0 and len(after.left_sides):
                better = _with_closed_joints(objective, after, found.ends)
                if better is not None and objective.collision_free_fraction(now, better) < 1.0:
                    better = None
                if better is not None and _decreased(objective, now, better, found, fraction):
                    return better, fraction
        fraction /= 2
    return None, 0.0


def _decreased(
    objective: Objective, now: Evaluation, after: Evaluation, found: _NewtonStep, fraction: float
) -> bool:
    """Return whether the merit has decreased by enough of what the slope promises (Armijo's condition)."""
    change = after.value - now.value
    costs = [_penalty(objective, each.left_sides, found.penalty) for each in (now, after)]
    change += costs[1] - costs[0]
    size = max(now.size + costs[0], after.size + costs[1])
    return change <= ARMIJO_FRACTION * fraction * found.slope + VALUE_ROUNDING * size


def _closed(
    objective: Objective, now: Evaluation, ends: Array, multipliers: Array, violation: float
) -> Evaluation:
    """Return a converged step's end with its joints closed to what is allowed, if two corrections do so.

    What a step opens is of second order in its length: cloth with a button may be where it should long before
    the button is.
    """
    best = now
    for _ in range(2):
        if objective.open_by(best, multipliers).max(initial=0.0) <= violation:
            return best
        better = _with_closed_joints(objective, best, ends)
        if better is None or objective.collision_free_fraction(best, better) < 1.0:
            break
        best = better
    return best if objective.open_by(best, multipliers).max(initial=0.0) <= violation else now


def _with_closed_joints(objective: Objective, after: Evaluation, ends: Array) -> Evaluation | None:
    """Return a step's end with the joints closed that their curvature has opened, by the last factors."""
    count = 3 * len(objective.system.dofs)
    with objective.clock("solve"):
        gaps = np.where(np.isnan(ends), 0.0, after.left_sides - ends)
        back = objective.system.ldl.solve(np.concatenate([np.zeros(count), -gaps]))
    return objective.at(objective.moved(after.configuration, back[:count].reshape(-1, 3), 1.0))
