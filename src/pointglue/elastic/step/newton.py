"""Newton's method with line search: exact Hessians first, mixed with projected ones if need be."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ...checks import Array
from ...errors import ConvergenceError
from ..linalg.cg import IndefiniteError
from ..state import Stall, StallCause
from .objective import Configuration, Evaluation, Loads, NewtonMatrix, Objective

__all__ = ["Outcome", "StalledError", "minimise", "nearest_contact"]

ARMIJO_FRACTION = 1e-4  # ratio of the decrease that the slope promises: the least that a step must bring
MIN_STEP_FRACTION = 1e-7  # fraction of a Newton step below which the line search is given up
VALUE_ROUNDING = 1e-13  # ratio of the terms' sizes: smaller differences of values are rounding
# Fractions of the projected Hessian, tried in turn until the matrix is definite. Where little is wrong with
# the exact one, the projected one is far too stiff, and leaves a saddle in dozens of short steps.
PROJECTED_FRACTIONS = (0.0, 1 / 8, 1 / 2, 1.0)
MAX_MIXTURE_STEPS = (
    8  # most full steps with one mixture before one with less of the projected Hessian is tried
)
# relative errors that conjugate gradients may leave, at first and at the end
MAX_FORCING, MIN_FORCING = 3e-3, 1e-4
# Newton steps in which friction may follow the normal forces, and that contact may cut to next to nothing
MAX_FRICTION_STEPS = 8
BLOCKED_SPEED_RATIO = 1e-3  # ratio of the tolerance: a Newton step that contact cuts below this is blocked
# ratio of the largest multiplier: the weight of violations in the merit function, which must be above 1
PENALTY_RATIO = 1.5


class StalledError(ConvergenceError):
    """A step did not converge.

    Parameters
    ----------
    message : str
        How far it came.
    locate : callable
        A function that returns where it is stuck. It is called only where the step is not tried again, since
        the search may take long.
    iterations : int
        How many Newton steps were taken.
    """

    def __init__(self, message: str, locate: Callable[[], Stall], iterations: int = 0) -> None:
        super().__init__(message)
        self.locate, self.iterations = locate, iterations


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
    """

    end: Evaluation
    multipliers: Array
    speeds: list[float] = field(default_factory=list)
    projected: int = 0
    factorisations: int = 0
    redundant: int = 0


def minimise(
    objective: Objective,
    guesses: list[Configuration],
    multipliers: Array,
    duration: float,
    *,
    tolerance: float,
    violation: float,
    iterations: int,
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
    duration : float
        The duration of the step [s].
    tolerance : float
        The speed below which a full Newton step is converged [m/s].
    violation : float
        How far joints may be open then [m].
    iterations : int
        The most Newton steps.
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
        raise StalledError("no starting point has a finite energy", lambda: Stall("convergence"))
    now = min(tried, key=lambda each: each.value + penalty * np.abs(each.violation).sum())
    outcome = Outcome(now, multipliers.copy())
    now.before = objective.before.positions
    level, speed, fraction = 0, np.inf, 1.0
    worst = 0  # the node that the last Newton step moves most

    def stalled(message: str) -> StalledError:
        """Return the error for a step that ends here."""
        blocked = objective.contact is not None and fraction < 1.0
        locate = partial(_locate_stall, objective, now, worst, blocked=blocked, violation=violation)
        return StalledError(message, locate, len(outcome.speeds))

    wait, pause = 0, 1  # full steps until a mixture with less of the projected Hessian is tried
    hessians: _Hessians | None = None
    converged: tuple[Evaluation, Array] | None = None  # without the last update of friction
    blocked_steps = 0  # Newton steps in a row that contact has cut to next to nothing
    if not len(objective.system.dofs):
        speed, iterations = 0.0, 0
        if np.abs(now.violation).max(initial=0.0) <= violation:
            return outcome
    while len(outcome.speeds) < iterations:
        watch()
        if hessians is None:
            hessians = _Hessians(objective, now, outcome.multipliers)
        forcing = _forcing(outcome.speeds, tolerance)
        found = _direction(
            objective,
            now,
            outcome,
            hessians,
            mixture=PROJECTED_FRACTIONS[level],
            penalty=penalty,
            forcing=forcing,
        )
        after, fraction = None, 0.0
        if found is not None:
            step, change, slope, penalty = found
            worst, way = _largest_move(objective, step)
            speed = way / duration
            if not np.isfinite(speed):
                raise stalled("the Newton step is not finite")
            after, fraction = _line_search(objective, now, step, slope, penalty, trust=speed <= tolerance)
        if found is None or after is None:
            level += 1
            if level < len(PROJECTED_FRACTIONS):
                wait, pause = pause, min(2 * pause, MAX_MIXTURE_STEPS)
                continue
            if found is None and converged is None:
                raise stalled("the projected Newton step does not lead downhill")
            break
        outcome.speeds.append(speed)
        outcome.projected += level > 0
        outcome.multipliers = outcome.multipliers + fraction * change
        after.before = now.x
        now, hessians = after, None
        outcome.end = now
        wait -= fraction == 1.0
        blocked = fraction < 1.0 and fraction * speed < BLOCKED_SPEED_RATIO * tolerance
        blocked_steps = blocked_steps + 1 if blocked else 0
        if blocked_steps > MAX_FRICTION_STEPS:
            break
        level = max(level - (wait <= 0), 0)
        if fraction == 1.0 and speed <= tolerance and np.abs(now.violation).max(initial=0.0) <= violation:
            # The friction lag: friction has been computed with the normal forces before the step. It is
            # minimised once more with those at its end, unless that takes long, as in a blow.
            if converged is not None or not objective.update_friction(now):
                return outcome
            converged = (now, outcome.multipliers)
            iterations = min(iterations, len(outcome.speeds) + MAX_FRICTION_STEPS)
    if converged is not None:
        outcome.end, outcome.multipliers = converged
        return outcome
    raise stalled(
        f"after {len(outcome.speeds)} iterations {speed:.3g} m/s to go, {tolerance:.3g} allowed"
        + ("; contact bars the way" if objective.contact is not None and fraction < 1.0 else "")
        + _open_joint(objective, now, outcome, violation)
    )


def _locate_stall(
    objective: Objective, now: Evaluation, worst: int, *, blocked: bool, violation: float
) -> Stall:
    """Return where a step is stuck: at an open joint, the nearest contact, or what would still move most."""
    system, model = objective.system, objective.system.model
    if np.abs(now.violation).max(initial=0.0) > violation:
        equation = system.equations[int(np.abs(now.violation).argmax())]
        bodies = model.joined_bodies(int(model.equations.joint_of[equation]))
        return Stall.at("joint", bodies, now.x[model.equations.first[equation]])
    if blocked and (met := nearest_contact(objective, now)) is not None:
        return met
    dofs = system.dofs
    if not len(dofs):
        return Stall("convergence")
    cause: StallCause = "contact" if blocked else "convergence"
    if worst < len(dofs.particles):
        particle = int(dofs.particles[worst])
        return Stall.at(cause, (model.body_named(particle) or "",), now.x[particle])
    body = int(dofs.bodies[(worst - len(dofs.particles)) // 2])
    return Stall.at(cause, (model.rigid[body].name,), now.configuration.origins[body])


def nearest_contact(objective: Objective, now: Evaluation) -> Stall | None:
    """Return the stall between the two bodies in contact that are nearest to each other, if there are any."""
    sides = None if objective.contact is None else objective.contact.nearest(now.x)
    if sides is None:
        return None
    model = objective.system.model
    names = dict.fromkeys(model.body_named(int(side[0])) or "" for side in sides)
    return Stall.at("contact", tuple(names), now.x[sides[0]].mean(0))


def _reachable(objective: Objective, guesses: list[Configuration]) -> list[Evaluation]:
    """Return the guesses that have a pose and a collision-free path from the last, the current one."""
    found = [there for there in map(objective.posed, guesses) if there is not None]
    return [
        there for there in found[:-1] if objective.collision_free_fraction(found[-1], there) == 1.0
    ] + found[-1:]


def _open_joint(objective: Objective, now: Evaluation, outcome: Outcome, allowed: float) -> str:
    """Return a text that tells which joint is open, or an empty one."""
    system = objective.system
    if not np.abs(now.violation).max(initial=0.0) > allowed:
        return ""
    worst = int(np.abs(now.violation).argmax())
    number = int(system.model.equations.joint_of[system.equations[worst]])
    return (
        f"; {system.model.describe_joint(number)} stays {abs(now.violation[worst]):.3g} m open: something "
        f"holds against it ({outcome.redundant} of {len(system.equations)} equations of joints are redundant)"
    )


class _Hessians:
    """The loads of the gradient at an evaluation, and mixtures of exact and projected matrix there."""

    loads: Loads

    def __init__(self, objective: Objective, now: Evaluation, multipliers: Array) -> None:
        objective.differentiate(now)
        self.loads = objective.loads(now, multipliers)
        self._problem, self._now = objective, now
        self._matrices: dict[bool, NewtonMatrix] = {}

    def mixed(self, fraction: float) -> NewtonMatrix:
        """Return the matrix with that fraction of the projected one."""
        if fraction in (0.0, 1.0):
            return self._matrix(fraction == 1.0)
        return self._matrix(False).mixed(self._matrix(True), fraction)

    def _matrix(self, project: bool) -> NewtonMatrix:
        """Return the exact or the projected matrix, which is computed once."""
        if project not in self._matrices:
            self._matrices[project] = self._problem.matrix(self._now, self.loads, project=project)
        return self._matrices[project]


def _forcing(speeds: list[float], tolerance: float) -> float:
    """Return the relative error that conjugate gradients may leave, small beside that of Newton's step."""
    if len(speeds) < 2:
        return MAX_FORCING
    own, allowed = speeds[-1] / speeds[-2], tolerance / speeds[-1]
    return float(np.clip(0.1 * max(own, allowed), MIN_FORCING, MAX_FORCING))


def _direction(
    objective: Objective,
    now: Evaluation,
    outcome: Outcome,
    hessians: _Hessians,
    *,
    mixture: float,
    penalty: float,
    forcing: float,
) -> tuple[Array, Array, float, float] | None:
    """Return the Newton step (nodes, 3), the multipliers' change, the merit's slope and the new penalty.

    Return None if the matrix is indefinite, or the step does not lead downhill. The merit is the value plus
    the penalty times the sum of violations.
    """
    system, count = objective.system, len(objective.system.dofs)
    loads = hessians.loads
    matrix = hessians.mixed(mixture)
    data, least = matrix.data, matrix.least
    pulls = (matrix.penalties * now.violation)[system.constraint_equation, None] * now.constraint_jacobian
    on_nodes = loads.on_nodes.copy()
    np.add.at(on_nodes, system.constraint_node, pulls)
    right = -np.concatenate([on_nodes.ravel(), now.violation])
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
    step, change = solution[: 3 * count].reshape(-1, 3), solution[3 * count :]
    # The slope is that of the value without the joints, which would add multipliers . C step.
    along = np.sum(now.constraint_jacobian * step[system.constraint_node], axis=1)
    slope = float(np.sum(loads.on_nodes * step) - outcome.multipliers[system.constraint_equation] @ along)
    largest = float(np.abs(outcome.multipliers + change).max(initial=0.0))
    penalty = max(penalty, PENALTY_RATIO * largest)
    slope -= penalty * float(np.abs(now.violation).sum())
    if not slope <= VALUE_ROUNDING * now.size:
        return None
    return step, change, slope, penalty


def _line_search(
    objective: Objective, now: Evaluation, step: Array, slope: float, penalty: float, *, trust: bool
) -> tuple[Evaluation | None, float]:
    """Return the first evaluation along the step, halving it, with enough decrease; and the fraction.

    A step that is below the tolerance is trusted, since rounding may hide what it brings.
    """
    fraction, again = 1.0, False
    while fraction >= MIN_STEP_FRACTION:
        after = objective.posed(objective.moved(now.configuration, step, fraction))
        if after is not None:
            collision_free = objective.collision_free_fraction(now, after, again=again)
            if collision_free < 1.0:
                fraction *= 0.5 if again else collision_free
                again = True
                continue
        if after is not None and objective.evaluate(after):
            if trust or _decreased(objective, now, after, fraction * slope, penalty):
                return after, fraction
            if fraction == 1.0 and len(after.violation):
                better = _with_closed_joints(objective, after)
                if better is not None and objective.collision_free_fraction(now, better) < 1.0:
                    better = None
                if better is not None and _decreased(objective, now, better, fraction * slope, penalty):
                    return better, fraction
        fraction /= 2
    return None, 0.0


def _decreased(
    objective: Objective, now: Evaluation, after: Evaluation, promised: float, penalty: float
) -> bool:
    """Return whether the merit has decreased by enough of what was promised (Armijo's condition)."""
    change = after.value - now.value
    change += penalty * float(np.abs(after.violation).sum() - np.abs(now.violation).sum())
    return change <= ARMIJO_FRACTION * promised + VALUE_ROUNDING * max(now.size, after.size)


def _with_closed_joints(objective: Objective, after: Evaluation) -> Evaluation | None:
    """Return a step's end with the joints closed that their curvature has opened, by the last factors."""
    count = 3 * len(objective.system.dofs)
    with objective.clock("solve"):
        back = objective.system.ldl.solve(np.concatenate([np.zeros(count), -after.violation]))
    return objective.at(objective.moved(after.configuration, back[:count].reshape(-1, 3), 1.0))


def _largest_move(objective: Objective, step: Array) -> tuple[int, float]:
    """Return the node that moves most, and its way [m], that of a particle or of a body's outermost point."""
    dofs = objective.system.dofs
    with np.errstate(over="ignore"):  # a step that is not finite is an error with a name
        lengths = np.linalg.norm(step, axis=1)
    if len(dofs.bodies):
        lengths[len(dofs.particles) + 1 :: 2] *= objective.system.model.radii[dofs.bodies]
    worst = int(lengths.argmax())
    return worst, float(lengths[worst])
